//! Errors of a connection to PostgreSQL.

use std::fmt;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// The server reported an error.
    #[error(transparent)]
    Server(Box<ServerError>),
    /// The socket failed, was closed, or timed out.
    #[error(transparent)]
    Socket(#[from] std::io::Error),
    /// The server refused TLS, or was refused for its certificate.
    #[error(transparent)]
    Tls(std::io::Error),
    /// The server violated the protocol.
    #[error("the server sent {0}")]
    Unexpected(String),
    /// An earlier reply was not read to its end.
    #[error("the connection was lost earlier")]
    Lost,
    /// The server requires a password, and the URL has none.
    #[error("the server asks for a password, and there is none in the URL")]
    NoPassword,
    /// The server does not know a setting that came with PostgreSQL 14.
    #[error("the server is older than PostgreSQL 14 (it says {0})")]
    TooOld(String),
    /// A connection pooler answered instead of a server.
    #[error(
        "a connection pooler answers here: {0}. It lends a server's session to one client after the other, with whatever was set in it; \
         give the host and port of PostgreSQL itself"
    )]
    Pooler(String),
}

impl PostgresError {
    /// An answer that the protocol does not allow here.
    pub fn unexpected(what: &str) -> PostgresError {
        PostgresError::Unexpected(what.to_owned())
    }

    /// A message that the protocol does not allow here, by its tag.
    pub fn unexpected_message(tag: u8) -> PostgresError {
        PostgresError::Unexpected(format!("a message of kind `{}` out of turn", tag.escape_ascii()))
    }

    /// The SQLSTATE of a server error.
    pub fn code(&self) -> Option<&str> {
        match self {
            PostgresError::Server(server) => Some(server.code()),
            _ => None,
        }
    }

    /// True if the connection might succeed with TLS where it was plain, or without.
    pub fn is_of_tls(&self) -> bool {
        /// `invalid_authorization_specification`: pg_hba.conf has no entry for such a connection.
        const NO_ENTRY: &str = "28000";
        matches!(self, PostgresError::Tls(_)) || self.code() == Some(NO_ENTRY)
    }

    /// True if retrying is useless: the server cannot read its files, or they are damaged.
    pub fn is_final(&self) -> bool {
        /// SQLSTATE classes: system errors, internal errors.
        const FINAL: [&str; 2] = ["58", "XX"];
        self.code().is_some_and(|code| FINAL.iter().any(|class| code.starts_with(class)))
    }

    /// True if the socket timed out.
    pub fn is_timeout(&self) -> bool {
        use std::io::ErrorKind::{TimedOut, WouldBlock};
        matches!(self, PostgresError::Socket(error) if matches!(error.kind(), TimedOut | WouldBlock))
    }
}

/// An error reported by the server.
#[derive(Debug, Default)]
pub struct ServerError {
    severity: String,
    /// The SQLSTATE: five characters.
    code: String,
    message: String,
    detail: String,
}

impl ServerError {
    /// The SQLSTATE.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Parses the fields of an error message: for each a letter and a text, terminated by 0.
    pub fn parse(body: &[u8]) -> ServerError {
        let mut error = ServerError::default();
        for field in body.split(|byte| *byte == 0) {
            let Some((kind, text)) = field.split_first() else { continue };
            let place = match kind {
                b'S' => &mut error.severity,
                b'C' => &mut error.code,
                b'M' => &mut error.message,
                b'D' => &mut error.detail,
                _ => continue,
            };
            *place = String::from_utf8_lossy(text).into_owned();
        }
        error
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity, self.message)?;
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        write!(f, ", SQLSTATE {}", self.code)
    }
}

impl std::error::Error for ServerError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_read_its_files_is_not_asked_again_and_who_starts_is() {
        let of = |code: &str| {
            PostgresError::Server(Box::new(ServerError::parse(format!("SFATAL\0C{code}\0Mno\0").as_bytes())))
        };
        // An I/O error and a damaged page are final; startup in progress and too many connections are not.
        assert!(of("58030").is_final() && of("XX001").is_final());
        assert!(!of("57P03").is_final() && !of("53300").is_final() && !PostgresError::Lost.is_final());
    }
}
