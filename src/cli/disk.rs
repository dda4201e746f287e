//! `blobwise disk`: measures a disk, or a file system on one, without any store.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use jiff::Zoned;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::out::{check_files, print_beside, write_file};
use super::prices::dated;
use super::progress::ProgressBar;
use super::signals::Signals;
use super::{CommandOutcome, eprint};
use crate::disk::{BLOCK_BYTES, DiskTestOptions, TestTarget, lacks, measure};
use crate::host::control_group::why_no_device_limit;
use crate::host::disk::{FileSystem, OwnDisk, free_for_images, own_mounts};
use crate::host::machine::{self, Device, Medium, StorageLayers};
use crate::host::place::{Place, check_parent, fresh_seed, why_unwritable};
use crate::judge::disk::{costs, judge};
use crate::plan::file_system;
use crate::plan::text::{device_limit, fill_share, some_names, split_list};
use crate::report::disk::terminal;
use crate::report::html::disk_tests::render as page;
use crate::result::Prices;
use crate::result::disk::{
    Absent, DISK_SCHEMA, DiskReport, DiskWarning, TestProgram, TestResult, TestedPlace,
};
use crate::store::DeviceLimit;
use crate::suggest::unknown;
use crate::units;

#[derive(Debug, Args)]
pub struct DiskFlags {
    /// Test the disk of this directory [default: the current one]
    ///
    /// May be given several times
    #[arg(long, value_name = "DIR", value_parser = crate::plan::text::text_path())]
    dir: Vec<PathBuf>,
    /// Make these file systems and test them, such as ext4,xfs (as root)
    ///
    /// On images in the current directory; `blobwise list file-systems` has the names
    #[arg(long, value_name = "A,B", conflicts_with = "dir", value_parser = some_names)]
    on: Option<String>,
    /// Read this block device, such as /dev/sdb, and never write
    ///
    /// In order from several positions, and at random. Refused if it is mounted or in use
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["dir", "on", "beside"])]
    device: Option<PathBuf>,
    /// Read --device from this many positions, beginning to end
    #[arg(long, value_name = "POSITIONS", default_value_t = 5, requires = "device", value_parser = clap::value_parser!(u32).range(1..=100))]
    zcav: u32,
    /// Limit the devices of --on, such as 20MB/s,200iops
    ///
    /// Bytes, requests or both per second, of reads and of writes, by control groups
    #[arg(long, value_name = "20MB/s,200iops", requires = "on")]
    device_limit: Option<String>,
    /// Fill the file systems of --on to this share, such as 50%
    ///
    /// Before they are used; a name with a share of its own takes precedence: ext4@90%
    #[arg(long, value_name = "SHARE", requires = "on")]
    fill: Option<String>,
    /// Write and read a file of this size, 1MB to 16GB
    ///
    /// It need not exceed memory: the kernel is asked whether what is read from the disk is cached
    #[arg(long, value_name = "BYTES", default_value = "128MB")]
    size: String,
    /// Create, look up and delete this many empty files
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    files: u32,
    /// Run every test this often in each place
    ///
    /// The places take turns in another order each round
    #[arg(long, value_name = "R", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Read and write at random with these numbers of threads
    #[arg(long, value_name = "1,4,32", default_value = "1,4,32", value_parser = some_names)]
    threads: String,
    /// Let a test without another end last this long
    ///
    /// Random reads and writes, flushes, cached reads, and looking up
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    seconds: f64,
    /// Also run these programs in each round: bonnie, fio
    ///
    /// One that is not installed is named and left out
    #[arg(long, value_name = "bonnie,fio", value_parser = some_names)]
    beside: Option<String>,
    /// Compute what the requests of each test cost
    ///
    /// By `per_million_requests` in this file; `blobwise report --prices-template` prints one to fill in
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Also write everything as JSON to this file
    ///
    /// `-` writes it to standard output instead
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write everything as a page to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Minimum file size in bytes: fewer blocks than a test of 32 threads needs would not be in random order.
const SIZE_MIN: u64 = 1_000_000;
/// Maximum file size in bytes: its list of ops is held in memory.
const SIZE_MAX: u64 = 16_000_000_000;
/// Bytes that the tests leave free beside the file.
const SPARE_BYTES: u64 = 64 << 20;
/// Maximum disk space of an empty file in bytes: an inode and a name.
const FILE_BYTES: u64 = 1 << 10;

struct DiskTestRequest {
    asked: DiskTestOptions,
    /// Warnings about requested programs that are not installed.
    missing: Vec<DiskWarning>,
    prices: Option<Price>,
    systems: Vec<FileSystem>,
    limit: Option<DeviceLimit>,
    fill: f64,
    image_bytes: Vec<u64>,
}

