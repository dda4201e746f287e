//! A headless Chromium of our own, driven over its DevTools protocol through a web socket.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use crate::server::{Launch, Program, Server, SocketDir};
use crate::store::{Error, Result};

/// The browser: Chromium without its windows. With them, a fresh context is a window with a tool bar, which takes seconds of
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

/// It starts within a second on an idle machine.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// What makes it quiet, reproducible, and content with the rights it has: it shows nothing but our own pages, so that the
/// sandbox, which needs rights of its own, is left out.
const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
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
    "--remote-debugging-port=0",
];

/// A running browser; dropping it ends it at once.
#[derive(Debug)]
pub struct Browser {
    server: Server,
    port: u16,
    path: String,
    /// For what it keeps in directories for temporary files, and as its home.
    _home: SocketDir,
}

impl Browser {
    /// Starts it with its profile and its log below `dir`, which exists.
    pub fn start(program: &Path, dir: &Path, flags: &[String]) -> Result<Browser> {
        let home = SocketDir::make()?;
        let profile = dir.join("profile");
        std::fs::create_dir_all(&profile)?;
        let launch = Launch::new(program, dir)
            .args(FLAGS)
            .args(flags)
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .env("HOME", home.path())
            .env("TMPDIR", home.path())
            .env("XDG_CONFIG_HOME", home.path())
            .env("XDG_CACHE_HOME", home.path());
        let mut server = Server::start(&launch)?;
        let mut address = (0, String::new());
        server.wait_until_ready(START_PATIENCE, || {
            // The port, and below it the path.
            let text = std::fs::read_to_string(profile.join("DevToolsActivePort"))?;
            let (port, path) = text.split_once('\n').context("it has not said where it listens")?;
            address = (port.parse()?, path.trim().to_owned());
            Ok(())
        })?;
        let (port, path) = address;
        Ok(Browser { server, port, path, _home: home })
    }

    /// Its process.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// A connection of its own; no answer may take longer than `timeout`.
    pub fn connect(&self, timeout: Duration) -> Result<DevTools> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        let url = format!("ws://127.0.0.1:{}{}", self.port, self.path);
        let (socket, _) = tungstenite::client(url, stream)
            .map_err(|error| anyhow!("the browser refuses a web socket: {error}"))?;
        Ok(DevTools { socket, calls: 0, session: None, events: VecDeque::new() })
    }
}

/// A connection to a browser.
#[derive(Debug)]
pub struct DevTools {
    socket: WebSocket<TcpStream>,
    calls: u64,
    /// The page that calls are for; the browser itself while there is none.
    session: Option<String>,
    /// What the page said that nobody has asked for yet.
    events: VecDeque<Value>,
}

impl DevTools {
    /// Opens an empty page in a context of its own, without cache, cookies or connections, and makes it the one that calls are
    /// for. The context ends with this connection, or by [`DevTools::close_context`].
    pub fn open_context(&mut self, width: u32, height: u32) -> Result<String> {
        self.session = None;
        self.events.clear();
        let context =
            self.text("Target.createBrowserContext", json!({"disposeOnDetach": true}), "browserContextId")?;
        let page =
            json!({"url": "about:blank", "browserContextId": context, "width": width, "height": height});
        let target = self.text("Target.createTarget", page, "targetId")?;
        let attach = json!({"targetId": target, "flatten": true});
        self.session = Some(self.text("Target.attachToTarget", attach, "sessionId")?);
        Ok(context)
    }

    /// Forgets a context and everything in it.
    pub fn close_context(&mut self, context: &str) -> Result<()> {
        self.session = None;
        self.call("Target.disposeBrowserContext", json!({"browserContextId": context}))?;
        self.events.clear();
        Ok(())
    }

    /// One call. What the page says before the answer is kept for [`DevTools::event`].
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.calls += 1;
        let mut call = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = &self.session {
            call["sessionId"] = json!(session);
        }
        self.socket.send(Message::text(call.to_string())).map_err(from_socket)?;
        loop {
            let mut message = self.read()?;
            if message["id"] != self.calls {
                self.keep(message);
                continue;
            }
            if !message["error"].is_null() {
                return Err(anyhow!("the browser refuses {method}: {}", message["error"]["message"]).into());
            }
            return Ok(message["result"].take());
        }
    }

    /// The next thing of this name that the page says, or has said already; others before it are dropped.
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

    /// Everything else that the page has said so far.
    pub fn events(&mut self) -> Vec<Value> {
        self.events.drain(..).collect()
    }

    /// The value of an expression, or of the promise that it is, once that is kept.
    pub fn value(&mut self, expression: &str) -> Result<Value> {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", params)?;
        match &answer["exceptionDetails"] {
            Value::Null => Ok(answer["result"]["value"].take()),
            exception => Err(anyhow!("`{expression}` failed in the page: {exception}").into()),
        }
    }

    fn text(&mut self, method: &str, params: Value, field: &str) -> Result<String> {
        let answer = self.call(method, params)?;
        let text = answer[field].as_str().ok_or_else(|| anyhow!("the answer to {method} has no {field}"))?;
        Ok(text.to_owned())
    }

    fn read(&mut self) -> Result<Value> {
        loop {
            if let Message::Text(text) = self.socket.read().map_err(from_socket)? {
                return serde_json::from_str(&text).map_err(Error::failed);
            }
        }
    }

    fn keep(&mut self, message: Value) {
        if message["method"].is_string() && message["sessionId"].as_str() == self.session.as_deref() {
            self.events.push_back(message);
        }
    }
}

/// Keeps what took too long apart from failures.
fn from_socket(error: tungstenite::Error) -> Error {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    match error {
        tungstenite::Error::Io(error) if matches!(error.kind(), WouldBlock | TimedOut) => Error::TimedOut,
        error => anyhow!("the connection to the browser broke: {error}").into(),
    }
}
