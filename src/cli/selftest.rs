//! `blobwise selftest`: measures the overhead of the harness, and how often it is wrong.

mod forked;
mod slowed;
mod trials;

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use self::trials::TrialKind;
use super::progress::ProgressBar;
use super::run::with_members;
use super::signals::Signals;
use super::{CommandOutcome, print};
use crate::engine::null_loop::NullLoop;
use crate::engine::parts::{self, PartCost};
use crate::engine::workers::clock::HostClock;
use crate::host::machine;
use crate::judge::interval::{CONFIDENCE, Moments, t_two_sided};
use crate::plan::{some_names, split_list};
use crate::units;

#[derive(Debug, Args)]
pub struct SelftestFlags {
    /// Compare equal candidates: how often are they called different?
    #[arg(long, conflicts_with = "ab")]
    aa: bool,
    /// Compare with a slower candidate: how often is it found?
    #[arg(long)]
    ab: bool,
    /// Slow the candidate of --ab by this much [default: 10%]
    #[arg(long, value_name = "PERCENT%", requires = "ab")]
    slower: Option<String>,
    /// Compare these stores with themselves [default: files/hashed,sqlite]
    ///
    /// With --aa; names as in `blobwise run`
    #[arg(long, value_name = "LIST", requires = "aa", conflicts_with = "ab", value_parser = some_names)]
    stores: Option<String>,
    /// Make this many comparisons of each store, or rounds
    ///
    /// Comparisons with --aa and --ab, rounds without them
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    trials: u32,
    /// Limit the memory of candidates of --aa or --ab
    ///
    /// As in `blobwise run`; the corpus is larger then
    #[arg(long, value_name = "BYTES|PERCENT%")]
    memory: Option<String>,
    /// Run the candidates of --aa or --ab in this directory
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// Maximum cost of an op of the null store in nanoseconds; above it, the harness would hide fast stores.
const WHOLE_NS_MAX: f64 = 100.0;
/// Next goal for that cost.
const WHOLE_NS_NEXT: f64 = 60.0;
/// Ops of the short run of the memory test; the long one has a hundred times as many. A debug build takes ten times as long for each.
const FEW_OPS: u64 = if cfg!(debug_assertions) { 10_000 } else { 100_000 };
/// Allowed difference in peak memory between the two, for the allocator's rounding: a hundredth of a byte per op.
const GROWTH_BYTES_MAX: u64 = 100_000;

pub fn main(flags: &SelftestFlags) -> Result<CommandOutcome> {
    let signals = Signals::listen()?;
    let slower = slower(flags)?;
    slowed::ask(slower);
    let stores = flags.stores.as_deref().map(|stores| with_members(split_list(stores))).transpose()?;
    let conditions = trials::Conditions { dir: &flags.dir, memory: flags.memory.as_deref(), stores, slower };
    let trials = |kind| trials::main(kind, flags.trials, &conditions, &signals);
    let met = match (flags.aa, flags.ab) {
        (true, _) => trials(TrialKind::Equal)?,
        (_, true) => trials(TrialKind::Slowed)?,
        _ if flags.memory.is_some() => bail!("--memory: is for --aa and --ab"),
        _ => cost(flags.trials, &signals)?,
    };
    Ok(match (signals.received(), met) {
        (Some(signal), _) => CommandOutcome::Stopped(signal),
        (None, true) => CommandOutcome::Well,
        (None, false) => CommandOutcome::Failed,
    })
}

fn slower(flags: &SelftestFlags) -> Result<f64> {
    let Some(text) = &flags.slower else { return Ok(slowed::SHARE) };
    let share = units::parse_share(text).context("--slower")?;
    if !(0.01..=1.0).contains(&share) {
        bail!("--slower: `{text}` is not between 1% and 100%");
    }
    Ok(share)
}

/// Measures the cost of an op of the null store, and returns true if the goals are met.
fn cost(rounds: u32, signals: &Signals) -> Result<bool> {
    let clock = HostClock::best();
    let bar = ProgressBar::new(false);
    let parts = parts::measure(&clock, rounds, signals.stop(), &|round| {
        bar.now_and_then(round as usize, rounds as usize, &format!("round {round}/{rounds}"));
    })?;
    bar.clear();
    let mut text = format!(
        "What the harness costs: gets of the null store, ns an op (best of {} passes a round, {} rounds;\n\
         95 % intervals). Clock: {}, {:.1} ns a reading.\n\n",
        parts::PASSES,
        parts.whole.ns.len(),
        clock.name(),
        clock.read_ns()
    );
    for part in &parts.parts {
        writeln!(text, "{}", line(part, "+"))?;
    }
    writeln!(text, "{}\n", line(&parts.whole, "="))?;
    text += "Larger and more varied blobs, on top of it:\n";
    for part in &parts.beyond {
        writeln!(text, "{}", line(part, "+"))?;
    }
    let whole = Moments::from_values(&parts.whole.ns).map_or(f64::INFINITY, |moments| moments.mean);
    let growth = growth(&clock, u64::from(rounds.min(100)) * FEW_OPS, whole)?;
    let cheap = whole <= WHOLE_NS_MAX;
    let next = if whole <= WHOLE_NS_NEXT { "reached" } else { "not reached yet" };
    writeln!(
        text,
        "\ngoal: at most {WHOLE_NS_MAX:.0} ns an op, going on to {WHOLE_NS_NEXT:.0}: {whole:.1} ns, {}; {next}",
        met(cheap)
    )?;
    let flat = growth.bytes.is_none_or(|bytes| bytes <= GROWTH_BYTES_MAX);
    writeln!(text, "goal: memory does not grow with the number of ops: {}", growth.text(flat))?;
    let (of_fork, is_fork_met) = forked::cost(&clock)?;
    writeln!(text, "{of_fork}")?;
    print(&text)?;
    Ok(cheap && flat && is_fork_met)
}

fn met(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

fn line(part: &PartCost, sign: &str) -> String {
    let Some(moments) = Moments::from_values(&part.ns) else { return String::new() };
    let half = t_two_sided(CONFIDENCE, moments.degrees.max(1.0)) * moments.error;
    let interval = match moments.degrees {
        0.0 => String::new(),
        _ => format!(" [{:.1}, {:.1}]", moments.mean - half, moments.mean + half),
    };
    format!("  {sign} {:<50} {:>7.1}{interval}", part.name, moments.mean)
}

struct Growth {
    few: u64,
    many: u64,
    bytes: Option<u64>,
}

impl Growth {
    fn text(&self, flat: bool) -> String {
        let (few, many) = (units::count(self.few as f64), units::count(self.many as f64));
        match self.bytes {
            Some(bytes) => {
                format!(
                    "peak after {many} ops {} above that after {few}, {}",
                    units::bytes(bytes as f64),
                    met(flat)
                )
            }
            None => "not measurable here: the kernel does not reset the peak".to_owned(),
        }
    }
}

/// Compares the peak memory of short and long runs of the null store, in pairs. Memory that grows with the ops shows in every
/// pair; what the allocator keeps for the next run, such as a thread's arena, shows only in one. Hence the minimum is returned.
fn growth(clock: &HostClock, many_ops: u64, ns_per_op: f64) -> Result<Growth> {
    const PAIRS: usize = 4;
    let null_loop = NullLoop::new(FEW_OPS, 64)?;
    let peak = |seconds: f64| -> Result<(u64, Option<u64>)> {
        machine::give_back_memory();
        let reset = machine::reset_peak();
        let ops = null_loop.read(clock, seconds)?.ops;
        Ok((ops, machine::peak_bytes().filter(|_| reset)))
    };
    // More than one pass, because the first pass has its own histograms.
    let short = 2.0 * FEW_OPS as f64 * ns_per_op / 1e9;
    let mut long = many_ops as f64 * ns_per_op / 1e9;
    let mut pairs: Vec<Growth> = Vec::new();
    while pairs.len() < PAIRS {
        let (few, before) = peak(short)?;
        let (many, after) = peak(long)?;
        if many < many_ops {
            // The processor was faster than before.
            long *= 1.5;
            continue;
        }
        let bytes = before.zip(after).map(|(before, after)| after.saturating_sub(before));
        pairs.push(Growth { few, many, bytes });
    }
    pairs.into_iter().min_by_key(|pair| pair.bytes).context("no pair of runs was made")
}
