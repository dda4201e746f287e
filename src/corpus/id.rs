//! Which of a run's corpora something belongs to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One of a run's corpora: the only one, or that of several whose blobs have this middle size, in bytes. No two corpora of a run
/// have the same.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct CorpusId(Option<u64>);

impl CorpusId {
    /// The corpus of a run that has one.
    pub const ONLY: CorpusId = CorpusId(None);

    /// The one of several with this middle size, in bytes.
    pub const fn of(bytes: u64) -> CorpusId {
        CorpusId(Some(bytes))
    }

    /// Its middle size, in bytes, where it is one of several.
    pub const fn bytes(self) -> Option<u64> {
        self.0
    }

    /// Whether the run has no other.
    pub const fn is_only(&self) -> bool {
        self.0.is_none()
    }

    /// The name of something that a phase has with each corpus, such as its length.
    pub fn key(self, phase: &str) -> String {
        match self.0 {
            Some(bytes) => format!("{phase}@{bytes}"),
            None => phase.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_corpus_is_not_named() {
        assert_eq!(CorpusId::ONLY.key("fill"), "fill");
        assert_eq!(CorpusId::of(2000).key("fill"), "fill@2000");
        assert_eq!(serde_json::to_string(&[CorpusId::ONLY, CorpusId::of(5)]).unwrap(), "[null,5]");
    }
}
