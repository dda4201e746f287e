//! Sentences about choices: who leads in a kind of work, the cost of the next choice, the best single store, and where blobs of
//! each size should go.

use super::months::a_month_of;
use super::work;
use crate::judge::VERDICT_ROUNDS;
use crate::judge::answer::{has_few_rounds, rounds_to_decide};
use crate::judge::interval;
use crate::judge::ranking::ComparisonGroup;
use crate::result::{Advice, Interval, RunResult, RunnerUp, Situation, SizeAdvice, WorstCase};
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
        few if few < 10.0 => interval::beside_one(few, 2),
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
pub(in crate::report) fn first_of(stores: &[String], word: &str) -> String {
    const NAMED_MAX: usize = 3;
    let mut named: Vec<String> = stores.iter().take(NAMED_MAX).cloned().collect();
    if stores.len() > NAMED_MAX {
        named.push(format!("{} more", stores.len() - NAMED_MAX));
    }
    units::listed(&named, word)
}

/// What to do with the best single store, to be followed by its name.
pub(in crate::report) fn do_with(result: &RunResult, store: &str) -> &'static str {
    let kind = result.candidate(store).and_then(|candidate| candidate.kind);
    match ComparisonGroup::for_kind(kind) {
        ComparisonGroup::Delivery => "Serve them with",
        _ => "Keep them in",
    }
}

/// States what to do with all blobs, with the month's cost of the place.
pub(in crate::report) fn best_of_all(result: &RunResult, advice: &Advice) -> Option<String> {
    let label = best_place(advice).map_or("No recommendation", |place| do_with(result, &place.store));
    one_place(result, advice, label, true)
}

/// States the best single store for all kinds of work and the next choice, after `label`; with monthly costs if `is_priced`.
pub(in crate::report) fn one_place(
    result: &RunResult,
    advice: &Advice,
    label: &str,
    is_priced: bool,
) -> Option<String> {
    let Some(place) = best_place(advice) else {
        return no_place(advice).map(|why| format!("{label}: {why}"));
    };
    let month = if is_priced { a_month_of(result, &place.store) } else { String::new() };
    let not_counted = not_counted(advice).map_or(String::new(), |said| format!(" {said}"));
    Some(format!("{label}: `{}`{month}. {}{not_counted}", place.store, cost_of_place(advice)?))
}

/// The best single store for all kinds of work, if there are several kinds and it is decided.
pub(in crate::report) fn best_place(advice: &Advice) -> Option<&WorstCase> {
    let has_few = advice.situations.iter().any(has_few_rounds);
    let is_decided = advice.is_of_several() && advice.undecided.is_none() && !has_few;
    advice.one_place.first().filter(|_| is_decided)
}

/// States why no single store is recommended, and what to do about it.
pub(in crate::report) fn no_place(advice: &Advice) -> Option<String> {
    if !advice.is_of_several() {
        return None;
    }
    if let Some(undecided) = &advice.undecided {
        let stores: Vec<String> = undecided.stores.iter().map(|store| format!("`{store}`")).collect();
        let [look, they] = if stores.len() == 1 { ["looks", "it was"] } else { ["look", "they were"] };
        let work = work_of(advice, &undecided.phase);
        return Some(format!(
            "undecided, because {} {look} faster ({work}), where {they} measured too briefly to be ranked.",
            first_of(&stores, "and")
        ));
    }
    let few = advice.situations.iter().find(|situation| has_few_rounds(situation));
    if let Some(few) = few {
        let enough = rounds_to_decide(few).unwrap_or(VERDICT_ROUNDS);
        return Some(format!("too few rounds to tell; to find out: `--rounds {enough}`."));
    }
    if advice.situations.len() < advice.not_counted.len() + 2 {
        return Some(format!("fewer than two columns count. {}", not_counted(advice)?));
    }
    Some("no candidate can be compared in every column.".to_owned())
}

