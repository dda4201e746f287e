//! The store that `examples/own_store.rs` brings is registered, and keeps the contract.

use std::sync::Arc;

use anyhow::{Result, ensure};
use blobwise::conformance::bench::World;
use blobwise::conformance::checks;
use blobwise::store::Durability;
use blobwise::stores::{self, Entry};

use crate::own_store::SLED;
use crate::trials::Trial;
use crate::{subjects, trials_of};

pub fn trials(world: &Arc<World>) -> Result<Vec<Trial>> {
    let subject = Arc::new(subjects::subject(&SLED, &[], Durability::None)?);
    let mut trials = trials_of(world, &subject, checks::all());
    trials.push(Trial::test("examples/a-store-is-registered-once", || {
        is_registered_once().map_err(|error| format!("{error:#}").into())
    }));
    Ok(trials)
}

fn is_registered_once() -> Result<()> {
    blobwise::register(&SLED)?;
    let found = stores::find(SLED.name);
    ensure!(matches!(found, Some(Entry::Ready(adapter)) if adapter.name == SLED.name), "found: {found:?}");
    ensure!(blobwise::register(&SLED).is_err(), "it was registered twice");
    ensure!(
        stores::adapters().filter(|adapter| adapter.name == SLED.name).count() == 1,
        "it is listed twice"
    );
    Ok(())
}
