//! Plots: dots with whiskers, and curves, as SVG that scales with the page: horizontal lengths are percentages of the width,
//! vertical lengths are pixels. A table beneath holds the same numbers.

use maud::{Markup, Render, html};

use super::axis::{Axis, Scale, extent};
use super::look::Look;
use super::table::Table;
use crate::result::Interval;

/// A plot with its table.
pub struct Figure {
    title: String,
    note: String,
    /// The drawing; `None` if there is nothing to draw.
    plot: Option<Markup>,
    table: Table,
}

/// Height of a plot of curves, in pixels.
const CURVES_HEIGHT: usize = 260;
/// Height of a line in a plot of dots, in pixels.
const LINE_HEIGHT: usize = 34;
/// Height of a line of strips, in pixels.
const STRIP_LINE_HEIGHT: usize = 22;
/// Height of the tick labels below a plot, in pixels.
const NAMES_HEIGHT: usize = 20;
/// Intervals are cut off at this factor beyond the outermost dot.
const WHISKERS_FACTOR: f64 = 5.0;
/// Width of the coordinate system in which lines between points are drawn; it is stretched to the page.
const ACROSS: f64 = 1000.0;

impl Render for Figure {
    fn render(&self) -> Markup {
        html! {
            figure.plot {
                figcaption { strong { (self.title) } @if !self.note.is_empty() { " " span.note { (self.note) } } }
                @match &self.plot {
                    Some(plot) => (plot),
                    None => p.absent { "Too few ops for any of these figures." },
                }
                details { summary { "The numbers" } (self.table) }
            }
        }
    }
}

/// Wraps a drawing as an image with a text alternative.
fn canvas(title: &str, drawn: &Markup) -> Markup {
    html! {
        div.canvas role="img" aria-label={ (title) ". The table below has the same numbers." } { (drawn) }
    }
}

/// Formats a share of the width.
fn share(place: f64) -> String {
    format!("{:.2}%", place * 100.0)
}

/// Tick labels below a plot of this height, each with a grid line.
fn across(axis: &Axis, height: usize) -> Markup {
    html! {
        @for (place, text) in axis.ticks() {
            line.grid x1=(share(place)) x2=(share(place)) y1="0" y2=(height) {}
            text.value x=(share(place)) y=(height + 15) text-anchor=(anchor(place, text)) { (text) }
        }
    }
}

/// Average width of a letter, in pixels.
const LETTER: usize = 7;

/// Text anchor that keeps a label at an end of the axis inside the plot, even on a phone.
fn anchor(place: f64, name: &str) -> &'static str {
    /// Width of a plot in pixels on a page that is 400 pixels wide.
    const NARROWEST: f64 = 290.0;
    let half = (name.chars().count() * LETTER) as f64 / 2.0 / NARROWEST;
    match place {
        place if place < half => "start",
        place if place > 1.0 - half => "end",
        _ => "middle",
    }
}

/// A vertical line, or a band if the two values differ.
fn upright(axis: &Axis, from: f64, to: f64, height: usize) -> Markup {
    let (Some(from), Some(to)) = (axis.place(from), axis.place(to)) else { return html! {} };
    html! {
        @if from < to {
            rect.band x=(share(from)) width=(share(to - from)) y="0" height=(height) {}
        } @else {
            line.level x1=(share(from)) x2=(share(from)) y1="0" y2=(height) {}
        }
    }
}

fn mark(look: Look, is_open: bool, (x, y): (&str, f64), (at, value): (f64, f64), hover: &str) -> Markup {
    html! {
        use.mark.open[is_open] href=(look.symbol()) x=(x) y=(format!("{y:.1}")) data-x=(at) data-y=(value) {
            title { (hover) }
        }
    }
}

/// A value with its interval.
pub struct Dot {
    /// Index of its line.
    pub candidate: usize,
    /// Look of the candidate.
    pub look: Look,
    pub value: Interval,
    /// Text of the tooltip.
    pub hover: String,
    /// Not ranked; drawn hollow.
    pub open: bool,
    /// Secondary value: drawn hollow, below the ranked one.
    pub beside: bool,
}

/// Values that an axis has to span: middles, a level that they are compared with, and the ends of their intervals, as far as they
/// are not cut off.
fn spanned(values: impl Iterator<Item = Interval> + Clone, level: Option<f64>) -> Vec<f64> {
    let mut all: Vec<f64> = values.clone().map(|value| value.median).chain(level).collect();
    let (low, high) = extent(all.iter().copied());
    let ends = values.flat_map(|value| [value.low, value.high]).flatten();
    all.extend(ends.map(|end| end.clamp(low / WHISKERS_FACTOR, high * WHISKERS_FACTOR)));
    all
}

