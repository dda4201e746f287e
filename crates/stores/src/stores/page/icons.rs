//! The icons of a page: small drawings with soft edges, shading and grain, as designers make them, and the sprite of all icons.

use std::io::BufWriter;

use anyhow::{Result, ensure};
use png::chunk::ChunkType;
use png::{BitDepth, ColorType, Compression, Encoder};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Width and height of an icon in pixels.
pub(super) const SIDE: usize = 16;
/// Icons per line of the sprite.
const ACROSS: usize = 8;
const SHAPES: usize = 8;
/// Bytes per pixel: red, green, blue, alpha.
const PIXEL: usize = 4;
/// Sampling points per pixel in each direction.
const POINTS: usize = 4;

/// An icon's pixels, line by line.
type Pixels = Vec<u8>;

/// A private chunk type, which every decoder skips (ancillary, private, safe to copy, by the case of its letters).
const PADDING: ChunkType = ChunkType(*b"blOb");
/// Overhead of a chunk: length, type and checksum (PNG 1.2, section 3.2).
const CHUNK_BYTES: usize = 12;

#[derive(Clone, Copy, Debug)]
pub(super) struct Icons {
    pub(super) count: usize,
    /// Size of each icon's file; `None`: as drawn.
    pub(super) bytes: Option<usize>,
}

impl Icons {
    /// An icon as a PNG of the requested size, padded with incompressible bytes. If the size is too small for one of the
    /// drawings, the error names the minimum.
    pub(super) fn icon(self, number: usize) -> Result<Vec<u8>> {
        encode(&draw(number), SIDE, SIDE, self.padding(number)?)
    }

    /// All icons in one PNG, eight per line, with as much padding as they have together.
    pub(super) fn sprite(self) -> Result<Vec<u8>> {
        let (width, height) = (ACROSS * SIDE, self.lines() * SIDE);
        let mut all = vec![0; width * height * PIXEL];
        for number in 0..self.count {
            let (left, top) = place(number);
            for (line, pixels) in draw(number).chunks(SIDE * PIXEL).enumerate() {
                let start = ((top + line) * width + left) * PIXEL;
                all[start..start + pixels.len()].copy_from_slice(pixels);
            }
        }
        let padding = (0..self.count).map(|number| self.padding(number)).sum::<Result<usize>>()?;
        encode(&all, width, height, padding)
    }

    /// An error if the requested size is too small for a drawing.
    pub(super) fn check(self) -> Result<()> {
        if self.bytes.is_some() {
            (0..self.count).try_for_each(|number| self.padding(number).map(drop))
        } else {
            Ok(())
        }
    }

    /// Lines of the sprite and of the page.
    pub(super) fn lines(self) -> usize {
        self.count.div_ceil(ACROSS)
    }

    /// Bytes of padding in an icon's file, including the chunk that carries them.
    fn padding(self, number: usize) -> Result<usize> {
        let Some(bytes) = self.bytes else { return Ok(0) };
        let drawn = encode(&draw(number), SIDE, SIDE, 0)?.len();
        if bytes < drawn + CHUNK_BYTES {
            let each = (0..self.count).map(|number| Ok(encode(&draw(number), SIDE, SIDE, 0)?.len()));
            let largest = each.collect::<Result<Vec<usize>>>()?.into_iter().max().unwrap_or(drawn);
            let least = largest + CHUNK_BYTES;
            ensure!(
                bytes >= least,
                "`icon_bytes={bytes}` is too small for what is drawn: at least {least} bytes"
            );
        }
        Ok(bytes - drawn)
    }
}

/// Position of an icon in the sprite, in pixels from the left and the top.
pub(super) fn place(number: usize) -> (usize, usize) {
    (number % ACROSS * SIDE, number / ACROSS * SIDE)
}

