//! The manifest of a store of the user's own: read and checked as a whole before anything is started.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Table;

use super::access::check_url;
use crate::host::server::Program;
use crate::input::read_text;
use crate::store::{Durability, Kind, Loss, Losses};
use crate::suggest::{of_toml, of_toml_table, unknown};

/// Maximum size of a manifest in bytes.
const MANIFEST_BYTES_MAX: u64 = 100_000;

/// The keys of a manifest.
const KEYS: &[&str] =
    &["name", "speaks", "kind", "command", "url", "ranges", "checksums", "sync", "durability", "loss"];

/// What a store may be.
const KINDS: &[&str] = &["server", "cache", "null"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// GET, PUT, DELETE and HEAD of `/KEY`.
    Http,
    /// SET, GET, GETRANGE, EXISTS and DEL.
    Redis,
}

/// The request that makes all earlier writes durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SyncRequest {
    /// Method and path.
    Http(&'static str, String),
    /// The words of a command.
    Redis(Vec<String>),
}

/// How a private server is told where it listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listens {
    OnSocket,
    OnPort,
}

/// The command that starts a private server.
#[derive(Clone, Debug)]
pub(super) struct StartCommand {
    pub(super) program: Program,
    /// Arguments, with placeholders.
    pub(super) arguments: Vec<String>,
    pub(super) listens: Listens,
}

/// A checked manifest.
#[derive(Debug)]
pub(super) struct Manifest {
    /// The path by which the user named it.
    pub(super) file: &'static str,
    /// The directory that it lies in, where its command runs.
    pub(super) dir: PathBuf,
    /// Everything in it but the URL, on one line.
    pub(super) text: &'static str,
    pub(super) name: String,
    pub(super) speaks: Protocol,
    pub(super) kind: Kind,
    /// True if a part of a blob can be read.
    pub(super) ranges: bool,
    /// True if a byte that changed on the device is an error of a read; `None` if that is not declared.
    pub(super) checksums: Option<bool>,
    /// `None` if the store is reached by its URL.
    pub(super) command: Option<StartCommand>,
    /// Empty if the store is started.
    pub(super) url: &'static str,
    pub(super) sync: Option<SyncRequest>,
    /// What a class adds to the command.
    added: BTreeMap<Durability, Vec<String>>,
    loss: BTreeMap<Durability, Losses>,
}

impl Manifest {
    /// Reads the manifest that the user named.
    pub(super) fn read(file: &Path) -> Result<Manifest> {
        let name = file.to_str().context("its path is not text")?;
        // A label has its options in brackets, and commas between candidates.
        let is_odd = |c: char| c.is_control() || "[],`".contains(c);
        ensure!(!name.contains(is_odd), "its path must have no brackets, commas or control characters");
        let text = read_text(file, MANIFEST_BYTES_MAX)?;
        let dir = std::path::absolute(file)?.parent().map(Path::to_owned).unwrap_or_default();
        Manifest::parse(name, dir, &text)
    }

    /// Checks the text of a manifest whose command runs in `dir`.
    fn parse(file: &str, dir: PathBuf, text: &str) -> Result<Manifest> {
        let mut table: Table = toml::from_str(text).map_err(|error| of_toml(text, &error))?;
        check_keys("key", table.keys(), KEYS)?;
        let url: String = taken(&mut table, "url")?.unwrap_or_default();
        let shown = serde_json::to_string(&table)?;
        let name: String = taken(&mut table, "name")?.context("it has no `name`")?;
        ensure!(is_word(&name), "`name = {name:?}` must be letters, digits, `-` and `_`, at most 40 of them");
        let speaks: Option<String> = taken(&mut table, "speaks")?;
        let speaks = speaks.context("it has no `speaks`: write speaks = \"http\" or speaks = \"redis\"")?;
        let speaks = protocol(&speaks)?;
        let words: Option<Vec<String>> = taken(&mut table, "command")?;
        let added = by_class(&mut table, "durability")?;
        let manifest = Manifest {
            file: file.to_owned().leak(),
            text: shown.leak(),
            name,
            speaks,
            kind: kind(taken::<String>(&mut table, "kind")?.as_deref())?,
            ranges: taken(&mut table, "ranges")?.unwrap_or(true),
            checksums: taken(&mut table, "checksums")?,
            sync: taken::<String>(&mut table, "sync")?.map(|text| sync(speaks, &text)).transpose()?,
            loss: losses(&mut table)?,
            command: words.map(|words| command(words, &dir, &added)).transpose()?,
            url: url.leak(),
            added,
            dir,
        };
        manifest.check()?;
        Ok(manifest)
    }

