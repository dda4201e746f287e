//! Look of candidates in plots: color, mark and dash.

use maud::{Markup, html};

/// Number of colors; the style sheet defines them, each in a light and a dark variant.
pub const COLORS: usize = 8;
/// Dashes of lines, in pixels of line and gap.
const DASHES: [&str; 4] = ["", "7 4", "2 3", "8 3 2 3"];
/// Outlines of marks around 0, in pixels: circle, square, diamond, triangles, cross, star, pentagon, saltire.
const SYMBOLS: [&str; 9] = [
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "M-4-4h8v8h-8z",
    "M0-5.5L5.5 0L0 5.5L-5.5 0z",
    "M0-5L5 4H-5z",
    "M0 5L5-4H-5z",
    "M-1.7-5h3.4v3.3H5v3.4H1.7V5h-3.4V1.7H-5v-3.4h3.3z",
    "M0-5.8L1.4-1.9L5.5-1.8L2.2.7L3.4 4.7L0 2.3L-3.4 4.7L-2.2.7L-5.5-1.8L-1.4-1.9z",
    "M0-5.2L5-1.6L3.1 4.2H-3.1L-5-1.6z",
    "M-3.5-5L0-1.5L3.5-5L5-3.5L1.5 0L5 3.5L3.5 5L0 1.5L-3.5 5L-5 3.5L-1.5 0L-5-3.5z",
];

/// Color, mark and dash of a candidate: the same in every plot, and unique for the first 32 candidates.
#[derive(Clone, Copy, Debug)]
pub struct Look(pub usize);

impl Look {
    /// CSS class of the color.
    pub fn color(self) -> String {
        format!("k{}", self.0 % COLORS)
    }

    /// Value of `stroke-dasharray`; `None` for a solid line.
    pub fn dash(self) -> Option<&'static str> {
        // Candidates of the same color have different dashes.
        Some(DASHES[(self.0 + self.0 / COLORS) % DASHES.len()]).filter(|dash| !dash.is_empty())
    }

    /// Reference to the mark's symbol.
    pub fn symbol(self) -> String {
        format!("#m{}", self.0 % SYMBOLS.len())
    }
}

/// Definitions of all marks, which the plots of a page refer to.
pub fn symbols() -> Markup {
    html! {
        svg width="0" height="0" aria-hidden="true" style="position:absolute" {
            defs { @for (number, outline) in SYMBOLS.iter().enumerate() { path id={ "m" (number) } d=(outline) {} } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_of_32_look_alike() {
        let looks: BTreeSet<_> =
            (0..32).map(Look).map(|look| (look.color(), look.dash(), look.symbol())).collect();
        assert_eq!(looks.len(), 32);
        // Lines without marks are unique too.
        let lines: BTreeSet<_> = (0..32).map(Look).map(|look| (look.color(), look.dash())).collect();
        assert_eq!(lines.len(), 32);
    }

    /// Colors of the style sheet in the form `#rrggbb` that follow this text; of a variable, the light variant first.
    fn colors(before: &str) -> Vec<[f64; 3]> {
        let begin = format!("{before}: #");
        let values = include_str!("style.css").split(begin.as_str()).skip(1).map(|rest| {
            let part = |at: usize| f64::from(u8::from_str_radix(&rest[at..at + 2], 16).unwrap());
            [part(0), part(2), part(4)]
        });
        values.collect()
    }

    /// Contrast ratio of two colors as defined by WCAG, from 1 to 21.
    fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
        let luminance = |rgb: [f64; 3]| {
            let [red, green, blue] = rgb.map(|part| {
                let part = part / 255.0;
                if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
            });
            0.2126 * red + 0.7152 * green + 0.0722 * blue
        };
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn every_colour_stands_out_on_its_paper() {
        let paper = colors("--paper");
        assert_eq!(paper.len(), 2, "one for light, one for dark");
        for number in 0..COLORS {
            let line = colors(&format!("--k{number}"));
            assert_eq!(line.len(), 2, "k{number}");
            for (line, paper) in line.iter().zip(&paper) {
                let contrast = contrast(*line, *paper);
                assert!(contrast >= 3.0, "k{number}: {contrast:.2}");
            }
        }
        for (ink, least) in [("ink", 7.0), ("soft", 4.5), ("link", 4.5)] {
            for (ink, paper) in colors(&format!("--{ink}")).iter().zip(&paper) {
                assert!(contrast(*ink, *paper) >= least);
            }
        }
    }

    #[test]
    fn text_in_a_heat_map_can_be_read_and_farther_from_1_is_darker() {
        let ink = colors(".heat { color")[0];
        for direction in ["faster", "slower"] {
            let steps = (1..=4).map(|step| colors(&format!(".{direction}-{step} {{ background"))[0]);
            let contrasts: Vec<f64> = steps.map(|fill| contrast(ink, fill)).collect();
            assert!(contrasts.is_sorted_by(|before, next| before > next), "{direction}: {contrasts:?}");
            assert!(contrasts[3] >= 4.5, "{direction}: {contrasts:?}");
        }
    }
}
