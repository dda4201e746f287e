//! Registered uploads survive a crash at every step: what is catalogued has its blob, what was acknowledged is catalogued. And
//! files with the same bytes are one upload.
//!
//! A child process uploads, and dies in the middle of a put: before the blob is stored, or after it and before its entry counts.
//! Ending a process proves what the death of a process costs; it says nothing of a power cut.
#![cfg(feature = "sqlite")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use blobwise::corpus::{BlobSource, Corpus, CorpusSpecification};
use blobwise::engine::ops::{OpDistribution, State, lists};
use blobwise::engine::workers::uploads::verify;
use blobwise::plan::{Length, OpKind, Workload, defaults};
use blobwise::store::*;
use blobwise::stores::{self, Entry};

const CONTENTS: u64 = 12;
const DIRECTORY: &str = "BLOBWISE_TEST_UPLOADS_IN";
const DIES: &str = "BLOBWISE_TEST_UPLOADS_DIE";

fn content(id: u64) -> Vec<u8> {
    (0..2000 + id * 300).map(|at| (at * 31 + id * 7) as u8).collect()
}

fn open(name: &str, dir: &Path, mode: Mode) -> Box<dyn Store> {
    let Some(Entry::Ready(adapter)) = stores::find(name) else { panic!("no {name}") };
    std::fs::create_dir_all(dir).unwrap();
    let options = defaults(adapter);
    let common = Common::new(dir.to_owned());
    let setup = Setup {
        dir,
        common: &common,
        mode,
        durability: Durability::EachWrite,
        cache_bytes: 8 << 20,
        fits: true,
        blob_bytes_max: 1 << 20,
        store_bytes_max: 64 << 20,
        keys_max: 1000,
        workers: 1,
        op_timeout: Duration::from_secs(30),
        options: &options,
        join_token: None,
    };
    (adapter.open)(&setup).unwrap()
}

/// When the uploading process dies, in its n-th put.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Dies {
    BeforePut(u64),
    AfterPut(u64),
}

/// A session that ends the process in the middle of an upload.
struct Mortal<'s> {
    inner: Box<dyn Session + 's>,
    dies: Dies,
    puts: u64,
}

impl Session for Mortal<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        self.puts += 1;
        if self.dies == Dies::BeforePut(self.puts) {
            std::process::abort();
        }
        self.inner.put(key, blob)?;
        if self.dies == Dies::AfterPut(self.puts) {
            std::process::abort();
        }
        Ok(())
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        self.inner.get(key, span, sink)
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.inner.delete(key)
    }

    fn sync(&mut self) -> Result<()> {
        self.inner.sync()
    }

    fn catalogue(&mut self) -> Result<&mut dyn Catalogue> {
        self.inner.catalogue()
    }
}

/// How blobs and catalogue are kept.
#[derive(Clone, Copy, Debug)]
enum Form {
    FilesAndSqlite,
    SqliteInSteps,
    SqliteInOneTransaction,
}

struct Kept {
    blobs: Box<dyn Store>,
    catalogue: Option<Box<dyn Store>>,
    one_transaction: bool,
}

fn kept(form: Form, dir: &Path, mode: Mode) -> Kept {
    let (name, apart, one_transaction) = match form {
        Form::FilesAndSqlite => ("files/hashed", true, false),
        Form::SqliteInSteps => ("sqlite", false, false),
        Form::SqliteInOneTransaction => ("sqlite", false, true),
    };
    let blobs = open(name, &dir.join("blobs"), mode);
    let catalogue = apart.then(|| open("sqlite", &dir.join("catalogue"), mode));
    catalogue.as_deref().unwrap_or(blobs.as_ref()).open_catalogue().unwrap();
    Kept { blobs, catalogue, one_transaction }
}

fn upload<'s>(
    kept: &Kept,
    session: &mut (dyn Session + 's),
    apart: Option<&mut (dyn Session + 's)>,
    id: u64,
) {
    let mut catalog = UploadCatalog { session, apart, one_transaction: kept.one_transaction };
    catalog.upload(id, &content(id), |_| ()).unwrap();
}

/// The uploading process; a test of its own only in name.
#[test]
fn child() {
    let (Some(dir), Ok(dies)) = (std::env::var_os(DIRECTORY), std::env::var(DIES)) else { return };
    let words: Vec<&str> = dies.split(' ').collect();
    let form = match words[0] {
        "files" => Form::FilesAndSqlite,
        "steps" => Form::SqliteInSteps,
        _ => Form::SqliteInOneTransaction,
    };
    let put = words[2].parse().unwrap();
    let dies = if words[1] == "before" { Dies::BeforePut(put) } else { Dies::AfterPut(put) };
    let kept = kept(form, Path::new(&dir), Mode::Create);
    let mut session = Mortal { inner: kept.blobs.session().unwrap(), dies, puts: 0 };
    let mut apart = kept.catalogue.as_ref().map(|catalogue| catalogue.session().unwrap());
    for id in 0..CONTENTS {
        match &mut apart {
            Some(apart) => upload(&kept, &mut session, Some(apart.as_mut()), id),
            None => upload(&kept, &mut session, None, id),
        }
        writeln!(std::io::stdout(), "uploaded {id}").unwrap();
    }
}

/// Runs the child until it dies and returns how many uploads it acknowledged.
fn acknowledged(dir: &Path, dies: &str) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child", "--nocapture"]).env(DIRECTORY, dir).env(DIES, dies);
    let output = child.output().unwrap();
    assert!(!output.status.success(), "it was to die");
    String::from_utf8_lossy(&output.stdout).matches("uploaded ").count() as u64
}

