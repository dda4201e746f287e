//! The subjects: every adapter in every class that it promises, and with each of its options changed: one at a time, or several at once
//! where a server takes seconds to start or another candidate of it has them one by one.

use std::collections::BTreeMap;
#[cfg(feature = "own")]
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use blobwise::conformance::subject::Subject;
use blobwise::store::{Adapter, Durability, Kind, OptionSpec, Options, Values};
use blobwise::stores;
use blobwise::units::parse_bytes;

use crate::outside;

/// A store with some options changed, in one durability class.
pub fn subject(
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
        is_weaker: false,
        is_outside: outside::is_outside(adapter),
        is_slow: stores::family(adapter.name) == "ferretdb",
        open: outside::open,
    })
}

/// True if its server is started for the strongest class only, unless its flushes are looked at: its ops are slow, or its
/// start is slow and another server covers all classes of the same adapter (MariaDB, which starts in a fraction of MySQL's
/// time).
pub fn is_tried_in_one_class(subject: &Subject) -> bool {
    subject.is_slow || subject.family() == "mysql"
}

/// True if a backup is tested with it. It takes two starts of a server, so one class is enough, unless another class is backed up
/// in another way.
pub fn shows_its_backup(subject: &Subject) -> bool {
    !subject.is_server()
        || subject.durability == Durability::OnSync
        || ["redis", "valkey"].contains(&subject.family()) && subject.durability == Durability::None
}

/// True if what all candidates of a server have in common, such as its processes, is tested with it.
pub fn stands_for_its_server(adapter: &Adapter) -> bool {
    const STAND_FOR_OTHERS: [&str; 5] =
        ["ferretdb/document", "mariadb/blob", "mongodb/document", "mysql/blob", "postgres/bytea"];
    let databases = STAND_FOR_OTHERS.map(stores::family);
    STAND_FOR_OTHERS.contains(&adapter.name) || !databases.contains(&stores::family(adapter.name))
}

/// True if an option selects the program of a store's server.
fn names_the_server(adapter: &Adapter, option: &str) -> bool {
    adapter.options.iter().any(|spec| spec.name == option && spec.names_the_server())
}

/// Converts a value to the form that adapters read: sizes become plain bytes.
fn value_of(spec: &OptionSpec, value: &str) -> Result<String> {
    match spec.values {
        Values::Bytes { .. } => Ok(parse_bytes(value)?.to_string()),
        _ => Ok(value.to_owned()),
    }
}

/// All subjects in the order of the table.
pub fn all() -> Result<Vec<Arc<Subject>>> {
    let mut subjects = Vec::new();
    // A get of a page is a load in a browser, and the checks would need thousands: `tests/page.rs` has its own checks.
    for adapter in stores::adapters().filter(|adapter| stores::family(adapter.name) != "page") {
        let mut of_adapter = subjects_of(adapter)?;
        subjects.append(&mut of_adapter);
    }
    #[cfg(feature = "own")]
    subjects.append(&mut own()?);
    Ok(subjects)
}

/// The example of a store of the user's own, in its weakest and its strongest class.
#[cfg(feature = "own")]
fn own() -> Result<Vec<Arc<Subject>>> {
    const EXAMPLE: &str = "examples/own-store/mystore.toml";
    // Other processes of the checks work in directories of their own.
    let adapter = stores::own::adapter(&Path::new(env!("CARGO_MANIFEST_DIR")).join(EXAMPLE))?;
    let mut subjects = Vec::new();
    for class in [Durability::None, Durability::EachWrite] {
        let name = format!("{}{EXAMPLE}/{}", stores::OWN, class.name());
        subjects.push(Arc::new(Subject { name, ..subject(adapter, &[], class)? }));
    }
    Ok(subjects)
}

fn subjects_of(adapter: &'static Adapter) -> Result<Vec<Arc<Subject>>> {
    let strongest = outside::strongest(adapter, &subject(adapter, &[], Durability::None)?.options)?;
    // Options are tested in one class: on-sync, or the nearest one that is available with them.
    let tried = |changed: &[(&str, &str)]| {
        let any = subject(adapter, changed, Durability::None)?;
        let most = strongest.min(Durability::OnSync);
        let offered = any.caps().durability.iter().rfind(|class| **class <= most);
        subject(adapter, changed, *offered.context("no class that is at most on-sync")?)
    };
    let defaults = tried(&[])?;
    let mut subjects = Vec::new();
    // A composed store has the class of the store behind it, which is itself tested in each.
    let class = defaults.durability;
    let in_each = if adapter.kind == Kind::Web { &[class] } else { defaults.caps().durability };
    let tested = || in_each.iter().filter(|class| **class <= strongest);
    for durability in tested() {
        let is_weaker = tested().any(|other| other > durability);
        subjects.push(Arc::new(Subject { is_weaker, ..subject(adapter, &[], *durability)? }));
    }
    // A server that proves no durability class proves no compression either: `marks` tests that it is refused.
    let is_shown = |spec: &&OptionSpec| spec.name != "compression" || strongest > Durability::None;
    // What cannot depend on the rest of a candidate is tried with one: access to a web server with one script behind it, what a
    // script does and how it connects with one web server, and connections to a database and its settings with one kind of tables.
    let is_tried = |spec: &&OptionSpec| match spec.name {
        "http" | "keepalive" | "tls" if adapter.kind == Kind::Web => {
            !adapter.name.contains("-php/") || adapter.name.ends_with("/readfile")
        }
        "connection" | "driver" | "protocol" | "timed" if adapter.kind == Kind::Web => {
            !adapter.name.starts_with("apache-php/")
        }
        "connection" | "profile" | "tls" => stands_for_its_server(adapter),
        _ => true,
    };
    let shown = adapter.options.iter().filter(is_shown).filter(is_tried);
    let varied: Vec<_> = shown.map(|spec| (spec.name, other_values(spec))).collect();
    for changed in changes(adapter, &varied) {
        subjects.push(Arc::new(tried(&changed)?));
    }
    // For a version that is available.
    if adapter.name == "postgres/bytea" {
        subjects.push(Arc::new(tried(&[("version", "18"), ("io_method", "sync")])?));
    }
    Ok(subjects)
}

