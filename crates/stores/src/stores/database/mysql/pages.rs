//! InnoDB's pages on disk: finds torn pages, and the one whose damage a version does not survive.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::store::KnownFault;

/// Page size in bytes.
const PAGE: usize = 16 << 10;
/// The file of the system tablespace (number 0), and the number of its page with the transaction state.
const SYSTEM: (&str, u64) = ("ibdata1", 5);

/// The location of MySQL's doublewrite buffer before 8.0.20 is stored in the page with the transaction state. Startup reads it
/// (`dblwr::v1::init`) before it restores torn pages from today's copies, and gives up if that page itself is torn.
pub(super) const FAULTS: &[KnownFault] = &[KnownFault {
    program: "MySQL",
    version: "9.7.4",
    about: "where page 5 of `ibdata1` is torn, it reads it before it restores torn pages from their second copies",
    is_logged: |store| {
        let log = std::fs::read(store.join("mysqld.log")).unwrap_or_default();
        names_system_page(&String::from_utf8_lossy(&log))
    },
    is_left: |store| Ok(torn(&store.join("data"))? == [(PathBuf::from(SYSTEM.0), SYSTEM.1)]),
}];

/// True if the log says that startup failed on that page, and mentions no other.
fn names_system_page(log: &str) -> bool {
    let mut complaints = log.lines().filter(|line| line.contains("page [page id: space="));
    log.contains("[FATAL] Unable to read page [page id: space=0, page number=5]")
        && complaints.all(|line| line.contains("page [page id: space=0, page number=5]"))
}

/// The torn pages of all tablespaces below a data directory: their files and page numbers. Pages of compressed tables are smaller
/// and count as torn.
fn torn(data: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let (mut found, mut open) = (Vec::new(), vec![data.to_owned()]);
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir)? {
            let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let has_pages = name.ends_with(".ibd") || name.starts_with("ibdata") || name.starts_with("undo_");
            if kind.is_dir() {
                open.push(path);
            } else if has_pages {
                let name = path.strip_prefix(data).unwrap_or(&path).to_owned();
                let pages = torn_pages(&mut File::open(&path)?)?;
                found.extend(pages.into_iter().map(|page| (name.clone(), page)));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn torn_pages(file: &mut impl Read) -> io::Result<Vec<u64>> {
    let (mut torn, mut page) = (Vec::new(), [0; PAGE]);
    for number in 0.. {
        match file.read_exact(&mut page) {
            Ok(()) if is_whole(&page) => {}
            Ok(()) => torn.push(number),
            // Files grow by whole pages.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(torn)
}

/// True if a page is intact: its checksum at the beginning and near the end is right, and the last bytes repeat part of its LSN.
/// Pages that were never written are all zeros.
fn is_whole(page: &[u8; PAGE]) -> bool {
    let sum = (crc32c(&page[4..26]) ^ crc32c(&page[38..PAGE - 8])).to_be_bytes();
    let is_right = page[..4] == sum && page[PAGE - 8..PAGE - 4] == sum && page[20..24] == page[PAGE - 4..];
    is_right || *page == [0; PAGE]
}

/// The table of CRC-32C (Castagnoli), one entry per byte.
const REMAINDERS: [u32; 256] = {
    let (mut remainders, mut byte) = ([0; 256], 0);
    while byte < 256 {
        let (mut remainder, mut bit) = (byte as u32, 0);
        while bit < 8 {
            remainder = if remainder & 1 == 1 { remainder >> 1 ^ 0x82f6_3b78 } else { remainder >> 1 };
            bit += 1;
        }
        remainders[byte] = remainder;
        byte += 1;
    }
    remainders
};

fn crc32c(bytes: &[u8]) -> u32 {
    let next = |sum: u32, byte: &u8| REMAINDERS[usize::from(sum as u8 ^ byte)] ^ sum >> 8;
    !bytes.iter().fold(!0, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page filled with this byte, as InnoDB writes it.
    fn page(bytes: u8) -> [u8; PAGE] {
        let mut page = [bytes; PAGE];
        page.copy_within(20..24, PAGE - 4);
        let sum = (crc32c(&page[4..26]) ^ crc32c(&page[38..PAGE - 8])).to_be_bytes();
        page[..4].copy_from_slice(&sum);
        page[PAGE - 8..PAGE - 4].copy_from_slice(&sum);
        page
    }

    #[test]
    fn the_sum_is_castagnolis() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn torn_pages_are_told_from_whole_and_empty_ones() {
        let dir = tempfile::tempdir().unwrap();
        let torn_page = |old: u8, new: u8| {
            let (mut page, new) = (page(old), page(new));
            page[..512].copy_from_slice(&new[..512]);
            page
        };
        let write = |name: &str, pages: &[[u8; PAGE]]| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, pages.concat()).unwrap();
        };
        let five = [page(1), [0; PAGE], page(2), page(3), page(4)];
        let with = |last: [u8; PAGE]| [five.as_slice(), &[last]].concat();
        write("store/data/store/blobs.ibd", &five);
        write("store/data/undo_001", &five);
        // The doublewrite files are not tablespaces.
        write("store/data/#ib_16384_0.dblwr", &[torn_page(1, 2)]);
        let is_left = || (FAULTS[0].is_left)(&dir.path().join("store")).unwrap();
        write("store/data/ibdata1", &with(page(5)));
        assert!(!is_left(), "nothing is torn");
        write("store/data/ibdata1", &with(torn_page(5, 6)));
        assert!(is_left());
        write("store/data/undo_001", &[page(1), torn_page(1, 2)]);
        assert!(!is_left(), "another page is torn, too");
        write("store/data/undo_001", &five);
        write("store/data/ibdata1", &[page(1), torn_page(1, 2)]);
        assert!(!is_left(), "only another page is torn");
    }

    /// As logged by 9.7.4 after the page was torn by hand.
    #[test]
    fn a_log_names_that_page_and_no_other() {
        let said = |space: u32, page: u32| {
            let id = format!("page [page id: space={space}, page number={page}]");
            let one = format!(
                "1 [ERROR] [MY-011906] [InnoDB] Database page corruption on disk or a failed file read of {id}. You may have to recover\n"
            );
            format!(
                "{}1 [ERROR] [MY-011899] [InnoDB] [FATAL] Unable to read {id} into the buffer pool\n",
                one.repeat(3)
            )
        };
        assert!(names_system_page(&said(0, 5)));
        for log in [said(0, 3), said(4_294_967_279, 5), said(0, 5) + &said(0, 3), said(0, 55), String::new()]
        {
            assert!(!names_system_page(&log), "{log}");
        }
        let unfinished = said(0, 5).replace("[FATAL]", "");
        assert!(!names_system_page(&unfinished));
    }

    #[test]
    fn only_the_version_that_has_it_is_excused() {
        for (version, has_it) in
            [("9.7.4", true), ("9.7.4-2", true), ("9.7.40", false), ("9.7.4.1", false), ("8.4.6", false)]
        {
            assert_eq!(FAULTS[0].is_of(version), has_it, "{version}");
        }
    }
}