fn check(form: Form, word: &str) {
    for dies in ["before 1", "after 1", "before 7", "after 7", "after 12"] {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let acknowledged = acknowledged(dir.path(), &format!("{word} {dies}"));
        let put: u64 = dies.split(' ').nth(1).unwrap().parse().unwrap();
        assert_eq!(acknowledged, put - 1, "{dies}");
        let kept = kept(form, dir.path(), Mode::Open);
        let mut session = kept.blobs.session().unwrap();
        let mut apart = kept.catalogue.as_ref().map(|catalogue| catalogue.session().unwrap());
        for id in 0..CONTENTS {
            let key = content_key(id, &content(id));
            let catalogued = match &mut apart {
                Some(apart) => apart.catalogue().unwrap().references(&key).unwrap(),
                None => session.catalogue().unwrap().references(&key).unwrap(),
            };
            let mut bytes = Vec::new();
            let found = session.get(&key, Span::Whole, &mut |piece| bytes.extend_from_slice(piece)).unwrap();
            assert_eq!(catalogued, u64::from(id < acknowledged), "{form:?}, {dies}: entry {id}");
            assert!(
                catalogued == 0 || found && bytes == content(id),
                "{form:?}, {dies}: the blob of entry {id}"
            );
        }
        // What was under way can be uploaded again.
        let mut session = Mortal { inner: session, dies: Dies::BeforePut(0), puts: 0 };
        match &mut apart {
            Some(apart) => upload(&kept, &mut session, Some(apart.as_mut()), acknowledged),
            None => upload(&kept, &mut session, None, acknowledged),
        }
    }
}

#[test]
fn files_and_a_sqlite_catalogue() {
    check(Form::FilesAndSqlite, "files");
}

#[test]
fn one_sqlite_database_in_steps() {
    check(Form::SqliteInSteps, "steps");
}

#[test]
fn one_sqlite_database_in_one_transaction() {
    check(Form::SqliteInOneTransaction, "whole");
}

/// Five files, two of them the same and two of them empty: three contents.
fn files_with_copies(dir: &Path) {
    std::fs::create_dir(dir).unwrap();
    for (name, bytes) in [("a", "the same"), ("b", "the same"), ("c", ""), ("d", ""), ("e", "another")] {
        std::fs::write(dir.join(name), bytes).unwrap();
    }
}

/// Uploads all contents and takes them back, twice; the second time one is uploaded again instead of another.
fn check_copies(form: Form) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let files = dir.path().join("files");
    files_with_copies(&files);
    let request = CorpusSpecification {
        source: BlobSource::Files(files),
        blobs_max: None,
        bytes_max: None,
        grows_to: None,
        seed: 1,
    };
    let corpus = Corpus::build(&request).unwrap();
    let contents = &corpus.contents;
    let mut room = Vec::new();
    let mut keys = Vec::new();
    for (id, len) in corpus.sizes.iter().enumerate() {
        keys.push(content_key(id as u64, contents.blob(id as u64, 0, u64::from(*len), &mut room)));
    }
    let mut state = State::empty(&corpus);
    state.begin_uploads(&keys, &corpus.sizes);
    let kept = kept(form, dir.path(), Mode::Create);
    let mut session = kept.blobs.session().unwrap();
    let mut apart = kept.catalogue.as_ref().map(|catalogue| catalogue.session().unwrap());
    let mut catalog = UploadCatalog {
        session: session.as_mut(),
        apart: apart.as_deref_mut(),
        one_transaction: kept.one_transaction,
    };
    for (kind, duplicates) in
        [(OpKind::Register, 0.0), (OpKind::Release, 0.0), (OpKind::Register, 0.5), (OpKind::Release, 0.0)]
    {
        let load = Workload { duplicates, ..Workload::new(kind, Length::Share(1.0)) };
        let ops = lists(&load, &state, corpus.blobs(), 1, OpDistribution::Own(1), 1).remove(0);
        assert_eq!(ops.len(), 3, "{form:?}, {kind:?}");
        for op in &ops {
            let id = u64::from(op.blob);
            if kind == OpKind::Register {
                catalog.upload(id, contents.blob(id, 0, u64::from(op.len), &mut room), |_| ()).unwrap();
            } else {
                catalog.withdraw(&keys[op.blob as usize], |_| ()).unwrap();
            }
            state.apply(op);
        }
        verify(&mut catalog, &keys, contents, &state).unwrap();
    }
}

#[test]
fn files_with_the_same_bytes_are_one_upload() {
    for form in [Form::FilesAndSqlite, Form::SqliteInSteps, Form::SqliteInOneTransaction] {
        check_copies(form);
    }
}

/// The same through the program, in which no candidate may fail.
#[test]
fn a_directory_with_copies_is_uploaded_and_taken_back() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    files_with_copies(&dir.path().join("files"));
    let line = "run --files files --phases fill,register,release --stores files/hashed,sqlite --rounds 1 --quiet --out out";
    let mut command = Command::new(env!("CARGO_BIN_EXE_blobwise"));
    let output = command.args(line.split(' ')).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
