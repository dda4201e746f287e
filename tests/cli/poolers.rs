//! Poolers in front of servers of the user's: each is recognised before anything is set in a session that other clients of its pool get
//! next, by runs and by the doctor.

use std::path::{Path, PathBuf};
use std::time::Duration;

use blobwise::host::server::{Launch, Server, SocketDir, free_port};
use mysql::prelude::Queryable;
use rustix::process::Signal;

use crate::program::{Outcome, Work, missing, needing};
use crate::servers::quick;
use crate::theirs::{PASSWORD, PATIENCE, Theirs, mysql, on_free_port, postgres, psql};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    let no = |program: &str, install: &str| {
        found(program).is_none().then(|| format!("no `{program}` was found; install it with: {install}"))
    };
    let no_bouncer = || missing("postgres/bytea").or_else(|| no("pgbouncer", "apt-get install pgbouncer"));
    let mut trials: Vec<Trial> = ["transaction", "session", "statement"]
        .into_iter()
        .map(|mode| {
            let name = format!("PgBouncer in {mode} mode is refused and its pool is left as it was");
            needing(&name, no_bouncer(), move || bouncer(mode))
        })
        .collect();
    let no_pgpool = missing("postgres/bytea").or_else(|| no("pgpool", "apt-get install pgpool2"));
    trials.push(needing("Pgpool-II is refused and a forwarded port is not", no_pgpool, pgpool));
    let no_router = missing("mysql/blob")
        .or_else(|| no("mysqlrouter", "BLOBWISE_REQUIRE_ALL=1 ./test.sh, which fetches it"));
    trials.push(needing("MySQL Router is refused where it ends connections itself", no_router, router));
    trials
}

/// A program of a package, or of those that are fetched for tests.
fn found(program: &str) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
    let fetched = std::fs::read_dir(cache.join("blobwise")).into_iter().flatten().flatten();
    let fetched = fetched.map(|entry| entry.path().join("bin"));
    let places = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"].map(PathBuf::from);
    places.into_iter().chain(fetched).map(|place| place.join(program)).find(|path| path.is_file())
}

/// Starts a program with the configuration that it reads from a file, and waits until it answers.
fn started(
    dir: &Path,
    name: &str,
    config: &str,
    first: &[&str],
    answers: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Server> {
    std::fs::write(dir.join("config"), config)?;
    let program = found(name).unwrap();
    let launch = Launch::new(&program, dir).args(first.iter().copied()).arg(dir.join("config"));
    let mut server = Server::start(&launch)?;
    server.wait_until_ready(PATIENCE, answers)?;
    Ok(server)
}

/// The port of a URL, replaced.
fn at_port(url: &str, port: u16) -> String {
    let (begin, rest) = url.rsplit_once(':').unwrap();
    format!("{begin}:{port}{}", rest.find('/').map_or("", |slash| &rest[slash..]))
}

// ---- PostgreSQL ------------------------------------------------------------------------------------------------------

/// What a run and the doctor say at the beginning of a connection: a pool that takes all of it is the one that could be harmed.
const ASKED: &str = "synchronous_commit,default_transaction_isolation,statement_timeout,search_path,bytea_output,\
     default_table_access_method,lock_timeout,idle_session_timeout,idle_in_transaction_session_timeout,\
     default_transaction_read_only";

fn bouncer(mode: &str) -> Outcome {
    let theirs = postgres(&[]);
    for ignored in ["", ASKED] {
        for backends in [1, 4] {
            // With the settings that it comes with, one is like the other.
            if !(ignored.is_empty() && backends > 1) {
                one_bouncer(&theirs, mode, ignored, backends)?;
            }
        }
    }
    Ok(())
}

fn one_bouncer(theirs: &Theirs, mode: &str, ignored: &str, backends: u32) -> Outcome {
    let work = Work::new();
    let server_port =
        theirs.url.rsplit_once(':').and_then(|(_, rest)| rest.split('/').next()).ok_or("no port")?;
    std::fs::write(work.path("users"), format!("\"owner\" \"{PASSWORD}\"\n"))?;
    let dir = work.path("pooler");
    std::fs::create_dir(&dir)?;
    let (_pooler, url) = on_free_port(|port| {
        let config = format!(
            "[databases]\n* = host=127.0.0.1 port={server_port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = md5\nauth_file = {}\npool_mode = {mode}\ndefault_pool_size = {backends}\n\
             ignore_startup_parameters = extra_float_digits{}{ignored}\n",
            work.path("users").display(),
            if ignored.is_empty() { "" } else { "," }
        );
        let url = at_port(&theirs.url, port);
        let pooler = started(&dir, "pgbouncer", &config, &[], || psql(&url, "SELECT 1").map(drop))?;
        Ok((pooler, url))
    });
    let refused = work.say(&quick("postgres/bytea", &format!("--set postgres.url={url}")));
    refused.refused(&["postgres/bytea", "pooler", "PgBouncer", "host and port of PostgreSQL itself"]);
    let doctor = work.say(&format!("doctor --for 1s --url {url}")).ended(1);
    assert!((doctor.stdout + &doctor.stderr).contains("a connection pooler answers here"), "{mode}");
    // Another client of the pool, in each of its sessions.
    for _ in 0..2 * backends {
        assert_eq!(psql(&url, "SHOW search_path")?, "\"$user\", public", "{mode}");
        assert_eq!(psql(&url, "SELECT count(*) FROM pg_prepared_statements")?, "0", "{mode}");
    }
    assert_eq!(psql(&url, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")?, "0", "{mode}");
    let made = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'blobwise%'";
    assert_eq!(psql(&theirs.url, made)?, "0", "{mode}");
    assert!(work.names("out").is_empty());
    Ok(())
}

/// It hands one session on for as long as a client is there, with the number of its process: what tells it from a tunnel is its own word.
fn pgpool() -> Outcome {
    let (theirs, work, sockets) = (postgres(&[]), Work::new(), SocketDir::make(".s.PGSQL.65535")?);
    let server_port =
        theirs.url.rsplit_once(':').and_then(|(_, rest)| rest.split('/').next()).ok_or("no port")?;
    let place = sockets.path().display();
    let dir = work.path("pooler");
    std::fs::create_dir(&dir)?;
    for file in ["hba", "pcp"] {
        std::fs::write(dir.join(file), "")?;
    }
    let first = ["-n", "-a", "hba", "-F", "pcp", "-f"];
    let (mut pooler, url) = on_free_port(|port| {
        let config = format!(
            "backend_clustering_mode = 'raw'\nlisten_addresses = '127.0.0.1'\nport = {port}\nsocket_dir = '{place}'\n\
             pcp_socket_dir = '{place}'\npcp_port = {}\nwd_ipc_socket_dir = '{place}'\nbackend_hostname0 = '127.0.0.1'\n\
             backend_port0 = {server_port}\nnum_init_children = 4\npid_file_name = '{place}/pid'\nlogdir = '{place}'\n\
             sr_check_period = 0\nallow_clear_text_frontend_auth = on\nenable_pool_hba = off\n",
            free_port()?
        );
        let url = at_port(&theirs.url, port);
        let pooler = started(&dir, "pgpool", &config, &first, || psql(&url, "SELECT 1").map(drop))?;
        Ok((pooler, url))
    });
    let refused = work.say(&quick("postgres/bytea", &format!("--set postgres.url={url}")));
    refused.refused(&["a connection pooler answers here: it is Pgpool-II 4"]);
    // It has segments of memory that stay when it is killed.
    pooler.stop(Signal::INT, PATIENCE)?;
    let tunnel = forwarded(server_port.parse()?)?;
    let url = at_port(&theirs.url, tunnel);
    work.say(&quick("postgres/bytea", &format!("--set postgres.url={url}"))).ended(0);
    Ok(())
}

/// A port behind which another one is, as a tunnel has it.
fn forwarded(to: u16) -> std::io::Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = std::net::TcpStream::connect(("127.0.0.1", to)) else { continue };
            for (mut from, mut into) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                std::thread::spawn(move || {
                    std::io::copy(&mut from, &mut into).ok();
                    into.shutdown(std::net::Shutdown::Write).ok();
                });
            }
        }
    });
    Ok(port)
}

