//! Reads a log line by line: plain, gzip or zstd, from a file or standard input, whatever is in it.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, Seek};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use flate2::bufread::MultiGzDecoder;
use rand::TryRng;
use serde::Serialize;

use super::format::{Line, LogFormat, Parser, RECORD_BYTES};
use super::{PathIndex, Request, zstd};
use crate::host::machine;
use crate::units;

/// Bytes from which the format is recognised.
const HEAD_BYTES: u64 = 1 << 16;
/// Longest line in bytes that is read; the rest of a longer one is skipped.
const LINE_BYTES: u64 = 1 << 16;
/// How many of the lines that cannot be read are kept with their reasons.
const FIRST_BAD: usize = 3;

/// A line that cannot be read. Nothing of its text is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BadLine {
    /// Number of the line, from 1, or of the record.
    pub line: u64,
    /// What is wrong: the rest of a sentence that begins with the line.
    pub why: &'static str,
}

/// What was read so far.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Lines, those that cannot be read included, or records.
    pub lines: u64,
    /// Lines that cannot be read.
    pub bad: u64,
    /// The first of these.
    pub first_bad: Vec<BadLine>,
    /// Why the log ended early, if it did: it is truncated, damaged, or could not be read any further.
    pub ended_early: Option<String>,
}

impl Counts {
    /// Share of the lines that cannot be read, from 0 to 1; 0 without lines.
    pub fn bad_share(&self) -> f64 {
        self.bad as f64 / self.lines.max(1) as f64
    }
}

/// How far a log was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Requests so far.
    pub requests: u64,
    /// Seconds that the rest takes if its bytes, compressed ones where the log is, are read as fast as those before; `None` if nobody
    /// knows how many there are, as of standard input.
    pub seconds_left: Option<f64>,
}

impl Reading {
    /// Formats it for people: `20M requests so far, about 35 s left`.
    pub fn description(&self) -> String {
        let left = self.seconds_left.map(|left| format!(", about {} left", units::seconds(left)));
        format!("{} requests so far{}", units::count(self.requests as f64), left.unwrap_or_default())
    }
}

/// A file of known size while it is read.
struct SizedFile {
    /// Has its place in common with what is read.
    file: File,
    bytes: u64,
    /// By [`machine::uptime`].
    begun: Duration,
}

/// Seconds that the rest of `bytes` takes, if `read` of them took `seconds`.
pub(super) fn seconds_left(seconds: f64, read: u64, bytes: u64) -> Option<f64> {
    (read > 0).then(|| seconds * bytes.saturating_sub(read) as f64 / read as f64)
}

/// A log that is read.
pub struct LogReader {
    input: Box<dyn BufRead>,
    parser: Parser,
    line: Vec<u8>,
    /// What was read so far.
    pub counts: Counts,
    /// An error that is due when what was read before it is used up.
    failed: Option<std::io::Error>,
    /// What is read, if its size is known.
    sized: Option<SizedFile>,
}

impl LogReader {
    /// Opens a log; `-` is standard input. Without a format or names of columns the format is recognised.
    pub fn open(path: &Path, format: Option<LogFormat>, columns: Option<&str>) -> Result<LogReader> {
        if path == Path::new("-") {
            return LogReader::new(Box::new(std::io::stdin()), format, columns).context("standard input");
        }
        let shown = || format!("`{}`", path.display());
        let file = File::open(path).with_context(shown)?;
        let metadata = file.metadata().with_context(shown)?;
        ensure!(!metadata.is_dir(), "{} is a directory, and not a log", shown());
        let begun = machine::uptime();
        let same = if metadata.is_file() { file.try_clone().ok() } else { None };
        let sized = same.map(|file| SizedFile { file, bytes: metadata.len(), begun });
        let reader = LogReader::new(Box::new(file), format, columns).with_context(shown)?;
        Ok(LogReader { sized, ..reader })
    }

