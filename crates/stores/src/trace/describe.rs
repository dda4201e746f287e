//! What a log is: its ops, objects, sizes, popularity, reuse and rates, and the synthetic plan that is nearest to it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::objects::Objects;
use super::zipf::{Popularity, fit};
use super::{Counts, LogReader, Op, Reading, Request};

/// Shares of the bytes of all objects for which the misses of a cache are computed.
const MEMORY: [f64; 8] = [0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0];
/// Quantiles of sizes, in per cent.
const QUANTILES: [u32; 8] = [1, 10, 25, 50, 75, 90, 99, 100];
/// Quantiles of sizes that a plan has, in per cent.
const PLANNED: [u32; 6] = [10, 25, 50, 75, 90, 99];
/// Ops that a plan has, with their names in its mix and their phases.
const KINDS: [(Op, &str, &str); 4] = [
    (Op::Get, "read=", ",read-warm"),
    (Op::Range, "range=", ",range-random"),
    (Op::Put, "overwrite=", ",overwrite"),
    (Op::Delete, "delete=", ",delete-half"),
];
/// Ops with a smaller share are not part of the plan.
const SHARE_MIN: f64 = 0.01;
/// Exponent from which reads are nearer to the zipfian ones of a plan (0.99) than to uniform ones.
const ZIPFIAN_FROM: f64 = 0.5;
/// A request that starts so much earlier than one before it, in microseconds, is out of order.
const BACK_US: i64 = 60_000_000;

/// Description of a log.
#[derive(Clone, Debug, Serialize)]
pub struct Description {
    /// Name of the format.
    pub format: &'static str,
    /// Lines that were read.
    #[serde(flatten)]
    pub counts: Counts,
    /// Requests, failed ones included.
    pub requests: u64,
    /// Requests by what they did.
    pub ops: BTreeMap<&'static str, u64>,
    /// Objects that were named by requests.
    pub objects: f64,
    /// Share of the objects that everything about objects is computed from: 1 for all.
    pub sampled_share: f64,
    /// Bytes transferred.
    pub sent_bytes: u64,
    /// Bytes of all objects; absent if no size is known.
    pub object_bytes: Option<f64>,
    /// Share of the objects of unknown size. They count as the mean of the others.
    pub unknown_size_share: f64,
    /// Sizes of objects in bytes, by quantile in per cent.
    pub sizes: BTreeMap<u32, u64>,
    /// How unequally objects are read; absent if too few are read often.
    pub popularity: Option<Popularity>,
    /// Share of the objects that were read once, among those that were read.
    pub one_hit_share: Option<f64>,
    /// Share of the reads that are the first of their object.
    pub first_read_share: Option<f64>,
    /// Misses of an LRU cache by its memory.
    pub misses: Vec<Miss>,
    /// Requests over time.
    pub rate: Option<Rate>,
    /// The nearest synthetic plan, as a command.
    pub plan: String,
}

/// Misses of an LRU cache.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Miss {
    /// Memory as a share of the bytes of all objects; of their number if no size is known.
    pub memory_share: f64,
    /// Share of the reads that miss, first reads included.
    pub miss_share: f64,
    /// Half of the 95 % interval that follows from sampling; 0 without.
    pub error: f64,
}

/// Requests over time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rate {
    /// First second, since 1970 or the beginning of the trace.
    pub first_second: i64,
    /// Last second.
    pub last_second: i64,
    /// Mean number of requests a second.
    pub mean: f64,
    /// Most requests within a second of the clock.
    pub peak_second: u64,
    /// Most requests within a minute of the clock.
    pub peak_minute: u64,
    /// Share of the seconds without a request.
    pub quiet_share: f64,
    /// Requests that start more than a minute before an earlier one.
    pub out_of_order: u64,
}

/// Reads a log to its end and describes it. `progress` is called now and then.
pub fn describe(reader: &mut LogReader, mut progress: impl FnMut(Reading)) -> Description {
    let mut totals = Totals::default();
    while let Some(request) = reader.next_request() {
        totals.note(&request);
        if totals.requests.is_multiple_of(super::PROGRESS_EVERY) {
            progress(reader.reading(totals.requests));
        }
    }
    totals.description(reader)
}

/// What a log was so far.
#[derive(Default)]
struct Totals {
    requests: u64,
    ops: [u64; Op::ALL.len()],
    sent_bytes: u64,
    objects: Objects,
    seconds: Buckets,
    minutes: Buckets,
    span: Option<(i64, i64)>,
    out_of_order: u64,
}

impl Totals {
    fn note(&mut self, request: &Request) {
        self.requests += 1;
        self.ops[request.op as usize] += 1;
        self.sent_bytes = self.sent_bytes.saturating_add(request.sent);
        if request.op.names_an_object() {
            self.objects.note(request.op, request.key, request.size);
        }
        let at = request.start_us;
        self.seconds.note(at.div_euclid(1_000_000));
        self.minutes.note(at.div_euclid(60_000_000));
        let (first, last) = self.span.unwrap_or((at, at));
        self.out_of_order += u64::from(last.saturating_sub(at) > BACK_US);
        self.span = Some((first.min(at), last.max(at)));
    }

    fn op_count(&self, op: Op) -> u64 {
        self.ops[op as usize]
    }

