//! The pilot: measures before round 1 how long everything takes, and derives the corpus, the lengths of phases and the rounds
//! that fit the budget. Nothing else of it is reported.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::corpus::Corpus;
use crate::corpus::CorpusId;
use crate::judge::ranking::is_long_enough;
use crate::judge::{LEAST_SECONDS, SHORT_SECONDS, VERDICT_ROUNDS};
use crate::plan::{Phase, Plan};
use crate::result::{DroppedRounds, Fixed, FixedLength, Warning};
use crate::rules::SHORT_OPS as OPS_MIN;
use crate::units;

use super::candidate_run::{CandidateOutcome, PhaseOutcome, PilotOutcome, changes_the_image, images_kept};
use super::work::{self, BudgetParameters, Forecast, LengthInputs};
pub use crate::rules::READ_SECONDS_MIN;
use crate::rules::{
    MEMORY_KEPT, MEMORY_MIN, PILOT_SHARE_MAX, READ_SECONDS, ROUNDS_FEW, ROUNDS_HOPED, ROUNDS_MIN,
    STUCK_SECONDS_MIN,
};

/// Number of rounds of a run, as far as its plan and its budget allow.
pub const ROUNDS_WANTED: u32 = VERDICT_ROUNDS;
/// How often the harness is measured by itself. The minimum counts, because a phase of few ops that meets a stall would look like
/// one that is mostly harness.
pub const HARNESS_VISITS: u32 = 3;
/// Maximum duration of its phases, in seconds.
pub const HARNESS_SECONDS_MAX: f64 = 0.05;
/// Factor by which rounds may exceed the pilot's estimate, if the budget only holds the fewest that a run must have.
const MISSES: f64 = 1.25;
/// Minimum number of blobs in a corpus that is cut to fit a budget.
const BLOBS_MIN: u64 = 100;
/// Factor by which each step cuts a corpus.
const CUT: f64 = 0.75;
/// Maximum and minimum number of blobs in the pilot, and maximum bytes.
const PILOT_BLOBS: u64 = 400;
const PILOT_BLOBS_MIN: u64 = 8;
const PILOT_BYTES: u64 = 32_000_000;
/// Factor by which there are fewer blobs for a candidate that is too slow with all of the pilot's.
const PILOT_FEWER: u64 = 16;
/// Growth of the time of an op with three times the blobs, below which it counts as constant.
const SLOWS_MIN: f64 = 1.25;

/// Number of blobs of a corpus in the pilot: at least a whole batch.
pub fn pilot_blobs(plan: &Plan, corpus: &Corpus) -> u64 {
    let mut bytes = 0;
    let within = corpus.sizes.iter().take_while(|size| {
        bytes += u64::from(**size);
        bytes <= PILOT_BYTES
    });
    (within.count() as u64)
        .clamp(1, PILOT_BLOBS)
        .max(PILOT_BLOBS_MIN)
        .max(plan.largest_batch())
        .min(corpus.blobs())
}

/// Returns the numbers of blobs with which a candidate runs if it is too slow with all of the pilot's. There are two, so that the
/// second run shows how its ops slow down with more blobs. `None` if there are too few blobs for that.
pub fn few_blobs(plan: &Plan, all: u64) -> Option<[u64; 2]> {
    let batch = plan.largest_batch();
    let few = (all / PILOT_FEWER).max(PILOT_BLOBS_MIN).max(batch);
    let fewest = (few / 3).max(1).max(batch);
    (fewest < few && few < all).then_some([fewest, few])
}

/// Time limit for the phases of one candidate in the pilot.
pub fn patience(budget: Duration) -> Duration {
    budget.mul_f64(PILOT_SHARE_MAX).max(Duration::from_secs(STUCK_SECONDS_MIN))
}

/// Relative slowdown of ops per additional blob, as a share of the time with the most blobs, from two runs of a candidate. It
/// compares the sums over the phases of ops that both did, except cold ones, whose few ops vary. 0.0 if the growth could be
/// noise.
pub fn slows_by(plan: &Plan, [(fewer, before), (more, after)]: [(u64, &CandidateOutcome); 2]) -> f64 {
    let op_seconds = |visit: &CandidateOutcome, phase: &Phase| match visit.phases.get(&phase.id) {
        Some(PhaseOutcome::Measured(round)) if round.ops > 0 => Some(round.seconds / round.ops as f64),
        _ => None,
    };
    let phases = plan.phases.iter().filter(|phase| phase.plain_load().is_some() && !phase.cache.is_cold());
    let both = phases.filter_map(|phase| Some((op_seconds(before, phase)?, op_seconds(after, phase)?)));
    let (before, after) = both.fold((0.0, 0.0), |sums, pair| (sums.0 + pair.0, sums.1 + pair.1));
    if after < before * SLOWS_MIN || before <= 0.0 {
        return 0.0;
    }
    (1.0 - before / after) / (more - fewer) as f64
}

/// Returns the short lengths of phases in the pilot itself.
pub fn pilot_lengths(plan: &Plan, blobs: &[(u64, CorpusId)]) -> Fixed {
    let choice = BudgetParameters {
        corpus_share: 1.0,
        read_seconds: 0.02,
        read_ops: OPS_MIN,
        cold_ops: OPS_MIN,
        rounds: 0,
    };
    let mut fixed = fixed_for(plan, blobs, choice);
    for (key, length) in &mut fixed.lengths {
        let phase = plan.phases.iter().find(|phase| key.split('@').next() == Some(phase.id.as_str()));
        if let Some(phase) = phase {
            *length = work::for_phase(phase).pilot_length(*length);
        }
        length.seconds = length.seconds.min(0.02);
    }
    fixed
}

