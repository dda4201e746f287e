//! Pages in a real browser: the same page in several forms, served by nginx from a chosen distance and loaded by Chromium.
//!
//! A blob is the content of one page: a put publishes its page; a get loads it in a fresh browser context, which has no cache and
//! no connection, and lends the bytes that the page shows. The get ends when the browser has handed over the frame that has
//! everything: all icons decoded, or the content. Both protocols run over TLS 1.3, so that nothing but the protocol differs.

mod icons;
mod server;
mod site;

use std::time::Duration;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use self::icons::Icons;
use self::server::Nginx;
use self::site::{PageDirectory, PageForm};
use crate::host::browser::{self, Browser, CHROMIUM, DevTools};
use crate::host::proxy::{Proxy, ProxyTraffic};
use crate::host::server::{Program, Server};
use crate::store::*;
use crate::stores::common::certificate::{Certificate, OPENSSL};
use crate::stores::delivery::web::NGINX;
use crate::units;

/// A timeout of the browser is a timeout of the store.
impl From<browser::BrowserError> for Error {
    fn from(error: browser::BrowserError) -> Error {
        match error {
            browser::BrowserError::TimedOut => Error::TimedOut,
            browser::BrowserError::Failed(why) => Error::Failed(why),
        }
    }
}

/// A form of the page, with its name and description.
#[derive(Debug)]
struct Variant {
    form: PageForm,
    name: &'static str,
    about: &'static str,
}

const VARIANTS: &[Variant] = &[
    Variant {
        form: PageForm::Separate,
        name: "page/separate",
        about: "a page in Chromium: 64 icons as 64 requests",
    },
    Variant {
        form: PageForm::Sprite,
        name: "page/sprite",
        about: "a page in Chromium: 64 icons as one picture, cut by a style sheet",
    },
    Variant {
        form: PageForm::Inlined,
        name: "page/inlined",
        about: "a page in Chromium: 64 icons inside the page",
    },
    Variant {
        form: PageForm::AfterLoad,
        name: "page/after-load",
        about: "a page in Chromium: content that is fetched when the page has loaded",
    },
    Variant {
        form: PageForm::Preload,
        name: "page/preload",
        about: "a page in Chromium: content that is fetched when the page has loaded, announced in its head",
    },
    Variant {
        form: PageForm::Pipelined,
        name: "page/pipelined",
        about: "a page in Chromium: content inside the page",
    },
];

pub(super) const SEPARATE: Adapter = adapter(&VARIANTS[0], |setup| open(setup, &VARIANTS[0]), ICONS);
pub(super) const SPRITE: Adapter = adapter(&VARIANTS[1], |setup| open(setup, &VARIANTS[1]), ICONS);
pub(super) const INLINED: Adapter = adapter(&VARIANTS[2], |setup| open(setup, &VARIANTS[2]), ICONS);
pub(super) const AFTER_LOAD: Adapter = adapter(&VARIANTS[3], |setup| open(setup, &VARIANTS[3]), CONTENT);
pub(super) const PRELOAD: Adapter = adapter(&VARIANTS[4], |setup| open(setup, &VARIANTS[4]), CONTENT);
pub(super) const PIPELINED: Adapter = adapter(&VARIANTS[5], |setup| open(setup, &VARIANTS[5]), CONTENT);

const PROGRAMS: &[Program] = &[CHROMIUM, NGINX, OPENSSL];

const HTTP: OptionSpec = OptionSpec::choice("http", &["1.1", "2"])
    .default("2")
    .about("the protocol, over TLS 1.3; a load over another one is an error");
const RTT: OptionSpec = OptionSpec {
    name: "rtt",
    values: Values::Decimal { max: 1000 },
    default: "50",
    about: "milliseconds of a round trip, such as 20 or 0.5, by a proxy that delays and does nothing else: no loss, no slow start",
};

/// Number of icons in the variants' descriptions: that of the published comparison.
const ICONS_SAID: &str = "64";
const ICON_COUNT: OptionSpec = OptionSpec::integer("icons", 1, 512, ICONS_SAID).about("icons of the page");
const ICON_BYTES: OptionSpec = OptionSpec::bytes("icon_bytes", 0, 1 << 20, "0")
    .about("bytes of each icon's file, and as many more in the sprite; 0: as drawn, about 700");
