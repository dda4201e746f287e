//! The ops of a phase: lists that are made from the seed before the clock starts, and that are the same for every store of a
//! round.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::corpus::Corpus;
use crate::plan::{OpKind, Order, RangeRule, Replacement, Workload};
use crate::result::HotShare;
use crate::rules::HOT_OPS_SHARE;
use crate::store::{Key, Keys, Span};

/// One op of a list. It has everything that a worker needs to execute and check it, so that nothing is looked up on the clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedOp {
    /// Id of the blob.
    pub blob: u32,
    /// Kind of the op.
    pub kind: OpKind,
    /// Bytes to write, or bytes that a read must return.
    pub len: u32,
    /// The generation that is written, or that a read must find.
    pub generation: u32,
    /// First byte of the range, for range reads.
    pub offset: u32,
}

impl PlannedOp {
    /// The part of the blob that it reads.
    pub fn span(&self) -> Span {
        match self.kind {
            OpKind::Range => Span::Part { offset: u64::from(self.offset), len: u64::from(self.len) },
            _ => Span::Whole,
        }
    }
}

/// The expected contents of a store at some point of a round. The op lists of a phase and all checks are derived from it.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Number of overwrites of each blob.
    pub generation: Vec<u32>,
    /// Bytes of each blob.
    pub len: Vec<u32>,
    /// True for each blob that is present.
    pub alive: Vec<bool>,
    /// References to the content of each blob: uploads that have not been released. Empty, like the next two, before
    /// [`State::begin_uploads`].
    pub references: Vec<u32>,
    /// Bytes of each uploaded content: that of the blob before any overwrite.
    pub uploaded_len: Vec<u32>,
    /// True if an earlier blob has the same content; the catalog deduplicates them, so that the earlier one stands for both.
    pub is_copy: Vec<bool>,
    /// Sequence number of the last write of each blob; 0 if it was never written.
    pub written: Vec<u32>,
    /// Writes so far; the count stops at its maximum.
    pub writes: u32,
    /// Rank of the client that last wrote each blob; empty as long as that is client 0 for all.
    pub writer: Vec<u32>,
}

impl State {
    /// The state of an empty store.
    pub fn empty(corpus: &Corpus) -> State {
        let blobs = corpus.sizes.len();
        State {
            generation: vec![0; blobs],
            len: corpus.sizes.clone(),
            alive: vec![false; blobs],
            references: Vec::new(),
            uploaded_len: Vec::new(),
            is_copy: Vec::new(),
            written: vec![0; blobs],
            writes: 0,
            writer: Vec::new(),
        }
    }

    /// Prepares for uploads of contents of these sizes, and marks blobs whose content equals that of an earlier blob, by their
    /// content keys; both in the order of ids. Must be called before the first upload.
    pub fn begin_uploads(&mut self, content_keys: &[Key], sizes: &[u32]) {
        self.references = vec![0; sizes.len()];
        self.uploaded_len = sizes.to_vec();
        let mut known = std::collections::HashSet::new();
        self.is_copy = content_keys.iter().map(|key| !known.insert(key.hex)).collect();
    }

    /// Returns the puts and deletes that turn this state into `other`.
    pub fn changes_to(&self, other: &State) -> Vec<PlannedOp> {
        let change = |id: usize| {
            let (len, generation) = (other.len[id], other.generation[id]);
            let op = |kind| PlannedOp { blob: id as u32, kind, len, generation, offset: 0 };
            let is_same = self.len[id] == other.len[id] && self.generation[id] == generation;
            match (self.alive[id], other.alive[id]) {
                (true, false) => Some(op(OpKind::Delete)),
                (is_there, true) => (!is_there || !is_same).then(|| op(OpKind::Put)),
                (false, false) => None,
            }
        };
        (0..self.alive.len()).filter_map(change).collect()
    }

    /// Bytes of everything present: blobs of the corpus, and uploaded contents, each counted once.
    fn there(&self) -> impl Iterator<Item = u64> {
        let uploads = self.uploads_there().map(|id| self.uploaded_len[id]);
        self.blobs_there().map(|id| self.len[id]).chain(uploads).map(u64::from)
    }

    fn blobs_there(&self) -> impl Iterator<Item = usize> {
        (0..self.alive.len()).filter(|id| self.alive[*id])
    }

    fn uploads_there(&self) -> impl Iterator<Item = usize> {
        (0..self.references.len()).filter(|id| self.references[*id] > 0)
    }

    /// Number of blobs that are present, uploads included.
    pub fn live_blobs(&self) -> u64 {
        self.there().count() as u64
    }

    /// Bytes of the blobs that are present, uploads included.
    pub fn live_bytes(&self) -> u64 {
        self.there().sum()
    }

    /// Keys of the blobs that are present, uploads included. `uploads` are the content keys, in the order of ids.
    pub fn live_keys(&self, keys: &Keys, uploads: &[Key]) -> impl Iterator<Item = Key> {
        let blobs = self.blobs_there().map(move |id| keys.at(id));
        blobs.chain(self.uploads_there().filter_map(move |id| uploads.get(id).copied()))
    }

    fn ids(&self, alive: bool) -> Vec<u32> {
        (0..self.alive.len() as u32).filter(|id| self.alive[*id as usize] == alive).collect()
    }

    /// Returns puts of the missing blobs among the first `blobs`, in the order of ids.
    pub fn missing(&self, blobs: u64) -> impl Iterator<Item = PlannedOp> {
        let put = |id: usize| {
            let (len, generation) = (self.len[id], self.generation[id]);
            PlannedOp { blob: id as u32, kind: OpKind::Put, len, generation, offset: 0 }
        };
        (0..blobs as usize).filter(|id| !self.alive[*id]).map(put)
    }

    /// Applies an op that this process did.
    pub fn apply(&mut self, op: &PlannedOp) {
        self.apply_by(op, 0);
    }

    /// Applies the ops of a job's lists. `client` returns the rank of the client that did an op, from the index of its list and
    /// its position there.
    pub fn apply_lists(&mut self, lists: &[Vec<PlannedOp>], client: impl Fn(usize, usize) -> usize) {
        for (hand, list) in lists.iter().enumerate() {
            list.iter().enumerate().for_each(|(place, op)| self.apply_by(op, client(hand, place) as u32));
        }
    }

