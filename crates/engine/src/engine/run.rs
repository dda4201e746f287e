//! A whole run: the pilot, the rounds, and the decisions on their number.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Error, Result, anyhow, bail};

use super::candidate_run::{
    AgedImages, CandidateOnCorpus, CandidateOutcome, Disks, OmittedPhases, OwnMemory, PhaseOutcome,
    PilotOutcome, RoundSlot, RunContext, images_kept,
};
use super::clients::Clients;
use super::environment;
use super::null_loop::NullLoop;
use super::ops::IdealLru;
use super::order::williams;
use super::pilot::{self, HARNESS_SECONDS_MAX, HARNESS_VISITS, ROUNDS_WANTED, RoundSeconds, Visits};
use super::probes;
use super::resources::IdleActivity;
use super::run_candidate::{WAITED, run_candidate};
use super::testable;
use super::workers::clock::HostClock;
use crate::corpus::Corpus;
use crate::corpus::CorpusId;
use crate::host::disk::OwnDisk;
use crate::host::machine::{self, Device};
use crate::host::place::Place;
use crate::host::processors::ProcessorSplit;
use crate::judge::{disturbed, histogram};
use crate::plan::{Candidate, CorpusPlan, Phase, Plan};
use crate::records::Records;
use crate::result::{
    CorpusResult, Disturbance, Finding, Fixed, Harness, HarnessMemory, MeasuringProgram, Picture,
    RoundMemory, Status, StoreRound, Warning,
};
use crate::rules::ROUNDS_MIN;
use crate::store::{Common, Durability, Facts, Options};
use crate::stores;
use crate::subjects::candidates;
use crate::units;

/// Progress of a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// A message for the user.
    Note(&'a str),
    /// The pilot begins with a candidate.
    Pilot {
        /// Label of the candidate.
        candidate: &'a str,
        /// Number of this candidate run in the pilot, from 1.
        index: usize,
        /// Total number of candidate runs in the pilot.
        of: usize,
    },
    /// A phase of the current candidate begins.
    Phase(&'a str),
    /// A candidate's slot in a round ends.
    Done(&'a CandidateOutcome),
    /// A candidate's slot in a round begins.
    Visit {
        /// The round, from 1.
        round: u32,
        /// Total number of rounds, as far as it is known.
        rounds: u32,
        /// Label of the candidate.
        candidate: &'a str,
        /// The size in a sweep.
        corpus_id: CorpusId,
        /// Number of this candidate run in the whole run, from 1.
        index: usize,
        /// Total number of candidate runs.
        of: usize,
        /// Estimated remaining time of the run, in seconds.
        seconds_left: Option<f64>,
    },
}

/// Observes the progress of a run and saves its records. By default, it does nothing of that, makes all rounds that fit, and finds
/// none of them disturbed.
pub trait Observer {
    /// Reports progress.
    fn event(&mut self, _event: Event<'_>) {}

    /// Saves the records; called after every candidate run.
    fn save(&mut self, _records: &Records) -> Result<()> {
        Ok(())
    }

    /// Returns the number of rounds required by the variance of the first five, up to the `most` that fit the budget.
    fn rounds_needed(&mut self, _records: &Records, most: u32) -> u32 {
        most
    }

    /// Returns the disturbances found in the rounds so far.
    fn disturbances(&mut self, _records: &Records) -> Result<Vec<Disturbance>> {
        Ok(Vec::new())
    }
}

/// Everything that a run starts from.
pub struct Start<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its corpora, in order.
    pub corpora: Vec<Corpus>,
    /// Records of an earlier run to continue, made with the same program, machine and corpora.
    pub earlier: Option<Records>,
    /// The program, for the records.
    pub program: MeasuringProgram,
    /// The run's directory.
    pub place: Place,
    /// File systems that were made for the run in that directory. They are removed before it.
    pub disks: Disks,
    /// The clients of a run by several processes; `None` for a single process.
    pub clients: Option<&'a Clients>,
    /// Start of the budget, by [`machine::uptime`].
    pub since: Duration,
    /// Set from outside to end early.
    pub stop: &'a AtomicBool,
    /// True to end after one round, so that the run can be continued later. No round is then repeated, because it would lose its
    /// place in the order.
    pub one_round: bool,
}

impl<'a> Start<'a> {
    /// A run of one client in a new directory below that of the plan; its budget counts from this call.
    ///
    /// # Errors
    /// A corpus or the directory cannot be made.
    pub fn alone(plan: &'a Plan, stop: &'a AtomicBool, program: MeasuringProgram) -> Result<Start<'a>> {
        Ok(Start {
            plan,
            corpora: plan.build_corpora()?,
            earlier: None,
            program,
            place: Place::make(&plan.dir)?,
            disks: Disks::new(),
            clients: None,
            since: machine::uptime(),
            stop,
            one_round: false,
        })
    }
}

/// Seconds for which the idle system is observed before the pilot.
const IDLE_SECONDS: f64 = 0.2;
/// Seconds for which it is observed before each round.
const IDLE_SECONDS_A_ROUND: f64 = 0.1;
/// Share of the budget that is reserved for the report and for what the pilot underestimates.
const SPARE: f64 = 0.06;

const REPORT_SECONDS: f64 = 1.0;

/// Durations of rounds, in seconds, without what later rounds do not do again.
#[derive(Clone, Copy, Debug, Default)]
struct RoundDurations {
    rounds: u32,
    sum: f64,
    slowest: f64,
}

impl RoundDurations {
    fn add(&mut self, seconds: f64) {
        self.rounds += 1;
        self.sum += seconds;
        self.slowest = self.slowest.max(seconds);
    }

    fn mean(self) -> f64 {
        self.sum / f64::from(self.rounds.max(1))
    }

    fn careful(self) -> f64 {
        (self.mean() + self.slowest) / 2.0
    }
}

/// Executes a plan and returns its records, which are not `complete` if it was stopped early.
pub fn run(start: Start, observer: &mut dyn Observer) -> Result<Records> {
    let begin = machine::uptime();
    let plan = start.plan;
    let place = start.place;
    let disks = start.disks;
    let images = AgedImages::default();
    let _awake = plan.awake.then(machine::keep_awake).transpose()?;
    let clock = HostClock::best();
    let device = Device::for_dir(place.path());
    let drop_caches = plan.drop_caches && machine::can_drop_caches();
    let common = Common::new(place.path().join("cache"));
    let place_path = place.path().to_owned();
    let apart = plan.pin_apart.then(ProcessorSplit::of_allowed).transpose()?;
    let facts = machine::Machine { pinned: apart.clone(), ..machine::facts(place.path()) };
    let context = RunContext {
        plan,
        clock,
        device,
        disks: &disks,
        images: &images,
        drop_caches,
        in_memory: facts.is_in_memory(),
        place: place_path,
        common,
        apart,
        clients: start.clients,
        stop: start.stop,
        ideal_lru: IdealLru::default(),
    };
    let resumed = start.earlier.is_some();
    let records =
        start.earlier.unwrap_or_else(|| Records::new(candidates(plan), start.program.clone(), facts));
    let mut course = RunState {
        deadline: deadline(plan, start.since, begin, &records, resumed),
        null_loop: NullLoop::new(1000, 4096)?,
        stolen: machine::stolen(),
        spent_before: records.program.seconds,
        begin,
        corpora: start.corpora,
        context,
        records,
        idle: IdleActivity::default(),
        known_out: ImpossiblePhases::new(),
        foreseen: VisitSeconds::new(),
        resumed,
        one_round: start.one_round,
    };
    course.prepare(resumed, observer)?;
    course.rounds(observer)?;
    course.finish(observer)?;
    Ok(course.records)
}

/// The phases that a candidate leaves out once they were not possible: those in which its memory is limited, and the steps of a
/// growth.
fn limited(plan: &Plan, corpus_id: CorpusId) -> impl Iterator<Item = &Phase> {
    let is_limited = |phase: &&Phase| phase.memory.or(plan.memory).is_some() || phase.grown_to.is_some();
    plan.phases_of(corpus_id).filter(is_limited)
}

/// Returns the phases with limited memory that were not possible, with the reasons.
fn out_of_memory(plan: &Plan, subject: &CandidateOnCorpus, visit: &CandidateOutcome) -> OmittedPhases {
    let why = |phase: &Phase| match visit.phases.get(&phase.id) {
        Some(PhaseOutcome::NotPossible(why)) => Some((phase.id.clone(), why.clone())),
        _ => None,
    };
    limited(plan, subject.corpus_id).filter_map(why).collect()
}

/// Returns a note on the time that the run of a candidate lost to phases that had too little memory; `None` if it lost none.
fn lost_told(label: &str, visit: &CandidateOutcome) -> Option<String> {
    let of_each: Vec<String> =
        visit.lost_to.iter().map(|(phase, why)| format!("`{phase}` ({why})")).collect();
    let lost = units::seconds(visit.lost_seconds);
    (!of_each.is_empty())
        .then(|| format!("`{label}` ran again without {}; {lost} were lost", of_each.join(", ")))
}

/// Returns how long a candidate run in a round may take by plan: an equal share of what the budget has for a round, what the pilot
/// foresaw, or what earlier rounds took, whichever is most. `None` without a budget.
fn planned(
    plan: &Plan,
    records: &Records,
    foreseen: &VisitSeconds,
    subject: &CandidateOnCorpus,
) -> Option<Duration> {
    let (label, corpus_id) = (&subject.candidate.label, subject.corpus_id);
    let visits = plan.candidates.len().max(1) * plan.corpora.len().max(1);
    let share = plan.budget?.as_secs_f64() / (f64::from(records.fixed.rounds.max(1)) * visits as f64);
    let is_same = |visit: &&StoreRound| visit.store == *label && visit.corpus_id == corpus_id;
    let earlier = records.store_rounds.iter().filter(is_same).map(|visit| visit.seconds);
    let foreseen = foreseen.get(&(label.clone(), corpus_id)).copied();
    Some(Duration::from_secs_f64(earlier.chain(foreseen).fold(share, f64::max)))
}

/// Seconds of the visits so far that no later one of the same candidate repeats: those of the fill and of ageing, if images of
/// them were kept.
fn once_seconds(records: &Records) -> f64 {
    let seconds = |visit: &StoreRound, phase: &str| {
        let cell = records.cells.get(&(visit.store.clone(), visit.corpus_id, phase.to_owned()))?;
        let round = cell.rounds.iter().find(|round| round.round == visit.round)?;
        Some(round.settled_seconds.unwrap_or(round.seconds))
    };
    let of_visit = |visit: &StoreRound| -> f64 {
        let kept = visit.images.iter().filter(|image| !image.is_copy);
        kept.filter_map(|image| seconds(visit, &image.phase)).sum()
    };
    records.store_rounds.iter().map(of_visit).sum()
}

/// Estimates how many seconds the next `visits` will take from how long the earlier ones took; `to_age` of them will age a store.
/// `None` before the first visit.
fn seconds_to_come(records: &Records, visits: usize, to_age: usize) -> Option<f64> {
    let done = &records.store_rounds;
    let (all, once) = (done.iter().map(|visit| visit.seconds).sum::<f64>(), once_seconds(records));
    let aged = done.iter().filter(|visit| visit.ages_for_others()).count().max(1);
    (!done.is_empty())
        .then(|| (all - once) / done.len() as f64 * visits as f64 + once / aged as f64 * to_age as f64)
}

/// Returns the moment at which the budget is spent; `None` without a budget.
fn deadline(
    plan: &Plan,
    since: Duration,
    begin: Duration,
    records: &Records,
    resumed: bool,
) -> Option<Duration> {
    let budget = plan.budget?;
    let spent =
        if resumed { Duration::from_secs_f64(records.program.seconds) } else { begin.saturating_sub(since) };
    Some(begin + budget.saturating_sub(spent))
}

struct RunState<'a> {
    context: RunContext<'a>,
    corpora: Vec<Corpus>,
    records: Records,
    null_loop: NullLoop,
    deadline: Option<Duration>,
    stolen: Duration,
    begin: Duration,
    spent_before: f64,
    /// Resource use of the idle system: the lowest of all observations.
    idle: IdleActivity,
    /// Phases with limited memory that the pilot found impossible with the whole corpus.
    known_out: ImpossiblePhases,
    /// Durations of the candidate runs of a round that the pilot foresaw.
    foreseen: VisitSeconds,
    resumed: bool,
    one_round: bool,
}

