//! Predicts which claims of a plan a run of its size can test, before anything is started.

use crate::corpus::{Corpus, CorpusId};
use crate::judge::{LEAST_SECONDS, ranking};
use crate::plan::{ClaimText, DetailedOperand, Metric, Plan, whole_of};
use crate::result::Fixed;
use crate::rules::{OPS_BEYOND_PERCENTILE_MIN, ROUNDS_MIN};
use crate::units;

use super::pilot::full_lengths;

/// Why a claim cannot be tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UntestableReason {
    /// The run is too small, for the given reason.
    Size(String),
    /// A larger run would not help: a candidate or phase is missing, or the plan says that the claim is not testable.
    Other,
}

/// Returns the id of each claim with what prevents a test of it; `None` if it can be tested, as far as the lengths of phases
/// tell. The plan must have no budget.
pub fn foreseen(plan: &Plan, corpora: &[Corpus]) -> Vec<(String, Option<UntestableReason>)> {
    let ids = plan.corpora.iter().map(|corpus| corpus.corpus_id);
    let blobs: Vec<(u64, CorpusId)> = corpora.iter().map(Corpus::blobs).zip(ids).collect();
    of_lengths(plan, &full_lengths(plan, &blobs))
}

/// Returns the same for phases of these lengths.
pub fn of_lengths(plan: &Plan, fixed: &Fixed) -> Vec<(String, Option<UntestableReason>)> {
    plan.text.claim.iter().map(|claim| (claim.id.clone(), lack_of(plan, fixed, claim))).collect()
}

/// Returns how many claims can be tested, as a clause, and why a run of this size cannot test others.
pub fn summarize(claims: &[(String, Option<UntestableReason>)]) -> (String, Vec<String>) {
    let testable = claims.iter().filter(|(_, lack)| lack.is_none()).count();
    let too_small = claims.iter().filter_map(|(id, lack)| match lack {
        Some(UntestableReason::Size(why)) => Some((why, id.as_str())),
        _ => None,
    });
    let why = units::grouped(too_small).into_iter().map(|(why, ids)| format!("{why} ({})", ids.join(", ")));
    (format!("{testable} of {} can be tested", units::counted(claims.len(), "claim")), why.collect())
}

fn lack_of(plan: &Plan, fixed: &Fixed, claim: &ClaimText) -> Option<UntestableReason> {
    if claim.not_testable.is_some() {
        return Some(UntestableReason::Other);
    }
    let parts = claim.parts();
    if parts.is_empty() {
        return of_quantity(plan, fixed, claim);
    }
    let lacks: Vec<Option<UntestableReason>> = parts.iter().map(|part| lack_of(plan, fixed, part)).collect();
    if claim.is_any() && lacks.iter().any(Option::is_none) {
        return None;
    }
    // Prefers a reason that a larger run would remove.
    let mut lacks: Vec<UntestableReason> = lacks.into_iter().flatten().collect();
    lacks.sort_by_key(|lack| *lack == UntestableReason::Other);
    lacks.into_iter().next()
}

fn of_quantity(plan: &Plan, fixed: &Fixed, claim: &ClaimText) -> Option<UntestableReason> {
    let targets: Vec<DetailedOperand> =
        claim.candidates.iter().map(|operand| claim.target(operand)).collect();
    let is_there = |target: &DetailedOperand| plan.candidates.iter().any(|of| of.label == target.candidate);
    let cells: Vec<Vec<String>> = targets.iter().map(|target| lengths_of(plan, target)).collect();
    if !targets.iter().all(is_there) || cells.iter().any(Vec::is_empty) {
        return Some(UntestableReason::Other);
    }
    if fixed.rounds < ROUNDS_MIN {
        return Some(UntestableReason::Size("one round says nothing of repetition".to_owned()));
    }
    targets
        .iter()
        .zip(&cells)
        .find_map(|(target, keys)| too_short(fixed, target, keys))
        .map(UntestableReason::Size)
}

