//! Logs described by `blobwise trace` and replayed by `blobwise run --trace`: what is said of them, and that no name in them gets out.

use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::objects::{KEY, SECRET, Theirs, no_versitygw};
use crate::program::{BLOBWISE, Outcome, Work, finish, missing, needing, start};
use crate::theirs::program;
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("a log of each format is described, and no name in it gets out", described),
        Trial::test("a log with lines that cannot be read says which", bad_lines),
        Trial::test("a log is replayed at its times, faster, and as fast as stores can", replayed),
        Trial::test("claims are judged on a replay", judged),
        Trial::test("a log that cannot be replayed is refused before anything is started", not_replayed),
        needing("a log that zstd compressed is read as it was", no_zstd(), of_zstd),
        needing("a log that nginx wrote is replayed", missing("nginx"), of_nginx),
        needing("a log that Apache wrote is read back", missing("apache"), of_apache),
        needing("a log that Caddy wrote is read back", missing("caddy"), of_caddy),
        needing(
            "a log is replayed in every kind of place",
            missing("postgres/bytea").or_else(|| missing("nginx")),
            replayed_everywhere,
        ),
        needing(
            "a log that an object store wrote is described and replayed",
            no_versitygw(),
            of_object_store,
        ),
    ]
}

/// What must not get out: a part of every name, address, user and query of the logs.
const PLANTED: [&str; 2] = ["planted", "203.0.113."];

/// 600 requests of a few objects in each text format; every tenth fails where the format has that.
fn logs() -> Vec<(&'static str, String)> {
    let names = ["combined", "json", "s3-log", "cloudfront", "ibm-cos", "twitter", "csv"];
    let mut logs = names.map(|name| (name, String::new()));
    logs[3].1 += "#Fields: date time c-ip cs-method cs(Host) cs-uri-stem sc-status sc-bytes cs-uri-query\n";
    logs[6].1 += "time,client,op,key,bytes\n";
    for n in 0..600 {
        let (clock, key) = (format!("10:{:02}:{:02}", n / 60, n % 60), format!("planted-{}.jpg", n * n % 20));
        let (status, bytes) = if n % 10 == 0 { (404, 9) } else { (200, 1000 + n * n % 20) };
        let lines = [
            format!(
                "203.0.113.9 - planted [30/Nov/2026:{clock} +0000] \"GET /{key}?planted=1 HTTP/1.1\" {status} {bytes} \"-\" \"-\""
            ),
            format!(
                r#"{{"ts":{},"request":{{"remote_ip":"203.0.113.9","method":"GET","host":"planted","uri":"/{key}"}},"status":{status},"size":{bytes}}}"#,
                1_796_032_800 + n
            ),
            format!(
                "planted planted [30/Nov/2026:{clock} +0000] 203.0.113.9 planted ID REST.GET.OBJECT {key} \"GET /{key} HTTP/1.1\" \
                 {status} - {bytes} {bytes} 5 4 \"-\""
            ),
            format!("2026-11-30\t{clock}\t203.0.113.9\tGET\tplanted\t/{key}\t{status}\t{bytes}\tplanted=1"),
            format!("{} REST.GET.OBJECT {key} {bytes}", n * 1000),
            format!("{n},{key},14,{bytes},203.0.113.9,get,0"),
            format!("{},203.0.113.9,get,{key},{bytes}", 1_796_032_800 + n),
        ];
        for (log, line) in logs.iter_mut().zip(lines) {
            log.1 += &(line + "\n");
        }
    }
    logs.into()
}

/// Checks that nothing planted is in what was printed or written.
#[track_caller]
fn nothing_planted(text: &str) {
    assert!(PLANTED.iter().all(|planted| !text.contains(planted)), "{text}");
}

