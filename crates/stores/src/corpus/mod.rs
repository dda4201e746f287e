//! The blobs of a run: their number, sizes, contents and keys, and the requests of a log that asks for them.

mod contents;
mod id;
mod real;
mod sizes;

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed, xxh3_128_with_seed};

pub use contents::{Content, Contents};
pub use id::CorpusId;
use real::FileTree;
pub use real::{BLOBS_NEEDED, SkippedFiles, as_flag};
pub use sizes::{BLOB_BYTES_MAX, FORMS, PRESETS, Preset, Sizes};

use crate::store::{Key, Keys};
use crate::trace::{LogFile, Reading, Replay, Selection};

/// Source of the blobs.
#[derive(Clone, Debug, PartialEq)]
pub enum BlobSource {
    /// Sizes drawn from a distribution.
    Synthetic {
        /// Distribution as the user wrote it, for labels.
        name: String,
        /// Distribution of sizes.
        sizes: Sizes,
        /// Content.
        content: Content,
    },
    /// Files of a user's directory.
    Files(PathBuf),
    /// Objects of a user's log.
    Trace {
        /// The log.
        log: LogFile,
        /// Share of its objects; `None` for as many as the limits of the corpus allow.
        share: Option<f64>,
        /// Content of the objects that have no file.
        content: Content,
        /// Directory whose files have the contents of the objects of the same paths.
        files: Option<PathBuf>,
    },
}

/// Specification of a corpus.
#[derive(Clone, Debug, PartialEq)]
pub struct CorpusSpecification {
    /// Source.
    pub source: BlobSource,
    /// Maximum number of blobs.
    pub blobs_max: Option<u64>,
    /// Maximum total size in bytes.
    pub bytes_max: Option<u64>,
    /// Size in bytes up to which a sample of a user's directory may exceed `bytes_max` to have [`BLOBS_NEEDED`] blobs; a multiple
    /// of [`STEP_BYTES`].
    pub grows_to: Option<u64>,
    /// Seed; the same seed gives the same corpus.
    pub seed: u64,
}

/// Maximum number of blobs in a synthetic corpus: keys and sizes are held in memory, about 60 B each.
pub const BLOBS_MAX: u64 = 50_000_000;

/// Default sizes of corpora are multiples of this, in bytes.
pub const STEP_BYTES: u64 = 8_000_000;

/// The blobs of a run.
#[derive(Debug)]
pub struct Corpus {
    /// Source of the corpus, for labels.
    pub name: String,
    /// Size of each blob in bytes, by id; at most [`BLOB_BYTES_MAX`].
    pub sizes: Vec<u32>,
    /// The key of each blob, by id.
    pub keys: Keys,
    /// Relative paths of real files, by id.
    pub names: Option<Vec<String>>,
    /// What was skipped in a user's directory.
    pub skipped: SkippedFiles,
    /// Number and bytes of all files in a user's directory, if only a sample was taken.
    pub sampled_from: Option<(u64, u64)>,
    /// Maximum size in bytes of a sample that was given more than [`CorpusSpecification::bytes_max`].
    pub grown_to: Option<u64>,
    /// Part of a preset's distribution that was not generated, or the files of a directory for which a sample has no room.
    pub cut: Option<String>,
    /// Digest of paths, sizes and bytes, which identifies a user's files.
    pub digest: Option<String>,
    /// The bytes.
    pub contents: Arc<Contents>,
    /// The requests of the log whose objects these are.
    pub log: Option<Arc<Replay>>,
    seed: u64,
}

impl Corpus {
    /// Builds a corpus of `blobs` random blobs, for work that no user describes; `name` is for labels.
    ///
    /// # Errors
    /// As [`Corpus::build`].
    pub fn random(name: &str, sizes: Sizes, blobs: u64, seed: u64) -> Result<Corpus> {
        let source = BlobSource::Synthetic { name: name.to_owned(), sizes, content: Content::Random };
        let blobs_max = Some(blobs);
        Corpus::build(&CorpusSpecification { source, blobs_max, bytes_max: None, grows_to: None, seed })
    }

