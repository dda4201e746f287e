//! Reasons why a figure is not ranked: the data of each, and its wording.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Status;
use crate::store::Durability;
use crate::units::{bytes, counted, nanoseconds};

with_details! {
    /// Reason why a cell is not ranked, or why two cells are not compared.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(tag = "code", rename_all = "kebab-case")]
    pub enum Reason;
    /// Returns its wording.
    pub fn worded -> WordedReason;

    /// It belongs to a baseline, which is not a place for files.
    Baseline => head("a baseline, not a place for files");
    /// The candidate does not offer the requested durability class.
    WeakerClass {
        /// Strongest class that it offers.
        class: Durability,
    } => head(&format!("runs in class {}, the strongest it has", class.name()));
    /// The harness is too large a part of an op.
    MostlyHarness {
        /// Harness overhead as a share of the op, from 0 to 1.
        share: f64,
    } => with("client-bound", format!("{:.0} % of an op is the harness", share * 100.0))
        .plainly("limited by blobwise itself, not by the store");
    /// The client's CPUs were busy while the server's were idle.
    ClientBusy {
        /// Utilization of the client's CPUs, from 0 to 1.
        client_share: f64,
        /// Utilization of the server's CPUs, from 0 to 1.
        server_share: f64,
    } => {
        let (client, server) = (client_share * 100.0, server_share * 100.0);
        let said = format!("the client's processors were {client:.0} % busy, the server's {server:.0} %");
        with("client-bound", said).plainly("limited by blobwise itself, not by the store")
    };
    /// It is a cache with too many misses.
    MissesItsCache {
        /// Share of ops that missed, from 0 to 1.
        share: f64,
    } => with("misses of its cache", format!("{:.0} % of its ops", share * 100.0))
        .plainly("its cache does not hold all blobs");
    /// Part of its memory is outside its memory limit.
    MemoryOutside {
        /// Size of that memory, in bytes.
        bytes: u64,
        /// Memory limit, in bytes.
        limit_bytes: u64,
    } => with("memory outside of its limit", beside_limit(*bytes, *limit_bytes))
        .plainly("used memory outside of its limit");
    /// It could not sustain the offered rate.
    NotSustained => with("not sustained", "the offered rate was more than it could do".to_owned())
        .plainly("could not keep up with the offered rate");
    /// It should be cold, but opening the store loaded its data.
    OpenedWarm {
        /// Share of the data in memory after opening, from 0 to 1.
        share: f64,
        /// Seconds taken to open the store.
        open_seconds: f64,
    } => resident(format!("opening loaded {:.0} % of it", share * 100.0), *open_seconds);
    /// It should be cold, but the device read less than was delivered.
    DeviceReadLittle {
        /// Device bytes read per byte delivered.
        bytes_per_byte: f64,
        /// Seconds taken to open the store.
        open_seconds: f64,
    } => resident(format!("the device read {bytes_per_byte:.2} B for a byte delivered"), *open_seconds);
    /// Its server did fewer passes of a cold phase than other candidates, so it read other keys. It is too short as
    /// well.
    CutShort {
        /// Passes that it did.
        done: u32,
        /// Passes that other candidates did.
        planned: u32,
    } => too_short(format!(
        "a server restarts for each pass, and does {done} where other candidates do {planned}"
    ));
    /// Too little time and too few ops to average over.
    TooShort {
        /// Mean number of ops per round.
        ops: u64,
        /// Mean seconds per round.
        seconds: f64,
    } => too_short(format!("{} in {} a round", counted(*ops, "op"), nanoseconds(seconds * 1e9)));
    /// There is only one round, so repeatability is unknown.
    OneRound => head("one round only").plainly("one round only, so nothing is compared");
    /// A candidate that is too short to be ranked may be faster, so none is called the best.
    NoBest {
        /// Labels of these candidates.
        faster: Vec<String>,
    } => {
        let named: Vec<String> = faster.iter().map(|store| format!("`{store}`")).collect();
        with("no best", format!("too short to be ranked, and perhaps faster: {}", named.join(", ")))
            .plainly("not ranked, because one that was measured too briefly may be faster")
    };
    /// The candidate failed.
    Failed {
        /// Error message.
        why: String,
    } => cause(Status::Failed, why);
    /// The candidate is not available on this machine.
    NotAvailable {
        /// Missing prerequisite.
        why: String,
    } => cause(Status::NotAvailable, why);
    /// The candidate cannot do this phase. The text comes from the kind of work, of which there may be any number.
    NotPossible {
        /// Missing ability.
        why: String,
    } => cause(Status::NotPossible, why);
    /// It is ranked, but its reference is not.
    OfReference {
        /// Reason why the reference is not ranked.
        why: Box<Reason>,
    } => with("the reference is not ranked", why.to_string());
    /// It belongs to a separate comparison group.
    OtherGroup {
        /// Common property of its group.
        group: String,
    } => with("not comparable", group.clone());
    /// Its reference belongs to a separate comparison group.
    GroupOfReference {
        /// Common property of that group.
        group: String,
    } => with("not comparable", format!("the reference has {group}"));
}

