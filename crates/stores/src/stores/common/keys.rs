//! Encodings of keys in ordered stores: the digest's hexadecimal digits or the integer's bytes.

use std::ops::Deref;

use crate::store::{Error, Key, OptionSpec, Options, Result, Traits};

pub(in crate::stores) const KEY: OptionSpec = OptionSpec::choice("key", &["digest", "integer"])
    .about("digest: 32 hexadecimal digits; integer: 8 bytes, most significant first");

/// The traits of a store inside this process, with or without the option.
pub(in crate::stores) fn traits(options: &Options) -> Traits {
    Traits { integer_keys: options.text(KEY.name) == "integer", ..Traits::default() }
}

/// The encoding selected by [`KEY`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::stores) enum KeyForm {
    Digest,
    Integer,
}

impl KeyForm {
    pub(in crate::stores) fn from_options(options: &Options) -> KeyForm {
        if options.text(KEY.name) == "integer" { KeyForm::Integer } else { KeyForm::Digest }
    }

    /// Refuses to list blobs that are stored without their digest.
    pub(in crate::stores) fn check_list(self) -> Result<()> {
        if self == KeyForm::Digest { Ok(()) } else { Err(Error::Unsupported("list")) }
    }

    pub(in crate::stores) fn bytes(self, key: &Key) -> KeyBytes<'_> {
        match self {
            KeyForm::Digest => KeyBytes::Digest(&key.hex),
            KeyForm::Integer => KeyBytes::Integer(key.id.to_be_bytes()),
        }
    }
}

pub(in crate::stores) enum KeyBytes<'k> {
    Digest(&'k [u8; 32]),
    Integer([u8; 8]),
}

impl Deref for KeyBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            KeyBytes::Digest(digits) => *digits,
            KeyBytes::Integer(bytes) => bytes,
        }
    }
}

/// Positions of each key in a list of requested keys: servers return rows in any order, and one row for a key requested twice.
pub(in crate::stores) struct KeyPositions<N> {
    names: Vec<N>,
    /// Positions in the list, sorted by key.
    order: Vec<usize>,
}

impl<N: AsRef<[u8]>> KeyPositions<N> {
    pub(in crate::stores) fn new(names: impl IntoIterator<Item = N>) -> KeyPositions<N> {
        let names: Vec<N> = names.into_iter().collect();
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_unstable_by(|a, b| names[*a].as_ref().cmp(names[*b].as_ref()));
        KeyPositions { names, order }
    }

    /// All positions of this key.
    pub(in crate::stores) fn places(&self, name: &[u8]) -> &[usize] {
        let begin = self.order.partition_point(|place| self.names[*place].as_ref() < name);
        let behind = &self.order[begin..];
        &behind[..behind.partition_point(|place| self.names[*place].as_ref() == name)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_key_is_found() {
        let asked = KeyPositions::new(["b", "a", "c", "a"]);
        let places = |name: &str| {
            let mut places = asked.places(name.as_bytes()).to_vec();
            places.sort_unstable();
            places
        };
        assert_eq!(places("a"), [1, 3]);
        assert_eq!((places("b"), places("c")), (vec![0], vec![2]));
        assert!(places("").is_empty() && places("d").is_empty() && places("ab").is_empty());
    }
}
