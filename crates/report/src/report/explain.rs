//! Explains one cell of a result in words: its rounds, how the interval was computed, what it was ranked against and why, its
//! resources, and what speaks against it. For a terminal of 80 columns.

use super::block::{self, Block};
use super::forecast;
use super::table::{Table, TableCell, shown};
use super::view::describe::describe;
use super::view::memory;
use super::view::standing::{CellRank, beside_baseline, compared};
use super::view::warned::with_advice;
use super::view::words::{self, with_interval};
use crate::judge::cells::{self, device_bytes_per_byte, series};
use crate::judge::interval::{self, CONFIDENCE, t_two_sided};
use crate::judge::ranking;
use crate::result::{
    Cell, Interval, Reason, ReferenceRole, RunResult, Status, StoreRound, Warning, WarningDetails,
};
use crate::units;

/// Explains a cell.
pub fn explain(result: &RunResult, cell: &Cell) -> String {
    let blocks = [
        part("What was asked", asked(result, cell)),
        part("The figure", figure(result, cell)),
        rounds(cell),
        part("Its rank", rank(result, cell)),
        part("Times of single ops", times(cell)),
        part("Processor and memory", resources(cell)),
        part("The device", device(cell)),
        part("Checks", checks(result, cell)),
        part("What speaks against it", warnings(result, cell)),
    ];
    let blocks: Vec<Block> = blocks.into_iter().flatten().collect();
    format!("{} in {}\n{}", cell.store, words::phase(&cell.phase, cell.corpus_id), block::terminal(&blocks))
}

/// Sentences below a heading, unless there are none.
fn part(title: &str, sentences: Vec<String>) -> Vec<Block> {
    match sentences.is_empty() {
        true => Vec::new(),
        false => vec![Block::Title(title.to_owned()), Block::List(sentences)],
    }
}

fn of_phase<'r>(result: &'r RunResult, cell: &Cell) -> Vec<&'r Cell> {
    let is_of = |other: &&Cell| other.phase == cell.phase && other.corpus_id == cell.corpus_id;
    result.results.iter().filter(is_of).collect()
}

fn asked(result: &RunResult, cell: &Cell) -> Vec<String> {
    let about =
        result.phases.iter().find(|phase| phase.id == cell.phase).and_then(|phase| phase.about.clone());
    let mut all: Vec<String> = about.into_iter().collect();
    all.push(format!("Conditions: {}.", describe(result, cell, &of_phase(result, cell))));
    all.extend(result.corpus_of(cell.corpus_id).map(|corpus| {
        let middle =
            corpus.quantiles.get("p50").map(|bytes| format!(", median {}", units::bytes(*bytes as f64)));
        let whole = units::bytes(corpus.bytes as f64);
        format!("Blobs: {} of `{}`, {whole}{}.", corpus.blobs, corpus.name, middle.unwrap_or_default())
    }));
    let stored =
        |blobs: u64| format!("In the store at this step of a growth: {}.", units::counted(blobs, "blob"));
    all.extend(cell.stored_blobs.map(stored));
    let settings: Vec<String> = cell.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if !settings.is_empty() {
        all.push(format!("Settings: {}.", settings.join(", ")));
    }
    let facts = result.candidate(&cell.store);
    let version = facts.and_then(|candidate| candidate.facts.get("version"));
    all.extend(version.map(|version| format!("Version of the store: {version}.")));
    all
}

