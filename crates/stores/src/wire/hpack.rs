//! Decompression of HTTP/2 response fields (HPACK, RFC 7541). The library assumes complete blocks, so completeness is checked
//! first.

use anyhow::{Context, ensure};

/// Decompression state of one connection.
pub(super) struct HpackDecoder {
    decoder: httlib_hpack::Decoder<'static>,
    decoded: Vec<(Vec<u8>, Vec<u8>, u8)>,
}

impl HpackDecoder {
    /// The state of a new connection, with the initial table size of 4,096 B.
    pub(super) fn new() -> HpackDecoder {
        HpackDecoder { decoder: httlib_hpack::Decoder::default(), decoded: Vec::new() }
    }

    /// Passes the names and values of a block to `pass`, and empties the block. An error if the block is truncated or refers to
    /// missing entries.
    pub(super) fn take(
        &mut self,
        block: &mut Vec<u8>,
        pass: &mut dyn FnMut(&[u8], &[u8]),
    ) -> anyhow::Result<()> {
        ensure!(is_whole(block), "the fields of the answer break off");
        self.decoded.clear();
        let decoded = self.decoder.decode(block, &mut self.decoded);
        decoded.context("the fields of the answer cannot be decompressed")?;
        self.decoded.iter().for_each(|(name, value, _)| pass(name, value));
        Ok(())
    }
}

/// True if all integers and strings of a block end within it.
fn is_whole(block: &[u8]) -> bool {
    let mut rest = block;
    while let Some(&first) = rest.first() {
        // Bits of the first integer, and whether literals follow: a value, and a name before it if the integer is 0.
        let (bits, is_literal) = match first {
            0b1000_0000.. => (7, false),
            0b0100_0000.. => (6, true),
            0b0010_0000.. => (5, false),
            _ => (4, true),
        };
        let Some((index, mut behind)) = integer(rest, bits) else { return false };
        let texts = match (is_literal, index) {
            (false, _) => 0,
            (true, 0) => 2,
            (true, _) => 1,
        };
        for _ in 0..texts {
            let Some(next) = integer(behind, 7).and_then(|(length, text)| text.get(length as usize..)) else {
                return false;
            };
            behind = next;
        }
        rest = behind;
    }
    true
}

/// Decodes an integer with a prefix of `bits` bits; returns it and the rest. `None` if it is truncated or larger than any valid
/// length or index.
fn integer(bytes: &[u8], bits: u32) -> Option<(u32, &[u8])> {
    let (&first, mut rest) = bytes.split_first()?;
    let most = (1 << bits) - 1;
    let mut value = u32::from(first) & most;
    if value < most {
        return Some((value, rest));
    }
    for shift in [0, 7, 14, 21] {
        let (&byte, behind) = rest.split_first()?;
        rest = behind;
        value += u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value, rest));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(fields: &mut HpackDecoder, block: &[u8]) -> Result<Vec<(String, String)>, String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut all = Vec::new();
        let mut pass = |name: &[u8], value: &[u8]| all.push((text(name), text(value)));
        let taken = fields.take(&mut block.to_vec(), &mut pass);
        taken.map(|()| all).map_err(|error| format!("{error:#}"))
    }

    /// The responses of the RFC's appendix C.6.1 and C.6.2, with compressed strings and a second response that refers to the
    /// first. The RFC's table is smaller than ours, which drops no entry here.
    const FIRST: &[u8] = &[
        0x48, 0x82, 0x64, 0x02, 0x58, 0x85, 0xae, 0xc3, 0x77, 0x1a, 0x4b, 0x61, 0x96, 0xd0, 0x7a, 0xbe, 0x94,
        0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04, 0x0b, 0x81, 0x66, 0xe0, 0x82, 0xa6, 0x2d, 0x1b,
        0xff, 0x6e, 0x91, 0x9d, 0x29, 0xad, 0x17, 0x18, 0x63, 0xc7, 0x8f, 0x0b, 0x97, 0xc8, 0xe9, 0xae, 0x82,
        0xae, 0x43, 0xd3,
    ];
    const SECOND: &[u8] = &[0x48, 0x83, 0x64, 0x0e, 0xff, 0xc1, 0xc0, 0xbf];

    #[test]
    fn the_answers_of_the_rfc_are_read() {
        let mut connection = HpackDecoder::new();
        let expected = |status: &str| {
            [
                (":status", status),
                ("cache-control", "private"),
                ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
                ("location", "https://www.example.com"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec()
        };
        assert_eq!(fields(&mut connection, FIRST), Ok(expected("302")));
        assert_eq!(fields(&mut connection, SECOND), Ok(expected("307")));
    }

    #[test]
    fn a_block_that_breaks_off_anywhere_or_refers_to_nothing_is_an_error() {
        // The block may end where a field ends.
        let ends = [0, 4, 11, 35];
        for end in 0..FIRST.len() {
            let outcome = fields(&mut HpackDecoder::new(), &FIRST[..end]);
            assert_eq!(outcome.is_ok(), ends.contains(&end), "{end}: {outcome:?}");
        }
        assert!(fields(&mut HpackDecoder::new(), SECOND).unwrap_err().contains("cannot be decompressed"));
        // Lengths and indices without an end, and a table size above the limit.
        for block in [&[0xff; 9][..], &[0x40, 0x7f, 0xff, 0xff, 0xff, 0xff, 0x7f], &[0x3f, 0xff, 0x7f]] {
            assert!(fields(&mut HpackDecoder::new(), block).is_err(), "{block:?}");
        }
    }
}
