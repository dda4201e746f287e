//! The answer in sentences: only what is proved, the absolute difference beside every ratio, and what is not answered.

mod advice;
mod classes;
mod costs;
mod sizes;

use std::collections::BTreeMap;

pub use self::advice::{advice, has_few_rounds, rounds_to_decide};
pub use self::costs::costs;
use super::cells::{is_offered, op_ns, series, writes};
use super::compare::{Ranking, Series, rank, with_reference};
use super::ranking::{self, League};
use crate::plan::text::{Design, Does, MIX_PHASES, OpKind, Phase, part_of, whole_of};
use crate::result::{Cache, CandidateResult, Cell, Durability, Loss, Round, RunResult, Status, Verdict};
use crate::rules::{SMALL_NS, SMALL_SHARE, VERDICT_ROUNDS};
use crate::units;
use crate::words;

/// The sentences, in the order in which they are printed.
pub fn answer(plan: &Design, result: &RunResult) -> Vec<String> {
    if !result.complete && result.store_rounds.is_empty() {
        return vec![
            "Nothing was measured: the run was ended before it was through with its first candidate."
                .to_owned(),
        ];
    }
    if result.shows_pages() {
        return loads(plan, result);
    }
    let mut sentences = vec![context(plan, result)];
    sentences.extend(super::claims::in_a_hurry(result));
    if !plan.text.claim.is_empty() {
        // Its phases are the document's, not those that the questions of a reader are asked by.
        sentences.extend(left_out(result));
    } else if plan.corpora.len() > 1 {
        sentences.extend(sizes::by_size(plan, result));
    } else {
        // First what was asked, in its order; then what every run is asked.
        sentences.extend(sizes::by_memory(plan, result));
        sentences.extend(asked(plan, result).iter().map(|phase| question(plan, result, phase)));
        sentences.extend(standard(plan, result).iter().map(|usual| question(plan, result, usual)));
        sentences.push(disk(result));
        sentences.extend(mix(plan, result));
        sentences.extend(options(result));
        sentences.extend(left_out(result));
    }
    sentences.extend(super::findings::sentences(result));
    sentences.push(
        "Intervals cover repetition on this machine today, not other machines, corpora or versions."
            .to_owned(),
    );
    sentences
}

/// The phase whose ops are loads of pages.
const LOAD: &str = "load";

fn loads(plan: &Design, result: &RunResult) -> Vec<String> {
    let cells: Vec<&Cell> = result.results.iter().filter(|cell| cell.phase == LOAD).collect();
    let rounds = cells.iter().map(|cell| cell.rounds.len()).max().unwrap_or(0);
    let mut sentences = vec![format!(
        "On this machine, {}{}, each load in a fresh context of the browser:",
        units::counted(rounds, "round"),
        conditions(plan, result)
    )];
    for (name, members) in ranking::grouped(&cells) {
        let title = if name.is_empty() { "Loads".to_owned() } else { format!("Loads ({name})") };
        sentences.push(format!("{title}: {}", leaders(&members, "loads")));
    }
    if sentences.len() == 1 {
        let why = cells.iter().find_map(|cell| cell.not_ranked.as_ref().map(words::why));
        let why = why.as_deref().map_or("nothing was measured", words::in_a_line);
        sentences.push(format!("Loads: this run does not answer it: no candidate is ranked ({why})."));
    }
    sentences.extend(left_out(result));
    sentences.push(
        "Intervals cover repetition on this machine today, not other machines, browsers or networks."
            .to_owned(),
    );
    sentences
}

fn context(plan: &Design, result: &RunResult) -> String {
    let corpus = &result.corpus;
    let blobs = if plan.corpora.len() > 1 {
        format!("stores of {} sizes", result.corpora.len())
    } else {
        let median = units::bytes(corpus.quantiles.get("p50").copied().unwrap_or(0) as f64);
        let blobs = units::counted(corpus.blobs, "blob");
        let from = corpus.sampled_from.map(|(files, _)| format!(", a sample of {files} files"));
        let cut = corpus.cut.as_ref().map(|cut| format!("; {cut}"));
        let [from, cut] = [from, cut].map(Option::unwrap_or_default);
        format!("{blobs} of median {median} ({}{from}{cut})", units::bytes(corpus.bytes as f64))
    };
    let workers = units::counted(plan.workers, "worker");
    let workers = match plan.clients {
        1 => workers,
        clients => format!("{workers} in each of {clients} clients"),
    };
    let batch = if plan.batch > 1 { format!(", batches of {}", plan.batch) } else { String::new() };
    let rounds = result.results.iter().map(|cell| cell.rounds.len()).max().unwrap_or(0);
    let aged = plan.phases.iter().any(|phase| phase.deed().is_some_and(|deed| deed.ages));
    let fresh = if aged { "" } else { ", freshly filled" };
    // The class of what was written: where nothing but the fill writes, that of the fill.
    let is_of_run = |cell: &&Cell| writes(cell) && cell.own_durability.is_none();
    let written = result.results.iter().filter(is_of_run).map(|cell| cell.durability).max();
    let own = if result.results.iter().any(|cell| cell.own_durability.is_some()) {
        " or the candidate's own"
    } else {
        ""
    };
    let memory = memory(plan, result);
    format!(
        "On this machine and disk, {blobs}{memory}{fresh}, class {}{own}, {workers}{batch}{}, {}:",
        written.unwrap_or(plan.durability).name(),
        conditions(plan, result),
        units::counted(rounds, "round")
    )
}

