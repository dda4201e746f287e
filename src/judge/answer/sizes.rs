//! The answer to a sweep: which rows lead up to which size.

use std::collections::BTreeMap;

use super::super::cells::writes;
use super::super::ranking::{self, League};
use super::{is_of_subject, is_told, names, only_writes, subject};
use crate::corpus::CorpusId;
use crate::plan::text::Design;
use crate::result::{Cache, Cell, RunResult, Status};
use crate::units;

/// One sentence for each phase of a sweep: who leads up to which size.
pub(super) fn by_size(plan: &Design, result: &RunResult) -> Vec<String> {
    plan.phases
        .iter()
        .filter(|phase| is_of_subject(result, only_writes(phase)))
        .map(|phase| {
            let mut groups = groups(result, &phase.id, subject(result)).into_iter();
            let ((league, main), _) = groups.next().unwrap_or_default();
            let of_main = |cell: &&Cell| cell.phase == phase.id && ranking::ranked_with(cell) == main;
            let is_lukewarm = result.results.iter().filter(of_main).any(|cell| cell.cache == Cache::Lukewarm);
            let title = match phase.id.as_str() {
                "fill" => "Writes (the fill)",
                "read-warm" => "Warm reads",
                "read-cold" if is_lukewarm => "Lukewarm reads",
                "read-cold" => "Cold reads",
                other => other,
            };
            let only = if !league.is_choice() { format!(" ({main})") } else { String::new() };
            let mut text = format!("{title}{only}: {}", winners_by_size(plan, result, &phase.id, &main));
            for ((_, group), rows) in groups {
                text += &match rows.as_slice() {
                    [row] => format!(" `{row}` is ranked apart from them: {group}."),
                    _ => {
                        let winners = winners_by_size(plan, result, &phase.id, &group);
                        format!(" Apart from them ({group}): {winners}")
                    }
                };
            }
            text
        })
        .collect()
}

