//! Stores whose servers `./test.sh` cannot install, or not with everything.

use blobwise::store::{Adapter, Options};
use blobwise::stores;

/// True if a store's server is in no registry from which `./test.sh` installs, and is not on this machine either.
pub fn is_unobtainable(adapter: &Adapter) -> bool {
    let is_in_none = ["mongodb", "mssql"].contains(&stores::family(adapter.name));
    is_in_none && adapter.programs.iter().all(|program| program.find().is_err())
}

/// True if these options need what the server that `./test.sh` installs was built without: Valkey's wheel has no TLS.
pub fn is_installed_without_tls(adapter: &Adapter, options: &Options) -> bool {
    stores::family(adapter.name) == "valkey" && options.flag("tls")
}
