//! Facts saved in a directory, to be judged elsewhere or later, or compared with those of another day.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::SubjectFacts;
use super::finding::LeastAges;
use super::report::{DoctorReport, FORMAT};

const FILE: &str = "facts.json";

/// Saved facts, before any check has judged them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SavedFacts {
    /// Version of the file format.
    pub format: u32,
    /// Version of blobwise.
    pub blobwise: String,
    /// Time of the second look.
    pub taken_at: String,
    /// Facts of the machine and of each server.
    pub facts: Vec<SubjectFacts>,
}

impl SavedFacts {
    /// Wraps facts that were just collected.
    pub fn new(facts: Vec<SubjectFacts>, taken_at: String) -> SavedFacts {
        SavedFacts { format: FORMAT, blobwise: env!("CARGO_PKG_VERSION").to_owned(), taken_at, facts }
    }

    /// Writes the facts into a directory, which is created if missing. Fails if facts have been saved there before.
    pub fn save(&self, dir: &Path) -> Result<()> {
        check_free(dir)?;
        let file = dir.join(FILE);
        let shown = || format!("cannot write `{}`", file.display());
        std::fs::create_dir_all(dir).with_context(shown)?;
        std::fs::write(&file, serde_json::to_string_pretty(self)? + "\n").with_context(shown)
    }

    /// Reads the facts of a directory.
    pub fn load(dir: &Path) -> Result<SavedFacts> {
        /// Enough for some hundred servers with thousands of tables.
        const BYTES_MAX: u64 = 256 << 20;
        let file = dir.join(FILE);
        let shown = || format!("cannot read the facts `{}`", file.display());
        let text = crate::input::read_text(&file, BYTES_MAX).with_context(shown)?;
        let saved: SavedFacts = serde_json::from_str(&text).with_context(shown)?;
        ensure!(
            saved.format == FORMAT,
            "the facts `{}` have format {}, and this program reads {FORMAT}",
            file.display(),
            saved.format
        );
        Ok(saved)
    }

    /// Runs the checks on the facts.
    pub fn report(&self, ages: &LeastAges) -> DoctorReport {
        DoctorReport::from_facts(&self.facts, &self.taken_at, ages)
    }
}

/// Fails if the directory already holds facts; called before anything is examined.
pub fn check_free(dir: &Path) -> Result<()> {
    let file = dir.join(FILE);
    ensure!(!file.exists(), "`{}` is there already: name another directory with --save", file.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_read_again_and_nothing_else() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let place = dir.path().join("deep/er");
        let facts =
            vec![SubjectFacts::new(super::super::facts::SubjectKind::Machine, "this machine".to_owned())];
        let saved = SavedFacts::new(facts, "2026-01-01T00:00:00Z".to_owned());
        saved.save(&place).unwrap();
        assert_eq!(SavedFacts::load(&place).unwrap().facts, saved.facts);
        assert!(saved.save(&place).unwrap_err().to_string().contains("is there already"));
        let text = std::fs::read_to_string(place.join(FILE)).unwrap();
        std::fs::write(place.join(FILE), text.replacen("\"format\": 1", "\"format\": 7", 1)).unwrap();
        assert!(SavedFacts::load(&place).unwrap_err().to_string().contains("format 7"));
        std::fs::write(place.join(FILE), "{}").unwrap();
        assert!(SavedFacts::load(&place).is_err());
    }
}