/// Duration of a read phase without a budget. The figures of a debug build are of no use, as its warning says: it reads no longer
/// than it must, unless it waits meanwhile: for ops that come due, other clients, or memory that the kernel reclaims.
fn full_read_seconds(plan: &Plan) -> f64 {
    let is_waiting = |phase: &Phase| phase.memory.is_some() || phase.climbs();
    let waits = plan.rate.is_some() || plan.clients > 1 || plan.phases.iter().any(is_waiting);
    if cfg!(debug_assertions) && !waits { READ_SECONDS_MIN } else { READ_SECONDS }
}

/// Returns the lengths of a run without a pilot.
pub fn full_lengths(plan: &Plan, blobs: &[(u64, CorpusId)]) -> Fixed {
    let scaled_ops = ((OPS_MIN as f64 * plan.scale.min(1.0)) as u64).max(8);
    // A preview shows the shape of a plan and decides nothing.
    let (read_seconds_min, read_ops) =
        if plan.is_preview() { (0.0, scaled_ops) } else { (READ_SECONDS_MIN, OPS_MIN) };
    // A growth has a budget and no pilot; it goes on while there is time.
    let rounds = if plan.budget.is_some() { ROUNDS_FEW } else { ROUNDS_WANTED };
    let choice = BudgetParameters {
        corpus_share: 1.0,
        read_seconds: (full_read_seconds(plan) * plan.scale.min(1.0)).max(read_seconds_min),
        read_ops,
        cold_ops: scaled_ops,
        rounds: plan.rounds.unwrap_or(rounds),
    };
    let mut fixed = fixed_for(plan, blobs, choice);
    begin(plan, blobs, &[], &mut fixed);
    fixed.rounds_final = plan.rounds.is_some();
    fixed
}

/// Returns the lengths that fit into `seconds`, given the pilot's runs of every candidate on every corpus; with a warning if the
/// corpus, the rounds or cold phases had to be cut.
pub fn fitting_lengths(
    plan: &Plan,
    blobs: &[(u64, CorpusId)],
    keeps_figures: &dyn Fn(f64) -> bool,
    visits: &Visits<'_>,
    seconds: f64,
) -> (Fixed, Option<Warning>) {
    let wanted = plan.rounds.unwrap_or(ROUNDS_WANTED);
    let hoped = plan.rounds.unwrap_or(ROUNDS_HOPED);
    let short = shortest(plan);
    let first = BudgetParameters { read_seconds: READ_SECONDS, rounds: hoped, ..short };
    let mut choices = vec![first];
    for read_seconds in [0.35, 0.25, 0.18, 0.13, READ_SECONDS_MIN] {
        choices.push(BudgetParameters { read_seconds, ..first });
    }
    choices.push(short);
    choices.extend(shrunk(plan, blobs, keeps_figures, short));
    let cost = |choice: &BudgetParameters| run_seconds(plan, blobs, visits, *choice);
    let chosen =
        choices.iter().find(|choice| cost(choice) <= seconds).or(choices.last()).copied().unwrap_or(first);
    let rounds_cut = (chosen.rounds < wanted).then(|| DroppedRounds {
        wanted,
        made: chosen.rounds,
        wanted_seconds: cost(&BudgetParameters { rounds: wanted, ..chosen }),
        size_stands: stands(plan),
    });
    let visits = &visits.candidates;
    let mut fixed = fixed_for(plan, &shares(blobs, chosen.corpus_share), chosen);
    begin(plan, blobs, visits, &mut fixed);
    fixed.rounds = chosen.rounds.min(wanted);
    fixed.rounds_final = plan.rounds.is_some();
    let corpus_share = (chosen.corpus_share < 1.0).then_some(chosen.corpus_share);
    let cold_is_short = chosen.cold_ops < OPS_MIN;
    let gave = corpus_share.is_some() || rounds_cut.is_some() || cold_is_short;
    let slowest = slowest(plan, blobs, visits, &fixed);
    let warning = Warning::Budget { corpus_share, rounds: rounds_cut, cold_is_short, slowest };
    (fixed, gave.then_some(warning))
}

