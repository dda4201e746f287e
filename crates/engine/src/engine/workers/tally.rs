//! Counters and histograms of one worker while the clock runs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

use crate::judge::histogram::{self, BANDS, Histogram};
use crate::redact;
use crate::result::{Counters, Histograms};
use crate::store::{Incidents, OpReport};

/// When an op was due, started and finished, in nanoseconds of the loop's clock.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Time at which it should have started.
    pub due: u64,
    /// Time at which it started.
    pub start: u64,
    /// Time at which it finished.
    pub end: u64,
}

/// The counts of one worker. Their memory does not grow with the number of ops.
#[derive(Debug, Default)]
pub struct Tally {
    open: bool,
    service: [Option<Box<Histogram>>; BANDS.len()],
    response: [Option<Box<Histogram>>; BANDS.len()],
    /// Ops attempted, including those that failed, which `counters` has too.
    pub ops: u64,
    /// Blobs in these ops.
    pub blobs: u64,
    /// Bytes of the ops that succeeded.
    pub bytes: u64,
    /// Completed passes over the list.
    pub passes: u64,
    /// Failures, retries and other incidents.
    pub counters: Counters,
    /// True if the first op of the session is recorded separately.
    pub first_apart: bool,
    /// Service times of these first ops, in nanoseconds.
    pub first_ops_ns: Vec<u64>,
    /// Number of syncs.
    pub syncs: u64,
    /// Time spent in syncs, in nanoseconds.
    pub sync_ns: u64,
    /// Ops that came due while this worker was busy, and therefore every worker that could do them.
    pub busy_when_due: u64,
    /// Delays between the due time of an op and the wake-up of the worker that waited for it. Open loops only.
    pub wake_late: Option<Box<Histogram>>,
    /// Start of the measurement: the moment from which the first op could begin.
    pub begin: u64,
    /// End of the last op or sync.
    pub end: u64,
    /// The last instant at which an op was due.
    pub last_due: u64,
    /// Processor time of the worker's thread, in nanoseconds.
    pub cpu_ns: u64,
    /// Times of the separately timed steps of ops, by name.
    pub steps: Vec<(&'static str, Box<Histogram>)>,
    /// Counts reported by sessions, by name: the sum, and the number of ops.
    pub counts: Vec<(&'static str, u64, u64)>,
    /// Time between ops that sessions took to prepare or report, in nanoseconds.
    pub aside_ns: u64,
}

impl Tally {
    /// Returns an empty tally for the size bands that occur. Response times are recorded in a closed loop too, so that both loops
    /// cost the same; they are meaningless there and not reported.
    pub fn new(bands: [bool; BANDS.len()], open: bool) -> Tally {
        let make = |wanted: bool| wanted.then(|| Box::new(histogram::new()));
        Tally {
            open,
            service: bands.map(make),
            response: bands.map(make),
            first_apart: true,
            wake_late: make(open),
            ..Tally::default()
        }
    }

    /// Drops some histograms, to measure their cost.
    pub fn keep(mut self, service: bool, response: bool) -> Tally {
        let none = || [const { None }; BANDS.len()];
        if !service {
            self.service = none();
        }
        if !response {
            self.response = none();
        }
        self
    }

    /// Records an op that succeeded.
    #[inline]
    pub fn record(&mut self, band: usize, times: Times) {
        if self.first_apart && self.first_ops_ns.is_empty() {
            self.first_ops_ns.push(times.end - times.start);
            return;
        }
        if let Some(service) = &mut self.service[band] {
            service.saturating_record(u64::max(times.end - times.start, 1));
        }
        if let Some(response) = &mut self.response[band] {
            response.saturating_record(u64::max(times.end - times.due, 1));
        }
    }

    /// Records how many nanoseconds after an op was due the worker that waited for it woke up.
    #[inline]
    pub fn woke(&mut self, late_ns: u64) {
        if let Some(late) = &mut self.wake_late {
            late.saturating_record(late_ns.max(1));
        }
    }

    /// Records a step of an op. Steps of a first op that is recorded separately are dropped.
    pub fn step(&mut self, name: &'static str, ns: u64) {
        if self.first_apart && self.first_ops_ns.is_empty() {
            return;
        }
        let place = self.steps.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            self.steps.push((name, Box::new(histogram::new())));
            self.steps.len() - 1
        });
        self.steps[place].1.saturating_record(ns.max(1));
    }

