//! The report for a terminal, in 80 columns and readable without color.

use super::view::words;
use crate::result::RunResult;

/// Maximum line width; every terminal is at least this wide.
pub const WIDTH: usize = 80;
/// Width of what stands on the first screen: some terminals break a line that fills their last column.
pub(super) const LINE: usize = WIDTH - 1;

pub(super) fn answer(text: &mut String, result: &RunResult, title: &str) {
    heading(text, title);
    result.answer.iter().for_each(|sentence| wrapped(text, "", &words::placed(result, sentence)));
}

pub(super) fn heading(text: &mut String, title: &str) {
    line(text, &format!("\n{title}"));
}

pub(super) fn line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

/// Writes a paragraph broken at spaces; later lines are indented below the first.
pub(super) fn wrapped(text: &mut String, bullet: &str, paragraph: &str) {
    wrapped_at(text, bullet, paragraph, WIDTH);
}

/// Writes a paragraph without indentation, in the width of [`LINE`].
pub(super) fn flush(text: &mut String, paragraph: &str) {
    words::wrapped(paragraph, LINE).iter().for_each(|words| line(text, words));
}

/// Returns a paragraph indented by `indent` spaces.
pub fn paragraph(indent: usize, words: &str) -> String {
    behind(&" ".repeat(indent), words)
}

/// Returns a paragraph whose first line starts with `begin`; later lines align with the text after it.
pub fn behind(begin: &str, words: &str) -> String {
    let mut text = String::new();
    wrapped(&mut text, begin, words);
    text
}

/// Breaks a text at spaces into lines of at most `letters` characters.
pub fn folded(text: &str, letters: usize) -> Vec<String> {
    words::wrapped(text, letters)
}

fn wrapped_at(text: &mut String, bullet: &str, paragraph: &str, most: usize) {
    let indent = bullet.chars().count().max(2);
    for (index, words) in words::wrapped(paragraph, most.saturating_sub(indent)).into_iter().enumerate() {
        let begin = if index == 0 { bullet } else { "" };
        line(text, &format!("{begin:<indent$}{words}"));
    }
}