    /// Returns the first `blobs` blobs of this corpus, with the same keys and bytes. They have the same distribution, because ids
    /// are in random order.
    pub fn part(&self, blobs: u64) -> Corpus {
        let is_sample = self.names.is_some() && blobs < self.blobs();
        let blobs = blobs.clamp(1, self.blobs()) as usize;
        Corpus {
            name: self.name.clone(),
            sizes: self.sizes[..blobs].to_vec(),
            keys: self.keys.digests()[..blobs].iter().copied().collect(),
            names: self.names.as_ref().map(|names| names[..blobs].to_vec()),
            skipped: self.skipped.clone(),
            sampled_from: self.sampled_from.or_else(|| is_sample.then(|| (self.blobs(), self.bytes()))),
            grown_to: self.grown_to,
            cut: self.cut.clone(),
            digest: self.digest.clone(),
            contents: Arc::clone(&self.contents),
            log: self.log.as_ref().map(|log| match blobs == self.sizes.len() {
                true => Arc::clone(log),
                false => Arc::new(log.part(blobs)),
            }),
            seed: self.seed,
        }
    }

    /// Says which files are not in it or which requests of a log are not replayed; `None` if nothing is left out.
    pub fn omitted(&self) -> Option<String> {
        self.log.as_ref().map_or_else(|| self.skipped.description(), |log| Some(log.summary()))
    }

    /// Generates or reads the corpus.
    pub fn build(request: &CorpusSpecification) -> Result<Corpus> {
        Corpus::build_telling(request, &mut |_reading| {})
    }

    /// Like [`Corpus::build`]; calls `progress` now and then while a log is read.
    pub fn build_telling(request: &CorpusSpecification, progress: &mut dyn FnMut(Reading)) -> Result<Corpus> {
        match &request.source {
            BlobSource::Synthetic { name, sizes, content } => {
                Corpus::synthetic(request, name, sizes, *content)
            }
            BlobSource::Files(dir) => {
                let real =
                    real::read(dir, request.blobs_max, request.bytes_max, request.grows_to, request.seed)
                        .context("--files")?;
                // Keys use the raw bytes of paths, because invalid UTF-8 may look alike as text.
                let paths = real.paths.iter().map(|path| path.as_os_str().as_bytes());
                let keys: Keys = paths.map(|path| xxh3_128_with_seed(path, request.seed)).collect();
                let names = real.paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
                let sampled = real.found.0 > real.sizes.len() as u64;
                let cut: Vec<String> =
                    real.beyond.iter().map(|beyond| beyond.description(real.found)).collect();
                Ok(Corpus {
                    name: real::visible(dir),
                    digest: Some(digest(&keys, &real.sizes, &real.contents)),
                    sizes: narrow(&real.sizes),
                    keys,
                    names: Some(names),
                    skipped: real.skipped,
                    sampled_from: sampled.then_some(real.found),
                    grown_to: real.grown_to,
                    cut: (!cut.is_empty()).then(|| cut.join("; ")),
                    contents: Arc::new(real.contents),
                    log: None,
                    seed: request.seed,
                })
            }
            BlobSource::Trace { log, share, content, files } => {
                let selection = Selection {
                    share: *share,
                    objects_max: request.blobs_max,
                    bytes_max: request.bytes_max,
                    object_bytes_max: BLOB_BYTES_MAX,
                    salt: xxh3_64_with_seed(b"objects of a log", request.seed),
                };
                Corpus::of_log(log, &selection, (*content, files.as_deref()), request.seed, progress)
            }
        }
    }

    /// Reads the objects of a log. Those whose path is that of a file below a directory have its content, the others a synthetic one.
    fn of_log(
        file: &LogFile,
        selection: &Selection,
        (content, dir): (Content, Option<&Path>),
        seed: u64,
        progress: &mut dyn FnMut(Reading),
    ) -> Result<Corpus> {
        let tree = dir.map(FileTree::walk).transpose().context("--files")?;
        let index = tree.as_ref().map(|tree| Arc::new(tree.index()));
        let mut log = Replay::read(file, selection, index, progress).context("--trace")?;
        let sizes = log.sizes().to_vec();
        let mut digest = log.digest();
        let contents = match &tree {
            None => Contents::synthetic(seed, &sizes, content),
            Some(tree) => {
                let contents = tree.contents(&mut log, content, seed).context("--files")?;
                let mut with_contents = Xxh3::new();
                with_contents.update(digest.as_bytes());
                with_contents.update(contents.pool());
                digest = format!("{:032x}", with_contents.digest128());
                contents
            }
        };
        Ok(Corpus {
            digest: Some(digest),
            log: Some(Arc::new(log)),
            ..Corpus::of_sizes(&real::visible(&file.path), &sizes, contents, seed)
        })
    }

