//! Runs one candidate in one round: opens and fills a fresh store, runs the phases, then verifies and removes it.

mod last;
mod memory_cgroup;
mod patience;
mod phase_timer;
mod possible;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};

use super::candidate_run::{
    Ageing, CandidateOnCorpus, CandidateOutcome, CandidateRun, Growth, MemoryLimit, OmittedPhases,
    PhaseOutcome, RoundSlot, RunContext, beside,
};
use super::ops::State;
use super::resources::{MemoryBaseline, free_bytes};
use super::room;
use super::work;
use crate::host::control_group::MemoryGroup;
use crate::host::machine::{self, DeviceCounters};
use crate::host::place::{remove_tree, take_left, why_unwritable};
use crate::host::server::Server;
use crate::plan::{Candidate, Phase};
use crate::redact;
use crate::result::{Fixed, Footprint};
use crate::store::{Facts, Mode, describe_error, describe_error_below};

/// Longest wait for a quiet device after a candidate; other programs may write to it all the time.
const QUIET_PATIENCE: Duration = Duration::from_secs(2);

/// Shorter waits for local ports are not reported.
const WAIT_TOLD: Duration = Duration::from_millis(500);

/// Runs a candidate through all phases except those in `left_out`, and calls `tell` with each phase that begins, and with `None`
/// when the last one is over. `None` if it was stopped from outside or exceeded its time, so that its measurements are incomplete.
pub fn run_candidate(
    run: &RunContext,
    fixed: &Fixed,
    subject: CandidateOnCorpus,
    slot: RoundSlot,
    left_out: &OmittedPhases,
    tell: &mut dyn FnMut(Option<&str>),
) -> Result<Option<CandidateOutcome>> {
    if run.plan.limits_memory() {
        return memory_cgroup::run_in_memory_cgroup(run, fixed, subject, slot, left_out, tell);
    }
    if slot.patience.or(slot.until).is_none() {
        return run_in_this_process(run, fixed, subject, slot, left_out, None, tell);
    }
    patience::within(slot.patience, slot.until, run.stop, |stop, begins| {
        let mut tell = |phase: Option<&str>| {
            begins();
            tell(phase);
        };
        let run = RunContext { stop, ..run.clone() };
        run_in_this_process(&run, fixed, subject, slot, left_out, None, &mut tell)
    })
}

fn directory(run: &RunContext, subject: CandidateOnCorpus, round: u32) -> PathBuf {
    run.place_of(subject.candidate).join(directory_name(&subject.candidate.label, round))
}

/// The name of the directory of a candidate in a round.
pub fn directory_name(label: &str, round: u32) -> String {
    format!("r{round}-{}", label.replace(|c: char| !c.is_ascii_alphanumeric(), "-"))
}

fn clear(run: &RunContext, subject: CandidateOnCorpus, slot: RoundSlot) -> Result<()> {
    let place = run.place_of(subject.candidate);
    remove_all(&directory(run, subject, slot.round)).and(machine::sync_filesystem(place))
}

fn remove_all(dir: &Path) -> Result<()> {
    beside(dir).iter().map(|other| remove_tree(other)).fold(remove_tree(dir), Result::and)
}

pub(super) fn nothing_yet(subject: CandidateOnCorpus) -> CandidateOutcome {
    let footprint = Footprint {
        store: subject.candidate.label.clone(),
        corpus_id: subject.corpus_id,
        logical_bytes: subject.corpus.bytes(),
        ..Footprint::default()
    };
    CandidateOutcome { footprint, ..CandidateOutcome::default() }
}

