//! Results of power cuts as text: lines for a terminal, and cells of tables.

use super::causes;
use super::course;
use super::crash_subject::{of_subject, subject, subject_on_file_system};
use super::fault_injection;
use super::table::{CellContent, Table, TableCell, shown};
use super::terminal::{line, wrapped};
use crate::result::Durability;
use crate::result::checked::FileSystemCheck;
use crate::result::crash::{
    Control, CrashReport, CrashResult, Damage, DamageCount, LoadRequests, LossVerdict, OpenTimes,
    PowerCutResults,
};
use crate::units;

/// Legend for the figures.
pub const LEGEND: &str = "For each class: the verdict on what the adapter declares, and the cuts that broke what it promises. Where none \
    did, the true share is below the one in brackets, at 95 %. Recent writes are acknowledged ones that the class does not promise. \
    Opening lasts until the first read: in the middle, and at most.";

/// Text above the lines.
pub fn head(report: &CrashReport) -> String {
    let mut text = String::new();
    let tried =
        format!("{} and {}", units::counted(report.cuts, "power cut"), units::counted(report.kills, "kill"));
    wrapped(&mut text, "", &format!("{tried} for each store, class and file system, seed {}.", report.seed));
    text.push('\n');
    wrapped(&mut text, "", LEGEND);
    if let Some(warning) = preloaded(report) {
        text.push('\n');
        wrapped(&mut text, "! ", &warning);
    }
    text
}

/// Warns that preloaded libraries may affect the results; `None` if there are none.
pub fn preloaded(report: &CrashReport) -> Option<String> {
    let told = || crate::result::preloaded(&report.preloaded, &report.replaced_flushes);
    (!report.preloaded.is_empty())
        .then(|| format!("{} Try: `env -u LD_PRELOAD -u LD_AUDIT blobwise crash`.", told()))
}

/// Results of the controls on a file system, which show whether the test disk can be trusted.
pub fn controls(report: &CrashReport, file_system: &str) -> String {
    let mut text = String::new();
    line(&mut text, &format!("\nControls on {file_system}"));
    let own: Vec<&Control> =
        report.controls.iter().filter(|control| control.file_system == file_system).collect();
    for control in &own {
        wrapped(&mut text, "  ", &of_control(control));
    }
    if !own.iter().all(|control| control.holds()) {
        wrapped(
            &mut text,
            "  ",
            "No verdicts, because a control failed: the disk does not show what it should.",
        );
    }
    text
}

/// Describes the result of a control.
pub fn of_control(control: &Control) -> String {
    let must = if control.must_lose { "must lose" } else { "must not lose" };
    let is = if control.holds() { "as it must" } else { "WRONG" };
    let Control { what, lost, cuts, .. } = control;
    format!("{what}: {must}, lost in {lost} of {cuts}: {is}")
}

/// Formats one line of the report for a terminal.
pub fn of_line(of: &CrashResult) -> String {
    let mut text = String::new();
    let class = format!("  {:<11}", of.durability.name());
    let below = format!("  {:<11}", "");
    let say = |text: &mut String, is_first: bool, words: &str| {
        wrapped(text, if is_first { &class } else { &below }, words);
    };
    if let Some(why) = &of.failed {
        say(&mut text, true, &format!("failed: {why}"));
    }
    if let Some(finding) = &of.finding {
        say(&mut text, of.failed.is_none(), &format!("{}: broken by {}", verdict(of), broke(finding)));
        let LoadRequests { writes, flushes } = finding.sent;
        say(
            &mut text,
            false,
            &format!(
                "declared: {}; recent writes gone in {}; opens in {}; {writes} writes, {flushes} flushes",
                of.declared.name(),
                gone(finding),
                opens(finding)
            ),
        );
        remarks(finding).iter().for_each(|words| say(&mut text, false, words));
        if let Some(drawn) = course::lines(finding) {
            say(&mut text, false, course::LEGEND);
            drawn.iter().for_each(|signs| line(&mut text, &format!("{below}{signs}")));
        }
    }
    let is_first = of.failed.is_none() && of.finding.is_none();
    for (index, words) in fault_injection::paragraphs(&of.besides).iter().enumerate() {
        say(&mut text, is_first && index == 0, words);
    }
    text
}

