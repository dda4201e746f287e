//! Faults in PostgreSQL, each in a database of its own, and one that has none.

use std::sync::{Arc, LazyLock};

use blobwise::doctor::facts::SubjectKind;
use blobwise::doctor::finding::Answer;
use blobwise::doctor::report::DoctorReport;
use blobwise::host::machine::uptime;
use blobwise::host::proxy::Proxy;
use rustix::process::Signal;

use crate::program::{BLOBWISE, Outcome, Work, missing, needing};
use crate::servers::{Load, database, doctor, ends_between_looks, read, reported, watched_doctor};
use crate::theirs::{CLOSED, PASSWORD, PATIENCE, Theirs, postgres, psql, standby};
use crate::trials::Trial;
use crate::{found, line, looks_well, report};

type Shared = Arc<LazyLock<Theirs>>;

/// Most faults are planted in databases of one server, which does not clean up behind them.
pub fn trials() -> Vec<Trial> {
    let shared: Shared = Arc::new(LazyLock::new(|| {
        postgres(&[
            "autovacuum=off",
            "fsync=off",
            "shared_preload_libraries=pg_stat_statements",
            "log_statement=all",
            "log_line_prefix=%a|",
        ])
    }));
    let on = |name: &str, test: fn(&Theirs, &Work) -> Outcome| {
        let shared = Arc::clone(&shared);
        needing(name, missing("postgres/bytea"), move || test(&shared, &Work::new()))
    };
    vec![
        on("postgres: a missing index is found by its scans", sequential),
        on("postgres: stale statistics are found", stale),
        on("postgres: a duplicate and an invalid index are found", indexes),
        on("postgres: an unused index is found by old counters only", unused),
        on("postgres: a query that is asked all the time is found", frequent),
        on("postgres: a column of blobs is found, with a run that can be made", blobs),
        on("postgres: a user without rights is told what to grant", few_rights),
        on("postgres: an index in another order and one that is mostly empty are found", order),
        on("postgres: it only reads", only_reads),
        on("postgres: a server that is far away is found", far_away),
        on("postgres: fsync off is bad", unsafe_settings),
        needing("postgres: a pool of a tenth of the data is found", missing("postgres/bytea"), small_pool),
        needing("postgres: a healthy server is left in peace", missing("postgres/bytea"), healthy),
        needing(
            "postgres: a standby says what only its primary knows",
            missing("postgres/bytea"),
            in_recovery,
        ),
        Trial::test("what cannot be asked is refused, or a line", cannot_be_asked),
    ]
}

fn sequential(theirs: &Theirs, work: &Work) -> Outcome {
    let sql = "CREATE TABLE orders(id int PRIMARY KEY, customer int);
               INSERT INTO orders SELECT n, n % 500 FROM generate_series(1, 20000) n; ANALYZE;";
    let url = database(theirs, "sequential", sql);
    let load = Load::pgbench(work, &url, "SELECT count(*) FROM orders WHERE customer = 7;", None);
    found(&reported(work, &url, "--for 2s"), "pg-sequential-scans", Answer::Look, "`public.orders`");
    drop(load);
    psql(&url, "CREATE INDEX ON orders(customer)")?;
    let load = Load::pgbench(work, &url, "SELECT count(*) FROM orders WHERE customer = 7;", None);
    assert_eq!(line(&reported(work, &url, "--for 2s"), "pg-sequential-scans").answer, Answer::Ok);
    drop(load);
    Ok(())
}

fn stale(theirs: &Theirs, work: &Work) -> Outcome {
    let sql = "CREATE TABLE grown(id int); INSERT INTO grown SELECT generate_series(1, 2000);
               CREATE TABLE fresh(id int); INSERT INTO fresh SELECT generate_series(1, 2000);";
    let url = database(theirs, "stale", sql);
    // A session tells what it changed at its end.
    psql(&url, "ANALYZE")?;
    psql(&url, "UPDATE grown SET id = id + 1")?;
    let report = reported(work, &url, "");
    found(&report, "pg-stale-statistics", Answer::Look, "`public.grown`: 2k changed");
    found(&report, "pg-dead-rows", Answer::Look, "`public.grown`: 2k dead");
    assert!(!format!("{:?}", line(&report, "pg-stale-statistics")).contains("public.fresh"));
    Ok(())
}

