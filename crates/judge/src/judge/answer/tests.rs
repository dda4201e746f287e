//! Sentences on synthetic rounds for which the correct answer is known.

use blobwise_engine::engine::work::ResolvePlan;
use serde_json::{Value, json};

use crate::judge::fixture::{around, cell, result};
use crate::plan::{Candidate, Plan, PlanText};
use crate::result::{CandidateResult, RunResult, Status};
use crate::store::{Adapter, Kind};
use crate::subjects::candidates;

/// Returns the answer for three candidates with these seconds per 1,000 ops in each phase. `over` replaces fields in
/// the cell of the candidate with this number. The candidates are renamed to `a`, `b` and `c`.
fn sentences(levels: &[(&str, [f64; 3])], over: &[(usize, &str, Value)]) -> Vec<String> {
    // A plan needs existing stores; which ones does not matter.
    let stores = some_stores();
    let text = format!("stores = {stores:?}\nphases = ['fill', 'read-warm']");
    answered(&text, cells_of(&stores, levels, over)).iter().map(|said| renamed(&stores, said)).collect()
}

/// Returns the cells of three candidates with these seconds per 1,000 ops in each phase.
pub(super) fn cells_of(
    stores: &[String],
    levels: &[(&str, [f64; 3])],
    over: &[(usize, &str, Value)],
) -> Vec<Value> {
    let mut cells = Vec::new();
    for (phase, levels) in levels {
        for (salt, (store, level)) in stores.iter().zip(levels).enumerate() {
            let rate = if *phase == "overwrite" { "settled_ops_per_s" } else { "ops_per_s" };
            let over = over.iter().find(|(number, of, _)| *number == salt && of == phase);
            let mut more = json!({rate: {"median": 1000.0 / level}});
            if let (Some(more), Some((_, _, Value::Object(over)))) = (more.as_object_mut(), over) {
                more.extend(over.clone());
            }
            cells.push(cell(store, phase, &around(*level, salt), more));
        }
    }
    cells
}

fn renamed(stores: &[String], text: &str) -> String {
    stores.iter().zip(["a", "b", "c"]).fold(text.to_owned(), |text, (store, name)| text.replace(store, name))
}

/// Returns the answer; a result without candidates gets those of its plan.
fn answer(plan: &Plan, result: &RunResult) -> Vec<String> {
    let mut result = result.clone();
    if result.candidates.is_empty() {
        result.candidates = candidates(plan);
    }
    super::answer(plan, &result)
}

/// Returns the answer of a run with the plan of this text and these cells.
fn answered(text: &str, cells: Vec<Value>) -> Vec<String> {
    answer(&PlanText::parse(text).unwrap().resolve(false).unwrap(), &result(text, cells, vec![]))
}

pub(super) fn some_stores() -> Vec<String> {
    let plan = PlanText::default().resolve(false).unwrap();
    let plain = |candidate: &&Candidate| {
        ![Kind::Baseline, Kind::Technique].contains(&candidate.adapter.kind) && !candidate.label.contains('[')
    };
    let labels: Vec<String> =
        plan.candidates.iter().filter(plain).map(|candidate| candidate.label.clone()).collect();
    labels.into_iter().take(3).collect()
}

/// Returns the only sentence that contains these words.
fn with<'s>(sentences: &'s [String], words: &str) -> &'s str {
    let found: Vec<&String> = sentences.iter().filter(|sentence| sentence.contains(words)).collect();
    assert_eq!(found.len(), 1, "`{words}` in {sentences:#?}");
    found[0]
}

#[test]
fn one_leader_is_named_with_the_nearer_bound() {
    let said = sentences(&[("read-warm", [1.0, 2.0, 3.0])], &[]);
    let warm = with(&said, "Warm reads");
    assert!(warm.contains("`a` reads at least 1.9"), "{warm}");
    assert!(warm.contains("(1 ms against 2 ms)"), "{warm}");
}

#[test]
fn a_tail_that_was_cut_is_said() {
    let (text, cut) = ("phases = ['fill']", "cut at p98: the largest 2 % have 1 MB each");
    let mut result = result(text, vec![], vec![]);
    result.corpus.cut = Some(cut.to_owned());
    let plan = PlanText::parse(text).unwrap().resolve(false).unwrap();
    assert!(with(&answer(&plan, &result), "On this machine").contains(cut));
}

