//! Reports of real runs in a real browser with the network off: nothing is loaded, nothing goes wrong, every plot is drawn,
//! every table is filled, and it can be read on a phone, on paper and with a pointer.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headless_chrome::browser::tab::point::Point;
use headless_chrome::protocol::cdp::types::Event;
use headless_chrome::protocol::cdp::{Emulation, Log, Network, Runtime};
use headless_chrome::types::PrintToPdfOptions;
use headless_chrome::{Browser, LaunchOptions, Tab};
use libtest_mimic::{Arguments, Failed, Trial};

/// Runs that are small, and together have everything that a report can show.
const RUNS: &[(&str, &[&str])] = &[
    ("run", &["--stores", "files/hashed,sqlite,memory", "--blobs", "40", "--rounds", "5", "--budget", "20s"]),
    (
        "sweep",
        &["--stores", "files/hashed,sqlite", "--sweep", "1kB..30kB", "--rounds", "3", "--budget", "20s"],
    ),
    (
        "open-loop",
        &[
            "--stores",
            "files/hashed,sqlite",
            "--blobs",
            "300",
            "--rounds",
            "3",
            "--rate",
            "500",
            "--budget",
            "20s",
        ],
    ),
];

/// Names under which the browser is installed.
const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

fn main() {
    let arguments = Arguments::from_args();
    let browser = browser();
    let required = std::env::var_os("BLOBWISE_REQUIRE_ALL").is_some_and(|value| value == "1");
    let trials = RUNS.iter().map(|(name, flags)| match browser.clone() {
        Some(browser) => Trial::test(*name, move || check(flags, browser)),
        None => Trial::test(*name, || Err(Failed::from(format!("none of {BROWSERS:?} is installed"))))
            .with_kind("no browser")
            .with_ignored_flag(!required),
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    BROWSERS
        .iter()
        .flat_map(|name| directories.iter().map(move |directory| directory.join(name)))
        .find(|candidate| candidate.is_file())
}

fn check(flags: &[&str], browser: PathBuf) -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let report = measure(flags, directory.path())?;
    let page = Page::open(browser, &directory.path().join("profile"), &report)?;
    page.every_plot_is_drawn()?;
    page.every_table_is_filled()?;
    page.hovering_shows_numbers()?;
    page.fits_into(400)?;
    page.fits_into(1200)?;
    page.prints()?;
    page.was_quiet()
}

/// Makes a run with the built program, as a user would.
fn measure(flags: &[&str], directory: &Path) -> Result<PathBuf, Failed> {
    let out = directory.join("out");
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_blobwise"))
        .args(["run", "--quiet", "--dir"])
        .arg(directory.join("place"))
        .arg("--out")
        .arg(&out)
        .args(flags)
        .output()?;
    if !run.status.success() {
        return Err(format!("the run failed: {}", String::from_utf8_lossy(&run.stderr)).into());
    }
    Ok(out.join("report.html"))
}

/// A report in a browser, and what the browser said of it.
struct Page {
    tab: Arc<Tab>,
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
    complaints: Arc<Mutex<Vec<String>>>,
    /// Kept: the browser ends with it.
    _browser: Browser,
}

impl Page {
    fn open(path: PathBuf, profile: &Path, report: &Path) -> Result<Page, Failed> {
        let args = [
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ];
        let options = LaunchOptions::default_builder()
            .path(Some(path))
            .user_data_dir(Some(profile.to_owned()))
            .sandbox(false)
            .window_size(Some((1200, 900)))
            .idle_browser_timeout(Duration::from_secs(120))
            .args(args.iter().map(OsStr::new).collect())
            .build()?;
        let browser = Browser::new(options)?;
        let tab = browser.new_tab()?;
        tab.set_default_timeout(Duration::from_secs(60));
        let page = Page {
            tab,
            url: format!("file://{}", report.display()),
            requests: Arc::default(),
            complaints: Arc::default(),
            _browser: browser,
        };
        page.listen()?;
        page.network_off()?;
        page.tab.navigate_to(&page.url)?;
        page.tab.wait_until_navigated()?;
        Ok(page)
    }

    /// Notes every request, and every error or warning.
    fn listen(&self) -> Result<(), Failed> {
        let (requests, complaints) = (Arc::clone(&self.requests), Arc::clone(&self.complaints));
        let listener = move |event: &Event| {
            let complaint = match event {
                Event::NetworkRequestWillBeSent(event) => {
                    locked(&requests).push(event.params.request.url.clone());
                    return;
                }
                Event::RuntimeExceptionThrown(event) => format!("{:?}", event.params.exception_details),
                Event::RuntimeConsoleAPICalled(event) => match event.params.Type {
                    Runtime::ConsoleAPICalledEventTypeOption::Error
                    | Runtime::ConsoleAPICalledEventTypeOption::Warning => format!("{:?}", event.params.args),
                    _ => return,
                },
                Event::LogEntryAdded(event) => match event.params.entry.level {
                    Log::LogEntryLevel::Error | Log::LogEntryLevel::Warning => {
                        event.params.entry.text.clone()
                    }
                    _ => return,
                },
                _ => return,
            };
            locked(&complaints).push(complaint);
        };
        self.tab.add_event_listener(Arc::new(listener))?;
        self.tab.enable_log()?;
        self.tab.enable_runtime()?;
        Ok(())
    }

    fn network_off(&self) -> Result<(), Failed> {
        self.tab.call_method(Network::Enable {
            max_total_buffer_size: None,
            max_resource_buffer_size: None,
            max_post_data_size: None,
            report_direct_socket_traffic: None,
            enable_durable_messages: None,
        })?;
        self.tab.call_method(Network::EmulateNetworkConditions {
            offline: true,
            latency: 0.0,
            download_throughput: 0.0,
            upload_throughput: 0.0,
            connection_Type: None,
            packet_loss: None,
            packet_queue_length: None,
            packet_reordering: None,
        })?;
        Ok(())
    }

    /// The value of an expression, as JSON.
    fn value(&self, expression: &str) -> Result<serde_json::Value, Failed> {
        let object = self.tab.evaluate(&format!("JSON.stringify({expression})"), true)?;
        let text = object.value.as_ref().and_then(|value| value.as_str()).unwrap_or("null");
        Ok(serde_json::from_str(text)?)
    }

    /// Waits until an expression is true.
    fn wait_for(&self, expression: &str) -> Result<(), Failed> {
        for _ in 0..200 {
            if self.value(expression)? == true {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(format!("waited 20 s in vain for: {expression}").into())
    }

    /// Fails with what an expression lists, if it lists anything.
    fn nothing_in(&self, what: &str, expression: &str) -> Result<(), Failed> {
        let found = self.value(expression)?;
        match found.as_array() {
            Some(found) if found.is_empty() => Ok(()),
            _ => Err(format!("{what}: {found}").into()),
        }
    }

    // ---- the checks ----------------------------------------------------------------------------------------------

    fn every_plot_is_drawn(&self) -> Result<(), Failed> {
        self.value("document.querySelectorAll('details').forEach((section) => { section.open = true; })")?;
        self.wait_for(ALL_DRAWN)?;
        let plots = self.value("document.querySelectorAll('.canvas').length")?;
        if plots.as_u64().unwrap_or(0) < 8 {
            return Err(format!("only {plots} plots").into());
        }
        self.wait_for("[...document.querySelectorAll('.canvas')].every((canvas) => canvas.clientWidth > 0)")?;
        self.nothing_in("plots without marks", UNDRAWN)
    }

    fn every_table_is_filled(&self) -> Result<(), Failed> {
        let tables = self.value("document.querySelectorAll('table').length")?;
        if tables.as_u64().unwrap_or(0) < 20 {
            return Err(format!("only {tables} tables").into());
        }
        self.nothing_in("tables that are not filled", UNFILLED)
    }

    fn hovering_shows_numbers(&self) -> Result<(), Failed> {
        let plots = self.value("document.querySelectorAll('.canvas').length")?.as_u64().unwrap_or(0);
        for index in 0..plots.min(4) {
            let place = self.value(&PLACE_OF_A_MARK.replace("INDEX", &index.to_string()))?;
            let (Some(x), Some(y)) = (place[0].as_f64(), place[1].as_f64()) else {
                return Err(format!("plot {index} has no mark to point at: {place}").into());
            };
            self.tab.move_mouse_to_point(Point { x: x - 3.0, y })?;
            self.tab.move_mouse_to_point(Point { x, y })?;
            let shown = format!(
                "/\\d/.test([...document.querySelectorAll('.canvas')[{index}].querySelectorAll('.hovertext')].map((text) => text.textContent).join())"
            );
            self.wait_for(&shown)?;
        }
        Ok(())
    }

    fn fits_into(&self, width: u32) -> Result<(), Failed> {
        self.tab.call_method(Emulation::SetDeviceMetricsOverride {
            width,
            height: 800,
            device_scale_factor: 1.0,
            mobile: width < 600,
            scale: None,
            screen_width: None,
            screen_height: None,
            position_x: None,
            position_y: None,
            dont_set_visible_size: None,
            screen_orientation: None,
            viewport: None,
            display_feature: None,
            device_posture: None,
        })?;
        // A scroll bar may take some of it.
        self.wait_for(&format!("Math.abs({width} - document.documentElement.clientWidth) <= 20"))?;
        self.wait_for(ALL_DRAWN)?;
        self.nothing_in(&format!("wider than {width} pixels"), TOO_WIDE)?;
        self.nothing_in("plots without marks", UNDRAWN)
    }

    fn prints(&self) -> Result<(), Failed> {
        self.value("document.querySelectorAll('details').forEach((section) => { section.open = false; })")?;
        self.media("print")?;
        self.wait_for("[...document.querySelectorAll('.phase')].every((phase) => phase.open)")?;
        self.wait_for(DRAWN_ON_PAPER)?;
        self.nothing_in("plots without marks", UNDRAWN)?;
        let paper = self.tab.print_to_pdf(Some(PrintToPdfOptions {
            print_background: Some(true),
            prefer_css_page_size: Some(true),
            ..PrintToPdfOptions::default()
        }))?;
        if !paper.starts_with(b"%PDF") || paper.len() < 50_000 {
            return Err(format!("{} bytes of PDF", paper.len()).into());
        }
        self.media("")?;
        self.wait_for("[...document.querySelectorAll('details')].every((section) => !section.open)")
    }

    fn media(&self, media: &str) -> Result<(), Failed> {
        self.tab
            .call_method(Emulation::SetEmulatedMedia { media: Some(media.to_owned()), features: None })?;
        Ok(())
    }

    fn was_quiet(&self) -> Result<(), Failed> {
        let requests = locked(&self.requests);
        let others: Vec<&String> =
            requests.iter().filter(|url| **url != self.url && !url.starts_with("data:")).collect();
        if !others.is_empty() || !requests.contains(&self.url) {
            return Err(format!("requests: {requests:?}").into());
        }
        let complaints = locked(&self.complaints);
        if complaints.is_empty() { Ok(()) } else { Err(format!("complaints: {complaints:?}").into()) }
    }
}

/// What was noted so far; a listener that panicked before leaves its notes.
fn locked(notes: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

// ---- what is asked of the page -----------------------------------------------------------------------------------

/// Every plot that can be seen was drawn in the width it has now.
const ALL_DRAWN: &str = "[...document.querySelectorAll('.canvas')].every((canvas) =>
    canvas.clientWidth === 0 || canvas.dataset.drawn === String(Math.floor(canvas.clientWidth)))";

/// Every plot that is printed was drawn for half a page.
const DRAWN_ON_PAPER: &str = "[...document.querySelectorAll('.canvas')].every((canvas) =>
    canvas.clientWidth === 0 || canvas.dataset.drawn === '320')";

/// Titles of plots that can be seen in which a series is missing, or a mark has no extent.
const UNDRAWN: &str = "[...document.querySelectorAll('.canvas')].filter((canvas) => {
    const series = JSON.parse(canvas.nextElementSibling.textContent).data;
    const drawn = [...canvas.querySelectorAll('.scatterlayer .trace')];
    const marked = (trace) => [...trace.querySelectorAll('.point, .js-line')].some((mark) => {
        const box = mark.getBoundingClientRect();
        return mark.getAttribute('d') && box.width + box.height > 0;
    });
    if (canvas.clientWidth === 0) return false;
    return series.length === 0 || drawn.length !== series.length || !drawn.every(marked);
}).map((canvas) => canvas.getAttribute('aria-label'))";

