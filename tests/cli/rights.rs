//! Users of servers with the rights that docs/servers.md names, and with fewer: what is refused is told at once, as statements that,
//! pasted, let the run go on.

use std::collections::BTreeSet;
use std::net::TcpStream;

use blobwise::host::server::{Launch, Server, run_to_end};
use blobwise::result::RunResult;
use blobwise::stores::rights::{RightFallback, TABLE};
use mysql::prelude::Queryable;

use crate::objects::{no_versitygw, versitygw};
use crate::program::{BLOBWISE, Outcome, Said, Work, finish, missing, needing};
use crate::theirs::{PASSWORD, PATIENCE, Theirs, mariadb, mysql, on_free_port, postgres, psql, redis};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    let lacks = missing;
    let mut trials = vec![
        needing("the rights of a user of PostgreSQL", lacks("postgres/bytea"), of_postgres),
        needing("the rights of a user of MySQL", lacks("mysql/blob"), || of_mysql("mysql", mysql(&[]))),
        needing("MySQL without patterns of rights", lacks("mysql/blob"), partial_revokes),
        needing("the rights of a user of MariaDB", lacks("mariadb/blob"), || {
            of_mysql("mariadb", mariadb(&[]))
        }),
        needing("the rights of a key of a bucket", no_versitygw(), of_a_bucket),
    ];
    for store in ["redis", "valkey"] {
        let name = format!("the rights of a user of {store}");
        // Valkey's own client is not asked for: Redis's speaks to both.
        trials.push(needing(&name, missing(store).or_else(|| missing("redis")), move || of_redis(store)));
    }
    trials
}

/// The statements of the page, for a user with this password.
fn documented(server: &str) -> String {
    let of = TABLE.iter().find(|of| of.server.contains(server)).unwrap();
    let quoted = of.statements.replace("'PASSWORD'", &format!("'{PASSWORD}'"));
    quoted.replace(">PASSWORD", &format!(">{PASSWORD}"))
}

/// The rights of the page without which a run is refused, or goes on.
fn rights(server: &str, is_refused: bool) -> Vec<&'static str> {
    let of = TABLE.iter().find(|of| of.server.contains(server)).unwrap();
    let rights =
        of.rights.iter().filter(|right| matches!(right.without, RightFallback::Refused) == is_refused);
    rights.flat_map(|right| right.names.iter().copied()).collect()
}

/// What a run says that begins in an empty directory of results.
fn say(work: &Work, line: &str) -> Said {
    std::fs::remove_dir_all(work.path("out")).ok();
    work.say(line)
}

fn line(stores: &str, more: &str) -> String {
    format!("run --stores {stores} --blobs 12 --rounds 1 --phases fill,read-warm --quiet --out out {more}")
}

/// What is to be pasted, of each line of an error.
fn statements(said: &Said) -> Vec<String> {
    let lines = said.stderr.lines().filter_map(|line| Some(line.split_once(" them: ")?.1.to_owned()));
    let found: Vec<String> = lines.collect();
    assert!(!found.is_empty(), "{}", said.stderr);
    found
}

/// A candidate's fact, and what it is said to take.
fn fact_and_bytes(
    work: &Work,
    store: &str,
) -> Result<(Option<String>, Option<u64>), Box<dyn std::error::Error>> {
    let result = RunResult::load(&work.path("out"))?;
    let candidate = result.candidate(store).ok_or("no store")?;
    let footprint = result.footprints.iter().find(|footprint| footprint.store == store);
    let bytes = footprint.and_then(|footprint| footprint.after_settle_bytes);
    Ok((candidate.facts.get("not_told").cloned(), bytes))
}

