//! A connection to SQL Server: an asynchronous driver on a runtime of its own, on the calling thread.

use std::time::Duration;

use anyhow::{Context, anyhow};
use futures_util::TryStreamExt;
use percent_encoding::percent_decode_str;
use tiberius::{AuthMethod, Client, Config, Row, ToSql};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

use crate::store::*;

/// Where a server is and who we are there, from `mssql://USER:PASSWORD@HOST:PORT/DATABASE`.
#[derive(Clone)]
pub(super) struct Address {
    host: String,
    port: u16,
    user: String,
    password: String,
    /// The login's own where none is named.
    database: Option<String>,
}

impl Address {
    pub(super) fn of(text: &str) -> Result<Address> {
        let shown = crate::shown::without_passwords(text);
        let address = Address::parse(text);
        Ok(address.with_context(|| format!("`{shown}` is not a URL of SQL Server that can be used"))?)
    }

    fn parse(text: &str) -> anyhow::Result<Address> {
        const PORT: u16 = 1433;
        let url = url::Url::parse(text)?;
        if !["mssql", "sqlserver"].contains(&url.scheme()) {
            return Err(anyhow!("it begins with neither `mssql://` nor `sqlserver://`"));
        }
        if let Some((name, _)) = url.query_pairs().next() {
            return Err(anyhow!(
                "the setting `{name}` is not known; TLS in particular is not spoken: use loopback or a tunnel"
            ));
        }
        let plain = |text: &str| -> anyhow::Result<String> {
            Ok(percent_decode_str(text).decode_utf8().context("it is not UTF-8")?.into_owned())
        };
        let host = url.host_str().filter(|host| !host.is_empty()).context("it names no host")?;
        if url.username().is_empty() {
            return Err(anyhow!("it names no user, and only logins with a password are known"));
        }
        let path = url.path_segments().into_iter().flatten().filter(|part| !part.is_empty());
        let database = match path.collect::<Vec<&str>>().as_slice() {
            [] => None,
            [database] => Some(plain(database)?),
            _ => return Err(anyhow!("a database's name stands behind the host, and nothing more")),
        };
        Ok(Address {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: url.port().unwrap_or(PORT),
            user: plain(url.username())?,
            password: plain(url.password().unwrap_or_default())?,
            database,
        })
    }

    fn config(&self) -> Config {
        let mut config = Config::new();
        config.host(&self.host);
        config.port(self.port);
        config.application_name("blobwise");
        config.authentication(AuthMethod::sql_server(&self.user, &self.password));
        if let Some(database) = &self.database {
            config.database(database);
        }
        config
    }
}

/// The errors of a server, as far as they say what to do.
mod code {
    pub(super) const DEADLOCK: u32 = 1205;
    pub(super) const LOCK_TIMEOUT: u32 = 1222;
    /// Two sessions created one blob at once.
    pub(super) const DUPLICATE_IN_INDEX: u32 = 2601;
    pub(super) const DUPLICATE_IN_CONSTRAINT: u32 = 2627;
}

/// Keeps what may be tried again apart from failures.
fn from_tds(error: tiberius::error::Error) -> Error {
    use code::{DEADLOCK, DUPLICATE_IN_CONSTRAINT, DUPLICATE_IN_INDEX, LOCK_TIMEOUT};
    match error.code() {
        Some(DEADLOCK | LOCK_TIMEOUT | DUPLICATE_IN_INDEX | DUPLICATE_IN_CONSTRAINT) => Error::Busy,
        _ => Error::failed(error),
    }
}

pub(super) struct Connection {
    client: Client<Compat<TcpStream>>,
    runtime: Runtime,
    timeout: Duration,
}