/// Why phases with limited memory are not possible, by candidate, corpus and phase.
type ImpossiblePhases = BTreeMap<(String, CorpusId, String), String>;

type VisitSeconds = BTreeMap<(String, CorpusId), f64>;

impl RunState<'_> {
    fn stopped(&self) -> bool {
        self.context.stopped()
    }

    fn seconds_left(&self) -> Option<f64> {
        Some((self.deadline?.saturating_sub(machine::uptime()).as_secs_f64() - REPORT_SECONDS).max(0.0))
    }

    /// Returns the moment at which a candidate run is stopped because the budget is spent. `None` with several clients, none of
    /// which can leave a shared phase alone, and in the first round of a continued run: if the budget was spent in that round
    /// before, it is still completed.
    fn until(&self, round: u32) -> Option<Duration> {
        let is_bound = self.context.clients.is_none() && !(self.resumed && round <= 1);
        let deadline = self.deadline.filter(|_| is_bound)?;
        Some(deadline.saturating_sub(Duration::from_secs_f64(REPORT_SECONDS)))
    }

    fn is_spent(&self) -> bool {
        self.until(0).is_some_and(|until| machine::uptime() >= until)
    }

    fn seconds_spent(&self) -> f64 {
        self.spent_before + (machine::uptime() - self.begin).as_secs_f64()
    }

    /// Memory of the harness that is counted in a candidate's group, as far as it is known.
    fn own_memory(&self) -> OwnMemory {
        self.records.harness.memory.map_or_else(OwnMemory::default, |memory| OwnMemory {
            empty_bytes: memory.empty_bytes,
            phase_bytes: memory.phase_bytes,
        })
    }

    fn slot_before_rounds(&self, idle: IdleActivity) -> RoundSlot {
        RoundSlot {
            position: 1,
            idle,
            own_memory: self.own_memory(),
            planned: self.context.plan.budget.map(|_| Duration::ZERO),
            until: self.until(0),
            ..RoundSlot::default()
        }
    }

    /// Returns the moment by which a candidate that grows must be through with its last step; see [`growth_seconds`].
    fn grows_until(&self) -> Option<Duration> {
        let left = self.seconds_left().filter(|_| self.context.plan.text.grow.is_some())?;
        let seconds = growth_seconds(
            &self.records.store_rounds,
            self.subjects().count(),
            self.records.fixed.rounds,
            left * (1.0 - SPARE),
        )?;
        Some(machine::uptime() + Duration::from_secs_f64(seconds))
    }

    fn blobs(&self) -> Vec<(u64, CorpusId)> {
        let sizes = self.context.plan.corpora.iter().map(|corpus| corpus.corpus_id);
        self.corpora.iter().map(Corpus::blobs).zip(sizes).collect()
    }

    fn prepare(&mut self, resumed: bool, observer: &mut dyn Observer) -> Result<()> {
        if let Some(clients) = self.context.clients {
            clients.prepare(self.context.plan, &self.corpora, &self.context.place)?;
            self.records.clients = clients.known(&self.context.clock, self.context.stop)?;
        }
        let idle = IdleActivity::watch(self.context.device.as_ref(), IDLE_SECONDS);
        self.idle = idle;
        if resumed {
            self.cut_corpora()?;
            if !is_whole(&self.records.harness, self.context.plan) {
                self.records.harness = self.harness(idle)?;
            }
            return Ok(());
        }
        if self.context.drop_caches && self.context.plan.phases.iter().any(|phase| phase.cache.is_cold()) {
            observer.event(Event::Note(
                "the kernel's caches are dropped before cold reads (--no-drop-caches prevents it)",
            ));
        }
        let mut round_seconds = RoundSeconds::default();
        // How far stores grow is decided in round 1.
        let has_pilot = self.context.plan.text.grow.is_none();
        let fixed = match self.context.plan.budget.filter(|_| has_pilot) {
            Some(_) => {
                let (fixed, seconds) = self.pilot(idle, observer)?;
                round_seconds = seconds;
                fixed
            }
            None => {
                let fixed = pilot::full_lengths(self.context.plan, &self.blobs());
                self.foresee(&[], &fixed, observer);
                fixed
            }
        };
        // A pilot that was stopped has fixed nothing.
        if !self.stopped() {
            self.records.fixed = fixed;
            self.cut_corpora()?;
        }
        // To deflate a sample takes seconds, which nobody waits for who stopped a pilot.
        let deflates = !self.stopped() || !self.records.store_rounds.is_empty();
        let planned = self.corpora.iter().zip(&self.context.plan.corpora);
        self.records.corpora =
            planned.map(|(corpus, planned)| corpus_result(corpus, planned, deflates)).collect();
        if self.stopped() {
            return Ok(());
        }
        let (plan, clock) = (self.context.plan, self.context.clock);
        let disks = self.context.disks.values().map(OwnDisk::path);
        let places: Vec<&Path> = std::iter::once(self.context.place.as_path()).chain(disks).collect();
        environment::look(&mut self.records, plan, &clock, &places, idle);
        self.records.harness = self.harness(idle)?;
        self.refuse_if_late(round_seconds)
    }

    fn cut_corpora(&mut self) -> Result<()> {
        let share = self.records.fixed.corpus_share;
        if share <= 0.0 {
            bail!("the earlier run ended before anything was fixed; start a new one");
        }
        if share < 1.0 {
            self.corpora = pilot::cut(&self.corpora, share);
        }
        Ok(())
    }

    /// Runs every candidate briefly and fixes what fits the budget. Also returns the expected durations of rounds.
    fn pilot(&mut self, idle: IdleActivity, observer: &mut dyn Observer) -> Result<(Fixed, RoundSeconds)> {
        let plan = self.context.plan;
        let small: Vec<Corpus> = self
            .corpora
            .iter()
            .map(|corpus| corpus.part(pilot::pilot_blobs(self.context.plan, corpus)))
            .collect();
        let null = null_candidate();
        let mut visits = Visits::default();
        let begin = machine::uptime();
        let of = plan.candidates.len() * small.len();
        for (corpus, small) in small.iter().enumerate() {
            let subject = |candidate| CandidateOnCorpus {
                candidate,
                corpus: small,
                corpus_id: plan.corpora[corpus].corpus_id,
            };
            let nothing = self.pilot_run(subject(&null), corpus, idle, observer)?;
            visits.null.extend(nothing);
            for candidate in &plan.candidates {
                let index = visits.candidates.len() + 1;
                observer.event(Event::Pilot { candidate: &candidate.label, index, of });
                let subject = subject(candidate);
                let visited = self.pilot_run(subject, corpus, idle, observer)?;
                let seconds = (machine::uptime() - begin).as_secs_f64();
                let Some(visited) = visited else {
                    if self.stopped() {
                        return Ok((Fixed::default(), RoundSeconds::default()));
                    }
                    return Err(self.too_small_for(&visits, [index, of], seconds));
                };
                if let Some(lost) = lost_told(&candidate.label, &visited.outcome) {
                    observer.event(Event::Note(&lost));
                }
                if visited.blobs == self.corpora[corpus].blobs() {
                    let out = out_of_memory(plan, &subject, &visited.outcome).into_iter();
                    let key = |phase| (candidate.label.clone(), subject.corpus_id, phase);
                    self.known_out.extend(out.map(|(phase, why)| (key(phase), why)));
                }
                visits.candidates.push(visited);
                // With each candidate, less remains for the rounds.
                if self.needed(&visits)[0].1 > self.seconds_for_rounds() {
                    return Err(self.too_small_for(&visits, [index, of], seconds));
                }
            }
        }
        let keeps = |share| pilot::keeps_figures(plan, &self.corpora, share);
        let for_rounds = self.seconds_for_rounds();
        let (fixed, gave) = pilot::fitting_lengths(plan, &self.blobs(), &keeps, &visits, for_rounds);
        if let Some(gave) = gave {
            observer.event(Event::Note(&gave.details().text));
            self.records.warning(gave);
        }
        let took = (machine::uptime() - begin).as_secs_f64();
        let note =
            format!("pilot done in {took:.0} s: {} to begin with", units::counted(fixed.rounds, "round"));
        observer.event(Event::Note(&note));
        self.foresee(&visits.candidates, &fixed, observer);
        let blobs = self.blobs();
        let key =
            |pilot: &PilotOutcome<'_>| (pilot.candidate.label.clone(), plan.corpora[pilot.corpus].corpus_id);
        let foreseen = || pilot::visits_seconds(plan, &blobs, &visits.candidates, &fixed);
        self.foreseen = foreseen().map(|(pilot, seconds)| (key(pilot), seconds.first)).collect();
        let round_seconds = foreseen().map(|(_, seconds)| seconds).sum();
        Ok((fixed, round_seconds))
    }

    /// Runs a candidate in the pilot, with fewer blobs if it takes too much of the budget otherwise. `None` if the run was
    /// stopped.
    fn pilot_run<'a>(
        &self,
        subject: CandidateOnCorpus<'a>,
        corpus: usize,
        idle: IdleActivity,
        observer: &mut dyn Observer,
    ) -> Result<Option<PilotOutcome<'a>>> {
        let (plan, CandidateOnCorpus { candidate, corpus_id, .. }) = (self.context.plan, subject);
        let of = |blobs: u64, patience: Option<Duration>| {
            let part = subject.corpus.part(blobs);
            let subject = CandidateOnCorpus { corpus: &part, ..subject };
            let lengths = pilot::pilot_lengths(plan, &[(blobs, corpus_id)]);
            let slot = RoundSlot { patience, ..self.slot_before_rounds(idle) };
            run_candidate(&self.context, &lengths, subject, slot, &OmittedPhases::new(), &mut |_| ())
        };
        let image_seconds = self.context.disk_of(candidate).and_then(OwnDisk::read_seconds);
        let pilot_run = |blobs, slows_by, outcome| PilotOutcome {
            candidate,
            corpus,
            blobs,
            slows_by,
            image_seconds,
            outcome,
        };
        let all = subject.corpus.blobs();
        let few = pilot::few_blobs(plan, all);
        // With several clients, none can leave a shared phase alone.
        let is_alone = self.context.clients.is_none();
        let patience = few.and(plan.budget).map(pilot::patience).filter(|_| is_alone);
        if let Some(visit) = of(all, patience)? {
            return Ok(Some(pilot_run(all, 0.0, visit)));
        }
        let is_over = self.stopped() || self.is_spent();
        let (Some([fewest, few]), Some(patience), false) = (few, patience, is_over) else {
            return Ok(None);
        };
        observer.event(Event::Note(&format!(
            "`{}` needs more than {} of the pilot for {all} blobs, and is tried with {few}",
            candidate.label,
            units::seconds(patience.as_secs_f64()),
        )));
        let Some(before) = of(fewest, None)? else { return Ok(None) };
        let visit = of(few, None)?;
        Ok(visit
            .map(|visit| pilot_run(few, pilot::slows_by(plan, [(fewest, &before), (few, &visit)]), visit)))
    }

    /// Seconds that the budget leaves for the rounds, including what comes between the pilot and them.
    fn seconds_for_rounds(&self) -> f64 {
        let probes = 0.3 + IDLE_SECONDS_A_ROUND;
        let left = self.seconds_left().unwrap_or(f64::INFINITY);
        (left * (1.0 - SPARE) - f64::from(ROUNDS_WANTED) * probes).max(0.0)
    }

    fn needed(&self, visits: &Visits<'_>) -> [(u32, f64); 2] {
        let keeps = |share| pilot::keeps_figures(self.context.plan, &self.corpora, share);
        pilot::needed(self.context.plan, &self.blobs(), &keeps, visits)
    }

    /// Returns the error for a budget that the pilot found too small, after it took `pilot_seconds` to begin `begun` of its `of`
    /// candidate runs. The remaining ones are assumed to be like those that were done.
    fn too_small_for(&self, visits: &Visits<'_>, [begun, of]: [usize; 2], pilot_seconds: f64) -> Error {
        let [least, all] = self.needed(visits);
        let pilot = pilot_seconds * of as f64 / begun as f64;
        let made = visits.candidates.len();
        let of_all = |(rounds, seconds): (u32, f64)| match made {
            // A candidate takes at least as long in a round as in the pilot.
            0 => (rounds, pilot * f64::from(rounds)),
            made => (rounds, seconds * of as f64 / made as f64),
        };
        let told_by = match begun < of {
            true => format!(", by the first {begun} of {of} visits of the pilot"),
            false => String::new(),
        };
        self.too_small([of_all(least), of_all(all)], pilot - pilot_seconds, &told_by)
    }

    /// Returns the error for a budget that is too small for the fewest rounds. It names budgets that suffice for the `least` and
    /// for `all` rounds (number and seconds of each), given the seconds that pass `before` them.
    fn too_small(&self, [least, all]: [(u32, f64); 2], before: f64, told_by: &str) -> Error {
        let budget = self.context.plan.budget.unwrap_or_default().as_secs_f64();
        let left = self.seconds_for_rounds();
        // Rounds up to whole minutes, as a margin for what the pilot underestimates.
        let minutes =
            |seconds: f64| ((seconds / (1.0 - SPARE) + budget - left + before) / 60.0).ceil().max(1.0);
        let [enough, enough_for_all] = [minutes(least.1), minutes(all.1)];
        let for_all = if enough == enough_for_all {
            String::new()
        } else {
            format!(", or `--budget {enough_for_all}m` for {}", units::counted(all.0, "round"))
        };
        let fewer = if self.context.plan.candidates.len() > 1 { "name fewer candidates, " } else { "" };
        let take = if least.0 == 1 { "takes" } else { "take" };
        anyhow!(
            "a budget of {} is too small for what was asked for: {} {take} about {}{told_by}, and {} are left for them; give it \
             `--budget {enough}m`{for_all}, {fewer}ask for fewer blobs or loads, or shrink the plan with `--scale`",
            units::seconds(budget),
            units::counted(least.0, "round"),
            units::seconds(least.1),
            units::seconds(left),
        )
    }

    /// Fails if the time spent before round 1 leaves too little for the fewest rounds.
    fn refuse_if_late(&self, round_seconds: RoundSeconds) -> Result<()> {
        let rounds = self.records.fixed.rounds;
        let least = rounds.min(ROUNDS_MIN);
        let of = |rounds: u32| (rounds, round_seconds.of_rounds(rounds));
        let is_late = self.until(0).is_some() && of(least).1 > self.seconds_left().unwrap_or(f64::INFINITY);
        if is_late && !self.stopped() {
            return Err(self.too_small([of(least), of(rounds)], 0.0, ""));
        }
        Ok(())
    }

    /// Announces what will be too short to be ranked.
    fn foresee(&self, visits: &[PilotOutcome<'_>], fixed: &Fixed, observer: &mut dyn Observer) {
        // A growth has a fixed number of ops, and its rounds depend on how far the stores grow.
        if self.context.plan.text.grow.is_some() {
            return;
        }
        let files = self.corpora.first().filter(|corpus| corpus.names.is_some());
        let files = files.map(|corpus| corpus.sampled_from.map_or(corpus.blobs(), |(files, _)| files));
        let plan = self.context.plan;
        if let Some(note) = pilot::foreseen(plan, &self.blobs(), visits, fixed, files) {
            observer.event(Event::Note(&note));
        }
        let (of, why) = testable::summarize(&testable::of_lengths(plan, fixed));
        // Without a budget, the lengths were known before the run.
        if plan.budget.is_some() && !why.is_empty() {
            observer.event(Event::Note(&format!("{of}: {}", why.join("; "))));
        }
    }

    /// Measures the overhead of the harness in every phase, with the null store.
    fn harness(&self, idle: IdleActivity) -> Result<Harness> {
        let clock = &self.context.clock;
        let candidate = null_candidate();
        let mut harness =
            Harness { clock: clock.name().to_owned(), clock_read_ns: clock.read_ns(), ..Harness::default() };
        let mut fixed = self.records.fixed.clone();
        fixed
            .lengths
            .values_mut()
            .for_each(|length| length.seconds = length.seconds.min(HARNESS_SECONDS_MAX));
        'corpora: for (corpus, planned) in self.corpora.iter().zip(&self.context.plan.corpora) {
            let subject = CandidateOnCorpus { candidate: &candidate, corpus, corpus_id: planned.corpus_id };
            let slot = self.slot_before_rounds(idle);
            let mut phases = Vec::new();
            for _ in 0..HARNESS_VISITS {
                let Some(visit) =
                    run_candidate(&self.context, &fixed, subject, slot, &OmittedPhases::new(), &mut |_| ())?
                else {
                    break 'corpora;
                };
                phases.extend(visit.phases);
            }
            for (phase, outcome) in phases {
                // The time of an upload to the null store is that of a catalog, not of the harness.
                let of_catalogue =
                    self.context.plan.phases.iter().any(|known| known.id == phase && known.has_uploads());
                if let PhaseOutcome::Measured(round) = &outcome {
                    harness.memory = most_memory(harness.memory, round.memory.as_ref());
                }
                if let (PhaseOutcome::Measured(round), false) = (outcome, of_catalogue) {
                    // An open loop waits on purpose, so its service time counts, as for stores.
                    let ns = match round.open.is_some().then(|| service_p50(&round)).flatten() {
                        Some(p50) => p50,
                        None => round.seconds * 1e9 / round.ops.max(1) as f64,
                    };
                    let least = harness.null_ns.entry(planned.corpus_id.key(&phase)).or_insert(ns);
                    *least = least.min(ns);
                }
            }
        }
        let reads = self.context.plan.phases.iter().filter(|phase| !phase.writes());
        harness.null_ns_per_op = reads
            .filter(|phase| phase.plain_load().is_some())
            .find_map(|phase| harness.null_ns.get(&phase.id).copied());
        Ok(harness)
    }

    /// Runs the rounds in order, and finally repeats those that were disturbed.
    fn rounds(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let mut round = 1;
        let mut pace = RoundDurations::default();
        while round <= self.records.fixed.rounds && !self.stopped() {
            if !self.round_is_done(round) {
                if self.must_cut(round, pace) {
                    break;
                }
                self.paced_round(round, &mut pace, observer)?;
                if !self.round_is_done(round) && !self.stopped() {
                    self.spent_within(round, pace)?;
                    break;
                }
            }
            if self.one_round && pace.rounds > 0 && round < self.records.fixed.rounds {
                return Ok(());
            }
            if !self.records.fixed.rounds_final && !self.stopped() {
                self.go_on(round, pace, observer)?;
            }
            round += 1;
        }
        self.records.rounds_made(self.records.fixed.rounds);
        if self.one_round { Ok(()) } else { self.repeats(pace, observer) }
    }

    /// Decides on the number of rounds. After the fifth round, it is fixed. If the pilot found that five do not fit, one round at
    /// a time is added after the last planned one while time is left. That depends on time alone, never on results.
    fn go_on(&mut self, round: u32, pace: RoundDurations, observer: &mut dyn Observer) -> Result<()> {
        if round == ROUNDS_WANTED {
            return self.fix_rounds(pace, observer);
        }
        if round == self.records.fixed.rounds {
            let has_time = self.has_time_for_one(pace);
            self.records.fixed.rounds += u32::from(has_time);
            self.records.fixed.rounds_final = !has_time;
        }
        Ok(())
    }

    /// Repeats disturbed rounds, as far as the rules and the budget allow.
    fn repeats(&mut self, mut pace: RoundDurations, observer: &mut dyn Observer) -> Result<()> {
        while !self.stopped() && self.has_time_for_one(pace) {
            let found = observer.disturbances(&self.records)?;
            let rounds = self.records.fixed.rounds;
            let Some(round) = self.due_again(&found, rounds, &[]) else { break };
            observer.event(Event::Note(&format!("round {round} was disturbed; it is measured again")));
            self.records.set_aside(round, found.into_iter().filter(|found| found.round == round).collect());
            self.paced_round(round, &mut pace, observer)?;
            // A partial round is worth less than a disturbed one.
            if !self.round_is_done(round) {
                self.records.put_back(round);
            }
        }
        Ok(())
    }

    /// Returns the next round to repeat, in addition to those in `beside`. Never for a preview, whose figures are not quoted: a
    /// warning is enough there. Nor a round that aged the stores for others, which alone has figures of that.
    fn due_again(&self, found: &[Disturbance], rounds: u32, beside: &[u32]) -> Option<u32> {
        let again = self.records.set_aside.iter().map(|aside| aside.round);
        let again: Vec<u32> = again.chain(beside.iter().copied()).collect();
        let visits = &self.records.store_rounds;
        let ages = |round: u32| visits.iter().any(|visit| visit.round == round && visit.ages_for_others());
        let found: Vec<Disturbance> = found.iter().filter(|found| !ages(found.round)).cloned().collect();
        if self.context.plan.is_preview() { None } else { disturbed::next_to_repeat(&found, rounds, &again) }
    }

    fn has_time_for_one(&self, pace: RoundDurations) -> bool {
        let visits = &self.records.store_rounds;
        let earlier = visits.iter().map(|visit| visit.seconds).sum::<f64>();
        let of_earlier = earlier / f64::from(self.records.fixed.rounds.max(1));
        let seconds = if pace.rounds > 0 { pace.careful() } else { of_earlier };
        self.seconds_left().is_none_or(|left| left > seconds * (1.0 + SPARE))
    }

    fn round_is_done(&self, round: u32) -> bool {
        self.has_all(round) && self.records.probes.iter().any(|probe| probe.round == round)
    }

    /// True if no candidate is left to be measured in a round.
    fn has_all(&self, round: u32) -> bool {
        self.subjects().all(|subject| self.is_done(&subject, round))
    }

    fn is_done(&self, subject: &CandidateOnCorpus, round: u32) -> bool {
        let label = &subject.candidate.label;
        self.records.has(label, subject.corpus_id, round) || self.records.has_failed(label)
    }

    fn subjects(&self) -> impl Iterator<Item = CandidateOnCorpus<'_>> {
        let plan = self.context.plan;
        self.corpora.iter().zip(&plan.corpora).flat_map(move |(corpus, planned)| {
            plan.candidates.iter().map(move |candidate| CandidateOnCorpus {
                candidate,
                corpus,
                corpus_id: planned.corpus_id,
            })
        })
    }

    /// Cuts the rounds from this one on if the budget no longer allows it, although the pilot thought so. Returns true if it did.
    /// That depends on time alone, never on results.
    fn must_cut(&mut self, round: u32, pace: RoundDurations) -> bool {
        let Some(left) = self.seconds_left() else { return false };
        if round == 1 || left > pace.careful() * 0.9 {
            return false;
        }
        self.cut_from(round);
        true
    }

    /// Discards a round in which the budget was spent. Fails in round 1, because there is nothing to report.
    fn spent_within(&mut self, round: u32, pace: RoundDurations) -> Result<()> {
        if round > 1 {
            self.cut_from(round);
            return Ok(());
        }
        let (begun, of) = (self.records.store_rounds.len() + 1, self.subjects().count());
        let times = of as f64 / begun as f64;
        let (a_round, once) = (pace.mean() * times, once_seconds(&self.records) * times);
        let rounds = self.records.fixed.rounds;
        let of_rounds = |rounds: u32| (rounds, once + a_round * f64::from(rounds));
        let told_by = format!(", by the first {begun} of {of} visits of round 1");
        Err(self.too_small([of_rounds(rounds.min(ROUNDS_MIN)), of_rounds(rounds)], 0.0, &told_by))
    }

    fn cut_from(&mut self, round: u32) {
        let done = round - 1;
        if done < ROUNDS_WANTED {
            self.records.warning(Warning::BudgetSpent { rounds: done });
        }
        // A round that was stopped has only some of the candidates.
        self.records.forget_round(round);
        self.records.fixed.rounds = done;
        self.records.fixed.rounds_final = true;
    }

    /// Fixes the number of rounds after the fifth, from their variance and the remaining time. Disturbed rounds are left out,
    /// because their variance would ask for more rounds than there is time for, and time is reserved to repeat them.
    fn fix_rounds(&mut self, pace: RoundDurations, observer: &mut dyn Observer) -> Result<()> {
        let left = self.seconds_left().unwrap_or(0.0) * (1.0 - SPARE);
        // Uses the mean: one round with a stall of the disk does not predict the later ones, and if it does, the last ones are
        // cut.
        let more = if pace.mean() > 0.0 { (left / pace.mean()) as u32 } else { 0 };
        let found = observer.disturbances(&self.records)?;
        let mut again = Vec::new();
        while let Some(round) = self.due_again(&found, ROUNDS_WANTED, &again) {
            again.push(round);
        }
        let most = ROUNDS_WANTED + more.saturating_sub(again.len() as u32);
        let needed = observer.rounds_needed(&self.records.without(&again), most);
        self.records.fixed.rounds = needed.clamp(ROUNDS_WANTED, most);
        self.records.fixed.rounds_final = true;
        Ok(())
    }

    /// Runs one round, and adds its duration to the pace, except what was lost to phases that later rounds leave out, and what is
    /// filled and aged once.
    fn paced_round(
        &mut self,
        round: u32,
        pace: &mut RoundDurations,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let (begin, once_before) = (machine::uptime(), once_seconds(&self.records));
        let lost = self.round(round, observer)?;
        let once = once_seconds(&self.records) - once_before;
        pace.add(((machine::uptime() - begin).as_secs_f64() - lost - once).max(0.0));
        Ok(())
    }

    /// Runs one round of all candidates. Returns the seconds that were lost to attempts with too little memory.
    fn round(&mut self, round: u32, observer: &mut dyn Observer) -> Result<f64> {
        let plan = self.context.plan;
        let mut lost_seconds = 0.0;
        self.records.probes.retain(|probe| probe.round != round || probe.repeated);
        self.probe(round, "start")?;
        let now = IdleActivity::watch(self.context.device.as_ref(), IDLE_SECONDS_A_ROUND);
        self.idle = self.idle.least(&now);
        let idle = self.idle;
        let order = williams(plan.candidates.len(), round, plan.seed);
        for corpus in 0..self.corpora.len() {
            for (place, candidate) in order.iter().enumerate() {
                let candidate = &plan.candidates[*candidate];
                let corpus_id = plan.corpora[corpus].corpus_id;
                let subject = CandidateOnCorpus { candidate, corpus: &self.corpora[corpus], corpus_id };
                if self.is_done(&subject, round) {
                    continue;
                }
                self.announce(round, &subject, observer);
                let resident = self.records.is_resident(&candidate.label, corpus_id);
                let slot = RoundSlot {
                    round,
                    position: place as u32 + 1,
                    idle,
                    resident,
                    own_memory: self.own_memory(),
                    patience: None,
                    planned: planned(plan, &self.records, &self.foreseen, &subject),
                    until: self.until(round),
                    grows_until: self.grows_until(),
                };
                let left_out = self.left_out(&subject);
                let mut tell = |phase: Option<&str>| {
                    if let Some(phase) = phase {
                        observer.event(Event::Phase(phase));
                    }
                };
                let Some(mut visit) =
                    run_candidate(&self.context, &self.records.fixed, subject, slot, &left_out, &mut tell)?
                else {
                    return Ok(lost_seconds);
                };
                self.context.ideal_lru.add(std::mem::take(&mut visit.ideal_lru));
                observer.event(Event::Done(&visit));
                let subject = CandidateOnCorpus { candidate, corpus: &self.corpora[corpus], corpus_id };
                lost_seconds += visit.lost_seconds;
                if let Some(lost) = lost_told(&candidate.label, &visit) {
                    observer.event(Event::Note(&lost));
                }
                keep(&mut self.records, &subject, slot, visit);
                self.records.program.seconds = self.seconds_spent();
                observer.save(&self.records)?;
            }
        }
        self.probe(round, "end")?;
        Ok(lost_seconds)
    }

    /// Returns phases with limited memory, or steps of a growth, that were not possible for a candidate in an earlier round, or in
    /// the pilot with as many blobs, so that it does not fail in them again.
    fn left_out(&self, subject: &CandidateOnCorpus) -> OmittedPhases {
        let why = |phase: &str| {
            let key = (subject.candidate.label.clone(), subject.corpus_id, phase.to_owned());
            let in_a_round = self.records.cells.get(&key).and_then(|cell| cell.not_possible.clone());
            in_a_round.or_else(|| self.known_out.get(&key).cloned())
        };
        let limited = limited(self.context.plan, subject.corpus_id);
        limited.filter_map(|phase| Some((phase.id.clone(), why(&phase.id)?))).collect()
    }

    /// Measures the probes `at` the start or the end of a round.
    fn probe(&mut self, round: u32, at: &str) -> Result<()> {
        let probe = probes::measure(&self.context.clock, &self.null_loop, &self.context.place, round, at)?;
        self.records.probes.push(probe);
        Ok(())
    }

    fn announce(&self, round: u32, subject: &CandidateOnCorpus, observer: &mut dyn Observer) {
        let candidates = self.context.plan.candidates.len() * self.corpora.len();
        let index = self.records.store_rounds.len() + 1;
        let of = candidates * self.records.fixed.rounds as usize;
        let ages = |candidate: &&Candidate| {
            images_kept(self.context.plan, candidate) > 0
                && !self.context.images.are_of(&candidate.label)
                && !self.records.has_failed(&candidate.label)
        };
        let to_age = self.context.plan.candidates.iter().filter(ages).count();
        let seconds_left = seconds_to_come(&self.records, of.saturating_sub(index - 1), to_age);
        observer.event(Event::Visit {
            round,
            rounds: self.records.fixed.rounds,
            candidate: &subject.candidate.label,
            corpus_id: subject.corpus_id,
            index,
            of,
            seconds_left,
        });
    }

    fn finish(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let spent = (machine::uptime() - self.begin).as_secs_f64();
        environment::look_back(&mut self.records, self.stolen, spent);
        let rounds = self.records.fixed.rounds;
        self.records.complete =
            !self.stopped() && rounds > 0 && (1..=rounds).all(|round| self.has_all(round));
        self.records.program.seconds = self.seconds_spent();
        observer.save(&self.records)
    }
}

