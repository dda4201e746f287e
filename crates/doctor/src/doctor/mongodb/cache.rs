//! Checks of WiredTiger's cache, connections, and durability.

use crate::doctor::facts::{SubjectFacts, UnknownReason, or_zero, text};
use crate::doctor::finding::{
    Answer, Check, CheckQuestion, CheckResult, LeastAges, connections, share_of, when,
};
use crate::units;

pub(super) const CHECKS: &[Check] = &[
    Check {
        figure: "the share of pages asked for that were not in WiredTiger's cache, and what that cache is of all data",
        threshold: "look: above 1 % of the pages, of data that are larger than the cache; cannot tell: less than 1,000 pages between the looks, or \
                    started less than 24 h ago",
        reason: "After a restart every cache is empty. A page in the kernel's cache costs a decompression but \
                 no disk read, and a larger cache takes that memory from the kernel. A report that reads \
                 everything once is a false alarm.",
        after: "mysqltuner (99 % of the reads), for another server; MongoDB's manual names the counters and no threshold",
        source: "`pages read into cache` and `pages requested from the cache` of serverStatus; collStats",
        rights: "clusterMonitor",
        shown_by: "db.serverStatus().wiredTiger.cache",
        ..Check::new("mongo-cache", CheckQuestion::ServerMemory, cache)
    },
    Check {
        figure: "how much of WiredTiger's cache is used, and how much of it waits to be written",
        threshold: "look: 95 % used, or 20 % to be written",
        reason: "From then on, request threads must evict pages themselves and wait for the disk. A bulk load \
                 does this for a while.",
        after: "WiredTiger's documentation of eviction_trigger and eviction_dirty_trigger",
        source: "`bytes currently in the cache`, `tracked dirty bytes in the cache` and `maximum bytes configured` of serverStatus",
        rights: "clusterMonitor",
        shown_by: "db.serverStatus().wiredTiger.cache",
        ..Check::new("mongo-cache-full", CheckQuestion::ServerMemory, full)
    },
    Check {
        figure: "connections, as a share of the maximum",
        threshold: "look: above 80 %",
        reason: "Further connections are refused, and each takes about a megabyte. Use a pool in the \
                 application instead of allowing more.",
        after: "awesome-prometheus-alerts (80 %)",
        source: "`connections` of serverStatus",
        rights: "clusterMonitor",
        shown_by: "db.serverStatus().connections",
        ..Check::new("mongo-connections", CheckQuestion::ServerMemory, connected)
    },
    Check {
        figure: "whether writes survive the process",
        threshold: "bad: the storage engine keeps nothing on disk, or its journal is off",
        reason: "Without a journal, everything since the last checkpoint is lost with the process. In-memory \
                 engines are meant to be so.",
        after: "MongoDB's manual of journaling",
        source: "`storageEngine` of serverStatus; getCmdLineOpts",
        rights: "clusterMonitor",
        shown_by: "db.serverStatus().storageEngine; db.adminCommand({getCmdLineOpts: 1})",
        ..Check::new("mongo-safe", CheckQuestion::Disk, safe)
    },
];

const CACHE_BYTES: &str = "wiredTiger.cache.maximum bytes configured";

fn cache(facts: &SubjectFacts, ages: &LeastAges) -> Result<CheckResult, UnknownReason> {
    const FEW: f64 = 1000.0;
    let up = facts.number("status", "uptime")?;
    let asked = facts.growth("status", "wiredTiger.cache.pages requested from the cache")?;
    let read = facts.growth("status", "wiredTiger.cache.pages read into cache")?;
    ages.check_cache(up)?;
    if asked < FEW {
        return Err(format!("{asked:.0} pages were asked for between the looks, and {FEW:.0} are needed"));
    }
    let cache = facts.number("status", CACHE_BYTES)?;
    let data: f64 = facts.rows("collections")?.iter().map(|row| or_zero(row, "bytes")).sum();
    // Includes pages that were read ahead.
    let missed = share_of(read, asked);
    let figure = format!(
        "{} of {} pages were not there; {} for {} of data",
        units::percent(missed),
        units::count(asked),
        units::bytes(cache),
        units::bytes(data)
    );
    Ok(CheckResult::new(when(missed > 0.01 && data > cache, Answer::Look), missed, figure))
}

