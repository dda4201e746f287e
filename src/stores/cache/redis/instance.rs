//! The server behind Redis's candidates: a private one, or keys with a prefix of our own in one of the user's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};

use super::{Flavour, Flush};
use crate::host::place::copy_tree;
use crate::host::server::{Launch, Server, SocketDir};
use crate::store::*;
use crate::stores::common::removal::remove_all;
use crate::stores::common::servers::{OURS, Owner, START_PATIENCE, STOP_PATIENCE, own_name};
use crate::wire::buffer::Address;
use crate::wire::redis::{Client, Login, Refused, Reply};

/// The field of our mark that says so; the mark's key is the prefix without its colon.
const MARK: &str = "made_by_blobwise";
/// What keys of a private server begin with.
const PRIVATE_NAME: &str = "b";
/// Where our name in a user's server is kept between closing and opening.
const NAME_FILE: &str = "name";

/// A private server.
pub(super) struct Instance {
    server: Server,
    sockets: SocketDir,
    /// What it keeps lies here.
    data: PathBuf,
}

impl Instance {
    pub(super) fn start(setup: &Setup, flavour: &Flavour) -> Result<Instance> {
        let program = flavour.program.find()?;
        let data = setup.dir.join("data");
        match setup.mode {
            Mode::Create => std::fs::create_dir_all(&data)?,
            Mode::Open => check_form(&data, setup.durability)?,
        }
        let sockets = SocketDir::make("s")?;
        let launch = Launch::new(&program.path, setup.dir)
            .arg("--unixsocket")
            .arg(sockets.path().join("s"))
            .args(["--unixsocketperm", "700", "--port", "0", "--daemonize", "no"])
            .arg("--dir")
            .arg(&data)
            .args(settings(setup));
        let mut instance = Instance { server: Server::start(&launch)?, sockets, data };
        let address = instance.address();
        instance.server.wait_until_ready(START_PATIENCE, || {
            // It answers with an error for as long as it loads what it kept.
            let mut client = Client::connect(&address, &Login::default(), setup.op_timeout)?;
            Ok(client.ask(&[b"PING"]).map(drop)?)
        })?;
        Ok(instance)
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// Copies what it keeps: a snapshot that is made for it, or the log. What was answered is in the log's file.
    pub(super) fn back_up(&self, keeper: &mut Client, durability: Durability, to: &Path) -> Result<()> {
        let to = to.join("data");
        std::fs::create_dir(&to)?;
        wait_until_idle(keeper)?;
        if durability == Durability::None {
            keeper.ask(&[b"BGSAVE"])?;
            wait_until_idle(keeper)?;
            let info = info(keeper, "persistence")?;
            if info.get("rdb_last_bgsave_status").is_none_or(|status| status != "ok") {
                return Err(Error::Failed(anyhow!("the snapshot failed{}", self.server.log_end())));
            }
        }
        // A rewrite would remove files of the log while they are copied.
        const REWRITE: &str = "auto-aof-rewrite-percentage";
        let percentage = setting(keeper, REWRITE)?.unwrap_or_else(|| "100".to_owned());
        set(keeper, REWRITE, "0")?;
        let copied = wait_until_idle(keeper).and_then(|()| Ok(copy_tree(&self.data, &to)?));
        set(keeper, REWRITE, &percentage)?;
        copied
    }

    pub(super) fn address(&self) -> Address {
        Address::Socket(self.sockets.path().join("s"))
    }

    /// Lets it end, after it wrote a snapshot when that is how the store is kept.
    pub(super) fn stop(mut self, keeper: &mut Client, snapshot: bool) -> Result<()> {
        // The answer may take as long as a snapshot does: who cannot answer at all is not asked.
        if let Some(fault) = self.server.fault() {
            return Err(Error::Failed(anyhow!("{fault}")));
        }
        match keeper.ask(&[b"SHUTDOWN", if snapshot { b"SAVE" } else { b"NOSAVE" }]) {
            // An answer says why it does not; the end of the connection is the end of the server.
            Ok(reply) => return Err(Error::Failed(anyhow!("the server does not stop: {}", reply.text()))),
            Err(Error::Failed(error)) if error.is::<Refused>() => {
                return Err(Error::Failed(error));
            }
            Err(_) => {}
        }
        Ok(self.server.stop(rustix::process::Signal::TERM, STOP_PATIENCE)?)
    }
}

/// A store that was kept as a snapshot is not there for a server that loads a log, nor the other way round.
fn check_form(data: &Path, durability: Durability) -> Result<()> {
    let log = ["appendonlydir", "appendonly.aof"].iter().any(|name| data.join(name).exists());
    let snapshot = data.join("dump.rdb").exists();
    let (wants_log, there) = (durability != Durability::None, if log { "a log" } else { "a snapshot" });
    if (wants_log && snapshot && !log) || (!wants_log && log) {
        return Err(Error::Failed(anyhow!(
            "the store was kept as {there}, and class {} needs the other form",
            durability.name()
        )));
    }
    Ok(())
}

/// What a private server is started with.
fn settings(setup: &Setup) -> Vec<String> {
    /// What the vendor ships; more is never needed less.
    const BULK_BYTES: u64 = 512 << 20;
    const QUERY_BYTES: u64 = 1 << 30;
    let bulk = setup.blob_bytes_max.max(BULK_BYTES);
    let query = (setup.blob_bytes_max + (64 << 20)).max(QUERY_BYTES);
    let mut settings = vec![
        // Sessions of workers, the keeper, and a few for whoever looks.
        ("maxclients", (setup.workers + 20).to_string()),
        ("proto-max-bulk-len", bulk.to_string()),
        ("client-query-buffer-limit", query.to_string()),
        // What does not fit is an error of the put, not a blob that goes missing.
        ("maxmemory-policy", "noeviction".to_owned()),
        // Snapshots while it runs promise no class anything.
        ("save", String::new()),
    ];
    let (log, flush) = match setup.durability {
        Durability::None => ("no", "no"),
        Durability::OnSync => ("yes", "no"),
        Durability::EachWrite => ("yes", "always"),
    };
    settings.extend([("appendonly", log.to_owned()), ("appendfsync", flush.to_owned())]);
    if setup.durability == Durability::OnSync {
        // A rewrite of the log leaves the flush of the old one to a thread that nobody can wait for.
        settings.push(("auto-aof-rewrite-percentage", "0".to_owned()));
    }
    settings.into_iter().flat_map(|(name, value)| [format!("--{name}"), value]).collect()
}

// ---- a server of the user's ------------------------------------------------------------------------------------------

/// Refuses a server of the other kind, of a cluster, or of a lower class than asked for: how it flushes is a setting of the whole
/// server, which is not ours to change.
pub(super) fn check_server(keeper: &mut Client, flavour: &Flavour, setup: &Setup) -> Result<()> {
    let info = identity(keeper)?;
    let is_valkey = info.contains_key("valkey_version");
    if is_valkey != (flavour.version == "valkey_version") {
        let other = if is_valkey { "Valkey" } else { "Redis" };
        return Err(Error::Failed(anyhow!("the server is not {} but {other}", flavour.name)));
    }
    if info.get("redis_mode").is_some_and(|mode| mode == "cluster") {
        return Err(Error::Failed(anyhow!(
            "the server is part of a cluster, whose keys lie on different machines; that is not supported"
        )));
    }
    let bulk = setting(keeper, "proto-max-bulk-len")?.and_then(|bytes| bytes.parse::<u64>().ok());
    if let Some(bulk) = bulk.filter(|bulk| *bulk < setup.blob_bytes_max) {
        let need = setup.blob_bytes_max;
        return Err(Error::Failed(anyhow!(
            "the server's proto-max-bulk-len is {bulk} B, and the largest blob needs {need} B"
        )));
    }
    Ok(())
}

/// How a server of the user's can keep the class asked for.
pub(super) fn flush_of(keeper: &mut Client, durability: Durability) -> Result<Flush> {
    if durability == Durability::None {
        return Ok(Flush::Never);
    }
    if setting(keeper, "no-appendfsync-on-rewrite")?.as_deref() == Some("yes") {
        return Err(Error::Failed(anyhow!(
            "the server has no-appendfsync-on-rewrite yes: it does not flush while it saves, so that class {} cannot be had; \
             --durability none can",
            durability.name()
        )));
    }
    let (log, flush) = (setting(keeper, "appendonly")?, setting(keeper, "appendfsync")?);
    match (log.as_deref(), flush.as_deref()) {
        (Some("yes"), Some("always")) => Ok(Flush::EachWrite),
        (Some("yes"), Some("everysec")) if durability == Durability::OnSync && can_wait(keeper)? => {
            Ok(Flush::Awaited)
        }
        (Some(log), Some(flush)) => Err(Error::Failed(anyhow!(
            "the server has appendonly {log} and appendfsync {flush}, so that class {} cannot be had; --durability none can",
            durability.name()
        ))),
        _ => Err(Error::Failed(anyhow!(
            "the server does not say how it flushes, so that class {} cannot be promised; --durability none can",
            durability.name()
        ))),
    }
}

/// Whether it knows WAITAOF, which came with Redis 7.2.
fn can_wait(keeper: &mut Client) -> Result<bool> {
    Ok(unless_refused(keeper.ask(&[b"WAITAOF", b"0", b"0", b"1"]))?.is_ok())
}

/// An answer, or why the server understood the question and gives none.
pub(super) fn unless_refused(answer: Result<Reply>) -> Result<std::result::Result<Reply, Refused>> {
    match answer {
        Ok(reply) => Ok(Ok(reply)),
        Err(Error::Failed(error)) => match error.downcast::<Refused>()? {
            stranger if stranger.is_of_login() => Err(Error::Failed(stranger.into())),
            refused => Ok(Err(refused)),
        },
        Err(error) => Err(error),
    }
}

/// A setting; `None` where a server of the user's does not tell it.
pub(super) fn setting(keeper: &mut Client, name: &str) -> Result<Option<String>> {
    let told = unless_refused(keeper.ask(&[b"CONFIG", b"GET", name.as_bytes()]))?;
    Ok(told.ok().and_then(|reply| reply.members().into_iter().nth(1)))
}

fn set(keeper: &mut Client, name: &str, value: &str) -> Result<()> {
    keeper.ask(&[b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()]).map(drop)
}

/// A section of what the server says of itself; empty where a server of the user's does not tell it.
pub(super) fn info(keeper: &mut Client, section: &str) -> Result<Facts> {
    let told = unless_refused(keeper.ask(&[b"INFO", section.as_bytes()]))?;
    let text = told.map_or_else(|_refused| String::new(), Reply::text);
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
}

/// What kind of server it is, as `INFO` calls it. A user that may not ask for that may still say hello.
pub(super) fn identity(keeper: &mut Client) -> Result<Facts> {
    let told = info(keeper, "server")?;
    if !told.is_empty() {
        return Ok(told);
    }
    let words = unless_refused(keeper.ask(&[b"HELLO"]))?.map_or_else(|_refused| Vec::new(), Reply::members);
    let hello: Facts = words.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    let named = |name: &str| hello.get(name).cloned();
    let is_valkey = named("server").is_some_and(|name| name == "valkey");
    let version = if is_valkey { "valkey_version" } else { "redis_version" };
    let pairs = [(version, named("version")), ("redis_mode", named("mode"))];
    Ok(pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

// ---- what is ours ----------------------------------------------------------------------------------------------------

/// The name of a store's mark; its keys begin with it and a colon.
pub(super) fn create_name(
    keeper: &mut Client,
    dir: &Path,
    external: bool,
    remover: &Remover<'_>,
) -> Result<String> {
    if !external {
        return Ok(PRIVATE_NAME.to_owned());
    }
    remove_stale(keeper, remover)?;
    let name = own_name();
    let Owner { machine, dir: used_by } = Owner::of(dir);
    let words: [&[u8]; 8] = [
        b"HSET",
        name.as_bytes(),
        MARK.as_bytes(),
        b"yes",
        b"machine",
        machine.as_bytes(),
        b"dir",
        used_by.as_bytes(),
    ];
    std::fs::write(dir.join(NAME_FILE), &name)?;
    keeper.ask(&words)?;
    Ok(name)
}

/// Finds the name again after the store was closed.
pub(super) fn find_name(keeper: &mut Client, dir: &Path, external: bool) -> Result<String> {
    if !external {
        return Ok(PRIVATE_NAME.to_owned());
    }
    let name = std::fs::read_to_string(dir.join(NAME_FILE)).context("the name of our keys is lost")?;
    match owner(keeper, &name)? {
        Some(_) => Ok(name),
        None => Err(Error::Failed(anyhow!("`{name}` does not carry our mark; it is left alone"))),
    }
}

/// Whose keys these are; `None` for ones without our mark.
fn owner(keeper: &mut Client, name: &str) -> Result<Option<Owner>> {
    if keeper.ask(&[b"TYPE", name.as_bytes()])?.text() != "hash" {
        return Ok(None);
    }
    let fields: [&[u8]; 5] = [b"HMGET", name.as_bytes(), MARK.as_bytes(), b"machine", b"dir"];
    Ok(match <[String; 3]>::try_from(keeper.ask(&fields)?.members()) {
        Ok([mark, machine, dir]) if mark == "yes" => Some(Owner { machine, dir }),
        _ => None,
    })
}

/// Removes names, each with its mark and all keys behind it. It connects by itself: the keeper may have been idle for longer than its
/// server keeps connections, and a server that is started again is waited for.
pub(super) struct Remover<'a> {
    pub(super) address: &'a Address,
    pub(super) login: &'a Login,
    pub(super) patience: Duration,
}

impl Remover<'_> {
    pub(super) fn remove(&self, names: Vec<String>) -> Result<()> {
        let database = self.login.database;
        let remove =
            |name: &String| remove_name(&mut Client::connect(self.address, self.login, self.patience)?, name);
        remove_all(names, self.patience, remove, |name| {
            format!("redis-cli -n {database} --scan --pattern '{name}*' | xargs redis-cli -n {database} DEL")
        })
    }
}

fn remove_name(client: &mut Client, name: &str) -> Result<()> {
    let (mut keys, mut refused) = (Vec::new(), Vec::new());
    client.scan(&format!("{name}:*"), &mut |key| keys.push(key.to_owned()))?;
    for key in keys {
        match client.ask(&[b"DEL", key.as_bytes()]) {
            Err(Error::Failed(error)) if error.is::<Refused>() => refused.push((key, error)),
            outcome => drop(outcome?),
        }
    }
    if let Some((key, why)) = refused.first() {
        return Err(Error::Failed(anyhow!(
            "{} of its keys, the first of them `{key}`: {why}",
            refused.len()
        )));
    }
    // The mark goes last: whoever finds it finds what is left.
    client.ask(&[b"DEL", name.as_bytes()]).map(drop)
}

/// Removes what runs left behind when they were killed: marked, and their owner is surely gone.
pub(super) fn remove_stale(keeper: &mut Client, remover: &Remover<'_>) -> Result<()> {
    let mut names = Vec::new();
    keeper.scan(&format!("{OURS}*"), &mut |key| {
        if !key.contains(':') {
            names.push(key.to_owned());
        }
    })?;
    let mut gone = Vec::new();
    for name in names {
        if owner(keeper, &name)?.is_some_and(|owner| owner.is_gone()) {
            gone.push(name);
        }
    }
    remover.remove(gone)
}

/// Memory that our keys take, by the server's own account; `None` where it does not tell.
pub(super) fn memory_bytes(keeper: &mut Client, name: &str) -> Result<Option<u64>> {
    // The mark, which is there before any blob, tells whether we may ask.
    let mut keys = vec![name.to_owned()];
    keeper.scan(&format!("{name}:*"), &mut |key| keys.push(key.to_owned()))?;
    let mut bytes = 0;
    for key in keys {
        match unless_refused(keeper.ask(&[b"MEMORY", b"USAGE", key.as_bytes()]))? {
            Ok(Reply::Number(number)) => bytes += number.unsigned_abs(),
            // One that went meanwhile.
            Ok(_) => {}
            Err(_refused) => return Ok(None),
        }
    }
    Ok(Some(bytes))
}

/// Waits until nothing is written in the background.
pub(super) fn wait_until_idle(keeper: &mut Client) -> Result<()> {
    const POLL: Duration = Duration::from_millis(10);
    const AT_WORK: &[&str] = &["aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress"];
    loop {
        let info = info(keeper, "persistence")?;
        if AT_WORK.iter().all(|name| info.get(*name).is_none_or(|value| value == "0")) {
            return Ok(());
        }
        std::thread::sleep(POLL);
    }
}
