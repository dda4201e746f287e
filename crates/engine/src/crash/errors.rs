//! Device errors: the disk fails a write, a flush or a read, once or from then on. Afterwards the store is examined on a healthy
//! disk.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::Trial;
use super::cuts::{Cut, SurvivingWrites};
use super::lab::{Ending, Lab, RecordedLoad, RecoveredState, heard, quiet, say};
use super::load::{self, CrashLoad, History};
use super::oracle::{BlobState, LoadHistory, StoreVerdict};
use crate::host::disk::{DiskError, Failure, Faults, Log, LogEntryKind, RequestKind, Switch};
use crate::host::fork::{Forked, SharedWords};
use crate::host::machine;
use crate::result::crash::Damage;
use crate::result::crash::besides::{
    DeviceErrorResults, ErrorCase, ErrorKind, FileSystemReaction, StoreReaction,
};
use crate::store::{Durability, Loss, Mode, Store};

/// A load that takes longer counts as hung.
const PATIENCE: Duration = Duration::from_secs(90);
/// Interval, in ops, at which dirty data are written back as the kernel would do at a time that a program cannot see.
const WRITTEN_EVERY: usize = 16;
/// A load that fails this many times in a row gives up.
const FAILS_MAX: u32 = 8;
/// Pause after a failed session: a server may need a moment to recover.
const PAUSE: Duration = Duration::from_millis(50);

/// Injects errors of these kinds, each at `places` places of the load.
pub fn try_errors(
    lab: &Lab,
    trial: &Trial<'_>,
    kinds: &[ErrorKind],
    places: usize,
    seed: u64,
) -> Result<DeviceErrorResults> {
    let load = CrashLoad::for_trial(trial, seed)?;
    let tried = ErrorTrial { lab, trial, load: &load };
    let healthy = tried.at_work(None)?;
    ensure!(
        healthy.judged.worst.is_none(),
        "it is not right without an error either: {:?}",
        healthy.judged.worst
    );
    let closed = lab.record_to(trial, seed, Ending::Closed)?;
    let reads = tried.at_reading(&closed, None)?.switch.of_all;
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut cases = Vec::new();
    for kind in kinds.iter().copied() {
        let of_all = match kind.of {
            RequestKind::Read => reads,
            RequestKind::Write => healthy.writes,
            RequestKind::Flush => healthy.flushes,
        };
        for place in 0..places as u64 {
            lab.go_on()?;
            let nth = nth(of_all, place, places as u64, &mut rng);
            let failure = Failure { of: kind.of, nth, for_ever: kind.for_ever, error: kind.error };
            let ran = match kind.of {
                RequestKind::Read => tried.at_reading(&closed, Some(failure))?,
                RequestKind::Write | RequestKind::Flush => tried.at_work(Some(failure))?,
            };
            cases.push(ran.case(kind, nth, of_all, tried.is_promised(kind)));
        }
    }
    Ok(DeviceErrorResults { cases })
}

/// Picks a random request (counted from 1) within one of `parts` equal ranges.
fn nth(of_all: u64, part: u64, parts: u64, rng: &mut SmallRng) -> u64 {
    let (from, to) = (of_all * part / parts, of_all * (part + 1) / parts);
    1 + if from < to { rng.random_range(from..to) } else { from }
}

struct ErrorTrial<'a> {
    lab: &'a Lab,
    trial: &'a Trial<'a>,
    load: &'a CrashLoad,
}

/// Counts of a worker on a failing disk, in memory shared with its parent.
struct WorkerCounts {
    words: SharedWords,
    said: SharedWords,
}

const FAILED: usize = 0;
const WENT_ON: usize = 1;
const IN_A_ROW: usize = 2;
const IS_OVER: usize = 3;
const TOLD_ANOTHER: usize = 4;

impl WorkerCounts {
    fn new() -> Result<WorkerCounts> {
        Ok(WorkerCounts { words: SharedWords::new(TOLD_ANOTHER + 1)?, said: SharedWords::new(40)? })
    }