// ---- MySQL -----------------------------------------------------------------------------------------------------------

/// A real one that lends a server's sessions on, and one port of it that only hands bytes on.
fn router() -> Outcome {
    let (theirs, work) = (mysql(&[]), Work::new());
    let server_port = theirs.url.rsplit_once(':').ok_or("no port")?.1;
    let dir = work.path("pooler");
    std::fs::create_dir(&dir)?;
    let plugins = found("mysqlrouter").and_then(|path| Some(path.parent()?.parent()?.join("plugin")));
    let plugins = plugins.filter(|place| place.is_dir()).unwrap_or("/usr/lib/mysqlrouter/plugin".into());
    let to = format!(
        "bind_address = 127.0.0.1\ndestinations = 127.0.0.1:{server_port}\nrouting_strategy = first-available\nprotocol = classic\n"
    );
    let config = |shares: u16, passes: u16| {
        format!(
            "[DEFAULT]\nlogging_folder =\nplugin_folder = {}\nruntime_folder = {place}\ndata_folder = {place}\n\
         keyring_path = {place}/keys\n\
         [connection_pool]\nmax_idle_server_connections = 8\n\
         [routing:shares]\nbind_port = {shares}\n{to}client_ssl_mode = DISABLED\nserver_ssl_mode = PREFERRED\n\
         connection_sharing = 1\nconnection_sharing_delay = 0\n\
         [routing:passes]\nbind_port = {passes}\n{to}client_ssl_mode = PASSTHROUGH\n",
            plugins.display(),
            place = dir.display()
        )
    };
    let (_pooler, url, passes) = on_free_port(|shares| {
        let (url, passes) = (at_port(&theirs.url, shares), free_port()?);
        let answers = || Ok(mysql::Conn::new(url.as_str())?.ping()?);
        let pooler = started(&dir, "mysqlrouter", &config(shares, passes), &["-c"], answers)?;
        Ok((pooler, url, passes))
    });
    let refused = work.say(&quick("mysql/blob", &format!("--set mysql.url={url}")));
    refused.refused(&[
        "mysql/blob",
        "a connection pooler answers here",
        "host and port of the server itself",
    ]);
    let doctor = work.say(&format!("doctor --for 1s --url {url}")).ended(1);
    assert!((doctor.stdout + &doctor.stderr).contains("a connection pooler answers here"));
    let mut direct = mysql::Conn::new(theirs.url.as_str())?;
    let made = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name LIKE 'blobwise%'";
    assert_eq!(direct.query_first::<u64, _>(made)?, Some(0));
    let locks =
        "SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE object_type = 'USER LEVEL LOCK'";
    assert_eq!(direct.query_first::<u64, _>(locks)?, Some(0));
    std::thread::sleep(Duration::from_millis(100));
    let url = at_port(&theirs.url, passes);
    work.say(&quick("mysql/blob", &format!("--set mysql.url={url}"))).ended(0);
    Ok(())
}
