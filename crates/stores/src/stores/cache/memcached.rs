//! memcached: a cache in a private server or in the user's, by its meta protocol over a socket or TCP.
//!
//! The protocol is implemented here: with the available drivers, a put of 1 kB took 44 to 206 us where the server itself needs
//! about ten, because they write headers field by field or copy the blob (`bench/memcached.rs`).

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;

use crate::host::server::{Launch, Program, Server, SocketDir};
use crate::store::*;
use crate::stores::common::certificate::{self, TLS, TlsPort};
use crate::stores::common::removal::remove_each;
use crate::stores::common::servers::{self, CONNECTION, EVICTS, OURS, START_PATIENCE, URL, own_name};
use crate::units;
use crate::wire::buffer::{self, Address, Wire};
use crate::wire::tls::TlsMode;

pub(in crate::stores) const MEMCACHED: Program = Program {
    variable: Some("BLOBWISE_MEMCACHED"),
    ..Program::plain("memcached", &["--version"], "memcached 1.", "apt-get install memcached")
};

const MEMORY: OptionSpec = OptionSpec::bytes("memory", 0, 1 << 40, "0").about(
    "memory of a private server (-m), which evicts the items used least recently when that is full; 0: as much as all blobs take",
);

pub(in crate::stores) const ADAPTER: Adapter = Adapter {
    name: "memcached",
    about: "memcached: the blob as one item; forgets all when it ends, and has no class but none",
    kind: Kind::Cache,
    programs: &[MEMCACHED],
    options: &[CONNECTION, TLS, MEMORY, EVICTS, URL],
    caps: |_| Capabilities {
        durability: &[Durability::None],
        persistent: false,
        streams: false,
        // No command reads a part of an item.
        range: false,
        // The crawler's dump may omit items in use: good enough for cleaning up, but not as a list.
        list: false,
        blob_bytes_max: Some(LIMIT),
        backup: Backup::None("keeps its items in memory: what must last is somewhere else"),
        clients: ClientSupport::Server,
        // Commands can be pipelined, but nothing makes them atomic: no batches of puts.
        get_many: true,
        ..Capabilities::ONE_BY_ONE
    },
    loss: |_, _| Losses::alike(Loss::All),
    integrity: |_, _| Integrity::NothingKept,
    traits: |options| Traits { may_evict: servers::may_evict(options, &MEMORY), ..servers::traits(options) },
    memory: |_| CacheRecommendation::NO_CACHE,
    needs: Needs {
        of_machine: |options| {
            certificate::refusal(options, &MEMCACHED).or_else(|| servers::refusal_of_cache(options, &MEMORY))
        },
        of_server: Some(intent),
        ..Needs::NOTHING
    },
    open,
};

/// The largest `-I`, less the overhead of an item: a header of 56 B, the key, and line ends.
const LIMIT: Limit = Limit { bytes: (1 << 30) - ITEM_BYTES, source: "memcached's largest -I, 1024 MB" };
/// Upper bound of an item's overhead.
const ITEM_BYTES: u64 = 1 << 10;
/// Items in the user's server expire after a day, in case a killed run leaves them there.
const EXPIRY_SECONDS: u32 = 86_400;
/// The first version with the current meta commands.
const VERSION_MIN: (u32, u32, u32) = (1, 6, 10);

struct Memcached {
    address: Address,
    /// Prefix of every key.
    prefix: String,
    /// Suffix of every put command.
    expiry: String,
    op_timeout: Duration,
    may_evict: bool,
    instance: Option<MemcachedServer>,
    /// True if another process opened the store.
    joined: bool,
}

