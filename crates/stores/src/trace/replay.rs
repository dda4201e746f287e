//! A log as a run replays it: its requests, at 16 bytes each, and the sizes of the objects that they ask for.
//!
//! A sample has the objects with the smallest salted hashes, each with all of its requests, so that popularity and reuse stay.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use xxhash_rust::xxh3::Xxh3;

use super::{LogFormat, LogReader, Op, PathIndex, Reading, Request};
use crate::units;

/// A log, and how it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct LogFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Its format; `None` if its first lines tell it.
    pub format: Option<LogFormat>,
    /// Columns of a csv, such as `time,op,key,bytes`; `None` for those that its header or its format has.
    pub columns: Option<String>,
    /// Share of its lines that may be unreadable, from 0 to 1.
    pub bad_share_max: f64,
}

impl LogFile {
    /// Share of the lines that may be unreadable if nobody says otherwise.
    pub const BAD_SHARE_MAX: f64 = 0.01;

    /// A log whose format its first lines tell.
    pub fn at(path: PathBuf) -> LogFile {
        LogFile { path, format: None, columns: None, bad_share_max: LogFile::BAD_SHARE_MAX }
    }
}

/// Requests that take as much memory as an object: 40 bytes, and half as much again in a table that is filled to seven eighths at most.
const REQUESTS_PER_OBJECT: usize = 4;

/// How much of a log is kept, and how often its reading is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Requests above which only a sample of the objects is kept, with as many for each object as take its memory.
    pub requests_max: usize,
    /// Share of the lines that may be unreadable, from 0 to 1.
    pub bad_share_max: f64,
    /// Requests from one report of progress to the next.
    pub told_every: u64,
}

impl Default for Bounds {
    /// Half a gigabyte of requests.
    fn default() -> Bounds {
        Bounds {
            requests_max: 1 << 25,
            bad_share_max: LogFile::BAD_SHARE_MAX,
            told_every: super::PROGRESS_EVERY,
        }
    }
}

/// Ops that are replayed. Others need no object of a known content.
const KINDS: [Op; 4] = [Op::Get, Op::Range, Op::Put, Op::Delete];
/// Bits of a step for the number of the write, the kind, and the time.
const WRITE_BITS: u32 = 16;
const KIND_BITS: u32 = 2;
const TIME_BITS: u32 = 64 - WRITE_BITS - KIND_BITS;
/// Microseconds by which a request may be earlier or later than the first line: 400 days.
const SPAN_US: i64 = 1 << (TIME_BITS - 1);
const SECOND_US: u64 = 1_000_000;

/// A request of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayStep {
    /// Microseconds, kind, and number of the write, from the highest bit down.
    packed: u64,
    object: u32,
    bytes: u32,
}

impl ReplayStep {
    fn new(at_us: u64, kind: usize, object: u32, bytes: u64) -> ReplayStep {
        let packed = ((at_us << KIND_BITS) | kind as u64) << WRITE_BITS;
        ReplayStep { packed, object, bytes: u32::try_from(bytes).unwrap_or(u32::MAX) }
    }

    /// Time since the first request, in microseconds.
    pub fn at_us(&self) -> u64 {
        self.packed >> (WRITE_BITS + KIND_BITS)
    }

    /// Kind: get, range, put or delete.
    pub fn op(&self) -> Op {
        KINDS[(self.packed >> WRITE_BITS) as usize % KINDS.len()]
    }

    /// Id of the object.
    pub fn object(&self) -> u32 {
        self.object
    }

    /// Bytes of the object, or of the part that is read.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Number of the put among those of the object, from 1, modulo 2^16.
    pub fn write(&self) -> u32 {
        (self.packed % (1 << WRITE_BITS)) as u32
    }

    fn set_time(&mut self, at_us: u64) {
        const TIME_SHIFT: u32 = WRITE_BITS + KIND_BITS;
        self.packed = (at_us << TIME_SHIFT) | (self.packed % (1 << TIME_SHIFT));
    }
}

/// Which objects of a log are replayed.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// Share of the objects, from 0 to 1; `None` for as many as the limits allow.
    pub share: Option<f64>,
    /// Maximum number of objects.
    pub objects_max: Option<u64>,
    /// Maximum bytes of all objects.
    pub bytes_max: Option<u64>,
    /// Maximum bytes of an object; larger ones are left out.
    pub object_bytes_max: u64,
    /// Salt of the hashes by which objects are chosen.
    pub salt: u64,
}

