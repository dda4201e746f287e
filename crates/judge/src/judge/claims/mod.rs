//! Verdicts on published claims, calculated from the rounds of a result with the same intervals as all other verdicts.
//!
//! A claim states the range of a quantity. It is confirmed if the whole interval lies in that range, refuted if all of
//! it lies outside, and undecided while the interval reaches across. Sub-claims of one claim are judged together:
//! Holm's procedure limits the probability of any false verdict among them to 5 %.

use std::borrow::Cow;

use super::interval::{CONFIDENCE, EQUAL_WITHIN};
use crate::plan::text::{Bound, ClaimText, DetailedOperand, ExpectedRange, Metric, Quantity};
use crate::result::{Claim, ClaimVerdict, Interval, Magnitude, RunResult};
use crate::rules::MAGNITUDE_FACTOR;
use crate::units;

mod quantity;
mod values;

pub use quantity::ratio;
use quantity::{QuantityEstimate, estimate, slack, unseen_failures};
use values::{comparable, is_unreached};

/// Reason why a single round is not judged.
const ONE_ROUND: &str = "There is one round only: nothing is known of repetition.";

/// Separator between a claim's id and the number of its part.
const PART: char = '.';

/// Returns the verdicts on all claims of the result's plan.
pub fn judge(result: &RunResult) -> Vec<Claim> {
    result.plan.claims(&result.successors()).iter().map(|claim| judged(result, claim)).collect()
}

/// Judges a claim with its sub-claims.
fn judged(result: &RunResult, claim: &ClaimText) -> Claim {
    let mut tree = ClaimTree::new(result, Cow::Borrowed(claim));
    let mut leaves = Vec::new();
    tree.leaves(&mut leaves);
    hold(leaves);
    tree.claim()
}

/// Summarizes the verdicts in one sentence, for readers in a hurry; `None` without claims.
pub fn in_a_hurry(result: &RunResult) -> Option<String> {
    if result.claims.is_empty() {
        return None;
    }
    let own: Vec<&Claim> = result.own_claims().collect();
    let source = result.plan.document.as_ref().map_or_else(
        || "Claims".to_owned(),
        |document| {
            let claims = units::counted(own.len(), "claim");
            format!("Then and now: {claims} of {} ({})", document.author, document.date)
        },
    );
    let in_place = result.successors().into_iter().filter_map(|successor| {
        let of_it = |claim: &&Claim| claim.in_place.as_ref() == Some(&successor.words);
        let claims: Vec<&Claim> = result.claims.iter().filter(of_it).collect();
        let counted = counted_by_verdict(&claims, &format!(" by {}", successor.candidate));
        (!claims.is_empty()).then(|| format!(" With {}: {counted}.", successor.words))
    });
    let in_place: String = in_place.collect();
    let scale = result.plan.scale.filter(|scale| *scale < 1.0);
    let scale = scale.map_or(String::new(), |scale| {
        let size = if result.plan.document.is_some() { "the published size" } else { "the size of its plan" };
        format!(" This run has {} of {size}: its verdicts are about that.", percent(scale))
    });
    let so_far = if result.complete {
        ""
    } else {
        " The run was ended early: these are verdicts on the rounds so far."
    };
    Some(format!("{source}: {}.{in_place}{scale}{so_far}", counted_by_verdict(&own, "")))
}

/// Lists the claims by verdict, with their ids; the common suffix `end` is removed from the ids.
fn counted_by_verdict(claims: &[&Claim], end: &str) -> String {
    let parts = [
        (ClaimVerdict::Confirmed, "confirmed on this machine"),
        (ClaimVerdict::Refuted, "refuted"),
        (ClaimVerdict::CannotTellApart, "neither, because intervals reach across or both sides are equal"),
        (ClaimVerdict::NotTestable, "not testable in this run"),
        (ClaimVerdict::NotReached, "not reached yet, because the run was ended before"),
    ]
    .map(|(verdict, words)| {
        let of_it = claims.iter().filter(|claim| claim.verdict == verdict);
        (of_it.map(|claim| claim.id.trim_end_matches(end)).collect::<Vec<&str>>(), words)
    });
    let parts = parts.iter().filter(|(ids, _)| !ids.is_empty());
    let parts: Vec<String> =
        parts.map(|(ids, words)| format!("{} {words} ({})", ids.len(), ids.join(", "))).collect();
    parts.join("; ")
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 1e4).round() / 100.0)
}

// ---- a claim and its sub-claims ------------------------------------------------------------------------------------