    /// Applies an op that the client of this rank did.
    pub fn apply_by(&mut self, op: &PlannedOp, client: u32) {
        let id = op.blob as usize;
        match op.kind {
            OpKind::Put | OpKind::Overwrite => {
                self.alive[id] = true;
                self.writes = self.writes.saturating_add(1);
                self.written[id] = self.writes;
                if client > 0 && self.writer.is_empty() {
                    self.writer = vec![0; self.alive.len()];
                }
                if let Some(writer) = self.writer.get_mut(id) {
                    *writer = client;
                }
                self.generation[id] = op.generation;
                self.len[id] = op.len;
            }
            OpKind::Delete => self.alive[id] = false,
            OpKind::Register => self.references[id] += 1,
            OpKind::Release => self.references[id] -= 1,
            OpKind::Get | OpKind::Range => {}
        }
    }

    /// Returns an op that uploads the original content of a blob, or that releases it.
    fn upload(&self, kind: OpKind, blob: u32) -> PlannedOp {
        PlannedOp { blob, kind, len: self.uploaded_len[blob as usize], generation: 0, offset: 0 }
    }

    /// Returns an op of this kind on a blob in its current state.
    fn op(&self, kind: OpKind, blob: u32, range: RangeRule, random: &mut SmallRng) -> PlannedOp {
        let size = u64::from(self.len[blob as usize]);
        let (offset, len) = match (kind, range) {
            (OpKind::Range, RangeRule::Head(bytes)) => (0, bytes.min(size)),
            (OpKind::Range, RangeRule::Random(bytes)) => {
                let len = bytes.min(size);
                (random.random_range(0..=size - len), len)
            }
            _ => (0, size),
        };
        let generation = self.generation[blob as usize] + u32::from(kind == OpKind::Overwrite);
        PlannedOp { blob, kind, len: len as u32, generation, offset: offset as u32 }
    }
}

/// Derives a seed for one purpose from the seed of the run, the round and the name of the purpose.
pub fn derived_seed(seed: u64, round: u32, purpose: &str) -> u64 {
    xxh3_64_with_seed(purpose.as_bytes(), seed ^ (u64::from(round) << 40))
}

/// How the ops of a phase are dealt to its workers. Where an op has several blobs, every `batch` consecutive entries of a list
/// are one op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpDistribution {
    /// Each of this many workers has a list of its own.
    Own(usize),
    /// A single list, from which the next free worker takes the next op. No op depends on the order of others.
    Shared,
}

/// Returns the op lists of a phase: `ops` entries in total, or as many as the state allows, in whole batches of `batch` blobs.
/// Reads repeat blobs to fill at least one batch. Writes use each blob once, so that the entries which fill no batch are dropped:
/// for puts the first ones, so that a caller that needs all blobs can put those beforehand (see [`left_out`]).
pub fn lists(
    load: &Workload,
    state: &State,
    ops: u64,
    batch: usize,
    deal: OpDistribution,
    seed: u64,
) -> Vec<Vec<PlannedOp>> {
    let mut random = SmallRng::seed_from_u64(seed);
    let count = ops as usize;
    match (load.mix.as_slice(), deal) {
        ([(kind, _)], deal) if kind.is_upload() => {
            let ops = uploads(*kind, state, count, load.duplicates, &mut random);
            match deal {
                OpDistribution::Own(workers) => in_turn(ops.into_iter(), 1, workers),
                OpDistribution::Shared => vec![ops],
            }
        }
        ([(kind, _)], deal) => {
            let mut ids = state.ids(*kind != OpKind::Put);
            if *kind == OpKind::Range {
                // An empty blob has no range to read.
                ids.retain(|id| state.len[*id as usize] > 0);
            }
            if load.order == Order::Written {
                ids.sort_by_key(|id| state.written[*id as usize]);
            }
            let count = if kind.reads() { (count - count % batch).max(batch) } else { count };
            let mut ids = ordered(ids, load.order, count, kind.reads(), &mut random);
            let over = ids.len() % batch;
            match kind {
                OpKind::Put => drop(ids.drain(..over)),
                _ => ids.truncate(ids.len() - over),
            }
            // Dealt while they are made, so that the list of a large fill is there only once.
            let ops = ids.into_iter().map(|id| state.op(*kind, id, load.range, &mut random));
            match deal {
                OpDistribution::Own(workers) if load.order.has_neighbours() && *kind != OpKind::Put => {
                    stretches(ops, batch, workers)
                }
                OpDistribution::Own(workers) => in_turn(ops, batch, workers),
                OpDistribution::Shared => vec![ops.collect()],
            }
        }
        (_, OpDistribution::Own(workers)) => (0..workers)
            .map(|worker| {
                let share = count / workers + usize::from(count % workers > worker);
                Mixer::of_worker(load, state, worker, workers).list(share, &mut random)
            })
            .collect(),
        (_, OpDistribution::Shared) => vec![Mixer::of_all(load, state, &mut random).list(count, &mut random)],
    }
}

/// Returns single puts, in the order of ids, of the missing blobs that are not in `lists` because they did not fill a batch.
pub fn left_out(lists: &[Vec<PlannedOp>], state: &State) -> Vec<PlannedOp> {
    let mut listed = vec![false; state.alive.len()];
    lists.iter().flatten().for_each(|op| listed[op.blob as usize] = true);
    state.missing(state.alive.len() as u64).filter(|op| !listed[op.blob as usize]).collect()
}

/// Returns the smallest share of blobs that received most of the ops ([`HOT_OPS_SHARE`]), if `done` ops were done in the order of
/// the lists, cyclically. All lists are assumed to have progressed equally far. `state` is that before the first op; blobs put by
/// the ops count as present. `None` without any op.
pub fn hot_share(lists: &[Vec<PlannedOp>], done: u64, state: &State) -> Option<HotShare> {
    let listed: u64 = lists.iter().map(|list| list.len() as u64).sum();
    if listed == 0 || done == 0 {
        return None;
    }
    let mut uses = vec![0_u64; state.alive.len()];
    for list in lists {
        let len = list.len() as u64;
        let own = (u128::from(done) * u128::from(len) / u128::from(listed)) as u64;
        for (place, op) in (0..).zip(list) {
            uses[op.blob as usize] += own / len + u64::from(place < own % len);
        }
    }
    hottest(&uses, state)
}

