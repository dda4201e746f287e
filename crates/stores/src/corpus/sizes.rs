//! Distributions of blob sizes, as functions from a share of the blobs to a size.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use statrs::distribution::{ContinuousCDF, Gamma, Normal};

use crate::units::{self, parse_bytes};

/// A distribution of blob sizes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All blobs have this size.
    Fixed(u64),
    /// Uniform between two sizes, both included.
    Uniform(u64, u64),
    /// Listed sizes, each for an equal share of the blobs.
    Listed(Vec<u64>),
    /// Lognormal: ln(size in bytes) is normally distributed.
    Lognormal {
        /// Mean of ln(size in bytes).
        mu: f64,
        /// Standard deviation of ln(size in bytes).
        sigma: f64,
    },
    /// Gamma distribution.
    Gamma {
        /// Mean in bytes.
        mean: f64,
        /// Shape: 1 is exponential, larger is narrower.
        shape: f64,
    },
    /// Pareto distribution: a share of (least / size)^alpha of the blobs is larger than a size.
    Pareto {
        /// Smallest size in bytes.
        least: f64,
        /// Tail exponent; for values up to 1, the mean is infinite.
        alpha: f64,
    },
    /// Known quantiles (share, size in bytes), ascending. Between them, ln(size) is linear in the normal score of the share, i.e.
    /// piecewise lognormal; the outer pieces are extrapolated.
    Quantiles(Vec<(f64, f64)>),
    /// Parts, each with its share of the blobs.
    Mix(Vec<(f64, Sizes)>),
    /// A distribution without its tail: all blobs beyond a share have the size at that share.
    Cut {
        /// The distribution with its tail.
        whole: Box<Sizes>,
        /// Share at which it is cut.
        share: f64,
    },
}

/// A named distribution and the source of its figures.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name, as in `--corpus`.
    pub name: &'static str,
    /// What it represents, and its source.
    pub about: &'static str,
    whole: fn() -> Sizes,
    /// Share at which a heavy tail is cut; it would put most of a small corpus into one blob.
    cut: Option<f64>,
}

impl Preset {
    const fn uncut(name: &'static str, about: &'static str, whole: fn() -> Sizes) -> Preset {
        Preset { name, about, whole, cut: None }
    }

    fn sizes(&self) -> Sizes {
        match self.cut {
            Some(share) => Sizes::Cut { whole: Box::new((self.whole)()), share },
            None => (self.whole)(),
        }
    }

    /// Describes the part of the distribution that is cut off, if any.
    pub fn cut(&self) -> Option<String> {
        self.sizes().cut()
    }
}

/// Named distributions.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "web-images",
        about: "images of web pages: p10/25/50/75/90 of 0/1/8/48/183 kB; the published 0 kB is taken as 200 B",
        whole: || {
            Sizes::Quantiles(vec![
                (0.10, 200.0),
                (0.25, 1_000.0),
                (0.50, 8_000.0),
                (0.75, 48_000.0),
                (0.90, 183_000.0),
            ])
        },
        // With this cut, 400 blobs have 29 MB.
        cut: Some(0.98),
    },
    Preset {
        name: "desktop",
        about: "files of desktop computers: lognormal, mu 9.48, sigma 2.457 (Impressions)",
        whole: || Sizes::Lognormal { mu: 9.48, sigma: 2.457 },
        cut: Some(0.99),
    },
    Preset {
        name: "unix",
        about: "files of a Unix server: p10/20/50/90 of 164/485/2,475/56,788 B (Tanenbaum 2005)",
        whole: || Sizes::Quantiles(vec![(0.10, 164.0), (0.20, 485.0), (0.50, 2_475.0), (0.90, 56_788.0)]),
        cut: Some(0.99),
    },
    Preset::uncut("tiny", "uniform from 10 to 100 kB", || Sizes::Uniform(10_000, 100_000)),
    Preset::uncut("small", "uniform from 128 to 512 kB", || Sizes::Uniform(128_000, 512_000)),
    Preset::uncut("medium", "uniform from 0.5 to 1 MB", || Sizes::Uniform(500_000, 1_000_000)),
    Preset::uncut("large", "uniform from 5 to 10 MB", || Sizes::Uniform(5_000_000, 10_000_000)),
];

/// Syntax of distributions, for help texts.
pub const FORMS: &str = "fixed:N, uniform:A-B, list:N,N,..., lognormal:MU,SIGMA, gamma:MEAN,SHAPE, pareto:LEAST,ALPHA, \
                         quantiles:0.5=8kB,0.9=183kB,... and mix:0.99*FORM+0.01*FORM";

