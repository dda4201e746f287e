//! Reads from a server's log why the server failed: the line with the reason, and the last lines.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::LazyLock;

/// Size of a log in bytes; 0 if there is none.
pub(super) fn bytes(log: &Path) -> u64 {
    std::fs::metadata(log).map_or(0, |known| known.len())
}

/// Summarizes a log, as the end of an error message. `start` is where this server's lines begin (an earlier server of the same
/// store may have written to the file) and `ready` where those begin that it wrote after it was ready: no line before `ready` is
/// the reason for a failure.
pub(super) fn end_of(log: &Path, start: u64, ready: u64) -> String {
    let text = text_from(log, start).unwrap_or_default();
    let known = text.len().min(ready.saturating_sub(start) as usize);
    let known = (known..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    last_words(&text, &text[known..])
}

fn text_from(log: &Path, start: u64) -> std::io::Result<String> {
    /// Limit on what is read, because a failing server may repeat its messages for ever.
    const MOST: u64 = 4 << 20;
    let mut file = File::open(log)?;
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Formats the line with the reason, searched for in `since`, and the last lines of `all`.
fn last_words(all: &str, since: &str) -> String {
    const LINES: usize = 8;
    let lines = lines(all);
    if lines.is_empty() {
        return "; its log is empty".to_owned();
    }
    let reason = reason(since).map_or(String::new(), |line| format!("; it logged: {line}"));
    let last = &lines[lines.len().saturating_sub(LINES)..];
    format!("{reason};\nthe end of its log:\n  {}", last.join("\n  "))
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// Returns the first of the most severe lines: later ones are consequences, and the last line often only says that the program
/// ends.
fn reason(log: &str) -> Option<&str> {
    /// How many lines before the failure the system's error text may be.
    const NEAR: usize = 4;
    let lines = lines(log);
    let worst =
        lines.iter().map(|line| weight(line)).max().filter(|weight| *weight > LineSeverity::Remark)?;
    let first = lines.iter().position(|line| weight(line) == worst)?;
    // PostgreSQL and Redis name the cause in a line of low severity, and then the failure without its cause.
    let near = &lines[first.saturating_sub(NEAR)..=first];
    let cause = near.iter().rev().find(|line| has_errno(line));
    Some(cause.copied().unwrap_or(lines[first]))
}

/// Severity of a line, judged by its own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LineSeverity {
    Nothing,
    /// Labelled as a warning or lower.
    Remark,
    /// Says that something could not be done.
    Failure,
    Error,
    Fatal,
}

/// Severity labels; the first of them that occurs in a line as a word counts.
const LABELS: &[(&str, LineSeverity)] = &[
    ("fatal", LineSeverity::Fatal),
    ("panic", LineSeverity::Fatal),
    ("emerg", LineSeverity::Fatal),
    ("error", LineSeverity::Error),
    ("err", LineSeverity::Error),
    ("alert", LineSeverity::Error),
    ("crit", LineSeverity::Error),
    ("critical", LineSeverity::Error),
    ("oops", LineSeverity::Error),
    ("warning", LineSeverity::Remark),
    ("warn", LineSeverity::Remark),
    ("notice", LineSeverity::Remark),
    ("note", LineSeverity::Remark),
    ("info", LineSeverity::Remark),
    ("debug", LineSeverity::Remark),
    ("hint", LineSeverity::Remark),
];

/// Phrases that mark a failure in lines without a label.
const FAILURES: &[&str] = &[
    "cannot",
    "can't",
    "could not",
    "couldn't",
    "fail",
    "unable",
    "denied",
    "refused",
    "not permitted",
    "invalid",
    "illegal",
    "unrecognized",
    "unknown",
    "bad ",
    "no such",
    "not found",
    "too long",
    "too many",
    "wrong number",
    "in use",
];

fn weight(line: &str) -> LineSeverity {
    let lower = line.to_ascii_lowercase();
    // A heading whose reason follows, as Redis prints for an unknown setting.
    if lower.starts_with("***") {
        return LineSeverity::Nothing;
    }
    let by_sign = |signs: [&str; 4]| {
        let weights = [LineSeverity::Fatal, LineSeverity::Error, LineSeverity::Remark, LineSeverity::Remark];
        signs.iter().zip(weights).find(|(sign, _)| line.contains(*sign)).map(|(_, weight)| weight)
    };
    // MongoDB's severity, in JSON.
    if let Some(weight) = by_sign([r#""s":"F""#, r#""s":"E""#, r#""s":"W""#, r#""s":"I""#]) {
        return weight;
    }
    // Lines of Go's glog begin with a letter and the date: `E1129 08:53:35`.
    if let Some((sign, rest)) = line.split_at_checked(1)
        && rest.len() > 4
        && rest.bytes().take(4).all(|byte| byte.is_ascii_digit())
        && let Some(place) = ["F", "E", "W", "I"].iter().position(|known| *known == sign)
    {
        return [LineSeverity::Fatal, LineSeverity::Error, LineSeverity::Remark, LineSeverity::Remark][place];
    }
    let mut words = lower.split(|sign: char| !sign.is_alphanumeric() && sign != '_');
    let label = words.find_map(|word| LABELS.iter().find(|(label, _)| *label == word));
    match label {
        Some((_, weight)) => *weight,
        None if has_errno(line) || FAILURES.iter().any(|words| lower.contains(words)) => {
            LineSeverity::Failure
        }
        None => LineSeverity::Nothing,
    }
}

/// True if a line contains the system's text for an error number.
fn has_errno(line: &str) -> bool {
    static WORDS: LazyLock<Vec<String>> = LazyLock::new(|| {
        const HIGHEST: i32 = 133;
        let words = (1..=HIGHEST).map(|number| std::io::Error::from_raw_os_error(number).to_string());
        let words = words.filter_map(|said| Some(said.split_once(" (os error")?.0.to_owned()));
        words.filter(|words| !words.starts_with("Unknown error")).collect()
    });
    WORDS.iter().any(|words| line.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logs of real programs that could not start, shortened by whole lines.
    #[test]
    fn the_first_line_with_a_reason_is_told() {
        for (log, first) in [
            (
                "[System] [MY-010116] [Server] mysqld (mysqld 9.7.4) starting as process 7\n\
                 [Warning] [MY-010091] [Server] Can't create test file /x/lower-test\n\
                 [ERROR] [MY-012592] [InnoDB] Operating system error number 28 in a file operation.\n\
                 [ERROR] [MY-010020] [Server] Data Dictionary initialization failed.\n\
                 [ERROR] [MY-010123] [Server] Fatal error: Please read \"Security\" section of the manual\n\
                 [ERROR] [MY-010119] [Server] Aborting\n",
                "[ERROR] [MY-012592]",
            ),
            (
                "LOG:  starting PostgreSQL 15.14\nLOG:  could not bind Unix address \"/x/.s.PGSQL.5432\": Address already in use\n\
                 HINT:  Is another postmaster already running on port 5432?\n\
                 WARNING:  could not create Unix-domain socket in directory \"/x\"\n\
                 FATAL:  could not create any Unix-domain sockets\nLOG:  database system is shut down\n",
                "LOG:  could not bind Unix address",
            ),
            (
                "# WARNING Memory overcommit must be enabled! Without it, a background save may fail.\n\
                 # Warning: Could not create server TCP listening socket 127.0.0.1:6379: bind: Address already in use\n\
                 # Failed listening on port 6379 (tcp), aborting.\n",
                "# Warning: Could not create",
            ),
            (
                "*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***\nReading the configuration file, at line 2\n>>> 'nosuch \"1\"'\n\
                 Bad directive or wrong number of arguments\n",
                "Bad directive",
            ),
            (
                "2026/11/29 09:00:00 [warn] 7#7: the \"user\" directive makes sense only as root\n\
                 2026/11/29 09:00:00 [emerg] 7#7: bind() to 127.0.0.1:80 failed (98: Address already in use)\n\
                 2026/11/29 09:00:00 [emerg] 7#7: still could not bind()\n",
                "2026/11/29 09:00:00 [emerg] 7#7: bind()",
            ),
            (
                "(98)Address already in use: AH00072: make_sock: could not bind to address 127.0.0.1:80\n\
                 no listening sockets available, shutting down\nAH00015: Unable to open logs\n",
                "(98)Address already in use",
            ),
        ] {
            assert!(reason(log).is_some_and(|line| line.starts_with(first)), "{:?} of {log}", reason(log));
        }
        for nothing in
            ["", "LOG:  database system is ready\n", "[Warning] [MY-010068] CA certificate is self signed.\n"]
        {
            assert_eq!(reason(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn only_what_this_server_wrote_and_after_it_was_ready_is_why_it_failed() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        assert_eq!(end_of(&log, 0, 0), "; its log is empty");
        let (earlier, starting, running) = ("ERROR: of an earlier one\n", "ERROR: it retried\n", "ready\n");
        std::fs::write(&log, format!("{earlier}{starting}{running}")).unwrap();
        let (start, ready) = (earlier.len() as u64, (earlier.len() + starting.len()) as u64);
        assert_eq!(
            end_of(&log, start, start),
            "; it logged: ERROR: it retried;\nthe end of its log:\n  ERROR: it retried\n  ready"
        );
        assert_eq!(end_of(&log, start, ready), ";\nthe end of its log:\n  ERROR: it retried\n  ready");
        std::fs::write(&log, format!("[ERROR] no room for the log\n{}", "advice\n\n".repeat(9))).unwrap();
        let said = end_of(&log, 0, 0);
        assert!(
            said.starts_with("; it logged: [ERROR] no room for the log;\nthe end of its log:\n  advice\n"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 2 + 8);
    }
}
