//! The published schemas of `result.json` and of what `blobwise compare`, `blobwise crash`, `blobwise disk` and `blobwise doctor` write are those that the types have.

use blobwise::doctor::report::DoctorReport;
use blobwise::result::{RunResult, compared, crash, disk};
use schemars::{JsonSchema, schema_for};

/// `BLOBWISE_BLESS=1 cargo test --test schema` writes the schemas anew.
fn is_published<T: JsonSchema>(name: &str) -> anyhow::Result<()> {
    let path = format!("{}/docs/{name}", env!("CARGO_MANIFEST_DIR"));
    let schema = serde_json::to_string_pretty(&schema_for!(T))? + "\n";
    if std::env::var_os("BLOBWISE_BLESS").is_some() {
        std::fs::write(&path, &schema)?;
    }
    let published = std::fs::read_to_string(path)?;
    assert!(published == schema, "docs/{name} is out of date: run with BLOBWISE_BLESS=1");
    Ok(())
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    is_published::<RunResult>("result.schema.json").unwrap();
    is_published::<compared::ComparisonReport>("compare.schema.json").unwrap();
    is_published::<crash::CrashReport>("crash.schema.json").unwrap();
    is_published::<disk::DiskReport>("disk.schema.json").unwrap();
    is_published::<DoctorReport>("doctor.schema.json").unwrap();
}

#[test]
fn the_citation_is_of_this_version() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/CITATION.cff")).unwrap();
    let version = text.lines().find_map(|line| line.strip_prefix("version: "));
    assert_eq!(version, Some(env!("CARGO_PKG_VERSION")));
    for key in ["cff-version: 1.2.0", "message:", "title:", "authors:"] {
        assert!(text.lines().any(|line| line.starts_with(key)), "CITATION.cff has no `{key}`");
    }
}