/// States which kinds of work do not count for the best single store, and what would change that.
pub(in crate::report) fn not_counted(advice: &Advice) -> Option<String> {
    let works: Vec<String> = advice.not_counted.iter().map(|phase| work_of(advice, phase)).collect();
    (!works.is_empty()).then(|| {
        let works = units::listed(&works, "and");
        format!(
            "Not counted: {works}, because the metadata of files stays in the kernel's cache. To compare them: `sudo blobwise run`, without `--no-drop-caches`."
        )
    })
}

/// Words the kind of work of a phase.
fn work_of(advice: &Advice, phase: &str) -> String {
    let found = advice.situations.iter().find(|situation| situation.phase == phase);
    found.map_or(String::new(), work::named)
}

/// States what the best single store costs at worst, and the next choice.
pub(in crate::report) fn cost_of_place(advice: &Advice) -> Option<String> {
    let first = best_place(advice)?;
    let request = units::nanoseconds(advice.request_ns);
    let work = |worst: &WorstCase| work_of(advice, &worst.phase);
    let is_fastest = first.slower_at_most.is_some_and(|bound| bound <= 0.0);
    let cost = match is_fastest {
        true => leads_everywhere(advice, &first.store),
        false => format!(
            "At worst ({}) it makes a request of {request} {} longer, {}.",
            work(first),
            slower_by(first),
            at_most(first, true)
        ),
    };
    let next = advice.one_place.get(1).map(|next| match is_fastest {
        true => format!(
            " Next best is `{}`, which makes a request of {request} at worst ({}) {} longer, {}.",
            next.store,
            work(next),
            slower_by(next),
            at_most(next, true)
        ),
        false => {
            // In a class of sizes, the place for all blobs comes first unless another one is better by a margin that counts.
            let next_is = match next.slower < first.slower {
                true => format!("`{}` looks better, but not by enough to count", next.store),
                false => format!("Next best is `{}`", next.store),
            };
            format!(" {next_is}: {} ({}), {}.", slower_by(next), work(next), at_most(next, false))
        }
    });
    Some(cost + &next.unwrap_or_default())
}

/// Relative slowdown of a request, as text.
fn slower_by(worst: &WorstCase) -> String {
    /// Slowdowns below this are printed as "less than".
    const SAME: f64 = 0.005;
    let percent = |percent: f64| format!("{} %", units::count(percent));
    let rounded = (100.0 * worst.slower).round();
    // One more digit if the bound would be printed as the same number.
    let is_bound = worst.slower_at_most.is_some_and(|bound| rounded >= (100.0 * bound).ceil());
    match worst.slower {
        little if little < SAME => format!("less than {}", percent(100.0 * SAME)),
        share if is_bound => percent((1000.0 * share).floor() / 10.0),
        _ => percent(rounded),
    }
}

/// Upper bound of a slowdown, as text, with its confidence where that was not said before.
fn at_most(worst: &WorstCase, with_confidence: bool) -> String {
    let confidence = if with_confidence { " (95 % confidence)" } else { "" };
    match worst.slower_at_most.filter(|bound| *bound <= HARDLY_BOUNDED) {
        None => "and the rounds set no useful bound".to_owned(),
        Some(bound) => format!("at most {} %{confidence}", units::count((100.0 * bound).ceil())),
    }
}

/// States how a candidate leads in every column that counts: no other is proved to be faster; the others are proved to be slower
/// only where it leads alone.
fn leads_everywhere(advice: &Advice, store: &str) -> String {
    let counts = |situation: &&Situation| !advice.not_counted.contains(&situation.phase);
    let is_alone =
        |situation: &&Situation| situation.leaders().map(|leader| leader.store.as_str()).eq([store]);
    let counted = || advice.situations.iter().filter(counts);
    let (alone, columns) = (counted().filter(is_alone).count(), counted().count());
    let column = if advice.not_counted.is_empty() { "column" } else { "column that counts" };
    match alone {
        all if all == columns => format!("It is the fastest in every {column}."),
        0 => format!("No other is proved faster in any {column}; it is tied in all of them."),
        some => format!("No other is proved faster in any {column}; it leads alone in {some} of {columns}."),
    }
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
