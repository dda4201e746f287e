//! Claims of a plan: what was published, as data that a run can confirm, refute or leave open.

use anyhow::{Context, Result, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::published::Successor;
use crate::units::parse_bytes;

/// A published statement, as a plan writes it. It has candidates, or sub-claims, or a reason why it cannot be tested.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClaimText {
    /// Its name; a sub-claim without one is called after its claim.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// What was said, in our words. A sub-claim without one says what is compared.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub statement: String,
    /// What is measured; `time` when left out. Sub-claims take it over, and `quantity`, `phase`, `corpus`, `expect` and
    /// `impossible` too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// Which steps of an op `metric = "steps"` is about, all of them together. Sub-claims take them over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// What is made of it; `ratio` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantity: Option<Quantity>,
    /// The phase of candidates that name none; one that has parts stands for all of them together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The corpus of candidates that name none, where a plan has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus: Option<String>,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Operand>,
    /// Where the quantity lies if the statement is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
    /// The published figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
    /// Where today's figure is about as large as the published one; within a factor of 2 of it when left out, which says little
    /// of a ratio near 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub magnitude: Option<Expect>,
    /// Candidates from the smallest to the largest: every adjacent pair is a sub-claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<Operand>,
    /// The published ratios of adjacent pairs of `order`, each candidate over the one before it: shown, and no part of the claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published_steps: Vec<f64>,
    /// Confirmed when all of these are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub all_of: Vec<ClaimText>,
    /// Confirmed when one of these is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub any_of: Vec<ClaimText>,
    /// Why this plan cannot test it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_testable: Option<String>,
    /// Why the published figures cannot be right, with the arithmetic: today's are not held against them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impossible: Option<String>,
    /// What else a reader must know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Of what it is said, where that is not what the document measured: a plan writes a `[[successor]]` for that.
    #[serde(skip)]
    pub in_place: Option<Successor>,
}

/// What is measured of a candidate in a phase, round by round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Wall time of an op, with the work that was put off where the phase writes.
    #[default]
    Time,
    /// Wall time of an op until it was acknowledged.
    AcknowledgedTime,
    /// Ops a second: one over `time`.
    Rate,
    /// `time` divided by the number of blobs in an op.
    TimeForABlob,
    /// The first op of a session.
    FirstOp,
    /// The steps of an op that `steps` names: of uploads, of connections, of scripts that time themselves (`timed=true`).
    Steps,
    /// Time that half of the ops did not exceed.
    P50,
    /// 90 %.
    P90,
    /// 99 %.
    P99,
    /// 99.9 %.
    P999,
    /// Bytes allocated on disk after the fill has settled, per byte of blobs.
    Disk,
    /// Bytes of indexes beside the data after the fill has settled, per byte of blobs, where the store tells them apart.
    Index,
    /// Most memory of program and servers together.
    Memory,
    /// Bytes that the device read for an op.
    DeviceRead,
    /// Read requests that the device finished for an op, of whatever size.
    DeviceReads,
    /// Requests that an op took, where sessions tell.
    Requests,
    /// Bytes that came over the line for an op, where sessions tell.
    Received,
    /// Attempts that failed, as a share of the ops.
    FailedAttempts,
}

/// What is made of a metric's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// The first candidate over the second.
    #[default]
    Ratio,
    /// The first candidate less the second; times in seconds.
    Difference,
    /// The first over the second, over the third over the fourth.
    RatioOfRatios,
    /// The factor from one step to the next, by a straight line through logarithms. One candidate: over the parts of its phase; two
    /// candidates of phases with parts: of the first over the second; else the candidates are the steps.
    Slope,
    /// The largest candidate over the smallest.
    MaxOverMin,
    /// How much the first candidate varies from round to round, over how much the second does.
    Cv,
    /// The one candidate by itself, held against constants; what is a figure of a machine has bounds with its unit, and is no claim of a
    /// document.
    Value,
}

/// What the figures of a metric are counted in; a ratio of two has no unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FigureUnit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Ops a second.
    OpsPerSecond,
}

impl FigureUnit {
    /// How a bound in it is written.
    fn example(self) -> &'static str {
        match self {
            FigureUnit::Seconds => "a time such as \"20us\"",
            FigureUnit::Bytes => "a size such as \"64MiB\"",
            FigureUnit::OpsPerSecond => "a rate such as \"5000/s\"",
        }
    }
}

impl Metric {
    /// Whether it is a time or a rate, which takes enough ops or enough time to average over.
    pub fn is_of_time(self) -> bool {
        matches!(self.unit(), Some(FigureUnit::Seconds | FigureUnit::OpsPerSecond))
    }

