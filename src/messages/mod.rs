//! Wording of a result's data: the same in the answer, in a terminal, HTML, Markdown and CSV. No code parses it.

mod reasons;

pub use reasons::{WordedReason, in_a_line, in_plain_words, of_reason, why};