/// Joins a store that another process opened and will remove.
fn join(setup: &Setup, join_token: &JoinToken) -> Result<Box<dyn Store>> {
    let (address, prefix, expiry): (Address, String, String) = join_token.read()?;
    let (op_timeout, may_evict) = (setup.op_timeout, servers::may_evict(setup.options, &MEMORY));
    let instance = None;
    Ok(Box::new(Memcached { address, prefix, expiry, op_timeout, may_evict, instance, joined: true }))
}

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    if let Some(join_token) = setup.join_token {
        return join(setup, join_token);
    }
    servers::check_size(setup.options, &MEMORY)?;
    let url = setup.options.text("url");
    let instance = if url.is_empty() { Some(MemcachedServer::start(setup)?) } else { None };
    let external = instance.is_none();
    let address = match &instance {
        Some(instance) => instance.address.clone(),
        None => address_of(url)?,
    };
    let mut admin = MemcachedClient::connect(&address, setup.op_timeout)?;
    check_server(&mut admin, setup, external)?;
    Ok(Box::new(Memcached {
        address,
        // Unique, so that items of earlier stores are never seen. The letters need no escaping in a dump.
        prefix: if external { format!("{}_", own_name()) } else { String::new() },
        expiry: if external { format!(" T{EXPIRY_SECONDS}") } else { String::new() },
        op_timeout: setup.op_timeout,
        may_evict: servers::may_evict(setup.options, &MEMORY),
        instance,
        joined: false,
    }))
}

fn address_of(url: &str) -> Result<Address> {
    Address::from_url(&buffer::parse(url, "memcached")?, "memcached", 11211)
}

/// Refuses a server that is too old or whose item size limit is too small, and one of the user's that does not list its items.
fn check_server(admin: &mut MemcachedClient, setup: &Setup, external: bool) -> Result<()> {
    let version = admin.version()?;
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    ensure!(
        (next(), next(), next()) >= VERSION_MIN,
        "the server is older than memcached 1.6.10 (it says {version})"
    );
    let settings = admin.settings()?;
    let evicts = settings.get("evictions").is_none_or(|evictions| evictions != "off");
    ensure!(
        evicts || !servers::may_evict(setup.options, &MEMORY),
        "evicts=allowed is for a server that evicts, and this one refuses writes when it is full (-M): leave out evicts=allowed"
    );
    let lists =
        ["lru_crawler", "dump_enabled"].iter().all(|name| settings.get(*name).is_none_or(|is| is != "no"));
    ensure!(
        lists || !external,
        "the server does not list its items (-X, or no LRU crawler), without which a run could not remove its own again, and nothing is \
         put there: start it without -X and with `-o lru_crawler`"
    );
    let most: u64 = settings.get("item_size_max").and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    let need = setup.blob_bytes_max.min(LIMIT.bytes) + ITEM_BYTES;
    ensure!(most >= need, "the server's largest item (-I) is {most} B, and the largest blob needs {need} B");
    Ok(())
}

// ---- memory of the user's server ------------------------------------------------------------------------------------

/// Returns what a run makes in the user's server, and the memory that this server reports.
fn intent(setup: &Setup) -> Result<Intent> {
    certificate::check_theirs(setup.options)?;
    servers::check_size(setup.options, &MEMORY)?;
    let mut admin = MemcachedClient::connect(&address_of(setup.options.text("url"))?, setup.op_timeout)?;
    let stats = [admin.stats("stats\r\n")?, admin.stats("stats slabs\r\n")?, admin.settings()?];
    let stats: Facts = stats.into_iter().flatten().collect();
    let number = |name: &str| stats.get(name).and_then(|value| value.parse::<u64>().ok());
    let connections = number("max_connections").zip(number("curr_connections"));
    let connections = connections
        .map(|(most, used)| ServerLimit::connections(format!("-c {most}"), most.saturating_sub(used)));
    let room = room(stats, servers::may_evict(setup.options, &MEMORY));
    let why = "the server does not say how much memory it has given to slab classes";
    Ok(Intent {
        makes: format!("puts items `{OURS}...`"),
        pronoun: "them",
        unknown: room.is_none().then(|| why.to_owned()),
        limits: room.into_iter().chain(connections).collect(),
        carriers: Vec::new(),
    })
}

/// Bytes of a slab page, which belongs to one size class.
const PAGE_BYTES: u64 = 1 << 20;

