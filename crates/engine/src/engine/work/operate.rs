//! Maintenance of a whole store by an operator: lists everything, counts it, backs it up, restores it, and deletes everything.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use xxhash_rust::xxh3::xxh3_128;

use super::super::candidate_run::{CandidateRun, KeptBackup, PhaseOutcome, PhaseRun, beside};
use super::super::verify::verify;
use super::super::workers::tally::Tally;
use super::super::workers::worker;
use super::{Applicant, Forecast, Work, WorkKind, ops};
use crate::host::machine;
use crate::host::place::{copy_tree, remove_tree};
use crate::judge::histogram::BANDS;
use crate::plan::{Class, CustomAction, Length, OpKind, Phase, StandardPhase, Workload, whole_of};
use crate::result::Upkeep;
use crate::rules::READ_SECONDS_MIN;
use crate::store::{Backup, Durability, Error, Mode, Session, Store};

const NAME: &str = "operate";
const LIST: &str = "list-all";
const COUNT: &str = "count-all";
const BACK_UP: &str = "back-up";
const RESTORE: &str = "restore";
const DELETE: &str = "delete-all";

const STANDARD: &[StandardPhase] = &[
    StandardPhase {
        id: NAME,
        about: "what an operator does with a whole store: `list-all`, `count-all`, `back-up`, `restore`, `delete-all`",
        phases: || [LIST, COUNT, BACK_UP, RESTORE].map(operates).into_iter().chain([deletes()]).collect(),
    },
    StandardPhase {
        id: LIST,
        about: "lists the keys of all blobs, warm, as one op",
        phases: || vec![operates(LIST)],
    },
    StandardPhase {
        id: COUNT,
        about: "counts all blobs and their bytes, warm, as one op, where a question or a walk of the store's own tells both",
        phases: || vec![operates(COUNT)],
    },
    StandardPhase {
        id: BACK_UP,
        about: "backs everything up by the store's own means, as one op with the file system's flush; the size of the backup is noted",
        phases: || vec![operates(BACK_UP)],
    },
    StandardPhase {
        id: RESTORE,
        about: "makes a store of a backup beside the one that was backed up, and opens it, as one op; every blob in it is compared",
        phases: || vec![operates(RESTORE)],
    },
    StandardPhase {
        id: DELETE,
        about: "deletes every blob, in the durability class asked for; the disk that is left is noted, and when",
        phases: || vec![deletes()],
    },
];

fn operates(id: &str) -> Phase {
    let does = match id {
        LIST => "lists",
        COUNT => "counts",
        BACK_UP => "backs up",
        _ => "restores",
    };
    Phase::custom(NAME, id, CustomAction::new(does))
}

fn deletes() -> Phase {
    let load = Workload::new(OpKind::Delete, Length::Share(1.0));
    Phase { kind: NAME, class: Class::Asked, ..Phase::of_ops(DELETE, load) }
}

pub(super) const KIND: WorkKind = WorkKind { name: NAME, standard: STANDARD, work: &OperateWork };

struct OperateWork;

impl Work for OperateWork {
    fn copies(&self, phase: &Phase) -> u64 {
        u64::from([BACK_UP, RESTORE].contains(&whole_of(&phase.id)))
    }

    fn impossible(&self, applicant: &Applicant<'_>, phase: &Phase) -> Option<String> {
        let has_uploads = applicant.plan.phases.iter().any(Phase::has_uploads);
        if let Some(load) = phase.load() {
            let why =
                "not all can be deleted beside uploads: their blobs go with the last reference (`release`)";
            let by_load = ops::impossible(applicant.plan, &applicant.caps, load);
            return by_load.or(has_uploads.then(|| why.to_owned()));
        }
        if whole_of(&phase.id) == LIST {
            let why = "no list: there is no request for all keys".to_owned();
            return (!applicant.caps.list).then_some(why);
        }
        if whole_of(&phase.id) == COUNT {
            let why = "no count: only reading blobs, or a list of them, tells their sizes".to_owned();
            return (!applicant.caps.totals).then_some(why);
        }
        let traits = applicant.candidate.traits();
        if traits.is_external {
            return Some(
                "no backup: a server given by URL is not ours to dump or to restore into".to_owned(),
            );
        }
        if traits.shares_server {
            return Some("no backup: its server is there for other candidates too".to_owned());
        }
        if has_uploads {
            return Some(
                "no backup beside uploads: their catalogue would have to be of the same moment".to_owned(),
            );
        }
        applicant.caps.backup.refusal().map(|why| format!("no backup: {why}"))
    }

    fn seconds(&self, forecast: &Forecast<'_>) -> f64 {
        match forecast.phase.load() {
            Some(load) => ops::seconds(forecast, load),
            None => forecast.wall * forecast.growth.max(1.0),
        }
    }

    fn run(&self, candidate_run: &mut CandidateRun<'_>, phase: &Phase, _repeat: Option<&Phase>) -> PhaseRun {
        match (phase.load(), whole_of(&phase.id)) {
            (Some(load), _) => candidate_run.delete_all(phase, load),
            (None, LIST) => candidate_run.list_all(),
            (None, COUNT) => candidate_run.count_all(),
            (None, BACK_UP) => candidate_run.back_up(),
            (None, _) => candidate_run.restore(),
        }
    }
}