const SHOWS: &str = "shows";

/// The option for what a page shows: pages with different contents are not ranked together.
const fn shows(what: &'static [&'static str]) -> OptionSpec {
    OptionSpec::choice(SHOWS, what).about("what is waited for")
}

const ICONS: &[OptionSpec] = &[HTTP, RTT, ICON_COUNT, ICON_BYTES, shows(&["icons"])];
const CONTENT: &[OptionSpec] = &[HTTP, RTT, shows(&["content"])];

const fn adapter(
    variant: &'static Variant,
    open: fn(&Setup) -> Result<Box<dyn Store>>,
    options: &'static [OptionSpec],
) -> Adapter {
    Adapter {
        name: variant.name,
        about: variant.about,
        kind: Kind::Page,
        programs: PROGRAMS,
        options,
        caps: |_| Capabilities {
            durability: &[Durability::None],
            persistent: false,
            range: false,
            streams: false,
            list: false,
            blob_bytes_max: Some(LIMIT),
            backup: Backup::None("a page can be published again"),
            ..Capabilities::ONE_BY_ONE
        },
        loss: |_, _| Losses::alike(Loss::All),
        integrity: |_, _| Integrity::NothingKept,
        traits,
        memory: |_| CacheRecommendation::NO_CACHE,
        needs: Needs { of_machine: |options| icons_of(options).check().err(), ..Needs::NOTHING },
        open,
    }
}

/// The first step that the browser times; the second one is named after what the page shows.
const FIRST_PAINT: &str = "first paint";

fn traits(options: &Options) -> Traits {
    let shows = options.text(SHOWS);
    Traits {
        has_process: true,
        distance_ms: Some(options.decimal(RTT.name)),
        steps: vec![FIRST_PAINT.to_owned(), shows.to_owned()],
        shows: Some(shown(options)),
        ..Traits::default()
    }
}

/// What the page shows, with any deviation from the published comparison: pages with other icons are different pages.
fn shown(options: &Options) -> String {
    let shows = options.text(SHOWS);
    let (count, bytes) = (options.text(ICON_COUNT.name), options.number(ICON_BYTES.name));
    let many =
        if ["", ICON_COUNT.default].contains(&count) { shows.to_owned() } else { format!("{count} {shows}") };
    if bytes > 0 { format!("{many} of {}", units::bytes(bytes as f64)) } else { many }
}

fn icons_of(options: &Options) -> Icons {
    let (count, bytes) = (options.number(ICON_COUNT.name), options.number(ICON_BYTES.name));
    Icons { count: count.max(1) as usize, bytes: (bytes > 0).then_some(bytes as usize) }
}

const LIMIT: Limit = Limit { bytes: 1 << 20, source: "nobody reads a page with more" };

/// Size of the window in pixels: shows up to eight lines of icons and the content.
const WINDOW: (u32, u32) = (480, 460);
/// Distance between two lines of icons in pixels.
const LINE: u32 = 24;
/// Function that pages call to report their measurements.
const BINDING: &str = "blobwise";

struct Pages {
    variant: &'static Variant,
    icons: Icons,
    site: PageDirectory,
    nginx: Nginx,
    browser: Browser,
    round_trip: Duration,
    /// The browser's name for the selected protocol.
    protocol: &'static str,
    timeout: Duration,
    facts: Facts,
}

