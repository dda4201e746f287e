//! Redis and Valkey: the blob as one string, in a private server or one of the user's.

mod instance;
mod rights;
pub(in crate::stores) mod room;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::anyhow;

use self::instance::{RedisServer, Remover};
use crate::host::server::Program;
use crate::store::*;
use crate::stores::common::certificate::{self, TLS};
use crate::stores::common::lock;
use crate::stores::common::servers::{self, CONNECTION, EVICTS, URL};
use crate::wire::buffer::Address;
use crate::wire::redis::{Login, RedisClient, RedisReply, parse_url};
use crate::wire::tls::TlsMode;

/// Which of the two it is.
struct RedisProduct {
    name: &'static str,
    program: Program,
    /// Name of the version field in `INFO`.
    version: &'static str,
}

const REDIS_SERVER: RedisProduct = RedisProduct {
    name: "Redis",
    program: Program {
        variable: Some("BLOBWISE_REDIS"),
        ..Program::plain("redis-server", &["--version"], "Redis server v=", "apt-get install redis-server")
    },
    version: "redis_version",
};

const VALKEY_SERVER: RedisProduct = RedisProduct {
    name: "Valkey",
    program: Program {
        name: "valkey-server",
        places: &["~cache/blobwise/valkey-*/bin"],
        variable: Some("BLOBWISE_VALKEY"),
        ask: &["--version"],
        says: "Valkey server v=",
        never_says: None,
        install: "apt-get install valkey-server (Debian 13 and later)",
    },
    version: "valkey_version",
};

const MAXMEMORY: OptionSpec = OptionSpec::bytes("maxmemory", 0, 1 << 40, "0").about(
    "memory of a private server, which evicts the keys used least recently when that is full; 0: as much as all blobs take",
);

pub(in crate::stores) const REDIS: Adapter = Adapter {
    name: "redis",
    about: "Redis: the blob as one string; a log on disk in the durable classes",
    kind: Kind::Cache,
    programs: &[REDIS_SERVER.program],
    options: &[CONNECTION, TLS, MAXMEMORY, EVICTS, URL],
    caps,
    loss,
    integrity,
    traits,
    memory: |_| CacheRecommendation::NO_CACHE,
    needs: Needs {
        of_machine: |options| refusal(options, &REDIS_SERVER),
        of_server: Some(room::intent),
        ..Needs::NOTHING
    },
    open: |setup| open(setup, &REDIS_SERVER),
};

pub(in crate::stores) const VALKEY: Adapter = Adapter {
    name: "valkey",
    about: "Valkey: the blob as one string; a log on disk in the durable classes",
    programs: &[VALKEY_SERVER.program],
    needs: Needs { of_machine: |options| refusal(options, &VALKEY_SERVER), ..REDIS.needs },
    open: |setup| open(setup, &VALKEY_SERVER),
    ..REDIS
};

fn traits(options: &Options) -> Traits {
    Traits { may_evict: may_evict(options), ..servers::traits(options) }
}

fn refusal(options: &Options, flavour: &RedisProduct) -> Option<anyhow::Error> {
    certificate::refusal(options, &flavour.program).or_else(|| servers::refusal_of_cache(options, &MAXMEMORY))
}

fn may_evict(options: &Options) -> bool {
    servers::may_evict(options, &MAXMEMORY)
}

fn caps(_: &Options) -> Capabilities {
    Capabilities {
        streams: false,
        catalogue: false,
        one_transaction: None,
        // `proto-max-bulk-len` is raised as needed.
        blob_bytes_max: None,
        totals: false,
        backup: BACKUP,
        clients: ClientSupport::ServerBut(
            Durability::OnSync,
            "in the class on-sync, flushes are switched for the whole server, and clients would switch them in each other's way",
        ),
        ..Capabilities::ALL
    }
}

const BACKUP: Backup = Backup::Image(BackupMethod {
    by: "`BGSAVE` and a copy of the snapshot; in the durable classes a copy of the log while it is not rewritten",
    words: "You can copy RDB files while the database is running. With automatic rewrites off, a copy of the directory of the log is a \
            backup",
    link: "https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/",
});

/// Redis's manual on persistence: the log is written before the reply is sent, and either flushed "always" (also before the
/// reply) or left to the kernel. Without a log, only the snapshot made on closing the store is kept.
fn loss(_: &Options, durability: Durability) -> Losses {
    match durability {
        Durability::None => Losses::alike(Loss::All),
        Durability::OnSync => Losses { after_kill: Loss::Nothing, after_power_cut: Loss::RecentWrites },
        Durability::EachWrite => Losses::alike(Loss::Nothing),
    }
}

