//! One worker's connection to PostgreSQL: the statements of each shape.

use std::collections::HashSet;

use postgres::error::SqlState;
use postgres::fallible_iterator::FallibleIterator;
use postgres::types::ToSql;
use postgres::{Client, NoTls, SimpleQueryMessage, Statement};

use anyhow::anyhow;

use super::super::catalogue::{self, Param};
use super::super::keys::KeyForm;
use super::{Postgres, Shape, from_postgres};
use crate::store::*;

/// A key as the row's column wants it.
enum KeyValue<'k> {
    Digest(&'k str),
    Integer(i64),
}

impl KeyValue<'_> {
    fn param(&self) -> &(dyn ToSql + Sync) {
        match self {
            KeyValue::Digest(text) => text,
            KeyValue::Integer(id) => id,
        }
    }
}

/// The statements that a session prepares when it first needs them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    Put,
    Get,
    Part,
    Delete,
    PutBatch,
    GetMany,
    DeleteBatch,
    List,
    PutRow,
    WritePiece,
    ReadPiece,
    Seek,
}

pub(super) struct PgSession<'s> {
    store: &'s Postgres,
    client: Client,
    prepared: Vec<(Ask, Statement)>,
    /// The catalogue's statements.
    prepared_for_catalogue: Vec<(&'static str, Statement)>,
    /// Where text results are decoded.
    decoded: Vec<u8>,
    /// Whether a transaction has begun that the caller will end.
    within: bool,
}

impl PgSession<'_> {
    /// A statement of the catalogue, prepared once a connection.
    fn statement_for_catalogue(&mut self, sql: &'static str) -> Result<Statement> {
        if let Some((_, statement)) =
            self.prepared_for_catalogue.iter().find(|(known, _)| std::ptr::eq(*known, sql))
        {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&catalogue::numbered(sql)).map_err(from_postgres)?;
        self.prepared_for_catalogue.push((sql, statement.clone()));
        Ok(statement)
    }
}

fn param<'p>(param: &'p Param) -> &'p (dyn ToSql + Sync) {
    match param {
        Param::Text(text) => text,
        Param::Number(number) => number,
    }
}

impl catalogue::Connection for PgSession<'_> {
    const BEGIN: &'static str = "BEGIN";

    fn execute(&mut self, sql: &str) -> Result<()> {
        self.client.batch_execute(sql).map_err(from_postgres)
    }

    fn within(&mut self) -> &mut bool {
        &mut self.within
    }

    fn change(&mut self, sql: &'static str, params: &[Param]) -> Result<u64> {
        let statement = self.statement_for_catalogue(sql)?;
        let params: Vec<_> = params.iter().map(param).collect();
        self.client.execute(&statement, &params).map_err(|error| {
            // The same digest twice: somebody else is storing it.
            match error.code() {
                Some(code) if *code == SqlState::UNIQUE_VIOLATION => Error::Busy,
                _ => from_postgres(error),
            }
        })
    }

    fn number(&mut self, sql: &'static str, params: &[Param]) -> Result<Option<i64>> {
        let statement = self.statement_for_catalogue(sql)?;
        let params: Vec<_> = params.iter().map(param).collect();
        let row = self.client.query_opt(&statement, &params).map_err(from_postgres)?;
        Ok(row.map(|row| row.get(0)))
    }
}

/// Flags of `lo_open`.
const READ: i32 = 0x40000;
const WRITE: i32 = 0x20000;

fn connect(store: &Postgres) -> Result<Client> {
    let mut client = store.config.connect(NoTls).map_err(from_postgres)?;
    client.batch_execute(&format!("SET search_path = {}", store.schema)).map_err(from_postgres)?;
    Ok(client)
}

