//! Two programs that measure a plan alternately, round by round, so that changes on the machine affect both.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::out::OutputDirectory;
use super::signals::Signals;
use crate::result::RunResult;

/// Plan and programs of an alternating measurement.
#[derive(Debug)]
pub struct AlternatingComparison<'a> {
    /// The plan: a file, or the name of one that both programs ship.
    pub plan: &'a str,
    /// The old program and the new one.
    pub programs: [&'a Path; 2],
    /// Rounds of each program.
    pub rounds: u32,
    /// Directory for both runs, each in its own subdirectory: an empty one, or by default a new one named after the time.
    pub out: Option<&'a Path>,
}

/// Interval at which the program checks for exits and signals.
const LOOK: Duration = Duration::from_millis(20);

/// Measures, and returns the directories of the two runs, or the signal that stopped it.
pub fn measured(asked: &AlternatingComparison<'_>) -> Result<std::result::Result<[PathBuf; 2], i32>> {
    asked.programs.iter().try_for_each(|program| is_blobwise(program))?;
    let signals = Signals::listen()?;
    let out = OutputDirectory::make(asked.out)?;
    let runs = ["old", "new"].map(|name| out.path.join(name));
    for round in 1..=asked.rounds {
        // The program that runs second in one round runs first in the next.
        let order = if round % 2 == 1 { [0, 1] } else { [1, 0] };
        for side in order {
            let outcome = one_round(asked, asked.programs[side], &runs[side], round, &signals);
            if let Some(signal) = signals.received() {
                return Ok(Err(signal));
            }
            outcome.inspect_err(|_| out.abandon())?;
        }
    }
    Ok(Ok(runs))
}

fn is_blobwise(program: &Path) -> Result<()> {
    let named = program.display();
    let told = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let told = told.with_context(|| format!("cannot start `{named}`"))?;
    if !told.stdout.starts_with(b"blobwise ") {
        bail!("`{named}` is no blobwise: that says its name with --version");
    }
    Ok(())
}

/// Runs the next round of a program, and checks that it was measured.
fn one_round(
    asked: &AlternatingComparison<'_>,
    program: &Path,
    run: &Path,
    round: u32,
    signals: &Signals,
) -> Result<()> {
    let mut command = Command::new(program);
    command.arg("run");
    match round {
        1 => command.arg(asked.plan).args(["--rounds", &asked.rounds.to_string()]).arg("--out").arg(run),
        _ => command.arg("--resume").arg(run),
    };
    command
        .args(["--quiet", "--one-round"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = started(&mut command).with_context(|| format!("cannot start `{}`", program.display()))?;
    let said = said_until_its_end(child, signals)?;
    let last = RunResult::load(run).ok().and_then(|run| run.probes.iter().map(|probe| probe.round).max());
    if last != Some(round) && signals.received().is_none() {
        bail!("`{}` did not measure round {round}: {}", program.display(), said.trim());
    }
    Ok(())
}

/// Starts another blobwise process, which is terminated with this one and then cleans up after itself.
#[expect(clippy::disallowed_methods, reason = "another blobwise supervises what it starts itself")]
#[expect(unsafe_code, reason = "what is done between fork and exec")]
fn started(command: &mut Command) -> std::io::Result<Child> {
    use std::os::unix::process::CommandExt;
    let ends_with_us = || {
        let signal = Some(rustix::process::Signal::TERM);
        rustix::process::set_parent_process_death_signal(signal).map_err(std::io::Error::from)
    };
    // SAFETY: one system call, which allocates nothing and takes no lock.
    unsafe { command.pre_exec(ends_with_us) }.spawn()
}

/// Waits for a program, forwarding a signal to it, and returns its standard error.
fn said_until_its_end(mut child: Child, signals: &Signals) -> Result<String> {
    let stderr = child.stderr.take();
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        stderr.map(|mut stderr| std::io::Read::read_to_end(&mut stderr, &mut said));
        String::from_utf8_lossy(&said).into_owned()
    });
    let mut is_told = false;
    while child.try_wait()?.is_none() {
        if signals.received().is_some() && !is_told {
            is_told = true;
            let pid = rustix::process::Pid::from_child(&child);
            // It may have exited just now.
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        }
        std::thread::sleep(LOOK);
    }
    Ok(reader.join().unwrap_or_default())
}
