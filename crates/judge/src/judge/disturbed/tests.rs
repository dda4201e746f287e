//! Synthetic rounds with known disturbances, and simulated error rates of the rules.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use serde_json::{Value, json};

use super::*;
use crate::corpus::CorpusId;
use crate::judge::fixture::{NOISES, around, cell, result};
use crate::judge::interval::{paired_logs, paired_ratio, rounds_needed, verdict};
use crate::result::Verdict;
use blobwise_engine::engine::work::resolved;

/// Returns a cell with these seconds per round; `more` adds fields to each round.
fn with(store: &str, phase: &str, seconds: &[f64], more: impl Fn(usize) -> Value) -> Value {
    let mut value = cell(store, phase, seconds, json!({}));
    for (index, round) in value["rounds"].as_array_mut().unwrap().iter_mut().enumerate() {
        round["bytes"] = json!(60_000_000);
        round.as_object_mut().unwrap().extend(more(index).as_object().unwrap().clone());
    }
    value
}

fn run(cells: Vec<Value>) -> RunResult {
    let mut run = result("", cells, vec![]);
    run.corpus.bytes = 60_000_000;
    run
}

fn texts(run: &RunResult) -> Vec<String> {
    let plan = resolved("stores = ['memory']");
    let told = crate::judge::warnings::from_figures(&plan, run);
    let is_meant = |warning: &&Warning| matches!(warning, Warning::Disturbed(_) | Warning::RepeatedRounds(_));
    told.iter().filter(is_meant).map(|warning| warning.details().text).collect()
}

/// Returns five rounds, of which the third took this many times as long.
fn third(times: f64) -> Vec<f64> {
    vec![0.1, 0.103, 0.1 * times, 0.098, 0.101]
}

/// Returns the device's reads and ours in the third round, and almost none in the others.
fn reads(index: usize, device: u64, own: u64) -> Value {
    let of = |bytes: u64| if index == 2 { bytes } else { 4096 };
    json!({"device_read_bytes": of(device), "own_read_bytes": of(own), "page_cache_share": 1.0})
}

#[test]
fn a_warm_round_that_was_read_from_the_device_is_named_with_its_cause() {
    let odd = |index| reads(index, 57_000_000, 57_000_000);
    let cells = vec![
        with("a", "read-warm", &third(20.0), odd),
        cell("b", "read-warm", &around(0.1, 1)[..5], json!({})),
    ];
    assert_eq!(
        texts(&run(cells)),
        [
            "Some rounds were disturbed: run again at a quieter time. Round 3: a in read-warm took 20 times as long as in its other rounds \
          and read 57 MB from the device for 60 MB of blobs, though all had been read before, and was in the page cache afterwards."
        ]
    );
    // Passes that repeat the blobs deliver more bytes than the corpus has.
    let many = |index| {
        let mut round = odd(index);
        round["bytes"] = json!(6_000_000_000_u64);
        round
    };
    let text = texts(&run(vec![with("a", "read-warm", &third(1.0), many)])).remove(0);
    assert!(text.contains("Round 3: a in read-warm read 57 MB from the device for 60 MB of blobs"), "{text}");
}

#[test]
fn what_others_read_is_not_the_candidates_and_what_it_always_reads_is_its_way() {
    let told = |seconds: &[f64], more: &dyn Fn(usize) -> Value| {
        texts(&run(vec![with("a", "read-warm", seconds, more)]))
    };
    assert!(told(&third(1.0), &|index| reads(index, 57_000_000, 4096)).is_empty());
    let past_the_cache = |_: usize| json!({"device_read_bytes": 60_000_000, "own_read_bytes": 60_000_000, "page_cache_share": 1.0});
    assert!(told(&third(1.0), &past_the_cache).is_empty());
    // A page of a program.
    assert!(told(&third(1.0), &|index| reads(index, 100_000, 100_000)).is_empty());
    // If the kernel has no counters per process, the device's own counter is used.
    let old = |index: usize| json!({"device_read_bytes": if index == 2 { 57_000_000 } else { 0 }});
    let text = told(&third(1.0), &old).remove(0);
    assert!(
        text.ends_with("read 57 MB from the device for 60 MB of blobs, though all had been read before."),
        "{text}"
    );
    // Two rounds suffice to see that one reads from the device, but not that one is slow.
    assert_eq!(told(&[0.1, 0.1], &|index| reads(index + 1, 57_000_000, 57_000_000)).len(), 1);
    assert!(told(&[0.1, 2.0], &|_| json!({})).is_empty());
}

