//! Doubts that follow from the figures: reasons not to trust a number, as data.

use std::collections::BTreeSet;

use super::cells::{p50, series, waits_for_a_process, writes};
use super::compare::{Series, rank};
use super::{disturbed, rails, ranking};
use crate::plan::text::{COLD_BLOBS_SERVERS, Design, Order, Phase, Transaction, Use, whole_of};
use crate::result::{Cache, Cell, Doubt, RowResult, RunResult, Status, VerifiedFrom};
use crate::rules::{
    CAUGHT_UP_SHARE, COMPRESSIBLE, HARNESS_SHARE_DOUBTED, OVERRUN_MAX, RESIDENT_SHARE_MAX, VERDICT_ROUNDS,
    WAKE_LATE_SHARE, WAKING_SHARE, WAY_VARIES,
};
use crate::units;

/// Every doubt that the figures of a result raise.
pub fn from_figures(plan: &Design, result: &RunResult) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    doubts.extend(rounds(result));
    doubts.extend(budget(plan, result));
    doubts.extend(rails::drift(result));
    doubts.extend(disturbed::doubts(plan, result));
    doubts.extend(short(plan, result));
    doubts.extend(harness(result));
    doubts.extend(waking(plan, result));
    doubts.extend(kept_awake(plan, result));
    doubts.extend(use_of_bytes(plan, result));
    doubts.extend(cold(result));
    doubts.extend(attempts(result));
    doubts.extend(put_off(result));
    doubts.extend(caught_up(result));
    doubts.extend(compared_in_caches(result));
    doubts.extend(open_loops(result));
    doubts.extend(contents(result));
    doubts.extend(distance(result));
    doubts.extend(same_blob(plan, result));
    doubts
}

fn rounds(result: &RunResult) -> Vec<Doubt> {
    let rounds = result.results.iter().map(|cell| cell.rounds.len()).max().unwrap_or(0);
    let mut doubts = Vec::new();
    if (1..VERDICT_ROUNDS as usize).contains(&rounds) {
        let text = if rounds < 2 {
            "There is one round: nothing can be said about repetition, and nothing is ranked.".to_owned()
        } else {
            format!(
                "There are {rounds} rounds; with fewer than {VERDICT_ROUNDS} intervals are wide and verdicts are not to be quoted."
            )
        };
        doubts.push(Doubt::new("few-rounds", text, Some("`--rounds 5`, or a larger `--budget`")));
    }
    if !result.complete {
        let missing = if rounds == 0 { "all rounds are missing" } else { "some rounds are missing" };
        let text = format!("The run was ended early: {missing}.");
        doubts.push(Doubt::new("incomplete", text, Some("go on with `blobwise run --resume DIR`")));
    }
    doubts
}

fn budget(plan: &Design, result: &RunResult) -> Option<Doubt> {
    let asked = plan.budget?.as_secs_f64();
    let took = result.program.seconds;
    (took > asked * OVERRUN_MAX && took > asked + 5.0).then(|| {
        let text = format!(
            "The run took {} instead of {}: less than that measures nothing here.",
            units::seconds(took),
            units::seconds(asked)
        );
        Doubt::new("over-budget", text, Some("fewer stores (`--stores`) or phases (`--phases`)"))
    })
}

/// One doubt for all cells of a kind, or a long table of them would hide the others.
fn collect(
    result: &RunResult,
    kind: &str,
    is: impl Fn(&Cell) -> bool,
    text: impl Fn(&str) -> String,
    advice: Option<&str>,
) -> Option<Doubt> {
    let cells: Vec<&Cell> = result.results.iter().filter(|cell| is(cell)).collect();
    if cells.is_empty() {
        return None;
    }
    let mut stores: Vec<String> = cells.iter().map(|cell| cell.store.clone()).collect();
    stores.sort();
    stores.dedup();
    Some(Doubt { stores, ..Doubt::new(kind, text(&places(result, &cells)), advice) })
}

