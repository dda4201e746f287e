//! The contract between the engine and every place that can keep blobs.
//!
//! A place is described by an [`Adapter`], a constant that can be listed without opening anything. Opening it gives a [`Store`],
//! shared by all workers; each worker asks it for a [`Session`] on its own thread. Adapters never read a clock, print, or choose
//! durability: the engine does that for all of them alike.

mod adapter;
mod backup;
mod caps;
mod durability;
mod error;
mod every;
mod intent;
mod key;
mod meaning;
mod memory;
mod options;
mod pauses;
mod rights;
mod session;
mod traits;
mod upload_catalog;

pub use self::adapter::{Adapter, Common, Contact, Facts, JoinToken, KnownFault, Mode, Needs, Setup};
pub use self::backup::{Backup, BackupMethod};
pub use self::caps::{
    Capabilities, ClientSupport, Compaction, Inodes, Kind, Limit, PIECE_BYTES_MAX, ReadIsolation,
};
pub use self::durability::{Durability, Integrity, Loss, Losses, NoticedBy};
pub use self::error::{Error, Result};
pub(crate) use self::error::{bail, ensure};
pub use self::every::{COMMON, file_system_option};
pub use self::intent::{Demand, Intent, LimitUnit, ServerLimit};
pub use self::key::{Key, Keys, Span};
pub use self::meaning::{describe_error, describe_error_below};
pub use self::memory::{CacheRecommendation, OwnCache};
pub use self::options::{OptionSpec, Options, Values};
pub use self::pauses::{Backoff, while_busy};
pub use self::rights::{Grant, MissingRights};
pub use self::session::forward;
pub use self::session::{Catalogue, Incidents, ManySink, OpReport, Session, Sink, Store, has_name};
pub use self::traits::{ColdMethod, ConnectionUse, Traits};
pub use self::upload_catalog::{UploadCatalog, content_key};
pub use crate::host::control_group::DeviceLimit;
pub use crate::host::disk::{FILLED_MAX, FileSystem, NoFileSystem, names as file_systems};
