//! A watchdog process that removes the run directory when blobwise itself cannot: launchers that end many processes at once
//! (mpirun) kill them one second after the signal.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::setsid;

use super::machine;
use super::place::remove_left;
use super::server::own_program;

/// First argument of the program when it runs as the watchdog.
const ROLE: &str = "__tidy-up";
/// How long to wait for the servers of a dead process to end; they write to the directory until then.
const PATIENCE: Duration = Duration::from_secs(60);

/// Handle of the watchdog process. The watchdog waits for the end of this process in a session of its own, so that signals to the
/// process group do not reach it.
#[derive(Debug)]
pub struct CleanupWatchdog(Child);

impl CleanupWatchdog {
    /// Starts a watchdog for a directory. Drop it after the directory has been removed.
    pub fn start(path: &Path) -> Result<CleanupWatchdog> {
        let mut command = Command::new(own_program()?);
        command.arg0("blobwise").arg(ROLE).arg(path);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends when this process has, and has removed the directory"
        )]
        let child = command.spawn().context("cannot start a process of our own")?;
        Ok(CleanupWatchdog(child))
    }
}

impl Drop for CleanupWatchdog {
    fn drop(&mut self) {
        // Closing its input tells it that the directory is gone; the death of this process closes it as well.
        drop(self.0.stdin.take());
        self.0.wait().ok();
    }
}

/// Runs as the watchdog if the command line says so; `None` otherwise.
pub fn tidy_up_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()?.to_str()? != ROLE {
        return None;
    }
    let path = std::path::PathBuf::from(arguments.next()?);
    setsid().ok();
    std::io::stdin().lock().read_to_end(&mut Vec::new()).ok();
    let begin = machine::uptime();
    while path.exists() && machine::uptime() - begin < PATIENCE {
        if remove_left(&path).is_none() {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    Some(ExitCode::SUCCESS)
}
