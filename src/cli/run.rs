//! `blobwise run`: turns flags into a plan, and a plan into a result with reports.

use crate::engine::work::ResolvePlan;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use sha2::{Digest, Sha256};

use super::disk::system;
use super::judging::JudgingFlags;
use super::out::{OutputDirectory, check_out, check_writable};
use super::progress::{Progress, Verbosity};
use super::signals::Signals;
use super::{CommandOutcome, eprint, page_through, preview, print, say_where_a_bus_error_leaves};
use crate::corpus::{BLOBS_NEEDED, Corpus, as_flag};
use crate::engine::candidate_run::Disks;
use crate::engine::clients::Clients;
use crate::engine::preflight::{
    Image, check_batches, check_limits, check_lists, check_memory, check_places, check_replays,
    check_servers, check_space, corpus_room, difference, images,
};
use crate::engine::room::announced;
use crate::engine::run::{Start, run};
use crate::engine::work::standard;
use crate::host::cleanup_watchdog::CleanupWatchdog;
use crate::host::control_group::why_no_memory_group;
use crate::host::disk::{OwnDisk, own_mounts, why_not_mounted};
use crate::host::machine;
use crate::host::place::{Place, check_parent};
use crate::host::processors::ProcessorSplit;
use crate::judge::answer::costs;
use crate::judge::summary::summarize;
use crate::plan::{
    ALL_PHASES, Candidate, CorpusText, DEFAULT_PHASES, DEFAULT_PHASES_TIGHT, ExpandedFamilies, NoPassword,
    OneOrMany, PREVIEW_SCALE, Phase, Plan, PlanText, split_list, split_pair, with_families,
};
use crate::records::Records;
use crate::redact;
use crate::report;
use crate::result::recent::RUNS;
use crate::result::{ClaimVerdict, MeasuringProgram, Pricing, RunResult, Status, replace};
use crate::trace::Reading;
use crate::units;

/// Flags of the command: keys of a plan, and what only a run has.
#[derive(Debug, Default, Args)]
#[command(
    allow_negative_numbers = true,
    mut_arg("phases", |arg| arg.help("Run these phases, such as fill,read-warm").long_help(phases_of_help()))
)]
pub struct RunFlags {
    /// Run this plan: a file, or a name of `blobwise list plans`
    pub plan: Option<String>,
    #[command(flatten, next_help_heading = "Blobs")]
    corpus: CorpusText,
    /// Use only these of the plan's corpora
    #[arg(long, value_name = "A,B", help_heading = "Blobs")]
    corpora: Option<String>,
    #[command(flatten)]
    keys: PlanText,
    /// Measure the baselines too, which are never ranked
    ///
    /// They are a bare loop (null), memory, reads by fopen and malloc (fopen), and the device itself (raw)
    #[arg(long, help_heading = "Places")]
    baselines: bool,
    /// Set an option of a store, such as sqlite.page_size=4096
    ///
    /// A list of values makes one candidate each
    #[arg(long, value_name = "STORE.OPTION=VALUE[,VALUE]", help_heading = "Places")]
    set: Vec<String>,
    #[command(flatten, next_help_heading = "Recommendation")]
    pub judging: JudgingFlags,
    /// Answer in 30 s by writes, warm and cold reads
    ///
    /// Of 400 blobs, which a processor's cache may hold, or 32 MB of your files. Few rounds show only clear differences
    #[arg(long, conflicts_with_all = ["plan", "phases", "grow", "age", "sweep", "memory_sweep", "trace"], help_heading = "Length")]
    quick: bool,
    /// Run a plan too small for some of its claims
    #[arg(long, help_heading = "Length")]
    preview: bool,
    /// Write plan, result and report here [default: blobwise-runs/<time>]
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub out: Option<PathBuf>,
    /// Continue the run in this directory
    ///
    /// It keeps its plan; only --preview, --tables, --fail-on-refuted, --quiet, --no-live and --verbose go with it
    #[arg(long, value_name = "DIR", value_parser = super::run_path(), help_heading = "Results")]
    pub resume: Option<PathBuf>,
    /// End after one round that was not measured yet, to be gone on with by --resume (for `blobwise compare --plan`)
    #[arg(long, hide = true)]
    one_round: bool,
    /// Print all tables, the answer in words and all warnings
    #[arg(long, help_heading = "Results")]
    pub tables: bool,
    /// Exit with 1 if a claim of the plan is refuted
    #[arg(long, help_heading = "Results")]
    pub fail_on_refuted: bool,
    /// Print only the report, no progress
    #[arg(long, conflicts_with = "verbose", help_heading = "Results")]
    pub quiet: bool,
    /// Print progress as plain lines, as in a pipe
    ///
    /// Otherwise a terminal shows where the candidates stand after each round
    #[arg(long, help_heading = "Results")]
    no_live: bool,
    /// Print every phase, and the share of time on the clock
    #[arg(long, help_heading = "Results")]
    verbose: bool,
    /// Ops of the plan's phase `load` (a flag of `blobwise page`)
    #[arg(skip)]
    loads: Option<u64>,
}

