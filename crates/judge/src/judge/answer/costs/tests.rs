//! Monthly costs of synthetic candidates, checked against sums calculated by hand.

use serde_json::{Value, json};

use super::costs;
use crate::judge::fixture::{candidate, cell, result};
use crate::judge::interval::mean;
use crate::result::{
    CandidateRank, Costs, Footprint, Interval, MachinePrice, Month, MonthlyLoad, Prices, Pricing, Rates,
    RunResult, UnknownCost,
};

const ROUNDS: usize = 5;

/// Returns a cell of 1,000 ops in each round, with this CPU time per op in microseconds, these device reads and writes
/// in each round, and this rate in ops per second.
fn used(store: &str, phase: &str, cpu_us: u64, device: [&[u64]; 2], ops_per_s: f64) -> Value {
    let rate = if phase == "overwrite" { "settled_ops_per_s" } else { "ops_per_s" };
    let mut value = cell(store, phase, &[1.0; ROUNDS], json!({rate: {"median": ops_per_s}}));
    for (index, round) in value["rounds"].as_array_mut().unwrap().iter_mut().enumerate() {
        let of = |counts: &[u64]| counts[index % counts.len()];
        round["total_cpu_ns"] = json!(cpu_us * 1_000 * 1_000);
        round["device_reads"] = json!(of(device[0]));
        round["device_writes"] = json!(of(device[1]));
    }
    value["client_peak_bytes"] = json!(100_000_000);
    value
}

/// `a` uses 1.2 bytes per byte and little CPU time, `b` 1 byte and much CPU time.
fn measured(change: impl Fn(&mut Vec<Value>)) -> RunResult {
    let mut cells = vec![
        used("a", "read-warm", 10, [&[0], &[0]], 10_000.0),
        used("a", "read-cold", 100, [&[1_500], &[0]], 1_000.0),
        used("a", "overwrite", 500, [&[0], &[4_000]], 1_000.0),
        used("b", "read-warm", 1_000, [&[0], &[0]], 1_000.0),
        used("b", "read-cold", 10_000, [&[1_000], &[0]], 100.0),
        used("b", "overwrite", 10_000, [&[500], &[1_500]], 100.0),
    ];
    change(&mut cells);
    let visit = |store: &str, per_byte: f64, round: usize| {
        json!({"round": round, "store": store, "position": 1, "seconds": 1.0, "verified": 1,
               "footprint": {"store": store, "logical_bytes": 100, "space_amplification": per_byte}})
    };
    let visits = (1..=ROUNDS).flat_map(|round| [visit("a", 1.2, round), visit("b", 1.0, round)]);
    let mut result = result("", cells, visits.collect());
    result.candidates = ["a", "b"].map(candidate).into();
    result
}

/// 20 million reads and a million writes with 500 GB stored, at 0.10 per GB, 0.20 per million requests, and 60 for a
/// machine with two CPUs and 8 GB.
fn pricing() -> Pricing {
    let machine = MachinePrice { month: 60.0, processors: 2.0, memory_gb: 8.0 };
    let rates = Rates {
        gb_month: Some(0.10),
        per_million_requests: Some(0.20),
        free_requests: None,
        machine: Some(machine),
    };
    let prices = Prices { rates, ..Prices::default() };
    let load = MonthlyLoad { reads: 2e7, writes: 1e6, stored_bytes: 5e11, growth: None, cached: 0.0 };
    Pricing { load, prices, age_days: 0 }
}

fn month_of<'c>(costs: &'c Costs, store: &str) -> &'c Month {
    costs.months.iter().find(|month| month.store == store).unwrap()
}

#[track_caller]
fn is(value: Option<f64>, wanted: f64) {
    assert!(value.is_some_and(|value| (value / wanted - 1.0).abs() < 1e-6), "{value:?}, not {wanted}");
}

fn total(month: &Month) -> Option<f64> {
    month.total.map(|total| total.median)
}

