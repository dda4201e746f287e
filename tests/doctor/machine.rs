//! Faults of the machine: a neighbour that takes the processors, a disk that is full, a control group that holds back, segments
//! that are lost.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Child, Command};

use blobwise::doctor::finding::Answer;
use blobwise::host::disk::own_mounts;

use crate::program::{BLOBWISE, Outcome, Said, Work, finish, held, needing, start, why_not};
use crate::servers::has_looked_once;
use crate::trials::Trial;
use crate::{found, line, report};

pub fn trials() -> Vec<Trial> {
    let mounts = || own_mounts().err().map(|why| format!("{why:#}"));
    vec![
        Trial::test("what cannot be looked at is refused", refused),
        Trial::test("what was saved is judged and compared again", saved),
        Trial::test("a hungry neighbour is named", hungry),
        needing("a full file system is named", mounts(), full),
        needing("a control group that holds back is named", no_groups(), throttled),
        needing("segments that are sent again are seen", no_namespace(), retransmits),
    ]
}

fn refused() -> Outcome {
    let work = Work::new();
    work.say("doctor --for 0s").refused(&["--for: `0s` is too short", "at least 1s"]);
    work.say("doctor --for soon").refused(&["--for", "`soon` is not a duration"]);
    work.say("doctor --data-dir nowhere").refused(&["--data-dir: `nowhere` is no directory"]);
    let said = work.say("doctor nonsense");
    assert!(!said.stderr.contains("looking"), "it is told before it looks: {}", said.stderr);
    said.refused(&["`nonsense` is not a URL such as postgres://USER:PASSWORD@HOST/DATABASE"]);
    for flag in ["--html", "--json"] {
        let said = work.say(&format!("doctor {flag} nowhere/file"));
        assert!(!said.stderr.contains("looking"), "it is told before it looks: {}", said.stderr);
        said.refused(&["cannot write `nowhere/file`"]);
    }
    assert!(work.names(".").is_empty());
    Ok(())
}

/// The same facts have the same answers, wherever they are judged; those that are others are shown beside the old ones.
fn saved() -> Outcome {
    let work = Work::new();
    let said = work.say("doctor --for 1s --save old --json report.json");
    let again = work.say("doctor --from old --against old --json again.json");
    assert!(again.stdout.starts_with(&said.stdout), "{}\n{}", said.stdout, again.stdout);
    let same = report(&work, &said).lines().count();
    assert!(again.stdout.ends_with(&format!("  {same} answers are the same.\n")), "{}", again.stdout);
    let read = |name: &str| std::fs::read_to_string(work.path(name));
    let mut again: serde_json::Value = serde_json::from_str(&read("again.json")?)?;
    assert_eq!(
        again.as_object_mut().and_then(|again| again.remove("against")).ok_or("not compared")?["same"],
        same
    );
    assert_eq!(serde_json::from_str::<serde_json::Value>(&read("report.json")?)?, again);
    let piped = work.say("doctor --from old --json -");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&piped.stdout)?, again, "nothing else is there");
    assert!(piped.stderr.contains("Is there enough memory?"), "{}", piped.stderr);
    let facts: serde_json::Value = serde_json::from_str(&read("old/facts.json")?)?;
    let mut filled = facts.clone();
    for disk in filled["facts"][0]["later"]["told"]["disks"]["rows"].as_array_mut().ok_or("no disks")? {
        disk["free_bytes"] = 1.into();
    }
    std::fs::create_dir(work.path("new"))?;
    std::fs::write(work.path("new/facts.json"), filled.to_string())?;
    let said = work.say("doctor --from new --against old --html page.html").ended(1);
    assert!(said.stdout.contains("--least-age 24h for caches, 336h for indexes"), "{}", said.stdout);
    let said_of = work.say("doctor --from new --against old --least-age 1s").ended(1).stdout;
    assert!(said_of.contains("Both sides are judged by --least-age 1s."), "{said_of}");
    // What it was depends on the disk of this machine.
    let changed = said.stdout.lines().find(|line| line.starts_with("  disk-full: "));
    assert!(changed.is_some_and(|line| line.ends_with(", now bad")), "{}", said.stdout);
    assert!(read("page.html")?.contains("<section id=\"against\">"));
    work.say("doctor --for 1s --save old").refused(&["old/facts.json", "is there already"]);
    work.say("doctor --from nowhere").refused(&["--from", "nowhere/facts.json"]);
    work.say("doctor --from old --for 2s").refused(&["cannot be used with"]);
    Ok(())
}

/// Processes that end with the test.
struct Ends(Vec<Child>);

