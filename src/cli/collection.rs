//! A plan of plans: each plan is run as if by name, into its own directory, and one page shows all claims.

use crate::engine::work::ResolvePlan;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::out::OutputDirectory;
use super::run::{RunFlags, carry_out, ended, fresh, resumed, single};
use super::signals::Signals;
use super::{CommandOutcome, eprint, print};
use crate::engine::clients::Clients;
use crate::host::machine;
use crate::host::place::check_parent;
use crate::plan::{NothingRuns, PlanText};
use crate::redact;
use crate::report::html::collection::{CollectionMember, render};
use crate::result::{ClaimVerdict, RunResult, replace};

/// File name of a collection's plan, beside its page.
const PLAN: &str = "plan.toml";
/// File that a run has and a collection does not.
const RESULT: &str = "result.json";
const PAGE: &str = "report.html";

/// Runs the command: one run, or one for each plan of a plan of plans.
pub fn main(flags: &RunFlags, clients: Option<&Clients>) -> Result<CommandOutcome> {
    if flags.resume.is_some() && flags.asks_for_a_plan() {
        bail!(
            "--resume: keeps the plan of the earlier run; leave out PLAN, --out and what would change the plan"
        );
    }
    match asked(flags)? {
        Some(_) if clients.is_some() => {
            bail!(
                "a plan of plans is for one client: run its plans one after the other, each by `mpirun ... blobwise run PLAN`"
            )
        }
        Some(plans) => every(flags, plans),
        None => single(flags, clients),
    }
}

/// Returns the collection that the flags ask for; `None` if they ask for one run.
fn asked(flags: &RunFlags) -> Result<Option<PlanText>> {
    let text = match (&flags.plan, &flags.resume) {
        (Some(name), None) => PlanText::load(name)?,
        (_, Some(dir)) => match kept(dir)? {
            Some(text) => text,
            None => return Ok(None),
        },
        (None, None) => return Ok(None),
    };
    if text.plans.is_empty() {
        return Ok(None);
    }
    ensure!(
        !flags.judging.is_asked(),
        "a plan of plans has no answer of its own: ask `blobwise report` of one of its runs"
    );
    let text = flags.apply_to(text)?;
    let more = PlanText { plans: Vec::new(), name: None, about: None, ..text.clone() }.without_conditions();
    if more != PlanText::default() {
        bail!(
            "with a plan of plans only --dir, --out, --scale, --rounds, --budget, --precision, --seed, --verify, --op-timeout, \
             --no-drop-caches and --awake may be given; to change anything else run one of its plans by name"
        );
    }
    Ok(Some(text))
}

/// Reads the plan of plans stored in a directory; `None` if it holds no collection.
fn kept(dir: &Path) -> Result<Option<PlanText>> {
    if !dir.join(PLAN).exists() || dir.join(RESULT).exists() {
        return Ok(None);
    }
    let text = PlanText::load(&dir.join(PLAN).to_string_lossy())?;
    Ok((!text.plans.is_empty()).then_some(text))
}

fn every(flags: &RunFlags, mut text: PlanText) -> Result<CommandOutcome> {
    let plans = members_of(flags, &text)?;
    if let Some(dir) = &text.dir {
        check_parent(dir)?;
    }
    let held = match &flags.resume {
        Some(dir) => OutputDirectory::open(dir)?,
        None => OutputDirectory::make(flags.out.as_deref())?,
    };
    let out = held.path.as_path();
    text.dir = text.dir.map(std::path::absolute).transpose()?;
    replace(&out.join(PLAN), text.to_toml()?.as_bytes())?;
    let signals = Signals::listen()?;
    let mut members = Vec::new();
    let mut whole = CommandOutcome::Well;
    for (number, CollectionPlan { plan, name, about }) in plans.iter().enumerate() {
        if !flags.quiet {
            eprint(&format!("\n{name}: plan {} of {}", number + 1, plans.len()));
        }
        let outcome = one(flags, &text, plan, &out.join(name), &signals);
        let (result, ended) = match outcome {
            Ok((result, ended)) => {
                let ended = flags.guarded(&result, ended);
                (Ok(result), ended)
            }
            // A plan that cannot run here does not prevent the others from running.
            Err(error) => {
                let why = redact::of_error(&crate::store::describe_error(&error));
                eprint(&format!("{name}: {why}"));
                (Err(why), CommandOutcome::Failed)
            }
        };
        members.push(CollectionMember { name: name.clone(), about: about.clone(), result });
        write(&text, &members, out)?;
        whole = worse(whole, ended);
        if matches!(whole, CommandOutcome::Stopped(_)) {
            break;
        }
    }
    print_summary(&members, out)?;
    Ok(whole)
}

fn write(text: &PlanText, members: &[CollectionMember], out: &Path) -> Result<()> {
    replace(&out.join(PAGE), render(text.about.as_deref().unwrap_or_default(), members).as_bytes())
}

fn print_summary(members: &[CollectionMember], out: &Path) -> Result<()> {
    print(&table(members)?)?;
    print(&format!("\nPage: {}\n", out.join(PAGE).display()))
}

