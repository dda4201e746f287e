//! Monthly costs of candidates, as used by the recommendation and the section on costs.

use super::money::{in_currency, money};
use crate::judge::PRICES_DAYS_MAX;
use crate::judge::answer::with_reasons;
use crate::result::{CandidateRank, CheapestChange, Costs, Month, RunResult, UnknownCost};
use crate::units;

/// Monthly costs, if any candidate has them; if none meets the requirements, the recommendation says so.
pub(in crate::report) fn monthly_costs(result: &RunResult) -> Option<&Costs> {
    result.costs.as_ref().filter(|costs| !costs.months.is_empty())
}

/// Column head of monthly costs with the currency; `None` if no costs were requested.
pub(in crate::report) fn month_head(result: &RunResult) -> Option<String> {
    let currency = &monthly_costs(result)?.pricing.prices.currency;
    Some(if currency.is_empty() { "month".to_owned() } else { format!("{currency} / month") })
}

fn total(costs: &Costs, store: &str) -> Option<f64> {
    let month = costs.months.iter().find(|month| month.store == store)?;
    Some(month.total?.median)
}

/// Monthly cost of a candidate, if known.
pub(in crate::report) fn month_of(result: &RunResult, store: &str) -> Option<String> {
    total(result.costs.as_ref()?, store).map(money)
}

/// Monthly cost in parentheses, to follow a name.
pub(in crate::report) fn a_month_of(result: &RunResult, store: &str) -> String {
    let Some(costs) = &result.costs else { return String::new() };
    match total(costs, store) {
        Some(total) => format!(" ({} a month)", in_currency(&costs.pricing, total)),
        None => " (what a month costs is not known)".to_owned(),
    }
}

/// Describes the monthly load.
pub(in crate::report) fn done(costs: &Costs) -> String {
    let load = &costs.pricing.load;
    let ops = |ops: f64, does: &str| (ops > 0.0).then(|| format!("{} {does}", units::count(ops)));
    let cached =
        (load.cached > 0.0).then(|| format!(", {} of them from memory", units::percent(load.cached)));
    let reads = ops(load.reads, "reads").map(|reads| reads + &cached.unwrap_or_default());
    let done: Vec<String> = reads.into_iter().chain(ops(load.writes, "writes")).collect();
    let stored = units::bytes(load.stored_bytes);
    format!("A month of {} with {stored} stored", done.join(" and "))
}

/// States the cheapest candidates, and the next.
pub(in crate::report) fn cheapest(costs: &Costs) -> String {
    let at = |place: CandidateRank| costs.months.iter().filter(move |month| month.place == place);
    let leaders: Vec<String> = at(CandidateRank::Leads).map(|month| format!("`{}`", month.store)).collect();
    let total = |month: &Month| month.total.map_or(0.0, |total| total.median);
    let undecided: Vec<String> = at(CandidateRank::Undecided)
        .map(|month| format!("`{}` ({})", month.store, in_currency(&costs.pricing, total(month))))
        .collect();
    if !undecided.is_empty() {
        let undecided = units::listed(&undecided, "or");
        return format!("Undecided which costs least: {undecided}. To find out: more `--rounds`.");
    }
    let Some(least) = at(CandidateRank::Leads).map(total).reduce(f64::min) else {
        let phases: Vec<String> = costs.works.iter().map(|work| format!("`{}`", work.phase)).collect();
        let phases = units::listed(&phases, "and");
        let why = unknown(costs).unwrap_or_else(|| format!("No two are ranked together in {phases}."));
        return format!("No month can be compared. {why}");
    };
    let least_shown = in_currency(&costs.pricing, least);
    let next = at(CandidateRank::Behind).next();
    match (leaders.as_slice(), next) {
        ([only], None) => format!("Only {only} can be compared: {least_shown}."),
        (several, None) => format!("{}: no difference is proved.", units::listed(several, "and")),
        (some, Some(next)) => {
            let (more, store) = (in_currency(&costs.pricing, total(next) - least), &next.store);
            let [verb, from] = if some.len() == 1 { ["costs", ""] } else { ["cost", "from "] };
            format!(
                "{} {verb} least ({from}{least_shown}). Next is `{store}`, {more} more.",
                units::listed(some, "and")
            )
        }
    }
}

/// Lists candidates without monthly costs, with reasons.
pub(in crate::report) fn unknown(costs: &Costs) -> Option<String> {
    let why = |unknown: &UnknownCost| match unknown {
        UnknownCost::Elsewhere => {
            "its server is yours, and what it takes there cannot be looked at".to_owned()
        }
        UnknownCost::NotMeasured { phase } => format!("`{phase}` was not measured"),
        UnknownCost::Disk => "how much disk a byte of blobs adds is not known".to_owned(),
        UnknownCost::Requests { phase } => {
            format!(
                "no request of the device was counted in `{phase}`, which is not to say that they are free"
            )
        }
        UnknownCost::Processor { phase } => format!("no processor time was counted in `{phase}`"),
        UnknownCost::Memory => "its memory was not measured".to_owned(),
        UnknownCost::TooMuch { times } => {
            format!("not shown by this run: the load is {} times what it did", units::count(*times))
        }
    };
    let without = costs.months.iter().filter(|month| !month.unknown.is_empty());
    let said = without.map(|month| {
        let whys: Vec<String> = month.unknown.iter().map(why).collect();
        (units::listed(&whys, "and"), month.store.clone())
    });
    with_reasons(said).map(|list| format!("No sum for {list}."))
}

/// Warns if the prices may be outdated.
pub(in crate::report) fn too_old(costs: &Costs) -> Option<String> {
    let age = costs.pricing.age_days;
    (age > PRICES_DAYS_MAX).then(|| format!("Warning: the prices are {age} days old. Look them up again."))
}

/// Summarizes monthly costs in a sentence or two, for use beside a table of them.
pub(in crate::report) fn in_short(result: &RunResult) -> Option<String> {
    let costs = monthly_costs(result)?;
    let turn = |(index, turn): (usize, &CheapestChange)| {
        let times = units::count(turn.times);
        let who = turn.cheapest.as_ref().map_or("not measured".to_owned(), |store| format!("`{store}`"));
        match index {
            0 => format!("From {times} times these reads and writes on: {who}"),
            _ => format!("from {times} times on: {who}"),
        }
    };
    let turns: Vec<String> = costs.turns.iter().enumerate().map(turn).collect();
    let turns = if turns.is_empty() { String::new() } else { format!(" {}.", turns.join("; ")) };
    let old = too_old(costs).map_or(String::new(), |old| format!(" {old}"));
    Some(format!("{}: {}{turns}{old}", done(costs), cheapest(costs)))
}
