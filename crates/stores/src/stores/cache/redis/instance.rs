//! The server behind Redis's candidates: a private one, or the user's, in which our keys have a prefix.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};

use super::{Flush, MAXMEMORY, RedisProduct, may_evict};
use crate::host::place::copy_tree;
use crate::host::server::{Launch, Server, SocketDir};
use crate::store::*;
use crate::stores::common::certificate::TlsPort;
use crate::stores::common::removal::remove_all;
use crate::stores::common::servers::{OURS, Owner, START_PATIENCE, STOP_PATIENCE, is_our_name, own_name};
use crate::wire::buffer::Address;
use crate::wire::redis::{Login, OF_A_CLUSTER, RedisClient, RedisError, RedisReply, command_line};

/// The field that identifies our mark; the mark's key is the prefix without its colon.
const MARK: &str = "made_by_blobwise";
/// Prefix of keys in a private server.
const PRIVATE_NAME: &str = "b";
/// File with our name in the user's server, for reopening.
const NAME_FILE: &str = "name";
/// How long a private server may take to stop: it may write a snapshot of everything.
const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(600);

pub(super) struct RedisServer {
    pub(super) server: Server,
    pub(super) address: Address,
    data: PathBuf,
    /// Removed after the server has ended.
    _sockets: SocketDir,
}

impl RedisServer {
    pub(super) fn start(setup: &Setup, flavour: &RedisProduct) -> Result<RedisServer> {
        let program = flavour.program.find()?;
        let data = setup.dir.join("data");
        match setup.mode {
            Mode::Create => std::fs::create_dir_all(&data)?,
            Mode::Open => check_form(&data, setup.durability)?,
        }
        TlsPort::start(setup.dir, setup, |tls| RedisServer::listening(setup, &program.path, &data, tls))
    }

    fn listening(setup: &Setup, program: &Path, data: &Path, tls: Option<&TlsPort>) -> Result<RedisServer> {
        let sockets = SocketDir::make("s")?;
        let socket = sockets.path().join("s");
        let launch = Launch::new(program, setup.dir)
            .arg("--unixsocket")
            .arg(&socket)
            .args(["--unixsocketperm", "700", "--port", "0", "--daemonize", "no"])
            .arg("--dir")
            .arg(data)
            .args(settings(setup))
            .args(tls.into_iter().flat_map(with_tls));
        let address = match tls {
            Some(tls) => tls.address()?,
            None => Address::Socket(socket),
        };
        let server = Server::start(&launch)?;
        let mut instance = RedisServer { server, address, data: data.to_owned(), _sockets: sockets };
        let address = &instance.address;
        instance.server.wait_until_ready(START_PATIENCE, || {
            // While it loads its data, it replies with an error.
            let mut client = RedisClient::connect(address, &Login::default(), setup.op_timeout)?;
            Ok(client.ask(&[b"PING"]).map(drop)?)
        })?;
        Ok(instance)
    }

    /// Copies its data: a fresh snapshot, or the log, whose file has every acknowledged write.
    pub(super) fn back_up(&self, admin: &mut RedisClient, durability: Durability, to: &Path) -> Result<()> {
        let to = to.join("data");
        std::fs::create_dir(&to)?;
        wait_until_idle(admin, Duration::MAX)?;
        if durability == Durability::None {
            admin.ask(&[b"BGSAVE"])?;
            wait_until_idle(admin, Duration::MAX)?;
            let info = info(admin, "persistence")?;
            if info.get("rdb_last_bgsave_status").is_none_or(|status| status != "ok") {
                bail!("the snapshot failed{}", self.server.log_end());
            }
        }
        // A rewrite would remove log files while they are copied.
        const REWRITE: &str = "auto-aof-rewrite-percentage";
        let percentage = setting(admin, REWRITE)?.unwrap_or_else(|| "100".to_owned());
        set(admin, REWRITE, "0")?;
        let copied = wait_until_idle(admin, Duration::MAX).and_then(|()| Ok(copy_tree(&self.data, &to)?));
        set(admin, REWRITE, &percentage)?;
        copied
    }

