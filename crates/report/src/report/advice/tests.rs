//! Tests of the recommendation's sentences and width.

use serde_json::{Value, json};

use super::*;
use crate::judge::fixture::{around, candidate, cell, result};
use crate::report::tests::collapse_whitespace;
use crate::result::{CandidateRank, SituationResult};

fn standing(store: &str, op_ns: Value, place: &str) -> Value {
    json!({"store": store, "op_ns": op_ns, "place": place})
}

fn shown(change: impl Fn(&mut Value)) -> (RunResult, String) {
    let loss = json!({"loss": {"after_kill": "nothing", "after_power_cut": "recent-writes"}, "settled_ops_per_s": {"median": 1.0}});
    let written = ["a", "b"].map(|store| cell(store, "overwrite", &around(1.0, 0), loss.clone()));
    let mut result = result("", written.into(), vec![]);
    result.candidates = ["a", "b", "c"].map(candidate).into();
    result.candidates[1].kind = Some(Kind::Server);
    let next =
        |store, more_ns, is_little| json!({"store": store, "more_ns": more_ns, "is_little": is_little});
    let mut advice = json!({
        "request_ns": 1e6,
        "situations": [
            {"title": "Warm reads", "short": "warm", "phase": "read-warm", "fastest_ns": 1_000.0, "next": next("b", 20_000.0, true), "standings": [
                {"store": "a", "op_ns": 1_000.0, "place": "leads", "is_bound": true},
                standing("b", json!(21_000.0), "behind"), standing("c", json!(5_000.0), "not-ranked")]},
            {"title": "Durable writes (on-sync)", "short": "write", "phase": "overwrite", "fastest_ns": 100_000.0, "next": next("a", 300_000.0, false), "standings": [
                standing("b", json!(100_000.0), "leads"), standing("a", json!(400_000.0), "behind"),
                standing("c", json!(null), "not-ranked")]},
        ],
        "one_place": [
            {"store": "a", "phase": "overwrite", "slower": 0.28, "slower_at_most": 0.311},
            {"store": "b", "phase": "read-warm", "slower": 1.5, "slower_at_most": 300.0}]
    });
    change(&mut advice);
    result.advice = serde_json::from_value(advice).unwrap();
    let text = in_full(&result);
    (result, text)
}

/// The same in full, on one line.
fn told(change: impl Fn(&mut Value)) -> String {
    collapse_whitespace(&shown(change).1)
}

fn in_full(result: &RunResult) -> String {
    let mut text = String::new();
    terminal::whole(&mut text, result, "Summary");
    text
}

fn in_short(result: &RunResult) -> String {
    let mut text = String::new();
    terminal::brief(&mut text, result, "Summary");
    text
}

