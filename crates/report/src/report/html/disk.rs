//! Disk space and writes per byte of blobs.

use maud::{Markup, html};

use super::axis::Scale;
use super::figure::{Curve, CurvePoint, Dot, Figure, HorizontalAxis, ReferenceMark, curves, dots};
use super::phases::hover;
use super::table::{Table, TableCell, named, shown};
use super::{Looks, PageData, ratio, size};
use crate::report::block::{Block, ReportFormat};
use crate::result::{Footprint, Interval, RunResult};
use crate::units;

fn candidates(result: &RunResult) -> Vec<&Footprint> {
    result.footprints.iter().filter(|footprint| footprint.after_settle_bytes.is_some()).collect()
}

/// The figures that a terminal has room for.
pub fn in_terminal(result: &RunResult, format: ReportFormat) -> Vec<Block> {
    let candidates = candidates(result);
    if candidates.is_empty() || format != ReportFormat::Terminal {
        return Vec::new();
    }
    let title = "Disk: bytes allocated for each byte of blobs".to_owned();
    let heads = ["#settled", "#/byte", "#grows", "#data", "#indexes", "#dirs", "#logs", "#empty", "#wrote"];
    let mut table = Table::new(&title, std::iter::once("store").chain(heads));
    let share = |value: Option<f64>| match value {
        Some(value) if value >= 100.0 => format!("{value:.0}").into(),
        value => shown(value, |value| format!("{value:.2}")),
    };
    for footprint in candidates {
        let size = footprint.corpus_id.bytes().map_or(String::new(), |bytes| format!(" {}", size(bytes)));
        table.push(vec![
            named(&format!("{}{size}", footprint.store)),
            bytes(footprint.after_settle_bytes),
            share(footprint.space_amplification),
            share(footprint.grows_per_byte),
            bytes(footprint.data_bytes()),
            bytes(footprint.index_bytes),
            bytes(footprint.directory_bytes),
            bytes(footprint.log_bytes),
            bytes(footprint.empty_bytes),
            share(footprint.write_amplification),
        ]);
    }
    vec![Block::Title(title), Block::Table(table)]
}

fn bytes(value: Option<u64>) -> TableCell {
    shown(value, size)
}

pub fn section(view: &PageData<'_>) -> Markup {
    let (result, looks) = (view.result, &view.looks);
    let candidates = candidates(result);
    let sweep = candidates.iter().any(|footprint| footprint.corpus_id.bytes().is_some());
    html! {
        @if candidates.is_empty() {
            p { "No candidate that takes disk was measured." }
        } @else {
            p { "Allocated blocks, directories included, after everything was flushed; of a server given by URL what it says itself. What a store keeps in memory only is not in it. When it has settled, it is data, indexes that a store tells apart, directories themselves, and logs; the four add up to it. Amplification is for each byte of blobs; 1 is the least that a store without compression can take. What it grows by is the difference between the empty and the settled store, without the logs of either." }
            div.plots {
                @for kind in [SPACE, WRITTEN] {
                    @if let Some(figure) = if sweep { over_sizes(looks, &candidates, &kind) } else { bars(looks, &candidates, &kind) } {
                        (figure)
                    }
                }
            }
            (table(&candidates))
        }
    }
}

struct FootprintMeasure {
    title: &'static str,
    note: &'static str,
    value: fn(&Footprint) -> Option<f64>,
}

const SPACE: FootprintMeasure = FootprintMeasure {
    title: "Bytes taken for a byte of blobs",
    note: "After the fill and the store's own settling. What an empty store takes, such as a log of a fixed size, is in it; the table has both.",
    value: |footprint| footprint.space_amplification,
};
const WRITTEN: FootprintMeasure = FootprintMeasure {
    title: "Bytes written for a byte of blobs",
    note: "What the device wrote from before the fill until the store had settled.",
    value: |footprint| footprint.write_amplification,
};

const SCALE: Scale = Scale { title: "bytes / byte of blobs", show: ratio };

/// A value without an interval.
fn plain(value: f64) -> Interval {
    Interval::point(value)
}