/// `rdbchecksum` of redis.conf: a snapshot ends with a checksum, and one with a wrong checksum is not loaded. Commands in the log
/// have none. In the user's server it is the owner's choice.
fn integrity(options: &Options, durability: Durability) -> Integrity {
    match durability {
        _ if !options.text("url").is_empty() => Integrity::Unknown,
        Durability::None => Integrity::Checksums,
        Durability::OnSync | Durability::EachWrite => Integrity::Unchecked,
    }
}

/// How writes reach stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Flush {
    /// Not promised.
    Never,
    /// `appendfsync always`, switched on for one small write.
    Switched,
    /// The server's own flush each second, which WAITAOF waits for.
    Awaited,
    /// `appendfsync always`: every write is flushed before its reply.
    EachWrite,
}

struct Redis {
    address: Address,
    login: Login,
    /// Our mark in the user's server; keys begin with it and a colon.
    name: String,
    prefix: String,
    durability: Durability,
    flush: Flush,
    /// Number of sessions in the middle of a switched flush.
    flushing: Mutex<u32>,
    op_timeout: Duration,
    flavour: &'static RedisProduct,
    may_evict: bool,
    /// The directory in our mark, where the user's server may evict the mark.
    marked_for: Option<PathBuf>,
    instance: Option<RedisServer>,
    /// True if another process opened the store.
    joined: bool,
}

/// What another process needs to join: address, login, the prefix of our keys, and how writes are flushed.
#[derive(serde::Serialize, serde::Deserialize)]
struct PrefixAccess {
    address: Address,
    login: Login,
    name: String,
    flush: Flush,
}

/// Joins a store that another process opened and will remove.
fn join(setup: &Setup, flavour: &'static RedisProduct, join_token: &JoinToken) -> Result<Box<dyn Store>> {
    let way: PrefixAccess = join_token.read()?;
    Ok(Box::new(Redis { joined: true, marked_for: None, ..Redis::new(setup, flavour, way) }))
}

fn open(setup: &Setup, flavour: &'static RedisProduct) -> Result<Box<dyn Store>> {
    if let Some(join_token) = setup.join_token {
        return join(setup, flavour, join_token);
    }
    servers::check_size(setup.options, &MAXMEMORY)?;
    let url = setup.options.text("url");
    let instance = if url.is_empty() { Some(RedisServer::start(setup, flavour)?) } else { None };
    let (address, login) = match &instance {
        Some(instance) => (instance.address.clone(), Login::default()),
        None => parse_url(url)?,
    };
    let external = instance.is_none();
    let mut admin = RedisClient::log_in(&address, &login, setup.op_timeout)?;
    if external {
        rights::check(&mut admin, &login, setup.durability)?;
        admin.select(&login)?;
    }
    if may_evict(setup.options) {
        instance::check_evicts(&mut admin)?;
    }
    let flush = match setup.durability {
        _ if external => {
            instance::check_server(&mut admin, flavour, setup)?;
            instance::flush_of(&mut admin, setup.durability)?
        }
        Durability::None => Flush::Never,
        Durability::OnSync => Flush::Switched,
        Durability::EachWrite => Flush::EachWrite,
    };
    let name = match setup.mode {
        Mode::Create => {
            let remover = Remover { address: &address, login: &login, patience: setup.op_timeout };
            instance::create_name(&mut admin, setup.dir, external, &remover)?
        }
        Mode::Open => instance::find_name(&mut admin, setup.dir, external, may_evict(setup.options))?,
    };
    let way = PrefixAccess { address, login, name, flush };
    Ok(Box::new(Redis { instance, ..Redis::new(setup, flavour, way) }))
}

impl Redis {
    fn new(setup: &Setup, flavour: &'static RedisProduct, way: PrefixAccess) -> Redis {
        let PrefixAccess { address, login, name, flush } = way;
        let is_evicted = may_evict(setup.options) && !setup.options.text(URL.name).is_empty();
        Redis {
            address,
            login,
            prefix: format!("{name}:"),
            name,
            durability: setup.durability,
            flush,
            flushing: Mutex::new(0),
            op_timeout: setup.op_timeout,
            flavour,
            may_evict: may_evict(setup.options),
            marked_for: is_evicted.then(|| setup.dir.to_owned()),
            instance: None,
            joined: false,
        }
    }

