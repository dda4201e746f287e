//! Requests to an object store: signed by `rusty-s3`, with unsigned payload, and sent by our own HTTP client.

use std::time::Duration;

use anyhow::{Context, anyhow};
use rusty_s3::actions::{CreateMultipartUpload, ListObjectsV2};
use rusty_s3::{Bucket, Credentials, S3Action};
use url::{Position, Url};

use super::checksum::Checksum;
use crate::store::*;
use crate::wire::http::{HttpRequest, HttpResponse};
use crate::wire::http1::{ConnectionMode, Endpoint, HttpConnection};

/// Validity of a signature: longer than any request waits to be sent.
const SIGNED_FOR: Duration = Duration::from_secs(600);

/// What a session needs to access a bucket.
#[derive(Clone)]
pub(super) struct BucketAccess {
    /// URL of the server, without the bucket.
    pub(super) server: Url,
    pub(super) endpoint: Endpoint,
    pub(super) bucket: Bucket,
    pub(super) checksum: Checksum,
    pub(super) credentials: Credentials,
    pub(super) timeout: Duration,
}

pub(super) struct S3Client<'a> {
    access: &'a BucketAccess,
    http: HttpConnection,
}

#[derive(Debug)]
pub(super) struct ListEntry {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) kind: ListEntryKind,
}

#[derive(Debug)]
pub(super) enum ListEntryKind {
    Object,
    /// A version of an object, or a delete marker.
    Version(String),
    /// A multipart upload that was neither completed nor aborted.
    Upload(String),
}

impl std::fmt::Display for ListEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            ListEntryKind::Object => write!(f, "{}", self.name),
            ListEntryKind::Version(id) => write!(f, "{} (version {id})", self.name),
            ListEntryKind::Upload(id) => write!(f, "{} (upload {id})", self.name),
        }
    }
}

/// A response that refuses the request.
#[derive(Debug, thiserror::Error)]
#[error("the server says `{words}`{way_out}")]
pub(super) struct S3Error {
    pub(super) status: u16,
    /// Status, and the code and message of the protocol's error if present.
    words: String,
    /// Where the bucket is, and what to do, as far as the response tells.
    way_out: String,
}

impl S3Error {
    fn by(answer: &HttpResponse) -> S3Error {
        let way_out = elsewhere(answer) + way_out(answer);
        S3Error { status: answer.status, words: describe_response(answer), way_out }
    }

    /// True if these keys lack the permission, or the server does not support the request.
    pub(super) fn is_denied(&self) -> bool {
        (self.status == 403 && self.words.contains("AccessDenied"))
            || (self.is_unknown() && self.status != 404)
    }

    /// True if the server does not support the request at all.
    pub(super) fn is_unknown(&self) -> bool {
        [404, 405, 501].contains(&self.status)
    }
}

fn method_of<'a, A: S3Action<'a>>(_: &A) -> &'static str {
    A::METHOD.to_str()
}

/// Sends a request once, whatever the response is.
fn send_once<'b, A: S3Action<'b>>(
    http: &mut HttpConnection,
    action: &A,
    headers: &str,
    body: &[u8],
    sink: Sink,
) -> Result<HttpResponse> {
    let method = method_of(action);
    let url = action.sign(SIGNED_FOR);
    let host = &url[Position::BeforeHost..Position::AfterPort];
    let path = &url[Position::BeforePath..Position::AfterQuery];
    let body = (!body.is_empty() || ["PUT", "POST"].contains(&method)).then_some(body);
    http.ask(&HttpRequest { method, host, path, headers, body }, sink)
}

impl<'a> S3Client<'a> {
    pub(super) fn new(access: &'a BucketAccess) -> S3Client<'a> {
        let kept = ConnectionMode::kept(access.timeout);
        let manners = ConnectionMode { acknowledge_at_once: true, repeat: true, ..kept };
        S3Client { access, http: HttpConnection::new(access.endpoint.clone(), manners) }
    }

    pub(super) fn connect(&mut self) -> Result<()> {
        self.http.connect()
    }

    /// Sends a request, and repeats it after pauses while the server turns it away.
    fn send<'b>(
        &mut self,
        action: &impl S3Action<'b>,
        headers: &str,
        body: &[u8],
        sink: Sink,
    ) -> Result<HttpResponse> {
        self.http.until_served(describe_response, |http| send_once(http, action, headers, body, sink))
    }

