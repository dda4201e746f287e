//! Which trials a test program runs, how many at once, and how it treats those that this machine cannot run.

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use blobwise::host::machine::uptime;
use libtest_mimic::{Arguments, Completion, Failed};

/// Makes the program the supervisor of private servers, which would else be this test. `main` calls it first.
#[expect(unsafe_code, reason = "changing the environment")]
pub fn name_the_supervisor() {
    // SAFETY: the first thing that is done, while there is one thread.
    unsafe { std::env::set_var("BLOBWISE_SUPERVISOR", env!("CARGO_BIN_EXE_blobwise")) };
}

/// A trial of the library, of which it is known how long it took.
pub struct Trial(libtest_mimic::Trial);

/// Trials that have ended, with how long they took.
static TIMES: Mutex<Vec<(Duration, String)>> = Mutex::new(Vec::new());

impl Trial {
    /// A trial that passes or fails.
    pub fn test(name: impl Into<String>, run: impl FnOnce() -> Result<(), Failed> + Send + 'static) -> Trial {
        Trial::ignorable_test(name, || run().map(|()| Completion::Completed))
    }

    /// A trial that may find out that it cannot run.
    pub fn ignorable_test(
        name: impl Into<String>,
        run: impl FnOnce() -> Result<Completion, Failed> + Send + 'static,
    ) -> Trial {
        let name = name.into();
        let timed_name = name.clone();
        Trial(libtest_mimic::Trial::ignorable_test(name, move || {
            let begin = uptime();
            let ended = run();
            let mut times = TIMES.lock().unwrap_or_else(PoisonError::into_inner);
            times.push((uptime() - begin, timed_name));
            ended
        }))
    }

    /// A trial that this machine cannot run: ignored with the reason, and failed where nothing may be missing.
    pub fn impossible(name: impl Into<String>, why: impl Into<String>) -> Trial {
        let why = why.into();
        Trial::ignorable_test(name, || ignored_or_failed(why))
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.0.name()
    }
}

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
    let conclusion = libtest_mimic::run(arguments, trials.into_iter().map(|trial| trial.0).collect());
    print_slowest();
    conclusion.exit_code()
}

/// Prints the trials that took longest: each that took more than ten seconds, ten at most.
#[expect(clippy::print_stdout, reason = "beside what the library prints of trials")]
fn print_slowest() {
    let mut times = TIMES.lock().unwrap_or_else(PoisonError::into_inner);
    times.sort_by(|(one, _), (other, _)| other.cmp(one));
    for (time, name) in times.iter().take(10).filter(|(time, _)| time.as_secs() >= 10) {
        println!("slow: {:.0} s {name}", time.as_secs_f64());
    }
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

/// Ends a trial that this machine cannot run: ignored with the reason, or failed where nothing may be missing.
pub fn ignored_or_failed(why: String) -> Result<Completion, Failed> {
    if is_required() { Err(why.into()) } else { Ok(Completion::ignored_with(why)) }
}
