//! A private SeaweedFS: a master and its volume server.
//!
//! Other users have no access: reading and writing file ids requires a token, and whatever has no tokens (the master's pages, the
//! servers' own traffic) requires the certificate in the store's directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use rustls::ClientConfig;

use super::WEED;
use super::token::Signer;
use crate::host::server::{Launch, Server, free_port, password, write_secret};
use crate::store::*;
use crate::stores::common::certificate::Certificate;
use crate::stores::common::servers::{START_PATIENCE, STOP_PATIENCE, on_free_port};
use crate::wire::buffer::Address;
use crate::wire::http::HttpRequest;
use crate::wire::http1::{ConnectionMode, Endpoint, HttpConnection};

/// The number of volumes that SeaweedFS initially creates for blobs without replicas.
pub(in crate::stores::delivery) const VOLUMES: usize = 7;

#[derive(Clone)]
pub(super) struct SeaweedFsAccess {
    pub(super) volumes: Endpoint,
    pub(super) host: String,
    /// Numbers of the volumes.
    pub(super) ids: [u32; VOLUMES],
    pub(super) writes: Signer,
    pub(super) reads: Signer,
    pub(super) timeout: Duration,
}

/// Ports of its servers, on loopback.
#[derive(Clone, Copy)]
pub(in crate::stores::delivery) struct Ports {
    master: u16,
    master_grpc: u16,
    volumes: u16,
    volumes_grpc: u16,
}

impl Ports {
    /// The given port for the master, and free ones for the rest.
    pub(in crate::stores::delivery) fn with_master(master: u16) -> Result<Ports> {
        let (master_grpc, volumes, volumes_grpc) = (free_port()?, free_port()?, free_port()?);
        Ok(Ports { master, master_grpc, volumes, volumes_grpc })
    }

    /// The master's address, as SeaweedFS spells it.
    pub(in crate::stores::delivery) fn master_address(&self) -> String {
        format!("127.0.0.1:{}.{}", self.master, self.master_grpc)
    }
}

pub(super) struct SeaweedFsServer {
    running: SeaweedFsProcesses,
    ids: [u32; VOLUMES],
    writes: Signer,
    reads: Signer,
    pub(super) version: String,
}

impl SeaweedFsServer {
    pub(super) fn start(setup: &Setup) -> Result<SeaweedFsServer> {
        let program = WEED.find()?;
        let data = setup.dir.join("data");
        // Made once, even if several ports turn out to be taken.
        let certificate = Certificate::make(setup.dir, setup.common)?;
        let mut running = on_free_port(|port| {
            SeaweedFsProcesses::start(
                setup,
                &program.path,
                &certificate,
                Ports::with_master(port)?,
                &data,
                VOLUMES,
            )
        })?;
        if setup.mode == Mode::Create {
            running.grow(setup.op_timeout)?;
        }
        let (writes, reads) = (Signer::new(&running.writes), Signer::new(&running.reads));
        Ok(SeaweedFsServer { running, ids: volumes_in(&data)?, writes, reads, version: program.version })
    }

    pub(super) fn access(&self, setup: &Setup) -> SeaweedFsAccess {
        SeaweedFsAccess {
            volumes: Endpoint { address: loopback(self.running.ports.volumes), tls: None },
            host: format!("127.0.0.1:{}", self.running.ports.volumes),
            ids: self.ids,
            writes: self.writes.clone(),
            reads: self.reads.clone(),
            timeout: setup.op_timeout,
        }
    }

    pub(super) fn servers(&self) -> Vec<&Server> {
        self.running.servers()
    }

    pub(super) fn stop(self) -> Result<()> {
        self.running.stop()
    }
}

fn loopback(port: u16) -> Address {
    Address::Host("127.0.0.1".to_owned(), port)
}

/// The running master and volume server.
pub(in crate::stores::delivery) struct SeaweedFsProcesses {
    // Stopped in this order.
    volumes: Server,
    master: Server,
    ports: Ports,
    trust: Arc<ClientConfig>,
    writes: String,
    reads: String,
}

