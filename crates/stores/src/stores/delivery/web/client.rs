//! A visitor's requests to a web server.

use std::fmt::{Arguments, Write as _};
use std::time::Duration;

use anyhow::anyhow;

use crate::store::*;
use crate::wire::buffer::Address;
use crate::wire::http::{HttpRequest as Sent, HttpResponse};
use crate::wire::http1::{ConnectionMode, Endpoint, HttpConnection, HttpVersion};

/// Connection properties common to all requests.
#[derive(Clone)]
pub(super) struct WebEndpoint {
    pub(super) endpoint: Endpoint,
    pub(super) version: HttpVersion,
    pub(super) keep_alive: bool,
    pub(super) timeout: Duration,
}

#[derive(Clone, Copy)]
pub(super) struct WebRequest<'a> {
    pub(super) method: &'static str,
    pub(super) path: &'a str,
    /// Offset and length of a range request; the length is above 0.
    pub(super) part: Option<(u64, u64)>,
    /// ETag of the visitor's cached copy.
    pub(super) etag: Option<&'a str>,
    /// Secret that proves that the request comes from this run.
    pub(super) token: Option<&'a str>,
    pub(super) body: Option<&'a [u8]>,
}

impl<'a> WebRequest<'a> {
    pub(super) fn new(method: &'static str, path: &'a str) -> WebRequest<'a> {
        WebRequest { method, path, part: None, etag: None, token: None, body: None }
    }
}

/// One visitor's connection.
pub(super) struct WebClient {
    http: HttpConnection,
    host: String,
    headers: String,
    /// Responses that the application's cache did not hold, or not completely.
    cache_misses: u64,
}

impl WebClient {
    pub(super) fn new(target: &WebEndpoint) -> WebClient {
        let WebEndpoint { endpoint, version, keep_alive, timeout } = target.clone();
        let host = match &endpoint.address {
            Address::Host(name, port) | Address::Secure(name, port, _) => format!("{name}:{port}"),
            Address::Socket(_) => "localhost".to_owned(),
        };
        // Web servers send head and body together; failed requests are not repeated, so that they are noticed.
        let manners = ConnectionMode { version, keep_alive, ..ConnectionMode::kept(timeout) };
        WebClient {
            http: HttpConnection::new(endpoint, manners),
            host,
            headers: String::new(),
            cache_misses: 0,
        }
    }

    pub(super) fn connect(&mut self) -> Result<()> {
        self.http.connect()
    }

    /// Returns the incidents since the last call.
    pub(super) fn take_incidents(&mut self) -> Incidents {
        Incidents { cache_misses: std::mem::take(&mut self.cache_misses), repeats: self.http.take_repeats() }
    }

    /// Sends a request and passes the body to `sink`. A status not in `good` is an error with the beginning of the response's
    /// text.
    pub(super) fn exchange(
        &mut self,
        request: &WebRequest<'_>,
        good: &[u16],
        sink: Sink,
    ) -> Result<HttpResponse> {
        let WebRequest { method, path, part, etag, token, body } = *request;
        self.headers.clear();
        let mut line = |text: Arguments<'_>| self.headers.write_fmt(text).map_err(anyhow::Error::from);
        if let Some((from, len)) = part {
            line(format_args!("Range: bytes={from}-{}\r\n", from + len - 1))?;
        }
        if let Some(etag) = etag {
            line(format_args!("If-None-Match: {etag}\r\n"))?;
        }
        if let Some(token) = token {
            line(format_args!("X-Token: {token}\r\n"))?;
        }
        let sent = Sent { method, host: &self.host, path, headers: &self.headers, body };
        let answer = self.http.ask(&sent, sink)?;
        self.cache_misses += u64::from(answer.is_success() && answer.is_cache_miss);
        if good.contains(&answer.status) { Ok(answer) } else { Err(refused(request, &answer)) }
    }
}

fn refused(request: &WebRequest<'_>, answer: &HttpResponse) -> Error {
    let text = String::from_utf8_lossy(&answer.refusal);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no text");
    let line: String = line.chars().take(EXCERPT_CHARS).collect();
    Error::Failed(anyhow!("HTTP status {} for {} `{}`: {line}", answer.status, request.method, request.path))
}

/// The most characters of a refusal's first line that are shown.
const EXCERPT_CHARS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_errors_with_what_the_server_said() {
        let mut answer = HttpResponse::default();
        (answer.status, answer.refusal) = (502, b"\nno backend\nand more\n".to_vec());
        assert_eq!(
            refused(&WebRequest::new("GET", "/x"), &answer).to_string(),
            "HTTP status 502 for GET `/x`: no backend"
        );
    }
}
