//! Servers that are looked at: what is planted in them, what loads them, and what the doctor says of them.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use blobwise::doctor::report::DoctorReport;
use blobwise::host::server::Server;
use rustix::process::Signal;

use crate::program::{BLOBWISE, Outcome, Said, Work, finish, held, start};
use crate::report;
use crate::theirs::{PASSWORD, PATIENCE, Theirs, of_postgres, psql};
use crate::watched::{no_strace, others, watched};

/// A database of its own in a server, with what a test plants, and its URL.
pub fn database(theirs: &Theirs, name: &str, sql: &str) -> String {
    psql(&theirs.url, &format!("CREATE DATABASE {name}")).unwrap();
    let url = theirs.url.replace("/postgres", &format!("/{name}")).replacen(
        &format!("{name}://"),
        "postgres://",
        1,
    );
    psql(&url, sql).unwrap();
    url
}

/// A load that goes on until this is dropped: one statement after the other, at most so many in a second.
pub struct Load(Child);

impl Load {
    pub fn pgbench(work: &Work, url: &str, script: &str, rate: Option<u32>) -> Load {
        let file = work.path("load.sql");
        std::fs::write(&file, script).unwrap();
        let mut command = Command::new(of_postgres("pgbench"));
        command.args(["-n", "-T", "120", "-f"]).arg(&file);
        command.args(rate.map(|rate| format!("-R{rate}"))).arg(url);
        Load::start(command)
    }

    pub fn start(mut command: Command) -> Load {
        let child = start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
        // Until it is under way.
        std::thread::sleep(Duration::from_millis(1500));
        Load(child)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Waits until a doctor has looked once, which is when it sleeps.
pub fn has_looked_once(doctor: &Child) {
    let file = format!("/proc/{}/syscall", doctor.id());
    let sleeps = [libc::SYS_clock_nanosleep, libc::SYS_nanosleep].map(|number| format!("{number} "));
    for _ in 0..2400 {
        let call = std::fs::read_to_string(&file).unwrap_or_default();
        if sleeps.iter().any(|sleep| call.starts_with(sleep)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("it does not come to sleep: `{file}`");
}

/// A server that ends between the looks is a line, and the machine is looked at all the same.
pub fn dies_between_looks(work: &Work, server: &mut Server, url: &str) -> Outcome {
    let mut command = work.command(BLOBWISE);
    command.args(["doctor", "--for", "3s"]).env("BLOBWISE_DOCTOR_URLS", url);
    // Asked to end, some servers answer who is connected until then.
    ends_between_looks(&mut command, || server.stop(Signal::KILL, PATIENCE).unwrap())
}

/// The same of a doctor and of how its server ends.
pub fn ends_between_looks(doctor: &mut Command, end: impl FnOnce()) -> Outcome {
    let child = start(doctor);
    has_looked_once(&child);
    // Held still until then, or it could look again before the end, which may take seconds.
    held(&child, end);
    let said = Said::from_output(&child.wait_with_output()?).ended(1);
    assert!(said.stdout.contains("cannot be asked: at the second look: "), "{}", said.stdout);
    assert!(said.stdout.contains("memory-available"), "{}", said.stdout);
    Ok(())
}

/// What the doctor says of a server; its report is in `report.json`.
pub fn doctor(work: &Work, url: &str, more: &str) -> Said {
    let mut command = work.command(BLOBWISE);
    let said = finish(command.args(arguments(more)).env("BLOBWISE_DOCTOR_URLS", url));
    check_said(work, &said);
    said
}

/// The report of it.
pub fn reported(work: &Work, url: &str, more: &str) -> DoctorReport {
    report(work, &doctor(work, url, more))
}

/// As [`doctor`], where it also saves what was said, and does nothing else to the machine and to nobody but the server.
pub fn watched_doctor(work: &Work, url: &str, more: &str) -> Said {
    if let Some(why) = no_strace() {
        assert!(!crate::trials::is_required(), "{why}");
        return doctor(work, url, more);
    }
    let more = format!("--save saved {more}");
    let words: Vec<String> = std::iter::once(BLOBWISE.to_owned()).chain(arguments(&more)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (said, trace) = watched(work, &words, ("BLOBWISE_DOCTOR_URLS", url));
    check_said(work, &said);
    assert!(!read(&work.path("saved/facts.json")).contains(PASSWORD));
    let port = url.rsplit_once("127.0.0.1:").unwrap().1.split('/').next().unwrap().parse().unwrap();
    let others = others(&trace, port);
    assert!(others.is_empty(), "{others:#?}");
    // It was seen to do what it may do.
    for seen in [
        format!("htons({port})"),
        "\"saved/facts.json\", O_WRONLY".to_owned(),
        "\"page.html\", O_WRONLY".to_owned(),
    ] {
        assert!(trace.contains(&seen), "`{seen}` is not in the trace");
    }
    said
}

fn arguments(more: &str) -> Vec<String> {
    // A session of theirs tells what it did once a second.
    let time = if more.contains("--for") { "" } else { "--for 1s" };
    let words = format!("doctor --json report.json --html page.html {time} {more}");
    words.split_whitespace().map(str::to_owned).collect()
}

/// What holds of all that it says. Beside other trials the machine may well be in a state that is bad: that is not asked here.
fn check_said(work: &Work, said: &Said) {
    assert!(!said.stdout.contains(PASSWORD) && !said.stderr.contains(PASSWORD), "{said:?}");
    let (report, page) = (read(&work.path("report.json")), read(&work.path("page.html")));
    assert!(!report.contains(PASSWORD) && !page.contains(PASSWORD));
    assert_eq!(page.matches("<details class=\"check\"").count(), report.matches("\"check\": ").count());
    assert!(
        said.stdout.lines().all(|line| line.chars().count() <= 80 || !line.trim().contains(' ')),
        "{}",
        said.stdout
    );
}

/// The text of a file.
pub fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}
