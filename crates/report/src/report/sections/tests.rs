//! Tests that every listed section is in the reports it claims to be in, and that the page has no others.

use serde_json::json;

use super::{SECTIONS, html, markdown, terminal};
use crate::report::html::PageData;
use crate::report::html::tests::{cell, matrix_of, result};
use crate::report::markdown::Page;
use crate::result::{Cell, Round, RunResult, Status, Upkeep, Warning};

/// Returns a result for which every section has content.
fn full() -> RunResult {
    let footprint =
        json!({"store": "ref", "logical_bytes": 10, "after_settle_bytes": 20, "space_amplification": 2.0});
    let other = result(&["ref"], vec![cell("ref", "fill", json!({}))], vec![footprint]);
    let mut full = matrix_of(&["other"], 2);
    full.results.extend(other.results);
    full.footprints = other.footprints;
    full.claims =
        serde_json::from_value(json!([{"id": "C1", "statement": "s", "verdict": "confirmed"}])).unwrap();
    full.warnings = vec![Warning::Tmpfs { layers: Vec::new() }];
    let mut advice = json!({"request_ns": 1e6, "situations": [
        {"title": "Warm reads", "short": "warm", "phase": "read-warm", "fastest_ns": 1.0, "standings": [{"store": "ref", "op_ns": 1.0, "place": "leads"}]}
    ]});
    let of_size = json!({"class": "small", "from_bytes": 0, "below_bytes": 10, "reads_share": 0.5, "places": ["ref"], "advice": advice});
    advice["by_size"] = json!([of_size]);
    full.advice = serde_json::from_value(advice).unwrap();
    full.costs = serde_json::from_value(
        json!({"pricing": {"load": {"reads": 1.0, "writes": 0.0, "stored_bytes": 1.0}, "age_days": 0,
        "prices": {"date": "2026-11-26", "currency": "USD", "rates": {"gb_month": 1.0}}}, "works": [],
        "months": [{"store": "ref", "place": "leads", "disk": 1.0, "total": {"median": 1.0}}]}),
    )
    .unwrap();
    let listed = Round { ops: 1, seconds: 1.0, upkeep: Some(Upkeep::Lists { blobs: 1 }), ..Round::default() };
    let of = full.results[0].clone();
    full.results.push(Cell {
        phase: "list".to_owned(),
        status: Status::Measured,
        rounds: vec![listed],
        ..of
    });
    full.results.last_mut().unwrap().traits.may_evict = true;
    full.clients = serde_json::from_value(
        json!([{"rank": 0, "host": "h", "processors": 2, "clock_offset_ns": 0, "clock_uncertainty_ns": 0}]),
    )
    .unwrap();
    let (value, ratio) = (json!({"geometric_mean": 9.0}), json!({"geometric_mean": 1.1}));
    full.curves = serde_json::from_value(json!([{
        "store": "ref", "phase": "read-warm", "figure": "time", "times": ratio, "exponent": ratio,
        "steps": [{"at": 1000, "value": value}, {"at": 3000, "value": value}]
    }]))
    .unwrap();
    full.pictures = serde_json::from_value(json!([{"store": "ref", "png": ""}])).unwrap();
    full.findings = serde_json::from_value(json!([
        {"store": "ref", "phase": "toy", "round": 1, "title": "t", "columns": [], "lines": [], "bearing": "holds", "verdict": "v"},
        {"store": "ref", "phase": "cut", "round": 1, "title": "t", "columns": [], "lines": [], "bearing": "holds", "verdict": "v",
         "power_cuts": {"controls": [], "line": {"store": "ref", "file_system": "ext4", "durability": "on-sync", "declared": "recent-writes",
                                                  "verdict": "confirmed", "failed": "w"}}}
    ]))
    .unwrap();
    full
}

fn between<'t>(text: &'t str, from: &str) -> Vec<&'t str> {
    text.split(from).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn every_section_is_where_it_says() {
    let full = full();
    let page = html(&full).unwrap();
    let view = PageData::new(&full).unwrap();
    let ids: Vec<&str> = SECTIONS
        .iter()
        .filter(|section| section.on_page(&view).is_some())
        .map(|section| section.id)
        .collect();
    assert_eq!(ids.len(), SECTIONS.len(), "the result has something for each");
    let nav = page.split("<nav").nth(1).unwrap().split("</nav>").next().unwrap();
    let linked = SECTIONS.iter().filter(|section| !(section.is_aside)(&full)).map(|section| section.id);
    assert_eq!(between(nav, "href=\"#"), linked.collect::<Vec<&str>>());
    assert_eq!(between(&page, "<section id=\""), ids);
    let (in_terminal, in_markdown) = (terminal(&full), markdown(&full));
    for section in SECTIONS {
        let mut text = String::new();
        section.in_terminal(&mut text, &full);
        assert!(in_terminal.contains(text.trim()), "{}: {text}", section.id);
        let mut own = Page::default();
        section.in_markdown(&mut own, &full);
        let text = own.text();
        assert!(in_markdown.contains(&text), "{}: {text}", section.id);
    }
}

#[test]
fn shares_of_memory_that_were_asked_for_are_answered_before_what_to_do() {
    let mut full = full();
    let place = |result: &RunResult, title: &str| markdown(result).find(title).unwrap();
    assert!(place(&full, "## Summary") < place(&full, "## Answer"));
    full.plan.memory_sweep = Some("100%..10%".to_owned());
    assert!(place(&full, "## Answer") < place(&full, "## Summary"));
    let page = html(&full).unwrap();
    assert_eq!(between(&page, "<section id=\"").first(), Some(&"answer"));
}
