//! The report as Markdown, for a page, an issue or a message.

use super::block::{Block, put_in_markdown};
use super::html::collection::CollectionMember;
pub(super) use super::page::Page;
use super::published::{self, CLAIM_HEADS, claim_line};
use super::table::{Table, named};
use super::view::then::{self, JudgedClaim};
use super::view::words;
use crate::judge::run_subject;
use crate::plan::text::{PlanText, SHIPPED};
use crate::result::RunResult;
use crate::units;

/// Starts a page with the part above the sections.
pub(super) fn begun(result: &RunResult) -> Page {
    let mut page = Page::default();
    let plan = &result.plan;
    page.paragraph(&format!("# {}", title(result)));
    let about = plan.document.as_ref().map(published::original).or_else(|| plan.about.clone());
    about.iter().for_each(|about| page.paragraph(about));
    if let Some(command) = command(&result.plan) {
        page.paragraph(&format!("```sh\n{command}\n```"));
    }
    page.paragraph(&began(result));
    if !result.complete {
        page.paragraph("**This run is not complete.**");
    }
    if plan.document.is_some() {
        published::head(&mut page, result);
    }
    page
}

/// Title of a page: of a repeated document, its topic, and when it was repeated.
fn title(result: &RunResult) -> String {
    let plan = &result.plan;
    let about = plan.about.as_deref().filter(|_| plan.document.is_some());
    let topic = about.and_then(|about| about.split([':', '(']).next()).map(str::trim);
    let year = result.program.started.split('-').next().unwrap_or_default();
    match (topic, &plan.document) {
        (Some(topic), Some(document)) => {
            format!("{topic} ({}, {}), repeated in {year}", document.author, document.date)
        }
        _ => plan.name.clone().unwrap_or_else(|| run_subject::blobs(result)),
    }
}

pub(super) fn answer(page: &mut Page, result: &RunResult, title: &str) {
    page.paragraph(&format!("## {title}"));
    result.answer.iter().for_each(|sentence| page.paragraph(sentence));
}

/// Renders all claims of several repeated experiments.
pub fn collection(members: &[CollectionMember]) -> String {
    let mut page = Page::default();
    let mut table = Table::new("All claims", std::iter::once("plan").chain(CLAIM_HEADS));
    for member in members {
        let line =
            |claim: &JudgedClaim<'_>| std::iter::once(named(&member.name)).chain(claim_line(claim)).collect();
        match &member.result {
            Ok(result) => then::judged_claims(result).iter().for_each(|claim| table.push(line(claim))),
            Err(why) => page.paragraph(&format!("`{}` was not run: {why}", member.name)),
        }
    }
    put_in_markdown(&mut page, &[Block::Table(table)]);
    page.text()
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
    let rounds = words::rounds(result);
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

#[cfg(test)]
mod tests {
    use super::*;

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
