//! The result of a run: the only types that are written to files and read back. `docs/result.schema.json` is made
//! from them. A figure that could not be measured is absent, never 0.

/// Declares an enum of reasons: each variant with its data and, behind the arrow, all that reports need of it.
macro_rules! with_details {
    (
        $(#[$of_enum:meta])* pub enum $enum:ident;
        $(#[$of_method:meta])* pub fn $method:ident -> $details:ty;
        $(
            $(#[$of:meta])*
            $name:ident $({ $($(#[$of_field:meta])* $field:ident: $kind:ty,)* })? $(($data:ident: $inner:ty))?
                => $details_of:expr;
        )*
    ) => {
        $(#[$of_enum])*
        pub enum $enum {
            $($(#[$of])* $name $({ $($(#[$of_field])* $field: $kind,)* })? $(($inner))?,)*
        }

        impl $enum {
            $(#[$of_method])*
            pub fn $method(&self) -> $details {
                match self {
                    $($enum::$name $({ $($field),* })? $(($data))? => $details_of,)*
                }
            }
        }
    };
}

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
mod growth;
mod program;
mod reason;
pub mod recent;
mod round;
mod subject;
mod upkeep;
mod warning;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

pub use self::advice::{
    Advice, CandidateRank, RunnerUp, Situation, SituationResult, SizeAdvice, SizeClass, UndecidedCandidates,
    UnfitCandidate, WorstCase,
};
pub use self::cell::{Cache, Cell, HotShare, Interval, PercentileIntervals, Percentiles, SizeBand, Step};
pub use self::claim::{Claim, ClaimVerdict, Magnitude};
pub use self::clients::{
    ClientProcess, ClientRound, common_ops_per_s, first_end_ops_per_s, processors, shares_of_median,
};
pub use self::costs::{
    CheapestChange, Costs, MachinePrice, Month, MonthlyLoad, MonthlyOps, Prices, Pricing, Rates, UnknownCost,
};
pub use self::counters::Counters;
pub use self::file::replace;
pub use self::finding::{
    Cause, Comparison, Crossover, DiscardedFigures, DiscardedRound, Disturbance, Matrix, MatrixCell,
    ReferenceRole, Verdict,
};
pub use self::found::{Bearing, ColumnType, Finding, FindingsColumn, FindingsTable, FindingsValue};
pub use self::growth::{CurveFigure, CurveStep, GrowthForecast, GrowthLaw, GrowthOutcome, StepCurve};
pub use self::program::{Harness, HarnessMemory, MeasuringProgram};
pub use self::reason::{Reason, WordedReason, in_a_line};
pub use self::round::{
    AgedImage, CacheProof, Fixed, FixedLength, Histograms, OpenLoop, Probe, Replayed, Round, RoundMemory,
    Rung, StoreRound, VerifiedFrom,
};
pub use self::subject::{
    CandidateResult, CorpusResult, Footprint, LargestBlob, PhaseResult, Picture, Promise, Status,
};
pub use self::upkeep::Upkeep;
pub use self::warning::{
    AffectedPhase, AffectedPhases, Anomaly, CandidateShare, ComparisonSource, DisturbedRounds, DroppedRounds,
    FlushDoubt, ForeignActivity, RoundAnomalies, Severity, Speed, Warning, WarningDetails, ahead_by, doubted,
    preloaded,
};
use crate::corpus::CorpusId;
pub use crate::host::machine::{Machine, Medium, ReplacedFlushes, StorageLayers};
pub use crate::host::processors::ProcessorSplit;
use crate::plan::text::{PlanText, Successor};
pub use crate::store::{ColdMethod, ConnectionUse, Durability, Kind, Loss, Losses, NoticedBy, Traits};

/// Version of the result format that is written; [`SCHEMA_MIN`] is the oldest that is read.
pub const SCHEMA: u32 = 5;

/// Oldest result format that is read. Format 4 has `median` in place of `geometric_mean` (in the figure of a claim,
/// `estimate`) and no `confidence`.
pub const SCHEMA_MIN: u32 = 4;

/// Everything a run measured, and the conclusions drawn from it.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// Path of the result, for the commands that reports print; set only while printing, never written to a file.
    #[serde(skip)]
    pub place: Option<std::path::PathBuf>,
    /// Version of the result format.
    pub schema: u32,
    /// True if every round of every candidate was measured.
    pub complete: bool,
    /// Program that made the measurements.
    pub program: MeasuringProgram,
    /// Complete plan; running it again repeats the run.
    pub plan: PlanText,
    /// Phase lengths and number of rounds, fixed by the pilot before round 1.
    pub fixed: Fixed,
    /// Machine the run was made on.
    pub machine: Machine,
    /// MPI processes that measured together; empty for a run of one process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientProcess>,
    /// Overhead of the harness itself.
    pub harness: Harness,
    /// Blobs of the run.
    pub corpus: CorpusResult,
    /// Blobs of each size of a sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corpora: Vec<CorpusResult>,
    /// Candidates, with the facts their stores report.
    pub candidates: Vec<CandidateResult>,
    /// Phases of the run, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseResult>,
    /// One cell per candidate and phase.
    pub results: Vec<Cell>,
    /// Results of phases that are not op figures: tables with a verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Disk space used by each candidate.
    pub footprints: Vec<Footprint>,
    /// Rates of candidates relative to a reference, with verdicts.
    pub comparisons: Vec<Comparison>,
    /// Phases measured at several sizes: every candidate relative to the plan's reference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matrices: Vec<Matrix>,
    /// Sentences of the answer.
    pub answer: Vec<String>,
    /// Recommendation; absent for sweeps, runs on several corpora, published claims and page loads.
    pub advice: Option<Advice>,
    /// Monthly costs; present if prices were given.
    pub costs: Option<Costs>,
    /// Sizes, amounts of memory, numbers of blobs or ages at which one candidate overtakes another.
    pub crossovers: Vec<Crossover>,
    /// Figures over the number of blobs or over the age of the stores; empty if neither was varied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<StepCurve>,
    /// Published statements, with this run's verdict on each.
    pub claims: Vec<Claim>,
    /// Reasons to doubt a figure.
    pub warnings: Vec<Warning>,
    /// Probes of the machine, at the start and end of each round.
    pub probes: Vec<Probe>,
    /// Each candidate's turn in each round, in measuring order.
    pub store_rounds: Vec<StoreRound>,
    /// First measurements of rounds that were disturbed and then repeated; part of no figure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<DiscardedRound>,
    /// Screenshots of pages, one per candidate that has a page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<Picture>,
}

impl RunResult {
    /// Iterates over the candidates that can run on this machine.
    pub fn candidates_here(&self) -> impl Iterator<Item = &CandidateResult> {
        self.candidates.iter().filter(|candidate| candidate.is_here())
    }

    /// Returns the number of rounds that were begun, by the candidate that came farthest.
    pub fn rounds_begun(&self) -> u32 {
        self.results.iter().map(|cell| cell.rounds.len() as u32).max().unwrap_or(0)
    }

    /// Returns the candidate with this label.
    pub fn candidate(&self, store: &str) -> Option<&CandidateResult> {
        self.candidates.iter().find(|candidate| candidate.store == store)
    }

    /// Returns the cell of a candidate in a phase; in a sweep of sizes, the first one.
    pub fn cell(&self, store: &str, phase: &str) -> Option<&Cell> {
        self.results.iter().find(|cell| cell.store == store && cell.phase == phase)
    }

    /// True if the run has this candidate, measured or not.
    fn has(&self, candidate: &str) -> bool {
        self.candidates.iter().any(|known| known.store == candidate)
            || self.results.iter().any(|cell| cell.store == candidate)
    }

    /// Returns the plan's successors (candidates measured in place of another) that are part of this run.
    pub fn successors(&self) -> Vec<&Successor> {
        self.plan.successor.iter().filter(|successor| self.has(&successor.candidate)).collect()
    }

    /// Iterates over the claims about the plan's original candidates, without those repeated for a successor.
    pub fn own_claims(&self) -> impl Iterator<Item = &Claim> {
        self.claims.iter().filter(|claim| claim.in_place.is_none())
    }

    /// True if all candidates are pages loaded in a browser; reports ask other questions about these than about stores.
    pub fn shows_pages(&self) -> bool {
        self.candidates.iter().any(CandidateResult::is_here)
            && self.candidates_here().all(|candidate| candidate.kind == Some(Kind::Page))
    }

    /// Returns all corpora: one, or several in a sweep or in a plan with several.
    pub fn all_corpora(&self) -> &[CorpusResult] {
        if self.corpora.is_empty() { std::slice::from_ref(&self.corpus) } else { &self.corpora }
    }

    /// Returns the corpus of this id.
    pub fn corpus_of(&self, id: CorpusId) -> Option<&CorpusResult> {
        self.all_corpora().iter().find(|corpus| corpus.corpus_id == id)
    }
}