fn indexes(theirs: &Theirs, work: &Work) -> Outcome {
    let sql = "CREATE TABLE t(id int PRIMARY KEY, a int, b int); INSERT INTO t SELECT n, n / 2, n FROM generate_series(1, 2000) n;
               CREATE INDEX narrow ON t(a); CREATE INDEX wide ON t(a, b);";
    let url = database(theirs, "indexes", sql);
    // It fails because of values that are there twice, and leaves the index.
    let said = psql(&url, "CREATE UNIQUE INDEX CONCURRENTLY broken ON t(a)").unwrap_err();
    assert!(said.to_string().contains("could not create unique index"), "{said}");
    let said = doctor(work, &url, "").ended(1);
    let report = report(work, &said);
    found(&report, "pg-invalid-index", Answer::Bad, "`public.broken`");
    found(&report, "pg-duplicate-index", Answer::Look, "`public.narrow`");
    assert_eq!(line(&report, "pg-duplicate-index").value, Some(1.0));
    Ok(())
}

fn unused(theirs: &Theirs, work: &Work) -> Outcome {
    let sql = "CREATE TABLE t(id int PRIMARY KEY, tag text); CREATE INDEX idle ON t(tag);
               INSERT INTO t SELECT n, md5(n::text) FROM generate_series(1, 40000) n; ANALYZE;";
    let url = database(theirs, "unused", sql);
    let load = Load::pgbench(work, &url, "\\set n random(1, 40000)\nSELECT tag FROM t WHERE id = :n;", None);
    std::thread::sleep(std::time::Duration::from_secs(2));
    // On a busy machine it takes longer until the table counts as read often.
    let is_read_often = "SELECT coalesce(seq_scan, 0) + coalesce(idx_scan, 0) >= 1000 FROM pg_stat_user_tables WHERE relname = 't'";
    let begin = uptime();
    while psql(&url, is_read_often)? != "t" {
        assert!(uptime() - begin < PATIENCE, "it is not read often");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    drop(load);
    let young = reported(work, &url, "");
    let said_of_young = line(&young, "pg-unused-index");
    assert_eq!(said_of_young.answer, Answer::CannotTell, "{said_of_young:#?}");
    assert!(said_of_young.figure.contains("it has counted for"), "{said_of_young:#?}");
    // The same counters, with a rule that they are old enough for.
    found(&reported(work, &url, "--least-age 1s"), "pg-unused-index", Answer::Look, "`public.idle`");
    Ok(())
}

fn frequent(theirs: &Theirs, work: &Work) -> Outcome {
    let url =
        database(theirs, "frequent", "CREATE EXTENSION pg_stat_statements; CREATE TABLE settings(v int);");
    let load = Load::pgbench(work, &url, "SELECT v FROM settings WHERE v = 1471147114;", None);
    let said = doctor(work, &url, "--for 2s");
    drop(load);
    let report = report(work, &said);
    // Values are no part of what is shown.
    found(&report, "pg-frequent-query", Answer::Look, "`SELECT v FROM settings WHERE v = $1`");
    assert!(!said.stdout.contains("1471147114"), "{}", said.stdout);
    Ok(())
}

fn blobs(theirs: &Theirs, work: &Work) -> Outcome {
    let sql = "CREATE TABLE uploads(id int PRIMARY KEY, name text, content bytea);
               ALTER TABLE uploads ALTER content SET STORAGE EXTERNAL;
               INSERT INTO uploads SELECT n, 'file ' || n, decode(repeat(md5(n::text), 150 * (1 + n % 9)), 'hex')
               FROM generate_series(1, 600) n; ANALYZE;";
    let url = database(theirs, "blobs", sql);
    let without = reported(work, &url, "");
    let lack =
        "their share of the memory is not told (pg_buffercache is not in this database: `CREATE EXTENSION";
    found(&without, "pg-blob-columns", Answer::Look, lack);
    // Whole passes over them, so that all of it is in memory, and most of what is asked for is theirs.
    psql(
        &url,
        "CREATE SCHEMA apart; CREATE EXTENSION pg_buffercache SCHEMA apart; CREATE EXTENSION pg_stat_statements",
    )?;
    let load = Load::pgbench(work, &url, "SELECT sum(length(content::text)) FROM uploads;", None);
    let report = reported(work, &url, "--for 2s");
    drop(load);
    found(&report, "pg-blob-columns", Answer::Look, "`public.uploads.content`");
    found(&report, "pg-blob-columns", Answer::Look, "% of the blocks asked for, they have ");
    found(
        &report,
        "pg-blob-columns",
        Answer::Look,
        "of the time of queries went into what names it, as `SELECT sum",
    );
    let figure = &line(&report, "pg-blob-columns").figure;
    let in_memory = "SELECT count(*) FROM apart.pg_buffercache WHERE relfilenode =
                     (SELECT pg_relation_filenode(reltoastrelid) FROM pg_class WHERE relname = 'uploads')";
    let in_memory: f64 = psql(&url, in_memory)?.parse::<f64>()? * 8192.0 / 1e6;
    let told: f64 = figure
        .split_once("where ")
        .and_then(|(_, rest)| rest.split_once(" MB would be free"))
        .ok_or(figure.as_str())?
        .0
        .parse()?;
    assert!((told - in_memory).abs() <= 1.0 && told >= 6.0, "{figure}, and the server says {in_memory} MB");
    let command = line(&report, "pg-blob-columns").try_this.clone().ok_or("no command")?;
    let corpus = command.split_once("--corpus ").ok_or("no corpus")?.1;
    // 150 to 1350 times 16 bytes, of which the middle is 750 times.
    assert!(corpus.contains("0.5=12000"), "{corpus}");
    let said = work.say(&format!("corpus --corpus {corpus}")).ended(0);
    assert!(said.stdout.contains("400"), "{}", said.stdout);
    Ok(())
}

/// A version that was noted long ago is planted by the catalogue: no second library of collations is here.
fn order(theirs: &Theirs, work: &Work) -> Outcome {
    let sql = "CREATE EXTENSION pgstattuple; CREATE COLLATION theirs (provider = icu, locale = 'de');
               CREATE TABLE words(word text COLLATE theirs); CREATE INDEX by_word ON words(word);
               CREATE TABLE emptied(id int PRIMARY KEY); CREATE TABLE full_one(id int PRIMARY KEY);
               INSERT INTO emptied SELECT generate_series(1, 100000); INSERT INTO full_one SELECT generate_series(1, 60000);
               DELETE FROM emptied WHERE id % 10 <> 0;";
    let url = database(theirs, "index_order", sql);
    psql(&url, "VACUUM emptied")?;
    let before = reported(work, &url, "");
    assert_eq!(line(&before, "pg-collation").answer, Answer::Ok);
    found(&before, "pg-index-density", Answer::Look, "`public.emptied_pkey`");
    assert!(!format!("{:?}", line(&before, "pg-index-density")).contains("full_one"));
    psql(&url, "UPDATE pg_collation SET collversion = '0.1' WHERE collname = 'theirs'")?;
    let said = doctor(work, &url, "").ended(1);
    found(
        &report(work, &said),
        "pg-collation",
        Answer::Bad,
        "`public.by_word`: noted with version 0.1 of `theirs`",
    );
    Ok(())
}

fn far_away(theirs: &Theirs, work: &Work) -> Outcome {
    let port: u16 = psql(&theirs.url, "SHOW port")?.parse()?;
    let way = std::time::Duration::from_millis(12);
    let proxy = Proxy::start(([127, 0, 0, 1], port).into(), way)?;
    // Whether 2 ms are enough on this machine hangs on what runs beside; the way there does not.
    let shortest = |report: &DoctorReport| line(report, "pg-answer-time").value.unwrap_or(f64::MAX);
    assert!(shortest(&reported(work, &theirs.url, "")) < way.as_nanos() as f64);
    let url = theirs.url.replace(&format!(":{port}/"), &format!(":{}/", proxy.address().port()));
    let far = reported(work, &url, "");
    found(&far, "pg-answer-time", Answer::Look, "in the middle of");
    assert!(shortest(&far) >= way.as_nanos() as f64, "{far:#?}");
    Ok(())
}

fn few_rights(theirs: &Theirs, work: &Work) -> Outcome {
    let sql = format!(
        "CREATE EXTENSION pg_stat_statements; CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}';
         CREATE TABLE secrets(id int, content bytea); ALTER TABLE secrets ALTER content SET STORAGE EXTERNAL;
         INSERT INTO secrets SELECT n, decode(repeat(md5(n::text), 900), 'hex') FROM generate_series(1, 400) n; ANALYZE;"
    );
    let url = database(theirs, "few_rights", &sql).replace("owner:", "guest:");
    let said = doctor(work, &url, "").ended(1);
    let report = report(work, &said);
    let blobs = line(&report, "pg-blob-columns");
    assert_eq!(blobs.answer, Answer::CannotTell, "{blobs:#?}");
    for words in ["permission denied for table secrets", "GRANT SELECT ON public.secrets TO guest"] {
        assert!(blobs.figure.contains(words), "{blobs:#?}");
    }
    let wrong = doctor(&Work::new(), &url.replace(PASSWORD, "a-wrong-one"), "").ended(1);
    assert!(wrong.stdout.contains("password authentication failed"), "{}", wrong.stdout);
    assert!(!wrong.stdout.contains("a-wrong-one"), "{}", wrong.stdout);
    // What needs no right is told.
    assert_eq!(line(&report, "pg-safe").answer, Answer::Bad);
    Ok(())
}

fn only_reads(theirs: &Theirs, work: &Work) -> Outcome {
    let url = database(theirs, "only_reads", "CREATE EXTENSION pg_stat_statements; CREATE TABLE t(id int);");
    doctor(work, &url, "");
    let log = read(&theirs.log);
    let ours: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("blobwise doctor|")).collect();
    let statements: Vec<&str> = ours
        .iter()
        .filter_map(|line| line.split_once("LOG:  ")?.1.split_once(": "))
        .map(|(_, sql)| sql)
        .collect();
    assert!(statements.len() > 12, "{ours:#?}");
    let others: Vec<&&str> = statements.iter().filter(|sql| !sql.starts_with("SELECT ")).collect();
    assert!(others.is_empty(), "{others:#?}");
    for word in
        ["pg_stat_reset", "INSERT INTO", "CREATE ", "set_config", "pg_stat_statements_reset", "dblink", "lo_"]
    {
        assert!(!statements.iter().any(|sql| sql.contains(word)), "{word}");
    }
    Ok(())
}

