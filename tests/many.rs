//! Several clients by MPI, as a user starts them: `mpirun -n N blobwise run ...`.
//!
//! All clients are on this host, so that its processors are shared: nothing here is about speed. Without the feature `mpi`, or
//! without `mpirun`, these are ignored with the reason; with `BLOBWISE_REQUIRE_ALL=1` they fail.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "common/trials.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod trials;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use blobwise::host::proxy::Proxy;
use libtest_mimic::{Arguments, Completion};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::trials::Trial;

/// How the reason begins where namespaces cannot be made.
const FORBIDDEN: &str = "no namespaces here";
const BLOBWISE: &str = env!("CARGO_BIN_EXE_blobwise");

fn main() -> ExitCode {
    if let Some(target) = proxied() {
        return far_away(&target);
    }
    let why = missing();
    let trial_on = |why: &Option<String>, name: &str, test: fn()| match why.clone() {
        // What a kernel does not allow, nobody can install.
        Some(why) if why.starts_with(FORBIDDEN) => {
            Trial::ignorable_test(name, || Ok(Completion::ignored_with(why)))
        }
        Some(why) => Trial::impossible(name, why),
        None => Trial::test(name, move || {
            test();
            Ok(())
        }),
    };
    let trial = |name: &str, test: fn()| trial_on(&why, name, test);
    let no_hosts = |programs: fn() -> Result<Programs<'static>>| why.clone().or_else(|| no_hosts(programs));
    let no_distance = no_hosts(redis).or_else(no_distance);
    let trials = vec![
        trial("one_two_and_four_clients_do_the_ops_of_one_plan", one_two_and_four),
        trial("what_clients_write_is_there_and_is_what_was_written", written),
        trial("each_client_has_a_store_of_its_own_where_it_cannot_be_shared", each),
        trial("a_rate_is_offered_by_all_together", rate),
        trial("a_log_is_replayed_at_its_times_by_all_together", replayed),
        trial("a_client_that_is_killed_ends_the_run_and_leaves_nothing", killed),
        trial_on(
            &no_hosts(redis),
            "hosts_with_addresses_of_their_own_share_a_server_and_nothing_is_left_of_them",
            hosts,
        ),
        trial_on(&no_distance, "a_host_that_is_far_and_one_with_a_slow_link_are_so_in_the_table", distance),
        trial_on(&no_hosts(servers), "hosts_share_servers_of_another_host_that_are_given_by_url", others),
        trial("what_cannot_be_shared_is_refused_before_anything_is_made", refused),
    ];
    trials::run(&Arguments::from_args(), trials, |_| true)
}

/// Why none of this can be tried here, if so.
fn missing() -> Option<String> {
    if !cfg!(feature = "mpi") {
        return Some("built without `--features mpi`".to_owned());
    }
    let found = Command::new("mpirun").arg("--version").output();
    found.err().map(|_| "no mpirun: apt-get install openmpi-bin".to_owned())
}

/// A process in namespaces of its own. What is started in them ends with it, and it ends with this thread, or, if it hangs, after ten
/// minutes.
fn apart() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "timeout", "--kill-after=5", "600"]);
    command.args(["setpriv", "--pdeathsig", "KILL", "unshare"]);
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.stdin(Stdio::null());
    command
}

/// Servers for hosts, and where their programs are.
type Programs<'a> = (&'a str, Vec<(&'static str, PathBuf)>);

fn redis() -> Result<Programs<'static>> {
    Ok(("redis", vec![("REDIS", program_of("redis", "redis-server")?), ("PROXY", std::env::current_exe()?)]))
}

fn servers() -> Result<Programs<'static>> {
    let postgres = program_of("postgres/bytea", "postgres")?;
    let programs = vec![
        ("INITDB", postgres.with_file_name("initdb")),
        ("POSTGRES", postgres),
        ("WEED", program_of("seaweedfs", "weed")?),
        ("NGINX", program_of("nginx", "nginx")?),
    ];
    Ok(("postgres weed nginx", programs))
}

/// One of the programs of a store, wherever the store itself would find it.
fn program_of(store: &str, name: &str) -> Result<PathBuf> {
    let adapter = blobwise::stores::adapters().find(|adapter| adapter.name == store);
    let adapter = adapter.with_context(|| format!("built without `{store}`"))?;
    let program = adapter.programs.iter().find(|program| program.name == name);
    Ok(program.with_context(|| format!("`{store}` has no `{name}`"))?.find()?.path)
}

