//! HTTP/2 client for web servers: one connection, one stream at a time, the body lent as it arrives (RFC 9113).
//!
//! A worker waits for each response, so concurrent streams, priorities and pushes are not needed, and few frame types remain. A
//! library decompresses the header fields of responses; those of requests are sent uncompressed (RFC 7541 leaves that to the
//! sender), because they mostly consist of paths, which never repeat.

use std::io::{IoSlice, Write};

use anyhow::Context;

use super::buffer::Wire;
use super::hpack::HpackDecoder;
use super::http::{HttpRequest, HttpResponse, ended, unanswered};
use crate::store::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Name of the protocol in a TLS handshake.
pub(crate) const ALPN: &[u8] = b"h2";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

const ENABLE_PUSH: u16 = 2;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;

/// Error codes that are handled here.
const NO_ERROR: u32 = 0;
const REFUSED_STREAM: u32 = 7;

const FRAME_HEAD: usize = 9;
/// Default frame size limit in bytes, which this client keeps.
const FRAME_MAX: usize = 16 << 10;
/// Size limit of a response's compressed fields in bytes.
const BLOCK_MAX: usize = 256 << 10;
/// Default flow-control window in bytes.
const WINDOW: u32 = 65_535;
/// Our window, the largest possible: a client that waits for one response reads all of it.
const OUR_WINDOW: u32 = (1 << 31) - 1;
/// Bytes received before the window is extended again.
const GRANT: u32 = 16 << 20;
const STREAM_MAX: u32 = (1 << 31) - 1;

/// Receives pieces of a body, and whether the request was successful.
pub(crate) type BodySink<'a> = &'a mut dyn FnMut(bool, &[u8]);

pub(crate) struct Http2Connection {
    wire: Wire,
    fields: HpackDecoder,
    secure: bool,
    /// Id of the next stream.
    next: u32,
    /// True once the server has sent a frame.
    greeted: bool,
    /// True if no further streams are possible.
    ends: bool,
    /// Bytes of bodies that may be sent on the connection, and on each new stream.
    room: i64,
    stream_room: i64,
    /// The server's frame size limit in bytes.
    frame_max: usize,
    /// Bytes received since the last window update.
    owed: u32,
    /// Frames to send with the next write.
    out: Vec<u8>,
    /// Compressed fields received so far.
    block: Vec<u8>,
}

/// A request in progress.
struct Http2Stream {
    id: u32,
    room: i64,
    owed: u32,
    answer: Option<HttpResponse>,
    /// Bytes of the body so far.
    came: u64,
    done: bool,
    /// True if the server reported that it did not process the request.
    untouched: bool,
}

/// The header of a frame.
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    length: usize,
}

impl Http2Connection {
    /// A new connection. With TLS, the server must have agreed to the protocol.
    pub(crate) fn new(wire: Wire, secure: bool) -> Result<Http2Connection> {
        ensure!(!secure || wire.protocol() == Some(ALPN), "the server does not speak HTTP/2 over TLS");
        let mut out = PREFACE.to_vec();
        let mut settings = Vec::new();
        for (setting, value) in [(ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, OUR_WINDOW)] {
            settings.extend(setting.to_be_bytes());
            settings.extend(value.to_be_bytes());
        }
        push_frame(&mut out, SETTINGS, 0, 0, &settings);
        push_frame(&mut out, WINDOW_UPDATE, 0, 0, &(OUR_WINDOW - WINDOW).to_be_bytes());
        Ok(Http2Connection {
            wire,
            fields: HpackDecoder::new(),
            secure,
            next: 1,
            greeted: false,
            ends: false,
            room: WINDOW.into(),
            stream_room: WINDOW.into(),
            frame_max: FRAME_MAX,
            owed: 0,
            out,
            block: Vec::new(),
        })
    }

    /// True if another request can be sent.
    pub(crate) fn is_open(&self) -> bool {
        !self.ends && self.next <= STREAM_MAX
    }

    /// Closes the connection and returns its buffer for the next one.
    pub(crate) fn into_buffer(self) -> Box<[u8]> {
        self.wire.into_buffer()
    }

