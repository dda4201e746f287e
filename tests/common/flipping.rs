//! Flips bytes of a blob in the files of its store, as a failing device would.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Result;

/// Length of the pieces to search for, short enough to lie within a page, packet or row.
const PIECE: usize = 40;
/// Number of pieces, spread evenly over the blob.
const PIECES: usize = 4;

/// Replaces a byte in every copy of some pieces of a blob (at least 20 kB) in the files below a directory, and returns the number
/// of replacements.
pub fn flip(dir: &Path, blob: &[u8], other: fn(u8) -> u8) -> Result<usize> {
    let piece = |number: usize| {
        let at = blob.len() * (2 * number + 1) / (2 * PIECES);
        // Stamps of a run's blobs are at multiples of 4 KiB.
        let at = at - at % 4096 + 1000;
        &blob[at..at + PIECE]
    };
    let mut copies = 0;
    // Files may vanish while a server's background work goes on.
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

/// Returns all positions of a piece. (A search in Rust takes minutes for a database in unoptimised tests.)
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
