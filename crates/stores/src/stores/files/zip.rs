//! A ZIP file of stored entries, with a central directory behind them, in the form of ZIP64 where that is larger than the old one.
//!
//! By hand: the `zip` crate reads an archive only once its directory is written, and this one is read while it grows.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::archive::{ArchiveEntry, ArchiveFormat, NamedEntry, caps, loss, open, read_at};
use super::directories::{BUFFER, FLAT};
use crate::store::*;

pub(in crate::stores) const ADAPTER: Adapter = Adapter {
    name: "zip",
    about: "a ZIP file that blobs are appended to as they are, with a central directory; refuses overwrites and deletes",
    options: &[BUFFER],
    caps: caps::<Zip>,
    loss,
    integrity: |_, _| Integrity::Checksums,
    open: open::<Zip>,
    ..FLAT
};

/// First bytes of a local header, which is before each blob.
const LOCAL: u32 = 0x0403_4b50;
/// The same of an entry of the central directory.
const CENTRAL: u32 = 0x0201_4b50;
/// The same of the three records behind it.
const END_64: u32 = 0x0606_4b50;
const LOCATOR_64: u32 = 0x0706_4b50;
const END: u32 = 0x0605_4b50;

/// Length of a name, which is a key's digest.
const NAME_BYTES: usize = 32;
/// Lengths of the headers and records, without names.
const LOCAL_BYTES: usize = 30;
const CENTRAL_BYTES: usize = 46;
const END_64_BYTES: usize = 56;
const LOCATOR_64_BYTES: usize = 20;
const END_BYTES: usize = 22;
/// Length of a local header with its name.
const HEADER_BYTES: usize = LOCAL_BYTES + NAME_BYTES;
/// The extra field of an entry whose offset needs 64 bits.
const EXTRA_BYTES: usize = 12;

/// Versions of the format that a reader needs: the first one, or ZIP64.
const VERSION: u16 = 10;
const VERSION_64: u16 = 45;
/// Entries are made on Unix, readable for their owner.
const MADE_BY: u16 = 3 << 8 | VERSION_64;
const ATTRIBUTES: u32 = 0o100_600 << 16;
/// The first day that a date can have, 1980-01-01: blobs have no time.
const DATE: u16 = 1 << 5 | 1;

struct Zip;

/// A number in a record, by its length.
enum Field {
    Two(u16),
    Four(u32),
    Eight(u64),
}
use Field::{Eight, Four, Two};

fn push(into: &mut Vec<u8>, fields: &[Field]) {
    for field in fields {
        match field {
            Two(value) => into.extend_from_slice(&value.to_le_bytes()),
            Four(value) => into.extend_from_slice(&value.to_le_bytes()),
            Eight(value) => into.extend_from_slice(&value.to_le_bytes()),
        }
    }
}

