//! Checks before anything is measured: disk space, memory for caches, the user's servers, and whether an earlier run can be
//! continued.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Resource, getrlimit};

use super::candidate_run::{Disks, images_kept, setup};
use super::ops::PlannedOp;
use super::pilot;
use super::room::{blamed, cannot_use};
use super::run_candidate::directory_name;
use super::work;
use crate::corpus::Corpus;
use crate::host::control_group::{why_no_device_limit, why_no_memory_group};
use crate::host::disk::{FileSystem, OwnDisk, free_for_images};
use crate::host::machine;
use crate::host::place::remove_tree;
use crate::host::server::SocketDir;
use crate::plan::{Candidate, CatalogueOf, Class, Length, Phase, Plan, Workload, class_of};
use crate::records::Records;
use crate::result::{CandidateResult, CorpusResult, Machine, MeasuringProgram};
use crate::rules::ROUNDS_MIN;
use crate::store::{Adapter, Common, Error, Inodes, MissingRights, Mode};
use crate::subjects::candidates;
use crate::units;

/// Space that is required for each byte of the corpus: a store may hold it and several copies of it.
const TIMES: u64 = 4;

/// Space that is required beside that, such as for logs.
const SPARE_BYTES: u64 = 64 << 20;

/// Space that a plan requires for each byte of its corpus. The longest step of ageing may leave all that it replaces where it was
/// until the store cleans up, and a rewrite makes a copy of what is there.
fn times(plan: &Plan) -> u64 {
    let actions = || plan.phases.iter().filter_map(Phase::custom_action);
    let (mut before, mut longest) = (0.0, 0.0_f64);
    for ageing in actions().filter(|action| action.ages) {
        longest = longest.max(ageing.amount - before);
        before = ageing.amount;
    }
    let copies = u64::from(actions().any(|action| action.renews));
    TIMES.max(1 + longest.ceil() as u64 + copies)
}

/// Size in bytes of a corpus of large blobs for which the directory has room.
pub fn corpus_room(dir: &Path) -> Result<u64> {
    // As much again for partly filled blocks.
    Ok(machine::room(dir)?.free_bytes.saturating_sub(2 * SPARE_BYTES) / TIMES)
}

/// Fails if the directory lacks room for one of the corpora: several copies of it, partly filled blocks of small files, and some
/// room for logs; or if it lacks inodes for the candidate that needs the most.
pub fn check_space(dir: &Path, plan: &Plan, corpora: &[Corpus]) -> Result<()> {
    let room = machine::room(dir)?;
    let here = || plan.candidates.iter().filter(|candidate| candidate.file_system().is_none());
    let shown = dir.display();
    let quota = if room.by_quota { " by a quota (`quota -s`)" } else { "" };
    // What lies in servers of the user's takes nothing here.
    let is_here = plan.candidates.iter().any(|candidate| !candidate.traits().is_external);
    let times = if is_here { times(plan) } else { 0 };
    for corpus in corpora {
        check_file_size(here(), corpus)?;
        let most = here()
            .map(|candidate| (inodes(plan, candidate, corpus), candidate))
            .max_by_key(|(all, _)| all.all);
        let blocks = most.map_or(0, |(need, _)| need.of_blobs.saturating_mul(room.block_bytes));
        let need = corpus.bytes().saturating_mul(times).saturating_add(SPARE_BYTES).saturating_add(blocks);
        if room.free_bytes < need {
            let (need, free) = (units::bytes(need as f64), units::bytes(room.free_bytes as f64));
            let fewer =
                if plan.text.grow.is_some() { "end --grow earlier" } else { "use a smaller --corpus-bytes" };
            bail!(
                "`{shown}` has {free} free{quota}, and this corpus may need {need}; {fewer}, or name another --dir"
            );
        }
        if let (Some((free, all)), Some((need, candidate))) = (room.inodes, most)
            && free < need.all
        {
            bail!(
                "`{shown}` has {free} of {all} inodes free{quota}, and `{}` may need {} for {}; {fewer}, leave it out of --stores, or \
                 name another --dir",
                candidate.label,
                need.all,
                units::counted(corpus.blobs(), "blob"),
                fewer = if plan.text.grow.is_some() { "end --grow earlier" } else { "use fewer --blobs" }
            );
        }
    }
    Ok(())
}

