//! A private headless Chromium, driven over its DevTools protocol through a socket pair that only it and blobwise hold, because
//! anyone who can connect to a browser can read every file that the browser can.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde_json::{Value, json};

use crate::host::server::{AllowedPaths, Launch, Program, Server, SocketDir, cannot_confine};

/// Result of a browser call.
pub type Result<T> = std::result::Result<T, BrowserError>;

/// Why a browser call failed.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    /// No message arrived within the connection's timeout.
    #[error("the browser did not answer in time")]
    TimedOut,
    /// Any other failure, with its cause.
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

impl From<std::io::Error> for BrowserError {
    fn from(error: std::io::Error) -> BrowserError {
        BrowserError::Failed(error.into())
    }
}

/// The browser: Chromium's headless shell. In the full browser a new context is a window with a tool bar, which takes seconds of
/// processor time.
pub const CHROMIUM: Program = Program {
    name: "chromium-headless-shell",
    places: &[],
    variable: Some("BLOBWISE_CHROMIUM"),
    ask: &["--version"],
    says: "Chromium",
    never_says: None,
    install: "apt-get install chromium-headless-shell",
};

/// Longest socket name that Chromium creates below its directory for temporary files.
const SINGLETON: &str = ".org.chromium.Chromium.XXXXXX/SingletonSocket";

/// Upper bound on the start; on an idle machine the browser starts within a second.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// Flags that keep the browser quiet and reproducible.
const FLAGS: &[&str] = &[
    "--headless",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--metrics-recording-only",
    "--password-store=basic",
    "--use-mock-keychain",
    "--hide-scrollbars",
    "--mute-audio",
    "--remote-debugging-pipe",
];
/// Turns the sandbox off. The sandbox needs user namespaces of its own, which not every machine and container allows.
const WITHOUT_SANDBOX: &str = "--no-sandbox";

/// System files that the browser reads besides its program and libraries.
const SYSTEM: &[&str] = &["/etc/fonts", "/etc/ssl", "/sys", "/var/cache/fontconfig"];
/// Directories that the browser also writes to: devices that everybody may write to, and its own processes' entries in `/proc`.
/// The entries of other processes are closed to it, because it is confined and they are not.
const DEVICES: &[&str] = &["/dev", "/proc"];

/// A running browser; killed when dropped.
#[derive(Debug)]
pub struct Browser {
    server: Server,
    line: Arc<BrowserSocket>,
    /// True if it runs in its own sandbox.
    sandboxed: bool,
    /// True if the kernel (Landlock) confines it to its own files.
    confined: bool,
    /// Its home and its directory for temporary files.
    _home: SocketDir,
}

impl Browser {
    /// Starts the browser with its profile and its log below `dir`, which must exist. Where the kernel supports it, the browser
    /// may read `dir` and `shown` and no other file of this user's.
    pub fn start(program: &Path, dir: &Path, flags: &[String], shown: &[&Path]) -> Result<Browser> {
        let sandboxed = Browser::start_as(program, dir, flags, shown, true);
        sandboxed.or_else(|_refused| Browser::start_as(program, dir, flags, shown, false))
    }

    fn start_as(
        program: &Path,
        dir: &Path,
        flags: &[String],
        shown: &[&Path],
        sandboxed: bool,
    ) -> Result<Browser> {
        let home = SocketDir::make(SINGLETON)?;
        let profile = dir.join("profile");
        std::fs::create_dir_all(&profile)?;
        let (ours, its) = UnixStream::pair()?;
        let mut launch = Launch::new(program, dir)
            .args(FLAGS)
            .args(if sandboxed { None } else { Some(WITHOUT_SANDBOX) })
            .args(flags)
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .env("HOME", home.path())
            .env("TMPDIR", home.path())
            .env("XDG_CONFIG_HOME", home.path())
            .env("XDG_CACHE_HOME", home.path())
            .talks_through(its.as_fd());
        let confined = cannot_confine().is_none();
        if confined {
            let own: Vec<&Path> =
                [dir, home.path()].into_iter().chain(DEVICES.iter().map(Path::new)).collect();
            let system: Vec<&Path> =
                SYSTEM.iter().map(Path::new).chain(shown.iter().copied()).chain(program.parent()).collect();
            launch = launch.confined_to(AllowedPaths::of_the_system().and_reads(&system).and_writes(&own));
        }
        let server = Server::start(&launch)?;
        drop(its);
        let browser =
            Browser { line: Arc::new(BrowserSocket::new(ours)), server, sandboxed, confined, _home: home };
        let answered = browser.connect(START_PATIENCE)?.call("Browser.getVersion", json!({}));
        answered.map_err(|error| anyhow!("{error:#}{}", browser.server.log_end()))?;
        Ok(browser)
    }

