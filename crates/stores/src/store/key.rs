//! Keys of blobs, and the byte ranges that a get may request.

use super::{Error, Result};

/// The key of a blob: an integer and a 128-bit digest. Both are precomputed, so that nothing is converted on the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Dense integer, `0..Setup::keys_max`.
    pub id: u64,
    /// The digest as 32 lower-case hexadecimal digits.
    pub hex: [u8; 32],
}

impl Key {
    /// Formats a 128-bit digest as a key.
    pub fn of_digest(id: u64, digest: u128) -> Key {
        let mut hex = [0; 32];
        for (place, digit) in hex.iter_mut().enumerate() {
            let nibble = (digest >> (124 - 4 * place)) as u8 & 15;
            *digit = if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
        }
        Key { id, hex }
    }

    /// The digest as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.hex).unwrap_or_default()
    }
}

/// The bytes of a blob that a get requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The whole blob.
    Whole,
    /// `len` bytes from `offset`, cut off at the end of the blob.
    Part {
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
}

impl Span {
    /// Refuses a part, for stores that only read whole blobs.
    pub fn check_whole(self) -> Result<()> {
        if self == Span::Whole { Ok(()) } else { Err(Error::Unsupported("a range read")) }
    }

    /// The length of this span in a blob of `blob_bytes` bytes.
    pub fn len_in(self, blob_bytes: u64) -> u64 {
        match self {
            Span::Whole => blob_bytes,
            Span::Part { offset, len } => len.min(blob_bytes.saturating_sub(offset)),
        }
    }

    /// Offset and length, clamped to `end`: for stores whose interface uses smaller integers.
    pub fn below(self, end: u64) -> (u64, u64) {
        match self {
            Span::Whole => (0, end),
            Span::Part { offset, .. } => (offset.min(end), self.len_in(end)),
        }
    }

    /// The requested part of `blob`.
    pub fn slice_of(self, blob: &[u8]) -> &[u8] {
        match self {
            Span::Whole => blob,
            Span::Part { offset, .. } => {
                let start = offset.min(blob.len() as u64) as usize;
                &blob[start..start + self.len_in(blob.len() as u64) as usize]
            }
        }
    }
}
