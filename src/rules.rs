//! Thresholds that verdicts go by, each said once, below whoever plans, measures or judges by them. `docs/method.md` has them as
//! a table that is made from this file (`tests/tidy.rs`): a first sentence in its doc comment, and the unit at the end of its
//! line.

/// With as many ops in a round, a figure has enough of them to average over, however short it is.
pub const SHORT_OPS: u64 = 200; // ops

/// Two stores that differ by less than this are called equal when that is proved.
pub const EQUAL_WITHIN: f64 = 0.03; // share

/// The confidence of every interval that is printed.
pub const CONFIDENCE: f64 = 0.95; // share

/// Ops that must lie beyond a percentile in every round for it to be printed.
pub const OPS_BEYOND_PERCENTILE_MIN: f64 = 10.0; // ops

/// The largest spread of the processor's probe over a run that needs no mention.
pub const PROCESSOR_SPREAD: f64 = 0.15; // share

/// The largest spread of the probes of the device and of round trips that needs no mention: they are a few dozen operations each.
pub const DEVICE_SPREAD: f64 = 1.0; // share

/// The largest difference of the processor's probes at which two runs can be compared.
pub const SPEED_LIMIT: f64 = 0.15; // share

/// The largest difference of round trips that two runs on one machine may have: from round to round they vary by a third, and more
/// where waking is dear.
pub const TRIP_LIMIT: f64 = 0.5; // share

/// A figure of today holds when it is within this factor of the published one.
pub const MAGNITUDE_FACTOR: f64 = 2.0; // times

/// How likely a round of undisturbed ones is to be taken for one that is far from the others, each number of such rounds by itself.
pub const FAR_SHARE: f64 = 0.005; // share

/// Nearer than this to the others, as a factor, no round is far: it changes little.
pub const FAR_TIMES: f64 = 1.5; // times

/// Rounds differ by no less than this, as a logarithm, however alike the others were.
pub const NOISE_MIN: f64 = 0.01; // share

/// A phase that reads this share of its blobs from the device has read from it.
pub const READ_SHARE: f64 = 0.1; // share

/// A phase that reads less than this, in bytes, has not read from the device: a page of a program or of a directory is no blob.
pub const READ_BYTES_MIN: u64 = 262_144; // bytes

/// A test of a disk that reads from it makes its device read no less than this share of what it read: what others ask only adds.
pub const DEVICE_READ_SHARE_MIN: f64 = 0.95; // share

/// A disk with a cache that takes less than this for half of its flushes has one that outlives power cuts, or does not flush.
pub const FLUSH_NS_MIN: u64 = 100_000; // nanoseconds

/// Flushes of which half take less than this keep nothing: the way to any device and back takes longer.
pub const FLUSH_NS_LEAST: f64 = 5_000.0; // nanoseconds

/// Rounds that read less than this share of what one of them did read nothing in comparison.
pub const NOTHING_SHARE: f64 = 0.1; // share

/// Below this share of a store's bytes in the page cache, not all was there.
pub const CACHED_SHARE: f64 = 0.99; // share

/// A phase that moves less than this in a round, in bytes, does not wait for the disk.
pub const OWN_BYTES_MIN: u64 = 65_536; // bytes

/// Others that move less than this in a phase, in bytes, are always there.
pub const OTHERS_BYTES_MIN: f64 = 1_048_576.0; // bytes

/// Others that move less than this in each second of a phase are always there.
pub const OTHERS_BYTES_PER_S_MIN: f64 = 4_194_304.0; // bytes a second

/// Others whose reads are less than this share of all that the disk moves hardly take part in it.
pub const OTHERS_READ_SHARE: f64 = 0.1; // share

/// What a phase wrote beyond its other rounds is of others, and no whim of the file system's, from this share of what it wrote
/// else.
pub const OTHERS_WRITTEN_SHARE: f64 = 0.5; // share

/// The largest difference of two corpora that are the same for a rate: a file more or less in a directory.
pub const CORPUS_LIMIT: f64 = 0.01; // share

/// Of an op: where the way to another processor differs by more than this share of it, that is what a comparison would show.
pub const WAY_SHARE: f64 = 0.05; // share

/// Above this share of the store's bytes in the page cache after eviction, cold is lukewarm.
pub const RESIDENT_SHARE_MAX: f64 = 0.01; // share

/// Differences below this share and below [`SMALL_NS`] are no reason to choose.
pub const SMALL_SHARE: f64 = 0.03; // share

/// From this size on a blob is no longer small: below it what an op costs by itself is most of its time.
pub const MEDIUM_BYTES: u64 = 10_000; // bytes

/// From this size on a blob is large. The published comparisons of databases with files put the turn between 100 kB and 1 MB.
pub const LARGE_BYTES: u64 = 100_000; // bytes

