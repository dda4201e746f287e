//! A buffered connection for protocols implemented here: sends a header and a blob in one system call, and lends replies from one
//! buffer.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use url::Url;

use crate::store::*;
use crate::wire::stream::{Stream, tcp};
#[cfg(feature = "http")]
use crate::wire::tls::TlsSettings;
use crate::wire::tls::{self, TlsMode, TlsRequest};

/// Address of a server.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub enum Address {
    /// A Unix socket.
    Socket(PathBuf),
    /// Host and port, without TLS.
    Host(String, u16),
    /// A host that is reached over TLS.
    Secure(String, u16, TlsRequest),
}

impl Address {
    /// Parses `scheme://HOST[:PORT]`, `schemes://` with TLS, or `scheme+unix:///PATH` for a socket.
    pub fn from_url(url: &Url, scheme: &str, port: u16) -> Result<Address> {
        if url.scheme() == format!("{scheme}+unix") && !url.path().is_empty() {
            return Ok(Address::Socket(Path::new(url.path()).to_owned()));
        }
        let shown = crate::redact::without_passwords(url.as_str());
        let is_secure = url.scheme() == format!("{scheme}s");
        ensure!(url.scheme() == scheme || is_secure, "`{shown}` does not begin with `{scheme}://`");
        // Brackets are URL syntax and not part of the address.
        let host = url.host_str().filter(|host| !host.is_empty()).map(|host| host.trim_matches(['[', ']']));
        let host = host.with_context(|| format!("`{shown}` names no host"))?;
        let (host, port) = (host.to_owned(), url.port().unwrap_or(port));
        if is_secure {
            let request = TlsRequest::from_query(url).with_context(|| format!("`{shown}` cannot be used"))?;
            return Ok(Address::Secure(host, port, request));
        }
        if let Some((name, _)) = url.query_pairs().find(|(name, _)| name.starts_with("ssl_")) {
            bail!("`{shown}` has `{name}`, which is for TLS; that begins with `{scheme}s://`");
        }
        Ok(Address::Host(host, port))
    }

    /// How strict connections to it are.
    pub fn tls_mode(&self) -> TlsMode {
        match self {
            Address::Secure(_, _, request) => request.mode,
            Address::Socket(_) | Address::Host(..) => TlsMode::Disable,
        }
    }
}

/// Parses the option `url`.
pub fn parse(url: &str, of: &str) -> Result<Url> {
    let shown = || {
        // Beside the two slashes behind the scheme.
        let is_special =
            url.rsplit_once('@').is_some_and(|(login, _)| login.matches(['/', '#', '@']).count() > 2);
        let hint =
            if is_special { "; in a password, `/`, `#` and `@` are written as %2F, %23 and %40" } else { "" };
        format!("`{}` is not a URL of {of}{hint}", crate::redact::without_passwords(url))
    };
    Ok(Url::parse(url).with_context(shown)?)
}

fn connected(address: &Address, timeout: Duration) -> anyhow::Result<Stream> {
    match address {
        Address::Socket(path) => {
            Stream::unix(path, timeout).with_context(|| format!("cannot connect to `{}`", path.display()))
        }
        Address::Host(name, port) => Ok(Stream::Tcp(reached(name, *port, timeout)?)),
        Address::Secure(name, port, tls) => Ok(tls.secure(reached(name, *port, timeout)?, name)?),
    }
}

fn reached(name: &str, port: u16, timeout: Duration) -> anyhow::Result<TcpStream> {
    tcp(name, port, timeout).with_context(|| format!("cannot connect to `{name}:{port}`"))
}

/// Sends a pending TCP acknowledgement at once.
fn acknowledge(stream: &Stream) -> std::io::Result<()> {
    match stream {
        Stream::Unix(_) => Ok(()),
        Stream::Tcp(stream) => Ok(rustix::net::sockopt::set_tcp_quickack(stream, true)?),
        Stream::Tls(stream) => Ok(rustix::net::sockopt::set_tcp_quickack(&stream.sock, true)?),
    }
}

