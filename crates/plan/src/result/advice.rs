//! Recommendation: candidates side by side for each kind of work that a run was asked about.

use blobwise_stores::named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::Interval;
use crate::plan::text::Need;

/// Recommendation drawn from a run on one corpus.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// Assumed duration of a request of the user's program in nanoseconds, which differences are related to.
    pub request_ns: f64,
    /// Needs of the user's program; empty if none were given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub need: Vec<Need>,
    /// Candidates that meet these needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fit: Vec<String>,
    /// Candidates that do not meet these needs. They appear in no situation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfit: Vec<UnfitCandidate>,
    /// Kinds of work in which at least two candidates are comparable.
    pub situations: Vec<Situation>,
    /// Candidates that are comparable in every situation, if there are at least two situations; sorted by their worst
    /// case, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub one_place: Vec<WorstCase>,
    /// Phases of situations that do not count for `one_place`: evicting files without root leaves their metadata cached, so
    /// candidates that are files cannot be compared with the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_counted: Vec<String>,
    /// Reason why `one_place` is empty, if others look faster than its first entry would be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<UndecidedCandidates>,
    /// Recommendations for reads of small, medium and large blobs separately; empty if fewer than two of these classes
    /// were read often enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_size: Vec<SizeAdvice>,
}

/// Recommendation for blobs of one size class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeAdvice {
    /// Size class.
    pub class: SizeClass,
    /// Lower bound of the class, in bytes (inclusive).
    pub from_bytes: u64,
    /// Upper bound of the class, in bytes (exclusive); absent for large blobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_bytes: Option<u64>,
    /// Share of the reads in the first situation that belong to this class.
    pub reads_share: f64,
    /// Best place for these reads: the place recommended for all blobs, unless another is proved better by a relevant
    /// margin; several if they tie; empty if the place for all blobs is not comparable here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
    /// Recommendation if there were no other blobs. Its situations are reads only, because deferred work of writes
    /// cannot be assigned to a size.
    pub advice: Advice,
}

named! {
    /// Size classes of blobs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum SizeClass {
        /// Per-op costs dominate.
        Small = "small",
        /// Neither dominates.
        Medium = "medium",
        /// Per-byte costs dominate.
        Large = "large",
    }
}

impl SizeClass {
    /// All classes in ascending order.
    pub const ALL: [SizeClass; 3] = [SizeClass::Small, SizeClass::Medium, SizeClass::Large];
}

/// Candidates that look faster than the recommended place in a situation where they were measured too briefly to be
/// ranked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UndecidedCandidates {
    /// Phase of the situation.
    pub phase: String,
    /// Labels of the candidates.
    pub stores: Vec<String>,
}

impl Advice {
    /// True if there is more than one situation, so that one place for all of them can be recommended.
    pub fn is_of_several(&self) -> bool {
        self.situations.len() > 1
    }
}

/// Candidate that does not meet the needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnfitCandidate {
    /// Label of the candidate.
    pub store: String,
    /// Needs that it does not meet; absent if the run did not record what it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks: Option<Vec<Need>>,
}

/// Kind of work, and how the candidates do it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Situation {
    /// Description.
    pub title: String,
    /// Short name, for a column heading.
    pub short: String,
    /// Id of the phase that measures it.
    pub phase: String,
    /// Rounds in which every comparable candidate was measured; 0 in results of versions that did not record it.
    #[serde(default)]
    pub rounds: u32,
    /// Lower bound of the fastest candidate's op time in nanoseconds, without possible overhead of the harness.
    pub fastest_ns: f64,
    /// Fastest candidate that is proved slower than the leaders; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<RunnerUp>,
    /// All candidates considered: the comparable ones first, the fastest at the top, then the others.
    pub standings: Vec<SituationResult>,
}

/// Cost of choosing the runner-up.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunnerUp {
    /// Label of the candidate.
    pub store: String,
    /// Additional time per op compared with the fastest candidate, in nanoseconds.
    pub more_ns: f64,
    /// Relative slowdown of a request with one op compared with the fastest candidate, as in a worst case; absent in
    /// results of versions that did not record it.
    pub slower: Option<f64>,
    /// Op time relative to the fastest candidate, with a 95 % interval that is simultaneous over all candidates; absent
    /// in results of versions that did not record it.
    pub times: Option<Interval>,
    /// True if the difference is too small relative to a request to matter.
    pub is_little: bool,
}

/// Result of one candidate in a situation.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SituationResult {
    /// Label of the candidate.
    pub store: String,
    /// Mean time of an op, in nanoseconds; absent if it was not measured.
    pub op_ns: Option<f64>,
    /// True if the harness is so large a part of that time that it is only an upper bound for the store.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bound: bool,
    /// Rank among the comparable candidates.
    pub place: CandidateRank,
    /// True if it was measured too briefly to be ranked, or is unranked because such a candidate may be faster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_brief: bool,
    /// Op time relative to the fastest candidate; absent if it is not comparable.
    pub times: Option<f64>,
    /// Upper bound of that ratio with 95 % confidence, computed without possible harness overhead in the fastest
    /// candidate's time; absent after a single round, too.
    pub times_at_most: Option<f64>,
}

/// Rank of a candidate among the comparable ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CandidateRank {
    /// No other candidate is proved faster by a relevant margin.
    Leads,
    /// Too few rounds, or too much variance between them, to tell whether it is the fastest.
    Undecided,
    /// Another candidate is proved faster by a relevant margin.
    Behind,
    /// It offers other guarantees or does other work, so it is not comparable with the rest.
    Apart,
    /// It has no figure, or one that says nothing about the candidate.
    NotRanked,
}

/// Worst situation of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorstCase {
    /// Label of the candidate.
    pub store: String,
    /// Phase of that situation.
    pub phase: String,
    /// Relative slowdown of a request with one op compared with the fastest candidate there.
    pub slower: f64,
    /// Upper bound of the slowdown in any situation, with 95 % confidence in each; absent if the rounds set no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slower_at_most: Option<f64>,
}

impl Situation {
    /// Returns the result of the given candidate.
    pub fn result_for(&self, store: &str) -> Option<&SituationResult> {
        self.standings.iter().find(|standing| standing.store == store)
    }

    /// Iterates over candidates that may be the fastest but could not be decided on, the fastest first.
    pub fn undecided(&self) -> impl Iterator<Item = &SituationResult> {
        self.standings.iter().filter(|standing| standing.place == CandidateRank::Undecided)
    }

    /// Iterates over candidates that no other is proved faster than, the fastest first.
    pub fn leaders(&self) -> impl Iterator<Item = &SituationResult> {
        self.standings.iter().filter(|standing| standing.place == CandidateRank::Leads)
    }
}
