//! What a store would make in the user's server, and whether the server has room for it; checked before anything is made there.

/// The most that a run puts into a store.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// Size of each blob, in bytes.
    pub sizes: &'a [u64],
    /// Copies of all blobs that exist at once: uploads lie beside the blobs of the fill.
    pub copies: u64,
    /// True if blobs are replaced by blobs of other sizes.
    pub resizes: bool,
    /// How often all blobs are written over the store's lifetime, the fill included.
    pub writes: f64,
    /// Connections open at once.
    pub connections: u64,
    /// Blobs in flight at once, over all connections.
    pub under_way: u64,
}

impl Demand<'_> {
    /// The same demand with the first `blobs` blobs only, whose sizes have the same distribution.
    pub fn part(self, blobs: usize) -> Self {
        Demand { sizes: &self.sizes[..blobs.min(self.sizes.len())], ..self }
    }

    /// The most blobs that exist at once.
    pub fn blobs(&self) -> u64 {
        self.sizes.len() as u64 * self.copies
    }

    /// Size of the largest blob, in bytes.
    pub fn largest(&self) -> u64 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// The most bytes of blobs that exist at once.
    pub fn live_bytes(&self) -> u64 {
        self.live(|bytes| bytes)
    }

    /// The most space that live blobs take, where `of` maps the size of a blob to the space it takes. New sizes are drawn from
    /// the old ones, so that their sum stays within four standard deviations.
    pub fn live(&self, of: impl Fn(u64) -> u64) -> u64 {
        let taken = || self.sizes.iter().map(|bytes| of(*bytes));
        let sum: u64 = taken().sum();
        let mean = sum as f64 / self.sizes.len().max(1) as f64;
        let squares: f64 = taken().map(|bytes| (bytes as f64 - mean).powi(2)).sum();
        let growth = if self.resizes { 4.0 * squares.sqrt() } else { 0.0 };
        (sum + growth as u64).saturating_mul(self.copies)
    }

    /// The space of everything ever written, where `of` maps the size of a blob to the space it takes. For stores that free
    /// nothing before they are removed.
    pub fn written(&self, of: impl Fn(u64) -> u64) -> u64 {
        let once: u64 = self.sizes.iter().map(|bytes| of(*bytes)).sum();
        self.live(of).max((once as f64 * self.writes) as u64)
    }

    /// Bytes in flight to or from the server at once.
    pub fn under_way_bytes(&self) -> u64 {
        self.largest().saturating_mul(self.under_way).min(self.live_bytes())
    }
}

/// What a store makes in the user's server, and the room that this server reports.
pub struct Intent {
    /// What is made, as a predicate: "makes a schema `blobwise_...` in the database `shop`".
    pub makes: String,
    /// The pronoun for it: "it" or "them".
    pub pronoun: &'static str,
    /// Limits that the server reports.
    pub limits: Vec<ServerLimit>,
    /// Why some limits are unknown; a sentence without its full stop.
    pub unknown: Option<String>,
    /// Other receivers of every write: "its binary log", "2 replicas", "its log of statements".
    pub carriers: Vec<String>,
}

/// Unit of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitUnit {
    /// Bytes.
    Bytes,
    /// Inodes that a file system has free.
    Inodes,
    /// Connections that a server takes at once.
    Connections,
}

/// A limit of a server, and how much of it is left.
pub struct ServerLimit {
    /// The limit with its value: "maxmemory 24 MB".
    pub limit: String,
    /// Unit of `left` and `takes`.
    pub unit: LimitUnit,
    /// What is left of the limit.
    pub left: u64,
    /// What the server does when nothing is left, as a predicate: "evicts keys (allkeys-lru)".
    pub when_full: String,
    /// What the owner can do: "raise maxmemory".
    pub way_out: String,
    /// True if the server makes room by throwing blobs away and its owner allows that, so that any demand fits.
    pub may_evict: bool,
    /// The part of the limit that a demand uses.
    pub takes: Box<dyn Fn(&Demand<'_>) -> u64>,
}

impl ServerLimit {
    /// The largest share of what is left that a run may use. The rest is for concurrent writes of others.
    pub const SHARE_MAX: f64 = 0.8;

