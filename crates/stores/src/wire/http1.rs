//! HTTP client for object stores and web servers: one connection, one request at a time, the body lent as it arrives. HTTP/1.1 is
//! implemented here, HTTP/2 in `http2.rs`.
//!
//! The maintained Rust clients cost more than the request: they return bodies as readers, which adds a copy, and keep pools that
//! one worker with one connection does not need.

use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use rustls::ClientConfig;

use super::buffer::{Address, ConnectionClosed, Wire};
use super::http::{Framing, HttpRequest, HttpResponse, ended, unanswered};
use super::http2::{ALPN, BodySink, Http2Connection};
use super::tls::TlsMode;
use crate::store::*;

const HEADERS_MAX: usize = 100;
/// The most bytes of a refusal that are kept.
const REFUSAL_BYTES: usize = 16 << 10;

/// Target of requests.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: Address,
    /// The trusted certificates; `None` without TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpVersion {
    /// HTTP/1.1.
    One,
    /// HTTP/2: negotiated in the TLS handshake, or known in advance without TLS.
    Two,
}

/// How a connection is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionMode {
    pub(crate) version: HttpVersion,
    /// True if a connection serves many requests.
    pub(crate) keep_alive: bool,
    /// True to acknowledge incoming data as soon as it is read. Otherwise 40 ms are lost with a server that sends head and body
    /// separately and waits for the delayed acknowledgement in between.
    pub(crate) acknowledge_at_once: bool,
    /// True to repeat a request if the server had closed the kept connection before it.
    pub(crate) repeat: bool,
    /// For connecting, and for each wait of a request.
    pub(crate) timeout: Duration,
}

impl ConnectionMode {
    /// A kept connection of HTTP/1.1, over which no request is repeated.
    pub(crate) fn kept(timeout: Duration) -> ConnectionMode {
        ConnectionMode {
            version: HttpVersion::One,
            keep_alive: true,
            acknowledge_at_once: false,
            repeat: false,
            timeout,
        }
    }
}

/// A kept connection between two requests.
enum IdleConnection {
    One(Wire),
    Two(Box<Http2Connection>),
}

/// One worker's connection, opened when needed.
pub(crate) struct HttpConnection {
    endpoint: Endpoint,
    manners: ConnectionMode,
    kept: Option<IdleConnection>,
    /// Buffer of the previous connection, if that was closed.
    spare: Box<[u8]>,
    head: Vec<u8>,
    repeats: u64,
}

impl HttpConnection {
    pub(crate) fn new(endpoint: Endpoint, manners: ConnectionMode) -> HttpConnection {
        HttpConnection { endpoint, manners, kept: None, spare: Box::default(), head: Vec::new(), repeats: 0 }
    }

    /// Number of repeated requests since the last call.
    pub(crate) fn take_repeats(&mut self) -> u64 {
        std::mem::take(&mut self.repeats)
    }

    pub(crate) fn connect(&mut self) -> Result<()> {
        self.kept = None;
        self.kept = Some(match self.manners.version {
            HttpVersion::One => IdleConnection::One(self.connected()?),
            HttpVersion::Two => IdleConnection::Two(self.linked()?),
        });
        Ok(())
    }

    /// What was negotiated of TLS by the open connection, as a fact.
    pub(crate) fn tls(&self) -> Option<String> {
        match &self.kept {
            Some(IdleConnection::One(wire)) => Some(wire.tls(TlsMode::VerifyFull)),
            Some(IdleConnection::Two(_)) | None => None,
        }
    }

    fn linked(&mut self) -> Result<Box<Http2Connection>> {
        Ok(Box::new(Http2Connection::new(self.connected()?, self.endpoint.tls.is_some())?))
    }

    fn connected(&mut self) -> Result<Wire> {
        let Endpoint { address, tls } = &self.endpoint;
        let wire = match tls {
            Some(trust) => {
                let protocol = (self.manners.version == HttpVersion::Two).then_some(ALPN);
                Wire::connect_tls(address, trust, protocol, self.manners.timeout)
            }
            None => Wire::connect(address, self.manners.timeout),
        }?;
        let wire = wire.with_buffer(std::mem::take(&mut self.spare));
        Ok(if self.manners.acknowledge_at_once { wire.acknowledging_at_once() } else { wire })
    }