    fn get(&self, place: usize) -> u64 {
        self.words.get()[place].load(Ordering::SeqCst)
    }

    fn set(&self, place: usize, value: u64) {
        self.words.get()[place].store(value, Ordering::SeqCst);
    }

    /// Records how an op ended; true if it succeeded.
    fn note<E: Into<anyhow::Error>>(&self, outcome: Result<(), E>) -> bool {
        match outcome {
            Ok(()) => {
                self.set(IN_A_ROW, 0);
                self.set(WENT_ON, self.get(WENT_ON) + u64::from(self.get(FAILED) > 0));
                true
            }
            Err(error) => {
                if self.get(FAILED) == 0 {
                    say(&self.said, &format!("{:#}", error.into()));
                }
                self.set(FAILED, self.get(FAILED) + 1);
                self.set(IN_A_ROW, self.get(IN_A_ROW) + 1);
                false
            }
        }
    }

    fn has_given_up(&self) -> bool {
        self.get(IN_A_ROW) >= u64::from(FAILS_MAX)
    }
}

struct RequestCounts {
    failed: u64,
    of_all: u64,
}

struct DeviceErrorOutcome {
    switch: RequestCounts,
    writes: u64,
    flushes: u64,
    end: ProcessEnd,
    failed_ops: u64,
    went_on: u64,
    said: Option<String>,
    /// True if a sync of the whole file system reported the error.
    told_another: bool,
    file_system: FileSystemReaction,
    /// True if the file system could be mounted again.
    is_mounted: bool,
    judged: StoreVerdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessEnd {
    Well,
    Died,
    Hung,
}

impl ProcessEnd {
    fn from_status(status: Option<ExitStatus>, is_over: bool) -> ProcessEnd {
        match status {
            None => ProcessEnd::Hung,
            Some(status) if status.signal().is_some() || !is_over => ProcessEnd::Died,
            Some(_) => ProcessEnd::Well,
        }
    }
}

impl DeviceErrorOutcome {
    fn outcome(&self) -> StoreReaction {
        let worst = self.judged.worst.as_ref().map(|lost| lost.damage);
        match (worst, self.end) {
            _ if self.switch.failed == 0 => StoreReaction::NotReached,
            _ if !self.is_mounted => StoreReaction::NoFileSystem,
            (Some(Damage::Unusable), _) => StoreReaction::Unusable,
            (Some(_), _) => StoreReaction::Lied,
            (None, ProcessEnd::Hung) => StoreReaction::Hung,
            (None, ProcessEnd::Died) => StoreReaction::Stopped,
            (None, ProcessEnd::Well) if self.failed_ops > 0 => StoreReaction::Said,
            (None, ProcessEnd::Well) if self.told_another => StoreReaction::ToldAnother,
            (None, ProcessEnd::Well) => StoreReaction::NothingLost,
        }
    }

    fn case(self, kind: ErrorKind, nth: u64, of_all: u64, is_promised: bool) -> ErrorCase {
        let outcome = self.outcome();
        ErrorCase {
            kind,
            nth,
            of_all,
            failed_requests: self.switch.failed,
            outcome,
            breaks: is_promised && matches!(outcome, StoreReaction::Unusable | StoreReaction::Lied),
            failed_ops: self.failed_ops,
            went_on: self.went_on,
            file_system: self.file_system,
            said: self.said,
            wrong: self.judged.worst.map(|lost| lost.what),
        }
    }
}

impl ErrorTrial<'_> {
    /// True if something is promised in this class: for writes, that acknowledged data stay; for reads, that no wrong data are
    /// returned.
    fn is_promised(&self, kind: ErrorKind) -> bool {
        let keeps = !matches!(self.trial.declared(), Loss::StoreUnusable | Loss::All);
        kind.of == RequestKind::Read || keeps && self.trial.judged_as != Durability::None
    }

