//! What the probes of the rounds say: whether the machine stayed the same, what the way to another processor takes on it, and
//! whether two runs were on one machine.

use std::collections::BTreeSet;

use crate::result::{Probe, RunResult, Speed, Warning};
use crate::rules::{DEVICE_SPREAD, PROCESSOR_SPREAD, SPEED_LIMIT, TRIP_LIMIT};

fn kept(result: &RunResult) -> impl Iterator<Item = &Probe> {
    result.probes.iter().filter(|probe| !probe.repeated)
}

/// The median of a figure over probes.
pub(super) fn middle<'p>(
    probes: impl IntoIterator<Item = &'p Probe>,
    pick: impl Fn(&Probe) -> Option<f64>,
) -> Option<f64> {
    let mut values: Vec<f64> = probes.into_iter().filter_map(pick).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// What a byte to another thread and back takes on a machine over a pair of sockets, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trips {
    /// With the threads on two processors.
    pub ns: f64,
    /// With both on one processor.
    pub near_ns: f64,
}

impl Trips {
    /// What is added to an answer by processors that have to be woken for it.
    pub fn waking_ns(self) -> f64 {
        (self.ns - self.near_ns).max(0.0)
    }
}

/// The medians of a run; `None` where they were not measured.
pub fn trips(result: &RunResult) -> Option<Trips> {
    let ns = middle(kept(result), |probe| probe.trip_ns)?;
    Some(Trips { ns, near_ns: middle(kept(result), |probe| probe.near_trip_ns)? })
}

/// Whether the processors of two runs differ by more than one does within a run.
pub fn speed_changed(old: &RunResult, new: &RunResult) -> bool {
    let speed = |result| middle(kept(result), |probe: &Probe| Some(probe.processor_ns));
    match (speed(old), speed(new)) {
        (Some(old), Some(new)) => differ(old, new, SPEED_LIMIT),
        _ => true,
    }
}

/// By how much round trips of two runs differ, in nanoseconds, where that is more than they do within a run. Where an earlier
/// program did not measure them, nothing is known against it.
pub fn trips_changed(old: &RunResult, new: &RunResult) -> Option<f64> {
    let (old, new) = (trips(old)?.ns, trips(new)?.ns);
    differ(old, new, TRIP_LIMIT).then(|| (old - new).abs())
}

fn differ(old: f64, new: f64, limit: f64) -> bool {
    old.max(new) / old.min(new) - 1.0 > limit
}