impl RunFlags {
    /// Returns the flags of the shipped plan `page` with common changes: keys of the plan, output directory, number of loads, and
    /// progress output.
    pub fn for_page(
        keys: PlanText,
        out: Option<PathBuf>,
        loads: Option<u64>,
        (quiet, no_live): (bool, bool),
    ) -> RunFlags {
        RunFlags { plan: Some("page".to_owned()), keys, out, loads, quiet, no_live, ..RunFlags::default() }
    }

    /// Returns the flags for one plan of a collection, with the conditions of the collection and its amount of output.
    pub fn for_member(of: &RunFlags, text: &PlanText, plan: String, out: PathBuf) -> RunFlags {
        RunFlags {
            plan: Some(plan),
            out: Some(out),
            keys: PlanText { plans: Vec::new(), name: None, about: None, ..text.clone() },
            preview: of.preview,
            tables: of.tables,
            quiet: of.quiet,
            no_live: of.no_live,
            verbose: of.verbose,
            ..RunFlags::default()
        }
    }
}

/// Help text of `--phases`: the default phases and all others.
fn phases_of_help() -> String {
    let listed = |phases: Vec<&str>| phases.join(", ");
    let is_tight = |id: &&str| DEFAULT_PHASES_TIGHT.contains(id) && !DEFAULT_PHASES.contains(id);
    let tight = listed(DEFAULT_PHASES_TIGHT.iter().copied().filter(is_tight).collect());
    let all = standard();
    let others = all.iter().map(|phase| phase.id).filter(|id| !ALL_PHASES.contains(id)).collect();
    format!(
        "Run these phases, separated by commas\n\nBy default {}; where memory can be limited also {tight}. `all` stands for {}; `read` \
         for all whose names begin with read-, and so on. There are also {}",
        listed(DEFAULT_PHASES.to_vec()),
        listed(ALL_PHASES.to_vec()),
        listed(others),
    )
}

/// Carries out one run.
pub fn single(flags: &RunFlags, clients: Option<&Clients>) -> Result<CommandOutcome> {
    let job = match &flags.resume {
        Some(dir) => resumed(dir, clients, flags.quiet)?,
        None => fresh(flags, clients)?,
    };
    let job = PreparedRun { one_round: flags.one_round, ..job };
    let signals = Signals::listen()?;
    // The budget counts from the start of the process, which does nothing else.
    let (result, ended) = carry_out(job, flags.printed(), &signals, Duration::ZERO, clients)?;
    Ok(flags.guarded(&result, ended))
}

/// Output of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunOutput {
    /// Amount of progress output.
    pub loudness: Verbosity,
    /// True to show a view on a terminal.
    pub live: bool,
    /// True to print all tables at the end.
    pub tables: bool,
}

