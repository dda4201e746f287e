//! Doubts whether flushes make data durable, and what promises of durability are worth then.

use super::probes::middle;
use crate::plan::text::Need;
use crate::records::Records;
use crate::result::{
    CandidateResult, FlushDoubt, Kind, Loss, Machine, Medium, Promise, StorageLayers, Warning,
};
use crate::rules::FLUSH_NS_LEAST;

/// Returns the reasons why flushes in a place may not make data durable; empty for places in memory, where no flush
/// helps.
pub(super) fn doubts(below: Option<&StorageLayers>, p50_ns: Option<f64>) -> Vec<FlushDoubt> {
    let medium = below.map(|below| below.medium);
    if medium == Some(Medium::Memory) {
        return Vec::new();
    }
    let layers = below.map_or(&[][..], |below| &below.without_flushes);
    let not_passed_on = (!layers.is_empty()).then(|| FlushDoubt::NotPassedOn { layers: layers.to_vec() });
    let too_quick =
        p50_ns.filter(|p50_ns| *p50_ns < FLUSH_NS_LEAST).map(|p50_ns| FlushDoubt::TooQuick { p50_ns });
    let not_known = below
        .filter(|below| below.medium == Medium::NotKnown)
        .map(|below| FlushDoubt::NotKnown { layers: below.layers.clone() });
    [not_passed_on, too_quick, not_known].into_iter().flatten().collect()
}

/// Returns the candidates of a run with promises reduced to what their location supports, and a warning if doubts about
/// flushes reduced any.
pub(super) fn granted(records: &Records) -> (Vec<CandidateResult>, Option<Warning>) {
    let machine = &records.machine;
    let doubts = doubts(machine.below.as_ref(), middle(&records.probes, |probe| probe.flush_ns));
    let mut candidates = records.candidates.clone();
    let mut is_less = false;
    for candidate in candidates.iter_mut().filter(|candidate| !candidate.traits.is_external) {
        let Some(loss) = least(machine, &doubts, candidate) else { continue };
        let before = candidate.clone();
        for promise in [&mut candidate.promise, &mut candidate.fill_promise].into_iter().flatten() {
            let Promise { loss: promised, .. } = promise;
            // A weaker promise is not raised.
            if promised.after_power_cut <= Loss::RecentWrites || loss == Loss::All {
                promised.after_power_cut = loss;
            }
        }
        if let Some(serves) = &mut candidate.serves {
            serves.retain(|need| *need != Need::Durable);
        }
        is_less |= *candidate != before;
    }
    let warning = (is_less && !doubts.is_empty()).then_some(Warning::Flushes { doubts });
    (candidates, warning)
}