    /// Sends a request and returns an error unless it succeeds.
    fn ask<'b>(
        &mut self,
        action: &impl S3Action<'b>,
        headers: &str,
        body: &[u8],
        sink: Sink,
    ) -> Result<HttpResponse> {
        let answer = self.send(action, headers, body, sink)?;
        if answer.is_success() { Ok(answer) } else { Err(refused(&answer)) }
    }

    /// Like [`Client::ask`], with the response as text.
    fn ask_text<'b>(&mut self, action: &impl S3Action<'b>, headers: &str, body: &[u8]) -> Result<String> {
        let mut text = Vec::new();
        self.ask(action, headers, body, &mut |piece| text.extend_from_slice(piece))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Number of repeated requests since the last call.
    pub(super) fn take_repeats(&mut self) -> u64 {
        self.http.take_repeats()
    }

    pub(super) fn put(&mut self, name: &str, blob: &[u8]) -> Result<()> {
        let mut action = self.access.bucket.put_object(Some(&self.access.credentials), name);
        let sum = self.access.checksum.digest(blob);
        let headers = self.access.checksum.sign(action.headers_mut(), sum.as_deref());
        self.ask(&action, &headers, blob, &mut |_| {}).map(drop)
    }

    /// Multipart upload with sequential parts; readers see nothing before the last step.
    pub(super) fn put_parts(&mut self, name: &str, blob: &[u8], part_bytes: usize) -> Result<()> {
        let (bucket, credentials) = (&self.access.bucket, Some(&self.access.credentials));
        let mut action = bucket.create_multipart_upload(credentials, name);
        let headers = self.access.checksum.announce(action.headers_mut());
        let begun = self.ask_text(&action, &headers, b"")?;
        let begun = CreateMultipartUpload::parse_response(&begun).context("the server names no upload")?;
        let upload = begun.upload_id();
        let outcome = self.parts(name, upload, blob, part_bytes);
        if outcome.is_err() {
            // Parts already sent would otherwise remain, invisible. The first error is the one to report.
            self.ask(&bucket.abort_multipart_upload(credentials, name, upload), "", b"", &mut |_| {}).ok();
        }
        outcome
    }

    fn parts(&mut self, name: &str, upload: &str, blob: &[u8], part_bytes: usize) -> Result<()> {
        let (bucket, credentials) = (&self.access.bucket, Some(&self.access.credentials));
        let mut body = "<CompleteMultipartUpload>".to_owned();
        for (number, part) in (1..).zip(blob.chunks(part_bytes)) {
            let mut action = bucket.upload_part(credentials, name, number, upload);
            let sum = self.access.checksum.digest(part);
            let headers = self.access.checksum.sign(action.headers_mut(), sum.as_deref());
            let tag = self.ask(&action, &headers, part, &mut |_| {})?.etag;
            let sum = self.access.checksum.element(sum.as_deref());
            body +=
                &format!("<Part><PartNumber>{number}</PartNumber><ETag>{}</ETag>{sum}</Part>", escaped(&tag));
        }
        body.push_str("</CompleteMultipartUpload>");
        let finish = bucket.complete_multipart_upload(credentials, name, upload, std::iter::empty::<&str>());
        let said = self.ask_text(&finish, "", body.as_bytes())?;
        // The response begins before the outcome is known: status 200 may be followed by an error in the body.
        ensure!(!said.contains("<Error>"), "the server could not put the parts together: {said}");
        Ok(())
    }

    pub(super) fn get(&mut self, name: &str, span: Span, sink: Sink) -> Result<bool> {
        // Servers use signed integers.
        let range = match span {
            Span::Whole => String::new(),
            Span::Part { .. } => match span.below(i64::MAX as u64) {
                (_, 0) => return self.exists(name),
                (offset, len) => format!("Range: bytes={offset}-{}\r\n", offset + len - 1),
            },
        };
        let action = self.access.bucket.get_object(Some(&self.access.credentials), name);
        let answer = self.send(&action, &range, b"", sink)?;
        match answer.status {
            // A server that does not support ranges would lend the whole blob.
            200 if !range.is_empty() => Err(Error::Failed(anyhow!("the server ignores ranges"))),
            200 | 206 => Ok(true),
            // The range begins after the end of the blob.
            416 => Ok(true),
            404 if is_missing_blob(&answer) => Ok(false),
            _ => Err(refused(&answer)),
        }
    }

    fn exists(&mut self, name: &str) -> Result<bool> {
        let action = self.access.bucket.head_object(Some(&self.access.credentials), name);
        let answer = self.send(&action, "", b"", &mut |_| {})?;
        match answer.status {
            200 => Ok(true),
            404 => Ok(false),
            _ => Err(refused(&answer)),
        }
    }

    pub(super) fn delete(&mut self, name: &str) -> Result<()> {
        self.end(&self.access.bucket.delete_object(Some(&self.access.credentials), name))
    }

    /// Removes a listed entry for good: in a versioned bucket exactly that version, without a delete marker.
    pub(super) fn remove(&mut self, listed: &ListEntry) -> Result<()> {
        let (bucket, credentials) = (&self.access.bucket, Some(&self.access.credentials));
        match &listed.kind {
            ListEntryKind::Object => self.delete(&listed.name),
            ListEntryKind::Version(id) => {
                let mut action = bucket.delete_object(credentials, &listed.name);
                action.query_mut().insert("versionId", id.as_str());
                self.end(&action)
            }
            ListEntryKind::Upload(id) => {
                self.end(&bucket.abort_multipart_upload(credentials, &listed.name, id))
            }
        }
    }

    /// Removes something that may be missing.
    fn end<'b>(&mut self, action: &impl S3Action<'b>) -> Result<()> {
        let answer = self.send(action, "", b"", &mut |_| {})?;
        match answer.status {
            200 | 204 => Ok(()),
            404 if is_missing_blob(&answer) => Ok(()),
            _ => Err(refused(&answer)),
        }
    }

    pub(super) fn list(&mut self, prefix: &str, each: &mut dyn FnMut(ListEntry)) -> Result<()> {
        self.pages(prefix, None, &mut |page| {
            page.contents
                .into_iter()
                .map(|item| (item.key, item.size.unwrap_or(0)))
                .for_each(|(name, bytes)| each(ListEntry { name, bytes, kind: ListEntryKind::Object }));
        })
    }

    /// Lists the names between a prefix and the next slash, like directories.
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
            let text = self.ask_text(&action, "", b"")?;
            let mut page =
                ListObjectsV2::parse_response(&text).context("the server's list is not one of S3's")?;
            next = page.next_continuation_token.take();
            each(page);
            if next.is_none() {
                return Ok(());
            }
        }
    }

    /// Everything stored below a prefix: objects or, in a versioned bucket, all versions; and unfinished uploads.
    pub(super) fn everything(&mut self, prefix: &str) -> Result<Vec<ListEntry>> {
        let mut all = match self.versioning()? {
            Some(_) => self.versions(prefix)?,
            None => {
                let mut objects = Vec::new();
                self.list(prefix, &mut |object| objects.push(object))?;
                objects
            }
        };
        match self.uploads(prefix) {
            // If they cannot be listed, no blob was uploaded in parts: see `check_uploads`.
            Err(Error::Failed(error)) if error.is::<S3Error>() => {}
            uploads => all.extend(uploads?),
        }
        Ok(all)
    }

    /// The versioning state of the bucket: `Enabled`, `Suspended` (older versions may remain), or `None`.
    pub(super) fn versioning(&mut self) -> Result<Option<Versioning>> {
        let text = match self.ask_bucket(&[("versioning", "")]) {
            Err(Error::Failed(error)) if unknown(&error).is_some_and(|refused| refused.status != 404) => {
                return Ok(None);
            }
            outcome => outcome?,
        };
        let needs_code = inner(&text, "MfaDelete").is_some_and(|state| state == "Enabled");
        Ok(inner(&text, "Status").map(|state| Versioning { state: state.to_owned(), needs_code }))
    }

    /// The bucket's default retention of new objects (mode and duration); `None` if they are not locked.
    pub(super) fn locks(&mut self) -> Result<Option<String>> {
        let text = match self.ask_bucket(&[("object-lock", "")]) {
            Err(Error::Failed(error)) if unknown(&error).is_some() => return Ok(None),
            outcome => outcome?,
        };
        let Some(rule) = inner(&text, "DefaultRetention") else { return Ok(None) };
        let words = ["Mode", "Days", "Years"].map(|tag| {
            let unit = if tag == "Mode" { String::new() } else { format!(" {}", tag.to_lowercase()) };
            inner(rule, tag).map(|value| format!("{value}{unit}"))
        });
        Ok(Some(words.into_iter().flatten().collect::<Vec<_>>().join(", ")))
    }

    /// Where the bucket copies objects with this prefix to; `None` if nowhere, or if it does not tell.
    pub(super) fn replicated_to(&mut self, prefix: &str) -> Result<Option<String>> {
        match self.ask_bucket(&[("replication", "")]) {
            // Also without a rule.
            Err(Error::Failed(error)) if error.is::<S3Error>() => Ok(None),
            rules => Ok(destination(&rules?, prefix)),
        }
    }

    /// All versions and delete markers below a prefix.
    pub(super) fn versions(&mut self, prefix: &str) -> Result<Vec<ListEntry>> {
        let (mut all, ask) = (Vec::new(), [("versions", ""), ("prefix", prefix)]);
        self.marked_pages(&ask, "version-id-marker", "NextVersionIdMarker", &mut |page| {
            for version in ["Version", "DeleteMarker"].iter().flat_map(|tag| elements(page, tag)) {
                // Servers without versioning report `null` as well.
                let id = inner(version, "VersionId").unwrap_or("null").to_owned();
                let bytes = inner(version, "Size").and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
                all.push(ListEntry { name: name_in(version), bytes, kind: ListEntryKind::Version(id) });
            }
        })?;
        Ok(all)
    }

    /// Unfinished multipart uploads below a prefix.
    pub(super) fn uploads(&mut self, prefix: &str) -> Result<Vec<ListEntry>> {
        let (mut all, ask) = (Vec::new(), [("uploads", ""), ("prefix", prefix)]);
        self.marked_pages(&ask, "upload-id-marker", "NextUploadIdMarker", &mut |page| {
            for upload in elements(page, "Upload") {
                let id = inner(upload, "UploadId").unwrap_or_default().to_owned();
                all.push(ListEntry { name: name_in(upload), bytes: 0, kind: ListEntryKind::Upload(id) });
            }
        })?;
        // Servers may ignore the prefix.
        all.retain(|upload| upload.name.starts_with(prefix));
        Ok(all)
    }

    /// Iterates over the pages of a list that continues after a name and an id.
    fn marked_pages(
        &mut self,
        ask: &[(&'static str, &str)],
        id_marker: &'static str,
        next_id: &str,
        each: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let mut after: Option<(String, String)> = None;
        loop {
            let mut asked = ask.to_vec();
            if let Some((name, id)) = &after {
                asked.push(("key-marker", name));
                asked.push((id_marker, id));
            }
            let page = self.ask_bucket(&asked)?;
            each(&page);
            if inner(&page, "IsTruncated") != Some("true") {
                return Ok(());
            }
            let id = inner(&page, next_id).unwrap_or_default();
            let next = (unescaped(inner(&page, "NextKeyMarker").unwrap_or_default()), id.to_owned());
            if next.0.is_empty() || after.as_ref() == Some(&next) {
                bail!("the server's list does not end: it goes on with what it began with");
            }
            after = Some(next);
        }
    }

    /// Sends a query about the bucket itself.
    fn ask_bucket(&mut self, asked: &[(&'static str, &str)]) -> Result<String> {
        let action = self.of_bucket(asked);
        self.ask_text(&action, "", b"")
    }

    /// A query about the bucket itself, with these query parameters.
    fn of_bucket(&self, asked: &[(&'static str, &str)]) -> ListObjectsV2<'a> {
        // The library has an action only for the bucket's list.
        let mut action = self.access.bucket.list_objects_v2(Some(&self.access.credentials));
        let query = action.query_mut();
        ["list-type", "encoding-type"].iter().for_each(|name| drop(query.remove(name)));
        for (name, value) in asked {
            query.insert(*name, (*value).to_owned());
        }
        action
    }

    /// True if the server refuses this query about the bucket for lack of permission; false if it does not know the query.
    pub(super) fn denies_of_bucket(&mut self, asked: &[(&'static str, &str)]) -> Result<bool> {
        let action = self.of_bucket(asked);
        let answer = self.send(&action, "", b"", &mut |_| {})?;
        Ok(answer.status == 403 && has_code(&answer, "AccessDenied"))
    }

    /// Succeeds if a server that accepts our keys responds, whether or not the bucket exists. A connection alone is no proof:
    /// SeaweedFS's gateway accepts connections before it has its second port, and exits if that port is taken.
    pub(super) fn knows_us(&mut self) -> Result<()> {
        let action = self.access.bucket.head_bucket(Some(&self.access.credentials));
        // The caller repeats the request itself.
        let answer = send_once(&mut self.http, &action, "", b"", &mut |_| {})?;
        if answer.is_success() || answer.status == 404 { Ok(()) } else { Err(refused(&answer)) }
    }

    /// True if the request is denied for lack of permission. Other failures are ignored, unless they concern the bucket or the
    /// identity.
    pub(super) fn denies<'b>(&mut self, action: &impl S3Action<'b>) -> Result<bool> {
        let answer = self.send(action, "", b"", &mut |_| {})?;
        match answer.status {
            403 if has_code(&answer, "AccessDenied") => Ok(true),
            403 => Err(refused(&answer)),
            404 if !is_missing_blob(&answer) => Err(refused(&answer)),
            // The bucket is somewhere else.
            300..400 => Err(refused(&answer)),
            _ => Ok(false),
        }
    }

    /// Creates the bucket of a private server.
    pub(super) fn create_bucket(&mut self) -> Result<()> {
        let action = self.access.bucket.create_bucket(&self.access.credentials);
        self.ask(&action, "", b"", &mut |_| {}).map(drop)
    }

    /// What was negotiated of TLS, once connected.
    pub(super) fn tls(&self) -> Option<String> {
        self.http.tls()
    }

    /// The `Server` header of a response; empty if missing.
    pub(super) fn server_name(&mut self) -> Result<String> {
        let action = self.access.bucket.head_bucket(Some(&self.access.credentials));
        Ok(self.send(&action, "", b"", &mut |_| {})?.server)
    }

    pub(super) fn patience(&self) -> Duration {
        self.access.timeout
    }

    /// The bucket's name, and the URL of its server.
    pub(super) fn bucket(&self) -> (&str, &Url) {
        (self.access.bucket.name(), &self.access.server)
    }
}

pub(super) struct Versioning {
    /// The state, in the protocol's word.
    pub(super) state: String,
    /// True if deleting a version requires an MFA code.
    pub(super) needs_code: bool,
}

fn refused(answer: &HttpResponse) -> Error {
    Error::failed(S3Error::by(answer))
}

/// The refusal in an error, if the server does not support the request.
fn unknown(error: &anyhow::Error) -> Option<&S3Error> {
    error.downcast_ref::<S3Error>().filter(|refused| refused.is_unknown())
}

/// Status, and the code and message of the protocol's error if present.
fn describe_response(answer: &HttpResponse) -> String {
    let text = String::from_utf8_lossy(&answer.refusal);
    let said = ["Code", "Message"].map(|tag| inner(&text, tag).map(unescaped));
    let status = format!("{} {}", answer.status, answer.reason);
    std::iter::once(status.trim().to_owned()).chain(said.into_iter().flatten()).collect::<Vec<_>>().join(": ")
}

/// Where a bucket is that this server does not have, as the end of an error; empty if the response does not say. What it says goes
/// into a command only if it can be the name of a region.
fn elsewhere(answer: &HttpResponse) -> String {
    // A server may name the region in any response, and only these mean that it is the wrong one.
    if !matches!(answer.status, 300..=400) {
        return String::new();
    }
    let text = String::from_utf8_lossy(&answer.refusal);
    let region = inner(&text, "Region").unwrap_or(&answer.bucket_region);
    let is_word = |sign: char| sign.is_ascii_alphanumeric() || sign == '-';
    let mut said = String::new();
    if !region.is_empty() && region.chars().all(is_word) {
        said += &format!("; the bucket is in the region `{region}`: --set s3.region={region}");
    }
    let location = Url::parse(&answer.location).ok().and_then(|url| url.host_str().map(str::to_owned));
    if let Some(host) = inner(&text, "Endpoint").map(unescaped).or(location) {
        said += &format!("; it is served by `{host}`, which s3.url must name: blobwise follows no redirects");
    }
    said
}

/// The destination of the first rule of a replication that applies to objects with this prefix and without tags.
fn destination(rules: &str, prefix: &str) -> Option<String> {
    /// They have a status of their own.
    const PARTS: [&str; 4] =
        ["DeleteMarkerReplication", "ExistingObjectReplication", "SourceSelectionCriteria", "Destination"];
    elements(rules, "Rule").find_map(|rule| {
        let without = |own: String, part: &&str| match inner(rule, part) {
            Some(text) => own.replace(&format!("<{part}>{text}</{part}>"), ""),
            None => own,
        };
        let own = PARTS.iter().fold(rule.to_owned(), without);
        let begin = unescaped(inner(&own, "Prefix").unwrap_or_default());
        let applies =
            inner(&own, "Status") == Some("Enabled") && !own.contains("<Tag>") && prefix.starts_with(&begin);
        applies.then(|| unescaped(inner(rule, "Bucket").unwrap_or_default()))
    })
}

/// What to do about an error of the protocol, as the end of an error; empty if its words are enough.
fn way_out(answer: &HttpResponse) -> &'static str {
    let text = String::from_utf8_lossy(&answer.refusal);
    match inner(&text, "Code").unwrap_or_default() {
        "NoSuchBucket" => "; make the bucket, or name another: blobwise makes none on your server",
        "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "ExpiredToken" => {
            "; the keys are those of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if they are temporary, AWS_SESSION_TOKEN"
        }
        "RequestTimeTooSkewed" => "; set the clock of this machine",
        "EntityTooLarge" => "; put large blobs in parts: --set s3.multipart=5MiB",
        code if code.contains("QuotaExceeded") => "; have the quota raised, or use a smaller --corpus-bytes",
        "InvalidRequest" | "MissingContentMD5"
            if text.contains("hecksum") || text.contains("Content-MD5") =>
        {
            "; it wants a checksum: --set s3.checksum=crc32"
        }
        _ => "",
    }
}

/// The text of the first element of this name.
fn inner<'t>(text: &'t str, tag: &str) -> Option<&'t str> {
    elements(text, tag).next()
}

/// The contents of each element of this name. The elements used here have no attributes and are not nested.
fn elements<'t>(text: &'t str, tag: &str) -> impl Iterator<Item = &'t str> {
    let (begin, end) = (format!("<{tag}>"), format!("</{tag}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        let (inner, after) = rest.split_once(&begin)?.1.split_once(&end)?;
        rest = after;
        Some(inner)
    })
}

/// The name of an object in a list entry.
fn name_in(entry: &str) -> String {
    unescaped(inner(entry, "Key").unwrap_or_default())
}

/// Encodes the signs that cannot stand in the text of an element.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Decodes XML escapes.
fn unescaped(text: &str) -> String {
    const ESCAPES: [(&str, &str); 8] = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&#43;", "+"),
        // Last, because its result must not be decoded again.
        ("&amp;", "&"),
    ];
    ESCAPES.iter().fold(text.to_owned(), |text, (escape, sign)| text.replace(escape, sign))
}

