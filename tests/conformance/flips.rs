//! A byte that changes on the device, behind the store's back: is it detected by the store, or only by a comparison?
//!
//! A blob is located in the store's files by pieces of its bytes, which are random, and a byte of every copy of them is changed:
//! while the store is open and has everything cached, and while it is closed. Then the store is opened with nothing of it in the
//! page cache, and everything is read.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use blobwise::host::machine;
use blobwise::host::server::{Launch, run_to_end};
use blobwise::store::{Durability, Key, Kind, NoticedBy, Span};

use crate::bench::{Bench, blob};
use crate::checks::Case;
use crate::flipping::flip;
use crate::outside;
use crate::subjects::Subject;

/// Sizes of the blobs that are put; the middle one is changed.
const LENS: &[usize] = &[5_000, 60_000, 200_000, 60_000, 5_000];
const CHANGED: usize = 2;

/// When the files are changed.
#[derive(Clone, Copy, Debug)]
enum When {
    /// While no process has them open.
    Closed,
    /// While the store has them open and has read them.
    Open,
}

/// Outcome of reading the changed blob.
#[derive(Debug)]
enum Came {
    Right,
    /// Describes the difference.
    Other(String),
    Error(anyhow::Error),
}

/// True if files of the store can be examined. Of a server's classes one is tested, or each that makes a difference.
pub fn applies(subject: &Subject) -> bool {
    let caps = subject.caps();
    let integrity = |class: Durability| (subject.adapter.integrity)(&subject.options, class);
    let is_like_this = |class: &Durability| {
        *class > subject.durability && integrity(*class) == integrity(subject.durability)
    };
    // Composed stores are tested in one class anyway.
    let is_repeated =
        subject.adapter.kind != Kind::Web && subject.is_server() && caps.durability.iter().any(is_like_this);
    caps.persistent && caps.contents && !outside::is_outside(subject.adapter) && !is_repeated
}

pub fn flipped_bytes_are_found(case: &Case) -> Result<()> {
    // The return value is ignored, because some stores keep everything in memory until they are closed.
    tried(case, When::Open, |_| Ok(()))?;
    let copies = tried(case, When::Closed, |_| Ok(()))?;
    ensure!(copies > 0, "the blob is nowhere in the store's files: this check sees nothing");
    // Only for the release whose programs are found by their names.
    if case.subject.family() == "postgres" && case.subject.options.text("version") == "installed" {
        tried(case, When::Open, switch_checksums_on).context("with checksums of pages")?;
    }
    Ok(())
}

/// Private servers have no page checksums: this shows what a user's own servers may have.
fn switch_checksums_on(bench: &mut Bench) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(60);
    bench.close()?;
    let server = bench.subject.adapter.programs[0].find()?.path.canonicalize()?;
    let program = server.with_file_name("pg_checksums");
    let launch = Launch::new(&program, &bench.home.store);
    let launch = launch.args(["--enable", "--no-sync", "-D"]).arg(bench.home.store.join("data"));
    run_to_end(&launch, PATIENCE)?;
    bench.open_again()?;
    let facts = bench.store()?.facts()?;
    let is_on = facts.get("data_checksums").is_some_and(|value| value == "on");
    ensure!(is_on, "they are on, and the server does not say so: {facts:?}");
    Ok(())
}

/// Runs one case on a store that `prepare` has set up, and returns how many copies of a piece were changed.
fn tried(case: &Case, when: When, prepare: fn(&mut Bench) -> Result<()>) -> Result<usize> {
    let mut bench = Bench::open(case.world, case.subject)?;
    prepare(&mut bench)?;
    let keys = bench.keys(LENS.len() as u64);
    let blobs: Vec<Vec<u8>> = keys.iter().zip(LENS).map(|(key, len)| blob(key.id, 0, *len)).collect();
    for (key, blob) in keys.iter().zip(&blobs) {
        bench.hand()?.put(key, blob)?;
    }
    bench.hand()?.sync()?;
    bench.store()?.settle().context("settle")?;
    for (key, blob) in keys.iter().zip(&blobs) {
        bench.hand()?.expect(key, Some(blob))?;
    }
    let facts = bench.store()?.facts()?;
    let integrity = (case.subject.adapter.integrity)(&case.subject.options, case.subject.durability);
    let noticed_by = integrity.noticed_by(&facts).context("it does not say who notices a changed byte")?;
    let flip = |bench: &Bench| flip_kept(case.subject, &bench.home.store, &blobs[CHANGED]);
    let copies = match when {
        When::Open => {
            let copies = flip(&bench)?;
            bench.close()?;
            copies
        }
        When::Closed => {
            bench.close()?;
            flip(&bench)?
        }
    };
    machine::sync_filesystem(&bench.home.store)?;
    machine::evict(&bench.home.store);
    if copies > 0 {
        let came = read_again(&mut bench, &keys, &blobs);
        as_declared(noticed_by, came).with_context(|| format!("{copies} bytes changed, {when:?}"))?;
    }
    Ok(copies)
}

/// Changes a blob in its stored form: FerretDB's documents are JSON with bytes in base64, so a letter is replaced by another one.
fn flip_kept(subject: &Subject, dir: &Path, blob: &[u8]) -> Result<usize> {
    use base64::Engine;
    if subject.family() != "ferretdb" {
        return flip(dir, blob, |byte| !byte);
    }
    let text = base64::engine::general_purpose::STANDARD.encode(blob);
    flip(dir, text.as_bytes(), |letter| if letter == b'A' { b'B' } else { b'A' })
}

/// Opens the store and reads everything; an error of either counts as detection by the store.
fn read_again(bench: &mut Bench, keys: &[Key], blobs: &[Vec<u8>]) -> Came {
    if let Err(error) = bench.open_again() {
        return Came::Error(error);
    }
    let mut came = Came::Right;
    for (key, blob) in keys.iter().zip(blobs) {
        let read = bench.hand().and_then(|mut hand| hand.get(key, Span::Whole));
        match read {
            Ok(read) if read.as_ref() == Some(blob) => {}
            Ok(None) => return Came::Other("no blob".to_owned()),
            Ok(Some(read)) if read.len() != blob.len() => {
                return Came::Other(format!("{} B in place of {}", read.len(), blob.len()));
            }
            Ok(Some(_)) => return Came::Other("other bytes".to_owned()),
            Err(error) => came = Came::Error(error),
        }
    }
    came
}

fn as_declared(noticed_by: NoticedBy, came: Came) -> Result<()> {
    match (noticed_by, came) {
        (NoticedBy::Store, Came::Error(_)) | (NoticedBy::Comparison, Came::Other(_)) => Ok(()),
        (_, Came::Right) => bail!("nothing that is read has changed"),
        (NoticedBy::Store, Came::Other(what)) => bail!("it handed out {what}, and said that it would notice"),
        (NoticedBy::Comparison, Came::Error(error)) => {
            Err(error.context("it noticed, and said that it would not"))
        }
    }
}
