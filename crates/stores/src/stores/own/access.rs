//! One connection to a store of the user's own, by HTTP or Redis's protocol.

use std::time::Duration;

use anyhow::{Context, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use url::Position;

use super::manifest::{Protocol, SyncRequest};
use crate::redact::without_passwords;
use crate::store::*;
use crate::wire::buffer::{Address, parse};
use crate::wire::http::{BLOB_TYPE, HttpRequest, HttpResponse};
use crate::wire::http1::{ConnectionMode, Endpoint, HttpConnection};
use crate::wire::redis::{Login, RedisClient, RedisReply, command_line, parse_url};

/// What a session needs to reach the store.
#[derive(Clone)]
pub(super) struct StoreAccess {
    speaks: Protocol,
    address: Address,
    /// For Redis's protocol.
    login: Login,
    /// Header lines of every request.
    headers: String,
    host: String,
    /// What the path of every request begins with, the slash before the key included.
    path: String,
    timeout: Duration,
}

impl StoreAccess {
    /// A private server, which asks for no login.
    pub(super) fn private(speaks: Protocol, address: Address, timeout: Duration) -> StoreAccess {
        let host = match &address {
            Address::Socket(_) => "localhost".to_owned(),
            Address::Host(name, port) | Address::Secure(name, port, _) => format!("{name}:{port}"),
        };
        StoreAccess {
            speaks,
            address,
            login: Login::default(),
            headers: String::new(),
            host,
            path: "/".to_owned(),
            timeout,
        }
    }

    /// The user's server: `http://[USER:PASSWORD@]HOST[:PORT]/PATH`, `http+unix:///SOCKET`, or a URL of Redis.
    pub(super) fn of_url(speaks: Protocol, url: &str, timeout: Duration) -> Result<StoreAccess> {
        if speaks == Protocol::Redis {
            let (address, login) = parse_url(url)?;
            return Ok(StoreAccess { login, ..StoreAccess::private(speaks, address, timeout) });
        }
        let shown = without_passwords(url);
        let parsed = parse(url, "a store that speaks HTTP")?;
        ensure!(
            parsed.scheme() != "https",
            "`{shown}` asks for TLS, which blobwise does not speak to own stores by HTTP; name the service by loopback, a socket \
             or a tunnel"
        );
        ensure!(
            parsed.query().is_none() && parsed.fragment().is_none(),
            "`{shown}` has a query or a fragment, and keys are put behind its path"
        );
        let address = Address::from_url(&parsed, "http", 80)?;
        let mut access = StoreAccess::private(speaks, address, timeout);
        if let Address::Host(..) = access.address {
            access.path = format!("{}/", parsed.path().trim_end_matches('/'));
            access.host = parsed[Position::BeforeHost..Position::AfterPort].to_owned();
        }
        if !parsed.username().is_empty() {
            let decoded = |text: &str| percent_encoding::percent_decode_str(text).collect::<Vec<u8>>();
            let mut login = decoded(parsed.username());
            login.push(b':');
            login.extend(decoded(parsed.password().unwrap_or_default()));
            access.headers = format!("Authorization: Basic {}\r\n", BASE64.encode(login));
        }
        Ok(access)
    }

    /// What is negotiated of TLS, as a fact; `None` by HTTP, which has none here.
    pub(super) fn tls(&self) -> Result<Option<String>> {
        Ok(match self.connect()? {
            StoreClient::Http(_) => None,
            StoreClient::Redis(redis) => Some(redis.tls(self.address.tls_mode())),
        })
    }

    /// The beginning of the command that deletes a key, for an administrator to run; without a password.
    pub(super) fn delete_by_hand(&self) -> String {
        match (self.speaks, &self.address) {
            (Protocol::Redis, address) => format!("{} DEL ", command_line(address, self.login.database)),
            (Protocol::Http, Address::Socket(path)) => {
                format!("curl --unix-socket {} -X DELETE http://localhost{}", path.display(), self.path)
            }
            (Protocol::Http, _) => format!("curl -X DELETE http://{}{}", self.host, self.path),
        }
    }

    pub(super) fn connect(&self) -> Result<StoreClient> {
        Ok(match self.speaks {
            Protocol::Http => {
                let mut http = HttpClient::new(self.clone());
                http.connection.connect()?;
                StoreClient::Http(Box::new(http))
            }
            Protocol::Redis => {
                StoreClient::Redis(RedisClient::connect(&self.address, &self.login, self.timeout)?)
            }
        })
    }
}

/// Refuses a URL that does not name a store of this protocol. Connects to nothing.
pub(super) fn check_url(speaks: Protocol, url: &str) -> anyhow::Result<()> {
    StoreAccess::of_url(speaks, url, Duration::ZERO).map(drop).context("`url`")
}

pub(super) enum StoreClient {
    Http(Box<HttpClient>),
    Redis(RedisClient),
}

impl StoreClient {
    pub(super) fn put(&mut self, prefix: &str, key: &Key, blob: &[u8]) -> Result<()> {
        match self {
            StoreClient::Http(http) => http.put(&[prefix, key.as_str()], blob),
            StoreClient::Redis(redis) => redis.put(prefix, key, blob),
        }
    }

    pub(super) fn get(&mut self, prefix: &str, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        // Lengths of both protocols' servers are often signed, and neither can ask for an empty range.
        let range = match span {
            Span::Whole => None,
            Span::Part { .. } => Some(span.below(i64::MAX as u64)),
        };
        match (self, range) {
            (StoreClient::Http(http), Some((_, 0))) => http.exists(&[prefix, key.as_str()]),
            (StoreClient::Http(http), range) => http.get(&[prefix, key.as_str()], range, sink),
            (StoreClient::Redis(redis), None) => redis.get(prefix, key, sink),
            (StoreClient::Redis(redis), Some((_, 0))) => redis.exists(prefix, key),
            (StoreClient::Redis(redis), Some((offset, len))) => {
                redis.get_range(prefix, key, offset, len, sink)
            }
        }
    }

    pub(super) fn delete(&mut self, prefix: &str, key: &Key) -> Result<()> {
        match self {
            StoreClient::Http(http) => http.delete(&[prefix, key.as_str()]),
            StoreClient::Redis(redis) => redis.delete(prefix, std::slice::from_ref(key)),
        }
    }

    /// Sends the request that makes earlier writes durable.
    pub(super) fn sync(&mut self, request: &SyncRequest) -> Result<()> {
        match (self, request) {
            (StoreClient::Http(http), SyncRequest::Http(method, path)) => http.sync(method, path),
            (StoreClient::Redis(redis), SyncRequest::Redis(words)) => {
                let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
                redis.ask(&words).map(drop)
            }
            _ => Err(Error::Unsupported("a sync in another protocol")),
        }
    }

    /// The value of a key that is no blob; `None` if it is missing.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self {
            StoreClient::Http(http) => {
                let mut bytes = Vec::new();
                let found = http.get(&[name], None, &mut |piece| bytes.extend_from_slice(piece))?;
                Ok(found.then(|| String::from_utf8_lossy(&bytes).into_owned()))
            }
            StoreClient::Redis(redis) => Ok(match redis.ask(&[b"GET", name.as_bytes()])? {
                RedisReply::Nothing => None,
                reply => Some(reply.text()),
            }),
        }
    }

    pub(super) fn put_text(&mut self, name: &str, text: &str) -> Result<()> {
        match self {
            StoreClient::Http(http) => http.put(&[name], text.as_bytes()),
            StoreClient::Redis(redis) => redis.ask(&[b"SET", name.as_bytes(), text.as_bytes()]).map(drop),
        }
    }

    pub(super) fn delete_text(&mut self, name: &str) -> Result<()> {
        match self {
            StoreClient::Http(http) => http.delete(&[name]),
            StoreClient::Redis(redis) => redis.ask(&[b"DEL", name.as_bytes()]).map(drop),
        }
    }

    /// Number of repeated requests since the last call.
    pub(super) fn take_repeats(&mut self) -> u64 {
        match self {
            StoreClient::Http(http) => http.connection.take_repeats(),
            StoreClient::Redis(_) => 0,
        }
    }
}

