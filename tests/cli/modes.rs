//! Servers of the user's that are set up otherwise than they are shipped: statements mean the same there, what a killed run left is found
//! again, and what cannot be finished is taken back.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use mysql::prelude::Queryable;
use rustix::process::Signal;

use crate::program::{BLOBWISE, Outcome, Work, missing, needing, start};
use crate::servers::quick;
use crate::signals::{kill_amid, run_until, send, wait};
use crate::theirs::{PASSWORD, Theirs, mariadb, mysql, postgres, psql, standby};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    let no_postgres = || missing("postgres/bytea");
    let (no_mariadb, no_mysql) = (|| missing("mariadb/blob"), || missing("mysql/blob"));
    vec![
        needing(
            "settings of a role do not change what statements of PostgreSQL mean",
            no_postgres(),
            odd_role,
        ),
        needing("a role that is kept from writing is told so", no_postgres(), read_only),
        needing("what an event trigger refuses leaves nothing", no_postgres(), event_trigger),
        needing("a database that sends every table to subscribers is refused", no_postgres(), published),
        needing("no mode of MySQL changes what statements mean", no_mysql(), || {
            in_modes("mysql", &mysql(&odd("--sql-require-primary-key=ON")), MYSQL_MODES)
        }),
        needing("no mode of MariaDB changes what statements mean", no_mariadb(), || {
            in_modes("mariadb", &mariadb(&odd("--innodb-force-primary-key=ON")), MARIADB_MODES)
        }),
        needing("what MySQL refuses after the database leaves nothing", no_mysql(), || {
            taken_back("mysql", &mysql(&["--disabled-storage-engines=InnoDB"]))
        }),
        needing("what MariaDB refuses after the database leaves nothing", no_mariadb(), || {
            taken_back("mariadb", &mariadb(&[]))
        }),
        needing("a run of MySQL that is killed before its tables is cleaned up", no_mysql(), || {
            killed_before_tables("mysql", &mysql(&[]))
        }),
        needing("a run of MariaDB that is killed before its tables is cleaned up", no_mariadb(), || {
            killed_before_tables("mariadb", &mariadb(&[]))
        }),
        needing("a server that a run would change for good is refused", no_mariadb(), changed_for_good),
    ]
}

// ---- PostgreSQL ------------------------------------------------------------------------------------------------------

const SCHEMAS: &str = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'blobwise%'";

/// All that a role or a database may have of its own and that statements, answers or a session's life depend on.
fn odd_role() -> Outcome {
    let theirs = postgres(&[]);
    psql(&theirs.url, &format!("CREATE ROLE odd LOGIN SUPERUSER PASSWORD '{PASSWORD}'"))?;
    for (name, value) in [
        ("standard_conforming_strings", "off"),
        ("backslash_quote", "off"),
        ("bytea_output", "escape"),
        ("search_path", "nowhere"),
        ("client_encoding", "LATIN1"),
        ("datestyle", "'German, DMY'"),
        ("intervalstyle", "sql_standard"),
        ("extra_float_digits", "'-15'"),
        ("array_nulls", "off"),
        ("quote_all_identifiers", "on"),
        ("transform_null_equals", "on"),
        ("default_transaction_isolation", "serializable"),
        ("default_transaction_deferrable", "on"),
        ("idle_session_timeout", "150"),
        ("idle_in_transaction_session_timeout", "150"),
        ("lock_timeout", "5"),
        ("session_replication_role", "replica"),
    ] {
        psql(&theirs.url, &format!("ALTER ROLE odd IN DATABASE postgres SET {name} = {value}"))?;
    }
    // What is called like ours and lies where a session of the role's looks first.
    psql(
        &theirs.url,
        "CREATE SCHEMA nowhere; CREATE TABLE nowhere.blobs(key text); CREATE TABLE nowhere.uploads(digest text);",
    )?;
    let of = format!("--set postgres.url={}", theirs.url.replace("owner:", "odd:"));
    let objects = "postgres/large-object";
    let next = quick(objects, &format!("{of} --set {objects}.buffer=whole,8192"));
    killed_and_cleaned(&Work::new(), objects, &of, &next, &|| Ok(psql(&theirs.url, SCHEMAS)?.parse()?))?;
    let rows = format!("{of} --set postgres.protocol=binary,text");
    Work::new().say(&quick("postgres/bytea,postgres/chunked", &rows)).ended(0);
    assert_eq!(psql(&theirs.url, SCHEMAS)?, "0");
    assert_eq!(psql(&theirs.url, "SELECT count(*) FROM nowhere.blobs")?, "0");
    assert_eq!(psql(&theirs.url, "SELECT count(*) FROM pg_largeobject_metadata")?, "0");
    Ok(())
}

