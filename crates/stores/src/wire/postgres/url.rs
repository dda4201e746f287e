//! Connection parameters of PostgreSQL: from a URL, or from the directory of a socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use percent_encoding::percent_decode_str;

use super::PostgresError;
use crate::wire::tls::{TlsMode, TlsRequest, TlsSettings};

const PORT: u16 = 5432;

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum PostgresAddress {
    /// The directory of its Unix socket, and the port in the socket's name.
    Directory(PathBuf, u16),
    /// Host name or address, and port.
    Host(String, u16),
}

/// Parameters of a connection.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub struct ConnectionParameters {
    /// Where the server listens.
    pub place: PostgresAddress,
    /// Role to log in as.
    pub user: String,
    password: Option<Vec<u8>>,
    /// Startup parameters: the database, and server settings for this connection.
    pub settings: Vec<(String, String)>,
    /// Timeout of connecting, of a read and of a write.
    pub patience: Duration,
    /// For a host; a socket has no TLS.
    pub tls: TlsRequest,
}

impl ConnectionParameters {
    /// A server with a socket in this directory that requires no password.
    pub fn in_directory(
        directory: &Path,
        user: &str,
        database: &str,
        patience: Duration,
    ) -> ConnectionParameters {
        ConnectionParameters {
            place: PostgresAddress::Directory(directory.to_owned(), PORT),
            user: user.to_owned(),
            password: None,
            settings: vec![("database".to_owned(), database.to_owned())],
            patience,
            tls: TlsRequest::default(),
        }
    }

    /// Parses a URL `postgres://user:password@host:port/database?name=value`, with percent-encoded special characters. A host
    /// that begins with `/` is the directory of a socket.
    pub fn parse(url: &str, patience: Duration) -> Result<ConnectionParameters> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
        let rest = rest.context("it does not begin with postgres://")?;
        let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        ensure!(!rest.contains('@'), "a `/`, `?` or `@` in a name or password is written as %2F, %3F or %40");
        let (login, authority) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (path, params) = rest.split_once('?').unwrap_or((rest, ""));
        let database = path.strip_prefix('/').unwrap_or(path);
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(percent_decode_str(password).collect())),
            None => (login, None),
        };
        let (host, port) = host_and_port(authority)?;
        let mut parts = UrlParts {
            host: decoded(host)?,
            port: decoded(port)?,
            user: decoded(user)?,
            database: decoded(database)?,
            ..UrlParts::default()
        };
        for param in params.split('&').filter(|param| !param.is_empty()) {
            let (name, value) = param.split_once('=').with_context(|| format!("`{param}` has no value"))?;
            parts.set(&decoded(name)?, decoded(value)?)?;
        }
        parts.into_config(password, patience)
    }

    /// The same server on a port of loopback, with TLS.
    pub(crate) fn over_tls(self, port: u16, tls: TlsRequest) -> ConnectionParameters {
        ConnectionParameters { place: PostgresAddress::Host("127.0.0.1".to_owned(), port), tls, ..self }
    }

    /// Sets a server setting for this connection.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings.retain(|(known, _)| known != name);
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    /// Returns the configuration with another timeout.
    pub fn with_patience(self, patience: Duration) -> ConnectionParameters {
        ConnectionParameters { patience, ..self }
    }

    /// The password to log in with.
    ///
    /// # Errors
    /// [`PostgresError::NoPassword`] if the URL has none and the server asks for one.
    pub fn password(&self) -> super::Result<&[u8]> {
        self.password.as_deref().ok_or(PostgresError::NoPassword)
    }
}

/// The decoded parts of a URL.
#[derive(Default)]
struct UrlParts {
    host: String,
    port: String,
    user: String,
    database: String,
    settings: Vec<(String, String)>,
    sslmode: Option<TlsMode>,
    sslrootcert: Option<String>,
    sslcert: Option<PathBuf>,
    sslkey: Option<PathBuf>,
}

impl UrlParts {
    /// Applies a URL parameter, which overrides the part before the `?`.
    fn set(&mut self, name: &str, value: String) -> Result<()> {
        match name {
            "host" => self.host = value,
            "port" => self.port = value,
            "user" => self.user = value,
            "dbname" => self.database = value,
            "application_name" | "options" => self.settings.push((name.to_owned(), value)),
            "sslmode" => self.sslmode = Some(sslmode(&value)?),
            "sslrootcert" => self.sslrootcert = Some(value),
            "sslcert" => self.sslcert = Some(value.into()),
            "sslkey" => self.sslkey = Some(value.into()),
            // The password belongs before the @, in one place only.
            "password" => bail!("a password stands before the @"),
            _ => bail!(
                "`{name}` is not among the parameters application_name, dbname, host, options, port, sslcert, sslkey, sslmode, \
                 sslrootcert, user"
            ),
        }
        Ok(())
    }

    /// What libpq makes of the same parameters, except that `sslrootcert` without `sslmode` means `verify-full`.
    fn tls(&mut self) -> Result<TlsRequest> {
        let authorities = self.sslrootcert.take();
        let mode = match (self.sslmode, authorities.as_deref()) {
            (None, Some(_)) => TlsMode::VerifyFull,
            (Some(TlsMode::VerifyFull), _) => TlsMode::VerifyFull,
            (Some(_), Some("system")) => bail!(
                "`sslrootcert=system` goes with `sslmode=verify-full` only: anybody can have a certificate of a public authority"
            ),
            (Some(TlsMode::Require), Some(_)) => TlsMode::VerifyCa,
            (mode, _) => mode.unwrap_or_default(),
        };
        let file = authorities.filter(|file| file != "system").map(PathBuf::from);
        TlsRequest::new(mode, TlsSettings::Libpq, file, (self.sslcert.take(), self.sslkey.take()))
    }

