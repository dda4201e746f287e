//! Wording of a result's data: the same in the answer, in a terminal, HTML, Markdown and CSV. No code parses it.

mod reasons;
mod warnings;

pub use reasons::{Said, in_a_line, of_reason, why};
pub use warnings::{advice, ahead_by, doubted, hint, in_short, of_warning, preloaded};
