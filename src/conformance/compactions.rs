//! Compactions: afterwards every blob is there, and the store works as before.

use anyhow::{Context, Result, bail, ensure};

use super::backups::filled;
use super::bench::{Bench, blob};
use super::check::refused;
use super::subject::Subject;
use crate::store::{Compaction, Key};

/// True if the adapter declares how the store is rewritten.
pub fn applies(subject: &Subject) -> bool {
    subject.caps().compaction.is_some() && !subject.traits().is_external
}

/// True if it declares nothing of the kind.
pub fn refuses(subject: &Subject) -> bool {
    subject.caps().compaction.is_none()
}

pub fn compacts(bench: &mut Bench) -> Result<()> {
    let mut there = filled(bench)?;
    match bench.subject.caps().compaction {
        Some(Compaction::InPlace(_)) => bench.store_mut()?.compact().context("the compaction")?,
        Some(Compaction::Copy(_)) => takes_the_place_of_the_store(bench)?,
        None => bail!("no compaction is declared"),
    }
    expect_all(bench, &there).context("after a compaction")?;
    let new = bench.keys(1).remove(0);
    let put = blob(new.id, 0, 5000);
    let mut hand = bench.hand()?;
    hand.put(&new, &put)?;
    hand.expect(&new, Some(&put)).context("put after a compaction")?;
    hand.sync()?;
    drop(hand);
    // Only where it is quick: a server would be restarted.
    if !bench.subject.caps().persistent || bench.subject.is_server() {
        return Ok(());
    }
    there.push((new, Some(put)));
    bench.reopen().context("after a compaction")?;
    expect_all(bench, &there).context("after a compaction, and reopened")
}

fn expect_all(bench: &Bench, there: &[(Key, Option<Vec<u8>>)]) -> Result<()> {
    let mut hand = bench.hand()?;
    there.iter().try_for_each(|(key, wanted)| hand.expect(key, wanted.as_deref()))
}

/// Makes a compact copy, and puts it in the place of the store as the engine does.
fn takes_the_place_of_the_store(bench: &mut Bench) -> Result<()> {
    let copy = bench.home.around().join("compact");
    std::fs::create_dir(&copy)?;
    bench.store()?.compact_into(&copy).context("the compact copy")?;
    bench.close()?;
    std::fs::remove_dir_all(&bench.home.store)?;
    std::fs::rename(&copy, &bench.home.store)?;
    bench.open_again().context("of a compact copy")
}

pub fn refuses_to_compact(bench: &mut Bench) -> Result<()> {
    refused(bench.store_mut()?.compact(), "a compaction in place")?;
    let aside = bench.home.around().join("compact");
    std::fs::create_dir(&aside)?;
    let outcome = bench.store()?.compact_into(&aside);
    let left = std::fs::read_dir(&aside)?.count();
    std::fs::remove_dir_all(&aside)?;
    refused(outcome, "a compact copy")?;
    ensure!(left == 0, "a compact copy that was refused has written {left} files");
    Ok(())
}
