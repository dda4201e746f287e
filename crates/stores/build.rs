//! Tells the program the versions of the libraries whose stores it measures, from Cargo.lock, which is what was built.

/// The workspace's, from the directory of this crate.
const LOCK: &str = "../../Cargo.lock";

/// Packages whose version is a fact of a store.
const STORES: &[&str] = &["redb", "fjall", "rocksdb"];

fn main() {
    println!("cargo::rerun-if-changed={LOCK}");
    println!("cargo::rerun-if-changed=build.rs");
    let lock = std::fs::read_to_string(LOCK).unwrap_or_default();
    for name in STORES {
        let version = version_of(&lock, name).unwrap_or("unknown");
        println!("cargo::rustc-env=BLOBWISE_VERSION_{}={version}", name.to_uppercase());
    }
}

/// The version of a package: the line after its name.
fn version_of<'l>(lock: &'l str, name: &str) -> Option<&'l str> {
    let line = format!("name = \"{name}\"");
    let mut lines = lock.lines().skip_while(|found| *found != line);
    lines.next()?;
    lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')
}