impl<'s> PgSession<'s> {
    pub(super) fn open(store: &'s Postgres) -> Result<PgSession<'s>> {
        Ok(PgSession {
            store,
            client: connect(store)?,
            prepared: Vec::new(),
            prepared_for_catalogue: Vec::new(),
            decoded: Vec::new(),
            within: false,
        })
    }

    fn key<'k>(&self, key: &'k Key) -> KeyValue<'k> {
        match self.store.key_form {
            KeyForm::Digest => KeyValue::Digest(key.as_str()),
            KeyForm::Integer => KeyValue::Integer(key.id as i64),
        }
    }

    /// The statement, prepared once a connection.
    fn statement(&mut self, ask: Ask) -> Result<Statement> {
        if let Some((_, statement)) = self.prepared.iter().find(|(known, _)| *known == ask) {
            return Ok(statement.clone());
        }
        let sql = self.sql(ask);
        let statement = self.client.prepare(&sql).map_err(from_postgres)?;
        self.prepared.push((ask, statement.clone()));
        Ok(statement)
    }

    fn sql(&self, ask: Ask) -> String {
        let here = if self.store.lazy_delete { " AND NOT gone" } else { "" };
        let array = match self.store.key_form {
            KeyForm::Digest => "text[]",
            KeyForm::Integer => "bigint[]",
        };
        let remove = |condition: &str| match self.store.lazy_delete {
            true => format!("UPDATE blobs SET gone = true WHERE {condition}"),
            false => format!("DELETE FROM blobs WHERE {condition}"),
        };
        match (ask, &self.store.shape) {
            (Ask::Delete, _) => remove("key = $1"),
            (Ask::DeleteBatch, _) => remove(&format!("key = ANY($1::{array})")),
            (Ask::List, _) => format!("SELECT key FROM blobs WHERE true{here}"),
            (Ask::Put, Shape::Bytea { .. }) => "INSERT INTO blobs(key, data) VALUES ($1, $2)
                ON CONFLICT (key) DO UPDATE SET data = EXCLUDED.data, gone = false"
                .to_owned(),
            (Ask::PutBatch, Shape::Bytea { .. }) => format!(
                "INSERT INTO blobs(key, data) SELECT * FROM unnest($1::{array}, $2::bytea[])
                 ON CONFLICT (key) DO UPDATE SET data = EXCLUDED.data, gone = false"
            ),
            (Ask::Get, Shape::Bytea { .. }) => format!("SELECT data FROM blobs WHERE key = $1{here}"),
            (Ask::Part, Shape::Bytea { .. }) => {
                format!("SELECT substring(data FROM $2::int FOR $3::int) FROM blobs WHERE key = $1{here}")
            }
            (Ask::GetMany, Shape::Bytea { .. }) => {
                format!("SELECT key, data FROM blobs WHERE key = ANY($1::{array}){here}")
            }
            (Ask::Put, Shape::Chunked { .. }) => "WITH put AS (
                    INSERT INTO blobs(key, version) VALUES ($1, 1)
                    ON CONFLICT (key) DO UPDATE SET version = blobs.version + 1, gone = false
                    RETURNING id, version),
                old AS (DELETE FROM pieces USING put WHERE pieces.blob = put.id AND pieces.version < put.version)
                INSERT INTO pieces SELECT put.id, put.version, piece.number - 1, piece.data
                FROM put, unnest($2::bytea[]) WITH ORDINALITY AS piece(data, number)"
                .to_owned(),
            // The outer join keeps a row for a blob without pieces: an empty one.
            (Ask::Get, Shape::Chunked { .. }) => format!(
                "SELECT p.data FROM blobs b LEFT JOIN pieces p ON p.blob = b.id AND p.version = b.version
                 WHERE b.key = $1{here} ORDER BY p.number"
            ),
            (Ask::Part, Shape::Chunked { .. }) => format!(
                "SELECT p.data FROM blobs b LEFT JOIN pieces p ON p.blob = b.id AND p.version = b.version
                    AND p.number BETWEEN $2 AND $3
                 WHERE b.key = $1{here} ORDER BY p.number"
            ),
            (Ask::GetMany, Shape::Chunked { .. }) => format!(
                "SELECT b.key, p.data FROM blobs b LEFT JOIN pieces p ON p.blob = b.id AND p.version = b.version
                 WHERE b.key = ANY($1::{array}){here} ORDER BY b.id, p.number"
            ),
            (Ask::Put, Shape::LargeObject { buffer: None }) => {
                "INSERT INTO blobs(key, object) VALUES ($1, lo_from_bytea(0, $2))
                 ON CONFLICT (key) DO UPDATE SET object = EXCLUDED.object, gone = false"
                    .to_owned()
            }
            (Ask::PutRow, _) => format!(
                "INSERT INTO blobs(key, object) VALUES ($1, lo_create(0))
                 ON CONFLICT (key) DO UPDATE SET object = EXCLUDED.object, gone = false
                 RETURNING lo_open(object, {WRITE})"
            ),
            (Ask::Get, Shape::LargeObject { buffer: None }) => {
                format!("SELECT lo_get(object) FROM blobs WHERE key = $1{here}")
            }
            (Ask::Part, Shape::LargeObject { buffer: None }) => {
                format!("SELECT lo_get(object, $2, $3) FROM blobs WHERE key = $1{here}")
            }
            (Ask::Get | Ask::Part, Shape::LargeObject { .. }) => {
                format!("SELECT lo_open(object, {READ}) FROM blobs WHERE key = $1{here}")
            }
            (Ask::WritePiece, _) => "SELECT lowrite($1, $2)".to_owned(),
            (Ask::ReadPiece, _) => "SELECT loread($1, $2)".to_owned(),
            (Ask::Seek, _) => "SELECT lo_lseek64($1, $2, 0)".to_owned(),
            // Large objects have no batches, and a put through a buffer is `PutRow` and `WritePiece`.
            (Ask::Put | Ask::PutBatch | Ask::GetMany, Shape::LargeObject { .. }) => String::new(),
            (Ask::PutBatch, Shape::Chunked { .. }) => String::new(),
        }
    }

    /// Runs a statement that changes rows.
    fn run(&mut self, ask: Ask, params: &[&(dyn ToSql + Sync)]) -> Result<u64> {
        let statement = self.statement(ask)?;
        self.client.execute(&statement, params).map_err(from_postgres)
    }

    /// Lends each row's value of one column as it arrives; `None` values are no bytes. Returns whether there was a row.
    fn lend(&mut self, ask: Ask, params: &[&(dyn ToSql + Sync)], sink: Sink) -> Result<bool> {
        let statement = self.statement(ask)?;
        let mut rows = self.client.query_raw(&statement, params.iter().copied()).map_err(from_postgres)?;
        let mut found = false;
        while let Some(row) = rows.next().map_err(from_postgres)? {
            found = true;
            if let Some(bytes) = row.get::<_, Option<&[u8]>>(0) {
                sink(bytes);
            }
        }
        Ok(found)
    }

    // ---- text: what escaping costs ---------------------------------------------------------------------------

    fn put_text(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        let mut sql = String::with_capacity(2 * blob.len() + 200);
        sql.push_str("INSERT INTO blobs(key, data) VALUES (");
        sql.push_str(&self.literal(key));
        sql.push_str(", '\\x");
        for byte in blob {
            for nibble in [byte >> 4, byte & 15] {
                sql.push(char::from(HEX[usize::from(nibble)]));
            }
        }
        sql.push_str("') ON CONFLICT (key) DO UPDATE SET data = EXCLUDED.data, gone = false");
        self.client.batch_execute(&sql).map_err(from_postgres)
    }

    fn get_text(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        let here = if self.store.lazy_delete { " AND NOT gone" } else { "" };
        let column = match span {
            Span::Whole => "data".to_owned(),
            Span::Part { .. } => {
                let (offset, len) = span.below(self.store.shape.limit().bytes);
                format!("substring(data FROM {} FOR {len})", offset + 1)
            }
        };
        let sql = format!("SELECT {column} FROM blobs WHERE key = {}{here}", self.literal(key));
        let messages = self.client.simple_query(&sql).map_err(from_postgres)?;
        let row = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let Some(row) = row else { return Ok(false) };
        let digits = row.get(0).and_then(|text| text.strip_prefix("\\x"));
        let digits = digits.ok_or_else(|| Error::Failed(anyhow!("bytea_output is not hex")))?.as_bytes();
        self.decoded.clear();
        self.decoded.extend(digits.chunks_exact(2).map(|pair| (value_of(pair[0]) << 4) | value_of(pair[1])));
        sink(&self.decoded);
        Ok(true)
    }

    /// A key as a literal; both forms consist of characters that need no escaping.
    fn literal(&self, key: &Key) -> String {
        match self.key(key) {
            KeyValue::Digest(text) => format!("'{text}'"),
            KeyValue::Integer(id) => id.to_string(),
        }
    }

    // ---- large objects through a buffer ----------------------------------------------------------------------

    fn put_object(&mut self, key: &Key, blob: &[u8], buffer: usize) -> Result<()> {
        catalogue::transaction(self, |session| {
            let put = session.statement(Ask::PutRow)?;
            let handle: i32 =
                session.client.query_one(&put, &[session.key(key).param()]).map_err(from_postgres)?.get(0);
            let write = session.statement(Ask::WritePiece)?;
            for piece in blob.chunks(buffer) {
                let written = session.client.query_one(&write, &[&handle, &piece]).map_err(from_postgres)?;
                if written.get::<_, i32>(0) as usize != piece.len() {
                    return Err(Error::Failed(anyhow!("a large object took part of a piece only")));
                }
            }
            Ok(())
        })
    }

    fn get_object(&mut self, key: &Key, span: Span, buffer: usize, sink: Sink) -> Result<bool> {
        catalogue::transaction(self, |session| {
            let open = session.statement(Ask::Get)?;
            let row = session.client.query_opt(&open, &[session.key(key).param()]).map_err(from_postgres)?;
            let Some(handle) = row.map(|row| row.get::<_, i32>(0)) else { return Ok(false) };
            let mut left = u64::MAX;
            if span != Span::Whole {
                let (offset, len) = span.below(session.store.shape.limit().bytes);
                let seek = session.statement(Ask::Seek)?;
                session.client.execute(&seek, &[&handle, &(offset as i64)]).map_err(from_postgres)?;
                left = len;
            }
            let read = session.statement(Ask::ReadPiece)?;
            while left > 0 {
                let want = left.min(buffer as u64) as i32;
                let row = session.client.query_one(&read, &[&handle, &want]).map_err(from_postgres)?;
                let piece: &[u8] = row.get(0);
                sink(piece);
                left -= piece.len() as u64;
                if piece.len() < want as usize {
                    break;
                }
            }
            Ok(true)
        })
    }
}

