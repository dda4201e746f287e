//! What an errno means and how to resolve it: one table for every error that is shown.

use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::Error;
use crate::host::machine;
use crate::units;

/// An error with all its causes and, if one of them is an errno, its meaning and remedy. The errno is taken from the typed cause
/// and never parsed from text, so an error that is text already is shown unchanged.
pub fn describe_error(error: &anyhow::Error) -> String {
    describe_error_with(error, meaning)
}

/// Like [`describe_error`] for an error while writing below `dir`: for "no space left" it says what ran out there.
pub fn describe_error_below(error: &anyhow::Error, dir: &Path) -> String {
    describe_error_with(error, |errno| match errno {
        Errno::NOSPC | Errno::DQUOT => what_ran_out(errno, dir).or_else(|| meaning(errno)),
        _ => meaning(errno),
    })
}

fn describe_error_with(error: &anyhow::Error, meaning: impl Fn(Errno) -> Option<String>) -> String {
    let said = format!("{error:#}");
    match number(error).and_then(meaning) {
        // The context may contain the meaning already.
        Some(meaning) if !said.contains(&meaning) => format!("{said}; {meaning}"),
        _ => said,
    }
}

impl Error {
    /// The message, with the meaning of an errno among its causes.
    pub fn describe_below(&self, dir: &Path) -> String {
        match self {
            Error::Failed(error) => describe_error_below(error, dir),
            other => other.to_string(),
        }
    }
}

/// The first errno among the causes of an error.
fn number(error: &anyhow::Error) -> Option<Errno> {
    error.chain().find_map(|cause| {
        let of_io =
            || Some(Errno::from_raw_os_error(cause.downcast_ref::<std::io::Error>()?.raw_os_error()?));
        cause.downcast_ref::<Errno>().copied().or_else(of_io)
    })
}

/// The meaning and remedy of an errno, some with figures of this process and machine; `None` if the system's message is enough.
fn meaning(errno: Errno) -> Option<String> {
    let words = match errno {
        Errno::NOSPC => {
            "the file system has no bytes left (`df`), no inodes (`df -i`), or no room for another name in a directory: free some, or name \
             another directory"
        }
        Errno::DQUOT => {
            "a quota of the user, the group, the project or the subvolume is used up, however much the disk has (`quota -s`, `btrfs qgroup \
             show`): have it raised, or name a directory elsewhere"
        }
        Errno::MLINK => {
            "a directory has as many subdirectories, or a file as many links, as the file system allows: use fewer in one directory, or a \
             file system that allows more (ext4 with `dir_nlink`)"
        }
        Errno::FBIG => return Some(file_size()),
        Errno::MFILE => return Some(open_files()),
        Errno::NFILE => return Some(open_files_of_all()),
        Errno::NOMEM => return Some(memory()),
        Errno::NODEV => {
            "the file system has no such operation; most cannot map a file into memory then (FUSE with direct I/O, some network file \
             systems): name a directory on another file system, or use stores that map no files"
        }
        Errno::OPNOTSUPP => {
            "the file system does not support what was asked, such as direct I/O (O_DIRECT), locks or allocation in advance: name a \
             directory on another file system"
        }
        Errno::NOLCK => {
            "the file system gives no locks; over NFS, the lock manager (`rpc.statd`) may not run: start it, or name a directory on a \
             local disk"
        }
        Errno::ROFS => {
            "the file system is mounted read-only, or the kernel made it so after an error (`dmesg` says which): repair or remount it, or \
             name another directory"
        }
        Errno::STALE => {
            "the file server no longer knows the file: it was removed there, or the server exports another file system now; mount it \
             again"
        }
        Errno::IO => {
            "the device, or the server of the file system, failed to read or write (`dmesg` says which): what is on it may be damaged, so \
             save it before anything else"
        }
        Errno::TXTBSY => {
            "the file is a program that runs, or one that is still written: wait until that has ended"
        }
        Errno::LOOP => {
            "symbolic links lead in a circle, or through more than 40 others: name the directory that is meant"
        }
        Errno::NAMETOOLONG => {
            "a name may have 255 bytes, a path 4,095 and the path of a socket 107: use a shorter directory (--dir, --out, TMPDIR)"
        }
        Errno::ADDRINUSE => return Some(address_in_use()),
        Errno::ADDRNOTAVAIL => return Some(ports()),
        _ => return None,
    };
    Some(words.to_owned())
}

