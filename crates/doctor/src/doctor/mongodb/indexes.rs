//! Checks of full collection scans, and of redundant or unused indexes.

use super::is_alone;
use crate::doctor::facts::{Row, SubjectFacts, UnknownReason, growth, number, or_zero, text};
use crate::doctor::finding::{
    Answer, Check, CheckQuestion, CheckResult, FigurePeriod, LeastAges, covered_indexes, when,
};
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        figure: "documents examined for each one returned, and collections scanned from end to end",
        threshold: "look: 100 or more, of 10,000 or more that were examined between the looks",
        reason: "An index leads to the wanted documents. A count or a sum must read much and return little: \
                 look at the collection.",
        after: "blobwise, as for other servers",
        source: "metrics.queryExecutor.scannedObjects and metrics.document.returned of serverStatus; queryExecStats of $collStats",
        rights: "clusterMonitor",
        shown_by: "db.serverStatus().metrics.queryExecutor; db.COLLECTION.aggregate([{$collStats: {queryExecStats: {}}}])",
        ..Check::new("mongo-full-scans", CheckQuestion::Indexes, scans)
    },
    Check {
        figure: "indexes whose fields another index of the same collection begins with, in the same order",
        threshold: "look: any that is not unique, and has no filter, collation, end of life or form of its own",
        reason: "The other index answers the same queries, while every write and the memory pay for both. A \
                 narrow one may be there for speed.",
        after: "MongoDB's manual of indexes with several fields (prefixes)",
        source: "listIndexes of each collection",
        rights: "readAnyDatabase",
        shown_by: "db.COLLECTION.getIndexes()",
        ..Check::new("mongo-duplicate-index", CheckQuestion::IndexOrder, duplicate)
    },
    Check {
        figure: "indexes that nothing has used since the server was started or they were made",
        threshold: "look: any that is not unique; cannot tell: none was counted for 14 days, or other members of a replica set are asked as well",
        reason: "Every restart resets the counters, and each member has its own. A report may use an index once a month.",
        after: "MongoDB's manual of $indexStats; the conditions are blobwise's",
        source: "$indexStats of each collection",
        rights: "clusterMonitor",
        shown_by: "db.COLLECTION.aggregate([{$indexStats: {}}])",
        ..Check::new("mongo-unused-index", CheckQuestion::IndexOrder, unused)
    },
];

fn scans(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    const MANY: f64 = 10_000.0;
    let examined = facts.growth("status", "metrics.queryExecutor.scannedObjects")?;
    let returned = facts.growth("status", "metrics.document.returned")?;
    let ratio = examined / returned.max(1.0);
    let pairs = facts.pairs("collections", "id")?;
    let mut scanned: Vec<(f64, &Row)> =
        pairs.iter().map(|pair| (growth(pair, "scans") * or_zero(pair.1, "documents"), pair.1)).collect();
    scanned.retain(|(gone_through, _)| *gone_through > 0.0);
    scanned.sort_by(|a, b| b.0.total_cmp(&a.0));
    let words = |(gone_through, row): &(f64, &Row)| {
        format!("`{}`: {} documents gone through", text(row, "id"), units::count(*gone_through))
    };
    let is_much = ratio >= 100.0 && examined >= MANY;
    let named: Vec<String> = scanned.iter().filter(|_| is_much).map(words).collect();
    let first = named.first().map(|first| format!("; {first}")).unwrap_or_default();
    let (all, out) = (units::count(examined), units::count(returned));
    let figure = format!("{ratio:.0}: {all} examined for {out} returned{first}");
    Ok(CheckResult::new(when(is_much, Answer::Look), ratio, figure).naming(named))
}

fn duplicate(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let shown = |row: &Row| format!("`{}` of `{}`", text(row, "name"), text(row, "collection"));
    covered_indexes(facts, is_covered_by, shown)
}

/// True if another index answers all queries that this one does.
fn is_covered_by(row: &Row, other: &Row) -> bool {
    let (mine, theirs) = (text(row, "fields"), text(other, "fields"));
    let begins = theirs.strip_prefix(mine).is_some_and(|rest| rest.starts_with(','));
    let comes_first = number(other, "unique") == Some(1.0) || text(other, "name") < text(row, "name");
    let are_plain = [row, other].iter().all(|index| number(index, "plain") == Some(1.0));
    text(row, "id") != text(other, "id")
        && text(row, "collection") == text(other, "collection")
        && are_plain
        && number(row, "unique") == Some(0.0)
        && (begins || mine == theirs && comes_first)
}