/// Measures, writes all reports and prints one. The budget counts from `since`, by [`machine::uptime`].
pub fn carry_out(
    job: PreparedRun,
    printed: RunOutput,
    signals: &Signals,
    since: Duration,
    clients: Option<&Clients>,
) -> Result<(RunResult, CommandOutcome)> {
    let lies_here = |candidate: &Candidate| !candidate.traits().is_external;
    if printed.loudness != Verbosity::Quiet && job.plan.candidates.iter().any(lies_here) {
        eprint(&format!("Stores lie in `{}`: {}", job.plan.dir.display(), machine::disk(job.place.path())));
        for (name, disk) in &job.disks {
            eprint(&format!("`{name}` lies there on images of its own: {}", disk.description()));
        }
    }
    say_where_a_bus_error_leaves(&job.out.path);
    // A launcher kills all processes one second after one has died, hence the watchdog. Dropped after the place.
    let _watchdog = clients.map(|_| CleanupWatchdog::start(job.place.path())).transpose()?;
    let mut progress =
        Progress::new(&job.plan, job.out.path.clone(), &job.place, printed.loudness, printed.live);
    let start = Start {
        plan: &job.plan,
        corpora: job.corpora,
        earlier: job.earlier,
        program: program(),
        place: job.place,
        disks: job.disks,
        clients,
        since,
        stop: signals.stop(),
        one_round: job.one_round,
    };
    let outcome = run(start, &mut progress);
    progress.clear();
    let records = match outcome {
        Ok(records) => records,
        Err(error) => {
            job.out.abandon();
            return Err(job.out.kept(error));
        }
    };
    let mut result = summarize(&job.plan, &records)?;
    result.costs = job.pricing.map(|pricing| costs(&result, &pricing));
    write_and_print(&result, &job.out.path, printed.tables).map_err(|error| job.out.kept(error))?;
    let ended = ended(&result, &job.out.path, signals);
    Ok((result, ended))
}

/// Everything that is prepared before the first op.
pub struct PreparedRun {
    plan: Plan,
    corpora: Vec<Corpus>,
    earlier: Option<Records>,
    // Declared before the place that contains them, so that they are dropped first.
    disks: Disks,
    place: Place,
    out: OutputDirectory,
    pricing: Option<Pricing>,
    one_round: bool,
}

/// Prepares a new run.
pub fn fresh(flags: &RunFlags, clients: Option<&Clients>) -> Result<PreparedRun> {
    let pricing = flags.judging.pricing()?;
    let planned = match &flags.plan {
        Some(name) => PlanText::load(name)?,
        None => PlanText::default(),
    };
    let rounds = flags.keys.rounds.or(planned.rounds);
    let mut text = flags.apply_to(planned)?;
    let left_out = text.names_no_phases().then(|| add_tight(&mut text, clients.is_none())).flatten();
    // A quick run has no time for more.
    let is_open = !flags.quick && text.leaves_sample_open();
    // Clients on several hosts need the same blobs.
    if flags.plan.is_none() && clients.is_none() && !flags.quick {
        exceed_processor_cache(&mut text);
    }
    check_on(flags)?;
    let named = flags.plan.as_deref().map(Path::new);
    let plan = text.resolve(flags.keys.stores.is_some()).map_err(|error| with_password(error, named))?;
    let mut plan = of_clients(plan, clients)?;
    flags.judging.check(&plan)?;
    if flags.fail_on_refuted && plan.text.claim.is_empty() {
        bail!("--fail-on-refuted: this plan has no claims; docs/plans.md says how to write one");
    }
    if flags.keys.durability.is_some() {
        check_class(&plan)?;
    }
    if flags.keys.arrivals.is_some() {
        check_arrivals(&plan)?;
    }
    check_parent(&plan.dir)?;
    match &flags.out {
        Some(out) => check_out(out)?,
        None => check_writable("--out", Path::new(RUNS))?,
    }
    let room_bytes = corpus_room(that_exists(&plan.dir))?;
    let corpora = plan.build_sample(is_open.then_some(room_bytes), &mut reading(flags.quiet))?;
    plan.note_logs(&corpora);
    if let ([sample], true) = (corpora.as_slice(), is_open) {
        few_files(&plan, sample, room_bytes).filter(|_| !flags.quiet).iter().for_each(|note| eprint(note));
    }
    flags.check_claims(&text, rounds, &plan, &corpora)?;
    let logs = corpora.iter().filter_map(|corpus| corpus.log.as_ref()).filter(|_| !flags.quiet);
    logs.for_each(|log| eprint(&format!("Of the log, {}", log.summary())));
    left_out.iter().for_each(|note| eprint(note));
    let (plan, place, disks) = prepare_place(plan, &corpora, flags.quiet)?;
    let out = OutputDirectory::make(flags.out.as_deref())?;
    let text = plan.text.to_toml()?;
    let begun = replace(&out.path.join("plan.toml"), text.as_bytes())
        .and_then(|()| write_manifest(&corpora, &out.path));
    if let Err(error) = begun {
        out.abandon();
        return Err(error);
    }
    Ok(PreparedRun { plan, corpora, earlier: None, disks, place, out, pricing, one_round: false })
}

