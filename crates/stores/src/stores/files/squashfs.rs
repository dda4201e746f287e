//! squashfs: blobs are files in a directory until the store settles or closes. Then `mksquashfs` makes an image of them, which is
//! mounted read-only. What is put later becomes another image, because one that is mounted cannot change.
//!
//! The mounts are detached, as those of a file system in memory: no path leads to them, and they end with this process.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use anyhow::Context;
use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::archive::loss;
use super::directories::{BUFFER, FLAT};
use crate::host::disk::{LoopDevice, why_not_mounted, why_not_of_kernel};
use crate::host::server::{Launch, Program, run_to_end};
use crate::store::*;
use crate::stores::common::failed::HasFailed;
use crate::stores::common::lock;

pub(in crate::stores) const ADAPTER: Adapter = Adapter {
    name: "squashfs",
    about: "images made by mksquashfs of the blobs that were put, without compression, mounted read-only (as root)",
    options: &[BUFFER],
    caps: |options| Capabilities {
        changes: false,
        streams: options.number("buffer") as usize <= PIECE_BYTES_MAX,
        backup: Backup::Closed(BackupMethod {
            by: "a copy of the closed images",
            words: "An image that is being made while it is copied would be copied in part",
            link: "https://www.gnu.org/software/coreutils/manual/html_node/cp-invocation.html",
        }),
        inodes: Inodes { each_blob: 1, ..Inodes::FEW },
        ..Capabilities::ONE_BY_ONE
    },
    loss,
    needs: Needs { of_machine: |_| refusal(), ..Needs::NOTHING },
    open,
    ..FLAT
};

const MAKER: Program =
    Program::plain("mksquashfs", &["-version"], "mksquashfs version", "apt-get install squashfs-tools");
/// Type of the images' file system.
const SYSTEM: &str = "squashfs";
/// Blobs are stored as they are; inodes, fragments and attributes too.
const FLAGS: &[&str] = &["-noappend", "-no-progress", "-no-xattrs", "-noI", "-noD", "-noF", "-noX"];
/// Longest time to make an image.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Directory of the blobs that are in no image yet.
const NEW: &str = "new";
/// Directory of blobs that are being written.
const DRAFTS: &str = "drafts";
/// An image that is being made.
const IMAGE_DRAFT: &str = "image.draft";

const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);

/// Why this machine cannot make and mount images; `None` if it can.
fn refusal() -> Option<anyhow::Error> {
    let no_loop = || File::open("/dev/loop-control").context("no loop devices (`/dev/loop-control`)").err();
    why_not_mounted().or_else(|| why_not_of_kernel(SYSTEM)).or_else(|| MAKER.find().err()).or_else(no_loop)
}

struct Image {
    /// Its root; declared first, so that it is closed before the device is freed.
    root: File,
    _device: LoopDevice,
}

impl Image {
    fn mounted(path: &Path) -> Result<Image> {
        // Past the page cache of the image, where its file system can do that: files of the mount are cached already.
        let device = LoopDevice::attach_file(&File::options().read(true).write(true).open(path)?, true)?;
        let root = mount(device.path());
        let root = root.with_context(|| format!("`{}` cannot be mounted", path.display()))?;
        Ok(Image { root, _device: device })
    }
}

fn mount(device: &Path) -> rustix::io::Result<File> {
    let options = rustix::mount::fsopen(SYSTEM, FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(options.as_fd(), "source", device)?;
    rustix::mount::fsconfig_set_flag(options.as_fd(), "ro")?;
    rustix::mount::fsconfig_create(options.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    let mount = rustix::mount::fsmount(options.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    // Reopens the root: a mount descriptor cannot be listed like a directory.
    let flags = READ | OFlags::DIRECTORY;
    Ok(rustix::fs::openat(&mount, ".", flags, rustix::fs::Mode::empty())?.into())
}

fn image_path(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("{number:04}.squashfs"))
}

/// The keys that have a file in a directory.
fn names(dir: &File) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_str().unwrap_or_default();
        names.extend((name.len() == 32).then(|| name.to_owned()));
    }
    Ok(names)
}

struct Squashfs {
    dir: PathBuf,
    durability: Durability,
    buffer_bytes: usize,
    /// The directory of new blobs.
    new: File,
    /// In the order in which they were made.
    images: RwLock<Vec<Image>>,
    /// Locked while a blob gets its name, so that no key gets two, and while an image is made.
    naming: Mutex<()>,
    sessions: AtomicU64,
    has_failed: HasFailed,
}

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let (new, drafts) = (setup.dir.join(NEW), setup.dir.join(DRAFTS));
    std::fs::create_dir_all(&new)?;
    if drafts.exists() {
        std::fs::remove_dir_all(&drafts)?;
    }
    std::fs::create_dir(&drafts)?;
    if setup.durability != Durability::None {
        File::open(setup.dir)?.sync_all()?;
    }
    let mut images = Vec::new();
    while image_path(setup.dir, images.len() + 1).exists() {
        images.push(Image::mounted(&image_path(setup.dir, images.len() + 1))?);
    }
    let store = Squashfs {
        dir: setup.dir.to_owned(),
        durability: setup.durability,
        buffer_bytes: setup.options.number("buffer") as usize,
        new: File::open(&new).with_context(|| format!("cannot open `{}`", new.display()))?,
        images: RwLock::new(images),
        naming: Mutex::default(),
        sessions: AtomicU64::new(0),
        has_failed: HasFailed::default(),
    };
    store.remove_what_an_image_has()?;
    Ok(Box::new(store))
}

