//! Results of fault injection other than power cuts, as text: kills, device errors, ignored flushes, flipped bytes.

use std::fmt::Write as _;

use super::block::Block;
use super::crash_subject::{head_of, of_subject, subject, subject_on_file_system};
use super::table::{Table, TableCell};
use super::terminal::{line, wrapped};
use crate::result::crash::besides::{
    DeclarationVerdict, DeviceErrorResults, ErrorCase, ErrorKind, FileSystemReaction, FlipResults,
    IgnoredFlushResults, KillResults, OtherFaultResults, StoreReaction, at_most,
};
use crate::result::crash::{CrashReport, CrashResult};
use crate::units;

/// Paragraphs about one line of the report.
pub fn paragraphs(besides: &OtherFaultResults) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(kills) = &besides.kills {
        let said = format!(
            "kills: {}: broken by {}; declared: {}; recent writes gone in {} of {}; opens in {}",
            verdict(kills.verdict(), "kills"),
            broke(kills),
            kills.declared.name(),
            kills.lost_recent,
            kills.kills,
            opens(kills)
        );
        all.push(said + &first_of(kills.first.as_ref()));
    }
    if let Some(ignored) = &besides.flushes_ignored {
        all.push(format!("flushes ignored: {}", without_flushes(ignored)));
    }
    if let Some(errors) = &besides.errors {
        let broken: Vec<&ErrorCase> = errors.cases.iter().filter(|case| case.breaks).collect();
        let tried = units::counted(errors.cases.len() as u64, "error");
        all.push(format!("errors: {tried} of the device, {} broke what is promised", broken.len()));
        all.extend(broken.into_iter().map(|case| format!("error: {}", of_case(case))));
    }
    if let Some(flips) = &besides.flips {
        let said = format!("flipped bytes: {}: {}", verdict(flips.verdict(), "flips"), of_flips(flips));
        all.push(said + &first_of(flips.first.as_ref()));
    }
    all.extend(besides.failed.iter().map(|why| format!("failed: {why}")));
    all
}

fn first_of(first: Option<&String>) -> String {
    first.map_or_else(String::new, |first| format!("; first: {first}"))
}

fn verdict(told: DeclarationVerdict, of: &str) -> String {
    match told {
        DeclarationVerdict::TooFew => format!("too few {of}"),
        told => told.name().to_owned(),
    }
}

fn broke(kills: &KillResults) -> String {
    let of = format!("{} of {}", kills.broken, kills.kills);
    let mid = format!("{} in mid-op", kills.under_way);
    match kills.broken {
        0 => format!("{of} (below {:.2} %), {mid}", 100.0 * at_most(kills.kills)),
        _ => format!("{of}, {mid}"),
    }
}

fn opens(kills: &KillResults) -> String {
    let time = |seconds: f64| units::nanoseconds(seconds * 1e9);
    match kills.open_seconds {
        Some((middle, longest)) => format!("{} ({})", time(middle), time(longest)),
        None => "-".to_owned(),
    }
}

fn without_flushes(ignored: &IgnoredFlushResults) -> String {
    let IgnoredFlushResults { cuts, broken, unusable, unmountable } = ignored;
    let mut text = format!("{broken} of {cuts} cuts took what an honest disk keeps");
    if *unusable > 0 {
        write!(text, ", {unusable} of them the whole store").ok();
    }
    if *unmountable > 0 {
        write!(text, "; no file system after {unmountable} more").ok();
    }
    text
}

fn of_flips(flips: &FlipResults) -> String {
    let declared = flips.declared.map_or("not known", |declared| declared.name());
    let FlipResults { flips: all, noticed, handed_out, unharmed, not_found, .. } = flips;
    let mut text = format!("of {all}, {noticed} noticed, {handed_out} returned wrong");
    if *unharmed > 0 {
        write!(text, ", {unharmed} read right").ok();
    }
    if *not_found > 0 {
        write!(text, "; {} not found on the disk", units::counted(*not_found as u64, "blob")).ok();
    }
    write!(text, "; declared: {declared}").ok();
    text
}

fn of_case(case: &ErrorCase) -> String {
    let mut text = format!(
        "{}, at {} of {}: {}; {}",
        case.kind.description(),
        case.nth,
        case.of_all,
        cell(case),
        file_system(case.file_system)
    );
    if case.failed_ops > 0 {
        let failed = units::counted(case.failed_ops, "op");
        write!(text, "; {failed} failed, and {} after that did not", case.went_on).ok();
    }
    if let Some(wrong) = &case.wrong {
        write!(text, "; {wrong}").ok();
    }
    if let Some(said) = &case.said {
        write!(text, "; first it said: {said}").ok();
    }
    text
}

