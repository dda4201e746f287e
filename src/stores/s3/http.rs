//! HTTP/1.1 as a client of object stores needs it: one request at a time over a connection that is kept, blobs without a copy.

use std::io::{IoSlice, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use rustls::{ClientConfig, RootCertStore};
use url::{Position, Url};

use super::super::wire::{self, Address, Wire};
use crate::store::*;

/// Where requests go.
#[derive(Clone)]
pub(super) struct Endpoint {
    address: Address,
    /// For `https`: whom to trust.
    tls: Option<Arc<ClientConfig>>,
}

impl Endpoint {
    pub(super) fn of(url: &Url) -> Result<Endpoint> {
        let port = url.port_or_known_default().unwrap_or(80);
        let address = Address::of(url, url.scheme(), port)?;
        Ok(Endpoint { address, tls: if url.scheme() == "https" { Some(trust()?) } else { None } })
    }

    fn connect(&self, timeout: Duration) -> Result<Wire> {
        let wire = match &self.tls {
            Some(tls) => Wire::connect_tls(&self.address, tls, timeout),
            None => Wire::connect(&self.address, timeout),
        }?;
        // A server that sends head and body apart, and in between waits for what the kernel puts off, would take 40 ms.
        Ok(wire.acknowledging_at_once())
    }
}

/// The authorities that this machine trusts, or those of the file that `SSL_CERT_FILE` names.
fn trust() -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(Error::Failed(anyhow!(
            "no authority for certificates is trusted here ({}); SSL_CERT_FILE names a file of them",
            errors.join("; ")
        )));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.context("TLS cannot be set up")?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// What came before a body, and the body itself where it tells of an error.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    reason: String,
    pub(super) etag: String,
    pub(super) server: String,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    error: Vec<u8>,
}

impl Answer {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Status, and the code and message of the protocol's error where there is one.
    pub(super) fn words(&self) -> String {
        let text = String::from_utf8_lossy(&self.error);
        let inner = |tag: &str| {
            let (_, rest) = text.split_once(&format!("<{tag}>"))?;
            rest.split_once(&format!("</{tag}>")).map(|(inner, _)| inner.to_owned())
        };
        let said = [inner("Code"), inner("Message")].into_iter().flatten();
        let status = format!("{} {}", self.status, self.reason);
        std::iter::once(status.trim().to_owned()).chain(said).collect::<Vec<_>>().join(": ")
    }

    /// The code of the protocol's error.
    pub(super) fn has_code(&self, code: &str) -> bool {
        String::from_utf8_lossy(&self.error).contains(&format!("<Code>{code}</Code>"))
    }

    /// Whether a 404 means the blob, not the bucket around it.
    pub(super) fn is_missing_blob(&self) -> bool {
        !self.has_code("NoSuchBucket")
    }

    fn header(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let Some((name, value)) = line.split_once(':') else { return };
        let value = value.trim();
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is("content-length") {
            self.length = value.parse().ok();
        } else if is("transfer-encoding") {
            self.chunked = value.to_ascii_lowercase().contains("chunked");
        } else if is("connection") {
            self.close = value.eq_ignore_ascii_case("close");
        } else if is("etag") {
            value.clone_into(&mut self.etag);
        } else if is("server") {
            value.clone_into(&mut self.server);
        }
    }
}

/// One connection, made when it is needed.
pub(super) struct Http {
    endpoint: Endpoint,
    timeout: Duration,
    wire: Option<Wire>,
    request: Vec<u8>,
}

impl Http {
    pub(super) fn new(endpoint: Endpoint, timeout: Duration) -> Http {
        Http { endpoint, timeout, wire: None, request: Vec::new() }
    }

    /// Connects anew.
    pub(super) fn connect(&mut self) -> Result<()> {
        self.wire = Some(self.endpoint.connect(self.timeout)?);
        Ok(())
    }

    /// Sends a request and lends the body of an answer that says that it was done.
    pub(super) fn ask(
        &mut self,
        method: &str,
        url: &Url,
        headers: &str,
        body: &[u8],
        sink: Sink,
    ) -> Result<Answer> {
        self.request.clear();
        let (path, host) = (
            &url[Position::BeforePath..Position::AfterQuery],
            &url[Position::BeforeHost..Position::AfterPort],
        );
        write!(self.request, "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}")?;
        if !body.is_empty() || ["PUT", "POST"].contains(&method) {
            write!(self.request, "Content-Length: {}\r\n", body.len())?;
        }
        self.request.extend_from_slice(b"\r\n");
        let (mut wire, mut answer) = self.begun(method, body)?;
        let (mut error, success) = (Vec::new(), answer.is_success());
        let mut take = |piece: &[u8]| if success { sink(piece) } else { error.extend_from_slice(piece) };
        let has_body = method != "HEAD" && ![204, 304].contains(&answer.status);
        if has_body {
            body_of(&mut wire, &answer, &mut take)?;
        }
        answer.error = error;
        // Where it is not taken for the next request it is closed, also when anything above failed.
        if !answer.close && (!has_body || answer.chunked || answer.length.is_some()) {
            self.wire = Some(wire);
        }
        Ok(answer)
    }

    /// Sends the request that is ready, and reads the head of its answer.
    fn begun(&mut self, method: &str, body: &[u8]) -> Result<(Wire, Answer)> {
        if let Some(kept) = self.wire.take() {
            // A server may close a kept connection at any time between two requests. Of these all may be repeated but those
            // that make something new each time.
            match self.begin(kept, body) {
                Err(Error::Failed(error)) if method != "POST" && is_hang_up(&error) => {}
                outcome => return outcome,
            }
        }
        self.begin(self.endpoint.connect(self.timeout)?, body)
    }