    /// Reads a log from anything.
    pub fn new(source: Box<dyn Read>, format: Option<LogFormat>, columns: Option<&str>) -> Result<LogReader> {
        const GZIP: &[u8] = &[0x1f, 0x8b];
        /// Other compressed files, by their first bytes, and what decompresses them.
        const FOREIGN: [(&[u8], &str); 3] =
            [(b"\xfd7zX", "xz -dc"), (b"BZh", "bzip2 -dc"), (b"PK\x03\x04", "unzip -p")];
        /// As many bytes as tell how a file is compressed.
        const MAGIC_BYTES: u64 = 4;
        let (magic, failed, source) = peeked(source, MAGIC_BYTES);
        if let Some(error) = failed {
            return Err(error).context("it cannot be read");
        }
        let is_foreign = |begin: &[u8]| format.is_none() && magic.starts_with(begin);
        if let Some((_, program)) = FOREIGN.iter().find(|(begin, _)| is_foreign(begin)) {
            bail!(
                "it is compressed in a way that is not read: `{program} FILE | blobwise trace -` describes it"
            );
        }
        let source: Box<dyn Read> = if magic.starts_with(GZIP) {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 16, source)))
        } else if zstd::is_zstd(&magic) {
            Box::new(zstd::Decoder::new(BufReader::with_capacity(1 << 16, source)))
        } else {
            source
        };
        let (head, failed, source) = peeked(source, HEAD_BYTES);
        if head.is_empty() {
            return Err(
                failed.map_or_else(|| anyhow!("it is empty"), |error| anyhow!("it cannot be read: {error}"))
            );
        }
        let salt = rand::rngs::SysRng.try_next_u64().context("the system has no random numbers")?;
        let parser = match (columns, format.or_else(|| LogFormat::detect(&head))) {
            (Some(columns), _) => Parser::with_columns(columns, salt).context("--columns")?,
            (None, Some(format)) => Parser::new(format, salt),
            (None, None) => bail!(
                "its first lines are in no format that blobwise knows: name one with --format, or --trace-format of a run ({}), or the columns of a csv with \
                 --columns time,op,key,bytes",
                LogFormat::ALL.map(LogFormat::name).join(", ")
            ),
        };
        let input = Box::new(BufReader::with_capacity(1 << 16, source));
        Ok(LogReader { input, parser, line: Vec::new(), counts: Counts::default(), failed, sized: None })
    }

    /// Returns the reader with another salt of its keys than a random one, in order that a sample is the same each time.
    pub(super) fn salted(mut self, salt: u64) -> LogReader {
        self.parser.set_salt(salt);
        self
    }

    /// Returns the reader with files to look for by the paths of objects.
    pub(super) fn with_files(mut self, files: Option<Arc<PathIndex>>) -> LogReader {
        self.parser.set_files(files);
        self
    }

    /// The format that is read.
    pub fn format(&self) -> LogFormat {
        self.parser.format()
    }

    /// How far it was read, `requests` being those that were taken.
    pub(super) fn reading(&self, requests: u64) -> Reading {
        let left = self.sized.as_ref().and_then(|of| {
            let read = (&of.file).stream_position().ok()?;
            seconds_left(machine::uptime().saturating_sub(of.begun).as_secs_f64(), read, of.bytes)
        });
        Reading { requests, seconds_left: left }
    }

    /// The next request; `None` at the end. Lines without one are counted and passed over.
    pub fn next_request(&mut self) -> Option<Request> {
        loop {
            match self.next_line()? {
                Ok(Some(request)) => return Some(request),
                Ok(None) => {}
                Err(why) => {
                    self.counts.bad += 1;
                    if self.counts.first_bad.len() < FIRST_BAD {
                        self.counts.first_bad.push(BadLine { line: self.counts.lines, why });
                    }
                }
            }
        }
    }

    fn next_line(&mut self) -> Option<Line> {
        self.line.clear();
        let is_binary = self.format() == LogFormat::OracleGeneral;
        let read = if is_binary {
            self.input.by_ref().take(RECORD_BYTES as u64).read_to_end(&mut self.line)
        } else {
            self.input.by_ref().take(LINE_BYTES).read_until(b'\n', &mut self.line)
        };
        let is_whole = if is_binary { self.line.len() == RECORD_BYTES } else { self.line.ends_with(b"\n") };
        let failed = read.err().or_else(|| if is_whole { None } else { self.failed.take() });
        let is_cut = failed.is_some();
        if let Some(error) = failed {
            self.counts.ended_early = Some(error.to_string());
        }
        // What is left of a line that was cut off could be read as a shorter name or a smaller number.
        if is_cut || self.line.is_empty() {
            return None;
        }
        self.counts.lines += 1;
        if is_binary {
            return Some(self.parser.record(&self.line));
        }
        if self.line.len() as u64 == LINE_BYTES && !is_whole {
            if let Err(error) = self.input.skip_until(b'\n') {
                self.counts.ended_early = Some(error.to_string());
            }
            return Some(Err("is longer than 64 KiB"));
        }
        match std::str::from_utf8(&self.line) {
            Ok(line) => Some(self.parser.read(line.trim())),
            Err(_place) => Some(Err("is not UTF-8")),
        }
    }
}

/// Reads the beginning of a source, and returns it, the error that ended it, and the source from its beginning.
fn peeked(mut source: Box<dyn Read>, bytes: u64) -> (Vec<u8>, Option<std::io::Error>, Box<dyn Read>) {
    let mut head = Vec::new();
    // What was read before an error is kept.
    let failed = source.by_ref().take(bytes).read_to_end(&mut head).err();
    let whole: Box<dyn Read> = Box::new(Cursor::new(head.clone()).chain(source));
    (head, failed, whole)
}
