//! The published schema of `result.json` is the one that the types have.

use blobwise::result::RunResult;

/// `BLOBWISE_BLESS=1 cargo test --test schema` writes the schema anew.
#[test]
fn the_published_schema_is_that_of_the_types() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/result.schema.json");
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(RunResult)).unwrap() + "\n";
    if std::env::var_os("BLOBWISE_BLESS").is_some() {
        std::fs::write(path, &schema).unwrap();
    }
    let published = std::fs::read_to_string(path).unwrap();
    assert!(published == schema, "docs/result.schema.json is out of date: run with BLOBWISE_BLESS=1");
}