    /// Stops the server, after a snapshot if that is how the store is kept.
    pub(super) fn stop(mut self, snapshot: bool) -> Result<()> {
        // The reply may take as long as a snapshot: skip it if the server cannot reply at all.
        if let Some(fault) = self.server.fault() {
            bail!("{fault}");
        }
        let words: [&[u8]; 2] = [b"SHUTDOWN", if snapshot { b"SAVE" } else { b"NOSAVE" }];
        // If no connection can be made, the server is ended by a signal.
        let connected = RedisClient::connect(&self.address, &Login::default(), SNAPSHOT_PATIENCE);
        match connected.and_then(|mut client| client.ask(&words)) {
            // A reply is a refusal; a closed connection means that the server has ended.
            Ok(reply) => bail!("the server does not stop: {}", reply.text()),
            Err(Error::Failed(error)) if error.is::<RedisError>() => {
                return Err(Error::Failed(error));
            }
            Err(_) => {}
        }
        Ok(self.server.stop(rustix::process::Signal::TERM, STOP_PATIENCE)?)
    }
}

/// A server that loads a log does not see a store kept as a snapshot, nor the reverse.
fn check_form(data: &Path, durability: Durability) -> Result<()> {
    let log = ["appendonlydir", "appendonly.aof"].iter().any(|name| data.join(name).exists());
    let snapshot = data.join("dump.rdb").exists();
    let (wants_log, there) = (durability != Durability::None, if log { "a log" } else { "a snapshot" });
    if (wants_log && snapshot && !log) || (!wants_log && log) {
        bail!("the store was kept as {there}, and class {} needs the other form", durability.name());
    }
    Ok(())
}

/// Settings of a private server that speaks TLS.
fn with_tls(tls: &TlsPort) -> Vec<OsString> {
    let TlsPort { port, certificate } = tls;
    let mut settings: Vec<OsString> =
        ["--bind", "127.0.0.1", "--tls-auth-clients", "yes", "--tls-port"].map(OsString::from).into();
    settings.push(port.to_string().into());
    for (name, file) in [
        ("--tls-cert-file", &certificate.file),
        ("--tls-key-file", &certificate.key),
        ("--tls-ca-cert-file", &certificate.file),
    ] {
        settings.extend([OsString::from(name), OsString::from(file)]);
    }
    settings
}

fn settings(setup: &Setup) -> Vec<String> {
    /// The vendor's defaults are the minimum.
    const BULK_BYTES: u64 = 512 << 20;
    const QUERY_BYTES: u64 = 1 << 30;
    let bulk = setup.blob_bytes_max.max(BULK_BYTES);
    let query = (setup.blob_bytes_max + (64 << 20)).max(QUERY_BYTES);
    // Without a limit, full memory is an error of the put instead of a lost blob.
    let policy = if may_evict(setup.options) { "allkeys-lru" } else { "noeviction" };
    let mut settings = vec![
        // Workers' sessions, the admin connection, and a few spare ones for monitoring.
        ("maxclients", (setup.workers + 20).to_string()),
        ("proto-max-bulk-len", bulk.to_string()),
        ("client-query-buffer-limit", query.to_string()),
        ("maxmemory", setup.options.number(MAXMEMORY.name).to_string()),
        ("maxmemory-policy", policy.to_owned()),
        // Periodic snapshots satisfy no class.
        ("save", String::new()),
    ];
    let (log, flush) = match setup.durability {
        Durability::None => ("no", "no"),
        Durability::OnSync => ("yes", "no"),
        Durability::EachWrite => ("yes", "always"),
    };
    settings.extend([("appendonly", log.to_owned()), ("appendfsync", flush.to_owned())]);
    if setup.durability == Durability::OnSync {
        // During a rewrite the flush of the old log is left to a thread that cannot be waited for.
        settings.push(("auto-aof-rewrite-percentage", "0".to_owned()));
    }
    settings.into_iter().flat_map(|(name, value)| [format!("--{name}"), value]).collect()
}

// ---- the user's server -----------------------------------------------------------------------------------------------

/// Returns the server's identity. Refuses a member of a cluster, a Sentinel, and a replica, even one that takes writes.
pub(super) fn check_single(admin: &mut RedisClient) -> Result<Facts> {
    let info = identity(admin)?;
    check_alone(&info)?;
    Ok(info)
}

