//! Heat maps: a grid of ratios, colored by their distance from 1. Drawn here rather than by a script, in a wide and a narrow
//! form.

use maud::{Markup, html};

use super::super::view::words::wrapped;
use crate::judge::interval;
use crate::result::{Interval, Verdict};

/// A grid of ratios.
pub struct Heatmap {
    /// Unique id in the page: letters, digits and dashes.
    pub id: String,
    /// Text alternative.
    pub label: String,
    /// Column heads.
    pub columns: Vec<String>,
    /// Lines from the top.
    pub lines: Vec<HeatmapRow>,
    /// Ratio at which colors are strongest; see [`strongest`].
    pub most: f64,
}

/// A line of the grid.
pub enum HeatmapRow {
    /// Heading of the lines below it.
    Title(String),
    /// Label, and text for each column, without color.
    Words(String, Vec<String>),
    /// Label, and ratios.
    Cells(String, Vec<Square>),
}

/// A cell of the grid.
pub struct Square {
    /// Ratio and verdict, or the text shown instead.
    pub value: Result<(Interval, Verdict), String>,
    /// Text of the tooltip.
    pub hover: String,
}

/// Dimensions of one of the two forms, in pixels.
struct HeatmapDimensions {
    class: &'static str,
    /// Width of the labels at the left; 0 if they are above their cells.
    label: usize,
    cell: (usize, usize),
    /// True if cells show intervals.
    intervals: bool,
    /// Maximum number of letters in a line of text.
    letters: usize,
}

/// Height of a line of text, in pixels.
const TEXT: usize = 17;
/// Average width of a letter, in pixels.
const LETTER: f64 = 7.2;
/// Minimum label width in letters, so that the grids of different phases are aligned.
const LABEL_LEAST: usize = 14;
/// Minimum scale of a form; below it, the form scrolls instead of shrinking.
const SHRUNK_MOST: f64 = 0.8;

/// Returns the ratio at which colors are strongest: a round number at least as far from 1 as all of these ratios, within limits.
pub fn strongest(ratios: impl Iterator<Item = f64>) -> f64 {
    const STEPS: [f64; 8] = [1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0];
    let farthest = ratios.map(|ratio| ratio.ln().abs().exp()).fold(1.0, f64::max);
    STEPS.into_iter().find(|step| *step >= farthest).unwrap_or(STEPS[STEPS.len() - 1])
}

impl Heatmap {
    /// Draws the grid in both forms; the style sheet shows one of them.
    pub fn draw(&self) -> Markup {
        let most = self.most;
        let longest = self.labels().flat_map(lines).map(|line| line.chars().count());
        let longest = longest.max().unwrap_or_default().max(LABEL_LEAST);
        let label = (longest as f64 * LETTER).ceil() as usize + 12;
        let wide = HeatmapDimensions { class: "wide", label, cell: (104, 46), intervals: true, letters: 16 };
        let narrow =
            HeatmapDimensions { class: "narrow", label: 0, cell: (54, 34), intervals: false, letters: 9 };
        html! { (self.form(&wide, most)) (self.form(&narrow, most)) (legend(most, &self.id)) }
    }

    fn labels(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(|line| match line {
            HeatmapRow::Title(_) => None,
            HeatmapRow::Words(label, _) | HeatmapRow::Cells(label, _) => Some(label.as_str()),
        })
    }

    fn form(&self, form: &HeatmapDimensions, most: f64) -> Markup {
        let hatch = format!("hatch-{}-{}", self.id, form.class);
        let width = form.label + self.columns.len() * form.cell.0;
        let mut top = TEXT + 4;
        let mut drawn = Vec::new();
        for line in &self.lines {
            let (markup, height) = self.line(form, line, top, most, &hatch);
            drawn.push(markup);
            top += height;
        }
        let shrunk = width as f64 * SHRUNK_MOST;
        html! {
            div class={ "scroll " (form.class) } tabindex="0" role="group" aria-label=(self.label) {
                svg viewBox={ "0 0 " (width) " " (top) } role="img" aria-label={ (self.label) ". The table below has the same numbers." }
                    style={ "max-width:" (width) "px;min-width:" (shrunk as usize) "px" } {
                    defs { (pattern(&hatch)) }
                    @for (at, title) in self.columns.iter().enumerate() {
                        text.heading x=(middle(form, at)) y=(TEXT - 4) text-anchor="middle" font-weight="600" { (title) }
                    }
                    @for line in drawn { (line) }
                }
            }
        }
    }

