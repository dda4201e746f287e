//! How a careful user divides memory between a store's own cache and the kernel's page cache.

/// The size of a store's own cache, by its vendor's recommendation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheRecommendation {
    /// Size of the cache.
    pub own: OwnCache,
    /// What the vendor says.
    pub words: &'static str,
    /// Link to the vendor's documentation.
    pub link: &'static str,
}

/// Size of a store's own cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OwnCache {
    /// None: the kernel caches its files, or the store holds everything in memory.
    None,
    /// A fixed number of bytes, whatever memory is available.
    Bytes(u64),
    /// A share of the memory.
    Share(f64),
}

impl CacheRecommendation {
    /// A store without a cache that can be sized.
    pub const NO_CACHE: CacheRecommendation =
        CacheRecommendation { own: OwnCache::None, words: "", link: "" };

    /// Size of the store's own cache in bytes when the store may use `memory_bytes`. A share is cut off at `enough_bytes`,
    /// because more would stay empty.
    pub fn cache_bytes(&self, memory_bytes: u64, enough_bytes: u64) -> u64 {
        match self.own {
            OwnCache::None => 0,
            OwnCache::Bytes(bytes) => bytes.min(memory_bytes),
            OwnCache::Share(share) => ((memory_bytes as f64 * share) as u64).min(enough_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_a_share_of_the_memory_and_no_larger_than_what_could_be_in_it() {
        let split = |own| CacheRecommendation { own, ..CacheRecommendation::NO_CACHE };
        assert_eq!(split(OwnCache::Share(0.25)).cache_bytes(4000, 10_000), 1000);
        assert_eq!(split(OwnCache::Share(0.25)).cache_bytes(4000, 600), 600);
        assert_eq!(split(OwnCache::Bytes(2000)).cache_bytes(4000, 600), 2000);
        assert_eq!(split(OwnCache::Bytes(2000)).cache_bytes(1000, 600), 1000);
        assert_eq!(CacheRecommendation::NO_CACHE.cache_bytes(4000, 600), 0);
    }
}