#[test]
fn a_winner_by_less_than_counts_is_equal() {
    let said = sentences(&[("read-warm", [1.0, 1.01, 3.0])], &[]);
    assert!(with(&said, "Warm reads").contains("`a` and `b` are equal within 3 %"), "{said:#?}");
}

#[test]
fn leaders_that_cannot_be_told_apart_are_a_set() {
    let mut noisy = around(1.0, 0);
    noisy.iter_mut().enumerate().for_each(|(index, seconds)| *seconds *= [0.8, 1.25][index % 2]);
    let rounds = cell("b", "read-warm", &noisy, json!({}));
    let over = [(1, "read-warm", json!({"rounds": rounds["rounds"]}))];
    let said = sentences(&[("read-warm", [1.0, 1.0, 3.0])], &over);
    let warm = with(&said, "Warm reads");
    assert!(warm.contains("cannot be told apart") && warm.contains("next is `c`"), "{warm}");
    assert!(!warm.contains("at least"), "{warm}");
}

#[test]
fn what_was_not_ranked_is_no_answer() {
    let short = |number| {
        (number, "read-warm", json!({"not_ranked": {"code": "too-short", "ops": 3, "seconds": 0.001}}))
    };
    let said = sentences(&[("read-warm", [1.0, 2.0, 3.0])], &[0, 1, 2].map(short));
    let warm = with(&said, "Warm reads");
    assert!(warm.contains("does not answer it") && warm.contains("too short: 3 ops"), "{warm}");
    assert!(!warm.contains("to find out"), "{warm}");
    assert!(with(&said, "Not in the running").ends_with("every candidate (too short)."), "{said:#?}");
}

#[test]
fn who_is_alone_because_others_cannot_do_it_is_said_to_be() {
    let why = "append-only";
    let impossible = json!({"status": "not-possible", "reason": why, "rounds": [], "not_ranked": {"code": "not-possible", "why": why}});
    let levels = [("fill", [3.0, 2.0, 1.0]), ("overwrite", [1.0, 2.0, 3.0])];
    let said = sentences(&levels, &[1, 2].map(|number| (number, "overwrite", impossible.clone())));
    let writes = with(&said, "Durable writes");
    assert!(
        writes.ends_with(
            "that can be compared (1 ms). Not ranked in it: `b` and `c` (not possible: append-only)."
        ),
        "{writes}"
    );
}

#[test]
fn what_a_program_logged_before_it_failed_is_no_part_of_an_answer() {
    let why = "phase `read-warm`: it ended before it was ready;\nthe end of its log:\n  no room\n  ended";
    let failed = json!({"status": "failed", "reason": why, "not_ranked": {"code": "failed", "why": why}});
    let said = sentences(&[("read-warm", [1.0, 2.0, 3.0])], &[(2, "read-warm", failed)]);
    let warm = with(&said, "Warm reads");
    assert!(
        warm.ends_with("Not ranked in it: `c` (failed: phase `read-warm`: it ended before it was ready)."),
        "{warm}"
    );
}

#[test]
fn who_is_faster_than_the_harness_can_tell_is_in_the_running() {
    let short = json!({"not_ranked": {"code": "too-short", "ops": 3, "seconds": 0.001}});
    let bound = json!({"not_ranked": {"code": "mostly-harness", "share": 0.4}});
    let phases = [("fill", [1.0, 2.0, 3.0]), ("read-warm", [1.0, 2.0, 3.0])];
    let said =
        |warm: &Value| sentences(&phases, &[(0, "fill", short.clone()), (0, "read-warm", warm.clone())]);
    assert!(with(&said(&short), "Not in the running").contains("`a` (too short)"));
    let bound = said(&bound);
    assert!(!bound.iter().any(|sentence| sentence.contains("Not in the running")), "{bound:#?}");
}

#[test]
fn a_phase_that_was_left_out_comes_with_the_command_that_measures_it() {
    let advice = |more: &str| {
        let text = format!("phases = ['fill', 'read-warm', 'overwrite']\n{more}");
        with(&answered(&text, vec![]), "Cold reads").to_owned()
    };
    let own = format!("stores = ['{}']", some_stores()[0]);
    assert!(advice(&own).ends_with(": `blobwise run DIR/plan.toml --phases fill,read-cold`."));
    // A mix needs its phases.
    let mixed = advice(&format!("{own}\nmix = {{read = 0.9, overwrite = 0.1}}"));
    assert!(mixed.ends_with(" --phases fill,read-warm,overwrite,read-cold`."), "{mixed}");
    let look = advice(&format!("{own}\nscale = 0.01"));
    assert!(look.ends_with(" --phases fill,read-cold --scale 1`."), "{look}");
    // A store that keeps nothing once it is closed has no cold reads.
    assert!(advice("stores = ['memory']").ends_with("`read-cold` was not part of it."));
}

