//! A user's directory as a corpus: names, sizes and bytes as they are, sampled if there are too many.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::STEP_BYTES;
use super::contents::{Content, Contents, POOL_BYTES_MAX};
use super::sizes::BLOB_BYTES_MAX;
use crate::trace::{PathIndex, Replay};
use crate::units;

#[derive(Clone, Debug)]
struct CorpusFile {
    /// Path relative to the directory.
    path: PathBuf,
    bytes: u64,
    /// Bytes that are not allocated on disk, if the file counts as sparse.
    holes: u64,
}

/// Minimum number of blobs for an answer, if the directory has as many.
pub const BLOBS_NEEDED: usize = 200;
/// Files that are larger than any in the sample are named if they have at least this share of the directory's bytes.
const LEFT_OUT_BYTES_SHARE: f64 = 0.25;

/// Files of a directory that are not in the corpus, or not as they are on disk, with reasons.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SkippedFiles {
    /// Symbolic links, not followed.
    pub links: u64,
    /// Additional hard links to a file.
    pub hard_links: u64,
    /// Further mounts of the same directory.
    pub mounts: u64,
    /// Files and directories that could not be read.
    pub unreadable: u64,
    /// Sockets, pipes and devices.
    pub special: u64,
    /// Files larger than the largest blob that blobwise handles.
    pub too_large: u64,
    /// Directories that blobwise itself created, with all their contents.
    pub ours: u64,
    /// Directories on kernel file systems such as proc.
    pub kernel: u64,
    /// Files that grew while being read; their blobs have the size found first.
    pub grew: u64,
    /// Sparse files in the sample, and the bytes of their holes.
    pub sparse: (u64, u64),
    /// Descriptions of the first few skipped files.
    pub examples: Vec<String>,
}

/// The largest files of a directory, if they do not fit into a sample that is large enough to rank stores, or into a blob.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OversizedFiles {
    /// Number of files.
    pub files: u64,
    /// Total size of these files in bytes.
    pub bytes: u64,
    /// Size of the smallest of them in bytes.
    pub smallest: u64,
    /// Value of `--corpus-bytes` that includes them in the sample; `None` if they are larger than any blob.
    pub bytes_needed: Option<u64>,
}

impl SkippedFiles {
    /// Counts a path that is not in the corpus, and describes the first few.
    fn skip(&mut self, count: impl FnOnce(&mut SkippedFiles) -> &mut u64, path: &Path, why: &str) {
        *count(self) += 1;
        if self.examples.len() < 5 {
            // Control characters in a name could break the line.
            self.examples.push(format!("{} ({why})", visible(path)));
        }
    }

