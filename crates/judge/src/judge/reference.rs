//! Comparisons with the plan's reference: each separately, and those of a phase at all sizes as a matrix.

use std::collections::BTreeSet;

use super::cells::series;
use super::compare::compared;
use super::interval::CONFIDENCE;
use super::ranking::{is_baseline, ranked_among, same_keys};
use crate::corpus::CorpusId;
use crate::plan::text::Design;
use crate::records::Records;
use crate::result::{Cell, Comparison, Interval, Matrix, MatrixCell, Reason, ReferenceRole, Verdict};

/// Returns every cell, with the reference's cell in the same phase at the same size.
fn pairs<'c>(plan: &Design, cells: &'c [Cell]) -> Vec<(&'c Cell, &'c Cell)> {
    let with_reference = |cell: &'c Cell| {
        let mut others = cells.iter().filter(|other| other.store == plan.reference);
        let same = |other: &&Cell| other.phase == cell.phase && other.corpus_id == cell.corpus_id;
        Some((cell, others.find(same)?))
    };
    cells.iter().filter(|cell| cell.store != plan.reference).filter_map(with_reference).collect()
}

/// Compares each candidate with the reference, at a confidence of 95 % for each comparison separately.
pub(super) fn comparisons(plan: &Design, records: &Records, cells: &[Cell]) -> Vec<Comparison> {
    let one = |(cell, reference): (&Cell, &Cell)| {
        let (ratio, verdict, reason) = judged(plan, records, (cell, reference), CONFIDENCE);
        Comparison {
            phase: cell.phase.clone(),
            corpus_id: cell.corpus_id,
            store: cell.store.clone(),
            reference: reference.store.clone(),
            against: ReferenceRole::Plan,
            ratio,
            verdict,
            reason,
        }
    };
    pairs(plan, cells).into_iter().map(one).collect()
}

/// Returns the ratio of a candidate to the reference at a confidence (0 to 1), its verdict, and the reason if there is
/// none.
fn judged(
    plan: &Design,
    records: &Records,
    (cell, reference): (&Cell, &Cell),
    confidence: f64,
) -> (Option<Interval>, Verdict, Option<Reason>) {
    let reason = why_not(cell, reference);
    let measured = !cell.rounds.is_empty() && !reference.rounds.is_empty();
    // Ratios over different keys are meaningless.
    let compared = (measured && same_keys(plan, records, cell, reference))
        .then(|| compared(&series(cell), &series(reference), confidence))
        .flatten();
    match (&reason, compared) {
        (None, Some((ratio, verdict))) => (Some(ratio), verdict, reason),
        // The ratio is still a fact; only the verdict is withheld.
        (_, compared) => (compared.map(|(ratio, _)| ratio), Verdict::NotRanked, reason),
    }
}

/// Returns why a candidate must not be compared with the reference; `None` if it may be.
fn why_not(cell: &Cell, reference: &Cell) -> Option<Reason> {
    let (own, other) = (ranked_among(cell), ranked_among(reference));
    match (&cell.not_ranked, &reference.not_ranked) {
        (Some(why), _) => Some(why.clone()),
        (None, Some(why)) => Some(Reason::OfReference { why: Box::new(why.clone()) }),
        (None, None) if own != other && own.is_empty() => {
            Some(Reason::GroupOfReference { group: other.to_string() })
        }
        (None, None) if own != other => Some(Reason::OtherGroup { group: own.to_string() }),
        (None, None) => None,
    }
}

/// Returns a matrix for each phase measured with several corpora: every candidate relative to the reference at every
/// size. Readers look for differences in all cells, so the intervals of a matrix hold simultaneously with 95 %
/// confidence (Bonferroni). Published experiments have tables of their own instead.
pub(super) fn matrices(plan: &Design, records: &Records, cells: &[Cell]) -> Vec<Matrix> {
    if plan.corpora.len() < 2 || plan.text.document.is_some() {
        return Vec::new();
    }
    let pairs: Vec<(&Cell, &Cell)> =
        pairs(plan, cells).into_iter().filter(|(cell, _)| !is_baseline(cell)).collect();
    plan.phases.iter().filter_map(|phase| matrix(plan, records, &pairs, &phase.id)).collect()
}

