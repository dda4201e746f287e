//! The corpora of a plan: one, one for each size of a sweep, or several with names; and how `--scale` shrinks them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::values::{check_excluded, memory_shares, text_path};
use super::{PlanText, growth};
use crate::corpus::{
    BLOB_BYTES_MAX, BLOBS_MAX, BlobSource, Content, Corpus, CorpusId, CorpusSpecification, PRESETS,
    STEP_BYTES, Sizes,
};
use crate::rules::{MEMORY_MIN, PROCESSOR_CACHE_TIMES};
use crate::suggest::unknown;
use crate::trace::{LogFile, LogFormat};
use crate::units::{parse_bytes, parse_share};

optional_keys! {
    /// The corpus of a plan, or what flags say of it.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
    #[group(skip)]
    pub struct CorpusText {
        /// Name, required if the plan has several corpora.
        #[arg(skip)]
        pub name: Option<String>,
        /// Measure a sample of the files below this directory, read only.
        ///
        /// Default size: twice the largest cache of the processor, at least 32 MB, or what 200 files take, at most
        /// 512 MB. With `trace`: an object of the log whose path is that of a file below this directory has its content and size;
        /// other objects are synthetic.
        #[arg(long, value_name = "DIR", value_parser = text_path())]
        pub files: Option<PathBuf>,
        /// Measure the objects of this access log, and replay its requests.
        ///
        /// Plain, gzip or zstd. Adds the phase `replay`. Objects have the size of their largest whole response or put; those that the
        /// log puts first are put by the replay. No name in the log is kept. Default size: as with `files`.
        #[arg(long, value_name = "FILE", value_parser = text_path())]
        pub trace: Option<PathBuf>,
        /// Read the log in this format [default: by its first lines]
        ///
        /// `blobwise trace --help` lists them.
        #[arg(long, value_name = "FORMAT")]
        pub trace_format: Option<String>,
        /// Read a csv log with these columns, such as time,op,key,bytes
        ///
        /// `-` skips a column.
        #[arg(long, value_name = "A,B")]
        pub columns: Option<String>,
        /// Allow this share of unreadable lines in the log [default: 1%]
        ///
        /// They are left out and counted.
        #[arg(long, value_name = "SHARE")]
        pub allow_bad: Option<String>,
        /// Take this share of the log's objects [default: auto]
        ///
        /// Whole objects with all of their requests, such as `1%`; the rate shrinks as well. `auto`: as many as the size of
        /// the corpus and the budget allow.
        #[arg(long, value_name = "SHARE|auto")]
        pub sample: Option<String>,
        /// Make blobs of these sizes: a preset, or such as `fixed:4kB`.
        ///
        /// The forms are `fixed:N`, `uniform:A-B`, `list:N,N,...`, `lognormal:MU,SIGMA`, `gamma:MEAN,SHAPE`,
        /// `pareto:LEAST,ALPHA`, `quantiles:P=N,...` and `mix:0.99*FORM+0.01*FORM`; `blobwise list corpora` has the
        /// presets.
        #[arg(long = "corpus", value_name = "SIZES")]
        pub source: Option<String>,
        /// Fill synthetic blobs with `random`, `text` or `ratio:R` [default: random]
        ///
        /// `ratio:R` is bytes that compress R times.
        #[arg(long)]
        pub content: Option<String>,
        /// Use at most this many blobs.
        #[arg(long, value_name = "N")]
        pub blobs: Option<u64>,
        /// Use at most this many bytes of blobs, such as `200MB`.
        #[arg(long = "corpus-bytes", value_name = "N")]
        pub bytes: Option<String>,
    }
}

