//! Stores that are wrong on purpose.

use std::sync::Arc;

use anyhow::Result;
use libtest_mimic::Trial;

use crate::bench::World;
use crate::subjects::Subject;

pub fn subjects() -> Result<Vec<Arc<Subject>>> {
    Ok(Vec::new())
}

pub fn trials(_: &Arc<World>) -> Result<Vec<Trial>> {
    Ok(Vec::new())
}
