//! The server behind S3's candidate: a private one, or the user's bucket, in which our objects have a prefix.

use std::path::Path;

use anyhow::{Context, anyhow};
use rusty_s3::{Bucket, Credentials, UrlStyle};
use url::Url;

use super::checksum::Checksum;
use super::client::{BucketAccess, ListEntry, ListEntryKind, S3Client, S3Error};
use super::gateway::GatewayAccess;
use super::product::{S3Process, S3Product};
use super::style::{PRIVATE_DOMAIN, is_virtual_host, named};
use crate::host::server::{InstalledProgram, Server, password};
use crate::store::*;
use crate::stores::common::certificate::Certificate;
use crate::stores::common::removal::{none_left, remove_each};
use crate::stores::common::servers::{Owner, on_free_port, own_name};
use crate::wire::buffer::{self, Address};
use crate::wire::http1::Endpoint;
use crate::wire::tls::{native_certificates, trust_in};

/// Beginning of our prefixes in the user's bucket.
pub(super) const OURS: &str = "blobwise-";
/// The object that marks a prefix as ours: two lines, the machine and the directory of its owner.
const MARK: &str = "made-by-blobwise";
/// The only bucket of a private server.
const PRIVATE_BUCKET: &str = "store";
const LOOPBACK: &str = "127.0.0.1";
/// File with our prefix in the user's bucket, for reopening.
const NAME_FILE: &str = "prefix";

pub(super) struct S3Server {
    serving: S3Process,
    pub(super) version: String,
    pub(super) access: BucketAccess,
}

impl S3Server {
    pub(super) fn start(setup: &Setup) -> Result<S3Server> {
        let product = S3Product::from_options(setup.options);
        let program = product.program().find()?;
        // Made once, even if several ports turn out to be taken.
        let certificate = product.certificate(setup)?;
        on_free_port(|port| S3Server::start_on(port, setup, product, &program, certificate.as_ref()))
    }

    fn start_on(
        port: u16,
        setup: &Setup,
        product: S3Product,
        program: &InstalledProgram,
        certificate: Option<&Certificate>,
    ) -> Result<S3Server> {
        let (key, secret) = (password()?, password()?);
        let reach = GatewayAccess { port, key: &key, secret: &secret };
        let mut serving = product.start(setup, &program.path, certificate, &reach)?;
        let host = if is_virtual_host(setup.options) { PRIVATE_DOMAIN } else { LOOPBACK };
        let url = buffer::parse(&format!("http://{host}:{port}/{PRIVATE_BUCKET}"), "S3")?;
        // No resolver needs to know the name of the bucket's host.
        let at = Some(Address::Host(LOOPBACK.to_owned(), port));
        let access = access(&url, at, Credentials::new(key, secret), setup)?;
        serving.wait_until_ready(|| Ok(S3Client::new(&access).knows_us()?))?;
        if setup.mode == Mode::Create {
            S3Client::new(&access).create_bucket()?;
        }
        Ok(S3Server { serving, version: product.version(&program.version), access })
    }

    pub(super) fn servers(&self) -> Vec<&Server> {
        self.serving.servers()
    }

    pub(super) fn stop(self) -> Result<()> {
        self.serving.stop()
    }
}

/// What another process needs to reach the same bucket, keys included.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct JoinedBucket {
    /// URL of the server with the bucket as its path.
    url: String,
    address: Address,
    key: String,
    secret: String,
    token: Option<String>,
}

impl JoinedBucket {
    pub(super) fn from_access(access: &BucketAccess) -> JoinedBucket {
        let BucketAccess { server, endpoint, bucket, credentials, .. } = access;
        JoinedBucket {
            url: format!("{server}{}", bucket.name()),
            address: endpoint.address.clone(),
            key: credentials.key().to_owned(),
            secret: credentials.secret().to_owned(),
            token: credentials.token().map(str::to_owned),
        }
    }

    pub(super) fn access(self, setup: &Setup) -> Result<BucketAccess> {
        let JoinedBucket { url, address, key, secret, token } = self;
        [Some(&secret), token.as_ref()]
            .into_iter()
            .flatten()
            .for_each(|secret| crate::redact::remember_secret(secret));
        let credentials = match token {
            Some(token) => Credentials::new_with_token(key, secret, token),
            None => Credentials::new(key, secret),
        };
        access(&buffer::parse(&url, "S3")?, Some(address), credentials, setup)
    }
}

