//! The cells of a result as CSV, for spreadsheets and data frames: one line for each candidate and phase.

use anyhow::Result;

use super::view::standing::{all_compared, baselines};
use crate::judge::upkeep;
use crate::redact;
use crate::result::{
    Cell, Comparison, CurveStep, Interval, Matrix, MatrixCell, Reason, ReferenceRole, RunResult, StepCurve,
    Verdict,
};

/// Name of a column, and its text for a cell.
type Column = (&'static str, fn(&Cell) -> String);

/// Columns: name and figure.
const COLUMNS: &[Column] = &[
    ("store", |cell| cell.store.clone()),
    ("phase", |cell| cell.phase.clone()),
    ("blob_bytes", |cell| text(cell.corpus_id.bytes())),
    ("status", |cell| kebab(&cell.status)),
    ("reason", |cell| text(cell.reason.as_ref())),
    ("durability", |cell| cell.durability.name().to_owned()),
    ("one_transaction", |cell| cell.one_transaction.to_string()),
    ("workers", |cell| cell.workers.to_string()),
    ("batch", |cell| cell.batch.to_string()),
    ("cache", |cell| kebab(&cell.cache)),
    ("rounds", |cell| cell.rounds.len().to_string()),
    ("ops", |cell| cell.ops.to_string()),
    ("acknowledged_ops", |cell| cell.counters.acknowledged(cell.ops).to_string()),
    ("done_ops", |cell| cell.counters.done(cell.ops).to_string()),
    ("errors", |cell| cell.counters.errors.to_string()),
    ("retries", |cell| cell.counters.retries.to_string()),
    ("timeouts", |cell| cell.counters.timeouts.to_string()),
    ("ops_per_s", |cell| text(cell.ops_per_s.map(|rate| rate.median))),
    ("ops_per_s_low", |cell| text(cell.ops_per_s.and_then(|rate| rate.low))),
    ("ops_per_s_high", |cell| text(cell.ops_per_s.and_then(|rate| rate.high))),
    ("settled_ops_per_s", |cell| text(cell.settled_ops_per_s.map(|rate| rate.median))),
    ("settled_ops_per_s_low", |cell| text(cell.settled_ops_per_s.and_then(|rate| rate.low))),
    ("settled_ops_per_s_high", |cell| text(cell.settled_ops_per_s.and_then(|rate| rate.high))),
    ("bytes_per_s", |cell| text(cell.bytes_per_s.map(|rate| rate.median))),
    ("service_p50_ns", |cell| text(cell.service_ns.and_then(|time| time.p50))),
    ("service_p90_ns", |cell| text(cell.service_ns.and_then(|time| time.p90))),
    ("service_p99_ns", |cell| text(cell.service_ns.and_then(|time| time.p99))),
    ("service_p999_ns", |cell| text(cell.service_ns.and_then(|time| time.p999))),
    ("service_max_ns", |cell| text(cell.service_ns.and_then(|time| time.max))),
    ("response_p50_ns", |cell| text(cell.response_ns.and_then(|time| time.p50))),
    ("response_p90_ns", |cell| text(cell.response_ns.and_then(|time| time.p90))),
    ("response_p99_ns", |cell| text(cell.response_ns.and_then(|time| time.p99))),
    ("response_p999_ns", |cell| text(cell.response_ns.and_then(|time| time.p999))),
    ("total_cpu_ns_per_op", |cell| text(cell.total_cpu_ns_per_op)),
    ("client_cpu_ns_per_op", |cell| text(cell.client_cpu_ns_per_op)),
    ("server_cpu_ns_per_op", |cell| text(cell.server_cpu_ns_per_op)),
    ("client_peak_bytes", |cell| text(cell.client_peak_bytes)),
    ("server_peak_bytes", |cell| text(cell.server_peak_bytes)),
    ("anonymous_peak_bytes", |cell| text(cell.anonymous_peak_bytes)),
    ("mapped_peak_bytes", |cell| text(cell.mapped_peak_bytes)),
    ("device_reads", |cell| text(cell.device_reads)),
    ("device_read_bytes", |cell| text(cell.device_read_bytes)),
    ("device_written_bytes", |cell| text(cell.device_written_bytes)),
    ("hot_blobs_share", |cell| text(cell.hot.map(|hot| hot.blobs_share))),
    ("hot_bytes_share", |cell| text(cell.hot.map(|hot| hot.bytes_share))),
    ("backup_bytes", |cell| text(upkeep::backup_bytes(cell))),
    ("disk_left_bytes", |cell| text(upkeep::left_bytes(cell))),
    ("leader", |cell| cell.leader.to_string()),
    ("not_ranked", |cell| text(cell.not_ranked.as_ref())),
    ("confidence", |cell| text(cell.ops_per_s.and_then(|rate| rate.confidence))),
    ("stored_blobs", |cell| text(cell.stored_blobs)),
];

fn owned(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|column| (*column).to_owned()).collect()
}

