//! The report in a terminal: a table, the answer, the doubts. At most 100 columns, readable without colour.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::findings;
use super::matrix::{self, Shown};
use super::place::{Place, beside_baseline};
use super::then::{self, is_later_part};
use super::words;
use crate::corpus::CorpusId;
use crate::judge::{cells, interval, ranking};
use crate::plan::text::{Transaction, whole_of};
use crate::result::{Against, Cache, Cell, Durability, Footprint, RunResult, Status, Verdict};
use crate::units;

/// Columns of every line.
pub const WIDTH: usize = 100;

/// The whole report.
pub fn render(result: &RunResult) -> String {
    let mut text = String::new();
    table(&mut text, result);
    matrix::all(result).iter().for_each(|shown| ratios(&mut text, shown));
    footprints(&mut text, result);
    heading(&mut text, "Answer");
    for sentence in &result.answer {
        wrapped(&mut text, "", sentence);
    }
    then_and_now(&mut text, result);
    findings::all(result).iter().for_each(|shown| found(&mut text, shown));
    doubts(&mut text, result);
    text
}

fn heading(text: &mut String, title: &str) {
    line(text, &format!("\n{title}"));
}

fn line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

/// A paragraph, broken at spaces; further lines are indented under the first.
fn wrapped(text: &mut String, bullet: &str, paragraph: &str) {
    wrapped_at(text, bullet, paragraph, WIDTH);
}

fn wrapped_at(text: &mut String, bullet: &str, paragraph: &str, most: usize) {
    let indent = bullet.chars().count().max(2);
    for (index, words) in words::wrapped(paragraph, most.saturating_sub(indent)).into_iter().enumerate() {
        let begin = if index == 0 { bullet } else { "" };
        line(text, &format!("{begin:<indent$}{words}"));
    }
}

// ---- the table ---------------------------------------------------------------------------------------------------

/// Phases that serve a check and would only lengthen the table; the HTML report has them.
const LEFT_OUT: &[&str] = &["read-copy"];

/// What the signs in a table mean.
pub(super) const LEGEND: &str = "Ratios are rates over the best rate of their phase, or where one rate was offered to all the best \
                                 response time over theirs; their 95 % intervals allow for comparing the best with all other rows at once; `?`: cannot be told apart from the best; `=`: equal within 3 %.";

/// The phases (and sizes of a sweep) that are shown, in their order.
pub(super) fn blocks(result: &RunResult) -> Vec<(&str, CorpusId)> {
    let mut blocks = Vec::new();
    for cell in result.results.iter().filter(|cell| !LEFT_OUT.contains(&cell.phase.as_str())) {
        let block = (cell.phase.as_str(), cell.corpus_id);
        if !blocks.contains(&block) {
            blocks.push(block);
        }
    }
    blocks
}

/// One block for each phase (and size of a sweep), one line for each row.
fn table(text: &mut String, result: &RunResult) {
    let mut blocks = blocks(result);
    if blocks.iter().any(|(phase, _)| is_later_part(phase)) {
        wrapped(text, "", "Of phases in parts the first part is shown here, and all of them in the report.");
        blocks.retain(|(phase, _)| !is_later_part(phase));
    }
    wrapped(text, "", LEGEND);
    // A row that failed as a whole says why once.
    let mut said: BTreeSet<(String, String)> = BTreeSet::new();
    for (phase, corpus_id) in blocks {
        let of_block = |cell: &&Cell| cell.phase == phase && cell.corpus_id == corpus_id;
        let cells: Vec<&Cell> = result.results.iter().filter(of_block).collect();
        block(text, result, phase, corpus_id, &cells, &mut said);
    }
}

