//! Converts answers of a MongoDB-protocol server into rows. The rows contain no queries and no contents of documents.

use mongodb::bson::{Bson, Document};
use serde_json::{Value, json};

use crate::doctor::facts::{Row, UnknownReason, number, text};
use crate::wire::mongodb::value_at;

/// Fields of `serverStatus` that are kept.
const STATUS: &[&str] = &[
    "uptime",
    "localTime",
    "connections.current",
    "connections.available",
    "globalLock.currentQueue.total",
    "metrics.document.returned",
    "metrics.operation.scanAndOrder",
    "metrics.queryExecutor.scannedObjects",
    "storageEngine.name",
    "storageEngine.persistent",
    "wiredTiger.cache.bytes currently in the cache",
    "wiredTiger.cache.maximum bytes configured",
    "wiredTiger.cache.pages read into cache",
    "wiredTiger.cache.pages requested from the cache",
    "wiredTiger.cache.tracked dirty bytes in the cache",
];

fn row<const N: usize>(pairs: [(&str, Value); N]) -> Row {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The text or number at a path; null if absent.
fn at(answer: &Document, path: &str) -> Value {
    json!(value_at(answer, &path.split('.').collect::<Vec<_>>()))
}

/// `serverStatus`, reduced to the fields that are read.
pub(super) fn status(answer: &Document) -> Row {
    let told = STATUS.iter().map(|path| ((*path).to_owned(), at(answer, path)));
    told.filter(|(_, value)| !value.is_null()).chain([("server".to_owned(), json!("this"))]).collect()
}

/// Calls and failures of each command since the server's start.
pub(super) fn commands(answer: &Document) -> Result<Vec<Row>, UnknownReason> {
    let metrics = answer.get_document("metrics").and_then(|metrics| metrics.get_document("commands"));
    let commands = metrics.map_err(|_none| "its `serverStatus` has no `metrics.commands`".to_owned())?;
    let told = commands.iter().filter_map(|(name, counts)| Some((name, counts.as_document()?)));
    let rows = told.map(|(name, counts)| {
        row([("command", json!(name)), ("total", at(counts, "total")), ("failed", at(counts, "failed"))])
    });
    Ok(rows.filter(|row| number(row, "total").is_some_and(|total| total > 0.0)).collect())
}

pub(super) fn batch(answer: &Document) -> Result<Vec<Document>, UnknownReason> {
    let batch = answer.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let batch = batch.map_err(|error| format!("its answer has no list: {error}"))?;
    Ok(batch.iter().filter_map(Bson::as_document).cloned().collect())
}

pub(super) fn names(list: &[Bson]) -> Vec<String> {
    let named = list.iter().filter_map(Bson::as_document);
    named.filter_map(|one| one.get_str("name").ok().map(str::to_owned)).collect()
}

/// A collection with its sizes, cache counters and number of full scans.
pub(super) fn collection(database: &str, name: &str, stats: &Document, scans: Option<&Document>) -> Row {
    let scans = scans.map(|scans| at(scans, "queryExecStats.collectionScans.nonTailable"));
    row([
        ("id", json!(format!("{database}.{name}"))),
        ("database", json!(database)),
        ("name", json!(name)),
        ("bytes", at(stats, "size")),
        ("documents", at(stats, "count")),
        ("cached_bytes", at(stats, "wiredTiger.cache.bytes currently in the cache")),
        ("pages_asked", at(stats, "wiredTiger.cache.pages requested from the cache")),
        ("scans", json!(scans)),
    ])
}

/// An index: its fields in order, and whether it is plain, that is, covers every document and has no special options.
pub(super) fn index(of: &Row, index: &Document) -> Option<Row> {
    /// Options that do not affect which queries an index can answer.
    const PLAIN: [&str; 6] = ["v", "key", "name", "ns", "background", "unique"];
    let (name, keys) = (index.get_str("name").ok()?, index.get_document("key").ok()?);
    let fields: Vec<String> =
        keys.iter().filter_map(|(field, _)| Some(format!("{field}:{}", value_at(keys, &[field])?))).collect();
    let is_plain = index.keys().all(|key| PLAIN.contains(&key.as_str()));
    Some(row([
        ("id", json!(format!("{} {name}", text(of, "id")))),
        ("collection", json!(text(of, "id"))),
        ("name", json!(name)),
        ("fields", json!(fields.join(","))),
        ("plain", json!(is_plain)),
        // The server creates the index of `_id` itself, and does not report it as unique.
        ("unique", json!(name == "_id_" || index.get_bool("unique").unwrap_or(false))),
    ]))
}

/// Number of uses of an index, and the time since when they are counted.
pub(super) fn uses(of: &Row, index: &Document) -> Option<Row> {
    let name = index.get_str("name").ok()?;
    Some(row([
        ("id", json!(format!("{} {name}", text(of, "id")))),
        ("uses", at(index, "accesses.ops")),
        ("since", at(index, "accesses.since")),
    ]))
}

/// The chunks of each GridFS, as a column of blobs. Fields named `sql_*` only serve the query and are not kept.
pub(super) fn gridfs(collections: &[Row]) -> Vec<Row> {
    let of = |id: &str| collections.iter().find(|row| text(row, "id") == id);
    let chunks = collections.iter().filter_map(|chunks| {
        let files = of(&format!("{}.files", text(chunks, "id").strip_suffix(".chunks")?))?;
        Some(row([
            ("table", json!(text(chunks, "id"))),
            ("column", json!("data")),
            ("rows", files.get("documents").cloned().unwrap_or_default()),
            ("table_bytes", chunks.get("bytes").cloned().unwrap_or_default()),
            ("sql_files", json!(text(files, "name"))),
            ("sql_database", json!(text(files, "database"))),
        ]))
    });
    chunks.collect()
}

pub(super) fn length(file: &Document) -> Option<f64> {
    value_at(file, &["length"])?.parse().ok()
}

/// Running operations with their durations. A complete list contains the query itself, so an empty one tells nothing.
pub(super) fn operations(answer: &Document) -> Result<Vec<Row>, UnknownReason> {
    let list = answer.get_array("inprog").map_err(|error| error.to_string())?;
    if list.is_empty() {
        return Err("its list of operations has not even this question, and so tells nothing".to_owned());
    }
    let told = list.iter().filter_map(Bson::as_document);
    let rows = told.map(|one| {
        row([("op", at(one, "op")), ("collection", at(one, "ns")), ("seconds", at(one, "secs_running"))])
    });
    Ok(rows.collect())
}

pub(super) fn started(answer: &Document) -> Row {
    row([("journal", at(answer, "parsed.storage.journal.enabled"))])
}

/// Number of members of the replica set; 1 without one.
pub(super) fn member(answer: &Document) -> Row {
    let members = ["hosts", "passives", "arbiters"].iter().filter_map(|list| answer.get_array(list).ok());
    row([("members", json!(members.map(Vec::len).sum::<usize>().max(1)))])
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn of_the_status_only_what_is_read_is_kept() {
        let kept = status(&doc! {
            "host": "h", "uptime": 7.0, "connections": { "current": 3, "available": 97 }, "storageEngine": { "name": "wiredTiger" },
            "wiredTiger": { "cache": { "pages read into cache": 12_i64 } },
        });
        assert_eq!(number(&kept, "wiredTiger.cache.pages read into cache"), Some(12.0));
        assert_eq!((number(&kept, "connections.available"), text(&kept, "server")), (Some(97.0), "this"));
        assert_eq!(kept.len(), 6);
        let asked = commands(&doc! { "metrics": { "commands": {
            "<UNKNOWN>": 0_i64, "find": { "failed": 1_i64, "total": 9_i64 }, "drop": { "total": 0_i64 },
        } } });
        let asked = asked.unwrap();
        assert_eq!((asked.len(), text(&asked[0], "command")), (1, "find"));
        assert!(commands(&doc! {}).is_err());
    }

    #[test]
    fn indexes_are_told_by_their_fields_in_order() {
        let of = collection("shop", "orders", &doc! { "size": 10_i64, "count": 2 }, None);
        assert_eq!((text(&of, "id"), number(&of, "bytes")), ("shop.orders", Some(10.0)));
        let told = index(&of, &doc! { "v": 2, "key": { "b": -1, "a": 1 }, "name": "x" }).unwrap();
        assert_eq!(
            (text(&told, "fields"), number(&told, "plain"), text(&told, "id")),
            ("b:-1,a:1", Some(1.0), "shop.orders x")
        );
        let partial =
            doc! { "key": { "a": 1 }, "name": "y", "partialFilterExpression": { "a": { "$gt": 1 } } };
        assert_eq!(number(&index(&of, &partial).unwrap(), "plain"), Some(0.0));
    }

    #[test]
    fn a_gridfs_is_two_collections_of_one_name() {
        let of =
            |name: &str, count: i32| collection("shop", name, &doc! { "size": 900, "count": count }, None);
        let found = gridfs(&[of("fs.chunks", 9), of("fs.files", 4), of("lone.chunks", 1)]);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (text(&found[0], "table"), number(&found[0], "rows"), number(&found[0], "table_bytes")),
            ("shop.fs.chunks", Some(4.0), Some(900.0))
        );
        assert_eq!(length(&doc! { "length": 261_121_i64 }), Some(261_121.0));
    }

    #[test]
    fn a_list_without_the_question_itself_says_nothing() {
        assert!(operations(&doc! { "inprog": [] }).unwrap_err().contains("not even this question"));
        let told = operations(
            &doc! { "inprog": [{ "op": "query", "ns": "shop.orders", "secs_running": 70_i64, "command": { "find": "x" } }] },
        );
        let told = told.unwrap();
        assert_eq!((number(&told[0], "seconds"), told[0].len()), (Some(70.0), 3));
        assert_eq!(number(&member(&doc! { "hosts": ["a", "b"], "arbiters": ["c"] }), "members"), Some(3.0));
        assert_eq!(number(&member(&doc! {}), "members"), Some(1.0));
    }
}