fn file_system(state: FileSystemReaction) -> &'static str {
    match state {
        FileSystemReaction::WentOn => "the file system went on",
        FileSystemReaction::ReadOnly => "the file system was read-only then",
        FileSystemReaction::ShutDown => "the file system was shut down then",
    }
}

/// One word for a case, in capitals if it broke a promise.
fn cell(case: &ErrorCase) -> &'static str {
    match (case.outcome, case.breaks) {
        (StoreReaction::NotReached, _) => "-",
        (StoreReaction::NoFileSystem, _) => "no fs",
        (StoreReaction::ToldAnother, _) => "other",
        (StoreReaction::NothingLost, _) => "fine",
        (StoreReaction::Said, _) => "said",
        (StoreReaction::Stopped, _) => "ended",
        (StoreReaction::Hung, _) => "hung",
        (StoreReaction::Unusable, true) => "DEAD",
        (StoreReaction::Unusable, false) => "dead",
        (StoreReaction::Lied, true) => "LIED",
        (StoreReaction::Lied, false) => "lost",
    }
}

/// The worst case of a kind.
fn worst(line: &CrashResult, kind: ErrorKind) -> &'static str {
    let cases = line.besides.errors.iter().flat_map(|errors| &errors.cases);
    let worst = cases.filter(|case| case.kind == kind).max_by_key(|case| (case.breaks, case.outcome));
    worst.map_or("", cell)
}

const LEGEND: &str = "fine: nothing was said, and nothing lost. said: an op, a sync or opening returned an error. ended: the process \
    ended. hung: a call did not come back in its time (20 s for a look, 90 s for a load). In all of these what was acknowledged is there on a disk that is right again. LIED: it is \
    not, or a read returned something wrong without an error. DEAD: the store does not open then. In small letters (lost, dead) \
    where the class promises nothing. -: the error never came.";

/// Text above the table on a page.
const OF_ERRORS: &str = "Each cell is the worst of its places. No declared loss speaks of errors of the device, so that none is refuted by \
    this. Below the table is each case in which something acknowledged was gone, the store did not open, or a call did not come back. Where \
    a store maps its file, a read that fails ends the process.";

/// Table of device errors for a terminal, over all lines; empty if none were requested.
pub fn errors_table(report: &CrashReport) -> String {
    let mut text = String::new();
    let lines: Vec<&CrashResult> = report.lines.iter().filter(|line| line.besides.errors.is_some()).collect();
    if lines.is_empty() {
        return text;
    }
    line(&mut text, "\nErrors of the device: the worst of all places");
    line(
        &mut text,
        &format!("{:<15}{:<16}{:<16}{:<16}{:<16}", "", "write EIO", "write ENOSPC", "flush EIO", "read EIO"),
    );
    line(&mut text, &format!("{:<15}{}", "", format!("{:<8}{:<8}", "once", "ever").repeat(4)));
    let mut above = String::new();
    for of in lines {
        let head = head_of(of);
        if head != above {
            text.push_str(head.trim_start());
            above = head;
        }
        let cells = ErrorKind::ALL.map(|kind| format!("{:<8}", worst(of, kind)));
        line(&mut text, &format!("  {:<13}{}", of.durability.name(), cells.concat()));
    }
    wrapped(&mut text, "", LEGEND);
    text
}

/// Tables of all results.
pub(super) fn blocks(report: &CrashReport) -> Vec<Block> {
    let failed = report.lines.iter().flat_map(|of| of.besides.failed.iter().map(move |why| (of, why)));
    let failed =
        failed.map(|(of, why)| Block::Text(format!("{} failed: {why}.", subject_on_file_system(of))));
    let parts = [kills(report), errors(report), ignored_flushes(report), flips(report)];
    parts.into_iter().flatten().chain(failed).collect()
}

