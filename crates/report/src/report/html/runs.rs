//! The page of several runs side by side: the reader chooses runs, candidates and phases; figures are relative to the best.

use std::collections::BTreeMap;

use maud::{Markup, PreEscaped, html};

use super::table::{ABSENT, Table, TableCell, named};
use super::{SCRIPT, prose, size, still_document};
use crate::corpus::CorpusId;
use crate::judge::ranking::{self, ComparisonGroup};
use crate::judge::{cells, runs};
use crate::report::view::then::is_later_part;
use crate::report::view::words;
use crate::result::{Cell, Interval, RunResult};
use crate::units;

const CHOOSING: &str = include_str!("runs.js");

/// A run of the page.
#[derive(Debug)]
pub struct PageRun {
    /// Name given by the user.
    pub name: String,
    /// File of the run's own report, beside the page.
    pub file: String,
    /// Result of the run.
    pub result: RunResult,
}

/// Runs that may be compared in one table, and why they are separate from the first group.
pub struct RunGroup {
    /// Indexes of the runs.
    pub members: Vec<usize>,
    /// Reason why they are separate; `None` for the first group.
    pub why: Option<String>,
}

/// Groups runs by comparability.
pub fn groups(sides: &[PageRun]) -> Vec<RunGroup> {
    let mut groups: Vec<RunGroup> = Vec::new();
    for (index, side) in sides.iter().enumerate() {
        let fits =
            |group: &&mut RunGroup| runs::apart(&sides[group.members[0]].result, &side.result).is_none();
        match groups.iter_mut().find(fits) {
            Some(group) => group.members.push(index),
            None => {
                let first = groups.first().map(|group| &sides[group.members[0]].result);
                let why = first.and_then(|first| runs::apart(first, &side.result));
                groups.push(RunGroup { members: vec![index], why });
            }
        }
    }
    groups
}

/// Renders the page.
pub fn render(sides: &[PageRun]) -> String {
    let title = format!("blobwise: {} side by side", units::counted(sides.len(), "run"));
    let groups = groups(sides);
    let tables: Vec<(&RunGroup, Vec<RunsTable<'_>>)> =
        groups.iter().map(|group| (group, compared(sides, group))).collect();
    let body = html! {
        header {
            h1 { (title) }
            p { "Times of an op, relative to the best of what is chosen. " span.leader { "Green" } ": the best, or its 95 % interval overlaps that of the best. Rounds of one run are minutes apart and those of two runs hours: whether one run is faster than another is judged by " code { "blobwise compare" } "." }
            p.facts { b { "?" } ": not ranked; the run's own report says why. " b { "alone" } ": nothing that is shown may be compared with it. " b { (ABSENT) } ": not measured." }
            nav aria-label="Sections" {
                a href="#choose" { "Choose" }
                @for number in 1..=groups.len() { a href={ "#side-" (number) } { "Table" @if groups.len() > 1 { " " (number) } } }
                a href="#runs" { "The runs" }
            }
        }
        main {
            (choice(sides, &tables))
            @for (index, (group, tables)) in tables.iter().enumerate() { (section(sides, index + 1, group, tables)) }
            (the_runs(sides))
        }
    };
    let end = html! { script { (PreEscaped(SCRIPT)) } script { (PreEscaped(CHOOSING)) } };
    still_document(&title, env!("CARGO_PKG_VERSION"), &body, &html! {}, &end).into_string()
}

fn choice(sides: &[PageRun], tables: &[(&RunGroup, Vec<RunsTable<'_>>)]) -> Markup {
    let all = || tables.iter().flat_map(|(_, tables)| tables);
    let stores = units::distinct(all().flat_map(|table| table.rows.iter().map(|row| row.store)));
    let phases = units::distinct(all().flat_map(|table| &table.columns).map(|column| column.title.as_str()));
    let labels: Vec<String> = sides.iter().enumerate().map(|(index, side)| label(index, side)).collect();
    let numbers: Vec<String> = (1..=sides.len()).map(|number| number.to_string()).collect();
    html! {
        section id="choose" {
            h2 { "Choose" }
            noscript { p.warning { "Nothing can be chosen where no scripts run: all times stand below, without ratios." } }
            form.choose {
                (boxes("run", "Runs and machines", numbers.iter().map(String::as_str).zip(labels.iter().map(String::as_str))))
                (boxes("store", "Candidates", stores.iter().map(|store| (*store, *store))))
                (boxes("phase", "Phases", phases.iter().map(|phase| (*phase, *phase))))
            }
            p.facts role="status" id="chosen" { "Everything is shown." }
        }
    }
}

/// Checkboxes of one kind, all checked.
fn boxes<'a>(of: &str, title: &str, all: impl Iterator<Item = (&'a str, &'a str)>) -> Markup {
    html! {
        fieldset data-of=(of) {
            legend { (title) }
            span.every {
                button type="button" data-every="1" aria-label={ "All " (title.to_lowercase()) } { "all" }
                button type="button" data-every="" aria-label={ "No " (title.to_lowercase()) } { "none" }
            }
            @for (value, label) in all {
                label { input type="checkbox" name=(of) value=(value) checked autocomplete="off"; " " (label) }
            }
        }
    }
}

/// One-line description of a run and its machine.
fn label(index: usize, side: &PageRun) -> String {
    let machine = &side.result.machine;
    format!(
        "{}. {}: {}, {}, {}, {}",
        index + 1,
        side.name,
        machine.processor,
        units::counted(machine.processors, "processor"),
        size(machine.memory_bytes),
        machine.filesystem
    )
}

/// A phase of a table, at one size of a sweep.
struct RunsColumn {
    title: String,
    phase: String,
    corpus_id: CorpusId,
}

struct RunsRow<'r> {
    run: usize,
    store: &'r str,
    is_baseline: bool,
    figures: Vec<Option<RunsCell>>,
}

/// A figure of a table.
struct RunsCell {
    time: Interval,
    /// Index of its comparison group in the table.
    group: usize,
    /// True if it differs from the most common comparison group of its column.
    is_other: bool,
    /// Reason why it is not ranked, if so.
    why: Option<String>,
}

/// Table of one kind of candidates (stores, delivery servers, caches or techniques) within a group of runs.
struct RunsTable<'r> {
    comparison_group: ComparisonGroup,
    columns: Vec<RunsColumn>,
    rows: Vec<RunsRow<'r>>,
    /// Comparison groups, described in words.
    groups: Vec<String>,
}

