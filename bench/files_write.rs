//! New files of `files/hashed` against a bare loop of create, write, rename.
//!
//! `cargo bench --bench files_write`

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

#[expect(dead_code, reason = "the other sides have reads too")]
mod common;

use std::cell::Cell;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use blobwise::corpus::Sizes;
use blobwise::engine::ops::PlannedOp;
use blobwise::engine::workers::clock::Clock;
use blobwise::host::machine;
use blobwise::plan::{OpKind, Order, Sets, candidates};
use blobwise::store::Durability;
use rustix::fs::{Mode, OFlags, mkdirat, openat, renameat};

use common::{Bed, PER_CPU_SECOND, PER_SECOND, Turn, compare, open};

const STORE: &str = "files/hashed";
/// Ours may take 1.1 times as long.
const SHARE_MIN: f64 = 1.0 / 1.1;

fn main() -> Result<ExitCode> {
    let mut met = true;
    // What goes to the page cache waits for nothing but the processor.
    for (class, name, blobs, line) in [
        (Durability::None, "fixed:10000", 4000, PER_CPU_SECOND.0),
        (Durability::None, "web-images", 1500, PER_CPU_SECOND.0),
        (Durability::EachWrite, "fixed:10000", 200, PER_SECOND.0),
    ] {
        let bed = Bed::make(STORE, Sizes::parse(name)?, blobs, Order::Once, 1)?;
        let pairs = Pairs { within: bed.dir().with_file_name("turns"), taken: Cell::new(0) };
        let puts: Vec<PlannedOp> = (0..blobs as u32)
            .map(|blob| PlannedOp {
                blob,
                kind: OpKind::Put,
                len: bed.corpus.sizes[blob as usize],
                generation: 0,
                offset: 0,
            })
            .collect();
        let title = format!(
            "{STORE}, class {}, against a bare loop of create, write, rename: {name}, {blobs} files",
            class.name()
        );
        let ours = || ours(&bed, class, &puts, &pairs.next("ours")?);
        let theirs = || theirs(&bed, class, &puts, &pairs.next("theirs")?);
        met &= compare(&title, Some((line, SHARE_MIN)), ours, theirs)?;
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Directories for the turns: both sides of a pair below one, so that neither meets what the other has deleted.
struct Pairs {
    within: PathBuf,
    taken: Cell<u64>,
}

impl Pairs {
    fn next(&self, side: &str) -> Result<PathBuf> {
        let taken = self.taken.replace(self.taken.get() + 1);
        let pair = |number: u64| self.within.with_file_name(format!("pair-{number}"));
        if taken.is_multiple_of(2) {
            if taken > 0 {
                std::fs::remove_dir_all(pair(taken / 2 - 1))?;
            }
            std::fs::create_dir(pair(taken / 2))?;
            machine::sync_filesystem(&pair(taken / 2))?;
        }
        let dir = pair(taken / 2).join(side);
        std::fs::create_dir(&dir)?;
        Ok(dir)
    }
}

fn ours(bed: &Bed, class: Durability, puts: &[PlannedOp], dir: &Path) -> Result<Turn> {
    let (candidates, _) = candidates(&[STORE.to_owned()], &Sets::new(), true)?;
    let store = open(candidates.first().context("no candidate")?, dir, &bed.corpus, class)?;
    bed.run(store.as_ref(), puts.to_vec(), 0.0)
}

/// A file to be made: its directory, its name while it is written, and its name.
type Names = (String, String, String);

fn theirs(bed: &Bed, class: Durability, puts: &[PlannedOp], dir: &Path) -> Result<Turn> {
    let base = File::open(dir)?;
    let names = |put: &PlannedOp| -> Names {
        let key = bed.corpus.keys.at(put.blob as usize).as_str().to_owned();
        let directory = key[..2].to_owned();
        (directory.clone(), format!("{directory}/.draft"), format!("{directory}/{key}"))
    };
    let names: Vec<Names> = puts.iter().map(names).collect();
    let all = || -> Result<Turn> {
        let mut room = Vec::new();
        let (begin, cpu) = (bed.clock.now(), machine::thread_cpu_ns());
        for (put, names) in puts.iter().zip(&names) {
            let blob = bed.corpus.contents.blob(u64::from(put.blob), 0, u64::from(put.len), &mut room);
            make(&base, names, blob, class == Durability::EachWrite)?;
        }
        let cpu_seconds = (machine::thread_cpu_ns() - cpu) as f64 / 1e9;
        let seconds = (bed.clock.now() - begin) as f64 / 1e9;
        Ok(Turn { ops: puts.len() as u64, seconds, cpu_seconds })
    };
    // On a thread of its own, as ours is.
    std::thread::scope(|scope| match scope.spawn(all).join() {
        Ok(turn) => turn,
        Err(_panic) => bail!("their side panicked"),
    })
}

fn make(base: &File, (directory, draft, name): &Names, blob: &[u8], flush: bool) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let create = || openat(base, draft, flags, Mode::from_raw_mode(0o644)).map_err(std::io::Error::from);
    let mut file: File = match create() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            mkdirat(base, directory, Mode::from_raw_mode(0o755))?;
            if flush {
                base.sync_all()?;
            }
            create()?
        }
        created => created?,
    }
    .into();
    file.write_all(blob)?;
    if flush {
        file.sync_all()?;
    }
    drop(file);
    renameat(base, draft, base, name)?;
    if flush {
        let directory = openat(base, directory, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        File::from(directory).sync_all()?;
    }
    Ok(())
}