#[test]
fn others_on_the_disk_are_named_with_what_they_did() {
    // Half a second each; the file system writes 30 MB on our behalf, the same in all rounds.
    let told = |read: u64, written: u64| {
        let more = move |index: usize| {
            let odd = |bytes: u64| if index == 2 { bytes } else { 0 };
            json!({"own_read_bytes": 0, "own_written_bytes": 30_000_000, "device_written_bytes": 60_000_000 + odd(written),
                   "others_read_bytes": odd(read), "others_written_bytes": 30_000_000 + index as u64 * 100_000 + odd(written)})
        };
        let seconds = [0.5, 0.49, 0.51, 0.5, 0.5];
        texts(&run(vec![with("a", "overwrite", &seconds, more)]))
    };
    let said = |what: &str| {
        [format!(
            "Some rounds were disturbed: run again at a quieter time. Round 3: other programs {what} on the same disk during overwrite."
        )]
    };
    assert_eq!(told(200_000_000, 0), said("read 200 MB"));
    // The other rounds' writes include the file system's journal as well.
    assert_eq!(told(0, 50_000_000), said("wrote 50 MB"));
    assert_eq!(told(200_000_000, 50_000_000), said("read 200 MB and wrote 50 MB"));
    assert!(told(1_000_000, 0).is_empty() && told(5_000_000, 10_000_000).is_empty(), "next to what we do");
}

#[test]
fn where_most_candidates_were_slow_it_was_the_machine() {
    let candidates = ["a", "b", "c"].map(|store| cell(store, "read-warm", &third(4.0), json!({})));
    let text = texts(&run(candidates.to_vec())).remove(0);
    assert!(text.contains("Round 3: most candidates took 3.9"), "{text}");
    assert!(text.ends_with("in read-warm as in their other rounds, so that it was the machine."), "{text}");
    let one = vec![
        cell("a", "read-warm", &third(0.25), json!({})),
        cell("b", "read-warm", &third(1.0), json!({})),
        cell("y", "read-warm", &third(4.0), json!({"kind": "baseline"})),
    ];
    let text = texts(&run(one)).remove(0);
    assert!(
        text.ends_with("Round 3: a in read-warm took 0.25 times as long as in its other rounds."),
        "{text}"
    );
    // Ladders have discrete rungs, so a difference of two rungs is normal.
    let rung = |index: usize| json!({"rungs": [{"offered_ops_per_s": 1.0, "achieved_share": 1.0, "response_ns": 1, "ops": index + 1}]});
    assert!(texts(&run(vec![with("a", "ramp", &[0.1, 0.1, 0.2, 0.1, 0.1], rung)])).is_empty());
}

#[test]
fn others_on_a_disk_that_a_phase_does_not_use_are_a_cause_and_no_disturbance() {
    let more = |index: usize| {
        let others = if index == 2 { 90_000_000 } else { 0 };
        json!({"own_read_bytes": 0, "own_written_bytes": 0, "others_read_bytes": others})
    };
    assert!(texts(&run(vec![with("a", "read-warm", &third(1.0), more)])).is_empty());
    let text = texts(&run(vec![with("a", "read-warm", &third(20.0), more)])).remove(0);
    assert!(
        text.ends_with("other rounds; other programs read 90 MB on the same disk during read-warm."),
        "{text}"
    );
    // Activity in most rounds is reported in one sentence.
    let always = |_: usize| json!({"own_read_bytes": 1_000_000, "own_written_bytes": 0, "others_read_bytes": 90_000_000});
    assert_eq!(
        texts(&run(vec![with("a", "read-cold", &around(0.1, 0), always)])),
        [
            "Some rounds were disturbed: run again at a quieter time. Rounds 1, 2, 3, 4, 5, 6, 7, 8, 9, 10: other programs read 900 MB on the same disk \
          during read-cold."
        ]
    );
    // Dropping the kernel's caches makes other programs read their data again.
    let mut dropped = run(vec![with("a", "read-cold", &around(0.1, 0), always)]);
    (dropped.machine.root, dropped.results[0].cache) = (true, Cache::Cold);
    let text = texts(&dropped).remove(0);
    let ours =
        "during read-cold (in part, perhaps, what they lost when cold passes dropped the kernel's caches).";
    assert!(text.ends_with(ours), "{text}");
    dropped.plan.drop_caches = Some(false);
    assert!(texts(&dropped).remove(0).ends_with("during read-cold."));
}