fn compared<'r>(sides: &'r [PageRun], group: &RunGroup) -> Vec<RunsTable<'r>> {
    let comparison_groups = [
        ComparisonGroup::Direct,
        ComparisonGroup::Delivery,
        ComparisonGroup::Caches,
        ComparisonGroup::Techniques,
    ];
    comparison_groups
        .into_iter()
        .filter_map(|comparison_group| of_comparison_group(sides, group, comparison_group))
        .collect()
}

fn of_comparison_group<'r>(
    sides: &'r [PageRun],
    group: &RunGroup,
    comparison_group: ComparisonGroup,
) -> Option<RunsTable<'r>> {
    let is_shown = |cell: &&Cell| {
        let is_own_work = !(cells::writes(cell) && comparison_group == ComparisonGroup::Delivery);
        ranking::comparison_group(cell) == comparison_group
            && is_own_work
            && !is_later_part(&cell.phase)
            && time(cell).is_some()
    };
    let of_run = |run: usize| sides[run].result.results.iter().filter(is_shown);
    let mut columns: Vec<RunsColumn> = Vec::new();
    let mut rows: Vec<RunsRow<'r>> = Vec::new();
    for run in group.members.iter().copied() {
        for cell in of_run(run) {
            let is_known =
                |column: &RunsColumn| column.phase == cell.phase && column.corpus_id == cell.corpus_id;
            if !columns.iter().any(is_known) {
                let title = words::phase(&cell.phase, cell.corpus_id);
                columns.push(RunsColumn { title, phase: cell.phase.clone(), corpus_id: cell.corpus_id });
            }
            if !rows.iter().any(|row| row.run == run && row.store == cell.store) {
                let is_baseline = ranking::is_baseline(cell);
                rows.push(RunsRow { run, store: &cell.store, is_baseline, figures: Vec::new() });
            }
        }
    }
    let mut groups: Vec<String> = Vec::new();
    for column in &columns {
        let in_column = |run: usize| {
            of_run(run).filter(|cell| cell.phase == column.phase && cell.corpus_id == column.corpus_id)
        };
        let all: Vec<(usize, &Cell)> =
            group.members.iter().flat_map(|run| in_column(*run).map(move |cell| (*run, cell))).collect();
        let names: Vec<String> = all.iter().map(|of| with_what(sides, all[0], *of)).collect();
        let main = most_common(&names);
        for row in &mut rows {
            let at = all.iter().position(|(run, cell)| *run == row.run && cell.store == row.store);
            row.figures.push(at.and_then(|at| {
                let cell = all[at].1;
                let known = groups.iter().position(|known| *known == names[at]);
                let why = cell.not_ranked.as_ref().map(ToString::to_string);
                let group = known.unwrap_or_else(|| {
                    groups.push(names[at].clone());
                    groups.len() - 1
                });
                Some(RunsCell { time: time(cell)?, group, is_other: Some(&names[at]) != main.as_ref(), why })
            }));
        }
    }
    (!rows.is_empty()).then_some(RunsTable { comparison_group, columns, rows, groups })
}