/// HTTP/1.1 over one connection.
pub(super) struct HttpClient {
    access: StoreAccess,
    connection: HttpConnection,
    /// Path and headers of the last request, reused as buffers for the next one.
    path: String,
    headers: String,
}

impl HttpClient {
    fn new(access: StoreAccess) -> HttpClient {
        let kept = ConnectionMode::kept(access.timeout);
        let manners = ConnectionMode { acknowledge_at_once: true, repeat: true, ..kept };
        let endpoint = Endpoint { address: access.address.clone(), tls: None };
        let connection = HttpConnection::new(endpoint, manners);
        HttpClient { access, connection, path: String::new(), headers: String::new() }
    }

    /// Sends a request for a key, whose name is given in parts.
    fn ask(
        &mut self,
        method: &'static str,
        key: &[&str],
        range: Option<(u64, u64)>,
        body: Option<&[u8]>,
        sink: Sink,
    ) -> Result<HttpResponse> {
        self.path.clear();
        self.path.push_str(&self.access.path);
        key.iter().for_each(|part| self.path.push_str(part));
        self.headers.clear();
        self.headers.push_str(&self.access.headers);
        if let Some((offset, len)) = range {
            self.headers += &format!("Range: bytes={offset}-{}\r\n", offset + len - 1);
        }
        if body.is_some() {
            self.headers += &format!("Content-Type: {BLOB_TYPE}\r\n");
        }
        let (host, path, headers) = (&*self.access.host, &*self.path, &*self.headers);
        let request = HttpRequest { method, host, path, headers, body };
        self.connection.until_served(described, |connection| connection.ask(&request, sink))
    }

