//! Joins runs of one plan on different corpora into the single run that they would have been.

use crate::engine::work::ResolvePlan;
use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::engine::preflight::{other_candidate, other_conditions};
use crate::judge::summary::summarize;
use crate::plan::{PhaseText, PlanText};
use crate::records::Records;
use crate::result::RunResult;

/// Joins runs. Fails if anything but their corpora differs: the plan, the rounds, the program or the machine.
pub fn joined(runs: &[PathBuf], results: Vec<RunResult>) -> Result<RunResult> {
    let mut whole: Option<(PlanText, Records)> = None;
    for (run, result) in runs.iter().zip(results) {
        let (complete, text) = (result.complete, result.plan.clone());
        let mut records = Records::resume(result);
        records.complete = complete;
        match &mut whole {
            None => whole = Some((text, records)),
            Some(whole) => add(whole, text, records)
                .with_context(|| format!("`{}` cannot be joined with those before it", run.display()))?,
        }
    }
    let (text, records) = whole.context("there is no run")?;
    // Judging uses the design only, so the stores need not be available on this machine.
    summarize(&text.design(&records.candidates)?.by_clients(records.clients.len()), &records)
}

/// True if the runs are parts of one: each has some corpora of a plan of several, without overlap.
pub fn are_parts(results: &[RunResult]) -> bool {
    let mut known: BTreeSet<&Option<String>> = BTreeSet::new();
    results.iter().all(|result| {
        let corpora = &result.plan.corpora;
        let are_new = corpora.iter().all(|corpus| !known.contains(&corpus.name));
        known.extend(corpora.iter().map(|corpus| &corpus.name));
        !corpora.is_empty() && are_new
    })
}

fn add(whole: &mut (PlanText, Records), text: PlanText, records: Records) -> Result<()> {
    let (whole_text, whole_records) = whole;
    let conditions = other_conditions(
        (&whole_records.program, &whole_records.machine),
        (&records.program, &records.machine),
    );
    if let Some(difference) =
        conditions.or_else(|| other_candidate(&whole_records.candidates, &records.candidates))
    {
        bail!("{difference}");
    }
    let (rounds, others) = (whole_records.fixed.rounds, records.fixed.rounds);
    ensure!(rounds == others, "it has {others} rounds, and they have {rounds}");
    add_corpora(whole_text, text)?;
    whole_records.add(records);
    Ok(())
}

fn add_corpora(whole: &mut PlanText, text: PlanText) -> Result<()> {
    ensure!(
        !text.corpora.is_empty() && !whole.corpora.is_empty(),
        "only runs of a plan with several corpora, each with some of them (`--corpora`), are parts of one"
    );
    ensure!(apart_from_corpora(whole) == apart_from_corpora(&text), "it is a run of another plan");
    for corpus in text.corpora {
        if whole.corpora.iter().any(|known| known.name == corpus.name) {
            bail!("the corpus `{}` is in both", corpus.name.unwrap_or_default());
        }
        whole.corpora.push(corpus);
    }
    for phase in text.phase {
        match whole.phase.iter_mut().find(|known| known.id == phase.id) {
            Some(known) => {
                ensure!(what_is_done(known) == what_is_done(&phase), "its phase `{}` is another", phase.id);
                known.corpora.extend(phase.corpora);
            }
            None => whole.phase.push(phase),
        }
    }
    if let (Some(known), Some(phases)) = (&mut whole.phases, text.phases) {
        let new: Vec<String> = phases.into_iter().filter(|phase| !known.contains(phase)).collect();
        known.extend(new);
    }
    Ok(())
}

fn what_is_done(phase: &PhaseText) -> PhaseText {
    PhaseText { corpora: Vec::new(), ..phase.clone() }
}

/// Returns what must be the same in all runs, with only the phases that all corpora share.
fn apart_from_corpora(text: &PlanText) -> PlanText {
    let mut text = PlanText { corpora: Vec::new(), phases: None, dir: None, ..text.clone() };
    text.phase.retain(|phase| phase.corpora.is_empty());
    text
}
