//! SIGINT and SIGTERM end the run in an orderly way. A second one ends the program at once, and the next run cleans up.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::Result;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level;

use crate::host::machine;

/// Signals within this many milliseconds of the first one count as the same request: programs that start others (`timeout`, task
/// runners) forward a Ctrl-C that the terminal has already sent to the whole process group.
const ONE_WISH_MS: u64 = 1000;

/// Signals received so far.
#[derive(Clone)]
pub struct Signals {
    stop: Arc<AtomicBool>,
    received: Arc<AtomicI32>,
}

impl Signals {
    /// Starts listening, or returns what has been heard since the first call.
    pub fn listen() -> Result<Signals> {
        static HEARD: OnceLock<Signals> = OnceLock::new();
        if let Some(heard) = HEARD.get() {
            return Ok(heard.clone());
        }
        let signals = Signals { stop: Arc::default(), received: Arc::default() };
        let first_ms = Arc::new(AtomicU64::new(0));
        // The first call initializes the clock, which a signal handler must not do.
        machine::uptime();
        for signal in [SIGINT, SIGTERM] {
            signals.register(signal, Arc::clone(&first_ms))?;
        }
        Ok(HEARD.get_or_init(|| signals).clone())
    }

    /// Listens to one signal. `first_ms` holds the time of the first of all signals in milliseconds of [`machine::uptime`], or 0.
    #[expect(unsafe_code, reason = "signal handlers are unsafe to get wrong")]
    fn register(&self, signal: i32, first_ms: Arc<AtomicU64>) -> io::Result<()> {
        let (stop, received) = (Arc::clone(&self.stop), Arc::clone(&self.received));
        let act = move || {
            let now = (machine::uptime().as_millis() as u64).max(1);
            match first_ms.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
                Err(first) if now >= first + ONE_WISH_MS => low_level::exit(128 + signal),
                Err(_) => {}
                Ok(_) => {
                    received.store(signal, Ordering::Relaxed);
                    stop.store(true, Ordering::Relaxed);
                }
            }
        };
        // SAFETY: the clock is read, and atomics or the end of the process: no lock is taken and nothing is allocated or freed.
        unsafe { low_level::register(signal, act).map(drop) }
    }

    /// Flag that is set by the first signal.
    pub fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// Shared handle to that flag.
    pub fn shared_stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// The first signal received.
    pub fn received(&self) -> Option<i32> {
        Some(self.received.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
    }
}
