//! Sentences about choices: who leads in a kind of work, the cost of the next choice, the best single store, and where blobs of
//! each size should go.

use super::months::a_month_of;
use crate::judge::answer::{has_few_rounds, rounds_to_decide};
use crate::result::{
    Advice, Interval, RunResult, RunnerUp, Situation, SizeAdvice, UndecidedCandidates, WorstCase,
};
use crate::units;

/// Maximum ratio of an interval's upper bound to its median; beyond it, the bound is useless.
const HARDLY_BOUNDED: f64 = 10.0;

/// States who leads in a kind of work, the next choice and its cost.
pub(in crate::report) fn of_situation(advice: &Advice, situation: &Situation) -> String {
    if let Some(rounds) = rounds_to_decide(situation) {
        let undecided: Vec<String> =
            situation.undecided().map(|standing| format!("`{}`", standing.store)).collect();
        return format!(
            "{}: {}: too few rounds to tell; to find out: `--rounds {rounds}`.",
            situation.title,
            either(&undecided)
        );
    }
    let choose = format!("{}: {}", situation.title, either(&leading(situation)));
    let Some(next) = &situation.next else {
        return format!("{choose}: no difference that counts is proved, choose by what you can operate.");
    };
    let longer = format!("{} % longer", units::count(100.0 * slower(advice, situation, next)));
    let share = format!("a request of {} takes {longer}", units::nanoseconds(advice.request_ns));
    let little = if next.is_little { ": little, choose by what you can operate" } else { "" };
    let times = times(next).map(|[count, ends]| format!("{count} times as long{ends}, ")).unwrap_or_default();
    let more = more_with_bounds(situation, next);
    format!("{choose}. Next is `{}`, {more} more ({times}{share}{little}).", next.store)
}

/// Relative slowdown of a request with one op, for the next choice compared with the fastest.
pub(in crate::report) fn slower(advice: &Advice, situation: &Situation, next: &RunnerUp) -> f64 {
    next.slower.unwrap_or(next.more_ns / (advice.request_ns + situation.fastest_ns))
}

/// Additional time of an op for the next choice, with its interval, which is derived from that of the ratio of times.
pub(in crate::report) fn more_with_bounds(situation: &Situation, next: &RunnerUp) -> String {
    let more = units::nanoseconds(next.more_ns);
    let fastest = situation.leaders().filter_map(|leader| leader.op_ns).reduce(f64::min);
    let bound = |times: Option<f64>| Some(units::nanoseconds(fastest? * (times? - 1.0).max(0.0)));
    let times = next.times.filter(|times| !is_hardly_bounded(times));
    let ends = times.and_then(|times| Some(format!(" [{}, {}]", bound(times.low)?, bound(times.high)?)));
    more + &ends.unwrap_or_default()
}

/// True if an interval is so wide that it only shows a lack of rounds.
fn is_hardly_bounded(times: &Interval) -> bool {
    times.high.is_some_and(|high| high > HARDLY_BOUNDED * times.median)
}

/// Ratio of times to the fastest, and its interval, as text.
pub(in crate::report) fn times(next: &RunnerUp) -> Option<[String; 2]> {
    let Interval { median, low, high, .. } = next.times?;
    let count = |times: f64| match times {
        few if few < 10.0 => format!("{few:.2}"),
        some if some < 100.0 => format!("{some:.1}"),
        many => format!("{many:.0}"),
    };
    let ends = match (low, high) {
        _ if next.times.as_ref().is_some_and(is_hardly_bounded) => ", hardly bounded".to_owned(),
        (Some(low), Some(high)) => format!(" [{}, {}]", count(low), count(high)),
        _ => String::new(),
    };
    Some([count(median), ends])
}

/// Formats a list as "`a`, `b` or `c`", shortened if long.
pub(in crate::report) fn either(stores: &[String]) -> String {
    first_of(stores, "or")
}

/// Formats the first items of a list and the number of others, with `word` before the last.
fn first_of(stores: &[String], word: &str) -> String {
    const NAMED_MAX: usize = 3;
    let mut named: Vec<String> = stores.iter().take(NAMED_MAX).cloned().collect();
    if stores.len() > NAMED_MAX {
        named.push(format!("{} more", stores.len() - NAMED_MAX));
    }
    units::listed(&named, word)
}

/// Label of the best single store for all kinds of work.
pub(in crate::report) fn one_place_label(advice: &Advice) -> &'static str {
    let known = advice.by_size.iter().filter(|of_size| !of_size.places.is_empty()).count();
    match known > 1 && reads_by_size(advice).is_none() {
        true => "One place for all of it, small or large",
        false => "One place for all of it",
    }
}

