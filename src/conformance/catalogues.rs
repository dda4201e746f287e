//! The catalogue of uploads: an entry counts from `confirm` to its last `release`, and a transaction covers both blob and entry.

use anyhow::{Context, Result, ensure};

use super::bench::{Bench, Hand, blob};
use super::check::Case;
use crate::store::{Durability, Error, Key, Session};

type Answer<T> = crate::store::Result<T>;

fn insert(session: &mut dyn Session, key: &Key) -> Answer<()> {
    session.catalogue()?.insert(key, 100)
}

fn references(session: &mut dyn Session, key: &Key) -> Answer<u64> {
    session.catalogue()?.references(key)
}

pub fn catalogues_uploads(bench: &mut Bench) -> Result<()> {
    let keys = bench.keys(4);
    bench.store()?.open_catalogue()?;
    counts_references(&mut bench.hand()?, &keys[0]).context("counting references")?;
    keeps_to_its_order(&mut bench.hand()?, &keys[1]).context("order of steps")?;
    // Integer keys have no digest for a blob; blobs and entries belong together by digest only.
    holds_together(&mut bench.hand()?, &keys[2..4]).context("one transaction")?;
    // Entries stay when the catalogue is opened again.
    let mut hand = bench.hand()?;
    insert(hand.bare(), &keys[0])?;
    hand.bare().catalogue()?.confirm(&keys[0])?;
    drop(hand);
    bench.store()?.open_catalogue()?;
    ensure!(
        references(bench.hand()?.bare(), &keys[0])? == 1,
        "an entry went when the catalogue was opened again"
    );
    Ok(())
}

fn counts_references(hand: &mut Hand, key: &Key) -> Result<()> {
    let session = hand.bare();
    ensure!(!session.catalogue()?.find(key)?, "something that nobody uploaded was found");
    insert(session, key)?;
    ensure!(references(session, key)? == 0, "an entry counts before its blob is stored");
    session.catalogue()?.confirm(key)?;
    ensure!(references(session, key)? == 1, "a confirmed entry does not count");
    ensure!(session.catalogue()?.find(key)?, "a confirmed entry was not found");
    ensure!(session.catalogue()?.find(key)?, "a confirmed entry was not found a second time");
    ensure!(references(session, key)? == 3, "finding does not add references");
    for left in [2, 1] {
        ensure!(!session.catalogue()?.release(key)?, "the last reference went too early");
        ensure!(references(session, key)? == left, "releasing does not take a reference away");
    }
    ensure!(session.catalogue()?.release(key)?, "the last reference did not go");
    ensure!(!session.catalogue()?.find(key)?, "an entry without references was found");
    session.catalogue()?.forget(key)?;
    ensure!(session.catalogue()?.release(key).is_err(), "what is not there was released");
    Ok(())
}

/// If two sessions store the same content, the second has to wait; a catalogued entry is not forgotten.
fn keeps_to_its_order(hand: &mut Hand, key: &Key) -> Result<()> {
    let session = hand.bare();
    insert(session, key)?;
    let again = insert(session, key);
    ensure!(matches!(again, Err(Error::Busy)), "announced twice: {again:?} instead of busy");
    session.catalogue()?.confirm(key)?;
    session.catalogue()?.forget(key)?;
    ensure!(references(session, key)? == 1, "a catalogued entry was forgotten");
    ensure!(session.catalogue()?.confirm(key).is_err(), "an entry was confirmed twice");
    ensure!(session.catalogue()?.release(key)?, "the only reference was not the last one");
    session.catalogue()?.forget(key)?;
    Ok(())
}

fn holds_together(hand: &mut Hand, keys: &[Key]) -> Result<()> {
    let contents: Vec<Vec<u8>> = keys.iter().map(|key| blob(key.id, 0, 90_000)).collect();
    for (key, content, commit) in [(&keys[0], &contents[0], true), (&keys[1], &contents[1], false)] {
        let session = hand.bare();
        session.catalogue()?.begin()?;
        insert(session, key)?;
        session.put(key, content)?;
        session.catalogue()?.confirm(key)?;
        if commit {
            session.catalogue()?.commit()?;
        } else {
            session.catalogue()?.rollback()?;
        }
    }
    hand.expect(&keys[0], Some(&contents[0])).context("committed")?;
    hand.expect(&keys[1], None).context("rolled back")?;
    let counted = [references(hand.bare(), &keys[0])?, references(hand.bare(), &keys[1])?];
    ensure!(counted == [1, 0], "{counted:?} references instead of 1 and 0");
    let session = hand.bare();
    session.catalogue()?.begin()?;
    ensure!(session.catalogue()?.release(&keys[0])?, "the only reference was not the last one");
    session.delete(&keys[0])?;
    session.catalogue()?.forget(&keys[0])?;
    session.catalogue()?.commit()?;
    hand.expect(&keys[0], None).context("taken back")
}

pub fn refuses_a_catalogue(bench: &mut Bench) -> Result<()> {
    let opened = bench.store()?.open_catalogue();
    ensure!(matches!(opened, Err(Error::Unsupported(_))), "open_catalogue: {opened:?} instead of a refusal");
    let mut hand = bench.hand()?;
    let refused = matches!(hand.bare().catalogue(), Err(Error::Unsupported(_)));
    ensure!(refused, "a session has a catalogue that the store does not declare");
    Ok(())
}

/// Entries that were announced and never confirmed, or released and never forgotten, are gone when the catalogue is next opened.
pub fn forgets_unfinished_uploads(case: &Case) -> Result<()> {
    let mut bench = Bench::open(case.world, case.subject)?;
    let keys = bench.keys(3);
    bench.store()?.open_catalogue()?;
    {
        let mut hand = bench.hand()?;
        let session = hand.bare();
        for key in &keys {
            insert(session, key)?;
        }
        session.catalogue()?.confirm(&keys[1])?;
        session.catalogue()?.confirm(&keys[2])?;
        ensure!(session.catalogue()?.release(&keys[2])?, "the only reference was not the last one");
        if case.subject.durability != Durability::None {
            session.sync()?;
        }
    }
    bench.reopen()?;
    bench.store()?.open_catalogue()?;
    {
        let mut hand = bench.hand()?;
        let session = hand.bare();
        ensure!(references(session, &keys[1])? == 1, "a confirmed entry is gone");
        for key in [&keys[0], &keys[2]] {
            insert(session, key).context("an unfinished entry stands in the way")?;
        }
    }
    bench.close()
}
