//! A ladder of offered rates, climbed until the first failure. It finds the highest rate at which response times stay within a
//! limit.
//!
//! The ladder is the same for all stores of a run, and each rung is drained before the next one begins.

use std::cell::Cell;
use std::sync::Arc;

use super::super::candidate_run::phases::open_loop;
use super::super::candidate_run::{CandidateRun, PhaseOutcome, PhaseRun};
use super::super::ops::{OpDistribution, lists};
use super::super::workers::log::LogOps;
use super::super::workers::pace::ProcessShare;
use super::super::workers::pool::{Open, WorkerPool};
use super::super::workers::tally::Tally;
use super::replay::{replayed, why_not};
use super::{Forecast, LengthInputs, Work, WorkKind, ops};
use crate::judge::LADDER_STEP;
use crate::judge::histogram::{self, Histogram};
use crate::plan::{Action, CacheState, Phase, Plan, ResponseLimit, StandardPhase, Workload};
use crate::result::{FixedLength, Rung};
use crate::rules::ACHIEVED_MIN;
use crate::trace::{Op, Replay};

/// First rate of the ladder if no pilot has measured the stores, in ops per second.
const FIRST_OPS_PER_S: f64 = 100.0;
/// First rate of the ladder, as a share of the rate of the slowest store in a closed loop.
const FIRST_SHARE: f64 = 0.25;
/// Highest rate that is offered, in ops per second: ops that come due faster cannot be served one by one.
const OPS_PER_S_MAX: f64 = 1e7;
/// Ops that a rung should have beyond its percentile for this to be meaningful.
const OPS_BEYOND: f64 = 10.0;
/// Maximum duration of a rung, in seconds. Rates too low for the percentile within that time are not offered.
const SECONDS_MAX: f64 = 10.0;

const RUNG_SECONDS_MIN: f64 = 0.3;

const NAME: &str = "ramp";
const STANDARD: &[StandardPhase] = &[StandardPhase {
    id: NAME,
    about: "reads whole blobs, warm, at one offered rate after the other: the highest one within `--limit` [default: p99=50ms]; with \
            `--trace`, its requests",
    phases: || {
        let climbs = Phase {
            kind: NAME,
            action: Action::RateLadder(ops::reads()),
            ..Phase::of_ops(NAME, ops::reads())
        };
        vec![Phase { cache: CacheState::Warm, ..climbs }]
    },
}];

pub(super) const KIND: WorkKind = WorkKind { name: NAME, standard: STANDARD, work: &RampWork };

struct RampWork;

impl Work for RampWork {
    fn length(&self, asked: &LengthInputs<'_>, _phase: &Phase) -> FixedLength {
        let seconds = asked.choice.read_seconds.max(RUNG_SECONDS_MIN) * asked.plan.scale.min(1.0);
        FixedLength { ops: asked.blobs, seconds, ..FixedLength::default() }
    }

    fn first_ops_per_s(&self, plan: &Plan, closed_ops_per_s: &mut dyn Iterator<Item = f64>) -> Option<f64> {
        Some(first_rate(&plan.limit, closed_ops_per_s))
    }

    fn seconds(&self, forecast: &Forecast<'_>) -> f64 {
        let (round, length) = (forecast.round, forecast.length);
        let closed = round.acknowledged_per_s();
        let first = length.first_ops_per_s.unwrap_or(closed);
        let service = histogram::whole(round.histogram.service.values()).unwrap_or_else(|_| histogram::new());
        forecast.beside() + ladder_seconds(&forecast.plan.limit, length.seconds, first, closed, &service)
    }

    fn is_for_clients(&self, _phase: &Phase) -> bool {
        true
    }

    fn run(&self, candidate_run: &mut CandidateRun<'_>, phase: &Phase, _repeat: Option<&Phase>) -> PhaseRun {
        let Some(load) = phase.load() else { return Ok(None) };
        candidate_run.climb(phase, load)
    }
}