/// Fails if a store with one file per blob would exceed the limit of a file's size (`ulimit -f`). File sizes of other stores
/// cannot be predicted.
fn check_file_size<'a>(mut candidates: impl Iterator<Item = &'a Candidate>, corpus: &Corpus) -> Result<()> {
    let Some(most) = getrlimit(Resource::Fsize).current.filter(|most| *most < corpus.largest()) else {
        return Ok(());
    };
    let has_a_file_each = |candidate: &&Candidate| {
        let inodes = (candidate.adapter.caps)(&candidate.options).inodes;
        !candidate.traits().is_external && inodes.each_blob > 0
    };
    match candidates.find(has_a_file_each) {
        Some(candidate) => bail!(
            "`ulimit -f` lets no file have more than {}, and `{}` puts a blob of {} into one; raise that limit, or use smaller blobs",
            units::bytes(most as f64),
            candidate.label,
            units::bytes(corpus.largest() as f64)
        ),
        None => Ok(()),
    }
}

/// Upper bound on the inodes of a candidate, including copies that a phase makes; 0 for a server of the user's.
#[derive(Clone, Copy, Debug, Default)]
struct NeededInodes {
    all: u64,
    /// Inodes of blobs and of their directories, each of which takes at least one block.
    of_blobs: u64,
}

fn inodes(plan: &Plan, candidate: &Candidate, corpus: &Corpus) -> NeededInodes {
    if candidate.traits().is_external {
        return NeededInodes::default();
    }
    let copies = 1 + plan.phases.iter().map(|phase| work::for_phase(phase).copies(phase)).sum::<u64>();
    let stores = if plan.is_one_for_each_client(candidate) { plan.clients as u64 } else { 1 };
    let inodes = (candidate.adapter.caps)(&candidate.options).inodes;
    let of = |inodes: Inodes| inodes.needed_for(corpus.blobs()).saturating_mul(copies).saturating_mul(stores);
    NeededInodes { all: of(inodes), of_blobs: of(Inodes { beside: 0, ..inodes }) }
}

/// A file system that a plan has made for the run, with the size of its images.
#[derive(Clone, Debug)]
pub struct Image {
    /// Type of the file system.
    pub system: FileSystem,
    /// Bytes of each image.
    pub bytes: u64,
    /// Upper bound on the inodes of its candidates.
    pub inodes: u64,
    /// Number of copies that are kept of it for later rounds, besides one of the fresh file system; 0 if none are.
    pub copies: u64,
    copy_bytes: u64,
}

impl Image {
    /// Upper bound on the bytes of its images and all their copies.
    fn all_bytes(&self) -> u64 {
        self.bytes.saturating_mul(self.system.devices() as u64).saturating_add(self.copy_bytes)
    }

    /// Notes the copies that are kept of it: one of everything, and for each image of a candidate what can differ from that.
    fn count_copies(&mut self, plan: &Plan) {
        let own = plan
            .candidates
            .iter()
            .filter(|candidate| candidate.options.file_system_option() == Some(self.system.name()));
        self.copies = own.map(|candidate| images_kept(plan, candidate)).sum();
        let whole = self.bytes.saturating_mul(self.system.devices() as u64);
        let part = (whole as f64 * self.system.changing_share(plan.fill)) as u64;
        let fresh = if self.copies > 0 { whole } else { 0 };
        self.copy_bytes = part.saturating_mul(self.copies).saturating_add(fresh);
    }
}

