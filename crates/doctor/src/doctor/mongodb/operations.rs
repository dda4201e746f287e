//! Checks of long, waiting and failing operations, and of sorts without an index.

use crate::doctor::facts::{Row, SubjectFacts, UnknownReason, growth, or_zero, text};
use crate::doctor::finding::{Answer, Check, CheckQuestion, CheckResult, FigurePeriod, LeastAges, when};
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        figure: "operations that had long been running at the second look",
        threshold: "look: 10 s or longer",
        reason: "Nobody waits that long for a page. It may be a backup, a report or an index build; blobwise \
                 does not read what it asks.",
        source: "op, ns and secs_running of currentOp, without what waits for something new",
        rights: "clusterMonitor",
        shown_by: "db.currentOp({active: true, secs_running: {$gte: 10}})",
        ..Check::new("mongo-long-operations", CheckQuestion::Queries, long)
    },
    Check {
        figure: "operations that waited for a lock, at both looks",
        threshold: "look: one or more at either of them, and at the other",
        reason: "A wait at one moment is chance. A queue at both means that something holds what others want: \
                 see mongo-long-operations.",
        after: "MongoDB's manual of serverStatus: a queue that stays; the two moments are blobwise's",
        source: "globalLock.currentQueue.total of serverStatus",
        rights: "clusterMonitor",
        shown_by: "db.serverStatus().globalLock",
        ..Check::new("mongo-waiting", CheckQuestion::Queries, waiting)
    },
    Check {
        figure: "queries per second that had to sort, because no index gave the order",
        threshold: "look: 10 or more",
        reason: "A sort reads everything first and has a memory limit; an index in that order returns rows at \
                 once. A few rows cost nothing.",
        source: "metrics.operation.scanAndOrder of serverStatus",
        rights: "clusterMonitor",
        shown_by: "db.serverStatus().metrics.operation",
        ..Check::new("mongo-sorts", CheckQuestion::Indexes, sorts)
    },
    Check {
        figure: "share of commands that ended with an error, between the looks",
        threshold: "look: 10 % or more, of 100 or more commands; cannot tell: fewer",
        reason: "Failed commands are wasted and mostly repeated. A write that meets its own key twice also \
                 counts, and may be intended.",
        source: "metrics.commands of serverStatus",
        rights: "clusterMonitor",
        shown_by: "db.serverStatus().metrics.commands",
        ..Check::new("mongo-failed-commands", CheckQuestion::Queries, failed)
    },
];

fn long(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    const LONG_SECONDS: f64 = 10.0;
    // Replica set members and change streams wait for new entries, and drivers for changes of the server.
    let waits = |row: &&Row| {
        text(row, "op") == "getmore"
            || text(row, "collection").starts_with("local.")
            || text(row, "collection") == "admin.$cmd"
    };
    let mut rows: Vec<&Row> = facts.rows("operations")?.iter().filter(|row| !waits(row)).collect();
    rows.sort_by(|a, b| or_zero(b, "seconds").total_cmp(&or_zero(a, "seconds")));
    let words = |row: &&Row| {
        let seconds = units::seconds(or_zero(row, "seconds"));
        format!("`{}` of `{}` for {seconds}", text(row, "op"), text(row, "collection"))
    };
    let named: Vec<String> =
        rows.iter().filter(|row| or_zero(row, "seconds") >= LONG_SECONDS).map(words).collect();
    let longest = rows.first().map_or(0.0, |row| or_zero(row, "seconds"));
    let figure = match named.first() {
        Some(first) => format!("{}: {first}", units::counted(named.len(), "operation")),
        None => format!("none of {}", units::counted(rows.len(), "operation")),
    };
    Ok(CheckResult::of_named(Answer::Look, longest, figure, named).with_period(FigurePeriod::Now))
}

fn waiting(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    const QUEUE: &str = "globalLock.currentQueue.total";
    let later = facts.number("status", QUEUE)?;
    let pairs = facts.pairs("status", "server")?;
    let earlier = pairs.first().and_then(|(before, _)| *before).map_or(0.0, |row| or_zero(row, QUEUE));
    let least = earlier.min(later);
    let figure = format!("{earlier:.0} at the first look, {later:.0} at the second");
    Ok(CheckResult::new(when(least >= 1.0, Answer::Look), least, figure))
}

