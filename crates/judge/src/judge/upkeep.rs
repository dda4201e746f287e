//! Operator tasks on whole stores: one line per candidate.

use super::{interval, ranking};
use crate::corpus::CorpusId;
use crate::result::{Cell, Interval, Round, RunResult, Status, Upkeep, in_a_line};

/// Tasks of one candidate. Times are in seconds, with intervals over rounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CandidateUpkeep<'r> {
    /// Label of the candidate.
    pub store: &'r str,
    /// Corpus of the run.
    pub corpus_id: CorpusId,
    /// Time to list all keys.
    pub list: Option<Interval>,
    /// Time to count all blobs and their bytes.
    pub count: Option<Interval>,
    /// Time of a backup, including its flush.
    pub back_up: Option<Interval>,
    /// Tool or method of the backup.
    pub by: &'r str,
    /// True if the store was closed for the backup.
    pub is_closed: bool,
    /// Disk space used by the backup, per byte of blobs.
    pub per_byte: Option<f64>,
    /// Time to restore the backup, including opening the store.
    pub restore: Option<Interval>,
    /// Time to delete everything, until the store had released the disk space that it releases by itself.
    pub delete: Option<Interval>,
    /// Disk space left after deleting everything, as a share of that before.
    pub left: Option<f64>,
    /// Its rewrite.
    pub rewrite: Option<RewriteUpkeep<'r>>,
    /// Reasons for tasks that it cannot do.
    pub reasons: Vec<&'r str>,
}

/// Rewrite of a store, averaged over rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct RewriteUpkeep<'r> {
    /// Time, including the flush of the file system.
    pub time: Option<Interval>,
    /// Call, statement or program.
    pub by: &'r str,
    /// Disk space afterwards, as a share of that before.
    pub left: Option<f64>,
    /// Fragments per blob before and afterwards.
    pub fragments: Option<(f64, f64)>,
}

impl CandidateUpkeep<'_> {
    /// True if it was listed, counted, backed up, restored or emptied.
    pub fn is_operated(&self) -> bool {
        [&self.list, &self.count, &self.back_up, &self.restore, &self.delete]
            .iter()
            .any(|time| time.is_some())
    }
}

/// True if a phase is an operator task.
pub fn is_upkeep(result: &RunResult, phase: &str) -> bool {
    result.results.iter().any(|cell| cell.phase == phase && is_one(cell))
}

fn is_one(cell: &Cell) -> bool {
    cell.rounds.iter().any(|round| round.upkeep.is_some())
}

/// Returns a line for each candidate and corpus with operator tasks, without baselines.
pub fn lines(result: &RunResult) -> Vec<CandidateUpkeep<'_>> {
    let mut lines: Vec<CandidateUpkeep<'_>> = Vec::new();
    let cells = result.results.iter().filter(|cell| !ranking::is_baseline(cell));
    for cell in cells.filter(|cell| is_upkeep(result, &cell.phase)) {
        let is_same =
            |line: &CandidateUpkeep<'_>| (line.store, line.corpus_id) == (&*cell.store, cell.corpus_id);
        let place = lines.iter().position(is_same).unwrap_or_else(|| {
            lines.push(CandidateUpkeep {
                store: &cell.store,
                corpus_id: cell.corpus_id,
                ..CandidateUpkeep::default()
            });
            lines.len() - 1
        });
        add(&mut lines[place], cell);
    }
    lines
}

fn add<'r>(line: &mut CandidateUpkeep<'r>, cell: &'r Cell) {
    if cell.status != Status::Measured {
        let reason = cell.reason.as_deref().map(in_a_line).filter(|reason| !line.reasons.contains(reason));
        line.reasons.extend(reason);
        return;
    }
    let each = |seconds: &dyn Fn(&Round) -> f64| {
        let values: Vec<f64> = cell.rounds.iter().map(seconds).collect();
        values.iter().all(|value| *value > 0.0).then(|| interval::rate(&values)).flatten()
    };
    let of_an_op = |round: &Round| round.seconds / round.ops.max(1) as f64;
    match cell.rounds.iter().find_map(|round| round.upkeep.as_ref()) {
        Some(Upkeep::Lists { .. }) => line.list = each(&of_an_op),
        Some(Upkeep::Counts { .. }) => line.count = each(&of_an_op),
        Some(Upkeep::Restores { .. }) => line.restore = each(&of_an_op),
        Some(Upkeep::BacksUp { by, closed, .. }) => {
            (line.by, line.is_closed) = (by, *closed);
            line.back_up = each(&of_an_op);
            line.per_byte = mean(cell, |upkeep| match upkeep {
                Upkeep::BacksUp { backup_bytes, data_bytes, .. } => share(*backup_bytes, *data_bytes),
                _ => None,
            });
        }
        Some(Upkeep::Rewrites { by, .. }) => {
            let of = |value: fn(&Upkeep) -> Option<f64>| mean(cell, value);
            let before = of(|upkeep| rewritten(upkeep)?.0);
            line.rewrite = Some(RewriteUpkeep {
                time: each(&of_an_op),
                by,
                left: of(|upkeep| rewritten(upkeep)?.2),
                fragments: before.zip(of(|upkeep| rewritten(upkeep)?.1)),
            });
        }
        Some(Upkeep::DeletesAll { .. }) => {
            line.delete = each(&|round| match &round.upkeep {
                Some(Upkeep::DeletesAll { seconds, .. }) => *seconds,
                _ => 0.0,
            });
            line.left = mean(cell, |upkeep| match upkeep {
                Upkeep::DeletesAll { before_bytes, left_bytes, .. } => {
                    share((*left_bytes)?, (*before_bytes)?)
                }
                _ => None,
            });
        }
        None => {}
    }
}

