//! The catalogue of uploads: entries, references and transactions that the blobs of the same session are part of.

use anyhow::{Context, Result, anyhow, bail, ensure};
use blobwise::store::{Catalogue, Error, Key};

use crate::bench::{Bench, Hand, blob};

fn catalogue<'h>(hand: &'h mut Hand) -> Result<&'h mut dyn Catalogue> {
    hand.bare().catalogue().context("the catalogue")
}

fn expect_references(hand: &mut Hand, digest: &Key, wanted: u64, when: &str) -> Result<()> {
    let found = catalogue(hand)?.references(digest)?;
    ensure!(found == wanted, "{found} references {when} instead of {wanted}");
    Ok(())
}

/// From announcing a content to the release of its last reference.
pub fn counts_references(bench: &mut Bench) -> Result<()> {
    let keys = bench.keys(3);
    let (content, other) = (blob(keys[0].id, 0, 5000), blob(keys[1].id, 0, 70_000));
    bench.store()?.open_catalogue().context("open_catalogue")?;
    let mut hand = bench.hand()?;
    ensure!(!catalogue(&mut hand)?.find(&keys[0])?, "a content that was never announced is found");
    catalogue(&mut hand)?.insert(&keys[0], 5000)?;
    ensure!(!catalogue(&mut hand)?.find(&keys[0])?, "a content is found before it is confirmed");
    expect_references(&mut hand, &keys[0], 0, "before it is confirmed")?;
    let second = bench.hand()?.bare().catalogue()?.insert(&keys[0], 5000);
    ensure!(matches!(second, Err(Error::Busy)), "announced twice at once: {second:?} instead of busy");
    hand.put(&keys[0], &content)?;
    catalogue(&mut hand)?.confirm(&keys[0])?;
    expect_references(&mut hand, &keys[0], 1, "after it was confirmed")?;
    ensure!(catalogue(&mut hand)?.find(&keys[0])?, "a catalogued content is not found");
    expect_references(&mut hand, &keys[0], 2, "after it was found")?;
    ensure!(!catalogue(&mut hand)?.release(&keys[0])?, "the first of two references was called the last");
    ensure!(catalogue(&mut hand)?.release(&keys[0])?, "the last reference was not called so");
    expect_references(&mut hand, &keys[0], 0, "after the last release")?;
    catalogue(&mut hand)?.forget(&keys[0])?;
    // What is announced and never confirmed goes when the catalogue is opened again.
    catalogue(&mut hand)?.insert(&keys[0], 5000)?;
    bench.store()?.open_catalogue().context("open_catalogue a second time")?;
    catalogue(&mut hand)?.insert(&keys[0], 5000).context("after what was unfinished had to go")?;
    catalogue(&mut hand)?.forget(&keys[0])?;
    for commits in [false, true] {
        catalogue(&mut hand)?.begin()?;
        catalogue(&mut hand)?.insert(&keys[1], 70_000)?;
        hand.bare().put(&keys[1], &other)?;
        catalogue(&mut hand)?.confirm(&keys[1])?;
        match commits {
            true => catalogue(&mut hand)?.commit()?,
            false => catalogue(&mut hand)?.rollback()?,
        }
        let when = if commits { "after a commit" } else { "after a rollback" };
        expect_references(&mut hand, &keys[1], u64::from(commits), when)?;
        hand.expect(&keys[1], commits.then_some(other.as_slice())).context(when)?;
    }
    Ok(())
}

/// Where none is declared, neither way to it may succeed.
pub fn refuses(bench: &mut Bench) -> Result<()> {
    refused(bench.store()?.open_catalogue())?;
    let mut hand = bench.hand()?;
    refused(hand.bare().catalogue().map(drop))
}

fn refused(outcome: blobwise::store::Result<()>) -> Result<()> {
    match outcome {
        Err(Error::Unsupported(_)) => Ok(()),
        Err(error) => {
            Err(anyhow!(error).context("a catalogue is not declared, and fails instead of being refused"))
        }
        Ok(()) => bail!("a catalogue is not declared, and yet there is one"),
    }
}
