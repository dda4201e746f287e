//! URLs of MySQL and MariaDB as the driver takes them, and its errors as people say them.

use anyhow::{Context, Result, anyhow, bail};
use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder};

/// How to connect to a server of the user's, the way its URL says. Errors show the URL without its password.
pub fn opts_of(url: &str) -> Result<OptsBuilder> {
    let shown = crate::shown::without_passwords(url);
    let url = url.replacen("mariadb://", "mysql://", 1);
    let opts = Opts::from_url(&url).with_context(|| format!("`{shown}` is not a URL of MySQL or MariaDB"))?;
    let asks_for_socket = url.contains("prefer_socket=");
    let opts = OptsBuilder::from_opts(opts);
    // The driver would leave a port of this machine for the socket that the server names: another way than the one that was asked
    // for, and behind a forwarded port another server.
    Ok(if asks_for_socket { opts } else { opts.prefer_socket(false) })
}

/// The account that `CURRENT_USER()` says we are logged in to, as statements name it.
pub fn account(current_user: &str) -> String {
    let (name, host) = current_user.rsplit_once('@').unwrap_or((current_user, "%"));
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    format!("{}@{}", quoted(name), quoted(host))
}

/// What a session is told, so that statements mean the same on every server: the whole of `SET`'s list, or its end.
pub const SETTLED: &str = "SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', SESSION autocommit = 1, \
     SESSION completion_type = 0, SESSION sql_safe_updates = 0, SESSION sql_select_limit = 18446744073709551615";

/// Refuses a pooler that answers in a server's place, before anything is set in a session.
pub fn refuse_pooler(opts: &Opts) -> Result<()> {
    const ASKED: u32 = 2;
    // Without what sessions are told first.
    let opts = OptsBuilder::from_opts(opts.clone()).init(Vec::<String>::new());
    let mut connection = Conn::new(opts).map_err(plainly)?;
    // As its greeting says it. Those of poolers have numbers of their own, or 0.
    let greeted = connection.connection_id();
    for _ in 0..ASKED {
        // ProxySQL answers the bare question itself.
        let answers: Option<u64> = connection.query_first("SELECT CONNECTION_ID() + 0").map_err(plainly)?;
        // The greeting has room for the lower half of it.
        let answers = answers.context("it does not say which of its connections this is")?;
        if answers as u32 != greeted {
            bail!(
                "a connection pooler answers here: the server's connection {answers} answers where {greeted} greeted, as behind \
                 ProxySQL, MaxScale or MySQL Router. It lends a server's session to one client after the other, with whatever was set \
                 in it; give the host and port of the server itself"
            );
        }
    }
    Ok(())
}

/// What went wrong, without the driver's names of kinds around it.
pub fn plainly(error: mysql::Error) -> anyhow::Error {
    use mysql::{DriverError, Error};

    match error {
        // It makes one up for a user that it does not know, so that nobody learns who is known.
        Error::DriverError(DriverError::UnknownAuthPlugin(plugin)) => anyhow!(
            "it asks for the login `{plugin}`, which the driver does not have: there may be no such user"
        ),
        Error::DriverError(error) => error.into(),
        Error::MySqlError(error) => error.into(),
        Error::IoError(error) => error.into(),
        Error::CodecError(error) => error.into(),
        other => other.into(),
    }
}