fn of_postgres() -> Outcome {
    let work = Work::new();
    let theirs = postgres(&[]);
    let shop = theirs.url.replace("/postgres", "/shop");
    psql(&theirs.url, "CREATE DATABASE shop;")?;
    psql(
        &shop,
        "REVOKE CONNECT ON DATABASE shop FROM PUBLIC; REVOKE USAGE ON LANGUAGE plpgsql FROM PUBLIC;
         REVOKE EXECUTE ON FUNCTION lo_create(oid), loread(int, int) FROM PUBLIC;
         CREATE SCHEMA blobwise_0000000000000000;
         COMMENT ON SCHEMA blobwise_0000000000000000 IS 'made by blobwise, removed by it'",
    )?;
    psql(&theirs.url, &format!("CREATE ROLE bench LOGIN PASSWORD '{PASSWORD}'"))?;
    let url = format!("--set postgres.url={}", shop.replace("owner:", "bench:"));
    let one = line("postgres/bytea", &url);
    let said = say(&work, &one).refused(&["bench", "GRANT CONNECT, CREATE ON DATABASE shop TO bench"]);
    psql(&shop, &statements(&said)[0])?;
    say(&work, &one).ended(0);
    // The same, by the page. What both candidates lack is one line.
    psql(&shop, "REVOKE ALL ON DATABASE shop FROM bench; DROP ROLE bench")?;
    psql(&shop, &documented("PostgreSQL"))?;
    say(&work, &one).ended(0);
    psql(&shop, "REVOKE CREATE ON DATABASE shop FROM bench")?;
    let all = line("postgres/bytea,postgres/large-object", &url);
    let said = say(&work, &all).refused(&[
        "GRANT CREATE ON DATABASE shop TO bench",
        "GRANT EXECUTE ON FUNCTION lo_create(oid), loread(integer,integer) TO bench",
        "GRANT USAGE ON LANGUAGE plpgsql TO bench",
    ]);
    let pasted = statements(&said);
    assert_eq!(pasted.len(), 1, "{}", said.stderr);
    psql(&shop, &pasted[0])?;
    say(&work, &all).ended(0);
    let (untold, bytes) = fact_and_bytes(&work, "postgres/large-object")?;
    assert_eq!((untold.as_deref(), bytes), (Some("footprint (SELECT on pg_largeobject)"), None));
    let (untold, bytes) = fact_and_bytes(&work, "postgres/bytea")?;
    assert!(untold.is_none() && bytes.is_some(), "{untold:?} {bytes:?}");
    // What another user left is not in the way, and not ours.
    let ours = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'blobwise%'";
    assert_eq!(psql(&shop, ours)?, "blobwise_0000000000000000");
    assert_eq!(psql(&shop, "SELECT count(*) FROM pg_largeobject_metadata")?, "0");
    Ok(())
}

/// Root of MySQL or MariaDB, who alone may give rights.
fn root(theirs: &Theirs) -> mysql::Conn {
    let socket = theirs._sockets.path().join("s");
    let opts = mysql::OptsBuilder::new().socket(Some(socket.to_string_lossy())).user(Some("root"));
    mysql::Conn::new(opts).unwrap()
}

