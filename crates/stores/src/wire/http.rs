//! HTTP requests and responses, independent of the version.

use std::time::Duration;

use anyhow::{Context, anyhow};

use super::buffer::ConnectionClosed;
use crate::store::{Error, Result, bail, ensure};

/// The content type of all blobs.
pub(crate) const BLOB_TYPE: &str = "application/octet-stream";
#[derive(Clone, Copy)]
pub(crate) struct HttpRequest<'a> {
    pub(crate) method: &'static str,
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    /// Header lines, each with its line end.
    pub(crate) headers: &'a str,
    pub(crate) body: Option<&'a [u8]>,
}

/// How the length of a body is determined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    #[default]
    UntilClose,
}

/// Head of a response, and its body if it is a refusal.
#[derive(Debug, Default)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) reason: String,
    /// Empty if missing.
    pub(crate) etag: String,
    /// The `Server` header; empty if missing.
    pub(crate) server: String,
    /// The `Location` header; empty if missing.
    pub(crate) location: String,
    /// The `x-amz-bucket-region` header; empty if missing.
    pub(crate) bucket_region: String,
    /// True if the content type is that of a blob.
    pub(crate) is_blob: bool,
    /// True if there is a content type.
    pub(crate) is_typed: bool,
    /// True if the response reports a cache miss.
    pub(crate) is_cache_miss: bool,
    /// The `Server-Timing` header; empty if missing.
    pub(crate) timing: String,
    /// The pause that the server requests (`Retry-After`).
    pub(crate) retry_after: Option<Duration>,
    pub(crate) refusal: Vec<u8>,
    pub(super) framing: Framing,
    /// True if the connection is closed after it.
    pub(super) close: bool,
}

impl HttpResponse {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// True if the response has a body: not after HEAD, and not with certain statuses.
    pub(crate) fn has_body(&self, request: &HttpRequest<'_>) -> bool {
        request.method != "HEAD" && ![204, 304].contains(&self.status)
    }

    /// The length of the body, if it is given.
    pub(crate) fn length(&self) -> Option<u64> {
        if let Framing::Length(length) = self.framing { Some(length) } else { None }
    }

    /// Interprets a complete head.
    pub(super) fn from_head(head: &httparse::Response<'_, '_>) -> Result<HttpResponse> {
        let mut answer = HttpResponse {
            status: head.code.unwrap_or_default(),
            reason: head.reason.unwrap_or_default().to_owned(),
            // Version 1.0 closes by default.
            close: head.version == Some(0),
            ..HttpResponse::default()
        };
        for header in head.headers.iter() {
            answer.field(header.name, &String::from_utf8_lossy(header.value))?;
        }
        Ok(answer)
    }

    /// Interprets a header field.
    pub(crate) fn field(&mut self, name: &str, value: &str) -> Result<()> {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is("content-length") {
            let length =
                value.parse().with_context(|| format!("the answer's length `{value}` is not a number"))?;
            self.framing = Framing::Length(length);
        } else if is("transfer-encoding") {
            let is_chunked = value.eq_ignore_ascii_case("chunked");
            ensure!(is_chunked, "the answer has the transfer encoding `{value}`");
            self.framing = Framing::Chunked;
        } else if is("content-encoding") {
            bail!("the answer is compressed (`{value}`), which nobody asked for");
        } else if is("connection") {
            self.close = value.eq_ignore_ascii_case("close");
        } else if is("content-type") {
            self.is_blob = value == BLOB_TYPE;
            self.is_typed = true;
        } else if is("etag") {
            value.clone_into(&mut self.etag);
        } else if is("server") {
            value.clone_into(&mut self.server);
        } else if is("location") {
            value.clone_into(&mut self.location);
        } else if is("x-amz-bucket-region") {
            value.clone_into(&mut self.bucket_region);
        } else if is("x-cache") {
            self.is_cache_miss = value.eq_ignore_ascii_case("miss");
        } else if is("retry-after") {
            self.retry_after = pause_of(value);
        } else if is("server-timing") {
            // Repeated fields form one list.
            if !self.timing.is_empty() {
                self.timing.push(',');
            }
            self.timing.push_str(value);
        } else if is(":status") {
            self.status = value.parse().with_context(|| format!("the status `{value}` is not a number"))?;
        }
        Ok(())
    }
}

/// Parses a pause in seconds, or until a date; `None` for anything else.
fn pause_of(value: &str) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = jiff::fmt::rfc2822::parse(value.trim()).ok()?.timestamp();
    // A past date requests no pause.
    Some(Duration::try_from(until.duration_since(jiff::Timestamp::now())).unwrap_or_default())
}

/// Describes a closed connection as a missing response; within a body it means something else.
pub(crate) fn unanswered(error: Error) -> Error {
    ended(error, || format!("{ConnectionClosed} before it answered"))
}

/// Replaces the message of an error if the connection was closed.
pub(crate) fn ended(error: Error, words: impl FnOnce() -> String) -> Error {
    match error {
        Error::Failed(error) if error.is::<ConnectionClosed>() => Error::Failed(anyhow!(words())),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_seconds_or_lasts_until_a_date() {
        assert_eq!(pause_of("120"), Some(Duration::from_secs(120)));
        assert_eq!(pause_of("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(100);
        let date = soon.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let pause = pause_of(&date).unwrap().as_secs();
        assert!((90..=100).contains(&pause), "{pause}");
        for none in ["", "soon", "-1", "1.5"] {
            assert_eq!(pause_of(none), None, "{none}");
        }
    }
}