    /// What a figure of it is counted in; nothing for shares, counts, and bytes for a byte.
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

/// A candidate, or a candidate with where and when it is looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Operand {
    /// A candidate's label.
    Label(String),
    /// More than that.
    Full(Target),
}

/// A candidate in a phase on a corpus.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The candidate's label.
    pub candidate: String,
    /// The phase, where it differs from the claim's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The corpus, where it differs from the claim's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus: Option<String>,
    /// The metric, where it differs from the claim's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// The steps, where they differ from the claim's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Only rounds in which it came after this candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Only rounds in which it came before this candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

impl Target {
    /// With what it does not say itself as those around it have it: the candidate and the order of candidates are its own.
    pub(super) fn within(self, around: &Target) -> Target {
        Target {
            phase: self.phase.or_else(|| around.phase.clone()),
            corpus: self.corpus.or_else(|| around.corpus.clone()),
            steps: steps_within(self.metric, self.steps, &around.steps),
            metric: self.metric.or(around.metric),
            ..self
        }
    }

    /// Refuses steps without their metric, and the metric without steps.
    pub(super) fn check(&self) -> Result<()> {
        if (self.metric == Some(Metric::Steps)) == self.steps.is_empty() {
            bail!("`metric = \"steps\"` goes with `steps`, the names of those that are meant");
        }
        Ok(())
    }
}

/// The steps that are named here, or those that are taken over, where the metric of here is no other.
fn steps_within(metric: Option<Metric>, own: Vec<String>, around: &[String]) -> Vec<String> {
    let takes_over = own.is_empty() && metric.is_none_or(|metric| metric == Metric::Steps);
    if takes_over { around.to_vec() } else { own }
}

impl Operand {
    /// With everything that it may carry.
    pub fn target(&self) -> Target {
        match self {
            Operand::Label(candidate) => Target { candidate: candidate.clone(), ..Target::default() },
            Operand::Full(target) => target.clone(),
        }
    }

    /// With what stands around it where it names none itself.
    pub fn within(
        &self,
        phase: Option<&String>,
        corpus: Option<&String>,
        metric: Option<Metric>,
        steps: &[String],
    ) -> Target {
        self.target().within(&Target {
            phase: phase.cloned(),
            corpus: corpus.cloned(),
            metric,
            steps: steps.to_vec(),
            ..Target::default()
        })
    }

    /// With another candidate where it is this one; nothing where it is not about it.
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

    /// Whether it is measured of this candidate, or of steps that are put before or behind.
    fn is_about(&self, candidate: &str) -> bool {
        let target = self.target();
        [Some(&target.candidate), target.after.as_ref(), target.before.as_ref()]
            .into_iter()
            .flatten()
            .any(|own| own == candidate)
    }

    /// The candidate's label.
    pub fn candidate(&self) -> &str {
        match self {
            Operand::Label(candidate) => candidate,
            Operand::Full(target) => &target.candidate,
        }
    }
}

/// A number, or a text with the unit of what it bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "BoundText", into = "BoundText")]
pub struct Bound {
    /// In seconds, bytes or ops a second, where it has a unit.
    pub value: f64,
    /// Its unit, where it was written with one.
    pub unit: Option<FigureUnit>,
}

/// A bound as it is written.
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

/// The units in which bounds are written, the longer of two with the same end first.
const BOUND_UNITS: &[(&str, FigureUnit, f64)] = &[
    ("/s", FigureUnit::OpsPerSecond, 1.0),
    ("ns", FigureUnit::Seconds, 1e-9),
    ("us", FigureUnit::Seconds, 1e-6),
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
        // A number by itself has no unit, and is none of bytes.
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

/// Where a quantity lies if the statement is true. A bound is a number, or a text with a unit: `\"20us\"`, `\"64MiB\"`, `\"5000/s\"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Not below this: a number, or a text with a unit (`20us`, `64MiB`, `5000/s`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<Bound>,
    /// Not above this, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<Bound>,
    /// Within 3 % of 1. With `low` and `high` beside it, what lies between those and 3 % is neither confirmed nor refuted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub equal: bool,
}

impl ClaimText {
    /// The same said of a successor; nothing where the claim is not about the candidate that it follows.
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

