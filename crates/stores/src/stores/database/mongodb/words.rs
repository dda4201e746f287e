//! Interprets what a server of this protocol reports of itself. Several programs speak the protocol, and some claim to be a
//! version of MongoDB: the product, its durability and its compression are taken from its own replies, never from what was
//! requested.

use mongodb::bson::Document;

use crate::store::Durability;
use crate::wire::mongodb::{MongoProduct, value_at};

/// The number of journal flushes so far, from the reply to `serverStatus`; or why the server cannot prove that it flushes.
pub(super) fn journal_flushes(status: Option<&Document>, started: Option<&Document>) -> Result<u64, String> {
    let Some(status) = status else {
        return Err("it does not tell `serverStatus`, which needs the role clusterMonitor".to_owned());
    };
    let Some(engine) = value_at(status, &["storageEngine", "name"]) else {
        return Err("its `serverStatus` names no storage engine".to_owned());
    };
    if value_at(status, &["storageEngine", "persistent"]).as_deref() == Some("false") {
        return Err(format!("its storage engine {engine} keeps nothing on disk"));
    }
    let enabled = started.and_then(|started| value_at(started, &["parsed", "storage", "journal", "enabled"]));
    if enabled.as_deref() == Some("false") {
        return Err("its journal is off".to_owned());
    }
    let flushes = value_at(status, &["wiredTiger", "log", "log sync operations"]);
    flushes
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| format!("its storage engine {engine} does not count how often it flushes a journal"))
}

/// The message for refusing a class that the server does not prove.
pub(super) fn refusal(product: &MongoProduct, durability: Durability, why: &str) -> String {
    let name = match &product.name {
        Some(name) if name.starts_with(&product.claims) => name.clone(),
        Some(name) => format!("{name} (it says that it is {})", product.claims),
        None => format!("a program that says that it is {} and not what it is", product.claims),
    };
    format!(
        "the server is {name}, and nothing shows that a write with `j: true` waits for a flush: {why}; so class {} cannot be \
         promised; --durability none can",
        durability.name()
    )
}

/// The block compression of a collection, from the reply to `collStats`; `None` if the server does not report it.
pub(super) fn compressor(stats: &Document) -> Option<String> {
    let made = value_at(stats, &["wiredTiger", "creationString"])?;
    let (_, behind) = made.split_once("block_compressor=")?;
    let name = behind.split([',', ')']).next().unwrap_or_default().trim_matches('"');
    Some(if name.is_empty() { "none" } else { name }.to_owned())
}

/// Checks that a collection is compressed as its candidate says. The vendor's default is not requested and need not be reported;
/// but a server with another default would not measure what the candidate says.
pub(super) fn check_compression(asked: &str, default: &str, told: Option<&str>) -> Result<(), String> {
    match told {
        Some(told) if told == asked => Ok(()),
        Some(told) => Err(format!(
            "the server compresses the collection with {told}, and the candidate says compression={asked}; `--set` it to \
             compression={told}, or name a server that does"
        )),
        None if asked == default => Ok(()),
        None => Err(format!(
            "compression={asked} cannot be read back: the server's `collStats` does not say how the collection is compressed; \
             leave the option out for this server"
        )),
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;
    use crate::wire::mongodb::answers::{ferret, mongo, stand_in};

    #[test]
    fn only_a_server_that_counts_its_flushes_can_show_a_class() {
        let of = |status: &Document| journal_flushes(Some(status), None);
        assert_eq!(of(&mongo(15).1), Ok(15));
        assert!(of(&ferret().1).unwrap_err().contains("names no storage engine"));
        assert!(of(&stand_in().1).unwrap_err().contains("names no storage engine"));
        assert!(journal_flushes(None, None).unwrap_err().contains("clusterMonitor"));
        let memory = doc! { "storageEngine": { "name": "inMemory", "persistent": false } };
        assert!(of(&memory).unwrap_err().contains("inMemory keeps nothing on disk"));
        let other = doc! { "storageEngine": { "name": "rocksdb", "persistent": true } };
        assert!(of(&other).unwrap_err().contains("rocksdb does not count"));
        let started = doc! { "parsed": { "storage": { "journal": { "enabled": false } } } };
        assert_eq!(journal_flushes(Some(&mongo(15).1), Some(&started)), Err("its journal is off".to_owned()));
    }

    #[test]
    fn a_refusal_names_the_server_the_class_and_the_way_out() {
        let said = refusal(&MongoProduct::from_build_info(&ferret().0), Durability::EachWrite, "because");
        for part in
            ["FerretDB 1.24.2 (it says that it is MongoDB 7.0.42)", "class each-write", "--durability none"]
        {
            assert!(said.contains(part), "{said}");
        }
        assert!(
            refusal(&MongoProduct::from_build_info(&stand_in().0), Durability::OnSync, "")
                .contains("MongoDB 4.4.0 and not what")
        );
    }

    #[test]
    fn compression_is_what_the_collection_says() {
        let of = |made: &str| compressor(&doc! { "wiredTiger": { "creationString": made } });
        let begin = "access_pattern_hint=none,allocation_size=4KB,block_allocation=best,";
        assert_eq!(
            of(&format!("{begin}block_compressor=snappy,cache_resident=false")).as_deref(),
            Some("snappy")
        );
        assert_eq!(of(&format!("{begin}block_compressor=,cache_resident=false")).as_deref(), Some("none"));
        assert_eq!(of(begin), None);
        assert_eq!(compressor(&doc! { "ns": "x.blobs", "storageSize": 0 }), None);
        assert_eq!(check_compression("zlib", "snappy", Some("zlib")), Ok(()));
        assert_eq!(check_compression("snappy", "snappy", None), Ok(()));
        assert!(
            check_compression("zlib", "snappy", None)
                .unwrap_err()
                .contains("compression=zlib cannot be read back")
        );
        assert!(check_compression("snappy", "snappy", Some("zstd")).unwrap_err().contains("with zstd"));
    }
}
