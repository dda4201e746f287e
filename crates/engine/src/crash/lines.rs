//! The lines of a crash report, one per candidate and class, and the controls without which no line has a verdict.

use anyhow::{Context, Result, anyhow};

use super::{Trial, lab::Lab, try_cuts};
use crate::plan::{CRASH_CONTROL, Candidate, CatalogueOf, Sets, candidates, defaults};
use crate::result::crash::besides::OtherFaultResults;
use crate::result::crash::{Control, CrashResult, LossVerdict};
use crate::store::Durability;

/// Returns why power cuts of a candidate cannot be tested; `None` if they can.
pub fn why_not(candidate: &Candidate) -> Option<anyhow::Error> {
    let label = &candidate.label;
    if candidate.traits().is_external {
        return Some(anyhow!("`{label}` is a server given by URL: its disk is not ours to cut"));
    }
    if candidate.shows_pages() {
        return Some(anyhow!(
            "`{label}` is pages that a browser loads: nothing is written that could be lost"
        ));
    }
    if candidate.traits().may_evict {
        return Some(anyhow!("`{label}` throws blobs away, so that what a power cut takes cannot be told"));
    }
    let is_persistent = (candidate.adapter.caps)(&candidate.options).persistent;
    (!is_persistent).then(|| anyhow!("`{label}` keeps nothing on a disk that a power cut could take"))
}

/// Returns why power cuts during uploads to a candidate cannot be tested; `None` if they can.
pub fn why_no_uploads(candidate: &Candidate) -> Option<anyhow::Error> {
    let label = &candidate.label;
    if let Some(why) = candidate.why_no_uploads() {
        return Some(anyhow!("`{label}` takes no uploads: {why}"));
    }
    match candidate.catalogue() {
        Ok(CatalogueOf::Apart(adapter)) if adapter.url(&defaults(adapter)).is_some() => {
            Some(anyhow!("the catalogue of `{label}` is a server given by URL: its disk is not ours to cut"))
        }
        _ => None,
    }
}

/// Makes `cuts` power cuts of a trial and calls `tell` with the number done. There is no verdict unless `may_judge` is set; a
/// failure is recorded in the line.
pub fn line(
    lab: &Lab,
    trial: &Trial<'_>,
    cuts: usize,
    seed: u64,
    may_judge: bool,
    tell: &mut dyn FnMut(usize),
) -> CrashResult {
    let outcome = if cuts > 0 { try_cuts(lab, trial, cuts, seed, tell).map(Some) } else { Ok(None) };
    let (finding, failed) = match outcome {
        Ok(finding) => (finding, None),
        Err(error) => (None, Some(crate::redact::of_error(&format!("{error:#}")))),
    };
    let declared = trial.declared();
    let verdict = finding.as_ref().filter(|_| may_judge).map(|finding| LossVerdict::judge(declared, finding));
    CrashResult {
        store: trial.candidate.label.clone(),
        uploads: trial.registered(),
        file_system: lab.kind().to_owned(),
        durability: trial.class,
        declared,
        verdict,
        failed,
        finding,
        besides: OtherFaultResults::default(),
    }
}

/// Tests the lab itself: unflushed files must be lost, flushed files must not, and flushed files must be lost on a disk that
/// ignores flushes.
pub fn controls(lab: &Lab, seed: u64) -> Result<Vec<Control>> {
    const CUTS: usize = 24;
    let (files, _) = candidates(&[CRASH_CONTROL.to_owned()], &Sets::default(), true)?;
    let candidate = files.first().context("no files")?;
    let each = Durability::EachWrite;
    let tried = [
        ("files that nobody flushes", Durability::None, false, true),
        ("files that are flushed", each, false, false),
        ("flushed files, on a disk that ignores flushes", each, true, true),
    ];
    let control = |(what, class, without_flushes, must_lose): (&str, Durability, bool, bool)| {
        let trial = Trial { judged_as: each, without_flushes, ..Trial::new(candidate, class) };
        let finding = try_cuts(lab, &trial, CUTS, seed, &mut |_| ())
            .with_context(|| format!("the control `{what}`"))?;
        let (what, file_system) = (what.to_owned(), lab.kind().to_owned());
        Ok(Control { what, file_system, must_lose, lost: finding.damages(), cuts: finding.cuts })
    };
    tried.into_iter().map(control).collect()
}