/// Renders the cells as CSV. Values that were not measured are empty.
pub fn render(result: &RunResult) -> Result<String> {
    let mut head: Vec<String> = COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let baselines = baselines(result);
    for baseline in &baselines {
        head.extend(["", "_low", "_high"].map(|end| format!("rate_over_{baseline}{end}")));
    }
    let with_ratios = |cell: &Cell| {
        let mut line: Vec<String> = COLUMNS.iter().map(|(_, figure)| figure(cell)).collect();
        for baseline in &baselines {
            let comparison =
                all_compared(result, cell, ReferenceRole::Baseline).find(|pair| pair.reference == *baseline);
            line.extend(interval(comparison.and_then(|comparison| comparison.ratio)));
        }
        line
    };
    table(std::iter::once(head).chain(result.results.iter().map(with_ratios)))
}

fn interval(interval: Option<Interval>) -> [String; 3] {
    [
        text(interval.map(|i| i.median)),
        text(interval.and_then(|i| i.low)),
        text(interval.and_then(|i| i.high)),
    ]
}

const MATRIX_COLUMNS: &[&str] = &["phase", "reference", "blob_bytes", "store"];

/// Columns of a growth or of ageing; times in nanoseconds, disk space and memory in bytes, ages in percent.
const CURVE_COLUMNS: &[&str] = &[
    "phase",
    "figure",
    "store",
    "step",
    "value",
    "value_low",
    "value_high",
    "exponent",
    "exponent_low",
    "exponent_high",
];

const PAIR_COLUMNS: &[&str] = &["phase", "blob_bytes", "store", "reference", "against"];

/// Columns that describe a ratio.
const RATIO_COLUMNS: &[&str] = &["ratio", "ratio_low", "ratio_high", "confidence", "verdict", "reason"];

fn ratio(
    ratio: Option<Interval>,
    confidence: Option<f64>,
    verdict: &Verdict,
    reason: Option<&Reason>,
) -> Vec<String> {
    let [middle, low, high] = interval(ratio);
    vec![middle, low, high, text(confidence), kebab(verdict), text(reason)]
}

/// Renders the matrices as CSV, one line for each cell; `None` if there are none.
pub fn matrices(result: &RunResult) -> Result<Option<String>> {
    let line = |matrix: &Matrix, cell: &MatrixCell| {
        let own =
            [&matrix.phase, &matrix.reference, &cell.blob_bytes.to_string(), &cell.store].map(String::clone);
        let of_ratio = ratio(cell.ratio, Some(matrix.confidence), &cell.verdict, cell.reason.as_ref());
        [own.to_vec(), of_ratio].concat()
    };
    let head = [owned(MATRIX_COLUMNS), owned(RATIO_COLUMNS)].concat();
    let of_matrix = |matrix| move |cell| line(matrix, cell);
    let lines = result.matrices.iter().flat_map(|matrix| matrix.cells.iter().map(of_matrix(matrix)));
    if result.matrices.is_empty() { Ok(None) } else { table(std::iter::once(head).chain(lines)).map(Some) }
}

/// Renders the curves of a growth or of ageing as CSV, one line for each step; `None` if there are none.
pub fn curves(result: &RunResult) -> Result<Option<String>> {
    let line = |curve: &StepCurve, step: &CurveStep| {
        let mut line =
            vec![curve.phase.clone(), kebab(&curve.figure), curve.store.clone(), step.at.to_string()];
        line.extend(interval(Some(step.value)));
        line.extend(interval(curve.exponent));
        line
    };
    let of_curve = |curve| move |step| line(curve, step);
    let lines = result.curves.iter().flat_map(|curve| curve.steps.iter().map(of_curve(curve)));
    if result.curves.is_empty() {
        return Ok(None);
    }
    table(std::iter::once(owned(CURVE_COLUMNS)).chain(lines)).map(Some)
}

/// Renders the ratios of rates, paired by round, as CSV: one line for each pair of candidates compared in a phase.
pub fn ratios(result: &RunResult) -> Result<String> {
    let line = |pair: &Comparison| {
        let size = text(pair.corpus_id.bytes());
        let own =
            [&pair.phase, &size, &pair.store, &pair.reference, &kebab(&pair.against)].map(String::clone);
        let confidence = pair.ratio.and_then(|ratio| ratio.confidence);
        [own.to_vec(), ratio(pair.ratio, confidence, &pair.verdict, pair.reason.as_ref())].concat()
    };
    let head = [owned(PAIR_COLUMNS), owned(RATIO_COLUMNS)].concat();
    table(std::iter::once(head).chain(result.comparisons.iter().map(line)))
}

/// Renders any table as CSV, with cells escaped so that spreadsheets do not read them as formulas.
pub fn table(lines: impl Iterator<Item = Vec<String>>) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for line in lines {
        writer.write_record(line.iter().map(|cell| redact::in_cell(cell).into_owned()))?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Name of an enum value in the result file.
pub(super) fn kebab(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