fn sorts(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let rate = facts.growth("status", "metrics.operation.scanAndOrder")? / facts.seconds();
    Ok(CheckResult::new(when(rate >= 10.0, Answer::Look), rate, format!("{rate:.1} a second")))
}

fn failed(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    const FEW: f64 = 100.0;
    let pairs = facts.pairs("commands", "command")?;
    let all: f64 = pairs.iter().map(|pair| growth(pair, "total")).sum();
    if all < FEW {
        return Err(format!("{all:.0} commands were asked between the looks, and {FEW:.0} are needed"));
    }
    let mut bad: Vec<(f64, &Row)> = pairs.iter().map(|pair| (growth(pair, "failed"), pair.1)).collect();
    bad.retain(|(failed, _)| *failed > 0.0);
    bad.sort_by(|a, b| b.0.total_cmp(&a.0));
    let failed: f64 = bad.iter().map(|(failed, _)| failed).sum();
    let share = failed / all;
    let is_much = share >= 0.1;
    let words = |(failed, row): &(f64, &Row)| format!("`{}` {failed:.0} times", text(row, "command"));
    let named: Vec<String> = bad.iter().filter(|_| is_much).map(words).collect();
    let first = named.first().map(|first| format!(": {first}")).unwrap_or_default();
    let figure = format!("{} of {}{first}", units::percent(share), units::counted(all as usize, "command"));
    Ok(CheckResult::new(when(is_much, Answer::Look), share, figure).naming(named))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::doctor::facts::between;

    /// One source at two looks 5 s apart.
    fn facts(source: &str, earlier: Value, later: Value) -> SubjectFacts {
        between(5.0, &[(source, earlier)], &[(source, later)])
    }

    #[test]
    fn what_is_under_way_for_long_is_named_and_what_waits_for_news_is_not() {
        let of = |seconds: u32| {
            let told = json!([
                { "op": "query", "collection": "shop.orders", "seconds": seconds },
                { "op": "getmore", "collection": "local.oplog.rs", "seconds": 9999 },
                { "op": "command", "collection": "admin.$cmd", "seconds": 9999 },
            ]);
            long(&facts("operations", json!([]), told), &LeastAges::default()).unwrap()
        };
        assert_eq!((of(9).answer, of(10).answer), (Answer::Ok, Answer::Look));
        assert_eq!(of(70).figure, "1 operation: `query` of `shop.orders` for 1 min 10 s");
    }

    #[test]
    fn a_queue_at_one_moment_is_chance() {
        let of = |earlier: u32, later: u32| {
            let told = |total: u32| json!([{ "server": "this", "globalLock.currentQueue.total": total }]);
            waiting(&facts("status", told(earlier), told(later)), &LeastAges::default()).unwrap().answer
        };
        assert_eq!([of(0, 5), of(5, 0), of(1, 1)], [Answer::Ok, Answer::Ok, Answer::Look]);
    }

    #[test]
    fn sorts_are_counted_by_the_second() {
        let of = |after: u32| {
            let told = |count: u32| json!([{ "metrics.operation.scanAndOrder": count }]);
            sorts(&facts("status", told(7), told(after)), &LeastAges::default()).unwrap().answer
        };
        assert_eq!([of(56), of(57)], [Answer::Ok, Answer::Look]);
    }

    #[test]
    fn commands_that_fail_are_named_where_they_are_many() {
        let told = |find: u32, bad: u32| json!([{ "command": "find", "total": find, "failed": 1 }, { "command": "mapReduce", "total": bad, "failed": bad }]);
        let of = |find, bad| failed(&facts("commands", told(5, 2), told(find, bad)), &LeastAges::default());
        let found = of(95, 14).unwrap();
        assert_eq!((found.answer, found.named), (Answer::Look, vec!["`mapReduce` 12 times".to_owned()]));
        assert_eq!(of(205, 12).unwrap().answer, Answer::Ok);
        assert!(of(40, 14).unwrap_err().contains("100 are needed"));
    }
}
