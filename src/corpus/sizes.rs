//! Distributions of blob sizes, as functions from a share of the blobs to a size.

use anyhow::{Result, anyhow, bail};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::units::parse_bytes;

/// How large blobs are.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All of one size.
    Fixed(u64),
    /// Every size from the first to the second is as likely.
    Uniform(u64, u64),
    /// Each of these for as many blobs as every other.
    Listed(Vec<u64>),
    /// ln(size) is normal with this mean and standard deviation.
    Lognormal {
        /// Mean of ln(size in bytes).
        mu: f64,
        /// Standard deviation of ln(size in bytes).
        sigma: f64,
    },
    /// Known quantiles, joined by straight lines between the normal score of the share and ln(size): lognormal
    /// pieces. Below the first and above the last the outer piece goes on.
    Quantiles {
        /// Shares and sizes, growing.
        points: Vec<(f64, f64)>,
        /// Shares beyond this are not drawn.
        cut: f64,
    },
}

/// A named distribution and where its figures come from.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name, as in `--corpus`.
    pub name: &'static str,
    /// What it stands for and its source.
    pub about: &'static str,
    sizes: fn() -> Sizes,
}

/// Shares beyond this are not drawn: a heavy tail would put most of a small corpus into one blob.
const SHARE_MAX: f64 = 0.99;

/// The named distributions.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "web-images",
        about: "images of web pages: p10/25/50/75/90 of 0/1/8/48/183 kB, cut at p98 (1 MB); the published 0 kB is taken as 200 B",
        sizes: || Sizes::Quantiles {
            points: vec![
                (0.10, 200.0),
                (0.25, 1_000.0),
                (0.50, 8_000.0),
                (0.75, 48_000.0),
                (0.90, 183_000.0),
            ],
            // 400 blobs then have 29 MB.
            cut: 0.98,
        },
    },
    Preset {
        name: "desktop",
        about: "files of desktop computers: lognormal, mu 9.48, sigma 2.457 (Impressions), cut at p99",
        sizes: || Sizes::Lognormal { mu: 9.48, sigma: 2.457 },
    },
    Preset {
        name: "unix",
        about: "files of a Unix server: p10/20/50/90 of 164/485/2,475/56,788 B (Tanenbaum 2005), cut at p99",
        sizes: || Sizes::Quantiles {
            points: vec![(0.10, 164.0), (0.20, 485.0), (0.50, 2_475.0), (0.90, 56_788.0)],
            cut: SHARE_MAX,
        },
    },
    Preset { name: "tiny", about: "uniform from 10 to 100 kB", sizes: || Sizes::Uniform(10_000, 100_000) },
    Preset { name: "small", about: "uniform from 128 to 512 kB", sizes: || Sizes::Uniform(128_000, 512_000) },
    Preset {
        name: "medium",
        about: "uniform from 0.5 to 1 MB",
        sizes: || Sizes::Uniform(500_000, 1_000_000),
    },
    Preset {
        name: "large",
        about: "uniform from 5 to 10 MB",
        sizes: || Sizes::Uniform(5_000_000, 10_000_000),
    },
];

impl Sizes {
    /// Reads a preset's name, `fixed:N`, `uniform:A-B`, `list:N,N,...`, `lognormal:MU,SIGMA` or `quantiles:P=N,P=N,...`.
    pub fn parse(text: &str) -> Result<Sizes> {
        if let Some(preset) = PRESETS.iter().find(|preset| preset.name == text) {
            return Ok((preset.sizes)());
        }
        let Some((form, numbers)) = text.split_once(':') else {
            return Err(crate::names::unknown(
                "corpus preset",
                text,
                PRESETS.iter().map(|preset| preset.name),
            ));
        };
        let sizes = match form {
            "fixed" => Sizes::Fixed(parse_bytes(numbers)?),
            "uniform" => {
                let (from, to) = numbers
                    .split_once('-')
                    .ok_or_else(|| anyhow!("`{text}` is not of the form uniform:A-B"))?;
                Sizes::Uniform(parse_bytes(from)?, parse_bytes(to)?)
            }
            "list" => Sizes::Listed(numbers.split(',').map(parse_bytes).collect::<Result<_>>()?),
            "lognormal" => {
                let (mu, sigma) = numbers
                    .split_once(',')
                    .ok_or_else(|| anyhow!("`{text}` is not of the form lognormal:MU,SIGMA"))?;
                Sizes::Lognormal { mu: mu.trim().parse()?, sigma: sigma.trim().parse()? }
            }
            "quantiles" => Sizes::Quantiles {
                points: numbers.split(',').map(parse_quantile).collect::<Result<_>>()?,
                cut: SHARE_MAX,
            },
            _ => bail!(
                "`{form}` is not a size distribution; there are fixed, uniform, list, lognormal and quantiles"
            ),
        };
        sizes.check(text)?;
        Ok(sizes)
    }

