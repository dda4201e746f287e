//! Result files: read with a size limit and checks, written atomically.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;

use super::{RunResult, SCHEMA, SCHEMA_MIN, check};
use crate::host::place::remove_file_or_note;

/// Maximum size of a result file in bytes, because it is held in memory as a whole.
const RESULT_BYTES_MAX: u64 = 1_000_000_000;

impl RunResult {
    /// Reads a result file, or the one in a run's directory, and checks every number in it. Fails if the file is
    /// unreadable, damaged or of an unsupported format.
    pub fn load(path: &Path) -> Result<RunResult> {
        let file = if path.is_dir() { path.join("result.json") } else { path.to_owned() };
        let text = crate::input::read_text(&file, RESULT_BYTES_MAX)
            .with_context(|| format!("cannot read `{}`", file.display()))?;
        let version: FormatVersion = serde_json::from_str(&text).map_err(|detail| {
            let why = match detail.is_eof() {
                true => "ends in the middle, and cannot be used: measure again",
                false => "is not a result of blobwise; give a run's directory or its result.json",
            };
            anyhow!("`{}` {why}", file.display())
        })?;
        if !(SCHEMA_MIN..=SCHEMA).contains(&version.schema) {
            bail!(
                "`{}` has format {}, and this program reads formats {SCHEMA_MIN} to {SCHEMA}: measure again, or read it with the program \
                 that made it",
                file.display(),
                version.schema
            );
        }
        let damaged = || format!("`{}` is damaged", file.display());
        let result: RunResult = serde_json::from_str(&text).with_context(damaged)?;
        check::check(&serde_json::from_str(&text).with_context(damaged)?).with_context(damaged)?;
        // Older formats are converted while reading, so saving writes the current one.
        Ok(RunResult { schema: SCHEMA, ..result })
    }

    /// Replaces the result file in a run's directory atomically.
    pub fn save(&self, out: &Path) -> Result<()> {
        let text = serde_json::to_string(self)?;
        replace(&out.join("result.json"), text.as_bytes())
    }
}

/// Replaces a file atomically. If writing fails, the old file stays.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let draft = path.with_extension("draft");
    let write = || -> std::io::Result<()> {
        std::fs::write(&draft, bytes)?;
        std::fs::rename(&draft, path)
    };
    let written = write();
    if written.is_err() {
        // The draft is useless now and may take space that others need.
        remove_file_or_note(&draft);
    }
    written.with_context(|| format!("cannot write `{}`", path.display()))
}

#[derive(Deserialize)]
struct FormatVersion {
    schema: u32,
}