/// The number of `len` bytes in a record.
fn number(record: &[u8], at: usize, len: usize) -> u64 {
    record[at..at + len].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn is_signed(record: &[u8], signature: u32) -> bool {
    number(record, 0, 4) == u64::from(signature)
}

/// A number for a field of 32 bits; all ones if it is elsewhere in 64 bits.
fn in_32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn in_16(value: u64) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

/// Appends the fields that a local header and an entry of the central directory share.
fn push_common(into: &mut Vec<u8>, version: u16, len: u64, crc: u32, extra_bytes: usize) {
    let len = in_32(len);
    // Version, flags, method (stored), time, date; the two sizes are the same.
    push(into, &[Two(version), Two(0), Two(0), Two(0), Two(DATE), Four(crc), Four(len), Four(len)]);
    push(into, &[Two(NAME_BYTES as u16), Two(extra_bytes as u16)]);
}

/// Appends an entry of the central directory.
fn push_central(into: &mut Vec<u8>, (hex, entry): &NamedEntry) {
    let header_at = entry.offset - HEADER_BYTES as u64;
    let is_far = header_at >= u64::from(u32::MAX);
    let (version, extra_bytes) = if is_far { (VERSION_64, EXTRA_BYTES) } else { (VERSION, 0) };
    push(into, &[Four(CENTRAL), Two(MADE_BY)]);
    push_common(into, version, entry.len, entry.crc, extra_bytes);
    // Length of a comment, disk, internal attributes.
    push(into, &[Two(0), Two(0), Two(0), Four(ATTRIBUTES), Four(in_32(header_at))]);
    into.extend_from_slice(hex);
    if is_far {
        push(into, &[Two(1), Two(8), Eight(header_at)]);
    }
}

/// Appends the records behind a central directory of `count` entries, which begins at `begin` and has `bytes` bytes.
fn push_end(into: &mut Vec<u8>, count: u64, begin: u64, bytes: u64) {
    if count >= u64::from(u16::MAX) || begin.max(bytes) >= u64::from(u32::MAX) {
        // Its length without these two fields, versions, disks, entries on this disk and on all.
        push(into, &[Four(END_64), Eight(END_64_BYTES as u64 - 12), Two(MADE_BY), Two(VERSION_64)]);
        push(into, &[Four(0), Four(0), Eight(count), Eight(count), Eight(bytes), Eight(begin)]);
        push(into, &[Four(LOCATOR_64), Four(0), Eight(begin + bytes), Four(1)]);
    }
    // Disks, entries on this disk and on all, and no comment.
    push(into, &[Four(END), Two(0), Two(0), Two(in_16(count)), Two(in_16(count))]);
    push(into, &[Four(in_32(bytes)), Four(in_32(begin)), Two(0)]);
}

/// A central directory: its number of entries, its offset and its length in bytes.
#[derive(Debug, PartialEq)]
struct Directory {
    count: u64,
    begin: u64,
    bytes: u64,
}

/// Finds the central directory by the records at the end of a file; `None` if they are not there.
fn directory_of(file: &File) -> Result<Option<Directory>> {
    let len = file.metadata()?.len();
    let Some(end_at) = len.checked_sub(END_BYTES as u64) else { return Ok(None) };
    let Some(end) = read_at::<END_BYTES>(file, end_at)?.filter(|end| is_signed(end, END)) else {
        return Ok(None);
    };
    let near =
        Directory { count: number(&end, 10, 2), begin: number(&end, 16, 4), bytes: number(&end, 12, 4) };
    let is_near = |found: &Directory, behind: u64| found.begin.checked_add(found.bytes) == Some(behind);
    if is_near(&near, end_at) {
        return Ok(Some(near));
    }
    let Some(at) = end_at.checked_sub((LOCATOR_64_BYTES + END_64_BYTES) as u64) else { return Ok(None) };
    let Some(end) = read_at::<END_64_BYTES>(file, at)?.filter(|end| is_signed(end, END_64)) else {
        return Ok(None);
    };
    let far =
        Directory { count: number(&end, 32, 8), begin: number(&end, 48, 8), bytes: number(&end, 40, 8) };
    Ok(is_near(&far, at).then_some(far))
}

/// Returns the entries of a central directory; `None` if blobwise did not write it.
fn parse(mut rest: &[u8], count: u64) -> Option<Vec<NamedEntry>> {
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let (fixed, tail) = rest.split_at_checked(CENTRAL_BYTES)?;
        if !is_signed(fixed, CENTRAL) || number(fixed, 28, 2) != NAME_BYTES as u64 {
            return None;
        }
        let (hex, tail) = tail.split_first_chunk::<NAME_BYTES>()?;
        let (extra, tail) = tail.split_at_checked(number(fixed, 30, 2) as usize)?;
        let header_at = if extra.len() == EXTRA_BYTES { number(extra, 4, 8) } else { number(fixed, 42, 4) };
        let offset = header_at.checked_add(HEADER_BYTES as u64)?;
        entries.push((
            *hex,
            ArchiveEntry { offset, len: number(fixed, 24, 4), crc: number(fixed, 16, 4) as u32 },
        ));
        rest = tail;
    }
    (entries.len() as u64 == count).then_some(entries)
}

impl ArchiveFormat for Zip {
    const FILE: &'static str = "blobs.zip";
    const FACTS: &'static [(&'static str, &'static str)] =
        &[("format", "ZIP, stored entries"), ("checksum", "CRC-32, checked when a blob is read whole")];
    const LIMIT: Limit = Limit { bytes: 0xffff_fffe, source: "the sizes in a header of ZIP have 32 bits" };
    const HAS_CRC: bool = true;