/// For "no space left" and "quota exceeded": what ran out in the directory, with figures.
fn what_ran_out(errno: Errno, dir: &Path) -> Option<String> {
    /// Below this, the missing resource is bytes.
    const FEW_BYTES: u64 = 1 << 20;
    let room = machine::room(dir).ok()?;
    let shown = dir.display();
    let bytes = format!("{} of {}", units::bytes(room.free_bytes as f64), units::bytes(room.bytes as f64));
    let inodes = room.inodes.map(|(free, all)| format!("{free} of {all} inodes"));
    let free = inodes.as_ref().map_or_else(|| bytes.clone(), |inodes| format!("{bytes} and {inodes}"));
    Some(match room.inodes {
        _ if errno == Errno::DQUOT => {
            format!("`{shown}` has {free} free, so it is a quota: {}", meaning(errno)?)
        }
        Some((0, all)) => format!(
            "`{shown}` has no inode free (0 of {all}), though {bytes} are: take fewer blobs (--blobs), stores of few files such as sqlite, or \
             a file system with more inodes (`mkfs.ext4 -N`)"
        ),
        _ if room.free_bytes < FEW_BYTES => format!(
            "`{shown}` has {free} free: it is bytes that it lacks; free some, take a smaller --corpus-bytes, or another --dir"
        ),
        _ => format!(
            "`{shown}` has {free} free: that is less than was to be written, or a directory is full (ext4 without `large_dir`: use more of \
             them, as `files/hashed` does), a project's quota is used up, or metadata has no room (`btrfs filesystem usage`)"
        ),
    })
}

// ---- figures of this process and machine -----------------------------------------------------------------------------

fn file_size() -> String {
    match getrlimit(Resource::Fsize).current {
        Some(bytes) => format!(
            "no file of this process may have more than {} (`ulimit -f`): raise that limit, or take smaller blobs",
            units::bytes(bytes as f64)
        ),
        None => "the file system allows no file of that size (FAT: 4 GiB): name a directory on another one"
            .to_owned(),
    }
}

fn open_files() -> String {
    let most = getrlimit(Resource::Nofile).current.map_or_else(String::new, |most| format!("{most} "));
    format!("this process may have {most}open files (`ulimit -n`): raise that limit, or take fewer --workers")
}

fn open_files_of_all() -> String {
    let most = known("/proc/sys/fs/file-max");
    format!("the whole machine may have {most}open files: raise `sysctl fs.file-max`, or end what holds many")
}

fn memory() -> String {
    let limit = getrlimit(Resource::As).current.map(|bytes| {
        let bytes = units::bytes(bytes as f64);
        format!("this process may have {bytes} of addresses (`ulimit -v`): raise that limit")
    });
    let most: Option<usize> = known("/proc/sys/vm/max_map_count").trim().parse().ok();
    let maps = std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count());
    let of_maps = most.filter(|most| maps + maps / 10 > *most).map(|most| {
        format!("this process has {maps} of at most {most} memory maps: raise `sysctl vm.max_map_count`")
    });
    of_maps.or(limit).unwrap_or_else(|| {
        "the machine or the control group has no memory left, or the kernel promises no more (`sysctl vm.overcommit_memory` is 2): free some, \
         or take less --memory"
            .to_owned()
    })
}

/// The content of a kernel file with a space appended; empty if it cannot be read.
fn known(path: &str) -> String {
    std::fs::read_to_string(path).map_or_else(|_| String::new(), |text| format!("{} ", text.trim()))
}

fn address_in_use() -> String {
    format!(
        "another program has this port or socket (`ss -lntp` names it), or no port is free: {}",
        machine::ports_in_words()
    )
}

fn ports() -> String {
    format!(
        "the client's ports ran out, if the address is one of this machine's: {}; keep connections (keepalive, `connection=kept`), make \
         fewer ops, or widen `sysctl net.ipv4.ip_local_port_range`",
        machine::ports_in_words()
    )
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    fn io(errno: Errno) -> anyhow::Error {
        anyhow::Error::new(std::io::Error::from(errno)).context("cannot write `x`")
    }

    #[test]
    fn a_number_has_its_words_behind_the_systems_own() {
        let known: Vec<Errno> =
            (1..134).map(Errno::from_raw_os_error).filter(|errno| meaning(*errno).is_some()).collect();
        assert_eq!(known.len(), 18);
        for errno in known {
            let said = describe_error(&io(errno));
            let system = std::io::Error::from(errno).to_string();
            let meaning = said.strip_prefix(&format!("cannot write `x`: {system}; "));
            assert!(meaning.is_some_and(|words| words.len() > 40), "{said}");
            assert_eq!(
                describe_error(&anyhow::anyhow!("{said}")),
                said,
                "what is text already is left as it is"
            );
        }
        // The same error as an [`Errno`].
        let read_only = anyhow::Error::new(Errno::ROFS).context("cannot write `x`");
        assert_eq!(describe_error(&read_only), describe_error(&io(Errno::ROFS)));
        assert_eq!(describe_error(&io(Errno::NOENT)), format!("{:#}", io(Errno::NOENT)));
    }

    #[test]
    fn what_ran_out_is_told_with_figures_of_the_directory() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let said = describe_error_below(&io(Errno::NOSPC), dir.path());
        assert!(said.contains("free") && said.contains(&dir.path().display().to_string()), "{said}");
        let quota = Error::Failed(io(Errno::DQUOT)).describe_below(dir.path());
        assert!(quota.contains("so it is a quota") && quota.contains("quota -s"), "{quota}");
        // Nothing is known about a directory that does not exist.
        let gone = describe_error_below(&io(Errno::NOSPC), Path::new("/nowhere"));
        assert_eq!(gone, describe_error(&io(Errno::NOSPC)));
        let text = Err::<(), _>(std::io::Error::from(Errno::MFILE)).context("a").context("b");
        assert_eq!(number(&text.unwrap_err()), Some(Errno::MFILE));
    }
}
