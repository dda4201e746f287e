//! Delivery over HTTP: blobs are kept by a store behind, and read through a real web server, as files or through PHP scripts.
//!
//! Puts and deletes go to the store behind, whose durability and damage are the row's. Where the application keeps a cache, each
//! put and delete goes on to it through a script, so that what is read is what was put.

mod front;
mod http;
mod scripts;

pub(super) use self::front::check_path;
use self::front::{Front, Site, Web};
use self::http::{Client, Request, Target};
use self::scripts::{Cache, Scripts};
use super::database::CONNECTION;
use crate::server::{Program, Server};
use crate::store::*;
use crate::units::parse_bytes;

const APACHE: Program = Program {
    name: "apache2",
    places: &[],
    variable: Some("BLOBWISE_APACHE"),
    ask: &["-v"],
    says: "Apache/2.4",
    never_says: None,
    install: "apt-get install apache2",
};
pub(super) const NGINX: Program = Program {
    name: "nginx",
    places: &[],
    variable: Some("BLOBWISE_NGINX"),
    ask: &["-v"],
    says: "nginx/",
    never_says: None,
    install: "apt-get install nginx",
};
const LIGHTTPD: Program = Program {
    name: "lighttpd",
    places: &[],
    variable: Some("BLOBWISE_LIGHTTPD"),
    ask: &["-v"],
    says: "lighttpd/",
    never_says: None,
    install: "apt-get install lighttpd",
};
const PHP_FPM: Program = Program {
    name: "php-fpm*",
    places: &[],
    variable: Some("BLOBWISE_PHP_FPM"),
    // Without the settings of its package, with which it would write below /tmp before it answers.
    ask: &["-n", "-v"],
    says: "(fpm-fcgi)",
    never_says: None,
    install: "apt-get install php-fpm",
};
/// PHP inside Apache.
const PHP_MODULE: Program =
    part("libphp*.so", &["/usr/lib/apache2/modules"], "apt-get install libapache2-mod-php");
const XSENDFILE: Program =
    part("mod_xsendfile.so", &["/usr/lib/apache2/modules"], "apt-get install libapache2-mod-xsendfile");
#[cfg(feature = "mysql")]
const MYSQLI: Program = part("mysqli.so", &["/usr/lib/php/*"], "apt-get install php-mysql");
#[cfg(feature = "postgres")]
const PGSQL: Program = part("pgsql.so", &["/usr/lib/php/*"], "apt-get install php-pgsql");
#[cfg(feature = "memcached")]
const PHP_MEMCACHED: Program = part("memcached.so", &["/usr/lib/php/*"], "apt-get install php-memcached");
const APCU: Program = part("apcu.so", &["/usr/lib/php/*"], "apt-get install php-apcu");