/// How much of the blobs fits into the memory that a candidate had.
fn memory(plan: &Design, result: &RunResult) -> String {
    let (blobs, machine) = (result.corpus.bytes, result.machine.memory_bytes);
    match plan.memory {
        _ if plan.corpora.len() > 1 || blobs == 0 => String::new(),
        None if plan.text.memory_sweep.is_some() => {
            let shares: Vec<u64> = plan.memory_sweep(100_000).map(|(share, _)| share).collect();
            let percent = |share: Option<&u64>| units::count(share.map_or(0.0, |share| *share as f64 / 1e3));
            format!(
                ", memory for {} to {} % of them",
                percent(shares.iter().min()),
                percent(shares.iter().max())
            )
        }
        Some(memory) => {
            let bytes = memory.bytes(blobs);
            let share = units::count(100.0 * bytes as f64 / blobs as f64);
            format!(", memory for {share} % of them ({}) and no more", units::bytes(bytes as f64))
        }
        None if machine == 0 => String::new(),
        None if blobs <= machine / 2 => ", all of it fits into memory".to_owned(),
        None => format!(", {:.1} times the memory", blobs as f64 / machine as f64),
    }
}

/// Conditions of which nothing is said where they are as usual.
fn conditions(plan: &Design, result: &RunResult) -> String {
    let awake = plan.awake.then_some(", processors asked not to sleep");
    let apart = result.machine.pinned.as_ref().map(|sides| format!(", {} (processors)", sides.text()));
    awake.map(str::to_owned).into_iter().chain(apart).collect()
}

/// A question that a run is asked.
struct Question {
    title: String,
    /// The phases that answer it, the better one first.
    phases: Vec<String>,
    /// What the candidates do, in the third person.
    does: &'static str,
    /// Whether it is about writes, and so about a class.
    writes: bool,
    /// Whether it is one that every run is asked.
    is_usual: bool,
    /// What a column of it is called.
    short: String,
}

impl Question {
    fn usual([short, title]: [&str; 2], phases: &[&str], does: &'static str) -> Question {
        let phases = phases.iter().map(|phase| (*phase).to_owned()).collect();
        let (short, title) = (short.to_owned(), title.to_owned());
        Question { title, phases, does, writes: does == "writes", is_usual: true, short }
    }

    /// What a phase by itself is asked.
    fn of_phase(phase: &Phase) -> Question {
        let does = match &phase.does {
            Does::Deed(deed) => deed.verb,
            Does::Ops(load) | Does::Climbs(load) if load.only_reads() => "reads",
            Does::Ops(load) | Does::Climbs(load) => match load.mix.as_slice() {
                [(OpKind::Put | OpKind::Overwrite, _)] => "writes",
                [(OpKind::Delete, _)] => "deletes",
                _ => "works",
            },
        };
        let title = format!("`{}`", phase.id);
        let (phases, short) = (vec![phase.id.clone()], phase.id.clone());
        Question { title, phases, does, writes: phase.writes(), is_usual: false, short }
    }

    /// Whether it is about little memory.
    fn is_tight(&self) -> bool {
        [TIGHT, TIGHT_ZIPF].contains(&self.phases[0].as_str())
    }

    fn is_cold(&self) -> bool {
        self.is_usual && self.phases[0] == COLD
    }
}

const WARM: &str = "read-warm";
const COLD: &str = "read-cold";
const WRITE: &[&str] = &["overwrite", "fill"];
const TIGHT: &str = "read-tight";
const TIGHT_ZIPF: &str = "read-tight-zipf";

/// The questions that every run is asked, as far as they are about what its candidates do themselves and the plan does not ask
/// others.
fn standard(plan: &Design, result: &RunResult) -> Vec<Question> {
    let writes = if keeps_flushed(result) { "Durable writes" } else { "Writes" };
    let all = [
        Question::usual(["warm", "Warm reads"], &[WARM], "reads"),
        Question::usual(["tight", "Reads that do not fit (memory for 25 % of the data)"], &[TIGHT], "reads"),
        Question::usual(["hot", "The same memory, few blobs read most (zipfian)"], &[TIGHT_ZIPF], "reads"),
        Question::usual(["cold", "Cold reads"], &[COLD], "reads"),
        Question::usual(["write", writes], WRITE, "writes"),
    ];
    let has = |question: &Question| plan.phases.iter().any(|phase| question.phases.contains(&phase.id));
    // Memory can be limited on some machines only, and what is kept in memory always fits.
    let is_meant = |question: &Question| {
        // A sweep over memory has the reads that it is about.
        let is_general = plan.text.phase.is_empty() && plan.text.memory_sweep.is_none();
        let is_asked = is_general && !question.is_tight();
        (is_asked || has(question)) && is_of_subject(result, question.writes)
    };
    all.into_iter().filter(is_meant).collect()
}