/// Runs a candidate in this process; `group` is the control group that the process is in, if its memory is counted.
fn run_in_this_process(
    run: &RunContext,
    fixed: &Fixed,
    subject: CandidateOnCorpus,
    slot: RoundSlot,
    left_out: &OmittedPhases,
    group: Option<&MemoryGroup>,
    tell: &mut dyn FnMut(Option<&str>),
) -> Result<Option<CandidateOutcome>> {
    let begin = machine::uptime();
    // Only for servers given by URL. A private server listens on a new port each time, to which no client port is still held.
    let waited = subject.candidate.url().map_or(Duration::ZERO, |_| machine::wait_for_ports(run.stop));
    let ageing = Ageing::decide(run, subject, slot);
    let dir = directory(run, subject, ageing.copied_round().unwrap_or(slot.round));
    let place = run.place_of(subject.candidate);
    let mut candidate_run = CandidateRun {
        run,
        fixed,
        subject,
        slot,
        left_out,
        tell,
        dir: dir.clone(),
        open: None,
        closed: None,
        catalog: None,
        state: State::empty(subject.corpus),
        warm: false,
        share_opened: None,
        has_put_off: false,
        backup: None,
        aged_bytes: 0,
        ageing,
        growth: Growth::default(),
        evictions: None,
        memory: MemoryBaseline::take(),
        limit: group.map(|group| MemoryLimit::new(group, slot.own_memory)),
        outcome: nothing_yet(subject),
    };
    let make = || std::fs::create_dir(&dir).with_context(|| format!("cannot make `{}`", dir.display()));
    let made = candidate_run.renew_disk().and_then(|()| make());
    // With no free space at all, stores that map their files would kill this process by SIGBUS.
    let counted = run.disk_of(subject.candidate).map(|disk| disk.device().counters_of_each());
    let begun = made.and_then(|()| why_unwritable(place).map_or(Ok(()), |why| Err(why.into())));
    let outcome = begun.and_then(|()| candidate_run.everything());
    // If the candidate failed or was stopped, the earlier error takes precedence.
    let left = candidate_run.leave(false);
    let outcome = outcome.and(left);
    let removed = candidate_run.remove();
    let mut visit = candidate_run.outcome;
    // Data left on a server of the user's is always reported; private data is removed with its directory.
    let is_theirs = subject.candidate.traits().is_external;
    let stays = removed.as_ref().err().filter(|_| is_theirs).map(|why| format!("{why:#}"));
    let outcome = match (outcome, &stays) {
        (Err(error), Some(stays)) => Err(anyhow!("{error:#}; {stays}")),
        (outcome, _) => outcome.and(removed),
    };
    let outcome = outcome.map_err(|error| with_place(&error, place));
    if run.disk_of(subject.candidate).is_some_and(|disk| !disk.is_mounted()) {
        // Whatever came next would lie on another disk.
        return Err(outcome.err().unwrap_or_else(|| anyhow!("`{}` is no longer mounted", place.display())));
    }
    // Leftovers stay for the next run to remove, but are an error, so that no candidate is measured beside them unnoticed.
    let outcome = outcome.and(remove_all(&dir)).and(machine::sync_filesystem(place));
    let outcome = with_left(outcome, &take_left());
    // Pending writes should not take longer than the candidate run that caused them.
    let patience = (machine::uptime() - begin).min(QUIET_PATIENCE);
    machine::wait_until_quiet(run.device_of(subject.candidate), patience);
    if let (Some(disk), Some(before)) = (run.disk_of(subject.candidate), counted) {
        visit.facts.extend(moved(&before, &disk.device().counters_of_each()));
    }
    visit.facts.extend(wait_for_ports_told(waited));
    visit.seconds = (machine::uptime() - begin).as_secs_f64();
    match outcome {
        _ if run.stopped() => return stays.map_or(Ok(None), |stays| Err(anyhow!(stays))),
        Ok(()) => {}
        Err(error) => visit.error = Some(redact::of_error(&describe_error(&error))),
    }
    Ok(Some(visit))
}

/// Name of the fact that a candidate waited for local ports.
pub const WAITED: &str = "waited";

/// Returns the fact that a candidate waited for local ports, unless the wait was short.
fn wait_for_ports_told(waited: Duration) -> Option<(String, String)> {
    let seconds = waited.as_secs_f64();
    (waited >= WAIT_TOLD).then(|| {
        (WAITED.to_owned(), format!("{seconds:.1} s before a round, for local ports to be free again"))
    })
}

/// Explains an error: adds the meaning of the system's error code, and whether the directory can be written at all, because a
/// server may only have failed to write its own log to a full disk.
fn with_place(error: &anyhow::Error, place: &Path) -> anyhow::Error {
    let said = describe_error_below(error, place);
    match why_unwritable(place) {
        Some(why) => {
            let cannot = format!("{said}; `{}` cannot be written", place.display());
            anyhow!(describe_error_below(&anyhow::Error::from(why).context(cannot), place))
        }
        None => anyhow!(said),
    }
}

fn with_left(outcome: Result<()>, left: &[String]) -> Result<()> {
    match (outcome, left) {
        (outcome, []) => outcome,
        (Ok(()), left) => bail!("{}", left.join("; ")),
        (Err(error), left) => bail!("{error:#}; {}", left.join("; ")),
    }
}

/// Returns the bytes that each device of a file system made for the run has moved, as one number per device, joined by `+`.
fn moved(before: &[Option<DeviceCounters>], now: &[Option<DeviceCounters>]) -> Facts {
    let of_each = |value: fn(&DeviceCounters) -> u64| {
        let pairs = before.iter().zip(now);
        let each = pairs.filter_map(|(before, now)| {
            Some(value(now.as_ref()?).saturating_sub(value(before.as_ref()?)).to_string())
        });
        each.collect::<Vec<String>>().join(" + ")
    };
    Facts::from([
        ("on_devices_read_bytes".to_owned(), of_each(|device| device.read_bytes)),
        ("on_devices_wrote_bytes".to_owned(), of_each(|device| device.written_bytes)),
    ])
}

