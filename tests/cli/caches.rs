//! Caches of the user's, named by URL: what goes wrong with them, and what is left of what was put there.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use blobwise::host::server::{Launch, Server};
use blobwise::result::{RunResult, Status, Verdict};
use blobwise::store::{Common, Durability, Key, Mode, Options, Setup};
use blobwise::stores::{self, Entry};
use rustix::process::Signal;

use crate::opening;
use crate::program::{BLOBWISE, Outcome, Work, finish, held, missing, needing, start};
use crate::servers::{hanging_up, quick};
use crate::signals::{kill_amid, run_until, send, until, wait};
use crate::theirs::{CLOSED, on_free_port, program};
use crate::trials::Trial;

pub const PATIENCE: Duration = Duration::from_secs(60);
pub const PASSWORD: &str = "secret-of-theirs";

pub fn trials() -> Vec<Trial> {
    let memcached = || missing("memcached");
    let redis = || missing("redis");
    vec![
        Trial::test("a missing program of a cache is an error before the run", missing_program),
        Trial::test("a URL that leads to no cache is an error before the run", nowhere),
        needing("a redis given by URL is used and left as it was", redis(), redis_used_and_left),
        needing("a wrong password of redis is an error that does not show it", redis(), wrong_password),
        needing("a redis that cannot keep the class is an error before the run", redis(), weak_class),
        needing("a redis that flushes each write keeps every class", redis(), strong_class),
        needing("a redis with a limit below the largest blob is refused", redis(), bulk_limit),
        needing("a redis that is part of a cluster is refused", redis(), of_a_cluster),
        needing(
            "a cache that could not be left as it was is refused",
            memcached().or_else(redis),
            not_left_as_it_was,
        ),
        needing(
            "a cache that closes idle connections is administered and left",
            memcached().or_else(redis),
            idle_connections_end,
        ),
        needing("what a killed run left in a redis goes with the next run", redis(), killed),
        needing("a redis that ends all connections keeps nothing", redis(), connections_end),
        needing("a memcached given by URL is used and left as it was", memcached(), memcached_used_and_left),
        needing("a memcached that asks for a login is refused", memcached(), login),
        needing("a memcached with a limit below the largest blob is refused", memcached(), item_limit),
        needing("a blob that memcached evicted is an error", memcached(), evicted),
        needing(
            "caches of half the corpus tell hits, misses and evictions",
            memcached().or_else(redis),
            half_the_corpus,
        ),
        needing("a redis evicts what others keep only where that is allowed", redis(), theirs_may_evict),
        needing("a mark that a redis evicted is put again", redis(), mark_evicted),
        needing("caches are no answer to where files live", memcached().or_else(redis), no_answer),
        needing("workers and servers are pinned apart", memcached(), pinned_apart),
        needing("no process and no file is told the secret of a URL", memcached().or_else(redis), untold),
    ]
}

/// A server that is not blobwise's.
pub struct Theirs {
    // Stops the server when dropped.
    _server: Server,
    pub port: u16,
}

impl Theirs {
    fn start(work: &Work, store: &str, options: &[&str], ready: fn(u16) -> bool) -> Theirs {
        let (program, dir) = (program(store), work.path("theirs"));
        std::fs::create_dir(&dir).unwrap();
        let port_option = if store == "memcached" { "-p" } else { "--port" };
        on_free_port(|port| {
            let launch = Launch::new(&program, &dir).args([port_option, &port.to_string()]).args(options);
            let mut server = Server::start(&launch)?;
            let answers = || if ready(port) { Ok(()) } else { Err(anyhow::anyhow!("no answer")) };
            server.wait_until_ready(PATIENCE, answers)?;
            Ok(Theirs { _server: server, port })
        })
    }

    pub fn redis(work: &Work, more: &[&str]) -> Theirs {
        let options = [&["--bind", "127.0.0.1", "--save", "", "--requirepass", PASSWORD], more].concat();
        Theirs::start(work, "redis", &options, |port| {
            TcpStream::connect(("127.0.0.1", port)).is_ok_and(|_| lines(port, "PING", 1) == ["+PONG"])
        })
    }

