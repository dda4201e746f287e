//! URLs of MySQL and MariaDB as the driver takes them, and its errors as people say them.

use anyhow::{Context, Result, anyhow};
use mysql::{Opts, OptsBuilder};

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