    /// Records what a session reports about an op. Reports on a first op that is recorded separately are dropped.
    pub fn report_op(&mut self, told: OpReport) {
        match told {
            OpReport::Time(name, ns) => self.step(name, ns),
            OpReport::Count(..) if self.first_apart && self.first_ops_ns.is_empty() => {}
            OpReport::Count(name, number) => self.count(name, number, 1),
        }
    }

    /// Adds the incidents that a session reports for the ops so far.
    pub fn happened(&mut self, incidents: Incidents) {
        self.counters.retries += incidents.repeats;
        self.counters.cache_misses += incidents.cache_misses;
    }

    fn count(&mut self, name: &'static str, number: u64, ops: u64) {
        match self.counts.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, sum, all)) => (*sum, *all) = (*sum + number, *all + ops),
            None => self.counts.push((name, number, ops)),
        }
    }

    /// Wall time of a phase with this many workers, in seconds, without the time that they spent between ops.
    pub fn seconds(&self, workers: usize) -> f64 {
        let wall_ns = (self.end - self.begin) as f64;
        (wall_ns - self.aside_ns as f64 / workers as f64) / 1e9
    }

    /// Records a failure.
    pub fn fail(&mut self, why: impl FnOnce() -> String) {
        self.counters.errors += 1;
        self.counters.first_error.get_or_insert_with(|| redact::of_error(&why()));
    }

    /// Adds the counts of another worker. Start and end become those of both.
    pub fn add(&mut self, other: &Tally) {
        let merge = |all: &mut [Option<Box<Histogram>>], more: &[Option<Box<Histogram>>]| {
            for (all, more) in all.iter_mut().zip(more) {
                match (all, more) {
                    (Some(all), Some(more)) => histogram::add(all, more),
                    (all @ None, Some(more)) => *all = Some(more.clone()),
                    (_, None) => {}
                }
            }
        };
        merge(&mut self.service, &other.service);
        merge(&mut self.response, &other.response);
        merge(std::slice::from_mut(&mut self.wake_late), std::slice::from_ref(&other.wake_late));
        self.first_ops_ns.extend(&other.first_ops_ns);
        // A worker without ops was only woken.
        if other.ops > 0 {
            let (begin, end) = (other.begin, other.end);
            (self.begin, self.end) =
                if self.ops > 0 { (self.begin.min(begin), self.end.max(end)) } else { (begin, end) };
        }
        self.ops += other.ops;
        self.blobs += other.blobs;
        self.bytes += other.bytes;
        self.passes = self.passes.max(other.passes);
        self.counters.add(&other.counters);
        self.syncs += other.syncs;
        self.sync_ns += other.sync_ns;
        self.busy_when_due += other.busy_when_due;
        self.last_due = self.last_due.max(other.last_due);
        self.cpu_ns += other.cpu_ns;
        self.aside_ns += other.aside_ns;
        other.counts.iter().for_each(|(name, number, ops)| self.count(name, *number, *ops));
        for (name, more) in &other.steps {
            match self.steps.iter_mut().find(|(known, _)| known == name) {
                Some((_, all)) => histogram::add(all, more),
                None => self.steps.push((name, more.clone())),
            }
        }
    }

    /// Returns the histograms for the result file.
    pub fn histograms(&self) -> Result<Histograms> {
        let mut steps = BTreeMap::new();
        for (name, times) in &self.steps {
            steps.insert((*name).to_owned(), histogram::encode(times)?);
        }
        Ok(Histograms {
            steps,
            service: encoded(&self.service)?,
            response: if self.open { encoded(&self.response)? } else { BTreeMap::new() },
        })
    }

    /// Returns all service times in one histogram.
    pub fn service(&self) -> Histogram {
        let mut all = histogram::new();
        self.service.iter().flatten().for_each(|band| histogram::add(&mut all, band));
        all
    }

    /// Returns all response times in one histogram.
    pub fn response(&self) -> Histogram {
        let mut all = histogram::new();
        self.response.iter().flatten().for_each(|band| histogram::add(&mut all, band));
        all
    }
}