/// Differences below this and below [`SMALL_SHARE`] are no reason to choose.
pub const SMALL_NS: f64 = 5_000.0; // nanoseconds

/// A figure under 0.5 s and under [`SHORT_OPS`] a round has neither the time nor the ops to average over: it is too short, unless
/// it has [`VERDICT_ROUNDS`] of at least [`LEAST_SECONDS`], whose scatter says how little it is.
pub const SHORT_SECONDS: f64 = 0.5; // seconds

/// Rounds that verdicts need.
pub const VERDICT_ROUNDS: u32 = 5; // rounds

/// A ratio whose interval spans more than this factor does not tell who is faster.
pub const WIDE_TIMES: f64 = 2.0; // times

/// Below this time a round, what the first op meets (a processor that wakes, caches that are cold) is in every round alike, and
/// no scatter shows it: such starts took 140 to 230 us where they were measured, which is below 3 % of this.
pub const LEAST_SECONDS: f64 = 0.01; // seconds

/// A rung's rate over that of the one below it: how closely a ladder of offered rates tells what a store can do.
pub const LADDER_STEP: f64 = 1.25; // times

/// Above this share of harness in an op the figure is not ranked.
pub const HARNESS_SHARE_MAX: f64 = 0.30; // share

/// Below this many device bytes per byte delivered (and compressed), some of what was read came from somewhere else.
pub const DEVICE_BYTES_PER_BYTE_MIN: f64 = 0.90; // times

/// A share of harness in an op above which the figure says something about the harness too.
pub const HARNESS_SHARE_WARNED: f64 = 0.10; // share

/// How long Linux puts off an acknowledgement at the least (`TCP_DELACK_MIN` in the kernel's `include/net/tcp.h`: HZ / 25).
pub const PUT_OFF_MS_MIN: f64 = 40.0; // ms

/// A read that waits for one takes no longer than this, its own work and the kernel's next tick included: 44 ms where it was met.
pub const PUT_OFF_MS_MAX: f64 = 48.0; // ms

/// A share of an op from which waking another processor colours it.
pub const WAKING_SHARE: f64 = 1.0 / 3.0; // share

/// From round to round the way to another processor varies by as much where waking is dear.
pub const WAY_VARIES: f64 = 2.0; // times

/// Waking this much later than due, as a share of the median response, colours an open loop.
pub const WAKE_LATE_SHARE: f64 = 0.10; // share

/// A limit of devices lets through so much more than its rate, as time at that rate: Linux gives out whole slices of a tenth of a second in advance (`block/blk-throttle.c`).
pub const LIMIT_AHEAD_S: f64 = 0.1; // s

/// A share of a round's time above which what a limit of devices lets through in advance is worth a word.
pub const LIMIT_AHEAD_SHARE: f64 = 0.05; // share

/// A share of a candidate's limit of devices from which that limit decides how fast it is.
pub const LIMIT_REACHED: f64 = 0.5; // share

/// A share of the time of a candidate's writes above which what was done between them is worth a word.
pub const CAUGHT_UP_SHARE: f64 = 0.10; // share

/// From this share of its files in the page cache after warm reads, the kernel holds what a candidate reads.
pub const KERNEL_HOLDS_MIN: f64 = 0.9; // share

/// Up to this share of its files in the page cache after warm reads, the kernel holds hardly any of what a candidate reads.
pub const KERNEL_HARDLY_HOLDS_MAX: f64 = 0.25; // share

/// deflate ratio (as of gzip) from which stores that compress have an advantage that depends on the contents.
pub const COMPRESSIBLE: f64 = 1.2; // times

/// A run this many times longer than its budget says so.
pub const OVERRUN_MAX: f64 = 1.25; // times

/// A share of the processors that something else uses while nothing is measured.
pub const OTHERS_PROCESSOR_SHARE_MAX: f64 = 0.10; // share

/// A share of the processors' time that the host gives to others while a run goes on.
pub const STOLEN_SHARE_MAX: f64 = 0.02; // share

/// The share of a phase's ops by which hot blobs are told from others: what a cache of just these would answer.
pub const HOT_OPS_SHARE: f64 = 0.9; // share

/// So many blobs, evenly from the whole, are read one by one, as ops read them. The others come together where the store can do
/// that: millions of small rows would take longer to verify than to measure.
pub const COMPARED_SINGLY: usize = 1000; // blobs

/// So many blobs come together in a comparison.
pub const COMPARED_TOGETHER: usize = 100; // blobs

/// Of the rate that came due, at least this share must have been done by the end.
pub const ACHIEVED_MIN: f64 = 0.99; // share

/// Rounds that a budget is planned for while read phases can give way: more rounds narrow every interval, longer reads only
/// some of them.
pub const ROUNDS_HOPED: u32 = 12; // rounds