/// Carries out statements; a user's password is as old drivers know it where the server has a choice.
fn paste(root: &mut mysql::Conn, statements: &str) {
    for statement in statements.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        root.query_drop(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

fn of_mysql(family: &str, theirs: Theirs) -> Outcome {
    let work = Work::new();
    let mut root = root(&theirs);
    let url = format!("--set {family}.url={}", theirs.url.replace("owner:", "bench:"));
    let all = line(
        &format!("{family}/blob,{family}/chunked"),
        &format!("{url} --set {family}.protocol=prepared,procedure --durability on-sync"),
    );
    paste(&mut root, &documented("MySQL"));
    let grants = |root: &mut mysql::Conn| root.query::<String, _>("SHOW GRANTS FOR bench@'%'");
    let before = grants(&mut root)?;
    say(&work, &all).ended(0);
    // The server gives whoever makes a procedure rights to it.
    assert_eq!(grants(&mut root)?, before);
    for right in rights("MySQL", true) {
        let (is_global, on) = match right {
            "RELOAD" => (true, "*.*"),
            _ => (false, "`blobwise\\_%`.*"),
        };
        root.query_drop(format!("REVOKE {right} ON {on} FROM bench@'%'"))?;
        let said = say(&work, &all);
        // MariaDB asks for neither.
        if family == "mariadb" && (is_global || right == "REFERENCES") {
            said.ended(0);
            continue;
        }
        let said = said.refused(&[&format!("GRANT {right}"), on, "TO 'bench'@'%'"]);
        let pasted = statements(&said);
        assert_eq!(pasted.len(), 1, "{}", said.stderr);
        paste(&mut root, &pasted[0]);
    }
    say(&work, &all).ended(0);
    // All at once, though they are those of several candidates.
    paste(&mut root, "REVOKE ALL, GRANT OPTION FROM bench@'%'");
    let mut needed = rights("MySQL", true);
    needed.retain(|right| *right != "RELOAD" && (family != "mariadb" || *right != "REFERENCES"));
    let said = say(&work, &all).refused(&needed);
    let pasted = statements(&said);
    assert_eq!(pasted.len(), 1, "{}", said.stderr);
    paste(&mut root, &pasted[0]);
    say(&work, &all).ended(0);
    let left: Vec<String> = root.query("SHOW DATABASES LIKE 'blobwise%'")?;
    assert!(left.is_empty(), "{left:?}");
    Ok(())
}

fn partial_revokes() -> Outcome {
    let work = Work::new();
    let theirs = mysql(&["--partial-revokes=ON"]);
    let mut root = root(&theirs);
    root.query_drop(format!("CREATE USER bench@'%' IDENTIFIED BY '{PASSWORD}'"))?;
    let url = format!("--set mysql.url={}", theirs.url.replace("owner:", "bench:"));
    let said =
        say(&work, &line("mysql/blob", &url)).refused(&["GRANT CREATE, DROP, ", "ON *.* TO 'bench'@'%'"]);
    paste(&mut root, &statements(&said)[0]);
    say(&work, &line("mysql/blob", &url)).ended(0);
    Ok(())
}

/// A server whose log is flushed at each write, and how its client is called.
fn started_redis(store: &str, work: &Work) -> (Server, String) {
    let options = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
    let (server, port) = redis(store, work, &options);
    (server, port.to_string())
}

fn of_redis(store: &str) -> Outcome {
    let work = Work::new();
    let (_server, port) = started_redis(store, &work);
    let cli = |command: &str| {
        let mut client = work.command("redis-cli");
        let said = finish(client.args(["-p", &port]).args(command.split_whitespace())).ended(0);
        assert!(!said.stdout.contains("ERR"), "{command}: {}", said.stdout);
        said.stdout
    };
    let url = format!("--set {store}.url={store}://bench:{PASSWORD}@127.0.0.1:{port}");
    let (first, third) = (line(store, &url), line(store, &format!("{url}/3")));
    // As whoever has no list of rights makes one.
    cli(&format!("ACL SETUSER bench on >{PASSWORD} ~blobwise_* +@read +@write +@connection"));
    say(&work, &format!("{third} --durability none")).ended(0);
    let (untold, bytes) = fact_and_bytes(&work, store)?;
    let untold = untold.ok_or("all is told")?;
    assert!(untold.contains("settings (+config|get)") && untold.contains("+info"), "{untold}");
    assert!(bytes.is_some(), "MEMORY USAGE is a command of @read");
    say(&work, &third).refused(&["ACL SETUSER bench +config|get"]);
    // By the page, and with one right fewer.
    cli("ACL DELUSER bench");
    cli(&documented("Redis"));
    say(&work, &third).ended(0);
    assert_eq!(fact_and_bytes(&work, store)?.0, None);
    for right in rights("Redis", true).into_iter().filter(|right| *right != "+waitaof") {
        cli(&format!("ACL SETUSER bench {}", right.replace('+', "-")));
        let said = say(&work, &third).refused(&[&format!("ACL SETUSER bench {right}")]);
        let pasted = statements(&said);
        assert_eq!(pasted.len(), 1, "{}", said.stderr);
        cli(&pasted[0]);
    }
    // All at once.
    cli("ACL SETUSER bench resetkeys -@all");
    let said = say(&work, &third).refused(&["~blobwise_*", "+set", "+hmget", "+select", "+config|get"]);
    cli(&statements(&said)[0]);
    say(&work, &third).ended(0);
    let (untold, bytes) = fact_and_bytes(&work, store)?;
    assert!(untold.is_some_and(|untold| untold.contains("+memory|usage")) && bytes.is_none(), "{bytes:?}");
    if store == "valkey" {
        cli("ACL SETUSER bench -waitaof");
        cli("CONFIG SET appendfsync everysec");
        let said = say(&work, &first).refused(&["ACL SETUSER bench +waitaof"]);
        cli(&statements(&said)[0]);
        say(&work, &first).ended(0);
    }
    assert_eq!(cli("DBSIZE").trim(), "0");
    assert_eq!(cli("-n 3 DBSIZE").trim(), "0");
    Ok(())
}

fn of_a_bucket() -> Outcome {
    let work = Work::new();
    let program = versitygw()?;
    let dir = work.path("theirs");
    let bucket = dir.join("data/shop");
    std::fs::create_dir_all(&bucket)?;
    std::fs::create_dir(dir.join("users"))?;
    let (_server, port) = on_free_port(|port| {
        let launch = Launch::new(&program, &dir)
            .env("ROOT_ACCESS_KEY_ID", "root")
            .env("ROOT_SECRET_ACCESS_KEY", PASSWORD)
            .args(["--port", &format!("127.0.0.1:{port}"), "--quiet", "--keep-alive", "--iam-dir"])
            .arg(dir.join("users"))
            .args(["--iam-cache-disable", "posix"])
            .arg(dir.join("data"));
        let mut server = Server::start(&launch)?;
        server.wait_until_ready(PATIENCE, || Ok(TcpStream::connect(("127.0.0.1", port)).map(drop)?))?;
        Ok((server, port))
    });
    let endpoint = format!("http://127.0.0.1:{port}");
    let admin = Launch::new(&program, &dir).args(["admin", "--access", "root", "--secret", PASSWORD]);
    let user = ["create-user", "--access", "bench", "--secret", PASSWORD, "--role", "user"];
    run_to_end(&admin.args(["--endpoint-url", &endpoint]).args(user), PATIENCE)?;
    // It keeps what a bucket's policy is beside the bucket's directory.
    let policy = |statements: &str| {
        let statements = statements.replace("\"Effect\"", "\"Principal\":{\"AWS\":\"bench\"},\"Effect\"");
        let policy = format!("{{\"Version\":\"2012-10-17\",\"Statement\":[{statements}]}}");
        rustix::fs::setxattr(&bucket, "user.policy", policy.as_bytes(), rustix::fs::XattrFlags::empty())
    };
    let owner = br#"{"Owner":"root","Grantees":[{"Permission":"FULL_CONTROL","Access":"root","Type":"CanonicalUser"}]}"#;
    rustix::fs::setxattr(&bucket, "user.acl", owner, rustix::fs::XattrFlags::empty())?;
    let ownership = b"BucketOwnerEnforced";
    rustix::fs::setxattr(&bucket, "user.ownership", ownership, rustix::fs::XattrFlags::empty())?;
    let say = |more: &str| {
        std::fs::remove_dir_all(work.path("out")).ok();
        let mut command = work.command(BLOBWISE);
        // Each blob has 6 MB, and one in parts needs every right.
        let line =
            line("s3", &format!("--set s3.url={endpoint}/shop {more}")).replace("--blobs 12", "--blobs 2");
        command.args(line.split_whitespace()).env("AWS_ACCESS_KEY_ID", "bench");
        finish(command.env("AWS_SECRET_ACCESS_KEY", PASSWORD).env_remove("AWS_SESSION_TOKEN"))
    };
    // Names that begin with a dot are the server's own.
    let is_object = |entry: std::fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
    let is_empty = || std::fs::read_dir(&bucket).map(|entries| !entries.flatten().any(is_object));
    let in_parts = "--corpus fixed:6MB --set s3.multipart=5MiB";
    let all = documented("S3");
    policy(&all)?;
    say(in_parts).ended(0);
    assert!(is_empty()?);
    let mut pasted_for = BTreeSet::new();
    for right in rights("S3", true) {
        // Another right in its place, which nothing needs.
        let other = if right.contains("Bucket") { "s3:GetBucketTagging" } else { "s3:GetObjectTagging" };
        let fewer = all.replace(&format!("\"{right}\""), &format!("\"{other}\""));
        policy(&fewer)?;
        let said = say(in_parts).refused(&["the user `bench`", right]);
        assert!(is_empty()?, "{right}: something was put");
        let pasted = &statements(&said)[0];
        assert!(pasted.contains(right), "{right}: {pasted}");
        // One of the bucket's and one of the objects' by itself; all of them together are below.
        if pasted_for.insert(right.contains("Bucket")) {
            policy(&format!("{fewer},{pasted}"))?;
            say(in_parts).ended(0);
            assert!(is_empty()?);
        }
    }
    policy(&all.replace("\"Allow\"", "\"Deny\""))?;
    let said = say(in_parts).refused(&rights("S3", true));
    policy(&statements(&said)[0])?;
    say(in_parts).ended(0);
    assert!(is_empty()?);
    Ok(())
}
