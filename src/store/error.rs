//! Why an operation did not happen.

/// What an adapter returns on the clock. No allocation is needed to say `Busy` or `TimedOut`.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation did not happen. An error is a result: it is counted, and the first one is kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store has no such operation. The engine does not emulate it.
    #[error("{0} is not supported by this store")]
    Unsupported(&'static str),
    /// Another writer holds what this one needs; the same call may be tried again.
    #[error("the store is busy")]
    Busy,
    /// No answer within [`Setup::op_timeout`]; the session is dropped and another one opened.
    #[error("the store did not answer in time")]
    TimedOut,
    /// The server turned away each of several attempts with pauses between them: for now, more would only take time.
    #[error(transparent)]
    Unavailable(anyhow::Error),
    /// Anything else, with its cause.
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::Failed(error.into())
    }
}

impl Error {
    /// Wraps the error of a driver.
    pub fn failed(error: impl Into<anyhow::Error>) -> Error {
        Error::Failed(error.into())
    }
}

impl From<rustix::io::Errno> for Error {
    fn from(errno: rustix::io::Errno) -> Error {
        std::io::Error::from(errno).into()
    }
}
