//! Servers of the user's, named by URL, and private ones: what goes wrong with them, and what is left of them.

use std::io::Write;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use blobwise::host::server::{Launch, Server};
use blobwise::result::{Reason, RunResult, Status, VerifiedFrom, Warning};
use blobwise::store::{Common, Key, Mode, Options, Setup, Span, Store};
use blobwise::stores;
use libtest_mimic::Failed;
use mysql::prelude::Queryable;
use rustix::process::{Pid, Signal, kill_process};

use crate::opening;
use crate::places::{mounted_beside, no_mounts};
use crate::program::{Outcome, Work, finish, held, missing, needing};
use crate::results::collapse_whitespace;
use crate::signals::{run_until, send, until, wait};
use crate::theirs::{CLOSED, PASSWORD, mariadb, mysql, postgres, psql};
use crate::trials::Trial;

#[expect(clippy::too_many_lines, reason = "a table of trials")]
pub fn trials() -> Vec<Trial> {
    let no_postgres = || missing("postgres/bytea");
    let no_mariadb = || missing("mariadb/blob");
    let mut trials = vec![
        Trial::test("a URL that is none is refused", nonsense),
        Trial::test("a refused connection is an error before the run", refused),
        Trial::test("a server that hangs up is an error before the run", hangs_up),
        needing("a server given by URL is used and left as it was", no_postgres(), used_and_left),
        needing("a wrong password is an error that does not show it", no_postgres(), wrong_password),
        needing("large objects that a run left behind go with its schema", no_postgres(), stale_objects),
        needing("a schema that cannot be removed keeps no other", no_postgres(), stale_of_others),
        needing("a removal may take longer than an op", no_postgres(), slow_removal),
        needing("a server that does not flush serves class none only", no_postgres(), no_fsync),
        needing("a binary log that is not flushed serves class none only", no_mariadb(), no_sync_binlog),
        needing("pages that a power cut may tear serve class none only", no_mariadb(), no_doublewrite),
        needing(
            "a second copy that is not flushed is told of a server",
            missing("mysql/blob"),
            unflushed_copies,
        ),
        needing("a server that is too old is an error before the run", no_mariadb(), too_old),
        needing(
            "a packet limit below the largest blob is an error before the run",
            no_mariadb(),
            packet_limit,
        ),
        needing(
            "releases of PostgreSQL stand side by side, and tell in what they differ",
            no_postgres().or_else(|| no_release("17")).or_else(|| no_release("18")),
            releases,
        ),
        needing(
            "a release or a build that is not there is an error before the run",
            no_postgres().or_else(|| no_release("17")),
            wrong_release,
        ),
        Trial::test("no server is waited for whose needs have ended", needs_have_ended),
        needing("a private server that dies fails its candidate only", no_postgres(), dies),
        needing("what a private server moves is not of other programs", missing("redis"), moves_for_us),
        needing(
            "a disk too small for a server fails its candidate",
            no_postgres().or_else(no_mounts),
            disk_too_small,
        ),
        needing(
            "a disk that fills up in a server fails its candidate",
            no_postgres().or_else(no_mounts),
            disk_fills_up,
        ),
        needing("a data directory that cannot be made fails its candidate", no_postgres(), no_data_directory),
        needing("a missing program is an error before the run", no_mariadb(), missing_program),
        Trial::test("a variable that names another program is an error before the run", other_program),
        needing(
            "a server that restarts takes no cold rank from others",
            missing("nginx"),
            cold_beside_a_server,
        ),
    ];
    // The fill is in another class than each-write: what it put must be there for `overwrite`. One server shows that
    // on-sync, the class of the fill, changes nothing.
    for (stores, classes) in [
        ("postgres/bytea,postgres/chunked,postgres/large-object", &["on-sync", "each-write"][..]),
        ("mariadb/blob,mariadb/chunked", &["each-write"][..]),
        ("mysql/blob,mysql/chunked", &["each-write"][..]),
    ] {
        let (first, _) = stores.split_once(',').unwrap_or_default();
        for class in classes.iter().copied() {
            let name = format!("{stores} share a server in class {class} and leave nothing");
            trials.push(needing(&name, missing(first), move || shared(stores, class)));
        }
    }
    for store in ["postgres/bytea", "mariadb/blob", "mysql/blob"] {
        let name = format!(
            "a closed store in a {} of the user's is not taken for a left one",
            stores::family(store)
        );
        trials.push(needing(&name, missing(store), move || closed_for_a_while(store)));
    }
    for store in ["sqlite", "postgres/bytea", "postgres/chunked", "mariadb/blob", "mysql/blob"] {
        let name = format!("what the indexes of {store} take is told apart from its data");
        trials.push(needing(&name, missing(store), move || indexes(store)));
    }
    for store in [
        "postgres/bytea",
        "mariadb/blob",
        "mysql/blob",
        "memcached",
        "redis",
        "nginx-php/memcached",
        "apache-php/mysql",
    ] {
        let name = format!("SIGKILL leaves no process of {store}");
        trials.push(needing(&name, missing(store), move || killed(store)));
    }
    trials
}

