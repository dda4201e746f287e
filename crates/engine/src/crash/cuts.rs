//! The moments at which the power is cut, and what the disk holds afterwards.

use blobwise_stores::named;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::host::disk::{Log, LogEntryKind};

/// Size of a disk's atomic write, in bytes.
const SECTOR: u64 = 512;

named! {
    /// Which of the writes after the last flush survive.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum SurvivingWrites {
        /// None.
        Nothing = "nothing of it survives",
        /// All up to some moment.
        Prefix = "what came first of it survives",
        /// A random subset.
        Some = "some of it survives",
        /// A random subset, with one write torn.
        Torn = "some of it survives, one write in part",
        /// Only the last one.
        Last = "the last of it survives",
    }
}

impl SurvivingWrites {
    /// All kinds.
    pub const ALL: [SurvivingWrites; 5] = [
        SurvivingWrites::Nothing,
        SurvivingWrites::Prefix,
        SurvivingWrites::Some,
        SurvivingWrites::Torn,
        SurvivingWrites::Last,
    ];
}

/// A power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cut {
    /// Number of log entries before the cut.
    pub at: usize,
    /// Number of log entries up to the last flush; these have survived.
    pub flushed: usize,
    /// Which of the other entries have survived.
    pub survives: SurvivingWrites,
    /// Seed of that choice.
    pub seed: u64,
}

impl Cut {
    /// Describes the cut.
    pub fn description(&self) -> String {
        let pending = self.at - self.flushed;
        match pending {
            0 => format!("after entry {} of the disk's log, a flush", self.at),
            _ => format!(
                "after entry {} of the disk's log; {} not flushed, and {}",
                self.at,
                crate::units::counted(pending, "write"),
                self.survives.name()
            ),
        }
    }
}

/// Chooses up to `cuts` different cuts after entry `begun`: every other one at or right before a flush, the others where at least
/// two writes wait for a flush. Sorted by position in the log.
pub(super) fn choose(log: &Log, begun: usize, end: usize, cuts: usize, seed: u64) -> Vec<Cut> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut flushed = 0;
    let (mut flushes, mut waiting) = (Vec::new(), Vec::new());
    for (index, entry) in log.entries(0..end) {
        match entry.kind {
            LogEntryKind::Flush => {
                let around = [index.saturating_sub(1), index];
                flushes.extend(around.into_iter().filter(|at| *at >= begun).map(|at| (at, flushed)));
                flushed = index + 1;
                if flushed >= begun {
                    flushes.push((flushed, flushed));
                }
            }
            LogEntryKind::Write if index + 1 >= begun && index + 1 - flushed >= 2 => {
                waiting.push((index + 1, flushed))
            }
            LogEntryKind::Write => {}
        }
    }
    if flushes.is_empty() && waiting.is_empty() {
        waiting.push((end, flushed));
    }
    let mut chosen: Vec<Cut> = (0..cuts)
        .filter_map(|number| {
            let of = match number % 2 {
                0 if !flushes.is_empty() => &flushes,
                _ if waiting.is_empty() => &flushes,
                _ => &waiting,
            };
            let (at, flushed) = *of.choose(&mut rng)?;
            let drawn = SurvivingWrites::ALL[rng.random_range(0..SurvivingWrites::ALL.len())];
            let seed = rng.random();
            let survives = if flushed < at { drawn } else { SurvivingWrites::Nothing };
            // With no survivors, the seed is irrelevant.
            let seed = if survives == SurvivingWrites::Nothing { 0 } else { seed };
            Some(Cut { at: at.max(flushed), flushed, survives, seed })
        })
        .collect();
    chosen.sort();
    chosen.dedup();
    chosen
}

/// The part of a write that is on an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Piece {
    /// Index of its entry in the log.
    pub(super) entry: usize,
    /// Number of bytes from its start.
    pub(super) bytes: u64,
}

