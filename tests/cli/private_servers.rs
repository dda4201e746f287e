//! Private servers: where their sockets are, what they have of the user's environment, and which line of their log is the reason.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use blobwise::host::machine::uptime;
use blobwise::host::server::{Launch, run_to_end};
use blobwise::result::{RunResult, Status};
use rustix::process::Signal;

use crate::places::no_mounts;
use crate::program::{BLOBWISE, Outcome, Said, Work, finish, held, missing, needing, start};
use crate::signals::{send, until, wait};
use crate::theirs::{of_postgres, program};
use crate::trials::Trial;

/// Those that have sockets or files of their own outside the store's directory, as one candidate each.
const STORES: &[&str] = &[
    "memcached",
    "redis",
    "valkey",
    "postgres/bytea",
    "mysql/blob",
    "mariadb/blob",
    "nginx-php/memcached",
    "apache",
    "ftp",
    "s3",
];

pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for store in STORES {
        let name = format!("{store} works where TMPDIR and --dir are too long for sockets");
        trials.push(needing(&name, missing(store), move || long_paths(store)));
    }
    for store in ["sqlite", "mysql/blob", "mariadb/blob", "postgres/bytea"] {
        let name = format!("{store} works at the longest --dir that a refusal names");
        trials.push(needing(&name, missing(store), move || longest_path(store)));
    }
    let no_postgres = missing("postgres/bytea");
    trials.push(needing(
        "PostgreSQL works where TMPDIR has a comma and a space",
        no_postgres.clone(),
        odd_path,
    ));
    trials.push(needing(
        "a killed run with a long TMPDIR leaves nothing to the next",
        missing("memcached"),
        killed,
    ));
    // It hides what lies there.
    let hidden = ["/tmp/", "/var/tmp/", "/dev/shm/"].iter().any(|place| BLOBWISE.starts_with(place));
    let lacks = hidden.then(|| "the program lies where sockets do".to_owned());
    let lacks = lacks.or_else(no_mounts).or_else(|| missing("memcached"));
    trials.push(needing("without any place for sockets a run is refused at once", lacks, nowhere));
    trials.push(needing(
        "libraries of the user's are not loaded into private servers",
        missing("memcached"),
        environment,
    ));
    trials.push(needing(
        "the reason of a user without a name is told",
        nobody().or(no_postgres.clone()),
        without_a_name,
    ));
    type Row = (&'static str, &'static str, fn() -> Outcome);
    let servers: [Row; 11] = [
        ("a port that is taken, of Redis", "redis", redis_port),
        ("a setting that Redis does not know", "redis", redis_setting),
        ("a port that is taken, of memcached", "memcached", memcached_port),
        ("an option that memcached does not know", "memcached", memcached_option),
        ("a port that is taken, of nginx", "nginx", nginx_port),
        ("a directive that nginx does not know", "nginx", nginx_directive),
        ("a port that is taken, of Apache", "apache", apache_port),
        ("a directory without data, of MySQL", "mysql/blob", || without_data("mysql/blob")),
        ("a directory without data, of MariaDB", "mariadb/blob", || without_data("mariadb/blob")),
        ("a port that is taken, of PostgreSQL", "postgres/bytea", postgres_port),
        ("a library that is missing", "memcached", missing_library),
    ];
    for (name, store, test) in servers {
        trials.push(needing(&format!("the log's reason is told: {name}"), missing(store), test));
    }
    trials
}

// ---- sockets ---------------------------------------------------------------------------------------------------------

