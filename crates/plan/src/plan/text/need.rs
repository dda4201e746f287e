//! Requirements that a program may have for its store, apart from speed.

use std::borrow::Cow;

use anyhow::{Context, Result, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::suggest::unknown;
use crate::units;

/// A requirement that a store meets or not, according to its adapter. Files and flags use its name; `largest-blob` has a size
/// appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Need {
    /// Readers never see a partial put.
    AtomicPuts,
    /// Blobs can be replaced and deleted.
    Changes,
    /// In the run's durability class, a power cut takes no more than recent writes.
    Durable,
    /// The store accepts blobs of this many bytes.
    LargestBlob(u64),
    /// The store can list the keys of all its blobs.
    Listing,
    /// No separate process has to run.
    NoServer,
    /// The program's other data can live in the same store, and its backup captures them at the same moment as the blobs.
    OneBackup,
    /// Part of a blob can be read without reading all of it.
    Ranges,
    /// Several machines can access the store.
    SeveralMachines,
    /// A blob can be read in pieces, without holding all of it in memory.
    Streams,
    /// Several puts can form one transaction.
    Transactions,
}

impl Need {
    /// All needs except the largest blob, which takes a size; sorted by name.
    pub const ALL: &'static [Need] = &[
        Need::AtomicPuts,
        Need::Changes,
        Need::Durable,
        Need::Listing,
        Need::NoServer,
        Need::OneBackup,
        Need::Ranges,
        Need::SeveralMachines,
        Need::Streams,
        Need::Transactions,
    ];
    /// Example of the largest-blob need with its size.
    const LARGEST_BLOB: &'static str = "largest-blob=4GB";

    /// Name in flags, plans and reports, without the size of the largest blob.
    pub fn name(self) -> &'static str {
        match self {
            Need::AtomicPuts => "atomic-puts",
            Need::Changes => "changes",
            Need::Durable => "durable",
            Need::LargestBlob(_) => "largest-blob",
            Need::Listing => "listing",
            Need::NoServer => "no-server",
            Need::OneBackup => "one-backup",
            Need::Ranges => "ranges",
            Need::SeveralMachines => "several-machines",
            Need::Streams => "streams",
            Need::Transactions => "transactions",
        }
    }

    /// Name for display, with the size of the largest blob.
    pub fn shown(self) -> String {
        match self {
            Need::LargestBlob(bytes) => format!("{}={}", self.name(), units::bytes(bytes as f64)),
            _ => self.name().to_owned(),
        }
    }

    /// Describes a store that does not meet the need.
    pub fn lacking(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Need::AtomicPuts => "a reader may see half of a put",
            Need::Changes => "no blob can be replaced or deleted",
            Need::Durable => "a power cut may take more than recent writes",
            Need::LargestBlob(bytes) => {
                return Cow::Owned(format!("it takes no blob of {}", units::bytes(bytes as f64)));
            }
            Need::Listing => "it gives no list of its blobs",
            Need::NoServer => "a process of its own has to be run",
            Need::OneBackup => "its backup has blobs alone",
            Need::Ranges => "no part of a blob is read without the whole",
            Need::SeveralMachines => "one machine reaches it",
            Need::Streams => "blobs are read whole",
            Need::Transactions => "no transactions",
        })
    }

    /// Names what a store that meets the need has.
    pub fn noun(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Need::AtomicPuts => "puts that readers see whole or not at all",
            Need::Changes => "replacing and deleting blobs",
            Need::Durable => "writes that survive a power cut",
            Need::LargestBlob(bytes) => {
                return Cow::Owned(format!("blobs of {}", units::bytes(bytes as f64)));
            }
            Need::Listing => "a list of the blobs",
            Need::NoServer => "running without a server",
            Need::OneBackup => "one backup together with your other data",
            Need::Ranges => "reads of a part of a blob",
            Need::SeveralMachines => "access from several machines",
            Need::Streams => "reads piece by piece",
            Need::Transactions => "transactions",
        })
    }

    /// True for needs that results record only since they record the largest blob.
    pub fn is_noted_with_largest_blob(self) -> bool {
        matches!(self, Need::LargestBlob(_) | Need::OneBackup | Need::Streams)
    }

    /// Parses a need, with a size for the largest blob; the error lists the known names.
    pub fn parse(text: &str) -> Result<Need> {
        let text = text.trim();
        let (name, size) =
            text.split_once('=').map_or((text, None), |(name, size)| (name.trim(), Some(size.trim())));
        let largest = Need::LargestBlob(0).name();
        match size {
            Some(size) if name == largest => {
                let bytes = units::parse_bytes(size).with_context(|| format!("`{text}`"))?;
                Ok(Need::LargestBlob(bytes))
            }
            None if name == largest => bail!("`{name}` has no size: {} is one", Need::LARGEST_BLOB),
            _ => Need::ALL.iter().copied().find(|need| need.name() == text).ok_or_else(|| {
                let mut known: Vec<&str> = Need::ALL.iter().map(|need| need.name()).collect();
                known.push(Need::LARGEST_BLOB);
                known.sort_unstable();
                unknown("need", text, known)
            }),
        }
    }
}

impl From<Need> for String {
    fn from(need: Need) -> String {
        match need {
            Need::LargestBlob(bytes) => format!("{}={bytes}", need.name()),
            _ => need.name().to_owned(),
        }
    }
}

impl TryFrom<String> for Need {
    type Error = String;

    fn try_from(text: String) -> Result<Need, String> {
        Need::parse(&text).map_err(|error| format!("{error:#}"))
    }
}

impl JsonSchema for Need {
    fn schema_name() -> Cow<'static, str> {
        "Need".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names: Vec<&str> = Need::ALL.iter().map(|need| need.name()).collect();
        schemars::json_schema!({
            "description": "Something that a place serves or does not, by what its adapter says of it; the largest blob in bytes.",
            "type": "string",
            "pattern": format!("^({}|{}=[0-9]+)$", names.join("|"), Need::LargestBlob(0).name()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_need_has_the_name_that_files_have_for_it() {
        for need in Need::ALL {
            assert_eq!(serde_json::to_value(need).unwrap(), need.name());
            assert_eq!(Need::parse(need.name()).unwrap(), *need);
            assert_eq!(need.shown(), need.name());
        }
        assert!(Need::ALL.is_sorted_by_key(|need| need.name()));
        let error = Need::parse("speed").unwrap_err().to_string();
        assert!(error.contains("atomic-puts, changes, durable, largest-blob=4GB, listing"), "{error}");
        assert!(error.ends_with("ranges, several-machines, streams, transactions"), "{error}");
    }

    #[test]
    fn the_largest_blob_has_a_size_which_files_have_in_bytes() {
        let need = Need::parse(" largest-blob = 1.5GB ").unwrap();
        assert_eq!(need, Need::LargestBlob(1_500_000_000));
        assert_eq!(
            (need.shown(), need.lacking()),
            ("largest-blob=1.5 GB".into(), "it takes no blob of 1.5 GB".into())
        );
        let written = serde_json::to_value(need).unwrap();
        assert_eq!(written, "largest-blob=1500000000");
        assert_eq!(serde_json::from_value::<Need>(written).unwrap(), need);
        for (text, words) in [
            ("largest-blob", "`largest-blob` has no size: largest-blob=4GB is one"),
            ("largest-blob=much", "`much` is not a size"),
            ("ranges=4GB", "no need is called `ranges=4GB`"),
        ] {
            let error = format!("{:#}", Need::parse(text).unwrap_err());
            assert!(error.contains(words), "{error}");
        }
    }
}
