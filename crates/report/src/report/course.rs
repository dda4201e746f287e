//! Timeline of a power-cut test as two lines of text: when the disk was flushed, and what each cut left.

use crate::result::crash::{LogPositions, PowerCutResults, SurvivingData};

/// Number of columns, from the first write of the load to its last.
const WIDTH: usize = 56;

/// Legend for the two lines.
pub const LEGEND: &str = "The load from left to right. A `|` is a flush, or several. Of the cuts in a column the worst is shown: `.` everything \
    acknowledged was there, `-` recent writes gone, as the class allows, `X` less than is promised, `?` no file system to mount.";

/// Result of a cut, in increasing severity. Without a file system, nothing is known about the store.
const SIGNS: [(SurvivingData, char); 4] = [
    (SurvivingData::NoFileSystem, '?'),
    (SurvivingData::Everything, '.'),
    (SurvivingData::Promised, '-'),
    (SurvivingData::Less, 'X'),
];

/// Returns the two lines if a promise was broken; otherwise they say no more than the figures.
pub fn lines(finding: &PowerCutResults) -> Option<[String; 2]> {
    (finding.damages() > 0).then(|| drawn(&finding.course))
}

fn drawn(course: &LogPositions) -> [String; 2] {
    let column = |at: usize| (at * WIDTH / course.entries.max(1)).min(WIDTH - 1);
    let (mut flushes, mut worst) = ([' '; WIDTH], [None; WIDTH]);
    for flush in &course.flushes {
        flushes[column(*flush)] = '|';
    }
    for (at, left) in &course.cuts {
        let worst = &mut worst[column(*at)];
        *worst = (*worst).max(SIGNS.iter().position(|(known, _)| known == left));
    }
    let signs = worst.iter().map(|place| place.map_or(' ', |place| SIGNS[place].1));
    [("flushes", flushes.iter().collect::<String>()), ("cuts", signs.collect())]
        .map(|(name, signs)| format!("{name:<9}{signs}").trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_cuts_that_fall_together_the_worst_is_shown() {
        let cuts = vec![
            (0, SurvivingData::Everything),
            (50, SurvivingData::Less),
            (50, SurvivingData::Promised),
            (50, SurvivingData::NoFileSystem),
            (100, SurvivingData::NoFileSystem),
        ];
        let [flushes, cuts] = drawn(&LogPositions { entries: 100, flushes: vec![0, 1, 50], cuts });
        assert_eq!(flushes, format!("flushes  |{}|", " ".repeat(27)));
        assert_eq!(cuts, format!("cuts     .{0}X{1}?", " ".repeat(27), " ".repeat(26)));
        let nothing =
            drawn(&LogPositions { entries: 0, flushes: vec![3], cuts: vec![(9, SurvivingData::Promised)] });
        assert_eq!(nothing[1].len(), "cuts".len() + 5 + WIDTH);
    }
}
