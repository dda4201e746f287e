//! From what was measured to every figure of the result.

use std::collections::BTreeMap;

use anyhow::Result;

use super::compare::{Ranking, Series, rank, with_reference};
use super::crossover::{Point, crossovers};
use super::histogram::{self, Histogram, SHARES};
use super::interval::{self, rate};
use super::{SHORT_OPS, SHORT_SECONDS};
use super::{answer, claims, doubts};
use crate::plan::{CacheState, Class, Missing, Phase, Plan, Row, Work, class_of, length_key};
use crate::records::{CellRecord, RESIDENT_SHARE_OPENED_MAX, Records};
use crate::result::{
    Against, Cache, CacheProof, Cell, Comparison, Footprint, Interval, PercentileIntervals, Picture, Round,
    RunResult, SCHEMA, SizeBand, Status, Step, Verdict,
};
use crate::store::{Durability, Kind};

/// Above this share of harness in an op the cell is not ranked.
pub const HARNESS_SHARE_MAX: f64 = 0.30;
/// Above this share of the store's bytes in the page cache after eviction, cold is lukewarm.
const RESIDENT_SHARE_MAX: f64 = 0.01;
/// Below this many device bytes per byte delivered (and compressed), some of what was read came from somewhere else.
const DEVICE_BYTES_PER_BYTE_MIN: f64 = 0.90;

/// Works out the whole result.
pub fn summarize(plan: &Plan, records: &Records) -> Result<RunResult> {
    let mut cells = Vec::new();
    for planned in &plan.corpora {
        let has = |phase: &&Phase| !phase.only_prepares() && plan.has(&phase.id, planned.sweep_bytes);
        for phase in plan.phases.iter().filter(has) {
            for row in &plan.rows {
                cells.extend(cell(plan, records, row, phase, planned.sweep_bytes)?);
            }
            for missing in &plan.missing {
                cells.push(missing_cell(missing, plan, phase, planned.sweep_bytes));
            }
        }
    }
    for cell in cells.iter_mut().filter(|cell| cell.not_ranked.is_none()) {
        cell.not_ranked = not_ranked(plan, records, cell);
    }
    let rankings = rankings(&mut cells);
    let mut rows = records.rows.clone();
    for row in &mut rows {
        if let Some(planned) = plan.rows.iter().find(|planned| planned.label == row.store) {
            let class = class_of(planned, Class::Asked, plan.durability);
            row.damage = Some((planned.adapter.damage)(&planned.options, class));
        }
    }
    let mut result = RunResult {
        schema: SCHEMA,
        complete: records.complete,
        program: records.program.clone(),
        plan: plan.text.clone(),
        fixed: records.fixed.clone(),
        machine: records.machine.clone(),
        harness: records.harness.clone(),
        corpus: records.corpora.first().cloned().unwrap_or_default(),
        corpora: if plan.corpora.len() > 1 { records.corpora.clone() } else { Vec::new() },
        rows,
        footprints: footprints(plan, records),
        comparisons: comparisons(plan, &cells, &rankings),
        crossovers: all_crossovers(plan, &cells),
        results: cells,
        answer: Vec::new(),
        claims: Vec::new(),
        doubts: records.doubts.clone(),
        rails: records.rails.clone(),
        store_rounds: records.store_rounds.clone(),
        pictures: plan.rows.iter().filter_map(|row| picture(records, row)).collect(),
    };
    result.doubts.extend(doubts::from_figures(plan, &result));
    result.claims = claims::judge(&result);
    result.answer = answer::answer(plan, &result);
    Ok(result)
}

/// The number of rounds that the first five ask for.
pub fn rounds_needed(plan: &Plan, records: &Records, most: u32) -> Result<u32> {
    let result = summarize(plan, records)?;
    let mut comparisons = Vec::new();
    for cell in result.results.iter().filter(|cell| cell.not_ranked.is_none() && cell.store != plan.reference)
    {
        let reference = result.results.iter().find(|other| {
            other.store == plan.reference
                && other.phase == cell.phase
                && other.sweep_bytes == cell.sweep_bytes
        });
        if let Some(reference) = reference.filter(|reference| reference.not_ranked.is_none()) {
            comparisons.push(series(cell).logs_over(&series(reference)));
        }
    }
    Ok(interval::rounds_needed(&comparisons, plan.precision, most))
}

// ---- cells -----------------------------------------------------------------------------------------------------

/// A cell without figures.
fn picture(records: &Records, row: &Row) -> Option<Picture> {
    records.pictures.iter().find(|picture| picture.store == row.label).cloned()
}

