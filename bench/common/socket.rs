//! The socket of the private server behind a store: read from the server's own command line.

use std::path::Path;

use anyhow::{Context, Result};

/// What follows `option` among the arguments of the process that works in `dir` or has it among them.
pub fn argument(dir: &Path, option: &str) -> Result<String> {
    let processes = std::fs::read_dir("/proc")?.filter_map(|entry| entry.ok());
    for process in processes {
        let Ok(line) = std::fs::read(process.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).into_owned();
        let arguments: Vec<&str> = line.split('\0').collect();
        let works_there =
            std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir));
        if (works_there || arguments.iter().any(|argument| argument.contains(&*dir.to_string_lossy())))
            && let Some(at) = arguments.iter().position(|argument| argument.contains(option))
        {
            // `--option=value`, or `--option` and the value behind it; some say what they do in place of all arguments.
            let value =
                arguments[at].split_once(option).map(|(_, value)| value).filter(|value| !value.is_empty());
            return Ok(value.or(arguments.get(at + 1).copied()).unwrap_or_default().to_owned());
        }
    }
    None.with_context(|| format!("no server of `{}` says its {option}", dir.display()))
}
