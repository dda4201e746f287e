//! The report as Markdown, for a page, an issue or a message.

use super::html::collection::CollectionMember;
use super::view::standing::beside_baseline;
use super::view::then::{self, is_later_part};
use super::view::warned::{self, WordedWarning};
use super::view::{describe, words};
use super::view::{matrix, memory};
use crate::corpus::CorpusId;
use crate::judge::{cells, interval, ranking};
use crate::messages::why;
use crate::plan::text::{PlanText, SHIPPED};
use crate::result::{Cell, Claim, ClaimVerdict, RunResult, Status, Verdict};
use crate::units;

/// Starts a page with the part above the sections.
pub(super) fn begun(result: &RunResult) -> Page {
    let mut page = Page::default();
    let plan = &result.plan;
    page.paragraph(&format!("# {}", plan.name.as_deref().unwrap_or("Where should these files live?")));
    plan.about.iter().for_each(|about| page.paragraph(about));
    if let Some(command) = command(&result.plan) {
        page.paragraph(&format!("```sh\n{command}\n```"));
    }
    page.paragraph(&began(result));
    if !result.complete {
        page.paragraph("**This run is not complete.**");
    }
    page
}

pub(super) fn answer(page: &mut Page, result: &RunResult, title: &str) {
    page.paragraph(&format!("## {title}"));
    result.answer.iter().for_each(|sentence| page.paragraph(sentence));
}

pub(super) fn measured(page: &mut Page, result: &RunResult, title: &str) {
    page.paragraph(&format!("## {title}"));
    page.paragraph(describe::LEGEND);
    phases(page, result);
    absent(page, result);
}

/// Renders all claims of several repeated experiments.
pub fn collection(members: &[CollectionMember]) -> String {
    let mut page = Page::default();
    let mut claims = Vec::new();
    for member in members {
        match &member.result {
            Ok(result) => {
                claims.extend(result.claims.iter().map(|claim| (Some(member.name.as_str()), claim)));
            }
            Err(why) => page.paragraph(&format!("`{}` was not run: {why}", member.name)),
        }
    }
    let lines = claims.into_iter().map(|(plan, claim)| claim_line(plan, claim));
    page.table(&["plan", "claim", "what was said", "published", "today", "verdict"], lines);
    page.0
}

/// A Markdown document built from blocks.
#[derive(Default)]
pub(super) struct Page(String);

impl Page {
    pub(super) fn text(self) -> String {
        self.0
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        self.block(&escaped(text));
    }

    /// Appends a block that is already Markdown.
    pub(super) fn block(&mut self, markdown: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(markdown);
        self.0.push('\n');
    }

    /// Appends a list.
    pub(super) fn list(&mut self, points: &[String]) {
        let points: Vec<String> = points.iter().map(|point| format!("- {}", escaped(point))).collect();
        if !points.is_empty() {
            self.block(&points.join("\n"));
        }
    }

    pub(super) fn table(&mut self, head: &[&str], lines: impl Iterator<Item = Vec<String>>) {
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let cells: Vec<String> =
                cells.map(|cell| escaped(cell).replace('|', "\\|").replace('\n', " ")).collect();
            format!("| {} |", cells.join(" | "))
        };
        let mut text = vec![line(&mut head.iter().copied()), line(&mut head.iter().map(|_| "---"))];
        text.extend(lines.map(|cells| line(&mut cells.iter().map(String::as_str))));
        // A table without rows is omitted.
        if text.len() > 2 {
            self.block(&text.join("\n"));
        }
    }
}

/// True if the run's plan equals its shipped plan, apart from the changes that [`command`] prints.
fn is_as_shipped(plan: &PlanText, shipped: &PlanText) -> bool {
    let one = |number: Option<usize>| number.unwrap_or(1);
    let class = |plan: &PlanText| plan.durability.clone().unwrap_or_else(|| "on-sync".to_owned());
    // A preview sets its own number of rounds.
    let is_preview = plan.rounds.is_none() && plan.scale.is_some();
    (is_preview || plan.rounds == shipped.rounds)
        && plan.budget == shipped.budget
        && class(plan) == class(shipped)
        && one(plan.workers) == one(shipped.workers)
        && one(plan.batch) == one(shipped.batch)
        // Older results lack this key.
        && plan.fill_order.is_none_or(|order| order == shipped.fill_order.unwrap_or_default())
        && plan.seed.unwrap_or(1) == shipped.seed.unwrap_or(1)
        && (plan.rate, &plan.limit, &plan.mix) == (shipped.rate, &shipped.limit, &shipped.mix)
        && (&plan.memory, plan.memory_total, &plan.cache) == (&shipped.memory, shipped.memory_total, &shipped.cache)
        && (plan.verify, plan.drop_caches) == (shipped.verify, shipped.drop_caches)
        && (&plan.set, &plan.corpus) == (&shipped.set, &shipped.corpus)
}

