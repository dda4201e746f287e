//! The picture of each page of a published experiment, made from the page's table: hollow is what was published, filled with its
//! interval what was measured, and the band is where the claim counts as true.

use std::fmt::Write as _;
use std::path::Path;

use super::{ROOT, document, published, read};

/// A claim with figures: what was published, what was measured, and where it counts as true. A range has no mark.
struct Claim {
    id: String,
    then: Vec<f64>,
    now: Vec<f64>,
    interval: Vec<f64>,
    band: Option<(f64, f64)>,
}

/// The numbers of a cell that stand before an `x`.
fn times(cell: &str) -> Vec<f64> {
    cell.split([' ', ',']).filter_map(|word| word.strip_suffix('x')?.parse().ok()).collect()
}

fn band(cell: &str) -> Option<(f64, f64)> {
    let is = |words: &str| cell.contains(words);
    match times(cell).as_slice() {
        [low, high] if is(" to ") => Some((*low, *high)),
        [only] if is("above") || is("at least") => Some((*only, f64::INFINITY)),
        [only] if is("at most") => Some((0.0, *only)),
        _ => None,
    }
}

fn claims(page: &str) -> Vec<Claim> {
    let table = page.lines().skip_while(|line| !line.starts_with("| claim | then | now "));
    let of_row = |row: &str| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let id = cells[1].rsplit_once('(')?.1.split([')', ';']).next()?.to_owned();
        let interval = cells[3].split_once('[').map_or("", |(_, rest)| rest.trim_end_matches(']'));
        let interval = interval.split(", ").filter_map(|number| number.parse().ok()).collect();
        Some(Claim { id, then: times(cells[2]), now: times(cells[3]), interval, band: band(cells[5]) })
    };
    let rows = table.skip(2).take_while(|line| line.starts_with("| "));
    rows.filter_map(of_row).filter(|claim| !claim.now.is_empty()).collect()
}

/// Draws the claims on one logarithmic axis; `None` if there are none.
fn picture(claims: &[Claim]) -> Option<String> {
    let all = || claims.iter().flat_map(|claim| claim.then.iter().chain(&claim.now).chain(&claim.interval));
    let low = all().copied().reduce(f64::min)?.min(1.0) / 1.3;
    let high = all().copied().reduce(f64::max)?.max(1.0) * 1.3;
    let at = |value: f64| 90.0 + 600.0 * (value.clamp(low, high) / low).ln() / (high / low).ln();
    let bottom = 24 * claims.len() + 8;
    let head =
        "xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#555\"";
    let mut svg = format!("<svg {head} viewBox=\"0 0 700 {}\">\n", bottom + 24);
    for tick in [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
        .into_iter()
        .filter(|tick| (low..high).contains(tick))
    {
        let x = at(tick);
        let width = if tick == 1.0 { 2 } else { 1 };
        writeln!(svg, "<path d=\"M{x:.1} 0V{bottom}\" stroke=\"#ccc\" stroke-width=\"{width}\"/>").ok()?;
        writeln!(svg, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{tick}x</text>", bottom + 16)
            .ok()?;
    }
    for (row, claim) in claims.iter().enumerate() {
        let y = 24 * row + 16;
        if let Some((from, to)) = claim.band {
            let (x, width) = (at(from), at(to) - at(from));
            writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{}\" width=\"{width:.1}\" height=\"20\" fill=\"#0072b2\" opacity=\"0.12\"/>",
                y - 10
            )
            .ok()?;
        }
        writeln!(svg, "<text x=\"82\" y=\"{}\" text-anchor=\"end\">{}</text>", y + 4, claim.id).ok()?;
        let line = |svg: &mut String, of: &[f64], y: usize, color: &str| -> Option<()> {
            let end = |which: fn(f64, f64) -> f64| of.iter().copied().reduce(which).map(at);
            let (Some(from), Some(to)) = (end(f64::min), end(f64::max)) else { return Some(()) };
            let path = format!("M{from:.1} {y}H{to:.1}");
            writeln!(svg, "<path d=\"{path}\" stroke=\"{color}\" stroke-width=\"2\"/>").ok()
        };
        line(&mut svg, &claim.then, y - 4, "#888")?;
        for then in &claim.then {
            let x = at(*then);
            writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{}\" r=\"4\" fill=\"#fff\" stroke=\"#888\" stroke-width=\"2\"/>",
                y - 4
            )
            .ok()?;
        }
        line(&mut svg, &claim.now, y + 4, "#0072b2")?;
        line(&mut svg, &claim.interval, y + 4, "#0072b2")?;
        for now in &claim.now {
            writeln!(svg, "<circle cx=\"{:.1}\" cy=\"{}\" r=\"4\" fill=\"#0072b2\"/>", at(*now), y + 4)
                .ok()?;
        }
    }
    svg += "</svg>\n";
    Some(svg)
}

#[test]
fn pages_of_published_experiments_have_the_picture_of_their_table() {
    let mut drawn = 0;
    for (plan, page) in published() {
        let text = document(&page);
        let Some(made) = picture(&claims(&text)) else { continue };
        drawn += 1;
        assert!(text.contains(&format!("]({plan}.svg)")), "{page} does not show its picture");
        let path = Path::new(ROOT).join(&page).with_extension("svg");
        if std::env::var_os("BLOBWISE_BLESS").is_some() {
            std::fs::write(&path, made).unwrap();
            continue;
        }
        assert!(read(&path) == made, "{page} has another picture: run with BLOBWISE_BLESS=1");
    }
    assert!(drawn > 5, "{drawn}");
}
