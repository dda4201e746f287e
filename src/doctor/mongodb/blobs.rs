//! Files in GridFS, and the run that measures where else they could live.

use crate::doctor::blobs;
use crate::doctor::facts::{Facts, Kind, Lack, or_zero};
use crate::doctor::finding::{Check, Finding, LeastAges, Particular};

pub(super) const CHECKS: &[Check] = &[blobs::check(Particular {
    id: "mongo-blob-columns",
    of: Kind::MongoDb,
    figure: "the share of all data that the files of one GridFS take",
    source: "collStats; the lengths of the first 2,000 files",
    rights: "readAnyDatabase: of files only lengths are read",
    shown_by: "db.fs.chunks.stats().size; db.fs.files.aggregate([{$group: {_id: null, mean: {$avg: '$length'}}}])",
    judge,
})];

fn judge(facts: &Facts, _: &LeastAges) -> Result<Finding, Lack> {
    let is_ferret = facts.version.as_deref().is_some_and(|version| version.starts_with("FerretDB"));
    let store = if is_ferret { "ferretdb/gridfs" } else { "gridfs" };
    let data = facts.rows("collections")?.iter().map(|row| or_zero(row, "bytes")).sum();
    Ok(blobs::finding(blobs::columns(facts, |_| Vec::new())?, data, store))
}
