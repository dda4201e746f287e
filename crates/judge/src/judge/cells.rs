//! Figures of a cell (one candidate in one phase), calculated from its rounds.

use anyhow::Result;

use super::LADDER_STEP;
use super::compare::Series;
use super::histogram::{self, RoundTimes};
use super::interval::rate;
use crate::corpus::CorpusId;
use crate::plan::text::{CacheState, Design, Phase};
use crate::records::{CellRecord, Records};
use crate::result::{
    Cache, CacheProof, CandidateResult, Cell, Counters, HotShare, Interval, Reason, Round, SizeBand, Status,
    Step,
};
use crate::rules::RESIDENT_SHARE_MAX;
use crate::units;

/// Returns a cell without figures.
fn blank(plan: &Design, phase: &Phase, corpus_id: CorpusId) -> Cell {
    let (workers, batch) = plan.hands_of(phase);
    let (stored_blobs, durability) = (phase.grown_to, plan.durability);
    let phase = phase.id.clone();
    Cell { phase, corpus_id, stored_blobs, durability, workers, batch, ..Cell::default() }
}

pub(super) fn missing_cell(
    missing: &CandidateResult,
    plan: &Design,
    phase: &Phase,
    corpus_id: CorpusId,
) -> Cell {
    let reason = missing.reason.clone().unwrap_or_default();
    Cell {
        store: missing.store.clone(),
        adapter: missing.adapter.clone(),
        status: Status::NotAvailable,
        not_ranked: Some(Reason::NotAvailable { why: reason.clone() }),
        reason: Some(reason),
        ..blank(plan, phase, corpus_id)
    }
}

/// Returns the cell of a candidate; `None` if nothing is recorded about it yet.
pub(super) fn cell(
    plan: &Design,
    records: &Records,
    candidate: &CandidateResult,
    phase: &Phase,
    corpus_id: CorpusId,
) -> Result<Option<Cell>> {
    let promise = candidate.promise_of(phase.class);
    let mut cell = Cell {
        store: candidate.store.clone(),
        adapter: candidate.adapter.clone(),
        kind: candidate.kind,
        options: candidate.options.clone(),
        traits: candidate.traits.clone(),
        durability: promise.map_or(plan.durability, |promise| promise.durability),
        own_durability: candidate.own_durability.filter(|own| *own != plan.durability),
        is_one_for_each_client: candidate.is_one_for_each_client,
        loss: promise.map(|promise| promise.loss),
        one_transaction: !candidate.is_baseline()
            && plan.reads_in_one(candidate.transaction.unwrap_or_default(), phase, corpus_id),
        ..blank(plan, phase, corpus_id)
    };
    let empty = CellRecord::default();
    let record = records.cells.get(&(candidate.store.clone(), corpus_id, phase.id.clone())).unwrap_or(&empty);
    let failed = Some(candidate).filter(|candidate| candidate.status == Status::Failed);
    if record.rounds.is_empty() {
        match (&record.not_possible, failed) {
            (Some(why), _) => (cell.status, cell.reason) = (Status::NotPossible, Some(why.clone())),
            (None, Some(failed)) => (cell.status, cell.reason) = (Status::Failed, failed.reason.clone()),
            (None, None) => return Ok(None),
        }
        return Ok(Some(cell));
    }
    fill_in(&mut cell, record, phase)?;
    if let Some(failed) = failed {
        (cell.status, cell.reason) = (Status::Failed, failed.reason.clone());
    } else if let Some(why) = &record.not_possible {
        // The rounds in which it succeeded do not represent all rounds.
        (cell.status, cell.reason) = (Status::NotPossible, Some(why.clone()));
    } else if cell.counters.errors > 0 {
        (cell.status, cell.reason) = (Status::Failed, Some(failure(&cell)));
    }
    cell.harness_share = harness_share(plan, records, &cell, phase);
    Ok(Some(cell))
}

/// Describes what failed in a cell: ops, syncs, or the connections that blobs were sent to.
fn failure(cell: &Cell) -> String {
    let Counters { errors, failed_ops, unsynced_ops, first_error, .. } = &cell.counters;
    let first = first_error.as_deref().unwrap_or_default();
    let ops = units::counted(cell.ops, "op");
    match (failed_ops, unsynced_ops) {
        (0, 0) => format!("{} in {ops}: {first}", units::counted(*errors, "error")),
        (0, unsynced) => format!("the sync of {unsynced} of {ops} failed: {first}"),
        (failed, _) => format!("{failed} of {} ops failed: {first}", cell.ops),
    }
}

