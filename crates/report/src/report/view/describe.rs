//! Descriptions of a phase and its candidates for every kind of report: conditions, standings, page loads, steps.

use super::standing::CellRank;
use crate::corpus::CorpusId;
use crate::judge::{cells, interval, ranking};
use crate::plan::text::{Transaction, whole_of};
use crate::result::{Cache, Cell, Durability, Reason, ReferenceRole, Replayed, Round, RunResult, Verdict};
use crate::units;

/// Phases that only serve a check and would lengthen the tables; the HTML report has them.
const LEFT_OUT: &[&str] = &["read-copy"];

/// Legend of the signs in a table.
pub(in crate::report) const LEGEND: &str = "Ratios are rates over the best rate of their phase, or where one rate was offered to all \
     the best response time over theirs; their 95 % intervals allow for comparing the best with all other candidates at once; \
     `~`: cannot be told apart from the best; `=`: equal within 3 %.";

/// Returns the common reason if no candidate could do the phase, so that it is stated once.
pub(in crate::report) fn impossible_for_all(cells: &[&Cell]) -> Option<String> {
    let mut reasons = cells.iter().filter(|cell| !ranking::is_baseline(cell)).map(|cell| &cell.not_ranked);
    let first = reasons.next()?;
    let Some(Reason::NotPossible { why }) = first else { return None };
    let others: Vec<_> = reasons.collect();
    let is_alike = !others.is_empty() && others.iter().all(|other| *other == first);
    is_alike.then(|| format!("No candidate can do this: {why}."))
}

/// Phases (and sizes of a sweep) that are shown, in order.
pub(in crate::report) fn blocks(result: &RunResult) -> Vec<(&str, CorpusId)> {
    let cells = result.results.iter().filter(|cell| !LEFT_OUT.contains(&cell.phase.as_str()));
    units::distinct(cells.map(|cell| (cell.phase.as_str(), cell.corpus_id)))
}

/// Column heads for page loads: the whole load, when everything was shown, first paint; requests, connections, bytes.
pub(in crate::report) const LOADED: [&str; 6] = ["load", "shown", "paint", "reqs", "conns", "bytes"];

/// Figures of a cell's page loads, in the order of [`LOADED`].
pub(in crate::report) fn loaded(cell: &Cell) -> [String; 6] {
    let time = |ns: Option<f64>| ns.map_or("-".to_owned(), units::nanoseconds);
    let step = |name: Option<&String>| {
        let step = cell.steps.iter().find(|step| Some(&step.name) == name);
        time(step.and_then(|step| Some(step.mean_ns?.median)))
    };
    let count =
        |name: &str, show: fn(f64) -> String| cell.counts.get(name).map_or("-".to_owned(), |n| show(*n));
    [
        // Each worker has its own tab.
        time(cell.ops_per_s.map(|rate| 1e9 / rate.median * cell.workers as f64)),
        step(cell.traits.shows.as_ref()),
        step(cell.traits.steps.first()),
        count("requests", whole),
        count("connections", whole),
        count("bytes", units::bytes),
    ]
}

/// Formats a mean of whole numbers, with one decimal only if they differed.
fn whole(mean: f64) -> String {
    if (mean - mean.round()).abs() < 0.05 { format!("{mean:.0}") } else { format!("{mean:.1}") }
}

/// Separately timed steps of an op, or kinds of op: mean, and share of the time.
pub(in crate::report) fn steps(cell: &Cell) -> Option<String> {
    let told = cell.steps.iter().map(|step| {
        let mean = step.mean_ns.map(|mean| format!(" {}", units::nanoseconds(mean.median)));
        format!("{}{} ({:.0} %)", step.name, mean.unwrap_or_default(), step.share * 100.0)
    });
    let of = if cell.is_replay() { "by kind of op" } else { "of an op" };
    (!cell.steps.is_empty()).then(|| format!("{of}: {}", told.collect::<Vec<_>>().join(", ")))
}