    /// Describes what was skipped, such as `3 symbolic links, 1 unreadable`; `None` if nothing was.
    pub fn summary(&self) -> Option<String> {
        let parts: Vec<String> = [
            (self.links, "symbolic link", "symbolic links"),
            (self.hard_links, "further name of the same file", "further names of the same file"),
            (self.mounts, "directory mounted twice", "directories mounted twice"),
            (self.unreadable, "unreadable", "unreadable"),
            (self.special, "special file", "special files"),
            (self.too_large, "too large", "too large"),
            (self.ours, "directory of blobwise itself", "directories of blobwise itself"),
            (self.kernel, "directory of the kernel's", "directories of the kernel's"),
        ]
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, several)| format!("{count} {}", if *count == 1 { one } else { several }))
        .collect();
        (!parts.is_empty()).then(|| format!("{} (such as {})", parts.join(", "), self.examples.join(", ")))
    }

    /// Describes everything in one line; `None` if there is nothing to say.
    pub fn description(&self) -> Option<String> {
        let parts: Vec<String> = [self.summary(), self.differences()].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Describes how blobs differ from their files, such as `2 files grew while being read`; `None` if they do not.
    pub fn differences(&self) -> Option<String> {
        let grew =
            (self.grew > 0).then(|| format!("{} grew while being read", units::counted(self.grew, "file")));
        let (files, holes) = self.sparse;
        let sparse = (files > 0).then(|| {
            let (files, holes) = (units::counted(files, "sparse file"), units::bytes(holes as f64));
            format!("{files} with {holes} of holes, which stores keep as zeros")
        });
        let parts: Vec<String> = [grew, sparse].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

impl OversizedFiles {
    /// Sums up these files; `None` if there are none.
    fn from_files(files: &[CorpusFile], bytes_needed: Option<u64>) -> Option<OversizedFiles> {
        let smallest = files.iter().map(|file| file.bytes).min()?;
        let bytes = files.iter().map(|file| file.bytes).sum();
        Some(OversizedFiles { files: files.len() as u64, bytes, smallest, bytes_needed })
    }

    /// Describes the files with their share of `all` files and bytes: `20 files of 700 MB or more (4.8 % of your files, ...) are not
    /// in it`, and the flag that includes them.
    pub(super) fn description(&self, all: (u64, u64)) -> String {
        let percent = |part: u64, whole: u64| match part as f64 / whole.max(1) as f64 {
            // Avoids rounding up to 100 %.
            share if share > 0.995 => "more than 99 %".to_owned(),
            share => units::percent(share),
        };
        let (of_files, of_bytes) = (percent(self.files, all.0), percent(self.bytes, all.1));
        let way_out = match self.bytes_needed {
            Some(bytes) => format!("`--corpus-bytes {}` takes them", as_flag(bytes)),
            None => format!("a blob has at most {}", units::bytes(BLOB_BYTES_MAX as f64)),
        };
        format!(
            "{} of {} or more ({of_files} of your files, {of_bytes} of your bytes) {} not in it; {way_out}",
            units::counted(self.files, "file"),
            units::bytes(self.smallest as f64),
            if self.files == 1 { "is" } else { "are" },
        )
    }
}

/// Formats bytes as a flag value, rounded up to two digits: `15GB`.
pub fn as_flag(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| bytes >= *unit).unwrap_or((1, "B"));
    let whole = bytes.div_ceil(unit);
    let step = if whole >= 100 { 10 } else { 1 };
    format!("{}{name}", whole.div_ceil(step) * step)
}

/// A path whose control characters are escaped, so that a terminal can show it.
pub(super) fn visible(path: &Path) -> String {
    let shown = |sign: char| {
        let escaped = sign.is_control().then(|| sign.escape_default());
        let plain = (!sign.is_control()).then_some(sign);
        escaped.into_iter().flatten().chain(plain)
    };
    path.to_string_lossy().chars().flat_map(shown).collect()
}

/// The files of a directory, or a sample of them.
pub(super) struct RealFiles {
    /// Paths relative to the directory.
    pub paths: Vec<PathBuf>,
    pub sizes: Vec<u64>,
    pub contents: Contents,
    pub skipped: SkippedFiles,
    /// The largest files, if they do not fit into the sample or into a blob.
    pub beyond: Vec<OversizedFiles>,
    /// Number and bytes of all readable files in the directory, before sampling.
    pub found: (u64, u64),
    /// Maximum size in bytes of the sample, if it was raised.
    pub grown_to: Option<u64>,
}

/// Reads a directory as a corpus of at most `blobs_max` blobs and `bytes_max` bytes, or up to `grows_to` bytes where
/// [`BLOBS_NEEDED`] blobs need them.
pub(super) fn read(
    dir: &Path,
    blobs_max: Option<u64>,
    bytes_max: Option<u64>,
    grows_to: Option<u64>,
    seed: u64,
) -> Result<RealFiles> {
    let mut skipped = SkippedFiles::default();
    let found = walk(dir, &mut skipped)?;
    let all = (found.len() as u64, found.iter().map(|file| file.bytes).sum());
    let (found, too_large): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|file| file.bytes <= BLOB_BYTES_MAX);
    for file in &too_large {
        skipped.skip(|of| &mut of.too_large, &dir.join(&file.path), &units::bytes(file.bytes as f64));
    }
    if found.is_empty() {
        let why = skipped.summary().map(|skipped| format!(": {skipped}")).unwrap_or_default();
        bail!("`{}` has no files to measure{why}", dir.display());
    }
    let grown_to =
        grows_to.map(|most| bytes_needed(&found).min(most)).filter(|grown| Some(*grown) > bytes_max);
    let (mut sample, beyond) = sample(found, blobs_max, grown_to.or(bytes_max), seed);
    if sample.is_empty() {
        bail!("no file in `{}` is small enough for --corpus-bytes", dir.display());
    }
    // Ids in random order, so that the first n blobs are a fair sample of the corpus.
    sample.shuffle(&mut SmallRng::seed_from_u64(seed));
    let contents = load(dir, &mut sample, seed, &mut skipped);
    if sample.is_empty() {
        bail!("no file in `{}` could be read", dir.display());
    }
    let sparse = sample.iter().filter(|file| file.holes > 0);
    skipped.sparse = sparse.fold((0, 0), |(files, holes), file| (files + 1, holes + file.holes));
    Ok(RealFiles {
        sizes: sample.iter().map(|file| file.bytes).collect(),
        paths: sample.into_iter().map(|file| file.path).collect(),
        contents,
        skipped,
        beyond: beyond.into_iter().chain(OversizedFiles::from_files(&too_large, None)).collect(),
        found: all,
        grown_to,
    })
}

