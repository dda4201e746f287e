//! Builds the candidates of a run from the stores that a user names and the options they set.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::text::{Class, PlanText, Transaction, class_wanted, cold_passes, default_stores, split_label};
use crate::redact::{self, MASK, without_passwords};
use crate::store::{
    Adapter, COMMON, ColdMethod, ConnectionUse, Durability, FileSystem, Kind, NoFileSystem, OptionSpec,
    Options, Traits, Values, file_systems,
};
use crate::stores::{self, CatalogueOf, Entry};
use crate::suggest::unknown;
use crate::units::parse_bytes;

/// A candidate of a run: a store with its settings.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Adapter name plus the options that distinguish this candidate from others, e.g. `sqlite[page_size=4096]`; no passwords.
    pub label: String,
    /// Adapter of the store.
    pub adapter: &'static Adapter,
    /// All settings, defaults included.
    pub options: Options,
}

impl Candidate {
    /// True for a baseline, which reports show but never rank.
    pub fn is_baseline(&self) -> bool {
        self.adapter.kind == Kind::Baseline
    }

    /// Traits of the store with these settings.
    pub fn traits(&self) -> Traits {
        (self.adapter.traits)(&self.options)
    }

    /// URL of the user's server, if one is given; includes the password.
    pub fn url(&self) -> Option<&str> {
        self.adapter.url(&self.options)
    }

    /// How the candidate is made cold; `None` if that is impossible.
    pub fn made_cold(&self) -> Option<ColdMethod> {
        self.adapter.made_cold(&self.options)
    }

    /// True if the store can be closed, evicted and reopened.
    pub fn can_be_cold(&self) -> bool {
        self.made_cold().is_some()
    }

    /// True if a private server is stopped and restarted to make the candidate cold.
    pub fn restarts(&self) -> bool {
        self.made_cold() == Some(ColdMethod::Restarted)
    }

    /// Number of passes of a cold phase that this candidate runs, out of `planned`.
    pub fn cold_passes(&self, planned: u32) -> u32 {
        cold_passes(self.made_cold(), planned)
    }

    /// Durability class set for this candidate alone.
    pub fn own_class(&self) -> Option<Durability> {
        self.options.own_class()
    }

    /// How reads are grouped into transactions if the phase does not specify it.
    pub fn transaction(&self) -> Transaction {
        let in_one = self.options.reads_in_one_transaction();
        if in_one { Transaction::Phase } else { Transaction::Op }
    }

    /// Catalog in which uploads to this candidate are registered.
    pub fn catalogue(&self) -> Result<CatalogueOf> {
        stores::catalogue(&self.options)
    }

    /// Reason why the candidate cannot take uploads through its catalog, or `None` if it can.
    pub fn why_no_uploads(&self) -> Option<String> {
        match self.catalogue() {
            Err(error) => return Some(redact::of_error(&format!("{error:#}"))),
            Ok(CatalogueOf::Own { .. }) if !(self.adapter.caps)(&self.options).catalogue => {
                return Some("no catalogue of its own: it is no SQL database".to_owned());
            }
            _ => {}
        }
        let by_integer = self.traits().integer_keys;
        by_integer.then(|| "finds blobs by an integer, and uploads have a digest".to_owned())
    }

    /// Reason why the candidate's reads cannot share one transaction, or `None` if they can.
    pub fn why_not_one_transaction(&self) -> Option<&'static str> {
        if (self.adapter.caps)(&self.options).one_transaction.is_none() {
            return Some("no transaction that several reads could be in");
        }
        (self.traits().connects == ConnectionUse::EachOp)
            .then_some("reconnects for every op, and a transaction ends with its connection")
    }

    /// File system made for the run that the candidate lies on; `None` if it lies directly in the run directory.
    pub fn file_system(&self) -> Option<FileSystem> {
        self.options.file_system_option().and_then(|on| FileSystem::parse(on).ok())
    }

    /// True if the blobs are pages that a browser loads.
    pub fn shows_pages(&self) -> bool {
        self.adapter.kind == Kind::Page
    }
}

/// Settings of a store when the user gives none.
pub fn defaults(adapter: &Adapter) -> Options {
    let value =
        |spec: &OptionSpec| from_environment(adapter, spec).unwrap_or_else(|| spec.default.to_owned());
    let checked = |spec: &OptionSpec| check_value(spec, &value(spec)).unwrap_or_default();
    Options::new(adapter.options.iter().map(|spec| (spec.name.to_owned(), checked(spec))).collect())
}

