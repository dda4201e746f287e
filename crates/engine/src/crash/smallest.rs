//! Delta debugging: finds a minimal subset that still fails, by testing halves, quarters and so on alone and left out.

use anyhow::Result;

/// A subset that still fails. If `is_smallest`, leaving out any part found no failure.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FailingSubset<T> {
    pub(super) part: Vec<T>,
    pub(super) is_smallest: bool,
}

/// Minimises `all`, which must fail. `fails` returns `None` when its budget is used up.
pub(super) fn smallest<T: Copy>(
    all: &[T],
    fails: &mut dyn FnMut(&[T]) -> Result<Option<bool>>,
) -> Result<FailingSubset<T>> {
    let (mut part, mut pieces) = (all.to_vec(), 2);
    while part.len() > 1 {
        match smaller(&part, pieces.min(part.len()), fails)? {
            ReductionStep::Alone(piece) => (part, pieces) = (piece, 2),
            ReductionStep::Without(rest) => (part, pieces) = (rest, (pieces - 1).max(2)),
            ReductionStep::Neither if pieces < part.len() => pieces = (2 * pieces).min(part.len()),
            ReductionStep::Neither => break,
            ReductionStep::NoMore => return Ok(FailingSubset { part, is_smallest: false }),
        }
    }
    Ok(FailingSubset { part, is_smallest: true })
}

enum ReductionStep<T> {
    /// This piece fails alone.
    Alone(Vec<T>),
    /// The rest without a piece fails.
    Without(Vec<T>),
    Neither,
    NoMore,
}

fn smaller<T: Copy>(
    part: &[T],
    pieces: usize,
    fails: &mut dyn FnMut(&[T]) -> Result<Option<bool>>,
) -> Result<ReductionStep<T>> {
    let bounds: Vec<(usize, usize)> =
        (0..pieces).map(|piece| (piece * part.len() / pieces, (piece + 1) * part.len() / pieces)).collect();
    for (from, to) in &bounds {
        match fails(&part[*from..*to])? {
            Some(true) => return Ok(ReductionStep::Alone(part[*from..*to].to_vec())),
            Some(false) => {}
            None => return Ok(ReductionStep::NoMore),
        }
    }
    // With two pieces, each is the rest without the other.
    for (from, to) in bounds.iter().filter(|_| pieces > 2) {
        let rest = [&part[..*from], &part[*to..]].concat();
        match fails(&rest)? {
            Some(true) => return Ok(ReductionStep::Without(rest)),
            Some(false) => {}
            None => return Ok(ReductionStep::NoMore),
        }
    }
    Ok(ReductionStep::Neither)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(of: usize, most: usize, fails: impl Fn(&[usize]) -> bool) -> FailingSubset<usize> {
        let all: Vec<usize> = (0..of).collect();
        let mut asked = 0;
        smallest(&all, &mut |part| {
            asked += 1;
            Ok((asked <= most).then(|| fails(part)))
        })
        .unwrap()
    }

    #[test]
    fn what_is_needed_for_a_failure_is_found_and_nothing_else() {
        for of in 1..70 {
            for culprit in 0..of {
                let one = found(of, 1000, |part| part.contains(&culprit));
                assert_eq!(one, FailingSubset { part: vec![culprit], is_smallest: true });
            }
            let ends = found(of, 10_000, |part| part.contains(&0) && part.contains(&(of - 1)));
            assert_eq!(ends.part, if of == 1 { vec![0] } else { vec![0, of - 1] });
        }
    }

    #[test]
    fn where_parts_fail_by_turns_nothing_can_be_left_out_of_what_is_found() {
        // Not monotone: an odd number of the first eight fails.
        let fails = |part: &[usize]| part.iter().filter(|at| **at < 8).count() % 2 == 1;
        let found = found(33, 1000, |part| part.len() == 33 || fails(part));
        assert!(found.is_smallest && fails(&found.part) && found.part.len() == 1, "{found:?}");
    }

    #[test]
    fn a_search_that_may_not_go_on_says_so() {
        let early = found(64, 3, |part| part.contains(&5) && part.contains(&60));
        assert!(!early.is_smallest && early.part.len() == 64);
    }
}
