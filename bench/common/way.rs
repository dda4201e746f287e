//! How another program reaches the private server behind a store: what clients on other machines are told.

use anyhow::{Context, Result};
use serde_json::Value;

use super::common::Bed;

/// What the store says of it.
pub fn client_access(bed: &Bed) -> Result<Value> {
    Ok(bed.store.join_token()?.read()?)
}

/// A text of it, by where it stands.
pub fn text(said: &Value, place: &str) -> Result<String> {
    let text = said.pointer(place).and_then(Value::as_str);
    Ok(text.with_context(|| format!("the server has no {place}"))?.to_owned())
}