impl DiskTestRequest {
    fn from_flags(flags: &DiskFlags) -> Result<DiskTestRequest> {
        let on = units::distinct(flags.on.as_deref().map(split_list).unwrap_or_default());
        let (beside, missing) = beside(flags)?;
        let wanted = DiskTestRequest {
            asked: DiskTestOptions { beside, ..asked(flags)? },
            missing,
            prices: flags.prices.as_deref().map(price).transpose()?,
            systems: on.iter().map(|name| system(name)).collect::<Result<_>>()?,
            limit: flags.device_limit.as_deref().map(device_limit).transpose()?,
            fill: flags.fill.as_deref().map_or(Ok(0.0), fill_share)?,
            image_bytes: Vec::new(),
        };
        if let Some(why) = why_no_device_limit().filter(|_| wanted.limit.is_some()) {
            return Err(why.context("--device-limit"));
        }
        match wanted.systems.is_empty() {
            true if flags.device.is_some() => {}
            true => flags.dirs().iter().try_for_each(|dir| wanted.check_dir(dir))?,
            false => return wanted.with_images(),
        }
        Ok(wanted)
    }

    /// Required bytes for the file, the empty files and the file system's overhead.
    fn room(&self) -> u64 {
        self.asked.file_bytes + self.asked.files * FILE_BYTES + SPARE_BYTES
    }

    /// Required inodes: one for each empty file, plus the file and directories.
    fn inodes(&self) -> u64 {
        const BESIDE: u64 = 100;
        self.asked.files + BESIDE
    }

    fn check_dir(&self, dir: &Path) -> Result<()> {
        check_parent(dir)?;
        let above = dir.ancestors().find(|path| path.exists() && !path.as_os_str().is_empty());
        let above = above.unwrap_or(Path::new("."));
        let shown = dir.display();
        check_medium(above, &format!("`{shown}`"))?;
        ensure!(
            !machine::is_read_only(above),
            "`{shown}` is on a read-only file system: name another with --dir"
        );
        let room = machine::room(above)?;
        ensure!(
            room.free_bytes >= self.room(),
            "`{shown}` has {} free, and the tests take {}: take a smaller --size, or another --dir",
            units::bytes(room.free_bytes as f64),
            units::bytes(self.room() as f64)
        );
        if let Some((free, all)) = room.inodes {
            ensure!(
                free >= self.inodes(),
                "`{shown}` has {free} of {all} inodes free, and the tests take {}: take fewer --files, or another --dir",
                self.inodes()
            );
        }
        Ok(())
    }

    fn with_images(mut self) -> Result<DiskTestRequest> {
        check_medium(Path::new("."), "the current directory, where images are made,")?;
        let room = |system: &FileSystem| (self.room() as f64 / (1.0 - system.filled(self.fill))) as u64;
        self.image_bytes = self.systems.iter().map(|system| system.device_bytes(room(system))).collect();
        let sizes = self.systems.iter().zip(&self.image_bytes);
        let all: u64 = sizes.map(|(system, bytes)| bytes * system.devices() as u64).sum();
        let free = free_for_images(Path::new("."))?;
        ensure!(
            all <= free,
            "the current directory has {} for images, and those of {} take {}: name fewer file systems, or a smaller --size",
            units::bytes(free as f64),
            units::counted(self.systems.len() as u64, "file system"),
            units::bytes(all as f64)
        );
        Ok(self)
    }
}

/// Rejects directories in memory, regardless of the layers in between, since that would test no disk.
fn check_medium(dir: &Path, shown: &str) -> Result<()> {
    let below = StorageLayers::inspect(dir);
    ensure!(
        below.medium != Medium::Memory,
        "{shown} lies in memory ({}): name a directory on a disk with --dir",
        below.description()
    );
    Ok(())
}

impl DiskFlags {
    fn dirs(&self) -> Vec<PathBuf> {
        if self.dir.is_empty() { vec![PathBuf::from(".")] } else { self.dir.clone() }
    }
}

fn asked(flags: &DiskFlags) -> Result<DiskTestOptions> {
    const THREADS_MAX: u32 = 64;
    let size = units::parse_bytes(&flags.size).context("--size")?;
    ensure!(
        (SIZE_MIN..=SIZE_MAX).contains(&size),
        "--size: `{}` is not from 1MB to 16GB: less says nothing of a disk, and of more the list of blocks would fill the memory",
        flags.size
    );
    ensure!((0.01..=60.0).contains(&flags.seconds), "--seconds: `{}` is not from 0.01 to 60", flags.seconds);
    let mut threads = Vec::new();
    for text in split_list(&flags.threads) {
        match text.parse::<u32>() {
            Ok(number @ 1..=THREADS_MAX) if !threads.contains(&number) => threads.push(number),
            Ok(1..=THREADS_MAX) => {}
            _ => bail!("--threads: `{text}` is not a number from 1 to {THREADS_MAX}"),
        }
    }
    Ok(DiskTestOptions {
        file_bytes: size - size % BLOCK_BYTES as u64,
        files: flags.files.into(),
        rounds: flags.rounds,
        seconds: flags.seconds,
        threads,
        positions: flags.zcav,
        beside: Vec::new(),
        seed: fresh_seed(),
    })
}

