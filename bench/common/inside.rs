//! Their side as a loop in this process.

use anyhow::{Result, bail};
use blobwise::engine::ops::PlannedOp;
use blobwise::engine::workers::clock::Clock;
use blobwise::host::machine;

use super::common::{Bed, TURN_SECONDS, Turn};

/// Does `op` for every get, in whole passes, and nothing else.
pub fn theirs(bed: &Bed, mut op: impl FnMut(&PlannedOp) -> Result<()>) -> Result<Turn> {
    let (begin, cpu) = (bed.clock.now(), machine::thread_cpu_ns());
    let (mut ops, mut now) = (0, begin);
    while now - begin < (TURN_SECONDS * 1e9) as u64 {
        bed.gets.iter().try_for_each(&mut op)?;
        ops += bed.gets.len() as u64;
        now = bed.clock.now();
    }
    let cpu_seconds = (machine::thread_cpu_ns() - cpu) as f64 / 1e9;
    Ok(Turn { ops, seconds: (now - begin) as f64 / 1e9, cpu_seconds })
}

/// Runs a side on a thread of its own, as ours is.
pub fn on_a_thread(side: impl FnOnce() -> Result<Turn> + Send) -> Result<Turn> {
    std::thread::scope(|scope| match scope.spawn(side).join() {
        Ok(turn) => turn,
        Err(_panic) => bail!("their side panicked"),
    })
}