/// The phases and rows of these cells in few words: the parts of a phase are told as one, phases with the same rows together.
fn places(result: &RunResult, cells: &[&Cell]) -> String {
    let is_row = |row: &&RowResult| row.status == Status::Measured && !row.is_reference();
    let every: Vec<&str> = result.rows.iter().filter(is_row).map(|row| row.store.as_str()).collect();
    let mut by_phase: Vec<(&str, Vec<&str>)> = Vec::new();
    for cell in cells {
        let (phase, store) = (whole_of(&cell.phase), cell.store.as_str());
        match by_phase.iter_mut().find(|(other, _)| *other == phase) {
            Some((_, stores)) if stores.contains(&store) => {}
            Some((_, stores)) => stores.push(store),
            None => by_phase.push((phase, vec![store])),
        }
    }
    let mut by_rows: Vec<(String, Vec<String>)> = Vec::new();
    for (phase, stores) in by_phase {
        let of_these = |cell: &&Cell| whole_of(&cell.phase) == phase && stores.contains(&cell.store.as_str());
        let all = result.results.iter().filter(of_these).count();
        let meant = cells.iter().copied().filter(of_these).count();
        let name = if meant < all { format!("{phase} in part") } else { phase.to_owned() };
        let are_all = every.len() > 2 && every.iter().all(|row| stores.contains(row));
        let rows = if are_all { "every row".to_owned() } else { stores.join(", ") };
        match by_rows.iter_mut().find(|(other, _)| *other == rows) {
            Some((_, phases)) => phases.push(name),
            None => by_rows.push((rows, vec![name])),
        }
    }
    let list: Vec<String> =
        by_rows.iter().map(|(rows, phases)| format!("{} ({rows})", phases.join(", "))).collect();
    list.join("; ")
}

fn short(plan: &Design, result: &RunResult) -> Option<Doubt> {
    // More blobs make no more openings.
    let opens = |phase: &Phase| phase.deed().is_some_and(|deed| deed.reopens);
    let reopens = |cell: &Cell| plan.phases.iter().any(|phase| phase.id == cell.phase && opens(phase));
    let is_short = |cell: &Cell| ranking::is_too_short(cell) && !reopens(cell);
    let help = if result.results.iter().any(ranking::is_cut_short) && result.plan.corpora.is_empty() {
        format!(
            "more blobs (`--blobs`; {COLD_BLOBS_SERVERS} for `read-cold` of a server), and a larger `--budget`"
        )
    } else {
        "more blobs (`--blobs`), or five rounds (a larger `--budget`, or `--rounds 5`)".to_owned()
    };
    let text = |list: &str| format!("Too short to be ranked: {list}.");
    collect(result, "too-short", is_short, text, Some(&help))
}

fn harness(result: &RunResult) -> Vec<Doubt> {
    let measured = |cell: &Cell| !ranking::is_yardstick(cell);
    let share = |cell: &Cell| cell.harness_share.unwrap_or(0.0);
    let limit = ranking::HARNESS_SHARE_MAX;
    let some = collect(
        result,
        "harness-share",
        |cell| measured(cell) && share(cell) > HARNESS_SHARE_DOUBTED && share(cell) <= limit,
        |list| format!("More than 10 % of an op is the harness: the stores are faster than shown in {list}."),
        None,
    );
    let much = collect(
        result,
        "client-bound",
        |cell| measured(cell) && share(cell) > limit,
        |list| format!("Not ranked, because more than 30 % of an op is the harness: {list}."),
        None,
    );
    some.into_iter().chain(much).collect()
}

