//! The command line: flags are turned into a plan, which is checked before anything is done. Apart from reports, the only place
//! that prints.

mod check_store;
mod collection;
mod compare;
mod corpus;
mod crash;
mod disk;
mod doctor;
mod explain;
mod groups;
mod in_turn;
mod joined;
mod judging;
mod list;
mod live;
mod manual;
mod many;
mod out;
mod page;
mod preview;
mod prices;
mod progress;
mod report;
mod run;
mod screen;
mod selftest;
mod side;
mod signals;
mod trace;

use std::borrow::Cow;
use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use anyhow::Context as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::host::place::take_left;
use crate::redact;
use crate::result::compared::ComparisonOutcome;
use crate::result::recent::run_called;
use crate::store::describe_error;
use crate::suggest::unknown;
use crate::units;

/// Measures where your files should live.
#[derive(Debug, Parser)]
#[command(name = "blobwise", version, about, long_about = None, max_term_width = 100, infer_subcommands = false)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure the default plan, another plan, or what the flags say
    Run(Box<run::RunFlags>),
    /// Measure ways to deliver a page in a real browser
    Page(page::PageFlags),
    /// List stores, plans, corpora and file systems
    List(list::ListFlags),
    /// Describe a corpus: sizes, histogram, compression ratio
    Corpus(corpus::CorpusFlags),
    /// Describe an access log: requests, sizes, popularity
    Trace(trace::TraceFlags),
    /// Compare two results, and find what became slower
    Compare(compare::CompareFlags),
    /// Explain one figure: its rounds, interval, rank and warnings
    Explain(explain::ExplainFlags),
    /// Print a report again, or show several runs side by side
    Report(report::ReportFlags),
    /// Cut the power of its own disk: what do stores lose? (as root)
    Crash(crash::CrashFlags),
    /// Measure the disk itself, in directories or on new file systems
    Disk(disk::DiskFlags),
    /// Check that a store keeps its contract
    CheckStore(check_store::CheckStoreFlags),
    /// Check what a machine and its databases lack (reads only)
    Doctor(doctor::DoctorFlags),
    /// Measure the overhead and the errors of blobwise itself
    Selftest(selftest::SelftestFlags),
    /// Print a shell completion script
    Completions(manual::CompletionsFlags),
    /// Write manual pages, for packages
    #[command(hide = true)]
    Man(manual::ManualFlags),
}

/// Outcome of a command that did not fail with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// Success.
    Well,
    /// Measured, but an op or a check failed.
    Failed,
    /// Two runs were compared, with this outcome.
    Compared(ComparisonOutcome),
    /// Stopped by this signal.
    Stopped(i32),
}

impl From<CommandOutcome> for ExitCode {
    fn from(ended: CommandOutcome) -> ExitCode {
        match ended {
            CommandOutcome::Well => ExitCode::SUCCESS,
            CommandOutcome::Failed => ExitCode::from(1),
            CommandOutcome::Compared(outcome) => ExitCode::from(outcome.exit_code()),
            CommandOutcome::Stopped(signal) => ExitCode::from(128_u8.saturating_add(signal as u8)),
        }
    }
}

