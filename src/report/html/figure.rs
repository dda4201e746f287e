//! Plots: plotly draws them in the browser from what is put together here, and a table beneath holds the same numbers.

use maud::{Markup, PreEscaped, Render, html};
use plotly::color::NamedColor;
use plotly::common::{
    Anchor, DashType, ErrorData, ErrorType, Font, HoverInfo, Label, Line, Marker, MarkerSymbol, Mode,
    Orientation, Title,
};
use plotly::configuration::DisplayModeBar;
use plotly::layout::{
    Axis, AxisRange, AxisType, HoverMode, Layout, Legend, Margin, Shape, ShapeLayer, ShapeLine, ShapeType,
};
use plotly::{Configuration, Plot, Scatter};

use super::table::Table;
use crate::result::Interval;

/// A plot with its table.
pub struct Figure {
    title: String,
    note: String,
    /// The plot as JSON, as the library's own type carries its scripts along; absent without anything to draw.
    plot: Option<String>,
    table: Table,
}

/// Pixels of a plot of curves, without its legend.
const CURVES_HEIGHT: usize = 300;
/// Pixels of a line of a plot of dots, and of what surrounds them.
const DOTS_HEIGHT: (usize, usize) = (34, 64);
/// An interval is drawn no further than this factor beyond the outermost dot.
const WHISKERS_FACTOR: f64 = 5.0;

impl Render for Figure {
    fn render(&self) -> Markup {
        html! {
            figure.plot {
                figcaption { strong { (self.title) } @if !self.note.is_empty() { " " (self.note) } }
                @if let Some(plot) = &self.plot {
                div.canvas role="img" aria-label={ (self.title) ". The table below has the same numbers." } {}
                script type="application/json" { (PreEscaped(in_script(plot))) }
                } @else { p.absent { "Too few ops for any of these figures." } }
                details { summary { "The numbers" } (self.table) }
            }
        }
    }
}

/// JSON that cannot end the script element it stands in.
fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// The library's script element, without the one for formulas: a dollar sign in a label is a dollar sign.
pub fn library() -> String {
    const END: &str = "</script>";
    let scripts = Plot::offline_js_sources();
    let end = scripts.find(END).map_or(scripts.len(), |at| at + END.len());
    scripts[..end].to_owned()
}

