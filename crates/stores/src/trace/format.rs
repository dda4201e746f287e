//! Formats of logs: which one a log has, and what one line says.

use std::sync::Arc;

use anyhow::{Result, ensure};
use jiff::Timestamp;
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

use super::{ObjectFile, Op, PathIndex, Request};
use crate::suggest::unknown;

named! {
    /// Format of a log.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LogFormat {
        /// Combined or common log of a web server.
        Combined = "combined",
        /// A JSON object on each line, as Caddy writes, or a `log_format` of nginx.
        Json = "json",
        /// Server access log of S3.
        S3Log = "s3-log",
        /// Standard log of CloudFront: fields between tabs, named by a line of `#Fields`.
        CloudFront = "cloudfront",
        /// Trace of IBM Cloud Object Storage.
        IbmCos = "ibm-cos",
        /// Cache trace of Twitter.
        Twitter = "twitter",
        /// Comma-separated values with named columns, such as those of libCacheSim.
        Csv = "csv",
        /// Binary trace of libCacheSim.
        OracleGeneral = "oracle-general",
    }
}

impl LogFormat {
    /// All of them, in the order in which they are tried.
    pub const ALL: [LogFormat; 8] = [
        LogFormat::Combined,
        LogFormat::Json,
        LogFormat::S3Log,
        LogFormat::CloudFront,
        LogFormat::IbmCos,
        LogFormat::Twitter,
        LogFormat::Csv,
        LogFormat::OracleGeneral,
    ];

    /// Parses a name; `common` is `combined`, which has the same fields and more.
    pub fn parse(text: &str) -> Result<LogFormat> {
        let wanted = if text == "common" { LogFormat::Combined.name() } else { text };
        let found = LogFormat::ALL.into_iter().find(|format| format.name() == wanted);
        found.ok_or_else(|| unknown("format of logs", text, LogFormat::ALL.map(LogFormat::name)))
    }

    /// Returns the format in which most lines of a beginning can be read, if at least half can.
    pub fn detect(head: &[u8]) -> Option<LogFormat> {
        /// Lines that are looked at.
        const LINES: usize = 50;
        // Every record has a zero: no object is that large. A text may have some further behind, after a crash.
        if head.iter().take(RECORD_BYTES).any(|byte| *byte == 0) {
            return is_oracle_general(head).then_some(LogFormat::OracleGeneral);
        }
        // The last line may be cut off.
        let end = head.iter().rposition(|byte| *byte == b'\n').unwrap_or(head.len());
        let text = String::from_utf8_lossy(&head[..end]);
        let lines: Vec<&str> = text.lines().take(LINES).collect();
        let mut best = (0, None);
        for format in LogFormat::ALL {
            let mut parser = Parser::new(format, 0);
            let read: Vec<Line> = lines.iter().map(|line| parser.read(line.trim())).collect();
            let requests = read.iter().filter(|line| matches!(line, Ok(Some(_)))).count();
            let bad = read.iter().filter(|line| line.is_err()).count();
            if requests > best.0 && requests >= bad {
                best = (requests, Some(format));
            }
        }
        best.1
    }
}

/// Bytes of a record of [`LogFormat::OracleGeneral`]: seconds (u32), object (u64), bytes (u32), next access (i64), little-endian.
pub const RECORD_BYTES: usize = 24;

/// Whether the beginning of a binary file has records: their times never fall, and objects have bytes.
fn is_oracle_general(head: &[u8]) -> bool {
    let records: Vec<(u32, u32)> =
        head.chunks_exact(RECORD_BYTES).take(100).map(|record| (word(record, 0), word(record, 12))).collect();
    let is_ordered = records.windows(2).all(|pair| pair[0].0 <= pair[1].0);
    !records.is_empty() && is_ordered && records.iter().all(|(_, bytes)| *bytes > 0)
}

/// The little-endian number of four bytes at a place.
fn word(record: &[u8], at: usize) -> u32 {
    <[u8; 4]>::try_from(&record[at..at + 4]).map_or(0, u32::from_le_bytes)
}

