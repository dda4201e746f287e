//! Progress on standard error: a redrawn view on a terminal, plain lines elsewhere.

use std::time::Duration;

use anyhow::Result;

use super::live::{LiveView, at_size};
use super::screen::{Screen, bar};
use crate::engine::run::{Event, Observer};
use crate::host::machine;
use crate::host::place::{Place, SharedDirectory};
use crate::judge::summary;
use crate::plan::Plan;
use crate::records::Records;
use crate::result::Disturbance;
use crate::units;

/// A progress bar on a terminal, plain lines elsewhere.
pub struct ProgressBar {
    screen: Option<Screen>,
    quiet: bool,
}

impl ProgressBar {
    /// Creates a bar or lines, or nothing if `quiet`.
    pub fn new(quiet: bool) -> ProgressBar {
        ProgressBar { screen: if quiet { None } else { Screen::of_stderr() }, quiet }
    }

    /// Creates lines even on a terminal, or nothing if `quiet`.
    fn plain(quiet: bool) -> ProgressBar {
        ProgressBar { screen: None, quiet }
    }

    fn line(&self, text: &str) {
        match &self.screen {
            Some(screen) => screen.aside(|| super::eprint(text)),
            None if self.quiet => {}
            None => super::eprint(text),
        }
    }

    /// Shows that step `index` (from 1) of `of` begins, on a terminal only.
    pub fn on_terminal(&self, index: usize, of: usize, text: &dyn Fn() -> String) {
        if self.screen.is_some() {
            self.step(index, of, &text());
        }
    }

    /// Shows that step `index` (from 1) of `of` begins.
    fn step(&self, index: usize, of: usize, text: &str) {
        match &self.screen {
            Some(screen) => screen.draw(vec![bar(index, of, text)]),
            None => self.line(&format!("[{index}/{of}] {text}")),
        }
    }

    /// Like `step`, for many short steps: without a terminal, one in ten gets a line.
    pub fn now_and_then(&self, index: usize, of: usize, text: &str) {
        if self.screen.is_some() || (index - 1).is_multiple_of(of.div_ceil(10)) {
            self.step(index, of, text);
        }
    }

    /// Runs `print` with the bar out of the way.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.screen {
            Some(screen) => screen.aside(print),
            None => print(),
        }
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.screen.iter().for_each(|screen| drop(screen.clear()));
    }
}

/// Amount of progress output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// Only the report.
    Quiet,
    /// Every visit.
    Normal,
    /// Every phase.
    Verbose,
}

/// Visits longer than this also report their phases, if there is no view that shows them.
const LONG_VISIT: Duration = Duration::from_secs(60);

/// Shows progress, and keeps the result file up to date.
pub struct Progress<'a> {
    plan: &'a Plan,
    out: std::path::PathBuf,
    live: Option<LiveView<'a>>,
    lines: ProgressBar,
    loudness: Verbosity,
    /// Start of the current visit, by [`machine::uptime`].
    since: Duration,
    /// Watches for other runs in the same directory, until one is seen.
    neighbours: Option<SharedDirectory>,
}

impl<'a> Progress<'a> {
    /// Creates the progress of a plan whose result goes to `out`; with a view on a terminal if `is_live`.
    pub fn new(
        plan: &'a Plan,
        out: std::path::PathBuf,
        place: &Place,
        loudness: Verbosity,
        is_live: bool,
    ) -> Progress<'a> {
        let quiet = loudness == Verbosity::Quiet;
        let screen = if quiet || !is_live { None } else { Screen::of_stderr() };
        let live = screen.map(|screen| LiveView::new(plan, screen));
        let (lines, since, neighbours) =
            (ProgressBar::plain(quiet), machine::uptime(), place.neighbours().ok());
        Progress { plan, out, live, lines, loudness, since, neighbours }
    }

    /// Warns once if another run works in the same directory.
    fn look_around(&mut self) {
        if self.neighbours.take_if(|neighbours| neighbours.are_there()).is_some() {
            let said = format!(
                "warning: another run of blobwise works in `{}`: each disturbs the figures of the other; do one after the other",
                self.plan.dir.display()
            );
            match &self.live {
                Some(live) => live.aside(|| super::eprint(&said)),
                None => super::eprint(&said),
            }
        }
    }

    fn step(&mut self, index: usize, of: usize, text: &str) {
        self.since = machine::uptime();
        self.lines.step(index, of, text);
    }

    fn phase(&self, phase: &str) {
        if self.loudness == Verbosity::Verbose {
            return self.lines.line(&format!("  {phase}"));
        }
        let lasted = machine::uptime().saturating_sub(self.since);
        if lasted > LONG_VISIT {
            self.lines.line(&format!("  {phase}, after {}", units::seconds(lasted.as_secs_f64())));
        }
    }

    /// Removes the view.
    pub fn clear(&self) {
        self.live.iter().for_each(LiveView::clear);
    }
}

impl Observer for Progress<'_> {
    fn event(&mut self, event: Event<'_>) {
        if matches!(event, Event::Pilot { .. } | Event::Visit { .. }) {
            self.look_around();
        }
        if let Some(live) = &mut self.live {
            return live.event(&event);
        }
        match event {
            Event::Note(text) => self.lines.line(text),
            Event::Pilot { candidate, index, of } => self.step(index, of, &format!("pilot: {candidate}")),
            Event::Phase(phase) => self.phase(phase),
            Event::Done(outcome) if self.loudness == Verbosity::Verbose => {
                self.lines.line(&format!("  {}", outcome.times()));
            }
            Event::Done(_) => {}
            Event::Visit { round, rounds, candidate, corpus_id, index, of, seconds_left } => {
                let size = at_size(corpus_id);
                let left = seconds_left
                    .map(|left| format!(", about {} left", units::seconds(left)))
                    .unwrap_or_default();
                self.step(index, of, &format!("round {round}/{rounds}: {candidate}{size}{left}"));
            }
        }
    }

    fn save(&mut self, records: &Records) -> Result<()> {
        let result = summary::summarize(self.plan, records)?;
        result.save(&self.out)?;
        if let Some(live) = &mut self.live {
            live.kept(records, &result);
        }
        Ok(())
    }

    fn rounds_needed(&mut self, records: &Records, most: u32) -> u32 {
        summary::rounds_needed(self.plan, records, most).unwrap_or(most)
    }

    fn disturbances(&mut self, records: &Records) -> Result<Vec<Disturbance>> {
        summary::disturbances(self.plan, records)
    }
}