/// A directory whose path has at least so many bytes.
fn long(work: &Work, name: &str, bytes: usize) -> PathBuf {
    let mut path = work.path(name);
    while path.as_os_str().len() < bytes {
        path = path.join("d".repeat((bytes - path.as_os_str().len()).clamp(2, 60) - 1));
    }
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Every path below a directory that is no part of the way to one of these.
fn beside_the_way(work: &Work, below: &str, ways: &[&Path]) -> Vec<PathBuf> {
    let is_beside = |path: &PathBuf| !ways.iter().any(|way| way.starts_with(path));
    work.snapshot(below).into_keys().filter(is_beside).collect()
}

fn line(store: &str, dir: &Path) -> String {
    format!(
        "run --stores {store},files/hashed --corpus fixed:2kB --blobs 6 --rounds 1 --phases fill,read-warm --no-drop-caches \
         --dir {} --out out",
        dir.display()
    )
}

/// The candidate was measured.
fn measured(work: &Work, said: &Said) {
    let result = RunResult::load(&work.path("out")).unwrap();
    for candidate in &result.candidates {
        assert_eq!(
            candidate.status,
            Status::Measured,
            "{}: {:?}\n{}",
            candidate.store,
            candidate.reason,
            said.stderr
        );
    }
}

fn longest_path(store: &str) -> Outcome {
    let work = Work::new();
    let beyond = long(&work, "beyond", 1_100);
    let said = work.say(&line(store, &beyond)).refused(&[store, "name a --dir of at most "]);
    let most = said.stderr.split("a --dir of at most ").nth(1).and_then(|rest| rest.split(' ').next());
    let most: usize = most.ok_or("no length")?.parse()?;
    assert!(std::fs::read_dir(&beyond)?.next().is_none() && !work.path("out").exists());
    // One byte less, because a component has at least one.
    let said = work.say(&line(store, &long(&work, "fits", most - 1))).ended(0);
    measured(&work, &said);
    Ok(())
}

fn long_paths(store: &str) -> Outcome {
    let work = Work::new();
    // A name that is cut would lie in the directory or above it; each server cuts elsewhere.
    for bytes in [95, 180] {
        let (tmp, dir) = (long(&work, "tmp", bytes), long(&work, "dir", bytes + 100));
        let said = finish(work.blobwise(&line(store, &dir)).env("TMPDIR", &tmp)).ended(0);
        measured(&work, &said);
        let left: Vec<PathBuf> = ["tmp", "dir"]
            .iter()
            .flat_map(|below| beside_the_way(&work, below, &[tmp.as_path(), dir.as_path()]))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        for below in ["tmp", "dir", "out"] {
            std::fs::remove_dir_all(work.path(below))?;
        }
    }
    Ok(())
}

fn odd_path() -> Outcome {
    let work = Work::new();
    let tmp = work.path("a, b");
    std::fs::create_dir(&tmp)?;
    let mut command = work.blobwise(&line("postgres/bytea", Path::new("place")));
    let said = finish(command.env("TMPDIR", &tmp)).ended(0);
    measured(&work, &said);
    assert_eq!((work.names("a, b"), work.names(".").len()), (Vec::new(), 2));
    Ok(())
}

/// Processes that are started below one, with their command lines.
fn command_lines() -> Vec<String> {
    let read = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).ok();
    let lines = std::fs::read_dir("/proc").unwrap().flatten().filter_map(read);
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).collect()
}