/// The requests of a log that are replayed, in the order of their start.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    steps: Vec<ReplayStep>,
    sizes: Vec<u64>,
    /// True for each object that the log puts before it reads it.
    made: Vec<bool>,
    /// The place of each object's file; empty if none has one.
    files: Vec<Option<u32>>,
    /// Requests of the log, those that are not replayed included.
    requests: u64,
    /// Objects that are named by requests that can be replayed; `None` if they were not all counted.
    objects: Option<usize>,
    /// Requests that the replay of all objects would have; the ones that would find no object are estimated from the sample.
    requests_of_all: f64,
    /// What is not replayed, and what was made up, as a clause.
    besides: String,
}

impl Replay {
    /// Reads a log to its end. Objects whose path is that of one of `files` have its size. `progress` is called now and then. Fails if
    /// the log is cut off, if more of its lines than may be cannot be read, or if nothing in it can be replayed.
    pub fn read(
        file: &LogFile,
        selection: &Selection,
        files: Option<Arc<PathIndex>>,
        progress: &mut dyn FnMut(Reading),
    ) -> Result<Replay> {
        let is_other = file.path.metadata().is_ok_and(|of| !of.is_file() && !of.is_dir());
        ensure!(
            !is_other,
            "`{}` is a pipe or a device, and a run reads its log more than once: write it to a file first",
            file.path.display()
        );
        let reader = LogReader::open(&file.path, file.format, file.columns.as_deref())?.with_files(files);
        let bounds = Bounds { bad_share_max: file.bad_share_max, ..Bounds::default() };
        Replay::bounded(reader, selection, bounds, progress)
            .with_context(|| format!("`{}`", file.path.display()))
    }

    /// Reads a log within these bounds.
    pub(super) fn bounded(
        reader: LogReader,
        selection: &Selection,
        bounds: Bounds,
        progress: &mut dyn FnMut(Reading),
    ) -> Result<Replay> {
        let mut reader = reader.salted(selection.salt);
        let mut log = Requests::new(selection.share, bounds.requests_max);
        let mut requests = 0_u64;
        while let Some(request) = reader.next_request() {
            log.note(&request)?;
            requests += 1;
            if requests.is_multiple_of(bounds.told_every) {
                progress(reader.reading(requests));
            }
        }
        let counts = &reader.counts;
        if let Some(why) = &counts.ended_early {
            bail!(
                "it ends early, after line {}, so that the rest of its requests is missing: {why}",
                counts.lines
            );
        }
        if counts.bad_share() > bounds.bad_share_max {
            let first: Vec<String> =
                counts.first_bad.iter().map(|bad| format!("line {} {}", bad.line, bad.why)).collect();
            bail!(
                "{} of {} lines, more than --allow-bad {}, cannot be read as {}: {}; if they may be left out, add --allow-bad {:.0}%; if \
                 the log is of another kind, name its --trace-format",
                counts.bad,
                counts.lines,
                units::share(bounds.bad_share_max),
                reader.format().name(),
                first.join("; "),
                (counts.bad_share() * 100.0).ceil()
            );
        }
        log.replay(selection, counts.bad)
    }

    /// The requests.
    pub fn steps(&self) -> &[ReplayStep] {
        &self.steps
    }

    /// Sizes of the objects in bytes, by id.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// The place of each object's file among those that the log was read with, by id; empty if none has one.
    pub fn files(&self) -> &[Option<u32>] {
        &self.files
    }

    /// Replaces [`Replay::files`] by what could be read of them.
    pub fn set_files(&mut self, files: Vec<Option<u32>>) {
        self.files = files;
    }

    /// True if the log puts an object before it does anything else with it, so that the object is not there at first.
    pub fn makes(&self, object: usize) -> bool {
        self.made[object]
    }

    /// Seconds from the first request to the last; above 0.
    pub fn seconds(&self) -> f64 {
        let last = self.steps.last().map_or(0, ReplayStep::at_us);
        last.max(1) as f64 / SECOND_US as f64
    }

    /// Mean rate of these requests in the log, per second. Of a sample, it is as much lower than that of the log as
    /// [`Replay::share`] says.
    pub fn ops_per_s(&self) -> f64 {
        self.steps.len() as f64 / self.seconds()
    }

    /// Share of the log's requests that these are, of those that can be replayed: 1 unless objects are left out.
    pub fn share(&self) -> f64 {
        self.steps.len() as f64 / self.requests_of_all
    }

    /// True if some of the requests are of this kind.
    pub fn has(&self, op: Op) -> bool {
        self.steps.iter().any(|step| step.op() == op)
    }