impl Sizes {
    /// Parses a preset's name, one of the [`FORMS`], or a single size for all blobs.
    pub fn parse(text: &str) -> Result<Sizes> {
        // A bare size is that of every blob.
        let text = &match text.starts_with(|first: char| first.is_ascii_digit()) && parse_bytes(text).is_ok()
        {
            true => format!("fixed:{text}"),
            false => text.to_owned(),
        };
        if let Some(preset) = PRESETS.iter().find(|preset| preset.name == *text) {
            return Ok(preset.sizes());
        }
        let Some((form, numbers)) = text.split_once(':') else {
            ensure!(
                !Path::new(text).is_dir(),
                "`{text}` is a directory, and a corpus has sizes: `--files {text}` takes the files below it"
            );
            let mut names = FORMS.split(' ').filter_map(|form| form.split_once(':'));
            ensure!(
                !names.any(|(name, _)| name == *text),
                "`{text}` lacks its numbers: the forms are {FORMS}"
            );
            return Err(crate::suggest::unknown(
                "corpus preset",
                text,
                PRESETS.iter().map(|preset| preset.name),
            ));
        };
        let sizes = match form {
            "mix" => {
                Sizes::Mix(numbers.split('+').map(|part| parse_part(text, part)).collect::<Result<_>>()?)
            }
            _ => parse_form(text, form, numbers)?,
        };
        sizes.check(text)?;
        if sizes.most_are_below() > BLOB_BYTES_MAX {
            bail!("`{text}` has blobs above {BLOB_BYTES_MAX} B, the largest that blobwise handles");
        }
        Ok(sizes)
    }

    fn check(&self, text: &str) -> Result<()> {
        let growing = "it must grow from left to right";
        let must = match self {
            Sizes::Uniform(from, to) if from > to => growing,
            Sizes::Quantiles(points) if points.len() < 2 => "it needs two quantiles or more",
            Sizes::Quantiles(points)
                if points.windows(2).any(|pair| pair[0].0 >= pair[1].0 || pair[0].1 > pair[1].1) =>
            {
                growing
            }
            Sizes::Lognormal { mu, sigma }
                if !((0.0..=20.0).contains(sigma) && (0.0..=40.0).contains(mu)) =>
            {
                "MU must be from 0 to 40, and SIGMA from 0 to 20"
            }
            Sizes::Gamma { mean, shape } if !(*mean >= 1.0 && (0.01..=10_000.0).contains(shape)) => {
                "MEAN must be 1 B or more, and SHAPE from 0.01 to 10000"
            }
            Sizes::Pareto { least, alpha } if !(*least >= 1.0 && (0.1..=100.0).contains(alpha)) => {
                "LEAST must be 1 B or more, and ALPHA from 0.1 to 100"
            }
            Sizes::Mix(parts) => {
                let sum: f64 = parts.iter().map(|(share, _)| share).sum();
                if (sum - 1.0).abs() > 1e-6 {
                    bail!("the shares of `{text}` add up to {sum:.6}, and not to 1: change one of them");
                }
                return parts.iter().try_for_each(|(_, part)| part.check(text));
            }
            _ => return Ok(()),
        };
        bail!("`{text}` makes no sense as a distribution of sizes: {must}")
    }

    /// Size in bytes at a share; evenly spaced shares yield the distribution. It increases with the share, except in a mix, whose
    /// parts follow one another, each over its own range of shares.
    pub fn at(&self, share: f64) -> u64 {
        let share = share.clamp(SHARE_LEAST, 1.0 - SHARE_LEAST);
        let size = match self {
            Sizes::Fixed(size) => return *size,
            Sizes::Listed(sizes) => return sizes[(share * sizes.len() as f64) as usize],
            Sizes::Cut { whole, share: cut } => return whole.at(share.min(*cut)),
            Sizes::Mix(parts) => return at_part(parts, share),
            Sizes::Uniform(from, to) => return (*from as f64 + share * (to - from) as f64).round() as u64,
            Sizes::Lognormal { mu, sigma } => (mu + sigma * normal_score(share)).exp(),
            Sizes::Gamma { mean, shape } => mean * gamma_quantile(*shape, share),
            Sizes::Pareto { least, alpha } => least * (1.0 - share).powf(-1.0 / alpha),
            Sizes::Quantiles(points) => at_quantile(points, share),
        };
        // Empty blobs are a special case: they occur only if a size of 0 is requested explicitly.
        size.round().max(1.0) as u64
    }