/// The files below a directory, of which the objects of a log may have the contents. What is skipped of them is not told, because their
/// names may be those in the log.
pub(super) struct FileTree<'a> {
    dir: &'a Path,
    files: Vec<CorpusFile>,
}

impl<'a> FileTree<'a> {
    /// Finds the files that a corpus of the directory would be taken from.
    pub fn walk(dir: &'a Path) -> Result<FileTree<'a>> {
        Ok(FileTree { dir, files: walk(dir, &mut SkippedFiles::default())? })
    }

    /// The files by their paths.
    pub fn index(&self) -> PathIndex {
        PathIndex::new(self.files.iter().map(|file| (file.path.clone(), file.bytes)))
    }

    /// Returns the contents of a log's objects: those of their files, and synthetic ones for objects without a file. An object whose
    /// file cannot be read whole has none. Fails if none of them has one.
    pub fn contents(&self, log: &mut Replay, content: Content, seed: u64) -> Result<Contents> {
        let (sizes, mut files) = (log.sizes(), log.files().to_vec());
        let total: u64 = sizes.iter().sum();
        let contents = match total > POOL_BYTES_MAX {
            true => self.by_strata(sizes, &mut files, content, seed),
            false => self.whole(sizes, &mut files, content, seed),
        };
        if files.iter().all(Option::is_none) {
            bail!(
                "`{}` has the file of none of the {} objects that are replayed: none of its {} has the path of one, without host, bucket \
                 and query, below this directory",
                self.dir.display(),
                sizes.len(),
                units::counted(self.files.len() as u64, "file")
            );
        }
        log.set_files(files);
        Ok(contents)
    }

    fn whole(&self, sizes: &[u64], files: &mut [Option<u32>], content: Content, seed: u64) -> Contents {
        let (mut skipped, mut room) = (SkippedFiles::default(), Vec::new());
        Contents::replaced(seed, sizes, content, |id, blob| {
            let Some(place) = files.get(id).copied().flatten() else { return };
            let mut file = self.files[place as usize].clone();
            room.clear();
            if append(self.dir, &mut file, &mut room, &mut skipped) && room.len() == blob.len() {
                blob.copy_from_slice(&room);
            } else {
                files[id] = None;
            }
        })
    }

    fn by_strata(&self, sizes: &[u64], files: &mut [Option<u32>], content: Content, seed: u64) -> Contents {
        let total: u64 = sizes.iter().sum();
        let of_place = |place: &u32| self.files[*place as usize].clone();
        let mut sample: Vec<CorpusFile> = files.iter().flatten().map(of_place).collect();
        let (pool, strata) = load_strata(self.dir, &mut sample, total, &mut SkippedFiles::default());
        // What could be read is in the order of the objects.
        let mut read = sample.into_iter().zip(strata).peekable();
        let mut regions = vec![None; sizes.len()];
        for ((file, region), size) in files.iter_mut().zip(&mut regions).zip(sizes) {
            let Some(place) = *file else { continue };
            let path = &self.files[place as usize].path;
            let own = read.next_if(|(next, _)| next.path == *path).filter(|(own, _)| own.bytes == *size);
            *region = own.map(|(_, stratum)| stratum);
            *file = region.and(*file);
        }
        let synthetic = || sizes.iter().zip(&regions).filter(|(_, of)| of.is_none()).map(|(size, _)| *size);
        let share = synthetic().sum::<u64>() as f64 / total as f64;
        let room = ((POOL_BYTES_MAX as f64 * share) as u64).max(synthetic().max().unwrap_or(0));
        Contents::mixed(seed, pool, &regions, room, content)
    }
}

/// Lists every regular file below a directory that can be read, by path.
fn walk(dir: &Path, skipped: &mut SkippedFiles) -> Result<Vec<CorpusFile>> {
    // The first entry is the directory itself: a missing or unreadable one is an error, not an empty corpus.
    std::fs::read_dir(dir).with_context(|| format!("cannot read the directory `{}`", dir.display()))?;
    let mut found = Vec::new();
    let mut known = HashSet::new();
    let mut entries = walkdir::WalkDir::new(dir).sort_by_file_name().into_iter();
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                skipped.skip(|of| &mut of.unreadable, error.path().unwrap_or(dir), "unreadable");
                continue;
            }
        };
        let kind = entry.file_type();
        if kind.is_dir() {
            // A directory has only one name, unless it is mounted a second time.
            let is_known =
                entry.metadata().is_ok_and(|metadata| !known.insert((metadata.dev(), metadata.ino())));
            // A directory named by the user is measured regardless of its contents.
            if is_known {
                skipped.skip(|of| &mut of.mounts, entry.path(), "mounted twice");
                entries.skip_current_dir();
            } else if entry.depth() > 0 && is_ours(entry.path()) {
                skipped.skip(|of| &mut of.ours, entry.path(), "of blobwise");
                entries.skip_current_dir();
            } else if is_of_the_kernel(entry.path()) {
                skipped.skip(|of| &mut of.kernel, entry.path(), "the kernel's");
                entries.skip_current_dir();
            }
            continue;
        }
        if kind.is_symlink() {
            skipped.skip(|of| &mut of.links, entry.path(), "link");
            continue;
        }
        if !kind.is_file() {
            skipped.skip(|of| &mut of.special, entry.path(), "special");
            continue;
        }
        // Asked before the sample is drawn, so that unreadable files do not take the place of others in it.
        let is_readable = rustix::fs::access(entry.path(), rustix::fs::Access::READ_OK).is_ok();
        match entry.metadata() {
            Ok(metadata) if is_readable => {
                if metadata.nlink() > 1 && !known.insert((metadata.dev(), metadata.ino())) {
                    skipped.skip(|of| &mut of.hard_links, entry.path(), "hard link");
                    continue;
                }
                let path = entry.path().strip_prefix(dir).unwrap_or(entry.path()).to_owned();
                found.push(CorpusFile { path, bytes: metadata.len(), holes: holes(&metadata) });
            }
            _ => {
                skipped.skip(|of| &mut of.unreadable, entry.path(), "unreadable");
            }
        }
    }
    Ok(found)
}

