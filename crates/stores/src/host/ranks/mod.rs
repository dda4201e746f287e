//! MPI ranks: processes of this program that an MPI launcher has started side by side, and messages between them.
//!
//! MPI is initialised only if a launcher is detected: a program started by hand behaves like one built without MPI.

#[cfg(feature = "mpi")]
mod mpi;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};

use super::machine;

/// Message passing between the processes, each of which has a rank from 0. Messages between two processes arrive in the order in
/// which they were sent. Only the thread that initialised it may use it.
pub trait MessagePassing: Send + Sync + std::fmt::Debug {
    /// Rank of this process.
    fn rank(&self) -> usize;
    /// Number of processes.
    fn ranks(&self) -> usize;
    /// Sends a message; may block until it is received.
    fn send(&self, to: usize, message: &[u8]) -> Result<()>;
    /// Returns the next message from a process if one has arrived.
    fn received(&self, from: usize) -> Result<Option<Vec<u8>>>;
    /// Finalises message passing; all processes must. A process that does not call it leaves its end to the launcher.
    fn end(self: Box<Self>);
}

/// Number of processes that an MPI launcher has started together with this one, from the environment that Open MPI, Slurm and
/// MPICH (Hydra) set; `None` without a launcher.
pub fn launched() -> Option<usize> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let by_pmix = || std::env::var_os("PMIX_RANK").and_then(|_| number("SLURM_STEP_NUM_TASKS"));
    number("OMPI_COMM_WORLD_SIZE").or_else(|| number("PMI_SIZE")).or_else(by_pmix)
}

/// Initialises message passing; `None` if this process is alone. Fails if there are several and this program was built without
/// MPI, because each would measure by itself and disturb the others.
pub fn begin() -> Result<Option<Box<dyn MessagePassing>>> {
    match launched() {
        None | Some(0 | 1) => Ok(None),
        Some(ranks) => by_mpi(ranks),
    }
}

/// Fails if this is one of several processes: for commands that only one may run.
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
fn by_mpi(_ranks: usize) -> Result<Option<Box<dyn MessagePassing>>> {
    Ok(Some(Box::new(mpi::Mpi::begin()?)))
}

#[cfg(not(feature = "mpi"))]
fn by_mpi(ranks: usize) -> Result<Option<Box<dyn MessagePassing>>> {
    bail!(
        "a launcher of MPI has started {ranks} of these programs, and this one was built without MPI, so that each would measure by \
         itself and in the way of the others: build it with `--features mpi`, or start one without the launcher"
    )
}

/// Usual time to poll for a message without sleeping: an answer that is sent at once arrives within it.
pub const SPIN: Duration = Duration::from_micros(300);

/// Waits for a message from a process. Polls during `spin` and sleeps between looks afterwards, because waiting processes share
/// processors with those that measure. Fails after `patience`, or when `stop` is set.
pub fn wait(
    post: &dyn MessagePassing,
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

/// The host that a process runs on.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HostIdentity {
    /// Host name.
    pub name: String,
    /// Id of this boot of its kernel.
    pub boot: String,
    /// Its network namespace.
    pub network: String,
    /// Processors that the process may use.
    pub processors: usize,
}

impl HostIdentity {
    /// Describes where this process runs.
    pub fn here() -> HostIdentity {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
        HostIdentity {
            name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            boot: read("/proc/sys/kernel/random/boot_id"),
            network: network.to_string_lossy().into_owned(),
            processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        }
    }

    /// True if both processes run on the same booted kernel and so share processors and memory.
    pub fn is_same_kernel(&self, other: &HostIdentity) -> bool {
        self.boot == other.boot
    }

    /// True if a server on this host's loopback interface can be reached from the other process.
    pub fn reaches_its_loopback(&self, other: &HostIdentity) -> bool {
        self.is_same_kernel(other) && self.network == other.network
    }
}
