//! The contract of a store as checks of its behaviour, for `blobwise check-store` and for the conformance tests. Those add checks
//! that kill, trace and damage.

mod backups;
pub mod bench;
mod catalogues;
pub mod check;
pub mod checks;
mod compactions;
mod pages;
pub mod processes;
pub mod subject;
mod transactions;
