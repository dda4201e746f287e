//! Previews of a plan at part of its size: which of its claims can be tested, and at which size the others can.

use crate::engine::work::ResolvePlan;
use anyhow::{Result, bail};

use super::eprint;
use crate::corpus::Corpus;
use crate::engine::testable::{UntestableReason, foreseen, summarize};
use crate::plan::{Plan, PlanText};
use crate::units;

/// Scales that are suggested instead of one that is too small.
const SCALES: [f64; 4] = [0.1, 0.2, 0.5, 1.0];

/// Request for a run of part of a plan.
pub struct PreviewRequest<'a> {
    /// Text of the plan.
    pub text: &'a PlanText,
    /// Number of rounds at a scale above a preview's.
    pub rounds: Option<u32>,
    /// True if flags set the number of rounds or the size of the corpus.
    pub has_own_size: bool,
    /// True to continue even if few claims can be tested.
    pub goes_on: bool,
    /// True to omit the line on testable claims (`--quiet`).
    pub is_quiet: bool,
}

/// States which claims can be tested, and rejects a run that is too small for some of them, unless it is to continue. A run with
/// a budget is accepted, because it is sized to fit the budget; the engine states it then, before round 1.
pub fn check(asked: &PreviewRequest<'_>, plan: &Plan, corpora: &[Corpus]) -> Result<()> {
    let is_scaled = plan.scale < 1.0;
    if !is_scaled && !asked.has_own_size || plan.budget.is_some() || plan.text.claim.is_empty() {
        return Ok(());
    }
    let claims = foreseen(plan, corpora);
    let (of, why) = summarize(&claims);
    let at = if is_scaled { format!("at `--scale {}`", plan.scale) } else { "with these flags".to_owned() };
    if why.is_empty() || asked.goes_on {
        let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
        if !asked.is_quiet {
            eprint(&format!("{at} {of}{why}"));
        }
        return Ok(());
    }
    let larger = larger(asked, plan.scale, count(&claims))?;
    let larger = if larger.is_empty() { String::new() } else { format!(" More can {}.", larger.join(", ")) };
    bail!(
        "{at} {of}: {}.{larger} To see the plan's shape without these verdicts, add --preview",
        why.join("; ")
    )
}

fn count(claims: &[(String, Option<UntestableReason>)]) -> usize {
    claims.iter().filter(|(_, lack)| lack.is_none()).count()
}

/// Lists larger scales at which more claims can be tested: number of claims, rounds and duration.
fn larger(asked: &PreviewRequest<'_>, scale: f64, testable: usize) -> Result<Vec<String>> {
    let mut most = testable;
    let mut told = Vec::new();
    for scale in SCALES.into_iter().filter(|larger| *larger > scale) {
        let text = PlanText { scale: Some(scale), rounds: asked.rounds, ..asked.text.clone() };
        let mut plan = text.resolve(false)?;
        let corpora = plan.build_corpora()?;
        plan.note_logs(&corpora);
        let claims = foreseen(&plan, &corpora);
        if count(&claims) > most {
            most = count(&claims);
            told.push(format!("at `--scale {scale}`: {most}{}", length(&text, scale)));
        }
        if !claims.iter().any(|(_, lack)| matches!(lack, Some(UntestableReason::Size(_)))) {
            break;
        }
    }
    Ok(told)
}

/// Minimum duration of the rounds, extrapolated from those of the plan's results page: a part takes at least its share of the
/// time.
fn length(text: &PlanText, scale: f64) -> String {
    let Some(rounds) = text.rounds else { return String::new() };
    let rounds_told = units::counted(rounds, "round");
    match text.round_seconds {
        Some(seconds) => {
            let at_least = units::seconds(seconds * scale * f64::from(rounds));
            format!(" ({rounds_told}, at least {at_least} on two processors)")
        }
        None => format!(" ({rounds_told})"),
    }
}