fn unused(facts: &SubjectFacts, ages: &LeastAges) -> Result<CheckResult, UnknownReason> {
    is_alone(facts)?;
    let now = facts.number("status", "localTime")?;
    let is_unique = |id: &str| -> Result<bool, UnknownReason> {
        let found = facts.rows("indexes")?.iter().find(|row| text(row, "id") == id);
        Ok(found.is_none_or(|row| number(row, "unique") == Some(1.0)))
    };
    let (mut named, mut youngest, mut old) = (Vec::new(), f64::INFINITY, 0);
    for row in facts.rows("uses")? {
        let age = now - or_zero(row, "since");
        if is_unique(text(row, "id"))? {
            continue;
        }
        if age < ages.unused {
            youngest = youngest.min(age);
            continue;
        }
        old += 1;
        if number(row, "uses") == Some(0.0) {
            named.push(format!("`{}`", text(row, "id").replacen(' ', "`, index `", 1)));
        }
    }
    if old == 0 && youngest.is_infinite() {
        return Err("there is no index but those that keep values unique".to_owned());
    }
    if old == 0 {
        ages.check_unused(youngest, |age| format!("they were counted for {age} only"))?;
    }
    let figure = match named.first() {
        Some(first) => format!("{} of {old}: {first}", named.len()),
        None => format!("none of {old} that were counted for long enough"),
    };
    let found = CheckResult::of_named(Answer::Look, named.len() as f64, figure, named);
    Ok(found.with_period(FigurePeriod::Seconds(ages.unused)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::doctor::facts::between;

    #[test]
    fn a_collection_that_is_gone_through_for_little_is_named() {
        let look = |examined: u32, scans: u32| {
            [
                (
                    "status",
                    json!([{ "metrics.queryExecutor.scannedObjects": examined, "metrics.document.returned": 10 * scans }]),
                ),
                ("collections", json!([{ "id": "shop.orders", "documents": 5000, "scans": scans }])),
            ]
        };
        let found = scans(&between(5.0, &look(0, 0), &look(15_000, 3)), &LeastAges::default()).unwrap();
        assert_eq!(found.answer, Answer::Look);
        assert_eq!(found.named, ["`shop.orders`: 15k documents gone through"]);
        let few = scans(&between(5.0, &look(0, 0), &look(9_000, 3)), &LeastAges::default()).unwrap();
        assert_eq!((few.answer, few.named.len()), (Answer::Ok, 0));
    }

    fn index(name: &str, fields: &str, change: Value) -> Row {
        let row = json!({
            "id": format!("a.b {name}"), "collection": "a.b", "name": name, "fields": fields, "plain": true, "unique": false
        });
        let mut row = row.as_object().cloned().unwrap();
        row.extend(change.as_object().unwrap().clone());
        row
    }

    #[test]
    fn an_index_is_covered_by_one_that_begins_with_it() {
        let plain = |name, fields| index(name, fields, json!({}));
        let (a, ab, again) = (plain("a", "x:1"), plain("ab", "x:1,y:1"), plain("b", "x:1"));
        assert!(is_covered_by(&a, &ab) && !is_covered_by(&ab, &a));
        assert!(is_covered_by(&again, &a) && !is_covered_by(&a, &again));
        assert!(!is_covered_by(&a, &plain("p", "x:-1,y:1")) && !is_covered_by(&a, &plain("q", "x:10,y:1")));
        let unique = index("u", "x:1", json!({ "unique": true }));
        assert!(is_covered_by(&a, &unique) && !is_covered_by(&unique, &ab));
        let ends = index("t", "x:1", json!({ "plain": false }));
        assert!(!is_covered_by(&ends, &ab) && !is_covered_by(&a, &ends));
    }

    #[test]
    fn unused_is_what_was_counted_for_long_enough_and_never_used() {
        let of = |since: f64, members: u32| {
            let later = [
                ("status", json!([{ "localTime": 2e6 }])),
                ("member", json!([{ "members": members }])),
                (
                    "indexes",
                    json!([index("a", "x:1", json!({})), index("_id_", "_id:1", json!({ "unique": true }))]),
                ),
                (
                    "uses",
                    json!([{ "id": "a.b a", "uses": 0, "since": since }, { "id": "a.b _id_", "uses": 0, "since": 0 }]),
                ),
            ];
            unused(&between(5.0, &[], &later), &LeastAges::default())
        };
        let found = of(0.0, 1).unwrap();
        assert_eq!((found.answer, found.named), (Answer::Look, vec!["`a.b`, index `a`".to_owned()]));
        assert!(of(1.9e6, 1).unwrap_err().contains("are needed"));
        assert!(of(0.0, 3).unwrap_err().contains("other members"));
    }
}