    /// Sends a request and reads the response. `None` if the server did not process it and a new connection is needed.
    pub(crate) fn ask(&mut self, request: &HttpRequest<'_>, take: BodySink) -> Result<Option<HttpResponse>> {
        let body = request.body.unwrap_or_default();
        let mut stream = Http2Stream {
            id: self.next,
            room: self.stream_room,
            owed: 0,
            answer: None,
            came: 0,
            done: false,
            untouched: false,
        };
        self.next += 2;
        self.write_head(request, stream.id)?;
        self.send_body(&mut stream, body, take)?;
        while !stream.done && !stream.untouched {
            self.receive(&mut stream, take)?;
        }
        if stream.untouched {
            return Ok(None);
        }
        let answer = stream.answer.context("the server ended the stream before it answered")?;
        if let Some(length) = answer.length()
            && answer.has_body(request)
            && length != stream.came
        {
            bail!("the stream ended after {} of {length} B of the body", stream.came);
        }
        Ok(Some(answer))
    }

    // ---- sending ---------------------------------------------------------------------------------------------

    /// Appends the frames with the request's fields to the output.
    fn write_head(&mut self, request: &HttpRequest<'_>, id: u32) -> Result<()> {
        let HttpRequest { method, host, path, headers, body } = request;
        let block = &mut self.block;
        block.clear();
        // The static table has `:method` GET at 2, `:scheme` http at 6 and https at 7; `:path` is 4, `:authority` 1.
        match *method {
            "GET" => block.push(0x80 | 2),
            other => field(block, Name::Known(2), other),
        }
        block.push(0x80 | if self.secure { 7 } else { 6 });
        field(block, Name::Known(4), path);
        field(block, Name::Known(1), host);
        for line in headers.lines() {
            let (name, value) = line.split_once(": ").context("a header without a colon")?;
            field(block, Name::Spelt(name), value);
        }
        if let Some(body) = body {
            field(block, Name::Known(28), &body.len().to_string());
        }
        let ending = if body.is_none_or(<[u8]>::is_empty) { END_STREAM } else { 0 };
        let last = block.len().div_ceil(FRAME_MAX) - 1;
        for (index, part) in block.chunks(FRAME_MAX).enumerate() {
            let kind = if index == 0 { HEADERS } else { CONTINUATION };
            let flags = if index == 0 { ending } else { 0 } | if index == last { END_HEADERS } else { 0 };
            push_frame(&mut self.out, kind, flags, id, part);
        }
        Ok(())
    }