/// Adds reads with little memory where it can be limited; otherwise says why they are left out.
fn add_tight(text: &mut PlanText, is_alone: bool) -> Option<String> {
    let why = match why_no_memory_group() {
        _ if !is_alone => "they are for one client".to_owned(),
        Some(why) => format!("{why:#}"),
        None => {
            text.add_tight();
            return None;
        }
    };
    Some(format!("reads with little memory are left out: {why}"))
}

/// Returns what tells how far a long log was read, unless quiet.
fn reading(quiet: bool) -> impl FnMut(Reading) {
    move |reading| {
        if !quiet {
            eprint(&format!("The log: {}", reading.description()));
        }
    }
}

/// Prepares an earlier run to be continued. A run that was stopped before its first visit ended starts over.
pub fn resumed(dir: &Path, clients: Option<&Clients>, quiet: bool) -> Result<PreparedRun> {
    let out = OutputDirectory::open(dir)?;
    if out.ended_before_measuring() {
        let dir = dir.display();
        bail!(
            "the run in `{dir}` was killed before it had measured anything, so there is nothing to continue: start it again with \
             `blobwise run {}`",
            redact::pasted(&out.path.join("plan.toml"))
        );
    }
    let result = RunResult::load(dir)?;
    if result.complete {
        bail!("the run in `{}` is complete; there is nothing to go on with", dir.display());
    }
    let (then, now) = (result.clients.len().max(1), clients.map_or(1, Clients::count));
    if then != now {
        bail!(
            "the run in `{}` cannot be continued: {} did it, and now there would be {now}",
            dir.display(),
            units::counted(then as u64, "client")
        );
    }
    let plan = result.plan.resolve(false);
    let plan = plan.map_err(|error| with_password(error, Some(&out.path.join("plan.toml"))))?;
    let mut plan = of_clients(plan, clients)?;
    check_parent(&plan.dir)?;
    let corpora = plan.build_corpora_telling(&mut reading(quiet))?;
    plan.note_logs(&corpora);
    let earlier = Some(Records::resume(result)).filter(Records::has_begun);
    let machine = machine::Machine {
        pinned: plan.pin_apart.then(ProcessorSplit::of_allowed).transpose()?,
        ..machine::facts(that_exists(&plan.dir))
    };
    if let Some(earlier) = &earlier
        && let Some(difference) = difference(earlier, &program(), &machine, &plan, &corpora)
    {
        let dir = dir.display();
        bail!(
            "the run in `{dir}` cannot be continued: {difference}, and new rounds would be compared with the old ones; start a new run \
             with `blobwise run {}`",
            redact::pasted(&out.path.join("plan.toml"))
        );
    }
    let (plan, place, disks) = prepare_place(plan, &corpora, quiet)?;
    if earlier.is_none() {
        write_manifest(&corpora, dir)?;
    }
    Ok(PreparedRun { plan, corpora, earlier, disks, place, out, pricing: None, one_round: false })
}

