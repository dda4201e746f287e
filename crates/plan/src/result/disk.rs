//! Report of disk tests, as written by `blobwise disk --json`. `docs/disk.schema.json` is made from these types.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{FlushDoubt, Interval, Machine, Percentiles, ReplacedFlushes, StorageLayers};
use crate::units;

/// Version of the format; readers refuse any other.
pub const DISK_SCHEMA: u32 = 2;

/// Report of disk tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiskReport {
    /// Version of the format.
    pub schema: u32,
    /// Version of the program.
    pub blobwise: String,
    /// Start time (UTC).
    pub started: String,
    /// Machine the tests ran on.
    pub machine: Machine,
    /// Size of the test file in bytes; 0 if devices are read.
    pub file_bytes: u64,
    /// Block size, in bytes.
    pub block_bytes: u64,
    /// Number of files that are created, looked up and deleted.
    pub files: u64,
    /// Requested number of rounds.
    pub rounds: u32,
    /// Duration in seconds of tests that have no other end.
    pub seconds: f64,
    /// Places that were tested.
    pub places: Vec<TestedPlace>,
    /// One row per test and place.
    pub rows: Vec<TestResult>,
    /// Comparison of the places, test by test; empty for a single place.
    pub differences: Vec<Difference>,
    /// Costs of device requests; present if prices were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<RequestCosts>,
    /// Reasons why a figure may be misleading.
    pub warnings: Vec<DiskWarning>,
}

impl DiskReport {
    /// Iterates over the rows measured by blobwise itself.
    pub fn ours(&self) -> impl Iterator<Item = &TestResult> {
        self.rows.iter().filter(|row| row.by == TestProgram::Blobwise)
    }

    /// Iterates over the places that blobwise itself measured.
    pub fn measured(&self) -> impl Iterator<Item = &TestedPlace> {
        self.places.iter().filter(|place| self.ours().any(|row| row.place == place.name))
    }

    /// Returns the tests done by blobwise, each once, in order.
    pub fn tests(&self) -> Vec<Test> {
        units::distinct(self.ours().map(|row| row.test))
    }
}

/// Directory, device, or file system created by blobwise that is tested.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestedPlace {
    /// Name used in rows.
    pub name: String,
    /// Description of the file system and the device.
    pub disk: String,
    /// Device whose counters the rows have; absent if the kernel names none.
    pub device: Option<String>,
    /// True if the device was created by blobwise, so that no other program uses it.
    pub is_own: bool,
    /// Number of devices created by blobwise that it lies on; 1 for a directory.
    pub devices: u32,
    /// True if each of these devices has a limit.
    pub is_limited: bool,
    /// Storage layers below it, down to the one that keeps the bytes; absent for devices, and in reports of
    /// earlier versions.
    pub below: Option<StorageLayers>,
    /// True if the device reports a write-back cache, which a flush empties; absent if it reports nothing.
    pub says_write_back: Option<bool>,
    /// True if a layer below the device, such as the host of a virtual machine, caches blocks; absent if that was not
    /// determined.
    pub host_caches: Option<bool>,
    /// True if creating a file makes the file system scan recent deletions, as ext4 without a journal does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remembers_deletions: bool,
    /// Details of a file system created by blobwise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
}

impl TestedPlace {
    /// Returns a place of which only the name and description are known.
    pub fn known_by(name: &str, disk: String) -> TestedPlace {
        TestedPlace { name: name.to_owned(), disk, devices: 1, ..TestedPlace::default() }
    }
}

/// Test with its number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Test {
    /// Operation.
    pub what: TestOperation,
    /// Number of concurrent threads.
    pub threads: u32,
}

/// Operation of a test. One op is one block or one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TestOperation {
    /// A new file is written block by block through the page cache, with one flush at the end.
    Write,
    /// Every block is read, changed and written back, with one flush at the end. The file was not cached.
    Rewrite,
    /// Every block is read in order. The file was not cached.
    Read,
    /// Every block is read in order from the page cache; measures memory, not the disk.
    ReadCached,
    /// Blocks are read in order from a position on the device, given in percent of its length. They were not cached.
    ReadAt(u8),
    /// Blocks are read in random order.
    RandomRead,
    /// Blocks are overwritten in random order, with one flush at the end.
    RandomWrite,
    /// A block is overwritten and flushed.
    Flush,
    /// Empty files are created in the order of their names; their directory is flushed at the end.
    Create,
    /// The files are looked up in order.
    Stat,
    /// The files are deleted in order; the directory is flushed at the end.
    Delete,
    /// Empty files are created in random order.
    CreateRandom,
    /// The files are looked up in random order.
    StatRandom,
    /// The files are deleted in random order.
    DeleteRandom,
}