fn described() -> Outcome {
    let work = Work::new();
    for (format, log) in logs() {
        std::fs::write(work.path("log"), log)?;
        let said = work.say("trace log --json").ended(0);
        nothing_planted(&(said.stdout.clone() + &said.stderr));
        let found: Value = serde_json::from_str(&said.stdout)?;
        assert_eq!(found["format"], format, "{}", said.stdout);
        assert_eq!((&found["requests"], &found["bad"]), (&600.into(), &0.into()), "{format}");
        assert_eq!(
            found["rate"]["last_second"]
                .as_i64()
                .zip(found["rate"]["first_second"].as_i64())
                .map(|(last, first)| last - first),
            Some(599),
            "{format}"
        );
        let has_failures = !["ibm-cos", "twitter", "csv"].contains(&format);
        assert_eq!(found["ops"]["failed"].as_u64(), has_failures.then_some(60), "{format}");
        let said = work.say("trace log").ended(0);
        nothing_planted(&(said.stdout.clone() + &said.stderr));
        let plan = said.stdout.lines().find_map(|line| line.trim().strip_prefix("blobwise run --corpus "));
        let sizes = plan.and_then(|rest| rest.split(' ').next()).ok_or("no plan")?;
        work.say(&format!("corpus --blobs 20 --corpus {sizes}")).ended(0);
        if format == "combined" {
            let piped = format!("gzip -c log | {BLOBWISE} trace - --json");
            let piped = finish(work.command("sh").args(["-c", &piped])).ended(0);
            assert_eq!(serde_json::from_str::<Value>(&piped.stdout)?["objects"], found["objects"]);
        }
    }
    assert_eq!(work.names("."), ["log"], "nothing is written");
    Ok(())
}

fn bad_lines() -> Outcome {
    let work = Work::new();
    let mut logs = logs();
    let mut log = std::mem::take(&mut logs[0].1);
    for n in 0..12 {
        writeln!(log, "planted-{n} 203.0.113.9 something else")?;
    }
    std::fs::write(work.path("log"), &log)?;
    let wrong =
        "12 of 612 lines (2.0 %), more than --allow-bad 1%, cannot be read as combined: line 601 has no time";
    work.say("trace log").refused(&[wrong, "add --allow-bad 2%"]);
    let said = work.say("trace log --allow-bad 2%").ended(0);
    assert!(
        said.stdout.contains("12 of 612 lines (2.0 %) cannot be read: line 601 has no time"),
        "{}",
        said.stdout
    );
    nothing_planted(&(said.stdout + &said.stderr));
    nothing_planted(&work.say("trace log").stderr);
    // A log of another kind, and one that was cut off while it was compressed.
    work.say("trace log --format json").refused(&["cannot be read as json: line 1 is not JSON"]);
    work.say("trace log --format jsn")
        .refused(&["--format: no format of logs is called `jsn`; did you mean `json`?"]);
    work.say("trace log --columns time,keys").refused(&["no column is called `keys`; did you mean `key`?"]);
    let packed = finish(Command::new("gzip").arg("-k").arg(work.path("log")));
    assert_eq!(packed.code, Some(0), "{}", packed.stderr);
    let whole = std::fs::read(work.path("log.gz"))?;
    std::fs::write(work.path("log.gz"), &whole[..whole.len() - 20])?;
    let said = work.say("trace log.gz --allow-bad 5%").ended(1);
    assert!(said.stderr.contains("error: the log ends early, after line "), "{}", said.stderr);
    assert!(said.stdout.starts_with("combined: "), "{}", said.stdout);
    Ok(())
}

/// 400 requests in four seconds: 40 objects are read, a quarter of them is put and deleted as well, and five are put first.
fn busy_log() -> String {
    let mut log = "time,op,key,bytes,client\n".to_owned();
    for n in 0..400_u64 {
        let key = n * 7 % 40;
        let op = match n / 40 {
            0 if key < 5 => "put",
            4 if key < 10 => "put",
            6 if key < 3 => "delete",
            7 if key < 3 => "put",
            _ => "get",
        };
        let (seconds, thousandths) = (1_796_032_800 + n / 100, n % 100 * 10);
        log +=
            &format!("{seconds}.{thousandths:03},{op},planted-{key}.jpg,{},203.0.113.9\n", 1000 + key * 500);
    }
    log
}

/// The cells of a phase in the result of a run, each with its store.
fn cells(out: &Path, phase: &str) -> Result<Vec<(String, Value)>, Failed> {
    let result: Value = serde_json::from_slice(&std::fs::read(out.join("result.json"))?)?;
    let cells = result["results"].as_array().ok_or("no results")?.iter();
    let of_phase = cells.filter(|cell| cell["phase"] == phase);
    Ok(of_phase.map(|cell| (cell["store"].as_str().unwrap_or_default().to_owned(), cell.clone())).collect())
}