/// Results of one kind, with the lines that have them; a part of a page, if there are any.
fn part<'r, T: 'r>(
    report: &'r CrashReport,
    (title, about): (&str, impl FnOnce(&[(&'r CrashResult, &'r T)]) -> String),
    heads: &[&str],
    of: impl Fn(&'r OtherFaultResults) -> Option<&'r T>,
    cells: impl Fn(&'r CrashResult, &'r T) -> Vec<TableCell>,
) -> Vec<Block> {
    let all: Vec<(&CrashResult, &T)> =
        report.lines.iter().filter_map(|line| Some((line, of(&line.besides)?))).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(title, [&["store", "file system", "class"], heads].concat());
    for (line, found) in &all {
        let begin =
            [of_subject(subject(line)), TableCell::from(&line.file_system), line.durability.name().into()];
        table.push(begin.into_iter().chain(cells(line, found)).collect());
    }
    vec![Block::Heading(title.to_owned()), Block::Text(about(&all)), Block::Table(table)]
}

fn kills(report: &CrashReport) -> Vec<Block> {
    let heads = &[
        "a kill takes, as declared",
        "kills that broke it",
        "recent writes gone in",
        "opens in (longest)",
        "verdict",
    ];
    let cells = |_: &CrashResult, kills: &KillResults| {
        vec![
            kills.declared.name().into(),
            broke(kills).into(),
            format!("{} of {}", kills.lost_recent, kills.kills).into(),
            opens(kills).into(),
            verdict(kills.verdict(), "kills").into(),
        ]
    };
    let mut all = part(report, ("Kills", of_all_kills), heads, |besides| besides.kills.as_ref(), cells);
    let first = |line: &CrashResult| {
        Some(format!("{}: {}.", subject_on_file_system(line), line.besides.kills.as_ref()?.first.as_ref()?))
    };
    all.extend(report.lines.iter().filter_map(first).map(Block::Text));
    all
}

fn of_all_kills(all: &[(&CrashResult, &KillResults)]) -> String {
    let sum = |of: fn(&KillResults) -> usize| all.iter().map(|(_, kills)| of(kills)).sum::<usize>();
    let mut text = format!(
        "{} of {} kills of a store's process or its server took something that is declared to stay. {} came in mid-op: the mark is the \
         seed's, the moment the machine's.",
        sum(|kills| kills.broken),
        sum(|kills| kills.kills),
        sum(|kills| kills.under_way)
    );
    let took = all.iter().filter(|(_, kills)| kills.lost_recent > 0 && kills.broken == 0);
    let took: Vec<String> = took
        .map(|(line, kills)| {
            format!("{} ({} of {})", subject_on_file_system(line), kills.lost_recent, kills.kills)
        })
        .collect();
    if !took.is_empty() {
        write!(text, " Recent writes were gone, as declared, in {}.", took.join(", ")).ok();
    }
    text
}

fn errors(report: &CrashReport) -> Vec<Block> {
    let heads = ErrorKind::ALL.map(ErrorKind::description);
    let heads = heads.each_ref().map(String::as_str);
    let cells = |line: &CrashResult, _: &DeviceErrorResults| {
        ErrorKind::ALL.map(|kind| worst(line, kind).into()).into()
    };
    let title = ("Errors of the device", |_: &[(&CrashResult, &DeviceErrorResults)]| OF_ERRORS.to_owned());
    let mut all = part(report, title, &heads, |besides| besides.errors.as_ref(), cells);
    if all.is_empty() {
        return all;
    }
    all.push(Block::Text(LEGEND.to_owned()));
    for line in &report.lines {
        let cases = line.besides.errors.iter().flat_map(|errors| &errors.cases);
        let bad = cases.filter(|case| case.breaks || case.outcome == StoreReaction::Hung);
        all.extend(
            bad.map(|case| Block::Text(format!("{}: {}.", subject_on_file_system(line), of_case(case)))),
        );
    }
    all
}

fn ignored_flushes(report: &CrashReport) -> Vec<Block> {
    let about = "No store can keep a promise there: this is how much of one hangs on the disk.";
    let title =
        ("A disk that ignores flushes", |_: &[(&CrashResult, &IgnoredFlushResults)]| about.to_owned());
    let cells = |_: &CrashResult, ignored: &IgnoredFlushResults| vec![without_flushes(ignored).into()];
    part(
        report,
        title,
        &["on a disk that ignores flushes"],
        |besides| besides.flushes_ignored.as_ref(),
        cells,
    )
}

fn flips(report: &CrashReport) -> Vec<Block> {
    let about = "A byte of a blob is changed on the disk once the store is closed. Noticed is an error of the read or of opening.";
    let title = ("Flipped bytes", |_: &[(&CrashResult, &FlipResults)]| about.to_owned());
    let cells = |_: &CrashResult, flips: &FlipResults| {
        vec![of_flips(flips).into(), verdict(flips.verdict(), "flips").into()]
    };
    part(report, title, &["flipped bytes", "verdict"], |besides| besides.flips.as_ref(), cells)
}
