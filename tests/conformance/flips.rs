//! A byte that changes on the device, behind the store's back: is it detected by the store, or only by a comparison?
//!
//! Blobs are located in the store's files by pieces of their bytes, which are random, and a byte of every copy of them is changed:
//! of one while the store is open and has everything cached, and of another while it is closed. Then the store is opened with
//! nothing of it in the page cache, and everything is read.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use blobwise::conformance::bench::{Bench, blob};
use blobwise::conformance::check::Case;
use blobwise::conformance::subject::Subject;
use blobwise::host::machine;
use blobwise::host::server::{Launch, run_to_end};
use blobwise::store::{Durability, Key, Kind, NoticedBy, Span};

use crate::flipping::flip;

/// Sizes of the blobs that are put.
const LENS: &[usize] = &[5_000, 200_000, 60_000, 200_000, 5_000];
/// The blob that is changed while the store has its files open and has read them.
const CHANGED_OPEN: usize = 1;
/// The blob that is changed while no process has the files open.
const CHANGED_CLOSED: usize = 3;

/// Outcome of reading a blob.
#[derive(Debug)]
enum Came {
    Right,
    /// Describes the difference.
    Other(String),
    Error(String),
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
    caps.persistent && caps.contents && !subject.is_outside && !is_repeated
}

pub fn flipped_bytes_are_found(case: &Case) -> Result<()> {
    tried(case, |_| Ok(()))?;
    // Only for the release whose programs are found by their names.
    if case.subject.family() == "postgres" && case.subject.options.text("version") == "installed" {
        tried(case, switch_checksums_on).context("with checksums of pages")?;
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

/// Changes bytes of a store that `prepare` has set up, and reads it again.
fn tried(case: &Case, prepare: fn(&mut Bench) -> Result<()>) -> Result<()> {
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
    let flip = |bench: &Bench, changed: usize| flip_kept(case.subject, &bench.home.store, &blobs[changed]);
    // None, of a store that keeps everything in memory until it is closed.
    let open_copies = flip(&bench, CHANGED_OPEN)?;
    bench.close()?;
    let closed_copies = flip(&bench, CHANGED_CLOSED)?;
    ensure!(closed_copies > 0, "the blob is nowhere in the store's files: this check sees nothing");
    machine::sync_filesystem(&bench.home.store)?;
    machine::evict(&bench.home.store);
    for (place, came) in read_again(&mut bench, &keys, &blobs).into_iter().enumerate() {
        match place {
            CHANGED_OPEN if open_copies > 0 => as_declared(noticed_by, came)
                .with_context(|| format!("{open_copies} bytes changed while it was open"))?,
            CHANGED_CLOSED => as_declared(noticed_by, came)
                .with_context(|| format!("{closed_copies} bytes changed while it was closed"))?,
            _ => ensure!(!matches!(came, Came::Other(_)), "{came:?} of a blob that was not changed"),
        }
    }
    Ok(())
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
fn read_again(bench: &mut Bench, keys: &[Key], blobs: &[Vec<u8>]) -> Vec<Came> {
    let opened = bench.open_again().map_err(|error| format!("{error:#}"));
    let read = |key: &Key| {
        opened.clone()?;
        let read = bench.hand().and_then(|mut hand| hand.get(key, Span::Whole));
        read.map_err(|error| format!("{error:#}"))
    };
    let came = |(key, blob): (&Key, &Vec<u8>)| match read(key) {
        Ok(Some(read)) if read == *blob => Came::Right,
        Ok(None) => Came::Other("no blob".to_owned()),
        Ok(Some(read)) if read.len() != blob.len() => {
            Came::Other(format!("{} B in place of {}", read.len(), blob.len()))
        }
        Ok(Some(_)) => Came::Other("other bytes".to_owned()),
        Err(error) => Came::Error(error),
    };
    keys.iter().zip(blobs).map(came).collect()
}

fn as_declared(noticed_by: NoticedBy, came: Came) -> Result<()> {
    match (noticed_by, came) {
        (NoticedBy::Store, Came::Error(_)) | (NoticedBy::Comparison, Came::Other(_)) => Ok(()),
        (_, Came::Right) => bail!("nothing that is read has changed"),
        (NoticedBy::Store, Came::Other(what)) => bail!("it handed out {what}, and said that it would notice"),
        (NoticedBy::Comparison, Came::Error(error)) => {
            bail!("it noticed, and said that it would not: {error}")
        }
    }
}