/// What a line says: a request, nothing (a header, a comment), or why it cannot be read. The reason has no text of the line.
pub type Line = Result<Option<Request>, &'static str>;

const NO_TIME: &str = "has no time that can be read";
const NO_REQUEST: &str = "has no request";
const NO_STATUS: &str = "has no status";
const NO_OPERATION: &str = "has no operation that is known";
const NO_KEY: &str = "has no key";

/// Fields of [`LogFormat::CloudFront`].
const CLOUDFRONT: &[&[&str]] = &[
    &["date"],
    &["time"],
    &["cs-method"],
    &["cs(host)"],
    &["cs-uri-stem"],
    &["sc-status"],
    &["sc-content-len"],
    &["sc-bytes"],
    &["time-taken"],
];

/// Columns of [`LogFormat::Csv`], with the names that they have in headers.
const CSV: &[&[&str]] = &[
    &["time", "timestamp", "ts", "clock_time"],
    &["op", "operation", "method"],
    &["key", "obj_id", "object", "id", "path", "url", "uri", "lbn"],
    &["bytes", "size", "obj_size", "object_size", "value_size"],
];

/// Largest size in bytes that is believed.
const BYTES_MAX: u64 = 1 << 42;

/// Reads lines of one format.
#[derive(Debug)]
pub struct Parser {
    format: LogFormat,
    salt: u64,
    /// Files that objects may have.
    files: Option<Arc<PathIndex>>,
    /// Place of each column of [`CSV`] or [`CLOUDFRONT`]; empty until a header was read.
    columns: Vec<Option<usize>>,
    /// True until a line was read.
    is_first: bool,
}

impl Parser {
    /// A parser whose keys are hashed with this salt.
    pub fn new(format: LogFormat, salt: u64) -> Parser {
        let columns = match format {
            // time, key, bytes of the key, bytes of the value, client, operation, TTL
            LogFormat::Twitter => vec![Some(0), Some(5), Some(1), Some(3)],
            _ => Vec::new(),
        };
        Parser { format, salt, files: None, columns, is_first: true }
    }

    /// A parser of comma-separated values with these columns, such as `time,op,key,bytes`; `-` is a column that is not needed.
    pub fn with_columns(names: &str, salt: u64) -> Result<Parser> {
        let names: Vec<&str> = names.split(',').map(str::trim).collect();
        let known = CSV.concat();
        for name in names.iter().filter(|name| **name != "-") {
            if !known.contains(name) {
                return Err(unknown("column", name, CSV.iter().map(|names| names[0])));
            }
        }
        let columns = places(CSV, &names);
        ensure!(columns[0].is_some() && columns[2].is_some(), "a log has at least the columns time and key");
        Ok(Parser { columns, ..Parser::new(LogFormat::Csv, salt) })
    }

    /// Sets the salt of keys from now on.
    pub(super) fn set_salt(&mut self, salt: u64) {
        self.salt = salt;
    }

    /// Sets the files that are looked for from now on.
    pub(super) fn set_files(&mut self, files: Option<Arc<PathIndex>>) {
        self.files = files;
    }

    /// The format that it reads.
    pub fn format(&self) -> LogFormat {
        self.format
    }

    /// Reads a line.
    pub fn read(&mut self, line: &str) -> Line {
        if line.is_empty() {
            return Ok(None);
        }
        let is_first = std::mem::take(&mut self.is_first);
        match self.format {
            LogFormat::Combined => self.combined(line),
            LogFormat::Json => self.json(line),
            LogFormat::S3Log => self.s3(line),
            LogFormat::CloudFront => self.cloudfront(line),
            LogFormat::IbmCos => self.ibm_cos(line),
            LogFormat::Twitter | LogFormat::Csv => self.csv(line, is_first),
            LogFormat::OracleGeneral => Err("is text in a binary format"),
        }
    }

    /// Reads a record of [`LogFormat::OracleGeneral`].
    pub fn record(&self, record: &[u8]) -> Line {
        if record.len() < RECORD_BYTES {
            return Err("is cut off");
        }
        let size = u64::from(word(record, 12));
        Ok(Some(Request {
            start_us: i64::from(word(record, 0)) * 1_000_000,
            op: Op::Get,
            key: self.key(&[&record[4..12]]),
            sent: size,
            size: Some(size),
            file: None,
        }))
    }

