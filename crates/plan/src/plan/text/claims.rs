//! Claims of a plan: published statements as data that a run can confirm, refute or leave undecided.

use anyhow::{Context, Result, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::published::Successor;
use crate::units::parse_bytes;

optional_keys! {
    /// A published statement, as a plan writes it. It has candidates, or sub-claims, or a reason why it cannot be tested.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub struct ClaimText {
        /// Identifier; a sub-claim without one is named after its claim and its position (`CLAIM.2`).
        pub id: String,
        /// The statement, paraphrased. Without one, a sub-claim shows what it compares.
        pub statement: String,
        /// The document's own words, where they are known. Without them, reports say that the wording is the plan's.
        pub quote: Option<String>,
        /// Metric to compare; default `time`. Sub-claims inherit `metric`, `quantity`, `phase`, `corpus`, `expect` and `impossible`.
        pub metric: Option<Metric>,
        /// Steps of an op whose sum `metric = "steps"` measures. Inherited by sub-claims.
        pub steps: Vec<String>,
        /// Quantity computed from the metric; default `ratio`.
        pub quantity: Option<Quantity>,
        /// Phase of candidates that name none; a phase split into parts counts as a whole.
        pub phase: Option<String>,
        /// Corpus of candidates that name none, if the plan has several.
        pub corpus: Option<String>,
        /// Candidates that the quantity is computed from.
        pub candidates: Vec<Operand>,
        /// Range of the quantity if the statement is true.
        pub expect: Option<ExpectedRange>,
        /// The published figure.
        pub published: Option<f64>,
        /// Range of today's figure that counts as the published order of magnitude, also where a range was published and no single
        /// figure. Default: within a factor of 2 of `published`, which says little about a ratio near 1.
        pub magnitude: Option<ExpectedRange>,
        /// Candidates from smallest to largest; each adjacent pair becomes a sub-claim.
        pub order: Vec<Operand>,
        /// Published ratios of adjacent pairs of `order`, each candidate divided by the one before it. Shown only; not part of the
        /// claim.
        pub published_steps: Vec<f64>,
        /// Confirmed if all of these sub-claims are.
        pub all_of: Vec<ClaimText>,
        /// Confirmed if any of these sub-claims is.
        pub any_of: Vec<ClaimText>,
        /// Reason why this plan cannot test the statement.
        pub not_testable: Option<String>,
        /// Reason why the published figures cannot be right, with the arithmetic; today's figures are then not compared with them.
        pub impossible: Option<String>,
        /// Further remarks for the reader.
        pub note: Option<String>,
        /// Set if the claim applies to a successor instead of the candidate in the document; in a plan this comes from
        /// `[[successor]]`.
        #[serde(skip)]
        pub in_place: Option<Successor>,
    }
}

/// Metric of a candidate in a phase, one value per round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Wall time per op, including deferred work if the phase writes.
    #[default]
    Time,
    /// Wall time per op until it is acknowledged.
    AcknowledgedTime,
    /// Ops per second: 1 / `time`.
    Rate,
    /// `time` divided by the number of blobs per op.
    TimeForABlob,
    /// Time of the first op of a session.
    FirstOp,
    /// Time of the op steps listed in `steps`: of uploads, connections, or scripts that time themselves (`timed=true`).
    Steps,
    /// Median time of an op.
    P50,
    /// 90th percentile of the time of an op.
    P90,
    /// 99th percentile of the time of an op.
    P99,
    /// 99.9th percentile of the time of an op.
    P999,
    /// Bytes allocated on disk after the fill has settled, per byte of blobs.
    Disk,
    /// Bytes of indexes after the fill has settled, per byte of blobs, for stores that report indexes separately.
    Index,
    /// Peak memory of the program and its servers together.
    Memory,
    /// Bytes read from the device per op.
    DeviceRead,
    /// Read requests completed by the device per op, of any size.
    DeviceReads,
    /// Requests per op, if sessions report them.
    Requests,
    /// Bytes received over the network per op, if sessions report them.
    Received,
    /// Failed attempts as a share of ops.
    FailedAttempts,
}