/// Returns the choices to try in order if even the shortest reads take too long: fewer blobs while every phase keeps its figures,
/// fewer cold ops, a few rounds less; then still fewer blobs, and finally the fewest rounds.
fn shrunk(
    plan: &Plan,
    blobs: &[(u64, CorpusId)],
    keeps_figures: &dyn Fn(f64) -> bool,
    short: BudgetParameters,
) -> Vec<BudgetParameters> {
    let smallest = blobs.iter().map(|(blobs, _)| *blobs).min().unwrap_or(1).max(1);
    // The default size of a sample of large files may have fewer than `BLOBS_MIN`.
    let of_default = plan.corpora.iter().map(|corpus| corpus.default_share).fold(1.0, f64::min);
    let blobs_min = (BLOBS_MIN as f64).min(smallest as f64 * of_default);
    // A batch cannot be split.
    let least = (blobs_min * 1.25).max(plan.largest_batch() as f64 / CUT);
    let kept_share = kept_share(plan);
    let cuts: Vec<f64> = std::iter::successors(Some(1.0), |share| Some(share * CUT))
        .take_while(|share| share / CUT * smallest as f64 > least && *share >= kept_share)
        .skip(1)
        .collect();
    let (keeping, beyond): (Vec<f64>, Vec<f64>) = cuts.into_iter().partition(|share| keeps_figures(*share));
    let mut choices: Vec<BudgetParameters> =
        keeping.iter().map(|share| BudgetParameters { corpus_share: *share, ..short }).collect();
    let kept = choices.last().copied().unwrap_or(short);
    choices.extend([OPS_MIN / 2, OPS_MIN / 8].map(|cold_ops| BudgetParameters { cold_ops, ..kept }));
    let cold = BudgetParameters { cold_ops: OPS_MIN / 8, ..kept };
    let few = ROUNDS_FEW.min(short.rounds);
    choices.extend((few..short.rounds).rev().map(|rounds| BudgetParameters { rounds, ..cold }));
    choices.extend(beyond.iter().map(|share| BudgetParameters { corpus_share: *share, rounds: few, ..cold }));
    let last = BudgetParameters { corpus_share: beyond.last().copied().unwrap_or(kept.corpus_share), ..cold };
    choices.extend((ROUNDS_MIN..few).rev().map(|rounds| BudgetParameters { rounds, ..last }));
    choices
}

/// True if every phase keeps its figures with a share of the corpora: enough ops to be ranked by their number, if it had them
/// before, and no memory limit so low that candidates get stuck. Instead of that number of ops, five rounds of the
/// default size are enough for a sample that was given more: a rank without them would make no verdict.
pub fn keeps_figures(plan: &Plan, corpora: &[Corpus], share: f64) -> bool {
    corpora.iter().zip(&plan.corpora).all(|(corpus, planned)| {
        let part = part_of(corpus.blobs(), share);
        let bytes: u64 = corpus.sizes.iter().take(part as usize).map(|size| u64::from(*size)).sum();
        let stays_held = |phase: &Phase| {
            let limit = |bytes: u64| plan.memory_of(phase, bytes).filter(|limit| *limit >= MEMORY_MIN);
            limit(corpus.bytes()).is_none_or(|whole| limit(bytes) >= Some(whole.min(MEMORY_KEPT)))
        };
        let by_rounds =
            share >= planned.default_share && plan.rounds.unwrap_or(ROUNDS_WANTED) >= VERDICT_ROUNDS;
        (part >= OPS_MIN || corpus.blobs() < OPS_MIN || by_rounds)
            && plan.phases_of(planned.corpus_id).all(stays_held)
    })
}

/// The share of the corpora that no budget may cut.
fn kept_share(plan: &Plan) -> f64 {
    plan.corpora.iter().map(|corpus| corpus.kept_share).fold(0.0, f64::max)
}

/// True if the corpora must keep the size that the user asked for.
fn stands(plan: &Plan) -> bool {
    kept_share(plan) >= 1.0
}

/// All rounds of the whole corpora, with the shortest reads.
fn shortest(plan: &Plan) -> BudgetParameters {
    BudgetParameters {
        corpus_share: 1.0,
        read_seconds: READ_SECONDS_MIN,
        read_ops: OPS_MIN,
        cold_ops: OPS_MIN,
        rounds: plan.rounds.unwrap_or(ROUNDS_WANTED),
    }
}

/// Returns the fewest rounds that a run must have and the rounds that are wanted, each with their seconds after the pilot,
/// including the harness's own runs. The fewest are with as little of the corpora as the plan allows, the wanted ones with all of
/// it.
pub fn needed(
    plan: &Plan,
    blobs: &[(u64, CorpusId)],
    keeps_figures: &dyn Fn(f64) -> bool,
    visits: &Visits<'_>,
) -> [(u32, f64); 2] {
    let all = shortest(plan);
    let least = shrunk(plan, blobs, keeps_figures, all).last().copied().unwrap_or(all);
    [least, all].map(|choice| (choice.rounds, run_seconds(plan, blobs, visits, choice)))
}

