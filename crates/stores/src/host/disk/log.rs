//! Log of a simulated disk: its writes with their data, and its flushes, in order. The disk's process writes it, and the process
//! that made the disk reads it.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};

use crate::host::fork::SharedWords;

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEntryKind {
    /// A write.
    Write,
    /// A flush of all earlier writes to the medium.
    Flush,
}

/// An entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Kind of the request.
    pub kind: LogEntryKind,
    /// Offset on the disk in bytes; 0 for a flush.
    pub offset: u64,
    /// Length in bytes; 0 for a flush.
    pub len: u64,
    /// Index of the log's word at which the data begin.
    at: usize,
}

/// Number of header words: the count of entries, and the words of data used.
const HEAD: usize = 2;
/// Words of an entry: kind and length, offset, index of the data.
const ENTRY: usize = 3;
/// Limit on entries; no load that fits has more.
const ENTRIES_MAX: usize = 1 << 20;
const FLUSH: u64 = 1 << 63;

/// The log, in memory shared by the two processes. Once full, it records nothing more and reports an error.
#[derive(Debug)]
pub struct Log {
    words: SharedWords,
}

impl Log {
    /// Creates an empty log with room for `bytes_max` bytes of writes, shared with processes forked later.
    pub fn new(bytes_max: u64) -> Result<Log> {
        let words = HEAD + ENTRIES_MAX * ENTRY + bytes_max as usize / 8;
        Ok(Log { words: SharedWords::new(words)? })
    }

    fn atomics(&self) -> &[AtomicU64] {
        self.words.get()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.atomics()[0].load(Ordering::Acquire) as usize
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a write; fails if the log is full.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let words = self.atomics();
        let used = words[1].load(Ordering::Relaxed) as usize;
        let at = HEAD + ENTRIES_MAX * ENTRY + used;
        let needed = bytes.len().div_ceil(8);
        ensure!(at + needed <= words.len(), "the log of the disk is full");
        self.words.put(at, bytes);
        self.push(bytes.len() as u64, offset, at as u64)?;
        words[1].store((used + needed) as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Appends a flush; fails if the log is full.
    pub fn flush(&self) -> Result<()> {
        self.push(FLUSH, 0, 0)
    }

    fn push(&self, kind_len: u64, offset: u64, at: u64) -> Result<()> {
        let words = self.atomics();
        let index = self.len();
        ensure!(index < ENTRIES_MAX, "the log of the disk is full");
        for (place, value) in [kind_len, offset, at].into_iter().enumerate() {
            words[HEAD + index * ENTRY + place].store(value, Ordering::Relaxed);
        }
        // A reader that sees the new count sees the entry as well.
        words[0].store(index as u64 + 1, Ordering::Release);
        Ok(())
    }

    /// Returns an entry; `index` must be below [`Log::len`].
    pub fn entry(&self, index: usize) -> LogEntry {
        let word = |place: usize| self.atomics()[HEAD + index * ENTRY + place].load(Ordering::Relaxed);
        let (kind_len, offset, at) = (word(0), word(1), word(2) as usize);
        match kind_len == FLUSH {
            true => LogEntry { kind: LogEntryKind::Flush, offset: 0, len: 0, at: 0 },
            false => LogEntry { kind: LogEntryKind::Write, offset, len: kind_len, at },
        }
    }

    /// Iterates over the entries of a range with their indexes.
    pub fn entries(
        &self,
        range: std::ops::Range<usize>,
    ) -> impl DoubleEndedIterator<Item = (usize, LogEntry)> {
        range.map(|index| (index, self.entry(index)))
    }

    /// Copies the first `bytes` bytes of a write into an image of the disk.
    pub fn apply(&self, entry: &LogEntry, bytes: u64, image: &mut [u8]) {
        let Some(place) = image.get_mut(entry.offset as usize..) else { return };
        self.words.copy_to(entry.at, &mut place[..bytes.min(entry.len) as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_there_in_order_and_a_full_log_says_so() {
        let log = Log::new(4096).unwrap();
        log.write(8192, &[1; 1000]).unwrap();
        log.flush().unwrap();
        log.write(0, &[2; 3]).unwrap();
        assert!(log.write(0, &[3; 4096]).is_err());
        assert_eq!(log.len(), 3);
        let entries: Vec<LogEntry> = log.entries(0..3).map(|(_, entry)| entry).collect();
        assert_eq!(entries[1].kind, LogEntryKind::Flush);
        assert_eq!((entries[0].offset, entries[0].len, entries[2].len), (8192, 1000, 3));
        let mut image = vec![0; 16384];
        log.apply(&entries[0], 512, &mut image);
        log.apply(&entries[2], 3, &mut image);
        assert_eq!((image[8192 + 511], image[8192 + 512], &image[..4]), (1, 0, &[2, 2, 2, 0][..]));
    }
}