/// Bytes per read: large blobs take few calls, and the buffer stays in the CPU cache.
const BUFFER_BYTES: usize = 256 << 10;

/// The other side closed the connection.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the server closed the connection")]
pub struct ConnectionClosed;

/// A connection. After a failed op its state is unknown, and it must be dropped.
pub struct Wire {
    stream: Stream,
    /// Allocated by the first read.
    buffer: Box<[u8]>,
    /// Unread bytes are `buffer[begin..end]`.
    begin: usize,
    end: usize,
    acknowledges_at_once: bool,
}

impl Wire {
    /// Connects. `timeout` applies to connecting and to each wait of an op.
    pub fn connect(address: &Address, timeout: Duration) -> Result<Wire> {
        Ok(Wire::upon(connected(address, timeout)?))
    }

    fn upon(stream: Stream) -> Wire {
        Wire { stream, buffer: Box::default(), begin: 0, end: 0, acknowledges_at_once: false }
    }

    /// Reuses the buffer of a closed connection: allocating one per connection would cost more than a short reply.
    #[cfg(feature = "http")]
    pub fn with_buffer(mut self, buffer: Box<[u8]>) -> Wire {
        self.buffer = buffer;
        self
    }

    /// Closes the connection and returns its buffer for the next one.
    #[cfg(feature = "http")]
    pub fn into_buffer(self) -> Box<[u8]> {
        self.buffer
    }

    /// Connects with TLS to a server with a certificate for the host in its address. `protocol` is negotiated by ALPN, if given.
    #[cfg(feature = "http")]
    pub fn connect_tls(
        address: &Address,
        trust: &std::sync::Arc<rustls::ClientConfig>,
        protocol: Option<&[u8]>,
        timeout: Duration,
    ) -> Result<Wire> {
        let Address::Host(name, port) = address else {
            return Err(Error::Unsupported("TLS over a socket without a host's name"));
        };
        let stream = reached(name, *port, timeout)?;
        Ok(Wire::upon(tls::secured(stream, name, trust, protocol, TlsSettings::Environment)?))
    }

    /// The protocol negotiated by ALPN.
    #[cfg(feature = "http")]
    pub fn protocol(&self) -> Option<&[u8]> {
        match &self.stream {
            Stream::Tls(stream) => stream.conn.alpn_protocol(),
            Stream::Unix(_) | Stream::Tcp(_) => None,
        }
    }

    /// What was negotiated of TLS, as a fact; `mode` is what was asked for.
    pub fn tls(&self, mode: TlsMode) -> String {
        tls::negotiated(&self.stream, mode)
    }

