//! One worker's connection to MySQL or MariaDB: the statements of each shape and protocol.

use anyhow::anyhow;
use mysql::prelude::{Protocol, Queryable};
use mysql::{Conn, Params, QueryResult, Value};

use super::{MySql, MySqlLayout, StatementProtocol};
use crate::store::*;
use crate::stores::common::catalogue::{self, CatalogueParameter};
use crate::stores::common::keys::{KeyForm, KeyPositions};
use crate::stores::common::reader::get_each;

pub(super) struct MySqlSession<'s> {
    store: &'s MySql,
    connection: Conn,
    /// True while in a transaction that the caller began and will end.
    within: bool,
}

const DUPLICATE_KEY: u16 = 1062;
/// Server error: too many connections, possibly because of threads that are about to end.
const NO_CONNECTION_FREE: u16 = 1040;

fn params_of(params: &[CatalogueParameter]) -> Params {
    let value = |param: &CatalogueParameter| match param {
        CatalogueParameter::Text(text) => Value::Bytes(text.as_bytes().to_vec()),
        CatalogueParameter::Number(number) => Value::Int(*number),
    };
    Params::Positional(params.iter().map(value).collect())
}

impl catalogue::CatalogueConnection for MySqlSession<'_> {
    const BEGIN: &'static str = "START TRANSACTION";

    fn execute(&mut self, sql: &str) -> Result<()> {
        Ok(self.connection.query_drop(sql)?)
    }

    fn within(&mut self) -> &mut bool {
        &mut self.within
    }

    fn change(&mut self, sql: &'static str, params: &[CatalogueParameter]) -> Result<u64> {
        self.connection.exec_drop(sql, params_of(params)).map_err(|error| match &error {
            // Another session is storing the same digest.
            mysql::Error::MySqlError(server) if server.code == DUPLICATE_KEY => Error::Busy,
            _ => error.into(),
        })?;
        Ok(self.connection.affected_rows())
    }

    fn number(&mut self, sql: &'static str, params: &[CatalogueParameter]) -> Result<Option<i64>> {
        Ok(self.connection.exec_first(sql, params_of(params))?)
    }
}

/// Pieces per INSERT: enough to save round trips, few enough for the cache of prepared statements.
pub(super) const ROWS_AT_ONCE: usize = 16;

/// The most keys per statement; the protocol allows 65,535 parameters.
const LISTED_MAX: usize = 10_000;

/// The most blobs per INSERT.
const INSERTED_MAX: usize = 128;

/// The most bytes of blobs per INSERT: hexadecimal doubles them, and the user's server may limit packets to 1 MB.
const INSERTED_BYTES: usize = 256 << 10;

/// Number of the remaining blobs for the next INSERT: a power of two, so that batches of any length need few prepared statements.
fn inserted_at_once(left: &[(Key, &[u8])]) -> usize {
    let mut bytes = 0;
    let fits = left.iter().take(INSERTED_MAX).take_while(|(_, blob)| {
        bytes += blob.len();
        bytes <= INSERTED_BYTES
    });
    1 << fits.count().max(1).ilog2()
}

impl<'s> MySqlSession<'s> {
    pub(super) fn open(store: &'s MySql) -> Result<MySqlSession<'s>> {
        let connection = Conn::new(store.opts.clone())?;
        Ok(MySqlSession { store, connection, within: false })
    }

    /// Opens a session in a read-only transaction; with repeatable reads, its snapshot is taken now.
    pub(super) fn open_within(store: &'s MySql) -> Result<MySqlSession<'s>> {
        let mut session = MySqlSession::open(store)?;
        let begin = match store.is_repeatable {
            true => "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
            false => "START TRANSACTION READ ONLY",
        };
        session.connection.query_drop(begin)?;
        session.within = true;
        Ok(session)
    }

    fn key(&self, key: &Key) -> Value {
        match self.store.key_form {
            KeyForm::Digest => Value::Bytes(key.hex.to_vec()),
            KeyForm::Integer => Value::Int(key.id as i64),
        }
    }

    /// A key as a literal; neither form needs escaping.
    fn literal(&self, key: &Key) -> String {
        match self.store.key_form {
            KeyForm::Digest => format!("'{}'", key.as_str()),
            KeyForm::Integer => key.id.to_string(),
        }
    }

    fn here(&self) -> &'static str {
        if self.store.lazy_delete { " AND NOT gone" } else { "" }
    }

    fn removal(&self) -> &'static str {
        if self.store.lazy_delete { "UPDATE blobs SET gone = TRUE" } else { "DELETE FROM blobs" }
    }

