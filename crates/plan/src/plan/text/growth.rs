//! A growth: a store that is filled step by step, and measured at each step.

use anyhow::{Result, bail, ensure};

use super::values::check_excluded;
use super::{Action, Class, Length, OpKind, Phase, PlanText, Role, Workload, part_of};
use crate::corpus::BLOBS_MAX;
use crate::rules::{GROWTH_STEPS_MIN, SHORT_OPS};

pub(super) const GROWTH_PHASES: &[&str] =
    &["fill", "read-warm", "read-cold", "overwrite", "delete-some", "list-all", "reopen"];

const BLOBS_MIN: u64 = 10;
/// Number of reads of a phase at each step, except cold ones, which need an eviction for every few.
const READS: u64 = 10_000;
/// Maximum ratio of the number of blobs that is extrapolated to, to that of the last step.
const EXPECT_TIMES_MAX: u64 = 100;

/// Parses a number of blobs: `300`, `10k` or `1M`.
fn number(flag: &str, text: &str) -> Result<u64> {
    let text = text.trim();
    let (digits, times) = match (text.strip_suffix('k'), text.strip_suffix('M')) {
        (Some(digits), _) => (digits, 1_000),
        (_, Some(digits)) => (digits, 1_000_000),
        (None, None) => (text, 1),
    };
    match digits.parse::<u64>().ok().and_then(|number| number.checked_mul(times)) {
        Some(number) => Ok(number),
        None => bail!("{flag}: `{text}` is not a number of blobs such as 300, 10k or 1M"),
    }
}

/// Parses the steps of a growth in ascending order: a range (`1k..1M`), whose steps are about half a decade apart, or a list
/// (`1k,5k,20k`).
pub(super) fn steps(text: &str) -> Result<Vec<u64>> {
    let blobs = |part: &str| -> Result<u64> {
        let blobs = number("--grow", part)?;
        let is_within = (BLOBS_MIN..=BLOBS_MAX).contains(&blobs);
        ensure!(is_within, "--grow: `{text}`: {blobs} is not between {BLOBS_MIN} and {BLOBS_MAX} blobs");
        Ok(blobs)
    };
    let mut steps = match text.split_once("..") {
        None => text.split(',').map(blobs).collect::<Result<Vec<u64>>>()?,
        Some((from, to)) => {
            let (from, to) = (blobs(from)?, blobs(to)?);
            ensure!(
                from < to,
                "--grow: `{text}` must go from a number of blobs to a larger one, such as 1k..1M"
            );
            let times = to as f64 / from as f64;
            let count = (times.log10() * 2.0).round().max(1.0);
            let between = |step: u32| one_digit(from as f64 * times.powf(f64::from(step) / count));
            let inner = (1..count as u32).map(between);
            std::iter::once(from).chain(inner).chain(std::iter::once(to)).collect()
        }
    };
    steps.sort_unstable();
    steps.dedup();
    ensure!(steps.len() > 1, "--grow: `{text}`: one step shows no change; give two or more, such as 1k..1M");
    Ok(steps)
}

fn one_digit(value: f64) -> u64 {
    let digit = 10_f64.powf(value.log10().floor());
    ((value / digit).round() * digit).round() as u64
}

/// Checks the keys of a growth, and returns the number of blobs to extrapolate to.
pub(super) fn checked(text: &PlanText) -> Result<Option<u64>> {
    let Some(grow) = &text.grow else {
        ensure!(text.expect.is_none(), "--expect: needs --grow, such as `--grow 1k..1M`");
        return Ok(None);
    };
    let corpus = text.corpus.clone().unwrap_or_default();
    let others = [
        ("--sweep", text.sweep.is_some()),
        ("--memory-sweep", text.memory_sweep.is_some()),
        ("--memory", text.memory.as_deref().is_some_and(|memory| memory.trim() != "none")),
        ("--limit", text.limit.is_some()),
        ("--rate", text.rate.is_some()),
        ("--scale", text.scale.is_some_and(|scale| scale != 1.0)),
        ("--batch", text.batch.is_some_and(|batch| batch > 1)),
        ("--files", corpus.files.is_some()),
        ("--trace", text.has_log()),
        ("--blobs", corpus.blobs.is_some()),
        ("--corpus-bytes", corpus.bytes.is_some()),
        ("corpora", !text.corpora.is_empty()),
        ("fill_order = \"random\"", text.fill_order.is_some_and(|order| order == super::FillOrder::Random)),
    ];
    check_excluded("--grow", &others)?;
    let steps = steps(grow)?;
    let Some(expect) = &text.expect else { return Ok(None) };
    ensure!(
        steps.len() >= GROWTH_STEPS_MIN,
        "--expect: needs {GROWTH_STEPS_MIN} steps of --grow, and `{grow}` has {}, such as 1k..100k or 1k,3k,10k,20k,30k",
        steps.len()
    );
    let most = steps.last().copied().unwrap_or(0);
    let (blobs, farthest) = (number("--expect", expect)?, most * EXPECT_TIMES_MAX);
    ensure!(
        most < blobs && blobs <= farthest,
        "--expect: `{expect}` is not above the last step of --grow, {most} blobs, and at most {farthest}"
    );
    Ok(Some(blobs))
}

