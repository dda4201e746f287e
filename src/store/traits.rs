//! What is true of a store with its settings, for whoever runs, judges or shows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an adapter knows of itself beyond its [`super::Caps`]. The engine writes it into the result, and nobody guesses it from a
/// name, a kind or an option.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Traits {
    /// Its ops are answered by another process: that of a server or a browser.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_process: bool,
    /// That process is a server of the user's, given by URL.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_external: bool,
    /// Its server is there for other candidates of the run too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shares_server: bool,
    /// For which ops it connects anew.
    #[serde(skip_serializing_if = "Connects::is_never")]
    pub connects: Connects,
    /// Its providers are paid for each request, whatever their devices do for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_paid_by_request: bool,
    /// Deletes only mark a blob; it goes when the store purges.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lazy_delete: bool,
    /// Blobs are found by an integer, not by a digest.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub integer_keys: bool,
    /// What a page shows; absent for a store that is no page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shows: Option<String>,
    /// Milliseconds of a round trip that is made by delaying; absent where no distance is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distance_ms: Option<f64>,
    /// The parts of an op that its sessions time, in the order in which they come.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
}

impl Traits {
    /// Whether there is nothing to say.
    pub fn is_plain(&self) -> bool {
        *self == Traits::default()
    }

    /// Whether answers come from a distance that was made.
    pub fn is_far(&self) -> bool {
        self.distance_ms.is_some_and(|ms| ms > 0.0)
    }

    /// Why its server is not stopped for the candidate alone, if it is not.
    pub fn kept_running(&self) -> Option<&'static str> {
        if self.is_external {
            return Some("a server given by URL is not ours to stop");
        }
        self.shares_server.then_some("its server is there for other candidates too")
    }
}

/// For which ops a session connects anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Connects {
    /// For none: it keeps its connection, or has none.
    #[default]
    Never,
    /// For each read: writes do not go over that connection.
    EachRead,
    /// For each op.
    EachOp,
}

impl Connects {
    /// Whether for ops of a phase that only reads, or of another one.
    pub fn anew(self, only_reads: bool) -> bool {
        match self {
            Connects::Never => false,
            Connects::EachRead => only_reads,
            Connects::EachOp => true,
        }
    }

    fn is_never(&self) -> bool {
        *self == Connects::Never
    }
}

/// How a candidate is made cold between passes of a cold phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MadeCold {
    /// Closed, evicted and opened again.
    Reopened,
    /// The same, and a server of ours stops and starts for it.
    Restarted,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_connects_for_reads_connects_for_nothing_else() {
        let for_reads_and_others = |connects: Connects| [connects.anew(true), connects.anew(false)];
        assert_eq!(for_reads_and_others(Connects::Never), [false, false]);
        assert_eq!(for_reads_and_others(Connects::EachRead), [true, false]);
        assert_eq!(for_reads_and_others(Connects::EachOp), [true, true]);
    }

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