    /// Sends the output and the body, as fast as flow control allows.
    fn send_body(&mut self, stream: &mut Http2Stream, body: &[u8], take: BodySink) -> Result<()> {
        let mut left = body;
        if left.is_empty() {
            return self.flush();
        }
        while !left.is_empty() {
            let room = usize::try_from(self.room.min(stream.room)).unwrap_or(0);
            if room == 0 {
                self.flush()?;
                self.receive(stream, take)?;
                if stream.answer.is_some() || stream.untouched {
                    // The server has responded without the rest of the body; the unfinished stream makes the connection unusable.
                    self.ends = true;
                    return Ok(());
                }
                continue;
            }
            let (piece, rest) = left.split_at(room.min(self.frame_max).min(left.len()));
            let flags = if rest.is_empty() { END_STREAM } else { 0 };
            push_head(&mut self.out, DATA, flags, stream.id, piece.len());
            self.wire.send(&mut [IoSlice::new(&self.out), IoSlice::new(piece)])?;
            self.out.clear();
            self.room -= piece.len() as i64;
            stream.room -= piece.len() as i64;
            left = rest;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if !self.out.is_empty() {
            self.wire.send(&mut [IoSlice::new(&self.out)])?;
            self.out.clear();
        }
        Ok(())
    }

    // ---- receiving -------------------------------------------------------------------------------------------

    /// Processes one frame; if the connection ends, the error says how far the response had come.
    fn receive(&mut self, stream: &mut Http2Stream, take: BodySink) -> Result<()> {
        self.frame(stream, take).map_err(|error| match &stream.answer {
            None => unanswered(error),
            Some(_) => ended(error, || format!("the connection ended after {} B of the body", stream.came)),
        })
    }

    fn frame(&mut self, stream: &mut Http2Stream, take: BodySink) -> Result<()> {
        let frame = self.frame_head()?;
        let ours = frame.stream == stream.id;
        match frame.kind {
            DATA => self.data(&frame, stream, take)?,
            HEADERS => self.fields(&frame, stream)?,
            SETTINGS if frame.flags & ACK == 0 => self.settings(&frame, stream)?,
            PING if frame.flags & ACK == 0 => {
                let said: [u8; 8] = self.number(&frame)?;
                push_frame(&mut self.out, PING, ACK, 0, &said);
                self.flush()?;
            }
            WINDOW_UPDATE => {
                let more = i64::from(u32::from_be_bytes(self.number(&frame)?) & STREAM_MAX);
                match frame.stream {
                    0 => self.room += more,
                    _ if ours => stream.room += more,
                    _ => {}
                }
            }
            RST_STREAM => {
                let code = u32::from_be_bytes(self.number(&frame)?);
                match code {
                    _ if !ours => {}
                    REFUSED_STREAM => stream.untouched = true,
                    // It has responded and does not want the rest of the body.
                    NO_ERROR if stream.done => {}
                    _ => bail!("the server reset the stream with code {code}"),
                }
            }
            GOAWAY => self.goes_away(&frame, stream)?,
            PUSH_PROMISE => bail!("the server pushes what nobody asked for"),
            // Priorities, acknowledgements, and unknown types.
            _ => self.wire.lend(frame.length as u64, &mut |_| {})?,
        }
        Ok(())
    }

    fn frame_head(&mut self) -> Result<Frame> {
        let bytes: [u8; FRAME_HEAD] = self.bytes()?;
        let [high, middle, low, kind, flags, stream @ ..] = bytes;
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        if !self.greeted && (kind != SETTINGS || length > FRAME_MAX) {
            let said = String::from_utf8_lossy(&bytes).into_owned();
            bail!("the answer is not HTTP/2: it begins with {said:?}");
        }
        self.greeted = true;
        ensure!(length <= FRAME_MAX, "a frame of {length} B where at most {FRAME_MAX} were agreed");
        Ok(Frame { kind, flags, stream: u32::from_be_bytes(stream) & STREAM_MAX, length })
    }

    fn data(&mut self, frame: &Frame, stream: &mut Http2Stream, take: BodySink) -> Result<()> {
        let padding = self.padding(frame)?;
        let length = frame.length - padding.before - padding.after;
        let success = match &stream.answer {
            Some(answer) if frame.stream == stream.id => Some(answer.is_success()),
            _ => None,
        };
        let came = &mut stream.came;
        self.wire.lend(length as u64, &mut |piece| {
            if let Some(success) = success {
                *came += piece.len() as u64;
                take(success, piece);
            }
        })?;
        self.wire.lend(padding.after as u64, &mut |_| {})?;
        stream.done |= success.is_some() && frame.flags & END_STREAM != 0;
        self.grant(frame.length as u32, frame.stream == stream.id, stream)
    }

    /// Extends the flow-control windows once enough bytes were received.
    fn grant(&mut self, came: u32, ours: bool, stream: &mut Http2Stream) -> Result<()> {
        self.owed += came;
        if ours {
            stream.owed += came;
        }
        if self.owed >= GRANT {
            push_frame(&mut self.out, WINDOW_UPDATE, 0, 0, &self.owed.to_be_bytes());
            self.owed = 0;
        }
        if stream.owed >= GRANT && !stream.done {
            push_frame(&mut self.out, WINDOW_UPDATE, 0, stream.id, &stream.owed.to_be_bytes());
            stream.owed = 0;
        }
        self.flush()
    }

    /// Reads the fields of a response, or its trailers.
    fn fields(&mut self, frame: &Frame, stream: &mut Http2Stream) -> Result<()> {
        let padding = self.padding(frame)?;
        self.block.clear();
        self.block_part(frame.length - padding.before - padding.after)?;
        self.wire.lend(padding.after as u64, &mut |_| {})?;
        let skipped = if frame.flags & PRIORITY != 0 { 5 } else { 0 };
        let mut is_whole = frame.flags & END_HEADERS != 0;
        while !is_whole {
            let more = self.frame_head()?;
            let goes_on = more.kind == CONTINUATION && more.stream == frame.stream;
            ensure!(goes_on, "the fields of the answer break off");
            self.block_part(more.length)?;
            is_whole = more.flags & END_HEADERS != 0;
        }
        let mut answer = HttpResponse::default();
        let mut wrong = None;
        self.block.drain(..skipped.min(self.block.len()));
        self.fields.take(&mut self.block, &mut |name, value| {
            let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
            if let Err(error) = answer.field(&name, &value) {
                wrong.get_or_insert(error);
            }
        })?;
        if frame.stream != stream.id {
            return Ok(());
        }
        wrong.map_or(Ok(()), Err)?;
        if stream.answer.is_none() {
            match answer.status {
                // The final response follows.
                100..200 => return Ok(()),
                0 => bail!("the answer has no status"),
                _ => stream.answer = Some(answer),
            }
        }
        stream.done |= frame.flags & END_STREAM != 0;
        Ok(())
    }

    fn block_part(&mut self, length: usize) -> Result<()> {
        let fits = self.block.len() + length <= BLOCK_MAX;
        ensure!(fits, "the fields of the answer are longer than {BLOCK_MAX} B");
        self.wire.lend(length as u64, &mut |piece| self.block.extend_from_slice(piece))
    }

    fn settings(&mut self, frame: &Frame, stream: &mut Http2Stream) -> Result<()> {
        let mut values = Vec::new();
        self.wire.lend(frame.length as u64, &mut |piece| values.extend_from_slice(piece))?;
        for setting in values.chunks_exact(6) {
            let (name, value) = setting.split_at(2);
            let value = u32::from_be_bytes(value.try_into().unwrap_or_default());
            match u16::from_be_bytes(name.try_into().unwrap_or_default()) {
                INITIAL_WINDOW_SIZE => {
                    // It also applies to streams in progress.
                    stream.room += i64::from(value) - self.stream_room;
                    self.stream_room = value.into();
                }
                MAX_FRAME_SIZE => self.frame_max = value as usize,
                _ => {}
            }
        }
        push_frame(&mut self.out, SETTINGS, ACK, 0, &[]);
        // Sent with the next request, unless a body waits for the window.
        Ok(())
    }

    fn goes_away(&mut self, frame: &Frame, stream: &mut Http2Stream) -> Result<()> {
        let mut said = Vec::new();
        self.wire.lend(frame.length as u64, &mut |piece| said.extend_from_slice(piece))?;
        let ([a, b, c, d, e, f, g, h], why) =
            said.split_first_chunk().context("a GOAWAY without a reason")?;
        let last = u32::from_be_bytes([*a, *b, *c, *d]) & STREAM_MAX;
        let code = u32::from_be_bytes([*e, *f, *g, *h]);
        self.ends = true;
        if code != NO_ERROR {
            let why = String::from_utf8_lossy(why);
            bail!("the server ends the connection with code {code}: {why:?}");
        }
        stream.untouched |= last < stream.id;
        Ok(())
    }

    /// The padding of a frame: the length field before the content, and the bytes after it.
    fn padding(&mut self, frame: &Frame) -> Result<Padding> {
        if frame.flags & PADDED == 0 {
            return Ok(Padding { before: 0, after: 0 });
        }
        let [after] = self.bytes()?;
        let padding = Padding { before: 1, after: after.into() };
        let fits = padding.before + padding.after <= frame.length;
        ensure!(fits, "a frame with more padding than it is long");
        Ok(padding)
    }

    /// Reads a frame that consists of one number.
    fn number<const N: usize>(&mut self, frame: &Frame) -> Result<[u8; N]> {
        let Frame { kind, length, .. } = *frame;
        ensure!(length == N, "a frame of kind {kind} with {length} B instead of {N}");
        self.bytes()
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        let mut room = bytes.as_mut_slice();
        self.wire.lend(N as u64, &mut |piece| {
            // Never more bytes than requested.
            drop(room.write(piece));
        })?;
        Ok(bytes)
    }
}

struct Padding {
    before: usize,
    after: usize,
}

fn push_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, content: &[u8]) {
    push_head(out, kind, flags, stream, content.len());
    out.extend_from_slice(content);
}

