//! Tests of unusual results: nothing measured, everything failed, one candidate, interrupted, sweeps, open loops, hostile names.

use serde_json::{Value, json};

use crate::judge::histogram;
use crate::plan::{PlanText, SHIPPED};
use crate::report::sections;
use crate::report::sections::html as render;
use crate::report::tests::collapse_whitespace;
use crate::report::view::then::SILENT;
use crate::result::{RunResult, Warning};

/// Returns a result with these candidates, cells and footprints, as read from a file.
pub(in crate::report) fn result(candidates: &[&str], cells: Vec<Value>, footprints: Vec<Value>) -> RunResult {
    let candidate = |store: &&str| {
        json!({"store": store, "adapter": "a", "kind": "embedded", "options": {"sync": "full"},
               "facts": {"version": "1.2"}, "status": "measured"})
    };
    let value = json!({
        "schema": 1, "complete": true,
        "program": {"version": "0.1.0", "build": "release", "command": "blobwise run", "started": "2026-01-02T03:04:05Z", "seconds": 61.0},
        "plan": {"seed": 7, "stores": candidates, "reference": candidates.first()},
        "fixed": {"rounds": 5, "rounds_final": true, "corpus_share": 1.0, "lengths": {}},
        "machine": {"processor": "p", "processors": 2, "virtual_machine": false, "memory_bytes": 8_000_000_000_u64, "kernel": "6",
                    "system": "s", "filesystem": "ext4", "mount": "rw", "free_bytes": 1, "root": false},
        "harness": {"null_ns": {}, "clock": "clock", "clock_read_ns": 8.0},
        "corpus": {"name": "c", "blobs": 3, "bytes": 30, "quantiles": {"p50": 10}, "largest_bytes": 20, "deflate_ratio": 1.0},
        "candidates": candidates.iter().map(candidate).collect::<Vec<Value>>(),
        "results": cells, "footprints": footprints, "comparisons": [],
        "answer": ["On this machine:", "Warm reads: `a` is fast.", "No more than that."],
        "crossovers": [], "claims": [], "warnings": [], "probes": [], "store_rounds": []
    });
    serde_json::from_value(value).unwrap()
}

/// Returns a typical cell with the given fields overridden.
pub(in crate::report) fn cell(store: &str, phase: &str, over: Value) -> Value {
    let mut value = json!({
        "store": store, "adapter": "a", "kind": "embedded", "options": {}, "status": "measured", "phase": phase,
        "durability": "on-sync", "workers": 1, "batch": 1, "cache": "warm", "ops": 500, "errors": 0, "retries": 0,
        "timeouts": 0, "rounds": (1..=5).map(|n| round(n, json!({}))).collect::<Vec<Value>>(),
        "ops_per_s": {"median": 1000.0, "low": 900.0, "high": 1100.0},
        "service_ns": {"p50": 900, "p90": 2_000, "max": 90_000}, "curve": [[0.1, 500], [0.5, 900], [0.9, 2_000]],
        "size_bands": [], "steps": [], "leader": true
    });
    put_over(&mut value, over);
    value
}

fn round(number: u32, over: Value) -> Value {
    let mut value = json!({
        "round": number, "position": 1, "seed": 1, "ops": 100, "blobs": 100, "bytes": 1000, "seconds": 0.1, "passes": 1,
        "errors": 0, "retries": 0, "timeouts": 0, "histogram": {"service": {}}, "first_ops_ns": [], "syncs": 0,
        "sync_seconds": 0.0, "client_cpu_ns": 1, "worker_cpu_ns": 1
    });
    put_over(&mut value, over);
    value
}

fn put_over(value: &mut Value, over: Value) {
    let (Some(value), Value::Object(over)) = (value.as_object_mut(), over) else { return };
    value.extend(over);
}

/// A plot parsed from a page.
struct Plot {
    /// Positions of the marks in each series.
    series: Vec<Vec<[f64; 2]>>,
    /// Labels of its lines, in a plot of dots.
    lines: Vec<String>,
    ticks: Vec<String>,
    /// Highlighted ranges.
    bands: Vec<[f64; 2]>,
}

/// Returns the texts between each `begin` and the next `end`.
fn between<'t>(text: &'t str, begin: &'t str, end: &'t str) -> impl Iterator<Item = &'t str> {
    text.split(begin).skip(1).map(move |rest| rest.split(end).next().unwrap())
}