#[test]
fn a_month_is_the_sum_worked_out_by_hand() {
    let costs = costs(&measured(|_| {}), &pricing());
    let (a, b) = (month_of(&costs, "a"), month_of(&costs, "b"));
    // 500 GB x 1.2 x 0.10.
    is(a.disk, 60.0);
    // (20 million x 1.5 + 1 million x 4) / 1 million x 0.20.
    is(a.requests, 6.8);
    // 20 million x 100 us + 1 million x 500 us are 2,500 s of 2 x 2,629,800 s, 0.05 %; 0.1 GB of 8 GB are 1.25 %, which
    // is more.
    is(a.machine, 60.0 * 0.0125);
    is(total(a), 67.55);
    is(b.disk, 50.0);
    // (20 million x 1 + 1 million x (0.5 + 1.5)) / 1 million x 0.20.
    is(b.requests, 4.4);
    // 21 million x 10 ms are 210,000 s of 5,259,600 s, which is more than 1.25 %.
    is(b.machine, 60.0 * 210_000.0 / 5_259_600.0);
    is(total(b), 50.0 + 4.4 + 2.395_619_4);
    assert_eq!((a.place, b.place), (CandidateRank::Behind, CandidateRank::Leads));
    assert_eq!(costs.months[0].store, "b", "the cheapest first");
    // 1.5 and 4 requests per op, 0.20 per million.
    is(a.million_reads.map(|reads| reads.median), 0.30);
    is(a.million_writes.map(|writes| writes.median), 0.80);
}

#[test]
fn nothing_costs_least_after_too_few_rounds() {
    let mut few = measured(|_| {});
    few.results.iter_mut().for_each(|cell| cell.rounds.truncate(2));
    few.store_rounds.retain(|visit| visit.round <= 2);
    let costs = costs(&few, &pricing());
    is(total(month_of(&costs, "a")), 67.55);
    assert_eq!(
        [month_of(&costs, "a").place, month_of(&costs, "b").place],
        [CandidateRank::Undecided, CandidateRank::Undecided]
    );
    assert!(costs.turns.is_empty());
}

#[test]
fn prices_alone_turn_the_order() {
    let mut pricing = pricing();
    pricing.prices.rates.gb_month = Some(0.0001);
    pricing.prices.rates.machine.as_mut().unwrap().month = 6_000.0;
    let costs = costs(&measured(|_| {}), &pricing);
    // 0.06 + 6.8 + 75 against 0.05 + 4.4 + 239.56.
    is(total(month_of(&costs, "a")), 81.86);
    assert_eq!(
        (month_of(&costs, "a").place, month_of(&costs, "b").place),
        (CandidateRank::Leads, CandidateRank::Behind)
    );
}

#[test]
fn a_store_of_its_own_price_has_it() {
    let mut pricing = pricing();
    let own = Rates { gb_month: Some(0.01), ..Rates::default() };
    pricing.prices.store.insert("a".to_owned(), own);
    let costs = costs(&measured(|_| {}), &pricing);
    is(month_of(&costs, "a").disk, 6.0);
    is(month_of(&costs, "b").disk, 50.0);
    assert_eq!(month_of(&costs, "a").place, CandidateRank::Leads);
}

#[test]
fn the_interval_of_a_month_is_that_of_its_rounds() {
    let reads: [&[u64]; 2] = [&[1_400, 1_600, 1_400, 1_600, 1_400], &[0]];
    let costs = costs(&measured(|cells| cells[1] = used("a", "read-cold", 100, reads, 1_000.0)), &pricing());
    // (28 + 4) x 0.20 and (32 + 4) x 0.20, plus 60.75 for disk and machine.
    let Interval { median, low, high, .. } = mean(&[67.15, 67.95, 67.15, 67.95, 67.15]).unwrap();
    let month = month_of(&costs, "a").total.unwrap();
    is(Some(month.median), median);
    is(month.low, low.unwrap());
    is(month.high, high.unwrap());
    assert!(month.low < Some(67.2) && month.high > Some(67.8), "{month:?}");
}

#[test]
fn a_month_is_the_sum_of_its_parts_however_rounds_differ() {
    let reads: [&[u64]; 2] = [&[100, 9_000, 100, 9_000, 100], &[0]];
    let costs = costs(&measured(|cells| cells[1] = used("a", "read-cold", 100, reads, 1_000.0)), &pricing());
    let a = month_of(&costs, "a");
    is(total(a), a.disk.unwrap() + a.requests.unwrap() + a.machine.unwrap());
}

#[test]
fn an_object_store_is_paid_for_its_ops_and_not_for_what_its_device_does() {
    let mut result = measured(|_| {});
    result.candidates[1].traits.is_paid_by_request = true;
    let mut pricing = pricing();
    pricing.load.cached = 0.5;
    let costs = costs(&result, &pricing);
    // 20 million GETs, cached or not, and a million PUTs; for `a` 10 million reads x 1.5 and a million writes x 4.
    is(month_of(&costs, "b").requests, 4.2);
    is(month_of(&costs, "a").requests, 3.8);
}

