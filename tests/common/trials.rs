//! Which trials a test program runs, how many at once, and how it treats those that this machine cannot run.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// Parses the command line. Trials mostly wait for the disk and for processes to start: 378 trials of SQLite took 19 s of
/// processor time, and 45 to 90 s two at a time on two processors that others used, too. So twice as many run at once as there
/// are processors.
pub fn arguments() -> Arguments {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert_with(|| 2 * blobwise::host::machine::cores());
    arguments
}

/// Runs the selected trials; `is_long` tells from a trial's name if it is left to continuous integration.
pub fn run(arguments: &Arguments, mut trials: Vec<Trial>, is_long: impl Fn(&str) -> bool) -> ExitCode {
    trials.retain(|trial| is_asked_for(is_long(trial.name())));
    libtest_mimic::run(arguments, trials).exit_code()
}

/// True if long trials, or short ones, are selected by [`CHOICE`]: `short` is what `./test.sh` runs, `long` what continuous
/// integration runs after it, and `quick` the short trials of a few stores. Without it, all are selected.
pub fn is_asked_for(is_long: bool) -> bool {
    match std::env::var(CHOICE).as_deref() {
        Ok("short" | "quick") => !is_long,
        Ok("long") => is_long,
        Ok(other) => panic!("{CHOICE} is `{other}`: set it to short, long or quick, or leave it out for all"),
        Err(_) => true,
    }
}

/// Environment variable that selects trials.
pub const CHOICE: &str = "BLOBWISE_TRIALS";

/// True if a trial that this machine cannot run is a failure, as in continuous integration.
pub fn is_required() -> bool {
    std::env::var_os("BLOBWISE_REQUIRE_ALL").is_some_and(|value| value == "1")
}