fn blank(plan: &Plan, phase: &Phase, sweep_bytes: Option<u64>) -> Cell {
    let (workers, batch, rate) = match &phase.work {
        Work::Ops(load) => {
            let rate =
                load.rate.or(plan.rate).filter(|_| phase.id != "fill" && phase.cache != CacheState::Cold);
            (load.workers.unwrap_or(plan.workers), load.batch.unwrap_or(plan.batch), rate)
        }
        Work::Ramp(load) => (load.workers.unwrap_or(plan.workers), load.batch.unwrap_or(plan.batch), None),
        Work::Age(_) => (plan.workers, 1, None),
        Work::Reopen | Work::Purge => (1, 1, None),
    };
    Cell {
        store: String::new(),
        adapter: String::new(),
        kind: String::new(),
        options: BTreeMap::new(),
        status: Status::Measured,
        reason: None,
        phase: phase.id.clone(),
        sweep_bytes,
        durability: plan.durability,
        damage: None,
        workers,
        batch,
        cache: Cache::None,
        cache_proof: None,
        offered_ops_per_s: rate,
        ops: 0,
        errors: 0,
        first_error: None,
        retries: 0,
        cache_misses: 0,
        timeouts: 0,
        rounds: Vec::new(),
        ops_per_s: None,
        settled_ops_per_s: None,
        blobs_per_op: None,
        bytes_per_s: None,
        service_ns: None,
        service_intervals: None,
        response_ns: None,
        curve: Vec::new(),
        size_bands: Vec::new(),
        steps: Vec::new(),
        counts: BTreeMap::new(),
        sync_share: None,
        total_cpu_ns_per_op: None,
        client_cpu_ns_per_op: None,
        background_cpu_ns_per_op: None,
        server_cpu_ns_per_op: None,
        client_peak_bytes: None,
        server_peak_bytes: None,
        device_read_bytes: None,
        device_written_bytes: None,
        device_flushes: None,
        harness_share: None,
        leader: false,
        not_ranked: None,
    }
}

fn missing_cell(missing: &Missing, plan: &Plan, phase: &Phase, sweep_bytes: Option<u64>) -> Cell {
    Cell {
        store: missing.label.clone(),
        adapter: missing.adapter.clone(),
        status: Status::NotAvailable,
        reason: Some(missing.reason.clone()),
        not_ranked: Some(format!("not available: {}", missing.reason)),
        ..blank(plan, phase, sweep_bytes)
    }
}

/// A cell of a row; `None` while nothing is known about it.
fn cell(
    plan: &Plan,
    records: &Records,
    row: &Row,
    phase: &Phase,
    sweep_bytes: Option<u64>,
) -> Result<Option<Cell>> {
    let durability = class_of(row, phase.class, plan.durability);
    let mut cell = Cell {
        store: row.label.clone(),
        adapter: row.adapter.name.to_owned(),
        kind: row.adapter.kind.name().to_owned(),
        options: row.options.shown(),
        durability,
        damage: Some((row.adapter.damage)(&row.options, durability)),
        ..blank(plan, phase, sweep_bytes)
    };
    let empty = CellRecord::default();
    let record = records.cells.get(&(row.label.clone(), sweep_bytes, phase.id.clone())).unwrap_or(&empty);
    let failed = records.rows.iter().find(|known| known.store == row.label && known.status == Status::Failed);
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
    } else if cell.errors > 0 {
        let first = cell.first_error.clone().unwrap_or_default();
        (cell.status, cell.reason) =
            (Status::Failed, Some(format!("{} of {} ops failed: {first}", cell.errors, cell.ops)));
    }
    cell.harness_share = harness_share(plan, records, &cell, phase);
    Ok(Some(cell))
}

