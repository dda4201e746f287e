//! The checksum of what is put: a signed header of each request, with which the server compares the bytes that arrived.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rusty_s3::Map;
use sha2::{Digest, Sha256};

use crate::store::*;

pub(super) const CHECKSUM: OptionSpec = OptionSpec::choice("checksum", &["none", "crc32", "sha256"]).about(
    "a checksum of what is put, which the server compares: crc32 is what AWS's own clients send; some buckets demand one",
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checksum {
    None,
    Crc32,
    Sha256,
}

impl Checksum {
    pub(super) fn from_options(options: &Options) -> Checksum {
        match options.text(CHECKSUM.name) {
            "crc32" => Checksum::Crc32,
            "sha256" => Checksum::Sha256,
            _ => Checksum::None,
        }
    }

    /// The protocol's name of the algorithm; `None` without one.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Checksum::None => None,
            Checksum::Crc32 => Some("CRC32"),
            Checksum::Sha256 => Some("SHA256"),
        }
    }

    /// The checksum of a blob as the protocol writes it; `None` without an algorithm.
    pub(super) fn digest(self, blob: &[u8]) -> Option<String> {
        match self {
            Checksum::None => None,
            Checksum::Crc32 => {
                let mut sum = flate2::Crc::new();
                sum.update(blob);
                Some(BASE64.encode(sum.sum().to_be_bytes()))
            }
            Checksum::Sha256 => Some(BASE64.encode(Sha256::digest(blob))),
        }
    }

    /// Adds a checksum to the headers to be signed, and returns the header as a line; empty without an algorithm.
    pub(super) fn sign(self, signed: &mut Map<'_>, sum: Option<&str>) -> String {
        self.name().zip(sum).map_or_else(String::new, |(name, sum)| {
            header(signed, format!("x-amz-checksum-{}", name.to_lowercase()), sum.to_owned())
        })
    }

    /// As [`Checksum::sign`], for the request that begins an upload in parts, each of which has a checksum of its own.
    pub(super) fn announce(self, signed: &mut Map<'_>) -> String {
        self.name().map_or_else(String::new, |name| {
            header(signed, "x-amz-checksum-algorithm".to_owned(), name.to_owned())
        })
    }

    /// The checksum of a part, in the list that ends an upload in parts; empty without an algorithm.
    pub(super) fn element(self, sum: Option<&str>) -> String {
        self.name()
            .zip(sum)
            .map_or_else(String::new, |(name, sum)| format!("<Checksum{name}>{sum}</Checksum{name}>"))
    }
}

fn header(signed: &mut Map<'_>, name: String, value: String) -> String {
    let line = format!("{name}: {value}\r\n");
    signed.insert(name, value);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_that_others_compute() {
        // The check value of each, of the digits 1 to 9, as in the standards.
        let of = |sum: Checksum| sum.digest(b"123456789").map(|text| BASE64.decode(text).unwrap());
        assert_eq!(of(Checksum::Crc32), Some(0xcbf4_3926_u32.to_be_bytes().to_vec()));
        let sha256 = "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225";
        let hex = of(Checksum::Sha256).map(|sum| crate::units::hex(&sum));
        assert_eq!(hex.as_deref(), Some(sha256));
        assert_eq!(of(Checksum::None), None);
    }

    #[test]
    fn what_is_signed_is_what_is_sent() {
        let mut signed = Map::new();
        let sum = Checksum::Crc32.digest(b"123456789");
        assert_eq!(Checksum::Crc32.sign(&mut signed, sum.as_deref()), "x-amz-checksum-crc32: y/Q5Jg==\r\n");
        assert_eq!(signed.get("x-amz-checksum-crc32"), Some("y/Q5Jg=="));
        assert_eq!(Checksum::Sha256.announce(&mut signed), "x-amz-checksum-algorithm: SHA256\r\n");
        let element = Checksum::Crc32.element(sum.as_deref());
        assert_eq!(element, "<ChecksumCRC32>y/Q5Jg==</ChecksumCRC32>");
        let none = Checksum::None.digest(b"1");
        let none = none.as_deref();
        assert_eq!(Checksum::None.sign(&mut Map::new(), none) + &Checksum::None.element(none), "");
    }
}
