//! How many trials run at once, where nothing else is said.

use libtest_mimic::Arguments;

/// The command line. Most of a trial is waiting, for the disk and for processes that start: 378 trials of SQLite took 19 s of
/// processor time, and 45 to 90 s two at a time on two processors that others used, too. So there are twice as many as processors.
pub fn arguments() -> Arguments {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert_with(|| 2 * blobwise::host::machine::cores());
    arguments
}
