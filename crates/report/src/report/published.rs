//! Then and now for a terminal and for Markdown: published tables beside this run's, claims and verdicts, open details.

use super::block::{Block, ReportFormat, in_terminal, put_in_markdown};
use super::page::Page;
use super::table::{Table, TableCell, named, shown};
use super::view::then::{self, JudgedClaim, ReproducedRow, ReproducedTable};
use crate::judge::interval;
use crate::plan::text::Document;
use crate::result::{ClaimVerdict, RunResult};
use crate::units;

/// Everything for a terminal and for Markdown; the page has figures.
pub(super) fn blocks(result: &RunResult, format: ReportFormat) -> Vec<Block> {
    let mut all = claims_and_figures(result, format);
    let open = result.plan.unspecified.iter().map(|open| format!("{}: {}.", open.what, open.here));
    all.extend(part("What was not said, and what this plan does", open.collect()));
    all
}

/// One-screen form: without what the document left open.
pub(super) fn brief(text: &mut String, result: &RunResult, title: &str) {
    in_terminal(text, title, &claims_and_figures(result, ReportFormat::Terminal));
}

/// A list below a title, unless it is empty.
fn part(title: &str, items: Vec<String>) -> Vec<Block> {
    match items.is_empty() {
        true => Vec::new(),
        false => vec![Block::Title(title.to_owned()), Block::List(items)],
    }
}

/// Published figures beside today's, and the verdict on each claim.
fn claims_and_figures(result: &RunResult, format: ReportFormat) -> Vec<Block> {
    let mut all = Vec::new();
    if let Some(document) = &result.plan.document {
        if format == ReportFormat::Terminal {
            let (author, title, date) = (&document.author, &document.title, &document.date);
            all.push(Block::Text(format!("{author}, \"{title}\", {date}; {}.", then::address(document))));
        }
        let ratios = "Ratios to the document's own reference; absolute figures are not compared.";
        all.push(Block::Text(ratios.to_owned()));
        let (tables, silent) = then::tables(result);
        all.extend(tables.iter().flat_map(|table| published(table, format)));
        let silent = then::silent(&silent);
        if !silent.is_empty() {
            all.extend([Block::Heading(then::SILENT.to_owned()), Block::List(silent)]);
        }
    }
    match format {
        ReportFormat::Terminal => {
            all.extend(part(
                "Claims",
                then::judged_claims(result).iter().map(|claim| claim_paragraph(result, claim)).collect(),
            ));
        }
        _ if result.claims.is_empty() => {}
        _ => all.extend(claims_in_parts(result)),
    }
    let wrong = then::disagreements(result).into_iter().map(|(what, why)| format!("{what}: {why}."));
    all.extend(part(then::DISAGREEMENTS, wrong.collect()));
    all
}

/// A claim with its verdict and figures in one paragraph.
fn claim_paragraph(result: &RunResult, claim: &JudgedClaim<'_>) -> String {
    let said = then::said(result);
    let figures = [
        claim.then().map(|figure| format!("{said} {figure}")),
        claim.now().map(|figure| format!("today {figure}")),
        claim.true_if().map(|range| format!("true if {range}")),
    ];
    let mut figures = figures.into_iter().flatten().collect::<Vec<String>>().join(", ");
    if let Some(first) = figures.get(..1).map(str::to_uppercase) {
        figures = format!(" {first}{}.", &figures[1..]);
    }
    let note = claim.claim.note.as_ref().map(|note| format!(" {note}")).unwrap_or_default();
    format!("{} {}: {}.{figures}{note}", claim.claim.id, claim.verdict(), claim.said())
}

/// Writes what stands above the appendix of a page that repeats a document: the counts of verdicts, and one table of all claims.
pub(super) fn head(page: &mut Page, result: &RunResult) {
    let own: Vec<ClaimVerdict> = result.own_claims().map(|claim| claim.verdict).collect();
    let kinds = [
        (ClaimVerdict::Confirmed, "confirmed"),
        (ClaimVerdict::Refuted, "refuted"),
        (ClaimVerdict::CannotTellApart, "undecided"),
        (ClaimVerdict::NotTestable, "not testable"),
        (ClaimVerdict::NotReached, "not reached"),
    ];
    let counted = kinds.map(|(kind, words)| (own.iter().filter(|verdict| **verdict == kind).count(), words));
    let counted =
        counted.iter().filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} {words}"));
    page.paragraph(&format!(
        "**{} of {}.** Above 1x agrees with the claim, unless the last column gives a range or a limit. Claims are in the plan's words, and quotes are the document's.",
        counted.collect::<Vec<String>>().join(", "),
        units::counted(own.len(), "claim")
    ));
    put_in_markdown(page, &[Block::Table(table_of(result, then::judged_claims(result).iter()))]);
    page.appendix();
}