    pub fn memcached(work: &Work, more: &[&str]) -> Theirs {
        let options = [&["-l", "127.0.0.1"], more].concat();
        Theirs::start(work, "memcached", &options, |port| {
            TcpStream::connect(("127.0.0.1", port)).is_ok_and(|_| lines(port, "mn", 1) == ["MN"])
        })
    }

    pub fn redis_url(&self) -> String {
        format!("--set redis.url=redis://:{PASSWORD}@127.0.0.1:{}", self.port)
    }

    pub fn memcached_url(&self) -> String {
        format!("--set memcached.url=memcached://127.0.0.1:{}", self.port)
    }
}

/// Sends commands, one a line, and returns the first lines of the answer. To redis the password is sent first.
pub fn lines(port: u16, commands: &str, count: usize) -> Vec<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let is_redis = commands.starts_with(|c: char| c.is_ascii_uppercase());
    let login = if is_redis { format!("AUTH {PASSWORD}\r\n") } else { String::new() };
    stream.write_all(format!("{login}{commands}\r\n").as_bytes()).unwrap();
    let lines = BufReader::new(stream).lines().map_while(Result::ok).skip(usize::from(is_redis));
    lines.take(count).collect()
}

/// Everything in a redis whose name matches.
pub fn keys(port: u16, pattern: &str) -> Vec<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(format!("AUTH {PASSWORD}\r\nKEYS {pattern}\r\nQUIT\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let names = text.lines().filter(|line| !line.starts_with(['+', '*', '$']));
    names.map(str::to_owned).collect()
}

fn missing_program() -> Outcome {
    let work = Work::new();
    for (store, words) in [
        ("memcached", ["no `memcached` was found", "apt-get install memcached"]),
        ("redis", ["no `redis-server` was found", "apt-get install redis-server"]),
        ("valkey", ["no `valkey-server` was found", "valkey-server"]),
    ] {
        let mut command = work.command(BLOBWISE);
        command.args(quick(store, "").split_whitespace()).env("HOME", work.path("nobody"));
        command.env_remove("XDG_CACHE_HOME").env_remove(format!("BLOBWISE_{}", store.to_uppercase()));
        // Another program of the right name, before the directories where Debian keeps servers.
        let fake = work.path("bin");
        std::fs::create_dir_all(&fake)?;
        for name in ["memcached", "redis-server", "valkey-server"] {
            std::os::unix::fs::symlink("/bin/true", fake.join(name)).ok();
        }
        command.env("PATH", &fake);
        let installed = ["/usr/sbin", "/usr/local/sbin", "/sbin"]
            .iter()
            .any(|dir| Path::new(dir).join(program_name(store)).exists());
        if !installed {
            finish(&mut command).refused(&words);
        }
    }
    assert_eq!(work.names("."), ["bin"]);
    Ok(())
}

fn program_name(store: &str) -> String {
    if store == "memcached" { store.to_owned() } else { format!("{store}-server") }
}

fn nowhere() -> Outcome {
    let work = Work::new();
    let (closed, other) = (CLOSED, hanging_up()?);
    for (store, url, words) in [
        ("memcached", format!("memcached://127.0.0.1:{closed}"), ["memcached", "refused"]),
        ("memcached", format!("memcached://127.0.0.1:{other}"), ["cannot use the server", "the server"]),
        ("memcached", "memcached://".to_owned(), ["memcached", "names no host"]),
        ("memcached", format!("memcacheds://127.0.0.1:{closed}"), ["memcached", "refused"]),
        ("memcached", "http://127.0.0.1".to_owned(), ["memcached", "does not begin with `memcached://`"]),
        ("redis", format!("redis://me:hidden@127.0.0.1:{closed}/0"), ["redis", "refused"]),
        ("redis", format!("redis://me:hidden@127.0.0.1:{other}"), ["cannot use the server", "220 hello"]),
        ("redis", format!("rediss://127.0.0.1:{closed}"), ["redis", "refused"]),
        (
            "redis",
            format!("rediss://127.0.0.1:{other}"),
            ["no TLS with `127.0.0.1`", "does not answer in TLS"],
        ),
        ("redis", "redis://127.0.0.1/first".to_owned(), ["redis", "no number of a database"]),
        ("redis", "redis+unix:///nowhere/s".to_owned(), ["/nowhere/s", "No such file"]),
        ("valkey", format!("valkey://127.0.0.1:{closed}"), ["valkey", "refused"]),
        ("redis", "nonsense".to_owned(), ["redis", "it is not a URL such as"]),
    ] {
        let said = work.say(&quick(store, &format!("--op-timeout 5s --set {store}.url={url}")));
        let said = said.refused(&words);
        assert!(!said.stderr.contains("hidden"), "{}", said.stderr);
    }
    assert!(work.names(".").is_empty());
    Ok(())
}

// ---- redis -----------------------------------------------------------------------------------------------------------

/// Ours goes, and nothing else: not even what has a name like ours without the mark.
fn redis_used_and_left() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::redis(&work, &[]);
    let stranger = "blobwise_0000000000000000";
    lines(
        theirs.port,
        &format!("SET precious theirs\r\nSET {stranger} theirs\r\nSET {stranger}:x theirs"),
        3,
    );
    let line = "run --stores redis --blobs 12 --rounds 1 --phases fill,read-warm,read-cold,range-random,delete-half \
                --durability none --quiet --out out";
    work.say(&format!("{line} {}", theirs.redis_url())).ended(0);
    let mut left = keys(theirs.port, "*");
    left.sort();
    assert_eq!(left, [stranger, &format!("{stranger}:x"), "precious"]);
    let result = RunResult::load(&work.path("out"))?;
    let cold = result.results.iter().find(|cell| cell.phase == "read-cold").ok_or("no cell")?;
    assert_eq!(cold.status, Status::NotPossible);
    for file in ["result.json", "plan.toml", "report.html"] {
        let text = std::fs::read_to_string(work.path("out").join(file))?;
        assert!(!text.contains(PASSWORD), "the password is in {file}");
    }
    Ok(())
}