/// Checks that nothing planted is in what a run wrote.
fn nothing_planted_in(work: &Work, out: &str) {
    for (path, (.., bytes)) in work.snapshot(out) {
        nothing_planted(&path.display().to_string());
        nothing_planted(&String::from_utf8_lossy(&bytes));
    }
}

/// A plan that replays the log of [`busy_log`] on these stores as fast as they can, and at these speeds.
fn plan(stores: &str, speeds: &[(&str, f64)]) -> String {
    let names: String = speeds.iter().map(|(phase, _)| format!(", '{phase}'")).collect();
    let phases: String = speeds
        .iter()
        .map(|(phase, speed)| format!("[[phase]]\nid = '{phase}'\nreplay = '{speed}'\n"))
        .collect();
    format!(
        "stores = [{stores}]\nrounds = 1\ndurability = 'none'\nworkers = 2\nreference = 'sqlite'\n\
         phases = ['fill', 'replay'{names}]\n[corpus]\ntrace = 'log'\nsample = '100%'\n{phases}"
    )
}

/// Checks what a phase made of the log of [`busy_log`] on this number of stores.
#[track_caller]
fn all_replayed(cells: &[(String, Value)], stores: usize, phase: &str, speed: Option<f64>) {
    assert_eq!(cells.len(), stores, "{phase}");
    for (store, cell) in cells {
        let round = &cell["rounds"][0];
        assert_eq!((&cell["errors"], &round["ops"]), (&0.into(), &400.into()), "{phase} {store}: {cell}");
        assert_eq!(round["replayed"]["speed"].as_f64(), speed, "{store}");
        assert_eq!(round["replayed"]["requests"], 400, "{store}");
        assert!((round["replayed"]["log_seconds"].as_f64().unwrap() - 3.99).abs() < 1e-3, "{cell}");
        assert_eq!(cell["response_ns"].is_object(), speed.is_some(), "{phase} {store}");
        let mut kinds: Vec<&str> =
            cell["steps"].as_array().unwrap().iter().filter_map(|step| step["name"].as_str()).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, ["delete", "get", "put"], "{phase} {store}");
        if let Some(speed) = speed {
            // No op is done before it is due.
            let seconds = round["seconds"].as_f64().unwrap();
            assert!(seconds > 3.98 / speed, "{phase} {store}: {seconds}");
            let offered = cell["offered_ops_per_s"].as_f64().unwrap();
            assert!((offered / (400.0 / 3.99 * speed) - 1.0).abs() < 0.01, "{offered}");
        }
        assert!(cell["hot"]["blobs_share"].as_f64().is_some_and(|share| share > 0.5), "{cell}");
    }
}

fn replayed() -> Outcome {
    let work = Work::new();
    std::fs::write(work.path("log"), busy_log())?;
    let speeds = [("fast", 10.0), ("as-logged", 4.0)];
    std::fs::write(work.path("plan.toml"), plan("'files/hashed', 'sqlite'", &speeds))?;
    let said = work.say("run plan.toml --out out").ended(0);
    nothing_planted(&(said.stdout.clone() + &said.stderr));
    nothing_planted_in(&work, "out");
    let told = "Of the log, 400 of 400 requests are replayed, those of 40 of 40 objects";
    assert!(said.stderr.contains(told), "{}", said.stderr);
    all_replayed(&cells(&work.path("out"), "replay")?, 2, "replay", None);
    for (phase, speed) in speeds {
        all_replayed(&cells(&work.path("out"), phase)?, 2, phase, Some(speed));
    }
    // The same objects again, and their requests, from the plan that the run wrote.
    let again = work.say("run out/plan.toml --out again").ended(0);
    nothing_planted(&(again.stdout + &again.stderr));
    let corpus = |out: &str| -> Result<Value, Failed> {
        let result: Value = serde_json::from_slice(&std::fs::read(work.path(out).join("result.json"))?)?;
        Ok(result["corpus"]["digest"].clone())
    };
    let digests = (corpus("out")?, corpus("again")?);
    assert!(digests.0.is_string() && digests.0 == digests.1, "{digests:?}");
    for line in
        ["explain out sqlite replay", "explain out sqlite fast", "compare out again", "report out --markdown"]
    {
        let said = work.say(line);
        assert!(!said.stdout.is_empty(), "{line}: {}", said.stderr);
        nothing_planted(&(said.stdout + &said.stderr));
    }
    Ok(())
}