/// Returns the requested other programs, and warnings about those that are not installed.
fn beside(flags: &DiskFlags) -> Result<(Vec<TestProgram>, Vec<DiskWarning>)> {
    const KNOWN: [(&str, TestProgram); 2] = [("bonnie", TestProgram::Bonnie), ("fio", TestProgram::Fio)];
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for name in flags.beside.as_deref().map(split_list).unwrap_or_default() {
        let Some((_, by)) = KNOWN.iter().find(|(known, _)| *known == name) else {
            return Err(unknown("program", &name, KNOWN.map(|(known, _)| known)).context("--beside"));
        };
        match lacks(*by) {
            Some(why) => missing.push(DiskWarning::Missing { by: *by, why: format!("{why:#}") }),
            None if there.contains(by) => {}
            None => there.push(*by),
        }
    }
    Ok((there, missing))
}

/// Prices, their age in days, and the price of a million requests.
type Price = (Prices, u64, f64);

fn price(file: &Path) -> Result<Price> {
    let (prices, age_days) = dated(file, Zoned::now().date())?;
    let Some(million) = prices.rates.per_million_requests else {
        bail!(
            "the prices `{}` have no `per_million_requests`, and a disk is asked for nothing else",
            file.display()
        );
    };
    Ok((prices, age_days, million))
}

/// Looks up a file system that can be made here; the error states why it cannot.
pub fn system(name: &str) -> Result<FileSystem> {
    let system = file_system(name).context("--on")?;
    match system.lacks() {
        Some(why) => Err(why.context(format!("the file system `{name}` cannot be made here"))),
        None => Ok(system),
    }
}

/// Places to test, with their cleanup.
#[derive(Default)]
struct TestPlaces {
    // Declared first, so that disks are dropped before the directories that contain them.
    disks: Vec<OwnDisk>,
    own: Vec<Place>,
    /// Device, opened exclusively so that it cannot be mounted meanwhile.
    claimed: Option<File>,
    sites: Vec<TestTarget>,
    told: Vec<TestedPlace>,
}

impl TestPlaces {
    fn make(flags: &DiskFlags, wanted: &DiskTestRequest) -> Result<TestPlaces> {
        let mut places = TestPlaces::default();
        if let Some(device) = &flags.device {
            places.add_device(device)?;
        } else if wanted.systems.is_empty() {
            flags.dirs().iter().try_for_each(|dir| places.add_directory(dir))?;
        } else {
            own_mounts()?;
            places.own.push(Place::make(Path::new("."))?);
            places.add_disks(wanted)?;
        }
        places.own.iter().flat_map(Place::left).for_each(|left| eprint(left));
        Ok(places)
    }

    fn add_device(&mut self, path: &Path) -> Result<()> {
        let shown = path.display();
        let Some(device) = Device::from_path(path) else { bail!("--device: `{shown}` is no block device") };
        let mut claimed = claim(path)?;
        let bytes = claimed.seek(SeekFrom::End(0)).with_context(|| format!("`{shown}` has no end"))?;
        ensure!(bytes >= SIZE_MIN, "--device: `{shown}` has {bytes} B, and a device is read from 1MB on");
        self.told.push(TestedPlace {
            device: Some(device.name().to_owned()),
            is_own: true,
            says_write_back: device.says_write_back(),
            ..TestedPlace::known_by(&shown.to_string(), format!("{}, only read", units::bytes(bytes as f64)))
        });
        self.sites.push(TestTarget {
            name: shown.to_string(),
            path: path.to_owned(),
            device: Some(device),
            device_bytes: Some(bytes),
        });
        self.claimed = Some(claimed);
        Ok(())
    }

    fn add_directory(&mut self, dir: &Path) -> Result<()> {
        let place = Place::make(dir)?;
        if let Some(why) = why_unwritable(place.path()) {
            bail!("`{}` cannot be written: {why}", dir.display());
        }
        let device = Device::for_dir(place.path());
        self.told.push(TestedPlace {
            device: device.as_ref().map(|device| device.name().to_owned()),
            below: Some(StorageLayers::inspect(place.path())),
            says_write_back: device.as_ref().and_then(Device::says_write_back),
            host_caches: machine::host_caches(place.path(), fresh_seed()),
            remembers_deletions: machine::remembers_deletions(place.path()),
            ..TestedPlace::known_by(&dir.display().to_string(), machine::disk(place.path()))
        });
        let name = dir.display().to_string();
        self.sites.push(TestTarget { name, path: place.path().to_owned(), device, device_bytes: None });
        self.own.push(place);
        Ok(())
    }