/// Adds the command that supplies a URL's password again, if the error is its absence.
fn with_password(error: anyhow::Error, plan: Option<&Path>) -> anyhow::Error {
    let Some(plan) = plan.filter(|_| error.is::<NoPassword>()) else { return error };
    anyhow!(
        "{error:#}: run it again with `blobwise run {} --set NAME.url=URL`, or with the `--stores` that named the URL (a run whose URL \
         came by either cannot be resumed; one from BLOBWISE_NAME_URL can)",
        redact::pasted(plan)
    )
}

/// Returns the plan for a run by these clients; fails if they cannot run it together.
fn of_clients(mut plan: Plan, clients: Option<&Clients>) -> Result<Plan> {
    if let Some(clients) = clients {
        plan.clients = clients.count();
        clients.check(&plan)?;
    }
    if plan.each_rank && plan.clients == 1 {
        bail!(
            "--each-rank: is for several clients, and this is one; start it with `mpirun -n N`, or leave it out"
        );
    }
    Ok(plan)
}

/// Describes a sample with too few files for a rank by their number alone: which phases depend on that, and the way out.
fn few_files(plan: &Plan, sample: &Corpus, room_bytes: u64) -> Option<String> {
    let (files, bytes) = sample.sampled_from.filter(|_| sample.cut.is_none())?;
    let enough = (BLOBS_NEEDED as u64).min(files);
    if sample.blobs() >= enough {
        return None;
    }
    // Other reads are repeated until they are long enough.
    let is_once = |phase: &&Phase| phase.plain_load().is_some() && (phase.writes() || phase.cache.is_cold());
    let once: Vec<String> =
        plan.phases.iter().filter(is_once).map(|phase| format!("`{}`", phase.id)).collect();
    let needed = (bytes as f64 / files as f64 * enough as f64 * 1.05) as u64;
    let way_out = if room_bytes < needed {
        format!("`{}` has no room for {enough}: name another --dir", plan.dir.display())
    } else {
        format!("`--corpus-bytes {}` takes {enough}, with a larger `--budget`", as_flag(needed))
    };
    Some(format!(
        "the sample has {} of {files} files ({}), so that {} are ranked only over five rounds; {way_out}",
        sample.blobs(),
        units::bytes(sample.bytes() as f64),
        units::listed(&once, "and"),
    ))
}

/// Makes a corpus whose size is left open larger than what this processor's cache holds, if that is known.
pub(super) fn exceed_processor_cache(text: &mut PlanText) {
    if let Some(cache_bytes) = machine::processor_cache_bytes() {
        text.exceed_processor_cache(cache_bytes);
    }
}

/// Checks and creates the work directory. Announces what the run will do on the user's servers, unless quiet. Paths in the plan
/// are made absolute, so that they are valid from any directory.
fn prepare_place(mut plan: Plan, corpora: &[Corpus], quiet: bool) -> Result<(Plan, Place, Disks)> {
    let above = that_exists(&plan.dir);
    if machine::is_read_only(above) {
        bail!("`{}` is on a read-only file system; name another place with --dir", plan.dir.display());
    }
    if plan.awake {
        machine::keep_awake()?;
    }
    if plan.pin_apart {
        ProcessorSplit::of_allowed()?;
    }
    check_limits(&plan)?;
    check_lists(&plan)?;
    check_batches(&plan, corpora)?;
    check_replays(&plan, corpora)?;
    check_space(above, &plan, corpora)?;
    for corpus in corpora {
        check_memory(&plan, corpus)?;
    }
    let images = images(&plan, corpora, above)?;
    if !images.is_empty() {
        why_not_mounted().map_or(Ok(()), Err)?;
        own_mounts()?;
    }
    // A Ctrl-C ends the program at once while logs are read and silent servers are waited for. From here on it leaves nothing.
    let announced = announced(&plan, corpora, &plan.dir)?;
    Signals::listen()?;
    let place = Place::make(&plan.dir)?;
    place.left().iter().for_each(|left| eprint(left));
    let disks = make_disks(&plan, &images, &place)?;
    check_places(&plan, place.path(), &disks)?;
    announced.iter().filter(|_| !quiet).for_each(|sentence| eprint(sentence));
    check_servers(&plan, corpora, place.path())?;
    plan.dir = std::path::absolute(&plan.dir)?;
    plan.text.dir = Some(plan.dir.clone());
    if let Some(corpus) = &mut plan.text.corpus {
        for path in [&mut corpus.files, &mut corpus.trace].into_iter().flatten() {
            *path = std::path::absolute(&*path)?;
        }
    }
    Ok((plan, place, disks))
}

