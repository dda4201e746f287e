//! Explains why a cut violated a promise: the smallest set of pending writes whose survival or absence causes the damage, the
//! files that they belong to, and the missing flush.

use std::collections::BTreeMap;

use anyhow::Result;

use super::cuts::{self, Cut, Piece};
use super::lab::{RecordedLoad, image_after};
use super::oracle::{BrokenPromise, LoadHistory};
use super::places::{self, ExtentMap};
use super::smallest::smallest;
use crate::host::disk::LogEntryKind;
use crate::result::cause::{CutBy, CutCause, Damage, DiskWrite, DurabilityPromise, FilePlace};
use crate::store::Loss;

/// Most causes to search for, each of a different kind of damage.
const CAUSES_MOST: usize = 3;
/// Most damages of a kind to examine until one has a conclusive cause.
const TRIED_MOST: usize = 6;
/// Most disk images to make for one cause.
const IMAGES_MOST: usize = 48;
/// A file's data may be written before its file system records the owner, so the owner is looked up again at this many later
/// flushes.
const FLUSHES_LATER: usize = 4;

struct CauseSearch<'s, 'b> {
    bench: &'s RecordedLoad<'b>,
    declared: Loss,
    cut: &'s Cut,
    lost: &'s BrokenPromise,
    /// The disk with everything that was flushed.
    image: Vec<u8>,
    images: usize,
    /// Owners of disk locations, by the number of log entries on the disk.
    places: BTreeMap<usize, Option<ExtentMap>>,
}

impl RecordedLoad<'_> {
    /// Finds causes of damages: one for each kind, preferably conclusive.
    pub(super) fn causes(&self, declared: Loss, damages: &[(Cut, BrokenPromise)]) -> Result<Vec<CutCause>> {
        let mut causes: Vec<CutCause> = Vec::new();
        let mut sorts: Vec<Damage> = Vec::new();
        for (_, BrokenPromise { damage, .. }) in damages {
            if sorts.contains(damage) || sorts.len() == CAUSES_MOST {
                continue;
            }
            sorts.push(*damage);
            let of_sort = damages.iter().filter(|(_, lost)| lost.damage == *damage).take(TRIED_MOST);
            let mut found = None;
            for (cut, lost) in of_sort {
                let cause = self.cause(declared, cut, lost)?;
                let says_something = ![CutBy::Whatever, CutBy::NotAgain].contains(&cause.by);
                if says_something || found.is_none() {
                    found = Some(cause);
                }
                if says_something {
                    break;
                }
            }
            causes.extend(found);
        }
        Ok(causes)
    }

    fn cause(&self, declared: Loss, cut: &Cut, lost: &BrokenPromise) -> Result<CutCause> {
        let image = image_after(&self.log, cut.flushed);
        let places = BTreeMap::new();
        let mut search = CauseSearch { bench: self, declared, cut, lost, image, images: 0, places };
        let (by, pieces, is_smallest) = search.find()?;
        let promise = search.promise()?;
        let writes = pieces.iter().map(|piece| search.write(*piece)).collect::<Result<_>>()?;
        Ok(CutCause {
            damage: lost.damage,
            promise,
            blob: lost.key,
            cut: cut.at,
            pending: cut.at - cut.flushed,
            by,
            writes,
            is_smallest,
            until: (by == CutBy::Whatever).then(|| search.later_end()),
            images: search.images,
        })
    }
}

impl CauseSearch<'_, '_> {
    /// True if the same blob is damaged (or the store does not open) when these pieces of writes are added to the flushed image.
    fn fails(&mut self, pieces: &[Piece]) -> Result<bool> {
        self.images += 1;
        let log = &self.bench.log;
        let add = |image: &mut Vec<u8>| cuts::put(log, pieces, image);
        // Without a file system the store cannot be judged.
        let Some(found) = self.bench.look(&mut self.image, add, false)? else { return Ok(false) };
        Ok(match self.lost.key {
            None => found.open_seconds.is_none(),
            Some(key) => {
                found.open_seconds.is_some()
                    && self.bench.blob(key, self.declared, self.cut, &found).worst.is_some()
            }
        })
    }

    fn whole(&self, entries: std::ops::Range<usize>) -> Vec<Piece> {
        let entries = self.bench.log.entries(entries);
        entries.map(|(entry, told)| Piece { entry, bytes: told.len }).collect()
    }

    /// Returns the kind of cause, the writes, and whether the set is minimal.
    fn find(&mut self) -> Result<(CutBy, Vec<Piece>, bool)> {
        let whole = self.whole(self.cut.flushed..self.cut.at);
        let nothing: Vec<Piece> = whole.iter().map(|piece| Piece { bytes: 0, ..*piece }).collect();
        let cut = cuts::pieces(&self.bench.log, self.cut);
        if !self.fails(&cut)? {
            return Ok((CutBy::NotAgain, Vec::new(), false));
        }
        // The differences between the cut and an image without damage.
        let (by, right) = match (self.fails(&nothing)?, self.fails(&whole)?) {
            (false, _) => (CutBy::Surviving, nothing),
            (true, false) => (CutBy::Missing, whole),
            (true, true) => return self.not_sent(),
        };
        let changed: Vec<usize> = (0..cut.len()).filter(|index| cut[*index] != right[*index]).collect();
        let found = smallest(&changed, &mut |part| {
            if self.images >= IMAGES_MOST {
                return Ok(None);
            }
            let mut pieces = right.clone();
            part.iter().for_each(|index| pieces[*index] = cut[*index]);
            self.fails(&pieces).map(Some)
        })?;
        Ok((by, found.part.iter().map(|index| cut[*index]).collect(), found.is_smallest))
    }

