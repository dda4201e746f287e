//! The recommendation for small, medium and large blobs separately, in every kind of report.

use maud::{Markup, html};

use super::html::table::{Table, TableCell, shown};
use super::html::{PageData, led, prose};
use super::markdown::Page;
use super::section::{Section, new};
use super::terminal::{heading, wrapped};
use super::view::choice::{either, leading, more_with_bounds, of_situation, one_place, places, sizes, times};
use crate::judge::answer::rounds_to_decide;
use crate::result::{RunResult, Situation, SizeAdvice};
use crate::units;

pub(super) const SECTION: Section = new("by-size", "By size of blob")
    .named("By size")
    .has(|result| !of(result).is_empty())
    .html(html)
    .more()
    .terminal(terminal)
    .markdown(markdown);

/// Text above the section.
const ABOUT: &str = "Reads alone, as if there were no blobs of other sizes: from the same reads of the same run. A write has no time by size: what it puts off has none. `--sweep 1kB..10MB` fills stores of one size each.";

const HEAD: [&str; 6] = ["size", "reads", "fastest", "#time", "next takes more", "times as long"];

fn of(result: &RunResult) -> &[SizeAdvice] {
    result.advice.as_ref().map_or(&[], |advice| advice.by_size.as_slice())
}

/// Sentence about a size class.
fn sentence(result: &RunResult, of_size: &SizeAdvice) -> String {
    let share = units::percent(of_size.reads_share);
    let label = format!(
        "{}, {} ({share} of the reads)",
        capitalized(of_size.class.name()),
        sizes(of_size.from_bytes, of_size.below_bytes)
    );
    let only = || format!("{label}: {}.", places(of_size).as_deref().unwrap_or("undecided"));
    one_place(result, &of_size.advice, &label, false).unwrap_or_else(only)
}

fn capitalized(word: &str) -> String {
    word[..1].to_uppercase() + &word[1..]
}

/// Table rows: one for each kind of read of each size class.
fn lines(result: &RunResult) -> Vec<[Option<String>; 6]> {
    let line = |of_size: &SizeAdvice, situation: &Situation| {
        let next = situation.next.as_ref();
        let more = next.map(|next| format!("`{}`: {}", next.store, more_with_bounds(situation, next)));
        let times = next.and_then(times).map(|times| times.concat());
        let fastest = match rounds_to_decide(situation) {
            Some(_) => Some("too few rounds to tell".to_owned()),
            None => Some(either(&leading(situation))).filter(|leading| !leading.is_empty()),
        };
        [
            Some(of_size.class.name().to_owned()),
            Some(situation.short.clone()),
            fastest,
            situation.leaders().next().and_then(|first| Some(units::nanoseconds(first.op_ns?))),
            more,
            times,
        ]
    };
    let of_class = |of_size: &SizeAdvice| -> Vec<_> {
        of_size.advice.situations.iter().map(|situation| line(of_size, situation)).collect()
    };
    of(result).iter().flat_map(of_class).collect()
}

fn html(view: &PageData<'_>) -> Markup {
    let mut table = Table::new("The fastest in reads of each size", &HEAD);
    for line in lines(view.result) {
        let entry = |(column, figure): (usize, Option<String>)| match (column, figure) {
            (2 | 4, Some(words)) => TableCell::new(prose(&words), "words"),
            (_, figure) => shown(figure, |figure| figure),
        };
        table.push(line.into_iter().enumerate().map(entry).collect());
    }
    html! {
        p { (prose(ABOUT)) }
        ul { @for of_size in of(view.result) { li { (led(&sentence(view.result, of_size))) } } }
        // Not printed: the sentences are on paper, and the table would take a seventh page.
        (table.printed(0))
    }
}

fn terminal(text: &mut String, result: &RunResult, title: &str) {
    if of(result).is_empty() {
        return;
    }
    heading(text, title);
    wrapped(text, "  ", ABOUT);
    for of_size in of(result) {
        wrapped(text, "- ", &sentence(result, of_size));
        for situation in &of_size.advice.situations {
            wrapped(text, "    ", &of_situation(&of_size.advice, situation));
        }
    }
}

fn markdown(page: &mut Page, result: &RunResult, title: &str) {
    if of(result).is_empty() {
        return;
    }
    page.paragraph(&format!("## {title}"));
    page.paragraph(ABOUT);
    page.list(&of(result).iter().map(|of_size| sentence(result, of_size)).collect::<Vec<_>>());
    let lines = lines(result);
    page.table(
        &HEAD.map(|head| head.trim_start_matches('#')),
        lines.into_iter().map(|line| line.map(Option::unwrap_or_default).to_vec()),
    );
}