/// Returns the minimum loss at a power cut for a candidate in the measured directory, whatever it promises; `None` if
/// its promise holds.
fn least(machine: &Machine, doubts: &[FlushDoubt], candidate: &CandidateResult) -> Option<Loss> {
    if machine.is_in_memory() {
        return Some(Loss::All);
    }
    // Injected libraries may not affect servers, which do their own flushing.
    let is_server = matches!(candidate.kind, Some(Kind::Server | Kind::Cache));
    let is_replaced = machine.replaced_flushes.iter().any(|replaced| replaced.in_servers || !is_server);
    (is_replaced || !doubts.is_empty()).then_some(Loss::NotKnown)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::result::{Losses, MeasuringProgram, Probe, ReplacedFlushes};
    use crate::store::Durability;

    fn below(medium: Medium, without_flushes: &[&str]) -> StorageLayers {
        let without_flushes = without_flushes.iter().map(|layer| (*layer).to_owned()).collect();
        StorageLayers { layers: vec!["ext4".to_owned(), "loop0".to_owned()], medium, without_flushes }
    }

    #[test]
    fn flushes_are_doubted_by_mounts_by_their_time_and_by_what_cannot_be_seen() {
        let disk = below(Medium::Disk, &[]);
        assert_eq!(doubts(Some(&disk), Some(112_000.0)), []);
        assert_eq!(doubts(None, None), [], "results of earlier versions");
        assert_eq!(doubts(Some(&disk), Some(231.0)), [FlushDoubt::TooQuick { p50_ns: 231.0 }]);
        let mounted = below(Medium::Disk, &["ext4 (nobarrier)"]);
        let layers = vec!["ext4 (nobarrier)".to_owned()];
        assert_eq!(doubts(Some(&mounted), Some(50_000.0)), [FlushDoubt::NotPassedOn { layers }]);
        let unknown = below(Medium::NotKnown, &[]);
        let layers = unknown.layers.clone();
        assert_eq!(doubts(Some(&unknown), None), [FlushDoubt::NotKnown { layers }]);
        // In memory a single warning is enough, and a flush that does nothing is expected.
        assert_eq!(doubts(Some(&below(Medium::Memory, &["ext4 (nobarrier)"])), Some(100.0)), []);
    }

    /// Returns what two candidates in the place and an external server promise, whether each is durable, and whether
    /// there is a warning.
    fn promised(machine: Machine, flush_ns: f64) -> (Vec<(&'static str, bool)>, bool) {
        let candidate = |kind: &str, traits: serde_json::Value| {
            let loss = json!({"after_kill": "nothing", "after_power_cut": "nothing"});
            let of = json!({"store": kind, "adapter": "a", "kind": kind, "options": {}, "traits": traits, "status": "measured",
                            "facts": {}, "serves": ["durable", "listing"],
                            "promise": {"durability": "each-write", "loss": loss}});
            serde_json::from_value(of).unwrap()
        };
        let candidates = vec![
            candidate("files", json!({})),
            candidate("server", json!({"has_process": true})),
            candidate("server", json!({"has_process": true, "is_external": true})),
        ];
        let mut records = Records::new(candidates, MeasuringProgram::default(), machine);
        records.probes = vec![Probe { flush_ns: Some(flush_ns), ..Probe::default() }];
        let (candidates, warning) = granted(&records);
        let of = |candidate: &CandidateResult| {
            let Promise { loss: Losses { after_power_cut, .. }, durability } = candidate.promise.unwrap();
            assert_eq!(durability, Durability::EachWrite);
            (after_power_cut.name(), candidate.serves.as_ref().unwrap().contains(&Need::Durable))
        };
        (candidates.iter().map(of).collect(), warning.is_some())
    }

    #[test]
    fn a_promise_is_granted_where_flushes_keep_something() {
        let on = |medium: Medium, options: &[&str]| Machine {
            below: Some(below(medium, options)),
            ..Machine::default()
        };
        let (kept, lost, open) = (("nothing lost", true), ("everything lost", false), ("not known", false));
        assert_eq!(promised(on(Medium::Disk, &[]), 1e5), (vec![kept, kept, kept], false));
        assert_eq!(promised(on(Medium::Disk, &[]), 300.0), (vec![open, open, kept], true));
        assert_eq!(promised(on(Medium::Disk, &["ext4 (nobarrier)"]), 1e5), (vec![open, open, kept], true));
        assert_eq!(promised(on(Medium::NotKnown, &[]), 1e5), (vec![open, open, kept], true));
        assert_eq!(promised(on(Medium::Memory, &[]), 300.0), (vec![lost, lost, kept], false));
        let replaced = |in_servers: bool| {
            let (library, functions) = ("libeatmydata.so".to_owned(), vec!["fsync".to_owned()]);
            let replaced_flushes = vec![ReplacedFlushes { library, functions, in_servers }];
            Machine { replaced_flushes, ..on(Medium::Disk, &[]) }
        };
        assert_eq!(promised(replaced(false), 1e5), (vec![open, kept, kept], false));
        assert_eq!(promised(replaced(true), 1e5), (vec![open, open, kept], false));
    }
}
