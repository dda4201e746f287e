//! Checks and their findings: one of four answers, with a figure.

use blobwise_stores::named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::{Row, SubjectFacts, UnknownReason, or_zero, text};
use crate::units;

named! {
    /// Answer of a check.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Answer {
        /// Nothing is wrong.
        Ok = "ok",
        /// A source is missing, its counters are too young, or there was too little activity.
        CannotTell = "cannot tell",
        /// Worth a look.
        Look = "look",
        /// Wrong.
        Bad = "bad",
    }
}

named! {
    /// The questions to ask before buying a new server.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum CheckQuestion {
        /// Is there enough memory?
        Memory = "Is there enough memory?",
        /// Is there idle processor time?
        Processor = "Is there idle processor time?",
        /// Is the disk all right?
        Disk = "Is the disk all right?",
        /// Is the network fast enough?
        Network = "Is the network fast enough?",
        /// Are there services that should be elsewhere?
        Neighbours = "Are there services that should be elsewhere?",
        /// May the database use the memory that there is?
        ServerMemory = "May the database use the memory that there is?",
        /// Is there an index where one is needed?
        Indexes = "Is there an index where one is needed?",
        /// Are the indexes in order?
        IndexOrder = "Are the indexes in order?",
        /// Are the statistics up to date?
        Statistics = "Are the statistics up to date?",
        /// Are there queries to offload, to rewrite or to drop?
        Queries = "Are there queries to offload, to rewrite or to drop?",
    }
}

impl CheckQuestion {
    /// All ten, in the order of the list.
    pub const ALL: [CheckQuestion; 10] = [
        CheckQuestion::Memory,
        CheckQuestion::Processor,
        CheckQuestion::Disk,
        CheckQuestion::Network,
        CheckQuestion::Neighbours,
        CheckQuestion::ServerMemory,
        CheckQuestion::Indexes,
        CheckQuestion::IndexOrder,
        CheckQuestion::Statistics,
        CheckQuestion::Queries,
    ];
}

/// Period of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FigurePeriod {
    /// The moment of the second look.
    Now,
    /// The time between the two looks.
    Looks,
    /// A period of this many seconds.
    Seconds(f64),
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckResult {
    /// The answer.
    pub answer: Answer,
    /// The figure in words, naming the worst case.
    pub figure: String,
    /// The figure as a number in the check's unit; `None` if there is none.
    pub value: Option<f64>,
    /// Period of the figure.
    pub over: FigurePeriod,
    /// Affected tables, indexes or queries, the worst first.
    pub named: Vec<String>,
    /// Command that measures the alternative.
    pub try_this: Option<String>,
}

impl CheckResult {
    /// A finding whose figure is of the time between the looks.
    pub fn new(answer: Answer, value: f64, figure: String) -> CheckResult {
        CheckResult {
            answer,
            figure,
            value: Some(value),
            over: FigurePeriod::Looks,
            named: Vec::new(),
            try_this: None,
        }
    }

    /// A finding whose figure is of this moment.
    pub fn now(answer: Answer, value: f64, figure: String) -> CheckResult {
        CheckResult::new(answer, value, figure).with_period(FigurePeriod::Now)
    }

    /// A finding of this moment that has no number.
    pub fn in_words(answer: Answer, figure: String) -> CheckResult {
        CheckResult { value: None, ..CheckResult::now(answer, 0.0, figure) }
    }

    /// A finding whose answer is `answer` if it names something, and otherwise [`Answer::Ok`].
    pub fn of_named(answer: Answer, value: f64, figure: String, named: Vec<String>) -> CheckResult {
        CheckResult::new(when(!named.is_empty(), answer), value, figure).naming(named)
    }

    /// Sets the period.
    pub fn with_period(self, period: FigurePeriod) -> CheckResult {
        CheckResult { over: period, ..self }
    }

    /// Sets the affected objects.
    pub fn naming(self, named: Vec<String>) -> CheckResult {
        CheckResult { named, ..self }
    }
}

/// Returns `answer` if `is_so`, otherwise [`Answer::Ok`].
pub fn when(is_so: bool, answer: Answer) -> Answer {
    if is_so { answer } else { Answer::Ok }
}