    /// What a line with these fields has in a column, if the log has that column.
    fn field<'l>(&self, fields: &[&'l str], column: usize) -> Option<&'l str> {
        let place = self.columns.get(column).copied().flatten()?;
        fields.get(place).copied()
    }

    fn key(&self, parts: &[&[u8]]) -> u64 {
        let mut hash = Xxh3::with_seed(self.salt);
        for part in parts {
            hash.update(part);
            hash.update(&[0]);
        }
        hash.digest()
    }

    /// The file of an object's path, before nothing but a hash of the path is left.
    fn file(&self, path: &str) -> Option<ObjectFile> {
        self.files.as_ref()?.find(path)
    }

    /// A request of a web server. Its query is no part of the object's name.
    fn web(&self, start_us: i64, method: &str, host: &str, path: &str, status: u64, sent: u64) -> Request {
        let op = match (method, status) {
            ("GET", 200) => Op::Get,
            ("GET", 206) => Op::Range,
            (_, 304) => Op::NotModified,
            (_, 100..=199 | 300..=399) => Op::Other,
            (_, 0..=99 | 400..) => Op::Failed,
            ("HEAD", _) => Op::Head,
            ("PUT", _) => Op::Put,
            ("DELETE", _) => Op::Delete,
            _ => Op::Other,
        };
        let path = path.split('?').next().unwrap_or(path);
        let size = (op == Op::Get).then_some(sent);
        let key = self.key(&[host.as_bytes(), path.as_bytes()]);
        Request { start_us, op, key, sent, size, file: self.file(path) }
    }

    /// `HOST IDENT USER [TIME] "METHOD PATH PROTOCOL" STATUS BYTES`, and whatever follows.
    fn combined(&self, line: &str) -> Line {
        let (_, rest) = line.split_once(" [").ok_or(NO_TIME)?;
        let (time, rest) = rest.split_once("] \"").ok_or(NO_TIME)?;
        let start = instant(time).ok_or(NO_TIME)?;
        let (request, rest) = until_quote(rest).ok_or(NO_REQUEST)?;
        let mut words = rest.split_ascii_whitespace();
        let status = words.next().and_then(number).ok_or(NO_STATUS)?;
        // `-`: no body.
        let sent = words.next().ok_or("has no bytes")?;
        let (method, path) = method_and_path(request);
        Ok(Some(self.web(start, method, "", path, status, number(sent).unwrap_or(0))))
    }

    fn json(&self, line: &str) -> Line {
        let value: Value = serde_json::from_str(line).map_err(|_library| "is not JSON")?;
        let text =
            |names: &[&str]| find(&value, names).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |names: &[&str]| find(&value, names).and_then(number_of);
        let time =
            find(&value, &["ts", "msec", "time_iso8601", "time_local", "@timestamp", "timestamp", "time"]);
        let end = time.and_then(|time| match time {
            Value::String(text) => instant(text),
            other => other.as_f64().and_then(since_1970),
        });
        let end = end.ok_or(NO_TIME)?;
        let status = number(&["status"]).ok_or(NO_STATUS)? as u64;
        // A whole request line, or its parts.
        let (method, path) = match value["request"].as_str().map(method_and_path) {
            Some((method, path)) => (method.to_owned(), path.to_owned()),
            None => (text(&["request_method", "method"]), text(&["request_uri", "uri", "path"])),
        };
        if path.is_empty() && status < 400 {
            return Err(NO_REQUEST);
        }
        let start = before(end, number(&["duration", "request_time"]).unwrap_or(0.0));
        let sent = number(&["body_bytes_sent", "size", "bytes_sent", "bytes"]).unwrap_or(0.0) as u64;
        let host = text(&["host", "http_host", "server_name"]);
        let mut request = self.web(start, &method, &host, &path, status, sent.min(BYTES_MAX));
        if let (Op::Put, Some(bytes)) = (request.op, number(&["bytes_read"])) {
            let bytes = (bytes as u64).min(BYTES_MAX);
            request = Request { sent: bytes, size: Some(bytes), ..request };
        }
        Ok(Some(request))
    }

    /// `OWNER BUCKET [TIME] IP REQUESTER ID OPERATION KEY "REQUEST" STATUS ERROR SENT SIZE MS`, and whatever follows. The time is
    /// that of the start.
    fn s3(&self, line: &str) -> Line {
        // versitygw, as often as it opens its log.
        if line.starts_with("log starts ") {
            return Ok(None);
        }
        let (before, rest) = line.split_once(" [").ok_or(NO_TIME)?;
        let bucket = before.split(' ').nth(1).ok_or("has no bucket")?;
        let (time, rest) = rest.split_once("] ").ok_or(NO_TIME)?;
        let start_us = instant(time).ok_or(NO_TIME)?;
        let words: Vec<&str> = rest.splitn(5, ' ').collect();
        let [_address, _requester, _id, operation, rest] = words[..] else { return Err(NO_OPERATION) };
        if operation.starts_with("s3_") || operation == "ActionUnDetected" {
            return self.versitygw(start_us, bucket, operation, rest);
        }
        let op = object_op(operation).ok_or(NO_OPERATION)?;
        let (key, rest) = rest.split_once(' ').ok_or(NO_KEY)?;
        // What S3 does by itself has no request.
        let rest = match rest.strip_prefix('"') {
            Some(quoted) => until_quote(quoted).ok_or(NO_REQUEST)?.1,
            None => rest.split_once(' ').ok_or(NO_REQUEST)?.1,
        };
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let [status, _error, sent, size, ..] = words[..] else { return Err(NO_STATUS) };
        let op = match number(status) {
            Some(304) => Op::NotModified,
            Some(206) if op == Op::Get => Op::Range,
            Some(300..) => Op::Failed,
            _ => op,
        };
        let size = number(size).filter(|_| op.names_an_object());
        let sent = number(sent).or(size.filter(|_| op == Op::Put)).unwrap_or(0);
        let file = self.file(key);
        let key = self.key(&[bucket.as_bytes(), key.as_bytes()]);
        Ok(Some(Request { start_us, op, key, sent, size, file }))
    }

    /// `KEY PATH STATUS ERROR SENT SIZE`, and whatever follows, as versitygw has it behind the operation: a key with its spaces, and
    /// the path without quotes. The status is 200 for parts, too, and only puts have their bytes. The time is that of the end, in
    /// whole seconds.
    fn versitygw(&self, start_us: i64, bucket: &str, operation: &str, rest: &str) -> Line {
        let words: Vec<&str> = rest.split(' ').collect();
        let is_path = |pair: &[&str]| pair[0].starts_with('/') && number(pair[1]).is_some();
        let path = words.windows(2).position(is_path).ok_or(NO_STATUS)?;
        let of_success = match operation {
            "s3_GetObject" => Op::Get,
            "s3_HeadObject" => Op::Head,
            "s3_PutObject" | "s3_CopyObject" | "s3_CompleteMultipartUpload" | "s3_PostObject" => Op::Put,
            "s3_DeleteObject" => Op::Delete,
            _ => Op::Other,
        };
        let op = match number(words[path + 1]) {
            Some(304) => Op::NotModified,
            Some(300..) => Op::Failed,
            _ => of_success,
        };
        let is_put = op == Op::Put && operation == "s3_PutObject";
        let size = words.get(path + 4).copied().and_then(number).filter(|_| is_put);
        let name = words[..path].join(" ");
        let (key, file) = (self.key(&[bucket.as_bytes(), name.as_bytes()]), self.file(&name));
        Ok(Some(Request { start_us, op, key, sent: size.unwrap_or(0), size, file }))
    }

    fn cloudfront(&mut self, line: &str) -> Line {
        if let Some(names) = line.strip_prefix("#Fields:") {
            self.columns = places(CLOUDFRONT, &names.split_ascii_whitespace().collect::<Vec<_>>());
            return Ok(None);
        }
        if line.starts_with('#') {
            return Ok(None);
        }
        let fields: Vec<&str> = line.split('\t').collect();
        let field = |column: usize| self.field(&fields, column);
        let (date, time) = field(0).zip(field(1)).ok_or("has no date, or no line of #Fields before it")?;
        let end = instant(&format!("{date}T{time}Z")).ok_or(NO_TIME)?;
        let (method, path) = field(2).zip(field(4)).ok_or(NO_REQUEST)?;
        let status = field(5).and_then(number).ok_or(NO_STATUS)?;
        // Bytes of the body where they are known; those that were sent have the head as well.
        let sent = field(6).and_then(number).or_else(|| field(7).and_then(number)).unwrap_or(0);
        let took = field(8).and_then(|took| took.parse::<f64>().ok()).unwrap_or(0.0);
        let start = before(end, took);
        Ok(Some(self.web(start, method, field(3).unwrap_or_default(), path, status, sent)))
    }

    /// `MILLISECONDS OPERATION KEY [SIZE [FIRST LAST]]`
    fn ibm_cos(&self, line: &str) -> Line {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [time, operation, key, ref rest @ ..] = words[..] else {
            return Err("has less than three words");
        };
        let start_us = number(time).ok_or(NO_TIME)? as i64 * 1000;
        let op = object_op(operation).ok_or(NO_OPERATION)?;
        let size = rest.first().copied().and_then(number);
        let part = match rest {
            [_, first, last, ..] => number(first).zip(number(last)),
            _ => None,
        };
        let part = part.map(|(first, last)| (last + 1).saturating_sub(first));
        let op = match (op, part) {
            (Op::Get, Some(part)) if Some(part) != size => Op::Range,
            _ => op,
        };
        let moves = op.reads() || op == Op::Put;
        let sent = part.or(size).filter(|_| moves).unwrap_or(0);
        let (key, file) = (self.key(&[key.as_bytes()]), self.file(key));
        Ok(Some(Request { start_us, op, key, sent, size, file }))
    }

    fn csv(&mut self, line: &str, is_first: bool) -> Line {
        let fields = csv_fields(line);
        if self.columns.is_empty() {
            let names: Vec<&str> = fields.iter().map(|name| name.trim_start_matches('#').trim()).collect();
            let named = places(CSV, &names);
            if named[0].is_some() && named[2].is_some() {
                self.columns = named;
                return Ok(None);
            }
            // libCacheSim without a header: time, object, bytes, and perhaps the next access.
            let is_plain = matches!(fields.len(), 3 | 4) && fields.iter().all(is_number);
            if !is_plain {
                return Err("names no columns");
            }
            self.columns = vec![Some(0), None, Some(1), Some(2)];
        }
        let field = |column: usize| self.field(&fields, column);
        let Some(start_us) = field(0).and_then(instant) else {
            // A header of a log whose columns are known already.
            return if is_first && self.format == LogFormat::Csv { Ok(None) } else { Err(NO_TIME) };
        };
        let key = field(2).filter(|key| !key.is_empty()).ok_or(NO_KEY)?;
        let op = field(1).map_or(Op::Get, word_op);
        let is_twitter = self.format == LogFormat::Twitter;
        if is_twitter && (op == Op::Other || fields.len() != 7) {
            return Err(NO_OPERATION);
        }
        // Twitter's caches have no size of what they did not hold.
        let size = field(3).and_then(number).filter(|size| !is_twitter || *size > 0);
        let moves = op.reads() || op == Op::Put;
        let sent = size.filter(|_| moves).unwrap_or(0);
        let (key, file) = (self.key(&[key.as_bytes()]), self.file(key));
        Ok(Some(Request { start_us, op, key, sent, size, file }))
    }
}