fn fill_in(cell: &mut Cell, record: &CellRecord, phase: &Phase) -> Result<()> {
    let rounds = &record.rounds;
    cell.rounds.clone_from(rounds);
    // The recorded mode counts, not the requested one: some phases are closed loops whatever rate was requested, and
    // each rung of a ladder has a rate of its own.
    let open = rounds.first().filter(|round| round.rungs.is_empty()).and_then(|round| round.open.as_ref());
    cell.offered_ops_per_s = open.map(|open| open.offered_ops_per_s);
    cell.ops = rounds.iter().map(|round| round.ops).sum();
    cell.counters = rounds.iter().map(|round| &round.counters).collect();
    let over = |value: &dyn Fn(&Round) -> f64| rate(&rounds.iter().map(value).collect::<Vec<f64>>());
    cell.ops_per_s = over(&Round::acknowledged_per_s);
    if rounds.iter().all(|round| round.settled_seconds.is_some()) {
        cell.settled_ops_per_s = over(&Round::done_per_s);
    }
    if rounds.iter().all(|round| round.bytes > 0) {
        cell.bytes_per_s = over(&|round| round.bytes as f64 / round.seconds);
    }
    let ops = (cell.ops as f64).max(1.0);
    cell.blobs_per_op = Some(rounds.iter().map(|round| round.blobs).sum::<u64>() as f64 / ops);
    percentiles(cell)?;
    counts(cell);
    cell.hot = hot(rounds);
    resources(cell);
    (cell.cache, cell.cache_proof) = cache(phase, rounds);
    Ok(())
}

fn percentiles(cell: &mut Cell) -> Result<()> {
    let service = RoundTimes::decode(cell.rounds.iter().map(|round| round.histogram.service.values()))?;
    cell.service_ns = Some(service.percentiles());
    cell.service_intervals = Some(service.intervals());
    cell.curve = service.curve();
    if cell.rounds.iter().any(|round| round.open.is_some()) {
        let response = RoundTimes::decode(cell.rounds.iter().map(|round| round.histogram.response.values()))?;
        cell.response_ns = Some(response.percentiles());
        cell.curve = response.curve();
    }
    steps(cell, &service)?;
    for band in histogram::BANDS {
        let texts = cell.rounds.iter().filter_map(|round| round.histogram.service.get(band));
        let times = RoundTimes::decode(texts.map(std::iter::once))?;
        if times.ops() > 0 {
            let (ops, service_ns) = (times.ops(), times.percentiles());
            cell.size_bands.push(SizeBand { band: band.to_owned(), ops, service_ns });
        }
    }
    Ok(())
}

/// Steps timed by the worker loop, in the order in which ops execute them. Steps reported by sessions come after
/// `connect`, in the order given by the candidate's traits.
pub(super) const STEPS: &[&str] = &[
    "connect", "digest", "begin", "find", "insert", "put", "confirm", "release", "delete", "forget",
    "commit", "hit", "miss",
];

/// Computes separately timed steps of ops, with their share of the ops' time.
fn steps(cell: &mut Cell, service: &RoundTimes) -> Result<()> {
    let mut names: Vec<&String> = cell.rounds.iter().flat_map(|round| round.histogram.steps.keys()).collect();
    let told = cell.traits.steps.iter().map(String::as_str);
    let order: Vec<&str> = STEPS[..1].iter().copied().chain(told).chain(STEPS[1..].iter().copied()).collect();
    names.sort_by_key(|name| (order.iter().position(|known| known == name), *name));
    names.dedup();
    let mut steps = Vec::new();
    for name in names {
        let texts = cell.rounds.iter().filter_map(|round| round.histogram.steps.get(name));
        let times = RoundTimes::decode(texts.map(std::iter::once))?;
        let share = times.total_ns() / service.total_ns().max(1.0);
        let mean_ns = rate(&times.means_ns());
        steps.push(Step { name: name.clone(), service_ns: times.percentiles(), mean_ns, share });
    }
    cell.steps = steps;
    Ok(())
}

