//! Wording of the warnings: the figure, what it means, and what to try.

use std::fmt::Write;

use crate::corpus::CorpusId;
use crate::result::{
    AffectedPhase, AffectedPhases, Anomaly, CandidateShare, Cause, ComparisonSource, DisturbedRounds,
    DroppedRounds, FlushDoubt, ForeignActivity, ReplacedFlushes, RoundAnomalies, Speed, Warning,
};
use crate::rules::{
    COLD_BLOBS_SERVERS, LIMIT_AHEAD_S, LIMIT_AHEAD_SHARE, PROCESSOR_CACHE_TIMES, PUT_OFF_MS_MAX,
    PUT_OFF_MS_MIN, VERDICT_ROUNDS,
};
use crate::units::{self, bytes, counted, nanoseconds, seconds};

/// Words a warning, without what to try.
pub fn of_warning(warning: &Warning) -> String {
    of_machine(warning)
        .or_else(|| of_run(warning))
        .or_else(|| of_places(warning))
        .unwrap_or_else(|| of_figures(warning))
}

/// Returns the first sentence of a warning, which names the problem.
pub fn in_short(warning: &Warning) -> String {
    let whole = of_warning(warning);
    match whole.split_once(". ") {
        Some((first, _)) => format!("{first}."),
        None => whole,
    }
}

/// Returns what to try about a warning, as a sentence.
pub fn suggestion(warning: &Warning) -> Option<String> {
    suggested_command(warning).map(|hint| format!("Try: {hint}."))
}

/// Returns what would remove a warning: commands and flags only.
pub fn suggested_command(warning: &Warning) -> Option<String> {
    let text = match warning {
        Warning::DebugBuild => "`cargo build --release`",
        Warning::Preloaded { .. } => "`env -u LD_PRELOAD -u LD_AUDIT blobwise run`",
        Warning::Tmpfs { .. } => "another `--dir`, on a disk",
        Warning::Flushes { doubts } => {
            // A container's layer cannot be mounted again with other options.
            let is_mounted = |doubt: &FlushDoubt| matches!(doubt, FlushDoubt::NotPassedOn { layers } if !layers.iter().any(|layer| layer.starts_with("overlay")));
            match doubts.iter().any(is_mounted) {
                true => "`mount -o remount,barrier`, or `--dir` on another disk",
                false => "a `--dir` on a disk of this machine",
            }
        }
        Warning::NoJournal => "a `--dir` on a file system with a journal",
        Warning::Lukewarm => "`sudo blobwise run`, without `--no-drop-caches`",
        Warning::CorpusInMemory { memory_bytes, .. } => {
            return Some(format!("`--corpus-bytes {}`", bytes(2.0 * *memory_bytes as f64).replace(' ', "")));
        }
        Warning::ProcessorCache { cache_bytes, .. } => {
            // 10 % more, because whole blobs do not fill it to the last byte, and the warning should not appear again.
            let enough = (1.1 * PROCESSOR_CACHE_TIMES * *cache_bytes as f64 / 1e6).ceil();
            return Some(format!("`--corpus-bytes {enough}MB`"));
        }
        Warning::Budget { slowest: Some((store, _)), .. } => {
            return Some(format!("a larger `--budget`, or `--stores` without `{store}`"));
        }
        Warning::Budget { .. } | Warning::BudgetSpent { .. } => "a larger `--budget`",
        Warning::FewRounds { .. } => "`--rounds 5`",
        Warning::Incomplete { .. } => "`blobwise run --resume DIR`",
        Warning::OverBudget { .. } => "fewer `--stores` or `--phases`",
        Warning::TooShort { is_cut_short: true, .. } => {
            return Some(format!("`--blobs {COLD_BLOBS_SERVERS}` with a larger `--budget`"));
        }
        Warning::TooShort { .. } => "more `--blobs`, or `--rounds 5`",
        Warning::AheadOfLimit { .. } => "more `--blobs`, or a larger `--scale` of a plan",
        Warning::Waking { is_awake: false, .. } => "`sudo blobwise run --awake`",
        Warning::Awake { .. } => "`blobwise run` without `--awake`",
        Warning::UnequalMemory { .. } => "`--memory`, and the plan without `cache`",
        Warning::OwnCache { .. } => "the plan without `cache`",
        Warning::Resident { .. } => "`--corpus-bytes` above the store's cache",
        Warning::Retries { .. } => "fewer `--workers`",
        Warning::Timeouts { .. } => "a longer `--op-timeout`",
        Warning::WakeLate { .. } => "`blobwise run` without `--rate`",
        Warning::SameBlob { .. } => "`order = \"once\"` in the plan's phase",
        Warning::NotSettled { .. } => "`blobwise run` without the URL",
        _ => return None,
    };
    Some(text.to_owned())
}