impl SeaweedFsProcesses {
    /// Starts both servers with the volumes' files in `data` and at most `volumes_max` volumes.
    pub(in crate::stores::delivery) fn start(
        setup: &Setup,
        program: &Path,
        certificate: &Certificate,
        ports: Ports,
        data: &Path,
        volumes_max: usize,
    ) -> Result<SeaweedFsProcesses> {
        let (writes, reads) = (password()?, password()?);
        write_configuration(setup.dir, certificate, &writes, &reads)?;
        let master_dir = setup.dir.join("master");
        // The master's state is not kept: the volume server reports the volumes, and old ports may belong to others now.
        crate::host::place::remove_tree(&master_dir)?;
        std::fs::create_dir_all(&master_dir)?;
        std::fs::create_dir_all(data)?;
        let Ports { master, master_grpc, volumes, volumes_grpc } = ports;
        let of_master = launch(setup, program, "master.log")
            .args(["master", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-peers=none", "-telemetry=false"])
            .arg(format!("-port={master}"))
            .arg(format!("-port.grpc={master_grpc}"))
            .arg(directory("-mdir=", &master_dir));
        let mut master = Server::start(&of_master)?;
        // If the volume server does not reach the master at once, it waits for seconds.
        master.wait_until_ready(START_PATIENCE, || connects(ports.master_grpc, setup.op_timeout))?;
        let of_volumes = launch(setup, program, "volume.log")
            .args(["volume", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-preStopSeconds=0"])
            .arg(format!("-port={volumes}"))
            .arg(format!("-port.grpc={volumes_grpc}"))
            .arg(format!("-master={}", ports.master_address()))
            .arg(format!("-max={volumes_max}"))
            .arg(directory("-dir=", data));
        let volumes = Server::start(&of_volumes)?;
        let mut running = SeaweedFsProcesses {
            volumes,
            master,
            ports,
            trust: certificate.request()?.config()?,
            writes,
            reads,
        };
        running.wait_for_volumes(setup.op_timeout)?;
        Ok(running)
    }

    /// Waits until the volume server has registered with its master.
    fn wait_for_volumes(&mut self, timeout: Duration) -> Result<()> {
        let port = self.ports.volumes;
        let health = || -> anyhow::Result<()> {
            let answer = ask(port, None, "GET", "/healthz", timeout)?;
            ensure!(answer.0 == 200, "it says that it is not well: {}", answer.1);
            Ok(())
        };
        Ok(self.volumes.wait_beside(&[&self.master], START_PATIENCE, health)?)
    }

    /// Makes the master create the volumes, which may take a moment.
    fn grow(&mut self, timeout: Duration) -> Result<()> {
        let (port, trust) = (self.ports.master, Arc::clone(&self.trust));
        let path = format!("/vol/grow?count={VOLUMES}&replication=000");
        let grown = || -> anyhow::Result<()> {
            let (status, said) = ask(port, Some(&trust), "GET", &path, timeout)?;
            ensure!(status == 200, "it makes no volumes: {said}");
            Ok(())
        };
        Ok(self.master.wait_until_ready(START_PATIENCE, grown)?)
    }

    pub(in crate::stores::delivery) fn servers(&self) -> Vec<&Server> {
        vec![&self.volumes, &self.master]
    }

    pub(in crate::stores::delivery) fn stop(mut self) -> Result<()> {
        self.volumes.stop(rustix::process::Signal::TERM, STOP_PATIENCE)?;
        Ok(self.master.stop(rustix::process::Signal::TERM, STOP_PATIENCE)?)
    }
}

/// Command line and environment common to all of its servers.
pub(in crate::stores::delivery) fn launch<'a>(setup: &Setup<'a>, program: &'a Path, log: &str) -> Launch<'a> {
    Launch::new(program, setup.dir)
        .log(setup.dir.join(log))
        // Where it would look for the user's settings.
        .env("HOME", setup.dir)
        .arg("-logtostderr=true")
}

/// The numbers of the volumes in a directory, by their file names.
fn volumes_in(data: &Path) -> Result<[u32; VOLUMES]> {
    let number = |path: PathBuf| -> Option<u32> {
        (path.extension()? == "dat").then_some(())?;
        path.file_stem()?.to_str()?.parse().ok()
    };
    let mut ids: Vec<u32> =
        std::fs::read_dir(data)?.flatten().filter_map(|entry| number(entry.path())).collect();
    ids.sort_unstable();
    let found = ids.len();
    ids.try_into()
        .map_err(|_other| Error::Failed(anyhow!("SeaweedFS has {found} volumes where {VOLUMES} were made")))
}

pub(in crate::stores::delivery) fn directory(flag: &str, directory: &Path) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from(flag);
    argument.push(directory);
    argument
}

/// Writes the configuration that both servers read before any of the user's or the system's: token keys, and certificates.
fn write_configuration(dir: &Path, certificate: &Certificate, writes: &str, reads: &str) -> Result<()> {
    let file = certificate.file.to_str().context("the directory's path is not text")?;
    let key = certificate.key.to_str().context("the directory's path is not text")?;
    let shown = |keys: &str| format!("cert = '{file}'\nkey = '{key}'\n{keys}");
    let authority = format!("ca = '{file}'\n");
    let text = format!(
        "[jwt.signing]\nkey = '{writes}'\n[jwt.signing.read]\nkey = '{reads}'\n[grpc]\n{authority}\
         [grpc.master]\n{0}[grpc.volume]\n{0}[grpc.filer]\n{0}[grpc.s3]\n{0}[grpc.client]\n{0}[https.master]\n{1}",
        shown(""),
        shown(&authority)
    );
    write_secret(&dir.join("security.toml"), &text)?;
    for name in ["master.toml", "volume.toml"] {
        write_secret(&dir.join(name), "")?;
    }
    Ok(())
}

pub(in crate::stores::delivery) fn connects(port: u16, timeout: Duration) -> anyhow::Result<()> {
    Ok(client(port, None, timeout).connect()?)
}

fn client(port: u16, trust: Option<&Arc<ClientConfig>>, timeout: Duration) -> HttpConnection {
    let manners = ConnectionMode { keep_alive: false, ..ConnectionMode::kept(timeout) };
    HttpConnection::new(Endpoint { address: loopback(port), tls: trust.cloned() }, manners)
}

/// Sends one request; returns status and text of the response.
fn ask(
    port: u16,
    trust: Option<&Arc<ClientConfig>>,
    method: &'static str,
    path: &str,
    timeout: Duration,
) -> anyhow::Result<(u16, String)> {
    let (host, mut said) = (format!("127.0.0.1:{port}"), Vec::new());
    let request = HttpRequest { method, host: &host, path, headers: "", body: None };
    let answer = client(port, trust, timeout).ask(&request, &mut |piece| said.extend_from_slice(piece))?;
    said.extend_from_slice(&answer.refusal);
    Ok((answer.status, String::from_utf8_lossy(&said).trim().to_owned()))
}
