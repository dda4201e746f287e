//! When bytes are on stable storage, what is lost when something dies, and who notices a byte that changed.

use super::Facts;

/// When written bytes must be on stable storage.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Never asked for; the operating system or the store decides.
    None,
    /// At the latest when [`Session::sync`] returns.
    OnSync,
    /// When each put or delete returns.
    EachWrite,
}

impl Durability {
    /// All classes, weakest first.
    pub const ALL: &'static [Durability] = &[Durability::None, Durability::OnSync, Durability::EachWrite];

    /// The name used in flags, plans and reports.
    pub fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::OnSync => "on-sync",
            Durability::EachWrite => "each-write",
        }
    }

    /// The class of this name.
    pub fn named(name: &str) -> Option<Durability> {
        Durability::ALL.iter().copied().find(|class| class.name() == name)
    }
}

/// What is lost, at worst, when something dies between a write and the next sync.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// Every acknowledged write is there.
    Nothing,
    /// Blobs written since the last sync may be missing, old, empty or torn; all others are there and whole.
    RecentWrites,
    /// The store may refuse to open, or open with loss.
    StoreUnusable,
    /// Everything is gone.
    All,
    /// Nobody can say: what a flush keeps there is not known.
    NotKnown,
}

impl Loss {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Loss::Nothing => "nothing lost",
            Loss::RecentWrites => "recent writes lost",
            Loss::StoreUnusable => "perhaps unusable",
            Loss::All => "everything lost",
            Loss::NotKnown => "not known",
        }
    }
}

/// What two kinds of sudden end cost. Writes are ranked only among stores of equal loss.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
pub struct Losses {
    /// The process is killed (SIGKILL); the kernel and its page cache live on.
    pub after_kill: Loss,
    /// The machine loses power; the device keeps what it was told to flush.
    pub after_power_cut: Loss,
}

/// What a store knows of the bytes that it reads back, when they changed on the device behind its back. Whatever is said here is
/// tried by flipping bytes in the store's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// Its checksums make a changed byte an error of the read, or of opening it.
    Checksums,
    /// As one of its settings says, which is read back as a fact.
    AsSet {
        /// The fact's name.
        fact: &'static str,
        /// Its values with which a changed byte is an error.
        checked: &'static [&'static str],
        /// Those with which it is handed out. Of others nothing is known.
        unchecked: &'static [&'static str],
    },
    /// It hands a changed byte out as if it were right.
    Unchecked,
    /// It keeps nothing once it is closed, so that there is nothing to try.
    NothingKept,
    /// Its server is somebody else's, who may keep blobs in any way.
    Unknown,
}

/// Who notices that a byte of a blob changed on the device.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum NoticedBy {
    /// The store, by its checksums: the read is an error.
    Store,
    /// Nobody but who compares it with what was put, as the verification of a run does.
    Comparison,
}

impl NoticedBy {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            NoticedBy::Store => "the store: a read of it is an error",
            NoticedBy::Comparison => "the comparison only: a read of it succeeds",
        }
    }
}

impl Integrity {
    /// Who notices a changed byte, in few words.
    pub fn words(self) -> String {
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

    /// Who notices a changed byte in a store that says these facts of itself; `None` where that is not known, or nothing is kept.
    pub fn noticed_by(self, facts: &Facts) -> Option<NoticedBy> {
        match self {
            Integrity::Checksums => Some(NoticedBy::Store),
            Integrity::Unchecked => Some(NoticedBy::Comparison),
            Integrity::AsSet { fact, checked, unchecked } => {
                // Of a composed store the facts of a part are told apart by what stands before them.
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
