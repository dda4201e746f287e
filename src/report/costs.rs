//! Monthly costs in every kind of report: the parts, the total with its interval, and up to which load the ranking holds.

use maud::{Markup, html};

use super::html::table::{Table, TableCell, named, shown};
use super::html::{PageData, led};
use super::markdown::Page;
use super::section::{Section, new};
use super::terminal::{heading, line, wrapped};
use super::view::money::{bounds, money, with_bounds};
use super::view::months::{cheapest, done, of, too_old, unknown};
use crate::judge::LOAD_TIMES;
use crate::result::{Advice, CandidateRank, CheapestChange, Costs, Month, RunResult};
use crate::units;

pub(super) const SECTION: Section = new("costs", "What a month costs")
    .named("Costs")
    .has(|result| of(result).is_some())
    .last()
    .html(html)
    .terminal(terminal)
    .brief(brief)
    .markdown(markdown);

/// Meaning of the signs.
const SIGNS: &str = "*: no other is proved to cost less. <: at most, more than 30 % of its processor time is the harness. +: it promises something else, and is not compared. ?: not compared; the tables of its phases say why. -: not known, or without a price.";

/// Column widths in a terminal: the candidate's label, then the other columns; they total 80 characters.
const LABEL: usize = 19;
const WIDTHS: [usize; 6] = [8, 9, 8, 9, 16, 9];

/// Formats the total with its sign.
fn total(month: &Month) -> Option<String> {
    let sign = match month.place {
        CandidateRank::Leads => "*",
        CandidateRank::Undecided => "~",
        CandidateRank::Behind => "",
        CandidateRank::Apart => "+",
        CandidateRank::NotRanked => "?",
    };
    let bound = if month.is_bound { "<" } else { "" };
    Some(format!("{bound}{}{sign}", money(month.total?.median)))
}

// ---- sentences -------------------------------------------------------------------------------------------------------

/// Sentence above the table.
fn about(costs: &Costs) -> String {
    let prices = &costs.pricing.prices;
    let currency =
        if prices.currency.is_empty() { String::new() } else { format!(" in {}", prices.currency) };
    format!("{}, at prices of {}{currency}.", done(costs), prices.date)
}

/// Sentences below the table.
fn sentences(result: &RunResult, costs: &Costs) -> Vec<String> {
    let mut all = vec![cheapest(costs)];
    all.extend(turns(costs));
    all.extend(unpriced(costs));
    all.extend(unknown(costs));
    all.push(measured_at(result, costs));
    all.extend(too_old(costs));
    all
}

/// States up to which load the cheapest candidate stays the cheapest.
fn turns(costs: &Costs) -> Option<String> {
    let compared = costs
        .months
        .iter()
        .filter(|month| [CandidateRank::Leads, CandidateRank::Behind].contains(&month.place));
    if compared.count() < 2 {
        return None;
    }
    let load = &costs.pricing.load;
    let at = |times: f64| {
        let ops = |ops: f64, does: &str| (ops > 0.0).then(|| format!("{} {does}", units::count(ops * times)));
        [ops(load.reads, "reads"), ops(load.writes, "writes")]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" and ")
    };
    let (most, least) = (LOAD_TIMES, 1.0 / LOAD_TIMES);
    if costs.turns.is_empty() {
        return Some(format!("The cheapest stays so from {least} to {most} times these reads and writes."));
    }
    let told = |turn: &CheapestChange| {
        let who = turn.cheapest.as_ref().map_or("no candidate was measured at so much".to_owned(), |store| {
            format!("`{store}` is the cheapest")
        });
        format!("from {} times them on ({}) {who}", units::count(turn.times), at(turn.times))
    };
    let told: Vec<String> = costs.turns.iter().map(told).collect();
    Some(format!("With other reads and writes, as much stored: {}.", told.join("; ")))
}

/// Lists the parts without a price.
fn unpriced(costs: &Costs) -> Option<String> {
    let prices = &costs.pricing.prices;
    let all = || std::iter::once(&prices.rates).chain(prices.store.values());
    let parts = [
        ("disk (`gb_month`)", all().any(|rates| rates.gb_month.is_some())),
        ("requests (`per_million_requests`)", all().any(|rates| rates.per_million_requests.is_some())),
        ("a machine (`[machine]`)", all().any(|rates| rates.machine.is_some())),
    ];
    let missing: Vec<String> =
        parts.into_iter().filter(|(_, has)| !has).map(|(part, _)| part.to_owned()).collect();
    (!missing.is_empty())
        .then(|| format!("The prices have none for {}, which are left out.", units::listed(&missing, "and")))
}

/// States which phases and corpus the figures come from.
fn measured_at(result: &RunResult, costs: &Costs) -> String {
    let phases: Vec<String> = costs.works.iter().map(|work| format!("`{}`", work.phase)).collect();
    format!(
        "Figures are those of {}; disk and memory are as with the {} of this run.",
        units::listed(&phases, "and"),
        units::bytes(result.corpus.bytes as f64)
    )
}

// ---- the three reports -----------------------------------------------------------------------------------------------

/// Column heads; `#` marks numeric columns.
fn columns(costs: &Costs) -> Vec<&'static str> {
    let growth = costs.pricing.load.growth.map(|_| "#year on");
    ["store", "#disk", "#requests", "#machine", "#month", "#95 %"].into_iter().chain(growth).collect()
}

