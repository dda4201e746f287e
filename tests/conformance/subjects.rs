//! What is tried: every adapter of the table in every class it promises, and each of its options changed one at a time, but for
//! HTTP/2, which is tried over TLS as well, and libraries of PHP, each with every way of asking.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use blobwise::store::{
    Adapter, Caps, Clients, Connects, Durability, Kind, Losses, OptionSpec, Options, Traits, Values,
};
use blobwise::units::parse_bytes;
use blobwise::{plan, stores};

use crate::outside;

/// A store with its settings in one durability class.
#[derive(Debug)]
pub struct Subject {
    /// Such as `sqlite/each-write` or `sqlite[page_size=512]/on-sync`.
    pub name: String,
    pub adapter: &'static Adapter,
    pub options: Options,
    pub durability: Durability,
    /// All options as a careful user would leave them, whichever program its server is.
    pub plain: bool,
}

impl Subject {
    pub fn new(
        adapter: &'static Adapter,
        changed: &[(&str, &str)],
        durability: Durability,
    ) -> Result<Subject> {
        let mut values = BTreeMap::new();
        for spec in adapter.options {
            let given = changed.iter().find(|(name, _)| *name == spec.name).map(|(_, value)| *value);
            values.insert(spec.name.to_owned(), value_of(spec, given.unwrap_or(spec.default))?);
        }
        let label: Vec<String> = changed.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let label = if label.is_empty() { String::new() } else { format!("[{}]", label.join(",")) };
        Ok(Subject {
            name: format!("{}{label}/{}", adapter.name, durability.name()),
            adapter,
            options: Options::new(values),
            durability,
            plain: changed.iter().all(|(name, _)| names_the_server(adapter, name)),
        })
    }

    pub fn caps(&self) -> Caps {
        (self.adapter.caps)(&self.options)
    }

    pub fn loss(&self) -> Losses {
        (self.adapter.loss)(&self.options, self.durability)
    }

    pub fn traits(&self) -> Traits {
        (self.adapter.traits)(&self.options)
    }

    pub fn is_server(&self) -> bool {
        is_server(self.adapter)
    }

    /// Whether other processes may open sessions with it; nothing where each would have a store of its own, and of options that
    /// change nothing about it.
    pub fn invites(&self) -> Option<bool> {
        let clients = self.caps().clients;
        if !self.plain && clients == (self.adapter.caps)(&plan::defaults(self.adapter)).clients {
            return None;
        }
        match clients {
            Clients::Each => None,
            Clients::One(_) => Some(false),
            Clients::ServerBut(durability, _) => {
                Some(durability != self.durability).filter(|invites| *invites)
            }
            Clients::Server | Clients::Directory => Some(true),
        }
    }

    /// Whether an op takes some 10 ms of the processor.
    pub fn is_slow(&self) -> bool {
        self.family() == "ferretdb"
    }

    /// Whether a check makes fewer ops with it: each takes milliseconds of the processor, as does a new connection to PostgreSQL.
    pub fn gets_few_ops(&self) -> bool {
        self.is_slow() || self.connects_each_op()
    }

    /// Whether its server is started for the strongest class alone, but for what a class may change: its ops are slow, or its start is
    /// and another server has all classes of the same adapter (MariaDB, which starts in a fraction of MySQL's seconds).
    pub fn is_tried_in_one_class(&self) -> bool {
        self.is_slow() || self.family() == "mysql"
    }

    /// Whether it is tried what each class changes. A server that is tried in one class has one setting for all its candidates: one
    /// of them is enough.
    pub fn shows_classes(&self) -> bool {
        !self.is_tried_in_one_class() || ["ferretdb/document", "mysql/blob"].contains(&self.adapter.name)
    }

    /// Whether every op connects anew, which is the caller's part.
    pub fn connects_each_op(&self) -> bool {
        self.traits().connects == Connects::EachOp
    }

    pub fn has_option(&self, name: &str) -> bool {
        self.adapter.options.iter().any(|spec| spec.name == name)
    }

    /// Stores that share a server's program.
    pub fn family(&self) -> &'static str {
        stores::family(self.adapter.name)
    }
}

/// Whether an option says which program a store's server is.
fn names_the_server(adapter: &Adapter, option: &str) -> bool {
    adapter.options.iter().any(|spec| spec.name == option && spec.names_the_server())
}

/// Whether there is a process behind a store.
pub fn is_server(adapter: &Adapter) -> bool {
    (adapter.traits)(&plan::defaults(adapter)).has_process
}

/// A value as adapters read it: sizes are plain bytes.
fn value_of(spec: &OptionSpec, value: &str) -> Result<String> {
    match spec.values {
        Values::Bytes { .. } => Ok(parse_bytes(value)?.to_string()),
        _ => Ok(value.to_owned()),
    }
}