/// Averages the events per op over the rounds.
fn counts(cell: &mut Cell) {
    for round in &cell.rounds {
        for (name, number) in &round.counts {
            *cell.counts.entry(name.clone()).or_default() += number / cell.rounds.len() as f64;
        }
    }
}

/// Averages the concentration of ops on few blobs over the rounds.
fn hot(rounds: &[Round]) -> Option<HotShare> {
    let all: Option<Vec<HotShare>> = rounds.iter().map(|round| round.hot).collect();
    let all = all.filter(|all| !all.is_empty())?;
    let mean = |value: fn(&HotShare) -> f64| all.iter().map(value).sum::<f64>() / all.len() as f64;
    Some(HotShare {
        ops_share: mean(|hot| hot.ops_share),
        blobs_share: mean(|hot| hot.blobs_share),
        bytes_share: mean(|hot| hot.bytes_share),
    })
}

fn resources(cell: &mut Cell) {
    let rounds = &cell.rounds;
    let ops = cell.ops.max(1) as f64;
    let sum = |value: &dyn Fn(&Round) -> Option<u64>| rounds.iter().map(value).sum::<Option<u64>>();
    let per_op = |value: &dyn Fn(&Round) -> Option<u64>| Some(sum(value)? as f64 / ops);
    let mean = |value: &dyn Fn(&Round) -> Option<u64>| Some(sum(value)? / rounds.len() as u64);
    cell.total_cpu_ns_per_op = per_op(&|round| round.total_cpu_ns);
    cell.client_cpu_ns_per_op = per_op(&|round| Some(round.client_cpu_ns));
    cell.background_cpu_ns_per_op =
        per_op(&|round| Some(round.client_cpu_ns.saturating_sub(round.worker_cpu_ns)));
    cell.server_cpu_ns_per_op = per_op(&|round| round.server_cpu_ns);
    cell.server_peak_bytes = rounds.iter().filter_map(|round| round.server_peak_bytes).max();
    let peaks: Option<Vec<u64>> = rounds.iter().map(|round| round.client_peak_bytes).collect();
    cell.client_peak_bytes = peaks.and_then(|peaks| peaks.into_iter().max());
    let memory: Option<Vec<(u64, u64)>> = rounds.iter().map(memory).collect();
    let most = |of: fn(&(u64, u64)) -> u64| memory.as_ref().and_then(|all| all.iter().map(of).max());
    cell.anonymous_peak_bytes = most(|memory| memory.0);
    cell.mapped_peak_bytes = most(|memory| memory.1);
    cell.device_reads = mean(&|round| round.device_reads);
    cell.device_read_bytes = mean(&|round| round.device_read_bytes);
    cell.device_written_bytes = mean(&|round| round.device_written_bytes);
    cell.device_flushes = mean(&|round| round.device_flushes);
    let seconds: f64 = rounds.iter().map(|round| round.seconds).sum::<f64>() * cell.workers as f64;
    if rounds.iter().any(|round| round.syncs > 0) && seconds > 0.0 {
        cell.sync_share = Some(rounds.iter().map(|round| round.sync_seconds).sum::<f64>() / seconds);
    }
}

/// Returns the peak memory that processes kept in a round, and the pages of mapped files in addition. The kernel
/// reports one peak for both, and mapped pages only at the end of the phase. No store maps less at the end than before,
/// so the rest of the peak is memory that was kept.
pub(super) fn memory(round: &Round) -> Option<(u64, u64)> {
    let peak = round.client_peak_bytes?;
    let mapped = round.mapped_bytes?.min(peak);
    let anonymous = (peak - mapped).max(round.anonymous_bytes?);
    let of_servers = round.server_peak_bytes.unwrap_or(0);
    let mapped_by_servers = match round.server_peak_bytes {
        Some(_) => round.server_mapped_bytes.unwrap_or(0).min(of_servers),
        None => 0,
    };
    Some((anonymous + of_servers - mapped_by_servers, mapped + mapped_by_servers))
}

/// Returns the memory attributed to a candidate in a cell, without pages of mapped files if these are known.
pub fn own_memory(cell: &Cell) -> Option<u64> {
    let all = || Some(cell.client_peak_bytes? + cell.server_peak_bytes.unwrap_or(0));
    cell.anonymous_peak_bytes.or_else(all)
}

