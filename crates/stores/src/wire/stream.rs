//! A socket with timeouts.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A connected socket.
pub enum Stream {
    /// To a server of this machine.
    Unix(UnixStream),
    /// To a host, without TLS.
    Tcp(TcpStream),
    /// To a host whose certificate was checked as asked.
    #[cfg(feature = "tls")]
    Tls(Box<rustls::StreamOwned<rustls::ClientConnection, TcpStream>>),
}

impl Stream {
    /// Connects to a Unix socket. Every read and write fails after `timeout`.
    pub fn unix(path: &Path, timeout: Duration) -> io::Result<Stream> {
        let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => {
                let (shown, bytes) = (path.display(), path.as_os_str().len());
                let said = format!("the path of a socket may have 107 bytes, and `{shown}` has {bytes}");
                io::Error::new(ErrorKind::InvalidInput, said)
            }
            _ => error,
        })?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Stream::Unix(stream))
    }

    /// The local port; `None` for a Unix socket.
    pub fn port(&self) -> io::Result<Option<u16>> {
        let address = match self {
            Stream::Unix(_) => return Ok(None),
            Stream::Tcp(stream) => stream.local_addr()?,
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.sock.local_addr()?,
        };
        Ok(Some(address.port()))
    }
}

/// Connects to the first address of a name that answers within `timeout` or a minute, whichever is shorter. `timeout` then
/// applies to each read and write.
pub fn tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    const CONNECT_MAX: Duration = Duration::from_secs(60);
    let mut last = io::Error::new(ErrorKind::NotFound, format!("`{host}` has no address"));
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout.min(CONNECT_MAX)) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Read for Stream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(room),
            Stream::Tcp(stream) => stream.read(room),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.read(room),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write_vectored(parts),
            Stream::Tcp(stream) => stream.write_vectored(parts),
            // An owned stream would write the first part only.
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => {
                rustls::Stream::new(&mut stream.conn, &mut stream.sock).write_vectored(parts)
            }
        }
    }

    /// Flushes the buffer of an encrypted stream.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Unix(_) | Stream::Tcp(_) => Ok(()),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.flush(),
        }
    }
}
