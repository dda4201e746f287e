//! A Unix or TCP socket that gives up when the other side is silent for too long.

use std::io::{self, IoSlice, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::url::Place;

/// A connected socket.
pub(in super::super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    /// Connects; every read and write that lasts longer than `patience` is an error from then on.
    pub(super) fn connect(place: &Place, patience: Duration) -> io::Result<Socket> {
        match place {
            Place::Directory(directory, port) => {
                let stream = UnixStream::connect(directory.join(format!(".s.PGSQL.{port}")))?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                Ok(Socket::Unix(stream))
            }
            Place::Host(host, port) => {
                let stream = connect_tcp(host, *port, patience)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                Ok(Socket::Tcp(stream))
            }
        }
    }
}

/// Tries every address of a name.
fn connect_tcp(host: &str, port: u16, patience: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("`{host}` has no address"));
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Read for Socket {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.read(room),
            Socket::Tcp(stream) => stream.read(room),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.write(bytes),
            Socket::Tcp(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.write_vectored(parts),
            Socket::Tcp(stream) => stream.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
