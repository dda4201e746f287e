//! One worker's connection to SQL Server.

use anyhow::anyhow;
use tiberius::ToSql;

use super::connection::{MsSqlConnection, bytes_of};
use super::statements::{self, MsSqlStatements, pieces, substring};
use super::{BLOB_LIMIT, MsSql};
use crate::store::*;
use crate::stores::common::keys::KeyForm;

/// Keys per query: a request has at most 2100 parameters.
const KEYS_AT_ONCE: usize = 1000;

pub(super) struct MsSqlSession<'s> {
    store: &'s MsSql,
    connection: MsSqlConnection,
    texts: StatementTexts,
}

/// The SQL text of frequent statements, built once.
struct StatementTexts {
    put: String,
    get: String,
    part: String,
    delete: String,
}

impl StatementTexts {
    fn from_statements(statements: &MsSqlStatements) -> StatementTexts {
        StatementTexts {
            put: statements.put(),
            get: statements.get(Span::Whole),
            part: statements.get(Span::Part { offset: 0, len: 0 }),
            delete: statements.delete(),
        }
    }
}

enum KeyParam<'k> {
    Digest(&'k str),
    Integer(i64),
}

impl KeyParam<'_> {
    fn get(&self) -> &dyn ToSql {
        match self {
            KeyParam::Digest(digits) => digits,
            KeyParam::Integer(number) => number,
        }
    }
}

impl<'s> MsSqlSession<'s> {
    pub(super) fn open(store: &'s MsSql) -> Result<MsSqlSession<'s>> {
        let connection = MsSqlConnection::open(&store.address, &store.isolation, store.op_timeout)?;
        Ok(MsSqlSession { store, connection, texts: StatementTexts::from_statements(&store.statements) })
    }

    fn key<'k>(&self, key: &'k Key) -> KeyParam<'k> {
        match self.store.key_form {
            KeyForm::Digest => KeyParam::Digest(key.as_str()),
            KeyForm::Integer => KeyParam::Integer(key.id as i64),
        }
    }

    /// A put within the caller's transaction.
    fn put_within(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        let param = self.key(key);
        let (first, rest) = pieces(blob, self.store.piece.unwrap_or(usize::MAX));
        self.connection.execute(&self.store.statements.put_within(), &[param.get(), &first])?;
        let append = self.store.statements.append_within();
        for piece in rest {
            let rows = self.connection.execute(&append, &[param.get(), &piece])?;
            ensure!(rows == 1, "a piece was appended to {rows} rows");
        }
        Ok(())
    }

    /// Runs `body` in a transaction committed as the class demands; rolls back if it fails.
    fn transaction<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.connection.batch(statements::BEGIN)?;
        match body(self) {
            Ok(value) => {
                self.connection.batch(self.store.statements.commit.statement())?;
                Ok(value)
            }
            Err(Error::TimedOut) => Err(Error::TimedOut),
            Err(error) => {
                // The first error is the one to report; the server may have rolled back already.
                self.connection.batch(statements::ROLLBACK).ok();
                Err(error)
            }
        }
    }

    /// Queries some keys; `found` gets the index of each key found, and its bytes.
    fn get_some(&mut self, keys: &[Key], found: &mut dyn FnMut(usize, &[u8])) -> Result<usize> {
        let params: Vec<KeyParam> = keys.iter().map(|key| self.key(key)).collect();
        let params: Vec<&dyn ToSql> = params.iter().map(KeyParam::get).collect();
        let (form, mut count) = (self.store.key_form, 0);
        self.connection.query(&self.store.statements.get_many(keys.len()), &params, &mut |row| {
            let is_key: Box<dyn Fn(&Key) -> bool> = match form {
                KeyForm::Digest => {
                    let hash = row.try_get::<&str, usize>(0)?.unwrap_or_default();
                    Box::new(move |key| key.as_str() == hash)
                }
                KeyForm::Integer => {
                    let id = row.try_get::<i64, usize>(0)?.unwrap_or(-1);
                    Box::new(move |key| key.id as i64 == id)
                }
            };
            let blob = bytes_of(row, 1)?;
            for index in (0..keys.len()).filter(|index| is_key(&keys[*index])) {
                found(index, blob);
                count += 1;
            }
            Ok(())
        })?;
        Ok(count)
    }
}

impl Session for MsSqlSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        BLOB_LIMIT.check(blob)?;
        if self.store.piece.is_some_and(|piece| blob.len() > piece) {
            return self.transaction(|session| session.put_within(key, blob));
        }
        let param = self.key(key);
        self.connection.execute(&self.texts.put, &[param.get(), &blob]).map(drop)
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        let param = self.key(key);
        let (position, len) = substring(span);
        let (sql, params): (&str, &[&dyn ToSql]) = match span {
            Span::Whole => (&self.texts.get, &[param.get()]),
            Span::Part { .. } => (&self.texts.part, &[param.get(), &position, &len]),
        };
        let rows = self.connection.query(sql, params, &mut |row| {
            sink(bytes_of(row, 0)?);
            Ok(())
        })?;
        match rows {
            0 => Ok(false),
            1 => Ok(true),
            rows => Err(Error::Failed(anyhow!("{rows} rows for one key"))),
        }
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        let param = self.key(key);
        self.connection.execute(&self.texts.delete, &[param.get()]).map(drop)
    }

    /// Writes the log of all earlier commits to disk, where commits are delayed; else it is there.
    fn sync(&mut self) -> Result<()> {
        if self.store.durability != Durability::OnSync || !self.store.statements.commit.is_delayed() {
            return Ok(());
        }
        self.connection.batch(statements::FLUSH_LOG)
    }

    fn connect(&mut self) -> Result<()> {
        self.connection =
            MsSqlConnection::open(&self.store.address, &self.store.isolation, self.store.op_timeout)?;
        Ok(())
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        self.store.key_form.check_list()?;
        let list = self.store.statements.list();
        let read = self.connection.query(&list, &[], &mut |row| {
            each(row.try_get::<&str, usize>(0)?.unwrap_or_default());
            Ok(())
        });
        read.map(drop)
    }

    fn put_batch(&mut self, blobs: &[(Key, &[u8])]) -> Result<()> {
        blobs.iter().try_for_each(|(_, blob)| BLOB_LIMIT.check(blob))?;
        self.transaction(|session| blobs.iter().try_for_each(|(key, blob)| session.put_within(key, blob)))
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        let mut found = 0;
        for (group, keys) in keys.chunks(KEYS_AT_ONCE).enumerate() {
            found += self.get_some(keys, &mut |index, blob| sink(group * KEYS_AT_ONCE + index, blob))?;
        }
        Ok(found)
    }

    fn delete_batch(&mut self, keys: &[Key]) -> Result<()> {
        let delete = self.store.statements.delete_within();
        self.transaction(|session| {
            keys.iter().try_for_each(|key| {
                let param = session.key(key);
                session.connection.execute(&delete, &[param.get()]).map(drop)
            })
        })
    }
}
