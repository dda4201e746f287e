//! A user's directory as a corpus: names, sizes and bytes as they are, sampled when there is too much of it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::contents::{Contents, POOL_BYTES_MAX};
use super::sizes::BLOB_BYTES_MAX;

/// A file that was found.
#[derive(Clone, Debug)]
struct Found {
    /// Relative to the directory.
    path: PathBuf,
    bytes: u64,
}

/// What was not taken, and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Skipped {
    /// Symbolic links, not followed.
    pub links: u64,
    /// Files and directories that could not be read.
    pub unreadable: u64,
    /// Sockets, pipes and devices.
    pub special: u64,
    /// Files above the largest blob that blobwise handles.
    pub too_large: u64,
    /// Directories of blobwise's own, with all that is in them.
    pub ours: u64,
    /// The first few of them.
    pub examples: Vec<String>,
}

impl Skipped {
    fn note(&mut self, path: &Path, why: &str) {
        if self.examples.len() < 5 {
            self.examples.push(format!("{} ({why})", path.display()));
        }
    }

    /// `3 links, 1 unreadable`, or nothing.
    pub fn summary(&self) -> Option<String> {
        let parts: Vec<String> = [
            (self.links, "symbolic links"),
            (self.unreadable, "unreadable"),
            (self.special, "special files"),
            (self.too_large, "too large"),
            (self.ours, "directories of blobwise itself"),
        ]
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
        (!parts.is_empty()).then(|| format!("{} (such as {})", parts.join(", "), self.examples.join(", ")))
    }
}

/// A directory's files, or a sample of them.
pub(super) struct Real {
    /// Relative to the directory.
    pub paths: Vec<PathBuf>,
    pub sizes: Vec<u64>,
    pub contents: Contents,
    pub skipped: Skipped,
    /// Files and bytes in the directory, before sampling.
    pub found: (u64, u64),
}

/// Reads a directory as a corpus of at most `blobs_max` blobs and `bytes_max` bytes.
pub(super) fn read(dir: &Path, blobs_max: Option<u64>, bytes_max: Option<u64>, seed: u64) -> Result<Real> {
    let mut skipped = Skipped::default();
    let found = walk(dir, &mut skipped)?;
    if found.is_empty() {
        let why = skipped.summary().map(|skipped| format!(": {skipped}")).unwrap_or_default();
        bail!("`{}` has no files to measure{why}", dir.display());
    }
    let all = (found.len() as u64, found.iter().map(|file| file.bytes).sum());
    let mut sample = sample(found, blobs_max, bytes_max, seed);
    if sample.is_empty() {
        bail!("no file in `{}` is small enough for --corpus-bytes", dir.display());
    }
    // Ids in random order: the first n blobs of a corpus are a fair sample of it.
    sample.shuffle(&mut SmallRng::seed_from_u64(seed));
    let contents = load(dir, &mut sample, seed, &mut skipped)?;
    if sample.is_empty() {
        bail!("no file in `{}` could be read", dir.display());
    }
    Ok(Real {
        sizes: sample.iter().map(|file| file.bytes).collect(),
        paths: sample.into_iter().map(|file| file.path).collect(),
        contents,
        skipped,
        found: all,
    })
}