/// Ops of one worker that are mostly two processors waking each other: another machine, or more workers, may make them several
/// times faster, and stores inside the process no faster at all.
fn waking(plan: &Design, result: &RunResult) -> Option<Doubt> {
    let trips = rails::trips(result)?;
    let waits = |cell: &Cell| {
        let takes = p50(cell).map_or(0.0, |p50| p50 as f64);
        // Where an op takes much less than the way, the kernel has put both sides on one processor.
        let wakes = trips.ns <= WAY_VARIES * takes && trips.waking_ns() > WAKING_SHARE * takes;
        wakes && waits_for_a_process(cell)
    };
    let (far, near) = (units::nanoseconds(trips.ns), units::nanoseconds(trips.near_ns));
    let text = |list: &str| {
        format!(
            "A third of an op or more is processors waking each other: a byte to a thread on another and back takes {far} here, \
             and {near} to one on the same. Where waking takes less, these are faster, and stores inside the process are not: {list}."
        )
    };
    let advice = if plan.awake {
        "measure on a machine like the one that is to serve"
    } else {
        "measure on a machine like the one that is to serve, or with `--awake` (as root): such a machine is seldom idle"
    };
    collect(result, "waking", waits, text, Some(advice))
}

/// Processors that were asked not to sleep: what is served where they do is served later.
fn kept_awake(plan: &Design, result: &RunResult) -> Option<Doubt> {
    let trips =
        rails::trips(result).filter(|_| plan.awake && result.results.iter().any(waits_for_a_process))?;
    let (far, near) = (units::nanoseconds(trips.ns), units::nanoseconds(trips.near_ns));
    let text = format!(
        "The processors were asked not to sleep (`--awake`): a byte to a thread on another and back took {far}, and {near} to one on \
         the same. Where they sleep, other processes answer later."
    );
    Some(Doubt::new("awake", text, Some("run again without `--awake` to see how much later here")))
}

/// Whether the winner of warm reads is another one when every byte is copied, among rows that may be compared.
fn use_of_bytes(plan: &Design, result: &RunResult) -> Option<Doubt> {
    let phase_of = |wanted: Use| {
        plan.phases.iter().find_map(|phase| match phase.plain_load() {
            Some(load)
                if load.use_bytes == wanted
                    && load.only_reads()
                    && load.transaction != Some(Transaction::Phase)
                    && phase.cache == crate::plan::text::CacheState::Warm =>
            {
                Some(phase.id.clone())
            }
            _ => None,
        })
    };
    let (touch, copy) = (phase_of(Use::Touch)?, phase_of(Use::Copy)?);
    let cell_of = |phase: &str, store: &str| {
        result.results.iter().any(|cell| {
            cell.phase == phase && cell.store == store && cell.corpus_id.is_only() && !cell.rounds.is_empty()
        })
    };
    let leaders = |phase: &str, group: &str| -> Option<Vec<String>> {
        let rows: Vec<Series> = result
            .results
            .iter()
            .filter(|cell| cell.phase == phase && cell.corpus_id.is_only() && !cell.rounds.is_empty())
            .filter(|cell| ranking::ranked_with(cell) == group)
            // A phase may be for some rows only.
            .filter(|cell| cell_of(&touch, &cell.store) && cell_of(&copy, &cell.store))
            // Rows that copy so fast that the copying is most of an op still tell who wins.
            .filter(|cell| cell.not_ranked.as_ref().is_none_or(|why| why.starts_with("client-bound")))
            .map(series)
            .collect();
        rank(&rows).map(|ranking| ranking.leaders)
    };
    let groups: BTreeSet<String> =
        result.results.iter().filter(|cell| cell.phase == copy).map(ranking::ranked_with).collect();
    let (touch, copy) = groups.iter().find_map(|group| {
        let (touch, copy) = (leaders(&touch, group)?, leaders(&copy, group)?);
        (!touch.iter().any(|leader| copy.contains(leader))).then_some((touch, copy))
    })?;
    let text = format!(
        "The winner depends on what is done with the bytes: {} when one byte of each cache line is read, {} when all are copied.",
        touch.join(", "),
        copy.join(", ")
    );
    Some(Doubt::new("use-of-bytes", text, Some("decide by the one that is like your program")))
}