/// Claim being judged.
struct ClaimTree<'c> {
    text: Cow<'c, ClaimText>,
    parts: Vec<ClaimTree<'c>>,
    /// Measured quantity, or why it cannot be judged; `None` if the claim has sub-claims.
    leaf: Option<Result<ClaimedQuantity, UnjudgedReason>>,
}

/// Reason why a quantity cannot be judged.
struct UnjudgedReason {
    why: String,
    /// True if resuming the run may change that.
    not_reached: bool,
}

/// Measured quantity with its expected range.
struct ClaimedQuantity {
    estimate: QuantityEstimate,
    expect: ExpectedRange,
    is_ratio: bool,
    /// Confidence at which it was judged.
    confidence: f64,
    found: RangePosition,
}

/// Position of an interval relative to the expected range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangePosition {
    Inside,
    Outside,
    Across,
}

impl<'c> ClaimTree<'c> {
    fn new(result: &RunResult, text: Cow<'c, ClaimText>) -> ClaimTree<'c> {
        let parts: Vec<ClaimTree<'c>> =
            text.parts().into_iter().map(|part| ClaimTree::new(result, Cow::Owned(part))).collect();
        let leaf = match (&text.not_testable, parts.is_empty()) {
            (Some(why), _) => Some(Err(UnjudgedReason { why: why.clone(), not_reached: false })),
            (None, true) => Some(measured(result, &text).map_err(|why| {
                let targets: Vec<DetailedOperand> =
                    text.candidates.iter().map(|operand| text.target(operand)).collect();
                UnjudgedReason { why, not_reached: targets.iter().any(|target| is_unreached(result, target)) }
            })),
            (None, false) => None,
        };
        let parts = if leaf.is_some() { Vec::new() } else { parts };
        ClaimTree { text, parts, leaf }
    }

    /// Collects all quantities that can be judged.
    fn leaves<'t>(&'t mut self, all: &mut Vec<&'t mut ClaimedQuantity>) {
        if let Some(Ok(leaf)) = &mut self.leaf {
            all.push(leaf);
        }
        self.parts.iter_mut().for_each(|part| part.leaves(all));
    }

    fn claim(&self) -> Claim {
        let mut parts: Vec<Claim> = self.parts.iter().map(ClaimTree::claim).collect();
        let text = &self.text;
        if !text.order.is_empty() {
            // An order does not state how far apart its candidates are.
            parts.iter_mut().for_each(|part| part.magnitude = None);
        }
        let candidates: Vec<String> =
            text.candidates.iter().map(|candidate| candidate.candidate().to_owned()).collect();
        let mut claim = Claim {
            id: text.id.clone(),
            statement: statement(text, &candidates),
            candidates,
            published: text.published,
            today: None,
            unit: text.unit(),
            verdict: ClaimVerdict::NotTestable,
            magnitude: None,
            note: None,
            in_place: text.in_place.as_ref().map(|by| by.words.clone()),
            parts,
        };
        let mut notes = Vec::new();
        match &self.leaf {
            Some(Ok(leaf)) => leaf.tell(text, &mut claim, &mut notes),
            Some(Err(unjudged)) => {
                if unjudged.not_reached {
                    claim.verdict = ClaimVerdict::NotReached;
                }
                notes.push(unjudged.why.clone());
            }
            None => {
                let (verdict, note) = together(&claim.parts, text.is_any());
                claim.verdict = verdict;
                notes.push(note);
            }
        }
        if let Some(impossible) = text.impossible.as_ref().filter(|_| !text.id.contains(PART)) {
            notes.push(format!("The published figures are not held against today's: {impossible}"));
        }
        notes.extend(text.note.clone());
        let notes: Vec<String> = notes.iter().map(|note| sentence(note)).collect();
        claim.note = (!notes.is_empty()).then(|| notes.join(" "));
        claim
    }
}

/// Returns the text of a claim; for a sub-claim without one, its candidates and what is compared.
fn statement(text: &ClaimText, candidates: &[String]) -> String {
    if !text.statement.is_empty() {
        return text.statement.clone();
    }
    if candidates.is_empty() {
        return "all of its parts".to_owned();
    }
    let places: Vec<(String, String)> = text
        .candidates
        .iter()
        .map(|operand| {
            let target = text.target(operand);
            let order = [("after", target.after), ("before", target.before)];
            let order = order.into_iter().filter_map(|(word, other)| Some(format!("{word} {}", other?)));
            let measured = match target.metric {
                Some(Metric::Steps) => Some(target.steps.join(" and ")),
                other => other.and_then(beside_time).map(str::to_owned),
            };
            let at: Vec<String> =
                [target.phase, target.corpus, measured].into_iter().flatten().chain(order).collect();
            (target.candidate, if at.is_empty() { String::new() } else { format!(" ({})", at.join(", ")) })
        })
        .collect();
    match places.as_slice() {
        [(first, at), .., (last, _)]
            if places.len() > NAMED_MAX && places.iter().all(|place| place.1 == *at) =>
        {
            format!("{} candidates from {first} to {last}{at}", places.len())
        }
        _ => places
            .iter()
            .map(|(candidate, at)| format!("{candidate}{at}"))
            .collect::<Vec<String>>()
            .join(" against "),
    }
}

