//! Stores whose servers `./test.sh` cannot install.

use blobwise::store::Adapter;
use blobwise::stores;

/// True if a store's server is in no registry from which `./test.sh` installs, and is not on this machine either.
pub fn is_unobtainable(adapter: &Adapter) -> bool {
    let is_in_none = ["mongodb", "mssql"].contains(&stores::family(adapter.name));
    is_in_none && adapter.programs.iter().all(|program| program.find().is_err())
}