impl CandidateRun<'_> {
    /// Offers one rate after the other. In the pilot, which determines the first rate, runs a closed loop instead.
    fn climb(&mut self, phase: &Phase, load: &Workload) -> PhaseRun {
        let log = self.subject.corpus.log.as_ref();
        if let Some(why) = log.and_then(|log| self.why_not_offered(log)) {
            return Ok(Some(PhaseOutcome::NotPossible(why)));
        }
        log.map_or(Ok(()), |log| self.begin_log(log))?;
        self.warm_up()?;
        let (plan, length, seed) = (self.plan(), self.length(phase)?, self.seed(phase, load));
        let Some(first) = length.first_ops_per_s else { return self.load(phase, load) };
        let workers = load.workers.unwrap_or(plan.workers);
        let lists = lists(load, &self.state, length.ops, plan.batch_of(load), OpDistribution::Shared, seed);
        self.begin_memory();
        let (store, class) = self.store()?;
        let mut job = self.job(load, lists, length, class);
        let (rungs, best) = climb(&plan.limit, first, |ops_per_s| -> anyhow::Result<_> {
            if self.run.stopped() {
                return Ok(None);
            }
            let seconds = rung_seconds(&plan.limit, length.seconds, ops_per_s);
            job.log = log.map(|log| Arc::new(LogOps::at_rate(log, ops_per_s, seconds, workers)));
            job.open = Some(Open {
                arrivals: plan.arrivals,
                ops_per_s,
                seconds,
                ops_max: u64::MAX,
                seed,
                part: ProcessShare::WHOLE,
            });
            let mut meters = [self.meter()];
            let one_transaction = self.is_one_transaction(phase);
            let pool = WorkerPool { one_transaction, ..self.pool(store, workers) };
            let (tally, clients) = self.by_all(pool, &job, &mut meters)?;
            let rung = judge(&plan.limit, ops_per_s, &tally);
            let [meter] = meters;
            let is_hopeless = is_hopeless(&plan.limit, &tally.service());
            Ok(Some(RungOutcome { rung, is_hopeless, left: (ops_per_s, tally, meter, clients) }))
        })?;
        match best {
            Some((ops_per_s, tally, meter, clients)) => {
                let mut round = self.new_round(seed);
                round.clients = clients;
                // Reports the rate that was offered, not the one that random arrivals made of it.
                round.seconds = tally.ops as f64 / ops_per_s;
                // The lists are not what is read of a log.
                round.hot = if log.is_some() { None } else { self.hot(load, &job.lists, tally.blobs) };
                round.open = Some(open_loop(ops_per_s, &tally));
                round.replayed = log.map(|log| replayed(log, Some(ops_per_s / log.ops_per_s()), ops_per_s));
                round.rungs = rungs;
                self.measured(round, &tally, &meter)
            }
            None => {
                let (rate, why) = rungs
                    .last()
                    .map(|rung| (rung.offered_ops_per_s, rung.failure.clone().unwrap_or_default()))
                    .unwrap_or_default();
                let rate = crate::units::count(rate);
                let why = format!("not even {rate} ops/s, the lowest rate offered: {why}");
                Ok(Some(PhaseOutcome::NotPossible(why)))
            }
        }
    }
}

impl CandidateRun<'_> {
    /// Returns why the requests of a log cannot be offered at one rate after the other; `None` if they can.
    fn why_not_offered(&self, log: &Replay) -> Option<String> {
        let (wanted, requests) = (ops_wanted(&self.plan().limit).round(), log.steps().len());
        if log.has(Op::Put) || log.has(Op::Delete) {
            return Some("the log writes, and each rate would find what the one before it wrote".to_owned());
        }
        if let Some(why) = why_not(log, &self.caps()) {
            return Some(why.to_owned());
        }
        // The pilot has few blobs.
        let is_short = self.slot.round > 0 && (requests as f64) < wanted;
        is_short.then(|| format!("the log has {requests} requests, and the percentile needs {wanted}"))
    }
}

fn ops_wanted(limit: &ResponseLimit) -> f64 {
    OPS_BEYOND / (1.0 - limit.share)
}

fn lowest_rate(limit: &ResponseLimit) -> f64 {
    ops_wanted(limit) / SECONDS_MAX
}

/// Returns the rate of the first rung, from the rates of closed loops in the pilot.
fn first_rate(limit: &ResponseLimit, closed_ops_per_s: impl Iterator<Item = f64>) -> f64 {
    let slowest = closed_ops_per_s.filter(|rate| rate.is_finite()).reduce(f64::min);
    let first = slowest.map_or(FIRST_OPS_PER_S, |slowest| slowest * FIRST_SHARE);
    first.clamp(lowest_rate(limit), OPS_PER_S_MAX).round()
}

/// Number of rungs from the first rate up to a store's rate in a closed loop, plus one that fails.
fn rungs(first_ops_per_s: f64, closed_ops_per_s: f64) -> f64 {
    ((closed_ops_per_s / first_ops_per_s).ln() / LADDER_STEP.ln()).max(0.0).ceil() + 1.0
}