/// A quick run's line.
pub fn quick(store: &str, more: &str) -> String {
    format!("run --stores {store} --blobs 12 --rounds 1 --phases fill,read-warm --quiet --out out {more}")
}

/// Side by side, each by its own program: none has checksums of pages, which 18 would make and 15 would not, and each says so.
fn releases() -> Outcome {
    let work = Work::new();
    let result = work.result(&quick(
        "postgres/bytea",
        "--set postgres.version=installed,17,18 --set postgres.io_method=shipped",
    ));
    let mut majors = Vec::new();
    for candidate in &result.candidates {
        let facts = &candidate.facts;
        assert_eq!(facts.get("data_checksums").map(String::as_str), Some("off"), "{facts:?}");
        let major: u32 = facts["server_version"].split('.').next().ok_or("no version")?.parse()?;
        assert_eq!(facts.contains_key("io_method"), major >= 18, "{facts:?}");
        majors.push(major);
    }
    assert_eq!((majors.len(), &majors[1..]), (3, &[17, 18][..]), "{majors:?}");
    Ok(())
}

/// Before anything is made: a build that lacks what is asked for, a release that is not there, and a server that is another one.
fn wrong_release() -> Outcome {
    let work = Work::new();
    let refused = |settings: &str, variable: (&str, &str), words: &[&str]| {
        let mut command = work.blobwise(&quick("postgres/bytea", settings));
        finish(command.env(variable.0, variable.1)).refused(words);
    };
    let nothing = ("UNUSED", "");
    let old = "--set postgres.version=17 --set postgres.io_method";
    refused(&format!("{old}=sync"), nothing, &["`io_method` came with PostgreSQL 18", "is release 17"]);
    let other = ("BLOBWISE_POSTGRES_18", "/bin/echo");
    refused("--set postgres.version=18", other, &["`BLOBWISE_POSTGRES_18` does not name", "/bin/echo"]);
    let theirs = postgres(&[]);
    let by_url = format!("--set postgres.url={} --set postgres.version", theirs.url);
    refused(&format!("{by_url}=18"), nothing, &["the server is PostgreSQL 15", "`version=18` was asked for"]);
    // A build says itself what it was made with.
    let program =
        stores::adapters().find(|store| store.name == "postgres/bytea").ok_or("no store")?.programs[0];
    let real = program.find()?.path;
    for (name, text) in [
        ("postgres", format!("exec '{}' \"$@\"", real.display())),
        ("pg_config", "echo --with-ssl".to_owned()),
    ] {
        executable(&work.path(name), &text)?;
    }
    let build = work.path("postgres");
    let build = ("BLOBWISE_POSTGRES", build.to_str().ok_or("a path that is no text")?);
    refused(
        "--set postgres.compression=lz4",
        build,
        &["`compression=lz4` is not possible", "without lz4", "BLOBWISE_POSTGRES"],
    );
    Ok(())
}

/// Why a release of PostgreSQL is not here.
fn no_release(version: &str) -> Option<String> {
    let Some(stores::Entry::Ready(adapter)) = stores::find("postgres/bytea") else {
        return Some("a build without it".to_owned());
    };
    let mut values = blobwise::plan::defaults(adapter).values().clone();
    values.insert("version".to_owned(), version.to_owned());
    Some(format!("{:#}", blobwise::plan::missing_server(adapter, &Options::new(values))?))
}

/// A program of a line of shell.
fn executable(path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, format!("#!/bin/sh\n{text}\n"))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

fn nonsense() -> Outcome {
    let work = Work::new();
    work.say(&quick("postgres/bytea", "--set postgres.url=nonsense"))
        .refused(&["postgres", "it is not a URL such as"]);
    work.say(&quick("postgres/bytea", "--set postgres.url=postgres://")).refused(&["names no host"]);
    assert!(work.names(".").is_empty());
    Ok(())
}

