//! Files as most programs read and write them: through a stream of the C library, as a whole into freshly allocated memory, or
//! byte by byte.

use std::ffi::CStr;
use std::io;
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

/// A stream opened by `fopen`; closed when dropped.
#[derive(Debug)]
pub struct StdioStream {
    file: NonNull<libc::FILE>,
}

impl StdioStream {
    /// Opens a file for reading; `None` if it does not exist.
    pub fn open(path: &CStr) -> io::Result<Option<StdioStream>> {
        // `e`: close on exec.
        StdioStream::opened(path, c"rbe")
    }

    /// Opens a file for reading and writing, positioned at its first byte; `None` if it does not exist.
    pub fn open_to_write(path: &CStr) -> io::Result<Option<StdioStream>> {
        StdioStream::opened(path, c"r+be")
    }

    #[expect(unsafe_code, reason = "a stream of the C library")]
    fn opened(path: &CStr, mode: &CStr) -> io::Result<Option<StdioStream>> {
        // SAFETY: both are C strings that live through the call.
        let opened = unsafe { libc::fopen(path.as_ptr(), mode.as_ptr()) };
        match NonNull::new(opened) {
            Some(file) => Ok(Some(StdioStream { file })),
            None => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::NotFound => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Size of the file, found by seeking to its end.
    #[expect(unsafe_code, reason = "a stream of the C library")]
    pub fn bytes(&mut self) -> io::Result<u64> {
        // SAFETY: the stream is open until it is dropped, and `&mut` makes this its only user.
        let end = unsafe {
            if libc::fseeko(self.file.as_ptr(), 0, libc::SEEK_END) != 0 {
                return Err(io::Error::last_os_error());
            }
            libc::ftello(self.file.as_ptr())
        };
        u64::try_from(end).map_err(|_negative| io::Error::last_os_error())
    }

    /// Reads up to `len` bytes from an offset into newly allocated memory.
    #[expect(unsafe_code, reason = "a stream of the C library")]
    pub fn read(&mut self, offset: u64, len: usize) -> io::Result<MallocBuffer> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: an allocation of at least one byte is null or ours; `fread` writes at most `len` bytes to it and returns how
        // many. The stream is open until it is dropped.
        unsafe {
            let start = NonNull::new(libc::malloc(len.max(1)).cast::<u8>());
            let mut memory = MallocBuffer { start: start.ok_or(io::ErrorKind::OutOfMemory)?, len: 0 };
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

    /// Writes bytes one by one (`fputc`).
    #[expect(unsafe_code, reason = "a stream of the C library")]
    pub fn put_each(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            // SAFETY: the stream is open until it is dropped, and `&mut` makes this its only user.
            if unsafe { libc::fputc((*byte).into(), self.file.as_ptr()) } == libc::EOF {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Reads bytes one by one (`fgetc`); fails if the file ends first.
    #[expect(unsafe_code, reason = "a stream of the C library")]
    pub fn get_each(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        for byte in bytes {
            // SAFETY: as above.
            let read = unsafe { libc::fgetc(self.file.as_ptr()) };
            *byte = u8::try_from(read).map_err(|_end| io::ErrorKind::UnexpectedEof)?;
        }
        Ok(())
    }

    /// Flushes the stream and its file; returns when the data is on stable storage.
    #[expect(unsafe_code, reason = "a stream of the C library")]
    pub fn sync(&mut self) -> io::Result<()> {
        // SAFETY: the stream is open until it is dropped, and so is its descriptor.
        let descriptor = unsafe {
            if libc::fflush(self.file.as_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            BorrowedFd::borrow_raw(libc::fileno(self.file.as_ptr()))
        };
        Ok(rustix::fs::fdatasync(descriptor)?)
    }
}

impl Drop for StdioStream {
    #[expect(unsafe_code, reason = "a stream of the C library")]
    fn drop(&mut self) {
        // SAFETY: it was opened by `fopen` and is closed here only. Writers that need to see errors have called `sync` before.
        unsafe { libc::fclose(self.file.as_ptr()) };
    }
}

/// Memory allocated by `malloc`; freed when dropped.
pub struct MallocBuffer {
    start: NonNull<u8>,
    /// Bytes that were read into it.
    len: usize,
}

impl Deref for MallocBuffer {
    type Target = [u8];

    #[expect(unsafe_code, reason = "memory of the C library")]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes were written to it, and it is not freed before it is dropped.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for MallocBuffer {
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
        assert!(StdioStream::open(&path("none")).unwrap().is_none());
        let mut stream = StdioStream::open(&path("a")).unwrap().unwrap();
        assert_eq!(stream.bytes().unwrap(), 100_000);
        assert_eq!(*stream.read(0, 100_000).unwrap(), bytes[..]);
        assert_eq!(*stream.read(99_990, 100).unwrap(), bytes[99_990..]);
        let mut empty = StdioStream::open(&path("empty")).unwrap().unwrap();
        assert_eq!((empty.bytes().unwrap(), empty.read(0, 0).unwrap().len()), (0, 0));
        // Bytes written one by one are read one by one by another stream.
        let mut written = StdioStream::open_to_write(&path("empty")).unwrap().unwrap();
        written.put_each(&bytes[..10_000]).unwrap();
        written.sync().unwrap();
        let mut again = [0; 9_999];
        let mut stream = StdioStream::open(&path("empty")).unwrap().unwrap();
        stream.get_each(&mut again).unwrap();
        assert_eq!(again, bytes[..9_999]);
        assert!(stream.get_each(&mut again[..2]).is_err(), "one byte is left");
        assert!(StdioStream::open_to_write(&path("none")).unwrap().is_none());
        // A directory can be opened but not read.
        let mut directory = StdioStream::open(&path(".")).unwrap().unwrap();
        assert!(directory.read(0, 1).is_err());
    }
}
