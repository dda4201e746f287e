//! The answer in sentences: only proved statements, with the absolute difference next to every ratio, and the questions
//! that stay open.

mod advice;
mod classes;
mod costs;
mod growth;
mod sizes;

use std::collections::BTreeMap;

pub use self::advice::{advice, has_few_rounds, rounds_to_decide};
pub use self::costs::costs;
use super::cells::{is_offered, only_reads_a_log, op_ns, series, writes};
use super::compare::{Ranking, Series, rank, with_reference};
use super::ranking::{self, Comparability, ComparisonGroup};
use super::run_subject::{conditions, run_subject};
use crate::plan::text::{Action, Design, MIX_PHASES, OpKind, Phase, part_of, whole_of};
use crate::result::{
    Cache, CandidateResult, Cell, Durability, Loss, Reason, Round, RunResult, Status, Verdict, in_a_line,
};
use crate::rules::{SMALL_NS, SMALL_SHARE, VERDICT_ROUNDS};
use crate::units;

/// Returns the sentences of the answer in printing order.
pub fn answer(plan: &Design, result: &RunResult) -> Vec<String> {
    if !result.complete && result.store_rounds.is_empty() {
        return vec![
            "Nothing was measured: the run was ended before it was through with its first candidate."
                .to_owned(),
        ];
    }
    if result.shows_pages() {
        return loads(result);
    }
    let mut sentences = vec![context(result)];
    sentences.extend(super::claims::in_a_hurry(result));
    if !plan.text.claim.is_empty() {
        // The phases are those of the document, not those that readers' questions are about.
        sentences.extend(left_out(result));
    } else if plan.corpora.len() > 1 {
        sentences.extend(sizes::by_size(plan, result));
    } else if plan.text.has_steps() {
        sentences.extend(sizes::by_steps(plan, result));
        sentences.extend(growth::expected(result));
        sentences.extend(left_out(result));
    } else {
        // Questions of the plan come first, in its order, then those that every run answers.
        sentences.extend(sizes::by_memory(plan, result));
        sentences.extend(asked(plan, result).iter().map(|phase| question(plan, result, phase)));
        sentences.extend(standard(plan, result).iter().map(|usual| question(plan, result, usual)));
        sentences.push(disk(result));
        sentences.extend(mix(plan, result));
        sentences.extend(options(result));
        sentences.extend(growth::not_grown(result));
        sentences.extend(left_out(result));
    }
    sentences.extend(super::findings::sentences(result));
    sentences.push(
        "Intervals cover repetition on this machine today, not other machines, corpora or versions."
            .to_owned(),
    );
    sentences
}

/// Phase whose ops are page loads.
const LOAD: &str = "load";

fn loads(result: &RunResult) -> Vec<String> {
    let cells: Vec<&Cell> = result.results.iter().filter(|cell| cell.phase == LOAD).collect();
    let rounds = cells.iter().map(|cell| cell.rounds.len()).max().unwrap_or(0);
    let mut sentences = vec![format!(
        "On this machine, {}, each load in a fresh context of the browser:",
        std::iter::once(units::counted(rounds, "round"))
            .chain(conditions(result))
            .collect::<Vec<_>>()
            .join(", ")
    )];
    for (name, members) in ranking::grouped(&cells) {
        let title = if name.is_empty() { "Loads".to_owned() } else { format!("Loads ({name})") };
        sentences.push(format!("{title}: {}", leaders(&members, "loads")));
    }
    if sentences.len() == 1 {
        let why = cells.iter().find_map(|cell| cell.not_ranked.as_ref().map(Reason::to_string));
        let why = why.as_deref().map_or("nothing was measured", in_a_line);
        sentences.push(format!("Loads: this run does not answer it: no candidate is ranked ({why})."));
    }
    sentences.extend(left_out(result));
    sentences.push(
        "Intervals cover repetition on this machine today, not other machines, browsers or networks."
            .to_owned(),
    );
    sentences
}

/// Returns the subject of the run, with how the corpus was cut, which no first screen has room for.
fn context(result: &RunResult) -> String {
    let cut = result.corpus.cut.as_ref().filter(|_| result.corpora.len() <= 1);
    let cut = cut.map_or(String::new(), |cut| format!(" | {cut}"));
    format!("On this machine: {}{cut}.", run_subject(result))
}

