//! Requests to an object store: signed by `rusty-s3`, whose signatures leave the blob out, and sent by ourselves.

use std::time::Duration;

use anyhow::{Context, anyhow};
use rusty_s3::actions::{CreateMultipartUpload, ListObjectsV2};
use rusty_s3::{Bucket, Credentials, S3Action};
use url::{Position, Url};

use crate::store::*;
use crate::wire::http::{Answer, Request};
use crate::wire::http1::{Endpoint, Http, Manners, Version};

/// How long a signature holds: longer than any request of ours waits to be sent.
const SIGNED_FOR: Duration = Duration::from_secs(600);

/// What a session needs to talk to a bucket.
#[derive(Clone)]
pub(super) struct Access {
    pub(super) endpoint: Endpoint,
    pub(super) bucket: Bucket,
    pub(super) credentials: Credentials,
    pub(super) timeout: Duration,
}

pub(super) struct Client<'a> {
    access: &'a Access,
    http: Http,
}

/// One object of a list.
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) bytes: u64,
}

fn method_of<'a, A: S3Action<'a>>(_: &A) -> &'static str {
    A::METHOD.to_str()
}

impl<'a> Client<'a> {
    pub(super) fn new(access: &'a Access) -> Client<'a> {
        let timeout = access.timeout;
        let manners = Manners {
            version: Version::One,
            keep_alive: true,
            acknowledge_at_once: true,
            repeat: true,
            timeout,
        };
        Client { access, http: Http::new(access.endpoint.clone(), manners) }
    }

    pub(super) fn connect(&mut self) -> Result<()> {
        self.http.connect()
    }

    /// Sends one request, whatever the answer is.
    fn send(
        &mut self,
        method: &'static str,
        url: &Url,
        headers: &str,
        body: &[u8],
        sink: Sink,
    ) -> Result<Answer> {
        let host = &url[Position::BeforeHost..Position::AfterPort];
        let path = &url[Position::BeforePath..Position::AfterQuery];
        let body = (!body.is_empty() || ["PUT", "POST"].contains(&method)).then_some(body);
        self.http.ask(&Request { method, host, path, headers, body }, sink)
    }

    /// Sends one request and insists that it was done.
    fn ask<'b>(
        &mut self,
        action: &impl S3Action<'b>,
        headers: &str,
        body: &[u8],
        sink: Sink,
    ) -> Result<Answer> {
        let answer = self.send(method_of(action), &action.sign(SIGNED_FOR), headers, body, sink)?;
        if answer.is_success() { Ok(answer) } else { Err(refused(&answer)) }
    }