#[test]
fn what_is_said_names_the_choice_and_what_it_is_worth() {
    let said = told(|_| {});
    for words in [
        "Warm reads: `a`. Next is `b`, 20 µs more (a request of 1 ms takes 2 % longer: little, choose by what you can operate).",
        "Durable writes (on-sync): `b`. Next is `a`, 300 µs more (a request of 1 ms takes 27.3 % longer).",
        "Keep them in: `a`. At worst (writes) it makes a request of 1 ms 28 % longer, at most 32 % (95 % confidence). Next best is `b`: 150 % (reads from RAM), and the rounds set no useful bound.",
        "After a power cut: recent writes lost, in all of them (see `blobwise crash`).",
        "Servers on this machine, with no network and no provider in between: `b`. Somebody has to run them.",
    ] {
        assert!(said.contains(words), "{words}\n{said}");
    }
    let said = told(|advice| advice["one_place"][0]["slower"] = json!(0.001));
    let best = "`a`. At worst (writes) it makes a request of 1 ms less than 0.5 % longer, at most 32 % (95 % confidence).";
    assert!(said.contains(best), "{said}");
    // The bound would be printed as the same number.
    for (slower, at_most, said_of) in [
        (0.006, 0.009, "0.6 % longer, at most 1 % (95 % confidence)"),
        (0.0199, 0.02, "1.9 % longer, at most 2 % (95 % confidence)"),
        (0.014, 0.02, "1 % longer, at most 2 % (95 % confidence)"),
    ] {
        let said = told(|advice| {
            advice["one_place"][0]["slower"] = json!(slower);
            advice["one_place"][0]["slower_at_most"] = json!(at_most);
        });
        assert!(said.contains(said_of), "{said_of}\n{said}");
    }
    // In a class of sizes, the place for all blobs comes first unless another is better by a margin that counts.
    let said = told(|advice| {
        advice["one_place"] = json!([
            {"store": "a", "phase": "overwrite", "slower": 0.03, "slower_at_most": 0.065},
            {"store": "b", "phase": "read-warm", "slower": 0.02, "slower_at_most": 0.045}]);
    });
    let better = "at most 7 % (95 % confidence). `b` looks better, but not by enough to count: 2 % (reads from RAM), at most 5 %.";
    assert!(said.contains(better), "{said}");
    // The best single store leads in every kind of work: alone, beside another in one of them, or beside another in both.
    let at_best = |beside: usize| {
        told(|advice| {
            advice["one_place"][0] =
                json!({"store": "a", "phase": "overwrite", "slower": 0.0, "slower_at_most": 0.0});
            advice["situations"][1]["standings"] =
                json!([standing("a", json!(100_000.0), "leads"), standing("b", json!(400_000.0), "behind")]);
            for situation in 0..beside {
                advice["situations"][situation]["standings"][1]["place"] = json!("leads");
            }
        })
    };
    let said = at_best(0);
    let best = "`a`. It is the fastest in every column. Next best is `b`, which makes a request of 1 ms at worst (reads from RAM) 150 % longer, and the rounds set no useful bound.";
    assert!(said.contains(best), "{said}");
    for (beside, alone) in [(1, "leads alone in 1 of 2"), (2, "is tied in all of them")] {
        let said = at_best(beside);
        let best = format!(
            "`a`. No other is proved faster in any column; it {alone}. Next best is `b`, which makes a request"
        );
        assert!(said.contains(&best), "{said}");
    }
    // What does not count may well be led by another.
    let said = told(|advice| {
        advice["one_place"][0] =
            json!({"store": "a", "phase": "read-warm", "slower": 0.0, "slower_at_most": 0.0});
        advice["not_counted"] = json!(["overwrite"]);
    });
    assert!(said.contains("`a`. It is the fastest in every column that counts."), "{said}");
    let (_, text) = shown(|advice| advice["one_place"] = json!([]));
    assert!(text.contains("no candidate can be compared in every column"), "{text}");
    let said = told(|advice| {
        (advice["one_place"], advice["not_counted"]) = (json!([]), json!(["overwrite"]));
    });
    assert!(said.contains("No recommendation: fewer than two columns count. Not counted: writes"), "{said}");
    let (_, text) = shown(|advice| advice["situations"][1]["next"]["more_ns"] = json!(2_000_000.0));
    assert!(text.contains("takes\n  182 % longer"), "{text}");
    let (_, text) = shown(|advice| advice["situations"][1]["next"] = json!(null));
    assert!(text.contains("`b`: no difference that counts is"), "{text}");
}

#[test]
fn one_screen_has_a_row_for_everyone_and_says_what_its_signs_mean() {
    let mut result = with_others();
    let text = in_short(&result);
    let said = collapse_whitespace(&text);
    for words in [
        "Keep them in a At worst (writes) it makes a request of 1 ms 28 % longer, at most 32 % (95 % confidence).",
        "* fastest, or tied with the fastest < more than 30 % of it is blobwise's own work a not ranked b no blob above 1 MB",
        "`broken` failed: blob 3 differs.",
    ] {
        assert!(said.contains(words), "{words}\n{text}");
    }
    assert!(!text.contains("Durable writes") && !text.contains("Without a time"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 79), "{text}");
    // With one kind of work, the sentence is shown.
    let advice = result.advice.as_mut().unwrap();
    advice.situations[0].next = None;
    advice.situations.truncate(1);
    let text = in_short(&result);
    assert!(text.contains("- Warm reads: `a`: no difference that counts"), "{text}");
}

/// A result in which the writes of one candidate are apart, because it loses recent ones when killed.
fn losing_more_when_killed() -> RunResult {
    let (mut result, _) = shown(|advice| {
        advice["situations"][1]["standings"][2] = standing("c", json!(90_000.0), "apart");
    });
    let killed = json!({"loss": {"after_kill": "recent-writes", "after_power_cut": "recent-writes"}, "settled_ops_per_s": {"median": 1.0}});
    result.results.push(serde_json::from_value(cell("c", "overwrite", &around(1.0, 0), killed)).unwrap());
    result
}

/// A weaker promise is named where it stands apart from the others.
#[test]
fn who_loses_more_when_killed_has_a_letter_that_says_so() {
    let text = in_short(&losing_more_when_killed());
    assert!(text.contains("90 µs b"), "{text}");
    assert!(text.contains("\nb loses recent writes when killed, so not compared here\n"), "{text}");
}

