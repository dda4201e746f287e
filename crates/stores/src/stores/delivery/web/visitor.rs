//! One visitor: reads through the web server, writes to the underlying store.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::anyhow;

use super::client::{WebClient, WebRequest};
use super::front::Front;
use super::scripts::steps;
use super::{Delivery, Route, spell_file};
use crate::store::*;
use crate::wire::http::HttpResponse;

/// The most blobs per request: their keys fill a request line that all servers here are configured to accept.
pub(super) const MANY_MAX: usize = 1000;

/// The visitors' cached copies, by key.
#[derive(Default)]
pub(super) struct VisitorCache(RwLock<HashMap<Key, Arc<CachedBlob>>>);

struct CachedBlob {
    etag: String,
    blob: Vec<u8>,
}

impl VisitorCache {
    fn get(&self, key: &Key) -> Option<Arc<CachedBlob>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn keep(&self, key: &Key, kept: CachedBlob) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(*key, Arc::new(kept));
    }

    fn forget(&self, key: &Key) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// One worker: a session with the underlying store, and a connection to the web server.
pub(super) struct DeliverySession<'s> {
    store: &'s Delivery,
    behind: Box<dyn Session + 's>,
    client: WebClient,
    path: String,
    /// The script's timing header of the last response with a blob, until it is reported.
    timing: Option<String>,
}

impl DeliverySession<'_> {
    pub(super) fn new(store: &Delivery) -> Result<DeliverySession<'_>> {
        let mut client = WebClient::new(&store.web.target);
        if store.web.target.keep_alive {
            client.connect()?;
        }
        Ok(DeliverySession {
            store,
            behind: store.behind.session()?,
            client,
            path: String::new(),
            timing: None,
        })
    }

    /// Updates the application's cache after a write to the underlying store, and drops the visitor's copy: a web server that
    /// derives ETags from seconds and lengths would call it fresh.
    fn follow(&mut self, method: &'static str, key: &Key, body: Option<&[u8]>) -> Result<()> {
        let told = match &self.store.scripts {
            Some(scripts) if scripts.caches => {
                scripts.tell_cache(&mut self.client, &self.store.prefix, method, key, body)
            }
            _ => Ok(()),
        };
        if let Some(copies) = &self.store.copies {
            copies.forget(key);
        }
        told
    }

    /// Reads from the server, ignoring the visitor's copies.
    fn fetch(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        spell(&mut self.path, self.store, key);
        let (from, len) = span.below(self.store.blob_bytes_max);
        let request = match span {
            Span::Whole => WebRequest::new("GET", &self.path),
            // A range header cannot be empty; a HEAD request tests whether the blob exists.
            Span::Part { .. } if len == 0 => WebRequest::new("HEAD", &self.path),
            Span::Part { .. } => WebRequest { part: Some((from, len)), ..WebRequest::new("GET", &self.path) },
        };
        let mut delivered = 0;
        let mut answer = self.client.exchange(&request, &[200, 206, 404, 416], &mut |piece| {
            delivered += piece.len();
            sink(piece);
        })?;
        self.timing = Some(std::mem::take(&mut answer.timing));
        match answer.status {
            // An empty blob has no ranges and is sent whole. For any other blob, 200 is an error.
            200 if request.part.is_some() && delivered > 0 => {
                Err(Error::Failed(anyhow!("the whole blob was sent where a part was asked for")))
            }
            404 => Ok(false),
            // The range begins after the end of the blob.
            416 => Ok(true),
            _ => self.of_a_blob(&answer).map(|()| true),
        }
    }

    /// Returns an error for a response that is not a blob, such as an error page with a status of success.
    fn of_a_blob(&self, answer: &HttpResponse) -> Result<()> {
        // Busybox sends a type for pages only.
        if answer.is_blob || (!answer.is_typed && self.store.front == Front::Busybox) {
            return Ok(());
        }
        Err(Error::Failed(anyhow!("the answer is not of the type of a blob (application/octet-stream)")))
    }

    /// Revalidates the visitor's copy, and reads the blob if the copy is outdated or missing.
    fn revalidate(&mut self, copies: &VisitorCache, key: &Key, sink: Sink) -> Result<bool> {
        spell(&mut self.path, self.store, key);
        let copy = copies.get(key);
        let etag = copy.as_ref().map(|copy| copy.etag.as_str());
        let request = WebRequest { etag, ..WebRequest::new("GET", &self.path) };
        let mut blob = Vec::new();
        let answer = self.client.exchange(&request, &[200, 304, 404], &mut |piece| {
            blob.extend_from_slice(piece);
            sink(piece);
        })?;
        match (answer.status, copy) {
            (304, Some(copy)) => {
                sink(&copy.blob);
                Ok(true)
            }
            (404, _) => {
                copies.forget(key);
                Ok(false)
            }
            (200, _) if answer.etag.is_empty() => {
                Err(Error::Failed(anyhow!("the server does not mark versions of what it sends (ETag)")))
            }
            (200, Some(copy)) if copy.etag == answer.etag => {
                Err(Error::Failed(anyhow!("the server sent again what the visitor has (ETag {})", copy.etag)))
            }
            (200, _) => {
                self.of_a_blob(&answer)?;
                copies.keep(key, CachedBlob { etag: answer.etag, blob });
                Ok(true)
            }
            (status, _) => Err(Error::Failed(anyhow!("HTTP status {status}, which was not asked for"))),
        }
    }
}

fn spell(path: &mut String, store: &Delivery, key: &Key) {
    path.clear();
    path.push_str(&store.prefix);
    match store.route {
        Route::Directory => spell_file(path, key),
        Route::Script(script) => path.extend([script, "?key=", key.as_str()]),
    }
}

