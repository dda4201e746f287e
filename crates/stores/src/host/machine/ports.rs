//! Local TCP ports: the range that the kernel assigns to connections, and how many ports closed connections still hold.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

use super::kernel_text::read;
use super::uptime;

/// How long the kernel keeps the port of a closed connection (`TCP_TIMEWAIT_LEN` in `include/net/tcp.h`).
const HELD: Duration = Duration::from_secs(60);
/// The kernel's timers of this length may end an eighth of it later (`kernel/time/timer.c`): 60.1 to 62.1 s were measured at 250 Hz.
const HELD_AT_MOST: Duration = Duration::from_millis(67_500);
/// Time after which such a port may be reused for the same address if `tcp_tw_reuse` allows it.
const HELD_AT_LEAST: Duration = Duration::from_secs(1);

/// First and last port of the range that the kernel assigns to outgoing connections.
fn local_ports() -> Option<(u16, u16)> {
    let text = read("/proc/sys/net/ipv4/ip_local_port_range")?;
    let mut words = text.split_whitespace().map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}

/// Listens on a free loopback port of the dynamic range (RFC 6335) that the kernel does not assign to outgoing connections. Ports
/// used up by clients, whose closed connections hold them for a minute, then do not matter, and no client can take the port
/// before a server binds it.
pub fn free_listener() -> Result<TcpListener> {
    const TEMPORARY: RangeInclusive<u16> = 49152..=65535;
    /// Each process has an order of its own: two that start servers at the same time would meet again with each attempt if both
    /// counted up.
    static ORDER: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(()));
    /// Next port to try, so that consecutive calls differ.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let (given, is_reserved) = (local_ports(), reserved_ports());
    let is_given = |port: u16| given.is_some_and(|(first, last)| (first..=last).contains(&port));
    let mut ports: Vec<u16> = TEMPORARY.filter(|port| !is_given(*port) && !is_reserved(*port)).collect();
    ports.shuffle(&mut SmallRng::seed_from_u64(*ORDER));
    let mut tries = ports.iter().map(|_| ports[NEXT.fetch_add(1, Ordering::Relaxed) % ports.len()]);
    let free =
        |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok().filter(|_| is_claimed_now(port));
    match tries.find_map(free) {
        Some(listener) => Ok(listener),
        // If the kernel may assign all of them, takes one of its choice.
        None => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no loopback port is free"),
    }
}

/// Claims a port against other processes of blobwise, by an abstract socket of its name; false if one of them has it. A server binds
/// its port some time after it was found to be free, and one of another run that answers there meanwhile would be taken for it.
fn is_claimed_now(port: u16) -> bool {
    /// The last claims are held: as many servers do not start at once.
    const HELD_MAX: usize = 64;
    static HELD: Mutex<VecDeque<OwnedFd>> = Mutex::new(VecDeque::new());
    let claim = || {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddrUnix::new_abstract_name(format!("blobwise-port-{port}").as_bytes())?)?;
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.push_back(socket);
        if held.len() > HELD_MAX {
            held.pop_front();
        }
        Ok(())
    };
    // Where there are no such sockets, the port is as good as it was.
    claim() != Err(Errno::ADDRINUSE)
}

/// Returns a predicate for ports reserved for other services (`ip_local_reserved_ports`).
fn reserved_ports() -> impl Fn(u16) -> bool {
    let text = read("/proc/sys/net/ipv4/ip_local_reserved_ports").unwrap_or_default();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.parse::<u16>().ok()?, last.parse::<u16>().ok()?))
    };
    let ranges: Vec<(u16, u16)> = text.trim().split(',').filter_map(range).collect();
    move |port| ranges.iter().any(|(first, last)| (*first..=*last).contains(&port))
}

/// Describes the number of local ports and how many of them closed connections to one address hold.
pub fn ports_in_words() -> String {
    let Some((first, last)) = local_ports() else {
        return "the kernel does not say which there are".to_owned();
    };
    let all = u32::from(last - first) + 1;
    let held = held_by_address(&kernel_tables(), (first, last), |_, _| true).into_values().max().unwrap_or(0);
    format!(
        "{held} of {all} ({first} to {last}) are held by connections to one address that were closed, for {} s each",
        HELD.as_secs()
    )
}