    /// Sends a request and lends the body of a successful response.
    pub(crate) fn ask(&mut self, request: &HttpRequest<'_>, sink: Sink) -> Result<HttpResponse> {
        self.ask_as(request, request.method != "POST", sink)
    }

    /// The same for a request that may be done twice, whatever its method.
    #[cfg(feature = "own")]
    pub(crate) fn ask_idempotent(&mut self, request: &HttpRequest<'_>, sink: Sink) -> Result<HttpResponse> {
        self.ask_as(request, true, sink)
    }

    /// Sends a request, and repeats it after pauses while the server turns it away. `words` describes a response.
    #[cfg(any(feature = "s3", feature = "own"))]
    pub(crate) fn until_served(
        &mut self,
        words: impl Fn(&HttpResponse) -> String,
        mut send: impl FnMut(&mut HttpConnection) -> Result<HttpResponse>,
    ) -> Result<HttpResponse> {
        let patience = self.manners.timeout;
        let mut pauses = Backoff::within(patience);
        loop {
            let answer = send(self)?;
            let Some(attempts_max) = attempts_max(answer.status) else { return Ok(answer) };
            let again = pauses.attempts() < attempts_max;
            let Some(pause) = again.then(|| pauses.next(answer.retry_after)).flatten() else {
                let said =
                    format!("the server says `{}`, after {} attempts", words(&answer), pauses.attempts());
                return Err(Error::Unavailable(anyhow!("{said}{}", way_out(&answer, patience))));
            };
            std::thread::sleep(pause);
            self.repeats += 1;
        }
    }

    fn ask_as(&mut self, request: &HttpRequest<'_>, is_idempotent: bool, sink: Sink) -> Result<HttpResponse> {
        let mut refusal = Vec::new();
        let mut take = |success, piece: &[u8]| match success {
            true => sink(piece),
            false => refusal.extend_from_slice(&piece[..piece.len().min(REFUSAL_BYTES - refusal.len())]),
        };
        let mut answer = match self.manners.version {
            HttpVersion::One => self.ask_one(request, is_idempotent, &mut take),
            HttpVersion::Two => self.ask_two(request, &mut take),
        }?;
        answer.refusal = refusal;
        Ok(answer)
    }

    fn ask_two(&mut self, request: &HttpRequest<'_>, take: BodySink) -> Result<HttpResponse> {
        // A server may close a connection between two requests. It reports which requests it did not process; these are repeated.
        if let Some(IdleConnection::Two(link)) = self.kept.take()
            && link.is_open()
        {
            if let Some(answer) = self.ask_over(link, request, take)? {
                return Ok(answer);
            }
            self.repeats += 1;
        }
        let link = self.linked()?;
        let answer = self.ask_over(link, request, take)?;
        answer.ok_or_else(|| Error::Failed(anyhow!("the server turns requests away")))
    }

    /// Sends a request, and keeps the connection if it can be reused. After an error it is closed.
    fn ask_over(
        &mut self,
        mut link: Box<Http2Connection>,
        request: &HttpRequest<'_>,
        take: BodySink,
    ) -> Result<Option<HttpResponse>> {
        let answer = link.ask(request, take)?;
        if self.manners.keep_alive && link.is_open() {
            self.kept = Some(IdleConnection::Two(link));
        } else {
            self.spare = link.into_buffer();
        }
        Ok(answer)
    }

    fn ask_one(
        &mut self,
        request: &HttpRequest<'_>,
        is_idempotent: bool,
        take: BodySink,
    ) -> Result<HttpResponse> {
        self.write_head(request)?;
        let (mut wire, answer) = self.begun(request, is_idempotent)?;
        let success = answer.is_success();
        let has_body = answer.has_body(request);
        if has_body {
            lend_body(&mut wire, answer.framing, &mut |piece| take(success, piece))?;
        }
        // A connection that is not kept is closed, also after an error above: its unread data belongs to no request.
        let ended = has_body && answer.framing == Framing::UntilClose;
        if self.manners.keep_alive && !answer.close && !ended {
            self.kept = Some(IdleConnection::One(wire));
        } else {
            self.spare = wire.into_buffer();
        }
        Ok(answer)
    }