/// Quantity computed from a metric's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// First candidate divided by the second.
    #[default]
    Ratio,
    /// First candidate minus the second; times in seconds.
    Difference,
    /// (first / second) / (third / fourth).
    RatioOfRatios,
    /// Growth factor per step, from a linear fit of logarithms. With one candidate, over the parts of its phase; with two
    /// candidates of phases that have parts, of the ratio first / second; otherwise the candidates are the steps.
    Slope,
    /// Largest candidate divided by the smallest.
    MaxOverMin,
    /// Round-to-round variation of the first candidate divided by that of the second.
    Cv,
    /// Value of a single candidate, compared with constants. Times, rates and bytes need bounds with a unit and cannot be claims
    /// of a document.
    Value,
}

/// Unit of a metric's figures; a ratio has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FigureUnit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Ops per second.
    OpsPerSecond,
}

impl FigureUnit {
    fn example(self) -> &'static str {
        match self {
            FigureUnit::Seconds => "a time such as \"20us\"",
            FigureUnit::Bytes => "a size such as \"64MiB\"",
            FigureUnit::OpsPerSecond => "a rate such as \"5000/s\"",
        }
    }
}

impl Metric {
    /// True for times and rates, which need enough ops or enough time to average over.
    pub fn is_of_time(self) -> bool {
        matches!(self.unit(), Some(FigureUnit::Seconds | FigureUnit::OpsPerSecond))
    }

    /// Unit of the metric's figures; `None` for shares, counts and bytes per byte.
    pub fn unit(self) -> Option<FigureUnit> {
        match self {
            Metric::Time
            | Metric::AcknowledgedTime
            | Metric::TimeForABlob
            | Metric::FirstOp
            | Metric::Steps
            | Metric::P50
            | Metric::P90
            | Metric::P99
            | Metric::P999 => Some(FigureUnit::Seconds),
            Metric::Rate => Some(FigureUnit::OpsPerSecond),
            Metric::Memory | Metric::DeviceRead | Metric::Received => Some(FigureUnit::Bytes),
            Metric::Disk
            | Metric::Index
            | Metric::DeviceReads
            | Metric::Requests
            | Metric::FailedAttempts => None,
        }
    }
}

/// A candidate, optionally with the phase, corpus, metric and rounds to look at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Operand {
    /// A candidate's label.
    Label(String),
    /// A candidate with more detail.
    Full(DetailedOperand),
}

/// A candidate in a phase on a corpus.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DetailedOperand {
    /// Label of the candidate.
    pub candidate: String,
    /// Phase, if it differs from the claim's.
    pub phase: Option<String>,
    /// Corpus, if it differs from the claim's.
    pub corpus: Option<String>,
    /// Metric, if it differs from the claim's.
    pub metric: Option<Metric>,
    /// Steps, if they differ from the claim's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Count only rounds in which this candidate ran earlier.
    pub after: Option<String>,
    /// Count only rounds in which this candidate ran later.
    pub before: Option<String>,
}

impl DetailedOperand {
    /// Fills unset fields from `around`, except the candidate and `after`/`before`.
    pub(super) fn within(self, around: &DetailedOperand) -> DetailedOperand {
        DetailedOperand {
            phase: self.phase.or_else(|| around.phase.clone()),
            corpus: self.corpus.or_else(|| around.corpus.clone()),
            steps: steps_within(self.metric, self.steps, &around.steps),
            metric: self.metric.or(around.metric),
            ..self
        }
    }

    /// Rejects `steps` without `metric = "steps"`, and vice versa.
    pub(super) fn check(&self) -> Result<()> {
        if (self.metric == Some(Metric::Steps)) == self.steps.is_empty() {
            bail!("`metric = \"steps\"` goes with `steps`, the names of those that are meant");
        }
        Ok(())
    }
}

/// Returns `own` steps, or the inherited ones if none are given and the metric does not override them.
fn steps_within(metric: Option<Metric>, own: Vec<String>, around: &[String]) -> Vec<String> {
    let takes_over = own.is_empty() && metric.is_none_or(|metric| metric == Metric::Steps);
    if takes_over { around.to_vec() } else { own }
}

impl Operand {
    /// Converts to a target, with unset fields where only a label was given.
    pub fn target(&self) -> DetailedOperand {
        match self {
            Operand::Label(candidate) => {
                DetailedOperand { candidate: candidate.clone(), ..DetailedOperand::default() }
            }
            Operand::Full(target) => target.clone(),
        }
    }

