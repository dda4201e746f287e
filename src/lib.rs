//! Where should files live? Drives the same files through every place that can keep them and says which is best,
//! at which price, and how sure that is. The modules are the architecture; see ARCHITECTURE.md.

/// Declares an enum whose variants have a name in reports, lists or flags, behind the equals sign.
macro_rules! named {
    (
        $(#[$of_enum:meta])*
        pub enum $enum:ident { $($(#[$of:meta])* $variant:ident = $name:literal,)+ }
    ) => {
        $(#[$of_enum])*
        pub enum $enum {
            $($(#[$of])* $variant,)+
        }

        impl $enum {
            /// Name in reports, lists or flags.
            pub fn name(self) -> &'static str {
                match self {
                    $($enum::$variant => $name,)+
                }
            }
        }
    };
}

pub mod cli;
pub mod conformance;
pub mod corpus;
pub mod crash;
pub mod disk;
pub mod doctor;
pub mod engine;
pub mod host;
pub mod input;
pub mod judge;
pub mod plan;
pub mod records;
pub mod redact;
pub mod report;
pub mod result;
pub mod rules;
pub mod store;
pub mod stores;
pub mod suggest;
pub mod trace;
pub mod units;
pub mod wire;

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
