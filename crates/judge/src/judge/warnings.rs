//! Warnings derived from the figures: reasons not to trust a number, as data.

use std::collections::{BTreeMap, BTreeSet};

use super::cells::{device_bytes_per_byte, p50, series, waits_for_a_process, writes};
use super::compare::{Series, rank};
use super::{disturbed, limit, probes, ranking};
use crate::plan::text::{Design, Order, Phase, ReadSink, Transaction, whole_of};
use crate::result::{
    AffectedPhase, AffectedPhases, Cache, CandidateResult, CandidateShare, Cell, ComparisonSource, Kind,
    Reason, Round, RunResult, Status, VerifiedFrom, Warning, shares_of_median,
};
use crate::rules::{
    CAUGHT_UP_SHARE, COMPRESSIBLE, HARNESS_SHARE_WARNED, KERNEL_HARDLY_HOLDS_MAX, KERNEL_HOLDS_MIN,
    LIMIT_AHEAD_SHARE, OVERRUN_MAX, PUT_OFF_MS_MAX, PUT_OFF_MS_MIN, READS_MORE_TIMES, RESIDENT_SHARE_MAX,
    SLOW_CLIENT_SHARE, VERDICT_ROUNDS, WAKE_LATE_SHARE, WAKING_SHARE, WAY_VARIES,
};
use crate::units;

/// Returns all warnings that the figures of a result raise.
pub fn from_figures(plan: &Design, result: &RunResult) -> Vec<Warning> {
    let mut warnings = Vec::new();
    warnings.extend(rounds(result));
    warnings.extend(budget(plan, result));
    warnings.extend(probes::drift(result));
    warnings.extend(disturbed::warnings(plan, result));
    warnings.extend(short(plan, result));
    warnings.extend(harness(result));
    warnings.extend(waking(plan, result));
    warnings.extend(put_off_acknowledgements(result));
    warnings.extend(kept_awake(plan, result));
    warnings.extend(use_of_bytes(plan, result));
    warnings.extend(cold(result));
    warnings.extend(attempts(result));
    warnings.extend(slow_clients(result));
    warnings.extend(one_for_each_client(result));
    warnings.extend(put_off(result));
    warnings.extend(caught_up(result));
    warnings.extend(compared_in_caches(result));
    warnings.extend(open_loops(result));
    warnings.extend(unequal_memory(plan, result));
    warnings
        .extend(plan.cache.map(|cache| Warning::OwnCache { cache_bytes: cache.bytes(result.corpus.bytes) }));
    warnings.extend(reads_more(result));
    warnings.extend(contents(result));
    warnings.extend(left_out(result));
    warnings.extend(distance(result));
    warnings.extend(same_blob(plan, result));
    warnings.extend(ahead_of_limit(plan, result));
    warnings
}

fn rounds(result: &RunResult) -> Vec<Warning> {
    let rounds = result.rounds_begun();
    if !result.complete {
        // The warning contains the number of rounds.
        return vec![Warning::Incomplete { rounds }];
    }
    let few = (1..VERDICT_ROUNDS).contains(&rounds).then_some(Warning::FewRounds { rounds });
    few.into_iter().collect()
}

fn budget(plan: &Design, result: &RunResult) -> Option<Warning> {
    let asked_seconds = plan.budget?.as_secs_f64();
    let took_seconds = result.program.seconds;
    (took_seconds > asked_seconds * OVERRUN_MAX && took_seconds > asked_seconds + 5.0)
        .then_some(Warning::OverBudget { asked_seconds, took_seconds })
}

/// Returns where a condition holds for cells; `None` if nowhere. There is one warning for all of them, because a long
/// list would hide the others.
fn anywhere(result: &RunResult, is: impl Fn(&Cell) -> bool) -> Option<Vec<AffectedPhases>> {
    let cells: Vec<&Cell> = result.results.iter().filter(|cell| is(cell)).collect();
    (!cells.is_empty()).then(|| places(result, &cells))
}