/// Returns the state of the caches and the evidence for it.
fn cache(phase: &Phase, rounds: &[Round]) -> (Cache, Option<CacheProof>) {
    let repeats = phase.load().is_some_and(|load| load.repeats.is_some());
    let reopens = phase.custom_action().is_some_and(|action| action.reopens);
    match phase.cache {
        CacheState::Warm => return (Cache::Warm, None),
        CacheState::AsIs if repeats || reopens => return (Cache::Warm, None),
        CacheState::AsIs => return (Cache::None, None),
        CacheState::Still => return (Cache::Still, None),
        CacheState::Cold | CacheState::ColdStart => {}
    }
    let proofs: Vec<&CacheProof> = rounds.iter().filter_map(|round| round.cache_proof.as_ref()).collect();
    let Some(first) = proofs.first() else { return (Cache::Lukewarm, None) };
    let mean = |value: &dyn Fn(&CacheProof) -> f64| {
        proofs.iter().map(|proof| value(proof)).sum::<f64>() / proofs.len() as f64
    };
    let tenths = proofs.iter().map(|proof| proof.device_bytes_per_byte.len()).min().unwrap_or(0);
    let proof = CacheProof {
        method: first.method.clone(),
        resident_share: proofs.iter().find_map(|proof| proof.resident_share),
        resident_share_opened: proofs.iter().find_map(|proof| proof.resident_share_opened),
        open_seconds: mean(&|proof| proof.open_seconds),
        device_bytes_per_byte: (0..tenths)
            .map(|tenth| mean(&|proof| proof.device_bytes_per_byte[tenth]))
            .collect(),
        sample_share: first.sample_share,
    };
    let evicted = proof.resident_share.is_some_and(|share| share <= RESIDENT_SHARE_MAX);
    let cold = proof.method == "drop_caches" && evicted;
    (if cold { Cache::Cold } else { Cache::Lukewarm }, Some(proof))
}

/// Returns device bytes read per byte delivered, over a whole cold phase.
pub fn device_bytes_per_byte(cell: &Cell) -> Option<f64> {
    let read = cell.rounds.iter().map(|round| round.device_read_bytes).sum::<Option<u64>>()?;
    let delivered: u64 = cell.rounds.iter().map(|round| round.bytes).sum();
    (delivered > 0).then(|| read as f64 / delivered as f64)
}

fn harness_share(plan: &Design, records: &Records, cell: &Cell, phase: &Phase) -> Option<f64> {
    let null = records.harness.null_ns.get(&cell.corpus_id.key(&cell.phase)).copied().or_else(|| {
        // The null store keeps nothing once closed, so its warm reads stand for cold ones.
        let warm = plan.phases.iter().find(|phase| !phase.writes() && phase.cache == CacheState::Warm)?;
        let reads = !phase.writes() && phase.load().is_some();
        reads.then(|| records.harness.null_ns.get(&cell.corpus_id.key(&warm.id)).copied()).flatten()
    })?;
    let ops_per_s = cell.ops_per_s?.median;
    // An open loop pauses between ops, so the service time is used for its op.
    let op_ns = match (cell.offered_ops_per_s, cell.service_ns.and_then(|service| service.p50)) {
        (Some(_), Some(p50)) => p50 as f64,
        _ => 1e9 / ops_per_s,
    };
    Some(null / op_ns)
}

/// True if the cell's phase writes.
pub fn writes(cell: &Cell) -> bool {
    cell.settled_ops_per_s.is_some()
}

/// True if a cell replays a log that only reads, so that no durability class is at stake, though the phase may write.
pub fn only_reads_a_log(cell: &Cell) -> bool {
    cell.is_replay() && !writes(cell)
}

/// Returns a worker's time per blob in nanoseconds, including deferred work if there is any; `None` in an open loop,
/// whose rate is unrelated to op times.
pub fn blob_ns(cell: &Cell) -> Option<f64> {
    let rate = cell.settled_ops_per_s.or(cell.ops_per_s)?.median;
    let is_closed = cell.offered_ops_per_s.is_none() && !cell.is_ladder();
    is_closed.then(|| 1e9 / rate * cell.workers as f64 / cell.blobs_per_op.unwrap_or(1.0).max(1.0))
}