fn fill_in(cell: &mut Cell, record: &CellRecord, phase: &Phase) -> Result<()> {
    let rounds = &record.rounds;
    cell.rounds.clone_from(rounds);
    cell.ops = rounds.iter().map(|round| round.ops).sum();
    cell.errors = rounds.iter().map(|round| round.errors).sum();
    cell.retries = rounds.iter().map(|round| round.retries).sum();
    cell.cache_misses = rounds.iter().map(|round| round.cache_misses).sum();
    cell.timeouts = rounds.iter().map(|round| round.timeouts).sum();
    cell.first_error = rounds.iter().find_map(|round| round.first_error.clone());
    let over = |value: &dyn Fn(&Round) -> f64| rate(&rounds.iter().map(value).collect::<Vec<f64>>());
    cell.ops_per_s = over(&|round| round.ops as f64 / round.seconds);
    if rounds.iter().all(|round| round.settled_seconds.is_some()) {
        cell.settled_ops_per_s =
            over(&|round| round.ops as f64 / round.settled_seconds.unwrap_or(round.seconds));
    }
    if rounds.iter().all(|round| round.bytes > 0) {
        cell.bytes_per_s = over(&|round| round.bytes as f64 / round.seconds);
    }
    let ops = (cell.ops as f64).max(1.0);
    cell.blobs_per_op = Some(rounds.iter().map(|round| round.blobs).sum::<u64>() as f64 / ops);
    percentiles(cell)?;
    counts(cell);
    resources(cell);
    (cell.cache, cell.cache_proof) = cache(phase, rounds);
    Ok(())
}

fn percentiles(cell: &mut Cell) -> Result<()> {
    let service = decode_rounds(&cell.rounds, |round| &round.histogram.service)?;
    let merged = histogram::merge_equally(&service);
    cell.service_ns = Some(histogram::percentiles(&merged, &service));
    cell.service_intervals = Some(percentile_intervals(&service));
    cell.curve = histogram::curve(&merged, &service);
    if cell.rounds.iter().any(|round| round.open.is_some()) {
        let response = decode_rounds(&cell.rounds, |round| &round.histogram.response)?;
        let merged = histogram::merge_equally(&response);
        cell.response_ns = Some(histogram::percentiles(&merged, &response));
        cell.curve = histogram::curve(&merged, &response);
    }
    steps(cell)?;
    for band in histogram::BANDS {
        let rounds: Vec<Histogram> = cell
            .rounds
            .iter()
            .filter_map(|round| round.histogram.service.get(band))
            .map(|text| histogram::decode(text))
            .collect::<Result<_>>()?;
        let ops: u64 = rounds.iter().map(Histogram::len).sum();
        if ops > 0 {
            let service_ns = histogram::percentiles(&histogram::merge_equally(&rounds), &rounds);
            cell.size_bands.push(SizeBand { band: band.to_owned(), ops, service_ns });
        }
    }
    Ok(())
}

/// Steps in the order in which ops take them.
const STEPS: &[&str] = &[
    "connect",
    "digest",
    "begin",
    "find",
    "insert",
    "put",
    "confirm",
    "release",
    "delete",
    "forget",
    "commit",
    "first paint",
    "icons",
    "content",
];

/// The parts of ops that were timed by themselves, and their share of the ops' time.
fn steps(cell: &mut Cell) -> Result<()> {
    let mut names: Vec<&String> = cell.rounds.iter().flat_map(|round| round.histogram.steps.keys()).collect();
    names.sort_by_key(|name| (STEPS.iter().position(|known| known == name), *name));
    names.dedup();
    let whole = decode_rounds(&cell.rounds, |round| &round.histogram.service)?;
    let time =
        |rounds: &[Histogram]| rounds.iter().map(|round| round.mean() * round.len() as f64).sum::<f64>();
    let mut steps = Vec::new();
    for name in names {
        let texts = cell.rounds.iter().filter_map(|round| round.histogram.steps.get(name));
        let rounds: Vec<Histogram> = texts.map(|text| histogram::decode(text)).collect::<Result<_>>()?;
        let service_ns = histogram::percentiles(&histogram::merge_equally(&rounds), &rounds);
        let mean_ns = rate(&rounds.iter().map(Histogram::mean).collect::<Vec<f64>>());
        let share = time(&rounds) / time(&whole).max(1.0);
        steps.push(Step { name: name.clone(), service_ns, mean_ns, share });
    }
    cell.steps = steps;
    Ok(())
}

/// What was counted in an op, in the mean over rounds.
fn counts(cell: &mut Cell) {
    for round in &cell.rounds {
        for (name, number) in &round.counts {
            *cell.counts.entry(name.clone()).or_default() += number / cell.rounds.len() as f64;
        }
    }
}

/// Each round's bands in one histogram.
fn decode_rounds<'r>(
    rounds: &'r [Round],
    bands: impl Fn(&'r Round) -> &'r BTreeMap<String, String>,
) -> Result<Vec<Histogram>> {
    rounds.iter().map(|round| histogram::whole(bands(round))).collect()
}

