//! Bit rot: flips one byte of a blob on the disk and examines what detects it.

use anyhow::{Result, bail};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::Trial;
use super::lab::{Ending, Lab, RecordedLoad};
use super::load::CrashLoad;
use super::oracle::BlobState;
use crate::host::disk::Faults;
use crate::result::crash::besides::FlipResults;

/// Interval, in bytes, at which every blob has bytes that no other blob has; these are searched for and changed.
const MARKED_EVERY: usize = 4096;
/// Length of these bytes, short enough to lie within a page, packet or row.
const MARK: usize = 16;

/// Flips a byte in each of `flips` blobs of a closed store, one after the other, and reads the blob.
pub fn try_flips(lab: &Lab, trial: &Trial<'_>, flips: usize, seed: u64) -> Result<FlipResults> {
    let closed = lab.record_to(trial, seed, Ending::Closed)?;
    let load = CrashLoad::for_trial(trial, seed)?;
    let mut told = FlipResults { declared: closed.noticed_by(), ..FlipResults::default() };
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut left = flips;
    while left > 0 {
        let mut blobs = alive(lab, trial, &closed, &load)?;
        blobs.shuffle(&mut rng);
        for (key, blob) in blobs.into_iter().take(left) {
            lab.go_on()?;
            flip(lab, trial, &closed, &load, (key, &blob), &mut rng, &mut told)?;
            left -= 1;
        }
    }
    Ok(told)
}

/// Reads the live blobs from a healthy disk.
fn alive(
    lab: &Lab,
    trial: &Trial<'_>,
    closed: &RecordedLoad<'_>,
    load: &CrashLoad,
) -> Result<Vec<(usize, Vec<u8>)>> {
    let Some(mut mounted) = closed.whole(Faults::default(), |_| ())? else {
        bail!("the file system of a store that was closed cannot be mounted");
    };
    let found = lab.look(&mut mounted, trial, load)?.found;
    let blobs = found.blobs.iter().enumerate().filter_map(|(key, seen)| match seen {
        BlobState::Of(op) => Some((key, load.bytes(*op)?)),
        _ => None,
    });
    let blobs: Vec<_> = blobs.filter(|(_, blob)| blob.len() >= MARK).collect();
    if blobs.is_empty() {
        bail!("the store has no blob of which a byte could be flipped");
    }
    Ok(blobs)
}

/// Flips a byte in every copy of a part of a blob, and reads the blob.
fn flip(
    lab: &Lab,
    trial: &Trial<'_>,
    closed: &RecordedLoad<'_>,
    load: &CrashLoad,
    (key, blob): (usize, &[u8]),
    rng: &mut SmallRng,
    told: &mut FlipResults,
) -> Result<()> {
    let mark = rng.random_range(0..=(blob.len() - MARK) / MARKED_EVERY) * MARKED_EVERY;
    let (piece, byte) = (&blob[mark..mark + MARK], rng.random_range(0..MARK));
    let places = closed.places(piece);
    if places.is_empty() {
        told.not_found += 1;
        return Ok(());
    }
    told.flips += 1;
    let change = |image: &mut Vec<u8>| places.iter().for_each(|place| image[place + byte] ^= 0xff);
    let Some(mut mounted) = closed.whole(Faults::default(), change)? else {
        bail!("the file system cannot be mounted once a byte of a blob is flipped");
    };
    let found = lab.look(&mut mounted, trial, load)?.found;
    let seen = if found.open_seconds.is_some() { found.blobs[key] } else { BlobState::Unreadable };
    match seen {
        BlobState::Unreadable => told.noticed += 1,
        BlobState::Of(op) if load.bytes(op).as_deref() == Some(blob) => told.unharmed += 1,
        BlobState::Missing | BlobState::Wrong | BlobState::Dangling | BlobState::Of(_) => {
            told.handed_out += 1;
            let how = if matches!(seen, BlobState::Missing | BlobState::Dangling) {
                "said to be missing"
            } else {
                "returned"
            };
            told.first.get_or_insert_with(|| {
                format!(
                    "blob {key} of {} B is {how} with byte {} flipped, without an error",
                    blob.len(),
                    mark + byte
                )
            });
        }
    }
    Ok(())
}
