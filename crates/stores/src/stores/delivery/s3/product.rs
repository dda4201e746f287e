//! The products available as a private object store, and how each is started.

use std::path::Path;

use anyhow::Context;

use super::super::seaweedfs;
use super::gateway::{self, Gateway, GatewayAccess};
use super::style::{PRIVATE_DOMAIN, is_virtual_host};
use crate::host::server::{Launch, Program, Server};
use crate::store::*;
use crate::stores::common::certificate::Certificate;
use crate::stores::common::servers::{CONNECTION, SERVER, START_PATIENCE, STOP_PATIENCE};

/// It keeps each object as a file, with the S3 metadata as extended attributes.
const VERSITYGW: Program = Program {
    name: "versitygw",
    places: &["~cache/blobwise/versitygw-*/bin"],
    variable: Some("BLOBWISE_VERSITYGW"),
    ask: &["--version"],
    says: "Version  : ",
    never_says: None,
    install: "go install github.com/versity/versitygw/cmd/versitygw@v1.8.0",
};

pub(super) const PROGRAMS: &[Program] = &[gateway::PROGRAMS[0], gateway::PROGRAMS[1], VERSITYGW];

pub(super) const PRODUCT: OptionSpec = OptionSpec {
    name: SERVER.name,
    values: Values::Server(S3Product::WORDS),
    // The same on every machine: a plan must not name one product here and another there.
    default: S3Product::Seaweed.word(),
    about: "which program the private server is; seaweedfs packs objects in volumes, versitygw keeps each as a file",
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum S3Product {
    /// The gateway of SeaweedFS.
    Seaweed,
    Versitygw,
}

impl S3Product {
    const ALL: &[S3Product] = &[S3Product::Seaweed, S3Product::Versitygw];

    /// The values of the option.
    const WORDS: &[&str] = &[S3Product::Seaweed.word(), S3Product::Versitygw.word()];

    const fn word(self) -> &'static str {
        match self {
            S3Product::Seaweed => seaweedfs::ADAPTER.name,
            S3Product::Versitygw => VERSITYGW.name,
        }
    }

    pub(super) fn from_options(options: &Options) -> S3Product {
        let asked = options.text(PRODUCT.name);
        S3Product::ALL.iter().copied().find(|product| product.word() == asked).unwrap_or(S3Product::Seaweed)
    }

    pub(super) fn program(self) -> Program {
        match self {
            S3Product::Seaweed => gateway::PROGRAMS[0],
            S3Product::Versitygw => VERSITYGW,
        }
    }

    /// Name and version, extracted from the program's version text.
    pub(super) fn version(self, said: &str) -> String {
        let mut words = said.split(' ');
        let version = match self {
            // "version 8000GB 4.48 linux amd64": the volume size, the version, the platform.
            S3Product::Seaweed => words.nth(2),
            S3Product::Versitygw => words.next_back(),
        };
        format!("{} {}", self.word(), version.unwrap_or_default())
    }

    pub(super) fn losses(self) -> Losses {
        match self {
            S3Product::Seaweed => seaweedfs::LOSSES,
            S3Product::Versitygw => Losses::alike(Loss::RecentWrites),
        }
    }

    /// Starts it on loopback only, with access by key. The certificate is for products with more than one server.
    pub(super) fn start(
        self,
        setup: &Setup,
        program: &Path,
        certificate: Option<&Certificate>,
        reach: &GatewayAccess<'_>,
    ) -> Result<S3Process> {
        match self {
            S3Product::Seaweed => {
                let certificate = certificate.context("it has no certificate")?;
                Ok(S3Process::Gateway(Box::new(Gateway::start(setup, program, certificate, reach)?)))
            }
            S3Product::Versitygw => {
                let data = setup.dir.join("data");
                std::fs::create_dir_all(&data)?;
                let mut launch = Launch::new(program, setup.dir)
                    .env("ROOT_ACCESS_KEY_ID", reach.key)
                    .env("ROOT_SECRET_ACCESS_KEY", reach.secret)
                    .args(["--port", &format!("127.0.0.1:{}", reach.port), "--quiet"])
                    .args(["--region", setup.options.text("region")]);
                if is_virtual_host(setup.options) {
                    launch = launch.args(["--virtual-domain", PRIVATE_DOMAIN]);
                }
                // By default it closes every connection after one request.
                if setup.options.text(CONNECTION.name) == "kept" {
                    launch = launch.arg("--keep-alive");
                }
                Ok(S3Process::One(Server::start(&launch.arg("posix").arg(&data))?))
            }
        }
    }

    /// The certificate of products with several servers, which authenticate each other by it.
    pub(super) fn certificate(self, setup: &Setup) -> Result<Option<Certificate>> {
        (self == S3Product::Seaweed).then(|| Certificate::make(setup.dir, setup.common)).transpose()
    }

    /// versitygw returns files unverified; a needle of SeaweedFS has a checksum.
    pub(super) fn integrity(self) -> Integrity {
        if self == S3Product::Seaweed { Integrity::Checksums } else { Integrity::Unchecked }
    }
}

/// A private server, or several behind one.
pub(super) enum S3Process {
    One(Server),
    Gateway(Box<Gateway>),
}

impl S3Process {
    /// Waits for the server that clients talk to.
    pub(super) fn wait_until_ready(&mut self, ready: impl FnMut() -> anyhow::Result<()>) -> Result<()> {
        match self {
            S3Process::One(server) => Ok(server.wait_until_ready(START_PATIENCE, ready)?),
            S3Process::Gateway(gateway) => gateway.wait_until_ready(ready),
        }
    }

    pub(super) fn servers(&self) -> Vec<&Server> {
        match self {
            S3Process::One(server) => vec![server],
            S3Process::Gateway(gateway) => gateway.servers(),
        }
    }

    pub(super) fn stop(self) -> Result<()> {
        match self {
            S3Process::One(mut server) => Ok(server.stop(rustix::process::Signal::TERM, STOP_PATIENCE)?),
            S3Process::Gateway(gateway) => gateway.stop(),
        }
    }
}

/// True if the options need this program.
pub(super) fn is_asked(options: &Options, program: &Program) -> bool {
    let product = S3Product::from_options(options);
    let makes_certificates = product == S3Product::Seaweed && program.name == gateway::PROGRAMS[1].name;
    product.program().name == program.name || makes_certificates
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Each value of the option stands for one program, and every program is used.
    #[test]
    fn each_value_is_a_program() {
        let Values::Server(words) = PRODUCT.values else { panic!("not a list of servers") };
        let mut asked = Vec::new();
        for word in words {
            let options = Options::new(BTreeMap::from([(PRODUCT.name.to_owned(), (*word).to_owned())]));
            assert_eq!(S3Product::from_options(&options).word(), *word);
            let mut programs = PROGRAMS.iter().filter(|program| is_asked(&options, program));
            assert_eq!(
                programs.next().map(|program| program.name),
                Some(S3Product::from_options(&options).program().name)
            );
            asked.extend(
                [S3Product::from_options(&options).program().name]
                    .into_iter()
                    .chain(programs.map(|other| other.name)),
            );
        }
        assert_eq!(asked, PROGRAMS.iter().map(|program| program.name).collect::<Vec<_>>());
    }
}
