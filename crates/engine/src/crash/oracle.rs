//! The oracle: which states a blob may have after a cut, and what damage any other state is.

use super::load::{History, LogInterval, Op};
use crate::result::crash::{Damage, SurvivingData};
use crate::store::{Durability, KnownFault, Loss};

/// A violated promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenPromise {
    /// Kind of damage.
    pub damage: Damage,
    /// The blob; `None` if the whole store is affected.
    pub key: Option<u64>,
    /// The op whose outcome had to stay, if any.
    pub op: Option<usize>,
    /// Description that names the blob.
    pub what: String,
}

/// Verdict on a store after one cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreVerdict {
    /// The worst violation of a promise.
    pub worst: Option<BrokenPromise>,
    /// True if acknowledged writes are gone, promised or not.
    pub lost_recent: bool,
}

impl StoreVerdict {
    /// Summarises what the cut left.
    pub fn left(&self) -> SurvivingData {
        match (&self.worst, self.lost_recent) {
            (Some(_), _) => SurvivingData::Less,
            (None, true) => SurvivingData::Promised,
            (None, false) => SurvivingData::Everything,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlobState {
    Missing,
    /// Has the bytes of this op.
    Of(usize),
    Wrong,
    Unreadable,
    /// Catalogued, but its blob is missing.
    Dangling,
}

/// History of a load: its ops in order, and when they and the syncs were done.
pub(super) struct LoadHistory<'a> {
    pub(super) ops: &'a [Op],
    pub(super) history: &'a History,
}

impl LoadHistory<'_> {
    /// Position in the log at which the outcome of an op was promised to stay, if that was before the cut: its acknowledgement
    /// or, if only a sync promises it, the return of that sync.
    pub(super) fn promised(&self, index: usize, class: Durability, at: usize) -> Option<usize> {
        let ended = |when: Option<LogInterval>| when.and_then(|when| when.ended).filter(|ended| *ended <= at);
        match class {
            Durability::None => None,
            Durability::EachWrite => ended(self.history.op(index)),
            Durability::OnSync => {
                ended(self.history.op(index))?;
                // A sync covers only the ops of its own worker.
                let worker = |index: usize| self.history.worker_of(&self.ops[index]);
                let mut own = (index..self.ops.len()).filter(|later| worker(*later) == worker(index));
                own.find_map(|later| ended(self.history.sync(later)))
            }
        }
    }

    pub(super) fn all(
        &self,
        blobs: &[BlobState],
        class: Durability,
        declared: Loss,
        at: usize,
    ) -> StoreVerdict {
        let mut judged = StoreVerdict::default();
        for (key, seen) in blobs.iter().enumerate() {
            judged.add(self.blob(key as u64, *seen, class, declared, at));
        }
        judged
    }

    pub(super) fn blob(
        &self,
        key: u64,
        seen: BlobState,
        class: Durability,
        declared: Loss,
        at: usize,
    ) -> StoreVerdict {
        let of_key: Vec<usize> = (0..self.ops.len()).filter(|index| self.ops[*index].key == key).collect();
        let kept = of_key.iter().rposition(|index| self.promised(*index, class, at).is_some());
        // The last op that had to stay, and all that may have come after it.
        let from = kept.unwrap_or(0);
        let may: Vec<usize> = of_key[from.min(of_key.len())..]
            .iter()
            .copied()
            .filter(|index| self.history.op(*index).is_some_and(|when| when.began <= at))
            .collect();
        let has_later = may.len() > usize::from(kept.is_some());
        let may_be_missing = kept.is_none() || may.iter().any(|index| self.ops[*index].put.is_none());
        let acknowledged = of_key.iter().rev().find(|index| {
            self.history.op(**index).and_then(|when| when.ended).is_some_and(|ended| ended <= at)
        });
        let is_as_acknowledged = match (seen, acknowledged) {
            (BlobState::Of(op), Some(last)) => op >= *last,
            (BlobState::Missing, Some(last)) => {
                self.ops[*last].put.is_none() || may.iter().any(|index| index > last)
            }
            (_, None) => true,
            _ => false,
        };
        let wrong = |damage: Damage, what: &str| {
            let since = kept.map_or_else(String::new, |kept| format!(", written by op {}", of_key[kept]));
            StoreVerdict {
                worst: Some(BrokenPromise {
                    damage,
                    key: Some(key),
                    op: kept.map(|kept| of_key[kept]),
                    what: format!("blob {key}{since}: {what}"),
                }),
                lost_recent: true,
            }
        };
        // A write that is not promised yet may leave the blob torn.
        let may_tear = declared == Loss::RecentWrites && (has_later || kept.is_none());
        match seen {
            BlobState::Missing if may_be_missing || may_tear => {}
            BlobState::Missing => return wrong(Damage::Lost, "it is not there"),
            BlobState::Of(op) if may.contains(&op) => {}
            BlobState::Of(op) if kept.is_some_and(|kept| self.ops[of_key[kept]].put.is_none()) => {
                return wrong(Damage::Back, &format!("deleted, and there as op {op} put it"));
            }
            // If nothing has to stay, any earlier content is valid.
            BlobState::Of(_) if kept.is_none() => {}
            BlobState::Of(op) => return wrong(Damage::Old, &format!("it is as op {op} put it")),
            BlobState::Wrong | BlobState::Unreadable | BlobState::Dangling if may_tear => {}
            BlobState::Wrong => return wrong(Damage::Wrong, "its bytes are none that were put"),
            BlobState::Unreadable => return wrong(Damage::Unreadable, "it cannot be read"),
            BlobState::Dangling => {
                return wrong(Damage::Dangling, "it is catalogued, and its blob is missing");
            }
        }
        StoreVerdict { worst: None, lost_recent: !is_as_acknowledged }
    }
}

impl StoreVerdict {
    /// Verdict on a store that does not open, with its reason if it gave one.
    pub(super) fn unusable(why: Option<&str>) -> StoreVerdict {
        let what = why.unwrap_or("it does not open, or ends while it is read");
        StoreVerdict::of_store(Damage::Unusable, what.to_owned())
    }

