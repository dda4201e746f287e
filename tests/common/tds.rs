//! A peer that speaks SQL Server's protocol (Microsoft's MS-TDS) and gives the answers of a test's script, because no such server
//! is available. It knows no SQL. It shows how a client handles answers, errors and disconnects, not what a server would answer.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// User that may log in.
pub const USER: &str = "owner";
pub const PASSWORD: &str = "s3cret-of-a-peer";

/// A cell of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    Int(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// An error of the server's: number and severity, which is at least 11.
#[derive(Clone, Debug)]
pub struct Refused {
    pub number: u32,
    pub class: u8,
    pub message: String,
}

impl Refused {
    /// Number that stands for closing the connection without an error.
    pub const SILENT: u32 = 0;

    pub fn new(number: u32, class: u8, message: &str) -> Refused {
        Refused { number, class, message: message.to_owned() }
    }
}

/// A result set.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
}

/// Answer to one request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Number of affected rows.
    Done(u64),
    Rows(Table),
    Refused(Refused),
    /// Rows followed by an error.
    Partly(Table, Refused),
    /// Rows, cut off this many bytes before the end of the answer by closing the connection.
    Torn(Table, usize),
    /// Rows without an end of the answer, until the client sends an attention signal.
    Endless(Table),
}

/// Request of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// A batch of statements.
    Batch(String),
    /// A statement with parameters.
    Call(String, Vec<Cell>),
    /// A request to cancel.
    Attention,
}

impl Asked {
    /// Text of its statements.
    pub fn sql(&self) -> &str {
        match self {
            Asked::Batch(sql) | Asked::Call(sql, _) => sql,
            Asked::Attention => "",
        }
    }
}

type Script = dyn Fn(&Asked) -> Answer + Send + Sync;
/// Returns why a user with the right password may not open a database; the name is empty if none is given.
type Door = dyn Fn(&str) -> Option<Refused> + Send + Sync;

struct Shared {
    script: Box<Script>,
    door: Box<Door>,
    asked: Mutex<Vec<Asked>>,
    /// All connections so far; `None` once the peer has ended.
    streams: Mutex<Option<Vec<TcpStream>>>,
}

/// A peer that listens on loopback until it is dropped or stopped.
pub struct Peer {
    port: u16,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    pub fn new(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Peer {
        Peer::with_door(|_| None, script)
    }

    pub fn with_door(
        door: impl Fn(&str) -> Option<Refused> + Send + Sync + 'static,
        script: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Peer {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            script: Box::new(script),
            door: Box::new(door),
            asked: Mutex::default(),
            streams: Mutex::new(Some(Vec::new())),
        });
        let accepting = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                match lock(&accepting.streams).as_mut() {
                    Some(streams) => streams.push(stream.try_clone().unwrap()),
                    None => return,
                }
                let shared = Arc::clone(&accepting);
                // The thread ends with its connection, however that ends.
                std::thread::spawn(move || Session { stream, shared }.serve().ok());
            }
        });
        Peer { port, shared, thread: Some(thread) }
    }

    /// URL of the peer, with a path such as `/shop`.
    pub fn url(&self, path: &str) -> String {
        format!("mssql://{USER}:{PASSWORD}@127.0.0.1:{}{path}", self.port)
    }

    /// All requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.shared.asked).clone()
    }

    /// Ends the peer and all its connections.
    pub fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        for stream in lock(&self.shared.streams).take().into_iter().flatten() {
            stream.shutdown(Shutdown::Both).ok();
        }
        // Wakes the accepting thread.
        TcpStream::connect(("127.0.0.1", self.port)).ok();
        thread.join().ok();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Types of packets (2.2.3.1.1).
mod packet {
    pub const BATCH: u8 = 1;
    pub const CALL: u8 = 3;
    pub const ANSWER: u8 = 4;
    pub const ATTENTION: u8 = 6;
    pub const LOGIN: u8 = 16;
    pub const PRELOGIN: u8 = 18;
}

/// A connection.
struct Session {
    stream: TcpStream,
    shared: Arc<Shared>,
}

