//! A connection to SQL Server that separates retryable errors from failures.

use std::time::Duration;

use anyhow::Context;
use tiberius::error::Error as Tds;
use tiberius::{Row, ToSql};

use crate::store::*;
use crate::wire::mssql::{MsSqlAddress, MsSqlClient as Wire, MsSqlError};

/// Server error codes that call for a specific reaction.
mod code {
    pub(super) const DEADLOCK: u32 = 1205;
    pub(super) const LOCK_TIMEOUT: u32 = 1222;
    /// Two sessions created the same blob at once.
    pub(super) const DUPLICATE_IN_INDEX: u32 = 2601;
    pub(super) const DUPLICATE_IN_CONSTRAINT: u32 = 2627;
}

fn from_trouble(trouble: MsSqlError) -> Error {
    use code::{DEADLOCK, DUPLICATE_IN_CONSTRAINT, DUPLICATE_IN_INDEX, LOCK_TIMEOUT};
    match trouble {
        MsSqlError::TimedOut => Error::TimedOut,
        MsSqlError::Row(error) => Error::Failed(error),
        MsSqlError::Said(error) => match error.code() {
            Some(DEADLOCK | LOCK_TIMEOUT | DUPLICATE_IN_INDEX | DUPLICATE_IN_CONSTRAINT) => Error::Busy,
            _ => Error::failed(error),
        },
    }
}

pub(super) struct MsSqlConnection(Wire);

impl MsSqlConnection {
    pub(super) fn open(
        address: &MsSqlAddress,
        isolation: &str,
        timeout: Duration,
    ) -> Result<MsSqlConnection> {
        let mut connection = MsSqlConnection(Wire::open(address, timeout).map_err(from_trouble)?);
        connection.batch(&super::statements::session(isolation))?;
        Ok(connection)
    }

    /// Runs statements that return no rows, and reads every reply. Returns the largest number of rows affected by one of them.
    pub(super) fn execute(&mut self, sql: &str, params: &[&dyn ToSql]) -> Result<u64> {
        self.0.execute(sql, params).map_err(from_trouble)
    }

    /// Passes every row of the result to `each` and returns their number.
    pub(super) fn query(
        &mut self,
        sql: &str,
        params: &[&dyn ToSql],
        each: &mut dyn FnMut(&Row) -> anyhow::Result<()>,
    ) -> Result<usize> {
        self.0.query(sql, params, each).map_err(from_trouble)
    }

    /// Runs a batch as text: for statements not allowed in a procedure, such as those that begin and end transactions or create
    /// schemas.
    pub(super) fn batch(&mut self, sql: &str) -> Result<()> {
        self.0.batch(sql).map_err(from_trouble)
    }

    /// Runs a batch that the server may refuse; `false` if it does.
    pub(super) fn batch_if_allowed(&mut self, sql: &str) -> Result<bool> {
        match self.0.batch(sql) {
            Ok(()) => Ok(true),
            Err(MsSqlError::Said(Tds::Server(_))) => Ok(false),
            Err(trouble) => Err(from_trouble(trouble)),
        }
    }

    /// The single text value of a query; `None` if there is none or the server refuses.
    pub(super) fn text(&mut self, sql: &str) -> Result<Option<String>> {
        match self.0.rows(sql) {
            Ok(rows) => {
                Ok(rows.first().and_then(|row| row.try_get::<&str, _>(0).ok().flatten().map(str::to_owned)))
            }
            Err(MsSqlError::Said(Tds::Server(_))) => Ok(None),
            Err(trouble) => Err(from_trouble(trouble)),
        }
    }
}

/// The bytes of a column; an error if it is NULL.
pub(super) fn bytes_of(row: &Row, column: usize) -> anyhow::Result<&[u8]> {
    row.try_get::<&[u8], _>(column)?.context("a blob is NULL")
}