    /// Upper bound on how often the log writes all of its objects, whatever one costs beside its bytes.
    pub fn writes_per_object(&self) -> f64 {
        let (mut puts_and_deletes, mut bytes) = (0_u64, 0_u64);
        for step in &self.steps {
            puts_and_deletes += u64::from(matches!(step.op(), Op::Put | Op::Delete));
            bytes += if step.op() == Op::Put { u64::from(step.bytes) } else { 0 };
        }
        let times = |part: u64, all: u64| part as f64 / all.max(1) as f64;
        times(puts_and_deletes, self.sizes.len() as u64).max(times(bytes, self.sizes.iter().sum()))
    }

    /// What is replayed of the log and what is not, in words.
    pub fn summary(&self) -> String {
        let objects = self.objects.map_or("objects".to_owned(), |all| format!("of {all} objects"));
        format!(
            "{} of {} requests are replayed, those of {} {objects}{}{}",
            self.steps.len(),
            self.requests,
            self.sizes.len(),
            self.of_files(),
            self.besides
        )
    }

    /// How many objects have contents of files: `; 3 of them, with 40 % of the bytes, have the contents of their files`.
    fn of_files(&self) -> String {
        let with_file = || self.sizes.iter().zip(&self.files).filter(|(_, file)| file.is_some());
        if self.files.is_empty() {
            return String::new();
        }
        let bytes = with_file().map(|(size, _)| size).sum::<u64>() as f64;
        let all = self.sizes.iter().sum::<u64>().max(1) as f64;
        let (objects, share) = (with_file().count(), units::percent(bytes / all));
        let rest = if objects < self.sizes.len() { ", the others synthetic ones" } else { "" };
        format!("; {objects} of them, with {share} of the bytes, have the contents of their files{rest}")
    }

    /// Returns the requests of the first `objects` objects, which are a sample like any other.
    pub fn part(&self, objects: usize) -> Replay {
        let steps = self.steps.iter().copied().filter(|step| (step.object as usize) < objects);
        let mut part = Replay {
            steps: steps.collect(),
            sizes: self.sizes[..objects].to_vec(),
            made: self.made[..objects].to_vec(),
            files: self.files.iter().copied().take(objects).collect(),
            besides: self.besides.clone(),
            ..*self
        };
        part.begin_at_0();
        part
    }

    /// Digest of requests and sizes. It tells two logs apart, and says nothing of the names in them.
    pub fn digest(&self) -> String {
        let mut digest = Xxh3::new();
        for step in &self.steps {
            digest.update(&step.packed.to_le_bytes());
            digest.update(&step.object.to_le_bytes());
            digest.update(&step.bytes.to_le_bytes());
        }
        self.sizes.iter().for_each(|size| digest.update(&size.to_le_bytes()));
        format!("{:032x}", digest.digest128())
    }

    fn begin_at_0(&mut self) {
        let first = self.steps.first().map_or(0, ReplayStep::at_us);
        self.steps.iter_mut().for_each(|step| step.set_time(step.at_us() - first));
    }
}

/// An object while the log is read.
#[derive(Clone, Copy, Debug)]
struct LoggedObject {
    key: u64,
    /// The largest that a whole read or a put shows: smaller ones were aborted.
    size: Option<u64>,
    /// The largest part that was read.
    part: u64,
    /// The place of its file, of which it has the size.
    file: Option<u32>,
}

/// What was read of a log so far.
struct Requests {
    /// Time of the first request, in microseconds since 1970.
    first_us: Option<i64>,
    latest_us: i64,
    /// Objects with a larger key are left out.
    limit: u64,
    has_share: bool,
    requests_max: usize,
    ids: HashMap<u64, u32>,
    objects: Vec<LoggedObject>,
    steps: Vec<ReplayStep>,
    /// Requests that could be replayed, of all objects.
    fit: u64,
    /// Requests that cannot be, by op.
    others: [u64; Op::ALL.len()],
    out_of_order: u64,
    is_in_seconds: bool,
}

impl Requests {
    fn new(share: Option<f64>, requests_max: usize) -> Requests {
        Requests {
            first_us: None,
            latest_us: i64::MIN,
            // A float of 64 bits above the largest integer becomes that integer.
            limit: share.map_or(u64::MAX, |share| (share * 2_f64.powi(64)) as u64),
            has_share: share.is_some(),
            requests_max,
            ids: HashMap::new(),
            objects: Vec::new(),
            steps: Vec::new(),
            fit: 0,
            others: [0; Op::ALL.len()],
            out_of_order: 0,
            is_in_seconds: true,
        }
    }

