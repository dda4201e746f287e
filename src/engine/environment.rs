//! Doubts about the machine that hold before anything is measured.

use std::path::Path;

use super::resources::Idle;
use super::workers::clock::HostClock;
use crate::host::machine;
use crate::plan::Plan;
use crate::records::Records;
use crate::rules::OTHERS_PROCESSOR_SHARE_MAX;
use crate::units;

/// Looks at the machine and notes what makes its figures doubtful.
pub fn look(records: &mut Records, plan: &Plan, clock: &HostClock, place: &Path, idle: Idle) {
    if cfg!(debug_assertions) {
        let text =
            "This is a debug build: the harness and the embedded stores are many times slower than they are.";
        records.doubt("debug-build", text.into(), Some("build with `cargo build --release`"));
    }
    if matches!(clock, HostClock::Monotonic { .. }) {
        let text = "The processor's counter is not invariant here; the system's clock is used, which costs more to read.";
        records.doubt("clock", text.into(), None);
    }
    if machine::is_in_memory(place) {
        let text = "The measured directory lies in memory (tmpfs): nothing here says anything about a disk.";
        records.doubt("tmpfs", text.into(), Some("name a directory on a disk with `--dir`"));
    }
    if machine::remembers_deletions(place) {
        let text = "The file system (ext4 without a journal) makes a new file the more slowly, the more were deleted near it in the last minutes: overwrites and deletes of files slow what follows them.";
        records.doubt(
            "no-journal",
            text.into(),
            Some("name a directory on a file system with a journal with `--dir`"),
        );
    }
    let busy = idle.busy_ns / 1e9 / machine::cores() as f64;
    if busy > OTHERS_PROCESSOR_SHARE_MAX {
        let text = format!("Something else used {:.0} % of the processors before the run.", busy * 100.0);
        records.doubt("noise", text, Some("stop it, or run again at a quieter time"));
    }
    if records.machine.virtual_machine {
        let text =
            "This is a virtual machine: its neighbours and its host's caches are not seen from inside.";
        records.doubt("virtual-machine", text.into(), None);
    }
    let cold = plan.phases.iter().any(|phase| phase.cache.is_cold());
    if cold {
        look_below_the_device(records, place, plan.seed);
        if !plan.drop_caches || !machine::can_drop_caches() {
            let text = "The kernel's caches of inodes and dentries cannot be dropped: cold phases are lukewarm, and files are not ranked against databases in them.";
            records.doubt("lukewarm", text.into(), Some("run as root, without `--no-drop-caches`"));
        }
    }
    let bytes: u64 = records.corpora.iter().map(|corpus| corpus.bytes).max().unwrap_or(0);
    if bytes < records.machine.memory_bytes / 2 && !plan.shows_pages() {
        let text = format!(
            "The corpus ({}) fits into memory ({}): warm reads come from there. Cold reads do not.",
            units::bytes(bytes as f64),
            units::bytes(records.machine.memory_bytes as f64)
        );
        records.doubt(
            "corpus-in-memory",
            text,
            Some("for reads that miss the caches, `--corpus-bytes` above twice the memory"),
        );
    }
}

fn look_below_the_device(records: &mut Records, place: &Path, seed: u64) {
    match machine::host_caches(place, seed ^ u64::from(std::process::id())) {
        Some(true) => {
            let text = "Blocks that were read a moment ago come back from the device in under half the time: something below it, such as the host of this virtual machine, keeps a cache. Cold reads are cold for this system only.";
            records.doubt(
                "host-cache",
                text.into(),
                Some("measure cold reads on hardware, or compare ratios only"),
            );
        }
        Some(false) => {}
        None => {
            let text = "Whether something below the device keeps a cache could not be tested.";
            records.doubt(
                "host-cache",
                text.into(),
                Some("run on a file system that has files nobody read today"),
            );
        }
    }
}

/// Notes what other programs took away while the run went on.
pub fn look_back(records: &mut Records, stolen_before: std::time::Duration, seconds: f64) {
    let stolen = (machine::stolen().saturating_sub(stolen_before)).as_secs_f64();
    let share = stolen / (seconds * machine::cores() as f64).max(1e-9);
    if share > 0.02 {
        let text = format!(
            "The host gave {:.1} % of the processor time to others while the run went on.",
            share * 100.0
        );
        records.doubt("steal", text, Some("run again at a quieter time; look at the rounds"));
    }
}
