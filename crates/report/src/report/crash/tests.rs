//! Tests of lines with everything that can occur: the layout, and what the sentences count.

use serde_json::json;

use super::*;
use crate::report::crash_page::{markdown, notes};
use crate::report::crash_subject::head_of;
use crate::report::html::cuts::render;

/// Returns a line of a store in a class, given the number of cuts and of cuts that lost a blob.
pub(in crate::report) fn line_of(
    store: &str,
    class: &str,
    cuts: usize,
    lost: usize,
    more: serde_json::Value,
) -> CrashResult {
    let damaged = if lost == 0 {
        json!([])
    } else {
        json!([{"damage": "lost", "cuts": lost}, {"damage": "unusable", "cuts": 1}])
    };
    let mut line = json!({
        "store": store, "file_system": "ext4", "durability": class, "declared": "nothing",
        "verdict": if lost == 0 { "confirmed" } else { "refuted" },
        "finding": {
            "version": "15.18 (Debian 15.18-0+deb12u1)", "cuts": cuts, "damaged": damaged, "lost_recent": lost,
            "first": (lost > 0).then_some("blob 21, written by op 144: it is not there (after entry 1234567 of the disk's log; 17 writes not flushed, and some of it survives, one write in part)"),
            "open_seconds": {"middle": 1.25, "longest": 2.5}, "unmountable": 3, "sent": {"writes": 123_456, "flushes": 12_345},
            "course": {"entries": 100, "flushes": [10, 50, 50], "cuts": [[10, "everything"], [30, "promised"], [31, "less"], [99, "no-file-system"]]}
        }
    });
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(line).unwrap()
}

fn report() -> CrashReport {
    let lines = vec![
        line_of("files/a", "each-write", 240, 0, json!({})),
        line_of("db/large-object[isolation=serializable]", "each-write", 240, 12, json!({})),
        line_of("tree", "none", 1, 0, json!({"verdict": "too-few-cuts"})),
        line_of("map", "none", 180, 0, json!({"verdict": "nothing-promised", "declared": "store-unusable"})),
        line_of(
            "cache",
            "on-sync",
            0,
            0,
            json!({"verdict": null, "finding": null, "failed": "the load failed: `cache-server` ended at once; its log is empty, and so on and so on"}),
        ),
    ];
    let control = json!({"what": "flushed files, on a disk that ignores flushes", "file_system": "ext4", "must_lose": true, "lost": 0, "cuts": 24});
    let controls = vec![serde_json::from_value(control).unwrap()];
    let of = |text: &str| text.to_owned();
    CrashReport {
        schema: 1,
        blobwise: of("0.1.0"),
        command: of("blobwise crash"),
        started: of("2026"),
        preloaded: Vec::new(),
        replaced_flushes: Vec::new(),
        system: of("s"),
        cuts: 240,
        kills: 0,
        workers: 1,
        seed: 1,
        controls,
        lines,
    }
}

#[test]
fn every_line_of_a_terminal_has_80_columns_at_most() {
    let report = report();
    let lines: String = report.lines.iter().map(of_line).collect();
    for line in [head(&report), controls(&report, "ext4"), lines].iter().flat_map(|text| text.lines()) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(controls(&report, "ext4").contains("No verdicts"));
}

#[test]
fn the_summary_counts_each_line_once_and_names_who_broke_what() {
    let said = summary(&report().lines);
    assert_eq!(said.len(), 3, "{said:#?}");
    assert!(said[0].starts_with(
        "Class each-write (what was acknowledged stays): 1 of 2 keep what they declare, in 480 cuts"
    ));
    assert!(!said[0].contains("as it allows"), "{}", said[0]);
    assert!(said[0].ends_with("Broken by `db/large-object[isolation=serializable]` (ext4)."), "{}", said[0]);
    assert_eq!(said[1], "Class on-sync (what a sync covered stays): Failed: `cache` (ext4).");
    assert!(
        said[2].contains("Nothing is promised by `map` (ext4). Too few cuts could be made of `tree` (ext4)."),
        "{}",
        said[2]
    );
}

#[test]
fn a_known_fault_is_counted_and_refutes_nothing_by_itself() {
    let with = |sorts: &[(Damage, usize)]| {
        let mut line = line_of("db", "each-write", 24, 0, json!({}));
        let finding = line.finding.as_mut().unwrap();
        finding.damaged =
            sorts.iter().map(|(damage, cuts)| DamageCount { damage: *damage, cuts: *cuts }).collect();
        line.verdict = Some(LossVerdict::judge(line.declared, finding));
        CrashReport { lines: vec![line], controls: Vec::new(), ..report() }
    };
    let known = with(&[(Damage::KnownFault, 1)]);
    assert_eq!(known.lines[0].verdict, Some(LossVerdict::KnownFault));
    assert!(!is_bad(&known));
    assert_eq!(
        summary(&known.lines),
        [
            "Class each-write (what was acknowledged stays): 1 of 1 keep what they declare, in 24 cuts. After 1 cut of `db` (ext4) it did not \
      start, by a known fault of its program."
        ]
    );
    assert_eq!(
        cell(&known.lines[0]),
        ("kept, but for a known fault of its program", "1 of 24 (known fault 1)".to_owned())
    );
    let other = with(&[(Damage::KnownFault, 1), (Damage::Unusable, 1)]);
    assert!(other.lines[0].verdict == Some(LossVerdict::Refuted) && is_bad(&other));
}