    /// Converts to a target and fills unset fields from these values.
    pub fn within(
        &self,
        phase: Option<&String>,
        corpus: Option<&String>,
        metric: Option<Metric>,
        steps: &[String],
    ) -> DetailedOperand {
        self.target().within(&DetailedOperand {
            phase: phase.cloned(),
            corpus: corpus.cloned(),
            metric,
            steps: steps.to_vec(),
            ..DetailedOperand::default()
        })
    }

    /// Replaces the candidate by its successor; `None` if the operand does not involve that candidate.
    pub fn by(&self, successor: &Successor) -> Option<Operand> {
        let mut target = self.target();
        let mut is_about = false;
        let others = [&mut target.after, &mut target.before].into_iter().flatten();
        for candidate in others.chain([&mut target.candidate]).filter(|candidate| **candidate == successor.of)
        {
            (*candidate).clone_from(&successor.candidate);
            is_about = true;
        }
        is_about.then_some(Operand::Full(target))
    }

    /// True if the operand involves this candidate, either measured or in `after`/`before`.
    fn is_about(&self, candidate: &str) -> bool {
        let target = self.target();
        [Some(&target.candidate), target.after.as_ref(), target.before.as_ref()]
            .into_iter()
            .flatten()
            .any(|own| own == candidate)
    }

    /// Label of the candidate.
    pub fn candidate(&self) -> &str {
        match self {
            Operand::Label(candidate) => candidate,
            Operand::Full(target) => &target.candidate,
        }
    }
}

/// A bound: a number, optionally with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "BoundText", into = "BoundText")]
pub struct Bound {
    /// Value in seconds, bytes or ops per second if it has a unit.
    pub value: f64,
    /// Unit, if it was written with one.
    pub unit: Option<FigureUnit>,
}

/// A bound as written in a plan.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum BoundText {
    Number(f64),
    Text(String),
}

impl JsonSchema for Bound {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Bound".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        BoundText::json_schema(generator)
    }
}

impl From<f64> for Bound {
    fn from(value: f64) -> Bound {
        Bound { value, unit: None }
    }
}

impl TryFrom<BoundText> for Bound {
    type Error = anyhow::Error;

    fn try_from(text: BoundText) -> Result<Bound> {
        match text {
            BoundText::Number(value) => Ok(Bound::from(value)),
            BoundText::Text(text) => text.parse(),
        }
    }
}

impl From<Bound> for BoundText {
    fn from(bound: Bound) -> BoundText {
        match bound.unit {
            None => BoundText::Number(bound.value),
            Some(_) => BoundText::Text(bound.to_string()),
        }
    }
}

/// Suffixes of bounds with their units; if two suffixes share an ending, the longer one comes first.
const BOUND_UNITS: &[(&str, FigureUnit, f64)] = &[
    ("/s", FigureUnit::OpsPerSecond, 1.0),
    ("ns", FigureUnit::Seconds, 1e-9),
    ("us", FigureUnit::Seconds, 1e-6),
    ("µs", FigureUnit::Seconds, 1e-6),
    ("ms", FigureUnit::Seconds, 1e-3),
    ("s", FigureUnit::Seconds, 1.0),
];

impl std::str::FromStr for Bound {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Bound> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
        let known = BOUND_UNITS.iter().find_map(|(end, unit, factor)| {
            Some(Bound { value: number(text.trim().strip_suffix(end)?)? * factor, unit: Some(*unit) })
        });
        // A bare number has no unit, so it is not read as bytes.
        let bytes = || {
            let is_size = text.trim().ends_with(['B', 'b']);
            let value = is_size.then(|| parse_bytes(text).ok())?? as f64;
            Some(Bound { value, unit: Some(FigureUnit::Bytes) })
        };
        known.or_else(bytes).with_context(|| {
            format!("`{text}` is neither a number nor a time such as 20us, a size such as 64MiB or a rate such as 5000/s")
        })
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = match self.unit {
            None => "",
            Some(FigureUnit::Seconds) => "s",
            Some(FigureUnit::Bytes) => "B",
            Some(FigureUnit::OpsPerSecond) => "/s",
        };
        write!(f, "{}{end}", self.value)
    }
}

/// Range of a quantity. A bound is a number, or a text with a unit: `"20us"`, `"64MiB"`, `"5000/s"`.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpectedRange {
    /// Lower bound, inclusive: a number, or a text with a unit (`20us`, `64MiB`, `5000/s`).
    pub low: Option<Bound>,
    /// Upper bound, inclusive, in the same format.
    pub high: Option<Bound>,
    /// Within 3 % of 1. If `low` or `high` is also given, values between that bound and 3 % leave the claim undecided.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub equal: bool,
}