    /// Median size in bytes.
    pub fn middle(&self) -> u64 {
        /// Odd, so that there is a middle element.
        const STEPS: u32 = 2001;
        if !matches!(self, Sizes::Mix(_)) {
            return self.at(0.5);
        }
        let mut sizes: Vec<u64> =
            (0..STEPS).map(|step| self.at((f64::from(step) + 0.5) / f64::from(STEPS))).collect();
        sizes.sort_unstable();
        sizes[sizes.len() / 2]
    }

    /// Describes the part of the distribution that is cut off, if any.
    pub fn cut(&self) -> Option<String> {
        let Sizes::Cut { share, .. } = self else { return None };
        let size = units::bytes(self.at(1.0) as f64);
        Some(format!(
            "cut at p{:.0}: the largest {:.0} % have {size} each",
            share * 100.0,
            (1.0 - share) * 100.0
        ))
    }

    /// Size that at most 1 % of the blobs exceed. Whether the tail beyond it is too large depends on the number of blobs.
    fn most_are_below(&self) -> u64 {
        match self {
            Sizes::Fixed(_) | Sizes::Uniform(..) => self.at(1.0),
            Sizes::Listed(sizes) => sizes.iter().copied().max().unwrap_or(0),
            Sizes::Mix(parts) => {
                let large = parts.iter().filter(|(share, _)| *share >= 0.01);
                large.map(|(_, part)| part.most_are_below()).max().unwrap_or(0)
            }
            _ => self.at(0.99),
        }
    }
}

/// Distance that shares keep from 0 and 1; no corpus has enough blobs for a smaller one.
const SHARE_LEAST: f64 = 1e-12;

/// Maximum size of a blob in bytes: a blob is held in memory as one slice.
pub const BLOB_BYTES_MAX: u64 = u32::MAX as u64;

/// Parses a single form; `text` is the full input, for error messages.
fn parse_form(text: &str, form: &str, numbers: &str) -> Result<Sizes> {
    let two = |names: &str| -> Result<(String, String)> {
        let (first, second) =
            numbers.split_once(',').ok_or_else(|| anyhow!("`{text}` is not of the form {form}:{names}"))?;
        Ok((first.trim().to_owned(), second.trim().to_owned()))
    };
    let number = |digits: &str| -> Result<f64> {
        digits.parse().ok().with_context(|| format!("`{digits}` in `{text}` is not a number"))
    };
    let size = |digits: &str| parse_bytes(digits).with_context(|| format!("`{text}`"));
    Ok(match form {
        "fixed" => Sizes::Fixed(size(numbers)?),
        "uniform" => {
            let (from, to) =
                numbers.split_once('-').ok_or_else(|| anyhow!("`{text}` is not of the form uniform:A-B"))?;
            Sizes::Uniform(size(from)?, size(to)?)
        }
        "list" => Sizes::Listed(numbers.split(',').map(size).collect::<Result<_>>()?),
        "lognormal" => {
            let (mu, sigma) = two("MU,SIGMA")?;
            Sizes::Lognormal { mu: number(&mu)?, sigma: number(&sigma)? }
        }
        "gamma" => {
            let (mean, shape) = two("MEAN,SHAPE")?;
            Sizes::Gamma { mean: size(&mean)? as f64, shape: number(&shape)? }
        }
        "pareto" => {
            let (least, alpha) = two("LEAST,ALPHA")?;
            Sizes::Pareto { least: size(&least)? as f64, alpha: number(&alpha)? }
        }
        "quantiles" => Sizes::Quantiles(numbers.split(',').map(parse_quantile).collect::<Result<_>>()?),
        _ => bail!("`{form}` is not a size distribution; there are {FORMS}"),
    })
}

/// Parses a part of a mix: `0.99*lognormal:9,1`.
fn parse_part(text: &str, part: &str) -> Result<(f64, Sizes)> {
    let form = || format!("`{part}` in `{text}` is not of the form 0.99*lognormal:MU,SIGMA");
    let (share, sizes) = part.split_once('*').with_context(form)?;
    let share: f64 = share.trim().parse().ok().with_context(form)?;
    if !(share > 0.0 && share <= 1.0) {
        bail!("the share in `{part}` is not above 0 and at most 1");
    }
    let (form, numbers) = sizes.trim().split_once(':').with_context(form)?;
    if form == "mix" {
        bail!(
            "`{part}` is a mix within a mix: write its parts beside the others, with their shares of the whole"
        );
    }
    Ok((share, parse_form(text, form, numbers)?))
}