/// Whether what is flushed is kept, as far as that is known.
fn keeps_flushed(result: &RunResult) -> bool {
    let is_open = |candidate: &CandidateResult| {
        candidate.promise.is_some_and(|promise| promise.loss.after_power_cut == Loss::NotKnown)
    };
    !result.machine.is_in_memory() && !result.candidates.iter().any(is_open)
}

/// A question for each phase of the plan's own and, where the phases were chosen, for each that no usual question is about.
fn asked(plan: &Design, result: &RunResult) -> Vec<Question> {
    let is_own = |phase: &Phase| plan.text.phase.iter().any(|own| own.id == whole_of(&phase.id));
    let has = |id: &str| plan.phases.iter().any(|phase| phase.id == id);
    let were_chosen = !(has(WARM) && has(COLD));
    let usual = [WARM, TIGHT, TIGHT_ZIPF, COLD, "overwrite", "fill"];
    let is_swept = |phase: &Phase| plan.memory_sweep(0).any(|(_, swept)| swept.id == phase.id);
    let is_usual = |phase: &Phase| usual.contains(&phase.id.as_str()) || is_swept(phase);
    // What is found is no rate: it has a sentence of its own.
    let is_found = |phase: &Phase| result.findings.iter().any(|finding| finding.phase == phase.id);
    let is_asked = |phase: &&Phase| {
        (is_own(phase) || were_chosen && !is_usual(phase))
            && !phase.only_prepares()
            && !is_found(phase)
            && !is_later_part(&phase.id)
            && is_of_subject(result, only_writes(phase))
    };
    plan.phases.iter().filter(is_asked).map(Question::of_phase).collect()
}

/// Whether a phase is not the first of those that a phase in parts is made of.
fn is_later_part(phase: &str) -> bool {
    part_of(phase).is_some_and(|(_, number)| number > 1)
}

fn only_writes(phase: &Phase) -> bool {
    match &phase.does {
        Does::Ops(load) | Does::Climbs(load) => load.mix.iter().all(|(kind, _)| !kind.reads()),
        Does::Deed(deed) => deed.writes,
    }
}

/// Whether what the answer is about does such work itself: what servers hand out is written to the store behind them.
fn is_of_subject(result: &RunResult, writes: bool) -> bool {
    !(writes && subject(result) == League::Delivery)
}

/// The cells of the first of its phases that a question is answered by.
fn cells_of<'r>(all: &'r [Cell], question: &Question) -> Option<Vec<&'r Cell>> {
    question.phases.iter().find_map(|phase| {
        let cells: Vec<&Cell> = all.iter().filter(|cell| cell.phase == *phase).collect();
        // Baselines do every phase, also one that is for candidates which are not here.
        cells.iter().any(|cell| !ranking::is_baseline(cell)).then_some(cells)
    })
}

fn question(plan: &Design, result: &RunResult, question: &Question) -> String {
    let Some(cells) = cells_of(&result.results, question) else {
        let phase = &question.phases[0];
        let is_planned = plan.phases.iter().any(|known| known.id == *phase);
        let why = match is_planned {
            true => format!("the phase `{phase}` was not measured"),
            false => format!("the phase `{phase}` was not part of it"),
        };
        return unanswered(question, &why, to_find_out(plan, result, question));
    };
    let of = |league: League| -> Vec<&Cell> {
        let is_of = |cell: &&Cell| !ranking::is_baseline(cell) && ranking::league(cell) == league;
        cells.iter().copied().filter(is_of).collect()
    };
    let subject = subject(result);
    let others: Vec<League> =
        [League::Caches, League::Techniques].into_iter().filter(|league| !of(*league).is_empty()).collect();
    let mut sentence = of_subject(question, &of(subject), &others);
    for league in [League::Delivery, League::Caches]
        .into_iter()
        .filter(|league| is_told(*league, subject, question.writes))
    {
        for (_, cells) in ranking::grouped(&of(league)) {
            let group = ranking::group_of(cells[0]);
            let (among, apart) = (league.name(), in_brackets(&group));
            sentence += &format!(" Among {among}{apart}: {}", leaders(&cells, question.does));
        }
    }
    sentence
}

/// Whether a league is told of beside the one that an answer is about. What servers hand out is written to the store behind them,
/// and a technique of ours is never told of: it would be taken for advice.
fn is_told(league: League, subject: League, writes: bool) -> bool {
    league != subject && league != League::Techniques && !(writes && league == League::Delivery)
}

/// Whether a cell is about what its candidate does itself, and not about the store behind it.
fn is_own_work(cell: &Cell) -> bool {
    !(writes(cell) && ranking::league(cell) == League::Delivery)
}

