//! Changes between two runs, for a terminal of 80 columns and as Markdown: the rows, what was compared, and how large a change
//! could have been detected.

use super::block::{self, Block};
use super::page::Page;
use super::table::{Table, named, shown};
use crate::judge::interval;
use crate::judge::runs::ROUNDS_MOST;
use crate::result::compared::{Change, ChangeVerdict, ComparedRun, ComparisonReport};
use crate::units;

/// Formats the report for a terminal.
pub fn terminal(report: &ComparisonReport) -> String {
    block::terminal(&blocks(report))
}

/// Formats the report as Markdown, for a page, an issue or a message.
pub fn markdown(report: &ComparisonReport) -> String {
    let mut page = Page::default();
    block::put_in_markdown(&mut page, &blocks(report));
    page.text()
}

fn blocks(report: &ComparisonReport) -> Vec<Block> {
    let sides = [("Old", &report.old), ("New", &report.new)];
    let mut all = vec![Block::List(sides.map(|(name, side)| format!("{name}: {}", of_side(side))).to_vec())];
    let table = table(report);
    if !table.is_empty() {
        all.extend([Block::Gap, Block::Table(table), Block::Text(legend(report))]);
    }
    let others = others(report).into_iter().map(|(why, names)| format!("{why}: {names}."));
    all.extend([Block::List(others.collect()), Block::Gap]);
    all.extend(sentences(report).into_iter().map(Block::Text));
    if !report.differences.is_empty() {
        let title = "What else is not the same in the two runs:".to_owned();
        all.extend([Block::Gap, Block::Text(title), Block::List(report.differences.clone())]);
    }
    all
}

/// Table of the rows for which both runs have rates.
fn table(report: &ComparisonReport) -> Table {
    let mut table = Table::new("New over old", ["store", "phase", "new / old", "#finds", "verdict"]);
    for change in &report.changes {
        let Some(ratio) = &change.ratio else { continue };
        let verdict = match change.known() {
            Some(_) if change.regressed => "regressed",
            Some(verdict) => verdict.name(),
            None => "not judged",
        };
        let finds = shown(change.smallest_fall_found, percent);
        table.push(vec![
            named(&change.store),
            place(change).into(),
            interval::text(ratio).into(),
            finds,
            verdict.into(),
        ]);
    }
    table
}

/// Phase name, with the size if it is part of a sweep.
fn place(change: &Change) -> String {
    match change.corpus_id.bytes() {
        Some(bytes) => format!("{} {}", change.phase, units::bytes(bytes as f64)),
        None => change.phase.clone(),
    }
}

/// Formats a detectable fall, rounded up so that a fall of the printed size would be found.
fn percent(share: f64) -> String {
    // A hundred times 0.07 is slightly more than 7.
    format!("{:.0} %", (share * 100.0 - 1e-9).ceil())
}

/// Rows that are not judged, grouped by reason.
fn others(report: &ComparisonReport) -> Vec<(String, String)> {
    let of_change = |change: &Change| {
        let why = match &change.verdict {
            ChangeVerdict::Known { .. } => return None,
            ChangeVerdict::MachineChanged => {
                "machine changed: the processor's probe differs between the runs, this machine is not what it was".to_owned()
            }
            ChangeVerdict::WayChanged => "way to a processor changed: it differs between the runs, by a twentieth or more of these \
                                          ops, and what another process answers says nothing"
                .to_owned(),
            ChangeVerdict::OnlyOld => "only in the old run".to_owned(),
            ChangeVerdict::OnlyNew => "only in the new run".to_owned(),
            ChangeVerdict::NotComparable { why } => format!("not comparable: {why}"),
        };
        Some((why, format!("{} {}", change.store, place(change))))
    };
    let groups = units::grouped(report.changes.iter().filter_map(of_change));
    groups.into_iter().map(|(why, names)| (why, names.join(", "))).collect()
}

fn of_side(side: &ComparedRun) -> String {
    let unfinished = if side.complete { "" } else { ", not complete" };
    format!(
        "{}, begun {}, {}{unfinished}, blobwise {} ({})",
        side.path,
        side.started,
        units::counted(side.rounds, "round"),
        side.blobwise,
        side.build
    )
}

fn runs(power: f64) -> String {
    format!("{:.0} of 100", power * 100.0)
}

