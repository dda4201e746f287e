//! What a run of cuts says: as lines in a terminal, as a page, as data.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Damage, Finding, Verdict};
use crate::store::{Durability, Loss};
use crate::units;

/// All of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// The program's version.
    pub blobwise: String,
    /// When it began.
    pub started: String,
    /// The machine's system and kernel.
    pub system: String,
    /// The file system on the disk.
    pub file_system: String,
    /// Cuts asked for, for each store and class.
    pub cuts: u32,
    /// What ops, cuts and images follow from.
    pub seed: u64,
    /// What shows that the lab sees a loss, and sees none where there is none.
    pub controls: Vec<Control>,
    /// One line for each store and class.
    pub lines: Vec<Line>,
}

/// A control.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Control {
    /// What is done.
    pub what: String,
    /// Whether something must be lost.
    pub must_lose: bool,
    /// Cuts after which something was.
    pub lost: usize,
    /// Cuts.
    pub cuts: usize,
}

impl Control {
    /// Whether it came out as it must.
    pub fn holds(&self) -> bool {
        (self.lost > 0) == self.must_lose && self.cuts > 0
    }
}

/// What came of a store in a class.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Line {
    /// The store.
    pub store: String,
    /// The class.
    pub durability: Durability,
    /// What its adapter declares that a power cut takes.
    pub declared: Loss,
    /// What the cuts say of that; absent where a control came out wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// What was found.
    #[serde(flatten)]
    pub finding: Finding,
}

impl Report {
    /// Whether every control came out as it must: without, there are no verdicts.
    pub fn holds(&self) -> bool {
        self.controls.iter().all(Control::holds)
    }

    /// What stands above the lines.
    pub fn head(&self) -> String {
        let mut text = format!(
            "Power cuts on {}: {} for each store and class, seed {}.\n\nControls\n",
            self.file_system, self.cuts, self.seed
        );
        for control in &self.controls {
            let must = if control.must_lose { "must lose" } else { "must not lose" };
            let is = if control.holds() { "as it must" } else { "WRONG" };
            let Control { what, lost, cuts, .. } = control;
            writeln!(text, "  {what}: {must}, lost in {lost} of {cuts}: {is}").ok();
        }
        text += "\n\
            Behind each class: what its adapter declares that a power cut takes, the\n\
            verdict on it, and the cuts that broke what it promises (where none did, below\n\
            that share of all, at 95 %). Then the cuts that took acknowledged writes which\n\
            it does not promise, and how long opening took, in the middle and at most.\n";
        if !self.holds() {
            text +=
                "\nNo verdicts: a control came out wrong, so that the disk does not show what it should.\n";
        }
        text
    }

    /// All lines as a table of Markdown, with what was found first of each damage.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "| store | class | a power cut takes, as declared | cuts that broke it | recent writes gone in | opens in (longest) | verdict |\n\
             | --- | --- | --- | --- | --- | --- | --- |\n",
        );
        for line in &self.lines {
            let version =
                line.finding.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
            writeln!(
                text,
                "| `{}`{version} | {} | {} | {} | {} | {} | {} |",
                line.store,
                line.durability.name(),
                line.declared.name(),
                line.finding.broke(),
                line.finding.gone(),
                line.finding.opens(),
                line.verdict.map_or("none", Verdict::name)
            )
            .ok();
        }
        for line in &self.lines {
            if let Some(first) = &line.finding.first {
                write!(text, "\n`{}` in class {}: {first}.\n", line.store, line.durability.name()).ok();
            }
        }
        text
    }
}

impl Line {
    /// On two lines of a terminal, and more where something was damaged.
    pub fn terminal(&self) -> String {
        let Finding { sent: Sent { writes, flushes }, first, unmountable, .. } = &self.finding;
        let mut text = format!(
            "  {:<11} {:<18}  {:<16}  {}\n  {:<11} recent gone {}; opens {}; {writes} writes, {flushes} flushes\n",
            self.durability.name(),
            self.declared.name(),
            self.verdict.map_or("no verdict", Verdict::name),
            self.finding.broke(),
            "",
            self.finding.gone(),
            self.finding.opens(),
        );
        if *unmountable > 0 {
            let cuts = units::counted(*unmountable, "cut");
            writeln!(text, "  {:<11} no file system after {cuts}: they say nothing of the store", "").ok();
        }
        if let Some(first) = first {
            writeln!(text, "  {:<11} first: {first}", "").ok();
        }
        text
    }
}

impl Finding {
    /// How many cuts damaged what is promised, and what that means of all cuts or by sort.
    fn broke(&self) -> String {
        let of = format!("{} of {}", self.damages(), self.cuts);
        match self.damages() {
            0 => format!("{of} (below {:.2} %)", 100.0 * self.at_most()),
            _ => {
                let sorts =
                    self.damaged.iter().map(|Sort { damage, cuts }| format!("{} {cuts}", damage.name()));
                format!("{of} ({})", sorts.collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn gone(&self) -> String {
        format!("{} of {}", self.lost_recent, self.cuts)
    }

    fn opens(&self) -> String {
        let time = |seconds: f64| units::nanoseconds(seconds * 1e9);
        match &self.open_seconds {
            Some(Opens { middle, longest }) => format!("{} ({})", time(*middle), time(*longest)),
            None => "-".to_owned(),
        }
    }
}

/// How many cuts had a sort of damage as their worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Sort {
    /// The damage.
    pub damage: Damage,
    /// Cuts.
    pub cuts: usize,
}

/// How long a store takes to open after a cut, in seconds, to its first read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Opens {
    /// The middle.
    pub middle: f64,
    /// The longest.
    pub longest: f64,
}

/// What a load made the kernel send to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sent {
    /// Writes.
    pub writes: usize,
    /// Flushes.
    pub flushes: usize,
}