    fn into_config(mut self, password: Option<Vec<u8>>, patience: Duration) -> Result<ConnectionParameters> {
        let tls = self.tls()?;
        ensure!(!self.host.is_empty(), "it names no host");
        ensure!(!self.host.contains(','), "it names several hosts; figures are of one server");
        let port = match self.port.as_str() {
            "" => PORT,
            port => {
                port.parse().ok().with_context(|| format!("`{port}` is no port, a number up to 65535"))?
            }
        };
        let place = match self.host.starts_with('/') {
            true => PostgresAddress::Directory(self.host.into(), port),
            false => PostgresAddress::Host(self.host, port),
        };
        let user = if self.user.is_empty() { own_name()? } else { self.user };
        // The default of every client.
        let database = if self.database.is_empty() { user.clone() } else { self.database };
        let mut settings = vec![("database".to_owned(), database)];
        settings.extend(self.settings);
        Ok(ConnectionParameters { place, user, password, settings, patience, tls })
    }
}

fn sslmode(value: &str) -> Result<TlsMode> {
    Ok(match value {
        "disable" => TlsMode::Disable,
        "allow" => TlsMode::Allow,
        "prefer" => TlsMode::Prefer,
        "require" => TlsMode::Require,
        "verify-ca" => TlsMode::VerifyCa,
        "verify-full" => TlsMode::VerifyFull,
        _ => bail!("`{value}` is no sslmode: disable, allow, prefer, require, verify-ca, verify-full"),
    })
}

/// Splits host and port; the port may be empty. Colons in brackets are part of the address.
fn host_and_port(authority: &str) -> Result<(&str, &str)> {
    let Some(rest) = authority.strip_prefix('[') else {
        return Ok(authority.split_once(':').unwrap_or((authority, "")));
    };
    let (address, port) = rest.split_once(']').context("a bracket is open")?;
    Ok((address, port.strip_prefix(':').unwrap_or(port)))
}

fn decoded(text: &str) -> Result<String> {
    Ok(percent_decode_str(text).decode_utf8()?.into_owned())
}

/// The name of the user that this process runs as.
fn own_name() -> Result<String> {
    let id = rustix::process::getuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd")?;
    let own = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then(|| name.to_owned())
    });
    own.context("it names no user, and the user of this process has no name in /etc/passwd")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<ConnectionParameters> {
        ConnectionParameters::parse(url, Duration::from_secs(1))
    }

    fn refusal(url: &str) -> String {
        parse(url).err().map(|error| format!("{error:#}")).unwrap_or_default()
    }

    #[test]
    fn a_url_is_taken_apart() {
        let config = parse("postgresql://me:p%40ss@db.example:5433/files?application_name=a%20b").unwrap();
        assert_eq!(config.place, PostgresAddress::Host("db.example".to_owned(), 5433));
        assert_eq!((config.user.as_str(), config.password().unwrap()), ("me", &b"p@ss"[..]));
        let settings: Vec<_> = config.settings.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(settings, [("database", "files"), ("application_name", "a b")]);
        let config = parse("postgres://me@[::1]").unwrap();
        assert_eq!(config.place, PostgresAddress::Host("::1".to_owned(), 5432));
        assert_eq!(config.settings, [("database".to_owned(), "me".to_owned())]);
        assert!(matches!(config.password(), Err(PostgresError::NoPassword)));
    }

    #[test]
    fn a_socket_is_named_in_two_ways() {
        let place = PostgresAddress::Directory("/run/pg".into(), 5432);
        assert_eq!(parse("postgres://me@%2Frun%2Fpg/files").unwrap().place, place);
        assert_eq!(parse("postgres://me@/files?host=/run/pg&sslmode=disable").unwrap().place, place);
        assert_eq!(parse("postgres://?host=/run/pg&user=me&dbname=files").unwrap().place, place);
    }

    #[test]
    fn tls_is_as_strict_as_the_url_says() {
        for (params, mode) in [
            ("", TlsMode::Prefer),
            ("?sslmode=disable", TlsMode::Disable),
            ("?sslmode=require", TlsMode::Require),
            ("?sslmode=require&sslrootcert=a", TlsMode::VerifyCa),
            ("?sslmode=verify-ca", TlsMode::VerifyCa),
            ("?sslmode=verify-full", TlsMode::VerifyFull),
            ("?sslrootcert=a", TlsMode::VerifyFull),
            ("?sslrootcert=system", TlsMode::VerifyFull),
        ] {
            assert_eq!(parse(&format!("postgres://me@host/{params}")).unwrap().tls.mode, mode, "{params}");
        }
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        for (url, why) in [
            ("nonsense", "does not begin"),
            ("mysql://me@host", "does not begin"),
            ("postgres://", "names no host"),
            ("postgres://me@host:x/", "no port"),
            ("postgres://me@host:70000/", "no port"),
            ("postgres://me@one,two/", "several hosts"),
            ("postgres://me@[::1/", "bracket"),
            ("postgres://me@host/?sslmode=perhaps", "no sslmode"),
            ("postgres://me@host/?sslmode=prefer&sslrootcert=a", "no certificate is checked"),
            ("postgres://me@host/?sslmode=require&sslrootcert=system", "verify-full"),
            ("postgres://me@host/?sslcert=a", "together"),
            ("postgres://me@host/?password=secret", "before the @"),
            ("postgres://me@host/?keepalives=1", "`keepalives` is not among"),
            ("postgres://me@host/?port", "no value"),
        ] {
            assert!(refusal(url).contains(why), "{url}: {}", refusal(url));
        }
        let said = refusal("postgres://me:half/secret@host/");
        assert!(said.contains("%2F") && !said.contains("secret"), "{said}");
    }
}
