//! How a careful user divides memory between a store's own cache and the kernel's cache of its files.

/// A store's own cache, as its vendor says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// How large.
    pub own: OwnCache,
    /// What the vendor says.
    pub words: &'static str,
    /// Where.
    pub link: &'static str,
}

/// How large a store's own cache is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OwnCache {
    /// It has none: the kernel caches its files, or it holds everything in memory.
    None,
    /// So many bytes, whatever memory there is.
    Bytes(u64),
    /// This share of the memory.
    Share(f64),
}

impl Split {
    /// No cache that could be sized.
    pub const NO_CACHE: Split = Split { own: OwnCache::None, words: "", link: "" };

    /// Bytes of the store's own cache, where it may have `memory_bytes`. More than `enough_bytes` would stay empty.
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
        let split = |own| Split { own, ..Split::NO_CACHE };
        assert_eq!(split(OwnCache::Share(0.25)).cache_bytes(4000, 10_000), 1000);
        assert_eq!(split(OwnCache::Share(0.25)).cache_bytes(4000, 600), 600);
        assert_eq!(split(OwnCache::Bytes(2000)).cache_bytes(4000, 600), 2000);
        assert_eq!(split(OwnCache::Bytes(2000)).cache_bytes(1000, 600), 1000);
        assert_eq!(Split::NO_CACHE.cache_bytes(4000, 600), 0);
    }
}