/// The place of each wanted column among the names of a header, by any of its own names.
fn places(wanted: &[&[&str]], names: &[&str]) -> Vec<Option<usize>> {
    let place =
        |known: &&[&str]| names.iter().position(|name| known.contains(&name.to_ascii_lowercase().as_str()));
    wanted.iter().map(place).collect()
}

/// A size or a status.
fn number(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().map(|number| number.min(BYTES_MAX))
}

fn is_number(text: &&str) -> bool {
    text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// A number of JSON, which may be written as a text.
fn number_of(value: &Value) -> Option<f64> {
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// The first of these fields of a log in JSON, at its top or within `request`.
fn find<'v>(value: &'v Value, names: &[&str]) -> Option<&'v Value> {
    let within = value.get("request");
    names.iter().find_map(|name| value.get(*name).or_else(|| within?.get(*name)))
}

/// Microseconds of a time as a log has it: a number since 1970, a date of ISO 8601 (UTC if it says no zone), or
/// `10/Oct/2026:13:55:36 +0200`, where versitygw has `October`.
fn instant(text: &str) -> Option<i64> {
    const OF_WEB_SERVERS: [&str; 2] = ["%d/%b/%Y:%H:%M:%S %z", "%d/%B/%Y:%H:%M:%S %z"];
    if let Ok(number) = text.parse::<f64>() {
        return since_1970(number);
    }
    let found = match text.as_bytes().get(2) {
        Some(b'/') => OF_WEB_SERVERS.iter().find_map(|form| Timestamp::strptime(form, text).ok()),
        _ => text.parse::<Timestamp>().ok().or_else(|| format!("{text}Z").parse().ok()),
    };
    found.map(Timestamp::as_microsecond)
}

