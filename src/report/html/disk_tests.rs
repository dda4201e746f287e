//! The page of disk tests: what differs, the places side by side, and all figures of each.

use maud::{Markup, html};

use super::table::{Table, TableCell, shown};
use super::{prose, still_document};
use crate::report::disk::{
    HEADS, LEGEND, absent, beside, cells, costs, differences, head, rows_of, shown_rate, warnings,
};
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
            (sentences("differs", "What differs", &differences(report)))
            (sentences("beside", "Beside ours", &beside(report)))
            (sentences("costs", "What requests cost", &costs(report)))
            (sentences("careful", "Be careful", &warnings(report)))
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

fn sentences(id: &str, title: &str, sentences: &[String]) -> Markup {
    html! {
        @if !sentences.is_empty() {
            section id=(id) {
                h2 { (title) }
                ul { @for sentence in sentences { li { (prose(sentence)) } } }
            }
        }
    }
}

/// Table of blobwise's rates, with a column for each place measured.
fn side_by_side(report: &DiskReport) -> Table {
    let measured: Vec<&str> = report.measured().map(|place| place.name.as_str()).collect();
    let heads: Vec<String> =
        std::iter::once("test".to_owned()).chain(measured.iter().map(|place| format!("#{place}"))).collect();
    let mut table = Table::new("Rates of each place", &heads.iter().map(String::as_str).collect::<Vec<_>>());
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

fn entry(text: &str) -> TableCell {
    shown(Some(text).filter(|text| !text.is_empty()), str::to_owned)
}

fn of_place(report: &DiskReport, place: &TestedPlace) -> Markup {
    let heads: Vec<String> = HEADS
        .iter()
        .enumerate()
        .map(|(at, head)| format!("{}{head}", if at > 0 { "#" } else { "" }))
        .collect();
    let mut table = Table::new(place.name.clone(), &heads.iter().map(String::as_str).collect::<Vec<_>>());
    let rows = rows_of(report, place);
    for row in &rows {
        table.push(cells(report, row).iter().map(|cell| entry(cell)).collect());
    }
    html! {
        h3 { (place.name) }
        p { (place.disk) }
        (table)
        ul {
            @for (row, why) in rows.iter().filter_map(|row| Some((row, row.absent.as_ref()?))) {
                li { (row.test) ": " (absent(why)) }
            }
        }
        @if !place.facts.is_empty() {
            details { summary { "What it was made of" }
                dl { @for (name, value) in &place.facts { dt { (name) } dd { (value) } } } }
        }
    }
}
