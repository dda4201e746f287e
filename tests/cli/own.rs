//! Stores of the user's own, described by a manifest: the examples, manifests that are not right, and what a program may do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use blobwise::host::server::{Launch, Server, cannot_confine};
use blobwise::result::{RunResult, Status};
use blobwise::store::Kind;
use rustix::process::Signal;

use crate::caches::{Theirs, keys};
use crate::program::{Outcome, Work, copied, finish, missing, needing};
use crate::servers::quick;
use crate::signals::{kill_amid, run_until, send, wait};
use crate::trials::Trial;

/// The examples, in this repository.
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/own-store");
/// Their stores, wherever a trial runs.
const PYTHON_HERE: &str = concat!("own:", env!("CARGO_MANIFEST_DIR"), "/examples/own-store/mystore.toml");
const NODE_HERE: &str = concat!("own:", env!("CARGO_MANIFEST_DIR"), "/examples/own-store/mystore-node.toml");
/// Stores by the manifests of the examples, copied into a trial's directory.
const PYTHON: &str = "own:own-store/mystore.toml";
const NODE: &str = "own:own-store/mystore-node.toml";
const GO: &str = "own:own-store/mystore-go.toml";

pub fn trials() -> Vec<Trial> {
    let python = || missing(PYTHON_HERE);
    let node = || missing(NODE_HERE);
    let confined = || cannot_confine().map(|why| format!("{why:#}"));
    vec![
        needing("a store of one's own in Python is measured beside its null", python(), || measured(PYTHON)),
        needing("a store of one's own in Node.js is measured", node(), || measured(NODE)),
        needing("a store of one's own in Go is measured", no_go(), || measured(GO)),
        needing("a store of one's own is kept in each class that its manifest has", python(), each_class),
        needing("a store of one's own that does not keep its contract fails its checks", python(), faulty),
        needing("a store of one's own by Redis's protocol is measured", missing("redis"), by_redis),
        needing("a store of one's own given by URL is used and left", python(), http_by_url),
        needing(
            "a store of one's own that turns requests away is asked again, and one that deletes nothing is refused",
            python(),
            busy_and_keeping,
        ),
        needing("a redis as a store of one's own is used and left", missing("redis"), redis_by_url),
        needing("a run does not go on with a changed manifest", python(), changed),
        Trial::test("a manifest that is not right is an error before the run", not_right),
        needing("a store of one's own writes below its directory only", python().or_else(confined), intruder),
    ]
}

fn go_program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let elsewhere = PathBuf::from("/usr/local/go/bin");
    let mut programs = std::env::split_paths(&path).chain([elsewhere]).map(|dir| dir.join("go"));
    programs.find(|program| program.is_file())
}

fn no_go() -> Option<String> {
    go_program()
        .is_none()
        .then(|| "no `go` was found; install it with `apt-get install golang-go`".to_owned())
}

/// A directory with the examples.
fn examples() -> Result<Work, libtest_mimic::Failed> {
    let work = Work::new();
    copied(Path::new(EXAMPLES), &work.path("own-store"))?;
    Ok(work)
}

/// What is left of a run beside its results and what the trial made.
fn left(work: &Work) -> Vec<String> {
    work.names(".").into_iter().filter(|name| name.starts_with("blobwise-")).collect()
}

/// The example with three faults, each of which fails a check of its own.
fn faulty() -> Outcome {
    const READ: &str = r#"self.rfile.read(int(self.headers["Content-Length"]))"#;
    let cut = format!("{READ}[:65536]");
    let faults = [
        (READ, cut.as_str(), "returns-what-was-put"),
        ("os.remove(self.path_of())", "pass", "deletes-twice"),
        ("blob[first : last + 1]", "blob[first:]", "exact-ranges"),
    ];
    let work = examples()?;
    let file = work.path("own-store/mystore.py");
    let mut program = std::fs::read_to_string(&file)?;
    for (right, wrong, _) in &faults {
        assert!(program.contains(right), "the example has no `{right}`");
        program = program.replace(right, wrong);
    }
    std::fs::write(&file, program)?;
    let said = work.say(&format!("check-store {PYTHON}[durability=none]")).ended(1);
    for (_, _, check) in &faults {
        assert!(said.stdout.contains(&format!("\n  FAILED  {check}: ")), "{}", said.stdout);
    }
    assert!(left(&work).is_empty(), "{:?}", left(&work));
    Ok(())
}

