//! URLs of MySQL and MariaDB for the driver, and readable messages for its errors.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail, ensure};
use mysql::prelude::Queryable;
use mysql::{ClientIdentity, Conn, DriverError, Error, Opts, OptsBuilder, SslOpts};
use url::Url;

use super::tls::{self, TlsMode, TlsRequest, TlsSettings};

/// Connection options for the user's server, from its URL, and how strict TLS is. Errors show the URL without its password.
pub fn opts_of(url: &str) -> Result<(OptsBuilder, TlsMode)> {
    let shown = crate::redact::without_passwords(url);
    let no_url = || format!("`{shown}` is not a URL of MySQL or MariaDB");
    let mut url = Url::parse(&url.replacen("mariadb://", "mysql://", 1)).with_context(no_url)?;
    let request = take_tls(&mut url).with_context(|| format!("`{shown}` cannot be used"))?;
    let opts = Opts::from_url(url.as_str()).with_context(no_url)?;
    ensure!(
        opts.get_ssl_opts().is_none(),
        "`{shown}` has TLS in the words of a driver; ssl-mode, ssl-ca, ssl-cert and ssl-key set it"
    );
    let asks_for_socket = url.as_str().contains("prefer_socket=");
    let mode = request.mode;
    let opts = OptsBuilder::from_opts(opts).ssl_opts(ssl_opts(request));
    // By default the driver switches from a local port to the socket that the server names: not the requested route, and behind a
    // forwarded port a different server.
    Ok((if asks_for_socket { opts } else { opts.prefer_socket(false) }, mode))
}

/// Takes the parameters of MySQL's clients out of a URL, because the driver does not know them.
fn take_tls(url: &mut Url) -> Result<TlsRequest> {
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let (ours, others): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(name, _)| name.starts_with("ssl-"));
    if !ours.is_empty() {
        url.set_query(None);
    }
    if !ours.is_empty() && !others.is_empty() {
        url.query_pairs_mut().extend_pairs(others);
    }
    let mut mode = None;
    let [mut authorities, mut certificate, mut key] = [None, None, None];
    for (name, value) in ours {
        match name.as_str() {
            "ssl-mode" => mode = Some(ssl_mode(&value)?),
            "ssl-ca" => authorities = Some(PathBuf::from(value)),
            "ssl-cert" => certificate = Some(PathBuf::from(value)),
            "ssl-key" => key = Some(PathBuf::from(value)),
            _ => bail!("`{name}` is none of ssl-mode, ssl-ca, ssl-cert, ssl-key"),
        }
    }
    // The driver would not name a file that it cannot read.
    authorities.as_deref().map(tls::certificates_in).transpose()?;
    let by_itself = if authorities.is_some() { TlsMode::VerifyFull } else { TlsMode::Prefer };
    TlsRequest::new(mode.unwrap_or(by_itself), TlsSettings::MySql, authorities, (certificate, key))
}

fn ssl_mode(value: &str) -> Result<TlsMode> {
    Ok(match value.to_ascii_uppercase().as_str() {
        "DISABLED" => TlsMode::Disable,
        "PREFERRED" => TlsMode::Prefer,
        "REQUIRED" => TlsMode::Require,
        "VERIFY_IDENTITY" => TlsMode::VerifyFull,
        "VERIFY_CA" => bail!(
            "VERIFY_CA checks no name, and the driver trusts public authorities beside `ssl-ca`: anybody with a certificate could \
             answer; use VERIFY_IDENTITY"
        ),
        _ => bail!("`{value}` is no ssl-mode: DISABLED, PREFERRED, REQUIRED, VERIFY_IDENTITY"),
    })
}

/// The driver's words for a request; `None` for a plain connection.
fn ssl_opts(request: TlsRequest) -> Option<SslOpts> {
    let TlsRequest { mode, authorities, identity, .. } = request;
    let identity = identity.map(|(certificate, key)| ClientIdentity::new(certificate, key));
    (mode != TlsMode::Disable).then(|| {
        SslOpts::default()
            .with_root_cert_path(authorities)
            .with_danger_accept_invalid_certs(mode < TlsMode::VerifyFull)
            .with_client_identity(identity)
    })
}

/// Connection options for a server on this port of loopback, with TLS.
pub(crate) fn over_tls(port: u16, request: TlsRequest) -> OptsBuilder {
    let opts = OptsBuilder::new().ip_or_hostname(Some("127.0.0.1")).tcp_port(port);
    opts.prefer_socket(false).ssl_opts(ssl_opts(request))
}

