//! Power cuts requested by a running program: a helper process makes them, because they need a single thread and a private mount
//! namespace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use super::{Lab, Trial, controls, line};
use crate::host::disk::own_mounts;
use crate::host::helper::{asked_to_help, done_by_helper};
use crate::plan::Candidate;
use crate::result::crash::{Control, Cuts};
use crate::store::{Durability, Options};
use crate::stores::{self, Entry};

/// First argument of the program as this helper.
const ROLE: &str = "__cut";

/// An order to the helper.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HelperRequest {
    label: String,
    store: String,
    options: BTreeMap<String, String>,
    class: Durability,
    kind: String,
    cuts: usize,
    seed: u64,
    dir: PathBuf,
    common: PathBuf,
    controls: PathBuf,
}

impl HelperRequest {
    /// Orders `cuts` power cuts of a candidate in a class, on a file system of this kind, in an existing empty directory. The
    /// first of all orders with the same `shared` directory makes the controls; files that stores share are kept there as well.
    pub fn new(
        candidate: &Candidate,
        class: Durability,
        kind: &str,
        (cuts, seed): (usize, u64),
        dir: &Path,
        shared: &Path,
    ) -> HelperRequest {
        HelperRequest {
            label: candidate.label.clone(),
            store: candidate.adapter.name.to_owned(),
            options: candidate.options.values().clone(),
            class,
            kind: kind.to_owned(),
            cuts,
            seed,
            dir: dir.to_owned(),
            common: shared.to_owned(),
            controls: shared.join(format!("controls-on-{kind}.json")),
        }
    }

    /// Has a helper carry it out; `None` if `stop` was set.
    pub fn done(&self, stop: &AtomicBool) -> Result<Option<Cuts>> {
        let Some(said) = done_by_helper(ROLE, &serde_json::to_string(self)?, stop)? else { return Ok(None) };
        let said: std::result::Result<Cuts, String> = serde_json::from_str(&said)?;
        said.map(Some).map_err(|error| anyhow!("{error}"))
    }

    fn candidate(&self) -> Result<Candidate> {
        let Some(Entry::Ready(adapter)) = stores::find(&self.store) else {
            bail!("there is no store `{}`", self.store)
        };
        Ok(Candidate { label: self.label.clone(), adapter, options: Options::new(self.options.clone()) })
    }

    fn carry_out(&self) -> Result<Cuts> {
        own_mounts()?;
        let lab = Lab::new(&self.dir, &self.kind)?.sharing(&self.common);
        let controls = self.controls(&lab)?;
        let candidate = self.candidate()?;
        let trial = Trial::new(&candidate, self.class);
        let may_judge = controls.iter().all(Control::holds);
        let line = line(&lab, &trial, self.cuts, self.seed, may_judge, &mut |_| ());
        Ok(Cuts { controls, line })
    }

    fn controls(&self, lab: &Lab) -> Result<Vec<Control>> {
        if let Ok(text) = std::fs::read_to_string(&self.controls) {
            return serde_json::from_str(&text).context("controls that nobody understands");
        }
        let made = controls(lab, self.seed)?;
        if let Some(dir) = self.controls.parent() {
            std::fs::create_dir_all(dir)?;
        }
        // Written atomically, because the helper may be killed while it writes.
        let draft = self.controls.with_extension("draft");
        std::fs::write(&draft, serde_json::to_vec(&made)?)?;
        std::fs::rename(draft, &self.controls)?;
        Ok(made)
    }
}

/// Carries out an order if the command line says that this process is a helper for it.
#[expect(clippy::print_stdout, reason = "what a helper says goes through its pipe")]
pub fn cut_if_asked() -> Option<ExitCode> {
    let order = asked_to_help(ROLE)?;
    let done =
        serde_json::from_str::<HelperRequest>(&order).map_err(Into::into).and_then(|order| order.carry_out());
    let said = done.map_err(|error: anyhow::Error| crate::redact::of_error(&format!("{error:#}")));
    println!("{}", serde_json::to_string(&said).ok()?);
    Some(ExitCode::SUCCESS)
}