/// Waits until nearly all local ports are available again for connections to any one address, at most for as long as the kernel
/// can hold them. Returns the time waited.
pub fn wait_for_ports(stop: &AtomicBool) -> Duration {
    /// Tolerated share of held ports: one in this many.
    const PART: u32 = 16;
    const LOOK: Duration = Duration::from_millis(100);
    let begin = uptime();
    let Some((first, last)) = local_ports() else { return Duration::ZERO };
    let most = (u32::from(last - first) + 1) / PART;
    let reused =
        read("/proc/sys/net/ipv4/tcp_tw_reuse").and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let blocks = |remote: &str, age: Duration| !(is_reused(reused, remote) && age >= HELD_AT_LEAST);
    // The full tables are long on a busy machine, so the total is looked at first.
    while all_held() > most && uptime() - begin < HELD_AT_MOST && !stop.load(Ordering::Relaxed) {
        let tables = kernel_tables();
        if held_by_address(&tables, (first, last), blocks).into_values().all(|held| held <= most) {
            break;
        }
        std::thread::sleep(LOOK);
    }
    uptime() - begin
}

/// True if the kernel reuses a port that a closed connection to this address holds: `tcp_tw_reuse` is 0 (never), 1 (always) or 2
/// (on loopback).
fn is_reused(reused: u8, remote: &str) -> bool {
    let address = remote.split(':').next().unwrap_or_default();
    // The kernel's notation of 127.x.y.z and ::1 on a little-endian machine.
    let is_loopback =
        (address.len() == 8 && address.ends_with("7F")) || address == "00000000000000000000000001000000";
    reused == 1 || (reused == 2 && is_loopback)
}

/// Number of ports held by closed connections of all processes.
fn all_held() -> u32 {
    // `TCP: inuse 6 orphan 0 tw 12 alloc 6 mem 0`
    let text = read("/proc/self/net/sockstat").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("TCP:")).unwrap_or_default();
    let mut words = line.split_whitespace().skip_while(|word| *word != "tw");
    words.nth(1).and_then(|count| count.parse().ok()).unwrap_or(0)
}

fn kernel_tables() -> String {
    ["tcp", "tcp6"].map(|table| read(format!("/proc/self/net/{table}")).unwrap_or_default()).concat()
}

/// Counts the ports of a range that closed connections hold, by remote address. `counts` selects connections by that address and
/// the time since they were closed.
fn held_by_address(
    tables: &str,
    (first, last): (u16, u16),
    counts: impl Fn(&str, Duration) -> bool,
) -> BTreeMap<&str, u32> {
    const TIME_WAIT: &str = "06";
    let mut held = BTreeMap::new();
    for line in tables.lines() {
        // `0: 0100007F:8000 0100007F:1F90 06 00000000:00000000 03:00001770 ...`: the remaining time is in hundredths of a second.
        let fields: Vec<&str> = line.split_whitespace().take(6).collect();
        let [_, local, remote, TIME_WAIT, _, timer] = fields[..] else { continue };
        let after_colon = |text: &str| u32::from_str_radix(text.rsplit_once(':')?.1, 16).ok();
        let (Some(port), Some(left)) = (after_colon(local), after_colon(timer)) else { continue };
        let age = HELD.saturating_sub(Duration::from_millis(u64::from(left) * 10));
        if (u32::from(first)..=u32::from(last)).contains(&port) && counts(remote, age) {
            *held.entry(remote).or_insert(0) += 1;
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_was_given_away_is_not_given_to_another() {
        let port = free_listener().unwrap().local_addr().unwrap().port();
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && !is_claimed_now(port));
    }

    #[test]
    fn held_ports_are_counted_by_the_address_that_they_were_to() {
        let line = |local: &str, remote: &str, state: &str, left: u32| {
            format!(
                "   0: {local} {remote} {state} 00000000:00000000 03:{left:08X} 00000000     0        0 0 3\n"
            )
        };
        let (near, far) = ("0100007F:1F90", "0200000A:1F90");
        let tables = [
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n".to_owned(),
            line("0100007F:8000", near, "06", 5990),
            line("0100007F:8001", near, "06", 3000),
            line("0100007F:8002", near, "01", 0),
            line("0100007F:0050", near, "06", 3000),
            line("0100000A:8003", far, "06", 3000),
        ]
        .concat();
        let held = |counts: &dyn Fn(&str, Duration) -> bool| held_by_address(&tables, (32768, 60999), counts);
        assert_eq!(held(&|_, _| true), BTreeMap::from([(near, 2), (far, 1)]));
        let fresh = |_: &str, age: Duration| age < HELD_AT_LEAST;
        assert_eq!(held(&fresh), BTreeMap::from([(near, 1)]));
        assert!(is_reused(1, far) && !is_reused(2, far) && is_reused(2, near) && !is_reused(0, near));
        assert!(ports_in_words().contains("for 60 s each"), "{}", ports_in_words());
    }
}