    fn header(into: &mut Vec<u8>, key: &Key, len: u64, crc: u32) {
        push(into, &[Four(LOCAL)]);
        push_common(into, VERSION, len, crc, 0);
        into.extend_from_slice(&key.hex);
    }

    fn padding(_len: u64) -> usize {
        0
    }

    fn entry_at(file: &File, offset: u64) -> Result<Option<NamedEntry>> {
        let Some(header) = read_at::<HEADER_BYTES>(file, offset)? else { return Ok(None) };
        let mut hex = [0; NAME_BYTES];
        hex.copy_from_slice(&header[LOCAL_BYTES..]);
        let (len, crc) = (number(&header, 22, 4), number(&header, 14, 4) as u32);
        let mut same = Vec::with_capacity(HEADER_BYTES);
        Zip::header(&mut same, &Key { id: 0, hex }, len, crc);
        let entry = ArchiveEntry { offset: offset + HEADER_BYTES as u64, len, crc };
        Ok((same == header).then_some((hex, entry)))
    }

    fn trailer(entries: &[NamedEntry], end: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(entries.len() * (CENTRAL_BYTES + NAME_BYTES + EXTRA_BYTES) + 100);
        entries.iter().for_each(|entry| push_central(&mut bytes, entry));
        let directory_bytes = bytes.len() as u64;
        push_end(&mut bytes, entries.len() as u64, end, directory_bytes);
        bytes
    }

    fn load(_dir: &Path, file: &File) -> Result<Option<(Vec<NamedEntry>, u64)>> {
        let Some(Directory { count, begin, bytes }) = directory_of(file)? else { return Ok(None) };
        let mut directory = vec![0; bytes as usize];
        file.read_exact_at(&mut directory, begin)?;
        Ok(parse(&directory, count).map(|entries| (entries, begin)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::archive::tests::{is_opened_by_its_index_or_by_its_entries, is_right_for};
    use super::*;

    #[test]
    fn it_is_opened_by_its_directory_or_by_its_entries() {
        is_opened_by_its_index_or_by_its_entries::<Zip>();
    }

    #[test]
    fn other_programs_read_it() {
        is_right_for::<Zip>("unzip", &["-l"]);
        is_right_for::<Zip>("python3", &["-m", "zipfile", "-l"]);
    }

    /// An entry beyond 4 GiB, in a file with a hole.
    #[test]
    fn a_large_archive_is_of_zip64() {
        const FAR: u64 = 5 << 30;
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("far.zip");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let mut crc = flate2::Crc::new();
        crc.update(b"blob");
        let mut bytes = Vec::new();
        let key = Key::of_digest(0, 7);
        Zip::header(&mut bytes, &key, 4, crc.sum());
        bytes.extend_from_slice(b"blob");
        let entries = [(key.hex, ArchiveEntry { offset: FAR + HEADER_BYTES as u64, len: 4, crc: crc.sum() })];
        let end = FAR + bytes.len() as u64;
        bytes.extend_from_slice(&Zip::trailer(&entries, end));
        file.write_all_at(&bytes, FAR).unwrap();
        assert_eq!(Zip::load(dir.path(), &file).unwrap(), Some((entries.to_vec(), end)));
        assert_eq!(Zip::entry_at(&file, FAR).unwrap(), Some(entries[0]));
        let mut python = std::process::Command::new("python3");
        if let Ok(output) = python.args(["-m", "zipfile", "-t"]).arg(&path).output() {
            assert!(output.status.success(), "{output:?}");
        }
    }

    #[test]
    fn many_entries_are_counted_in_64_bits() {
        for count in [0, 1, 65_534, 65_535, 70_000] {
            let mut bytes = Vec::new();
            push_end(&mut bytes, count, 0, 0);
            let mut file = tempfile::tempfile().unwrap();
            std::io::Write::write_all(&mut file, &bytes).unwrap();
            assert_eq!(directory_of(&file).unwrap(), Some(Directory { count, begin: 0, bytes: 0 }));
        }
    }
}
