//! RESP2, the protocol of Redis and Valkey: blobs pass between the caller's memory and the kernel without a copy in between.
//!
//! Implemented here because the crate `redis` assembles a whole command in one buffer: a put of 100 MB took 135 ms of CPU time
//! and 191 MB of memory, where writing it needs neither (`bench/redis.rs`).

use std::io::{IoSlice, Write};
use std::time::Duration;

use anyhow::{Context, anyhow};

use super::buffer::{Address, Wire};
use super::tls::TlsMode;
use crate::store::*;

/// Login and database number for the user's server.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Login {
    /// User of the ACL; empty for the default user.
    pub user: String,
    /// Password; empty for none.
    pub password: String,
    /// Number of the database.
    pub database: u32,
}

/// A reply, read whole.
#[derive(Debug, PartialEq)]
pub enum RedisReply {
    /// A simple string such as `OK`.
    Status(String),
    /// An integer.
    Number(i64),
    /// A bulk string.
    Bytes(Vec<u8>),
    /// A null reply: no such key.
    Nothing,
    /// An array.
    Many(Vec<RedisReply>),
}

impl RedisReply {
    /// Strings and numbers as text.
    pub fn text(self) -> String {
        match self {
            RedisReply::Status(text) => text,
            RedisReply::Number(number) => number.to_string(),
            RedisReply::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            RedisReply::Nothing => String::new(),
            RedisReply::Many(replies) => {
                replies.into_iter().map(RedisReply::text).collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// The members of a list.
    pub fn members(self) -> Vec<String> {
        match self {
            RedisReply::Many(replies) => replies.into_iter().map(RedisReply::text).collect(),
            _ => Vec::new(),
        }
    }
}

/// Parses `redis://USER:PASSWORD@HOST:PORT/DATABASE`, `rediss://` with TLS, or `redis+unix:///SOCKET`.
pub fn parse_url(text: &str) -> Result<(Address, Login)> {
    let url = super::buffer::parse(text, "Redis or Valkey")?;
    let shown = crate::redact::without_passwords(text);
    let scheme = if url.scheme().starts_with("valkey") { "valkey" } else { "redis" };
    let address = Address::from_url(&url, scheme, 6379)?;
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let database = match &address {
        Address::Socket(_) => "",
        Address::Host(..) | Address::Secure(..) => url.path().trim_start_matches('/'),
    };
    let database = if database.is_empty() { "0" } else { database };
    let login = Login {
        user: decoded(url.username()),
        password: decoded(url.password().unwrap_or_default()),
        database: database
            .parse()
            .ok()
            .with_context(|| format!("`{shown}` ends with no number of a database"))?,
    };
    Ok((address, login))
}

/// The beginning of a command for `redis-cli` to this server and database, for an administrator to run; without a password.
pub(crate) fn command_line(address: &Address, database: u32) -> String {
    let server = match address {
        Address::Socket(path) => format!("-s {}", path.display()),
        Address::Host(host, port) => format!("-h {host} -p {port}"),
        Address::Secure(host, port, _) => format!("-h {host} -p {port} --tls"),
    };
    format!("redis-cli {server} -n {database}")
}

/// A connection, logged in, with its database selected.
pub struct RedisClient {
    wire: Wire,
    /// The current command, without its blobs.
    request: Vec<u8>,
}

impl RedisClient {
    /// Connects, logs in and selects the database. `timeout` is that of connecting, of a read and of a write.
    pub fn connect(address: &Address, login: &Login, timeout: Duration) -> Result<RedisClient> {
        let mut client = RedisClient::log_in(address, login, timeout)?;
        client.select(login)?;
        Ok(client)
    }

    /// Connects and logs in, without selecting a database.
    pub fn log_in(address: &Address, login: &Login, timeout: Duration) -> Result<RedisClient> {
        let mut client = RedisClient { wire: Wire::connect(address, timeout)?, request: Vec::new() };
        // A user without a password would be taken for the default user.
        if !login.password.is_empty() || !login.user.is_empty() {
            // Servers before version 6 have passwords only.
            let user = (!login.user.is_empty()).then_some(login.user.as_bytes());
            let words: Vec<&[u8]> =
                [b"AUTH".as_slice()].into_iter().chain(user).chain([login.password.as_bytes()]).collect();
            client.ask(&words)?;
        }
        Ok(client)
    }

    /// What was negotiated of TLS, as a fact; `mode` is what was asked for.
    pub fn tls(&self, mode: TlsMode) -> String {
        self.wire.tls(mode)
    }

    /// Selects the database that the URL names.
    pub fn select(&mut self, login: &Login) -> Result<()> {
        if login.database > 0 {
            self.ask(&[b"SELECT", login.database.to_string().as_bytes()])?;
        }
        Ok(())
    }

    /// Runs any command, for everything that is not timed.
    pub fn ask(&mut self, words: &[&[u8]]) -> Result<RedisReply> {
        self.begin(words.len());
        words.iter().for_each(|word| self.word(word));
        self.send()?;
        self.reply()
    }

    pub(crate) fn put(&mut self, prefix: &str, key: &Key, blob: &[u8]) -> Result<()> {
        self.begin(3);
        self.word(b"SET");
        self.key(prefix, key);
        write!(self.request, "${}\r\n", blob.len())?;
        self.wire.send(&mut [IoSlice::new(&self.request), IoSlice::new(blob), IoSlice::new(b"\r\n")])?;
        self.done()
    }

    /// One MSET, which the server executes atomically.
    pub fn put_many(&mut self, prefix: &str, blobs: &[(Key, &[u8])]) -> Result<()> {
        self.begin(1 + 2 * blobs.len());
        self.word(b"MSET");
        let mut ends = Vec::with_capacity(blobs.len());
        for (key, blob) in blobs {
            self.key(prefix, key);
            write!(self.request, "${}\r\n", blob.len())?;
            ends.push(self.request.len());
            self.request.extend_from_slice(b"\r\n");
        }
        let mut parts = Vec::with_capacity(1 + 2 * blobs.len());
        let mut begin = 0;
        for (end, (_, blob)) in ends.into_iter().zip(blobs) {
            parts.extend([IoSlice::new(&self.request[begin..end]), IoSlice::new(blob)]);
            begin = end;
        }
        parts.push(IoSlice::new(&self.request[begin..]));
        self.wire.send(&mut parts)?;
        self.done()
    }

    pub(crate) fn get(&mut self, prefix: &str, key: &Key, sink: Sink) -> Result<bool> {
        self.begin(2);
        self.word(b"GET");
        self.key(prefix, key);
        self.send()?;
        Ok(self.bytes(sink)?.is_some())
    }

    /// Reads `len` bytes from `offset`; `len` must be above 0.
    pub fn get_range(&mut self, prefix: &str, key: &Key, offset: u64, len: u64, sink: Sink) -> Result<bool> {
        self.begin(4);
        self.word(b"GETRANGE");
        self.key(prefix, key);
        self.word(offset.to_string().as_bytes());
        self.word((offset + len - 1).to_string().as_bytes());
        self.send()?;
        match self.bytes(sink)? {
            // A missing blob returns no bytes either.
            Some(0) | None => self.exists(prefix, key),
            Some(_) => Ok(true),
        }
    }

    pub(crate) fn exists(&mut self, prefix: &str, key: &Key) -> Result<bool> {
        self.begin(2);
        self.word(b"EXISTS");
        self.key(prefix, key);
        self.send()?;
        Ok(self.reply()? == RedisReply::Number(1))
    }

    /// Returns how many blobs were found.
    pub fn get_many(&mut self, prefix: &str, keys: &[Key], sink: ManySink) -> Result<usize> {
        self.begin(1 + keys.len());
        self.word(b"MGET");
        keys.iter().for_each(|key| self.key(prefix, key));
        self.send()?;
        let line = self.wire.line()?;
        if number_behind(line, b'*') != Some(keys.len() as i64) {
            return Err(of_op(line));
        }
        let mut found = 0;
        for index in 0..keys.len() {
            found += usize::from(self.bytes(&mut |piece| sink(index, piece))?.is_some());
        }
        Ok(found)
    }

    pub(crate) fn delete(&mut self, prefix: &str, keys: &[Key]) -> Result<()> {
        self.begin(1 + keys.len());
        self.word(b"DEL");
        keys.iter().for_each(|key| self.key(prefix, key));
        self.send()?;
        let line = self.wire.line()?;
        number_behind(line, b':').map(drop).ok_or_else(|| of_op(line))
    }

    /// Lists every matching key once.
    pub fn scan(&mut self, pattern: &str, each: &mut dyn FnMut(&str)) -> Result<()> {
        // While the server's table is resized, it may return a key twice.
        let mut seen = std::collections::HashSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let words: [&[u8]; 6] =
                [b"SCAN", cursor.as_bytes(), b"MATCH", pattern.as_bytes(), b"COUNT", b"1000"];
            let RedisReply::Many(answer) = self.ask(&words)? else {
                return Err(unexpected(b"no list of keys"));
            };
            let mut answer = answer.into_iter();
            cursor = answer.next().map(RedisReply::text).unwrap_or_default();
            for key in answer.next().map(RedisReply::members).unwrap_or_default() {
                if !seen.contains(&key) {
                    each(&key);
                    seen.insert(key);
                }
            }
            if cursor == "0" || cursor.is_empty() {
                return Ok(());
            }
        }
    }

    // ---- commands ------------------------------------------------------------------------------------------------

    /// Begins a command: a list of words, each preceded by its length.
    fn begin(&mut self, words: usize) {
        self.request.clear();
        self.head(b'*', words);
    }

    fn word(&mut self, word: &[u8]) {
        self.head(b'$', word.len());
        self.request.extend_from_slice(word);
        self.request.extend_from_slice(b"\r\n");
    }

    fn key(&mut self, prefix: &str, key: &Key) {
        self.head(b'$', prefix.len() + key.hex.len());
        self.request.extend_from_slice(prefix.as_bytes());
        self.request.extend_from_slice(&key.hex);
        self.request.extend_from_slice(b"\r\n");
    }

    fn head(&mut self, kind: u8, number: usize) {
        self.request.push(kind);
        self.request.extend_from_slice(number.to_string().as_bytes());
        self.request.extend_from_slice(b"\r\n");
    }

    fn send(&mut self) -> Result<()> {
        self.wire.send(&mut [IoSlice::new(&self.request)])
    }

    // ---- replies -------------------------------------------------------------------------------------------------

    fn done(&mut self) -> Result<()> {
        match self.wire.line()? {
            b"+OK" => Ok(()),
            other => Err(of_op(other)),
        }
    }

    /// Lends a bulk string and returns its length; `None` for nil.
    fn bytes(&mut self, sink: &mut dyn FnMut(&[u8])) -> Result<Option<u64>> {
        let line = self.wire.line()?;
        let bytes = number_behind(line, b'$').ok_or_else(|| of_op(line))?;
        let Ok(bytes) = u64::try_from(bytes) else { return Ok(None) };
        self.wire.lend(bytes, sink)?;
        self.wire.line_end()?;
        Ok(Some(bytes))
    }

    fn reply(&mut self) -> Result<RedisReply> {
        let line = self.wire.line()?;
        let text = || String::from_utf8_lossy(&line[1..]).into_owned();
        match (line.first(), line.first().and_then(|kind| number_behind(line, *kind))) {
            (Some(b'+'), _) => Ok(RedisReply::Status(text())),
            (Some(b':'), Some(number)) => Ok(RedisReply::Number(number)),
            (Some(b'$' | b'*'), Some(-1)) => Ok(RedisReply::Nothing),
            (Some(b'$'), Some(len)) => {
                let mut bytes = Vec::new();
                self.wire.lend(len.unsigned_abs(), &mut |piece| bytes.extend_from_slice(piece))?;
                self.wire.line_end()?;
                Ok(RedisReply::Bytes(bytes))
            }
            (Some(b'*'), Some(count)) => {
                (0..count).map(|_| self.reply()).collect::<Result<_>>().map(RedisReply::Many)
            }
            _ => Err(unexpected(line)),
        }
    }
}

/// Parses the number in `$12`, `:12` or `*12`.
fn number_behind(line: &[u8], kind: u8) -> Option<i64> {
    std::str::from_utf8(line.strip_prefix(&[kind])?).ok()?.parse().ok()
}

/// The server understood a command and refused it; its message.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the server says `{0}`{means}", means = meaning(.0))]
pub struct RedisError(pub String);

/// What a member of a cluster cannot be used for, and the way out.
pub(crate) const OF_A_CLUSTER: &str = "part of a cluster, whose keys lie on different machines, and blobwise asks only the one that it was \
                                       given: name a server with cluster-enabled no";

/// What a refusal means and what to do, as the end of an error; empty if the server's words are enough.
fn meaning(said: &str) -> String {
    let means = match said.split(' ').next().unwrap_or_default() {
        "MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN" => return format!(": it is {OF_A_CLUSTER}"),
        "READONLY" => "it is a replica: name its primary",
        "LOADING" => "it has just been started: try again when it has read its data",
        "BUSY" => "a script of another client's runs there: try again when it has ended",
        "NOAUTH" => "put user and password into its URL",
        "OOM" => "its memory is used up: raise maxmemory, or use a smaller --corpus-bytes",
        _ if said.contains("max number of clients") => "raise maxclients, or use fewer --workers",
        _ => return String::new(),
    };
    format!(": {means}")
}

/// What a user lacks the permission for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeniedPermission {
    /// For the command.
    Command,
    /// For the key.
    Key,
}

impl RedisError {
    /// True if the login failed, which is not a matter of permissions.
    pub fn is_of_login(&self) -> bool {
        ["NOAUTH", "WRONGPASS"].iter().any(|code| self.0.starts_with(code))
    }

