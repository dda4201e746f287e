//! Reading a file as most programs do: by a stream of the C library, into memory that is allocated for it.

use std::ffi::CStr;
use std::io;
use std::ops::Deref;
use std::ptr::NonNull;

/// A file that was opened by `fopen`, closed when dropped.
pub(super) struct Stream {
    file: NonNull<libc::FILE>,
}

impl Stream {
    /// Opens it for reading; `None` where there is none.
    #[expect(unsafe_code, reason = "a stream of the C library")]
    pub(super) fn open(path: &CStr) -> io::Result<Option<Stream>> {
        // SAFETY: both are texts that end with a zero byte and live through the call. `e`: no program that is started inherits it.
        let opened = unsafe { libc::fopen(path.as_ptr(), c"rbe".as_ptr()) };
        match NonNull::new(opened) {
            Some(file) => Ok(Some(Stream { file })),
            None => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::NotFound => Ok(None),
                error => Err(error),
            },
        }
    }

    /// How long it is: where its end is.
    #[expect(unsafe_code, reason = "a stream of the C library")]
    pub(super) fn bytes(&mut self) -> io::Result<u64> {
        // SAFETY: the stream is open until it is dropped, and `&mut` makes this its only user.
        let end = unsafe {
            if libc::fseeko(self.file.as_ptr(), 0, libc::SEEK_END) != 0 {
                return Err(io::Error::last_os_error());
            }
            libc::ftello(self.file.as_ptr())
        };
        u64::try_from(end).map_err(|_negative| io::Error::last_os_error())
    }

    /// Reads so many bytes, or as many as there are, from an offset into memory that is allocated for them.
    #[expect(unsafe_code, reason = "a stream of the C library")]
    pub(super) fn read(&mut self, offset: u64, len: usize) -> io::Result<Allocated> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: an allocation of at least a byte is null or ours; `fread` writes no more than `len` bytes to it, and says how
        // many. The stream is open until it is dropped.
        unsafe {
            let start = NonNull::new(libc::malloc(len.max(1)).cast::<u8>());
            let mut memory = Allocated { start: start.ok_or(io::ErrorKind::OutOfMemory)?, len: 0 };
            if libc::fseeko(self.file.as_ptr(), offset, libc::SEEK_SET) != 0 {
                return Err(io::Error::last_os_error());
            }
            memory.len = libc::fread(memory.start.as_ptr().cast(), 1, len, self.file.as_ptr());
            if memory.len < len && libc::ferror(self.file.as_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(memory)
        }
    }
}

impl Drop for Stream {
    #[expect(unsafe_code, reason = "a stream of the C library")]
    fn drop(&mut self) {
        // SAFETY: it was opened by `fopen` and is closed here only. It was read only, so that nothing is lost if that fails.
        unsafe { libc::fclose(self.file.as_ptr()) };
    }
}

/// Memory of the C library, freed when dropped.
pub(super) struct Allocated {
    start: NonNull<u8>,
    /// Bytes that were read into it.
    len: usize,
}

impl Deref for Allocated {
    type Target = [u8];

    #[expect(unsafe_code, reason = "memory of the C library")]
    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes were written to it, and it is not freed before it is dropped.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Allocated {
    #[expect(unsafe_code, reason = "memory of the C library")]
    fn drop(&mut self) {
        // SAFETY: it was allocated by `malloc` and is freed here only.
        unsafe { libc::free(self.start.as_ptr().cast()) };
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_stream_has_the_bytes_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| CString::new(dir.path().join(name).as_os_str().as_bytes()).unwrap();
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        std::fs::write(dir.path().join("a"), &bytes).unwrap();
        std::fs::write(dir.path().join("empty"), []).unwrap();
        assert!(Stream::open(&path("none")).unwrap().is_none());
        let mut stream = Stream::open(&path("a")).unwrap().unwrap();
        assert_eq!(stream.bytes().unwrap(), 100_000);
        assert_eq!(*stream.read(0, 100_000).unwrap(), bytes[..]);
        assert_eq!(*stream.read(99_990, 100).unwrap(), bytes[99_990..]);
        let mut empty = Stream::open(&path("empty")).unwrap().unwrap();
        assert_eq!((empty.bytes().unwrap(), empty.read(0, 0).unwrap().len()), (0, 0));
        // A directory can be opened, and not be read.
        let mut directory = Stream::open(&path(".")).unwrap().unwrap();
        assert!(directory.read(0, 1).is_err());
    }
}
