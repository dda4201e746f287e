//! `blobwise list`: stores, plans, corpora and file systems.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use serde_json::json;

use super::{CommandOutcome, print};
use crate::corpus::{FORMS, PRESETS, Preset};
use crate::host::disk::{FileSystem, not_made};
use crate::plan::{
    COMMON, PlanText, SHIPPED, defaults, members_of, missing_server, unknown_plan, why_not_had,
};
use crate::redact::without_passwords;
use crate::report::terminal::{behind, paragraph};
use crate::store::{Adapter, Durability, OptionSpec, Options, ReadIsolation, Values};
use crate::stores::{self, Entry};
use crate::suggest;
use crate::units;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListTopic {
    /// Stores, whether they can run here, and their options.
    Stores,
    /// Shipped plans, which can be run by name.
    Plans,
    /// Presets of sizes.
    Corpora,
    /// File systems that can be made for a run, and what the others lack.
    FileSystems,
}

#[derive(Debug, Args)]
pub struct ListFlags {
    /// List stores, plans, corpora or file-systems, or one by name
    ///
    /// Everything if left out. The name is that of a store, a family of stores, a plan or a corpus
    what: Option<String>,
    /// List only this one, as in `list plans horak-2010`
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print the text of a plan, to begin your own with
    #[arg(long, conflicts_with = "json")]
    toml: bool,
}

