//! The private server of a store of the user's own: started by the command of its manifest, and kept to its own directory.

use std::path::Path;

use anyhow::Context;

use super::access::StoreAccess;
use super::manifest::{Listens, Manifest, StartCommand, filled};
use crate::host::server::{AllowedPaths, Launch, Server, SocketDir, cannot_confine};
use crate::store::*;
use crate::stores::common::servers::{START_PATIENCE, STOP_PATIENCE, on_free_port};
use crate::wire::buffer::Address;

/// What a program may write to beside its own directory.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full"];

pub(super) struct OwnServer {
    pub(super) server: Server,
    pub(super) access: StoreAccess,
    /// True if the kernel keeps the program from writing anywhere else.
    pub(super) is_confined: bool,
    /// Removed after the server has ended.
    _sockets: SocketDir,
}

impl OwnServer {
    pub(super) fn start(setup: &Setup, manifest: &Manifest, command: &StartCommand) -> Result<OwnServer> {
        std::fs::create_dir_all(setup.dir.join(DATA))?;
        match command.listens {
            Listens::OnSocket => OwnServer::listening(setup, manifest, command, 0),
            Listens::OnPort => on_free_port(|port| OwnServer::listening(setup, manifest, command, port)),
        }
    }

    /// Starts it on this loopback port, or on a socket in a directory that is closed to other users.
    fn listening(setup: &Setup, manifest: &Manifest, command: &StartCommand, port: u16) -> Result<OwnServer> {
        let sockets = SocketDir::make(SOCKET)?;
        let socket = sockets.path().join(SOCKET);
        let address = match command.listens {
            Listens::OnSocket => Address::Socket(socket.clone()),
            Listens::OnPort => Address::Host("127.0.0.1".to_owned(), port),
        };
        let access = StoreAccess::private(manifest.speaks, address, setup.op_timeout);
        let is_confined = cannot_confine().is_none();
        let mut server = run(setup, manifest, command, (socket.as_path(), port), is_confined)?;
        server.wait_until_ready(START_PATIENCE, || {
            access.connect()?.text("blobwise")?;
            Ok(())
        })?;
        Ok(OwnServer { server, access, is_confined, _sockets: sockets })
    }

    pub(super) fn stop(mut self) -> Result<()> {
        Ok(self.server.stop(rustix::process::Signal::TERM, STOP_PATIENCE)?)
    }
}

/// The directory of its files, below that of the store.
const DATA: &str = "data";
/// The name of its socket.
const SOCKET: &str = "s";

/// Starts the command in the directory of its manifest. It may read what this user may, and write below its own directory only.
fn run(
    setup: &Setup,
    manifest: &Manifest,
    command: &StartCommand,
    (socket, port): (&Path, u16),
    is_confined: bool,
) -> Result<Server> {
    let text = |path: &Path| -> Result<String> {
        Ok(path.to_str().context("the path of the store's directory is not text")?.to_owned())
    };
    // The program may work in another directory than this one.
    let data = std::path::absolute(setup.dir.join(DATA))?;
    let (dir, socket_path) = (text(&data)?, text(socket)?);
    let words = command.arguments.iter().chain(manifest.added(setup.durability));
    let program = command.program.find()?;
    let mut launch = Launch::new(&program.path, &manifest.dir)
        .log(std::path::absolute(setup.dir.join(format!("{}.log", manifest.name)))?)
        .env("TMPDIR", &data)
        .args(words.map(|word| filled(word, &dir, &socket_path, port)));
    if is_confined {
        let sockets = socket.parent().unwrap_or(socket);
        let own: Vec<&Path> =
            [data.as_path(), sockets].into_iter().chain(DEVICES.iter().map(Path::new)).collect();
        let files = AllowedPaths::of_the_system().and_reads(&[Path::new("/")]).and_writes(&own);
        launch = launch.confined_to(files);
    }
    Ok(Server::start(&launch)?)
}