#[test]
fn the_next_choice_has_an_interval_in_time_and_in_times_as_long() {
    let said = told(|advice| {
        advice["situations"][0]["next"]["times"] = json!({"median": 21.0, "low": 18.5, "high": 24.0});
        advice["situations"][1]["next"]["times"] = json!({"median": 4.0, "low": 3.5});
    });
    let sentence = "Next is `b`, 20 µs [17.5 µs, 23 µs] more (21.0 times as long [18.5, 24.0], a request of 1 ms takes 2 % longer: little, choose by what you can operate).";
    assert!(said.contains(sentence), "{said}");
    let sentence = "Next is `a`, 300 µs more (4.00 times as long, a request of 1 ms takes 27.3 % longer).";
    assert!(said.contains(sentence), "{said}");
    // That it is longer at all stays visible.
    let said = told(|advice| {
        advice["situations"][0]["next"]["times"] = json!({"median": 1.25, "low": 1.0039, "high": 1.57});
    });
    assert!(said.contains("(1.25 times as long [1.004, 1.57], "), "{said}");
    // A bound from too few rounds says nothing.
    let said = told(|advice| {
        advice["situations"][0]["next"]["times"] = json!({"median": 21.0, "low": 0.01, "high": 31068.0});
    });
    let sentence = "Next is `b`, 20 µs more (21.0 times as long, hardly bounded, a request";
    assert!(said.contains(sentence), "{said}");
}