impl CorpusText {
    /// Returns this corpus changed by flags; `None` if neither specifies anything. Files and sizes replace each other, and so do
    /// the limits of a plan and those of flags.
    pub fn changed_by(self, flags: &CorpusText) -> Option<CorpusText> {
        let has_source = flags.is_real() || flags.source.is_some();
        let has_size = flags.blobs.is_some() || flags.bytes.is_some() || flags.sample.is_some();
        let (of_source, of_size) =
            (if has_source { flags } else { &self }, if has_size { flags } else { &self });
        let corpus = CorpusText {
            files: of_source.files.clone(),
            trace: of_source.trace.clone(),
            // What a plan says of its log says nothing of another source.
            trace_format: flags.trace_format.clone().or(of_source.trace_format.clone()),
            columns: flags.columns.clone().or(of_source.columns.clone()),
            allow_bad: flags.allow_bad.clone().or(of_source.allow_bad.clone()),
            source: of_source.source.clone(),
            sample: flags.sample.clone().or(of_size.sample.clone().filter(|_| of_source.trace.is_some())),
            blobs: of_size.blobs,
            bytes: of_size.bytes.clone(),
            content: flags.content.clone().or(self.content.clone()),
            name: self.name.clone(),
        };
        (corpus != CorpusText::default()).then_some(corpus)
    }

    /// True if the sizes of its blobs are those of the user's own files or objects.
    pub(super) fn is_real(&self) -> bool {
        self.files.is_some() || self.trace.is_some()
    }

    /// True if its blobs are the files of a directory, and not a log's objects, which may have the contents of such files.
    pub fn is_directory(&self) -> bool {
        self.files.is_some() && self.trace.is_none()
    }

    fn log(&self, path: &Path) -> Result<LogFile> {
        if self.columns.is_some() {
            check_excluded("--columns", &[("--trace-format", self.trace_format.is_some())])?;
        }
        let format =
            self.trace_format.as_deref().map(LogFormat::parse).transpose().context("--trace-format")?;
        let allowed = self.allow_bad.as_deref().map(parse_share).transpose().context("--allow-bad")?;
        Ok(LogFile {
            format,
            columns: self.columns.clone(),
            bad_share_max: allowed.unwrap_or(LogFile::BAD_SHARE_MAX),
            ..LogFile::at(path.to_owned())
        })
    }

    /// Share of a log's objects, from 0 to 1; `None` if other limits decide.
    pub(super) fn share(&self) -> Result<Option<f64>> {
        let Some(text) = self.sample.as_deref().filter(|text| *text != "auto") else { return Ok(None) };
        let share = parse_share(text).context("--sample")?;
        ensure!(share > 0.0 && share <= 1.0, "--sample: `{text}` is not above 0 and at most 100%");
        ensure!(
            self.blobs.is_none() && self.bytes.is_none(),
            "--sample: cannot be used with --blobs or --corpus-bytes; leave out one of them"
        );
        Ok(Some(share))
    }
}

/// One corpus of a plan.
#[derive(Clone, Debug)]
pub struct CorpusPlan {
    /// Specification of the corpus to build.
    pub request: CorpusSpecification,
    /// Size that a sweep varies, in bytes: the center of the sizes of this corpus. If the plan names its corpora, their median
    /// sizes identify them.
    pub corpus_id: CorpusId,
    /// Name, in a plan with several corpora.
    pub name: Option<String>,
    /// Minimum share of the corpus that a budget must leave: 1 if its size was given in blobs or bytes, the share that the
    /// smallest step of a memory sweep needs, or 0.
    pub kept_share: f64,
    /// Share of the corpus that is the default size: below 1 for a sample that was given more to have enough blobs.
    pub default_share: f64,
    /// Requests of a log for each blob; 0 without a log, and before it was read.
    pub requests_per_blob: f64,
}

impl CorpusPlan {
    /// Lets a sample exceed its default size, where that has too few files, up to `room_bytes`.
    pub(super) fn open_sample(&mut self, room_bytes: u64) {
        let steps = room_bytes.min(DEFAULT_BYTES_MAX) / STEP_BYTES;
        self.request.grows_to = Some(steps * STEP_BYTES);
    }