fn open(setup: &Setup, variant: &'static Variant) -> Result<Box<dyn Store>> {
    let chromium = CHROMIUM.find()?;
    let http2 = setup.options.text("http") == "2";
    let page_icons = icons_of(setup.options);
    let site = PageDirectory::make(setup.dir.join("site"), variant, page_icons)?;
    let certificate = Certificate::make(setup.dir, setup.common)?;
    let nginx = Nginx::start(setup, site.served(), &certificate, http2)?;
    let directory = setup.dir.join("browser");
    std::fs::create_dir_all(&directory)?;
    // Accepts our certificate, and no other untrusted one.
    let accept = format!("--ignore-certificate-errors-spki-list={}", certificate.public_key_hash()?);
    let browser = Browser::start(&chromium.path, &directory, &[accept], &[])?;
    let [icons, sprite, styles] = site.sizes;
    let mut facts = Facts::from([
        ("browser".to_owned(), chromium.version),
        ("browser kept in".to_owned(), browser.kept_in()),
        ("server".to_owned(), nginx.version.clone()),
        ("encryption".to_owned(), "TLS 1.3, a certificate of this run's".to_owned()),
    ]);
    if variant.form.has_icons() {
        facts.insert(format!("bytes of {} icons", page_icons.count), icons.to_string());
        facts.insert("bytes of the sprite".to_owned(), sprite.to_string());
        facts.insert("bytes of its style sheet".to_owned(), styles.to_string());
    }
    Ok(Box::new(Pages {
        variant,
        icons: page_icons,
        site,
        nginx,
        browser,
        round_trip: Duration::from_secs_f64(setup.options.decimal("rtt") / 1e3),
        protocol: if http2 { "h2" } else { "http/1.1" },
        timeout: setup.op_timeout,
        facts,
    }))
}

impl Pages {
    /// The size of a window that shows the whole page, in pixels.
    fn window(&self) -> (u32, u32) {
        let more = self.icons.lines().saturating_sub(8) as u32;
        (WINDOW.0, WINDOW.1 + more * LINE)
    }

    fn visitor(&self) -> Result<PageSession<'_>> {
        Ok(PageSession {
            pages: self,
            proxy: Proxy::start(self.nginx.address, self.round_trip)?,
            tools: self.browser.connect(self.timeout)?,
            fresh: None,
            used: None,
            last: None,
        })
    }
}

impl Store for Pages {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self.visitor()?))
    }

    fn facts(&self) -> Result<Facts> {
        Ok(self.facts.clone())
    }

    fn is_staged(&self) -> bool {
        true
    }

    fn picture(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        let mut visitor = self.visitor()?;
        visitor.prepare()?;
        let (width, height) = self.window();
        let large = json!({"width": width, "height": height, "deviceScaleFactor": 2, "mobile": false});
        visitor.tools.call("Emulation.setDeviceMetricsOverride", large)?;
        if !visitor.get(key, Span::Whole, &mut |_| {})? {
            return Ok(None);
        }
        let mut answer = visitor.tools.call("Page.captureScreenshot", json!({"format": "png"}))?;
        let picture = BASE64.decode(answer["data"].take().as_str().unwrap_or_default());
        Ok(Some(picture.map_err(Error::failed)?))
    }

    /// Only the web server. The browser is left out, because reading its memory stops it for milliseconds; its CPU time is part
    /// of the whole system's.
    fn servers(&self) -> Vec<&Server> {
        vec![&self.nginx.server]
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Pages { browser, nginx, .. } = *self;
        // Killed: nothing in its profile is worth saving.
        drop(browser);
        nginx.stop()
    }
}

/// A worker's browser tab, and its proxy to the server.
struct PageSession<'s> {
    pages: &'s Pages,
    proxy: Proxy,
    tools: DevTools,
    /// A context with an empty page.
    fresh: Option<String>,
    /// The context of the last load.
    used: Option<String>,
    last: Option<PageLoad>,
}

/// Measurements of a finished load.
struct PageLoad {
    /// From the start of the navigation until everything was shown, by the page's own clock.
    shown_ns: u64,
    /// The proxy's counters before it.
    before: ProxyTraffic,
}