/// True for directories that blobwise created: results of runs, and work directories, also of killed runs. They change with every
/// run, and a resumed run must find the same blobs as before.
fn is_ours(dir: &Path) -> bool {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let has = |file: &str| dir.join(file).is_file();
    name == "blobwise-runs"
        || (name.starts_with("blobwise-") && has("BLOBWISE"))
        || (has("plan.toml") && has("result.json"))
}

/// True if a directory lies on a file system whose contents the kernel generates on reading: they are no blobs, and some are
/// endless.
fn is_of_the_kernel(dir: &Path) -> bool {
    /// Magic numbers of binfmt_misc, bpf, cgroup, cgroup2, configfs, debugfs, devpts, efivarfs, fusectl, mqueue, nsfs, proc,
    /// pstore, securityfs, selinuxfs, sysfs and tracefs, from the kernel's `linux/magic.h`.
    const MAGIC: [u32; 17] = [
        0x4249_4e4d,
        0xcafe_4a11,
        0x0027_e0eb,
        0x6367_7270,
        0x6265_6570,
        0x6462_6720,
        0x0000_1cd1,
        0xde5e_81e4,
        0x6573_5543,
        0x1980_0202,
        0x6e73_6673,
        0x0000_9fa0,
        0x6165_676c,
        0x7363_6673,
        0xf97c_ff8c,
        0x6265_6572,
        0x7472_6163,
    ];
    rustix::fs::statfs(dir).is_ok_and(|of| MAGIC.contains(&(of.f_type as u32)))
}

/// Bytes of a file that are not allocated on disk. Compression, inline storage of small files and delayed allocation look the
/// same, so only files of at least 64 KiB with at least half of their bytes unallocated count.
fn holes(metadata: &Metadata) -> u64 {
    const LEAST: u64 = 64 << 10;
    let holes = metadata.len().saturating_sub(metadata.blocks() * 512);
    if metadata.len() >= LEAST && holes >= metadata.len() / 2 { holes } else { 0 }
}

/// Size in bytes, in whole steps, of a sample with [`BLOBS_NEEDED`] blobs or, if there are fewer, all files.
fn bytes_needed(found: &[CorpusFile]) -> u64 {
    let total = found.iter().map(|file| file.bytes).sum();
    bytes_of(BLOBS_NEEDED.min(found.len()), found.len(), total).next_multiple_of(STEP_BYTES)
}

/// Estimated bytes of `blobs` blobs sampled from `files` files of `bytes` bytes.
fn bytes_of(blobs: usize, files: usize, bytes: u64) -> u64 {
    (bytes as f64 / files.max(1) as f64 * blobs.min(files) as f64 * 1.05) as u64
}