/// States the best single store for all kinds of work and the next choice, after `label`; with monthly costs if `is_priced`.
pub(in crate::report) fn one_place(
    result: &RunResult,
    advice: &Advice,
    label: &str,
    is_priced: bool,
) -> Option<String> {
    /// Slowdowns below this are printed as "less than".
    const SAME: f64 = 0.005;
    let title = |phase: &str| {
        let found = advice.situations.iter().find(|situation| situation.phase == phase);
        found.map_or(String::new(), |situation| situation.short.clone())
    };
    if !advice.is_of_several() {
        return None;
    }
    if let Some(undecided) = &advice.undecided {
        return Some(not_decided(label, undecided, &title(&undecided.phase)));
    }
    let few = advice.situations.iter().find(|situation| has_few_rounds(situation));
    if let Some(rounds) = few.and_then(rounds_to_decide) {
        return Some(format!("{label}: too few rounds to tell; to find out: `--rounds {rounds}`."));
    }
    let Some(first) = advice.one_place.first() else {
        return Some(format!("{label}: no candidate can be compared in every column."));
    };
    let percent = |percent: f64| format!("{} %", units::count(percent));
    let slower = |worst: &WorstCase| match worst.slower {
        little if little < SAME => format!("less than {}", percent(100.0 * SAME)),
        // One more digit if the bound would be printed as the same number.
        share
            if worst
                .slower_at_most
                .is_some_and(|bound| (100.0 * share).round() >= (100.0 * bound).ceil()) =>
        {
            percent((1000.0 * share).floor() / 10.0)
        }
        share => percent((100.0 * share).round()),
    };
    let bound = |worst: &WorstCase| worst.slower_at_most.filter(|bound| *bound <= HARDLY_BOUNDED);
    let at_most = |worst: &WorstCase| match bound(worst) {
        None => "hardly bounded".to_owned(),
        Some(bound) => format!("below {}", percent((100.0 * bound).ceil())),
    };
    // The confidence is stated once; it also applies to the next choice.
    let sure = |worst: &WorstCase| match bound(worst) {
        None => at_most(worst),
        Some(_) => format!("{}, 95 % sure", at_most(worst)),
    };
    let request = units::nanoseconds(advice.request_ns);
    let priced = |store: &str| match is_priced {
        true => format!("`{store}`{}", a_month_of(result, store)),
        false => format!("`{store}`"),
    };
    let place = format!("{label}: {}", priced(&first.store));
    let is_fastest = first.slower_at_most.is_some_and(|bound| bound <= 0.0);
    let mut sentence = match is_fastest {
        true => format!("{place}{}", leads_everywhere(advice, &first.store)),
        false => format!(
            "{place}. At worst (`{}`) a request of {request} with one op takes {} longer than with the fastest ({}).",
            title(&first.phase),
            slower(first),
            sure(first)
        ),
    };
    if let Some(next) = advice.one_place.get(1) {
        let (store, column) = (priced(&next.store), title(&next.phase));
        let slower = slower(next);
        sentence += &match is_fastest {
            true => format!(
                " Next is {store}: a request of {request} with one op takes at worst {slower} longer (`{column}`, {}).",
                sure(next)
            ),
            false => format!(" Next is {store}: {slower} (`{column}`, {}).", at_most(next)),
        };
    }
    Some(sentence)
}

/// Qualifies a candidate that leads in every column: leading means that no other is proved to be faster; the others are proved to
/// be slower only where it leads alone.
fn leads_everywhere(advice: &Advice, store: &str) -> String {
    let is_alone =
        |situation: &&Situation| situation.leaders().map(|leader| leader.store.as_str()).eq([store]);
    let (alone, columns) = (advice.situations.iter().filter(is_alone).count(), advice.situations.len());
    let of_columns = match alone {
        all if all == columns => return ", the fastest in every column.".to_owned(),
        0 => "none".to_owned(),
        some => some.to_string(),
    };
    format!(". Nobody is proved faster in any column, and it leads alone in {of_columns} of {columns}.")
}

/// States why no single store can be named.
fn not_decided(label: &str, undecided: &UndecidedCandidates, column: &str) -> String {
    let stores: Vec<String> = undecided.stores.iter().map(|store| format!("`{store}`")).collect();
    let [look, they] = if stores.len() == 1 { ["looks", "it was"] } else { ["look", "they were"] };
    let stores = first_of(&stores, "and");
    format!(
        "{label}: undecided. {stores} {look} faster in `{column}`, where {they} measured too briefly to be ranked."
    )
}

/// Formats a range of sizes in bytes.
pub(in crate::report) fn sizes(from: u64, below: Option<u64>) -> String {
    let bytes = |bytes: u64| units::bytes(bytes as f64);
    match (from, below) {
        (0, Some(above)) => format!("below {}", bytes(above)),
        (least, Some(above)) => format!("{} to {}", bytes(least), bytes(above)),
        (least, None) => format!("from {} on", bytes(least)),
    }
}

/// Best stores for the reads of a size class; `None` if undecided.
pub(in crate::report) fn places(of_size: &SizeAdvice) -> Option<String> {
    let places: Vec<String> = of_size.places.iter().map(|place| format!("`{place}`")).collect();
    (!places.is_empty()).then(|| either(&places))
}

/// Leaders, each in backticks.
pub(in crate::report) fn leading(situation: &Situation) -> Vec<String> {
    situation.leaders().map(|leader| format!("`{}`", leader.store)).collect()
}

/// States the best store for reads of each size, merging neighboring classes with the same store. `None` if the best single store
/// covers all of them.
pub(in crate::report) fn reads_by_size(advice: &Advice) -> Option<String> {
    let mut stretches: Vec<(u64, Option<u64>, String)> = Vec::new();
    for of_size in &advice.by_size {
        let Some(place) = places(of_size) else { continue };
        match stretches
            .last_mut()
            .filter(|(_, above, before)| *before == place && *above == Some(of_size.from_bytes))
        {
            Some((_, above, _)) => *above = of_size.below_bytes,
            None => stretches.push((of_size.from_bytes, of_size.below_bytes, place)),
        }
    }
    let whole = advice.one_place.first().map(|place| format!("`{}`", place.store));
    if stretches.iter().all(|(_, _, place)| whole.as_ref() == Some(place)) {
        return None;
    }
    if let [(0, None, only)] = stretches.as_slice() {
        return Some(format!("Reads alone, of any size: {only}."));
    }
    let said = stretches.iter().map(|(from, below, place)| format!("{}: {place}", sizes(*from, *below)));
    Some(format!("Reads {}.", said.collect::<Vec<_>>().join("; ")))
}
