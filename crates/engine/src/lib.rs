//! Runs: the pilot, rounds, kinds of work and the loop of measured ops; tests of disks, and power cuts.

pub mod crash;
pub mod disk;
pub mod engine;

use blobwise_judge::judge;
use blobwise_plan::{plan, records, result, rules, subjects};
use blobwise_stores::{corpus, host, input, redact, store, stores, suggest, trace, units};
