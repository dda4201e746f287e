//! A plan: corpus, stores, workload, rounds. Read from TOML, from flags or from both; written beside every result.
//!
//! What is asked is in [`text`], and knows no store. Here it is given its rows.

mod resolve;
mod rows;
pub mod text;

#[cfg(test)]
pub use resolve::resolved;
pub use resolve::{NOTHING_RUNS, Plan};
pub use rows::{Missing, Row, Sets, class_of, defaults, missing_server, rows};
pub use text::*;

pub use crate::store::COMMON;
pub use crate::stores::CatalogueOf;

#[cfg(test)]
mod shipped;
#[cfg(test)]
mod tests;
