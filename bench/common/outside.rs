//! Their side as another program.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// Runs a program to its end and returns what it printed, and the processor time that it used.
pub fn run(command: &mut Command) -> Result<(String, f64)> {
    let before = children_cpu_seconds()?;
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start `{name}`"))?;
    let cpu_seconds = children_cpu_seconds()? - before;
    if !output.status.success() {
        bail!("`{name}` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok((String::from_utf8(output.stdout)?, cpu_seconds))
}

/// Processor time of the children that have ended, in ticks of the kernel: as a rule 10 ms.
fn children_cpu_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name in brackets may contain anything.
    let (_, fields) = stat.rsplit_once(") ").context("/proc/self/stat is not as documented")?;
    let ticks = fields.split(' ').skip(13).take(2).map(str::parse::<f64>).sum::<Result<f64, _>>()?;
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// Whether all of these programs are there. If not, that is said; it is an error only where `BLOBWISE_REQUIRE_ALL` asks for
/// everything.
pub fn are_there(programs: &[&str], install: &str) -> Result<bool> {
    let missing: Vec<&str> = programs.iter().copied().filter(|program| !is_there(program)).collect();
    if missing.is_empty() {
        return Ok(true);
    }
    let text = format!("skipped: {} not found; install with `{install}`", missing.join(", "));
    if std::env::var_os("BLOBWISE_REQUIRE_ALL").is_some_and(|value| value == "1") {
        bail!(text);
    }
    println!("{text}");
    Ok(false)
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