fn unsafe_settings(theirs: &Theirs, work: &Work) -> Outcome {
    let said = doctor(work, &theirs.url, "").ended(1);
    found(&report(work, &said), "pg-safe", Answer::Bad, "fsync is off");
    Ok(())
}

/// And what it is after a restart, and when it dies between the looks.
fn small_pool() -> Outcome {
    let mut theirs = postgres(&["shared_buffers=1MB", "fsync=off"]);
    let work = Work::new();
    let sql = "CREATE TABLE t(id int PRIMARY KEY, text text);
               INSERT INTO t SELECT n, repeat(md5(n::text), 8) FROM generate_series(1, 40000) n; ANALYZE;";
    psql(&theirs.url, sql)?;
    let random = "\\set n random(1, 40000)\nSELECT text FROM t WHERE id = :n;";
    let load = Load::pgbench(&work, &theirs.url, random, None);
    let old = reported(&work, &theirs.url, "--for 2s --least-age 1s");
    found(&old, "pg-cache", Answer::Look, "shared_buffers");
    let young = reported(&work, &theirs.url, "");
    // The pool is smaller than what is in the database, and as small as no day has to pass to tell.
    found(&young, "pg-shared-buffers", Answer::Look, "shared_buffers = 1MB, for ");
    let (cache, index) = (line(&young, "pg-cache"), line(&young, "pg-unused-index"));
    assert_eq!((cache.answer, index.answer), (Answer::CannotTell, Answer::CannotTell), "{cache:#?}");
    assert!(cache.figure.contains("it was started"), "{cache:#?}");
    drop(load);
    let mut command = work.command(BLOBWISE);
    command.args(["doctor", "--for", "4s", "--json", "report.json", "--url", &theirs.url]);
    ends_between_looks(&mut command, || theirs.server.stop(Signal::INT, PATIENCE).unwrap())
}

