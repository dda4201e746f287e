//! The server behind S3's candidate: a private one, or objects with a prefix of our own in a bucket of the user's.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use rustls::ClientConfig;
use rusty_s3::{Bucket, Credentials, UrlStyle};
use url::Url;

use super::super::web::Certificate;
use super::client::{Access, Client, endpoint_of};
use super::gateway::Reach;
use super::product::{Product, Serving};
use crate::host::server::{Found, Server, password};
use crate::store::*;
use crate::stores::common::servers::{Owner, on_free_port, own_name};
use crate::wire::buffer::{self, Address};
use crate::wire::http1::{Endpoint, trust_in};

/// What our prefixes in a bucket of the user's begin with.
pub(super) const OURS: &str = "blobwise-";
/// The object that marks a prefix as ours: two lines, the machine and the directory that uses it.
const MARK: &str = "made-by-blobwise";
/// The one bucket of a private server.
const PRIVATE_BUCKET: &str = "store";
/// Where our prefix in a user's bucket is kept between closing and opening.
const NAME_FILE: &str = "prefix";

/// A private server.
pub(super) struct Instance {
    serving: Serving,
    pub(super) version: String,
    pub(super) access: Access,
}

impl Instance {
    pub(super) fn start(setup: &Setup) -> Result<Instance> {
        let product = Product::of(setup.options);
        let program = product.program().find()?;
        // Once, however often a port turns out to be taken.
        let certificate = product.certificate(setup)?;
        on_free_port(|port| Instance::start_on(port, setup, product, &program, certificate.as_ref()))
    }

    fn start_on(
        port: u16,
        setup: &Setup,
        product: Product,
        program: &Found,
        certificate: Option<&Certificate>,
    ) -> Result<Instance> {
        let (key, secret) = (password()?, password()?);
        let reach = Reach { port, key: &key, secret: &secret };
        let mut serving = product.start(setup, &program.path, certificate, &reach)?;
        let url = format!("http://127.0.0.1:{port}/{PRIVATE_BUCKET}");
        let url = buffer::parse(&url, "S3")?;
        let access = access(&url, Credentials::new(key, secret), setup)?;
        serving.wait_until_ready(|| Ok(Client::new(&access).knows_us()?))?;
        if setup.mode == Mode::Create {
            Client::new(&access).create_bucket()?;
        }
        Ok(Instance { serving, version: product.version(&program.version), access })
    }

    pub(super) fn servers(&self) -> Vec<&Server> {
        self.serving.servers()
    }

    pub(super) fn stop(self) -> Result<()> {
        self.serving.stop()
    }
}

/// How another process reaches the same bucket, with the keys.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Way {
    url: String,
    key: String,
    secret: String,
    token: Option<String>,
}

impl Way {
    pub(super) fn of(access: &Access) -> Way {
        let Access { bucket, credentials, .. } = access;
        Way {
            url: bucket.base_url().to_string(),
            key: credentials.key().to_owned(),
            secret: credentials.secret().to_owned(),
            token: credentials.token().map(str::to_owned),
        }
    }

    pub(super) fn access(self, setup: &Setup) -> Result<Access> {
        let Way { url, key, secret, token } = self;
        [Some(&secret), token.as_ref()]
            .into_iter()
            .flatten()
            .for_each(|secret| crate::shown::remember_secret(secret));
        let credentials = match token {
            Some(token) => Credentials::new_with_token(key, secret, token),
            None => Credentials::new(key, secret),
        };
        access(&buffer::parse(&url, "S3")?, credentials, setup)
    }
}

/// How to reach the bucket that a URL names.
fn access(url: &Url, credentials: Credentials, setup: &Setup) -> Result<Access> {
    let shown = crate::shown::without_passwords(url.as_str());
    let name = url.path().trim_matches('/').to_owned();
    if name.is_empty() || name.contains('/') {
        return Err(Error::Failed(anyhow!(
            "`{shown}` does not name one bucket: https://HOST/BUCKET is what is needed"
        )));
    }
    let region = setup.options.text("region").to_owned();
    let bucket = Bucket::new(endpoint_of(url), UrlStyle::Path, name, region)
        .with_context(|| format!("`{shown}` is not a URL of S3"))?;
    Ok(Access { endpoint: endpoint(url)?, bucket, credentials, timeout: setup.op_timeout })
}