/// A PNG with `padding` additional bytes: 0, or at least those of an empty chunk.
fn encode(pixels: &[u8], width: usize, height: usize, padding: usize) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(BufWriter::new(&mut file), width as u32, height as u32);
    encoder.set_color(ColorType::Rgba);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::High);
    // As drawing programs do.
    encoder.add_text_chunk("Software".to_owned(), "blobwise".to_owned())?;
    let mut writer = encoder.write_header()?;
    if let Some(more) = padding.checked_sub(CHUNK_BYTES) {
        let mut bytes = vec![0; more];
        SmallRng::seed_from_u64(more as u64).fill_bytes(&mut bytes);
        writer.write_chunk(PADDING, &bytes)?;
    }
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(file)
}

/// Draws an icon: the line selects the shape, the column the colour. After eight lines the shapes repeat, with other grain.
fn draw(number: usize) -> Pixels {
    let (shape, hue) = (number / ACROSS % SHAPES, number % ACROSS);
    let mut pixels = Vec::with_capacity(SIDE * SIDE * PIXEL);
    for y in 0..SIDE {
        for x in 0..SIDE {
            let (inner, outer) = covered(shape, x, y);
            // Lit from above, with a dark edge of the same colour.
            let light = 1.05 - 0.5 * y as f64 / SIDE as f64 + grain(number, x, y) - GRAIN / 2.0;
            let edge = 0.5 * (1.0 - inner / outer.max(f64::MIN_POSITIVE));
            for channel in colour(hue) {
                pixels.push((channel * (light - edge)).clamp(0.0, 255.0) as u8 * u8::from(outer > 0.0));
            }
            pixels.push((outer * 255.0) as u8);
        }
    }
    pixels
}

/// The share of a pixel that a shape covers, without its edge and with it.
fn covered(shape: usize, x: usize, y: usize) -> (f64, f64) {
    const EDGE: f64 = 0.17;
    let (mut inner, mut outer) = (0, 0);
    for point in 0..POINTS * POINTS {
        let at = |pixel: usize, step: usize| {
            let middle = SIDE as f64 / 2.0;
            (pixel as f64 + (step as f64 + 0.5) / POINTS as f64 - middle) / (middle - 0.5)
        };
        let depth = depth(shape, at(x, point % POINTS), at(y, point / POINTS));
        outer += u32::from(depth > 0.0);
        inner += u32::from(depth > EDGE);
    }
    let all = (POINTS * POINTS) as f64;
    (f64::from(inner) / all, f64::from(outer) / all)
}

/// Depth of a point inside a shape that extends from -1 to 1; negative outside.
fn depth(shape: usize, x: f64, y: f64) -> f64 {
    let radius = length(x, y);
    let square = |half: f64| half - x.abs().max(y.abs());
    match shape {
        0 => 1.0 - radius,
        1 => square(0.9),
        2 => 1.0 - x.abs() - y.abs(),
        3 => (0.3 - (radius - 0.68).abs()).min(1.0),
        4 => (0.36 - x.abs()).max(0.36 - y.abs()).min(square(0.98)),
        5 => (0.9 - y).min(0.5 * (y + 1.0) - 0.95 * x.abs() + 0.02),
        6 => {
            let angle = (5.0 * y.atan2(x) - 2.5 * std::f64::consts::PI).cos();
            0.72 + 0.28 * angle - radius
        }
        _ => {
            let (x, y) = (x.abs() * 1.12, 0.35 - y * 1.15);
            0.8 - length(x, y - 0.62 * x.sqrt())
        }
    }
}

/// Euclidean norm of values near 1. `f64::hypot`, which also handles far larger ones, requires glibc 2.35.
fn length(x: f64, y: f64) -> f64 {
    (x * x + y * y).sqrt()
}

fn colour(hue: usize) -> [f64; 3] {
    const COLOURS: [[u8; 3]; ACROSS] = [
        [214, 57, 57],
        [232, 137, 43],
        [226, 190, 52],
        [86, 168, 74],
        [47, 158, 158],
        [62, 116, 208],
        [124, 84, 196],
        [196, 78, 150],
    ];
    COLOURS[hue % ACROSS].map(f64::from)
}