/// Question that a run can answer.
struct Question {
    title: String,
    /// Phases that answer it, the best one first.
    phases: Vec<String>,
    /// What the candidates do, as a verb in the third person.
    does: &'static str,
    /// True if it is about writes, and so about a durability class.
    writes: bool,
    /// True if every run is asked this question.
    is_usual: bool,
    /// Short name, for a column heading.
    short: String,
}

impl Question {
    fn usual([short, title]: [&str; 2], phases: &[&str], does: &'static str) -> Question {
        let phases = phases.iter().map(|phase| (*phase).to_owned()).collect();
        let (short, title) = (short.to_owned(), title.to_owned());
        Question { title, phases, does, writes: does == "writes", is_usual: true, short }
    }

    /// Returns the question that a single phase answers.
    fn of_phase(phase: &Phase) -> Question {
        let does = match &phase.action {
            Action::Custom(action) => action.verb,
            Action::Ops(load) | Action::RateLadder(load) if load.only_reads() => "reads",
            Action::Ops(load) | Action::RateLadder(load) => match load.mix.as_slice() {
                [(OpKind::Put | OpKind::Overwrite, _)] => "writes",
                [(OpKind::Delete, _)] => "deletes",
                _ => "works",
            },
        };
        let title = format!("`{}`", phase.id);
        let (phases, short) = (vec![phase.id.clone()], phase.id.clone());
        Question { title, phases, does, writes: phase.writes(), is_usual: false, short }
    }

    /// True if it is about too little memory.
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

/// Returns the questions that every run is asked, without those about work that its candidates leave to another store,
/// and without those that the plan replaces by its own.
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
    // Memory can be limited on some machines only, and a corpus kept in memory always fits.
    let is_meant = |question: &Question| {
        // A memory sweep has its own reads with limited memory.
        let is_general = plan.text.phase.is_empty() && plan.text.memory_sweep.is_none();
        let is_asked = is_general && !question.is_tight();
        (is_asked || has(question)) && is_of_subject(result, question.writes)
    };
    all.into_iter().filter(is_meant).collect()
}

/// True if flushed data is durable, or at least nothing indicates otherwise.
fn keeps_flushed(result: &RunResult) -> bool {
    let is_open = |candidate: &CandidateResult| {
        candidate.promise.is_some_and(|promise| promise.loss.after_power_cut == Loss::NotKnown)
    };
    !result.machine.is_in_memory() && !result.candidates.iter().any(is_open)
}

/// Returns a question for each of the plan's own phases and, if phases were selected, for each one that no standard
/// question covers.
fn asked(plan: &Design, result: &RunResult) -> Vec<Question> {
    let is_own = |phase: &Phase| plan.text.phase.iter().any(|own| own.id == whole_of(&phase.id));
    let has = |id: &str| plan.phases.iter().any(|phase| phase.id == id);
    let were_chosen = !(has(WARM) && has(COLD));
    let usual = [WARM, TIGHT, TIGHT_ZIPF, COLD, "overwrite", "fill"];
    let is_swept = |phase: &Phase| plan.memory_sweep(0).any(|(_, swept)| swept.id == phase.id);
    let is_usual = |phase: &Phase| usual.contains(&phase.id.as_str()) || is_swept(phase);
    // A finding is not a rate; it gets a sentence of its own.
    let is_found = |phase: &Phase| result.findings.iter().any(|finding| finding.phase == phase.id);
    let is_asked = |phase: &&Phase| {
        (is_own(phase) || were_chosen && !is_usual(phase))
            && !phase.only_prepares()
            && !is_found(phase)
            && !is_later_part(&phase.id)
            && is_of_subject(result, only_writes(phase) && !reads_a_log(result, phase))
    };
    let question = |phase: &Phase| Question {
        writes: phase.writes() && !reads_a_log(result, phase),
        ..Question::of_phase(phase)
    };
    plan.phases.iter().filter(is_asked).map(question).collect()
}

/// True for the second and later parts of a split phase.
fn is_later_part(phase: &str) -> bool {
    part_of(phase).is_some_and(|(_, number)| number > 1)
}

/// True if a phase replayed a log that only reads.
fn reads_a_log(result: &RunResult, phase: &Phase) -> bool {
    result.results.iter().any(|cell| cell.phase == phase.id && only_reads_a_log(cell))
}

