//! Whole reads of `sqlite` against a minimal loop over the same database.
//!
//! `cargo bench --bench sqlite_read`

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

mod common;
#[path = "common/inside.rs"]
mod inside;

use anyhow::{Context, Result};
use blobwise::corpus::Sizes;
use blobwise::engine::workers::consumer::touch;
use blobwise::plan::Order;
use rusqlite::{Connection, OpenFlags};

use common::{Bed, compare};
use inside::{on_a_thread, theirs};

fn main() -> Result<()> {
    for (name, blobs) in [("fixed:4096", 2000), ("web-images", 1000)] {
        let bed = Bed::make("sqlite", Sizes::parse(name)?, blobs, Order::Once, blobs)?;
        let path = bed.dir().join("blobs.sqlite");
        let minimal = || {
            let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            // The settings of our sessions that concern reads: the same cache, no map.
            connection.pragma_update(None, "cache_size", -(64 << 10))?;
            connection.pragma_update(None, "mmap_size", 0)?;
            let mut select = connection.prepare("SELECT data FROM blobs WHERE key = ?1")?;
            theirs(&bed, |op| {
                let mut rows = select.query([bed.corpus.keys.at(op.blob as usize).as_str()])?;
                let row = rows.next()?.context("no such row")?;
                touch(row.get_ref(0)?.as_blob()?);
                Ok(())
            })
        };
        let title = format!("sqlite against a minimal loop with a prepared statement: {name}, {blobs} rows");
        compare(&title, None, || bed.ours(), || on_a_thread(minimal))?;
    }
    Ok(())
}
