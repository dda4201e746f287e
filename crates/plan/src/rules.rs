//! Thresholds of all verdicts, each defined once, below the modules that plan, measure and judge by them.
//! `docs/reference/thresholds.md` has a table made from this file (`tests/tidy.rs`): of each constant its doc comment, its value, and
//! the unit given at the end of its line.

/// Ops per round from which on a figure is long enough to average over, however little time it took.
pub const SHORT_OPS: u64 = 200; // ops

/// Two stores proved to differ by less than this are called equal.
pub const EQUAL_WITHIN: f64 = 0.03; // share

/// Confidence of every interval that is printed.
pub const CONFIDENCE: f64 = 0.95; // share

/// Minimum number of ops beyond a percentile, in every round, for the percentile to be printed.
pub const OPS_BEYOND_PERCENTILE_MIN: f64 = 10.0; // ops

/// Spread of the CPU probe over a run above which it is reported.
pub const PROCESSOR_SPREAD: f64 = 0.15; // share

/// Spread of the device and round-trip probes above which it is reported; it is wide because each probe is a few dozen
/// operations.
pub const DEVICE_SPREAD: f64 = 1.0; // share

/// Largest difference of the CPU probes of two runs that are compared.
pub const SPEED_LIMIT: f64 = 0.15; // share

/// Largest difference of round-trip times of two runs on one machine; from round to round they vary by a third, and
/// more where wake-up latency is high.
pub const TRIP_LIMIT: f64 = 0.5; // share

/// Factor within which a figure of this run must agree with the published one for the magnitude to hold.
pub const MAGNITUDE_FACTOR: f64 = 2.0; // times

/// Probability of flagging an outlier among undisturbed rounds, in each step of the outlier test (one step per possible
/// number of outliers).
pub const FAR_SHARE: f64 = 0.005; // share

/// A round within this factor of the others is never an outlier, because it changes little.
pub const FAR_TIMES: f64 = 1.5; // times

/// Lower bound of the noise assumed between rounds, as a logarithm, however similar the other rounds are.
pub const NOISE_MIN: f64 = 0.01; // share

/// Share of its blobs that a warm phase must read from the device to count as reading from there.
pub const READ_SHARE: f64 = 0.1; // share

/// A phase that reads fewer bytes than this does not count as reading from the device, because pages of programs and
/// directories are not blobs.
pub const READ_BYTES_MIN: u64 = 262_144; // bytes

/// Minimum share of the bytes of a disk test that its device must have read; requests of other programs can only add to
/// it.
pub const DEVICE_READ_SHARE_MIN: f64 = 0.95; // share

/// If a disk with a cache completes half of its flushes in less than this, the cache survives power cuts or the disk
/// does not flush.
pub const FLUSH_NS_MIN: u64 = 100_000; // nanoseconds

/// If half of the flushes take less than this, they make nothing durable: a round trip to any device takes longer.
pub const FLUSH_NS_LEAST: f64 = 5_000.0; // nanoseconds

/// A round that read less than this share of what another round read counts as having read nothing in comparison.
pub const NOTHING_SHARE: f64 = 0.1; // share

/// Share of a store's bytes in the page cache from which on it counts as fully cached.
pub const CACHED_SHARE: f64 = 0.99; // share

/// A phase that moves fewer bytes than this in a round does not wait for the disk.
pub const OWN_BYTES_MIN: u64 = 65_536; // bytes

/// Other programs that move fewer bytes than this in a phase count as normal background activity.
pub const OTHERS_BYTES_MIN: f64 = 1_048_576.0; // bytes

/// Other programs that move less than this in each second of a phase count as normal background activity.
pub const OTHERS_BYTES_PER_S_MIN: f64 = 4_194_304.0; // bytes a second

/// Reads of other programs below this share of all bytes that the disk moves are negligible.
pub const OTHERS_READ_SHARE: f64 = 0.1; // share

/// From this share of the other bytes written on, the bytes that a round wrote beyond its other rounds are attributed
/// to other programs and not to variation of the file system.
pub const OTHERS_WRITTEN_SHARE: f64 = 0.5; // share

/// Largest difference between two corpora that count as the same for a rate, such as one file more or less in a
/// directory.
pub const CORPUS_LIMIT: f64 = 0.01; // share

/// If the cross-CPU round trips of two runs differ by more than this share of an op, ops that wait for another process
/// are not compared.
pub const WAY_SHARE: f64 = 0.05; // share

/// Share of the store's bytes in the page cache after eviction above which a cold phase is lukewarm.
pub const RESIDENT_SHARE_MAX: f64 = 0.01; // share

/// Differences below this share and below [`SMALL_NS`] do not matter for a choice.
pub const SMALL_SHARE: f64 = 0.03; // share

/// Lower size limit of medium blobs; below it per-op costs dominate.
pub const MEDIUM_BYTES: u64 = 10_000; // bytes

/// Lower size limit of large blobs. Published comparisons of databases with files place the crossover between 100 kB
/// and 1 MB.
pub const LARGE_BYTES: u64 = 100_000; // bytes

/// Differences below this and below [`SMALL_SHARE`] do not matter for a choice.
pub const SMALL_NS: f64 = 5_000.0; // nanoseconds

