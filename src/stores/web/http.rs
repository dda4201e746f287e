//! A blocking HTTP/1.1 client: one connection, one request at a time, and the body lent as it arrives.
//!
//! The kept clients for Rust cost more than the request: they hand bodies over as readers, which copies them once more, and keep
//! pools that one worker with one connection does not need. Heads are parsed by `httparse`.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::anyhow;

use crate::store::{Error, Result};

/// Bytes read by one call: several of the pieces in which loopback delivers.
const BUFFER_BYTES: usize = 256 << 10;
/// The longest head of an answer.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The most lines of a head.
const HEADERS_MAX: usize = 64;
/// Bytes of a refusal's text that are kept for the error.
const EXCERPT_BYTES: usize = 200;
/// The one type that blobs are sent as.
pub(super) const BLOB_TYPE: &str = "application/octet-stream";

/// What is asked of a server, once for all requests.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) keep_alive: bool,
    pub(super) timeout: Duration,
}

/// One request.
pub(super) struct Request<'a> {
    pub(super) method: &'static str,
    pub(super) path: &'a [u8],
    /// First byte and number of bytes of the part that is asked for; the number is above 0.
    pub(super) part: Option<(u64, u64)>,
    /// What proves that the request comes from us.
    pub(super) token: Option<&'a str>,
    pub(super) body: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    pub(super) fn new(method: &'static str, path: &'a [u8]) -> Request<'a> {
        Request { method, path, part: None, token: None, body: None }
    }
}

/// One worker's connection.
pub(super) struct Client {
    target: Target,
    host: String,
    stream: Option<TcpStream>,
    request: Vec<u8>,
    buffer: Vec<u8>,
}

/// How the length of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// What matters of an answer's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// Whether the type is that of a blob.
    pub(super) is_blob: bool,
    /// The server's name for itself.
    pub(super) server: Option<String>,
    framing: Framing,
    close: bool,
}

impl Client {
    pub(super) fn new(target: &Target) -> Client {
        Client {
            target: target.clone(),
            host: target.address.to_string(),
            stream: None,
            request: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
        }
    }

    /// Connects anew.
    pub(super) fn connect(&mut self) -> Result<()> {
        self.stream = None;
        let Target { address, timeout, .. } = self.target;
        let stream = TcpStream::connect_timeout(&address, timeout).map_err(from_io)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        self.stream = Some(stream);
        Ok(())
    }

    /// Carries out a request and returns the head; the body goes to `sink` where it is what was asked for (200, 206). An answer of another status than `good` is an error with the beginning of its text, and so is a body that is shorter than
    /// its head says.
    pub(super) fn exchange(
        &mut self,
        request: &Request<'_>,
        good: &[u16],
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<Head> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                self.connect()?;
                self.stream.take().ok_or_else(|| anyhow!("there is no connection"))?
            }
        };
        // A stream that fails half way is not put back: what it still has belongs to no request.
        self.send(&mut stream, request)?;
        let (head, begin, end) = self.read_head(&mut stream)?;
        let wanted = good.contains(&head.status);
        let is_content = wanted && matches!(head.status, 200 | 206);
        let mut excerpt = Vec::new();
        let mut take = |piece: &[u8]| match is_content {
            true => sink(piece),
            false => excerpt.extend(piece.iter().take(EXCERPT_BYTES - excerpt.len().min(EXCERPT_BYTES))),
        };
        let has_body = request.method != "HEAD" && !matches!(head.status, 204 | 304);
        if has_body {
            let mut body = Body { stream: &mut stream, buffer: &mut self.buffer, begin, end };
            body.deliver(head.framing, &mut take)?;
        }
        if !head.close && self.target.keep_alive {
            self.stream = Some(stream);
        }
        if wanted { Ok(head) } else { Err(refused(request, head.status, &excerpt)) }
    }

    fn send(&mut self, stream: &mut TcpStream, request: &Request<'_>) -> Result<()> {
        let out = &mut self.request;
        out.clear();
        out.extend_from_slice(request.method.as_bytes());
        out.push(b' ');
        out.extend_from_slice(request.path);
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        out.extend_from_slice(self.host.as_bytes());
        if let Some((from, len)) = request.part {
            write!(out, "\r\nRange: bytes={from}-{}", from + len - 1)?;
        }
        if let Some(token) = request.token {
            write!(out, "\r\nX-Token: {token}")?;
        }
        if let Some(body) = request.body {
            write!(out, "\r\nContent-Length: {}", body.len())?;
        }
        if !self.target.keep_alive {
            out.extend_from_slice(b"\r\nConnection: close");
        }
        out.extend_from_slice(b"\r\n\r\n");
        stream.write_all(out).map_err(from_io)?;
        stream.write_all(request.body.unwrap_or_default()).map_err(from_io)
    }

    /// Reads until the head is whole; what of the body came with it is in the buffer from `begin` to `end`.
    fn read_head(&mut self, stream: &mut TcpStream) -> Result<(Head, usize, usize)> {
        let mut end = 0;
        loop {
            let read = stream.read(&mut self.buffer[end..]).map_err(from_io)?;
            if read == 0 {
                return Err(anyhow!("the server closed the connection before it answered").into());
            }
            end += read;
            if let Some((head, begin)) = parse_head(&self.buffer[..end])? {
                return Ok((head, begin, end));
            }
            if end >= HEAD_BYTES_MAX {
                return Err(anyhow!("the head of the answer is longer than {HEAD_BYTES_MAX} B").into());
            }
        }
    }
}

