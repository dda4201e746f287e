//! Several reads in one transaction must see concurrent writes as the store declares.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use super::bench::{Bench, Hand, blob};
use super::check::refused;
use crate::store::{Key, ReadIsolation, Session, Span, Store};

/// A writer that has not finished by then is waiting for a lock; without a lock it is much faster.
const WAITS: Duration = Duration::from_secs(2);
/// Longer than any put takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Blobs under some keys, in their order.
type Found = Vec<Option<Vec<u8>>>;

fn read(session: &mut dyn Session, keys: &[Key]) -> Result<Found> {
    let one = |key| {
        let mut bytes = Vec::new();
        let found = session.get(key, Span::Whole, &mut |piece| bytes.extend_from_slice(piece))?;
        Ok(found.then_some(bytes))
    };
    keys.iter().map(one).collect()
}

/// Reads in one transaction before and after another session has written, or has tried to.
fn reader(store: &dyn Store, keys: &[Key], begun: &Sender<()>, go: &Receiver<()>) -> Result<[Found; 2]> {
    let mut reader = store.reader().context("cannot begin a transaction of reads")?;
    let before = read(reader.as_mut(), keys)?;
    begun.send(())?;
    go.recv()?;
    let after = read(reader.as_mut(), keys)?;
    refused(reader.put(&keys[0], b"no"), "a put in a transaction that reads")?;
    refused(reader.delete(&keys[0]), "a delete in a transaction that reads")?;
    ensure!(read(reader.as_mut(), keys)? == after, "a write that was refused changed what is read");
    Ok([before, after])
}

/// Replaces the first blob, deletes the second and adds the third.
fn write(hand: &mut Hand<'_>, keys: &[Key], new: &[Option<Vec<u8>>], written: &Sender<()>) -> Result<()> {
    for (key, blob) in keys.iter().zip(new) {
        match blob {
            Some(blob) => hand.put(key, blob)?,
            None => hand.delete(key)?,
        }
    }
    Ok(written.send(())?)
}

pub fn reads_in_one_transaction(bench: &mut Bench) -> Result<()> {
    let view = bench.subject.caps().one_transaction.context("not declared")?;
    let keys = bench.keys(3);
    let of = |key: usize, generation: u64| Some(blob(keys[key].id, generation, 5000 + 100 * key));
    let old: Found = vec![of(0, 0), of(1, 0), None];
    let new: Found = vec![of(0, 1), None, of(2, 1)];
    let mut hand = bench.hand()?;
    for (key, blob) in keys.iter().zip(&old) {
        blob.iter().try_for_each(|blob| hand.put(key, blob))?;
    }
    // A default session has read all of it as well.
    let mut other = bench.hand()?;
    keys.iter().zip(&old).try_for_each(|(key, blob)| other.expect(key, blob.as_deref()))?;
    let (store, subject) = (bench.store()?, &bench.subject);
    let (begun, has_begun) = channel();
    let (written, was_written) = channel();
    let (go, may_go) = channel();
    let [before, after] = std::thread::scope(|scope| -> Result<[Found; 2]> {
        // Each on a thread of its own, like workers.
        let reads = scope.spawn(|| {
            let (begun, may_go) = (begun, may_go);
            reader(store, &keys, &begun, &may_go)
        });
        let joined = |panic| anyhow!("a thread panicked: {panic:?}");
        if has_begun.recv().is_err() {
            return reads.join().map_err(joined)?;
        }
        let writes = scope.spawn(|| write(&mut Hand::open(store, subject)?, &keys, &new, &written));
        let patience = if view == ReadIsolation::Locked { WAITS } else { PATIENCE };
        let is_written = was_written.recv_timeout(patience).is_ok();
        go.send(()).ok();
        let found = reads.join().map_err(joined)?;
        writes.join().map_err(joined)?.context("what was written while others read")?;
        ensure!(
            is_written != (view == ReadIsolation::Locked),
            "{view:?}, and a put that came meanwhile: {is_written}"
        );
        found
    })?;
    ensure!(before == old, "the first reads of the transaction");
    let seen = if view == ReadIsolation::Latest { &new } else { &old };
    for (index, (found, wanted)) in after.iter().zip(seen).enumerate() {
        ensure!(found == wanted, "{view:?}, and blob {index} is not as it was to be seen");
    }
    let now = |hand: &mut Hand<'_>| {
        keys.iter().zip(&new).try_for_each(|(key, blob)| hand.expect(key, blob.as_deref()))
    };
    now(&mut other).context("a session that had read it before, each read by itself")?;
    ensure!(read(store.reader()?.as_mut(), &keys)? == new, "a transaction that began afterwards");
    several(bench, &keys, &new)
}

fn several(bench: &Bench, keys: &[Key], wanted: &Found) -> Result<()> {
    let mut reader = bench.store()?.reader()?;
    if !bench.subject.caps().get_many {
        return refused(reader.get_many(keys, &mut |_, _| {}), "a get of several");
    }
    let mut found: Found = vec![None; keys.len()];
    let number = reader
        .get_many(keys, &mut |index, piece| found[index].get_or_insert_default().extend_from_slice(piece))?;
    ensure!(number == wanted.iter().flatten().count() && found == *wanted, "a get of several");
    Ok(())
}

pub fn refuses_one_transaction(bench: &mut Bench) -> Result<()> {
    refused(bench.store()?.reader().map(drop), "one transaction for several reads")
}
