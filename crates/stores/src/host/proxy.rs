//! A TCP proxy that adds a fixed network delay to connections and bytes, and nothing else.
//!
//! Every byte leaves half a round trip after it arrived, however many are in flight, so throughput is not capped. A connection
//! counts as established one round trip after it was accepted: bytes sent earlier wait until then, as they would for the kernel's
//! handshake. There is no loss, no bandwidth limit and no slow start.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::host::machine::{uptime, wake_me_on_time};

/// Most bytes read at once.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces that may be in flight in one direction: more than any server sends in the longest half round trip.
const PIECES_MAX: usize = 1 << 14;

/// A running proxy on a loopback port; dropping it closes its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<ProxyState>,
    acceptor: Option<JoinHandle<()>>,
}

/// Traffic so far. Bytes are TCP payload, encryption included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyTraffic {
    /// Connections accepted.
    pub connections: u64,
    /// Bytes from the server.
    pub down_bytes: u64,
    /// Bytes to the server.
    pub up_bytes: u64,
}

#[derive(Debug)]
struct ProxyState {
    target: SocketAddr,
    round_trip: Duration,
    stopping: AtomicBool,
    connections: AtomicU64,
    down_bytes: AtomicU64,
    up_bytes: AtomicU64,
    /// Both ends of every open connection, so that [`Proxy`]'s drop can shut them down.
    open: Mutex<BTreeMap<u64, [TcpStream; 2]>>,
}

impl Proxy {
    /// Listens on a free loopback port and forwards every connection to `target`.
    pub fn start(target: SocketAddr, round_trip: Duration) -> Result<Proxy> {
        Proxy::upon(crate::host::machine::free_listener()?, target, round_trip)
    }