impl ClaimText {
    /// Restates the claim for a successor; `None` if the claim does not involve the candidate that it replaces.
    pub(super) fn by(&self, successor: &Successor) -> Option<ClaimText> {
        let operands = |own: &[Operand]| -> Vec<Operand> {
            own.iter().map(|operand| operand.by(successor).unwrap_or_else(|| operand.clone())).collect()
        };
        let parts = |own: &[ClaimText]| -> Vec<ClaimText> {
            own.iter().map(|part| part.by(successor).unwrap_or_else(|| part.clone())).collect()
        };
        let said = ClaimText {
            candidates: operands(&self.candidates),
            order: operands(&self.order),
            all_of: parts(&self.all_of),
            any_of: parts(&self.any_of),
            ..self.clone()
        };
        let is_other = said != *self;
        is_other.then(|| ClaimText {
            id: if said.id.is_empty() { said.id } else { format!("{} by {}", said.id, successor.candidate) },
            in_place: Some(successor.clone()),
            ..said
        })
    }

    /// Sub-claims with the values they inherit; empty if the claim has candidates of its own.
    pub fn parts(&self) -> Vec<ClaimText> {
        let listed = self.all_of.iter().chain(&self.any_of).cloned();
        let is_about =
            |pair: &[Operand], by: &Successor| pair.iter().any(|operand| operand.is_about(&by.candidate));
        let ordered = self.order.windows(2).enumerate().map(|(step, pair)| ClaimText {
            in_place: self.in_place.clone().filter(|by| is_about(pair, by)),
            candidates: vec![pair[1].clone(), pair[0].clone()],
            expect: Some(ExpectedRange { low: Some(1.0.into()), ..ExpectedRange::default() }),
            published: self.published_steps.get(step).copied(),
            ..ClaimText::default()
        });
        let parts = listed.chain(ordered).enumerate();
        parts.map(|(index, part)| self.handed_down(index, part)).collect()
    }

    fn handed_down(&self, index: usize, mut part: ClaimText) -> ClaimText {
        if part.id.is_empty() {
            part.id = format!("{}.{}", self.id, index + 1);
        }
        part.steps = steps_within(part.metric, part.steps, &self.steps);
        part.metric = part.metric.or(self.metric);
        part.quantity = part.quantity.or(self.quantity);
        part.phase = part.phase.or_else(|| self.phase.clone());
        part.corpus = part.corpus.or_else(|| self.corpus.clone());
        part.expect = part.expect.or(self.expect);
        part.impossible = part.impossible.or_else(|| self.impossible.clone());
        part
    }

    /// True if one confirmed sub-claim is enough.
    pub fn is_any(&self) -> bool {
        !self.any_of.is_empty()
    }

    /// Converts an operand to a target, with the claim's phase, corpus, metric and steps as defaults.
    pub fn target(&self, operand: &Operand) -> DetailedOperand {
        operand.within(self.phase.as_ref(), self.corpus.as_ref(), self.metric, &self.steps)
    }

    /// Unit of the claim's quantity; `None` for ratios, shares and counts.
    pub fn unit(&self) -> Option<FigureUnit> {
        let has_unit = matches!(self.quantity.unwrap_or_default(), Quantity::Value | Quantity::Difference);
        let metric = |first: &Operand| self.target(first).metric.unwrap_or_default();
        self.candidates.first().filter(|_| has_unit).and_then(|first| metric(first).unit())
    }

    /// True if the claim, or one of its sub-claims, compares an absolute figure with a constant.
    fn is_of_a_machine(&self) -> bool {
        self.quantity == Some(Quantity::Value) && self.unit().is_some()
            || self.parts().iter().any(ClaimText::is_of_a_machine)
    }

    /// Rejects malformed claims, and absolute figures in the claims of a document, because those depend on its machine.
    pub fn check(&self, of_a_document: bool) -> Result<()> {
        if self.id.is_empty() || self.statement.is_empty() {
            bail!("a claim needs `id` and `statement`");
        }
        let check = || -> Result<()> {
            self.check_form()?;
            if of_a_document && self.is_of_a_machine() {
                bail!(
                    "a document's times, rates and bytes are those of its machine: compare two candidates, by their `ratio`"
                );
            }
            Ok(())
        };
        check().with_context(|| format!("claim `{}`", self.id))
    }

