//! Runs a candidate in a process of its own, inside a control group that counts its memory. If the kernel kills the process for
//! its memory, the overall run goes on.
//!
//! The process is a fork of this one: it inherits plan, corpora and clock, and the pages of the corpora stay charged to the run.
//! No store was ever opened in this process, so that the fork lacks no store's threads.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};

use super::super::candidate_run::{
    CandidateOnCorpus, CandidateOutcome, OmittedPhases, RoundSlot, RunContext,
};
use super::phase_timer::PhaseTimer;
use super::run_in_this_process;
use crate::host::control_group::MemoryGroup;
use crate::host::fork::{Forked, SharedFlag};
use crate::host::machine::{self, FileMapping};
use crate::plan::{Candidate, Phase};
use crate::result::Fixed;
use crate::store::Common;
use crate::units;

/// Messages of the process, one per line.
#[derive(Serialize, Deserialize)]
enum VisitMessage {
    /// A phase begins; its id.
    Begins(String),
    /// The last phase is over.
    PhasesOver,
    /// The candidate run is complete.
    Done(Box<CandidateOutcome>),
    /// The candidate run was stopped.
    Stopped,
    /// An error that ends the whole run.
    Failed(String),
}

/// Runs a candidate in a process of its own; phases in `left_out` are not possible, for the reasons given. If the kernel kills
/// the process for its memory, the phase in which that happened is left out, together with all phases that have no more memory,
/// and the candidate runs again for the others. `None` if the run was stopped.
pub(super) fn run_in_memory_cgroup(
    run: &RunContext,
    fixed: &Fixed,
    subject: CandidateOnCorpus,
    slot: RoundSlot,
    left_out: &OmittedPhases,
    tell: &mut dyn FnMut(Option<&str>),
) -> Result<Option<CandidateOutcome>> {
    let mut all_out = left_out.clone();
    let mut lost = Duration::ZERO;
    loop {
        // Killed attempts are timed apart, because they are not repeated in later rounds.
        let begin = machine::uptime();
        let mut begun = None;
        let mut tell = |phase: Option<&str>| {
            tell(phase);
            if let Some(phase) = phase {
                begun = Some(phase.to_owned());
            }
        };
        let kills = match attempt(run, fixed, subject, slot, &all_out, &mut tell)? {
            Attempt::Stopped => return Ok(None),
            Attempt::Done(mut visit) => {
                visit.seconds = (machine::uptime() - begin).as_secs_f64();
                visit.lost_seconds = lost.as_secs_f64();
                all_out.retain(|phase, _| !left_out.contains_key(phase));
                visit.lost_to = all_out;
                return Ok(Some(*visit));
            }
            Attempt::Killed => without(run, subject, begun.as_deref(), "killed by the kernel", &mut all_out),
            Attempt::Stuck(patience) => {
                let why = format!("no end of it in {}", units::seconds(patience.as_secs_f64()));
                without(run, subject, begun.as_deref(), &why, &mut all_out)
            }
        };
        lost += machine::uptime() - begin;
        if !kills {
            let mut visit = super::nothing_yet(subject);
            visit.error = Some("the kernel killed it for its memory, though it had no limit".to_owned());
            return Ok(Some(visit));
        }
    }
}

/// Leaves out the phase in which the process was killed, and those with no more memory. False if that phase has no limit.
fn without(
    run: &RunContext,
    subject: CandidateOnCorpus,
    phase: Option<&str>,
    how: &str,
    left_out: &mut OmittedPhases,
) -> bool {
    let memory = |phase: &Phase| run.plan.memory_of(phase, subject.corpus.bytes());
    let phases = || run.plan.phases_of(subject.corpus_id);
    let known = phases().find(|known| Some(known.id.as_str()) == phase);
    let Some(limit) = known.and_then(memory) else { return false };
    for other in phases().filter(|other| memory(other).is_some_and(|memory| memory <= limit)) {
        let why = format!("needs more than {} of memory: {how}", units::bytes(limit as f64));
        left_out.entry(other.id.clone()).or_insert(why);
    }
    true
}

enum Attempt {
    Done(Box<CandidateOutcome>),
    Stopped,
    /// The kernel killed the process, or one of its servers, for its memory.
    Killed,
    /// The phase did not end in this time with so little memory, and the process was killed.
    Stuck(Duration),
}