/// Returns the command that repeats the run, if the plan is shipped and the differences fit into one line.
fn command(plan: &PlanText) -> Option<String> {
    let (name, _) = (plan.name.as_ref()?, plan.document.as_ref()?);
    let (_, shipped) = SHIPPED.iter().find(|(known, _)| known == name)?;
    let mut shipped = PlanText::parse(shipped).ok()?;
    if !is_as_shipped(plan, &shipped) {
        return None;
    }
    let mut command = format!("blobwise run {name}");
    if plan.corpora.len() < shipped.corpora.len() {
        let names: Vec<String> = plan.corpora.iter().filter_map(|corpus| corpus.name.clone()).collect();
        command += &format!(" --corpora {}", names.join(","));
        // Drops the phases of the other corpora too.
        shipped.keep_corpora(&names).ok()?;
    }
    if plan.stores != shipped.stores {
        command += &format!(" --stores '{}'", plan.stores.as_ref()?.join(","));
    }
    // Joined runs list their phases in the order of joining.
    let sorted = |phases: &Option<Vec<String>>| {
        let mut phases = phases.clone();
        phases.iter_mut().for_each(|phases| phases.sort_unstable());
        phases
    };
    if sorted(&plan.phases) != sorted(&shipped.phases) {
        command += &format!(" --phases {}", plan.phases.as_ref()?.join(","));
    }
    if let Some(scale) = plan.scale {
        command += &format!(" --scale {scale}");
    }
    if plan.awake == Some(true) {
        command += " --awake";
    }
    if plan.pin_apart == Some(true) {
        command += " --pin-apart";
    }
    if plan.each_rank == Some(true) {
        command += " --each-rank";
    }
    Some(command)
}

/// States when, for how long, how and on which machine the run was measured.
fn began(result: &RunResult) -> String {
    let (program, machine) = (&result.program, &result.machine);
    let minutes = units::seconds(program.seconds);
    let rounds = units::counted(result.fixed.rounds, "round");
    let device = machine.device.as_ref().map(|device| format!(" on {device}")).unwrap_or_default();
    let scale = match result.plan.scale {
        Some(scale) if scale < 1.0 => format!(" at {scale} of its size"),
        _ => String::new(),
    };
    format!(
        "Run on {}{scale}: {rounds}, {minutes}, blobwise {}. {}, {}{}, {}, {}{device}, {}, Linux {}.",
        program.started.split('T').next().unwrap_or_default(),
        program.version,
        machine.processor,
        units::counted(machine.processors, "processor"),
        if machine.virtual_machine { " in a virtual machine" } else { "" },
        units::bytes(machine.memory_bytes as f64),
        machine.filesystem,
        machine.system,
        machine.kernel,
    )
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'"))
}

/// Escapes tags, links and images in text. Code spans are left alone, since nothing in them is interpreted.
fn escaped(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        let fence = rest[at..].len() - rest[at..].trim_start_matches('`').len();
        let (before, code) = (&rest[..at], &rest[at + fence..]);
        let end = end_of_code(code, fence);
        shown += &escaped_prose(before);
        shown += &rest[at..at + fence + end];
        rest = &code[end..];
    }
    shown + &escaped_prose(rest)
}

/// Returns the end of a code span, behind the closing backticks; `fence` is the number of opening backticks. 0 if the span is not
/// closed.
fn end_of_code(code: &str, fence: usize) -> usize {
    let mut at = 0;
    while let Some(found) = code[at..].find('`') {
        let run = code[at + found..].len() - code[at + found..].trim_start_matches('`').len();
        at += found + run;
        if run == fence {
            return at;
        }
    }
    0
}

