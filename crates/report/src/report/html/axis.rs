//! Axes of plots: the position of a value on an axis, and its round tick values.

/// Title and number format of an axis.
#[derive(Clone, Copy)]
pub struct Scale {
    /// Title, with the unit if the values have none.
    pub title: &'static str,
    /// Formats a value.
    pub show: fn(f64) -> String,
}

impl Scale {
    /// Returns a logarithmic axis that spans these values.
    pub fn axis(&self, values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = extent(values);
        let ticks = ticks(low, high).into_iter().map(|tick| (tick, (self.show)(tick))).collect();
        Axis { title: self.title, low, high, is_log: true, ticks }
    }
}

/// An axis with its range and ticks.
pub struct Axis {
    pub title: &'static str,
    low: f64,
    high: f64,
    is_log: bool,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Returns a logarithmic axis that spans these values, with ticks only at the given places.
    pub fn of_places(
        title: &'static str,
        values: impl Iterator<Item = f64>,
        places: Vec<(f64, String)>,
    ) -> Axis {
        let (low, high) = extent(values);
        let ticks = places.into_iter().filter(|(value, _)| *value <= high).collect();
        Axis { title, low, high, is_log: true, ticks }
    }

    /// Returns an axis of whole numbers with a moderate number of ticks.
    pub fn whole(title: &'static str, values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
        let low = low.min(high);
        let step = ((high - low) / 8.0).ceil().max(1.0);
        let steps = ((high - low) / step).floor() as u64;
        let ticks = (0..=steps).map(|n| low + n as f64 * step).map(|tick| (tick, format!("{tick}")));
        Axis { title, low: low - 0.4, high: high + 0.4, is_log: false, ticks: ticks.collect() }
    }

    /// Replaces the ticks.
    pub fn with_ticks(self, ticks: Vec<(f64, String)>) -> Axis {
        Axis { ticks, ..self }
    }

    /// Relative position of a value: 0 at the start of the axis, 1 at its end, outside that range beyond it. `None` for values
    /// that a logarithmic axis cannot show.
    pub fn place(&self, value: f64) -> Option<f64> {
        let place = match self.is_log {
            true if value <= 0.0 => return None,
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        place.is_finite().then_some(place)
    }

    /// Ticks within the axis, with their positions.
    pub fn ticks(&self) -> impl Iterator<Item = (f64, &str)> {
        let placed = self.ticks.iter().filter_map(|(tick, text)| Some((self.place(*tick)?, text.as_str())));
        placed.filter(|(place, _)| (0.0..=1.0).contains(place))
    }
}

/// Smallest and largest positive value, with some margin.
pub fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    // Limits of any axis; a margin around extreme values would overflow.
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

/// Round values of a logarithmic axis, as many as fit.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    /// Maximum number of labels that fit side by side on a narrow screen.
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
    // Even steps suit axes that span less than about a factor of 3; on others they crowd at one end.
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
    // Multiples are rounded, so that 0.3 is not 0.30000000000000004.
    (first..=last).map(|n| (n as f64 * step * 1e9).round() / 1e9).collect()
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
    fn equal_ratios_are_equally_far_apart() {
        let axis = Scale { title: "", show: |value| format!("{value}") }.axis([1.0, 100.0].into_iter());
        let at = |value| axis.place(value).unwrap();
        assert!(
            (at(10.0) - at(1.0) - (at(100.0) - at(10.0))).abs() < 1e-9 && at(1.0) > 0.0 && at(100.0) < 1.0
        );
        assert_eq!((axis.place(0.0), axis.place(-1.0), axis.place(f64::INFINITY)), (None, None, None));
        assert!(axis.ticks().all(|(place, text)| (0.0..=1.0).contains(&place) && !text.is_empty()));
    }

    #[test]
    fn whole_numbers_are_named_one_by_one_while_they_are_few() {
        let named = |last: f64| {
            let axis = Axis::whole("round", [1.0, last].into_iter());
            axis.ticks().map(|(_, text)| text.to_owned()).collect::<Vec<String>>()
        };
        assert_eq!(named(3.0), ["1", "2", "3"]);
        assert_eq!(named(17.0), ["1", "3", "5", "7", "9", "11", "13", "15", "17"]);
        assert_eq!(named(1.0), ["1"]);
    }
}