    fn note(&mut self, request: &Request) -> Result<()> {
        let Some(kind) = KINDS.iter().position(|kind| *kind == request.op) else {
            self.others[request.op as usize] += 1;
            return Ok(());
        };
        self.fit += 1;
        let at = request.start_us;
        self.is_in_seconds &= at % SECOND_US as i64 == 0;
        self.out_of_order += u64::from(at < self.latest_us);
        self.latest_us = self.latest_us.max(at);
        if request.key > self.limit {
            return Ok(());
        }
        let since = at - *self.first_us.get_or_insert(at);
        ensure!(
            (-SPAN_US..SPAN_US).contains(&since),
            "its requests are more than 400 days apart: cut the log, or mend the clock in it"
        );
        let next = self.objects.len() as u32;
        let id = *self.ids.entry(request.key).or_insert(next);
        if id == next {
            self.objects.push(LoggedObject { key: request.key, size: None, part: 0, file: None });
        }
        let object = &mut self.objects[id as usize];
        match request.file {
            Some(file) => (object.file, object.size) = (Some(file.place), Some(file.bytes)),
            None if request.op != Op::Delete => object.size = object.size.max(request.size),
            None => {}
        }
        if request.op == Op::Range {
            object.part = object.part.max(request.sent);
        }
        self.steps.push(ReplayStep::new((since + SPAN_US) as u64, kind, id, request.sent));
        while self.steps.len() + REQUESTS_PER_OBJECT * self.objects.len() > self.requests_max {
            self.halve()?;
        }
        Ok(())
    }

    /// Leaves every second object out.
    fn halve(&mut self) -> Result<()> {
        ensure!(
            !self.has_share && self.limit > 0,
            "this share of its objects takes the memory of more than {} requests, the most that are kept: give a smaller --sample, or \
             `auto`",
            self.requests_max
        );
        self.limit >>= 1;
        let limit = self.limit;
        // Ids are places among the objects that are left.
        let mut left = 0_u32;
        let mut ids = vec![u32::MAX; self.objects.len()];
        for (_, id) in self.objects.iter().zip(&mut ids).filter(|(object, _)| object.key <= limit) {
            (*id, left) = (left, left + 1);
        }
        self.steps.retain_mut(|step| {
            step.object = ids[step.object as usize];
            step.object != u32::MAX
        });
        self.ids.retain(|key, id| {
            *id = ids[*id as usize];
            *key <= limit
        });
        self.objects.retain(|object| object.key <= limit);
        Ok(())
    }

    /// Sizes of the objects, in the order in which the log names them. An unknown one is taken from the known ones.
    fn sizes(&self) -> Result<Vec<u64>> {
        let mut known: Vec<u64> = self.objects.iter().filter_map(|object| object.size).collect();
        known.sort_unstable();
        ensure!(
            !known.is_empty(),
            "it shows the size of no object: there is no whole read (200) and no put with its bytes"
        );
        let size = |object: &LoggedObject| {
            let size = object.size.unwrap_or_else(|| known[(object.key % known.len() as u64) as usize]);
            if object.file.is_some() { size } else { size.max(object.part) }
        };
        Ok(self.objects.iter().map(size).collect())
    }

    fn replay(mut self, selection: &Selection, bad: u64) -> Result<Replay> {
        let of = if selection.share.is_some_and(|share| share < 1.0) { "this --sample of it" } else { "it" };
        ensure!(
            !self.steps.is_empty(),
            "{of} has no request that can be replayed{}",
            self.left_out(bad, 0, 0)
        );
        let sizes = self.sizes()?;
        let named = self.ids.len();
        let (chosen, too_large) = self.chosen(&sizes, selection);
        ensure!(!chosen.is_empty(), "no object of it fits into --corpus-bytes");
        let unknown = chosen.iter().filter(|old| self.objects[**old as usize].size.is_none()).count();
        let mut ids = vec![u32::MAX; sizes.len()];
        (0..).zip(&chosen).for_each(|(id, old)| ids[*old as usize] = id);
        self.steps.retain_mut(|step| {
            step.object = ids[step.object as usize];
            step.object != u32::MAX
        });
        // Log lines are mostly in order, and sorting takes half as much memory again.
        if !self.steps.is_sorted_by_key(ReplayStep::at_us) {
            self.steps.sort_by_key(ReplayStep::at_us);
        }
        if self.is_in_seconds {
            spread(&mut self.steps);
        }
        let sizes: Vec<u64> = chosen.iter().map(|old| sizes[*old as usize]).collect();
        let mut files: Vec<Option<u32>> = chosen.iter().map(|old| self.objects[*old as usize].file).collect();
        if files.iter().all(Option::is_none) {
            files = Vec::new();
        }
        let mut steps = std::mem::take(&mut self.steps);
        let times_sampled = self.fit as f64 / steps.len() as f64;
        let (made, gone) = follow(&mut steps, &sizes);
        ensure!(!steps.is_empty(), "the sample has no request that can be replayed: give a larger --sample");
        let mut besides = self.left_out(bad, gone, too_large);
        if unknown > 0 {
            besides += &format!("; objects of unknown size, which is taken from the others: {unknown}");
        }
        if self.out_of_order > 0 {
            besides +=
                &format!("; put in order, because they stand behind later ones: {}", self.out_of_order);
        }
        let requests = self.fit + self.others.iter().sum::<u64>();
        let objects = (self.limit == u64::MAX).then_some(named);
        let requests_of_all = steps.len() as f64 * times_sampled;
        let mut replay = Replay { steps, sizes, made, files, requests, objects, requests_of_all, besides };
        replay.begin_at_0();
        Ok(replay)
    }

