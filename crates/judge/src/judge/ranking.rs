//! Decides which cells are ranked, and which of them with each other.

use std::cmp::Ordering;
use std::fmt;

use super::cells::{device_bytes_per_byte, only_reads_a_log, op_ns, series, writes};
use super::compare::{rank, with_reference};
use super::{LEAST_SECONDS, SHORT_SECONDS, VERDICT_ROUNDS};
use crate::plan::text::{Design, class_wanted};
use crate::records::{RESIDENT_SHARE_OPENED_MAX, Records};
use crate::result::{Cache, CacheProof, Cell, Durability, Kind, Losses, Reason, RunResult, Status};
pub use crate::rules::HARNESS_SHARE_MAX;
use crate::rules::SHORT_OPS;
use crate::rules::{DEVICE_BYTES_PER_BYTE_MIN, MEMORY_OUTSIDE_MAX};

/// Returns a reason if the harness dominates a cell's op time.
pub fn mostly_harness(cell: &Cell) -> Option<Reason> {
    let share = cell.harness_share.filter(|share| *share > HARNESS_SHARE_MAX)?;
    Some(Reason::MostlyHarness { share })
}

/// Returns why a cell is not ranked; `None` if it is.
pub(super) fn not_ranked(plan: &Design, records: &Records, cell: &Cell) -> Option<Reason> {
    if cell.status != Status::Measured {
        return Reason::of_outcome(cell.status, cell.reason.clone().unwrap_or_default());
    }
    let phase = plan.phases.iter().find(|phase| phase.id == cell.phase)?;
    let wanted = class_wanted(cell.own_durability, phase.class, plan.durability);
    let may_lose = phase.writes() && !only_reads_a_log(cell);
    let weaker =
        (may_lose && cell.durability < wanted).then_some(Reason::WeakerClass { class: cell.durability });
    if is_baseline(cell) {
        return Some(Reason::Baseline);
    }
    // Caches are not expected to offer that class; those of each class are ranked separately.
    if weaker.is_some() && !is_cache(cell) {
        return weaker;
    }
    // Reasons that make a figure wrong come before those that make it imprecise.
    memory_outside(cell)
        .or_else(|| mostly_harness(cell))
        .or_else(|| client_is_the_limit(records, cell))
        .or_else(|| misses_its_cache(cell))
        .or_else(|| not_sustained(cell))
        .or_else(|| opened_warm(cell))
        .or_else(|| cut_short(plan, records, cell))
        .or_else(|| too_short([cell]))
        .or_else(|| (cell.rounds.len() < 2).then_some(Reason::OneRound))
        .or_else(|| resident(cell, largest_deflate_ratio(records)))
}

/// Returns the highest compression ratio of the corpora.
fn largest_deflate_ratio(records: &Records) -> f64 {
    records.corpora.iter().filter_map(|corpus| corpus.deflate_ratio).fold(1.0, f64::max)
}

/// Returns a reason if an open loop fell behind. The rungs of a ladder are judged one by one, by the requested limit.
fn not_sustained(cell: &Cell) -> Option<Reason> {
    let fell_behind = cell.rounds.iter().any(|round| round.open.as_ref().is_some_and(|open| !open.sustained));
    (!cell.is_ladder() && fell_behind).then_some(Reason::NotSustained)
}

/// Returns a reason if cells, taken together, are too short: too little time and too few ops to average over, and too
/// few rounds for their variance to show how much that matters. A limit of time alone would reverse the order, because
/// it would exclude the faster of two candidates doing the same work.
pub fn too_short<'c>(cells: impl IntoIterator<Item = &'c Cell>) -> Option<Reason> {
    let (mut ops, mut seconds, mut least) = (0.0, 0.0, usize::MAX);
    for cell in cells {
        let rounds = cell.rounds.len().max(1) as f64;
        ops += cell.ops as f64 / rounds;
        let settled = cell.rounds.iter().map(|round| round.settled_seconds.unwrap_or(round.seconds));
        seconds += settled.sum::<f64>() / rounds;
        least = least.min(cell.rounds.len());
    }
    (!is_long_enough(ops, seconds, least as u64))
        .then(|| Reason::TooShort { ops: ops.round() as u64, seconds })
}