/// Words the injection of libraries; the first sentence names the flushing functions that they replace.
pub fn preloaded(settings: &[String], replaced: &[ReplacedFlushes]) -> String {
    let settings = settings.join(" ");
    if replaced.is_empty() {
        return format!(
            "Libraries are loaded into blobwise from outside ({settings}). They may change what a write or a flush does in stores that run \
             inside blobwise. Servers that it starts do not get them, unless `/etc/ld.so.preload` names them."
        );
    }
    let of_one =
        |of: &ReplacedFlushes| format!("`{}` replaces {}", of.library, units::listed(&of.functions, "and"));
    let of_all: Vec<String> = replaced.iter().map(of_one).collect();
    let who = match replaced.iter().any(|of| of.in_servers) {
        true => "and so in the servers that it starts",
        false => "and not in the servers that it starts",
    };
    format!(
        "Libraries are loaded into blobwise from outside ({settings}): {}. What stores flush inside blobwise may never reach the disk; \
         this holds inside blobwise, {who}.",
        units::listed(&of_all, "and")
    )
}

/// Words the doubts about flushes: one sentence that starts with `begin` and gives the first reason, and a sentence for
/// each other reason.
pub fn doubted(begin: &str, doubts: &[FlushDoubt]) -> String {
    let one = |doubt: &FlushDoubt| match doubt {
        FlushDoubt::NotPassedOn { layers } => {
            format!("{} is mounted so that it passes no flush on", units::listed(layers, "and"))
        }
        FlushDoubt::TooQuick { p50_ns } => {
            format!("half of the flushes took {} or less, and no device is so fast", nanoseconds(*p50_ns))
        }
        FlushDoubt::NotKnown { layers } => {
            format!("what lies below it cannot be seen ({})", layers.join(" on "))
        }
    };
    let mut all = doubts.iter().map(one);
    let first = all.next().unwrap_or_default();
    all.fold(format!("{begin}: {first}."), |said, more| format!("{said} Also, {more}."))
}

// ---- the machine, and the run ------------------------------------------------------------------------------------

fn of_machine(warning: &Warning) -> Option<String> {
    let text = match warning {
        Warning::DebugBuild => {
            "This is a debug build: the harness and the embedded stores are many times slower than they are."
        }
        Warning::Clock => {
            "The processor's counter is not invariant here. The system's clock is used, which costs more to read."
        }
        Warning::Preloaded { settings, replaced } => return Some(preloaded(settings, replaced)),
        Warning::Tmpfs { layers } => {
            let layers = if layers.is_empty() { "tmpfs".to_owned() } else { layers.join(" on ") };
            return Some(format!(
                "The measured directory lies in memory ({layers}): nothing here says anything about a disk. A power cut takes all of it."
            ));
        }
        Warning::Flushes { doubts } => {
            return Some(format!(
                "{} Nothing that a flush should keep is promised to outlive a power cut.",
                doubted("What a flush keeps here is not known", doubts)
            ));
        }
        Warning::NoJournal => {
            "The file system is ext4 without a journal, which makes new files the more slowly, the more were deleted in the last \
             minutes. Overwrites and deletes of files slow what follows them."
        }
        Warning::VirtualMachine => {
            "This is a virtual machine: its neighbours and its host's caches are not seen from inside."
        }
        Warning::Lukewarm => {
            "Cold phases are lukewarm: the kernel's caches of inodes and dentries cannot be dropped. Files are not ranked against \
             databases in them."
        }
        Warning::HostCache => {
            "Cold reads are cold for this system only. Blocks that were read a moment ago come back from the device in under half the \
             time: something below it keeps a cache, such as the host of this virtual machine. Ratios bear it better than times."
        }
        Warning::HostCacheUnknown => "Whether something below the device keeps a cache could not be tested.",
        Warning::Noise { share } => {
            return Some(format!(
                "Something else used {} of the processors before the run.",
                percent(*share)
            ));
        }
        Warning::ProcessorCache { corpus_bytes, cache_bytes } => {
            return Some(format!(
                "The corpus ({}) is less than {PROCESSOR_CACHE_TIMES} times the processor's cache ({}): warm reads of whole blobs \
                 come in part from there. With more data they take longer, those of the fastest stores most.",
                bytes(*corpus_bytes as f64),
                bytes(*cache_bytes as f64)
            ));
        }
        Warning::CorpusInMemory { corpus_bytes, memory_bytes } => {
            return Some(format!(
                "The corpus ({}) fits into memory ({}): warm reads come from there. Cold reads do not.",
                bytes(*corpus_bytes as f64),
                bytes(*memory_bytes as f64)
            ));
        }
        _ => return None,
    };
    Some(text.to_owned())
}

