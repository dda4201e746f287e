//! Progress on standard error: a bar with the time left on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

use crate::engine::run::{Event, Observer};
use crate::host::machine;
use crate::host::place::{Neighbours, Place};
use crate::judge::summary;
use crate::plan::Plan;
use crate::records::Records;
use crate::result::{Disturbance, RunResult};
use crate::shown;
use crate::units;

/// A bar on a terminal, lines elsewhere.
pub struct Bar {
    bar: Option<ProgressBar>,
    quiet: bool,
}

impl Bar {
    /// A bar, lines, or nothing when `quiet`.
    pub fn new(quiet: bool) -> Bar {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(1);
            if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len}  {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Bar { bar, quiet }
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| super::eprint(text)),
            None if self.quiet => {}
            None => super::eprint(text),
        }
    }

    /// Step `index` (from 1) of `of` begins: without a terminal, nothing is said of it.
    pub fn on_terminal(&self, index: usize, of: usize, text: &dyn Fn() -> String) {
        if self.bar.is_some() {
            self.step(index, of, text());
        }
    }

    /// Step `index` (from 1) of `of` begins.
    fn step(&self, index: usize, of: usize, text: String) {
        match &self.bar {
            Some(bar) => {
                bar.set_length(of as u64);
                bar.set_position(index as u64 - 1);
                bar.set_message(shown::on_terminal(&text).into_owned());
            }
            None => self.line(&format!("[{index}/{of}] {text}")),
        }
    }

    /// The same for many short steps: without a terminal, every tenth part of them has a line.
    pub fn now_and_then(&self, index: usize, of: usize, text: String) {
        if self.bar.is_some() || (index - 1).is_multiple_of(of.div_ceil(10)) {
            self.step(index, of, text);
        }
    }

    /// Does what prints, with no bar in its way.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loudness {
    /// Nothing but the report.
    Quiet,
    /// Every visit.
    Normal,
    /// Every phase.
    Verbose,
}

/// A visit that has lasted this long tells its phases, too, where there is no bar to show them.
const LONG_VISIT: Duration = Duration::from_secs(60);

/// Shows progress and keeps the result file up to date.
pub struct Progress<'a> {
    plan: &'a Plan,
    out: std::path::PathBuf,
    bar: Bar,
    loudness: Loudness,
    /// The visit that the bar shows.
    visit: String,
    /// When it began, by [`machine::uptime`].
    since: Duration,
    /// Others in the same directory, until they were seen.
    neighbours: Option<Neighbours>,
}

impl<'a> Progress<'a> {
    /// Progress of a plan whose result goes to `out`.
    pub fn new(plan: &'a Plan, out: std::path::PathBuf, place: &Place, loudness: Loudness) -> Progress<'a> {
        let (bar, since) = (Bar::new(loudness == Loudness::Quiet), machine::uptime());
        let neighbours = place.neighbours().ok();
        Progress { plan, out, bar, loudness, visit: String::new(), since, neighbours }
    }

    /// Says once that another run works in the same directory.
    fn look_around(&mut self) {
        if self.neighbours.take_if(|neighbours| neighbours.are_there()).is_some() {
            self.bar.aside(|| {
                super::eprint(&format!(
                    "warning: another run of blobwise works in `{}`: each disturbs the figures of the other; do one after the other",
                    self.plan.dir.display()
                ));
            });
        }
    }

    fn step(&mut self, index: usize, of: usize, text: String) {
        self.look_around();
        self.visit.clone_from(&text);
        self.since = machine::uptime();
        self.bar.step(index, of, text);
    }

    fn phase(&self, phase: &str) {
        match &self.bar.bar {
            Some(bar) => {
                bar.set_message(shown::on_terminal(&format!("{}: {phase}", self.visit)).into_owned());
            }
            None if self.loudness == Loudness::Verbose => self.bar.line(&format!("  {phase}")),
            None => {
                let lasted = machine::uptime().saturating_sub(self.since);
                if lasted > LONG_VISIT {
                    self.bar.line(&format!("  {phase}, after {}", units::seconds(lasted.as_secs_f64())));
                }
            }
        }
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.clear();
    }
}

impl Observer for Progress<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Note(text) => self.bar.line(text),
            Event::Pilot { candidate, index, of } => self.step(index, of, format!("pilot: {candidate}")),
            Event::Phase(phase) => self.phase(phase),
            Event::Visit { round, rounds, candidate, corpus_id, index, of, seconds_left } => {
                let size = corpus_id
                    .bytes()
                    .map(|bytes| format!(" at {}", units::bytes(bytes as f64)))
                    .unwrap_or_default();
                let left = seconds_left
                    .map(|left| format!(", about {} left", units::seconds(left)))
                    .unwrap_or_default();
                self.step(index, of, format!("round {round}/{rounds}: {candidate}{size}{left}"));
            }
        }
    }

    fn save(&mut self, records: &Records) -> Result<()> {
        summarize(self.plan, records)?.save(&self.out)
    }

    fn rounds_needed(&mut self, records: &Records, most: u32) -> u32 {
        summary::rounds_needed(self.plan, records, most).unwrap_or(most)
    }

    fn disturbances(&mut self, records: &Records) -> Result<Vec<Disturbance>> {
        summary::disturbances(self.plan, records)
    }
}

/// The result so far.
pub fn summarize(plan: &Plan, records: &Records) -> Result<RunResult> {
    summary::summarize(plan, records)
}