/// Parses the command line, runs the command, and prints an error if there is one.
pub fn main() -> ExitCode {
    // The first call fixes the instant from which budgets count.
    crate::host::machine::uptime();
    if let Err(error) = outlive_file_limits().and_then(|()| say_what_a_bus_error_is()) {
        eprint(&format!("error: {error:#}"));
        return ExitCode::from(2);
    }
    let arguments = match parsed() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are not errors; anything else that clap rejects could not run.
            if !error.use_stderr() {
                drop(error.print());
                return ExitCode::SUCCESS;
            }
            let typed: Vec<String> =
                std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
            let said = rejected_value(&error).or_else(|| misread_flag(&error, &typed));
            let said = said.unwrap_or_else(|| in_words(&error));
            eprint(redact::of_error(&said).trim_end());
            return ExitCode::from(2);
        }
    };
    let alone = crate::host::ranks::refuse_many;
    let outcome = match arguments.command {
        Command::Run(flags) => many::main(&flags),
        Command::Page(flags) => alone("blobwise page").and_then(|()| page::main(flags)),
        Command::List(flags) => list::main(&flags),
        Command::Corpus(flags) => corpus::main(&flags),
        Command::Trace(flags) => trace::main(&flags),
        Command::Compare(flags) => compare::main(&flags),
        Command::Explain(flags) => explain::main(&flags),
        Command::Report(flags) => report::main(&flags),
        Command::Crash(flags) => alone("blobwise crash").and_then(|()| crash::main(&flags)),
        Command::Disk(flags) => alone("blobwise disk").and_then(|()| disk::main(&flags)),
        Command::CheckStore(flags) => alone("blobwise check-store").and_then(|()| check_store::main(&flags)),
        Command::Doctor(flags) => doctor::main(&flags),
        Command::Selftest(flags) => alone("blobwise selftest").and_then(|()| selftest::main(&flags)),
        Command::Completions(flags) => manual::completions(&flags),
        Command::Man(flags) => manual::pages(&flags),
    };
    let left = take_left();
    left.iter().for_each(|why| eprint(&redact::of_error(&format!("error: {why}"))));
    match outcome {
        Ok(CommandOutcome::Well) if !left.is_empty() => CommandOutcome::Failed.into(),
        Ok(ended) => ended.into(),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprint(&redact::of_error(&format!("error: {}", describe_error(&error))));
            ExitCode::from(2)
        }
    }
}

fn parsed() -> Result<Arguments, clap::Error> {
    let mut command = groups::grouped(Arguments::command());
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Words an error of the command line. clap does not say which argument is not UTF-8.
fn in_words(error: &clap::Error) -> String {
    let text = error.render().to_string();
    if error.kind() != ErrorKind::InvalidUtf8 {
        return text;
    }
    let is_meant = |argument: &OsString| argument.to_str().is_none();
    let named = std::env::args_os().filter(is_meant).map(|argument| format!("`{}`", argument.display()));
    let named: Vec<String> = named.collect();
    text.replacen("one or more arguments", &units::listed(&named, "and"), 1)
}

/// A value that no flag takes, in the form of all errors: the flag, the value, and what is allowed.
fn rejected_value(error: &clap::Error) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (flag, value) = (context(ContextKind::InvalidArg)?, context(ContextKind::InvalidValue)?);
    // `--errors[=<N>]` is a flag, `[RUN]...` and `<SHELL>` are none.
    let name = flag.split([' ', '[']).next().filter(|name| name.starts_with("--"));
    let flag = name.unwrap_or_else(|| flag.trim_matches(['[', ']', '<', '>', '.']));
    let why = match (error.get(ContextKind::ValidValue), error.source()) {
        (Some(ContextValue::Strings(known)), _) if !known.is_empty() && !value.is_empty() => {
            unknown("value", value, known.iter().map(String::as_str)).to_string()
        }
        (_, Some(why)) if why.is::<ParseIntError>() => {
            format!("`{value}` is not a whole number from 0 on{}", most(why))
        }
        (_, Some(why)) if why.is::<ParseFloatError>() => format!("`{value}` is not a number"),
        (_, Some(why)) => rejection(value, &why.to_string()),
        (_, None) => return None,
    };
    Some(format!("error: {flag}: {why}"))
}