    fn begin(&self, mut wire: Wire, body: &[u8]) -> Result<(Wire, Answer)> {
        wire.send(&mut [IoSlice::new(&self.request), IoSlice::new(body)])?;
        let mut answer = head_of(&mut wire)?;
        while (100..200).contains(&answer.status) {
            answer = head_of(&mut wire)?;
        }
        Ok((wire, answer))
    }
}

/// Whether the other side was gone, before it answered.
fn is_hang_up(error: &anyhow::Error) -> bool {
    use std::io::ErrorKind;
    match error.downcast_ref::<std::io::Error>() {
        Some(error) => matches!(
            error.kind(),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted
        ),
        None => error.to_string() == wire::HUNG_UP,
    }
}

fn head_of(wire: &mut Wire) -> Result<Answer> {
    let line = String::from_utf8_lossy(wire.line()?).into_owned();
    let mut words = line.splitn(3, ' ');
    let version = words.next().unwrap_or_default();
    let status = words.next().and_then(|status| status.parse().ok());
    let (true, Some(status)) = (version.starts_with("HTTP/1."), status) else {
        return Err(Error::Failed(anyhow!("`{line}` is no answer of an HTTP server")));
    };
    let reason = words.next().unwrap_or_default().to_owned();
    let mut answer = Answer { status, reason, close: version == "HTTP/1.0", ..Answer::default() };
    loop {
        let line = wire.line()?;
        if line.is_empty() {
            return Ok(answer);
        }
        answer.header(line);
    }
}

fn body_of(wire: &mut Wire, answer: &Answer, sink: Sink) -> Result<()> {
    if !answer.chunked {
        return match answer.length {
            Some(length) => wire.lend(length, sink),
            None => wire.lend_rest(sink),
        };
    }
    loop {
        let line = String::from_utf8_lossy(wire.line()?).into_owned();
        let digits = line.split(';').next().unwrap_or_default().trim();
        let length = u64::from_str_radix(digits, 16)
            .with_context(|| format!("`{line}` is no length of a piece of an answer"))?;
        if length == 0 {
            // What may follow the last piece ends with an empty line.
            while !wire.line()?.is_empty() {}
            return Ok(());
        }
        wire.lend(length, sink)?;
        wire.line_end()?;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    /// A server that answers the requests of each connection in turn, and closes the connection after the last one.
    fn server(connections: Vec<Vec<&'static str>>) -> Url {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}/b/k?q=1", listener.local_addr().unwrap());
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
                    stream
                        .write_all(answer.replace("ASKED", asked.lines().next().unwrap()).as_bytes())
                        .unwrap();
                }
            }
        });
        url.parse().unwrap()
    }

    fn client(url: &Url) -> Http {
        Http::new(Endpoint::of(url).unwrap(), Duration::from_secs(5))
    }

    fn get(http: &mut Http, url: &Url) -> Result<(Answer, String)> {
        let mut body = Vec::new();
        let answer = http.ask("GET", url, "", b"", &mut |piece| body.extend_from_slice(piece))?;
        Ok((answer, String::from_utf8_lossy(&body).into_owned()))
    }

    #[test]
    fn bodies_of_every_form_are_read_to_their_end() {
        let url = server(vec![
            vec![
                "HTTP/1.1 200 OK\r\nContent-Length: 21\r\nETag: \"x\"\r\n\r\nASKED",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nEnd: x\r\n\r\n",
                "HTTP/1.1 204 No Content\r\n\r\n",
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end",
            ],
            vec!["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nagain"],
        ]);
        let mut http = client(&url);
        let (answer, body) = get(&mut http, &url).unwrap();
        assert_eq!((answer.etag.as_str(), body.as_str()), ("\"x\"", "GET /b/k?q=1 HTTP/1.1"));
        assert_eq!(get(&mut http, &url).unwrap().1, "abc0123456789");
        assert_eq!(get(&mut http, &url).unwrap().0.status, 204);
        assert_eq!(get(&mut http, &url).unwrap().1, "to the end");
        assert_eq!(get(&mut http, &url).unwrap().1, "again");
    }

    #[test]
    fn a_connection_that_was_closed_in_between_is_made_again() {
        const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let url = server(vec![vec![ANSWER], vec![ANSWER]]);
        let mut http = client(&url);
        assert_eq!(get(&mut http, &url).unwrap().1, "ok");
        assert_eq!(get(&mut http, &url).unwrap().1, "ok");
        assert!(get(&mut http, &url).is_err());
    }

    #[test]
    fn errors_are_told_in_the_words_of_the_server() {
        let url = server(vec![
            vec![
                "HTTP/1.1 403 Forbidden\r\nContent-Length: 84\r\n\r\n<Error><Code>RequestTimeTooSkewed</Code><Message>The clocks differ</Message></Error>",
            ],
            vec!["HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\n\r\n<html>no</html>"],
            vec!["HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"],
            vec!["220 hello\r\n"],
        ]);
        let (answer, body) = get(&mut client(&url), &url).unwrap();
        assert_eq!(answer.words(), "403 Forbidden: RequestTimeTooSkewed: The clocks differ");
        assert!(answer.has_code("RequestTimeTooSkewed") && body.is_empty());
        let (answer, body) = get(&mut client(&url), &url).unwrap();
        assert!(answer.words() == "502 Bad Gateway" && body.is_empty());
        let ended = get(&mut client(&url), &url).unwrap_err().to_string();
        assert!(ended.contains("closed the connection"), "{ended}");
        let wrong = get(&mut client(&url), &url).unwrap_err().to_string();
        assert!(wrong.contains("`220 hello` is no answer of an HTTP server"), "{wrong}");
    }
}