/// Returns the smallest share of blobs that received most of the ops, from the number of ops on each blob; `None` without any op.
pub fn hottest(uses: &[u64], state: &State) -> Option<HotShare> {
    let is_there = |id: &usize| state.alive[*id] || uses[*id] > 0;
    let mut ids: Vec<usize> = (0..uses.len()).filter(is_there).collect();
    let bytes: u64 = ids.iter().map(|id| u64::from(state.len[*id])).sum();
    ids.sort_by_key(|id| Reverse(uses[*id]));
    let all = uses.iter().sum::<u64>();
    if all == 0 {
        return None;
    }
    let wanted = all as f64 * HOT_OPS_SHARE;
    let (mut hot, mut hot_bytes, mut had) = (0, 0, 0.0);
    for id in &ids {
        if had >= wanted {
            break;
        }
        (hot, hot_bytes, had) = (hot + 1, hot_bytes + u64::from(state.len[*id]), had + uses[*id] as f64);
    }
    Some(HotShare {
        ops_share: HOT_OPS_SHARE,
        blobs_share: f64::from(hot) / ids.len() as f64,
        bytes_share: hot_bytes as f64 / bytes.max(1) as f64,
    })
}

/// Maximum number of reads for which an ideal LRU cache is simulated.
pub const LRU_OPS_MAX: usize = 1 << 20;

/// What an ideal LRU cache reads of its device, by the reads and the capacity: all candidates of a round read in the same order, so
/// that each order is simulated once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct IdealLru(BTreeMap<u64, Option<f64>>);

impl IdealLru {
    /// Returns the device bytes per byte delivered with a cache of `capacity` bytes, if the reads of these lists are repeated and
    /// all lists progress equally fast. Looks into `known` first. `None` without bytes, or if there are too many reads to
    /// simulate.
    pub fn byte_miss_ratio(
        &mut self,
        known: &IdealLru,
        lists: &[Vec<PlannedOp>],
        capacity: u64,
    ) -> Option<f64> {
        if lists.iter().map(Vec::len).sum::<usize>() > LRU_OPS_MAX {
            return None;
        }
        let digest = digest_of_reads(lists, capacity);
        let earlier = known.0.get(&digest).copied();
        *self.0.entry(digest).or_insert_with(|| earlier.unwrap_or_else(|| ideal_lru(lists, capacity)))
    }

    /// Adds what another one has simulated.
    pub fn add(&mut self, other: IdealLru) {
        self.0.extend(other.0);
    }
}

/// Digest of what an LRU cache of `capacity` bytes depends on: the blobs and their lengths, in the order of the reads.
fn digest_of_reads(lists: &[Vec<PlannedOp>], capacity: u64) -> u64 {
    let mut digest = Xxh3::with_seed(capacity);
    for op in interleaved(lists) {
        digest.update(&op.blob.to_le_bytes());
        digest.update(&op.len.to_le_bytes());
    }
    digest.digest()
}

fn ideal_lru(lists: &[Vec<PlannedOp>], capacity: u64) -> Option<f64> {
    // Length of each cached blob by the time of its last use.
    let mut cached: BTreeMap<u64, u64> = BTreeMap::new();
    let mut last_use: HashMap<u32, u64> = HashMap::new();
    let (mut used, mut now, mut read, mut delivered) = (0, 0, 0, 0);
    // The first pass fills the cache.
    for is_counted in [false, true] {
        for op in interleaved(lists) {
            let len = u64::from(op.len);
            now += 1;
            let before = last_use.insert(op.blob, now);
            let is_cached = before.and_then(|before| cached.remove(&before)).is_some();
            cached.insert(now, len);
            let missed = if is_cached { 0 } else { len };
            used += missed;
            if is_counted {
                read += missed;
                delivered += len;
            }
            while used > capacity {
                let Some((_, forgotten)) = cached.pop_first() else { break };
                used -= forgotten;
            }
        }
    }
    (delivered > 0).then(|| read as f64 / delivered as f64)
}

/// Returns uploads of new contents, of which the share `duplicates` are repeated within the list; or releases of that many
/// uploads.
fn uploads(
    kind: OpKind,
    state: &State,
    count: usize,
    duplicates: f64,
    random: &mut SmallRng,
) -> Vec<PlannedOp> {
    let blobs = 0..state.references.len() as u32;
    let is_new = |id: &u32| state.references[*id as usize] == 0 && !state.is_copy[*id as usize];
    let mut ids: Vec<u32> = match kind {
        OpKind::Register => blobs.filter(is_new).collect(),
        _ => blobs.flat_map(|id| std::iter::repeat_n(id, state.references[id as usize] as usize)).collect(),
    };
    ids.shuffle(random);
    ids.truncate(count);
    if kind == OpKind::Register && ids.len() > 1 {
        let again = (ids.len() as f64 * duplicates) as usize;
        ids.truncate(ids.len() - again);
        let first = ids.len();
        ids.extend(
            (0..again).map(|_| random.random_range(0..first)).map(|place| ids[place]).collect::<Vec<_>>(),
        );
        ids.shuffle(random);
    }
    ids.into_iter().map(|id| state.upload(kind, id)).collect()
}

/// Share of the live bytes by which ageing may change them.
const AGEING_SLACK: f64 = 0.02;
/// Number of blobs that are tried for a replacement that keeps the live bytes within [`AGEING_SLACK`].
const AGEING_TRIES: usize = 100;
/// In a turnover, one in this many blobs is deleted and not put again yet, so that puts find the space of several.
const TURNOVER_PART: usize = 100;

/// Draws the blobs that ageing replaces.
struct Victims {
    /// Blobs that are replaced, the most popular one first.
    ids: Vec<u32>,
    ranks: Option<Zipf<f64>>,
}

impl Victims {
    /// `life_seed` is the same at all ages, so that popular blobs stay so.
    fn new(mut ids: Vec<u32>, order: Order, life_seed: u64) -> Victims {
        let ranks = match order {
            Order::Zipfian(theta) => Zipf::new(ids.len() as f64, theta).ok(),
            _ => None,
        };
        if ranks.is_some() {
            ids.shuffle(&mut SmallRng::seed_from_u64(life_seed));
        }
        Victims { ids, ranks }
    }

    /// Draws a blob that is there: the next one in place of one that is not.
    fn draw(&self, state: &State, random: &mut SmallRng) -> u32 {
        let place = match &self.ranks {
            Some(ranks) => (ranks.sample(random) as usize).clamp(1, self.ids.len()) - 1,
            None => random.random_range(0..self.ids.len()),
        };
        let from_there = self.ids[place..].iter().chain(&self.ids[..place]);
        from_there.copied().find(|id| state.alive[*id as usize]).unwrap_or(self.ids[place])
    }
}