/// Conditions common to a phase's cells.
pub(in crate::report) fn describe(result: &RunResult, cell: &Cell, cells: &[&Cell]) -> String {
    let mut parts = Vec::new();
    match cell.cache {
        Cache::Warm => parts.push("warm".to_owned()),
        Cache::Still => parts.push("read until reads of the device stood still".to_owned()),
        Cache::Cold => parts.push("cold".to_owned()),
        Cache::Lukewarm => parts.push("lukewarm".to_owned()),
        Cache::None => {}
    }
    if cells.iter().any(|cell| cells::writes(cell)) {
        let of_run = cells.iter().filter(|cell| cell.own_durability.is_none());
        let class = of_run.map(|cell| cell.durability).max();
        let own = cells.iter().any(|cell| cell.own_durability.is_some());
        parts.push(match class {
            Some(class) if own => format!("class {} or the candidate's own", class.name()),
            Some(class) => format!("class {}", class.name()),
            None => "each candidate in a class of its own".to_owned(),
        });
        let has_own = |cell: &&Cell| cell.own_durability == Some(Durability::OnSync);
        if class == Some(Durability::OnSync) || cells.iter().any(has_own) {
            let ops = result.plan.sync_every_ops.unwrap_or(0);
            let bytes = result
                .plan
                .sync_every_bytes
                .as_deref()
                .and_then(|bytes| bytes.parse::<f64>().ok())
                .unwrap_or(0.0);
            parts.push(format!("a sync every {ops} ops or {}", units::bytes(bytes)));
        }
    }
    parts.extend(super::memory::limit(result, cells));
    parts.extend(stores_of_clients(cells).map(str::to_owned));
    parts.extend(transactions(result, cell, cells));
    parts.push(units::counted(cell.workers, "worker"));
    if cell.batch > 1 {
        parts.push(format!("batches of {}", cell.batch));
    }
    if cells.iter().any(|cell| cell.is_ladder()) {
        let limit = result.plan.limit.as_deref().unwrap_or_default();
        parts.push(format!("the highest rate at which response times keep to {limit}"));
        parts.extend(log_of(cells).and_then(|of| reached(cells, &log_name(of))));
    } else if let Some(replayed) = replayed(cells) {
        parts.push(replayed);
    } else if let Some(rate) = cells.iter().find_map(|cell| cell.offered_ops_per_s) {
        parts.push(format!("{} ops/s offered", units::count(rate)));
    } else if cells.iter().any(|cell| !cell.counts.is_empty()) {
        parts.push("each in a fresh context of the browser".to_owned());
    } else if !cells.iter().any(|cell| cells::writes(cell)) {
        parts.push("service time (no queueing)".to_owned());
    }
    parts.join(", ")
}

/// What was replayed of a log; `None` for other phases.
fn log_of<'c>(cells: &[&'c Cell]) -> Option<&'c Replayed> {
    cells.iter().flat_map(|cell| &cell.rounds).find_map(|round| round.replayed.as_ref())
}

/// Names a log or its sample. A tenth of the requests has a tenth of the log's rate, and a store ten times as high a rate in times of
/// it.
fn log_name(replayed: &Replayed) -> String {
    let of_requests = match replayed.sampled_share {
        Some(share) if share < 1e-4 => "below 0.01 %".to_owned(),
        Some(share) => units::exact_percent(share),
        None => return "the log".to_owned(),
    };
    format!("a sample of the log ({of_requests} of its requests)")
}

/// Describes the speed of a replay; `None` for other phases.
fn replayed(cells: &[&Cell]) -> Option<String> {
    let of = log_of(cells)?;
    let (log, again) = (log_name(of), if of.sampled_share.is_some() { "the sample" } else { "the log" });
    Some(match (of.speed.map(units::count), reached(cells, again)) {
        (None, None) => format!("{log} as fast as the store can"),
        (None, Some(reached)) => format!("{log} as fast as the store can, {reached}"),
        (Some(speed), None) => format!("{speed} times the rate of {log}, and all keep up"),
        (Some(speed), Some(reached)) => {
            format!("{speed} times the rate of {log}, not all keep up, {reached}")
        }
    })
}

/// Describes how many times the mean rate of `log` each candidate reaches, unless it keeps up with an offered one; `None` if all do.
fn reached(cells: &[&Cell], log: &str) -> Option<String> {
    let of_each = cells.iter().filter(|cell| !ranking::is_baseline(cell)).filter_map(|cell| {
        let keeps_up =
            |round: &&Round| round.rungs.is_empty() && round.open.as_ref().is_some_and(|open| open.sustained);
        let behind = cell.rounds.iter().filter(|round| !keeps_up(round));
        let times = behind.filter_map(|round| Some(round.replayed.as_ref()?.reached));
        Some(format!("`{}` {}", cell.store, units::count(interval::upper_median(times)?)))
    });
    let of_each: Vec<String> = of_each.collect();
    (!of_each.is_empty()).then(|| format!("times the mean rate of {log}: {}", units::listed(&of_each, "and")))
}

