//! How a store is backed up by its own means, and how a backup becomes a store again.

/// How a store is backed up by its own means, as a careful operator would do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backup {
    /// [`super::Store::back_up`] makes a directory while the store is open. A copy of it is a store that can be opened.
    Image(BackupMethod),
    /// [`super::Store::back_up`] writes a dump while the store is open. [`super::Store::restore`] loads it into a new store.
    Dump(BackupMethod),
    /// The store's directory is copied while it is closed and therefore unavailable.
    Closed(BackupMethod),
    /// No backup, with the reason.
    None(&'static str),
}

/// The tool or call that makes a backup, and the documentation that recommends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupMethod {
    /// The tool or call.
    pub by: &'static str,
    /// What the vendor says, in substance.
    pub words: &'static str,
    /// Link to the vendor's documentation.
    pub link: &'static str,
}

impl Backup {
    /// The default of an adapter that declares no backup.
    pub const UNSAID: Backup = Backup::None("its adapter does not say how it is backed up");

    /// The means of the backup; `None` if there is none.
    pub fn means(&self) -> Option<&BackupMethod> {
        match self {
            Backup::Image(means) | Backup::Dump(means) | Backup::Closed(means) => Some(means),
            Backup::None(_) => None,
        }
    }

    /// The reason for having no backup; `None` if there is one.
    pub fn refusal(&self) -> Option<&'static str> {
        match self {
            Backup::None(why) => Some(why),
            Backup::Image(_) | Backup::Dump(_) | Backup::Closed(_) => None,
        }
    }
}