fn figure(result: &RunResult, cell: &Cell) -> Vec<String> {
    if cell.rounds.is_empty() {
        let why = cell.reason.clone().or_else(|| cell.not_ranked.as_ref().map(Reason::to_string));
        let unfinished = if result.complete { "" } else { " The run was ended early." };
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        return vec![format!("There is no figure: {}{why}.{unfinished}", cell.status.name())];
    }
    let mut all = Vec::new();
    let per_second = |rate: &Interval| format!("{} /s", with_interval(rate, units::count));
    if let Some(ns) = cells::op_ns(cell) {
        let what = if cells::is_offered(cell) { "mean response time of an op" } else { "time of an op" };
        all.push(format!("{}: {what}, by which it is compared.", units::nanoseconds(ns)));
    }
    all.extend(cell.settled_ops_per_s.as_ref().map(|rate| {
        format!("Settled rate: {}, with deferred work and the file system's flush.", per_second(rate))
    }));
    all.extend(cell.ops_per_s.as_ref().map(|rate| format!("Acknowledged rate: {}.", per_second(rate))));
    let bytes = |rate: &Interval| with_interval(rate, units::bytes);
    all.extend(cell.bytes_per_s.as_ref().map(|rate| format!("Bytes of blobs a second: {}.", bytes(rate))));
    all.extend(way(cell));
    all.extend(set_aside(result, cell));
    all.extend(forecast::of_cell(result, cell));
    all
}

/// States how the interval was computed.
fn way(cell: &Cell) -> Option<String> {
    let moments = series(cell).moments()?;
    let rounds = units::counted(cell.rounds.len(), "round");
    if moments.degrees < 1.0 {
        return Some(format!("One figure of {rounds} has no interval."));
    }
    let t = t_two_sided(CONFIDENCE, moments.degrees);
    let slack = if cell.is_ladder() { ", and a rung of the ladder" } else { "" };
    Some(format!(
        "The figure is the mean of the logarithms of {rounds}. Its interval reaches {t:.2} standard errors of {} to both sides{slack}: \
         Student's t with {:.0} degrees of freedom, 95 %.",
        units::percent(moments.error.exp_m1()),
        moments.degrees
    ))
}

fn set_aside(result: &RunResult, cell: &Cell) -> Option<String> {
    let is_it = |aside: &&crate::result::DiscardedRound| {
        aside
            .figures
            .iter()
            .any(|of| of.store == cell.store && of.phase == cell.phase && of.corpus_id == cell.corpus_id)
    };
    let rounds: Vec<String> =
        result.set_aside.iter().filter(is_it).map(|aside| aside.round.to_string()).collect();
    let were = if rounds.len() == 1 { "Round" } else { "Rounds" };
    (!rounds.is_empty()).then(|| {
        format!(
            "{were} {} had been disturbed, and is in no figure as it was first: it was measured again.",
            rounds.join(", ")
        )
    })
}

/// Table with a line for each round.
fn rounds(cell: &Cell) -> Vec<Block> {
    if cell.rounds.is_empty() {
        return Vec::new();
    }
    let rates = series(cell).rates;
    let (workers, by) = match cells::is_offered(cell) {
        true => (1.0, "rates are one over the mean response time"),
        false => (cell.workers as f64, "times are a worker's"),
    };
    let settled = cell.settled_ops_per_s.is_some();
    let heads = ["round", "#place", "#ops", "#seconds"].into_iter().chain(settled.then_some("#settled"));
    let mut table = Table::new("Rounds", heads.chain(["#ops/s", "#time"]));
    let seconds = |seconds: f64| units::nanoseconds(seconds * 1e9);
    for round in &cell.rounds {
        let rate = rates.get(&round.round).copied();
        let mut line: Vec<TableCell> = [round.round.into(), u64::from(round.position), round.ops]
            .map(|number: u64| number.to_string().into())
            .into();
        line.push(seconds(round.seconds).into());
        line.extend(settled.then(|| shown(round.settled_seconds, seconds)));
        line.push(shown(rate, units::count));
        line.push(shown(rate, |rate| units::nanoseconds(1e9 / rate * workers)));
        table.push(line);
    }
    let legend = format!("place: the candidate's in the order of the round; {by}.");
    vec![Block::Gap, Block::Table(table), Block::Text(legend)]
}

