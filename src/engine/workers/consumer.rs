//! What is done with the bytes that a get lends.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};

use crate::plan::Use;

/// Bytes of a cache line on every processor this is likely to run on.
const CACHE_LINE: usize = 64;

/// Uses lent bytes in one of three ways.
#[derive(Debug)]
pub enum Consumer {
    /// Reads one byte of each cache line.
    Touch,
    /// Copies everything into a buffer that is filled again and again.
    Copy {
        /// The buffer.
        buffer: Vec<u8>,
        /// Where the next piece goes.
        at: usize,
    },
    /// Writes everything to a socket whose other end is read by a thread.
    Send {
        /// Our end.
        socket: UnixStream,
        /// The first error of the socket.
        failed: bool,
    },
}

/// Bytes of the copy's buffer: as large as what a program would pass on at once.
const COPY_BYTES: usize = 1 << 20;

impl Consumer {
    /// Makes the consumer of one worker.
    pub fn new(use_bytes: Use) -> Result<Consumer> {
        Ok(match use_bytes {
            Use::Touch => Consumer::Touch,
            Use::Copy => Consumer::Copy { buffer: vec![0; COPY_BYTES], at: 0 },
            Use::Send => {
                let (socket, mut other) = UnixStream::pair().context("cannot make a pair of sockets")?;
                // Ends when our end is dropped.
                let read = move || {
                    let mut buffer = vec![0; 256 << 10];
                    while other.read(&mut buffer).is_ok_and(|read| read > 0) {}
                };
                std::thread::Builder::new().spawn(read).context("no thread that reads what is sent")?;
                Consumer::Send { socket, failed: false }
            }
        })
    }

    /// Uses a piece.
    #[inline]
    pub fn take(&mut self, piece: &[u8]) {
        match self {
            Consumer::Touch => touch(piece),
            Consumer::Copy { buffer, at } => {
                for part in piece.chunks(COPY_BYTES) {
                    if *at + part.len() > buffer.len() {
                        *at = 0;
                    }
                    buffer[*at..*at + part.len()].copy_from_slice(part);
                    *at += part.len();
                }
                std::hint::black_box(buffer);
            }
            Consumer::Send { socket, failed } => *failed |= socket.write_all(piece).is_err(),
        }
    }

    /// Whether bytes could not be used as asked.
    pub fn failed(&self) -> bool {
        matches!(self, Consumer::Send { failed: true, .. })
    }
}

/// Reads one byte of each cache line, so that lent memory has really arrived at the processor.
#[inline]
pub fn touch(piece: &[u8]) {
    let mut sum = 0_u8;
    let mut at = 0;
    while at < piece.len() {
        sum = sum.wrapping_add(piece[at]);
        at += CACHE_LINE;
    }
    std::hint::black_box(sum);
}
