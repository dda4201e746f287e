//! Settings for opening a store in tests that put little into it.

use std::path::Path;
use std::time::Duration;

use blobwise::store::{Adapter, Common, Durability, Mode, Options, Setup};

/// A new store in class on-sync, for one worker and ten keys.
pub fn small<'a>(dir: &'a Path, common: &'a Common, options: &'a Options) -> Setup<'a> {
    Setup {
        dir,
        common,
        join_token: None,
        mode: Mode::Create,
        durability: Durability::OnSync,
        cache_bytes: 8 << 20,
        fits: true,
        blob_bytes_max: 1 << 20,
        store_bytes_max: 1 << 20,
        keys_max: 10,
        workers: 1,
        op_timeout: Duration::from_secs(10),
        options,
    }
}

/// An adapter's default options, with the URL of a server.
pub fn options_at(adapter: &Adapter, url: &str) -> Options {
    let values = adapter.options.iter().map(|spec| (spec.name.to_owned(), spec.default.to_owned()));
    Options::new(values.chain([("url".to_owned(), url.to_owned())]).collect())
}
