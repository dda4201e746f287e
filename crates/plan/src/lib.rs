//! What is measured and what was: a plan as text, its design, the plan of this machine, records, and results as they are written.

pub mod plan;
pub mod records;
pub mod result;
pub mod rules;
pub mod subjects;

use blobwise_stores::{corpus, host, input, redact, store, stores, suggest, trace, units};