fn percentile_intervals(rounds: &[Histogram]) -> PercentileIntervals {
    let of = |share: f64| {
        let values: Option<Vec<f64>> =
            rounds.iter().map(|round| histogram::percentile(round, share).map(|time| time as f64)).collect();
        rate(&values?)
    };
    PercentileIntervals { p50: of(SHARES[0]), p90: of(SHARES[1]), p99: of(SHARES[2]), p999: of(SHARES[3]) }
}

fn resources(cell: &mut Cell) {
    let rounds = &cell.rounds;
    let ops = cell.ops.max(1) as f64;
    let per_op = |value: &dyn Fn(&Round) -> Option<u64>| {
        let values: Option<Vec<u64>> = rounds.iter().map(value).collect();
        values.map(|values| values.iter().sum::<u64>() as f64 / ops)
    };
    let mean = |value: &dyn Fn(&Round) -> Option<u64>| {
        let values: Option<Vec<u64>> = rounds.iter().map(value).collect();
        values.map(|values| values.iter().sum::<u64>() / rounds.len() as u64)
    };
    cell.total_cpu_ns_per_op = per_op(&|round| round.total_cpu_ns);
    cell.client_cpu_ns_per_op = per_op(&|round| Some(round.client_cpu_ns));
    cell.background_cpu_ns_per_op =
        per_op(&|round| Some(round.client_cpu_ns.saturating_sub(round.worker_cpu_ns)));
    cell.server_cpu_ns_per_op = per_op(&|round| round.server_cpu_ns);
    cell.server_peak_bytes = rounds.iter().filter_map(|round| round.server_peak_bytes).max();
    let peaks: Option<Vec<u64>> = rounds.iter().map(|round| round.client_peak_bytes).collect();
    cell.client_peak_bytes = peaks.and_then(|peaks| peaks.into_iter().max());
    cell.device_read_bytes = mean(&|round| round.device_read_bytes);
    cell.device_written_bytes = mean(&|round| round.device_written_bytes);
    cell.device_flushes = mean(&|round| round.device_flushes);
    let seconds: f64 = rounds.iter().map(|round| round.seconds).sum::<f64>() * cell.workers as f64;
    if rounds.iter().any(|round| round.syncs > 0) && seconds > 0.0 {
        cell.sync_share = Some(rounds.iter().map(|round| round.sync_seconds).sum::<f64>() / seconds);
    }
}