    /// Runs a prepared statement that returns no rows.
    fn run(&mut self, sql: &str, params: Vec<Value>) -> Result<()> {
        Ok(self.connection.exec_drop(sql, positional(params))?)
    }

    /// Runs a prepared statement or call; lends the first column of its rows and returns their number.
    fn ask(&mut self, sql: &str, params: Vec<Value>, sink: Sink) -> Result<usize> {
        consume(&mut self.connection.exec_iter(sql, positional(params))?, sink)
    }

    // ---- one column ------------------------------------------------------------------------------------------

    /// The statement that inserts or replaces these rows.
    fn upsert(&self, rows: &str) -> String {
        let column = self.store.key_column();
        format!(
            "INSERT INTO blobs({column}, content) VALUES {rows}
             ON DUPLICATE KEY UPDATE content = VALUES(content), gone = FALSE"
        )
    }

    /// Puts blobs by one statement, or by one procedure call each.
    fn put_rows(&mut self, rows: &[(Key, &[u8])]) -> Result<()> {
        match self.store.protocol {
            StatementProtocol::Prepared => {
                let sql = self.upsert(&vec!["(?, ?)"; rows.len()].join(", "));
                let params = rows.iter().flat_map(|(key, blob)| [self.key(key), Value::Bytes(blob.to_vec())]);
                self.run(&sql, params.collect())
            }
            StatementProtocol::Text => {
                let literals: Vec<String> = rows
                    .iter()
                    .map(|(key, blob)| format!("({}, X'{}')", self.literal(key), hexadecimal(blob)))
                    .collect();
                Ok(self.connection.query_drop(self.upsert(&literals.join(", ")))?)
            }
            StatementProtocol::Procedure => rows.iter().try_for_each(|(key, blob)| {
                let params = vec![self.key(key), Value::Bytes(blob.to_vec())];
                self.ask("CALL put_blob(?, ?)", params, &mut |_| {}).map(drop)
            }),
        }
    }

    fn get_column(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        let (by, here) = (self.store.key_column(), self.here());
        let select = |column: &str, key: &str| format!("SELECT {column} FROM blobs WHERE {by} = {key}{here}");
        // SQL positions start at 1.
        let found = match (self.store.protocol, span) {
            (StatementProtocol::Prepared, Span::Whole) => {
                self.ask(&select("content", "?"), vec![self.key(key)], sink)?
            }
            (StatementProtocol::Prepared, Span::Part { offset, len }) => {
                let params = vec![(offset + 1).into(), len.into(), self.key(key)];
                self.ask(&select("SUBSTRING(content, ?, ?)", "?"), params, sink)?
            }
            (StatementProtocol::Procedure, Span::Whole) => {
                self.ask("CALL get_blob(?)", vec![self.key(key)], sink)?
            }
            (StatementProtocol::Procedure, Span::Part { offset, len }) => self.ask(
                "CALL get_part(?, ?, ?)",
                vec![self.key(key), (offset + 1).into(), len.into()],
                sink,
            )?,
            (StatementProtocol::Text, span) => {
                let column = match span {
                    Span::Whole => "content".to_owned(),
                    Span::Part { offset, len } => format!("SUBSTRING(content, {}, {len})", offset + 1),
                };
                consume(&mut self.connection.query_iter(select(&column, &self.literal(key)))?, sink)?
            }
        };
        match found {
            0 => Ok(false),
            1 => Ok(true),
            rows => Err(Error::Failed(anyhow!("{rows} rows for one key"))),
        }
    }