/// Access to the bucket that a URL names, through the server at the address `at` if there is one, whatever the URL's host is.
fn access(url: &Url, at: Option<Address>, credentials: Credentials, setup: &Setup) -> Result<BucketAccess> {
    let shown = crate::redact::without_passwords(url.as_str());
    let is_virtual = is_virtual_host(setup.options);
    let Some((server, name)) = named(url, is_virtual) else {
        bail!(
            "`{shown}` does not name one bucket: https://HOST/BUCKET is what is needed, or https://BUCKET.HOST with --set \
             s3.style=virtual-host"
        )
    };
    ensure!(
        !is_virtual || server.domain().is_some(),
        "`{shown}` is an address, before which no bucket can stand: name the server by its name, or leave out s3.style=virtual-host"
    );
    let style = if is_virtual { UrlStyle::VirtualHost } else { UrlStyle::Path };
    let region = setup.options.text("region").to_owned();
    let bucket = Bucket::new(server.clone(), style, name, region)
        .with_context(|| format!("`{shown}` is not a URL of S3"))?;
    let mut endpoint = endpoint(bucket.base_url())?;
    if let Some(at) = at {
        endpoint.address = at;
    }
    let checksum = Checksum::from_options(setup.options);
    Ok(BucketAccess { server, endpoint, bucket, checksum, credentials, timeout: setup.op_timeout })
}

fn endpoint(url: &Url) -> Result<Endpoint> {
    let address = Address::from_url(url, url.scheme(), url.port_or_known_default().unwrap_or(80))?;
    Ok(Endpoint {
        address,
        tls: if url.scheme() == "https" { Some(trust_in(native_certificates()?)?) } else { None },
    })
}

/// Access to the user's bucket, with keys from the environment.
pub(super) fn access_to(text: &str, setup: &Setup) -> Result<BucketAccess> {
    let url = buffer::parse(text, "S3")?;
    let shown = crate::redact::without_passwords(text);
    ensure!(
        ["http", "https"].contains(&url.scheme()),
        "`{shown}` begins with neither `https://` nor `http://`"
    );
    if !url.username().is_empty() || url.password().is_some() {
        bail!(
            "`{shown}` has keys in it; they are taken from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY only"
        );
    }
    let keys = Credentials::from_env().ok_or_else(|| {
        Error::Failed(anyhow!("no keys: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not both set"))
    })?;
    [Some(keys.secret()), keys.token()].into_iter().flatten().for_each(crate::redact::remember_secret);
    access(&url, None, keys, setup)
}

/// Creates a marked prefix for a store in the user's bucket, after checking what is permitted there. Refuses buckets from which
/// objects could not be removed again.
pub(super) fn create_prefix(
    client: &mut S3Client,
    setup: &Setup,
    check: impl FnOnce(&mut S3Client, &str) -> Result<()>,
) -> Result<String> {
    // A name like those of databases, in the spelling of buckets.
    let prefix = format!("{}/", own_name().replace('_', "-"));
    check(client, &prefix)?;
    check_versions(client, &prefix)?;
    if setup.blob_bytes_max > setup.options.number("multipart") {
        check_uploads(client, &prefix, setup.blob_bytes_max)?;
    }
    remove_stale(client)?;
    let Owner { machine, dir: used_by } = Owner::for_dir(setup.dir);
    std::fs::write(setup.dir.join(NAME_FILE), &prefix)?;
    let (mark, probe) = (format!("{prefix}{MARK}"), format!("{prefix}probe"));
    let put = client.put(&mark, format!("{machine}\n{used_by}\n").as_bytes());
    // A server that does not check the permission for deleting a missing object checks it here. It is not the mark that is deleted:
    // a run that was killed then would leave versions without a mark.
    let probed = put.and_then(|()| client.put(&probe, b"")).and_then(|()| {
        explained(
            client.delete(&probe),
            "the bucket takes objects and does not delete them",
            "allow s3:DeleteObject",
        )
    });
    match probed {
        Ok(()) => Ok(prefix),
        Err(why) => Err(match remove_prefix(client, &prefix) {
            Ok(()) => why,
            Err(left) => Error::Failed(anyhow!("{why}; {left}")),
        }),
    }
}