#[test]
fn phases_of_a_plans_own_come_first_and_no_usual_question_is_left_open_beside_them() {
    let stores = some_stores();
    let own = "[[phase]]\nid = 'visits'\nops = { get = 0.98, overwrite = 0.02 }\nshare = 1.0\n\
               [[phase]]\nid = 'pass'\nops = { get = 1 }\nshare = 1.0\nparts = 2";
    let text = format!("stores = {stores:?}\nphases = ['fill', 'visits', 'pass']\n{own}");
    let mut cells = Vec::new();
    for phase in ["fill", "visits", "pass.01", "pass.02"] {
        for (salt, (store, level)) in stores.iter().zip([1.0, 2.0, 3.0]).enumerate() {
            let settled = json!({"settled_ops_per_s": {"median": 1000.0 / level}});
            let over = if phase.starts_with("pass") { json!({}) } else { settled };
            cells.push(cell(store, phase, &around(level, salt), over));
        }
    }
    let said = answered(&text, cells);
    assert!(
        said[1].starts_with("`visits` (class on-sync): ") && said[1].contains("works at least"),
        "{said:#?}"
    );
    assert!(said[2].starts_with("`pass.01`: ") && said[2].contains("reads at least"), "{said:#?}");
    assert!(said[3].starts_with("Durable writes (on-sync): "), "{said:#?}");
    assert!(!said.iter().any(|sentence| sentence.contains("pass.02")), "{said:#?}");
    assert!(!said.iter().any(|sentence| sentence.contains("reads: this run does not answer")), "{said:#?}");
}

#[test]
fn chosen_phases_are_told_too() {
    let stores = some_stores();
    let text = format!("stores = {stores:?}\nphases = ['fill', 'range-head']");
    let cells = stores.iter().zip([1.0, 2.0, 3.0]).enumerate();
    let cells =
        cells.map(|(salt, (store, level))| cell(store, "range-head", &around(level, salt), json!({})));
    let said = answered(&text, cells.collect());
    assert!(said[1].starts_with("`range-head`: ") && said[1].contains("reads at least"), "{said:#?}");
}

#[test]
fn one_size_is_answered_as_a_store_of_any_size_is() {
    let stores = some_stores();
    let corpus = "[[corpora]]\nname = 'one'\nsource = 'fixed:1000'\nblobs = 9";
    let text = format!("stores = {stores:?}\nphases = ['fill', 'read-warm']\n{corpus}");
    let plan = PlanText::parse(&text).unwrap().resolve(false).unwrap();
    let size = plan.corpora[0].corpus_id;
    assert!(plan.corpora.len() == 1 && !size.is_only());
    let cells = stores.iter().zip([1.0, 2.0, 3.0]).enumerate().map(|(salt, (store, level))| {
        cell(store, "read-warm", &around(level, salt), json!({"corpus_id": size}))
    });
    let said = answer(&plan, &result(&text, cells.collect(), vec![]));
    assert!(with(&said, "Warm reads").contains("times as fast as"), "{said:#?}");
}

#[test]
fn writes_that_nothing_makes_durable_are_not_called_so() {
    let stores = some_stores();
    let text = format!("stores = {stores:?}\ndurability = 'none'");
    let none = || json!({"durability": "none"});
    let cells =
        stores.iter().enumerate().map(|(salt, store)| cell(store, "fill", &around(1.0, salt), none()));
    let said = answered(&text, cells.collect());
    assert!(with(&said, "Writes").starts_with("Writes that nothing made durable (none): "), "{said:#?}");
}