fn judged() -> Outcome {
    let work = Work::new();
    std::fs::write(work.path("log"), busy_log())?;
    let plan = "stores = ['files/hashed', 'files/flat']\nrounds = 5\ndurability = 'none'\nphases = ['fill', 'replay']\n\
                [corpus]\ntrace = 'log'\nsample = '100%'\n\
                [[claim]]\nid = 'X-1'\nstatement = 'one is faster'\nphase = 'replay'\norder = ['files/hashed', 'files/flat']\n";
    std::fs::write(work.path("plan.toml"), plan)?;
    work.say("run plan.toml --out out").ended(0);
    let result: Value = serde_json::from_slice(&std::fs::read(work.path("out/result.json"))?)?;
    let part = &result["claims"][0]["parts"][0];
    // Which is faster is the machine's affair.
    assert!(part["today"].is_object() && part["verdict"] != "not-testable", "{}", result["claims"]);
    Ok(())
}

/// Of the kinds of places where blobs live: a directory, an embedded database, a database server, and a web server.
fn replayed_everywhere() -> Outcome {
    let work = Work::new();
    std::fs::write(work.path("log"), busy_log())?;
    let stores = "'files/hashed', 'sqlite', 'postgres/bytea', 'nginx'";
    std::fs::write(work.path("plan.toml"), plan(stores, &[("fast", 10.0)]))?;
    let said = work.say("run plan.toml --out out").ended(0);
    nothing_planted(&(said.stdout + &said.stderr));
    nothing_planted_in(&work, "out");
    all_replayed(&cells(&work.path("out"), "replay")?, 4, "replay", None);
    all_replayed(&cells(&work.path("out"), "fast")?, 4, "fast", Some(10.0));
    Ok(())
}

fn not_replayed() -> Outcome {
    let work = Work::new();
    let log = busy_log();
    std::fs::write(work.path("log"), &log)?;
    std::fs::write(work.path("mixed"), log + &"planted 203.0.113.9\n".repeat(9))?;
    std::fs::write(work.path("noise"), [0_u8, 1, 2, 0, 9].repeat(50))?;
    let packed = finish(work.command("sh").args(["-c", "gzip -c log | head -c 1000 > cut.gz"]));
    assert_eq!(packed.code, Some(0), "{}", packed.stderr);
    let before = work.snapshot(".");
    for (flags, words) in [
        ("--trace nothing", "--trace: `nothing`: "),
        (
            "--trace mixed",
            "9 of 410 lines, more than --allow-bad 1%, cannot be read as csv: line 402 has no time",
        ),
        (
            "--trace log --columns time,key --trace-format csv",
            "--columns: cannot be used with --trace-format",
        ),
        ("--allow-bad 5%", "--allow-bad: is of a log, and there is none: add --trace FILE"),
        ("--trace -", "--trace: `-`: a run reads its log more than once"),
        ("--trace noise", "its first lines are in no format"),
        ("--trace cut.gz", "it ends early, after line "),
        ("--trace log --trace-format combined", "cannot be read as combined"),
        ("--trace log --speed 0", "--speed: `0` is neither `max` nor a factor"),
        ("--speed 10", "--speed: is that of a replay"),
        ("--sample 5%", "--sample: is of a log, and there is none: add --trace FILE"),
        ("--trace log --sample 0%", "--sample: `0%` is not above 0"),
        ("--trace log --corpus tiny", "--trace: cannot be used with --corpus"),
        ("--trace log --files .", "--files: `.` has the file of none of the 40 objects that are replayed"),
        ("--trace log --files nowhere", "--files: cannot read the directory `nowhere`"),
        ("--trace log --grow 1k..10k", "--grow: cannot be used with --trace"),
        ("--phases fill,replay", "the phase `replay` replays a log, and there is none: add --trace FILE"),
        ("--trace log --speed 0.01 --budget 20s", "replay it with --speed "),
    ] {
        let said = work.say(&format!("run --stores files/hashed {flags}")).refused(&[words]);
        nothing_planted(&said.stderr);
    }
    assert_eq!(work.snapshot("."), before, "nothing is left");
    Ok(())
}