fn refused() -> Outcome {
    let work = Work::new();
    let port = CLOSED;
    for (store, family) in [("postgres/bytea", "postgres"), ("mariadb/blob", "mysql")] {
        let option = stores::family(store);
        let url = format!("--set {option}.url={family}://me:hidden@127.0.0.1:{port}/x");
        let said = work.say(&quick(store, &url)).refused(&[store, "127.0.0.1", "refused"]);
        assert!(!said.stderr.contains("hidden"), "{}", said.stderr);
    }
    assert!(work.names(".").is_empty());
    Ok(())
}

/// The port of something that greets whoever connects, and hangs up.
pub fn hanging_up() -> std::io::Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            drop((&stream).write(b"220 hello\r\n"));
        }
    });
    Ok(port)
}

fn hangs_up() -> Outcome {
    let work = Work::new();
    let port = hanging_up()?;
    for (store, family) in [("postgres/bytea", "postgres"), ("mariadb/blob", "mysql")] {
        let option = stores::family(store);
        let url = format!("--op-timeout 5s --set {option}.url={family}://me@127.0.0.1:{port}/x");
        work.say(&quick(store, &url)).refused(&[store, "cannot use the server"]);
    }
    assert!(work.names(".").is_empty());
    Ok(())
}

/// Ours goes, and nothing else: not even what has a name like ours without the mark.
fn used_and_left() -> Outcome {
    let work = Work::new();
    let theirs = postgres(&[]);
    psql(
        &theirs.url,
        "CREATE TABLE public.blobs(key text); INSERT INTO public.blobs VALUES ('theirs');
         CREATE SCHEMA blobwise_0000000000000000; CREATE TABLE blobwise_0000000000000000.blobs(key text);",
    )?;
    let line = "run --stores postgres/bytea --blobs 12 --rounds 1 --phases fill,read-warm,read-cold,delete-half --quiet --out out";
    work.say(&format!("{line} --set postgres.url={}", theirs.url)).ended(0);
    let ours = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'blobwise%'";
    assert_eq!(psql(&theirs.url, ours)?, "blobwise_0000000000000000");
    assert_eq!(psql(&theirs.url, "SELECT count(*) FROM public.blobs")?, "1");
    let result = RunResult::load(&work.path("out"))?;
    assert_eq!(result.candidates[0].verified_from, Some(VerifiedFrom::UsersServer));
    assert_eq!(result.candidates[0].facts["tls"], "none");
    let cold = result.results.iter().find(|cell| cell.phase == "read-cold").ok_or("no cell")?;
    assert_eq!(cold.status, Status::NotPossible);
    assert!(
        cold.reason.as_ref().is_some_and(|reason| reason.contains("cannot be made cold")),
        "{:?}",
        cold.reason
    );
    for file in ["result.json", "plan.toml", "report.html"] {
        let text = std::fs::read_to_string(work.path("out").join(file))?;
        assert!(!text.contains(PASSWORD), "the password is in {file}");
    }
    Ok(())
}

fn wrong_password() -> Outcome {
    let work = Work::new();
    let theirs = postgres(&[]);
    let url = theirs.url.replace(PASSWORD, "a-wrong-one");
    let said = work.say(&quick("postgres/bytea", &format!("--set postgres.url={url}")));
    let said = said.refused(&["postgres/bytea", "password authentication failed"]);
    assert!(!said.stderr.contains("a-wrong-one"), "{}", said.stderr);
    assert!(work.names(".").is_empty());
    Ok(())
}

/// What another run makes there first removes what killed runs left.
fn closed_for_a_while(name: &str) -> Outcome {
    let work = Work::new();
    let theirs = match stores::family(name) {
        "postgres" => postgres(&[]),
        "mariadb" => mariadb(&[]),
        _ => mysql(&[]),
    };
    let adapter = stores::find(name).and_then(|entry| entry.adapter()).ok_or("no such store")?;
    let options = opening::options_at(adapter, &theirs.url);
    let common = Common::new(work.path("."));
    let open = |dir: &Path, mode| -> blobwise::store::Result<Box<dyn Store>> {
        (adapter.open)(&Setup { mode, ..opening::small(dir, &common, &options) })
    };
    let (ours, others) = (work.path("ours"), work.path("others"));
    [&ours, &others].into_iter().try_for_each(std::fs::create_dir)?;
    let key = Key::of_digest(3, 0xabc);
    let mut store = open(&ours, Mode::Create)?;
    store.session()?.put(&key, b"a blob")?;
    // Each time it is opened again, another lock says that it is in use.
    for _ in 0..3 {
        store.close()?;
        open(&others, Mode::Create)?.remove()?;
        store = open(&ours, Mode::Open)?;
        let mut got = Vec::new();
        store.session()?.get(&key, Span::Whole, &mut |bytes| got.extend_from_slice(bytes))?;
        assert_eq!(got, b"a blob");
    }
    // One that its process leaves without a word is.
    drop(store);
    open(&others, Mode::Create)?.remove()?;
    let gone = |dir: &Path| {
        let said = shown(open(dir, Mode::Open).map(drop));
        assert!(said.contains("does not carry our mark"), "{said}");
    };
    gone(&ours);
    // A server that restarts has ended the connection by which what is ours would be removed.
    let store = open(&others, Mode::Create)?;
    hang_up(&theirs.url)?;
    store.remove()?;
    gone(&others);
    Ok(())
}

