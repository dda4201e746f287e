//! Records: rounds set aside, put back, and counted.

use blobwise_engine::engine::work::resolved;
use blobwise_plan::records::*;
use blobwise_plan::result::DroppedRounds;
use blobwise_plan::result::{Finding, Machine, MeasuringProgram, Probe, Round, StoreRound, Warning};
use blobwise_plan::subjects::candidates;
use blobwise_stores::corpus::CorpusId;

fn records() -> Records {
    let plan = resolved("stores = ['files/flat', 'files/hashed']");
    let mut records = Records::new(candidates(&plan), MeasuringProgram::default(), Machine::default());
    for round in 1..=3 {
        records.probes.push(Probe { round, ..Probe::default() });
        for store in ["files/flat", "files/hashed"] {
            let key = (store.to_owned(), CorpusId::ONLY, "fill".to_owned());
            let cell = records.cells.entry(key).or_default();
            cell.rounds.push(Round { round, ops: 7, ..Round::default() });
            cell.add_found(found(store, round));
            records.store_rounds.push(StoreRound { round, store: store.to_owned(), ..visit() });
        }
    }
    records
}

fn found(store: &str, round: u32) -> Finding {
    let found = serde_json::json!({"store": store, "phase": "fill", "round": round, "title": "t", "columns": [], "lines": [],
                                   "bearing": "holds", "verdict": "It does."});
    serde_json::from_value(found).unwrap()
}

fn visit() -> StoreRound {
    let visit = serde_json::json!({"round": 0, "store": "", "position": 1, "seconds": 1.0, "verified": 1,
                                   "footprint": {"store": "", "logical_bytes": 1}});
    serde_json::from_value(visit).unwrap()
}

/// The numbers of the rounds of each cell, after checking that its findings have the same.
fn rounds(records: &Records) -> Vec<Vec<u32>> {
    let of = |cell: &CellRecord| {
        let rounds: Vec<u32> = cell.rounds.iter().map(|round| round.round).collect();
        assert_eq!(rounds, cell.findings.iter().map(|finding| finding.round).collect::<Vec<_>>());
        rounds
    };
    records.cells.values().map(of).collect()
}

#[test]
fn a_budget_that_left_more_rounds_than_was_thought_says_how_many() {
    let mut records = records();
    let cut = DroppedRounds { wanted: 5, made: 3, wanted_seconds: 90.0, size_stands: false };
    let budget = |cold_is_short: bool| Warning::Budget {
        corpus_share: None,
        rounds: Some(cut.clone()),
        cold_is_short,
        slowest: None,
    };
    records.warning(budget(false));
    records.rounds_made(4);
    let Warning::Budget { rounds: Some(made), .. } = &records.warnings[0] else {
        panic!("{:?}", records.warnings)
    };
    assert_eq!((made.made, made.wanted), (4, 5));
    // In the end, the budget took nothing away, or something else.
    records.rounds_made(5);
    assert!(records.warnings.is_empty(), "{:?}", records.warnings);
    records.warning(budget(true));
    records.rounds_made(5);
    assert!(matches!(&records.warnings[..], [Warning::Budget { rounds: None, cold_is_short: true, .. }]));
}

#[test]
fn a_round_that_is_set_aside_is_in_no_figure_and_is_kept_whole() {
    let mut records = records();
    records.set_aside(2, Vec::new());
    assert_eq!(rounds(&records), [[1, 3], [1, 3]]);
    assert!(!records.has("files/flat", CorpusId::ONLY, 2) && records.has("files/flat", CorpusId::ONLY, 3));
    let aside = &records.set_aside[0];
    assert_eq!((aside.round, aside.visits.len(), aside.figures.len(), aside.findings.len()), (2, 2, 2, 2));
    assert!(aside.figures.iter().all(|figures| figures.measured.ops == 7 && figures.phase == "fill"));
    assert_eq!(
        records.probes.iter().filter(|probe| probe.repeated).map(|probe| probe.round).collect::<Vec<_>>(),
        [2]
    );
}

#[test]
fn a_round_that_was_measured_again_in_part_is_put_back_as_it_was() {
    let (before, mut records) = (records(), records());
    records.set_aside(2, Vec::new());
    records.probes.push(Probe { round: 2, ..Probe::default() });
    records.store_rounds.push(StoreRound { round: 2, store: "files/flat".to_owned(), ..visit() });
    let key = ("files/flat".to_owned(), CorpusId::ONLY, "fill".to_owned());
    let cell = records.cells.entry(key).or_default();
    cell.rounds.push(Round { round: 2, ops: 9, ..Round::default() });
    cell.add_found(found("files/flat", 2));
    records.put_back(2);
    assert!(records.set_aside.is_empty() && records.probes == before.probes);
    assert_eq!(rounds(&records), [[1, 2, 3], [1, 2, 3]]);
    assert!(records.cells.values().flat_map(|cell| &cell.rounds).all(|round| round.ops == 7));
    assert_eq!(records.store_rounds, before.store_rounds);
}