/// Every report has the same heads, signs and reasons, and no column that tells nothing apart.
#[test]
fn page_and_markdown_have_the_words_and_letters_of_the_terminal() {
    use crate::report::sections::{html as whole_page, markdown as whole_markdown};
    let result = losing_more_when_killed();
    let text = whole_markdown(&result);
    for words in [
        "| store | read one: in RAM | write, flushed | server |\n",
        "| `a` | \\<1 µs * | 400 µs | no |\n",
        "| `c` | 5 µs a | 90 µs b | no |\n",
        "\n- `a` not ranked\n- `b` loses recent writes when killed, so not compared here\n",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let page = whole_page(&result).unwrap();
    for words in [
        ">read one</th>",
        ">write, flushed</th>",
        "class=\"number unranked\">90 µs b</td>",
        "<code>b</code> loses recent",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
}

#[test]
fn a_place_that_others_look_faster_than_is_not_named() {
    let undecided = |stores: &[&str]| {
        told(|advice| {
            advice["undecided"] = json!({"phase": "overwrite", "stores": stores});
            advice["one_place"] = json!([]);
        })
    };
    let one = "- No recommendation: undecided, because `a` looks faster (writes), where it was measured too briefly to be ranked.";
    assert!(undecided(&["a"]).contains(one), "{}", undecided(&["a"]));
    let many = "undecided, because `a`, `b`, `c` and 1 more look faster (writes), where they were measured too briefly to be ranked.";
    assert!(undecided(&["a", "b", "c", "d"]).contains(many));
}

/// Exceptions come first; the most common promise comes last, without store names.
#[test]
fn what_most_promise_of_a_power_cut_is_said_of_all_others() {
    let (mut result, _) = shown(|_| {});
    let weaker = json!({"loss": {"after_kill": "nothing", "after_power_cut": "all"}, "settled_ops_per_s": {"median": 1.0}, "not_ranked": {"code": "weaker-class", "class": "none"}});
    result.results.push(serde_json::from_value(cell("c", "overwrite", &around(1.0, 0), weaker)).unwrap());
    let promised = |result: &RunResult| promises(result, result.advice.as_ref().unwrap(), true).unwrap();
    let two = "everything lost (class none): `c`; recent writes lost, in all others";
    assert_eq!(promised(&result), format!("After a power cut: {two} (see `blobwise crash`)."));
    result.results.remove(1);
    let one = "recent writes lost: `a`; everything lost (class none): `c`";
    assert_eq!(promised(&result), format!("After a power cut: {one} (see `blobwise crash`)."));
}

/// Otherwise the sign of a weaker promise would contradict the line.
#[test]
fn what_a_kill_takes_is_said_where_one_loses_something() {
    let (mut result, text) = shown(|_| {});
    assert!(!text.contains("After a kill"), "{text}");
    let killed = json!({"loss": {"after_kill": "recent-writes", "after_power_cut": "recent-writes"}, "settled_ops_per_s": {"median": 1.0}});
    result.results.push(serde_json::from_value(cell("c", "overwrite", &around(1.0, 0), killed)).unwrap());
    let said = promises(&result, result.advice.as_ref().unwrap(), true).unwrap();
    let two = "After a kill of the program: recent writes lost: `c`; nothing lost, in all others.";
    assert!(
        said.contains("After a power cut: recent writes lost, in all of them (see") && said.ends_with(two),
        "{said}"
    );
}

#[test]
fn too_few_rounds_have_neither_a_star_nor_a_choice() {
    let (result, text) = shown(|advice| {
        advice["one_place"] = json!([]);
        for situation in advice["situations"].as_array_mut().unwrap() {
            situation["rounds"] = json!(2);
            situation["next"] = json!(null);
            for standing in situation["standings"].as_array_mut().unwrap().iter_mut().take(2) {
                standing["place"] = json!("undecided");
            }
        }
    });
    let brief = in_short(&result);
    for said in [&text, &brief] {
        assert!(!said.contains('*') && !said.contains("Choose"), "{said}");
        assert!(
            said.contains("21 µs ~") && said.contains("~ too noisy to call, or too few rounds"),
            "{said}"
        );
        assert!(said.contains(": too few rounds to tell; to find out: `--rounds 5`."), "{said}");
    }
    assert!(
        text.contains("Warm reads: `a` or `b`: too few rounds to tell; to find out: `--rounds 5`."),
        "{text}"
    );
}

#[test]
fn every_candidate_is_for_something_or_said_to_be_for_nothing() {
    let (mut result, _) = shown(|_| {});
    let serves = [json!(["no-server"]), json!(["several-machines"]), json!(["no-server"])];
    for (candidate, serves) in result.candidates.iter_mut().zip(serves) {
        candidate.serves = Some(serde_json::from_value(serves).unwrap());
    }
    let said = collapse_whitespace(&in_full(&result));
    for sentence in [
        "- Choose `a` for: reads from RAM: the fastest. But: one machine reaches it.",
        "- Choose `b` for: writes: the fastest; where you need `several-machines`. But: a process of its own has to be run.",
        "- Choose `c` for: nothing that was measured. But: one machine reaches it.",
    ] {
        assert!(said.contains(sentence), "{sentence}\n{said}");
    }
    let brief = in_short(&result);
    assert!(brief.contains("\n  You give up: access from several machines.\n"), "{brief}");
    // An archive that only grows is recommended with what it costs.
    let mut archive = result.clone();
    for candidate in &mut archive.candidates {
        candidate.changes = Some(candidate.store != "a");
    }
    let given_up = "\n  You give up: replacing and deleting blobs and access from several machines.\n";
    assert!(in_short(&archive).contains(given_up), "{}", in_short(&archive));
    // Nothing is said if the result does not record what a store meets.
    let mut unknown = result.clone();
    unknown.candidates[2].serves = None;
    let choices = choose::choices(
        &unknown,
        unknown.advice.as_ref().unwrap(),
        &rows(&unknown, unknown.advice.as_ref().unwrap()),
    );
    assert!(choices.iter().any(|choice| choice.store == "c" && choice.but.is_empty()));
    // Two leaders, then one that looks faster but is not compared.
    let changes: [fn(&mut SituationResult); 2] =
        [|other| other.place = CandidateRank::Leads, |other| other.op_ns = Some(900.0)];
    for change in changes {
        let mut result = result.clone();
        change(&mut result.advice.as_mut().unwrap().situations[0].standings[2]);
        let advice = result.advice.as_ref().unwrap();
        let choices = choose::choices(&result, advice, &rows(&result, advice));
        let of_a = choices.iter().find(|choice| choice.store == "a").unwrap();
        assert_eq!(of_a.reasons, "reads from RAM: nothing is proved 3 % faster");
    }
}

#[test]
fn a_promise_of_another_class_than_was_asked_for_says_so() {
    let (mut result, _) = shown(|_| {});
    let weaker = json!({"code": "weaker-class", "class": "none"});
    result.results[1].not_ranked = Some(serde_json::from_value(weaker).unwrap());
    let said = sentences(&result, result.advice.as_ref().unwrap()).join("\n");
    let words = "recent writes lost: `a`; recent writes lost (class none): `b` (see";
    assert!(said.contains(words), "{said}");
}

#[test]
fn months_stand_in_the_table_of_what_to_do_and_once_in_its_sentences() {
    let mut result = with_others();
    let costs = json!({
        "pricing": {"load": {"reads": 1e6, "writes": 0.0, "stored_bytes": 5e11}, "age_days": 0,
                    "prices": {"date": "2026-11-26", "currency": "USD", "rates": {"gb_month": 0.1}}},
        "works": [],
        "months": [{"store": "b", "place": "leads", "total": {"median": 56.8}},
                   {"store": "a", "place": "behind", "total": {"median": 60.0}},
                   {"store": "c", "place": "not-ranked", "unknown": [{"code": "requests", "phase": "warm"}]}]
    });
    result.costs = Some(serde_json::from_value(costs).unwrap());
    let text = in_short(&result);
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default();
    assert!(text.lines().any(|line| line.ends_with("RAM  month")), "{text}");
    assert!(line("a ").ends_with(" 60.00") && line("b ").ends_with(" 56.80"), "{text}");
    assert!(line("c ").ends_with(" -"), "{text}");
    let words = collapse_whitespace(&text);
    let month =
        "A month of 1M reads with 500 GB stored: `b` costs least (56.80 USD). Next is `a`, 3.20 USD more.";
    assert!(words.contains(month) && words.contains("Keep them in a "), "{text}");
    let said = sentences(&result, result.advice.as_ref().unwrap()).join("\n");
    assert_eq!(said.matches("USD a month").count(), 1, "{said}");
    assert!(said.contains("`a` (60.00 USD a month)"), "{said}");
}

#[test]
fn a_long_label_has_a_line_of_its_own() {
    let long = "a-place-with[a=long,list=of-options,which=goes,on=and-on]";
    let (mut result, _) = shown(|_| {});
    let advice = result.advice.as_mut().unwrap();
    advice.situations[0].standings[0].store = long.to_owned();
    result.candidates[0].store = long.to_owned();
    let text = in_full(&result);
    assert!(text.contains(&format!("\n{long}\n")), "{text}");
}

#[test]
fn who_is_left_out_is_named_with_what_it_lacks() {
    let said = told(|advice| {
        advice["need"] = json!(["several-machines", "ranges"]);
        advice["fit"] = json!(["a"]);
        advice["unfit"] = json!([{"store": "b", "lacks": ["several-machines"]}, {"store": "c", "lacks": ["several-machines"]},
                                 {"store": "d"}]);
    });
    let sentence = "Needed: `several-machines`, `ranges`; not considered: `b` and `c` (one machine reaches it); `d` (its run did not \
                    note what it serves: measure again). `a` alone is left.";
    assert!(said.contains(sentence), "{said}");
    let said = told(|advice| {
        advice["need"] = json!(["ranges"]);
        advice["unfit"] = json!([{"store": "a", "lacks": ["ranges"]}]);
        (advice["situations"], advice["one_place"]) = (json!([]), json!([]));
    });
    let sentence = "`a` (no part of a blob is read without the whole). No candidate of this run is left.";
    assert!(said.contains(sentence), "{said}");
    assert!(!said.contains("disk"), "no table without columns: {said}");
}

#[test]
fn one_screen_says_what_to_do_and_what_may_spoil_it() {
    use crate::report::sections::{brief, terminal as whole};
    let (mut result, _) = shown(|_| {});
    result.answer = vec!["On this machine and disk, 10 blobs:".to_owned(), "Warm reads: `a`.".to_owned()];
    let warnings = json!([
        {"kind": "virtual-machine"}, {"kind": "few-rounds", "rounds": 2}, {"kind": "tmpfs"}, {"kind": "debug-build"},
        {"kind": "clock"}, {"kind": "noise", "share": 0.3}]);
    result.warnings = serde_json::from_value(warnings).unwrap();
    let text = brief(&result);
    assert!(text.starts_with("3 blobs, 30 B (median 0 B)"), "{text}");
    assert!(text.contains("\nKeep them in  a\n") && !text.contains("Warm reads: `a`."), "{text}");
    // Two of the four warnings that invalidate the answer, in one sentence each.
    assert_eq!(text.lines().filter(|line| line.starts_with("Warning: ")).count(), 2, "{text}");
    assert!(!text.contains("virtual machine"), "{text}");
    assert!(text.ends_with("All tables and 4 more warnings: blobwise report RUN --tables\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // The full form has all warnings, those that invalidate the answer first.
    let told = whole(&result);
    let at = |words: &str| told.find(words).unwrap_or_else(|| panic!("{words} is not in {told}"));
    assert!(at("- Something else used 30 %") < at("- This is a virtual machine"));
    // Without a recommendation, the answer in words ends the screen.
    result.advice = None;
    let text = brief(&result);
    assert!(
        text.starts_with("Answer\n  On this machine and disk, 10 blobs:\n  Warm reads: `a`.\n\nWarning: "),
        "{text}"
    );
    assert!(text.ends_with("4 more warnings: blobwise report RUN --tables\n"), "{text}");
    // A result without an answer is shown in full.
    result.answer.clear();
    assert_eq!(brief(&result), whole(&result));
}

#[test]
fn a_candidate_that_was_asked_for_is_named() {
    let (mut result, _) = shown(|_| {});
    result.candidates[2].status = Status::NotAvailable;
    result.candidates[2].reason = Some("no `c` was found".to_owned());
    let text = in_full(&result);
    assert!(text.contains("- `c` is not available: no `c` was found"), "{text}");
}

/// Returns `shown` with candidates of other comparison groups and one for each reason to have no time.
fn with_others() -> RunResult {
    let (mut result, _) = shown(|_| {});
    for (store, kind, status, reason) in [
        ("web", Kind::Web, Status::Measured, None),
        ("cache", Kind::Cache, Status::Measured, None),
        ("ours", Kind::Technique, Status::Measured, None),
        ("null", Kind::Baseline, Status::Measured, None),
        ("broken", Kind::Embedded, Status::Failed, Some("blob 3 differs")),
        ("missing", Kind::Server, Status::NotAvailable, Some("no `missing` was found")),
        ("large", Kind::Embedded, Status::Measured, None),
        ("tight", Kind::Embedded, Status::Measured, None),
    ] {
        let (kind, reason) = (Some(kind), reason.map(str::to_owned));
        result.candidates.push(CandidateResult { kind, status, reason, ..candidate(store) });
    }
    let rate = |ns: f64| json!({"median": 1e9 / ns});
    let mut push = |store: &str, kind: &str, phase: &str, mut over: Value| {
        over["kind"] = json!(kind);
        result.results.push(serde_json::from_value(cell(store, phase, &around(1.0, 0), over)).unwrap());
    };
    let of_web =
        json!({"ops_per_s": rate(80_000.0), "client_peak_bytes": 2_000_000, "server_peak_bytes": 30_000_000});
    push("web", "web", "read-warm", of_web);
    push(
        "web",
        "web",
        "overwrite",
        json!({"settled_ops_per_s": rate(300_000.0), "client_peak_bytes": 1_000_000, "server_peak_bytes": 1_000_000}),
    );
    push(
        "cache",
        "cache",
        "read-warm",
        json!({"ops_per_s": rate(60_000.0), "not_ranked": {"code": "one-round"}}),
    );
    push("ours", "technique", "read-warm", json!({"ops_per_s": rate(700.0)}));
    push(
        "null",
        "baseline",
        "read-warm",
        json!({"ops_per_s": rate(90.0), "not_ranked": {"code": "baseline"}}),
    );
    push("large", "embedded", "read-warm", json!({"ops_per_s": rate(7_000.0)}));
    let refused = json!({"status": "not-possible", "reason": "no blob above 1 MB", "rounds": []});
    push("large", "embedded", "overwrite", refused);
    let killed = json!({"status": "not-possible", "reason": "needs more memory", "rounds": []});
    push("tight", "embedded", "read-warm", killed.clone());
    push("tight", "embedded", "overwrite", killed.clone());
    push("null", "baseline", "overwrite", killed);
    result
}

#[test]
fn a_figure_that_nothing_else_has_is_not_the_least() {
    let mut result = with_others();
    result
        .results
        .iter_mut()
        .filter(|cell| cell.store == "a")
        .for_each(|cell| cell.client_peak_bytes = Some(3_600_000));
    let advice = result.advice.as_ref().unwrap();
    let choices = choose::choices(&result, advice, &rows(&result, advice));
    let of_a = choices.iter().find(|choice| choice.store == "a").unwrap();
    assert!(!of_a.reasons.contains("least memory"), "{}", of_a.reasons);
}

/// Mapped pages can be dropped, so memory is compared without them; they are shown beside it.
#[test]
fn the_least_memory_is_that_which_processes_keep() {
    let mut result = with_others();
    let stores: Vec<String> = result.advice.as_ref().unwrap().situations[0]
        .standings
        .iter()
        .map(|standing| standing.store.clone())
        .collect();
    for cell in &mut result.results {
        let is_mapping = cell.store == stores[0];
        cell.client_peak_bytes = Some(if is_mapping { 64_900_000 } else { 20_000_000 });
        cell.anonymous_peak_bytes = Some(if is_mapping { 3_600_000 } else { 20_000_000 });
        cell.mapped_peak_bytes = Some(if is_mapping { 61_300_000 } else { 0 });
    }
    let advice = result.advice.as_ref().unwrap();
    let rows = rows(&result, advice);
    let row = rows.iter().find(|row| row.store == stores[0]).unwrap();
    assert_eq!(row.memory, Some(PeakMemory { own: 3_600_000, mapped: Some(61_300_000) }));
    let choices = choose::choices(&result, advice, &rows);
    let of_mapping = choices.iter().find(|choice| choice.store == stores[0]).unwrap();
    assert!(of_mapping.reasons.contains("least memory"), "{}", of_mapping.reasons);
    let mut page = Page::default();
    put_in_markdown(&mut page, &figures::blocks(&result, advice, &rows, ReportFormat::Markdown));
    let line = format!("| `{}` | \\<1 µs * | 400 µs | 3.6 MB | 61.3 MB |", stores[0]);
    let text = page.text();
    assert!(text.contains(&line) && text.contains(" Mapped: pages of files on top"), "{line}\n{text}");
}

/// A candidate killed in one of five rounds has a time from the others.
#[test]
fn who_has_no_time_in_some_rounds_is_said_with_their_number() {
    let mut result = with_others();
    let rounds = |result: &RunResult, of: &str| {
        result
            .results
            .iter()
            .filter(|cell| cell.phase == "overwrite" && cell.store == of)
            .flat_map(|cell| cell.rounds.clone())
            .collect::<Vec<_>>()
    };
    let all = rounds(&result, "a");
    let tight =
        result.results.iter_mut().find(|cell| cell.store == "tight" && cell.phase == "overwrite").unwrap();
    tight.rounds = all[1..].to_vec();
    let said = collapse_whitespace(&in_full(&result));
    let words = format!("writes: needs more memory, in 1 of {} rounds", all.len());
    assert!(said.contains(&words), "{words}\n{said}");
}

#[test]
fn who_is_no_answer_and_who_has_no_time_stand_there_all_the_same() {
    let result = with_others();
    let text = in_full(&result);
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words} is not in {text}"));
    let line = |store: &str| {
        let line = text.lines().rev().find(|line| line.starts_with(&format!("{store} ")));
        collapse_whitespace(line.unwrap_or_else(|| panic!("{store} is not in {text}")))
    };
    assert_eq!(line("web"), "web 80 µs - 32 MB -", "its writes are another store's");
    assert_eq!(line("cache"), "cache 60 µs d - - -");
    assert_eq!(line("ours"), "ours 700 ns - - -");
    assert_eq!(line("broken"), "broken failed");
    assert_eq!(line("tight"), "tight - c - c - -");
    assert_eq!(line("missing"), "missing not available");
    assert!(
        at("\na ") < at("servers that deliver what another store keeps:")
            && at("\nweb ") < at("caches, no places")
    );
    for words in [
        "- `broken` failed: blob 3 differs.",
        "- `missing` is not available: no `missing` was found.",
        "- Not measured in every round: `large` (writes: no blob above 1 MB); `tight`\n  (reads from RAM and writes: needs more memory).",
    ] {
        at(words);
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn printed_commands_name_the_run_and_files_that_are_shown_around_do_not() {
    use crate::report::sections::{html as whole_page, markdown as whole_markdown, printed};
    let (mut result, _) = shown(|_| {});
    result.answer = vec![
        "On this machine:".to_owned(),
        "Cold reads: to find out: `blobwise run DIR/plan.toml --phases fill,read-cold`.".to_owned(),
    ];
    result.warnings = serde_json::from_value(json!([{"kind": "incomplete", "rounds": 2}])).unwrap();
    let place = std::path::Path::new("runs/the first");
    let text = collapse_whitespace(&printed(&result, place, true));
    for command in [
        "`blobwise run 'runs/the first/plan.toml' --phases fill,read-cold`",
        "`blobwise run --resume 'runs/the first'`",
    ] {
        assert!(text.contains(command), "{command}: {text}");
    }
    assert!(!text.contains("DIR"), "{text}");
    for shown_around in
        [whole_page(&result).unwrap(), whole_markdown(&result), serde_json::to_string(&result).unwrap()]
    {
        assert!(!shown_around.contains("the first") && shown_around.contains("DIR/plan.toml"));
    }
}

#[test]
fn all_tables_fit_into_every_terminal() {
    let mut result = with_others();
    let interval = json!({"median": 12345.0, "low": 11111.0, "high": 14444.0});
    for cell in &mut result.results {
        cell.ops_per_s = serde_json::from_value(interval.clone()).unwrap();
        let times = json!({"p50": 123_456_789_u64, "p99": 987_654_321_u64});
        cell.service_ns = serde_json::from_value(times).unwrap();
    }
    let footprint = json!({"store": "a-place-with-a-long-name", "logical_bytes": 123_456_789, "after_settle_bytes": 123_456_789_u64,
        "index_bytes": 12_345_678, "directory_bytes": 1_234_567, "log_bytes": 1_234_567, "empty_bytes": 123_456, "space_amplification": 12.345,
        "grows_per_byte": 12.345, "write_amplification": 123.456});
    result.footprints.push(serde_json::from_value(footprint).unwrap());
    let text = crate::report::sections::terminal(&result);
    let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{wide:#?}\n{text}");
    assert!(text.contains("\n  a-place-with-a-long-name\n") && text.contains("123 ms, 988 ms"), "{text}");
}

#[test]
fn every_report_names_every_candidate_with_its_memory_on_its_first_screen() {
    use crate::report::sections::{html as whole_page, markdown as whole_markdown};
    let result = with_others();
    let (page, text) = (whole_page(&result).unwrap(), whole_markdown(&result));
    let first = |text: &str, begin: &str, end: &str| {
        let from = text.find(begin).unwrap();
        text[from..from + text[from..].find(end).unwrap()].to_owned()
    };
    let page = first(&page, "<section id=\"advice\"", "</section>");
    let text = first(&text, "## Summary", "## Answer");
    for candidate in result.candidates.iter().map(|candidate| candidate.store.as_str()) {
        assert!(
            page.contains(&format!("<code>{candidate}</code>"))
                || page.contains(&format!(">{candidate}<wbr>")),
            "{candidate}: {page}"
        );
        assert!(text.contains(&format!("`{candidate}`")), "{candidate}: {text}");
    }
    assert!(
        page.contains("web<wbr><small>delivery</small>") || page.contains("<small>delivery</small>"),
        "{page}"
    );
    assert!(page.contains("32 MB") && text.contains("| 32 MB |"), "{text}");
    assert!(text.contains("`broken` failed") && page.contains("blob 3 differs"), "{text}");
}

/// Adds size classes to the recommendation, each with this best single store.
fn by_size(advice: &mut Value, places: [&str; 3]) {
    let bounds =
        [("small", 0, json!(10_000)), ("medium", 10_000, json!(100_000)), ("large", 100_000, json!(null))];
    let class = |((class, from, below), place): ((&str, u64, Value), &str)| {
        let mut of_class = advice.clone();
        of_class["one_place"][0]["store"] = json!(place);
        json!({"class": class, "from_bytes": from, "below_bytes": below, "reads_share": 0.25, "places": [place], "advice": of_class})
    };
    let all: Vec<Value> = bounds.into_iter().zip(places).map(class).collect();
    advice["by_size"] = json!(all);
}

#[test]
fn reads_of_each_size_have_their_place_where_it_is_another_one() {
    let said = |places: [&str; 3]| {
        let (result, _) = shown(|advice| by_size(advice, places));
        collapse_whitespace(&in_short(&result))
    };
    let same = said(["a", "a", "a"]);
    assert!(same.contains("Keep them in a ") && !same.contains("Reads"), "{same}");
    let other = said(["b", "b", "b"]);
    assert!(other.contains("Keep them in a ") && other.contains("Reads alone, of any size: `b`."), "{other}");
    let each = said(["a", "b", "b"]);
    assert!(each.contains("Reads below 10 kB: `a`; from 10 kB on: `b`."), "{each}");
    let three = said(["a", "b", "a"]);
    assert!(three.contains("below 10 kB: `a`; 10 kB to 100 kB: `b`; from 100 kB on: `a`."), "{three}");
}

#[test]
fn every_class_of_sizes_has_a_sentence_and_its_kinds_of_reads() {
    let (result, _) = shown(|advice| by_size(advice, ["a", "b", "b"]));
    let text = crate::report::sections::terminal(&result);
    let section = collapse_whitespace(text.split("By size of blob").nth(1).unwrap());
    for words in [
        "- Medium, 10 kB to 100 kB (25 % of the reads): `b`.",
        "Warm reads: `a`. Next is `b`, 20 µs more (a request of 1 ms takes 2 % longer: little, choose by what you can operate).",
    ] {
        assert!(section.contains(words), "{words}\n{section}");
    }
}

#[test]
fn a_size_whose_reads_are_undecided_says_so_in_its_table() {
    let (result, _) = shown(|advice| {
        for situation in advice["situations"].as_array_mut().unwrap() {
            situation["next"] = json!(null);
            for standing in situation["standings"].as_array_mut().unwrap() {
                standing["place"] = json!("undecided");
            }
        }
        by_size(advice, ["a", "a", "a"]);
    });
    let (page, text) =
        (crate::report::sections::html(&result).unwrap(), crate::report::sections::markdown(&result));
    assert!(text.contains("| small | in RAM | too few rounds to tell |"), "{text}");
    assert!(page.contains(">too few rounds to tell<"), "{page}");
}