/// What is answered to a question about the candidates that the answer is about.
fn of_subject(question: &Question, cells: &[&Cell], others: &[League]) -> String {
    let ranked: Vec<&Cell> = cells.iter().copied().filter(|cell| cell.not_ranked.is_none()).collect();
    if ranked.is_empty() {
        let why = match cells.iter().find_map(|cell| cell.not_ranked.as_ref()) {
            Some(why) => format!("no candidate is ranked ({})", words::in_a_line(&words::why(why))),
            None => match others {
                [] => "nothing was measured".to_owned(),
                [League::Techniques] => "only a technique of ours was measured".to_owned(),
                [League::Caches, League::Techniques] => {
                    "only caches and a technique of ours were measured".to_owned()
                }
                _ => "only caches were measured".to_owned(),
            },
        };
        return unanswered(question, &why, None);
    }
    let mut parts = Vec::new();
    // The largest group first: it is the one with something to choose from.
    let groups = ranking::grouped(&ranked);
    for (index, (_, cells)) in groups.iter().enumerate() {
        let group = ranking::group_of(cells[0]);
        parts.push(match (index, cells.as_slice()) {
            (0, cells) => leaders(cells, question.does),
            (_, [one]) => {
                let time = units::nanoseconds(op_ns(one).unwrap_or(0.0));
                format!("Not comparable with them: `{}`, {time}{}.", one.store, in_brackets(&group))
            }
            (_, cells) => {
                format!("Not comparable with them{}: {}", in_brackets(&group), leaders(cells, question.does))
            }
        });
    }
    let title = titled(question, groups.first().map(|(_, cells)| cells[0]));
    format!("{title}: {}{}", parts.join(" "), unranked(cells, question.is_tight()))
}

/// What a question is called by what was done: whether it was cold, in which class, at which rate.
fn titled(question: &Question, first: Option<&Cell>) -> String {
    let title = match first.map(|cell| cell.cache) {
        Some(Cache::Lukewarm) if question.is_usual => "Lukewarm reads".to_owned(),
        Some(Cache::Lukewarm) => format!("{} (lukewarm)", question.title),
        _ => question.title.clone(),
    };
    let offered = first.filter(|cell| is_offered(cell)).and_then(|cell| cell.offered_ops_per_s);
    // The fill has a class of its own, which is not always the one that was asked for.
    let class = first.map(|cell| cell.durability).filter(|_| question.writes);
    let (title, class) = match class {
        None => (title, String::new()),
        Some(class) if !question.is_usual => (title, format!(" (class {})", class.name())),
        Some(Durability::None) => ("Writes that nothing made durable".to_owned(), " (none)".to_owned()),
        // Syncs come between responses, and are in none of them.
        Some(Durability::OnSync) if offered.is_some() => {
            ("Writes before their sync".to_owned(), " (on-sync)".to_owned())
        }
        Some(class) => (title, format!(" ({})", class.name())),
    };
    let rate = offered.map_or(String::new(), |rate| format!(" at {} ops/s offered", units::count(rate)));
    format!("{title}{class}{rate}")
}

/// Candidates that are not ranked where others are: their figures may look better than those of the leaders. `all`: also those that
/// have none, where that they could not do it is what was asked.
fn unranked(cells: &[&Cell], all: bool) -> String {
    let silent = cells
        .iter()
        .filter(|cell| all || !cell.rounds.is_empty())
        .filter_map(|cell| Some((brief(cell)?, cell.store.clone())));
    with_reasons(silent).map_or(String::new(), |list| format!(" Not ranked in it: {list}."))
}

/// Why a cell is not ranked, without its figures: those stand beside the cell.
fn brief(cell: &Cell) -> Option<String> {
    cell.not_ranked.as_ref().map(|why| words::of_reason(why).brief())
}

/// Candidates by what is said of them, in the order in which that comes first; `None` without any.
pub fn with_reasons(candidates: impl Iterator<Item = (String, String)>) -> Option<String> {
    let list: Vec<String> = units::grouped(candidates)
        .iter()
        .map(|(why, candidates)| format!("{} ({why})", names(candidates)))
        .collect();
    (!list.is_empty()).then(|| list.join("; "))
}

/// What candidates have in common, behind a sentence's words; nothing where it needs no words.
fn in_brackets(group: &str) -> String {
    if group.is_empty() { String::new() } else { format!(" ({group})") }
}

/// Why a question stays open, and the command that answers it, where there is one.
fn unanswered(question: &Question, why: &str, command: Option<String>) -> String {
    let help = command.map_or(String::new(), |command| format!("; to find out: `{command}`"));
    format!("{}: this run does not answer it: {why}{help}.", question.title)
}

/// The command that measures the phase of a question with the same files and stores; none where no candidate could do it.
fn to_find_out(plan: &Design, result: &RunResult, question: &Question) -> Option<String> {
    let can = |candidate: &CandidateResult| !question.is_cold() || candidate.made_cold.is_some();
    let can_be = eligible(result).into_iter().any(can);
    // Phases of the plan's own may be needed by what it says of them.
    if !can_be || !question.is_usual || !plan.text.phase.is_empty() {
        return None;
    }
    // A mix needs its phases; otherwise only what fills the stores goes before.
    let needed = |phase: &&Phase| phase.is_fill() || !plan.mix.is_empty();
    let before = plan.phases.iter().filter(needed).map(|phase| phase.id.as_str());
    let phases: Vec<&str> = before.chain([question.phases[0].as_str()]).collect();
    let scale = if plan.scale < 1.0 { " --scale 1" } else { "" };
    Some(format!("blobwise run DIR/plan.toml --phases {}{scale}", phases.join(",")))
}