/// A member of a cluster that has no other yet, and the port on which members talk to each other.
fn member(work: &Work) -> std::io::Result<(Theirs, u16)> {
    // Its own default, 10,000 above the port, may be no port.
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    Ok((Theirs::redis(work, &["--cluster-enabled", "yes", "--cluster-port", &port.to_string()]), port))
}

/// Makes one cluster of three. The first has one of the 16,384 slots, so that hardly any key lies there.
fn join(members: &[(Theirs, u16)]) {
    for ((member, _), slots) in members.iter().zip(["0 0", "1 8191", "8192 16383"]) {
        assert_eq!(lines(member.port, &format!("CLUSTER ADDSLOTSRANGE {slots}"), 1), ["+OK"]);
        for (other, port) in members.iter().filter(|(other, _)| other.port != member.port) {
            let meet = format!("CLUSTER MEET 127.0.0.1 {} {port}", other.port);
            assert_eq!(lines(member.port, &meet, 1), ["+OK"]);
        }
    }
    let told = |port| lines(port, "CLUSTER INFO", 2);
    let is_whole =
        || members.iter().all(|(member, _)| told(member.port).ends_with(&["cluster_state:ok".into()]));
    let mut looks = 0..600;
    assert!(
        looks.any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            is_whole()
        }),
        "{:?}",
        members.iter().map(|(member, _)| told(member.port)).collect::<Vec<_>>()
    );
}

/// Its keys lie on several machines. One that is alone has none, and one of three sends who asks to the others.
fn of_a_cluster() -> Outcome {
    let works = [Work::new(), Work::new(), Work::new()];
    let members = works.iter().map(member).collect::<std::io::Result<Vec<_>>>()?;
    let [work, ..] = &works;
    let [(theirs, _), ..] = members.as_slice() else { return Err("no member".into()) };
    let words = ["redis", "part of a cluster", "name a server with cluster-enabled no"];
    let user = format!("ACL SETUSER bench on >{PASSWORD} ~blobwise_* +@all -info -hello");
    assert_eq!(lines(theirs.port, &user, 1), ["+OK"]);
    let url = format!("--set redis.url=redis://bench:{PASSWORD}@127.0.0.1:{}", theirs.port);
    for is_joined in [false, true] {
        if is_joined {
            join(&members);
        }
        work.say(&quick("redis", &theirs.redis_url())).refused(&words);
        // Who may not ask what the server is learns it from the answers about keys.
        work.say(&quick("redis", &url)).refused(&words);
    }
    for (member, _) in &members {
        assert!(keys(member.port, "*").is_empty(), "{:?}", keys(member.port, "*"));
    }
    Ok(())
}

