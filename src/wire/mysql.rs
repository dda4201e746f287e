//! URLs of MySQL and MariaDB for the driver, and readable messages for its errors.

use anyhow::{Context, Result, anyhow, bail};
use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder};

/// Connection options for the user's server, from its URL. Errors show the URL without its password.
pub fn opts_of(url: &str) -> Result<OptsBuilder> {
    let shown = crate::redact::without_passwords(url);
    let url = url.replacen("mariadb://", "mysql://", 1);
    let opts = Opts::from_url(&url).with_context(|| format!("`{shown}` is not a URL of MySQL or MariaDB"))?;
    let asks_for_socket = url.contains("prefer_socket=");
    let opts = OptsBuilder::from_opts(opts);
    // By default the driver switches from a local port to the socket that the server names: not the requested route, and behind a
    // forwarded port a different server.
    Ok(if asks_for_socket { opts } else { opts.prefer_socket(false) })
}

/// The account in `CURRENT_USER()`, quoted for statements.
pub fn account(current_user: &str) -> String {
    let (name, host) = current_user.rsplit_once('@').unwrap_or((current_user, "%"));
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    format!("{}@{}", quoted(name), quoted(host))
}

/// Session settings that make statements mean the same on every server: the list of a `SET` statement, or the end of one.
pub const SETTLED: &str = "SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', SESSION autocommit = 1, \
     SESSION completion_type = 0, SESSION sql_safe_updates = 0, SESSION sql_select_limit = 18446744073709551615";

/// Refuses a connection pooler in place of a server, before anything is set in a session.
pub fn refuse_pooler(opts: &Opts) -> Result<()> {
    const ASKED: u32 = 2;
    // Without init statements.
    let opts = OptsBuilder::from_opts(opts.clone()).init(Vec::<String>::new());
    let mut connection = Conn::new(opts).map_err(plainly)?;
    // The id in the server's greeting. Poolers send ids of their own, or 0.
    let greeted = connection.connection_id();
    for _ in 0..ASKED {
        // ProxySQL answers the plain query itself.
        let answers: Option<u64> = connection.query_first("SELECT CONNECTION_ID() + 0").map_err(plainly)?;
        // The greeting has only the lower half of the id.
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

/// The error without the driver's wrapping of its kind.
pub fn plainly(error: mysql::Error) -> anyhow::Error {
    use mysql::{DriverError, Error};

    match error {
        // The server invents a plugin for unknown users, to hide which users exist.
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