/// Returns the file systems that the candidates of a plan lie on, each once, in the order of candidates, with images that have
/// room for the largest corpus. Fails if `dir` has no room for the images.
pub fn images(plan: &Plan, corpora: &[Corpus], dir: &Path) -> Result<Vec<Image>> {
    /// For what a store writes besides the blobs, mainly its logs.
    const SPARE_BYTES: u64 = 256 << 20;
    /// For a server's own files and its log, which vendors let grow to 1 GiB.
    const SPARE_BYTES_SERVER: u64 = 2 << 30;
    /// Block size of these file systems, which is the least that a file takes.
    const BLOCK_BYTES: u64 = 4096;
    let corpus_bytes = corpora.iter().map(Corpus::bytes).max().unwrap_or(0);
    let mut images: Vec<Image> = Vec::new();
    for candidate in &plan.candidates {
        let Some(system) = candidate.file_system() else { continue };
        let spare = if candidate.traits().has_process { SPARE_BYTES_SERVER } else { SPARE_BYTES };
        let needed = || corpora.iter().map(|corpus| inodes(plan, candidate, corpus));
        let inodes = needed().map(|needed| needed.all).max().unwrap_or(0);
        let blocks = needed().map(|needed| needed.of_blobs).max().unwrap_or(0).saturating_mul(BLOCK_BYTES);
        let room = corpus_bytes.saturating_mul(times(plan)).saturating_add(spare).saturating_add(blocks);
        let bytes = system.device_bytes((room as f64 / (1.0 - system.filled(plan.fill))) as u64);
        match images.iter_mut().find(|image| image.system.name() == system.name()) {
            Some(image) => {
                (image.bytes, image.inodes) = (image.bytes.max(bytes), image.inodes.max(inodes));
            }
            None => images.push(Image { system, bytes, inodes, copies: 0, copy_bytes: 0 }),
        }
    }
    check_asked(plan, &images)?;
    images.iter_mut().for_each(|image| image.count_copies(plan));
    check_room(&images, dir)?;
    Ok(images)
}

fn check_room(images: &[Image], dir: &Path) -> Result<()> {
    let sum = |bytes: fn(&Image) -> u64| images.iter().map(bytes).fold(0, u64::saturating_add);
    let (all, copies) = (sum(Image::all_bytes), sum(|image| image.copies));
    let free = free_for_images(dir)?;
    if all <= free {
        return Ok(());
    }
    let names: Vec<&str> = images.iter().map(|image| image.system.name()).collect();
    let (with, fewer) = match copies {
        0 => (String::new(), ""),
        _ => (
            format!(" with the {copies} images that are kept of aged stores"),
            "fewer ages (--age) or stores (--stores), `--rounds 1`, which keeps none, ",
        ),
    };
    bail!(
        "`{}` has {} for images, and those of {} take {}{with}: name fewer file systems, {fewer}a smaller corpus (--corpus-bytes, \
         --scale) or another --dir",
        dir.display(),
        units::bytes(free as f64),
        names.join(", "),
        units::bytes(all as f64)
    )
}

/// Fails if options for own file systems are set but there are none, or if this machine cannot limit devices.
fn check_asked(plan: &Plan, images: &[Image]) -> Result<()> {
    let asked = [("--device-limit", plan.device_limit.is_some()), ("--fill", plan.fill > 0.0)];
    if let Some((flag, _)) = asked.iter().find(|(_, is_asked)| *is_asked && images.is_empty()) {
        bail!("`{flag}` is for file systems that are made for the run: name some with --on");
    }
    match why_no_device_limit().filter(|_| plan.device_limit.is_some()) {
        Some(why) => {
            bail!("--device-limit: {why:#}; or, as fast as the disk below is, `--device-limit none`")
        }
        None => Ok(()),
    }
}

/// Fails if the caches would make the machine swap.
pub fn check_memory(plan: &Plan, corpus: &Corpus) -> Result<()> {
    const SHARE_MAX: f64 = 0.75;
    let Some(cache) = plan.cache.map(|cache| cache.bytes(corpus.bytes())) else { return Ok(()) };
    let memory = machine::memory_bytes();
    if memory > 0 && cache as f64 > SHARE_MAX * memory as f64 {
        bail!(
            "`cache` gives each store {}, and this machine has {} of memory, of which three quarters are the limit; use a smaller \
             cache, or a smaller corpus (--scale, --corpus-bytes)",
            units::bytes(cache as f64),
            units::bytes(memory as f64)
        );
    }
    Ok(())
}

