//! What a run makes in the user's Redis or Valkey, and how much memory is left there.

use super::instance::{self, Remover};
use super::{MAXMEMORY, may_evict};
use crate::host::machine::LocalServerProcess;
use crate::store::*;
use crate::stores::common::certificate::check_theirs;
use crate::stores::common::disk;
use crate::stores::common::servers::{self, OURS};
use crate::units;
use crate::wire::redis::{RedisClient, RedisError, parse_url};

/// Returns what a run makes in the user's server, and the memory that this server reports.
pub(super) fn intent(setup: &Setup) -> Result<Intent> {
    check_theirs(setup.options)?;
    servers::check_size(setup.options, &MAXMEMORY)?;
    let (address, login) = parse_url(setup.options.text("url"))?;
    let mut admin = RedisClient::log_in(&address, &login, setup.op_timeout)?;
    instance::check_single(&mut admin)?;
    let evicts = may_evict(setup.options);
    if evicts {
        instance::check_evicts(&mut admin)?;
    }
    // Memory taken by leftovers of killed runs is freed first.
    if if_allowed(admin.select(&login))?.is_some() {
        let remover = Remover { address: &address, login: &login, patience: setup.op_timeout };
        if_allowed(instance::remove_stale(&mut admin, &remover))?;
    }
    let (limits, unknown, carriers) = reported(&mut admin, Some(evicts))?;
    Ok(Intent {
        makes: format!("puts keys `{OURS}...` into database {}", login.database),
        pronoun: "them",
        limits,
        unknown,
        carriers,
    })
}

/// The limits that a server reports, why others are unknown, and the other receivers of every write.
pub(in crate::stores) type ReportedRoom = (Vec<ServerLimit>, Option<String>, Vec<String>);

/// Refuses a server that says that it does not stand alone. Others that speak the protocol need not know how to say what they are.
pub(in crate::stores) fn check_single(admin: &mut RedisClient) -> Result<()> {
    instance::identity(admin).map_or(Ok(()), |info| instance::check_alone(&info))
}

/// Asks a server for its room. `evicts` says whether it may evict keys; `None` if the store has no option for that.
pub(in crate::stores) fn reported(admin: &mut RedisClient, evicts: Option<bool>) -> Result<ReportedRoom> {
    let info = if_allowed(instance::info(admin, "default"))?.unwrap_or_default();
    let (mut limits, unknown) = rooms(&info, evicts);
    let number = |name: &str| info.get(name).and_then(|value| value.parse::<u64>().ok());
    let connections = number("maxclients").zip(number("connected_clients"));
    limits.extend(connections.map(|(most, used)| {
        ServerLimit::connections(format!("maxclients {most}"), most.saturating_sub(used))
    }));
    let saves = instance::setting(admin, "save")?.is_some_and(|times| !times.is_empty());
    let dir = instance::setting(admin, "dir")?.unwrap_or_default();
    limits.extend(of_disk(&info, saves, &dir));
    Ok((limits, unknown, carriers(&info, saves)))
}

/// True if the server logs every write.
fn has_log(info: &Facts) -> bool {
    info.get("aof_enabled").is_some_and(|enabled| enabled == "1")
}

/// The room on the disk of a server on this machine that keeps there what it is given.
fn of_disk(info: &Facts, saves: bool, dir: &str) -> Vec<ServerLimit> {
    /// More than the words of a command and their lengths.
    const BESIDE_BYTES: u64 = 256;
    let has_log = has_log(info);
    let number = |name: &str| info.get(name).and_then(|value| value.parse::<u32>().ok());
    let process = number("process_id").zip(number("uptime_in_seconds")).filter(|_| has_log || saves);
    let server = process.and_then(|(process, up)| {
        LocalServerProcess::find(process, &["redis-server", "valkey-server"], f64::from(up), dir)
    });
    let takes = move |demand: &Demand<'_>| {
        let record = |bytes: u64| bytes + BESIDE_BYTES;
        let log = if has_log { demand.written(record) } else { 0 };
        // The server writes a snapshot or a compacted log to a new file, and keeps the old one until that is complete.
        log + demand.live(record)
    };
    let when_full = "refuses every write";
    server.map_or_else(Vec::new, |server| disk::rooms(server, "data directory", dir, when_full, takes))
}

/// `None` if the user lacks the permission.
fn if_allowed<T>(done: Result<T>) -> Result<Option<T>> {
    match done {
        Err(Error::Failed(error))
            if error.downcast_ref::<RedisError>().is_some_and(|refused| !refused.is_of_login()) =>
        {
            Ok(None)
        }
        done => done.map(Some),
    }
}