/// Further remarks on a finding.
fn remarks(finding: &PowerCutResults) -> Vec<String> {
    let mut remarks = Vec::new();
    if finding.unmountable > 0 {
        let cuts = units::counted(finding.unmountable, "cut");
        remarks.push(format!("no file system after {cuts}: they say nothing of the store"));
    }
    remarks.extend(finding.stuck.as_ref().map(|why| format!("ended early: {why}")));
    remarks.extend(finding.first.as_ref().map(|first| format!("first: {first}")));
    remarks.extend(finding.causes.iter().map(|cause| format!("cause: {}", causes::describe(cause))));
    let FileSystemCheck { by, cuts, wrong, first, not_checked } = &finding.checked;
    if *wrong > 0 {
        let first = first.as_ref().map(|first| format!(", first: {first}")).unwrap_or_default();
        remarks
            .push(format!("the file system by its own check (`{by}`): wrong after {wrong} of {cuts}{first}"));
    }
    remarks.extend(not_checked.as_ref().map(|why| format!("the file system was not checked: {why}")));
    remarks
}

/// Returns the verdict on a line, in words.
pub fn verdict(of: &CrashResult) -> &'static str {
    match (of.verdict, &of.finding) {
        (Some(verdict), _) => verdict.name(),
        (None, Some(_)) => "no verdict",
        (None, None) if of.failed.is_some() => "failed",
        (None, None) => "not cut",
    }
}

/// Returns the lines for which power cuts were done or attempted.
pub fn cut(lines: &[CrashResult]) -> Vec<CrashResult> {
    lines.iter().filter(|line| line.finding.is_some() || line.failed.is_some()).cloned().collect()
}

pub(super) fn details(lines: &[CrashResult]) -> Table {
    let heads = [
        "store",
        "file system",
        "class",
        "a power cut takes, as declared",
        "cuts that broke it",
        "recent writes gone in",
        "opens in (longest)",
        "verdict",
    ];
    let mut table = Table::new("Each store in each class", heads);
    for line in lines {
        let finding = line.finding.as_ref();
        let version = finding.and_then(|finding| finding.version.as_ref());
        let version = version.map_or(String::new(), |version| match line.uploads {
            None => format!(" {version}"),
            Some(_) => format!(" ({version})"),
        });
        table.push(vec![
            of_subject(subject(line) + &version),
            TableCell::from(&line.file_system),
            line.durability.name().into(),
            line.declared.name().into(),
            shown(finding, broke),
            shown(finding, gone),
            shown(finding, opens),
            verdict(line).into(),
        ]);
    }
    table
}

/// Summarizes the file systems' own checks over all lines, one sentence for each file system.
pub fn checks(lines: &[CrashResult]) -> Vec<String> {
    let mut sums: Vec<(&str, FileSystemCheck)> = Vec::new();
    for line in lines {
        let Some(PowerCutResults { checked, .. }) = &line.finding else { continue };
        match sums.iter_mut().find(|(kind, _)| *kind == line.file_system) {
            Some((_, sum)) => {
                sum.cuts += checked.cuts;
                sum.wrong += checked.wrong;
            }
            None => sums.push((&line.file_system, checked.clone())),
        }
    }
    let of_one = |(kind, FileSystemCheck { by, cuts, wrong, .. }): &(&str, FileSystemCheck)| {
        let cuts = units::counted(*cuts, "cut");
        format!("The file system by its own check (`{by}`), on {kind}: wrong after {wrong} of {cuts}.")
    };
    sums.iter().filter(|(_, sum)| sum.cuts > 0).map(of_one).collect()
}

/// Like [`checks`], for one file system and a terminal.
pub fn checks_on(report: &CrashReport, file_system: &str) -> String {
    let own = report.lines.iter().filter(|line| line.file_system == file_system);
    let mut text = String::new();
    for said in checks(&own.cloned().collect::<Vec<_>>()) {
        text.push('\n');
        wrapped(&mut text, "", &said);
    }
    text
}

