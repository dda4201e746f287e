//! Messages from the server, read into one reused buffer and lent from it.

use std::io::{self, Read};

use super::{PostgresError, Result, ValueSink};

/// Size of the buffer, and therefore the most bytes per read.
const ROOM_BYTES: usize = 64 << 10;
/// Values up to this size are lent whole; larger ones in pieces, as they are in the buffer.
pub const WHOLE_BYTES: usize = 4 << 10;
/// Size limit of messages other than rows.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The header of a message.
#[derive(Clone, Copy, Debug)]
pub struct MessageHeader {
    /// Type of the message.
    pub tag: u8,
    /// Bytes that follow.
    bytes: usize,
}

/// Unread bytes are `room[start..end]`.
pub struct Incoming {
    room: Vec<u8>,
    start: usize,
    end: usize,
}

impl Incoming {
    pub fn new() -> Incoming {
        Incoming { room: vec![0; ROOM_BYTES], start: 0, end: 0 }
    }

    /// Current size of the buffer.
    #[cfg(test)]
    pub fn room_bytes(&self) -> usize {
        self.room.len()
    }

    /// Reads the next message's header.
    #[inline]
    pub fn header(&mut self, from: &mut impl Read) -> io::Result<MessageHeader> {
        let [tag, length @ ..] = self.take::<5>(from)?;
        // The length includes itself, but not the tag.
        match u32::from_be_bytes(length).checked_sub(4) {
            Some(bytes) => Ok(MessageHeader { tag, bytes: bytes as usize }),
            None => Err(io::Error::new(io::ErrorKind::InvalidData, "a message of the server is too short")),
        }
    }

    /// Reads the whole body of a message other than a row.
    pub fn body(&mut self, from: &mut impl Read, header: MessageHeader) -> Result<&[u8]> {
        if header.bytes > BODY_BYTES_MAX {
            let (bytes, tag) = (header.bytes, header.tag.escape_ascii());
            return Err(PostgresError::Unexpected(format!("a message of kind `{tag}` with {bytes} bytes")));
        }
        self.need(from, header.bytes)?;
        self.start += header.bytes;
        Ok(&self.room[self.start - header.bytes..self.start])
    }

    /// Skips a message.
    #[inline]
    pub fn skip(&mut self, from: &mut impl Read, header: MessageHeader) -> io::Result<()> {
        self.pieces(from, header.bytes, |_| {})
    }

    /// Lends the values of a row.
    pub fn row(
        &mut self,
        from: &mut impl Read,
        header: MessageHeader,
        columns: usize,
        each: ValueSink,
    ) -> Result<()> {
        let wrong = || PostgresError::unexpected("a row whose length is not that of its values");
        let count = usize::from(u16::from_be_bytes(self.take(from)?));
        if count != columns {
            return Err(PostgresError::Unexpected(format!("a row of {count} columns instead of {columns}")));
        }
        let mut left = header.bytes.checked_sub(2).ok_or_else(wrong)?;
        for column in 0..columns {
            left = left.checked_sub(4).ok_or_else(wrong)?;
            let length = i32::from_be_bytes(self.take(from)?);
            // NULL has the length -1.
            let Ok(bytes) = usize::try_from(length) else {
                each(column, None);
                continue;
            };
            left = left.checked_sub(bytes).ok_or_else(wrong)?;
            if bytes <= WHOLE_BYTES {
                self.need(from, bytes)?;
                self.start += bytes;
                each(column, Some(&self.room[self.start - bytes..self.start]));
            } else {
                self.pieces(from, bytes, |piece| each(column, Some(piece)))?;
            }
        }
        if left == 0 { Ok(()) } else { Err(wrong()) }
    }

    /// Lends the next bytes as they are in the buffer.
    #[inline]
    fn pieces(&mut self, from: &mut impl Read, bytes: usize, mut lend: impl FnMut(&[u8])) -> io::Result<()> {
        let mut left = bytes;
        while left > 0 {
            self.need(from, 1)?;
            let piece = &self.room[self.start..self.end.min(self.start + left)];
            lend(piece);
            left -= piece.len();
            self.start += piece.len();
        }
        Ok(())
    }

    /// Reads the next few bytes.
    #[inline]
    fn take<const BYTES: usize>(&mut self, from: &mut impl Read) -> io::Result<[u8; BYTES]> {
        self.need(from, BYTES)?;
        let mut taken = [0; BYTES];
        taken.copy_from_slice(&self.room[self.start..self.start + BYTES]);
        self.start += BYTES;
        Ok(taken)
    }

    /// Reads until `bytes` bytes are contiguous in the buffer.
    #[inline]
    fn need(&mut self, from: &mut impl Read, bytes: usize) -> io::Result<()> {
        while self.end - self.start < bytes {
            self.read(from, bytes)?;
        }
        Ok(())
    }

    fn read(&mut self, from: &mut impl Read, bytes: usize) -> io::Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start + bytes > self.room.len() {
            self.room.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if bytes > self.room.len() {
            self.room.resize(bytes, 0);
        }
        match from.read(&mut self.room[self.end..]) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
            Ok(more) => {
                self.end += more;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }
}