#[test]
fn what_was_not_seen_is_not_free() {
    let unseen = |cell: usize, key: &'static str, value: Value| {
        measured(move |cells| {
            for round in cells[cell]["rounds"].as_array_mut().unwrap() {
                round[key] = value.clone();
            }
        })
    };
    for value in [json!(0), Value::Null] {
        let costs = costs(&unseen(4, "device_reads", value), &pricing());
        let b = month_of(&costs, "b");
        assert_eq!(b.unknown, [UnknownCost::Requests { phase: "read-cold".to_owned() }]);
        assert!(b.total.is_none() && b.requests.is_none() && b.million_reads.is_none(), "{b:?}");
        assert!(b.disk.is_some() && b.place == CandidateRank::NotRanked, "what is known stands: {b:?}");
        assert_eq!(month_of(&costs, "a").place, CandidateRank::Leads, "and another one is the cheapest");
    }
    let costs_of = |result: RunResult| costs(&result, &pricing());
    let of_processor = costs_of(unseen(5, "total_cpu_ns", json!(0)));
    assert_eq!(
        month_of(&of_processor, "b").unknown,
        [UnknownCost::Processor { phase: "overwrite".to_owned() }]
    );
    let mut result = measured(|_| {});
    result.store_rounds.iter_mut().for_each(|visit| visit.footprint.space_amplification = Some(0.0));
    let of_disk = costs_of(result);
    assert!(of_disk.months.iter().all(|month| month.unknown == [UnknownCost::Disk] && month.disk.is_none()));
    let without = costs_of(measured(|cells| drop(cells.remove(4))));
    assert_eq!(month_of(&without, "b").unknown, [UnknownCost::NotMeasured { phase: "read-cold".to_owned() }]);
    let mut result = measured(|_| {});
    result.candidates[1].traits.is_external = true;
    assert_eq!(month_of(&costs_of(result), "b").unknown, [UnknownCost::Elsewhere]);
}

#[test]
fn what_does_not_grow_with_the_blobs_is_paid_once() {
    let mut result = measured(|_| {});
    for visit in result.store_rounds.iter_mut().filter(|visit| visit.store == "a") {
        // 100 bytes of blobs, 110 that grow with them, and 310 of logs.
        let footprint = &mut visit.footprint;
        footprint.space_amplification = Some(4.2);
        (footprint.grows_per_byte, footprint.after_settle_bytes) = (Some(1.1), Some(420));
        assert_eq!(footprint.bytes_with(100.0), Some(420.0));
        // If it is not known what grows, the blobs may lie in the logs alone, or twice.
        let open = Footprint { grows_per_byte: None, log_bytes: Some(310), ..footprint.clone() };
        assert_eq!((open.bytes_with(100.0), open.added_per_byte()), (None, None));
    }
    is(month_of(&costs(&result, &pricing()), "a").disk, 55.0);
}

#[test]
fn what_has_no_price_is_left_out_of_all() {
    let mut pricing = pricing();
    pricing.prices.rates = Rates { gb_month: Some(0.10), ..Rates::default() };
    let unseen = measured(|cells| cells[4]["rounds"][0]["device_reads"] = Value::Null);
    let costs = costs(&unseen, &pricing);
    is(total(month_of(&costs, "a")), 60.0);
    is(total(month_of(&costs, "b")), 50.0);
    assert!(costs.months.iter().all(|month| month.requests.is_none() && month.machine.is_none()));
}

#[test]
fn free_requests_cost_nothing_and_the_rest_does() {
    let mut pricing = pricing();
    pricing.prices.rates.free_requests = Some(3e7);
    let costs = costs(&measured(|_| {}), &pricing);
    // 34 million minus 30; all 22 million are free.
    is(month_of(&costs, "a").requests, 0.8);
    assert_eq!(month_of(&costs, "b").requests, Some(0.0));
}

#[test]
fn cached_reads_ask_the_device_for_nothing_and_take_what_warm_ones_take() {
    let mut pricing = pricing();
    pricing.load.cached = 0.8;
    pricing.prices.rates.machine.as_mut().unwrap().memory_gb = 1e6;
    let costs = costs(&measured(|_| {}), &pricing);
    // (4 million x 1.5 + 4 million) / 1 million x 0.20.
    is(month_of(&costs, "a").requests, 2.0);
    // 16 million x 10 us + 4 million x 100 us + 1 million x 500 us are 1,060 s.
    is(month_of(&costs, "a").machine, 60.0 * 1_060.0 / 5_259_600.0);
    assert_eq!(costs.works.len(), 3);
}

