//! What a run makes in the user's server, and how it is removed, by reading, writing and deleting single keys only: neither
//! protocol of an own store can list its keys.
//!
//! A run takes one of a few known keys, its mark, which says who uses it, the random name that all of its blobs' keys begin with,
//! and how many there may be. Blobs are numbered behind that name, so that a later run can remove those of a killed one.

use std::cell::Cell;
use std::path::Path;

use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};

use super::access::{StoreAccess, StoreClient};
use crate::store::*;
use crate::stores::cache::redis::room;
use crate::stores::common::removal::{PATIENCE, none_left, remove_each};
use crate::stores::common::servers::{OURS, Owner, PlaceKind, is_our_name, own_name};

/// The most runs that use a server at the same time.
const MARKS_MAX: u32 = 16;
/// The most keys that a mark may claim: more are a mark of somebody else.
const KEYS_MAX: u64 = 1 << 27;
/// File with our mark in the user's server, for reopening.
const MARK: PlaceKind = PlaceKind("mark");

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// Number of the mark's key.
    number: u32,
    /// Keys of blobs begin with it and an underscore.
    pub(super) name: String,
    keys: u64,
    machine: String,
    dir: String,
}

impl Mark {
    fn key(number: u32) -> String {
        format!("{OURS}mark_{number}")
    }

    /// Reads a mark; `None` if it was not made by this program.
    fn of_text(text: &str) -> Option<Mark> {
        let mark: Mark = serde_json::from_str(text).ok()?;
        (is_our_name(&mark.name) && mark.keys <= KEYS_MAX).then_some(mark)
    }

    /// What the keys of its blobs begin with.
    pub(super) fn prefix(&self) -> String {
        format!("{}_", self.name)
    }

    fn is_stale(&self) -> bool {
        Owner { machine: self.machine.clone(), dir: self.dir.clone() }.is_gone()
    }

    /// Takes a free mark for the store in `dir`, and removes what killed runs left.
    pub(super) fn take(access: &StoreAccess, dir: &Path, keys: u64) -> Result<Mark> {
        let mut client = access.connect()?;
        remove_stale(&mut client, access)?;
        let Owner { machine, dir: used_by } = Owner::for_dir(dir);
        for number in 0..MARKS_MAX {
            let key = Mark::key(number);
            if client.text(&key)?.is_some() {
                continue;
            }
            let (machine, used_by) = (machine.clone(), used_by.clone());
            let mark = Mark { number, name: own_name(), keys, machine, dir: used_by };
            let text = serde_json::to_string(&mark).map_err(Error::failed)?;
            MARK.keep_name(dir, &text)?;
            client.put_text(&key, &text)?;
            match client.text(&key)? {
                Some(kept) if kept == text => return Ok(mark),
                // Another run took it at the same moment.
                Some(kept) if Mark::of_text(&kept).is_some() => {}
                _ => {
                    // It was missing before.
                    client.delete_text(&key).ok();
                    bail!("the store does not return what was put: `{key}` is missing or has other bytes")
                }
            }
        }
        Err(Error::Failed(anyhow!(
            "the keys `{OURS}mark_0` to `{OURS}mark_{}` are taken: other runs use this store, or it answers for keys that it \
             does not have; delete those that are left of runs on other machines",
            MARKS_MAX - 1
        )))
    }

    /// Finds the mark of a store that was closed.
    pub(super) fn find(access: &StoreAccess, dir: &Path) -> Result<Mark> {
        let text = MARK.kept_name(dir)?;
        let mark = Mark::of_text(&text).context("the file with our mark has other contents")?;
        let key = Mark::key(mark.number);
        let is_ours = access.connect()?.text(&key)?.is_some_and(|kept| kept == text);
        MARK.check_mark(&key, is_ours)?;
        Ok(mark)
    }