fn wrong_password() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::redis(&work, &[]);
    let wrong = theirs.redis_url().replace(PASSWORD, "a-wrong-one");
    let said = work.say(&quick("redis", &wrong)).refused(&["redis", "WRONGPASS"]);
    assert!(!said.stderr.contains("a-wrong-one"), "{}", said.stderr);
    let none = format!("--set redis.url=redis://127.0.0.1:{}", theirs.port);
    work.say(&quick("redis", &none)).refused(&["redis", "NOAUTH"]);
    let port = theirs.port;
    let valkey = format!("--set valkey.url=valkey://:{PASSWORD}@127.0.0.1:{port}");
    work.say(&quick("valkey", &valkey)).refused(&["the server is not Valkey but Redis"]);
    assert_eq!(work.names("."), ["theirs"]);
    Ok(())
}

fn weak_class() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::redis(&work, &[]);
    let url = theirs.redis_url();
    work.say(&quick("redis", &url)).refused(&["appendonly no", "class on-sync", "--durability none"]);
    let each_write = format!("--durability each-write {url}");
    work.say(&quick("redis", &each_write)).refused(&["appendonly no", "class each-write"]);
    Ok(())
}

fn strong_class() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::redis(&work, &["--appendonly", "yes", "--appendfsync", "always"]);
    for (class, out) in [("on-sync", "1"), ("each-write", "2")] {
        let line = "run --stores redis --blobs 12 --rounds 1 --phases fill,overwrite --quiet";
        let more = format!("--durability {class} --out {out} {}", theirs.redis_url());
        work.say(&format!("{line} {more}")).ended(0);
    }
    assert!(keys(theirs.port, "blobwise*").is_empty());
    Ok(())
}

fn bulk_limit() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::redis(&work, &["--proto-max-bulk-len", "1mb"]);
    let more = format!("--durability none --corpus fixed:2MB {}", theirs.redis_url());
    work.say(&quick("redis", &more)).refused(&["proto-max-bulk-len", "1048576"]);
    Ok(())
}

fn killed() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::redis(&work, &[]);
    let url = theirs.redis_url();
    let run =
        "run --stores redis --blobs 40 --rounds 2 --phases fill,read-warm --durability none --dir place";
    let long = run.replace("--rounds 2", "--rounds 20");
    let child = run_until(&work, &format!("{long} --verbose --out out {url}"), "read-warm", 1);
    kill_amid(child, "read-warm", || !keys(theirs.port, "blobwise*").is_empty());
    work.say(&format!("{run} --quiet --out again {url}")).ended(0);
    assert!(keys(theirs.port, "*").is_empty(), "{:?}", keys(theirs.port, "*"));
    Ok(())
}

/// From which the run could not remove its own, which would lose it, or whose last connections it would take.
fn not_left_as_it_was() -> Outcome {
    let of_redis: [(&[&str], [&str; 2]); 3] = [
        (&["--rename-command", "DEL", ""], ["no command DEL", "nothing is put there"]),
        (&["--replicaof", "127.0.0.1", "9"], ["is a replica", "name its primary"]),
        (&["--maxclients", "3"], ["left of maxclients 3", "use fewer --workers"]),
    ];
    for (options, words) in of_redis {
        let work = Work::new();
        let theirs = Theirs::redis(&work, options);
        work.say(&quick(
            "redis",
            &format!("--durability none --corpus fixed:1kB --workers 2 {}", theirs.redis_url()),
        ))
        .refused(&words);
        assert!(keys(theirs.port, "*").is_empty());
    }
    let of_memcached: [(&[&str], [&str; 2]); 2] = [
        (&["-X"], ["does not list its items (-X", "start it without -X"]),
        (&["-c", "64"], ["left of -c 64", "use fewer --workers"]),
    ];
    for (options, words) in of_memcached {
        let work = Work::new();
        let theirs = Theirs::memcached(&work, options);
        let line = quick("memcached", &format!("--corpus fixed:1kB --workers 64 {}", theirs.memcached_url()));
        work.say(&line).refused(&words);
        let items = lines(theirs.port, "stats\r\nquit", 500);
        assert!(items.iter().any(|line| line == "STAT total_items 0"), "{items:?}");
    }
    Ok(())
}

