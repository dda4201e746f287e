//! Check of files in GridFS.

use crate::doctor::blobs;
use crate::doctor::facts::{SubjectFacts, UnknownReason, growth, number, or_zero, text};
use crate::doctor::finding::{Check, CheckResult, LeastAges};
use crate::units;

pub(super) const CHECKS: &[Check] = &[Check {
    figure: "the share of all data that the files of one GridFS take, that of what WiredTiger has in its cache, and that of the pages which were \
             asked of it between the looks",
    source: "collStats, with `bytes currently in the cache` and `pages requested from the cache`; the lengths of the first 2,000 files",
    rights: "readAnyDatabase: of files only lengths are read",
    shown_by: "db.fs.chunks.stats().size; db.fs.files.aggregate([{$group: {_id: null, mean: {$avg: '$length'}}}])",
    ..blobs::check("mongo-blob-columns", judge)
}];

fn judge(facts: &SubjectFacts, _: &LeastAges) -> Result<CheckResult, UnknownReason> {
    let is_ferret = facts.version.as_deref().is_some_and(|version| version.starts_with("FerretDB"));
    let store = if is_ferret { "ferretdb/gridfs" } else { "gridfs" };
    let data = facts.rows("collections")?.iter().map(|row| or_zero(row, "bytes")).sum();
    Ok(blobs::finding(blobs::columns(facts, |column| shares(facts, text(column, "table")))?, data, store))
}

/// Describes the chunks' share of the cache and of its requests; empty for a server that does not count by collection.
fn shares(facts: &SubjectFacts, chunks: &str) -> Vec<String> {
    let Ok(pairs) = facts.pairs("collections", "id") else { return Vec::new() };
    let Some(mine) = pairs.iter().find(|pair| text(pair.1, "id") == chunks) else { return Vec::new() };
    let counts = |field: &str| number(mine.1, field).is_some();
    let cached = or_zero(mine.1, "cached_bytes");
    let all: f64 = pairs.iter().map(|pair| or_zero(pair.1, "cached_bytes")).sum();
    let cached = counts("cached_bytes").then(|| {
        let (share, bytes) = (units::percent(cached / all.max(1.0)), units::bytes(cached));
        format!("they have {share} of what is in the cache, where {bytes} would be free without them")
    });
    /// Below this, shares say nothing about the traffic.
    const FEW_PAGES: f64 = 1000.0;
    let asked = growth(mine, "pages_asked");
    let all: f64 = pairs.iter().map(|pair| growth(pair, "pages_asked")).sum();
    let asked = (counts("pages_asked") && all >= FEW_PAGES)
        .then(|| format!("{} of the pages that were asked of it are theirs", units::percent(asked / all)));
    cached.into_iter().chain(asked).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::doctor::facts::between;

    /// Collections at both looks, as in MongoDB's manual, and files of 100 kB.
    fn facts(before: Value, after: Value) -> SubjectFacts {
        let file = json!([{
            "table": "shop.fs.chunks", "column": "data", "rows": 400, "table_bytes": 40e6, "sampled": 400, "stored_mean": 1e5,
            "quantiles": [1e5, 1e5, 1e5, 1e5, 1e5, 1e5],
        }]);
        between(10.0, &[("collections", before)], &[("collections", after), ("blobs", file)])
    }

    fn collections(of_chunks: [Option<f64>; 2], of_orders: [Option<f64>; 2]) -> Value {
        let one = |id: &str, bytes: f64, [cached, asked]: [Option<f64>; 2]| json!({ "id": id, "bytes": bytes, "cached_bytes": cached, "pages_asked": asked });
        json!([one("shop.fs.chunks", 40e6, of_chunks), one("shop.orders", 10e6, of_orders)])
    }

    #[test]
    fn chunks_have_their_share_of_the_cache_and_of_what_is_asked_of_it() {
        let words =
            |before: Value, after: Value| judge(&facts(before, after), &LeastAges::default()).unwrap().figure;
        let counted = words(
            collections([Some(0.0), Some(500.0)], [Some(0.0), Some(9000.0)]),
            collections([Some(3e6), Some(3500.0)], [Some(1e6), Some(10_000.0)]),
        );
        assert!(
            counted.contains("they have 75 % of what is in the cache, where 3 MB would be free without them"),
            "{counted}"
        );
        assert!(counted.ends_with("75 % of the pages that were asked of it are theirs"), "{counted}");
        // With hardly any traffic its share is left out, and without counters both are.
        let idle = collections([Some(3e6), Some(500.0)], [Some(1e6), Some(9000.0)]);
        assert!(words(idle.clone(), idle).ends_with("would be free without them"));
        let silent = collections([None; 2], [None; 2]);
        assert!(words(silent.clone(), silent).ends_with("of median 100 kB"));
    }
}