impl TestOperation {
    /// Returns the wording used in reports.
    pub fn name(self) -> &'static str {
        match self {
            TestOperation::Write => "write",
            TestOperation::Rewrite => "rewrite",
            TestOperation::Read => "read",
            TestOperation::ReadCached => "read, cached",
            TestOperation::ReadAt(_) => "read at",
            TestOperation::RandomRead => "random read",
            TestOperation::RandomWrite => "random write",
            TestOperation::Flush => "write and flush",
            TestOperation::Create => "create",
            TestOperation::Stat => "stat",
            TestOperation::Delete => "delete",
            TestOperation::CreateRandom => "create, random",
            TestOperation::StatRandom => "stat, random",
            TestOperation::DeleteRandom => "delete, random",
        }
    }

    /// True if its rate is usually given in bytes per second rather than in ops per second.
    pub fn is_in_bytes(self) -> bool {
        matches!(
            self,
            TestOperation::Write
                | TestOperation::Rewrite
                | TestOperation::Read
                | TestOperation::ReadCached
                | TestOperation::ReadAt(_)
        )
    }
}

impl fmt::Display for Test {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        if let TestOperation::ReadAt(percent) = self.what {
            return write!(to, "{} {percent} %", self.what.name());
        }
        match self.threads {
            1 if !matches!(self.what, TestOperation::RandomRead | TestOperation::RandomWrite) => {
                to.write_str(self.what.name())
            }
            threads => write!(to, "{} x{threads}", self.what.name()),
        }
    }
}

/// Program that does a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TestProgram {
    /// blobwise itself.
    Blobwise,
    /// Bonnie++.
    Bonnie,
    /// fio.
    Fio,
}

/// Results of a test in a place.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestResult {
    /// Name of the place.
    pub place: String,
    /// Program that did the test.
    pub by: TestProgram,
    /// Test.
    pub test: Test,
    /// True if it bypassed the page cache (`O_DIRECT`); otherwise its figures include the cache.
    pub is_direct: bool,
    /// Measurements of each round.
    pub rounds: Vec<TestRound>,
    /// Reason why there is no figure.
    pub absent: Option<Absent>,
    /// Ops per second, over all rounds.
    pub rate: Option<Interval>,
    /// Times of ops, over all rounds.
    pub times_ns: Percentiles,
    /// Rate relative to blobwise's own row for the same test, paired by round.
    pub over_ours: Option<Interval>,
}

/// One round of a test.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestRound {
    /// Number of the round, from 1.
    pub round: u32,
    /// Ops done.
    pub ops: u64,
    /// Duration, including the flush at the end if there is one.
    pub seconds: f64,
    /// CPU time of the test threads, in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// Activity of the device during the test, whichever program caused it.
    pub device: Option<DeviceUse>,
    /// Share of the file in the page cache before the first op, if relevant.
    pub resident: Option<f64>,
    /// Times of ops, as compressed HdrHistogram V2 in base64.
    pub times: Option<String>,
}

/// Activity of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceUse {
    /// Number of read requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Number of write requests.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Number of flush requests; absent if the kernel does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes: Option<u64>,
}

impl DeviceUse {
    /// Returns the number of read and write requests.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }
}

/// Reason why there is no figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Absent {
    /// The kernel kept part of the file in the page cache although it was asked to drop it, so reads would not be the
    /// disk's.
    StillCached {
        /// Share of the file in the page cache.
        share: f64,
    },
    /// The file was not fully in the page cache, although it should have been.
    NotCached {
        /// Share of the file in the page cache.
        share: f64,
    },
    /// The device read less than was requested, although it should have read everything. The rest came from a cache
    /// that the kernel does not report.
    NotRead {
        /// Share of the requested bytes that the device read.
        share: f64,
    },
    /// An op failed.
    Failed {
        /// First error message.
        error: String,
    },
    /// The other program gave no figure, as Bonnie++ does for tests that took less than half a second.
    NotTold,
}

