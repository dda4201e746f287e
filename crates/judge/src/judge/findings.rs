//! Summary of findings: which candidates do, in all their rounds, what a kind of work tests, and which do not.

use crate::corpus::CorpusId;
use crate::result::{Bearing, Finding, RunResult};
use crate::units;

/// Findings of one phase with one corpus.
pub struct PhaseFindings<'r> {
    /// Id of the phase.
    pub phase: &'r str,
    /// Corpus of the findings.
    pub corpus_id: CorpusId,
    /// Title of the findings.
    pub title: &'r str,
    /// Findings in the order of candidates, and of rounds within a candidate.
    pub findings: Vec<&'r Finding>,
}

/// Combined findings of one candidate.
pub struct CandidateFindings<'r> {
    /// Label of the candidate.
    pub store: &'r str,
    /// Number of rounds in which it was tested.
    pub rounds: usize,
    /// Number of rounds in which it failed.
    pub failed: usize,
    /// True if it was judged; some findings are just facts.
    pub is_judged: bool,
    /// Most significant verdict: that of the first round that failed, otherwise of the first round.
    pub verdict: &'r str,
}

/// Returns the findings of a result, grouped by phase and corpus.
pub fn groups(result: &RunResult) -> Vec<PhaseFindings<'_>> {
    let keyed = result.findings.iter().map(|finding| ((finding.phase.as_str(), finding.corpus_id), finding));
    let groups = units::grouped(keyed).into_iter().map(|((phase, corpus_id), findings)| {
        let title = findings.first().map_or("", |first| first.found.title.as_str());
        PhaseFindings { phase, corpus_id, title, findings }
    });
    groups.collect()
}

impl<'r> PhaseFindings<'r> {
    /// Returns the combined findings of each candidate.
    pub fn standings(&self) -> Vec<CandidateFindings<'r>> {
        let stores = units::distinct(self.findings.iter().map(|finding| finding.store.as_str()));
        stores.into_iter().filter_map(|store| self.standing(store)).collect()
    }

    fn standing(&self, store: &'r str) -> Option<CandidateFindings<'r>> {
        let own: Vec<&Finding> =
            self.findings.iter().copied().filter(|finding| finding.store == store).collect();
        let fails = |finding: &&&Finding| finding.found.bearing == Bearing::Fails;
        let says_most = own.iter().find(fails).or(own.first())?;
        Some(CandidateFindings {
            store,
            rounds: own.len(),
            failed: own.iter().filter(fails).count(),
            is_judged: own.iter().any(|finding| finding.found.bearing != Bearing::Neither),
            verdict: &says_most.found.verdict,
        })
    }

    /// Returns the sentence for the answer; `None` if no candidate is judged.
    fn sentence(&self) -> Option<String> {
        let mut standings = self.standings();
        standings.retain(|standing| standing.is_judged);
        if standings.is_empty() {
            return None;
        }
        let size = self.corpus_id.bytes().map(|bytes| format!(" at {}", units::bytes(bytes as f64)));
        let begin = format!("{}{}", self.title, size.unwrap_or_default());
        let (failed, held): (Vec<_>, Vec<_>) = standings.iter().partition(|standing| standing.failed > 0);
        if failed.is_empty() {
            let rounds = held.iter().map(|standing| standing.rounds).min().unwrap_or(0);
            return Some(format!(
                "{begin}: holds for {} in all of {}.",
                units::counted(held.len() as u64, "candidate"),
                units::counted(rounds as u64, "round")
            ));
        }
        let reasons: Vec<String> = failed
            .iter()
            .map(|standing| {
                let (failed, rounds) = (standing.failed, units::counted(standing.rounds as u64, "round"));
                let verdict = standing.verdict.trim_end_matches('.');
                format!("not for `{}` ({verdict}; {failed} of {rounds})", standing.store)
            })
            .collect();
        Some(format!("{begin}: holds for {} of {}, {}.", held.len(), standings.len(), reasons.join(", ")))
    }
}

/// Returns the answer's sentences on findings.
pub fn sentences(result: &RunResult) -> Vec<String> {
    groups(result).iter().filter_map(PhaseFindings::sentence).collect()
}