    /// Gets several blobs by one statement with a list of keys, or by one procedure call that runs a statement per key.
    fn get_list(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        let column = self.store.key_column();
        let of = format!("SELECT {column}, content FROM blobs WHERE {column} IN");
        let names = || keys.iter().map(|key| self.name_of(key));
        match self.store.protocol {
            StatementProtocol::Text => {
                let asked = KeyPositions::new(names());
                let list: Vec<String> = keys.iter().map(|key| self.literal(key)).collect();
                let sql = format!("{of} ({}){}", list.join(","), self.here());
                let mut answer = self.connection.query_iter(sql)?;
                consume_list(&mut answer, &asked, sink)
            }
            StatementProtocol::Prepared => {
                let asked = KeyPositions::new(names());
                let list = vec!["?"; keys.len()].join(",");
                let params = keys.iter().map(|key| self.key(key)).collect();
                let sql = format!("{of} ({list}){}", self.here());
                let mut answer = self.connection.exec_iter(sql, positional(params))?;
                consume_list(&mut answer, &asked, sink)
            }
            StatementProtocol::Procedure => {
                let list = names().collect::<Vec<_>>().join(b",".as_slice());
                let params = positional(vec![Value::Bytes(list)]);
                let mut answer = self.connection.exec_iter("CALL get_several(?)", params)?;
                consume_sets(&mut answer, keys.len(), sink)
            }
        }
    }

    /// A key as the server returns it.
    fn name_of(&self, key: &Key) -> Vec<u8> {
        match self.store.key_form {
            KeyForm::Digest => key.hex.to_vec(),
            KeyForm::Integer => key.id.to_string().into_bytes(),
        }
    }

    // ---- rows of pieces --------------------------------------------------------------------------------------

    /// Updates the blob's row to a new version, inserts its pieces and deletes the old ones, within the caller's transaction.
    fn put_pieces(&mut self, key: &Key, blob: &[u8], piece: usize) -> Result<()> {
        let column = self.store.key_column();
        let upsert = format!(
            "INSERT INTO blobs({column}, version) VALUES (?, 1)
             ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id), version = version + 1, gone = FALSE"
        );
        self.run(&upsert, vec![self.key(key)])?;
        let find = format!("SELECT id, version FROM blobs WHERE {column} = ?");
        let row: Option<(i64, i64)> = self.connection.exec_first(find, positional(vec![self.key(key)]))?;
        let (id, version) = row.ok_or_else(|| Error::Failed(anyhow!("the row that was put is not there")))?;
        if version > 1 {
            self.run(
                "DELETE FROM pieces WHERE blob_id = ? AND version < ?",
                vec![id.into(), version.into()],
            )?;
        }
        let pieces: Vec<(usize, &[u8])> = blob.chunks(piece).enumerate().collect();
        for rows in pieces.chunks(ROWS_AT_ONCE) {
            let values = vec!["(?, ?, ?, ?)"; rows.len()].join(", ");
            let sql = format!("INSERT INTO pieces(blob_id, version, number, data) VALUES {values}");
            let params = rows.iter().flat_map(|(number, data)| {
                [id.into(), version.into(), (*number as u64).into(), Value::Bytes(data.to_vec())]
            });
            self.run(&sql, params.collect())?;
        }
        Ok(())
    }

    fn get_pieces(&mut self, key: &Key, span: Span, piece: usize, sink: Sink) -> Result<bool> {
        let (column, here) = (self.store.key_column(), self.here());
        let (limits, mut skip, mut left) = match span {
            Span::Whole => (None, 0, u64::MAX),
            Span::Part { offset, len } => {
                let (first, last) = (offset / piece as u64, (offset + len).saturating_sub(1) / piece as u64);
                // An empty span reads no piece, and only tests whether the blob exists.
                let last = if len == 0 { first as i64 - 1 } else { last as i64 };
                (Some((first as i64, last)), offset % piece as u64, len)
            }
        };
        let between = if limits.is_some() { " AND p.number BETWEEN ? AND ?" } else { "" };
        // The outer join keeps a row for a blob without pieces, which is empty.
        let sql = format!(
            "SELECT p.data FROM blobs b LEFT JOIN pieces p
             ON p.blob_id = b.id AND p.version = b.version{between}
             WHERE b.{column} = ?{here} ORDER BY p.number"
        );
        let mut params: Vec<Value> =
            limits.iter().flat_map(|(first, last)| [(*first).into(), (*last).into()]).collect();
        params.push(self.key(key));
        let rows = self.ask(&sql, params, &mut |bytes| {
            let part = match span {
                Span::Whole => bytes,
                Span::Part { .. } => Span::Part { offset: skip, len: left }.slice_of(bytes),
            };
            skip = 0;
            left = left.saturating_sub(part.len() as u64);
            if !part.is_empty() {
                sink(part);
            }
        })?;
        Ok(rows > 0)
    }

    /// The span cut off at the size limit, because statements have smaller integers than a span.
    fn reachable(&self, span: Span) -> Span {
        let (offset, len) = span.below(self.store.limit.bytes);
        if span == Span::Whole { span } else { Span::Part { offset, len } }
    }

    fn get_one(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        match self.store.shape {
            MySqlLayout::Blob => self.get_column(key, span, sink),
            MySqlLayout::Chunked { piece } => self.get_pieces(key, span, piece, sink),
        }
    }
}

