//! What can go wrong on a connection to PostgreSQL.

use std::fmt;

/// Why there is no good answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// The server refused.
    #[error(transparent)]
    Server(Box<ServerError>),
    /// The socket failed, was closed, or was silent for too long.
    #[error(transparent)]
    Socket(#[from] std::io::Error),
    /// The server sent what the protocol does not foresee.
    #[error("the server sent {0}")]
    Unexpected(String),
    /// An earlier answer was not read to its end.
    #[error("the connection was lost earlier")]
    Lost,
    /// The server asks for what the URL does not have.
    #[error("the server asks for a password, and there is none in the URL")]
    NoPassword,
    /// Something shares the server's sessions among its clients.
    #[error(
        "a connection pooler answers here: {0}. It lends a server's session to one client after the other, with whatever was set in it; \
         give the host and port of PostgreSQL itself"
    )]
    Pooler(String),
}

impl Trouble {
    pub(crate) fn unexpected(what: &str) -> Trouble {
        Trouble::Unexpected(what.to_owned())
    }

    pub(crate) fn unexpected_message(tag: u8) -> Trouble {
        Trouble::Unexpected(format!("a message of kind `{}` out of turn", tag.escape_ascii()))
    }

    /// The SQLSTATE, where the server refused.
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Trouble::Server(server) => Some(&server.code),
            _ => None,
        }
    }

    /// Whether the server lacks what to ask again does not bring back: it cannot read its files, or they are wrong.
    pub(crate) fn is_final(&self) -> bool {
        /// Classes of SQLSTATE: errors of the system, internal errors.
        const FINAL: [&str; 2] = ["58", "XX"];
        self.code().is_some_and(|code| FINAL.iter().any(|class| code.starts_with(class)))
    }

    /// Whether the socket was silent for longer than it may be.
    pub(crate) fn is_timeout(&self) -> bool {
        use std::io::ErrorKind::{TimedOut, WouldBlock};
        matches!(self, Trouble::Socket(error) if matches!(error.kind(), TimedOut | WouldBlock))
    }
}

/// An error in the server's own words.
#[derive(Debug, Default)]
pub(crate) struct ServerError {
    severity: String,
    /// The SQLSTATE: five characters.
    code: String,
    message: String,
    detail: String,
}

impl ServerError {
    /// From the fields of a message: a letter and a text, ended by 0, for each.
    pub(crate) fn of(body: &[u8]) -> ServerError {
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
            Trouble::Server(Box::new(ServerError::of(format!("SFATAL\0C{code}\0Mno\0").as_bytes())))
        };
        // An error of input or output, and a page that is wrong; starting up, and too many connections.
        assert!(of("58030").is_final() && of("XX001").is_final());
        assert!(!of("57P03").is_final() && !of("53300").is_final() && !Trouble::Lost.is_final());
    }
}