/// A figure with less time per round than this and fewer than [`SHORT_OPS`] ops is too short, unless it has
/// [`VERDICT_ROUNDS`] rounds of at least [`LEAST_SECONDS`], whose variance shows how uncertain it is.
pub const SHORT_SECONDS: f64 = 0.5; // seconds

/// Minimum number of rounds for a verdict.
pub const VERDICT_ROUNDS: u32 = 5; // rounds

/// A ratio whose interval spans more than this factor does not decide which is faster.
pub const WIDE_TIMES: f64 = 2.0; // times

/// Minimum time per round for variance to show all errors. In shorter rounds the costs of the first op (a CPU that
/// wakes, cold caches) are the same in every round, so the variance misses them; they took 140 to 230 us where
/// measured, which is below 3 % of this.
pub const LEAST_SECONDS: f64 = 0.01; // seconds

/// Ratio of the rates of successive rungs of a ladder, and so the precision with which a ladder finds what a store can
/// sustain.
pub const LADDER_STEP: f64 = 1.25; // times

/// Largest harness share of an op at which a figure is ranked.
pub const HARNESS_SHARE_MAX: f64 = 0.30; // share

/// Device bytes read per byte delivered (after compression) below which part of the data must have come from somewhere
/// else.
pub const DEVICE_BYTES_PER_BYTE_MIN: f64 = 0.90; // times

/// Harness share of an op above which a warning says that the figure includes the harness.
pub const HARNESS_SHARE_WARNED: f64 = 0.10; // share

/// Minimum time by which Linux delays an acknowledgement (`TCP_DELACK_MIN` in the kernel's `include/net/tcp.h`: HZ /
/// 25).
pub const PUT_OFF_MS_MIN: f64 = 40.0; // ms

/// Maximum duration of a read that waits for a delayed acknowledgement, with its own work and the kernel's next tick;
/// 44 ms was observed.
pub const PUT_OFF_MS_MAX: f64 = 48.0; // ms

/// Share of an op from which on waking another CPU dominates its time enough for a warning.
pub const WAKING_SHARE: f64 = 1.0 / 3.0; // share

/// Factor by which the cross-CPU round trip varies from round to round where wake-up latency is high.
pub const WAY_VARIES: f64 = 2.0; // times

/// Wake-up delay of workers, as a share of the median response time, above which an open loop gets a warning.
pub const WAKE_LATE_SHARE: f64 = 0.10; // share

/// Burst that a device limit allows, as time at its rate: Linux grants whole slices of a tenth of a second in advance
/// (`block/blk-throttle.c`).
pub const LIMIT_AHEAD_S: f64 = 0.1; // s

/// Share of a round's time above which the burst of a device limit is reported.
pub const LIMIT_AHEAD_SHARE: f64 = 0.05; // share

/// Share of a candidate's device limit from which on the limit determines how fast it is.
pub const LIMIT_REACHED: f64 = 0.5; // share

/// Share of a candidate's write time above which work done between its phases is reported.
pub const CAUGHT_UP_SHARE: f64 = 0.10; // share

/// Share of its files in the page cache after warm reads from which on the kernel holds what a candidate reads.
pub const KERNEL_HOLDS_MIN: f64 = 0.9; // share

/// Share of its files in the page cache after warm reads up to which the kernel holds hardly any of what a candidate
/// reads.
pub const KERNEL_HARDLY_HOLDS_MAX: f64 = 0.25; // share

/// Compression ratio with deflate (as in gzip) above which stores that compress have an advantage that depends on the
/// contents.
pub const COMPRESSIBLE: f64 = 1.2; // times

/// Factor of its budget above which a run reports that it took too long.
pub const OVERRUN_MAX: f64 = 1.25; // times

/// Share of the CPUs that other programs use before a run above which it is reported.
pub const OTHERS_PROCESSOR_SHARE_MAX: f64 = 0.10; // share

/// Share of CPU time that the hypervisor gives to other guests during a run above which it is reported.
pub const STOLEN_SHARE_MAX: f64 = 0.02; // share

/// Share of a phase's ops that defines its hot blobs; a cache of just these would answer this share.
pub const HOT_OPS_SHARE: f64 = 0.9; // share

/// Number of blobs, evenly spaced, that a comparison reads one at a time, as ops do. The others are read in batches
/// where the store can do that, because reading millions of small rows one by one would take longer than measuring.
pub const COMPARED_SINGLY: usize = 1000; // blobs

/// Maximum number of blobs in a batch of a comparison.
pub const COMPARED_TOGETHER: usize = 100; // blobs

/// Minimum share of the offered rate that a rung must achieve.
pub const ACHIEVED_MIN: f64 = 0.99; // share

/// Number of rounds that a budget is planned for while read phases can be shortened: more rounds narrow every interval,
/// longer reads only some.
pub const ROUNDS_HOPED: u32 = 12; // rounds

/// Number of rounds that a short budget keeps until the corpus is as small as allowed, even if phases lose their figures
/// by that; only then are rounds reduced further.
pub const ROUNDS_FEW: u32 = 3; // rounds