    /// The same with an answer of text.
    fn ask_text<'b>(&mut self, action: &impl S3Action<'b>, body: &[u8]) -> Result<String> {
        let mut text = Vec::new();
        self.ask(action, "", body, &mut |piece| text.extend_from_slice(piece))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// How many requests were made once more since this was last asked.
    pub(super) fn take_repeats(&mut self) -> u64 {
        self.http.take_repeats()
    }

    pub(super) fn put(&mut self, name: &str, blob: &[u8]) -> Result<()> {
        let action = self.access.bucket.put_object(Some(&self.access.credentials), name);
        self.ask(&action, "", blob, &mut |_| {}).map(drop)
    }

    /// In parts, one after the other; readers see nothing of it before the last step.
    pub(super) fn put_parts(&mut self, name: &str, blob: &[u8], part_bytes: usize) -> Result<()> {
        let (bucket, credentials) = (&self.access.bucket, Some(&self.access.credentials));
        let begun = self.ask_text(&bucket.create_multipart_upload(credentials, name), b"")?;
        let begun = CreateMultipartUpload::parse_response(&begun).context("the server names no upload")?;
        let upload = begun.upload_id();
        let outcome = self.parts(name, upload, blob, part_bytes);
        if outcome.is_err() {
            // Parts that were sent would stay, unseen. The first error is the one to report.
            self.ask(&bucket.abort_multipart_upload(credentials, name, upload), "", b"", &mut |_| {}).ok();
        }
        outcome
    }

    fn parts(&mut self, name: &str, upload: &str, blob: &[u8], part_bytes: usize) -> Result<()> {
        let (bucket, credentials) = (&self.access.bucket, Some(&self.access.credentials));
        let mut tags = Vec::new();
        for (number, part) in (1..).zip(blob.chunks(part_bytes)) {
            let action = bucket.upload_part(credentials, name, number, upload);
            tags.push(self.ask(&action, "", part, &mut |_| {})?.etag);
        }
        let finish =
            || bucket.complete_multipart_upload(credentials, name, upload, tags.iter().map(String::as_str));
        let said = self.ask_text(&finish(), finish().body().as_bytes())?;
        // The answer begins before the outcome is known: it may say that all is well and then that it is not.
        if said.contains("<Error>") {
            return Err(Error::Failed(anyhow!("the server could not put the parts together: {said}")));
        }
        Ok(())
    }

    pub(super) fn get(&mut self, name: &str, span: Span, sink: Sink) -> Result<bool> {
        // Servers count with a sign.
        let range = match span {
            Span::Whole => String::new(),
            Span::Part { .. } => match span.below(i64::MAX as u64) {
                (_, 0) => return self.exists(name),
                (offset, len) => format!("Range: bytes={offset}-{}\r\n", offset + len - 1),
            },
        };
        let action = self.access.bucket.get_object(Some(&self.access.credentials), name);
        let url = action.sign(SIGNED_FOR);
        let answer = self.send("GET", &url, &range, b"", sink)?;
        match answer.status {
            // A server that does not know ranges would lend the whole blob.
            200 if !range.is_empty() => Err(Error::Failed(anyhow!("the server ignores ranges"))),
            200 | 206 => Ok(true),
            // The range begins behind the blob's end.
            416 => Ok(true),
            404 if is_missing_blob(&answer) => Ok(false),
            _ => Err(refused(&answer)),
        }
    }

    fn exists(&mut self, name: &str) -> Result<bool> {
        let action = self.access.bucket.head_object(Some(&self.access.credentials), name);
        let answer = self.send("HEAD", &action.sign(SIGNED_FOR), "", b"", &mut |_| {})?;
        match answer.status {
            200 => Ok(true),
            404 => Ok(false),
            _ => Err(refused(&answer)),
        }
    }

    pub(super) fn delete(&mut self, name: &str) -> Result<()> {
        let action = self.access.bucket.delete_object(Some(&self.access.credentials), name);
        let answer = self.send("DELETE", &action.sign(SIGNED_FOR), "", b"", &mut |_| {})?;
        match answer.status {
            200 | 204 => Ok(()),
            404 if is_missing_blob(&answer) => Ok(()),
            _ => Err(refused(&answer)),
        }
    }

    /// Everything that begins so.
    pub(super) fn list(&mut self, prefix: &str, each: &mut dyn FnMut(Listed)) -> Result<()> {
        self.pages(prefix, None, &mut |page| {
            page.contents
                .into_iter()
                .for_each(|item| each(Listed { name: item.key, bytes: item.size.unwrap_or(0) }));
        })
    }

    /// What stands between a prefix and the next slash: directories, as people say.
    pub(super) fn directories(&mut self, prefix: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        self.pages(prefix, Some("/"), &mut |page| {
            found.extend(page.common_prefixes.into_iter().map(|directory| directory.prefix));
        })?;
        Ok(found)
    }

    fn pages(
        &mut self,
        prefix: &str,
        delimiter: Option<&str>,
        each: &mut dyn FnMut(rusty_s3::actions::ListObjectsV2Response),
    ) -> Result<()> {
        let mut next: Option<String> = None;
        loop {
            let mut action = self.access.bucket.list_objects_v2(Some(&self.access.credentials));
            action.with_prefix(prefix);
            if let Some(delimiter) = delimiter {
                action.with_delimiter(delimiter);
            }
            if let Some(token) = next.take() {
                action.with_continuation_token(token);
            }
            let text = self.ask_text(&action, b"")?;
            let mut page =
                ListObjectsV2::parse_response(&text).context("the server's list is not one of S3's")?;
            next = page.next_continuation_token.take();
            each(page);
            if next.is_none() {
                return Ok(());
            }
        }
    }

    /// Whether somebody answers who knows our keys, with the bucket or without it. A connection alone says less: SeaweedFS's gateway
    /// takes one before it has its second port, and ends where that is taken.
    pub(super) fn knows_us(&mut self) -> Result<()> {
        let answer = self.head_bucket()?;
        if answer.is_success() || answer.status == 404 { Ok(()) } else { Err(refused(&answer)) }
    }

    /// Whether the server does not carry out a request for want of a right. That it cannot for another reason is no matter of rights,
    /// unless that is the bucket, or who we are.
    pub(super) fn denies<'b>(&mut self, action: &impl S3Action<'b>) -> Result<bool> {
        let answer = self.send(method_of(action), &action.sign(SIGNED_FOR), "", b"", &mut |_| {})?;
        match answer.status {
            403 if has_code(&answer, "AccessDenied") => Ok(true),
            403 => Err(refused(&answer)),
            404 if !is_missing_blob(&answer) => Err(refused(&answer)),
            _ => Ok(false),
        }
    }

    /// Makes the bucket of a private server.
    pub(super) fn create_bucket(&mut self) -> Result<()> {
        let action = self.access.bucket.create_bucket(&self.access.credentials);
        self.ask(&action, "", b"", &mut |_| {}).map(drop)
    }

    /// What the server calls itself in its answers; empty where it does not.
    pub(super) fn server_name(&mut self) -> Result<String> {
        Ok(self.head_bucket()?.server)
    }

    fn head_bucket(&mut self) -> Result<Answer> {
        let url = self.access.bucket.head_bucket(Some(&self.access.credentials)).sign(SIGNED_FOR);
        self.send("HEAD", &url, "", b"", &mut |_| {})
    }
}

