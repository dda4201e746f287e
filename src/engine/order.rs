//! The order of rows in each round: balanced for place and for what came before.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

/// The order of `rows` rows in a round (from 1): a row of a Williams square, its letters dealt by the seed. After as many
/// rounds as there are rows (twice as many for an odd number) every row has stood at every place equally often and
/// has followed every other row equally often.
pub fn williams(rows: usize, round: u32, seed: u64) -> Vec<usize> {
    if rows == 0 {
        return Vec::new();
    }
    let mut letters: Vec<usize> = (0..rows).collect();
    letters.shuffle(&mut SmallRng::seed_from_u64(seed));
    let index = (round as usize - 1) % if rows.is_multiple_of(2) { rows } else { 2 * rows };
    // 0, n-1, 1, n-2, ...: each neighbour difference occurs once.
    let zigzag = (0..rows).map(|place| if place % 2 == 0 { place / 2 } else { rows - 1 - place / 2 });
    let mut order: Vec<usize> = zigzag.map(|letter| letters[(letter + index) % rows]).collect();
    // An odd number of rows needs the mirrored square too.
    if index >= rows {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn every_row_stands_everywhere_and_follows_every_other_equally_often() {
        for rows in [2, 3, 5, 8, 10] {
            let rounds = if rows % 2 == 0 { rows } else { 2 * rows };
            let (mut places, mut pairs) = (HashMap::new(), HashMap::new());
            for round in 1..=rounds as u32 {
                let order = williams(rows, round, 42);
                for (place, row) in order.iter().enumerate() {
                    *places.entry((place, *row)).or_insert(0) += 1;
                }
                for pair in order.windows(2) {
                    *pairs.entry((pair[0], pair[1])).or_insert(0) += 1;
                }
            }
            assert_eq!(places.len(), rows * rows);
            assert_eq!(pairs.len(), rows * (rows - 1));
            for counts in [places.values().copied().collect::<Vec<i32>>(), pairs.values().copied().collect()]
            {
                assert!(counts.iter().all(|count| *count == counts[0]), "{rows}: {counts:?}");
            }
        }
    }
}
