//! Processor affinity: pins workers and servers to disjoint sets of processors if a plan asks for it.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Processor numbers for workers and for servers. The two sides share no core unless only one core is available.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessorSplit {
    /// Processors that run the engine's workers.
    pub workers: Vec<usize>,
    /// Processors that run servers and every other process and thread that a store starts when it is opened.
    pub servers: Vec<usize>,
}

impl ProcessorSplit {
    /// Splits the processors that this process may use in halves; an odd core goes to the servers. Fails with a single processor.
    pub fn of_allowed() -> Result<ProcessorSplit> {
        let allowed = sched_getaffinity(None).context("cannot ask which processors may be used")?;
        let allowed: Vec<usize> =
            (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect();
        let mut cores: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for processor in &allowed {
            let path = format!("/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list");
            let core = std::fs::read_to_string(path).unwrap_or_else(|_| processor.to_string());
            cores.entry(core).or_default().push(*processor);
        }
        let mut cores: Vec<Vec<usize>> = cores.into_values().collect();
        cores.sort();
        match halved(&cores) {
            Some(apart) => Ok(apart),
            None => bail!(
                "workers and servers cannot be pinned apart: this process may use {} processor, and two are needed; run it \
                 without `--pin-apart`",
                allowed.len()
            ),
        }
    }

    /// Formats both sides for people.
    pub fn text(&self) -> String {
        let list = |side: &[usize]| side.iter().map(usize::to_string).collect::<Vec<String>>().join(", ");
        format!("workers on {}, servers on {}", list(&self.workers), list(&self.servers))
    }

    /// Fails if a process may run on a processor outside `servers`.
    pub fn check_server(&self, name: &str, pid: Pid) -> Result<()> {
        let allowed =
            sched_getaffinity(Some(pid)).with_context(|| format!("cannot ask where `{name}` runs"))?;
        let elsewhere = (0..CpuSet::MAX_CPU)
            .filter(|processor| allowed.is_set(*processor))
            .find(|processor| !self.servers.contains(processor));
        match elsewhere {
            Some(processor) => {
                bail!("`{name}` may run on processor {processor}, where no server is to be (`--pin-apart`)")
            }
            None => Ok(()),
        }
    }

    /// Pins the calling thread to the workers' processors.
    pub fn pin_worker(&self) -> Result<()> {
        pin(&self.workers).context("cannot pin a worker")
    }

    /// Pins the calling thread, and the threads and processes that it starts, to the servers' processors until the guard is
    /// dropped.
    pub fn pin_servers(&self) -> Result<AffinityGuard> {
        let before = sched_getaffinity(None).context("cannot ask which processors may be used")?;
        pin(&self.servers).context("cannot pin a server")?;
        Ok(AffinityGuard { before })
    }
}

/// Guard that restores the thread's former affinity when dropped.
pub struct AffinityGuard {
    before: CpuSet,
}

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        sched_setaffinity(None, &self.before).ok();
    }
}

fn pin(processors: &[usize]) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    processors.iter().for_each(|processor| set.set(*processor));
    sched_setaffinity(None, &set)
}

/// Splits by whole cores, or by hardware threads if there is one core; `None` if there is a single thread.
fn halved(cores: &[Vec<usize>]) -> Option<ProcessorSplit> {
    let threads: Vec<Vec<usize>> = cores.concat().into_iter().map(|thread| vec![thread]).collect();
    let parts = if cores.len() > 1 { cores } else { &threads };
    let (workers, servers) = parts.split_at(parts.len() / 2);
    (!workers.is_empty()).then(|| ProcessorSplit { workers: workers.concat(), servers: servers.concat() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_halved_and_not_split() {
        let halves = |cores: &[&[usize]]| {
            let cores: Vec<Vec<usize>> = cores.iter().map(|core| core.to_vec()).collect();
            halved(&cores).map(|apart| (apart.workers, apart.servers))
        };
        assert_eq!(halves(&[&[0], &[1]]), Some((vec![0], vec![1])));
        assert_eq!(halves(&[&[0, 4], &[1, 5], &[2, 6]]), Some((vec![0, 4], vec![1, 5, 2, 6])));
        assert_eq!(halves(&[&[0, 1]]), Some((vec![0], vec![1])));
        assert_eq!(halves(&[&[3]]), None);
    }

    #[test]
    fn a_thread_is_put_back_where_it_was() {
        let Ok(apart) = ProcessorSplit::of_allowed() else { return };
        let allowed = || {
            let set = sched_getaffinity(None).unwrap();
            (0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect::<Vec<usize>>()
        };
        let before = allowed();
        let pinned = apart.pin_servers().unwrap();
        assert_eq!(allowed(), apart.servers);
        // Threads started meanwhile inherit the affinity.
        assert_eq!(std::thread::spawn(allowed).join().unwrap(), apart.servers);
        drop(pinned);
        assert_eq!(allowed(), before);
    }
}
