//! Whole reads of `files/hashed` against a bare loop over the same files.
//!
//! `cargo bench --bench files_read`

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

mod common;
#[path = "common/inside.rs"]
mod inside;

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use blobwise::corpus::Sizes;
use blobwise::engine::consumer::touch;
use blobwise::engine::ops::PlannedOp;
use blobwise::plan::Order;

use common::{Bed, PER_CPU_SECOND, compare};
use inside::{on_a_thread, theirs};

/// Bytes read by one call, as in the store.
const BUFFER_BYTES: usize = 256 << 10;

fn main() -> Result<ExitCode> {
    let mut met = true;
    for (name, blobs) in [("fixed:4096", 2000), ("web-images", 1000)] {
        let bed = Bed::make("files/hashed", Sizes::parse(name)?, blobs, Order::Once, blobs)?;
        // Their paths are ready before the clock starts; ours are built from the digest for every op.
        let paths: Vec<PathBuf> =
            bed.corpus.keys.iter().map(|key| bed.dir().join(&key.as_str()[..2]).join(key.as_str())).collect();
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut bare = |op: &PlannedOp| -> Result<()> {
            let mut file = File::open(&paths[op.blob as usize])?;
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