/// Rounds that a short budget keeps, until the corpus was cut as far as it may be: before that, phases would lose their figures.
pub const ROUNDS_FEW: u32 = 3; // rounds

/// Rounds below which nothing can be said of repetition.
pub const ROUNDS_MIN: u32 = 2; // rounds

/// A read phase lasts at least this long in a run without a budget, and at most in one with: longer phases find no
/// more than more rounds would.
pub const READ_SECONDS: f64 = 0.5; // seconds

/// A read phase lasts at least this long in any run that is more than a preview.
pub const READ_SECONDS_MIN: f64 = 0.1; // seconds

/// Warm reads of whole blobs are those of memory where the corpus has so many times the bytes of the processor's largest cache. With a
/// cache of 34 MB they took LMDB 1.1 us at 7 MB, 4.2 us at 29 MB, 7.5 us at 58 MB and 8.1 us at 350 MB.
pub const PROCESSOR_CACHE_TIMES: f64 = 2.0; // times

/// The memory of a candidate that does not fit, in the standard phases that are about it, as a share of the corpus.
pub const TIGHT_SHARE: f64 = 0.25; // share

/// Reads of the device stand still when two stretches of reads differ by no more than this, in bytes read for each byte delivered.
pub const STILL_WITHIN: f64 = 0.03; // share

/// Once the memory is full, what is read before a phase with little of it takes no longer than this, whether or not reads of the
/// device stand still.
pub const TIGHT_WARM_SECONDS_MAX: f64 = 3.0; // seconds

/// Filling a candidate's memory takes no longer than this.
pub const TIGHT_FILL_SECONDS_MAX: f64 = 60.0; // seconds

/// A candidate with little memory that reads so many times what it delivers from the device reads much that it does not need.
pub const READS_MORE_TIMES: f64 = 2.0; // times

/// The least memory that a candidate can be held to, beyond what it takes when it is empty. With less, the code of the program
/// itself is read from the device again and again: SQLite's warm reads of 100 kB took 4.9 ms with 1.1 MB, 0.94 ms with 2 MB and 0.85
/// ms with 4 MB.
pub const MEMORY_MIN: u64 = 4_194_304; // bytes

/// A candidate that has more memory outside of its control group than this share of its limit is not held to it.
pub const MEMORY_OUTSIDE_MAX: f64 = 0.05; // share

/// What is left at least of a plan's memory when the plan is scaled down, beyond what a candidate takes when it is empty: every
/// store of the table runs with it, whatever its data. With half of it MySQL 9.7 read its own program from the device again and
/// again: six blobs of 3.9 MB took 0.2 to 1.6 s, and then one took longer than 30 s.
pub const SCALED_MEMORY_MIN: u64 = 134_217_728; // bytes

/// Passes of a cold phase that a server does: each costs it a restart.
pub const COLD_PASSES_SERVERS: u32 = 2; // passes

/// Blobs from which on these passes have ops enough for a rank.
pub const COLD_BLOBS_SERVERS: u64 = 5_000; // blobs

/// The share of a budget that the pilot may take for the phases of one candidate: who needs more is tried with fewer blobs.
pub const PILOT_SHARE_MAX: f64 = 0.1; // share

/// A phase with little memory is given this long in any case before it is said not to end.
pub const STUCK_SECONDS_MIN: u64 = 10; // seconds

/// So is one that takes no longer than this many times the longest phase before it: a slow store is not stuck.
pub const STUCK_TIMES: u32 = 10; // times

/// Below this part of its size a run is a preview of a plan's shape: of a round or two, with verdicts that are not to be quoted.
pub const PREVIEW_SCALE: f64 = 0.1; // times

/// Above this share of the store's bytes in the page cache after opening, the store has loaded them itself.
pub const RESIDENT_SHARE_OPENED_MAX: f64 = 0.10; // share

/// What a request of the user's program is taken to last: a difference between places is shown beside it.
pub const REQUEST_NS: f64 = 1_000_000.0; // nanoseconds

/// A difference below this share of such a request decides nothing.
pub const REQUEST_SHARE: f64 = 0.05; // share

/// Prices that are older than this are to be looked up again.
pub const PRICES_DAYS_MAX: u64 = 180; // days

/// Seconds of a month: a twelfth of 365.25 days.
pub const MONTH_SECONDS: f64 = 2_629_800.0; // seconds

/// Where another candidate becomes the cheapest is looked for up to so many times the ops that were asked about, and down to that
/// part of them.
pub const LOAD_TIMES: f64 = 100.0; // times

/// A client below this share of the median client's rate is called slow.
pub const SLOW_CLIENT_SHARE: f64 = 0.8; // share
