//! Identifies the program behind MongoDB's protocol: some programs claim to be a version of MongoDB.

use mongodb::bson::{Bson, Document};

use crate::store::Facts;

/// The product, from its reply to `buildInfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MongoProduct {
    /// Name and version; `None` if the program does not identify itself.
    pub name: Option<String>,
    /// The version of MongoDB that it claims.
    pub claims: String,
}

impl MongoProduct {
    /// FerretDB names itself beside the version that it claims. MongoDB reports the commit hash of its build and the built-in
    /// storage engines.
    pub fn from_build_info(build: &Document) -> MongoProduct {
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
        MongoProduct { name, claims: format!("MongoDB {claims}") }
    }

    /// The facts: the claimed version is included only if the product is a different one.
    pub fn facts(&self) -> Facts {
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

/// A string, number, boolean or date (in seconds since 1970) in a reply; `None` if missing.
pub fn value_at(answer: &Document, path: &[&str]) -> Option<String> {
    let (first, rest) = path.split_first()?;
    match (answer.get(first)?, rest.is_empty()) {
        (Bson::Document(inner), false) => value_at(inner, rest),
        (Bson::String(text), true) => Some(text.clone()),
        (Bson::Boolean(value), true) => Some(value.to_string()),
        (Bson::Int32(number), true) => Some(number.to_string()),
        (Bson::Int64(number), true) => Some(number.to_string()),
        (Bson::Double(number), true) => Some(number.to_string()),
        (Bson::DateTime(moment), true) => Some((moment.timestamp_millis() / 1000).to_string()),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use mongodb::bson::doc;

    use super::*;

    /// The replies of FerretDB 1.24.2, without its command statistics.
    pub fn ferret() -> (Document, Document) {
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

    /// The replies of the tests' stand-in server.
    pub fn stand_in() -> (Document, Document) {
        let build = doc! { "version": "4.4.0", "versionArray": [4, 4, 0], "maxBsonObjectSize": 16_777_216 };
        (build, doc! { "version": "4.4.0", "process": "java", "connections": { "current": 1 } })
    }

    /// The replies of MongoDB, by its manual.
    pub fn mongo(flushes: i64) -> (Document, Document) {
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
        let facts = |build: &Document| MongoProduct::from_build_info(build).facts();
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