fn legend(report: &ComparisonReport) -> String {
    let finds = format!(
        "finds: the smallest fall that would have been found in {} such runs.",
        runs(report.asked.power)
    );
    let finds = match report.asked.in_turn {
        true => format!("new / old: paired by round, as the two measured in turn. {finds}"),
        false => finds,
    };
    let is_refused = |change: &Change| change.ratio.is_some() && change.known().is_none();
    match report.changes.iter().any(is_refused) {
        true => format!("{finds} not judged: the reason stands below, and the ratio decides nothing."),
        false => finds,
    }
}

/// Concluding sentences; the last one is the verdict.
fn sentences(report: &ComparisonReport) -> Vec<String> {
    let (asked, sum) = (&report.asked, &report.sum);
    if sum.compared == 0 {
        return vec![format!("Nothing could be compared (exit code {}).", report.outcome.exit_code())];
    }
    let mut all = vec![format!(
        "{} compared, {} slower by more than {} with the whole interval. Of rows in which nothing changed, chance calls about {:.1} \
         different.",
        sum.compared,
        sum.regressed,
        units::exact_percent(asked.threshold),
        sum.compared as f64 * 0.05
    )];
    all.extend(could_have_seen(report));
    all.extend(blind(report));
    let why: Vec<String> = [
        (sum.regressed > 0).then(|| format!("{} regressed", units::counted(sum.regressed, "rate"))),
        (asked.strict && sum.blind > 0).then(|| {
            format!(
                "{} could not have seen a fall of {}",
                units::counted(sum.blind, "row"),
                units::exact_percent(asked.fall)
            )
        }),
    ]
    .into_iter()
    .flatten()
    .collect();
    all.push(match why.as_slice() {
        [] => "Passed.".to_owned(),
        why => format!("Failed: {} (exit code {}).", units::listed(why, "and"), report.outcome.exit_code()),
    });
    all
}

fn could_have_seen(report: &ComparisonReport) -> Option<String> {
    let sum = &report.sum;
    let power = runs(report.asked.power);
    match (sum.found_in_each, sum.found_in_half) {
        (Some(each), _) if sum.compared == 1 => {
            Some(format!("It would have found a fall of {} ({power} runs).", percent(each)))
        }
        (Some(each), Some(half)) => Some(format!(
            "It would have found a fall of {} in any row ({power} runs), and one of {} in half of them.",
            percent(each),
            percent(half)
        )),
        (None, Some(half)) => Some(format!(
            "It would have found a fall of {} in half of the rows ({power} runs).",
            percent(half)
        )),
        _ => None,
    }
}

/// Lists the rows too noisy to detect the requested fall, and suggests what would help.
fn blind(report: &ComparisonReport) -> Option<String> {
    let names: Vec<String> = report
        .changes
        .iter()
        .filter(|change| change.blind)
        .map(|change| format!("{} {}", change.store, place(change)))
        .collect();
    let fall = units::exact_percent(report.asked.fall);
    let help = match report.sum.rounds_needed {
        Some(rounds) => {
            format!(" It takes about {rounds} rounds in each run: `blobwise run --rounds {rounds}`.")
        }
        None if report.changes.iter().any(|change| change.blind && change.known().is_some()) => {
            format!(
                " {ROUNDS_MOST} rounds would not be enough for all of them: their rounds differ too much, measure at a quieter time."
            )
        }
        None => String::new(),
    };
    (!names.is_empty())
        .then(|| format!("A fall of {fall} would not have been found in: {}.{help}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::judge::fixture::{around, cell, result};
    use crate::judge::runs;
    use crate::result::compared::CompareOptions;

    #[test]
    fn the_fall_that_matters_is_printed_as_it_was_asked_for() {
        let mut noisy = around(1.0, 0);
        noisy.iter_mut().enumerate().for_each(|(round, seconds)| *seconds *= [0.8, 1.25][round % 2]);
        let run = |seconds: &[f64]| result("", vec![cell("a", "read-warm", seconds, json!({}))], Vec::new());
        let (old, new) = (run(&around(1.0, 0)), run(&noisy));
        for (fall, shown) in [(0.07, "7 %"), (0.025, "2.5 %")] {
            let asked =
                CompareOptions { threshold: fall / 2.0, fall, power: 0.8, strict: true, in_turn: true };
            let said = terminal(&runs::report([("old", &old), ("new", &new)], asked));
            assert!(said.contains(&format!("A fall of {shown} would not have been found in")), "{said}");
            assert!(said.contains(&format!("could not have seen a fall of {shown} (exit")), "{said}");
        }
        assert_eq!([0.07, 0.071, 0.14].map(percent), ["7 %", "8 %", "14 %"]);
    }
}