    /// A new connection. Administration has one of its own each time, because the user's server may close those that are idle.
    fn connect(&self) -> Result<RedisClient> {
        RedisClient::connect(&self.address, &self.login, self.op_timeout)
    }

    /// How long its background writes are waited for: those of a private server are all ours.
    fn patience_until_idle(&self) -> Duration {
        const THEIRS: Duration = Duration::from_secs(60);
        if self.instance.is_some() { Duration::MAX } else { THEIRS }
    }

    fn end(self: Box<Self>, snapshot: bool) -> Result<()> {
        self.instance.map_or(Ok(()), |instance| instance.stop(snapshot))
    }
}

impl Store for Redis {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(RedisSession { store: self, client: self.connect()? }))
    }

    /// Not for switched flushes: two processes would switch them for the whole server, in each other's way.
    fn join_token(&self) -> Result<JoinToken> {
        if self.flush == Flush::Switched {
            return Err(Error::Unsupported("the class on-sync for several processes"));
        }
        JoinToken::encode(&PrefixAccess {
            address: self.address.clone(),
            login: self.login.clone(),
            name: self.name.clone(),
            flush: self.flush,
        })
    }

    fn facts(&self) -> Result<Facts> {
        const SETTINGS: &[&str] = &[
            "appendonly",
            "appendfsync",
            "auto-aof-rewrite-percentage",
            "auto-aof-rewrite-min-size",
            "save",
            "maxmemory",
            "maxmemory-policy",
            "proto-max-bulk-len",
            "io-threads",
            "rdbchecksum",
            "rdbcompression",
            "lazyfree-lazy-user-del",
            "lazyfree-lazy-server-del",
        ];
        let mut admin = self.connect()?;
        let info = instance::identity(&mut admin)?;
        let mut facts = Facts::new();
        facts.extend(info.get(self.flavour.version).map(|version| ("version".to_owned(), version.clone())));
        for name in SETTINGS {
            // An empty `save` is a fact too.
            let value = instance::setting(&mut admin, name)?;
            let value = value.map(|value| if value.is_empty() { "none".to_owned() } else { value });
            facts.extend(value.map(|value| (name.replace('-', "_"), value)));
        }
        let sync = match self.flush {
            Flush::Never => "none",
            Flush::Switched => "one small write with appendfsync always",
            Flush::Awaited => "WAITAOF",
            Flush::EachWrite => "each write",
        };
        facts.insert("flush".into(), sync.into());
        facts.insert("server".into(), servers::whose(self.instance.is_some()).into());
        let tls = self.address.tls_mode();
        if self.instance.is_none() || tls != TlsMode::Disable {
            facts.insert("tls".into(), admin.tls(tls));
        }
        let untold = rights::untold(&mut admin, &self.name)?;
        if !untold.is_empty() {
            facts.insert("not_told".into(), untold);
        }
        Ok(facts)
    }

    fn settle(&self) -> Result<()> {
        instance::wait_until_idle(&mut self.connect()?, self.patience_until_idle())
    }

    /// Rewrites the log of a private server in the class each-write, where a rewrite would become due once the log has doubled.
    fn catch_up(&self) -> Result<()> {
        let mut admin = self.connect()?;
        instance::wait_until_idle(&mut admin, self.patience_until_idle())?;
        if self.instance.is_some() && self.durability == Durability::EachWrite {
            admin.ask(&[b"BGREWRITEAOF"])?;
        }
        instance::wait_until_idle(&mut admin, self.patience_until_idle())
    }

    fn back_up(&self, to: &Path) -> Result<()> {
        match &self.instance {
            Some(instance) => instance.back_up(&mut self.connect()?, self.durability, to),
            None => Err(Error::Unsupported("a backup of a server given by URL")),
        }
    }

    fn servers(&self) -> Vec<&crate::host::server::Server> {
        self.instance.iter().map(|instance| &instance.server).collect()
    }

    fn footprint_bytes(&self) -> Result<Option<u64>> {
        if self.instance.is_some() {
            return Ok(None);
        }
        instance::memory_bytes(&mut self.connect()?, &self.name)
    }

    fn evictions(&self) -> Result<Option<u64>> {
        if !self.may_evict {
            return Ok(None);
        }
        let mut admin = self.connect()?;
        // Nothing reads the mark, so that it goes before the blobs do, and without it nobody finds what a killed run leaves.
        if let Some(dir) = &self.marked_for {
            instance::put_mark(&mut admin, &self.name, dir)?;
        }
        instance::evictions(&mut admin).map(Some)
    }

    /// The append-only file. In the durable classes it is the only file: the blobs are in memory.
    fn is_log(&self, path: &Path) -> bool {
        path.components().any(|part| part.as_os_str() == "appendonlydir")
            || has_name(path, |name| name.ends_with(".aof"))
    }

    fn close(self: Box<Self>) -> Result<()> {
        let snapshot = self.durability == Durability::None;
        self.end(snapshot)
    }

    fn remove(self: Box<Self>) -> Result<()> {
        if self.instance.is_none() && !self.joined {
            let Redis { address, login, op_timeout, name, .. } = &*self;
            Remover { address, login, patience: *op_timeout }.remove(vec![name.clone()])?;
        }
        self.end(false)
    }
}