/// Why nothing can be compressed by zstd here.
fn no_zstd() -> Option<String> {
    Command::new("zstd").arg("--version").output().err().map(|error| format!("zstd: {error}"))
}

fn of_zstd() -> Outcome {
    let work = Work::new();
    std::fs::write(work.path("log"), busy_log().repeat(20))?;
    let packed =
        finish(work.command("sh").args(["-c", "zstd -q log && zstd -qc log | head -c -10 > cut.zst"]));
    assert_eq!(packed.code, Some(0), "{}", packed.stderr);
    let described = |log: &str| -> Result<Value, Failed> {
        Ok(serde_json::from_str(&work.say(&format!("trace {log} --json")).ended(0).stdout)?)
    };
    let (plain, compressed) = (described("log")?, described("log.zst")?);
    for part in ["format", "lines", "bad", "requests", "ops", "objects", "sizes", "misses", "rate"] {
        assert_eq!(compressed[part], plain[part], "{part}");
    }
    let said = work.say("trace cut.zst").ended(1);
    assert!(said.stderr.contains("error: the log ends early, after line "), "{}", said.stderr);
    assert!(said.stdout.starts_with("csv: "), "{}", said.stdout);
    nothing_planted(&(said.stdout + &said.stderr));
    let refused =
        work.say("run --stores files/hashed --trace cut.zst").refused(&["it ends early, after line "]);
    nothing_planted(&refused.stderr);
    Ok(())
}

/// Writes the files of the servers below, seven of them.
fn make_files(work: &Work) -> Outcome {
    std::fs::create_dir(work.path("files"))?;
    (0..7).try_for_each(|key| {
        std::fs::write(work.path("files").join(format!("planted-{key}")), vec![b'x'; 1000 + key * 100])
    })?;
    Ok(())
}