impl Squashfs {
    fn images(&self) -> RwLockReadGuard<'_, Vec<Image>> {
        self.images.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes files that a crash left after their image was made.
    fn remove_what_an_image_has(&self) -> Result<()> {
        for image in self.images().iter() {
            for name in names(&self.new)? {
                match rustix::fs::statat(&image.root, name.as_str(), AtFlags::empty()) {
                    Ok(_) => rustix::fs::unlinkat(&self.new, name.as_str(), AtFlags::empty())?,
                    Err(Errno::NOENT) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        Ok(())
    }

    /// Opens a blob; `None` if there is none.
    fn find(&self, key: &Key) -> Result<Option<File>> {
        let images = self.images();
        for directory in images.iter().map(|image| &image.root).chain([&self.new]) {
            match rustix::fs::openat(directory, key.as_str(), READ, rustix::fs::Mode::empty()) {
                Ok(file) => return Ok(Some(file.into())),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(None)
    }

    fn put(&self, key: &Key, blob: &[u8], draft: &Path) -> Result<()> {
        let each_write = self.durability == Durability::EachWrite;
        let mut file = File::create(draft)?;
        file.write_all(blob)?;
        if each_write {
            file.sync_all()?;
        }
        drop(file);
        {
            let _naming = lock(&self.naming);
            if self.find(key)?.is_some() {
                return Err(Error::Unsupported("an overwrite"));
            }
            std::fs::rename(draft, self.dir.join(NEW).join(key.as_str()))?;
        }
        if each_write {
            self.has_failed.check()?;
            self.has_failed.noting(self.new.sync_all())?;
        }
        Ok(())
    }

    /// Makes an image of the new blobs. They are removed once it is mounted and on stable storage, in every class: a store of which
    /// a power cut leaves half an image could not be opened.
    fn make_image(&self) -> Result<()> {
        let _naming = lock(&self.naming);
        let names = names(&self.new)?;
        if names.is_empty() {
            return Ok(());
        }
        self.has_failed.check()?;
        let maker = MAKER.find()?;
        let log = self.dir.join("mksquashfs.log");
        let launch = Launch::new(&maker.path, &self.dir).arg(NEW).arg(IMAGE_DRAFT).args(FLAGS);
        run_to_end(&launch.log(log.clone()), PATIENCE)?;
        std::fs::remove_file(log)?;
        let (draft, path) = (self.dir.join(IMAGE_DRAFT), image_path(&self.dir, self.images().len() + 1));
        self.has_failed.noting(File::open(&draft)?.sync_all())?;
        std::fs::rename(draft, &path)?;
        self.has_failed.noting(File::open(&self.dir)?.sync_all())?;
        let image = Image::mounted(&path)?;
        self.images.write().unwrap_or_else(PoisonError::into_inner).push(image);
        for name in names {
            rustix::fs::unlinkat(&self.new, name.as_str(), AtFlags::empty())?;
        }
        Ok(())
    }
}

impl Store for Squashfs {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let id = self.sessions.fetch_add(1, Ordering::Relaxed);
        let draft = self.dir.join(DRAFTS).join(id.to_string());
        Ok(Box::new(SquashfsSession { store: self, draft, buffer: vec![0; self.buffer_bytes] }))
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::from([
            ("made_by".to_owned(), MAKER.find()?.version),
            ("flags".to_owned(), FLAGS.join(" ")),
        ]))
    }

    fn settle(&self) -> Result<()> {
        self.make_image()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.make_image()
    }
}

struct SquashfsSession<'a> {
    store: &'a Squashfs,
    draft: PathBuf,
    buffer: Vec<u8>,
}

impl Session for SquashfsSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        let done = self.store.put(key, blob, &self.draft);
        if done.is_err() {
            // Nothing needs the draft; the first error is the one to report.
            std::fs::remove_file(&self.draft).ok();
        }
        done
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        let Some(mut file) = self.store.find(key)? else { return Ok(false) };
        if span == Span::Whole {
            loop {
                let read = file.read(&mut self.buffer)?;
                if read == 0 {
                    return Ok(true);
                }
                sink(&self.buffer[..read]);
            }
        }
        let (mut at, len) = span.below(file.metadata()?.len());
        let end = at + len;
        while at < end {
            let want = self.buffer.len().min((end - at) as usize);
            let piece = &mut self.buffer[..want];
            file.read_exact_at(piece, at)?;
            sink(piece);
            at += want as u64;
        }
        Ok(true)
    }

    fn delete(&mut self, _key: &Key) -> Result<()> {
        Err(Error::Unsupported("a delete"))
    }

    fn sync(&mut self) -> Result<()> {
        self.store.has_failed.check()?;
        Ok(self.store.has_failed.noting(rustix::fs::syncfs(&self.store.new))?)
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()> {
        let images = self.store.images();
        for directory in images.iter().map(|image| &image.root).chain([&self.store.new]) {
            names(directory)?.iter().for_each(|name| each(name));
        }
        Ok(())
    }
}
