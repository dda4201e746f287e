//! The objects of a log: how often each is read, its size, and how far apart its reads are, in bounded memory.
//!
//! Above a number of objects, those with the smaller hashes are a sample of whole objects (SHARDS, Waldspurger et al. 2015): what
//! they show is scaled by the share of hashes that is kept, which halves whenever there are too many.

use std::collections::HashMap;

use super::Op;

/// Objects that are kept by default, in about 250 MB at most.
const OBJECTS_MAX: usize = 1_800_000;

/// Parts of the sample. How they differ is how uncertain it is.
const GROUPS: usize = 16;
/// Student's t of 95 % for that many parts.
const T: f64 = 2.131;

/// Distances that differ by less than this part of a doubling are not told apart: 1.1 %.
const PER_DOUBLING: f64 = 64.0;
const BUCKETS: usize = 64 * 64;

/// Largest size in bytes of an object in the sum of sizes, which must not overflow.
const WEIGHT_MAX: u64 = 1 << 42;

#[derive(Clone, Copy, Debug, Default)]
struct Object {
    size: Option<u64>,
    reads: u32,
    /// Of the reads, those that a coin chose.
    chosen: u32,
    /// Its place in the stack; 0 if it is not there.
    slot: u32,
}

/// A sample of the objects of a log, or all of them.
pub struct Objects {
    table: HashMap<u64, Object>,
    objects_max: usize,
    /// Objects whose key is larger are not in the sample.
    limit: u64,
    stack: Stack,
    /// Objects with a known size, and its sum in bytes.
    known: (u64, f64),
    /// Reads by the bucket of their distance and the part of the sample.
    distances: Vec<[f64; GROUPS]>,
    /// First reads, by the part of the sample.
    first: [f64; GROUPS],
    coin: u64,
}

impl Default for Objects {
    fn default() -> Objects {
        Objects::new(OBJECTS_MAX)
    }
}