fn of_run(warning: &Warning) -> Option<String> {
    let text = match warning {
        Warning::Budget { corpus_share, rounds, cold_is_short, slowest } => {
            let gave = of_budget(*corpus_share, rounds.as_ref(), *cold_is_short);
            match slowest {
                Some((store, share)) => format!("{gave} `{store}` takes {} of a round.", percent(*share)),
                None => gave,
            }
        }
        Warning::OneForEachClient { clients, stores } => format!(
            "Each of {clients} clients had a store of its own with all blobs, and their rates are added up: {}. It says nothing of one \
             store that {clients} clients share.",
            stores.join(", ")
        ),
        Warning::BudgetSpent { rounds } => format!(
            "The budget was spent after {}: the machine was slower than in the pilot.",
            counted(*rounds, "round")
        ),
        Warning::OtherVersion { store, change } => {
            format!("`{store}` changed while the run went on ({change}): its rounds are of both.")
        }
        Warning::Weaker { store, why } => format!("`{store}`: {why}"),
        Warning::Steal { share } => format!(
            "The host gave {:.1} % of the processor time to others while the run went on.",
            share * 100.0
        ),
        Warning::FewRounds { rounds: 0 | 1 } => {
            "There is one round: nothing can be said about repetition, and nothing is ranked.".to_owned()
        }
        Warning::FewRounds { rounds } => format!(
            "There are {rounds} rounds. Below {VERDICT_ROUNDS} nobody leads and no place is recommended."
        ),
        Warning::Incomplete { rounds: 0 } => "The run was ended early: all rounds are missing.".to_owned(),
        Warning::Incomplete { rounds } => {
            let wide = if *rounds < VERDICT_ROUNDS { ": intervals are wide" } else { "" };
            format!("The run was ended early, after {}{wide}.", counted(*rounds, "round"))
        }
        Warning::OverBudget { asked_seconds, took_seconds } => format!(
            "The run took {} instead of {}: what was under way when the budget was spent took the rest.",
            seconds(*took_seconds),
            seconds(*asked_seconds)
        ),
        _ => return None,
    };
    Some(text)
}

fn of_budget(corpus_share: Option<f64>, rounds: Option<&DroppedRounds>, cold_is_short: bool) -> String {
    let mut gave: Vec<String> = Vec::new();
    gave.extend(corpus_share.map(|share| format!("the corpus was cut to {} of its blobs", percent(share))));
    gave.extend(rounds.map(|cut| format!("rounds were cut from {} to {}", cut.wanted, cut.made)));
    gave.extend(cold_is_short.then(|| "cold phases are short".to_owned()));
    let mut said: Vec<String> = Vec::new();
    if !gave.is_empty() {
        said.push(format!("To keep to the budget {}.", gave.join(" and ")));
    }
    if let Some(cut) = rounds {
        let stays = if cut.size_stands { ", and the size of the corpus was asked for" } else { "" };
        let (rounds, time) = (counted(cut.wanted, "round"), seconds(cut.wanted_seconds));
        said.push(format!("{rounds} would take about {time}{stays}."));
    }
    said.join(" ")
}