fn attempt(
    run: &RunContext,
    fixed: &Fixed,
    subject: CandidateOnCorpus,
    slot: RoundSlot,
    left_out: &OmittedPhases,
    tell: &mut dyn FnMut(Option<&str>),
) -> Result<Attempt> {
    let group = MemoryGroup::make()?;
    let _programs = programs_in_cache(subject.candidate);
    let stop = SharedFlag::new()?;
    let (reader, writer) = std::io::pipe().context("no pipe to a process of our own")?;
    let make = |mut writer: PipeWriter| {
        let mut said = |said: &VisitMessage| {
            let mut line = serde_json::to_vec(said).unwrap_or_default();
            line.push(b'\n');
            writer.write_all(&line).ok();
        };
        let outcome = group.enter().and_then(|()| {
            let run = RunContext {
                common: Common::new(run.common.cache_dir.clone()),
                // A plan that limits memory has a single client.
                clients: None,
                stop: stop.get(),
                ..run.clone()
            };
            let mut tell = |phase: Option<&str>| {
                said(&phase.map_or(VisitMessage::PhasesOver, |phase| VisitMessage::Begins(phase.to_owned())));
            };
            run_in_this_process(&run, fixed, subject, slot, left_out, Some(&group), &mut tell)
        });
        said(&match outcome {
            Ok(Some(visit)) => VisitMessage::Done(Box::new(visit)),
            Ok(None) => VisitMessage::Stopped,
            Err(error) => VisitMessage::Failed(crate::store::describe_error(&error)),
        });
    };
    let child = Forked::begin(|| make(writer))?;
    let mut timer = PhaseTimer::new(run.plan, subject, slot);
    let heard = listen(reader, [run.stop, stop.get()], [slot.patience, slot.until], tell, &mut timer);
    if matches!(heard, Ok(ListeningEnd::NothingFor(_))) {
        child.end();
    }
    let status = child.wait()?;
    // Its servers end with it, because their supervisors hold a pipe from it.
    ensure!(group.is_left_within(PATIENCE), "processes of `{}` do not end", subject.candidate.label);
    let kills = group.now().kills > 0;
    if matches!(heard, Ok(ListeningEnd::NothingFor(_) | ListeningEnd::Last(None))) && !run.stopped() {
        super::clear(run, subject, slot)?;
    }
    Ok(match heard? {
        ListeningEnd::NothingFor(_) if run.stopped() => Attempt::Stopped,
        ListeningEnd::NothingFor(patience) => Attempt::Stuck(patience),
        ListeningEnd::Last(Some(VisitMessage::Done(visit))) if kills && visit.error.is_some() => {
            Attempt::Killed
        }
        ListeningEnd::Last(Some(VisitMessage::Done(visit))) => Attempt::Done(visit),
        ListeningEnd::Last(Some(VisitMessage::Failed(error))) => bail!("{error}"),
        ListeningEnd::Last(Some(
            VisitMessage::Begins(_) | VisitMessage::PhasesOver | VisitMessage::Stopped,
        )) => Attempt::Stopped,
        ListeningEnd::Last(None) if run.stopped() => Attempt::Stopped,
        ListeningEnd::Last(None) if kills => Attempt::Killed,
        ListeningEnd::Last(None) => {
            let how = status.signal().map_or_else(String::new, |signal| format!(" by signal {signal}"));
            let mut visit = super::nothing_yet(subject);
            visit.error = Some(format!("the process that visited it ended{how}"));
            Attempt::Done(Box::new(visit))
        }
    })
}

/// Holds the programs of a candidate's servers in the page cache, charged to this process. Otherwise the group of whichever candidate
/// reads a program first pays for it, and a server with more program than memory rereads it for ever.
fn programs_in_cache(candidate: &Candidate) -> Vec<FileMapping> {
    let started = candidate.adapter.started(&candidate.options);
    started.filter_map(|program| FileMapping::hold_in_cache(&program.find().ok()?.path)).collect()
}

/// Time limit for the end of killed processes. One that waits for the disk ends only after its I/O is complete.
const PATIENCE: Duration = Duration::from_secs(60);

enum ListeningEnd {
    /// The process ended or closed its pipe; its last message, if it sent any.
    Last(Option<VisitMessage>),
    /// The process is alive, but a phase did not end in this time.
    NothingFor(Duration),
}