fn make_disks(plan: &Plan, images: &[Image], place: &Place) -> Result<Disks> {
    let mut disks = Disks::new();
    for Image { system, bytes, inodes, copies, .. } in images {
        let mount = place.path().join(format!("on-{}", disks.len()));
        let mut disk = OwnDisk::make(system, place.path(), &mount, *bytes, *inodes)?;
        disk.fill(system.filled(plan.fill))?;
        if *copies > 0 {
            disk.keep_fresh()?;
        }
        if let Some(limit) = &plan.device_limit {
            disk.limit(limit)?;
        }
        disks.insert(system.name().to_owned(), disk);
    }
    Ok(disks)
}

/// Rejects file systems named by a flag that cannot be made here. A plan's unavailable file systems become missing candidates
/// instead.
fn check_on(flags: &RunFlags) -> Result<()> {
    let mut names = flags.keys.on.iter().flatten().filter(|name| *name != "dir");
    names.try_for_each(|name| system(name).map(drop))
}

fn that_exists(dir: &Path) -> &Path {
    dir.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."))
}

fn check_class(plan: &Plan) -> Result<()> {
    let has = |candidate: &Candidate| {
        candidate.own_class().is_some()
            || (candidate.adapter.caps)(&candidate.options).durability.contains(&plan.durability)
    };
    // Baselines run in the class that they have, so they count only if nothing else is measured.
    let only_baselines = plan.candidates.iter().all(Candidate::is_baseline);
    let any_has = plan
        .candidates
        .iter()
        .any(|candidate| (only_baselines || !candidate.is_baseline()) && has(candidate));
    if !any_has {
        bail!("--durability: no store of this run has the class `{}`", plan.durability.name());
    }
    Ok(())
}

/// Rejects a spacing of ops where none is offered at a rate. Work of other kinds may have rates of its own.
fn check_arrivals(plan: &Plan) -> Result<()> {
    let is_open = |phase: &Phase| phase.climbs() || phase.load().is_none_or(|load| load.rate.is_some());
    if plan.rate.is_none() && !plan.phases.iter().any(is_open) {
        bail!(
            "--arrivals: spaces ops that come at a rate, and this run has none: add --rate or --limit, or leave it out"
        );
    }
    Ok(())
}

/// Describes the running program.
pub fn program() -> MeasuringProgram {
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    // Masked argument by argument: a password that contains a space ends with its argument.
    let command: Vec<String> = std::env::args().map(|word| redact::without_passwords(&word)).collect();
    MeasuringProgram {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        build: build.to_owned(),
        sha256: own_hash(),
        command: command.join(" "),
        started: machine::timestamp(),
        seconds: 0.0,
    }
}

/// SHA-256 of the program's own file; `None` in debug builds, which are large and not cited.
fn own_hash() -> Option<String> {
    if cfg!(debug_assertions) {
        return None;
    }
    let mut file = std::fs::File::open("/proc/self/exe").ok()?;
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 20];
    loop {
        match file.read(&mut block).ok()? {
            0 => return Some(units::hex(&hash.finalize())),
            read => hash.update(&block[..read]),
        }
    }
}

// ---- results -----------------------------------------------------------------------------------------------------

