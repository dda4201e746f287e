//! Libraries that are preloaded into the program, and the flush functions that they replace.

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kernel_text::read;

/// List of libraries that are preloaded into every program of the machine.
pub(super) const PRELOADED: &str = "/etc/ld.so.preload";

/// Flush functions of the C library that a preloaded library has replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplacedFlushes {
    /// Path of the library.
    pub library: String,
    /// Names of the functions.
    pub functions: Vec<String>,
    /// True if servers that the program starts load it as well, because `/etc/ld.so.preload` names it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_servers: bool,
}

/// Functions by which programs flush.
const FUNCTIONS: &[&CStr] = &[c"fsync", c"fdatasync", c"msync", c"sync_file_range", c"syncfs", c"sync"];

/// Finds the flush functions that preloaded libraries have replaced in this program.
pub(super) fn replaced_flushes() -> Vec<ReplacedFlushes> {
    let own = ["LD_PRELOAD", "LD_AUDIT"].map(|name| std::env::var(name).unwrap_or_default());
    let of_all = read(PRELOADED).unwrap_or_default();
    let mut found: Vec<ReplacedFlushes> = Vec::new();
    for function in FUNCTIONS {
        let Some(library) = defined_in(function) else { continue };
        let in_servers = names(&of_all, &library);
        if !in_servers && !own.iter().any(|list| names(list, &library)) {
            continue;
        }
        let (library, name) =
            (library.to_string_lossy().into_owned(), function.to_string_lossy().into_owned());
        match found.iter_mut().find(|known| known.library == library) {
            Some(known) => known.functions.push(name),
            None => found.push(ReplacedFlushes { library, functions: vec![name], in_servers }),
        }
    }
    found
}

/// True if a list of libraries, separated by colons or white space, contains this file name. Entries may lack a directory or
/// contain `$LIB`, so only file names are compared.
fn names(list: &str, library: &Path) -> bool {
    let mut listed = list.split(|sign: char| sign == ':' || sign.is_whitespace());
    listed.any(|listed| !listed.is_empty() && Path::new(listed).file_name() == library.file_name())
}

/// Path of the library that this program's calls of a function go to.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the dynamic linker has no safe wrapper")]
fn defined_in(function: &CStr) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: the name ends with a zero, and nothing is called.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, function.as_ptr()) };
    if address.is_null() {
        return None;
    }
    let mut known = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: it writes the whole of `known`, or returns 0 and leaves it zeroed.
    let (found, known) = unsafe { (libc::dladdr(address, known.as_mut_ptr()), known.assume_init()) };
    if found == 0 || known.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the linker's own text, which ends with a zero and stays as long as the library is loaded.
    let name = unsafe { CStr::from_ptr(known.dli_fname) };
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
}

/// A statically linked program loads no libraries.
#[cfg(not(target_env = "gnu"))]
fn defined_in(_: &CStr) -> Option<PathBuf> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_found_in_a_list_by_the_name_of_its_file() {
        let library = Path::new("/usr/lib/x86_64-linux-gnu/libeatmydata.so");
        for list in ["libeatmydata.so", "a.so:/usr/$LIB/libeatmydata.so", "a.so libeatmydata.so\n"] {
            assert!(names(list, library), "{list}");
        }
        assert!(!names("", library) && !names("libdl.so.2", library));
        // Nothing is replaced in these tests.
        assert_eq!(replaced_flushes(), []);
    }
}