    fn write_head(&mut self, request: &HttpRequest<'_>) -> Result<()> {
        let HttpRequest { method, host, path, headers, body } = request;
        self.head.clear();
        write!(self.head, "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}")?;
        if let Some(body) = body {
            write!(self.head, "Content-Length: {}\r\n", body.len())?;
        }
        if !self.manners.keep_alive {
            self.head.extend_from_slice(b"Connection: close\r\n");
        }
        self.head.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Sends the request and reads the head of the response.
    fn begun(&mut self, request: &HttpRequest<'_>, is_idempotent: bool) -> Result<(Wire, HttpResponse)> {
        let body = request.body.unwrap_or_default();
        if let Some(IdleConnection::One(kept)) = self.kept.take() {
            // A server may close a kept connection at any time between two requests. All requests can be repeated, except those
            // that create something new each time.
            let may_repeat = self.manners.repeat && is_idempotent;
            match begin(kept, &self.head, body) {
                Err(Error::Failed(error)) if may_repeat && is_hang_up(&error) => self.repeats += 1,
                outcome => return outcome.map_err(unanswered),
            }
        }
        let wire = self.connected()?;
        begin(wire, &self.head, body).map_err(unanswered)
    }
}

/// The most attempts for a response with this status; `None` if repeating is useless. Rate limits are retried while time
/// permits, errors of the server or of a gateway twice.
#[cfg(any(feature = "s3", feature = "own"))]
fn attempts_max(status: u16) -> Option<u32> {
    const OF_A_LIMIT: u32 = 10;
    match status {
        429 | 503 => Some(OF_A_LIMIT),
        500 | 502 | 504 => Some(3),
        _ => None,
    }
}

/// What to do if there was no time for another attempt, as the end of an error.
#[cfg(any(feature = "s3", feature = "own"))]
fn way_out(answer: &HttpResponse, patience: Duration) -> String {
    match answer.retry_after.filter(|asked| *asked > patience) {
        Some(asked) => format!(
            ", and asks to wait {} s, where an op may take {} s: try again later, or raise --op-timeout",
            asked.as_secs(),
            patience.as_secs_f64()
        ),
        None if [429, 503].contains(&answer.status) => ": use fewer --workers, or try again later".to_owned(),
        None => String::new(),
    }
}

fn begin(mut wire: Wire, head: &[u8], body: &[u8]) -> Result<(Wire, HttpResponse)> {
    match wire.send(&mut [IoSlice::new(head), IoSlice::new(body)]) {
        Err(Error::Failed(error)) if is_hang_up(&error) => {
            return early_refusal(wire).ok_or(Error::Failed(error));
        }
        sent => sent?,
    }
    let first = read_head(&mut wire);
    let mut answer = first.map_err(|error| if wire.has_unread() { cut_short(error) } else { error })?;
    while (100..200).contains(&answer.status) {
        answer = read_head(&mut wire).map_err(cut_short)?;
    }
    Ok((wire, answer))
}

/// The answer of a server that closed the connection before it had read the whole request, because it refuses it; `None` if it sent
/// none.
fn early_refusal(mut wire: Wire) -> Option<(Wire, HttpResponse)> {
    // 408 ends a connection that was idle: the request is none of its reasons.
    let answer = read_head(&mut wire).ok().filter(|answer| answer.status >= 300 && answer.status != 408)?;
    Some((wire, HttpResponse { close: true, ..answer }))
}

/// Makes an error of one that came after a part of the answer: the server has seen the request, which is not repeated.
fn cut_short(error: Error) -> Error {
    match unanswered(error) {
        Error::Failed(error) => Error::Failed(anyhow!("{error:#}")),
        other => other,
    }
}

/// True if the other side closed the connection.
fn is_hang_up(error: &anyhow::Error) -> bool {
    use std::io::ErrorKind;
    match error.downcast_ref::<std::io::Error>() {
        Some(error) => matches!(
            error.kind(),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted
        ),
        None => error.is::<ConnectionClosed>(),
    }
}

fn read_head(wire: &mut Wire) -> Result<HttpResponse> {
    wire.parsed(|bytes| {
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut head = httparse::Response::new(&mut []);
        let parser = httparse::ParserConfig::default();
        let parsed = parser.parse_response_with_uninit_headers(&mut head, bytes, &mut headers);
        match parsed.map_err(|error| no_head(error, bytes))? {
            httparse::Status::Partial => Ok(None),
            httparse::Status::Complete(len) => Ok(Some((HttpResponse::from_head(&head)?, len))),
        }
    })
}

/// Converts a parser's error into a message for the user.
fn no_head(error: httparse::Error, bytes: &[u8]) -> Error {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
    Error::Failed(match error {
        httparse::Error::TooManyHeaders => {
            anyhow!("the head of the answer has more than {HEADERS_MAX} lines")
        }
        httparse::Error::HeaderName | httparse::Error::HeaderValue => {
            anyhow!("the head of the answer that begins with `{line}` is not HTTP: {error}")
        }
        _ => anyhow!("the answer is not HTTP: `{line}`"),
    })
}

fn lend_body(wire: &mut Wire, framing: Framing, sink: Sink) -> Result<()> {
    match framing {
        Framing::Length(length) => lend_counted(wire, length, sink),
        Framing::UntilClose => wire.lend_rest(sink),
        Framing::Chunked => loop {
            let length = chunk_length(wire)?;
            if length == 0 {
                // Trailers end with an empty line.
                while !wire.line()?.is_empty() {}
                return Ok(());
            }
            lend_counted(wire, length, sink)?;
            wire.line_end()?;
        },
    }
}

fn lend_counted(wire: &mut Wire, length: u64, sink: Sink) -> Result<()> {
    let mut came = 0;
    let mut count = |piece: &[u8]| {
        came += piece.len();
        sink(piece);
    };
    let lent = wire.lend(length, &mut count);
    lent.map_err(|error| {
        ended(error, || format!("the connection ended after {came} of {length} B of the body"))
    })
}

fn chunk_length(wire: &mut Wire) -> Result<u64> {
    let length = wire.parsed(|bytes| match httparse::parse_chunk_size(bytes) {
        Ok(httparse::Status::Partial) => Ok(None),
        Ok(httparse::Status::Complete((len, chunk_bytes))) => Ok(Some((chunk_bytes, len))),
        Err(httparse::InvalidChunkSize) => {
            let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let line = String::from_utf8_lossy(line);
            Err(Error::Failed(anyhow!(
                "the body is not in chunks: `{}` is no length of one",
                line.trim_end()
            )))
        }
    });
    length.map_err(|error| ended(error, || "the connection ended between two chunks of the body".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{SocketAddr, TcpListener};

    use super::*;

    /// A server that answers the requests of each connection in order, each response in pieces, and closes the connection after
    /// the last one. `ASKED` in a response is replaced by the first line of the request.
    fn server(connections: Vec<Vec<&'static [&'static str]>>) -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for answers in connections {
                let (mut stream, _) = listener.accept().unwrap();
                for answer in answers {
                    let (mut asked, mut room) = (Vec::new(), [0; 4096]);
                    while !asked.windows(4).any(|end| end == b"\r\n\r\n") {
                        let read = stream.read(&mut room).unwrap();
                        asked.extend_from_slice(&room[..read]);
                    }
                    let asked = String::from_utf8_lossy(&asked).into_owned();
                    for piece in answer {
                        let piece = piece.replace("ASKED", asked.lines().next().unwrap());
                        stream.write_all(piece.as_bytes()).unwrap();
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
            }
        });
        address
    }

    fn client(address: SocketAddr, repeat: bool) -> HttpConnection {
        let address = Address::Host(address.ip().to_string(), address.port());
        let kept = ConnectionMode::kept(Duration::from_secs(60));
        let manners = ConnectionMode { acknowledge_at_once: true, repeat, ..kept };
        HttpConnection::new(Endpoint { address, tls: None }, manners)
    }

    fn ask(http: &mut HttpConnection, method: &'static str) -> Result<(HttpResponse, String)> {
        let mut body = Vec::new();
        let request = HttpRequest { method, host: "h", path: "/b?q=1", headers: "", body: None };
        let answer = http.ask(&request, &mut |piece| body.extend_from_slice(piece))?;
        Ok((answer, String::from_utf8_lossy(&body).into_owned()))
    }

    fn get(http: &mut HttpConnection) -> Result<(HttpResponse, String)> {
        ask(http, "GET")
    }

    /// The client's error for a server that sends `pieces` and closes the connection.
    fn error(pieces: &'static [&'static str]) -> String {
        get(&mut client(server(vec![vec![pieces]]), false)).unwrap_err().to_string()
    }

