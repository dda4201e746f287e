//! The page of disk tests: what differs, the places side by side, and all figures of each.

use maud::{Markup, html};

use super::table::{Table, TableCell, shown};
use super::{prose, still_document};
use crate::report::disk::{LEGEND, conclusions, head, shown_rate, table};
use crate::result::disk::{DiskReport, TestedPlace};

/// Renders a report of `blobwise disk` as a page.
pub fn render(report: &DiskReport) -> String {
    let title = "blobwise: what disks do";
    let body = html! {
        header {
            h1 { (title) }
            p.facts { (report.started) " · " (report.machine.processor) " · " (report.machine.system) " · " (report.machine.kernel)
                " · blobwise " (report.blobwise) }
            p { (head(report)) }
        }
        main {
            @for (id, title, sentences) in conclusions(report) {
                section id=(id) { h2 { (title) } ul { @for sentence in sentences { li { (prose(&sentence)) } } } }
            }
            @if report.places.len() > 1 {
                section id="places" { h2 { "Side by side" } (side_by_side(report)) }
            }
            section id="figures" {
                h2 { "All figures" }
                p { (LEGEND) }
                @for place in &report.places { (of_place(report, place)) }
            }
        }
    };
    still_document(title, &report.blobwise, &body, &html! {}, &html! {}).into_string()
}

/// Table of blobwise's rates, with a column for each place measured.
fn side_by_side(report: &DiskReport) -> Table {
    let measured: Vec<&str> = report.measured().map(|place| place.name.as_str()).collect();
    let heads = std::iter::once("test".to_owned()).chain(measured.iter().map(|place| format!("#{place}")));
    let mut table = Table::new("Rates of each place", heads);
    for test in report.tests() {
        let rate = |place: &&str| {
            let row = report.ours().find(|row| row.test == test && row.place == **place)?;
            row.rate.map(|rate| shown_rate(&rate, test, report.block_bytes))
        };
        let rates = measured.iter().map(|place| shown(rate(place), |rate| rate));
        table.push(std::iter::once(TableCell::from(test.to_string())).chain(rates).collect());
    }
    table
}

fn of_place(report: &DiskReport, place: &TestedPlace) -> Markup {
    html! {
        h3 { (place.name) }
        p { (place.disk) }
        (table(report, place))
        @if !place.facts.is_empty() {
            details { summary { "What it was made of" }
                dl { @for (name, value) in &place.facts { dt { (name) } dd { (value) } } } }
        }
    }
}
