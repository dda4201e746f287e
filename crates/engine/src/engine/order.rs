//! The order of candidates in each round, balanced for position and for predecessor.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

/// Returns the order of `candidates` candidates in a round (counted from 1): a row of a Williams square whose letters are
/// assigned at random by `seed`. After as many rounds as there are candidates (twice as many for an odd number), every candidate
/// has been at every position equally often and has followed every other candidate equally often.
pub fn williams(candidates: usize, round: u32, seed: u64) -> Vec<usize> {
    if candidates == 0 {
        return Vec::new();
    }
    let mut letters: Vec<usize> = (0..candidates).collect();
    letters.shuffle(&mut SmallRng::seed_from_u64(seed));
    let index = (round as usize - 1) % if candidates.is_multiple_of(2) { candidates } else { 2 * candidates };
    // 0, n-1, 1, n-2, ...: each neighbour difference occurs once.
    let zigzag =
        (0..candidates).map(|place| if place % 2 == 0 { place / 2 } else { candidates - 1 - place / 2 });
    let mut order: Vec<usize> = zigzag.map(|letter| letters[(letter + index) % candidates]).collect();
    // An odd number of candidates needs the mirrored square too.
    if index >= candidates {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn every_candidate_stands_everywhere_and_follows_every_other_equally_often() {
        for candidates in [2, 3, 5, 8, 10] {
            let rounds = if candidates % 2 == 0 { candidates } else { 2 * candidates };
            let (mut places, mut pairs) = (HashMap::new(), HashMap::new());
            for round in 1..=rounds as u32 {
                let order = williams(candidates, round, 42);
                for (place, candidate) in order.iter().enumerate() {
                    *places.entry((place, *candidate)).or_insert(0) += 1;
                }
                for pair in order.windows(2) {
                    *pairs.entry((pair[0], pair[1])).or_insert(0) += 1;
                }
            }
            assert_eq!(places.len(), candidates * candidates);
            assert_eq!(pairs.len(), candidates * (candidates - 1));
            for counts in [places.values().copied().collect::<Vec<i32>>(), pairs.values().copied().collect()]
            {
                assert!(counts.iter().all(|count| *count == counts[0]), "{candidates}: {counts:?}");
            }
        }
    }
}