fn measured(store: &'static str) -> Outcome {
    let work = examples()?;
    if store == GO {
        let mut build = work.command(go_program().ok_or("no go")?);
        // As test.sh builds other programs, so that Go's own packages are compiled once for all.
        build.args(["build", "-trimpath", "mystore.go"]).current_dir(work.path("own-store"));
        finish(&mut build).ended(0);
    }
    let null = store.replace("mystore", "null");
    let line = format!(
        "run --stores files/hashed,{store},{null} --blobs 12 --rounds 2 --durability none \
         --phases fill,read-warm,read-cold,range-random,overwrite,delete-half --quiet --out out"
    );
    let result = work.result(&line);
    let own = result.candidate(store).ok_or("the store is not in the result")?;
    assert_eq!((own.kind, own.adapter.as_str()), (Some(Kind::Server), store));
    assert!(own.options["manifest"].contains("\"name\":\"mystore-"), "{:?}", own.options);
    assert_eq!(result.candidate(&null).and_then(|null| null.kind), Some(Kind::Baseline));
    for cell in result.results.iter().filter(|cell| cell.store == store) {
        assert_ne!(cell.status, Status::Failed, "{}", cell.phase);
    }
    assert_eq!(result.cell(store, "read-cold").map(|cell| cell.status), Some(Status::Measured));
    assert!(left(&work).is_empty(), "{:?}", left(&work));
    work.say("report out").ended(0);
    assert_ne!(work.say("compare out out").code, Some(2));
    Ok(())
}

fn each_class() -> Outcome {
    let work = examples()?;
    for class in ["on-sync", "each-write"] {
        let line = quick(PYTHON, &format!("--durability {class}"));
        let line = line.replace("--phases fill,read-warm", "--phases fill,overwrite");
        work.say(&line.replace("--out out", &format!("--out {class}"))).ended(0);
        let result = RunResult::load(&work.path(class))?;
        let overwrite = result.results.iter().find(|cell| cell.phase == "overwrite").ok_or("no overwrite")?;
        assert_eq!(overwrite.durability.name(), class);
    }
    Ok(())
}

fn write(work: &Work, name: &str, text: &str) -> Outcome {
    Ok(std::fs::write(work.path(name), text)?)
}

fn by_redis() -> Outcome {
    let work = Work::new();
    let program = crate::theirs::program("redis");
    let text = format!(
        "name = \"mine\"\nspeaks = \"redis\"\nsync = \"SAVE\"\ncommand = [{program:?}, \"--unixsocket\", \"{{socket}}\", \"--port\", \
         \"0\", \"--dir\", \"{{dir}}\", \"--save\", \"\"]\n"
    );
    write(&work, "mine.toml", &text)?;
    let phases = "--phases fill,read-warm,range-random,overwrite,delete-half";
    work.say(&quick("own:mine.toml", "").replace("--phases fill,read-warm", phases)).ended(0);
    write(
        &work,
        "port.toml",
        &text
            .replace("--unixsocket", "--bind")
            .replace("{socket}", "127.0.0.1")
            .replace("\"0\"", "\"{port}\""),
    )?;
    let said = work.say(&quick("own:port.toml", "").replace("--out out", "--out port"));
    said.ended(0);
    Ok(())
}

/// The example in Python as a server of the user's with the manifest `theirs.toml`, with changes of its program. Its socket is in the
/// directory.
fn theirs(
    work: &Work,
    changes: &[(&str, &str)],
) -> Result<(Server, tempfile::TempDir), libtest_mimic::Failed> {
    let (theirs, file) = (work.path("theirs"), work.path("own-store/mystore.py"));
    std::fs::create_dir(&theirs)?;
    std::fs::write(theirs.join("precious"), "theirs")?;
    let mut text = std::fs::read_to_string(&file)?;
    for (right, wrong) in changes {
        assert!(text.contains(right), "the example has no `{right}`");
        text = text.replace(right, wrong);
    }
    std::fs::write(&file, text)?;
    // The path of a socket is short, and that of a trial may be long.
    let sockets = tempfile::tempdir()?;
    let socket = sockets.path().join("s");
    let program = crate::theirs::program(PYTHON_HERE);
    let launch = Launch::new(&program, &theirs)
        .arg(work.path("own-store/mystore.py"))
        .arg("--dir")
        .arg(&theirs)
        .arg("--socket")
        .arg(&socket)
        .log(work.path("log"));
    let mut server = Server::start(&launch)?;
    let is_there = || if socket.exists() { Ok(()) } else { Err(anyhow::anyhow!("no socket")) };
    server.wait_until_ready(Duration::from_secs(30), is_there)?;
    let url = format!("http+unix://{}", socket.display());
    write(
        work,
        "theirs.toml",
        &format!("name = \"theirs\"\nspeaks = \"http\"\nkind = \"server\"\nurl = \"{url}\"\n"),
    )?;
    Ok((server, sockets))
}