/// What is asked of the server itself comes seconds or minutes apart.
fn idle_connections_end() -> Outcome {
    let work = Work::new();
    let open = |name: &str, url: &str, close_idle: &dyn Fn()| -> Outcome {
        let Some(Entry::Ready(adapter)) = stores::find(name) else { return Err("no such store".into()) };
        let (dir, common) = (work.path(name), Common::new(work.path("cache")));
        std::fs::create_dir(&dir)?;
        let options = opening::options_at(adapter, url);
        let setup = opening::small(&dir, &common, &options);
        let store = (adapter.open)(&Setup { durability: Durability::None, ..setup })?;
        store.session()?.put(&Key::of_digest(3, 0xabc), b"a blob")?;
        close_idle();
        store.settle()?;
        store.facts()?;
        store.footprint_bytes()?;
        close_idle();
        Ok(store.remove()?)
    };
    let theirs = Theirs::redis(&work, &[]);
    let end_all = || assert!(lines(theirs.port, "CLIENT KILL TYPE normal", 1)[0].starts_with(':'));
    open("redis", &format!("redis://:{PASSWORD}@127.0.0.1:{}", theirs.port), &end_all)?;
    assert!(keys(theirs.port, "*").is_empty(), "{:?}", keys(theirs.port, "*"));
    drop(theirs);
    std::fs::remove_dir_all(work.path("theirs"))?;
    let theirs = Theirs::memcached(&work, &["-I", "2m", "-o", "idle_timeout=1"]);
    let wait = || std::thread::sleep(Duration::from_millis(2500));
    open("memcached", &format!("memcached://127.0.0.1:{}", theirs.port), &wait)?;
    assert_eq!(lines(theirs.port, "lru_crawler metadump hash", 1), ["END"]);
    Ok(())
}

/// As an administrator does, or a limit for idle ones: the connection that would have removed the keys is gone, too.
fn connections_end() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::redis(&work, &[]);
    let run = "run --stores redis --blobs 400 --rounds 1 --phases fill,read-warm --durability none --verbose --out out";
    let child = run_until(&work, &format!("{run} {}", theirs.redis_url()), "read-warm", 1);
    assert!(lines(theirs.port, "CLIENT KILL TYPE normal", 1)[0].starts_with(':'));
    // It fails where ops were under way, and not where only its keys were to be removed.
    let said = wait(child);
    assert!(matches!(said.code, Some(0 | 1)), "{said:?}");
    assert!(keys(theirs.port, "*").is_empty(), "{:?}", keys(theirs.port, "*"));
    Ok(())
}

// ---- memcached -------------------------------------------------------------------------------------------------------

fn memcached_used_and_left() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::memcached(&work, &[]);
    assert_eq!(lines(theirs.port, "ms precious 6\r\ntheirs", 1), ["HD"]);
    work.say(&quick("memcached", &theirs.memcached_url())).ended(0);
    let left = lines(theirs.port, "lru_crawler metadump hash", 2);
    assert!(left[0].starts_with("key=precious ") && left[1] == "END", "{left:?}");
    Ok(())
}

/// Where a thread or process may run, as the kernel says.
fn allowed(status: &Path) -> Option<String> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(line.trim().to_owned())
}

