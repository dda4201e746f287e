//! What stores declare with the defaults of their options.

use blobwise_plan::plan::defaults;
use blobwise_stores::store::{Capabilities, Integrity, Kind};
use blobwise_stores::stores::adapters;

/// Exactly the stores that start programs or need a server have a process.
#[test]
fn who_starts_programs_has_a_process() {
    for adapter in adapters() {
        let traits = (adapter.traits)(&defaults(adapter));
        let needs_one = !adapter.programs.is_empty() || adapter.kind == Kind::Server;
        assert_eq!(traits.has_process, needs_one, "{}", adapter.name);
        assert_eq!(traits.shows.is_some(), adapter.kind == Kind::Page, "{}", adapter.name);
    }
}

/// A store with a catalogue can keep other data than blobs.
#[test]
fn a_catalogue_is_other_data() {
    for adapter in adapters() {
        let Capabilities { catalogue, other_data, .. } = (adapter.caps)(&defaults(adapter));
        assert!(other_data || !catalogue, "{}", adapter.name);
        assert!(!other_data || adapter.kind != Kind::Files, "{}", adapter.name);
    }
}

/// Exactly the persistent stores declare an integrity that can be tested.
#[test]
fn what_is_kept_may_change_and_nothing_else() {
    for adapter in adapters() {
        let options = defaults(adapter);
        let Capabilities { persistent, durability, .. } = (adapter.caps)(&options);
        for class in durability {
            let integrity = (adapter.integrity)(&options, *class);
            assert_eq!(integrity != Integrity::NothingKept, persistent, "{}", adapter.name);
        }
    }
}