fn leaders(cells: &[&Cell], does: &str) -> String {
    let candidates: Vec<Series> = cells.iter().map(|cell| series(cell)).collect();
    let Some(ranking) = rank(&candidates) else { return "nothing was measured.".to_owned() };
    // What was offered the same rate is told apart by how soon it answers, and nobody is faster than what was asked for.
    let offered = cells.iter().any(|cell| is_offered(cell));
    let (does, fast, each) =
        if offered { ("answers", "soon", "a response") } else { (does, "fast", "an op") };
    let cell = |label: &str| cells.iter().find(|cell| cell.store == label).copied();
    let time = |label: &str| cell(label).and_then(op_ns).unwrap_or(0.0);
    if cells.len() == 1 {
        return format!(
            "`{}` is the only candidate that can be compared ({}).",
            ranking.best,
            units::nanoseconds(time(&ranking.best))
        );
    }
    let rounds = cells.iter().map(|cell| cell.rounds.len() as u32).min().unwrap_or(0);
    if rounds < VERDICT_ROUNDS {
        let mut labels: Vec<&str> = cells.iter().map(|cell| cell.store.as_str()).collect();
        labels.sort_by(|a, b| time(a).total_cmp(&time(b)));
        let times: Vec<String> =
            labels.iter().map(|label| format!("`{label}` {}", units::nanoseconds(time(label)))).collect();
        return format!(
            "{} are too few to tell ({} {each}); to find out: `--rounds {VERDICT_ROUNDS}`.",
            units::counted(rounds as usize, "round"),
            times.join(", ")
        );
    }
    let mut rest: Vec<&str> = ranking
        .ratios
        .keys()
        .map(String::as_str)
        .filter(|label| !ranking.leaders.iter().any(|l| l == label))
        .collect();
    rest.sort_by(|a, b| time(a).total_cmp(&time(b)));
    match (ranking.leaders.as_slice(), rest.first()) {
        ([alone], Some(next)) => one_leader(&ranking, [alone, next], [does, fast], &time),
        (several, next) => {
            let mut sentence = format!("{} {}", names(several), together(&ranking));
            let times: Vec<String> = several.iter().map(|label| units::nanoseconds(time(label))).collect();
            sentence += &format!(" ({} {each})", times.join(", "));
            if let Some(next) = next.filter(|next| ranking.ratios.contains_key(**next)) {
                sentence += &format!("; next is `{next}` ({})", units::nanoseconds(time(next)));
            }
            sentence += ".";
            sentence + &differences(cells, several)
        }
    }
}

/// What several leaders have in common.
fn together(ranking: &Ranking) -> &'static str {
    let mut others = ranking.leaders.iter().filter(|leader| **leader != ranking.best);
    match others.clone().filter(|leader| is_equal(ranking, leader)).count() {
        0 => "cannot be told apart",
        equal if equal == others.clone().count() => "are equal within 3 %",
        _ if others.any(|leader| is_proved_slower(ranking, leader)) => "lead together",
        _ => "cannot be told apart",
    }
}

/// Whether it leads all the same, because it is slower by next to nothing.
fn is_proved_slower(ranking: &Ranking, label: &str) -> bool {
    ranking.ratios.get(label).is_some_and(|(ratio, _)| ratio.high.is_some_and(|high| high < 1.0))
}

fn is_equal(ranking: &Ranking, label: &str) -> bool {
    ranking.ratios.get(label).is_some_and(|(_, verdict)| *verdict == Verdict::Equal)
}

fn one_leader(
    ranking: &Ranking,
    [alone, next]: [&str; 2],
    [does, fast]: [&str; 2],
    time: &dyn Fn(&str) -> f64,
) -> String {
    let (short, long) = (time(alone), time(next));
    let against = format!("({} against {})", units::nanoseconds(short), units::nanoseconds(long));
    let high = ranking.ratios.get(next).and_then(|(ratio, _)| ratio.high).unwrap_or(1.0);
    // Down, or it would be more than what is proved.
    let at_least = (100.0 / high).floor() / 100.0;
    if at_least < 1.0 + SMALL_SHARE && long - short < SMALL_NS {
        return format!("`{alone}` {does} {fast}er than `{next}`, by too little to decide by {against}.");
    }
    let faster = if at_least > 1.0 {
        format!("at least {at_least:.2} times as {fast} as")
    } else {
        format!("{fast}er than")
    };
    format!("`{alone}` {does} {faster} `{next}` {against}, the next of {}.", ranking.ratios.len() + 1)
}