/// Receives the messages of the process until it ends or until a phase exceeds the limit of its `timer`. Forwards a stop of the
/// run to the process, and stops it if its phases together take longer than `for_all`, or at the moment `end`.
fn listen(
    reader: PipeReader,
    [stop, stop_there]: [&AtomicBool; 2],
    [for_all, end]: [Option<Duration>; 2],
    begins: &mut dyn FnMut(Option<&str>),
    timer: &mut PhaseTimer,
) -> Result<ListeningEnd> {
    const LOOK: rustix::event::Timespec = rustix::event::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    let mut reader = BufReader::new(reader);
    let mut last = None;
    // Start of the current phase, if it has a time limit, and that limit.
    let mut limited: Option<(Duration, Duration)> = None;
    let mut until: Option<Duration> = None;
    loop {
        if let Some((begun, most)) = limited
            && machine::uptime() > begun + most
        {
            return Ok(ListeningEnd::NothingFor(most));
        }
        if reader.buffer().is_empty() {
            let ready = poll(&mut [PollFd::new(reader.get_ref(), PollFlags::IN)], Some(&LOOK));
            let is_late = until.into_iter().chain(end).any(|until| machine::uptime() > until);
            stop_there.fetch_or(is_late || stop.load(Ordering::Relaxed), Ordering::Relaxed);
            if matches!(ready, Ok(0) | Err(rustix::io::Errno::INTR)) {
                continue;
            }
        }
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(ListeningEnd::Last(last));
        }
        match serde_json::from_str(&String::from_utf8_lossy(&line)) {
            Ok(VisitMessage::Begins(phase)) => {
                begins(Some(&phase));
                let now = machine::uptime();
                until = until.or(for_all.map(|patience| now + patience));
                limited = timer.begins(&phase, now).map(|most| (now, most));
            }
            Ok(VisitMessage::PhasesOver) => {
                begins(None);
                limited = None;
            }
            Ok(said) => last = Some(said),
            // The process was killed while it was writing.
            Err(_cut) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::work::resolved;

    /// Listens to a process that begins two phases, and ends so long after both were heard or when nobody listens any more; `None`
    /// for the second if the first was the last. It begins both at once, or the second so long `after` the first was heard: a busy
    /// machine would stretch any other pause. Phases with limited memory may take `planned`.
    fn heard(
        phases: [Option<&str>; 2],
        (after, ends): (Option<Duration>, Duration),
        planned: Option<Duration>,
    ) -> ListeningEnd {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let [first, second] = phases.map(|phase| {
            let said = phase.map_or(VisitMessage::PhasesOver, |phase| VisitMessage::Begins(phase.to_owned()));
            serde_json::to_string(&said).unwrap() + "\n"
        });
        let (hear, is_heard) = std::sync::mpsc::channel::<()>();
        let speaker = std::thread::spawn(move || {
            match after {
                Some(pause) => {
                    writer.write_all(first.as_bytes()).ok();
                    is_heard.recv().ok();
                    std::thread::sleep(pause);
                    writer.write_all(second.as_bytes()).ok();
                }
                None => {
                    writer.write_all((first + &second).as_bytes()).ok();
                }
            }
            while is_heard.recv_timeout(ends).is_ok() {}
        });
        let stop = AtomicBool::new(false);
        let plan =
            resolved("stores = ['files/flat']\nphases = ['fill', 'read-warm', 'read-tight']\nbudget = '60s'");
        let mut timer = PhaseTimer::with_limit(&plan, planned);
        let mut begins = |_: Option<&str>| {
            hear.send(()).ok();
        };
        let heard = listen(reader, [&stop, &stop], [None, None], &mut begins, &mut timer).unwrap();
        drop(hear);
        speaker.join().unwrap();
        heard
    }

    #[test]
    fn a_phase_that_does_not_end_is_given_up_where_there_is_a_limit() {
        let short = Duration::from_millis(600);
        let (soon, long) = ((None, Duration::from_secs(2)), (None, Duration::from_secs(60)));
        // The limit applies to one phase, even if both phases together take longer, and to nothing after the last one.
        for next in [Some("read-warm"), None] {
            let heard = heard([Some("read-tight"), next], soon, Some(short));
            assert!(matches!(heard, ListeningEnd::Last(None)), "{next:?}");
        }
        let limited = [Some("read-warm"), Some("read-tight")];
        assert!(
            matches!(heard(limited, long, Some(short)), ListeningEnd::NothingFor(patience) if patience == short)
        );
        assert!(matches!(heard(limited, soon, None), ListeningEnd::Last(None)));
        // A candidate that was slow before is slow, not stuck.
        let late = (Some(short * 5), Duration::from_secs(2));
        assert!(matches!(heard(limited, late, Some(short)), ListeningEnd::Last(None)));
    }
}