/// Whoever set that meant it: it is not overridden but by the URL.
fn read_only() -> Outcome {
    let (theirs, work) = (postgres(&[]), Work::new());
    psql(
        &theirs.url,
        "CREATE DATABASE guarded; ALTER DATABASE guarded SET default_transaction_read_only = on;",
    )?;
    let url = theirs.url.replace("/postgres", "/guarded").replacen("guarded://", "postgres://", 1);
    let line = quick("postgres/bytea", &format!("--set postgres.url={url}"));
    work.say(&line)
        .refused(&["default_transaction_read_only is on", "?options=-cdefault_transaction_read_only=off"]);
    work.say(&format!("{line}?options=-cdefault_transaction_read_only=off")).ended(0);
    assert_eq!(psql(&url, SCHEMAS)?, "0");
    Ok(())
}

/// Subscribers stop at a table that they lack, and neither a standby nor a template is written to. Other databases of the same
/// server are used.
fn published() -> Outcome {
    let (theirs, work) = (postgres(&["wal_level=logical"]), Work::new());
    let of = |theirs: &Theirs| quick("postgres/bytea", &format!("--set postgres.url={}", theirs.url));
    work.say(&of(&standby(&theirs, &[]))).refused(&["the server is a standby", "name its primary"]);
    work.say(&of(&theirs).replace("/postgres", "/template1")).refused(&["the database is a template"]);
    psql(&theirs.url, "CREATE DATABASE other; CREATE PUBLICATION everything FOR ALL TABLES;")?;
    psql(&theirs.url, "SELECT pg_create_logical_replication_slot('theirs', 'pgoutput')")?;
    work.say(&of(&theirs))
        .refused(&["the publication `everything` is FOR ALL TABLES", "name another database of this server"]);
    assert_eq!(psql(&theirs.url, SCHEMAS)?, "0");
    work.say(&of(&theirs).replace("/postgres", "/other")).ended(0);
    Ok(())
}

/// Tables are refused where schemas are not.
fn event_trigger() -> Outcome {
    let (theirs, work) = (postgres(&[]), Work::new());
    psql(
        &theirs.url,
        "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'tables are made by the team of databases'; END $$;
         CREATE EVENT TRIGGER no_tables ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION refuse();",
    )?;
    for _ in 0..2 {
        let said = work.say(&quick("postgres/bytea", &format!("--set postgres.url={}", theirs.url)));
        said.refused(&["tables are made by the team of databases"]);
        assert_eq!(psql(&theirs.url, SCHEMAS)?, "0");
    }
    Ok(())
}

// ---- MySQL and MariaDB -----------------------------------------------------------------------------------------------

/// What quotes, escapes and operators mean, each as far from the usual as can be, and with and without strictness. MySQL is as strict as
/// it is shipped in all other trials.
const MYSQL_MODES: &[&str] =
    &["ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION", ""];
const MARIADB_MODES: &[&str] = &[
    "ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,EMPTY_STRING_IS_NULL,SIMULTANEOUS_ASSIGNMENT",
    "ORACLE,TRADITIONAL,ONLY_FULL_GROUP_BY",
    "",
];