    /// Draws a line that begins at `top`, and returns its height.
    fn line(
        &self,
        form: &HeatmapDimensions,
        line: &HeatmapRow,
        top: usize,
        most: f64,
        hatch: &str,
    ) -> (Markup, usize) {
        match line {
            HeatmapRow::Title(title) => {
                let text = html! { text x="0" y=(top + TEXT) font-weight="600" { (title) } };
                (text, TEXT + 7)
            }
            HeatmapRow::Words(label, words) => {
                let (labels, below, height) = self.label(form, label, top, TEXT + 5);
                let text = html! {
                    (labels)
                    @for (at, words) in words.iter().enumerate() {
                        text.soft x=(middle(form, at)) y=(below + TEXT - 3) text-anchor="middle" { (words) }
                    }
                };
                (text, height)
            }
            HeatmapRow::Cells(label, cells) => {
                let (labels, below, height) = self.label(form, label, top, form.cell.1);
                let squares = html! {
                    (labels)
                    @for (at, cell) in cells.iter().enumerate() {
                        (square(form, cell, (form.label + at * form.cell.0, below), most, hatch))
                    }
                };
                (squares, height)
            }
        }
    }

    /// Draws a label beside or above its line. Returns it with the top of the line's cells and the height of both.
    fn label(
        &self,
        form: &HeatmapDimensions,
        label: &str,
        top: usize,
        height: usize,
    ) -> (Markup, usize, usize) {
        if form.label == 0 {
            let text = html! { text x="0" y=(top + TEXT - 3) { (label) } };
            return (text, top + TEXT, TEXT + height + 2);
        }
        let lines = lines(label);
        let first = top + (height + 9).saturating_sub((lines.len() - 1) * 14) / 2;
        let text = html! {
            @for (at, line) in lines.iter().enumerate() {
                text x=(form.label - 8) y=(first + at * 14) text-anchor="end" { (line) }
            }
        };
        (text, top, height.max(lines.len() * 14 + 4))
    }
}

/// Breaks a label into lines between its parts.
fn lines(label: &str) -> Vec<String> {
    /// Maximum number of letters in a line.
    const WIDTH: usize = 22;
    let mut lines: Vec<String> = vec![String::new()];
    for piece in label.split_inclusive([',', '/', ' ']).flat_map(|piece| split_before(piece, '[')) {
        let current = lines.len() - 1;
        let fits = lines[current].chars().count() + piece.chars().count() <= WIDTH;
        if fits || lines[current].is_empty() {
            lines[current] += piece;
        } else {
            lines.push(piece.to_owned());
        }
    }
    lines
}

fn split_before(text: &str, sign: char) -> Vec<&str> {
    match text.find(sign).filter(|at| *at > 0) {
        Some(at) => vec![&text[..at], &text[at..]],
        None => vec![text],
    }
}

fn middle(form: &HeatmapDimensions, at: usize) -> usize {
    form.label + at * form.cell.0 + form.cell.0 / 2
}

/// Hatching: lines rising from left to right, on white.
fn pattern(id: &str) -> Markup {
    html! {
        pattern id=(id) width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
            rect width="7" height="7" fill="#ffffff" {}
            line x1="0" y1="0" x2="0" y2="7" stroke="#c4c8ce" stroke-width="2.5" {}
        }
    }
}

