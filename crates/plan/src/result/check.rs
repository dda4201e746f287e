//! Checks that every number of a result is one that a run can measure, so that readers need no checks of their own.

use anyhow::{Result, bail, ensure};
use serde_json::{Map, Number, Value};

/// Upper limit for counts, times, sizes and rates: 10^18 ns are 31 years, 10^18 B an exabyte.
const MOST: f64 = 1e18;
/// Upper limit for the fields in [`FEW`].
const MOST_OF_FEW: f64 = 1e6;
/// Fields that count rounds, workers, CPUs or the like, which are few in any run.
const FEW: &[&str] =
    &["batch", "cold_passes", "passes", "position", "processors", "round", "rounds", "workers"];
/// Tolerance below 0 for values that floating-point arithmetic should make 0.
const ROUNDING: f64 = 1e-6;
/// Relative tolerance by which an end of an interval may lie on the wrong side of its middle.
const ROUNDING_SHARE: f64 = 1e-9;
/// Fields with names of candidates, phases and adapters, which reports print on lines of their own.
const NAMES: &[&str] = &["adapter", "phase", "reference", "store"];
const NAME_BYTES_MAX: usize = 4096;

/// Path of a value in the result, with the rules for numbers there.
#[derive(Clone, Copy)]
struct ValuePath<'a> {
    path: &'a str,
    /// Negative numbers are allowed: differences, and figures that others published.
    signed: bool,
    /// Inside the plan, whose text is validated when it is read as a plan.
    text: bool,
}

/// Returns an error that names the field if a number is one that no run can measure.
pub(super) fn check(result: &Value) -> Result<()> {
    walk(result, "", ValuePath { path: "", signed: false, text: false })
}

/// Checks a value recursively. `key` is the name of its field; elements of a list have that of the list.
fn walk(value: &Value, key: &str, place: ValuePath<'_>) -> Result<()> {
    match value {
        Value::Number(found) => number(found, key, place),
        Value::String(text) => name(text, key, place),
        Value::Array(list) => {
            for (index, item) in list.iter().enumerate() {
                let path = format!("{}[{index}]", place.path);
                walk(item, key, ValuePath { path: &path, ..place })?;
            }
            if key == "curve" && list.first().is_some_and(Value::is_number) {
                let share = list.first().and_then(Value::as_f64).unwrap_or(0.0);
                ensure!(share <= 1.0, "`{}[0]` is {share}, and a share is at most 1", place.path);
            }
            Ok(())
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                let dot = if place.path.is_empty() { "" } else { "." };
                let path = format!("{}{dot}{key}", place.path);
                let signed =
                    place.signed || ["plan", "claims", "clock_offset_ns", "exponent"].contains(&key.as_str());
                walk(value, key, ValuePath { path: &path, signed, text: place.text || key == "plan" })?;
            }
            ordered(fields, place.path)?;
            if key == "pinned" {
                sides(fields, place.path)?;
            }
            if place.text { Ok(()) } else { table(fields, place.path) }
        }
        Value::Null | Value::Bool(_) => Ok(()),
    }
}

fn number(found: &Number, key: &str, place: ValuePath<'_>) -> Result<()> {
    let (path, value) = (place.path, found.as_f64().unwrap_or(f64::NAN));
    // Seeds may be any number.
    if key == "seed" && found.is_u64() {
        return Ok(());
    }
    if !place.signed && value < -ROUNDING {
        bail!("`{path}` is {found}, and it cannot be below 0");
    }
    let most = match key {
        // After two rounds that differ a lot an interval can be as wide as the number format allows.
        "low" | "high" => f64::MAX,
        few if FEW.contains(&few) && found.is_u64() && !place.text => MOST_OF_FEW,
        _ => MOST,
    };
    ensure!(value.abs() <= most, "`{path}` is {found}, and no run has more than {most:e} there");
    Ok(())
}

fn name(text: &str, key: &str, place: ValuePath<'_>) -> Result<()> {
    let path = place.path;
    if place.text || !NAMES.contains(&key) {
        return Ok(());
    }
    ensure!(
        text.len() <= NAME_BYTES_MAX,
        "`{path}` is a name of {} B, and {NAME_BYTES_MAX} B are the most",
        text.len()
    );
    ensure!(!text.contains(char::is_control), "`{path}` is a name with control characters");
    Ok(())
}

/// Checks fields of an object that must ascend: ends of an interval around its middle, percentiles, quantiles.
fn ordered(fields: &Map<String, Value>, path: &str) -> Result<()> {
    let of = |name: &str| fields.get(name).and_then(Value::as_f64);
    // Format 4 uses the last of these names.
    if let Some(middle) = ["geometric_mean", "estimate", "median"].into_iter().find_map(of) {
        let slack = middle.abs() * ROUNDING_SHARE;
        let low = of("low").unwrap_or(middle);
        let high = of("high").unwrap_or(middle);
        ensure!(
            low <= middle + slack && middle - slack <= high,
            "`{path}` is an interval from {low} to {high} around {middle}"
        );
    }
    let mut before: Option<(&str, f64)> = None;
    for name in ["p10", "p25", "p50", "p75", "p90", "p95", "p99", "p999"] {
        let Some(value) = of(name) else { continue };
        if let Some((known, smaller)) = before {
            ensure!(smaller <= value, "`{path}.{name}` is {value}, and `{known}` of the same is {smaller}");
        }
        before = Some((name, value));
    }
    Ok(())
}

