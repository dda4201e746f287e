//! The result of a run: the only types that are written to files and read back. `docs/result.schema.json` is made
//! from them. A figure that could not be measured is absent, never 0.

mod advice;
pub mod cause;
mod cell;
mod check;
pub mod checked;
mod claim;
mod clients;
pub mod compared;
mod costs;
mod counters;
pub mod crash;
pub mod disk;
mod estimated;
mod file;
mod finding;
mod found;
mod program;
mod reason;
mod round;
mod subject;
mod upkeep;
mod warning;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::advice::{
    Advice, Next, OfSize, Place, Situation, SizeClass, Standing, Undecided, Unfit, WorstCase,
};
pub use self::cell::{Cache, Cell, HotShare, Interval, PercentileIntervals, Percentiles, SizeBand, Step};
pub use self::claim::{Claim, ClaimVerdict, Magnitude};
pub use self::clients::{
    Client, ClientRound, common_ops_per_s, first_end_ops_per_s, processors, shares_of_median,
};
pub use self::costs::{Costs, MachinePrice, Month, MonthlyLoad, Prices, Pricing, Rates, Turn, Unknown, Work};
pub use self::counters::Counters;
pub use self::file::replace;
pub use self::finding::{
    Against, Cause, Comparison, Crossover, Disturbance, Matrix, MatrixCell, SetAside, SetAsideRound, Verdict,
};
pub use self::found::{Bearing, Finding, Found, FoundColumn, FoundValue, Unit};
pub use self::program::{Harness, HarnessMemory, Program};
pub use self::reason::Reason;
pub use self::round::{
    CacheProof, Fixed, FixedLength, Histograms, OpenLoop, Probe, Round, RoundMemory, Rung, StoreRound,
    VerifiedFrom,
};
pub use self::subject::{
    CandidateResult, CorpusResult, Footprint, LargestBlob, PhaseResult, Picture, Promise, Status,
};
pub use self::upkeep::Upkeep;
pub use self::warning::{
    ComparedFrom, Disturbed, FlushDoubt, OddRound, Others, OwnShare, Partly, RoundsCut, Seen, Speed, Warning,
    Weight, Where,
};
pub use crate::host::machine::{Below, Machine, Medium, ReplacedFlushes};
pub use crate::host::processors::Apart;
use crate::plan::text::{PlanText, Successor};
pub use crate::store::{Connects, Durability, Kind, Loss, Losses, MadeCold, NoticedBy, Traits};

/// Version of the format; a reader refuses any other one but those from [`SCHEMA_MIN`] on.
pub const SCHEMA: u32 = 5;

/// The oldest format that is read. Format 4 has `median` where format 5 has `geometric_mean` and, in the figure of a claim, `estimate`; and
/// it has no `confidence`.
pub const SCHEMA_MIN: u32 = 4;

/// Everything a run measured, and what follows from it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// Where it lies, while it is printed by who has it: no file has that. Commands that are printed name it.
    #[serde(skip)]
    pub place: Option<std::path::PathBuf>,
    /// Version of this format.
    pub schema: u32,
    /// Whether every round of every candidate was measured.
    pub complete: bool,
    /// The program that measured.
    pub program: Program,
    /// The plan, complete: running it again repeats the run.
    pub plan: PlanText,
    /// What the pilot fixed before round 1.
    pub fixed: Fixed,
    /// The machine.
    pub machine: Machine,
    /// The processes that did it together by MPI; none where it was one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<Client>,
    /// What the harness itself costs.
    pub harness: Harness,
    /// The blobs.
    pub corpus: CorpusResult,
    /// The blobs of each size of a sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corpora: Vec<CorpusResult>,
    /// The candidates and what their stores say of themselves.
    pub candidates: Vec<CandidateResult>,
    /// What was done, phase by phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseResult>,
    /// One cell for each candidate and phase.
    pub results: Vec<Cell>,
    /// What kinds of work found that is no figure of ops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Disk taken by each candidate.
    pub footprints: Vec<Footprint>,
    /// Ratios and verdicts.
    pub comparisons: Vec<Comparison>,
    /// Each phase that was done at several sizes, every candidate over the plan's reference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matrices: Vec<Matrix>,
    /// The sentences of the answer.
    pub answer: Vec<String>,
    /// What to do; absent where the run is about several sizes, a published claim, or loads of pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Advice>,
    /// What a month costs, where prices were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// Sizes at which one candidate overtakes another.
    pub crossovers: Vec<Crossover>,
    /// Published statements and what this run says of them.
    pub claims: Vec<Claim>,
    /// Reasons not to trust a number.
    pub warnings: Vec<Warning>,
    /// The probes of each round.
    pub probes: Vec<Probe>,
    /// Each candidate of each round, in the order in which they were measured.
    pub store_rounds: Vec<StoreRound>,
    /// Rounds that were disturbed and measured again: what was measured first. It is in no figure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<SetAside>,
    /// What visitors see, where there is something to see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<Picture>,
}

impl RunResult {
    /// The candidates that could run.
    pub fn candidates_here(&self) -> impl Iterator<Item = &CandidateResult> {
        self.candidates.iter().filter(|candidate| candidate.is_here())
    }

    /// Whether a candidate is part of it, measured or not.
    fn has(&self, candidate: &str) -> bool {
        self.candidates.iter().any(|known| known.store == candidate)
            || self.results.iter().any(|cell| cell.store == candidate)
    }

    /// What its plan measures in place of something else, where that is part of it.
    pub fn successors(&self) -> Vec<&Successor> {
        self.plan.successor.iter().filter(|successor| self.has(&successor.candidate)).collect()
    }

    /// The claims on what the plan names, without the same said of what is measured in its place.
    pub fn own_claims(&self) -> impl Iterator<Item = &Claim> {
        self.claims.iter().filter(|claim| claim.in_place.is_none())
    }

    /// Whether it is about pages that a browser loads: what is asked of them is not what is asked of stores.
    pub fn shows_pages(&self) -> bool {
        self.candidates.iter().any(CandidateResult::is_here)
            && self.candidates_here().all(|candidate| candidate.kind == Some(Kind::Page))
    }

    /// Its corpora: one, or those of a sweep or of a plan that has several.
    pub fn all_corpora(&self) -> &[CorpusResult] {
        if self.corpora.is_empty() { std::slice::from_ref(&self.corpus) } else { &self.corpora }
    }
}
