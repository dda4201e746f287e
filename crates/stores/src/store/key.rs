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
        Key { id, hex: hexadecimal(digest) }
    }

    /// The digest as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.hex).unwrap_or_default()
    }
}

/// Formats a digest as lower-case hexadecimal digits, eight at a time.
#[inline]
fn hexadecimal(digest: u128) -> [u8; 32] {
    let mut hex = [0; 32];
    for (place, digits) in hex.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let mut nibbles = u64::from((digest >> (96 - 32 * place)) as u32);
        nibbles = (nibbles | (nibbles << 16)) & 0x0000_ffff_0000_ffff;
        nibbles = (nibbles | (nibbles << 8)) & 0x00ff_00ff_00ff_00ff;
        nibbles = (nibbles | (nibbles << 4)) & 0x0f0f_0f0f_0f0f_0f0f;
        // 1 in the bytes of nibbles from 10 on.
        let letters = (nibbles.wrapping_add(0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
        let to_letters = letters.wrapping_mul(u64::from(b'a' - b'0' - 10));
        *digits = nibbles.wrapping_add(0x3030_3030_3030_3030).wrapping_add(to_letters).to_be_bytes();
    }
    hex
}

/// Keys of consecutive ids from 0, by id.
///
/// Up to [`Keys::FORMATTED_MAX`], they are formatted once, because the measuring loop asks for one before each op. Of more, only
/// digests of 16 bytes are kept, and a key is formatted when it is asked for.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    digests: Vec<u128>,
    formatted: Vec<[u8; 32]>,
}

impl Keys {
    /// Maximum number of keys that are kept formatted too: 4 MiB of them.
    pub const FORMATTED_MAX: usize = 1 << 17;

    /// Returns the key of an id.
    #[inline]
    pub fn at(&self, id: usize) -> Key {
        match self.formatted.get(id) {
            Some(hex) => Key { id: id as u64, hex: *hex },
            None => Key::of_digest(id as u64, self.digests[id]),
        }
    }

    /// Address of what [`Keys::at`] will read, to have it fetched beforehand.
    #[inline]
    pub fn address(&self, id: usize) -> *const u8 {
        match self.formatted.get(id) {
            Some(hex) => hex.as_ptr(),
            None => std::ptr::from_ref(&self.digests[id]).cast(),
        }
    }

    /// The digests of all keys, by id.
    pub fn digests(&self) -> &[u128] {
        &self.digests
    }

    /// All keys, by id.
    pub fn iter(&self) -> impl Iterator<Item = Key> {
        (0..).zip(&self.digests).map(|(id, digest)| Key::of_digest(id, *digest))
    }
}

impl FromIterator<u128> for Keys {
    fn from_iter<I: IntoIterator<Item = u128>>(digests: I) -> Keys {
        let digests: Vec<u128> = digests.into_iter().collect();
        let few = if digests.len() <= Keys::FORMATTED_MAX { digests.as_slice() } else { &[] };
        Keys { formatted: few.iter().map(|digest| hexadecimal(*digest)).collect(), digests }
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
        let many: Keys = (0..=Keys::FORMATTED_MAX as u128).collect();
        assert!(many.formatted.is_empty() && many.at(10).as_str().ends_with("0a"));
    }
}