fn pinned_apart() -> Outcome {
    let work = Work::new();
    work.say("run --stores files/hashed --pin-apart --out out")
        .refused(&["--pin-apart", "no candidate has a private server"]);
    let run = "run --stores memcached --blobs 50 --rounds 1 --phases fill,read-warm --verbose --pin-apart --out out";
    let mut on_one = work.command("taskset");
    on_one.args(["-c", "0", BLOBWISE]).args(run.split_whitespace());
    finish(&mut on_one).refused(&["may use 1 processor, and two are needed", "without `--pin-apart`"]);
    if std::thread::available_parallelism()?.get() < 2 {
        return Ok(());
    }
    // Each round starts a server: what a look at all processes comes too late for in one is there in another.
    let child = until(start(&mut work.blobwise(&run.replace("--rounds 1", "--rounds 99"))), "read-warm", 1);
    let (mut workers, mut servers) = (BTreeSet::new(), BTreeSet::new());
    let own = PathBuf::from(format!("/proc/{}/task", child.id()));
    // Servers are started in the run's place.
    let is_here = |process: &PathBuf| {
        std::fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == "memcached")
            && std::fs::read_link(process.join("cwd"))
                .is_ok_and(|cwd| cwd.starts_with(work.path("").canonicalize().unwrap()))
    };
    let mut look = || {
        let threads = std::fs::read_dir(&own).into_iter().flatten().flatten();
        workers.extend(threads.filter_map(|thread| allowed(&thread.path().join("status"))));
        let processes =
            std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|process| process.path());
        servers.extend(processes.filter(is_here).filter_map(|process| allowed(&process.join("status"))));
    };
    for _ in 0..100 {
        held(&child, &mut look);
        std::thread::sleep(Duration::from_millis(5));
    }
    send(&child, Signal::INT);
    wait(child).ended(130);
    let pinned = RunResult::load(&work.path("out"))?.machine.pinned.ok_or("nothing was pinned")?;
    assert!(pinned.workers.iter().all(|worker| !pinned.servers.contains(worker)), "{pinned:?}");
    // The kernel writes more than two as ranges.
    let list = |side: &[usize]| side.iter().map(usize::to_string).collect::<Vec<String>>().join(",");
    if pinned.workers.len() < 2 && pinned.servers.len() < 2 {
        assert_eq!(servers, BTreeSet::from([list(&pinned.servers)]));
        assert!(workers.contains(&list(&pinned.workers)), "{workers:?} and {pinned:?}");
    }
    Ok(())
}

/// The URL comes by the environment, so that not even the program's own command line has it. The secret is nobody else's: servers
/// of the tests beside this one are told theirs by their command lines.
fn untold() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::memcached(&work, &[]);
    let secret = blobwise::host::server::password()?;
    let url = format!("memcached://me:{secret}@127.0.0.1:{}/?token={secret}#{secret}", theirs.port);
    let mut command = work.command(BLOBWISE);
    let line =
        "run --stores memcached,redis,files/flat --blobs 12 --rounds 1 --phases fill,read-warm --out out";
    command.args(line.split_whitespace()).env("BLOBWISE_MEMCACHED_URL", &url);
    let mut child = start(&mut command);
    let mut looks = 0;
    while child.try_wait()?.is_none() {
        // Held meanwhile: a look at all processes of a busy machine takes as long as the run.
        held(&child, || {
            for process in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
                // Others end while we look.
                let told = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
                assert!(!String::from_utf8_lossy(&told).contains(&secret), "{:?} was told", process.path());
            }
        });
        looks += 1;
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(looks > 5, "it was over too soon");
    let output = child.wait_with_output()?;
    let mut written = vec![("what it said".to_owned(), [output.stdout, output.stderr].concat())];
    for name in work.names("out") {
        written.push((name.clone(), std::fs::read(work.path("out").join(name))?));
    }
    let markdown = work.say("report --markdown out").ended(0);
    written.push(("Markdown".to_owned(), markdown.stdout.into_bytes()));
    assert!(written.len() >= 6, "{:?}", work.names("out"));
    for (name, bytes) in written {
        assert!(!String::from_utf8_lossy(&bytes).contains(&secret), "the secret is in {name}");
    }
    Ok(())
}