/// Microseconds of a number of seconds, milliseconds, microseconds or nanoseconds, which its size tells apart. `None` for
/// nanoseconds before 1998, which are ticks of another clock: Windows counts 100 ns from 1601 on.
fn since_1970(number: f64) -> Option<i64> {
    const UNITS: [(f64, f64); 4] = [(1e11, 1e6), (1e14, 1e3), (1e17, 1.0), (1e20, 1e-3)];
    if (1e17..9e17).contains(&number) {
        return None;
    }
    let (_, factor) = UNITS.into_iter().find(|(below, _)| (0.0..*below).contains(&number))?;
    Some((number * factor) as i64)
}

/// The start in microseconds of a request, from its end and its duration, of which at most a day counts.
fn before(end: i64, seconds: f64) -> i64 {
    end - (seconds.clamp(0.0, 86_400.0) * 1e6) as i64
}

/// What an operation of an object store did, such as `REST.GET.OBJECT`.
fn object_op(operation: &str) -> Option<Op> {
    let (before, noun) = operation.rsplit_once('.')?;
    let (_, verb) = before.rsplit_once('.')?;
    Some(match (verb, noun) {
        ("GET", "OBJECT") => Op::Get,
        ("HEAD", "OBJECT") => Op::Head,
        ("PUT" | "COPY" | "POST", "OBJECT") | ("POST", "UPLOAD") => Op::Put,
        ("DELETE" | "EXPIRE", "OBJECT") => Op::Delete,
        _ => Op::Other,
    })
}

