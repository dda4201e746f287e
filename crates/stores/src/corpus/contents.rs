//! The bytes of blobs: slices of a shared pool, stamped so that no two blobs and no two generations are alike.
//!
//! A blob's bytes depend only on the seed, its id and its generation, so any reader can check any blob. If the pool is large
//! enough, it contains whole generations ready for use; otherwise a slice is copied and stamped into the caller's buffer.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

/// Content of synthetic blobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Content {
    /// Random bytes, which no compressor can shrink.
    Random,
    /// Words with the frequencies of a natural language.
    Text,
    /// Compressible by about this factor.
    Ratio(f64),
}

impl Content {
    /// Parses `random`, `text` or `ratio:R`.
    pub fn parse(text: &str) -> anyhow::Result<Content> {
        match text.split_once(':') {
            None if text == "random" => Ok(Content::Random),
            None if text == "text" => Ok(Content::Text),
            Some(("ratio", ratio)) => match ratio.parse::<f64>() {
                Ok(ratio) if (1.0..=1000.0).contains(&ratio) => Ok(Content::Ratio(ratio)),
                _ => anyhow::bail!("`{text}` needs a compression ratio from 1 to 1000"),
            },
            _ => Err(crate::suggest::unknown("content", text, ["random", "text", "ratio:2"])),
        }
    }
}

/// Distance between two stamps, in bytes.
const STAMP_EVERY: usize = 4096;
/// Length of a stamp, in bytes.
const STAMP: usize = 16;
/// Maximum size of a pool in bytes, not counting one blob of the largest size.
pub(super) const POOL_BYTES_MAX: u64 = 256 << 20;

/// The pool and its layout.
#[derive(Debug)]
pub struct Contents {
    seed: u64,
    pool: Vec<u8>,
    /// Start of each ready-made generation in the pool.
    ready: Vec<usize>,
    /// Start of each blob within a ready-made generation, and the end of the last one; empty if none is ready. A generation that
    /// is ready takes at most [`POOL_BYTES_MAX`].
    starts: Vec<u32>,
    /// Range of the pool from which slices for each other blob or generation are taken; `None` for the whole pool.
    regions: Option<Vec<(usize, usize)>>,
}

impl Contents {
    /// Creates a pool of synthetic bytes for blobs of these sizes.
    pub(super) fn synthetic(seed: u64, sizes: &[u64], content: Content) -> Contents {
        let total: u64 = sizes.iter().sum();
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let generations = (POOL_BYTES_MAX / total.max(1)).min(2) as usize;
        let bytes = if generations > 0 { total * generations as u64 } else { POOL_BYTES_MAX + largest };
        let mut pool = vec![0; (bytes.max(largest) as usize).max(STAMP_EVERY)];
        fill(&mut pool, seed, content);
        let starts = if generations > 0 { starts(sizes) } else { Vec::new() };
        let mut contents = Contents { seed, pool, ready: Vec::new(), starts, regions: None };
        for generation in 0..generations {
            let begin = total as usize * generation;
            for (id, size) in sizes.iter().enumerate() {
                let start = begin + contents.starts[id] as usize;
                stamp(&mut contents.pool[start..start + *size as usize], seed, id as u64, generation as u32);
            }
            contents.ready.push(begin);
        }
        contents
    }

    /// Creates a pool of whole real files, one after another, of at most [`POOL_BYTES_MAX`]. They keep their bytes in generation 0;
    /// later generations are stamped slices of them.
    pub(super) fn real(seed: u64, pool: Vec<u8>, sizes: &[u64]) -> Contents {
        Contents { seed, pool, ready: vec![0], starts: starts(sizes), regions: None }
    }

    /// Creates a pool of whole blobs, one after another, of at most [`POOL_BYTES_MAX`]. They are synthetic, and `replace` may give each
    /// another content, by its id; later generations are stamped copies.
    pub(super) fn replaced(
        seed: u64,
        sizes: &[u64],
        content: Content,
        mut replace: impl FnMut(usize, &mut [u8]),
    ) -> Contents {
        let mut pool = vec![0; sizes.iter().sum::<u64>() as usize];
        fill(&mut pool, seed, content);
        let starts = starts(sizes);
        let mut regions = Vec::with_capacity(sizes.len());
        for (id, bounds) in starts.windows(2).enumerate() {
            let (from, to) = (bounds[0] as usize, bounds[1] as usize);
            stamp(&mut pool[from..to], seed, id as u64, 0);
            replace(id, &mut pool[from..to]);
            regions.push((from, to));
        }
        Contents { seed, pool, ready: vec![0], starts, regions: Some(regions) }
    }