/// Returns the keys in `Fixed::lengths` of the phases that a figure is about: its phase or all parts of it, on its corpus. A
/// figure without a phase is about all phases.
fn lengths_of(plan: &Plan, target: &DetailedOperand) -> Vec<String> {
    let is_meant =
        |id: &str| target.phase.as_deref().is_none_or(|phase| id == phase || whole_of(id) == phase);
    let mut keys = Vec::new();
    for corpus in &plan.corpora {
        if target.corpus.is_none() || target.corpus == corpus.name {
            let phases = plan.phases_of(corpus.corpus_id).filter(|phase| is_meant(&phase.id));
            keys.extend(phases.map(|phase| corpus.corpus_id.key(&phase.id)));
        }
    }
    keys
}

/// Returns why a figure will have too few ops, if that can be predicted.
fn too_short(fixed: &Fixed, target: &DetailedOperand, keys: &[String]) -> Option<String> {
    let metric = target.metric.unwrap_or_default();
    if !metric.is_of_time() || target.phase.is_none() {
        return None;
    }
    let lengths = || keys.iter().filter_map(|key| fixed.lengths.get(key));
    let ops: u64 = lengths().map(|length| length.ops).sum();
    let seconds: f64 = lengths().map(|length| length.seconds).sum();
    let told = format!("{} of `{}`", units::counted(ops, "op"), target.phase.as_deref().unwrap_or_default());
    let beyond = match metric {
        Metric::P50 => 0.5,
        Metric::P90 => 0.1,
        Metric::P99 => 0.01,
        Metric::P999 => 0.001,
        _ => 1.0,
    };
    // Phases that are limited by time have an unknown number of ops.
    if ops as f64 * beyond < OPS_BEYOND_PERCENTILE_MIN && beyond < 1.0 && seconds == 0.0 {
        return Some(format!("{told} are too few for a percentile"));
    }
    // Durations are unknown too, and over enough rounds the least one ([`LEAST_SECONDS`]) suffices: assume that.
    let is_enough = ranking::is_long_enough(ops as f64, seconds.max(LEAST_SECONDS), u64::from(fixed.rounds));
    (!is_enough).then(|| format!("{told} in {} are too few", units::counted(fixed.rounds, "round")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::work::resolved;

    const CLAIMS: &str = "
        stores = ['files/flat', 'files/hashed']
        phases = ['fill', 'read-warm', 'overwrite']
        [corpus]
        source = 'fixed:1kB'
        blobs = 1000
        [[claim]]
        id = 'A'
        statement = 's'
        phase = 'overwrite'
        candidates = ['files/flat', 'files/hashed']
        expect = {low = 1.0}
        [[claim]]
        id = 'B'
        statement = 's'
        phase = 'overwrite'
        candidates = ['files/flat', 'sqlite']
        expect = {low = 1.0}
        [[claim]]
        id = 'C'
        statement = 's'
        phase = 'fill'
        metric = 'disk'
        candidates = ['files/flat', 'files/hashed']
        expect = {low = 1.0}
        [[claim]]
        id = 'D'
        statement = 's'
        candidates = ['files/flat', 'files/hashed']
        expect = {low = 1.0}
        phase = 'overwrite'
        metric = 'p99'
        ";

    /// One sign for each claim: `+` can be tested, `<` the run is too small, `-` never.
    fn said(more: &str) -> String {
        let plan = resolved(&format!("{more}\n{CLAIMS}"));
        let corpora: Vec<Corpus> =
            plan.corpora.iter().map(|corpus| Corpus::build(&corpus.request).unwrap()).collect();
        let sign = |(_, lack): (String, Option<UntestableReason>)| match lack {
            None => '+',
            Some(UntestableReason::Size(_)) => '<',
            Some(UntestableReason::Other) => '-',
        };
        foreseen(&plan, &corpora).into_iter().map(sign).collect()
    }

    #[test]
    fn what_is_too_small_to_be_tested_is_told_from_what_is_not_there() {
        // A percentile of 99 needs ten ops beyond it.
        assert_eq!(said("rounds = 10"), "+-+<");
        assert_eq!(said("rounds = 1"), "<-<<");
        assert_eq!(said("scale = 0.01"), "<-+<");
        assert_eq!(said("scale = 0.01\nrounds = 5"), "+-+<");
        assert_eq!(said("scale = 0.5\nrounds = 2"), "+-+<");
    }
}