fn cold(result: &RunResult) -> Vec<Doubt> {
    let measured = |cell: &Cell| !ranking::is_yardstick(cell);
    let resident = collect(
        result,
        "resident",
        |cell| measured(cell) && cell.not_ranked.as_ref().is_some_and(|why| why.starts_with("resident")),
        |list| {
            format!(
                "Not cold, though everything was evicted, because the store reads its data when it is opened: {list}."
            )
        },
        Some("a corpus larger than the store's cache"),
    );
    let lukewarm = collect(
        result,
        "still-in-memory",
        |cell| {
            let share = cell.cache_proof.as_ref().and_then(|proof| proof.resident_share).unwrap_or(0.0);
            measured(cell) && cell.cache == Cache::Lukewarm && share > RESIDENT_SHARE_MAX
        },
        |list| format!("Part of the data stayed in the page cache after eviction: {list}."),
        None,
    );
    resident.into_iter().chain(lukewarm).collect()
}

fn attempts(result: &RunResult) -> Vec<Doubt> {
    let count = |of: &dyn Fn(&Cell) -> u64| result.results.iter().map(of).sum::<u64>();
    let (retries, timeouts) = (count(&|cell| cell.counters.retries), count(&|cell| cell.counters.timeouts));
    // A cold phase is about caches that are empty.
    let misses_of = |cell: &Cell| if cell.cache == Cache::Cold { 0 } else { cell.counters.cache_misses };
    let misses = count(&misses_of);
    let mut doubts = Vec::new();
    if retries > 0 {
        let text = |list: &str| {
            format!(
                "{retries} attempts were made again because a store was busy or had closed the connection: {list}."
            )
        };
        doubts.extend(collect(
            result,
            "retries",
            |cell| cell.counters.retries > 0,
            text,
            Some("fewer `--workers`"),
        ));
    }
    if misses > 0 {
        let text = |list: &str| {
            format!(
                "{misses} answers were not in the cache that stands before the blobs and came from behind it: {list}."
            )
        };
        doubts.extend(collect(result, "cache-misses", |cell| misses_of(cell) > 0, text, None));
    }
    if timeouts > 0 {
        let text = |list: &str| {
            format!("{timeouts} ops were given up because a store did not answer in time: {list}.")
        };
        doubts.extend(collect(
            result,
            "timeouts",
            |cell| cell.counters.timeouts > 0,
            text,
            Some("a longer `--op-timeout`"),
        ));
    }
    doubts
}

fn open_loops(result: &RunResult) -> Vec<Doubt> {
    let late = |cell: &Cell| {
        let p50 = cell.response_ns.and_then(|response| response.p50).unwrap_or(u64::MAX) as f64;
        let late =
            cell.rounds.iter().filter_map(|round| round.open.as_ref()).map(|open| open.wake_late_p50_ns);
        late.max().unwrap_or(0) as f64 > WAKE_LATE_SHARE * p50
    };
    collect(
        result,
        "wake-late",
        late,
        |list| format!("Workers woke late for their ops by more than 10 % of the median response: {list}."),
        Some("response times this short are better measured in a closed loop"),
    )
    .into_iter()
    .collect()
}

/// Round trips that were made by delaying are not yet a network.
fn distance(result: &RunResult) -> Option<Doubt> {
    result.results.iter().any(|cell| cell.traits.is_far()).then(|| {
        let text = "Distance was made by a proxy that delays and does nothing else. A real network also begins slowly (about \
                    14 kB in the first round trip), loses packets and has a limited bandwidth: what is large or comes over many \
                    connections is slower there than here.";
        Doubt::new("distance", text.to_owned(), None)
    })
}

/// Reads that ask for one blob again and again, as load generators do by default.
fn same_blob(plan: &Design, result: &RunResult) -> Option<Doubt> {
    let asks_one =
        |phase: &&Phase| phase.load().is_some_and(|load| load.order == Order::Same && load.only_reads());
    let was_done =
        |phase: &&Phase| result.results.iter().any(|cell| cell.phase == phase.id && !cell.rounds.is_empty());
    let phases = plan.phases.iter().filter(asks_one).filter(was_done);
    let phases: Vec<&str> = phases.map(|phase| phase.id.as_str()).collect();
    (!phases.is_empty()).then(|| {
        let text = format!(
            "Every op of {} asks for one and the same blob: caches of every kind answer, down to the processor's.",
            phases.join(", ")
        );
        Doubt::new("same-blob", text, Some("`order = \"once\"` or `\"zipfian:0.99\"` in the plan's phase"))
    })
}