/// Every twentieth request is turned away, also those by which the run removes what it put.
fn busy_and_keeping() -> Outcome {
    const BUSY: &str = "    def parse_request(self):
        if not super().parse_request():
            return False
        lengths['asked'] = lengths.get('asked', 0) + 1
        if lengths['asked'] % 20:
            return True
        self.rfile.read(int(self.headers.get('Content-Length', 0)))
        self.answer(503)
        return False

    def log_message";
    let line = quick("own:theirs.toml", "--durability none").replace("--blobs 12", "--blobs 60");
    let work = examples()?;
    let (_server, _sockets) = theirs(&work, &[("    def log_message", BUSY)])?;
    work.say(&line).ended(0);
    assert_eq!(work.names("theirs"), ["precious"]);
    let result = RunResult::load(&work.path("out"))?;
    let counters = result.results.iter().map(|cell| &cell.counters);
    let (errors, retries) = counters
        .fold((0, 0), |(errors, retries), counters| (errors + counters.errors, retries + counters.retries));
    assert!(errors == 0 && retries > 0, "{errors} errors, {retries} retries");
    // One that answers that it deleted, and did not: its mark stays, before anything else was put there.
    let work = examples()?;
    let (_server, _sockets) = theirs(&work, &[("os.remove(self.path_of())", "pass")])?;
    work.say(&line).refused(&[
        "could not remove `blobwise_mark_0`",
        "still has what was deleted",
        "-X DELETE http://localhost/blobwise_",
    ]);
    let kept = work.names("theirs");
    assert!(kept.len() == 2 && kept.iter().any(|name| name == "blobwise_mark_0"), "{kept:?}");
    Ok(())
}

fn http_by_url() -> Outcome {
    let work = examples()?;
    let (_server, _sockets) = theirs(&work, &[])?;
    let phases = "--phases fill,read-warm,read-cold,range-random,delete-half";
    let line = quick("own:theirs.toml", "--durability none").replace("--phases fill,read-warm", phases);
    let said = work.say(&line.replace("--quiet", "")).ended(0);
    assert!(said.stderr.contains("puts keys `blobwise_...`"), "{}", said.stderr);
    assert_eq!(work.names("theirs"), ["precious"]);
    let result = RunResult::load(&work.path("out"))?;
    let own = result.candidates.first().ok_or("no candidate")?;
    assert!(own.traits.is_external && own.traits.integer_keys, "{:?}", own.traits);
    Ok(())
}

fn redis_by_url() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::redis(&work, &[]);
    let url = theirs.redis_url().replace("--set redis.url=", "");
    let manifest = |url: &str| format!("name = \"theirs\"\nspeaks = \"redis\"\nurl = \"{url}\"\n");
    write(&work, "theirs.toml", &manifest(&url))?;
    let line = quick("own:theirs.toml", "--durability none");
    work.say(&line).ended(0);
    assert!(keys(theirs.port, "*").is_empty(), "{:?}", keys(theirs.port, "*"));
    assert_eq!(RunResult::load(&work.path("out"))?.candidates[0].facts["tls"], "none");
    for file in ["result.json", "plan.toml", "report.html"] {
        let text = std::fs::read_to_string(work.path("out").join(file))?;
        assert!(!text.contains(crate::caches::PASSWORD), "the password is in {file}");
    }
    for listed in ["list own:theirs.toml", "list own:theirs.toml --json"] {
        let said = work.say(listed).ended(0);
        assert!(said.stdout.contains("redis://"), "{}", said.stdout);
        assert!(!said.stdout.contains(crate::caches::PASSWORD), "the password is in `{listed}`");
    }
    // What a killed run left goes with the next one.
    let run = "run --stores own:theirs.toml --blobs 40 --phases fill,read-warm --durability none --dir place";
    let child = run_until(&work, &format!("{run} --rounds 20 --verbose --out killed"), "read-warm", 1);
    kill_amid(child, "read-warm", || !keys(theirs.port, "blobwise*").is_empty());
    work.say(&format!("{run} --rounds 1 --quiet --out next")).ended(0);
    assert!(keys(theirs.port, "*").is_empty(), "{:?}", keys(theirs.port, "*"));
    // Another server, too small and evicting: nothing of its owner's is thrown out.
    let other = Work::new();
    let theirs = Theirs::redis(&other, &["--maxmemory", "2mb", "--maxmemory-policy", "allkeys-lru"]);
    let url = theirs.redis_url().replace("--set redis.url=", "");
    write(&work, "small.toml", &manifest(&url))?;
    work.say(
        &quick("own:small.toml", "--durability none --corpus fixed:1MB").replace("--out out", "--out small"),
    )
    .refused(&["maxmemory", "evicts keys"]);
    assert!(keys(theirs.port, "*").is_empty());
    Ok(())
}

