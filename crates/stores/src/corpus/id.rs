//! Identification of a corpus within a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Identifies a corpus of a run: the only one, or one of several by its median blob size in bytes, which is unique within a run.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct CorpusId(Option<u64>);

impl CorpusId {
    /// The corpus of a run that has only one.
    pub const ONLY: CorpusId = CorpusId(None);

    /// The corpus with this median blob size in bytes, out of several.
    pub const fn with_median(bytes: u64) -> CorpusId {
        CorpusId(Some(bytes))
    }

    /// Median blob size in bytes; `None` for the only corpus.
    pub const fn bytes(self) -> Option<u64> {
        self.0
    }

    /// True for the only corpus of a run.
    pub const fn is_only(&self) -> bool {
        self.0.is_none()
    }

    /// Key for a property of a phase on this corpus, such as its length: `PHASE@BYTES`, or `PHASE` for the only corpus.
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
        assert_eq!(CorpusId::with_median(2000).key("fill"), "fill@2000");
        assert_eq!(serde_json::to_string(&[CorpusId::ONLY, CorpusId::with_median(5)]).unwrap(), "[null,5]");
    }
}