    fn description(self, reader: &LogReader) -> Description {
        let reads = self.op_count(Op::Get) + self.op_count(Op::Range);
        let objects = &self.objects;
        let by_object = objects.reads();
        let once = by_object.iter().filter(|(a, b)| a + b == 1).count() as f64;
        let sizes = objects.sizes();
        let popularity = fit(&by_object, objects.share());
        let miss = |memory_share: f64| {
            let whole = objects.bytes().unwrap_or_else(|| objects.objects());
            let (miss_share, error) = objects.misses(memory_share * whole, reads);
            Miss { memory_share, miss_share, error }
        };
        Description {
            format: reader.format().name(),
            counts: reader.counts.clone(),
            requests: self.requests,
            ops: Op::ALL
                .iter()
                .map(|op| (op.name(), self.op_count(*op)))
                .filter(|(_, ops)| *ops > 0)
                .collect(),
            objects: objects.objects(),
            sampled_share: objects.share(),
            sent_bytes: self.sent_bytes,
            object_bytes: objects.bytes(),
            unknown_size_share: objects.unknown_share(),
            sizes: QUANTILES
                .iter()
                .filter_map(|percent| Some((*percent, quantile(&sizes, *percent)?)))
                .collect(),
            popularity,
            one_hit_share: (!by_object.is_empty()).then(|| once / by_object.len() as f64),
            first_read_share: (reads > 0).then(|| objects.first_reads(reads)),
            misses: if reads > 0 { MEMORY.map(miss).to_vec() } else { Vec::new() },
            plan: self.plan(&sizes, popularity),
            rate: self.rate(),
        }
    }

    fn rate(self) -> Option<Rate> {
        let (first, last) = self.span?;
        let (first_second, last_second) = (first.div_euclid(1_000_000), last.div_euclid(1_000_000));
        let seconds = (last_second - first_second + 1) as f64;
        let (peak_second, busy) = self.seconds.finish();
        Some(Rate {
            first_second,
            last_second,
            mean: self.requests as f64 / seconds,
            peak_second,
            peak_minute: self.minutes.finish().0,
            quiet_share: (1.0 - busy as f64 / seconds).max(0.0),
            out_of_order: self.out_of_order,
        })
    }

    /// The command of the plan whose sizes, kinds of op and order of reads are nearest. Memory is a guess: no log says how much of its
    /// objects the server could cache.
    fn plan(&self, sizes: &[u64], popularity: Option<Popularity>) -> String {
        let all: u64 = KINDS.iter().map(|(op, ..)| self.op_count(*op)).sum();
        let mut command = "blobwise run".to_owned();
        if let Some(corpus) = corpus(sizes) {
            command += &format!(" --corpus {corpus}");
        }
        command += " --phases fill";
        let mut mix = Vec::new();
        for (op, kind, phases) in KINDS {
            let share = self.op_count(op) as f64 / all.max(1) as f64;
            if share >= SHARE_MIN {
                command += phases;
                mix.push(format!("{kind}{share:.3}"));
            }
            if op == Op::Get && share >= SHARE_MIN {
                let is_zipfian = popularity.is_some_and(|of| of.exponent >= ZIPFIAN_FROM);
                command += if is_zipfian { ",read-tight-zipf" } else { ",read-tight" };
            }
        }
        if mix.len() > 1 {
            command += &format!(" --mix {}", mix.join(","));
        }
        command + " --memory 25%"
    }
}

/// The sizes of a corpus as `--corpus` takes them, to three digits.
fn corpus(sizes: &[u64]) -> Option<String> {
    /// Below the largest blob that a run makes.
    const BYTES_MAX: u64 = 4_000_000_000;
    let rounded = |bytes: u64| {
        let unit = 10_u64.pow(bytes.max(1).ilog10().saturating_sub(2));
        ((bytes + unit / 2) / unit * unit).clamp(1, BYTES_MAX)
    };
    let points: Option<Vec<(u32, u64)>> =
        PLANNED.iter().map(|percent| Some((*percent, rounded(quantile(sizes, *percent)?)))).collect();
    let points = points?;
    let (first, last) = (points.first()?.1, points.last()?.1);
    if first == last {
        return Some(format!("fixed:{first}"));
    }
    let points: Vec<String> =
        points.iter().map(|(percent, bytes)| format!("{}={bytes}", f64::from(*percent) / 100.0)).collect();
    Some(format!("quantiles:{}", points.join(",")))
}

/// A quantile of sorted sizes.
fn quantile(sizes: &[u64], percent: u32) -> Option<u64> {
    let place = (sizes.len() as f64 * f64::from(percent) / 100.0) as usize;
    sizes.get(place.min(sizes.len().checked_sub(1)?)).copied()
}

/// Requests by the second or the minute of their start. Only the latest are kept, in order that a long log takes no memory.
#[derive(Default)]
struct Buckets {
    latest: BTreeMap<i64, u64>,
    peak: u64,
    /// Seconds or minutes with a request, of those that are no longer kept.
    passed: u64,
}

impl Buckets {
    fn note(&mut self, at: i64) {
        /// More than a day of seconds: logs of several servers that were joined are not in order.
        const KEPT: usize = 200_000;
        *self.latest.entry(at).or_default() += 1;
        if self.latest.len() > KEPT {
            self.pass(KEPT / 2);
        }
    }

    /// Keeps only the latest `kept` seconds or minutes.
    fn pass(&mut self, kept: usize) {
        while self.latest.len() > kept {
            let Some((_, requests)) = self.latest.pop_first() else { return };
            self.peak = self.peak.max(requests);
            self.passed += 1;
        }
    }

    /// The most requests, and in how many seconds or minutes there was one.
    fn finish(mut self) -> (u64, u64) {
        self.pass(0);
        (self.peak, self.passed)
    }
}