/// Takes evenly spaced files from the list ordered by size, from a random start, so that every stratum of sizes keeps its share
/// by number. The spacing is widened until the sample fits.
///
/// If a few large files would leave fewer than [`BLOBS_NEEDED`] blobs, the largest are left out until there are enough. Files that
/// are larger than any in the sample are returned separately, if they were left out or have much of the bytes.
fn sample(
    mut found: Vec<CorpusFile>,
    blobs_max: Option<u64>,
    bytes_max: Option<u64>,
    seed: u64,
) -> (Vec<CorpusFile>, Option<OversizedFiles>) {
    found.sort_by(|a, b| a.bytes.cmp(&b.bytes).then_with(|| a.path.cmp(&b.path)));
    let total: u64 = found.iter().map(|file| file.bytes).sum();
    let blobs_max = blobs_max.unwrap_or(u64::MAX);
    let needed = BLOBS_NEEDED.min(found.len()).min(blobs_max as usize);
    let bytes_max = bytes_max.unwrap_or(u64::MAX);
    let (mut kept, mut kept_bytes) = (found.len(), total);
    let mut taken = spaced(&found, blobs_max, bytes_max, seed);
    while taken.len() < needed.min(kept) && kept > 0 {
        // Drops all files of the largest size, and at least 0.5 % of the files.
        let largest = found[kept - 1].bytes;
        let smaller =
            found[..kept].partition_point(|file| file.bytes < largest).min(kept - kept.div_ceil(200));
        kept_bytes -= found[smaller..kept].iter().map(|file| file.bytes).sum::<u64>();
        kept = smaller;
        if bytes_of(needed, kept, kept_bytes) <= bytes_max {
            taken = spaced(&found[..kept], blobs_max, bytes_max, seed);
        }
    }
    // If leaving out the largest does not help either, all sizes keep their share of the few files that fit.
    if taken.len() < needed {
        let all = spaced(&found, blobs_max, bytes_max, seed);
        if taken.len() < 2 * all.len() {
            (taken, kept) = (all, found.len());
        }
    }
    // By chance, or because there is no room for one of them, the sample may also lack the few files that have most of the bytes.
    let largest = taken.iter().map(|file| file.bytes).max().unwrap_or(0);
    let larger = &found[found.partition_point(|file| file.bytes <= largest)..];
    let left_out_bytes: u64 = larger.iter().map(|file| file.bytes).sum();
    let is_much = blobs_max == u64::MAX && left_out_bytes as f64 >= LEFT_OUT_BYTES_SHARE * total as f64;
    if larger.is_empty() || (kept == found.len() && !is_much) {
        return (taken, None);
    }
    let blobs = needed.max(found.len().div_ceil(larger.len()));
    let bytes_needed = bytes_of(blobs, found.len(), total).saturating_mul(2).min(total);
    let beyond = OversizedFiles::from_files(larger, Some(bytes_needed));
    (taken, beyond)
}

/// Returns an evenly spaced sample within both limits, sorted by path.
fn spaced(found: &[CorpusFile], blobs_max: u64, bytes_max: u64, seed: u64) -> Vec<CorpusFile> {
    let total: u64 = found.iter().map(|file| file.bytes).sum();
    let mut share =
        (blobs_max as f64 / found.len() as f64).min(bytes_max as f64 / total.max(1) as f64).min(1.0);
    let phase = SmallRng::seed_from_u64(seed).next_u64() as f64 / u64::MAX as f64;
    loop {
        let phase = if share < 1.0 { phase } else { 0.0 };
        let mut taken: Vec<CorpusFile> = (0..)
            .map(|step| ((f64::from(step) + phase) / share) as usize)
            .take_while(|index| *index < found.len())
            .map(|index| found[index].clone())
            .collect();
        let bytes: u64 = taken.iter().map(|file| file.bytes).sum();
        if taken.len() as u64 <= blobs_max && bytes <= bytes_max {
            taken.sort_by(|a, b| a.path.cmp(&b.path));
            return taken;
        }
        share *= 0.97;
    }
}

/// Reads the sample into a pool. Drops files that cannot be read, and adjusts the sizes of files that have shrunk.
fn load(dir: &Path, sample: &mut Vec<CorpusFile>, seed: u64, skipped: &mut SkippedFiles) -> Contents {
    let total: u64 = sample.iter().map(|file| file.bytes).sum();
    if total > POOL_BYTES_MAX {
        let (pool, regions) = load_strata(dir, sample, total, skipped);
        return Contents::sampled(seed, pool, regions);
    }
    let mut pool = Vec::with_capacity(total as usize);
    sample.retain_mut(|file| append(dir, file, &mut pool, skipped));
    let sizes: Vec<u64> = sample.iter().map(|file| file.bytes).collect();
    Contents::real(seed, pool, &sizes)
}