impl Reason {
    /// Returns the reason that an outcome is; `None` if there are figures.
    pub fn of_outcome(status: Status, why: String) -> Option<Reason> {
        match status {
            Status::Measured => None,
            Status::Failed => Some(Reason::Failed { why }),
            Status::NotPossible => Some(Reason::NotPossible { why }),
            Status::NotAvailable => Some(Reason::NotAvailable { why }),
        }
    }

    /// True if more time or more ops would help.
    pub fn is_too_short(&self) -> bool {
        matches!(self, Reason::TooShort { .. } | Reason::CutShort { .. })
    }

    /// True if it is unranked only because another candidate is. It may still be compared with candidates that were
    /// measured.
    pub fn is_withheld(&self) -> bool {
        matches!(self, Reason::NoBest { .. })
    }

    /// True if the client, not the store, was the limit.
    pub fn is_client_bound(&self) -> bool {
        matches!(self, Reason::MostlyHarness { .. } | Reason::ClientBusy { .. })
    }

    /// True if the time is an upper bound, because the store is faster than the harness can measure. A candidate proved
    /// slower than that bound is slower than the store.
    pub fn is_bound(&self) -> bool {
        matches!(self, Reason::MostlyHarness { .. })
    }

    /// True if a cold cell turned out not to be cold.
    pub fn is_resident(&self) -> bool {
        matches!(self, Reason::OpenedWarm { .. } | Reason::DeviceReadLittle { .. })
    }
}

/// Head and detail on one line.
impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.worded().whole())
    }
}

/// Worded reason: a head that is the same for all cells with this reason, and a detail specific to one cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WordedReason {
    /// Kind of reason.
    pub head: String,
    /// Figures or cause.
    pub detail: Option<String>,
    /// True if `detail` is the cause, without which the head is meaningless.
    is_cause: bool,
    /// Wording for somebody who has read nothing else, if it differs from the short form.
    plain: Option<&'static str>,
}

impl WordedReason {
    fn plainly(self, plain: &'static str) -> WordedReason {
        WordedReason { plain: Some(plain), ..self }
    }

    fn whole(&self) -> String {
        match &self.detail {
            Some(detail) => format!("{}: {detail}", self.head),
            None => self.head.clone(),
        }
    }

    /// Returns the short form for places where the figures are shown nearby. A cause is kept, because it is shown
    /// nowhere else, but without lines of the program's log.
    pub fn brief(&self) -> String {
        if self.is_cause { in_a_line(&self.whole()).to_owned() } else { self.head.clone() }
    }

    /// Returns the form for the first screen, for somebody who has read nothing else.
    pub fn in_plain_words(&self) -> String {
        self.plain.map_or_else(|| self.brief(), str::to_owned)
    }
}

/// Returns the first line of an error, without the log lines that may follow; these belong in a table or page, not in
/// an answer.
pub fn in_a_line(why: &str) -> &str {
    why.lines().next().unwrap_or_default().trim_end_matches([';', ':'])
}

fn head(head: &str) -> WordedReason {
    WordedReason { head: head.to_owned(), detail: None, is_cause: false, plain: None }
}

fn with(text: &str, detail: String) -> WordedReason {
    WordedReason { detail: Some(detail), ..head(text) }
}

fn cause(status: Status, why: &str) -> WordedReason {
    WordedReason { is_cause: true, ..with(status.name(), why.to_owned()) }
}

fn too_short(detail: String) -> WordedReason {
    with("too short", detail).plainly("measured too briefly to be ranked")
}

fn resident(evidence: String, open_seconds: f64) -> WordedReason {
    with("resident", format!("{evidence}; start took {}", nanoseconds(open_seconds * 1e9)))
        .plainly("loaded its data while opening, so these are no cold reads")
}

fn beside_limit(outside: u64, limit: u64) -> String {
    format!("{} beside a limit of {}", bytes(outside as f64), bytes(limit as f64))
}