fn only_writes(phase: &Phase) -> bool {
    match &phase.action {
        Action::Ops(load) | Action::RateLadder(load) => load.mix.iter().all(|(kind, _)| !kind.reads()),
        Action::Custom(action) => action.writes,
    }
}

/// True if the candidates that the answer is about do such work themselves; servers that deliver another store's files
/// leave writes to that store.
fn is_of_subject(result: &RunResult, writes: bool) -> bool {
    !(writes && subject(result) == ComparisonGroup::Delivery)
}

/// Returns the cells of the first phase that can answer the question.
fn cells_of<'r>(all: &'r [Cell], question: &Question) -> Option<Vec<&'r Cell>> {
    question.phases.iter().find_map(|phase| {
        let cells: Vec<&Cell> = all.iter().filter(|cell| cell.phase == *phase).collect();
        // Baselines do every phase, even one for candidates that are not available here.
        cells.iter().any(|cell| !ranking::is_baseline(cell)).then_some(cells)
    })
}

fn question(plan: &Design, result: &RunResult, question: &Question) -> String {
    let Some(cells) = cells_of(&result.results, question) else {
        let phase = &question.phases[0];
        let is_planned = plan.phases.iter().any(|known| known.id == *phase);
        let is_measured = result.results.iter().any(|cell| cell.phase == *phase);
        let why = match (is_planned, is_measured) {
            (_, true) => "only baselines were measured".to_owned(),
            (true, _) => format!("the phase `{phase}` was not measured"),
            (false, _) => format!("the phase `{phase}` was not part of it"),
        };
        return unanswered(question, &why, to_find_out(plan, result, question));
    };
    let of = |comparison_group: ComparisonGroup| -> Vec<&Cell> {
        let is_of =
            |cell: &&Cell| !ranking::is_baseline(cell) && ranking::comparison_group(cell) == comparison_group;
        cells.iter().copied().filter(is_of).collect()
    };
    let subject = subject(result);
    let others: Vec<ComparisonGroup> = [ComparisonGroup::Caches, ComparisonGroup::Techniques]
        .into_iter()
        .filter(|comparison_group| !of(*comparison_group).is_empty())
        .collect();
    let mut sentence = of_subject(question, &of(subject), &others);
    for comparison_group in [ComparisonGroup::Delivery, ComparisonGroup::Caches]
        .into_iter()
        .filter(|comparison_group| is_told(*comparison_group, subject, question.writes))
    {
        for (_, cells) in ranking::grouped(&of(comparison_group)) {
            let group = [ranking::comparability(cells[0])];
            let (among, apart) = (comparison_group.name(), in_brackets(&group));
            sentence += &format!(" Among {among}{apart}: {}", leaders(&cells, question.does));
        }
    }
    sentence
}

/// True if a comparison group is mentioned next to the one that the answer is about. Writes of delivery servers go to the store
/// behind them, and a technique is never mentioned, because it would be taken for advice.
fn is_told(comparison_group: ComparisonGroup, subject: ComparisonGroup, writes: bool) -> bool {
    comparison_group != subject
        && comparison_group != ComparisonGroup::Techniques
        && !(writes && comparison_group == ComparisonGroup::Delivery)
}

/// True if a cell measures its candidate itself, and not the store behind it.
fn is_own_work(cell: &Cell) -> bool {
    !(writes(cell) && ranking::comparison_group(cell) == ComparisonGroup::Delivery)
}

