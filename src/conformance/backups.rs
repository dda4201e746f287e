//! Backups: restored, a backup must hold every blob of its moment, and nothing that came later.

use anyhow::{Context, Result, bail, ensure};

use super::bench::{BLOB_BYTES_MAX, Bench, Hand, blob, open};
use super::check::{CannotCheck, Case, refused};
use super::subject::Subject;
use crate::host::place::copy_tree;
use crate::store::{Backup, Error, Key, Mode};

/// Sizes of the blobs in bytes, in turn: empty, small, around a page, and larger.
const LENS: &[usize] = &[0, 1, 300, 4096, 4097, 20_000, 150_000];
const BLOBS: u64 = 42;

/// True if the adapter declares how the store is backed up.
pub fn applies(subject: &Subject) -> bool {
    subject.caps().backup.means().is_some() && !subject.traits().is_external
}

/// True if the adapter makes no backup of an open store.
pub fn refuses(subject: &Subject) -> bool {
    !matches!(subject.caps().backup, Backup::Image(_) | Backup::Dump(_))
}

pub fn backs_up_and_restores(case: &Case) -> Result<()> {
    let mut bench = Bench::open(case.world, case.subject)?;
    let mut there = filled(&mut bench)?;
    let (backup, restored) = (case.world.home()?, case.world.home()?);
    let how = case.subject.caps().backup;
    match how {
        Backup::Closed(_) => {
            bench.close()?;
            copy_tree(&bench.home.store, &backup.store)?;
            bench.open_again()?;
        }
        _ => match bench.store()?.back_up(&backup.store) {
            Err(error @ Error::Unsupported(_)) if case.subject.is_server() => {
                bail!(CannotCheck(error.to_string()))
            }
            made => made.context("the backup")?,
        },
    }
    changed(&mut bench, &there)?;
    let store = match how {
        Backup::Dump(_) => {
            let store = open(case.subject, &restored, Mode::Create, BLOB_BYTES_MAX)?;
            store.restore(&backup.store).context("restoring")?;
            store
        }
        _ => {
            copy_tree(&backup.store, &restored.store)?;
            open(case.subject, &restored, Mode::Open, BLOB_BYTES_MAX).context("opening what was restored")?
        }
    };
    let mut hand = Hand::open(store.as_ref(), case.subject)?;
    for (key, wanted) in &there {
        hand.expect(key, wanted.as_deref()).context("of a backup, restored")?;
    }
    if case.subject.caps().list {
        there.retain(|(_, blob)| blob.is_some());
        let mut keys: Vec<&str> = there.iter().map(|(key, _)| key.as_str()).collect();
        keys.sort_unstable();
        ensure!(hand.list()? == keys, "a backup, restored, lists other keys");
    }
    drop(hand);
    store.close().context("closing what was restored")?;
    bench.close()
}

/// Puts blobs, replaces and deletes some if the store does that; returns the expected contents.
pub(super) fn filled(bench: &mut Bench) -> Result<Vec<(Key, Option<Vec<u8>>)>> {
    let keys = bench.keys(BLOBS);
    let changes = bench.subject.caps().changes;
    let mut hand = bench.hand()?;
    let len = |id: usize| LENS[id % LENS.len()];
    let mut there = Vec::new();
    for (index, key) in keys.into_iter().enumerate() {
        let mut new = blob(key.id, 0, len(index));
        hand.put(&key, &new)?;
        if changes && index % 3 == 0 {
            new = blob(key.id, 1, len(index + 3));
            hand.put(&key, &new)?;
        }
        let is_deleted = changes && index % 5 == 0;
        if is_deleted {
            hand.delete(&key)?;
        }
        there.push((key, (!is_deleted).then_some(new)));
    }
    hand.sync()?;
    Ok(there)
}

/// Changes the store after a backup: the changes must not be in the backup, and the store must work as before.
fn changed(bench: &mut Bench, there: &[(Key, Option<Vec<u8>>)]) -> Result<()> {
    let new = bench.keys(1).remove(0);
    let mut hand = bench.hand()?;
    hand.put(&new, &blob(new.id, 0, 5000))?;
    if bench.subject.caps().changes {
        hand.put(&there[1].0, &blob(there[1].0.id, 9, 777))?;
        hand.delete(&there[2].0)?;
        hand.expect(&there[1].0, Some(&blob(there[1].0.id, 9, 777))).context("after a backup")?;
    }
    hand.expect(&there[3].0, there[3].1.as_deref()).context("after a backup")?;
    hand.sync()
}

pub fn refuses_a_backup(bench: &mut Bench) -> Result<()> {
    let aside = bench.home.around().join("backup");
    std::fs::create_dir(&aside)?;
    let outcome = bench.store()?.back_up(&aside);
    let left = std::fs::read_dir(&aside)?.count();
    std::fs::remove_dir_all(&aside)?;
    refused(outcome, "a backup while it is open")?;
    ensure!(left == 0, "a backup that was refused has written {left} files");
    Ok(())
}
