//! `blobwise page`: runs the plan `page`, whose ops are page loads in a real browser.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::{CommandOutcome, collection, run};
use crate::plan::PlanText;
use crate::plan::text::text_path;

/// Flags of the command. Everything else is changed as in any run: `blobwise run page --set page.rtt=50`.
#[derive(Debug, Args)]
pub struct PageFlags {
    /// Put the pages here while measuring [default: the current directory]
    #[arg(long, value_name = "DIR", value_parser = text_path())]
    dir: Option<PathBuf>,
    /// Write plan, result, report and pictures here [default: blobwise-runs/<time>]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Measure exactly this many rounds [default: 5]
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Load each variant this often per round [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    loads: Option<u64>,
    /// Print only the report, no progress
    #[arg(long)]
    quiet: bool,
    /// Print progress as plain lines, as in a pipe
    #[arg(long)]
    no_live: bool,
}

pub fn main(flags: PageFlags) -> Result<CommandOutcome> {
    let PageFlags { dir, out, rounds, loads, quiet, no_live } = flags;
    let keys = PlanText { dir, rounds, ..PlanText::default() };
    collection::main(&run::RunFlags::for_page(keys, out, loads, (quiet, no_live)), None)
}
