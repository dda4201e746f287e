//! Cost of an op in a forked process under a memory limit, as used for candidates with such a limit, relative to its cost in this
//! process.

use std::io::{Read, Write};

use anyhow::{Context, Result};

use super::met;
use crate::engine::null_loop::NullLoop;
use crate::engine::workers::clock::HostClock;
use crate::host::control_group::{MemoryGroup, why_no_memory_group};
use crate::host::fork::Forked;
use crate::judge::interval::{CONFIDENCE, Moments, t_two_sided};

/// Maximum relative additional cost.
const BEYOND_MAX: f64 = 0.02;
const PAIRS: u32 = 20;
const SECONDS: f64 = 0.1;
/// Memory limit, far above what the null store takes.
const LIMIT_BYTES: u64 = 64 << 20;

/// Measures the cost, and returns a sentence and true if the goal is met.
pub fn cost(clock: &HostClock) -> Result<(String, bool)> {
    if let Some(why) = why_no_memory_group() {
        return Ok((format!("a process of its own: not measurable here: {why:#}"), true));
    }
    let null_loop = NullLoop::new(1000, 4096)?;
    let ns = || null_loop.ns_per_op(clock, SECONDS);
    let mut logarithms = Vec::new();
    for pair in 0..PAIRS {
        // The order alternates, so that a change of processor speed affects both sides alike.
        let (here, there) = if pair % 2 == 0 {
            let here = ns()?;
            (here, forked(&ns)?)
        } else {
            let there = forked(&ns)?;
            (ns()?, there)
        };
        logarithms.push((there / here).ln());
    }
    let moments = Moments::from_values(&logarithms).context("no pair was measured")?;
    let half = t_two_sided(CONFIDENCE, moments.degrees.max(1.0)) * moments.error;
    let [ratio, low, high] = [0.0, -half, half].map(|by| (moments.mean + by).exp());
    // The goal is missed only if a higher cost is proved.
    let is_met = low <= 1.0 + BEYOND_MAX;
    let text = format!(
        "goal: an op of a process of its own under a limit of memory takes within {:.0} %: {ratio:.3} [{low:.3}, {high:.3}] times, {}",
        BEYOND_MAX * 100.0,
        met(is_met)
    );
    Ok((text, is_met))
}

/// Measures in a copy of this process, in a control group.
fn forked(ns: &dyn Fn() -> Result<f64>) -> Result<f64> {
    let group = MemoryGroup::make()?;
    let (mut reader, mut writer) = std::io::pipe().context("no pipe")?;
    let work = || {
        let measured = group.enter().and_then(|()| Ok(group.limit(Some(LIMIT_BYTES))?)).and_then(|()| ns());
        writer.write_all(&measured.unwrap_or(f64::NAN).to_ne_bytes()).ok();
    };
    let copy = Forked::begin(work)?;
    drop(writer);
    let mut bytes = [0; 8];
    let read = reader.read_exact(&mut bytes);
    copy.wait()?;
    read.context("the process of its own said nothing")?;
    let ns = f64::from_ne_bytes(bytes);
    anyhow::ensure!(ns.is_finite(), "the process of its own could not measure");
    Ok(ns)
}
