//! What to do: candidates side by side in each kind of work that a run was asked about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Interval;
use crate::plan::text::Need;

/// What follows from a run on one corpus for somebody who has to choose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// What a request of the user's program is taken to last, in nanoseconds: differences are shown beside it.
    pub request_ns: f64,
    /// What the program needs of a place, where something was said of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub need: Vec<Need>,
    /// The candidates that serve that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fit: Vec<String>,
    /// The candidates that do not. They stand in no situation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfit: Vec<Unfit>,
    /// The kinds of work in which at least two candidates can be compared.
    pub situations: Vec<Situation>,
    /// The candidates that can be compared in every one of two or more situations; the one whose worst case is least comes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub one_place: Vec<WorstCase>,
    /// Why there is none, where it would be one that others look faster than.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<Undecided>,
    /// What would follow from the reads of small, of medium and of large blobs alone; empty where fewer than two of these classes were
    /// read often enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_size: Vec<OfSize>,
}

/// What follows for blobs of one class of sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OfSize {
    /// The class.
    pub class: SizeClass,
    /// Its least size, in bytes.
    pub from_bytes: u64,
    /// Its blobs are smaller than this, in bytes; absent of large ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_bytes: Option<u64>,
    /// Its share of the reads of the first kind of work.
    pub reads_share: f64,
    /// Where these reads should go: the place for everything, unless another one is proved to be better by what counts. Several that
    /// tie; none where the place for everything cannot be compared with others here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
    /// What would follow if there were no others. Its situations are reads: what a write puts off has no size.
    pub advice: Advice,
}

/// Sizes of blobs, in three classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SizeClass {
    /// What an op costs by itself is most of it.
    Small,
    /// In between.
    Medium,
    /// What its bytes cost is most of it.
    Large,
}

impl SizeClass {
    /// All of them, the smallest first.
    pub const ALL: [SizeClass; 3] = [SizeClass::Small, SizeClass::Medium, SizeClass::Large];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            SizeClass::Small => "small",
            SizeClass::Medium => "medium",
            SizeClass::Large => "large",
        }
    }
}

/// Candidates that look faster than the one place would be, in a kind of work in which they were measured too briefly to be ranked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Undecided {
    /// The phase of that kind of work.
    pub phase: String,
    /// Their labels.
    pub stores: Vec<String>,
}

impl Advice {
    /// Whether there are several kinds of work, so that there can be one place for all of them.
    pub fn is_of_several(&self) -> bool {
        self.situations.len() > 1
    }
}

/// A candidate that cannot be what is looked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unfit {
    /// The candidate's label.
    pub store: String,
    /// What it does not serve of what is needed; absent where its run did not note what it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks: Option<Vec<Need>>,
}

/// One kind of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Situation {
    /// What it is, in words.
    pub title: String,
    /// The same in a word or two, as a column is called.
    pub short: String,
    /// The phase that shows it.
    pub phase: String,
    /// Rounds in which every candidate that can be compared was measured; 0 in results of versions that did not note it.
    #[serde(default)]
    pub rounds: u32,
    /// What an op of the fastest candidate takes at the least, in nanoseconds: without what the harness may have of it.
    pub fastest_ns: f64,
    /// The fastest one behind those that lead; absent where none is proved to be slower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
    /// Every candidate that the answer is about: those that can be compared, the fastest first, and then the others.
    pub standings: Vec<Standing>,
}

/// What another choice costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Next {
    /// The candidate's label.
    pub store: String,
    /// What an op of it takes more than one of the fastest, in nanoseconds.
    pub more_ns: f64,
    /// By which share a request with one op in it takes longer than with the fastest, as in a worst case; absent in results of
    /// versions that did not note it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slower: Option<f64>,
    /// How many times as long an op of it takes, with an interval of 95 % that holds for all candidates at once; absent in results of
    /// versions that did not note it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<Interval>,
    /// Whether that is too little beside a request to decide anything.
    pub is_little: bool,
}

/// How a candidate does one kind of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Standing {
    /// The candidate's label.
    pub store: String,
    /// The mean time of an op in nanoseconds; absent where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op_ns: Option<f64>,
    /// Whether so much of that time is the harness that it is only a bound: the store itself takes less.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bound: bool,
    /// Where it stands.
    pub place: Place,
    /// Whether it was measured too briefly to be ranked, or is held back because one that was may be faster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_brief: bool,
    /// How many times the time of the fastest one it takes; absent where it cannot be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<f64>,
    /// The same at the most, with 95 % confidence and without what the harness may have of the fastest one's; absent after one
    /// round, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_at_most: Option<f64>,
}

/// Where a candidate stands among those that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// No other is proved to be faster by what counts.
    Leads,
    /// There are too few rounds, or the rounds differ too much, to tell whether it is the fastest.
    Undecided,
    /// Another one is.
    Behind,
    /// It promises or does something else, and is not comparable with the others.
    Apart,
    /// Its figure says nothing of it, or it has none.
    NotRanked,
}

/// The situation in which a candidate is worst.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorstCase {
    /// The candidate's label.
    pub store: String,
    /// The phase of that situation.
    pub phase: String,
    /// By which share a request with one op in it takes longer there than with the fastest candidate.
    pub slower: f64,
    /// By which share it does at the most, in any situation, with 95 % confidence in each; absent where the rounds set no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slower_at_most: Option<f64>,
}

impl Situation {
    /// How a candidate does it.
    pub fn of(&self, store: &str) -> Option<&Standing> {
        self.standings.iter().find(|standing| standing.store == store)
    }

    /// Those that may be the fastest one, and were not decided about, the fastest first.
    pub fn undecided(&self) -> impl Iterator<Item = &Standing> {
        self.standings.iter().filter(|standing| standing.place == Place::Undecided)
    }

    /// Those that no other is proved to be faster than, the fastest first.
    pub fn leaders(&self) -> impl Iterator<Item = &Standing> {
        self.standings.iter().filter(|standing| standing.place == Place::Leads)
    }
}
