//! What a server of this protocol says of itself, and what follows from it. Several programs speak the protocol, and some of them
//! say that they are a version of MongoDB: what a program is, how it keeps writes and how it compresses is taken from its own
//! answers and never from what was asked of it.

use mongodb::bson::{Bson, Document};

use crate::store::{Durability, Facts};

/// Who is behind the protocol, from its answer to `buildInfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Product {
    /// Name and version; `None` for a program that does not say what it is.
    pub(super) name: Option<String>,
    /// The version of MongoDB that it says it is.
    pub(super) claims: String,
}

impl Product {
    /// FerretDB names itself beside the version that it claims. MongoDB has the digest of the commit that it was built from, and
    /// the storage engines that were built in.
    pub(super) fn of(build: &Document) -> Product {
        let claims = value_at(build, &["version"]).unwrap_or_else(|| "of no version".to_owned());
        let ferret =
            value_at(build, &["ferretdbVersion"]).or_else(|| value_at(build, &["ferretdb", "version"]));
        let commit = value_at(build, &["gitVersion"]).unwrap_or_default();
        let is_commit = commit.len() == 40 && commit.bytes().all(|digit| digit.is_ascii_hexdigit());
        let has = |list, word: &str| {
            build.get_array(list).is_ok_and(|words| words.iter().any(|said| said.as_str() == Some(word)))
        };
        let name = match ferret {
            Some(version) => Some(format!("FerretDB {}", version.trim_start_matches('v'))),
            None if is_commit && has("storageEngines", "wiredTiger") => {
                let edition = if has("modules", "enterprise") { " Enterprise" } else { "" };
                Some(format!("MongoDB {claims}{edition}"))
            }
            None => None,
        };
        Product { name, claims: format!("MongoDB {claims}") }
    }

    /// As facts: what it says it is only where it is something else.
    pub(super) fn facts(&self) -> Facts {
        let mut facts = Facts::new();
        let unknown = "a program that does not say what it is";
        let version = self.name.as_deref().unwrap_or(unknown);
        facts.insert("version".to_owned(), version.to_owned());
        if !version.starts_with(&self.claims) {
            facts.insert("says_that_it_is".to_owned(), self.claims.clone());
        }
        facts
    }
}

/// How often the server has flushed its journal so far, from its answer to `serverStatus`; or why it cannot be told that it does.
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