/// Returns pairs of the numeric values of two attributes.
fn pairs(text: &str, one: &str, other: &str) -> Vec<[f64; 2]> {
    let all = |name: &str| -> Vec<f64> {
        between(text, &format!("{name}=\""), "\"").map(|number| number.parse().unwrap()).collect()
    };
    all(one).into_iter().zip(all(other)).map(|(one, other)| [one, other]).collect()
}

/// Parses the plots of a page and checks them: each has series, each series has marks or a line, and all coordinates are numbers.
fn plots(page: &str) -> Vec<Plot> {
    let plots = between(page, "<div class=\"canvas\"", "</figure>").map(|plot| {
        let drawn: Vec<&str> = plot.split("<g class=\"series ").skip(1).collect();
        assert!(!drawn.is_empty(), "{plot}");
        assert!(drawn.iter().all(|series| series.contains("<use ") || series.contains("<circle ")), "{plot}");
        let words = |html: &str| html.replace("<wbr>", "");
        let below = plot.split("class=\"drawn\"").nth(1).unwrap();
        Plot {
            series: drawn.iter().map(|series| pairs(series, "data-x", "data-y")).collect(),
            lines: between(plot, "<span>", "</span>").map(words).collect(),
            ticks: between(below, "<text class=\"value\"", "</text>")
                .map(|text| text.split('>').nth(1).unwrap().to_owned())
                .collect(),
            bands: pairs(plot, "data-low", "data-high"),
        }
    });
    plots.collect()
}