fn killed() -> Outcome {
    let work = Work::new();
    let (tmp, dir) = (long(&work, "tmp", 95), work.path("place"));
    let run = |rounds: &str, more: &str| {
        let line = line("memcached", &dir).replace("--rounds 1", &format!("--rounds {rounds}"));
        let mut command = work.blobwise(&format!("{line} {more}"));
        command.env("TMPDIR", &tmp);
        command
    };
    std::fs::create_dir(&dir)?;
    // Each round starts a server: what a look at all processes comes too late for in one is there in another.
    let child = until(start(&mut run("20", "--verbose")), "read-warm", 1);
    // This run's memcached works in its directory, by which it is told from others.
    let of_this =
        |line: &&String| line.contains("memcached") && line.contains("-s ") && !line.contains("__supervise");
    let socket = || -> Option<PathBuf> {
        let works_here =
            |path: PathBuf| std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&dir));
        let processes = std::fs::read_dir("/proc")
            .ok()?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| works_here(path.clone()));
        let lines = processes.filter_map(|path| std::fs::read(path.join("cmdline")).ok());
        let lines: Vec<String> =
            lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).collect();
        let line = lines.iter().find(of_this)?;
        Some(line.split_once("-s ")?.1.split(' ').next()?.into())
    };
    let begin = uptime();
    let private = loop {
        // Held still until it is killed, or the server could end before its socket is looked at.
        let found = held(&child, || {
            let socket = socket()?;
            let private = socket.parent()?.to_owned();
            assert!(socket.as_os_str().len() <= 107, "{}", socket.display());
            let known = std::fs::metadata(&private).unwrap();
            assert_eq!((known.mode() & 0o777, known.uid()), (0o700, rustix::process::geteuid().as_raw()));
            send(&child, Signal::KILL);
            Some(private)
        });
        if let Some(private) = found {
            break private;
        }
        assert!(uptime() - begin < Duration::from_secs(60), "{:#?}", command_lines());
        std::thread::sleep(Duration::from_millis(5));
    };
    wait(child);
    std::fs::remove_dir_all(work.path("out"))?;
    finish(&mut run("1", "--quiet")).ended(0);
    assert!(!private.exists(), "{} is left", private.display());
    let left = beside_the_way(&work, "tmp", &[tmp.as_path()]);
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(work.names("place"), [""; 0]);
    Ok(())
}

