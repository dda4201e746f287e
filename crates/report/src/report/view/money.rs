//! Formats amounts of money in the currency of the price list.

use crate::result::{Interval, Pricing};
use crate::units;

/// Formats an amount with no more digits than prices have.
pub(in crate::report) fn money(amount: f64) -> String {
    match amount.abs() {
        0.0 => "0".to_owned(),
        large if large >= 99_999.5 => units::count(amount),
        large if large >= 99.5 => format!("{amount:.0}"),
        plain if plain >= 0.995 => format!("{amount:.2}"),
        small => format!("{amount:.*}", (1.0 - small.log10().floor()).clamp(2.0, 12.0) as usize),
    }
}

/// Formats an amount with the currency of the pricing.
pub(in crate::report) fn in_currency(pricing: &Pricing, amount: f64) -> String {
    in_this(&pricing.prices.currency, amount)
}

/// Formats an amount with a currency.
pub(in crate::report) fn in_this(currency: &str, amount: f64) -> String {
    format!("{} {currency}", money(amount)).trim_end().to_owned()
}

/// Formats the bounds of an interval.
pub(in crate::report) fn bounds(interval: Option<Interval>) -> Option<String> {
    let interval = interval?;
    Some(format!("[{}, {}]", money(interval.low?), money(interval.high?)))
}

/// Formats an amount with its interval.
pub(in crate::report) fn with_bounds(interval: Option<Interval>) -> Option<String> {
    let ends = bounds(interval).map_or(String::new(), |ends| format!(" {ends}"));
    Some(format!("{}{ends}", money(interval?.median)))
}

#[cfg(test)]
mod tests {
    use super::money;

    #[test]
    fn amounts_have_the_digits_that_prices_have() {
        let shown = [0.0, 0.00123, 0.2, 0.999, 12.3, 99.9, 1234.4, 1.5e6].map(money);
        assert_eq!(shown, ["0", "0.0012", "0.20", "1.00", "12.30", "100", "1234", "1.5M"]);
    }
}