impl PageSession<'_> {
    /// Loads a page; returns the bytes that it shows, or `None` if there is no such page.
    fn load(&mut self, key: &Key) -> Result<Option<Vec<u8>>> {
        self.prepare()?;
        let before = self.proxy.passed();
        self.used = self.fresh.take();
        let url = format!("https://{}{}", self.proxy.address(), self.pages.site.path_of(key.as_str()));
        let answer = self.tools.call("Page.navigate", json!({"url": url}))?;
        if let Some(error) = answer["errorText"].as_str() {
            bail!("the browser cannot load the page: {error}");
        }
        let mut told = self.tools.event("Runtime.bindingCalled")?;
        let told: Value = serde_json::from_str(told["payload"].take().as_str().unwrap_or_default())
            .map_err(Error::failed)?;
        match told["refused"].as_u64() {
            Some(404) => return Ok(None),
            Some(status) => bail!("HTTP status {status} for the page"),
            None => {}
        }
        let shown_ms = self.check(&told)?;
        self.last = Some(PageLoad { shown_ns: (shown_ms * 1e6) as u64, before });
        let content = told["content"].as_str().context("the page did not say what it shows")?;
        Ok(Some(BASE64.decode(content).map_err(Error::failed)?))
    }

    /// Checks protocol and icons of a load; returns when everything was shown, in milliseconds.
    fn check(&self, told: &Value) -> anyhow::Result<f64> {
        if let Some(why) = told["failed"].as_str() {
            bail!("the page is not complete: {why}");
        }
        let protocol = told["protocol"].as_str().unwrap_or_default();
        ensure!(
            protocol == self.pages.protocol,
            "the page came over `{protocol}` instead of `{}`",
            self.pages.protocol
        );
        let decoded = told["decoded"].as_u64();
        let count = self.pages.icons.count;
        if self.pages.variant.form.has_icons() && decoded != Some(count as u64) {
            bail!("{} of {count} icons were decoded", decoded.unwrap_or(0));
        }
        told["shown"].as_f64().context("the page did not say when it was shown")
    }
}

impl Session for PageSession<'_> {
    fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()> {
        LIMIT.check(blob)?;
        Ok(self.pages.site.publish(key.as_str(), blob)?)
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        span.check_whole()?;
        let Some(content) = self.load(key)? else { return Ok(false) };
        sink(&content);
        Ok(true)
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        Ok(self.pages.site.withdraw(key.as_str())?)
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    /// Closes the last load's context and opens a new one.
    fn prepare(&mut self) -> Result<()> {
        if self.fresh.is_some() {
            return Ok(());
        }
        if let Some(used) = self.used.take() {
            self.tools.close_context(&used)?;
        }
        let (width, height) = self.pages.window();
        let context = self.tools.open_context(width, height)?;
        self.tools.call("Page.enable", json!({}))?;
        self.tools.call("Runtime.enable", json!({}))?;
        self.tools.call("Runtime.addBinding", json!({"name": BINDING}))?;
        self.fresh = Some(context);
        Ok(())
    }

    fn report_op(&mut self, each: &mut dyn FnMut(OpReport)) -> Result<()> {
        let Some(load) = self.last.take() else { return Ok(()) };
        let after = self.tools.value(WHEN_LOADED)?;
        let passed = self.proxy.passed();
        let paint_ms = after["paint"].as_f64().context("the page did not say when it was painted first")?;
        each(OpReport::Time(FIRST_PAINT, (paint_ms * 1e6) as u64));
        let waited = if self.pages.variant.form.has_icons() { "icons" } else { "content" };
        each(OpReport::Time(waited, load.shown_ns));
        let requests = after["requests"].as_u64().context("the page did not count its requests")?;
        each(OpReport::Count("requests", requests));
        each(OpReport::Count("connections", passed.connections - load.before.connections));
        each(OpReport::Count("bytes", passed.down_bytes - load.before.down_bytes));
        Ok(())
    }
}

/// Waits until the page has loaded, and returns what the browser counted.
const WHEN_LOADED: &str = "(async () => {
    if (document.readyState !== 'complete') await new Promise((done) => addEventListener('load', done));
    // What was painted is told a moment after it was.
    const paint = await new Promise((done) => {
        new PerformanceObserver((list) => list.getEntriesByName('first-contentful-paint').forEach(done))
            .observe({ type: 'paint', buffered: true });
    });
    return {
        requests: 1 + performance.getEntriesByType('resource').filter((one) => !one.name.startsWith('data:')).length,
        paint: paint.startTime,
    };
})()";