/// Returns by how much the burst of a device limit raises figures.
pub fn ahead_by(share_max: f64) -> String {
    match share_max {
        all if all >= 1.0 => "100 % and more".to_owned(),
        some => format!("{} at most", percent(some)),
    }
}

// ---- figures -----------------------------------------------------------------------------------------------------

/// Words warnings about phases of some candidates; `None` for others.
fn of_places(warning: &Warning) -> Option<String> {
    let (text, places) = match warning {
        Warning::TooShort { places, .. } => ("Too short to be ranked: {}.".to_owned(), places),
        Warning::AheadOfLimit { places, share_max } => (
            format!(
                "A limit of devices gives out up to {LIMIT_AHEAD_S} s of its rate in advance. What is over in less than {} s is the \
                 faster for it, and more so on several devices, each with a share of the work; by {}: {{}}.",
                LIMIT_AHEAD_S / LIMIT_AHEAD_SHARE,
                ahead_by(*share_max)
            ),
            places,
        ),
        Warning::HarnessShare { places } => {
            ("The harness is more than 10 % of an op: the stores are faster than shown in {}.".to_owned(), places)
        }
        Warning::ClientBound { places } => {
            ("Not ranked, because more than 30 % of an op is the harness: {}.".to_owned(), places)
        }
        Warning::Resident { places } => (
            "Not cold, though everything was evicted, because the store reads its data when it is opened: {}."
                .to_owned(),
            places,
        ),
        Warning::StillInMemory { places } => {
            ("Part of the data stayed in the page cache after eviction: {}.".to_owned(), places)
        }
        Warning::Retries { attempts, places } => (
            format!(
                "{} made again because a store was busy or had closed the connection: {{}}.",
                were(*attempts, "attempt")
            ),
            places,
        ),
        Warning::CacheMisses { answers, places } => (
            format!(
                "{} not in the cache that stands before the blobs and came from behind it: {{}}.",
                were(*answers, "answer")
            ),
            places,
        ),
        Warning::SlowClient { client, share, places } => (
            format!(
                "Client {client} was slower than the others, down to {:.0} % of the median client's rate: {{}}.",
                share * 100.0
            ),
            places,
        ),
        Warning::Timeouts { ops, places } => (
            format!("{} given up because a store did not answer in time: {{}}.", were(*ops, "op")),
            places,
        ),
        Warning::NotSettled { places } => (
            "For your own server, writes are timed until acknowledged; those of other candidates until all put-off work is done ({})."
                .to_owned(),
            places,
        ),
        _ => of_waits(warning)?,
    };
    Some(text.replacen("{}", &listed(places), 1))
}

/// Words warnings about what ops waited for; `None` for others.
fn of_waits(warning: &Warning) -> Option<(String, &Vec<AffectedPhases>)> {
    Some(match warning {
        Warning::Waking { places, far_ns, near_ns, .. } => (
            format!(
                "At least a third of each op is CPU wake-up latency: {{}}. A byte to a thread on another processor and back takes {}, and \
                 {} on the same one. Stores inside the process do not wait for that.",
                nanoseconds(*far_ns),
                nanoseconds(*near_ns)
            ),
            places,
        ),
        Warning::PutOff { places } => (
            format!(
                "Half of the reads take {PUT_OFF_MS_MIN} to {PUT_OFF_MS_MAX} ms, as long as the kernel puts off an acknowledgement: {{}}. Unless \
                 the server is so far away, it holds back the end of an answer (Nagle's rule) and is faster with `TCP_NODELAY`."
            ),
            places,
        ),
        Warning::WakeLate { places } => (
            "Workers woke late for their ops by more than 10 % of the median response: {}. Response times this short are better \
             measured in a closed loop."
                .to_owned(),
            places,
        ),
        _ => return None,
    })
}