fn matrix(plan: &Design, records: &Records, pairs: &[(&Cell, &Cell)], phase: &str) -> Option<Matrix> {
    let pairs = || pairs.iter().copied().filter(|(cell, _)| cell.phase == phase);
    let sizes: BTreeSet<CorpusId> = pairs().map(|(cell, _)| cell.corpus_id).collect();
    if sizes.len() < 2 {
        return None;
    }
    let is_compared = |pair: &(&Cell, &Cell)| {
        let (ratio, verdict, _) = judged(plan, records, *pair, CONFIDENCE);
        ratio.is_some() && verdict != Verdict::NotRanked
    };
    let compared = pairs().filter(is_compared).count();
    let confidence = 1.0 - (1.0 - CONFIDENCE) / compared.max(1) as f64;
    let one = |pair: (&Cell, &Cell)| {
        let (ratio, verdict, reason) = judged(plan, records, pair, confidence);
        let blob_bytes = pair.0.corpus_id.bytes()?;
        Some(MatrixCell { store: pair.0.store.clone(), blob_bytes, ratio, verdict, reason })
    };
    Some(Matrix {
        phase: phase.to_owned(),
        reference: plan.reference.clone(),
        compared: compared as u64,
        confidence,
        cells: pairs().filter_map(one).collect(),
    })
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;
    use rand_distr::{Distribution, StandardNormal};
    use serde_json::{Value, json};

    use super::*;
    use crate::judge::fixture::{around, cell};
    use crate::plan::Plan;
    use crate::result::{Machine, MeasuringProgram};
    use crate::subjects::candidates;
    use blobwise_engine::engine::work::resolved;

    const SIZES: [u64; 3] = [1_000, 10_000, 100_000];

    fn plan(more: &str) -> Plan {
        resolved(&format!(
            "stores = ['null', 'files/hashed', 'files/flat']\nphases = ['fill', 'read-warm']\n{more}"
        ))
    }

    fn matrices_of(plan: &Plan, cells: Vec<Value>) -> Vec<Matrix> {
        let records = Records::new(candidates(plan), MeasuringProgram::default(), Machine::default());
        let cells: Vec<Cell> = cells.into_iter().map(|cell| serde_json::from_value(cell).unwrap()).collect();
        matrices(plan, &records, &cells)
    }

    /// Returns a candidate's cell at one size with these seconds in each round.
    fn at(store: &str, bytes: u64, seconds: &[f64], over: Value) -> Value {
        let mut value = cell(store, "read-warm", seconds, over);
        value["corpus_id"] = json!(bytes);
        value
    }

    #[test]
    fn every_candidate_is_compared_with_the_reference_at_every_size() {
        let plan = plan("sweep = '1kB,10kB,100kB'");
        let mut cells = Vec::new();
        for (bytes, level) in SIZES.into_iter().zip([0.5, 1.0, 3.0]) {
            cells.push(at("files/hashed", bytes, &around(1.0, 0), json!({})));
            cells.push(at(
                "null",
                bytes,
                &around(0.1, 1),
                json!({"kind": "baseline", "not_ranked": {"code": "baseline"}}),
            ));
            cells.push(at("files/flat", bytes, &around(level, 2), json!({})));
            let short = json!({"not_ranked": {"code": "too-short", "ops": 3, "seconds": 0.001}});
            cells.push(at("short", bytes, &around(level, 3), short));
            let why = json!({"code": "not-possible", "why": "a limit"});
            let refused = json!({"status": "not-possible", "rounds": [], "not_ranked": why});
            cells.push(at("refused", bytes, &[], refused));
        }
        let [matrix] = &matrices_of(&plan, cells)[..] else { panic!("one phase") };
        assert_eq!((matrix.reference.as_str(), matrix.compared, matrix.cells.len()), ("files/hashed", 3, 9));
        assert!((matrix.confidence - (1.0 - 0.05 / 3.0)).abs() < 1e-12);
        let of_candidate = |store: &str| -> Vec<&MatrixCell> {
            matrix.cells.iter().filter(|cell| cell.store == store).collect()
        };
        let flat = of_candidate("files/flat");
        assert_eq!(flat.iter().map(|cell| cell.blob_bytes).collect::<Vec<u64>>(), SIZES);
        let verdicts: Vec<Verdict> = flat.iter().map(|cell| cell.verdict).collect();
        assert_eq!(verdicts, [Verdict::Faster, Verdict::Equal, Verdict::Slower]);
        // An unranked cell has a reason; its ratio is a fact nevertheless.
        for (store, why, is_measured) in
            [("short", "too short", true), ("refused", "not possible: a limit", false)]
        {
            for cell in of_candidate(store) {
                assert_eq!(cell.verdict, Verdict::NotRanked);
                assert!(cell.reason.as_ref().unwrap().to_string().starts_with(why), "{cell:?}");
                assert_eq!(cell.ratio.is_some(), is_measured, "{cell:?}");
            }
        }
    }

    #[test]
    fn one_size_and_a_published_experiment_have_no_matrix() {
        let cells = || -> Vec<Value> {
            let both = |bytes| {
                ["files/hashed", "files/flat"].map(|store| at(store, bytes, &around(1.0, 0), json!({})))
            };
            SIZES.into_iter().flat_map(both).collect()
        };
        assert_eq!(matrices_of(&plan("sweep = '1kB,10kB,100kB'"), cells()).len(), 1);
        assert!(matrices_of(&plan(""), cells()).is_empty());
        let document =
            "sweep = '1kB,10kB,100kB'\n[document]\ntitle = 't'\nauthor = 'a'\ndate = 'd'\nmachine = 'm'";
        assert!(matrices_of(&plan(document), cells()).is_empty());
    }

    #[test]
    fn of_equal_candidates_a_matrix_calls_few_different() {
        let mut random = SmallRng::seed_from_u64(11);
        let sizes: Vec<u64> = (1..=7).map(|step| step * 10_000).collect();
        let plan = plan("sweep = '10kB,20kB,30kB,40kB,50kB,60kB,70kB'");
        let mut times = || -> Vec<f64> {
            let noise = || -> f64 { StandardNormal.sample(&mut random) };
            std::iter::repeat_with(noise).take(8).map(|noise| (0.1 * noise).exp()).collect()
        };
        let mut wrong = 0;
        for _ in 0..300 {
            let mut cells = Vec::new();
            for bytes in &sizes {
                for store in ["files/hashed", "a", "b", "c", "d"] {
                    cells.push(at(store, *bytes, &times(), json!({})));
                }
            }
            let matrix = matrices_of(&plan, cells).remove(0);
            assert_eq!(matrix.compared, 28);
            let is_different = |cell: &MatrixCell| matches!(cell.verdict, Verdict::Faster | Verdict::Slower);
            wrong += u32::from(matrix.cells.iter().any(is_different));
        }
        assert!(wrong <= 20, "{wrong} of 300 matrices of equal candidates have a difference");
    }
}
