//! What a run will do on the user's own servers, and whether they have the room for it. The servers are only queried, before
//! anything is created there.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Result, anyhow};

use super::candidate_run::setup;
use super::work;
use crate::corpus::{BlobSource, Corpus, CorpusSpecification};
use crate::host::machine;
use crate::plan::{Candidate, CatalogueOf, Class, Length, OpKind, Phase, Plan, class_of, defaults};
use crate::redact;
use crate::store::{
    Adapter, Common, Demand, Durability, Error, Intent, LimitUnit, Mode, Options, ServerLimit,
};
use crate::units;

/// Upper bound on the bytes of a catalog's row, with its keys.
const CATALOGUE_ROW_BYTES: u64 = 512;

struct UserServerStore {
    label: String,
    adapter: &'static Adapter,
    options: Options,
    class: Durability,
    is_catalogue: bool,
}

impl UserServerStore {
    /// Returns the store of a candidate and its catalog, those of them that are on servers of the user's.
    fn for_candidate(plan: &Plan, candidate: &Candidate) -> Vec<UserServerStore> {
        let class = class_of(candidate, Class::Asked, plan.durability);
        let (label, options) = (candidate.label.clone(), candidate.options.clone());
        let mut guests =
            vec![UserServerStore { label, adapter: candidate.adapter, options, class, is_catalogue: false }];
        if let (true, Ok(CatalogueOf::Apart(adapter))) =
            (plan.phases.iter().any(Phase::has_uploads), candidate.catalogue())
        {
            let label = format!("the catalogue of {}", candidate.label);
            guests.push(UserServerStore {
                label,
                adapter,
                options: defaults(adapter),
                class,
                is_catalogue: true,
            });
        }
        guests.retain(|guest| guest.url().is_some());
        guests
    }

    fn url(&self) -> Option<&str> {
        self.adapter.url(&self.options)
    }

    fn shown_url(&self) -> String {
        redact::without_passwords(self.url().unwrap_or_default())
    }

    /// Returns what the store will put on its server, for a corpus of which it keeps values of these `sizes`.
    fn demand<'a>(&self, plan: &Plan, corpus: &Corpus, sizes: &'a [u64]) -> Demand<'a> {
        let loads = || plan.phases.iter().filter_map(Phase::load);
        let workers = loads().filter_map(|load| load.workers).max().unwrap_or(1).max(plan.workers);
        let batch = loads().map(|load| plan.batch_of(load)).max().unwrap_or(1).max(1);
        let has_uploads = !self.is_catalogue && plan.phases.iter().any(Phase::has_uploads);
        let workers = (workers * plan.clients) as u64;
        let times: f64 = plan.phases.iter().map(|phase| writes(phase, plan, corpus)).sum();
        // Each phase of ageing continues where the previous one ended, so that the largest amount counts.
        let ageing = plan.phases.iter().filter_map(Phase::custom_action).filter(|action| action.ages);
        let aged = ageing.map(|action| action.amount).fold(0.0, f64::max);
        Demand {
            sizes,
            copies: 1 + u64::from(has_uploads),
            resizes: aged > 0.0 && !self.is_catalogue,
            // A catalog's row is written twice per upload: when it is added and when it changes.
            writes: if self.is_catalogue { 2.0 } else { (times + aged).max(1.0) },
            // One more connection sets up the store and administers it.
            connections: workers + 1,
            under_way: workers * batch as u64,
        }
    }

    /// Returns the sizes of the values that the store keeps; for a catalog, those of its rows.
    fn sizes(&self, corpus: &Corpus) -> Vec<u64> {
        match self.is_catalogue {
            true => vec![CATALOGUE_ROW_BYTES; corpus.sizes.len()],
            false => corpus.sizes.iter().map(|size| u64::from(*size)).collect(),
        }
    }

    /// Queries the server. `None` if the adapter has no such query.
    fn ask(&self, plan: &Plan, corpus: &Corpus, place: &Path) -> Result<Option<Intent>> {
        let Some(ask) = self.adapter.needs.of_server else { return Ok(None) };
        let common = Common::new(place.join("cache"));
        let memory = machine::memory_bytes();
        let (options, mode) = (&self.options, Mode::Create);
        let setup = setup(plan, corpus, self.adapter, place, &common, options, self.class, mode, memory);
        ask(&setup).map(Some).map_err(Into::into)
    }

    fn check(&self, plan: &Plan, intent: &Intent, corpus: &Corpus) -> Result<()> {
        let sizes = self.sizes(corpus);
        let demand = self.demand(plan, corpus, &sizes);
        match intent.limits.iter().find(|room| !room.fits(&demand)) {
            Some(room) => Err(no_room(plan, room, &demand, self.size_that_fits(plan, room, &demand))),
            None => Ok(()),
        }
    }

    /// Returns a size for `--corpus-bytes` that fits. A synthetic corpus of that size is built and checked, because it has blobs of
    /// other sizes than the first ones of a larger corpus.
    fn size_that_fits(&self, plan: &Plan, room: &ServerLimit, demand: &Demand<'_>) -> Option<String> {
        let mut bytes: u64 = demand.sizes[..room.blobs_that_fit(demand)].iter().sum();
        let [planned] = plan.corpora.as_slice() else { return fewer_bytes(bytes) };
        loop {
            let named = fewer_bytes(bytes)?;
            if !matches!(planned.request.source, BlobSource::Synthetic { .. }) {
                return Some(named);
            }
            let bytes_max = Some(units::parse_bytes(&named).ok()?);
            let request = CorpusSpecification { blobs_max: None, bytes_max, ..planned.request.clone() };
            let corpus = Corpus::build(&request).ok()?;
            let sizes = self.sizes(&corpus);
            if room.fits_easily(&self.demand(plan, &corpus, &sizes)) {
                return Some(named);
            }
            bytes = bytes * 4 / 5;
        }
    }

    fn blamed(&self, error: anyhow::Error) -> anyhow::Error {
        blamed(error, &self.label, self.url().unwrap_or_default())
    }
}