    /// Sets the share that is the default size of `sample`, which may have `bytes_max`.
    pub(super) fn close_sample(&mut self, sample: &Corpus, bytes_max: u64) {
        let default = self.request.bytes_max.unwrap_or(bytes_max);
        self.default_share = (default as f64 / sample.bytes().max(1) as f64).min(1.0);
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct DefaultSize {
    /// Maximum number of blobs, unless they are files.
    pub blobs: u64,
    /// Maximum total size in bytes.
    pub bytes: u64,
    /// Minimum share of the corpus that a budget must leave.
    kept: f64,
}

impl DefaultSize {
    /// Minimum share of `corpus` that a budget must leave: 1 if its size was given explicitly. Stored plans have the defaults
    /// written out, so sizes equal to them do not count as given.
    fn kept_share(self, corpus: &CorpusText, bytes_max: Option<u64>) -> f64 {
        let given = (corpus.blobs, bytes_max);
        let is_default = match given {
            (None, None) => !matches!(corpus.share(), Ok(Some(_))),
            (None, Some(bytes)) => corpus.is_real() && self.is_one(bytes),
            (Some(blobs), Some(bytes)) => self.is_one(bytes) && blobs == bytes / STEP_BYTES * STEP_BLOBS,
            (Some(_), None) => false,
        };
        if is_default { self.kept } else { 1.0 }
    }

    /// True if a default corpus may have this size: the one of this plan, or one that exceeds a processor's cache.
    fn is_one(self, bytes: u64) -> bool {
        let is_larger = self.bytes == DEFAULT_BYTES || self.bytes < bytes;
        bytes == self.bytes || (is_larger && bytes.is_multiple_of(STEP_BYTES))
    }
}

/// Number of blobs in the default corpus.
pub const DEFAULT_BLOBS: u64 = 400;
/// Maximum size of the default corpus in bytes.
pub const DEFAULT_BYTES: u64 = 32_000_000;
/// Minimum total size, in bytes, of the default number of blobs from the default preset.
pub const DEFAULT_BYTES_LEAST: f64 = 24e6;
/// The default corpus exceeds a processor's cache in steps of this many blobs, which have at most [`STEP_BYTES`].
const STEP_BLOBS: u64 = 100;
/// Least bytes of such a step of the default preset: 1000 blobs had 72.8 MB or more with each of twelve seeds.
const STEP_BYTES_LEAST: u64 = 7_280_000;
/// Largest default corpus in bytes, however large the processor's cache or the files of a sample.
const DEFAULT_BYTES_MAX: u64 = 512_000_000;
/// Number of blobs that a scaled-down corpus keeps, unless they are large.
const SCALED_BLOBS_MIN: u64 = 8;
/// Number of blobs that a scaled-down corpus keeps even if they are large, so that each size is more than a single case.
const SCALED_BLOBS_LEAST: u64 = 2;
/// Size limit in bytes for keeping eight blobs; without it, a preview would spend most of its time on the largest sizes.
const SCALED_BYTES: u64 = 16_000_000;
/// Size in bytes of the corpus at each step of a sweep, unless 100 blobs are larger.
const SWEEP_BYTES: u64 = 16_000_000;
/// Minimum number of blobs at each step of a sweep.
pub const SWEEP_BLOBS_MIN: u64 = 100;
/// Total size in bytes up to which a step has twice that minimum, so that its fill is not too short.
const SWEEP_BYTES_MAX: f64 = 256e6;
/// Maximum number of blobs at each step of a sweep, so that small sizes do not take too long.
const SWEEP_BLOBS_MAX: u64 = 2_000;

impl PlanText {
    /// Keeps only the corpora with these names and drops phases that use others only. Claims about dropped corpora become
    /// untestable.
    pub fn keep_corpora(&mut self, names: &[String]) -> Result<()> {
        if self.corpora.is_empty() {
            bail!("--corpora: is for plans with several corpora; use --corpus or --files");
        }
        let known = || self.corpora.iter().filter_map(|corpus| corpus.name.as_deref());
        if names.is_empty() {
            bail!("no corpus is named; there are {}", known().collect::<Vec<_>>().join(", "));
        }
        if let Some(stranger) = names.iter().find(|name| !known().any(|known| known == *name)) {
            return Err(unknown("corpus", stranger, known()));
        }
        self.corpora.retain(|corpus| corpus.name.as_ref().is_some_and(|name| names.contains(name)));
        let mut without: Vec<String> = Vec::new();
        self.phase.retain_mut(|phase| {
            let was_for_some = !phase.corpora.is_empty();
            phase.corpora.retain(|name| names.contains(name));
            let is_left = !was_for_some || !phase.corpora.is_empty();
            if !is_left {
                without.push(phase.id.clone());
            }
            is_left
        });
        match &mut self.phases {
            Some(phases) => {
                phases.retain(|phase| !without.contains(phase));
                if phases.is_empty() {
                    bail!(
                        "no phase is left: {} are of other corpora than {}",
                        without.join(", "),
                        names.join(", ")
                    );
                }
            }
            // All phases of the plan are gone, and it did not ask for the standard ones.
            None if self.phase.is_empty() && !without.is_empty() => {
                self.phases = Some(vec!["fill".to_owned()])
            }
            None => {}
        }
        Ok(())
    }

    /// True if the corpus is a sample of files whose size is left to the program.
    pub fn leaves_sample_open(&self) -> bool {
        let is_open = |of: &CorpusText| of.is_directory() && of.blobs.is_none() && of.bytes.is_none();
        self.scale.unwrap_or(1.0) == 1.0 && self.corpus.as_ref().is_some_and(is_open)
    }

    /// Default sizes of blobs: small ones for a growth, which has many.
    pub(super) fn default_sizes(&self) -> &'static str {
        if self.grow.is_some() { "fixed:1kB" } else { PRESETS[0].name }
    }

    /// Default size of the corpus. A memory sweep multiplies it until its smallest share reaches the minimum memory limit of a
    /// candidate; below that limit nothing could be measured.
    pub(super) fn default_size(&self) -> Result<DefaultSize> {
        let shares = self.memory_sweep.as_deref().map(memory_shares).transpose()?;
        let least = shares.and_then(|shares| shares.last().copied());
        let needed = least.map_or(0.0, |percent| MEMORY_MIN as f64 / (percent / 100.0));
        let times = (needed / DEFAULT_BYTES_LEAST).ceil().max(1.0);
        Ok(DefaultSize {
            blobs: DEFAULT_BLOBS * times as u64,
            bytes: DEFAULT_BYTES * times as u64,
            kept: needed / (times * DEFAULT_BYTES_LEAST),
        })
    }
}

/// Sets the default size that exceeds a processor's cache, unless the corpus has a size or the default is large enough.
pub(super) fn exceed_processor_cache(corpus: &mut CorpusText, cache_bytes: u64) {
    if corpus.blobs.is_some() || corpus.bytes.is_some() || corpus.sample.is_some() {
        return;
    }
    let needed = (PROCESSOR_CACHE_TIMES * cache_bytes as f64) as u64;
    let steps = needed.div_ceil(STEP_BYTES_LEAST).min(DEFAULT_BYTES_MAX / STEP_BYTES);
    if steps * STEP_BYTES > DEFAULT_BYTES {
        corpus.blobs = (!corpus.is_real()).then_some(steps * STEP_BLOBS);
        corpus.bytes = Some((steps * STEP_BYTES).to_string());
    }
}

/// Builds the corpora of a plan: one, one for each size of a sweep, or those that it names.
pub fn corpora(text: &PlanText, scale: f64, seed: u64) -> Result<Vec<CorpusPlan>> {
    let corpus = text.corpus.clone().unwrap_or_default();
    let default = text.default_size()?;
    let bytes_max = corpus.bytes.as_deref().map(parse_bytes).transpose().context("--corpus-bytes")?;
    let is_nothing = [("--blobs", corpus.blobs), ("--corpus-bytes", bytes_max)];
    if let Some((flag, _)) = is_nothing.iter().find(|(_, given)| *given == Some(0)) {
        bail!("{flag}: `0` must be above 0");
    }
    if let Some(blobs) = corpus.blobs.filter(|blobs| *blobs > BLOBS_MAX) {
        bail!("--blobs: `{blobs}` is above {BLOBS_MAX}, the most that blobwise keeps track of");
    }
    if let Some(sweep) = &text.sweep {
        if !text.corpora.is_empty() {
            bail!("this plan has corpora of its own, which `--sweep` cannot vary");
        }
        if corpus.is_real() || corpus.source.is_some() {
            bail!(
                "--sweep: draws its own sizes; leave out --files, --trace and --corpus, and plans that have them"
            );
        }
        return of_sweep(sweep, &corpus, bytes_max, default, scale, seed);
    }
    if let Some(grow) = &text.grow {
        let default_sizes = (!corpus.is_real()).then(|| text.default_sizes().to_owned());
        let source = corpus.source.clone().or(default_sizes);
        let corpus = CorpusText { blobs: growth::steps(grow)?.last().copied(), source, ..corpus };
        return Ok(vec![one(&corpus, None, default, scale, seed)?]);
    }
    if text.corpora.is_empty() {
        return Ok(vec![one(&corpus, bytes_max, default, scale, seed)?]);
    }
    if corpus != CorpusText::default() {
        bail!(
            "this plan has corpora of its own: leave out --files, --trace, --corpus, --blobs and --corpus-bytes"
        );
    }
    several(text, default, scale, seed)
}

/// Builds the corpora of a plan that has several, sorted from small to large like those of a sweep.
fn several(text: &PlanText, default: DefaultSize, scale: f64, seed: u64) -> Result<Vec<CorpusPlan>> {
    let mut corpora: Vec<CorpusPlan> = Vec::new();
    for corpus in &text.corpora {
        let name = corpus.name.clone().ok_or_else(|| anyhow!("each of several corpora needs a name"))?;
        let bytes_max = corpus.bytes.as_deref().map(parse_bytes).transpose()?;
        // A seed for each corpus, because otherwise all would have the same keys. It is derived from the name, so that the corpus
        // has the same blobs if others are left out.
        let own_seed = xxh3_64_with_seed(name.as_bytes(), seed);
        let mut planned = one(corpus, bytes_max, default, scale, own_seed)?;
        let BlobSource::Synthetic { name: source, sizes, .. } = &mut planned.request.source else {
            bail!("the corpus `{name}` is a directory or a log, which one of several cannot be");
        };
        source.clone_from(&name);
        planned.corpus_id = CorpusId::with_median(sizes.middle());
        planned.name = Some(name);
        if corpora.iter().any(|known| known.name == planned.name || known.corpus_id == planned.corpus_id) {
            bail!("two corpora have the same name or the same middle size");
        }
        corpora.push(planned);
    }
    corpora.sort_by_key(|corpus| corpus.corpus_id);
    Ok(corpora)
}

fn one(
    corpus: &CorpusText,
    bytes_max: Option<u64>,
    default: DefaultSize,
    scale: f64,
    seed: u64,
) -> Result<CorpusPlan> {
    let source = source_of(corpus, scale)?;
    let kept_share = default.kept_share(corpus, bytes_max);
    let real = corpus.is_real();
    let (blobs_max, bytes_max) = match (corpus.blobs, bytes_max) {
        (None, None) if corpus.share()?.is_some() => (None, None),
        (None, None) if real => (None, Some(default.bytes)),
        (None, None) => (Some(default.blobs), Some(default.bytes)),
        given => given,
    };
    let scaled = |value: Option<u64>| value.map(|value| ((value as f64 * scale) as u64).max(1));
    let least = match &source {
        BlobSource::Synthetic { sizes, .. } => scaled_blobs_min(sizes.middle()),
        BlobSource::Files(_) | BlobSource::Trace { .. } => SCALED_BLOBS_MIN,
    };
    let kept = |blobs: u64| blobs.max(least.min(blobs_max.unwrap_or(least)));
    let blobs_max = scaled(blobs_max).map(kept);
    // The number of blobs that a scaled corpus keeps takes precedence over its bytes.
    let bytes_max = if scale < 1.0 && blobs_max.is_some() { bytes_max } else { scaled(bytes_max) };
    // A stored plan has the size that its sample was given, which a budget may take back.
    let default_share = match bytes_max {
        Some(bytes) if real && corpus.blobs.is_none() && kept_share < 1.0 => {
            (default.bytes as f64 * scale / bytes as f64).min(1.0)
        }
        _ => 1.0,
    };
    let request = CorpusSpecification { source, blobs_max, bytes_max, grows_to: None, seed };
    let (corpus_id, name) = (CorpusId::ONLY, None);
    Ok(CorpusPlan { request, corpus_id, name, kept_share, default_share, requests_per_blob: 0.0 })
}

fn source_of(corpus: &CorpusText, scale: f64) -> Result<BlobSource> {
    let content =
        || corpus.content.as_deref().map_or(Ok(Content::Random), Content::parse).context("--content");
    if let Some(path) = &corpus.trace {
        check_excluded("--trace", &[("--corpus", corpus.source.is_some())])?;
        ensure!(
            path.as_os_str() != "-",
            "--trace: `-`: a run reads its log more than once, so that it must be a file; describe standard input with blobwise trace -"
        );
        let share = corpus.share()?.map(|share| (share * scale).min(1.0));
        let (log, files) = (corpus.log(path)?, corpus.files.clone());
        return Ok(BlobSource::Trace { log, share, content: content()?, files });
    }
    let is_given = [
        ("--sample", corpus.sample.is_some()),
        ("--trace-format", corpus.trace_format.is_some()),
        ("--columns", corpus.columns.is_some()),
        ("--allow-bad", corpus.allow_bad.is_some()),
    ];
    if let Some((flag, _)) = is_given.iter().find(|(_, is_given)| *is_given) {
        bail!("{flag}: is of a log, and there is none: add --trace FILE");
    }
    if let Some(files) = &corpus.files {
        if corpus.source.is_some() {
            bail!("--files: cannot be used with --corpus; leave out one of them");
        }
        if corpus.content.is_some() {
            bail!("--content: is for synthetic blobs; files keep their bytes");
        }
        return Ok(BlobSource::Files(files.clone()));
    }
    let name = corpus.source.clone().unwrap_or_else(|| PRESETS[0].name.to_owned());
    let sizes = Sizes::parse(&name).context("--corpus")?;
    Ok(BlobSource::Synthetic { name, sizes, content: content()? })
}

/// Number of blobs that a scaled-down corpus keeps, given its median blob size in bytes.
fn scaled_blobs_min(middle: u64) -> u64 {
    (SCALED_BYTES / middle.max(1)).clamp(SCALED_BLOBS_LEAST, SCALED_BLOBS_MIN)
}

fn of_sweep(
    sweep: &str,
    corpus: &CorpusText,
    bytes_max: Option<u64>,
    default: DefaultSize,
    scale: f64,
    seed: u64,
) -> Result<Vec<CorpusPlan>> {
    let content = corpus.content.as_deref().map_or(Ok(Content::Random), Content::parse)?;
    let mut corpora = Vec::new();
    for (step, (centre, sizes)) in (0_u64..).zip(steps_of(sweep)?) {
        let by_bytes = (bytes_max.unwrap_or(SWEEP_BYTES) as f64 / centre) as u64;
        let enough = crate::rules::SHORT_OPS;
        let least = if enough as f64 * centre <= SWEEP_BYTES_MAX { enough } else { SWEEP_BLOBS_MIN };
        let blobs = corpus.blobs.unwrap_or(by_bytes.clamp(least, SWEEP_BLOBS_MAX));
        let blobs = ((blobs as f64 * scale) as u64).max(scaled_blobs_min(centre as u64));
        let about = if matches!(sizes, Sizes::Fixed(_)) { "" } else { "about " };
        let name = format!("{about}{}", crate::units::bytes(centre));
        let source = BlobSource::Synthetic { name, sizes, content };
        // A seed for each size, because otherwise all corpora would have the same keys.
        let request = CorpusSpecification {
            source,
            blobs_max: Some(blobs),
            bytes_max: None,
            grows_to: None,
            seed: seed.wrapping_add(step << 32),
        };
        let corpus_id = CorpusId::with_median(centre.round() as u64);
        let kept_share = default.kept_share(corpus, bytes_max);
        let (default_share, requests_per_blob) = (1.0, 0.0);
        corpora.push(CorpusPlan {
            request,
            corpus_id,
            name: None,
            kept_share,
            default_share,
            requests_per_blob,
        });
    }
    Ok(corpora)
}

/// Steps of a sweep: the center of each in bytes, and the sizes around it.
fn steps_of(sweep: &str) -> Result<Vec<(f64, Sizes)>> {
    match sweep.split_once("..") {
        Some((from, to)) => ladder(sweep, from, to),
        None if sweep.contains(',') => named_sizes(sweep),
        None => {
            bail!("--sweep: `{sweep}` is neither of the form 1kB..10MB nor a list such as 10kB,100kB,1MB")
        }
    }
}

/// Returns sizes within 20 % of centers half a decade apart, with the centers moved away from powers of two.
fn ladder(sweep: &str, from: &str, to: &str) -> Result<Vec<(f64, Sizes)>> {
    let (from, to) = (parse_bytes(from).context("--sweep")?, parse_bytes(to).context("--sweep")?);
    if from == 0 || to <= from {
        bail!("--sweep: `{sweep}` must go from a size above 0 to a larger one");
    }
    let steps = ((to as f64 / from as f64).log10() * 2.0).round().max(1.0) as u32;
    let step = |step: u32| {
        let ideal = from as f64 * (to as f64 / from as f64).powf(f64::from(step) / f64::from(steps));
        let centre = off_powers_of_two(ideal);
        let sizes = Sizes::Uniform((centre * 0.8) as u64, ((centre * 1.2) as u64).max(1));
        let largest = sizes.at(1.0);
        if largest > BLOB_BYTES_MAX {
            bail!(
                "--sweep: `{sweep}` has sizes around each step, up to {largest} B, above {BLOB_BYTES_MAX} B, the largest blob that \
                 blobwise handles; end it at 3GB"
            );
        }
        Ok((centre, sizes))
    };
    (0..=steps).map(step).collect()
}

/// Returns exactly the listed sizes, from small to large.
fn named_sizes(sweep: &str) -> Result<Vec<(f64, Sizes)>> {
    let mut sizes = sweep.split(',').map(parse_bytes).collect::<Result<Vec<u64>>>().context("--sweep")?;
    sizes.sort_unstable();
    if let Some(pair) = sizes.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!("--sweep: `{sweep}` names {} B twice; leave one of them out", pair[0]);
    }
    if let Some(bad) = sizes.iter().find(|bytes| !(1..=BLOB_BYTES_MAX).contains(*bytes)) {
        bail!(
            "--sweep: `{sweep}`: {bad} B is not between 1 and {BLOB_BYTES_MAX} B, the largest blob that blobwise handles"
        );
    }
    Ok(sizes.into_iter().map(|bytes| (bytes as f64, Sizes::Fixed(bytes))).collect())
}

/// Returns the size, or 15 % more if it is within 7 % of a power of two: many stores treat files and pages of exactly a power of
/// two specially.
fn off_powers_of_two(size: f64) -> f64 {
    let exponent = size.log2();
    let distance = exponent - exponent.round();
    if distance.abs() < 0.1 { size * 1.15 } else { size }
}