/// Returns an empty tally for a phase of one or a few ops on the whole store.
pub(super) fn tally() -> Tally {
    Tally::new([true; BANDS.len()], false)
}

/// A list of keys as their number and the sum of their hashes: two are equal if they have the same keys equally often, in any
/// order. The keys themselves would take more memory than all else that a run keeps of a blob.
#[derive(Debug, Default, PartialEq)]
struct KeyList {
    keys: u64,
    sum: u128,
}

impl KeyList {
    fn add(&mut self, key: &str) {
        self.keys += 1;
        self.sum = self.sum.wrapping_add(xxh3_128(key.as_bytes()));
    }
}

fn listed(session: &mut dyn Session, connects: bool) -> crate::store::Result<u64> {
    let mut keys = 0;
    if connects {
        session.connect()?;
    }
    session.list(&mut |_key| keys += 1)?;
    Ok(keys)
}

impl CandidateRun<'_> {
    /// Repeats the same listing. An untimed one before it is checked key by key.
    fn list_all(&mut self) -> PhaseRun {
        self.check_list()?;
        self.begin_memory();
        let (blobs, connects) = (self.state.live_blobs(), self.connects(true));
        let (store, _) = self.store()?;
        let mut session = store.session()?;
        let work = || listed(session.as_mut(), connects).map(|keys| (keys, 0));
        self.repeated(work, (blobs, 0), Upkeep::Lists { blobs })
    }

    /// Repeats the same count. An untimed one comes first.
    fn count_all(&self) -> PhaseRun {
        let (store, _) = self.store()?;
        store.totals().context("counting all failed")?;
        let blobs = self.state.live_blobs();
        self.repeated(|| store.totals(), (blobs, self.state.live_bytes()), Upkeep::Counts { blobs })
    }

    /// Repeats a request to the whole store for as long as the shortest phase of reads. An answer other than `right` is an error.
    fn repeated(
        &self,
        mut work: impl FnMut() -> crate::store::Result<(u64, u64)>,
        right: (u64, u64),
        upkeep: Upkeep,
    ) -> PhaseRun {
        let (store, _) = self.store()?;
        let mut tally = tally();
        let mut meter = self.meter();
        let mut seconds = 0.0;
        meter.start(&store.servers());
        while seconds < READ_SECONDS_MIN && !self.run.stopped() {
            let found = worker::whole(&self.run.clock, &mut tally, &mut work)?;
            if found != right {
                bail!(
                    "{} blobs with {} B were found, and {} with {} B are there",
                    found.0,
                    found.1,
                    right.0,
                    right.1
                );
            }
            seconds = (tally.end - tally.begin) as f64 / 1e9;
        }
        meter.stop(&store.servers());
        let mut round = self.new_round(0);
        round.upkeep = Some(upkeep);
        self.measured(round, &tally, &meter)
    }

    fn check_list(&self) -> Result<()> {
        let (store, _) = self.store()?;
        let mut session = store.session()?;
        if self.connects(true) {
            session.connect()?;
        }
        let (mut listed, mut wanted) = (KeyList::default(), KeyList::default());
        session.list(&mut |key| listed.add(key))?;
        let uploads = self.catalog.as_ref().map_or(&[][..], |catalog| catalog.uploads().keys);
        let live = self.state.live_keys(&self.subject.corpus.keys, uploads);
        live.for_each(|key| wanted.add(key.as_str()));
        if listed != wanted {
            bail!("the list of {} keys is not that of the {} blobs", listed.keys, wanted.keys);
        }
        Ok(())
    }

    /// Makes a backup and keeps it for a later restore. If only the store itself knows that it cannot, its reason is the outcome.
    fn back_up(&mut self) -> PhaseRun {
        let (run, backup) = (self.run, self.caps().backup);
        let [to, _] = beside(&self.dir);
        self.forget_backup()?;
        std::fs::create_dir(&to).with_context(|| format!("cannot make `{}`", to.display()))?;
        machine::sync_filesystem(&self.dir)?;
        let mut tally = tally();
        let mut meter = self.meter();
        let closed = matches!(backup, Backup::Closed(_));
        let made = if closed {
            meter.start(&[]);
            worker::whole(&run.clock, &mut tally, || Ok(self.copy_closed(&to)?))
        } else {
            let (store, _) = self.store()?;
            meter.start(&store.servers());
            worker::whole(&run.clock, &mut tally, || {
                store.back_up(&to)?;
                Ok(machine::sync_filesystem(&to)?)
            })
        };
        match made {
            Err(error @ Error::Unsupported(_)) => {
                return Ok(Some(PhaseOutcome::NotPossible(error.to_string())));
            }
            made => made.context("the backup failed")?,
        }
        let servers = if closed { Vec::new() } else { self.store()?.0.servers() };
        meter.stop(&servers);
        tally.bytes = self.state.live_bytes();
        let backup_bytes = machine::allocated(&to, |_| false).all;
        self.backup = Some(KeptBackup { dir: to, state: self.state.clone() });
        let mut round = self.new_round(0);
        let by = backup.means().map(|means| means.by.to_owned()).unwrap_or_default();
        round.upkeep = Some(Upkeep::BacksUp { by, backup_bytes, data_bytes: tally.bytes, closed });
        self.measured(round, &tally, &meter)
    }

    /// Copies the closed store and opens it again. The copy counts as downtime.
    fn copy_closed(&mut self, to: &Path) -> Result<()> {
        let class = self.store()?.1;
        self.close()?;
        machine::sync_filesystem(&self.dir)?;
        copy_tree(&self.dir, to)?;
        machine::sync_filesystem(to)?;
        self.open_as(class, Mode::Open)
    }

    pub(super) fn forget_backup(&mut self) -> Result<()> {
        self.backup = None;
        beside(&self.dir).iter().try_for_each(|dir| remove_tree(dir))
    }

    /// Restores the backup of an earlier phase, or one made off the clock, as if the store were lost: it is closed meanwhile, and
    /// the backup is not in the kernel's cache. Compares the restored blobs with those that were backed up.
    fn restore(&mut self) -> PhaseRun {
        if self.backup.is_none()
            && let Some(PhaseOutcome::NotPossible(why)) = self.back_up()?
        {
            return Ok(Some(PhaseOutcome::NotPossible(why)));
        }
        let Some(kept) = self.backup.take() else { return Ok(None) };
        let (run, class) = (self.run, self.store()?.1);
        let [_, dir] = beside(&self.dir);
        self.close()?;
        machine::sync_filesystem(&self.dir)?;
        machine::evict(&kept.dir);
        let mut tally = tally();
        let mut meter = self.meter();
        self.begin_memory();
        meter.start(&[]);
        let store = worker::whole(&run.clock, &mut tally, || self.restored(class, &kept.dir, &dir))
            .context("restoring the backup failed")?;
        meter.stop(&[]);
        let corpus = self.subject.corpus;
        let verified =
            verify(store.as_ref(), self.caps().get_many, corpus, corpus.sizes.len(), &kept.state, run.stop)
                .context("the backup, restored, does not hold what was there")?;
        self.outcome.verified += verified;
        store.remove().context("removing what was restored failed")?;
        self.forget_backup()?;
        self.open_as(class, Mode::Open)?;
        let blobs = kept.state.live_blobs();
        tally.bytes = kept.state.live_bytes();
        let mut round = self.new_round(0);
        round.upkeep = Some(Upkeep::Restores { blobs });
        self.measured(round, &tally, &meter)
    }

    /// Restores a backup into a new directory and returns the open store, with its files flushed to the device.
    fn restored(&self, class: Durability, from: &Path, dir: &Path) -> crate::store::Result<Box<dyn Store>> {
        let candidate = self.subject.candidate;
        let opened = |mode| self.opened_in(dir, candidate.adapter, &candidate.options, class, mode);
        if matches!(self.caps().backup, Backup::Dump(_)) {
            std::fs::create_dir(dir)?;
            let store = opened(Mode::Create)?;
            store.restore(from)?;
            store.settle()?;
            machine::sync_filesystem(dir)?;
            return Ok(store);
        }
        copy_tree(from, dir)?;
        machine::sync_filesystem(dir)?;
        opened(Mode::Open)
    }

    /// Deletes every blob, and then has the store do everything that it would otherwise do later to give back the space.
    fn delete_all(&mut self, phase: &Phase, load: &Workload) -> PhaseRun {
        let taken = |candidate_run: &Self| -> Result<Option<u64>> {
            let all = candidate_run.bytes_taken(candidate_run.store()?.0)?.map(|taken| taken.all);
            Ok(all.filter(|_| candidate_run.caps().persistent))
        };
        let before_bytes = taken(self)?;
        let mut done = self.ops(phase, load)?;
        let Some(PhaseOutcome::Measured(round)) = &mut done else { return Ok(done) };
        let begin = machine::uptime();
        let (store, _) = self.store()?;
        if self.subject.candidate.traits().lazy_delete {
            store.purge().context("purging failed")?;
        }
        store.catch_up().context("giving back what was deleted failed")?;
        machine::sync_filesystem(&self.dir)?;
        let beyond = (machine::uptime() - begin).as_secs_f64();
        let seconds = round.settled_seconds.unwrap_or(round.seconds) + beyond;
        round.upkeep = Some(Upkeep::DeletesAll { seconds, before_bytes, left_bytes: taken(self)? });
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_equal_in_any_order_and_only_with_the_same_keys() {
        let list = |keys: &[&str]| {
            let mut list = KeyList::default();
            keys.iter().for_each(|key| list.add(key));
            list
        };
        let wanted = list(&["a", "b", "c"]);
        assert_eq!(list(&["c", "a", "b"]), wanted);
        for wrong in [&["a", "b"][..], &["a", "b", "d"], &["a", "b", "b"], &["a", "b", "c", "c"]] {
            assert_ne!(list(wrong), wanted, "{wrong:?}");
        }
    }
}