/// Why a class cannot be had, when the server does not show that it keeps it.
pub(super) fn refusal(product: &Product, durability: Durability, why: &str) -> String {
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

/// What the blocks of a collection are compressed with, from the answer to `collStats`; `None` where the server does not say it.
pub(super) fn compressor(stats: &Document) -> Option<String> {
    let made = value_at(stats, &["wiredTiger", "creationString"])?;
    let (_, behind) = made.split_once("block_compressor=")?;
    let name = behind.split([',', ')']).next().unwrap_or_default().trim_matches('"');
    Some(if name.is_empty() { "none" } else { name }.to_owned())
}

/// Whether a collection is compressed as its candidate says. The vendor's default is not asked for, and so need not be shown; but a
/// server whose own default is another one would measure something else than the candidate says.
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

/// A word or number in an answer; `None` where the server does not say it.
pub(super) fn value_at(answer: &Document, path: &[&str]) -> Option<String> {
    let (first, rest) = path.split_first()?;
    match (answer.get(first)?, rest.is_empty()) {
        (Bson::Document(inner), false) => value_at(inner, rest),
        (Bson::String(text), true) => Some(text.clone()),
        (Bson::Boolean(value), true) => Some(value.to_string()),
        (Bson::Int32(number), true) => Some(number.to_string()),
        (Bson::Int64(number), true) => Some(number.to_string()),
        (Bson::Double(number), true) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    /// As FerretDB 1.24.2 answers, without its statistics of commands.
    fn ferret() -> (Document, Document) {
        let build = doc! {
            "version": "7.0.42", "gitVersion": "unknown", "modules": [], "sysInfo": "deprecated",
            "versionArray": [7, 0, 42, 0], "bits": 64, "debug": false, "maxBsonObjectSize": 16_777_216,
            "ferretdbVersion": "v1.24.2", "ok": 1.0,
        };
        let status = doc! {
            "host": "h", "version": "7.0.42", "process": "ferretdb", "pid": 6164_i64, "uptime": 2.29,
            "ferretdbVersion": "v1.24.2", "ok": 1.0, "catalogStats": { "collections": 0 },
        };
        (build, status)
    }

    /// As the stand-in of the tests answers.
    fn stand_in() -> (Document, Document) {
        let build = doc! { "version": "4.4.0", "versionArray": [4, 4, 0], "maxBsonObjectSize": 16_777_216 };
        (build, doc! { "version": "4.4.0", "process": "java", "connections": { "current": 1 } })
    }

    /// As MongoDB answers, by its manual.
    fn mongo(flushes: i64) -> (Document, Document) {
        let build = doc! {
            "version": "7.0.5", "gitVersion": "7809d71e84e314b497f282ea8aa06d7ded3eb205", "modules": [],
            "allocator": "tcmalloc", "storageEngines": ["devnull", "wiredTiger"],
        };
        let status = doc! {
            "process": "mongod",
            "storageEngine": { "name": "wiredTiger", "supportsCommittedReads": true, "persistent": true },
            "wiredTiger": { "log": { "log flush operations": 1040, "log sync operations": flushes } },
        };
        (build, status)
    }

    #[test]
    fn a_program_is_what_it_says_beside_the_version_that_it_claims() {
        let facts = |build: &Document| Product::of(build).facts();
        let of_ferret = facts(&ferret().0);
        assert_eq!(of_ferret["version"], "FerretDB 1.24.2");
        assert_eq!(of_ferret["says_that_it_is"], "MongoDB 7.0.42");
        let second = doc! { "version": "7.0.77", "ferretdb": { "version": "v2.7.0" } };
        assert_eq!(facts(&second)["version"], "FerretDB 2.7.0");
        let of_stand_in = facts(&stand_in().0);
        assert_eq!(of_stand_in["version"], "a program that does not say what it is");
        assert_eq!(of_stand_in["says_that_it_is"], "MongoDB 4.4.0");
        let of_mongo = facts(&mongo(1).0);
        assert_eq!(of_mongo["version"], "MongoDB 7.0.5");
        assert!(!of_mongo.contains_key("says_that_it_is"));
        let mut enterprise = mongo(1).0;
        enterprise.insert("modules", ["enterprise"].to_vec());
        assert_eq!(facts(&enterprise)["version"], "MongoDB 7.0.5 Enterprise");
        assert!(!facts(&enterprise).contains_key("says_that_it_is"));
    }

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
        let said = refusal(&Product::of(&ferret().0), Durability::EachWrite, "because");
        for part in
            ["FerretDB 1.24.2 (it says that it is MongoDB 7.0.42)", "class each-write", "--durability none"]
        {
            assert!(said.contains(part), "{said}");
        }
        assert!(
            refusal(&Product::of(&stand_in().0), Durability::OnSync, "")
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

    #[test]
    fn values_are_found_in_answers() {
        let answer = doc! { "a": { "b c": { "d": 8_i64 } }, "e": "wiredTiger", "f": true, "g": [1] };
        assert_eq!(value_at(&answer, &["a", "b c", "d"]).as_deref(), Some("8"));
        assert_eq!(value_at(&answer, &["e"]).as_deref(), Some("wiredTiger"));
        assert_eq!(value_at(&answer, &["f"]).as_deref(), Some("true"));
        assert_eq!(value_at(&answer, &["a"]), None);
        assert_eq!(value_at(&answer, &["g"]), None);
        assert_eq!(value_at(&answer, &["a", "x"]), None);
    }
}
