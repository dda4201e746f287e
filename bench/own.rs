//! What the protocols of own stores cost: a null store behind HTTP and behind Redis's protocol, against the built-in one.
//!
//! `cargo bench --bench own`

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

#[expect(dead_code, reason = "where the store lies is not asked")]
mod common;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use blobwise::corpus::Sizes;
use blobwise::host::place::Place;
use blobwise::plan::Order;

use common::{Bed, compare};

/// Blobs of each side.
const BLOBS: u64 = 1000;

fn main() -> Result<ExitCode> {
    if let Some(supervisor) = blobwise::host::server::supervise_if_asked() {
        return Ok(supervisor);
    }
    // The manifests start this program again, as the store behind the protocol.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [protocol, socket] = arguments.as_slice() {
        serve(protocol, Path::new(socket))?;
        return Ok(ExitCode::SUCCESS);
    }
    let place = Place::make(Path::new("."))?;
    for bytes in [1 << 10, 100 << 10] {
        let bed = |store: &str| Bed::make(store, Sizes::Fixed(bytes), BLOBS, Order::Uniform, BLOBS);
        for speaks in ["http", "redis"] {
            let (own, null) = (bed(&manifest(place.path(), speaks)?)?, bed("null")?);
            let title = format!(
                "a null store behind {speaks} (ours) against the built-in one (theirs): {BLOBS} blobs of {bytes} B"
            );
            compare(&title, None, || own.ours(), || null.ours())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the manifest of a store, and returns its candidate.
fn manifest(dir: &Path, speaks: &str) -> Result<String> {
    let program = std::env::current_exe()?;
    let text = format!(
        "name = 'null-{speaks}'\nspeaks = '{speaks}'\nkind = 'null'\nranges = false\n\
         command = ['{}', '{speaks}', '{{socket}}']\n",
        program.display()
    );
    let file = dir.join(format!("{speaks}.toml"));
    std::fs::write(&file, text)?;
    Ok(format!("own:{}", file.display()))
}

// ---- the store -------------------------------------------------------------------------------------------------------

/// Lengths by key.
#[derive(Default)]
struct Lengths(Mutex<HashMap<String, u64>>);

impl Lengths {
    fn put(&self, key: &str, bytes: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), bytes);
    }

    fn get(&self, key: &str) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    }

    fn delete(&self, key: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key).is_some()
    }
}

/// Serves every connection on a thread of its own, without end.
fn serve(protocol: &str, socket: &Path) -> Result<()> {
    let answer = match protocol {
        "http" => answer_http,
        "redis" => answer_redis,
        other => bail!("`{other}` is no protocol: http or redis"),
    };
    let (listener, lengths) = (UnixListener::bind(socket)?, Lengths::default());
    std::thread::scope(|scope| {
        for stream in listener.incoming() {
            let (stream, lengths) = (stream?, &lengths);
            scope.spawn(move || {
                let mut requests = BufReader::with_capacity(256 << 10, &stream);
                let mut answers = BufWriter::with_capacity(256 << 10, &stream);
                // A connection ends when nothing follows, or what follows is no request.
                while answer(&mut requests, &mut answers, lengths).is_ok_and(|goes_on| goes_on) {}
            });
        }
        Ok(())
    })
}

type Requests<'s> = BufReader<&'s UnixStream>;
type Answers<'s> = BufWriter<&'s UnixStream>;

/// A line without its end; `None` if the other side has closed the connection.
fn line(requests: &mut Requests<'_>) -> Result<Option<String>> {
    let mut line = String::new();
    let read = requests.read_line(&mut line)?;
    Ok((read > 0).then(|| line.trim_end().to_owned()))
}

/// Reads over a blob.
fn skip(requests: &mut Requests<'_>, bytes: u64) -> Result<()> {
    std::io::copy(&mut requests.take(bytes), &mut std::io::sink())?;
    Ok(())
}

/// Sends what stands before a blob, as many zeros, and what stands behind it.
fn send(answers: &mut Answers<'_>, before: &str, bytes: u64, behind: &str) -> Result<()> {
    answers.write_all(before.as_bytes())?;
    std::io::copy(&mut std::io::repeat(0).take(bytes), answers)?;
    answers.write_all(behind.as_bytes())?;
    Ok(answers.flush()?)
}

/// Answers one request; false if there is none.
fn answer_http(requests: &mut Requests<'_>, answers: &mut Answers<'_>, lengths: &Lengths) -> Result<bool> {
    let Some(request) = line(requests)? else { return Ok(false) };
    let (method, rest) = request.split_once(' ').context("no path")?;
    let (path, _version) = rest.split_once(' ').context("no version")?;
    let mut bytes = 0;
    loop {
        let header = line(requests)?.context("half a request")?;
        match header.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                bytes = value.trim().parse()?;
            }
            Some(_) => {}
            None => break,
        }
    }
    skip(requests, bytes)?;
    let is_there = lengths.get(path);
    let status = if method == "PUT" || is_there.is_some() { "200 OK" } else { "404 Not Found" };
    let length = if ["GET", "HEAD"].contains(&method) { is_there.unwrap_or(0) } else { 0 };
    match method {
        "PUT" => lengths.put(path, bytes),
        "DELETE" => {
            lengths.delete(path);
        }
        _ => {}
    }
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
    send(answers, &head, if method == "GET" { length } else { 0 }, "")?;
    Ok(true)
}

/// The number behind the sign of a line.
fn number(line: &str) -> Result<u64> {
    Ok(line.get(1..).context("an empty line")?.parse()?)
}

/// Answers one command; false if there is none.
fn answer_redis(requests: &mut Requests<'_>, answers: &mut Answers<'_>, lengths: &Lengths) -> Result<bool> {
    let Some(count) = line(requests)? else { return Ok(false) };
    let (mut words, mut bytes) = (Vec::new(), 0);
    for place in 0..number(&count)? {
        bytes = number(&line(requests)?.context("half a command")?)?;
        // The third word is the blob.
        if place < 2 {
            words.push(line(requests)?.context("half a command")?);
        } else {
            skip(requests, bytes + 2)?;
        }
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["SET", key] => {
            lengths.put(key, bytes);
            send(answers, "+OK\r\n", 0, "")?;
        }
        ["GET", key] => match lengths.get(key) {
            Some(bytes) => send(answers, &format!("${bytes}\r\n"), bytes, "\r\n")?,
            None => send(answers, "$-1\r\n", 0, "")?,
        },
        ["EXISTS", key] => send(answers, &format!(":{}\r\n", u8::from(lengths.get(key).is_some())), 0, "")?,
        ["DEL", key] => send(answers, &format!(":{}\r\n", u8::from(lengths.delete(key))), 0, "")?,
        _ => send(answers, "-ERR no such command\r\n", 0, "")?,
    }
    Ok(true)
}