    fn synthetic(
        request: &CorpusSpecification,
        name: &str,
        distribution: &Sizes,
        content: Content,
    ) -> Result<Corpus> {
        let sizes = draw(distribution, request.blobs_max, request.bytes_max, request.seed)?;
        if sizes.is_empty() {
            bail!("the corpus `{name}` has no blob that fits into --corpus-bytes");
        }
        let largest = sizes.iter().copied().max().unwrap_or(0);
        if largest > BLOB_BYTES_MAX {
            bail!(
                "`{name}` makes a blob of {largest} B among {}, above {BLOB_BYTES_MAX} B, the largest that blobwise handles: take a \
                 thinner tail, or fewer blobs",
                sizes.len()
            );
        }
        let contents = Contents::synthetic(request.seed, &sizes, content);
        Ok(Corpus { cut: distribution.cut(), ..Corpus::of_sizes(name, &sizes, contents, request.seed) })
    }

    fn of_sizes(name: &str, sizes: &[u64], contents: Contents, seed: u64) -> Corpus {
        // Keys are hashes of ids, so that none tells the name of an object of a log.
        let digest = |id: u64| xxh3_128_with_seed(&id.to_le_bytes(), seed);
        Corpus {
            name: name.to_owned(),
            keys: (0..sizes.len() as u64).map(digest).collect(),
            names: None,
            skipped: SkippedFiles::default(),
            sampled_from: None,
            grown_to: None,
            cut: None,
            digest: None,
            contents: Arc::new(contents),
            log: None,
            sizes: narrow(sizes),
            seed,
        }
    }

    /// Number of blobs.
    pub fn blobs(&self) -> u64 {
        self.sizes.len() as u64
    }

    /// Total size in bytes.
    pub fn bytes(&self) -> u64 {
        self.sizes.iter().map(|size| u64::from(*size)).sum()
    }

    /// Size of the largest blob in bytes.
    pub fn largest(&self) -> u64 {
        u64::from(self.sizes.iter().copied().max().unwrap_or(0))
    }

    /// Size in bytes of a blob after `generation` overwrites with new sizes: the size of another blob, so that the distribution
    /// does not change.
    pub fn resized(&self, id: u64, generation: u32) -> u64 {
        let other =
            xxh3_64_with_seed(&id.to_le_bytes(), self.seed ^ (u64::from(generation) << 32)) % self.blobs();
        u64::from(self.sizes[other as usize])
    }

    /// Returns a key that no blob has; its id is beyond those of the corpus.
    pub fn missing_key(&self, index: u64) -> Key {
        let id = self.blobs() + index;
        Key::of_digest(id, xxh3_128_with_seed(&id.to_le_bytes(), !self.seed))
    }

    /// Returns the quantile of blob sizes at `share`.
    pub fn quantile(&self, share: f64) -> u64 {
        let mut sizes = self.sizes.clone();
        sizes.sort_unstable();
        quantile_of(&sizes, share)
    }

    /// Returns the quantiles that reports show.
    pub fn quantiles(&self) -> BTreeMap<String, u64> {
        let mut sizes = self.sizes.clone();
        sizes.sort_unstable();
        [10, 20, 25, 50, 75, 90, 95, 99]
            .iter()
            .map(|percent| (format!("p{percent}"), quantile_of(&sizes, f64::from(*percent) / 100.0)))
            .collect()
    }

    /// Compression ratio of deflate (level 6, like gzip) on pieces of at most 1 MiB, from a sample of about 64 MB; `None` for a
    /// corpus without bytes.
    pub fn deflate_ratio(&self) -> Option<f64> {
        const SAMPLE_BYTES: u64 = 64_000_000;
        const PIECE: usize = 1 << 20;
        // Larger corpora are sampled: every n-th piece, across all blobs.
        let every = self.bytes().div_ceil(SAMPLE_BYTES).max(1) as usize;
        let (mut before, mut after, mut piece) = (0, 0, 0);
        let mut room = Vec::new();
        for (id, size) in self.sizes.iter().enumerate() {
            let pieces = (*size as usize).div_ceil(PIECE);
            if (piece..piece + pieces).any(|piece| piece % every == 0) {
                let blob = self.contents.blob(id as u64, 0, u64::from(*size), &mut room);
                let chosen = blob.chunks(PIECE).enumerate().filter(|(own, _)| (piece + own) % every == 0);
                for (_, bytes) in chosen {
                    before += bytes.len();
                    after += contents::deflated(bytes);
                }
            }
            piece += pieces;
        }
        (before > 0).then(|| before as f64 / after as f64)
    }
}