/// Ends all connections to a server.
fn hang_up(url: &str) -> anyhow::Result<()> {
    if url.starts_with("postgres") {
        let others = "backend_type = 'client backend' AND pid <> pg_backend_pid()";
        psql(url, &format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"))?;
        return Ok(());
    }
    let mut direct = mysql::Conn::new(url)?;
    let others = "command <> 'Daemon' AND id <> CONNECTION_ID()";
    let others: Vec<u64> =
        direct.query(format!("SELECT id FROM information_schema.processlist WHERE {others}"))?;
    for id in others {
        // It may be gone by now.
        direct.query_drop(format!("KILL {id}")).ok();
    }
    Ok(())
}

fn shown(outcome: blobwise::store::Result<()>) -> String {
    outcome.map_or_else(|error| format!("{:#}", anyhow::Error::from(error)), |()| String::new())
}

/// They lie in a table of the whole database, and only the rows of the schema know which they are.
fn stale_objects() -> Outcome {
    let work = Work::new();
    let theirs = postgres(&[]);
    psql(
        &theirs.url,
        "CREATE SCHEMA blobwise_0000000000000000;
         COMMENT ON SCHEMA blobwise_0000000000000000 IS 'made by blobwise, removed by it';
         SET search_path = blobwise_0000000000000000;
         CREATE TABLE blobs(key text PRIMARY KEY, object oid NOT NULL);
         CREATE FUNCTION unlink() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM lo_unlink(OLD.object); RETURN NULL; END $$;
         CREATE TRIGGER unlink_old AFTER DELETE ON blobs FOR EACH ROW EXECUTE FUNCTION unlink();
         INSERT INTO blobs SELECT n, lo_create(0) FROM generate_series(1, 2500) n;",
    )?;
    let objects = "SELECT count(*) FROM pg_largeobject_metadata";
    assert_eq!(psql(&theirs.url, objects)?, "2500");
    work.say(&quick("postgres/bytea", &format!("--set postgres.url={}", theirs.url))).ended(0);
    assert_eq!(psql(&theirs.url, objects)?, "0");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'blobwise%'";
    assert_eq!(psql(&theirs.url, schemas)?, "0");
    Ok(())
}

/// Two that runs left behind, one of them of a user who has more rights: the other one goes, and the run is refused with a command.
fn stale_of_others() -> Outcome {
    let work = Work::new();
    let theirs = postgres(&[]);
    let left = |number: u32| {
        format!(
            "CREATE SCHEMA blobwise_000000000000000{number} AUTHORIZATION guest;
             COMMENT ON SCHEMA blobwise_000000000000000{number} IS 'made by blobwise, removed by it';"
        )
    };
    let role = format!(
        "CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'; GRANT CREATE ON DATABASE postgres TO guest; {} {} {}",
        left(1),
        left(2),
        left(3),
    );
    psql(&theirs.url, &role)?;
    psql(
        &theirs.url,
        "CREATE FUNCTION keep() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
             IF EXISTS (SELECT FROM pg_event_trigger_dropped_objects()
                 WHERE object_name IN ('blobwise_0000000000000001', 'blobwise_0000000000000003'))
             THEN RAISE 'this schema is kept'; END IF; END $$;
         CREATE EVENT TRIGGER keep ON sql_drop EXECUTE FUNCTION keep()",
    )?;
    let url = theirs.url.replace("owner:", "guest:");
    work.say(&quick("postgres/bytea", &format!("--set postgres.url={url}"))).refused(&[
        "could not remove `blobwise_0000000000000001`",
        "this schema is kept",
        "DROP SCHEMA blobwise_0000000000000001 CASCADE",
        "DROP SCHEMA blobwise_0000000000000003 CASCADE",
    ]);
    let ours = "SELECT string_agg(nspname::text, ' ' ORDER BY nspname) FROM pg_namespace WHERE nspname LIKE 'blobwise%'";
    assert_eq!(psql(&theirs.url, ours)?, "blobwise_0000000000000001 blobwise_0000000000000003");
    Ok(())
}

/// On a server that takes longer to drop a schema than an op may take.
fn slow_removal() -> Outcome {
    let work = Work::new();
    let theirs = postgres(&[]);
    psql(
        &theirs.url,
        "CREATE FUNCTION wait() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(10); END $$;
         CREATE EVENT TRIGGER wait ON ddl_command_start WHEN TAG IN ('DROP SCHEMA') EXECUTE FUNCTION wait()",
    )?;
    let more = format!("--op-timeout 8s --set postgres.url={}", theirs.url);
    work.say(&quick("postgres/bytea", &more)).ended(0);
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'blobwise%'";
    assert_eq!(psql(&theirs.url, schemas)?, "0");
    Ok(())
}

/// A setting of the user's server is named when a class above none is asked for, and matters to no other.
fn serves_class_none_only(work: &Work, store: &str, url: &str, setting: &str) -> Outcome {
    let line = quick(store, url);
    work.say(&line).refused(&[setting, "class on-sync", "--durability none"]);
    work.say(&format!("{line} --durability none")).ended(0);
    Ok(())
}

fn no_fsync() -> Outcome {
    for (option, setting) in
        [("fsync=off", "fsync off"), ("synchronous_standby_names=ghost", "synchronous_standby_names ghost")]
    {
        let theirs = postgres(&[option]);
        let url = format!("--set postgres.url={}", theirs.url);
        serves_class_none_only(&Work::new(), "postgres/bytea", &url, setting)?;
    }
    Ok(())
}

fn no_sync_binlog() -> Outcome {
    let work = Work::new();
    let theirs = mariadb(&["--log-bin=changes", "--sync-binlog=0"]);
    serves_class_none_only(
        &work,
        "mariadb/blob",
        &format!("--set mariadb.url={}", theirs.url),
        "sync_binlog 0",
    )
}

fn no_doublewrite() -> Outcome {
    for (option, setting) in [
        ("--innodb-doublewrite=0", "innodb_doublewrite OFF"),
        ("--innodb-flush-method=nosync", "innodb_flush_method nosync"),
        ("--innodb-flush-method=O_DIRECT_NO_FSYNC", "innodb_flush_method O_DIRECT_NO_FSYNC"),
    ] {
        let work = Work::new();
        let theirs = mariadb(&[option]);
        serves_class_none_only(&work, "mariadb/blob", &format!("--set mariadb.url={}", theirs.url), setting)?;
    }
    Ok(())
}

/// No reason to refuse it: many servers' disks have no cache that they lose.
fn unflushed_copies() -> Outcome {
    for (method, is_told) in [("O_DIRECT", true), ("fsync", false)] {
        let work = Work::new();
        let theirs = mysql(&[&format!("--innodb-flush-method={method}")]);
        let result = work.result(&quick("mysql/blob", &format!("--set mysql.url={}", theirs.url)));
        let is_old = result
            .candidates
            .iter()
            .any(|other| other.facts.get("version").is_some_and(|version| version.starts_with("8.0.15")));
        let told = result.warnings.iter().any(
            |warning| matches!(warning, Warning::Weaker { store, why } if store == "mysql/blob" && why.contains(method)),
        );
        assert_eq!(told, is_told && !is_old, "{method}: {:?}", result.warnings);
    }
    Ok(())
}

fn too_old() -> Outcome {
    let work = Work::new();
    // MariaDB says of itself what it is told to say, for clients that insist.
    let theirs = mariadb(&["--version=5.1.73-MariaDB"]);
    let line = quick("mariadb/blob", &format!("--set mariadb.url={}", theirs.url));
    work.say(&line).refused(&["older than MariaDB 10.4", "5.1.73"]);
    Ok(())
}

fn packet_limit() -> Outcome {
    let work = Work::new();
    let theirs = mariadb(&["--max-allowed-packet=1M"]);
    let line = quick("mariadb/blob", &format!("--corpus fixed:2MB --set mariadb.url={}", theirs.url));
    work.say(&line).refused(&["max_allowed_packet", "1048576"]);
    // As text, a blob takes twice its size.
    let text = "--corpus fixed:600kB --set mariadb/blob.protocol";
    let line =
        |protocol| quick("mariadb/blob", &format!("{text}={protocol} --set mariadb.url={}", theirs.url));
    work.say(&line("text")).refused(&["SET GLOBAL max_allowed_packet = 1265664"]);
    work.say(&line("prepared")).ended(0);
    Ok(())
}

// ---- private servers ------------------------------------------------------------------------------------------------

/// SeaweedFS's gateway says nothing of a filer that has ended because its port was taken, and waits. It takes connections before it has
/// its own second port, and ends where that is taken.
fn needs_have_ended() -> Outcome {
    const NEVER: Duration = Duration::from_secs(3600);
    let place = tempfile::tempdir()?;
    let start = |log: &str, script: &str| {
        let launch = Launch::new(Path::new("/bin/sh"), place.path()).log(place.path().join(log));
        Server::start(&launch.args(["-c", script]))
    };
    let needed = start("needed.log", "echo address already in use; exit 3")?;
    let mut waits = start("waits.log", "sleep 3600")?;
    let said = waits.wait_beside(&[&needed], NEVER, || anyhow::bail!("nobody listens")).unwrap_err();
    let said = format!("{said:#}");
    assert!(said.contains("exit status: 3") && said.contains("address already in use"), "{said}");
    let mut ends = start("ends.log", "echo address already in use; exit 3")?;
    // Somebody else answers, when it has said its last word and had the time to end.
    let log = place.path().join("ends.log");
    let answered = || {
        while !std::fs::read_to_string(&log)?.contains("in use") {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_secs(6));
        Ok(())
    };
    let said = format!("{:#}", ends.wait_until_ready(NEVER, answered).unwrap_err());
    assert!(said.contains("exit status: 3") && said.contains("address already in use"), "{said}");
    Ok(())
}

/// Processes that work below a directory or have it in their command line.
fn processes(path: &Path) -> Vec<(Pid, String)> {
    let shown = path.display().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
        else {
            continue;
        };
        let bytes = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&bytes).replace('\0', " ");
        let works_there = std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(path));
        if works_there || command.contains(&shown) {
            found.push((pid, command));
        }
    }
    found
}