/// A part of a whole as a share from 0 to 1. Clamped, because counters of two sources are not read at the same moment, and a
/// server's own work may be counted in only one of them.
pub fn share_of(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

/// Formats a size as a server's configuration would, in units of 1,024 from kilobytes on: exact if four digits suffice, as `8MB`
/// and `1536MB`, otherwise with three digits.
pub fn as_configured(bytes: f64, units: [&str; 4]) -> String {
    let mut unit = 0;
    let mut value = bytes / 1024.0;
    while value >= 1024.0
        && unit + 1 < units.len()
        && (value % 1024.0 == 0.0 || value.fract() != 0.0 || value >= 1e4)
    {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value.fract() == 0.0 || value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$}{}", units[unit])
}

/// Compares a server's cache with the size of its data, both formatted as in the server's configuration.
pub fn shipped_cache(name: &str, [cache, data]: [f64; 2], units: [&str; 4]) -> CheckResult {
    /// Default of PostgreSQL, MySQL and MariaDB.
    const SHIPPED: f64 = 134_217_728.0;
    let [shown, of] = [cache, data].map(|bytes| as_configured(bytes, units));
    let figure = format!("{name} = {shown}, for {of} of data");
    CheckResult::now(when(cache <= SHIPPED && data > cache, Answer::Look), cache, figure)
}

/// Finding for a cache: by the share of the time of queries that went into reading what it lacked, or, if that is not timed, by the
/// share of reads, which counts only if the cache is smaller than the data. `words` describes the reads.
pub fn cache_misses(of_time: Option<f64>, of_reads: f64, is_smaller: bool, words: String) -> CheckResult {
    match of_time {
        Some(share) => {
            let figure = format!("{} of the time of queries; {words}", units::percent(share));
            CheckResult::new(when(share > 0.05, Answer::Look), share, figure)
        }
        None => CheckResult::new(when(of_reads > 0.01 && is_smaller, Answer::Look), of_reads, words),
    }
}

/// Finding for the number of connections, out of those that a server allows.
pub fn connections(used: f64, most: f64) -> CheckResult {
    let answer = when(used > most * 0.8, Answer::Look);
    CheckResult::now(answer, used / most.max(1.0), format!("{used:.0} of {most:.0}"))
}

/// Finding for figures of several things: those for which `is_much` are named, the largest first. If there are none, the figure is
/// the largest, or `none` without any thing. `thing` is the word for what is counted, if it is not clear.
pub fn largest<T>(
    mut all: Vec<(f64, T)>,
    is_much: impl Fn(&(f64, T)) -> bool,
    words: impl Fn(&(f64, T)) -> String,
    thing: Option<&str>,
    none: &str,
) -> CheckResult {
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let named: Vec<String> = all.iter().filter(|one| is_much(one)).map(&words).collect();
    let count = || thing.map_or_else(|| named.len().to_string(), |thing| units::counted(named.len(), thing));
    let figure = match (named.first(), all.first()) {
        (Some(first), _) => format!("{}: {first}", count()),
        (None, Some(most)) => format!("the most is {}", words(most)),
        (None, None) => none.to_owned(),
    };
    let most = all.first().map_or(0.0, |(most, _)| *most);
    CheckResult::of_named(Answer::Look, most, figure, named)
}

/// Finding for redundant indexes, each named with the first index that covers it.
pub fn covered_indexes(
    facts: &SubjectFacts,
    is_covered_by: fn(&Row, &Row) -> bool,
    shown: fn(&Row) -> String,
) -> Result<CheckResult, UnknownReason> {
    let rows = facts.rows("indexes")?;
    let by = |row: &Row| rows.iter().find(|other| is_covered_by(row, other)).map(|other| text(other, "name"));
    let named = rows.iter().filter_map(|row| Some(format!("{}, by `{}`", shown(row), by(row)?)));
    let (named, all): (Vec<String>, usize) = (named.collect(), rows.len());
    let figure = match named.first() {
        Some(first) => format!("{} of {all} are covered by another: {first}", named.len()),
        None => format!("none of {all} is covered by another"),
    };
    Ok(CheckResult::of_named(Answer::Look, named.len() as f64, figure, named).with_period(FigurePeriod::Now))
}

/// Finding for indexes that nothing has used for as long as uses were counted, in seconds.
pub fn unused_indexes(named: Vec<String>, counted: f64) -> CheckResult {
    let figure = match named.first() {
        Some(first) => format!("{}: {first}", named.len()),
        None => "none in a table that was used".to_owned(),
    };
    CheckResult::of_named(Answer::Look, named.len() as f64, figure, named)
        .with_period(FigurePeriod::Seconds(counted))
}

/// Finding for mostly empty indexes, from the density (per cent) of each; `none` is the text for no indexes.
pub fn emptiest_index(mut told: Vec<(f64, &Row)>, shown: impl Fn(&Row) -> String, none: &str) -> CheckResult {
    const EMPTY: f64 = 40.0;
    told.sort_by(|a, b| a.0.total_cmp(&b.0));
    let words = |(density, row): &(f64, &Row)| {
        let bytes = units::bytes(or_zero(row, "bytes"));
        format!("{} ({bytes}) is {} full", shown(row), units::percent(density / 100.0))
    };
    let Some(emptiest) = told.first() else {
        return CheckResult::in_words(Answer::Ok, none.to_owned());
    };
    let named: Vec<String> = told.iter().filter(|(density, _)| *density < EMPTY).map(words).collect();
    let figure = named.first().cloned().unwrap_or_else(|| format!("the emptiest, {}", words(emptiest)));
    CheckResult::of_named(Answer::Look, emptiest.0 / 100.0, figure, named).with_period(FigurePeriod::Now)
}

/// Minimum ages of counters, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeastAges {
    /// Before a cache is called too small: it is empty after a restart.
    pub cache: f64,
    /// Before an index is called unused: a report may run once a week, or at the end of a fortnight.
    pub unused: f64,
}