/// A candidate that the plan asks for and that cannot run on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MissingCandidate {
    /// Label that the candidate would have had.
    pub label: String,
    /// Adapter name.
    pub adapter: String,
    /// Reason, and what would make it available.
    pub reason: String,
}

/// Contents of `--set` or of a plan's `[set]`: `store.option` with one or more values.
pub type Sets = BTreeMap<String, Vec<String>>;

/// Fails if a [`Selector`](super::selector::Selector) names an unknown store, option or value, or selects by URL.
pub(super) fn check_selector(text: &str, absent: &BTreeMap<String, String>) -> Result<()> {
    if absent.contains_key(text) {
        return Ok(());
    }
    let (store, options) = split_label(text)?;
    match stores::look_up(store)? {
        Some(Entry::Ready(adapter)) => options.iter().try_for_each(|(name, value)| {
            let spec = spec_of(adapter, name)?;
            // A URL may hold a password, and the selector is stored verbatim.
            ensure!(
                !matches!(spec.values, Values::Url),
                "candidates of `{store}` are not chosen by their `{name}`"
            );
            check_value(spec, value).map(drop).with_context(|| format!("`{name}` of `{store}`"))
        }),
        // The options of a store that is not in this build are unknown.
        Some(Entry::NotCompiled { .. } | Entry::Impossible { .. }) => Ok(()),
        None => Err(stores::unknown(store)),
    }
}

/// Result of expanding family names.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpandedFamilies {
    /// Store names, families expanded.
    pub stores: Vec<String>,
    /// Family members that cannot run here, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// Expands family names (`postgres`, `postgres/*`) to all members that can run here, and lists the members left out with their
/// reasons. Fails if no member of a family can run.
pub fn with_families(names: Vec<String>) -> Result<ExpandedFamilies> {
    let (mut all, mut left_out): (Vec<String>, Vec<(String, String)>) = (Vec::new(), Vec::new());
    for name in names {
        let asked = name.strip_suffix("/*").unwrap_or(&name);
        let members = members_of(asked);
        if stores::find(&name).is_some() || members.is_empty() {
            all.push(name);
            continue;
        }
        let before = all.len();
        for entry in members {
            match why_not_had(entry) {
                None => all.push(entry.name().to_owned()),
                Some(why) => left_out.push((entry.name().to_owned(), why)),
            }
        }
        if all.len() == before {
            let why = left_out.last().map(|(store, why)| format!("`{store}`: {why}")).unwrap_or_default();
            bail!("no store of `{name}` can run here: {why}");
        }
    }
    Ok(ExpandedFamilies { stores: all, left_out })
}

/// Returns the stores of a family.
pub fn members_of(family: &str) -> Vec<&'static Entry> {
    stores::table().filter(|entry| stores::family(entry.name()) == family).collect()
}

/// Reason why a store cannot run here with its default settings, or `None` if it can.
pub fn why_not_had(entry: &Entry) -> Option<String> {
    match entry {
        Entry::Ready(adapter) => {
            missing_server(adapter, &defaults(adapter)).map(|why| redact::of_error(&format!("{why:#}")))
        }
        Entry::NotCompiled { feature, .. } => {
            Some(format!("not compiled in: `cargo build --release --features {feature}`"))
        }
        Entry::Impossible { why, .. } => Some((*why).to_owned()),
    }
}

/// Builds the candidates. A store that cannot run here is an error if `strict` (a flag named it); otherwise it is returned as
/// missing.
pub fn candidates(
    stores: &[String],
    sets: &Sets,
    strict: bool,
) -> Result<(Vec<Candidate>, Vec<MissingCandidate>)> {
    candidates_on(stores, sets, &[], strict)
}