/// The memory limits from `INFO`, and what `INFO` does not tell.
fn rooms(info: &Facts, evicts: Option<bool>) -> (Vec<ServerLimit>, Option<String>) {
    let number = |name: &str| info.get(name).and_then(|value| value.parse::<u64>().ok());
    let (Some(used), Some(most)) = (number("used_memory"), number("maxmemory")) else {
        return (
            Vec::new(),
            Some("the user may not ask for `INFO`, which says how much memory is left".to_owned()),
        );
    };
    if most > 0 {
        let policy = info.get("maxmemory_policy").map_or("noeviction", String::as_str);
        let when_full = match policy {
            "noeviction" => "refuses every write (noeviction)".to_owned(),
            _ if policy.starts_with("volatile") => format!("evicts keys that expire ({policy})"),
            _ => format!("evicts keys ({policy})"),
        };
        // Buffers of the log and of replicas do not cause evictions.
        let counted = used.saturating_sub(number("mem_not_counted_for_evict").unwrap_or(0));
        let limit = format!("maxmemory {}", units::bytes(most as f64));
        let left = most.saturating_sub(counted);
        // The other policies never evict keys without a time to live, which a run puts; they refuse writes once memory is full.
        let evicts = evicts.filter(|_| policy.starts_with("allkeys"));
        let offer = if evicts == Some(false) { servers::EVICTS_OFFERED } else { "" };
        let room = room(limit, left, when_full, &format!("raise maxmemory{offer}"));
        return (vec![ServerLimit { may_evict: evicts == Some(true), ..room }], None);
    }
    // An upper bound: other processes of the machine may take more.
    let machine = number("total_system_memory").zip(number("used_memory_rss"));
    let limits = machine.map(|(all, used)| {
        let limit = format!("its machine's memory of {}", units::bytes(all as f64));
        room(limit, all.saturating_sub(used), "is killed or swaps".to_owned(), "set maxmemory")
    });
    let why = "the server has no maxmemory and does not say what else is in its machine's memory";
    (limits.into_iter().collect(), Some(why.to_owned()))
}

/// An upper bound of what keys take: jemalloc rounds sizes up by at most a quarter, the overhead of a key is below 256 B, and
/// requests and replies lie in buffers, a batch of comparing reads (1 MB) among them.
fn room(limit: String, left: u64, when_full: String, way_out: &str) -> ServerLimit {
    const COMPARED_BYTES: u64 = 2 << 20;
    let of_blob = |bytes: u64| bytes + bytes * 26 / 100 + 256;
    let takes =
        move |demand: &Demand<'_>| demand.live(of_blob) + 2 * demand.under_way_bytes() + COMPARED_BYTES;
    ServerLimit {
        limit,
        unit: LimitUnit::Bytes,
        left,
        when_full,
        way_out: way_out.to_owned(),
        may_evict: false,
        takes: Box::new(takes),
    }
}

/// Other receivers of every write.
fn carriers(info: &Facts, saves: bool) -> Vec<String> {
    let replicas =
        info.get("connected_slaves").and_then(|count| count.parse::<u64>().ok()).filter(|count| *count > 0);
    let files = [(has_log(info), "its append-only file"), (saves, "its snapshots")];
    let files = files.into_iter().filter(|(is_kept, _)| *is_kept).map(|(_, file)| file.to_owned());
    replicas.map(|count| units::counted(count, "replica")).into_iter().chain(files).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(pairs: &[(&str, &str)]) -> Facts {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_memory_that_is_left_is_told_with_what_happens_without_it() {
        let of = |policy| {
            let used = [("used_memory", "17000000"), ("mem_not_counted_for_evict", "1000000")];
            let most = [("maxmemory", "24000000"), ("maxmemory_policy", policy)];
            let told = info(&[used, most].concat());
            let (allowed, _) = rooms(&told, Some(true));
            assert_eq!(allowed[0].may_evict, policy == "allkeys-lru");
            let (rooms, unknown) = rooms(&told, Some(false));
            assert_eq!(rooms[0].way_out.contains("evicts=allowed"), policy == "allkeys-lru");
            assert_eq!((rooms.len(), unknown), (1, None));
            assert_eq!((rooms[0].left, rooms[0].limit.as_str()), (8_000_000, "maxmemory 24 MB"));
            rooms[0].when_full.clone()
        };
        assert_eq!(of("allkeys-lru"), "evicts keys (allkeys-lru)");
        assert_eq!(of("volatile-ttl"), "evicts keys that expire (volatile-ttl)");
        assert_eq!(of("noeviction"), "refuses every write (noeviction)");
    }

    #[test]
    fn what_is_not_told_is_said() {
        let (limits, unknown) = rooms(&Facts::new(), None);
        assert!(limits.is_empty() && unknown.is_some_and(|why| why.contains("INFO")));
        let unlimited = [
            ("used_memory", "1"),
            ("maxmemory", "0"),
            ("total_system_memory", "100"),
            ("used_memory_rss", "40"),
        ];
        let (limits, unknown) = rooms(&info(&unlimited), None);
        assert_eq!(limits[0].left, 60);
        assert!(unknown.is_some_and(|why| why.contains("no maxmemory")));
    }

    #[test]
    fn replicas_and_the_log_are_told() {
        assert!(carriers(&info(&[("connected_slaves", "0"), ("aof_enabled", "0")]), false).is_empty());
        let told = carriers(&info(&[("connected_slaves", "2"), ("aof_enabled", "1")]), true);
        assert_eq!(told, ["2 replicas", "its append-only file", "its snapshots"]);
    }
}