    /// Creates a pool of parts of real files and `synthetic_bytes` behind them, of which each blob without a region is a stamped slice.
    pub(super) fn mixed(
        seed: u64,
        mut pool: Vec<u8>,
        regions: &[Option<(usize, usize)>],
        synthetic_bytes: u64,
        content: Content,
    ) -> Contents {
        let begin = pool.len();
        pool.resize(begin + synthetic_bytes as usize, 0);
        fill(&mut pool[begin..], seed, content);
        let synthetic = (begin, pool.len());
        let regions = regions.iter().map(|region| region.unwrap_or(synthetic)).collect();
        Contents::sampled(seed, pool, regions)
    }

    /// Creates a pool of parts of real files; each blob is a stamped slice of its region.
    pub(super) fn sampled(seed: u64, pool: Vec<u8>, regions: Vec<(usize, usize)>) -> Contents {
        Contents { seed, pool, ready: Vec::new(), starts: Vec::new(), regions: Some(regions) }
    }

    /// Returns the `len` bytes of a blob in a generation. `room` is used as a buffer if they are not ready in the pool.
    pub fn blob<'a>(&'a self, id: u64, generation: u32, len: u64, room: &'a mut Vec<u8>) -> &'a [u8] {
        if let Some(lying) = self.lying_ready(id, generation, len) {
            return lying;
        }
        let len = len as usize;
        let (from, to) = match &self.regions {
            Some(regions) => regions[id as usize],
            None => (0, self.pool.len()),
        };
        let choices = (to - from).saturating_sub(len) as u64 + 1;
        let start = from
            + (xxh3_64_with_seed(&id.to_le_bytes(), self.seed ^ u64::from(generation)) % choices) as usize;
        room.clear();
        room.extend_from_slice(&self.pool[start..(start + len).min(self.pool.len())]);
        room.resize(len, 0);
        stamp(room, self.seed, id, generation);
        room
    }

    /// Returns the bytes of a blob whose generation is ready in the pool.
    fn lying_ready(&self, id: u64, generation: u32, len: u64) -> Option<&[u8]> {
        let (start, next) = (*self.starts.get(id as usize)?, *self.starts.get(id as usize + 1)?);
        let begin = self.ready.get(generation as usize)? + start as usize;
        // A blob with a changed size is not ready in the pool.
        (u64::from(next - start) == len).then(|| &self.pool[begin..begin + len as usize])
    }

    /// Returns the pool, which all workers share.
    pub fn pool(&self) -> &[u8] {
        &self.pool
    }
}

/// Offsets of consecutive blobs of these sizes, and the end of the last one.
fn starts(sizes: &[u64]) -> Vec<u32> {
    let mut starts = Vec::with_capacity(sizes.len() + 1);
    let mut start = 0;
    for size in sizes {
        starts.push(start);
        start += *size as u32;
    }
    starts.push(start);
    starts
}

/// Writes the blob's stamp at its start and every 4 KiB: a hash of seed, id, generation and position.
fn stamp(blob: &mut [u8], seed: u64, id: u64, generation: u32) {
    for (place, piece) in blob.chunks_mut(STAMP_EVERY).enumerate() {
        let mut words = [0; 20];
        words[..8].copy_from_slice(&id.to_le_bytes());
        words[8..12].copy_from_slice(&generation.to_le_bytes());
        words[12..].copy_from_slice(&(place as u64).to_le_bytes());
        let hash = xxh3_128_with_seed(&words, seed).to_le_bytes();
        let len = piece.len().min(STAMP);
        piece[..len].copy_from_slice(&hash[..len]);
    }
}

fn fill(pool: &mut [u8], seed: u64, content: Content) {
    let mut random = SmallRng::seed_from_u64(seed);
    match content {
        Content::Random => fill_with_random(pool, &mut random),
        Content::Text => fill_with_words(pool, &mut random),
        Content::Ratio(ratio) => {
            // Random bytes followed by zeros in every block, so that all slices compress alike.
            for block in pool.chunks_mut(STAMP_EVERY) {
                let len = (block.len() as f64 / ratio) as usize;
                fill_with_random(&mut block[..len], &mut random);
            }
        }
    }
}