/// Like [`candidates`], but places each candidate on every file system of a list (see [`Options::file_system_option`]) if the program controls
/// where its data lies.
pub(super) fn candidates_on(
    stores: &[String],
    sets: &Sets,
    on: &[String],
    strict: bool,
) -> Result<(Vec<Candidate>, Vec<MissingCandidate>)> {
    let on = checked_list(on)?;
    let on = on.as_slice();
    let (mut candidates, mut missing) = (Vec::new(), Vec::new());
    let mut used = std::collections::BTreeSet::new();
    for store in stores {
        let (name, fixed) = split_label(store)?;
        match stores::look_up(name)? {
            Some(Entry::Ready(adapter)) => {
                for candidate in candidates_of(adapter, &fixed, sets, on, &mut used)? {
                    match why_unavailable(&candidate) {
                        None => candidates.push(candidate),
                        Some(error) if strict => {
                            return Err(error.context(format!("the store `{name}` cannot run here")));
                        }
                        Some(error) => missing.push(MissingCandidate {
                            label: candidate.label,
                            adapter: name.to_owned(),
                            reason: redact::of_error(&format!("{error:#}")),
                        }),
                    }
                }
            }
            Some(entry @ (Entry::NotCompiled { .. } | Entry::Impossible { .. })) => {
                let reason = why_not_had(&entry).unwrap_or_default();
                ensure!(!strict, "the store `{name}` cannot be measured: {reason}");
                let label = without_passwords(store);
                missing.push(MissingCandidate { label, adapter: name.to_owned(), reason });
            }
            None => return Err(stores::unknown(name)),
        }
    }
    for set in sets.keys() {
        if !used.contains(set) {
            return Err(unused_set(set));
        }
    }
    tell_apart(&mut candidates)?;
    Ok((candidates, missing))
}

fn checked_list(on: &[String]) -> Result<Vec<String>> {
    let spec = COMMON.iter().find(|spec| spec.name == ON).context("no option names a file system")?;
    let mut names = Vec::new();
    for name in on {
        let name = check_value(spec, name).context("`on`")?;
        ensure!(!names.contains(&name), "`on` names `{name}` twice");
        names.push(name);
    }
    Ok(names)
}

/// Rejects duplicate candidates. URLs that differ only in their passwords have the same label, so a number is appended.
fn tell_apart(candidates: &mut [Candidate]) -> Result<()> {
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for candidate in candidates {
        let urls = seen.entry(candidate.label.clone()).or_default();
        let url = candidate.url().unwrap_or_default().to_owned();
        if urls.contains(&url) {
            bail!("the candidate `{}` is named twice", candidate.label);
        }
        urls.push(url);
        if urls.len() > 1 {
            candidate.label = format!("{} #{}", candidate.label, urls.len());
        }
    }
    Ok(())
}

/// Reason why a candidate cannot run here: its file system, its server or the server of its catalog is unavailable.
fn why_unavailable(candidate: &Candidate) -> Option<anyhow::Error> {
    if candidate.url().is_some() {
        return None;
    }
    let lacks =
        |system: FileSystem| Some(system.lacks()?.context(format!("its file system `{}`", system.name())));
    if let Some(why) = candidate.file_system().and_then(lacks) {
        return Some(why);
    }
    missing_server(candidate.adapter, &candidate.options).or_else(|| match candidate.catalogue() {
        Ok(CatalogueOf::Apart(adapter)) => missing_server(adapter, &defaults(adapter))
            .map(|error| error.context(format!("its catalogue `{}`", adapter.name))),
        _ => None,
    })
}

/// Reason why a store is unavailable with these settings: the machine does not support it, or no URL is given and there is no
/// program to start (or it is missing). `None` if it is available.
pub fn missing_server(adapter: &Adapter, options: &Options) -> Option<anyhow::Error> {
    if adapter.url(options).is_some() {
        return None;
    }
    if adapter.kind == Kind::Server && adapter.programs.is_empty() {
        let family = stores::family(adapter.name);
        return Some(anyhow!(
            "it needs a server of yours: --set {family}.url={family}://USER:PASSWORD@HOST/DATABASE, or {}",
            url_variable(adapter)
        ));
    }
    adapter.lacks(options)
}