/// Answers a question for the comparison group that the answer is about.
fn of_subject(question: &Question, cells: &[&Cell], others: &[ComparisonGroup]) -> String {
    let ranked: Vec<&Cell> = cells.iter().copied().filter(|cell| cell.not_ranked.is_none()).collect();
    if ranked.is_empty() {
        let why = match cells.iter().find_map(|cell| cell.not_ranked.as_ref()) {
            Some(why) => format!("no candidate is ranked ({})", in_a_line(&why.to_string())),
            None => match others {
                [] => "nothing was measured".to_owned(),
                [ComparisonGroup::Techniques] => {
                    "only a built-in experimental format was measured".to_owned()
                }
                [ComparisonGroup::Caches, ComparisonGroup::Techniques] => {
                    "only caches and a built-in experimental format were measured".to_owned()
                }
                _ => "only caches were measured".to_owned(),
            },
        };
        return unanswered(question, &why, None);
    }
    let mut parts = Vec::new();
    // The largest group comes first, because it offers a choice.
    let groups = ranking::grouped(&ranked);
    for (index, (_, cells)) in groups.iter().enumerate() {
        let group = [ranking::comparability(cells[0])];
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
    let unranked = unranked(cells, question.is_tight(), ranked.len() == 1);
    format!("{title}: {}{unranked}", parts.join(" "))
}

/// Returns the title of a question with the conditions that were measured: cold or lukewarm, class, offered rate.
fn titled(question: &Question, first: Option<&Cell>) -> String {
    let title = match first.map(|cell| cell.cache) {
        Some(Cache::Lukewarm) if question.is_usual => "Lukewarm reads".to_owned(),
        Some(Cache::Lukewarm) => format!("{} (lukewarm)", question.title),
        _ => question.title.clone(),
    };
    let offered = first.filter(|cell| is_offered(cell)).and_then(|cell| cell.offered_ops_per_s);
    // The fill has a class of its own, which may differ from the requested one.
    let class = first.map(|cell| cell.durability).filter(|_| question.writes);
    let (title, class) = match class {
        None => (title, String::new()),
        Some(class) if !question.is_usual => (title, format!(" (class {})", class.name())),
        Some(Durability::None) => ("Writes that nothing made durable".to_owned(), " (none)".to_owned()),
        // Syncs happen between responses and count in none of them.
        Some(Durability::OnSync) if offered.is_some() => {
            ("Writes before their sync".to_owned(), " (on-sync)".to_owned())
        }
        Some(class) => (title, format!(" ({})", class.name())),
    };
    let rate = offered.map_or(String::new(), |rate| format!(" at {} ops/s offered", units::count(rate)));
    format!("{title}{class}{rate}")
}

/// Lists unranked candidates next to ranked ones, because their figures may look better than the leaders'. With `all`,
/// candidates without figures are listed, too, because the question includes whether a candidate can do it at all; with `is_alone`,
/// those that cannot do it, because no other can be compared.
fn unranked(cells: &[&Cell], all: bool, is_alone: bool) -> String {
    let silent = cells
        .iter()
        .filter(|cell| all || !cell.rounds.is_empty() || is_alone && cell.status == Status::NotPossible)
        .filter_map(|cell| Some((brief(cell)?, cell.store.clone())));
    with_reasons(silent).map_or(String::new(), |list| format!(" Not ranked in it: {list}."))
}

/// Returns why a cell is not ranked, without figures, which are shown next to the cell.
fn brief(cell: &Cell) -> Option<String> {
    cell.not_ranked.as_ref().map(|why| why.worded().brief())
}

/// Groups candidates by what is said about them, in order of first appearance; `None` if there are none.
pub fn with_reasons(candidates: impl Iterator<Item = (String, String)>) -> Option<String> {
    let list: Vec<String> = units::grouped(candidates)
        .iter()
        .map(|(why, candidates)| format!("{} ({why})", names(candidates)))
        .collect();
    (!list.is_empty()).then(|| list.join("; "))
}

/// Returns a group's common property in brackets; empty if the group has no name.
fn in_brackets(group: &[Comparability]) -> String {
    let named: Vec<String> = group.iter().map(Comparability::to_string).collect();
    let is_plain = group.iter().all(Comparability::is_empty);
    if is_plain { String::new() } else { format!(" ({})", named.join("; ")) }
}

/// Returns the sentence for an open question, with the command that answers it, if there is one.
fn unanswered(question: &Question, why: &str, command: Option<String>) -> String {
    let help = command.map_or(String::new(), |command| format!("; to find out: `{command}`"));
    format!("{}: this run does not answer it: {why}{help}.", question.title)
}

/// Returns the command that measures a question's phase with the same files and stores; `None` if no candidate can do
/// it.
fn to_find_out(plan: &Design, result: &RunResult, question: &Question) -> Option<String> {
    let can = |candidate: &CandidateResult| !question.is_cold() || candidate.made_cold.is_some();
    let can_be = eligible(result).into_iter().any(can);
    // The plan's own phases may depend on other parts of its text.
    if !can_be || !question.is_usual || !plan.text.phase.is_empty() {
        return None;
    }
    // A mix needs all its phases; otherwise only the fill must run first.
    let needed = |phase: &&Phase| phase.is_fill() || !plan.mix.is_empty();
    let before = plan.phases.iter().filter(needed).map(|phase| phase.id.as_str());
    let phases: Vec<&str> = before.chain([question.phases[0].as_str()]).collect();
    let scale = if plan.scale < 1.0 { " --scale 1" } else { "" };
    Some(format!("blobwise run DIR/plan.toml --phases {}{scale}", phases.join(",")))
}

fn leaders(cells: &[&Cell], does: &str) -> String {
    let candidates: Vec<Series> = cells.iter().map(|cell| series(cell)).collect();
    let Some(ranking) = rank(&candidates) else { return "nothing was measured.".to_owned() };
    // At the same offered rate candidates differ in how soon they respond, and none exceeds the rate.
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
        return too_few(rounds as usize, &format!("{} {each}", times.join(", ")));
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

/// States that a number of rounds decides nothing, with the times that were measured.
fn too_few(rounds: usize, times: &str) -> String {
    let rounds = units::counted(rounds, "round");
    format!("{rounds} are too few to tell ({times}); to find out: `--rounds {VERDICT_ROUNDS}`.")
}

/// Returns what several leaders have in common.
fn together(ranking: &Ranking) -> &'static str {
    let mut others = ranking.leaders.iter().filter(|leader| **leader != ranking.best);
    match others.clone().filter(|leader| is_equal(ranking, leader)).count() {
        0 => "cannot be told apart",
        equal if equal == others.clone().count() => "are equal within 3 %",
        _ if others.any(|leader| is_proved_slower(ranking, leader)) => "lead together",
        _ => "cannot be told apart",
    }
}

/// True if it is proved slower than the best and leads only because the difference is negligible.
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
    // Rounded down, so that no more than the proved ratio is stated.
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

/// Returns the leader in CPU time among candidates that are equally fast, if it is proved.
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
    // The CPUs of a server provided by the user are elsewhere, or are shared with others.
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

/// Returns the ops that a round did per nanosecond of CPU time, including servers and browsers, with the round's
/// number.
fn ops_per_cpu(round: &Round) -> Option<(u32, f64)> {
    let spent = round.total_cpu_ns.filter(|ns| *ns > 0)?;
    Some((round.round, round.ops as f64 / spent as f64))
}

/// Formats labels as `a`, `b` and `c`.
fn names(labels: &[String]) -> String {
    units::listed(&labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>(), "and")
}

/// Returns the comparison group that the answer is about: places for files or, in a run without any, servers that deliver them.
fn subject(result: &RunResult) -> ComparisonGroup {
    let has = |comparison_group: ComparisonGroup| {
        result.candidates_here().any(|candidate| is_of(candidate, comparison_group))
    };
    if has(ComparisonGroup::Delivery) && !has(ComparisonGroup::Direct) {
        ComparisonGroup::Delivery
    } else {
        ComparisonGroup::Direct
    }
}

/// True if a candidate belongs to the comparison group; baselines belong to none.
fn is_of(candidate: &CandidateResult, comparison_group: ComparisonGroup) -> bool {
    !candidate.is_baseline() && ComparisonGroup::for_kind(candidate.kind) == comparison_group
}

/// Returns the candidates that the answer is about.
fn eligible(result: &RunResult) -> Vec<&CandidateResult> {
    let subject = subject(result);
    result.candidates_here().filter(|candidate| is_of(candidate, subject)).collect()
}

/// Returns the labels of these candidates.
fn eligible_labels(result: &RunResult) -> Vec<&str> {
    eligible(result).into_iter().map(|candidate| candidate.store.as_str()).collect()
}

fn disk(result: &RunResult) -> String {
    let taken = taken(result);
    let (Some(least), Some(most)) = (taken.first(), taken.last()) else {
        return format!("Disk: this run does not answer it: {}.", why_no_disk(result));
    };
    let logical = units::bytes(result.corpus.bytes as f64);
    let leasts: Vec<&BlobFootprint> =
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

/// Disk space used by a candidate's blobs.
struct BlobFootprint<'r> {
    store: &'r str,
    /// Disk bytes per byte of blobs.
    per_byte: f64,
    /// Part of `per_byte` that the empty store used already.
    empty: f64,
    /// Growth in bytes per byte of blobs, without logs.
    grows: Option<f64>,
}

impl BlobFootprint<'_> {
    /// Returns the part that does not grow with the blobs, as a clause; empty if it is negligible.
    fn not_growing(&self) -> String {
        match self.grows {
            Some(grows) if self.per_byte - grows >= WORDS_FROM => {
                format!(" (it grows by {grows:.2} for each byte; the rest is the empty store and logs)")
            }
            _ => taken_empty(self.empty),
        }
    }
}

