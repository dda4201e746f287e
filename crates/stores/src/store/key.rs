//! Keys of blobs, and the byte ranges that a get may request.

use super::{Error, Result};

/// The key of a blob: an integer and a 128-bit digest in hexadecimal. It is made before an op's clock starts, so that no op converts
/// anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Dense integer, `0..Setup::keys_max`.
    pub id: u64,
    /// The digest as 32 lower-case hexadecimal digits.
    pub hex: [u8; 32],
}

impl Key {
    /// Formats a 128-bit digest as a key.
    #[inline]
    pub fn of_digest(id: u64, digest: u128) -> Key {
        let mut hex = [0; 32];
        for (place, digits) in hex.chunks_exact_mut(8).enumerate() {
            digits.copy_from_slice(&hexadecimal((digest >> (96 - 32 * place)) as u32));
        }
        Key { id, hex }
    }

    /// The digest as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.hex).unwrap_or_default()
    }
}

/// Formats a word as lower-case hexadecimal digits, all at once: the measuring loop formats the key of every op.
fn hexadecimal(word: u32) -> [u8; 8] {
    let mut nibbles = u64::from(word);
    nibbles = (nibbles | (nibbles << 16)) & 0x0000_ffff_0000_ffff;
    nibbles = (nibbles | (nibbles << 8)) & 0x00ff_00ff_00ff_00ff;
    nibbles = (nibbles | (nibbles << 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    // 1 in the bytes of nibbles from 10 on.
    let letters = ((nibbles + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    let to_letters = u64::from(b'a' - b'0' - 10);
    (nibbles + 0x3030_3030_3030_3030 + letters * to_letters).to_be_bytes()
}

/// Keys of consecutive ids from 0, by id. Each takes 16 bytes, and is formatted when it is asked for.
#[derive(Clone, Debug, Default)]
pub struct Keys(Vec<u128>);

impl Keys {
    /// Returns the key of an id.
    #[inline]
    pub fn at(&self, id: usize) -> Key {
        Key::of_digest(id as u64, self.0[id])
    }

    /// The digests of all keys, by id.
    pub fn digests(&self) -> &[u128] {
        &self.0
    }

    /// All keys, by id.
    pub fn iter(&self) -> impl Iterator<Item = Key> {
        (0..).zip(&self.0).map(|(id, digest)| Key::of_digest(id, *digest))
    }
}

impl FromIterator<u128> for Keys {
    fn from_iter<I: IntoIterator<Item = u128>>(digests: I) -> Keys {
        Keys(digests.into_iter().collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_their_digests_in_hexadecimal() {
        let digests = [0, 1, (0x0123_4567_89ab_cdef_u128 << 60) | 0x9a, u128::MAX];
        let keys: Keys = digests.into_iter().collect();
        for (id, digest) in digests.iter().enumerate() {
            assert_eq!(
                (keys.at(id).id, keys.at(id).as_str()),
                (id as u64, format!("{digest:032x}").as_str())
            );
        }
        assert_eq!(keys.iter().collect::<Vec<Key>>(), [0, 1, 2, 3].map(|id| keys.at(id)));
    }
}