/// Returns the disk space used by a candidate's backups, averaged over rounds.
pub fn backup_bytes(cell: &Cell) -> Option<f64> {
    mean(cell, |upkeep| match upkeep {
        Upkeep::BacksUp { backup_bytes, .. } => Some(*backup_bytes as f64),
        _ => None,
    })
}

/// Returns the disk space left after deleting everything or after a rewrite, averaged over rounds.
pub fn left_bytes(cell: &Cell) -> Option<f64> {
    mean(cell, |upkeep| match upkeep {
        Upkeep::DeletesAll { left_bytes, .. } | Upkeep::Rewrites { left_bytes, .. } => {
            left_bytes.map(|left| left as f64)
        }
        _ => None,
    })
}

/// Fragments before and after a rewrite, and the disk space after it as a share of that before.
fn rewritten(upkeep: &Upkeep) -> Option<(Option<f64>, Option<f64>, Option<f64>)> {
    let Upkeep::Rewrites { before_bytes, left_bytes, fragments_before, fragments_left, .. } = upkeep else {
        return None;
    };
    let left = left_bytes.zip(*before_bytes).and_then(|(left, before)| share(left, before));
    Some((*fragments_before, *fragments_left, left))
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Averages over rounds; `None` if a round has no value.
fn mean(cell: &Cell, value: impl Fn(&Upkeep) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = cell.rounds.iter().map(|round| value(round.upkeep.as_ref()?)).collect();
    let values = values.filter(|values| !values.is_empty())?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(phase: &str, seconds: &[f64], upkeep: Option<Upkeep>) -> Cell {
        let round = |(index, seconds): (usize, &f64)| Round {
            round: index as u32 + 1,
            ops: 1,
            seconds: *seconds,
            upkeep: upkeep.clone(),
            ..Round::default()
        };
        let status = if upkeep.is_some() { "measured" } else { "not-possible" };
        let text = serde_json::json!({
            "store": "a", "adapter": "a", "options": {}, "status": status, "phase": phase, "durability": "none",
            "workers": 1, "batch": 1, "cache": "none", "ops": 1, "retries": 0, "timeouts": 0, "errors": 0,
            "rounds": [], "size_bands": [], "steps": [], "leader": false,
        });
        let cell: Cell = serde_json::from_value(text).unwrap();
        Cell { rounds: seconds.iter().enumerate().map(round).collect(), ..cell }
    }

    #[test]
    fn a_line_has_times_sizes_and_what_is_left() {
        let by = "`copy`".to_owned();
        let backed_up = Upkeep::BacksUp { by, backup_bytes: 300, data_bytes: 200, closed: true };
        let deleted = Upkeep::DeletesAll { seconds: 5.0, before_bytes: Some(400), left_bytes: Some(100) };
        let mut line = CandidateUpkeep { store: "a", ..CandidateUpkeep::default() };
        let cells = [
            cell("one", &[2.0, 2.0], Some(backed_up)),
            cell("two", &[1.0], Some(deleted)),
            Cell { reason: Some("no list".to_owned()), ..cell("three", &[], None) },
        ];
        cells.iter().for_each(|cell| add(&mut line, cell));
        assert!(line.is_closed && line.by == "`copy`");
        let close = |value: Option<Interval>, wanted: f64| (value.unwrap().median - wanted).abs() < 1e-9;
        // Deferred work is part of the time, not only the op.
        assert!(close(line.back_up, 2.0) && close(line.delete, 5.0), "{line:?}");
        assert_eq!((line.per_byte, line.left), (Some(1.5), Some(0.25)));
        assert_eq!((line.list, line.reasons), (None, vec!["no list"]));
    }

    #[test]
    fn a_rewrite_has_its_time_and_what_it_changed() {
        let rewritten = Upkeep::Rewrites {
            by: "`VACUUM INTO`".to_owned(),
            before_bytes: Some(400),
            left_bytes: Some(100),
            fragments_before: Some(3.0),
            fragments_left: None,
        };
        let mut line = CandidateUpkeep::default();
        let cell = cell("one", &[2.0, 2.0], Some(rewritten));
        add(&mut line, &cell);
        assert!(!line.is_operated());
        let rewrite = line.rewrite.unwrap();
        assert_eq!((rewrite.by, rewrite.left, rewrite.fragments), ("`VACUUM INTO`", Some(0.25), None));
        assert!((rewrite.time.unwrap().median - 2.0).abs() < 1e-9);
    }

    #[test]
    fn what_cannot_be_looked_at_is_absent() {
        let deleted = Upkeep::DeletesAll { seconds: 5.0, before_bytes: None, left_bytes: None };
        let mut line = CandidateUpkeep::default();
        let cell = cell("two", &[1.0], Some(deleted));
        add(&mut line, &cell);
        assert!(line.left.is_none() && line.delete.is_some());
    }
}