/// Returns the disk usage of the candidates that the answer is about, the smallest first; without those whose disk is
/// not visible.
fn taken(result: &RunResult) -> Vec<BlobFootprint<'_>> {
    // A server provided by the user reports the sizes of its blobs or the memory they use, not the allocated disk
    // space.
    let can_be_seen =
        |candidate: &&CandidateResult| !candidate.traits.is_external && candidate.status != Status::Failed;
    let seen = eligible(result).into_iter().filter(can_be_seen);
    let eligible: Vec<&str> = seen.map(|candidate| candidate.store.as_str()).collect();
    let mut taken: Vec<BlobFootprint<'_>> = result
        .footprints
        .iter()
        .filter(|footprint| eligible.contains(&footprint.store.as_str()))
        .filter_map(|footprint| {
            let logical = footprint.logical_bytes.max(1) as f64;
            let empty = footprint.empty_bytes.unwrap_or(0) as f64 / logical;
            let (per_byte, grows) = (footprint.space_amplification?, footprint.grows_per_byte);
            Some(BlobFootprint { store: &footprint.store, per_byte, empty, grows })
        })
        .collect();
    taken.sort_by(|a, b| a.per_byte.total_cmp(&b.per_byte));
    taken
}

/// Returns why the answer says nothing about disk space, although a table of the report may have figures.
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
    let is_no_choice = |candidate: &CandidateResult| !ComparisonGroup::for_kind(candidate.kind).is_choice();
    match result.candidates_here().filter(measured).any(is_no_choice) {
        true => "only stores that are no places for files were measured",
        false => "no store that keeps files on disk was measured",
    }
}