/// Every subject there is, in the order of the table.
pub fn all() -> Result<Vec<Arc<Subject>>> {
    let mut subjects = Vec::new();
    // A get of a page is a load in a browser, of which the checks would need thousands: `tests/page.rs` has its own.
    for adapter in stores::adapters().filter(|adapter| stores::family(adapter.name) != "page") {
        let mut of_adapter = of(adapter)?;
        subjects.append(&mut of_adapter);
    }
    Ok(subjects)
}

fn of(adapter: &'static Adapter) -> Result<Vec<Arc<Subject>>> {
    let strongest = outside::strongest(adapter, &Subject::new(adapter, &[], Durability::None)?.options)?;
    // Options are tried in one class: on-sync, or what comes nearest of those that are left with them.
    let tried = |changed: &[(&str, &str)]| {
        let any = Subject::new(adapter, changed, Durability::None)?;
        let most = strongest.min(Durability::OnSync);
        let offered = any.caps().durability.iter().rfind(|class| **class <= most);
        Subject::new(adapter, changed, *offered.context("no class that is at most on-sync")?)
    };
    let defaults = tried(&[])?;
    let mut subjects = Vec::new();
    // The class of what is composed is that of the store behind, which is tried in each for itself.
    let class = defaults.durability;
    let in_each = if adapter.kind == Kind::Web { &[class] } else { defaults.caps().durability };
    for durability in in_each.iter().filter(|class| **class <= strongest) {
        subjects.push(Arc::new(Subject::new(adapter, &[], *durability)?));
    }
    // A server that shows no class does not show how it compresses either: `marks` tries that it is refused.
    let is_shown = |spec: &&OptionSpec| spec.name != "compression" || strongest > Durability::None;
    // How a web server is asked is its own affair, whatever PHP does behind it.
    let is_tried = |spec: &&OptionSpec| {
        let is_behind = adapter.name.contains("-php/") && !adapter.name.ends_with("/readfile");
        !(is_behind && ["http", "keepalive", "tls"].contains(&spec.name))
    };
    for spec in adapter.options.iter().filter(is_shown).filter(is_tried) {
        for value in other_values(adapter, spec) {
            subjects.push(Arc::new(tried(&[(spec.name, value)])?));
        }
    }
    // One of each kind of server, by another number of processes than it would have chosen.
    if ["nginx", "apache", "lighttpd", "nginx-php/readfile"].contains(&adapter.name) {
        subjects.push(Arc::new(tried(&[("workers", "3")])?));
    }
    // Of one that can be had.
    if adapter.name == "postgres/bytea" {
        subjects.push(Arc::new(tried(&[("version", "18"), ("io_method", "sync")])?));
    }
    // Over TLS a protocol is agreed to in another way than without it.
    let asked: Vec<&str> = adapter.options.iter().filter(is_tried).map(|spec| spec.name).collect();
    if ["http", "tls"].iter().all(|name| asked.contains(name)) {
        subjects.push(Arc::new(tried(&[("http", "2"), ("tls", "true")])?));
    }
    // What one library of PHP does with every way of asking, the other one must do too, by whichever web server.
    let ways = adapter.options.iter().find(|spec| spec.name == "driver");
    if let Some(spec) = ways.filter(|_| stores::family(adapter.name) == "nginx-php") {
        let ways = [("protocol", "text"), ("protocol", "procedure"), ("connection", "per-op")];
        for driver in other_values(adapter, spec) {
            for way in ways {
                subjects.push(Arc::new(tried(&[("driver", driver), way])?));
            }
        }
    }
    Ok(subjects)
}

/// The values of an option other than its default: all words, and both flags. Of a list of sizes a server is tried with the
/// smallest and the largest, because each costs a start; numbers without a list are not varied.
fn other_values(adapter: &Adapter, spec: &OptionSpec) -> Vec<&'static str> {
    let mut values = match spec.values {
        Values::OneOf(words) | Values::Server(words) => words.to_vec(),
        Values::Flag => vec!["true", "false"],
        Values::Integer { .. }
        | Values::Decimal { .. }
        | Values::Bytes { .. }
        | Values::Word
        | Values::FileSystem
        | Values::Url => Vec::new(),
    };
    let is_size = |word: &&str| word.parse::<u64>().is_ok();
    if is_server(adapter) && values.iter().filter(|word| is_size(word)).count() > 2 {
        let sizes: Vec<&'static str> = values.iter().copied().filter(is_size).collect();
        values.retain(|word| !is_size(word) || sizes.first() == Some(word) || sizes.last() == Some(word));
    }
    // Refused by releases that do not have it; and a release that is the installed one is tried anyway.
    values.retain(|word| spec.name != "io_method" && (spec.name, *word) != ("version", "15"));
    // A server that candidates share ends with the process of the run: nobody opens its stores afterwards. Plans try it.
    values.retain(|word| *word != spec.default && (spec.name, *word) != ("server", "shared"));
    values
}