/// What tells apart candidates that are equally fast: processor time, where that is proved.
fn differences(cells: &[&Cell], several: &[String]) -> String {
    if several.len() < 2 {
        return String::new();
    }
    let cells: Vec<&Cell> = cells.iter().copied().filter(|cell| several.contains(&cell.store)).collect();
    let candidate = |cell: &&Cell| Series {
        label: cell.store.clone(),
        rates: cell.rounds.iter().filter_map(ops_per_cpu).collect(),
        slack: 0.0,
    };
    // The processors of a server of the user's are elsewhere, or not only its own.
    if cells.iter().any(|cell| cell.traits.is_external) {
        return String::new();
    }
    let candidates: Vec<Series> = cells.iter().map(candidate).collect();
    let is_known =
        candidates.iter().zip(&cells).all(|(candidate, cell)| candidate.rates.len() == cell.rounds.len());
    match rank(&candidates) {
        Some(ranking) if is_known && ranking.leaders.len() == 1 => {
            format!(" Of these, `{}` needs least processor time.", ranking.leaders[0])
        }
        _ => String::new(),
    }
}

/// Ops that a round did for each nanosecond of processor time, that of servers and browsers included; with its number.
fn ops_per_cpu(round: &Round) -> Option<(u32, f64)> {
    let spent = round.total_cpu_ns.filter(|ns| *ns > 0)?;
    Some((round.round, round.ops as f64 / spent as f64))
}

/// `a`, `b` and `c`.
fn names(labels: &[String]) -> String {
    units::listed(&labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>(), "and")
}

/// The league that the answer is about: places where files may live or, in a run without any, servers that hand them out.
fn subject(result: &RunResult) -> League {
    let has = |league: League| result.candidates_here().any(|candidate| is_of(candidate, league));
    if has(League::Delivery) && !has(League::Direct) { League::Delivery } else { League::Direct }
}

/// Baselines belong to no league.
fn is_of(candidate: &CandidateResult, league: League) -> bool {
    !candidate.is_baseline() && League::of(candidate.kind) == league
}

/// The candidates that the answer is about.
fn eligible(result: &RunResult) -> Vec<&CandidateResult> {
    let subject = subject(result);
    result.candidates_here().filter(|candidate| is_of(candidate, subject)).collect()
}

/// Their labels.
fn eligible_labels(result: &RunResult) -> Vec<&str> {
    eligible(result).into_iter().map(|candidate| candidate.store.as_str()).collect()
}

fn disk(result: &RunResult) -> String {
    let taken = taken(result);
    let (Some(least), Some(most)) = (taken.first(), taken.last()) else {
        return format!("Disk: this run does not answer it: {}.", why_no_disk(result));
    };
    let logical = units::bytes(result.corpus.bytes as f64);
    let leasts: Vec<&Taken> =
        taken.iter().filter(|candidate| candidate.per_byte <= least.per_byte * (1.0 + SMALL_SHARE)).collect();
    let candidates: Vec<String> = leasts.iter().map(|candidate| format!("`{}`", candidate.store)).collect();
    let mut figures: Vec<String> =
        leasts.iter().map(|candidate| format!("{:.2}", candidate.per_byte)).collect();
    figures.dedup();
    let verb = if candidates.len() == 1 { "takes" } else { "take" };
    let empty = leasts.iter().map(|candidate| candidate.empty).fold(0.0, f64::max);
    let mut sentence = format!(
        "Disk: {} {verb} least, {} bytes for each of the {logical}{}",
        units::listed(&candidates, "and"),
        units::listed(&figures, "and"),
        taken_empty(empty)
    );
    if most.per_byte > least.per_byte * (1.0 + SMALL_SHARE) {
        sentence += &format!("; `{}` takes most, {:.2}{}", most.store, most.per_byte, most.not_growing());
    }
    sentence + "."
}

/// What a candidate's blobs take on disk.
struct Taken<'r> {
    store: &'r str,
    /// Bytes for each byte of blobs.
    per_byte: f64,
    /// Those of them that the empty store took already.
    empty: f64,
    /// Bytes that it grows by for each byte of blobs, without logs.
    grows: Option<f64>,
}

impl Taken<'_> {
    /// How much of it does not grow with the blobs, where that is worth words.
    fn not_growing(&self) -> String {
        match self.grows {
            Some(grows) if self.per_byte - grows >= WORDS_FROM => {
                format!(" (it grows by {grows:.2} for each byte; the rest is the empty store and logs)")
            }
            _ => taken_empty(self.empty),
        }
    }
}

/// The candidates that the answer is about and whose disk can be looked at, the least first.
fn taken(result: &RunResult) -> Vec<Taken<'_>> {
    // A server of the user's tells the sizes of its blobs, or the memory that they take, and not what is allocated.
    let can_be_seen =
        |candidate: &&CandidateResult| !candidate.traits.is_external && candidate.status != Status::Failed;
    let seen = eligible(result).into_iter().filter(can_be_seen);
    let eligible: Vec<&str> = seen.map(|candidate| candidate.store.as_str()).collect();
    let mut taken: Vec<Taken<'_>> = result
        .footprints
        .iter()
        .filter(|footprint| eligible.contains(&footprint.store.as_str()))
        .filter_map(|footprint| {
            let logical = footprint.logical_bytes.max(1) as f64;
            let empty = footprint.empty_bytes.unwrap_or(0) as f64 / logical;
            let (per_byte, grows) = (footprint.space_amplification?, footprint.grows_per_byte);
            Some(Taken { store: &footprint.store, per_byte, empty, grows })
        })
        .collect();
    taken.sort_by(|a, b| a.per_byte.total_cmp(&b.per_byte));
    taken
}