    #[test]
    fn bodies_arrive_whole_however_they_are_framed_and_cut() {
        let address = server(vec![
            vec![
                &["HTTP/1.1 200 OK\r\nContent-Length: 19\r\nETag: \"x\"\r\n\r\nASKED"],
                &["HTTP/1.1 200 OK\r\nContent-Le", "ngth: 10\r\n\r\n01", "234", "56789"],
                &[
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n01",
                    "2\r\n7;x=y",
                    "\r\n3456789\r",
                    "\n0\r\nEnd: x\r\n\r\n",
                ],
                &["HTTP/1.1 204 No Content\r\n\r\n"],
                &["HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nto the", " end"],
            ],
            vec![&["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nagain"]],
        ]);
        let mut http = client(address, false);
        let (answer, body) = get(&mut http).unwrap();
        assert_eq!((answer.etag.as_str(), body.as_str()), ("\"x\"", "GET /b?q=1 HTTP/1.1"));
        assert_eq!(get(&mut http).unwrap().1, "0123456789");
        assert_eq!(get(&mut http).unwrap().1, "0123456789");
        assert_eq!(get(&mut http).unwrap().0.status, 204);
        assert_eq!(get(&mut http).unwrap().1, "to the end");
        assert_eq!(get(&mut http).unwrap().1, "again");
    }