fn positional(values: Vec<Value>) -> Params {
    if values.is_empty() { Params::Empty } else { Params::Positional(values) }
}

/// Lends the first column of every row of every result set and returns the number of rows. Reads everything: unread result sets
/// of a call would make every later call fail at once, which looks fast.
fn consume<P: Protocol>(answer: &mut QueryResult<'_, '_, '_, P>, sink: Sink) -> Result<usize> {
    let mut rows = 0;
    while let Some(set) = answer.iter() {
        for row in set {
            rows += 1;
            match row?.take::<Value, _>(0) {
                Some(Value::Bytes(bytes)) => sink(&bytes),
                // The piece of an empty blob.
                Some(Value::NULL) | None => {}
                Some(other) => bail!("a column has no bytes but {other:?}"),
            }
        }
    }
    Ok(rows)
}

/// Lends the row of the n-th result set for the n-th key; returns how many blobs were found.
fn consume_sets<P: Protocol>(
    answer: &mut QueryResult<'_, '_, '_, P>,
    asked: usize,
    sink: ManySink,
) -> Result<usize> {
    let (mut found, mut sets) = (0, 0);
    while let Some(set) = answer.iter() {
        // The result that ends the call has no columns.
        if set.columns().as_ref().is_empty() {
            continue;
        }
        for row in set {
            let Some(Value::Bytes(blob)) = row?.take::<Value, _>(0) else {
                bail!("a column has no bytes");
            };
            found += 1;
            sink(sets, &blob);
        }
        sets += 1;
    }
    ensure!(sets == asked, "{sets} results for {asked} keys");
    Ok(found)
}

/// Lends the second column of every row, with the positions of the key in the first one; returns how many keys were found.
fn consume_list<P: Protocol>(
    answer: &mut QueryResult<'_, '_, '_, P>,
    asked: &KeyPositions<Vec<u8>>,
    sink: ManySink,
) -> Result<usize> {
    let mut found = 0;
    while let Some(set) = answer.iter() {
        for row in set {
            let mut row = row?;
            let name = match row.take::<Value, _>(0) {
                Some(Value::Bytes(name)) => name,
                Some(Value::Int(id)) => id.to_string().into_bytes(),
                Some(Value::UInt(id)) => id.to_string().into_bytes(),
                other => bail!("a key is {other:?}"),
            };
            let Some(Value::Bytes(blob)) = row.take::<Value, _>(1) else {
                bail!("a column has no bytes");
            };
            for index in asked.places(&name) {
                found += 1;
                sink(*index, &blob);
            }
        }
    }
    Ok(found)
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from(DIGITS[usize::from(nibble)]));
        }
    }
    text
}

