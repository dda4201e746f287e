//! URLs of MySQL and MariaDB, as the driver takes them.

use anyhow::{Context, Result};
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
