//! Cost of watching a run: processor time of the terminal view, as a share of the run.

use crate::engine::work::ResolvePlan;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::met;
use crate::cli::live::{LiveView, SHARE_MAX};
use crate::cli::run::program;
use crate::cli::screen::Screen;
use crate::cli::signals::Signals;
use crate::engine::run::{Event, Observer, Start, run};
use crate::host::machine;
use crate::judge::summary;
use crate::plan::{CorpusText, Length, Plan, PlanText};
use crate::records::Records;
use crate::store::Durability;
use crate::units;

/// Number of blobs; this many ops are ranked however short they are, so that the table has figures.
const BLOBS: u64 = 200;
/// Length of a read phase in seconds; far shorter than in a normal run, so that redraws are more frequent.
const SECONDS: f64 = 0.05;
const ROUNDS: u32 = 2;
const TERMINAL: Winsize = Winsize { ws_col: 80, ws_row: 24, ws_xpixel: 0, ws_ypixel: 0 };

/// Directory of the run if there is enough memory: on a busy disk, the run would take a minute, which would make the share
/// smaller.
const IN_MEMORY: &str = "/dev/shm";
/// Required space for one store at a time; some begin with large files.
const ROOM_BYTES: u64 = 1 << 30;

/// Runs the default plan's candidates, in memory or in this directory; returns a sentence and true if the goal is met.
pub fn cost(dir: &Path, signals: &Signals) -> Result<(String, bool)> {
    let goal = format!("goal: the view of a run takes at most {} % of its time", SHARE_MAX * 100.0);
    let (screen, mut other_end) = match terminal() {
        Ok(ends) => ends,
        Err(why) => return Ok((format!("{goal}: not measurable here: {why:#}"), true)),
    };
    let reader = std::thread::Builder::new().spawn(move || {
        // Ends with an error once the other side is closed.
        std::io::copy(&mut other_end.by_ref(), &mut std::io::sink()).ok();
    })?;
    let has_room = |path: &Path| {
        rustix::fs::statvfs(path).is_ok_and(|found| found.f_bavail * found.f_frsize > ROOM_BYTES)
    };
    let plan = plan(Some(Path::new(IN_MEMORY)).filter(|path| has_room(path)).unwrap_or(dir))?;
    let mut watch = LiveObserver { plan: &plan, live: LiveView::new(&plan, Screen::new(screen)) };
    let begin = machine::uptime();
    let records = run(Start::alone(&plan, signals.stop(), program())?, &mut watch)?;
    let took = (machine::uptime() - begin).as_secs_f64();
    let (spent, pictures) = watch.live.spent();
    drop(watch);
    reader.join().ok();
    let share = spent.as_secs_f64() / took;
    let is_met = share <= SHARE_MAX;
    let text = format!(
        "{goal}: {:.2} % of {took:.1} s, {}, {pictures} pictures of {} each, {}",
        share * 100.0,
        units::counted(records.candidates.len() as u64, "candidate"),
        units::nanoseconds(spent.as_nanos() as f64 / f64::from(pictures.max(1))),
        met(is_met)
    );
    Ok((text, is_met))
}

fn terminal() -> Result<(File, File)> {
    let other = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).context("no terminal of our own")?;
    grantpt(&other)?;
    unlockpt(&other)?;
    let name = ptsname(&other, Vec::new())?;
    let terminal = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    tcsetwinsize(&terminal, TERMINAL)?;
    Ok((File::from(terminal), File::from(other)))
}

/// Returns a plan of the default candidates, as short as possible.
fn plan(dir: &Path) -> Result<Plan> {
    let text = PlanText {
        name: Some("selftest".to_owned()),
        rounds: Some(ROUNDS),
        durability: Some(Durability::None.name().to_owned()),
        dir: Some(dir.to_owned()),
        drop_caches: Some(false),
        corpus: Some(CorpusText {
            source: Some("fixed:1kB".to_owned()),
            blobs: Some(BLOBS),
            ..CorpusText::default()
        }),
        ..PlanText::default()
    };
    let mut plan = text.resolve(false)?;
    // Keeps the fill, and the reads that wait for no disk.
    let mut is_first = true;
    plan.phases.retain_mut(|phase| {
        let is_filled = std::mem::take(&mut is_first);
        let reads = phase.load_mut().filter(|load| load.only_reads());
        let is_read = reads.map(|load| load.length = Length::Seconds(SECONDS)).is_some();
        is_filled || (is_read && !phase.cache.is_cold())
    });
    Ok(plan)
}

/// Observer that shows a run, and stores nothing.
struct LiveObserver<'a> {
    plan: &'a Plan,
    live: LiveView<'a>,
}

impl Observer for LiveObserver<'_> {
    fn event(&mut self, event: Event<'_>) {
        // Notes are printed above the view to standard error, which is not that terminal.
        if !matches!(event, Event::Note(_)) {
            self.live.event(&event);
        }
    }

    fn save(&mut self, records: &Records) -> Result<()> {
        self.live.kept(records, &summary::summarize(self.plan, records)?);
        Ok(())
    }
}
