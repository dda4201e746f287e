//! What can be tried before anything is measured: space on the disk, memory for caches, and servers of the user's.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::visit::setup;
use crate::corpus::Corpus;
use crate::machine;
use crate::plan::{Class, Plan, Row, class_of};
use crate::store::{Common, Mode};
use crate::units;

/// Refuses a place without room for the corpus in its largest form: a few copies of it, and some room for logs.
pub fn check_space(dir: &Path, corpus: &Corpus) -> Result<()> {
    const TIMES: u64 = 4;
    const SPARE_BYTES: u64 = 64 << 20;
    let (need, free) = (corpus.bytes() * TIMES + SPARE_BYTES, machine::free_bytes(dir)?);
    if free < need {
        let (need, free) = (units::bytes(need as f64), units::bytes(free as f64));
        bail!(
            "`{}` has {free} free, and this corpus may need {need}; use a smaller --corpus-bytes or another --dir",
            dir.display()
        );
    }
    Ok(())
}

/// Refuses caches that would push the machine into its swap.
pub fn check_memory(plan: &Plan, corpus: &Corpus) -> Result<()> {
    const SHARE_MAX: f64 = 0.75;
    let (cache, memory) = (plan.cache.bytes(corpus.bytes()), machine::memory_bytes());
    if memory > 0 && cache as f64 > SHARE_MAX * memory as f64 {
        bail!(
            "`cache` gives each store {}, and this machine has {} of memory, of which three quarters are the limit; use a smaller \
             cache, or a smaller corpus (--scale, --corpus-bytes)",
            units::bytes(cache as f64),
            units::bytes(memory as f64)
        );
    }
    Ok(())
}

/// Opens a store in every server that a row names by URL, and removes it again: a wrong URL or password, a server that is too
/// old or a limit that is too low is an error before the run, not a failed row after it.
pub fn check_servers(plan: &Plan, corpora: &[Corpus], place: &Path) -> Result<()> {
    let Some(largest) = corpora.iter().max_by_key(|corpus| corpus.largest()) else { return Ok(()) };
    for row in plan.rows.iter().filter(|row| !row.options.text("url").is_empty()) {
        let dir = place.join("check");
        std::fs::create_dir(&dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
        let outcome = check_server(plan, largest, place, &dir, row);
        std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove `{}`", dir.display()))?;
        outcome.with_context(|| {
            let url = units::without_passwords(row.options.text("url"));
            format!("`{}` cannot use the server at `{url}`", row.label)
        })?;
    }
    Ok(())
}

fn check_server(plan: &Plan, corpus: &Corpus, place: &Path, dir: &Path, row: &Row) -> Result<()> {
    let class = class_of(row, Class::Asked, plan.durability);
    let common = Common::new(place.join("cache"));
    let setup = setup(plan, corpus, dir, &common, &row.options, class, Mode::Create);
    let store = (row.adapter.open)(&setup)?;
    let session = store.session().map(drop);
    store.remove()?;
    Ok(session?)
}