impl CandidateRun<'_> {
    fn everything(&mut self) -> Result<()> {
        if self.ageing.copied_round().is_none() {
            self.create()?;
        }
        let candidate = self.subject.candidate;
        let phases = self.plan().phases_of(self.subject.corpus_id);
        let phases: Vec<&Phase> =
            phases.filter(|phase| self.plan().is_done_by(&phase.id, candidate)).collect();
        let mut index = 0;
        while index < phases.len() && !self.run.stopped() {
            let phase = phases[index];
            if self.copy_image(phase)? {
                index += 1;
                continue;
            }
            // A phase that repeats a cold one runs together with it, in the same sessions.
            let repeat = phases.get(index + 1).copied().filter(|next| next.repeats_cold(phase));
            match self.growth_ended(phase).or_else(|| self.why_not(phase)) {
                None => self.timed(phase, repeat)?,
                Some(why) => {
                    let single = phase.without_batches();
                    if phase.is_fill() && self.why_not(&single).is_none() {
                        // Later phases need the blobs that it puts.
                        self.timed(&single, None)?;
                    }
                    self.not_possible(phase, repeat, &why);
                }
            }
            self.keep_image(phase)?;
            index += 1 + usize::from(repeat.is_some());
        }
        if self.run.stopped() {
            return Ok(());
        }
        // The comparison is not measured, and must not count as a phase that does not end.
        self.lift_limit()?;
        (self.tell)(None);
        self.verify_at_the_end()?;
        self.leave(self.caps().contents)?;
        self.hand_on_images();
        self.picture()
    }

    /// Removes the catalog and the store, if they are open. A store on a server of the user's is opened for that if it could not be
    /// opened again before.
    fn remove(&mut self) -> Result<()> {
        let apart = self.catalog.take().and_then(|catalog| catalog.apart);
        let removed = apart.map_or(Ok(()), |apart| apart.remove().context("removing the catalogue failed"));
        let is_theirs = self.subject.candidate.traits().is_external;
        let closed = self.closed.filter(|_| is_theirs && self.open.is_none());
        let opened = closed.map_or(Ok(()), |class| self.open_as(class, Mode::Open));
        let removed =
            removed.and(opened.context("what it made on the server stays there until the next run"));
        let store = self.open.take();
        removed.and(store.map_or(Ok(()), |(_, store)| store.remove().context("removing the store failed")))
    }

    /// Records why a phase, and the one that runs together with it, is not possible.
    fn not_possible(&mut self, phase: &Phase, repeat: Option<&Phase>, why: &str) {
        for phase in std::iter::once(phase).chain(repeat) {
            self.outcome.phases.insert(phase.id.clone(), PhaseOutcome::NotPossible(why.to_owned()));
        }
    }

    fn timed(&mut self, phase: &Phase, repeat: Option<&Phase>) -> Result<()> {
        (self.tell)(Some(phase.id.as_str()));
        let begin = machine::uptime();
        match self.give_memory(phase).with_context(|| format!("phase `{}`", phase.id))? {
            None => self.phase(phase, repeat).with_context(|| format!("phase `{}`", phase.id))?,
            Some(why) => self.not_possible(phase, repeat, &why),
        }
        self.outcome.wall_seconds.insert(phase.id.clone(), (machine::uptime() - begin).as_secs_f64());
        Ok(())
    }

    /// Takes a screenshot of the store, once per run for the first candidate of each adapter.
    fn picture(&mut self) -> Result<()> {
        let candidate = self.subject.candidate;
        let is_first = |first: &Candidate| first.label == candidate.label;
        let candidates = &self.plan().candidates;
        if self.slot.round != 1
            || !candidates
                .iter()
                .find(|other| other.adapter.name == candidate.adapter.name)
                .is_some_and(is_first)
        {
            return Ok(());
        }
        let alive = self.state.alive.iter().position(|alive| *alive);
        if let Some(key) = alive.map(|id| self.subject.corpus.keys.at(id)) {
            self.outcome.picture = self.store()?.0.picture(&key).context("taking a picture failed")?;
        }
        Ok(())
    }

    fn create(&mut self) -> Result<()> {
        let free_before = free_bytes(self.place());
        let class = self.class(self.plan().fill_class());
        // Other users may have filled the server since the run began.
        room::check(self.plan(), self.subject.candidate, self.subject.corpus, &self.dir)?;
        self.open_as(class, Mode::Create)?;
        machine::sync_filesystem(&self.dir)?;
        self.note_facts()?;
        self.weigh_empty();
        if self.caps().persistent {
            let empty = self.bytes_taken(self.store()?.0)?;
            self.outcome.footprint.empty_bytes = empty.as_ref().map(|empty| empty.all);
            self.outcome.footprint.empty_log_bytes = empty.and_then(|empty| empty.logs);
            // Other clients' stores may lie on the same file system, and a server of the user's on any.
            let is_ours = !self.is_one_for_each_client() && !self.subject.candidate.traits().is_external;
            self.outcome.footprint.statvfs_bytes = free_before.filter(|_| is_ours);
        }
        Ok(())
    }

    /// Notes what the open store says of itself, and the facts of a disk that was made for it.
    pub(super) fn note_facts(&mut self) -> Result<()> {
        self.outcome.facts = self.store()?.0.facts()?;
        if let Some(disk) = self.run.disk_of(self.subject.candidate) {
            self.outcome.facts.extend(disk.facts().clone());
        }
        Ok(())
    }

    fn phase(&mut self, phase: &Phase, repeat: Option<&Phase>) -> Result<()> {
        if phase.writes() {
            self.share_opened = None;
            // The fill of a step ends warm caches anyway: blobs are not read once more to keep them.
            self.warm &= !phase.fills_a_step();
            self.ensure(self.class(phase.class))?;
        }
        let caught_up = if phase.writes() { self.catch_up(phase) } else { Ok(None) };
        if caught_up.is_err() {
            self.check_servers(true)?;
        }
        let caught_up_seconds = caught_up.map_err(|error| self.with_logs(error))?;
        self.evictions = self.evictions_so_far()?;
        self.begin_memory();
        let mut done = work::for_phase(phase).run(self, phase, repeat);
        if let Err(error) = &done
            && let Some(why) = self.growth_breaks(phase, error)
        {
            self.check_servers(true)?;
            done = Ok(Some(PhaseOutcome::NotPossible(why)));
        }
        self.has_put_off |= phase.writes();
        if let Ok(Some(PhaseOutcome::Measured(round))) = &mut done {
            round.caught_up_seconds = caught_up_seconds;
        }
        let done = done.map(|outcome| {
            self.outcome.phases.extend(outcome.map(|outcome| (phase.id.clone(), outcome)));
        });
        self.check_servers(done.is_err())?;
        done.map_err(|error| self.with_logs(error))?;
        let always = phase.is_fill() || phase.has_uploads();
        if phase.writes() && (self.plan().verify || always) && !self.run.stopped() {
            self.verify().with_context(|| format!("after `{}`", phase.id))?;
        }
        Ok(())
    }

    /// Finishes the deferred work of earlier phases off the clock, so that none of it becomes due during this one. Returns the
    /// time it took, in seconds; `None` if there was nothing to do.
    fn catch_up(&mut self, phase: &Phase) -> Result<Option<f64>> {
        if !self.has_put_off || !work::for_phase(phase).catches_up() {
            return Ok(None);
        }
        let begin = machine::uptime();
        self.store()?.0.catch_up().context("catching up with earlier phases failed")?;
        if let Some(apart) = self.catalog.as_ref().and_then(|catalog| catalog.apart.as_deref()) {
            apart.catch_up().context("catching up with earlier uploads failed")?;
        }
        let seconds = (machine::uptime() - begin).as_secs_f64();
        machine::sync_filesystem(&self.dir)?;
        // Maintenance may rewrite data, so that the caches may no longer be warm.
        (self.has_put_off, self.warm) = (false, false);
        Ok(Some(seconds))
    }

    /// Fails if a server died or was stopped, because that explains more than the errors of the ops that it caused.
    fn check_servers(&self, failed: bool) -> Result<()> {
        let Ok((store, _)) = self.store() else { return Ok(()) };
        let servers = store.servers();
        if failed && !servers.is_empty() {
            // A connection may break a moment before its server process is gone.
            std::thread::sleep(Duration::from_millis(200));
        }
        match servers.into_iter().find_map(Server::fault) {
            Some(fault) => bail!("{fault}"),
            None => Ok(()),
        }
    }

    fn with_logs(&self, error: anyhow::Error) -> anyhow::Error {
        let Ok((store, _)) = self.store() else { return error };
        store.servers().iter().fold(error, |error, server| {
            let error = describe_error_below(&error, self.place());
            let between = if error.contains('\n') { "\n" } else { "; " };
            anyhow!("{error}{between}`{}` goes on{}", server.name(), server.log_end())
        })
    }
}