/// The endpoint that a bucket's URL leads to.
pub(super) fn endpoint_of(url: &Url) -> Url {
    let mut endpoint = url.clone();
    endpoint.set_path("/");
    endpoint.set_query(None);
    endpoint
}

/// An answer that is none of those asked for.
fn refused(answer: &Answer) -> Error {
    if answer.status == 503 && has_code(answer, "SlowDown") {
        return Error::Busy;
    }
    Error::Failed(anyhow!("the server says `{}`", words(answer)))
}

/// Status, and the code and message of the protocol's error where there is one.
fn words(answer: &Answer) -> String {
    let text = String::from_utf8_lossy(&answer.refusal);
    let inner = |tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>"))?;
        rest.split_once(&format!("</{tag}>")).map(|(inner, _)| inner.to_owned())
    };
    let said = [inner("Code"), inner("Message")].into_iter().flatten();
    let status = format!("{} {}", answer.status, answer.reason);
    std::iter::once(status.trim().to_owned()).chain(said).collect::<Vec<_>>().join(": ")
}

/// The code of the protocol's error.
fn has_code(answer: &Answer, code: &str) -> bool {
    String::from_utf8_lossy(&answer.refusal).contains(&format!("<Code>{code}</Code>"))
}

/// Whether a 404 means the blob, not the bucket around it.
fn is_missing_blob(answer: &Answer) -> bool {
    !has_code(answer, "NoSuchBucket")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_in_the_words_of_the_server() {
        let said = b"<Error><Code>RequestTimeTooSkewed</Code><Message>The clocks differ</Message></Error>";
        let mut answer = Answer::default();
        (answer.status, answer.reason, answer.refusal) = (403, "Forbidden".into(), said.to_vec());
        assert_eq!(words(&answer), "403 Forbidden: RequestTimeTooSkewed: The clocks differ");
        assert!(has_code(&answer, "RequestTimeTooSkewed") && is_missing_blob(&answer));
        (answer.status, answer.reason, answer.refusal) =
            (502, "Bad Gateway".into(), b"<html>no</html>".to_vec());
        assert_eq!(words(&answer), "502 Bad Gateway");
    }
}
