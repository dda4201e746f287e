//! Calculates every figure of the result from the measurements.

use std::collections::BTreeMap;

use anyhow::Result;

use super::cells::{cell, missing_cell, series, writes};
use super::compare::{Ranking, Series, rank, with_reference};
use super::crossover::{SweepPoint, crossovers};
use super::flushes::granted;
use super::ranking::{
    Comparability, is_baseline, not_ranked, ranked_among, same_keys, unrank_if_fastest_too_short,
};
use super::{answer, claims, disturbed, growth, interval, reference, warnings};
use crate::corpus::CorpusId;
use crate::plan::text::{Design, MEMORY_SWEEP, Phase};
use crate::records::Records;
use crate::result::{
    CandidateResult, Cell, Comparison, Disturbance, Finding, Footprint, PhaseResult, Picture, ReferenceRole,
    RunResult, SCHEMA, Verdict,
};
use crate::rules::VERDICT_ROUNDS;

/// Calculates the whole result.
pub fn summarize(plan: &Design, records: &Records) -> Result<RunResult> {
    let mut cells = Vec::new();
    let (mut candidates, in_doubt) = granted(records);
    for planned in &plan.corpora {
        for phase in plan.phases_of(planned.corpus_id).filter(|phase| !phase.only_prepares()) {
            for candidate in candidates.iter().filter(|candidate| does(plan, phase, candidate)) {
                match candidate.is_here() {
                    true => cells.extend(cell(plan, records, candidate, phase, planned.corpus_id)?),
                    false => cells.push(missing_cell(candidate, plan, phase, planned.corpus_id)),
                }
            }
        }
    }
    for cell in cells.iter_mut().filter(|cell| cell.not_ranked.is_none()) {
        cell.not_ranked = not_ranked(plan, records, cell);
    }
    unrank_if_fastest_too_short(&mut cells);
    let rankings = rankings(&mut cells);
    for candidate in &mut candidates {
        let visits = records.store_rounds.iter().filter(|visit| visit.store == candidate.store);
        candidate.verified_from = visits.filter_map(|visit| visit.verified_from).min();
    }
    let mut result = RunResult {
        place: None,
        schema: SCHEMA,
        complete: records.complete,
        program: records.program.clone(),
        plan: plan.text.clone(),
        fixed: records.fixed.clone(),
        machine: records.machine.clone(),
        clients: records.clients.clone(),
        harness: records.harness.clone(),
        corpus: records.corpora.first().cloned().unwrap_or_default(),
        corpora: if plan.corpora.len() > 1 { records.corpora.clone() } else { Vec::new() },
        candidates,
        phases: plan.phases.iter().map(phase_result).collect(),
        findings: findings(plan, records),
        footprints: footprints(plan, records),
        comparisons: comparisons(plan, records, &cells, &rankings),
        matrices: reference::matrices(plan, records, &cells),
        crossovers: all_crossovers(plan, records, &cells),
        curves: growth::curves(plan, &records.candidates, &cells),
        results: cells,
        answer: Vec::new(),
        advice: None,
        costs: None,
        claims: Vec::new(),
        // The warning about flushes comes first.
        warnings: in_doubt.into_iter().chain(records.warnings.iter().cloned()).collect(),
        probes: records.probes.clone(),
        store_rounds: records.store_rounds.clone(),
        set_aside: records.set_aside.clone(),
        pictures: records.candidates.iter().filter_map(|candidate| picture(records, candidate)).collect(),
    };
    result.warnings.extend(warnings::from_figures(plan, &result));
    result.claims = claims::judge(&result);
    result.answer = answer::answer(plan, &result);
    result.advice = answer::advice(plan, &result);
    Ok(result)
}

/// True if a candidate does a phase, or would if it could run.
fn does(plan: &Design, phase: &Phase, candidate: &CandidateResult) -> bool {
    if !candidate.is_here() {
        return plan.would_be_done_by(&phase.id, &candidate.store, &candidate.adapter);
    }
    candidate.is_baseline() || plan.is_for(&phase.id, &candidate.adapter, &candidate.options)
}

fn picture(records: &Records, candidate: &CandidateResult) -> Option<Picture> {
    records.pictures.iter().find(|picture| picture.store == candidate.store).cloned()
}

fn phase_result(phase: &Phase) -> PhaseResult {
    let (kind, about) = (phase.kind.to_owned(), phase.about.map(str::to_owned));
    PhaseResult { id: phase.id.clone(), kind, about }
}

/// Collects the findings in the order of the plan.
fn findings(plan: &Design, records: &Records) -> Vec<Finding> {
    let mut all = Vec::new();
    for planned in &plan.corpora {
        for phase in plan.phases_of(planned.corpus_id) {
            for candidate in &records.candidates {
                let key = (candidate.store.clone(), planned.corpus_id, phase.id.clone());
                all.extend(
                    records.cells.get(&key).into_iter().flat_map(|cell| cell.findings.iter().cloned()),
                );
            }
        }
    }
    all
}