/// True if these ops and seconds per round, in this number of rounds, suffice for a rank.
pub fn is_long_enough(ops: f64, seconds: f64, rounds: u64) -> bool {
    let by_rounds = rounds >= u64::from(VERDICT_ROUNDS) && seconds >= LEAST_SECONDS;
    ops >= SHORT_OPS as f64 || seconds >= SHORT_SECONDS || by_rounds
}

/// True if more time or more ops would make a cell ranked.
pub fn is_too_short(cell: &Cell) -> bool {
    cell.not_ranked.as_ref().is_some_and(Reason::is_too_short)
}

/// Unranks all candidates of a group in which one that is too short may be the fastest; otherwise a slower one would be
/// called the best for being slow.
pub(super) fn unrank_if_fastest_too_short(cells: &mut [Cell]) {
    // Although it did the same work as others.
    let is_shorter = |cell: &Cell| is_too_short(cell) && !is_cut_short(cell);
    let short: Vec<usize> = (0..cells.len()).filter(|index| is_shorter(&cells[*index])).collect();
    if short.is_empty() {
        return;
    }
    let mut withheld: Vec<(usize, Reason)> = Vec::new();
    for (index, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.not_ranked.is_none()) {
        let with_cell = |other: &Cell| {
            (other.phase == cell.phase && other.corpus_id == cell.corpus_id)
                && ranked_among(other) == ranked_among(cell)
        };
        let ranked: Vec<_> =
            cells.iter().filter(|other| other.not_ranked.is_none() && with_cell(other)).map(series).collect();
        let best =
            rank(&ranked).and_then(|ranking| ranked.iter().find(|candidate| candidate.label == ranking.best));
        let may_be_faster = |other: &&Cell| {
            let ratio = best.and_then(|best| with_reference(&series(other), best));
            with_cell(other) && !ratio.is_some_and(|(ratio, _)| ratio.high.is_some_and(|high| high < 1.0))
        };
        let faster: Vec<String> = short
            .iter()
            .map(|index| &cells[*index])
            .filter(may_be_faster)
            .map(|other| other.store.clone())
            .collect();
        if !faster.is_empty() {
            withheld.push((index, Reason::NoBest { faster }));
        }
    }
    withheld.into_iter().for_each(|(index, why)| cells[index].not_ranked = Some(why));
}

/// True if a cell is unranked only because of another one; it may still be compared with candidates that were measured.
pub fn is_withheld(cell: &Cell) -> bool {
    cell.not_ranked.as_ref().is_some_and(Reason::is_withheld)
}

/// Returns why a cell's figures say nothing about its candidate in any comparison: they are missing, or reflect a
/// failure, the harness, or too little time. `None` for a candidate that is unranked because of what it is, such as a
/// baseline; its figures are valid.
pub fn says_nothing(cell: &Cell) -> Option<Reason> {
    let is_weaker = matches!(cell.not_ranked, Some(Reason::WeakerClass { .. }));
    if cell.status == Status::Measured && is_baseline(cell) || is_weaker {
        return mostly_harness(cell).or_else(|| too_short([cell]));
    }
    cell.not_ranked.clone().filter(|_| !is_withheld(cell))
}

/// Returns a reason if a server read fewer keys cold than other candidates: rates over different keys cannot be
/// compared, however long they took.
fn cut_short(plan: &Design, records: &Records, cell: &Cell) -> Option<Reason> {
    let (done, planned) = cold_passes(plan, records, cell)?;
    (done < planned).then_some(Reason::CutShort { done, planned })
}

/// True if a cell is unranked for that reason.
pub fn is_cut_short(cell: &Cell) -> bool {
    matches!(cell.not_ranked, Some(Reason::CutShort { .. }))
}

/// Returns the passes of a cold phase that a cell's candidate does, and the planned ones.
fn cold_passes(plan: &Design, records: &Records, cell: &Cell) -> Option<(u32, u32)> {
    let cold = plan.cold_phase_of(&cell.phase, cell.corpus_id)?;
    let planned = records.fixed.lengths.get(&cell.corpus_id.key(&cold.id))?.cold_passes;
    let candidate =
        records.candidates.iter().find(|candidate| candidate.store == cell.store && candidate.is_here())?;
    Some((candidate.cold_passes(planned), planned))
}

/// True if two cells of a phase read the same keys.
pub(super) fn same_keys(plan: &Design, records: &Records, one: &Cell, other: &Cell) -> bool {
    cold_passes(plan, records, one) == cold_passes(plan, records, other)
}

