//! A store of the user's own: whatever speaks HTTP or Redis's protocol, described by a manifest. It is not in the table, because
//! its adapter is made when the program runs.

mod access;
mod manifest;
mod mark;
mod server;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, anyhow};

use self::access::{StoreAccess, StoreClient};
use self::manifest::{Listens, Manifest, Protocol};
use self::mark::{Mark, numbered};
use self::server::OwnServer;
use crate::host::server::Server;
use crate::store::*;
use crate::stores::common::lock;
use crate::stores::common::servers::{self, CONNECTION, PlaceKind, URL};

/// A manifest that was read, with the adapter made of it. Both are kept for as long as the program runs, because adapters are
/// constants everywhere else.
type ReadManifest = (&'static Manifest, &'static Adapter);

/// Every manifest that was read, by the path that the user gave.
static KNOWN: Mutex<BTreeMap<&'static str, ReadManifest>> = Mutex::new(BTreeMap::new());

/// Option: the path of the manifest. It has no other value than the path by which the store was named.
const FILE: &str = "file";
/// Option: the text of the manifest, so that a result says what was measured. It has no other value than what was read.
const MANIFEST: &str = "manifest";

/// Returns the adapter of the store that a manifest describes. Each file is read once, so that all of a run measures the same.
///
/// # Errors
///
/// If the file cannot be read, or is not a manifest that makes sense. Whether its program is installed is the adapter's
/// [`Needs::of_machine`].
pub fn adapter(manifest: &Path) -> anyhow::Result<&'static Adapter> {
    let mut known = lock(&KNOWN);
    if let Some((_, adapter)) = manifest.to_str().and_then(|file| known.get(file)) {
        return Ok(*adapter);
    }
    let read = Manifest::read(manifest).with_context(|| format!("the manifest `{}`", manifest.display()))?;
    let read: &'static Manifest = Box::leak(Box::new(read));
    let adapter: &'static Adapter = Box::leak(Box::new(adapter_of(read)));
    known.insert(read.file, (read, adapter));
    Ok(adapter)
}

fn adapter_of(manifest: &'static Manifest) -> Adapter {
    let only = |name: &'static str, value: &'static str, about: &'static str| OptionSpec {
        name,
        values: Values::OneOf(Box::leak(Box::new([value]))),
        default: value,
        about,
    };
    let mut options = vec![
        CONNECTION,
        only(FILE, manifest.file, "the path of its manifest"),
        only(MANIFEST, manifest.text, "the text of its manifest"),
    ];
    let programs = manifest.command.iter().map(|command| command.program).collect::<Vec<_>>();
    let mut needs = Needs { of_machine: lacks_program, ..Needs::NOTHING };
    if manifest.command.is_none() {
        options.push(OptionSpec { default: manifest.url, ..URL });
        needs.of_server = Some(intent);
    }
    Adapter {
        name: format!("{}{}", super::OWN, manifest.file).leak(),
        about: format!("`{}`, which its manifest describes", manifest.name).leak(),
        kind: manifest.kind,
        programs: programs.leak(),
        options: options.leak(),
        caps,
        loss,
        integrity,
        traits,
        memory: |_| CacheRecommendation::NO_CACHE,
        needs,
        open,
    }
}

/// The manifest of a candidate; `None` for the options of another store.
fn manifest_for(options: &Options) -> Option<&'static Manifest> {
    lock(&KNOWN).get(options.text(FILE)).map(|(manifest, _)| *manifest)
}

fn caps(options: &Options) -> Capabilities {
    let manifest = manifest_for(options);
    let is_persistent = manifest.is_some_and(Manifest::is_persistent);
    Capabilities {
        durability: match manifest {
            Some(manifest) => manifest.classes(),
            None => &[Durability::None],
        },
        persistent: is_persistent,
        contents: manifest.is_none_or(|manifest| manifest.kind != Kind::Baseline),
        range: manifest.is_none_or(|manifest| manifest.ranges),
        // What the server holds in its memory is not known.
        streams: false,
        list: false,
        backup: Backup::None("its manifest does not say how it is backed up"),
        clients: ClientSupport::One("other processes are not told how to reach it"),
        inodes: INODES,
        ..Capabilities::ONE_BY_ONE
    }
}

/// As for files in directories, the most that a store may be.
const INODES: Inodes = Inodes { each_blob: 2, spread: (2, 256), beside: 1000 };

/// What the manifest declares; what it leaves out is not known.
fn loss(options: &Options, durability: Durability) -> Losses {
    let declared = manifest_for(options).and_then(|manifest| manifest.loss(durability));
    let is_persistent = manifest_for(options).is_some_and(Manifest::is_persistent);
    declared.unwrap_or(Losses::alike(if is_persistent { Loss::NotKnown } else { Loss::All }))
}

fn integrity(options: &Options, _: Durability) -> Integrity {
    let Some(manifest) = manifest_for(options).filter(|manifest| manifest.is_persistent()) else {
        return Integrity::NothingKept;
    };
    match manifest.checksums {
        Some(true) => Integrity::Checksums,
        Some(false) => Integrity::Unchecked,
        None => Integrity::Unknown,
    }
}

fn traits(options: &Options) -> Traits {
    let traits = servers::traits(options);
    Traits { integer_keys: traits.is_external, ..traits }
}