/// Refuses a bucket that keeps deleted objects, unless its versions can be listed and deleted too.
fn check_versions(client: &mut S3Client, prefix: &str) -> Result<()> {
    let versioning = explained(
        client.versioning(),
        "it cannot be told whether the bucket keeps what is deleted (GetBucketVersioning)",
        "allow s3:GetBucketVersioning",
    )?;
    let Some(versioning) = versioning else { return Ok(()) };
    let keeps = format!("the bucket keeps what is replaced and deleted (versioning {})", versioning.state);
    const NO_VERSIONS: &str = "or name a bucket without versions";
    ensure!(
        !versioning.needs_code,
        "{keeps}, and deletes a version only with a code of its owner's device (MFA delete), so that nothing is put there: \
             switch MFA delete off, {NO_VERSIONS}"
    );
    let locks = explained(
        client.locks(),
        &format!(
            "{keeps}, and it cannot be told whether new objects are locked (GetObjectLockConfiguration)"
        ),
        &format!("allow s3:GetBucketObjectLockConfiguration, {NO_VERSIONS}"),
    )?;
    if let Some(locks) = locks {
        bail!(
            "new objects of the bucket are locked (Object Lock: {locks}) and could not be removed, so that nothing is put there: name \
             a bucket without a default retention"
        );
    }
    if let Some(bucket) = client.replicated_to(prefix)? {
        bail!(
            "the bucket is replicated to `{bucket}`, where versions stay that are deleted here, so that nothing is put there: leave \
             `{OURS}*` out of the rule, {NO_VERSIONS}"
        );
    }
    // Deletes a missing version: a server that lacks the permission says so, and nothing is deleted.
    let kind = ListEntryKind::Version("null".to_owned());
    let none = ListEntry { name: format!("{prefix}{MARK}"), bytes: 0, kind };
    explained(
        client.versions(prefix).map(drop).and_then(|()| client.remove(&none)),
        &format!("{keeps}, and its versions may not be listed and deleted"),
        &format!("allow s3:ListBucketVersions and s3:DeleteObjectVersion, {NO_VERSIONS}"),
    )
}

/// Adds consequence and remedy to an error caused by a missing permission or an unsupported request. Wrong keys, a missing bucket
/// and a busy server explain themselves.
fn explained<T>(outcome: Result<T>, means: &str, way_out: &str) -> Result<T> {
    outcome.map_err(|error| match &error {
        Error::Failed(refused) if refused.downcast_ref::<S3Error>().is_some_and(S3Error::is_denied) => {
            Error::Failed(anyhow!("{means}, so that nothing is put there: {refused}; {way_out}"))
        }
        _ => error,
    })
}

/// Refuses a bucket in which an unfinished multipart upload could not be found or aborted.
fn check_uploads(client: &mut S3Client, prefix: &str, largest: u64) -> Result<()> {
    let kind = ListEntryKind::Upload("none".to_owned());
    let none = ListEntry { name: format!("{prefix}{MARK}"), bytes: 0, kind };
    let outcome = client.uploads(prefix).map(drop).and_then(|()| match client.remove(&none) {
        // Servers report a missing upload in different ways.
        Err(Error::Failed(error)) if error.downcast_ref().is_some_and(is_no_upload) => Ok(()),
        outcome => outcome,
    });
    explained(
        outcome,
        "an upload in parts that is broken off could not be aborted (ListMultipartUploads, AbortMultipartUpload)",
        &format!(
            "allow s3:ListBucketMultipartUploads and s3:AbortMultipartUpload, or put each blob in one request: --set s3.multipart={}MiB",
            largest.div_ceil(1 << 20).max(5)
        ),
    )
}

/// True if the upload is missing or its id is invalid.
fn is_no_upload(refused: &S3Error) -> bool {
    [400, 404].contains(&refused.status)
}

/// Finds the prefix again after the store was closed.
pub(super) fn find_prefix(client: &mut S3Client, dir: &Path, external: bool) -> Result<String> {
    if !external {
        return Ok(String::new());
    }
    let prefix = std::fs::read_to_string(dir.join(NAME_FILE)).context("the name of our prefix is lost")?;
    match owner(client, &prefix)? {
        Some(_) => Ok(prefix),
        None => Err(Error::Failed(anyhow!("`{prefix}` does not carry our mark; it is left alone"))),
    }
}