/// Every regular file below a directory, by path.
fn walk(dir: &Path, skipped: &mut Skipped) -> Result<Vec<Found>> {
    // The first entry is the directory itself: a missing or unreadable one is an error, not an empty corpus.
    std::fs::read_dir(dir).with_context(|| format!("cannot read the directory `{}`", dir.display()))?;
    let mut found = Vec::new();
    let mut entries = walkdir::WalkDir::new(dir).sort_by_file_name().into_iter();
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                skipped.unreadable += 1;
                skipped.note(error.path().unwrap_or(dir), "unreadable");
                continue;
            }
        };
        let kind = entry.file_type();
        if kind.is_dir() {
            // One that was asked for by name is measured, whatever it holds.
            if entry.depth() > 0 && is_ours(entry.path()) {
                skipped.ours += 1;
                skipped.note(entry.path(), "of blobwise");
                entries.skip_current_dir();
            }
            continue;
        }
        if kind.is_symlink() {
            skipped.links += 1;
            skipped.note(entry.path(), "link");
            continue;
        }
        if !kind.is_file() {
            skipped.special += 1;
            skipped.note(entry.path(), "special");
            continue;
        }
        match entry.metadata() {
            Ok(metadata) if metadata.len() > BLOB_BYTES_MAX => {
                skipped.too_large += 1;
                skipped.note(entry.path(), "too large");
            }
            Ok(metadata) => {
                let path = entry.path().strip_prefix(dir).unwrap_or(entry.path()).to_owned();
                found.push(Found { path, bytes: metadata.len() });
            }
            Err(_) => {
                skipped.unreadable += 1;
                skipped.note(entry.path(), "unreadable");
            }
        }
    }
    Ok(found)
}

/// Whether a directory is one of blobwise's own: results of runs, or the place where one works or was killed. They come and go
/// with every run, and one that is gone on with must find the blobs that it began with.
fn is_ours(dir: &Path) -> bool {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let has = |file: &str| dir.join(file).is_file();
    name == "blobwise-runs"
        || (name.starts_with("blobwise-") && has("BLOBWISE"))
        || (has("plan.toml") && has("result.json"))
}

/// Takes evenly spaced files from the list ordered by size, from a random start: every stratum of sizes keeps its
/// share. The spacing is widened until the sample fits.
fn sample(mut found: Vec<Found>, blobs_max: Option<u64>, bytes_max: Option<u64>, seed: u64) -> Vec<Found> {
    let total: u64 = found.iter().map(|file| file.bytes).sum();
    let mut share: f64 = 1.0;
    if let Some(blobs_max) = blobs_max {
        share = share.min(blobs_max as f64 / found.len() as f64);
    }
    if let Some(bytes_max) = bytes_max {
        share = share.min(bytes_max as f64 / total.max(1) as f64);
    }
    if share >= 1.0 {
        return found;
    }
    found.sort_by(|a, b| a.bytes.cmp(&b.bytes).then_with(|| a.path.cmp(&b.path)));
    let phase = SmallRng::seed_from_u64(seed).next_u64() as f64 / u64::MAX as f64;
    loop {
        let taken: Vec<Found> = (0..)
            .map(|step| ((f64::from(step) + phase) / share) as usize)
            .take_while(|index| *index < found.len())
            .map(|index| found[index].clone())
            .collect();
        let fits = taken.len() as u64 <= blobs_max.unwrap_or(u64::MAX)
            && taken.iter().map(|file| file.bytes).sum::<u64>() <= bytes_max.unwrap_or(u64::MAX);
        if fits || taken.is_empty() {
            let mut taken = taken;
            taken.sort_by(|a, b| a.path.cmp(&b.path));
            return taken;
        }
        share *= 0.97;
    }
}

/// Reads the sample into a pool. Files that cannot be read are dropped from it, and a file that changed its size
/// since it was found has the size that was read.
fn load(dir: &Path, sample: &mut Vec<Found>, seed: u64, skipped: &mut Skipped) -> Result<Contents> {
    let total: u64 = sample.iter().map(|file| file.bytes).sum();
    if total > POOL_BYTES_MAX {
        return load_strata(dir, sample, total, seed, skipped);
    }
    let mut pool = Vec::with_capacity(total as usize);
    sample.retain_mut(|file| match append(&dir.join(&file.path), &mut pool) {
        Ok(bytes) => {
            file.bytes = bytes;
            true
        }
        Err(error) => {
            skipped.unreadable += 1;
            skipped.note(&file.path, &error.to_string());
            false
        }
    });
    let sizes: Vec<u64> = sample.iter().map(|file| file.bytes).collect();
    Ok(Contents::real(seed, pool, &sizes))
}