struct RedisSession<'s> {
    store: &'s Redis,
    client: RedisClient,
}

impl RedisSession<'_> {
    /// A small write of our own. The log is one sequence: flushing this write flushes every earlier one.
    fn mark(&mut self) -> Result<()> {
        let words: [&[u8]; 4] = [b"HSET", self.store.name.as_bytes(), b"synced", b"yes"];
        self.client.ask(&words).map(drop)
    }

    fn switch_flush(&mut self, to: &str) -> Result<()> {
        self.client.ask(&[b"CONFIG", b"SET", b"appendfsync", to.as_bytes()]).map(drop)
    }

    /// Makes the server flush before it replies, for as long as any session is in here. Before version 7.2 no command waits for a
    /// flush, and WAITAOF waits for the next flush of each second instead of requesting one.
    fn switched_sync(&mut self) -> Result<()> {
        let store = self.store;
        let sessions = || lock(&store.flushing);
        {
            let mut sessions = sessions();
            if *sessions == 0 {
                self.switch_flush("always")?;
            }
            *sessions += 1;
        }
        let marked = self.mark();
        let mut sessions = sessions();
        *sessions -= 1;
        if *sessions == 0 {
            self.switch_flush("no")?;
        }
        marked
    }

    fn awaited_sync(&mut self) -> Result<()> {
        self.mark()?;
        let patience_ms = (self.store.op_timeout.as_millis() as u64).to_string();
        match self.client.ask(&[b"WAITAOF", b"1", b"0", patience_ms.as_bytes()])? {
            RedisReply::Many(flushed) if flushed.first() == Some(&RedisReply::Number(1)) => Ok(()),
            RedisReply::Many(_) => Err(Error::TimedOut),
            other => Err(Error::Failed(anyhow!("WAITAOF says `{}`", other.text()))),
        }
    }
}

impl Session for RedisSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        self.client.put(&self.store.prefix, key, blob)
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        let prefix = &self.store.prefix;
        match span {
            Span::Whole => self.client.get(prefix, key, sink),
            // The server's lengths are signed, and it cannot express an empty range.
            Span::Part { .. } => match span.below(i64::MAX as u64) {
                (_, 0) => self.client.exists(prefix, key),
                (offset, len) => self.client.get_range(prefix, key, offset, len, sink),
            },
        }
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.client.delete(&self.store.prefix, std::slice::from_ref(key))
    }

    fn sync(&mut self) -> Result<()> {
        match self.store.flush {
            Flush::Never | Flush::EachWrite => Ok(()),
            Flush::Switched => self.switched_sync(),
            Flush::Awaited => self.awaited_sync(),
        }
    }

    fn connect(&mut self) -> Result<()> {
        self.client = self.store.connect()?;
        Ok(())
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        let prefix = &self.store.prefix;
        self.client.scan(&format!("{prefix}*"), &mut |key| each(&key[prefix.len()..]))
    }

    fn put_batch(&mut self, blobs: &[(Key, &[u8])]) -> Result<()> {
        if blobs.is_empty() {
            return Ok(());
        }
        self.client.put_many(&self.store.prefix, blobs)
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        if keys.is_empty() {
            return Ok(0);
        }
        self.client.get_many(&self.store.prefix, keys, sink)
    }

    fn delete_batch(&mut self, keys: &[Key]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        self.client.delete(&self.store.prefix, keys)
    }
}