/// Why hosts with such servers cannot be made here, if so.
fn no_hosts(programs: fn() -> Result<Programs<'static>>) -> Option<String> {
    let ways = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&ways).any(|way| way.join("ip").is_file()) {
        return Some("no `ip`: apt-get install iproute2".to_owned());
    }
    if let Err(error) = programs() {
        return Some(format!("{error:#}"));
    }
    forbids(
        "mount -t tmpfs none /run && mkdir /run/netns && ip netns add one && \
         ip netns exec one unshare --ipc --user --map-user=65534 --map-group=65534 true",
    )
}

/// Why no link can be slow and no clock set ahead here, if so.
fn no_distance() -> Option<String> {
    forbids("tc qdisc add dev lo root tbf rate 1mbit burst 16kb latency 1s && unshare --time true")
}

/// What a kernel says that does not allow something.
fn forbids(script: &str) -> Option<String> {
    let Output { status, stderr, .. } = apart().args(["sh", "-c", script]).output().unwrap();
    (!status.success()).then(|| format!("{FORBIDDEN}: {}", String::from_utf8_lossy(&stderr)))
}

/// What this program is to stand before, where it was started as a proxy: `proxy PORT TARGET MILLISECONDS`.
fn proxied() -> Option<[String; 3]> {
    let all: Vec<String> = std::env::args().skip(1).collect();
    (all.first()? == "proxy").then(|| all[1..].to_vec().try_into().unwrap())
}

/// Stands there until it is killed.
fn far_away([port, target, round_trip]: &[String; 3]) -> ExitCode {
    let round_trip = Duration::from_millis(round_trip.parse().unwrap());
    let _proxy = Proxy::start_on(port.parse().unwrap(), target.parse().unwrap(), round_trip).unwrap();
    loop {
        std::thread::park();
    }
}

/// Three hosts of which each has an address, and the third does not see the directory of the run; servers are on a fourth.
fn on_hosts(home: &Home, (servers, programs): Programs<'_>, of: &str) -> Command {
    let mut command = apart();
    command.args(["bash", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/hosts.sh")]);
    command.arg(home.0.path()).args(["3", servers, BLOBWISE]).args(home.run(of)).envs(programs);
    command
}

/// The launcher with so many clients of this program. What it keeps meanwhile is in `home`: two launchers that start at once in one
/// directory both make its `ompi.HOST.UID`, and the second gives up.
fn mpirun(home: &Home, clients: usize, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "600", "mpirun", "--allow-run-as-root", "--oversubscribe"]);
    command.args(["--mca", "orte_tmpdir_base"]).arg(home.0.path());
    command.args(["--bind-to", "none", "-np", &clients.to_string(), BLOBWISE]).args(arguments);
    command.stdin(Stdio::null());
    command
}

/// A directory in which a run works and one for its result.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn place(&self) -> PathBuf {
        self.0.path().join("place")
    }

    fn out(&self) -> PathBuf {
        self.0.path().join("out")
    }

    /// The arguments of a run of a small corpus there.
    fn run(&self, of: &str) -> Vec<String> {
        self.run_on(&["--corpus", "uniform:100-9000", "--blobs", "300"], of)
    }

    /// The arguments of a run of a corpus there.
    fn run_on(&self, corpus: &[&str], of: &str) -> Vec<String> {
        let words = ["run", "--quiet"].into_iter().chain(corpus.iter().copied()).chain(of.split_whitespace());
        let mut all: Vec<String> = words.map(str::to_owned).collect();
        all.extend(["--dir".to_owned(), self.place().display().to_string()]);
        all.extend(["--out".to_owned(), self.out().display().to_string()]);
        all
    }

    fn result(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.out().join("result.json")).unwrap()).unwrap()
    }

    /// How many visits are measured so far.
    fn visits(&self) -> usize {
        let text = std::fs::read(self.out().join("result.json")).unwrap_or_default();
        let result: Value = serde_json::from_slice(&text).unwrap_or_default();
        result["store_rounds"].as_array().map_or(0, Vec::len)
    }

    /// What lies where the run worked.
    fn left(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.place());
        entries.map_or_else(|_| Vec::new(), |all| all.map(|entry| entry.unwrap().path()).collect())
    }
}

