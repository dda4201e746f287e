//! How ordered stores spell a key: the digest's digits or the integer's bytes.

use crate::store::{Key, OptionSpec, Options, Values};

/// The option that chooses.
pub(super) const KEY: OptionSpec = OptionSpec {
    name: "key",
    values: Values::OneOf(&["digest", "integer"]),
    default: "digest",
    about: "digest: 32 hexadecimal digits; integer: 8 bytes, most significant first",
};

/// The spelling chosen by [`KEY`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyForm {
    Digest,
    Integer,
}

impl KeyForm {
    pub(super) fn of(options: &Options) -> KeyForm {
        if options.text(KEY.name) == "digest" { KeyForm::Digest } else { KeyForm::Integer }
    }

    /// The key's bytes; `room` is where an integer's bytes are put.
    pub(super) fn bytes<'k>(self, key: &'k Key, room: &'k mut [u8; 8]) -> &'k [u8] {
        match self {
            KeyForm::Digest => &key.hex,
            KeyForm::Integer => {
                *room = key.id.to_be_bytes();
                room
            }
        }
    }
}