/// Returns replacements of random blobs by others of newly drawn sizes, until about `bytes` are written, within half of the last
/// blob, but at least one; a list for one worker. All blobs are there at its end, and the live bytes stay about those of the fill,
/// so that a step differs by its age alone: a blob whose new size would change them too much is passed over. With too few blobs for
/// that, the one that changes them least is taken. `life_seed` is the same for all steps of a life, `seed` differs.
pub fn ageing(
    corpus: &Corpus,
    state: &State,
    bytes: u64,
    replacement: Replacement,
    life_seed: u64,
    seed: u64,
) -> Vec<PlannedOp> {
    let mut random = SmallRng::seed_from_u64(seed);
    let alive = state.ids(true);
    let filled: u64 = alive.iter().map(|id| u64::from(corpus.sizes[*id as usize])).sum();
    let slack = (filled as f64 * AGEING_SLACK) as u64;
    let mut live: u64 = alive.iter().map(|id| u64::from(state.len[*id as usize])).sum();
    let victims = Victims::new(alive, replacement.order, life_seed);
    let pending_max = if replacement.turnover { victims.ids.len() / TURNOVER_PART } else { 0 };
    let mut state = state.clone();
    let (mut ops, mut written, mut pending) = (Vec::new(), 0, VecDeque::new());
    while (written < bytes || ops.is_empty()) && !victims.ids.is_empty() {
        // Live bytes after replacing a random blob, and the blob with its new size.
        let mut draw = || {
            let id = victims.draw(&state, &mut random);
            let len = corpus.resized(u64::from(id), state.generation[id as usize] + 1);
            (live - u64::from(state.len[id as usize]) + len, id, len)
        };
        let mut next = draw();
        for _ in 1..AGEING_TRIES {
            if next.0.abs_diff(filled) <= slack {
                break;
            }
            let other = draw();
            if other.0.abs_diff(filled) < next.0.abs_diff(filled) {
                next = other;
            }
        }
        let (after, id, len) = next;
        // An empty blob counts as one byte, so that this ends where most blobs are empty.
        let cost = len.max(1);
        if !ops.is_empty() && (written + cost).saturating_sub(bytes) > bytes - written {
            break;
        }
        (live, written) = (after, written + cost);
        let generation = state.generation[id as usize] + 1;
        let kind = if replacement.turnover { OpKind::Put } else { OpKind::Overwrite };
        let put = PlannedOp { blob: id, kind, len: len as u32, generation, offset: 0 };
        if replacement.turnover {
            let len = state.len[id as usize];
            let delete = PlannedOp { kind: OpKind::Delete, len, generation: generation - 1, ..put };
            state.apply(&delete);
            ops.push(delete);
        }
        pending.push_back(put);
        while pending.len() > pending_max {
            put_next(&mut pending, &mut state, &mut ops);
        }
    }
    while !pending.is_empty() {
        put_next(&mut pending, &mut state, &mut ops);
    }
    ops
}

fn put_next(pending: &mut VecDeque<PlannedOp>, state: &mut State, ops: &mut Vec<PlannedOp>) {
    if let Some(put) = pending.pop_front() {
        state.apply(&put);
        ops.push(put);
    }
}

/// Arranges up to `count` ids in the given order. Reads (`again`) may repeat ids; writes use each at most once.
fn ordered(mut ids: Vec<u32>, order: Order, count: usize, again: bool, random: &mut SmallRng) -> Vec<u32> {
    match order {
        Order::Sequential | Order::Written if again && !ids.is_empty() => {
            return ids.iter().copied().cycle().take(count).collect();
        }
        Order::Sequential | Order::Written => ids.truncate(count),
        Order::Same if again && !ids.is_empty() => {
            return vec![ids[random.random_range(0..ids.len())]; count];
        }
        Order::Uniform if again && !ids.is_empty() => {
            return (0..count).map(|_| ids[random.random_range(0..ids.len())]).collect();
        }
        Order::Zipfian(theta) if again && !ids.is_empty() => {
            // Shuffles, so that popularity is independent of the order of ids.
            ids.shuffle(random);
            let Ok(ranks) = Zipf::new(ids.len() as f64, theta) else { return ids };
            return (0..count)
                .map(|_| ids[(ranks.sample(random) as usize).clamp(1, ids.len()) - 1])
                .collect();
        }
        Order::Once if again && count > ids.len() && !ids.is_empty() => {
            ids.shuffle(random);
            return ids.iter().copied().cycle().take(count).collect();
        }
        Order::Once | Order::Same | Order::Uniform | Order::Zipfian(_) => {
            ids.shuffle(random);
            ids.truncate(count);
        }
    }
    ids
}

/// Splits a list by blob, so that one worker does all ops on a blob, in their order.
pub fn by_blob(ops: Vec<PlannedOp>, workers: usize) -> Vec<Vec<PlannedOp>> {
    let mut sessions = vec![Vec::new(); workers];
    for op in ops {
        sessions[op.blob as usize % workers].push(op);
    }
    sessions
}

/// Deals whole batches to the workers in rotation. Sequential puts are then like ids from a shared counter: those of each worker
/// ascend, and all workers are near the end of the sequence.
pub fn in_turn(
    ops: impl ExactSizeIterator<Item = PlannedOp>,
    batch: usize,
    workers: usize,
) -> Vec<Vec<PlannedOp>> {
    let each = ops.len().div_ceil(batch).div_ceil(workers) * batch;
    dealt(ops, each, workers, |place| place / batch % workers)
}

/// Gives each op to the worker that `worker` returns for its place, at most `each` to one.
fn dealt(
    ops: impl Iterator<Item = PlannedOp>,
    each: usize,
    workers: usize,
    worker: impl Fn(usize) -> usize,
) -> Vec<Vec<PlannedOp>> {
    let mut sessions: Vec<Vec<PlannedOp>> = (0..workers).map(|_| Vec::with_capacity(each)).collect();
    ops.enumerate().for_each(|(place, op)| sessions[worker(place)].push(op));
    sessions
}

/// Returns the ops of all lists in the order in which they are done if all lists progress equally fast.
fn interleaved(lists: &[Vec<PlannedOp>]) -> impl Iterator<Item = &PlannedOp> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(move |place| lists.iter().filter_map(move |list| list.get(place)))
}

/// Deals reads again so that no client reads a blob that it wrote last, like IOR's option `-C`, because the client's own caches
/// might serve such a read. `writers` are the ranks of the last writers, by blob, and none stands for 0; each client has `workers`
/// consecutive lists. Each read goes to the client with the fewest ops among the others. The set of ops stays the same. A single
/// client reads its own blobs.
pub fn apart_from_writers(lists: &[Vec<PlannedOp>], writers: &[u32], workers: usize) -> Vec<Vec<PlannedOp>> {
    let writer = |blob: usize| writers.get(blob).copied().unwrap_or(0) as usize;
    let mut sessions = vec![Vec::new(); lists.len()];
    // Clients, ordered by their number of ops.
    let mut clients: BinaryHeap<Reverse<(usize, usize)>> =
        (0..lists.len() / workers).map(|client| Reverse((0, client))).collect();
    for op in interleaved(lists) {
        let mut reader = clients.pop();
        if reader.is_some_and(|Reverse((_, client))| client == writer(op.blob as usize)) {
            reader = match (clients.pop(), reader) {
                (Some(other), Some(itself)) => {
                    clients.push(itself);
                    Some(other)
                }
                (_, itself) => itself,
            };
        }
        let Some(Reverse((ops, client))) = reader else { break };
        sessions[client * workers + ops % workers].push(*op);
        clients.push(Reverse((ops + 1, client)));
    }
    sessions
}