/// Returns a reason if the client's CPUs were busy while the server's were idle; only for stores behind a server.
fn client_is_the_limit(records: &Records, cell: &Cell) -> Option<Reason> {
    /// Utilization above which the client's CPUs are busy.
    const BUSY: f64 = 0.9;
    /// Utilization below which the server's CPUs are idle.
    const IDLE: f64 = 0.5;
    let server_ns: f64 =
        cell.rounds.iter().map(|round| round.server_cpu_ns.map(|ns| ns as f64)).sum::<Option<f64>>()?;
    let client_ns: f64 = cell.rounds.iter().map(|round| round.worker_cpu_ns as f64).sum();
    let wall_ns: f64 = cell.rounds.iter().map(|round| round.seconds * 1e9).sum();
    let processors = records.machine.processors.max(1) as f64;
    let of_clients = processors.max(crate::result::processors(&records.clients) as f64);
    let client_share = client_ns / (wall_ns * of_clients.min(cell.workers as f64));
    let server_share = server_ns / (wall_ns * processors);
    (client_share > BUSY && server_share < IDLE).then_some(Reason::ClientBusy { client_share, server_share })
}

/// Returns a reason if a cache misses often, because its figure is then a mixture with the store behind it. Cold phases
/// are exempt, because misses are their purpose.
fn misses_its_cache(cell: &Cell) -> Option<Reason> {
    /// Largest share of misses. A miss may take ten times as long as a hit, so that one in a hundred changes the mean
    /// by a tenth.
    const MISSES: f64 = 0.01;
    let share = cell.counters.cache_misses as f64 / cell.ops.max(1) as f64;
    (cell.cache != Cache::Cold && share > MISSES).then_some(Reason::MissesItsCache { share })
}

/// Returns a reason if a candidate has too much memory outside its limit.
fn memory_outside(cell: &Cell) -> Option<Reason> {
    let of_rounds = cell.rounds.iter().filter_map(|round| round.memory);
    of_rounds.filter_map(|memory| Some((memory.outside_bytes, memory.limit_bytes?))).find_map(
        |(bytes, limit_bytes)| {
            let is_much = bytes as f64 > MEMORY_OUTSIDE_MAX * limit_bytes as f64;
            is_much.then_some(Reason::MemoryOutside { bytes, limit_bytes })
        },
    )
}

/// Returns a reason if a cold cell is not cold although everything was evicted, because the store read its data when it
/// was opened.
fn opened_warm(cell: &Cell) -> Option<Reason> {
    let proof = cell.cache_proof.as_ref().filter(|_| cell.cache == Cache::Cold)?;
    let share = proof.resident_share_opened.filter(|share| *share > RESIDENT_SHARE_OPENED_MAX)?;
    Some(Reason::OpenedWarm { share, open_seconds: proof.open_seconds })
}

/// Returns a reason if the device read too little for a cold cell.
fn resident(cell: &Cell, deflate_ratio: f64) -> Option<Reason> {
    // If keys are read more than once, as after a cold start, later reads hit what earlier ones cached.
    let once = |proof: &&CacheProof| cell.cache == Cache::Cold && !proof.device_bytes_per_byte.is_empty();
    let proof = cell.cache_proof.as_ref().filter(once)?;
    let bytes_per_byte = device_bytes_per_byte(cell)?;
    (bytes_per_byte < DEVICE_BYTES_PER_BYTE_MIN / deflate_ratio.max(1.0))
        .then_some(Reason::DeviceReadLittle { bytes_per_byte, open_seconds: proof.open_seconds })
}

/// Candidates that answer the same question and are therefore ranked with each other; in the order in which reports
/// list them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ComparisonGroup {
    /// Accessed by programs: places for files; in a run of pages, the pages.
    #[default]
    Direct,
    /// Servers that deliver another store's files, so that visitors wait for them.
    Delivery,
    /// Caches, which may lose data and are never a place for files.
    Caches,
    /// Experimental formats of this project. They show which techniques are worth copying, but are not available as
    /// products.
    Techniques,
}

