//! Verdicts on published claims: from the rounds of a result, by the same intervals as every other verdict.
//!
//! A claim says where a quantity lies. It is confirmed when the whole interval lies there, refuted when all of it lies
//! elsewhere, and neither while the interval reaches across. Sub-claims of one claim are judged together: Holm's
//! procedure keeps the chance of any false one among them at 5 %.

use std::collections::{BTreeMap, BTreeSet};

use super::interval::{CONFIDENCE, EQUAL_WITHIN, Moments, median, t_two_sided};
use super::{cells, histogram, ranking};
use crate::corpus::CorpusId;
use crate::plan::text::{ClaimText, Expect, Metric, Quantity, Target, whole_of};
use crate::result::{
    Cache, Cell, Claim, ClaimVerdict, Footprint, Interval, Magnitude, Round, RunResult, Status,
};
use crate::rules::MAGNITUDE_FACTOR;
use crate::units;

/// Between a claim and the number of its part.
const PART: char = '.';

/// What a run says of every claim of its plan.
pub fn judge(result: &RunResult) -> Vec<Claim> {
    result.plan.claim.iter().map(|claim| judged(result, claim)).collect()
}

/// One claim with its sub-claims.
fn judged(result: &RunResult, claim: &ClaimText) -> Claim {
    let mut tree = Tree::of(result, claim);
    let mut leaves = Vec::new();
    tree.leaves(&mut leaves);
    hold(leaves);
    tree.claim()
}

/// What the verdicts come to, for a reader in a hurry.
pub fn in_a_hurry(result: &RunResult) -> Option<String> {
    if result.claims.is_empty() {
        return None;
    }
    let of = |verdict: ClaimVerdict| -> Vec<&str> {
        let claims = result.claims.iter().filter(|claim| claim.verdict == verdict);
        claims.map(|claim| claim.id.as_str()).collect()
    };
    let source = result.plan.document.as_ref().map_or_else(
        || "Claims".to_owned(),
        |document| {
            let claims = units::counted(result.claims.len(), "claim");
            format!("Then and now: {claims} of {} ({})", document.author, document.date)
        },
    );
    let parts: Vec<String> = [
        (ClaimVerdict::Confirmed, "confirmed on this machine"),
        (ClaimVerdict::Refuted, "refuted"),
        (ClaimVerdict::CannotTellApart, "neither, because intervals reach across or both sides are equal"),
        (ClaimVerdict::NotTestable, "not testable in this run"),
    ]
    .into_iter()
    .map(|(verdict, words)| (of(verdict), words))
    .filter(|(ids, _)| !ids.is_empty())
    .map(|(ids, words)| format!("{} {words} ({})", ids.len(), ids.join(", ")))
    .collect();
    let scale = result.plan.scale.filter(|scale| *scale < 1.0);
    let scale = scale.map_or(String::new(), |scale| {
        format!(" This run has {} of the published size: its verdicts are about that.", percent(scale))
    });
    Some(format!("{source}: {}.{scale}", parts.join("; ")))
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 1e4).round() / 100.0)
}

// ---- a claim and its sub-claims ------------------------------------------------------------------------------------

/// A claim under judgement.
struct Tree<'c> {
    text: std::borrow::Cow<'c, ClaimText>,
    parts: Vec<Tree<'c>>,
    /// What was measured, or why nothing can be said; nothing where there are sub-claims.
    leaf: Option<Result<Leaf, String>>,
}

/// A quantity and where it is expected.
struct Leaf {
    estimate: Estimate,
    expect: Expect,
    is_ratio: bool,
    /// At which confidence it was judged.
    confidence: f64,
    found: Found,
}

/// Where an interval lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Inside,
    Outside,
    Across,
}