/// Whose put-off work nobody waits for.
fn put_off(result: &RunResult) -> Option<Doubt> {
    let is = |cell: &Cell| cell.traits.is_external && writes(cell) && !cell.rounds.is_empty();
    let text = |places: &str| {
        format!(
            "What servers given by URL put off, such as checkpoints, is not asked for and not waited for: their writes are counted until \
             they were acknowledged, where those of other rows are counted until all is done ({places})."
        )
    };
    collect(result, "not-settled", is, text, Some("private servers, or the column of acknowledged rates"))
}

/// Rows that did much of their writes' work between phases, where it is in no rate.
fn caught_up(result: &RunResult) -> Option<Doubt> {
    let share_of = |store: &str| {
        let cells = result.results.iter().filter(|cell| cell.store == store);
        let rounds = || cells.clone().flat_map(|cell| &cell.rounds);
        let caught_up: f64 = rounds().filter_map(|round| round.caught_up_seconds).sum();
        let settled: f64 = rounds().filter_map(|round| round.settled_seconds).sum();
        caught_up / settled.max(f64::MIN_POSITIVE)
    };
    let found: Vec<(&str, f64)> = result
        .rows
        .iter()
        .map(|row| (row.store.as_str(), share_of(&row.store)))
        .filter(|(_, share)| *share > CAUGHT_UP_SHARE)
        .collect();
    (!found.is_empty()).then(|| {
        let shares: Vec<String> =
            found.iter().map(|(store, share)| format!("{store}: {:.0} %", share * 100.0)).collect();
        let text = format!(
            "Work that was not due yet, such as compacting, was done between phases, so that it falls into none of them: it is in no \
             rate. Its time as a share of that of the phases that write: {}.",
            shares.join(", ")
        );
        let stores = found.iter().map(|(store, _)| (*store).to_owned()).collect();
        Doubt { stores, ..Doubt::new("caught-up", text, None) }
    })
}

/// Rows of which nothing shows that their devices have what was put.
fn compared_in_caches(result: &RunResult) -> Option<Doubt> {
    use VerifiedFrom::{KernelCache, RunningServer, SharedServer, UsersServer};
    let rows_of = |from: VerifiedFrom| -> Vec<&str> {
        let rows = result.rows.iter().filter(|row| row.verified_from == Some(from));
        rows.map(|row| row.store.as_str()).collect()
    };
    let kinds = [KernelCache, RunningServer, SharedServer, UsersServer].map(|from| (from, rows_of(from)));
    let kinds: Vec<_> = kinds.into_iter().filter(|(_, rows)| !rows.is_empty()).collect();
    if kinds.is_empty() {
        return None;
    }
    let list: Vec<String> =
        kinds.iter().map(|(from, rows)| format!("{} ({})", rows.join(", "), from.name())).collect();
    let text = format!(
        "Every blob was compared, but perhaps with what a cache had, and not with what is on the device: {}.",
        list.join("; ")
    );
    let stores = kinds.iter().flat_map(|(_, rows)| rows).map(|store| (*store).to_owned()).collect();
    Some(Doubt {
        stores,
        ..Doubt::new("compared-in-cache", text, Some("private servers, each row its own, on a disk"))
    })
}

