//! What a store does in a server of the user's, and whether that server has the room for it: known before anything is made there.

/// What a run puts into a store at most.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// Bytes of each blob.
    pub sizes: &'a [u64],
    /// How often all of them are there at once: uploads lie beside the blobs of the fill.
    pub copies: u64,
    /// Whether blobs are replaced by ones of other sizes.
    pub resizes: bool,
    /// How often all blobs are written while the store exists, its fill included.
    pub writes: f64,
    /// Connections that are open at once.
    pub connections: u64,
    /// Blobs that are under way at once, over all connections.
    pub under_way: u64,
}

impl Demand<'_> {
    /// The same with the first blobs only, whose sizes are distributed alike.
    pub fn part(self, blobs: usize) -> Self {
        Demand { sizes: &self.sizes[..blobs.min(self.sizes.len())], ..self }
    }

    /// The most blobs that are there at once.
    pub fn blobs(&self) -> u64 {
        self.sizes.len() as u64 * self.copies
    }

    /// Bytes of the largest blob.
    pub fn largest(&self) -> u64 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// The most bytes of blobs that are there at once.
    pub fn live_bytes(&self) -> u64 {
        self.live(|bytes| bytes)
    }

    /// The most that the blobs that are there at once take, where one of so many bytes takes what `of` says. New sizes are drawn from
    /// the old ones, so that their sum stays within four standard deviations.
    pub fn live(&self, of: impl Fn(u64) -> u64) -> u64 {
        let taken = || self.sizes.iter().map(|bytes| of(*bytes));
        let sum: u64 = taken().sum();
        let mean = sum as f64 / self.sizes.len().max(1) as f64;
        let squares: f64 = taken().map(|bytes| (bytes as f64 - mean).powi(2)).sum();
        let growth = if self.resizes { 4.0 * squares.sqrt() } else { 0.0 };
        (sum + growth as u64).saturating_mul(self.copies)
    }

    /// What is taken by all that is ever written, where one blob of so many bytes takes what `of` says: the room of a store that gives
    /// nothing back before it is removed.
    pub fn written(&self, of: impl Fn(u64) -> u64) -> u64 {
        let once: u64 = self.sizes.iter().map(|bytes| of(*bytes)).sum();
        self.live(of).max((once as f64 * self.writes) as u64)
    }

    /// Bytes that are on their way to the server, or back, at once.
    pub fn under_way_bytes(&self) -> u64 {
        self.largest().saturating_mul(self.under_way).min(self.live_bytes())
    }
}

/// What a store makes in a server of the user's, and what that server says of its room.
pub struct Intent {
    /// What is made, as a predicate: "makes a schema `blobwise_...` in the database `shop`".
    pub makes: String,
    /// The pronoun for it: "it" or "them".
    pub pronoun: &'static str,
    /// The limits that the server tells.
    pub limits: Vec<Room>,
    /// Why not all of its limits are known, as a sentence without its full stop.
    pub unknown: Option<String>,
    /// Who else is sent everything that is written: "its binary log", "2 replicas".
    pub carriers: Vec<String>,
}

/// What the room of a server is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Files that a file system can still hold.
    Inodes,
}

/// A limit of a server's, and how much of it is left.
pub struct Room {
    /// The limit with its value: "maxmemory 24 MB".
    pub limit: String,
    /// What it is counted in.
    pub unit: Unit,
    /// What is left of it.
    pub left: u64,
    /// What the server does when nothing is left, as a predicate: "evicts keys (allkeys-lru)".
    pub when_full: String,
    /// What its owner can do: "raise maxmemory".
    pub way_out: String,
    /// What a demand takes of it.
    pub takes: Box<dyn Fn(&Demand<'_>) -> u64>,
}

impl Room {
    /// The share of what is left that a run takes at most. The rest is for what others write meanwhile.
    pub const SHARE_MAX: f64 = 0.8;

    /// Whether a demand fits.
    pub fn fits(&self, demand: &Demand<'_>) -> bool {
        (self.takes)(demand) as f64 <= self.left as f64 * Room::SHARE_MAX
    }

    /// How many blobs fit at most, of those that do not all do.
    pub fn blobs_that_fit(&self, demand: &Demand<'_>) -> usize {
        let (mut fit, mut too_many) = (0, demand.sizes.len());
        while too_many - fit > 1 {
            let middle = fit.midpoint(too_many);
            match self.fits(&demand.part(middle)) {
                true => fit = middle,
                false => too_many = middle,
            }
        }
        fit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMAND: Demand<'_> =
        Demand { sizes: &[1000; 100], copies: 1, resizes: false, writes: 2.5, connections: 2, under_way: 1 };

    fn room(left: u64) -> Room {
        Room {
            limit: "maxmemory".to_owned(),
            unit: Unit::Bytes,
            left,
            when_full: "evicts keys".to_owned(),
            way_out: "raise it".to_owned(),
            takes: Box::new(|demand| demand.live(|bytes| bytes + 10)),
        }
    }

    #[test]
    fn a_fifth_of_what_is_left_stays_for_others() {
        assert!(room(126_250).fits(&DEMAND));
        assert!(!room(126_249).fits(&DEMAND));
        assert_eq!(room(63_125).blobs_that_fit(&DEMAND), 50);
        assert_eq!(room(1000).blobs_that_fit(&DEMAND), 0);
    }

    #[test]
    fn a_demand_counts_copies_growth_and_all_that_is_written() {
        assert_eq!((DEMAND.live_bytes(), DEMAND.blobs()), (100_000, 100));
        let uploads = Demand { copies: 2, ..DEMAND };
        assert_eq!((uploads.live_bytes(), uploads.blobs()), (200_000, 200));
        assert_eq!(DEMAND.written(|bytes| bytes), 250_000);
        assert_eq!(Demand { writes: 1.0, ..uploads }.written(|bytes| bytes), 200_000);
        // Of equal sizes, others are the same.
        assert_eq!(Demand { resizes: true, ..DEMAND }.live_bytes(), 100_000);
        let sizes = [0, 2000].repeat(50);
        let resized = Demand { sizes: &sizes, resizes: true, ..DEMAND };
        assert_eq!(resized.live_bytes(), 100_000 + 40_000);
        assert_eq!(Demand { under_way: 3, ..DEMAND }.under_way_bytes(), 3000);
        assert_eq!(Demand { under_way: 300, ..DEMAND }.under_way_bytes(), 100_000);
    }
}