    /// Sends all parts, in as few system calls as the kernel allows.
    pub fn send(&mut self, parts: &mut [IoSlice]) -> Result<()> {
        let mut parts = parts;
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            match self.stream.write_vectored(parts) {
                Ok(0) => return Err(hung_up()),
                Ok(written) => IoSlice::advance_slices(&mut parts, written),
                Err(error) => go_on_after(error)?,
            }
        }
        Ok(self.stream.flush()?)
    }

    /// Acknowledges everything as soon as it is read, where the kernel would delay that.
    #[cfg(feature = "http")]
    pub fn acknowledging_at_once(mut self) -> Wire {
        self.acknowledges_at_once = true;
        self
    }

    /// Returns the next line without its line end.
    pub fn line(&mut self) -> Result<&[u8]> {
        let mut looked = self.begin;
        loop {
            if let Some(at) = self.buffer[looked..self.end].iter().position(|byte| *byte == b'\n') {
                let (begin, end) = (self.begin, looked + at);
                self.begin = end + 1;
                let line = &self.buffer[begin..end];
                return Ok(line.strip_suffix(b"\r").unwrap_or(line));
            }
            self.make_room()?;
            looked = self.end;
            self.fill()?;
        }
    }

    /// True if bytes came that were not used.
    #[cfg(feature = "http")]
    pub(crate) fn has_unread(&self) -> bool {
        self.begin < self.end
    }

    /// Returns the next item recognized by `parse`, which gets all unread bytes and returns the item with its length, or `None`
    /// if it needs more.
    #[cfg(feature = "http")]
    pub fn parsed<T>(&mut self, mut parse: impl FnMut(&[u8]) -> Result<Option<(T, usize)>>) -> Result<T> {
        loop {
            if self.begin < self.end
                && let Some((parsed, bytes)) = parse(&self.buffer[self.begin..self.end])?
            {
                self.begin += bytes;
                return Ok(parsed);
            }
            self.make_room()?;
            self.fill()?;
        }
    }

    /// Moves unread bytes to the front. An error if they fill the whole buffer, because more would not help.
    fn make_room(&mut self) -> Result<()> {
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.begin = 0;
        }
        let has_room = self.end < self.buffer.len() || self.end == 0;
        ensure!(has_room, "the server's answer is no line of its protocol");
        Ok(())
    }

    /// Lends the next bytes in pieces, as they arrive.
    pub fn lend(&mut self, bytes: u64, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut left = bytes;
        while left > 0 {
            if self.begin == self.end {
                (self.begin, self.end) = (0, 0);
                self.fill()?;
            }
            let piece = ((self.end - self.begin) as u64).min(left) as usize;
            sink(&self.buffer[self.begin..self.begin + piece]);
            self.begin += piece;
            left -= piece as u64;
        }
        Ok(())
    }

    /// Lends everything until the server closes the connection.
    #[cfg(feature = "http")]
    pub fn lend_rest(&mut self, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        loop {
            sink(&self.buffer[self.begin..self.end]);
            (self.begin, self.end) = (0, 0);
            if self.read_more()? == 0 {
                return Ok(());
            }
        }
    }

    /// Reads the line end after a blob of known length; an error if anything else follows.
    pub fn line_end(&mut self) -> Result<()> {
        let line = String::from_utf8_lossy(self.line()?);
        ensure!(line.is_empty(), "`{line}` stands where the blob's end should be");
        Ok(())
    }

    /// Reads more bytes; an error if the server has closed the connection.
    fn fill(&mut self) -> Result<()> {
        if self.read_more()? == 0 { Err(hung_up()) } else { Ok(()) }
    }

    /// Reads more bytes; 0 if the server has closed the connection.
    fn read_more(&mut self) -> Result<usize> {
        if self.buffer.is_empty() {
            self.buffer = vec![0; BUFFER_BYTES].into();
        }
        loop {
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(read) => {
                    self.end += read;
                    if self.acknowledges_at_once {
                        acknowledge(&self.stream)?;
                    }
                    return Ok(read);
                }
                Err(error) => go_on_after(error)?,
            }
        }
    }
}

fn hung_up() -> Error {
    Error::Failed(ConnectionClosed.into())
}