/// True if all candidates were offered the same rate, so that they differ in response time. On a ladder each candidate
/// has its own rate.
pub fn is_offered(cell: &Cell) -> bool {
    cell.rounds.iter().any(|round| round.open.is_some() && round.rungs.is_empty())
}

/// Returns the mean response time of a round in nanoseconds; `None` if no op has one.
fn mean_response_ns(round: &Round) -> Option<f64> {
    let all = histogram::whole(round.histogram.response.values()).ok()?;
    (!all.is_empty()).then(|| all.mean().max(1.0))
}

/// Returns the rates by which a cell is compared: settled rates if there are any; in an open loop the inverse of the
/// mean response time, because all have the same rate.
pub fn series(cell: &Cell) -> Series {
    let is_offered = is_offered(cell);
    let value = |round: &Round| match is_offered {
        true => mean_response_ns(round).map_or(0.0, |ns| 1e9 / ns),
        false => round.done_per_s(),
    };
    Series {
        label: cell.store.clone(),
        rates: cell
            .rounds
            .iter()
            .map(|round| (round.round, value(round)))
            .filter(|(_, rate)| *rate > 0.0)
            .collect(),
        slack: if cell.is_ladder() { LADDER_STEP.ln() } else { 0.0 },
    }
}

/// Returns the mean time of an op in nanoseconds, consistent with the compared rates: in an open loop the response
/// time.
pub fn op_ns(cell: &Cell) -> Option<f64> {
    op_interval(cell).map(|time| time.median)
}

/// Returns [`op_ns`] with its interval over rounds.
pub fn op_interval(cell: &Cell) -> Option<Interval> {
    let (rate, workers) = match is_offered(cell) {
        true => (rate(&series(cell).rates.into_values().collect::<Vec<f64>>())?, 1.0),
        false => (cell.settled_ops_per_s.or(cell.ops_per_s)?, cell.workers as f64),
    };
    let time = |rate: f64| 1e9 / rate * workers;
    // After two rounds the interval may reach rates for which no finite time exists.
    let ends = |rate: Option<f64>| rate.map(time).filter(|time| time.is_finite());
    Some(Interval { median: time(rate.median), low: ends(rate.high), high: ends(rate.low), ..rate })
}

/// True if a cell's ops wait, one after the other, for a process on this machine, so that each includes CPU wake-up
/// latency. Several workers keep the CPUs awake.
pub fn waits_for_a_process(cell: &Cell) -> bool {
    let traits = &cell.traits;
    cell.workers == 1 && traits.has_process && !traits.is_external && !traits.is_far()
}

