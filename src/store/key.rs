//! What a blob is found by, and which of its bytes are asked for.

/// What a blob is found by: an integer and a 128-bit digest, both ready, so that nothing is converted on the
/// clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Dense integer, `0..Setup::keys_max`.
    pub id: u64,
    /// The digest as 32 lower-case hexadecimal digits.
    pub hex: [u8; 32],
}

impl Key {
    /// The key of a 128-bit digest.
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

/// Which bytes of a blob a get asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The whole blob.
    Whole,
    /// `len` bytes from `offset`, or as many of them as the blob has.
    Part {
        /// First byte asked for.
        offset: u64,
        /// Number of bytes asked for.
        len: u64,
    },
}

impl Span {
    /// The bytes this span has in a blob of `blob_bytes`.
    pub fn len_in(self, blob_bytes: u64) -> u64 {
        match self {
            Span::Whole => blob_bytes,
            Span::Part { offset, len } => len.min(blob_bytes.saturating_sub(offset)),
        }
    }

    /// The first byte and the number of bytes, cut off at `end`: for stores whose own interface counts in smaller numbers.
    pub fn below(self, end: u64) -> (u64, u64) {
        match self {
            Span::Whole => (0, end),
            Span::Part { offset, .. } => (offset.min(end), self.len_in(end)),
        }
    }

    /// The bytes of `blob` that this span asks for.
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