impl ComparisonGroup {
    /// Returns the comparison group of a candidate of this kind.
    pub fn for_kind(kind: Option<Kind>) -> ComparisonGroup {
        match kind {
            Some(Kind::Web) => ComparisonGroup::Delivery,
            Some(Kind::Cache) => ComparisonGroup::Caches,
            Some(Kind::Technique) => ComparisonGroup::Techniques,
            Some(Kind::Baseline | Kind::Files | Kind::Embedded | Kind::Server | Kind::Page) | None => {
                ComparisonGroup::Direct
            }
        }
    }

    /// Returns the wording for its candidates; empty for the usual subject of a run.
    pub fn name(self) -> &'static str {
        match self {
            ComparisonGroup::Direct => "",
            ComparisonGroup::Delivery => "servers that deliver what another store keeps",
            ComparisonGroup::Caches => "caches, no places where files live",
            ComparisonGroup::Techniques => "experimental formats of blobwise: no answer recommends them",
        }
    }

    /// True if its candidates may be recommended, as a place for files or for delivering them.
    pub fn is_choice(self) -> bool {
        matches!(self, ComparisonGroup::Direct | ComparisonGroup::Delivery)
    }
}

/// Returns the comparison group of a cell's candidate.
pub fn comparison_group(cell: &Cell) -> ComparisonGroup {
    ComparisonGroup::for_kind(cell.kind)
}

/// True if a cell's candidate may be recommended.
pub fn is_choice(cell: &Cell) -> bool {
    comparison_group(cell).is_choice()
}

/// True if a cell belongs to an experimental technique of this project.
pub fn is_technique(cell: &Cell) -> bool {
    comparison_group(cell) == ComparisonGroup::Techniques
}

/// True if a cell belongs to a cache.
pub fn is_cache(cell: &Cell) -> bool {
    comparison_group(cell) == ComparisonGroup::Caches
}

/// What the figures of a phase must share to be compared. Equality decides; the wording only names it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparability(Vec<Condition>);

/// One condition of figures that may be compared.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum Condition {
    Group(ComparisonGroup),
    Class(Durability, Option<Losses>),
    KeptInClass(Durability),
    OneStoreForEachClient,
    OneTransaction,
    IntegerKeys,
    Shows(String),
    DistanceMs(f64),
    LukewarmFiles,
    Lukewarm,
}

impl fmt::Display for Condition {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Group(group) => text.write_str(group.name()),
            Condition::Class(class, losses) => {
                let (kill, power) =
                    losses.map_or(("", ""), |loss| (loss.after_kill.name(), loss.after_power_cut.name()));
                write!(text, "class {}, {kill} when killed, {power} after a power cut", class.name())
            }
            Condition::KeptInClass(class) => write!(text, "kept in class {}", class.name()),
            Condition::OneStoreForEachClient => text.write_str("one store for each client"),
            Condition::OneTransaction => text.write_str("all reads in one transaction"),
            Condition::IntegerKeys => text.write_str("integer keys"),
            Condition::Shows(what) => text.write_str(what),
            Condition::DistanceMs(ms) => write!(text, "{ms} ms a round trip"),
            Condition::LukewarmFiles => text.write_str("lukewarm files"),
            Condition::Lukewarm => text.write_str("lukewarm"),
        }
    }
}

impl Comparability {
    /// True if there is nothing that sets it apart.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Comparability {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str(&self.0.iter().map(Condition::to_string).collect::<Vec<_>>().join("; "))
    }
}

impl Eq for Comparability {}

impl PartialOrd for Comparability {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By wording, in which order results list groups.
impl Ord for Comparability {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_data = || self.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal);
        self.to_string().cmp(&other.to_string()).then_with(by_data)
    }
}

/// Returns what a cell shares with those that it is ranked with.
pub fn ranked_among(cell: &Cell) -> Comparability {
    let group = comparison_group(cell);
    let own = (group != ComparisonGroup::Direct).then_some(Condition::Group(group));
    Comparability(own.into_iter().chain(comparability(cell).0).collect())
}