fn bars(looks: &Looks, candidates: &[&Footprint], kind: &FootprintMeasure) -> Option<Figure> {
    let mut known: Vec<(&str, f64)> = candidates
        .iter()
        .filter_map(|footprint| Some((footprint.store.as_str(), (kind.value)(footprint)?)))
        .filter(|(_, value)| *value > 0.0)
        .collect();
    known.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut table = Table::new(kind.title, ["store", "#bytes / byte"]);
    let mut marks = Vec::new();
    for (candidate, (store, value)) in known.iter().enumerate() {
        table.push(vec![named(store), format!("{value:.2}").into()]);
        let hover = hover(store, &format!("{value:.2} bytes for each byte of blobs"));
        marks.push(Dot {
            candidate,
            look: looks.get(store),
            value: plain(*value),
            hover,
            open: false,
            beside: false,
        });
    }
    let labels: Vec<String> = known.iter().map(|(store, _)| (*store).to_owned()).collect();
    (!labels.is_empty()).then(|| {
        dots(
            kind.title,
            kind.note,
            SCALE,
            &labels,
            &marks,
            Some(ReferenceMark { at: 1.0, around: None }),
            table,
        )
    })
}

fn over_sizes(looks: &Looks, candidates: &[&Footprint], kind: &FootprintMeasure) -> Option<Figure> {
    let mut table = Table::new(kind.title, ["store", "#size of blob", "#bytes / byte"]);
    let mut lines: Vec<Curve> = Vec::new();
    for footprint in candidates {
        let (Some(bytes), Some(value)) = (footprint.corpus_id.bytes(), (kind.value)(footprint)) else {
            continue;
        };
        table.push(vec![named(&footprint.store), size(bytes).into(), format!("{value:.2}").into()]);
        let figures = format!("{}: {value:.2} bytes for each byte of blobs", size(bytes));
        let point = CurvePoint::plain(bytes as f64, value, hover(&footprint.store, &figures));
        match lines.iter_mut().find(|line| line.label == footprint.store) {
            Some(line) => line.points.push(point),
            None => {
                let (label, look) = (footprint.store.clone(), looks.get(&footprint.store));
                lines.push(Curve { label, look, points: vec![point], marks: true });
            }
        }
    }
    let across = HorizontalAxis::Log(Scale { title: "size of blob", show: units::bytes });
    (!lines.is_empty())
        .then(|| curves(kind.title, kind.note, (across, SCALE), &lines, (Some(1.0), Vec::new()), table))
}

fn table(candidates: &[&Footprint]) -> Table {
    let share = |value: Option<f64>| shown(value, |value| format!("{value:.2}"));
    let blob = |footprint: &Footprint| -> TableCell {
        footprint.corpus_id.bytes().map_or("mixed".into(), |bytes| size(bytes).into())
    };
    Table::with_columns(
        "Disk",
        candidates,
        &[
            ("store", &|footprint| named(&footprint.store)),
            ("#size of blob", &blob),
            ("#blobs", &|footprint| size(footprint.logical_bytes).into()),
            ("#empty store", &|footprint| bytes(footprint.empty_bytes)),
            ("#filled", &|footprint| bytes(footprint.allocated_bytes)),
            ("#settled", &|footprint| bytes(footprint.after_settle_bytes)),
            ("#data", &|footprint| bytes(footprint.data_bytes())),
            ("#indexes", &|footprint| bytes(footprint.index_bytes)),
            ("#directories", &|footprint| bytes(footprint.directory_bytes)),
            ("#logs", &|footprint| bytes(footprint.log_bytes)),
            ("#by free space", &|footprint| bytes(footprint.statvfs_bytes)),
            ("#taken / byte", &|footprint| share(footprint.space_amplification)),
            ("#grows / byte", &|footprint| share(footprint.grows_per_byte)),
            ("#written / byte", &|footprint| share(footprint.write_amplification)),
            ("#memory, empty", &|footprint| bytes(footprint.empty_memory_bytes)),
        ],
    )
}
