//! The records of a run: enough to continue it later and to compute every figure of the result.

use std::collections::BTreeMap;

use crate::corpus::CorpusId;
use crate::result::{
    CandidateResult, ClientProcess, CorpusResult, DiscardedFigures, DiscardedRound, Disturbance, Finding,
    Fixed, Harness, Machine, MeasuringProgram, Picture, Probe, Round, RunResult, Status, StoreRound, Warning,
};
pub use crate::rules::RESIDENT_SHARE_OPENED_MAX;

/// Key of a cell of the result: candidate, sweep size and phase.
pub type CellKey = (String, CorpusId, String);

/// The data of a cell so far.
#[derive(Clone, Debug, Default)]
pub struct CellRecord {
    /// Measurements, in the order of rounds.
    pub rounds: Vec<Round>,
    /// Findings, in the order of rounds.
    pub findings: Vec<Finding>,
    /// Why the phase was not possible for the candidate.
    pub not_possible: Option<String>,
}

impl CellRecord {
    /// Adds a measurement in the order of rounds, whenever it was made.
    pub fn add(&mut self, measured: Round) {
        let place = self.rounds.partition_point(|known| known.round <= measured.round);
        self.rounds.insert(place, measured);
    }

    /// Adds a finding in the order of rounds.
    pub fn add_found(&mut self, finding: Finding) {
        let place = self.findings.partition_point(|known| known.round <= finding.round);
        self.findings.insert(place, finding);
    }
}

fn key_of(finding: &Finding) -> CellKey {
    (finding.store.clone(), finding.corpus_id, finding.phase.clone())
}

/// Everything recorded so far.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// The program that measured.
    pub program: MeasuringProgram,
    /// Lengths of phases and number of rounds, as the pilot fixed them.
    pub fixed: Fixed,
    /// The machine.
    pub machine: Machine,
    /// The processes of a run by MPI.
    pub clients: Vec<ClientProcess>,
    /// Overhead of the harness.
    pub harness: Harness,
    /// The corpora, as they were used.
    pub corpora: Vec<CorpusResult>,
    /// The candidates.
    pub candidates: Vec<CandidateResult>,
    /// The cells.
    pub cells: BTreeMap<CellKey, CellRecord>,
    /// The probes.
    pub probes: Vec<Probe>,
    /// Candidate runs, one for each round, candidate and corpus.
    pub store_rounds: Vec<StoreRound>,
    /// The original measurements of rounds that were repeated.
    pub set_aside: Vec<DiscardedRound>,
    /// Screenshots of the stores.
    pub pictures: Vec<Picture>,
    /// Warnings about the machine and the plan that were found during the run.
    pub warnings: Vec<Warning>,
    /// True if every round of every candidate was measured.
    pub complete: bool,
}

impl Records {
    /// Returns empty records.
    pub fn new(candidates: Vec<CandidateResult>, program: MeasuringProgram, machine: Machine) -> Records {
        Records { program, machine, candidates, ..Records::default() }
    }

    /// Restores the records of an earlier run, to continue it.
    pub fn resume(result: RunResult) -> Records {
        let corpora = result.all_corpora().to_vec();
        let mut cells: BTreeMap<CellKey, CellRecord> = BTreeMap::new();
        for cell in result.results {
            let not_possible = (cell.status == Status::NotPossible).then_some(cell.reason).flatten();
            cells.insert(
                (cell.store, cell.corpus_id, cell.phase),
                CellRecord { rounds: cell.rounds, not_possible, ..CellRecord::default() },
            );
        }
        for finding in result.findings {
            cells.entry(key_of(&finding)).or_default().add_found(finding);
        }
        Records {
            program: result.program,
            fixed: result.fixed,
            machine: result.machine,
            clients: result.clients,
            harness: result.harness,
            corpora,
            candidates: result.candidates,
            cells,
            probes: result.probes,
            store_rounds: result.store_rounds,
            set_aside: result.set_aside,
            pictures: result.pictures,
            warnings: result.warnings.into_iter().filter(|warning| warning.details().is_of_run).collect(),
            complete: false,
        }
    }

    /// True if a candidate run was completed. Before that there is nothing to continue, and the pilot or the measurement of the
    /// harness may have been cut short.
    pub fn has_begun(&self) -> bool {
        !self.store_rounds.is_empty()
    }

    /// True if a candidate was measured on this corpus in this round.
    pub fn has(&self, candidate: &str, corpus_id: CorpusId, round: u32) -> bool {
        self.store_rounds
            .iter()
            .any(|visit| visit.round == round && visit.store == candidate && visit.corpus_id == corpus_id)
    }

    /// True if a candidate was seen to read its data when it is opened, on this corpus.
    pub fn is_resident(&self, candidate: &str, corpus_id: CorpusId) -> bool {
        let of_candidate =
            self.cells.iter().filter(|((store, size, _), _)| store == candidate && *size == corpus_id);
        let mut proofs =
            of_candidate.flat_map(|(_, cell)| &cell.rounds).filter_map(|round| round.cache_proof.as_ref());
        proofs.any(|proof| proof.resident_share_opened.is_some_and(|share| share > RESIDENT_SHARE_OPENED_MAX))
    }

