//! The room of servers of the user's: a run that does not fit is refused before anything is put there, one that fits takes no more than
//! it said, and each says before what it will do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use libtest_mimic::Failed;

use crate::caches::{PASSWORD, PATIENCE, Theirs, keys, lines};
use crate::places::no_mounts;
use crate::program::{Outcome, Said, Work, held, missing, needing};
use crate::servers::quick;
use crate::theirs::{mariadb, mariadb_on, mysql, postgres, psql};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    let (memcached, redis) = (|| missing("memcached"), || missing("redis"));
    let mut trials = vec![
        needing(
            "a redis without room is left as it was, and the size that was named fits",
            redis(),
            small_redis,
        ),
        needing("what redis takes is no more than was said", redis(), redis_takes),
        needing(
            "a redis that others fill meanwhile is left alone by the next visit",
            redis(),
            filled_meanwhile,
        ),
        needing(
            "a memcached without room is left as it was, and the size that was named fits",
            memcached(),
            small_memcached,
        ),
        needing("a run says what it will do in a PostgreSQL", missing("postgres/bytea"), postgres_said),
        needing("a run leaves connections to others", missing("postgres/bytea"), few_connections),
        needing(
            "a database whose disk has no room is left as it was",
            missing("mariadb/blob").or_else(no_mounts),
            small_disk,
        ),
        needing(
            "a database whose log has no room on a disk of its own is left as it was",
            missing("mariadb/blob").or_else(no_mounts),
            small_log,
        ),
    ];
    for (store, option) in [("mariadb/blob", "mariadb"), ("mysql/blob", "mysql")] {
        let name = format!("a run says what it will do in a {option}");
        trials.push(needing(&name, missing(store), move || mysql_said(option)));
    }
    trials
}

/// The default run with so many rounds.
fn default_run(more: &str) -> String {
    format!(
        "run --durability none --rounds 1 --phases fill,read-warm,overwrite,delete-half --quiet --out out {more}"
    )
}

/// The size that a refusal names.
fn named_size(said: &Said) -> Result<String, Failed> {
    let (_, behind) = said.stderr.split_once("--corpus-bytes ").ok_or("it names no size")?;
    Ok(behind.split('`').next().unwrap_or_default().to_owned())
}

// ---- Redis -----------------------------------------------------------------------------------------------------------

const OWN_KEYS: usize = 150;

/// Puts somebody's own keys into database 0, each of so many bytes; they expire in a day where `expires`.
fn fill_redis(port: u16, count: usize, bytes: usize, expires: bool) -> Outcome {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("AUTH {PASSWORD}\r\n").as_bytes())?;
    let (value, expiry) = ("x".repeat(bytes), if expires { "$2\r\nEX\r\n$5\r\n86400\r\n" } else { "" });
    for index in 0..count {
        let (words, key) = (if expires { 5 } else { 3 }, format!("own{index:03}"));
        let put =
            format!("*{words}\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${bytes}\r\n{value}\r\n{expiry}", key.len());
        stream.write_all(put.as_bytes())?;
    }
    let answers = BufReader::new(stream).lines().take(count + 1).collect::<std::io::Result<Vec<String>>>()?;
    assert!(answers.iter().all(|answer| answer == "+OK"), "{answers:?}");
    Ok(())
}