    /// Runs the load on a failing disk, and examines the store on the healthy disk.
    fn at_work(&self, failure: Option<Failure>) -> Result<DeviceErrorOutcome> {
        let log = Arc::new(Log::new(super::lab::LOG_BYTES)?);
        let faults = Faults { fails: failure, ..Faults::default() };
        let mut mounted = self.lab.fresh(Some(Arc::clone(&log)), faults)?;
        let (history, counts, failed) = (History::new()?, WorkerCounts::new()?, SharedWords::new(64)?);
        let worker = Forked::begin(|| {
            if let Err(error) = self.work(mounted.switch(), &log, &history, &counts) {
                say(&failed, &format!("{error:#}"));
            }
        })?;
        let status = self.lab.waits(&mounted, worker, PATIENCE)?;
        if let Some(why) = heard(&failed) {
            bail!("the load failed: {why}");
        }
        let end = log.len();
        let file_system = state(self.lab.mount());
        let switch = mounted.switch();
        switch.disable();
        let asked = |what| switch.asked(what);
        let mut ran = DeviceErrorOutcome {
            switch: RequestCounts { failed: switch.failed(), of_all: 0 },
            writes: asked(RequestKind::Write),
            flushes: asked(RequestKind::Flush),
            end: ProcessEnd::from_status(status, counts.get(IS_OVER) > 0),
            failed_ops: counts.get(FAILED),
            went_on: counts.get(WENT_ON),
            said: heard(&counts.said),
            told_another: counts.get(TOLD_ANOTHER) > 0,
            file_system,
            is_mounted: true,
            judged: StoreVerdict::default(),
        };
        let failed_at = switch.failed_at();
        mounted.unmount()?;
        ran.is_mounted = mounted.mount_again(self.lab)?;
        let known = LoadHistory { ops: &self.load.ops, history: &history };
        if ran.is_mounted {
            let looked = self.lab.look(&mut mounted, self.trial, self.load)?;
            ran.judged = self.judge(&known, &looked.found, usize::MAX);
            mounted.unmount()?;
        }
        drop(mounted);
        if let (Some(failed_at), Some(RequestKind::Flush)) = (failed_at, failure.map(|failure| failure.of)) {
            ran.judged.add(self.cut_after(&log, failed_at, end, &known)?);
        }
        Ok(ran)
    }

    /// Runs in the worker's process. Fails only for errors before the faults begin.
    fn work(&self, switch: &Switch, log: &Log, history: &History, counts: &WorkerCounts) -> Result<()> {
        quiet()?;
        let store = self.lab.open(self.trial, self.load, Mode::Create)?;
        machine::sync_filesystem(self.lab.mount())?;
        switch.enable();
        history.begin(log);
        self.all_ops(store.as_ref(), switch, (log, history), counts);
        self.write_what_waits(switch, counts);
        counts.note(store.close());
        counts.set(IS_OVER, 1);
        Ok(())
    }

    /// Writes back dirty data, as the kernel would at some time. If that fails, ext4 notices that its journal has aborted only at
    /// the next change, and acknowledges flushes until then (docs/ext4-after-a-failed-commit.md); a store must not be judged by
    /// that, so a change follows. If a flush that ext4 makes only for this write-back fails, only the caller of the write-back is
    /// told.
    fn write_what_waits(&self, switch: &Switch, counts: &WorkerCounts) {
        if machine::sync_filesystem(self.lab.mount()).is_err() {
            counts.set(TOLD_ANOTHER, 1);
        }
        if switch.failed() > 0 {
            std::fs::File::create(self.lab.mount().join("noticed")).ok();
        }
    }

