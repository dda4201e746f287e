//! Processes of this program that a launcher of MPI has started side by side, and messages between them.
//!
//! Nothing of MPI is touched where no launcher is seen: a program that a person starts behaves as one that was built without it.

#[cfg(feature = "mpi")]
mod mpi;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};

use super::machine;

/// What carries messages between the processes, each of which has a rank from 0. Messages of a pair come in the order in which they
/// were sent. Only the thread that began it may use it.
pub trait Post: Send + Sync + std::fmt::Debug {
    /// Which of them this one is.
    fn rank(&self) -> usize;
    /// How many there are.
    fn ranks(&self) -> usize;
    /// Sends a message, which may wait until it is taken.
    fn send(&self, to: usize, message: &[u8]) -> Result<()>;
    /// The next message from a process, if one is there.
    fn received(&self, from: usize) -> Result<Option<Vec<u8>>>;
    /// Ends it in order; all of them must. Who does not call it leaves the end to the launcher.
    fn end(self: Box<Self>);
}

/// How many processes a launcher has started side by side, where this is one of them: what Open MPI, Slurm and MPICH (Hydra) put
/// into the environment of each.
pub fn launched() -> Option<usize> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let by_pmix = || std::env::var_os("PMIX_RANK").and_then(|_| number("SLURM_STEP_NUM_TASKS"));
    number("OMPI_COMM_WORLD_SIZE").or_else(|| number("PMI_SIZE")).or_else(by_pmix)
}

/// The messages between this process and those beside it; `None` where it is alone. An error where they are several and this program
/// was built without MPI: each of them would measure by itself, and in the way of the others.
pub fn begin() -> Result<Option<Box<dyn Post>>> {
    match launched() {
        None | Some(0 | 1) => Ok(None),
        Some(ranks) => by_mpi(ranks),
    }
}

/// Refuses to be one of several processes, for what only one can do.
pub fn refuse_many(what: &str) -> Result<()> {
    match launched() {
        Some(ranks @ 2..) => bail!(
            "a launcher of MPI has started {ranks} of these programs, and `{what}` is for one: start it without the launcher; \
             `blobwise run` is for many"
        ),
        _ => Ok(()),
    }
}

#[cfg(feature = "mpi")]
fn by_mpi(_ranks: usize) -> Result<Option<Box<dyn Post>>> {
    Ok(Some(Box::new(mpi::Mpi::begin()?)))
}

#[cfg(not(feature = "mpi"))]
fn by_mpi(ranks: usize) -> Result<Option<Box<dyn Post>>> {
    bail!(
        "a launcher of MPI has started {ranks} of these programs, and this one was built without MPI, so that each would measure by \
         itself and in the way of the others: build it with `--features mpi`, or start one without the launcher"
    )
}

/// How long a message is usually looked for again and again: an answer that is sent at once is there by then.
pub const SPIN: Duration = Duration::from_micros(300);

/// A message from a process, waited for without using a processor but in the first moments (`spin`): those who wait share it with
/// those who measure. An error when none has come in this time, or `stop` was set.
pub fn wait(
    post: &dyn Post,
    from: usize,
    patience: Duration,
    spin: Duration,
    stop: &AtomicBool,
) -> Result<Vec<u8>> {
    const PAUSE: Duration = Duration::from_micros(500);
    let begin = machine::uptime();
    loop {
        if let Some(message) = post.received(from)? {
            return Ok(message);
        }
        let waited = machine::uptime() - begin;
        if stop.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        if waited > patience {
            bail!("nothing was heard of it for {:.0} s", patience.as_secs_f64());
        }
        if waited > spin {
            std::thread::sleep(PAUSE);
        } else {
            std::thread::yield_now();
        }
    }
}

/// Where a process runs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Whereabouts {
    /// The name of the host.
    pub name: String,
    /// This boot of its kernel.
    pub boot: String,
    /// Its network, as the kernel tells networks apart.
    pub network: String,
    /// Processors that it may use.
    pub processors: usize,
}

impl Whereabouts {
    /// Those of this process.
    pub fn here() -> Whereabouts {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
        Whereabouts {
            name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            boot: read("/proc/sys/kernel/random/boot_id"),
            network: network.to_string_lossy().into_owned(),
            processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        }
    }

    /// Whether both share their processors and memory.
    pub fn is_same_kernel(&self, other: &Whereabouts) -> bool {
        self.boot == other.boot
    }

    /// Whether a server that listens on this host for itself alone can be reached from there.
    pub fn reaches_its_loopback(&self, other: &Whereabouts) -> bool {
        self.is_same_kernel(other) && self.network == other.network
    }
}