#[derive(Debug)]
enum ListRequest<'f> {
    Everything,
    Kind(ListTopic),
    Stores(&'f str),
    Plan(&'f str),
    Corpus(&'f str),
    FileSystem(&'f str),
}

const KINDS: [(&str, ListTopic); 4] = [
    ("stores", ListTopic::Stores),
    ("plans", ListTopic::Plans),
    ("corpora", ListTopic::Corpora),
    ("file-systems", ListTopic::FileSystems),
];

impl ListFlags {
    fn asked(&self) -> Result<ListRequest<'_>> {
        let kind = |name: &str| KINDS.iter().find(|(known, _)| *known == name).map(|(_, what)| *what);
        // A manifest that cannot be read is no unknown name.
        self.what.iter().chain(&self.name).try_for_each(|name| stores::look_up(name).map(drop))?;
        match (self.what.as_deref(), self.name.as_deref()) {
            (None, _) => Ok(ListRequest::Everything),
            (Some(what), None) => match kind(what) {
                Some(kind) => Ok(ListRequest::Kind(kind)),
                None => {
                    let kinds = [ListTopic::Stores, ListTopic::Plans, ListTopic::Corpora];
                    kinds.into_iter().find_map(|kind| named(kind, what).ok()).ok_or_else(|| unknown(what))
                }
            },
            (Some(what), Some(name)) => match kind(what) {
                Some(kind) => named(kind, name),
                None => bail!(
                    "`list {what}` takes no second name: `list stores {name}` does, and so do plans, corpora and file-systems"
                ),
            },
        }
    }
}

/// Returns what has this name among the things of one kind.
fn named(kind: ListTopic, name: &str) -> Result<ListRequest<'_>> {
    match kind {
        ListTopic::Stores if !stores_of(name).is_empty() => Ok(ListRequest::Stores(name)),
        ListTopic::Stores => Err(stores::unknown(name)),
        ListTopic::Plans if SHIPPED.iter().any(|(known, _)| *known == name) => Ok(ListRequest::Plan(name)),
        ListTopic::Plans => Err(unknown_plan(name)),
        ListTopic::Corpora if PRESETS.iter().any(|preset| preset.name == name) => {
            Ok(ListRequest::Corpus(name))
        }
        ListTopic::Corpora => Err(suggest::unknown("corpus", name, PRESETS.iter().map(|preset| preset.name))),
        ListTopic::FileSystems => {
            let all = file_systems();
            let known = || all.iter().map(|(known, _)| known.as_str());
            match known().any(|known| known == name) {
                true => Ok(ListRequest::FileSystem(name)),
                false => Err(suggest::unknown("file system", name, known())),
            }
        }
    }
}

fn unknown(what: &str) -> anyhow::Error {
    let kinds = KINDS.iter().map(|(name, _)| *name);
    let plans = SHIPPED.iter().map(|(name, _)| *name);
    let corpora = PRESETS.iter().map(|preset| preset.name);
    let known: Vec<&str> = kinds.chain(stores::names()).chain(plans).chain(corpora).collect();
    let other = match suggest::nearest(what, known) {
        Some(other) => format!("; did you mean `{other}`?"),
        None => ": there are stores, plans, corpora and file-systems, and their names".to_owned(),
    };
    anyhow!("nothing that can be listed is called `{what}`{other}")
}

/// Returns the stores of a name: one, or those of a family.
fn stores_of(name: &str) -> Vec<Entry> {
    match stores::find(name) {
        Some(entry) => vec![entry],
        None => members_of(name.strip_suffix("/*").unwrap_or(name)).into_iter().copied().collect(),
    }
}

pub fn main(flags: &ListFlags) -> Result<CommandOutcome> {
    let asked = flags.asked()?;
    match asked {
        ListRequest::Plan(name) if flags.toml => {
            SHIPPED.iter().filter(|(known, _)| *known == name).try_for_each(|(_, text)| print(text))?;
        }
        _ if flags.toml => {
            bail!("--toml: prints a plan; name one, as in `list plans default --toml`")
        }
        _ if flags.json => print(&format!("{}\n", serde_json::to_string_pretty(&in_json(&asked)?)?))?,
        ListRequest::Plan(name) => print(&plan_text(name)?)?,
        _ => print(&in_words(&asked)?)?,
    }
    Ok(CommandOutcome::Well)
}

impl ListRequest<'_> {
    fn wants(&self, what: ListTopic) -> bool {
        match self {
            ListRequest::Everything => true,
            ListRequest::Kind(kind) => *kind == what,
            ListRequest::Stores(_) => what == ListTopic::Stores,
            ListRequest::Plan(_) => what == ListTopic::Plans,
            ListRequest::Corpus(_) => what == ListTopic::Corpora,
            ListRequest::FileSystem(_) => what == ListTopic::FileSystems,
        }
    }

    /// True if this item is to be listed; always true if none is named.
    fn is_about(&self, known: &str) -> bool {
        match self {
            ListRequest::Plan(name) | ListRequest::Corpus(name) | ListRequest::FileSystem(name) => {
                *name == known
            }
            _ => true,
        }
    }

    fn stores(&self) -> Vec<Entry> {
        match self {
            ListRequest::Stores(name) => stores_of(name),
            _ => stores::table().copied().collect(),
        }
    }

    fn presets(&self) -> impl Iterator<Item = &'static Preset> {
        PRESETS.iter().filter(|preset| self.is_about(preset.name))
    }

    fn file_systems(&self) -> impl Iterator<Item = (String, String)> {
        file_systems().into_iter().filter(|(name, _)| self.is_about(name))
    }
}

fn in_json(asked: &ListRequest<'_>) -> Result<serde_json::Map<String, serde_json::Value>> {
    let mut all = serde_json::Map::new();
    if asked.wants(ListTopic::Stores) {
        all.insert("stores".into(), stores_json(&asked.stores()));
    }
    if asked.wants(ListTopic::Plans) {
        let plans = plans()?.into_iter().filter(|(name, _)| asked.is_about(name));
        all.insert(
            "plans".into(),
            plans.map(|(name, about)| json!({"name": name, "about": about})).collect(),
        );
    }
    if asked.wants(ListTopic::Corpora) {
        let preset =
            |preset: &Preset| json!({"name": preset.name, "about": about(preset), "cut": preset.cut()});
        all.insert("corpora".into(), asked.presets().map(preset).collect());
    }
    if asked.wants(ListTopic::FileSystems) {
        let system =
            |(name, state): (String, String)| json!({"name": name, "ready": state == READY, "state": state});
        all.insert("file_systems".into(), asked.file_systems().map(system).collect());
    }
    Ok(all)
}