/// Groups cells into phases and candidates: the parts of a phase are listed as one, and phases with the same candidates
/// together.
fn places(result: &RunResult, cells: &[&Cell]) -> Vec<AffectedPhases> {
    let is_candidate =
        |candidate: &&CandidateResult| candidate.status == Status::Measured && !candidate.is_baseline();
    let every: Vec<&str> =
        result.candidates.iter().filter(is_candidate).map(|candidate| candidate.store.as_str()).collect();
    let by_phase = units::grouped(cells.iter().map(|cell| (whole_of(&cell.phase), cell.store.as_str())));
    let mut places: Vec<AffectedPhases> = Vec::new();
    for (phase, stores) in by_phase {
        let of_these = |cell: &&Cell| whole_of(&cell.phase) == phase && stores.contains(&cell.store.as_str());
        let all = result.results.iter().filter(of_these).count();
        let meant = cells.iter().copied().filter(of_these).count();
        let phase = AffectedPhase { phase: phase.to_owned(), in_part: meant < all };
        let every_candidate = every.len() > 2 && every.iter().all(|candidate| stores.contains(candidate));
        let same =
            |place: &&mut AffectedPhases| place.stores == stores || place.every_candidate && every_candidate;
        match places.iter_mut().find(same) {
            Some(place) => place.phases.push(phase),
            None => {
                let stores = stores.into_iter().map(str::to_owned).collect();
                places.push(AffectedPhases { phases: vec![phase], stores, every_candidate });
            }
        }
    }
    places
}

fn short(plan: &Design, result: &RunResult) -> Option<Warning> {
    // More blobs do not make more openings.
    let opens = |phase: &Phase| phase.custom_action().is_some_and(|action| action.reopens);
    let reopens = |cell: &Cell| plan.phases.iter().any(|phase| phase.id == cell.phase && opens(phase));
    let is_short = |cell: &Cell| ranking::is_too_short(cell) && !reopens(cell);
    let is_cut_short = result.results.iter().any(ranking::is_cut_short) && result.plan.corpora.is_empty();
    let (places, is_growth) = (anywhere(result, is_short)?, result.plan.grow.is_some());
    Some(Warning::TooShort { places, is_cut_short, is_growth })
}

fn harness(result: &RunResult) -> Vec<Warning> {
    let share = |cell: &Cell| cell.harness_share.filter(|_| !ranking::is_baseline(cell)).unwrap_or(0.0);
    let limit = ranking::HARNESS_SHARE_MAX;
    let some = anywhere(result, |cell| share(cell) > HARNESS_SHARE_WARNED && share(cell) <= limit);
    let much = anywhere(result, |cell| share(cell) > limit);
    let some = some.map(|places| Warning::HarnessShare { places });
    some.into_iter().chain(much.map(|places| Warning::ClientBound { places })).collect()
}

/// Warns about ops of a single worker that consist mostly of CPUs waking each other. Another machine or more workers
/// may make them several times faster, but stores inside the process no faster at all.
fn waking(plan: &Design, result: &RunResult) -> Option<Warning> {
    let trips = probes::trips(result)?;
    let waits = |cell: &Cell| {
        let takes = p50(cell).map_or(0.0, |p50| p50 as f64);
        // If an op takes much less than a round trip, the kernel has placed both sides on one CPU.
        let wakes = trips.ns <= WAY_VARIES * takes && trips.waking_ns() > WAKING_SHARE * takes;
        wakes && waits_for_a_process(cell)
    };
    let places = anywhere(result, waits)?;
    Some(Warning::Waking { places, far_ns: trips.ns, near_ns: trips.near_ns, is_awake: plan.awake })
}

/// Warns about reads that are idle for most of their time and take as long as a delayed acknowledgement.
fn put_off_acknowledgements(result: &RunResult) -> Option<Warning> {
    let waits = |cell: &Cell| {
        let p50 = p50(cell).map_or(0.0, |p50| p50 as f64);
        let works = cell.total_cpu_ns_per_op.unwrap_or(0.0);
        let is_served = cell.traits.has_process && !cell.traits.is_far() && cell.kind != Some(Kind::Page);
        let as_long = (PUT_OFF_MS_MIN..=PUT_OFF_MS_MAX).contains(&(p50 / 1e6));
        is_served && !writes(cell) && cell.cache == Cache::Warm && as_long && works < p50 / 4.0
    };
    Some(Warning::PutOff { places: anywhere(result, waits)? })
}

