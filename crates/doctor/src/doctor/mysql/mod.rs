//! MySQL and MariaDB: collects their statistics for the checks.

mod blobs;
mod cache;
mod indexes;
mod queries;
mod statements;

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Value};
use serde_json::json;

use super::answers;
use super::facts::{Inspector, Row, SourceAnswer, SubjectFacts, UnknownReason, number, text};
use super::finding::Check;
use crate::wire::mysql::{SETTLED, account as account_of, opts_of, plainly, refuse_pooler};
use crate::wire::tls::TlsMode;

/// The checks of a MySQL or MariaDB server.
pub const CHECKS: &[&[Check]] = &[ANSWERS, cache::CHECKS, indexes::CHECKS, statements::CHECKS, blobs::CHECKS];

const ANSWERS: &[Check] = &[answers::check("my-answer-time", "ping -c 20 HOST")];

/// A read-only connection to a server.
pub struct MySqlInspector {
    connection: Conn,
    /// Account name, as statements spell it.
    account: String,
    /// Name of InnoDB's table of statistics, which MySQL 8 has renamed.
    table_statistics: &'static str,
}

/// Parses a URL without connecting.
pub fn parse(url: &str) -> Result<(OptsBuilder, TlsMode)> {
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(25);
    let (opts, mode) = opts_of(url)?;
    let opts = opts.read_timeout(Some(PATIENCE)).write_timeout(Some(PATIENCE));
    // Overrides the URL's options: connects to the host that it names, never to a socket that the server reports.
    Ok((opts.tcp_connect_timeout(Some(PATIENCE)).prefer_socket(false), mode))
}

/// Connects, and checks the server's version.
pub fn connect((opts, mode): &(OptsBuilder, TlsMode)) -> Result<MySqlInspector> {
    let opts = refuse_pooler(opts.clone(), *mode)?;
    let mut connection = Conn::new(opts).map_err(plainly)?;
    connection.query_drop(format!("SET {SETTLED}")).map_err(plainly)?;
    let version: Option<String> = connection.query_first("SELECT VERSION()").map_err(plainly)?;
    let version = version.unwrap_or_default();
    let number: Vec<u16> = version.split(['.', '-']).take(2).filter_map(|part| part.parse().ok()).collect();
    // `sys` and `innodb_table_stats` exist since MySQL 5.7 and MariaDB 10.
    ensure!(number >= vec![5, 7], "the server is older than MySQL 5.7 and MariaDB 10 (it says {version})");
    let is_new = number >= vec![8, 0] && !version.contains("MariaDB");
    let table_statistics = if is_new { "INNODB_TABLESTATS" } else { "INNODB_SYS_TABLESTATS" };
    let account: Option<String> = connection.query_first("SELECT CURRENT_USER()").map_err(plainly)?;
    let account = account_of(&account.unwrap_or_default());
    Ok(MySqlInspector { connection, account, table_statistics })
}

impl MySqlInspector {
    fn rows(&mut self, sql: &str) -> Result<Vec<Row>, UnknownReason> {
        let found: Vec<mysql::Row> =
            self.connection.query(sql).map_err(|error| lack(error, &self.account))?;
        Ok(found.into_iter().map(row).collect())
    }

    fn query_source(&mut self, sql: &str) -> SourceAnswer {
        self.rows(sql).map_or_else(SourceAnswer::Refused, SourceAnswer::Rows)
    }

    fn pairs(&mut self, sql: &str) -> SourceAnswer {
        match self.rows(sql) {
            Ok(rows) => {
                let pair =
                    |row: &Row| Some((text(row, "Variable_name").to_lowercase(), row.get("Value")?.clone()));
                SourceAnswer::Rows(vec![rows.iter().filter_map(pair).collect()])
            }
            Err(why) => SourceAnswer::Refused(why),
        }
    }

    /// Lengths of the values in columns that may hold blobs, from a sample of rows.
    fn blobs(&mut self) -> SourceAnswer {
        let columns = self.rows(queries::COLUMNS);
        super::blobs::with_lengths(columns, |column| {
            let rows = self.rows(&queries::lengths(column))?;
            Ok(super::blobs::summary(rows.iter().filter_map(|row| number(row, "length")).collect()))
        })
    }
}

fn row(row: mysql::Row) -> Row {
    let names: Vec<String> = row.columns_ref().iter().map(|column| column.name_str().into_owned()).collect();
    let values = row.unwrap().into_iter().map(|value| match value {
        Value::NULL => serde_json::Value::Null,
        Value::Int(number) => json!(number),
        Value::UInt(number) => json!(number),
        Value::Float(number) => json!(number),
        Value::Double(number) => json!(number),
        // Statements that are not prepared return numbers as digits.
        Value::Bytes(bytes) => json!(String::from_utf8_lossy(&bytes)),
        other => json!(other.as_sql(true)),
    });
    names.into_iter().zip(values).collect()
}

/// Error text; for a missing right, with the statements that grant it.
fn lack(error: mysql::Error, account: &str) -> UnknownReason {
    /// Access denied: to a database, for lack of a privilege, to a table.
    const DENIED: [u16; 3] = [1044, 1227, 1142];
    match &error {
        mysql::Error::MySqlError(said) if DENIED.contains(&said.code) => {
            format!(
                "{said}; `GRANT PROCESS ON *.* TO {account}; GRANT SELECT ON performance_schema.* TO {account}; \
                 GRANT SELECT ON mysql.* TO {account}` let the user see this"
            )
        }
        _ => plainly(error).to_string(),
    }
}

impl Inspector for MySqlInspector {
    fn version(&mut self) -> Option<String> {
        let rows = self.rows("SELECT VERSION() AS version").ok()?;
        let version = text(rows.first()?, "version");
        let name = if version.contains("MariaDB") { "MariaDB" } else { "MySQL" };
        Some(format!("{name} {version}"))
    }

    fn ping(&mut self) -> Result<(), UnknownReason> {
        self.connection.query_drop("SELECT 1").map_err(|error| lack(error, &self.account))
    }

    fn look(&mut self, is_last: bool) -> BTreeMap<String, SourceAnswer> {
        let mut told = BTreeMap::from([
            ("status".to_owned(), self.pairs("SHOW GLOBAL STATUS")),
            ("variables".to_owned(), self.pairs("SHOW GLOBAL VARIABLES")),
        ]);
        for (name, sql) in queries::SOURCES {
            told.insert((*name).to_owned(), self.query_source(sql));
        }
        if is_last {
            let modified = queries::modified(self.table_statistics);
            told.insert("modified".to_owned(), self.query_source(&modified));
            told.insert("blobs".to_owned(), self.blobs());
        }
        keep_what_is_read(&mut told);
        told
    }
}

/// Keeps only the counters and settings that some check reads, because settings may contain paths and hosts.
fn keep_what_is_read(told: &mut BTreeMap<String, SourceAnswer>) {
    for source in ["status", "variables"] {
        if let Some(SourceAnswer::Rows(rows)) = told.get_mut(source) {
            for row in rows {
                row.retain(|name, _| queries::READ.contains(&name.as_str()));
            }
        }
    }
}

/// Fails if the server keeps no statistics of statements and tables.
fn has_performance_schema(facts: &SubjectFacts) -> Result<(), UnknownReason> {
    if facts.number("variables", "performance_schema")? > 0.0 {
        return Ok(());
    }
    Err("performance_schema is off, as MariaDB ships it: `performance_schema=ON` in its configuration, and a restart, turn it on".to_owned())
}