    /// Checks what depends on more than one key.
    fn check(&self) -> Result<()> {
        match (&self.command, self.url) {
            (None, "") => bail!("it has neither a `command` that starts the store nor the `url` of one"),
            (Some(_), "") => {}
            (Some(_), _) => bail!("it has a `command` and a `url`; leave one of the two out"),
            (None, url) => {
                check_url(self.speaks, url)?;
                ensure!(
                    self.added.is_empty(),
                    "`[durability]` adds arguments to a `command`, and a store at a `url` has none"
                );
            }
        }
        let has_dir = |command: &StartCommand| {
            command
                .arguments
                .iter()
                .chain(self.added.values().flatten())
                .any(|argument| argument.contains(DIR))
        };
        ensure!(
            self.kind != Kind::Server || self.command.as_ref().is_none_or(has_dir),
            "`command` has no {DIR}, which tells a store of `kind = \"server\"` where to keep its files"
        );
        let is_unsynced = self.added.contains_key(&Durability::OnSync) && self.sync.is_none();
        ensure!(!is_unsynced, "class on-sync needs a `sync`, such as sync = \"POST /sync\"");
        let others = self.loss.keys().find(|class| !self.classes().contains(class));
        if let Some(class) = others {
            bail!(
                "`[loss.{0}]`: the store has no class {0}; on-sync needs `sync`, and each-write a line in `[durability]`",
                class.name()
            );
        }
        Ok(())
    }

    pub(super) fn classes(&self) -> &'static [Durability] {
        use Durability::{EachWrite, None, OnSync};
        match (self.sync.is_some(), self.added.contains_key(&EachWrite)) {
            (true, true) => Durability::ALL,
            (true, false) => &[None, OnSync],
            (false, true) => &[None, EachWrite],
            (false, false) => &[None],
        }
    }

    /// What a class adds to the command.
    pub(super) fn added(&self, class: Durability) -> &[String] {
        self.added.get(&class).map(Vec::as_slice).unwrap_or_default()
    }

    /// What a crash costs in a class, if it is declared.
    pub(super) fn loss(&self, class: Durability) -> Option<Losses> {
        self.loss.get(&class).copied()
    }

    /// True if it is a place where files live, and keeps them when it is stopped.
    pub(super) fn is_persistent(&self) -> bool {
        self.kind == Kind::Server
    }
}

/// The value of a key, which is removed; `None` if it is missing.
fn taken<T: DeserializeOwned>(table: &mut Table, key: &str) -> Result<Option<T>> {
    let Some(value) = table.remove(key) else { return Ok(None) };
    let read: std::result::Result<T, toml::de::Error> = value.try_into();
    read.map(Some).map_err(|error| of_toml_table(&error).context(format!("`{key}`")))
}

/// A table with a value for some of the classes.
fn by_class<T: DeserializeOwned>(table: &mut Table, key: &str) -> Result<BTreeMap<Durability, T>> {
    let mut of_classes: Table = taken(table, key)?.unwrap_or_default();
    let names: Vec<&str> = Durability::ALL.iter().map(|class| class.name()).collect();
    check_keys("durability class", of_classes.keys(), &names).with_context(|| format!("`[{key}]`"))?;
    let mut values = BTreeMap::new();
    for class in Durability::ALL {
        let value = taken(&mut of_classes, class.name()).with_context(|| format!("`[{key}]`"))?;
        values.extend(value.map(|value| (*class, value)));
    }
    Ok(values)
}

/// The losses of a class, as a manifest declares them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredLosses {
    after_kill: Loss,
    after_power_cut: Loss,
}

fn losses(table: &mut Table) -> Result<BTreeMap<Durability, Losses>> {
    let declared: BTreeMap<Durability, DeclaredLosses> = by_class(table, "loss")?;
    let losses = declared.into_iter().map(|(class, DeclaredLosses { after_kill, after_power_cut })| {
        (class, Losses { after_kill, after_power_cut })
    });
    Ok(losses.collect())
}

fn check_keys<'k>(what: &str, keys: impl Iterator<Item = &'k String>, known: &[&str]) -> Result<()> {
    let mut others = keys.filter(|key| !known.contains(&key.as_str()));
    others.next().map_or(Ok(()), |key| Err(unknown(what, key, known.iter().copied())))
}

fn protocol(text: &str) -> Result<Protocol> {
    const HTTP: &str = "http";
    const REDIS: &str = "redis";
    match text {
        HTTP => Ok(Protocol::Http),
        REDIS => Ok(Protocol::Redis),
        other => Err(unknown("protocol", other, [HTTP, REDIS])).context("`speaks`"),
    }
}

/// A cache unless the manifest says more: only a place where files live is ranked as one.
fn kind(text: Option<&str>) -> Result<Kind> {
    match text {
        Some("server") => Ok(Kind::Server),
        Some("cache") | None => Ok(Kind::Cache),
        Some("null") => Ok(Kind::Baseline),
        Some(other) => Err(unknown("kind of store", other, KINDS.iter().copied())).context("`kind`"),
    }
}