/// Disk bytes per byte of blobs below which a part is not mentioned.
const WORDS_FROM: f64 = 0.05;

/// Returns the part used by the empty store, such as a log of fixed size, as a clause; it is not a cost of blobs.
fn taken_empty(share: f64) -> String {
    if share < WORDS_FROM { String::new() } else { format!(" ({share:.2} of them by the empty store)") }
}

/// Returns the sentence on 1,000 ops of the mix. Costs are computed per round from settled times and compared like
/// rates.
fn mix(plan: &Design, result: &RunResult) -> Option<String> {
    if plan.mix.is_empty() {
        return None;
    }
    let shares: Vec<String> =
        plan.mix.iter().map(|(kind, share)| format!("{} {kind}", units::exact_percent(*share))).collect();
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

/// Returns the fastest candidates of a group at a mix; `alone` is the wording for a single candidate.
fn cheapest(candidates: &[Series], alone: &str) -> String {
    let cost = |candidate: &Series| {
        let mean = candidate.rates.values().map(|rate| 1e9 / rate).sum::<f64>()
            / candidate.rates.len().max(1) as f64;
        units::nanoseconds(mean)
    };
    let rounds = |candidates: &[Series]| candidates.iter().map(|of| of.rates.len()).min().unwrap_or(0);
    match (candidates, rank(candidates)) {
        ([], _) | (_, None) => "nothing was measured.".to_owned(),
        ([only], _) => format!("`{}` {alone} ({}).", only.label, cost(only)),
        (several, _) if rounds(several) < VERDICT_ROUNDS as usize => {
            let costs = several.iter().map(|candidate| format!("`{}` {}", candidate.label, cost(candidate)));
            too_few(rounds(several), &costs.collect::<Vec<_>>().join(", "))
        }
        (_, Some(ranking)) => {
            let leads = |label: &String| candidates.iter().find(|candidate| candidate.label == *label);
            let costs: Vec<String> = ranking.leaders.iter().filter_map(leads).map(cost).collect();
            let verb = if ranking.leaders.len() == 1 { "is fastest" } else { together(&ranking) };
            format!("{} {verb} ({}).", names(&ranking.leaders), costs.join(", "))
        }
    }
}

/// Returns mixed ops per second of each candidate that is ranked in every phase of the mix, by comparison group, the
/// largest first.
fn mixed(plan: &Design, result: &RunResult) -> Vec<(Vec<Comparability>, Vec<Series>)> {
    let of_candidate = |candidate: &CandidateResult| {
        let mut cost: BTreeMap<u32, (f64, usize)> = BTreeMap::new();
        let mut group: Vec<Comparability> = Vec::new();
        let complete = plan.mix.iter().all(|(kind, share)| {
            let phase = MIX_PHASES.iter().find(|(known, _)| known == kind).map_or("", |(_, phase)| phase);
            let cell = result.cell(&candidate.store, phase);
            let Some(cell) = cell.filter(|cell| cell.not_ranked.is_none()) else { return false };
            let condition = ranking::comparability(cell);
            if !condition.is_empty() && !group.contains(&condition) {
                group.push(condition);
            }
            for (round, rate) in series(cell).rates {
                let (seconds, phases) = cost.entry(round).or_default();
                (*seconds, *phases) = (*seconds + share * 1000.0 / rate, *phases + 1);
            }
            true
        });
        // A round that lacks a phase of the mix would seem cheap.
        let whole = cost.into_iter().filter(|(_, (_, phases))| *phases == plan.mix.len());
        let rates: BTreeMap<u32, f64> = whole.map(|(round, (seconds, _))| (round, 1.0 / seconds)).collect();
        let is_known = complete && !rates.is_empty();
        is_known.then(|| (group, Series { label: candidate.store.clone(), rates, slack: 0.0 }))
    };
    let mut groups = units::grouped(eligible(result).into_iter().filter_map(of_candidate));
    groups.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
    groups
}

/// Returns which candidates are never better than some other one, and which are left to choose from.
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

/// Returns a candidate that is faster than this one in some phase, and equal or faster in every other.
pub fn beaten_by<'r>(result: &'r RunResult, candidate: &str) -> Option<&'r str> {
    let beats = |other: &&str| *other != candidate && dominates(result, other, candidate);
    eligible_labels(result).into_iter().find(beats)
}