    /// Handles damage caused by a write that came only after the cut: finds the first write that, with all before it, repairs the
    /// damage.
    fn not_sent(&mut self) -> Result<(CutBy, Vec<Piece>, bool)> {
        let (mut fails, mut is_well) = (self.cut.at, self.later_end());
        if is_well <= fails || self.fails(&self.whole(self.cut.flushed..is_well))? {
            return Ok((CutBy::Whatever, Vec::new(), true));
        }
        while is_well - fails > 1 {
            let middle = fails.midpoint(is_well);
            match self.fails(&self.whole(self.cut.flushed..middle))? {
                true => fails = middle,
                false => is_well = middle,
            }
        }
        let mut needed = self.needed(is_well)?;
        needed.push(Piece { entry: is_well - 1, bytes: 0 });
        Ok((CutBy::NotSent, needed, true))
    }

    /// Finds earlier writes of files that are as necessary as the last one for a repair.
    fn needed(&mut self, is_well: usize) -> Result<Vec<Piece>> {
        let whole = self.whole(self.cut.flushed..is_well);
        let mut needed = Vec::new();
        for (index, piece) in whole.iter().enumerate().take(whole.len() - 1) {
            let is_write = self.bench.log.entry(piece.entry).kind == LogEntryKind::Write;
            if !is_write || self.images >= IMAGES_MOST || self.place(piece.entry, is_well)?.is_none() {
                continue;
            }
            let mut without = whole.clone();
            without[index].bytes = 0;
            if self.fails(&without)? {
                needed.push(Piece { bytes: 0, ..*piece });
            }
        }
        Ok(needed)
    }

    /// End of the range in which later writes bear on this damage: the next op on the blob.
    fn later_end(&self) -> usize {
        let RecordedLoad { log, load, history, .. } = self.bench;
        let ops = &load.ops;
        let of_key = |index: &usize| Some(ops[*index].key) == self.lost.key;
        let began = (0..ops.len()).filter(of_key).filter_map(|index| Some(history.op(index)?.began));
        began.filter(|began| *began > self.cut.at).min().unwrap_or(log.len())
    }

    /// Returns the promise that was broken; `None` if nothing had to stay.
    fn promise(&mut self) -> Result<Option<DurabilityPromise>> {
        let RecordedLoad { log, load, history, trial, .. } = self.bench;
        let ops = &load.ops;
        let known = LoadHistory { ops, history };
        let Some(op) = self.lost.op else { return Ok(None) };
        let promised = known.promised(op, trial.judged_as, self.cut.at).zip(history.op(op));
        let Some((at, when)) = promised else { return Ok(None) };
        let flushes = log.entries(when.began..at).filter(|(_, entry)| entry.kind == LogEntryKind::Flush);
        let flushes: Vec<usize> = flushes.map(|(index, _)| index).collect();
        let mut written = Vec::new();
        // A sync may promise writes of many ops; the op's own end limits which writes may be its own.
        for piece in self.whole(when.began..when.ended.unwrap_or(at).min(at)) {
            if log.entry(piece.entry).kind == LogEntryKind::Write {
                written.push(self.write(piece)?);
            }
        }
        written.retain(|write| write.place.is_some());
        let by_sync = Some(at) != when.ended;
        Ok(Some(DurabilityPromise {
            op,
            is_delete: ops[op].put.is_none(),
            began: when.began,
            at,
            by_sync,
            flushes,
            written,
        }))
    }

    fn write(&mut self, piece: Piece) -> Result<DiskWrite> {
        let log = &self.bench.log;
        let entry = log.entry(piece.entry);
        let is_flush = |(index, _): &(usize, _)| log.entry(*index).kind == LogEntryKind::Flush;
        let flushed = log.entries(piece.entry..self.cut.at.max(piece.entry)).find(is_flush);
        Ok(DiskWrite {
            entry: piece.entry,
            offset: entry.offset,
            bytes: entry.len,
            survived: piece.bytes,
            flushed: flushed.map(|(index, _)| index),
            place: self.place(piece.entry, piece.entry)?,
        })
    }

    /// Finds the file that a write belongs to, in the state of the file system after one of the flushes that follow entry `from`,
    /// before the next op on the blob, or at the end of the log.
    /// `None` if no file has claimed the location.
    fn place(&mut self, entry: usize, from: usize) -> Result<Option<FilePlace>> {
        let log = &self.bench.log;
        let offset = log.entry(entry).offset;
        let flushes = log.entries(from..log.len()).filter(|(_, told)| told.kind == LogEntryKind::Flush);
        let mut later: Vec<usize> = flushes.map(|(index, _)| index + 1).take(FLUSHES_LATER).collect();
        // The next op on the blob may remove its file.
        later.extend([self.later_end(), log.len()].into_iter().filter(|entries| *entries > from));
        for entries in later {
            if !self.places.contains_key(&entries) {
                let known = self.bench.files_at(&mut image_after(log, entries))?;
                self.places.insert(entries, known);
            }
            let known = self.places.get(&entries).and_then(Option::as_ref);
            if let Some(place) = known.and_then(|places| places.at(offset)) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }
}

impl RecordedLoad<'_> {
    /// Maps locations of a disk to files; `None` if it has no mountable file system.
    fn files_at(&self, image: &mut Vec<u8>) -> Result<Option<ExtentMap>> {
        let is_btrfs = self.lab.kind() == "btrfs";
        self.lab.mounted(
            image,
            |_| (),
            |mounted| {
                // From the tree on the device, which does not change while it is only read.
                let chunks = if is_btrfs { Some(places::chunks_of_btrfs(mounted.device())?) } else { None };
                let places = ExtentMap::map_files(self.lab.mount(), chunks.as_ref());
                mounted.unmount()?;
                Ok(places)
            },
        )
    }
}