/// Reasons for failures, and further remarks on lines and file systems.
pub fn first_of_all(lines: &[CrashResult]) -> Vec<String> {
    let of = |line: &CrashResult| {
        let on = subject_on_file_system(line);
        let mut said: Vec<String> = line.failed.iter().map(|why| format!("{on} failed: {why}.")).collect();
        let remarks = line.finding.iter().flat_map(remarks);
        said.extend(remarks.map(|words| format!("{on}: {words}.")));
        said
    };
    lines.iter().flat_map(of).chain(checks(lines)).collect()
}

/// Table of verdicts by store and file system (rows) and durability class (columns).
pub(super) fn matrix(lines: &[CrashResult]) -> Table {
    let mut classes: Vec<Durability> = lines.iter().map(|line| line.durability).collect();
    classes.sort();
    classes.dedup();
    let heads = ["store", "file system"].into_iter().chain(classes.iter().map(|class| class.name()));
    let mut table = Table::new("Who keeps what it declares", heads);
    for ((subject, file_system), own) in
        units::grouped(lines.iter().map(|line| ((subject(line), &line.file_system), line)))
    {
        let of_class = |class: &Durability| own.iter().rfind(|line| line.durability == *class);
        let cells = classes.iter().map(|class| {
            let Some(line) = of_class(class) else { return shown(None, |none: String| none) };
            let style = match (line.verdict, &line.failed) {
                (_, Some(_)) | (Some(LossVerdict::Refuted), _) => "words broken",
                (Some(LossVerdict::Confirmed), _) => "words kept",
                _ => "words",
            };
            let (verdict, figures) = cell(line);
            TableCell::with(CellContent::Verdict(verdict.to_owned(), figures, verdict == "broken"), style)
        });
        let begin = [of_subject(subject), TableCell::from(file_system)];
        table.push(begin.into_iter().chain(cells).collect());
    }
    table
}

/// Cell of the matrix: the verdict, and the figures behind it.
fn cell(line: &CrashResult) -> (&'static str, String) {
    match &line.finding {
        None => ("failed", "see below".to_owned()),
        Some(finding) => {
            let verdict = match line.verdict {
                Some(LossVerdict::Confirmed) => "kept",
                Some(LossVerdict::Refuted) => "broken",
                Some(LossVerdict::KnownFault) => "kept, but for a known fault of its program",
                _ => verdict(line),
            };
            (verdict, broke(finding))
        }
    }
}

/// Summary of all lines by class, the strongest first.
pub fn summary(lines: &[CrashResult]) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for class in Durability::ALL.iter().rev() {
        let of_class: Vec<&CrashResult> = lines.iter().filter(|line| line.durability == *class).collect();
        if !of_class.is_empty() {
            said.push(of_one_class(*class, &of_class));
        }
    }
    said.extend(of_uploads(lines));
    said
}

/// States whether every registered upload had its blob, where that is promised.
fn of_uploads(lines: &[CrashResult]) -> Option<String> {
    let is_promised = |line: &&CrashResult| {
        matches!(line.verdict, Some(LossVerdict::Confirmed | LossVerdict::Refuted | LossVerdict::KnownFault))
    };
    let of: Vec<&CrashResult> =
        lines.iter().filter(|line| line.uploads.is_some()).filter(is_promised).collect();
    let findings = || of.iter().filter_map(|line| line.finding.as_ref());
    let cuts: usize = findings().map(|finding| finding.cuts).sum();
    let dangling =
        findings().flat_map(|finding| &finding.damaged).filter(|sort| sort.damage == Damage::Dangling);
    let missing: usize = dangling.map(|sort| sort.cuts).sum();
    (cuts > 0).then(|| {
        format!("Registered uploads: a catalogued blob was missing after {missing} of {cuts} cuts whose class promises it.")
    })
}

/// Lists the lines by store and file system.
fn names(lines: &[&CrashResult]) -> String {
    let names: Vec<String> =
        lines.iter().map(|line| format!("{} ({})", subject(line), line.file_system)).collect();
    names.join(", ")
}