/// As [`check_single`], by what the server says of itself.
pub(super) fn check_alone(info: &Facts) -> Result<()> {
    let told = |name: &str| info.get(name).map_or("", String::as_str);
    // Valkey's own name for it, and Redis's.
    let modes = [told("server_mode"), told("redis_mode")];
    ensure!(!modes.contains(&"cluster"), "the server is {OF_A_CLUSTER}");
    ensure!(
        !modes.contains(&"sentinel"),
        "the server is a Sentinel, which keeps no keys: name the server that it watches (`SENTINEL masters`)"
    );
    ensure!(
        !["slave", "replica"].contains(&told("role")),
        "the server is a replica, which loses what others than its primary wrote whenever it fetches everything again: name its primary \
         (`INFO replication` says which that is)"
    );
    Ok(())
}

/// Refuses the other product, a server that does not stand alone, or limits that are too small for the largest blob.
pub(super) fn check_server(admin: &mut RedisClient, flavour: &RedisProduct, setup: &Setup) -> Result<()> {
    let info = check_single(admin)?;
    let is_valkey = info.contains_key("valkey_version");
    if is_valkey != (flavour.version == "valkey_version") {
        let other = if is_valkey { "Valkey" } else { "Redis" };
        bail!("the server is not {} but {other}", flavour.name);
    }
    let bulk = setting(admin, "proto-max-bulk-len")?.and_then(|bytes| bytes.parse::<u64>().ok());
    if let Some(bulk) = bulk.filter(|bulk| *bulk < setup.blob_bytes_max) {
        let need = setup.blob_bytes_max;
        bail!("the server's proto-max-bulk-len is {bulk} B, and the largest blob needs {need} B");
    }
    Ok(())
}

/// How the user's server can keep the requested class: flushing is a server-wide setting, which we do not change.
pub(super) fn flush_of(admin: &mut RedisClient, durability: Durability) -> Result<Flush> {
    if durability == Durability::None {
        return Ok(Flush::Never);
    }
    ensure!(
        setting(admin, "no-appendfsync-on-rewrite")?.as_deref() != Some("yes"),
        "the server has no-appendfsync-on-rewrite yes: it does not flush while it saves, so that class {} is not possible; \
             use --durability none",
        durability.name()
    );
    let (log, flush) = (setting(admin, "appendonly")?, setting(admin, "appendfsync")?);
    match (log.as_deref(), flush.as_deref()) {
        (Some("yes"), Some("always")) => Ok(Flush::EachWrite),
        (Some("yes"), Some("everysec")) if durability == Durability::OnSync && can_wait(admin)? => {
            Ok(Flush::Awaited)
        }
        (Some(log), Some(flush)) => Err(Error::Failed(anyhow!(
            "the server has appendonly {log} and appendfsync {flush}, so that class {} is not possible; use --durability none",
            durability.name()
        ))),
        _ => Err(Error::Failed(anyhow!(
            "the server does not say how it flushes, so that class {} cannot be promised; use --durability none",
            durability.name()
        ))),
    }
}

/// True if the server has WAITAOF (Redis 7.2 and later).
fn can_wait(admin: &mut RedisClient) -> Result<bool> {
    Ok(unless_refused(admin.ask(&[b"WAITAOF", b"0", b"0", b"1"]))?.is_ok())
}

/// The reply, or the server's refusal of a command that it understood.
pub(super) fn unless_refused(
    answer: Result<RedisReply>,
) -> Result<std::result::Result<RedisReply, RedisError>> {
    match answer {
        Ok(reply) => Ok(Ok(reply)),
        Err(Error::Failed(error)) => match error.downcast::<RedisError>()? {
            // A member of a cluster may not say what it is.
            other if other.is_of_login() || other.is_of_cluster() => Err(Error::Failed(other.into())),
            refused => Ok(Err(refused)),
        },
        Err(error) => Err(error),
    }
}

/// A setting; `None` if the user's server does not reveal it.
pub(super) fn setting(admin: &mut RedisClient, name: &str) -> Result<Option<String>> {
    let told = unless_refused(admin.ask(&[b"CONFIG", b"GET", name.as_bytes()]))?;
    Ok(told.ok().and_then(|reply| reply.members().into_iter().nth(1)))
}

