//! One worker's connection to PostgreSQL: the statements of each layout.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::anyhow;

use super::{Postgres, PostgresLayout, UNIQUE_VIOLATION};
use crate::store::*;
use crate::stores::common::catalogue;
use crate::stores::common::keys::{KeyBytes, KeyForm, KeyPositions};
use crate::wire::postgres::{
    BIGINT, BYTEA, PostgresClient, RequestOutcome, Statement, StatementParameter, TEXT, ValueSink,
    first_number,
};

/// The statements of a session, each prepared on first use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SessionStatement {
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

pub(super) struct PostgresSession<'s> {
    store: &'s Postgres,
    client: PostgresClient,
    /// Counts as an open session until the connection is closed.
    _open: Arc<()>,
    prepared: Vec<(SessionStatement, Statement)>,
    prepared_for_catalogue: Vec<(&'static str, Statement)>,
    /// True while in a transaction that the caller began and will end.
    within: bool,
}

impl PostgresSession<'_> {
    /// A statement of the catalogue, prepared once per connection.
    fn statement_for_catalogue(&mut self, sql: &'static str) -> Result<Statement> {
        if let Some((_, statement)) =
            self.prepared_for_catalogue.iter().find(|(known, _)| std::ptr::eq(*known, sql))
        {
            return Ok(*statement);
        }
        let statement =
            self.client.prepare(&catalogue::numbered(&catalogue::qualified(sql, &self.store.schema)))?;
        self.prepared_for_catalogue.push((sql, statement));
        Ok(statement)
    }
}

fn param<'p>(param: &'p catalogue::CatalogueParameter) -> StatementParameter<'p> {
    match param {
        catalogue::CatalogueParameter::Text(text) => StatementParameter::Bytes(text.as_bytes()),
        catalogue::CatalogueParameter::Number(number) => StatementParameter::Bigint(*number),
    }
}

impl catalogue::CatalogueConnection for PostgresSession<'_> {
    const BEGIN: &'static str = "BEGIN";

    fn execute(&mut self, sql: &str) -> Result<()> {
        // COMMIT of a failed transaction rolls back, which the server does not report as an error.
        if self.client.run(sql)?.rolled_back && sql == "COMMIT" {
            bail!("the transaction was rolled back instead of committed");
        }
        Ok(())
    }

    fn within(&mut self) -> &mut bool {
        &mut self.within
    }

    fn change(&mut self, sql: &'static str, params: &[catalogue::CatalogueParameter]) -> Result<u64> {
        let statement = self.statement_for_catalogue(sql)?;
        let params: Vec<StatementParameter> = params.iter().map(param).collect();
        match self.client.query(statement, &params, &mut |_, _| {}) {
            // Another session is storing the same digest.
            Err(trouble) if trouble.code() == Some(UNIQUE_VIOLATION) => Err(Error::Busy),
            done => Ok(done?.count),
        }
    }

    fn number(&mut self, sql: &'static str, params: &[catalogue::CatalogueParameter]) -> Result<Option<i64>> {
        let statement = self.statement_for_catalogue(sql)?;
        let params: Vec<StatementParameter> = params.iter().map(param).collect();
        Ok(first_number(|each| self.client.query(statement, &params, each))?)
    }
}

/// SQLSTATE `too_many_connections`, possibly because of processes that are about to end.
const NO_CONNECTION_FREE: &str = "53300";

/// Flags of `lo_open`.
const READ: i32 = 0x40000;
const WRITE: i32 = 0x20000;

impl<'s> PostgresSession<'s> {
    pub(super) fn open(store: &'s Postgres) -> Result<PostgresSession<'s>> {
        Ok(PostgresSession {
            store,
            client: PostgresClient::connect(&store.config)?,
            _open: Arc::clone(&store.sessions),
            prepared: Vec::new(),
            prepared_for_catalogue: Vec::new(),
            within: false,
        })
    }

    /// Opens a session in a read-only transaction whose snapshot is taken now.
    pub(super) fn open_within(store: &'s Postgres) -> Result<PostgresSession<'s>> {
        let mut session = PostgresSession::open(store)?;
        session.client.run("BEGIN READ ONLY")?;
        // The first query takes the snapshot.
        session.client.run("SELECT 1")?;
        session.within = true;
        Ok(session)
    }

    /// A key as a parameter of the column's type.
    fn key<'k>(&self, key: &'k Key) -> StatementParameter<'k> {
        match self.store.key_form {
            KeyForm::Digest => StatementParameter::Bytes(&key.hex),
            KeyForm::Integer => StatementParameter::Bigint(key.id as i64),
        }
    }