fn rank(result: &RunResult, cell: &Cell) -> Vec<String> {
    let mut all = vec![match (CellRank::for_cell(result, cell), &cell.not_ranked) {
        (CellRank::Absent(_), _) => return Vec::new(),
        (_, Some(why)) => format!("It is not ranked: {why}."),
        (CellRank::Ratio(comparison), _) => {
            let ratio = comparison.ratio.map(|ratio| interval::text(&ratio)).unwrap_or_default();
            format!(
                "{ratio} of the rate of `{}`, which is the best: {}.",
                comparison.reference,
                comparison.verdict.name()
            )
        }
        (place, _) => format!("It is ranked: {}.", place.text()),
    }];
    let leads = "It leads: no other is proved faster by 3 % or more.";
    all.extend(cell.leader.then(|| leads.to_owned()));
    let others: Vec<&Cell> =
        of_phase(result, cell).into_iter().filter(|other| other.store != cell.store).collect();
    let group = ranking::ranked_among(cell);
    let is_with = |other: &&Cell| other.not_ranked.is_none() && ranking::ranked_among(other) == group;
    let (with, apart): (Vec<&Cell>, Vec<&Cell>) = others.iter().copied().partition(is_with);
    if cell.not_ranked.is_none() {
        let named = if group.is_empty() { String::new() } else { format!(" ({group})") };
        all.push(match with.as_slice() {
            [] => format!("No other candidate is ranked with it{named}."),
            [other] => format!("It is ranked with `{}`{named}.", other.store),
            _ => format!(
                "It is ranked with {}{named}. So that all {} hold at once, each has {:.1} % confidence.",
                with.iter().map(|other| format!("`{}`", other.store)).collect::<Vec<_>>().join(", "),
                units::counted(with.len(), "comparison"),
                (1.0 - (1.0 - CONFIDENCE) / with.len() as f64) * 100.0
            ),
        });
        all.extend(with.iter().filter_map(|other| against(result, cell, other)));
    }
    all.extend(apart.iter().map(|other| not_with(cell, other)));
    let plan = compared(result, cell, ReferenceRole::Plan).filter(|plan| plan.ratio.is_some());
    all.extend(plan.map(|plan| {
        let ratio = plan.ratio.map(|ratio| interval::text(&ratio)).unwrap_or_default();
        format!(
            "Over the plan's reference `{}`, paired by round: {ratio}, {}.",
            plan.reference,
            plan.verdict.name()
        )
    }));
    if ranking::is_baseline(cell) {
        all.extend(beside_baseline(result, cell).map(|ratios| format!("{ratios}.")));
    }
    all
}

/// Compares another candidate with this one; `None` unless this one is the best of its phase.
fn against(result: &RunResult, cell: &Cell, other: &Cell) -> Option<String> {
    let comparison =
        compared(result, other, ReferenceRole::Best).filter(|found| found.reference == cell.store)?;
    let ratio = interval::text(&comparison.ratio?);
    Some(format!("`{}` has {ratio} of its rate: {}.", other.store, comparison.verdict.name()))
}

/// States why another candidate is not ranked with this one.
fn not_with(cell: &Cell, other: &Cell) -> String {
    let why = match &other.not_ranked {
        Some(why) => why.to_string(),
        None if cell.not_ranked.is_some() => "it is ranked, and this one is not".to_owned(),
        None => match ranking::ranked_among(other) {
            group if group.is_empty() => "it is of another sort".to_owned(),
            group => format!("it ranks apart ({group})"),
        },
    };
    format!("Not with `{}`: {why}.", other.store)
}