/// Checks that workers and servers pinned apart each have CPUs, and none in common.
fn sides(fields: &Map<String, Value>, path: &str) -> Result<()> {
    let of = |name: &str| fields.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (workers, servers) = (of("workers"), of("servers"));
    ensure!(!workers.is_empty() && !servers.is_empty(), "`{path}` has a side without processors");
    let both = workers.iter().find(|processor| servers.contains(processor));
    if let Some(both) = both {
        bail!("`{path}` has processor {both} on both sides");
    }
    Ok(())
}

/// Checks that each line of a table of findings has a value per column, of the column's type.
fn table(fields: &Map<String, Value>, path: &str) -> Result<()> {
    let list = |name: &str| fields.get(name).and_then(Value::as_array);
    let (Some(columns), Some(lines)) = (list("columns"), list("lines")) else { return Ok(()) };
    for (index, line) in lines.iter().enumerate() {
        let values = line.as_array().map(Vec::as_slice).unwrap_or_default();
        ensure!(
            values.len() == columns.len(),
            "`{path}.lines[{index}]` has {} values, and the table has {} columns",
            values.len(),
            columns.len()
        );
        for (place, (column, value)) in columns.iter().zip(values).enumerate() {
            let is_text = column.get("unit").and_then(Value::as_str) == Some("text");
            ensure!(
                value.is_null() || value.is_string() == is_text,
                "`{path}.lines[{index}][{place}]` is {value}, and its column is of {}",
                if is_text { "words" } else { "numbers" }
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_that_no_run_measures_are_named() {
        for (result, words) in [
            (
                json!({"results": [{"ops_per_s": {"geometric_mean": 1e308}}]}),
                "`results[0].ops_per_s.geometric_mean` is 1e+308",
            ),
            (json!({"results": [{"rounds": [{"seconds": -1.0}]}]}), "`results[0].rounds[0].seconds` is -1.0"),
            (
                json!({"results": [{"rounds": [{"round": 4_000_000_000_u32}]}]}),
                "`results[0].rounds[0].round` is 4000000000",
            ),
            (json!({"results": [{"curve": [[0.5, 7], [1.5, 9]]}]}), "`results[0].curve[1][0]` is 1.5"),
            (json!({"harness": {"null_ns": {"fill": 1e19}}}), "`harness.null_ns.fill` is 1e+19"),
            (json!({"plan": {"claim": [{"published": 1e300}]}}), "`plan.claim[0].published` is 1e+300"),
            (
                json!({"ratio": {"geometric_mean": 2.0, "low": 2.5, "high": 3.0}}),
                "`ratio` is an interval from 2.5 to 3",
            ),
            (
                json!({"ratio": {"median": 2.0, "low": 2.5, "high": 3.0}}),
                "`ratio` is an interval from 2.5 to 3",
            ),
            (
                json!({"claims": [{"today": {"estimate": -2.0, "low": -1.0, "high": 3.0}}]}),
                "`claims[0].today` is an interval from -1 to 3",
            ),
            (
                json!({"service_ns": {"p50": 9, "p99": 7}}),
                "`service_ns.p99` is 7, and `p50` of the same is 9",
            ),
            (
                json!({"findings": [{"columns": [{"unit": "count"}], "lines": [[1.0], [1.0, 2.0]]}]}),
                "`findings[0].lines[1]` has 2 values, and the table has 1 columns",
            ),
            (
                json!({"findings": [{"columns": [{"unit": "bytes"}], "lines": [["many"]]}]}),
                "`findings[0].lines[0][0]` is \"many\", and its column is of numbers",
            ),
            (
                json!({"machine": {"pinned": {"workers": [0], "servers": []}}}),
                "has a side without processors",
            ),
            (
                json!({"machine": {"pinned": {"workers": [0, 1], "servers": [1]}}}),
                "`machine.pinned` has processor 1 on both sides",
            ),
            (
                json!({"candidates": [{"store": "a\nb"}]}),
                "`candidates[0].store` is a name with control characters",
            ),
        ] {
            let error = check(&result).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn numbers_that_a_run_measures_pass() {
        check(&json!({
            "seed": u64::MAX, "share": -1e-9, "rounds": [{"seed": u64::MAX, "round": 1}],
            "ratio": {"geometric_mean": 1.0, "low": 0.0, "high": 1e300}, "service_ns": {"p50": 7, "p99": 7},
            "claims": [{"today": {"estimate": -2.0, "low": -3.0, "high": -1.0}}], "plan": {"rounds": 5},
            "machine": {"pinned": {"workers": [0], "servers": [1]}},
            "findings": [{"columns": [{"unit": "text"}, {"unit": "share"}], "lines": [["a", 0.5], [null, null]]}],
        }))
        .unwrap();
    }
}
