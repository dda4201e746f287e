//! Monthly costs in every kind of report: the parts, the total with its interval, and up to which load the ranking holds.

use super::block::{Block, ReportFormat};
use super::section::{Section, new};
use super::table::{CellContent, Table, TableCell, named, shown};
use super::view::money::{bounds, money, with_bounds};
use super::view::months::{cheapest, done, monthly_costs, too_old, unknown};
use crate::judge::LOAD_TIMES;
use crate::result::{Advice, CandidateRank, CheapestChange, Costs, Month, RunResult};
use crate::units;

pub(super) const SECTION: Section =
    new("costs", "What a month costs").named("Costs").last().blocks(blocks).brief(brief);

/// The signs of totals that occur, with their meanings; candidates that are not compared have a letter for the reason.
struct Signs(Vec<(&'static str, CandidateRank, &'static str)>);

impl Signs {
    fn that_occur(costs: &Costs) -> Signs {
        const MEANINGS: [(CandidateRank, &str); 4] = [
            (CandidateRank::Leads, "no other is proved to cost less, or only by less than 3 %"),
            (CandidateRank::Undecided, "too noisy to call, or too few rounds"),
            (CandidateRank::Apart, "not compared, because it promises something else"),
            (CandidateRank::NotRanked, "not compared, for the reasons below the tables of its phases"),
        ];
        let occurs = |place| costs.months.iter().any(|month| month.place == place && month.total.is_some());
        let mut letters = ["a", "b"].into_iter();
        let signs = MEANINGS.into_iter().filter(|(place, _)| occurs(*place)).map(|(place, meaning)| {
            let sign = match place {
                CandidateRank::Leads => "*",
                CandidateRank::Undecided => "~",
                _ => letters.next().unwrap_or_default(),
            };
            (sign, place, meaning)
        });
        Signs(signs.collect())
    }

    /// Formats the total with its sign.
    fn total(&self, month: &Month) -> Option<String> {
        let sign = self.0.iter().find(|(_, place, _)| *place == month.place).map_or("", |(sign, ..)| sign);
        let bound = if month.is_bound { "<" } else { "" };
        Some(format!("{bound}{}{sign}", money(month.total?.median)))
    }

    fn legend(&self, costs: &Costs) -> String {
        let mut all: Vec<String> =
            self.0.iter().map(|(sign, _, meaning)| format!("{sign} {meaning}")).collect();
        if costs.months.iter().any(|month| month.is_bound) {
            all.push("< an upper bound: more than 30 % of its processor time is blobwise's own".to_owned());
        }
        all.push("- not known, or without a price".to_owned());
        format!("{}.", all.join("; "))
    }
}

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
    let at = |place: CandidateRank| costs.months.iter().filter(move |month| month.place == place).count();
    let leaders = at(CandidateRank::Leads);
    // Nothing stays the cheapest before anything is, and of several leaders none is proved to be.
    if leaders == 0 || leaders + at(CandidateRank::Behind) < 2 || leaders > 1 && costs.turns.is_empty() {
        return None;
    }
    let load = &costs.pricing.load;
    let load_at = |times: f64| {
        let ops = |ops: f64, does: &str| (ops > 0.0).then(|| format!("{} {does}", units::count(ops * times)));
        [ops(load.reads, "reads"), ops(load.writes, "writes")]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" and ")
    };
    let (most, least) = (LOAD_TIMES, 1.0 / LOAD_TIMES);
    if costs.turns.is_empty() {
        return Some(format!("It stays the cheapest from {least} to {most} times these reads and writes."));
    }
    let told = |turn: &CheapestChange| {
        let who = turn.cheapest.as_ref().map_or("no candidate was measured at so much".to_owned(), |store| {
            format!("`{store}` is the cheapest")
        });
        format!("from {} times them on ({}) {who}", units::count(turn.times), load_at(turn.times))
    };
    let told: Vec<String> = costs.turns.iter().map(told).collect();
    Some(format!(
        "With more or fewer reads and writes and as much stored, by mean cost: {}.",
        told.join("; ")
    ))
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
        .then(|| format!("The prices lack {}, which are left out.", units::listed(&missing, "and")))
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

fn blocks(result: &RunResult, format: ReportFormat) -> Vec<Block> {
    let Some(costs) = monthly_costs(result) else { return Vec::new() };
    let said = Block::Subjects(sentences(result, costs));
    let signs = Signs::that_occur(costs);
    let (months, millions) = (Block::Table(months(costs, &signs)), millions(costs));
    let text = |text: &str| Block::Text(text.to_owned());
    let legend = signs.legend(costs);
    let millions = |caption: &str| match millions.is_empty() {
        true => Vec::new(),
        false => vec![text(caption), Block::Table(millions)],
    };
    match format {
        // The sentences come last, so that they stay on the screen.
        ReportFormat::Terminal => [text(&format!("{} {legend}", about(costs))), months]
            .into_iter()
            .chain(millions(OF_DEVICE))
            .chain([said])
            .collect(),
        ReportFormat::Markdown | ReportFormat::Page => {
            let first = [Block::Text(about(costs)), said, months, text(&legend)];
            // On a page, a table has its caption.
            let millions = millions(&format!("{OF_DEVICE}:")).into_iter();
            first.into_iter().chain(millions.skip(usize::from(format == ReportFormat::Page))).collect()
        }
    }
}

/// One-screen form; omitted if the recommendation already contains it in short.
fn brief(text: &mut String, result: &RunResult, _: &str) {
    if !result.advice.as_ref().is_some_and(Advice::is_of_several) {
        SECTION.in_terminal(text, result);
    }
}

fn months(costs: &Costs, signs: &Signs) -> Table {
    let growth = costs.pricing.load.growth.map(|_| "#year on");
    let heads = ["store", "#disk", "#requests", "#machine", "#month", "#95 %"].into_iter().chain(growth);
    let mut table = Table::new("A month of each candidate", heads);
    for month in &costs.months {
        let class = match month.place {
            CandidateRank::Leads => "leader",
            CandidateRank::NotRanked => "unranked",
            CandidateRank::Undecided | CandidateRank::Behind | CandidateRank::Apart => "",
        };
        let [disk, requests, machine] =
            [month.disk, month.requests, month.machine].map(|part| shown(part, money));
        let total = signs.total(month).map_or(shown(None, |none: String| none), |total| {
            TableCell::with(CellContent::Text(total), class)
        });
        let bounds = shown(bounds(month.total), |bounds| bounds);
        let growth = growth.map(|_| shown(month.in_a_year, money));
        let cells = [named(&month.store), disk, requests, machine, total, bounds];
        table.push(cells.into_iter().chain(growth).collect());
    }
    table
}

/// Caption of the table of device requests.
const OF_DEVICE: &str = "What the device's requests for a million ops of this load cost";

/// Table of the cost of the device requests of a million ops, of candidates for which they have a price.
fn millions(costs: &Costs) -> Table {
    let mut table = Table::new(OF_DEVICE, ["store", "#a million reads", "#a million writes"]);
    let known = |month: &&Month| month.million_reads.is_some() || month.million_writes.is_some();
    for month in costs.months.iter().filter(known) {
        let [reads, writes] = [month.million_reads, month.million_writes]
            .map(|figure| shown(with_bounds(figure), |figure| figure));
        table.push(vec![named(&month.store), reads, writes]);
    }
    table
}

#[cfg(test)]
mod tests;