/// Describes store sharing, if clients do not share all stores.
fn stores_of_clients(cells: &[&Cell]) -> Option<&'static str> {
    let meant = || cells.iter().filter(|cell| !ranking::is_baseline(cell) && !cell.rounds.is_empty());
    match meant().filter(|cell| cell.is_one_for_each_client).count() {
        0 => None,
        own if own == meant().count() => Some("one store for each client"),
        _ => Some("one store that clients share or one for each"),
    }
}

/// Describes how reads are grouped into transactions, unless all are single by default.
fn transactions(result: &RunResult, cell: &Cell, cells: &[&Cell]) -> Option<String> {
    let meant = || cells.iter().filter(|cell| !ranking::is_baseline(cell) && !cell.rounds.is_empty());
    let own = result.plan.phase.iter().find(|phase| phase.id == whole_of(&cell.phase));
    let said = own.and_then(|phase| phase.transaction);
    let ones = meant().filter(|cell| cell.one_transaction).count();
    let text = match (said, ones) {
        (Some(Transaction::Phase), _) => "all reads of a worker in one transaction",
        (Some(Transaction::Op), _) => "each read a transaction of its own",
        (None, 0) => return None,
        (None, ones) if ones == meant().count() => "all reads of a worker in one transaction",
        (None, _) => "reads in one transaction or one each",
    };
    Some(text.to_owned())
}

/// Standing of a candidate: best, or the ratio to the best with its verdict.
pub(in crate::report) fn standing(result: &RunResult, cell: &Cell) -> String {
    if ranking::is_baseline(cell) {
        return "(baseline)".to_owned();
    }
    match CellRank::for_cell(result, cell) {
        CellRank::Absent(_) => CellRank::NotRanked.text(),
        CellRank::Ratio(comparison) => {
            let ratio = comparison.ratio.map(|ratio| interval::text(&ratio)).unwrap_or_default();
            let sign = match comparison.verdict {
                Verdict::Slower => "",
                Verdict::Faster => " +",
                Verdict::Equal => " =",
                Verdict::CannotTellApart => " ~",
                Verdict::NotRanked => "",
            };
            format!("{ratio}{sign}")
        }
        place => place.text(),
    }
}

/// States the number of comparisons with the plan's reference, and the expected number of false differences among them.
pub(in crate::report) fn expected_false(result: &RunResult) -> Option<String> {
    let mut ranked = result.comparisons.iter().filter(|comparison| {
        comparison.against == ReferenceRole::Plan && comparison.verdict != Verdict::NotRanked
    });
    let reference = &ranked.next()?.reference;
    let count = ranked.count() + 1;
    let expected = count as f64 * 0.05;
    let made = if count == 1 { "comparison was made" } else { "comparisons were made" };
    Some(format!(
        "{count} {made} with `{reference}` (the column of ratios to it), each at 95 % by itself: expect about {expected:.1} false differences \
         among them. The ratios to the best of a phase hold for all at once."
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::html::tests::cell;

    #[test]
    fn a_replay_of_a_sample_is_not_told_in_times_of_the_whole_log() {
        let told = |replayed: serde_json::Value| {
            let round = json!({
                "round": 1, "position": 1, "seed": 1, "ops": 100, "blobs": 100, "bytes": 1000, "seconds": 0.1, "passes": 1,
                "errors": 0, "retries": 0, "timeouts": 0, "histogram": {"service": {}}, "first_ops_ns": [], "syncs": 0,
                "sync_seconds": 0.0, "client_cpu_ns": 1, "worker_cpu_ns": 1, "replayed": replayed
            });
            let cell: Cell = serde_json::from_value(cell("a", "replay", json!({"rounds": [round]}))).unwrap();
            super::replayed(&[&cell]).unwrap()
        };
        assert_eq!(
            told(json!({"requests": 500, "log_seconds": 60.0, "reached": 14.0})),
            "the log as fast as the store can, times the mean rate of the log: `a` 14"
        );
        assert_eq!(
            told(json!({"requests": 500, "log_seconds": 60.0, "sampled_share": 0.048, "reached": 290.0})),
            "a sample of the log (4.8 % of its requests) as fast as the store can, times the mean rate of the sample: `a` 290"
        );
        // 0.3 of a rate over that rate.
        assert_eq!(
            told(
                json!({"requests": 5, "log_seconds": 6.0, "sampled_share": 1e-6, "speed": 0.300_000_000_000_000_04, "reached": 0.1})
            ),
            "0.3 times the rate of a sample of the log (below 0.01 % of its requests), not all keep up, times the mean rate of the \
             sample: `a` 0.1"
        );
    }
}
