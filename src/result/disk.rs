//! What a test of disks showed: what `blobwise disk --json` writes. `docs/disk.schema.json` is made from it.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Below, FlushDoubt, Interval, Machine, Percentiles, ReplacedFlushes};

/// Version of the format; a reader refuses any other one.
pub const DISK_SCHEMA: u32 = 2;

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of this format.
    pub schema: u32,
    /// The program's version.
    pub blobwise: String,
    /// When it began.
    pub started: String,
    /// The machine it was made on.
    pub machine: Machine,
    /// Bytes of the file that is written and read; 0 where devices are read.
    pub file_bytes: u64,
    /// Bytes of each block of it.
    pub block_bytes: u64,
    /// Files that are made, looked up and deleted.
    pub files: u64,
    /// Rounds that were asked for.
    pub rounds: u32,
    /// How long a test lasts that has no other end.
    pub seconds: f64,
    /// Where the tests were done.
    pub places: Vec<TestedPlace>,
    /// A row for each test of each place.
    pub rows: Vec<Row>,
    /// How the places differ, test by test; nothing where there is one place.
    pub differences: Vec<Difference>,
    /// What requests cost, where prices were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// Why a figure may say something else than it seems to.
    pub warnings: Vec<Warning>,
}

impl Report {
    /// Our own rows.
    pub fn ours(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.by == By::Blobwise)
    }

    /// The places that were measured now: of others there are only tables.
    pub fn measured(&self) -> impl Iterator<Item = &TestedPlace> {
        self.places.iter().filter(|place| self.ours().any(|row| row.place == place.name))
    }

    /// Our tests, each once, in their order.
    pub fn tests(&self) -> Vec<Test> {
        let mut tests: Vec<Test> = Vec::new();
        for row in self.ours() {
            if !tests.contains(&row.test) {
                tests.push(row.test);
            }
        }
        tests
    }
}

/// A directory, or a file system of our own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestedPlace {
    /// What it is called in rows.
    pub name: String,
    /// The file system and the device, in words.
    pub disk: String,
    /// The device whose counters the rows have; absent where the kernel names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Whether the device is one of our own, which nobody else uses.
    pub is_own: bool,
    /// Devices of our own that it lies on; 1 for a directory.
    pub devices: u32,
    /// Whether each of them is held to a limit.
    pub is_limited: bool,
    /// What lies below it, down to what keeps its bytes; absent of devices, of tables, and in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<Below>,
    /// Whether the device says that it has a cache that a flush empties; absent where it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub says_write_back: Option<bool>,
    /// Whether something below the device keeps blocks in a cache, such as the host of a virtual machine; absent where that was not
    /// found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_caches: Option<bool>,
    /// Whether its file system goes over what was deleted lately for each file that it makes, as ext4 does without a journal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remembers_deletions: bool,
    /// What a file system of our own was made of and by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
}

impl TestedPlace {
    /// A place of which nothing is known but what it is called and what it is, such as one of a table that another program wrote.
    pub fn known_by(name: &str, disk: String) -> TestedPlace {
        TestedPlace {
            name: name.to_owned(),
            disk,
            device: None,
            is_own: false,
            devices: 1,
            is_limited: false,
            below: None,
            says_write_back: None,
            host_caches: None,
            remembers_deletions: false,
            facts: BTreeMap::new(),
        }
    }
}

/// What is tested, and by how many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Test {
    /// What is done.
    pub what: What,
    /// Threads that do it at once.
    pub threads: u32,
}

/// What a test does. One op is one block or one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A new file, block by block through the page cache, and one flush at its end.
    Write,
    /// Every block is read, changed and written back, and one flush at the end. The file was not cached.
    Rewrite,
    /// Every block in order. The file was not cached.
    Read,
    /// The same when all of it is cached: memory, not the disk.
    ReadCached,
    /// Blocks in order from a position of a device on, in per cent of its length. They were not cached.
    ReadAt(u8),
    /// Blocks in random order.
    RandomRead,
    /// The same, overwritten, and one flush at the end.
    RandomWrite,
    /// A block is overwritten and flushed.
    Flush,
    /// Empty files are made in the order of their names, and their directory is flushed at the end.
    Create,
    /// They are looked up in that order.
    Stat,
    /// They are deleted in that order, and the directory is flushed.
    Delete,
    /// Made in random order.
    CreateRandom,
    /// Looked up in random order.
    StatRandom,
    /// Deleted in random order.
    DeleteRandom,
}

impl What {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            What::Write => "write",
            What::Rewrite => "rewrite",
            What::Read => "read",
            What::ReadCached => "read, cached",
            What::ReadAt(_) => "read at",
            What::RandomRead => "random read",
            What::RandomWrite => "random write",
            What::Flush => "write and flush",
            What::Create => "create",
            What::Stat => "stat",
            What::Delete => "delete",
            What::CreateRandom => "create, random",
            What::StatRandom => "stat, random",
            What::DeleteRandom => "delete, random",
        }
    }

    /// Whether people ask how many bytes of it there are in a second, and not how many ops.
    pub fn is_in_bytes(self) -> bool {
        matches!(self, What::Write | What::Rewrite | What::Read | What::ReadCached | What::ReadAt(_))
    }
}

impl fmt::Display for Test {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        if let What::ReadAt(percent) = self.what {
            return write!(to, "{} {percent} %", self.what.name());
        }
        match self.threads {
            1 if !matches!(self.what, What::RandomRead | What::RandomWrite) => to.write_str(self.what.name()),
            threads => write!(to, "{} x{threads}", self.what.name()),
        }
    }
}

/// Who does a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// This program.
    Blobwise,
    /// Bonnie++.
    Bonnie,
    /// fio.
    Fio,
}

