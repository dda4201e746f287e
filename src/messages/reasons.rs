//! Wording of the reasons why a figure is not ranked.

use crate::result::Reason;
use crate::units::{bytes, counted, nanoseconds};

/// Worded reason: a head that is the same for all cells with this reason, and a detail specific to one cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WordedReason {
    /// Kind of reason.
    pub head: String,
    /// Figures or cause.
    pub detail: Option<String>,
    /// True if `detail` is the cause, without which the head is meaningless.
    is_cause: bool,
}

impl WordedReason {
    /// Returns head and detail on one line.
    pub fn whole(&self) -> String {
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
}

/// Returns the first line of an error, without the log lines that may follow; these belong in a table or page, not in
/// an answer.
pub fn in_a_line(why: &str) -> &str {
    why.lines().next().unwrap_or_default().trim_end_matches([';', ':'])
}

/// Words a reason on one line.
pub fn why(reason: &Reason) -> String {
    of_reason(reason).whole()
}

/// Words a reason for the first screen, for somebody who has read nothing else.
pub fn in_plain_words(reason: &Reason) -> String {
    match reason {
        Reason::OpenedWarm { .. } | Reason::DeviceReadLittle { .. } => {
            "loaded its data while opening, so these are no cold reads".to_owned()
        }
        Reason::CutShort { .. } | Reason::TooShort { .. } => "measured too briefly to be ranked".to_owned(),
        Reason::NoBest { .. } => {
            "not ranked, because one that was measured too briefly may be faster".to_owned()
        }
        Reason::MostlyHarness { .. } | Reason::ClientBusy { .. } => {
            "limited by blobwise itself, not by the store".to_owned()
        }
        Reason::MissesItsCache { .. } => "its cache does not hold all blobs".to_owned(),
        Reason::MemoryOutside { .. } => "used memory outside of its limit".to_owned(),
        Reason::NotSustained => "could not keep up with the offered rate".to_owned(),
        Reason::OneRound => "one round only, so nothing is compared".to_owned(),
        other => of_reason(other).brief(),
    }
}

/// Words a reason.
pub fn of_reason(reason: &Reason) -> WordedReason {
    let head = |head: &str| WordedReason { head: head.to_owned(), detail: None, is_cause: false };
    let with = |text: &str, detail: String| WordedReason { detail: Some(detail), ..head(text) };
    let cause = |text: &str, why: &str| WordedReason { is_cause: true, ..with(text, why.to_owned()) };
    let start = |seconds: f64| nanoseconds(seconds * 1e9);
    match reason {
        Reason::Baseline => head("a baseline, not a place for files"),
        Reason::WeakerClass { class } => {
            head(&format!("runs in class {}, the strongest it has", class.name()))
        }
        Reason::MostlyHarness { share } => {
            with("client-bound", format!("{:.0} % of an op is the harness", share * 100.0))
        }
        Reason::ClientBusy { client_share, server_share } => {
            let (client, server) = (client_share * 100.0, server_share * 100.0);
            let said = format!("the client's processors were {client:.0} % busy, the server's {server:.0} %");
            with("client-bound", said)
        }
        Reason::MissesItsCache { share } => {
            with("misses of its cache", format!("{:.0} % of its ops", share * 100.0))
        }
        Reason::MemoryOutside { bytes: outside, limit_bytes } => with(
            "memory outside of its limit",
            format!("{} beside a limit of {}", bytes(*outside as f64), bytes(*limit_bytes as f64)),
        ),
        Reason::NotSustained => {
            with("not sustained", "the offered rate was more than it could do".to_owned())
        }
        Reason::OpenedWarm { share, open_seconds } => with(
            "resident",
            format!("opening loaded {:.0} % of it; start took {}", share * 100.0, start(*open_seconds)),
        ),
        Reason::DeviceReadLittle { bytes_per_byte, open_seconds } => with(
            "resident",
            format!(
                "the device read {bytes_per_byte:.2} B for a byte delivered; start took {}",
                start(*open_seconds)
            ),
        ),
        Reason::CutShort { done, planned } => with(
            "too short",
            format!("a server restarts for each pass, and does {done} where other candidates do {planned}"),
        ),
        Reason::TooShort { ops, seconds } => {
            with("too short", format!("{} in {} a round", counted(*ops, "op"), start(*seconds)))
        }
        Reason::OneRound => head("one round only"),
        Reason::NoBest { faster } => {
            let named: Vec<String> = faster.iter().map(|store| format!("`{store}`")).collect();
            with("no best", format!("too short to be ranked, and perhaps faster: {}", named.join(", ")))
        }
        Reason::Failed { why } => cause("failed", why),
        Reason::NotAvailable { why } => cause("not available", why),
        Reason::NotPossible { why } => cause("not possible", why),
        Reason::OfReference { why } => with("the reference is not ranked", self::why(why)),
        Reason::OtherGroup { group } => with("not comparable", group.clone()),
        Reason::GroupOfReference { group } => with("not comparable", format!("the reference has {group}")),
    }
}