/// What the caches held, and how that is known.
fn cache(phase: &Phase, rounds: &[Round]) -> (Cache, Option<CacheProof>) {
    let repeats = matches!(&phase.work, Work::Ops(load) if load.repeats.is_some());
    match phase.cache {
        CacheState::Warm => return (Cache::Warm, None),
        CacheState::AsIs if repeats || phase.work == Work::Reopen => return (Cache::Warm, None),
        CacheState::AsIs => return (Cache::None, None),
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

/// Device bytes per byte delivered over a whole cold phase.
pub fn device_bytes_per_byte(proof: &CacheProof) -> Option<f64> {
    let tenths = &proof.device_bytes_per_byte;
    (!tenths.is_empty()).then(|| tenths.iter().sum::<f64>() / tenths.len() as f64)
}

/// Why a cold cell is not cold, though everything was evicted: the store read its data when it was opened.
pub fn resident(cell: &Cell, zstd_ratio: f64) -> Option<String> {
    let proof = cell.cache_proof.as_ref().filter(|_| cell.cache == Cache::Cold)?;
    let start = crate::units::nanoseconds(proof.open_seconds * 1e9);
    if let Some(share) = proof.resident_share_opened.filter(|share| *share > RESIDENT_SHARE_OPENED_MAX) {
        return Some(format!("resident: opening loaded {:.0} % of it; start took {start}", share * 100.0));
    }
    let read = device_bytes_per_byte(proof)?;
    (read < DEVICE_BYTES_PER_BYTE_MIN / zstd_ratio.max(1.0))
        .then(|| format!("resident: the device read {read:.2} B for a byte delivered; start took {start}"))
}

fn harness_share(plan: &Plan, records: &Records, cell: &Cell, phase: &Phase) -> Option<f64> {
    let null =
        records.harness.null_ns.get(&length_key(&cell.phase, cell.sweep_bytes)).copied().or_else(|| {
            // The null store forgets when closed: its warm reads stand for cold ones.
            let warm = plan.phases.iter().find(|phase| !phase.writes() && phase.cache == CacheState::Warm)?;
            let reads = !phase.writes() && phase.work != Work::Reopen;
            reads
                .then(|| records.harness.null_ns.get(&length_key(&warm.id, cell.sweep_bytes)).copied())
                .flatten()
        })?;
    let ops_per_s = cell.ops_per_s?.median;
    // An open loop waits on purpose: its op is compared by its service time.
    let op_ns = match (cell.offered_ops_per_s, cell.service_ns.and_then(|service| service.p50)) {
        (Some(_), Some(p50)) => p50 as f64,
        _ => 1e9 / ops_per_s,
    };
    Some(null / op_ns)
}

// ---- ranking ---------------------------------------------------------------------------------------------------

/// Why a cell says more of the harness than of the store, if it does.
pub fn mostly_harness(cell: &Cell) -> Option<String> {
    let share = cell.harness_share.filter(|share| *share > HARNESS_SHARE_MAX)?;
    Some(format!("client-bound: {:.0} % of an op is the harness", share * 100.0))
}

/// Why a cell is not ranked, if it is not.
fn not_ranked(plan: &Plan, records: &Records, cell: &Cell) -> Option<String> {
    let row = plan.rows.iter().find(|row| row.label == cell.store)?;
    match cell.status {
        Status::Measured => {}
        Status::NotPossible => {
            return Some(format!("not possible: {}", cell.reason.clone().unwrap_or_default()));
        }
        Status::NotAvailable => {
            return Some(format!("not available: {}", cell.reason.clone().unwrap_or_default()));
        }
        Status::Failed => return Some(format!("failed: {}", cell.reason.clone().unwrap_or_default())),
    }
    let phase = plan.phases.iter().find(|phase| phase.id == cell.phase)?;
    let wanted = match phase.class {
        Class::Fill => plan.durability.min(Durability::OnSync),
        Class::Asked => plan.durability,
    };
    let weaker = (phase.writes() && cell.durability < wanted)
        .then(|| format!("runs in class {}, the strongest it has", cell.durability.name()));
    match row.adapter.kind {
        Kind::Reference => return Some("a yardstick, not a place for files".to_owned()),
        // Of caches nobody expects that class; they rank among themselves, those of each class apart.
        Kind::Cache => {}
        Kind::Files | Kind::Embedded | Kind::Server | Kind::Web if weaker.is_some() => return weaker,
        Kind::Files | Kind::Embedded | Kind::Server | Kind::Web => {}
    }
    if let Some(why) = mostly_harness(cell) {
        return Some(why);
    }
    if let Some(why) = client_is_the_limit(records, cell) {
        return Some(why);
    }
    if let Some(why) = misses_its_cache(cell) {
        return Some(why);
    }
    if cell.rounds.iter().any(|round| round.open.as_ref().is_some_and(|open| !open.sustained)) {
        return Some("not sustained: the offered rate was more than it could do".to_owned());
    }
    if let Some(why) = too_short([cell]) {
        return Some(why);
    }
    if cell.rounds.len() < 2 {
        return Some("one round only".to_owned());
    }
    resident(cell, records.corpora.iter().map(|corpus| corpus.zstd_ratio).fold(1.0, f64::max))
}

/// Why cells, taken together, have neither the time nor the ops to average over.
pub fn too_short<'c>(cells: impl IntoIterator<Item = &'c Cell>) -> Option<String> {
    let (mut ops, mut seconds) = (0.0, 0.0);
    for cell in cells {
        let rounds = cell.rounds.len().max(1) as f64;
        ops += cell.ops as f64 / rounds;
        let settled = cell.rounds.iter().map(|round| round.settled_seconds.unwrap_or(round.seconds));
        seconds += settled.sum::<f64>() / rounds;
    }
    (ops < SHORT_OPS as f64 && seconds < SHORT_SECONDS)
        .then(|| format!("too short: {ops:.0} ops in {} a round", crate::units::nanoseconds(seconds * 1e9)))
}

/// For stores behind a server: whether our own processors were busy while the server's were idle.
fn client_is_the_limit(records: &Records, cell: &Cell) -> Option<String> {
    /// Above this share our processors are busy.
    const BUSY: f64 = 0.9;
    /// Below this share the server's are idle.
    const IDLE: f64 = 0.5;
    let server_ns: f64 =
        cell.rounds.iter().map(|round| round.server_cpu_ns.map(|ns| ns as f64)).sum::<Option<f64>>()?;
    let client_ns: f64 = cell.rounds.iter().map(|round| round.worker_cpu_ns as f64).sum();
    let wall_ns: f64 = cell.rounds.iter().map(|round| round.seconds * 1e9).sum();
    let processors = records.machine.processors.max(1) as f64;
    let client = client_ns / (wall_ns * processors.min(cell.workers as f64));
    let server = server_ns / (wall_ns * processors);
    (client > BUSY && server < IDLE).then(|| {
        let (client, server) = (client * 100.0, server * 100.0);
        format!("client-bound: the client's processors were {client:.0} % busy, the server's {server:.0} %")
    })
}

/// A cache that often has not what it is asked for stands for a mixture of itself and the store behind. A cold phase is about that.
fn misses_its_cache(cell: &Cell) -> Option<String> {
    /// Above this share of the ops. A miss may take ten times as long as a hit: then one in a hundred moves the mean by a tenth.
    const MISSES: f64 = 0.01;
    let share = cell.cache_misses as f64 / cell.ops.max(1) as f64;
    (cell.cache != Cache::Cold && share > MISSES)
        .then(|| format!("{:.0} % of its ops were misses of its cache", share * 100.0))
}

/// What caches are called, which rank among themselves and are never where files should live.
pub const CACHES: &str = "caches, no places where files live";

/// Whether a cell belongs to a cache.
pub fn is_cache(cell: &Cell) -> bool {
    cell.kind == Kind::Cache.name()
}

/// What the cells have in common that a cell is ranked with, in words.
pub fn ranked_with(cell: &Cell) -> String {
    let group = group_of(cell);
    match (is_cache(cell), group.is_empty()) {
        (false, _) => group,
        (true, true) => CACHES.to_owned(),
        (true, false) => format!("{CACHES}; {group}"),
    }
}

/// What makes two cells of a phase comparable, as words for the reason when they are not.
pub fn group_of(cell: &Cell) -> String {
    let mut parts = Vec::new();
    if writes(cell) {
        let (kill, power) =
            cell.damage.map_or(("", ""), |damage| (damage.after_kill.name(), damage.after_power_cut.name()));
        parts
            .push(format!("class {}, {kill} when killed, {power} after a power cut", cell.durability.name()));
    }
    if cell.options.get("key").is_some_and(|key| key == "integer") {
        parts.push("integer keys".to_owned());
    }
    parts.extend(cell.options.get("shows").cloned());
    parts.extend(cell.options.get("rtt").map(|rtt| format!("{rtt} ms a round trip")));
    match cell.cache {
        Cache::Lukewarm if cell.kind == Kind::Files.name() => parts.push("lukewarm files".to_owned()),
        Cache::Lukewarm => parts.push("lukewarm".to_owned()),
        Cache::Cold | Cache::Warm | Cache::None => {}
    }
    parts.join("; ")
}

/// The ranked cells of one phase by what they rank with, the largest group first and caches last, the fastest cell first.
pub fn grouped<'c>(cells: &[&'c Cell]) -> Vec<(String, Vec<&'c Cell>)> {
    let mut groups: Vec<(String, Vec<&Cell>)> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.not_ranked.is_none()) {
        let name = ranked_with(cell);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, members)) => members.push(cell),
            None => groups.push((name, vec![cell])),
        }
    }
    groups.sort_by_key(|(_, members)| (is_cache(members[0]), std::cmp::Reverse(members.len())));
    for (_, members) in &mut groups {
        members
            .sort_by(|a, b| op_ns(a).unwrap_or(f64::INFINITY).total_cmp(&op_ns(b).unwrap_or(f64::INFINITY)));
    }
    groups
}