/// A number that `INFO` tells.
fn info(port: u16, name: &str) -> Result<u64, Failed> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(format!("AUTH {PASSWORD}\r\nINFO everything\r\nQUIT\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let begin = format!("{name}:");
    let value = text.lines().find_map(|line| line.strip_prefix(&begin)).ok_or("it does not tell that")?;
    Ok(value.trim().parse()?)
}

/// Whatever the server does when it is full.
fn small_redis() -> Outcome {
    for (policy, expires, words) in [
        ("allkeys-lru", false, "evicts keys (allkeys-lru)"),
        ("volatile-lru", true, "evicts keys that expire (volatile-lru)"),
        ("noeviction", false, "refuses every write (noeviction)"),
    ] {
        let work = Work::new();
        let theirs = Theirs::redis(&work, &["--maxmemory", "24mb", "--maxmemory-policy", policy]);
        fill_redis(theirs.port, OWN_KEYS, 100_000, expires)?;
        let url = format!("--stores files/hashed,redis {}/3", theirs.redis_url());
        let said = work.say(&default_run(&url));
        let said =
            said.refused(&["left of maxmemory 25.2 MB", words, "This run puts up to", "or raise maxmemory"]);
        assert!(!said.stderr.contains(PASSWORD), "{}", said.stderr);
        assert_eq!(work.names("."), ["theirs"]);
        let is_untouched = || -> Outcome {
            assert_eq!(keys(theirs.port, "own*").len(), OWN_KEYS);
            assert_eq!(info(theirs.port, "evicted_keys")?, 0);
            assert_eq!(lines(theirs.port, "SET another own\r\nDEL another", 2), ["+OK", ":1"]);
            assert_eq!(keys(theirs.port, "*").len(), OWN_KEYS);
            Ok(())
        };
        is_untouched()?;
        work.say(&default_run(&format!("{url} --corpus-bytes {}", named_size(&said)?))).ended(0);
        is_untouched()?;
    }
    Ok(())
}

/// Sizes that the allocator rounds up most, and ones that change.
fn redis_takes() -> Outcome {
    for more in [
        "--corpus fixed:131073 --blobs 100 --phases fill,overwrite,read-warm",
        "--phases fill,age --corpus-bytes 8MB",
    ] {
        let work = Work::new();
        let theirs = Theirs::redis(&work, &["--maxmemory", "500mb"]);
        let before = info(theirs.port, "used_memory")?;
        let line = format!("run --stores redis --durability none --rounds 1 --workers 2 --out out {more}");
        let said = work.say(&format!("{line} {}", theirs.redis_url())).ended(0);
        let first = said.stderr.lines().next().unwrap_or_default();
        assert!(
            first.starts_with("`redis` at `redis://:***@127.0.0.1")
                && first.contains("puts keys `blobwise_...` into database 0, loads up to")
                && first.contains("by 3 connections, removes them; takes up to"),
            "{first}"
        );
        assert!(!said.stderr.contains("Stores lie in"), "{}", said.stderr);
        let (_, takes) = first.split_once("takes up to ").ok_or("nothing is taken")?;
        let takes = takes.split(" of ").next().unwrap_or_default();
        // It is shown with two or three digits.
        let most = blobwise::units::parse_bytes(takes)? as f64 * 1.05;
        let took = info(theirs.port, "used_memory_peak")? - before;
        assert!((took as f64) < most, "it took {took} B, and {takes} were said");
        assert!(keys(theirs.port, "*").is_empty());
    }
    Ok(())
}

/// The room is looked at again before each visit.
fn filled_meanwhile() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::redis(&work, &["--maxmemory", "24mb", "--maxmemory-policy", "allkeys-lru"]);
    let line = "run --stores redis --durability none --corpus fixed:100kB --blobs 80 --rounds 2 --phases fill,read-warm --verbose \
                --no-live --out out";
    let child = crate::signals::run_until(&work, &format!("{line} {}", theirs.redis_url()), "read-warm", 1);
    held(&child, || -> Outcome {
        // It holds 8 MB, which it removes before its next visit, so that nobody has to go for these.
        fill_redis(theirs.port, 80, 150_000, false)?;
        assert_eq!((keys(theirs.port, "own*").len(), info(theirs.port, "evicted_keys")?), (80, 0));
        Ok(())
    })?;
    let said = crate::signals::wait(child).ended(1);
    assert!(said.stdout.contains("left of maxmemory"), "{}", said.stdout);
    assert_eq!((keys(theirs.port, "*").len(), info(theirs.port, "evicted_keys")?), (80, 0));
    Ok(())
}

// ---- memcached -------------------------------------------------------------------------------------------------------

/// What it says of itself under a name.
fn stat(port: u16, name: &str) -> Option<String> {
    let begin = format!("STAT {name} ");
    lines(port, "stats\r\nquit", 500).iter().find_map(|line| line.strip_prefix(&begin).map(str::to_owned))
}

/// Few items in a class of sizes may go though there is memory for others.
fn small_memcached() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::memcached(&work, &["-m", "48"]);
    let own = TcpStream::connect(("127.0.0.1", theirs.port))?;
    for index in 0..OWN_KEYS {
        (&own).write_all(format!("ms own{index} 100000\r\n{}\r\n", "x".repeat(100_000)).as_bytes())?;
    }
    let answers = BufReader::new(own).lines().take(OWN_KEYS).collect::<std::io::Result<Vec<String>>>()?;
    assert!(answers.iter().all(|answer| answer == "HD"), "{answers:?}");
    let is_untouched = || {
        assert_eq!(stat(theirs.port, "evictions").as_deref(), Some("0"));
        assert_eq!(stat(theirs.port, "curr_items"), Some(OWN_KEYS.to_string()));
    };
    // Of one size, so that few pages are begun.
    let corpus = format!("--stores memcached --corpus fixed:30kB {}", theirs.memcached_url());
    let said = work.say(&default_run(&format!("{corpus} --corpus-bytes 29MB")));
    let said = said.refused(&[
        "left of its memory of 50.3 MB (-m)",
        "evicts the items",
        "start it with more memory (-m)",
    ]);
    is_untouched();
    work.say(&default_run(&format!("{corpus} --corpus-bytes {}", named_size(&said)?))).ended(0);
    is_untouched();
    Ok(())
}

// ---- databases -------------------------------------------------------------------------------------------------------