fn set(admin: &mut RedisClient, name: &str, value: &str) -> Result<()> {
    admin.ask(&[b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()]).map(drop)
}

/// A section of `INFO`; empty if the user's server does not reveal it.
pub(super) fn info(admin: &mut RedisClient, section: &str) -> Result<Facts> {
    let told = unless_refused(admin.ask(&[b"INFO", section.as_bytes()]))?;
    let text = told.map_or_else(|_refused| String::new(), RedisReply::text);
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
}

/// The product, version, mode and role, as `INFO` names them. Falls back to `HELLO` for users without `INFO`.
pub(super) fn identity(admin: &mut RedisClient) -> Result<Facts> {
    let mut told = info(admin, "server")?;
    if !told.is_empty() {
        told.extend(info(admin, "replication")?);
        return Ok(told);
    }
    let words =
        unless_refused(admin.ask(&[b"HELLO"]))?.map_or_else(|_refused| Vec::new(), RedisReply::members);
    let hello: Facts = words.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    let named = |name: &str| hello.get(name).cloned();
    let is_valkey = named("server").is_some_and(|name| name == "valkey");
    let version = if is_valkey { "valkey_version" } else { "redis_version" };
    let pairs = [(version, named("version")), ("redis_mode", named("mode")), ("role", named("role"))];
    Ok(pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

// ---- our mark and keys -----------------------------------------------------------------------------------------------

/// Creates a store's mark and returns its name; the store's keys begin with it and a colon.
pub(super) fn create_name(
    admin: &mut RedisClient,
    dir: &Path,
    external: bool,
    remover: &Remover<'_>,
) -> Result<String> {
    if !external {
        return Ok(PRIVATE_NAME.to_owned());
    }
    remove_stale(admin, remover)?;
    let name = own_name();
    std::fs::write(dir.join(NAME_FILE), &name)?;
    put_mark(admin, &name, dir)?;
    Ok(name)
}

/// Puts the mark of the store in a directory, or what is missing of it.
pub(super) fn put_mark(admin: &mut RedisClient, name: &str, dir: &Path) -> Result<()> {
    let Owner { machine, dir: used_by } = Owner::for_dir(dir);
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
    admin.ask(&words).map(drop)
}

/// Finds the name again after the store was closed. If the server may have `evicted` the mark, it is put again: the name comes from
/// a file that this run wrote, so the keys below it are this run's.
pub(super) fn find_name(
    admin: &mut RedisClient,
    dir: &Path,
    external: bool,
    evicted: bool,
) -> Result<String> {
    if !external {
        return Ok(PRIVATE_NAME.to_owned());
    }
    let name = std::fs::read_to_string(dir.join(NAME_FILE)).context("the name of our keys is lost")?;
    if evicted && is_our_name(&name) {
        put_mark(admin, &name, dir)?;
    }
    match owner(admin, &name)? {
        Some(_) => Ok(name),
        None => Err(Error::Failed(anyhow!("`{name}` does not carry our mark; it is left alone"))),
    }
}

/// The owner of these keys; `None` without our mark.
fn owner(admin: &mut RedisClient, name: &str) -> Result<Option<Owner>> {
    if admin.ask(&[b"TYPE", name.as_bytes()])?.text() != "hash" {
        return Ok(None);
    }
    let fields: [&[u8]; 5] = [b"HMGET", name.as_bytes(), MARK.as_bytes(), b"machine", b"dir"];
    Ok(match <[String; 3]>::try_from(admin.ask(&fields)?.members()) {
        Ok([mark, machine, dir]) if mark == "yes" => Some(Owner { machine, dir }),
        _ => None,
    })
}

/// Removes names, each with its mark and all keys of that prefix. It opens its own connection: the server may have closed the
/// idle admin connection, and a restarting server is waited for.
pub(super) struct Remover<'a> {
    pub(super) address: &'a Address,
    pub(super) login: &'a Login,
    pub(super) patience: Duration,
}

impl Remover<'_> {
    pub(super) fn remove(&self, names: Vec<String>) -> Result<()> {
        let client = command_line(self.address, self.login.database);
        let remove = |name: &str| {
            remove_name(&mut RedisClient::connect(self.address, self.login, self.patience)?, name)
        };
        remove_all(names, self.patience, remove, |name| {
            format!("{client} --scan --pattern '{name}*' | xargs {client} DEL")
        })
    }
}