/// Captions of tables without rows, or with a row that does not fill its columns, or with an empty entry.
const UNFILLED: &str = "[...document.querySelectorAll('table')].filter((table) => {
    const columns = table.tHead.rows[0].cells.length;
    const rows = [...table.tBodies[0].rows];
    const filled = (row) => row.cells.length === columns && [...row.cells].every((cell) => cell.textContent.trim());
    return rows.length === 0 || !rows.every(filled);
}).map((table) => table.caption.textContent)";

/// Where the pointer finds a mark of a plot: the middle of a dot or of a line.
const PLACE_OF_A_MARK: &str = "(() => {
    const canvas = document.querySelectorAll('.canvas')[INDEX];
    canvas.scrollIntoView({ behavior: 'instant', block: 'center' });
    const dot = canvas.querySelector('.scatterlayer .point');
    if (dot) {
        const box = dot.getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2];
    }
    const line = canvas.querySelector('.scatterlayer .js-line');
    if (!line) return [];
    const place = line.getPointAtLength(line.getTotalLength() / 2).matrixTransform(line.getScreenCTM());
    return [place.x, place.y];
})()";

/// What reaches beyond the page's right edge, other than inside a box that scrolls.
const TOO_WIDE: &str =
    "[document.documentElement, ...document.body.querySelectorAll('*')].filter((element) => {
    const width = document.documentElement.clientWidth;
    if (element === document.documentElement) return element.scrollWidth > width;
    return !element.closest('.scroll *, pre *, svg *') && element.getBoundingClientRect().right > width + 0.5;
}).map((element) => element.outerHTML.slice(0, 120))";
