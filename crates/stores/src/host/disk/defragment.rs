//! Brings the fragments of files together, by the program of their file system.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::host::machine;

/// Type of file system that has such a program, the program, and how to install it.
const KIND: &str = "ext4";
const PROGRAM: &str = "/usr/sbin/e4defrag";
const INSTALLED_BY: &str = "apt-get install e2fsprogs";

/// Name of the program that [`defragment`] runs.
pub const DEFRAGMENTER: &str = "`e4defrag`";

/// Returns why the files below a directory cannot be defragmented; `None` if they can.
pub fn why_not_defragmented(dir: &Path) -> Option<String> {
    let kind = machine::file_system(dir).unwrap_or_else(|| "an unknown file system".to_owned());
    if kind != KIND {
        return Some(format!("{DEFRAGMENTER} is for {KIND}, and the files are on {kind}"));
    }
    (!Path::new(PROGRAM).exists()).then(|| format!("{DEFRAGMENTER} is missing: {INSTALLED_BY}"))
}

/// Defragments the files below a directory. The files may be open. Fails if the program moves none of them.
pub fn defragment(dir: &Path) -> Result<()> {
    let output = command(PROGRAM, dir).output();
    let output = output.with_context(|| format!("{DEFRAGMENTER} does not start"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{DEFRAGMENTER} failed: {}", said.trim());
    Ok(())
}

/// A program that works on a directory. It ends with us, and has none of our environment: `LD_PRELOAD` could turn its flushes off.
#[expect(unsafe_code, reason = "what runs between fork and exec is unsafe to get wrong")]
fn command(program: &str, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg(dir).stdin(Stdio::null()).env_clear().env("LC_ALL", "C");
    let ends_with_us = || set_parent_process_death_signal(Some(Signal::KILL)).map_err(std::io::Error::from);
    // SAFETY: one system call, which allocates nothing and takes no lock.
    unsafe { command.pre_exec(ends_with_us) };
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_has_none_of_our_environment() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let script = dir.path().join("script");
        std::fs::write(&script, "exec /usr/bin/env").unwrap();
        let output = command("/bin/sh", &script).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("LC_ALL=C"), "{output:?}");
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some() && !said.contains("CARGO"), "{said}");
    }
}