fn remove_name(client: &mut RedisClient, name: &str) -> Result<()> {
    let (mut keys, mut refused) = (Vec::new(), Vec::new());
    client.scan(&format!("{name}:*"), &mut |key| keys.push(key.to_owned()))?;
    for key in keys {
        match client.ask(&[b"DEL", key.as_bytes()]) {
            Err(Error::Failed(error))
                if error.downcast_ref::<RedisError>().is_some_and(|refused| !refused.may_pass()) =>
            {
                refused.push((key, error));
            }
            outcome => drop(outcome?),
        }
    }
    if let Some((key, why)) = refused.first() {
        bail!("{} of its keys, the first of them `{key}`: {why}", refused.len());
    }
    // The mark is deleted last, so that a partial removal can be found and finished.
    client.ask(&[b"DEL", name.as_bytes()]).map(drop)
}

/// Removes the leftovers of killed runs: those with our mark whose owner is certainly gone.
pub(super) fn remove_stale(admin: &mut RedisClient, remover: &Remover<'_>) -> Result<()> {
    let mut names = Vec::new();
    admin.scan(&format!("{OURS}*"), &mut |key| {
        // Names go into patterns.
        if is_our_name(key) {
            names.push(key.to_owned());
        }
    })?;
    let mut gone = Vec::new();
    for name in names {
        if owner(admin, &name)?.is_some_and(|owner| owner.is_gone()) {
            gone.push(name);
        }
    }
    remover.remove(gone)
}

/// Memory of our keys, as the server reports it; `None` if it does not.
pub(super) fn memory_bytes(admin: &mut RedisClient, name: &str) -> Result<Option<u64>> {
    // The mark, which exists before any blob, shows whether the command is allowed.
    let mut keys = vec![name.to_owned()];
    admin.scan(&format!("{name}:*"), &mut |key| keys.push(key.to_owned()))?;
    let mut bytes = 0;
    for key in keys {
        match unless_refused(admin.ask(&[b"MEMORY", b"USAGE", key.as_bytes()]))? {
            Ok(RedisReply::Number(number)) => bytes += number.unsigned_abs(),
            // The key has been deleted meanwhile.
            Ok(_) => {}
            Err(_refused) => return Ok(None),
        }
    }
    Ok(Some(bytes))
}

/// Number of keys that the server has evicted since it started, including those of other clients.
pub(super) fn evictions(admin: &mut RedisClient) -> Result<u64> {
    let told = info(admin, "stats")?.get("evicted_keys").and_then(|number| number.parse().ok());
    told.ok_or_else(|| {
        Error::Failed(anyhow!(
            "the user may not ask for `INFO`, which counts evictions: allow it (+info), or leave out evicts=allowed"
        ))
    })
}

/// Refuses a server that would evict none of our keys, or does not say so: no miss would then be one.
pub(super) fn check_evicts(admin: &mut RedisClient) -> Result<()> {
    evictions(admin)?;
    let told = info(admin, "memory")?;
    let policy = told.get("maxmemory_policy").map_or("noeviction", String::as_str);
    let limit = told.get("maxmemory").map_or("0", String::as_str);
    ensure!(
        policy.starts_with("allkeys") && limit != "0",
        "evicts=allowed is for a server that evicts any key, and this one has maxmemory-policy {policy} and maxmemory {limit}: leave \
         out evicts=allowed"
    );
    Ok(())
}

/// Waits until no background write is running, but no longer than `patience`: a server of the user's may write for others without end.
pub(super) fn wait_until_idle(admin: &mut RedisClient, patience: Duration) -> Result<()> {
    const POLL: Duration = Duration::from_millis(10);
    const AT_WORK: &[&str] = &["aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress"];
    for _ in 0..patience.as_millis() / POLL.as_millis() {
        let info = info(admin, "persistence")?;
        if AT_WORK.iter().all(|name| info.get(*name).is_none_or(|value| value == "0")) {
            break;
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}