#[test]
fn a_year_on_more_is_stored() {
    let mut pricing = pricing();
    pricing.load.growth = Some(0.03);
    // 60 x 1.03^12 + 6.8 + 0.75.
    is(month_of(&costs(&measured(|_| {}), &pricing), "a").in_a_year, 60.0 * 1.425_760_886_8 + 7.55);
}

/// Without requests and with ample memory, a month of `a` costs 60 plus 0.0285193 per unit of load, one of `b` 50 plus
/// 2.3956194: they are equal at a load factor of 4.2246.
#[test]
fn the_cheapest_changes_where_two_months_are_equal() {
    let mut pricing = pricing();
    pricing.prices.rates.per_million_requests = None;
    pricing.prices.rates.machine.as_mut().unwrap().memory_gb = 1e9;
    let costs = costs(&measured(|_| {}), &pricing);
    let [turn] = costs.turns.as_slice() else { panic!("{:?}", costs.turns) };
    let each = |cpu_seconds: f64| 60.0 * cpu_seconds / 5_259_600.0;
    is(Some(turn.times), 10.0 / (each(210_000.0) - each(2_500.0)));
    assert_eq!(turn.cheapest.as_deref(), Some("a"));
}

#[test]
fn a_load_above_what_was_measured_has_no_month() {
    let slow = measured(|cells| cells[4]["ops_per_s"]["median"] = json!(5.0));
    let costs = costs(&slow, &pricing());
    let b = month_of(&costs, "b");
    // 20 million at 5 per second and 1 million at 100 per second, of 2,629,800 s.
    let [UnknownCost::TooMuch { times }] = b.unknown.as_slice() else { panic!("{b:?}") };
    is(Some(*times), 4_010_000.0 / 2_629_800.0);
    assert!(b.total.is_none() && b.disk.is_none());
    // `a` was measured at 1,000 per second: 21 million are a 125th of its monthly capacity.
    assert!(costs.turns.is_empty(), "{:?}", costs.turns);
}

#[test]
fn who_promises_something_else_or_is_not_ranked_is_not_compared() {
    let weaker = json!({"after_kill": "nothing", "after_power_cut": "all"});
    let costs_of = |change: &dyn Fn(&mut Vec<Value>)| costs(&measured(change), &pricing());
    let short = json!({"code": "too-short", "ops": 3, "seconds": 0.001});
    let not_ranked = costs_of(&|cells| cells[5]["not_ranked"] = short.clone());
    assert_eq!(month_of(&not_ranked, "b").place, CandidateRank::NotRanked);
    assert!(month_of(&not_ranked, "b").total.is_some());
    assert_eq!(month_of(&not_ranked, "a").place, CandidateRank::Leads);
    let apart = costs_of(&|cells| cells[5]["loss"] = weaker.clone());
    assert_eq!(
        (month_of(&apart, "a").place, month_of(&apart, "b").place),
        (CandidateRank::Leads, CandidateRank::Apart)
    );
    assert!(apart.turns.is_empty());
}

#[test]
fn who_is_mostly_harness_is_not_compared_where_its_processor_time_decides() {
    let mostly_harness = json!({"code": "mostly-harness", "share": 0.6});
    let of_a = measured(|cells| cells[1]["not_ranked"] = mostly_harness.clone());
    // 66.80 without a machine, compared with 56.80 with one.
    let behind = costs(&of_a, &pricing());
    assert!(
        month_of(&behind, "a").is_bound && month_of(&behind, "a").place == CandidateRank::Behind,
        "{behind:?}"
    );
    let of_b = measured(|cells| cells[4]["not_ranked"] = mostly_harness.clone());
    let mut dear = pricing();
    dear.prices.rates.gb_month = Some(0.0001);
    dear.prices.rates.machine.as_mut().unwrap().month = 6_000.0;
    // 244.01, and 4.45 without a machine, compared with 81.86.
    let open = costs(&of_b, &dear);
    assert_eq!(
        (month_of(&open, "a").place, month_of(&open, "b").place),
        (CandidateRank::Leads, CandidateRank::NotRanked)
    );
}