/// Warns that CPUs were kept awake: where they sleep, responses take longer.
fn kept_awake(plan: &Design, result: &RunResult) -> Option<Warning> {
    let trips =
        probes::trips(result).filter(|_| plan.awake && result.results.iter().any(waits_for_a_process))?;
    Some(Warning::Awake { far_ns: trips.ns, near_ns: trips.near_ns })
}

/// Warns if another candidate wins warm reads when every byte is copied, among comparable candidates.
fn use_of_bytes(plan: &Design, result: &RunResult) -> Option<Warning> {
    let phase_of = |wanted: ReadSink| {
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
    let (touch, copy) = (phase_of(ReadSink::Touch)?, phase_of(ReadSink::Copy)?);
    let cell_of = |phase: &str, store: &str| {
        result.results.iter().any(|cell| {
            cell.phase == phase && cell.store == store && cell.corpus_id.is_only() && !cell.rounds.is_empty()
        })
    };
    let leaders = |phase: &str, group: &ranking::Comparability| -> Option<Vec<String>> {
        let candidates: Vec<Series> = result
            .results
            .iter()
            .filter(|cell| cell.phase == phase && cell.corpus_id.is_only() && !cell.rounds.is_empty())
            .filter(|cell| ranking::ranked_among(cell) == *group)
            // A phase may apply to some candidates only.
            .filter(|cell| cell_of(&touch, &cell.store) && cell_of(&copy, &cell.store))
            // Candidates whose op time is mostly copying still decide who wins.
            .filter(|cell| cell.not_ranked.as_ref().is_none_or(Reason::is_client_bound))
            .map(series)
            .collect();
        rank(&candidates).map(|ranking| ranking.leaders)
    };
    let groups: BTreeSet<ranking::Comparability> =
        result.results.iter().filter(|cell| cell.phase == copy).map(ranking::ranked_among).collect();
    let (touched, copied) = groups.iter().find_map(|group| {
        let (touch, copy) = (leaders(&touch, group)?, leaders(&copy, group)?);
        (!touch.iter().any(|leader| copy.contains(leader))).then_some((touch, copy))
    })?;
    Some(Warning::UseOfBytes { touched, copied })
}

fn cold(result: &RunResult) -> Vec<Warning> {
    let measured = |cell: &Cell| !ranking::is_baseline(cell);
    let resident =
        anywhere(result, |cell| measured(cell) && cell.not_ranked.as_ref().is_some_and(Reason::is_resident));
    let lukewarm = anywhere(result, |cell| {
        let share = cell.cache_proof.as_ref().and_then(|proof| proof.resident_share).unwrap_or(0.0);
        measured(cell) && cell.cache == Cache::Lukewarm && share > RESIDENT_SHARE_MAX
    });
    let resident = resident.map(|places| Warning::Resident { places });
    resident.into_iter().chain(lukewarm.map(|places| Warning::StillInMemory { places })).collect()
}

fn attempts(result: &RunResult) -> Vec<Warning> {
    let counted = |of: fn(&Cell) -> u64| {
        let number = result.results.iter().map(of).sum::<u64>();
        Some((number, anywhere(result, |cell| of(cell) > 0)?))
    };
    let retries = counted(|cell| cell.counters.retries);
    // Misses are the purpose of a cold phase.
    let misses = counted(|cell| if cell.cache == Cache::Cold { 0 } else { cell.counters.cache_misses });
    let timeouts = counted(|cell| cell.counters.timeouts);
    let warnings = [
        retries.map(|(attempts, places)| Warning::Retries { attempts, places }),
        misses.map(|(answers, places)| Warning::CacheMisses { answers, places }),
        timeouts.map(|(ops, places)| Warning::Timeouts { ops, places }),
    ];
    warnings.into_iter().flatten().collect()
}

/// Warns about clients that were slower than the others, with the phases and candidates affected.
fn slow_clients(result: &RunResult) -> Vec<Warning> {
    let share = |cell: &Cell, rank: u32| {
        let shares = shares_of_median(cell.rounds.iter().map(|round| round.clients.as_slice()));
        shares.into_iter().find(|(client, _)| *client == rank).map_or(1.0, |(_, share)| share)
    };
    let slow = |rank: u32| {
        let places = anywhere(result, |cell| share(cell, rank) < SLOW_CLIENT_SHARE)?;
        let least = result.results.iter().map(|cell| share(cell, rank)).fold(1.0, f64::min);
        Some(Warning::SlowClient { client: rank, share: least, places })
    };
    result.clients.iter().filter_map(|client| slow(client.rank)).collect()
}

/// Warns about stores that clients did not share.
fn one_for_each_client(result: &RunResult) -> Option<Warning> {
    let own = result.candidates.iter().filter(|candidate| candidate.is_one_for_each_client);
    let stores: Vec<String> = own.map(|candidate| candidate.store.clone()).collect();
    (!stores.is_empty()).then_some(Warning::OneForEachClient { clients: result.clients.len(), stores })
}

fn open_loops(result: &RunResult) -> Option<Warning> {
    let late = |cell: &Cell| {
        let p50 = cell.response_ns.and_then(|response| response.p50).unwrap_or(u64::MAX) as f64;
        let late =
            cell.rounds.iter().filter_map(|round| round.open.as_ref()).map(|open| open.wake_late_p50_ns);
        late.max().unwrap_or(0) as f64 > WAKE_LATE_SHARE * p50
    };
    Some(Warning::WakeLate { places: anywhere(result, late)? })
}

/// Warns that distance was simulated: delayed round trips are not a real network.
fn distance(result: &RunResult) -> Option<Warning> {
    result.results.iter().any(|cell| cell.traits.is_far()).then_some(Warning::Distance)
}

/// Warns about reads that request the same blob repeatedly, as load generators do by default.
fn same_blob(plan: &Design, result: &RunResult) -> Option<Warning> {
    let asks_one =
        |phase: &&Phase| phase.load().is_some_and(|load| load.order == Order::Same && load.only_reads());
    let was_done =
        |phase: &&Phase| result.results.iter().any(|cell| cell.phase == phase.id && !cell.rounds.is_empty());
    let phases = plan.phases.iter().filter(asks_one).filter(was_done);
    let phases: Vec<String> = phases.map(|phase| phase.id.clone()).collect();
    (!phases.is_empty()).then_some(Warning::SameBlob { phases })
}

/// Warns about writes whose deferred work is not waited for.
fn put_off(result: &RunResult) -> Option<Warning> {
    let is = |cell: &Cell| cell.traits.is_external && writes(cell) && !cell.rounds.is_empty();
    Some(Warning::NotSettled { places: anywhere(result, is)? })
}

/// Warns about candidates that did much of their writes' work between phases, where it counts in no rate.
fn caught_up(result: &RunResult) -> Option<Warning> {
    let share_of = |store: &str| {
        let cells = result.results.iter().filter(|cell| cell.store == store);
        let rounds = || cells.clone().flat_map(|cell| &cell.rounds);
        let caught_up: f64 = rounds().filter_map(|round| round.caught_up_seconds).sum();
        let settled: f64 = rounds().filter_map(|round| round.settled_seconds).sum();
        caught_up / settled.max(f64::MIN_POSITIVE)
    };
    let own = |candidate: &CandidateResult| CandidateShare {
        store: candidate.store.clone(),
        share: share_of(&candidate.store),
    };
    let shares: Vec<CandidateShare> =
        result.candidates.iter().map(own).filter(|own| own.share > CAUGHT_UP_SHARE).collect();
    (!shares.is_empty()).then_some(Warning::CaughtUp { shares })
}

/// Warns about candidates whose data was not verified on the device.
fn compared_in_caches(result: &RunResult) -> Option<Warning> {
    use VerifiedFrom::{KernelCache, RunningServer, SharedServer, UsersServer};
    let copy = |from: VerifiedFrom| {
        let candidates = result.candidates.iter().filter(|candidate| candidate.verified_from == Some(from));
        ComparisonSource { from, stores: candidates.map(|candidate| candidate.store.clone()).collect() }
    };
    let mut copies = [KernelCache, RunningServer, SharedServer, UsersServer].map(copy).to_vec();
    copies.retain(|copy| !copy.stores.is_empty());
    (!copies.is_empty()).then_some(Warning::ComparedInCache { copies })
}

/// Warns if some candidates had the page cache in addition to their own cache and others did not, while no cache of
/// their own holds the blobs.
fn unequal_memory(plan: &Design, result: &RunResult) -> Option<Warning> {
    // A memory limit makes memory equal; and caches sized as vendors recommend hold whatever fits into memory.
    let cache = plan.cache.filter(|_| plan.memory.is_none())?;
    let corpus_bytes_of = |cell: &Cell| result.corpus_of(cell.corpus_id).map_or(0, |corpus| corpus.bytes);
    let is_meant = |cell: &&Cell| {
        let is_warm_read = cell.cache == Cache::Warm && !writes(cell) && !cell.rounds.is_empty();
        let bytes = corpus_bytes_of(cell);
        is_warm_read && !ranking::is_baseline(cell) && bytes > cache.bytes(bytes)
    };
    let share = |cell: &Cell| {
        let shares: Vec<f64> = cell.rounds.iter().filter_map(|round| round.page_cache_share).collect();
        (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
    };
    let (mut held, mut not_held) = (BTreeSet::new(), BTreeSet::new());
    let mut corpus_bytes = 0;
    for cell in result.results.iter().filter(is_meant) {
        match share(cell) {
            Some(share) if share >= KERNEL_HOLDS_MIN => drop(held.insert(cell.store.clone())),
            Some(share) if share <= KERNEL_HARDLY_HOLDS_MAX => drop(not_held.insert(cell.store.clone())),
            _ => continue,
        }
        corpus_bytes = corpus_bytes.max(corpus_bytes_of(cell));
    }
    let held: Vec<String> = held.difference(&not_held).cloned().collect();
    (!held.is_empty() && !not_held.is_empty()).then(|| Warning::UnequalMemory {
        cache_bytes: cache.bytes(corpus_bytes),
        corpus_bytes,
        held,
        not_held: not_held.into_iter().collect(),
    })
}

/// Warns about candidates with little memory that read much more from the device than was requested.
fn reads_more(result: &RunResult) -> Option<Warning> {
    let is_limited = |cell: &&Cell| {
        let budget = |round: &Round| round.memory.and_then(|memory| memory.budget_bytes);
        !writes(cell) && cell.rounds.iter().any(|round| budget(round).is_some())
    };
    let mut times: BTreeMap<String, f64> = BTreeMap::new();
    for cell in result.results.iter().filter(is_limited).filter(|cell| !ranking::is_baseline(cell)) {
        let read = device_bytes_per_byte(cell).unwrap_or(0.0);
        let most = times.entry(cell.store.clone()).or_default();
        *most = most.max(read);
    }
    times.retain(|_, times| *times >= READS_MORE_TIMES);
    // The machine's read-ahead is that of the run's directory; file systems created by blobwise are on other devices.
    let is_there = |cell: &Cell| cell.file_system_option().is_none() && times.contains_key(&cell.store);
    let read_ahead_bytes = result.machine.read_ahead_bytes.filter(|_| result.results.iter().any(is_there));
    let shares = times.into_iter().map(|(store, share)| CandidateShare { store, share }).collect::<Vec<_>>();
    (!shares.is_empty()).then_some(Warning::ReadsMore { shares, read_ahead_bytes })
}

/// Warns about phases that are bounded by the device limit but too short for its burst to be negligible.
fn ahead_of_limit(plan: &Design, result: &RunResult) -> Option<Warning> {
    let held = plan.device_limit?;
    let of_round = |round: &Round| {
        let pair = |requests: Option<u64>, bytes: Option<u64>| (requests.unwrap_or(0), bytes.unwrap_or(0));
        let reads = pair(round.device_reads, round.device_read_bytes);
        let writes = pair(round.device_writes, round.device_written_bytes);
        limit::ahead(&held, round.seconds, [reads, writes])
    };
    let share = |cell: &Cell| cell.rounds.iter().map(of_round).fold(0.0, f64::max);
    let is_ahead = |cell: &Cell| share(cell) > LIMIT_AHEAD_SHARE;
    let share_max = result.results.iter().map(share).fold(0.0, f64::max);
    Some(Warning::AheadOfLimit { places: anywhere(result, is_ahead)?, share_max })
}

fn contents(result: &RunResult) -> Option<Warning> {
    let deflate_ratio = result.corpus.deflate_ratio?;
    (deflate_ratio > COMPRESSIBLE && !result.shows_pages()).then_some(Warning::Compressible { deflate_ratio })
}

/// Warns about files of the user's that the sample has no room for.
fn left_out(result: &RunResult) -> Option<Warning> {
    let are_files = result.plan.corpus.as_ref().is_some_and(|corpus| corpus.is_directory());
    let files = result.corpus.cut.clone().filter(|_| are_files)?;
    Some(Warning::LeftOut { files })
}

#[cfg(test)]
mod tests {
    use blobwise_engine::engine::work::ResolvePlan;

    use serde_json::json;

    use super::{
        AffectedPhases, CandidateResult, CandidateShare, ComparisonSource, VerifiedFrom, Warning, places,
    };
    use crate::judge::fixture::{around, candidate, cell, result};
    use crate::plan::PlanText;
    use crate::result::{Cell, Round, RoundMemory};

    #[test]
    fn the_read_ahead_that_is_told_is_of_the_device_that_was_read() {
        let told = |on: &[&str]| {
            let limited = |store: &&str| {
                let options = if on.contains(store) { json!({"on": "xfs"}) } else { json!({}) };
                cell(store, "read-tight", &[1.0; 5], json!({"options": options}))
            };
            let mut result = result("", ["a", "b"].iter().map(limited).collect(), Vec::new());
            result.machine.read_ahead_bytes = Some(131_072);
            for round in result.results.iter_mut().flat_map(|cell| &mut cell.rounds) {
                round.memory = Some(RoundMemory { budget_bytes: Some(1_000_000), ..RoundMemory::default() });
                round.device_read_bytes = Some(9_000);
            }
            match super::reads_more(&result) {
                Some(Warning::ReadsMore { read_ahead_bytes, .. }) => read_ahead_bytes,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(told(&[]), Some(131_072));
        assert_eq!(told(&["a"]), Some(131_072));
        assert_eq!(told(&["a", "b"]), None);
    }

    #[test]
    fn what_is_over_before_the_limit_of_devices_holds_is_told() {
        let text = "stores = ['files/flat']\non = ['btrfs', 'btrfs-raid0:4']\ndevice_limit = '60MB/s'";
        let plan = PlanText::parse(text).unwrap().resolve(false).unwrap();
        let cells = ["a", "b", "c"].map(|store| cell(store, "disk-read", &[], json!({})));
        let mut result = result("", cells.to_vec(), Vec::new());
        let round = |seconds, device_read_bytes| Round {
            seconds,
            device_read_bytes: Some(device_read_bytes),
            ..Round::default()
        };
        // One volume takes its time; four are faster than allowed; the third cell is far below its limit.
        result.results[0].rounds = vec![round(4.0, 240_000_000)];
        result.results[1].rounds = vec![round(0.8, 240_000_000), round(1.0, 240_000_000)];
        result.results[2].rounds = vec![round(1.0, 20_000_000)];
        let Some(Warning::AheadOfLimit { places, share_max }) = super::ahead_of_limit(&plan, &result) else {
            panic!("nothing is told")
        };
        assert_eq!((places.len(), places[0].stores.as_slice()), (1, &["b".to_owned()][..]));
        assert!((share_max - 0.125).abs() < 1e-9, "{share_max}");
    }

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
        result.candidates = ["a", "b"].map(candidate).into();
        let own = CandidateShare { store: "a".to_owned(), share: 0.25 };
        assert_eq!(super::caught_up(&result), Some(Warning::CaughtUp { shares: vec![own] }));
        result.candidates.remove(0);
        assert_eq!(super::caught_up(&result), None);
    }

    #[test]
    fn the_winner_when_bytes_are_copied_is_one_of_its_own_class() {
        let plan = blobwise_engine::engine::work::resolved("phases = ['fill', 'read-warm', 'read-copy']");
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
    fn candidates_that_were_compared_in_a_cache_are_named_by_why() {
        use VerifiedFrom::*;
        let mut result = result("", Vec::new(), Vec::new());
        let mut said = |candidates: &[(&str, VerifiedFrom)]| {
            let of = |(store, from): &(&str, _)| CandidateResult {
                verified_from: Some(*from),
                ..candidate(store)
            };
            result.candidates = candidates.iter().map(of).collect();
            super::compared_in_caches(&result)
        };
        assert_eq!(said(&[("a", Device), ("b", NotKept)]), None);
        let given = said(&[("a", Device), ("b", UsersServer), ("c", UsersServer), ("d", SharedServer)]);
        let of = |from, stores: &[&str]| ComparisonSource {
            from,
            stores: stores.iter().map(|store| (*store).to_owned()).collect(),
        };
        let copies = vec![of(SharedServer, &["d"]), of(UsersServer, &["b", "c"])];
        assert_eq!(given, Some(Warning::ComparedInCache { copies }));
    }

    #[test]
    fn candidates_that_had_the_kernels_cache_and_others_that_had_not_are_named() {
        let plan = blobwise_engine::engine::work::resolved("cache = '64MiB'\nphases = ['fill', 'read-warm']");
        let told = |bytes: u64, shares: [(&str, Option<f64>); 3]| {
            let cells = shares.map(|(store, _)| cell(store, "read-warm", &around(1.0, 0), json!({})));
            let mut result = result("", cells.to_vec(), Vec::new());
            result.corpus.bytes = bytes;
            for (cell, (_, share)) in result.results.iter_mut().zip(shares) {
                cell.rounds.iter_mut().for_each(|round| round.page_cache_share = share);
            }
            super::unequal_memory(&plan, &result)
        };
        let shares = [("files", Some(1.0)), ("direct", Some(0.02)), ("far", None)];
        let Some(Warning::UnequalMemory { held, not_held, cache_bytes, .. }) = told(400_000_000, shares)
        else {
            panic!("nothing is said")
        };
        assert_eq!(
            (held, not_held, cache_bytes),
            (vec!["files".to_owned()], vec!["direct".to_owned()], 64 << 20)
        );
        // Its own cache holds all of it, or the page cache holds the files of all candidates.
        assert_eq!(told(29_000_000, shares), None);
        assert_eq!(told(400_000_000, [("files", Some(1.0)), ("direct", Some(0.95)), ("far", None)]), None);
    }

    #[test]
    fn parts_and_phases_with_the_same_candidates_are_told_once() {
        let phases = ["fill", "first.01", "first.02", "second.01", "second.02"];
        let cells =
            ["a", "b", "c"].iter().flat_map(|store| phases.map(|phase| cell(store, phase, &[], json!({}))));
        let mut result = result("", cells.collect(), vec![]);
        let of = |result: &crate::result::RunResult, is: &dyn Fn(&Cell) -> bool| {
            let places = places(result, &result.results.iter().filter(|cell| is(cell)).collect::<Vec<_>>());
            let one = |place: &AffectedPhases| {
                let phases = place.phases.iter().map(|partly| (partly.phase.clone(), partly.in_part));
                (
                    phases.collect::<Vec<_>>(),
                    if place.every_candidate { Vec::new() } else { place.stores.clone() },
                )
            };
            places.iter().map(one).collect::<Vec<_>>()
        };
        let whole = |phases: &[&str], stores: &[&str]| {
            let phases: Vec<(String, bool)> =
                phases.iter().map(|phase| ((*phase).to_owned(), false)).collect();
            (phases, stores.iter().map(|store| (*store).to_owned()).collect::<Vec<String>>())
        };
        result.candidates = ["a", "b", "c"].map(candidate).into();
        assert_eq!(of(&result, &|_| true), [whole(&["fill", "first", "second"], &[])]);
        let two = of(&result, &|cell| cell.store != "b" && cell.phase != "fill");
        assert_eq!(two, [whole(&["first", "second"], &["a", "c"])]);
        let some = of(&result, &|cell| cell.phase == "first.02" || cell.store == "a" && cell.phase == "fill");
        let mut in_part = whole(&["first"], &[]);
        in_part.0[0].1 = true;
        assert_eq!(some, [whole(&["fill"], &["a"]), in_part]);
    }
}