/// Returns the first version that differs between two sets of facts, because a program was replaced or the run was resumed with
/// another one.
fn other_version(before: &Facts, now: &Facts) -> Option<String> {
    let tells = |name: &str| name.contains("version") || ["server", "browser"].contains(&name);
    let versions = before.iter().filter(|(name, _)| tells(name));
    versions.into_iter().find_map(|(name, before)| {
        let now = now.get(name).filter(|now| *now != before)?;
        Some(format!("{name} {before}, then {now}"))
    })
}

fn keep(records: &mut Records, subject: &CandidateOnCorpus, slot: RoundSlot, visit: CandidateOutcome) {
    let label = &subject.candidate.label;
    let (mut changed, mut weaker) = (None, None);
    if let Some(candidate) = records.candidate_mut(label) {
        if candidate.facts.is_empty() {
            candidate.facts.clone_from(&visit.facts);
            let class = candidate.promise.map_or(Durability::None, |promise| promise.durability);
            candidate.noticed_by = (subject.candidate.adapter.integrity)(&subject.candidate.options, class)
                .noticed_by(&candidate.facts);
            weaker = (subject.candidate.adapter.needs.weaker)(&candidate.facts)
                .filter(|_| class > Durability::None);
        }
        changed = other_version(&candidate.facts, &visit.facts);
        // A shortage of ports can only occur after the first candidate run.
        if let Some(waited) = visit.facts.get(WAITED) {
            candidate.facts.insert(WAITED.to_owned(), waited.clone());
        }
        if let Some(error) = &visit.error {
            candidate.status = Status::Failed;
            candidate.reason = Some(error.clone());
        }
    }
    if let Some(change) = changed {
        records.warning(Warning::OtherVersion { store: label.clone(), change });
    }
    if let Some(why) = weaker {
        records.warning(Warning::Weaker { store: label.clone(), why });
    }
    if let Some(picture) = visit.picture
        && records.pictures.iter().all(|known| known.store != *label)
    {
        records.pictures.push(Picture::new(label, &picture));
    }
    for (phase, outcome) in visit.phases {
        let cell = records.cells.entry((label.clone(), subject.corpus_id, phase.clone())).or_default();
        match outcome {
            PhaseOutcome::Measured(round) => cell.add(*round),
            PhaseOutcome::Found(found) => cell.add_found(Finding {
                store: label.clone(),
                corpus_id: subject.corpus_id,
                phase,
                round: slot.round,
                found: *found,
            }),
            PhaseOutcome::NotPossible(why) => cell.not_possible = Some(why),
        }
    }
    records.store_rounds.push(StoreRound {
        round: slot.round,
        store: label.clone(),
        corpus_id: subject.corpus_id,
        position: slot.position,
        seconds: visit.seconds,
        verified: visit.verified,
        verified_from: visit.verified_from,
        error: visit.error,
        footprint: visit.footprint,
        images: visit.images,
    });
}

