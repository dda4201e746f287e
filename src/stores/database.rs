//! What the adapters of database servers share: options that mean the same for all of them.

use crate::store::{OptionSpec, Values};

/// How long a server may take to become ready. A first start after a crash replays its log.
pub(super) const START_PATIENCE: std::time::Duration = std::time::Duration::from_secs(90);

/// How long a server may take to stop.
pub(super) const STOP_PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Whether a session keeps its connection.
pub(super) const CONNECTION: OptionSpec = OptionSpec {
    name: "connection",
    values: Values::OneOf(&["kept", "per-op"]),
    default: "kept",
    about: "kept: one connection a worker; per-op: every op connects, as scripts without a pool do",
};

/// What a delete does.
pub(super) const DELETE: OptionSpec = OptionSpec {
    name: "delete",
    values: Values::OneOf(&["now", "lazy"]),
    default: "now",
    about: "now: the row goes; lazy: it is marked, and goes in the phase `purge`",
};

/// How a private server is configured.
pub(super) const PROFILE: OptionSpec = OptionSpec {
    name: "profile",
    values: Values::OneOf(&["tuned", "default"]),
    default: "tuned",
    about: "tuned: caches of the size that every store gets; default: as the vendor ships it",
};

/// A server of the user's.
pub(super) const URL: OptionSpec = OptionSpec {
    name: "url",
    values: Values::Url,
    default: "",
    about: "a server of yours instead of a private one; only what is marked as ours is used and removed",
};

/// Sizes of pieces, from the published comparison of ways to keep files in PostgreSQL.
pub(super) const PIECES: Values =
    Values::OneOf(&["512", "1024", "2048", "4096", "8192", "16384", "32768", "65536", "131072", "262144"]);

/// Names what is ours in a server of the user's: a prefix, and a mark beside it.
pub(super) const OURS: &str = "blobwise_";

/// A name for the schema or database of one store, never the same twice.
pub(super) fn own_name() -> String {
    format!("{OURS}{:016x}", crate::place::fresh_seed())
}