fn times(cell: &Cell) -> Vec<String> {
    let mut all = Vec::new();
    let of = |name: &str, at: Option<u64>, interval: Option<Interval>| {
        let point = Interval::point(at? as f64);
        let time = Interval { median: point.median, ..interval.unwrap_or(point) };
        Some(format!("{name} {}", with_interval(&time, units::nanoseconds)))
    };
    if let Some(service) = &cell.service_ns {
        let own = cell.service_intervals.unwrap_or_default();
        let told: Vec<String> = [
            of("p50", service.p50, own.p50),
            of("p90", service.p90, own.p90),
            of("p99", service.p99, own.p99),
            of("p99.9", service.p999, own.p999),
        ]
        .into_iter()
        .flatten()
        .collect();
        all.push(match told.is_empty() {
            true => "There are too few ops for any percentile.".to_owned(),
            false => format!("From start to end: {}.", told.join(", ")),
        });
    }
    if let Some(response) = &cell.response_ns {
        let told: Vec<String> =
            [of("p50", response.p50, None), of("p99", response.p99, None)].into_iter().flatten().collect();
        let told = (!told.is_empty()).then(|| told.join(", "));
        all.extend(told.map(|told| format!("From when an op was due to its end: {told}.")));
    }
    let firsts = cell.rounds.iter().flat_map(|round| round.first_ops_ns.iter().map(|ns| *ns as f64));
    if cell.rounds.iter().any(|round| !round.first_ops_ns.is_empty()) {
        all.push(format!(
            "The first op of a worker: {} (median).",
            units::nanoseconds(interval::median(firsts))
        ));
    }
    all.extend(super::view::describe::steps(cell).map(|steps| format!("Parts {steps}.")));
    if cell.size_bands.len() > 1 {
        let bands = cell.size_bands.iter().filter_map(|band| {
            Some(format!(
                "{} {} ({})",
                band.band,
                units::nanoseconds(band.service_ns.p50? as f64),
                units::counted(band.ops, "op")
            ))
        });
        all.push(format!("p50 by size of blob: {}.", bands.collect::<Vec<_>>().join(", ")));
    }
    all
}

fn resources(cell: &Cell) -> Vec<String> {
    let mut all = Vec::new();
    let mut processor = |what: &str, ns: Option<f64>| {
        all.extend(ns.map(|ns| format!("{what}: {} an op.", units::nanoseconds(ns))));
    };
    processor("Processor time of blobwise, an embedded store included", cell.client_cpu_ns_per_op);
    processor(
        "Of that, in threads that are no workers",
        cell.background_cpu_ns_per_op.filter(|ns| *ns > 0.0),
    );
    processor("Processor time of servers", cell.server_cpu_ns_per_op);
    processor("Processor time of the whole system, less what it takes when idle", cell.total_cpu_ns_per_op);
    let harness = |share: f64| format!("{} of an op is the harness itself.", units::percent(share));
    all.extend(cell.harness_share.map(harness));
    let mut most = |what: &str, bytes: Option<u64>| {
        all.extend(bytes.map(|bytes| format!("{what}: {} at most.", units::bytes(bytes as f64))));
    };
    most("Memory of blobwise beyond what it had before", cell.client_peak_bytes);
    most("Memory of servers", cell.server_peak_bytes);
    most("Of both, what only processes keep (anonymous and shared memory)", cell.anonymous_peak_bytes);
    most("Of both, pages of mapped files, which the kernel can drop", cell.mapped_peak_bytes);
    if let Some(counted) = memory::counted(cell) {
        let counted = memory::COUNTED
            .iter()
            .zip(counted)
            .filter_map(|(name, value)| Some(format!("{name} {}", value?)));
        all.push(format!("As its control group counts it: {}.", counted.collect::<Vec<_>>().join(", ")));
    }
    all
}