#[test]
fn what_is_shipped_and_what_is_careful_are_told_apart() {
    let stores = some_stores();
    let careful = format!("{}[durability=each-write]", stores[2]);
    let (fast, slow) = (&stores[0], &stores[1]);
    let text = format!(
        "stores = ['{fast}', '{slow}', '{careful}']\nphases = ['fill', 'read-warm']\nmix = {{ read = 1.0 }}"
    );
    let own = || json!({"durability": "each-write", "own_durability": "each-write"});
    let cells = vec![
        cell(fast, "read-warm", &around(2.0, 0), json!({})),
        cell(slow, "read-warm", &around(3.0, 1), json!({})),
        cell(&careful, "read-warm", &around(1.0, 2), own()),
    ];
    let said = answered(&text, cells);
    assert!(said[0].contains("| class on-sync or the candidate's own | "), "{said:#?}");
    let reads = with(&said, "Warm reads");
    let apart = format!("Not comparable with them: `{careful}`");
    assert!(reads.starts_with(&format!("Warm reads: `{fast}` reads at least")), "{reads}");
    assert!(reads.contains(&apart) && reads.contains("(kept in class each-write)"), "{reads}");
    let mixed = with(&said, "1,000 ops");
    assert!(mixed.starts_with(&format!("1,000 ops of 100 % read: `{fast}` is fastest")), "{mixed}");
    // Neither is beaten by the other.
    assert!(!said.iter().any(|sentence| sentence.contains(&format!("(by `{careful}"))), "{said:#?}");
}

#[test]
fn a_fill_is_not_called_more_durable_than_it_was() {
    let stores = some_stores();
    let text = format!("stores = {stores:?}\ndurability = 'each-write'\nphases = ['fill', 'read-warm']");
    let settled = || json!({"settled_ops_per_s": {"median": 1000.0}});
    let cells =
        stores.iter().enumerate().map(|(salt, store)| cell(store, "fill", &around(1.0, salt), settled()));
    let said = answered(&text, cells.collect());
    assert!(with(&said, "Durable writes").starts_with("Durable writes (on-sync): "), "{said:#?}");
    assert!(!said[0].contains("each-write"), "{said:#?}");
}

#[test]
fn processor_time_is_that_of_the_whole_machine() {
    // The rates are equal, and the CPU time of the program itself is irrelevant.
    let spent = |nanoseconds: u64| {
        let mut value = cell("any", "read-warm", &around(1.0, 0), json!({}));
        for round in value["rounds"].as_array_mut().unwrap() {
            round["total_cpu_ns"] = json!(nanoseconds);
            round["client_cpu_ns"] = json!(1_000_000 / nanoseconds);
        }
        json!({"rounds": value["rounds"]})
    };
    let levels = [("read-warm", [1.0, 1.0, 3.0])];
    let said = sentences(&levels, &[(0, "read-warm", spent(2000)), (1, "read-warm", spent(1000))]);
    assert!(with(&said, "Warm reads").ends_with("Of these, `b` needs least processor time."), "{said:#?}");
    let said = sentences(&levels, &[(1, "read-warm", spent(1000))]);
    assert!(!with(&said, "Warm reads").contains("processor time"), "{said:#?}");
}

#[test]
fn a_mix_has_no_winner_among_candidates_that_are_not_comparable() {
    let stores = some_stores();
    let text = format!(
        "stores = {stores:?}\nphases = ['fill', 'read-warm', 'overwrite']\nmix = {{read = 0.9, overwrite = 0.1}}"
    );
    let said = |kept: &[usize]| {
        let mut cells = Vec::new();
        for (salt, store) in stores.iter().enumerate().filter(|(number, _)| kept.contains(number)) {
            let killed = ["nothing", "recent-writes", "nothing"][salt];
            let over = json!({"settled_ops_per_s": {"median": 1000.0},
                "loss": {"after_kill": killed, "after_power_cut": killed}});
            cells.push(cell(store, "read-warm", &around(1.0 + salt as f64, salt), json!({})));
            cells.push(cell(store, "overwrite", &around(1.0 + salt as f64, salt), over));
        }
        renamed(&stores, with(&answered(&text, cells), "1,000 ops"))
    };
    let two = said(&[0, 1]);
    assert!(
        !two.contains("fastest")
            && two.contains("`a` is the only candidate")
            && two.contains("`b` by itself"),
        "{two}"
    );
    let three = said(&[0, 1, 2]);
    assert!(three.contains("`a` is fastest") && three.contains("Not comparable with them"), "{three}");
    assert!(three.contains("`b` by itself"), "{three}");
}