/// Returns a note on what will be too short to be ranked and what would be enough, as far as that can be predicted before round
/// 1. `files` is the number of files in a user's directory.
pub fn foreseen(
    plan: &Plan,
    blobs: &[(u64, CorpusId)],
    visits: &[PilotOutcome<'_>],
    fixed: &Fixed,
    files: Option<u64>,
) -> Option<String> {
    // Nothing of a preview is quoted.
    if plan.is_preview() {
        return None;
    }
    let (mut list, mut blobs_wanted) = (Vec::new(), 0);
    for (corpus, (blobs, corpus_id)) in blobs.iter().enumerate() {
        let of_corpus: Vec<_> = visits.iter().filter(|pilot| pilot.corpus == corpus).collect();
        let phases = plan.phases_of(*corpus_id).filter(|phase| phase.plain_load().is_some());
        for phase in phases.filter(|phase| !phase.only_prepares()) {
            let Some(length) = fixed.lengths.get(&corpus_id.key(&phase.id)) else { continue };
            let Some(candidates) = too_short_for(phase, length, fixed.rounds, &of_corpus) else { continue };
            list.push(format!("{} ({candidates})", phase.id));
            blobs_wanted = blobs_wanted.max((blobs * OPS_MIN).div_ceil(length.ops.max(1)));
        }
    }
    list.dedup();
    if list.is_empty() {
        return None;
    }
    let mut enough = Vec::new();
    if fixed.rounds < VERDICT_ROUNDS {
        enough.push(format!(
            "{VERDICT_ROUNDS} rounds of {LEAST_SECONDS} s or more (`--rounds {VERDICT_ROUNDS}`)"
        ));
    }
    match (blobs, files.filter(|files| *files < blobs_wanted)) {
        (_, Some(_)) => {}
        ([_], None) => enough.push(format!("{blobs_wanted} blobs (`--blobs {blobs_wanted}`)")),
        (_, None) => enough.push(format!("{OPS_MIN} ops (more blobs for each size)")),
    }
    let way_out = if enough.is_empty() {
        "the directory has too few files".to_owned()
    } else {
        format!("enough would be {}", enough.join(" or "))
    };
    Some(format!("too short to be ranked: {}; {way_out}", list.join(", ")))
}

/// Names the candidates for which a phase will be too short; `None` if it is long enough.
fn too_short_for(
    phase: &Phase,
    length: &FixedLength,
    rounds: u32,
    visits: &[&PilotOutcome<'_>],
) -> Option<String> {
    let is_enough =
        |seconds: f64| is_long_enough(length.ops as f64, seconds.max(length.seconds), u64::from(rounds));
    if visits.is_empty() {
        // Durations are unknown, and five rounds are enough for all but the shortest.
        let ops = units::counted(length.ops, "op");
        return (rounds < VERDICT_ROUNDS && !is_enough(0.0))
            .then(|| format!("candidates that need less than {SHORT_SECONDS} s for {ops}"));
    }
    let short = visits.iter().filter(|pilot| !pilot.candidate.is_baseline()).filter(|pilot| {
        let Some(PhaseOutcome::Measured(round)) = pilot.outcome.phases.get(&phase.id) else { return false };
        let per_op = round.settled_seconds.unwrap_or(round.seconds) / round.ops.max(1) as f64;
        !is_enough(per_op * length.ops as f64)
    });
    let labels: Vec<&str> = short.map(|pilot| pilot.candidate.label.as_str()).collect();
    (!labels.is_empty()).then(|| labels.join(", "))
}

/// Sets the first offered rates, which are the same for every candidate, from the closed loops of the pilot.
fn begin(plan: &Plan, blobs: &[(u64, CorpusId)], visits: &[PilotOutcome<'_>], fixed: &mut Fixed) {
    for phase in &plan.phases {
        for (corpus, (_, corpus_id)) in blobs.iter().enumerate() {
            let of_corpus = visits.iter().filter(|pilot| pilot.corpus == corpus);
            let mut closed = of_corpus.filter_map(|pilot| match pilot.outcome.phases.get(&phase.id) {
                Some(PhaseOutcome::Measured(round)) => Some(round.acknowledged_per_s()),
                _ => None,
            });
            if let Some(length) = fixed.lengths.get_mut(&corpus_id.key(&phase.id)) {
                length.first_ops_per_s = work::for_phase(phase).first_ops_per_s(plan, &mut closed);
            }
        }
    }
}

fn shares(blobs: &[(u64, CorpusId)], share: f64) -> Vec<(u64, CorpusId)> {
    blobs.iter().map(|(blobs, sweep)| (part_of(*blobs, share), *sweep)).collect()
}

/// Returns the first `share` of each corpus.
pub fn cut(corpora: &[Corpus], share: f64) -> Vec<Corpus> {
    corpora.iter().map(|corpus| corpus.part(part_of(corpus.blobs(), share))).collect()
}

fn part_of(blobs: u64, share: f64) -> u64 {
    ((blobs as f64 * share).round() as u64).clamp(1, blobs.max(1))
}

fn fixed_for(plan: &Plan, blobs: &[(u64, CorpusId)], choice: BudgetParameters) -> Fixed {
    let mut lengths = BTreeMap::new();
    for (blobs, corpus_id) in blobs {
        for phase in plan.phases_of(*corpus_id) {
            let blobs = phase.grown_to.unwrap_or(*blobs);
            let asked = LengthInputs { plan, blobs, choice, earlier: &lengths, corpus_id: *corpus_id };
            let length = work::for_phase(phase).length(&asked, phase);
            lengths.insert(corpus_id.key(&phase.id), length);
        }
    }
    Fixed { rounds: choice.rounds, rounds_final: false, corpus_share: choice.corpus_share, lengths }
}

/// The results of the pilot.
#[derive(Default)]
pub struct Visits<'a> {
    /// Runs of the null store, one per corpus.
    pub null: Vec<PilotOutcome<'a>>,
    /// Runs of the candidates, one per candidate and corpus.
    pub candidates: Vec<PilotOutcome<'a>>,
}

/// Seconds of one run, or of several, in the first round and in each later one, which does not age again what is aged once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RoundSeconds {
    /// In the first round.
    pub first: f64,
    /// In each later round.
    pub later: f64,
}

impl RoundSeconds {
    /// Seconds of this many rounds.
    pub fn of_rounds(self, rounds: u32) -> f64 {
        self.first * f64::from(rounds.min(1)) + self.later * f64::from(rounds.saturating_sub(1))
    }
}

impl std::iter::Sum for RoundSeconds {
    fn sum<I: Iterator<Item = RoundSeconds>>(all: I) -> RoundSeconds {
        all.fold(RoundSeconds::default(), |sum, one| RoundSeconds {
            first: sum.first + one.first,
            later: sum.later + one.later,
        })
    }
}

/// Estimates the seconds of all rounds, and of the harness's own runs before them.
fn run_seconds(plan: &Plan, blobs: &[(u64, CorpusId)], visits: &Visits<'_>, choice: BudgetParameters) -> f64 {
    let of_harness =
        BudgetParameters { read_seconds: choice.read_seconds.min(HARNESS_SECONDS_MAX), ..choice };
    let round = |visits: &[PilotOutcome<'_>], choice: BudgetParameters| -> RoundSeconds {
        let fixed = fixed_for(plan, &shares(blobs, choice.corpus_share), choice);
        visits_seconds(plan, blobs, visits, &fixed).map(|(_, seconds)| seconds).sum()
    };
    let misses = if choice.rounds <= ROUNDS_MIN { MISSES } else { 1.0 };
    round(&visits.candidates, choice).of_rounds(choice.rounds) * misses
        + round(&visits.null, of_harness).of_rounds(HARNESS_VISITS)
}

/// Estimates the seconds of each candidate run in rounds, with its run in the pilot, which keeps no images; `blobs` are those of
/// the whole corpora.
pub fn visits_seconds<'a>(
    plan: &Plan,
    blobs: &[(u64, CorpusId)],
    visits: &'a [PilotOutcome<'a>],
    fixed: &'a Fixed,
) -> impl Iterator<Item = (&'a PilotOutcome<'a>, RoundSeconds)> {
    visits.iter().map(move |pilot| {
        let (all, corpus_id) = blobs[pilot.corpus];
        let blobs = part_of(all, fixed.corpus_share) as f64;
        let growth = blobs / pilot.blobs.max(1) as f64;
        let slower = 1.0 + pilot.slows_by * (blobs - pilot.blobs as f64).max(0.0);
        let [all, ageing] =
            visit_seconds(plan, fixed, pilot, growth, corpus_id).map(|seconds| seconds * slower);
        // Before a fill the disk is renewed, and in its place each image that was kept is put back.
        let (kept, image) = (images_kept(plan, pilot.candidate), pilot.image_seconds.unwrap_or(0.0));
        let first = all + (1 + kept) as f64 * image;
        let later = if kept > 0 { first - image - ageing } else { first };
        (pilot, RoundSeconds { first, later })
    })
}