fn of_figures(warning: &Warning) -> String {
    match warning {
        Warning::Awake { far_ns, near_ns } => format!(
            "The processors were asked not to sleep (`--awake`): a byte to a thread on another and back took {}, and {} on the same \
             one. Where they sleep, other processes answer later.",
            nanoseconds(*far_ns),
            nanoseconds(*near_ns)
        ),
        Warning::UseOfBytes { touched, copied } => format!(
            "The winner depends on what is done with the bytes: {} when one byte of each cache line is read, {} when all are copied. \
             Decide by the one that is like your program.",
            touched.join(", "),
            copied.join(", ")
        ),
        Warning::Distance => "Distance was made by a proxy that delays and does nothing else. A real network also begins slowly \
                            (about 14 kB in the first round trip), loses packets and has a limited bandwidth. What is large or comes \
                            over many connections is slower there than here."
            .to_owned(),
        Warning::SameBlob { phases } => format!(
            "Every op of {} asks for one and the same blob: caches of every kind answer, down to the processor's.",
            phases.join(", ")
        ),
        Warning::CaughtUp { shares } => of_caught_up(shares),
        Warning::ComparedInCache { copies } => of_copies(copies),
        Warning::UnequalMemory { cache_bytes, corpus_bytes, held, not_held } => format!(
            "Memory was not equal in warm reads. Of {} of blobs each store's own cache held {} at most. Beside that the kernel held the \
             files of {}, and hardly those of {}, which read the device instead.",
            bytes(*corpus_bytes as f64),
            bytes(*cache_bytes as f64),
            held.join(", "),
            not_held.join(", ")
        ),
        Warning::OwnCache { cache_bytes } => format!(
            "Each store's own cache is {}, as the plan says, and not the share of its memory that its vendor says: what this ranks may \
             be the caches.",
            bytes(*cache_bytes as f64)
        ),
        Warning::ReadsMore { shares, read_ahead_bytes } => of_reads_more(shares, *read_ahead_bytes),
        Warning::Compressible { deflate_ratio } => format!(
            "The blobs are compressible ({deflate_ratio:.1} times by deflate): stores that compress do better here than with images or \
             archives."
        ),
        Warning::Drift { what, low_ns, high_ns } => of_drift(*what, *low_ns, *high_ns),
        Warning::Disturbed(disturbed) => format!(
            "Some rounds were disturbed: run again at a quieter time. {}",
            of_rounds(disturbed)
        ),
        Warning::RepeatedRounds(disturbed) => format!(
            "Measured again for all candidates, because they were disturbed; what was measured first is in no figure. {}",
            of_rounds(disturbed)
        ),
        // All other warnings are handled by the functions above.
        _ => String::new(),
    }
}

/// Words excess reads from the device, with the kernel's read-ahead.
fn of_reads_more(shares: &[CandidateShare], read_ahead_bytes: Option<u64>) -> String {
    let list: Vec<String> =
        shares.iter().map(|share| format!("{} ({:.1} times)", share.store, share.share)).collect();
    let ahead = read_ahead_bytes.map_or(String::new(), |ahead| {
        format!(" The kernel reads up to {} ahead on this device (`read_ahead_kb`).", bytes(ahead as f64))
    });
    format!(
        "With little memory, more was read from the device than was asked for: {}.{ahead}",
        list.join(", ")
    )
}

fn of_caught_up(shares: &[CandidateShare]) -> String {
    let list: Vec<String> =
        shares.iter().map(|own| format!("{}: {}", own.store, percent(own.share))).collect();
    format!(
        "Work that was not due yet, such as compacting, was done between phases and is in no rate. Its time as a share of that of the \
         phases that write: {}.",
        list.join(", ")
    )
}

fn of_copies(copies: &[ComparisonSource]) -> String {
    let list: Vec<String> =
        copies.iter().map(|copy| format!("{} ({})", copy.stores.join(", "), copy.from.name())).collect();
    format!(
        "Every blob was compared, but perhaps with what a cache had, and not with what is on the device: {}.",
        list.join("; ")
    )
}

fn of_drift(what: Speed, low_ns: f64, high_ns: f64) -> String {
    let (what, op) = match what {
        Speed::Processor => ("The processor", "a null op"),
        Speed::Flush => ("The device", "a flush"),
        Speed::Read => ("The device", "a direct read of 4 KiB"),
        Speed::Trip => ("The way from processor to processor", "a byte to a thread on another and back"),
    };
    format!(
        "{what} changed its speed during the run: {op} took from {} to {}. Ratios are paired by round and bear it; times do not.",
        nanoseconds(low_ns),
        nanoseconds(high_ns)
    )
}

