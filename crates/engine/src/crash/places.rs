//! Maps disk locations to their owners: a file that a store wrote, or the file system itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::host::disk::extents;
use crate::result::cause::FilePlace;

/// Chunks of a file system with its own address space (btrfs): address, length, and offset on the device.
pub(super) type Chunks = Vec<(u64, u64, u64)>;

/// Files by the location of their bytes on the device: length, offset in the file, and name.
#[derive(Debug, Default)]
pub(super) struct ExtentMap(BTreeMap<u64, (u64, u64, String)>);

impl ExtentMap {
    pub(super) fn map_files(mounted: &Path, chunks: Option<&Chunks>) -> ExtentMap {
        let mut places = ExtentMap::default();
        let mut open = vec![mounted.to_owned()];
        while let Some(path) = open.pop() {
            let Ok(facts) = path.symlink_metadata() else { continue };
            if facts.is_dir() {
                open.extend(
                    std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()),
                );
            }
            if facts.is_dir() || facts.is_file() {
                places.add(mounted, &path, facts.is_dir(), chunks);
            }
        }
        places
    }

    fn add(&mut self, mounted: &Path, path: &PathBuf, is_dir: bool, chunks: Option<&Chunks>) {
        let told = File::open(path).and_then(|file| extents(file.as_fd()));
        let name = path.strip_prefix(mounted).unwrap_or(path).display().to_string();
        let name = if is_dir { name + "/" } else { name };
        for extent in told.into_iter().flatten() {
            let place = chunks.map_or(Some(extent.place), |chunks| on_device(chunks, extent.place));
            if let Some(place) = place {
                self.0.insert(place, (extent.len, extent.offset, name.clone()));
            }
        }
    }

    /// Returns the file at a location of the device; `None` if it belongs to no file.
    pub(super) fn at(&self, place: u64) -> Option<FilePlace> {
        let (begin, (len, offset, file)) = self.0.range(..=place).next_back()?;
        let is_in = place - begin < *len;
        is_in.then(|| FilePlace { file: file.clone(), offset: offset + (place - begin) })
    }
}

/// Translates an address of the file system to an offset on the device.
fn on_device(chunks: &Chunks, place: u64) -> Option<u64> {
    let (begin, _, on_device) =
        chunks.iter().find(|(begin, len, _)| (*begin..begin + len).contains(&place))?;
    Some(on_device + (place - begin))
}

pub(super) fn chunks_of_btrfs(device: &Path) -> Result<Chunks> {
    let mut command = Command::new("btrfs");
    command.args(["inspect-internal", "dump-tree", "-t", "chunk"]).arg(device).stdin(Stdio::null());
    let output = command.output()?;
    ensure!(output.status.success(), "`btrfs inspect-internal dump-tree` failed");
    Ok(read_chunks(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses address, length and the first copy's offset of each chunk.
fn read_chunks(text: &str) -> Chunks {
    let number_behind = |line: &str, word: &str| -> Option<u64> {
        let digits = line.split(word).nth(1)?.trim_start();
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let (mut chunks, mut begin, mut len) = (Chunks::new(), None, None);
    for line in text.lines() {
        if line.contains(" key (") {
            (begin, len) = (number_behind(line, "CHUNK_ITEM "), None);
        } else if len.is_none() {
            len = number_behind(line, "length ");
        }
        let place = number_behind(line, " offset ").filter(|_| line.trim_start().starts_with("stripe 0 "));
        if let (Some(from), Some(bytes), Some(place)) = (begin, len, place) {
            chunks.push((from, bytes, place));
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_that_of_the_file_whose_bytes_lie_there() {
        let mut places = ExtentMap::default();
        places.0.insert(8192, (4096, 0, "a".to_owned()));
        places.0.insert(12288, (8192, 4096, "b".to_owned()));
        let at = |place| places.at(place).map(|place| (place.file, place.offset));
        assert_eq!((at(0), at(8191), at(20480)), (None, None, None));
        assert_eq!(at(8192 + 512), Some(("a".to_owned(), 512)));
        assert_eq!(at(12288 + 5000), Some(("b".to_owned(), 9096)));
    }

    #[test]
    fn chunks_of_btrfs_are_read() {
        let text = "\titem 1 key (FIRST_CHUNK_TREE CHUNK_ITEM 13631488) itemoff 16105 itemsize 80\n\
                    \t\tlength 8388608 owner 2 stripe_len 65536 type DATA|single\n\
                    \t\tio_align 65536 io_width 65536 sector_size 4096\n\
                    \t\tnum_stripes 1 sub_stripes 1\n\
                    \t\t\tstripe 0 devid 1 offset 23631488\n\
                    \t\t\tdev_uuid a\n\
                    \titem 2 key (DEV_ITEMS DEV_ITEM 1) itemoff 1 itemsize 2\n\
                    \titem 3 key (FIRST_CHUNK_TREE CHUNK_ITEM 22020096) itemoff 16105 itemsize 80\n\
                    \t\tlength 4096 owner 2\n\
                    \t\t\tstripe 0 devid 1 offset 5\n\
                    \t\t\tstripe 1 devid 1 offset 6\n";
        let chunks = read_chunks(text);
        assert_eq!(chunks, [(13_631_488, 8_388_608, 23_631_488), (22_020_096, 4096, 5)]);
        assert_eq!(on_device(&chunks, 13_631_490), Some(23_631_490));
        assert_eq!(on_device(&chunks, 0), None);
    }
}