    /// Like [`Proxy::start`], on a port that clients already know. Fails if the port is taken.
    pub fn start_on(port: u16, target: SocketAddr, round_trip: Duration) -> Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("the proxy cannot listen on the loopback port {port}"))?;
        Proxy::upon(listener, target, round_trip)
    }

    fn upon(listener: TcpListener, target: SocketAddr, round_trip: Duration) -> Result<Proxy> {
        let address = listener.local_addr()?;
        let shared = Arc::new(ProxyState {
            target,
            round_trip,
            stopping: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            down_bytes: AtomicU64::new(0),
            up_bytes: AtomicU64::new(0),
            open: Mutex::default(),
        });
        let acceptor = std::thread::Builder::new().spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        })?;
        Ok(Proxy { address, shared, acceptor: Some(acceptor) })
    }

    /// Address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the traffic since the start.
    pub fn passed(&self) -> ProxyTraffic {
        ProxyTraffic {
            connections: self.shared.connections.load(Ordering::Relaxed),
            down_bytes: self.shared.down_bytes.load(Ordering::Relaxed),
            up_bytes: self.shared.up_bytes.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
        TcpStream::connect(self.address).ok();
        lock(&self.shared.open).values().for_each(end);
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().ok();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn end(ends: &[TcpStream; 2]) {
    ends.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
}

fn accept(listener: &TcpListener, shared: &Arc<ProxyState>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while let Ok((client, _)) = listener.accept() {
        let made = uptime() + shared.round_trip;
        if shared.stopping.load(Ordering::SeqCst) {
            break;
        }
        let number = shared.connections.fetch_add(1, Ordering::Relaxed);
        threads.retain(|thread| !thread.is_finished());
        let shared = Arc::clone(shared);
        // A connection that cannot be forwarded, for instance because no thread can be started, is closed; its client sees that.
        let carry = move || drop(connection(&shared, number, &client, made));
        threads.extend(std::thread::Builder::new().spawn(carry));
    }
    threads.into_iter().for_each(|thread| drop(thread.join()));
}

/// Forwards one connection until both sides have closed it.
fn connection(shared: &ProxyState, number: u64, client: &TcpStream, made: Duration) -> std::io::Result<()> {
    let server = TcpStream::connect(shared.target)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    lock(&shared.open).insert(number, [client.try_clone()?, server.try_clone()?]);
    if shared.stopping.load(Ordering::SeqCst) {
        // The proxy may have shut down all connections before this one was registered.
        lock(&shared.open).values().for_each(end);
    }
    let delay = Delay { made, half: shared.round_trip / 2 };
    let carried = std::thread::scope(|scope| {
        let up = || one_way(client, &server, delay, &shared.up_bytes);
        std::thread::Builder::new().spawn_scoped(scope, up)?;
        one_way(&server, client, delay, &shared.down_bytes)
    });
    if let Some(ends) = lock(&shared.open).remove(&number)
        && carried.is_err()
    {
        end(&ends);
    }
    carried
}

#[derive(Clone, Copy)]
struct Delay {
    /// Time at which the connection counts as established.
    made: Duration,
    half: Duration,
}

/// A piece and its due time; an empty piece ends the direction.
type DelayedPiece = (Duration, Vec<u8>);

/// Forwards one direction until its end. If no thread can be started for it, both directions end.
fn one_way(from: &TcpStream, to: &TcpStream, delay: Delay, passed: &AtomicU64) -> std::io::Result<()> {
    let (sender, receiver) = sync_channel::<DelayedPiece>(PIECES_MAX);
    std::thread::scope(|scope| {
        let taking = std::thread::Builder::new().spawn_scoped(scope, || take(from, delay, sender));
        if let Err(error) = taking {
            [from, to].iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
            return Err(error);
        }
        give(from, to, &receiver, passed);
        // Unblocks a sender that is waiting for room in the channel.
        drop(receiver);
        Ok(())
    })
}

fn take(mut from: &TcpStream, delay: Delay, sender: SyncSender<DelayedPiece>) {
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let read = from.read(&mut piece).unwrap_or(0);
        piece.truncate(read);
        let due = uptime().max(delay.made) + delay.half;
        if sender.send((due, piece)).is_err() || read == 0 {
            return;
        }
    }
}

fn give(from: &TcpStream, mut to: &TcpStream, receiver: &Receiver<DelayedPiece>, passed: &AtomicU64) {
    wake_me_on_time();
    for (due, piece) in receiver {
        let wait = due.saturating_sub(uptime());
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
        if piece.is_empty() {
            to.shutdown(Shutdown::Write).ok();
            return;
        }
        // Counted before the bytes are written, so that a receiver always finds them counted.
        passed.fetch_add(piece.len() as u64, Ordering::Relaxed);
        if to.write_all(&piece).is_err() {
            // The receiver is gone: closing the other connection tells the sender.
            from.shutdown(Shutdown::Both).ok();
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(120);
    /// How late threads may wake on a busy machine, in the best of several attempts: less than one way takes.
    const LATE: Duration = Duration::from_millis(59);
    /// Attempts at least. More are made, for a minute at most, while none was as short as it can be.
    const ATTEMPTS: usize = 12;
    const PATIENCE: Duration = Duration::from_secs(60);

    /// True if one more attempt is to be made, after those that took so long since `begun`: none took less than `most`.
    fn once_more(took: &[Duration], most: Duration, begun: Duration) -> bool {
        took.len() < ATTEMPTS || took.iter().all(|one| *one >= most) && uptime() - begun < PATIENCE
    }

    /// Starts a server that handles each connection with `serve`, and a proxy in front of it.
    fn proxied(round_trip: Duration, serve: fn(TcpStream)) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let target = listener.local_addr().unwrap();
        std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
        Proxy::start(target, round_trip).unwrap()
    }

    fn echo(mut stream: TcpStream) {
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
    }

    fn exchange(stream: &mut TcpStream) {
        let mut byte = [7];
        stream.write_all(&byte).unwrap();
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [7]);
    }

    fn time(body: impl FnOnce()) -> Duration {
        let begin = uptime();
        body();
        uptime() - begin
    }

    #[test]
    fn an_exchange_takes_a_round_trip_and_a_connection_one_more() {
        let proxy = proxied(ROUND_TRIP, echo);
        let (mut firsts, mut laters, begun) = (Vec::new(), Vec::new(), uptime());
        while once_more(&firsts, ROUND_TRIP * 2 + LATE, begun) || once_more(&laters, ROUND_TRIP + LATE, begun)
        {
            let begin = uptime();
            let mut stream = TcpStream::connect(proxy.address()).unwrap();
            exchange(&mut stream);
            firsts.push(uptime() - begin);
            laters.push(time(|| exchange(&mut stream)));
        }
        assert!(firsts.iter().all(|first| *first >= ROUND_TRIP * 2), "{firsts:?}");
        assert!(laters.iter().all(|later| *later >= ROUND_TRIP), "{laters:?}");
        assert!(firsts.iter().min().unwrap() < &(ROUND_TRIP * 2 + LATE), "{firsts:?}");
        assert!(laters.iter().min().unwrap() < &(ROUND_TRIP + LATE), "{laters:?}");
        let connections = firsts.len() as u64;
        let bytes = 2 * connections;
        assert_eq!(proxy.passed(), ProxyTraffic { connections, down_bytes: bytes, up_bytes: bytes });
    }

    #[test]
    fn a_connection_that_waited_is_made_already() {
        let proxy = proxied(ROUND_TRIP, echo);
        let (mut waited, begun) = (Vec::new(), uptime());
        while once_more(&waited, ROUND_TRIP + LATE, begun) {
            let mut stream = TcpStream::connect(proxy.address()).unwrap();
            std::thread::sleep(ROUND_TRIP);
            waited.push(time(|| exchange(&mut stream)));
        }
        assert!(waited.iter().min().unwrap() < &(ROUND_TRIP + LATE), "{waited:?}");
    }

    const MANY_BYTES: usize = 32 << 20;

    fn pour(mut stream: TcpStream) {
        stream.write_all(&vec![1; MANY_BYTES]).unwrap();
    }

    /// A window of 256 KiB, a usual socket buffer, would be passed on once a round trip, and would take 51 s at this distance.
    #[test]
    fn distance_does_not_cap_throughput() {
        let proxy = proxied(Duration::from_millis(400), pour);
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        let mut bytes = Vec::with_capacity(MANY_BYTES);
        let took = time(|| assert_eq!(stream.read_to_end(&mut bytes).unwrap(), MANY_BYTES));
        assert!(took < Duration::from_secs(25), "{MANY_BYTES} B took {took:?}");
        assert_eq!(proxy.passed().down_bytes, MANY_BYTES as u64);
    }

    #[test]
    fn ends_are_passed_on_and_nothing_outlives_the_proxy() {
        let proxy = proxied(Duration::from_millis(10), echo);
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        exchange(&mut stream);
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        let mut left_open = TcpStream::connect(proxy.address()).unwrap();
        exchange(&mut left_open);
        drop(proxy);
        assert_eq!(left_open.read(&mut [0]).unwrap_or(0), 0);
    }

    #[test]
    fn a_server_that_is_gone_ends_the_connection() {
        let target = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let proxy = Proxy::start(target, Duration::ZERO).unwrap();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    }
}