/// Minimum number of rounds for any statement on repeatability.
pub const ROUNDS_MIN: u32 = 2; // rounds

/// Duration of a read phase: the minimum in a run without a budget, the maximum in one with. Longer phases add no more
/// than further rounds would.
pub const READ_SECONDS: f64 = 0.5; // seconds

/// Minimum duration of a read phase in any run that is not a preview.
pub const READ_SECONDS_MIN: f64 = 0.1; // seconds

/// Size of the corpus, as a multiple of the CPU's largest cache, from which on warm reads of whole blobs measure
/// memory. With a cache of 34 MB they took LMDB 1.1 us at 7 MB, 4.2 us at 29 MB, 7.5 us at 58 MB and 8.1 us at 350 MB.
pub const PROCESSOR_CACHE_TIMES: f64 = 2.0; // times

/// Memory of a candidate in the standard phases with too little memory, as a share of the corpus.
pub const TIGHT_SHARE: f64 = 0.25; // share

/// Difference between two successive stretches of reads, in device bytes per byte delivered, up to which device reads
/// count as steady.
pub const STILL_WITHIN: f64 = 0.03; // share

/// Maximum warm-up time of a phase with little memory once the memory is full, whether or not device reads are steady.
pub const TIGHT_WARM_SECONDS_MAX: f64 = 3.0; // seconds

/// Maximum time spent on filling a candidate's memory.
pub const TIGHT_FILL_SECONDS_MAX: f64 = 60.0; // seconds

/// Device bytes read per byte delivered from which on a candidate with little memory reads much that it does not need.
pub const READS_MORE_TIMES: f64 = 2.0; // times

/// Minimum memory limit of a candidate, beyond what it uses when empty. With less, the program's own code is read from
/// the device again and again: SQLite's warm reads of 100 kB took 4.9 ms with 1.1 MB, 0.94 ms with 2 MB and 0.85 ms
/// with 4 MB.
pub const MEMORY_MIN: u64 = 4_194_304; // bytes

/// Memory limit below which no budget takes a phase by fewer blobs. With 4.4 MB, three of four candidates (`sqlite`,
/// `postgres/bytea`, `s3`) got stuck in reads with little memory and had no figure.
pub const MEMORY_KEPT: u64 = 8_388_608; // bytes

/// Memory outside the cgroup, as a share of the limit, above which a candidate counts as not limited.
pub const MEMORY_OUTSIDE_MAX: f64 = 0.05; // share

/// Minimum memory left when a plan is scaled down, beyond what a candidate uses when empty: every store in the table
/// runs with it, whatever its data. With half of it MySQL 9.7 read its own program from the device again and again: six
/// blobs of 3.9 MB took 0.2 to 1.6 s, and then one took longer than 30 s.
pub const SCALED_MEMORY_MIN: u64 = 134_217_728; // bytes

/// Number of passes of a cold phase that a server does, because each requires a restart.
pub const COLD_PASSES_SERVERS: u32 = 2; // passes

/// Number of blobs from which on [`COLD_PASSES_SERVERS`] passes have enough ops for a rank.
pub const COLD_BLOBS_SERVERS: u64 = 5_000; // blobs

/// Share of the budget that the pilot may spend on the phases of one candidate; one that needs more is tried with fewer
/// blobs.
pub const PILOT_SHARE_MAX: f64 = 0.1; // share

/// Minimum time before a candidate in the pilot, or a phase with little memory, is considered stuck. At 10 ms a read, a
/// disk reads the pilot's 400 blobs twice in it.
pub const STUCK_SECONDS_MIN: u64 = 10; // seconds

/// A phase with little memory is not considered stuck before this many times the longest phase before it that reads, or
/// writes, as it does: a store that is slow just now is not stuck.
pub const STUCK_TIMES: u32 = 3; // times

/// Scale below which a run is only a preview of its plan, of one or two rounds, with verdicts that should not be
/// quoted.
pub const PREVIEW_SCALE: f64 = 0.1; // times

/// Share of the store's bytes in the page cache after opening above which the store has loaded its data itself.
pub const RESIDENT_SHARE_OPENED_MAX: f64 = 0.10; // share

/// Assumed duration of a request of the user's program, which differences between places are related to.
pub const REQUEST_NS: f64 = 1_000_000.0; // nanoseconds

/// A difference below this share of such a request does not matter.
pub const REQUEST_SHARE: f64 = 0.05; // share

/// Age above which prices should be looked up again.
pub const PRICES_DAYS_MAX: u64 = 180; // days

/// Length of a month: a twelfth of 365.25 days.
pub const MONTH_SECONDS: f64 = 2_629_800.0; // seconds

/// Range of loads in which changes of the cheapest candidate are searched: from the requested ops divided by this up to
/// the requested ops times this.
pub const LOAD_TIMES: f64 = 100.0; // times

/// Share of the median client's rate below which a client is called slow.
pub const SLOW_CLIENT_SHARE: f64 = 0.8; // share

/// Minimum number of steps of a growth that is extrapolated. With fewer, too little is left to test a law by.
pub const GROWTH_STEPS_MIN: usize = 5; // steps