fn device(cell: &Cell) -> Vec<String> {
    let bytes = |bytes: Option<u64>| bytes.map(|bytes| units::bytes(bytes as f64));
    let parts: Vec<String> = [
        cell.device_reads.map(|requests| units::counted(requests, "read request")),
        bytes(cell.device_read_bytes).map(|bytes| format!("{bytes} read")),
        bytes(cell.device_written_bytes).map(|bytes| format!("{bytes} written until everything was settled")),
        cell.device_flushes.map(|flushes| units::counted(flushes, "flush request")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut all = Vec::new();
    if !parts.is_empty() {
        all.push(format!("In a round, of everybody: {}.", parts.join(", ")));
    }
    if !cells::writes(cell) {
        all.extend(
            device_bytes_per_byte(cell)
                .map(|read| format!("It read {read:.2} bytes for each byte that was delivered.")),
        );
    }
    all.extend(
        cell.sync_share.map(|share| format!("Syncs took {} of the workers' time.", units::percent(share))),
    );
    if let Some(proof) = &cell.cache_proof {
        let share = |share: Option<f64>| share.map_or("unknown".to_owned(), units::percent);
        all.push(format!(
            "Evicted by `{}`: {} of the store's bytes were still in the kernel's cache, and {} once it was open again, which took {}.",
            proof.method,
            share(proof.resident_share),
            share(proof.resident_share_opened),
            units::nanoseconds(proof.open_seconds * 1e9)
        ));
    }
    all
}

fn checks(result: &RunResult, cell: &Cell) -> Vec<String> {
    if cell.rounds.is_empty() {
        return Vec::new();
    }
    let counters = &cell.counters;
    let first =
        counters.first_error.as_ref().map(|error| format!(" (the first: {error})")).unwrap_or_default();
    let mut all = vec![format!(
        "{} attempted in all rounds, {} acknowledged, {} done: {}{first}, {} made again, {} given up.",
        units::counted(cell.ops, "op"),
        counters.acknowledged(cell.ops),
        counters.done(cell.ops),
        units::counted(counters.errors, "error"),
        units::counted(counters.retries, "attempt"),
        counters.timeouts
    )];
    let is_its = |visit: &&StoreRound| visit.store == cell.store && visit.corpus_id == cell.corpus_id;
    let visits: Vec<&StoreRound> = result.store_rounds.iter().filter(is_its).collect();
    let verified: u64 = visits.iter().map(|visit| visit.verified).sum();
    all.push(match verified {
        0 => "No blob was compared with what had been put.".to_owned(),
        _ => format!(
            "{verified} times a blob was compared byte by byte with what had been put, over {}.",
            units::counted(visits.len(), "round")
        ),
    });
    if cell.status != Status::Measured {
        let why = cell.reason.clone().unwrap_or_default();
        all.push(format!("In the end: {}: {why}.", cell.status.name()));
    }
    all
}

fn warnings(result: &RunResult, cell: &Cell) -> Vec<String> {
    let mut all: Vec<WarningDetails<'_>> = result.warnings.iter().map(Warning::details).collect();
    all.retain(|details| details.bears_on(&cell.store, &cell.phase));
    all.sort_by_key(|details| details.severity);
    all.iter().map(|details| with_advice(details.text.clone(), details.suggestion().as_deref())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::judge::fixture::{around, cell, result};

    #[test]
    fn caches_and_other_sizes_are_no_part_of_what_is_explained() {
        let rated = |store: &str, level: f64, kind: &str| {
            let over = json!({"kind": kind, "corpus_id": 1000, "ops_per_s": {"median": 1000.0 / level}});
            cell(store, "read-warm", &around(level, 0), over)
        };
        let cells = vec![rated("a", 1.0, "files"), rated("b", 2.0, "files"), rated("c", 3.0, "cache")];
        let visit = |size: u64| {
            json!({"round": 1, "store": "a", "corpus_id": size, "position": 1, "seconds": 1.0, "verified": 5,
                   "footprint": {"store": "a", "corpus_id": size, "logical_bytes": 1}})
        };
        let result = result("", cells, vec![visit(1000), visit(2000)]);
        let said = explain(&result, &result.results[0]);
        assert!(said.contains("It is ranked with `b`."), "{said}");
        assert!(said.contains("Not with `c`: it ranks apart (caches, no places"), "{said}");
        assert!(said.contains("5 times a blob was compared"), "{said}");
    }

    #[test]
    fn a_response_time_is_not_one_of_each_worker() {
        let mut response = crate::judge::histogram::new();
        response.record_n(1_000_000, 100).unwrap();
        let response = crate::judge::histogram::encode(&response).unwrap();
        let mut value =
            cell("a", "read-warm", &[1.0; 5], json!({"workers": 4, "ops_per_s": {"median": 1000.0}}));
        for round in value["rounds"].as_array_mut().unwrap() {
            round["histogram"]["response"] = json!({"0-1 kB": response});
            round["open"] = json!({"offered_ops_per_s": 1000.0, "all_busy_share": 0.0, "drain_seconds": 0.0, "sustained": true,
                                   "wake_late_p50_ns": 0, "wake_late_p99_ns": 0});
        }
        let result = result("", vec![value], Vec::new());
        let said = block::terminal(&rounds(&result.results[0]));
        assert!(said.contains("1 ms\n") && !said.contains("4 ms"), "{said}");
    }
}
