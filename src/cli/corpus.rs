//! `blobwise corpus`: describes a corpus without measuring anything.

use crate::engine::work::ResolvePlan;
use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use super::run::exceed_processor_cache;
use super::{CommandOutcome, eprint, print};
use crate::corpus::Corpus;
use crate::plan::{CorpusText, PlanText};
use crate::units;

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct CorpusFlags {
    #[command(flatten)]
    choice: CorpusText,
    /// Draw everything random from this seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn main(flags: &CorpusFlags) -> Result<CommandOutcome> {
    let mut text = PlanText {
        seed: Some(flags.seed),
        corpus: CorpusText::default().changed_by(&flags.choice),
        ..PlanText::default()
    };
    // The same sample as of `run`.
    let is_open = text.leaves_sample_open();
    if is_open || text.has_log() {
        exceed_processor_cache(&mut text);
    }
    let mut design = text.resolve(false)?;
    let corpora =
        design.build_sample(is_open.then_some(u64::MAX), &mut |reading| eprint(&reading.description()))?;
    let corpus = corpora.first().context("a plan has a corpus")?;
    print(&if flags.json { as_json(corpus)? } else { as_text(corpus) })?;
    Ok(CommandOutcome::Well)
}

fn as_json(corpus: &Corpus) -> Result<String> {
    let value = json!({
        "name": corpus.name,
        "blobs": corpus.blobs(),
        "bytes": corpus.bytes(),
        "largest_bytes": corpus.largest(),
        "quantiles": corpus.quantiles(),
        "deflate_ratio": corpus.deflate_ratio(),
        "histogram": histogram(corpus).iter().map(|(from, to, blobs, bytes)| json!({
            "from": from, "to": to, "blobs": blobs, "bytes": bytes,
        })).collect::<Vec<_>>(),
        "sampled_from": corpus.sampled_from.map(|(files, bytes)| json!({"files": files, "bytes": bytes})),
        "cut": corpus.cut,
        "skipped": corpus.omitted(),
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&value)?))
}

/// Histogram by powers of four: from, to, blobs, bytes.
fn histogram(corpus: &Corpus) -> Vec<(u64, u64, u64, u64)> {
    let bucket = |size: u64| (size + 1).ilog2() / 2;
    let sizes = || corpus.sizes.iter().map(|size| u64::from(*size));
    let buckets = sizes().map(bucket);
    let (Some(first), Some(last)) = (buckets.clone().min(), buckets.max()) else { return Vec::new() };
    (first..=last)
        .map(|index| {
            let (from, to) = ((1 << (2 * index)) - 1, (1 << (2 * index + 2)) - 1);
            let within = || sizes().filter(|size| (from..to).contains(size));
            (from, to, within().count() as u64, within().sum())
        })
        .collect()
}

fn as_text(corpus: &Corpus) -> String {
    let mut text = format!(
        "{}: {}, {}, largest {}\n",
        corpus.name,
        units::counted(corpus.blobs(), "blob"),
        units::bytes(corpus.bytes() as f64),
        units::bytes(corpus.largest() as f64)
    );
    if let Some((files, bytes)) = corpus.sampled_from {
        text += &format!("a sample of {files} files ({}), by size\n", units::bytes(bytes as f64));
    }
    if let Some(cut) = &corpus.cut {
        text += &format!("{cut}\n");
    }
    if let Some(log) = &corpus.log {
        text += &format!("{}\n", log.summary());
    }
    if let Some(skipped) = corpus.skipped.summary() {
        text += &format!("not taken: {skipped}\n");
    }
    if let Some(differences) = corpus.skipped.differences() {
        text += &format!("note: {differences}\n");
    }
    if let Some(ratio) = corpus.deflate_ratio() {
        // As it is printed: what cannot be compressed grows by less than a hundredth.
        let (times, than) = if ratio < 0.995 { (1.0 / ratio, "larger") } else { (ratio, "smaller") };
        text += &format!("deflate makes it {times:.2} times {than}\n");
    }
    text.push('\n');
    for (name, size) in corpus.quantiles() {
        text += &format!("{name:<4} {:>9}\n", units::bytes(size as f64));
    }
    text += "\n        size          blobs      bytes\n";
    let most = histogram(corpus).iter().map(|bucket| bucket.2).max().unwrap_or(1).max(1);
    for (from, to, blobs, bytes) in histogram(corpus) {
        let bar = "#".repeat((blobs * 50).div_ceil(most) as usize);
        let (from, to, bytes) =
            (units::bytes(from as f64), units::bytes(to as f64), units::bytes(bytes as f64));
        text += &format!("{from:>8} to {to:>8} {blobs:>7} {bytes:>10}  {bar}\n");
    }
    text
}