fn of_one_class(class: Durability, lines: &[&CrashResult]) -> String {
    let with = |wanted: Option<LossVerdict>| -> Vec<&CrashResult> {
        let is_found = |line: &&&CrashResult| line.verdict == wanted && line.finding.is_some();
        lines.iter().filter(is_found).copied().collect()
    };
    let promise = match class {
        Durability::EachWrite => "what was acknowledged stays",
        Durability::OnSync => "what a sync covered stays",
        Durability::None => "nothing is flushed for its sake",
    };
    let (mut kept, broken) = (with(Some(LossVerdict::Confirmed)), with(Some(LossVerdict::Refuted)));
    let known = with(Some(LossVerdict::KnownFault));
    kept.extend(&known);
    let finding = |line: &&CrashResult| line.finding.clone().unwrap_or_default();
    let cuts: usize = kept.iter().chain(&broken).map(|line| finding(line).cuts).sum();
    // A broken promise does not count as an allowed loss of recent writes.
    let recent: usize = kept.iter().map(|line| finding(line).lost_recent).sum();
    let all = kept.len() + broken.len();
    let mut text = format!("Class {} ({promise}):", class.name());
    if all > 0 {
        text +=
            &format!(" {} of {all} keep what they declare, in {}", kept.len(), units::counted(cuts, "cut"));
        if recent > 0 {
            text += &format!(", of which {recent} took recent writes, as it allows");
        }
        text.push('.');
    }
    if !broken.is_empty() {
        text += &format!(" Broken by {}.", names(&broken));
    }
    if !known.is_empty() {
        let cuts: usize = known.iter().map(|line| finding(line).known_faults()).sum();
        let cuts = units::counted(cuts, "cut");
        text +=
            &format!(" After {cuts} of {} it did not start, by a known fault of its program.", names(&known));
    }
    for (verdict, words) in [
        (Some(LossVerdict::NothingPromised), "Nothing is promised by"),
        (Some(LossVerdict::TooFewCuts), "Too few cuts could be made of"),
        (None, "No verdict, because a control failed:"),
    ] {
        let of = with(verdict);
        if !of.is_empty() {
            text += &format!(" {words} {}.", names(&of));
        }
    }
    let failed: Vec<&CrashResult> = lines.iter().filter(|line| line.failed.is_some()).copied().collect();
    if !failed.is_empty() {
        text += &format!(" Failed: {}.", names(&failed));
    }
    text
}

/// Number of cuts that broke a promise, with an upper bound on the true share if there were none, or else counts by kind of
/// damage.
pub fn broke(finding: &PowerCutResults) -> String {
    let of = format!("{} of {}", finding.damages(), finding.cuts);
    match finding.damages() {
        0 => format!("{of} (below {:.2} %)", 100.0 * finding.at_most()),
        _ => {
            let sorts = finding
                .damaged
                .iter()
                .map(|DamageCount { damage, cuts }| format!("{} {cuts}", damage.name()));
            format!("{of} ({})", sorts.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Number of cuts that took acknowledged writes beyond what is promised.
pub fn gone(finding: &PowerCutResults) -> String {
    format!("{} of {}", finding.lost_recent, finding.cuts)
}

/// Time to open the store (median and maximum), and how often only the second attempt succeeded.
pub fn opens(finding: &PowerCutResults) -> String {
    let time = |seconds: f64| units::nanoseconds(seconds * 1e9);
    let again = match finding.opened_again {
        0 => String::new(),
        cuts => format!("; {cuts} at the second try"),
    };
    match &finding.open_seconds {
        Some(OpenTimes { middle, longest }) => format!("{} ({}{again})", time(*middle), time(*longest)),
        None => "-".to_owned(),
    }
}

/// True if something differed from what is declared, or could not be tested.
pub fn is_bad(report: &CrashReport) -> bool {
    let is_stuck = |line: &CrashResult| line.finding.as_ref().is_some_and(|finding| finding.stuck.is_some());
    let is_bad = |line: &CrashResult| {
        line.verdict == Some(LossVerdict::Refuted)
            || line.failed.is_some()
            || is_stuck(line)
            || line.besides.is_refuted()
    };
    !report.holds() || report.lines.iter().any(is_bad)
}

#[cfg(test)]
mod tests;