/// Writes a frame's header.
fn push_head(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, length: usize) {
    let [_, high, middle, low] = (length as u32).to_be_bytes();
    out.extend([high, middle, low, kind, flags]);
    out.extend(stream.to_be_bytes());
}

/// A field's name: an index into the static table (RFC 7541, appendix A), or a literal.
enum Name<'a> {
    Known(usize),
    Spelt(&'a str),
}

/// Writes a field without adding it to the receiver's table.
fn field(block: &mut Vec<u8>, name: Name<'_>, value: &str) {
    match name {
        Name::Known(index) => integer(block, 0x0f, index),
        Name::Spelt(name) => {
            block.push(0);
            integer(block, 0x7f, name.len());
            block.extend(name.bytes().map(|byte| byte.to_ascii_lowercase()));
        }
    }
    integer(block, 0x7f, value.len());
    block.extend_from_slice(value.as_bytes());
}

/// Writes an integer with a prefix whose maximum is `most` (RFC 7541, section 5.1).
fn integer(block: &mut Vec<u8>, most: u8, value: usize) {
    if value < most.into() {
        return block.push(value as u8);
    }
    block.push(most);
    let mut left = value - usize::from(most);
    while left >= 128 {
        block.push((left % 128) as u8 | 128);
        left /= 128;
    }
    block.push(left as u8);
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::time::Duration;

    use super::super::buffer::Address;
    use super::super::http1::{ConnectionMode, Endpoint, HttpConnection, HttpVersion};
    use super::*;

    /// Encoded frames that a server sends on a connection, one item per request.
    type Answers = Vec<Vec<u8>>;

    /// A server that reads the requests of each connection in order, answers each, and closes the connection after the last one.
    /// Returns what it received: the frames of each connection, without the preface.
    fn server(connections: Vec<Answers>) -> (SocketAddr, std::thread::JoinHandle<Vec<Vec<u8>>>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let served = std::thread::spawn(move || {
            connections.into_iter().map(|answers| serve(&listener.accept().unwrap().0, answers)).collect()
        });
        (address, served)
    }

    fn serve(mut stream: &TcpStream, answers: Answers) -> Vec<u8> {
        let mut preface = [0; PREFACE.len()];
        stream.read_exact(&mut preface).unwrap();
        assert_eq!(preface, PREFACE);
        let mut asked = Vec::new();
        for answer in answers {
            // Until the stream has ended and all its fields have arrived, or a body waits for the window.
            let (mut sent, mut ended) = (0, false);
            loop {
                let mut head = [0; FRAME_HEAD];
                stream.read_exact(&mut head).unwrap();
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                let mut content = vec![0; length];
                stream.read_exact(&mut content).unwrap();
                asked.extend([head.as_slice(), &content].concat());
                let (kind, flags) = (head[3], head[4]);
                sent += if kind == DATA { length } else { 0 };
                ended |= matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0;
                let is_whole =
                    kind == DATA || (matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS != 0);
                if (ended && is_whole) || sent == WINDOW as usize {
                    break;
                }
            }
            for piece in answer.chunks(7) {
                stream.write_all(piece).unwrap();
            }
        }
        // Reads what the client still sends, such as its acknowledgement of our settings: closing a socket with unread bytes
        // resets the connection, and the client may lose what it has not read yet.
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.read_to_end(&mut asked).ok();
        asked
    }

    fn written(frames: &[(u8, u8, u32, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (kind, flags, stream, content) in frames {
            push_frame(&mut out, *kind, *flags, *stream, content);
        }
        out
    }

    /// Encoded fields of a response: status 200 is entry 8 of the static table.
    fn fields(others: &[(&str, &str)]) -> Vec<u8> {
        let mut block = vec![0x88];
        others.iter().for_each(|(name, value)| field(&mut block, Name::Spelt(name), value));
        block
    }

    fn client(address: SocketAddr) -> HttpConnection {
        let address = Address::Host(address.ip().to_string(), address.port());
        let kept = ConnectionMode::kept(Duration::from_secs(60));
        let manners = ConnectionMode { version: HttpVersion::Two, ..kept };
        HttpConnection::new(Endpoint { address, tls: None }, manners)
    }

    fn ask(http: &mut HttpConnection, body: Option<&[u8]>) -> Result<(HttpResponse, String)> {
        let mut came = Vec::new();
        let method = if body.is_some() { "PUT" } else { "GET" };
        let request = HttpRequest { method, host: "h", path: "/b?q=1", headers: "X-Y: z\r\n", body };
        let answer = http.ask(&request, &mut |piece| came.extend_from_slice(piece))?;
        Ok((answer, String::from_utf8_lossy(&came).into_owned()))
    }

    /// The client's error for a server that sends these frames after its settings.
    fn error(frames: &[(u8, u8, u32, &[u8])]) -> String {
        let answer = [written(&[(SETTINGS, 0, 0, &[])]), written(frames)].concat();
        ask(&mut client(server(vec![vec![answer]]).0), None).unwrap_err().to_string()
    }

    #[test]
    fn bodies_arrive_whole_however_they_are_framed() {
        let fields = fields(&[("content-length", "10"), ("etag", "\"x\""), ("server", "s")]);
        let (first, rest) = fields.split_at(5);
        let padded = [[3].as_slice(), &[0; 5], first, &[0; 3]].concat();
        let (address, served) = server(vec![vec![
            written(&[
                (SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 9]),
                (SETTINGS, ACK, 0, &[]),
                (HEADERS, PADDED | PRIORITY, 1, &padded),
                (CONTINUATION, END_HEADERS, 1, rest),
                (PING, 0, 0, b"12345678"),
                (DATA, PADDED, 1, b"\x0201234xx"),
                (99, 0, 0, b"what is unknown"),
                (DATA, 0, 1, b""),
                (DATA, END_STREAM, 1, b"56789"),
            ]),
            written(&[
                (HEADERS, END_HEADERS, 3, &[0x48, 3, b'1', b'0', b'3']),
                (HEADERS, END_HEADERS, 3, &[0x88]),
                (DATA, 0, 3, b"with fields behind it"),
                (HEADERS, END_HEADERS | END_STREAM, 3, &fields),
            ]),
            written(&[(HEADERS, END_HEADERS | END_STREAM, 5, &[0x89])]),
        ]]);
        let mut http = client(address);
        let (answer, body) = ask(&mut http, None).unwrap();
        assert_eq!((answer.status, answer.etag.as_str(), answer.server.as_str()), (200, "\"x\"", "s"));
        assert_eq!(body, "0123456789");
        assert_eq!(ask(&mut http, None).unwrap().1, "with fields behind it");
        assert_eq!(ask(&mut http, None).unwrap().0.status, 204);
        drop(http);
        let asked = served.join().unwrap().remove(0);
        let holds = |bytes: &[u8]| asked.windows(bytes.len()).any(|window| window == bytes);
        assert!(holds(&written(&[(PING, ACK, 0, b"12345678")])));
        assert!(holds(&written(&[(SETTINGS, ACK, 0, &[])])));
        assert!(holds(b"\x82\x86\x04\x06/b?q=1\x01\x01h\x00\x03x-y\x01z"));
    }

    #[test]
    fn bodies_are_sent_as_fast_as_they_are_taken() {
        let blob = vec![7; 100_000];
        let more = 50_000_u32.to_be_bytes();
        let (address, served) = server(vec![vec![
            // A setting extends the window of all streams, a frame that of the connection.
            written(&[(SETTINGS, 0, 0, &[0, 4, 0, 1, 0xff, 0xff]), (WINDOW_UPDATE, 0, 0, &more)]),
            written(&[(HEADERS, END_HEADERS | END_STREAM, 1, &[0x88])]),
        ]]);
        let mut http = client(address);
        assert_eq!(ask(&mut http, Some(&blob)).unwrap().0.status, 200);
        drop(http);
        let asked = served.join().unwrap().remove(0);
        assert_eq!(asked.iter().filter(|byte| **byte == 7).count(), 100_000);
    }

    #[test]
    fn a_server_may_answer_before_it_has_the_whole_body() {
        let full = written(&[
            (SETTINGS, 0, 0, &[]),
            (HEADERS, END_HEADERS, 1, &[0x48, 3, b'4', b'1', b'3']),
            (DATA, END_STREAM, 1, b"too large"),
        ]);
        let again = written(&[(SETTINGS, 0, 0, &[]), (HEADERS, END_HEADERS | END_STREAM, 1, &[0x88])]);
        let (address, _served) = server(vec![vec![full], vec![again]]);
        let mut http = client(address);
        let (answer, _) = ask(&mut http, Some(&[7; 100_000])).unwrap();
        assert_eq!((answer.status, answer.refusal.as_slice()), (413, b"too large".as_slice()));
        assert_eq!(ask(&mut http, None).unwrap().0.status, 200);
    }

    #[test]
    fn what_a_server_did_nothing_of_is_asked_again_over_another_connection() {
        let done = |id| (HEADERS, END_HEADERS | END_STREAM, id, [0x88].as_slice());
        let (address, _served) = server(vec![
            vec![
                written(&[(SETTINGS, 0, 0, &[]), done(1)]),
                written(&[(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0])]),
            ],
            vec![written(&[(SETTINGS, 0, 0, &[]), done(1)]), written(&[(RST_STREAM, 0, 3, &[0, 0, 0, 7])])],
            vec![written(&[(SETTINGS, 0, 0, &[]), done(1)])],
        ]);
        let mut http = client(address);
        for _ in 0..3 {
            assert_eq!(ask(&mut http, None).unwrap().0.status, 200);
        }
    }

    #[test]
    fn what_is_cut_short_is_an_error() {
        let fields = fields(&[("content-length", "10")]);
        assert_eq!(
            error(&[(HEADERS, END_HEADERS, 1, &fields), (DATA, END_STREAM, 1, b"0123")]),
            "the stream ended after 4 of 10 B of the body"
        );
        assert_eq!(
            error(&[(HEADERS, END_HEADERS, 1, &fields), (DATA, 0, 1, b"0123")]),
            "the connection ended after 4 B of the body"
        );
        assert_eq!(error(&[]), "the server closed the connection before it answered");
        assert_eq!(
            error(&[(HEADERS, END_HEADERS, 1, &fields), (RST_STREAM, 0, 1, &[0, 0, 0, 2])]),
            "the server reset the stream with code 2"
        );
        assert_eq!(
            error(&[(GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\x0bcalm down")]),
            "the server ends the connection with code 11: \"calm down\""
        );
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let not = |bytes: &[u8]| {
            ask(&mut client(server(vec![vec![bytes.to_vec()]]).0), None).unwrap_err().to_string()
        };
        assert_eq!(
            not(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            "the answer is not HTTP/2: it begins with \"HTTP/1.1 \""
        );
        assert!(error(&[(HEADERS, END_HEADERS | END_STREAM, 1, &[0xff])]).contains("break off"));
        assert!(error(&[(HEADERS, END_HEADERS | END_STREAM, 1, &[0xbe])]).contains("decompressed"));
        assert!(error(&[(HEADERS, END_HEADERS | END_STREAM, 1, &[])]).contains("has no status"));
        assert!(error(&[(HEADERS, 0, 1, &[0x88]), (DATA, 0, 1, b"x")]).contains("break off"));
        assert!(error(&[(HEADERS, PADDED | END_HEADERS, 1, &[9, 0x88])]).contains("padding"));
        assert!(error(&[(PUSH_PROMISE, 0, 1, &[])]).contains("pushes"));
        assert!(error(&[(RST_STREAM, 0, 1, &[])]).contains("0 B instead of 4"));
        assert!(error(&[(DATA, 0, 1, &vec![0; FRAME_MAX + 1])]).contains("16385 B"));
    }

    #[test]
    fn long_requests_take_several_frames() {
        let (address, served) = server(vec![vec![written(&[
            (SETTINGS, 0, 0, &[]),
            (HEADERS, END_HEADERS | END_STREAM, 1, &[0x88]),
        ])]]);
        let mut http = client(address);
        let path = format!("/{}", "k".repeat(FRAME_MAX));
        let request = HttpRequest { method: "GET", host: "h", path: &path, headers: "", body: None };
        assert_eq!(http.ask(&request, &mut |_| {}).unwrap().status, 200);
        drop(http);
        let asked = served.join().unwrap().remove(0);
        assert_eq!(asked.iter().filter(|byte| **byte == b'k').count(), FRAME_MAX);
        let first = written(&[(HEADERS, END_STREAM, 1, &[])]);
        assert!(asked.windows(6).any(|head| head == [&[0, 0x40], &first[2..6]].concat()));
    }
}
