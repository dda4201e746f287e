//! Queries to SQL Server. Nothing is written.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use tiberius::ColumnData;
use tiberius::error::Error as Tds;

use super::digest::without_values;
use super::{SERVER_STATE, counted, is_used, statements};
use crate::doctor::blobs;
use crate::doctor::facts::{Inspector, Row, SourceAnswer, UnknownReason, number, or_zero, text};
use crate::units;
pub(in crate::doctor) use crate::wire::mssql::MsSqlAddress;
use crate::wire::mssql::{MsSqlClient, MsSqlError, is_too_old};

/// Timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(25);

/// A read-only connection to a server.
pub struct MsSqlInspector {
    connection: MsSqlClient,
    version: String,
    /// Query Store interval that was open at the first look; `None` if Query Store did not count then.
    first_interval: Option<f64>,
    /// Reason once the connection has failed.
    gone: Option<UnknownReason>,
}

/// Parses a URL without connecting.
pub(in crate::doctor) fn parse(url: &str) -> Result<MsSqlAddress> {
    MsSqlAddress::from_url(url)
}

pub(in crate::doctor) fn connect(address: &MsSqlAddress) -> Result<MsSqlInspector> {
    let connection =
        MsSqlClient::open(address, PATIENCE).map_err(|trouble| anyhow::Error::msg(lack(&trouble)))?;
    let mut server = MsSqlInspector { connection, version: String::new(), first_interval: None, gone: None };
    let (name, sql) = statements::VERSION;
    let told = server.rows(name, sql).map_err(anyhow::Error::msg)?;
    let told = told.into_iter().next().unwrap_or_default();
    let version = text(&told, "version");
    if let Some(why) = is_too_old(version) {
        bail!(why);
    }
    server.version = format!("SQL Server {version}, {}", text(&told, "edition"));
    server.connection.batch(statements::SESSION).map_err(|trouble| anyhow::Error::msg(lack(&trouble)))?;
    Ok(server)
}

impl MsSqlInspector {
    fn rows(&mut self, name: &str, sql: &str) -> Result<Vec<Row>, UnknownReason> {
        if let Some(why) = &self.gone {
            return Err(why.clone());
        }
        match self.connection.rows(&statements::said(name, sql)) {
            Ok(rows) => Ok(rows.iter().map(row).collect()),
            Err(trouble) => {
                let why = lack(&trouble);
                if !matches!(trouble, MsSqlError::Said(Tds::Server(_)) | MsSqlError::TimedOut) {
                    self.gone = Some(why.clone());
                }
                Err(why)
            }
        }
    }

    fn query_source(&mut self, name: &str, sql: &str) -> SourceAnswer {
        self.rows(name, sql).map_or_else(SourceAnswer::Refused, SourceAnswer::Rows)
    }

    /// Counts of Query Store since the interval that was open at the first look; empty if it did not count at both looks.
    fn stored(&mut self, store: &SourceAnswer, is_last: bool) -> SourceAnswer {
        let rows = match store {
            SourceAnswer::Rows(rows) => rows,
            SourceAnswer::Refused(why) => return SourceAnswer::Refused(why.clone()),
        };
        let on = rows.iter().find(|row| number(row, "state") == Some(counted::READ_WRITE));
        let Some(row) = on else { return SourceAnswer::Rows(Vec::new()) };
        if !is_last {
            // Without an interval yet, all later ones count (from 0 on).
            self.first_interval = Some(or_zero(row, "newest_interval"));
        }
        match self.first_interval {
            Some(first) => self.query_source(counted::STORED, &statements::stored(first)),
            None => SourceAnswer::Rows(Vec::new()),
        }
    }

    /// Leaf density of the largest indexes that are small enough for a cheap scan.
    fn density(&mut self, indexes: &[Row]) -> SourceAnswer {
        const BYTES: std::ops::RangeInclusive<f64> = 1_048_576.0..=268_435_456.0;
        const MOST: usize = 4;
        let is_tree =
            |row: &&Row| ["CLUSTERED", "NONCLUSTERED"].contains(&text(row, "method")) && is_used(row);
        let mut largest: Vec<&Row> =
            indexes.iter().filter(is_tree).filter(|row| BYTES.contains(&or_zero(row, "bytes"))).collect();
        largest.sort_by(|a, b| or_zero(b, "bytes").total_cmp(&or_zero(a, "bytes")));
        let mut told = Vec::new();
        for index in largest.into_iter().take(MOST) {
            match self.rows("density", &statements::density(index)) {
                Ok(rows) => told.extend(rows.into_iter().map(|row| with_density(index, row))),
                Err(why) => return SourceAnswer::Refused(why),
            }
        }
        SourceAnswer::Rows(told)
    }