/// What an operation of a cache, a device or a user's own log did.
fn word_op(word: &str) -> Op {
    match word.to_ascii_lowercase().as_str() {
        "get" | "gets" | "read" | "r" | "28" | "88" => Op::Get,
        "head" | "stat" => Op::Head,
        "put" | "write" | "w" | "2a" | "8a" => Op::Put,
        "set" | "add" | "replace" | "cas" | "append" | "prepend" | "incr" | "decr" => Op::Put,
        "delete" | "del" => Op::Delete,
        _ => Op::Other,
    }
}

/// Splits a request line, such as `GET /path HTTP/1.1`, which may have no protocol.
fn method_and_path(line: &str) -> (&str, &str) {
    let (method, rest) = line.split_once(' ').unwrap_or(("", line));
    let path = rest.rsplit_once(" HTTP/").map_or(rest, |(path, _)| path);
    (method, path)
}

/// Splits what follows a quote at the next one that no backslash precedes.
fn until_quote(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    Some((&text[..end], &text[end + 1..]))
}

/// The fields of a line of comma-separated values. Doubled quotes stay as they are, because a key is only hashed.
fn csv_fields(line: &str) -> Vec<&str> {
    let mut quoted = false;
    let fields = line.split(|letter: char| {
        quoted ^= letter == '"';
        letter == ',' && !quoted
    });
    fields.map(|field| field.trim().trim_matches('"')).collect()
}
