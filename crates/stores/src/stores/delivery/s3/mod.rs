//! S3: the blob as one object, in a small private server or in the user's bucket.

mod checksum;
mod client;
mod gateway;
mod instance;
mod product;
mod rights;
mod style;

use self::checksum::CHECKSUM;
use self::client::{BucketAccess, S3Client};
use self::instance::S3Server;
use self::product::{PRODUCT, PROGRAMS, S3Product};
use self::style::STYLE;
use crate::store::*;
use crate::stores::common::servers::{self, CONNECTION, URL};

pub(in crate::stores) const ADAPTER: Adapter = Adapter {
    name: "s3",
    about: "S3: the blob as one object, over HTTP",
    kind: Kind::Server,
    programs: PROGRAMS,
    options: &[
        PRODUCT,
        OptionSpec {
            name: "region",
            values: Values::Word,
            default: "us-east-1",
            about: "the region that requests are signed for",
        },
        // The protocol requires at least 5 MiB for every part but the last.
        OptionSpec::bytes("multipart", 5 << 20, 5 << 30, "16MiB")
            .about("blobs above this are put in parts of this size"),
        STYLE,
        CHECKSUM,
        CONNECTION,
        URL,
    ],
    caps: |_| Capabilities {
        // The protocol has no term for durability. What a server does before it replies is up to it: versitygw flushes nothing,
        // SeaweedFS not everything.
        durability: &[Durability::None],
        // 10,000 parts of 5 MiB or more: more than blobwise handles.
        blob_bytes_max: None,
        backup: Backup::None(
            "its protocol has no request for a backup: versions and replicas are its provider's",
        ),
        clients: ClientSupport::Server,
        // versitygw keeps each object as a file, and has 256 files of locks.
        inodes: Inodes { each_blob: 1, beside: 400, ..Inodes::FEW },
        ..Capabilities::ONE_BY_ONE
    },
    loss: |options, _| losses(options),
    integrity,
    traits: |options| Traits { is_paid_by_request: true, ..servers::traits(options) },
    memory: |_| CacheRecommendation::NO_CACHE,
    needs: Needs { program: product::is_asked, of_server: Some(intent), ..Needs::NOTHING },
    open,
};

struct S3 {
    access: BucketAccess,
    /// Prefix of all our objects, the mark included.
    prefix: String,
    /// Prefix of the blobs' objects.
    blobs: String,
    part_bytes: usize,
    instance: Option<S3Server>,
    /// True if another process opened the store.
    joined: bool,
}

/// What a run makes in the user's bucket.
fn intent(setup: &Setup) -> Result<Intent> {
    let access = instance::access_to(setup.options.text("url"), setup)?;
    Ok(Intent {
        makes: format!("puts objects `{}...` into the bucket `{}`", instance::OURS, access.bucket.name()),
        pronoun: "them",
        limits: Vec::new(),
        unknown: Some("the protocol has no request for it".to_owned()),
        carriers: Vec::new(),
    })
}

/// Unknown for the user's server; otherwise that of the product.
fn integrity(options: &Options, _: Durability) -> Integrity {
    if options.text("url").is_empty() {
        S3Product::from_options(options).integrity()
    } else {
        Integrity::Unknown
    }
}

/// Losses of the product; for the user's server the least that the protocol implies.
fn losses(options: &Options) -> Losses {
    match options.text("url").is_empty() {
        true => S3Product::from_options(options).losses(),
        false => Losses::alike(Loss::RecentWrites),
    }
}

/// Joins a store that another process opened and will remove.
fn join(setup: &Setup, join_token: &JoinToken) -> Result<Box<dyn Store>> {
    let (way, prefix): (instance::JoinedBucket, String) = join_token.read()?;
    Ok(Box::new(S3 { joined: true, ..S3::new(setup, way.access(setup)?, prefix, None) }))
}

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    if let Some(join_token) = setup.join_token {
        return join(setup, join_token);
    }
    let url = setup.options.text("url");
    let instance = if url.is_empty() { Some(S3Server::start(setup)?) } else { None };
    let access = match &instance {
        Some(instance) => instance.access.clone(),
        None => instance::access_to(url, setup)?,
    };
    let prefix = {
        let (mut client, external) = (S3Client::new(&access), instance.is_none());
        match setup.mode {
            Mode::Create if external => {
                let in_parts = setup.blob_bytes_max > setup.options.number("multipart");
                instance::create_prefix(&mut client, setup, |client, prefix| {
                    rights::check(client, &access, prefix, in_parts)
                })?
            }
            Mode::Create => String::new(),
            Mode::Open => instance::find_prefix(&mut client, setup.dir, external)?,
        }
    };
    Ok(Box::new(S3::new(setup, access, prefix, instance)))
}