fn square(
    form: &HeatmapDimensions,
    cell: &Square,
    (left, top): (usize, usize),
    most: f64,
    hatch: &str,
) -> Markup {
    let (width, height) = (form.cell.0 - 2, form.cell.1 - 2);
    let (fill, ink) = match &cell.value {
        Ok((_, Verdict::CannotTellApart)) => (format!("url(#{hatch})"), "#1d1f23"),
        Ok((ratio, _)) => colours(ratio.median, most),
        Err(_) => ("#eceef1".to_owned(), "#5b6068"),
    };
    let texts = texts(form, cell);
    let halo = fill.starts_with("url").then_some("#ffffff");
    // The lines are centered vertically as a block.
    let first = top + (height + 11).saturating_sub((texts.len() - 1) * 13) / 2;
    html! {
        g {
            title { (cell.hover) }
            rect x=(left) y=(top) width=(width) height=(height) rx="2" fill=(fill) stroke="#b9bec6" stroke-width="1" {}
            @for (at, text) in texts.iter().enumerate() {
                text.small[at > 0 || cell.value.is_err()] x=(left + width / 2) y=(first + at * 14) text-anchor="middle" fill=(ink)
                    stroke=[halo] stroke-width=[halo.map(|_| "3")] paint-order=[halo.map(|_| "stroke")] { (text) }
            }
        }
    }
}

/// Text of a cell, line by line.
fn texts(form: &HeatmapDimensions, cell: &Square) -> Vec<String> {
    match &cell.value {
        Ok((ratio, verdict)) => {
            let text = interval::text(ratio);
            let (figure, range) = text.split_once(' ').unwrap_or((&text, ""));
            let range = Some(range.to_owned()).filter(|range| form.intervals && !range.is_empty());
            std::iter::once(format!("{}{figure}", mark(*verdict))).chain(range).collect()
        }
        Err(words) => wrapped(words, form.letters),
    }
}

/// Sign of a verdict, readable without color.
pub fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "▲ ",
        Verdict::Slower => "▼ ",
        Verdict::Equal => "= ",
        Verdict::CannotTellApart => "? ",
        Verdict::NotRanked => "",
    }
}

// ---- colors ------------------------------------------------------------------------------------------------------

type Rgb = [f64; 3];

/// Near-white to blue and to orange, which color-blind readers can distinguish. Both darken alike, so that in grayscale a darker
/// cell is farther from 1, and its sign tells the direction.
const NEUTRAL: Rgb = [247.0, 247.0, 247.0];
const FASTER: [Rgb; 2] = [[146.0, 197.0, 222.0], [33.0, 102.0, 172.0]];
const SLOWER: [Rgb; 2] = [[253.0, 184.0, 99.0], [179.0, 88.0, 6.0]];

/// Color of a ratio on a logarithmic scale, and a color for text on it.
fn colours(ratio: f64, most: f64) -> (String, &'static str) {
    let strength = (ratio.ln() / most.ln()).clamp(-1.0, 1.0);
    let [half, full] = if strength > 0.0 { FASTER } else { SLOWER };
    let at = strength.abs() * 2.0;
    let rgb = if at <= 1.0 { between(NEUTRAL, half, at) } else { between(half, full, at - 1.0) };
    // Luminance at which black and white have equal contrast.
    let ink = if luminance(rgb) > 0.179 { "#000000" } else { "#ffffff" };
    let [red, green, blue] = rgb.map(|part| part.round() as u8);
    (format!("#{red:02x}{green:02x}{blue:02x}"), ink)
}

fn between(from: Rgb, to: Rgb, share: f64) -> Rgb {
    std::array::from_fn(|part| from[part] + (to[part] - from[part]) * share)
}

