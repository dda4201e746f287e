//! `blobwise doctor`: faults that are planted on the machine and on real servers are found and named, and those that are well are
//! left in peace.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "doctor/machine.rs"]
mod machine;
#[cfg(feature = "mongodb")]
#[path = "doctor/mongodb.rs"]
mod mongodb;
#[cfg(feature = "mssql")]
#[path = "doctor/mssql.rs"]
mod mssql;
#[path = "doctor/mysql.rs"]
mod mysql;
#[cfg(feature = "mssql")]
#[path = "common/tds.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod peer;
#[path = "doctor/postgres.rs"]
mod postgres;
#[path = "cli/program.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod program;
#[path = "doctor/redis.rs"]
mod redis;
#[path = "doctor/servers.rs"]
mod servers;
#[path = "common/theirs.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod theirs;
#[path = "common/trials.rs"]
mod trials;
#[path = "doctor/watched.rs"]
mod watched;

use std::process::ExitCode;

use blobwise::doctor::facts::SubjectKind;
use blobwise::doctor::finding::Answer;
use blobwise::doctor::report::{CheckReport, DoctorReport, SubjectReport};

use self::program::{Said, Work};

fn main() -> ExitCode {
    trials::name_the_supervisor();
    let mut trials = machine::trials();
    trials.extend(watched::trials());
    trials.extend(postgres::trials());
    trials.extend(mysql::trials());
    #[cfg(feature = "mongodb")]
    trials.extend(mongodb::trials());
    trials.extend(redis::trials());
    #[cfg(feature = "mssql")]
    trials.extend(mssql::trials());
    trials::run(&trials::arguments(), trials, is_long)
}

/// Whether a trial is left to continuous integration: those of drivers that the default build does not have.
fn is_long(name: &str) -> bool {
    ["ferretdb:", "mssql by a peer:"].iter().any(|driver| name.starts_with(driver))
}

/// What a command wrote to `report.json`.
fn report(work: &Work, said: &Said) -> DoctorReport {
    let text = std::fs::read_to_string(work.path("report.json"));
    let text = text.unwrap_or_else(|error| panic!("{error}: {}{}", said.stdout, said.stderr));
    let report: DoctorReport = serde_json::from_str(&text).unwrap();
    report.lines().for_each(no_share_is_above_all);
    report
}

/// No part is more than its whole, whatever servers count.
fn no_share_is_above_all(line: &CheckReport) {
    for text in line.named.iter().chain([&line.figure]) {
        let words: Vec<&str> = text.split(' ').collect();
        let above = words
            .windows(2)
            .find(|pair| pair[1].starts_with('%') && pair[0].parse::<f64>().is_ok_and(|share| share > 100.0));
        assert_eq!(above, None, "{line:#?}");
    }
}

/// The line of a check.
fn line<'r>(report: &'r DoctorReport, check: &str) -> &'r CheckReport {
    report.lines().find(|line| line.check == check).unwrap_or_else(|| panic!("no `{check}`"))
}

/// Checks that a fault is found, and named.
#[track_caller]
fn found(report: &DoctorReport, check: &str, answer: Answer, name: &str) {
    let line = line(report, check);
    assert_eq!(line.answer, answer, "{line:#?}");
    let named = line.figure.contains(name) || line.named.iter().any(|named| named.contains(name));
    assert!(named, "`{name}` is not named: {line:#?}");
}

/// Checks that nothing is bad with a server that has nothing, and that at most two things are worth a look. How long it takes to answer is
/// not judged: that hangs on what runs beside, and on `strace`, which stops the doctor at each system call.
#[track_caller]
fn looks_well(report: &DoctorReport, kind: SubjectKind) -> &SubjectReport {
    let subject = subject(report, kind);
    assert_eq!(subject.unreachable, None);
    let with = |answer| subject.lines.iter().filter(|line| line.answer == answer).collect::<Vec<_>>();
    let mut looks = with(Answer::Look);
    looks.retain(|line| !line.check.ends_with("-answer-time"));
    assert!(with(Answer::Bad).is_empty() && looks.len() <= 2, "{:#?} {looks:#?}", with(Answer::Bad));
    // Most of it must have been told, or being well says nothing.
    assert!(with(Answer::Ok).len() > subject.lines.len() / 2, "{:#?}", with(Answer::CannotTell));
    subject
}

fn subject(report: &DoctorReport, kind: SubjectKind) -> &SubjectReport {
    report.subjects.iter().find(|subject| subject.kind == kind).unwrap()
}
