//! Claims of a plan: what was published, as data that a run can confirm, refute or leave open.

use anyhow::{Context, Result, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::published::Successor;

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
    /// The one candidate by itself; for `disk` and `index`, which are no figures of a machine.
    Value,
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

/// Where a quantity lies if the statement is true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Not below this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Not above this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
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
            expect: Some(Expect { low: Some(1.0), ..Expect::default() }),
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

    /// Refuses a claim whose form says nothing.
    pub fn check(&self) -> Result<()> {
        if self.id.is_empty() || self.statement.is_empty() {
            bail!("a claim needs `id` and `statement`");
        }
        self.check_form().with_context(|| format!("claim `{}`", self.id))
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
        let is_share =
            |candidate| matches!(self.target(candidate).metric, Some(Metric::Disk | Metric::Index));
        if self.quantity == Some(Quantity::Value) && !self.candidates.iter().all(is_share) {
            bail!(
                "only `disk` and `index` have a `value` by themselves: other figures are those of a machine"
            );
        }
        self.candidates.iter().try_for_each(|candidate| self.target(candidate).check())?;
        self.expect.unwrap_or_default().check("expect")?;
        match (self.magnitude, self.published) {
            (Some(_), None) => bail!("`magnitude` is about a figure that was `published`, and there is none"),
            (Some(magnitude), _) => magnitude.check("magnitude"),
            (None, _) => Ok(()),
        }
    }
}

impl Expect {
    fn check(&self, name: &str) -> Result<()> {
        match (self.low, self.high, self.equal) {
            (None, None, false) => bail!("`{name}` is missing"),
            (Some(low), Some(high), false) if low >= high => bail!("`{name}` is empty"),
            (None, None, true) | (_, _, false) => Ok(()),
            (Some(low), Some(high), true) if low < 1.0 && high > 1.0 => Ok(()),
            _ => bail!("`{name}` is `equal` with bounds that do not lie on both sides of 1"),
        }
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
        claim.check().unwrap();
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
        let error = |toml: &str| format!("{:#}", claim(toml).check().unwrap_err());
        assert!(error("").contains("not-testable"));
        assert!(error("candidates = ['a', 'b']").contains("`expect` is missing"));
        assert!(error("candidates = ['a']\nexpect = {low = 1.0}").contains("1 candidates"));
        assert!(
            error("candidates = ['a']\nquantity = 'value'\nexpect = {low = 1.0}")
                .contains("`disk` and `index`")
        );
        claim("candidates = ['a']\nmetric = 'index'\nquantity = 'value'\nexpect = {low = 1.0}")
            .check()
            .unwrap();
        assert!(
            error("candidates = ['a', 'b']\nmetric = 'steps'\nexpect = {low = 1.0}")
                .contains("goes with `steps`")
        );
        assert!(
            error("candidates = ['a', 'b']\nsteps = ['put']\nexpect = {low = 1.0}")
                .contains("goes with `steps`")
        );
        claim("candidates = ['a', {candidate = 'b', metric = 'p50'}]\nmetric = 'steps'\nsteps = ['put']\nexpect = {low = 1.0}")
            .check()
            .unwrap();
        let steps = "candidates = ['a', {candidate = 'b', steps = ['put']}]\nmetric = 'steps'\nsteps = ['find', 'insert']";
        claim(&format!("{steps}\nexpect = {{low = 1.0}}")).check().unwrap();
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
        claim("not-testable = 'there is nothing to measure'").check().unwrap();
    }
}