/// What else a server may have for sessions and tables that do not say it.
fn odd(of_keys: &str) -> Vec<&str> {
    vec![of_keys, "--default-storage-engine=MyISAM", "--character-set-server=utf16"]
}

/// The same of what can be set while it runs.
const ODD: &str = "SET GLOBAL autocommit = 0, GLOBAL completion_type = 2, GLOBAL sql_safe_updates = 1, GLOBAL sql_select_limit = 3, \
                   GLOBAL foreign_key_checks = 0, GLOBAL unique_checks = 0, GLOBAL wait_timeout = 1";

fn databases(theirs: &Theirs) -> anyhow::Result<Vec<String>> {
    let mut direct = mysql::Conn::new(theirs.url.as_str())?;
    direct.query_drop("SET SESSION sql_select_limit = 1000000")?;
    let all: Vec<String> = direct.query("SHOW DATABASES")?;
    Ok(all.into_iter().filter(|name| name.starts_with("blobwise")).collect())
}

/// Of a server with one mode after the other: a run is killed, the next one removes what it left, and all ways of asking do.
fn in_modes(family: &str, theirs: &Theirs, modes: &[&str]) -> Outcome {
    mysql::Conn::new(theirs.url.as_str())?.query_drop(ODD)?;
    if family == "mariadb" {
        let odd = "SET GLOBAL idle_transaction_timeout = 1";
        mysql::Conn::new(theirs.url.as_str())?.query_drop(odd)?;
    }
    for mode in modes {
        mysql::Conn::new(theirs.url.as_str())?.query_drop(format!("SET GLOBAL sql_mode = '{mode}'"))?;
        let work = Work::new();
        let of = format!("--set {family}.url={}", theirs.url);
        let next = format!(
            "run --stores {family}/blob,{family}/chunked {of} --set {family}/blob.protocol=prepared,text,procedure \
             --blobs 12 --rounds 1 --phases fill,read-warm,overwrite,delete-half --quiet --out all"
        );
        killed_and_cleaned(&work, &format!("{family}/blob"), &of, &next, &|| Ok(databases(theirs)?.len()))
            .map_err(|why| format!("{mode}: {why:?}"))?;
    }
    // Hosts limit the time of a statement; a large blob takes longer than this.
    let (limit, few) = match family {
        "mariadb" => ("max_statement_time", "0.02"),
        _ => ("max_execution_time", "20"),
    };
    let set = |value: &str| -> anyhow::Result<()> {
        let mut direct = mysql::Conn::new(theirs.url.as_str())?;
        Ok(direct.query_drop(format!("SET GLOBAL {limit} = {value}"))?)
    };
    set(few)?;
    let line = format!(
        "run --stores {family}/blob --corpus fixed:12MB --blobs 2 --rounds 1 --phases fill,read-warm --quiet \
         --out out --set {family}.url={}",
        theirs.url
    );
    let said = Work::new().say(&line);
    set("0")?;
    said.ended(0);
    Ok(())
}

/// A run is killed; what it left is there, and not after the next one.
fn killed_and_cleaned(
    work: &Work,
    store: &str,
    of: &str,
    next: &str,
    left: &dyn Fn() -> anyhow::Result<usize>,
) -> Outcome {
    let line = format!(
        "run --stores {store} {of} --blobs 40 --rounds 20 --phases fill,read-warm --verbose --no-drop-caches --out killed"
    );
    let child = run_until(work, &line, "read-warm", 1);
    kill_amid(child, "read-warm", || left().is_ok_and(|left| left > 0));
    assert_eq!(left()?, 1, "what was killed left nothing to find");
    work.say(next).ended(0);
    cleaned(store, of, left)
}

/// The next run removes what one that was killed left, once the server notices that the client has gone.
fn cleaned(store: &str, of: &str, left: &dyn Fn() -> anyhow::Result<usize>) -> Outcome {
    for _ in 0..20 {
        if left()? == 0 {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(250));
        Work::new().say(&quick(store, of)).ended(0);
    }
    assert_eq!(left()?, 0, "of ours are still there");
    Ok(())
}

