//! Properties of a store with its options, for the code that runs, judges or shows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an adapter declares beyond its [`super::Capabilities`]. The engine writes it into the result, so that no code guesses it
/// from a name, a kind or an option.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Traits {
    /// Another process serves its ops: a server or a browser.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_process: bool,
    /// That process is the user's own server, given by URL.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_external: bool,
    /// Other candidates of the run use the same server.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shares_server: bool,
    /// The ops that open a new connection.
    #[serde(skip_serializing_if = "ConnectionUse::is_never")]
    pub connects: ConnectionUse,
    /// Providers charge for each request, whatever it costs their devices.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_paid_by_request: bool,
    /// Deletes only mark a blob; its space is freed when the store purges.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lazy_delete: bool,
    /// It throws blobs away when it is full, so that one that was put may be missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_evict: bool,
    /// Keys are integers instead of digests.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub integer_keys: bool,
    /// What a page shows; absent if the store is not a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shows: Option<String>,
    /// Simulated round-trip time in milliseconds; absent if no delay is added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distance_ms: Option<f64>,
    /// The steps of an op that its sessions time, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
}

impl Traits {
    /// True if every property has its default.
    pub fn is_plain(&self) -> bool {
        *self == Traits::default()
    }

    /// True if a round-trip delay is added.
    pub fn is_far(&self) -> bool {
        self.distance_ms.is_some_and(|ms| ms > 0.0)
    }

    /// Why its server is not stopped for this candidate alone; `None` if it is.
    pub fn kept_running(&self) -> Option<&'static str> {
        if self.is_external {
            return Some("a server given by URL is not ours to stop");
        }
        self.shares_server.then_some("its server is there for other candidates too")
    }
}

/// The ops for which a session opens a new connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectionUse {
    /// None: it keeps its connection, or has none.
    #[default]
    Never,
    /// Each read; writes do not use that connection.
    EachRead,
    /// Each op.
    EachOp,
}

impl ConnectionUse {
    /// True if the ops of a phase open new connections; `only_reads` says that the phase does not write.
    pub fn for_each_op(self, only_reads: bool) -> bool {
        match self {
            ConnectionUse::Never => false,
            ConnectionUse::EachRead => only_reads,
            ConnectionUse::EachOp => true,
        }
    }

    fn is_never(&self) -> bool {
        *self == ConnectionUse::Never
    }
}

/// How a candidate is made cold between the passes of a cold phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ColdMethod {
    /// Closed, evicted and opened again.
    Reopened,
    /// As `reopened`, and its private server is restarted.
    Restarted,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_store_says_nothing_in_a_result() {
        assert_eq!(serde_json::to_string(&Traits::default()).unwrap(), "{}");
        let far = Traits { has_process: true, distance_ms: Some(0.5), ..Traits::default() };
        let text = serde_json::to_string(&far).unwrap();
        assert_eq!(text, r#"{"has_process":true,"distance_ms":0.5}"#);
        assert_eq!(serde_json::from_str::<Traits>(&text).unwrap(), far);
        assert!(far.is_far() && !Traits { distance_ms: Some(0.0), ..far }.is_far());
    }
}