fn spell_several(path: &mut String, store: &Delivery, script: &str, keys: &[Key]) {
    path.clear();
    path.extend([store.prefix.as_str(), script, "?keys="]);
    for (index, key) in keys.iter().enumerate() {
        if index > 0 {
            path.push(',');
        }
        path.push_str(key.as_str());
    }
}

impl Session for DeliverySession<'_> {
    forward! { behind:
        fn sync(&mut self) -> Result<()>;
        fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()>;
    }

    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        // Checked first, so that the blob is not stored in one place only.
        self.store.caps.blob_bytes_max.map_or(Ok(()), |limit| limit.check(blob))?;
        self.behind.put(key, blob)?;
        self.follow("PUT", key, Some(blob))
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        match (&self.store.copies, span) {
            (Some(copies), Span::Whole) => self.revalidate(copies, key, sink),
            (_, Span::Part { .. }) if !self.store.caps.range => Err(Error::Unsupported("a range read")),
            _ => self.fetch(key, span, sink),
        }
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.behind.delete(key)?;
        self.follow("DELETE", key, None)
    }

    fn connect(&mut self) -> Result<()> {
        if self.store.front == Front::Busybox {
            return Err(Error::Unsupported("a connection for each op: every request has one already"));
        }
        self.client.connect()
    }

    fn report_op(&mut self, each: &mut dyn FnMut(OpReport)) -> Result<()> {
        // Writes are not timed by a script.
        let Some(timing) = self.timing.take() else { return Ok(()) };
        let mut told = 0;
        steps(&timing).for_each(|step| {
            each(step);
            told += 1;
        });
        ensure!(told != 0, "the script does not say how long it took (`{timing}`)");
        Ok(())
    }

    fn take_incidents(&mut self) -> Incidents {
        self.client.take_incidents()
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        let (Route::Script(script), true) = (self.store.route, self.store.caps.get_many) else {
            return Err(Error::Unsupported("a get of many"));
        };
        if keys.len() > MANY_MAX {
            return Err(Error::Unsupported("more than 1,000 blobs in a request"));
        }
        spell_several(&mut self.path, self.store, script, keys);
        let mut parts = ResponseSplitter::new(keys.len(), sink);
        let request = WebRequest::new("GET", &self.path);
        let mut answer = self.client.exchange(&request, &[200], &mut |piece| parts.take(piece))?;
        self.timing = Some(std::mem::take(&mut answer.timing));
        self.of_a_blob(&answer)?;
        parts.finish()
    }
}

/// Splits a response with several blobs: each is preceded by a line with its length in bytes, or `-` if it does not exist.
struct ResponseSplitter<'a> {
    sink: ManySink<'a>,
    /// Number of requested blobs, index of the next one, and number found.
    asked: usize,
    next: usize,
    found: usize,
    /// The length line received so far.
    line: Vec<u8>,
    /// Remaining bytes of the current blob.
    left: u64,
    wrong: bool,
}

impl<'a> ResponseSplitter<'a> {
    fn new(asked: usize, sink: ManySink<'a>) -> ResponseSplitter<'a> {
        ResponseSplitter { sink, asked, next: 0, found: 0, line: Vec::new(), left: 0, wrong: false }
    }

    fn take(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() && !self.wrong {
            if self.left > 0 {
                let here = piece.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                (self.sink)(self.next, &piece[..here]);
                piece = &piece[here..];
                self.left -= here as u64;
                self.next += usize::from(self.left == 0);
            } else if piece[0] == b'\n' {
                piece = &piece[1..];
                self.begin();
            } else {
                self.line.push(piece[0]);
                piece = &piece[1..];
                // No length has more digits.
                self.wrong |= self.line.len() > 20;
            }
        }
    }

    /// Interprets the line before a blob.
    fn begin(&mut self) {
        let length = match self.line.as_slice() {
            b"-" => None,
            digits => Some(std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok())),
        };
        self.line.clear();
        match length {
            _ if self.next == self.asked => self.wrong = true,
            Some(None) => self.wrong = true,
            Some(Some(bytes)) => {
                self.found += 1;
                self.left = bytes;
                self.next += usize::from(bytes == 0);
            }
            None => self.next += 1,
        }
    }

    fn finish(self) -> Result<usize> {
        if self.wrong || self.left > 0 || !self.line.is_empty() || self.next != self.asked {
            let (next, asked) = (self.next, self.asked);
            bail!("the answer ends or goes wrong after {next} of {asked} blobs");
        }
        Ok(self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a response that arrives in pieces of `size` bytes.
    fn parts(answer: &str, asked: usize, size: usize) -> (Vec<String>, Result<usize>) {
        let mut blobs = vec![String::new(); asked];
        let mut sink =
            |index: usize, piece: &[u8]| blobs[index].push_str(std::str::from_utf8(piece).unwrap());
        let mut parts = ResponseSplitter::new(asked, &mut sink);
        answer.as_bytes().chunks(size).for_each(|piece| parts.take(piece));
        let found = parts.finish();
        (blobs, found)
    }

    #[test]
    fn several_blobs_come_apart_however_they_arrive() {
        for size in 1..20 {
            let (blobs, found) = parts("3\na\nb-\n0\n10\n0123456789", 4, size);
            assert_eq!(found.unwrap(), 3);
            assert_eq!(blobs, ["a\nb", "", "", "0123456789"]);
        }
    }

    #[test]
    fn too_few_and_too_many_are_errors() {
        for (answer, asked) in [
            ("", 1),
            ("3\nab", 1),
            ("3\nabc", 2),
            ("3\nabc1\nx", 1),
            ("x\nabc", 1),
            ("1", 1),
            ("<p>an error of the application</p>", 1),
        ] {
            assert!(parts(answer, asked, 4).1.is_err(), "{answer}");
        }
    }
}