/// Gives every worker a contiguous part of the list, for orders in which neighbours matter.
fn stretches(
    ops: impl ExactSizeIterator<Item = PlannedOp>,
    batch: usize,
    workers: usize,
) -> Vec<Vec<PlannedOp>> {
    let each = ops.len().div_ceil(batch).div_ceil(workers).max(1) * batch;
    dealt(ops, each, workers, |place| place / each)
}

struct Mixer<'a> {
    load: &'a Workload,
    state: State,
    readable: Vec<u32>,
    /// Blobs that may be overwritten or deleted, if these are not the readable ones.
    writable: Option<Vec<u32>>,
    absent: Vec<u32>,
    ranks: Option<Zipf<f64>>,
}

impl<'a> Mixer<'a> {
    /// Gives every worker its own keys, so that the expected result of each op is known before the clock starts.
    fn of_worker(load: &'a Workload, state: &State, worker: usize, workers: usize) -> Mixer<'a> {
        let own =
            |alive| state.ids(alive).into_iter().filter(|id| *id as usize % workers == worker).collect();
        Mixer {
            load,
            state: state.clone(),
            readable: own(true),
            writable: None,
            absent: own(false),
            ranks: None,
        }
    }

    /// Makes a single list for all workers. Ops may overtake each other, so that every blob is either read or written, and
    /// written at most once.
    fn of_all(load: &'a Workload, state: &State, random: &mut SmallRng) -> Mixer<'a> {
        let reads: f64 = load.mix.iter().filter(|(kind, _)| kind.reads()).map(|(_, share)| share).sum();
        let mut alive = state.ids(true);
        alive.shuffle(random);
        let writable = alive.split_off((alive.len() as f64 * reads.clamp(0.1, 0.9)) as usize);
        let absent = state.ids(false);
        Mixer { load, state: state.clone(), readable: alive, writable: Some(writable), absent, ranks: None }
    }

    fn list(mut self, count: usize, random: &mut SmallRng) -> Vec<PlannedOp> {
        match self.load.order {
            Order::Sequential => self.readable.sort_unstable(),
            Order::Written => self.readable.sort_by_key(|id| self.state.written[*id as usize]),
            Order::Once | Order::Same | Order::Uniform | Order::Zipfian(_) => self.readable.shuffle(random),
        }
        self.absent.shuffle(random);
        if let Order::Zipfian(theta) = self.load.order {
            self.ranks = Zipf::new(self.readable.len().max(1) as f64, theta).ok();
        }
        (0..count).filter_map(|step| self.draw(step, random)).collect()
    }

    /// Draws the next op. `None` if no key is left for the kind drawn, such as a delete from an empty store.
    fn draw(&mut self, step: usize, random: &mut SmallRng) -> Option<PlannedOp> {
        let kind = self.kind(random);
        let id = match (kind, &mut self.writable) {
            (OpKind::Put, _) => self.absent.pop()?,
            (OpKind::Overwrite | OpKind::Delete, Some(writable)) => writable.pop()?,
            _ => {
                let place = self.place(step, random)?;
                let id = self.readable[place];
                if kind == OpKind::Delete {
                    self.readable.swap_remove(place);
                    self.absent.push(id);
                }
                id
            }
        };
        if kind == OpKind::Range && self.state.len[id as usize] == 0 {
            return None;
        }
        if kind == OpKind::Put && self.writable.is_none() {
            self.readable.push(id);
        }
        let op = self.state.op(kind, id, self.load.range, random);
        self.state.apply(&op);
        Some(op)
    }

    fn place(&self, step: usize, random: &mut SmallRng) -> Option<usize> {
        let choices = self.readable.len();
        if choices == 0 {
            return None;
        }
        Some(match (self.load.order, &self.ranks) {
            (Order::Zipfian(_), Some(ranks)) => (ranks.sample(random) as usize).saturating_sub(1) % choices,
            (Order::Once | Order::Sequential | Order::Written, _) => step % choices,
            (Order::Same, _) => 0,
            _ => random.random_range(0..choices),
        })
    }

    fn kind(&self, random: &mut SmallRng) -> OpKind {
        let mut point: f64 = random.random();
        for (kind, share) in &self.load.mix {
            if point < *share {
                return *kind;
            }
            point -= share;
        }
        self.load.mix.last().map_or(OpKind::Get, |(kind, _)| *kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Length;
    use std::collections::HashSet;

    fn load(mix: &[(OpKind, f64)], order: Order) -> Workload {
        let mix = mix.to_vec();
        Workload { mix, order, range: RangeRule::Random(4096), ..Workload::new(OpKind::Get, Length::Pilot) }
    }

    fn state(blobs: usize, alive: bool) -> State {
        State {
            generation: vec![0; blobs],
            len: vec![10_000; blobs],
            alive: vec![alive; blobs],
            references: vec![0; blobs],
            uploaded_len: vec![10_000; blobs],
            is_copy: vec![false; blobs],
            written: vec![0; blobs],
            writes: 0,
            writer: vec![0; blobs],
        }
    }

    /// Returns the ops of each worker's own list, one by one.
    fn own_lists(load: &Workload, state: &State, ops: u64, workers: usize, seed: u64) -> Vec<Vec<PlannedOp>> {
        lists(load, state, ops, 1, OpDistribution::Own(workers), seed)
    }

    #[test]
    fn no_client_reads_what_it_wrote_itself_and_every_read_is_done_as_often() {
        for (clients, workers) in [(2, 1), (2, 3), (3, 2), (4, 1), (7, 2)] {
            let sessions = clients * workers;
            let mut state = state(840, false);
            let of = |kind, order, ops, seed, state: &State| {
                own_lists(&load(&[(kind, 1.0)], order), state, ops, sessions, seed)
            };
            let puts = of(OpKind::Put, Order::Sequential, 840, 1, &state);
            state.apply_lists(&puts, |hand, _| hand / workers);
            // The client that overwrites a blob becomes its last writer.
            let overwrites = of(OpKind::Overwrite, Order::Once, 420, 2, &state);
            let changes = overwrites.iter().enumerate().any(|(hand, list)| {
                list.iter().any(|op| state.writer[op.blob as usize] as usize != hand / workers)
            });
            assert!(changes);
            state.apply_lists(&overwrites, |hand, _| hand / workers);
            for (order, ops) in [(Order::Once, 840), (Order::Uniform, 2000), (Order::Once, 3)] {
                let dealt = of(OpKind::Get, order, ops, 3, &state);
                let own = |lists: &[Vec<PlannedOp>]| {
                    let of_hand = |(hand, list): (usize, &Vec<PlannedOp>)| {
                        let is_own =
                            |op: &&PlannedOp| state.writer[op.blob as usize] as usize == hand / workers;
                        list.iter().filter(is_own).count()
                    };
                    lists.iter().enumerate().map(of_hand).sum::<usize>()
                };
                let reassigned = apart_from_writers(&dealt, &state.writer, workers);
                assert!(ops < 10 || own(&dealt) > ops as usize / (2 * clients), "{}", own(&dealt));
                assert_eq!((reassigned.len(), own(&reassigned)), (sessions, 0), "{clients} clients");
                let sorted = |lists: &[Vec<PlannedOp>]| {
                    let mut blobs: Vec<u32> = lists.iter().flatten().map(|op| op.blob).collect();
                    blobs.sort_unstable();
                    blobs
                };
                assert_eq!(sorted(&reassigned), sorted(&dealt));
                // A list of as many ops as there are blobs has each of them once.
                assert!(order != Order::Once || ops != 840 || sorted(&dealt).into_iter().eq(0..840));
                // Two clients can only swap: each then has as many reads as the other wrote.
                let most = reassigned.iter().map(Vec::len).max().unwrap()
                    - reassigned.iter().map(Vec::len).min().unwrap();
                assert!(most <= if clients == 2 { ops as usize / 8 + 3 } else { 2 }, "{clients}: {most}");
            }
        }
        // A single client reads its own blobs.
        let reads = own_lists(&load(&[(OpKind::Get, 1.0)], Order::Once), &state(10, true), 10, 2, 1);
        assert_eq!(apart_from_writers(&reads, &[0; 10], 2).iter().flatten().count(), 10);
    }

    fn bytes_of<T>(list: &[T]) -> usize {
        size_of_val(list)
    }

    #[test]
    fn a_blob_takes_at_most_64_bytes_while_a_store_is_filled() {
        const BLOBS: usize = 1000;
        let plan = crate::engine::work::resolved(
            "stores = ['files/flat']\n[corpus]\nsource = 'fixed:100'\nblobs = 1000",
        );
        let corpus = Corpus::build(&plan.corpora[0].request).unwrap();
        let mut state = State::empty(&corpus);
        let fill = load(&[(OpKind::Put, 1.0)], Order::Sequential);
        let puts = own_lists(&fill, &state, BLOBS as u64, 2, 1);
        state.apply_lists(&puts, |_, _| 0);
        // Without `..`, so that a new field has to be counted.
        let State { generation, len, alive, references, uploaded_len, is_copy, written, writes: _, writer } =
            &state;
        let of_state = bytes_of(generation) + bytes_of(len) + bytes_of(alive) + bytes_of(written);
        let of_others = bytes_of(references) + bytes_of(uploaded_len) + bytes_of(is_copy) + bytes_of(writer);
        // The contents know where each of these blobs lies in their pool.
        let of_corpus = bytes_of(corpus.keys.digests()) + bytes_of(&corpus.sizes) + BLOBS * size_of::<u32>();
        // While a list is made, so is that of its ids.
        let of_list = puts.iter().map(|list| bytes_of(list)).sum::<usize>() + BLOBS * size_of::<u32>();
        let all = of_state + of_others + of_corpus + of_list;
        assert!(all <= 64 * BLOBS, "{of_state} + {of_others} + {of_corpus} + {of_list} = {all}");
    }

    #[test]
    fn what_changed_beside_a_store_makes_it_the_same() {
        let (mut before, mut after) = (state(6, true), state(6, true));
        let change = |blob: u32, kind, generation| PlannedOp { blob, kind, len: 7, generation, offset: 0 };
        before.apply(&change(5, OpKind::Delete, 0));
        [change(1, OpKind::Delete, 0), change(2, OpKind::Overwrite, 1), change(3, OpKind::Overwrite, 2)]
            .iter()
            .for_each(|op| after.apply(op));
        let changes = before.changes_to(&after);
        assert_eq!(changes.iter().map(|op| op.blob).collect::<Vec<u32>>(), [1, 2, 3, 5]);
        changes.iter().for_each(|op| before.apply(op));
        assert_eq!(before.changes_to(&after), []);
        assert_eq!((before.alive, before.generation), (after.alive, after.generation));
    }

    #[test]
    fn batches_are_whole_and_what_is_left_is_put_before_them() {
        let ids = |ops: &[PlannedOp]| ops.iter().map(|op| op.blob).collect::<Vec<u32>>();
        let (empty, full) = (state(1502, false), state(1502, true));
        let fill = load(&[(OpKind::Put, 1.0)], Order::Sequential);
        let list = lists(&fill, &empty, 1502, 1000, OpDistribution::Own(1), 7).remove(0);
        let rest = left_out(std::slice::from_ref(&list), &empty);
        assert_eq!(ids(&rest), (0..502).collect::<Vec<u32>>());
        assert_eq!(ids(&list), (502..1502).collect::<Vec<u32>>());
        for (kind, batch, workers, all) in [
            (OpKind::Put, 100, 3, 1500),
            (OpKind::Delete, 100, 2, 700),
            (OpKind::Delete, 1000, 1, 0),
            (OpKind::Get, 100, 4, 700),
            // At least one batch of reads, some of them of the same blob.
            (OpKind::Get, 4000, 1, 4000),
        ] {
            let before = if kind == OpKind::Put { &empty } else { &full };
            let count = if kind == OpKind::Put { 1502 } else { 751 };
            for order in [Order::Once, Order::Sequential] {
                let lists = lists(
                    &load(&[(kind, 1.0)], order),
                    before,
                    count,
                    batch,
                    OpDistribution::Own(workers),
                    7,
                );
                assert!(lists.iter().all(|list| list.len() % batch == 0), "{kind:?} {batch}");
                assert_eq!(lists.iter().map(Vec::len).sum::<usize>(), all, "{kind:?} {batch}");
            }
        }
    }

    #[test]
    fn ids_ascend_as_from_a_counter_that_workers_share() {
        let fill = load(&[(OpKind::Put, 1.0)], Order::Sequential);
        for (workers, batch) in [(1, 1), (3, 1), (3, 10)] {
            let lists = lists(&fill, &state(600, false), 600, batch, OpDistribution::Own(workers), 7);
            let ids = |list: &Vec<PlannedOp>| list.iter().map(|op| op.blob).collect::<Vec<u32>>();
            assert!(lists.iter().all(|list| ids(list).is_sorted()));
            // After equally many ops, all workers are at about the same position.
            let places: Vec<u32> = lists.iter().map(|list| list[100].blob).collect();
            let far = places.iter().max().unwrap() - places.iter().min().unwrap();
            assert!(far as usize <= workers * batch, "{places:?}");
        }
    }

    #[test]
    fn what_was_written_together_is_read_together() {
        let fill = load(&[(OpKind::Put, 1.0)], Order::Once);
        let mut state = state(1000, false);
        let filled = own_lists(&fill, &state, 1000, 1, 7).remove(0);
        filled.iter().for_each(|op| state.apply(op));
        let ids = |ops: &[PlannedOp]| ops.iter().map(|op| op.blob).collect::<Vec<u32>>();
        for workers in [1, 3] {
            let reads = load(&[(OpKind::Get, 1.0)], Order::Written);
            let lists = own_lists(&reads, &state, 300, workers, 8);
            assert_eq!(ids(&lists.concat()), ids(&filled[..300]));
        }
        // An overwritten blob moves to the end.
        let first = filled[0].blob;
        state.apply(&PlannedOp { kind: OpKind::Overwrite, generation: 1, ..filled[0] });
        let reads = own_lists(&load(&[(OpKind::Get, 1.0)], Order::Written), &state, 1000, 1, 8);
        assert_eq!(reads[0].last().map(|op| op.blob), Some(first));
    }

    #[test]
    fn uploads_have_the_duplicates_that_were_asked_for() {
        for (duplicates, contents) in [(0.0, 1000), (0.2, 800), (0.9, 100)] {
            let load = Workload { duplicates, ..load(&[(OpKind::Register, 1.0)], Order::Once) };
            let list = own_lists(&load, &state(1000, true), 1000, 1, 7).remove(0);
            let distinct: HashSet<u32> = list.iter().map(|op| op.blob).collect();
            assert_eq!((list.len(), distinct.len()), (1000, contents));
        }
    }

    #[test]
    fn of_blobs_with_the_same_content_one_is_uploaded() {
        let mut state = state(4, true);
        let keys: Vec<Key> = (0..4).map(|id| Key::of_digest(id, u128::from(id % 2))).collect();
        state.begin_uploads(&keys, &[10_000; 4]);
        let load = Workload { duplicates: 0.0, ..load(&[(OpKind::Register, 1.0)], Order::Once) };
        let list = own_lists(&load, &state, 4, 1, 7).remove(0);
        let mut ids: Vec<u32> = list.iter().map(|op| op.blob).collect();
        ids.sort_unstable();
        assert_eq!(ids, [0, 1]);
    }

    #[test]
    fn an_ideal_lru_cache_has_its_share_of_draws_and_nothing_of_a_list_that_does_not_fit() {
        let read = |order: Order, ops: u64, share: f64| {
            let gets = load(&[(OpKind::Get, 1.0)], order);
            let lists = own_lists(&gets, &state(400, true), ops, 3, 5);
            ideal_lru(&lists, (4_000_000.0 * share) as u64).unwrap()
        };
        assert_eq!([read(Order::Once, 400, 0.9), read(Order::Once, 400, 1.0)], [1.0, 0.0]);
        for share in [0.25, 0.7] {
            let of_draws = read(Order::Uniform, 1600, share);
            assert!((of_draws - (1.0 - share)).abs() < 0.06, "{share}: {of_draws}");
        }
        // A list of as many draws as there are blobs lacks a third of them.
        assert_eq!(read(Order::Uniform, 400, 0.7), 0.0);
        assert!(read(Order::Zipfian(0.99), 1600, 0.25) < 0.5);
    }

    #[test]
    fn an_ideal_lru_cache_is_simulated_once_for_the_same_reads_and_capacity() {
        let gets = load(&[(OpKind::Get, 1.0)], Order::Uniform);
        let drawn = |seed| own_lists(&gets, &state(400, true), 1600, 3, seed);
        let (mut known, mut next) = (IdealLru::default(), IdealLru::default());
        let of = |known: &mut IdealLru, seed, capacity| {
            known.byte_miss_ratio(&IdealLru::default(), &drawn(seed), capacity)
        };
        let half = of(&mut known, 5, 2_000_000);
        assert_eq!(of(&mut known, 5, 2_000_000), half);
        assert_eq!(known.0.len(), 1);
        assert_ne!(of(&mut known, 5, 1_000_000), half);
        // Other reads may have the same share of misses by chance.
        of(&mut known, 6, 2_000_000);
        assert_eq!(known.0.len(), 3);
        // A value that no simulation gives shows where it comes from.
        known.0.values_mut().for_each(|share| *share = Some(7.0));
        assert_eq!(next.byte_miss_ratio(&known, &drawn(5), 2_000_000), Some(7.0));
    }

    #[test]
    fn same_seed_same_list() {
        let load = load(&[(OpKind::Get, 0.5), (OpKind::Overwrite, 0.5)], Order::Zipfian(0.99));
        assert_eq!(
            own_lists(&load, &state(100, true), 500, 4, 1),
            own_lists(&load, &state(100, true), 500, 4, 1)
        );
        assert_ne!(
            own_lists(&load, &state(100, true), 500, 4, 1),
            own_lists(&load, &state(100, true), 500, 4, 2)
        );
    }

    #[test]
    fn a_mix_never_reads_what_is_not_there() {
        let mix = [(OpKind::Get, 0.4), (OpKind::Put, 0.2), (OpKind::Overwrite, 0.2), (OpKind::Delete, 0.2)];
        let mut state = state(100, true);
        state.alive[50..].fill(false);
        for list in own_lists(&load(&mix, Order::Uniform), &state, 5000, 3, 9) {
            for op in list {
                let alive = state.alive[op.blob as usize];
                assert_eq!(alive, op.kind != OpKind::Put, "{op:?}");
                state.apply(&op);
            }
        }
    }

    #[test]
    fn a_shared_list_can_be_done_in_any_order() {
        let mix = [(OpKind::Get, 0.5), (OpKind::Overwrite, 0.3), (OpKind::Delete, 0.2)];
        let list = lists(&load(&mix, Order::Uniform), &state(1000, true), 500, 1, OpDistribution::Shared, 9)
            .remove(0);
        let written: Vec<u32> = list.iter().filter(|op| !op.kind.reads()).map(|op| op.blob).collect();
        let distinct: HashSet<u32> = written.iter().copied().collect();
        assert_eq!(written.len(), distinct.len());
        assert!(list.iter().filter(|op| op.kind.reads()).all(|op| !distinct.contains(&op.blob)));
    }

    #[test]
    fn zipfian_has_favourites_and_uniform_has_not() {
        let top = |order| {
            let mut counts = vec![0; 100];
            for op in &own_lists(&load(&[(OpKind::Get, 1.0)], order), &state(100, true), 10_000, 1, 3)[0] {
                counts[op.blob as usize] += 1;
            }
            counts.into_iter().max().unwrap_or(0)
        };
        assert!(top(Order::Zipfian(0.99)) > 1500);
        assert!(top(Order::Uniform) < 200);
    }

    #[test]
    fn hot_blobs_are_the_fewest_with_nine_tenths_of_the_ops() {
        let mut state = state(10, true);
        let list = |ids: &[u32]| -> Vec<PlannedOp> {
            let mut random = SmallRng::seed_from_u64(1);
            ids.iter().map(|id| state.op(OpKind::Get, *id, RangeRule::Head(0), &mut random)).collect()
        };
        // Nine of ten ops are on two blobs.
        let reads = [list(&[3, 3, 3, 3, 3, 7, 7, 7, 7, 1])];
        state.len[3] = 60_000;
        let hot = |lists: &[Vec<PlannedOp>], done: u64| {
            let hot = hot_share(lists, done, &state).unwrap();
            (hot.ops_share, hot.blobs_share, hot.bytes_share)
        };
        assert_eq!(hot(&reads, 10), (0.9, 0.2, 70_000.0 / 150_000.0));
        // Entries that were not reached do not count, and those that were done twice count twice.
        assert_eq!(hot(&reads, 5).1, 0.1);
        assert_eq!(hot(&reads, 20).1, 0.2);
        assert_eq!(hot(&reads, 15).1, 0.2);
        let [one] = &reads;
        assert_eq!(hot(&[one[..5].to_vec(), one[5..].to_vec()], 10).1, 0.2);
        assert_eq!(hot_share(&[], 0, &state), None);
        // A few blobs get most of the zipfian reads, but none of the uniform ones stand out.
        let share = |order| {
            let load = load(&[(OpKind::Get, 1.0)], order);
            let state = self::state(1000, true);
            let lists = own_lists(&load, &state, 20_000, 2, 3);
            hot_share(&lists, 20_000, &state).unwrap().blobs_share
        };
        // By the sum of k^-1.2, the first 227 of 1,000 have nine tenths.
        assert!((0.20..0.25).contains(&share(Order::Zipfian(1.2))), "{}", share(Order::Zipfian(1.2)));
        assert!(share(Order::Uniform) > 0.8, "{}", share(Order::Uniform));
    }

    #[test]
    fn ranges_lie_within_the_blob() {
        let mut state = state(3, true);
        state.len = vec![0, 100, 50_000];
        let lists = own_lists(&load(&[(OpKind::Range, 1.0)], Order::Uniform), &state, 1000, 1, 3);
        for op in &lists[0] {
            assert!(op.blob != 0 && op.len > 0);
            assert!(u64::from(op.offset) + u64::from(op.len) <= u64::from(state.len[op.blob as usize]));
        }
    }

    #[test]
    fn ageing_replaces_what_is_asked_and_keeps_the_live_bytes() {
        let plan = crate::engine::work::resolved(
            "stores = ['files/flat']\n[corpus]\nsource = 'web-images'\nblobs = 1000",
        );
        let corpus = Corpus::build(&plan.corpora[0].request).unwrap();
        let of_a_blob_max = |way: &str| {
            let replacement: Replacement = way.parse().unwrap();
            let mut state = State::empty(&corpus);
            state.alive.fill(true);
            let mut puts = vec![0_u64; 1000];
            for step in 0..4 {
                let ops = ageing(&corpus, &state, corpus.bytes(), replacement, 7, step);
                let written: Vec<&PlannedOp> = ops.iter().filter(|op| op.kind != OpKind::Delete).collect();
                let bytes: u64 = written.iter().map(|op| u64::from(op.len)).sum();
                assert!(bytes.abs_diff(corpus.bytes()) <= corpus.largest() / 2, "{way}: {bytes}");
                let deleted = if replacement.turnover { written.len() } else { 0 };
                assert_eq!(ops.len(), written.len() + deleted, "{way}");
                written.iter().for_each(|op| puts[op.blob as usize] += 1);
                for op in &ops {
                    // What is deleted is there, and what is put in its place is not.
                    assert_eq!(state.alive[op.blob as usize], op.kind != OpKind::Put);
                    state.apply(op);
                    assert!(state.live_blobs() + 1 >= 1000 - 10, "{way}: {} blobs", state.live_blobs());
                }
                let share = state.live_bytes() as f64 / corpus.bytes() as f64;
                assert!((0.98..=1.02).contains(&share), "{way}: {share} at step {step}");
                assert_eq!(state.live_blobs(), 1000, "{way}");
            }
            // The sizes are others, of the same distribution.
            assert_ne!(state.len, corpus.sizes);
            let median = corpus.quantile(0.5);
            let below = state.len.iter().filter(|len| u64::from(**len) <= median).count();
            assert!((420..=580).contains(&below), "{way}: {below}");
            puts.into_iter().max().unwrap_or(0)
        };
        for way in ["overwrite", "turnover"] {
            let (even, skewed) = (of_a_blob_max(way), of_a_blob_max(&format!("{way},zipfian:0.99")));
            assert!(skewed > 3 * even, "{way}: {even} and {skewed}");
        }
    }

    #[test]
    fn a_step_of_age_catches_up_with_the_one_before_and_does_at_least_one_op() {
        let plan = crate::engine::work::resolved(
            "stores = ['files/flat']\n[corpus]\nsource = 'fixed:1000'\nblobs = 10",
        );
        let corpus = Corpus::build(&plan.corpora[0].request).unwrap();
        let mut state = State::empty(&corpus);
        let ops =
            |state: &State, bytes: u64| ageing(&corpus, state, bytes, Replacement::default(), 7, 1).len();
        assert_eq!(ops(&state, 5_000), 0);
        state.alive.fill(true);
        assert_eq!([0, 400, 1_400, 1_600, 5_000].map(|bytes| ops(&state, bytes)), [1, 1, 1, 2, 5]);
    }
}
