//! Whole reads of `files/hashed` against a bare loop over the same files.
//!
//! `cargo bench --bench files_read`

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

mod common;
#[path = "common/inside.rs"]
mod inside;

use std::fs::File;
use std::io::Read;
use std::process::ExitCode;

use anyhow::Result;
use blobwise::corpus::Sizes;
use blobwise::engine::ops::PlannedOp;
use blobwise::engine::workers::consumer::touch;
use blobwise::plan::Order;
use rustix::fs::{Mode, OFlags, openat};

use common::{Bed, PER_CPU_SECOND, compare};
use inside::{on_a_thread, theirs};

/// Bytes read by one call, as in the store.
const BUFFER_BYTES: usize = 256 << 10;

fn main() -> Result<ExitCode> {
    let mut met = true;
    for (name, blobs) in [("fixed:4096", 2000), ("web-images", 1000)] {
        let bed = Bed::make("files/hashed", Sizes::parse(name)?, blobs, Order::Once, blobs)?;
        // The leanest loop: paths are ready before the clock starts and relative to an open directory. Ours are built from
        // the digest for every op.
        let directory = File::open(bed.dir())?;
        let paths: Vec<String> =
            bed.corpus.keys.iter().map(|key| format!("{}/{}", &key.as_str()[..2], key.as_str())).collect();
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut bare = |op: &PlannedOp| -> Result<()> {
            let path = paths[op.blob as usize].as_str();
            let mut file =
                File::from(openat(&directory, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?);
            loop {
                let read = file.read(&mut buffer)?;
                if read == 0 {
                    return Ok(());
                }
                touch(&buffer[..read]);
            }
        };
        let title = format!("files/hashed against a bare loop of open, read, close: {name}, {blobs} files");
        met &=
            compare(&title, Some(PER_CPU_SECOND), || bed.ours(), || on_a_thread(|| theirs(&bed, &mut bare)))?;
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