impl Default for LeastAges {
    fn default() -> LeastAges {
        LeastAges { cache: 86_400.0, unused: 14.0 * 86_400.0 }
    }
}

impl LeastAges {
    /// Fails if a server was started too recently, `up` seconds ago, for its cache to be judged.
    pub fn check_cache(&self, up: f64) -> Result<(), UnknownReason> {
        if up < self.cache {
            return Err(format!("it was started {} ago: its cache may still be filling", units::seconds(up)));
        }
        Ok(())
    }

    /// Fails if uses have been counted for too short a time, in seconds; `words` says how long.
    pub fn check_unused(&self, counted: f64, words: fn(String) -> String) -> Result<(), UnknownReason> {
        if counted < self.unused {
            let words = words(units::age(counted));
            return Err(format!("{words}, and {} are needed", units::age(self.unused)));
        }
        Ok(())
    }

    /// Formats them as the flag is written.
    pub fn as_flags(&self) -> String {
        let time = |seconds: f64| match seconds % 3600.0 {
            0.0 => format!("{}h", seconds / 3600.0),
            _ => format!("{seconds}s"),
        };
        match self.cache == self.unused {
            true => format!("--least-age {}", time(self.cache)),
            false => {
                format!("--least-age {} for caches, {} for indexes", time(self.cache), time(self.unused))
            }
        }
    }
}

/// Function that judges facts, or returns why it cannot tell.
pub type Judge = fn(&SubjectFacts, &LeastAges) -> Result<CheckResult, UnknownReason>;

/// A check: one entry of the table.
pub struct Check {
    /// Name, which never changes.
    pub id: &'static str,
    /// Question that it helps to answer.
    pub question: CheckQuestion,
    /// Description of the figure.
    pub figure: &'static str,
    /// Thresholds of the answers.
    pub threshold: &'static str,
    /// Reason for the threshold, and what a false alarm would be.
    pub reason: &'static str,
    /// Origin of the threshold.
    pub after: &'static str,
    /// Source of the figure.
    pub source: &'static str,
    /// Rights that may be needed to read it.
    pub rights: &'static str,
    /// Command that shows the figure.
    pub shown_by: &'static str,
    /// Function that judges the facts.
    pub judge: Judge,
}

impl Check {
    /// A check whose threshold is blobwise's own and whose source needs no right, unless it says otherwise. Its texts are to be
    /// filled in.
    pub const fn new(id: &'static str, question: CheckQuestion, judge: Judge) -> Check {
        Check {
            id,
            question,
            figure: "",
            threshold: "",
            reason: "",
            after: "blobwise",
            source: "",
            rights: "none",
            shown_by: "",
            judge,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_the_configuration_has_them() {
        const MB: f64 = 1_048_576.0;
        let shown = |bytes: f64| as_configured(bytes, ["kB", "MB", "GB", "TB"]);
        let all = [8.0 * MB, 128.0 * MB, 1536.0 * MB, 1024.0 * MB, 126e6, 5.5e12, 4096.0, 100.0, 0.0];
        let words = ["8MB", "128MB", "1536MB", "1GB", "120MB", "5.00TB", "4kB", "0.10kB", "0kB"];
        assert_eq!(all.map(shown), words);
    }

    #[test]
    fn a_cache_as_it_is_shipped_is_too_small_for_more_data_than_it_holds() {
        const MB: f64 = 1_048_576.0;
        let found = |cache: f64, data: f64| shipped_cache("b", [cache * MB, data * MB], ["K", "M", "G", "T"]);
        assert_eq!(found(8.0, 120.0).answer, Answer::Look);
        assert_eq!(found(8.0, 120.0).figure, "b = 8M, for 120M of data");
        assert_eq!(found(128.0, 129.0).answer, Answer::Look);
        assert_eq!(found(128.0, 100.0).answer, Answer::Ok);
        assert_eq!(found(129.0, 4096.0).answer, Answer::Ok);
    }

    #[test]
    fn no_share_is_above_all() {
        assert_eq!([share_of(1.0, 4.0), share_of(101.0, 100.0), share_of(1.0, 0.0)], [0.25, 1.0, 0.0]);
    }
}