/// Estimates how long a store takes to climb the ladder, in seconds, from its rate and service times in a closed loop: it climbs
/// to about that rate or, if its response times exceed the limit, does one rung and the descent.
fn ladder_seconds(
    limit: &ResponseLimit,
    length_seconds: f64,
    first_ops_per_s: f64,
    closed_ops_per_s: f64,
    service: &Histogram,
) -> f64 {
    let rung = |rate| rung_seconds(limit, length_seconds, rate);
    if is_hopeless(limit, service) {
        rung(first_ops_per_s)
    } else if service.value_at_quantile(limit.share) > limit.ns {
        rung(first_ops_per_s) + rung(lowest_rate(limit))
    } else {
        rungs(first_ops_per_s, closed_ops_per_s) * rung(closed_ops_per_s)
    }
}

/// True if half of the ops exceed the limit by their service time alone, so that no lower rate helps.
fn is_hopeless(limit: &ResponseLimit, service: &Histogram) -> bool {
    !service.is_empty() && service.value_at_quantile(0.5) > limit.ns
}

/// Returns the duration of a rung in seconds: as asked, or longer if the percentile needs more ops.
fn rung_seconds(limit: &ResponseLimit, asked_seconds: f64, ops_per_s: f64) -> f64 {
    asked_seconds.max(ops_wanted(limit) / ops_per_s)
}

struct RungOutcome<T> {
    rung: Rung,
    /// True if no lower rate would help.
    is_hopeless: bool,
    /// What `offer` returned with it.
    left: T,
}

/// Climbs the ladder. `offer` runs a rung at a rate and returns its result, or `None` if it was stopped. Returns every rung that
/// was tried, and `left` of the highest one below the first failure.
fn climb<T, E>(
    limit: &ResponseLimit,
    first_ops_per_s: f64,
    mut offer: impl FnMut(f64) -> Result<Option<RungOutcome<T>>, E>,
) -> Result<(Vec<Rung>, Option<T>), E> {
    let mut tried = Vec::new();
    let hopeless = Cell::new(false);
    // Offers a rate, and returns `left` if it passed.
    let mut passes = |rate: f64| -> Result<Option<T>, E> {
        let Some(RungOutcome { rung, is_hopeless, left }) = offer(rate)? else { return Ok(None) };
        let passed = rung.failure.is_none();
        tried.push(rung);
        hopeless.set(!passed && is_hopeless);
        Ok(passed.then_some(left))
    };
    let mut best = None;
    let mut rate = first_ops_per_s;
    while rate <= OPS_PER_S_MAX {
        let Some(left) = passes(rate)? else { break };
        best = Some(left);
        rate *= LADDER_STEP;
    }
    let lowest = lowest_rate(limit);
    if best.is_none() && lowest < first_ops_per_s && !hopeless.get() {
        // A store that fails the lowest rung fails all of them: trying it first avoids a long descent.
        best = passes(lowest)?;
        rate = first_ops_per_s / LADDER_STEP;
        while best.is_some() && rate > lowest {
            if let Some(left) = passes(rate)? {
                best = Some(left);
                break;
            }
            rate /= LADDER_STEP;
        }
    }
    Ok((tried, best))
}