fn done(home: &Home, clients: usize, of: &str) -> Value {
    ended(home, clients, &home.run(of))
}

/// The result of a run with these arguments.
fn ended(home: &Home, clients: usize, arguments: &[String]) -> Value {
    let Output { status, stdout, stderr } = mpirun(home, clients, arguments).output().unwrap();
    let said = [stdout, stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).join("\n");
    assert!(status.success(), "{clients} clients: {said}");
    assert_eq!(home.left(), [] as [PathBuf; 0]);
    home.result()
}

/// Every round of a cell of a result.
fn rounds(result: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let cells = result["results"].as_array().unwrap().iter();
    cells.flat_map(|cell| {
        assert_eq!(cell["status"], "measured", "{} {}: {}", cell["store"], cell["phase"], cell["reason"]);
        let phase = cell["phase"].as_str().unwrap();
        cell["rounds"].as_array().unwrap().iter().map(move |round| (phase, round))
    })
}

/// Checks what each client did in every round of a result, and returns how many rounds there were.
fn check_clients(result: &Value, clients: usize) -> usize {
    assert_eq!(result["clients"].as_array().unwrap().len(), clients);
    let mut count = 0;
    for (phase, round) in rounds(result) {
        count += 1;
        let rows = round["clients"].as_array().unwrap();
        assert_eq!((rows.len(), round["errors"].as_u64()), (clients, Some(0)), "{phase}: {round}");
        let sum = |name: &str| rows.iter().map(|row| row[name].as_u64().unwrap()).sum::<u64>();
        assert_eq!(
            (sum("ops"), sum("bytes")),
            (round["ops"].as_u64().unwrap(), round["bytes"].as_u64().unwrap())
        );
        let each = |name: &str| rows.iter().map(|row| row[name].as_u64().unwrap()).collect::<Vec<u64>>();
        assert!(each("ops").iter().all(|ops| *ops > 0), "{phase}: {round}");
        // All have seen the end of the last.
        let (begin, end) = (each("begin_ns"), each("end_ns"));
        let seconds = (end.iter().max().unwrap() - begin.iter().min().unwrap()) as f64 / 1e9;
        let told = round["seconds"].as_f64().unwrap();
        assert!((seconds / told - 1.0).abs() < 0.01, "{phase}: {seconds} s and {told} s");
    }
    count
}

fn one_two_and_four() {
    for clients in [1, 2, 4] {
        let home = Home::new();
        let result = done(&home, clients, "--stores null,nginx --phases fill,read-warm --rounds 1");
        if clients == 1 {
            // As it is without a launcher.
            assert!(result["clients"].is_null(), "{}", result["clients"]);
            assert_eq!(rounds(&result).filter(|(_, round)| round["clients"].is_null()).count(), 4);
        } else {
            assert_eq!(check_clients(&result, clients), 4);
        }
        let fills = rounds(&result).filter(|(phase, _)| *phase == "fill");
        assert!(fills.map(|(_, round)| round["blobs"].as_u64().unwrap()).all(|blobs| blobs == 300));
        let workers = |cell: &Value| cell["workers"].as_u64() == Some(clients as u64);
        assert!(result["results"].as_array().unwrap().iter().all(workers));
    }
}

fn written() {
    let home = Home::new();
    let of = "--stores files/hashed,postgres/bytea,memcached,mariadb/blob \
              --phases fill,overwrite,read-copy,delete-half --rounds 1 --workers 2 --verify";
    let result = done(&home, 3, of);
    assert_eq!(check_clients(&result, 3), 16);
    // Rank 0 has compared every blob after each phase that writes, and at the end.
    for visit in result["store_rounds"].as_array().unwrap() {
        assert!(
            visit["verified"].as_u64().unwrap() >= 300 + 300 + 150 + 150 && visit["error"].is_null(),
            "{visit}"
        );
    }
    let page = std::fs::read_to_string(home.out().join("report.html")).unwrap();
    assert!(page.contains("<section id=\"clients\""));
}