// ---- disturbed rounds --------------------------------------------------------------------------------------------

/// Returns a sentence per round, and one for the activity of other programs in most rounds.
fn of_rounds(disturbed: &DisturbedRounds) -> String {
    let mut sentences: Vec<String> = disturbed.rounds.iter().map(of_round).collect();
    if let Some(usual) = &disturbed.usual {
        let rounds: Vec<String> = disturbed.usual_rounds.iter().map(u32::to_string).collect();
        sentences.push(format!("Rounds {}: {}.", rounds.join(", "), of_others(usual)));
    }
    sentences.join(" ")
}

fn of_round(odd: &RoundAnomalies) -> String {
    let again = if odd.again { ", measured again" } else { "" };
    let seen: Vec<String> = odd.seen.iter().map(of_seen).collect();
    format!("Round {}{again}: {}.", odd.round, seen.join("; "))
}

fn of_seen(seen: &Anomaly) -> String {
    match seen {
        Anomaly::Processor { times } => format!(
            "a fixed piece of work took the processor {} times as long as in the other rounds",
            factor(*times)
        ),
        Anomaly::MostCandidates { phase, corpus_id, low, high } => format!(
            "most candidates took {} to {} times as long in {} as in their other rounds, so that it was the machine",
            factor(*low),
            factor(*high),
            at(phase, *corpus_id)
        ),
        Anomaly::Candidate { store, phase, corpus_id, causes } => {
            let causes: Vec<String> = causes.iter().filter_map(of_cause).collect();
            format!("{store} in {} {}", at(phase, *corpus_id), causes.join(" and "))
        }
        Anomaly::More { candidates } => format!("{candidates} more like these"),
        Anomaly::Others(others) => of_others(others),
    }
}

/// Words evidence about one candidate. Evidence that concerns all candidates is worded separately.
fn of_cause(cause: &Cause) -> Option<String> {
    match cause {
        Cause::Far { times } => Some(format!("took {} times as long as in its other rounds", factor(*times))),
        Cause::ReadsDevice { read_bytes, delivered_bytes, cached } => {
            let cached = if *cached { ", and was in the page cache afterwards" } else { "" };
            Some(format!(
                "read {} from the device for {} of blobs, though all had been read before{cached}",
                bytes(*read_bytes as f64),
                bytes(*delivered_bytes as f64)
            ))
        }
        Cause::OthersIo { .. } | Cause::Processor { .. } => None,
    }
}

fn of_others(others: &ForeignActivity) -> String {
    let of = |what: &str, moved: u64| (moved > 0).then(|| format!("{what} {}", bytes(moved as f64)));
    let done: Vec<String> =
        [of("read", others.read_bytes), of("wrote", others.written_bytes)].into_iter().flatten().collect();
    let mut text =
        format!("other programs {} on the same disk during {}", done.join(" and "), others.phases.join(", "));
    if others.perhaps_for_us {
        // Writing to a string cannot fail.
        write!(text, " (in part, perhaps, what they lost when cold passes dropped the kernel's caches)").ok();
    }
    text
}

// ---- parts -------------------------------------------------------------------------------------------------------

fn listed(places: &[AffectedPhases]) -> String {
    let phase = |partly: &AffectedPhase| match partly.in_part {
        true => format!("{} in part", partly.phase),
        false => partly.phase.clone(),
    };
    let one = |place: &AffectedPhases| {
        let phases: Vec<String> = place.phases.iter().map(phase).collect();
        let candidates =
            if place.every_candidate { "every candidate".to_owned() } else { place.stores.join(", ") };
        format!("{} ({candidates})", phases.join(", "))
    };
    places.iter().map(one).collect::<Vec<String>>().join("; ")
}

fn at(phase: &str, corpus_id: CorpusId) -> String {
    match corpus_id.bytes() {
        Some(size) => format!("{phase} at {}", bytes(size as f64)),
        None => phase.to_owned(),
    }
}

fn were(number: u64, thing: &str) -> String {
    format!("{} {}", counted(number, thing), if number == 1 { "was" } else { "were" })
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn factor(times: f64) -> String {
    if times >= 10.0 { format!("{times:.0}") } else { format!("{times:.2}") }
}