/// Returns one candidate, or one for each combination of the listed values.
fn candidates_of(
    adapter: &'static Adapter,
    fixed: &BTreeMap<String, String>,
    sets: &Sets,
    on: &[String],
    used: &mut std::collections::BTreeSet<String>,
) -> Result<Vec<Candidate>> {
    for name in fixed.keys() {
        spec_of(adapter, name)?;
    }
    // Each combination: all values, and those that go into the label.
    let mut combinations: Vec<Combination> = vec![(BTreeMap::new(), BTreeMap::new())];
    for (spec, common) in own_and_common(adapter) {
        let (values, in_label) = match (fixed.get(spec.name), given(adapter, spec, sets, used)) {
            (Some(value), _) => (vec![value.clone()], true),
            // Candidates of different classes need distinct labels wherever they are named.
            (None, Some(values)) => (values.clone(), values.len() > 1 || spec.is_always_in_the_label()),
            (None, None) if common => continue,
            (None, None) => {
                let value = from_environment(adapter, spec).unwrap_or_else(|| spec.default.to_owned());
                (vec![value], spec.names_the_server())
            }
        };
        let mut next = Vec::new();
        for value in &values {
            let checked = check_value(spec, value)
                .with_context(|| format!("cannot set `{}.{}`", adapter.name, spec.name))?;
            for (all, label) in &combinations {
                let (mut all, mut label): (BTreeMap<String, String>, BTreeMap<String, String>) =
                    (all.clone(), label.clone());
                all.insert(spec.name.to_owned(), checked.clone());
                if in_label {
                    // Labels are shown and stored, so they must not contain passwords.
                    let is_one_way = matches!(spec.values, Values::FileSystem);
                    let called = if is_one_way { &checked } else { value };
                    label.insert(spec.name.to_owned(), without_passwords(called));
                }
                next.push((all, label));
            }
        }
        combinations = next;
    }
    let candidate = |(all, label)| Candidate {
        label: label_of(adapter.name, &label),
        adapter,
        options: Options::new(all),
    };
    let is_set = |name: &str| fixed.contains_key(name) || is_given(adapter, name, sets);
    combinations.iter_mut().try_for_each(|(all, label)| call_by_its_server(adapter, all, label, is_set))?;
    let combinations = combinations.into_iter().flat_map(|combination| placed(adapter, combination, on));
    let candidates: Vec<Candidate> = combinations.map(candidate).collect();
    candidates.iter().try_for_each(|candidate| {
        check_class(candidate)?;
        check_transaction(candidate)?;
        check_on(candidate)
    })?;
    Ok(candidates)
}

/// All values of a candidate, and those that go into its label.
type Combination = (BTreeMap<String, String>, BTreeMap<String, String>);

/// Drops the private server's program from the label if the user gives a URL. Fails if the user also set that program.
fn call_by_its_server(
    adapter: &Adapter,
    all: &BTreeMap<String, String>,
    label: &mut BTreeMap<String, String>,
    is_set: impl Fn(&str) -> bool,
) -> Result<()> {
    if adapter.url(&Options::new(all.clone())).is_none() {
        return Ok(());
    }
    for spec in adapter.options.iter().filter(|spec| spec.names_the_server()) {
        let (store, name) = (adapter.name, spec.name);
        ensure!(
            !is_set(name),
            "cannot set `{store}.{name}`: a URL names a server of yours; leave one of the two out"
        );
        label.remove(name);
    }
    Ok(())
}

/// Returns the candidate on each of these file systems, or unchanged if it already has one or cannot be placed on one.
fn placed(adapter: &'static Adapter, (all, label): Combination, on: &[String]) -> Vec<Combination> {
    let name = ON;
    if on.is_empty() || all.contains_key(name) || why_not_on(adapter, &Options::new(all.clone())).is_some() {
        return vec![(all, label)];
    }
    let with = |values: &BTreeMap<String, String>, on: &String| {
        let mut values = values.clone();
        values.insert(name.to_owned(), on.clone());
        values
    };
    on.iter().map(|on| (with(&all, on), with(&label, on))).collect()
}

/// Option that names the file system of a candidate.
const ON: &str = "on";

/// Reason why a store cannot be placed on a file system made for the run, or `None` if it can.
fn why_not_on(adapter: &Adapter, options: &Options) -> Option<&'static str> {
    if adapter.url(options).is_some() {
        return Some("it is a server of yours, which lies where it lies");
    }
    if !(adapter.caps)(options).persistent {
        return Some("it keeps nothing on a disk");
    }
    (adapter.traits)(options).kept_running()
}

/// Rejects `on` for a candidate that cannot be placed on a file system made for the run.
fn check_on(candidate: &Candidate) -> Result<()> {
    match why_not_on(candidate.adapter, &candidate.options)
        .filter(|_| candidate.options.file_system_option().is_some())
    {
        Some(why) => bail!("cannot set `{}.on`: {why}", candidate.adapter.name),
        None => Ok(()),
    }
}