/// Returns the quantity compared by a sub-claim; `None` for op times.
fn beside_time(metric: Metric) -> Option<&'static str> {
    Some(match metric {
        Metric::Time | Metric::AcknowledgedTime | Metric::Steps => return None,
        Metric::Rate => "rate",
        Metric::TimeForABlob => "for a blob",
        Metric::FirstOp => "first op",
        Metric::P50 => "p50",
        Metric::P90 => "p90",
        Metric::P99 => "p99",
        Metric::P999 => "p99.9",
        Metric::Disk => "disk",
        Metric::Index => "index",
        Metric::Memory => "memory",
        Metric::DeviceRead => "read from the device",
        Metric::DeviceReads => "reads of the device",
        Metric::Requests => "requests",
        Metric::Received => "bytes received",
        Metric::FailedAttempts => "failed attempts",
    })
}

/// Above this number candidates are not listed one by one; the report lists them all.
const NAMED_MAX: usize = 4;

/// Adds a full stop unless the text ends a sentence.
fn sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// Combines the verdicts of the parts, with a note on what is missing. With `any`, one confirmed part is enough.
fn together(parts: &[Claim], any: bool) -> (ClaimVerdict, String) {
    let count = |verdict: ClaimVerdict| parts.iter().filter(|part| part.verdict == verdict).count();
    let (confirmed, refuted) = (count(ClaimVerdict::Confirmed), count(ClaimVerdict::Refuted));
    let of = |verdict: ClaimVerdict| parts.iter().filter(move |part| part.verdict == verdict);
    let untestable = of(ClaimVerdict::NotReached).chain(of(ClaimVerdict::NotTestable));
    let untestable: Vec<&Claim> = untestable.collect();
    let decided =
        if any { (confirmed > 0, refuted == parts.len()) } else { (confirmed == parts.len(), refuted > 0) };
    let verdict = match decided {
        (true, _) => ClaimVerdict::Confirmed,
        (_, true) => ClaimVerdict::Refuted,
        // Claims not reached yet take precedence over those that can never be tested.
        _ => untestable.first().map_or(ClaimVerdict::CannotTellApart, |part| part.verdict),
    };
    let mut note = format!("{confirmed} of {} parts confirmed, {refuted} refuted.", parts.len());
    if let Some(first) = untestable.first() {
        let why = first.note.clone().unwrap_or_default();
        note += &format!(" {} {}: {}", untestable.len(), first.verdict.name(), sentence(&why));
    }
    (verdict, note)
}

impl ClaimedQuantity {
    fn tell(&self, text: &ClaimText, claim: &mut Claim, notes: &mut Vec<String>) {
        let interval = self.estimate.interval(self.confidence);
        claim.today = Some(interval);
        claim.verdict = match self.found {
            RangePosition::Inside => ClaimVerdict::Confirmed,
            RangePosition::Outside => ClaimVerdict::Refuted,
            RangePosition::Across => ClaimVerdict::CannotTellApart,
        };
        if self.is_tie(&interval) {
            claim.verdict = ClaimVerdict::CannotTellApart;
            notes.push(
                "Today both are equal within 3 %: a difference that small is no side to take.".to_owned(),
            );
        }
        // The size of a refuted effect is irrelevant, and seconds on another machine are not compared with this run's.
        let is_apart = claim.verdict != ClaimVerdict::Refuted
            && text.quantity.unwrap_or_default() != Quantity::Difference
            && text.impossible.is_none();
        let within = text.magnitude.or_else(|| text.published.map(by_factor));
        claim.magnitude = within.filter(|_| is_apart).and_then(|within| magnitude(&interval, &within));
    }

