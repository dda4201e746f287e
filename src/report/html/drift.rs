//! Whether the machine stayed the same: the yardsticks of each round, and how long each row took.

use maud::{Markup, html};

use super::figure::{Across, Curve, Figure, Look, Point, Scale, curves};
use super::phases::hover;
use super::table::{Entry, Table, named, shown};
use super::{ratio, size};
use crate::result::{Rail, RunResult};
use crate::units;

/// The section.
pub fn section(result: &RunResult) -> Markup {
    let mut visits = Table::new(
        "Rows in the order in which they were measured; rounds that were disturbed and measured again come last",
        &[
            "store",
            "#round",
            "#place",
            "#size of blob",
            "#took",
            "#blobs compared",
            "the last time with",
            "failed",
            "in figures",
        ],
    );
    let aside =
        result.set_aside.iter().flat_map(|aside| &aside.visits).map(|visit| (visit, "no: measured again"));
    for (visit, counts) in result.store_rounds.iter().map(|visit| (visit, "yes")).chain(aside) {
        visits.push(vec![
            named(&visit.store),
            visit.round.to_string().into(),
            visit.position.to_string().into(),
            shown(visit.corpus_id.bytes(), size),
            units::nanoseconds(visit.seconds * 1e9).into(),
            visit.verified.to_string().into(),
            shown(visit.verified_from, |from| from.name().to_owned()),
            shown(visit.error.as_ref(), Clone::clone),
            counts.into(),
        ]);
    }
    html! {
        section id="rounds" {
            h2 { "Rounds, and whether the machine stayed the same" }
            p { "At the start and the end of each round four yardsticks are measured. They correct nothing: they show how far to trust times from different rounds. Ratios are paired by round and bear a slow change." }
            @if result.rails.is_empty() { p { "No round was begun." } } @else { div.plots { (rails(&result.rails)) } }
            @if !visits.is_empty() {
                details.everything { summary { "Every row of every round" } (visits) }
            }
        }
    }
}

struct Yardstick {
    name: &'static str,
    value: fn(&Rail) -> Option<f64>,
}

const YARDSTICKS: [Yardstick; 4] = [
    Yardstick { name: "processor: a null op", value: |rail| Some(rail.processor_ns) },
    Yardstick { name: "device: a flush", value: |rail| rail.flush_ns },
    Yardstick { name: "device: a direct read", value: |rail| rail.read_ns },
    Yardstick { name: "to another processor and back", value: |rail| rail.trip_ns },
];

fn rails(rails: &[Rail]) -> Figure {
    let title = "Yardsticks over the run";
    let mut table =
        Table::new(title, &["round", "at its", "#null op", "#flush", "#direct read", "#trip", "repeated"]);
    for rail in rails {
        let mut line = vec![Entry::from(rail.round.to_string()), Entry::from(&rail.at)];
        line.extend(YARDSTICKS.iter().map(|yardstick| shown((yardstick.value)(rail), units::nanoseconds)));
        line.push(if rail.repeated { "yes".into() } else { "no".into() });
        table.push(line);
    }
    let lines: Vec<Curve> = YARDSTICKS.iter().enumerate().filter_map(|(n, y)| line(rails, n, y)).collect();
    let note = "Each over its own median: 2 is twice as slow. Flat lines are a quiet machine.";
    let up = Scale { title: "time / median", show: ratio };
    curves(title, note, (Across::Steps("round", starts(rails)), up), &lines, (Some(1.0), Vec::new()), table)
}

/// Where rounds start, thinned out; a round that was measured again has two starts.
fn starts(rails: &[Rail]) -> Vec<(f64, String)> {
    /// Labels that fit beside each other on a narrow screen.
    const MOST: usize = 8;
    let starts: Vec<(usize, &Rail)> =
        rails.iter().enumerate().filter(|(_, rail)| rail.at == "start").collect();
    let step = starts.len().div_ceil(MOST).max(1);
    let label = |index: usize, rail: &Rail| {
        let is_again = |(_, earlier): &(usize, &Rail)| earlier.round == rail.round && earlier.repeated;
        let again = starts[..index].iter().any(is_again);
        if again { format!("{} again", rail.round) } else { rail.round.to_string() }
    };
    let shown = starts.iter().enumerate().step_by(step);
    shown.map(|(index, (place, rail))| (*place as f64, label(index, rail))).collect()
}

fn line(rails: &[Rail], index: usize, yardstick: &Yardstick) -> Option<Curve> {
    let mut values: Vec<f64> =
        rails.iter().filter_map(yardstick.value).filter(|value| *value > 0.0).collect();
    values.sort_by(f64::total_cmp);
    let middle = *values.get(values.len() / 2)?;
    // In the order in which they were measured: a round that was repeated is there twice.
    let point = |(place, rail): (usize, &Rail)| {
        let value = (yardstick.value)(rail).filter(|value| *value > 0.0)?;
        let times = value / middle;
        let figures = format!(
            "round {}, {}: {}, {times:.2} of the median",
            rail.round,
            rail.at,
            units::nanoseconds(value)
        );
        Some(Point::plain(place as f64, times, hover(yardstick.name, &figures)))
    };
    let points = rails.iter().enumerate().filter_map(point).collect();
    Some(Curve { label: yardstick.name.to_owned(), look: Look(index), points, marks: true })
}