    fn check_form(&self) -> Result<()> {
        let forms =
            [!self.candidates.is_empty(), !self.order.is_empty(), !self.all_of.is_empty(), self.is_any()];
        match forms.iter().filter(|form| **form).count() {
            0 if self.not_testable.is_some() => return Ok(()),
            1 => {}
            _ => bail!("give one of `candidates`, `order`, `all-of`, `any-of` and `not-testable`"),
        }
        if self.candidates.is_empty() {
            if self.order.len() == 1 {
                bail!("an order has at least two candidates");
            }
            return self
                .parts()
                .iter()
                .try_for_each(|part| part.check_form().with_context(|| format!("sub-claim `{}`", part.id)));
        }
        let wanted = match self.quantity.unwrap_or_default() {
            Quantity::Ratio | Quantity::Difference | Quantity::Cv => 2..=2,
            Quantity::RatioOfRatios => 4..=4,
            Quantity::Slope => 1..=usize::MAX,
            Quantity::MaxOverMin => 2..=usize::MAX,
            Quantity::Value => 1..=1,
        };
        if !wanted.contains(&self.candidates.len()) {
            bail!("this quantity does not have {} candidates", self.candidates.len());
        }
        self.candidates.iter().try_for_each(|candidate| self.target(candidate).check())?;
        let expect = self.expect.unwrap_or_default();
        expect.check("expect")?;
        expect.check_unit(self.quantity.unwrap_or_default(), self.unit())?;
        if self.is_of_a_machine() && (self.published.is_some() || self.magnitude.is_some()) {
            bail!(
                "a `value` in seconds, bytes or ops a second is one of this machine: no figure that was `published` is held against it"
            );
        }
        self.magnitude.map_or(Ok(()), |magnitude| magnitude.check("magnitude"))
    }
}

impl ExpectedRange {
    fn check(&self, name: &str) -> Result<()> {
        match (self.low.map(|low| low.value), self.high.map(|high| high.value), self.equal) {
            (None, None, false) => bail!("`{name}` is missing"),
            (Some(low), Some(high), false) if low >= high => bail!("`{name}` is empty"),
            (None, None, true) | (_, _, false) => Ok(()),
            (Some(low), Some(high), true) if low < 1.0 && high > 1.0 => Ok(()),
            _ => bail!("`{name}` is `equal` with bounds that do not lie on both sides of 1"),
        }
    }