    /// Does all ops and goes on after a failed one, like a program that reports an error and continues.
    fn all_ops(
        &self,
        store: &dyn Store,
        switch: &Switch,
        (log, history): (&Log, &History),
        counts: &WorkerCounts,
    ) {
        let (mut session, mut room) = (None, Vec::new());
        for index in 0..self.load.ops.len() {
            if session.is_none() {
                match store.session() {
                    Ok(new) => session = Some(new),
                    Err(error) => {
                        counts.note(Err(error));
                        std::thread::sleep(PAUSE);
                    }
                }
            }
            let Some(open) = &mut session else {
                if counts.has_given_up() {
                    return;
                }
                continue;
            };
            let act = &mut || self.load.act(index, open.as_mut(), &mut room);
            let mut is_well = counts.note(load::note_op(history, index, log, act));
            if load::is_synced(self.trial.class, index) {
                is_well &= counts.note(load::note_sync(history, index, log, &mut || open.sync()));
            }
            if !is_well {
                if counts.has_given_up() {
                    return;
                }
                session = None;
            }
            if (index + 1).is_multiple_of(WRITTEN_EVERY) {
                self.write_what_waits(switch, counts);
            }
        }
    }

    fn judge(&self, known: &LoadHistory<'_>, found: &RecoveredState, at: usize) -> StoreVerdict {
        match found.open_seconds {
            Some(_) => known.all(&found.blobs, self.trial.judged_as, self.trial.declared(), at),
            None => StoreVerdict::unusable(found.refused.as_deref()),
        }
    }

    /// A failed flush covered nothing: judges the store after a power cut at the latest moment that shows this, right before the
    /// next successful flush.
    fn cut_after(
        &self,
        log: &Log,
        failed_at: usize,
        end: usize,
        known: &LoadHistory<'_>,
    ) -> Result<StoreVerdict> {
        let is_flush = |index: &usize| log.entry(*index).kind == LogEntryKind::Flush;
        let at = (failed_at..end).find(is_flush).unwrap_or(end);
        let flushed = (0..failed_at).rev().find(is_flush).map_or(0, |index| index + 1);
        let cut = Cut { at, flushed, survives: SurvivingWrites::Nothing, seed: 0 };
        let found = self.lab.look_after(self.trial, self.load, log, &cut)?;
        let Some(found) = found else { return Ok(StoreVerdict::default()) };
        let mut judged = self.judge(known, &found, at);
        if let Some(lost) = &mut judged.worst {
            lost.what += ", after a power cut before the next flush";
        }
        Ok(judged)
    }

    /// Reads everything from a closed store on a failing disk, and again on the healthy disk.
    fn at_reading(&self, closed: &RecordedLoad<'_>, failure: Option<Failure>) -> Result<DeviceErrorOutcome> {
        // A failure that never occurs makes the disk count its requests.
        let never =
            Failure { of: RequestKind::Read, nth: u64::MAX, for_ever: false, error: DiskError::Broken };
        let faults = Faults { fails: failure.or(Some(never)), ..Faults::default() };
        let Some(mut mounted) = closed.whole(faults, |_| ())? else {
            bail!("the file system of a store that was closed cannot be mounted");
        };
        mounted.switch().enable();
        let looked = self.lab.look_once(&mounted, self.trial, self.load)?;
        let file_system = state(self.lab.mount());
        let switch = mounted.switch();
        switch.disable();
        let unreadable =
            looked.found.blobs.iter().filter(|seen| **seen == BlobState::Unreadable).count() as u64;
        let is_closed = |seen: &BlobState| *seen != BlobState::Unreadable;
        let wrong = closed.judge_closed(&looked.found.blobs, is_closed);
        let mut ran = DeviceErrorOutcome {
            switch: RequestCounts { failed: switch.failed(), of_all: switch.asked(RequestKind::Read) },
            writes: 0,
            flushes: 0,
            // A store that reports that it cannot open has ended well.
            end: ProcessEnd::from_status(
                looked.status,
                looked.found.open_seconds.is_some() || !looked.has_read,
            ),
            failed_ops: if looked.has_read { unreadable } else { 1 },
            went_on: looked.found.blobs.iter().filter(|seen| is_closed(seen)).count() as u64,
            said: looked.found.refused.or_else(|| (!looked.has_read).then(|| "it ended".to_owned())),
            told_another: false,
            file_system,
            is_mounted: true,
            // A process that never read anything returned nothing wrong.
            judged: if looked.has_read { wrong } else { StoreVerdict::default() },
        };
        mounted.unmount()?;
        ran.is_mounted = mounted.mount_again(self.lab)?;
        if ran.is_mounted {
            let again = self.lab.look(&mut mounted, self.trial, self.load)?.found;
            ran.judged.add(match again.open_seconds {
                Some(_) => closed.judge_closed(&again.blobs, |_| true),
                None => StoreVerdict::unusable(again.refused.as_deref()),
            });
            mounted.unmount()?;
        }
        Ok(ran)
    }
}

