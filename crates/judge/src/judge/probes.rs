//! Evaluation of the probes: whether the machine's speed stayed the same, how long a cross-CPU round trip takes, and
//! whether two runs were made on the same machine.

use std::collections::BTreeSet;

use super::interval::upper_median;
use crate::result::{Probe, RunResult, Speed, Warning};
use crate::rules::{DEVICE_SPREAD, PROCESSOR_SPREAD, SPEED_LIMIT, TRIP_LIMIT};

fn kept(result: &RunResult) -> impl Iterator<Item = &Probe> {
    result.probes.iter().filter(|probe| !probe.repeated)
}

/// Returns the median of a figure over probes; the upper one of two middle values.
pub(super) fn middle<'p>(
    probes: impl IntoIterator<Item = &'p Probe>,
    pick: impl Fn(&Probe) -> Option<f64>,
) -> Option<f64> {
    upper_median(probes.into_iter().filter_map(pick))
}

/// Round-trip time of one byte to another thread over a socket pair, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundTrips {
    /// With the threads on different CPUs.
    pub ns: f64,
    /// With both threads on one CPU.
    pub near_ns: f64,
}

impl RoundTrips {
    /// Returns the wake-up latency of CPUs that is part of an answer, in nanoseconds.
    pub fn waking_ns(self) -> f64 {
        (self.ns - self.near_ns).max(0.0)
    }
}

/// Returns the median round-trip times of a run; `None` if they were not measured.
pub fn trips(result: &RunResult) -> Option<RoundTrips> {
    let ns = middle(kept(result), |probe| probe.trip_ns)?;
    Some(RoundTrips { ns, near_ns: middle(kept(result), |probe| probe.near_trip_ns)? })
}

/// True if the CPU speeds of two runs differ by more than the speed of one CPU does within a run, or are unknown.
pub fn speed_changed(old: &RunResult, new: &RunResult) -> bool {
    let speed = |result| middle(kept(result), |probe: &Probe| Some(probe.processor_ns));
    match (speed(old), speed(new)) {
        (Some(old), Some(new)) => differ(old, new, SPEED_LIMIT),
        _ => true,
    }
}

/// Returns the difference of the round-trip times of two runs in nanoseconds, if it exceeds the variation within a run.
/// `None` also if an earlier version did not measure them.
pub fn trips_changed(old: &RunResult, new: &RunResult) -> Option<f64> {
    let (old, new) = (trips(old)?.ns, trips(new)?.ns);
    differ(old, new, TRIP_LIMIT).then(|| (old - new).abs())
}

fn differ(old: f64, new: f64, limit: f64) -> bool {
    old.max(new) / old.min(new) - 1.0 > limit
}

/// Returns warnings about probes that changed during the run.
pub fn drift(result: &RunResult) -> Vec<Warning> {
    type Pick = fn(&Probe) -> Option<f64>;
    let mut probes: Vec<(Speed, f64, Pick)> = vec![
        (Speed::Processor, PROCESSOR_SPREAD, |probe| Some(probe.processor_ns)),
        (Speed::Flush, DEVICE_SPREAD, |probe| probe.flush_ns),
        (Speed::Read, DEVICE_SPREAD, |probe| probe.read_ns),
    ];
    // Only answers of another process come from another CPU.
    if result.results.iter().any(|cell| cell.traits.has_process) {
        probes.push((Speed::Trip, DEVICE_SPREAD, |probe| probe.trip_ns));
    }
    let told = probes.into_iter().filter_map(|(what, limit, pick)| {
        let values = || kept(result).filter_map(pick);
        let (low_ns, high_ns) = (values().min_by(f64::total_cmp)?, values().max_by(f64::total_cmp)?);
        (high_ns / low_ns - 1.0 > limit).then_some(Warning::Drift { what, low_ns, high_ns })
    });
    told.collect()
}

