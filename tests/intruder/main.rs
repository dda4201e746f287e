//! Another user of the machine, who tries to get at what private servers keep, and must not.
//!
//! The acts are those of a process of their own that is user 65534 and in no group. To become that user takes root: where the
//! tests are not root's they are ignored, with the reason, and fail where `BLOBWISE_REQUIRE_ALL=1`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "../common/obtainable.rs"]
mod obtainable;
#[path = "../common/opening.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod opening;
mod probes;
#[path = "../common/trials.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod trials;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use blobwise::host::place::Place;
use blobwise::host::server::{AllowedPaths, Launch, SUPERVISE, Server, free_port};
use blobwise::plan::defaults;
use blobwise::store::{Adapter, Common, Durability, Key, Kind, Options, Setup, Span, Store, Values};
use blobwise::stores;
use libtest_mimic::{Arguments, Failed};

use obtainable::{is_installed_without_tls, is_unobtainable};
use probes::Targets;

use crate::trials::Trial;

/// First argument of this program as the other user.
const INTRUDE: &str = "__intrude";
const BLOBWISE: &str = env!("CARGO_BIN_EXE_blobwise");

fn main() -> ExitCode {
    name_the_supervisor();
    if std::env::args().nth(1).as_deref() == Some(INTRUDE) {
        return intrude();
    }
    let is_root = rustix::process::geteuid().is_root();
    let mut acts: Vec<(String, Act)> = vec![
        ("who is confined to some files has no others".into(), Box::new(confinement)),
        ("without user namespaces nothing of root's is started".into(), Box::new(no_namespaces)),
        ("a server has no variables that may be secret".into(), Box::new(environment)),
    ];
    // A data directory that was made for one server is copied for the next; the last act removes it.
    let cache = Arc::new(place());
    acts.extend(of_every_server(&cache));
    let ftp: Act = Box::new(move || ftp_with_secret(&cache));
    acts.push(("ftp hands out nothing but blobs, with the secret too".into(), ftp));
    acts.push(("what lies open is found".into(), Box::new(wide_open)));
    let trials = acts.into_iter().map(|(name, check)| match is_root {
        true => Trial::test(name, check),
        false => Trial::impossible(name, "another user's acts take root"),
    });
    let mut trials: Vec<Trial> = trials.collect();
    trials.extend(missing().into_iter().map(|(name, reason)| Trial::impossible(name, reason)));
    // One after the other: what belongs to a server is told by which processes there are.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    trials::run(&arguments, trials, |_| true)
}

type Act = Box<dyn FnOnce() -> Result<(), Failed> + Send>;

/// Private servers stand behind a supervisor, which is the program itself and not this test.
#[expect(unsafe_code, reason = "changing the environment")]
fn name_the_supervisor() {
    // SAFETY: the first thing that is done, while there is one thread.
    unsafe {
        std::env::set_var("BLOBWISE_SUPERVISOR", BLOBWISE);
        // For `environment`.
        std::env::set_var("AWS_SECRET_ACCESS_KEY", "none");
    }
}