impl Drop for Ends {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Each process of its counts as three of what else runs, as far as this user may say so: that is more than a fifth of the processors
/// beside all other tests, and leaves some for the doctor. Afterwards nobody is accused of it.
fn hungry() -> Outcome {
    let work = Work::new();
    // Another suite on this machine may have hungry ones, too.
    let name = format!("hungry-{}", std::process::id());
    std::fs::copy(std::fs::canonicalize("/bin/sh")?, work.path(&name))?;
    let count = 2 * std::thread::available_parallelism()?.get();
    let program = work.path(&name);
    // In a session of its own each: the kernel gives sessions equal shares, whatever is nice within one.
    let nice = ["nice", "-n", "-5"];
    let burn = || start(work.command("setsid").args(nice).arg(&program).args(["-c", "while :; do :; done"]));
    let eaters = Ends((0..count).map(|_| burn()).collect());
    let said = work.say("doctor --for 2s --json report.json");
    found(&report(&work, &said), "neighbours", Answer::Look, &name);
    // Who has them is said where it is said that they are busy.
    found(&report(&work, &said), "processor-busy", Answer::Look, &name);
    drop(eaters);
    let said = work.say("doctor --for 1s --json report.json");
    let text = format!("{:?}", line(&report(&work, &said), "neighbours"));
    assert!(!text.contains(&name), "{text}");
    Ok(())
}

fn full() -> Outcome {
    let work = Work::new();
    let script = "truncate -s 16M image && mkfs.ext4 -q image && mkdir full && mount -o loop image full &&
                  \"$0\" doctor --for 1s --data-dir full --json before.json;
                  (cat /dev/zero > full/data || true) 2>/dev/null && exec \"$0\" doctor --for 1s --data-dir full --json report.json";
    let mut command = work.command("unshare");
    let said =
        finish(command.args(["--mount", "--propagation", "private", "sh", "-c", script, BLOBWISE])).ended(1);
    found(&report(&work, &said), "disk-full", Answer::Bad, "full");
    std::fs::rename(work.path("before.json"), work.path("report.json"))?;
    let before = report(&work, &said);
    assert_eq!(line(&before, "disk-full").answer, Answer::Ok);
    // How the file system of the file itself is mounted is told, too.
    let figure = &line(&before, "disk-filesystem").figure;
    assert!(figure.starts_with("`full` lies on ext4 on loop"), "{figure}");
    Ok(())
}

// ---- control groups --------------------------------------------------------------------------------------------------

const VERSION_1: &str = "/sys/fs/cgroup/cpu/cgroup.procs";

fn no_groups() -> Option<String> {
    let is_writable = |path: &str| std::fs::File::options().write(true).open(path).is_ok();
    let has_two = std::fs::read_to_string("/sys/fs/cgroup/cgroup.subtree_control")
        .is_ok_and(|list| list.split_whitespace().any(|name| name == "cpu"));
    let may = is_writable(VERSION_1) || has_two && is_writable("/sys/fs/cgroup/cgroup.procs");
    (!may).then(|| "no control group of processors can be made here".to_owned())
}

/// A tenth of a processor for a loop, and for the doctor beside it. The group comes before everything else, or it might not get as
/// much as it is held to.
fn throttled() -> Outcome {
    let work = Work::new();
    let name = format!("blobwise-doctor-{}", std::process::id());
    let (root, limit) = match std::path::Path::new(VERSION_1).exists() {
        true => (
            "/sys/fs/cgroup/cpu",
            "echo 262144 > $G/cpu.shares; echo 100000 > $G/cpu.cfs_period_us; echo 10000 > $G/cpu.cfs_quota_us",
        ),
        false => ("/sys/fs/cgroup", "echo 10000 > $G/cpu.weight; echo '10000 100000' > $G/cpu.max"),
    };
    let group = std::path::Path::new(root).join(&name);
    let script = format!(
        "G={}; mkdir $G && {limit} && echo $$ > $G/cgroup.procs || exit 9
         sh -c 'while :; do :; done' & burner=$!
         \"$0\" doctor --for 3s --json report.json; code=$?
         kill $burner; echo $$ > {root}/cgroup.procs; wait; rmdir $G; exit $code",
        group.display()
    );
    let said = finish(work.command("sh").args(["-c", &script, BLOBWISE]));
    assert!(!group.exists(), "{said:?}");
    found(&report(&work, &said.ended(1)), "processor-throttled", Answer::Bad, &name);
    Ok(())
}

// ---- the network -----------------------------------------------------------------------------------------------------

fn no_namespace() -> Option<String> {
    why_not(Command::new("unshare").args(["--net", "ip", "link", "set", "lo", "up"]))
}

/// Lets a socket lose whatever arrives from now on, as a way that loses everything would.
#[expect(unsafe_code, reason = "the socket option has no safe wrapper")]
fn lose_everything(socket: &TcpStream) {
    let mut lose = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    let filter = libc::sock_fprog { len: 1, filter: &raw mut lose };
    let length = size_of_val(&filter) as libc::socklen_t;
    // SAFETY: the filter of one instruction outlives the call, which copies it.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            length,
        )
    };
    assert_eq!(set, 0);
}

/// Connections over the loopback of a network of this thread's own.
fn connections(count: usize) -> Vec<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (0..count).map(|_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap().0)).collect()
}

/// What the doctor says while so many segments are sent, each lost on its way or not.
fn looked_at_while_sending(work: &Work, are_lost: bool) -> Said {
    let mut connections = connections(60);
    let doctor = start(work.command(BLOBWISE).args(["doctor", "--for", "3s", "--json", "report.json"]));
    has_looked_once(&doctor);
    // Held until then, or it could look again before all is sent.
    held(&doctor, || {
        for (sender, receiver) in &mut connections {
            if are_lost {
                lose_everything(receiver);
            }
            for _ in 0..4 {
                sender.write_all(b"x").unwrap();
            }
        }
        if are_lost {
            // The kernel sends again after 0.2 s, 0.6 s and 1.4 s.
            std::thread::sleep(std::time::Duration::from_secs(2));
        }
    });
    Said::from_output(&doctor.wait_with_output().unwrap())
}

#[expect(unsafe_code, reason = "a thread that leaves the network of the others")]
fn retransmits() -> Outcome {
    let in_own_network = || {
        // SAFETY: this thread has no sockets yet, and its network is nobody else's business.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
        assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
        let work = Work::new();
        // What is lost is sent again for long after its connection was closed.
        let said = looked_at_while_sending(&work, false);
        assert_eq!(line(&report(&work, &said), "network-retransmits").answer, Answer::Ok, "{said:?}");
        let said = looked_at_while_sending(&work, true);
        found(&report(&work, &said), "network-retransmits", Answer::Look, "sent again");
    };
    std::thread::spawn(in_own_network).join().map_err(|_panic| "see above")?;
    Ok(())
}