/// Text as plotly shows it: plotly knows some tags and entities, and what comes from a user is neither.
pub fn escaped(text: &str) -> String {
    crate::shown::on_terminal(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A label on at most three lines.
fn broken(label: &str) -> String {
    lines(label).iter().map(|line| escaped(line)).collect::<Vec<String>>().join("<br>")
}

/// The lines of a label, broken where its parts begin.
pub fn lines(label: &str) -> Vec<String> {
    /// Letters that fit into a line.
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

// ---- how candidates are told apart -------------------------------------------------------------------------------------

/// Okabe and Ito's colours, which colour-blind readers tell apart, with grey for yellow, which is
/// too pale for lines on white.
const COLORS: [&str; 8] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#767676"];
const DASHES: [DashType; 4] = [DashType::Solid, DashType::Dash, DashType::Dot, DashType::DashDot];
const SYMBOLS: [(MarkerSymbol, MarkerSymbol); 9] = [
    (MarkerSymbol::Circle, MarkerSymbol::CircleOpen),
    (MarkerSymbol::Square, MarkerSymbol::SquareOpen),
    (MarkerSymbol::Diamond, MarkerSymbol::DiamondOpen),
    (MarkerSymbol::TriangleUp, MarkerSymbol::TriangleUpOpen),
    (MarkerSymbol::TriangleDown, MarkerSymbol::TriangleDownOpen),
    (MarkerSymbol::Cross, MarkerSymbol::CrossOpen),
    (MarkerSymbol::Star, MarkerSymbol::StarOpen),
    (MarkerSymbol::Pentagon, MarkerSymbol::PentagonOpen),
    (MarkerSymbol::X, MarkerSymbol::XOpen),
];

/// Colour, mark and dash of a candidate: the same in every plot, and no two alike before the 33rd.
#[derive(Clone, Copy, Debug)]
pub struct Look(pub usize);

impl Look {
    fn color(self) -> &'static str {
        COLORS[self.0 % COLORS.len()]
    }

    fn dash(self) -> DashType {
        // Candidates of one colour have different dashes.
        DASHES[(self.0 + self.0 / COLORS.len()) % DASHES.len()].clone()
    }

    fn symbol(self, open: bool) -> MarkerSymbol {
        let (filled, hollow) = &SYMBOLS[self.0 % SYMBOLS.len()];
        if open { hollow.clone() } else { filled.clone() }
    }
}

// ---- scales ------------------------------------------------------------------------------------------------------

/// An axis: what it shows and how its values are written.
#[derive(Clone, Copy)]
pub struct Scale {
    /// What it shows, with the unit where the values have none.
    pub title: &'static str,
    /// How a value is written.
    pub show: fn(f64) -> String,
}

impl Scale {
    /// A logarithmic axis over these values.
    fn axis(&self, values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = extent(values);
        let ticks = ticks(low, high);
        Axis::new()
            .type_(AxisType::Log)
            .title(Title::with_text(self.title))
            .range(AxisRange::from(vec![low.log10(), high.log10()]))
            .tick_text(ticks.iter().map(|tick| (self.show)(*tick)).collect())
            .tick_values(ticks)
            .tick_angle(0.0)
            .grid_color("#e3e3e3")
            .zero_line(false)
            .auto_margin(true)
    }
}

/// The smallest and the largest positive value, and some room around them.
fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    // No axis reaches further: room around what is at the end of all numbers would lie beyond them.
    const BOUNDS: (f64, f64) = (1e-30, 1e30);
    let positive =
        values.filter(|value| value.is_finite() && *value > 0.0).map(|value| value.clamp(BOUNDS.0, BOUNDS.1));
    let (low, high) = positive.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    if high == 0.0 {
        return (0.5, 2.0);
    }
    let room = (high / low).powf(0.06).max(1.04);
    (low / room, high * room)
}

/// Round values of a logarithmic axis: as many as there is room for.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    /// Labels that fit beside each other on a narrow screen.
    const MOST: usize = 5;
    let decades = |mantissas: &[f64], every: usize| -> Vec<f64> {
        let exponents = (low.log10().floor() as i32..=high.log10().ceil() as i32).step_by(every);
        let values = exponents.flat_map(|exponent| {
            mantissas.iter().map(move |mantissa| mantissa * 10_f64.powi(exponent)).collect::<Vec<f64>>()
        });
        values.filter(|value| (low..=high).contains(value)).collect()
    };
    let candidates = [
        evenly(low, high),
        decades(&[1.0, 2.0, 5.0], 1),
        decades(&[1.0, 3.0], 1),
        decades(&[1.0], 1),
        decades(&[1.0], 2),
    ];
    let fits = |ticks: &&Vec<f64>| (2..=MOST).contains(&ticks.len());
    // Even steps are for axes that hardly leave a factor of 3; elsewhere they crowd at one end.
    let from = usize::from(high / low > 3.0);
    candidates[from..].iter().find(fits).cloned().unwrap_or_else(|| decades(&[1.0], 3))
}

/// Round values at even steps.
fn evenly(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 4.0;
    let unit = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|step| step * unit).find(|step| *step >= rough);
    let step = step.unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    // Whole multiples, rounded, so that 0.3 is not 0.30000000000000004.
    (first..=last).map(|n| (n as f64 * step * 1e9).round() / 1e9).collect()
}

// ---- dots and whiskers -------------------------------------------------------------------------------------------

/// A figure with its interval.
pub struct Dot {
    /// The line it stands in.
    pub candidate: usize,
    /// What it is of, for the legend.
    pub look: Look,
    /// The figure.
    pub value: Interval,
    /// What is shown beside the pointer.
    pub hover: String,
    /// Hollow: not ranked.
    pub open: bool,
    /// Beside what is ranked: smaller, hollow and below it.
    pub beside: bool,
}