/// True if each of two candidates is proved faster than the other in some phase.
fn each_wins(result: &RunResult, candidate: &str, other: &str) -> bool {
    let ranked = |label: &str| {
        let label = label.to_owned();
        let is_meant =
            move |cell: &&Cell| cell.store == label && cell.not_ranked.is_none() && is_own_work(cell);
        result.results.iter().filter(is_meant)
    };
    let verdicts: Vec<Verdict> = ranked(candidate)
        .filter_map(|own| {
            let same = |cell: &&Cell| {
                cell.phase == own.phase && ranking::comparability(cell) == ranking::comparability(own)
            };
            let others = ranked(other).find(same)?;
            with_reference(&series(own), &series(others)).map(|(_, verdict)| verdict)
        })
        .collect();
    verdicts.contains(&Verdict::Faster) && verdicts.contains(&Verdict::Slower)
}

/// True if a candidate is faster than another in some phase, and equal or faster in every phase that the other was
/// measured in. Measured but unranked phases count as neither.
fn dominates(result: &RunResult, candidate: &str, other: &str) -> bool {
    let cell = |label: &str, phase: &str| result.cell(label, phase).filter(|cell| cell.not_ranked.is_none());
    let mut faster = false;
    let phases: std::collections::BTreeSet<&str> = result
        .results
        .iter()
        .filter(|cell| cell.store == other && !cell.rounds.is_empty() && is_own_work(cell))
        .map(|cell| cell.phase.as_str())
        .collect();
    for phase in &phases {
        let (Some(own), Some(others)) = (cell(candidate, phase), cell(other, phase)) else { return false };
        if ranking::comparability(own) != ranking::comparability(others) {
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

/// Lists candidates that are not considered, with reasons.
fn left_out(result: &RunResult) -> Option<String> {
    let subject = subject(result);
    let why =
        |candidate: &CandidateResult| match (&candidate.reason, ComparisonGroup::for_kind(candidate.kind)) {
            (Some(reason), _) => Some(in_a_line(reason).to_owned()),
            (None, ComparisonGroup::Caches) => Some("a cache, not a place where files live".to_owned()),
            (None, ComparisonGroup::Techniques) => {
                Some("a built-in experimental format, which you cannot use elsewhere".to_owned())
            }
            (None, comparison_group) if comparison_group != subject => {
                Some("delivery of what another store keeps".to_owned())
            }
            (None, _) => {
                let cells = || result.results.iter().filter(|cell| cell.store == candidate.store);
                // A client-bound candidate is unranked, but may still be the best choice.
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