/// Acts upon the processes of a run's private server when the run has begun to read in its first round. It is held still
/// meanwhile, and reads half a second, so that it has not got further before.
fn reading(work: &Work, store: &str, act: impl Fn(&Child, &[(Pid, String)])) -> Child {
    std::fs::create_dir(work.path("place")).unwrap();
    let line = format!(
        "run --stores {store},files/hashed --corpus fixed:10kB --blobs 300 --rounds 2 --phases fill,read-warm --verbose --dir place \
         --out out --seed 3"
    );
    // Of two candidates in a seeded order one is the server's: whichever it is, it has begun when two have.
    let mut child = run_until(work, &line, "read-warm", 1);
    let acted = |child: &Child| {
        held(child, || {
            let servers = processes(&work.path("place"));
            if !servers.is_empty() {
                act(child, &servers);
            }
            !servers.is_empty()
        })
    };
    while !acted(&child) {
        child = until(child, "read-warm", 1);
    }
    child
}

fn dies() -> Outcome {
    let work = Work::new();
    let is_postmaster = |command: &str| command.contains("/postgres -D") && !command.contains("supervise");
    let child = reading(&work, "postgres/bytea", |_, servers| {
        let server = servers.iter().find(|(_, command)| is_postmaster(command)).unwrap();
        kill_process(server.0, Signal::KILL).unwrap();
    });
    let said = wait(child).ended(1);
    let result = RunResult::load(&work.path("out"))?;
    let status = |store: &str| result.candidate(store).map(|candidate| candidate.status);
    assert_eq!(status("postgres/bytea"), Some(Status::Failed), "{}", said.stdout);
    assert_eq!(status("files/hashed"), Some(Status::Measured), "{}", said.stdout);
    assert!(said.stdout.contains("`postgres` died"), "{}", said.stdout);
    let rounds = result.store_rounds.iter().filter(|visit| visit.store == "files/hashed").count();
    assert_eq!(rounds, 2, "the other store goes on");
    assert!(processes(&work.path("place")).is_empty());
    Ok(())
}