/// Cells after the candidate's name.
fn figures(costs: &Costs, month: &Month) -> Vec<Option<String>> {
    let parts = [month.disk, month.requests, month.machine].map(|part| part.map(money));
    let growth = costs.pricing.load.growth.map(|_| month.in_a_year.map(money));
    parts.into_iter().chain([total(month), bounds(month.total)]).chain(growth).collect()
}

/// Cost of the device requests of a million ops, if they have a price.
fn millions(costs: &Costs) -> Vec<(&Month, [Option<String>; 2])> {
    let known = |month: &&Month| month.million_reads.is_some() || month.million_writes.is_some();
    let figures = |month: &'_ Month| [month.million_reads, month.million_writes].map(with_bounds);
    costs.months.iter().filter(known).map(|month| (month, figures(month))).collect()
}

/// Column heads of that table.
const MILLIONS: [&str; 3] = ["store", "#a million reads", "#a million writes"];
/// Caption of that table.
const OF_DEVICE: &str = "What the device's requests for a million ops of this load cost";

fn terminal(text: &mut String, result: &RunResult, title: &str) {
    let Some(costs) = of(result) else { return };
    heading(text, title);
    wrapped(text, "", &format!("{} {SIGNS}", about(costs)));
    let label = |label: &str| match label.chars().count() {
        fits if fits < LABEL => format!("  {label:<LABEL$}"),
        _ => format!("  {label}\n  {:<LABEL$}", ""),
    };
    let plain = |head: &str| head.trim_start_matches('#').to_owned();
    let cells = |cells: &mut dyn Iterator<Item = String>| -> String {
        cells.zip(WIDTHS).map(|(cell, width)| format!("{cell:>width$}")).collect()
    };
    let or_absent = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let heads = cells(&mut columns(costs).into_iter().skip(1).map(plain));
    line(text, &format!("{}{heads}", label("store")));
    for month in &costs.months {
        let figures = cells(&mut figures(costs, month).into_iter().map(or_absent));
        line(text, &format!("{}{figures}", label(&month.store)));
    }
    let millions = millions(costs);
    if !millions.is_empty() {
        wrapped(text, "  ", OF_DEVICE);
        let [store, reads, writes] = MILLIONS.map(plain);
        line(text, &format!("{}{reads:>28}{writes:>29}", label(&store)));
        for (month, figures) in millions {
            let [reads, writes] = figures.map(or_absent);
            line(text, &format!("{}{reads:>28}{writes:>29}", label(&month.store)));
        }
    }
    sentences(result, costs).iter().for_each(|sentence| wrapped(text, "- ", sentence));
}

/// One-screen form; omitted if the recommendation already contains it in short.
fn brief(text: &mut String, result: &RunResult, title: &str) {
    if !result.advice.as_ref().is_some_and(Advice::is_of_several) {
        terminal(text, result, title);
    }
}

fn html(view: &PageData<'_>) -> Markup {
    let Some(costs) = of(view.result) else { return html! {} };
    let mut table = Table::new("A month of each candidate", &columns(costs));
    for month in &costs.months {
        let class = match month.place {
            CandidateRank::Leads => "leader",
            CandidateRank::NotRanked => "unranked",
            CandidateRank::Undecided | CandidateRank::Behind | CandidateRank::Apart => "",
        };
        let total = total(month);
        let entry = |figure: Option<String>| match figure {
            Some(figure) if Some(&figure) == total.as_ref() => TableCell::new(html! { (figure) }, class),
            figure => shown(figure, |figure| figure),
        };
        let figures = figures(costs, month).into_iter().map(entry);
        table.push(std::iter::once(named(&month.store)).chain(figures).collect());
    }
    let mut of_device = Table::new(OF_DEVICE, &MILLIONS);
    for (month, figures) in millions(costs) {
        let figures = figures.into_iter().map(|figure| shown(figure, |figure| figure));
        of_device.push(std::iter::once(named(&month.store)).chain(figures).collect());
    }
    html! {
        p { (about(costs)) }
        ul { @for sentence in sentences(view.result, costs) { li { (led(&sentence)) } } }
        (table)
        p { (SIGNS) }
        (of_device)
    }
}

fn markdown(page: &mut Page, result: &RunResult, title: &str) {
    let Some(costs) = of(result) else { return };
    page.paragraph(&format!("## {title}"));
    page.paragraph(&about(costs));
    page.list(&sentences(result, costs));
    let plain = |head: &'static str| head.trim_start_matches('#');
    let head: Vec<&str> = columns(costs).into_iter().map(plain).collect();
    let lines = costs.months.iter().map(|month| {
        let figures = figures(costs, month).into_iter().map(Option::unwrap_or_default);
        std::iter::once(format!("`{}`", month.store)).chain(figures).collect()
    });
    page.table(&head, lines);
    page.paragraph(SIGNS);
    let millions = millions(costs);
    if !millions.is_empty() {
        page.paragraph(&format!("{OF_DEVICE}:"));
        let lines = millions.into_iter().map(|(month, figures)| {
            let figures = figures.into_iter().map(Option::unwrap_or_default);
            std::iter::once(format!("`{}`", month.store)).chain(figures).collect()
        });
        page.table(&MILLIONS.map(plain), lines);
    }
}

#[cfg(test)]
mod tests;