    /// True if a cluster keeps the key elsewhere, or nowhere.
    pub(crate) fn is_of_cluster(&self) -> bool {
        ["MOVED ", "ASK ", "CROSSSLOT", "CLUSTERDOWN"].iter().any(|code| self.0.starts_with(code))
    }

    /// True if the server refuses every command for a while: it reads its data, runs a script, or waits for its primary.
    pub(crate) fn may_pass(&self) -> bool {
        ["LOADING ", "BUSY ", "TRYAGAIN", "MASTERDOWN"].iter().any(|code| self.0.starts_with(code))
    }

    /// True if the server has no such command: it was renamed, or a proxy does not pass it on.
    pub(crate) fn is_unknown_command(&self) -> bool {
        self.0.to_ascii_lowercase().starts_with("err unknown command")
    }

    /// The missing permission, if that is the reason.
    pub fn denied(&self) -> Option<DeniedPermission> {
        let why = self.0.strip_prefix("NOPERM")?;
        Some(if why.contains("permissions to access") {
            DeniedPermission::Key
        } else {
            DeniedPermission::Command
        })
    }
}

/// As [`unexpected`], for an op, which is tried again where the refusal may pass.
fn of_op(line: &[u8]) -> Error {
    match unexpected(line) {
        Error::Failed(error) if error.downcast_ref().is_some_and(RedisError::may_pass) => Error::Busy,
        error => error,
    }
}

/// An error of the server begins with a minus; anything else violates the protocol.
fn unexpected(line: &[u8]) -> Error {
    let text = String::from_utf8_lossy(line);
    match text.strip_prefix('-') {
        Some(why) => Error::Failed(RedisError(why.to_owned()).into()),
        None => Error::Failed(anyhow!("`{text}` is no answer of Redis or Valkey")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_server_login_and_database() {
        let (address, login) = parse_url("redis://me:p%40ss@db.example:7000/3").unwrap();
        assert!(matches!(address, Address::Host(name, 7000) if name == "db.example"));
        assert_eq!((login.user.as_str(), login.password.as_str(), login.database), ("me", "p@ss", 3));
        let (address, login) = parse_url("redis+unix:///run/redis.sock").unwrap();
        assert!(matches!(address, Address::Socket(path) if path == std::path::Path::new("/run/redis.sock")));
        assert_eq!(login.database, 0);
        for (url, mode) in [
            ("rediss://h:1/2", TlsMode::VerifyFull),
            ("valkeys://h?ssl_ca_certs=/a.pem", TlsMode::VerifyFull),
            ("rediss://h?ssl_check_hostname=false", TlsMode::VerifyCa),
            ("rediss://h/2?ssl_cert_reqs=none&ssl_check_hostname=false", TlsMode::Require),
        ] {
            assert_eq!(parse_url(url).unwrap().0.tls_mode(), mode, "{url}");
        }
        for (url, why) in [
            ("rediss://h?sslmode=require", "cannot be used"),
            ("redis://h?ssl_cert_reqs=required", "begins with `rediss://`"),
            ("redis://", "names no host"),
            ("http://h", "does not begin with `redis://`"),
            ("redis://h/x", "no number of a database"),
        ] {
            let said = parse_url(url).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains(why), "{url}: {said}");
        }
    }

    #[test]
    fn numbers_are_read_behind_their_kind() {
        assert_eq!(number_behind(b"$12", b'$'), Some(12));
        assert_eq!(number_behind(b"$-1", b'$'), Some(-1));
        assert_eq!(number_behind(b":12", b'$'), None);
        assert_eq!(number_behind(b"$1x", b'$'), None);
    }

    #[test]
    fn errors_of_the_server_are_told_in_its_words() {
        let said = unexpected(b"-WRONGPASS invalid").to_string();
        assert_eq!(said, "the server says `WRONGPASS invalid`");
        for (line, means) in [
            ("-MOVED 7 10.0.0.1:7001", "name a server with cluster-enabled no"),
            ("-READONLY You can't write against a read only replica.", "name its primary"),
            ("-LOADING Redis is loading the dataset in memory", "when it has read its data"),
            ("-ERR max number of clients reached", "use fewer --workers"),
        ] {
            let said = unexpected(line.as_bytes()).to_string();
            assert!(
                said.starts_with(&format!("the server says `{}`: ", &line[1..])) && said.ends_with(means),
                "{said}"
            );
        }
        assert!(matches!(of_op(b"-LOADING Redis is loading the dataset in memory"), Error::Busy));
        assert!(matches!(of_op(b"-OOM command not allowed"), Error::Failed(_)));
        assert!(unexpected(b"HTTP/1.1 400 Bad Request").to_string().contains("no answer of Redis"));
    }
}