/// Once it has a database, the server refuses its tables, or their first row.
fn taken_back(family: &str, theirs: &Theirs) -> Outcome {
    let work = Work::new();
    let socket = theirs._sockets.path().join("s");
    let root = mysql::OptsBuilder::new().socket(socket.to_str()).user(Some("root"));
    let mut direct = mysql::Conn::new(root)?;
    direct.query_drop("GRANT SELECT, CREATE, DROP, RELOAD ON *.* TO guest@'127.0.0.1'")?;
    let url = theirs.url.replace("owner:", "guest:");
    for _ in 0..2 {
        work.say(&quick(&format!("{family}/blob"), &format!("--set {family}.url={url}"))).refused(&[family]);
        assert_eq!(databases(theirs)?, Vec::<String>::new());
    }
    Ok(())
}

/// Although its user has all rights.
fn changed_for_good() -> Outcome {
    let (theirs, work) = (mariadb(&[]), Work::new());
    for (setting, value, usual) in [("read_only", "ON", "OFF"), ("innodb_file_per_table", "OFF", "ON")] {
        let set = |value: &str| -> anyhow::Result<()> {
            let mut direct = mysql::Conn::new(theirs.url.as_str())?;
            Ok(direct.query_drop(format!("SET GLOBAL {setting} = {value}"))?)
        };
        set(value)?;
        let line = quick("mariadb/blob", &format!("--set mariadb.url={}", theirs.url));
        work.say(&line).refused(&[&format!("the server has {setting} {value}"), "name another server"]);
        set(usual)?;
    }
    assert_eq!(databases(&theirs)?, Vec::<String>::new());
    Ok(())
}

/// By a way to the server on which the program is killed when it is about to make its tables. A database of somebody's that is as
/// empty stays.
fn killed_before_tables(family: &str, theirs: &Theirs) -> Outcome {
    let work = Work::new();
    let stranger = "blobwise_00000000000000ab";
    mysql::Conn::new(theirs.url.as_str())?.query_drop(format!("CREATE DATABASE {stranger}"))?;
    let (port, asked) = told_before(theirs.url.rsplit_once(':').ok_or("no port")?.1.parse()?, b".blobs(id")?;
    let (begin, _) = theirs.url.rsplit_once(':').ok_or("no port")?;
    let line =
        quick(&format!("{family}/blob"), &format!("--set {family}.url={begin}:{port}?ssl-mode=DISABLED"));
    let child = start(work.command(BLOBWISE).args(line.split_whitespace()));
    asked.recv()?;
    send(&child, Signal::KILL);
    wait(child);
    assert_eq!(databases(theirs)?.len(), 2, "it was not killed after its database was made");
    let of = format!("--set {family}.url={}", theirs.url);
    cleaned(&format!("{family}/blob"), &of, &|| Ok(databases(theirs)?.len() - 1))?;
    assert_eq!(databases(theirs)?, [stranger]);
    Ok(())
}

/// A port behind which another one is, until a client sends these words: then it is told, and nothing goes on.
fn told_before(to: u16, words: &'static [u8]) -> std::io::Result<(u16, mpsc::Receiver<()>)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else { continue };
            let (mut answers, mut back) = (far.try_clone().unwrap(), near.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
            let tell = tell.clone();
            std::thread::spawn(move || {
                let (mut near, mut far, mut room) = (near, far, vec![0; 1 << 16]);
                while let Ok(len @ 1..) = near.read(&mut room) {
                    if room[..len].windows(words.len()).any(|part| part == words) {
                        tell.send(()).ok();
                        // Until the client is gone.
                        while near.read(&mut room).is_ok_and(|bytes| bytes > 0) {}
                        break;
                    }
                    far.write_all(&room[..len]).ok();
                }
                far.shutdown(std::net::Shutdown::Both).ok();
            });
        }
    });
    Ok((port, told))
}