/// Starts a server of the files, makes the requests of which [`read_back`] knows, and ends it. Returns the seconds between which they
/// were made.
fn requested<S: Read + Write>(
    server: &mut Command,
    connect: impl Fn() -> std::io::Result<S>,
) -> Result<(i64, i64), Failed> {
    let mut server = start(server.stdout(Stdio::null()).stderr(Stdio::null()));
    for _ in 0..1200 {
        if connect().is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let begin = now();
    let asked = (0..60).try_for_each(|n| {
        let (request, key) = (if n == 30 { "HEAD" } else { "GET" }, if n == 31 { 99 } else { n * n % 7 });
        let field = if n % 10 == 5 { "Range: bytes=0-99\r\n" } else { "" };
        ask(connect()?, &format!("{request} /planted-{key}"), field)
    });
    let end = now();
    // By a signal on which it ends its processes and writes what it has of its log.
    let id = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
    server.wait()?;
    asked.map(|()| (begin, end))
}

/// Checks that a log has the requests that were made between these seconds, with their sizes.
fn read_back(work: &Work, log: &str, format: &str, (begin, end): (i64, i64)) -> Outcome {
    let said = work.say(&format!("trace {log} --json")).ended(0);
    let found: Value = serde_json::from_str(&said.stdout)?;
    assert_eq!(
        (&found["format"], &found["requests"], &found["bad"]),
        (&format.into(), &60.into(), &0.into()),
        "{log}"
    );
    let ops = serde_json::json!({"get": 52, "range": 6, "head": 1, "failed": 1});
    assert_eq!(found["ops"], ops, "{log}");
    made_between(&found, begin, end);
    // Squares modulo 7 are 0, 1, 2 and 4.
    let sizes = (found["sizes"]["1"].as_u64(), found["sizes"]["100"].as_u64());
    assert_eq!(sizes, (Some(1000), Some(1400)), "{log}");
    nothing_planted(&(said.stdout + &said.stderr));
    Ok(())
}

/// Sends a request to a server, and reads its response to the end.
fn ask(mut stream: impl Read + Write, request: &str, field: &str) -> Outcome {
    write!(stream, "{request} HTTP/1.1\r\nHost: planted\r\n{field}Connection: close\r\n\r\n")?;
    stream.read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Seconds since 1970.
fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// Checks that all requests of a described log were made between these seconds.
#[track_caller]
fn made_between(found: &Value, begin: i64, end: i64) {
    let second = |which: &str| found["rate"][which].as_i64().unwrap();
    // A server's clock is up to a tick behind.
    let is_between = begin - 1 <= second("first_second") && second("last_second") <= end;
    assert!(is_between, "{begin} to {end}: {}", found["rate"]);
}

fn of_nginx() -> Outcome {
    let work = Work::new();
    make_files(&work)?;
    let dir = work.path("").display().to_string();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {dir}/{name};\n"))
        .concat();
    let fields = ["msec", "request", "status", "body_bytes_sent", "request_time", "host"]
        .map(|name| format!("\"{name}\":\"${name}\""))
        .join(",");
    let configuration = format!(
        "daemon off;\nmaster_process off;\npid {dir}/pid;\nerror_log {dir}/errors;\nevents {{}}\nhttp {{\n{temporary}\
         log_format lines escape=json '{{{fields}}}';\naccess_log {dir}/combined combined;\naccess_log {dir}/json lines;\n\
         server {{ listen unix:{dir}/socket; root {dir}/files; }}\n}}\n"
    );
    std::fs::write(work.path("nginx.conf"), configuration)?;
    let mut server = Command::new(program("nginx"));
    server.args(["-p", &dir, "-e"]).arg(work.path("errors")).arg("-c").arg(work.path("nginx.conf"));
    let seconds = requested(&mut server, || UnixStream::connect(work.path("socket")))?;
    for log in ["combined", "json"] {
        read_back(&work, log, log, seconds)?;
        let run =
            format!("run --trace {log} --sample 100% --stores files/hashed,sqlite --rounds 1 --out of-{log}");
        let more = if log == "json" { " --speed 10" } else { " --files files" };
        let said = work.say(&(run + more)).ended(0);
        let told = "; 4 of them, with 100 % of the bytes, have the contents of their files;";
        assert_eq!(said.stderr.contains(told), log == "combined", "{}", said.stderr);
        nothing_planted(&(said.stdout + &said.stderr));
        nothing_planted_in(&work, &format!("of-{log}"));
        let cells = cells(&work.path(&format!("of-{log}")), "replay")?;
        assert_eq!(cells.len(), 2);
        for (store, cell) in cells {
            assert_eq!((&cell["errors"], &cell["ops"]), (&0.into(), &58.into()), "{store}: {cell}");
        }
    }
    Ok(())
}

fn of_apache() -> Outcome {
    let work = Work::new();
    make_files(&work)?;
    let dir = work.path("").display().to_string();
    // Started by root, it reads the files as another user.
    std::fs::set_permissions(&dir, Permissions::from_mode(0o755))?;
    // It listens on no Unix socket; this address is nobody else's.
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let address = format!("127.88.{high}.{low}:8080");
    let modules: String = ["mpm_event", "authz_core"]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .concat();
    let line = r#"%h %l %u %t \"%r\" %>s %b"#;
    let configuration = format!(
        "ServerRoot \"{dir}\"\nServerName planted\nListen {address}\nPidFile \"{dir}/pid\"\nDefaultRuntimeDir \"{dir}\"\n\
         Mutex \"file:{dir}\" default\nErrorLog \"{dir}/errors\"\n{modules}User nobody\nGroup nogroup\n\
         DocumentRoot \"{dir}/files\"\nCustomLog \"{dir}/common\" \"{line}\"\n\
         CustomLog \"{dir}/combined\" \"{line} \\\"%{{Referer}}i\\\" \\\"%{{User-Agent}}i\\\"\"\n"
    );
    std::fs::write(work.path("apache.conf"), configuration)?;
    let mut server = Command::new(program("apache"));
    server.arg("-f").arg(work.path("apache.conf")).arg("-DFOREGROUND");
    let seconds = requested(&mut server, || TcpStream::connect(&address))?;
    ["common", "combined"].iter().try_for_each(|log| read_back(&work, log, "combined", seconds))
}

fn of_caddy() -> Outcome {
    let work = Work::new();
    make_files(&work)?;
    let [socket, log, files] = ["socket", "log", "files"].map(|name| work.path(name).display().to_string());
    let configuration = serde_json::json!({
        "admin": {"disabled": true, "config": {"persist": false}},
        "logging": {"logs": {"requests": {
            "writer": {"output": "file", "filename": log}, "include": ["http.log.access"],
        }}},
        "apps": {"http": {"servers": {"files": {
            "listen": [format!("unix/{socket}")],
            "automatic_https": {"disable": true},
            "logs": {},
            "routes": [{"handle": [{"handler": "file_server", "root": files}]}],
        }}}},
    });
    std::fs::write(work.path("caddy.json"), configuration.to_string())?;
    let mut server = Command::new(program("caddy"));
    server.args(["run", "--config"]).arg(work.path("caddy.json"));
    server.envs(["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"].map(|name| (name, work.path("home"))));
    let seconds = requested(&mut server, || UnixStream::connect(&socket))?;
    read_back(&work, "log", "json", seconds)
}

/// versitygw tells neither the bytes of a read nor that it was of a part.
fn of_object_store() -> Outcome {
    use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};

    const MINUTE: Duration = Duration::from_secs(60);
    let work = Work::new();
    let theirs = Theirs::start(&work);
    let endpoint = format!("http://127.0.0.1:{}/", theirs.port).parse()?;
    let bucket = Bucket::new(endpoint, UrlStyle::Path, "theirs", "us-east-1")?;
    let credentials = Credentials::new(KEY, SECRET);
    let (key, name) = (Some(&credentials), |n: usize| format!("planted {n}.jpg"));
    let begin = now();
    for n in 0..12 {
        let url = bucket.put_object(key, &name(n)).sign(MINUTE);
        ureq::put(url.as_str()).send(vec![b'x'; 1000 + 100 * n])?;
    }
    for n in 0..40 {
        let url = bucket.get_object(key, &name(n * n % 7)).sign(MINUTE);
        let request = ureq::get(url.as_str());
        let request = if n == 31 { request.header("Range", "bytes=0-99") } else { request };
        request.call()?;
    }
    ureq::head(bucket.head_object(key, &name(0)).sign(MINUTE).as_str()).call()?;
    ureq::delete(bucket.delete_object(key, &name(11)).sign(MINUTE).as_str()).call()?;
    let missing = bucket.get_object(key, &name(99)).sign(MINUTE);
    assert!(ureq::get(missing.as_str()).call().is_err(), "there is no such object");
    let said = work.say("trace theirs/log --json").ended(0);
    nothing_planted(&(said.stdout.clone() + &said.stderr));
    let found: Value = serde_json::from_str(&said.stdout)?;
    made_between(&found, begin, now());
    assert_eq!(
        (&found["format"], &found["requests"], &found["bad"]),
        (&"s3-log".into(), &55.into(), &0.into())
    );
    let ops = serde_json::json!({"get": 40, "head": 1, "put": 12, "delete": 1, "failed": 1});
    assert_eq!(found["ops"], ops);
    assert_eq!((found["objects"].as_f64(), found["sent_bytes"].as_u64()), (Some(12.0), Some(18_600)));
    assert_eq!((found["sizes"]["1"].as_u64(), found["sizes"]["100"].as_u64()), (Some(1000), Some(2100)));
    let run = "run --trace theirs/log --sample 100% --stores files/hashed,sqlite --rounds 1 --out out";
    let said = work.say(run).ended(0);
    nothing_planted(&(said.stdout + &said.stderr));
    nothing_planted_in(&work, "out");
    let cells = cells(&work.path("out"), "replay")?;
    assert_eq!(cells.len(), 2);
    for (store, cell) in cells {
        assert_eq!((&cell["errors"], &cell["ops"]), (&0.into(), &53.into()), "{store}: {cell}");
    }
    Ok(())
}