/// A file that a program loads: it is looked for, and cannot be asked.
const fn part(name: &'static str, places: &'static [&'static str], install: &'static str) -> Program {
    Program { name, places, variable: None, ask: &[], says: "", never_says: None, install }
}

const KEEP_ALIVE: OptionSpec = OptionSpec {
    name: "keepalive",
    values: Values::Flag,
    default: "true",
    about: "false: a connection for each request, as a visitor's first one",
};
const SEND: OptionSpec = OptionSpec {
    name: "send",
    values: Values::OneOf(&["script", "handover"]),
    default: "script",
    about: "script: PHP sends the file; handover: PHP names it, and the web server sends it (X-Sendfile, X-Accel-Redirect)",
};
const PROTOCOL: OptionSpec = OptionSpec {
    name: "protocol",
    values: Values::OneOf(&["prepared", "text", "procedure"]),
    default: "prepared",
    about: "what the script sends: a prepared statement, its text, or a call of a procedure",
};

const STATIC_OPTIONS: &[OptionSpec] = &[KEEP_ALIVE];
const FILE_OPTIONS: &[OptionSpec] = &[SEND, KEEP_ALIVE];
const APCU_OPTIONS: &[OptionSpec] = &[KEEP_ALIVE];
#[cfg(feature = "memcached")]
const MEMCACHED_OPTIONS: &[OptionSpec] = &[CONNECTION, KEEP_ALIVE];
#[cfg(feature = "mysql")]
const MYSQL_OPTIONS: &[OptionSpec] = &[CONNECTION, PROTOCOL, KEEP_ALIVE];
#[cfg(feature = "postgres")]
const POSTGRES_OPTIONS: &[OptionSpec] = &[CONNECTION, KEEP_ALIVE];

/// A row of this family: its name, what it is, its programs, its options, and how it is put together.
macro_rules! adapter {
    ($name:literal, $about:literal, [$($program:expr),*], $options:expr, $behind:expr, $front:expr, $content:expr) => {
        Adapter {
            name: $name,
            about: $about,
            kind: Kind::Web,
            programs: &[$($program),*],
            options: $options,
            caps: |options| caps(&$behind, $front, $content, options),
            damage: |options, durability| damage(&$behind, options, durability),
            open: |setup| open(setup, &$behind, $front, $content),
        }
    };
}

pub(super) const STATIC_NGINX: Adapter = adapter!(
    "nginx",
    "nginx serving the files of `files/hashed`",
    [NGINX],
    STATIC_OPTIONS,
    FILES,
    Front::Nginx,
    Content::Files
);
pub(super) const STATIC_APACHE: Adapter = adapter!(
    "apache",
    "Apache serving the files of `files/hashed`",
    [APACHE],
    STATIC_OPTIONS,
    FILES,
    Front::Apache,
    Content::Files
);
pub(super) const STATIC_LIGHTTPD: Adapter = adapter!(
    "lighttpd",
    "lighttpd serving the files of `files/hashed`",
    [LIGHTTPD],
    STATIC_OPTIONS,
    FILES,
    Front::Lighttpd,
    Content::Files
);
pub(super) const APACHE_READFILE: Adapter = adapter!(
    "apache-php/readfile",
    "Apache with PHP as a module; a script sends the files of `files/hashed`",
    [APACHE, PHP_MODULE],
    FILE_OPTIONS,
    FILES,
    Front::Apache,
    Content::Script("readfile.php")
);
pub(super) const NGINX_READFILE: Adapter = adapter!(
    "nginx-php/readfile",
    "nginx with php-fpm; a script sends the files of `files/hashed`",
    [NGINX, PHP_FPM],
    FILE_OPTIONS,
    FILES,
    Front::Nginx,
    Content::Script("readfile.php")
);
pub(super) const APACHE_APCU: Adapter = adapter!(
    "apache-php/apcu",
    "Apache with PHP as a module; a script sends blobs from APCu, filled from `files/hashed`",
    [APACHE, PHP_MODULE, APCU],
    APCU_OPTIONS,
    FILES,
    Front::Apache,
    Content::Cached(Cache::Apcu)
);
pub(super) const NGINX_APCU: Adapter = adapter!(
    "nginx-php/apcu",
    "nginx with php-fpm; a script sends blobs from APCu, filled from `files/hashed`",
    [NGINX, PHP_FPM, APCU],
    APCU_OPTIONS,
    FILES,
    Front::Nginx,
    Content::Cached(Cache::Apcu)
);
#[cfg(feature = "mysql")]
pub(super) const APACHE_MYSQL: Adapter = adapter!(
    "apache-php/mysql",
    "Apache with PHP as a module; a script sends blobs out of `mariadb/blob`",
    [APACHE, PHP_MODULE, MYSQLI, super::mysql::MARIADBD],
    MYSQL_OPTIONS,
    MARIADB,
    Front::Apache,
    Content::Script("mysql.php")
);
#[cfg(feature = "mysql")]
pub(super) const NGINX_MYSQL: Adapter = adapter!(
    "nginx-php/mysql",
    "nginx with php-fpm; a script sends blobs out of `mariadb/blob`",
    [NGINX, PHP_FPM, MYSQLI, super::mysql::MARIADBD],
    MYSQL_OPTIONS,
    MARIADB,
    Front::Nginx,
    Content::Script("mysql.php")
);
#[cfg(feature = "memcached")]
pub(super) const APACHE_MEMCACHED: Adapter = adapter!(
    "apache-php/memcached",
    "Apache with PHP as a module; a script sends blobs from memcached, filled from `files/hashed`",
    [APACHE, PHP_MODULE, PHP_MEMCACHED, super::memcached::MEMCACHED],
    MEMCACHED_OPTIONS,
    FILES,
    Front::Apache,
    Content::Cached(Cache::Memcached)
);
#[cfg(feature = "memcached")]
pub(super) const NGINX_MEMCACHED: Adapter = adapter!(
    "nginx-php/memcached",
    "nginx with php-fpm; a script sends blobs from memcached, filled from `files/hashed`",
    [NGINX, PHP_FPM, PHP_MEMCACHED, super::memcached::MEMCACHED],
    MEMCACHED_OPTIONS,
    FILES,
    Front::Nginx,
    Content::Cached(Cache::Memcached)
);
#[cfg(feature = "postgres")]
pub(super) const APACHE_POSTGRES: Adapter = adapter!(
    "apache-php/postgres",
    "Apache with PHP as a module; a script sends blobs out of `postgres/bytea`",
    [APACHE, PHP_MODULE, PGSQL, super::postgres::POSTGRES],
    POSTGRES_OPTIONS,
    POSTGRES,
    Front::Apache,
    Content::Script("postgres.php")
);
#[cfg(feature = "postgres")]
pub(super) const NGINX_POSTGRES: Adapter = adapter!(
    "nginx-php/postgres",
    "nginx with php-fpm; a script sends blobs out of `postgres/bytea`",
    [NGINX, PHP_FPM, PGSQL, super::postgres::POSTGRES],
    POSTGRES_OPTIONS,
    POSTGRES,
    Front::Nginx,
    Content::Script("postgres.php")
);

/// The store behind. Its settings are what a careful user would choose, but for those named here.
struct Behind {
    adapter: &'static Adapter,
    options: &'static [(&'static str, &'static str)],
}

const FILES: Behind = Behind { adapter: &super::files::HASHED, options: &[] };
/// The scripts ask by the digits of a digest.
#[cfg(feature = "mysql")]
const MARIADB: Behind = Behind { adapter: &super::mysql::MARIADB_BLOB, options: &[("key", "digest")] };
#[cfg(feature = "postgres")]
const POSTGRES: Behind = Behind { adapter: &super::postgres::BYTEA, options: &[("key", "digest")] };
/// What an application keeps copies in.
#[cfg(feature = "memcached")]
const MEMCACHED: Behind = Behind { adapter: &super::memcached::ADAPTER, options: &[] };

impl Behind {
    fn options(&self, row: &Options) -> Options {
        let value = |spec: &OptionSpec| {
            let fixed = self.options.iter().find(|(name, _)| *name == spec.name).map(|(_, value)| *value);
            // Procedures must be made for the script to call them.
            let calls = spec.name == "protocol" && row.text("protocol") == "procedure";
            let value = if calls { "procedure" } else { fixed.unwrap_or(spec.default) };
            let bytes = parse_bytes(value).ok().filter(|_| matches!(spec.values, Values::Bytes { .. }));
            (spec.name.to_owned(), bytes.map_or_else(|| value.to_owned(), |bytes| bytes.to_string()))
        };
        Options::new(self.adapter.options.iter().map(value).collect())
    }
}

/// What a request gets.
#[derive(Clone, Copy, Debug)]
enum Content {
    /// A file.
    Files,
    /// What a script sends.
    Script(&'static str),
    /// What a script sends from a cache.
    Cached(Cache),
}

fn caps(behind: &Behind, front: Front, content: Content, options: &Options) -> Caps {
    let inner = (behind.adapter.caps)(&behind.options(options));
    let blob_bytes_max = match content {
        #[cfg(feature = "memcached")]
        Content::Cached(Cache::Memcached) => (MEMCACHED.adapter.caps)(options).blob_bytes_max,
        _ => inner.blob_bytes_max,
    };
    // Apache asks for a file's length before it opens the file: one that is replaced between the two is sent with the length of
    // the old one.
    let atomic_put = inner.atomic_put && !(front == Front::Apache && matches!(content, Content::Files));
    // No procedure tells the length beside the part.
    let range = inner.range && options.text("protocol") != "procedure";
    // Several blobs in one request, and what is not the truth's alone, are not offered.
    Caps { batch: false, catalogue: false, atomic_put, range, blob_bytes_max, ..inner }
}

fn damage(behind: &Behind, options: &Options, durability: Durability) -> Damage {
    (behind.adapter.damage)(&behind.options(options), durability)
}

/// A composed store.
struct Delivery {
    behind: Box<dyn Store>,
    /// The cache's server, where the application has one.
    cache: Option<Box<dyn Store>>,
    web: Web,
    target: Target,
    route: Route,
    scripts: Option<Scripts>,
    /// What the row can do.
    caps: Caps,
    /// Offsets beyond it are beyond every blob.
    blob_bytes_max: u64,
}

/// How a blob's address is made from its key.
#[derive(Clone, Copy, Debug)]
enum Route {
    Directory,
    Script(&'static str),
}

fn open(setup: &Setup, behind: &Behind, front: Front, content: Content) -> Result<Box<dyn Store>> {
    let blobs = setup.dir.join("blobs");
    if setup.mode == Mode::Create {
        std::fs::create_dir(&blobs)?;
    }
    let options = behind.options(setup.options);
    // Every process of PHP may hold a connection of its own.
    let workers = setup.workers * 2 + 64;
    let inner = (behind.adapter.open)(&Setup { dir: &blobs, options: &options, workers, ..setup.clone() })?;
    let cache = match content {
        #[cfg(feature = "memcached")]
        Content::Cached(Cache::Memcached) => {
            let options = MEMCACHED.options(setup.options);
            Some((MEMCACHED.adapter.open)(&Setup { options: &options, workers, ..setup.clone() })?)
        }
        _ => None,
    };
    let contact = cache.as_ref().unwrap_or(&inner).contact();
    let scripts = match content {
        Content::Files => None,
        Content::Script(_) => Some(Scripts::write(setup, front, &blobs, None, contact)?),
        Content::Cached(cache) => Some(Scripts::write(setup, front, &blobs, Some(cache), contact)?),
    };
    let route = match content {
        Content::Files => Route::Directory,
        Content::Script(_) if setup.options.text("send") == "handover" => Route::Script("handover.php"),
        Content::Script(script) => Route::Script(script),
        Content::Cached(_) => Route::Script("cached.php"),
    };
    let site = Site {
        front,
        blobs: &blobs,
        scripts: scripts.as_ref().map(|scripts| scripts.dir.as_path()),
        php_settings: scripts.as_ref().map_or("", |scripts| &scripts.php_settings),
    };
    let web = Web::start(setup, &site)?;
    let target = Target {
        address: web.address,
        keep_alive: setup.options.flag("keepalive"),
        timeout: setup.op_timeout,
    };
    Ok(Box::new(Delivery {
        behind: inner,
        cache,
        web,
        target,
        route,
        scripts,
        caps: caps(behind, front, content, setup.options),
        blob_bytes_max: setup.blob_bytes_max,
    }))
}

impl Store for Delivery {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let mut client = Client::new(&self.target);
        if self.target.keep_alive {
            client.connect()?;
        }
        Ok(Box::new(Visitor { store: self, behind: self.behind.session()?, client, path: Vec::new() }))
    }

    fn facts(&self) -> Result<Facts> {
        let mut facts = Facts::from([("server".into(), self.web.version.clone())]);
        for (place, store) in [("behind", Some(&self.behind)), ("cache", self.cache.as_ref())] {
            if let Some(store) = store {
                let named = |(name, value)| (format!("{place}: {name}"), value);
                facts.extend(store.facts()?.into_iter().map(named));
            }
        }
        if let Some(scripts) = &self.scripts {
            let mut client = Client::new(&Target { keep_alive: false, ..self.target.clone() });
            facts.extend(scripts.facts(&mut client)?);
        }
        Ok(facts)
    }

    fn settle(&self) -> Result<()> {
        self.behind.settle()
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

/// One worker: a session with the store behind, and a connection to the web server.
struct Visitor<'s> {
    store: &'s Delivery,
    behind: Box<dyn Session + 's>,
    client: Client,
    path: Vec<u8>,
}

impl Visitor<'_> {
    /// Lets the application's cache follow what was done to the store behind.
    fn tell_cache(&mut self, method: &'static str, key: &Key, body: Option<&[u8]>) -> Result<()> {
        match &self.store.scripts {
            Some(scripts) if scripts.caches => scripts.tell_cache(&mut self.client, method, key, body),
            _ => Ok(()),
        }
    }
}

fn spell(path: &mut Vec<u8>, route: Route, key: &Key) {
    path.clear();
    match route {
        Route::Directory => {
            path.push(b'/');
            path.extend_from_slice(&key.hex[..2]);
            path.push(b'/');
        }
        Route::Script(script) => {
            path.push(b'/');
            path.extend_from_slice(script.as_bytes());
            path.extend_from_slice(b"?key=");
        }
    }
    path.extend_from_slice(&key.hex);
}

impl Session for Visitor<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        // Before it is in the one place and not in the other.
        self.store.caps.blob_bytes_max.map_or(Ok(()), |limit| limit.check(blob))?;
        self.behind.put(key, blob)?;
        self.tell_cache("PUT", key, Some(blob))
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        if span != Span::Whole && !self.store.caps.range {
            return Err(Error::Unsupported("a range read"));
        }
        spell(&mut self.path, self.store.route, key);
        let (from, len) = span.below(self.store.blob_bytes_max);
        let request = match span {
            Span::Whole => Request::new("GET", &self.path),
            // No header asks for nothing; whether the blob is there can still be asked.
            Span::Part { .. } if len == 0 => Request::new("HEAD", &self.path),
            Span::Part { .. } => Request { part: Some((from, len)), ..Request::new("GET", &self.path) },
        };
        let mut delivered = 0;
        let head = self.client.exchange(&request, &[200, 206, 404, 416], &mut |piece| {
            delivered += piece.len();
            sink(piece);
        })?;
        match head.status {
            // An empty blob has no part: it is sent whole. Any other one would be too much.
            200 if request.part.is_some() && delivered > 0 => {
                Err(Error::Failed(anyhow::anyhow!("the whole blob was sent where a part was asked for")))
            }
            404 => Ok(false),
            // The part begins behind the blob's end.
            416 => Ok(true),
            _ if !head.is_blob => {
                let what = "the answer is not of the type of a blob";
                Err(Error::Failed(anyhow::anyhow!("{what} (application/octet-stream)")))
            }
            _ => Ok(true),
        }
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.behind.delete(key)?;
        self.tell_cache("DELETE", key, None)
    }

    fn sync(&mut self) -> Result<()> {
        self.behind.sync()
    }

    fn connect(&mut self) -> Result<()> {
        self.client.connect()
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        self.behind.list(each)
    }
}