    /// Verdict on a store that does not open because of a declared fault of its program.
    pub(super) fn faulty(KnownFault { program, version, about, .. }: &KnownFault) -> StoreVerdict {
        StoreVerdict::of_store(Damage::KnownFault, format!("{program} {version} does not start: {about}"))
    }

    fn of_store(damage: Damage, what: String) -> StoreVerdict {
        StoreVerdict { worst: Some(BrokenPromise { damage, key: None, op: None, what }), lost_recent: true }
    }

    /// Merges the verdict on another blob; the worse damage wins.
    pub(super) fn add(&mut self, other: StoreVerdict) {
        self.lost_recent |= other.lost_recent;
        let rank = |lost: &Option<BrokenPromise>| lost.as_ref().map(|lost| lost.damage);
        if rank(&other.worst) > rank(&self.worst) {
            self.worst = other.worst;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::*;
    use crate::host::disk::Log;

    /// Ops on one blob: put, put, delete, put. Each begins and is acknowledged one log entry later. A sync follows the second.
    fn known() -> (Vec<Op>, History) {
        let put = |generation| Op { key: 0, put: Some((generation, 10)) };
        let ops = vec![put(1), put(2), Op { key: 0, put: None }, put(4)];
        let (log, history) = (Log::new(1 << 12).unwrap(), History::new().unwrap());
        for index in 0..ops.len() {
            load::note_op(&history, index, &log, &mut || log.flush()).unwrap();
            if index == 1 {
                load::note_sync(&history, index, &log, &mut || log.flush()).unwrap();
            }
        }
        (ops, history)
    }

    /// Verdict if the blob is in state `seen` after a cut at position `at` of the log.
    fn judged(seen: BlobState, class: Durability, at: usize) -> (Option<Damage>, bool) {
        let (ops, history) = known();
        let declared = if class == Durability::EachWrite { Loss::Nothing } else { Loss::RecentWrites };
        let judged = LoadHistory { ops: &ops, history: &history }.blob(0, seen, class, declared, at);
        (judged.worst.map(|lost| lost.damage), judged.lost_recent)
    }

    #[test]
    fn with_each_write_flushed_the_blob_is_as_the_last_acknowledged_left_it_or_one_under_way() {
        let each = |seen, at| judged(seen, Durability::EachWrite, at).0;
        // Op 0 is acknowledged at 1, op 1 at 2, the sync at 3, op 2 at 4, op 3 at 5.
        assert_eq!((each(BlobState::Missing, 0), each(BlobState::Of(0), 0)), (None, None));
        assert_eq!((each(BlobState::Missing, 1), each(BlobState::Of(0), 1)), (Some(Damage::Lost), None));
        assert_eq!((each(BlobState::Of(0), 2), each(BlobState::Of(1), 2)), (Some(Damage::Old), None));
        assert_eq!((each(BlobState::Of(1), 3), each(BlobState::Missing, 3)), (None, None));
        assert_eq!((each(BlobState::Of(1), 4), each(BlobState::Missing, 4)), (Some(Damage::Back), None));
        assert_eq!((each(BlobState::Missing, 5), each(BlobState::Of(3), 5)), (Some(Damage::Lost), None));
        assert_eq!(
            (each(BlobState::Wrong, 5), each(BlobState::Unreadable, 5)),
            (Some(Damage::Wrong), Some(Damage::Unreadable))
        );
    }

    #[test]
    fn what_a_sync_covered_stays_and_later_writes_may_go_or_tear() {
        let synced = |seen, at| judged(seen, Durability::OnSync, at);
        assert_eq!(synced(BlobState::Missing, 2), (None, true), "acknowledged and not synced");
        assert_eq!(synced(BlobState::Of(0), 3), (Some(Damage::Old), true));
        assert_eq!(synced(BlobState::Of(1), 3), (None, false));
        assert_eq!(
            synced(BlobState::Of(1), 5),
            (None, true),
            "the delete and the put after it are not synced"
        );
        assert_eq!(synced(BlobState::Wrong, 5).0, None);
        assert_eq!(synced(BlobState::Of(0), 5).0, Some(Damage::Old));
        assert_eq!(judged(BlobState::Missing, Durability::None, 5), (None, true));
    }

    #[test]
    fn a_sync_promises_what_its_own_worker_did_and_nothing_else() {
        let put = |key, generation| Op { key, put: Some((generation, 10)) };
        let ops = vec![put(0, 1), put(1, 2), put(2, 3)];
        let log = Log::new(1 << 12).unwrap();
        let promised = |workers: usize| {
            let history = History::new().unwrap().of_workers(workers);
            for index in 0..2 {
                load::note_op(&history, index, &log, &mut || log.flush()).unwrap();
            }
            // The third op fails, so nothing promises it.
            load::note_op(&history, 2, &log, &mut || Err(())).unwrap_err();
            load::note_sync(&history, 2, &log, &mut || log.flush()).unwrap();
            let known = LoadHistory { ops: &ops, history: &history };
            [0, 1, 2].map(|op| known.promised(op, Durability::OnSync, log.len()).is_some())
        };
        assert_eq!(promised(1), [true, true, false]);
        // The second op belongs to the other worker.
        assert_eq!(promised(2), [true, false, false]);
    }
}