fn parse_quantile(text: &str) -> Result<(f64, f64)> {
    let (share, size) = text.split_once('=').ok_or_else(|| anyhow!("`{text}` is not of the form 0.5=8kB"))?;
    let share: f64 =
        share.trim().parse().ok().with_context(|| format!("the share in `{text}` is not a number"))?;
    if !(share > 0.0 && share < 1.0) {
        bail!("the share in `{text}` is not between 0 and 1");
    }
    // Sizes are interpolated on a logarithmic scale, which has no 0.
    Ok((share, parse_bytes(size)?.max(1) as f64))
}

/// Size at a share of a mix, from the part whose range contains the share.
fn at_part(parts: &[(f64, Sizes)], share: f64) -> u64 {
    let mut before = 0.0;
    for (own, sizes) in parts {
        if share < before + own {
            return sizes.at((share - before) / own);
        }
        before += own;
    }
    parts.last().map_or(0, |(_, sizes)| sizes.at(1.0))
}

/// Quantile of a gamma distribution with mean 1.
fn gamma_quantile(shape: f64, share: f64) -> f64 {
    // Fails only for shapes that `check` rejects.
    Gamma::new(shape, shape).map_or(0.0, |gamma| gamma.inverse_cdf(share))
}

fn at_quantile(points: &[(f64, f64)], share: f64) -> f64 {
    let upper =
        points.iter().position(|point| share < point.0).unwrap_or(points.len()).clamp(1, points.len() - 1);
    let (low, high) = (points[upper - 1], points[upper]);
    let (from, to) = (normal_score(low.0), normal_score(high.0));
    let along = (normal_score(share) - from) / (to - from);
    (low.1.ln() + along * (high.1.ln() - low.1.ln())).exp()
}