    /// Returns the browser's process.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Describes how its pages are isolated from the machine, as a fact of a candidate.
    pub fn kept_in(&self) -> String {
        let sandbox = if self.sandboxed { "its sandbox" } else { "no sandbox: it is refused here" };
        let files = if self.confined { "its own files only" } else { "files: not kept apart by this kernel" };
        format!("{sandbox}; {files}")
    }

    /// Opens a connection; an answer that takes longer than `timeout` is [`Error::TimedOut`].
    pub fn connect(&self, timeout: Duration) -> Result<DevTools> {
        let number = self.line.inbox().open();
        Ok(DevTools {
            line: Arc::clone(&self.line),
            number,
            timeout,
            session: None,
            contexts: Vec::new(),
            events: VecDeque::new(),
        })
    }
}

// ---- the one line, shared by connections ---------------------------------------------------------------------------

/// The socket to the browser, shared by all connections. Each message ends with a zero byte.
#[derive(Debug)]
struct BrowserSocket {
    socket: UnixStream,
    inbox: Mutex<Inbox>,
    changed: Condvar,
    sending: Mutex<()>,
}

/// Messages that have arrived. The first connection to wait reads for all of them, so that a single connection needs no other
/// thread.
#[derive(Debug, Default)]
struct Inbox {
    reading: bool,
    /// The beginning of a message whose end has not arrived.
    begun: Vec<u8>,
    calls: u64,
    connections: u64,
    /// Messages that no one has taken yet, by connection.
    waiting: BTreeMap<u64, VecDeque<Value>>,
    /// The connection that made each call, by the call's number.
    callers: BTreeMap<u64, u64>,
    /// The connection that owns each page session.
    sessions: BTreeMap<String, u64>,
}

impl Inbox {
    fn open(&mut self) -> u64 {
        self.connections += 1;
        self.waiting.insert(self.connections, VecDeque::new());
        self.connections
    }

    fn close(&mut self, connection: u64) {
        self.waiting.remove(&connection);
        self.callers.retain(|_, caller| *caller != connection);
        self.sessions.retain(|_, owner| *owner != connection);
    }

    /// Queues a message for its connection; drops it if it belongs to none.
    fn keep(&mut self, message: Value) {
        let to = match (message["id"].as_u64(), message["sessionId"].as_str()) {
            (Some(call), _) => self.callers.remove(&call),
            (None, Some(session)) => self.sessions.get(session).copied(),
            (None, None) => None,
        };
        if let Some(queue) = to.and_then(|to| self.waiting.get_mut(&to)) {
            queue.push_back(message);
        }
    }

    /// Appends bytes and queues the messages that are complete.
    fn take_in(&mut self, bytes: &[u8]) -> Result<()> {
        self.begun.extend_from_slice(bytes);
        while let Some(end) = self.begun.iter().position(|byte| *byte == 0) {
            let text = str::from_utf8(&self.begun[..end]).context("the browser sent what is no text")?;
            let message = serde_json::from_str(text).context("the browser sent what is no JSON")?;
            self.begun.drain(..=end);
            self.keep(message);
        }
        Ok(())
    }
}