/// A test of a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The place.
    pub place: String,
    /// Who did it.
    pub by: By,
    /// What was done.
    pub test: Test,
    /// Whether it went past the page cache (`O_DIRECT`); where not, its figures are of the cache, too.
    pub is_direct: bool,
    /// What was measured, round by round.
    pub rounds: Vec<Round>,
    /// Why there is no figure, where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<Absent>,
    /// Ops a second over the rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Interval>,
    /// Times of ops over the rounds.
    pub times_ns: Percentiles,
    /// This rate over that of our own row of the same test, paired by round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_ours: Option<Interval>,
}

/// One round of a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    /// Its number, from 1.
    pub round: u32,
    /// Ops done.
    pub ops: u64,
    /// How long they took, with the flush at the end where there is one.
    pub seconds: f64,
    /// Processor time of the threads that did them, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// What the device did meanwhile, whoever asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceUse>,
    /// The share of the file in the page cache before the first op, where that matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident: Option<f64>,
    /// Times of ops: HdrHistogram V2, compressed, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<String>,
}

/// What a device did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceUse {
    /// Read requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flush requests, where the kernel counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes: Option<u64>,
}

impl DeviceUse {
    /// Requests, of reads and of writes.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }
}

/// Why there is no figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Absent {
    /// The kernel kept this share of the file in its cache though it was asked to drop it: a read would not be the disk's.
    StillCached {
        /// The share.
        share: f64,
    },
    /// This share of the file was cached, and all of it should be.
    NotCached {
        /// The share.
        share: f64,
    },
    /// The device read this share of what was asked for, and it should be all: the rest came from a cache that the kernel does not
    /// tell of.
    NotRead {
        /// The share.
        share: f64,
    },
    /// An op failed.
    Failed {
        /// The first error.
        error: String,
    },
    /// The other program gave no figure, as Bonnie++ does for what took it under half a second.
    NotTold,
}

/// What the requests of devices cost, at a price of the user's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Costs {
    /// The day of the price, such as `2026-11-26`.
    pub date: String,
    /// Its age in days when it was read.
    pub age_days: u64,
    /// What it is in.
    pub currency: String,
    /// A million requests, reads and writes. Free ones are not taken off: others use them up.
    pub per_million_requests: f64,
    /// The places whose devices were counted.
    pub places: Vec<PlaceCosts>,
}

/// What the requests of a place cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlaceCosts {
    /// The place.
    pub place: String,
    /// Requests of all rounds of all our tests.
    pub requests: u64,
    /// What they cost.
    pub cost: f64,
    /// What a million ops cost, test by test.
    pub of_million_ops: Vec<TestCost>,
}

/// What a million ops of a test cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestCost {
    /// The test.
    pub test: Test,
    /// Blocks or files, a million of them, by the requests for each.
    pub cost: f64,
}

/// How the places compare in a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The test.
    pub test: Test,
    /// Those that no other is proved to be faster than, the fastest first.
    pub leaders: Vec<String>,
    /// Every other place, and its rate over that of the first leader: all intervals hold at once.
    pub behind: Vec<Behind>,
}

/// A place that is slower.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Behind {
    /// The place.
    pub place: String,
    /// Its rate over that of the first leader.
    pub ratio: Interval,
}

/// Why a figure may say something else than it seems to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Warning {
    /// Half of the flushes took less than this, which no disk does that keeps what it was told, and the device says that it has a
    /// cache.
    QuickFlushes {
        /// The place.
        place: String,
        /// Half of them took no longer, in nanoseconds.
        p50_ns: u64,
    },
    /// Flushes may keep nothing there.
    Flushes {
        /// The place.
        place: String,
        /// Why.
        doubts: Vec<FlushDoubt>,
    },
    /// Libraries are loaded into the program from outside.
    Preloaded {
        /// Which, and by what.
        settings: Vec<String>,
        /// Functions of flushing that they replace.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        replaced: Vec<ReplacedFlushes>,
    },
    /// The disk is a virtual one: position, and caches of the host, cannot be seen.
    VirtualDisk {
        /// The places on it.
        places: Vec<String>,
    },
    /// Something below the device keeps blocks in a cache.
    HostCaches {
        /// The place.
        place: String,
    },
    /// Several devices are files on one disk without a limit: together they are no faster than that disk.
    OneDisk {
        /// The place.
        place: String,
    },
    /// The file system goes over what was deleted lately for each file that it makes.
    RemembersDeletions {
        /// The place.
        place: String,
    },
    /// The kernel names no device below it, so that nothing was counted and no device confirms what was read.
    NoDevice {
        /// The place.
        place: String,
    },
    /// The file system takes no direct I/O: random reads and writes went through the page cache.
    NotDirect {
        /// The place.
        place: String,
    },
    /// A round of these took less than 10 ms: it says little, and no difference is told.
    TooShort {
        /// The place.
        place: String,
        /// The tests.
        tests: Vec<Test>,
    },
    /// The limit of its devices bounds these tests, and a round of them is short: the limit gives out some of its rate in advance.
    AheadOfLimit {
        /// The place.
        place: String,
        /// The tests.
        tests: Vec<Test>,
        /// What it gives out in advance, at most, over the time of the shortest of these rounds; 1 where that is over before.
        share_max: f64,
    },
    /// There are fewer rounds than intervals need to be narrow.
    FewRounds {
        /// Rounds.
        rounds: u32,
    },
    /// The device is also used by others, so that its counters have their requests, too.
    SharedDevice {
        /// The place.
        place: String,
    },
    /// A program that was to be beside ours is missing.
    Missing {
        /// Which.
        by: By,
        /// Why, and what installs it.
        why: String,
    },
}