impl<'c> Tree<'c> {
    fn of(result: &RunResult, claim: &'c ClaimText) -> Tree<'c> {
        Tree::grown(result, std::borrow::Cow::Borrowed(claim))
    }

    fn grown(result: &RunResult, text: std::borrow::Cow<'c, ClaimText>) -> Tree<'c> {
        let parts: Vec<Tree<'c>> =
            text.parts().into_iter().map(|part| Tree::grown(result, std::borrow::Cow::Owned(part))).collect();
        let leaf = match (&text.not_testable, parts.is_empty()) {
            (Some(why), _) => Some(Err(why.clone())),
            (None, true) => Some(measured(result, &text)),
            (None, false) => None,
        };
        let parts = if leaf.is_some() { Vec::new() } else { parts };
        Tree { text, parts, leaf }
    }

    /// Every quantity that can be judged.
    fn leaves<'t>(&'t mut self, all: &mut Vec<&'t mut Leaf>) {
        if let Some(Ok(leaf)) = &mut self.leaf {
            all.push(leaf);
        }
        self.parts.iter_mut().for_each(|part| part.leaves(all));
    }

    fn claim(&self) -> Claim {
        let mut parts: Vec<Claim> = self.parts.iter().map(Tree::claim).collect();
        let text = &self.text;
        if !text.order.is_empty() {
            // An order says nothing of how far its rows are apart.
            parts.iter_mut().for_each(|part| part.magnitude = None);
        }
        let rows: Vec<String> = text.rows.iter().map(|row| row.row().to_owned()).collect();
        let mut claim = Claim {
            id: text.id.clone(),
            statement: statement(text, &rows),
            rows,
            published: text.published,
            today: None,
            verdict: ClaimVerdict::NotTestable,
            magnitude: None,
            note: None,
            parts,
        };
        let mut notes = Vec::new();
        match &self.leaf {
            Some(Ok(leaf)) => leaf.tell(text, &mut claim, &mut notes),
            Some(Err(why)) => notes.push(why.clone()),
            None => {
                let (verdict, note) = together(&claim.parts, text.is_any());
                claim.verdict = verdict;
                notes.extend(note);
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

/// What a claim says, in words; a sub-claim may leave that to its rows.
fn statement(text: &ClaimText, rows: &[String]) -> String {
    if !text.statement.is_empty() {
        return text.statement.clone();
    }
    if rows.is_empty() {
        return "all of its parts".to_owned();
    }
    let places: Vec<(String, String)> = text
        .rows
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
            (target.row, if at.is_empty() { String::new() } else { format!(" ({})", at.join(", ")) })
        })
        .collect();
    match places.as_slice() {
        [(first, at), .., (last, _)]
            if places.len() > NAMED_MAX && places.iter().all(|place| place.1 == *at) =>
        {
            format!("{} rows from {first} to {last}{at}", places.len())
        }
        _ => places.iter().map(|(row, at)| format!("{row}{at}")).collect::<Vec<String>>().join(" against "),
    }
}

/// What a part of a claim compares, where it is not the time of an op.
fn beside_time(metric: Metric) -> Option<&'static str> {
    Some(match metric {
        Metric::Time | Metric::AcknowledgedTime | Metric::Steps => return None,
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

/// More rows than these are not named one by one: the report has them all.
const NAMED_MAX: usize = 4;

/// With its full stop.
fn sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// The verdict of a claim from those of its parts, and what it lacks.
fn together(parts: &[Claim], any: bool) -> (ClaimVerdict, Option<String>) {
    let count = |verdict: ClaimVerdict| parts.iter().filter(|part| part.verdict == verdict).count();
    let (confirmed, refuted) = (count(ClaimVerdict::Confirmed), count(ClaimVerdict::Refuted));
    let untestable: Vec<&Claim> =
        parts.iter().filter(|part| part.verdict == ClaimVerdict::NotTestable).collect();
    let decided =
        if any { (confirmed > 0, refuted == parts.len()) } else { (confirmed == parts.len(), refuted > 0) };
    let verdict = match decided {
        (true, _) => ClaimVerdict::Confirmed,
        (_, true) => ClaimVerdict::Refuted,
        _ if untestable.is_empty() => ClaimVerdict::CannotTellApart,
        _ => ClaimVerdict::NotTestable,
    };
    let mut note = format!("{confirmed} of {} parts confirmed, {refuted} refuted.", parts.len());
    if let Some(first) = untestable.first() {
        let why = first.note.clone().unwrap_or_default();
        note += &format!(" {} not testable: {}", untestable.len(), sentence(&why));
    }
    (verdict, Some(note))
}

impl Leaf {
    fn tell(&self, text: &ClaimText, claim: &mut Claim, notes: &mut Vec<String>) {
        let interval = self.estimate.interval(self.confidence);
        claim.today = Some(interval);
        claim.verdict = match self.found {
            Found::Inside => ClaimVerdict::Confirmed,
            Found::Outside => ClaimVerdict::Refuted,
            Found::Across => ClaimVerdict::CannotTellApart,
        };
        if self.is_tie(&interval) {
            claim.verdict = ClaimVerdict::CannotTellApart;
            notes.push(
                "Today both are equal within 3 %: a difference that small is no side to take.".to_owned(),
            );
        }
        // Of what is refuted nobody asks how much of it there is, and seconds of another machine are not held against today's.
        let is_apart = claim.verdict != ClaimVerdict::Refuted
            && text.quantity.unwrap_or_default() != Quantity::Difference
            && text.impossible.is_none();
        if let Some(published) = text.published.filter(|_| is_apart) {
            claim.magnitude = magnitude(&interval, published, text.magnitude);
        }
    }

    /// Whether the question was on which side of 1 a ratio lies, and it is proved to be 1 for all that matters.
    fn is_tie(&self, interval: &Interval) -> bool {
        let sides = self.expect.low == Some(1.0) || self.expect.high == Some(1.0);
        let one_sided = self.expect.low.is_none() || self.expect.high.is_none();
        let equal = Expect { equal: true, ..Expect::default() };
        self.is_ratio && sides && one_sided && place(interval, &equal) == Found::Inside
    }
}

/// Whether today's figure is about the published one: where the plan says, else within a factor.
fn magnitude(today: &Interval, published: f64, within: Option<Expect>) -> Option<Magnitude> {
    let (one, other) = (published / MAGNITUDE_FACTOR, published * MAGNITUDE_FACTOR);
    let by_factor = Expect { low: Some(one.min(other)), high: Some(one.max(other)), equal: false };
    today.low.zip(today.high)?;
    Some(match place(today, &within.unwrap_or(by_factor)) {
        Found::Inside => Magnitude::Holds,
        Found::Outside => Magnitude::Refuted,
        Found::Across => Magnitude::Open,
    })
}

// ---- where an interval lies ----------------------------------------------------------------------------------------

fn place(interval: &Interval, expect: &Expect) -> Found {
    let (Some(low), Some(high)) = (interval.low, interval.high) else { return Found::Across };
    let equal = (1.0 - EQUAL_WITHIN, 1.0 + EQUAL_WITHIN);
    let or = |(low, high): (f64, f64)| (expect.low.unwrap_or(low), expect.high.unwrap_or(high));
    // Where it is confirmed, and outside of what it is refuted.
    let (from, to) = if expect.equal { equal } else { or((f64::NEG_INFINITY, f64::INFINITY)) };
    let (least, most) = if expect.equal { or(equal) } else { (from, to) };
    if low >= from && high <= to {
        Found::Inside
    } else if high < least || low > most {
        Found::Outside
    } else {
        Found::Across
    }
}

/// Judges quantities together (Holm): the surest at the strictest confidence, and none after the first that is not decided.
fn hold(mut leaves: Vec<&mut Leaf>) {
    leaves.sort_by(|a, b| a.doubt().total_cmp(&b.doubt()));
    // How many are left to be decided: as many as when the first one was not.
    let mut left = leaves.len();
    let mut still = true;
    for leaf in leaves {
        leaf.confidence = 1.0 - (1.0 - CONFIDENCE) / left as f64;
        let found = place(&leaf.estimate.interval(leaf.confidence), &leaf.expect);
        still &= found != Found::Across;
        if still {
            (leaf.found, left) = (found, left - 1);
        }
    }
}

impl Leaf {
    /// The chance of error at which it would just be decided.
    fn doubt(&self) -> f64 {
        let decided = |doubt: f64| place(&self.estimate.interval(1.0 - doubt), &self.expect) != Found::Across;
        // In steps of a factor: what counts is the order of small chances.
        let (mut low, mut high) = (-30.0_f64, 0.0_f64);
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if decided(middle.exp()) { high = middle } else { low = middle }
        }
        high.exp()
    }
}

// ---- quantities ----------------------------------------------------------------------------------------------------

/// A quantity as far as it is known.
#[derive(Clone, Debug)]
enum Estimate {
    /// A mean over rounds, of logarithms or as it is.
    Mean { moments: Moments, logs: bool },
    /// The largest of the ratios of all pairs, by their logarithms.
    Extremes(Vec<Moments>),
}

impl Estimate {
    fn interval(&self, confidence: f64) -> Interval {
        match self {
            Estimate::Mean { moments, logs } => {
                let t = t_two_sided(confidence, moments.degrees);
                if *logs {
                    return moments.exp_interval(t);
                }
                let bound = |side: f64| {
                    let reach = t * moments.error + moments.slack;
                    (moments.degrees > 0.0).then_some(moments.mean + side * reach)
                };
                Interval { median: moments.mean, low: bound(-1.0), high: bound(1.0) }
            }
            Estimate::Extremes(pairs) => {
                // The interval of each pair at a confidence that all of them hold together, either way round.
                let confidence = 1.0 - (1.0 - confidence) / pairs.len().max(1) as f64;
                let all = pairs.iter().flat_map(|pair| {
                    let ratio = pair.exp_interval(t_two_sided(confidence, pair.degrees));
                    let turned = Interval {
                        median: 1.0 / ratio.median,
                        low: ratio.high.map(|high| 1.0 / high),
                        high: ratio.low.map(|low| 1.0 / low),
                    };
                    [ratio, turned]
                });
                let one = Interval { median: 1.0, low: Some(1.0), high: Some(1.0) };
                all.fold(one, |most, ratio| Interval {
                    median: most.median.max(ratio.median),
                    low: most.low.zip(ratio.low).map(|(one, other)| one.max(other)),
                    high: most.high.zip(ratio.high).map(|(one, other)| one.max(other)),
                })
            }
        }
    }
}

impl Estimate {
    /// Wider by how much higher than on its last rung each row of a ladder may be, as a logarithm.
    fn on_ladders(mut self, slack: f64) -> Result<Estimate, String> {
        match &mut self {
            _ if slack == 0.0 => {}
            Estimate::Mean { moments, logs: true } => moments.slack = slack,
            Estimate::Extremes(pairs) => pairs.iter_mut().for_each(|pair| pair.slack = slack),
            Estimate::Mean { logs: false, .. } => {
                return Err(
                    "Rates of a ladder are known to a factor only: compare them by their ratio.".to_owned()
                );
            }
        }
        Ok(self)
    }

    /// Wider by the share of attempts that may fail though none, or hardly any, was seen to.
    fn with_unseen_failures(mut self, share: f64) -> Estimate {
        if let Estimate::Mean { moments, logs: false } = &mut self {
            moments.slack = share;
        }
        self
    }
}

/// The share of attempts that may fail where none of so many did, with 97.5 % confidence (the exact bound of a binomial share): the
/// rounds agree then, and say nothing of chance. 0 where a claim is about something else.
fn unseen_failures(result: &RunResult, targets: &[Target]) -> Result<f64, String> {
    let mut most = 0.0_f64;
    for target in targets.iter().filter(|target| target.metric == Some(Metric::FailedAttempts)) {
        let attempts: u64 = cells(result, target)?.iter().map(|cell| cell.ops).sum();
        most = most.max(1.0 - 0.025_f64.powf(1.0 / attempts.max(1) as f64));
    }
    Ok(most)
}

/// How far a quantity of these rows may be off because some of them climbed a ladder, as a logarithm: by its step for each two.
fn slack(result: &RunResult, targets: &[Target]) -> Result<f64, String> {
    let mut most = 0.0_f64;
    let by_rate =
        |target: &&Target| matches!(target.metric.unwrap_or_default(), Metric::Time | Metric::TimeForABlob);
    for target in targets.iter().filter(by_rate) {
        for cell in cells(result, target)? {
            most = most.max(cells::series(cell).slack);
        }
    }
    Ok(most * (targets.len() as f64 / 2.0).max(1.0))
}

/// Values by round.
type Values = BTreeMap<u32, f64>;

/// The quantity of a claim, or why it cannot be had.
fn measured(result: &RunResult, text: &ClaimText) -> Result<Leaf, String> {
    let quantity = text.quantity.unwrap_or_default();
    let targets: Vec<Target> = text.rows.iter().map(|operand| text.target(operand)).collect();
    comparable(result, &targets)?;
    let estimate = estimate(result, quantity, &targets)?
        .on_ladders(slack(result, &targets)?)?
        .with_unseen_failures(unseen_failures(result, &targets)?);
    let interval = estimate.interval(CONFIDENCE);
    if !interval.median.is_finite() {
        return Err("What was measured is not a number.".to_owned());
    }
    if interval.low.is_none() {
        return Err("There is one round only: nothing is known of repetition.".to_owned());
    }
    Ok(Leaf {
        estimate,
        expect: text.expect.unwrap_or_default(),
        is_ratio: !matches!(quantity, Quantity::Difference | Quantity::Slope | Quantity::Value),
        confidence: CONFIDENCE,
        found: Found::Across,
    })
}

fn estimate(result: &RunResult, quantity: Quantity, targets: &[Target]) -> Result<Estimate, String> {
    let values =
        || targets.iter().map(|target| values(result, target)).collect::<Result<Vec<Values>, String>>();
    match quantity {
        Quantity::Ratio => {
            let all = values()?;
            // Rounds chosen by order need not be the same for both.
            let apart = targets.iter().any(is_by_order) && !all[0].keys().eq(all[1].keys());
            if apart { unpaired(&all) } else { paired(&all, |v| (v[0] / v[1]).ln(), true) }
        }
        Quantity::Difference => paired(&values()?, |v| v[0] - v[1], false),
        Quantity::RatioOfRatios => paired(&values()?, |v| (v[0] / v[1] * v[3] / v[2]).ln(), true),
        Quantity::MaxOverMin => extremes(&values()?),
        Quantity::Cv => variation(&values()?),
        Quantity::Slope => slope(result, targets),
        Quantity::Value => paired(&values()?, |v| v[0].ln(), true),
    }
}

fn is_by_order(target: &Target) -> bool {
    target.after.is_some() || target.before.is_some()
}

/// A mean over the rounds that all have.
fn paired(all: &[Values], of: impl Fn(&[f64]) -> f64, logs: bool) -> Result<Estimate, String> {
    let rounds = all.first().map(|first| first.keys().copied().collect::<Vec<u32>>()).unwrap_or_default();
    let means: Vec<f64> = rounds
        .iter()
        .filter_map(|round| {
            let values: Option<Vec<f64>> = all.iter().map(|values| values.get(round).copied()).collect();
            Some(of(&values?))
        })
        .collect();
    let moments = Moments::of(&means).ok_or("No round has figures of all its rows.")?;
    Ok(Estimate::Mean { moments, logs })
}

/// A ratio of values from different rounds (Welch).
fn unpaired(all: &[Values]) -> Result<Estimate, String> {
    let logs = |values: &Values| {
        let logs: Vec<f64> = values.values().map(|value| value.ln()).collect();
        Moments::of(&logs).ok_or("No round has that order of rows.")
    };
    let moments = logs(&all[0])?.less(&logs(&all[1])?);
    Ok(Estimate::Mean { moments, logs: true })
}

/// The largest over the smallest. Which ones these are is not known: every pair may be it.
fn extremes(all: &[Values]) -> Result<Estimate, String> {
    let mut pairs = Vec::new();
    for (index, one) in all.iter().enumerate() {
        for other in &all[index + 1..] {
            match paired(&[one.clone(), other.clone()], |v| (v[0] / v[1]).ln(), true)? {
                Estimate::Mean { moments, .. } => pairs.push(moments),
                _ => return Err("There are no rows.".to_owned()),
            }
        }
    }
    Ok(Estimate::Extremes(pairs))
}

/// How much one row varies over how much another does: the mean distances of their logarithms from the middle one. A round that
/// stalls pulls a variance much more, so that F calls every fifth pair of equal rows different where a tenth of the rounds stall.
fn variation(all: &[Values]) -> Result<Estimate, String> {
    let spread = |values: &Values| {
        let logs: Vec<f64> = values.values().map(|value| value.ln()).collect();
        let middle = median(logs.iter().copied());
        let distances: Vec<f64> = logs.iter().map(|log| (log - middle).abs()).collect();
        let moments = Moments::of(&distances).filter(|moments| moments.mean > 0.0);
        let moments = moments.ok_or("There are too few rounds, or they do not vary.")?;
        // Of its logarithm.
        Ok::<_, String>(Moments { mean: moments.mean.ln(), error: moments.error / moments.mean, ..moments })
    };
    let (one, other) = (spread(&all[0])?, spread(&all[1])?);
    // As few degrees of freedom as the smaller has: distances of few rounds are not quite normal.
    let moments = Moments { degrees: one.degrees.min(other.degrees), ..one.less(&other) };
    Ok(Estimate::Mean { moments, logs: true })
}

/// The factor from step to step.
fn slope(result: &RunResult, targets: &[Target]) -> Result<Estimate, String> {
    let steps = |target: &Target| -> Result<Vec<Values>, String> {
        parts(result, target).iter().map(|part| values(result, part)).collect()
    };
    let with_parts = targets.iter().all(|target| parts(result, target).len() > 1);
    let curve: Vec<Values> = match (with_parts, targets) {
        (true, [only]) => steps(only)?,
        (true, [above, below]) => {
            let pairs = steps(above)?.into_iter().zip(steps(below)?);
            pairs.map(|(above, below)| over(&above, &below)).collect()
        }
        _ => targets.iter().map(|target| values(result, target)).collect::<Result<_, _>>()?,
    };
    if curve.len() < 2 {
        return Err("There are no steps to lay a line through.".to_owned());
    }
    paired(&curve, line, true)
}

fn over(above: &Values, below: &Values) -> Values {
    above.iter().filter_map(|(round, value)| Some((*round, value / below.get(round)?))).collect()
}

/// The slope of a straight line through the logarithms of values one step apart.
fn line(values: &[f64]) -> f64 {
    let middle = (values.len() - 1) as f64 / 2.0;
    let steps = || values.iter().enumerate().map(|(step, value)| (step as f64 - middle, value.ln()));
    let squares: f64 = steps().map(|(x, _)| x * x).sum();
    steps().map(|(x, y)| x * y).sum::<f64>() / squares
}

// ---- what was measured ---------------------------------------------------------------------------------------------

/// Today's ratio of two rows with its interval: what stands beside a published table.
pub fn ratio(result: &RunResult, target: &Target, reference: &Target) -> Result<Interval, String> {
    let both = [target.clone(), reference.clone()];
    comparable(result, &both)?;
    Ok(estimate(result, Quantity::Ratio, &both)?.interval(CONFIDENCE))
}

/// The cells of a target: of its phase, or of each part of it.
fn cells<'r>(result: &'r RunResult, target: &Target) -> Result<Vec<&'r Cell>, String> {
    let known = result.results.iter().any(|cell| cell.store == target.row);
    if !known {
        // Every row of the plan is among these, also one that was never visited.
        let is_planned = result.rows.iter().any(|row| row.store == target.row);
        return Err(match is_planned && !result.complete {
            true => format!("`{}` was not measured before the run was ended.", target.row),
            false => format!("`{}` is not part of this run.", target.row),
        });
    }
    let corpus_id = match &target.corpus {
        None => None,
        Some(name) => {
            let corpus = result.all_corpora().iter().find(|corpus| corpus.name == *name);
            Some(corpus.ok_or_else(|| format!("The corpus `{name}` is not part of this run."))?.corpus_id)
        }
    };
    let phase = target.phase.as_deref();
    let cells: Vec<&Cell> = result
        .results
        .iter()
        .filter(|cell| cell.store == target.row && corpus_id.is_none_or(|bytes| cell.corpus_id == bytes))
        .filter(|cell| phase.is_none_or(|phase| is_of_phase(&cell.phase, phase)))
        .collect();
    match (cells.is_empty(), phase) {
        (true, Some(phase)) => {
            let is_known = result.results.iter().any(|cell| is_of_phase(&cell.phase, phase));
            let is_named = result.plan.phases.iter().flatten().any(|named| is_of_phase(named, phase));
            Err(match (is_known || is_named) && !result.complete {
                true => format!(
                    "The phase `{phase}` of `{}` was not measured before the run was ended.",
                    target.row
                ),
                false => format!("The phase `{phase}` of `{}` is not part of this run.", target.row),
            })
        }
        (true, None) => Err(format!("Nothing is known of `{}`.", target.row)),
        (false, _) => Ok(cells),
    }
}

/// Whether a phase is the one that is meant, or a part of it.
fn is_of_phase(phase: &str, meant: &str) -> bool {
    phase == meant || whole_of(phase) == meant
}

/// A target of each part of its phase.
fn parts(result: &RunResult, target: &Target) -> Vec<Target> {
    let cells = cells(result, target).unwrap_or_default();
    cells.iter().map(|cell| Target { phase: Some(cell.phase.clone()), ..target.clone() }).collect()
}

/// Refuses rows that may not be compared with each other.
fn comparable(result: &RunResult, targets: &[Target]) -> Result<(), String> {
    for pair in targets.windows(2) {
        let timed = pair.iter().all(|target| is_of_time(target.metric.unwrap_or_default()));
        if !timed || pair[0].row == pair[1].row {
            continue;
        }
        let (one, other) = (cells(result, &pair[0])?, cells(result, &pair[1])?);
        // What was not measured belongs nowhere, and has a reason of its own.
        let is_measured = |cell: &Cell| !cell.rounds.is_empty();
        let both = one.iter().zip(&other).filter(|(one, other)| is_measured(one) && is_measured(other));
        let mut groups = both.map(|(one, other)| (ranking::group_of(one), ranking::group_of(other)));
        if let Some((one, other)) = groups.find(|(one, other)| one != other) {
            let named = |group: String| if group.is_empty() { "neither".to_owned() } else { group };
            return Err(format!(
                "`{}` ({}) and `{}` ({}) are not comparable.",
                pair[0].row,
                named(one),
                pair[1].row,
                named(other)
            ));
        }
    }
    Ok(())
}

fn is_of_time(metric: Metric) -> bool {
    !matches!(
        metric,
        Metric::Disk
            | Metric::Index
            | Metric::Memory
            | Metric::DeviceRead
            | Metric::DeviceReads
            | Metric::Requests
            | Metric::Received
            | Metric::FailedAttempts
    )
}

/// A metric of a target, round by round.
fn values(result: &RunResult, target: &Target) -> Result<Values, String> {
    let cells = cells(result, target)?;
    let metric = target.metric.unwrap_or_default();
    fit(&cells, metric)?;
    let mut values = match metric {
        Metric::Time => time(&cells),
        Metric::AcknowledgedTime => per_op(&cells, |round| Some(round.seconds)),
        Metric::TimeForABlob => for_a_blob(&cells),
        Metric::DeviceReads => per_op(&cells, |round| round.device_reads.map(|reads| reads as f64)),
        Metric::DeviceRead => per_op(&cells, |round| round.device_read_bytes.map(|bytes| bytes as f64)),
        Metric::Requests => of_one(&cells, |round| round.counts.get("requests").copied())?,
        Metric::Received => of_one(&cells, |round| round.counts.get("bytes").copied())?,
        Metric::FailedAttempts => {
            per_op(&cells, |round| Some((round.counters.errors + round.counters.retries) as f64))
        }
        Metric::FirstOp => of_one(&cells, first_op)?,
        Metric::Steps => in_steps(&cells, &target.steps)?,
        Metric::P50 => of_one(&cells, |round| percentile(round, 0))?,
        Metric::P90 => of_one(&cells, |round| percentile(round, 1))?,
        Metric::P99 => of_one(&cells, |round| percentile(round, 2))?,
        Metric::P999 => of_one(&cells, |round| percentile(round, 3))?,
        Metric::Memory => {
            if let Some(cell) = cells.iter().find(|cell| cell.traits.is_external) {
                return Err(format!("The memory of the server of `{}` is not seen.", cell.store));
            }
            most(&cells, |round| {
                Some((round.client_peak_bytes? + round.server_peak_bytes.unwrap_or(0)) as f64)
            })
        }
        Metric::Disk => for_a_byte(result, &cells, |footprint| footprint.after_settle_bytes),
        Metric::Index => for_a_byte(result, &cells, |footprint| footprint.index_bytes),
    };
    if is_by_order(target) {
        let kept = rounds_in_order(result, target);
        values.retain(|round, _| kept.contains(round));
    }
    let zero_is_absent = metric != Metric::FailedAttempts;
    values.retain(|_, value| value.is_finite() && (*value > 0.0 || !zero_is_absent));
    if values.is_empty() {
        return Err(nothing_of(target));
    }
    Ok(values)
}

/// Why there are no values of a target.
fn nothing_of(target: &Target) -> String {
    let order = [("after", &target.after), ("before", &target.before)];
    let order = order.into_iter().find_map(|(word, other)| Some((word, other.as_ref()?)));
    match order {
        Some((word, other)) => format!("In no round `{}` came {word} `{other}`.", target.row),
        None => format!("`{}` has no figures of that kind here.", target.row),
    }
}

/// Why cells cannot be used, if they cannot: what keeps a cell from being ranked, but for what a row is for.
fn fit(cells: &[&Cell], metric: Metric) -> Result<(), String> {
    for cell in cells {
        if cell.rounds.is_empty() {
            let why =
                cell.not_ranked.clone().or(cell.reason.clone()).unwrap_or("nothing was measured".into());
            return Err(format!("`{}`: {why}.", cell.store));
        }
    }
    if let Some(cell) = cells.iter().find(|cell| cell.cache == Cache::Lukewarm) {
        return Err(format!("`{}` in `{}` was lukewarm and not cold.", cell.store, cell.phase));
    }
    let failed = |cell: &&&Cell| cell.status == Status::Failed && metric != Metric::FailedAttempts;
    if let Some(cell) = cells.iter().find(failed) {
        return Err(format!("`{}`: {}.", cell.store, cell.reason.as_deref().unwrap_or("it failed")));
    }
    if let Some(cell) = cells.iter().find(|cell| ranking::is_cut_short(cell)) {
        let why = cell.not_ranked.as_deref().unwrap_or_default();
        return Err(format!("`{}` in `{}`: {why}.", cell.store, cell.phase));
    }
    if !is_of_time(metric) {
        return Ok(());
    }
    for cell in cells {
        // Parts that are short by themselves may be long enough together.
        let short = ranking::too_short([*cell]);
        if let Some(why) = kept_from_ranking(cell).filter(|why| Some(why) != short.as_ref()) {
            return Err(format!("`{}` in `{}`: {why}.", cell.store, cell.phase));
        }
    }
    match (ranking::too_short(cells.iter().copied()), cells) {
        (Some(why), [cell]) => Err(format!("`{}` in `{}`: {why}.", cell.store, cell.phase)),
        (Some(why), [cell, ..]) => {
            Err(format!("`{}` in all parts of `{}`: {why}.", cell.store, whole_of(&cell.phase)))
        }
        _ => Ok(()),
    }
}

/// Why a cell is not ranked. Baselines never are, for what they are: a claim may be about them all the same.
fn kept_from_ranking(cell: &Cell) -> Option<String> {
    if let Some(why) = ranking::mostly_harness(cell) {
        return Some(why);
    }
    let never = ranking::is_withheld(cell) || cell.status == Status::Measured && ranking::is_yardstick(cell);
    cell.not_ranked.clone().filter(|_| !never)
}

/// Wall time of an op, as rates are compared.
fn time(cells: &[&Cell]) -> Values {
    let mut sums: BTreeMap<u32, (f64, f64, usize)> = BTreeMap::new();
    for cell in cells {
        let rates = cells::series(cell).rates;
        for round in &cell.rounds {
            let Some(rate) = rates.get(&round.round) else { continue };
            let sum = sums.entry(round.round).or_default();
            *sum = (sum.0 + round.ops as f64 / rate, sum.1 + round.ops as f64, sum.2 + 1);
        }
    }
    complete(sums, cells.len())
}

/// A round's figure for each of its ops.
fn per_op(cells: &[&Cell], of: impl Fn(&Round) -> Option<f64>) -> Values {
    let mut sums: BTreeMap<u32, (f64, f64, usize)> = BTreeMap::new();
    for round in cells.iter().flat_map(|cell| &cell.rounds) {
        let Some(value) = of(round) else { continue };
        let sum = sums.entry(round.round).or_default();
        *sum = (sum.0 + value, sum.1 + round.ops as f64, sum.2 + 1);
    }
    complete(sums, cells.len())
}

/// Time of an op in some of its steps, in seconds: one that only some ops take counts as nothing in the others.
fn in_steps(cells: &[&Cell], names: &[String]) -> Result<Values, String> {
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let rounds = cells.iter().flat_map(|cell| &cell.rounds);
    known.extend(rounds.flat_map(|round| round.histogram.steps.keys()).map(String::as_str));
    if let Some(unknown) = names.iter().find(|name| !known.contains(name.as_str())) {
        let store = cells.first().map_or("", |cell| cell.store.as_str());
        let known: Vec<&str> = known.into_iter().collect();
        let others = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(format!("Ops of `{store}` have no step `{unknown}` here, but {others}."));
    }
    let seconds = |text: &String| {
        let times = histogram::decode(text).ok()?;
        Some(times.mean() * times.len() as f64 / 1e9)
    };
    Ok(per_op(cells, |round| {
        let all: f64 = names
            .iter()
            .filter_map(|name| round.histogram.steps.get(name))
            .map(seconds)
            .sum::<Option<_>>()?;
        // First ops of sessions are kept apart, with their steps.
        let timed = round.ops.saturating_sub(round.first_ops_ns.len() as u64).max(1);
        Some(all * round.ops as f64 / timed as f64)
    }))
}

/// Wall time of a blob: of an op, over the blobs that one has.
fn for_a_blob(cells: &[&Cell]) -> Values {
    let blobs = per_op(cells, |round| Some(round.blobs as f64));
    over(&time(cells), &blobs)
}

/// Only rounds that all parts have.
fn complete(sums: BTreeMap<u32, (f64, f64, usize)>, parts: usize) -> Values {
    let whole = sums.into_iter().filter(|(_, (_, _, found))| *found == parts);
    whole.map(|(round, (sum, ops, _))| (round, sum / ops.max(1.0))).collect()
}

fn of_one(cells: &[&Cell], of: impl Fn(&Round) -> Option<f64>) -> Result<Values, String> {
    let [cell] = cells else {
        return Err("Percentiles and counts of several parts are not added up.".to_owned());
    };
    Ok(cell.rounds.iter().filter_map(|round| Some((round.round, of(round)?))).collect())
}

fn most(cells: &[&Cell], of: impl Fn(&Round) -> Option<f64>) -> Values {
    let mut most = Values::new();
    for round in cells.iter().flat_map(|cell| &cell.rounds) {
        if let Some(value) = of(round) {
            let known = most.entry(round.round).or_insert(value);
            *known = known.max(value);
        }
    }
    most
}

/// Seconds of the first op of sessions.
fn first_op(round: &Round) -> Option<f64> {
    let count = round.first_ops_ns.len() as f64;
    (count > 0.0).then(|| round.first_ops_ns.iter().map(|ns| *ns as f64 / 1e9).sum::<f64>() / count)
}

/// Seconds that a share of the ops did not exceed; absent with fewer than ten ops beyond.
fn percentile(round: &Round, which: usize) -> Option<f64> {
    let times = if round.open.is_some() { &round.histogram.response } else { &round.histogram.service };
    let whole = histogram::whole(times).ok()?;
    Some(histogram::percentile(&whole, histogram::SHARES[which])? as f64 / 1e9)
}

/// Bytes on disk for each byte of blobs.
fn for_a_byte(result: &RunResult, cells: &[&Cell], of: impl Fn(&Footprint) -> Option<u64>) -> Values {
    let of_cell = |store: &str, corpus: CorpusId| {
        cells.iter().any(|cell| cell.store == store && cell.corpus_id == corpus)
    };
    let rounds = result.store_rounds.iter().filter(|visit| of_cell(&visit.store, visit.corpus_id));
    rounds
        .filter_map(|visit| {
            let taken = of(&visit.footprint)? as f64;
            Some((visit.round, taken / visit.footprint.logical_bytes.max(1) as f64))
        })
        .collect()
}

/// Rounds in which a row came after (or before) another.
fn rounds_in_order(result: &RunResult, target: &Target) -> Vec<u32> {
    let position = |round: u32, row: &str| {
        let visits = &result.store_rounds;
        visits.iter().find(|visit| visit.round == round && visit.store == row).map(|visit| visit.position)
    };
    let in_order = |round: &u32| {
        let own = position(*round, &target.row);
        let is = |other: &Option<String>, wanted: std::cmp::Ordering| {
            other.as_deref().is_none_or(|other| {
                own.zip(position(*round, other)).is_some_and(|(own, other)| own.cmp(&other) == wanted)
            })
        };
        is(&target.after, std::cmp::Ordering::Greater) && is(&target.before, std::cmp::Ordering::Less)
    };
    let mut rounds: Vec<u32> = result.store_rounds.iter().map(|visit| visit.round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    rounds.into_iter().filter(in_order).collect()
}

#[cfg(test)]
mod tests;
