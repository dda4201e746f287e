//! What power cuts showed, in words: as lines in a terminal, and as tables of Markdown.

use std::fmt::Write as _;

use super::besides;
use super::causes;
use super::terminal::{line, wrapped};
use crate::result::checked::Checked;
use crate::result::crash::{Control, Finding, Line, Opens, Report, Sent, Sort, Verdict};
use crate::units;

/// What stands above the lines.
pub fn head(report: &Report) -> String {
    let mut text = String::new();
    let tried =
        format!("{} and {}", units::counted(report.cuts, "power cut"), units::counted(report.kills, "kill"));
    wrapped(&mut text, "", &format!("{tried} for each store, class and file system, seed {}.", report.seed));
    text.push('\n');
    wrapped(
        &mut text,
        "",
        "Behind each class: the verdict on what its adapter declares, and the cuts that broke what it promises; where none did, \
         the true share is below the one in brackets, at 95 %. Then what is declared, the cuts that took acknowledged writes \
         which are not promised, and how long opening took, in the middle and at most.",
    );
    text
}

/// What shows that the lab can be believed on a file system.
pub fn controls(report: &Report, file_system: &str) -> String {
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
            "No verdicts: a control came out wrong, so that the disk does not show what it should.",
        );
    }
    text
}

fn of_control(control: &Control) -> String {
    let must = if control.must_lose { "must lose" } else { "must not lose" };
    let is = if control.holds() { "as it must" } else { "WRONG" };
    let Control { what, lost, cuts, .. } = control;
    format!("{what}: {must}, lost in {lost} of {cuts}: {is}")
}

/// A line, on few lines of a terminal.
pub fn of_line(of: &Line) -> String {
    let mut text = String::new();
    let class = format!("  {:<11}", of.durability.name());
    let below = format!("  {:<11}", "");
    let mut say = |is_first: bool, words: &str| {
        wrapped(&mut text, if is_first { &class } else { &below }, words);
    };
    if let Some(why) = &of.failed {
        say(true, &format!("failed: {why}"));
    }
    if let Some(finding) = &of.finding {
        say(of.failed.is_none(), &format!("{}: broken by {}", verdict(of), broke(finding)));
        let Sent { writes, flushes } = finding.sent;
        say(
            false,
            &format!(
                "declared: {}; recent writes gone in {}; opens in {}; {writes} writes, {flushes} flushes",
                of.declared.name(),
                gone(finding),
                opens(finding)
            ),
        );
        remarks(finding).iter().for_each(|words| say(false, words));
    }
    let is_first = of.failed.is_none() && of.finding.is_none();
    for (index, words) in besides::paragraphs(&of.besides).iter().enumerate() {
        say(is_first && index == 0, words);
    }
    text
}

/// What else is to be said of what was found.
fn remarks(finding: &Finding) -> Vec<String> {
    let mut remarks = Vec::new();
    if finding.unmountable > 0 {
        let cuts = units::counted(finding.unmountable, "cut");
        remarks.push(format!("no file system after {cuts}: they say nothing of the store"));
    }
    remarks.extend(finding.stuck.as_ref().map(|why| format!("ended early: {why}")));
    remarks.extend(finding.first.as_ref().map(|first| format!("first: {first}")));
    remarks.extend(finding.causes.iter().map(|cause| format!("cause: {}", causes::words(cause))));
    let Checked { by, cuts, wrong, first, not_checked } = &finding.checked;
    if *cuts > 0 {
        let first = first.as_ref().map(|first| format!(", first: {first}")).unwrap_or_default();
        remarks
            .push(format!("the file system by its own check (`{by}`): wrong after {wrong} of {cuts}{first}"));
    }
    remarks.extend(not_checked.as_ref().map(|why| format!("the file system was not checked: {why}")));
    remarks
}

/// The verdict on a line.
pub fn verdict(of: &Line) -> &'static str {
    match (of.verdict, &of.finding) {
        (Some(verdict), _) => verdict.name(),
        (None, Some(_)) => "no verdict",
        (None, None) => "failed",
    }
}

/// All lines as a table of Markdown, with what was found first of each damage.
pub fn markdown(report: &Report) -> String {
    if report.cuts == 0 {
        return besides::markdown(report).trim_start().to_owned();
    }
    let mut text = String::from(
        "| store | file system | class | a power cut takes, as declared | cuts that broke it | recent writes gone in | opens in (longest) | verdict |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for line in &report.lines {
        let finding = line.finding.as_ref();
        let version = finding.and_then(|finding| finding.version.as_ref());
        let version = version.map(|version| format!(" {version}")).unwrap_or_default();
        let shown = |words: &dyn Fn(&Finding) -> String| finding.map_or_else(|| "–".to_owned(), words);
        writeln!(
            text,
            "| `{}`{version} | {} | {} | {} | {} | {} | {} | {} |",
            line.store,
            line.file_system,
            line.durability.name(),
            line.declared.name(),
            shown(&broke),
            shown(&gone),
            shown(&opens),
            verdict(line)
        )
        .ok();
    }
    for line in &report.lines {
        let (store, class) = (&line.store, line.durability.name());
        let on = format!("`{store}` in class {class} on {}", line.file_system);
        if let Some(why) = &line.failed {
            write!(text, "\n{on} failed: {why}.\n").ok();
        }
        for words in line.finding.iter().flat_map(remarks) {
            write!(text, "\n{on}: {words}.\n").ok();
        }
    }
    text + &besides::markdown(report)
}

/// How many cuts damaged what is promised, and what that means of all cuts or by sort.
pub fn broke(finding: &Finding) -> String {
    let of = format!("{} of {}", finding.damages(), finding.cuts);
    match finding.damages() {
        0 => format!("{of} (below {:.2} %)", 100.0 * finding.at_most()),
        _ => {
            let sorts =
                finding.damaged.iter().map(|Sort { damage, cuts }| format!("{} {cuts}", damage.name()));
            format!("{of} ({})", sorts.collect::<Vec<_>>().join(", "))
        }
    }
}

/// In how many cuts acknowledged writes were gone that are not promised.
pub fn gone(finding: &Finding) -> String {
    format!("{} of {}", finding.lost_recent, finding.cuts)
}

/// How long opening took, in the middle and at most.
pub fn opens(finding: &Finding) -> String {
    let time = |seconds: f64| units::nanoseconds(seconds * 1e9);
    match &finding.open_seconds {
        Some(Opens { middle, longest }) => format!("{} ({})", time(*middle), time(*longest)),
        None => "-".to_owned(),
    }
}

/// Whether something was shown to be other than declared, or could not be shown.
pub fn is_bad(report: &Report) -> bool {
    let is_stuck = |line: &Line| line.finding.as_ref().is_some_and(|finding| finding.stuck.is_some());
    let is_bad = |line: &Line| {
        line.verdict == Some(Verdict::Refuted)
            || line.failed.is_some()
            || is_stuck(line)
            || line.besides.is_refuted()
    };
    !report.holds() || report.lines.iter().any(is_bad)
}