/// Memory not yet assigned to a size class. Unused memory of a class is no room for items of other sizes: these would evict items
/// of their own class, however little all items take together.
fn room(stats: Facts, may_evict: bool) -> Option<ServerLimit> {
    let number = |name: &str| stats.get(name).and_then(|value| value.parse::<u64>().ok());
    let (most, given) = (number("limit_maxbytes")?, number("total_malloced")?);
    let pool = number("slab_global_page_pool").unwrap_or(0) * PAGE_BYTES;
    // This name is both a setting and a counter; the setting comes last.
    let evicts = stats.get("evictions").is_none_or(|evictions| evictions != "off");
    let when_full =
        if evicts { "evicts the items that were not used for longest" } else { "refuses every write (-M)" };
    let offer = if evicts { servers::EVICTS_OFFERED } else { "" };
    let classes = Classes::from_settings(&stats);
    Some(ServerLimit {
        limit: format!("its memory of {} (-m)", units::bytes(most as f64)),
        unit: LimitUnit::Bytes,
        left: most.saturating_sub(given) + pool,
        when_full: when_full.to_owned(),
        way_out: format!("start it with more memory (-m){offer}"),
        may_evict: evicts && may_evict,
        takes: Box::new(move |demand| classes.bytes_of(demand)),
    })
}

/// Item sizes of the slab classes, as `slabs_init` of memcached computes them.
struct Classes(Vec<u64>);

impl Classes {
    fn from_settings(settings: &Facts) -> Classes {
        const HEADER_BYTES: u64 = 48;
        const CHUNK_BYTES: u64 = 48;
        let number = |name: &str| settings.get(name).and_then(|value| value.parse::<f64>().ok());
        let factor = number("growth_factor").unwrap_or(1.25).max(1.01);
        let most = number("slab_chunk_max").map_or(PAGE_BYTES / 2, |bytes| bytes as u64);
        let first = number("chunk_size").map_or(CHUNK_BYTES, |bytes| bytes as u64) + HEADER_BYTES;
        let (mut sizes, mut size) = (Vec::new(), first);
        while (size as f64) < most as f64 / factor && size < most {
            size = size.next_multiple_of(8);
            sizes.push(size);
            size = ((size as f64 * factor) as u64).max(size + 1);
        }
        sizes.push(most);
        Classes(sizes)
    }

    /// Bytes of the slab pages that a demand fills, with one more item for each blob being replaced.
    fn bytes_of(&self, demand: &Demand<'_>) -> u64 {
        /// Overhead of an item beside its blob: header, `cas` number, key, and line ends.
        const BESIDE_BYTES: u64 = 48 + 8 + 64 + 4;
        /// Overhead of one chunk of an item that is larger than the largest class.
        const PART_BYTES: u64 = 48;
        let most = self.0.last().copied().unwrap_or(PAGE_BYTES / 2);
        // Per class: the number of chunks, and the most chunks of one item.
        let mut parts: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let class_of = |bytes: u64| self.0.iter().copied().find(|class| *class >= bytes).unwrap_or(most);
        let mut add = |bytes: u64, count: u64| {
            let (all, of_one) = parts.entry(class_of(bytes)).or_default();
            (*all, *of_one) = (*all + count * demand.copies, count.max(*of_one));
        };
        for bytes in demand.sizes {
            let item = bytes + BESIDE_BYTES;
            if item <= most {
                add(item, 1);
                continue;
            }
            let whole = most - PART_BYTES;
            add(BESIDE_BYTES + PART_BYTES, 1);
            let (wholes, rest) = (item / whole, item % whole + PART_BYTES);
            if class_of(rest) == most {
                add(most, wholes + 1);
                continue;
            }
            add(most, wholes);
            add(rest, 1);
        }
        let pages = parts.into_iter().map(|(class, (all, of_one))| {
            let more = if demand.resizes { 4 * all.isqrt() } else { 0 };
            (all + more + demand.under_way * of_one).div_ceil((PAGE_BYTES / class).max(1))
        });
        pages.sum::<u64>() * PAGE_BYTES
    }
}