impl Session {
    fn serve(&mut self) -> std::io::Result<()> {
        loop {
            let (kind, message) = self.receive()?;
            match kind {
                packet::PRELOGIN => self.send(&prelogin())?,
                packet::LOGIN => {
                    let refused = self.refuses(&message);
                    let is_out = refused.is_some();
                    if refused.as_ref().is_some_and(|refused| refused.number == Refused::SILENT) {
                        return self.stream.shutdown(Shutdown::Both);
                    }
                    self.send(
                        &refused.map_or_else(welcome, |refused| [error(&refused), done(ERROR, 0)].concat()),
                    )?;
                    if is_out {
                        return self.stream.shutdown(Shutdown::Both);
                    }
                }
                packet::BATCH => {
                    let sql = utf16(&message[all_headers(&message)..]);
                    self.answer(Asked::Batch(sql))?;
                }
                packet::CALL => {
                    let (sql, params) = call(&message);
                    self.answer(Asked::Call(sql, params))?;
                }
                // For a request that has already ended.
                packet::ATTENTION => self.attention()?,
                kind => panic!("a packet of type {kind}"),
            }
        }
    }

    fn answer(&mut self, asked: Asked) -> std::io::Result<()> {
        let answer = (self.shared.script)(&asked);
        lock(&self.shared.asked).push(asked);
        match answer {
            Answer::Done(rows) => self.send(&done(COUNT, rows)),
            Answer::Rows(table) => self.send(&[table.bytes(), done(COUNT, table.rows.len() as u64)].concat()),
            Answer::Refused(refused) => self.send(&[error(&refused), done(ERROR, 0)].concat()),
            Answer::Partly(table, refused) => {
                self.send(&[table.bytes(), error(&refused), done(ERROR, 0)].concat())
            }
            Answer::Torn(table, missing) => {
                let packets = in_packets(&[table.bytes(), done(COUNT, table.rows.len() as u64)].concat());
                self.stream.write_all(&packets[..packets.len() - missing])?;
                self.stream.shutdown(Shutdown::Both)
            }
            Answer::Endless(table) => {
                // Whole packets, with no end-of-message flag on the last.
                let mut packets = in_packets(&table.bytes());
                let last = last_packet(&packets);
                packets[last + 1] = 0;
                self.stream.write_all(&packets)
            }
        }
    }

    /// Acknowledges a cancellation (2.2.7.6).
    fn attention(&mut self) -> std::io::Result<()> {
        lock(&self.shared.asked).push(Asked::Attention);
        self.send(&done(ATTENTION, 0))
    }

    /// Receives a message of one or more packets.
    fn receive(&mut self) -> std::io::Result<(u8, Vec<u8>)> {
        let mut message = Vec::new();
        loop {
            let mut head = [0; 8];
            self.stream.read_exact(&mut head)?;
            let begin = message.len();
            message.resize(begin + usize::from(u16::from_be_bytes([head[2], head[3]])) - head.len(), 0);
            self.stream.read_exact(&mut message[begin..])?;
            if head[1] & 1 == 1 {
                return Ok((head[0], message));
            }
        }
    }

    fn send(&mut self, message: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(&in_packets(message))
    }

    /// Returns why a login is refused (2.2.6.4). Offsets and lengths follow after 36 bytes.
    fn refuses(&self, login: &[u8]) -> Option<Refused> {
        let text = |place: usize, swapped: bool| {
            let at = |at: usize| usize::from(u16::from_le_bytes([login[at], login[at + 1]]));
            let (offset, length) = (at(place), at(place + 2) * 2);
            let hide = |byte: &u8| if swapped { (byte ^ 0xa5).rotate_left(4) } else { *byte };
            utf16(&login[offset..offset + length].iter().map(hide).collect::<Vec<u8>>())
        };
        let (user, password, database) = (text(40, false), text(44, true), text(68, false));
        if (user.as_str(), password.as_str()) != (USER, PASSWORD) {
            return Some(Refused::new(18_456, 14, &format!("Login failed for user '{user}'.")));
        }
        (self.shared.door)(&database)
    }
}