#[test]
fn what_file_systems_say_is_summed_up_and_who_found_one_wrong_is_named() {
    let checked = |cuts: usize, wrong: usize| {
        let mut line = line_of("tree", "each-write", 240, 0, json!({}));
        let first = (wrong > 0).then(|| "a block is used twice".to_owned());
        line.finding.as_mut().unwrap().checked =
            FileSystemCheck { by: "check -n".to_owned(), cuts, wrong, first, not_checked: None };
        line
    };
    let said = first_of_all(&[checked(20, 0), checked(24, 2), checked(0, 0)]);
    let wrong: Vec<&String> = said.iter().filter(|said| said.contains("check -n")).collect();
    let [of_line, of_all] = wrong.as_slice() else { panic!("{said:#?}") };
    assert!(of_line.ends_with("wrong after 2 of 24, first: a block is used twice."), "{of_line}");
    assert_eq!(*of_all, "The file system by its own check (`check -n`), on ext4: wrong after 2 of 44 cuts.");
    let report = CrashReport { lines: vec![checked(20, 0)], ..report() };
    assert!(checks_on(&report, "ext4").contains("wrong after 0 of"));
    assert_eq!(checks_on(&report, "xfs"), "");
}

#[test]
fn pages_have_the_matrix_the_reasons_and_the_timelines_without_a_script() {
    let report = report();
    let text = markdown(std::slice::from_ref(&report), None);
    for words in [
        "| **broken**, 13 of 240 (blob lost 12, store unusable 1) |",
        "kept, 0 of 240 (below 1.24 %)",
        "(crash.schema.json)",
        "failed, see below",
        "`cache` in class on-sync on ext4 failed: the load failed",
    ] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    let page = render(&[report]);
    assert!(!page.contains("<script"));
    for words in [
        "kept</strong><br>0 of 240 (below 1.24 %)",
        "<code>cache</code> in class on-sync on ext4 failed: the load failed",
        "What every cut left.",
        "flushes  ",
    ] {
        assert!(page.contains(words), "{words} is not in {page}");
    }
}

#[test]
fn uploads_stand_apart_from_blobs_of_the_same_store_and_say_where_they_are_registered() {
    let uploads = |one_transaction: bool, lost: usize| {
        let more = json!({"uploads": {"catalogue": "db", "one_transaction": one_transaction}});
        let mut line = line_of("db", "each-write", 24, lost, more);
        if let Some(sort) = line.finding.as_mut().and_then(|finding| finding.damaged.first_mut()) {
            sort.damage = Damage::Dangling;
        }
        line
    };
    let plain = line_of("db", "each-write", 24, 0, json!({}));
    let report = CrashReport { lines: vec![plain, uploads(false, 3), uploads(true, 0)], ..report() };
    assert_eq!(head_of(&report.lines[1]), "\nuploads to db, catalogue in db on ext4\n");
    let text = markdown(std::slice::from_ref(&report), None);
    for words in [
        "| `db` | ext4 | kept, 0 of 24",
        "| uploads to `db`, catalogue in `db` | ext4 | **broken**, 4 of 24 (catalogued without its blob 3, store unusable 1) |",
        "| uploads to `db` in one transaction | ext4 | kept, 0 of 24",
        "Registered uploads: a catalogued blob was missing after 3 of 48 cuts whose class promises it.",
    ] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    let page = render(&[report]).replace("<wbr>", "");
    assert!(
        page.contains("uploads to db in one transaction") && page.contains("catalogued without its blob 3")
    );
}

#[test]
fn a_page_made_anew_keeps_what_people_added_and_has_a_sentence_for_each_part() {
    let more = json!({"besides": {
        "kills": {"declared": "recent-writes", "kills": 20, "under_way": 18, "broken": 0, "lost_recent": 13},
        "errors": {"cases": [{
            "of": "read", "error": "broken", "for_ever": true, "nth": 3, "of_all": 40, "failed_requests": 9,
            "outcome": "hung", "breaks": false, "failed_ops": 1, "went_on": 0, "file_system": "went-on"
        }]},
        "flips": {"declared": "store", "flips": 12, "noticed": 12, "handed_out": 0, "unharmed": 0, "not_found": 0}
    }});
    let report = CrashReport { lines: vec![line_of("tree", "on-sync", 24, 0, more)], ..report() };
    let added = "Said by hand on a day.";
    let text = markdown(std::slice::from_ref(&report), Some(added));
    for words in [
        "### Kills\n\n0 of 20 kills",
        "18 came in mid-op",
        "as declared, in `tree` in class on-sync on ext4 (13 of 20).",
        "### Errors of the device\n",
        "`tree` in class on-sync on ext4: read, EIO, for ever, at 3 of 40: hung",
        "### Flipped bytes\n",
    ] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    assert_eq!(notes(&text), Some(added));
    assert_eq!(markdown(&[report], notes(&text)), text);
    assert_eq!(notes("a page without"), None);
}
