//! SeaweedFS as an object store: a filer, which keeps object names in LevelDB, and the S3 gateway, on top of a master and its
//! volume server.

use std::path::Path;

use anyhow::Context;
use serde_json::json;

use super::super::seaweedfs::WEED;
use super::super::seaweedfs::instance::{Ports, SeaweedFsProcesses, VOLUMES, connects, directory, launch};
use super::style::{PRIVATE_DOMAIN, is_virtual_host};
use crate::host::server::{Program, Server, SocketDir, free_port, write_secret};
use crate::store::*;
use crate::stores::common::certificate::{Certificate, OPENSSL};
use crate::stores::common::servers::{START_PATIENCE, STOP_PATIENCE};

/// The server, and the tool that makes its certificate.
pub(super) const PROGRAMS: [Program; 2] = [WEED, OPENSSL];

/// Volumes of the bucket, and others for the filer's change log.
const VOLUMES_MAX: usize = 3 * VOLUMES;

/// Address and keys of a private server.
pub(super) struct GatewayAccess<'a> {
    pub(super) port: u16,
    pub(super) key: &'a str,
    pub(super) secret: &'a str,
}

/// An S3 gateway with its private servers.
pub(super) struct Gateway {
    s3: Server,
    filer: Server,
    below: SeaweedFsProcesses,
    /// Filer and gateway would otherwise create sockets in the system's directory.
    _sockets: SocketDir,
}

impl Gateway {
    /// Starts all four servers in the store's directory, the gateway on the given port.
    pub(super) fn start(
        setup: &Setup,
        program: &Path,
        certificate: &Certificate,
        keys: &GatewayAccess<'_>,
    ) -> Result<Gateway> {
        let (data, names) = (setup.dir.join("data"), setup.dir.join("names"));
        let ports = Ports::with_master(free_port()?)?;
        let below = SeaweedFsProcesses::start(setup, program, certificate, ports, &data, VOLUMES_MAX)?;
        let sockets = SocketDir::make("filer")?;
        let (filer_port, filer_grpc) = (free_port()?, free_port()?);
        std::fs::create_dir_all(&names)?;
        let path = names.to_str().context("the directory's path is not text")?;
        write_secret(
            &setup.dir.join("filer.toml"),
            &format!("[leveldb2]\nenabled = true\ndir = '{path}'\n"),
        )?;
        let identity = json!({"identities": [{
            "name": "store",
            "credentials": [{"accessKey": keys.key, "secretKey": keys.secret}],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        }]});
        let identities = setup.dir.join("identities.json");
        write_secret(&identities, &identity.to_string())?;
        let of_filer = launch(setup, program, "filer.log")
            .args(["filer", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-disableHttp"])
            .arg(format!("-port={filer_port}"))
            .arg(format!("-port.grpc={filer_grpc}"))
            .arg(format!("-master={}", ports.master_address()))
            .arg(directory("-localSocket=", &sockets.path().join("filer")))
            .arg(directory("-defaultStoreDir=", &names));
        let mut filer = Server::start(&of_filer)?;
        let needed = below.servers();
        filer.wait_beside(&needed, START_PATIENCE, || connects(filer_grpc, setup.op_timeout))?;
        let mut of_s3 = launch(setup, program, "s3.log")
            .args(["s3", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-iam=false"])
            // These two ports are the same for every gateway: a second one on the machine would not start.
            .args(["-port.iceberg=0", "-port.lance=0"])
            .arg(format!("-port={}", keys.port))
            .arg(format!("-port.grpc={}", free_port()?))
            .arg(format!("-filer=127.0.0.1:{filer_port}.{filer_grpc}"))
            .arg(directory("-localSocket=", &sockets.path().join("s3")))
            .arg(directory("-config=", &identities));
        if is_virtual_host(setup.options) {
            of_s3 = of_s3.arg(format!("-domainName={PRIVATE_DOMAIN}"));
        }
        let s3 = Server::start(&of_s3)?;
        Ok(Gateway { s3, filer, below, _sockets: sockets })
    }

    pub(super) fn wait_until_ready(&mut self, ready: impl FnMut() -> anyhow::Result<()>) -> Result<()> {
        let needed = [vec![&self.filer], self.below.servers()].concat();
        Ok(self.s3.wait_beside(&needed, START_PATIENCE, ready)?)
    }

    pub(super) fn servers(&self) -> Vec<&Server> {
        [vec![&self.s3, &self.filer], self.below.servers()].concat()
    }

    pub(super) fn stop(mut self) -> Result<()> {
        self.s3.stop(rustix::process::Signal::TERM, STOP_PATIENCE)?;
        // On SIGTERM it waits 15 s for a subscription to itself, and then ends as after SIGKILL: acknowledged writes are in
        // LevelDB's log by then.
        self.filer.stop(rustix::process::Signal::KILL, STOP_PATIENCE)?;
        self.below.stop()
    }
}