fn check_class(candidate: &Candidate) -> Result<()> {
    let classes = (candidate.adapter.caps)(&candidate.options).durability;
    match candidate.own_class() {
        Some(class) if !classes.contains(&class) => {
            let has: Vec<&str> = classes.iter().map(|class| class.name()).collect();
            bail!(
                "cannot set `{}`: the store has no class `{}`; it has {}",
                candidate.label,
                class.name(),
                has.join(", ")
            )
        }
        _ => Ok(()),
    }
}

fn check_transaction(candidate: &Candidate) -> Result<()> {
    match candidate.why_not_one_transaction().filter(|_| candidate.transaction() == Transaction::Phase) {
        Some(why) => bail!("cannot set `{}.transaction` to phase: {why}", candidate.adapter.name),
        None => Ok(()),
    }
}

/// Default URL from the environment, e.g. `BLOBWISE_POSTGRES_URL` for the family `postgres`.
fn from_environment(adapter: &Adapter, spec: &OptionSpec) -> Option<String> {
    // A URL in a manifest is not replaced.
    if !matches!(spec.values, Values::Url) || !spec.default.is_empty() {
        return None;
    }
    std::env::var(url_variable(adapter)).ok().filter(|url| !url.is_empty())
}

fn url_variable(adapter: &Adapter) -> String {
    format!("BLOBWISE_{}_URL", stores::family(adapter.name).to_uppercase())
}

fn label_of(name: &str, options: &BTreeMap<String, String>) -> String {
    if options.is_empty() {
        return name.to_owned();
    }
    let pairs: Vec<String> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{name}[{}]", pairs.join(","))
}

/// Keys that set an option: by store name, or by family name (`files.sync` for `files/flat`).
fn set_by(adapter: &Adapter, option: &str) -> [String; 2] {
    [adapter.name, stores::family(adapter.name)].map(|name| format!("{name}.{option}"))
}

fn is_given(adapter: &Adapter, option: &str, sets: &Sets) -> bool {
    set_by(adapter, option).iter().any(|name| sets.contains_key(name))
}

/// Returns the values set for an option and marks their keys as used.
fn given<'s>(
    adapter: &Adapter,
    spec: &OptionSpec,
    sets: &'s Sets,
    used: &mut std::collections::BTreeSet<String>,
) -> Option<&'s Vec<String>> {
    let names = set_by(adapter, spec.name);
    for name in &names {
        if sets.contains_key(name) {
            used.insert(name.clone());
        }
    }
    names.iter().find_map(|name| sets.get(name))
}

/// Options of a store; the flag is true for options that every store has.
fn own_and_common(adapter: &'static Adapter) -> impl Iterator<Item = (&'static OptionSpec, bool)> {
    adapter.options.iter().map(|spec| (spec, false)).chain(COMMON.iter().map(|spec| (spec, true)))
}