/// Names the server of the user behind an error. One that is silent may be another service, which waits to be spoken to. The error
/// is kept in any case: it may say what is left on the server, and how to remove it.
pub(super) fn blamed(error: anyhow::Error, label: &str, url: &str) -> anyhow::Error {
    let is_silence = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        matches!(io, Some(ErrorKind::WouldBlock | ErrorKind::TimedOut))
            || matches!(cause.downcast_ref::<Error>(), Some(Error::TimedOut))
    };
    let is_silent = error.chain().any(is_silence);
    let silence =
        if is_silent { ", which did not answer within --op-timeout (is it such a server?)" } else { "" };
    error.context(format!("{}{silence}", cannot_use(label, url)))
}

/// Begins an error about a server of the user.
pub(super) fn cannot_use(label: &str, url: &str) -> String {
    format!("`{label}` cannot use the server at `{}`", redact::without_passwords(url))
}

/// Upper bound on how often a phase writes the whole corpus. 0.0 for ageing, which is counted separately.
fn writes(phase: &Phase, plan: &Plan, corpus: &Corpus) -> f64 {
    let Some(load) = phase.load() else {
        let writes = phase.custom_action().is_some_and(|action| action.writes && !action.ages);
        return if writes { work::for_phase(phase).times_written(corpus) } else { 0.0 };
    };
    let puts = |kind: OpKind| matches!(kind, OpKind::Put | OpKind::Overwrite | OpKind::Register);
    let share: f64 = load.mix.iter().filter(|(kind, _)| puts(*kind)).map(|(_, share)| share).sum();
    match load.length {
        Length::Share(times) => share * times,
        // A mix may write the same blob many times, and a step of a growth writes a part of them.
        Length::Ops(ops) if load.mix.len() > 1 || phase.grown_to.is_some() => {
            share * ops as f64 * plan.scale / corpus.sizes.len().max(1) as f64
        }
        Length::Ops(_) | Length::Seconds(_) | Length::Pilot => share,
    }
}

/// Fails if the server of a candidate does not have room for this corpus.
pub fn check(plan: &Plan, candidate: &Candidate, corpus: &Corpus, place: &Path) -> Result<()> {
    for guest in UserServerStore::for_candidate(plan, candidate) {
        let asked = guest.ask(plan, corpus, place).and_then(|intent| match intent {
            Some(intent) => guest.check(plan, &intent, corpus),
            None => Ok(()),
        });
        asked.map_err(|error| guest.blamed(error))?;
    }
    Ok(())
}

