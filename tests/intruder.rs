//! Another user of the machine, who tries to get at what private servers keep, and must not.
//!
//! The acts are those of a process of their own that is user 65534 and in no group. To become that user takes root: where the
//! tests are not root's they are ignored, with the reason, and fail where `BLOBWISE_REQUIRE_ALL=1`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use blobwise::place::Place;
use blobwise::server::{Files, Launch, SUPERVISE, Server};
use libtest_mimic::{Arguments, Failed, Trial};

const BLOBWISE: &str = env!("CARGO_BIN_EXE_blobwise");

fn main() -> ExitCode {
    name_the_supervisor();
    let is_root = rustix::process::geteuid().is_root();
    let required = std::env::var_os("BLOBWISE_REQUIRE_ALL").is_some_and(|value| value == "1");
    let trials = [
        ("a secret argument is in no command line", secret_arguments as fn() -> Result<(), Failed>),
        ("who is confined to some files has no others", confinement),
        ("without user namespaces a server is in no group", no_groups),
    ];
    let trials = trials.into_iter().map(|(name, check)| {
        if is_root {
            return Trial::test(name, check);
        }
        let trial = Trial::test(name, || Err("another user's acts take root".into()));
        trial.with_kind("not root").with_ignored_flag(!required)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// Private servers stand behind a supervisor, which is the program itself and not this test.
#[expect(unsafe_code, reason = "changing the environment")]
fn name_the_supervisor() {
    // SAFETY: the first thing that is done, while there is one thread.
    unsafe { std::env::set_var("BLOBWISE_SUPERVISOR", BLOBWISE) };
}

fn place() -> Place {
    Place::make(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap()
}

// ---- what starts servers -----------------------------------------------------------------------------------------

/// Starts a shell with a script and waits until what it says is whole.
fn shell(launch: Launch, script: &str, arguments: &[&str]) -> (Server, String) {
    let launch = arguments.iter().fold(launch.arg("-c").arg(script).arg("sh"), Launch::secret);
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

/// The program gets it; it and its supervisor show something else.
fn secret_arguments() -> Result<(), Failed> {
    let place = place();
    let launch = Launch::new(Path::new("/bin/sh"), place.path());
    let (_server, said) =
        shell(launch, "echo \"$1 $2\"; echo that is all; exec sleep 600", &["swordfish", "open sesame"]);
    assert!(said.starts_with("swordfish open sesame\n"), "{said}");
    let mut shown = Vec::new();
    for process in std::fs::read_dir("/proc")?.flatten() {
        let works_there = std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == place.path());
        let command = std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
        assert!(!command.contains("swordfish") && !command.contains("sesame"), "{command}");
        shown.extend(works_there.then_some(command));
    }
    assert!(shown.len() == 2 && shown.iter().any(|command| command.contains(SUPERVISE)), "{shown:?}");
    Ok(())
}

fn confinement() -> Result<(), Failed> {
    let place = place();
    let [allowed, secret] = ["allowed", "secret"].map(|name| place.path().join(name));
    std::fs::create_dir(&allowed)?;
    std::fs::write(allowed.join("a"), "may be read\n")?;
    std::fs::write(&secret, "must not be read\n")?;
    let files = Files::of_the_system().and_reads(&[&allowed]);
    let launch = Launch::new(Path::new("/bin/sh"), place.path()).confined_to(files);
    let script = "cat allowed/a secret /etc/shadow; echo x > allowed/b; echo that is all";
    let (_server, said) = shell(launch, script, &[]);
    assert!(said.contains("may be read") && !said.contains("must not") && !said.contains("root:"), "{said}");
    assert_eq!(said.matches("Permission denied").count(), 3, "{said}");
    assert!(!allowed.join("b").exists());
    Ok(())
}

/// In a namespace of users that allows no further one, as where the system refuses them all.
fn no_groups() -> Result<(), Failed> {
    let place = place();
    let log = place.path().join("log");
    let text = |text: &str| serde_json::json!({"Unix": text.as_bytes()});
    let order = serde_json::json!({
        "log": text(log.to_str().unwrap()), "program": text("/bin/cat"),
        "arguments": [text("/proc/self/status")], "secrets": [], "files": null, "channel": null,
    });
    let script = format!("echo 0 > /proc/sys/user/max_user_namespaces && exec {BLOBWISE} {SUPERVISE} cat");
    // Root of the namespace from its second program on: the first began before it had any users.
    let script = format!("read mapped; exec setpriv --groups=4,27,42 sh -c '{script}'");
    #[expect(clippy::disallowed_methods, reason = "ends with its supervisor's server, which ends by itself")]
    let mut supervisor = Command::new("unshare")
        .args(["--user", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    map_all_users(supervisor.id())?;
    let mut stdin = supervisor.stdin.take().unwrap();
    stdin.write_all(format!("mapped\n{order}\n").as_bytes())?;
    let mut answer = String::new();
    supervisor.stdout.take().unwrap().read_to_string(&mut answer)?;
    assert!(supervisor.wait()?.success(), "{answer}");
    let status = std::fs::read_to_string(&log)?;
    let of = |field: &str| status.lines().find_map(|line| line.strip_prefix(field)).unwrap().trim();
    assert_eq!((of("Uid:"), of("Gid:")), ("65534\t65534\t65534\t65534", "65534\t65534\t65534\t65534"));
    assert_eq!(of("Groups:"), "");
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