fn endpoint(url: &Url) -> Result<Endpoint> {
    let address = Address::of(url, url.scheme(), url.port_or_known_default().unwrap_or(80))?;
    Ok(Endpoint { address, tls: if url.scheme() == "https" { Some(trust()?) } else { None } })
}

/// The authorities that this machine trusts, or those of the file that `SSL_CERT_FILE` names.
fn trust() -> Result<Arc<ClientConfig>> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(Error::Failed(anyhow!(
            "no authority for certificates is trusted here ({}); SSL_CERT_FILE names a file of them",
            errors.join("; ")
        )));
    }
    trust_in(found.certs)
}

/// How to reach a bucket of the user's, with keys from the environment.
pub(super) fn access_to(text: &str, setup: &Setup) -> Result<Access> {
    let url = buffer::parse(text, "S3")?;
    let shown = crate::shown::without_passwords(text);
    if !["http", "https"].contains(&url.scheme()) {
        return Err(Error::Failed(anyhow!("`{shown}` begins with neither `https://` nor `http://`")));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::Failed(anyhow!(
            "`{shown}` has keys in it; they are taken from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY only"
        )));
    }
    let keys = Credentials::from_env().ok_or_else(|| {
        Error::Failed(anyhow!("no keys: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not both set"))
    })?;
    [Some(keys.secret()), keys.token()].into_iter().flatten().for_each(crate::shown::remember_secret);
    access(&url, keys, setup)
}

/// A prefix with our mark, for a store in a bucket of the user's, which is asked first what may be done there.
pub(super) fn create_prefix(
    client: &mut Client,
    dir: &Path,
    check: impl FnOnce(&mut Client, &str) -> Result<()>,
) -> Result<String> {
    // A name like those of databases, as buckets spell theirs.
    let prefix = format!("{}/", own_name().replace('_', "-"));
    check(client, &prefix)?;
    remove_stale(client)?;
    let Owner { machine, dir: used_by } = Owner::of(dir);
    let (mark, words) = (format!("{prefix}{MARK}"), format!("{machine}\n{used_by}\n"));
    client.put(&mark, words.as_bytes())?;
    // A server that need not look whether it may delete what is not there does so here.
    client.delete(&mark).map_err(|error| {
        let bytes = words.len();
        anyhow!("the bucket takes objects and does not delete them ({error}); `{mark}` ({bytes} B) stays there, for its owner to delete")
    })?;
    client.put(&mark, words.as_bytes())?;
    std::fs::write(dir.join(NAME_FILE), &prefix)?;
    Ok(prefix)
}

/// Finds the prefix again after the store was closed.
pub(super) fn find_prefix(client: &mut Client, dir: &Path, external: bool) -> Result<String> {
    if !external {
        return Ok(String::new());
    }
    let prefix = std::fs::read_to_string(dir.join(NAME_FILE)).context("the name of our prefix is lost")?;
    match owner(client, &prefix)? {
        Some(_) => Ok(prefix),
        None => Err(Error::Failed(anyhow!("`{prefix}` does not carry our mark; it is left alone"))),
    }
}

/// Whose objects these are; `None` for ones without our mark.
fn owner(client: &mut Client, prefix: &str) -> Result<Option<Owner>> {
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

/// Removes all objects of a prefix, and the mark last: whoever finds it finds what is left.
pub(super) fn remove_prefix(client: &mut Client, prefix: &str) -> Result<()> {
    let mark = format!("{prefix}{MARK}");
    let mut names = Vec::new();
    client.list(prefix, &mut |object| names.push(object.name))?;
    names.retain(|name| *name != mark);
    names.push(mark);
    names.iter().try_for_each(|name| client.delete(name))
}

/// Removes what runs left behind when they were killed: marked, and their owner is surely gone.
fn remove_stale(client: &mut Client) -> Result<()> {
    for prefix in client.directories(OURS)? {
        if owner(client, &prefix)?.is_some_and(|owner| owner.is_gone()) {
            remove_prefix(client, &prefix)?;
        }
    }
    Ok(())
}