/// Whether a cell's rate is the highest rung of a ladder, and not what ops took one after the other.
pub fn is_ladder(cell: &Cell) -> bool {
    cell.rounds.iter().any(|round| !round.rungs.is_empty())
}

/// Whether a cell has no other to be compared with.
pub fn is_alone(result: &RunResult, cell: &Cell) -> bool {
    let same = |other: &&Cell| {
        other.phase == cell.phase
            && other.sweep_bytes == cell.sweep_bytes
            && other.not_ranked.is_none()
            && ranked_with(other) == ranked_with(cell)
    };
    result.results.iter().filter(same).count() == 1
}

/// Whether a cell belongs to a yardstick.
pub fn is_yardstick(cell: &Cell) -> bool {
    cell.kind == Kind::Reference.name()
}

/// Whether a cell's phase writes.
pub fn writes(cell: &Cell) -> bool {
    cell.settled_ops_per_s.is_some()
}

/// The rates by which a cell is compared: settled ones where there are any; in an open loop the inverse of the mean
/// response time, because the rate is the same for all.
pub fn series(cell: &Cell) -> Series {
    let value = |round: &Round| {
        if round.open.is_some() {
            let response: Result<Vec<Histogram>> =
                round.histogram.response.values().map(|text| histogram::decode(text)).collect();
            let mut all = histogram::new();
            response.unwrap_or_default().iter().for_each(|band| histogram::add(&mut all, band));
            return 1e9 / all.mean().max(1.0);
        }
        round.ops as f64 / round.settled_seconds.unwrap_or(round.seconds)
    };
    Series {
        label: cell.store.clone(),
        rates: cell
            .rounds
            .iter()
            .map(|round| (round.round, value(round)))
            .filter(|(_, rate)| *rate > 0.0)
            .collect(),
    }
}