/// A value that dots are seen against.
pub struct Mark {
    /// The value.
    pub at: f64,
    /// What is as good as equal to it.
    pub around: Option<(f64, f64)>,
}

/// Dots with whiskers, one line for each label, the first at the top.
pub fn dots(
    title: &str,
    note: &str,
    scale: Scale,
    labels: &[String],
    dots: &[Dot],
    mark: Option<Mark>,
    table: Table,
) -> Figure {
    let middles = dots.iter().map(|dot| dot.value.median).chain(mark.as_ref().map(|mark| mark.at));
    let (low, high) = extent(middles.clone());
    let ends = dots.iter().flat_map(|dot| [dot.value.low, dot.value.high]).flatten();
    let inside = ends.map(|end| end.clamp(low / WHISKERS_FACTOR, high * WHISKERS_FACTOR));
    let mut layout = layout(DOTS_HEIGHT.1 + DOTS_HEIGHT.0 * labels.len())
        .show_legend(false)
        .x_axis(scale.axis(middles.chain(inside)))
        .y_axis(
            Axis::new()
                .range(AxisRange::from(vec![labels.len() as f64 - 0.5, -0.5]))
                .tick_values((0..labels.len()).map(|candidate| candidate as f64).collect())
                .tick_text(labels.iter().map(|label| broken(label)).collect())
                .grid_color("#f0f0f0")
                .zero_line(false)
                .auto_margin(true)
                .fixed_range(true),
        );
    if let Some(mark) = mark {
        let band = mark.around.map(|(low, high)| upright(low, high, 0.0));
        layout = layout.shapes(band.into_iter().chain([upright(mark.at, mark.at, 1.5)]).collect());
    }
    let mut plot = plot(layout);
    for dot in dots {
        let open = dot.open || dot.beside;
        let shift = if dot.beside { 0.24 } else { 0.0 };
        let trace = Scatter::new(vec![dot.value.median], vec![dot.candidate as f64 + shift])
            .mode(Mode::Markers)
            .marker(Marker::new().symbol(dot.look.symbol(open)).color(dot.look.color()).size(if dot.open {
                8
            } else {
                10
            }))
            .error_x(whiskers(dot.look, [dot.value].iter()))
            .hover_text(&dot.hover)
            .hover_info(HoverInfo::Text);
        plot.add_trace(trace);
    }
    Figure { title: title.into(), note: note.into(), plot: json(&plot), table }
}

fn whiskers<'i>(look: Look, intervals: impl Iterator<Item = &'i Interval> + Clone) -> ErrorData {
    let above = intervals.clone().map(|i| i.high.map_or(0.0, |high| high - i.median)).collect();
    let below = intervals.map(|i| i.low.map_or(0.0, |low| i.median - low)).collect();
    ErrorData::new(ErrorType::Data)
        .symmetric(false)
        .array(above)
        .array_minus(below)
        .color(look.color())
        .thickness(1.5)
        .width(4)
}

// ---- curves ------------------------------------------------------------------------------------------------------

/// A point of a curve.
pub struct Point {
    /// Along the axis.
    pub x: f64,
    /// The figure.
    pub y: Interval,
    /// What is shown beside the pointer.
    pub hover: String,
}

impl Point {
    /// A point without an interval.
    pub fn plain(x: f64, y: f64, hover: String) -> Point {
        Point { x, y: Interval { median: y, low: None, high: None }, hover }
    }
}

/// A candidate's points, joined.
pub struct Curve {
    /// What it is of.
    pub label: String,
    /// How it looks.
    pub look: Look,
    /// Its points, in order.
    pub points: Vec<Point>,
    /// Whether each point is marked.
    pub marks: bool,
}