#[test]
fn a_round_that_lacks_a_phase_of_the_mix_is_not_the_cheaper_for_it() {
    let stores = some_stores();
    let text = format!(
        "stores = {stores:?}\nphases = ['fill', 'read-warm', 'overwrite']\nmix = {{read = 0.495, overwrite = 0.505}}"
    );
    let mut cells = Vec::new();
    for (salt, (store, level, rounds)) in
        [(&stores[0], 9.0, 5), (&stores[1], 5.0, 10)].into_iter().enumerate()
    {
        cells.push(cell(store, "read-warm", &around(1.0, salt), json!({})));
        let settled = json!({"settled_ops_per_s": {"median": 1000.0 / level}});
        cells.push(cell(store, "overwrite", &around(level, salt)[..rounds], settled));
    }
    // Of one that has no round with both nothing is known.
    let mut later =
        cell(&stores[2], "overwrite", &around(1.0, 2), json!({"settled_ops_per_s": {"median": 1000.0}}));
    later["rounds"].as_array_mut().unwrap().drain(..5);
    cells.extend([cell(&stores[2], "read-warm", &around(1.0, 2)[..5], json!({})), later]);
    let said = renamed(&stores, with(&answered(&text, cells), "1,000 ops"));
    for words in ["49.5 % read", "50.5 % overwrite", ": `b` is fastest"] {
        assert!(said.contains(words) && !said.contains("`c`"), "{said}");
    }
}

#[test]
fn a_store_that_failed_takes_no_disk_that_counts() {
    let first = some_stores().remove(0);
    let disk = disk_of([0.5, 1.0, 1.5], |candidate| {
        if candidate.store == first {
            candidate.status = Status::Failed;
        }
    });
    assert!(disk.contains("`b`") && !disk.contains("`a`"), "{disk}");
}

/// Returns the sentence on disk space for three candidates with these disk bytes per byte of blobs. `change` adapts the
/// candidates.
fn disk_of(shares: [f64; 3], change: impl Fn(&mut CandidateResult)) -> String {
    let stores = some_stores();
    let text = format!("stores = {stores:?}");
    let plan = PlanText::parse(&text).unwrap().resolve(false).unwrap();
    let mut result = result(&text, vec![], vec![]);
    result.candidates = candidates(&plan);
    result.candidates.iter_mut().for_each(change);
    for (store, share) in stores.iter().zip(shares) {
        let taken = json!({"store": store, "logical_bytes": 100, "after_settle_bytes": 100, "space_amplification": share});
        result.footprints.push(serde_json::from_value(taken).unwrap());
    }
    renamed(&stores, with(&answer(&plan, &result), "Disk"))
}

#[test]
fn stores_that_take_about_the_same_are_named_each_with_its_figure() {
    let three = disk_of([1.0, 1.02, 1.01], |_| {});
    assert!(three.contains("`a`, `c` and `b` take least, 1.00, 1.01 and 1.02 bytes for each"), "{three}");
    let same = disk_of([1.0, 1.001, 2.0], |_| {});
    assert!(same.contains("`a` and `b` take least, 1.00 bytes for each"), "{same}");
}

#[test]
fn a_table_with_figures_of_disk_is_not_contradicted() {
    let elsewhere = disk_of([1.0, 1.1, 1.2], |candidate| candidate.traits.is_external = true);
    assert!(elsewhere.contains("a server of yours says what stands in the table"), "{elsewhere}");
    let cached = disk_of([1.0, 1.1, 1.2], |candidate| candidate.kind = Some(Kind::Cache));
    assert!(cached.contains("only stores that are no places for files were measured"), "{cached}");
}

/// Nobody can install it, however fast it is.
#[test]
fn a_technique_of_ours_is_never_recommended() {
    let technique = |phase| (0, phase, json!({"kind": Kind::Technique.name()}));
    let levels = [("fill", [1.0, 2.0, 3.0]), ("read-warm", [1.0, 2.0, 3.0])];
    let said = sentences(&levels, &["fill", "read-warm"].map(technique));
    for words in ["Warm reads", "Durable writes"] {
        let sentence = with(&said, words);
        assert!(sentence.contains("`b` ") && !sentence.contains("`a`"), "{sentence}");
    }
    let alone =
        sentences(&levels[1..], &[0, 1, 2].map(|candidate| (candidate, "read-warm", technique("").2)));
    assert!(
        with(&alone, "Warm reads").ends_with("only a built-in experimental format was measured."),
        "{alone:#?}"
    );
    // Its disk usage, and the candidates it beats, must not be used as advice either.
    let plan = PlanText::default().resolve(false).unwrap();
    let mut result = result("", vec![], vec![]);
    result.candidates = candidates(&plan);
    result.candidates[1].kind = Some(Kind::Technique);
    let is_ours = |candidate: &CandidateResult| candidate.kind == Some(Kind::Technique);
    assert!(result.candidates.iter().any(is_ours) && !super::eligible(&result).into_iter().any(is_ours));
}