/// Why nothing is said of disk, though a table of the report may have figures.
fn why_no_disk(result: &RunResult) -> &'static str {
    let has_figure = |label: &str| {
        let of_candidate = result.footprints.iter().filter(|footprint| footprint.store == label);
        of_candidate.filter_map(|footprint| footprint.space_amplification).next().is_some()
    };
    let measured =
        |candidate: &&CandidateResult| has_figure(&candidate.store) && candidate.status != Status::Failed;
    if eligible(result).iter().any(|candidate| measured(candidate) && candidate.traits.is_external) {
        return "a server of yours says what stands in the table, and its disk cannot be looked at";
    }
    let is_no_choice = |candidate: &CandidateResult| !League::of(candidate.kind).is_choice();
    match result.candidates_here().filter(measured).any(is_no_choice) {
        true => "only stores that are no places for files were measured",
        false => "no store that keeps files on disk was measured",
    }
}

/// Less than this of a byte is not worth words.
const WORDS_FROM: f64 = 0.05;

/// What is taken before anything is put, such as a log of a fixed size, is no price of a blob.
fn taken_empty(share: f64) -> String {
    if share < WORDS_FROM { String::new() } else { format!(" ({share:.2} of them by the empty store)") }
}

/// The cost of 1,000 ops of the mix, per round from settled times, compared like any rate.
fn mix(plan: &Design, result: &RunResult) -> Option<String> {
    if plan.mix.is_empty() {
        return None;
    }
    let shares: Vec<String> =
        plan.mix.iter().map(|(kind, share)| format!("{:.0} % {kind}", share * 100.0)).collect();
    let title = format!("1,000 ops of {}", shares.join(", "));
    let groups = mixed(plan, result);
    if groups.is_empty() {
        return Some(format!(
            "{title}: this run does not answer it: no candidate is ranked in every phase of the mix."
        ));
    }
    let told = groups.iter().enumerate().map(|(index, (group, candidates))| match index {
        0 => cheapest(candidates, "is the only candidate that can be compared"),
        _ => format!("Not comparable with them{}: {}", in_brackets(group), cheapest(candidates, "by itself")),
    });
    Some(format!("{title}: {}", told.collect::<Vec<String>>().join(" ")))
}

/// Which candidates of one group do a mix fastest. `alone` is said where it has one.
fn cheapest(candidates: &[Series], alone: &str) -> String {
    let cost = |candidate: &Series| {
        let mean = candidate.rates.values().map(|rate| 1e9 / rate).sum::<f64>()
            / candidate.rates.len().max(1) as f64;
        units::nanoseconds(mean)
    };
    match (candidates, rank(candidates)) {
        ([], _) | (_, None) => "nothing was measured.".to_owned(),
        ([only], _) => format!("`{}` {alone} ({}).", only.label, cost(only)),
        (_, Some(ranking)) => {
            let leads = |label: &String| candidates.iter().find(|candidate| candidate.label == *label);
            let costs: Vec<String> = ranking.leaders.iter().filter_map(leads).map(cost).collect();
            let verb = if ranking.leaders.len() == 1 { "is fastest" } else { together(&ranking) };
            format!("{} {verb} ({}).", names(&ranking.leaders), costs.join(", "))
        }
    }
}

/// Mixed ops a second of each candidate that is ranked in every phase of the mix, by what they may be compared with, the largest
/// group first.
fn mixed(plan: &Design, result: &RunResult) -> Vec<(String, Vec<Series>)> {
    let mut groups: Vec<(String, Vec<Series>)> = Vec::new();
    for candidate in eligible(result) {
        let mut cost: BTreeMap<u32, f64> = BTreeMap::new();
        let mut conditions: Vec<String> = Vec::new();
        let complete = plan.mix.iter().all(|(kind, share)| {
            let phase = MIX_PHASES.iter().find(|(known, _)| known == kind).map_or("", |(_, phase)| phase);
            let cell =
                result.results.iter().find(|cell| cell.store == candidate.store && cell.phase == phase);
            let Some(cell) = cell.filter(|cell| cell.not_ranked.is_none()) else { return false };
            let condition = ranking::group_of(cell);
            if !condition.is_empty() && !conditions.contains(&condition) {
                conditions.push(condition);
            }
            for (round, rate) in series(cell).rates {
                *cost.entry(round).or_insert(0.0) += share * 1000.0 / rate;
            }
            true
        });
        if complete {
            let rates = cost.into_iter().map(|(round, seconds)| (round, 1.0 / seconds)).collect();
            let (group, series) =
                (conditions.join("; "), Series { label: candidate.store.clone(), rates, slack: 0.0 });
            match groups.iter_mut().find(|(known, _)| *known == group) {
                Some((_, members)) => members.push(series),
                None => groups.push((group, vec![series])),
            }
        }
    }
    groups.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
    groups
}