fn block(
    text: &mut String,
    result: &RunResult,
    phase: &str,
    corpus_id: CorpusId,
    cells: &[&Cell],
    said: &mut BTreeSet<(String, String)>,
) {
    let Some(first) = cells.iter().find(|cell| !cell.rounds.is_empty()).or(cells.first()) else { return };
    let title = words::phase(phase, corpus_id);
    heading(text, &format!("{title}: {}", describe(result, first, cells)));
    words::hot(cells).iter().for_each(|hot| wrapped(text, "", &format!("{hot}.")));
    if cells.iter().any(|cell| !cell.counts.is_empty()) {
        return loads(text, result, cells);
    }
    let settled = cells.iter().any(|cell| cells::writes(cell));
    let offered = cells.iter().any(|cell| cells::is_offered(cell));
    let rate_title = if settled { "settled/s" } else { "ops/s" };
    let time_title = if first.batch > 1 { "a blob" } else { "time" };
    let last_title = match (offered, settled) {
        (true, _) => "response p50, p99",
        (false, true) => "acked/s",
        (false, false) => "p50, p99",
    };
    line(
        text,
        &format!(
            "  {:<28} {rate_title:>9} {time_title:>8}  {:<26} {last_title:<18}",
            "store", "ratio to the best"
        ),
    );
    for (index, (name, members)) in ranking::grouped(cells).into_iter().enumerate() {
        if index > 0 {
            wrapped(text, "  ", &format!("apart from them: {name}"));
        } else if members.iter().any(|cell| !ranking::is_choice(cell)) && !name.is_empty() {
            wrapped(text, "  ", &name);
        }
        for cell in members {
            line(text, &row(result, cell, settled && !offered));
            steps(cell).iter().for_each(|steps| wrapped(text, "    ", steps));
        }
    }
    let mut rest: Vec<&Cell> = cells.iter().copied().filter(|cell| cell.not_ranked.is_some()).collect();
    rest.sort_by_key(|cell| ranking::is_yardstick(cell));
    for cell in rest {
        line(text, &row(result, cell, settled && !offered));
        steps(cell).iter().for_each(|steps| wrapped(text, "    ", steps));
        beside_baseline(result, cell).iter().for_each(|ratios| wrapped(text, "    ", ratios));
        let Some(why) = cell.not_ranked.as_ref().filter(|_| !ranking::is_yardstick(cell)) else { continue };
        let repeats = matches!(cell.status, Status::Failed | Status::NotAvailable)
            && !said.insert((cell.store.clone(), why.clone()));
        if !repeats {
            wrapped(text, "    ", why);
        }
    }
}

/// Room for the label of a page with its protocol and distance.
const PAGE: usize = 33;
/// What is told of loads: the whole load, when everything was shown, the first paint; requests, connections, bytes.
pub(super) const LOADED: [&str; 6] = ["load", "shown", "paint", "reqs", "conns", "bytes"];

/// A block of loads: what the browser told of them beside what the loop measured. Each group has a table of its own.
fn loads(text: &mut String, result: &RunResult, cells: &[&Cell]) {
    for (name, members) in ranking::grouped(cells) {
        heading(text, &format!("  {name}"));
        line(text, &load("store", "ratio to the best", &LOADED.map(str::to_owned)));
        for cell in members {
            line(text, &load(&cell.store, &standing(result, cell), &loaded(cell)));
        }
    }
    for cell in cells.iter().filter(|cell| cell.not_ranked.is_some()) {
        line(text, &load(&cell.store, &standing(result, cell), &loaded(cell)));
        wrapped(text, "    ", cell.not_ranked.as_deref().unwrap_or_default());
    }
}

fn load(page: &str, standing: &str, loaded: &[String; 6]) -> String {
    let [load, shown, paint, requests, connections, bytes] = loaded;
    format!(
        "  {page:<PAGE$} {load:>7} {shown:>7} {paint:>7}  {standing:<19} {requests:>4} {connections:>5} {bytes:>7}"
    )
}

/// What is known of a cell's loads, as [`LOADED`] names it.
pub(super) fn loaded(cell: &Cell) -> [String; 6] {
    let time = |ns: Option<f64>| ns.map_or("-".to_owned(), units::nanoseconds);
    let step = |name: Option<&String>| {
        let step = cell.steps.iter().find(|step| Some(&step.name) == name);
        time(step.and_then(|step| Some(step.mean_ns?.median)))
    };
    let count =
        |name: &str, show: fn(f64) -> String| cell.counts.get(name).map_or("-".to_owned(), |n| show(*n));
    [
        // Each worker has a tab of its own.
        time(cell.ops_per_s.map(|rate| 1e9 / rate.median * cell.workers as f64)),
        step(cell.traits.shows.as_ref()),
        step(cell.traits.steps.first()),
        count("requests", whole),
        count("connections", whole),
        count("bytes", units::bytes),
    ]
}

