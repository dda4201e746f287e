//! How a store is backed up by its own means, and how what was backed up becomes a store again.

/// How a store is backed up by its own means, as a careful operator would do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backup {
    /// [`super::Store::back_up`] makes a directory while the store is open. Its copy is a store that can be opened.
    Image(Means),
    /// [`super::Store::back_up`] writes a dump while the store is open. [`super::Store::restore`] loads it into a new store.
    Dump(Means),
    /// The store's directory is copied while it is closed: nobody can use it meanwhile.
    Closed(Means),
    /// Not at all, and why not.
    None(&'static str),
}

/// What a backup is made by, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    /// What makes it.
    pub by: &'static str,
    /// The vendor's words, in substance.
    pub words: &'static str,
    /// Where they stand.
    pub link: &'static str,
}

impl Backup {
    /// What a store begins with that has said nothing of it.
    pub const UNSAID: Backup = Backup::None("its adapter does not say how it is backed up");

    /// How it is made, where it can be.
    pub fn means(&self) -> Option<&Means> {
        match self {
            Backup::Image(means) | Backup::Dump(means) | Backup::Closed(means) => Some(means),
            Backup::None(_) => None,
        }
    }

    /// The reason why there is none, where there is none.
    pub fn refusal(&self) -> Option<&'static str> {
        match self {
            Backup::None(why) => Some(why),
            Backup::Image(_) | Backup::Dump(_) | Backup::Closed(_) => None,
        }
    }
}
