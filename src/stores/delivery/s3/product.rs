//! Which program a private object store is, each started in its own way.

use std::path::Path;

use crate::host::server::{Launch, Program};
use crate::store::{Integrity, OptionSpec, Options, Values};
use crate::stores::common::servers::{CONNECTION, SERVER};

/// Of the servers that can be installed from a registry the smallest, and the one that needs nothing that building blobwise does
/// not need. It keeps each object as a file.
const S3S_FS: Program = Program {
    name: "s3s-fs",
    places: &["~cache/blobwise/s3s-fs-*/bin"],
    variable: Some("BLOBWISE_S3S_FS"),
    ask: &["--version"],
    says: "s3s-fs ",
    never_says: None,
    install: "cargo install s3s-fs --version 0.14.1 --locked --features binary",
};

/// It keeps each object as a file, and what S3 knows of it as extended attributes of that file.
const VERSITYGW: Program = Program {
    name: "versitygw",
    places: &["~cache/blobwise/versitygw-*/bin"],
    variable: Some("BLOBWISE_VERSITYGW"),
    ask: &["--version"],
    says: "Version  : ",
    never_says: None,
    install: "go install github.com/versity/versitygw/cmd/versitygw@v1.8.0",
};

/// All that may be started.
pub(super) const PROGRAMS: &[Program] = &[S3S_FS, VERSITYGW];

pub(super) const PRODUCT: OptionSpec = OptionSpec {
    name: SERVER.name,
    values: Values::Server(&[S3S_FS.name, VERSITYGW.name]),
    default: S3S_FS.name,
    about: "which program the private server is; all of these keep each object as a file",
};

/// How a private server is reached.
pub(super) struct Reach<'a> {
    pub(super) port: u16,
    pub(super) key: &'a str,
    pub(super) secret: &'a str,
}

/// The program that settings ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Product {
    S3sFs,
    Versitygw,
}

impl Product {
    pub(super) fn of(options: &Options) -> Product {
        if options.text(PRODUCT.name) == VERSITYGW.name { Product::Versitygw } else { Product::S3sFs }
    }

    pub(super) fn program(self) -> Program {
        match self {
            Product::S3sFs => S3S_FS,
            Product::Versitygw => VERSITYGW,
        }
    }

    /// How it is started: on loopback alone, for whoever has the key, with `data` as its files.
    pub(super) fn launch<'a>(
        self,
        launch: Launch<'a>,
        reach: &Reach<'_>,
        data: &Path,
        options: &Options,
    ) -> Launch<'a> {
        let Reach { port, key, secret } = reach;
        match self {
            Product::S3sFs => launch
                .args(["--host", "127.0.0.1", "--port", &port.to_string()])
                // It takes them in no other way.
                .arg("--access-key")
                .secret(key)
                .arg("--secret-key")
                .secret(secret)
                .arg(data)
                // Or every request would be a line of its log.
                .env("RUST_LOG", "warn"),
            Product::Versitygw => {
                let mut launch = launch
                    .env("ROOT_ACCESS_KEY_ID", key)
                    .env("ROOT_SECRET_ACCESS_KEY", secret)
                    .args(["--port", &format!("127.0.0.1:{port}"), "--quiet"])
                    .args(["--region", options.text("region")]);
                // As it is shipped it ends every connection after one request.
                if options.text(CONNECTION.name) == "kept" {
                    launch = launch.arg("--keep-alive");
                }
                launch.arg("posix").arg(data)
            }
        }
    }

    /// Both hand out the file as it is.
    pub(super) fn integrity(self) -> Integrity {
        Integrity::Unchecked
    }
}

/// Whether a program is the one that settings ask for.
pub(super) fn is_asked(options: &Options, program: &Program) -> bool {
    Product::of(options).program().name == program.name
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Each value of the option is a program of that name, and no other.
    #[test]
    fn each_value_is_a_program() {
        let Values::Server(words) = PRODUCT.values else { panic!("not a list of servers") };
        assert_eq!(words.len(), PROGRAMS.len());
        for word in words {
            let options = Options::new(BTreeMap::from([(PRODUCT.name.to_owned(), (*word).to_owned())]));
            assert_eq!(Product::of(&options).program().name, *word);
            assert_eq!(PROGRAMS.iter().filter(|program| is_asked(&options, program)).count(), 1);
        }
    }
}