fn write_manifest(corpora: &[Corpus], out: &Path) -> Result<()> {
    let Some((corpus, names)) = corpora.first().and_then(|corpus| Some((corpus, corpus.names.as_ref()?)))
    else {
        return Ok(());
    };
    let head = ["id", "key", "bytes", "name"].map(str::to_owned).to_vec();
    let files = corpus.keys.iter().zip(&corpus.sizes).zip(names);
    let lines = files.map(|((key, bytes), name)| {
        vec![key.id.to_string(), key.as_str().to_owned(), bytes.to_string(), name.clone()]
    });
    replace(&out.join("corpus.csv"), report::csv::table(std::iter::once(head).chain(lines))?.as_bytes())
}

fn write_reports(result: &RunResult, out: &Path) -> Result<()> {
    result.save(out)?;
    for picture in &result.pictures {
        replace(&out.join(picture.file()), &picture.bytes()?)?;
    }
    replace(&out.join("results.csv"), report::csv::render(result)?.as_bytes())?;
    if let Some(matrices) = report::csv::matrices(result)? {
        replace(&out.join("matrix.csv"), matrices.as_bytes())?;
    }
    if let Some(curves) = report::csv::curves(result)? {
        replace(&out.join("curves.csv"), curves.as_bytes())?;
    }
    replace(&out.join("report.html"), report::sections::html(result)?.as_bytes())
}

/// Writes all reports into a directory, and prints one: with all tables, or only what is needed to choose.
pub fn write_and_print(result: &RunResult, out: &Path, tables: bool) -> Result<()> {
    write_reports(result, out)?;
    print_report(result, out, tables)
}

/// Prints the report of a stored result: with all tables, or only what is needed to choose.
pub fn print_report(result: &RunResult, place: &Path, tables: bool) -> Result<()> {
    let text = report::sections::printed(result, place, tables);
    if tables { page_through(&text) } else { print(&text) }
}

/// Returns how a run ended, and prints how to continue if it was stopped.
pub fn ended(result: &RunResult, out: &Path, signals: &Signals) -> CommandOutcome {
    if let Some(signal) = signals.received() {
        eprint(&format!(
            "stopped by {}; what was measured is kept: continue with `blobwise run --resume {}`",
            if signal == signal_hook::consts::SIGINT { "Ctrl-C" } else { "a signal" },
            redact::pasted(out)
        ));
        return CommandOutcome::Stopped(signal);
    }
    let failed = result.candidates.iter().any(|candidate| candidate.status == Status::Failed)
        || result.results.iter().any(|cell| cell.status == Status::Failed);
    if failed { CommandOutcome::Failed } else { CommandOutcome::Well }
}

/// Expands the names of families to their members. Prints which members are left out, and why.
pub fn with_members(names: Vec<String>) -> Result<Vec<String>> {
    let ExpandedFamilies { stores, left_out } = with_families(names)?;
    left_out.iter().for_each(|(store, why)| eprint(&format!("`{store}` is left out: {why}")));
    Ok(stores)
}

/// Expands `all`, and the names of phase families (`read`, `read-*`) to the standard phases that begin with them. Phases with a
/// memory limit are included if memory can be limited.
fn with_families_of_phases(names: Vec<String>, own: Vec<String>) -> Vec<String> {
    let standard: Vec<&str> = standard().iter().map(|phase| phase.id).collect();
    let is_tight = |id: &str| id.starts_with("read-tight");
    let may_limit = || why_no_memory_group().is_none();
    let mut all = Vec::new();
    for name in names {
        let begin = format!("{}-", name.strip_suffix("-*").unwrap_or(&name));
        let is_known = own.contains(&name) || standard.contains(&name.as_str());
        let of_family = || {
            let known = if name == "all" { ALL_PHASES } else { &standard };
            known.iter().filter(|id| name == "all" || id.starts_with(&begin))
        };
        match is_known || of_family().next().is_none() {
            true => all.push(name),
            false => {
                all.extend(of_family().filter(|id| !is_tight(id) || may_limit()).map(|id| (*id).to_owned()))
            }
        }
    }
    all
}

// ---- applying flags to a plan ------------------------------------------------------------------------------------

