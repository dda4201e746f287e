//! `blobwise completions` and `blobwise man`: shell completions and manual pages, generated from the definition of the command
//! line.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Arguments, CommandOutcome};

#[derive(Debug, Args)]
pub struct CompletionsFlags {
    /// Write for this shell, such as bash
    shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManualFlags {
    /// A directory, which is made where there is none
    dir: PathBuf,
}

/// Prints a completion script for a shell.
pub fn completions(flags: &CompletionsFlags) -> Result<CommandOutcome> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Arguments::command(), "blobwise", &mut script);
    // Printed unescaped, because a shell interprets it.
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&script)?;
    stdout.flush()?;
    Ok(CommandOutcome::Well)
}

/// Writes a manual page for the program and one for each command.
///
/// # Errors
/// The directory cannot be created, or a page cannot be written.
pub fn pages(flags: &ManualFlags) -> Result<CommandOutcome> {
    let cannot = || format!("no pages of the manual can be written to {}", flags.dir.display());
    std::fs::create_dir_all(&flags.dir).with_context(cannot)?;
    clap_mangen::generate_to(Arguments::command(), &flags.dir).with_context(cannot)?;
    Ok(CommandOutcome::Well)
}