/// Returns the number of rounds that the variance of the first five requires.
pub fn rounds_needed(plan: &Design, records: &Records, most: u32) -> Result<u32> {
    let result = summarize(plan, records)?;
    let mut comparisons = Vec::new();
    for cell in result.results.iter().filter(|cell| cell.not_ranked.is_none() && cell.store != plan.reference)
    {
        let reference = result.results.iter().find(|other| {
            other.store == plan.reference && other.phase == cell.phase && other.corpus_id == cell.corpus_id
        });
        if let Some(reference) = reference.filter(|reference| reference.not_ranked.is_none()) {
            comparisons.push(series(cell).logs_over(&series(reference)));
        }
    }
    Ok(interval::rounds_needed(&comparisons, plan.precision, most))
}

/// Returns all disturbances of the rounds so far.
pub fn disturbances(plan: &Design, records: &Records) -> Result<Vec<Disturbance>> {
    Ok(disturbed::found(plan, &summarize(plan, records)?))
}

// ---- comparisons -----------------------------------------------------------------------------------------------

/// One ranking: the comparable cells of a phase (and size).
#[derive(Clone, Debug)]
pub struct PhaseRanking {
    /// Id of the phase.
    pub phase: String,
    /// Corpus of the run, such as a size of a sweep.
    pub corpus_id: CorpusId,
    /// Result of the ranking.
    pub ranking: Ranking,
}

/// Ranks every phase and marks the leaders.
fn rankings(cells: &mut [Cell]) -> Vec<PhaseRanking> {
    let mut groups: BTreeMap<(usize, CorpusId, Comparability), Vec<usize>> = BTreeMap::new();
    let mut phases: Vec<String> = Vec::new();
    for (index, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.not_ranked.is_none()) {
        if !phases.contains(&cell.phase) {
            phases.push(cell.phase.clone());
        }
        let phase = phases.iter().position(|phase| *phase == cell.phase).unwrap_or(0);
        groups.entry((phase, cell.corpus_id, ranked_among(cell))).or_default().push(index);
    }
    let mut ranked = Vec::new();
    for ((phase, corpus_id, _), members) in groups {
        let candidates: Vec<Series> = members.iter().map(|index| series(&cells[*index])).collect();
        let Some(ranking) = rank(&candidates) else { continue };
        for index in members {
            let cell = &mut cells[index];
            let leaders = &ranking.leaders;
            cell.leader = leaders.contains(&cell.store)
                && cell.rounds.len() as u32 >= VERDICT_ROUNDS
                && !leaders.iter().any(|leader| ranking.is_wide(leader));
        }
        ranked.push(PhaseRanking { phase: phases[phase].clone(), corpus_id, ranking });
    }
    ranked
}

fn comparisons(plan: &Design, records: &Records, cells: &[Cell], groups: &[PhaseRanking]) -> Vec<Comparison> {
    let mut all = reference::comparisons(plan, records, cells);
    for group in groups {
        for (store, (ratio, verdict)) in &group.ranking.ratios {
            all.push(Comparison {
                phase: group.phase.clone(),
                corpus_id: group.corpus_id,
                store: store.clone(),
                reference: group.ranking.best.clone(),
                against: ReferenceRole::Best,
                ratio: Some(*ratio),
                verdict: *verdict,
                reason: None,
            });
        }
    }
    let pairs =
        cells.iter().flat_map(|cell| baselines_of(records, cells, cell).map(move |other| (cell, other)));
    all.extend(pairs.filter_map(|(cell, other)| {
        let same_keys = same_keys(plan, records, cell, other);
        let ratio = same_keys.then(|| with_reference(&series(cell), &series(other))).flatten();
        Some(Comparison {
            phase: cell.phase.clone(),
            corpus_id: cell.corpus_id,
            store: cell.store.clone(),
            reference: other.store.clone(),
            against: ReferenceRole::Baseline,
            ratio: Some(ratio?.0),
            verdict: Verdict::NotRanked,
            reason: other.not_ranked.clone(),
        })
    }));
    all
}

/// Returns the baselines that a cell is shown relative to, without a verdict: those that keep the same blobs on a
/// device, on the same file system, and in the same class if it writes. A ratio to a baseline that keeps nothing would
/// say only that.
fn baselines_of<'c>(
    records: &'c Records,
    cells: &'c [Cell],
    cell: &'c Cell,
) -> impl Iterator<Item = &'c Cell> {
    let keeps = |label: &str| {
        let candidate = records.candidates.iter().find(|candidate| candidate.store == label);
        candidate.is_some_and(|candidate| candidate.is_baseline() && candidate.made_cold.is_some())
    };
    let is_held = !cell.rounds.is_empty() && !is_baseline(cell);
    cells.iter().filter(move |other| {
        (is_held && !other.rounds.is_empty() && keeps(&other.store))
            && (other.phase == cell.phase
                && other.corpus_id == cell.corpus_id
                && other.file_system_option() == cell.file_system_option())
            && (!writes(cell) || other.durability == cell.durability)
    })
}