/// What to add where a whole number is larger than its type holds.
fn most(why: &(dyn std::error::Error + 'static)) -> &'static str {
    match why.downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
        Some(IntErrorKind::PosOverflow) => " that fits into 64 bits",
        _ => "",
    }
}

/// Why a value was rejected; clap writes a range as `0 is not in 1..=100`, and one without a low end from -2^63 on.
fn rejection(value: &str, why: &str) -> String {
    let bounds = why.split_once(" is not in ").and_then(|(_, bounds)| bounds.split_once("..="));
    match bounds {
        Some((low, high)) => {
            format!("`{value}` is not between {} and {high}", if low.starts_with('-') { "0" } else { low })
        }
        None if why.starts_with(&format!("`{value}`")) => why.to_owned(),
        None => format!("`{value}`: {why}"),
    }
}

/// Words that begin with one minus: clap takes a negative value for a flag, and a flag of one letter for a value.
fn misread_flag(error: &clap::Error, typed: &[String]) -> Option<String> {
    let found = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(found)) if error.kind() == ErrorKind::UnknownArgument => found,
        _ => return None,
    };
    let first = found.strip_prefix('-')?.chars().next().filter(|first| *first != '-')?;
    if !(first.is_ascii_digit() || first == '.') {
        return Some(format!(
            "error: `{found}` is no flag: flags are words, such as --help, which lists them"
        ));
    }
    let at = typed.iter().position(|word| word.starts_with(found.as_str()))?;
    let flag = typed[..at].last().filter(|word| word.starts_with("--"))?;
    Some(format!("error: {flag}: `{}` is negative", typed[at]))
}

/// Turns exceeding the file size limit (`ulimit -f`) into a write error instead of a silent death by SIGXFSZ. The signal is
/// caught rather than ignored, so that child processes start with its default action.
fn outlive_file_limits() -> std::io::Result<()> {
    signal_hook::flag::register(libc::SIGXFSZ, std::sync::Arc::default()).map(drop)
}

const BUS_ERROR: &str = "error: killed by a bus error: a mapped file could not be read or written, as on a disk that is full or broken";

/// Complete message on a bus error, because a signal handler must not format text. Each message is leaked, because it may be read
/// at any time; there is one per run.
static SAID_OF_A_BUS_ERROR: AtomicPtr<String> = AtomicPtr::new(std::ptr::null_mut());

/// Prints a message on SIGBUS. If a file system is full or broken, touching a part of a mapped file without disk space (such as
/// SQLite's WAL index) raises it. The program cannot survive that, but it can say so.
#[expect(unsafe_code, reason = "signal handlers are unsafe to get wrong")]
fn say_what_a_bus_error_is() -> std::io::Result<()> {
    keep_for_a_bus_error(format!("{BUS_ERROR}\n"));
    let say = || {
        // SAFETY: the text was made before and is never freed.
        let said = unsafe { &*SAID_OF_A_BUS_ERROR.load(Ordering::Acquire) };
        rustix::io::write(std::io::stderr(), said.as_bytes()).ok();
        signal_hook::low_level::emulate_default_handler(libc::SIGBUS).ok();
    };
    // SAFETY: a pointer is read, then a write to a descriptor and the end of the process: no lock is taken and nothing is allocated.
    unsafe { signal_hook::low_level::register(libc::SIGBUS, say).map(drop) }
}

/// Extends the message on a bus error by the command that resumes the run in this directory.
fn say_where_a_bus_error_leaves(out: &std::path::Path) {
    let kept = "what was measured is kept: continue with `blobwise run --resume";
    let said = format!("{BUS_ERROR}; {kept} {}`", redact::pasted(out));
    keep_for_a_bus_error(format!("{}\n", redact::on_terminal(&said)));
}

fn keep_for_a_bus_error(said: String) {
    SAID_OF_A_BUS_ERROR.store(Box::into_raw(Box::new(said)), Ordering::Release);
}

/// True if the reader of the output has gone away, which is not an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

/// Masks what a terminal would obey, and spells microseconds `us` in locales that are not UTF-8.
fn for_terminal(text: &str) -> Cow<'_, str> {
    static IS_UTF8: LazyLock<bool> = LazyLock::new(|| {
        let set = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|of| !of.is_empty()));
        set.is_some_and(|locale| locale.to_ascii_lowercase().replace('-', "").contains("utf8"))
    });
    let masked = redact::on_terminal(text);
    if *IS_UTF8 || !masked.contains('µ') { masked } else { Cow::Owned(masked.replace('µ', "u")) }
}