#[test]
fn a_technique_of_ours_wins_at_no_size() {
    let stores = some_stores();
    let (text, plan, sizes) = sweep_of(&stores);
    let mut cells = Vec::new();
    for size in &sizes {
        let ours = json!({"corpus_id": size, "leader": true, "kind": Kind::Technique.name()});
        for (store, over) in [(&stores[0], ours), (&stores[1], json!({"corpus_id": size, "leader": true}))] {
            cells.push(cell(store, "read-warm", &around(1.0, 0), over));
        }
    }
    let said = answer(&plan, &result(&text, cells, vec![]));
    let warm = with(&said, "Warm reads");
    assert!(warm.contains(&stores[1]) && !warm.contains(&format!("`{}`", stores[0])), "{warm}");
}

#[test]
fn caches_are_compared_with_caches_and_are_no_answer() {
    let cache = |number| (number, "read-warm", json!({"kind": Kind::Cache.name()}));
    let levels = [("read-warm", [3.0, 1.0, 2.0])];
    let among = "Among caches, no places where files live: `b` reads at least 1.9";
    let said = sentences(&levels, &[1, 2].map(cache));
    let warm = with(&said, "Warm reads");
    assert!(
        warm.starts_with("Warm reads: `a` is the only candidate that can be compared")
            && warm.contains(among),
        "{warm}"
    );
    let said = sentences(&levels, &[0, 1, 2].map(cache));
    let warm = with(&said, "Warm reads");
    assert!(
        warm.contains("does not answer it: only caches were measured. Among") && warm.contains(among),
        "{warm}"
    );
}

#[test]
fn baselines_alone_answer_nothing() {
    let baseline = |number| (number, "read-warm", json!({"kind": Kind::Baseline.name()}));
    let said = sentences(&[("read-warm", [3.0, 1.0, 2.0])], &[0, 1, 2].map(baseline));
    let warm = with(&said, "Warm reads");
    assert!(warm.contains("does not answer it: only baselines were measured"), "{warm}");
}

#[test]
fn who_hands_files_out_is_no_place_for_them() {
    // These of the three candidates deliver what another store keeps.
    let said = |web: &[usize]| {
        let stores = some_stores();
        let text = format!("stores = {stores:?}\nphases = ['fill', 'read-warm']");
        let mut plan = PlanText::parse(&text).unwrap().resolve(false).unwrap();
        for number in web {
            let adapter = Adapter { kind: Kind::Web, ..*plan.candidates[*number].adapter };
            plan.candidates[*number].adapter = Box::leak(Box::new(adapter));
        }
        let mut result = result(&text, vec![], vec![]);
        for (salt, (candidate, level)) in plan.candidates.iter().zip([3.0, 2.0, 1.0]).enumerate() {
            let kind = candidate.adapter.kind.name();
            for phase in ["fill", "read-warm"] {
                let over = json!({"kind": kind, "ops_per_s": {"median": 1000.0 / level}});
                let cell = cell(&candidate.label, phase, &around(level, salt), over);
                result.results.push(serde_json::from_value(cell).unwrap());
            }
        }
        answer(&plan, &result).iter().map(|said| renamed(&stores, said)).collect::<Vec<_>>()
    };
    let beside = said(&[1, 2]);
    let warm = with(&beside, "Warm reads");
    let among = "Among servers that deliver what another store keeps: `c` reads at least 1.9";
    assert!(warm.starts_with("Warm reads: `a` is the only candidate") && warm.contains(among), "{warm}");
    // Delivery servers write to the store behind them.
    let writes = with(&beside, "Durable writes");
    assert!(writes.contains("`a` is the only candidate") && !writes.contains("`c`"), "{writes}");
    assert!(
        with(&beside, "Not in the running").contains("`b` and `c` (delivery of what another store keeps)"),
        "{beside:#?}"
    );
    // If only delivery servers were measured, the answer is about them.
    let alone = said(&[0, 1, 2]);
    let warm = with(&alone, "Warm reads");
    assert!(warm.starts_with("Warm reads: `c` reads at least 1.9"), "{warm}");
    // They are not asked about writes.
    assert!(!alone.iter().any(|sentence| sentence.contains("write")), "{alone:#?}");
    assert!(!alone.iter().any(|sentence| sentence.contains("Not in the running")), "{alone:#?}");
}