/// Returns the conditions that make cells of a phase comparable, whatever their comparison group.
pub fn comparability(cell: &Cell) -> Comparability {
    let mut all = Vec::new();
    if writes(cell) {
        all.push(Condition::Class(cell.durability, cell.loss));
    } else {
        // The promise distinguishes the candidate, so its settings as shipped and its careful settings are ranked
        // separately in every phase.
        all.extend(cell.own_durability.map(Condition::KeptInClass));
    }
    // The summed rates of several stores are not the rate of a shared one.
    all.extend(cell.is_one_for_each_client.then_some(Condition::OneStoreForEachClient));
    all.extend(cell.one_transaction.then_some(Condition::OneTransaction));
    all.extend(cell.traits.integer_keys.then_some(Condition::IntegerKeys));
    all.extend(cell.traits.shows.clone().map(Condition::Shows));
    all.extend(cell.traits.distance_ms.map(Condition::DistanceMs));
    if cell.cache == Cache::Lukewarm {
        // This project's techniques store their data in files.
        let is_of_files = matches!(cell.kind, Some(Kind::Files | Kind::Technique));
        all.push(if is_of_files { Condition::LukewarmFiles } else { Condition::Lukewarm });
    }
    Comparability(all)
}

/// Groups the ranked cells of one phase: by comparison group, the largest group of each first, and the fastest cell first in each
/// group.
pub fn grouped<'c>(cells: &[&'c Cell]) -> Vec<(Comparability, Vec<&'c Cell>)> {
    let mut groups: Vec<(Comparability, Vec<&Cell>)> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.not_ranked.is_none()) {
        let name = ranked_among(cell);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, members)) => members.push(cell),
            None => groups.push((name, vec![cell])),
        }
    }
    groups.sort_by_key(|(_, members)| (comparison_group(members[0]), std::cmp::Reverse(members.len())));
    for (_, members) in &mut groups {
        members
            .sort_by(|a, b| op_ns(a).unwrap_or(f64::INFINITY).total_cmp(&op_ns(b).unwrap_or(f64::INFINITY)));
    }
    groups
}

/// True if a cell has no other to be compared with.
pub fn is_alone(result: &RunResult, cell: &Cell) -> bool {
    let same = |other: &&Cell| {
        other.phase == cell.phase
            && other.corpus_id == cell.corpus_id
            && other.not_ranked.is_none()
            && ranked_among(other) == ranked_among(cell)
    };
    result.results.iter().filter(same).count() == 1
}

/// True if a cell's time is comparable: it is ranked, or it is client-bound.
pub fn has_time(cell: &Cell) -> bool {
    cell.not_ranked.as_ref().is_none_or(Reason::is_bound)
}