/// Reads as much of each stratum of sizes as its share of the pool allows, where all blobs have `total` bytes, and at least one whole
/// file. Drops files as [`load`] does. Returns the pool, and the stratum of each file in it, of which its blob is a slice.
fn load_strata(
    dir: &Path,
    sample: &mut Vec<CorpusFile>,
    total: u64,
    skipped: &mut SkippedFiles,
) -> (Vec<u8>, Vec<(usize, usize)>) {
    // Files whose bytes are not needed must be readable too: an unreadable file is no blob.
    sample.retain(|file| match File::open(dir.join(&file.path)) {
        Ok(_) => true,
        Err(error) => {
            skipped.skip(|of| &mut of.unreadable, &file.path, &error.to_string());
            false
        }
    });
    let mut order: Vec<usize> = (0..sample.len()).collect();
    order.sort_by_key(|index| sample[*index].bytes);
    let mut pool = Vec::new();
    let mut regions = vec![(0, 0); sample.len()];
    let (mut failed, mut shrunk) = (HashSet::new(), Vec::new());
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
            let mut file = sample[*index].clone();
            if append(dir, &mut file, &mut pool, skipped) {
                shrunk.push((*index, file.bytes));
            } else {
                failed.insert(*index);
            }
        }
        for index in stratum {
            regions[*index] = (begin, pool.len());
        }
    }
    for (index, bytes) in shrunk {
        sample[index].bytes = bytes;
    }
    let is_read = |index: &usize| !failed.contains(index);
    let mut index = 0..;
    sample.retain(|_| index.next().is_some_and(|index| is_read(&index)));
    let mut index = 0..;
    regions.retain(|_| index.next().is_some_and(|index| is_read(&index)));
    (pool, regions)
}

/// Stratum of a size; strata are powers of four.
fn stratum_of(bytes: u64) -> u32 {
    (bytes + 1).ilog2() / 2
}