    /// True if the claim is about the side of 1 on which a ratio lies, and the ratio is proved equal to 1 for practical
    /// purposes.
    fn is_tie(&self, interval: &Interval) -> bool {
        let is_one = |bound: Option<Bound>| bound.is_some_and(|bound| bound.value == 1.0);
        let sides = is_one(self.expect.low) || is_one(self.expect.high);
        let one_sided = self.expect.low.is_none() || self.expect.high.is_none();
        let equal = ExpectedRange { equal: true, ..ExpectedRange::default() };
        self.is_ratio && sides && one_sided && place(interval, &equal) == RangePosition::Inside
    }
}

/// Range of figures that are about as large as a published one.
fn by_factor(published: f64) -> ExpectedRange {
    let (one, other) = (published / MAGNITUDE_FACTOR, published * MAGNITUDE_FACTOR);
    ExpectedRange { low: Some(one.min(other).into()), high: Some(one.max(other).into()), equal: false }
}

/// Compares this run's figure with the range of the published one. `None` without an interval.
fn magnitude(today: &Interval, within: &ExpectedRange) -> Option<Magnitude> {
    today.low.zip(today.high)?;
    Some(match place(today, within) {
        RangePosition::Inside => Magnitude::Holds,
        RangePosition::Outside => Magnitude::Refuted,
        RangePosition::Across => Magnitude::Open,
    })
}

// ---- where an interval lies ----------------------------------------------------------------------------------------

fn place(interval: &Interval, expect: &ExpectedRange) -> RangePosition {
    let (Some(low), Some(high)) = (interval.low, interval.high) else { return RangePosition::Across };
    let equal = (1.0 - EQUAL_WITHIN, 1.0 + EQUAL_WITHIN);
    let value = |bound: Option<Bound>, or: f64| bound.map_or(or, |bound| bound.value);
    let or = |(low, high): (f64, f64)| (value(expect.low, low), value(expect.high, high));
    // The claim is confirmed inside `from..to` and refuted outside `least..most`.
    let (from, to) = if expect.equal { equal } else { or((f64::NEG_INFINITY, f64::INFINITY)) };
    let (least, most) = if expect.equal { or(equal) } else { (from, to) };
    if low >= from && high <= to {
        RangePosition::Inside
    } else if high < least || low > most {
        RangePosition::Outside
    } else {
        RangePosition::Across
    }
}

/// Judges quantities together by Holm's procedure: the most certain one at the strictest confidence, and none after the
/// first that stays undecided.
fn hold(mut leaves: Vec<&mut ClaimedQuantity>) {
    leaves.sort_by(|a, b| a.warning().total_cmp(&b.warning()));
    // Number of quantities still undecided; it stays the same after the first that is not decided.
    let mut left = leaves.len();
    let mut still = true;
    for leaf in leaves {
        leaf.confidence = 1.0 - (1.0 - CONFIDENCE) / left as f64;
        let found = place(&leaf.estimate.interval(leaf.confidence), &leaf.expect);
        still &= found != RangePosition::Across;
        if still {
            (leaf.found, left) = (found, left - 1);
        }
    }
}

impl ClaimedQuantity {
    /// Returns the smallest error probability at which the quantity would be decided.
    fn warning(&self) -> f64 {
        let decided = |warning: f64| {
            place(&self.estimate.interval(1.0 - warning), &self.expect) != RangePosition::Across
        };
        // Bisects on a logarithmic scale, because the order of small probabilities matters.
        let (mut low, mut high) = (-30.0_f64, 0.0_f64);
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if decided(middle.exp()) { high = middle } else { low = middle }
        }
        high.exp()
    }
}

/// Measures the quantity of a claim; an error explains why that is not possible.
fn measured(result: &RunResult, text: &ClaimText) -> Result<ClaimedQuantity, String> {
    let quantity = text.quantity.unwrap_or_default();
    let targets: Vec<DetailedOperand> = text.candidates.iter().map(|operand| text.target(operand)).collect();
    comparable(result, &targets)?;
    let estimate = estimate(result, quantity, &targets)?
        .on_ladders(slack(result, &targets)?)?
        .with_unseen_failures(unseen_failures(result, &targets)?);
    let interval = estimate.interval(CONFIDENCE);
    if !interval.median.is_finite() {
        return Err("What was measured is not a number.".to_owned());
    }
    if interval.low.is_none() {
        return Err(ONE_ROUND.to_owned());
    }
    Ok(ClaimedQuantity {
        estimate,
        expect: text.expect.unwrap_or_default(),
        is_ratio: !matches!(quantity, Quantity::Difference | Quantity::Slope | Quantity::Value),
        confidence: CONFIDENCE,
        found: RangePosition::Across,
    })
}

#[cfg(test)]
mod tests;
