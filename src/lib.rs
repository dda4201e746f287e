//! Where should files live? Drives the same files through every place that can keep them and says which is best,
//! at which price, and how sure that is. The modules are the architecture; see ARCHITECTURE.md.

pub mod cli;
pub mod conformance;

pub use blobwise_doctor::doctor;
pub use blobwise_engine::{crash, disk, engine};
pub use blobwise_judge::judge;
pub use blobwise_plan::{plan, records, result, rules, subjects};
pub use blobwise_report::report;
pub use blobwise_stores::{corpus, host, input, redact, store, stores, suggest, trace, units, wire};

use std::process::ExitCode;

pub use stores::register;

/// Runs blobwise's command line, for a program that brings its own stores by [`register`]. The program starts itself again to
/// supervise servers and to clean up, so call nothing else before the two.
pub fn main() -> ExitCode {
    host::machine::make_private();
    host::server::supervise_if_asked()
        .or_else(crash::cut_if_asked)
        .or_else(host::cleanup_watchdog::tidy_up_if_asked)
        .unwrap_or_else(cli::main)
}