/// Where there is a device, and the kernel counts for each process.
fn moves_for_us() -> Outcome {
    let work = Work::new();
    let result = work.result(
        "run --stores redis --corpus fixed:100kB --blobs 60 --rounds 1 --phases fill --quiet --out out",
    );
    let round = &result.results[0].rounds[0];
    if result.machine.device.is_some() {
        assert!(round.own_written_bytes.unwrap() >= round.bytes, "{round:?}");
        assert!(round.others_written_bytes.is_some() && round.others_read_bytes.is_some());
    }
    Ok(())
}

/// It reads fewer keys than they do, so that nothing is compared with it.
fn cold_beside_a_server() -> Outcome {
    let work = Work::new();
    let run =
        "--corpus fixed:1kB --blobs 250 --rounds 2 --phases fill,read-cold,read-again --quiet --out out";
    let result = work.result(&format!("run --stores files/hashed,nginx {run}"));
    for phase in ["read-cold", "read-again"] {
        let cell = |store: &str| {
            result.cell(store, phase).ok_or_else(|| format!("no cell of `{store}` in `{phase}`"))
        };
        let (files, nginx) = (cell("files/hashed")?, cell("nginx")?);
        // Two per cent of the keys in a pass: of 40 passes a server does two.
        assert_eq!((files.ops, nginx.ops), (2 * 200, 2 * 10), "{phase}");
        let short = |why: &Option<Reason>| why.as_ref().is_some_and(Reason::is_too_short);
        assert!(!short(&files.not_ranked) && short(&nginx.not_ranked), "{:?}", nginx.not_ranked);
        let of_phase = |comparison: &&blobwise::result::Comparison| comparison.phase == phase;
        let compared: Vec<_> = result.comparisons.iter().filter(of_phase).collect();
        assert!(!compared.is_empty() && compared.iter().all(|comparison| comparison.ratio.is_none()));
    }
    Ok(())
}