    /// Keys as array elements.
    fn members<'k>(&self, keys: impl IntoIterator<Item = &'k Key>) -> Vec<KeyBytes<'k>> {
        keys.into_iter().map(|key| self.store.key_form.bytes(key)).collect()
    }

    fn array<'p>(&self, members: &'p [&'p [u8]]) -> StatementParameter<'p> {
        match self.store.key_form {
            KeyForm::Digest => StatementParameter::Array(TEXT, members),
            KeyForm::Integer => StatementParameter::Array(BIGINT, members),
        }
    }

    /// The statement, prepared once per connection.
    fn statement(&mut self, ask: SessionStatement) -> Result<Statement> {
        if let Some((_, statement)) = self.prepared.iter().find(|(known, _)| *known == ask) {
            return Ok(*statement);
        }
        let sql = self.sql(ask);
        let statement = self.client.prepare(&sql)?;
        self.prepared.push((ask, statement));
        Ok(statement)
    }

    fn sql(&self, ask: SessionStatement) -> String {
        let (here, schema) = (if self.store.lazy_delete { " AND NOT gone" } else { "" }, &self.store.schema);
        let array = match self.store.key_form {
            KeyForm::Digest => "text[]",
            KeyForm::Integer => "bigint[]",
        };
        let remove = |condition: &str| match self.store.lazy_delete {
            true => format!("UPDATE {schema}.blobs SET gone = true WHERE {condition}"),
            false => format!("DELETE FROM {schema}.blobs WHERE {condition}"),
        };
        match (ask, &self.store.shape) {
            (SessionStatement::Delete, _) => remove("key = $1"),
            (SessionStatement::DeleteBatch, _) => remove(&format!("key = ANY($1::{array})")),
            (SessionStatement::List, _) => format!("SELECT key FROM {schema}.blobs WHERE true{here}"),
            (_, PostgresLayout::Bytea { .. }) => sql_of_a_column(ask, schema, here, array),
            (_, PostgresLayout::Chunked { .. }) => sql_of_pieces(ask, schema, here, array),
            (_, PostgresLayout::LargeObject { buffer }) => {
                sql_of_large_objects(ask, schema, here, buffer.is_some())
            }
        }
    }

    /// Runs a statement for its effect and returns the number of changed rows.
    fn run(&mut self, ask: SessionStatement, params: &[StatementParameter]) -> Result<u64> {
        Ok(self.query(ask, params, &mut |_, _| {})?.count)
    }

    /// Runs a statement that must add or replace `rows` rows.
    fn put_rows(&mut self, ask: SessionStatement, params: &[StatementParameter], rows: usize) -> Result<()> {
        all_rows(self.run(ask, params)?, rows)
    }

    fn query(
        &mut self,
        ask: SessionStatement,
        params: &[StatementParameter],
        each: ValueSink,
    ) -> Result<RequestOutcome> {
        let statement = self.statement(ask)?;
        Ok(self.client.query(statement, params, each)?)
    }

    /// The number that a statement returns; `None` without a row.
    fn ask_number(&mut self, ask: SessionStatement, params: &[StatementParameter]) -> Result<Option<i64>> {
        let statement = self.statement(ask)?;
        Ok(first_number(|each| self.client.query(statement, params, each))?)
    }

    /// Lends the values of one column as they arrive; NULL lends nothing. Returns whether there was a row.
    fn lend(&mut self, ask: SessionStatement, params: &[StatementParameter], sink: Sink) -> Result<bool> {
        let done = match &self.store.shape {
            PostgresLayout::Bytea { text: true, .. } => {
                self.lend_text(ask, params, HexDecoder::default(), sink)?
            }
            PostgresLayout::Chunked { text: true, piece, .. } => {
                self.lend_text(ask, params, HexDecoder::in_pieces_of(*piece), sink)?
            }
            _ => self.query(ask, params, &mut |_, value| {
                if let Some(bytes) = value {
                    sink(bytes);
                }
            })?,
        };
        Ok(done.rows > 0)
    }

    // ---- the text format -------------------------------------------------------------------------------------

    fn put_text(&mut self, key: &Key, values: &[&[u8]]) -> Result<()> {
        let is_array = matches!(self.store.shape, PostgresLayout::Chunked { .. });
        let sql = with_literals(&self.sql(SessionStatement::Put), &[self.key(key)]);
        let (head, tail) = sql.split_once("$2").unwrap_or((&sql, ""));
        let digits: usize = values.iter().map(|value| 2 * value.len() + "'\\x',".len()).sum();
        let mut text = Vec::with_capacity(sql.len() + digits + "ARRAY[]".len());
        text.extend_from_slice(head.as_bytes());
        text.extend_from_slice(if is_array { b"ARRAY[" } else { b"" });
        for (index, value) in values.iter().enumerate() {
            text.extend_from_slice(if index > 0 { b",'\\x" } else { b"'\\x" });
            let start = text.len();
            text.resize(start + 2 * value.len(), 0);
            const_hex::encode_to_slice(value, &mut text[start..])
                .map_err(|error| anyhow!(error.to_string()))?;
            text.push(b'\'');
        }
        text.extend_from_slice(if is_array { b"]" } else { b"" });
        text.extend_from_slice(tail.as_bytes());
        let changed = self.client.run(std::str::from_utf8(&text).map_err(Error::failed)?)?.count;
        all_rows(changed, values.len())
    }

    fn lend_text(
        &mut self,
        ask: SessionStatement,
        params: &[StatementParameter],
        mut digits: HexDecoder,
        sink: Sink,
    ) -> Result<RequestOutcome> {
        let sql = with_literals(&self.sql(ask), params);
        let done = self.client.simple(&sql, &mut |_, value| {
            if let Some(text) = value {
                digits.decode(text, sink);
            }
        })?;
        ensure!(digits.are_whole(), "bytea_output is not hex");
        Ok(done)
    }

    // ---- large objects through a buffer ----------------------------------------------------------------------

    fn put_object(&mut self, key: &Key, blob: &[u8], buffer: usize) -> Result<()> {
        catalogue::transaction(self, |session| {
            let handle = session.ask_number(SessionStatement::PutRow, &[session.key(key)])?;
            let handle = handle.ok_or_else(|| Error::Failed(anyhow!("a new large object has no handle")))?;
            for piece in blob.chunks(buffer) {
                let params = [StatementParameter::Int(handle as i32), StatementParameter::Bytes(piece)];
                ensure!(
                    session.ask_number(SessionStatement::WritePiece, &params)? == Some(piece.len() as i64),
                    "a large object took part of a piece only"
                );
            }
            Ok(())
        })
    }

    fn get_object(&mut self, key: &Key, span: Span, buffer: usize, sink: Sink) -> Result<bool> {
        catalogue::transaction(self, |session| {
            let Some(handle) = session.ask_number(SessionStatement::Get, &[session.key(key)])? else {
                return Ok(false);
            };
            let handle = StatementParameter::Int(handle as i32);
            let mut left = u64::MAX;
            if span != Span::Whole {
                let (offset, len) = span.below(session.store.shape.limit().bytes);
                session.run(SessionStatement::Seek, &[handle, StatementParameter::Bigint(offset as i64)])?;
                left = len;
            }
            while left > 0 {
                let want = left.min(buffer as u64);
                let mut got = 0;
                session.lend(
                    SessionStatement::ReadPiece,
                    &[handle, StatementParameter::Int(want as i32)],
                    &mut |bytes| {
                        got += bytes.len() as u64;
                        sink(bytes);
                    },
                )?;
                left -= got;
                if got < want {
                    break;
                }
            }
            Ok(true)
        })
    }
}