/// Names the original, its address and its machine.
pub(super) fn original(document: &Document) -> String {
    let (author, title, date) = (&document.author, &document.title, &document.date);
    format!(
        "Original: {author}, *{title}*, {date} ({}). Measured on: {}.",
        then::address(document),
        document.machine
    )
}

/// Table of the claims, unless the head of the page has it, and of their parts that could be tested.
fn claims_in_parts(result: &RunResult) -> Vec<Block> {
    // The claim itself states how many parts could not be tested, and why.
    let untested = [ClaimVerdict::NotTestable, ClaimVerdict::NotReached];
    let all = then::judged_claims(result);
    let parts: Vec<JudgedClaim<'_>> = all.iter().flat_map(JudgedClaim::parts).collect();
    let tested = parts.iter().filter(|part| !untested.contains(&part.claim.verdict));
    let whole = all.iter().filter(|_| result.plan.document.is_none());
    let notes =
        all.iter().filter_map(|claim| Some(format!("{}: {}", claim.claim.id, claim.claim.note.as_ref()?)));
    vec![
        Block::Title(if result.plan.document.is_some() { "Claims in detail" } else { "Claims" }.to_owned()),
        Block::Table(table_of(result, whole.chain(tested))),
        Block::List(notes.collect()),
    ]
}

fn table_of<'c, 'r: 'c>(result: &RunResult, claims: impl Iterator<Item = &'c JudgedClaim<'r>>) -> Table {
    let mut table =
        Table::new("Claims", CLAIM_HEADS.map(|head| if head == "then" { then::said(result) } else { head }));
    claims.for_each(|claim| table.push(claim_line(claim)));
    table
}

/// Heads of [`claim_line`].
pub(super) const CLAIM_HEADS: [&str; 5] = ["claim", "then", "now [95 %]", "verdict", "counts as true if"];

/// Cells of a claim: statement and id, published and today's figure, verdict, the range in which it is true.
pub(super) fn claim_line(claim: &JudgedClaim<'_>) -> Vec<TableCell> {
    vec![
        TableCell::from(format!("{} ({})", claim.said(), claim.claim.id)),
        shown(claim.then(), |figure| figure),
        shown(claim.now(), |figure| figure),
        claim.verdict().into(),
        shown(claim.true_if(), |range| range),
    ]
}

/// A published table with today's ratios.
fn published(found: &ReproducedTable<'_>, format: ReportFormat) -> Vec<Block> {
    /// Letters of a name and a candidate that a terminal has room for in one line, beside the figures.
    const NAMES_MAX: usize = 40;
    let is_terminal = format == ReportFormat::Terminal;
    let mut all = vec![Block::Heading(found.text.heading())];
    // A reason common to all lines, such as a corpus that was left out, is stated once.
    let first = found.compared().next().and_then(|line| line.today.as_ref().err());
    let common = first
        .filter(|why| found.compared().all(|line| line.today.as_ref().is_err_and(|other| other == *why)));
    if !is_terminal {
        all.extend(found.text.impossible.iter().chain(common).cloned().map(Block::Text));
    }
    let letters = |line: &ReproducedRow<'_>| {
        line.name.chars().count() + line.candidate.map_or(1, |name| name.chars().count())
    };
    let is_wide = is_terminal && found.compared().any(|line| letters(line) > NAMES_MAX);
    let heads = ["", "#then", "today"].into_iter().chain((!is_wide).then_some("candidate today"));
    let mut table = Table::new(found.text.heading(), heads);
    for line in found.compared().filter(|line| is_terminal || common.is_none() || line.said().is_some()) {
        let name = match line.in_place.filter(|_| !is_terminal) {
            Some(words) => format!("{} ({words})", line.name),
            None => line.name.clone(),
        };
        let today = match &line.today {
            Ok(today) => interval::text(today).into(),
            Err(why) => shown(Some(why).filter(|_| !is_terminal && common.is_none()), Clone::clone),
        };
        let then = if is_terminal { line.then.map(then::figure) } else { line.said() };
        let candidate = line.candidate.map_or(shown(None, |none: String| none), named);
        let cells = [name.into(), shown(then, |then| then), today];
        table.push(cells.into_iter().chain((!is_wide).then_some(candidate)).collect());
        if is_terminal {
            let then = line.series.words.as_ref().map(|words| format!("then: {words}"));
            let words = line.in_place.map(str::to_owned).or(then);
            let below = line.candidate.filter(|_| is_wide).map(str::to_owned).into_iter().chain(words);
            let below: Vec<String> = below.collect();
            table.note(below.join("; "));
        }
    }
    all.push(Block::Table(table));
    all.extend(found.why_not().filter(|_| is_terminal).map(|why| Block::Text(why.to_owned())));
    all
}