/// Returns the candidate that takes more of an average round than all others together, with its share. `None` unless at least two
/// others could be compared without it.
fn slowest(
    plan: &Plan,
    blobs: &[(u64, CorpusId)],
    visits: &[PilotOutcome<'_>],
    fixed: &Fixed,
) -> Option<(String, f64)> {
    let mut of_each = BTreeMap::<&str, f64>::new();
    for (pilot, seconds) in visits_seconds(plan, blobs, visits, fixed) {
        *of_each.entry(&pilot.candidate.label).or_default() += seconds.of_rounds(fixed.rounds);
    }
    let all: f64 = of_each.values().sum();
    let (label, most) = of_each.iter().max_by(|one, other| one.1.total_cmp(other.1))?;
    let share = most / all;
    (of_each.len() > 2 && share > 0.5).then(|| ((*label).to_owned(), share))
}

/// Estimates the seconds of a candidate run that fills and ages a store, and of its fill and ageing alone. Anything outside of
/// phases, and anything in a phase besides its ops, is assumed to grow with the corpus, but not to shrink with it.
fn visit_seconds(
    plan: &Plan,
    fixed: &Fixed,
    pilot: &PilotOutcome<'_>,
    growth: f64,
    corpus_id: CorpusId,
) -> [f64; 2] {
    let visit = &pilot.outcome;
    let mut ageing = 0.0;
    let mut total = (visit.seconds - visit.wall_seconds.values().sum::<f64>()).max(0.0) * growth.max(1.0);
    for phase in &plan.phases {
        let (Some(outcome), Some(wall)) = (visit.phases.get(&phase.id), visit.wall_seconds.get(&phase.id))
        else {
            continue;
        };
        let Some(length) = fixed.lengths.get(&corpus_id.key(&phase.id)).copied() else { continue };
        let seconds = match outcome {
            PhaseOutcome::Measured(round) => {
                let forecast = Forecast { plan, phase, pilot, round, wall: *wall, growth, length };
                work::for_phase(phase).seconds(&forecast)
            }
            PhaseOutcome::Found(_) => work::for_phase(phase).seconds_to_find(*wall),
            PhaseOutcome::NotPossible(_) => continue,
        };
        total += seconds;
        if changes_the_image(phase) {
            ageing += seconds;
        }
    }
    [total, ageing]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::work::resolved;
    use crate::store::Options;

    #[test]
    fn cold_phases_have_ten_passes_of_at_most_two_per_cent() {
        let again = "stores = ['files/flat']\nphases = ['fill', 'read-cold', 'read-again']";
        let fixed = full_lengths(&resolved(again), &[(400, CorpusId::ONLY)]);
        let cold = fixed.lengths["read-cold"];
        assert_eq!((cold.ops, cold.cold_passes), (200, 25));
        assert_eq!(fixed.lengths["read-again"].ops, 200);
        let many = full_lengths(&resolved("stores = ['files/flat']"), &[(100_000, CorpusId::ONLY)]);
        assert_eq!(many.lengths["read-cold"].cold_passes, 10);
    }

    #[test]
    fn short_reads_are_repeated_until_they_can_be_ranked_but_not_for_a_preview() {
        let reads = |scale: f64| {
            let plan = resolved(&format!("stores = ['files/flat']\nscale = {scale}\nrounds = 2"));
            let length = full_lengths(&plan, &[(8, CorpusId::ONLY)]).lengths["read-warm"];
            (length.passes, length.seconds)
        };
        let full = full_read_seconds(&resolved("stores = ['files/flat']"));
        let expected = [(25, full), (25, READ_SECONDS_MIN), (1, full * 0.01)];
        assert_eq!([reads(1.0), reads(0.1), reads(0.01)], expected);
        let open =
            resolved("stores = ['files/flat']\nscale = 0.01\nrate = 100.0\nphases = ['fill', 'read-warm']");
        assert_eq!(
            full_lengths(&open, &[(8, CorpusId::ONLY)]).lengths["read-warm"].seconds,
            READ_SECONDS_MIN
        );
    }

    #[test]
    fn a_corpus_that_was_asked_for_stands_and_rounds_are_cut_or_the_budget_is_too_small() {
        let plan = resolved("stores = ['files/flat']\n[corpus]\nblobs = 1000");
        let blobs = [(1000, CorpusId::ONLY)];
        let visits = only(&plan, 1000, visit_of(&plan, 1000, 1.0));
        let (fixed, why) = fitting_lengths(&plan, &blobs, &|_| true, &visits, 40.0);
        assert!(fixed.corpus_share == 1.0 && fixed.rounds < 5, "{fixed:?}");
        let Some(Warning::Budget { rounds: Some(cut), corpus_share: None, .. }) = why else {
            panic!("{why:?}")
        };
        assert!(cut.size_stands && cut.wanted == 5 && cut.wanted_seconds > 40.0, "{cut:?}");
        let [(least, short), (wanted, long)] = needed(&plan, &blobs, &|_| true, &visits);
        assert!((least, wanted) == (2, 5) && 5.0 < short && short < 40.0 && short < long, "{short} {long}");
    }

    #[test]
    fn the_least_that_a_run_needs_is_of_as_little_as_its_plan_allows_and_counts_the_harness() {
        let blobs = [(1000, CorpusId::ONLY)];
        let needs = |more: &str, null_seconds: Option<f64>| {
            let plan = resolved(&format!("stores = ['files/flat']\n{more}"));
            let mut visits = only(&plan, 1000, visit_of(&plan, 1000, 1.0));
            if let Some(seconds) = null_seconds {
                visits.null = only(&plan, 1000, visit_of(&plan, 1000, seconds)).candidates;
            }
            needed(&plan, &blobs, &|_| true, &visits)
        };
        let [least, all] = needs("", None);
        let [of_asked, all_of_asked] = needs("[corpus]\nblobs = 1000", None);
        assert_eq!((least.0, of_asked.0, all), (2, 2, all_of_asked));
        assert!(least.1 < of_asked.1, "a corpus that nobody asked for is cut: {least:?} {of_asked:?}");
        let [with_harness, _] = needs("", Some(1.0));
        assert!(with_harness.1 > least.1 * 1.5, "three visits more: {with_harness:?} {least:?}");
        // A budget that just fits is used, without a warning that it is exceeded.
        let plan = resolved("stores = ['files/flat']");
        let visits = only(&plan, 1000, visit_of(&plan, 1000, 1.0));
        let (fixed, _) = fitting_lengths(&plan, &blobs, &|_| true, &visits, least.1);
        assert_eq!(fixed.rounds, least.0);
    }

    #[test]
    fn what_is_aged_once_is_filled_and_aged_in_the_first_round_and_read_from_images_in_the_others() {
        let mut plan = resolved(
            "stores = ['files/hashed']\nage = '0,0.5,2'\nphases = ['fill', 'read-warm']\nrounds = 5",
        );
        let blobs = [(1000, CorpusId::ONLY)];
        let of = |plan: &Plan, image_seconds: Option<f64>| {
            let mut visits = only(plan, 1000, visit_of(plan, 1000, 1.0));
            visits.candidates[0].image_seconds = image_seconds;
            let fixed = fixed_for(plan, &blobs, shortest(plan));
            let of_round: RoundSeconds =
                visits_seconds(plan, &blobs, &visits.candidates, &fixed).map(|(_, seconds)| seconds).sum();
            (of_round, run_seconds(plan, &blobs, &visits, shortest(plan)))
        };
        let (here, all_here) = of(&plan, None);
        assert_eq!(here.first, here.later, "in a directory, each round ages a store of its own");
        let mut values = plan.candidates[0].options.values().clone();
        values.insert("on".to_owned(), "ext4".to_owned());
        plan.candidates[0].options = Options::new(values);
        // The disk is renewed, and three images of 0.5 s are kept, after the fill and at two ages, which took 1 s each.
        let (on_disk, all) = of(&plan, Some(0.5));
        let is_close = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(is_close(on_disk.first, here.first + 0.5 + 3.0 * 0.5), "{on_disk:?} {here:?}");
        assert!(is_close(on_disk.later, here.first - 3.0 * 1.0 + 3.0 * 0.5), "{on_disk:?} {here:?}");
        assert!(is_close(all, on_disk.first + 4.0 * on_disk.later) && all < all_here, "{all} {all_here}");
    }

    #[test]
    fn a_sweep_of_memory_keeps_the_corpus_that_its_smallest_share_needs() {
        let share = |sweep: &str| {
            let plan = resolved(&format!("stores = ['files/flat']\nmemory_sweep = '{sweep}'"));
            let visits = only(&plan, 8000, visit_of(&plan, 8000, 1000.0));
            let (fixed, _) = fitting_lengths(&plan, &[(8000, CorpusId::ONLY)], &|_| true, &visits, 20.0);
            (fixed.corpus_share, plan.corpora[0].kept_share)
        };
        let (cut, kept) = share("400%,10%");
        assert!(cut >= kept && kept > 0.5, "{cut} {kept}");
        let (cut, kept) = share("400%,100%");
        assert!(kept <= cut && cut * CUT < kept, "{cut} {kept}");
    }

    #[test]
    fn what_will_be_too_short_is_said_with_what_would_be_enough() {
        let said_of = |rounds: u32, blobs: u64, files: Option<u64>| {
            let text = format!("stores = ['files/flat']\nphases = ['fill', 'read-warm']\nrounds = {rounds}");
            let (plan, blobs) = (resolved(&text), [(blobs, CorpusId::ONLY)]);
            foreseen(&plan, &blobs, &[], &full_lengths(&plan, &blobs), files)
        };
        let said = |rounds, blobs| said_of(rounds, blobs, None);
        assert_eq!(
            said(3, 1).unwrap(),
            "too short to be ranked: fill (candidates that need less than 0.5 s for 1 op); enough would be 5 rounds of 0.01 s or more \
             (`--rounds 5`) or 200 blobs (`--blobs 200`)"
        );
        assert_eq!([said(5, 1), said(3, 200)], [None, None]);
        // A directory of 40 files has no 200 blobs.
        let of_few = said_of(3, 10, Some(40)).unwrap();
        assert!(of_few.ends_with("enough would be 5 rounds of 0.01 s or more (`--rounds 5`)"), "{of_few}");
    }

    #[test]
    fn the_pilot_foresees_which_candidates_are_too_short() {
        let plan = resolved("stores = ['files/flat']\nphases = ['fill']\nbudget = '1m'");
        let said = |seconds: f64| {
            let visits = only(&plan, 1, visit_of(&plan, 1, seconds));
            let (fixed, _) = fitting_lengths(&plan, &[(1, CorpusId::ONLY)], &|_| true, &visits, 60.0);
            foreseen(&plan, &[(1, CorpusId::ONLY)], &visits.candidates, &fixed, None)
        };
        assert_eq!(said(0.2), None);
        assert!(said(0.001).unwrap().starts_with("too short to be ranked: fill (files/flat); "));
    }

    /// A pilot of the first candidate only.
    fn only(plan: &Plan, blobs: u64, outcome: CandidateOutcome) -> Visits<'_> {
        let candidate = &plan.candidates[0];
        let candidates =
            vec![PilotOutcome { candidate, corpus: 0, blobs, slows_by: 0.0, image_seconds: None, outcome }];
        Visits { candidates, ..Visits::default() }
    }

    /// A candidate run of the pilot in which each phase did `ops` ops in `seconds`.
    fn visit_of(plan: &Plan, ops: u64, seconds: f64) -> CandidateOutcome {
        let mut phases = BTreeMap::new();
        let mut wall_seconds = BTreeMap::new();
        for phase in &plan.phases {
            let round = crate::result::Round { ops, seconds, passes: 10, ..Default::default() };
            phases.insert(phase.id.clone(), PhaseOutcome::Measured(Box::new(round)));
            wall_seconds.insert(phase.id.clone(), seconds);
        }
        let pass_seconds = BTreeMap::from([("read-cold".to_owned(), 0.02)]);
        CandidateOutcome { phases, wall_seconds, pass_seconds, seconds: 12.0, ..CandidateOutcome::default() }
    }

    #[test]
    fn who_takes_too_long_is_visited_with_few_blobs_that_tell_how_it_grows() {
        let plan =
            resolved("stores = ['files/flat', 'files/hashed', 'sqlite']\nphases = ['fill', 'read-warm']");
        assert_eq!(few_blobs(&plan, 400), Some([8, 25]));
        assert_eq!(few_blobs(&plan, 8), None);
        assert_eq!([165, 60].map(|budget| patience(Duration::from_secs(budget)).as_secs_f64()), [16.5, 10.0]);
        // Ops of 2 ms, and 1 ms more for every four blobs.
        let grown = |blobs: u64| visit_of(&plan, blobs, blobs as f64 * (0.002 + 0.00025 * blobs as f64));
        let slows = slows_by(&plan, [(8, &grown(8)), (24, &grown(24))]);
        let of_100 = 1.0 + slows * (100.0 - 24.0);
        assert!((of_100 - (0.002 + 0.025) / (0.002 + 0.006)).abs() < 1e-9, "{of_100}");
        // Ops that take equally long except for noise.
        let same = slows_by(&plan, [(8, &visit_of(&plan, 8, 0.08)), (24, &visit_of(&plan, 24, 0.28))]);
        assert_eq!(same, 0.0);

        let visits: Vec<PilotOutcome<'_>> = plan
            .candidates
            .iter()
            .enumerate()
            .map(|(index, candidate)| {
                let (slow, visit) =
                    (index == 1, if index == 1 { grown(24) } else { visit_of(&plan, 24, 0.024) });
                PilotOutcome {
                    candidate,
                    corpus: 0,
                    blobs: 24,
                    slows_by: if slow { slows } else { 0.0 },
                    image_seconds: None,
                    outcome: visit,
                }
            })
            .collect();
        let visits = Visits { candidates: visits, ..Visits::default() };
        let (_, why) = fitting_lengths(&plan, &[(400, CorpusId::ONLY)], &|_| true, &visits, 60.0);
        let Some(Warning::Budget { corpus_share: Some(_), slowest: Some((store, share)), .. }) = why else {
            panic!("{why:?}")
        };
        assert!(store == "files/hashed" && share > 0.5, "{store} {share}");
    }

    #[test]
    fn a_corpus_is_cut_to_where_phases_lose_their_figures_only_after_rounds_were() {
        let plan = resolved("stores = ['files/flat']");
        let short = BudgetParameters {
            corpus_share: 1.0,
            read_seconds: 0.1,
            read_ops: 200,
            cold_ops: OPS_MIN,
            rounds: 5,
        };
        let blobs = [(1000, CorpusId::ONLY)];
        let given = |least: f64| {
            let choices = shrunk(&plan, &blobs, &|share| share >= least, short);
            choices
                .iter()
                .map(|of| ((of.corpus_share * 1000.0) as u64, of.cold_ops, of.rounds))
                .collect::<Vec<_>>()
        };
        let few = OPS_MIN / 8;
        let kept = [
            (750, OPS_MIN, 5),
            (562, OPS_MIN, 5),
            (562, OPS_MIN / 2, 5),
            (562, few, 5),
            (562, few, 4),
            (562, few, 3),
        ];
        let beyond = [
            (421, few, 3),
            (316, few, 3),
            (237, few, 3),
            (177, few, 3),
            (133, few, 3),
            (100, few, 3),
            (100, few, 2),
        ];
        assert_eq!(given(0.5), [kept.as_slice(), &beyond].concat());
        // Without such a bound, the corpus is cut first, as far as possible.
        assert_eq!(
            given(0.0)[7..],
            [
                (100, OPS_MIN, 5),
                (100, OPS_MIN / 2, 5),
                (100, few, 5),
                (100, few, 4),
                (100, few, 3),
                (100, few, 2)
            ]
        );
    }

    #[test]
    fn phases_keep_their_figures_while_they_have_enough_ops_and_memory() {
        let keeps = |more: &str, shares: [f64; 3]| {
            let plan = resolved(&format!("stores = ['files/flat']\nphases = ['fill', 'read-warm']\n{more}"));
            let corpora: Vec<Corpus> =
                plan.corpora.iter().map(|corpus| Corpus::build(&corpus.request).unwrap()).collect();
            shares.map(|share| keeps_figures(&plan, &corpora, share))
        };
        // Of 400 blobs, 200 are enough by their number.
        assert_eq!(keeps("", [1.0, 0.5, 0.49]), [true, true, false]);
        // 40 blobs are too few anyway, so their number does not matter.
        assert_eq!(keeps("[corpus]\nblobs = 40", [1.0, 0.5, 0.1]), [true, true, true]);
        // Of 29 MB, half of three quarters is enough for every candidate, and half of half is not.
        assert_eq!(keeps("memory = '50%'", [1.0, 0.75, 0.52]), [true, true, false]);
        // A quarter is little with the whole corpus, and gets no less.
        assert_eq!(keeps("memory = '25%'", [1.0, 0.99, 0.75]), [true, false, false]);
        // A limit that is already impossible with the whole corpus does not count.
        assert_eq!(keeps("memory = '1%'", [1.0, 0.75, 0.52]), [true, true, true]);
    }

    #[test]
    fn a_sample_that_grew_gives_that_back_before_it_loses_rounds() {
        let smallest = |rounds: &str| {
            let mut plan = resolved(&format!("stores = ['files/flat']\n{rounds}"));
            let corpora = [Corpus::build(&plan.corpora[0].request).unwrap().part(203)];
            plan.corpora[0].default_share = 0.4;
            let keeps = |share| keeps_figures(&plan, &corpora, share);
            let choices = shrunk(&plan, &[(203, CorpusId::ONLY)], &keeps, shortest(&plan));
            let whole = choices.iter().take_while(|choice| choice.cold_ops == OPS_MIN);
            whole.map(|choice| part_of(203, choice.corpus_share)).min()
        };
        // 81 blobs are the default size.
        assert_eq!(smallest(""), Some(86));
        // Fewer rounds rank nothing, and 200 ops do.
        assert_eq!(smallest("rounds = 3"), None);
    }

    #[test]
    fn what_does_not_fit_shrinks_reads_first_then_the_corpus_then_the_rounds() {
        let plan = resolved(
            "stores = ['files/flat']\nphases = ['fill', 'read-warm', 'read-copy', 'read-cold', 'read-again', 'range-head', \
             'range-random', 'overwrite', 'delete-half', 'reopen']",
        );
        let blobs = [(1000, CorpusId::ONLY)];
        let visits = only(&plan, 1000, visit_of(&plan, 1000, 1.0));
        let fit = |seconds| fitting_lengths(&plan, &blobs, &|_| true, &visits, seconds);
        assert_eq!(fit(1e6).0.corpus_share, 1.0);
        let (half, why) = fit(40.0);
        assert!(half.corpus_share < 1.0 && half.rounds == 5, "{half:?}");
        let is_cut = |share: f64| share == half.corpus_share;
        assert!(
            matches!(&why, Some(Warning::Budget { corpus_share: Some(share), .. }) if is_cut(*share)),
            "{why:?}"
        );
        let (least, why) = fit(1.0);
        assert_eq!(least.rounds, ROUNDS_MIN);
        assert!(matches!(&why, Some(Warning::Budget { rounds: Some(_), .. })), "{why:?}");
    }
}