/// Repeats phases, the fill first, at each step of a growth. The fill puts the blobs that the step adds, and all other phases do
/// the same number of ops at every step.
pub(super) fn phases(grow: &str, phases: &[Phase]) -> Result<Vec<Phase>> {
    for phase in phases {
        if let Some(why) = unfit(phase) {
            bail!("--grow: cannot repeat the phase `{}`, because {why}; leave it out of --phases", phase.id);
        }
    }
    let mut all: Vec<Phase> = Vec::new();
    let mut before = 0;
    for blobs in steps(grow)? {
        all.extend(phases.iter().map(|phase| at(phase, blobs, blobs - before)));
        before = blobs;
    }
    // Later segments of the fill are measured like any other phase.
    all.iter_mut().skip(1).for_each(|phase| phase.role = Role::Measured);
    Ok(all)
}

/// Returns a phase at the step of this many blobs, of which the fill adds `added`.
fn at(phase: &Phase, blobs: u64, added: u64) -> Phase {
    let mut step = Phase { grown_to: Some(blobs), ..phase.part(blobs as u32) };
    let (fills, is_cold) = (phase.is_fill(), phase.cache.is_cold());
    if step.class == Class::Fill {
        step.class = Class::Load;
    }
    if let Some(load) = step.load_mut() {
        load.length = match load.length {
            _ if fills => Length::Ops(added),
            Length::Pilot if load.only_reads() && !is_cold => Length::Ops(READS),
            Length::Pilot => Length::Ops(SHORT_OPS),
            length => length,
        };
    }
    step
}

fn unfit(phase: &Phase) -> Option<&'static str> {
    let adds = |load: &Workload| load.mix.iter().any(|(kind, _)| *kind == OpKind::Put || kind.is_upload());
    let has_count = |load: &Workload| matches!(load.length, Length::Pilot | Length::Ops(_));
    if phase.only_prepares() || part_of(&phase.id).is_some() {
        return Some("it has parts or only prepares others");
    }
    if phase.memory.is_some() {
        return Some("it limits memory");
    }
    match &phase.action {
        Action::RateLadder(_) => Some("it offers rates"),
        Action::Custom(action) => action.writes.then_some("it rewrites the whole store"),
        Action::Ops(load) if load.rate.is_some() => Some("it offers a rate"),
        Action::Ops(load) if load.batch.is_some_and(|batch| batch > 1) => Some("it has batches"),
        Action::Ops(load) if phase.is_fill() => (!load.puts_all()).then_some("it does not put every blob"),
        Action::Ops(load) if adds(load) => Some("it adds blobs of its own"),
        Action::Ops(load) => (!has_count(load)).then_some("its number of ops grows with the blobs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_half_a_decade_apart_or_those_of_a_list() {
        assert_eq!(steps("1k..1M").unwrap(), [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000]);
        assert_eq!(steps("100..1k").unwrap(), [100, 300, 1_000]);
        assert_eq!(steps("2k..5k").unwrap(), [2_000, 5_000]);
        assert_eq!(steps("20k, 1k,5k").unwrap(), [1_000, 5_000, 20_000]);
        for (wrong, words) in [
            ("10..1", "1 is not between 10 and"),
            ("1k..100", "must go from a number of blobs to a larger one"),
            ("1k", "one step shows no change"),
            ("1kB..1MB", "`1kB` is not a number of blobs"),
            ("1k..1000M", "1000000000 is not between 10 and"),
            ("", "`` is not a number of blobs"),
        ] {
            let error = steps(wrong).unwrap_err().to_string();
            assert!(error.contains(words), "{wrong}: {error}");
        }
    }
}