#[test]
fn rounds_that_were_measured_again_are_named_with_what_spoke_against_them() {
    let mut run = run(vec![cell("a", "read-warm", &third(1.0), json!({}))]);
    assert!(texts(&run).is_empty());
    let far = Disturbance {
        store: Some("a".to_owned()),
        phase: Some("read-warm".to_owned()),
        ..against(3, Cause::Far { times: 20.4 })
    };
    run.set_aside = vec![crate::result::DiscardedRound { round: 3, why: vec![far], ..Default::default() }];
    assert_eq!(
        texts(&run),
        [
            "Measured again for all candidates, because they were disturbed; the first measurement is in no figure. \
          Round 3: a in read-warm took 20 times as long as in its other rounds."
        ]
    );
    // The repeated round may be disturbed as well.
    run.results = self::run(vec![cell("a", "read-warm", &third(20.0), json!({}))]).results;
    assert!(
        texts(&run)[0].contains("Round 3, measured again: a in read-warm took 20 times"),
        "{:?}",
        texts(&run)
    );
}

fn against(round: u32, cause: Cause) -> Disturbance {
    Disturbance { round, store: None, phase: None, corpus_id: CorpusId::ONLY, cause }
}

#[test]
fn no_more_than_a_quarter_of_the_rounds_is_measured_again_each_once_and_none_where_most_are_disturbed() {
    let far = |round| against(round, Cause::Far { times: 20.0 });
    let others = |round| against(round, Cause::OthersIo { read_bytes: 1 << 30, written_bytes: 0 });
    assert_eq!(next_to_repeat(&[], 5, &[]), None);
    assert_eq!(next_to_repeat(&[others(2), far(4)], 5, &[]), Some(4), "figures come first");
    assert_eq!(next_to_repeat(&[others(2), others(4)], 5, &[]), Some(2));
    let processor = against(1, Cause::Processor { times: 2.0 });
    assert_eq!(next_to_repeat(&[processor, others(4)], 5, &[]), Some(4));
    assert_eq!(next_to_repeat(&[others(2)], 5, &[4]), None, "a quarter of five is one");
    assert_eq!(next_to_repeat(&[far(2), others(4)], 8, &[2]), Some(4));
    assert_eq!(next_to_repeat(&[far(2)], 8, &[2]), None, "each once");
    assert_eq!(next_to_repeat(&[others(1), others(2), others(3)], 5, &[]), None, "the machine is like that");
    assert_eq!(next_to_repeat(&[others(1), others(2), far(3), others(3)], 5, &[]), Some(3));
    assert_eq!(next_to_repeat(&[far(1)], 4, &[]), None, "nothing is quoted");
    assert_eq!([5, 7, 8, 12].map(repeats_max), [1, 1, 2, 3]);
}

// ---- simulation --------------------------------------------------------------------------------------------------

fn noise(random: &mut SmallRng, sd: f64) -> f64 {
    let noise: f64 = StandardNormal.sample(random);
    (noise * sd).exp()
}

/// Returns rates of undisturbed rounds with a drift of 2 % per round.
fn quiet(random: &mut SmallRng, rounds: u32, sd: f64) -> BTreeMap<u32, f64> {
    (1..=rounds).map(|round| (round, (1.0 - 0.02 * f64::from(round)) * noise(random, sd))).collect()
}

#[test]
fn undisturbed_rounds_are_rarely_far_and_rounds_twenty_times_slower_are() {
    const TRIALS: u32 = 5_000;
    /// Number of candidates times phases in a typical run.
    const CELLS: i32 = 30;
    let mut random = SmallRng::seed_from_u64(13);
    for rounds in [5, 6, 8, 12] {
        for sd in [0.02, 0.05, 0.1, 0.2, 0.3] {
            let (mut wrong, mut found, mut both) = (0, 0, 0);
            for _ in 0..TRIALS {
                let mut rates = quiet(&mut random, rounds, sd);
                wrong += u32::from(!far(&rates, 0.0).is_empty());
                *rates.get_mut(&3).unwrap() /= 20.0;
                found += u32::from(far(&rates, 0.0).iter().any(|(round, _)| *round == 3));
                *rates.get_mut(&5).unwrap() /= 20.0;
                both += u32::from(far(&rates, 0.0).len() == 2);
            }
            let share = |count: u32| f64::from(count) / f64::from(TRIALS);
            let of_run = 1.0 - (1.0 - share(wrong)).powi(CELLS);
            println!(
                "{rounds} rounds, sd {sd}: {:.2} % false, {:.1} % of runs; one found {:.1} %, two {:.1} %",
                share(wrong) * 100.0,
                of_run * 100.0,
                share(found) * 100.0,
                share(both) * 100.0
            );
            assert!(share(wrong) < 0.02, "{rounds} rounds, sd {sd}: {}", share(wrong));
            if sd <= 0.05 {
                assert!(
                    share(wrong) < 0.0005 && share(found) > 0.999 && share(both) > 0.9,
                    "{rounds} rounds, sd {sd}"
                );
            }
        }
    }
}

