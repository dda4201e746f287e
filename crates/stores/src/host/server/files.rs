//! File system access of a server, restricted by the kernel (Landlock) where it should be less than this user's.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    path_beneath_rules,
};
use serde::{Deserialize, Serialize};

/// Paths that programs are loaded from and their libraries read; every user of a machine can read them.
const SYSTEM: &[&str] = &[
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/etc/ld.so.cache",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/group",
    "/etc/localtime",
];

/// Files and directories (with everything below them) that a server may use. Paths that do not exist are skipped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AllowedPaths {
    reads: Vec<OsString>,
    writes: Vec<OsString>,
}

impl AllowedPaths {
    /// Read access to the programs and libraries of the system.
    pub fn of_the_system() -> AllowedPaths {
        AllowedPaths { reads: SYSTEM.iter().map(OsString::from).collect(), writes: Vec::new() }
    }

    /// Adds paths that it may read and execute.
    pub fn and_reads(mut self, paths: &[&Path]) -> AllowedPaths {
        self.reads.extend(paths.iter().map(|path| path.as_os_str().to_owned()));
        self
    }

    /// Adds paths that it may also change.
    pub fn and_writes(mut self, paths: &[&Path]) -> AllowedPaths {
        self.writes.extend(paths.iter().map(|path| path.as_os_str().to_owned()));
        self
    }

    /// Restricts a command, and everything that it starts, to these files.
    #[expect(unsafe_code, reason = "what runs between fork and exec is unsafe to get wrong")]
    pub(super) fn confine(&self, command: &mut Command) -> Result<()> {
        let paths = |paths: &[OsString]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let latest = ABI::V6;
        let rules = nothing()?
            .add_rules(path_beneath_rules(paths(&self.reads), AccessFs::from_read(latest)))?
            .add_rules(path_beneath_rules(paths(&self.writes), AccessFs::from_all(latest)))?;
        let mut rules = Some(rules);
        // SAFETY: system calls on a descriptor that was made before the fork, in a process with one thread.
        unsafe {
            command.pre_exec(move || match rules.take().map(RulesetCreated::restrict_self) {
                Some(Ok(_)) => Ok(()),
                _ => Err(std::io::ErrorKind::PermissionDenied.into()),
            });
        }
        Ok(())
    }
}

/// Returns a ruleset that allows nothing yet. Fails if the kernel lacks the access rights of Landlock's first version.
fn nothing() -> Result<RulesetCreated> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(|rules| {
            rules.set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::from_all(ABI::V6))
        })
        .and_then(|rules| rules.create());
    rules.context(
        "this kernel does not keep a program to some files: that takes Linux 5.13 or later with Landlock among its security \
         modules (`lsm=landlock,...`)",
    )
}

/// Returns why programs cannot be confined on this machine; `None` if they can.
pub fn cannot_confine() -> Option<anyhow::Error> {
    nothing().err()
}