fn null_candidate() -> Candidate {
    Candidate { label: "null".to_owned(), adapter: stores::NULL, options: Options::default() }
}

/// True if the harness was measured with every corpus. It was not if the run was stopped in between.
fn is_whole(harness: &Harness, plan: &Plan) -> bool {
    plan.corpora.iter().all(|corpus| {
        let key = |phase: &Phase| corpus.corpus_id.key(&phase.id);
        plan.phases_of(corpus.corpus_id).any(|phase| harness.null_ns.contains_key(&key(phase)))
    })
}

fn corpus_result(corpus: &Corpus, planned: &CorpusPlan, deflates: bool) -> CorpusResult {
    CorpusResult {
        name: corpus.name.clone(),
        blobs: corpus.blobs(),
        bytes: corpus.bytes(),
        quantiles: corpus.quantiles(),
        largest_bytes: corpus.largest(),
        deflate_ratio: if deflates { corpus.deflate_ratio() } else { None },
        corpus_id: planned.corpus_id,
        sampled_from: corpus.sampled_from,
        cut: corpus.cut.clone(),
        digest: corpus.digest.clone(),
        skipped: corpus.omitted(),
    }
}

/// Updates the maximum memory of the harness with a phase of the null store.
fn most_memory(most: Option<HarnessMemory>, phase: Option<&RoundMemory>) -> Option<HarnessMemory> {
    let phase = phase?;
    let (empty_bytes, used) = (phase.empty_bytes, phase.anonymous_bytes + phase.kernel_bytes);
    let phase_bytes = phase.peak_bytes.unwrap_or(used).saturating_sub(empty_bytes);
    let before = most.unwrap_or_default();
    Some(HarnessMemory {
        empty_bytes: before.empty_bytes.max(empty_bytes),
        phase_bytes: before.phase_bytes.max(phase_bytes),
    })
}

