//! PostgreSQL: collects its statistics for the checks.

mod blobs;
mod cache;
mod indexes;
mod order;
mod queries;
mod statements;
mod tables;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};

use super::answers;
use super::facts::{Inspector, Row, SourceAnswer, SubjectFacts, UnknownReason, or_zero, text};
use super::finding::Check;
use crate::wire::postgres::{ConnectionParameters, PostgresClient, PostgresError};

/// The checks of a PostgreSQL server.
pub const CHECKS: &[&[Check]] = &[
    ANSWERS,
    cache::CHECKS,
    tables::CHECKS,
    indexes::CHECKS,
    order::CHECKS,
    statements::CHECKS,
    blobs::CHECKS,
];

const ANSWERS: &[Check] =
    &[answers::check("pg-answer-time", "echo 'SELECT 1' | pgbench -n -f - -t 1000 URL")];

/// A read-only connection to a server.
pub struct PostgreSqlInspector {
    client: PostgresClient,
    /// User name, quoted for statements.
    user: String,
}

/// Limits, in milliseconds, for a query on the server and for waiting for a lock.
const STATEMENT_MS: &str = "20000";
const LOCK_MS: &str = "1000";

/// Parses a URL without connecting; sets the session's limits.
pub fn parse(url: &str) -> Result<ConnectionParameters> {
    const PATIENCE: Duration = Duration::from_secs(25);
    let shown = crate::redact::without_passwords(url);
    let mut config = ConnectionParameters::parse(url, PATIENCE)
        .with_context(|| format!("`{shown}` is not a URL of PostgreSQL that can be used"))?;
    config.set("default_transaction_read_only", "on");
    config.set("standard_conforming_strings", "on");
    config.set("statement_timeout", STATEMENT_MS);
    config.set("lock_timeout", LOCK_MS);
    // It is idle between two looks.
    config.set("idle_session_timeout", "0");
    config.set("application_name", "blobwise doctor");
    Ok(config)
}

/// Connects, and checks the server's version.
pub fn connect(config: &ConnectionParameters) -> Result<PostgreSqlInspector> {
    let mut server =
        PostgreSqlInspector { client: PostgresClient::connect_to_theirs(config)?, user: String::new() };
    let sql = "SELECT current_setting('server_version_num')::int AS number, current_setting('server_version') AS version,
               quote_ident(current_user) AS account";
    let rows = server.rows(sql).map_err(Error::msg)?;
    let row = rows.first().context("the server does not say its version")?;
    check_version(or_zero(row, "number"), text(row, "version"))?;
    text(row, "account").clone_into(&mut server.user);
    Ok(server)
}

/// PostgreSQL 14 introduced the busy time of a database and the ids of statements.
fn check_version(number: f64, version: &str) -> Result<()> {
    const LEAST: f64 = 140_000.0;
    ensure!(number >= LEAST, "the server is older than PostgreSQL 14 (it says {version})");
    Ok(())
}

impl PostgreSqlInspector {
    fn rows(&mut self, sql: &str) -> Result<Vec<Row>, UnknownReason> {
        self.rows_with("pg_monitor", sql)
    }

    /// Rows of a query that needs `right`, encoded as JSON by the server.
    fn rows_with(&mut self, right: &str, sql: &str) -> Result<Vec<Row>, UnknownReason> {
        let sql = format!("SELECT coalesce(json_agg(told), '[]')::text FROM ({sql}) AS told");
        let texts = self.client.texts(&sql, &[]).map_err(|trouble| lack(&trouble, right, &self.user))?;
        serde_json::from_str(&texts.concat())
            .map_err(|error| format!("the server's answer is no JSON: {error}"))
    }

    fn query_source(&mut self, sql: &str) -> SourceAnswer {
        self.rows(sql).map_or_else(SourceAnswer::Refused, SourceAnswer::Rows)
    }

    /// Rows of a query to an extension, which may be in any schema; `lack` is added to the reason if it is not installed.
    fn extension(&mut self, name: &str, sql: impl Fn(&str) -> String, lack: &str) -> SourceAnswer {
        match self.rows(&queries::extension(name)) {
            Ok(found) => match found.first() {
                Some(row) => self.query_source(&sql(text(row, "schema"))),
                None => SourceAnswer::Refused(format!(
                    "{name} is not in this database: {lack}`CREATE EXTENSION {name}` makes it"
                )),
            },
            Err(why) => SourceAnswer::Refused(why),
        }
    }

    /// Lengths of the values in columns that may hold blobs, from a sample of rows.
    fn blobs(&mut self) -> SourceAnswer {
        let columns = self.rows(queries::COLUMNS);
        super::blobs::with_lengths(columns, |column| {
            let right = format!("SELECT ON {}", text(column, "sql_table"));
            Ok(self.rows_with(&right, &queries::lengths(column))?.into_iter().flatten().collect())
        })
    }
}

/// Error text; for a missing right, with the statement that grants it.
fn lack(trouble: &PostgresError, right: &str, user: &str) -> UnknownReason {
    const INSUFFICIENT_PRIVILEGE: &str = "42501";
    match trouble.code() {
        Some(INSUFFICIENT_PRIVILEGE) => {
            format!("{trouble}; `GRANT {right} TO {user}` lets the user see this")
        }
        _ => trouble.to_string(),
    }
}

impl Inspector for PostgreSqlInspector {
    fn version(&mut self) -> Option<String> {
        let rows = self.rows("SELECT current_setting('server_version') AS version").ok()?;
        Some(format!("PostgreSQL {}", text(rows.first()?, "version")))
    }

    fn ping(&mut self) -> Result<(), UnknownReason> {
        self.client.simple("SELECT 1", &mut |_, _| ()).map(drop).map_err(|trouble| trouble.to_string())
    }

    fn look(&mut self, is_last: bool) -> BTreeMap<String, SourceAnswer> {
        let mut told: BTreeMap<String, SourceAnswer> =
            queries::SOURCES.iter().map(|(name, sql)| ((*name).to_owned(), self.query_source(sql))).collect();
        const PRELOADED: &str = "its library must be in shared_preload_libraries, and ";
        let statements = self.extension("pg_stat_statements", queries::statements, PRELOADED);
        told.insert("statements".to_owned(), statements);
        if is_last {
            told.insert("density".to_owned(), self.extension("pgstattuple", queries::density, ""));
            let columns = self.blobs();
            let memory =
                super::blobs::memory(&columns, || self.extension("pg_buffercache", queries::memory, ""));
            told.insert("blobs".to_owned(), columns);
            told.insert(super::blobs::IN_MEMORY.to_owned(), memory);
        }
        told
    }
}

/// Least age of the database's counters in seconds: since their last reset (or the start of the server if that is unknown), or
/// since the creation of the database if that is later.
fn counted_seconds(facts: &SubjectFacts) -> Result<f64, UnknownReason> {
    let since =
        facts.number("server", "stats_seconds").or_else(|_unknown| facts.number("server", "up_seconds"))?;
    let made = facts.number("made", "made_seconds").unwrap_or(f64::INFINITY);
    Ok(since.min(made))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_too_old_is_told_so() {
        assert!(check_version(140_000.0, "14.0").is_ok());
        let said = check_version(130_014.0, "13.14 (Debian)").unwrap_err().to_string();
        assert_eq!(said, "the server is older than PostgreSQL 14 (it says 13.14 (Debian))");
    }
}
