//! Message passing by MPI.

use std::thread::ThreadId;

use anyhow::{Context, Result, ensure};
use mpi::Threading;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

use super::MessagePassing;

/// The MPI world of the processes that were started together.
pub(super) struct Mpi {
    universe: std::mem::ManuallyDrop<Universe>,
    rank: usize,
    ranks: usize,
    /// The only thread that may call MPI (`MPI_THREAD_FUNNELED`).
    thread: ThreadId,
}

impl Mpi {
    pub(super) fn begin() -> Result<Mpi> {
        let (universe, threads) =
            mpi::initialize_with_threading(Threading::Funneled).context("MPI was begun already")?;
        ensure!(threads >= Threading::Funneled, "this MPI is for programs of one thread");
        let world = universe.world();
        let (rank, ranks) = (world.rank() as usize, world.size() as usize);
        Ok(Mpi {
            universe: std::mem::ManuallyDrop::new(universe),
            rank,
            ranks,
            thread: std::thread::current().id(),
        })
    }

    fn world(&self) -> Result<SimpleCommunicator> {
        ensure!(std::thread::current().id() == self.thread, "MPI was called by another thread");
        Ok(self.universe.world())
    }
}

impl std::fmt::Debug for Mpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mpi").field("rank", &self.rank).field("ranks", &self.ranks).finish_non_exhaustive()
    }
}

impl MessagePassing for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn send(&self, to: usize, message: &[u8]) -> Result<()> {
        ensure!(
            i32::try_from(message.len()).is_ok(),
            "a message of {} B to client {to} is over MPI's limit of 2 GiB: use fewer blobs or more clients",
            message.len()
        );
        self.world()?.process_at_rank(to as i32).send(message);
        Ok(())
    }

    fn received(&self, from: usize) -> Result<Option<Vec<u8>>> {
        let world = self.world()?;
        let Some((message, status)) = world.process_at_rank(from as i32).immediate_matched_probe() else {
            return Ok(None);
        };
        let mut bytes = vec![0_u8; status.count(u8::equivalent_datatype()) as usize];
        message.matched_receive_into(&mut bytes[..]);
        Ok(Some(bytes))
    }

    fn end(self: Box<Self>) {
        drop(std::mem::ManuallyDrop::into_inner(self.universe));
    }
}