/// Returns the error for a limit that a demand exceeds; `fits` is a size of the corpus that stays below it, if there is one.
fn no_room(plan: &Plan, room: &ServerLimit, demand: &Demand<'_>, fits: Option<String>) -> anyhow::Error {
    let (left, takes) = (amount(room.unit, room.left), amount(room.unit, (room.takes)(demand)));
    let fewer = match fits {
        // In a sweep, each size has a corpus of its own.
        Some(bytes) if plan.corpora.len() == 1 => format!("use `--corpus-bytes {bytes}`, or "),
        Some(_) => "use fewer blobs (--scale), or ".to_owned(),
        None => String::new(),
    };
    let [puts, others] = match room.unit {
        LimitUnit::Connections => [format!("opens up to {takes}"), "other clients".to_owned()],
        _ => [format!("puts up to {takes} there"), "other writes".to_owned()],
    };
    anyhow!(
        "the server has {left} left of {}, and {} when that is full. This run {puts}, and {} of what is left must stay free for \
         {others}: {fewer}{}",
        room.limit,
        room.when_full,
        units::percent(1.0 - ServerLimit::SHARE_MAX),
        room.way_out
    )
}

/// Formats 90 % of `bytes` as the value of a flag; `None` below 1 kB.
fn fewer_bytes(bytes: u64) -> Option<String> {
    const SPARE: f64 = 0.9;
    let bytes = bytes as f64 * SPARE;
    [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")].into_iter().find_map(|(unit, name)| {
        let tenths = (bytes / unit * 10.0).floor();
        (tenths >= 10.0).then(|| {
            format!("{}{name}", if tenths < 100.0 { tenths / 10.0 } else { (tenths / 10.0).floor() })
        })
    })
}

fn amount(unit: LimitUnit, amount: u64) -> String {
    match unit {
        LimitUnit::Bytes => units::bytes(amount as f64),
        LimitUnit::Inodes => units::counted(amount, "inode"),
        LimitUnit::Connections => units::counted(amount, "connection"),
    }
}

// ---- announcement before a run -----------------------------------------------------------------------------------

/// What a run will do on one server of the user's.
struct Announcement {
    labels: Vec<String>,
    url: String,
    makes: String,
    pronoun: &'static str,
    live_bytes: u64,
    connections: u64,
    /// The demand on each limit of bytes, with the limit.
    rooms: Vec<(u64, ServerLimit)>,
    unknown: Option<String>,
    written_bytes: u64,
    carriers: Vec<String>,
}

/// Returns one sentence per server of the user's on what the run will do there. Fails if a server cannot be queried or lacks
/// room.
pub fn announced(plan: &Plan, corpora: &[Corpus], place: &Path) -> Result<Vec<String>> {
    let Some(largest) = corpora.iter().max_by_key(|corpus| corpus.largest()) else { return Ok(Vec::new()) };
    let mut all: Vec<Announcement> = Vec::new();
    for guest in plan.candidates.iter().flat_map(|candidate| UserServerStore::for_candidate(plan, candidate))
    {
        let asked = guest.ask(plan, largest, place).and_then(|intent| {
            let Some(intent) = intent else { return Ok(()) };
            for corpus in corpora {
                guest.check(plan, &intent, corpus)?;
            }
            add(&mut all, plan, corpora, &guest, intent);
            Ok(())
        });
        asked.map_err(|error| guest.blamed(error))?;
    }
    Ok(all.iter().map(Announcement::sentence).collect())
}

