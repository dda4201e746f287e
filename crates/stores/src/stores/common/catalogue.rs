//! The catalogue of uploads in SQL, the same for every database: its statements, and how their results are interpreted.

use anyhow::anyhow;

use crate::store::{Catalogue, Error, Key, Result};

/// The table. `is_stored` is 1 for a catalogued content and 0 for one that is being stored or removed. The digest (32 digits) is
/// the key of the content's blob.
pub const TABLE: &str = "CREATE TABLE IF NOT EXISTS uploads(digest VARCHAR(32) NOT NULL PRIMARY KEY,
    bytes BIGINT NOT NULL, name VARCHAR(64) NOT NULL, refs BIGINT NOT NULL, is_stored INT NOT NULL)";
/// Removes entries left by a crash between announcing and storing, or between releasing and deleting.
pub const UNFINISHED: &str = "DELETE FROM uploads WHERE is_stored = 0";

const FIND: &str = "UPDATE uploads SET refs = refs + 1 WHERE digest = ? AND is_stored = 1";
const INSERT: &str = "INSERT INTO uploads(digest, bytes, name, refs, is_stored) VALUES (?, ?, ?, 1, 0)";
const CONFIRM: &str = "UPDATE uploads SET is_stored = 1 WHERE digest = ? AND is_stored = 0";
/// `is_stored` comes first, because MySQL evaluates later assignments with the new value.
const RELEASE: &str = "UPDATE uploads SET is_stored = CASE WHEN refs > 1 THEN 1 ELSE 0 END, refs = refs - 1
    WHERE digest = ? AND is_stored = 1";
const IS_LAST: &str = "SELECT refs FROM uploads WHERE digest = ? AND is_stored = 0";
const FORGET: &str = "DELETE FROM uploads WHERE digest = ? AND is_stored = 0";
const REFERENCES: &str = "SELECT refs FROM uploads WHERE digest = ? AND is_stored = 1";

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub enum CatalogueParameter<'a> {
    Text(&'a str),
    Number(i64),
}

/// A connection that runs the catalogue's statements, each prepared once.
pub trait CatalogueConnection {
    /// The statement that begins a writing transaction.
    const BEGIN: &'static str;
    /// Runs a statement without parameters or rows.
    fn execute(&mut self, sql: &str) -> Result<()>;
    /// True while in a transaction that the caller began and will end.
    fn within(&mut self) -> &mut bool;
    /// Runs a statement that changes rows and returns how many it matched. A duplicate key is `Busy`.
    fn change(&mut self, sql: &'static str, params: &[CatalogueParameter]) -> Result<u64>;
    /// The number in the first row of a query; `None` without a row.
    fn number(&mut self, sql: &'static str, params: &[CatalogueParameter]) -> Result<Option<i64>>;
}

/// Runs `body` as one transaction, or within the caller's; rolls back if it fails.
pub fn transaction<C: CatalogueConnection, T>(
    connection: &mut C,
    body: impl FnOnce(&mut C) -> Result<T>,
) -> Result<T> {
    if *connection.within() {
        return body(connection);
    }
    connection.execute(C::BEGIN)?;
    match body(connection) {
        Ok(value) => {
            connection.execute("COMMIT")?;
            Ok(value)
        }
        Err(error) => {
            // The first error is the one to report.
            connection.execute("ROLLBACK").ok();
            Err(error)
        }
    }
}

fn one(changed: u64, digest: &Key, what: &str) -> Result<()> {
    match changed {
        1 => Ok(()),
        rows => Err(Error::Failed(anyhow!("{what} of {}: {rows} rows instead of 1", digest.as_str()))),
    }
}

impl<T: CatalogueConnection> Catalogue for T {
    fn begin(&mut self) -> Result<()> {
        self.execute(T::BEGIN)?;
        *self.within() = true;
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.execute("COMMIT")?;
        *self.within() = false;
        Ok(())
    }

    fn rollback(&mut self) -> Result<()> {
        *self.within() = false;
        self.execute("ROLLBACK")
    }

    fn find(&mut self, digest: &Key) -> Result<bool> {
        Ok(self.change(FIND, &[CatalogueParameter::Text(digest.as_str())])? == 1)
    }

    fn insert(&mut self, digest: &Key, bytes: u64) -> Result<()> {
        let name = CatalogueParameter::Text(digest.as_str());
        let inserted = self.change(INSERT, &[name, CatalogueParameter::Number(bytes as i64), name])?;
        one(inserted, digest, "the entry")
    }

    fn confirm(&mut self, digest: &Key) -> Result<()> {
        let confirmed = self.change(CONFIRM, &[CatalogueParameter::Text(digest.as_str())])?;
        one(confirmed, digest, "confirming the entry")
    }

    /// In a transaction, so that only one of two concurrent releases sees the last reference.
    fn release(&mut self, digest: &Key) -> Result<bool> {
        let name = [CatalogueParameter::Text(digest.as_str())];
        transaction(self, |connection| {
            one(connection.change(RELEASE, &name)?, digest, "releasing the entry")?;
            Ok(connection.number(IS_LAST, &name)?.is_some())
        })
    }

    fn forget(&mut self, digest: &Key) -> Result<()> {
        self.change(FORGET, &[CatalogueParameter::Text(digest.as_str())]).map(drop)
    }

    fn references(&mut self, digest: &Key) -> Result<u64> {
        Ok(self.number(REFERENCES, &[CatalogueParameter::Text(digest.as_str())])?.unwrap_or(0) as u64)
    }
}

/// The statement with its table qualified by a schema.
pub fn qualified(sql: &str, schema: &str) -> String {
    sql.replace("uploads", &format!("{schema}.uploads"))
}

/// The statement with PostgreSQL's placeholders, `$1` and so on.
pub fn numbered(sql: &str) -> String {
    let mut parts = sql.split('?');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.enumerate().fold(first, |text, (index, part)| format!("{text}${}{part}", index + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_numbered() {
        assert_eq!(numbered("a = ? AND b = ?"), "a = $1 AND b = $2");
        assert_eq!(numbered("nothing"), "nothing");
    }

    #[test]
    fn every_statement_names_its_table_once() {
        for sql in [TABLE, UNFINISHED, FIND, INSERT, CONFIRM, RELEASE, IS_LAST, FORGET, REFERENCES] {
            assert_eq!(qualified(sql, "ours").matches("ours.uploads").count(), 1, "{sql}");
        }
    }
}