/// Returns the quantile of sorted sizes by nearest rank.
fn quantile_of(sorted: &[u32], share: f64) -> u64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    u64::from(sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0))
}

/// Sizes in bytes in half the memory; none is above [`BLOB_BYTES_MAX`].
fn narrow(sizes: &[u64]) -> Vec<u32> {
    sizes.iter().map(|size| *size as u32).collect()
}

/// Draws sizes by stratified sampling, in random order: evenly spaced shares, each jittered within its stratum, and as many as
/// fit, so that even a small corpus has the whole distribution.
fn draw(sizes: &Sizes, blobs_max: Option<u64>, bytes_max: Option<u64>, seed: u64) -> Result<Vec<u64>> {
    let bytes_max = bytes_max.unwrap_or(u64::MAX);
    let mut blobs = blobs_max.unwrap_or_else(|| {
        let mean =
            (0..1000).map(|step| sizes.at((f64::from(step) + 0.5) / 1000.0) as f64).sum::<f64>() / 1000.0;
        (bytes_max as f64 / mean.max(1.0)).ceil() as u64
    });
    ensure!(
        blobs <= BLOBS_MAX,
        "--corpus-bytes, --blobs and --scale: `{blobs}` blobs are more than {BLOBS_MAX}, the most that blobwise keeps track of"
    );
    loop {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut drawn: Vec<u64> = (0..blobs)
            .map(|stratum| {
                let jitter = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
                sizes.at((stratum as f64 + jitter) / blobs as f64)
            })
            .collect();
        // The sum may overflow with a heavy tail.
        let together = drawn.iter().fold(0_u64, |sum, size| sum.saturating_add(*size));
        if together <= bytes_max || blobs == 0 {
            drawn.shuffle(&mut random);
            return Ok(drawn);
        }
        blobs -= (blobs / 50).max(1);
    }
}