/// Fails if memory is to be limited and this machine cannot do that, or if a candidate's server is not under blobwise's control.
pub fn check_limits(plan: &Plan) -> Result<()> {
    if !plan.limits_memory() {
        return Ok(());
    }
    if let Some(why) = why_no_memory_group() {
        // `--memory none` does not lift the limits of phases; only the plan can drop those.
        let or = if plan.memory.is_some() {
            "; or, with all the memory that the machine has, `--memory none`"
        } else {
            ""
        };
        bail!("{why:#}{or}");
    }
    let kept = |candidate: &Candidate| candidate.traits().kept_running();
    match plan.candidates.iter().find_map(|candidate| Some((candidate, kept(candidate)?))) {
        Some((candidate, why)) if plan.memory.is_some() => {
            bail!("--memory: cannot limit `{}`: {why}; leave out one of them", candidate.label)
        }
        _ => Ok(()),
    }
}

/// Fails if a list of ops would fill the memory. The whole list of a phase is made before its first op, so that nothing is drawn
/// on the clock.
pub fn check_lists(plan: &Plan) -> Result<()> {
    const SHARE_MAX: f64 = 0.25;
    let room = SHARE_MAX * machine::memory_bytes() as f64;
    for phase in &plan.phases {
        let Some(Workload { length: Length::Ops(count), .. }) = phase.load() else { continue };
        let bytes = *count as f64 * plan.scale * size_of::<PlannedOp>() as f64;
        if room > 0.0 && bytes > room {
            bail!(
                "phase `{}`: a list of `count = {count}` ops takes {}, and a quarter of this machine's memory is {}; give it a smaller \
                 `count`, or `seconds`, which repeats a list",
                phase.id,
                units::bytes(bytes),
                units::bytes(room)
            );
        }
    }
    Ok(())
}

/// Fails if replays at the speed of a log take longer than the budget. Whether faster ones do is known after the pilot only.
pub fn check_replays(plan: &Plan, corpora: &[Corpus]) -> Result<()> {
    let Some(budget) = plan.budget else { return Ok(()) };
    let log_seconds: f64 = corpora.iter().filter_map(|corpus| Some(corpus.log.as_ref()?.seconds())).sum();
    let visits = plan.candidates.len() as f64 * f64::from(plan.rounds.unwrap_or(ROUNDS_MIN));
    let of = |speed: f64| log_seconds / speed * visits;
    let all: f64 = plan.phases.iter().filter_map(Phase::speed).map(of).sum();
    if all <= budget.as_secs_f64() {
        return Ok(());
    }
    // Half of the budget is left for all else.
    let times = (2.0 * all / budget.as_secs_f64()).ceil();
    let fits = plan.phases.iter().filter_map(Phase::speed).fold(0.0, f64::max) * times;
    bail!(
        "the log takes {}, and its replays by every candidate in {} rounds {}, more than the budget ({}): replay it with --speed {fits} or \
         --speed max, or give a larger --budget",
        units::seconds(log_seconds),
        plan.rounds.unwrap_or(ROUNDS_MIN),
        units::seconds(all),
        units::seconds(budget.as_secs_f64())
    );
}

/// Fails if a phase has batches larger than every corpus of the run.
pub fn check_batches(plan: &Plan, corpora: &[Corpus]) -> Result<()> {
    let most = corpora.iter().map(Corpus::blobs).max().unwrap_or(0);
    for phase in plan.phases.iter().filter(|phase| phase.writes()) {
        let batch = phase.load().map_or(1, |load| plan.batch_of(load) as u64);
        if batch > most {
            bail!(
                "phase `{}`: a batch of {batch} is whole, and there are {most} blobs; use a smaller batch, or more blobs (--blobs, --scale)",
                phase.id
            );
        }
    }
    Ok(())
}

/// Fails if a store cannot work in its directory because of the file system, be that the run's directory or a file system made
/// for it.
pub fn check_places(plan: &Plan, place: &Path, disks: &Disks) -> Result<()> {
    let dir_bytes = place.parent().map_or(0, |dir| dir.as_os_str().len());
    for candidate in &plan.candidates {
        let disk = candidate.options.file_system_option().and_then(|on| disks.get(on));
        let place = disk.map_or(place, OwnDisk::path);
        check_path(plan, candidate, place, dir_bytes)?;
        check_file_system_of(candidate, place, &plan.dir)?;
    }
    let starts_servers =
        |candidate: &Candidate| !candidate.adapter.programs.is_empty() && candidate.url().is_none();
    if plan.candidates.iter().any(starts_servers) {
        // Fails if there is no directory for their sockets.
        SocketDir::make("")?;
    }
    Ok(())
}