/// Fills the pool with the same bytes as `fill_bytes`, word by word: in unoptimized builds, 256 MiB take 3 s of processor time
/// instead of 18 s.
fn fill_with_random(pool: &mut [u8], random: &mut SmallRng) {
    let (words, rest) = pool.as_chunks_mut::<8>();
    words.iter_mut().for_each(|word| *word = random.next_u64().to_le_bytes());
    random.fill_bytes(rest);
}

/// Fills the pool with words from 2,000 invented ones, the k-th with frequency proportional to 1/k, and a line break about every
/// twelve words.
fn fill_with_words(pool: &mut [u8], random: &mut SmallRng) {
    const SYLLABLES: [&str; 24] = [
        "ba", "cor", "de", "el", "fi", "gan", "ho", "in", "ja", "ken", "lu", "mer", "no", "or", "pe", "qui",
        "ra", "so", "ter", "un", "vi", "wal", "ex", "yo",
    ];
    let mut pick = |below: u64| random.next_u64() % below;
    let words: Vec<String> = (0..2000)
        .map(|_| (0..1 + pick(4)).map(|_| SYLLABLES[pick(SYLLABLES.len() as u64) as usize]).collect())
        .collect();
    let mut at = 0;
    while at < pool.len() {
        // The exponential of a uniform number has a density of 1/k.
        let share = pick(1 << 24) as f64 / (1_u64 << 24) as f64;
        let rank = (2000_f64.powf(share) - 1.0) as usize;
        let end = if pick(12) == 0 { "\n" } else { " " };
        for byte in words[rank.min(1999)].bytes().chain(end.bytes()) {
            if let Some(place) = pool.get_mut(at) {
                *place = byte;
            }
            at += 1;
        }
    }
}

/// Size of the bytes after deflate at gzip's default level. Compression by a store or a file system must not look better than
/// this, which rules out a faster level: that one shrinks text by a factor of 2.28, the default one by 2.75.
pub(super) fn deflated(bytes: &[u8]) -> u64 {
    use flate2::write::DeflateEncoder;
    use std::io::Write;

    let mut encoder = DeflateEncoder::new(std::io::sink(), flate2::Compression::default());
    // Writing to memory and a sink cannot fail; if it did, the bytes would count uncompressed.
    match encoder.write_all(bytes).and_then(|()| encoder.try_finish()) {
        Ok(()) => encoder.total_out(),
        Err(_never) => bytes.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(contents: &Contents, id: u64, generation: u32, len: u64) -> Vec<u8> {
        contents.blob(id, generation, len, &mut Vec::new()).to_vec()
    }

    #[test]
    fn same_seed_same_bytes_and_everything_else_differs() {
        let sizes = [10_000, 5, 300, 0];
        let contents = Contents::synthetic(1, &sizes, Content::Random);
        let again = Contents::synthetic(1, &sizes, Content::Random);
        let other = Contents::synthetic(2, &sizes, Content::Random);
        for (id, size) in sizes.iter().enumerate() {
            for generation in 0..4 {
                let bytes = bytes_of(&contents, id as u64, generation, *size);
                assert_eq!(bytes.len() as u64, *size);
                assert_eq!(bytes, bytes_of(&again, id as u64, generation, *size));
                if *size > 0 {
                    assert_ne!(bytes, bytes_of(&other, id as u64, generation, *size));
                    assert_ne!(bytes, bytes_of(&contents, id as u64, generation + 1, *size));
                }
            }
        }
    }

    #[test]
    fn a_blob_with_a_new_size_is_made_on_demand() {
        let contents = Contents::synthetic(1, &[100, 100], Content::Random);
        assert_eq!(bytes_of(&contents, 0, 1, 150).len(), 150);
        assert_ne!(bytes_of(&contents, 0, 1, 100), bytes_of(&contents, 1, 1, 100));
    }

    #[test]
    fn a_chosen_ratio_is_about_reached() {
        let contents = Contents::synthetic(1, &[1 << 20], Content::Ratio(4.0));
        let blob = bytes_of(&contents, 0, 0, 1 << 20);
        let ratio = blob.len() as f64 / deflated(&blob) as f64;
        assert!((3.5..4.5).contains(&ratio), "{ratio}");
    }

    #[test]
    fn random_bytes_are_those_of_the_generator_whatever_their_number() {
        for bytes in [0, 5, 8, 4099] {
            let (mut ours, mut its) = (vec![0; bytes], vec![0; bytes]);
            fill_with_random(&mut ours, &mut SmallRng::seed_from_u64(7));
            SmallRng::seed_from_u64(7).fill_bytes(&mut its);
            assert_eq!(ours, its);
        }
    }
}
