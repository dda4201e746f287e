//! Changes bytes of a blob in the files of whatever keeps it, as a device that fails would.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Result;

/// Bytes that are looked for together. A page, a packet or a row ends within few of them.
const PIECE: usize = 40;
/// Pieces that are looked for, evenly from the blob.
const PIECES: usize = 4;

/// Changes a byte of every copy of some pieces of a blob, of 20 kB at least, to another one in the files below a directory, and
/// returns how many those were.
pub fn flip(dir: &Path, blob: &[u8], other: fn(u8) -> u8) -> Result<usize> {
    let piece = |number: usize| {
        let at = blob.len() * (2 * number + 1) / (2 * PIECES);
        // Stamps of a run's blobs are at multiples of 4 KiB.
        let at = at - at % 4096 + 1000;
        &blob[at..at + PIECE]
    };
    let mut copies = 0;
    // A file may go while a server's background work goes on.
    let files = walkdir::WalkDir::new(dir).into_iter().filter_map(|entry| entry.ok());
    for entry in files.filter(|entry| entry.file_type().is_file()) {
        let Ok(bytes) = std::fs::read(entry.path()) else { continue };
        let found: Vec<usize> = (0..PIECES).flat_map(|number| places(&bytes, piece(number))).collect();
        if found.is_empty() {
            continue;
        }
        let file = File::options().write(true).open(entry.path())?;
        for at in found.iter().map(|at| at + PIECE / 2) {
            file.write_all_at(&[other(bytes[at])], at as u64)?;
            copies += 1;
        }
    }
    Ok(copies)
}

/// Where a piece is in some bytes. (A search in Rust takes minutes for a database where tests are not optimised.)
#[expect(unsafe_code, reason = "memmem has no safe wrapper")]
fn places(bytes: &[u8], piece: &[u8]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut from = 0;
    while from < bytes.len() {
        let rest = &bytes[from..];
        // SAFETY: both slices are valid for the lengths given, and the pointer that comes is null or lies within `rest`.
        let found = unsafe {
            let found = libc::memmem(rest.as_ptr().cast(), rest.len(), piece.as_ptr().cast(), piece.len());
            (!found.is_null()).then(|| found.cast::<u8>().cast_const().offset_from(rest.as_ptr()) as usize)
        };
        let Some(found) = found else { break };
        places.push(from + found);
        from += found + piece.len();
    }
    places
}