/// Digest of real files: their keys (hashes of paths), their sizes, and the bytes that were read.
fn digest(keys: &Keys, sizes: &[u64], contents: &Contents) -> String {
    let mut digest = Xxh3::new();
    for (key, size) in keys.iter().zip(sizes) {
        digest.update(&key.hex);
        digest.update(&size.to_le_bytes());
    }
    digest.update(contents.pool());
    format!("{:032x}", digest.digest128())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::ffi::OsStr;

    use super::*;

    fn request(name: &str, blobs: Option<u64>, bytes: Option<u64>) -> CorpusSpecification {
        let sizes = Sizes::parse(name).unwrap();
        let source = BlobSource::Synthetic { name: name.into(), sizes, content: Content::Random };
        CorpusSpecification { blobs_max: blobs, bytes_max: bytes, ..whole(source) }
    }

    fn whole(source: BlobSource) -> CorpusSpecification {
        CorpusSpecification { source, blobs_max: None, bytes_max: None, grows_to: None, seed: 1 }
    }

    #[test]
    fn a_corpus_of_more_blobs_than_fit_into_memory_is_refused() {
        let error = Corpus::build(&request("fixed:1kB", None, Some(u64::MAX))).unwrap_err().to_string();
        assert!(error.contains("blobs are more than 50000000"), "{error}");
    }

    #[test]
    fn a_small_corpus_has_the_quantiles_of_its_distribution() {
        let corpus = Corpus::build(&request("web-images", Some(400), Some(32_000_000))).unwrap();
        assert!(corpus.bytes() <= 32_000_000, "{}", corpus.bytes());
        assert!(corpus.blobs() >= 350, "{}", corpus.blobs());
        let quantiles = corpus.quantiles();
        for (name, size) in [("p25", 1_000.0), ("p50", 8_000.0), ("p75", 48_000.0), ("p90", 183_000.0)] {
            let ratio = quantiles[name] as f64 / size;
            assert!((0.9..1.1).contains(&ratio), "{name} {ratio}");
        }
    }

    #[test]
    fn a_tail_is_made_and_what_is_too_large_of_it_is_an_error() {
        let corpus = Corpus::build(&request("quantiles:0.5=80,0.99=2580,0.999=20400", Some(4000), None));
        assert!(corpus.unwrap().largest() > 20_400);
        let error = Corpus::build(&request("pareto:1MB,0.6", Some(4000), None)).unwrap_err().to_string();
        assert!(error.contains("`pareto:1MB,0.6` makes a blob of"), "{error}");
    }

    #[test]
    fn whichever_is_reached_first_ends_the_corpus() {
        let by_bytes = Corpus::build(&request("fixed:1000", None, Some(10_500))).unwrap();
        assert_eq!(by_bytes.blobs(), 10);
        let by_blobs = Corpus::build(&request("fixed:1000", Some(3), Some(10_500))).unwrap();
        assert_eq!(by_blobs.blobs(), 3);
        assert!(Corpus::build(&request("fixed:1000", None, Some(999))).is_err());
    }

    #[test]
    fn keys_are_distinct_and_lower_case_hexadecimal() {
        let corpus = Corpus::build(&request("fixed:10", Some(1000), None)).unwrap();
        let distinct: HashSet<_> = corpus.keys.iter().map(|key| key.hex).collect();
        assert_eq!(distinct.len(), 1000);
        assert!(corpus.keys.at(0).as_str().chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c)));
        assert!(!distinct.contains(&corpus.missing_key(0).hex));
    }

    #[test]
    fn objects_of_a_log_have_the_contents_of_the_files_with_their_paths() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let (files, path) = (dir.path().join("files"), dir.path().join("log"));
        std::fs::create_dir(&files).unwrap();
        std::fs::write(files.join("a b"), "planted").unwrap();
        std::fs::write(files.join("c"), "put").unwrap();
        std::fs::write(dir.path().join("outside"), "not in it").unwrap();
        std::os::unix::fs::symlink("c", files.join("link")).unwrap();
        let log =
            "time,op,key,bytes\n1,get,/a%20b?q=1,500\n2,get,/link,50\n3,get,/../outside,40\n4,put,/c,9\n";
        std::fs::write(&path, log).unwrap();
        let build = || {
            let (log, files) = (LogFile::at(path.clone()), Some(files.clone()));
            let content = Content::Random;
            Corpus::build(&whole(BlobSource::Trace { log, share: Some(1.0), content, files }))
        };
        let corpus = build().unwrap();
        let blob = |size: u32, generation: u32| {
            let id = corpus.sizes.iter().position(|other| *other == size).unwrap() as u64;
            corpus.contents.blob(id, generation, u64::from(size), &mut Vec::new()).to_vec()
        };
        assert_eq!((blob(7, 0), blob(3, 0)), (b"planted".to_vec(), b"put".to_vec()));
        assert_eq!((blob(50, 0).len(), blob(40, 0).len()), (50, 40));
        assert_ne!(blob(7, 1), blob(7, 0));
        let told = corpus.omitted().unwrap();
        assert!(
            told.contains("; 2 of them, with 10 % of the bytes, have the contents of their files, the others synthetic ones"),
            "{told}"
        );
        assert!(corpus.names.is_none() && corpus.skipped == SkippedFiles::default());
        // The same again, unless a file has changed.
        assert_eq!(build().unwrap().digest, corpus.digest);
        std::fs::write(files.join("c"), "get").unwrap();
        assert_ne!(build().unwrap().digest, corpus.digest);
        ["a b", "c"].iter().for_each(|name| std::fs::remove_file(files.join(name)).unwrap());
        std::fs::write(files.join("other"), "planted").unwrap();
        let error = format!("{:#}", build().unwrap_err());
        assert!(error.starts_with("--files: `") && error.contains("none of the 4 objects"), "{error}");
        assert!(error.contains("none of its 1 file ") && !error.contains("other"), "{error}");
    }

    #[test]
    fn files_whose_names_look_alike_have_keys_of_their_own() {
        let dir = tempfile::Builder::new().prefix("a\nb").tempdir_in(".").unwrap();
        for name in [&b"\xe4.jpg"[..], b"\xf6.jpg", b"plain.jpg"] {
            std::fs::write(dir.path().join(OsStr::from_bytes(name)), name).unwrap();
        }
        let corpus = Corpus::build(&whole(BlobSource::Files(dir.path().to_owned()))).unwrap();
        let distinct: HashSet<_> = corpus.keys.iter().map(|key| key.hex).collect();
        assert_eq!(distinct.len(), 3);
        assert!(corpus.name.contains("a\\nb") && !corpus.name.contains('\n'), "{}", corpus.name);
        // For a UTF-8 name, the raw bytes equal the text.
        let plain = corpus.names.iter().flatten().position(|name| name == "plain.jpg").unwrap();
        assert_eq!(corpus.keys.digests()[plain], xxh3_128_with_seed(b"plain.jpg", 1));
    }
}