/// Why the program of its command cannot be started; `None` if it can, or if there is no command.
fn lacks_program(options: &Options) -> Option<anyhow::Error> {
    let manifest = manifest_for(options)?;
    let program = &manifest.command.as_ref()?.program;
    let Ok(found) = program.find() else {
        return Some(anyhow!(
            "the manifest `{}`: its `command` starts `{}`, and no such program was found; install it, or write its path",
            manifest.file,
            program.name
        ));
    };
    let is_executable = found.path.metadata().is_ok_and(|file| file.permissions().mode() & 0o111 != 0);
    (!is_executable).then(|| {
        let path = found.path.display();
        anyhow!(
            "the manifest `{}`: its `command` starts `{path}`, which is not executable; run `chmod +x {path}`",
            manifest.file
        )
    })
}

fn intent(setup: &Setup) -> Result<Intent> {
    let manifest = manifest_for(setup.options).context("the manifest was not read")?;
    mark::intent(&StoreAccess::of_url(manifest.speaks, setup.options.text(URL.name), setup.op_timeout)?)
}

struct OwnStore {
    manifest: &'static Manifest,
    durability: Durability,
    access: StoreAccess,
    /// What the keys of blobs begin with.
    prefix: String,
    /// Our mark in the user's server; `None` in a private one.
    mark: Option<Mark>,
    instance: Option<OwnServer>,
}

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let manifest = manifest_for(setup.options).context("the manifest was not read")?;
    ensure!(
        setup.options.text(MANIFEST) == manifest.text,
        "the manifest `{}` has changed since the run began",
        manifest.file
    );
    let Some(command) = &manifest.command else { return open_theirs(setup, manifest) };
    let prefix = match (command.listens, setup.mode) {
        (Listens::OnSocket, _) => String::new(),
        // Every user of the machine reaches a port, and none knows the keys.
        (Listens::OnPort, Mode::Create) => {
            let secret = crate::host::server::password()?;
            SECRET.keep_name(setup.dir, &secret)?;
            secret
        }
        (Listens::OnPort, Mode::Open) => SECRET.kept_name(setup.dir)?,
    };
    let instance = OwnServer::start(setup, manifest, command)?;
    Ok(Box::new(OwnStore {
        manifest,
        durability: setup.durability,
        access: instance.access.clone(),
        prefix,
        mark: None,
        instance: Some(instance),
    }))
}

/// The file with the secret that keys behind a port begin with.
const SECRET: PlaceKind = PlaceKind("prefix");

fn open_theirs(setup: &Setup, manifest: &'static Manifest) -> Result<Box<dyn Store>> {
    let access = StoreAccess::of_url(manifest.speaks, setup.options.text(URL.name), setup.op_timeout)?;
    let mark = match setup.mode {
        Mode::Create => Mark::take(&access, setup.dir, setup.keys_max)?,
        Mode::Open => Mark::find(&access, setup.dir)?,
    };
    Ok(Box::new(OwnStore {
        manifest,
        durability: setup.durability,
        prefix: mark.prefix(),
        access,
        mark: Some(mark),
        instance: None,
    }))
}

impl Store for OwnStore {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(OwnSession { store: self, client: self.access.connect()? }))
    }

    fn facts(&self) -> Result<Facts> {
        let speaks = match self.manifest.speaks {
            Protocol::Http => "HTTP/1.1",
            Protocol::Redis => "the protocol of Redis",
        };
        let mut facts = Facts::from([
            ("name".into(), self.manifest.name.clone()),
            ("server".into(), servers::whose(self.instance.is_some()).into()),
            ("speaks".into(), speaks.into()),
        ]);
        if let Some(instance) = &self.instance {
            let confined =
                if instance.is_confined { "by Landlock" } else { "no: this kernel has no Landlock" };
            facts.insert("confined".into(), confined.into());
        } else {
            facts.extend(self.access.tls()?.map(|tls| ("tls".to_owned(), tls)));
        }
        Ok(facts)
    }

    fn servers(&self) -> Vec<&Server> {
        self.instance.iter().map(|instance| &instance.server).collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.instance.map_or(Ok(()), OwnServer::stop)
    }

    fn remove(self: Box<Self>) -> Result<()> {
        if let Some(mark) = &self.mark {
            mark.remove(&self.access)?;
        }
        self.close()
    }
}

struct OwnSession<'s> {
    store: &'s OwnStore,
    client: StoreClient,
}

impl OwnSession<'_> {
    /// The key that the store is asked for: in the user's server its number, by which it can be found again for removal.
    fn key(&self, key: &Key) -> Key {
        if self.store.mark.is_some() { numbered(key.id) } else { *key }
    }
}

impl Session for OwnSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        let key = self.key(key);
        self.client.put(&self.store.prefix, &key, blob)
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        if !self.store.manifest.ranges {
            span.check_whole()?;
        }
        let key = self.key(key);
        self.client.get(&self.store.prefix, &key, span, sink)
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        let key = self.key(key);
        self.client.delete(&self.store.prefix, &key)
    }

    fn sync(&mut self) -> Result<()> {
        match &self.store.manifest.sync {
            Some(request) if self.store.durability == Durability::OnSync => self.client.sync(request),
            _ => Ok(()),
        }
    }

    fn connect(&mut self) -> Result<()> {
        self.client = self.store.access.connect()?;
        Ok(())
    }

    fn take_incidents(&mut self) -> Incidents {
        Incidents { repeats: self.client.take_repeats(), ..Incidents::default() }
    }
}