    #[test]
    fn what_is_cut_short_is_an_error() {
        assert_eq!(
            error(&["HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123"]),
            "the connection ended after 4 of 10 B of the body"
        );
        let chunked: &[&str] = &["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n012\r\n"];
        assert_eq!(error(chunked), "the connection ended between two chunks of the body");
        assert_eq!(error(&[""]), "the server closed the connection before it answered");
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        assert_eq!(error(&["220 hello\r\n\r\n"]), "the answer is not HTTP: `220 hello`");
        assert!(error(&["HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"]).contains("`-1` is not a number"));
        assert!(
            error(&["HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"]).contains("compressed (`gzip`)")
        );
        assert!(error(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: x\r\n\r\n"]).contains("encoding `x`"));
        let chunked: &[&str] = &["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n"];
        assert!(error(chunked).contains("not in chunks: `z`"));
    }

    #[test]
    fn a_refusal_is_told_that_came_before_the_request_was_sent() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 1000]).unwrap();
            stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nmuch").unwrap();
        });
        let body = vec![0_u8; 16 << 20];
        let request =
            HttpRequest { method: "PUT", host: "h", path: "/b", headers: "", body: Some(&body[..]) };
        let answer = client(address, false).ask(&request, &mut |_| ()).unwrap();
        assert_eq!((answer.status, answer.refusal.as_slice()), (413, b"much".as_slice()));
    }

    /// A malformed header must not be skipped: it may be the one with the length, and whatever follows would be taken for the
    /// body.
    #[test]
    fn a_head_that_is_none_is_an_error() {
        let odd = error(&["HTTP/1.1 200 OK\r\nContent-Length : 10\r\n\r\n0123456789"]);
        assert_eq!(
            odd,
            "the head of the answer that begins with `HTTP/1.1 200 OK` is not HTTP: invalid header name"
        );
        assert!(error(&["HTTP/1.1 200 OK\r\nContent-Length\r\n\r\n"]).contains("invalid header name"));
        assert_eq!(error(&["HTTP/1.1 2x0 OK\r\n\r\n"]), "the answer is not HTTP: `HTTP/1.1 2x0 OK`");
        assert_eq!(
            error(&["HTTP/1.1 200 OK\r\nServ"]),
            "the server closed the connection before it answered"
        );
        let many: &[&str] =
            Box::leak(Box::new([
                &*format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX + 1)).leak()
            ]));
        assert_eq!(error(many), "the head of the answer has more than 100 lines");
    }

    #[test]
    fn a_head_may_be_cut_anywhere() {
        const ANSWER: &str =
            "HTTP/1.1 200 OK\r\nETag: x\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\n\r\n";
        for at in 1..ANSWER.len() - 1 {
            let pieces = Box::leak(Box::new([&ANSWER[..at], &ANSWER[at..]]));
            let (answer, body) = get(&mut client(server(vec![vec![&pieces[..]]]), false)).unwrap();
            assert_eq!((answer.etag.as_str(), body.as_str()), ("x", "ok"), "cut at {at}");
        }
    }

    #[test]
    fn the_head_says_what_came_and_whether_the_connection_stays() {
        let address = server(vec![
            vec![&[
                "HTTP/1.1 200 OK\r\nServer: x/1\r\nContent-Type: application/octet-stream\r\nContent-Length: 5\r\nConnection: close\r\n\r\n",
            ]],
            vec![&["HTTP/1.1 403 Forbidden\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nno"]],
        ]);
        let mut http = client(address, false);
        let (answer, body) = ask(&mut http, "HEAD").unwrap();
        assert!(answer.is_blob && body.is_empty() && answer.server == "x/1");
        let (answer, body) = get(&mut http).unwrap();
        assert!(!answer.is_blob && body.is_empty() && answer.refusal == b"no");
    }

    #[test]
    fn a_connection_that_was_closed_in_between_is_made_again_where_that_is_asked() {
        const ANSWER: &[&str] = &["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"];
        let mut http = client(server(vec![vec![ANSWER], vec![ANSWER]]), true);
        assert_eq!(get(&mut http).unwrap().1, "ok");
        assert_eq!(get(&mut http).unwrap().1, "ok");
        assert!(get(&mut http).is_err());
        let mut http = client(server(vec![vec![ANSWER], vec![ANSWER]]), false);
        assert_eq!(get(&mut http).unwrap().1, "ok");
        assert!(get(&mut http).is_err());
    }

    #[cfg(any(feature = "s3", feature = "own"))]
    #[test]
    fn a_server_that_turns_requests_away_is_asked_again_and_not_for_ever() {
        const SLOW: &[&str] = &["HTTP/1.1 503 Slow Down\r\nContent-Length: 4\r\n\r\nlate"];
        const BROKEN: &[&str] = &["HTTP/1.1 500 Broken\r\nContent-Length: 3\r\n\r\nodd"];
        const ANSWER: &[&str] = &["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"];
        let request = HttpRequest { method: "PUT", host: "h", path: "/b", headers: "", body: Some(b"x") };
        let words = |answer: &HttpResponse| String::from_utf8_lossy(&answer.refusal).into_owned();
        let ask =
            |http: &mut HttpConnection| http.until_served(words, |http| http.ask(&request, &mut |_| ()));
        let mut http = client(server(vec![vec![SLOW, BROKEN, ANSWER]]), false);
        assert_eq!(ask(&mut http).unwrap().status, 200);
        assert_eq!(http.take_repeats(), 2);
        let given_up = ask(&mut client(server(vec![vec![BROKEN; 3]]), false)).unwrap_err().to_string();
        assert_eq!(given_up, "the server says `odd`, after 3 attempts");
    }

    #[cfg(feature = "own")]
    #[test]
    fn a_post_is_repeated_if_that_is_harmless_and_no_byte_of_the_answer_came() {
        const ANSWER: &[&str] = &["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"];
        let request = HttpRequest { method: "POST", host: "h", path: "/sync", headers: "", body: Some(b"") };
        let again = |next: Vec<Vec<&'static [&'static str]>>| {
            let mut http = client(server([vec![vec![ANSWER]], next].concat()), true);
            get(&mut http).unwrap();
            http
        };
        let mut http = again(vec![vec![ANSWER]]);
        assert_eq!(http.ask_idempotent(&request, &mut |_| ()).unwrap().status, 200);
        assert_eq!(http.take_repeats(), 1);
        assert!(again(vec![vec![ANSWER]]).ask(&request, &mut |_| ()).is_err());
        // A server that closes each connection without an answer is asked once more, not for ever.
        assert!(again(vec![vec![&[""]], vec![ANSWER]]).ask_idempotent(&request, &mut |_| ()).is_err());
        let begun: &[&str] = &["HTTP/1.1 200 O"];
        let mut http = client(server(vec![vec![ANSWER, begun], vec![ANSWER]]), true);
        get(&mut http).unwrap();
        let cut = http.ask_idempotent(&request, &mut |_| ()).unwrap_err().to_string();
        assert_eq!(cut, "the server closed the connection before it answered");
    }
}