/// Options that are changed together: their names and values.
type Changes = Vec<(&'static str, &'static str)>;

/// What is changed of web servers and of the scripts behind them. Those that a set has together act at different places: where files
/// lie, how a connection begins and ends, what a response says. HTTP/2 is negotiated differently over TLS, and each library of PHP asks
/// in every way. A set is for adapters that have its first option, and without those of the rest that they lack.
const OF_WEB_SERVERS: &[&[(&str, &str)]] = &[
    &[("medium", "memory"), ("keepalive", "false")],
    &[("send", "handover"), ("keepalive", "false")],
    // A number of processes that none of them would choose itself.
    &[("revalidate", "true"), ("tls", "true"), ("workers", "3")],
    &[("http", "2")],
    &[("http", "2"), ("tls", "true")],
    &[("timed", "true"), ("connection", "per-op")],
    &[("protocol", "text")],
    &[("protocol", "procedure")],
    &[("driver", "pdo")],
    &[("driver", "pdo"), ("protocol", "text")],
    &[("driver", "pdo"), ("protocol", "procedure"), ("connection", "per-op")],
];

/// True if options are changed several at once: the server takes seconds to start, or its ops take long, or another candidate has the
/// same code and each option by itself: MariaDB for MySQL, Redis for Valkey, and the first kind of tables for the other ones.
fn changes_several_at_once(adapter: &Adapter) -> bool {
    ["mysql", "s3", "seaweedfs", "valkey"].contains(&stores::family(adapter.name))
        || !stands_for_its_server(adapter)
}

/// The changes that are tried, each with a store of its own. Every value of every option is in one of them.
fn changes(adapter: &Adapter, varied: &[(&'static str, Vec<&'static str>)]) -> Vec<Changes> {
    let is_varied = |name: &str| varied.iter().any(|(other, _)| *other == name);
    let mut sets: Vec<Changes> = Vec::new();
    if adapter.options.iter().any(|spec| spec.name == "keepalive") {
        let of_adapter = OF_WEB_SERVERS.iter().filter(|set| is_varied(set[0].0));
        sets.extend(
            of_adapter
                .map(|set| set.iter().copied().filter(|(name, _)| is_varied(name)).collect::<Changes>()),
        );
    } else if changes_several_at_once(adapter) {
        // A program of its own need not have been built with what the other options need.
        let by_itself = |name: &str| name == "version" || names_the_server(adapter, name);
        let together: Vec<_> = varied.iter().filter(|(name, _)| !by_itself(name)).collect();
        for turn in 0..together.iter().map(|(_, values)| values.len()).max().unwrap_or(0) {
            let of_turn = together.iter().filter_map(|(name, values)| Some((*name, *values.get(turn)?)));
            sets.push(of_turn.collect());
        }
    }
    let all = varied.iter().flat_map(|(name, values)| values.iter().map(move |value| (*name, *value)));
    let alone: Vec<Changes> = all
        .filter(|change| !sets.iter().flatten().any(|tried| tried == change))
        .map(|change| vec![change])
        .collect();
    sets.extend(alone);
    sets
}

/// Values of an option other than its default: all words, and both flags. Of a list of sizes, the smallest and the largest: those
/// between go through the same code. Numbers without a list are not varied.
fn other_values(spec: &OptionSpec) -> Vec<&'static str> {
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
    if values.iter().filter(|word| is_size(word)).count() > 2 {
        let sizes: Vec<&'static str> = values.iter().copied().filter(is_size).collect();
        values.retain(|word| !is_size(word) || sizes.first() == Some(word) || sizes.last() == Some(word));
    }
    // Releases without the option refuse it; and the installed release is tested anyway.
    values.retain(|word| spec.name != "io_method" && (spec.name, *word) != ("version", "15"));
    // A server shared by candidates ends with the run's process, so its stores cannot be opened afterwards. Tests of plans cover
    // it.
    values.retain(|word| *word != spec.default && (spec.name, *word) != ("server", "shared"));
    // It is of a server that the URL names.
    values.retain(|_| spec.name != "evicts");
    values
}