/// Returns an error if a put changed another number of rows than `rows`.
fn all_rows(changed: u64, rows: usize) -> Result<()> {
    ensure!(changed == rows as u64, "a put changed {changed} rows instead of {rows}");
    Ok(())
}

/// Replaces the statement's parameters by literals: keys, which need no escaping, and numbers.
fn with_literals(sql: &str, params: &[StatementParameter]) -> String {
    params.iter().enumerate().fold(sql.to_owned(), |sql, (index, param)| {
        let literal = match param {
            StatementParameter::Bytes(key) => format!("'{}'", String::from_utf8_lossy(key)),
            StatementParameter::Int(number) => number.to_string(),
            StatementParameter::Bigint(number) => number.to_string(),
            StatementParameter::Array(..) => return sql,
        };
        sql.replace(&format!("${}", index + 1), &literal)
    })
}

/// Keeps the last blob of each key: one statement cannot change a row twice.
fn last_of_each<'b>(blobs: &'b [(Key, &'b [u8])]) -> Vec<(&'b Key, &'b [u8])> {
    let mut seen = HashSet::with_capacity(blobs.len());
    let mut last: Vec<(&Key, &[u8])> =
        blobs.iter().rev().filter(|(key, _)| seen.insert(key.hex)).map(|(key, blob)| (key, *blob)).collect();
    last.reverse();
    last
}

/// Incremental decoder of PostgreSQL's hex format: `\x`, then two digits per byte.
#[derive(Default)]
struct HexDecoder {
    /// Characters per value if several values follow each other.
    each: Option<usize>,
    /// Characters of the current value so far.
    seen: usize,
    /// First digit of a byte whose second digit has not arrived.
    half: Option<u8>,
    /// True if the text was not in hex format.
    wrong: bool,
    /// Bytes decoded last; anything after them is stale.
    room: Vec<u8>,
}

impl HexDecoder {
    const PREFIX: &[u8] = b"\\x";

    /// Decodes several values, all but the last with `piece` bytes.
    fn in_pieces_of(piece: usize) -> HexDecoder {
        HexDecoder { each: Some(Self::PREFIX.len() + 2 * piece), ..HexDecoder::default() }
    }

    /// Decodes the text of a value, or of a part of one.
    fn decode(&mut self, mut text: &[u8], sink: Sink) {
        while let (Some(meant), Some((first, rest))) = (Self::PREFIX.get(self.seen), text.split_first()) {
            self.wrong |= first != meant;
            self.seen += 1;
            text = rest;
        }
        self.seen += text.len();
        self.room.resize(self.room.len().max(text.len().div_ceil(2)), 0);
        let mut len = 0;
        if let (Some(high), Some((low, rest))) = (self.half, text.split_first()) {
            self.half = None;
            len += self.bytes(&[high, *low], len);
            text = rest;
        }
        let (pairs, rest) = text.split_at(text.len() / 2 * 2);
        self.half = rest.first().copied().or(self.half);
        len += self.bytes(pairs, len);
        sink(&self.room[..len]);
        if self.each == Some(self.seen) {
            self.seen = 0;
        }
    }

    /// Decodes pairs of digits into the buffer and returns the number of bytes.
    fn bytes(&mut self, pairs: &[u8], at: usize) -> usize {
        let len = pairs.len() / 2;
        self.wrong |= const_hex::decode_to_slice(pairs, &mut self.room[at..at + len]).is_err();
        len
    }

    /// True if all text so far was complete hex format, or empty.
    fn are_whole(&self) -> bool {
        let is_begun = (1..Self::PREFIX.len()).contains(&self.seen);
        !self.wrong && !is_begun && self.half.is_none()
    }
}

/// The pieces of a blob, for an array parameter.
fn pieces(blob: &[u8], piece: usize) -> Vec<&[u8]> {
    blob.chunks(piece).collect()
}

/// First and last piece of a span, and the bytes of the first piece before the span.
fn pieces_of(offset: u64, len: u64, piece: u64) -> (i32, i32, u64) {
    let last = (offset + len).saturating_sub(1) / piece;
    ((offset / piece) as i32, last as i32, offset % piece)
}

impl Session for PostgresSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        self.store.shape.limit().check(blob)?;
        match self.store.shape {
            PostgresLayout::Bytea { text: true, .. } => self.put_text(key, &[blob]),
            PostgresLayout::Chunked { text: true, piece, .. } => self.put_text(key, &pieces(blob, piece)),
            PostgresLayout::Bytea { .. } | PostgresLayout::LargeObject { buffer: None } => {
                self.put_rows(SessionStatement::Put, &[self.key(key), StatementParameter::Bytes(blob)], 1)
            }
            PostgresLayout::Chunked { piece, .. } => {
                let pieces = pieces(blob, piece);
                self.put_rows(
                    SessionStatement::Put,
                    &[self.key(key), StatementParameter::Array(BYTEA, &pieces)],
                    pieces.len(),
                )
            }
            PostgresLayout::LargeObject { buffer: Some(buffer) } => self.put_object(key, blob, buffer),
        }
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        let value = self.key(key);
        // No blob is longer, and the statements have smaller integers than a span.
        let (offset, len) = span.below(self.store.shape.limit().bytes);
        match (&self.store.shape, span) {
            (PostgresLayout::LargeObject { buffer: Some(buffer) }, span) => {
                self.get_object(key, span, *buffer, sink)
            }
            (_, Span::Whole) => self.lend(SessionStatement::Get, &[value], sink),
            // SQL positions start at 1.
            (PostgresLayout::Bytea { .. }, Span::Part { .. }) => self.lend(
                SessionStatement::Part,
                &[value, StatementParameter::Int(offset as i32 + 1), StatementParameter::Int(len as i32)],
                sink,
            ),
            (PostgresLayout::LargeObject { .. }, Span::Part { .. }) => self.lend(
                SessionStatement::Part,
                &[value, StatementParameter::Bigint(offset as i64), StatementParameter::Int(len as i32)],
                sink,
            ),
            (PostgresLayout::Chunked { piece, .. }, Span::Part { .. }) => {
                let (first, last, mut skip) = pieces_of(offset, len, *piece as u64);
                // An empty span reads no piece, and only tests whether the blob exists.
                let last = if len == 0 { first - 1 } else { last };
                let mut left = len;
                self.lend(
                    SessionStatement::Part,
                    &[value, StatementParameter::Int(first), StatementParameter::Int(last)],
                    &mut |bytes| {
                        let part = Span::Part { offset: skip, len: left }.slice_of(bytes);
                        skip = skip.saturating_sub(bytes.len() as u64);
                        left -= part.len() as u64;
                        if !part.is_empty() {
                            sink(part);
                        }
                    },
                )
            }
        }
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.run(SessionStatement::Delete, &[self.key(key)]).map(drop)
    }

    /// Commits a logical message and waits for its flush, which covers every earlier commit. The message has no reader. Being
    /// transactional, it makes the transaction a writing one, whose commit is flushed; it has no row on which sessions could wait
    /// or conflict.
    fn sync(&mut self) -> Result<()> {
        if self.store.durability != Durability::OnSync {
            return Ok(());
        }
        const SYNC: &str = "BEGIN; SET LOCAL synchronous_commit = on;
            SELECT pg_logical_emit_message(true, 'blobwise', 'sync'::text); COMMIT";
        if let Err(trouble) = self.client.run(SYNC) {
            // Otherwise the session would stay in the failed transaction. The first error is the one to report.
            self.client.run("ROLLBACK").ok();
            return Err(trouble.into());
        }
        Ok(())
    }

    fn connect(&mut self) -> Result<()> {
        self.prepared.clear();
        self.prepared_for_catalogue.clear();
        self.client =
            PostgresClient::connect(&self.store.config).map_err(|trouble| match trouble.code() {
                Some(NO_CONNECTION_FREE) => Error::Busy,
                _ => trouble.into(),
            })?;
        Ok(())
    }

    fn catalogue(&mut self) -> Result<&mut dyn Catalogue> {
        Ok(self)
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        self.store.key_form.check_list()?;
        self.query(SessionStatement::List, &[], &mut |_, value| {
            each(&String::from_utf8_lossy(value.unwrap_or_default()));
        })?;
        Ok(())
    }

    fn put_batch(&mut self, blobs: &[(Key, &[u8])]) -> Result<()> {
        blobs.iter().try_for_each(|(_, blob)| self.store.shape.limit().check(blob))?;
        match self.store.shape {
            PostgresLayout::Bytea { text: false, .. } => {
                let (keys, values): (Vec<&Key>, Vec<&[u8]>) = last_of_each(blobs).into_iter().unzip();
                let members = self.members(keys);
                let members: Vec<&[u8]> = members.iter().map(|key| &**key).collect();
                let params = [self.array(&members), StatementParameter::Array(BYTEA, &values)];
                self.put_rows(SessionStatement::PutBatch, &params, values.len())
            }
            PostgresLayout::LargeObject { .. } => Err(Error::Unsupported("a batch of puts")),
            PostgresLayout::Bytea { .. } | PostgresLayout::Chunked { .. } => {
                catalogue::transaction(self, |session| {
                    blobs.iter().try_for_each(|(key, blob)| session.put(key, blob))
                })
            }
        }
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        if matches!(self.store.shape, PostgresLayout::LargeObject { .. }) {
            return Err(Error::Unsupported("a get of many"));
        }
        let members = self.members(keys);
        let members: Vec<&[u8]> = members.iter().map(|key| &**key).collect();
        let asked = KeyPositions::new(members.iter().copied());
        let mut found = vec![false; members.len()];
        // Positions of the current row's key in the request.
        let mut places: &[usize] = &[];
        self.query(SessionStatement::GetMany, &[self.array(&members)], &mut |column, value| match (
            column, value,
        ) {
            (0, name) => {
                places = asked.places(name.unwrap_or_default());
                places.iter().for_each(|index| found[*index] = true);
            }
            (_, Some(bytes)) => places.iter().for_each(|index| sink(*index, bytes)),
            (_, None) => {}
        })?;
        Ok(found.into_iter().filter(|found| *found).count())
    }

    fn delete_batch(&mut self, keys: &[Key]) -> Result<()> {
        if matches!(self.store.shape, PostgresLayout::LargeObject { .. }) {
            return Err(Error::Unsupported("a batch of deletes"));
        }
        let members = self.members(keys);
        let members: Vec<&[u8]> = members.iter().map(|key| &**key).collect();
        self.run(SessionStatement::DeleteBatch, &[self.array(&members)]).map(drop)
    }
}