/// Without the blobs that a later one of the same batch replaces: one statement cannot change a row twice.
fn last_of_each<'b>(blobs: &'b [(Key, &'b [u8])]) -> Vec<(&'b Key, &'b [u8])> {
    let mut seen = HashSet::with_capacity(blobs.len());
    let mut last: Vec<(&Key, &[u8])> =
        blobs.iter().rev().filter(|(key, _)| seen.insert(key.hex)).map(|(key, blob)| (key, *blob)).collect();
    last.reverse();
    last
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn value_of(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => 0,
    }
}

/// The pieces of a blob, as an array parameter.
fn pieces(blob: &[u8], piece: usize) -> Vec<&[u8]> {
    blob.chunks(piece).collect()
}

/// The numbers of the pieces that hold a span, and how many bytes of the first one come before it.
fn pieces_of(offset: u64, len: u64, piece: u64) -> (i32, i32, u64) {
    let last = (offset + len).saturating_sub(1) / piece;
    ((offset / piece) as i32, last as i32, offset % piece)
}

impl Session for PgSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        self.store.shape.limit().check(blob)?;
        match self.store.shape {
            Shape::Bytea { text: true, .. } => self.put_text(key, blob),
            Shape::Bytea { .. } | Shape::LargeObject { buffer: None } => {
                self.run(Ask::Put, &[self.key(key).param(), &blob]).map(drop)
            }
            Shape::Chunked { piece } => {
                self.run(Ask::Put, &[self.key(key).param(), &pieces(blob, piece)]).map(drop)
            }
            Shape::LargeObject { buffer: Some(buffer) } => self.put_object(key, blob, buffer),
        }
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        let value = self.key(key);
        // No blob reaches further, and the statements count in smaller numbers than a span does.
        let (offset, len) = span.below(self.store.shape.limit().bytes);
        match (&self.store.shape, span) {
            (Shape::Bytea { text: true, .. }, span) => self.get_text(key, span, sink),
            (Shape::LargeObject { buffer: Some(buffer) }, span) => self.get_object(key, span, *buffer, sink),
            (_, Span::Whole) => self.lend(Ask::Get, &[value.param()], sink),
            // Positions in SQL count from 1.
            (Shape::Bytea { .. }, Span::Part { .. }) => {
                self.lend(Ask::Part, &[value.param(), &(offset as i32 + 1), &(len as i32)], sink)
            }
            (Shape::LargeObject { .. }, Span::Part { .. }) => {
                self.lend(Ask::Part, &[value.param(), &(offset as i64), &(len as i32)], sink)
            }
            (Shape::Chunked { piece }, Span::Part { .. }) => {
                let (first, last, mut skip) = pieces_of(offset, len, *piece as u64);
                // A span of nothing asks for no piece, only whether the blob is there.
                let last = if len == 0 { first - 1 } else { last };
                let mut left = len;
                self.lend(Ask::Part, &[value.param(), &first, &last], &mut |bytes| {
                    let part = Span::Part { offset: skip, len: left }.slice_of(bytes);
                    skip = 0;
                    left -= part.len() as u64;
                    if !part.is_empty() {
                        sink(part);
                    }
                })
            }
        }
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.run(Ask::Delete, &[self.key(key).param()]).map(drop)
    }

    /// Commits a marker and waits for its flush, which covers every earlier commit.
    fn sync(&mut self) -> Result<()> {
        if self.store.durability != Durability::OnSync {
            return Ok(());
        }
        const SYNC: &str =
            "BEGIN; SET LOCAL synchronous_commit = on; UPDATE marker SET count = count + 1; COMMIT";
        self.client.batch_execute(SYNC).map_err(from_postgres)
    }

    fn connect(&mut self) -> Result<()> {
        self.prepared.clear();
        self.client = connect(self.store)?;
        Ok(())
    }

    fn catalogue(&mut self) -> Result<&mut dyn Catalogue> {
        Ok(self)
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        if self.store.key_form == KeyForm::Integer {
            return Err(Error::Unsupported("list"));
        }
        let statement = self.statement(Ask::List)?;
        let none: [&(dyn ToSql + Sync); 0] = [];
        let mut rows = self.client.query_raw(&statement, none).map_err(from_postgres)?;
        while let Some(row) = rows.next().map_err(from_postgres)? {
            each(row.get(0));
        }
        Ok(())
    }

    fn put_batch(&mut self, blobs: &[(Key, &[u8])]) -> Result<()> {
        blobs.iter().try_for_each(|(_, blob)| self.store.shape.limit().check(blob))?;
        match self.store.shape {
            Shape::Bytea { text: false, .. } => {
                let (keys, values): (Vec<&Key>, Vec<&[u8]>) = last_of_each(blobs).into_iter().unzip();
                self.with_keys(Ask::PutBatch, &keys, Some(&values))
            }
            Shape::LargeObject { .. } => Err(Error::Unsupported("a batch of puts")),
            Shape::Bytea { .. } | Shape::Chunked { .. } => catalogue::transaction(self, |session| {
                blobs.iter().try_for_each(|(key, blob)| session.put(key, blob))
            }),
        }
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        if matches!(self.store.shape, Shape::LargeObject { .. }) {
            return Err(Error::Unsupported("a get of many"));
        }
        let statement = self.statement(Ask::GetMany)?;
        let digests: Vec<&str> = keys.iter().map(Key::as_str).collect();
        let ids: Vec<i64> = keys.iter().map(|key| key.id as i64).collect();
        let digest = self.store.key_form == KeyForm::Digest;
        let array: &(dyn ToSql + Sync) = if digest { &digests } else { &ids };
        let mut rows = self.client.query_raw(&statement, [array]).map_err(from_postgres)?;
        let mut found = vec![false; keys.len()];
        while let Some(row) = rows.next().map_err(from_postgres)? {
            let asked = |index: &usize| match digest {
                true => digests[*index] == row.get::<_, &str>(0),
                false => ids[*index] == row.get::<_, i64>(0),
            };
            // A key may be asked for several times, and has one row.
            for index in (0..keys.len()).filter(asked) {
                found[index] = true;
                if let Some(bytes) = row.get::<_, Option<&[u8]>>(1) {
                    sink(index, bytes);
                }
            }
        }
        Ok(found.into_iter().filter(|found| *found).count())
    }

    fn delete_batch(&mut self, keys: &[Key]) -> Result<()> {
        if matches!(self.store.shape, Shape::LargeObject { .. }) {
            return Err(Error::Unsupported("a batch of deletes"));
        }
        self.with_keys(Ask::DeleteBatch, &keys.iter().collect::<Vec<_>>(), None)
    }
}

impl PgSession<'_> {
    /// Runs a statement whose first parameter is an array of keys, and whose second one may be an array of blobs.
    fn with_keys(&mut self, ask: Ask, keys: &[&Key], blobs: Option<&Vec<&[u8]>>) -> Result<()> {
        let digests: Vec<&str> = keys.iter().map(|key| key.as_str()).collect();
        let ids: Vec<i64> = keys.iter().map(|key| key.id as i64).collect();
        let array: &(dyn ToSql + Sync) = if self.store.key_form == KeyForm::Digest { &digests } else { &ids };
        match blobs {
            Some(blobs) => self.run(ask, &[array, blobs]).map(drop),
            None => self.run(ask, &[array]).map(drop),
        }
    }
}
