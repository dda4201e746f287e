//! Errors for unknown names, with a suggestion or the list of choices.

use anyhow::{Error, anyhow};

/// Builds the error for an unknown name: it suggests the nearest name in `known`, or lists all of them.
pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(name, known.iter().copied()) {
        Some(other) => anyhow!("no {what} is called `{name}`; did you mean `{other}`?"),
        None => anyhow!("no {what} is called `{name}`; the choices are: {}", known.join(", ")),
    }
}

/// Returns the most similar known name (Jaro-Winkler above 0.75), if any.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likely = known.into_iter().map(|other| (strsim::jaro_winkler(name, other), other));
    let (likeness, other) = likely.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (likeness > 0.75).then_some(other)
}
