//! Reads whole files that others wrote: regular files only, up to a size limit.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Reads a text file. Fails if it is not a regular file, because reading a device or pipe may block or never end, or if it is
/// larger than `bytes_max`.
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String> {
    // `O_NONBLOCK`: opening a pipe must not wait for its other end.
    let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        bail!("it is {}, and only a regular file is read", kind(metadata.file_type()));
    }
    let mut text = String::new();
    // Limited while reading, because the reported size may be 0 (in `/proc`) and a file may grow.
    file.take(bytes_max + 1).read_to_string(&mut text).context("it is no text that can be read")?;
    if text.len() as u64 > bytes_max {
        bail!("it is larger than {}, the most that is read", crate::units::bytes(bytes_max as f64));
    }
    Ok(text)
}

fn kind(of: std::fs::FileType) -> &'static str {
    match of {
        of if of.is_dir() => "a directory",
        of if of.is_fifo() => "a pipe",
        of if of.is_socket() => "a socket",
        _ => "a device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let (file, pipe, link) = (dir.path().join("file"), dir.path().join("pipe"), dir.path().join("link"));
        std::fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(read_text(&file, 4).unwrap(), "text");
        assert_eq!(read_text(&link, 4).unwrap(), "text");
        for (path, bytes_max, why) in [
            (file.as_path(), 3, "it is larger than 3 B, the most that is read"),
            (&pipe, 4, "it is a pipe, and only a regular file is read"),
            (dir.path(), 4, "it is a directory, and only a regular file is read"),
            (Path::new("/dev/zero"), 4, "it is a device, and only a regular file is read"),
        ] {
            assert_eq!(read_text(path, bytes_max).unwrap_err().to_string(), why);
        }
        std::fs::write(&file, [0xff]).unwrap();
        assert!(read_text(&file, 4).is_err());
    }
}
