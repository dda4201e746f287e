//! The machine: its facts, private directories and disks, control groups, and processes that cannot outlive blobwise.

#[cfg(feature = "page")]
pub mod browser;
pub mod cleanup_watchdog;
pub mod control_group;
pub mod disk;
pub mod fork;
pub mod helper;
pub mod machine;
pub mod place;
pub mod processors;
#[cfg(feature = "page")]
pub mod proxy;
pub mod ranks;
pub mod server;
pub mod stdio;