fn in_words(asked: &ListRequest<'_>) -> Result<String> {
    let mut parts = Vec::new();
    if asked.wants(ListTopic::Stores) {
        parts.push(stores_text(&asked.stores()));
    }
    if asked.wants(ListTopic::Plans) {
        let lines = plans()?.into_iter().map(|(name, about)| beside(&name, &about));
        parts.push(format!("Plans (`blobwise run NAME`)\n{}", lines.collect::<String>()));
    }
    if asked.wants(ListTopic::Corpora) {
        let lines = asked.presets().map(|preset| beside(preset.name, &about(preset)));
        parts.push(format!(
            "Corpora (`--corpus NAME`)\n{}{}",
            lines.collect::<String>(),
            paragraph(0, &format!("also {FORMS}, none of which is cut"))
        ));
    }
    if asked.wants(ListTopic::FileSystems) {
        let lines = asked.file_systems().map(|(name, state)| beside(&name, &state));
        parts.push(format!(
            "File systems (`--on A,B`; of several disks `:N` says how many)\n{}",
            lines.collect::<String>()
        ));
    }
    Ok(parts.join("\n"))
}

/// Formats a name with a description beside it, at terminal width.
fn beside(name: &str, said: &str) -> String {
    behind(&format!("{name:<24} "), said)
}

/// State of what is available.
const READY: &str = "ready";

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

fn plan_text(name: &str) -> Result<String> {
    let plan = PlanText::load(name)?;
    let mut lines = vec![format!("{name}: {}", plan.about.clone().unwrap_or_default())];
    if let Some(document) = &plan.document {
        lines.push(format!("repeats: {}, \"{}\", {}", document.author, document.title, document.date));
        lines.push(format!("measured then on: {}", document.machine));
    }
    let mut part = |title: &str, names: Vec<String>| {
        if !names.is_empty() {
            lines.push(format!("{title}: {}", names.join(", ")));
        }
    };
    part("plans", plan.plans.clone());
    part("stores", plan.stores.clone().unwrap_or_default());
    part("phases", plan.phases.clone().unwrap_or_default());
    let source = |corpus: &crate::plan::CorpusText| corpus.name.clone().or_else(|| corpus.source.clone());
    part("corpora", plan.corpora.iter().filter_map(source).collect());
    part("corpus", plan.corpus.iter().filter_map(source).collect());
    part("rounds", plan.rounds.iter().map(u32::to_string).collect());
    part("budget", plan.budget.iter().cloned().collect());
    lines.extend(plan.claim.iter().map(|claim| format!("claim {}: {}", claim.id, claim.statement)));
    let mut text = String::new();
    lines.iter().for_each(|line| text += &paragraph(2, line));
    text += "\n";
    for (what, command) in [
        ("Run it:", format!("blobwise run {name}")),
        ("A part of its size:", format!("blobwise run {name} --scale 0.1")),
        ("Its text:", format!("blobwise list plans {name} --toml")),
    ] {
        text += &format!("{what:<20} {command}\n");
    }

    Ok(text)
}