impl RunFlags {
    /// Output options.
    pub fn printed(&self) -> RunOutput {
        RunOutput { loudness: self.loudness(), live: !self.no_live, tables: self.tables }
    }

    /// Applies `--fail-on-refuted` to the outcome of a run.
    pub fn guarded(&self, result: &RunResult, ended: CommandOutcome) -> CommandOutcome {
        let refuted: Vec<&str> = result
            .own_claims()
            .filter(|claim| claim.verdict == ClaimVerdict::Refuted)
            .map(|claim| claim.id.as_str())
            .collect();
        if !self.fail_on_refuted || refuted.is_empty() || ended != CommandOutcome::Well {
            return ended;
        }
        eprint(&format!("{} refuted: {}", units::counted(refuted.len(), "claim"), refuted.join(", ")));
        CommandOutcome::Failed
    }

    /// True if a flag says what is measured, how it is judged, or where results go. `--preview` does not: the plans of a collection
    /// that have no result yet need it again.
    pub fn asks_for_a_plan(&self) -> bool {
        let is_named = self.plan.is_some() || self.out.is_some() || self.corpora.is_some();
        let is_changed = self.keys != PlanText::default() || self.corpus != CorpusText::default();
        let is_asked = self.baselines || self.quick || self.judging.is_asked();
        is_named || is_changed || is_asked || !self.set.is_empty()
    }

    /// Amount of progress output.
    pub fn loudness(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Normal,
        }
    }

    /// Rejects a run in which claims of the plan cannot be tested, unless it is asked for.
    fn check_claims(
        &self,
        text: &PlanText,
        rounds: Option<u32>,
        plan: &Plan,
        corpora: &[Corpus],
    ) -> Result<()> {
        let CorpusText { blobs, bytes, sample, .. } = &self.corpus;
        let has_own_size =
            self.keys.rounds.is_some() || blobs.is_some() || bytes.is_some() || sample.is_some();
        let (goes_on, is_quiet) = (self.preview, self.quiet);
        let asked = preview::PreviewRequest { text, rounds, has_own_size, goes_on, is_quiet };
        preview::check(&asked, plan, corpora)
    }

    /// Applies all flags to a plan.
    pub fn apply_to(&self, planned: PlanText) -> Result<PlanText> {
        let keys = &self.keys;
        let own = planned.phase.iter().map(|phase| phase.id.clone()).collect();
        let mut text = planned.with_keys_of(&PlanText {
            phases: keys.phases.clone().map(|names| with_families_of_phases(names, own)),
            stores: keys.stores.clone().map(with_members).transpose()?,
            ..keys.clone()
        })?;
        if self.quick {
            text.make_quick();
        }
        if self.baselines {
            text.add_baselines();
        }
        if keys.scale.is_some_and(|scale| scale < PREVIEW_SCALE) && keys.rounds.is_none() {
            // A preview shows the plan's shape in one or two rounds, even if the plan asks for more.
            (text.rounds, text.budget) = (None, keys.budget.clone());
        }
        if keys.rounds.is_some() && keys.budget.is_none() {
            // An explicit number of rounds overrides the plan's budget.
            text.budget = None;
        }
        if let Some(loads) = self.loads {
            text.phase
                .iter_mut()
                .filter(|phase| phase.id == "load")
                .for_each(|phase| phase.count = Some(loads));
        }
        self.judging.apply_to(&mut text)?;
        for set in &self.set {
            let (name, values) = values_of(set)?;
            text.set.insert(name, OneOrMany::Many(values));
        }
        text.corpus = text.corpus.take().unwrap_or_default().changed_by(&self.corpus);
        if let Some(names) = &self.corpora {
            text.keep_corpora(&split_list(names))?;
        }
        Ok(text)
    }
}

/// Parses a setting such as `sqlite.page=4k,16k`.
pub(super) fn values_of(set: &str) -> Result<(String, Vec<String>)> {
    let (name, values) = split_pair(set).context("--set")?;
    let values = split_list(&values);
    if values.is_empty() {
        bail!("--set: `{set}` has no value");
    }
    Ok((name, values))
}