    /// Removes every key that a store with this mark may have, the mark last, so that a partial removal can be finished.
    pub(super) fn remove(&self, access: &StoreAccess) -> Result<()> {
        /// A server that is gone, or refuses everything, would otherwise leave an error in memory for each key.
        const LEFT_MAX: u64 = 1000;
        let (prefix, removed) = (self.prefix(), Cell::new(0_u64));
        let mut kept: Option<StoreClient> = None;
        let keys = (0..self.keys).take_while(|id| *id < removed.get() + LEFT_MAX);
        let left = remove_each(keys, PATIENCE, |id| {
            let mut client = kept.take().map_or_else(|| access.connect(), Ok)?;
            client.delete(&prefix, &numbered(*id))?;
            // After an error above its state is unknown.
            kept = Some(client);
            removed.set(removed.get() + 1);
            Ok(())
        });
        let named = |(id, why): (u64, Error)| (format!("{prefix}{}", numbered(id).as_str()), why);
        let mut left: Vec<(String, Error)> = left.into_iter().map(named).collect();
        if left.is_empty() {
            left = remove_each([Mark::key(self.number)], PATIENCE, |key| self.remove_own(access, key));
        }
        none_left(&left, |_| self.by_hand(&access.delete_by_hand()))
    }

    fn remove_own(&self, access: &StoreAccess, key: &str) -> Result<()> {
        let mut client = access.connect()?;
        // Two runs may have taken it at the same moment, of which the other has it.
        if self.is_kept(&mut client, key)? {
            client.delete_text(key)?;
            ensure!(
                !self.is_kept(&mut client, key)?,
                "the store says that it deletes, and still has what was deleted"
            );
        }
        Ok(())
    }

    /// True if the store has this mark.
    fn is_kept(&self, client: &mut StoreClient, key: &str) -> Result<bool> {
        Ok(client.text(key)?.and_then(|text| Mark::of_text(&text)).as_ref() == Some(self))
    }

    /// The command that removes its keys.
    fn by_hand(&self, delete: &str) -> String {
        let (last, key, name) = (self.keys.saturating_sub(1), Mark::key(self.number), &self.name);
        format!("for n in $(seq 0 {last}); do {delete}{name}_$(printf %032x $n); done; {delete}{key}")
    }
}

/// Removes what killed runs left.
fn remove_stale(client: &mut StoreClient, access: &StoreAccess) -> Result<()> {
    for number in 0..MARKS_MAX {
        let mark = client.text(&Mark::key(number))?.and_then(|text| Mark::of_text(&text));
        if let Some(mark) = mark.filter(|mark| mark.number == number && mark.is_stale()) {
            mark.remove(access)?;
        }
    }
    Ok(())
}

/// The key of a blob by its number alone.
pub(super) fn numbered(id: u64) -> Key {
    Key::of_digest(id, u128::from(id))
}

/// Returns what a run makes in the user's server, and the room that it reports.
pub(super) fn intent(access: &StoreAccess) -> Result<Intent> {
    if let StoreClient::Redis(mut redis) = access.connect()? {
        room::check_single(&mut redis)?;
    }
    let mut client = access.connect()?;
    remove_stale(&mut client, access)?;
    let (limits, unknown, carriers) = match &mut client {
        // A server that ends the connection for a command that it does not know has other faults, which its ops show.
        StoreClient::Redis(redis) => room::reported(redis, None)
            .unwrap_or_else(|_closed| unreported("the server does not answer `INFO`")),
        StoreClient::Http(_) => unreported("HTTP has no request for it"),
    };
    Ok(Intent { makes: format!("puts keys `{OURS}...`"), pronoun: "them", limits, unknown, carriers })
}

/// The room of a server that reports none.
fn unreported(why: &str) -> room::ReportedRoom {
    (Vec::new(), Some(why.to_owned()), Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_mark_of_ours_is_one() {
        let mark = Mark {
            number: 3,
            name: own_name(),
            keys: 10,
            machine: String::new(),
            dir: "/nowhere".to_owned(),
        };
        let text = serde_json::to_string(&mark).unwrap();
        assert_eq!(Mark::of_text(&text), Some(mark.clone()));
        let other = |change: fn(&mut Mark)| {
            let mut mark = mark.clone();
            change(&mut mark);
            Mark::of_text(&serde_json::to_string(&mark).unwrap())
        };
        assert_eq!(other(|mark| mark.name = "users".to_owned()), None);
        assert_eq!(other(|mark| mark.keys = u64::MAX), None);
        assert_eq!(Mark::of_text("<html>"), None);
        // A mark that names no machine may be of a run that still goes on.
        assert!(!mark.is_stale());
    }
}