/// A reference value that dots are compared with.
pub struct ReferenceMark {
    pub at: f64,
    /// Range that counts as equal to it.
    pub around: Option<(f64, f64)>,
}

/// Draws dots with whiskers, one line for each label, the first at the top.
pub fn dots(
    title: &str,
    note: &str,
    scale: Scale,
    labels: &[String],
    dots: &[Dot],
    against: Option<ReferenceMark>,
    table: Table,
) -> Figure {
    let values = dots.iter().map(|dot| dot.value);
    let axis = scale.axis(spanned(values, against.as_ref().map(|mark| mark.at)).into_iter());
    let height = LINE_HEIGHT * labels.len();
    let drawn: Vec<Markup> = dots.iter().filter_map(|dot| placed(dot, &axis, LINE_HEIGHT)).collect();
    let plot = html! {
        div.area {
            div.lines aria-hidden="true" {
                @for label in labels { div style={ "height:" (LINE_HEIGHT) "px" } { span { (breakable(label)) } } }
            }
            svg.drawn width="100%" height=(height + NAMES_HEIGHT) {
                @for line in 0..labels.len() {
                    @let middle = line * LINE_HEIGHT + LINE_HEIGHT / 2;
                    line.grid x1="0" x2="100%" y1=(middle) y2=(middle) {}
                }
                (across(&axis, height))
                svg width="100%" height=(height) {
                    @if let Some(mark) = &against {
                        @if let Some((low, high)) = mark.around { (upright(&axis, low, high, height)) }
                        (upright(&axis, mark.at, mark.at, height))
                    }
                    @for dot in &drawn { (dot) }
                }
            }
        }
        div.title { (scale.title) }
    };
    let plot = (!drawn.is_empty()).then(|| canvas(title, &plot));
    Figure { title: title.into(), note: note.into(), plot, table }
}