fn healthy() -> Outcome {
    let theirs = postgres(&["shared_preload_libraries=pg_stat_statements"]);
    let work = Work::new();
    let sql = "CREATE EXTENSION pg_stat_statements; CREATE TABLE t(id int PRIMARY KEY, owner int, text text);
               INSERT INTO t SELECT n, n % 100, md5(n::text) FROM generate_series(1, 40000) n; CREATE INDEX ON t(owner);";
    psql(&theirs.url, sql)?;
    psql(&theirs.url, "VACUUM ANALYZE")?;
    let script = "\\set n random(1, 40000)\nSELECT text FROM t WHERE id = :n;
                  SELECT count(*) FROM t WHERE owner = :n % 100;";
    let load = Load::pgbench(&work, &theirs.url, script, Some(40));
    let said = watched_doctor(&work, &theirs.url, "--for 2s --least-age 1s");
    drop(load);
    looks_well(&report(&work, &said), SubjectKind::PostgreSql);
    Ok(())
}

/// Of two servers with the same stale table: what a standby was not told it does not call well.
fn in_recovery() -> Outcome {
    const COUNTED_ELSEWHERE: [&str; 3] = ["pg-stale-statistics", "pg-dead-rows", "pg-unused-index"];
    let primary = postgres(&["autovacuum=off", "default_transaction_read_only=on"]);
    let sql = "SET default_transaction_read_only = off; CREATE TABLE grown(id int); INSERT INTO grown SELECT generate_series(1, 5000);
               ANALYZE; UPDATE grown SET id = id + 1;";
    psql(&primary.url, sql)?;
    let standby = standby(&primary, &[]);
    let work = Work::new();
    let of_standby = reported(&work, &standby.url, "--least-age 1s");
    for check in COUNTED_ELSEWHERE {
        let line = line(&of_standby, check);
        assert_eq!(line.answer, Answer::CannotTell, "{line:#?}");
        assert!(line.figure.contains("standby") || line.figure.contains("replica"), "{line:#?}");
    }
    looks_well(&of_standby, SubjectKind::PostgreSql);
    // The primary is read-only by its settings, which changes nothing of what it says.
    let of_primary = reported(&work, &primary.url, "--least-age 1s");
    found(&of_primary, "pg-stale-statistics", Answer::Look, "`public.grown`");
    found(&of_primary, "pg-unused-index", Answer::CannotTell, "there is a replica");
    Ok(())
}