    /// Pages in memory by table; refused for a server with so much memory that going through its pages takes long.
    fn memory(&mut self, server: &SourceAnswer) -> SourceAnswer {
        const MOST_KB: f64 = 67_108_864.0;
        let used_kb = match server {
            SourceAnswer::Rows(rows) => {
                rows.first().and_then(|row| number(row, "used_kb")).unwrap_or_default()
            }
            SourceAnswer::Refused(why) => return SourceAnswer::Refused(why.clone()),
        };
        if used_kb > MOST_KB {
            let [used, most] = [used_kb, MOST_KB].map(|kb| units::bytes(kb * 1024.0));
            return SourceAnswer::Refused(format!(
                "it has {used}, and its view goes through all of it, which is asked for {most} at the most"
            ));
        }
        self.query_source(blobs::IN_MEMORY, statements::IN_MEMORY)
    }

    /// Lengths of the values in columns that may hold blobs, from a sample of rows.
    fn blobs(&mut self) -> SourceAnswer {
        let (name, sql) = statements::COLUMNS;
        let columns = self.rows(name, sql);
        blobs::with_lengths(columns, |column| {
            let rows = self.rows("lengths", &statements::lengths(column))?;
            let lengths = rows.iter().filter_map(|row| number(row, "length")).collect();
            Ok(blobs::summary(lengths))
        })
    }
}

/// Converts a row of the server's. No query returns bytes or times.
fn row(row: &tiberius::Row) -> Row {
    let value = |data: &ColumnData<'static>| match data {
        ColumnData::U8(number) => json!(number),
        ColumnData::I16(number) => json!(number),
        ColumnData::I32(number) => json!(number),
        ColumnData::I64(number) => json!(number),
        ColumnData::F32(number) => json!(number),
        ColumnData::F64(number) => json!(number),
        ColumnData::Bit(truth) => json!(truth.map(u8::from)),
        ColumnData::String(text) => json!(text),
        ColumnData::Numeric(number) => json!(number.map(f64::from)),
        _ => Value::Null,
    };
    row.cells().map(|(column, data)| (column.name().to_owned(), value(data))).collect()
}

/// Error text, with a remedy that the server's message does not name.
fn lack(trouble: &MsSqlError) -> UnknownReason {
    let error = match trouble {
        MsSqlError::TimedOut => {
            return format!("there was no answer within {}", units::seconds(PATIENCE.as_secs_f64()));
        }
        MsSqlError::Row(error) => return format!("{error:#}"),
        MsSqlError::Said(error) => error,
    };
    let Tds::Server(said) = error else { return error.to_string() };
    let (words, number) = (said.message(), said.code());
    let way_out = match number {
        297 | 300 => format!("; {SERVER_STATE} lets the login see this"),
        208 => "; its version does not have this yet".to_owned(),
        262 => {
            "; VIEW DATABASE STATE (from 2022 on VIEW DATABASE PERFORMANCE STATE is enough), or for the whole server VIEW SERVER STATE, lets \
             the user see this"
                .to_owned()
        }
        229 | 230 => "; SELECT on it lets the user see this".to_owned(),
        207 => "; its version does not count this yet".to_owned(),
        1222 => "; somebody else has it locked".to_owned(),
        18_456 => "; the reason stands in the server's own log only".to_owned(),
        4060 => {
            "; it is not there, is not open yet, as in recovery, or is closed to this user: without a database in the URL the rest is told"
                .to_owned()
        }
        _ => String::new(),
    };
    format!("{} (error {number}){way_out}", words.trim_end_matches('.'))
}

/// Removes the values from a query's text before it is kept.
fn keep_digest(row: &mut Row) {
    const LETTERS: usize = 200;
    let digest: String = without_values(text(row, "query")).chars().take(LETTERS).collect();
    row.insert("query".to_owned(), digest.into());
}

fn with_density(index: &Row, mut density: Row) -> Row {
    for field in ["name", "tab", "bytes"] {
        density.extend(index.get(field).map(|value| (field.to_owned(), value.clone())));
    }
    density
}

impl Inspector for MsSqlInspector {
    fn version(&mut self) -> Option<String> {
        Some(self.version.clone())
    }

    fn ping(&mut self) -> Result<(), UnknownReason> {
        self.rows("ping", statements::PING).map(drop)
    }

    fn look(&mut self, is_last: bool) -> BTreeMap<String, SourceAnswer> {
        let last: &[(&str, &str)] = if is_last { statements::LAST } else { &[] };
        let mut told: BTreeMap<String, SourceAnswer> = statements::SOURCES
            .iter()
            .chain(last)
            .map(|(name, sql)| ((*name).to_owned(), self.query_source(name, sql)))
            .collect();
        let stored = self.stored(&told[counted::STORE], is_last);
        told.insert(counted::STORED.to_owned(), stored);
        for source in [counted::CACHED, counted::STORED] {
            if let Some(SourceAnswer::Rows(rows)) = told.get_mut(source) {
                rows.iter_mut().for_each(keep_digest);
            }
        }
        if is_last {
            let density = match &told["indexes"] {
                SourceAnswer::Rows(indexes) => self.density(indexes),
                SourceAnswer::Refused(why) => SourceAnswer::Refused(why.clone()),
            };
            told.insert("density".to_owned(), density);
            let columns = self.blobs();
            let memory = blobs::memory(&columns, || self.memory(&told["server"]));
            told.insert("blobs".to_owned(), columns);
            told.insert(blobs::IN_MEMORY.to_owned(), memory);
        }
        told
    }
}
