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
    let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    of_toml_table(error).context(format!("line {line}"))
}

/// The same of a table, which has no lines.
pub fn of_toml_table(error: &toml::de::Error) -> Error {
    // The parser quotes the unknown name, then all that are known.
    let quoted: Vec<&str> = error.message().split('`').skip(1).step_by(2).collect();
    match quoted.as_slice() {
        [name, known @ ..] if known.len() > 1 => unknown("key or value", name, known.iter().copied()),
        _ => anyhow!("{}", error.message()),
    }
}

/// Returns the most similar known name (Jaro-Winkler above 0.75), if any.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likely = known.into_iter().map(|other| (strsim::jaro_winkler(name, other), other));
    let (likeness, other) = likely.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (likeness > 0.75).then_some(other)
}