    /// Returns the candidate with this label.
    pub fn candidate_mut(&mut self, label: &str) -> Option<&mut CandidateResult> {
        self.candidates.iter_mut().find(|candidate| candidate.store == label)
    }

    /// True if a candidate has failed as a whole.
    pub fn has_failed(&self, label: &str) -> bool {
        self.candidates.iter().any(|candidate| candidate.store == label && candidate.status == Status::Failed)
    }

    /// Deletes everything that was recorded in a round, except probes of its first measurement.
    pub fn forget_round(&mut self, round: u32) {
        for cell in self.cells.values_mut() {
            cell.rounds.retain(|measured| measured.round != round);
            cell.findings.retain(|finding| finding.round != round);
        }
        self.store_rounds.retain(|visit| visit.round != round);
        self.probes.retain(|probe| probe.round != round || probe.repeated);
    }

    /// Returns a copy without these rounds.
    pub fn without(&self, rounds: &[u32]) -> Records {
        let mut rest = self.clone();
        rounds.iter().for_each(|round| rest.forget_round(*round));
        rest
    }

    /// Removes a round from all figures before it is repeated, and keeps it separately.
    pub fn set_aside(&mut self, round: u32, why: Vec<Disturbance>) {
        let is_meant = |measured: &mut Round| measured.round == round;
        let (mut figures, mut findings) = (Vec::new(), Vec::new());
        for ((store, corpus_id, phase), cell) in &mut self.cells {
            figures.extend(cell.rounds.extract_if(.., is_meant).map(|measured| DiscardedFigures {
                store: store.clone(),
                corpus_id: *corpus_id,
                phase: phase.clone(),
                measured,
            }));
            findings.extend(cell.findings.extract_if(.., |finding| finding.round == round));
        }
        let visits = self.store_rounds.extract_if(.., |visit| visit.round == round).collect();
        for probe in self.probes.iter_mut().filter(|probe| probe.round == round) {
            probe.repeated = true;
        }
        self.set_aside.push(DiscardedRound { round, why, visits, figures, findings });
    }

    /// Undoes [`Records::set_aside`] if repeating the round failed.
    pub fn put_back(&mut self, round: u32) {
        self.forget_round(round);
        for aside in self.set_aside.extract_if(.., |aside| aside.round == round) {
            let later = self.store_rounds.iter().position(|visit| visit.round > round);
            let place = later.unwrap_or(self.store_rounds.len());
            self.store_rounds.splice(place..place, aside.visits);
            for DiscardedFigures { store, corpus_id, phase, measured } in aside.figures {
                self.cells.entry((store, corpus_id, phase)).or_default().add(measured);
            }
            for finding in aside.findings {
                self.cells.entry(key_of(&finding)).or_default().add_found(finding);
            }
        }
        for probe in self.probes.iter_mut().filter(|probe| probe.round == round) {
            probe.repeated = false;
        }
    }

    /// Adds the records of a later run of the same plan with other corpora.
    pub fn add(&mut self, later: Records) {
        self.complete &= later.complete;
        self.program.command = format!("{}; {}", self.program.command, later.program.command);
        self.program.seconds += later.program.seconds;
        // All are UTC in the same format, so that text order is the order of time.
        self.program.started = self.program.started.clone().min(later.program.started);
        self.fixed.lengths.extend(later.fixed.lengths);
        self.harness.null_ns.extend(later.harness.null_ns);
        self.corpora.extend(later.corpora);
        self.corpora.sort_by_key(|corpus| corpus.corpus_id);
        for candidate in later.candidates {
            if let Some(known) = self.candidate_mut(&candidate.store)
                && candidate.status == Status::Failed
                && known.status != Status::Failed
            {
                *known = candidate;
            }
        }
        self.cells.extend(later.cells);
        self.probes.extend(later.probes);
        self.store_rounds.extend(later.store_rounds);
        self.set_aside.extend(later.set_aside);
        self.pictures.extend(later.pictures);
        for warning in later.warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }

    /// Updates the warning about the budget if there are more rounds in the end than the pilot expected.
    pub fn rounds_made(&mut self, rounds: u32) {
        for warning in &mut self.warnings {
            if let Warning::Budget { rounds: cut, .. } = warning {
                cut.iter_mut().for_each(|cut| cut.made = rounds);
                *cut = cut.take().filter(|cut| cut.made < cut.wanted);
            }
        }
        self.warnings.retain(|warning| !warning.says_nothing());
    }

    /// Adds a warning, unless it repeats a known one.
    pub fn warning(&mut self, warning: Warning) {
        if !self.warnings.iter().any(|known| known.repeats(&warning)) {
            self.warnings.push(warning);
        }
    }
}