    fn add_disks(&mut self, wanted: &DiskTestRequest) -> Result<()> {
        let Some(place) = self.own.first() else { return Ok(()) };
        for (system, bytes) in wanted.systems.iter().zip(&wanted.image_bytes) {
            let mount = place.path().join(format!("on-{}", self.disks.len()));
            let mut disk = OwnDisk::make(system, place.path(), &mount, *bytes, wanted.inodes())?;
            disk.fill(system.filled(wanted.fill))?;
            if let Some(limit) = &wanted.limit {
                disk.limit(limit)?;
            }
            self.told.push(TestedPlace {
                device: Some(disk.device().name().to_owned()),
                is_own: true,
                devices: system.devices() as u32,
                is_limited: wanted.limit.is_some(),
                below: Some(StorageLayers::inspect(disk.path())),
                says_write_back: disk.device().says_write_back(),
                remembers_deletions: machine::remembers_deletions(disk.path()),
                facts: disk.facts().clone(),
                ..TestedPlace::known_by(system.name(), disk.description())
            });
            self.sites.push(TestTarget {
                name: system.name().to_owned(),
                path: disk.path().to_owned(),
                device: Some(disk.device().clone()),
                device_bytes: None,
            });
            self.disks.push(disk);
        }
        Ok(())
    }
}

/// Opens a device for reading such that it cannot be mounted, or used as part of another device, until the file is dropped. Fails
/// if it is in use already.
fn claim(path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let shown = path.display();
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(claimed) => Ok(claimed.into()),
        Err(Errno::BUSY) => bail!(
            "--device: `{shown}` is in use: it or a part of it is mounted, swapped to, or part of another device. Unmount it first, or \
             measure a directory on it with --dir"
        ),
        Err(error) => Err(error).with_context(|| format!("--device: `{shown}` cannot be opened")),
    }
}

pub fn main(flags: &DiskFlags) -> Result<CommandOutcome> {
    check_files(&[&flags.json, &flags.html])?;
    let wanted = DiskTestRequest::from_flags(flags)?;
    let signals = Signals::listen()?;
    let started = machine::timestamp();
    let places = TestPlaces::make(flags, &wanted)?;
    let bar = ProgressBar::new(false);
    let turns = wanted.asked.rounds as usize * places.sites.len();
    let mut turn = 0;
    let rows = measure(&wanted.asked, &places.sites, signals.stop(), &mut |round, site| {
        turn += 1;
        bar.now_and_then(turn, turns, &format!("round {round}: {}", site.name));
    });
    bar.clear();
    let report = report(&wanted, &places, started, rows?);
    if let Some(signal) = signals.received() {
        eprint("stopped; nothing is kept of tests that were stopped");
        return Ok(CommandOutcome::Stopped(signal));
    }
    if let Some(file) = &flags.json {
        write_file(file, &(serde_json::to_string_pretty(&report)? + "\n"))?;
    }
    if let Some(file) = &flags.html {
        write_file(file, &page(&report))?;
    }
    print_beside(&[&flags.json, &flags.html], &terminal(&report))?;
    let is_failed = |row: &TestResult| matches!(row.absent, Some(Absent::Failed { .. }));
    Ok(if report.rows.iter().any(is_failed) { CommandOutcome::Failed } else { CommandOutcome::Well })
}

fn report(
    wanted: &DiskTestRequest,
    places: &TestPlaces,
    started: String,
    rows: Vec<TestResult>,
) -> DiskReport {
    let DiskTestRequest { asked, missing, .. } = wanted;
    let mut report = DiskReport {
        schema: DISK_SCHEMA,
        blobwise: env!("CARGO_PKG_VERSION").to_owned(),
        started,
        machine: machine::facts(places.sites.first().map_or(Path::new("."), |site| &site.path)),
        file_bytes: if places.claimed.is_some() { 0 } else { asked.file_bytes },
        block_bytes: BLOCK_BYTES as u64,
        files: asked.files,
        rounds: asked.rounds,
        seconds: asked.seconds,
        places: places.told.clone(),
        rows,
        differences: Vec::new(),
        costs: None,
        warnings: missing.clone(),
    };
    judge(&mut report);
    report.costs =
        wanted.prices.as_ref().map(|(prices, age_days, million)| costs(&report, prices, *age_days, *million));
    report
}