/// A column of a strip plot.
#[derive(Default)]
pub struct Strip {
    /// What it has in common with columns beside it, above its name.
    pub group: Option<&'static str>,
    /// Name above the column.
    pub name: String,
    /// Dots, one for each line that has a figure.
    pub dots: Vec<Dot>,
    /// Lines whose dot decides nothing; drawn grey.
    pub undecided: Vec<usize>,
    /// Lines without a dot, with the words in its place.
    pub empty: Vec<(usize, &'static str)>,
}

/// Draws columns of dots with whiskers on a common logarithmic axis, one line for each label. The line at 1 marks the best.
pub fn strips(title: &str, note: &str, labels: &[String], strips: &[Strip], table: Table) -> Figure {
    let dots = || strips.iter().flat_map(|strip| &strip.dots);
    let values = || dots().map(|dot| dot.value);
    let (_, high) = extent(values().map(|value| value.median).chain([1.0]));
    let axis = Axis::of_places("", spanned(values(), Some(1.0)).into_iter(), few_places(high));
    let height = STRIP_LINE_HEIGHT * labels.len();
    let plot = html! {
        div.area {
            div.lines aria-hidden="true" {
                div.name {}
                @for label in labels {
                    div style={ "height:" (STRIP_LINE_HEIGHT) "px" } { span { (breakable(label)) } }
                }
            }
            @for strip in strips {
                div.strip {
                    div.name { @if let Some(group) = strip.group { small { (group) } } span { (strip.name) } }
                    svg.drawn width="100%" height=(height + NAMES_HEIGHT) {
                        (across(&axis, height))
                        svg width="100%" height=(height) {
                            (upright(&axis, 1.0, 1.0, height))
                            @for dot in &strip.dots {
                                g class=[strip.undecided.contains(&dot.candidate).then_some("undecided")] { @if let Some(drawn) = placed(dot, &axis, STRIP_LINE_HEIGHT) { (drawn) } }
                            }
                            @for (line, words) in &strip.empty { (instead(words, line * STRIP_LINE_HEIGHT)) }
                        }
                    }
                }
            }
        }
    };
    let plot = dots().next().is_some().then(|| canvas(title, &plot));
    Figure { title: title.into(), note: note.into(), plot, table }
}

/// Words in place of a dot on a line of strips that begins at `top`; two words are below each other, because a phone has no room for
/// both.
fn instead(words: &str, top: usize) -> Markup {
    let (above, below) = words.split_once(' ').unwrap_or((words, ""));
    html! {
        text.instead text-anchor="middle" {
            tspan x="50%" y=(top + STRIP_LINE_HEIGHT / 2 - 1) { (above) }
            tspan x="50%" y=(top + STRIP_LINE_HEIGHT - 3) { (below) }
        }
    }
}

/// Tick values of a narrow column, up to the largest value; a phone has room for two.
fn few_places(high: f64) -> Vec<(f64, String)> {
    let names: &[f64] = match high {
        high if high < 3.0 => &[1.0, 2.0],
        high if high < 10.0 => &[1.0, 3.0],
        high if high < 1e2 => &[1.0, 10.0],
        high if high < 1e4 => &[1.0, 1e2],
        _ => &[1.0, 1e4],
    };
    names.iter().map(|name| (*name, format!("{name}"))).collect()
}

/// Draws a dot with its whiskers.
fn placed(dot: &Dot, axis: &Axis, line_height: usize) -> Option<Markup> {
    /// Offset in pixels of a secondary value below the middle of its line.
    const BELOW: f64 = 8.0;
    let place = share(axis.place(dot.value.median)?);
    let y = (dot.candidate * line_height + line_height / 2) as f64 + if dot.beside { BELOW } else { 0.0 };
    let end = |end: Option<f64>| end.and_then(|end| axis.place(end)).map(share);
    let (low, high) = (end(dot.value.low), end(dot.value.high));
    Some(html! {
        g class={ "series " (dot.look.color()) } {
            @if low.is_some() || high.is_some() {
                line.whisker x1=(low.as_ref().unwrap_or(&place)) x2=(high.as_ref().unwrap_or(&place)) y1=(y) y2=(y) {}
            }
            @for end in low.iter().chain(&high) { line.whisker x1=(end) x2=(end) y1=(y - 4.0) y2=(y + 4.0) {} }
            (mark(dot.look, dot.open || dot.beside, (&place, y), (dot.value.median, dot.candidate as f64), &dot.hover))
        }
    })
}

/// A label that may wrap between its parts.
fn breakable(label: &str) -> Markup {
    html! { @for piece in label.split_inclusive(['/', ',', ']']) { (piece) wbr; } }
}

/// A point of a curve.
pub struct CurvePoint {
    /// Position on the horizontal axis.
    pub x: f64,
    pub y: Interval,
    /// Text of the tooltip.
    pub hover: String,
}

impl CurvePoint {
    /// Creates a point without an interval.
    pub fn plain(x: f64, y: f64, hover: String) -> CurvePoint {
        CurvePoint { x, y: Interval::point(y), hover }
    }
}

/// A curve through a candidate's points.
pub struct Curve {
    /// Name of the curve.
    pub label: String,
    /// Look of the candidate.
    pub look: Look,
    /// Points, in order.
    pub points: Vec<CurvePoint>,
    /// True if each point has a mark.
    pub marks: bool,
}

/// The horizontal axis of curves.
pub enum HorizontalAxis {
    /// A logarithmic axis.
    Log(Scale),
    /// A logarithmic axis with ticks at these places.
    Places(&'static str, Vec<(f64, String)>),
    /// Whole numbers from the first to the last.
    Whole(&'static str),
    /// Steps with ticks at these places.
    Steps(&'static str, Vec<(f64, String)>),
}

impl HorizontalAxis {
    fn axis(self, values: impl Iterator<Item = f64>) -> Axis {
        match self {
            HorizontalAxis::Log(scale) => scale.axis(values),
            HorizontalAxis::Places(title, places) => Axis::of_places(title, values, places),
            HorizontalAxis::Whole(title) => Axis::whole(title, values),
            HorizontalAxis::Steps(title, places) => Axis::whole(title, values).with_ticks(places),
        }
    }
}

/// Highlighted ranges of the horizontal axis: low end, line inside, high end.
pub type Bands = Vec<(f64, f64, f64)>;

/// Draws curves over a common axis.
pub fn curves(
    title: &str,
    note: &str,
    (across_of, up): (HorizontalAxis, Scale),
    curves: &[Curve],
    (level, bands): (Option<f64>, Bands),
    table: Table,
) -> Figure {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let axes = Axes {
        x: across_of.axis(points().map(|point| point.x)),
        y: up.axis(spanned(points().map(|point| point.y), level).into_iter()),
    };
    let drawn: Vec<(usize, Markup)> =
        curves.iter().enumerate().filter_map(|(at, curve)| Some((at, axes.curve(curve)?))).collect();
    let plot = html! {
        @if curves.len() > 1 { (legend(curves)) }
        div.title.up { (up.title) }
        div.area {
            (axes.values())
            svg.drawn width="100%" height=(CURVES_HEIGHT + NAMES_HEIGHT) {
                @for (place, _) in axes.y.ticks() {
                    line.grid x1="0" x2="100%" y1=(down(place)) y2=(down(place)) {}
                }
                (across(&axes.x, CURVES_HEIGHT))
                svg width="100%" height=(CURVES_HEIGHT) {
                    @for (low, middle, high) in &bands {
                        g.crossover data-low=(low) data-high=(high) {
                            (upright(&axes.x, *low, *high, CURVES_HEIGHT))
                            (upright(&axes.x, *middle, *middle, CURVES_HEIGHT))
                        }
                    }
                    @if let Some(place) = level.and_then(|level| axes.y.place(level)) {
                        line.level x1="0" x2="100%" y1=(down(place)) y2=(down(place)) {}
                    }
                    @for (at, curve) in &drawn {
                        g class={ "series " (curves[*at].look.color()) } data-of=(at) { (curve) }
                    }
                }
            }
        }
        div.title { (axes.x.title) }
    };
    let plot = (!drawn.is_empty()).then(|| canvas(title, &plot));
    Figure { title: title.into(), note: note.into(), plot, table }
}

/// Vertical position in pixels from the top.
fn down(place: f64) -> String {
    format!("{:.1}", (1.0 - place) * CURVES_HEIGHT as f64)
}

/// Legend of the curves. With scripts enabled, a click on a name hides its curve.
fn legend(curves: &[Curve]) -> Markup {
    html! {
        div.legend aria-hidden="true" {
            @for (at, curve) in curves.iter().enumerate() {
                span data-of=(at) class=(curve.look.color()) {
                    svg width="30" height="12" {
                        line.line x1="0" x2="30" y1="6" y2="6" stroke-dasharray=[curve.look.dash()] {}
                        @if curve.marks { use.mark href=(curve.look.symbol()) x="15" y="6" {} }
                    }
                    " " (breakable(&curve.label))
                }
            }
        }
    }
}

/// The two axes of a plot of curves.
struct Axes {
    x: Axis,
    y: Axis,
}

impl Axes {
    /// Tick labels at the left.
    fn values(&self) -> Markup {
        let letters = self.y.ticks().map(|(_, text)| text.chars().count()).max().unwrap_or_default();
        html! {
            svg.values width=(letters * LETTER + 8) height=(CURVES_HEIGHT + NAMES_HEIGHT) aria-hidden="true" {
                @for (place, text) in self.y.ticks() {
                    text.value x="100%" dx="-6" y=(down(place)) dy="4" text-anchor="end" { (text) }
                }
            }
        }
    }

    /// Draws a curve; `None` if none of its points can be placed.
    fn curve(&self, curve: &Curve) -> Option<Markup> {
        let placed = |point: &'_ CurvePoint| Some((self.x.place(point.x)?, self.y.place(point.y.median)?));
        let places: Vec<(&CurvePoint, (f64, f64))> =
            curve.points.iter().filter_map(|point| Some((point, placed(point)?))).collect();
        let line: Vec<String> =
            places.iter().map(|(_, (x, y))| format!("{:.1},{}", x * ACROSS, down(*y))).collect();
        let shown = if curve.marks { 1 } else { places.len().div_ceil(POINTED_AT_MOST).max(1) };
        (!places.is_empty()).then(|| {
            html! {
                @if line.len() > 1 {
                    svg viewBox={ "0 0 " (ACROSS) " " (CURVES_HEIGHT) } preserveAspectRatio="none" width="100%" height=(CURVES_HEIGHT) {
                        polyline.line points=(line.join(" ")) stroke-dasharray=[curve.look.dash()] {}
                    }
                }
                @for (point, place) in places.iter().step_by(shown) { (self.point(curve, point, *place)) }
            }
        })
    }

    /// Draws a point with a tooltip, and with whiskers if the curve has marks.
    fn point(&self, curve: &Curve, point: &CurvePoint, (x, y): (f64, f64)) -> Markup {
        let (x, from_top) = (share(x), (1.0 - y) * CURVES_HEIGHT as f64);
        if !curve.marks {
            return html! { circle.ghost cx=(x) cy=(down(y)) r="4" { title { (point.hover) } } };
        }
        let end = |end: Option<f64>| end.and_then(|end| self.y.place(end)).map(down);
        let ends = [end(point.y.low), end(point.y.high)];
        html! {
            @if let [Some(low), Some(high)] = &ends { line.whisker x1=(x) x2=(x) y1=(low) y2=(high) {} }
            (mark(curve.look, false, (&x, from_top), (point.x, point.y.median), &point.hover))
        }
    }
}

/// Maximum number of points with tooltips on a curve without marks; more would only make pages larger.
const POINTED_AT_MOST: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: Scale = Scale { title: "ops/s", show: |value| format!("{value}") };

    fn curve(label: &str, ys: &[f64]) -> Curve {
        let points =
            (1..).zip(ys).map(|(x, y)| CurvePoint::plain(f64::from(x), *y, format!("at {x}"))).collect();
        Curve { label: label.to_owned(), look: Look(0), points, marks: true }
    }

    fn drawn(lines: &[Curve]) -> String {
        let across = (HorizontalAxis::Whole("round"), SCALE);
        curves("Rates", "", across, lines, (None, Vec::new()), Table::default()).render().0
    }

    #[test]
    fn what_has_no_place_on_an_axis_is_not_drawn() {
        let text = drawn(&[curve("a", &[1.0, 0.0, f64::NAN, 4.0]), curve("b", &[0.0])]);
        assert_eq!(
            text.matches("class=\"mark\" href=\"#m0\" x=\"").count(),
            2 + 2,
            "two points, two of the legend"
        );
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert!(drawn(&[curve("b", &[0.0])]).contains("Too few ops"));
    }

    #[test]
    fn names_of_others_are_words_and_no_markup() {
        let text = drawn(&[curve("<b>&", &[1.0]), curve("c", &[2.0])]);
        assert!(text.contains("&lt;b&gt;&amp;") && !text.contains("<b>&"));
    }

    #[test]
    fn a_line_of_many_points_has_few_to_point_at() {
        let mut many = curve("a", &[2.0; 500]);
        many.marks = false;
        let text = drawn(&[many]);
        assert_eq!(
            text.matches("class=\"ghost\"").count(),
            500_usize.div_ceil(500_usize.div_ceil(POINTED_AT_MOST))
        );
        assert_eq!(text.matches("class=\"ghost\"").count(), 24);
    }

    /// Each column has the line of the best, and its tick labels lie on the common axis.
    #[test]
    fn strips_share_an_axis() {
        let dot = |value: f64| Dot {
            candidate: 0,
            look: Look(1),
            value: Interval::point(value),
            hover: "h".to_owned(),
            open: false,
            beside: false,
        };
        let columns = [1.0, 40.0].map(|value| Strip {
            name: format!("of {value}"),
            dots: vec![dot(value)],
            ..Strip::default()
        });
        let text = strips("Times", "", &["a".to_owned()], &columns, Table::default()).render().0;
        assert_eq!(text.matches("class=\"level\"").count(), 2, "{text}");
        let axis = Axis::of_places("", [1.0, 40.0].into_iter(), few_places(40.0));
        for value in [1.0, 40.0] {
            let place = share(axis.place(value).unwrap());
            assert!(text.contains(&format!("href=\"#m1\" x=\"{place}\"")), "{value}: {text}");
        }
        assert_eq!(axis.ticks().map(|(_, name)| name).collect::<Vec<_>>(), ["1", "10"]);
    }

    #[test]
    fn whiskers_reach_to_the_interval_and_names_stay_inside() {
        let value = Interval { low: Some(5.0), high: Some(20.0), ..Interval::point(10.0) };
        let dot =
            Dot { candidate: 0, look: Look(3), value, hover: "h".to_owned(), open: true, beside: false };
        let labels = ["a".to_owned()];
        let text = dots("Rate", "", SCALE, &labels, &[dot], None, Table::default()).render().0;
        let axis = SCALE.axis([5.0, 10.0, 20.0].into_iter());
        let [low, middle, high] = [5.0, 10.0, 20.0].map(|value| share(axis.place(value).unwrap()));
        assert!(text.contains(&format!("x1=\"{low}\" x2=\"{high}\"")), "{text}");
        assert!(text.contains(&format!("class=\"mark open\" href=\"#m3\" x=\"{middle}\"")), "{text}");
        let anchors = |name| (anchor(0.01, name), anchor(0.5, name), anchor(0.99, name));
        assert_eq!(anchors("10 us"), ("start", "middle", "end"));
        assert_eq!([anchor(0.92, "99.99 %"), anchor(0.92, "99 %")], ["end", "middle"]);
    }
}