/// Splits a message into packets of at most 4,096 bytes and flags the last one.
fn in_packets(message: &[u8]) -> Vec<u8> {
    const BYTES: usize = 4096 - 8;
    let mut packets = Vec::new();
    let parts: Vec<&[u8]> = message.chunks(BYTES).collect();
    for (number, part) in parts.iter().enumerate() {
        let length = (part.len() + 8) as u16;
        packets.extend([packet::ANSWER, u8::from(number + 1 == parts.len())]);
        packets.extend(length.to_be_bytes());
        packets.extend([0, 0, number as u8 + 1, 0]);
        packets.extend(*part);
    }
    packets
}

/// Position of the last packet.
fn last_packet(packets: &[u8]) -> usize {
    let mut begin = 0;
    loop {
        let next = begin + usize::from(u16::from_be_bytes([packets[begin + 2], packets[begin + 3]]));
        if next == packets.len() {
            return begin;
        }
        begin = next;
    }
}

// ---- what is said ----------------------------------------------------------------------------------------------------

/// Status of a DONE token: error, row count, acknowledged attention (2.2.7.6).
const ERROR: u16 = 2;
const COUNT: u16 = 0x10;
const ATTENTION: u16 = 0x20;

fn done(status: u16, rows: u64) -> Vec<u8> {
    [&[0xfd][..], &status.to_le_bytes(), &[0, 0], &rows.to_le_bytes()].concat()
}

/// Version, and no encryption (2.2.6.5).
fn prelogin() -> Vec<u8> {
    const NOT_SUPPORTED: u8 = 2;
    let table = [0, 0, 11, 0, 6, 1, 0, 17, 0, 1, 0xff];
    [&table[..], &[16, 0, 4, 0, 0, 0], &[NOT_SUPPORTED]].concat()
}

/// LOGINACK of TDS 7.4 (2.2.7.14).
fn welcome() -> Vec<u8> {
    let name = "Scripted peer";
    let body = [&[1, 0x74, 0, 0, 4, name.len() as u8][..], &in_utf16(name), &[16, 0, 4, 0]].concat();
    [&[0xad][..], &(body.len() as u16).to_le_bytes(), &body, &done(0, 0)].concat()
}

/// ERROR token (2.2.7.10).
fn error(refused: &Refused) -> Vec<u8> {
    const STATE: u8 = 1;
    let message = in_utf16(&refused.message);
    let server = in_utf16("peer");
    let body = [
        &refused.number.to_le_bytes()[..],
        &[STATE, refused.class],
        &((message.len() / 2) as u16).to_le_bytes(),
        &message,
        &[(server.len() / 2) as u8],
        &server,
        // No procedure name, line 1.
        &[0, 1, 0, 0, 0],
    ]
    .concat();
    [&[0xaa][..], &(body.len() as u16).to_le_bytes(), &body].concat()
}

/// First cell of a column that is not NULL, which determines its type.
fn sample(table: &Table, column: usize) -> &Cell {
    table.rows.iter().map(|row| &row[column]).find(|cell| **cell != Cell::Null).unwrap_or(&Cell::Null)
}

/// No code page, which UTF-16 text does not need, and a sort order (2.2.5.1.2).
const COLLATION: [u8; 5] = [0x09, 0x04, 0xd0, 0x00, 0x34];

impl Table {
    /// COLMETADATA and ROWs (2.2.7.4, 2.2.7.19).
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0x81];
        bytes.extend((self.columns.len() as u16).to_le_bytes());
        for (number, name) in self.columns.iter().enumerate() {
            // No user type; nullable and writable.
            bytes.extend([0, 0, 0, 0, 9, 0]);
            match sample(self, number) {
                Cell::Int(_) => bytes.extend([0x26, 8]),
                Cell::Float(_) => bytes.extend([0x6d, 8]),
                Cell::Bytes(_) => bytes.extend([0xa5, 0xff, 0xff]),
                Cell::Text(_) | Cell::Null => {
                    bytes.extend([0xe7, 0xff, 0xff]);
                    bytes.extend(COLLATION);
                }
            }
            let name = in_utf16(name);
            bytes.push((name.len() / 2) as u8);
            bytes.extend(name);
        }
        for row in &self.rows {
            assert_eq!(row.len(), self.columns.len());
            bytes.push(0xd1);
            for (number, cell) in row.iter().enumerate() {
                let is_large = matches!(sample(self, number), Cell::Bytes(_) | Cell::Text(_) | Cell::Null);
                match cell {
                    Cell::Null if is_large => bytes.extend([0xff; 8]),
                    Cell::Null => bytes.push(0),
                    Cell::Int(value) => {
                        bytes.push(8);
                        bytes.extend(value.to_le_bytes());
                    }
                    Cell::Float(value) => {
                        bytes.push(8);
                        bytes.extend(value.to_le_bytes());
                    }
                    Cell::Text(text) => bytes.extend(in_pieces(&in_utf16(text))),
                    Cell::Bytes(blob) => bytes.extend(in_pieces(blob)),
                }
            }
        }
        bytes
    }
}