impl S3 {
    fn new(setup: &Setup, access: BucketAccess, prefix: String, instance: Option<S3Server>) -> S3 {
        let part_bytes = setup.options.number("multipart") as usize;
        S3 { access, blobs: format!("{prefix}b/"), prefix, part_bytes, instance, joined: false }
    }
}

impl Store for S3 {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let mut client = S3Client::new(&self.access);
        client.connect()?;
        Ok(Box::new(S3Session { store: self, client, name: self.blobs.clone() }))
    }

    fn facts(&self) -> Result<Facts> {
        let server = match &self.instance {
            Some(instance) => format!("private {}", instance.version),
            None => "given by URL".to_owned(),
        };
        let mut facts = Facts::from([
            ("server".into(), server),
            ("signature".into(), "version 4 in the URL, payload left out".into()),
        ]);
        let mut client = S3Client::new(&self.access);
        client.connect()?;
        facts.extend(client.tls().map(|tls| ("tls".to_owned(), tls)));
        facts.extend(self.access.checksum.name().map(|name| ("checksum".to_owned(), name.to_owned())));
        if self.access.credentials.token().is_some() {
            facts.insert("keys".into(), "temporary, with a session token".into());
        }
        let name = client.server_name()?;
        if !name.is_empty() {
            facts.insert("calls_itself".into(), name);
        }
        if self.instance.is_none()
            && let Some(versioning) = client.versioning()?
        {
            facts.insert("versioning".into(), versioning.state);
        }
        Ok(facts)
    }

    fn join_token(&self) -> Result<JoinToken> {
        JoinToken::encode(&(instance::JoinedBucket::from_access(&self.access), &self.prefix))
    }

    fn servers(&self) -> Vec<&crate::host::server::Server> {
        self.instance.iter().flat_map(S3Server::servers).collect()
    }

    fn footprint_bytes(&self) -> Result<Option<u64>> {
        if self.instance.is_some() {
            return Ok(None);
        }
        let everything = S3Client::new(&self.access).everything(&self.prefix)?;
        Ok(Some(everything.iter().map(|listed| listed.bytes).sum()))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.instance.map_or(Ok(()), S3Server::stop)
    }

    fn remove(self: Box<Self>) -> Result<()> {
        if self.instance.is_none() && !self.joined {
            instance::remove_prefix(&mut S3Client::new(&self.access), &self.prefix)?;
        }
        self.close()
    }
}

struct S3Session<'s> {
    store: &'s S3,
    client: S3Client<'s>,
    /// Name of the last object, reused as a buffer for the next one.
    name: String,
}

impl S3Session<'_> {
    fn name(&mut self, key: &Key) {
        self.name.truncate(self.store.blobs.len());
        self.name.push_str(key.as_str());
    }
}

impl Session for S3Session<'_> {
    fn take_incidents(&mut self) -> Incidents {
        Incidents { repeats: self.client.take_repeats(), ..Incidents::default() }
    }

    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        self.name(key);
        if blob.len() > self.store.part_bytes {
            return self.client.put_parts(&self.name, blob, self.store.part_bytes);
        }
        self.client.put(&self.name, blob)
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        self.name(key);
        self.client.get(&self.name, span, sink)
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.name(key);
        self.client.delete(&self.name)
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn connect(&mut self) -> Result<()> {
        self.client.connect()
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        let blobs = &self.store.blobs;
        self.client.list(blobs, &mut |object| each(object.name.strip_prefix(blobs).unwrap_or(&object.name)))
    }
}