impl Connection {
    pub(super) fn open(address: &Address, isolation: &str, timeout: Duration) -> Result<Connection> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let connected = runtime.block_on(async {
            tokio::time::timeout(timeout, async {
                let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
                stream.set_nodelay(true)?;
                Client::connect(address.config(), stream.compat_write()).await.map_err(from_tds)
            })
            .await
        });
        let client = connected.unwrap_or(Err(Error::TimedOut))?;
        let mut connection = Connection { client, runtime, timeout };
        // Or a transaction would stay open behind a statement that failed, and rows would not be counted where that is the
        // server's setting.
        connection.batch(&format!(
            "SET XACT_ABORT ON; SET NOCOUNT OFF; SET TRANSACTION ISOLATION LEVEL {isolation}"
        ))?;
        Ok(connection)
    }

    /// Runs statements that return no rows; every answer of the server's is read. Returns the most rows that one of them touched.
    pub(super) fn execute(&mut self, sql: &str, params: &[&dyn ToSql]) -> Result<u64> {
        let Connection { client, runtime, timeout } = self;
        let done =
            runtime.block_on(async { tokio::time::timeout(*timeout, client.execute(sql, params)).await });
        match done {
            Ok(answer) => Ok(answer.map_err(from_tds)?.rows_affected().iter().copied().max().unwrap_or(0)),
            Err(_elapsed) => Err(Error::TimedOut),
        }
    }

    /// Lends every row of an answer and returns their number.
    pub(super) fn query(
        &mut self,
        sql: &str,
        params: &[&dyn ToSql],
        each: &mut dyn FnMut(&Row) -> anyhow::Result<()>,
    ) -> Result<usize> {
        let Connection { client, runtime, timeout } = self;
        let read = async {
            let mut rows = client.query(sql, params).await.map_err(from_tds)?.into_row_stream();
            let mut count = 0;
            while let Some(row) = rows.try_next().await.map_err(from_tds)? {
                each(&row)?;
                count += 1;
            }
            Ok(count)
        };
        runtime.block_on(async { tokio::time::timeout(*timeout, read).await }).unwrap_or(Err(Error::TimedOut))
    }

    /// Runs a batch as text: what cannot stand in a procedure, such as the borders of transactions and schemas.
    pub(super) fn batch(&mut self, sql: &str) -> Result<()> {
        self.batch_of(sql)?.map_err(from_tds)
    }

    /// Runs a batch that the server may refuse; `false` when it does.
    pub(super) fn batch_if_allowed(&mut self, sql: &str) -> Result<bool> {
        match self.batch_of(sql)? {
            Ok(()) => Ok(true),
            Err(tiberius::error::Error::Server(_)) => Ok(false),
            Err(error) => Err(from_tds(error)),
        }
    }

    fn batch_of(&mut self, sql: &str) -> Result<tiberius::Result<()>> {
        let Connection { client, runtime, timeout } = self;
        let run = async { client.simple_query(sql).await?.into_results().await.map(drop) };
        runtime
            .block_on(async { tokio::time::timeout(*timeout, run).await })
            .map_err(|_elapsed| Error::TimedOut)
    }

    /// The one text that a query returns; `None` where there is none, or the server refuses to tell.
    pub(super) fn text(&mut self, sql: &str) -> Result<Option<String>> {
        let Connection { client, runtime, timeout } = self;
        let ask = async { client.simple_query(sql).await?.into_row().await };
        let answer = runtime.block_on(async { tokio::time::timeout(*timeout, ask).await });
        match answer.map_err(|_elapsed| Error::TimedOut)? {
            Ok(row) => Ok(row.and_then(|row| row.try_get::<&str, _>(0).ok().flatten().map(str::to_owned))),
            Err(tiberius::error::Error::Server(_)) => Ok(None),
            Err(error) => Err(from_tds(error)),
        }
    }
}

/// The bytes of a column.
pub(super) fn bytes_of(row: &Row, column: usize) -> anyhow::Result<&[u8]> {
    row.try_get::<&[u8], _>(column)?.context("a blob is NULL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let address = Address::of("mssql://sa:p%40ss%2Fword@db.example:1444/files").unwrap();
        assert_eq!(address.host, "db.example");
        assert_eq!((address.port, address.user.as_str()), (1444, "sa"));
        assert_eq!(address.password, "p@ss/word");
        assert_eq!(address.database.as_deref(), Some("files"));
        let plain = Address::of("sqlserver://me:x@127.0.0.1").unwrap();
        assert_eq!((plain.host.as_str(), plain.port, plain.database), ("127.0.0.1", 1433, None));
        assert_eq!(Address::of("mssql://me:x@[::1]:1433").unwrap().host, "::1");
    }

    #[test]
    fn what_cannot_be_used_is_refused_without_its_password() {
        const WRONG: &[(&str, &str)] = &[
            ("mysql://sa:secret@host/files", "begins with neither"),
            ("mssql://sa:secret@host/files?encrypt=true", "TLS"),
            ("mssql://sa:secret@host/files/more", "nothing more"),
            ("mssql://:secret@host/files", "names no user"),
            ("mssql://sa:secret@host:99999/files", "port"),
            ("mssql://sa:secret@", "host"),
        ];
        for (url, why) in WRONG {
            let Err(Error::Failed(error)) = Address::of(url).map(drop) else { panic!("{url} was taken") };
            let said = format!("{error:#}");
            assert!(said.contains(why), "{url}: {said}");
            assert!(!said.contains("secret"), "{said}");
        }
    }

    #[test]
    fn blobs_and_keys_go_as_what_they_are() {
        use tiberius::ColumnData;
        let blob: &[u8] = b"\0\xff'--";
        let ColumnData::Binary(Some(sent)) = blob.to_sql() else { panic!("not as bytes") };
        // Lent, not copied.
        assert_eq!(sent.as_ptr(), blob.as_ptr());
        let nothing: &[u8] = b"";
        assert!(matches!(nothing.to_sql(), ColumnData::Binary(Some(bytes)) if bytes.is_empty()));
        assert!(matches!("00ff".to_sql(), ColumnData::String(Some(_))));
        assert!(matches!(7_i64.to_sql(), ColumnData::I64(Some(7))));
    }
}
