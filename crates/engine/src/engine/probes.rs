//! The probes of a round: the current speed of the processor, the device and a wake-up across processors, without any store.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::Result;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::null_loop::NullLoop;
use super::workers::clock::{Clock, HostClock};
use crate::host::machine::{AlignedBuffer, open_direct};
use crate::result::Probe;

const FLUSHES: usize = 16;
const READS: usize = 64;
const FILE_BYTES: usize = 1 << 20;
const BLOCK: usize = 4096;
/// Round trips between two threads. The first [`TRIPS_TO_BEGIN`] are discarded, because the threads are still starting.
const TRIPS: usize = 200;
const TRIPS_TO_BEGIN: usize = 20;

/// Runs all probes. A probe that fails is `None`, except that of the processor, which is an error.
pub fn measure(clock: &HostClock, null_loop: &NullLoop, dir: &Path, round: u32, at: &str) -> Result<Probe> {
    let path = dir.join("probe");
    let (flush_ns, read_ns) = device(clock, &path).unwrap_or((None, None));
    // Ignores the error: the file is missing if the device probe could not write it.
    drop(std::fs::remove_file(&path));
    let processor_ns = null_loop.ns_per_op(clock, 0.02)?;
    let [trip_ns, near_trip_ns] = trips(clock).map_or([None; 2], |trips| trips.map(Some));
    Ok(Probe {
        round,
        at: at.to_owned(),
        processor_ns,
        flush_ns,
        read_ns,
        trip_ns,
        near_trip_ns,
        repeated: false,
    })
}

/// Returns the median times of a flush and of a direct read, in nanoseconds. Medians keep one stall from spoiling a probe.
fn device(clock: &HostClock, path: &Path) -> Result<(Option<f64>, Option<f64>)> {
    let file = File::create(path)?;
    file.write_all_at(&vec![7; FILE_BYTES], 0)?;
    file.sync_all()?;
    let mut flushes = Vec::new();
    for index in 0..FLUSHES {
        file.write_all_at(&[index as u8; BLOCK], (index * BLOCK) as u64)?;
        let start = clock.now();
        // Calls the kernel directly, because a preloaded library may replace the C library's flushes.
        rustix::fs::fdatasync(&file)?;
        flushes.push(clock.now() - start);
    }
    let direct = open_direct(path);
    let mut buffer = AlignedBuffer::new(BLOCK);
    let mut reads = Vec::new();
    if let Ok(direct) = direct {
        for index in 0..READS {
            // Reads every block once, with no two neighbours in a row.
            let offset = (index * 37 % (FILE_BYTES / BLOCK) * BLOCK) as u64;
            let start = clock.now();
            if buffer.read_from(&direct, offset).is_err() {
                break;
            }
            reads.push(clock.now() - start);
        }
    }
    Ok((median(&mut flushes), median(&mut reads)))
}

/// Returns the median round-trip time of one byte over a socket pair to another thread, in nanoseconds: first with the threads on
/// two processors, then with both on one, where no other processor has to be woken. The difference is the cost of the wake-up.
/// `None` if only one processor is available.
fn trips(clock: &HostClock) -> Option<[f64; 2]> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut processors = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor));
    let (first, second) = (processors.next()?, processors.next()?);
    let trip = |other| trip(clock, [first, other]).ok().flatten();
    Some([trip(second)?, trip(first)?])
}

/// Measures the round trip between two threads that are pinned to these processors.
fn trip(clock: &HostClock, [first, second]: [usize; 2]) -> Result<Option<f64>> {
    let (mut here, mut there) = UnixStream::pair()?;
    let stay_on = |processor| {
        let mut only = CpuSet::new();
        only.set(processor);
        sched_setaffinity(None, &only)
    };
    // Pins new threads, so that the affinity of the calling thread stays as it is.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new;
        let echo = thread().spawn_scoped(scope, move || -> Result<()> {
            stay_on(second)?;
            let mut byte = [0];
            while there.read(&mut byte)? == 1 {
                there.write_all(&byte)?;
            }
            Ok(())
        })?;
        // If this thread cannot be started, its end of the pair is dropped and the echo thread ends.
        let ask = thread().spawn_scoped(scope, move || -> Result<Option<f64>> {
            stay_on(first)?;
            let mut times = Vec::with_capacity(TRIPS);
            for _ in 0..TRIPS {
                let start = clock.now();
                here.write_all(&[7])?;
                here.read_exact(&mut [0])?;
                times.push(clock.now() - start);
            }
            Ok(median(&mut times[TRIPS_TO_BEGIN..]))
        })?;
        let time = ask.join().unwrap_or(Ok(None));
        echo.join().unwrap_or(Ok(()))?;
        time
    })
}

fn median(times: &mut [u64]) -> Option<f64> {
    times.sort_unstable();
    times.get(times.len() / 2).map(|time| *time as f64)
}