fn judge(limit: &ResponseLimit, offered_ops_per_s: f64, tally: &Tally) -> Rung {
    let response_ns = tally.response().value_at_quantile(limit.share);
    let due_ns = tally.last_due.saturating_sub(tally.begin) as f64;
    // Ops that are still running for no longer than the limit are not late.
    let late_ns = tally.end.saturating_sub(tally.last_due).saturating_sub(limit.ns) as f64;
    let all_ns = (due_ns + late_ns).max(1.0);
    let achieved_share = (due_ns / all_ns).min(1.0);
    let failure = if tally.counters.errors > 0 {
        Some(format!(
            "{} ops failed: {}",
            tally.counters.errors,
            tally.counters.first_error.as_deref().unwrap_or("no reason was reported")
        ))
    } else if tally.ops == 0 {
        Some("no op came due".to_owned())
    } else if response_ns > limit.ns {
        Some(format!("{} above the limit", limit.name()))
    } else if achieved_share < ACHIEVED_MIN {
        Some("less than 99 % of the offered rate was achieved".to_owned())
    } else {
        None
    };
    Rung { offered_ops_per_s, achieved_share, response_ns, ops: tally.ops, failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEDIAN: ResponseLimit = ResponseLimit { share: 0.5, ns: 1 };

    fn climbed(first: f64, can: f64) -> (Vec<f64>, Option<f64>) {
        let offer = |rate: f64| {
            let failure = (rate > can).then(|| "too much".to_owned());
            let rung = Rung { offered_ops_per_s: rate, achieved_share: 1.0, response_ns: 1, ops: 1, failure };
            Ok::<_, ()>(Some(RungOutcome { rung, is_hopeless: false, left: rate }))
        };
        let (tried, best) = climb(&MEDIAN, first, offer).unwrap();
        (tried.iter().map(|rung| rung.offered_ops_per_s).collect(), best)
    }

    #[test]
    fn the_value_is_the_last_rung_before_the_first_failure() {
        let (tried, best) = climbed(100.0, 200.0);
        assert_eq!(tried, [100.0, 125.0, 156.25, 195.3125, 244.140625]);
        assert_eq!(best, Some(195.3125));
    }

    #[test]
    fn whoever_cannot_do_the_first_rung_goes_down_to_one_it_can() {
        let (tried, best) = climbed(100.0, 70.0);
        assert_eq!(tried, [100.0, 2.0, 80.0, 64.0]);
        assert_eq!(best, Some(64.0));
        let (tried, best) = climbed(2.2, 2.1);
        assert_eq!((tried, best), (vec![2.2, 2.0], Some(2.0)));
        let (tried, best) = climbed(100.0, 1.0);
        assert_eq!((tried, best), (vec![100.0, 2.0], None), "a median of less than 20 ops is none");
    }

    #[test]
    fn a_failure_above_ends_the_climb_whatever_would_come_behind_it() {
        let mut offers = 0;
        let (tried, best) = climb(&MEDIAN, 100.0, |rate| {
            offers += 1;
            let failure = (offers == 2).then(|| "a stall".to_owned());
            let rung = Rung { offered_ops_per_s: rate, achieved_share: 1.0, response_ns: 1, ops: 1, failure };
            Ok::<_, ()>(Some(RungOutcome { rung, is_hopeless: false, left: rate }))
        })
        .unwrap();
        assert_eq!((tried.len(), best), (2, Some(100.0)));
    }

    #[test]
    fn nobody_goes_down_where_no_rate_helps() {
        let mut offers = Vec::new();
        let (tried, best) = climb(&MEDIAN, 100.0, |rate| {
            offers.push(rate);
            let rung = Rung { failure: Some("too slow".to_owned()), ..Rung::default() };
            Ok::<_, ()>(Some(RungOutcome { rung, is_hopeless: true, left: () }))
        })
        .unwrap();
        assert_eq!((offers, tried.len(), best), (vec![100.0], 1, None));
    }

    #[test]
    fn ladders_that_will_fail_are_planned_with_their_way_down() {
        let limit = ResponseLimit { share: 0.99, ns: 1_000_000 };
        let of = |slow_ns: u64, many: u64| {
            let mut service = histogram::new();
            service.record_n(1000, 100).unwrap();
            service.record_n(slow_ns, many as u32).unwrap();
            ladder_seconds(&limit, 1.0, 2000.0, 2000.0, &service)
        };
        assert_eq!(of(1000, 10), 1.0, "all are fast");
        assert_eq!(of(2_000_000, 10), 1.0 + SECONDS_MAX, "a tenth is slow");
        assert_eq!(of(2_000_000, 1000), 1.0, "all are slow");
    }

    #[test]
    fn a_rung_is_as_long_as_its_percentile_needs() {
        let limit = ResponseLimit { share: 0.99, ns: 1 };
        assert_eq!(rung_seconds(&limit, 1.0, 100_000.0), 1.0);
        assert!((rung_seconds(&limit, 1.0, 200.0) - 5.0).abs() < 1e-9);
        let slow = first_rate(&limit, std::iter::once(20.0));
        assert!((rung_seconds(&limit, 1.0, slow) - SECONDS_MAX).abs() < 1e-9);
    }

    #[test]
    fn the_ladder_begins_below_the_slowest() {
        assert_eq!(first_rate(&MEDIAN, [4000.0, 1000.0, f64::NAN].into_iter()), 250.0);
        assert_eq!(first_rate(&MEDIAN, std::iter::empty()), FIRST_OPS_PER_S);
        assert_eq!(rungs(100.0, 100.0), 1.0);
        assert_eq!(rungs(100.0, 200.0), 5.0);
    }
}
