//! Tests of the monthly costs' sentences and width.

use serde_json::{Value, json};

use super::*;
use crate::judge::fixture::result;
use crate::report::tests::collapse_whitespace;
use crate::report::view::months::in_short;

fn priced(change: impl Fn(&mut Value)) -> RunResult {
    let mut costs = json!({
        "pricing": {
            "load": {"reads": 2e7, "writes": 1e6, "stored_bytes": 5e11, "growth": 0.03, "cached": 0.8},
            "prices": {"date": "2026-11-26", "currency": "USD",
                       "rates": {"gb_month": 0.1, "per_million_requests": 0.2, "machine": {"month": 60.0, "processors": 2.0, "memory_gb": 8.0}}},
            "age_days": 180
        },
        "works": [{"phase": "read-warm", "writes": false, "ops": 1.6e7}, {"phase": "overwrite", "writes": true, "ops": 1e6}],
        "months": [
            {"store": "b", "place": "leads", "disk": 50.0, "requests": 4.4, "machine": 2.4,
             "total": {"median": 56.8, "low": 56.3, "high": 57.3}, "in_a_year": 78.1,
             "million_reads": {"median": 0.2, "low": 0.19, "high": 0.21}, "million_writes": {"median": 0.4}},
            {"store": "a-long-name[of=options,more=of-them]", "place": "behind", "is_bound": true, "disk": 60.0, "requests": 6.8, "machine": 0.75,
             "total": {"median": 67.55}, "in_a_year": 93.1},
            {"store": "c", "place": "not-ranked", "disk": 45.0, "machine": 0.01, "unknown": [{"code": "requests", "phase": "read-cold"}]},
            {"store": "d", "place": "not-ranked", "unknown": [{"code": "too-much", "times": 8.0}]}
        ],
        "turns": [{"times": 4.2246, "cheapest": "a"}, {"times": 50.0}]
    });
    change(&mut costs);
    let mut result = result("", vec![], vec![]);
    result.costs = Some(serde_json::from_value(costs).unwrap());
    result
}

fn shown(change: impl Fn(&mut Value)) -> String {
    let mut text = String::new();
    SECTION.in_terminal(&mut text, &priced(change));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    text
}

#[test]
fn every_month_stands_with_its_parts_and_what_is_not_known_is_no_nought() {
    let text = collapse_whitespace(&shown(|_| {}));
    for line in [
        "A month of 20M reads, 80 % of them from memory and 1M writes with 500 GB stored, at prices of 2026-11-26 in USD.",
        "store disk requests machine month 95 % year on",
        "b 50.00 4.40 2.40 56.80* [56.30, 57.30] 78.10",
        "a-long-name[of=options,more=of-them] 60.00 6.80 0.75 <67.55 - 93.10",
        "* no other is proved to cost less, or only by less than 3 %; < an upper bound: more than 30 % of its processor time is blobwise's own; - not known, or without a price.",
        "c 45.00 - 0.010 - - - d - - - - - -",
        "store a million reads a million writes b 0.20 [0.19, 0.21] 0.40",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains(" 0.00"), "{text}");
}

#[test]
fn a_month_that_is_not_compared_has_a_letter_for_the_reason() {
    let text = collapse_whitespace(&shown(|costs| {
        costs["months"][1]["place"] = json!("apart");
        costs["months"][2]["total"] = json!({"median": 45.0});
    }));
    assert!(text.contains("<67.55a") && text.contains("45.00b"), "{text}");
    assert!(
        text.contains("a not compared, because it promises something else; b not compared, for the reasons"),
        "{text}"
    );
}

#[test]
fn what_is_said_of_months_names_the_cheapest_and_up_to_where_it_is() {
    let text = collapse_whitespace(&shown(|_| {}));
    for sentence in [
        "`b` costs least (56.80 USD). Next is `a-long-name[of=options,more=of-them]`, 10.75 USD more.",
        "from 4.22 times them on (84.5M reads and 4.22M writes) `a` is the cheapest; from 50 times them on (1G reads and 50M writes) no candidate was measured at so much.",
        "No sum for `c` (no request of the device was counted in `read-cold`, which is not to say that they are free); `d` (not shown by this run: the load is 8 times what it did).",
        "Figures are those of `read-warm` and `overwrite`; disk and memory are as with the 30 B of this run.",
    ] {
        assert!(text.contains(sentence), "{sentence}\n{text}");
    }
    assert!(!text.contains("Warning"), "180 days are not too old: {text}");
    let old = collapse_whitespace(&shown(|costs| costs["pricing"]["age_days"] = json!(181)));
    assert!(old.contains("Warning: the prices are 181 days old."), "{old}");
    let fewer = collapse_whitespace(&shown(|costs| {
        costs["turns"] = json!([]);
        costs["pricing"]["prices"]["rates"] = json!({"gb_month": 0.1});
    }));
    assert!(
        fewer.contains("It stays the cheapest from 0.01 to 100 times these reads and writes."),
        "{fewer}"
    );
    let tied = collapse_whitespace(&shown(|costs| {
        (costs["turns"], costs["months"][1]["place"]) = (json!([]), json!("leads"));
    }));
    assert!(tied.contains("no difference is proved") && !tied.contains("It stays"), "{tied}");
    let left_out =
        "The prices lack requests (`per_million_requests`) and a machine (`[machine]`), which are left out.";
    assert!(fewer.contains(left_out), "{fewer}");
}

#[test]
fn months_of_too_few_rounds_are_undecided() {
    let text = collapse_whitespace(&shown(|costs| {
        (costs["months"][0]["place"], costs["months"][1]["place"]) = (json!("undecided"), json!("undecided"));
        costs["turns"] = json!([]);
    }));
    let said = "Undecided which costs least: `b` (56.80 USD) or `a-long-name[of=options,more=of-them]` (67.55 USD). To find out: more \
                `--rounds`.";
    assert!(text.contains(said) && text.contains("56.80~"), "{text}");
    assert!(!text.contains("The cheapest"), "{text}");
}

#[test]
fn in_short_it_is_the_cheapest_and_where_that_ends() {
    let said = in_short(&priced(|_| {})).unwrap();
    assert_eq!(
        said,
        "A month of 20M reads, 80 % of them from memory and 1M writes with 500 GB stored: `b` costs least (56.80 USD). Next is \
         `a-long-name[of=options,more=of-them]`, 10.75 USD more. From 4.22 times these reads and writes on: `a`; from 50 times \
         on: not measured."
    );
    let old = in_short(&priced(|costs| costs["pricing"]["age_days"] = json!(181))).unwrap();
    assert!(
        old.ends_with("on: not measured. Warning: the prices are 181 days old. Look them up again."),
        "{old}"
    );
    let still = in_short(&priced(|costs| costs["turns"] = json!([]))).unwrap();
    assert!(still.ends_with("10.75 USD more."), "{still}");
}