/// Probes that changed while the run went on.
pub fn drift(result: &RunResult) -> Vec<Warning> {
    type Pick = fn(&Probe) -> Option<f64>;
    let mut probes: Vec<(Speed, f64, Pick)> = vec![
        (Speed::Processor, PROCESSOR_SPREAD, |probe| Some(probe.processor_ns)),
        (Speed::Flush, DEVICE_SPREAD, |probe| probe.flush_ns),
        (Speed::Read, DEVICE_SPREAD, |probe| probe.read_ns),
    ];
    // Only what another process answers comes from another processor.
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

/// The rounds at whose start or end the processor's probe was farther than `limit` from its median in all other rounds, as a
/// share of that, with the factor. The device's probes are single reads and flushes and vary more. Of two rounds nobody knows
/// which is the odd one.
pub fn changed(probes: &[Probe], limit: f64) -> Vec<(u32, f64)> {
    let rounds: BTreeSet<u32> =
        probes.iter().filter(|probe| !probe.repeated).map(|probe| probe.round).collect();
    let times = |round: u32| {
        let kept = probes.iter().filter(|probe| !probe.repeated);
        let (own, others): (Vec<&Probe>, Vec<&Probe>) = kept.partition(|probe| probe.round == round);
        let mut others: Vec<f64> = others.iter().map(|probe| probe.processor_ns).collect();
        others.sort_unstable_by(f64::total_cmp);
        let middle = others.get(others.len() / 2)?;
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
    use crate::plan::{defaults, resolved};
    use crate::result::compared::{Asked, ChangeVerdict};
    use crate::result::{Traits, Verdict};
    use crate::store::Options;
    use crate::stores::{self, Entry};

    /// What is inside the process.
    fn here() -> Traits {
        Traits::default()
    }

    fn server() -> Traits {
        Traits { has_process: true, ..Traits::default() }
    }

    /// A run of one candidate with these traits whose calls take 100 us, on a machine with these trips in three rounds.
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
        // The way varies; an op that takes far less was not made on two processors.
        assert_eq!(kinds(&run(server(), [120e3; 3], json!({}))), ["waking"]);
        assert!(kinds(&run(server(), [250e3; 3], json!({}))).is_empty());
        // Other workers keep processors awake; elsewhere the other side is not of this machine.
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
        // Shorter and longer; a server that works all the time; a disk that may be as slow; nobody who waits; a way that is known.
        assert!(kinds(server(), 39_000_000, 80e3, "warm").is_empty());
        assert!(kinds(server(), 49_000_000, 80e3, "warm").is_empty());
        assert!(kinds(server(), 44_000_000, 40e6, "warm").is_empty());
        assert!(kinds(server(), 44_000_000, 80e3, "cold").is_empty());
        assert!(kinds(here(), 44_000_000, 80e3, "warm").is_empty());
        assert!(kinds(Traits { distance_ms: Some(40.0), ..server() }, 44_000_000, 80e3, "warm").is_empty());
    }

    /// What a store of the table says of itself, with these settings beside its usual ones.
    fn traits_of(store: &str, set: &[(&str, &str)]) -> Option<Traits> {
        let Some(Entry::Ready(adapter)) = stores::find(store) else { return None };
        let mut options = defaults(adapter).shown();
        options.extend(set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        Some((adapter.traits)(&Options::new(options)))
    }

    /// A file system in memory is a cache, and no process answers for it; a browser answers for a page.
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
        // Where asking for it did not help, both are told.
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
        // What was measured again is not held against what replaced it, and not against others.
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
        // What waits for a process there is not judged, where the difference is much of an op.
        let judged_where = |in_turn: bool, traits: Traits, seconds: f64, over: serde_json::Value| {
            let with = |trip: f64| {
                let mut run = run(traits.clone(), [trip; 3], over.clone());
                let mut over = over.clone();
                over["traits"] = json!(traits);
                over["ops_per_s"] = json!({"median": 1000.0 / seconds});
                run.results = result("", vec![cell("a", "read-warm", &[seconds; 5], over)], vec![]).results;
                run
            };
            let asked = Asked { threshold: 0.05, fall: 0.1, power: 0.8, strict: false, in_turn };
            runs::report([("old", &with(20e3)), ("new", &with(60e3))], asked).changes.remove(0).verdict
        };
        let judged = |traits, seconds, over| judged_where(false, traits, seconds, over);
        // Of 1,000 ops.
        assert_eq!(judged(server(), 0.1, json!({})), ChangeVerdict::WayChanged);
        assert_eq!(judged(server(), 1.0, json!({})), ChangeVerdict::Known { verdict: Verdict::Equal });
        assert_eq!(
            judged(server(), 0.1, json!({"workers": 4})),
            ChangeVerdict::Known { verdict: Verdict::Equal }
        );
        assert_eq!(judged(here(), 0.1, json!({})), ChangeVerdict::Known { verdict: Verdict::Equal });
        // Both programs met what changed.
        let known = ChangeVerdict::Known { verdict: Verdict::Equal };
        assert_eq!(judged_where(true, server(), 0.1, json!({})), known);
        let mut older = of(60e3);
        older.probes.iter_mut().for_each(|probe| (probe.trip_ns, probe.near_trip_ns) = (None, None));
        assert!(trips_changed(&older, &of(20e3)).is_none() && trips(&older).is_none());
    }
}