#[test]
fn who_is_beaten_everywhere_is_no_option() {
    let said = sentences(&[("fill", [1.0, 2.0, 0.5]), ("read-warm", [1.0, 2.0, 3.0])], &[]);
    let left = with(&said, "That leaves");
    assert!(left.contains("`b` (by `a`)"), "{left}");
    assert!(left.contains("That leaves `a` and `c`"), "{left}");
}

#[test]
fn nobody_is_beaten_where_a_phase_shows_nothing() {
    let short = (1, "fill", json!({"not_ranked": {"code": "too-short", "ops": 3, "seconds": 0.001}}));
    let said = sentences(&[("fill", [1.0, 2.0, 0.5]), ("read-warm", [1.0, 2.0, 3.0])], &[short]);
    with(&said, "No candidate is beaten everywhere by another");
}

/// Returns a sweep over these stores: its text, the plan and its sizes.
fn sweep_of(stores: &[String]) -> (String, Plan, Vec<u64>) {
    let text = format!("stores = {stores:?}\nphases = ['fill', 'read-warm']\nsweep = '1kB..100kB'");
    let plan = PlanText::parse(&text).unwrap().resolve(false).unwrap();
    let sizes: Vec<u64> = plan.corpora.iter().filter_map(|corpus| corpus.corpus_id.bytes()).collect();
    (text, plan, sizes)
}

#[test]
fn nobody_leads_at_a_size_at_which_it_is_not_ranked() {
    let stores = some_stores();
    let (text, plan, sizes) = sweep_of(&stores);
    // The first candidate leads wherever it is ranked.
    let said = |unranked: &[usize]| {
        let mut cells = Vec::new();
        for (index, size) in sizes.iter().enumerate() {
            let (first, second) = match unranked.contains(&index) {
                true => {
                    (json!({"leader": false, "not_ranked": {"code": "mostly-harness", "share": 0.4}}), true)
                }
                false => (json!({"leader": true}), false),
            };
            for (store, over) in [(&stores[0], first), (&stores[1], json!({"leader": second}))] {
                let mut value = cell(store, "read-warm", &around(1.0, 0), over);
                value["corpus_id"] = json!(size);
                cells.push(value);
            }
        }
        let said = answer(&plan, &result(&text, cells, vec![]));
        with(&said, "Warm reads").replace(&stores[0], "a").replace(&stores[1], "b")
    };
    let last = sizes.len() - 1;
    let to = |index: usize| format!(" to {}", crate::units::bytes(sizes[index] as f64));
    assert!(said(&[]).contains(&format!("{}; the winner does not change", to(last))), "{}", said(&[]));
    let cut = said(&[last - 1, last]);
    assert!(cut.contains("`a` leads at every size") && cut.contains(&to(last - 2)), "{cut}");
    assert!(!cut.contains(&to(last)) && cut.contains("Not ranked: `a` at"), "{cut}");
    assert!(!cut.contains("does not change") && cut.contains("others lead: `b` at"), "{cut}");
    let gap = said(&[1]);
    assert!(gap.contains(&to(last)) && gap.contains("at which it is ranked"), "{gap}");
}

#[test]
fn a_sweep_of_too_few_rounds_names_nobody() {
    let stores = some_stores();
    let (text, plan, sizes) = sweep_of(&stores);
    let mut cells = Vec::new();
    for size in &sizes {
        for store in stores.iter().take(2) {
            let over = json!({"leader": false, "corpus_id": size});
            cells.push(cell(store, "read-warm", &around(1.0, 0)[..2], over));
        }
    }
    let said = answer(&plan, &result(&text, cells, vec![]));
    let said = with(&said, "Warm reads");
    assert!(said.contains("too few rounds to tell; to find out: `--rounds 5`."), "{said}");
}