impl BrowserSocket {
    fn new(socket: UnixStream) -> BrowserSocket {
        BrowserSocket { socket, inbox: Mutex::default(), changed: Condvar::new(), sending: Mutex::new(()) }
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a call and returns its number.
    fn send(&self, connection: u64, mut call: Value) -> Result<u64> {
        let number = {
            let mut inbox = self.inbox();
            inbox.calls += 1;
            let number = inbox.calls;
            inbox.callers.insert(number, connection);
            number
        };
        call["id"] = json!(number);
        let mut text = call.to_string().into_bytes();
        text.push(0);
        let _one_at_a_time = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        (&self.socket).write_all(&text).map_err(broken)?;
        Ok(number)
    }

    /// Returns the next message for a connection, reading from the socket if no other connection is.
    fn next(&self, connection: u64, timeout: Duration) -> Result<Value> {
        let mut inbox = self.inbox();
        loop {
            let queue = inbox.waiting.get_mut(&connection).context("the connection is closed")?;
            if let Some(message) = queue.pop_front() {
                return Ok(message);
            }
            if inbox.reading {
                let waited = self.changed.wait_timeout(inbox, timeout);
                let (guard, waited) = waited.unwrap_or_else(PoisonError::into_inner);
                inbox = guard;
                // The reader may have received our message last, or given up.
                if waited.timed_out() && inbox.reading {
                    return Err(BrowserError::TimedOut);
                }
                continue;
            }
            inbox.reading = true;
            drop(inbox);
            let read = self.read(timeout);
            inbox = self.inbox();
            inbox.reading = false;
            let taken = read.and_then(|bytes| inbox.take_in(&bytes));
            self.changed.notify_all();
            taken?;
        }
    }

    fn read(&self, timeout: Duration) -> Result<Vec<u8>> {
        const PIECE_BYTES: usize = 64 << 10;
        self.socket.set_read_timeout(Some(timeout)).map_err(broken)?;
        let mut piece = vec![0; PIECE_BYTES];
        match (&self.socket).read(&mut piece).map_err(broken)? {
            0 => Err(anyhow!("the browser has ended").into()),
            read => {
                piece.truncate(read);
                Ok(piece)
            }
        }
    }
}

/// Tells timeouts from failures.
fn broken(error: std::io::Error) -> BrowserError {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => BrowserError::TimedOut,
        _ => anyhow!("the connection to the browser broke: {error}").into(),
    }
}

/// A connection to a browser. All connections share one socket.
#[derive(Debug)]
pub struct DevTools {
    line: Arc<BrowserSocket>,
    number: u64,
    timeout: Duration,
    /// The page session that calls go to; `None` for the browser itself.
    session: Option<String>,
    /// Contexts that this connection has opened.
    contexts: Vec<String>,
    /// Events of the page that have not been asked for yet.
    events: VecDeque<Value>,
}

impl Drop for DevTools {
    fn drop(&mut self) {
        self.session = None;
        for context in std::mem::take(&mut self.contexts) {
            // Does not wait for the answer: the browser may be gone, and the result is not needed.
            let call =
                json!({"method": "Target.disposeBrowserContext", "params": {"browserContextId": context}});
            self.line.send(self.number, call).ok();
        }
        self.line.inbox().close(self.number);
    }
}

impl DevTools {
    /// Opens an empty page in a new context, without cache, cookies or connections, and directs later calls to it. The context
    /// ends with this connection or by [`DevTools::close_context`].
    pub fn open_context(&mut self, width: u32, height: u32) -> Result<String> {
        self.session = None;
        self.events.clear();
        let context = self.answer_text("Target.createBrowserContext", json!({}), "browserContextId")?;
        self.contexts.push(context.clone());
        let page =
            json!({"url": "about:blank", "browserContextId": context, "width": width, "height": height});
        let target = self.answer_text("Target.createTarget", page, "targetId")?;
        let attach = json!({"targetId": target, "flatten": true});
        let session = self.answer_text("Target.attachToTarget", attach, "sessionId")?;
        self.line.inbox().sessions.insert(session.clone(), self.number);
        self.session = Some(session);
        Ok(context)
    }