fn state(mount: &Path) -> FileSystemReaction {
    if rustix::fs::statvfs(mount).is_err() || std::fs::read_dir(mount).is_err() {
        return FileSystemReaction::ShutDown;
    }
    let is_writable = std::fs::File::create(mount.join("written")).is_ok();
    match machine::is_read_only(mount) || !is_writable {
        true => FileSystemReaction::ReadOnly,
        false => FileSystemReaction::WentOn,
    }
}

#[cfg(test)]
mod tests {
    use super::super::oracle::BrokenPromise;
    use super::*;

    fn ran(failed: u64, end: ProcessEnd, failed_ops: u64, damage: Option<Damage>) -> DeviceErrorOutcome {
        let worst =
            damage.map(|damage| BrokenPromise { damage, key: None, op: None, what: "it is so".to_owned() });
        DeviceErrorOutcome {
            switch: RequestCounts { failed, of_all: 9 },
            writes: 0,
            flushes: 0,
            end,
            failed_ops,
            went_on: 0,
            said: None,
            told_another: false,
            file_system: FileSystemReaction::WentOn,
            is_mounted: true,
            judged: StoreVerdict { lost_recent: worst.is_some(), worst },
        }
    }

    #[test]
    fn what_is_gone_is_a_lie_whatever_else_was_said() {
        assert_eq!(ran(0, ProcessEnd::Well, 0, None).outcome(), StoreReaction::NotReached);
        assert_eq!(ran(1, ProcessEnd::Well, 0, None).outcome(), StoreReaction::NothingLost);
        assert_eq!(ran(1, ProcessEnd::Well, 3, None).outcome(), StoreReaction::Said);
        let told_another = |failed_ops, damage| DeviceErrorOutcome {
            told_another: true,
            ..ran(1, ProcessEnd::Well, failed_ops, damage)
        };
        assert_eq!(told_another(0, None).outcome(), StoreReaction::ToldAnother);
        assert_eq!(told_another(3, None).outcome(), StoreReaction::Said);
        assert_eq!(told_another(0, Some(Damage::Lost)).outcome(), StoreReaction::Lied);
        assert_eq!(ran(1, ProcessEnd::Died, 3, None).outcome(), StoreReaction::Stopped);
        assert_eq!(ran(1, ProcessEnd::Hung, 3, None).outcome(), StoreReaction::Hung);
        assert_eq!(ran(1, ProcessEnd::Died, 3, Some(Damage::Lost)).outcome(), StoreReaction::Lied);
        assert_eq!(ran(1, ProcessEnd::Well, 3, Some(Damage::Unusable)).outcome(), StoreReaction::Unusable);
    }

    #[test]
    fn places_are_spread_over_all_requests() {
        let mut rng = SmallRng::seed_from_u64(1);
        for _ in 0..50 {
            assert!((1..=50).contains(&nth(100, 0, 2, &mut rng)));
            assert!((51..=100).contains(&nth(100, 1, 2, &mut rng)));
        }
        assert_eq!(nth(0, 0, 2, &mut rng), 1);
    }
}