fn place() -> Place {
    Place::make(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap()
}

// ---- the other user -----------------------------------------------------------------------------------------------

/// Acts as the other user upon what is told on standard input, and says what was found.
fn intrude() -> ExitCode {
    let targets: Targets = serde_json::from_reader(std::io::stdin()).unwrap();
    probes::become_another_user();
    let found = probes::intrude(&targets);
    serde_json::to_writer(std::io::stdout(), &found).unwrap();
    ExitCode::SUCCESS
}

/// What another user finds.
fn found_by_another(targets: &Targets) -> Result<Vec<String>, Failed> {
    let own = std::env::current_exe()?;
    #[expect(clippy::disallowed_methods, reason = "it is waited for")]
    let mut child = Command::new(own)
        .arg(INTRUDE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .current_dir("/")
        .spawn()?;
    child.stdin.take().unwrap().write_all(&serde_json::to_vec(targets)?)?;
    let output = child.wait_with_output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Sockets of ours and of every process below us, files below a directory and below those of the sockets.
fn targets(dir: &Path, key: &Key, canary: &str) -> Targets {
    let processes = descendants();
    let open: BTreeSet<String> = processes
        .iter()
        .flat_map(|pid| std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten())
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    let lines = |file: &str| -> Vec<Vec<String>> {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines().skip(1).map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let mut found = Targets { key: key.as_str().to_owned(), canary: canary.to_owned(), ..Targets::default() };
    for line in ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().flat_map(lines) {
        // Local address, state (0A listens), inode.
        if line[3] == "0A" && open.contains(&line[9]) {
            let (_, port) = line[1].rsplit_once(':').unwrap();
            found.ports.push(u16::from_str_radix(port, 16).unwrap());
        }
    }
    for line in lines("/proc/net/unix") {
        let listens = u32::from_str_radix(&line[3], 16).is_ok_and(|flags| flags & 0x10000 != 0);
        match line.get(7).filter(|_| listens && open.contains(&line[6])) {
            Some(name) if name.starts_with('@') => found.names.push(name[1..].to_owned()),
            Some(path) => found.sockets.push(path.into()),
            None => {}
        }
    }
    // One that listens at an address of each protocol is tried once.
    found.ports.sort_unstable();
    found.ports.dedup();
    files_below(dir, &mut found.files);
    for directory in found.sockets.clone().iter().filter_map(|socket| socket.parent()) {
        files_below(directory, &mut found.files);
    }
    found.processes = processes.into_iter().filter(|pid| *pid != std::process::id() as i32).collect();
    found
}

fn files_below(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files_below(&entry.path(), found);
        }
        found.push(entry.path());
    }
}

/// This process and all below it.
fn descendants() -> Vec<i32> {
    let mut found = vec![std::process::id() as i32];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let children = format!("/proc/{pid}/task");
        for task in std::fs::read_dir(children).into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(text.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
        next += 1;
    }
    found
}

// ---- every server of the table -------------------------------------------------------------------------------------

/// Options and their values.
type Changes = Vec<(&'static str, &'static str)>;

/// Scripts that ask the same server as they do behind nginx, behind an Apache that is tried with two others.
const AS_BEHIND_NGINX: [&str; 2] = ["apache-php/memcached", "apache-php/postgres"];

/// Adapters with a program, each with its options as they come, and changed to what opens another port. Of those that differ in
/// what is within a table or a page alone, one stands for all; and one web server for files in memory, which no path leads to.
fn candidates() -> Vec<(String, &'static Adapter, Changes)> {
    const CHANGES: &[(&str, &str)] = &[("tls", "true"), ("medium", "memory")];
    let (mut candidates, mut families) = (Vec::new(), BTreeSet::new());
    let is_new = |adapter: &&'static Adapter| {
        !adapter.programs.is_empty()
            && !AS_BEHIND_NGINX.contains(&adapter.name)
            && (families.insert(stores::family(adapter.name)) || adapter.kind == Kind::Web)
    };
    for adapter in stores::adapters().filter(is_new) {
        candidates.push((adapter.name.to_owned(), adapter, Vec::new()));
        let servers = adapter.options.iter().flat_map(|spec| match spec.values {
            Values::Server(words) => words.iter().map(|word| (spec.name, *word)).collect(),
            _ => Vec::new(),
        });
        let others = servers.filter(|(name, word)| defaults(adapter).text(name) != *word);
        for (name, value) in CHANGES.iter().copied().chain(others) {
            // What differs is the web server's: one candidate of each is enough.
            let is_alike = adapter.kind == Kind::Web
                && (adapter.name.contains('/') || name == "medium" && adapter.name != "nginx");
            if adapter.options.iter().any(|spec| spec.name == name) && !is_alike {
                candidates.push((format!("{}[{name}={value}]", adapter.name), adapter, vec![(name, value)]));
            }
        }
    }
    candidates
}

fn options(adapter: &Adapter, changed: &Changes) -> Options {
    let mut values = defaults(adapter).values().clone();
    values.extend(changed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    Options::new(values)
}

/// What these settings lack here.
fn lacks(adapter: &Adapter, changed: &Changes) -> Option<String> {
    adapter.lacks(&options(adapter, changed)).map(|error| format!("{error:#}"))
}

fn of_every_server(cache: &Arc<Place>) -> Vec<(String, Act)> {
    let candidates = candidates().into_iter();
    let there = candidates.filter(|(_, adapter, changed)| lacks(adapter, changed).is_none());
    there
        .map(|(name, adapter, changed)| {
            let cache = Arc::clone(cache);
            let check: Act = Box::new(move || {
                with_store(&cache, adapter, &changed, |store, dir, key, canary| {
                    let mut session = store.session()?;
                    session.put(key, canary.as_bytes())?;
                    // The owner has it; what is open then is what is tried.
                    let mut blob = Vec::new();
                    assert!(session.get(key, Span::Whole, &mut |piece| blob.extend_from_slice(piece))?);
                    assert_eq!(String::from_utf8_lossy(&blob), canary);
                    let targets = targets(dir, key, canary);
                    assert!(targets.processes.len() >= 2, "{targets:?}");
                    assert!(targets.ports.len() + targets.sockets.len() > 0 && targets.files.len() > 1);
                    let found = found_by_another(&targets)?;
                    if found.is_empty() {
                        Ok(())
                    } else {
                        Err(format!("another user got in: {found:#?}").into())
                    }
                })
            });
            (name, check)
        })
        .collect()
}

/// Candidates whose program is not there, and why.
fn missing() -> Vec<(String, String)> {
    let missing = candidates()
        .into_iter()
        .filter(|(_, adapter, changed)| {
            !is_unobtainable(adapter) && !is_installed_without_tls(adapter, &options(adapter, changed))
        })
        .filter_map(|(name, adapter, changed)| Some((name, lacks(adapter, &changed)?)));
    missing.collect()
}

/// Opens a store in a place of its own, and lets `check` have it, its directory, a key and what a blob is to have in it. Data
/// directories that are made once lie in `cache`.
fn with_store(
    cache: &Place,
    adapter: &'static Adapter,
    changed: &[(&str, &str)],
    check: impl FnOnce(&dyn Store, &Path, &Key, &str) -> Result<(), Failed>,
) -> Result<(), Failed> {
    let place = place();
    let (dir, common) = (place.path().join("store"), Common::new(cache.path().to_owned()));
    std::fs::create_dir(&dir)?;
    let changes: BTreeMap<&str, &str> = changed.iter().copied().collect();
    let value = |spec: &blobwise::store::OptionSpec| {
        let value = changes.get(spec.name).copied().unwrap_or(spec.default);
        let bytes = blobwise::units::parse_bytes(value).ok();
        let bytes = bytes.filter(|_| matches!(spec.values, Values::Bytes { .. }));
        (spec.name.to_owned(), bytes.map_or_else(|| value.to_owned(), |bytes| bytes.to_string()))
    };
    let options = Options::new(adapter.options.iter().map(value).collect());
    let setup = Setup {
        durability: Durability::None,
        store_bytes_max: 1 << 24,
        op_timeout: Duration::from_secs(60),
        ..opening::small(&dir, &common, &options)
    };
    let store = (adapter.open)(&setup)?;
    let key = Key::of_digest(1, 0x1234_5678_9abc_def0_u128 << 64 | 1);
    let outcome = check(store.as_ref(), &dir, &key, "nobody-else-may-read-this");
    store.close()?;
    outcome
}

/// Who knows the password has blobs, and no other file of its owner's.
fn ftp_with_secret(cache: &Place) -> Result<(), Failed> {
    let Some(stores::Entry::Ready(ftp)) = stores::find("ftp") else { return Err("no ftp".into()) };
    with_store(cache, ftp, &[], |store, dir, key, canary| {
        store.session()?.put(key, canary.as_bytes())?;
        std::fs::write(dir.join("other"), "another file of its owner's")?;
        let other = format!("/{}", dir.join("other").display());
        let password = std::fs::read_to_string(dir.join("passwords"))?;
        let blob = format!("{}/{}", &key.as_str()[..2], key.as_str());
        let port = targets(dir, key, canary).ports[0];
        let files = [blob.as_str(), "//etc/shadow", &other, "../other"];
        let (said, logged_in) = probes::ftp(port, password.trim(), &files);
        let said = String::from_utf8_lossy(&said);
        assert!(logged_in && said.contains(canary), "{said}");
        assert!(!said.contains("root:") && !said.contains("another file"), "{said}");
        // By the start of the line: a port may have any digits.
        assert_eq!(said.lines().filter(|line| line.starts_with("550 ")).count(), 3, "{said}");
        Ok(())
    })
}

/// The control: servers, files and command lines that are as open as can be are found to be.
fn wide_open() -> Result<(), Failed> {
    let Some(stores::Entry::Ready(memcached)) = stores::find("memcached") else { return Err("none".into()) };
    let program = memcached.programs[0].find()?.path;
    let place = place();
    let dir = place.path().join("open");
    std::fs::create_dir(&dir)?;
    std::fs::write(dir.join("file"), "open")?;
    for path in [place.path(), &dir, &dir.join("file")] {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    }
    let port = free_port()?;
    let (number, key) = (port.to_string(), Key::of_digest(1, 1 << 100));
    let mut over_port = Server::start(&Launch::new(&program, &dir).args(["-l", "127.0.0.1", "-p", &number]))?;
    over_port.wait_until_ready(Duration::from_secs(20), || {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
        Ok(write!(stream, "set {} 0 0 6\r\ncanary\r\n", key.as_str())?)
    })?;
    let socket = dir.join("s");
    let secret = blobwise::host::server::password()?;
    let launch = Launch::new(Path::new("/bin/sh"), &dir).args(["-c", "exec \"$0\" -s s -a 0777 -- \"$1\""]);
    let mut over_socket = Server::start(&launch.arg(&program).arg(&secret))?;
    let connects = || Ok(std::os::unix::net::UnixStream::connect(&socket).map(drop)?);
    over_socket.wait_until_ready(Duration::from_secs(20), connects)?;
    let found =
        found_by_another(&Targets { sockets: vec![socket], ..targets(&dir, &key, "canary") })?.concat();
    for way in ["`version`", "`mg`: \"VA 6", "/s` takes connections", "/file` can be read", "like a secret"] {
        assert!(found.contains(way), "{way} is not in {found}");
    }
    Ok(())
}

// ---- what starts servers -----------------------------------------------------------------------------------------

/// Starts a shell with a script and waits until what it says is whole.
fn shell(launch: Launch, script: &str) -> (Server, String) {
    let launch = launch.arg("-c").arg(script);
    let mut server = Server::start(&launch).unwrap();
    let mut said = String::new();
    let whole = || {
        said = std::fs::read_to_string(&launch.log)?;
        anyhow::ensure!(said.contains("that is all"), "it has not said all");
        Ok(())
    };
    server.wait_until_ready(Duration::from_secs(20), whole).unwrap();
    (server, said)
}

fn confinement() -> Result<(), Failed> {
    let place = place();
    let [allowed, secret] = ["allowed", "secret"].map(|name| place.path().join(name));
    std::fs::create_dir(&allowed)?;
    std::fs::write(allowed.join("a"), "may be read\n")?;
    std::fs::write(&secret, "must not be read\n")?;
    let files = AllowedPaths::of_the_system().and_reads(&[&allowed]);
    let launch = Launch::new(Path::new("/bin/sh"), place.path()).confined_to(files);
    let script = "cat allowed/a secret /etc/shadow; echo x > allowed/b; echo that is all; exec sleep 600";
    let (_server, said) = shell(launch, script);
    assert!(said.contains("may be read") && !said.contains("must not") && !said.contains("root:"), "{said}");
    assert_eq!(said.matches("Permission denied").count(), 3, "{said}");
    assert!(!allowed.join("b").exists());
    Ok(())
}

/// What a server has of our environment. The variables of this process are those that users have, beside one of a secret.
fn environment() -> Result<(), Failed> {
    let place = place();
    let launch = Launch::new(Path::new("/bin/sh"), place.path()).env("GIVEN", "to it");
    let (_server, said) = shell(launch, "env; echo that is all; exec sleep 600");
    let names: Vec<&str> = said.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert!(names.contains(&"GIVEN") && names.contains(&"PATH"), "{said}");
    // Set before anything else was done, and by cargo.
    for name in ["AWS_SECRET_ACCESS_KEY", "BLOBWISE_SUPERVISOR", "CARGO_MANIFEST_DIR"] {
        assert!(std::env::var_os(name).is_some() && !names.contains(&name), "{name}: {said}");
    }
    Ok(())
}

/// In a namespace of users that allows no further one, as where the system refuses them all.
fn no_namespaces() -> Result<(), Failed> {
    let place = place();
    let text = |text: &str| serde_json::json!({"Unix": text.as_bytes()});
    let order = serde_json::json!({
        "log": text(place.path().join("log").to_str().unwrap()), "program": text("/bin/cat"),
        "arguments": [text("/proc/self/status")], "files": null, "channel": null,
    });
    let script = format!("echo 0 > /proc/sys/user/max_user_namespaces && exec {BLOBWISE} {SUPERVISE} cat");
    // Root of the namespace from its second program on: the first began before it had any users.
    let script = format!("read mapped; exec setpriv --groups=4,27,42 sh -c '{script}'");
    #[expect(clippy::disallowed_methods, reason = "ends by itself, without a server")]
    let mut supervisor = Command::new("unshare")
        .args(["--user", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    map_all_users(supervisor.id())?;
    supervisor.stdin.take().unwrap().write_all(format!("mapped\n{order}\n").as_bytes())?;
    let said = String::from_utf8(supervisor.wait_with_output()?.stdout)?;
    assert!(
        said.starts_with("failed the kernel refuses user namespaces, so that it would run as root"),
        "{said}"
    );
    // Whatever it had done would be here.
    let log = std::fs::read_to_string(place.path().join("log")).unwrap_or_default();
    assert_eq!(log, "");
    Ok(())
}

/// Calls users and groups in the namespace of a process what they are called outside, as soon as there is one.
fn map_all_users(pid: u32) -> Result<(), Failed> {
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/user"));
    while namespace(&pid.to_string())? == namespace("self")? {
        std::thread::sleep(Duration::from_millis(5));
    }
    for map in ["uid_map", "gid_map"] {
        std::fs::write(format!("/proc/{pid}/{map}"), "0 0 65536\n")?;
    }
    Ok(())
}
