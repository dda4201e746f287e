//! A plan: corpus, stores, workload, rounds. Read from TOML, from flags or from both; written beside every result.
//!
//! What is asked is in [`text`], and knows no store. Here it is given its candidates.

mod candidates;
mod resolve;
pub mod text;

pub use candidates::{
    Candidate, Missing, NoPassword, Sets, WithFamilies, candidates, class_of, defaults, file_system,
    members_of, missing_server, with_families,
};
#[cfg(test)]
pub use resolve::resolved;
pub use resolve::{NothingRuns, Plan};
pub use text::*;

pub use crate::store::COMMON;
pub use crate::stores::CatalogueOf;

#[cfg(test)]
mod shipped;
#[cfg(test)]
mod tests;
