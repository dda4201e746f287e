//! `blobwise trace`: describes an access log.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use jiff::Timestamp;

use super::{CommandOutcome, eprint, print};
use crate::report::terminal::{WIDTH, folded};
use crate::trace::{Counts, Description, LogFormat, LogReader, Op, Rate, describe};
use crate::units;

#[derive(Debug, Args)]
pub struct TraceFlags {
    /// Read this log, plain, gzip or zstd; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Read the log in this format [default: by its first lines]
    ///
    /// combined (or common), json, s3-log, cloudfront, ibm-cos, twitter, csv or oracle-general
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Read a csv with these columns, such as time,op,key,bytes
    ///
    /// `-` skips a column
    #[arg(long, value_name = "A,B", conflicts_with = "format")]
    columns: Option<String>,
    /// Allow this share of lines that cannot be read
    #[arg(long, value_name = "SHARE", default_value = "1%")]
    allow_bad: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn main(flags: &TraceFlags) -> Result<CommandOutcome> {
    let allowed = units::parse_share(&flags.allow_bad).context("--allow-bad")?;
    let format = flags.format.as_deref().map(LogFormat::parse).transpose().context("--format")?;
    let mut reader = LogReader::open(&flags.file, format, flags.columns.as_deref())?;
    let log = describe(&mut reader, |reading| eprint(&reading.description()));
    check(&flags.file, &log.counts, allowed, log.format)?;
    if log.requests == 0 {
        bail!("`{}` has no request", flags.file.display());
    }
    print(&if flags.json { serde_json::to_string_pretty(&log)? + "\n" } else { as_text(&log) })?;
    let Some(why) = &log.counts.ended_early else { return Ok(CommandOutcome::Well) };
    eprint(&format!("error: the log ends early, after line {}: {why}", log.counts.lines));
    Ok(CommandOutcome::Failed)
}

fn check(file: &Path, counts: &Counts, allowed: f64, format: &str) -> Result<()> {
    let share = counts.bad_share();
    if share > allowed {
        bail!(
            "`{}`: {}, more than --allow-bad {}, cannot be read as {format}: {}. If they may be left out, add --allow-bad {:.0}%; \
             if the log is of another kind, name it with --format",
            file.display(),
            of_lines(counts),
            units::share(allowed),
            first_bad(counts),
            (share * 100.0).ceil()
        );
    }
    Ok(())
}

/// How many lines cannot be read: `3 of 120 lines (2.5 %)`.
fn of_lines(counts: &Counts) -> String {
    let share = units::percent(counts.bad_share());
    format!("{} of {} ({share})", counts.bad, units::counted(counts.lines, "line"))
}

/// The first lines that cannot be read, without anything of their text.
fn first_bad(counts: &Counts) -> String {
    let lines = counts.first_bad.iter().map(|bad| format!("line {} {}", bad.line, bad.why));
    lines.collect::<Vec<_>>().join("; ")
}

/// A number of things in a few digits: `1 request`, `58.2k requests`.
fn many(number: f64, thing: &str) -> String {
    format!("{} {thing}{}", units::count(number), if number == 1.0 { "" } else { "s" })
}

fn as_text(log: &Description) -> String {
    let mut text = format!(
        "{}: {} of {}, {} transferred\n",
        log.format,
        many(log.requests as f64, "request"),
        many(log.objects, "object"),
        units::bytes(log.sent_bytes as f64)
    );
    if log.counts.bad > 0 {
        text += &format!("{} cannot be read: {}\n", of_lines(&log.counts), first_bad(&log.counts));
    }
    if log.sampled_share < 1.0 {
        text += &format!(
            "objects, sizes, popularity and misses are of a sample of {} of the objects\n",
            units::exact_percent(log.sampled_share)
        );
    }
    text += "\nop              requests   share\n";
    for op in Op::ALL {
        let Some(requests) = log.ops.get(op.name()) else { continue };
        let share = units::percent(*requests as f64 / log.requests as f64);
        text += &format!("{:<13} {:>10} {share:>7}\n", op.name(), units::count(*requests as f64));
    }
    text += &sizes(log);
    text += &(popularity(log) + &misses(log) + &log.rate.as_ref().map_or(String::new(), rate));
    // The command is one line, so that it can be pasted.
    text.lines().flat_map(|line| folded(line, WIDTH)).map(|line| line + "\n").collect::<String>() + &plan(log)
}

fn sizes(log: &Description) -> String {
    let Some(bytes) = log.object_bytes else {
        return "\nthe log has no sizes of objects\n".to_owned();
    };
    let mut text = format!("\nsizes of objects, {} in all\n", units::bytes(bytes));
    for (percent, size) in &log.sizes {
        text += &format!("p{percent:<4} {:>9}\n", units::bytes(*size as f64));
    }
    if log.unknown_size_share > 0.0 {
        text += &format!(
            "{} of the objects were never read whole: their sizes are taken from the others\n",
            units::percent(log.unknown_size_share)
        );
    }
    text
}

fn popularity(log: &Description) -> String {
    let Some(once) = log.one_hit_share else { return String::new() };
    let fitted = match &log.popularity {
        Some(of) => format!(
            "zipf exponent {:.2} ± {:.2}, of the {} most read objects; the fit is off by up to {} of their reads",
            of.exponent,
            of.error,
            units::count(of.objects as f64),
            units::percent(of.misfit)
        ),
        None => "too few objects are read often enough for a zipf exponent".to_owned(),
    };
    format!("\npopularity: {fitted}\n{} of the objects that were read were read once\n", units::percent(once))
}

fn misses(log: &Description) -> String {
    let Some(first) = log.first_read_share else { return String::new() };
    let whole = if log.object_bytes.is_some() { "the bytes of all objects" } else { "all objects" };
    let mut text = format!(
        "\nreads that miss an LRU cache, by its memory as a share of {whole} (never less than the {} that are first reads)\n",
        units::percent(first)
    );
    for miss in &log.misses {
        let memory = units::exact_percent(miss.memory_share);
        let bytes = log.object_bytes.map_or(String::new(), |bytes| units::bytes(bytes * miss.memory_share));
        text += &format!("{memory:>6} {bytes:>9} {:>7}", units::percent(miss.miss_share));
        text += &if miss.error > 0.0 { format!(" ± {:.1}\n", miss.error * 100.0) } else { "\n".to_owned() };
    }
    text
}

fn rate(rate: &Rate) -> String {
    let day =
        |second: i64| Timestamp::from_second(second).map_or_else(|_| second.to_string(), |at| at.to_string());
    let mut text = format!(
        "\nfrom {} to {}: {} requests a second on average, {} in the busiest second, {} in the busiest minute; {} of the \
         seconds have none\n",
        day(rate.first_second),
        day(rate.last_second),
        units::count(rate.mean),
        units::count(rate.peak_second as f64),
        units::count(rate.peak_minute as f64),
        units::percent(rate.quiet_share)
    );
    if rate.out_of_order > 0 {
        text += &format!(
            "{} start more than a minute before an earlier one: the clock went back, or logs were joined; reuse is in the order of \
             the lines\n",
            units::counted(rate.out_of_order, "request")
        );
    }
    text
}

fn plan(log: &Description) -> String {
    if log.objects == 0.0 {
        return "\nit has no request that a run could replay\n".to_owned();
    }
    format!(
        "\nthe nearest synthetic plan (set --memory to what your server has: the log does not say)\n  {}\n",
        log.plan
    )
}