/// Where the short places are read-only.
fn nowhere() -> Outcome {
    let work = Work::new();
    let tmp = long(&work, "tmp", 95);
    let script = "for place in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o ro none $place || exit 9; done; exec \"$0\" \"$@\"";
    let mut command = work.command("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, BLOBWISE]);
    command.env("TMPDIR", &tmp).args(line("memcached", Path::new("place")).split_whitespace());
    let said = finish(&mut command);
    let told = format!("error: TMPDIR is `{}`", tmp.display());
    assert!(said.stderr.lines().any(|line| line.starts_with(&told)), "{}", said.stderr);
    said.refused(&["107", "TMPDIR", "Read-only file system"]);
    assert_eq!(work.names("."), ["tmp"]);
    Ok(())
}

// ---- the environment -------------------------------------------------------------------------------------------------

/// A program of ours in the place of another one, which it starts.
fn wrapper(work: &Work, name: &str, script: &str) -> PathBuf {
    let path = work.path(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

fn environment() -> Outcome {
    let work = Work::new();
    let seen = work.path("seen");
    let memcached = program("memcached");
    let script = format!("env -0 >{}\nexec {} \"$@\"", seen.display(), memcached.display());
    let mut command = work.command(BLOBWISE);
    command.env("BLOBWISE_MEMCACHED", wrapper(&work, "memcached", &script));
    // Any library will do.
    let library = "libdl.so.2";
    let theirs = [
        ("LD_PRELOAD", library),
        ("LD_BIND_NOW", "1"),
        ("GLIBC_TUNABLES", "glibc.malloc.arena_max=1"),
        ("MALLOC_ARENA_MAX", "1"),
        ("PGOPTIONS", "-c fsync=off"),
        ("MYSQL_HOME", "/nowhere"),
        ("PHPRC", "/nowhere"),
        ("AWS_PROFILE", "theirs"),
        ("LANG", "de_DE.UTF-8"),
        ("LC_MESSAGES", "de_DE.UTF-8"),
        ("LD_LIBRARY_PATH", "/nowhere"),
    ];
    command.envs(theirs).args(line("memcached", Path::new("place")).split_whitespace()).arg("--tables");
    let said = finish(&mut command).ended(0);
    measured(&work, &said);
    let seen = String::from_utf8(std::fs::read(seen)?)?;
    let names: Vec<&str> = seen.split('\0').filter_map(|pair| Some(pair.split_once('=')?.0)).collect();
    assert!(names.contains(&"PATH") && names.contains(&"LD_LIBRARY_PATH"), "{names:?}");
    for (name, _) in &theirs[..theirs.len() - 1] {
        assert!(!names.contains(name), "{name} is among {names:?}");
    }
    let settings = RunResult::load(&work.path("out"))?.machine.library_settings;
    for fact in [
        "LD_PRELOAD=libdl.so.2",
        "LD_BIND_NOW=1",
        "GLIBC_TUNABLES=glibc.malloc.arena_max=1",
        "LD_LIBRARY_PATH=/nowhere",
    ] {
        assert!(settings.iter().any(|setting| setting == fact), "{fact} is not in {settings:?}");
    }
    let told = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.contains("Libraries are loaded into blobwise from outside (LD_PRELOAD=libdl.so.2)"),
        "{}",
        said.stdout
    );
    Ok(())
}

// ---- logs ------------------------------------------------------------------------------------------------------------

/// A user that has no name.
const NAMELESS: [&str; 4] = ["--reuid=61873", "--regid=61873", "--clear-groups", "--"];

/// Why nobody else can be had here.
fn nobody() -> Option<String> {
    (!rustix::process::geteuid().is_root()).then(|| "only root can be somebody else".to_owned())
}

fn without_a_name() -> Outcome {
    let work = Work::new();
    std::fs::set_permissions(work.path("."), PermissionsExt::from_mode(0o777))?;
    std::fs::copy(BLOBWISE, work.path("program"))?;
    let mut command = work.command("setpriv");
    command.args(NAMELESS).arg(work.path("program"));
    // Somebody's else.
    command.env_remove("HOME").env_remove("BLOBWISE_SUPERVISOR");
    let said = finish(command.args(line("postgres/bytea", Path::new("place")).split_whitespace())).ended(1);
    let result = RunResult::load(&work.path("out"))?;
    let candidate = result.candidate("postgres/bytea").ok_or("none")?;
    let reason = candidate.reason.as_deref().unwrap_or_default();
    assert!(
        reason
            .contains("could not look up effective user ID 61873: user does not exist;\nthe end of its log"),
        "{reason}\n{}",
        said.stderr
    );
    assert_eq!(work.names("place"), [""; 0]);
    Ok(())
}

/// The line of its log that is told as the reason why a program fails.
fn logged_reason(work: &Work, program: &Path, arguments: &[&str]) -> String {
    let dir = work.path("server");
    std::fs::create_dir_all(&dir).unwrap();
    // A server runs as nobody where we are root, in a directory of ours.
    let launch = Launch::new(program, &dir).args(arguments);
    let error = format!("{:#}", run_to_end(&launch, Duration::from_secs(60)).unwrap_err());
    let reason =
        error.split_once("; it logged: ").and_then(|(_, rest)| rest.split_once(";\nthe end of its log:"));
    reason.unwrap_or_else(|| panic!("no reason is told: {error}")).0.to_owned()
}

/// A port that somebody listens on.
fn taken() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    (listener, port)
}

#[track_caller]
fn says(told: &str, words: &[&str]) -> Outcome {
    assert!(words.iter().all(|word| told.contains(word)), "{words:?} are not in `{told}`");
    Ok(())
}

fn redis_port() -> Outcome {
    let (_taken, port) = taken();
    says(
        &logged_reason(&Work::new(), &program("redis"), &["--bind", "127.0.0.1", "--port", &port]),
        &["Address already in use"],
    )
}

fn redis_setting() -> Outcome {
    says(
        &logged_reason(&Work::new(), &program("redis"), &["--nosuch", "1"]),
        &["Bad directive or wrong number of arguments"],
    )
}

fn memcached_port() -> Outcome {
    let (_taken, port) = taken();
    says(
        &logged_reason(&Work::new(), &program("memcached"), &["-l", "127.0.0.1", "-p", &port]),
        &["Address already in use"],
    )
}

fn memcached_option() -> Outcome {
    says(&logged_reason(&Work::new(), &program("memcached"), &["--nosuch"]), &["nosuch"])
}

fn nginx(text: &str) -> String {
    let work = Work::new();
    std::fs::write(work.path("nginx.conf"), format!("daemon off;\nerror_log stderr;\npid pid;\n{text}"))
        .unwrap();
    let (dir, file) = (work.path("."), work.path("nginx.conf"));
    logged_reason(
        &work,
        &program("nginx"),
        &["-p", &dir.to_string_lossy(), "-e", "stderr", "-c", &file.to_string_lossy()],
    )
}

fn nginx_port() -> Outcome {
    let (_taken, port) = taken();
    let text = format!("events {{}}\nhttp {{ access_log off; server {{ listen 127.0.0.1:{port}; }} }}");
    says(&nginx(&text), &["[emerg]", "bind()", "Address already in use"])
}

fn nginx_directive() -> Outcome {
    says(&nginx("nosuch 1;\nevents {}"), &["[emerg]", "unknown directive \"nosuch\""])
}

fn apache_port() -> Outcome {
    let (work, (_taken, port)) = (Work::new(), taken());
    let (dir, file) = (work.path("."), work.path("apache.conf"));
    let dir = dir.display();
    std::fs::write(
        &file,
        format!(
            "ServerRoot \"{dir}\"\nServerName 127.0.0.1\nListen 127.0.0.1:{port}\nPidFile \"{dir}/pid\"\nErrorLog /dev/stderr\n\
                 DefaultRuntimeDir \"{dir}\"\nLoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n"
        ),
    )?;
    says(
        &logged_reason(&work, &program("apache"), &["-f", &file.to_string_lossy(), "-DFOREGROUND"]),
        &["Address already in use"],
    )
}

/// Where there are no tables, the last error is that it aborts.
fn without_data(store: &str) -> Outcome {
    let work = Work::new();
    let data = work.path("data");
    std::fs::create_dir(&data)?;
    let data = format!("--datadir={}", data.display());
    let arguments = ["--no-defaults", &data, "--socket=s", "--pid-file=pid", "--skip-networking"];
    // As for our own: MySQL's default names a directory of its package.
    let more: &[&str] = if store == "mysql/blob" { &["--secure-file-priv=NULL"] } else { &[] };
    let told = logged_reason(&work, &program(store), &[&arguments, more].concat());
    assert!(told.contains("[ERROR]") && !told.contains("Aborting"), "{told}");
    Ok(())
}

fn postgres_port() -> Outcome {
    let (work, (_taken, port)) = (Work::new(), taken());
    let data = work.path("data").to_string_lossy().into_owned();
    std::fs::create_dir(work.path("server"))?;
    let initdb = of_postgres("initdb");
    let dir = work.path("server");
    run_to_end(
        &Launch::new(&initdb, &dir).args(["-D", &data, "--no-sync", "--auth=trust"]),
        Duration::from_secs(60),
    )?;
    let listen =
        ["-D", &data, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-p", &port];
    says(
        &logged_reason(&work, &program("postgres/bytea"), &listen),
        &["could not bind", "Address already in use"],
    )
}

fn missing_library() -> Outcome {
    let work = Work::new();
    let copy = work.path("memcached");
    std::fs::copy(program("memcached"), &copy)?;
    let listed = Command::new("patchelf").arg("--print-needed").arg(&copy).output()?;
    let needed = String::from_utf8(listed.stdout)?;
    let event = needed.lines().find(|name| name.starts_with("libevent")).ok_or("no libevent")?;
    let done =
        Command::new("patchelf").args(["--replace-needed", event, "libnothere.so.1"]).arg(&copy).output()?;
    assert!(done.status.success(), "{done:?}");
    says(&logged_reason(&work, &copy, &[]), &["error while loading shared libraries: libnothere.so.1"])
}
