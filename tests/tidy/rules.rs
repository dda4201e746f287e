//! The thresholds of `crates/plan/src/rules.rs`: a page has them as a table, and what the pages on measuring say of one in passing is
//! what it is.

use blobwise::units;

use super::{document, files, read, short};

/// A threshold as its line says it.
struct Rule {
    name: String,
    value: f64,
    unit: String,
    about: String,
}

fn rules() -> Vec<Rule> {
    let text = document("crates/plan/src/rules.rs");
    let mut rules = Vec::new();
    let mut about = String::new();
    for line in text.lines() {
        if let Some(more) = line.strip_prefix("///") {
            about += more;
        } else if let Some(rest) = line.strip_prefix("pub const ") {
            let (name, rest) = rest.split_once(": ").unwrap();
            let (_, rest) = rest.split_once(" = ").unwrap();
            let (value, unit) = rest.split_once("; // ").unwrap_or_else(|| panic!("{name} has no unit"));
            let number = |text: &str| text.trim().replace('_', "").parse::<f64>().unwrap();
            let value = match value.split_once(" / ") {
                Some((over, under)) => number(over) / number(under),
                None => number(value),
            };
            let about = std::mem::take(&mut about).trim().to_owned();
            rules.push(Rule { name: name.to_owned(), value, unit: unit.to_owned(), about });
        } else {
            about.clear();
        }
    }
    assert!(rules.len() > 40, "{} rules", rules.len());
    rules
}

/// A size with a space before its unit.
fn spaced(typed: &str) -> String {
    let unit = typed.find(|c: char| !c.is_ascii_digit()).unwrap_or(typed.len());
    format!("{} {}", &typed[..unit], &typed[unit..])
}

/// A value as readers know it.
fn shown(rule: &Rule) -> String {
    let rounded = |value: f64| format!("{}", (value * 1000.0).round() / 1000.0);
    const DAY: f64 = 86_400.0;
    match (rule.unit.as_str(), rule.value) {
        ("share", value) => format!("{} %", (value * 1000.0).round() / 10.0),
        ("times", value) => rounded(value),
        ("seconds", value) if value < 0.1 => format!("{} ms", rounded(value * 1e3)),
        ("seconds", value) if value >= DAY => format!("{:.1} days", value / DAY),
        ("seconds", value) => format!("{} s", rounded(value)),
        ("nanoseconds", value) => units::nanoseconds(value),
        ("bytes", value) => spaced(&units::typed_bytes(value as u64)),
        ("bytes a second", value) => format!("{}/s", spaced(&units::typed_bytes(value as u64))),
        (unit, value) => format!("{} {unit}", rounded(value)),
    }
}

/// Every threshold, as the book lists it.
pub(super) fn table() -> String {
    let mut table = String::from("| threshold | value | what it decides |\n| --- | --- | --- |\n");
    for rule in rules() {
        // Other rules are named in backticks there, without the brackets of a link.
        let about = rule.about.replace("[`", "`").replace("`]", "`");
        table += &format!("| `{}` | {} | {about} |\n", rule.name, shown(&rule));
    }
    table
}

/// `30 % (`HARNESS_SHARE_MAX`)`: the figure before a rule's name is that rule's.
#[test]
fn figures_beside_a_threshold_are_those_of_the_program() {
    let rules = rules();
    let pages = ["docs/explanation", "docs/reference"].iter().flat_map(|folder| files(folder, "md"));
    let mut seen = 0;
    for page in pages {
        let text = read(&page);
        for (at, _) in text.match_indices("(`") {
            let (name, after) = text[at + 2..].split_once('`').unwrap();
            let Some(rule) = rules.iter().find(|rule| rule.name == name && after.starts_with(')')) else {
                continue;
            };
            let before: Vec<&str> = text[..at]
                .split_whitespace()
                .rev()
                .take(2)
                .map(|word| word.trim_start_matches('('))
                .collect();
            let said = match before[0] {
                unit if unit.starts_with(|c: char| c.is_ascii_digit()) => unit.to_owned(),
                unit => format!("{} {unit}", before[1]),
            };
            assert_eq!(said, shown(rule), "{}: {name}", short(&page));
            seen += 1;
        }
    }
    assert!(seen >= 10, "only {seen} thresholds are named where they are used");
}