    fn put(&mut self, key: &[&str], blob: &[u8]) -> Result<()> {
        let answer = self.ask("PUT", key, None, Some(blob), &mut |_| {})?;
        if answer.is_success() { Ok(()) } else { Err(refused("PUT", &answer)) }
    }

    fn get(&mut self, key: &[&str], range: Option<(u64, u64)>, sink: Sink) -> Result<bool> {
        let answer = self.ask("GET", key, range, None, sink)?;
        match (answer.status, range) {
            (200, None) | (206, Some(_)) => Ok(true),
            // The range begins after the end of the blob.
            (416, Some(_)) => Ok(true),
            // All of the blob is what was asked for: some servers leave the range out of an answer then.
            (200, Some((offset, len)))
                if answer.length().is_some_and(|all| all == 0 || offset == 0 && all <= len) =>
            {
                Ok(true)
            }
            (200, Some(_)) => Err(Error::Failed(anyhow!(
                "the store answers a request for a range with the whole blob; serve ranges (status 206), or write \
                 `ranges = false` into its manifest"
            ))),
            (404 | 410, _) => Ok(false),
            _ => Err(refused("GET", &answer)),
        }
    }

    fn exists(&mut self, key: &[&str]) -> Result<bool> {
        let answer = self.ask("HEAD", key, None, None, &mut |_| {})?;
        match answer.status {
            200 => Ok(true),
            404 | 410 => Ok(false),
            _ => Err(refused("HEAD", &answer)),
        }
    }

    fn delete(&mut self, key: &[&str]) -> Result<()> {
        let answer = self.ask("DELETE", key, None, None, &mut |_| {})?;
        if answer.is_success() || [404, 410].contains(&answer.status) {
            Ok(())
        } else {
            Err(refused("DELETE", &answer))
        }
    }

    fn sync(&mut self, method: &'static str, path: &str) -> Result<()> {
        let (host, headers) = (&*self.access.host, &*self.access.headers);
        // Without a length, some servers wait for a body of a POST.
        let body = (method != "GET").then_some(&b""[..]);
        let request = HttpRequest { method, host, path, headers, body };
        // To make the same writes durable again is harmless.
        let answer = self
            .connection
            .until_served(described, |connection| connection.ask_idempotent(&request, &mut |_| {}))?;
        if answer.is_success() { Ok(()) } else { Err(refused("the request of `sync`", &answer)) }
    }
}

/// The error of an unexpected response, with the way out where the status tells one.
fn refused(request: &str, answer: &HttpResponse) -> Error {
    let way_out = match answer.status {
        300..=399 => format!(
            "; blobwise follows no redirects: `url` must name where it leads, which is `{}`",
            answer.location
        ),
        401 | 407 => "; put user and password into `url`".to_owned(),
        413 => "; raise its limit (in nginx `client_max_body_size`), or use smaller blobs".to_owned(),
        _ => String::new(),
    };
    Error::Failed(anyhow!("the store answers {request} with `{}`{way_out}", described(answer)))
}

/// Status and body of a refusal.
fn described(answer: &HttpResponse) -> String {
    let said = String::from_utf8_lossy(&answer.refusal);
    format!("{} {}: {}", answer.status, answer.reason, said.trim())
}
