//! Parameters of the judgment, for a new run or a finished one.

use crate::engine::work::ResolvePlan;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use jiff::Zoned;

use super::prices::pricing;
use crate::judge::answer::costs;
use crate::judge::summary::summarize;
use crate::plan::{Plan, PlanText, split_list, split_pair};
use crate::records::Records;
use crate::result::{Pricing, RunResult};

/// Flags of it. What was measured is the same with any of them.
#[derive(Debug, Default, Args)]
pub struct JudgingFlags {
    /// Weigh kinds of ops, such as read=0.95,overwrite=0.05
    ///
    /// Gives the cost of 1,000 such ops, and a recommendation without work that has no share
    #[arg(long, value_name = "KIND=SHARE,...")]
    mix: Option<String>,
    /// Relate differences to a request of your program [default: 1ms]
    ///
    /// It takes this long and has one op
    #[arg(long, value_name = "TIME")]
    request: Option<String>,
    /// Consider only places that offer all of these, such as ranges,transactions
    ///
    /// They are atomic-puts, changes, durable, largest-blob=SIZE, listing, no-server, one-backup, ranges, several-machines,
    /// streams and transactions
    #[arg(long, value_name = "A,B")]
    need: Option<String>,
    /// Compute what a month costs at the prices in this file
    ///
    /// See docs/how-to/price-a-month.md; `blobwise report --prices-template` prints a file to fill in
    #[arg(long, value_name = "FILE", requires = "load")]
    prices: Option<PathBuf>,
    /// Compute that month for this load, such as reads=2e7,stored=500GB
    ///
    /// The keys are reads, writes, stored, growth (per month, of what is stored, such as 3%) and cached (the share of
    /// reads that memory answers, such as 80%; 0% if left out)
    #[arg(long, value_name = "KEY=VALUE,...", requires = "prices")]
    load: Option<String>,
}

impl JudgingFlags {
    /// True if any parameter is given.
    pub fn is_asked(&self) -> bool {
        self.mix.is_some() || self.request.is_some() || self.need.is_some() || self.prices.is_some()
    }

    /// Reads the prices and the load, if given.
    pub fn pricing(&self) -> Result<Option<Pricing>> {
        let asked = self.prices.as_deref().zip(self.load.as_deref());
        asked.map(|(file, load)| pricing(file, load, Zoned::now().date())).transpose()
    }

    /// Applies the parameters to a plan.
    pub fn apply_to(&self, text: &mut PlanText) -> Result<()> {
        if let Some(mix) = &self.mix {
            let mut shares = BTreeMap::new();
            for (kind, share) in
                split_list(mix).iter().map(|pair| share_of(pair)).collect::<Result<Vec<_>>>()?
            {
                ensure!(shares.insert(kind.clone(), share).is_none(), "--mix: `{kind}` is named twice");
            }
            text.mix = Some(shares);
        }
        if self.request.is_some() {
            text.request.clone_from(&self.request);
        }
        if let Some(need) = &self.need {
            text.need = Some(split_list(need));
        }
        Ok(())
    }

    /// Rejects parameters of a recommendation that the run will not end in.
    pub fn check(&self, plan: &Plan) -> Result<()> {
        let is_about_it = self.request.is_some() || self.need.is_some() || self.prices.is_some();
        if is_about_it && (!plan.asks_what_to_do() || plan.shows_pages()) {
            bail!(
                "--request, --need and --prices: cannot be used with a sweep, a growth, ageing, several corpora, a published plan or `page`: these runs make no recommendation"
            );
        }
        Ok(())
    }

    /// Judges a finished run again. Its files are not touched.
    pub fn judged(&self, run: &Path) -> Result<RunResult> {
        let pricing = self.pricing()?;
        let result = RunResult::load(run)?;
        let pricing = pricing.or(result.costs.as_ref().map(|costs| costs.pricing.clone()));
        let mut text = result.plan.clone();
        self.apply_to(&mut text)?;
        let records = Records { complete: result.complete, ..Records::resume(result) };
        // Judging uses the design only, so the stores need not be available on this machine.
        let mut result =
            summarize(&text.design(&records.candidates)?.by_clients(records.clients.len()), &records)?;
        if result.advice.is_none() {
            bail!(
                "`{}` says nothing of what to do: that takes two candidates that can be compared, on one corpus, without published claims",
                run.display()
            );
        }
        result.costs = pricing.map(|pricing| costs(&result, &pricing));
        Ok(result)
    }
}

/// Parses a share such as `read=0.9`.
fn share_of(pair: &str) -> Result<(String, f64)> {
    let (name, share) = split_pair(pair).context("--mix")?;
    let number = share.parse::<f64>().ok();
    Ok((name, number.with_context(|| format!("--mix: `{pair}` has no number such as 0.95"))?))
}