/// One ranking: the cells of a phase (and size) that may be compared with each other.
#[derive(Clone, Debug)]
pub struct Group {
    /// The phase.
    pub phase: String,
    /// The size of a sweep.
    pub sweep_bytes: Option<u64>,
    /// What its cells have in common.
    pub name: String,
    /// How they rank.
    pub ranking: Ranking,
}

/// Ranks every phase and marks the leaders.
fn rankings(cells: &mut [Cell]) -> Vec<Group> {
    let mut groups: BTreeMap<(usize, Option<u64>, String), Vec<usize>> = BTreeMap::new();
    let mut phases: Vec<String> = Vec::new();
    for (index, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.not_ranked.is_none()) {
        if !phases.contains(&cell.phase) {
            phases.push(cell.phase.clone());
        }
        let phase = phases.iter().position(|phase| *phase == cell.phase).unwrap_or(0);
        groups.entry((phase, cell.sweep_bytes, ranked_with(cell))).or_default().push(index);
    }
    let mut ranked = Vec::new();
    for ((phase, sweep_bytes, name), members) in groups {
        let rows: Vec<Series> = members.iter().map(|index| series(&cells[*index])).collect();
        let Some(ranking) = rank(&rows) else { continue };
        for index in members {
            cells[index].leader = ranking.leaders.contains(&cells[index].store);
        }
        ranked.push(Group { phase: phases[phase].clone(), sweep_bytes, name, ranking });
    }
    ranked
}

fn comparisons(plan: &Plan, cells: &[Cell], groups: &[Group]) -> Vec<Comparison> {
    let mut all = Vec::new();
    for cell in cells.iter().filter(|cell| cell.store != plan.reference) {
        let same = |other: &&Cell| {
            other.store == plan.reference
                && other.phase == cell.phase
                && other.sweep_bytes == cell.sweep_bytes
        };
        let Some(reference) = cells.iter().find(same) else { continue };
        all.push(with_plan_reference(cell, reference));
    }
    for group in groups {
        for (store, (ratio, verdict)) in &group.ranking.ratios {
            all.push(Comparison {
                phase: group.phase.clone(),
                sweep_bytes: group.sweep_bytes,
                store: store.clone(),
                reference: group.ranking.best.clone(),
                against: Against::Best,
                ratio: Some(*ratio),
                verdict: *verdict,
                reason: None,
            });
        }
    }
    all
}

fn with_plan_reference(cell: &Cell, reference: &Cell) -> Comparison {
    let (own, other) = (ranked_with(cell), ranked_with(reference));
    let reason = match (&cell.not_ranked, &reference.not_ranked) {
        (Some(why), _) => Some(why.clone()),
        (None, Some(why)) => Some(format!("the reference is not ranked: {why}")),
        (None, None) if own != other => Some(format!("not comparable: {own}")),
        (None, None) => None,
    };
    let compared = if cell.rounds.is_empty() || reference.rounds.is_empty() {
        None
    } else {
        with_reference(&series(cell), &series(reference))
    };
    let (ratio, verdict) = match (&reason, compared) {
        (None, Some((ratio, verdict))) => (Some(ratio), verdict),
        // The ratio is a fact all the same; it is the verdict that is withheld.
        (_, compared) => (compared.map(|(ratio, _)| ratio), Verdict::NotRanked),
    };
    Comparison {
        phase: cell.phase.clone(),
        sweep_bytes: cell.sweep_bytes,
        store: cell.store.clone(),
        reference: reference.store.clone(),
        against: Against::Plan,
        ratio,
        verdict,
        reason,
    }
}

// ---- disk and crossovers -----------------------------------------------------------------------------------------