/// Prints data to standard output. Names in it are untrusted, so terminal control sequences are masked.
fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(for_terminal(text).as_bytes()).and_then(|()| stdout.flush());
    written.context("cannot write to standard output")
}

/// Prints a text of many screens: through `$PAGER` (`less` if unset) if standard output is a terminal, otherwise as [`print`] does.
#[expect(clippy::disallowed_methods, reason = "it shows what was printed, and the reader ends it")]
fn page_through(text: &str) -> anyhow::Result<()> {
    use std::io::{IsTerminal, Write};
    let pager = std::env::var("PAGER").unwrap_or_else(|_unset| "less".to_owned());
    if !std::io::stdout().is_terminal() || pager.trim().is_empty() {
        return print(text);
    }
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &format!("exec {pager}")]).stdin(std::process::Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // Ends where all of it fits on a screen, and leaves it there.
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.spawn() else { return print(text) };
    if let Some(mut input) = child.stdin.take() {
        // A reader who has seen enough closes the pipe.
        drop(input.write_all(for_terminal(text).as_bytes()));
    }
    // 127: the shell found no such program.
    match child.wait()?.code() {
        Some(127) => print(text),
        _ => Ok(()),
    }
}

fn eprint(line: &str) {
    use std::io::Write;
    // If standard error is gone, there is nowhere to report that.
    drop(writeln!(std::io::stderr(), "{}", for_terminal(line)));
}

/// Parses the name of a run: its directory, its `result.json`, `LAST` or `LAST~N`.
fn run_path() -> impl clap::builder::TypedValueParser<Value = PathBuf> {
    use clap::builder::{PathBufValueParser, TypedValueParser};
    PathBufValueParser::new().try_map(|name| run_called(&name).map_err(|error| error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> String {
        let typed: Vec<String> = line.split(' ').map(|word| word.trim_matches('\'').to_owned()).collect();
        let error = Arguments::command().try_get_matches_from(&typed).unwrap_err();
        rejected_value(&error).or_else(|| misread_flag(&error, &typed)).unwrap_or_else(|| in_words(&error))
    }

    #[test]
    fn a_rejected_value_is_named_with_its_flag_and_its_range() {
        for (line, wanted) in [
            ("blobwise run --blobs ''", "error: --blobs: `` is not a whole number from 0 on"),
            ("blobwise run --blobs 1.5", "error: --blobs: `1.5` is not a whole number from 0 on"),
            (
                "blobwise run --seed 18446744073709551616",
                "error: --seed: `18446744073709551616` is not a whole number from 0 on that fits into 64 bits",
            ),
            ("blobwise run --corpus-bytes -5MB", "error: --corpus-bytes: `-5MB` is negative"),
            ("blobwise run --age -1..8", "error: --age: `-1..8` is negative"),
            ("blobwise disk --rounds -1", "error: --rounds: `-1` is negative"),
            ("blobwise disk --rounds 0", "error: --rounds: `0` is not between 1 and 1000"),
            ("blobwise crash --kills 100001", "error: --kills: `100001` is not between 0 and 100000"),
            ("blobwise disk --on ,", "error: --on: `,`: it names nothing; leave the flag out"),
            ("blobwise crash --errors=0", "error: --errors: `0` is not between 1 and 1000"),
            ("blobwise report last", "error: RUN: `last`: the newest run is LAST, the one before it LAST~1"),
            ("blobwise run -q", "error: `-q` is no flag: flags are words, such as --help, which lists them"),
        ] {
            assert_eq!(said(line), wanted, "{line}");
        }
        assert!(said("blobwise run --resume ''").contains("a value is required for '--resume <DIR>'"));
        assert!(said("blobwise run --quiett").contains("a similar argument exists: '--quiet'"));
    }
}