fn service_p50(round: &crate::result::Round) -> Option<f64> {
    let whole = histogram::whole(round.histogram.service.values()).ok().filter(|whole| !whole.is_empty())?;
    Some(whole.value_at_quantile(0.5) as f64)
}

/// Returns how many seconds the next candidate may spend growing in round 1. The later rounds of candidates that have finished are
/// expected to take as long as their first, and what then remains of the `left` seconds is split evenly over all rounds of the
/// others. `None` once a later round has run: later rounds, and a repeat of the first, grow as far as the first did.
fn growth_seconds(through: &[StoreRound], candidates: usize, rounds: u32, left: f64) -> Option<f64> {
    if through.iter().any(|visit| visit.round > 1) {
        return None;
    }
    let rounds = f64::from(rounds.max(1));
    let later = through.iter().map(|visit| visit.seconds).sum::<f64>() * (rounds - 1.0);
    let to_come = candidates.saturating_sub(through.len()).max(1) as f64;
    Some(((left - later) / (to_come * rounds)).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::work::resolved;
    use crate::result::{AgedImage, Machine};

    fn first_candidate<'a>(plan: &'a Plan, corpus: &'a Corpus) -> CandidateOnCorpus<'a> {
        CandidateOnCorpus { candidate: &plan.candidates[0], corpus, corpus_id: CorpusId::ONLY }
    }

    #[test]
    fn another_version_is_noticed() {
        let facts = |version: &str, pages: &str| {
            Facts::from([("version".into(), version.into()), ("pages".into(), pages.into())])
        };
        assert_eq!(other_version(&facts("8.0", "1"), &facts("8.0", "2")), None);
        let told = other_version(&facts("8.0", "1"), &facts("8.4", "1"));
        assert_eq!(told.as_deref(), Some("version 8.0, then 8.4"));
    }

    #[test]
    fn a_budget_counts_from_where_a_run_begins_or_goes_on() {
        let plan = resolved("stores = ['files/flat']\nbudget = '60s'");
        let mut records = Records::new(candidates(&plan), MeasuringProgram::default(), Machine::default());
        let (since, begin) = (Duration::from_secs(100), Duration::from_secs(103));
        assert_eq!(deadline(&plan, since, begin, &records, false), Some(Duration::from_secs(160)));
        records.program.seconds = 20.0;
        assert_eq!(deadline(&plan, since, begin, &records, true), Some(Duration::from_secs(143)));
    }

    #[test]
    fn of_a_visit_what_is_out_of_reach_with_little_memory_is_known() {
        let plan = resolved(
            "stores = ['files/flat']\nphases = ['fill', 'read-warm', 'read-tight', 'read-tight-zipf', 'read-cold']",
        );
        let corpus = Corpus::build(&plan.corpora[0].request).unwrap();
        let subject = first_candidate(&plan, &corpus);
        let mut visit = crate::engine::run_candidate::nothing_yet(subject);
        for phase in ["read-warm", "read-tight"] {
            visit.phases.insert(phase.to_owned(), PhaseOutcome::NotPossible("why".to_owned()));
        }
        visit.phases.insert("read-tight-zipf".to_owned(), PhaseOutcome::Measured(Box::default()));
        let known = out_of_memory(&plan, &subject, &visit);
        assert_eq!(known, OmittedPhases::from([("read-tight".to_owned(), "why".to_owned())]));
    }

    #[test]
    fn what_a_visit_may_take_is_its_share_of_a_round_or_what_it_is_known_to_take() {
        let plan = resolved("stores = ['files/flat', 'files/hashed']\nbudget = '60s'");
        let corpus = Corpus::build(&plan.corpora[0].request).unwrap();
        let subject = first_candidate(&plan, &corpus);
        let mut records = Records::new(candidates(&plan), MeasuringProgram::default(), Machine::default());
        records.fixed.rounds = 5;
        let foreseen =
            |seconds: f64| VisitSeconds::from([(("files/flat".to_owned(), CorpusId::ONLY), seconds)]);
        let given = |plan: &Plan, records: &Records, foreseen: &VisitSeconds| {
            planned(plan, records, foreseen, &subject).map(|planned| planned.as_secs_f64())
        };
        assert_eq!(given(&plan, &records, &VisitSeconds::new()), Some(6.0));
        assert_eq!(given(&plan, &records, &foreseen(2.0)), Some(6.0));
        assert_eq!(given(&plan, &records, &foreseen(9.0)), Some(9.0));
        let mut visit = crate::engine::run_candidate::nothing_yet(subject);
        visit.seconds = 11.0;
        keep(&mut records, &subject, RoundSlot::first(), visit);
        assert_eq!(given(&plan, &records, &foreseen(9.0)), Some(11.0), "a resumed run has no pilot");
        let endless = resolved("stores = ['files/flat']\nrounds = 2");
        assert_eq!(given(&endless, &records, &VisitSeconds::new()), None);
    }

    #[test]
    fn what_is_filled_and_aged_once_is_not_expected_again() {
        let plan = resolved("stores = ['files/flat', 'files/hashed']\nphases = ['fill', 'read-warm']");
        let corpus = Corpus::build(&plan.corpora[0].request).unwrap();
        let subject = first_candidate(&plan, &corpus);
        let mut records = Records::new(candidates(&plan), MeasuringProgram::default(), Machine::default());
        assert_eq!(seconds_to_come(&records, 3, 1), None);
        let mut add = |round: u32, seconds: f64, phase: &str, is_copy: bool| {
            let mut visit = crate::engine::run_candidate::nothing_yet(subject);
            visit.seconds = seconds;
            visit.images.push(AgedImage {
                phase: "fill".to_owned(),
                sha256: String::new(),
                is_copy,
                allocated_bytes: None,
                fragments_per_blob: None,
            });
            let measured = crate::result::Round {
                round,
                seconds: 30.0,
                settled_seconds: Some(40.0),
                ..Default::default()
            };
            visit.phases.insert(phase.to_owned(), PhaseOutcome::Measured(Box::new(measured)));
            keep(&mut records, &subject, RoundSlot { round, ..RoundSlot::first() }, visit);
            (once_seconds(&records), seconds_to_come(&records, 3, 0), seconds_to_come(&records, 3, 1))
        };
        assert_eq!(add(1, 100.0, "fill", false), (40.0, Some(180.0), Some(220.0)));
        assert_eq!(add(2, 70.0, "read-warm", true), (40.0, Some(195.0), Some(235.0)));
    }

    #[test]
    fn what_was_lost_to_too_little_memory_is_told_once() {
        let plan = resolved("stores = ['files/flat']\nphases = ['fill', 'read-tight', 'range-head']");
        let corpus = Corpus::build(&plan.corpora[0].request).unwrap();
        let subject = first_candidate(&plan, &corpus);
        let mut visit = crate::engine::run_candidate::nothing_yet(subject);
        // What is not possible for another reason cost no time.
        visit.phases.insert("range-head".to_owned(), PhaseOutcome::NotPossible("no range reads".to_owned()));
        assert_eq!(lost_told("files/flat", &visit), None);
        visit.lost_seconds = 21.0;
        visit.lost_to.insert("read-tight".to_owned(), "why".to_owned());
        assert_eq!(
            lost_told("files/flat", &visit).as_deref(),
            Some("`files/flat` ran again without `read-tight` (why); 21 s were lost")
        );
    }

    /// Reports a disturbance of one round once all rounds are done, and stops the run while it repeats that round, if asked to.
    struct DisturbanceReporter<'a> {
        against: u32,
        rounds: u32,
        stop: Option<&'a AtomicBool>,
        notes: Vec<String>,
    }

    impl Observer for DisturbanceReporter<'_> {
        fn event(&mut self, event: Event<'_>) {
            if let Event::Note(note) = event {
                self.notes.push(note.to_owned());
            }
        }

        fn save(&mut self, records: &Records) -> Result<()> {
            if let (Some(stop), false) = (self.stop, records.set_aside.is_empty()) {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            Ok(())
        }

        fn rounds_needed(&mut self, _: &Records, _: u32) -> u32 {
            self.rounds
        }

        fn disturbances(&mut self, records: &Records) -> Result<Vec<Disturbance>> {
            assert_eq!(records.store_rounds.len(), 2 * self.rounds as usize, "at the end");
            let cause = crate::result::Cause::Far { times: 20.0 };
            Ok(vec![Disturbance {
                round: self.against,
                store: None,
                phase: None,
                corpus_id: CorpusId::ONLY,
                cause,
            }])
        }
    }

    /// Runs two candidates in this many rounds, one of which is disturbed.
    fn disturbed_run(against: u32, rounds: u32, is_stopped: bool) -> (Records, Vec<String>) {
        let dir = tempfile::tempdir_in(".").unwrap();
        let text = format!(
            "stores = ['files/flat', 'files/hashed']\nrounds = {rounds}\ncorpus = {{source = 'fixed:1kB', blobs = 20}}\nphases = ['fill']\n\
             dir = '{}'",
            dir.path().display()
        );
        let plan = resolved(&text);
        let stop = AtomicBool::new(false);
        let mut observer =
            DisturbanceReporter { against, rounds, stop: is_stopped.then_some(&stop), notes: Vec::new() };
        let start = Start::alone(&plan, &stop, MeasuringProgram::default()).unwrap();
        let records = run(start, &mut observer).unwrap();
        (records, observer.notes)
    }

    fn rounds_of(records: &Records) -> Vec<Vec<u32>> {
        records.cells.values().map(|cell| cell.rounds.iter().map(|round| round.round).collect()).collect()
    }

    #[test]
    fn a_disturbed_round_is_measured_again_at_the_end_for_all_candidates_with_the_same_keys() {
        let (records, notes) = disturbed_run(2, 5, false);
        assert!(records.complete);
        assert_eq!(rounds_of(&records), [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]);
        let aside = &records.set_aside[0];
        assert_eq!((aside.round, aside.visits.len(), aside.figures.len(), aside.why.len()), (2, 2, 2, 1));
        let order = |visits: &[StoreRound]| -> Vec<(u32, String)> {
            visits.iter().map(|visit| (visit.position, visit.store.clone())).collect()
        };
        assert_eq!(order(&aside.visits), order(&records.store_rounds[8..]));
        let again = records.cells.values().map(|cell| cell.rounds[1].seed);
        assert!(again.eq(aside.figures.iter().map(|figures| figures.measured.seed)));
        assert!(notes.contains(&"round 2 was disturbed; it is measured again".to_owned()), "{notes:?}");
    }

    #[test]
    fn a_round_that_could_not_be_measured_again_stays() {
        let (records, _) = disturbed_run(2, 5, true);
        assert_eq!(rounds_of(&records), [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]);
        assert!(records.set_aside.is_empty() && records.probes.iter().all(|probe| !probe.repeated));
        let (records, _) = disturbed_run(2, 4, false);
        assert!(records.set_aside.is_empty(), "with four rounds nothing is quoted");
    }

    #[test]
    fn a_first_round_that_is_measured_again_grows_as_far_as_before() {
        let visit = |round: u32| StoreRound { round, seconds: 10.0, ..StoreRound::default() };
        assert_eq!(growth_seconds(&[], 2, 5, 100.0), Some(10.0));
        assert_eq!(growth_seconds(&[visit(1)], 2, 5, 90.0), Some(10.0));
        assert_eq!(growth_seconds(&[visit(1)], 2, 5, 30.0), Some(0.0));
        assert_eq!(growth_seconds(&[visit(2), visit(2)], 2, 5, 30.0), None);
    }

    #[test]
    fn a_harness_that_was_cut_short_is_told_from_a_whole_one() {
        let plan = resolved("stores = ['files/flat']\nsweep = '1kB..10kB'");
        assert!(plan.corpora.len() > 1);
        let mut harness = Harness::default();
        for corpus in &plan.corpora {
            assert!(!is_whole(&harness, &plan));
            harness.null_ns.insert(corpus.corpus_id.key("read-warm"), 50.0);
        }
        assert!(is_whole(&harness, &plan));
    }
}
