//! Errors for unknown names, with a suggestion or the list of choices.

use anyhow::{Error, anyhow};

/// The most names that are all listed.
const LISTED_MAX: usize = 12;

/// Builds the error for an unknown name: it suggests the nearest name in `known`, or lists all of them.
pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    unknown_in(None, what, name, known)
}

/// The same for names that a command lists: it is named instead of them where they are many.
pub fn unknown_of_list<'a>(
    command: &str,
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Error {
    unknown_in(Some(command), what, name, known)
}

fn unknown_in<'a>(
    command: Option<&str>,
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Error {
    let known: Vec<&str> = known.into_iter().collect();
    let unknown = format!("no {what} is called `{name}`");
    match (nearest(name, known.iter().copied()), command) {
        (Some(other), _) => anyhow!("{unknown}; did you mean `{other}`?"),
        (None, Some(command)) if known.len() > LISTED_MAX => {
            anyhow!("{unknown}: `{command}` has all {}", known.len())
        }
        (None, _) => anyhow!("{unknown}; the choices are: {}", known.join(", ")),
    }
}

/// Error of a TOML text: its line and, for a name that is not known there, the nearest one that is.
pub fn of_toml(text: &str, error: &toml::de::Error) -> Error {
    let before = error.span().map_or("", |span| &text[..span.start.min(text.len())]);
    let line = before.matches('\n').count();
    // The value begins there, behind its key, which may be one of several in braces.
    let within = before.rsplit('\n').next().and_then(|line| line.rsplit_once('='));
    let key = within.or_else(|| text.lines().nth(line)?.split_once('='));
    let said = match (key, of_type(error.message())) {
        (Some((keys, _)), Some(words)) => {
            anyhow!("`{}`: {words}", keys.rsplit(['{', ',']).next().unwrap_or(keys).trim())
        }
        _ => of_toml_table(error),
    };
    said.context(format!("line {}", line + 1))
}

/// The same of a table, which has no lines.
pub fn of_toml_table(error: &toml::de::Error) -> Error {
    // The parser quotes the unknown name, then all that are known.
    let quoted: Vec<&str> = error.message().split('`').skip(1).step_by(2).collect();
    match quoted.as_slice() {
        [name, known @ ..] if known.len() > 1 => unknown("key or value", name, known.iter().copied()),
        _ => anyhow!("{}", of_type(error.message()).unwrap_or_else(|| error.message().to_owned())),
    }
}

/// Error of a value of another type, without the names of types in the program: ``string "x" is not a whole number``.
fn of_type(message: &str) -> Option<String> {
    let (found, expected) =
        message.strip_prefix("invalid ")?.split_once(": ")?.1.rsplit_once(", expected ")?;
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0 on",
        "f64" => "a number",
        "a sequence" => "a list in brackets",
        "path string" => "a string",
        of if of.starts_with("struct ") => "a table",
        other => other,
    };
    Some(format!("{} is not {expected}", found.trim_end_matches(" as i128")))
}

/// Returns the most similar known name (Jaro-Winkler above 0.8, whatever the case of letters), if any.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let likely = known.into_iter().map(|other| (strsim::jaro_winkler(&name, &other.to_lowercase()), other));
    let (likeness, other) = likely.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (likeness > 0.8).then_some(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_suggested_is_alike() {
        let known = ["sqlite", "postgres/bytea", "page/sprite", "mongodb/document"];
        for (name, meant) in [
            ("SQLite", Some("sqlite")),
            ("sqlit", Some("sqlite")),
            ("postgresql", Some("postgres/bytea")),
            ("mongo", Some("mongodb/document")),
            ("stores", None),
            ("pg", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), meant, "{name}");
        }
    }

    #[test]
    fn an_error_of_toml_names_line_key_and_type_as_its_writer_knows_them() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only its errors are of interest")]
        struct Keys {
            rounds: u32,
            stores: Vec<String>,
        }
        type Tables = std::collections::BTreeMap<String, std::collections::BTreeMap<String, u32>>;
        for (text, said) in [
            ("rounds = 'x'", "line 1: `rounds`: string \"x\" is not a whole number from 0 on"),
            ("\nrounds = -1", "line 2: `rounds`: integer `-1` is not a whole number from 0 on"),
            ("rounds = 1\nstores = 'x'", "line 2: `stores`: string \"x\" is not a list in brackets"),
            ("round = 1", "line 1: no key or value is called `round`; did you mean `rounds`?"),
        ] {
            let error = toml::from_str::<Keys>(text).unwrap_err();
            assert_eq!(format!("{:#}", of_toml(text, &error)), said);
        }
        let text = "corpus = {files = 1, blobs = 'x'}";
        let said = format!("{:#}", of_toml(text, &toml::from_str::<Tables>(text).unwrap_err()));
        assert_eq!(said, "line 1: `blobs`: string \"x\" is not a whole number from 0 on");
    }
}