    /// Rejects bounds whose unit differs from the quantity's. Without a unit, a bound of 20 would mean 20 s and always hold.
    fn check_unit(&self, quantity: Quantity, unit: Option<FigureUnit>) -> Result<()> {
        for bound in [self.low, self.high].into_iter().flatten() {
            let fits = bound.unit == unit || quantity == Quantity::Difference && bound.unit.is_none();
            match unit {
                _ if fits => {}
                Some(unit) => bail!("the bound `{bound}` of `expect` must be {}", unit.example()),
                None => bail!("the bound `{bound}` of `expect` must be a number without a unit"),
            }
        }
        if self.equal && unit.is_some() {
            bail!("`expect` is `equal`, which is about a ratio");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanText;

    fn claim(toml: &str) -> ClaimText {
        let text = format!("[[claim]]\nid = 'X-1'\nstatement = 's'\n{toml}");
        PlanText::parse(&text).unwrap().claim.remove(0)
    }

    #[test]
    fn an_order_is_its_adjacent_pairs() {
        let claim = claim(
            "phase = 'p'\norder = ['a', 'b', {candidate = 'c', phase = 'q'}]\npublished-steps = [1.1, 1.2]",
        );
        claim.check(false).unwrap();
        let parts = claim.parts();
        assert_eq!(parts.len(), 2);
        assert_eq!((parts[1].id.as_str(), parts[1].published), ("X-1.2", Some(1.2)));
        let targets: Vec<DetailedOperand> =
            parts[1].candidates.iter().map(|candidate| parts[1].target(candidate)).collect();
        assert_eq!((targets[0].candidate.as_str(), targets[0].phase.as_deref()), ("c", Some("q")));
        assert_eq!((targets[1].candidate.as_str(), targets[1].phase.as_deref()), ("b", Some("p")));
    }

    #[test]
    fn a_claim_that_says_nothing_is_refused() {
        let error = |toml: &str| format!("{:#}", claim(toml).check(false).unwrap_err());
        assert!(error("").contains("not-testable"));
        assert!(error("candidates = ['a']\nexpect = {low = 1.0}").contains("1 candidates"));
        for (more, words) in [
            ("", "`expect` is missing"),
            ("metric = 'steps'\nexpect = {low = 1.0}", "goes with `steps`"),
            ("steps = ['put']\nexpect = {low = 1.0}", "goes with `steps`"),
            ("expect = {low = 2.0, high = 1.0}", "empty"),
            ("expect = {low = 2.0, equal = true}", "both sides of 1"),
            ("expect = {low = 1.0}\nmagnitude = {low = 2.0, high = 1.5}", "`magnitude` is empty"),
            ("order = ['a', 'b']\nexpect = {low = 1.0}", "one of"),
        ] {
            let error = error(&format!("candidates = ['a', 'b']\n{more}"));
            assert!(error.contains(words), "{more}: {error}");
        }
        claim("candidates = ['a', {candidate = 'b', metric = 'p50'}]\nmetric = 'steps'\nsteps = ['put']\nexpect = {low = 1.0}")
            .check(false)
            .unwrap();
        let steps = "candidates = ['a', {candidate = 'b', steps = ['put']}]\nmetric = 'steps'\nsteps = ['find', 'insert']";
        claim(&format!("{steps}\nexpect = {{low = 1.0}}")).check(false).unwrap();
        claim("not-testable = 'there is nothing to measure'").check(false).unwrap();
    }

    #[test]
    fn a_value_is_held_against_constants_of_its_unit() {
        let value = |metric: &str, expect: &str| {
            claim(&format!(
                "candidates = ['a']\nmetric = '{metric}'\nquantity = 'value'\nexpect = {{{expect}}}"
            ))
        };
        let error =
            |metric: &str, expect: &str| format!("{:#}", value(metric, expect).check(false).unwrap_err());
        for (metric, expect) in [
            ("time", "high = '20us'"),
            ("p99", "low = '1.5 ms', high = '2s'"),
            ("rate", "low = '5000/s'"),
            ("memory", "high = '64MiB'"),
            ("device-read", "low = '4096B'"),
            ("index", "high = 0.5"),
            ("failed-attempts", "high = 0.001"),
        ] {
            value(metric, expect).check(false).unwrap();
            let refused = value(metric, expect).check(true);
            assert_eq!(refused.is_err(), expect.contains('\''), "of a document: {metric}");
        }
        for (metric, expect, why) in [
            ("time", "high = 20", "`20` of `expect` must be a time such as \"20us\""),
            ("time", "high = '64MiB'", "must be a time such as"),
            ("rate", "low = '20us'", "must be a rate such as \"5000/s\""),
            ("memory", "high = 67108864", "must be a size such as \"64MiB\""),
            ("disk", "high = '2B'", "must be a number without a unit"),
            ("time", "equal = true", "which is about a ratio"),
        ] {
            assert!(error(metric, expect).contains(why), "{metric}: {}", error(metric, expect));
        }
        let stated = "candidates = ['a']\nquantity = 'value'\nexpect = {high = '20us'}\npublished = 1.0";
        assert!(format!("{:#}", claim(stated).check(false).unwrap_err()).contains("of this machine"));
        // A difference may have bounds in plain seconds, as in published plans.
        let pair = |high: &str| {
            claim(&format!("candidates = ['a', 'b']\nquantity = 'difference'\nexpect = {{high = {high}}}"))
        };
        assert!(pair("0.5").check(true).is_ok() && pair("'500ms'").check(true).is_ok());
        assert!(pair("'5kB'").check(false).is_err());
    }

    #[test]
    fn bounds_are_written_as_they_are_read() {
        for (text, value) in
            [("20us", 20e-6), ("1.5 ms", 1.5e-3), ("3s", 3.0), ("5000/s", 5000.0), ("4KiB", 4096.0)]
        {
            let bound: Bound = text.parse().unwrap();
            assert!((bound.value / value - 1.0).abs() < 1e-12, "{text}");
            assert_eq!(bound.to_string().parse::<Bound>().unwrap(), bound, "{text}");
        }
        for wrong in ["", "20", "20 hours", "s", "fast", "nan s"] {
            assert!(wrong.parse::<Bound>().is_err(), "{wrong}");
        }
    }
}
