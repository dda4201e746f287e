//! Which processors threads may run on: workers and servers apart, where a plan asks for it.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The processors of workers and those of servers, by number: no core serves both sides where there are several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Apart {
    /// Where the engine's workers run.
    pub workers: Vec<usize>,
    /// Where servers run, and every other process and thread that a store starts when it is opened.
    pub servers: Vec<usize>,
}

impl Apart {
    /// Halves what this process may use; an odd core goes to the servers. With a single processor it is an error.
    pub fn of_allowed() -> Result<Apart> {
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

    /// Both sides in words.
    pub fn text(&self) -> String {
        let list = |side: &[usize]| side.iter().map(usize::to_string).collect::<Vec<String>>().join(", ");
        format!("workers on {}, servers on {}", list(&self.workers), list(&self.servers))
    }

    /// Fails where a process may run elsewhere than servers are to.
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

    /// Keeps the calling thread where workers run.
    pub fn pin_worker(&self) -> Result<()> {
        pin(&self.workers).context("cannot pin a worker")
    }

    /// Keeps the calling thread, and what it starts, where servers run until what is returned is dropped.
    pub fn pin_servers(&self) -> Result<Pinned> {
        let before = sched_getaffinity(None).context("cannot ask which processors may be used")?;
        pin(&self.servers).context("cannot pin a server")?;
        Ok(Pinned { before })
    }
}

/// A thread that is kept on some processors.
pub struct Pinned {
    before: CpuSet,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        sched_setaffinity(None, &self.before).ok();
    }
}

fn pin(processors: &[usize]) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    processors.iter().for_each(|processor| set.set(*processor));
    sched_setaffinity(None, &set)
}

/// Whole cores for each side; of a single core its threads.
fn halved(cores: &[Vec<usize>]) -> Option<Apart> {
    let threads: Vec<Vec<usize>> = cores.concat().into_iter().map(|thread| vec![thread]).collect();
    let parts = if cores.len() > 1 { cores } else { &threads };
    let (workers, servers) = parts.split_at(parts.len() / 2);
    (!workers.is_empty()).then(|| Apart { workers: workers.concat(), servers: servers.concat() })
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
        let Ok(apart) = Apart::of_allowed() else { return };
        let allowed = || {
            let set = sched_getaffinity(None).unwrap();
            (0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect::<Vec<usize>>()
        };
        let before = allowed();
        let pinned = apart.pin_servers().unwrap();
        assert_eq!(allowed(), apart.servers);
        // What is started meanwhile is there as well.
        assert_eq!(std::thread::spawn(allowed).join().unwrap(), apart.servers);
        drop(pinned);
        assert_eq!(allowed(), before);
    }
}
