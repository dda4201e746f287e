//! Sentences of the program on a page.

use maud::{Markup, html};

/// Renders a sentence of the program, in which backticks mark names.
pub(super) fn prose(text: &str) -> Markup {
    // Browsers would break a line after the dashes of a flag.
    let is_flag = |piece: &str| piece.starts_with("--") && piece.len() < 24;
    html! {
        @for (index, piece) in text.split('`').enumerate() {
            @if index % 2 == 1 { code class=[is_flag(piece).then_some("flag")] { (piece) } } @else { (piece) }
        }
    }
}

/// Renders a sentence with its subject emphasized.
pub(super) fn led(sentence: &str) -> Markup {
    /// Maximum length of a subject.
    const LEAD: usize = 60;
    match sentence.split_once(": ").filter(|(lead, _)| lead.len() <= LEAD && !lead.contains('`')) {
        Some((lead, rest)) => html! { strong { (lead) ":" } " " (prose(rest)) },
        None => prose(sentence),
    }
}