    /// Disposes of a context and everything in it.
    pub fn close_context(&mut self, context: &str) -> Result<()> {
        if let Some(session) = self.session.take() {
            self.line.inbox().sessions.remove(&session);
        }
        self.contexts.retain(|open| open != context);
        self.call("Target.disposeBrowserContext", json!({"browserContextId": context}))?;
        self.events.clear();
        Ok(())
    }

    /// Makes one call and returns its result. Events that arrive before the answer are kept for [`DevTools::event`].
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        let mut call = json!({"method": method, "params": params});
        if let Some(session) = &self.session {
            call["sessionId"] = json!(session);
        }
        let number = self.line.send(self.number, call)?;
        loop {
            let mut message = self.read()?;
            if message["id"] != number {
                self.keep(message);
                continue;
            }
            if !message["error"].is_null() {
                return Err(anyhow!("the browser refuses {method}: {}", message["error"]["message"]).into());
            }
            return Ok(message["result"].take());
        }
    }

    /// Returns the next event with this name, waiting for it if need be; drops other events before it.
    pub fn event(&mut self, name: &str) -> Result<Value> {
        loop {
            let mut message = match self.events.pop_front() {
                Some(message) => message,
                None => self.read()?,
            };
            if message["method"] == name && message["sessionId"].as_str() == self.session.as_deref() {
                return Ok(message["params"].take());
            }
        }
    }

    /// Drains all other events that have arrived so far.
    pub fn events(&mut self) -> Vec<Value> {
        self.events.drain(..).collect()
    }

    /// Evaluates an expression in the page, awaiting it if it is a promise, and returns its value.
    pub fn value(&mut self, expression: &str) -> Result<Value> {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", params)?;
        match &answer["exceptionDetails"] {
            Value::Null => Ok(answer["result"]["value"].take()),
            exception => Err(anyhow!("`{expression}` failed in the page: {exception}").into()),
        }
    }

    fn answer_text(&mut self, method: &str, params: Value, field: &str) -> Result<String> {
        let answer = self.call(method, params)?;
        let text = answer[field].as_str().ok_or_else(|| anyhow!("the answer to {method} has no {field}"))?;
        Ok(text.to_owned())
    }

    fn read(&mut self) -> Result<Value> {
        self.line.next(self.number, self.timeout)
    }

    fn keep(&mut self, message: Value) {
        if message["method"].is_string() && message["sessionId"].as_str() == self.session.as_deref() {
            self.events.push_back(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_goes_to_whom_it_is_for() {
        let (ours, mut its) = UnixStream::pair().unwrap();
        let line = BrowserSocket::new(ours);
        let [one, two] = [(); 2].map(|()| line.inbox().open());
        line.inbox().sessions.insert("page".to_owned(), two);
        let calls = [one, two].map(|who| line.send(who, json!({"method": "x"})).unwrap());
        // In pieces, out of order, and with one message for no connection.
        its.write_all(format!("{{\"id\":{}}}\0{{\"method\":\"no", calls[1]).as_bytes()).unwrap();
        its.write_all(b"body\"}\0{\"method\":\"said\",\"sessionId\":\"page\"}\0").unwrap();
        its.write_all(format!("{{\"id\":{}}}\0", calls[0]).as_bytes()).unwrap();
        let minute = Duration::from_secs(60);
        assert_eq!(line.next(one, minute).unwrap()["id"], calls[0]);
        assert_eq!(line.next(two, minute).unwrap()["id"], calls[1]);
        assert_eq!(line.next(two, minute).unwrap()["method"], "said");
        assert!(matches!(line.next(one, Duration::from_millis(20)), Err(BrowserError::TimedOut)));
        drop(its);
        // Either an end of file, or a broken connection if not all that was sent had been read.
        assert!(line.next(two, minute).unwrap_err().to_string().contains("the browser"));
    }
}