/// Returns what survives of each write after the last flush; 0 bytes for lost ones.
pub(super) fn pieces(log: &Log, cut: &Cut) -> Vec<Piece> {
    let mut rng = SmallRng::seed_from_u64(cut.seed);
    let pending: Vec<_> = log.entries(cut.flushed..cut.at).collect();
    let Some(last) = pending.len().checked_sub(1) else { return Vec::new() };
    let first_ones = rng.random_range(0..=pending.len());
    let torn = rng.random_range(0..=last);
    let mut piece = |index: usize, len: u64| {
        let by_chance = rng.random();
        let part = rng.random_range(0..=len / SECTOR) * SECTOR;
        match cut.survives {
            SurvivingWrites::Nothing => 0,
            SurvivingWrites::Prefix if index < first_ones => len,
            SurvivingWrites::Torn if index == torn => part,
            SurvivingWrites::Some | SurvivingWrites::Torn if by_chance => len,
            SurvivingWrites::Last if index == last => len,
            _ => 0,
        }
    };
    let pending = pending.iter().enumerate();
    pending.map(|(index, (entry, told))| Piece { entry: *entry, bytes: piece(index, told.len) }).collect()
}

pub(super) fn surviving(log: &Log, cut: &Cut) -> Vec<Piece> {
    pieces(log, cut).into_iter().filter(|piece| piece.bytes > 0).collect()
}

pub(super) fn put(log: &Log, pieces: &[Piece], image: &mut [u8]) {
    pieces.iter().for_each(|piece| log.apply(&log.entry(piece.entry), piece.bytes, image));
}

/// Applies the survivors of a cut to an image that holds everything up to the last flush.
pub(super) fn survivors(log: &Log, cut: &Cut, image: &mut [u8]) {
    put(log, &pieces(log, cut), image);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Log {
        let log = Log::new(1 << 20).unwrap();
        for round in 0..10_u8 {
            for write in 0..4_u64 {
                log.write(write * 4096, &[round + 1; 4096]).unwrap();
            }
            log.flush().unwrap();
        }
        log
    }

    #[test]
    fn the_same_seed_makes_the_same_cuts_and_images() {
        let log = log();
        let image = |cut: &Cut| {
            let mut image = vec![0; 1 << 15];
            log.entries(0..cut.flushed).for_each(|(_, entry)| log.apply(&entry, entry.len, &mut image));
            survivors(&log, cut, &mut image);
            image
        };
        let (one, other) = (choose(&log, 5, log.len(), 60, 7), choose(&log, 5, log.len(), 60, 7));
        assert!(one == other && one.iter().map(image).eq(other.iter().map(image)));
        assert!(one != choose(&log, 5, log.len(), 60, 8));
        assert!(one.iter().all(|cut| cut.at >= 4 && cut.flushed <= cut.at && cut.at <= log.len()));
        for survives in SurvivingWrites::ALL {
            assert!(one.iter().any(|cut| cut.survives == survives && cut.at - cut.flushed >= 2));
        }
    }

    #[test]
    fn what_was_flushed_is_there_and_of_the_rest_what_is_meant() {
        let log = log();
        let image = |survives: SurvivingWrites| {
            let cut = Cut { at: 9, flushed: 5, survives, seed: 3 };
            let mut image = vec![0; 1 << 15];
            log.entries(0..5).for_each(|(_, entry)| log.apply(&entry, entry.len, &mut image));
            survivors(&log, &cut, &mut image);
            image.chunks(4096).take(4).map(|page| page[0]).collect::<Vec<u8>>()
        };
        assert_eq!(image(SurvivingWrites::Nothing), [1, 1, 1, 1]);
        assert_eq!(image(SurvivingWrites::Last), [1, 1, 1, 2]);
        let prefix = image(SurvivingWrites::Prefix);
        assert!(prefix.is_sorted_by(|a, b| a >= b), "{prefix:?}");
    }
}