/// Returns the plan of a collection and its results so far; `None` if the directory holds no collection.
pub fn measured(dir: &Path) -> Result<Option<(PlanText, Vec<CollectionMember>)>> {
    let Some(text) = kept(dir)? else { return Ok(None) };
    let mut members = Vec::new();
    for plan in &text.plans {
        let of_plan = PlanText::load(plan)?;
        let (name, about) =
            (of_plan.name.clone().unwrap_or_default(), of_plan.about.clone().unwrap_or_default());
        let result = if dir.join(&name).join(RESULT).exists() {
            RunResult::load(&dir.join(&name)).map_err(|error| redact::of_error(&format!("{error:#}")))
        } else {
            let why = of_plan.resolve(false).err().map(|error| redact::of_error(&format!("{error:#}")));
            Err(why.unwrap_or_else(|| "it has no result yet".to_owned()))
        };
        members.push(CollectionMember { name, about, result });
    }
    Ok(Some((text, members)))
}

/// Rewrites the page of a collection.
pub fn again(text: &PlanText, members: &[CollectionMember], dir: &Path) -> Result<()> {
    write(text, members, dir)?;
    print_summary(members, dir)
}

struct CollectionPlan {
    /// File, or name of a shipped plan.
    plan: String,
    name: String,
    about: String,
}

/// Loads and checks every plan before the first is run.
fn members_of(flags: &RunFlags, text: &PlanText) -> Result<Vec<CollectionPlan>> {
    let mut plans: Vec<CollectionPlan> = Vec::new();
    for plan in &text.plans {
        let of_plan = PlanText::load(plan)?;
        if !of_plan.plans.is_empty() {
            bail!("`{plan}` is a plan of plans itself");
        }
        let member = RunFlags::for_member(flags, text, plan.clone(), PathBuf::new());
        if let Err(error) = member.apply_to(of_plan.clone())?.resolve(false)
            && !error.is::<NothingRuns>()
        {
            return Err(error.context(format!("the plan `{plan}`")));
        }
        let name =
            of_plan.name.with_context(|| format!("the plan `{plan}` has no name for its directory"))?;
        let is_no_directory = name.is_empty() || name.contains('/') || name.starts_with('.');
        if is_no_directory || plans.iter().any(|other| other.name == name) {
            bail!(
                "the plan `{plan}` cannot use the directory `{name}`: another plan has that name, it contains `/`, it begins with `.`, or it is empty"
            );
        }
        plans.push(CollectionPlan { plan: plan.clone(), name, about: of_plan.about.unwrap_or_default() });
    }
    Ok(plans)
}

/// Combines the outcome of the collection with that of one plan; the worse one wins.
fn worse(whole: CommandOutcome, part: CommandOutcome) -> CommandOutcome {
    match (whole, part) {
        (CommandOutcome::Stopped(signal), _) | (_, CommandOutcome::Stopped(signal)) => {
            CommandOutcome::Stopped(signal)
        }
        (CommandOutcome::Failed, _) | (_, CommandOutcome::Failed) => CommandOutcome::Failed,
        _ => CommandOutcome::Well,
    }
}

/// Runs a plan, resumes it, or takes its existing result. Each plan has its own budget.
fn one(
    flags: &RunFlags,
    text: &PlanText,
    plan: &str,
    out: &Path,
    signals: &Signals,
) -> Result<(RunResult, CommandOutcome)> {
    let since = machine::uptime();
    let known = if out.join(RESULT).exists() { Some(RunResult::load(out)?) } else { None };
    let job = match known {
        Some(result) if result.complete => {
            let ended = ended(&result, out, signals);
            return Ok((result, ended));
        }
        Some(_) => resumed(out, None, flags.quiet)?,
        None => {
            if out.exists() {
                OutputDirectory::open(out)?.begin_anew();
            }
            fresh(&RunFlags::for_member(flags, text, plan.to_owned(), out.to_owned()), None)?
        }
    };
    carry_out(job, flags.printed(), signals, since, None)
}

/// Table of the number of claims by plan and verdict.
fn table(members: &[CollectionMember]) -> Result<String> {
    let verdicts = [
        ClaimVerdict::Confirmed,
        ClaimVerdict::Refuted,
        ClaimVerdict::CannotTellApart,
        ClaimVerdict::NotTestable,
        ClaimVerdict::NotReached,
    ];
    let width = members.iter().map(|member| member.name.len()).max().unwrap_or(0);
    let mut text = format!("\n{:<width$}", "Claims");
    for verdict in verdicts {
        write!(text, "  {:>17}", verdict.name())?;
    }
    text.push('\n');
    for CollectionMember { name, result, .. } in members {
        write!(text, "{name:<width$}")?;
        match result {
            Ok(result) => {
                for verdict in verdicts {
                    let count = result.own_claims().filter(|claim| claim.verdict == verdict).count();
                    write!(text, "  {count:>17}")?;
                }
            }
            Err(why) => write!(text, "  not run: {why}")?,
        }
        text.push('\n');
    }
    Ok(text)
}
