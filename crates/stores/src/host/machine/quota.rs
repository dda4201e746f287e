//! Quotas: what they leave to this user and group in a file system.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::thread::CapabilitySet;

/// What a quota leaves; `None` of what it does not limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuotaLeft {
    pub(super) bytes: Option<u64>,
    /// Inodes that are left, and the most.
    pub(super) inodes: Option<(u64, u64)>,
}

/// The quotas of this user and of this group in the file system of a directory; those of projects are a part of what the file system
/// itself tells. Needs Linux 5.14. None for a process that no quota binds (`CAP_SYS_RESOURCE`).
pub(super) fn quotas(dir: &Path) -> Vec<QuotaLeft> {
    let own = rustix::thread::capabilities(None);
    if own.is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_RESOURCE)) {
        return Vec::new();
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(opened) = rustix::fs::open(dir, flags, Mode::empty()) else { return Vec::new() };
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let known = [(libc::USRQUOTA, user), (libc::GRPQUOTA, group)].into_iter();
    known.filter_map(|(kind, id)| told(opened.as_fd(), kind, id)).map(|quota| left(&quota)).collect()
}

/// Asks for a quota; `None` where the file system has none for this id.
#[expect(unsafe_code, reason = "quotas are asked for by a system call without a wrapper")]
fn told(on: BorrowedFd<'_>, kind: libc::c_int, id: u32) -> Option<libc::dqblk> {
    let (mut quota, request) = (MaybeUninit::<libc::dqblk>::zeroed(), libc::QCMD(libc::Q_GETQUOTA, kind));
    // SAFETY: the call writes nothing but this structure, which lives during the call.
    let outcome =
        unsafe { libc::syscall(libc::SYS_quotactl_fd, on.as_raw_fd(), request, id, quota.as_mut_ptr()) };
    // SAFETY: it consists of numbers, which were zeroed.
    (outcome == 0).then(|| unsafe { quota.assume_init() })
}

fn left(quota: &libc::dqblk) -> QuotaLeft {
    /// Unit of a limit of space (`QIF_DQBLKSIZE`).
    const UNIT_BYTES: u64 = 1024;
    let of = |limit: u64, used: u64| (limit > 0).then(|| limit.saturating_sub(used));
    QuotaLeft {
        bytes: of(quota.dqb_bhardlimit.saturating_mul(UNIT_BYTES), quota.dqb_curspace),
        inodes: of(quota.dqb_ihardlimit, quota.dqb_curinodes).map(|left| (left, quota.dqb_ihardlimit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_zero_is_none() {
        let none = libc::dqblk {
            dqb_bhardlimit: 0,
            dqb_bsoftlimit: 7,
            dqb_curspace: 5000,
            dqb_ihardlimit: 0,
            dqb_isoftlimit: 7,
            dqb_curinodes: 30,
            dqb_btime: 0,
            dqb_itime: 0,
            dqb_valid: 0,
        };
        assert_eq!(left(&none), QuotaLeft { bytes: None, inodes: None });
        let some = libc::dqblk { dqb_bhardlimit: 6, dqb_ihardlimit: 20, ..none };
        assert_eq!(left(&some), QuotaLeft { bytes: Some(1144), inodes: Some((0, 20)) });
    }
}