/// Reads as much of each stratum of sizes as its share of the pool allows, and at least one whole file; blobs are
/// slices of their stratum.
fn load_strata(
    dir: &Path,
    sample: &mut [Found],
    total: u64,
    seed: u64,
    skipped: &mut Skipped,
) -> Result<Contents> {
    let mut order: Vec<usize> = (0..sample.len()).collect();
    order.sort_by_key(|index| sample[*index].bytes);
    let mut pool = Vec::new();
    let mut regions = vec![(0, 0); sample.len()];
    for stratum in order.chunk_by(|a, b| stratum_of(sample[*a].bytes) == stratum_of(sample[*b].bytes)) {
        let stratum_bytes: u64 = stratum.iter().map(|index| sample[*index].bytes).sum();
        let largest = stratum.iter().map(|index| sample[*index].bytes).max().unwrap_or(0);
        let room = (POOL_BYTES_MAX as f64 * stratum_bytes as f64 / total as f64) as u64;
        let begin = pool.len();
        for index in stratum {
            let taken = (pool.len() - begin) as u64;
            if taken >= largest && taken >= room {
                break;
            }
            if let Err(error) = append(&dir.join(&sample[*index].path), &mut pool) {
                skipped.unreadable += 1;
                skipped.note(&sample[*index].path, &error.to_string());
            }
        }
        for index in stratum {
            regions[*index] = (begin, pool.len());
        }
    }
    if pool.is_empty() {
        bail!("no file in `{}` could be read", dir.display());
    }
    Ok(Contents::sampled(seed, pool, regions))
}

/// Strata of sizes: powers of four.
fn stratum_of(bytes: u64) -> u32 {
    (bytes + 1).ilog2() / 2
}

fn append(path: &Path, pool: &mut Vec<u8>) -> std::io::Result<u64> {
    let before = pool.len();
    match File::open(path).and_then(|file| file.take(BLOB_BYTES_MAX).read_to_end(pool)) {
        Ok(bytes) => Ok(bytes as u64),
        Err(error) => {
            pool.truncate(before);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_left_is_no_blob_unless_it_is_asked_for() {
        let dir = tempfile::tempdir_in(".").unwrap();
        for file in [
            "a/1",
            "b/plan.toml",
            "blobwise-0123abcd/BLOBWISE",
            "blobwise-0123abcd/r1-sqlite/2",
            "blobwise-runs/20260131-120000/report.html",
            "blobwise-theirs/3",
            "out/plan.toml",
            "out/result.json",
        ] {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, file).unwrap();
        }
        let mut skipped = Skipped::default();
        let found = walk(dir.path(), &mut skipped).unwrap();
        let names: Vec<String> = found.iter().map(|file| file.path.to_string_lossy().into_owned()).collect();
        assert_eq!(names, ["a/1", "b/plan.toml", "blobwise-theirs/3"]);
        assert_eq!(skipped.ours, 3);
        assert!(skipped.summary().unwrap().starts_with("3 directories of blobwise itself (such as "));
        assert_eq!(walk(&dir.path().join("out"), &mut skipped).unwrap().len(), 2);
    }

    #[test]
    fn a_sample_keeps_the_shares_of_sizes() {
        let found: Vec<Found> = (0..10_000)
            .map(|index| Found {
                path: format!("{index}").into(),
                bytes: if index % 10 == 0 { 10_000 } else { 100 },
            })
            .collect();
        let taken = sample(found, None, Some(1_000_000), 7);
        let large = taken.iter().filter(|file| file.bytes == 10_000).count() as f64 / taken.len() as f64;
        assert!((0.09..0.11).contains(&large), "{large}");
        let bytes: u64 = taken.iter().map(|file| file.bytes).sum();
        assert!((900_000..=1_000_000).contains(&bytes), "{bytes}");
    }
}