/// Statements for blobs in a column; empty for those that this layout never uses.
fn sql_of_a_column(ask: SessionStatement, schema: &str, here: &str, array: &str) -> String {
    match ask {
        SessionStatement::Put => format!(
            "INSERT INTO {schema}.blobs(key, data) VALUES ($1, $2)
             ON CONFLICT (key) DO UPDATE SET data = EXCLUDED.data, gone = false"
        ),
        SessionStatement::PutBatch => format!(
            "INSERT INTO {schema}.blobs(key, data) SELECT * FROM unnest($1::{array}, $2::bytea[])
             ON CONFLICT (key) DO UPDATE SET data = EXCLUDED.data, gone = false"
        ),
        SessionStatement::Get => format!("SELECT data FROM {schema}.blobs WHERE key = $1{here}"),
        SessionStatement::Part => {
            format!(
                "SELECT substring(data FROM $2::int FOR $3::int) FROM {schema}.blobs WHERE key = $1{here}"
            )
        }
        SessionStatement::GetMany => {
            format!("SELECT key, data FROM {schema}.blobs WHERE key = ANY($1::{array}){here}")
        }
        _ => String::new(),
    }
}

/// Statements for blobs in pieces; empty for those that this layout never uses.
fn sql_of_pieces(ask: SessionStatement, schema: &str, here: &str, array: &str) -> String {
    match ask {
        SessionStatement::Put => format!(
            "WITH put AS (
                INSERT INTO {schema}.blobs(key, version) VALUES ($1, 1)
                ON CONFLICT (key) DO UPDATE SET version = blobs.version + 1, gone = false
                RETURNING id, version),
            old AS (DELETE FROM {schema}.pieces USING put WHERE pieces.blob = put.id AND pieces.version < put.version)
            INSERT INTO {schema}.pieces SELECT put.id, put.version, piece.number - 1, piece.data
            FROM put, unnest($2::bytea[]) WITH ORDINALITY AS piece(data, number)"
        ),
        // The outer join keeps a row for a blob without pieces, which is empty.
        SessionStatement::Get => format!(
            "SELECT p.data FROM {schema}.blobs b LEFT JOIN {schema}.pieces p ON p.blob = b.id AND p.version = b.version
             WHERE b.key = $1{here} ORDER BY p.number"
        ),
        SessionStatement::Part => format!(
            "SELECT p.data FROM {schema}.blobs b LEFT JOIN {schema}.pieces p ON p.blob = b.id AND p.version = b.version
                AND p.number BETWEEN $2 AND $3
             WHERE b.key = $1{here} ORDER BY p.number"
        ),
        SessionStatement::GetMany => format!(
            "SELECT b.key, p.data FROM {schema}.blobs b LEFT JOIN {schema}.pieces p ON p.blob = b.id AND p.version = b.version
             WHERE b.key = ANY($1::{array}){here} ORDER BY b.id, p.number"
        ),
        _ => String::new(),
    }
}