fn shared(stores: &str, class: &str) -> Outcome {
    let work = Work::new();
    let (family, _) = stores.split_once('/').unwrap_or_default();
    let run = "--blobs 12 --rounds 2 --phases fill,read-warm,overwrite --quiet --dir place --out out";
    let line = format!("run --stores {stores} --durability {class} --set {family}.server=shared {run}");
    let result = work.result(&line);
    assert_eq!(result.candidates.len(), stores.split(',').count());
    for cell in result.results.iter().filter(|cell| cell.phase == "overwrite") {
        assert_eq!((cell.status, cell.durability.name()), (Status::Measured, class), "{}", cell.store);
    }
    for candidate in &result.candidates {
        assert_eq!(candidate.status, Status::Measured, "{}: {:?}", candidate.store, candidate.reason);
        let whose = candidate.facts.get("server").map(String::as_str);
        assert_eq!(whose, Some("shared by candidates of the run"), "{}", candidate.store);
        // What the second round uses again holds nothing of the first.
        let visits = result.store_rounds.iter().filter(|visit| visit.store == candidate.store);
        let empty: Vec<_> = visits.map(|visit| visit.footprint.empty_bytes).collect();
        assert!(empty[0].is_some() && empty == [empty[0]; 2], "{}: {empty:?}", candidate.store);
    }
    assert!(processes(&work.path("place")).is_empty());
    assert!(work.names("place").is_empty());
    Ok(())
}

fn indexes(store: &str) -> Outcome {
    let work = Work::new();
    const BLOBS: u64 = 1_000;
    let line = format!(
        "run --stores {store},files/hashed --corpus fixed:300 --blobs {BLOBS} --rounds 1 --phases fill --quiet --out out"
    );
    let result = work.result(&line);
    let of = |store: &str| result.footprints.iter().find(|footprint| footprint.store == store).unwrap();
    // Keys of 32 digits: no entry of an index is shorter, and none is as long as key and blob together.
    let index = of(store).index_bytes.ok_or("it tells nothing")?;
    assert!(index > BLOBS * 32 && index < BLOBS * 300, "{index} B");
    assert_eq!(of("files/hashed").index_bytes, None);
    Ok(())
}

