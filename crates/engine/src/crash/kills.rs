//! Process kills: a store's process dies by SIGKILL in the middle of its work, and its acknowledged writes are looked for. The
//! kernel and its page cache survive.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rustix::process::Signal;

use super::Trial;
use super::lab::{Lab, Mounted, heard, say};
use super::load::{self, CrashLoad, History};
use super::oracle::{LoadHistory, StoreVerdict};
use crate::host::disk::{Faults, Log};
use crate::host::fork::{Forked, SharedWords};
use crate::host::machine;
use crate::host::server::{held_below, servers_below};
use crate::result::crash::besides::KillResults;
use crate::store::{Durability, Loss, Mode};

/// Longest time for a load to reach its mark.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest time for a killed process to end.
const ENDS_WITHIN: Duration = Duration::from_secs(30);
/// Longest delay after a mark, in microseconds: the time of a few ops.
const AFTER_MAX: u64 = 3000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KillPoint {
    /// Op that must have begun.
    op: usize,
    after: Duration,
    /// Selects one of a server's processes.
    victim: usize,
}

/// Draws the marks from the seed. The exact moment within an op depends on the machine.
fn marks(kills: usize, ops: usize, seed: u64) -> Vec<KillPoint> {
    let mut rng = SmallRng::seed_from_u64(seed);
    (0..kills)
        .map(|_| {
            let op = rng.random_range(0..ops);
            let after = if rng.random() { rng.random_range(0..AFTER_MAX) } else { 0 };
            KillPoint { op, after: Duration::from_micros(after), victim: rng.random_range(0..1 << 16) }
        })
        .collect()
}

/// Class by which losses after a kill are judged: if nothing may be lost, every acknowledged write must be there in any class.
fn judged_as(class: Durability, declared: Loss) -> Durability {
    if declared == Loss::Nothing { Durability::EachWrite } else { class }
}

/// Kills the store of a trial `kills` times, each time a new store: its process, or one of its server's processes.
pub fn try_kills(lab: &Lab, trial: &Trial<'_>, kills: usize, seed: u64) -> Result<KillResults> {
    let load = CrashLoad::for_trial(trial, seed)?;
    let declared = trial.losses().after_kill;
    let mut told = KillResults {
        declared,
        kills: 0,
        under_way: 0,
        broken: 0,
        lost_recent: 0,
        first: None,
        open_seconds: None,
    };
    let mut opened = Vec::new();
    let mut mounted = lab.fresh(None, Faults::default())?;
    for mark in marks(kills, load.ops.len(), seed) {
        lab.go_on()?;
        let history = History::new()?;
        kill(lab, trial, &load, &history, mark)?;
        let found = lab.look(&mut mounted, trial, &load)?.found;
        told.kills += 1;
        told.under_way += usize::from(history.is_under_way());
        opened.extend(found.open_seconds);
        let known = LoadHistory { ops: &load.ops, history: &history };
        let judged = match found.open_seconds {
            Some(_) => known.all(&found.blobs, judged_as(trial.judged_as, declared), declared, usize::MAX),
            None => StoreVerdict::unusable(found.refused.as_deref()),
        };
        told.lost_recent += usize::from(judged.lost_recent);
        if let Some(lost) = judged.worst {
            told.broken += 1;
            told.first.get_or_insert_with(|| format!("{} (killed at op {})", lost.what, mark.op));
        }
        forget(lab, &mut mounted)?;
    }
    opened.sort_by(f64::total_cmp);
    told.open_seconds = opened.get(opened.len() / 2).copied().zip(opened.last().copied());
    Ok(told)
}

/// Removes a store once nothing uses it.
fn forget(lab: &Lab, mounted: &mut Mounted) -> Result<()> {
    // Unmounting waits until no process has a file open there.
    mounted.unmount()?;
    if !mounted.mount_again(lab)? {
        bail!("the file system of a store that was killed cannot be mounted again");
    }
    let dir = lab.mount().join("store");
    std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove `{}`", dir.display()))
}

/// Runs a load up to a mark, and kills the store.
fn kill(lab: &Lab, trial: &Trial<'_>, load: &CrashLoad, history: &History, mark: KillPoint) -> Result<()> {
    let (log, failed) = (Log::new(0)?, SharedWords::new(256)?);
    let mut worker = Forked::begin(|| {
        let outcome = (|| {
            let store = lab.open(trial, load, Mode::Create)?;
            history.begin(&log);
            let outcome = load::run(store.as_ref(), trial.class, load, &log, history);
            if outcome.is_ok() {
                // Everything is acknowledged; the store is killed while it is open.
                std::thread::sleep(PATIENCE);
            }
            std::mem::forget(store);
            outcome
        })();
        if let Err(error) = outcome {
            say(&failed, &format!("{error:#}"));
        }
    })?;
    let begin = machine::uptime();
    while history.op(mark.op).is_none() {
        if worker.wait_for(Duration::ZERO)?.is_some() {
            bail!("the load failed: {}", heard(&failed).unwrap_or_else(|| "it ended".to_owned()));
        }
        if machine::uptime() - begin > PATIENCE {
            worker.kill();
            bail!("the load does not come to op {} within {} s", mark.op, PATIENCE.as_secs());
        }
        std::hint::spin_loop();
    }
    let reached = machine::uptime();
    let has_server = trial.has_server();
    let below = if has_server { held_below(worker.pid()) } else { Vec::new() };
    while machine::uptime() - reached < mark.after {
        std::hint::spin_loop();
    }
    if has_server {
        kill_server(&mut worker, mark)?;
    } else {
        worker.kill();
    }
    let have_ended = below.iter().all(|process| process.ends_within(ENDS_WITHIN));
    ensure!(have_ended, "a process of a server lives on after its end");
    Ok(())
}

/// Kills a process of the worker's server. The worker sees its requests fail and ends.
fn kill_server(worker: &mut Forked, mark: KillPoint) -> Result<()> {
    let processes = servers_below(worker.pid());
    let victim = mark.victim.checked_rem(processes.len()).context("it has no server of its own")?;
    processes[victim].signal(Signal::KILL).context("its server cannot be killed")?;
    // A worker that was already done does not notice.
    const SEES_IT_WITHIN: Duration = Duration::from_secs(2);
    if worker.wait_for(SEES_IT_WITHIN)?.is_none() {
        worker.kill();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_those_of_the_seed() {
        assert_eq!(marks(20, 160, 3), marks(20, 160, 3));
        assert_ne!(marks(20, 160, 3), marks(20, 160, 4));
        assert!(marks(200, 160, 3).iter().any(|mark| mark.after.is_zero()));
    }

    #[test]
    fn where_a_kill_takes_nothing_no_class_loses_what_was_acknowledged() {
        assert_eq!(judged_as(Durability::None, Loss::Nothing), Durability::EachWrite);
        assert_eq!(judged_as(Durability::OnSync, Loss::RecentWrites), Durability::OnSync);
    }
}
