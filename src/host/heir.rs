//! Who removes a directory of ours when its process cannot: a launcher that ends many processes at once gives them a second, and then
//! kills them.

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

/// First argument of the program as an heir.
const ROLE: &str = "__tidy-up";
/// How long servers of a dead process may take to end, which write there until then.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that waits for the end of this one, in a session of its own: signals to the others do not reach it.
#[derive(Debug)]
pub struct Heir(Child);

impl Heir {
    /// One for a directory. It is to be dropped after that was removed.
    pub fn of(path: &Path) -> Result<Heir> {
        let mut command = Command::new(own_program()?);
        command.arg0("blobwise").arg(ROLE).arg(path);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends when this process has, and has removed the directory"
        )]
        let child = command.spawn().context("cannot start a process of our own")?;
        Ok(Heir(child))
    }
}

impl Drop for Heir {
    fn drop(&mut self) {
        // The end of its input is that of this process, or of the directory.
        drop(self.0.stdin.take());
        self.0.wait().ok();
    }
}

/// Acts as an heir if the command line says so.
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
