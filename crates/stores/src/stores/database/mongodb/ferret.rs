//! FerretDB: MongoDB's protocol over SQLite, in a private server under its own name.

use std::path::Path;

use anyhow::anyhow;

use crate::store::*;

/// FerretDB ignores write concerns and has no flush command; only a server-wide setting of SQLite decides. So both durable
/// classes flush each write.
fn synchronous(durability: Durability) -> &'static str {
    match durability {
        Durability::None => "off",
        Durability::OnSync | Durability::EachWrite => "full",
    }
}

/// The SQLite settings of a class, for the store's facts.
pub(super) fn backend(durability: Durability) -> String {
    format!("sqlite journal_mode=wal synchronous={}", synchronous(durability))
}

/// Command-line arguments. Default listeners are disabled, and so is telemetry.
pub(super) fn arguments(setup: &Setup, data: &Path, socket: &Path) -> Result<Vec<String>> {
    let path = data.to_str().filter(|path| !path.contains(['?', '#', '%']));
    let path = path.ok_or_else(|| {
        let shown = data.display();
        Error::Failed(anyhow!("FerretDB takes its directory as a URL, in which `{shown}` cannot be written"))
    })?;
    let cache_kib = (setup.cache_bytes / setup.workers.max(1) as u64) >> 10;
    let pragmas = format!(
        "_pragma=journal_mode(wal)&_pragma=synchronous({})&_pragma=cache_size(-{})&_pragma=busy_timeout({})",
        synchronous(setup.durability),
        cache_kib.max(1024),
        // How long a writer waits for other writers, as in the store `sqlite`; FerretDB's default is 10 s.
        setup.op_timeout.as_millis()
    );
    Ok(vec![
        "--handler=sqlite".to_owned(),
        format!("--sqlite-url=file:{path}/?{pragmas}"),
        format!("--state-dir={}", setup.dir.display()),
        format!("--listen-unix={}", socket.display()),
        "--listen-addr=".to_owned(),
        "--debug-addr=-".to_owned(),
        "--telemetry=disable".to_owned(),
        "--log-level=warn".to_owned(),
    ])
}
