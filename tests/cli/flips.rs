//! Bytes that change on the device while a run goes on: the candidate fails, also where its store still has the right ones cached.

use std::path::Path;
use std::time::Duration;

use blobwise::result::{RunResult, Status, VerifiedFrom, Warning};
use blobwise::store::NoticedBy;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::flipping::flip;
use crate::program::{Outcome, Work, held, missing, needing};
use crate::signals::{run_until, wait};
use crate::trials::Trial;

/// Stores that answer from the kernel's cache, from their own, and from a server's.
const STORES: &[&str] = &["files/hashed", "sqlite", "redb", "fjall", "postgres/bytea", "mariadb/blob"];

pub fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = STORES
        .iter()
        .map(|store| {
            let name = format!("a byte that changes under {store} fails its candidate");
            needing(&name, missing(store), move || changed_under(store))
        })
        .collect();
    trials.push(needing("a result says what the last comparison read", missing("redis"), says_what_was_read));
    trials.push(needing("a place in memory is not taken for a device", no_memory(), in_memory));
    trials
}

/// A directory in memory.
const MEMORY: &str = "/dev/shm";

fn no_memory() -> Option<String> {
    let is_there = blobwise::host::machine::is_in_memory(Path::new(MEMORY));
    (!is_there).then(|| format!("`{MEMORY}` does not lie in memory"))
}

/// Files of random bytes, and what is in them.
fn prepared() -> (Work, Vec<Vec<u8>>) {
    let work = Work::new();
    std::fs::create_dir(work.path("files")).unwrap();
    std::fs::create_dir(work.path("place")).unwrap();
    let mut random = SmallRng::seed_from_u64(0x666c_6970);
    let files = (0..12).map(|number| {
        let mut bytes = vec![0; 30_000];
        random.fill_bytes(&mut bytes);
        std::fs::write(work.path(&format!("files/{number}")), &bytes).unwrap();
        bytes
    });
    let files = files.collect();
    (work, files)
}

/// Everything is read for so long that there is time to change something meanwhile.
fn plan(store: &str) -> String {
    format!(
        r#"
stores = ["{store}"]
rounds = 1
drop_caches = false
phases = ["fill", "visits"]
corpus = {{ files = "files" }}
[[phase]]
id = "visits"
ops = {{ get = 1.0 }}
cache = "warm"
seconds = 4.0
"#
    )
}

fn changed_under(store: &str) -> Outcome {
    let (work, files) = prepared();
    std::fs::write(work.path("plan.toml"), plan(store))?;
    let child = run_until(&work, "run plan.toml --verbose --dir place --out out", "  visits", 1);
    // Everything is read once before the phase is timed, and then lies in every cache that there is.
    std::thread::sleep(Duration::from_millis(300));
    // Held, or it could come to its end while the files of a large server are searched.
    let copies = held(&child, || flip(&work.path("place"), &files[7], |byte| !byte));
    let said = wait(child);
    assert!(copies? > 0, "the blob is nowhere in the files of {store}: {}", said.stderr);
    let said = said.ended(1);
    let result = RunResult::load(&work.path("out"))?;
    let candidate = result.candidate(store).unwrap();
    assert_eq!(candidate.status, Status::Failed, "{candidate:?}\n{}", said.stdout);
    let reason = candidate.reason.as_deref().unwrap_or_default();
    let by_us = reason.contains("has other bytes than were put") || reason.contains(" B instead of ");
    assert_eq!(by_us, candidate.noticed_by == Some(NoticedBy::Comparison), "{store}: {reason}");
    Ok(())
}

fn says_what_was_read() -> Outcome {
    let (work, _) = prepared();
    let line = "run --files files --stores null,memory,files/hashed,redis --phases fill,read-warm --rounds 2 --quiet --out out";
    let result = work.result(line);
    let of = |store: &str| -> Vec<Option<VerifiedFrom>> {
        let visits = result.store_rounds.iter().filter(|visit| visit.store == store);
        visits.map(|visit| visit.verified_from).collect()
    };
    let (device, running) = (Some(VerifiedFrom::Device), Some(VerifiedFrom::RunningServer));
    assert_eq!(of("files/hashed"), [device, device]);
    assert_eq!(of("redis"), [device, running], "a server is restarted for it once");
    assert_eq!(of("memory"), [Some(VerifiedFrom::NotKept); 2]);
    assert_eq!(of("null"), [None, None], "there is nothing to compare");
    assert_eq!(result.candidate("redis").unwrap().verified_from, device, "the best of all rounds");
    Ok(())
}

fn in_memory() -> Outcome {
    let (work, _) = prepared();
    let place = tempfile::tempdir_in(MEMORY)?;
    let line =
        "run --files files --stores files/hashed,sqlite --phases fill --rounds 1 --quiet --out out --dir";
    work.run(line.split(' ').map(Path::new).chain([place.path()])).ended(0);
    let result = RunResult::load(&work.path("out"))?;
    for candidate in result.candidates.iter().filter(|candidate| !candidate.is_baseline()) {
        assert_eq!(candidate.verified_from, Some(VerifiedFrom::KernelCache), "{}", candidate.store);
    }
    let compared = result.warnings.iter().find_map(|warning| match warning {
        Warning::ComparedInCache { copies } => Some(copies),
        _ => None,
    });
    let [copy] = &compared.ok_or("no warning")?[..] else { return Err("of more than one sort".into()) };
    assert_eq!(copy.stores, ["files/hashed", "sqlite"]);
    assert_eq!(copy.from, VerifiedFrom::KernelCache);
    Ok(())
}