/// A mean of whole numbers: with a digit behind the point only where they differed.
fn whole(mean: f64) -> String {
    if (mean - mean.round()).abs() < 0.05 { format!("{mean:.0}") } else { format!("{mean:.1}") }
}

/// The parts of an op that were timed by themselves: their mean, and their share of the op.
pub(super) fn steps(cell: &Cell) -> Option<String> {
    let told = cell.steps.iter().map(|step| {
        let mean = step.mean_ns.map(|mean| format!(" {}", units::nanoseconds(mean.median)));
        format!("{}{} ({:.0} %)", step.name, mean.unwrap_or_default(), step.share * 100.0)
    });
    (!cell.steps.is_empty()).then(|| format!("of an op: {}", told.collect::<Vec<_>>().join(", ")))
}

/// What a phase's cells have in common, in words.
pub(super) fn describe(result: &RunResult, cell: &Cell, cells: &[&Cell]) -> String {
    let mut parts = Vec::new();
    match cell.cache {
        Cache::Warm => parts.push("warm".to_owned()),
        Cache::Cold => parts.push("cold".to_owned()),
        Cache::Lukewarm => parts.push("lukewarm".to_owned()),
        Cache::None => {}
    }
    if cells.iter().any(|cell| cells::writes(cell)) {
        let of_run = cells.iter().filter(|cell| cell.own_durability.is_none());
        let class = of_run.map(|cell| cell.durability).max();
        let own = cells.iter().any(|cell| cell.own_durability.is_some());
        parts.push(match class {
            Some(class) if own => format!("class {} or the row's own", class.name()),
            Some(class) => format!("class {}", class.name()),
            None => "each row in a class of its own".to_owned(),
        });
        let has_own = |cell: &&Cell| cell.own_durability == Some(Durability::OnSync);
        if class == Some(Durability::OnSync) || cells.iter().any(has_own) {
            let ops = result.plan.sync_every_ops.unwrap_or(0);
            let bytes = result
                .plan
                .sync_every_bytes
                .as_deref()
                .and_then(|bytes| bytes.parse::<f64>().ok())
                .unwrap_or(0.0);
            parts.push(format!("a sync every {ops} ops or {}", units::bytes(bytes)));
        }
    }
    parts.extend(transactions(result, cell, cells));
    parts.push(units::counted(cell.workers, "worker"));
    if cell.batch > 1 {
        parts.push(format!("batches of {}", cell.batch));
    }
    if cells.iter().any(|cell| cell.is_ladder()) {
        let limit = result.plan.limit.as_deref().unwrap_or_default();
        parts.push(format!("the highest rate at which response times keep to {limit}"));
    } else if let Some(rate) = cells.iter().find_map(|cell| cell.offered_ops_per_s) {
        parts.push(format!("{} ops/s offered", units::count(rate)));
    } else if cells.iter().any(|cell| !cell.counts.is_empty()) {
        parts.push("each in a fresh context of the browser".to_owned());
    } else if !cells.iter().any(|cell| cells::writes(cell)) {
        parts.push("service time, not what visitors wait".to_owned());
    }
    parts.join(", ")
}

/// How reads are grouped into transactions, where something was said of it.
fn transactions(result: &RunResult, cell: &Cell, cells: &[&Cell]) -> Option<String> {
    let candidates = || cells.iter().filter(|cell| !ranking::is_yardstick(cell) && !cell.rounds.is_empty());
    let own = result.plan.phase.iter().find(|phase| phase.id == whole_of(&cell.phase));
    let said = own.and_then(|phase| phase.transaction);
    let ones = candidates().filter(|cell| cell.one_transaction).count();
    let text = match (said, ones) {
        (Some(Transaction::Phase), _) => "all reads of a worker in one transaction",
        (Some(Transaction::Op), _) => "each read a transaction of its own",
        (None, 0) => return None,
        (None, ones) if ones == candidates().count() => "all reads of a worker in one transaction",
        (None, _) => "reads in one transaction or one each",
    };
    Some(text.to_owned())
}

