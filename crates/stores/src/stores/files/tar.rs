//! A tar file (ustar) with an index beside it, in the form of `tarindexer`: a line of name, offset and size for each blob.
//!
//! By hand: a header is one block of text, and the `tar` crate reads archives from the front and writes streams, neither of which
//! finds or flushes a single entry.

use std::fs::File;
use std::path::Path;

use super::archive::{ArchiveEntry, ArchiveFormat, NamedEntry, caps, loss, open, read_at};
use super::directories::{BUFFER, FLAT};
use crate::store::*;

pub(in crate::stores) const ADAPTER: Adapter = Adapter {
    name: "tar",
    about: "a tar file that blobs are appended to, with an index beside it; refuses overwrites and deletes",
    options: &[BUFFER],
    caps: caps::<Tar>,
    loss,
    open: open::<Tar>,
    ..FLAT
};

const INDEX: &str = "blobs.tar.index";
/// Headers, blobs with their padding, and the trailer consist of blocks.
const BLOCK: usize = 512;
/// Two blocks of zeros end an archive.
const TRAILER: usize = 2 * BLOCK;

struct Tar;

/// The octal digits of a field, with the zero that ends them.
fn octal(field: &mut [u8], value: u64) {
    let digits = format!("{value:0width$o}", width = field.len() - 1);
    field[..digits.len()].copy_from_slice(digits.as_bytes());
}

/// The number in a field of octal digits.
fn number(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?;
    u64::from_str_radix(text.trim_matches(['\0', ' ']), 8).ok()
}

/// Sum of the bytes of a header, with spaces in place of the sum itself.
fn sum(header: &[u8; BLOCK]) -> u64 {
    let own: u64 = header[148..156].iter().map(|byte| u64::from(*byte)).sum();
    header.iter().map(|byte| u64::from(*byte)).sum::<u64>() - own + 8 * u64::from(b' ')
}

fn encode(hex: &[u8; 32], len: u64) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    header[..32].copy_from_slice(hex);
    octal(&mut header[100..108], 0o600);
    // User, group and time of change.
    octal(&mut header[108..116], 0);
    octal(&mut header[116..124], 0);
    octal(&mut header[124..136], len);
    octal(&mut header[136..148], 0);
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum = sum(&header);
    octal(&mut header[148..155], sum);
    header[155] = b' ';
    header
}

/// Returns the name and length from a header; `None` if blobwise did not write it.
fn decode(header: &[u8; BLOCK]) -> Option<([u8; 32], u64)> {
    let (hex, _) = header.split_first_chunk::<32>()?;
    let len = number(&header[124..136])?;
    (encode(hex, len) == *header).then_some((*hex, len))
}

/// The entries of an index.
fn parse(text: &str) -> Option<Vec<NamedEntry>> {
    let entry = |line: &str| {
        let (name, rest) = line.split_once(' ')?;
        let (offset, len) = rest.split_once(' ')?;
        let entry = ArchiveEntry { offset: offset.parse().ok()?, len: len.parse().ok()?, crc: 0 };
        Some((name.as_bytes().try_into().ok()?, entry))
    };
    text.lines().map(entry).collect()
}

impl ArchiveFormat for Tar {
    const FILE: &'static str = "blobs.tar";
    const FACTS: &'static [(&'static str, &'static str)] =
        &[("format", "ustar"), ("index", "beside the archive: name, offset and size in a line each")];
    const LIMIT: Limit = Limit { bytes: 0o777_7777_7777, source: "11 octal digits in a header of ustar" };
    const HAS_CRC: bool = false;

    fn header(into: &mut Vec<u8>, key: &Key, len: u64, _crc: u32) {
        into.extend_from_slice(&encode(&key.hex, len));
    }

    fn padding(len: u64) -> usize {
        (BLOCK - len as usize % BLOCK) % BLOCK
    }

    fn entry_at(file: &File, offset: u64) -> Result<Option<NamedEntry>> {
        let header = read_at::<BLOCK>(file, offset)?;
        let decoded = header.as_ref().and_then(decode);
        Ok(decoded.map(|(hex, len)| (hex, ArchiveEntry { offset: offset + BLOCK as u64, len, crc: 0 })))
    }

    fn trailer(_entries: &[NamedEntry], _end: u64) -> Vec<u8> {
        vec![0; TRAILER]
    }

    fn index_beside(entries: &[NamedEntry]) -> Option<(&'static str, String)> {
        let line = |(hex, entry): &NamedEntry| {
            let name = std::str::from_utf8(hex).unwrap_or_default();
            format!("{name} {} {}\n", entry.offset, entry.len)
        };
        Some((INDEX, entries.iter().map(line).collect()))
    }

    /// An index is of this archive if the trailer lies where its entries end.
    fn load(dir: &Path, file: &File) -> Result<Option<(Vec<NamedEntry>, u64)>> {
        let text = std::fs::read_to_string(dir.join(INDEX));
        let Some(entries) = text.ok().as_deref().and_then(parse) else { return Ok(None) };
        let end = entries.last().map_or(0, |(_, entry)| {
            entry.offset.saturating_add(entry.len).saturating_add(Tar::padding(entry.len) as u64)
        });
        let is_whole = end.checked_add(TRAILER as u64) == Some(file.metadata()?.len())
            && read_at::<TRAILER>(file, end)? == Some([0; TRAILER]);
        Ok(is_whole.then_some((entries, end)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::archive::tests::{is_opened_by_its_index_or_by_its_entries, is_right_for};
    use super::*;

    #[test]
    fn it_is_opened_by_its_index_or_by_its_entries() {
        is_opened_by_its_index_or_by_its_entries::<Tar>();
    }

    #[test]
    fn other_programs_read_it() {
        is_right_for::<Tar>("tar", &["-tf"]);
        is_right_for::<Tar>("python3", &["-m", "tarfile", "-l"]);
    }

    #[test]
    fn a_header_that_changed_is_none() {
        let mut header = encode(&[b'a'; 32], 0o777_7777_7777);
        assert_eq!(decode(&header), Some(([b'a'; 32], 0o777_7777_7777)));
        header[130] ^= 1;
        assert_eq!(decode(&header), None);
        assert_eq!(decode(&[0; BLOCK]), None);
    }

    #[test]
    fn an_index_that_is_cut_off_is_none() {
        let entries = [([b'a'; 32], ArchiveEntry { offset: 512, len: 7, crc: 0 })];
        let (_, text) = Tar::index_beside(&entries).unwrap();
        assert_eq!(parse(&text), Some(entries.to_vec()));
        assert_eq!(parse(&text[..20]), None);
    }
}