fn time(cell: &Cell) -> Option<Interval> {
    cells::op_interval(cell).filter(|time| time.median.is_finite() && time.median > 0.0)
}

/// Describes the comparison group of a cell; `first` is the first cell of its column.
fn with_what(sides: &[PageRun], first: (usize, &Cell), (run, cell): (usize, &Cell)) -> String {
    let mut parts = vec![ranking::comparability(cell).to_string()];
    let (old, new) = (first.1, cell);
    let same = (old.workers, old.batch) == (new.workers, new.batch);
    parts.extend(
        (!same)
            .then(|| format!("{}, batches of {}", units::counted(new.workers as u64, "worker"), new.batch)),
    );
    if old.offered_ops_per_s != new.offered_ops_per_s {
        let offered = new.offered_ops_per_s.map(units::count);
        parts.push(offered.map_or("as fast as it can".to_owned(), |rate| format!("{rate} ops/s offered")));
    }
    if run != first.0 {
        let other = runs::planned_otherwise(&sides[first.0].result, &sides[run].result, first.1);
        parts.extend(other.map(|why| format!("run {}: {why}", run + 1)));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

/// Returns the most common name; in a tie, the first.
fn most_common(names: &[String]) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    names.iter().for_each(|name| *counts.entry(name).or_default() += 1);
    let most = counts.values().copied().max()?;
    names.iter().find(|name| counts[name.as_str()] == most).cloned()
}

fn section(sides: &[PageRun], number: usize, group: &RunGroup, tables: &[RunsTable<'_>]) -> Markup {
    let corpus = &sides[group.members[0]].result.corpus;
    let runs: Vec<String> = group.members.iter().map(|run| (run + 1).to_string()).collect();
    let runs = format!("{} {}", if runs.len() == 1 { "Run" } else { "Runs" }, units::listed(&runs, "and"));
    html! {
        section.side id={ "side-" (number) } {
            h2 { (runs) ": " (units::counted(corpus.blobs, "blob")) ", " (size(corpus.bytes)) }
            @if let Some(why) = &group.why {
                p.warning { "Not side by side with the first table: " (prose(why)) "." }
            }
            @if tables.is_empty() { p { "Nothing was measured." } }
            @for of in tables { (table(sides, group, of)) }
        }
    }
}

fn table(sides: &[PageRun], group: &RunGroup, of: &RunsTable<'_>) -> Markup {
    let caption = match of.comparison_group.name() {
        "" => "Places where files live".to_owned(),
        name => name[..1].to_uppercase() + &name[1..],
    };
    let several = group.members.len() > 1;
    let others = of.rows.iter().flat_map(|row| &row.figures).flatten().filter(|figure| figure.is_other);
    let mut told: Vec<usize> = others.map(|figure| figure.group).collect();
    told.sort_unstable();
    told.dedup();
    html! {
        div.scroll tabindex="0" role="group" aria-label={ (caption) ", runs " (group.members.iter().map(|run| (run + 1).to_string()).collect::<Vec<_>>().join(", ")) } {
            table.chosen {
                caption { (caption) }
                thead {
                    tr {
                        th scope="col" { "store" }
                        th.number scope="col" { "mean" }
                        @for column in &of.columns { th.number scope="col" data-phase=(column.title) { (column.title) } }
                    }
                }
                tbody {
                    @for row in &of.rows {
                        tr data-run=(row.run + 1) data-store=(row.store) {
                            th scope="row" { (name(sides, row, several)) }
                            td.number.mean { (ABSENT) }
                            @for figure in &row.figures { (entry(figure.as_ref())) }
                        }
                    }
                }
            }
        }
        p.facts.mean-of { "Mean: geometric, over the phases that every shown candidate has." }
        @for group in told {
            p.facts { sup { (words::letters(group)) } " compared only with others of its kind: " (of_kind(&of.groups[group])) "." }
        }
    }
}

fn of_kind(group: &str) -> &str {
    if group.is_empty() { "nothing said otherwise" } else { group }
}

fn name(sides: &[PageRun], row: &RunsRow<'_>, several: bool) -> Markup {
    html! {
        (row.store)
        @if row.is_baseline { " " small { "baseline" } }
        @if several { br; small { "run " (row.run + 1) ", " (sides[row.run].name) } }
    }
}

fn entry(figure: Option<&RunsCell>) -> Markup {
    let Some(figure) = figure else { return html! { td.number.absent { (ABSENT) } } };
    let Interval { median, low, high, .. } = figure.time;
    let text = units::nanoseconds(median);
    let class = if figure.why.is_some() { "number figure unranked" } else { "number figure" };
    html! {
        td class=(class) data-ns=(median) data-low=[low] data-high=[high] data-group=(figure.group)
            data-out=[figure.why.as_ref().map(|_| "1")] title=[figure.why.as_ref()] {
            span.ratio { @if figure.why.is_some() { "?" } } " "
            small { (text) @if figure.is_other { sup { (words::letters(figure.group)) } } }
        }
    }
}

fn the_runs(sides: &[PageRun]) -> Markup {
    let head = [
        "#run",
        "name",
        "report",
        "begun",
        "program",
        "machine",
        "file system",
        "#blobs",
        "#rounds",
        "complete",
    ];
    let mut table = Table::new("The runs", head);
    for (index, side) in sides.iter().enumerate() {
        let result = &side.result;
        let (program, machine) = (&result.program, &result.machine);
        table.push(vec![
            (index + 1).to_string().into(),
            named(&side.name),
            TableCell::new(html! { a href=(side.file) { "report of run " (index + 1) } }, ""),
            program.started.as_str().into(),
            format!("{} ({})", program.version, program.build).into(),
            TableCell::new(html! { (label(index, side).split_once(": ").map_or("", |(_, machine)| machine)) ", " (machine.system) }, "words"),
            machine.filesystem.as_str().into(),
            result.corpus.blobs.to_string().into(),
            result.rounds_begun().to_string().into(),
            if result.complete { "yes" } else { "no" }.into(),
        ]);
    }
    html! {
        section id="runs" {
            h2 { "The runs" }
            (table)
            p { "Each run's own report has its answer, its warnings and its intervals." }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::judge::fixture::{around, cell, result};

    fn side(name: &str, change: impl Fn(&mut RunResult)) -> PageRun {
        let rate =
            |ns: f64| json!({"ops_per_s": {"median": 1e9 / ns, "low": 0.9e9 / ns, "high": 1.1e9 / ns}});
        let web = json!({"kind": "web", "ops_per_s": {"median": 2e4}});
        let cells = vec![
            cell("a", "read-warm", &around(1.0, 0), rate(1000.0)),
            cell("<b>", "read-warm", &around(1.0, 0), rate(4000.0)),
            cell("w", "read-warm", &around(1.0, 0), web),
        ];
        let mut result = result("", cells, vec![]);
        change(&mut result);
        PageRun { name: name.to_owned(), file: format!("{name}.html"), result }
    }

    #[test]
    fn other_blobs_and_other_memory_are_apart_and_other_machines_are_not() {
        let sides = [
            side("one", |_| {}),
            side("blobs", |run| run.corpus.blobs = 10),
            side("machine", |run| run.machine.processor = "another".to_owned()),
            side("memory", |run| run.plan.memory = Some("25%".to_owned())),
            side("blobs-too", |run| run.corpus.blobs = 10),
        ];
        let groups = groups(&sides);
        let members: Vec<&[usize]> = groups.iter().map(|group| group.members.as_slice()).collect();
        assert_eq!(members, [[0, 2].as_slice(), &[1, 4], &[3]]);
        let whys: Vec<&str> = groups.iter().filter_map(|group| group.why.as_deref()).collect();
        assert_eq!(
            whys,
            ["other blobs: 3 blobs of 30 B and 10 blobs of 30 B", "other memory: no limit and 25%"]
        );
        let page = render(&sides);
        assert_eq!(page.matches("Not side by side with the first table").count(), 2, "{page}");
        assert_eq!(page.matches("<section class=\"side\"").count(), 3);
    }

    #[test]
    fn figures_of_a_table_have_what_the_page_compares_them_by() {
        let page = render(&[side("one", |_| {}), side("two", |_| {})]);
        assert!(page.contains("href=\"two.html\""), "{page}");
        assert!(page.contains("data-ns=\"1000\"") && page.contains("data-store=\"&lt;b&gt;\""), "{page}");
        assert!(!page.contains("<b>\"") && !page.contains("value=\"<b>"), "names are words");
        // Delivery servers have their own table.
        assert_eq!(page.matches("<table class=\"chosen\"").count(), 2, "{page}");
        assert!(page.contains("<caption>Servers that deliver"), "{page}");
    }

    #[test]
    fn what_is_not_the_same_work_has_a_sign_of_its_own() {
        let other = side("other", |run| run.results[1].workers = 4);
        let page = render(&[side("one", |_| {}), other]);
        assert!(page.contains("compared only with others of its kind: 4 workers, batches of 1."), "{page}");
        let unranked = side("short", |run| run.results[0].not_ranked = Some(crate::result::Reason::OneRound));
        let page = render(&[unranked]);
        assert!(page.contains("data-out=\"1\""), "{page}");
    }
}
