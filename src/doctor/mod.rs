//! The check-list before a new server is bought: ten questions, answered by measurement, on the machine and on servers by URL.
//!
//! Each subject is looked at twice. What it says is kept as facts, and the checks, which are pure, make findings of them: facts that
//! were saved are judged in the same way. It only reads: nothing is set, reset or installed, and nothing is sent but queries to the
//! URLs that were given.

pub mod checks;
pub mod facts;
pub mod finding;
mod machine;
pub mod report;

use std::path::PathBuf;
use std::time::Duration;

use self::facts::{Facts, Kind};
use crate::host::machine as host;

/// What is to be looked at.
pub struct Asked {
    /// Directories whose file systems are looked at.
    pub dirs: Vec<PathBuf>,
    /// How long there is between the two looks.
    pub between: Duration,
}

/// Looks at everything twice.
pub fn examine(asked: &Asked) -> Vec<Facts> {
    let system = host::facts(std::path::Path::new("/"));
    let mut machine = Facts::of(Kind::Machine, "this machine".to_owned());
    machine.version = Some(format!("{}, Linux {}", system.system, system.kernel));
    machine.earlier = machine::look(&asked.dirs);
    std::thread::sleep(asked.between);
    machine.later = machine::look(&asked.dirs);
    vec![machine]
}
