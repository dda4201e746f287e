//! What the program does to its machine and whom it talks to, seen from outside: its system calls under strace.

use std::process::Command;

use crate::program::{BLOBWISE, Outcome, Said, Work, finish, needing, why_not};
use crate::servers::read;
use crate::theirs::CLOSED;
use crate::trials::Trial;

/// Calls that change a file, reach another process or another machine. Those that this processor does not have are passed over.
const CALLS: &str = "trace=execve,execveat,?open,openat,openat2,?creat,write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,fallocate,\
                     copy_file_range,sendfile,splice,?rename,renameat,renameat2,?unlink,unlinkat,?rmdir,?mkdir,mkdirat,?link,linkat,?symlink,\
                     symlinkat,?mknod,mknodat,?chmod,fchmod,fchmodat,?chown,fchown,fchownat,setxattr,fsetxattr,mount,umount2,connect,sendto,\
                     sendmsg,sendmmsg,bind,listen,kill,tkill,tgkill,ptrace,process_vm_writev,bpf,io_uring_setup,setns,unshare,reboot";

/// What the doctor is told to write.
pub const OURS: &[&str] = &["report.json", "page.html", "saved", "saved/facts.json"];

pub fn trials() -> Vec<Trial> {
    vec![needing("what writes or connects elsewhere is caught", no_strace(), caught)]
}

pub fn no_strace() -> Option<String> {
    why_not(Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]))
}

/// Runs words under strace, and returns what they said and their calls.
pub fn watched(work: &Work, words: &[&str], variable: (&str, &str)) -> (Said, String) {
    let mut command = work.command("strace");
    command
        .args(["-f", "-y", "-qq", "-s", "200", "-e", CALLS, "-o", "trace", "--"])
        .args(words)
        .env(variable.0, variable.1);
    let said = finish(&mut command);
    (said, read(&work.path("trace")))
}

/// Calls that do more than read, write what is ours, and talk to the server at this port.
pub fn others(trace: &str, port: u16) -> Vec<&str> {
    trace.lines().filter(|line| !is_allowed(line, port)).collect()
}

fn is_allowed(line: &str, port: u16) -> bool {
    let call = line.trim_start_matches(|sign: char| sign.is_ascii_digit() || sign == ' ');
    // The second part of a call in which another thread had its turn, a signal that came, an end.
    if ["<... ", "+++ ", "--- "].iter().any(|begin| call.starts_with(begin)) {
        return true;
    }
    let Some((name, arguments)) = call.split_once('(') else { return false };
    let names =
        |file: &&str| arguments.contains(&format!("\"{file}\"")) || arguments.contains(&format!("/{file}>"));
    let is_ours = OURS.iter().any(names);
    match name {
        "execve" => arguments.starts_with(&format!("\"{BLOBWISE}\"")),
        "open" | "openat" => {
            let writes =
                ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| arguments.contains(flag));
            !writes || is_ours
        }
        "mkdir" | "unlink" | "unlinkat" => is_ours,
        "write" | "writev" => {
            let is_output = ["1<", "2<"].iter().any(|begin| arguments.starts_with(begin));
            let descriptor = arguments.split_once('<').map_or("", |(_, rest)| rest);
            // By the last of them a program wakes itself.
            let within = ["pipe:", "socket:", "anon_inode:[eventfd]"];
            is_output || is_ours || within.iter().any(|begin| descriptor.starts_with(begin))
        }
        // A socket that is connected needs no address.
        "connect" | "sendto" | "sendmsg" => {
            let server = format!("sin_port=htons({port}), sin_addr=inet_addr(\"127.0.0.1\")");
            arguments.contains(&server) || name != "connect" && !arguments.contains("sa_family")
        }
        _ => false,
    }
}

fn caught() -> Outcome {
    let work = Work::new();
    let port = CLOSED;
    let script = format!(
        "echo x > elsewhere; echo x > report.json; (exec 3<>/dev/tcp/127.0.0.1/{port}); kill -0 $$; mkdir other; mv report.json page.html"
    );
    let (_said, trace) = watched(&work, &["bash", "-c", &script], ("UNUSED", ""));
    let found = others(&trace, port + 1);
    for (name, word) in [
        ("openat", "\"elsewhere\""),
        ("connect", "sin_port"),
        ("kill", "0"),
        ("mkdir", "\"other\""),
        ("rename", "\"page.html\""),
        ("execve", "bash"),
    ] {
        assert!(found.iter().any(|line| line.contains(name) && line.contains(word)), "{name}: {found:#?}");
    }
    assert!(
        !found.iter().any(|line| line.contains("openat") && line.contains("\"report.json\"")),
        "{found:#?}"
    );
    // By its port: the shell itself may ask a name service of this machine who its user is.
    let found = others(&trace, port);
    assert!(!found.iter().any(|line| line.contains("sin_port")), "{found:#?}");
    Ok(())
}
