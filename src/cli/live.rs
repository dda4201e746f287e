//! The view that a terminal shows during a run: standings after the rounds so far, the current work, and the time left.
//!
//! It is drawn when a visit or a phase begins, never during timed work. Watching does not affect the result, because the number
//! of rounds is fixed by rule.

use std::cell::Cell;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::eprint;
use super::screen::{Screen, bar};
use crate::corpus::CorpusId;
use crate::engine::run::Event;
use crate::host::machine;
use crate::plan::Plan;
use crate::records::Records;
use crate::report::live::LiveRanking;
use crate::report::terminal::folded;
use crate::result::RunResult;
use crate::units;

/// Redraws are skipped while their share of the time so far is above this; phases of milliseconds need not be visible.
const SHARE_MAX: f64 = 0.004;
/// Processor time that may be spent before that limit applies.
const CREDIT: Duration = Duration::from_millis(2);

/// The view of a run.
pub struct LiveView<'a> {
    plan: &'a Plan,
    screen: Screen,
    standings: LiveRanking,
    /// Current visit, from 1, and number of visits.
    visit: (usize, usize),
    candidate: String,
    doing: String,
    /// Estimated end of the run, by [`machine::uptime`].
    end: Option<Duration>,
    since: Duration,
    spent: Cell<Duration>,
}

impl<'a> LiveView<'a> {
    /// Creates the view of a new run.
    pub fn new(plan: &'a Plan, screen: Screen) -> LiveView<'a> {
        let shown = plan.candidates.iter().filter(|candidate| !candidate.is_baseline());
        LiveView {
            plan,
            screen,
            standings: LiveRanking::new(shown.map(|candidate| candidate.label.clone())),
            visit: (1, 1),
            candidate: String::new(),
            doing: String::new(),
            end: None,
            since: machine::uptime(),
            spent: Cell::default(),
        }
    }

    /// Handles an event of the run.
    pub fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Note(text) => {
                let lines = folded(text, self.screen.size().0);
                self.screen.aside(|| eprint(&lines.join("\n")));
            }
            Event::Pilot { candidate, index, of } => {
                (self.visit, self.end) = ((*index, *of), None);
                self.begins(candidate, format!("pilot: {candidate}"));
            }
            Event::Phase(phase) => self.timed(|live| live.show(Some(phase))),
            Event::Done(_) => {}
            Event::Visit { round, rounds, candidate, corpus_id, index, of, seconds_left } => {
                self.visit = (*index, *of);
                self.end =
                    seconds_left.map(|left| machine::uptime() + Duration::from_secs_f64(left.max(0.0)));
                let size = at_size(*corpus_id);
                self.begins(candidate, format!("round {round}/{rounds}: {candidate}{size}"));
            }
        }
    }

    fn begins(&mut self, candidate: &str, doing: String) {
        candidate.clone_into(&mut self.candidate);
        self.doing = doing;
        self.timed(|live| live.show(None));
    }

    /// Handles a finished visit. If it completes a round, the standings are updated.
    pub fn kept(&mut self, records: &Records, result: &RunResult) {
        if let Some(visit) = records.store_rounds.last()
            && self.is_through(records, visit.round)
        {
            let (before, standings) = (thread_time(), LiveRanking::from_result(result));
            self.standings = standings;
            self.spent.set(self.spent.get() + thread_time().saturating_sub(before));
        }
    }

    fn is_through(&self, records: &Records, round: u32) -> bool {
        let mut corpora = self.plan.corpora.iter().map(|corpus| corpus.corpus_id);
        corpora.all(|corpus_id| {
            self.plan.candidates.iter().all(|candidate| {
                records.has(&candidate.label, corpus_id, round) || records.has_failed(&candidate.label)
            })
        })
    }

    /// Runs `print` with the view out of the way, so that output appears above it.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.screen.aside(print)
    }

    /// Removes the view.
    pub fn clear(&self) {
        self.screen.clear();
    }

    /// Redraws with `show`, unless too much time has been spent already.
    fn timed(&self, show: impl FnOnce(&Self)) {
        let allowed = (machine::uptime().saturating_sub(self.since)).mul_f64(SHARE_MAX) + CREDIT;
        if self.spent.get() > allowed {
            return;
        }
        let before = thread_time();
        show(self);
        self.spent.set(self.spent.get() + thread_time().saturating_sub(before));
    }

    fn show(&self, phase: Option<&str>) {
        let (width, height) = self.screen.size();
        let (index, of) = self.visit;
        let left = self.end.map(|end| end.saturating_sub(machine::uptime()).as_secs_f64());
        let left = left.map(|left| format!("about {} left", units::seconds(left))).unwrap_or_default();
        let phase = phase.map(|phase| format!(": {phase}")).unwrap_or_default();
        let below = [bar(index, of, &left), format!("{}{phase}", self.doing)];
        let above = height.saturating_sub(below.len());
        let mut lines = self.standings.lines(Some(&self.candidate), (width, above));
        lines.extend(below);
        self.screen.draw(lines);
    }
}

/// Suffix that states the size of a sweep.
pub fn at_size(corpus_id: CorpusId) -> String {
    corpus_id.bytes().map(|bytes| format!(" at {}", units::bytes(bytes as f64))).unwrap_or_default()
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}
