//! Unknown names: what was meant, and what there is.

use anyhow::{Error, anyhow};

/// The error for a name that is not one of `known`, with the nearest known one.
pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(name, known.iter().copied()) {
        Some(other) => anyhow!("no {what} is called `{name}`; did you mean `{other}`?"),
        None => anyhow!("no {what} is called `{name}`; the choices are: {}", known.join(", ")),
    }
}

/// The known name that was perhaps meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likely = known.into_iter().map(|other| (strsim::jaro_winkler(name, other), other));
    let (likeness, other) = likely.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (likeness > 0.75).then_some(other)
}