/// True if a cell belongs to a baseline.
pub fn is_baseline(cell: &Cell) -> bool {
    cell.kind == Some(Kind::Baseline)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::judge::fixture::{cell, result};
    use crate::result::{Interval, Replayed, RoundMemory};
    use blobwise_engine::engine::work::resolved;

    /// Returns cells of one op per round, of candidates that take these seconds for it, ranked as in a run.
    fn ranked(candidates: &[(&str, f64)], rounds: usize) -> Vec<Cell> {
        let one = |(store, seconds): &(&str, f64)| {
            let times: Vec<f64> = (0..rounds).map(|round| seconds * [1.0, 1.04, 0.97][round % 3]).collect();
            let mut value = cell(store, "fill", &times, json!({"ops": rounds}));
            for round in value["rounds"].as_array_mut().unwrap() {
                round["ops"] = json!(1);
            }
            let mut cell: Cell = serde_json::from_value(value).unwrap();
            cell.not_ranked = too_short([&cell]);
            cell
        };
        let mut cells: Vec<Cell> = candidates.iter().map(one).collect();
        unrank_if_fastest_too_short(&mut cells);
        cells
    }

    fn reasons(cells: &[Cell]) -> Vec<Option<&Reason>> {
        cells.iter().map(|cell| cell.not_ranked.as_ref()).collect()
    }

    #[test]
    fn a_candidate_is_not_the_best_for_being_slow_enough() {
        // One blob of 100 MB: 5.4 and 1.2 per second.
        let candidates = [("files", 1.0 / 5.4), ("server", 1.0 / 1.2)];
        assert_eq!(reasons(&ranked(&candidates, 5)), [None, None]);
        let few = ranked(&candidates, 3);
        let is_short = |why: &Reason| matches!(why, Reason::TooShort { ops: 1, seconds } if *seconds < 0.19);
        assert!(reasons(&few)[0].is_some_and(is_short), "{:?}", reasons(&few));
        assert_eq!(reasons(&few)[1], Some(&Reason::NoBest { faster: vec!["files".to_owned()] }));
        // A claim on the slow one is tested nevertheless.
        assert_eq!(says_nothing(&few[1]), None);
    }

    #[test]
    fn a_figure_that_is_wrong_is_said_to_be_that_also_where_it_says_little() {
        let plan = resolved("stores = ['files/flat']");
        let mut cell: Cell =
            serde_json::from_value(cell("files/flat", "read-warm", &[1.0; 5], json!({"harness_share": 0.5})))
                .unwrap();
        let result = result("stores = ['files/flat']", Vec::new(), Vec::new());
        let why = |cell: &Cell| not_ranked(&plan, &Records::resume(result.clone()), cell);
        assert_eq!(why(&cell), Some(Reason::MostlyHarness { share: 0.5 }));
        cell.rounds[3].memory =
            Some(RoundMemory { limit_bytes: Some(1000), outside_bytes: 60, ..RoundMemory::default() });
        assert_eq!(why(&cell), Some(Reason::MemoryOutside { bytes: 60, limit_bytes: 1000 }));
    }

    #[test]
    fn a_weaker_class_is_ranked_where_a_log_only_reads() {
        let plan = resolved(
            "stores = ['files/flat']\ndurability = 'each-write'\nphases = ['fill', 'replay']\n[corpus]\ntrace = 'access.log'",
        );
        let result = result("stores = ['files/flat']", Vec::new(), Vec::new());
        let mut cell: Cell =
            serde_json::from_value(cell("files/flat", "replay", &[1.0; 5], json!({"durability": "none"})))
                .unwrap();
        cell.rounds[0].replayed = Some(Replayed::default());
        let is_weaker = |cell: &Cell| {
            let why = not_ranked(&plan, &Records::resume(result.clone()), cell);
            matches!(why, Some(Reason::WeakerClass { .. }))
        };
        assert!(!is_weaker(&cell));
        cell.settled_ops_per_s = Some(Interval::point(1_000.0));
        assert!(is_weaker(&cell));
    }

    /// They are ranked separately, but a claim on the value of packing compares them.
    #[test]
    fn a_technique_of_ours_is_as_lukewarm_as_files_are() {
        let [ours, files, database] = ["technique", "files", "embedded"].map(|kind| -> Cell {
            let lukewarm = json!({"kind": kind, "cache": "lukewarm"});
            serde_json::from_value(cell(kind, "read-cold", &[1.0; 5], lukewarm)).unwrap()
        });
        assert_eq!(comparability(&ours), comparability(&files));
        assert_ne!(comparability(&ours), comparability(&database));
        assert_ne!(ranked_among(&ours), ranked_among(&files));
    }

    #[test]
    fn what_is_short_and_proved_to_be_slower_takes_no_rank_from_others() {
        let mut candidates = ranked(&[("slow", 0.3)], 3);
        let many = cell("fast", "fill", &[0.2, 0.21, 0.2], json!({}));
        candidates.push(serde_json::from_value(many).unwrap());
        unrank_if_fastest_too_short(&mut candidates);
        assert!(
            is_too_short(&candidates[0]) && candidates[1].not_ranked.is_none(),
            "{:?}",
            reasons(&candidates)
        );
    }

    #[test]
    fn a_class_of_its_own_and_one_transaction_rank_apart_in_reads_too() {
        let of = |phase: &str, over: serde_json::Value| -> String {
            comparability(&serde_json::from_value(cell("a", phase, &[1.0], over)).unwrap()).to_string()
        };
        let settled = json!({"median": 1.0});
        assert_eq!(of("read-warm", json!({"durability": "each-write"})), "");
        let own = || json!({"durability": "each-write", "own_durability": "each-write"});
        assert_eq!(of("read-warm", own()), "kept in class each-write");
        assert_eq!(of("read-warm", json!({"one_transaction": true})), "all reads in one transaction");
        assert_eq!(of("read-warm", json!({"is_one_for_each_client": true})), "one store for each client");
        let mut written = own();
        written["settled_ops_per_s"] = settled.clone();
        let careful = of("fill", written);
        assert!(careful.starts_with("class each-write, "), "{careful}");
        assert_ne!(careful, of("fill", json!({"settled_ops_per_s": settled})));
    }

    #[test]
    fn what_is_over_before_it_began_is_short_however_many_rounds_there_are() {
        let cells = ranked(&[("quick", 0.005), ("slow", 0.6)], 12);
        assert!(is_too_short(&cells[0]) && is_withheld(&cells[1]), "{:?}", reasons(&cells));
    }
}