    fn check(&self, text: &str) -> Result<()> {
        let sane = match self {
            Sizes::Fixed(_) => true,
            Sizes::Uniform(from, to) => from <= to,
            // Beyond that the outermost would be cut off with the outermost shares.
            Sizes::Listed(sizes) => (1..=100).contains(&sizes.len()),
            Sizes::Lognormal { mu, sigma } => {
                mu.is_finite() && (0.0..=20.0).contains(sigma) && (0.0..=40.0).contains(mu)
            }
            Sizes::Quantiles { points, .. } => {
                points.len() >= 2
                    && points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1)
            }
        };
        if !sane {
            bail!("`{text}` makes no sense as a distribution of sizes: it must grow from left to right");
        }
        if self.at(SHARE_MAX) > BLOB_BYTES_MAX {
            bail!("`{text}` has blobs above {BLOB_BYTES_MAX} B, the largest that blobwise handles");
        }
        Ok(())
    }

    /// The size below which `share` of the blobs are, in bytes.
    pub fn at(&self, share: f64) -> u64 {
        let share = share.clamp(0.0005, SHARE_MAX);
        let size = match self {
            Sizes::Fixed(size) => return *size,
            Sizes::Listed(sizes) => return sizes[(share * sizes.len() as f64) as usize],
            Sizes::Uniform(from, to) => *from as f64 + share * (to - from) as f64,
            Sizes::Lognormal { mu, sigma } => (mu + sigma * normal_score(share)).exp(),
            Sizes::Quantiles { points, cut } => at_quantile(points, share.min(*cut)),
        };
        size.round() as u64
    }
}

/// The largest blob that blobwise handles: a blob is held in memory as one slice.
pub const BLOB_BYTES_MAX: u64 = u32::MAX as u64;

fn parse_quantile(text: &str) -> Result<(f64, f64)> {
    let (share, size) = text.split_once('=').ok_or_else(|| anyhow!("`{text}` is not of the form 0.5=8kB"))?;
    let share: f64 = share.trim().parse()?;
    if !(share > 0.0 && share < 1.0) {
        bail!("the share in `{text}` is not between 0 and 1");
    }
    // Sizes are joined on a logarithmic scale, where 0 has no place.
    Ok((share, parse_bytes(size)?.max(1) as f64))
}

fn at_quantile(points: &[(f64, f64)], share: f64) -> f64 {
    let upper =
        points.iter().position(|point| share < point.0).unwrap_or(points.len()).clamp(1, points.len() - 1);
    let (low, high) = (points[upper - 1], points[upper]);
    let (from, to) = (normal_score(low.0), normal_score(high.0));
    let along = (normal_score(share) - from) / (to - from);
    (low.1.ln() + along * (high.1.ln() - low.1.ln())).exp()
}

/// The standard normal quantile of a share.
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

    #[test]
    fn a_list_has_each_of_its_sizes() {
        let sizes = Sizes::parse("list:5,7,7,100kB").unwrap();
        let at: Vec<u64> = [0.0, 0.1, 0.3, 0.6, 0.8, 1.0].iter().map(|share| sizes.at(*share)).collect();
        assert_eq!(at, [5, 5, 7, 7, 100_000, 100_000]);
    }

    #[test]
    fn nonsense_is_refused_with_its_name() {
        for text in [
            "uniform:9-3",
            "lognormal:9",
            "quantiles:0.5=1",
            "fixed:-1",
            "cubic:3",
            "list:",
            "lognormal:9,90",
        ] {
            assert!(Sizes::parse(text).is_err(), "{text}");
        }
        let error = Sizes::parse("web-image").unwrap_err().to_string();
        assert!(error.contains("web-images"), "{error}");
    }
}
