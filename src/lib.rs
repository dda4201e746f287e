//! Where should files live? Drives the same files through every place that can keep them and says which is best,
//! at which price, and how sure that is. The modules are the architecture; see ARCHITECTURE.md.

#[cfg(feature = "page")]
pub mod browser;
pub mod cli;
pub mod corpus;
pub mod engine;
pub mod input;
pub mod machine;
pub mod names;
pub mod place;
pub mod plan;
#[cfg(feature = "page")]
pub mod proxy;
pub mod records;
pub mod report;
pub mod result;
pub mod server;
pub mod shown;
pub mod stats;
pub mod store;
pub mod stores;
pub mod units;