    /// Bytes of a disk.
    pub fn disk(
        limit: String,
        left: u64,
        when_full: &str,
        takes: impl Fn(&Demand<'_>) -> u64 + 'static,
    ) -> ServerLimit {
        ServerLimit {
            limit,
            unit: LimitUnit::Bytes,
            left,
            when_full: when_full.to_owned(),
            way_out: "make room there".to_owned(),
            may_evict: false,
            takes: Box::new(takes),
        }
    }

    /// Connections of clients, all of whom share them.
    pub fn connections(limit: String, left: u64) -> ServerLimit {
        ServerLimit {
            unit: LimitUnit::Connections,
            way_out: "use fewer --workers".to_owned(),
            ..ServerLimit::disk(limit, left, "refuses every client", |demand| demand.connections)
        }
    }

    /// True if the demand fits.
    pub fn fits(&self, demand: &Demand<'_>) -> bool {
        self.fits_within(demand, ServerLimit::SHARE_MAX)
    }

    /// True if the demand fits although the server has come to hold a little more meanwhile, such as the buffers of a connection.
    pub fn fits_easily(&self, demand: &Demand<'_>) -> bool {
        const SPARE: f64 = 0.95;
        self.fits_within(demand, ServerLimit::SHARE_MAX * SPARE)
    }

    fn fits_within(&self, demand: &Demand<'_>, share: f64) -> bool {
        self.may_evict || (self.takes)(demand) as f64 <= self.left as f64 * share
    }

    /// The most blobs that fit, given that not all of them do.
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

    fn room(left: u64) -> ServerLimit {
        ServerLimit::disk("df".to_owned(), left, "fails", |demand| demand.live(|bytes| bytes + 10))
    }

    #[test]
    fn a_fifth_of_what_is_left_stays_for_others() {
        assert!(room(126_250).fits(&DEMAND));
        assert!(!room(126_249).fits(&DEMAND));
        assert_eq!(room(63_125).blobs_that_fit(&DEMAND), 50);
        assert_eq!(room(1000).blobs_that_fit(&DEMAND), 0);
        assert!(ServerLimit { may_evict: true, ..room(1000) }.fits(&DEMAND));
        let connections = |left| ServerLimit::connections("max_connections 100".to_owned(), left);
        assert!(connections(3).fits(&DEMAND) && !connections(2).fits(&DEMAND));
        // Fewer blobs open no fewer connections.
        assert_eq!(connections(2).blobs_that_fit(&DEMAND), 0);
    }

    #[test]
    fn a_demand_counts_copies_growth_and_all_that_is_written() {
        assert_eq!((DEMAND.live_bytes(), DEMAND.blobs()), (100_000, 100));
        let uploads = Demand { copies: 2, ..DEMAND };
        assert_eq!((uploads.live_bytes(), uploads.blobs()), (200_000, 200));
        assert_eq!(DEMAND.written(|bytes| bytes), 250_000);
        assert_eq!(Demand { writes: 1.0, ..uploads }.written(|bytes| bytes), 200_000);
        // With equal sizes, resizing changes nothing.
        assert_eq!(Demand { resizes: true, ..DEMAND }.live_bytes(), 100_000);
        let sizes = [0, 2000].repeat(50);
        let resized = Demand { sizes: &sizes, resizes: true, ..DEMAND };
        assert_eq!(resized.live_bytes(), 100_000 + 40_000);
        assert_eq!(Demand { under_way: 3, ..DEMAND }.under_way_bytes(), 3000);
        assert_eq!(Demand { under_way: 300, ..DEMAND }.under_way_bytes(), 100_000);
    }
}
