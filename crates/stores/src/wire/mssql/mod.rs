//! SQL Server: its URL, and an asynchronous driver on a runtime of its own, on the calling thread.

#[cfg(test)]
pub(crate) mod grammar;

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use futures_util::TryStreamExt;
use percent_encoding::percent_decode_str;
use tiberius::error::Error as Tds;
use tiberius::{AuthMethod, Client, Config, Row, ToSql};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

/// Address and login from `mssql://USER:PASSWORD@HOST:PORT/DATABASE`.
#[derive(Clone)]
pub struct MsSqlAddress {
    host: String,
    port: u16,
    user: String,
    password: String,
    /// `None`: the login's default database.
    database: Option<String>,
}

impl MsSqlAddress {
    /// Parses `mssql://USER:PASSWORD@HOST[:PORT][/DATABASE]`.
    pub fn from_url(text: &str) -> anyhow::Result<MsSqlAddress> {
        let shown = crate::redact::without_passwords(text);
        let address = MsSqlAddress::parse(text);
        address.with_context(|| format!("`{shown}` is not a URL of SQL Server that can be used"))
    }

    fn parse(text: &str) -> anyhow::Result<MsSqlAddress> {
        const PORT: u16 = 1433;
        let url = url::Url::parse(text)?;
        let is_known = ["mssql", "sqlserver"].contains(&url.scheme());
        ensure!(is_known, "it begins with neither `mssql://` nor `sqlserver://`");
        if let Some((name, _)) = url.query_pairs().next() {
            bail!(
                "the setting `{name}` is not known; TLS in particular is not spoken: use loopback or a tunnel"
            );
        }
        let plain = |text: &str| -> anyhow::Result<String> {
            Ok(percent_decode_str(text).decode_utf8().context("it is not UTF-8")?.into_owned())
        };
        let host = url.host_str().filter(|host| !host.is_empty()).context("it names no host")?;
        let has_user = !url.username().is_empty();
        ensure!(has_user, "it names no user, and only logins with a password are known");
        let path = url.path_segments().into_iter().flatten().filter(|part| !part.is_empty());
        let database = match path.collect::<Vec<&str>>().as_slice() {
            [] => None,
            [database] => Some(plain(database)?),
            _ => bail!("a database's name stands behind the host, and nothing more"),
        };
        Ok(MsSqlAddress {
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

/// Why there is no result.
#[derive(Debug)]
pub enum MsSqlError {
    /// No answer in time.
    TimedOut,
    /// An error of the server, the network or the driver.
    Said(Tds),
    /// Processing a row failed.
    Row(anyhow::Error),
}

impl From<Tds> for MsSqlError {
    fn from(error: Tds) -> MsSqlError {
        MsSqlError::Said(error)
    }
}

type MsSqlResult<T> = Result<T, MsSqlError>;

/// Adds the most likely reason to a login that the server ended without one; the driver does not report the reason.
fn ended(error: Tds) -> Tds {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    match error {
        Tds::Io { kind: kind @ (BrokenPipe | ConnectionReset | UnexpectedEof), message } => {
            let why = "the server ended the login without a reason, as one does that insists on TLS, which is not spoken here: use \
                       loopback or a tunnel to where it does not";
            Tds::Io { kind, message: format!("{message}; {why}") }
        }
        error => error,
    }
}

/// One session with a server.
pub struct MsSqlClient {
    client: Client<Compat<TcpStream>>,
    runtime: Runtime,
    patience: Duration,
}

impl MsSqlClient {
    /// Connects and logs in. Redirections to another server are not followed.
    pub fn open(address: &MsSqlAddress, patience: Duration) -> MsSqlResult<MsSqlClient> {
        let io = |error: std::io::Error| MsSqlError::Said(error.into());
        let runtime = Builder::new_current_thread().enable_io().enable_time().build().map_err(io)?;
        let connect = async {
            let stream = TcpStream::connect((address.host.as_str(), address.port)).await.map_err(io)?;
            stream.set_nodelay(true).map_err(io)?;
            Ok(Client::connect(address.config(), stream.compat_write()).await.map_err(ended)?)
        };
        let connected = runtime.block_on(async { timeout(patience, connect).await });
        let client = connected.unwrap_or(Err(MsSqlError::TimedOut))?;
        Ok(MsSqlClient { client, runtime, patience })
    }

    /// Runs one operation on the client until its timeout. Then cancels it on the server (an attention), so that the server stops
    /// working on it and its late reply is not taken for that of the next request.
    fn run<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Client<Compat<TcpStream>>) -> MsSqlResult<T>,
    ) -> MsSqlResult<T> {
        const LEFT_OFF_WITHIN: Duration = Duration::from_secs(1);
        let MsSqlClient { client, runtime, patience } = self;
        let done = runtime.block_on(async { timeout(*patience, work(client)).await });
        done.unwrap_or_else(|_elapsed| {
            // If cancelling fails too, the next request will fail.
            runtime.block_on(async { timeout(LEFT_OFF_WITHIN, client.cancel_query()).await }).ok();
            Err(MsSqlError::TimedOut)
        })
    }

    /// Runs statements that return no rows, and reads every reply. Returns the largest number of rows affected by one of them.
    pub fn execute(&mut self, sql: &str, params: &[&dyn ToSql]) -> MsSqlResult<u64> {
        self.run(async |client| {
            Ok(client.execute(sql, params).await?.rows_affected().iter().copied().max().unwrap_or(0))
        })
    }

    /// Passes every row of the result to `each` and returns their number.
    pub fn query(
        &mut self,
        sql: &str,
        params: &[&dyn ToSql],
        each: &mut dyn FnMut(&Row) -> anyhow::Result<()>,
    ) -> MsSqlResult<usize> {
        self.run(async |client| {
            let mut rows = client.query(sql, params).await?.into_row_stream();
            let mut count = 0;
            while let Some(row) = rows.try_next().await? {
                each(&row).map_err(MsSqlError::Row)?;
                count += 1;
            }
            Ok(count)
        })
    }

    /// Runs a batch as text: for statements not allowed in a procedure, such as those that begin and end transactions or create
    /// schemas.
    pub fn batch(&mut self, sql: &str) -> MsSqlResult<()> {
        self.run(async |client| Ok(client.simple_query(sql).await?.into_results().await.map(drop)?))
    }

    /// Returns the rows of a batch's first result, after all of them have arrived.
    pub fn rows(&mut self, sql: &str) -> MsSqlResult<Vec<Row>> {
        self.run(async |client| Ok(client.simple_query(sql).await?.into_first_result().await?))
    }
}

/// The query for a server's version, for [`is_too_old`].
pub const VERSION: &str = "SELECT CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128))";

/// Why a server of this version is refused; `None` if it is recent enough. Delayed durability came with SQL Server 2014, and the
/// number of modifications in statistics not much earlier.
pub fn is_too_old(version: &str) -> Option<String> {
    const LEAST: u32 = 12;
    let major = version.split('.').next()?.parse::<u32>().ok()?;
    (major < LEAST).then(|| format!("the server is older than SQL Server 2014 (it says {version})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let address = MsSqlAddress::from_url("mssql://sa:p%40ss%2Fword@db.example:1444/files").unwrap();
        assert_eq!(address.host, "db.example");
        assert_eq!((address.port, address.user.as_str()), (1444, "sa"));
        assert_eq!(address.password, "p@ss/word");
        assert_eq!(address.database.as_deref(), Some("files"));
        let plain = MsSqlAddress::from_url("sqlserver://me:x@127.0.0.1").unwrap();
        assert_eq!((plain.host.as_str(), plain.port, plain.database), ("127.0.0.1", 1433, None));
        assert_eq!(MsSqlAddress::from_url("mssql://me:x@[::1]:1433").unwrap().host, "::1");
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
            let Err(error) = MsSqlAddress::from_url(url).map(drop) else { panic!("{url} was taken") };
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

    #[test]
    fn versions_are_read() {
        assert_eq!(is_too_old("16.0.4135.4"), None);
        assert_eq!(is_too_old(""), None);
        assert!(is_too_old("11.0.7001.0").is_some_and(|why| why.contains("2014")));
    }
}