/// Describes a preset, and which part of the distribution is cut off.
fn about(preset: &Preset) -> String {
    [Some(preset.about.to_owned()), preset.cut()].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn state(entry: &Entry) -> String {
    why_not_had(entry).unwrap_or_else(|| READY.to_owned())
}

fn stores_text(entries: &[Entry]) -> String {
    let mut text = "Stores (`--stores A,B`; options with `--set STORE.OPTION=VALUE`)\n".to_owned();
    for entry in entries {
        let state = state(entry);
        match entry {
            Entry::Ready(adapter) => {
                text += &format!("\n{:<24} {}\n", adapter.name, adapter.kind.name());
                text += &paragraph(4, adapter.about);
                text += &paragraph(4, &state);
                (adapter.needs.remark)().iter().for_each(|remark| text += &paragraph(4, remark));
                for (server, state) in servers(adapter) {
                    text += &paragraph(4, &format!("{server}: {state}"));
                }
                adapter.options.iter().for_each(|spec| text += &option(spec));
            }
            Entry::NotCompiled { name, .. } | Entry::Impossible { name, .. } => {
                text += &format!("\n{name}\n{}", paragraph(4, &state));
            }
        }
    }
    if entries.len() < stores::table().count() {
        text += "\nEvery store has more options: `blobwise list stores`\n";
        return text;
    }
    text += "\nEvery store\n";
    COMMON.iter().for_each(|spec| text += &option(spec));
    text
}

/// Settings that select another program as a store's private server, each with its state on this machine.
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
    let head = paragraph(4, &format!("{}: {}", spec.name, values(&spec.values, spec.default)));
    head + &paragraph(8, spec.about)
}

/// Describes the values of an option, the default first.
fn values(values: &Values, default: &str) -> String {
    match values {
        Values::OneOf(words) | Values::Server(words) => {
            let others = words.iter().copied().filter(|word| *word != default);
            std::iter::once(default).chain(others).collect::<Vec<&str>>().join(" | ")
        }
        Values::Flag if default == "true" => "true | false".to_owned(),
        Values::Flag => "false | true".to_owned(),
        Values::Integer { min, max } => format!("{default} ({min} to {max})"),
        Values::Decimal { max } => format!("{default} (0 to {max})"),
        Values::Word => default.to_owned(),
        Values::FileSystem => format!("{default}, or one of the file systems"),
        Values::Url if default.is_empty() => "(not set), or NAME://USER:PASSWORD@HOST/...".to_owned(),
        // That of a manifest, which may have a password.
        Values::Url => format!("{}, or another URL", without_passwords(default)),
        Values::Bytes { min, max } => {
            format!("{default} ({} to {})", units::typed_bytes(*min), units::typed_bytes(*max))
        }
    }
}

fn stores_json(entries: &[Entry]) -> serde_json::Value {
    let entries = entries.iter().map(|entry| match entry {
        Entry::Ready(adapter) => store_json(adapter, entry),
        Entry::NotCompiled { name, feature, .. } => {
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
    let integrity = |class: &Durability| {
        (class.name().to_owned(), json!((adapter.integrity)(&options, *class).description()))
    };
    json!({
        "name": adapter.name,
        "kind": adapter.kind.name(),
        "about": adapter.about,
        "ready": state(entry) == READY,
        "state": state(entry),
        "remark": (adapter.needs.remark)(),
        "servers": servers(adapter).into_iter().collect::<BTreeMap<_, _>>(),
        "durability": caps.durability,
        "loss": caps.durability.iter().map(loss).collect::<serde_json::Map<_, _>>(),
        "noticed_by": caps.durability.iter().map(integrity).collect::<serde_json::Map<_, _>>(),
        "persistent": caps.persistent,
        "changes": caps.changes,
        "range": caps.range,
        "streams": caps.streams,
        "batch": caps.batch,
        "get_many": caps.get_many,
        "one_transaction": caps.one_transaction.map(ReadIsolation::name),
        "blob_bytes_max": caps.blob_bytes_max.map(|limit| limit.bytes),
        "totals": caps.totals,
        "other_data": caps.other_data,
        "backup": caps.backup.means().map(|means| means.by),
        "no_backup": caps.backup.refusal(),
        "options": adapter.options.iter().map(|spec| json!({
            "name": spec.name, "default": without_passwords(spec.default), "values": values(&spec.values, spec.default),
            "about": spec.about,
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_terminal_has_room_for_what_there_is() {
        let mut all = vec![in_words(&ListRequest::Everything).unwrap()];
        all.extend(SHIPPED.iter().map(|(name, _)| plan_text(name).unwrap()));
        let wide: Vec<&str> =
            all.iter().flat_map(|text| text.lines()).filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }
}
