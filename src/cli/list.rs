//! `blobwise list`: stores, plans, corpora and file systems.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::{Ended, print};
use crate::corpus::{FORMS, PRESETS, Preset};
use crate::host::disk::{FileSystem, not_made};
use crate::plan::{COMMON, PlanText, SHIPPED, defaults, missing_server};
use crate::store::{Adapter, Durability, OptionSpec, Options, Values, View};
use crate::stores::{self, Entry};
use crate::units;

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Every store, whether it can run here, and its options
    Stores,
    /// Plans that can be run by name
    Plans,
    /// Presets of sizes
    Corpora,
    /// File systems that can be made for a run, and what others lack
    FileSystems,
}

/// Flags of the command.
#[derive(Debug, Args)]
pub struct Flags {
    /// What to list; everything when left out
    what: Option<What>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn main(flags: &Flags) -> Result<Ended> {
    let wanted = |what| flags.what.is_none_or(|asked| asked == what);
    if flags.json {
        let mut all = serde_json::Map::new();
        if wanted(What::Stores) {
            all.insert("stores".into(), stores_json());
        }
        if wanted(What::Plans) {
            let plans: Result<Vec<_>> = plans().map(|plans| {
                plans.into_iter().map(|(name, about)| json!({"name": name, "about": about})).collect()
            });
            all.insert("plans".into(), plans?.into());
        }
        if wanted(What::Corpora) {
            let presets = PRESETS
                .iter()
                .map(|preset| json!({"name": preset.name, "about": about(preset), "cut": preset.cut()}));
            all.insert("corpora".into(), presets.collect());
        }
        if wanted(What::FileSystems) {
            let systems = file_systems()
                .into_iter()
                .map(|(name, state)| json!({"name": name, "ready": state == READY, "state": state}));
            all.insert("file_systems".into(), systems.collect());
        }
        print(&format!("{}\n", serde_json::to_string_pretty(&all)?))?;
        return Ok(Ended::Well);
    }
    let mut parts = Vec::new();
    if wanted(What::Stores) {
        parts.push(stores_text());
    }
    if wanted(What::Plans) {
        let lines = plans()?.into_iter().map(|(name, about)| format!("{name:<24} {about}\n"));
        parts.push(format!("Plans (`blobwise run NAME`)\n{}", lines.collect::<String>()));
    }
    if wanted(What::Corpora) {
        let lines = PRESETS.iter().map(|preset| format!("{:<24} {}\n", preset.name, about(preset)));
        parts.push(format!(
            "Corpora (`--corpus NAME`)\n{}also {FORMS}, none of which is cut\n",
            lines.collect::<String>()
        ));
    }
    if wanted(What::FileSystems) {
        let lines = file_systems().into_iter().map(|(name, state)| format!("{name:<24} {state}\n"));
        parts.push(format!(
            "File systems (`--on A,B`; of several disks `:N` says how many)\n{}",
            lines.collect::<String>()
        ));
    }
    print(&parts.join("\n"))?;
    Ok(Ended::Well)
}

/// What can be had is so.
const READY: &str = "ready";

/// Every file system, and what it lacks here.
fn file_systems() -> Vec<(String, String)> {
    let ready = FileSystem::all().into_iter().map(|system| {
        let state = system.lacks().map_or(READY.to_owned(), |why| format!("{why:#}"));
        (system.name().to_owned(), state)
    });
    let others = not_made().into_iter().map(|(name, why)| (name.to_owned(), why));
    ready.chain(others).collect()
}

fn plans() -> Result<Vec<(String, String)>> {
    let about = |text: &str| -> Result<String> { Ok(PlanText::parse(text)?.about.unwrap_or_default()) };
    SHIPPED.iter().map(|(name, text)| Ok(((*name).to_owned(), about(text)?))).collect()
}

/// What a preset stands for, and what of it is not made.
fn about(preset: &Preset) -> String {
    [Some(preset.about.to_owned()), preset.cut()].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Whether a store can run here, in words.
fn state(entry: &Entry) -> String {
    match entry {
        Entry::Ready(adapter) => match missing_server(adapter, &defaults(adapter)) {
            None => READY.to_owned(),
            Some(error) => format!("{error:#}"),
        },
        Entry::NotCompiled { feature, .. } => {
            format!("not compiled in: `cargo build --release --features {feature}`")
        }
        Entry::Impossible { why, .. } => format!("cannot be had: {why}"),
    }
}

fn stores_text() -> String {
    let mut text = "Stores (`--stores A,B`; options with `--set STORE.OPTION=VALUE`)\n".to_owned();
    for entry in stores::table() {
        let state = state(entry);
        match entry {
            Entry::Ready(adapter) => {
                text += &format!("\n{:<22} {:<10} {}\n", adapter.name, adapter.kind.name(), adapter.about);
                text += &format!("    {state}\n");
                for (server, state) in servers(adapter) {
                    text += &format!("    {server}: {state}\n");
                }
                adapter.options.iter().for_each(|spec| text += &option(spec));
            }
            Entry::NotCompiled { name, .. } | Entry::Impossible { name, .. } => {
                text += &format!("\n{name:<22} {state}\n")
            }
        }
    }
    text += "\nEvery store\n";
    COMMON.iter().for_each(|spec| text += &option(spec));
    text
}

/// The settings that make another program the private server of a store, and whether each can be had here.
fn servers(adapter: &Adapter) -> Vec<(String, String)> {
    let mut servers = Vec::new();
    for spec in adapter.options {
        let Values::Server(words) = spec.values else { continue };
        for word in words.iter().filter(|word| **word != spec.default) {
            let mut values = defaults(adapter).values().clone();
            values.insert(spec.name.to_owned(), (*word).to_owned());
            let lacks = missing_server(adapter, &Options::new(values));
            let state = lacks.map_or(READY.to_owned(), |error| format!("{error:#}"));
            servers.push((format!("{}={word}", spec.name), state));
        }
    }
    servers
}

fn option(spec: &OptionSpec) -> String {
    format!("    {:<14} {:<34} {}\n", spec.name, values(&spec.values, spec.default), spec.about)
}

/// The values of an option, the default first.
fn values(values: &Values, default: &str) -> String {
    match values {
        Values::OneOf(words) | Values::Server(words) => {
            let others: Vec<&str> = words.iter().copied().filter(|word| *word != default).collect();
            format!("{default} | {}", others.join(" | "))
        }
        Values::Flag if default == "true" => "true | false".to_owned(),
        Values::Flag => "false | true".to_owned(),
        Values::Integer { min, max } => format!("{default} ({min} to {max})"),
        Values::Decimal { max } => format!("{default} (0 to {max})"),
        Values::Word => default.to_owned(),
        Values::FileSystem => format!("{default}, or one of the file systems"),
        Values::Url => "(not set), or NAME://USER:PASSWORD@HOST/...".to_owned(),
        Values::Bytes { min, max } => {
            format!("{default} ({} to {})", units::bytes(*min as f64), units::bytes(*max as f64))
        }
    }
}

fn stores_json() -> serde_json::Value {
    let entries = stores::table().map(|entry| match entry {
        Entry::Ready(adapter) => store_json(adapter, entry),
        Entry::NotCompiled { name, feature } => {
            json!({"name": name, "ready": false, "state": state(entry), "feature": feature})
        }
        Entry::Impossible { name, .. } => json!({"name": name, "ready": false, "state": state(entry)}),
    });
    entries.collect()
}

fn store_json(adapter: &Adapter, entry: &Entry) -> serde_json::Value {
    let options = defaults(adapter);
    let caps = (adapter.caps)(&options);
    let loss = |class: &Durability| (class.name().to_owned(), json!((adapter.loss)(&options, *class)));
    let integrity =
        |class: &Durability| (class.name().to_owned(), json!((adapter.integrity)(&options, *class).words()));
    json!({
        "name": adapter.name,
        "kind": adapter.kind.name(),
        "about": adapter.about,
        "ready": state(entry) == READY,
        "state": state(entry),
        "servers": servers(adapter).into_iter().collect::<BTreeMap<_, _>>(),
        "durability": caps.durability,
        "loss": caps.durability.iter().map(loss).collect::<serde_json::Map<_, _>>(),
        "noticed_by": caps.durability.iter().map(integrity).collect::<serde_json::Map<_, _>>(),
        "persistent": caps.persistent,
        "range": caps.range,
        "batch": caps.batch,
        "get_many": caps.get_many,
        "one_transaction": caps.one_transaction.map(View::name),
        "blob_bytes_max": caps.blob_bytes_max.map(|limit| limit.bytes),
        "totals": caps.totals,
        "backup": caps.backup.means().map(|means| means.by),
        "no_backup": caps.backup.refusal(),
        "options": adapter.options.iter().map(|spec| json!({
            "name": spec.name, "default": spec.default, "values": values(&spec.values, spec.default), "about": spec.about,
        })).collect::<Vec<_>>(),
    })
}