/// Relative luminance as defined by WCAG, from 0 to 1.
fn luminance(rgb: Rgb) -> f64 {
    let linear = |part: f64| {
        let part = part / 255.0;
        if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    let [red, green, blue] = rgb.map(linear);
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/// Contrast ratio of two colors as defined by WCAG, from 1 to 21.
#[cfg(test)]
pub(super) fn contrast(one: Rgb, other: Rgb) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Legend of colors, hatching and signs.
fn legend(most: f64, id: &str) -> Markup {
    /// Number of steps in the color scale.
    const STEPS: usize = 9;
    let steps = (0..STEPS).map(|step| most.powf(step as f64 / (STEPS - 1) as f64 * 2.0 - 1.0));
    let strip: Vec<String> = steps.map(|ratio| colours(ratio, most).0).collect();
    let hatch = format!("hatch-{id}-legend");
    html! {
        div.legend {
            span {
                "▼ " (most) " times slower "
                svg width=(STEPS * 14) height="14" viewBox={ "0 0 " (STEPS * 14) " 14" } aria-hidden="true" {
                    @for (at, fill) in strip.iter().enumerate() { rect x=(at * 14) y="0" width="14" height="14" fill=(fill) {} }
                }
                " ▲ " (most) " times faster"
            }
            span { "= equal within 3 %" }
            span {
                svg width="22" height="14" viewBox="0 0 22 14" aria-hidden="true" {
                    defs { (pattern(&hatch)) }
                    rect x="0.5" y="0.5" width="21" height="13" fill={ "url(#" (hatch) ")" } stroke="#b9bec6" {}
                }
                "? cannot be told"
            }
            span {
                svg width="22" height="14" viewBox="0 0 22 14" aria-hidden="true" {
                    rect x="0.5" y="0.5" width="21" height="13" fill="#eceef1" stroke="#b9bec6" {}
                }
                "not ranked"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_the_farther_from_white_the_farther_a_ratio_is_from_1() {
        let grey = |ratio: f64| {
            let (text, _) = colours(ratio, 4.0);
            let part = |at: usize| f64::from(u8::from_str_radix(&text[at..at + 2], 16).unwrap());
            luminance([part(1), part(3), part(5)])
        };
        for pair in [1.0, 1.2, 1.5, 2.0, 3.0, 4.0].windows(2) {
            assert!(grey(pair[0]) > grey(pair[1]) && grey(1.0 / pair[0]) > grey(1.0 / pair[1]), "{pair:?}");
        }
        // Equal distances on either side are about equally dark, and nothing beyond the end is darker.
        for ratio in [1.5, 2.0, 4.0] {
            assert!((grey(ratio) / grey(1.0 / ratio) - 1.0).abs() < 0.25, "{ratio}");
        }
        assert_eq!(colours(100.0, 4.0), colours(4.0, 4.0));
        assert_eq!(colours(1.0, 4.0).0, "#f7f7f7");
    }

    #[test]
    fn text_on_every_colour_can_be_read() {
        for step in 0..=200 {
            let ratio = 4.0_f64.powf(f64::from(step) / 100.0 - 1.0);
            let (fill, ink) = colours(ratio, 4.0);
            let of = |text: &str| {
                let part = |at: usize| f64::from(u8::from_str_radix(&text[at..at + 2], 16).unwrap());
                [part(1), part(3), part(5)]
            };
            let contrast = contrast(of(&fill), of(ink));
            assert!(contrast >= 4.5, "{ratio}: {fill} {ink} {contrast}");
        }
    }

    #[test]
    fn the_scale_ends_at_a_round_ratio_to_both_sides() {
        let of = |ratios: &[f64]| strongest(ratios.iter().copied());
        assert_eq!((of(&[]), of(&[1.1]), of(&[0.4, 1.9]), of(&[100.0])), (1.5, 1.5, 3.0, 16.0));
    }

    #[test]
    fn long_labels_are_broken_where_they_are_read() {
        assert_eq!(lines("sqlite"), ["sqlite"]);
        assert_eq!(
            lines("fjall[kv_separation=true,page=4096]"),
            ["fjall", "[kv_separation=true,", "page=4096]"]
        );
    }

    #[test]
    fn reasons_are_broken_into_short_lines() {
        assert_eq!(wrapped("not possible", 9), ["not", "possible"]);
        assert_eq!(wrapped("not possible", 16), ["not possible"]);
    }
}