fn changed() -> Outcome {
    let work = examples()?;
    let run = format!(
        "run --stores {PYTHON} --blobs 40 --rounds 20 --phases fill,read-warm --durability none --verbose --out out"
    );
    let child = run_until(&work, &run, "read-warm", 2);
    send(&child, Signal::INT);
    wait(child);
    let path = work.path("own-store/mystore.toml");
    let text = std::fs::read_to_string(&path)?;
    std::fs::write(&path, text.replace("mystore-python", "mystore-other"))?;
    work.say("run --resume out --quiet").refused(&["had manifest"]);
    Ok(())
}

fn not_right() -> Outcome {
    let work = Work::new();
    let command = "command = [\"sh\", \"-c\", \"touch started; sleep 60\", \"{socket}\"]\n";
    let begin = "name = \"x\"\nspeaks = \"http\"\n";
    for (text, words) in [
        (format!("{begin}{command}comand = 1\n"), ["own.toml", "did you mean `command`?"]),
        (begin.to_owned(), ["own.toml", "neither a `command`"]),
        (format!("{begin}{command}url = \"http://localhost\"\n"), ["own.toml", "leave one of the two out"]),
        (
            format!("{begin}{command}").replace("http", "gopher"),
            ["own.toml", "no protocol is called `gopher`"],
        ),
        (
            format!("{begin}{command}").replace("\"sh\"", "\"no-such-program\""),
            ["own.toml", "`no-such-program`"],
        ),
        (format!("{begin}{command}").replace("\"x\"", "\"../../x\""), ["own.toml", "letters, digits"]),
        (format!("{begin}{command}").replace("{socket}", "{socket}/../x"), ["own.toml", "leads out of"]),
        (format!("{begin}url = \"https://localhost\"\n"), ["own.toml", "asks for TLS"]),
    ] {
        write(&work, "own.toml", &text)?;
        work.say(&quick("own:own.toml", "--durability none")).refused(&words);
    }
    work.say(&quick("own:nowhere.toml", "")).refused(&["nowhere.toml", "No such file"]);
    work.say("list own:nowhere.toml").refused(&["nowhere.toml", "No such file"]);
    work.say(&quick("own:/dev/zero", "")).refused(&["/dev/zero", "only a regular file is read"]);
    assert_eq!(work.names("."), ["own.toml"]);
    Ok(())
}

/// The program tries to write beside its manifest, into the run's directory and into that of the trial, and to remove a file.
fn intruder() -> Outcome {
    let work = examples()?;
    write(&work, "precious", "theirs")?;
    let script = "for place in . .. \"$1/..\" \"$1/../..\" \"$HOME\"; do touch \"$place/intruded\"; done; rm -f ../precious; \
                  ln -s / \"$1/root\"; exec python3 mystore.py --dir \"$1\" --socket \"$2\"";
    let text = format!(
        "name = \"intruder\"\nspeaks = \"http\"\nkind = \"server\"\ncommand = [\"sh\", \"-c\", '''{script}''', \"sh\", \"{{dir}}\", \"{{socket}}\"]\n"
    );
    write(&work, "own-store/intruder.toml", &text)?;
    let before = work.snapshot("own-store");
    let mut command = work.command(crate::program::BLOBWISE);
    command
        .args(quick("own:own-store/intruder.toml", "--durability none --no-drop-caches").split_whitespace());
    finish(command.env("HOME", work.path("."))).ended(0);
    assert_eq!(work.snapshot("own-store"), before);
    assert!(!work.path("intruded").exists());
    assert_eq!(std::fs::read_to_string(work.path("precious"))?, "theirs");
    assert!(left(&work).is_empty(), "{:?}", left(&work));
    Ok(())
}