// ---- a private server ------------------------------------------------------------------------------------------------

struct MemcachedServer {
    server: Server,
    address: Address,
    /// Removed after the server has ended.
    _sockets: SocketDir,
}

impl MemcachedServer {
    fn start(setup: &Setup) -> Result<MemcachedServer> {
        let program = MEMCACHED.find()?;
        TlsPort::start(setup.dir, setup, |tls| MemcachedServer::listening(setup, &program.path, tls))
    }

    fn listening(setup: &Setup, program: &Path, tls: Option<&TlsPort>) -> Result<MemcachedServer> {
        let sockets = SocketDir::make("s")?;
        let socket = sockets.path().join("s");
        let item_bytes = item_bytes(setup);
        let memory = setup.options.number(MEMORY.name);
        ensure!(
            memory == 0 || memory >= 2 * item_bytes,
            "memcached's memory must be twice its largest item or more: the option memory is {memory} B, and blobs of {} B need {} B",
            setup.blob_bytes_max,
            2 * item_bytes
        );
        let mib = if memory == 0 { memory_mib(setup, item_bytes) } else { memory >> 20 };
        let launch = Launch::new(program, setup.dir)
            .args(["-I", &item_bytes.to_string(), "-m", &mib.to_string()])
            // Unless it is to evict, it reports a full memory as an error of the put.
            .args((memory == 0).then_some("-M"))
            // The vendor's default of 1024 at least: the server also counts its own descriptors and connections that have just
            // ended.
            .args(["-c", &(setup.workers * 2 + 1000).to_string()]);
        let (launch, address) = match tls {
            // It listens on a socket or on a port, not on both.
            Some(tls) => (launch.args(with_tls(setup.dir, tls)), tls.address()?),
            None => (launch.arg("-s").arg(&socket), Address::Socket(socket)),
        };
        let server = Server::start(&launch)?;
        let mut instance = MemcachedServer { server, address, _sockets: sockets };
        let address = &instance.address;
        instance.server.wait_until_ready(START_PATIENCE, || {
            Ok(MemcachedClient::connect(address, setup.op_timeout)
                .and_then(|mut client| client.version())
                .map(drop)?)
        })?;
        Ok(instance)
    }
}

/// Arguments of a private server that speaks TLS, with paths relative to its working directory `dir`: a comma would end one.
fn with_tls(dir: &Path, tls: &TlsPort) -> Vec<String> {
    let below = |file: &Path| file.strip_prefix(dir).unwrap_or(file).display().to_string();
    let (file, key) = (below(&tls.certificate.file), below(&tls.certificate.key));
    // Mode 2 asks each client for its certificate.
    let files = format!("ssl_chain_cert={file},ssl_key={key},ssl_ca_cert={file},ssl_verify_mode=2");
    let port = tls.port.to_string();
    ["-l", "127.0.0.1", "-p", &port, "-U", "0", "-Z", "-o", &files].map(str::to_owned).into()
}

/// The item size limit that the largest blob needs; at least the vendor's default of 1 MiB.
fn item_bytes(setup: &Setup) -> u64 {
    (setup.blob_bytes_max + ITEM_BYTES).next_multiple_of(1 << 20).min(1 << 30)
}

/// A memory limit in MiB; nothing is reserved for it. Pages of one size class seldom move to another: after overwrites with other
/// sizes a store takes a multiple of what it holds. `-I` may be at most half of the limit.
fn memory_mib(setup: &Setup, item_bytes: u64) -> u64 {
    const ITEM_WITHOUT_BLOB_BYTES: u64 = 256;
    const PAGES_BYTES: u64 = 256 << 20;
    let items = setup.store_bytes_max * 4 + setup.keys_max * ITEM_WITHOUT_BLOB_BYTES;
    (items + item_bytes * 2 + PAGES_BYTES) >> 20
}

// ---- the protocol ----------------------------------------------------------------------------------------------------

/// A connection that speaks the meta protocol (`doc/protocol.txt` of memcached).
struct MemcachedClient {
    wire: Wire,
    request: Vec<u8>,
}