fn full(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    const USED: f64 = 0.95;
    const DIRTY: f64 = 0.2;
    let most = facts.number("status", CACHE_BYTES)?.max(1.0);
    let used = facts.number("status", "wiredTiger.cache.bytes currently in the cache")? / most;
    let dirty = facts.number("status", "wiredTiger.cache.tracked dirty bytes in the cache")? / most;
    let (of, to_write) = (units::percent(used), units::percent(dirty));
    let figure = format!("{of} of {} used, {to_write} to be written", units::bytes(most));
    Ok(CheckResult::now(when(used >= USED || dirty >= DIRTY, Answer::Look), used, figure))
}

fn connected(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let used = facts.number("status", "connections.current")?;
    Ok(connections(used, used + facts.number("status", "connections.available")?))
}

fn safe(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let status = facts.row("status")?;
    let engine = text(status, "storageEngine.name");
    if engine.is_empty() {
        return Err("its `serverStatus` names no storage engine".to_owned());
    }
    let (figure, is_bad) = match facts.row("started") {
        _ if text(status, "storageEngine.persistent") == "false" => {
            (format!("{engine} keeps nothing on disk"), true)
        }
        Ok(started) if text(started, "journal") == "false" => (format!("{engine}, without a journal"), true),
        // Since 6.1 the setting does not exist, and the journal is always on.
        Ok(_) => (format!("{engine}, with a journal"), false),
        Err(why) => return Err(why),
    };
    Ok(CheckResult::in_words(when(is_bad, Answer::Bad), figure))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::doctor::facts::between;

    /// Answers as in MongoDB's manual, at both looks.
    fn facts(earlier: Value, later: Value) -> SubjectFacts {
        let later = [
            ("status", json!([later])),
            ("collections", json!([{ "id": "a.b", "bytes": "3000000000" }])),
            ("started", json!([{ "journal": null }])),
        ];
        between(5.0, &[("status", json!([earlier]))], &later)
    }

    fn status(asked: u32, read: u32, used: f64, dirty: f64) -> Value {
        json!({
            "uptime": 90_000, "wiredTiger.cache.maximum bytes configured": 1e9,
            "wiredTiger.cache.bytes currently in the cache": used * 1e9,
            "wiredTiger.cache.tracked dirty bytes in the cache": dirty * 1e9,
            "wiredTiger.cache.pages requested from the cache": asked, "wiredTiger.cache.pages read into cache": read,
            "storageEngine.name": "wiredTiger", "storageEngine.persistent": "true",
        })
    }

    #[test]
    fn a_cache_is_too_small_where_pages_of_larger_data_are_not_there() {
        let of = |asked, read| {
            cache(&facts(status(0, 0, 0.5, 0.0), status(asked, read, 0.5, 0.0)), &LeastAges::default())
        };
        assert_eq!(of(10_000, 200).unwrap().answer, Answer::Look);
        assert_eq!(of(10_000, 100).unwrap().answer, Answer::Ok);
        assert!(of(900, 900).unwrap_err().contains("1000 are needed"));
        let unused = LeastAges { cache: 1e6, ..LeastAges::default() };
        let young = cache(&facts(status(0, 0, 0.5, 0.0), status(10_000, 200, 0.5, 0.0)), &unused);
        assert!(young.unwrap_err().contains("it was started"));
    }

    #[test]
    fn a_cache_that_requests_have_to_empty_is_worth_a_look() {
        let of = |used, dirty| {
            let status = status(0, 0, used, dirty);
            full(&facts(status.clone(), status), &LeastAges::default()).unwrap().answer
        };
        assert_eq!([of(0.8, 0.05), of(0.96, 0.05), of(0.8, 0.2)], [Answer::Ok, Answer::Look, Answer::Look]);
    }

    #[test]
    fn what_keeps_nothing_is_bad_and_what_names_no_engine_is_not_called_safe() {
        let of = |change: Value| {
            let mut told = status(0, 0, 0.5, 0.0);
            told.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            safe(&facts(told.clone(), told), &LeastAges::default())
        };
        assert_eq!(of(json!({})).unwrap().answer, Answer::Ok);
        let memory = json!({ "storageEngine.name": "inMemory", "storageEngine.persistent": "false" });
        assert_eq!(of(memory).unwrap().answer, Answer::Bad);
        assert!(of(json!({ "storageEngine.name": null })).unwrap_err().contains("names no storage engine"));
    }
}