/// What may be compared in a phase of a sweep, in its league and as words, with its rows: the largest group of each league first.
fn groups(result: &RunResult, phase: &str, subject: League) -> Vec<((League, String), Vec<String>)> {
    let mut groups: BTreeMap<(League, String), Vec<String>> = BTreeMap::new();
    let is_meant = |cell: &&Cell| {
        let league = ranking::league(cell);
        is_candidate(cell) && (league == subject || is_told(league, subject, writes(cell)))
    };
    for cell in result.results.iter().filter(|cell| cell.phase == phase).filter(is_meant) {
        let rows = groups.entry((ranking::league(cell), ranking::ranked_with(cell))).or_default();
        if !rows.contains(&cell.store) {
            rows.push(cell.store.clone());
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((league, _), rows)| (*league, std::cmp::Reverse(rows.len())));
    groups
}

fn is_candidate(cell: &Cell) -> bool {
    cell.status == Status::Measured && !ranking::is_yardstick(cell)
}

/// A stretch of sizes and the rows that lead throughout.
struct Stretch {
    from: u64,
    to: u64,
    rows: Vec<String>,
}

/// Rows that could be the fastest at a size: those that nothing is proved to beat by what counts, and those that are not ranked at it for
/// reasons of measuring, such as a time that is mostly the harness's.
fn candidates(result: &RunResult, phase: &str, size: u64, group: &str) -> (Vec<String>, Vec<String>) {
    let of_group = |cell: &&Cell| is_candidate(cell) && ranking::ranked_with(cell) == group;
    let at_size = |cell: &&Cell| cell.phase == phase && cell.corpus_id == CorpusId::of(size);
    let cells = || result.results.iter().filter(at_size).filter(of_group);
    let leaders = cells().filter(|cell| cell.leader).map(|cell| cell.store.clone()).collect();
    let unknown = cells().filter(|cell| cell.not_ranked.is_some()).map(|cell| cell.store.clone()).collect();
    (leaders, unknown)
}

fn winners_by_size(plan: &Design, result: &RunResult, phase: &str, group: &str) -> String {
    let sizes: Vec<u64> = plan.corpora.iter().filter_map(|corpus| corpus.corpus_id.bytes()).collect();
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut unranked: Vec<(String, Vec<u64>)> = Vec::new();
    // Who leads at a size at which those that lead before it are not ranked.
    let mut instead: Vec<(String, Vec<u64>)> = Vec::new();
    for size in &sizes {
        let (leaders, unknown) = candidates(result, phase, *size, group);
        unknown.iter().for_each(|row| note(&mut unranked, row, *size));
        if leaders.is_empty() {
            continue;
        }
        let common = |rows: &[String]| -> Vec<String> {
            rows.iter().filter(|row| leaders.contains(row) || unknown.contains(row)).cloned().collect()
        };
        match stretches.last_mut() {
            Some(stretch) if !common(&stretch.rows).is_empty() => {
                stretch.rows = common(&stretch.rows);
                // Who is not ranked at a size does not lead at it.
                if stretch.rows.iter().any(|row| leaders.contains(row)) {
                    stretch.to = *size;
                } else {
                    leaders.iter().for_each(|row| note(&mut instead, row, *size));
                }
            }
            _ => stretches.push(Stretch { from: *size, to: *size, rows: leaders }),
        }
    }
    let shared = shared(result, phase, group, &sizes, &stretches);
    let mut text = match stretches.as_slice() {
        [] => "no size has a ranked row.".to_owned(),
        [only] => {
            let verb = if only.rows.len() == 1 { "leads" } else { "lead together" };
            let range = match only.from == only.to {
                true if instead.is_empty() => {
                    format!("at {}, the only size with a ranked row", units::bytes(only.from as f64))
                }
                true => format!("at {}", units::bytes(only.from as f64)),
                false => {
                    let (from, to) = (units::bytes(only.from as f64), units::bytes(only.to as f64));
                    let between = |size: &u64| (only.from..only.to).contains(size);
                    let gap = unranked
                        .iter()
                        .any(|(row, sizes)| only.rows.contains(row) && sizes.iter().any(between));
                    let which = if gap { " at which it is ranked" } else { "" };
                    let always = if shared.is_empty() && instead.is_empty() {
                        "; the winner does not change"
                    } else {
                        ""
                    };
                    format!("at every size from {from} to {to}{which}{always}")
                }
            };
            format!("{} {verb} {range}.", names(&only.rows))
        }
        several => stretches_text(result, phase, several),
    };
    if !instead.is_empty() {
        text += &format!(" Where they are not ranked, others lead: {}.", at_sizes(&instead));
    }
    if !shared.is_empty() {
        text += &format!(" The lead is shared with {}.", at_sizes(&shared));
    }
    if !unranked.is_empty() {
        text += &format!(" Not ranked: {}.", at_sizes(&unranked));
    }
    text
}

/// Adds a size to those of a row.
fn note(rows: &mut Vec<(String, Vec<u64>)>, row: &str, size: u64) {
    match rows.iter_mut().find(|(known, _)| known == row) {
        Some((_, sizes)) => sizes.push(size),
        None => rows.push((row.to_owned(), vec![size])),
    }
}

/// Rows, each with sizes.
fn at_sizes(rows: &[(String, Vec<u64>)]) -> String {
    let list: Vec<String> = rows
        .iter()
        .map(|(row, sizes)| {
            let sizes: Vec<String> = sizes.iter().map(|size| units::bytes(*size as f64)).collect();
            format!("`{row}` at {}", sizes.join(", "))
        })
        .collect();
    list.join("; ")
}

/// Rows that cannot be told from those which lead throughout a stretch, at some of its sizes: they do not lead at all of them, and
/// nothing is proved to beat them at these.
fn shared(
    result: &RunResult,
    phase: &str,
    group: &str,
    sizes: &[u64],
    stretches: &[Stretch],
) -> Vec<(String, Vec<u64>)> {
    let mut shared: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for stretch in stretches {
        for size in sizes.iter().filter(|size| (stretch.from..=stretch.to).contains(*size)) {
            let (leaders, _) = candidates(result, phase, *size, group);
            // Where those that lead throughout are not ranked there is nothing to share.
            if !leaders.iter().any(|row| stretch.rows.contains(row)) {
                continue;
            }
            for row in leaders.into_iter().filter(|row| !stretch.rows.contains(row)) {
                shared.entry(row).or_default().push(*size);
            }
        }
    }
    shared.into_iter().collect()
}

fn stretches_text(result: &RunResult, phase: &str, stretches: &[Stretch]) -> String {
    let mut parts = Vec::new();
    for pair in stretches.windows(2) {
        let [below, above] = pair else { continue };
        let crossover = result.crossovers.iter().find(|crossover| {
            crossover.phase == phase
                && below.rows.contains(&crossover.below)
                && above.rows.contains(&crossover.above)
                && crossover.low <= above.from
                && crossover.high >= below.to
        });
        parts.push(match crossover {
            Some(crossover) => format!(
                "up to about {} [{}, {}] {}",
                units::bytes(crossover.bytes as f64),
                units::bytes(crossover.low as f64),
                units::bytes(crossover.high as f64),
                names(&below.rows)
            ),
            None => format!(
                "up to {} {}, undecided from there to {}",
                units::bytes(below.to as f64),
                names(&below.rows),
                units::bytes(above.from as f64)
            ),
        });
    }
    let last = stretches.last().map(|stretch| names(&stretch.rows)).unwrap_or_default();
    format!("{}; above that {last}.", parts.join("; then "))
}
