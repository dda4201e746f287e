//! What is published about formats is what the types have: the schema of `result.json`, and the keys of a plan.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::path::Path;

use blobwise::plan::PlanText;
use blobwise::result::RunResult;
use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// `BLOBWISE_BLESS=1 cargo test --test schema` writes what is published anew.
fn blessing() -> bool {
    std::env::var_os("BLOBWISE_BLESS").is_some()
}

#[test]
fn the_published_schema_is_that_of_the_types() {
    let path = Path::new(ROOT).join("docs/result.schema.json");
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(RunResult)).unwrap() + "\n";
    if blessing() {
        std::fs::write(&path, &schema).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap();
    assert!(published == schema, "docs/result.schema.json is out of date: run with BLOBWISE_BLESS=1");
}

#[test]
fn the_keys_of_a_plan_are_those_of_the_types() {
    let path = Path::new(ROOT).join("docs/plans.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- keys -->\n", "<!-- /keys -->");
    let (before, rest) = text.split_once(begin).unwrap();
    let (shown, after) = rest.split_once(end).unwrap();
    let keys = keys_of_a_plan();
    if blessing() {
        std::fs::write(&path, format!("{before}{begin}{keys}{end}{after}")).unwrap();
        return;
    }
    assert!(shown == keys, "docs/plans.md has other keys than there are: run with BLOBWISE_BLESS=1");
}

/// The examples in the document are plans that can be run.
#[test]
fn examples_of_plans_are_plans() {
    let text = std::fs::read_to_string(Path::new(ROOT).join("docs/plans.md")).unwrap();
    let examples: Vec<&str> =
        text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 2);
    for example in examples {
        PlanText::parse(example)
            .and_then(|plan| plan.resolve(true))
            .unwrap_or_else(|error| panic!("{error:#}\n{example}"));
    }
}

/// A table for each part of a plan.
fn keys_of_a_plan() -> String {
    let plan = serde_json::to_value(schemars::schema_for!(PlanText)).unwrap();
    let part = |name: &str| plan["$defs"][name].clone();
    let parts = [
        ("The plan itself", plan.clone()),
        ("`[corpus]` and each `[[corpora]]`", part("CorpusText")),
        ("Each `[[phase]]`", part("PhaseText")),
        ("Each `[[claim]]`", part("ClaimText")),
        ("`expect` of a claim", part("Expect")),
        ("A row of a claim, where its label is not enough", part("Target")),
        ("`[document]`", part("Document")),
        ("Each `[[unspecified]]`", part("Unspecified")),
        ("Each `[[published]]`", part("PublishedText")),
        ("Each of `series`", part("Series")),
        ("Each `[[derived]]`", part("Derived")),
    ];
    let mut text = String::new();
    for (title, schema) in parts {
        text += &format!("\n### {title}\n\n| key | value | what it says |\n| --- | --- | --- |\n");
        for (key, value) in schema["properties"].as_object().unwrap() {
            text += &format!("| `{key}` | {} | {} |\n", form(value), about(value));
        }
    }
    for (title, name) in [("`metric`", "Metric"), ("`quantity`", "Quantity"), ("`by`", "By")] {
        text += &format!("\n### Values of {title}\n\n| value | meaning |\n| --- | --- |\n");
        for choice in part(name)["oneOf"].as_array().unwrap() {
            text += &format!("| `{}` | {} |\n", choice["const"].as_str().unwrap(), about(choice));
        }
    }
    text
}

/// The type of a value in a word; that of a choice is its own table or told where it is described.
fn form(schema: &Value) -> &'static str {
    let named = |kind: &str| match kind {
        "integer" => "whole number",
        "number" => "number",
        "boolean" => "true or false",
        "array" => "list",
        "object" => "table",
        _ => "text",
    };
    match &schema["type"] {
        Value::String(kind) => named(kind),
        Value::Array(kinds) => kinds.first().and_then(Value::as_str).map_or("text", named),
        _ => match schema["anyOf"][0]["$ref"].as_str().or(schema["$ref"].as_str()) {
            Some(name) if ["CorpusText", "Document", "Expect"].iter().any(|table| name.ends_with(table)) => {
                "table"
            }
            _ => "text",
        },
    }
}

fn about(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|")
}
