//! Brings the fragments of files together, by the program of their file system.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

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
    let output = Command::new(PROGRAM).arg(dir).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{DEFRAGMENTER} does not start"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{DEFRAGMENTER} failed: {}", said.trim());
    Ok(())
}