/// A row, behind whose ratio stand its acknowledged ops a second or its times.
fn row(result: &RunResult, cell: &Cell, acked: bool) -> String {
    let rate = cell.settled_ops_per_s.or(cell.ops_per_s);
    let name = named(&cell.store);
    let Some(rate) = rate else {
        return format!("  {name} {}", words::status(cell.status));
    };
    let time = cells::blob_ns(cell).map_or("-".to_owned(), units::nanoseconds);
    let last = if acked {
        cell.ops_per_s.map(|rate| units::count(rate.median)).unwrap_or_default()
    } else {
        let times = cell.response_ns.or(cell.service_ns).unwrap_or_default();
        let of = |time: Option<u64>| time.map_or("-".to_owned(), |time| units::nanoseconds(time as f64));
        format!("{}, {}", of(times.p50), of(times.p99))
    };
    format!("  {name} {:>9} {time:>8}  {:<26} {last:<18}", units::count(rate.median), standing(result, cell))
}

/// The row's place: the best, or its ratio to the best and what it means.
pub(super) fn standing(result: &RunResult, cell: &Cell) -> String {
    if ranking::is_yardstick(cell) {
        return "(baseline)".to_owned();
    }
    match Place::of(result, cell) {
        Place::Absent(_) => Place::NotRanked.text(),
        Place::Ratio(comparison) => {
            let ratio = comparison.ratio.map(|ratio| interval::text(&ratio)).unwrap_or_default();
            let sign = match comparison.verdict {
                Verdict::Slower => "",
                Verdict::Faster => " +",
                Verdict::Equal => " =",
                Verdict::CannotTellApart => " ?",
                Verdict::NotRanked => "",
            };
            format!("{ratio}{sign}")
        }
        place => place.text(),
    }
}

/// Columns of a row's label.
const NAME: usize = 28;

/// A label as wide as its column. A longer one has a line of its own: cut off, it could be another row's.
fn named(label: &str) -> String {
    if label.chars().count() <= NAME {
        format!("{label:<NAME$}")
    } else {
        format!("{label}\n  {:<NAME$}", "")
    }
}

/// Columns of a matrix: so wide is every terminal.
const MATRIX_WIDTH: usize = 80;
/// Columns of the labels in a matrix at the most; longer ones have lines of their own.
const MATRIX_LABEL_MAX: usize = 24;

/// A matrix, its sizes in as many tables as the width asks for.
fn ratios(text: &mut String, shown: &Shown<'_>) {
    heading(text, &format!("{}: ratios to {}", shown.matrix.phase, shown.matrix.reference));
    wrapped_at(text, "", &format!("{} {}", shown.about(), matrix::SIGNS), MATRIX_WIDTH);
    let of_group = |group: &matrix::Group<'_>| if group.title.is_some() { 2 } else { 0 };
    let rate_title = if shown.settled { "settled/s" } else { "ops/s" };
    let lines = || shown.groups.iter().flat_map(|group| group.lines.iter().map(move |line| (group, line)));
    let labels = lines().map(|(group, line)| of_group(group) + line.label.chars().count());
    let label = labels.chain([shown.matrix.reference.chars().count(), rate_title.len() + 2]);
    let label = label.filter(|width| *width <= MATRIX_LABEL_MAX).max().unwrap_or(MATRIX_LABEL_MAX);
    let cells: Vec<usize> = (0..shown.columns.len())
        .map(|at| {
            let figures = lines().map(|(_, line)| matrix::text(line.cells[at], matrix::sign));
            let width = figures.map(|figure| figure.chars().count()).max().unwrap_or_default();
            width.max(shown.columns[at].title.chars().count()).max(8) + 2
        })
        .collect();
    let mut from = 0;
    while from < cells.len() {
        let mut to = from + 1;
        while to < cells.len() && 2 + label + cells[from..=to].iter().sum::<usize>() <= MATRIX_WIDTH {
            to += 1;
        }
        let row = |name: &str, figure: &dyn Fn(usize) -> String| {
            let name = if name.chars().count() <= label {
                format!("{name:<label$}")
            } else {
                format!("{name}\n  {:<label$}", "")
            };
            let figures: String =
                (from..to).map(|at| format!("  {:<1$}", figure(at), cells[at] - 2)).collect();
            format!("  {name}{figures}")
        };
        text.push('\n');
        line(text, &row("", &|at| shown.columns[at].title.clone()));
        line(text, &row(&shown.matrix.reference, &|_| String::new()));
        line(
            text,
            &row(&format!("  {rate_title}"), &|at| {
                shown.columns[at].rate.map_or("-".to_owned(), units::count)
            }),
        );
        for group in &shown.groups {
            group.title.iter().for_each(|title| line(text, &format!("  {title}")));
            for one in &group.lines {
                let name = format!("{:1$}{2}", "", of_group(group), one.label);
                line(text, &row(&name, &|at| matrix::text(one.cells[at], matrix::sign)));
            }
        }
        from = to;
    }
}

