//! What a worker does with the bytes that a get lends to it.

use crate::plan::ReadSink;

/// Bytes of a cache line on the processors that this is likely to run on.
const CACHE_LINE: usize = 64;

/// Consumes lent bytes in one of two ways.
#[derive(Debug)]
pub enum Consumer {
    /// Reads one byte of each cache line.
    Touch,
    /// Copies everything into a buffer, from the start again when it is full.
    Copy {
        /// The buffer.
        buffer: Vec<u8>,
        /// Offset of the next piece.
        at: usize,
    },
}

/// Bytes of the buffer for copies: as much as a program might pass on at once.
const COPY_BYTES: usize = 1 << 20;

impl Consumer {
    /// Makes the consumer of one worker.
    pub fn new(use_bytes: ReadSink) -> Consumer {
        match use_bytes {
            ReadSink::Touch => Consumer::Touch,
            ReadSink::Copy => Consumer::Copy { buffer: vec![0; COPY_BYTES], at: 0 },
        }
    }

    /// Consumes a piece.
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
        }
    }
}

/// Reads one byte of each cache line, so that lent memory has actually reached the processor.
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