fn spec_of(adapter: &'static Adapter, name: &str) -> Result<&'static OptionSpec> {
    let names = || own_and_common(adapter).map(|(spec, _)| spec.name);
    let found = own_and_common(adapter).map(|(spec, _)| spec).find(|spec| spec.name == name);
    found.ok_or_else(|| unknown(&format!("option of `{}`", adapter.name), name, names()))
}

/// Explains why a `--set` applies to no candidate: an unknown store, an unknown option, or a store that is not part of this run.
fn unused_set(set: &str) -> anyhow::Error {
    let Some((store, option)) = set.rsplit_once('.') else {
        return anyhow!("--set: `{set}` is not of the form STORE.OPTION=VALUE");
    };
    let of = |adapter: &&Adapter| adapter.name == store || stores::family(adapter.name) == store;
    let members: Vec<&'static Adapter> = stores::adapters().filter(of).collect();
    let options = || members.iter().flat_map(|adapter| own_and_common(adapter).map(|(spec, _)| spec.name));
    if members.is_empty() {
        stores::unknown(store)
    } else if !options().any(|name| name == option) {
        unknown(&format!("option of `{store}`"), option, options())
    } else {
        anyhow!("`{set}` is set, but `{store}` is not among the stores of this run")
    }
}

fn is_word(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Normalizes a number with up to three decimals, so that candidates with equal values are ranked together.
fn decimal(value: &str, max: u64) -> Result<String> {
    let number: f64 = value.parse().with_context(|| format!("`{value}` is not a number"))?;
    if !(0.0..=max as f64).contains(&number) {
        bail!("`{value}` is not between 0 and {max}");
    }
    let thousandths = (number * 1000.0).round();
    if (number * 1000.0 - thousandths).abs() > 1e-6 {
        bail!("`{value}` has more than three digits after the point");
    }
    // Adding 0.0 turns -0 into 0.
    Ok((thousandths / 1000.0 + 0.0).to_string())
}

/// Error for a URL that was stored without its password.
#[derive(Debug, thiserror::Error)]
#[error("the password of this URL was not stored")]
pub struct NoPassword;

/// Normalizes a value to what adapters read: sizes become plain bytes.
fn check_value(spec: &OptionSpec, value: &str) -> Result<String> {
    let within = |number: u64, min: u64, max: u64| {
        if (min..=max).contains(&number) {
            Ok(number.to_string())
        } else {
            Err(anyhow!("`{value}` is not between {min} and {max}"))
        }
    };
    match spec.values {
        Values::OneOf(words) | Values::Server(words) if words.contains(&value) => Ok(value.to_owned()),
        Values::OneOf(words) | Values::Server(words) => Err(unknown("value", value, words.iter().copied())),
        Values::Flag if value == "true" || value == "false" => Ok(value.to_owned()),
        Values::Flag => bail!("`{value}` is neither true nor false"),
        Values::Integer { min, max } => {
            within(value.parse().with_context(|| format!("`{value}` is not a whole number"))?, min, max)
        }
        Values::Decimal { max } => decimal(value, max),
        Values::Bytes { min, max } => within(parse_bytes(value)?, min, max),
        Values::Word if is_word(value) => Ok(value.to_owned()),
        Values::Word => bail!("`{value}` is not one word of letters and digits"),
        // The value is not shown: without parsing it as a URL, its password cannot be masked.
        Values::Url if value.contains(char::is_whitespace) || value.contains(char::is_control) => {
            bail!("the URL has white space or control characters in it; write a space as %20")
        }
        Values::Url if value.is_empty() || value.contains("://") => {
            if value.contains(MASK) {
                return Err(NoPassword.into());
            }
            redact::remember(value);
            Ok(value.to_owned())
        }
        Values::FileSystem if value == spec.default => Ok(value.to_owned()),
        Values::FileSystem => file_system(value).map(|system| system.name().to_owned()),
        Values::Url => {
            bail!(
                "it is not a URL such as NAME://USER:PASSWORD@HOST (a comma in a password is written as %2C)"
            )
        }
    }
}

/// Looks up a file system that can be made for the run; the error suggests a name or says why it is unavailable.
pub fn file_system(name: &str) -> Result<FileSystem> {
    FileSystem::parse(name).map_err(|error| match error {
        NoFileSystem::Unknown => unknown("file system", name, file_systems().iter().map(String::as_str)),
        NoFileSystem::Not(why) => anyhow!("{why}"),
    })
}

/// Durability class in which a candidate runs a phase: the wanted one, or the strongest it offers below that.
pub fn class_of(candidate: &Candidate, class: Class, asked: Durability) -> Durability {
    let wanted = class_wanted(candidate.own_class(), class, asked);
    let offered = (candidate.adapter.caps)(&candidate.options).durability;
    offered.iter().copied().filter(|offered| *offered <= wanted).max().unwrap_or(Durability::None)
}

impl PlanText {
    /// Adds every baseline that is not among the stores yet.
    pub fn add_baselines(&mut self) {
        let stores = self.stores.get_or_insert_with(default_stores);
        for name in stores::baselines() {
            if !stores.iter().any(|store| store.split('[').next() == Some(name)) {
                stores.push(name.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn labels(stores: &[&str], sets: &[(&str, &[&str])]) -> Vec<String> {
        let stores: Vec<String> = stores.iter().map(|store| (*store).to_owned()).collect();
        let sets = sets.iter().map(|(name, values)| {
            ((*name).to_owned(), values.iter().map(|value| (*value).to_owned()).collect())
        });
        match candidates(&stores, &sets.collect(), true) {
            Ok((candidates, _)) => candidates.into_iter().map(|candidate| candidate.label).collect(),
            Err(error) => vec![format!("{error:#}")],
        }
    }

    #[test]
    fn a_list_makes_one_candidate_each_and_stands_in_the_label() {
        assert_eq!(labels(&["files/flat"], &[]), ["files/flat"]);
        assert_eq!(
            labels(&["files/flat"], &[("files/flat.put", &["atomic", "in-place"])]),
            ["files/flat[put=atomic]", "files/flat[put=in-place]"]
        );
        assert_eq!(labels(&["files/flat"], &[("files.put", &["in-place"])]), ["files/flat"]);
        assert_eq!(labels(&["files/hashed[width=1,depth=2]"], &[]), ["files/hashed[depth=2,width=1]"]);
    }

    #[test]
    fn what_is_unknown_is_named_with_what_was_meant() {
        assert_eq!(
            labels(&["files/flatt"], &[]),
            ["no store is called `files/flatt`; did you mean `files/flat`?"]
        );
        assert_eq!(
            labels(&["files/flat"], &[("files/flat.putt", &["atomic"])]),
            ["no option of `files/flat` is called `putt`; did you mean `put`?"]
        );
        assert_eq!(
            labels(&["files/flat"], &[("files/flat.put", &["atomicc"])]),
            ["cannot set `files/flat.put`: no value is called `atomicc`; did you mean `atomic`?"]
        );
        assert_eq!(
            labels(&["files/flat"], &[("memory.put", &["1"])]),
            [
                "no option of `memory` is called `put`; the choices are: catalogue, durability, on, transaction"
            ]
        );
        assert_eq!(labels(&["files/flat", "files/flat"], &[]), ["the candidate `files/flat` is named twice"]);
        assert_eq!(
            labels(&["files/flat"], &[("files/hashed.width", &["1"])]),
            ["`files/hashed.width` is set, but `files/hashed` is not among the stores of this run"]
        );
    }

    /// The labels of all candidates, some of which may be unavailable on this machine.
    fn ready_or_not(
        made: Result<(Vec<Candidate>, Vec<MissingCandidate>)>,
    ) -> Result<BTreeSet<String>, String> {
        let (ready, missing) = made.map_err(|error| format!("{error:#}"))?;
        let ready = ready.into_iter().map(|candidate| candidate.label);
        Ok(ready.chain(missing.into_iter().map(|missing| missing.label)).collect())
    }

    #[test]
    fn a_file_system_stands_in_the_label_of_what_lies_on_one() {
        let on = |names: &[&str]| {
            let own = |text: &&str| (*text).to_owned();
            let stores: Vec<String> = ["files/flat", "memory"].iter().map(own).collect();
            let names: Vec<String> = names.iter().map(own).collect();
            ready_or_not(candidates_on(&stores, &Sets::new(), &names, false))
        };
        let labels = |labels: &[&str]| labels.iter().map(|label| (*label).to_owned()).collect();
        assert_eq!(on(&[]), Ok(labels(&["files/flat", "memory"])));
        let each = ["files/flat[on=btrfs-raid0:2]", "files/flat[on=dir]", "memory"];
        assert_eq!(on(&["dir", "btrfs-raid0"]), Ok(labels(&each)));
        let twice = on(&["btrfs-raid0", "btrfs-raid0:2"]);
        assert_eq!(twice, Err("`on` names `btrfs-raid0:2` twice".to_owned()));
        assert!(on(&["ext5"]).is_err_and(|error| error.contains("did you mean `ext")), "{:?}", on(&["ext5"]));
    }

    #[cfg(feature = "s3")]
    #[test]
    fn the_program_of_a_private_server_stands_in_the_label() {
        let called = |sets: &[(&str, &[&str])]| {
            let set = |(name, values): &(&str, &[&str])| {
                ((*name).to_owned(), values.iter().map(|value| (*value).to_owned()).collect())
            };
            ready_or_not(candidates(&["s3".to_owned()], &sets.iter().map(set).collect(), false))
        };
        let labels = |labels: &[&str]| Ok(labels.iter().map(|label| (*label).to_owned()).collect());
        let (both, one) = (&["seaweedfs", "versitygw"][..], &["versitygw"][..]);
        assert_eq!(called(&[]), labels(&["s3[server=seaweedfs]"]));
        assert_eq!(called(&[("s3.server", one)]), labels(&["s3[server=versitygw]"]));
        assert_eq!(called(&[("s3.server", both)]), labels(&["s3[server=seaweedfs]", "s3[server=versitygw]"]));
        let url = ("s3.url", &["http://localhost/bucket"][..]);
        assert_eq!(called(&[url]), labels(&["s3"]));
        let refused = called(&[url, ("s3.server", one)]).unwrap_err();
        assert_eq!(
            refused,
            "cannot set `s3.server`: a URL names a server of yours; leave one of the two out"
        );
    }

    #[test]
    fn decimals_have_limits_and_one_way_to_be_written() {
        let checked = |values, value: &str| {
            let spec = OptionSpec { name: "some", values, default: "", about: "" };
            check_value(&spec, value).unwrap_or_else(|error| format!("{error:#}"))
        };
        let decimal = |value| checked(Values::Decimal { max: 1000 }, value);
        assert_eq!(
            ["0", "20", "20.0", "0.5", "-0", "1e3"].map(decimal),
            ["0", "20", "20", "0.5", "0", "1000"]
        );
        assert_eq!(decimal("1000.5"), "`1000.5` is not between 0 and 1000");
        assert_eq!(decimal("-1"), "`-1` is not between 0 and 1000");
        assert_eq!(decimal("NaN"), "`NaN` is not between 0 and 1000");
        assert_eq!(decimal("0.0004"), "`0.0004` has more than three digits after the point");
        assert!(decimal("20ms").starts_with("`20ms` is not a number"));
    }

    #[test]
    fn a_class_of_its_own_stands_in_the_label_and_is_one_that_the_store_has() {
        let class: &[&str] = &["each-write"];
        assert_eq!(
            labels(&["files/flat", "files/hashed"], &[("files/flat.durability", class)]),
            ["files/flat[durability=each-write]", "files/hashed"]
        );
        assert_eq!(
            labels(&["files/flat"], &[("files.durability", &["run", "each-write"])]),
            ["files/flat[durability=run]", "files/flat[durability=each-write]"]
        );
        assert_eq!(
            labels(&["files/ramdisk"], &[("files/ramdisk.durability", class)]),
            [
                "cannot set `files/ramdisk[durability=each-write]`: the store has no class `each-write`; it has none"
            ]
        );
        assert_eq!(
            labels(&["files/flat[durability=each-writes]"], &[]),
            [
                "cannot set `files/flat.durability`: no value is called `each-writes`; did you mean `each-write`?"
            ]
        );
    }

    #[cfg(feature = "mongodb")]
    #[test]
    fn a_family_is_set_by_its_name_also_where_a_store_goes_by_another() {
        let url: &[&str] = &["mongodb://localhost/"];
        assert_eq!(
            labels(&["gridfs", "mongodb/document"], &[("mongodb.url", url)]),
            ["gridfs", "mongodb/document"]
        );
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn labels_have_no_password_and_still_differ() {
        let urls: &[&str] =
            &["postgres://me:s3cret@h1/db", "postgres://me:s3cret@h2/db", "postgres://me:other@h2/db"];
        assert_eq!(
            labels(&["postgres/bytea"], &[("postgres.url", urls)]),
            [
                "postgres/bytea[url=postgres://me:***@h1/db]",
                "postgres/bytea[url=postgres://me:***@h2/db]",
                "postgres/bytea[url=postgres://me:***@h2/db] #2",
            ]
        );
        let named = "postgres/bytea[url=postgres://me:s3cret@h/db]";
        assert_eq!(labels(&[named], &[]), ["postgres/bytea[url=postgres://me:***@h/db]"]);
        let twice = "the candidate `postgres/bytea[url=postgres://me:***@h/db]` is named twice";
        assert_eq!(labels(&[named, named], &[]), [twice]);
        let masked = labels(&["postgres/bytea[url=postgres://me:***@h/db]"], &[]);
        assert!(masked[0].contains("the password of this URL was not stored"), "{masked:?}");
    }

    #[test]
    fn what_cannot_be_had_is_said_with_its_reason() {
        let refused = labels(&["mssql/filestream"], &[]);
        assert!(refused[0].contains("cannot be measured: FILESTREAM is a feature of Windows"), "{refused:?}");
    }
}