impl MemcachedClient {
    fn connect(address: &Address, timeout: Duration) -> Result<MemcachedClient> {
        Ok(MemcachedClient { wire: Wire::connect(address, timeout)?, request: Vec::new() })
    }

    /// Sends a command of the words given, which ends its line.
    fn send(&mut self, words: &[&[u8]]) -> Result<()> {
        self.request.clear();
        words.iter().for_each(|word| self.request.extend_from_slice(word));
        self.wire.send(&mut [IoSlice::new(&self.request)])
    }

    fn put(&mut self, prefix: &str, key: &Key, expiry: &str, blob: &[u8]) -> Result<()> {
        use std::io::Write;
        self.request.clear();
        write!(self.request, "ms {prefix}{} {}{expiry}\r\n", key.as_str(), blob.len())?;
        self.wire.send(&mut [IoSlice::new(&self.request), IoSlice::new(blob), IoSlice::new(b"\r\n")])?;
        match self.wire.line()? {
            b"HD" => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    fn get(&mut self, prefix: &str, key: &Key, sink: Sink) -> Result<bool> {
        self.ask_for(prefix, std::slice::from_ref(key))?;
        self.value(sink)
    }

    /// Sends a get of each.
    fn ask_for(&mut self, prefix: &str, keys: &[Key]) -> Result<()> {
        self.request.clear();
        for key in keys {
            let words: [&[u8]; 4] = [b"mg ", prefix.as_bytes(), &key.hex, b" v\r\n"];
            words.iter().for_each(|word| self.request.extend_from_slice(word));
        }
        self.wire.send(&mut [IoSlice::new(&self.request)])
    }

    /// The answer to one get.
    fn value(&mut self, sink: Sink) -> Result<bool> {
        let line = self.wire.line()?;
        if line == b"EN" {
            return Ok(false);
        }
        let bytes = value_bytes(line).ok_or_else(|| unexpected(line))?;
        self.wire.lend(bytes, sink)?;
        self.wire.line_end()?;
        Ok(true)
    }

    /// Gets several in one go; returns how many there were.
    fn get_many(&mut self, prefix: &str, keys: &[Key], sink: ManySink) -> Result<usize> {
        /// Requests that fit into the buffers of a socket: a server that nobody reads from reads nothing either.
        const AT_ONCE: usize = 100;
        let mut found = 0;
        for (part, keys) in keys.chunks(AT_ONCE).enumerate() {
            self.ask_for(prefix, keys)?;
            for place in 0..keys.len() {
                let index = part * AT_ONCE + place;
                found += usize::from(self.value(&mut |piece| sink(index, piece))?);
            }
        }
        Ok(found)
    }

    fn delete(&mut self, prefix: &str, key: &Key) -> Result<()> {
        self.send(&[b"md ", prefix.as_bytes(), &key.hex, b"\r\n"])?;
        match self.wire.line()? {
            // Deleted, or not found.
            b"HD" | b"NF" => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    fn version(&mut self) -> Result<String> {
        self.send(&[b"version\r\n"])?;
        let line = self.wire.line()?;
        let version = line.strip_prefix(b"VERSION ").ok_or_else(|| unexpected(line))?;
        Ok(String::from_utf8_lossy(version).into_owned())
    }

    fn settings(&mut self) -> Result<Facts> {
        self.stats("stats settings\r\n")
    }

    fn stats(&mut self, command: &str) -> Result<Facts> {
        self.send(&[command.as_bytes()])?;
        let mut stats = Facts::new();
        loop {
            let line = self.wire.line()?;
            if line == b"END" {
                return Ok(stats);
            }
            let text = String::from_utf8_lossy(line).into_owned();
            let stat = text.strip_prefix("STAT ").and_then(|rest| rest.split_once(' '));
            let (name, value) = stat.ok_or_else(|| unexpected(text.as_bytes()))?;
            stats.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Keys that begin so, as far as the server tells; `None` where it does not.
    fn dump(&mut self, prefix: &str) -> Result<Option<Vec<String>>> {
        self.send(&[b"lru_crawler metadump hash\r\n"])?;
        let begin = format!("key={prefix}");
        let mut keys = Vec::new();
        loop {
            let line = self.wire.line()?;
            if line == b"END" {
                return Ok(Some(keys));
            }
            if line.starts_with(b"BUSY") {
                // With somebody else's dump.
                return Err(Error::Busy);
            }
            if !line.starts_with(b"key=") {
                return Ok(None);
            }
            let text = String::from_utf8_lossy(line);
            let key = text.split(' ').next().filter(|key| key.starts_with(&begin));
            keys.extend(key.map(|key| key["key=".len()..].to_owned()));
        }
    }

    /// Deletes what begins so; what the server does not tell of goes by itself when it expires.
    fn forget(&mut self, prefix: &str) -> Result<()> {
        const TURNS: u32 = 3;
        for _ in 0..TURNS {
            let keys = self.dump(prefix)?;
            let Some(keys) = keys.filter(|keys| !keys.is_empty()) else { return Ok(()) };
            for key in keys {
                self.send(&[b"md ", key.as_bytes(), b"\r\n"])?;
                self.wire.line()?;
            }
        }
        Ok(())
    }
}

/// The length in `VA LENGTH FLAGS...`.
fn value_bytes(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"VA ")?;
    let digits = rest.split(|byte| *byte == b' ').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// An answer that is none to the command, with what it means where the server's words are not enough.
fn unexpected(line: &[u8]) -> Error {
    let said = String::from_utf8_lossy(line);
    let means = match &*said {
        "CLIENT_ERROR unauthenticated" => {
            ": it asks for a login (-Y), and blobwise does not log in to memcached; name a server without one"
        }
        _ if said.contains("out of memory") => {
            ": it is full; start it with more memory (-m), or use a smaller --corpus-bytes"
        }
        _ if said.contains("open connections") => {
            ": start it with more connections (-c), or use fewer --workers"
        }
        _ if said.contains("too large") => ": start it with larger items (-I), or use smaller blobs",
        _ => "",
    };
    Error::Failed(anyhow!("the server says `{said}`{means}"))
}

// ---- the store -------------------------------------------------------------------------------------------------------

impl Memcached {
    fn connect(&self) -> Result<MemcachedClient> {
        MemcachedClient::connect(&self.address, self.op_timeout)
    }
}

impl Store for Memcached {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(MemcachedSession { store: self, client: self.connect()? }))
    }

    fn facts(&self) -> Result<Facts> {
        /// What items and their slabs are limited to.
        const SETTINGS: &[&str] = &[
            "maxbytes",
            "item_size_max",
            "slab_chunk_max",
            "chunk_size",
            "growth_factor",
            "evictions",
            "cas_enabled",
            "num_threads",
            "slab_automove",
            "lru_segmented",
        ];
        let mut admin = self.connect()?;
        let mut facts = admin.settings()?;
        facts.retain(|name, _| SETTINGS.contains(&name.as_str()));
        facts.insert("version".into(), admin.version()?);
        facts.insert("server".into(), servers::whose(self.instance.is_some()).into());
        if self.instance.is_none() {
            facts.insert("expiry_seconds".into(), EXPIRY_SECONDS.to_string());
        }
        let tls = self.address.tls_mode();
        if self.instance.is_none() || tls != TlsMode::Disable {
            facts.insert("tls".into(), admin.wire.tls(tls));
        }
        Ok(facts)
    }

    fn join_token(&self) -> Result<JoinToken> {
        JoinToken::encode(&(&self.address, &self.prefix, &self.expiry))
    }

    fn contact(&self) -> Option<Contact> {
        match &self.address {
            Address::Socket(path) => Some(Contact {
                host: "localhost".into(),
                socket: path.to_string_lossy().into_owned(),
                ..Contact::default()
            }),
            // A server of the user's is not lent to others.
            _ => None,
        }
    }

    fn servers(&self) -> Vec<&Server> {
        self.instance.iter().map(|instance| &instance.server).collect()
    }

    fn evictions(&self) -> Result<Option<u64>> {
        if !self.may_evict {
            return Ok(None);
        }
        let stats = self.connect()?.stats("stats\r\n")?;
        let told = stats.get("evictions").and_then(|number| number.parse().ok());
        told.map(Some).ok_or_else(|| Error::Failed(anyhow!("the server does not count what it evicts")))
    }

    fn close(self: Box<Self>) -> Result<()> {
        // A private server is ended at once: it has nothing to save, and asked to stop it takes most of a second.
        if self.instance.is_some() || self.joined {
            return Ok(());
        }
        // A server that was restarted has forgotten them, and needs a new connection.
        let left = remove_each(vec![&self.prefix], self.op_timeout, |prefix| self.connect()?.forget(prefix));
        match left.into_iter().next() {
            None => Ok(()),
            Some((prefix, why)) => Err(Error::Failed(anyhow!(
                "could not remove the items `{prefix}...` ({why}); they stay until they expire, a day after they were put"
            ))),
        }
    }
}

struct MemcachedSession<'s> {
    store: &'s Memcached,
    client: MemcachedClient,
}

impl Session for MemcachedSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        LIMIT.check(blob)?;
        self.client.put(&self.store.prefix, key, &self.store.expiry, blob)
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        span.check_whole()?;
        self.client.get(&self.store.prefix, key, sink)
    }

    fn get_many(&mut self, keys: &[Key], sink: ManySink) -> Result<usize> {
        self.client.get_many(&self.store.prefix, keys, sink)
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.client.delete(&self.store.prefix, key)
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn connect(&mut self) -> Result<()> {
        self.client = self.store.connect()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_that_the_server_makes() {
        // What `memcached -vv` (1.6.18) prints.
        let classes = Classes::from_settings(&Facts::new());
        assert_eq!(classes.0[..6], [96, 120, 152, 192, 240, 304]);
        assert_eq!((classes.0.len(), &classes.0[36..]), (39, &[315_872, 394_840, 524_288][..]));
    }

    #[test]
    fn a_demand_fills_whole_pages() {
        let classes = Classes::from_settings(&Facts::new());
        let of = |sizes: &[u64], resizes| {
            let (copies, writes, connections, under_way) = (1, 1.0, 2, 1);
            classes.bytes_of(&Demand { sizes, copies, resizes, writes, connections, under_way }) / PAGE_BYTES
        };
        assert_eq!(of(&[], false), 0);
        // Ten items of 103,496 B in a page, and one that is replaced.
        assert_eq!((of(&[100_000; 9], false), of(&[100_000; 10], false)), (1, 2));
        assert_eq!(of(&[100_000; 9], true), 3);
        // Three whole parts and the rest, two of them in a page, four to replace them, and the headers.
        assert_eq!(of(&[2_000_000], false), 4 + 1);
    }

    #[test]
    fn memory_that_a_class_has_is_not_left() {
        let stats = [
            ("limit_maxbytes", "67108864"),
            ("total_malloced", "60817408"),
            ("slab_global_page_pool", "1"),
            ("bytes", "0"),
        ];
        let stats: Facts =
            stats.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let told = room(stats.clone(), true).unwrap();
        assert_eq!((told.left, told.may_evict), (7 << 20, true));
        let refuses = Facts::from([("evictions".to_owned(), "off".to_owned())]);
        assert_eq!(
            room(stats.into_iter().chain(refuses).collect(), true).map(|room| room.may_evict),
            Some(false)
        );
        assert!(room(Facts::new(), false).is_none());
    }

    #[test]
    fn lengths_are_read_from_the_header() {
        assert_eq!(value_bytes(b"VA 0"), Some(0));
        assert_eq!(value_bytes(b"VA 1073741824 f0 s5"), Some(1 << 30));
        assert_eq!(value_bytes(b"VA"), None);
        assert_eq!(value_bytes(b"SERVER_ERROR out of memory"), None);
    }
}