/// The head at the beginning of `bytes` and where its body begins; nothing when it is not whole yet.
fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut answer = httparse::Response::new(&mut headers);
    let status = answer.parse(bytes).map_err(|error| anyhow!("the answer is not HTTP: {error}"))?;
    let httparse::Status::Complete(begin) = status else { return Ok(None) };
    let mut head = Head {
        status: answer.code.unwrap_or_default(),
        is_blob: false,
        server: None,
        framing: Framing::UntilClose,
        close: answer.version == Some(0),
    };
    for header in answer.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        if header.name.eq_ignore_ascii_case("content-length") {
            let length =
                value.parse().map_err(|_error| anyhow!("the answer's length `{value}` is not a number"))?;
            head.framing = Framing::Length(length);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") {
                return Err(anyhow!("the answer has the transfer encoding `{value}`").into());
            }
            head.framing = Framing::Chunked;
        } else if header.name.eq_ignore_ascii_case("connection") {
            head.close = value.eq_ignore_ascii_case("close");
        } else if header.name.eq_ignore_ascii_case("content-type") {
            head.is_blob = value == BLOB_TYPE;
        } else if header.name.eq_ignore_ascii_case("content-encoding") {
            return Err(anyhow!("the answer is compressed (`{value}`), which nobody asked for").into());
        } else if header.name.eq_ignore_ascii_case("server") {
            head.server = Some(value.to_owned());
        }
    }
    head.close |= head.framing == Framing::UntilClose;
    Ok(Some((head, begin)))
}

/// A body on its way.
struct Body<'a> {
    stream: &'a mut TcpStream,
    buffer: &'a mut [u8],
    /// Bytes in the buffer that were read and not used.
    begin: usize,
    end: usize,
}

impl Body<'_> {
    fn deliver(&mut self, framing: Framing, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        match framing {
            Framing::Length(length) => self.counted(length, take),
            Framing::UntilClose => loop {
                take(&self.buffer[self.begin..self.end]);
                self.begin = self.end;
                if !self.fill()? {
                    return Ok(());
                }
            },
            Framing::Chunked => self.chunks(take),
        }
    }

    /// Reads more behind what is there, or from the beginning when nothing is; `false` at the end of the connection.
    fn fill(&mut self) -> Result<bool> {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        let read = self.stream.read(&mut self.buffer[self.end..]).map_err(from_io)?;
        self.end += read;
        Ok(read > 0)
    }

    fn counted(&mut self, length: u64, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut left = length;
        loop {
            let here = ((self.end - self.begin) as u64).min(left) as usize;
            if here > 0 {
                take(&self.buffer[self.begin..self.begin + here]);
                self.begin += here;
                left -= here as u64;
            }
            if left == 0 {
                return Ok(());
            }
            if !self.fill()? {
                let came = length - left;
                return Err(anyhow!("the connection ended after {came} of {length} B of the body").into());
            }
        }
    }

    fn chunks(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        loop {
            let (used, size) = loop {
                match httparse::parse_chunk_size(&self.buffer[self.begin..self.end]) {
                    Ok(httparse::Status::Complete(found)) => break found,
                    Ok(httparse::Status::Partial) if self.fill()? => {}
                    Ok(httparse::Status::Partial) => {
                        return Err(anyhow!("the connection ended between two chunks of the body").into());
                    }
                    Err(error) => return Err(anyhow!("the body is not in chunks: {error}").into()),
                }
            };
            self.begin += used;
            self.counted(size, take)?;
            // Behind each chunk, and behind the last one of no bytes, stands an empty line.
            self.counted(2, &mut |_| {})?;
            if size == 0 {
                return Ok(());
            }
        }
    }
}

