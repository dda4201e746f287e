//! Errors of store operations.

/// The result of an adapter's call. `Busy` and `TimedOut` need no allocation, because they are made on the clock.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed. The engine counts errors and keeps the first one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store has no such operation. The engine does not emulate it.
    #[error("{0} is not supported by this store")]
    Unsupported(&'static str),
    /// Another writer holds a lock that this operation needs; the same call may be retried.
    #[error("the store is busy: another session holds a lock that this needs")]
    Busy,
    /// No answer within [`Setup::op_timeout`]; the engine drops the session and opens another one.
    #[error("the store did not answer in time")]
    TimedOut,
    /// The server turned away several attempts with pauses between them; further ones would only take time.
    #[error(transparent)]
    Unavailable(anyhow::Error),
    /// Anything else, with its cause.
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

/// Returns an [`Error::Failed`] with this message.
macro_rules! bail {
    ($($message:tt)*) => {
        return Err(::anyhow::anyhow!($($message)*).into())
    };
}

/// Returns an [`Error::Failed`] with this message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            return Err(::anyhow::anyhow!($($message)*).into());
        }
    };
}

pub(crate) use {bail, ensure};

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::Failed(error.into())
    }
}

impl Error {
    /// Wraps a driver's error.
    pub fn failed(error: impl Into<anyhow::Error>) -> Error {
        Error::Failed(error.into())
    }
}

impl From<rustix::io::Errno> for Error {
    fn from(errno: rustix::io::Errno) -> Error {
        std::io::Error::from(errno).into()
    }
}
