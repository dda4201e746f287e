//! The words for what a result has as data: the same in the answer, a terminal, HTML, Markdown and CSV. Nobody reads them back.

mod reasons;
mod warnings;

pub use reasons::{Said, in_a_line, of_reason, why};
pub use warnings::{advice, ahead_by, doubted, hint, in_short, of_warning, preloaded};