fn footprints(plan: &Plan, records: &Records) -> Vec<Footprint> {
    let mut all = Vec::new();
    for planned in &plan.corpora {
        for row in &plan.rows {
            let rounds: Vec<&Footprint> = records
                .store_rounds
                .iter()
                .filter(|visit| visit.store == row.label && visit.sweep_bytes == planned.sweep_bytes)
                .map(|visit| &visit.footprint)
                .collect();
            let Some(first) = rounds.first() else { continue };
            let middle = |value: &dyn Fn(&Footprint) -> Option<u64>| {
                let mut values: Vec<u64> = rounds.iter().filter_map(|footprint| value(footprint)).collect();
                values.sort_unstable();
                values.get(values.len() / 2).copied()
            };
            let middle_share = |value: &dyn Fn(&Footprint) -> Option<f64>| {
                let mut values: Vec<f64> = rounds.iter().filter_map(|footprint| value(footprint)).collect();
                values.sort_unstable_by(f64::total_cmp);
                values.get(values.len() / 2).copied()
            };
            all.push(Footprint {
                store: first.store.clone(),
                sweep_bytes: first.sweep_bytes,
                logical_bytes: first.logical_bytes,
                empty_bytes: middle(&|footprint| footprint.empty_bytes),
                allocated_bytes: middle(&|footprint| footprint.allocated_bytes),
                after_settle_bytes: middle(&|footprint| footprint.after_settle_bytes),
                statvfs_bytes: middle(&|footprint| footprint.statvfs_bytes),
                write_amplification: middle_share(&|footprint| footprint.write_amplification),
                space_amplification: middle_share(&|footprint| footprint.space_amplification),
            });
        }
    }
    all
}

fn all_crossovers(plan: &Plan, cells: &[Cell]) -> Vec<crate::result::Crossover> {
    let mut all = Vec::new();
    if plan.corpora.len() < 2 {
        return all;
    }
    for phase in &plan.phases {
        for (index, a) in plan.rows.iter().enumerate() {
            for b in &plan.rows[index + 1..] {
                let pairs = pairs(plan, cells, &phase.id, &a.label, &b.label);
                let points: Vec<Point> = pairs
                    .iter()
                    .map(|(bytes, a, b, verdict)| Point { bytes: *bytes, a, b, verdict: *verdict })
                    .collect();
                all.extend(crossovers(&phase.id, &points));
            }
        }
    }
    all
}

/// Two rows at every size of a sweep: the size, their rates, and the verdict on the first.
pub fn pairs(
    plan: &Plan,
    cells: &[Cell],
    phase: &str,
    a: &str,
    b: &str,
) -> Vec<(u64, Series, Series, Verdict)> {
    let find = |label: &str, bytes: u64| {
        cells.iter().find(|cell| {
            cell.store == label
                && cell.phase == phase
                && cell.sweep_bytes == Some(bytes)
                && cell.not_ranked.is_none()
                && !cell.rounds.is_empty()
        })
    };
    let sizes = plan.corpora.iter().filter_map(|corpus| corpus.sweep_bytes);
    sizes
        .filter_map(|bytes| {
            let (a, b) = (find(a, bytes)?, find(b, bytes)?);
            if ranked_with(a) != ranked_with(b) {
                return None;
            }
            let (a, b) = (series(a), series(b));
            let verdict = with_reference(&a, &b)?.1;
            Some((bytes, a, b, verdict))
        })
        .collect()
}

/// An interval as text: `1.30 [1.21, 1.40]`, `0.0142 [0.0131, 0.0154]`.
pub fn interval_text(interval: &Interval) -> String {
    /// Wider than this by a factor, an interval says that there are too few rounds, and nothing else.
    const WIDEST: f64 = 100.0;
    let digits = if interval.median >= 0.1 {
        2
    } else {
        (1.0 - interval.median.log10().floor()).clamp(2.0, 6.0) as usize
    };
    let number = |value: f64| format!("{value:.digits$}");
    match (interval.low, interval.high) {
        (Some(low), Some(high)) if high / low > WIDEST => format!("{} [?]", number(interval.median)),
        (Some(low), Some(high)) => format!("{} [{}, {}]", number(interval.median), number(low), number(high)),
        _ => number(interval.median),
    }
}

/// The mean time of an op, in nanoseconds, as rates are compared.
pub fn op_ns(cell: &Cell) -> Option<f64> {
    let rate = cell.settled_ops_per_s.or(cell.ops_per_s)?;
    Some(1e9 / rate.median * cell.workers as f64)
}

/// The median percentile of a cell's service time.
pub fn p50(cell: &Cell) -> Option<u64> {
    cell.service_ns.unwrap_or_default().p50
}