fn footprints(text: &mut String, result: &RunResult) {
    let rows: Vec<&Footprint> =
        result.footprints.iter().filter(|footprint| footprint.after_settle_bytes.is_some()).collect();
    if rows.is_empty() {
        return;
    }
    heading(text, "Disk: bytes allocated for each byte of blobs");
    line(
        text,
        &format!(
            "  {:<28} {:>8} {:>6} {:>8} {:>8} {:>7} {:>8} {:>8} {:>7}",
            "store", "settled", "/ byte", "data", "indexes", "dirs", "logs", "empty", "written"
        ),
    );
    for footprint in rows {
        let size = footprint
            .corpus_id
            .bytes()
            .map(|bytes| format!(" {}", units::bytes(bytes as f64)))
            .unwrap_or_default();
        let bytes = |value: Option<u64>| value.map_or("-".to_owned(), |value| units::bytes(value as f64));
        let share = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        line(
            text,
            &format!(
                "  {} {:>8} {:>6} {:>8} {:>8} {:>7} {:>8} {:>8} {:>7}",
                named(&format!("{}{size}", footprint.store)),
                bytes(footprint.after_settle_bytes),
                share(footprint.space_amplification),
                bytes(footprint.data_bytes()),
                bytes(footprint.index_bytes),
                bytes(footprint.directory_bytes),
                bytes(footprint.log_bytes),
                bytes(footprint.empty_bytes),
                share(footprint.write_amplification),
            ),
        );
    }
}

// ---- then and now ------------------------------------------------------------------------------------------------

