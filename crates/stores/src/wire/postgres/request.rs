//! Assembly of requests: small parts are copied into one buffer, large ones are sent from the caller's memory.

use std::io::{self, IoSlice, Write};

use bytes::{BufMut, BytesMut};
use postgres_protocol::message::frontend;

/// Type OIDs, unchanged since PostgreSQL 7.
pub(crate) const BYTEA: u32 = 17;
pub(crate) const BIGINT: u32 = 20;
pub(crate) const TEXT: u32 = 25;

/// Values of at least this size are not copied: a separate part of the write costs less.
const LENT_BYTES_MIN: usize = 4 << 10;
/// Once this much is buffered, it is sent without waiting for the rest, which limits memory for blobs with many pieces.
const HELD_BYTES_MAX: usize = 256 << 10;
/// Parts per write, about as many as the kernel accepts at once.
const LENT_MAX: usize = 500;

/// The binary format, for all parameters or all columns.
const BINARY: [u8; 4] = [0, 1, 0, 1];

/// The name of a prepared statement, terminated by 0.
pub(crate) type StatementName = [u8; 8];

/// The name of a statement that is prepared and run at once.
pub(crate) const UNNAMED: &[u8] = b"\0";

/// The name of a connection's n-th statement.
pub(crate) fn name(number: u32) -> StatementName {
    let mut name = *b"s000000\0";
    for (place, digit) in name[1..7].iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (4 * place)) as usize & 15];
    }
    name
}

/// A name without its terminator.
pub(crate) fn text(name: &StatementName) -> &str {
    std::str::from_utf8(&name[..7]).unwrap_or_default()
}

/// A statement parameter in the binary format.
#[derive(Clone, Copy, Debug)]
pub enum StatementParameter<'p> {
    /// `bytea` or text.
    Bytes(&'p [u8]),
    /// `int4`.
    Int(i32),
    /// `int8`.
    Bigint(i64),
    /// An array of the type with this OID: `bytea`, text, or `int8` as 8 big-endian bytes.
    Array(u32, &'p [&'p [u8]]),
}

impl StatementParameter<'_> {
    /// Size of its encoded value, without the length field.
    fn bytes(&self) -> usize {
        match self {
            StatementParameter::Bytes(bytes) => bytes.len(),
            StatementParameter::Int(_) => 4,
            StatementParameter::Bigint(_) => 8,
            // An empty array has no dimensions.
            StatementParameter::Array(_, []) => 12,
            StatementParameter::Array(_, members) => {
                20 + members.iter().map(|member| 4 + member.len()).sum::<usize>()
            }
        }
    }
}

/// Messages under assembly; buffered data is sent by [`Request::send`], or earlier if there is much.
pub(crate) struct RequestBuilder<'r, 'p, W: Write> {
    to: &'r mut W,
    /// Copied bytes.
    pub held: &'r mut BytesMut,
    /// Bytes that are not copied, each with its position in `held`.
    lent: Vec<(usize, &'p [u8])>,
}

impl<'r, 'p, W: Write> RequestBuilder<'r, 'p, W> {
    pub(crate) fn new(to: &'r mut W, held: &'r mut BytesMut) -> RequestBuilder<'r, 'p, W> {
        held.clear();
        RequestBuilder { to, held, lent: Vec::new() }
    }

    /// Adds a simple query.
    pub(crate) fn query(&mut self, sql: &'p str) -> io::Result<()> {
        self.held.put_u8(b'Q');
        self.held.put_i32(length(4 + sql.len() + 1)?);
        self.bytes(sql.as_bytes())?;
        self.held.put_u8(0);
        Ok(())
    }

    /// Binds parameters to a statement. `name` ends with 0.
    pub(crate) fn bind(&mut self, name: &[u8], params: &'p [StatementParameter<'p>]) -> io::Result<()> {
        let values: usize = params.iter().map(|param| 4 + param.bytes()).sum();
        let count = u16::try_from(params.len()).map_err(too_much)?;
        self.held.put_u8(b'B');
        self.held.put_i32(length(4 + 1 + name.len() + BINARY.len() + 2 + values + BINARY.len())?);
        // The unnamed portal.
        self.held.put_u8(0);
        self.held.put_slice(name);
        self.held.put_slice(&BINARY);
        self.held.put_u16(count);
        params.iter().try_for_each(|param| self.param(param))?;
        self.held.put_slice(&BINARY);
        Ok(())
    }

    /// Executes the bound statement and ends the request.
    pub(crate) fn execute(&mut self) -> io::Result<()> {
        frontend::execute("", 0, self.held)?;
        frontend::sync(self.held);
        Ok(())
    }

    fn param(&mut self, param: &'p StatementParameter<'p>) -> io::Result<()> {
        self.held.put_i32(length(param.bytes())?);
        match *param {
            StatementParameter::Bytes(bytes) => self.bytes(bytes)?,
            StatementParameter::Int(number) => self.held.put_i32(number),
            StatementParameter::Bigint(number) => self.held.put_i64(number),
            StatementParameter::Array(kind, members) => {
                self.held.put_i32(i32::from(!members.is_empty()));
                // No member is NULL.
                self.held.put_i32(0);
                self.held.put_u32(kind);
                if !members.is_empty() {
                    self.held.put_i32(length(members.len())?);
                    // The lower bound of arrays is 1.
                    self.held.put_i32(1);
                }
                for member in members {
                    self.held.put_i32(length(member.len())?);
                    self.bytes(member)?;
                }
            }
        }
        Ok(())
    }

    fn bytes(&mut self, bytes: &'p [u8]) -> io::Result<()> {
        if bytes.len() < LENT_BYTES_MIN {
            self.held.put_slice(bytes);
        } else {
            self.lent.push((self.held.len(), bytes));
        }
        if self.held.len() >= HELD_BYTES_MAX || self.lent.len() >= LENT_MAX { self.send() } else { Ok(()) }
    }

    /// Sends everything buffered, in one write if the socket accepts it.
    pub(crate) fn send(&mut self) -> io::Result<()> {
        if self.lent.is_empty() {
            self.to.write_all(self.held)?;
        } else {
            let mut parts = Vec::with_capacity(2 * self.lent.len() + 1);
            let mut sent = 0;
            for (place, bytes) in self.lent.drain(..) {
                parts.extend([IoSlice::new(&self.held[sent..place]), IoSlice::new(bytes)]);
                sent = place;
            }
            parts.push(IoSlice::new(&self.held[sent..]));
            write_all(self.to, &mut parts)?;
        }
        self.held.clear();
        Ok(())
    }
}

/// A length field of a message.
fn length(bytes: usize) -> io::Result<i32> {
    i32::try_from(bytes).map_err(too_much)
}

fn too_much(error: std::num::TryFromIntError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

fn write_all(to: &mut impl Write, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    // Leading empty parts would cause an empty write.
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        match to.write_vectored(parts) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut parts, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