/// Which candidates are beaten everywhere by another, and which are left to choose from.
fn options(result: &RunResult) -> Option<String> {
    let candidates = eligible_labels(result);
    if candidates.len() < 3 {
        return None;
    }
    let mut beaten: Vec<String> = Vec::new();
    let mut left: Vec<String> = Vec::new();
    for candidate in &candidates {
        match beaten_by(result, candidate) {
            Some(by) => beaten.push(format!("`{candidate}` (by `{by}`)")),
            None => left.push((*candidate).to_owned()),
        }
    }
    if beaten.is_empty() {
        let depends = candidates
            .iter()
            .any(|candidate| candidates.iter().any(|other| each_wins(result, candidate, other)));
        return depends.then(|| {
            "No candidate is beaten everywhere by another: which one is best depends on what you do most."
                .to_owned()
        });
    }
    Some(format!(
        "Worse in one phase and no better in any other: {}. That leaves {}.",
        beaten.join(", "),
        names(&left)
    ))
}

/// A candidate that is faster than this one in one phase, and equal or faster in every other.
pub fn beaten_by<'r>(result: &'r RunResult, candidate: &str) -> Option<&'r str> {
    let beats = |other: &&str| *other != candidate && dominates(result, other, candidate);
    eligible_labels(result).into_iter().find(beats)
}

/// Whether each of two candidates is proved to be faster than the other in some phase.
fn each_wins(result: &RunResult, candidate: &str, other: &str) -> bool {
    let ranked = |label: &str| {
        let label = label.to_owned();
        let is_meant =
            move |cell: &&Cell| cell.store == label && cell.not_ranked.is_none() && is_own_work(cell);
        result.results.iter().filter(is_meant)
    };
    let verdicts: Vec<Verdict> = ranked(candidate)
        .filter_map(|own| {
            let same =
                |cell: &&Cell| cell.phase == own.phase && ranking::group_of(cell) == ranking::group_of(own);
            let others = ranked(other).find(same)?;
            with_reference(&series(own), &series(others)).map(|(_, verdict)| verdict)
        })
        .collect();
    verdicts.contains(&Verdict::Faster) && verdicts.contains(&Verdict::Slower)
}

/// Whether a candidate is faster than another in one phase and equal or faster in every phase the other was measured in. What was
/// measured and not ranked says neither.
fn dominates(result: &RunResult, candidate: &str, other: &str) -> bool {
    let cell = |label: &str, phase: &str| {
        result
            .results
            .iter()
            .find(|cell| cell.store == label && cell.phase == phase && cell.not_ranked.is_none())
    };
    let mut faster = false;
    let phases: std::collections::BTreeSet<&str> = result
        .results
        .iter()
        .filter(|cell| cell.store == other && !cell.rounds.is_empty() && is_own_work(cell))
        .map(|cell| cell.phase.as_str())
        .collect();
    for phase in &phases {
        let (Some(own), Some(others)) = (cell(candidate, phase), cell(other, phase)) else { return false };
        if ranking::group_of(own) != ranking::group_of(others) {
            return false;
        }
        match with_reference(&series(own), &series(others)).map(|(_, verdict)| verdict) {
            Some(Verdict::Faster) => faster = true,
            Some(Verdict::Equal) => {}
            _ => return false,
        }
    }
    faster && phases.len() > 1
}

/// Candidates that are not in the running, and why.
fn left_out(result: &RunResult) -> Option<String> {
    let subject = subject(result);
    let why = |candidate: &CandidateResult| match (&candidate.reason, League::of(candidate.kind)) {
        (Some(reason), _) => Some(words::in_a_line(reason).to_owned()),
        (None, League::Caches) => Some("a cache, not a place where files live".to_owned()),
        (None, League::Techniques) => Some("a technique of ours, which you cannot have".to_owned()),
        (None, league) if league != subject => Some("delivery of what another store keeps".to_owned()),
        (None, _) => {
            let cells = || result.results.iter().filter(|cell| cell.store == candidate.store);
            // Who is faster than the harness can tell is not ranked, and may be what to choose all the same.
            if cells().any(ranking::has_time) { None } else { cells().find_map(brief) }
        }
    };
    let candidates: Vec<(Option<String>, String)> = result
        .candidates
        .iter()
        .filter(|candidate| !candidate.is_baseline())
        .map(|candidate| (why(candidate), candidate.store.clone()))
        .collect();
    let list = match candidates.as_slice() {
        [(Some(why), _), _, _, ..] if candidates.iter().all(|(other, _)| other.as_ref() == Some(why)) => {
            Some(format!("every candidate ({why})"))
        }
        _ => with_reasons(candidates.into_iter().filter_map(|(why, candidate)| Some((why?, candidate)))),
    };
    list.map(|list| format!("Not in the running: {list}."))
}

#[cfg(test)]
mod tests;
