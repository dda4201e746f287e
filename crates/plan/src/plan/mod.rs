//! A plan: corpus, stores, workload and rounds. Read from TOML, from flags or from both, and stored beside every result.
//!
//! [`text`] holds what a plan asks for and knows no stores; this module adds the candidates.

mod candidates;
mod resolve;
pub mod text;

pub use candidates::{
    Candidate, ExpandedFamilies, MissingCandidate, NoPassword, Sets, candidates, class_of, defaults,
    file_system, members_of, missing_server, why_not_had, with_families,
};
pub use resolve::{NothingRuns, Plan};
pub use text::*;

pub use crate::store::COMMON;
pub use crate::stores::CatalogueOf;