/// The horizontal axis of curves.
pub enum Across {
    /// A logarithmic one.
    Log(Scale),
    /// One with ticks at these places, on a logarithmic scale.
    Places(&'static str, Vec<(f64, String)>),
    /// Whole numbers from the first to the last.
    Whole(&'static str),
    /// Steps with ticks at these places.
    Steps(&'static str, Vec<(f64, String)>),
}

/// Ranges of the horizontal axis that are set off, each with a line in it.
pub type Bands = Vec<(f64, f64, f64)>;

/// Curves over a common axis.
pub fn curves(
    title: &str,
    note: &str,
    (across, up): (Across, Scale),
    curves: &[Curve],
    (mark, bands): (Option<f64>, Bands),
    table: Table,
) -> Figure {
    let xs = || curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.x));
    let middles = || curves.iter().flat_map(|curve| curve.points.iter().map(|p| p.y.median)).chain(mark);
    let (low, high) = extent(middles());
    let ends = curves.iter().flat_map(|curve| &curve.points).flat_map(|point| [point.y.low, point.y.high]);
    let inside = ends.flatten().map(|end| end.clamp(low / WHISKERS_FACTOR, high * WHISKERS_FACTOR));
    let x_axis = match across {
        Across::Log(scale) => scale.axis(xs()),
        Across::Places(title, places) => {
            let (low, high) = extent(xs());
            let (values, text) = places.into_iter().filter(|(value, _)| *value <= high).unzip();
            Scale { title, show: |_| String::new() }
                .axis([low, high].into_iter())
                .tick_values(values)
                .tick_text(text)
        }
        Across::Whole(title) => whole_axis(title, xs()),
        Across::Steps(title, places) => {
            let (values, text) = places.into_iter().unzip();
            whole_axis(title, xs()).tick_values(values).tick_text(text)
        }
    };
    let mut shapes: Vec<Shape> = Vec::new();
    shapes.extend(mark.map(level));
    for (low, middle, high) in bands {
        shapes.push(upright(low, high, 0.0));
        shapes.push(upright(middle, middle, 1.5));
    }
    let layout = layout(CURVES_HEIGHT)
        .show_legend(curves.len() > 1)
        .x_axis(x_axis)
        .y_axis(up.axis(middles().chain(inside)))
        .shapes(shapes);
    let mut plot = plot(layout);
    for curve in curves {
        plot.add_trace(trace(curve));
    }
    Figure { title: title.into(), note: note.into(), plot: json(&plot), table }
}

fn trace(curve: &Curve) -> Box<Scatter<f64, f64>> {
    let (x, y) = curve.points.iter().map(|point| (point.x, point.y.median)).unzip();
    let mut trace = Scatter::new(x, y)
        .name(escaped(&curve.label))
        .mode(if curve.marks { Mode::LinesMarkers } else { Mode::Lines })
        .line(Line::new().color(curve.look.color()).dash(curve.look.dash()).width(2.0))
        .hover_text_array(curve.points.iter().map(|point| point.hover.as_str()).collect::<Vec<&str>>())
        .hover_info(HoverInfo::Text);
    if curve.marks {
        trace = trace
            .marker(Marker::new().symbol(curve.look.symbol(false)).color(curve.look.color()).size(8))
            .error_y(whiskers(curve.look, curve.points.iter().map(|point| &point.y)));
    }
    trace
}

/// An axis of whole numbers with few enough ticks.
fn whole_axis(title: &'static str, values: impl Iterator<Item = f64>) -> Axis {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    let low = low.min(high);
    let step = ((high - low) / 8.0).ceil().max(1.0);
    Axis::new()
        .title(Title::with_text(title))
        .range(AxisRange::from(vec![low - 0.4, high + 0.4]))
        .dtick(step)
        .grid_color("#f0f0f0")
        .zero_line(false)
        .auto_margin(true)
}

// ---- what all have in common -------------------------------------------------------------------------------------

fn layout(height: usize) -> Layout {
    Layout::new()
        .height(height)
        .font(Font::new().family("system-ui, sans-serif").size(12).color("#222222"))
        .margin(Margin::new().left(8).right(12).top(8).bottom(8).auto_expand(true))
        .hover_mode(HoverMode::Closest)
        // Pixels from the pointer: curves have few points, and fingers are wide.
        .hover_distance(50)
        .hover_label(
            Label::new()
                .background_color("#ffffff")
                .border_color("#444444")
                .font(Font::new().color("#111111").size(12)),
        )
        .paper_background_color(NamedColor::Transparent)
        .plot_background_color(NamedColor::Transparent)
        .legend(
            Legend::new()
                .orientation(Orientation::Horizontal)
                .x(0.0)
                .x_anchor(Anchor::Left)
                .y(1.02)
                .y_anchor(Anchor::Bottom),
        )
}

fn plot(layout: Layout) -> Plot {
    let mut plot = Plot::new();
    plot.set_layout(layout);
    plot.set_configuration(Configuration::new().display_mode_bar(DisplayModeBar::False).typeset_math(false));
    plot
}

fn json(plot: &Plot) -> Option<String> {
    (!plot.data().is_empty()).then(|| plot.to_json())
}

/// A line, or a range, from bottom to top of a plot with a logarithmic horizontal axis.
fn upright(from: f64, to: f64, width: f64) -> Shape {
    Shape::new()
        .shape_type(if width > 0.0 { ShapeType::Line } else { ShapeType::Rect })
        .layer(ShapeLayer::Below)
        .x_ref("x")
        .y_ref("paper")
        .x0(from)
        .x1(to)
        .y0(0.0)
        .y1(1.0)
        .fill_color("rgba(90, 90, 90, 0.15)")
        .line(ShapeLine::new().color("#666666").width(width).dash(DashType::Dash))
}

/// A line from left to right.
fn level(at: f64) -> Shape {
    Shape::new()
        .shape_type(ShapeType::Line)
        .layer(ShapeLayer::Below)
        .x_ref("paper")
        .y_ref("y")
        .x0(0.0)
        .x1(1.0)
        .y0(at)
        .y1(at)
        .line(ShapeLine::new().color("#666666").width(1.5).dash(DashType::Dash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(95e3, 480e3), [100e3, 200e3]);
        assert_eq!(ticks(0.9, 1.15), [0.9, 1.0, 1.1]);
        assert_eq!(ticks(8.0, 1.2e4), [10.0, 100.0, 1e3, 1e4]);
        for (low, high) in [(1.0, 1.04), (0.02, 1.1), (1.0, 1e9), (3e-4, 5e7), (250.0, 1_000.0)] {
            let ticks = ticks(low, high);
            assert!((2..=7).contains(&ticks.len()), "{low} to {high}: {ticks:?}");
            assert!(ticks.iter().all(|tick| (low..=high).contains(tick)), "{low} to {high}: {ticks:?}");
        }
    }

    #[test]
    fn axes_of_any_numbers_end() {
        const WILD: [f64; 9] = [0.0, 5e-324, 1e-300, 1e-18, 1.0, 1e18, 1e300, f64::MAX, f64::INFINITY];
        for one in WILD {
            for other in WILD {
                let (low, high) = extent([one, other].into_iter());
                assert!(low.is_finite() && high.is_finite() && 0.0 < low && low < high, "{one} {other}");
                assert!(ticks(low, high).len() < 100, "{one} {other}");
            }
        }
    }

    #[test]
    fn nothing_ends_the_script_it_stands_in() {
        assert!(!in_script("\"</script><script>\"").contains('<'));
        assert_eq!(library().matches("<script").count(), 1);
        assert!(library().ends_with("</script>"));
    }

    #[test]
    fn long_labels_are_broken_where_they_are_read() {
        assert_eq!(broken("sqlite"), "sqlite");
        assert_eq!(
            broken("fjall[kv_separation=true,page=4096]"),
            "fjall<br>[kv_separation=true,<br>page=4096]"
        );
        assert_eq!(broken("<b>&"), "&lt;b&gt;&amp;");
    }
}