fn cannot_be_asked() -> Outcome {
    let work = Work::new();
    for (url, why) in [
        ("nonsense", "is not a URL such as postgres://"),
        ("ftp://host/x", "`ftp` is none of the schemes"),
        #[cfg(feature = "mongodb")]
        ("mongodb://me:hidden@host,other/x", "it names several servers"),
        #[cfg(feature = "mongodb")]
        ("mongodb+srv://me:hidden@host/x", "look-ups of DNS records"),
        #[cfg(feature = "mssql")]
        ("sqlserver://me:hidden@host/x?encrypt=true", "TLS in particular is not spoken"),
        #[cfg(not(feature = "mssql"))]
        ("sqlserver://me:hidden@host", "built without the feature mssql"),
        ("memcached://host", "its command `stats`"),
        ("postgres://me:hidden@host:x/", "`x` is no port"),
        ("postgres://me:hidden@host/?sslmode=no", "sslmode"),
    ] {
        let said = work.run(["doctor", "--url", url]).refused(&[why]);
        assert!(!said.stderr.contains("hidden"), "{}", said.stderr);
    }
    work.say("doctor --least-age old").refused(&["--least-age"]);
    // Nobody listens there: that is a line, and the machine is looked at all the same.
    let port = CLOSED;
    let url = format!("postgres://me:hidden@127.0.0.1:{port}/x");
    let said = work.run(["doctor", "--for", "1s", "--url", &url]).ended(1);
    assert!(said.stdout.contains(&format!("postgres://me:***@127.0.0.1:{port}/x")), "{}", said.stdout);
    assert!(said.stdout.contains("cannot be asked: ") && said.stdout.contains("refused"), "{}", said.stdout);
    assert!(said.stdout.contains("memory-available") && !said.stdout.contains("hidden"), "{}", said.stdout);
    Ok(())
}
