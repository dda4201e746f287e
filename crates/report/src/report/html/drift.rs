//! Stability of the machine: the probes of each round, and how long each candidate took.

use maud::{Markup, html};

use super::axis::Scale;
use super::figure::{Curve, CurvePoint, Figure, HorizontalAxis, curves};
use super::look::Look;
use super::phases::hover;
use super::table::{Table, TableCell, named, shown};
use super::{PageData, ratio, size};
use crate::judge::interval::upper_median;
use crate::result::{Probe, StoreRound};
use crate::units;

pub fn section(view: &PageData<'_>) -> Markup {
    let result = view.result;
    let aside =
        result.set_aside.iter().flat_map(|aside| &aside.visits).map(|visit| (visit, "no: measured again"));
    let visits: Vec<(&StoreRound, &str)> =
        result.store_rounds.iter().map(|visit| (visit, "yes")).chain(aside).collect();
    let caption = "Candidates in the order in which they were measured; rounds that were disturbed and measured again come last";
    let visits = Table::with_columns(
        caption,
        &visits,
        &[
            ("store", &|(visit, _)| named(&visit.store)),
            ("#round", &|(visit, _)| visit.round.to_string().into()),
            ("#place", &|(visit, _)| visit.position.to_string().into()),
            ("#size of blob", &|(visit, _)| shown(visit.corpus_id.bytes(), size)),
            ("#took", &|(visit, _)| units::nanoseconds(visit.seconds * 1e9).into()),
            ("#blobs compared", &|(visit, _)| visit.verified.to_string().into()),
            ("the last time with", &|(visit, _)| shown(visit.verified_from, |from| from.name().to_owned())),
            ("failed", &|(visit, _)| shown(visit.error.as_ref(), Clone::clone)),
            ("in figures", &|(_, counts)| counts.into()),
        ],
    );
    html! {
        p { "Four probes are measured at the start and end of each round. They correct nothing, and show how far to trust times from different rounds. Ratios are paired by round, so a slow change does not affect them." }
        @if result.probes.is_empty() { p { "No round began." } } @else { div.plots { (probes(&result.probes)) } }
        @if !visits.is_empty() {
            details.everything { summary { "Every candidate of every round" } (visits) }
        }
    }
}

struct Measure {
    name: &'static str,
    value: fn(&Probe) -> Option<f64>,
}

const MEASURES: [Measure; 4] = [
    Measure { name: "processor: a null op", value: |probe| Some(probe.processor_ns) },
    Measure { name: "device: a flush", value: |probe| probe.flush_ns },
    Measure { name: "device: a direct read", value: |probe| probe.read_ns },
    Measure { name: "to another processor and back", value: |probe| probe.trip_ns },
];

fn probes(probes: &[Probe]) -> Figure {
    let title = "Measures over the run";
    let mut table =
        Table::new(title, ["round", "at its", "#null op", "#flush", "#direct read", "#trip", "repeated"]);
    for probe in probes {
        let mut line = vec![TableCell::from(probe.round.to_string()), TableCell::from(&probe.at)];
        line.extend(MEASURES.iter().map(|measure| shown((measure.value)(probe), units::nanoseconds)));
        line.push(if probe.repeated { "yes".into() } else { "no".into() });
        table.push(line);
    }
    let lines: Vec<Curve> = MEASURES.iter().enumerate().filter_map(|(n, y)| line(probes, n, y)).collect();
    let note = "Each over its own median: 2 is twice as slow. Flat lines are a quiet machine.";
    let up = Scale { title: "time / median", show: ratio };
    curves(
        title,
        note,
        (HorizontalAxis::Steps("round", starts(probes)), up),
        &lines,
        (Some(1.0), Vec::new()),
        table,
    )
}

/// Tick labels at the starts of rounds, thinned out; a repeated round has two starts.
fn starts(probes: &[Probe]) -> Vec<(f64, String)> {
    /// Maximum number of labels that fit side by side on a narrow screen.
    const MOST: usize = 8;
    let starts: Vec<(usize, &Probe)> =
        probes.iter().enumerate().filter(|(_, probe)| probe.at == "start").collect();
    let step = starts.len().div_ceil(MOST).max(1);
    let label = |index: usize, probe: &Probe| {
        let is_again = |(_, earlier): &(usize, &Probe)| earlier.round == probe.round && earlier.repeated;
        let again = starts[..index].iter().any(is_again);
        if again { format!("{} again", probe.round) } else { probe.round.to_string() }
    };
    let shown = starts.iter().enumerate().step_by(step);
    shown.map(|(index, (place, probe))| (*place as f64, label(index, probe))).collect()
}

fn line(probes: &[Probe], index: usize, measure: &Measure) -> Option<Curve> {
    let values = probes.iter().filter_map(measure.value).filter(|value| *value > 0.0);
    let middle = upper_median(values)?;
    // In measuring order; a repeated round occurs twice.
    let point = |(place, probe): (usize, &Probe)| {
        let value = (measure.value)(probe).filter(|value| *value > 0.0)?;
        let times = value / middle;
        let figures = format!(
            "round {}, {}: {}, {times:.2} of the median",
            probe.round,
            probe.at,
            units::nanoseconds(value)
        );
        Some(CurvePoint::plain(place as f64, times, hover(measure.name, &figures)))
    };
    let points = probes.iter().enumerate().filter_map(point).collect();
    Some(Curve { label: measure.name.to_owned(), look: Look(index), points, marks: true })
}