/// Fails if a store cannot work in `place`, below the --dir `dir`, because of the file system.
pub fn check_file_system_of(candidate: &Candidate, place: &Path, dir: &Path) -> Result<()> {
    match (candidate.adapter.needs.of_place)(place) {
        Some(why) => Err(why.context(format!(
            "the store `{}` cannot be in `{}`; name another place with --dir, or leave it out",
            candidate.label,
            dir.display()
        ))),
        None => Ok(()),
    }
}

/// A path may have 4,095 bytes; the rest is for what stores make in their directories.
const PATH_BYTES_MAX: usize = 4_095 - 255;

/// Most bytes that the path of a store's directory may have for its program and for the system.
pub fn path_bytes_max(adapter: &Adapter) -> usize {
    (adapter.needs.dir_bytes_max)().unwrap_or(PATH_BYTES_MAX)
}

/// Fails if the path of a candidate's directory, which would have `bytes` bytes, has more than `bytes_max`. `way_out` says what to
/// name instead.
pub fn check_path_bytes(candidate: &Candidate, bytes: usize, bytes_max: usize, way_out: &str) -> Result<()> {
    ensure!(
        bytes <= bytes_max,
        "the path of the directory of `{}` would have {bytes} bytes, and may have {bytes_max}: {way_out}",
        candidate.label
    );
    Ok(())
}

/// Fails if the path of a candidate's directory in `place` would be too long for its program or for the system. The path of --dir
/// has `dir_bytes`.
fn check_path(plan: &Plan, candidate: &Candidate, place: &Path, dir_bytes: usize) -> Result<()> {
    let is_theirs = candidate.url().is_some();
    let mut most = if is_theirs { PATH_BYTES_MAX } else { path_bytes_max(candidate.adapter) };
    if let (true, Ok(CatalogueOf::Apart(adapter))) =
        (plan.phases.iter().any(Phase::has_uploads), candidate.catalogue())
    {
        most = most.min(path_bytes_max(adapter));
    }
    // The directory of the last possible round, with `.restored` beside it or `/.catalogue` in it.
    let bytes = place.join(directory_name(&candidate.label, 10_000)).as_os_str().len() + 11;
    let left = (dir_bytes + most).saturating_sub(bytes);
    let way_out = format!(
        "name a --dir of at most {left} bytes (this one has {dir_bytes}), or leave it out of --stores"
    );
    check_path_bytes(candidate, bytes, most, &way_out)
}