/// Encodes a large value: its length, chunks, and an empty chunk (2.2.5.2.3).
fn in_pieces(value: &[u8]) -> Vec<u8> {
    const PIECE: usize = 3000;
    let mut bytes = (value.len() as u64).to_le_bytes().to_vec();
    for piece in value.chunks(PIECE) {
        bytes.extend((piece.len() as u32).to_le_bytes());
        bytes.extend(piece);
    }
    bytes.extend([0; 4]);
    bytes
}

fn in_utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

// ---- what is heard ---------------------------------------------------------------------------------------------------

fn utf16(bytes: &[u8]) -> String {
    let units: Vec<u16> = bytes.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    String::from_utf16(&units).unwrap()
}

/// Length of the headers before a request (2.2.5.3).
fn all_headers(message: &[u8]) -> usize {
    u32::from_le_bytes(message[..4].try_into().unwrap()) as usize
}

/// Reads a request field by field.
struct Reader<'m>(&'m [u8]);

impl<'m> Reader<'m> {
    fn take(&mut self, length: usize) -> &'m [u8] {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    fn number(&mut self, bytes: usize) -> u64 {
        self.take(bytes).iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Reads a value that may be NULL; its maximum length determines how its length is encoded.
    fn value(&mut self, most: u64) -> Option<Vec<u8>> {
        if most == 0xffff {
            if self.number(8) == u64::MAX {
                return None;
            }
            let mut value = Vec::new();
            loop {
                let length = self.number(4) as usize;
                if length == 0 {
                    return Some(value);
                }
                value.extend(self.take(length));
            }
        }
        let length = self.number(2);
        (length != 0xffff).then(|| self.take(length as usize).to_vec())
    }

    /// Reads a parameter: name, status, type and value (2.2.6.6).
    fn parameter(&mut self) -> Cell {
        let name = self.number(1) as usize * 2;
        self.take(name + 1);
        match self.number(1) {
            0x26 => {
                self.take(1);
                match self.number(1) as usize {
                    0 => Cell::Null,
                    length => {
                        let number = self.number(length) as i64;
                        let empty = 64 - 8 * length as u32;
                        Cell::Int(number << empty >> empty)
                    }
                }
            }
            0xe7 => {
                let most = self.number(2);
                self.take(COLLATION.len());
                self.value(most).map_or(Cell::Null, |text| Cell::Text(utf16(&text)))
            }
            0xa5 => {
                let most = self.number(2);
                self.value(most).map_or(Cell::Null, Cell::Bytes)
            }
            kind => panic!("a parameter of type {kind:#x}"),
        }
    }
}

/// Parses `sp_executesql`: the statement, the declaration of parameters, and their values.
fn call(message: &[u8]) -> (String, Vec<Cell>) {
    const BY_NUMBER: u64 = 0xffff;
    const EXECUTE_SQL: u64 = 10;
    let mut rest = Reader(&message[all_headers(message)..]);
    assert_eq!((rest.number(2), rest.number(2)), (BY_NUMBER, EXECUTE_SQL));
    rest.take(2);
    let mut cells = Vec::new();
    while !rest.0.is_empty() {
        cells.push(rest.parameter());
    }
    let Cell::Text(sql) = cells.remove(0) else { panic!("no statement") };
    (sql, cells.into_iter().skip(1).collect())
}