/// Continues after a signal; separates timeouts from failures.
fn go_on_after(error: std::io::Error) -> Result<()> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(Error::TimedOut),
        _ => Err(tls::explained(error).into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A connection to a peer that runs this function, which is waited for as long as it takes.
    fn with_peer(peer: impl FnOnce(UnixStream) + Send + 'static) -> Wire {
        with_patience(Duration::from_secs(60), peer)
    }

    /// A connection to a peer that is waited for at each read for so long.
    fn with_patience(patience: Duration, peer: impl FnOnce(UnixStream) + Send + 'static) -> Wire {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(patience)).unwrap();
        std::thread::spawn(move || peer(theirs));
        Wire::upon(Stream::Unix(ours))
    }

    #[test]
    fn lines_and_blobs_come_whole_however_they_arrive() {
        let blob: Vec<u8> = (0..700_001_u32).map(|at| at as u8).collect();
        let sent = [b"VA 700001\r\n".as_slice(), &blob, b"\r\nHD\r\n"].concat();
        let mut wire = with_peer(move |mut peer| {
            for piece in sent.chunks(7001) {
                peer.write_all(piece).unwrap();
            }
        });
        assert_eq!(wire.line().unwrap(), b"VA 700001");
        let mut found = Vec::new();
        wire.lend(700_001, &mut |piece| found.extend_from_slice(piece)).unwrap();
        assert_eq!(found, blob);
        wire.line_end().unwrap();
        assert_eq!(wire.line().unwrap(), b"HD");
        let ended = wire.line().unwrap_err();
        assert!(ended.to_string().contains("closed the connection"), "{ended}");
    }

    #[test]
    fn a_blob_that_ends_too_early_is_an_error() {
        let mut wire = with_peer(|mut peer| peer.write_all(b"VA 100\r\nonly this").unwrap());
        assert_eq!(wire.line().unwrap(), b"VA 100");
        let mut lent = 0;
        let ended = wire.lend(100, &mut |piece| lent += piece.len()).unwrap_err();
        assert!(lent == 9 && ended.to_string().contains("closed the connection"), "{ended}");
    }

    #[test]
    fn what_was_sent_in_parts_arrives_in_order() {
        let (send, receive) = std::sync::mpsc::channel();
        let mut wire = with_peer(move |mut peer| {
            let mut all = Vec::new();
            peer.read_to_end(&mut all).unwrap();
            send.send(all).unwrap();
        });
        let large = vec![7; 3_000_000];
        wire.send(&mut [
            IoSlice::new(b"head"),
            IoSlice::new(b""),
            IoSlice::new(&large),
            IoSlice::new(b"tail"),
        ])
        .unwrap();
        drop(wire);
        assert_eq!(receive.recv().unwrap(), [b"head".as_slice(), &large, b"tail"].concat());
    }

    #[test]
    fn a_silent_server_is_told_apart_from_a_wrong_one() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (write, written) = std::sync::mpsc::channel();
        let mut wire = with_patience(Duration::from_secs(2), move |mut peer| {
            peer.write_all(b"VA 2\r\nxyz\r\n").unwrap();
            write.send(()).unwrap();
            ended.recv().ok();
        });
        // Before the patience counts, or a peer that a busy machine starts late would be a silent one.
        written.recv().unwrap();
        assert_eq!(wire.line().unwrap(), b"VA 2");
        wire.lend(2, &mut |_| {}).unwrap();
        assert!(wire.line_end().unwrap_err().to_string().contains("`z` stands where"));
        assert!(matches!(wire.line(), Err(Error::TimedOut)));
        drop(end);
    }

    #[test]
    fn addresses_are_read_from_urls() {
        for (url, is_hinted) in
            [("redis://:a/b@h", true), ("redis://:a#b@h", true), ("redis://:a@h:x", false)]
        {
            let said = format!("{:#}", parse(url, "redis").unwrap_err());
            assert_eq!(said.contains("are written as %2F, %23 and %40"), is_hinted, "{said}");
        }
        let of = |url: &str| Address::from_url(&parse(url, "memcached").unwrap(), "memcached", 11211);
        assert!(
            matches!(of("memcached://127.0.0.1").unwrap(), Address::Host(name, 11211) if name == "127.0.0.1")
        );
        assert!(matches!(of("memcached://[::1]:7").unwrap(), Address::Host(name, 7) if name == "::1"));
        assert!(
            matches!(of("memcached+unix:///run/m").unwrap(), Address::Socket(path) if path == Path::new("/run/m"))
        );
        assert!(of("memcached://").is_err());
        assert!(
            of("http://127.0.0.1").unwrap_err().to_string().contains("does not begin with `memcached://`")
        );
    }
}