fn each() {
    let home = Home::new();
    let of = "--stores sqlite,lmdb,null --phases fill,read-warm,overwrite,delete-half --rounds 1 --workers 2 --each-rank";
    let result = done(&home, 3, of);
    assert_eq!(check_clients(&result, 3), 12);
    for cell in result["results"].as_array().unwrap() {
        let is_shared = cell["store"] == "null";
        let round = &cell["rounds"][0];
        let blobs = match cell["phase"].as_str().unwrap() {
            "fill" => 300,
            "delete-half" => 150,
            _ => continue,
        };
        let each: Vec<u64> =
            round["clients"].as_array().unwrap().iter().map(|row| row["ops"].as_u64().unwrap()).collect();
        // Whoever has one of its own does everything in it.
        let wanted = if is_shared { blobs / 3 } else { blobs };
        assert_eq!((each, round["blobs"].as_u64()), (vec![wanted; 3], Some(3 * wanted)), "{cell}");
    }
    for visit in result["store_rounds"].as_array().unwrap() {
        // After the fill and at the end by rank 0, and at the end by the two others.
        let verified = visit["verified"].as_u64().unwrap();
        assert!(visit["error"].is_null() && (visit["store"] == "null" || verified >= 4 * 300), "{visit}");
    }
    let marked: Vec<&str> = result["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|candidate| candidate["is_one_for_each_client"] == true)
        .map(|candidate| candidate["store"].as_str().unwrap())
        .collect();
    assert_eq!(marked, ["sqlite", "lmdb"]);
    let page = std::fs::read_to_string(home.out().join("report.html")).unwrap();
    assert!(page.contains("Each of 3 clients had its own store with all blobs"));
    let alone = Command::new(BLOBWISE).args(["run", "--stores", "sqlite", "--each-rank"]).output().unwrap();
    let said = String::from_utf8_lossy(&alone.stderr);
    assert!(!alone.status.success() && said.contains("--each-rank: is for several clients"), "{said}");
}

fn rate() {
    let home = Home::new();
    let of = "--stores null --phases fill,read-warm --rounds 1 --rate 1000 --arrivals constant";
    let result = done(&home, 3, of);
    let (_, read) = rounds(&result).find(|(phase, _)| *phase == "read-warm").unwrap();
    let ops: Vec<u64> =
        read["clients"].as_array().unwrap().iter().map(|row| row["ops"].as_u64().unwrap()).collect();
    assert!(ops.iter().max().unwrap() - ops.iter().min().unwrap() <= 1 && ops[0] > 20, "{ops:?}");
    assert_eq!(ops.iter().sum::<u64>(), read["ops"].as_u64().unwrap());
    assert_eq!(read["open"]["offered_ops_per_s"], 1000.0);
}

fn replayed() {
    let home = Home::new();
    let log = home.0.path().join("log");
    // 400 requests of 40 objects in two seconds; a quarter of the objects is put as well.
    let line = |n: u64| {
        let (key, op) = (n * 7 % 40, if n / 40 == 4 && n * 7 % 40 < 10 { "put" } else { "get" });
        format!("{}.{:03},{op},planted-{key},{}\n", n / 200, n % 200 * 5, 1000 + key)
    };
    std::fs::write(&log, "time,op,key,bytes\n".to_owned() + &(0..400).map(line).collect::<String>()).unwrap();
    let corpus = ["--trace", log.to_str().unwrap(), "--sample", "100%"];
    let of = "--stores null,files/hashed --phases fill,replay --rounds 1 --speed 2";
    let result = ended(&home, 3, &home.run_on(&corpus, of));
    assert_eq!(check_clients(&result, 3), 4);
    for (_, replay) in rounds(&result).filter(|(phase, _)| *phase == "replay") {
        assert_eq!((&replay["ops"], &replay["replayed"]["requests"]), (&400.into(), &400.into()));
        let offered = replay["open"]["offered_ops_per_s"].as_f64().unwrap();
        assert!((offered / (400.0 / 1.995 * 2.0) - 1.0).abs() < 0.01, "{offered}");
        // No op is done before it is due.
        assert!(replay["seconds"].as_f64().unwrap() > 1.994 / 2.0, "{replay}");
    }
    for visit in result["store_rounds"].as_array().unwrap() {
        assert!(visit["error"].is_null(), "{visit}");
    }
}

/// Processes whose command line or environment names a directory, with their ranks.
fn processes(of: &Path) -> Vec<(i32, Option<String>)> {
    let name = of.to_str().unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
        let command = String::from_utf8_lossy(&read("cmdline")).into_owned();
        if !command.contains(name) {
            continue;
        }
        let environment = String::from_utf8_lossy(&read("environ")).into_owned();
        let is_client = command.split('\0').next() == Some(BLOBWISE);
        let rank = environment.split('\0').find_map(|pair| pair.strip_prefix("OMPI_COMM_WORLD_RANK="));
        found.push((pid, rank.filter(|_| is_client).map(str::to_owned)));
    }
    found
}

