//! Which trials a program runs, how many at once, and what becomes of one that this machine cannot run.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// The command line. Most of a trial is waiting, for the disk and for processes that start: 378 trials of SQLite took 19 s of
/// processor time, and 45 to 90 s two at a time on two processors that others used, too. So there are twice as many as processors.
pub fn arguments() -> Arguments {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert_with(|| 2 * blobwise::host::machine::cores());
    arguments
}

/// Runs those of the trials that are asked for; `is_long` knows by a trial's name whether it is left to continuous integration.
pub fn run(arguments: &Arguments, mut trials: Vec<Trial>, is_long: impl Fn(&str) -> bool) -> ExitCode {
    trials.retain(|trial| is_asked_for(is_long(trial.name())));
    libtest_mimic::run(arguments, trials).exit_code()
}

/// Whether long trials, or short ones, are asked for by [`CHOICE`]: `short` is what `./test.sh` runs, `long` what continuous
/// integration runs after it, `quick` the short ones of a few stores. Without it, all are.
pub fn is_asked_for(is_long: bool) -> bool {
    match std::env::var(CHOICE).as_deref() {
        Ok("short" | "quick") => !is_long,
        Ok("long") => is_long,
        Ok(other) => panic!("{CHOICE} is `{other}`: set it to short, long or quick, or leave it out for all"),
        Err(_) => true,
    }
}

/// The variable that chooses trials.
pub const CHOICE: &str = "BLOBWISE_TRIALS";

/// Whether a trial that this machine cannot run is a failure, as in continuous integration.
pub fn is_required() -> bool {
    std::env::var_os("BLOBWISE_REQUIRE_ALL").is_some_and(|value| value == "1")
}