/// The first line that a run says, which has these words.
fn announced(said: &Said, words: &[&str]) {
    let first = said.stderr.lines().next().unwrap_or_default();
    for word in words {
        assert!(first.contains(word), "`{word}` is not in: {}", said.stderr);
    }
    assert!(!said.stderr.contains(PASSWORD) && !said.stderr.contains("Stores lie in"), "{}", said.stderr);
}

fn postgres_said() -> Outcome {
    let work = Work::new();
    let theirs = postgres(&["archive_mode=on", "archive_command=/bin/true", "log_statement=all"]);
    let line = quick("postgres/bytea,postgres/chunked", &format!("--set postgres.url={}", theirs.url))
        .replace("--quiet", "");
    announced(
        &work.say(&line).ended(0),
        &[
            "`postgres/bytea` and `postgres/chunked` at `postgres://owner:***@127.0.0.1",
            "makes a schema `blobwise_...` in the database `postgres`, loads up to",
            "by 2 connections, removes it; takes up to",
            "left of the disk of its data directory",
            "a round, also goes to the archive of its log (archive_mode on) and its log of statements (log_statement all)",
        ],
    );
    // Who may not see where its files are is told so.
    psql(
        &theirs.url,
        &format!("CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'; GRANT CREATE ON DATABASE postgres TO guest"),
    )?;
    let guest = line.replace("owner:", "guest:").replace("--out out", "--out again");
    announced(&work.say(&guest).ended(0), &["how much room it has is not known", "pg_read_all_settings"]);
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'blobwise%'";
    assert_eq!(psql(&theirs.url, schemas)?, "0");
    Ok(())
}

/// Of ten, three are kept for superusers.
fn few_connections() -> Outcome {
    let (theirs, work) = (postgres(&["max_connections=10"]), Work::new());
    let line =
        |workers| quick("postgres/bytea", &format!("--workers {workers} --set postgres.url={}", theirs.url));
    work.say(&line(6)).refused(&[
        "left of max_connections 10, and refuses every client when that is full",
        "opens up to 7 connections",
        "must stay free for other clients: use fewer --workers",
    ]);
    work.say(&line(1)).ended(0);
    // Those of a user may be fewer.
    psql(
        &theirs.url,
        &format!(
            "CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}' CONNECTION LIMIT 2; GRANT CREATE ON DATABASE postgres TO guest"
        ),
    )?;
    let guest = line(2).replace("owner:", "guest:").replace("--out out", "--out again");
    work.say(&guest).refused(&["too many connections for role \"guest\""]);
    Ok(())
}

fn mysql_said(option: &str) -> Outcome {
    let work = Work::new();
    let log = ["--log-bin=changes", "--server-id=1", "--sync-binlog=1"];
    let server = || if option == "mysql" { mysql(&log) } else { mariadb(&log) };
    // Each counts its threads in a namespace of its own: only one of them works in the directory that the server tells.
    let (theirs, _beside) = (server(), server());
    let line = quick(&format!("{option}/blob"), &format!("--set {option}.url={}", theirs.url))
        .replace("--quiet", "");
    announced(
        &work.say(&line).ended(0),
        &[
            "makes a database `blobwise_...`, loads up to",
            "by 2 connections, removes it; takes up to",
            "left of the disk of its data directory",
            "also goes to its binary log and its log of statements (general_log)",
        ],
    );
    Ok(())
}

fn small_disk() -> Outcome {
    on_small_disk("400m", false, "400MB", "left of the disk of its data directory")?;
    // One blob of 1 MB, which the log puts until the disk is full ten times.
    let work = Work::new();
    let theirs = mariadb_on("400m", false);
    let puts = (0..4000).map(|second| format!("{second},put,key,1000000\n"));
    std::fs::write(work.path("log"), puts.fold("time,op,key,bytes\n".to_owned(), |log, put| log + &put))?;
    let line = "run --trace log --stores mariadb/blob --durability none --rounds 1 --quiet --out out";
    let said = work.say(&format!("{line} --set mariadb.url={}", theirs.url));
    said.refused(&["left of the disk of its data directory", "make room there"]);
    assert!(!std::fs::read_to_string(&theirs.log)?.contains("blobwise_"), "it made something");
    Ok(())
}

fn small_log() -> Outcome {
    on_small_disk("100m", true, "100MB", "left of the disk of its binary log")
}

fn on_small_disk(size: &str, is_for_log: bool, corpus_bytes: &str, words: &str) -> Outcome {
    let work = Work::new();
    let theirs = mariadb_on(size, is_for_log);
    let url = format!("--stores mariadb/blob --set mariadb.url={}", theirs.url);
    let said = work.say(&default_run(&format!("{url} --corpus fixed:1MB --corpus-bytes {corpus_bytes}")));
    let said = said.refused(&[words, "waits or refuses every write", "make room there"]);
    assert!(!std::fs::read_to_string(&theirs.log)?.contains("blobwise_"), "it made something");
    work.say(&default_run(&format!("{url} --corpus fixed:1MB --corpus-bytes {}", named_size(&said)?)))
        .ended(0);
    Ok(())
}