/// A published experiment beside this run.
fn then_and_now(text: &mut String, result: &RunResult) {
    let plan = &result.plan;
    if let Some(document) = &plan.document {
        heading(text, "Then and now");
        let source = format!("{}, \"{}\", {}.", document.author, document.title, document.date);
        wrapped(text, "", &source);
        wrapped(text, "", "Ratios to the document's own reference; absolute figures are not compared.");
        let (tables, silent) = then::tables(result);
        tables.iter().for_each(|table| published(text, table));
        let silent = then::silent(&silent);
        if !silent.is_empty() {
            line(text, &format!("\n  {}", then::SILENT));
            silent.iter().for_each(|why| wrapped(text, "- ", why));
        }
    }
    if !result.claims.is_empty() {
        heading(text, "Claims");
        for claim in &result.claims {
            let figures = then::figures(claim);
            let figures = if figures.is_empty() { figures } else { format!(" {}.", capital(&figures)) };
            let note = claim.note.as_ref().map(|note| format!(" {note}")).unwrap_or_default();
            let line = format!("{} {}: {}.{figures}{note}", claim.id, then::verdict(claim), claim.statement);
            wrapped(text, "- ", &line);
        }
    }
    if !plan.unspecified.is_empty() {
        heading(text, "What was not said, and what this plan does");
        plan.unspecified
            .iter()
            .for_each(|open| wrapped(text, "- ", &format!("{}: {}.", open.what, open.here)));
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn published(text: &mut String, table: &then::Table<'_>) {
    let longest = table.compared().map(|line| line.series.name.len()).max().unwrap_or_default();
    let width = longest.max(32);
    let lines: Vec<(String, Option<&str>, Option<&str>)> = table
        .compared()
        .map(|found| {
            let then = found.then.map_or("-".to_owned(), then::figure);
            let today = found.today.as_ref().map_or("-".to_owned(), interval::text);
            let figures = format!("  {:<width$} {then:>9}  {today:<26}", found.series.name);
            (figures, found.row, found.series.words.as_deref())
        })
        .collect();
    // Rows with many options stand below their figures.
    let is_wide = lines.iter().any(|(figures, row, _)| figures.len() + 1 + row.map_or(1, str::len) > WIDTH);
    line(text, &format!("\n  {}", table.text.heading()));
    let head =
        format!("  {:<width$} {:>9}  {:<26} {}", "", "then", "today", if is_wide { "" } else { "row today" });
    line(text, head.trim_end());
    for (figures, row, words) in lines {
        if is_wide {
            line(text, figures.trim_end());
            let words = words.map(|words| format!("then: {words}"));
            let below: Vec<String> = row.map(str::to_owned).into_iter().chain(words).collect();
            if !below.is_empty() {
                wrapped(text, "    ", &below.join("; "));
            }
        } else {
            line(text, &format!("{figures} {}", row.unwrap_or("-")));
            words.iter().for_each(|words| wrapped(text, "    ", words));
        }
    }
    if let Some(why) = table.why_not() {
        wrapped(text, "  ", why);
    }
}

/// What a kind of work found: a table where it fits, else a line of words for each of its lines.
fn found(text: &mut String, shown: &findings::Shown) {
    heading(text, &format!("{}: {}", findings::TITLE, shown.title));
    shown.said.iter().for_each(|sentence| wrapped(text, "", sentence));
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let lines: Vec<Vec<String>> = shown.lines.iter().map(|line| line.iter().map(value).collect()).collect();
    let width = |index: usize, (title, _): &(String, bool)| {
        let values = lines.iter().filter_map(|line| line.get(index)).map(|value| value.chars().count());
        values.chain([title.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> =
        shown.columns.iter().enumerate().map(|(index, column)| width(index, column)).collect();
    if widths.iter().map(|width| width + 2).sum::<usize>() > WIDTH {
        for values in &lines {
            let named =
                shown.columns.iter().zip(values).map(|((title, _), value)| format!("{title} {value}"));
            wrapped(text, "- ", &named.collect::<Vec<_>>().join(", "));
        }
        return;
    }
    let titles: Vec<String> = shown.columns.iter().map(|(title, _)| title.clone()).collect();
    for values in std::iter::once(&titles).chain(&lines) {
        let cell = |((value, width), (_, is_number)): ((&String, &usize), &(String, bool))| {
            if *is_number { format!("  {value:>width$}") } else { format!("  {value:<width$}") }
        };
        line(text, &values.iter().zip(&widths).zip(&shown.columns).map(cell).collect::<String>());
    }
}

fn doubts(text: &mut String, result: &RunResult) {
    let expected = expected_false(result);
    if result.doubts.is_empty() && expected.is_none() {
        return;
    }
    heading(text, "Doubts");
    for doubt in &result.doubts {
        let mut paragraph = doubt.text.clone();
        if let Some(advice) = &doubt.advice {
            // Writing to a string cannot fail.
            write!(paragraph, " To be surer: {advice}.").ok();
        }
        wrapped(text, "- ", &paragraph);
    }
    if let Some(expected) = expected {
        wrapped(text, "- ", &expected);
    }
}

/// How many comparisons were made with the plan's reference, and how many of them to expect to be false.
pub(super) fn expected_false(result: &RunResult) -> Option<String> {
    let mut ranked = result
        .comparisons
        .iter()
        .filter(|comparison| comparison.against == Against::Plan && comparison.verdict != Verdict::NotRanked);
    let reference = &ranked.next()?.reference;
    let count = ranked.count() + 1;
    let expected = count as f64 * 0.05;
    let made = if count == 1 { "comparison was made" } else { "comparisons were made" };
    Some(format!(
        "{count} {made} with `{reference}` at 95 %: expect about {expected:.1} false differences among them."
    ))
}