/// Simulated rates of equal candidates, with random disturbances.
struct Machine {
    random: SmallRng,
    sd: f64,
    /// Probability that one candidate of a round is slowed down by a factor of up to twenty.
    disturbed: f64,
}

impl Machine {
    /// Simulates one round of all candidates. Returns the evidence other than figures: for half of the disturbances,
    /// and occasionally without one.
    fn round(&mut self, round: u32, candidates: &mut [BTreeMap<u32, f64>]) -> Vec<Disturbance> {
        let mut seen = Vec::new();
        let drift = 1.0 - 0.02 * f64::from(round.min(20));
        for rates in candidates {
            let is_disturbed = self.random.random::<f64>() < self.disturbed;
            let times = if is_disturbed { (self.random.random::<f64>() * 20.0_f64.ln()).exp() } else { 1.0 };
            rates.insert(round, drift * noise(&mut self.random, self.sd) / times);
            let is_seen = self.random.random::<f64>() < if is_disturbed { 0.5 } else { 0.005 };
            seen.extend(
                is_seen.then(|| against(round, Cause::OthersIo { read_bytes: 1 << 30, written_bytes: 0 })),
            );
        }
        seen
    }

    /// Simulates the rates of eight equal candidates as a run measures them: five rounds, then as many as their
    /// variances require, then repetitions by the rule. Without `again` no round is repeated.
    fn run(&mut self, again: bool) -> Vec<BTreeMap<u32, f64>> {
        let mut candidates = vec![BTreeMap::new(); 8];
        let mut seen: Vec<Disturbance> = Vec::new();
        let (mut rounds, mut round) = (5, 1);
        while round <= rounds {
            seen.extend(self.round(round, &mut candidates));
            if round == 5 {
                let left_out = if again { due(&candidates, &seen, 5, &[]) } else { None };
                let kept: Vec<Vec<f64>> = candidates
                    .iter()
                    .map(|rates| {
                        rates
                            .iter()
                            .filter(|(round, _)| Some(**round) != left_out)
                            .map(|(_, rate)| *rate)
                            .collect()
                    })
                    .collect();
                let logs: Vec<Vec<f64>> =
                    kept[1..].iter().map(|candidate| paired_logs(candidate, &kept[0])).collect();
                rounds = rounds_needed(&logs, 0.05, 12).max(5);
            }
            round += 1;
        }
        let mut repeated = Vec::new();
        while again && let Some(round) = due(&candidates, &seen, rounds, &repeated) {
            seen.retain(|disturbance| disturbance.round != round);
            seen.extend(self.round(round, &mut candidates));
            repeated.push(round);
        }
        candidates
    }
}

fn due(
    candidates: &[BTreeMap<u32, f64>],
    seen: &[Disturbance],
    rounds: u32,
    repeated: &[u32],
) -> Option<u32> {
    let mut found = seen.to_vec();
    for rates in candidates {
        found.extend(far(rates, 0.0).into_iter().map(|(round, times)| against(round, Cause::Far { times })));
    }
    found.sort_by_key(|disturbance| disturbance.round);
    next_to_repeat(&found, rounds, repeated)
}

/// Returns how often equal candidates are called different, and the median width of the intervals as a factor.
fn equal_candidates(machine: &mut Machine, again: bool) -> (f64, f64) {
    let (mut called, mut widths) = (0, Vec::new());
    while widths.len() < 10_000 {
        let candidates: Vec<Vec<f64>> =
            machine.run(again).iter().map(|rates| rates.values().copied().collect()).collect();
        for candidate in &candidates[1..] {
            let ratio = paired_ratio(candidate, &candidates[0]).unwrap();
            called += u32::from(matches!(verdict(&ratio), Verdict::Faster | Verdict::Slower));
            widths.push(ratio.high.unwrap() / ratio.low.unwrap());
        }
    }
    (f64::from(called) / widths.len() as f64, median(widths.into_iter()))
}

#[test]
fn measuring_disturbed_rounds_again_calls_no_more_equal_candidates_different() {
    for sd in NOISES {
        for disturbed in [0.0, 0.02, 0.1] {
            let machine = || Machine { random: SmallRng::seed_from_u64(17), sd, disturbed };
            let (before, wide) = equal_candidates(&mut machine(), false);
            let (called, narrow) = equal_candidates(&mut machine(), true);
            println!(
                "sd {sd}, {disturbed} disturbed: {:.1} % called different, {:.1} % without; intervals {narrow:.2}, {wide:.2} without",
                called * 100.0,
                before * 100.0
            );
            assert!(called < 0.06, "sd {sd}, {disturbed} disturbed: {called}");
        }
    }
}
