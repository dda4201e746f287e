//! A check: its name, the subjects that it applies to, and how it gets its store.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, anyhow, bail};

use super::bench::{Bench, World};
use super::subject::Subject;
use crate::store::{self, Error};

/// Input of a check: the world, and the subject.
pub struct Case<'a> {
    /// Where stores are made.
    pub world: &'a World,
    /// What is checked.
    pub subject: &'a Arc<Subject>,
}

/// How a check gets its store.
#[derive(Clone, Copy)]
pub enum Run {
    /// Runs on any open store, even one that other checks have used.
    Open(fn(&mut Bench) -> Result<()>),
    /// Opens its own store.
    Own(fn(&Case) -> Result<()>),
}

/// What a check needs to be worth making once more, in another class or of a server with other options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckKind {
    /// Finds the same in every class.
    AnyClass,
    /// May find something else in another class, or picks the class itself.
    ByClass,
    /// Backs up and restores, which takes two starts of a server; may find something else in another class.
    Backup,
    /// Starts another process, to observe or to kill it.
    Process,
}

/// A check.
pub struct ConformanceCheck {
    /// Name, such as `returns-what-was-put`.
    pub name: &'static str,
    /// True for a subject that it applies to.
    pub applies: fn(&Subject) -> bool,
    /// The check itself, which fails with what is wrong.
    pub run: Run,
    /// What it depends on.
    pub kind: CheckKind,
}

/// Open store of a server, shared by its checks; embedded stores are opened for each check.
pub type SharedBench = Mutex<Option<Bench>>;

impl ConformanceCheck {
    /// Makes the check.
    ///
    /// # Errors
    /// What the store does not keep of its contract, or [`CannotCheck`].
    pub fn make(&self, world: &World, subject: &Arc<Subject>, shared: &SharedBench) -> Result<()> {
        match self.run {
            Run::Open(run) if subject.is_server() => {
                let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                // Taken out, so that a store that failed or panicked is not used again.
                let mut bench = match shared.take() {
                    Some(bench) => bench,
                    None => Bench::open(world, subject)?,
                };
                run(&mut bench)?;
                *shared = Some(bench);
                Ok(())
            }
            Run::Open(run) => {
                let mut bench = Bench::open(world, subject)?;
                run(&mut bench)?;
                bench.close()
            }
            Run::Own(run) => run(&Case { world, subject }),
        }
    }
}

/// Reason why a check cannot be made on this machine; it is then ignored, not passed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CannotCheck(pub String);

/// A check of any open store.
pub const fn open(
    name: &'static str,
    applies: fn(&Subject) -> bool,
    run: fn(&mut Bench) -> Result<()>,
) -> ConformanceCheck {
    ConformanceCheck { name, applies, run: Run::Open(run), kind: CheckKind::AnyClass }
}

/// A check that opens its own store.
pub const fn own(
    kind: CheckKind,
    name: &'static str,
    applies: fn(&Subject) -> bool,
    run: fn(&Case) -> Result<()>,
) -> ConformanceCheck {
    ConformanceCheck { name, applies, run: Run::Own(run), kind }
}

pub(super) fn refused<T>(outcome: store::Result<T>, what: &str) -> Result<()> {
    match outcome {
        Err(Error::Unsupported(_)) => Ok(()),
        Err(error) => {
            Err(anyhow!(error).context(format!("{what} is not declared, and fails instead of being refused")))
        }
        Ok(_) => bail!("{what} is not declared, and yet it is done"),
    }
}