    /// The sub-claims of a claim with what they take over from it; none where it has candidates of its own.
    pub fn parts(&self) -> Vec<ClaimText> {
        let listed = self.all_of.iter().chain(&self.any_of).cloned();
        let is_about =
            |pair: &[Operand], by: &Successor| pair.iter().any(|operand| operand.is_about(&by.candidate));
        let ordered = self.order.windows(2).enumerate().map(|(step, pair)| ClaimText {
            in_place: self.in_place.clone().filter(|by| is_about(pair, by)),
            candidates: vec![pair[1].clone(), pair[0].clone()],
            expect: Some(Expect { low: Some(1.0.into()), ..Expect::default() }),
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

    /// Whether one confirmed sub-claim is enough.
    pub fn is_any(&self) -> bool {
        !self.any_of.is_empty()
    }

    /// A candidate with the claim's phase, corpus, metric and steps where it names none.
    pub fn target(&self, operand: &Operand) -> Target {
        operand.within(self.phase.as_ref(), self.corpus.as_ref(), self.metric, &self.steps)
    }

    /// What its quantity is counted in; nothing for ratios, shares and counts.
    pub fn unit(&self) -> Option<FigureUnit> {
        let has_unit = matches!(self.quantity.unwrap_or_default(), Quantity::Value | Quantity::Difference);
        let metric = |first: &Operand| self.target(first).metric.unwrap_or_default();
        self.candidates.first().filter(|_| has_unit).and_then(|first| metric(first).unit())
    }

    /// Whether it, or a part of it, holds a figure of the machine against a constant.
    fn is_of_a_machine(&self) -> bool {
        self.quantity == Some(Quantity::Value) && self.unit().is_some()
            || self.parts().iter().any(ClaimText::is_of_a_machine)
    }

    /// Refuses a claim whose form says nothing, and of a document one about figures of its machine.
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
        match (self.magnitude, self.published) {
            (_, Some(_)) if self.is_of_a_machine() => bail!(
                "a `value` in seconds, bytes or ops a second is one of this machine: no figure that was `published` is held against it"
            ),
            (Some(_), None) => bail!("`magnitude` is about a figure that was `published`, and there is none"),
            (Some(magnitude), _) => magnitude.check("magnitude"),
            (None, _) => Ok(()),
        }
    }
}

impl Expect {
    fn check(&self, name: &str) -> Result<()> {
        match (self.low.map(|low| low.value), self.high.map(|high| high.value), self.equal) {
            (None, None, false) => bail!("`{name}` is missing"),
            (Some(low), Some(high), false) if low >= high => bail!("`{name}` is empty"),
            (None, None, true) | (_, _, false) => Ok(()),
            (Some(low), Some(high), true) if low < 1.0 && high > 1.0 => Ok(()),
            _ => bail!("`{name}` is `equal` with bounds that do not lie on both sides of 1"),
        }
    }

    /// Refuses bounds of another unit than the quantity has. Without theirs a bound of 20 would be 20 s, and hold for ever.
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
        let targets: Vec<Target> =
            parts[1].candidates.iter().map(|candidate| parts[1].target(candidate)).collect();
        assert_eq!((targets[0].candidate.as_str(), targets[0].phase.as_deref()), ("c", Some("q")));
        assert_eq!((targets[1].candidate.as_str(), targets[1].phase.as_deref()), ("b", Some("p")));
    }

    #[test]
    fn a_claim_that_says_nothing_is_refused() {
        let error = |toml: &str| format!("{:#}", claim(toml).check(false).unwrap_err());
        assert!(error("").contains("not-testable"));
        assert!(error("candidates = ['a', 'b']").contains("`expect` is missing"));
        assert!(error("candidates = ['a']\nexpect = {low = 1.0}").contains("1 candidates"));
        assert!(
            error("candidates = ['a', 'b']\nmetric = 'steps'\nexpect = {low = 1.0}")
                .contains("goes with `steps`")
        );
        assert!(
            error("candidates = ['a', 'b']\nsteps = ['put']\nexpect = {low = 1.0}")
                .contains("goes with `steps`")
        );
        claim("candidates = ['a', {candidate = 'b', metric = 'p50'}]\nmetric = 'steps'\nsteps = ['put']\nexpect = {low = 1.0}")
            .check(false)
            .unwrap();
        let steps = "candidates = ['a', {candidate = 'b', steps = ['put']}]\nmetric = 'steps'\nsteps = ['find', 'insert']";
        claim(&format!("{steps}\nexpect = {{low = 1.0}}")).check(false).unwrap();
        assert!(error("candidates = ['a', 'b']\nexpect = {low = 2.0, high = 1.0}").contains("empty"));
        assert!(
            error("candidates = ['a', 'b']\nexpect = {low = 2.0, equal = true}").contains("both sides of 1")
        );
        assert!(
            error("candidates = ['a', 'b']\nexpect = {low = 1.0}\nmagnitude = {low = 2.0}")
                .contains("`published`")
        );
        assert!(
            error("candidates = ['a', 'b']\norder = ['a', 'b']\nexpect = {low = 1.0}").contains("one of")
        );
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
        // Seconds of a difference may be plain numbers, as published plans have them.
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