/// Waits until something is so, for five minutes at the most.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("not within five minutes: {what}");
}

fn killed() {
    let home = Home::new();
    let arguments =
        home.run("--stores null,postgres/bytea,sqlite --phases fill,read-warm --rounds 500 --each-rank");
    #[expect(
        clippy::disallowed_methods,
        reason = "`timeout` ends the launcher, and the launcher its processes"
    )]
    let mut launcher: Child =
        mpirun(&home, 3, &arguments).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    until("three visits are measured", || home.visits() >= 3);
    let (victim, _) =
        processes(&home.place()).into_iter().find(|(_, rank)| rank.as_deref() == Some("2")).unwrap();
    kill_process(Pid::from_raw(victim).unwrap(), Signal::KILL).unwrap();
    let status = launcher.wait().unwrap();
    assert!(!status.success(), "{status}");
    until("the directory is removed", || home.left().is_empty());
    until("every process has ended", || processes(&home.place()).is_empty());
    // What was measured is kept, and is a result that can be read.
    assert!(home.visits() >= 3);
    let report = Command::new(BLOBWISE).args(["report", home.out().to_str().unwrap()]).output().unwrap();
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
}

fn hosts() {
    const REDIS: &str = "--set redis.url=redis://10.0.0.9:6379 --durability none --phases fill,read-warm";
    let home = Home::new();
    let run = |home: &Home, rest: &str| on_hosts(home, redis().unwrap(), &format!("{REDIS} {rest}"));
    let Output { status, stderr, .. } =
        run(&home, "--stores redis,sqlite --each-rank --rounds 1").output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    assert_eq!(home.left(), [] as [PathBuf; 0]);
    let result = home.result();
    assert_eq!(check_clients(&result, 3), 4);
    assert_eq!(hosts_of(&result), ["h1", "h2", "h3"]);
    // What listens on a loopback is not reached from another host, and what h3 does not see it cannot share.
    for (store, why) in
        [("redis,nginx", "is on another host or network"), ("redis,files/hashed", "on `h3` does not see")]
    {
        let Output { status, stderr, .. } = run(&Home::new(), &format!("--stores {store}")).output().unwrap();
        let said = String::from_utf8_lossy(&stderr);
        assert!(!status.success() && said.contains(why), "{said}");
    }
    // A rank on another host than rank 0's is killed, and then everything at once.
    for victim in [Some("2"), None] {
        let home = Home::new();
        #[expect(
            clippy::disallowed_methods,
            reason = "it is killed below, and ends by itself after ten minutes"
        )]
        let mut all = run(&home, "--stores redis --rounds 500")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("something is measured", || home.visits() > 0);
        match victim {
            Some(_) => {
                let found = processes(&home.place()).into_iter().find(|(_, rank)| rank.as_deref() == victim);
                kill_process(Pid::from_raw(found.unwrap().0).unwrap(), Signal::KILL).unwrap();
            }
            None => all.kill().unwrap(),
        }
        assert!(!all.wait().unwrap().success());
        until("every process has ended", || processes(home.0.path()).is_empty());
        assert!(home.visits() > 0);
    }
}

/// The names of the clients' hosts.
fn hosts_of(result: &Value) -> Vec<&str> {
    result["clients"].as_array().unwrap().iter().map(|row| row["host"].as_str().unwrap()).collect()
}