/// Appends a file's bytes to the pool, at most as many as were found first, and adjusts its size if it has shrunk. Returns false
/// if it could not be read.
fn append(dir: &Path, file: &mut CorpusFile, pool: &mut Vec<u8>, skipped: &mut SkippedFiles) -> bool {
    let before = pool.len();
    // Reads one byte more than found first, to detect growth; a log being written may be endless.
    match File::open(dir.join(&file.path)).and_then(|open| open.take(file.bytes + 1).read_to_end(pool)) {
        Ok(bytes) => {
            let bytes = bytes as u64;
            skipped.grew += u64::from(bytes > file.bytes);
            file.bytes = bytes.min(file.bytes);
            pool.truncate(before + file.bytes as usize);
            true
        }
        Err(error) => {
            pool.truncate(before);
            skipped.skip(|of| &mut of.unreadable, &file.path, &error.to_string());
            false
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
        let mut skipped = SkippedFiles::default();
        let found = walk(dir.path(), &mut skipped).unwrap();
        let names: Vec<String> = found.iter().map(|file| file.path.to_string_lossy().into_owned()).collect();
        assert_eq!(names, ["a/1", "b/plan.toml", "blobwise-theirs/3"]);
        assert_eq!(skipped.ours, 3);
        assert!(skipped.summary().unwrap().starts_with("3 directories of blobwise itself (such as "));
        assert_eq!(walk(&dir.path().join("out"), &mut skipped).unwrap().len(), 2);
    }

    #[test]
    fn objects_that_are_too_many_for_the_pool_have_slices_of_files_of_their_size() {
        let dir = tempfile::tempdir_in(".").unwrap();
        for (name, bytes) in [("a", 40_000), ("b", 41_000), ("c", 50), ("d", 60)] {
            std::fs::write(dir.path().join(name), vec![name.as_bytes()[0]; bytes]).unwrap();
        }
        let tree = FileTree::walk(dir.path()).unwrap();
        std::fs::remove_file(dir.path().join("c")).unwrap();
        std::fs::write(dir.path().join("d"), b"shrunk").unwrap();
        let sizes = [60, 41_000, 70, 50, 40_000];
        let mut files = [Some(3), Some(1), None, Some(2), Some(0)];
        let contents = tree.by_strata(&sizes, &mut files, Content::Random, 1);
        assert_eq!(files, [None, Some(1), None, None, Some(0)]);
        let mut room = Vec::new();
        for (id, size) in (0..).zip(sizes) {
            let blob = contents.blob(id, 0, size, &mut room);
            let plain = blob.iter().filter(|byte| b"ab".contains(byte)).count();
            let is_of_files = plain as f64 > 0.9 * size as f64;
            assert_eq!((blob.len() as u64, is_of_files), (size, files[id as usize].is_some()), "{id}");
        }
    }

    #[test]
    fn a_sample_keeps_the_shares_of_sizes() {
        let found: Vec<CorpusFile> = (0..10_000)
            .map(|index| CorpusFile {
                path: format!("{index}").into(),
                bytes: if index % 10 == 0 { 10_000 } else { 100 },
                holes: 0,
            })
            .collect();
        let (taken, beyond) = sample(found, None, Some(1_000_000), 7);
        assert_eq!(beyond, None);
        let large = taken.iter().filter(|file| file.bytes == 10_000).count() as f64 / taken.len() as f64;
        assert!((0.09..0.11).contains(&large), "{large}");
        let bytes: u64 = taken.iter().map(|file| file.bytes).sum();
        assert!((900_000..=1_000_000).contains(&bytes), "{bytes}");
    }

    fn files(sizes: &[(usize, u64)]) -> Vec<CorpusFile> {
        let sizes = sizes.iter().flat_map(|(count, bytes)| std::iter::repeat_n(*bytes, *count));
        sizes
            .enumerate()
            .map(|(index, bytes)| CorpusFile { path: format!("{index}").into(), bytes, holes: 0 })
            .collect()
    }

    #[test]
    fn a_few_large_files_do_not_take_the_room_of_all_others() {
        for seed in 0..50 {
            let found = files(&[(400, 50_000), (20, 700_000_000)]);
            let (taken, beyond) = sample(found, None, Some(512_000_000), seed);
            assert_eq!(taken.len(), 400);
            let words = beyond.unwrap().description((420, 14_020_000_000));
            let said = "20 files of 700 MB or more (4.8 % of your files, more than 99 % of your bytes) are not in it; \
                        `--corpus-bytes 15GB` takes them";
            assert_eq!(words, said);
            let (taken, beyond) =
                sample(files(&[(100, 8_000), (1, 4_100_000_000)]), None, Some(512_000_000), seed);
            assert_eq!((taken.len(), beyond.unwrap().files), (100, 1));
            // One that is too large for the sample, and one that the sample may lack by chance.
            for most in [512_000_000, 900_000_000] {
                let (taken, beyond) =
                    sample(files(&[(400, 50_000), (1, 700_000_000)]), None, Some(most), seed);
                let is_in = taken.iter().any(|file| file.bytes > 50_000);
                assert_eq!(
                    beyond.map(|beyond| (beyond.files, beyond.smallest)),
                    (!is_in).then_some((1, 700_000_000))
                );
                assert!(taken.len() >= 200 && is_in == (most == 900_000_000));
            }
        }
    }

    #[test]
    fn what_is_advised_takes_what_was_left_out() {
        let sizes = [(400, 50_000), (20, 700_000_000)];
        let (_, beyond) = sample(files(&sizes), None, Some(32_000_000), 1);
        let bytes = units::parse_bytes(&as_flag(beyond.unwrap().bytes_needed.unwrap())).unwrap();
        for seed in 0..50 {
            let (taken, beyond) = sample(files(&sizes), None, Some(bytes), seed);
            assert!(beyond.is_none() && taken.len() >= 200 && taken.iter().any(|file| file.bytes > 50_000));
        }
    }

    #[test]
    fn a_sample_grows_to_enough_blobs_within_its_bounds() {
        const MOST: u64 = 512_000_000;
        let blobs = |count: usize, bytes: u64, most: u64| {
            let found = files(&[(count, bytes)]);
            let grown = bytes_needed(&found).min(most).max(80_000_000);
            let (taken, beyond) = sample(found, None, Some(grown), 3);
            // All files have the same size, so none are left out as the largest.
            assert!(beyond.is_none(), "{beyond:?}");
            taken.len()
        };
        assert!((200..=216).contains(&blobs(304, 1_000_000, MOST)));
        assert_eq!(blobs(40, 10_000_000, MOST), 40);
        assert!((39_000..=40_000).contains(&blobs(200_000, 2_000, MOST)));
        assert!((9..=10).contains(&blobs(100, 50_000_000, MOST)));
        // With less room.
        assert!((100..=104).contains(&blobs(304, 1_000_000, 104_000_000)));
        assert!((76..=80).contains(&blobs(304, 1_000_000, 0)));
    }

    #[test]
    fn the_limit_of_a_sample_that_grew_gives_the_same_sample_again() {
        let dir = tempfile::tempdir_in(".").unwrap();
        for file in 0..60 {
            File::create(dir.path().join(file.to_string())).unwrap().set_len(1_000_000).unwrap();
        }
        let of = |bytes_max, grows_to| read(dir.path(), None, Some(bytes_max), grows_to, 1).unwrap();
        let grown = of(8_000_000, Some(16_000_000));
        assert_eq!(grown.grown_to, Some(16_000_000));
        let again = of(16_000_000, None);
        assert_eq!((&again.paths, again.grown_to), (&grown.paths, None));
        assert_eq!(of(80_000_000, Some(512_000_000)).grown_to, None);
    }

    #[test]
    fn names_of_one_file_are_one_blob() {
        let dir = tempfile::tempdir_in(".").unwrap();
        std::fs::write(dir.path().join("0"), "one").unwrap();
        for name in ["1", "2", "line\nof its own"] {
            std::fs::hard_link(dir.path().join("0"), dir.path().join(name)).unwrap();
        }
        let real = read(dir.path(), None, None, None, 1).unwrap();
        assert_eq!((real.sizes.len(), real.skipped.hard_links), (1, 3));
        let summary = real.skipped.summary().unwrap();
        assert!(summary.contains("3 further names of the same file") && !summary.contains('\n'), "{summary}");
    }

    #[test]
    fn a_file_that_grows_has_the_size_at_which_it_was_found() {
        let dir = tempfile::tempdir_in(".").unwrap();
        std::fs::write(dir.path().join("log"), vec![7; 1000]).unwrap();
        let (mut file, mut pool, mut skipped) =
            (CorpusFile { path: "log".into(), bytes: 600, holes: 0 }, Vec::new(), SkippedFiles::default());
        assert!(append(dir.path(), &mut file, &mut pool, &mut skipped));
        assert_eq!((file.bytes, pool.len(), skipped.grew), (600, 600, 1));
        assert_eq!(skipped.differences().as_deref(), Some("1 file grew while being read"));
        // An endless file.
        let mut endless = CorpusFile { path: "/dev/zero".into(), bytes: 10, holes: 0 };
        assert!(append(dir.path(), &mut endless, &mut pool, &mut skipped));
        assert_eq!((pool.len(), skipped.grew), (610, 2));
    }

    #[test]
    fn the_kernel_s_own_files_are_no_blobs() {
        let error = read(Path::new("/proc"), None, None, None, 1).err().unwrap().to_string();
        assert!(error.contains("has no files to measure") && error.contains("the kernel's"), "{error}");
    }

    #[test]
    fn what_cannot_be_read_of_much_is_no_blob() {
        let dir = tempfile::tempdir_in(".").unwrap();
        std::fs::write(dir.path().join("small"), "small").unwrap();
        let large = |name: &str| CorpusFile { path: name.into(), bytes: POOL_BYTES_MAX, holes: 0 };
        let mut sample = vec![CorpusFile { path: "small".into(), bytes: 5, holes: 0 }, large("gone")];
        let mut skipped = SkippedFiles::default();
        load(dir.path(), &mut sample, 1, &mut skipped);
        assert_eq!((sample.len(), skipped.unreadable), (1, 1));
    }

    #[test]
    fn holes_are_told() {
        let dir = tempfile::tempdir_in(".").unwrap();
        File::create(dir.path().join("image")).unwrap().set_len(10_000_000).unwrap();
        let real = read(dir.path(), None, None, None, 1).unwrap();
        assert_eq!(real.skipped.sparse, (1, 10_000_000));
        let words = real.skipped.differences().unwrap();
        assert_eq!(words, "1 sparse file with 10 MB of holes, which stores keep as zeros");
    }

    #[test]
    fn a_file_larger_than_any_blob_is_named_with_its_share() {
        let dir = tempfile::tempdir_in(".").unwrap();
        for file in 0..99 {
            std::fs::write(dir.path().join(file.to_string()), [7; 1000]).unwrap();
        }
        File::create(dir.path().join("image")).unwrap().set_len(BLOB_BYTES_MAX + 1).unwrap();
        let real = read(dir.path(), None, None, None, 1).unwrap();
        assert_eq!((real.sizes.len(), real.found.0, real.beyond.len()), (99, 100, 1));
        let said = "1 file of 4.29 GB or more (1.0 % of your files, more than 99 % of your bytes) is not in it; a blob has at most \
                    4.29 GB";
        assert_eq!(real.beyond[0].description(real.found), said);
        let summary = real.skipped.summary().unwrap();
        assert!(
            summary.starts_with("1 too large (such as ") && summary.ends_with("image (4.29 GB))"),
            "{summary}"
        );
        // Its holes are in no blob.
        assert_eq!(real.skipped.sparse, (0, 0));
    }
}
