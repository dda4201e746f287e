//! What kinds of work found.

use maud::{Markup, html};

use super::prose;
use super::table::{Entry, Table, named, shown};
use crate::report::findings::{self, Shown, TITLE};
use crate::result::RunResult;

/// The section; nothing where nothing was found.
pub fn section(result: &RunResult) -> Markup {
    let all = findings::all(result);
    html! {
        @if !all.is_empty() {
            section id="findings" {
                h2 { (TITLE) }
                @for found in &all {
                    h3 { (found.title) }
                    @for sentence in &found.said { p { (prose(sentence)) } }
                    (table(found))
                }
            }
        }
    }
}

fn table(found: &Shown) -> Table {
    let heads: Vec<String> = found
        .columns
        .iter()
        .map(|(title, number)| if *number { format!("#{title}") } else { title.clone() })
        .collect();
    let mut table = Table::new(&found.title, &heads.iter().map(String::as_str).collect::<Vec<_>>());
    for line in &found.lines {
        let entry = |(index, value): (usize, &Option<String>)| match value {
            Some(label) if index == 0 => named(label),
            value => shown::<&String>(value.as_ref(), Clone::clone),
        };
        table.push(line.iter().enumerate().map(entry).collect::<Vec<Entry>>());
    }
    table
}