impl Session for MySqlSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        self.store.limit.check(blob)?;
        match self.store.shape {
            MySqlLayout::Blob => self.put_rows(&[(*key, blob)]),
            MySqlLayout::Chunked { piece } => {
                catalogue::transaction(self, |session| session.put_pieces(key, blob, piece))
            }
        }
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        self.get_one(key, self.reachable(span), sink)
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        let (by, removal) = (self.store.key_column(), self.removal());
        match self.store.protocol {
            StatementProtocol::Text => {
                Ok(self.connection.query_drop(format!("{removal} WHERE {by} = {}", self.literal(key)))?)
            }
            StatementProtocol::Procedure => {
                self.ask("CALL delete_blob(?)", vec![self.key(key)], &mut |_| {}).map(drop)
            }
            StatementProtocol::Prepared => {
                self.run(&format!("{removal} WHERE {by} = ?"), vec![self.key(key)])
            }
        }
    }

    fn sync(&mut self) -> Result<()> {
        if self.store.durability != Durability::OnSync {
            return Ok(());
        }
        self.store.flush_log(&mut self.connection)
    }

    fn connect(&mut self) -> Result<()> {
        self.connection = Conn::new(self.store.opts.clone()).map_err(|error| match &error {
            mysql::Error::MySqlError(server) if server.code == NO_CONNECTION_FREE => Error::Busy,
            _ => error.into(),
        })?;
        Ok(())
    }

    fn catalogue(&mut self) -> Result<&mut dyn Catalogue> {
        Ok(self)
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        self.store.key_form.check_list()?;
        let sql = format!("SELECT hash FROM blobs WHERE TRUE{}", self.here());
        let mut answer = self.connection.query_iter(sql)?;
        consume(&mut answer, &mut |bytes| each(std::str::from_utf8(bytes).unwrap_or_default())).map(drop)
    }

    fn put_batch(&mut self, blobs: &[(Key, &[u8])]) -> Result<()> {
        blobs.iter().try_for_each(|(_, blob)| self.store.limit.check(blob))?;
        catalogue::transaction(self, |session| match session.store.shape {
            MySqlLayout::Blob => {
                let mut left = blobs;
                while !left.is_empty() {
                    let (rows, later) = left.split_at(inserted_at_once(left));
                    session.put_rows(rows)?;
                    left = later;
                }
                Ok(())
            }
            MySqlLayout::Chunked { piece } => {
                blobs.iter().try_for_each(|(key, blob)| session.put_pieces(key, blob, piece))
            }
        })
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        match self.store.shape {
            MySqlLayout::Blob if keys.len() <= LISTED_MAX => self.get_list(keys, sink),
            // A blob's pieces are separate rows.
            _ => catalogue::transaction(self, |session| {
                get_each(keys, sink, |key, sink| session.get_one(key, Span::Whole, sink))
            }),
        }
    }

    fn delete_batch(&mut self, keys: &[Key]) -> Result<()> {
        catalogue::transaction(self, |session| keys.iter().try_for_each(|key| session.delete(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_insert_takes_a_power_of_two_of_rows_and_a_large_blob_alone() {
        let of = |lens: &[usize]| {
            let blobs: Vec<Vec<u8>> = lens.iter().map(|len| vec![0; *len]).collect();
            let rows: Vec<(Key, &[u8])> = blobs
                .iter()
                .enumerate()
                .map(|(id, blob)| (Key::of_digest(id as u64, id as u128), blob.as_slice()))
                .collect();
            inserted_at_once(&rows)
        };
        assert_eq!((of(&[10]), of(&[10; 3]), of(&[10; 100]), of(&[0; 1000])), (1, 2, 64, 128));
        assert_eq!(of(&[INSERTED_BYTES / 3; 9]), 2);
        assert_eq!(
            (of(&[INSERTED_BYTES]), of(&[INSERTED_BYTES + 1, 1]), of(&[1, INSERTED_BYTES])),
            (1, 1, 1)
        );
    }

    #[test]
    fn bytes_are_written_as_hexadecimal() {
        assert_eq!(hexadecimal(&[0, 0x0f, 0xa0, 255]), "000FA0FF");
    }
}