/// Deterministic noise: hand-made drawings compress less well than computed shapes.
fn grain(number: usize, x: usize, y: usize) -> f64 {
    let place = (number * SIDE * SIDE + y * SIDE + x) as u32;
    let mixed = (place ^ place >> 3).wrapping_mul(0x9e37_79b1).rotate_left(13).wrapping_mul(0x85eb_ca6b);
    f64::from(mixed >> 24) / 255.0 * GRAIN
}

/// Amplitude of the noise; it makes an icon about 700 B, as in the set of the published comparison.
const GRAIN: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn decoded(file: &[u8]) -> (u32, u32, Vec<u8>) {
        let mut reader = png::Decoder::new(Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut pixels).unwrap();
        (frame.width, frame.height, pixels)
    }

    /// The icons of the published comparison.
    const DRAWN: Icons = Icons { count: 64, bytes: None };

    #[test]
    fn icons_are_small_distinct_pictures_of_about_700_bytes() {
        let icons: Vec<Vec<u8>> = (0..64).map(|number| DRAWN.icon(number).unwrap()).collect();
        let distinct: std::collections::HashSet<&Vec<u8>> = icons.iter().collect();
        assert_eq!(distinct.len(), 64);
        let bytes: usize = icons.iter().map(Vec::len).sum();
        assert!((40_000..50_000).contains(&bytes), "{bytes} B");
        for (number, file) in icons.iter().enumerate() {
            assert!((350..1_100).contains(&file.len()), "icon {number} has {} B", file.len());
            let (width, height, pixels) = decoded(file);
            assert_eq!((width, height), (16, 16));
            let covering = pixels.chunks(PIXEL).filter(|pixel| pixel[3] > 200).count();
            assert!((40..256).contains(&covering), "icon {number} covers {covering} pixels");
        }
    }

    #[test]
    fn the_sprite_has_every_icon_where_it_is_said_to_be() {
        let (width, height, pixels) = decoded(&DRAWN.sprite().unwrap());
        assert_eq!((width, height), (128, 128));
        for number in 0..64 {
            let (left, top) = place(number);
            let (_, _, icon) = decoded(&DRAWN.icon(number).unwrap());
            for (line, wanted) in icon.chunks(SIDE * PIXEL).enumerate() {
                let start = ((top + line) * width as usize + left) * PIXEL;
                assert_eq!(&pixels[start..start + wanted.len()], wanted, "icon {number}, line {line}");
            }
        }
    }

    #[test]
    fn icons_are_as_many_and_as_large_as_is_asked_for() {
        let few = Icons { count: 20, bytes: Some(5_000) };
        for number in 0..few.count {
            let file = few.icon(number).unwrap();
            assert_eq!(file.len(), 5_000);
            assert_eq!(decoded(&file).2, decoded(&DRAWN.icon(number).unwrap()).2, "it shows the same");
        }
        let drawn = Icons { bytes: None, ..few };
        let (sprite, plain) = (few.sprite().unwrap(), drawn.sprite().unwrap());
        assert_eq!(decoded(&sprite).0, 128);
        assert_eq!(decoded(&sprite).1, 48, "three lines");
        let of_icons: usize = (0..20).map(|number| 5_000 - drawn.icon(number).unwrap().len()).sum();
        assert_eq!(sprite.len() - plain.len(), of_icons, "the sprite carries what the icons do");
        let many = Icons { count: 512, bytes: None };
        let distinct: std::collections::HashSet<Vec<u8>> =
            (0..512).map(|number| many.icon(number).unwrap()).collect();
        assert_eq!(distinct.len(), 512);
        let said = Icons { count: 64, bytes: Some(500) }.icon(0).unwrap_err().to_string();
        let least: usize = said.split(' ').rev().nth(1).unwrap().parse().unwrap();
        assert!((0..64).all(|number| Icons { count: 64, bytes: Some(least) }.icon(number).is_ok()), "{said}");
        assert!((0..64).any(|number| Icons { count: 64, bytes: Some(least - 1) }.icon(number).is_err()));
    }
}
