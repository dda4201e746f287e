//! The places where blobs can live, and what is needed to use them: the machine, its wire protocols, the contract of a store, every
//! store, and the blobs.

/// Declares an enum whose variants have a name in reports, lists or flags, behind the equals sign.
#[macro_export]
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

pub mod corpus;
pub mod host;
pub mod input;
pub mod redact;
pub mod store;
pub mod stores;
pub mod suggest;
pub mod trace;
pub mod units;
pub mod wire;