// ---- disk and crossovers -----------------------------------------------------------------------------------------

fn footprints(plan: &Design, records: &Records) -> Vec<Footprint> {
    let mut all = Vec::new();
    for planned in &plan.corpora {
        for candidate in &records.candidates {
            let rounds: Vec<&Footprint> = records
                .store_rounds
                .iter()
                .filter(|visit| visit.store == candidate.store && visit.corpus_id == planned.corpus_id)
                .map(|visit| &visit.footprint)
                .collect();
            let Some(first) = rounds.first() else { continue };
            let middle = |value: fn(&Footprint) -> Option<u64>| {
                interval::upper_median(rounds.iter().filter_map(|footprint| value(footprint)))
            };
            let middle_share = |value: fn(&Footprint) -> Option<f64>| {
                interval::upper_median(rounds.iter().filter_map(|footprint| value(footprint)))
            };
            all.push(Footprint {
                store: first.store.clone(),
                corpus_id: first.corpus_id,
                logical_bytes: first.logical_bytes,
                empty_bytes: middle(|footprint| footprint.empty_bytes),
                empty_log_bytes: middle(|footprint| footprint.empty_log_bytes),
                empty_memory_bytes: middle(|footprint| footprint.empty_memory_bytes),
                allocated_bytes: middle(|footprint| footprint.allocated_bytes),
                after_settle_bytes: middle(|footprint| footprint.after_settle_bytes),
                index_bytes: middle(|footprint| footprint.index_bytes),
                directory_bytes: middle(|footprint| footprint.directory_bytes),
                log_bytes: middle(|footprint| footprint.log_bytes),
                statvfs_bytes: middle(|footprint| footprint.statvfs_bytes),
                write_amplification: middle_share(|footprint| footprint.write_amplification),
                space_amplification: middle_share(|footprint| footprint.space_amplification),
                grows_per_byte: middle_share(|footprint| footprint.grows_per_byte),
            });
        }
    }
    all
}

fn all_crossovers(plan: &Design, records: &Records, cells: &[Cell]) -> Vec<crate::result::Crossover> {
    let of_all = |phase: &str, candidates: &[RatesBySize]| {
        let mut pairs = Vec::new();
        for (index, a) in candidates.iter().enumerate() {
            pairs.extend(candidates[index + 1..].iter().map(|b| points(a, b)));
        }
        crossovers(phase, &pairs)
    };
    let mut found = Vec::new();
    let mut find = |name: &str, amounts: &[Amount<'_>]| {
        let rates = |candidate: &CandidateResult| at_amounts(cells, amounts, &candidate.store);
        found.extend(of_all(name, &records.candidates.iter().map(rates).collect::<Vec<_>>()));
    };
    let sizes = if plan.corpora.len() > 1 { plan.corpora.as_slice() } else { &[] };
    for phase in &plan.phases {
        let size = |corpus_id: CorpusId| Some((corpus_id.bytes()?, phase, corpus_id));
        find(&phase.id, &sizes.iter().filter_map(|corpus| size(corpus.corpus_id)).collect::<Vec<_>>());
    }
    let corpus_bytes = records.corpora.first().map_or(0, |corpus| corpus.bytes);
    let swept: Vec<(u64, &Phase)> = plan.memory_sweep(corpus_bytes).collect();
    let by_memory = (!swept.is_empty()).then_some((MEMORY_SWEEP, swept));
    for (name, phases) in by_memory.into_iter().chain(plan.steps()) {
        let amounts = phases.into_iter().map(|(at, phase)| (at, phase, CorpusId::ONLY));
        find(name, &amounts.collect::<Vec<_>>());
    }
    found
}

/// Size of blobs, amount of memory, number of blobs or age, with the phase and corpus measured at it.
type Amount<'p> = (u64, &'p Phase, CorpusId);

/// Rates of a candidate at each amount of a sweep at which it is ranked, with its comparison group there.
type RatesBySize = BTreeMap<u64, (Comparability, Series)>;

fn at_amounts(cells: &[Cell], swept: &[Amount<'_>], label: &str) -> RatesBySize {
    let at = |(bytes, phase, corpus_id): &Amount<'_>| {
        let is_it =
            |cell: &&Cell| cell.store == label && cell.phase == phase.id && cell.corpus_id == *corpus_id;
        let cell = cells.iter().find(is_it)?;
        let is_ranked = cell.not_ranked.is_none() && !cell.rounds.is_empty();
        is_ranked.then(|| (*bytes, (ranked_among(cell), series(cell))))
    };
    swept.iter().filter_map(at).collect()
}

/// Pairs two candidates at every size at which they are comparable.
fn points<'s>(a: &'s RatesBySize, b: &'s RatesBySize) -> Vec<SweepPoint<'s>> {
    let both = a.iter().filter_map(|(bytes, a)| Some((*bytes, a, b.get(bytes)?)));
    both.filter(|(_, (group, _), (other, _))| group == other)
        .map(|(bytes, (_, a), (_, b))| SweepPoint { bytes, a, b })
        .collect()
}
