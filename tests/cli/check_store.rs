//! `blobwise check-store`: a store that keeps its contract, one that this machine keeps from it, and names that are refused.

use crate::program::{BLOBWISE, Outcome, Work, finish};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("a store is checked against what it declares", checked),
        Trial::test("what cannot be checked is refused", refused),
    ]
}

/// One class is enough, and the one in which the largest blob is put.
const STORE: &str = "files/hashed[durability=on-sync]";

fn checked() -> Outcome {
    let work = Work::new();
    let said = work.run(["check-store", STORE]).ended(0).stdout;
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "in class on-sync declares: nothing lost after a kill, recent writes lost after a power cut",
        "ok returns-what-was-put",
        "ok leaves-nothing-behind",
        "does not apply: 1 (another class has them): takes-no-more-inodes-than-it-says",
        "(the store declares what they expect it to refuse): refuses-changes, refuses-ranges",
        "ok, 0 FAILED",
    ] {
        assert!(words.contains(part), "`{part}` is not in:\n{said}");
    }
    assert!(work.names(".").is_empty(), "{:?}", work.names("."));
    // A file may have 4 MiB, which is less than the largest blob of the checks.
    let limited = format!("ulimit -f 8192; exec {BLOBWISE} check-store '{STORE}'");
    let said = finish(work.command("sh").args(["-c", &limited])).ended(1).stdout;
    assert!(said.contains("\n  FAILED  holds-a-large-blob: put of blob 0 with 17000003 B"), "{said}");
    assert!(said.ends_with(" ok, 1 FAILED\n"), "{said}");
    assert!(work.names(".").is_empty(), "{:?}", work.names("."));
    Ok(())
}

fn refused() -> Outcome {
    let work = Work::new();
    let unknown = "no store is called `files/hashd`; did you mean `files/hashed`?";
    work.say("check-store files/hashd").refused(&[unknown]);
    work.say("check-store redis[url=redis://127.0.0.1:1/]")
        .refused(&["is not ours to stop", "leave out its URL"]);
    assert!(work.names(".").is_empty(), "{:?}", work.names("."));
    Ok(())
}
