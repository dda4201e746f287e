//! Durability classes, what a crash loses, and how changed bytes are noticed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Facts;

named! {
    /// When written bytes must be on stable storage.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
    )]
    #[serde(rename_all = "kebab-case")]
    pub enum Durability {
        /// Never requested; the operating system or the store decides.
        #[default]
        None = "none",
        /// No later than when [`Session::sync`] returns.
        OnSync = "on-sync",
        /// When each put or delete returns.
        EachWrite = "each-write",
    }
}

impl Durability {
    /// All classes, weakest first.
    pub const ALL: &'static [Durability] = &[Durability::None, Durability::OnSync, Durability::EachWrite];

    /// Returns the class of this name.
    pub fn from_name(name: &str) -> Option<Durability> {
        Durability::ALL.iter().copied().find(|class| class.name() == name)
    }
}

named! {
    /// The worst loss if the process or the machine dies between a write and the next sync.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Loss {
        /// Every acknowledged write survives.
        Nothing = "nothing lost",
        /// Blobs written since the last sync may be missing, old, empty or torn; all others are intact.
        RecentWrites = "recent writes lost",
        /// The store may fail to open, or open with losses.
        StoreUnusable = "perhaps unusable",
        /// Everything is gone.
        All = "everything lost",
        /// Unknown, because it is not known what a flush guarantees there.
        NotKnown = "not known",
    }
}

/// The loss after two kinds of crash. Writes are ranked only among stores with equal losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Losses {
    /// The process is killed (SIGKILL); the kernel and its page cache survive.
    pub after_kill: Loss,
    /// The machine loses power; the device keeps what was flushed.
    pub after_power_cut: Loss,
}

impl Losses {
    /// The same loss after either crash.
    pub const fn alike(loss: Loss) -> Losses {
        Losses { after_kill: loss, after_power_cut: loss }
    }

    /// Recent writes after either crash, and nothing in the class each-write.
    pub const fn of_unflushed(durability: Durability) -> Losses {
        match durability {
            Durability::None | Durability::OnSync => Losses::alike(Loss::RecentWrites),
            Durability::EachWrite => Losses::alike(Loss::Nothing),
        }
    }
}

/// How a store handles bytes that changed on the device. Every claim is tested by flipping bytes in the store's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// Checksums make a changed byte an error when it is read or when the store is opened.
    Checksums,
    /// Depends on a setting, which is read back as a fact.
    AsSet {
        /// Name of the fact.
        fact: &'static str,
        /// Values with which a changed byte is an error.
        checked: &'static [&'static str],
        /// Values with which the changed byte is returned. Other values are undetermined.
        unchecked: &'static [&'static str],
    },
    /// A changed byte is returned as if it were right.
    Unchecked,
    /// Nothing is kept after closing, so there is nothing to test.
    NothingKept,
    /// The server is the user's and may store blobs in any way.
    Unknown,
}

named! {
    /// What notices that a byte of a blob changed on the device.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum NoticedBy {
        /// The store, by its checksums: the read fails.
        Store = "the store: a read of it is an error",
        /// Only a comparison with what was put, such as the verification of a run.
        Comparison = "the comparison only: a read of it succeeds",
    }
}

impl Integrity {
    /// A short description for tables.
    pub fn description(self) -> String {
        match self {
            Integrity::Checksums => "the store".to_owned(),
            Integrity::AsSet { fact, checked, .. } => {
                format!("the store, where `{fact}` is {}", checked.first().copied().unwrap_or_default())
            }
            Integrity::Unchecked => "the comparison only".to_owned(),
            Integrity::NothingKept => "nobody: it keeps nothing".to_owned(),
            Integrity::Unknown => "not known".to_owned(),
        }
    }

    /// What notices a changed byte, given the store's facts; `None` if that is unknown or nothing is kept.
    pub fn noticed_by(self, facts: &Facts) -> Option<NoticedBy> {
        match self {
            Integrity::Checksums => Some(NoticedBy::Store),
            Integrity::Unchecked => Some(NoticedBy::Comparison),
            Integrity::AsSet { fact, checked, unchecked } => {
                // A composed store prefixes the facts of its parts ("part: fact").
                let of_name = |(name, _): &(&String, &String)| name.rsplit(": ").next() == Some(fact);
                let (_, value) = facts.iter().find(of_name)?;
                let is_one_of = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(value));
                match (is_one_of(checked), is_one_of(unchecked)) {
                    (true, _) => Some(NoticedBy::Store),
                    (_, true) => Some(NoticedBy::Comparison),
                    _ => None,
                }
            }
            Integrity::NothingKept | Integrity::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_says_who_notices_also_behind_something_else() {
        let integrity = Integrity::AsSet { fact: "sums", checked: &["on"], unchecked: &["off"] };
        let says = |name: &str, value: &str| {
            integrity.noticed_by(&Facts::from([(name.to_owned(), value.to_owned())]))
        };
        assert_eq!(says("sums", "on"), Some(NoticedBy::Store));
        assert_eq!(says("sums", "OFF"), Some(NoticedBy::Comparison));
        assert_eq!(says("behind: sums", "on"), Some(NoticedBy::Store));
        assert_eq!(says("sums", "something new"), None);
        assert_eq!(says("other", "on"), None);
    }
}