fn contents(result: &RunResult) -> Option<Doubt> {
    (result.corpus.zstd_ratio > COMPRESSIBLE && !result.shows_pages()).then(|| {
        let text = format!(
            "The blobs are compressible ({:.1} times by zstd): stores that compress do better here than with images or archives.",
            result.corpus.zstd_ratio
        );
        Doubt::new("compressible", text, None)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::places;
    use crate::judge::fixture::{around, cell, result};
    use crate::result::{Cell, Round};

    #[test]
    fn work_between_phases_is_told_with_its_share() {
        let round = |settled, caught_up| Round {
            settled_seconds: Some(settled),
            caught_up_seconds: Some(caught_up),
            ..Round::default()
        };
        let cells = ["a", "b"].map(|store| cell(store, "overwrite", &[], json!({})));
        let mut result = result("", cells.to_vec(), Vec::new());
        result.results[0].rounds = vec![round(2.0, 0.1), round(2.0, 0.9)];
        result.results[1].rounds = vec![round(2.0, 0.1), round(2.0, 0.2)];
        let row = |store: &str| json!({"store": store, "adapter": "a", "kind": "embedded", "options": {}, "status": "measured", "facts": {}});
        result.rows = ["a", "b"].iter().map(|store| serde_json::from_value(row(store)).unwrap()).collect();
        let doubt = super::caught_up(&result).unwrap();
        assert_eq!(doubt.stores, ["a"]);
        assert!(doubt.text.ends_with("phases that write: a: 25 %."), "{}", doubt.text);
        result.rows.remove(0);
        assert_eq!(super::caught_up(&result), None);
    }

    #[test]
    fn the_winner_when_bytes_are_copied_is_one_of_its_own_class() {
        let plan = crate::plan::resolved("phases = ['fill', 'read-warm', 'read-copy']");
        let told = |own: serde_json::Value| {
            let of = |store: &str, phase: &str, level: f64, salt: usize, over: &serde_json::Value| {
                cell(store, phase, &around(level, salt), over.clone())
            };
            let cells = vec![
                of("a", "read-warm", 1.0, 0, &json!({})),
                of("a", "read-copy", 2.0, 1, &json!({})),
                of("b", "read-warm", 2.0, 2, &own),
                of("b", "read-copy", 1.0, 3, &own),
            ];
            super::use_of_bytes(&plan, &result("", cells, Vec::new())).is_some()
        };
        assert!(told(json!({})));
        assert!(!told(json!({"own_durability": "each-write"})));
    }

    #[test]
    fn rows_that_were_compared_in_a_cache_are_named_by_why() {
        let mut result = result("", Vec::new(), Vec::new());
        let row = |store: &str, from: &str| {
            json!({"store": store, "adapter": "a", "kind": "server", "options": {}, "status": "measured", "facts": {},
                   "verified_from": from})
        };
        let mut said = |rows: &[(&str, &str)]| {
            let rows = rows.iter().map(|(store, from)| serde_json::from_value(row(store, from)).unwrap());
            result.rows = rows.collect();
            super::compared_in_caches(&result)
        };
        assert_eq!(said(&[("a", "device"), ("b", "not-kept")]), None);
        let doubt =
            said(&[("a", "device"), ("b", "users-server"), ("c", "users-server"), ("d", "shared-server")]);
        let doubt = doubt.unwrap();
        assert_eq!(doubt.stores, ["d", "b", "c"]);
        assert!(
            doubt.text.contains("; b, c (its server's cache: given by URL, not restarted)"),
            "{}",
            doubt.text
        );
    }

    #[test]
    fn parts_and_phases_with_the_same_rows_are_told_once() {
        let phases = ["fill", "first.01", "first.02", "second.01", "second.02"];
        let cells =
            ["a", "b", "c"].iter().flat_map(|store| phases.map(|phase| cell(store, phase, &[], json!({}))));
        let mut result = result("", cells.collect(), vec![]);
        let of = |result: &crate::result::RunResult, is: &dyn Fn(&Cell) -> bool| {
            places(result, &result.results.iter().filter(|cell| is(cell)).collect::<Vec<_>>())
        };
        let row = |store: &str| json!({"store": store, "adapter": "a", "kind": "embedded", "options": {}, "status": "measured", "facts": {}});
        result.rows =
            ["a", "b", "c"].iter().map(|store| serde_json::from_value(row(store)).unwrap()).collect();
        assert_eq!(of(&result, &|_| true), "fill, first, second (every row)");
        assert_eq!(of(&result, &|cell| cell.store != "b" && cell.phase != "fill"), "first, second (a, c)");
        assert_eq!(
            of(&result, &|cell| cell.phase == "first.02" || cell.store == "a" && cell.phase == "fill"),
            "fill (a); first in part (every row)"
        );
    }
}