impl Objects {
    /// Keeps at most this many objects.
    pub fn new(objects_max: usize) -> Objects {
        Objects {
            table: HashMap::new(),
            objects_max,
            limit: u64::MAX,
            stack: Stack::new(0),
            known: (0, 0.0),
            distances: vec![[0.0; GROUPS]; BUCKETS],
            first: [0.0; GROUPS],
            coin: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// The share of the objects that is in the sample.
    pub fn share(&self) -> f64 {
        (self.limit as f64 + 1.0) / 2_f64.powi(64)
    }

    /// Notes a request of an object.
    pub fn note(&mut self, op: Op, key: u64, size: Option<u64>) {
        if key > self.limit {
            return;
        }
        if self.stack.is_full() {
            self.compact();
        }
        let scale = 1.0 / self.share();
        let group = key as usize % GROUPS;
        let chosen = u32::from(self.toss());
        let object = self.table.entry(key).or_default();
        // The largest: others were aborted.
        if let Some(size) = size.filter(|size| op == Op::Put || object.size.is_none_or(|known| *size > known))
        {
            let before = object.size.replace(size);
            self.known.0 += u64::from(before.is_none());
            self.known.1 += size as f64 - before.unwrap_or(0) as f64;
        }
        let mean = if self.known.0 > 0 { (self.known.1 / self.known.0 as f64) as u64 } else { 1 };
        let weight = object.size.unwrap_or(mean).clamp(1, WEIGHT_MAX);
        if op.reads() {
            object.reads = object.reads.saturating_add(1);
            object.chosen = object.chosen.saturating_add(chosen);
        }
        if op.reads() || matches!(op, Op::Put | Op::Delete) {
            let above = self.stack.take(object.slot);
            match above.map(|above| bucket(above as f64 * scale + weight as f64)) {
                _ if !op.reads() => {}
                Some(bucket) => self.distances[bucket][group] += scale,
                None => self.first[group] += scale,
            }
            object.slot = if op == Op::Delete { 0 } else { self.stack.push(weight) };
        }
        while self.table.len() > self.objects_max {
            self.halve();
        }
    }

    /// Tosses a coin (xorshift).
    fn toss(&mut self) -> bool {
        self.coin ^= self.coin << 13;
        self.coin ^= self.coin >> 7;
        self.coin ^= self.coin << 17;
        self.coin >> 63 == 1
    }

    /// Leaves every second object out of the sample.
    fn halve(&mut self) {
        let limit = self.limit >> 1;
        self.limit = limit;
        self.table.retain(|key, _| *key <= limit);
        let sizes = self.table.values().filter_map(|object| object.size);
        self.known = sizes.fold((0, 0.0), |(objects, sum), size| (objects + 1, sum + size as f64));
        self.compact();
    }

    /// Renumbers the objects in the stack, and makes room for as many again.
    fn compact(&mut self) {
        let in_stack = self.table.iter().filter(|(_, object)| object.slot > 0);
        let mut live: Vec<(u32, u64)> = in_stack.map(|(key, object)| (object.slot, *key)).collect();
        live.sort_unstable();
        let mut stack = Stack::new(live.len());
        for (slot, key) in live {
            if let Some(object) = self.table.get_mut(&key) {
                object.slot = stack.push(self.stack.weights[slot as usize]);
            }
        }
        self.stack = stack;
    }

    /// How many objects there are.
    pub fn objects(&self) -> f64 {
        self.table.len() as f64 / self.share()
    }

    /// Share of the objects whose size is not known.
    pub fn unknown_share(&self) -> f64 {
        1.0 - self.known.0 as f64 / self.table.len().max(1) as f64
    }

    /// Bytes of all objects, those of unknown size taken as the mean of the others; `None` if no size is known.
    pub fn bytes(&self) -> Option<f64> {
        let (objects, sum) = self.known;
        (objects > 0).then(|| sum / objects as f64 * self.objects())
    }

    /// Known sizes in bytes, in ascending order.
    pub fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.table.values().filter_map(|object| object.size).collect();
        sizes.sort_unstable();
        sizes
    }

    /// Reads of each object that was read, divided into two by tosses of a coin.
    pub fn reads(&self) -> Vec<(u32, u32)> {
        let read = self.table.values().filter(|object| object.reads > 0);
        read.map(|object| (object.chosen, object.reads - object.chosen)).collect()
    }

    /// The share of all `reads` of the log that an LRU cache of these bytes does not answer, first reads included, with half of its
    /// 95 % interval; 0 where nothing was left out. Bytes are objects if no size is known.
    pub fn misses(&self, cache_bytes: f64, reads: u64) -> (f64, f64) {
        let beyond = &self.distances[bucket(cache_bytes) + 1..];
        self.share_of(beyond, reads)
    }

    /// The share of all reads that are the first of their object.
    pub fn first_reads(&self, reads: u64) -> f64 {
        self.share_of(&[], reads).0
    }

    /// The share of first reads and these others, with half of its 95 % interval. It is of all reads of the log, not of those of the
    /// sample: whether the hottest object is in the sample would decide otherwise (SHARDS-adj).
    fn share_of(&self, others: &[[f64; GROUPS]], reads: u64) -> (f64, f64) {
        let mut groups = self.first;
        for more in others {
            groups.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        let (sum, parts, reads) = (groups.iter().sum::<f64>(), GROUPS as f64, reads.max(1) as f64);
        let variance = groups.iter().map(|group| (group - sum / parts).powi(2)).sum::<f64>() / (parts - 1.0);
        let error = T * (parts * variance * (1.0 - self.share())).sqrt();
        ((sum / reads).min(1.0), (error / reads).min(1.0))
    }
}

/// The bucket of a distance in bytes.
fn bucket(bytes: f64) -> usize {
    ((bytes.max(1.0).log2() * PER_DOUBLING) as usize).min(BUCKETS - 1)
}

/// The objects in the order of their last use, as a Fenwick tree of their bytes.
struct Stack {
    tree: Vec<u64>,
    weights: Vec<u64>,
    next: usize,
    total: u64,
}

impl Stack {
    /// An empty one with room for these objects and as many again.
    fn new(objects: usize) -> Stack {
        let slots = 2 * objects + 4096;
        Stack { tree: vec![0; slots], weights: vec![0; slots], next: 1, total: 0 }
    }

    fn is_full(&self) -> bool {
        self.next == self.tree.len()
    }

    /// Adds an object on top.
    fn push(&mut self, weight: u64) -> u32 {
        let slot = self.next;
        self.next += 1;
        self.weights[slot] = weight;
        self.total += weight;
        self.add(slot, weight);
        slot as u32
    }

    /// Takes an object out, and returns the bytes that were above it.
    fn take(&mut self, slot: u32) -> Option<u64> {
        let slot = slot as usize;
        if slot == 0 {
            return None;
        }
        let (mut up_to, mut at) = (0_u64, slot);
        while at > 0 {
            up_to = up_to.wrapping_add(self.tree[at]);
            at &= at - 1;
        }
        let above = self.total.wrapping_sub(up_to);
        let weight = self.weights[slot];
        self.total -= weight;
        self.add(slot, weight.wrapping_neg());
        Some(above)
    }

    fn add(&mut self, mut at: usize, weight: u64) {
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(weight);
            at += at & at.wrapping_neg();
        }
    }
}
