//! The cause of damage by a power cut, in words.

use crate::result::cause::{CutBy, CutCause, DiskWrite};
use crate::result::crash::Damage;
use crate::units::counted;

/// Maximum number of writes that are listed individually.
const NAMED: usize = 3;

/// Describes the cause in one sentence.
pub fn describe(cause: &CutCause) -> String {
    let mut text = format!("{} {}: {}", subject(cause), is(cause.damage), reason(cause));
    if !cause.is_smallest && cause.by != CutBy::NotAgain {
        text +=
            &format!(" (perhaps less would do: the search ended after {})", counted(cause.images, "image"));
    }
    text + &own(cause)
}

fn subject(cause: &CutCause) -> String {
    let Some(blob) = cause.blob else { return "the store".to_owned() };
    let Some(promise) = &cause.promise else { return format!("blob {blob}, of which nothing had to stay,") };
    let op = promise.op;
    let did = if promise.is_delete { "deleted" } else { "put" };
    match promise.by_sync {
        false => format!("blob {blob}, {did} by op {op} and acknowledged at entry {},", promise.at),
        true => format!(
            "blob {blob}, {did} by op {op} and covered by a sync that returned at entry {},",
            promise.at
        ),
    }
}

fn is(damage: Damage) -> &'static str {
    match damage {
        Damage::Old => "is as it was before",
        Damage::Lost => "is lost",
        Damage::Back => "is back",
        Damage::Wrong => "has other bytes",
        Damage::Unreadable => "cannot be read",
        Damage::Dangling => "is catalogued without its blob",
        Damage::KnownFault | Damage::Unusable => "does not open",
    }
}

fn reason(cause: &CutCause) -> String {
    let writes = &cause.writes;
    let (were, pending) = (if writes.len() == 1 { "was" } else { "were" }, counted(cause.pending, "write"));
    // The reference point is the promise, or else the cut.
    let promised = cause.promise.as_ref().map(|promise| promise.at);
    let came_before = |write: &DiskWrite| promised.is_none_or(|at| write.entry < at);
    match cause.by {
        CutBy::Missing if writes.iter().all(came_before) => {
            format!("{} {were} not flushed before", named(writes))
        }
        CutBy::Missing => {
            format!("{} came only after that, and {were} not flushed before the cut", named(writes))
        }
        CutBy::NotSent => format!("{} came only after that, and after the cut", named(writes)),
        CutBy::Surviving => {
            format!(
                "of {pending} that no flush had covered it is enough that this survives: {}",
                named(writes)
            )
        }
        CutBy::Whatever => format!(
            "it is so with all that the disk was told up to entry {}, the next op on it or the end",
            cause.until.unwrap_or_default()
        ),
        CutBy::NotAgain => "the same image did not show it again".to_owned(),
    }
}

fn named(writes: &[DiskWrite]) -> String {
    let mut named: Vec<String> = writes.iter().take(NAMED).map(of_write).collect();
    if writes.len() > NAMED {
        named.push(format!("{} more", writes.len() - NAMED));
    }
    named.join(" and ")
}

fn of_write(write: &DiskWrite) -> String {
    let part = match write.survived {
        0 => String::new(),
        part if part == write.bytes => String::new(),
        part => format!(", {part} of {} B", write.bytes),
    };
    let entry = write.entry;
    match &write.place {
        Some(place) => format!("the write to `{}` at {} (entry {entry}{part})", place.file, place.offset),
        None => format!("the file system's own write (entry {entry}{part}: its journal, names or sizes)"),
    }
}

/// States which flushes the op itself had caused before its result was promised to persist.
fn own(cause: &CutCause) -> String {
    let Some(promise) = &cause.promise else { return String::new() };
    if ![CutBy::Missing, CutBy::NotSent].contains(&cause.by) {
        return String::new();
    }
    let mut text = match promise.flushes.as_slice() {
        [] => "; no flush stands between the op's begin and that".to_owned(),
        [one] => format!("; the one flush between the op's begin and that is entry {one}"),
        [.., last] => {
            let all = counted(promise.flushes.len(), "flush").replace("flushs", "flushes");
            format!("; the last of {all} between the op's begin and that is entry {last}")
        }
    };
    let is_named = |write: &&DiskWrite| cause.writes.iter().all(|named| named.entry != write.entry);
    let covered =
        promise.written.iter().filter(is_named).find(|write| write.flushed.is_some_and(|at| at < promise.at));
    if let Some(write) = covered {
        text += &format!(", and it covered {}", of_write(write));
    }
    text
}