/// Costs of device requests at the user's price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestCosts {
    /// Date of the price, such as `2026-11-26`.
    pub date: String,
    /// Age of the price in days when it was read.
    pub age_days: u64,
    /// Currency.
    pub currency: String,
    /// Price of a million requests, reads and writes. Free requests are not deducted, because other programs use them
    /// up.
    pub per_million_requests: f64,
    /// Places whose device requests were counted.
    pub places: Vec<PlaceCosts>,
}

/// Costs of the requests of a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlaceCosts {
    /// Name of the place.
    pub place: String,
    /// Number of requests in all rounds of blobwise's own tests.
    pub requests: u64,
    /// Cost of these requests.
    pub cost: f64,
    /// Cost of a million ops, test by test.
    pub of_million_ops: Vec<TestCost>,
}

/// Cost of a million ops of a test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestCost {
    /// Test.
    pub test: Test,
    /// Cost of a million blocks or files, from the requests per op.
    pub cost: f64,
}

/// Comparison of the places in a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Test.
    pub test: Test,
    /// Places that no other is proved faster than, the fastest first.
    pub leaders: Vec<String>,
    /// Other places, with their rates relative to the first leader; the intervals hold simultaneously.
    pub behind: Vec<SlowerPlace>,
}

/// Place that is slower than the leaders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowerPlace {
    /// Name of the place.
    pub place: String,
    /// Rate relative to the first leader.
    pub ratio: Interval,
}

/// Reason why a figure may be misleading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum DiskWarning {
    /// Half of the flushes took less time than any disk needs to make data durable, and the device reports a cache.
    QuickFlushes {
        /// Name of the place.
        place: String,
        /// Median flush time, in nanoseconds.
        p50_ns: u64,
    },
    /// Flushes may not make data durable in this place.
    Flushes {
        /// Name of the place.
        place: String,
        /// Reasons for the doubt.
        doubts: Vec<FlushDoubt>,
    },
    /// Libraries were injected into the program.
    Preloaded {
        /// Environment variables or files that inject them, with the libraries.
        settings: Vec<String>,
        /// Flushing functions that they replace.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        replaced: Vec<ReplacedFlushes>,
    },
    /// The disk is virtual, so positions on it and caches of the host are not visible.
    VirtualDisk {
        /// Names of the places on it.
        places: Vec<String>,
    },
    /// A layer below the device caches blocks.
    HostCaches {
        /// Name of the place.
        place: String,
    },
    /// Several devices are files on one disk without a limit, so together they are no faster than that disk.
    OneDisk {
        /// Name of the place.
        place: String,
    },
    /// The file system scans recent deletions for each file that it creates.
    RemembersDeletions {
        /// Name of the place.
        place: String,
    },
    /// The kernel names no device below the place, so there are no device counters that could confirm the reads.
    NoDevice {
        /// Name of the place.
        place: String,
    },
    /// The file system does not support direct I/O, so random reads and writes went through the page cache.
    NotDirect {
        /// Name of the place.
        place: String,
    },
    /// A round of these tests took less than 10 ms, which is too short to compare places.
    TooShort {
        /// Name of the place.
        place: String,
        /// Affected tests.
        tests: Vec<Test>,
    },
    /// These tests are bounded by the device limit, and a round of them is short: the limit grants part of its rate as
    /// a burst.
    AheadOfLimit {
        /// Name of the place.
        place: String,
        /// Affected tests.
        tests: Vec<Test>,
        /// Upper bound of the burst, as a share of the time of the shortest of these rounds; 1 if that round fits into
        /// the burst.
        share_max: f64,
    },
    /// There are too few rounds for narrow intervals.
    FewRounds {
        /// Number of rounds.
        rounds: u32,
    },
    /// Other programs use the device, too, so its counters include their requests.
    SharedDevice {
        /// Name of the place.
        place: String,
    },
    /// A program requested for comparison is missing.
    Missing {
        /// Missing program.
        by: TestProgram,
        /// Reason, and how to install it.
        why: String,
    },
}