/// Renders a page and checks what every report contains.
fn page(result: &RunResult) -> String {
    let page = render(result).unwrap();
    let rest = page;
    for id in
        ["answer", "glance", "warnings", "phases", "disk", "rounds", "not-ranked", "comparisons", "facts"]
    {
        assert_eq!(rest.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
    }
    for wrong in ["NaN", "Infinity", "http://", "https://", "<tbody></tbody>"] {
        assert!(!rest.contains(wrong), "{wrong}");
    }
    assert_eq!(rest.matches("class=\"canvas\"").count(), plots(&rest).len());
    markdown(result);
    rest
}

/// Renders Markdown and checks that its tables are well-formed.
fn markdown(result: &RunResult) -> String {
    let text = sections::markdown(result);
    assert!(!text.contains("NaN"), "{text}");
    for table in text.split("\n\n").filter(|block| block.starts_with('|')) {
        let columns = |line: &str| line.replace("\\|", "").matches('|').count();
        let (head, rest) = table.trim_end().split_once('\n').unwrap();
        assert!(rest.lines().count() > 1, "{table}");
        assert!(rest.lines().all(|line| columns(line) == columns(head)), "{table}");
    }
    text
}

#[test]
fn markdown_has_every_figure_with_its_interval() {
    let mut named = result(
        &["a|b", "c"],
        vec![
            cell("a|b", "read-warm", json!({})),
            cell("c", "read-warm", json!({"status": "failed", "rounds": []})),
        ],
        Vec::new(),
    );
    named.plan.name = Some("a plan".to_owned());
    let text = markdown(&named);
    assert!(text.starts_with("# a plan\n"), "{text}");
    assert!(text.contains("| `a\\|b` | 1k [900, 1.1k] |"), "{text}");
    assert!(text.contains("On this machine:"), "{text}");
}

#[test]
fn nothing_measured_is_said() {
    let mut nothing = result(&["a"], Vec::new(), Vec::new());
    nothing.complete = false;
    nothing.answer.clear();
    let page = page(&nothing);
    assert!(page.contains("This run is not complete"));
    assert!(page.contains("0 of 5 rounds"));
    assert!(page.contains("Nothing was measured."));
    assert!(plots(&page).is_empty());
}

#[test]
fn candidates_that_all_failed_give_their_reasons_and_no_plot() {
    let over = json!({"status": "failed", "reason": "no space", "not_ranked": {"code": "failed", "why": "no space"}, "rounds": [], "leader": false,
                      "ops_per_s": null, "service_ns": null, "curve": []});
    let cells = vec![cell("a", "fill", over.clone()), cell("b", "fill", over)];
    let page = page(&result(&["a", "b"], cells, Vec::new()));
    assert!(page.contains("title=\"failed: no space\""));
    let reasons = page.split("id=\"not-ranked\"").nth(1).unwrap();
    assert_eq!(
        reasons.split("</section>").next().unwrap().matches("no space").count(),
        2,
        "once for each candidate"
    );
    assert!(page.contains("No candidate has figures of this phase"));
    assert!(page.contains("nothing is ranked"));
    assert!(plots(&page).is_empty());
}

#[test]
fn one_candidate_alone_is_drawn_without_a_ratio() {
    let page = page(&result(&["a"], vec![cell("a", "read-warm", json!({}))], Vec::new()));
    assert!(page.contains("alone"));
    assert!(!page.contains("Ratio to the best</strong>"));
    assert_eq!(plots(&page).len(), 3, "rate, times, rounds");
    assert!(page.contains("No candidate that takes disk was measured."));
}

#[test]
fn one_round_has_no_interval() {
    let over = json!({"rounds": [round(1, json!({}))], "ops_per_s": {"median": 1000.0}, "not_ranked": {"code": "one-round"}, "leader": false});
    let page = page(&result(&["a"], vec![cell("a", "read-warm", over)], Vec::new()));
    assert!(page.contains("one round only"));
}

#[test]
fn tables_of_batches_give_the_time_for_a_blob() {
    let of = |batch: u32| {
        let over = json!({"batch": batch, "blobs_per_op": batch, "settled_ops_per_s": {"median": 500.0}, "workers": 2});
        result(&["a"], vec![cell("a", "fill", over)], Vec::new())
    };
    let batches = of(100);
    // Two workers did 500 ops of 100 blobs per second.
    assert!(page(&batches).contains("time for a blob") && page(&batches).contains("40 µs"));
    let text = sections::terminal(&batches);
    assert!(text.contains("a blob") && text.contains("40 µs"), "{text}");
    let markdown = sections::markdown(&batches);
    assert!(markdown.contains("time for a blob") && markdown.contains("40 µs"), "{markdown}");
    assert!(!page(&of(1)).contains("time for a blob") && !sections::terminal(&of(1)).contains("a blob"));
}

/// Returns rounds of an open loop in which every op has a response time of 4 ms.
fn open_rounds() -> Vec<Value> {
    let mut waits = histogram::new();
    waits.record_n(4_000_000, 100).unwrap();
    let open = json!({"histogram": {"service": {}, "response": {"0-1 kB": histogram::encode(&waits).unwrap()}},
                      "open": {"offered_ops_per_s": 50.0, "all_busy_share": 0.25, "drain_seconds": 0.01, "sustained": true,
                               "wake_late_p50_ns": 1, "wake_late_p99_ns": 2}});
    (1..=5).map(|n| round(n, open.clone())).collect()
}

#[test]
fn an_open_loop_shows_how_long_visitors_wait() {
    let over = json!({"offered_ops_per_s": 50.0, "rounds": open_rounds(), "response_ns": {"p50": 4_000_000, "p99": 9_000_000}});
    let page = page(&result(&["a"], vec![cell("a", "read-warm", over)], Vec::new()));
    assert!(page.contains("99 % waited at most 9 ms"));
    assert!(page.contains("Mean response time in each round"));
    assert!(page.contains("25.0 %"), "the share that came due while all were busy");
    let rounds = plots(&page).pop().unwrap();
    let mean = rounds.series[0][0][1];
    assert!((mean / 4e6 - 1.0).abs() < 0.01, "{mean}");
}

#[test]
fn a_figure_without_a_mark_is_no_plot() {
    let over = json!({"offered_ops_per_s": 50.0, "rounds": open_rounds(), "response_ns": {}, "curve": []});
    let page = page(&result(&["a"], vec![cell("a", "read-warm", over)], Vec::new()));
    assert!(page.contains("Too few ops for any of these figures."));
    assert_eq!(plots(&page).len(), 1, "rounds");
}

/// Returns rounds at about this rate, of which no two are alike.
fn rounds_at(rate: f64) -> Vec<Value> {
    let one = |n: u32| round(n, json!({"seconds": 100.0 / (rate * (1.0 + f64::from(n) * 0.001))}));
    (1..=5).map(one).collect()
}

#[test]
fn a_sweep_draws_sizes_and_where_the_winner_changes() {
    let mut cells = Vec::new();
    for (bytes, a, b) in [(1_000, 100.0, 50.0), (10_000, 50.0, 50.0), (100_000, 20.0, 40.0)] {
        for (store, rate) in [("a", a), ("b", b)] {
            let over = json!({"corpus_id": bytes, "rounds": rounds_at(rate), "ops_per_s": {"median": rate}});
            cells.push(cell(store, "read-warm", over));
        }
    }
    let footprint = |store: &str, bytes: u64| {
        json!({"store": store, "corpus_id": bytes, "logical_bytes": 10, "after_settle_bytes": 20,
               "space_amplification": 2.0})
    };
    let footprints = vec![footprint("a", 1_000), footprint("a", 10_000), footprint("b", 1_000)];
    let mut sweep = result(&["a", "b"], cells, footprints);
    sweep.crossovers = serde_json::from_value(json!([
        {"phase": "read-warm", "below": "a", "above": "b", "bytes": 10_000, "low": 1_000, "high": 100_000}
    ]))
    .unwrap();
    let page = page(&sweep);
    assert!(page.contains("Sizes at which the winner changes"));
    assert!(page.contains("read-warm by size of blob"));
    // The phase column appears only in the table over all phases.
    assert_eq!(page.matches("proved above from</th>").count(), 2);
    assert_eq!(page.matches("phase</th><th scope=\"col\">faster below").count(), 1);
    let pair = plots(&page).into_iter().find(|plot| !plot.bands.is_empty()).unwrap();
    assert_eq!(pair.bands, [[1e3, 1e5]]);
    let ratios: Vec<f64> = pair.series[0].iter().map(|[_, ratio]| *ratio).collect();
    assert!((ratios[0] - 2.0).abs() < 0.01 && (ratios[2] - 0.5).abs() < 0.01, "{ratios:?}");
    // Crossovers of candidates that do not lead are listed separately.
    sweep.results.iter_mut().for_each(|cell| cell.leader = false);
    let behind = render(&sweep).unwrap();
    assert!(!behind.contains("Sizes at which the winner changes"));
    assert!(behind.contains("Other pairs in which one overtakes the other (1)"));
    assert_eq!(plots(&behind).len() + 1, plots(&page).len());
}

#[test]
fn a_winner_that_loses_to_another_after_the_fill_is_shown_with_ageing() {
    let mut cells = Vec::new();
    for (age, a, b) in [("00", 100.0, 50.0), ("100", 20.0, 40.0)] {
        for (store, rate) in [("a", a), ("b", b)] {
            let over = json!({"rounds": rounds_at(rate), "ops_per_s": {"median": rate}});
            cells.push(cell(store, &format!("read-warm.{age}"), over));
        }
    }
    let mut aged = result(&["a", "b"], cells, Vec::new());
    aged.plan.age = Some("0,1".to_owned());
    aged.crossovers = serde_json::from_value(json!([
        {"phase": "read-warm", "below": "a", "above": "b", "bytes": 10, "low": 0, "high": 100}
    ]))
    .unwrap();
    let page = render(&aged).unwrap();
    assert!(page.contains("Ages at which the winner changes"));
    assert!(!page.contains("At no age is the change of leader proved."));
}

/// Returns rounds at this rate, with this memory limit in bytes.
fn rounds_within(rate: f64, budget: u64) -> Vec<Value> {
    let memory = json!({"budget_bytes": budget, "limit_bytes": budget + 1_000_000, "empty_bytes": 500_000,
        "peak_bytes": 900_000 + budget, "cache_bytes": budget, "anonymous_bytes": 1, "kernel_bytes": 1,
        "refaults": 300, "major_faults": 0, "limit_hits": 200});
    let one = |n: u32| {
        round(n, json!({"seconds": 100.0 / (rate * (1.0 + f64::from(n) * 0.001)), "memory": memory}))
    };
    (1..=5).map(one).collect()
}

#[test]
fn a_sweep_over_memory_is_one_phase_and_says_where_the_winner_changes() {
    let mut cells = Vec::new();
    for (share, a, b) in [(100, 100.0, 50.0), (50, 50.0, 50.0), (10, 20.0, 40.0)] {
        for (store, rate) in [("a", a), ("b", b)] {
            let rounds = rounds_within(rate, share * 10_000);
            let over = json!({"rounds": rounds, "ops_per_s": {"median": rate}});
            cells.push(cell(store, &format!("read-tight-{share}"), over));
        }
    }
    let mut sweep = result(&["a", "b"], cells, Vec::new());
    sweep.plan.memory_sweep = Some("100%..10%".to_owned());
    sweep.corpus.bytes = 1_000_000;
    sweep.crossovers = serde_json::from_value(json!([
        {"phase": "read-tight", "below": "b", "above": "a", "bytes": 500_000, "low": 100_000, "high": 1_000_000}
    ]))
    .unwrap();
    let page = page(&sweep);
    assert!(page.contains("Memory at which the winner changes") && page.contains("faster with more"));
    assert_eq!(page.matches("<h3>read-tight").count(), 1);
    assert!(page.contains("Rate by memory") && page.contains("Times and all figures at 50 %"));
    let pair = plots(&page).into_iter().find(|plot| !plot.bands.is_empty()).unwrap();
    assert_eq!(pair.bands, [[10.0, 100.0]]);
    assert_eq!(page.matches("as each candidate's control group counts it</caption>").count(), 3);
    // 200 limit hits for 100 ops in each of five rounds.
    assert!(page.contains("2.00</td>") && page.contains("3.00</td>"));
}

#[test]
fn what_fits_and_what_does_not_stand_beside_each_other() {
    let fits = cell("a", "read-warm", json!({"ops_per_s": {"median": 10.0}}));
    let tight = json!({"rounds": rounds_within(10.0, 250_000), "ops_per_s": {"median": 10.0}});
    let mut both = result(&["a"], vec![fits, cell("a", "read-tight", tight)], Vec::new());
    both.corpus.bytes = 1_000_000;
    both.machine.memory_bytes = 1 << 30;
    let page = page(&both);
    assert!(page.contains("colspan=\"1\">fits in memory</th>"));
    assert!(page.contains("colspan=\"1\">does not fit: memory for 25 %</th>"));
    // No headings if all phases have the same memory.
    both.results.pop();
    assert!(!render(&both).unwrap().contains("colspan"));
}

/// Returns a result with one matrix of these candidates relative to `ref`, at `sizes` sizes.
pub(in crate::report) fn matrix_of(candidates: &[&str], sizes: u64) -> RunResult {
    let mut result = result(&["ref"], Vec::new(), Vec::new());
    let mut cells = Vec::new();
    for step in 1..=sizes {
        let bytes = step * 10_000;
        result
            .results
            .push(serde_json::from_value(cell("ref", "read-warm", json!({"corpus_id": bytes}))).unwrap());
        for (at, store) in candidates.iter().enumerate() {
            let over = match (at as u64 + step) % 4 {
                0 => json!({"ratio": {"median": 3.25, "low": 3.0, "high": 3.5}, "verdict": "faster"}),
                1 => json!({"ratio": {"median": 0.4, "low": 0.3, "high": 0.5}, "verdict": "slower"}),
                2 => {
                    json!({"ratio": {"median": 1.5, "low": 0.5, "high": 3.0}, "verdict": "cannot-tell-apart"})
                }
                _ => {
                    json!({"verdict": "not-ranked", "reason": {"code": "too-short", "ops": 3, "seconds": 0.001}})
                }
            };
            let mut value = json!({"store": store, "blob_bytes": bytes});
            put_over(&mut value, over);
            cells.push(value);
        }
    }
    result.matrices = serde_json::from_value(json!([
        {"phase": "read-warm", "reference": "ref", "compared": 12, "confidence": 0.99, "cells": cells}
    ]))
    .unwrap();
    result
}

/// Returns the lines of a terminal report that belong to a matrix.
fn matrix_lines(result: &RunResult) -> Vec<String> {
    let text = sections::terminal(result);
    let (_, from) = text.split_once("read-warm: ratios to ref\n").unwrap_or_else(|| panic!("{text}"));
    from.split("\n  Ratios are rates").next().unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_matrix_is_a_table_in_the_colors_of_a_heat_map() {
    let candidates = ["s[page=1]", "other", "s[page=4]"];
    let result = matrix_of(&candidates, 4);
    let page = page(&result);
    let (before, section) = page.split_once("id=\"matrix\"").unwrap();
    assert!(before.contains("href=\"#matrix\""), "the navigation names it");
    let section = section.split("</section>").next().unwrap();
    // Candidates of the same store stand together.
    let label = |option: &str| format!("s<wbr>[page=<wbr><wbr>{option}]<wbr></th>");
    let places = [label("1"), label("4"), ">other<".to_owned()].map(|text| section.find(&text).expect(&text));
    assert!(places.is_sorted(), "{places:?}");
    // The reference's rates are in no color, and what is not sure is hatched.
    for class in ["heat faster-3", "heat slower-3", "heat unsure", "unranked"] {
        assert_eq!(section.matches(&format!("class=\"number {class}\"")).count(), 3, "{class}");
    }
    // Verdicts are also shown without color.
    for text in ["▲ 3.25<br><small>[3.00, 3.50]</small>", "▼ 0.40<br>", "? 1.50<br>", ">10 kB</th>"] {
        assert!(section.contains(text), "{text}: {section}");
    }
    assert!(section.contains("title=\"3.25 [3.00, 3.50] faster\""));
    assert!(section.contains("too short: 3 ops in 1 ms a round"), "the reason in full");
    let markdown = markdown(&result);
    assert!(markdown.contains("## Ratios to `ref`: read-warm"), "{markdown}");
    assert!(markdown.contains("| `other` | 1.50 [0.50, 3.00] cannot tell apart | too short |"), "{markdown}");
    let csv = crate::report::csv::matrices(&result).unwrap().unwrap();
    assert_eq!(csv.lines().count(), 1 + 12);
    assert!(csv.contains("read-warm,ref,20000,s[page=1],1.5,0.5,3,0.99,cannot-tell-apart,\n"), "{csv}");
    // A run of one size has no matrix.
    let plain =
        super::tests::page(&self::result(&["a"], vec![cell("a", "read-warm", json!({}))], Vec::new()));
    assert!(!plain.contains("matrix"));
}

#[test]
fn a_matrix_fits_into_80_columns() {
    let long = "store[a-rather-long-option=with-a-value,another=one]";
    for (candidates, sizes) in [(&["s[page=1]", "other", "s[page=4]"][..], 9), (&[long, "b"][..], 3)] {
        let result = matrix_of(candidates, sizes);
        let lines = matrix_lines(&result);
        let widest = lines.iter().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{widest}: {lines:#?}");
        let has = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
        // Every size occurs once, every candidate in every part, and signs show the verdicts.
        for step in 1..=sizes {
            assert_eq!(has(&format!(" {} kB", step * 10)), 1, "{lines:#?}");
        }
        assert!(has("3.25 [3.00, 3.50] +") > 0 && has("0.40 [0.30, 0.50] -") > 0, "{lines:#?}");
        assert!(has("1.50 [0.50, 3.00] ~") > 0 && has("too short") > 0, "{lines:#?}");
        assert!(candidates.len() < 3 || has("s, page") > 1, "{lines:#?}");
    }
}

#[test]
fn how_few_blobs_had_most_of_the_ops_stands_beside_the_phase() {
    let over = json!({"hot": {"ops_share": 0.9, "blobs_share": 0.0712, "bytes_share": 0.125}});
    let result = result(&["a"], vec![cell("a", "visits", over)], Vec::new());
    let words = "90 % of the ops went to 7.1 % of the blobs, which have 12 % of the bytes";
    for form in [page(&result), markdown(&result), sections::terminal(&result)] {
        assert!(form.replace("\n  ", " ").contains(words), "{form}");
    }
    let csv = crate::report::csv::render(&result).unwrap();
    assert!(csv.contains(",0.0712,0.125,"), "{csv}");
}

#[test]
fn what_users_write_stays_text() {
    let hostile = "</script><script>alert(1)</script><b>&$x$`";
    let over =
        json!({"not_ranked": {"code": "failed", "why": hostile}, "first_error": hostile, "leader": false});
    let mut wild = result(&[hostile], vec![cell(hostile, hostile, over)], Vec::new());
    wild.plan.name = Some(hostile.to_owned());
    wild.plan.about = Some(hostile.to_owned());
    wild.program.command = hostile.to_owned();
    wild.answer = vec![hostile.to_owned(); 3];
    wild.corpus.skipped = Some(hostile.to_owned());
    wild.candidates[0].reason = Some(hostile.to_owned());
    wild.candidates[0].facts.insert(hostile.to_owned(), hostile.to_owned());
    wild.warnings =
        serde_json::from_value(json!([{"kind": "other-version", "store": hostile, "change": hostile}]))
            .unwrap();
    let page = page(&wild);
    assert!(!page.contains("<script>alert"));
    assert!(!page.contains("<b>&"));
    assert!(page.contains("$x$"));
    let label = &plots(&page)[0].lines[0];
    assert!(label.contains("&lt;b&gt;&amp;$x$"), "{label}");
}

#[test]
fn a_round_that_was_repeated_stands_twice_and_in_order() {
    let mut repeated = result(&["a"], vec![cell("a", "read-warm", json!({}))], Vec::new());
    let probe = |round: u32, at: &str, ns: f64| json!({"round": round, "at": at, "processor_ns": ns, "repeated": ns > 90.0});
    let probes = json!([
        probe(1, "start", 60.0),
        probe(1, "end", 60.0),
        probe(2, "start", 91.0),
        probe(2, "end", 99.0),
        probe(2, "start", 60.0),
        probe(2, "end", 60.0)
    ]);
    repeated.probes = serde_json::from_value(probes).unwrap();
    let plot = plots(&page(&repeated)).pop().unwrap();
    let places: Vec<f64> = plot.series[0].iter().map(|[place, _]| *place).collect();
    assert_eq!(places, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(plot.ticks, ["1", "2", "2 again"]);
    // Joined runs repeat round numbers, but no round was repeated.
    repeated.probes.iter_mut().for_each(|probe| probe.repeated = false);
    let plot = plots(&page(&repeated)).pop().unwrap();
    assert_eq!(plot.ticks, ["1", "2", "2"]);
}

#[test]
fn baselines_are_drawn_where_others_are_held_against_them_and_never_ranked() {
    let baseline = |name, kind| {
        cell(name, "read-warm", json!({"kind": kind, "not_ranked": {"code": "baseline"}, "leader": false}))
    };
    let cells =
        vec![cell("a", "read-warm", json!({})), baseline("b", "baseline"), baseline("old", "baseline")];
    let mut result = result(&["b", "old", "a"], cells, Vec::new());
    let labels = |result: &RunResult| -> Vec<String> {
        let page = page(result);
        assert!(page.contains("baseline</td>"));
        plots(&page)[0].lines.clone()
    };
    assert_eq!(labels(&result), ["a"]);
    let comparison = json!([{"store": "a", "reference": "b", "against": "baseline", "phase": "read-warm",
        "ratio": {"median": 1.3, "low": 1.2, "high": 1.4}, "verdict": "not-ranked"}]);
    result.comparisons = serde_json::from_value(comparison).unwrap();
    assert_eq!(labels(&result), ["a", "b (baseline)"]);
    let page = page(&result);
    assert!(page.contains("rates over that of <code>b</code>: <code>a</code> 1.30 [1.20, 1.40]"));
    assert!(page.contains(">b 1.30 [1.20, 1.40]</td>"));
}

#[test]
fn what_a_virtual_disk_says_of_itself_is_not_repeated() {
    let mut result = result(&["a"], vec![cell("a", "read-warm", json!({}))], Vec::new());
    let says = |result: &RunResult| {
        let page = page(result);
        let (_, behind) = page.split_once(">rotates<").unwrap();
        behind.split("<td").nth(1).unwrap().split(['>', '<']).nth(1).unwrap().to_owned()
    };
    result.machine.rotational = Some(true);
    assert_eq!(says(&result), "yes");
    result.machine.virtual_machine = true;
    assert_eq!(says(&result), "not known");
}

#[test]
fn every_warning_in_the_list_is_counted() {
    let mut result = result(&["a"], vec![cell("a", "read-warm", json!({}))], Vec::new());
    result.warnings = vec![Warning::Tmpfs { layers: Vec::new() }, Warning::Clock];
    let listed = |result: &RunResult| {
        let page = page(result);
        let section = page.split_once("id=\"warnings\"").unwrap().1.split_once("</section>").unwrap().0;
        let (_, counted) = section.split_once("<h2>Warnings (").unwrap();
        (counted.split_once(')').unwrap().0.to_owned(), section.matches("<li>").count().to_string())
    };
    let (counted, there) = listed(&result);
    assert_eq!((counted.as_str(), there.as_str()), ("2", "2"));
    let comparison = json!([{"store": "b", "reference": "a", "against": "plan", "phase": "read-warm", "verdict": "faster"}]);
    result.comparisons = serde_json::from_value(comparison).unwrap();
    let (counted, there) = listed(&result);
    assert_eq!((counted.as_str(), there.as_str()), ("3", "3"));
}

#[test]
fn a_phase_in_which_nobody_leads_is_not_called_unranked() {
    let cells = ["a", "b"].map(|store| cell(store, "fill", json!({"leader": false})));
    let of = |kept: usize| render(&result(&["a", "b"][..kept], cells[..kept].to_vec(), Vec::new())).unwrap();
    let (both, one) = (of(2), of(1));
    assert!(both.contains("undecided: too few rounds") && !both.contains("nothing is ranked"), "{both}");
    assert!(one.contains("alone: <code>a</code>") && !one.contains("undecided: too few rounds"), "{one}");
}

#[test]
fn a_technique_of_ours_is_marked_and_leads_nothing() {
    let ours = || cell("p", "read-warm", json!({"kind": "technique"}));
    let result_of = |cells| result(&["p", "a"], cells, Vec::new());
    let both = result_of(vec![ours(), cell("a", "read-warm", json!({}))]);
    for text in [page(&both), markdown(&both)] {
        assert!(text.contains("(experimental)") && text.contains("no answer recommends them"), "{text}");
    }
    assert!(!page(&both).contains("lead: <code>p") && page(&both).contains("leads: <code>a</code>"));
    assert!(page(&result_of(vec![ours()])).contains("nothing is ranked"));
}

#[test]
fn published_tables_without_a_ratio_are_put_away() {
    let result_of = |plan: &str| {
        let (_, shipped) = SHIPPED.iter().find(|(name, _)| *name == plan).unwrap();
        let mut result = result(&["a"], vec![], vec![]);
        result.plan = PlanText::parse(shipped).unwrap();
        result
    };
    let forms = |result: &RunResult| {
        let page = super::then::contents(result).into_string();
        [page, sections::markdown(result), sections::terminal(result)]
    };
    // Its charts are lost, and none of its candidates is in this run.
    for form in forms(&result_of("vondra-2009")) {
        let (before, after) = form.split_once(SILENT).unwrap();
        assert!(!before.contains("Write, tiny files") && after.contains("Write, tiny files"), "{form}");
    }
    // This document has published figures.
    for form in forms(&result_of("fragfrog-2010")) {
        assert!(!form.contains(SILENT), "{form}");
    }
}

#[test]
fn a_ratio_below_1_is_turned_so_that_more_agrees_with_the_claim() {
    let plan = "about = 'A and b, timed (B, 2009).'\n[document]\nauthor = 'B'\ntitle = 'T'\ndate = '2009'\nmachine = 'm'\n
        [[claim]]\nid = 'C-1'\nstatement = 'A is faster'\nquote = 'twice as fast'\ncandidates = ['a', 'b']\n
        expect = {high = 1.0}\npublished = 0.5";
    let mut judged = result(&["a", "b"], vec![], vec![]);
    judged.plan = PlanText::parse(plan).unwrap();
    judged.claims = serde_json::from_value(json!([
        {"id": "C-1", "statement": "A is faster", "published": 0.5, "verdict": "confirmed", "magnitude": "holds",
         "today": {"estimate": 0.4, "low": 0.25, "high": 0.5}}
    ]))
    .unwrap();
    let row = "| A is faster: “twice as fast” (C-1) | 2.00x | 2.50x [2.00, 4.00] | confirmed, magnitude within half to twice | above 1x |";
    let page = sections::markdown(&judged);
    let (head, appendix) = page.split_once("## Appendix").unwrap();
    assert!(head.starts_with("# A and b, timed (B, 2009), repeated in 2026") && head.contains(row), "{page}");
    assert!(
        head.contains("**1 confirmed of 1 claim.**")
            && head.contains("(no address known)")
            && !appendix.contains("\n## "),
        "{page}"
    );
    judged.plan.document.as_mut().unwrap().url = Some("https://example.org/t".to_owned());
    for form in [
        super::then::contents(&judged).into_string(),
        sections::markdown(&judged),
        sections::terminal(&judged),
    ] {
        for words in ["https://example.org/t", "2.50x [2.00, 4.00]", "above 1x", "twice as fast"] {
            assert!(collapse_whitespace(&form).contains(words), "{words}: {form}");
        }
    }
}

/// One generic section shows the findings of every kind of work, in all three kinds of report.
#[test]
fn what_was_found_is_shown_whatever_it_is() {
    let finding = |store: &str, bearing: &str, lost: Value| {
        json!({"store": store, "phase": "cuts", "round": 1, "title": "Power cuts", "bearing": bearing,
               "verdict": format!("{store} says so."), "lines": [["after a put", 20, lost]],
               "columns": [{"title": "when", "unit": "text"}, {"title": "cuts", "unit": "count"}, {"title": "lost", "unit": "bytes"}]})
    };
    let mut result = result(&["a", "b"], Vec::new(), Vec::new());
    let page = render(&result).unwrap();
    assert!(!page.contains("id=\"findings\"") && !page.contains("#findings"));
    result.findings = serde_json::from_value(json!([
        finding("a", "holds", Value::Null),
        finding("b", "fails", json!(64_000.0))
    ]))
    .unwrap();
    let page = render(&result).unwrap();
    assert!(page.contains("href=\"#findings\"") && page.contains("id=\"findings\""));
    let (shown, text) = (sections::markdown(&result), sections::terminal(&result));
    for report in [&page, &shown, &text] {
        for words in ["Findings", "Power cuts (cuts)", "after a put", "64 kB", "b says so."] {
            assert!(report.contains(words), "{words}");
        }
    }
    assert!(
        text.contains("`a` holds in 1 round: a says so.\n") && text.contains("`b` fails in 1 of 1 round"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= crate::report::terminal::WIDTH), "{text}");
    assert!(shown.contains("| `a` | 1 | after a put | 20 | - |\n"), "{shown}");
}