fn killed(store: &str) -> Outcome {
    let work = Work::new();
    let child = reading(&work, store, |child, servers| {
        // What is named there outlives its processes and is found by nobody.
        for (pid, command) in servers {
            let maps =
                std::fs::read_to_string(format!("/proc/{}/maps", pid.as_raw_nonzero())).unwrap_or_default();
            let shared = maps.lines().find(|line| line.contains(" /dev/shm/"));
            assert!(shared.is_none(), "`{command}` has memory that would stay: {shared:?}");
        }
        send(child, Signal::KILL);
    });
    wait(child);
    for _ in 0..600 {
        if processes(&work.path("place")).is_empty() {
            let again =
                "run --stores memory --blobs 5 --rounds 1 --phases fill --quiet --dir place --out again";
            work.say(again).ended(0);
            assert!(work.names("place").is_empty(), "what the killed run left is still there");
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(format!("{:#?} are left", processes(&work.path("place"))).into())
}

/// What the answer says there, on a line. What the server logged of it is in the tables, and in the result.
fn on_a_small_disk(options: &str, corpus: &str, others: &str) -> Result<String, Failed> {
    let work = Work::new();
    let line = format!(
        "run --stores postgres/bytea,memory {corpus} --rounds 1 --phases fill,read-warm --quiet --dir mounted --out out"
    );
    std::fs::create_dir(work.path("mounted"))?;
    let said = mounted_beside("mounted", &work, options, others, &line).ended(1);
    let tables = collapse_whitespace(&work.say("report out --tables").ended(0).stdout);
    assert!(tables.contains("No space left on device"), "{tables}");
    let result = RunResult::load(&work.path("out"))?;
    let failed = result.candidate("postgres/bytea").ok_or("it is not in the result")?;
    assert_eq!(failed.status, Status::Failed);
    assert!(failed.reason.as_ref().is_some_and(|why| why.contains("No space left on device")), "{failed:?}");
    assert_eq!(result.candidate("memory").map(|candidate| candidate.status), Some(Status::Measured));
    Ok(collapse_whitespace(&said.stdout))
}

/// Too small for the directory that `initdb` makes.
fn disk_too_small() -> Outcome {
    let before = segments();
    // There is room until others take some of it.
    let others = "(until ls -d mounted/*/cache; do sleep 0.01; done; head -c 45M /dev/zero >mounted/theirs) >/dev/null 2>&1 & true";
    let answer = on_a_small_disk("size=70m", "--corpus fixed:1000 --blobs 5", others)?;
    assert!(answer.contains("No space left on device"), "{answer}");
    let newer: Vec<String> = segments().into_iter().filter(|name| !before.contains(name)).collect();
    // Those of others that run meanwhile are mapped by them, or gone again.
    let all = std::fs::read_dir("/proc")?.flatten();
    let maps: String =
        all.filter_map(|process| std::fs::read_to_string(process.path().join("maps")).ok()).collect();
    let still = segments();
    let left: Vec<&String> =
        newer.iter().filter(|name| !maps.contains(name.as_str()) && still.contains(name)).collect();
    assert!(left.is_empty(), "`initdb` left {left:?} in /dev/shm");
    Ok(())
}

/// Segments of PostgreSQL's shared memory.
fn segments() -> Vec<String> {
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("PostgreSQL.")).collect()
}

/// Two data directories of 39 MB fit, the blobs and their log do not.
fn disk_fills_up() -> Outcome {
    let answer = on_a_small_disk("size=92m", "--corpus fixed:500kB --blobs 14", "true")?;
    assert!(answer.contains("`postgres/bytea` (") && !answer.contains("the end of its log"), "{answer}");
    Ok(())
}

fn no_data_directory() -> Outcome {
    let work = Work::new();
    let program =
        stores::adapters().find(|store| store.name == "postgres/bytea").ok_or("no store")?.programs[0];
    let real = program.find()?.path;
    executable(&work.path("postgres"), &format!("exec '{}' \"$@\"", real.display()))?;
    executable(&work.path("initdb"), "echo 'initdb: error: no room for a cluster' >&2\nexit 1")?;
    let mut command = work.blobwise(&quick("postgres/bytea,files/hashed", ""));
    finish(command.env("BLOBWISE_POSTGRES", work.path("postgres"))).ended(1);
    let result = RunResult::load(&work.path("out"))?;
    for cell in &result.results {
        let expected = if cell.store == "files/hashed" { Status::Measured } else { Status::Failed };
        assert_eq!(cell.status, expected, "{}", cell.store);
        let reason = cell.reason.as_deref().unwrap_or_default();
        assert!(
            expected == Status::Measured
                || (reason.contains("initdb") && reason.contains("no room for a cluster")),
            "{reason}"
        );
    }
    Ok(())
}

/// What was named is not replaced by what is found elsewhere: two builds of a server are told apart by it.
fn other_program() -> Outcome {
    let work = Work::new();
    let mut command = work.blobwise(&quick("postgres/bytea", ""));
    finish(command.env("BLOBWISE_POSTGRES", "/bin/echo"))
        .refused(&["`BLOBWISE_POSTGRES` does not name `postgres`", "/bin/echo"]);
    assert!(work.names(".").is_empty());
    Ok(())
}

fn missing_program() -> Outcome {
    let work = Work::new();
    let mut command = work.blobwise(&quick("mysql/blob", ""));
    command.env("HOME", work.path("nobody")).env_remove("XDG_CACHE_HOME");
    command.env_remove("BLOBWISE_MYSQLD").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let said = finish(&mut command).refused(&["no `mysqld` was found", "install it with"]);
    // Debian's mysqld is MariaDB, and is told apart by what it says.
    if Path::new("/usr/sbin/mysqld").exists() {
        assert!(said.stderr.contains("MariaDB"), "{}", said.stderr);
    }
    assert!(work.names(".").is_empty());
    Ok(())
}