fn login() -> Outcome {
    let work = Work::new();
    let users = work.path("users");
    std::fs::write(&users, format!("bench:{PASSWORD}"))?;
    let users = users.display().to_string();
    let theirs = Theirs::start(&work, "memcached", &["-l", "127.0.0.1", "-Y", &users], |port| {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let line = quick("memcached", &format!("--set memcached.url=memcached://127.0.0.1:{}", theirs.port));
    work.say(&line).refused(&["asks for a login (-Y)", "does not log in"]);
    Ok(())
}

fn item_limit() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::memcached(&work, &[]);
    let more = format!("--corpus fixed:2MB {}", theirs.memcached_url());
    work.say(&quick("memcached", &more)).refused(&["(-I) is 1048576 B", "2001024 B"]);
    Ok(())
}

/// A cache that others fill forgets what it was given: a miss where there must be a blob, never a fast answer.
fn evicted() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::memcached(&work, &["-m", "64"]);
    let line = "run --stores memcached --corpus fixed:100kB --blobs 200 --rounds 1 --phases fill,read-warm --verbose --no-live --out out";
    let child = run_until(&work, &format!("{line} {}", theirs.memcached_url()), "read-warm", 1);
    let answers = held(&child, || -> std::io::Result<Vec<String>> {
        let others = TcpStream::connect(("127.0.0.1", theirs.port))?;
        for index in 0..1000 {
            (&others)
                .write_all(format!("ms others{index} 100000\r\n{}\r\n", "x".repeat(100_000)).as_bytes())?;
        }
        BufReader::new(others).lines().take(1000).collect()
    })?;
    assert!(answers.iter().all(|answer| answer == "HD"));
    let said = wait(child).ended(1);
    assert!(said.stdout.contains("missing") || said.stdout.contains("no such blob"), "{}", said.stdout);
    Ok(())
}

// ---- caches under pressure -------------------------------------------------------------------------------------------

/// The cells of the one candidate, which has no errors: what was read had the right bytes or was gone.
fn under_pressure(work: &Work, store: &str) -> Outcome {
    let result = RunResult::load(&work.path("out"))?;
    let of = |phase: &str| result.results.iter().find(|cell| cell.phase == phase && cell.adapter == store);
    let (fill, read) = (of("fill").ok_or("no fill")?, of("read-warm").ok_or("no reads")?);
    assert_eq!((fill.status, read.status), (Status::Measured, Status::Measured), "{store}");
    assert!(fill.counters.evictions > 0, "{store}: {:?}", fill.counters);
    let misses = read.counters.cache_misses;
    assert!(misses > 0 && misses < read.ops, "{store}: {:?} of {} ops", read.counters, read.ops);
    assert_eq!((fill.counters.errors, read.counters.errors), (0, 0), "{store}");
    let steps: BTreeSet<&str> = read.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(steps, BTreeSet::from(["hit", "miss"]), "{store}");
    Ok(())
}

/// Half as large as the corpus: what was thrown away is counted, and nothing fails.
fn half_the_corpus() -> Outcome {
    let work = Work::new();
    let line = "run --stores redis,memcached --corpus fixed:20kB --blobs 1600 --rounds 1 --phases fill,read-warm,overwrite --quiet \
                --durability none --out out --set redis.maxmemory=16MB --set memcached.memory=16MB";
    let said = work.say(line).ended(0);
    assert!(said.stdout.contains("Caches under pressure"), "{}", said.stdout);
    ["redis", "memcached"].iter().try_for_each(|store| under_pressure(&work, store))
}

