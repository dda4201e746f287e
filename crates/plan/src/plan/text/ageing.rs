//! Ageing: a store whose blobs are replaced step by step, and that is read at each step.

use anyhow::{Result, bail, ensure};

use super::phases::parse_order;
use super::values::check_excluded;
use super::{Action, Order, Phase, PlanText, part_of};

pub(super) const AGEING_PHASES: &[&str] = &["fill", "read-warm", "read-cold"];
/// Standard phase that replaces blobs up to a step.
pub(super) const OVERWRITES: &str = "age";

/// First step of a range above 0, in percent; each later one is twice the one before.
const STEP_MIN: u64 = 50;
const PERCENT_MAX: f64 = 10_000.0;

/// Parses the steps of ageing in percent of the live bytes, in ascending order: a range (`0..8`), whose ages double from 0.5 on, or
/// a list (`0,1,4`).
fn steps(text: &str) -> Result<Vec<u64>> {
    let age = |part: &str| -> Result<u64> {
        let part = part.trim();
        let percent = part.parse::<f64>().map_or(f64::NAN, |age| age * 100.0);
        let is_age = (0.0..=PERCENT_MAX).contains(&percent) && (percent - percent.round()).abs() < 1e-6;
        ensure!(
            is_age,
            "--age: `{text}`: `{part}` is not an age from 0 to 100 with at most two decimals, such as 0.5 or 4"
        );
        Ok(percent.round() as u64)
    };
    let mut steps = match text.split_once("..") {
        None => text.split(',').map(age).collect::<Result<Vec<u64>>>()?,
        Some((from, to)) => {
            let (from, to) = (age(from)?, age(to)?);
            ensure!(from < to, "--age: `{text}` must go from an age to a higher one, such as 0..8");
            let doubled = std::iter::successors(Some(STEP_MIN), |step| Some(step * 2));
            let inner = doubled.take_while(|step| *step < to).filter(|step| *step > from);
            std::iter::once(from).chain(inner).chain(std::iter::once(to)).collect()
        }
    };
    steps.sort_unstable();
    steps.dedup();
    ensure!(steps.len() > 1, "--age: `{text}`: one age shows no change; give two or more, such as 0..8");
    Ok(steps)
}

/// How ageing replaces blobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replacement {
    /// True if a blob is deleted and another is put; false if it is overwritten.
    pub turnover: bool,
    /// Order of the blobs that are replaced: uniform or zipfian.
    pub order: Order,
}

impl Default for Replacement {
    fn default() -> Replacement {
        Replacement { turnover: false, order: Order::Uniform }
    }
}

impl std::str::FromStr for Replacement {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Replacement> {
        let (way, order) = text.split_once(',').unwrap_or((text, "uniform"));
        let is_drawn = |order: &Order| matches!(order, Order::Uniform | Order::Zipfian(_));
        let order = parse_order(order.trim()).ok().filter(is_drawn);
        match (way.trim(), order) {
            ("overwrite", Some(order)) => Ok(Replacement { turnover: false, order }),
            ("turnover", Some(order)) => Ok(Replacement { turnover: true, order }),
            _ => bail!(
                "--age-by: `{text}` is not `overwrite` or `turnover`, alone or with an order, such as `turnover,zipfian:0.99`"
            ),
        }
    }
}

/// Returns how the phases of a plan that age its stores replace blobs.
pub(super) fn replacement(text: &PlanText, phases: &[Phase]) -> Result<Replacement> {
    let Some(by) = &text.age_by else { return Ok(Replacement::default()) };
    let has_ageing = phases.iter().any(|phase| phase.custom_action().is_some_and(|action| action.ages));
    ensure!(has_ageing, "--age-by: `{by}` is for stores that age; give --age too, such as --age 0..8");
    by.parse()
}

pub(super) fn check(text: &PlanText) -> Result<()> {
    if text.age.is_none() {
        return Ok(());
    }
    let others = [
        ("--grow", text.grow.is_some()),
        ("--sweep", text.sweep.is_some()),
        ("--memory-sweep", text.memory_sweep.is_some()),
        ("--limit", text.limit.is_some()),
        ("--rate", text.rate.is_some()),
        ("--trace", text.has_log()),
        ("corpora", !text.corpora.is_empty()),
    ];
    check_excluded("--age", &others)
}

/// Repeats phases, except the fill, at each step of ageing, after a phase like `overwrites` that replaces blobs up to it. What
/// undoes ageing comes after the last step, and the phases once more after it.
pub(super) fn phases(age: &str, phases: &[Phase], overwrites: &Phase) -> Result<Vec<Phase>> {
    let (fill, others): (Vec<&Phase>, Vec<&Phase>) = phases.iter().partition(|phase| phase.is_fill());
    let renews = |phase: &&Phase| phase.custom_action().is_some_and(|action| action.renews);
    let (renewals, reads): (Vec<&Phase>, Vec<&Phase>) = others.into_iter().partition(renews);
    // At an offered rate, the time per op is that of the offer.
    let is_offered = |phase: &Phase| phase.climbs() || phase.load().is_some_and(|load| load.rate.is_some());
    let is_unfit = |phase: &&&Phase| phase.writes() || is_offered(phase) || part_of(&phase.id).is_some();
    if let Some(phase) = reads.iter().find(is_unfit) {
        bail!(
            "--age: cannot repeat the phase `{}`, because it writes, offers rates or has parts; leave it out of --phases",
            phase.id
        );
    }
    let overwrites = Phase { id: OVERWRITES.to_owned(), about: None, ..overwrites.clone() };
    let mut all: Vec<Phase> = fill.into_iter().cloned().collect();
    for percent in steps(age)? {
        let ageing = (percent > 0).then_some(&overwrites);
        all.extend(ageing.into_iter().chain(reads.iter().copied()).map(|phase| at(phase, percent)));
    }
    for renewal in renewals {
        all.push(renewal.clone());
        all.extend(reads.iter().map(|phase| phase.after(&renewal.id)));
    }
    Ok(all)
}

fn at(phase: &Phase, percent: u64) -> Phase {
    let mut step = Phase { aged_to: Some(percent), ..phase.part(percent as u32) };
    if let Action::Custom(action) = &mut step.action
        && action.ages
    {
        action.amount = percent as f64 / 100.0;
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_double_or_are_those_of_a_list() {
        assert_eq!(steps("0..8").unwrap(), [0, 50, 100, 200, 400, 800]);
        assert_eq!(steps("0.25..3").unwrap(), [25, 50, 100, 200, 300]);
        assert_eq!(steps("4, 0,0.5").unwrap(), [0, 50, 400]);
        for (wrong, words) in [
            ("8..0", "must go from an age to a higher one"),
            ("4", "one age shows no change"),
            ("0..101", "`101` is not an age from 0 to 100"),
            ("-1..4", "`-1` is not an age"),
            ("0..0.001", "`0.001` is not an age"),
            ("0..nan", "`nan` is not an age"),
            ("", "`` is not an age"),
        ] {
            let error = steps(wrong).unwrap_err().to_string();
            assert!(error.contains(words), "{wrong}: {error}");
        }
    }
}