/// Returns the rounds at whose start or end the CPU probe differed by more than `limit` (a share) from its median in
/// all other rounds, with the factor. The device probes are single reads and flushes and vary more. With two rounds it
/// is impossible to tell which one is odd.
pub fn changed(probes: &[Probe], limit: f64) -> Vec<(u32, f64)> {
    let rounds: BTreeSet<u32> =
        probes.iter().filter(|probe| !probe.repeated).map(|probe| probe.round).collect();
    let times = |round: u32| {
        let kept = probes.iter().filter(|probe| !probe.repeated);
        let (own, others): (Vec<&Probe>, Vec<&Probe>) = kept.partition(|probe| probe.round == round);
        let middle = middle(others, |probe| Some(probe.processor_ns))?;
        let times = own.iter().map(|probe| probe.processor_ns / middle);
        times.max_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs()))
    };
    let all = rounds.iter().filter(|_| rounds.len() > 2).filter_map(|round| Some((*round, times(*round)?)));
    all.filter(|(_, times)| (times - 1.0).abs() > limit).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::runs;
    use super::super::warnings;
    use super::*;
    use crate::judge::fixture::{cell, result};
    use crate::plan::defaults;
    use crate::result::compared::{ChangeVerdict, CompareOptions};
    use crate::result::{Traits, Verdict};
    use crate::store::Options;
    use crate::stores::{self, Entry};
    use blobwise_engine::engine::work::resolved;

    /// Traits of a store inside the process.
    fn here() -> Traits {
        Traits::default()
    }

    fn server() -> Traits {
        Traits { has_process: true, ..Traits::default() }
    }

    /// Returns a run of one candidate with these traits whose ops take 100 us, on a machine with these round-trip times
    /// in three rounds.
    fn run(traits: Traits, trips: [f64; 3], over: serde_json::Value) -> RunResult {
        let mut over = over;
        over["traits"] = json!(traits);
        over["service_ns"] = json!({"p50": 100_000});
        let mut run = result("", vec![cell("a", "read-warm", &[], over)], vec![]);
        run.probes = trips
            .map(|trip| Probe {
                processor_ns: 50.0,
                trip_ns: Some(trip),
                near_trip_ns: Some(10e3),
                ..Probe::default()
            })
            .to_vec();
        run
    }

    fn kinds(run: &RunResult) -> Vec<&'static str> {
        kinds_of("", run)
    }

    fn kinds_of(keys: &str, run: &RunResult) -> Vec<&'static str> {
        let plan = resolved(&format!("stores = ['files/flat']\n{keys}"));
        let told = warnings::from_figures(&plan, run);
        let kind = |warning: &Warning| match warning {
            Warning::Waking { .. } => Some("waking"),
            Warning::Awake { .. } => Some("awake"),
            Warning::PutOff { .. } => Some("put-off"),
            Warning::Drift { .. } => Some("drift"),
            _ => None,
        };
        told.iter().filter_map(kind).collect()
    }

    #[test]
    fn who_waits_for_another_processor_is_doubted() {
        let slow = [60e3; 3];
        assert_eq!(kinds(&run(server(), slow, json!({}))), ["waking"]);
        assert!(kinds(&run(here(), slow, json!({}))).is_empty());
        assert!(kinds(&run(server(), [30e3; 3], json!({}))).is_empty());
        // Round trips vary; an op that takes far less did not involve two CPUs.
        assert_eq!(kinds(&run(server(), [120e3; 3], json!({}))), ["waking"]);
        assert!(kinds(&run(server(), [250e3; 3], json!({}))).is_empty());
        // Other workers keep CPUs awake; the other side of an external or distant store is not on this machine.
        assert!(kinds(&run(server(), slow, json!({"workers": 4}))).is_empty());
        assert!(kinds(&run(Traits { is_external: true, ..server() }, slow, json!({}))).is_empty());
        assert!(kinds(&run(Traits { distance_ms: Some(10.0), ..server() }, slow, json!({}))).is_empty());
        assert_eq!(kinds(&run(Traits { distance_ms: Some(0.0), ..server() }, slow, json!({}))), ["waking"]);
    }

    #[test]
    fn reads_that_wait_for_an_acknowledgement_are_doubted() {
        let kinds = |traits: Traits, p50: u64, cpu_ns: f64, cache: &str| {
            let over = json!({"cache": cache, "total_cpu_ns_per_op": cpu_ns});
            let mut run = run(traits, [60e3; 3], over);
            run.results[0].service_ns = serde_json::from_value(json!({"p50": p50})).unwrap();
            kinds(&run)
        };
        assert_eq!(kinds(server(), 44_000_000, 80e3, "warm"), ["put-off"]);
        assert_eq!(kinds(Traits { is_external: true, ..server() }, 44_000_000, 80e3, "warm"), ["put-off"]);
        // Shorter and longer; a server that works all the time; a disk that may be as slow; a store inside the process;
        // a known distance.
        assert!(kinds(server(), 39_000_000, 80e3, "warm").is_empty());
        assert!(kinds(server(), 49_000_000, 80e3, "warm").is_empty());
        assert!(kinds(server(), 44_000_000, 40e6, "warm").is_empty());
        assert!(kinds(server(), 44_000_000, 80e3, "cold").is_empty());
        assert!(kinds(here(), 44_000_000, 80e3, "warm").is_empty());
        assert!(kinds(Traits { distance_ms: Some(40.0), ..server() }, 44_000_000, 80e3, "warm").is_empty());
    }

    /// Returns the traits of a store with these settings in addition to its defaults.
    fn traits_of(store: &str, set: &[(&str, &str)]) -> Option<Traits> {
        let Some(Entry::Ready(adapter)) = stores::find(store) else { return None };
        let mut options = defaults(adapter).shown();
        options.extend(set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        Some((adapter.traits)(&Options::new(options)))
    }

    /// An in-memory file system is a cache but has no process; a page is answered by a browser.
    #[test]
    fn whether_a_process_answers_is_not_guessed_from_the_kind_of_place() {
        let slow = [60e3; 3];
        let files = traits_of("files/ramdisk", &[]).unwrap();
        assert!(kinds(&run(files, slow, json!({"kind": "cache"}))).is_empty());
        if let Some(page) = traits_of("page/inlined", &[("rtt", "0")]) {
            assert_eq!(kinds(&run(page, slow, json!({"kind": "page"}))), ["waking"]);
            let far = traits_of("page/inlined", &[("rtt", "0.5")]).unwrap();
            assert!(kinds(&run(far, slow, json!({"kind": "page"}))).is_empty());
        }
    }

    #[test]
    fn processors_that_were_kept_awake_are_told_of_where_they_matter() {
        let quick = [12e3; 3];
        assert_eq!(kinds_of("awake = true", &run(server(), quick, json!({}))), ["awake"]);
        assert!(kinds_of("awake = true", &run(here(), quick, json!({}))).is_empty());
        assert!(kinds_of("awake = false", &run(server(), quick, json!({}))).is_empty());
        // If keeping the CPUs awake did not help, there are both warnings.
        assert_eq!(kinds_of("awake = true", &run(server(), [60e3; 3], json!({}))), ["waking", "awake"]);
    }

    #[test]
    fn ways_that_change_are_told_of_where_they_matter() {
        let changing = [20e3, 30e3, 45e3];
        assert_eq!(kinds(&run(server(), changing, json!({}))), ["drift"]);
        assert!(kinds(&run(here(), changing, json!({}))).is_empty());
    }

    #[test]
    fn a_round_on_another_processor_is_told_from_the_others_before_and_after_it() {
        let probes = |ns: &[f64]| -> Vec<Probe> {
            (1..).zip(ns).map(|(round, ns)| Probe { round, processor_ns: *ns, ..Probe::default() }).collect()
        };
        let of = |ns: &[f64]| changed(&probes(ns), 0.5);
        assert_eq!(of(&[90.0, 50.0, 50.0, 52.0, 49.0]), [(1, 1.8)]);
        assert_eq!(of(&[50.0, 50.0, 20.0, 50.0, 50.0]), [(3, 0.4)]);
        assert!(of(&[50.0, 70.0, 50.0, 52.0, 49.0]).is_empty());
        assert!(of(&[50.0, 90.0]).is_empty(), "nobody knows which of the two is the odd one");
        // A repeated round is compared neither with its replacement nor with the others.
        let mut again = probes(&[50.0, 50.0, 50.0, 50.0, 50.0]);
        again.insert(2, Probe { round: 3, processor_ns: 200.0, repeated: true, ..Probe::default() });
        assert!(changed(&again, 0.5).is_empty());
    }

    #[test]
    fn runs_with_other_ways_are_not_of_one_machine() {
        let of = |trip: f64| run(server(), [trip; 3], json!({}));
        assert_eq!(trips_changed(&of(20e3), &of(60e3)), Some(40e3));
        assert_eq!(trips_changed(&of(60e3), &of(20e3)), Some(40e3));
        assert_eq!(trips_changed(&of(60e3), &of(80e3)), None);
        // Candidates that wait for another process are not judged if the difference is a large part of an op.
        let judged_where = |in_turn: bool, traits: Traits, seconds: f64, over: serde_json::Value| {
            let with = |trip: f64| {
                let mut run = run(traits.clone(), [trip; 3], over.clone());
                let mut over = over.clone();
                over["traits"] = json!(traits);
                over["ops_per_s"] = json!({"median": 1000.0 / seconds});
                run.results = result("", vec![cell("a", "read-warm", &[seconds; 5], over)], vec![]).results;
                run
            };
            let asked = CompareOptions { threshold: 0.05, fall: 0.1, power: 0.8, strict: false, in_turn };
            runs::report([("old", &with(20e3)), ("new", &with(60e3))], asked).changes.remove(0).verdict
        };
        let judged = |traits, seconds, over| judged_where(false, traits, seconds, over);
        // For 1,000 ops.
        assert_eq!(judged(server(), 0.1, json!({})), ChangeVerdict::WayChanged);
        assert_eq!(judged(server(), 1.0, json!({})), ChangeVerdict::Known { verdict: Verdict::Equal });
        assert_eq!(
            judged(server(), 0.1, json!({"workers": 4})),
            ChangeVerdict::Known { verdict: Verdict::Equal }
        );
        assert_eq!(judged(here(), 0.1, json!({})), ChangeVerdict::Known { verdict: Verdict::Equal });
        // The change affected both programs.
        let known = ChangeVerdict::Known { verdict: Verdict::Equal };
        assert_eq!(judged_where(true, server(), 0.1, json!({})), known);
        let mut older = of(60e3);
        older.probes.iter_mut().for_each(|probe| (probe.trip_ns, probe.near_trip_ns) = (None, None));
        assert!(trips_changed(&older, &of(20e3)).is_none() && trips(&older).is_none());
    }
}