/// Only where its owner says so, and says so before.
fn theirs_may_evict() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::redis(&work, &["--maxmemory", "24mb", "--maxmemory-policy", "allkeys-lru"]);
    let line = "run --stores redis --corpus fixed:20kB --blobs 1600 --rounds 1 --phases fill,read-warm --durability none --out out";
    let line = format!("{line} {}", theirs.redis_url());
    work.say(&line).refused(&["left of maxmemory", "others' too (the option evicts=allowed)"]);
    let said = work.say(&format!("{line} --set redis.evicts=allowed")).ended(0);
    let first = said.stderr.lines().next().unwrap_or_default();
    assert!(first.contains("the server evicts keys (allkeys-lru), others' among them"), "{first}");
    under_pressure(&work, "redis")?;
    assert!(keys(theirs.port, "blobwise*").is_empty());
    // One that evicts nothing would make no miss.
    assert_eq!(lines(theirs.port, "CONFIG SET maxmemory-policy noeviction", 1), ["+OK"]);
    let line = line.replace("--out out", "--out other");
    work.say(&format!("{line} --set redis.evicts=allowed"))
        .refused(&["maxmemory-policy noeviction", "leave out evicts=allowed"]);
    work.say(&format!("{line} --set redis.maxmemory=1GB")).refused(&["`maxmemory` is the size of a private"]);
    // In a private server there is nothing of others.
    work.say(&quick("redis", "--set redis.evicts=allowed")).refused(&["`evicts=allowed` is of your own"]);
    work.say(&quick("redis", "--set redis.maxmemory=1TiB")).refused(&["more than three quarters"]);
    Ok(())
}

/// Nothing reads a mark, so that a server evicts it before the blobs: without it, nobody finds what a killed run leaves, and a store
/// that is opened again in another class is none of ours.
fn mark_evicted() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::redis(&work, &["--maxmemory", "24mb", "--maxmemory-policy", "allkeys-lru"]);
    let Some(Entry::Ready(redis)) = stores::find("redis") else { return Err("no redis".into()) };
    let url = format!("redis://:{PASSWORD}@127.0.0.1:{}", theirs.port);
    let mut values = opening::options_at(redis, &url).values().clone();
    values.insert("evicts".to_owned(), "allowed".to_owned());
    let (options, dir, common) = (Options::new(values), work.path("store"), Common::new(work.path("cache")));
    std::fs::create_dir(&dir)?;
    let open = |mode| {
        let setup = opening::small(&dir, &common, &options);
        (redis.open)(&Setup { mode, durability: Durability::None, ..setup })
    };
    let store = open(Mode::Create)?;
    let ours = keys(theirs.port, "blobwise_*");
    let [mark] = ours.as_slice() else { return Err(format!("{ours:?}").into()) };
    let evict = || assert_eq!(lines(theirs.port, &format!("DEL {mark}"), 1), [":1"]);
    store.session()?.put(&Key::of_digest(3, 0xabc), b"a blob")?;
    evict();
    store.evictions()?;
    assert_eq!(lines(theirs.port, &format!("HGET {mark} made_by_blobwise"), 2), ["$3", "yes"]);
    evict();
    store.close()?;
    open(Mode::Open)?.remove()?;
    assert!(keys(theirs.port, "*").is_empty(), "{:?}", keys(theirs.port, "*"));
    Ok(())
}

// ---- how they are shown ----------------------------------------------------------------------------------------------

fn no_answer() -> Outcome {
    let work = Work::new();
    let line = "run --stores files/hashed,memcached,redis --blobs 12 --rounds 2 --phases fill,read-warm --quiet --out out";
    let said = work.say(line).ended(0);
    let result = RunResult::load(&work.path("out"))?;
    let (_, answer) = said.stdout.split_once("\nAnswer").ok_or("no answer")?;
    assert!(
        answer.contains("Disk: `files/hashed` takes least") && !answer.contains("takes most"),
        "{answer}"
    );
    // Memcached has no other class, and says so.
    let class = |store: &str| result.cell(store, "fill").map(|cell| cell.durability);
    assert_eq!(class("memcached"), Some(Durability::None));
    assert_eq!(class("redis"), Some(Durability::OnSync));
    // They are compared with each other at the most. (In a slow build the harness may keep them all from being ranked.)
    let ranked = result.comparisons.iter().filter(|comparison| comparison.verdict != Verdict::NotRanked);
    for pair in ranked {
        assert!(pair.store != "files/hashed" && pair.reference != "files/hashed", "{pair:?}");
    }
    let answer = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, left_out) = answer.split_once("Not in the running: ").ok_or("nothing is left out")?;
    assert!(
        left_out.contains("`memcached` and `redis` (a cache, not a place where files live)"),
        "{left_out}"
    );
    Ok(())
}