/// Merges a store's demand into the entry of its server, or adds an entry.
fn add(
    all: &mut Vec<Announcement>,
    plan: &Plan,
    corpora: &[Corpus],
    guest: &UserServerStore,
    intent: Intent,
) {
    let sizes: Vec<Vec<u64>> = corpora.iter().map(|corpus| guest.sizes(corpus)).collect();
    let each = corpora.iter().zip(&sizes);
    let demands: Vec<Demand<'_>> = each.map(|(corpus, sizes)| guest.demand(plan, corpus, sizes)).collect();
    let most = |of: &dyn Fn(&Demand<'_>) -> u64| demands.iter().map(of).max().unwrap_or(0);
    let url = guest.shown_url();
    let of_bytes = intent.limits.into_iter().filter(|room| room.unit == LimitUnit::Bytes);
    let rooms = of_bytes.map(|room| (most(&room.takes), room)).collect();
    let mut other = Announcement {
        labels: vec![format!("`{}`", guest.label)],
        url,
        makes: intent.makes,
        pronoun: intent.pronoun,
        live_bytes: most(&|demand| demand.live_bytes()),
        connections: most(&|demand| demand.connections),
        rooms,
        unknown: intent.unknown,
        written_bytes: demands.iter().map(|demand| demand.written(|bytes| bytes)).sum(),
        carriers: intent.carriers,
    };
    let known = all.iter_mut().find(|known| known.url == other.url && known.makes == other.makes);
    let Some(known) = known else { return all.push(other) };
    known.labels.append(&mut other.labels);
    // Candidates use the server one after the other, so that the largest demand counts.
    known.live_bytes = known.live_bytes.max(other.live_bytes);
    known.connections = known.connections.max(other.connections);
    known.written_bytes += other.written_bytes;
    for (known, (takes, _)) in known.rooms.iter_mut().zip(&other.rooms) {
        known.0 = known.0.max(*takes);
    }
}

impl Announcement {
    fn sentence(&self) -> String {
        let mut text = format!(
            "{} at `{}`: {}, loads up to {} by {}, removes {}",
            units::listed(&self.labels, "and"),
            self.url,
            self.makes,
            units::bytes(self.live_bytes as f64),
            units::counted(self.connections, "connection"),
            self.pronoun
        );
        for (takes, room) in &self.rooms {
            let [takes, left] = [*takes, room.left].map(|of| amount(room.unit, of));
            text += &format!("; takes up to {takes} of the {left} left of {}", room.limit);
            if room.may_evict {
                text += &format!(", and if that is full, the server {}, others' among them", room.when_full);
            }
        }
        if !self.carriers.is_empty() {
            let written = units::bytes(self.written_bytes as f64);
            let carriers = units::listed(&self.carriers, "and");
            text += &format!("; what it writes, up to {written} a round, also goes to {carriers}");
        }
        let what =
            if self.rooms.is_empty() { "how much room it has" } else { "whether it has that much room" };
        text +=
            &self.unknown.as_ref().map_or_else(String::new, |why| format!("; {what} is not known: {why}"));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_silent_is_told_from_one_that_refuses() {
        let io = |kind: ErrorKind| anyhow::Error::new(std::io::Error::from(kind)).context("cannot connect");
        let said = |error| format!("{:#}", blamed(error, "redis", "redis://:secret@h"));
        for silent in
            [io(ErrorKind::WouldBlock), io(ErrorKind::TimedOut), anyhow::Error::new(Error::TimedOut)]
        {
            let said = said(silent);
            assert!(said.contains("did not answer within --op-timeout"), "{said}");
            assert!(!said.contains("secret") && !said.ends_with('?'), "{said}");
        }
        let left = std::io::Error::from(ErrorKind::TimedOut);
        let kept = said(anyhow::Error::new(left).context("remove them by hand: DROP SCHEMA ours"));
        assert!(kept.contains("(is it such a server?): remove them by hand: DROP SCHEMA ours: "), "{kept}");
        assert!(said(io(ErrorKind::ConnectionRefused)).contains("`redis://:***@h`: cannot connect: "));
    }

    #[test]
    fn a_size_for_a_flag_is_a_little_less_than_what_fits() {
        for (bytes, flag) in [
            (4_900_000, Some("4.4MB")),
            (1_200_000, Some("1MB")),
            (69_000_000, Some("62MB")),
            (2_000_000_000, Some("1.8GB")),
            (1_110_000, Some("999kB")),
            (1000, None),
            (0, None),
        ] {
            assert_eq!(fewer_bytes(bytes).as_deref(), flag, "{bytes}");
        }
    }
}