/// Statements for large objects, whole or through a buffer, where a put is `PutRow` and `WritePiece`; empty for those that this
/// layout never uses.
fn sql_of_large_objects(ask: SessionStatement, schema: &str, here: &str, buffered: bool) -> String {
    match ask {
        SessionStatement::Put if !buffered => format!(
            "INSERT INTO {schema}.blobs(key, object) VALUES ($1, lo_from_bytea(0, $2))
             ON CONFLICT (key) DO UPDATE SET object = EXCLUDED.object, gone = false"
        ),
        SessionStatement::PutRow => format!(
            "INSERT INTO {schema}.blobs(key, object) VALUES ($1, lo_create(0))
             ON CONFLICT (key) DO UPDATE SET object = EXCLUDED.object, gone = false
             RETURNING lo_open(object, {WRITE})"
        ),
        SessionStatement::Get if !buffered => {
            format!("SELECT lo_get(object) FROM {schema}.blobs WHERE key = $1{here}")
        }
        SessionStatement::Part if !buffered => {
            format!("SELECT lo_get(object, $2, $3) FROM {schema}.blobs WHERE key = $1{here}")
        }
        SessionStatement::Get | SessionStatement::Part => {
            format!("SELECT lo_open(object, {READ}) FROM {schema}.blobs WHERE key = $1{here}")
        }
        SessionStatement::WritePiece => "SELECT lowrite($1, $2)".to_owned(),
        SessionStatement::ReadPiece => "SELECT loread($1, $2)".to_owned(),
        SessionStatement::Seek => "SELECT lo_lseek64($1, $2, 0)".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_each_other_and_the_last_may_be_shorter() {
        for last in ["", "\\x62", "\\x6263"] {
            let (mut digits, mut bytes) = (HexDecoder::in_pieces_of(2), Vec::new());
            let mut decode =
                |text: &str| digits.decode(text.as_bytes(), &mut |more| bytes.extend_from_slice(more));
            ["\\x6", "161", "\\x6161", last].into_iter().for_each(&mut decode);
            assert!(digits.are_whole());
            assert_eq!(bytes.len(), 4 + last.len().saturating_sub(2) / 2);
        }
    }

    #[test]
    fn digits_may_be_split_anywhere() {
        let blob: Vec<u8> = (0..=255).collect();
        let text =
            blob.iter().fold("\\x".to_owned(), |text, byte| text + &format!("{byte:02x}")).into_bytes();
        for step in 1..text.len() {
            let (mut digits, mut bytes) = (HexDecoder::default(), Vec::new());
            text.chunks(step)
                .for_each(|piece| digits.decode(piece, &mut |more| bytes.extend_from_slice(more)));
            assert!(digits.are_whole() && bytes == blob, "{step}");
        }
        for wrong in ["\\", "61", "\\x6", "\\x6g", "\\x616"] {
            let mut digits = HexDecoder::default();
            digits.decode(wrong.as_bytes(), &mut |_| {});
            assert!(!digits.are_whole(), "{wrong}");
        }
    }
}