/// True if the response has this protocol error code.
fn has_code(answer: &HttpResponse, code: &str) -> bool {
    String::from_utf8_lossy(&answer.refusal).contains(&format!("<Code>{code}</Code>"))
}

/// True if a 404 is about the blob, not about its bucket.
fn is_missing_blob(answer: &HttpResponse) -> bool {
    !has_code(answer, "NoSuchBucket")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_in_the_words_of_the_server() {
        let said = b"<Error><Code>RequestTimeTooSkewed</Code><Message>The clocks differ</Message></Error>";
        let mut answer = HttpResponse::default();
        (answer.status, answer.reason, answer.refusal) = (403, "Forbidden".into(), said.to_vec());
        assert_eq!(describe_response(&answer), "403 Forbidden: RequestTimeTooSkewed: The clocks differ");
        assert!(has_code(&answer, "RequestTimeTooSkewed") && is_missing_blob(&answer));
        assert!(S3Error::by(&answer).to_string().ends_with("`; set the clock of this machine"));
        (answer.status, answer.reason, answer.refusal) =
            (502, "Bad Gateway".into(), b"<html>no</html>".to_vec());
        assert_eq!(describe_response(&answer), "502 Bad Gateway");
    }

    #[test]
    fn a_bucket_that_is_elsewhere_is_told_with_what_to_set() {
        let answer = |status, region: &str, location: &str, refusal: &str| {
            let mut answer = HttpResponse::default();
            (answer.status, answer.refusal) = (status, refusal.as_bytes().to_vec());
            (answer.bucket_region, answer.location) = (region.to_owned(), location.to_owned());
            answer
        };
        let moved = answer(301, "eu-west-1", "", "<Error><Endpoint>shop.s3.example</Endpoint></Error>");
        let said = elsewhere(&moved);
        assert!(said.contains("--set s3.region=eu-west-1;") && said.contains("`shop.s3.example`"), "{said}");
        let named = elsewhere(&answer(400, "", "", "<Error><Region>eu-west-1</Region></Error>"));
        assert!(named.ends_with("--set s3.region=eu-west-1"), "{named}");
        let sent = elsewhere(&answer(307, "", "http://other.example/shop?x=1", ""));
        assert!(sent.starts_with("; it is served by `other.example`"), "{sent}");
        // No region, and one that is named without being the reason.
        assert_eq!(elsewhere(&answer(301, "x; rm -r /", "/b", "")), "");
        assert_eq!(elsewhere(&answer(403, "eu-west-1", "", "")), "");
        assert_eq!(
            S3Error::by(&answer(400, "eu-west-1", "", "")).to_string(),
            "the server says `400`; the bucket is in the region `eu-west-1`: --set s3.region=eu-west-1"
        );
    }

    #[test]
    fn a_rule_of_replication_counts_where_it_applies() {
        let rule = |status: &str, filter: &str| {
            format!(
                "<R xmlns='u'><Rule><DeleteMarkerReplication><Status>Enabled</Status></DeleteMarkerReplication><Filter>{filter}</Filter>\
                 <Status>{status}</Status><Destination><Bucket>arn:aws:s3:::copies</Bucket></Destination></Rule></R>"
            )
        };
        let to = |status, filter| destination(&rule(status, filter), "blobwise-1/");
        let copies = Some("arn:aws:s3:::copies".to_owned());
        assert_eq!(to("Enabled", ""), copies);
        assert_eq!(to("Enabled", "<Prefix>blob</Prefix>"), copies);
        assert_eq!(to("Enabled", "<Prefix>logs/</Prefix>"), None);
        assert_eq!(to("Enabled", "<Tag><Key>copy</Key></Tag>"), None);
        assert_eq!(to("Disabled", ""), None);
        // What another query is answered with.
        assert_eq!(destination("<ListBucketResult><Name>shop</Name></ListBucketResult>", ""), None);
    }

    #[test]
    fn elements_are_found_whatever_stands_between_them() {
        let text = "<?xml?><R xmlns='u'><Version><Key>a&amp;lt;b</Key><VersionId>1</VersionId></Version>\n<DeleteMarker><Key>c</Key>\
                    </DeleteMarker><Version><Key>d</Key></Version><VersionId>2</VersionId><Version>";
        assert_eq!(elements(text, "Version").map(name_in).collect::<Vec<_>>(), ["a&lt;b", "d"]);
        assert_eq!(elements(text, "DeleteMarker").map(name_in).collect::<Vec<_>>(), ["c"]);
        assert_eq!((inner(text, "VersionId"), inner(text, "Size")), (Some("1"), None));
    }
}