/// Standard normal quantile of a share.
fn normal_score(share: f64) -> f64 {
    Normal::standard().inverse_cdf(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_the_published_quantiles() {
        let check = |name: &str, points: &[(f64, u64)]| {
            let sizes = Sizes::parse(name).unwrap();
            for (share, size) in points {
                assert_eq!(sizes.at(*share), *size, "{name} at {share}");
            }
        };
        check("web-images", &[(0.1, 200), (0.25, 1_000), (0.5, 8_000), (0.75, 48_000), (0.9, 183_000)]);
        check("unix", &[(0.1, 164), (0.2, 485), (0.5, 2_475), (0.9, 56_788)]);
        check("desktop", &[(0.5, 13_095)]);
        check("tiny", &[(0.5, 55_000)]);
    }

    /// Returns the sizes at evenly spaced shares, in ascending order.
    fn many(text: &str) -> Vec<f64> {
        const BLOBS: u32 = 100_000;
        let sizes = Sizes::parse(text).unwrap();
        let share = |blob: u32| (f64::from(blob) + 0.5) / f64::from(BLOBS);
        let mut drawn: Vec<f64> = (0..BLOBS).map(|blob| sizes.at(share(blob)) as f64).collect();
        drawn.sort_by(f64::total_cmp);
        drawn
    }

    fn assert_near(what: &str, is: f64, should: f64) {
        assert!((is / should - 1.0).abs() < 0.01, "{what}: {is} and not {should}");
    }

    #[test]
    fn what_was_said_of_the_tail_is_made() {
        let sizes = Sizes::parse("quantiles:0.5=8kB,0.99=258000,0.999=2040000").unwrap();
        assert_eq!([sizes.at(0.99), sizes.at(0.999)], [258_000, 2_040_000]);
        assert!(sizes.at(0.9999) > 2_040_000, "{}", sizes.at(0.9999));
        // exp(9 + 2 * 3.0902), the quantile in closed form.
        assert_near("p99.9", Sizes::parse("lognormal:9,2").unwrap().at(0.999) as f64, 3_913_600.0);
        assert_eq!(Sizes::parse("uniform:1000-2000").unwrap().at(1.0), 2000);
    }

    #[test]
    fn quantiles_and_means_are_those_of_the_formulas() {
        let mean = |drawn: &[f64]| drawn.iter().sum::<f64>() / drawn.len() as f64;
        let lognormal = many("lognormal:9,1");
        assert_near("mean of a lognormal", mean(&lognormal), 9.5_f64.exp());
        // Shape 1 is exponential: the quantile is -MEAN ln(1 - share).
        let exponential = many("gamma:100kB,1");
        assert_near("mean of a gamma", mean(&exponential), 1e5);
        for share in [0.1, 0.5, 0.9, 0.99, 0.999] {
            let is = exponential[(share * exponential.len() as f64) as usize];
            assert_near("quantile of a gamma", is, -1e5 * (1.0_f64 - share).ln());
        }
        // Shape 0.5 is a squared normal variable: the median is 0.45494 of the mean.
        let sizes = Sizes::parse("gamma:1MB,0.5").unwrap();
        assert_near("median of a gamma", sizes.at(0.5) as f64, 454_936.0);
        let pareto = many("pareto:10kB,3");
        assert_near("mean of a pareto", mean(&pareto), 15_000.0);
        for share in [0.1, 0.5, 0.99, 0.999] {
            let is = pareto[(share * pareto.len() as f64) as usize];
            assert_near("quantile of a pareto", is, 1e4 * (1.0_f64 - share).powf(-1.0 / 3.0));
        }
    }

    #[test]
    fn a_mix_has_the_quantiles_of_its_parts_together() {
        let mix = many("mix:0.9*lognormal:9,1+0.1*pareto:50kB,1.5");
        let (normal, pareto) = (Normal::standard(), |size: f64| 1.0 - (5e4 / size.max(5e4)).powf(1.5));
        for (index, size) in mix.iter().enumerate().skip(1000).step_by(4999) {
            let share = 0.9 * normal.cdf(size.ln() - 9.0) + 0.1 * pareto(*size);
            assert_near("share", share, index as f64 / mix.len() as f64);
        }
        let sizes = Sizes::parse("mix:0.5*fixed:10+0.3*fixed:1MB+0.2*fixed:7").unwrap();
        assert_eq!(sizes.middle(), 10);
    }

    #[test]
    fn only_presets_are_cut_and_say_so() {
        let cut = |text: &str| Sizes::parse(text).unwrap().cut();
        assert_eq!(cut("web-images").unwrap(), "cut at p98: the largest 2 % have 1 MB each");
        assert_eq!(cut("tiny"), None);
        assert_eq!(cut("lognormal:9.48,2.457"), None);
        let (cut, whole) = (Sizes::parse("desktop").unwrap(), Sizes::parse("lognormal:9.48,2.457").unwrap());
        assert!(cut.at(0.9999) == cut.at(0.99) && cut.at(0.9999) < whole.at(0.9999));
    }

    #[test]
    fn what_is_wrong_with_a_distribution_is_named() {
        for (text, why) in [
            ("gamma:9kB", "`gamma:9kB` is not of the form gamma:MEAN,SHAPE"),
            ("gamma:9kB,x", "`x` in `gamma:9kB,x` is not a number"),
            ("gamma:9kB,0", "SHAPE from 0.01 to 10000"),
            ("pareto:9kB,0.01", "ALPHA from 0.1 to 100"),
            ("mix:0.5*fixed:9", "add up to 0.500000, and not to 1"),
            ("mix:fixed:9", "`fixed:9` in `mix:fixed:9` is not of the form 0.99*lognormal:MU,SIGMA"),
            ("mix:0.5*mix:1*fixed:1+0.5*fixed:9", "a mix within a mix"),
            ("mix:0.99*fixed:9+0.01*fixed:9GB", "the largest that blobwise handles"),
            ("uniform:9-3", "it must grow from left to right"),
            ("lognormal:9", "`lognormal:9` is not of the form lognormal:MU,SIGMA"),
            ("lognormal:9,90", "SIGMA from 0 to 20"),
            ("quantiles:0.5=1", "it needs two quantiles or more"),
            ("fixed:-1", "`-1` is not a size"),
            ("list:", "`` is not a size"),
            ("cubic:3", "`cubic` is not a size distribution"),
            ("web-image", "web-images"),
        ] {
            let error = format!("{:#}", Sizes::parse(text).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_list_has_each_of_its_sizes() {
        let sizes = Sizes::parse("list:5,7,7,100kB").unwrap();
        let at: Vec<u64> = [0.0, 0.1, 0.3, 0.6, 0.8, 1.0].iter().map(|share| sizes.at(*share)).collect();
        assert_eq!(at, [5, 5, 7, 7, 100_000, 100_000]);
    }
}