/// Opens and removes a store on every server that a candidate names by URL, so that a wrong URL or password, an old server or a
/// low limit is an error before the run rather than a failed candidate in it. Missing rights are reported for all candidates at
/// once.
pub fn check_servers(plan: &Plan, corpora: &[Corpus], place: &Path) -> Result<()> {
    let Some(largest) = corpora.iter().max_by_key(|corpus| corpus.largest()) else { return Ok(()) };
    let mut missing: Vec<(&str, &str, MissingRights)> = Vec::new();
    for (candidate, url) in plan.candidates.iter().filter_map(|candidate| Some((candidate, candidate.url()?)))
    {
        let dir = place.join("check");
        std::fs::create_dir(&dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
        let outcome = check_server(plan, largest, place, &dir, candidate);
        remove_tree(&dir)?;
        let lacks = match outcome.map_err(|error| error.downcast::<MissingRights>()) {
            Ok(()) => continue,
            Err(Ok(lacks)) => lacks,
            Err(Err(error)) => return Err(blamed(error, &candidate.label, url)),
        };
        match missing.iter_mut().find(|(_, other, all)| *other == url && all.user == lacks.user) {
            Some((_, _, all)) => all.join(lacks),
            None => missing.push((&candidate.label, url, lacks)),
        }
    }
    let lines: Vec<String> =
        missing.iter().map(|(label, url, lacks)| format!("{}: {lacks}", cannot_use(label, url))).collect();
    ensure!(lines.is_empty(), "{}", lines.join("\n"));
    Ok(())
}

fn check_server(plan: &Plan, corpus: &Corpus, place: &Path, dir: &Path, candidate: &Candidate) -> Result<()> {
    let class = class_of(candidate, Class::Asked, plan.durability);
    let common = Common::new(place.join("cache"));
    let setup = setup(
        plan,
        corpus,
        candidate.adapter,
        dir,
        &common,
        &candidate.options,
        class,
        Mode::Create,
        machine::memory_bytes(),
    );
    // Unwraps the store's error, so that the caller can recognize [`MissingRights`] by its type.
    let store = (candidate.adapter.open)(&setup).map_err(|error| match error {
        Error::Failed(error) => error,
        other => other.into(),
    })?;
    // A server may have fewer connections for this user than the run will open.
    let sessions = (0..setup.workers).map(|_| store.session());
    let sessions = sessions.collect::<Result<Vec<_>, _>>().map(drop);
    store.remove()?;
    Ok(sessions?)
}

// ---- continuing an earlier run -----------------------------------------------------------------------------------

/// Returns the first difference in program, machine, candidates or corpora that makes an earlier run's rounds incomparable with
/// new ones; `None` if they can be combined. `corpora` are the planned ones, before the pilot reduces them.
pub fn difference(
    earlier: &Records,
    program: &MeasuringProgram,
    machine: &Machine,
    plan: &Plan,
    corpora: &[Corpus],
) -> Option<String> {
    let mut before = conditions((&earlier.program, &earlier.machine));
    for corpus in &earlier.corpora {
        let CorpusResult { blobs, bytes, largest_bytes, quantiles, sampled_from, digest, .. } = corpus;
        before.extend(of_corpus([*blobs, *bytes, *largest_bytes], quantiles, *sampled_from, digest));
    }
    let mut now = conditions((program, machine));
    for corpus in pilot::cut(corpora, earlier.fixed.corpus_share) {
        let sizes = [corpus.blobs(), corpus.bytes(), corpus.largest()];
        now.extend(of_corpus(sizes, &corpus.quantiles(), corpus.sampled_from, &corpus.digest));
    }
    first_difference(before, now).or_else(|| other_candidate(&earlier.candidates, &candidates(plan)))
}

/// Returns the first difference in program or machine that makes the figures of two runs incomparable.
pub fn other_conditions(before: MeasuringSystem<'_>, now: MeasuringSystem<'_>) -> Option<String> {
    first_difference(conditions(before), conditions(now))
}

fn first_difference(before: Vec<Condition>, now: Vec<Condition>) -> Option<String> {
    let differs = |((_, before), (_, now)): &(Condition, Condition)| before != now;
    let ((what, before), (_, now)) = before.into_iter().zip(now).find(differs)?;
    Some(format!("{what} was {before} and is {now}"))
}

/// Returns the first candidate that is not the same store as before: one that came or went, or whose options changed, such as a
/// URL from the environment.
pub fn other_candidate(earlier: &[CandidateResult], now: &[CandidateResult]) -> Option<String> {
    let pairs = now
        .iter()
        .filter_map(|now| Some((earlier.iter().find(|candidate| candidate.store == now.store)?, now)));
    pairs.into_iter().find_map(|(before, now)| {
        let label = &now.store;
        if before.is_here() != now.is_here() {
            let why = now.reason.as_ref().map_or(String::new(), |why| format!(": {why}"));
            return Some(match now.is_here() {
                true => format!("`{label}` was not available and is"),
                false => format!("`{label}` was available and is not{why}"),
            });
        }
        let differs = |(name, value): &(&String, &String)| before.options.get(*name) != Some(*value);
        let (name, value) = now.options.iter().find(differs)?;
        let before = before.options.get(name).map_or("", String::as_str);
        Some(format!("`{label}` had {name} `{before}` and has `{value}`"))
    })
}

type Condition = (&'static str, String);

type MeasuringSystem<'a> = (&'a MeasuringProgram, &'a Machine);

fn conditions((program, machine): MeasuringSystem<'_>) -> Vec<Condition> {
    let user = if machine.root { "root" } else { "another than root" };
    // A result cites the program that measured it by its hash.
    let hash = program.sha256.as_ref().map_or(String::new(), |hash| format!(", SHA-256 {hash}"));
    vec![
        ("blobwise", format!("version {} ({} build{hash})", program.version, program.build)),
        ("the processor", machine.processor.clone()),
        ("the number of processors", machine.processors.to_string()),
        ("the kernel", machine.kernel.clone()),
        ("the file system", machine.filesystem.clone()),
        ("the C library", machine.libc.clone().unwrap_or_else(|| "unknown".to_owned())),
        ("what changes its libraries", machine.library_settings()),
        ("the device", machine.device.clone().unwrap_or_else(|| "unknown".to_owned())),
        ("the user", user.to_owned()),
        ("the side of workers and servers", machine.sides()),
    ]
}

/// Properties of a corpus: blobs, bytes and largest blob, quantiles, the set it was sampled from, and the digest of real files.
fn of_corpus(
    [blobs, bytes, largest]: [u64; 3],
    quantiles: &BTreeMap<String, u64>,
    sampled_from: Option<(u64, u64)>,
    digest: &Option<String>,
) -> [Condition; 4] {
    let quantiles: Vec<String> = quantiles.iter().map(|(name, bytes)| format!("{name} {bytes} B")).collect();
    let choice = match sampled_from {
        Some((files, bytes)) => format!("from {} ({bytes} B)", units::counted(files, "file")),
        None => "all".to_owned(),
    };
    [
        ("the corpus", format!("{} ({bytes} B, the largest {largest} B)", units::counted(blobs, "blob"))),
        ("the distribution of sizes", quantiles.join(", ")),
        ("the choice of files", choice),
        ("the digest of names and contents", digest.clone().unwrap_or_else(|| "unknown".to_owned())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::work::resolved;
    #[cfg(feature = "redis")]
    use crate::plan::MissingCandidate;
    use crate::result::ProcessorSplit;
    use crate::store::Options;

    fn planned(blobs: u64) -> Plan {
        let text = format!("stores = ['files/flat']\n[corpus]\nsource = 'fixed:100'\nblobs = {blobs}");
        resolved(&text)
    }

    #[test]
    fn copies_of_aged_images_need_room_for_all_but_the_files_that_fill_the_disk() {
        let mut plan = resolved(
            "stores = ['files/hashed']\nage = '0,0.5,2'\nphases = ['fill', 'read-warm']\nrounds = 2",
        );
        let mut values = plan.candidates[0].options.values().clone();
        values.insert("on".to_owned(), "ext4@50%".to_owned());
        plan.candidates[0].options = Options::new(values);
        let system = FileSystem::parse("ext4@50%").unwrap();
        let mut image = Image { system, bytes: 1 << 30, inodes: 0, copies: 0, copy_bytes: 0 };
        image.count_copies(&plan);
        // The image, a whole copy of it before, and one of three fifths after the fill and at two ages each: of the four fifths that
        // files have at least, half is filled.
        assert_eq!((image.copies, image.all_bytes()), (3, 2 * (1 << 30) + 3 * 644_245_094));
        image.bytes = 1 << 60;
        let error = check_room(&[image.clone()], Path::new(".")).unwrap_err().to_string();
        assert!(error.contains("with the 3 images that are kept of aged stores"), "{error}");
        // One round alone needs no copy.
        plan.rounds = Some(1);
        image.count_copies(&plan);
        assert_eq!((image.copies, image.all_bytes()), (0, 1 << 60));
    }

    #[test]
    fn rounds_of_other_blobs_machines_and_programs_are_not_joined() {
        let plan = planned(40);
        let program = MeasuringProgram {
            version: "1.0".into(),
            build: "release".into(),
            ..MeasuringProgram::default()
        };
        let machine = Machine { kernel: "6.1".into(), device: Some("sda".into()), ..Machine::default() };
        let mut earlier = Records::new(candidates(&plan), program.clone(), machine.clone());
        earlier.fixed.corpus_share = 0.5;
        earlier.corpora = pilot::cut(&plan.build_corpora().unwrap(), 0.5)
            .iter()
            .map(|corpus| CorpusResult {
                blobs: corpus.blobs(),
                bytes: corpus.bytes(),
                quantiles: corpus.quantiles(),
                largest_bytes: corpus.largest(),
                ..CorpusResult::default()
            })
            .collect();
        let same = plan.build_corpora().unwrap();
        assert_eq!(difference(&earlier, &program, &machine, &plan, &same), None);
        let larger = difference(&earlier, &program, &machine, &plan, &planned(44).build_corpora().unwrap());
        let text =
            "the corpus was 20 blobs (2000 B, the largest 100 B) and is 22 blobs (2200 B, the largest 100 B)";
        assert_eq!(larger.as_deref(), Some(text));
        let debug = MeasuringProgram { build: "debug".into(), ..program.clone() };
        let text = "blobwise was version 1.0 (release build) and is version 1.0 (debug build)";
        assert_eq!(difference(&earlier, &debug, &machine, &plan, &same).as_deref(), Some(text));
        let elsewhere = Machine { device: None, ..machine.clone() };
        let text = "the device was sda and is unknown";
        assert_eq!(difference(&earlier, &program, &elsewhere, &plan, &same).as_deref(), Some(text));
        let upgraded = Machine { libc: Some("glibc 2.41".into()), ..machine.clone() };
        let text = "the C library was unknown and is glibc 2.41";
        assert_eq!(difference(&earlier, &program, &upgraded, &plan, &same).as_deref(), Some(text));
        let sides = ProcessorSplit { workers: vec![0], servers: vec![1] };
        let apart = Machine { pinned: Some(sides), ..machine.clone() };
        let text = "the side of workers and servers was any processor and is workers on 0, servers on 1";
        assert_eq!(difference(&earlier, &program, &apart, &plan, &same).as_deref(), Some(text));
        let root = Machine { root: true, ..machine };
        let text = "the user was another than root and is root";
        assert_eq!(difference(&earlier, &program, &root, &plan, &same).as_deref(), Some(text));
    }

    #[test]
    fn a_long_step_of_ageing_and_a_rewrite_need_more_room() {
        let of = |more: &str| times(&resolved(&format!("stores = ['files/flat']\n{more}")));
        assert_eq!(of("phases = ['fill', 'age', 'rejuvenate']"), TIMES);
        assert_eq!(of("age = '0..8'\nphases = ['fill', 'read-warm']"), 5);
        assert_eq!(of("age = '0..8'\nphases = ['fill', 'read-warm', 'rejuvenate']"), 6);
        assert_eq!(of("age = '0,8'\nphases = ['fill', 'read-warm']"), 9);
    }

    #[test]
    #[cfg(feature = "redis")]
    fn rounds_of_other_servers_are_not_joined() {
        let of = |url: &str| resolved(&format!("stores = ['redis']\nset = {{ 'redis.url' = '{url}' }}"));
        let differs = |before: &Plan, now: &Plan| other_candidate(&candidates(before), &candidates(now));
        let (here, there) = (of("redis://here"), of("redis://u:secret@there"));
        assert_eq!(differs(&here, &here), None);
        assert_eq!(differs(&there, &there), None);
        let text = "`redis` had url `redis://u:***@there` and has `redis://here`";
        assert_eq!(differs(&there, &here).as_deref(), Some(text));
        let mut gone = of("redis://here");
        gone.candidates.clear();
        gone.missing.push(MissingCandidate {
            label: "redis".to_owned(),
            adapter: "redis".to_owned(),
            reason: "no `redis-server`".to_owned(),
        });
        let text = "`redis` was available and is not: no `redis-server`";
        assert_eq!(differs(&here, &gone).as_deref(), Some(text));
        assert_eq!(differs(&gone, &here).as_deref(), Some("`redis` was not available and is"));
        assert_eq!(differs(&gone, &gone), None);
    }
}