fn escaped_prose(text: &str) -> String {
    text.replace('<', "\\<").replace("![", "!\\[").replace("](", "]\\(")
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

// ---- then and now ------------------------------------------------------------------------------------------------

pub(super) fn then_and_now(page: &mut Page, result: &RunResult, title: &str) {
    let plan = &result.plan;
    if let Some(document) = &plan.document {
        page.paragraph(&format!("## {title}"));
        page.paragraph(&format!(
            "{}, *{}*, {}. Measured on: {}",
            document.author, document.title, document.date, document.machine
        ));
        page.paragraph("Ratios to the document's own reference; absolute figures are not compared.");
        let (tables, silent) = then::tables(result);
        tables.iter().for_each(|table| published(page, table));
        let silent: Vec<String> = then::silent(&silent).iter().map(|line| format!("- {line}")).collect();
        if !silent.is_empty() {
            page.paragraph(&format!("### {}", then::SILENT));
            page.paragraph(&silent.join("\n"));
        }
    }
    if !result.claims.is_empty() {
        page.paragraph("## Claims");
        // The claim itself states how many parts could not be tested, and why.
        let untested = [ClaimVerdict::NotTestable, ClaimVerdict::NotReached];
        let tested = |part: &&Claim| !untested.contains(&part.verdict);
        let all = result
            .claims
            .iter()
            .flat_map(|claim| std::iter::once(claim).chain(claim.parts.iter().filter(tested)));
        let lines = all.map(|claim| claim_line(None, claim));
        page.table(&["claim", "what was said", then::said(result), "today", "verdict"], lines);
        let notes: Vec<String> = result
            .claims
            .iter()
            .filter_map(|claim| Some(format!("- {}: {}", claim.id, claim.note.as_ref()?)))
            .collect();
        if !notes.is_empty() {
            page.paragraph(&notes.join("\n"));
        }
    }
    let wrong: Vec<String> =
        then::disagreements(result).iter().map(|(what, why)| format!("- {what}: {why}.")).collect();
    if !wrong.is_empty() {
        page.paragraph(&format!("## {}", then::DISAGREEMENTS));
        page.paragraph(&wrong.join("\n"));
    }
    if !plan.unspecified.is_empty() {
        page.paragraph("## What was not said, and what this plan does");
        let lines: Vec<String> =
            plan.unspecified.iter().map(|open| format!("- {}: {}", open.what, open.here)).collect();
        page.paragraph(&lines.join("\n"));
    }
}

fn published(page: &mut Page, table: &then::ReproducedTable<'_>) {
    page.paragraph(&format!("### {}", table.text.heading()));
    table.text.impossible.iter().for_each(|why| page.paragraph(why));
    // A reason common to all lines, such as a corpus that was left out, is stated once.
    let common = table.compared().next().and_then(|line| line.today.as_ref().err());
    let common = common
        .filter(|why| table.compared().all(|line| line.today.as_ref().is_err_and(|other| other == *why)));
    common.iter().for_each(|why| page.paragraph(why));
    let lines = table.compared().filter(|line| common.is_none() || line.said().is_some()).map(|line| {
        let why = |why: &String| if common.is_some() { "-".to_owned() } else { why.clone() };
        vec![
            line.in_place.map_or(line.name.clone(), |words| format!("{} ({words})", line.name)),
            or_dash(line.said()),
            line.today.as_ref().map_or_else(why, interval::text),
            or_dash(line.candidate.map(code)),
        ]
    });
    page.table(&["", "then", "today", "candidate today"], lines);
}

fn claim_line(plan: Option<&str>, claim: &Claim) -> Vec<String> {
    let mut line: Vec<String> = plan.map(code).into_iter().collect();
    line.extend([
        claim.id.clone(),
        claim.statement.clone(),
        or_dash(then::published(claim)),
        or_dash(claim.today.map(|today| then::of_claim(claim, &today))),
        then::verdict(claim),
    ]);
    line
}

// ---- measured phases ---------------------------------------------------------------------------------------------

fn phases(page: &mut Page, result: &RunResult) {
    for (phase, corpus_id) in describe::blocks(result) {
        if is_later_part(phase) {
            continue;
        }
        let cells: Vec<&Cell> = result
            .results
            .iter()
            .filter(|cell| cell.phase == phase && cell.corpus_id == corpus_id && !cell.rounds.is_empty())
            .collect();
        let reasons = reasons(result, phase, corpus_id);
        if cells.is_empty() && reasons.is_empty() {
            continue;
        }
        page.paragraph(&format!("### {}", words::phase(phase, corpus_id)));
        if let Some(first) = cells.first() {
            page.paragraph(&format!("{}.", describe::describe(result, first, &cells)));
        }
        words::hot(&cells).iter().for_each(|hot| page.paragraph(&format!("{hot}.")));
        let groups = ranking::grouped(&cells);
        let several = groups.len() > 1 || groups.iter().any(|(_, members)| !ranking::is_choice(members[0]));
        for (name, members) in groups {
            if several {
                page.paragraph(&format!(
                    "Ranked apart: {}.",
                    if name.is_empty() { "the others" } else { &name }
                ));
            }
            cells_of(page, result, &members);
        }
        let rest: Vec<&Cell> = cells.into_iter().filter(|cell| cell.not_ranked.is_some()).collect();
        if several && !rest.is_empty() {
            page.paragraph("Not ranked:");
        }
        cells_of(page, result, &rest);
        if !reasons.is_empty() {
            page.paragraph(&reasons.join("\n"));
        }
    }
}

/// States why cells of a phase are not ranked. Reasons that apply to a candidate as a whole are listed with the candidates.
fn reasons(result: &RunResult, phase: &str, corpus_id: CorpusId) -> Vec<String> {
    let is_of_candidate = |cell: &Cell| {
        result.candidates.iter().any(|candidate| {
            candidate.store == cell.store && candidate.reason.is_some() && candidate.reason == cell.reason
        })
    };
    let of_phase = |cell: &&Cell| cell.phase == phase && cell.corpus_id == corpus_id;
    let cells: Vec<&Cell> =
        result.results.iter().filter(of_phase).filter(|cell| !ranking::is_baseline(cell)).collect();
    if let Some(why) = describe::impossible_for_all(&cells) {
        return vec![why];
    }
    cells
        .into_iter()
        .filter(|cell| !is_of_candidate(cell))
        .filter_map(|cell| Some(format!("- {}: {}", code(&cell.store), why(cell.not_ranked.as_ref()?))))
        .collect()
}

/// Writes a table of cells of one phase.
fn cells_of(page: &mut Page, result: &RunResult, cells: &[&Cell]) {
    if cells.is_empty() {
        return;
    }
    if cells.iter().any(|cell| !cell.counts.is_empty()) {
        let mut head = vec!["store", "ratio to the best"];
        head.extend(describe::LOADED);
        let lines = cells.iter().map(|cell| {
            let mut line = vec![code(&cell.store), describe::standing(result, cell)];
            line.extend(describe::loaded(cell));
            line
        });
        return page.table(&head, lines);
    }
    let writes = cells.iter().any(|cell| cells::writes(cell));
    let rate_title = if writes { "settled ops/s" } else { "ops/s" };
    let batches = cells.iter().any(|cell| cell.batch > 1);
    let lines = cells.iter().map(|cell| {
        let rate = cell.settled_ops_per_s.or(cell.ops_per_s);
        let times = cell.response_ns.or(cell.service_ns).unwrap_or_default();
        let time = |time: Option<u64>| or_dash(time.map(|time| units::nanoseconds(time as f64)));
        let mut line = vec![
            code(&cell.store),
            or_dash(rate.map(|rate| words::with_interval(&rate, units::count))),
            describe::standing(result, cell),
            time(times.p50),
            time(times.p99),
        ];
        if batches {
            line.insert(2, or_dash(cells::blob_ns(cell).map(units::nanoseconds)));
        }
        line
    });
    let mut head = vec!["store", rate_title, "ratio to the best", "p50", "p99"];
    if batches {
        head.insert(2, "time for a blob");
    }
    page.table(&head, lines);
    let counted = cells.iter().filter_map(|cell| {
        let figures = memory::counted(cell)?.into_iter().map(or_dash);
        Some(std::iter::once(code(&cell.store)).chain(figures).collect())
    });
    let head: Vec<&str> =
        std::iter::once("memory").chain(memory::COUNTED.map(|title| title.trim_start_matches('#'))).collect();
    page.table(&head, counted);
    let steps =
        cells.iter().filter_map(|cell| Some(format!("- {}: {}", code(&cell.store), describe::steps(cell)?)));
    let steps: Vec<String> = steps.collect();
    if !steps.is_empty() {
        page.paragraph(&steps.join("\n"));
    }
    let ratios = cells.iter().filter_map(|cell| beside_baseline(result, cell));
    let ratios: Vec<String> = ratios.map(|ratios| format!("- {ratios}")).collect();
    if !ratios.is_empty() {
        page.paragraph(&ratios.join("\n"));
    }
}

/// Writes the matrices: every candidate relative to the reference at every size.
pub(super) fn ratios(page: &mut Page, result: &RunResult, _: &str) {
    for shown in matrix::all(result) {
        page.paragraph(&format!("## Ratios to {}: {}", code(&shown.matrix.reference), shown.matrix.phase));
        page.paragraph(&shown.about());
        let rate_title = if shown.settled { "settled ops/s" } else { "ops/s" };
        let mut reference = vec![format!("{}, {rate_title}", code(&shown.matrix.reference))];
        reference.extend(shown.columns.iter().map(|column| or_dash(column.rate.map(units::count))));
        let lines = shown.groups.iter().flat_map(|group| &group.lines).map(|line| {
            let figures = line.cells.iter().map(|cell| matrix::text(*cell, Verdict::name));
            std::iter::once(code(line.store)).chain(figures).collect()
        });
        let head: Vec<&str> = std::iter::once("store")
            .chain(shown.columns.iter().map(|column| column.title.as_str()))
            .collect();
        page.table(&head, std::iter::once(reference).chain(lines));
    }
}

/// Lists candidates without a figure, with reasons.
fn absent(page: &mut Page, result: &RunResult) {
    let candidates = result.candidates.iter().filter(|candidate| candidate.status != Status::Measured);
    let lines: Vec<String> = candidates
        .map(|candidate| {
            let status = words::status(candidate.status);
            format!(
                "- `{}`: {status}: {}",
                candidate.store,
                candidate.reason.as_deref().unwrap_or("no reason")
            )
        })
        .collect();
    if !lines.is_empty() {
        page.paragraph(&lines.join("\n"));
    }
}

pub(super) fn warnings(page: &mut Page, result: &RunResult, title: &str) {
    let all = warned::all(result);
    if !all.is_empty() {
        page.paragraph(&format!("## {title}"));
        page.list(&all.iter().map(WordedWarning::paragraph).collect::<Vec<String>>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_write_is_no_tag_and_no_picture() {
        let mut page = Page::default();
        page.paragraph("`<b>` <b> ![x](http://y) ``a ` <b>`` [x](javascript:y) ` <i>");
        page.table(&["a"], [vec!["<b>|`<b>|`\n# x".to_owned()]].into_iter());
        assert_eq!(
            page.0,
            "`<b>` \\<b> !\\[x]\\(http://y) ``a ` <b>`` [x]\\(javascript:y) ` \\<i>\n\n\
             | a |\n| --- |\n| \\<b>\\|`<b>\\|` # x |\n"
        );
    }

    #[test]
    fn the_command_names_what_differs_from_the_shipped_plan() {
        let (_, shipped) = SHIPPED.iter().find(|(name, _)| *name == "vondra-2009").unwrap();
        let mut plan = PlanText::parse(shipped).unwrap();
        assert_eq!(command(&plan).unwrap(), "blobwise run vondra-2009");
        plan.corpora.truncate(2);
        plan.scale = Some(0.2);
        plan.awake = Some(true);
        assert_eq!(
            command(&plan).unwrap(),
            "blobwise run vondra-2009 --corpora tiny,small --scale 0.2 --awake"
        );
        let (_, shipped) = SHIPPED.iter().find(|(name, _)| *name == "horak-2010").unwrap();
        let mut plan = PlanText::parse(shipped).unwrap();
        plan.keep_corpora(&["small".to_owned()]).unwrap();
        assert_eq!(command(&plan).unwrap(), "blobwise run horak-2010 --corpora small");
        plan.stores = Some(vec!["files/flat".to_owned(), "mysql/blob".to_owned()]);
        plan.phases = Some(vec!["fill".to_owned(), "small-1".to_owned()]);
        assert_eq!(
            command(&plan).unwrap(),
            "blobwise run horak-2010 --corpora small --stores 'files/flat,mysql/blob' --phases fill,small-1"
        );
        plan.rounds = Some(3);
        assert_eq!(command(&plan), None);
        plan.name = Some("of-my-own".to_owned());
        assert_eq!(command(&plan), None);
    }
}