fn refused(request: &Request<'_>, status: u16, text: &[u8]) -> Error {
    let path = String::from_utf8_lossy(request.path);
    let text = String::from_utf8_lossy(text);
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no text").trim();
    Error::Failed(anyhow!("HTTP status {status} for {} `{path}`: {line}", request.method))
}

/// Keeps what took too long apart from failures.
fn from_io(error: std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::TimedOut,
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// What a client gets from a server that sends `pieces`, one after the other, and closes the connection.
    fn answered(pieces: &'static [&'static [u8]], method: &'static str) -> (Result<Head>, Vec<u8>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = vec![0; 4096];
            assert!(stream.read(&mut asked).unwrap() > 0);
            for piece in pieces {
                stream.write_all(piece).unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let target = Target { address, keep_alive: true, timeout: Duration::from_secs(5) };
        let mut body = Vec::new();
        let head = Client::new(&target).exchange(&Request::new(method, b"/x"), &[200, 206], &mut |piece| {
            body.extend_from_slice(piece);
        });
        server.join().unwrap();
        (head, body)
    }

    fn error(pieces: &'static [&'static [u8]]) -> String {
        answered(pieces, "GET").0.unwrap_err().to_string()
    }

    #[test]
    fn bodies_arrive_whole_however_they_are_framed_and_cut() {
        let counted: &[&[u8]] = &[b"HTTP/1.1 200 OK\r\nContent-Le", b"ngth: 10\r\n\r\n01", b"234", b"56789"];
        let chunked: &[&[u8]] = &[
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n01",
            b"2\r\n7",
            b"\r\n3456789\r",
            b"\n0\r\n\r\n",
        ];
        let until_close: &[&[u8]] = &[b"HTTP/1.1 200 OK\r\n\r\n0123", b"456789"];
        for pieces in [counted, chunked, until_close] {
            let (head, body) = answered(pieces, "GET");
            assert_eq!(head.unwrap().status, 200);
            assert_eq!(body, b"0123456789");
        }
    }

    #[test]
    fn what_is_cut_short_is_an_error() {
        assert_eq!(
            error(&[b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123"]),
            "the connection ended after 4 of 10 B of the body"
        );
        let chunked: &[&[u8]] = &[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n012\r\n"];
        assert_eq!(error(chunked), "the connection ended between two chunks of the body");
        assert_eq!(error(&[b""]), "the server closed the connection before it answered");
        assert!(error(&[b"garbage\r\n\r\n"]).starts_with("the answer is not HTTP"));
    }

    #[test]
    fn refusals_are_errors_with_what_the_server_said() {
        let pieces: &[&[u8]] = &[b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 12\r\n\r\n\nno backend\n"];
        assert_eq!(error(pieces), "HTTP status 502 for GET `/x`: no backend");
    }

    #[test]
    fn the_head_says_what_came_and_whether_the_connection_stays() {
        let pieces: &[&[u8]] = &[
            b"HTTP/1.1 200 OK\r\nServer: x/1\r\nContent-Type: application/octet-stream\r\nContent-Length: 5\r\nConnection: close\r\n\r\n",
        ];
        let (head, body) = answered(pieces, "HEAD");
        let head = head.unwrap();
        assert!(head.is_blob && head.close && body.is_empty());
        assert_eq!(head.server.as_deref(), Some("x/1"));
        let (html, _) =
            answered(&[b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n"], "GET");
        assert!(!html.unwrap().is_blob);
    }
}