/// The request of `sync`, in the words of the protocol.
fn sync(speaks: Protocol, text: &str) -> Result<SyncRequest> {
    const METHODS: [&str; 3] = ["POST", "PUT", "GET"];
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    match (speaks, words.as_slice()) {
        (Protocol::Redis, [_, ..]) => {
            Ok(SyncRequest::Redis(words.iter().map(|word| (*word).to_owned()).collect()))
        }
        (Protocol::Http, [method, path]) if path.starts_with('/') && path.chars().all(is_of_path) => {
            let method = METHODS.into_iter().find(|known| known == method);
            let method = method.with_context(|| format!("`sync` must be one of {}", METHODS.join(", ")))?;
            Ok(SyncRequest::Http(method, (*path).to_owned()))
        }
        (Protocol::Http, _) => bail!("`sync = {text:?}` must be a method and a path, such as \"POST /sync\""),
        (Protocol::Redis, _) => bail!("`sync` is empty; write a command, or leave it out"),
    }
}

fn is_of_path(c: char) -> bool {
    c.is_ascii_graphic()
}

/// True for a name that may stand in a message and name a file.
fn is_word(name: &str) -> bool {
    (1..=40).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

// ---- the command -----------------------------------------------------------------------------------------------------

/// The directory for the store's files.
const DIR: &str = "{dir}";
/// The Unix socket that it listens on.
const SOCKET: &str = "{socket}";
/// The loopback port that it listens on.
const PORT: &str = "{port}";

/// Checks the words of a command, and those that classes add to it.
fn command(
    words: Vec<String>,
    dir: &Path,
    added: &BTreeMap<Durability, Vec<String>>,
) -> Result<StartCommand> {
    let mut words = words.into_iter();
    let name = words.next().filter(|name| !name.is_empty()).context("`command` is empty")?;
    ensure!(!name.contains(['*', '{']), "`command` must begin with a program, and `{name}` is a pattern");
    let arguments: Vec<String> = words.collect();
    for argument in arguments.iter().chain(added.values().flatten()) {
        check_argument(argument)?;
    }
    let has = |placeholder: &str| arguments.iter().any(|argument| argument.contains(placeholder));
    let listens = match (has(SOCKET), has(PORT)) {
        (true, false) => Listens::OnSocket,
        (false, true) => Listens::OnPort,
        (true, true) => {
            bail!("`command` has {SOCKET} and {PORT}; leave {PORT} out, because others reach a port")
        }
        (false, false) => {
            bail!("`command` has no {SOCKET}, by which blobwise tells the store where to listen")
        }
    };
    // Of a path, the part before it is that of the manifest, wherever blobwise runs.
    let path = if name.contains('/') { dir.join(&name) } else { PathBuf::from(&name) };
    let path: &'static str =
        path.to_str().context("the path of its directory is not text")?.to_owned().leak();
    let program = Program::plain(path, &[], "", "a package of your system");
    Ok(StartCommand { program, arguments, listens })
}

/// Refuses unknown placeholders, and paths that lead out of the directory that a placeholder stands for.
fn check_argument(argument: &str) -> Result<()> {
    ensure!(!argument.contains('\0'), "an argument of `command` has a zero byte");
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = argument;
    while let Some((_, behind)) = rest.split_once('{') {
        if let Some((name, _)) = behind.split_once('}')
            && !name.is_empty()
            && name.chars().all(is_name)
        {
            ensure!(
                [DIR, SOCKET, PORT].contains(&format!("{{{name}}}").as_str()),
                "`{argument}`: no placeholder is called `{{{name}}}`; there are {DIR}, {SOCKET} and {PORT}"
            );
            let leads_up = argument.split('/').any(|part| part == "..");
            ensure!(!leads_up, "`{argument}` leads out of the store's directory by `..`");
        }
        rest = behind;
    }
    Ok(())
}

/// An argument with the values of its placeholders.
pub(super) fn filled(argument: &str, dir: &str, socket: &str, port: u16) -> String {
    // Last the directory, whose path may have braces.
    argument.replace(SOCKET, socket).replace(PORT, &port.to_string()).replace(DIR, dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        name = "mystore"
        speaks = "http"
        kind = "server"
        command = ["python3", "mystore.py", "--dir", "{dir}", "--socket={socket}"]
        sync = "POST /sync"
        [durability]
        each-write = ["--fsync"]
        [loss.each-write]
        after_kill = "nothing"
        after_power_cut = "nothing"
    "#;

    fn parsed(text: &str) -> Result<Manifest> {
        Manifest::parse("mystore.toml", PathBuf::from("/here"), text)
    }

    #[test]
    fn a_manifest_declares_classes_and_losses() {
        let manifest = parsed(GOOD).unwrap();
        assert_eq!(manifest.classes(), Durability::ALL);
        assert_eq!(manifest.added(Durability::EachWrite), ["--fsync"]);
        assert_eq!(manifest.loss(Durability::EachWrite), Some(Losses::alike(Loss::Nothing)));
        assert_eq!(manifest.loss(Durability::None), None);
        assert_eq!(manifest.sync, Some(SyncRequest::Http("POST", "/sync".to_owned())));
        let command = manifest.command.unwrap();
        assert_eq!(command.listens, Listens::OnSocket);
        assert_eq!(filled(&command.arguments[3], "/d", "/s/s", 0), "--socket=/s/s");
    }

    #[test]
    fn a_url_and_its_password_are_no_part_of_the_text() {
        let text = "name = \"x\"\nspeaks = \"redis\"\nurl = \"redis://:secret@localhost/3\"";
        let manifest = parsed(text).unwrap();
        assert_eq!(manifest.text, r#"{"name":"x","speaks":"redis"}"#);
        assert_eq!((manifest.url, manifest.kind), ("redis://:secret@localhost/3", Kind::Cache));
        assert_eq!(manifest.classes(), [Durability::None]);
    }

    #[test]
    fn a_program_with_a_path_lies_beside_its_manifest() {
        let program = |name: &str| {
            parsed(&GOOD.replace("python3", name)).unwrap().command.map(|command| command.program.name)
        };
        assert_eq!(program("python3"), Some("python3"));
        assert_eq!(program("./mystore"), Some("/here/./mystore"));
        assert_eq!(program("/usr/bin/python3"), Some("/usr/bin/python3"));
    }

    #[test]
    fn what_a_manifest_cannot_be_is_told() {
        let changed = |from: &str, to: &str| GOOD.replacen(from, to, 1);
        let url = "url = \"http://localhost/\"\nsync = ";
        for (text, why) in [
            ("name = ".to_owned(), "line 1: "),
            (changed("command", "comand"), "no key is called `comand`; did you mean `command`?"),
            (changed("\"http\"", "\"ftp\""), "no protocol is called `ftp`"),
            (changed("speaks = \"http\"", ""), "it has no `speaks`"),
            (changed("\"server\"", "\"servers\""), "no kind of store is called `servers`"),
            (changed("name = \"mystore\"", "name = \"../x\""), "must be letters, digits"),
            (changed("command = [\"python3\", ", "# "), "neither a `command`"),
            (changed("sync = ", url), "has a `command` and a `url`"),
            (
                changed("\"python3\", \"mystore.py\", \"--dir\", \"{dir}\", \"--socket={socket}\"", ""),
                "is empty",
            ),
            (changed("\"python3\"", "7"), "`command`: "),
            (changed("python3", "py*"), "is a pattern"),
            (changed("--socket={socket}", "x"), "has no {socket}"),
            (changed("mystore.py", "{port}"), "has {socket} and {port}"),
            (changed("{dir}", "x"), "has no {dir}"),
            (changed("{dir}", "{home}"), "no placeholder is called `{home}`"),
            (changed("{dir}", "{dir}/../../x"), "leads out of the store's directory"),
            (changed("\"--fsync\"", "\"{socket}/../x\""), "leads out of the store's directory"),
            (changed("POST /sync", "PATCH /sync"), "must be one of POST, PUT, GET"),
            (changed("POST /sync", "POST /a /b"), "must be a method and a path"),
            (changed("[durability]", "[durability]\nalways = []"), "no durability class is called `always`"),
            (changed("each-write = [\"--fsync\"]", ""), "the store has no class each-write"),
            (
                changed("sync = \"POST /sync\"", "").replace("each-write", "on-sync"),
                "class on-sync needs a `sync`",
            ),
            (changed("after_kill", "after_kil"), "did you mean `after_kill`?"),
            (changed("\"nothing\"", "\"none\""), "no key or value is called `none`"),
        ] {
            let said = parsed(&text).map_or_else(|error| format!("{error:#}"), |_| "nothing".to_owned());
            assert!(said.contains(why), "{text}: {said}");
        }
    }

    #[test]
    fn a_url_is_one_of_its_protocol() {
        let said = |speaks: &str, url: &str| {
            let text = format!("name = \"x\"\nspeaks = \"{speaks}\"\nurl = \"{url}\"");
            parsed(&text).map_or_else(|error| format!("{error:#}"), |_| "good".to_owned())
        };
        assert_eq!(said("http", "http://me:secret@localhost:8080/blobs"), "good");
        assert_eq!(said("http", "http+unix:///run/s"), "good");
        assert!(said("http", "https://host/").contains("asks for TLS"));
        assert!(said("http", "http://host/?a=b").contains("a query or a fragment"));
        assert!(said("http", "redis://host").contains("does not begin with `http://`"));
        assert!(said("redis", "http://host").contains("does not begin with `redis://`"));
    }
}