/// The owner of these objects; `None` without our mark.
fn owner(client: &mut S3Client, prefix: &str) -> Result<Option<Owner>> {
    let mut mark = Vec::new();
    let found =
        client.get(&format!("{prefix}{MARK}"), Span::Whole, &mut |piece| mark.extend_from_slice(piece))?;
    let text = String::from_utf8_lossy(&mark);
    let mut lines = text.lines().map(str::to_owned);
    Ok(match (found, lines.next(), lines.next()) {
        (true, Some(machine), Some(dir)) => Some(Owner { machine, dir }),
        _ => None,
    })
}

/// Removes everything below a prefix. The mark is removed last, so that a partial removal can be found and finished.
pub(super) fn remove_prefix(client: &mut S3Client, prefix: &str) -> Result<()> {
    /// A request that timed out may still be executed.
    const PASSES_MAX: u32 = 3;
    let mark = format!("{prefix}{MARK}");
    for _ in 0..PASSES_MAX {
        let (marks, others): (Vec<_>, Vec<_>) =
            everything(client, prefix)?.into_iter().partition(|listed| listed.name == mark);
        let is_last = others.is_empty();
        remove_listed(client, prefix, if is_last { marks } else { others })?;
        if is_last {
            return Ok(());
        }
    }
    let left = everything(client, prefix)?;
    let why = || Error::Failed(anyhow!("the server lists it again after it was removed"));
    left_over(client, prefix, &left.into_iter().map(|listed| (listed, why())).collect::<Vec<_>>())
}

/// Lists everything below a prefix that is to be removed; tries again as the removal does.
fn everything(client: &mut S3Client, prefix: &str) -> Result<Vec<ListEntry>> {
    let mut listed = Vec::new();
    let all = ListEntry { name: prefix.to_owned(), bytes: 0, kind: ListEntryKind::Object };
    let left = remove_each([all], client.patience(), |_| {
        listed = client.everything(prefix)?;
        Ok(())
    });
    left_over(client, prefix, &left)?;
    Ok(listed)
}

fn remove_listed(client: &mut S3Client, prefix: &str, listed: Vec<ListEntry>) -> Result<()> {
    let left = remove_each(listed, client.patience(), |listed| client.remove(listed));
    left_over(client, prefix, &left)
}

/// An error if something is left, with the command that removes it.
fn left_over(client: &S3Client, prefix: &str, left: &[(ListEntry, Error)]) -> Result<()> {
    let (bucket, endpoint) = client.bucket();
    let aws = |command: String| format!("aws --endpoint-url {endpoint} {command}");
    none_left(left, |_| {
        let is_version = |(listed, _): &(ListEntry, Error)| matches!(listed.kind, ListEntryKind::Version(_));
        let mut commands = vec![match left.iter().any(is_version) {
            true => aws(format!(
                "s3api delete-objects --bucket {bucket} --delete \"$({})\"",
                aws(format!(
                    "s3api list-object-versions --bucket {bucket} --prefix {prefix} --output json --query '{{Objects: [Versions, \
                     DeleteMarkers][].{{Key: Key, VersionId: VersionId}}}}'"
                ))
            )),
            false => aws(format!("s3 rm --recursive s3://{bucket}/{prefix}")),
        }];
        commands.extend(left.iter().filter_map(|(listed, _)| match &listed.kind {
            ListEntryKind::Upload(id) => Some(aws(format!(
                "s3api abort-multipart-upload --bucket {bucket} --key {} --upload-id {id}",
                listed.name
            ))),
            _ => None,
        }));
        commands.join("; ")
    })
}

/// Removes the leftovers of killed runs: those with our mark whose owner is certainly gone.
fn remove_stale(client: &mut S3Client) -> Result<()> {
    let mut outcome = Ok(());
    for prefix in client.directories(OURS)? {
        if owner(client, &prefix)?.is_some_and(|owner| owner.is_gone()) {
            outcome = outcome.and(remove_prefix(client, &prefix));
        }
    }
    outcome
}