/// Returns the median of a cell's service time.
pub fn p50(cell: &Cell) -> Option<u64> {
    cell.service_ns.unwrap_or_default().p50
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::fixture::{around, cell};
    use serde_json::json;

    /// Returns a cell of an open loop with this offered rate and mean response time; `is_rung` makes it a rung of a
    /// ladder.
    fn open(offered: f64, response_ns: u64, is_rung: bool) -> Cell {
        let mut response = histogram::new();
        response.record_n(response_ns, 1000).unwrap();
        let text = histogram::encode(&response).unwrap();
        let over = json!({"workers": 2, "ops_per_s": {"median": offered}});
        let mut value = cell("a", "read-warm", &around(1000.0 / offered, 0), over);
        for round in value["rounds"].as_array_mut().unwrap() {
            round["histogram"]["response"] = json!({"0-1 kB": text});
            round["open"] = json!({"offered_ops_per_s": offered, "all_busy_share": 0.0, "drain_seconds": 0.0, "sustained": true,
                                   "wake_late_p50_ns": 0, "wake_late_p99_ns": 0});
            if is_rung {
                round["rungs"] = json!([{"offered_ops_per_s": offered, "achieved_share": 1.0, "response_ns": response_ns,
                                         "ops": 1000}]);
            }
        }
        serde_json::from_value(value).unwrap()
    }

    fn middle(cell: &Cell) -> f64 {
        let rates: Vec<f64> = series(cell).rates.into_values().collect();
        rate(&rates).unwrap().median
    }

    #[test]
    fn at_one_offered_rate_response_times_are_compared() {
        let (quick, slow) = (open(100.0, 1_000_000, false), open(100.0, 10_000_000, false));
        assert!((middle(&quick) / middle(&slow) - 10.0).abs() < 0.1);
        // The time of an op is its duration, without the pause before the next.
        let times = [op_ns(&quick).unwrap(), op_ns(&slow).unwrap()];
        assert!((times[0] / 1e6 - 1.0).abs() < 0.01 && (times[1] / 1e7 - 1.0).abs() < 0.01, "{times:?}");
    }

    /// Returns a cell of two rounds of 2 s with its rates: of acknowledged ops, and of done ops settled after 4 s.
    fn rates(counters: Counters) -> (Cell, [f64; 2]) {
        let plan = blobwise_engine::engine::work::resolved("phases = ['fill', 'overwrite']");
        let phase = plan.phases.iter().find(|phase| phase.id == "overwrite").unwrap();
        let round = |round| Round {
            round,
            ops: 1000,
            seconds: 2.0,
            settled_seconds: Some(4.0),
            counters: counters.clone(),
            ..Round::default()
        };
        let record = CellRecord { rounds: vec![round(1), round(2)], ..CellRecord::default() };
        let mut cell = blank(&plan, phase, CorpusId::default());
        fill_in(&mut cell, &record, phase).unwrap();
        let rates = [cell.ops_per_s, cell.settled_ops_per_s].map(|rate| rate.unwrap().median);
        let compared = middle(&cell);
        assert!((compared - rates[1]).abs() < 1e-9, "{compared} {rates:?}");
        (cell, rates.map(f64::round))
    }

    #[test]
    fn pages_of_mapped_files_are_no_memory_that_processes_keep() {
        let taken = |client: [Option<u64>; 3], servers: [Option<u64>; 2]| {
            let [client_peak_bytes, anonymous_bytes, mapped_bytes] = client;
            let [server_peak_bytes, server_mapped_bytes] = servers;
            let of_client = Round { client_peak_bytes, anonymous_bytes, mapped_bytes, ..Round::default() };
            memory(&Round { server_peak_bytes, server_mapped_bytes, ..of_client })
        };
        let some = |figures: [u64; 3]| figures.map(Some);
        assert_eq!(taken(some([64, 2, 61]), [None, None]), Some((3, 61)));
        // More memory was freed before the end than was mapped; and pages shared with others are mapped in part.
        assert_eq!(taken(some([64, 10, 61]), [None, None]), Some((10, 61)));
        assert_eq!(taken(some([5, 1, 9]), [Some(100), Some(30)]), Some((71, 35)));
        assert_eq!(taken(some([5, 1, 9]), [Some(100), None]), Some((101, 5)), "nothing is told apart");
        assert_eq!(taken([None, Some(1), Some(1)], [None, None]), None);
    }

    #[test]
    fn ops_that_failed_are_in_no_rate() {
        assert_eq!(rates(Counters::default()).1, [500.0, 250.0]);
        let failed = Counters { errors: 400, failed_ops: 400, ..Counters::default() };
        let (cell, figures) = rates(failed);
        assert_eq!(figures, [300.0, 150.0]);
        assert_eq!((cell.ops, cell.counters.acknowledged(cell.ops)), (2000, 1200));
        assert!(failure(&cell).starts_with("800 of 2000 ops failed"), "{}", failure(&cell));
        // Acknowledged but not kept.
        let unsynced = Counters { errors: 1, unsynced_ops: 200, ..Counters::default() };
        let (cell, figures) = rates(unsynced);
        assert_eq!(figures, [500.0, 200.0]);
        assert_eq!(cell.counters.done(cell.ops), 1600);
        assert!(failure(&cell).starts_with("the sync of 400 of 2000 ops failed"), "{}", failure(&cell));
    }

    #[test]
    fn on_a_ladder_the_rates_themselves_are_compared() {
        // The better one is slower at its own, higher rate.
        let (better, worse) = (open(10_000.0, 8_000_000, true), open(2_000.0, 3_000_000, true));
        assert!((middle(&better) / middle(&worse) - 5.0).abs() < 0.1);
        assert!(op_ns(&better) < op_ns(&worse));
    }

    #[test]
    fn a_round_without_a_response_time_is_not_the_fastest() {
        let mut cell = open(100.0, 1_000_000, false);
        cell.rounds[0].histogram.response.clear();
        assert_eq!(series(&cell).rates.len(), cell.rounds.len() - 1);
    }
}