#[test]
fn a_size_at_which_nothing_is_decided_has_no_leader() {
    let stores = some_stores();
    let (text, plan, sizes) = sweep_of(&stores);
    // All candidates are ranked at every size.
    let said = |leads: &dyn Fn(usize) -> [bool; 2]| {
        let mut cells = Vec::new();
        for (index, size) in sizes.iter().enumerate() {
            for (store, leader) in stores.iter().zip(leads(index)) {
                let over = json!({"leader": leader, "corpus_id": size});
                cells.push(cell(store, "read-warm", &around(1.0, 0), over));
            }
        }
        renamed(&stores, with(&answer(&plan, &result(&text, cells, vec![])), "Warm reads"))
    };
    let last = sizes.len() - 1;
    let at = |index: usize| crate::units::bytes(sizes[index] as f64);
    assert_eq!(said(&|_| [false, false]), "Warm reads: at no size is it decided who leads.");
    let gap = said(&|index| [index != 1, false]);
    assert!(gap.contains(&format!("{} at which that is decided. ", at(last))), "{gap}");
    assert!(gap.ends_with(&format!("Undecided at {}.", at(1))), "{gap}");
    let only = said(&|index| [index == last, false]);
    assert!(only.starts_with(&format!("Warm reads: `a` leads at {}. Undecided at ", at(last))), "{only}");
    // Nothing is said of sizes beyond the last one.
    let change = said(&|index| [index == 0, index == last]);
    assert!(change.ends_with(&format!(", undecided from there to {0}; at {0} `b`.", at(last))), "{change}");
}

#[test]
fn who_is_ranked_apart_is_named_in_a_sweep_and_in_a_growth() {
    let stores = some_stores();
    let own = || json!({"durability": "each-write", "own_durability": "each-write", "leader": true});
    let (text, plan, sizes) = sweep_of(&stores);
    let mut cells = Vec::new();
    for size in &sizes {
        for (store, mut over) in stores.iter().zip([own(), own(), json!({})]) {
            over["corpus_id"] = json!(size);
            cells.push(cell(store, "read-warm", &around(1.0, 0), over));
        }
    }
    let said = answer(&plan, &result(&text, cells, vec![]));
    let sweep = renamed(&stores, with(&said, "Warm reads"));
    assert!(sweep.ends_with("does not change. `c` is ranked apart from them."), "{sweep}");
    let text = format!("stores = {stores:?}\ngrow = '100,200'\nphases = ['fill', 'read-warm']");
    let mut cells = Vec::new();
    for phase in ["read-warm.100", "read-warm.200"] {
        for (store, over) in stores.iter().zip([json!({}), json!({}), own()]) {
            cells.push(cell(store, phase, &around(1.0, 0), over));
        }
    }
    let growth = renamed(&stores, with(&answered(&text, cells), "by number of blobs"));
    assert!(growth.ends_with("`c` is ranked apart from them: kept in class each-write."), "{growth}");
}

#[test]
fn who_shares_the_lead_at_some_sizes_is_named() {
    let stores = some_stores();
    let (text, plan, sizes) = sweep_of(&stores);
    let mut cells = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        for (store, leader) in [(&stores[0], true), (&stores[1], index == 1)] {
            let over = json!({"leader": leader, "corpus_id": size});
            cells.push(cell(store, "read-warm", &around(1.0, 0), over));
        }
    }
    let said = answer(&plan, &result(&text, cells, vec![]));
    let warm = with(&said, "Warm reads").replace(&stores[0], "a").replace(&stores[1], "b");
    let at = crate::units::bytes(sizes[1] as f64);
    assert!(warm.contains("`a` leads at every size") && !warm.contains("does not change"), "{warm}");
    assert!(warm.contains(&format!("The lead is shared with `b` at {at}.")), "{warm}");
}

#[test]
fn the_processors_of_workers_and_servers_are_said_where_they_were_pinned_apart() {
    let plan = blobwise_engine::engine::work::resolved("stores = ['memory', 'null']\nphases = ['fill']");
    let mut run = result("", vec![cell("memory", "fill", &around(1.0, 0), json!({}))], Vec::new());
    let said = |run: &RunResult| answer(&plan, run).remove(0);
    assert!(!said(&run).contains("processors"), "{}", said(&run));
    run.machine.pinned = Some(crate::result::ProcessorSplit { workers: vec![0], servers: vec![1, 2] });
    assert!(said(&run).contains(" | workers on 0, servers on 1, 2 (processors) | "), "{}", said(&run));
}