/// A tally in the form in which it is sent to another process. Times are relative to the instant at which all workers were to
/// begin.
#[derive(Debug, Serialize, Deserialize)]
pub struct SentTally {
    open: bool,
    service: Vec<Option<String>>,
    response: Vec<Option<String>>,
    wake_late: Option<String>,
    /// Ops, blobs, bytes, passes, syncs, their time, ops that came due while all were busy, processor time, time between ops.
    numbers: [u64; 9],
    counters: Counters,
    first_apart: bool,
    first_ops_ns: Vec<u64>,
    /// Start, end and last due time, relative to the agreed instant.
    moments: [i64; 3],
    steps: Vec<(String, String)>,
    counts: Vec<(String, u64, u64)>,
}

impl Tally {
    /// Converts the tally for another process, whose workers began at the same instant.
    pub fn sent(&self, instant: u64) -> Result<SentTally> {
        let texts = |bands: &[Option<Box<Histogram>>]| -> Result<Vec<Option<String>>> {
            bands.iter().map(|band| band.as_deref().map(histogram::encode).transpose()).collect()
        };
        let since = |moment: u64| moment.wrapping_sub(instant) as i64;
        let steps =
            self.steps.iter().map(|(name, times)| Ok(((*name).to_owned(), histogram::encode(times)?)));
        Ok(SentTally {
            open: self.open,
            service: texts(&self.service)?,
            response: texts(&self.response)?,
            wake_late: self.wake_late.as_deref().map(histogram::encode).transpose()?,
            numbers: [
                self.ops,
                self.blobs,
                self.bytes,
                self.passes,
                self.syncs,
                self.sync_ns,
                self.busy_when_due,
                self.cpu_ns,
                self.aside_ns,
            ],
            counters: self.counters.clone(),
            first_apart: self.first_apart,
            first_ops_ns: self.first_ops_ns.clone(),
            moments: [since(self.begin), since(self.end), since(self.last_due)],
            steps: steps.collect::<Result<_>>()?,
            counts: self.counts.iter().map(|(name, sum, ops)| ((*name).to_owned(), *sum, *ops)).collect(),
        })
    }
}

impl SentTally {
    /// Converts a received tally to this process's clock, on which all began at `instant`.
    pub fn received(self, instant: u64) -> Result<Tally> {
        let times =
            |text: Option<String>| text.map(|text| histogram::decode(&text).map(Box::new)).transpose();
        let bands = |texts: Vec<Option<String>>| -> Result<[Option<Box<Histogram>>; BANDS.len()]> {
            let all: Vec<_> = texts.into_iter().map(times).collect::<Result<_>>()?;
            all.try_into().map_err(|_other| anyhow!("a tally of other bands"))
        };
        let moment = |since: i64| instant.saturating_add_signed(since);
        let [ops, blobs, bytes, passes, syncs, sync_ns, busy_when_due, cpu_ns, aside_ns] = self.numbers;
        let [begin, end, last_due] = self.moments.map(moment);
        let step = |(name, text): (String, String)| Ok((interned(name), Box::new(histogram::decode(&text)?)));
        Ok(Tally {
            open: self.open,
            service: bands(self.service)?,
            response: bands(self.response)?,
            ops,
            blobs,
            bytes,
            passes,
            counters: self.counters,
            first_apart: self.first_apart,
            first_ops_ns: self.first_ops_ns,
            syncs,
            sync_ns,
            busy_when_due,
            wake_late: times(self.wake_late)?,
            begin,
            end,
            last_due,
            cpu_ns,
            steps: self.steps.into_iter().map(step).collect::<Result<_>>()?,
            counts: self.counts.into_iter().map(|(name, sum, ops)| (interned(name), sum, ops)).collect(),
            aside_ns,
        })
    }
}

/// Interns the name of a step. The memory is leaked, because there are only a few names.
fn interned(name: String) -> &'static str {
    static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    match names.iter().find(|known| **known == name) {
        Some(known) => known,
        None => {
            let kept: &'static str = Box::leak(name.into_boxed_str());
            names.push(kept);
            kept
        }
    }
}

fn encoded(bands: &[Option<Box<Histogram>>; BANDS.len()]) -> Result<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    for (name, band) in BANDS.iter().zip(bands) {
        if let Some(band) = band.as_ref().filter(|band| !band.is_empty()) {
            texts.insert((*name).to_owned(), histogram::encode(band)?);
        }
    }
    Ok(texts)
}