/// Connects to the user's server, as strictly as its URL says; true if TLS was asked for and not refused.
fn connected(opts: OptsBuilder, mode: TlsMode) -> Result<(Conn, bool)> {
    let error = match Conn::new(opts.clone()) {
        Ok(connection) => return Ok((connection, mode != TlsMode::Disable)),
        Err(error) => error,
    };
    let Some(why) = reason_of_tls(&error) else { return Err(plainly(error)) };
    if mode != TlsMode::Prefer {
        bail!("no TLS with `{}`: {why}", Opts::from(opts).get_ip_or_hostname());
    }
    Ok((Conn::new(opts.ssl_opts(None::<SslOpts>)).map_err(plainly)?, false))
}

fn reason_of_tls(error: &Error) -> Option<String> {
    match error {
        Error::DriverError(DriverError::TlsNotSupported) => {
            Some("the server has none, and the ssl-mode of the URL insists on it".to_owned())
        }
        Error::TlsError(error) => Some(error.to_string()),
        _ => {
            io_of(error).filter(|io| tls::of_tls(io).is_some()).map(|io| tls::reason(io, TlsSettings::MySql))
        }
    }
}

/// The error of the socket, which the driver reports in two ways.
pub fn io_of(error: &Error) -> Option<&std::io::Error> {
    match error {
        Error::IoError(io) => Some(io),
        Error::CodecError(codec) => {
            std::error::Error::source(codec).and_then(<dyn std::error::Error>::downcast_ref)
        }
        _ => None,
    }
}

/// The account in `CURRENT_USER()`, quoted for statements.
pub fn account(current_user: &str) -> String {
    let (name, host) = current_user.rsplit_once('@').unwrap_or((current_user, "%"));
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    format!("{}@{}", quoted(name), quoted(host))
}

/// Session settings that make statements mean the same on every server, and keep a connection that is idle, with the locks that
/// show what is in use: the list of a `SET` statement, or the end of one. 24 days are the most that every system takes.
pub const SETTLED: &str = "SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', SESSION autocommit = 1, \
     SESSION completion_type = 0, SESSION sql_safe_updates = 0, SESSION sql_select_limit = 18446744073709551615, \
     SESSION sql_big_selects = 1, SESSION foreign_key_checks = 1, SESSION unique_checks = 1, SESSION wait_timeout = 2147483";

/// Refuses a connection pooler in place of a server, before anything is set in a session. Returns the options by which all
/// further connections are as encrypted as this one.
pub fn refuse_pooler(opts: OptsBuilder, mode: TlsMode) -> Result<OptsBuilder> {
    const ASKED: u32 = 2;
    // Without init statements.
    let (mut connection, is_encrypted) = connected(opts.clone().init(Vec::<String>::new()), mode)?;
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
    Ok(if is_encrypted { opts } else { opts.ssl_opts(None::<SslOpts>) })
}

/// The error without the driver's wrapping of its kind.
pub fn plainly(error: Error) -> anyhow::Error {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_as_strict_as_the_url_says() {
        for (params, mode) in [
            ("", TlsMode::Prefer),
            ("?ssl-mode=disabled&pool_max=19", TlsMode::Disable),
            ("?pool_max=19&ssl-mode=REQUIRED", TlsMode::Require),
            ("?ssl-mode=VERIFY_IDENTITY", TlsMode::VerifyFull),
        ] {
            let (opts, found) = opts_of(&format!("mariadb://me:p%40ss@host:7{params}")).unwrap();
            let opts = Opts::from(opts);
            assert_eq!(found, mode, "{params}");
            assert_eq!(opts.get_ssl_opts().is_some(), mode != TlsMode::Disable, "{params}");
            assert_eq!((opts.get_pass(), opts.get_tcp_port()), (Some("p@ss"), 7), "{params}");
        }
        for (params, why) in [
            ("ssl-mode=VERIFY_CA", "VERIFY_IDENTITY"),
            ("ssl-mode=maybe", "no ssl-mode"),
            ("ssl-ca=/nowhere.pem", "/nowhere.pem"),
            ("root_cert_path=/nowhere.pem", "ssl-ca"),
        ] {
            let said = opts_of(&format!("mysql://me@host/?{params}")).err().map(|error| format!("{error:#}"));
            assert!(said.as_ref().is_some_and(|said| said.contains(why)), "{params}: {said:?}");
        }
    }
}