/// PostgreSQL, SeaweedFS, and nginx, which keeps what was read from SeaweedFS. The environment has the URL with a password, and the keys.
fn others() {
    let home = Home::new();
    let of = "--stores postgres/bytea,s3 --set s3.url=http://10.0.0.9:8333/store,http://10.0.0.9:8000/store \
              --durability none --phases fill,read-warm --rounds 1 --verify";
    let Output { status, stderr, .. } = on_hosts(&home, servers().unwrap(), of).output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    assert_eq!(home.left(), [] as [PathBuf; 0]);
    let result = home.result();
    assert_eq!((check_clients(&result, 3), hosts_of(&result)), (6, vec!["h1", "h2", "h3"]));
    for visit in result["store_rounds"].as_array().unwrap() {
        assert!(visit["verified"].as_u64().unwrap() >= 300 && visit["error"].is_null(), "{visit}");
    }
    // By what nginx saw each client came from an address of its own, wrote its part, and had its reads from nginx.
    let log = std::fs::read_to_string(home.0.path().join("nginx.log")).unwrap();
    let seen = |what: &str| log.lines().filter(|line| *line == what).count();
    for (number, rank) in (1..).zip(0..3) {
        let rounds = |of: &str| {
            let cells = result["results"].as_array().unwrap().iter();
            let is_behind = |cell: &&Value| cell["store"].as_str().unwrap().contains(":8000");
            let cell = cells.filter(is_behind).find(|cell| cell["phase"] == of).unwrap();
            cell["rounds"][0]["clients"][rank]["ops"].as_u64().unwrap() as usize
        };
        let (puts, gets) =
            (seen(&format!("10.0.0.{number} PUT 200 -")), seen(&format!("10.0.0.{number} GET 200 HIT")));
        assert!(puts >= rounds("fill") && gets >= rounds("read-warm"), "h{number}: {puts} and {gets}\n{log}");
    }
    // The password went to h2 and h3 by MPI, and into nothing that is kept.
    let url = &result["candidates"][0]["options"]["url"];
    assert_eq!(url, "postgres://store:***@10.0.0.9:5432/postgres");
}

/// h2 has a proxy before the server that takes 20 ms for the way there and back, h3 reads over a link of 5 Mbit a second, and its clocks
/// but that of the day are an hour ahead. Both are far more than three clients on two processors take from each other.
fn distance() {
    const ROUND_TRIP: f64 = 0.020;
    const BYTES_PER_S: f64 = 625e3;
    /// What the link lets through at once.
    const BURST: f64 = 16384.0;
    let home = Home::new();
    let of = "--stores redis --set redis.url=redis://server:6379 --durability none --phases fill,read-warm --rounds 1";
    let (servers, programs) = redis().unwrap();
    let servers = format!("{servers} far slow ahead");
    let Output { status, stderr, .. } = on_hosts(&home, (&servers, programs), of).output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let result = home.result();
    assert_eq!((check_clients(&result, 3), hosts_of(&result)), (2, vec!["h1", "h2", "h3"]));
    let (_, read) = rounds(&result).find(|(phase, _)| *phase == "read-warm").unwrap();
    let of = |rank: usize| {
        let row = &read["clients"][rank];
        let number = |name: &str| row[name].as_f64().unwrap();
        ((number("end_ns") - number("begin_ns")) / 1e9, number("ops"), number("bytes"))
    };
    let [near, far, slow] = [0, 1, 2].map(of);
    // One worker waits for each op: a round trip is in each. What it is without is told by h1, which a busy machine slows too.
    let (op, rate) = (|(seconds, ops, _)| seconds / ops, |(seconds, _, bytes)| bytes / seconds);
    assert!(op(far) >= ROUND_TRIP && op(near) < op(far), "{near:?} {far:?}");
    assert!(rate(slow) <= BYTES_PER_S + BURST / slow.0 && rate(near) > rate(slow), "{near:?} {slow:?}");
}

fn refused() {
    for (of, why) in [
        ("--stores sqlite,null", "2 clients cannot share `sqlite`"),
        (
            "--stores sqlite,null",
            "or give each client one of its own where it is a library, with --each-rank",
        ),
        ("--stores sqlite --each-rank --rate 100", "offers a rate to one store"),
        ("--stores redis", "in the class on-sync"),
        ("--stores nginx --pin-apart", "--pin-apart: is for one client"),
    ] {
        let home = Home::new();
        let Output { status, stderr, .. } = mpirun(&home, 2, &home.run(of)).output().unwrap();
        let said = String::from_utf8_lossy(&stderr);
        assert!(!status.success() && said.contains(why), "{said}");
        assert!(!home.place().exists() && !home.out().exists());
    }
    let Output { status, stderr, .. } = mpirun(&Home::new(), 2, &["selftest"]).output().unwrap();
    let said = String::from_utf8_lossy(&stderr);
    assert!(!status.success() && said.contains("`blobwise selftest` is for one"), "{said}");
}