    /// Returns the objects to replay in the order of their hashes, and how many are too large.
    fn chosen(&self, sizes: &[u64], selection: &Selection) -> (Vec<u32>, u64) {
        let mut all: Vec<u32> = self.ids.values().copied().collect();
        all.sort_unstable_by_key(|id| self.objects[*id as usize].key);
        let before = all.len();
        let bytes_max = selection.bytes_max.unwrap_or(u64::MAX);
        // Nothing behind an object that is larger than the whole sample would fit, wherever its hash is.
        let most = selection.object_bytes_max.min(bytes_max);
        all.retain(|id| sizes[*id as usize] <= most);
        let too_large = (before - all.len()) as u64;
        let mut bytes = 0_u64;
        let fitting = all.iter().take_while(|id| {
            bytes = bytes.saturating_add(sizes[**id as usize]);
            bytes <= bytes_max
        });
        let fitting = (fitting.count() as u64).min(selection.objects_max.unwrap_or(u64::MAX));
        all.truncate(fitting as usize);
        (all, too_large)
    }

    /// Why requests are not replayed, besides the sample: `; left out: 3 head, 60 failed`.
    fn left_out(&self, bad: u64, gone: u64, too_large: u64) -> String {
        let others = Op::ALL.iter().map(|op| (self.others[*op as usize], op.name()));
        let why = others.chain([
            (gone, "of objects that were not there"),
            (bad, "in lines that cannot be read"),
            (too_large, "objects too large for the corpus"),
        ]);
        let parts: Vec<String> =
            why.filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}")).collect();
        if parts.is_empty() { String::new() } else { format!("; left out: {}", parts.join(", ")) }
    }
}

/// Spreads the requests of each second evenly over it: the log has whole seconds, and no server is asked in bursts of a second.
fn spread(steps: &mut [ReplayStep]) {
    for second in steps.chunk_by_mut(|one, next| one.at_us() == next.at_us()) {
        let count = second.len() as u64;
        for (place, step) in (0..).zip(second) {
            step.set_time(step.at_us() + (2 * place + 1) * SECOND_US / (2 * count));
        }
    }
}

/// Follows each object through the log: gives every step its bytes, numbers the puts, and drops what finds no object. Returns which
/// objects are made by the log, and how many steps were dropped.
fn follow(steps: &mut Vec<ReplayStep>, sizes: &[u64]) -> (Vec<bool>, u64) {
    // Whether it is there, once it was named, and how often it was put.
    let mut objects: Vec<(Option<bool>, u16)> = vec![(None, 0); sizes.len()];
    let mut made = vec![false; sizes.len()];
    let before = steps.len();
    steps.retain_mut(|step| {
        let (id, op) = (step.object as usize, step.op());
        let (there, writes) = &mut objects[id];
        made[id] |= there.is_none() && op == Op::Put;
        let was_there = *there.get_or_insert(op != Op::Put);
        // At most `object_bytes_max`, which fits.
        let size = sizes[id] as u32;
        match op {
            Op::Put => {
                *writes = writes.wrapping_add(1);
                (*there, step.bytes) = (Some(true), size);
                step.packed |= u64::from(*writes);
                true
            }
            Op::Range => {
                step.bytes = step.bytes.min(size);
                was_there && step.bytes > 0
            }
            _ => {
                *there = Some(was_there && op != Op::Delete);
                step.bytes = size;
                was_there
            }
        }
    });
    (made, (before - steps.len()) as u64)
}
