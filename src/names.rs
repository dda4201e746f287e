//! Unknown names: what was meant, and what there is.

use anyhow::{Error, anyhow};

/// The error for a name that is not one of `known`, with the nearest known one.
pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    let known: Vec<&str> = known.into_iter().collect();
    let nearest = known
        .iter()
        .map(|other| (strsim::jaro_winkler(name, other), other))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((likeness, other)) if likeness > 0.75 => {
            anyhow!("no {what} is called `{name}`; did you mean `{other}`?")
        }
        _ => anyhow!("no {what} is called `{name}`; the choices are: {}", known.join(", ")),
    }
}
