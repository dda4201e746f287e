//! Reports of real runs in a real browser with the network off: nothing is loaded, nothing goes wrong, every plot is drawn,
//! every table is filled, and it can be read on a phone, on paper and with a pointer.

#[path = "common/loads.rs"]
mod loads;
#[path = "common/trials.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod trials;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use blobwise::host::browser::{Browser, CHROMIUM, DevTools};
use libtest_mimic::{Arguments, Failed};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::trials::Trial;

/// Runs that are small, and together have everything that a report can show. On a busy machine a round takes several times as long:
/// budgets have room for that.
const RUN: &str = "--stores files/hashed,sqlite,files/flat,memory --blobs 40 --rounds 3 --budget 5m";
/// Of four sizes: without a budget no pilot measures them first, and reads are short.
const SWEEP: &str =
    "--stores files/hashed,sqlite --sweep 1kB..30kB --blobs 100 --rounds 3 --reference sqlite";
/// Cold reads are in the first one. Emptied caches are those of all that runs beside it.
const OPEN_LOOP: &str =
    "--stores files/hashed,sqlite --blobs 60 --rounds 3 --rate 500 --budget 5m --no-drop-caches";

/// A run that is made once, by the first trial that looks at it.
struct Shared {
    flags: &'static str,
    made: OnceLock<Result<Made, String>>,
}

/// A run that was made: where, and its report.
struct Made {
    directory: TempDir,
    report: PathBuf,
}

impl Shared {
    fn new(flags: &'static str) -> Arc<Shared> {
        Arc::new(Shared { flags, made: OnceLock::new() })
    }

    fn made(&self) -> Result<&Made, Failed> {
        let make = || -> Result<Made, String> {
            let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
            let report = measure(self.flags, directory.path())
                .map_err(|failed| failed.message().unwrap_or("the run failed").to_owned())?;
            Ok(Made { directory, report })
        };
        self.made.get_or_init(make).as_ref().map_err(|error| error.as_str().into())
    }
}

fn main() -> ExitCode {
    trials::name_the_supervisor();
    let arguments = Arguments::from_args();
    let browser = CHROMIUM.find();
    type Check = Box<dyn FnOnce(&Path) -> Result<(), Failed> + Send>;
    let needing = |name: &str, check: Check| match &browser {
        Ok(found) => {
            let browser = found.path.clone();
            Trial::test(name, move || check(&browser))
        }
        Err(error) => Trial::impossible(name, format!("{error:#}")),
    };
    let (run, sweep) = (Shared::new(RUN), Shared::new(SWEEP));
    let of_run = |name: &str, shared: &Arc<Shared>| {
        let shared = Arc::clone(shared);
        needing(name, Box::new(move |browser| check(&shared, browser)))
    };
    let mut trials =
        vec![of_run("run", &run), of_run("sweep", &sweep), of_run("open-loop", &Shared::new(OPEN_LOOP))];
    trials.push(needing("doctor", Box::new(doctor)));
    trials.push(needing("several-runs", Box::new(several_runs)));
    trials.push(needing("loads-on-paper", Box::new(loads_on_paper)));
    let priced = Arc::clone(&run);
    trials.push(needing("prices-on-paper", Box::new(move |browser| prices_on_paper(&priced, browser))));
    trials.push(match axe() {
        Some(axe) => needing("barriers", Box::new(move |browser| barriers(&run, &sweep, browser, &axe))),
        None => Trial::impossible("barriers", "no axe-core in the cache: ./test.sh fetches it"),
    });
    trials::run(&arguments, trials, |_| true)
}

fn check(shared: &Shared, browser: &Path) -> Result<(), Failed> {
    let made = shared.made()?;
    let directory = tempfile::tempdir()?;
    let mut page = Page::open(browser, directory.path(), &made.report)?;
    page.every_plot_is_drawn()?;
    page.every_table_is_filled()?;
    page.hovering_shows_numbers()?;
    page.fits_into(400)?;
    page.fits_into(1200)?;
    page.prints()?;
    page.was_quiet()
}

/// A run with what a month costs, on paper.
fn prices_on_paper(run: &Shared, browser: &Path) -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let out = run.made()?.directory.path().join("out");
    let out = out.to_str().ok_or("a directory with another name")?;
    let prices = "date = 2026-11-26\ncurrency = \"USD\"\ngb_month = 0.08\nper_million_requests = 0.1\n\
        machine = { month = 60, processors = 2, memory_gb = 8 }\n";
    std::fs::write(directory.path().join("prices.toml"), prices)?;
    let load = "reads=2e7,writes=1e6,stored=500GB,growth=3%";
    say(directory.path(), &["report", out, "--prices", "prices.toml", "--load", load, "--out", "priced"])?;
    let mut page = Page::open(browser, directory.path(), &directory.path().join("priced/report.html"))?;
    page.wait_for("document.querySelector('#costs table') !== null")?;
    page.prints()
}

/// What a command says that ends well.
fn say(directory: &Path, words: &[&str]) -> Result<String, Failed> {
    let said = Command::new(env!("CARGO_BIN_EXE_blobwise")).current_dir(directory).args(words).output()?;
    if !said.status.success() {
        return Err(format!("{words:?}: {said:?}").into());
    }
    Ok(String::from_utf8(said.stdout)?)
}

/// Loads of pages, and of as many candidates as the whole plan has: six variants by two versions of HTTP and four distances. Two are
/// measured, and stand for all.
fn loads_on_paper(browser: &Path) -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    std::fs::write(directory.path().join("small.toml"), loads::small_plan(1, 0))?;
    let stores = "page/separate,page/after-load";
    say(directory.path(), &["run", "small.toml", "--stores", stores, "--quiet", "--out", "out"])?;
    let file = directory.path().join("out/result.json");
    let mut result: Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
    for (_, list) in result.as_object_mut().into_iter().flatten().filter(|(name, _)| *name != "pictures") {
        let named: Vec<Value> =
            list.as_array().into_iter().flatten().filter(|one| one["store"].is_string()).cloned().collect();
        let copies = (1..24).flat_map(|copy| named.iter().cloned().map(move |one| (copy, one)));
        let copies = copies.map(|(copy, mut one)| {
            let label = format!("{}[http=1.1,rtt={copy}]", one["store"].as_str().unwrap_or_default());
            one["store"] = json!(label);
            one
        });
        let copies: Vec<Value> = copies.collect();
        list.as_array_mut().into_iter().for_each(|list| list.extend(copies.clone()));
    }
    std::fs::write(&file, result.to_string())?;
    say(directory.path(), &["report", "out"])?;
    let mut page = Page::open(browser, directory.path(), &directory.path().join("out/report.html"))?;
    page.wait_for("document.querySelectorAll('#glance tbody tr').length === 48")?;
    page.prints()
}

/// Makes a run with the built program, as a user would.
fn measure(flags: &str, directory: &Path) -> Result<PathBuf, Failed> {
    let out = directory.join("out");
    let run = Command::new(env!("CARGO_BIN_EXE_blobwise"))
        .args(["run", "--quiet", "--dir"])
        .arg(directory.join("place"))
        .arg("--out")
        .arg(&out)
        .args(flags.split(' '))
        .output()?;
    if !run.status.success() {
        return Err(format!("the run failed: {}", String::from_utf8_lossy(&run.stderr)).into());
    }
    Ok(out.join("report.html"))
}

/// Where `./test.sh` puts axe-core.
fn axe() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|cache| !cache.is_empty()).map(PathBuf::from);
    let file = cache.or_else(home)?.join("blobwise/axe-core-4.12.1/axe.min.js");
    file.is_file().then_some(file)
}

/// What keeps somebody with a screen reader, a keyboard or other eyes from reading a page, as axe-core finds it: in reports of a run and
/// of a sweep, of several runs and of the doctor, light and dark, with all that is closed opened.
fn barriers(run: &Shared, sweep: &Shared, browser: &Path, axe: &Path) -> Result<(), Failed> {
    let axe = std::fs::read_to_string(axe)?;
    let (run, sweep) = (run.made()?, sweep.made()?);
    let directory = tempfile::tempdir()?;
    let tell = |words: &[&Path]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blobwise"));
        command.current_dir(directory.path()).args(words).output()
    };
    let (one, other) = (run.directory.path().join("out"), sweep.directory.path().join("out"));
    tell(&[Path::new("report"), &one, &other, Path::new("--out"), Path::new("site")])?;
    tell(&["doctor", "--for", "1s", "--html", "doctor.html"].map(Path::new))?;
    let at = |path: &str| directory.path().join(path);
    let mut found = Vec::new();
    for file in [run.report.clone(), sweep.report.clone(), at("site/index.html"), at("doctor.html")] {
        let mut page = Page::open(browser, directory.path(), &file)?;
        page.value(&format!("(() => {{ {axe} }})()"))?;
        page.value("document.querySelectorAll('details').forEach((section) => { section.open = true; })")?;
        // What is dark is the same but for its colours.
        for (scheme, rules) in [("light", "{}"), ("dark", "{ runOnly: ['color-contrast'] }")] {
            let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
            page.call("Emulation.setEmulatedMedia", json!({"features": features}))?;
            page.wait_for(&format!("matchMedia('(prefers-color-scheme: {scheme})').matches"))?;
            let told = page.value(&BARRIERS.replace("RULES", rules))?;
            let name = file.display().to_string();
            let all = told.as_array().ok_or_else(|| Failed::from(format!("{name}: {told}")))?;
            found.extend(all.iter().map(|one| format!("{name}, {scheme}: {one}")));
        }
        // That it looks at all: an image without words is found.
        page.value("document.body.append(document.createElement('img'))")?;
        let told = page.value(&BARRIERS.replace("RULES", "{ runOnly: ['image-alt'] }"))?;
        if !told.to_string().contains("image-alt") {
            return Err(format!("axe-core does not find an image without words: {told}").into());
        }
    }
    if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
}

/// The page of several runs: one that was measured, one that says it began at another time, and one of other blobs.
fn several_runs(browser: &Path) -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let flags = "--stores files/hashed,sqlite,null --blobs 40 --rounds 2 --phases fill,read-warm,read-copy";
    measure(flags, directory.path())?;
    let result = std::fs::read_to_string(directory.path().join("out/result.json"))?;
    for (name, blobs) in [("again", 40), ("larger", 80)] {
        let mut other: Value = serde_json::from_str(&result)?;
        other["program"]["started"] = json!(format!("2026-01-02 {name}"));
        other["corpus"]["blobs"] = json!(blobs);
        // In a slow build the harness may keep a figure from being ranked.
        for cell in other["results"].as_array_mut().into_iter().flatten() {
            if cell["kind"] != "baseline" {
                cell.as_object_mut().map(|cell| cell.remove("not_ranked"));
            }
        }
        std::fs::create_dir(directory.path().join(name))?;
        std::fs::write(directory.path().join(name).join("result.json"), other.to_string())?;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_blobwise"));
    let said = command
        .current_dir(directory.path())
        .args(["report", "again", "out", "larger", "--out", "site"])
        .output()?;
    if !said.status.success() {
        return Err(format!("{said:?}").into());
    }
    let mut page = Page::open(browser, directory.path(), &directory.path().join("site/index.html"))?;
    page.wait_for("document.querySelectorAll('section.side').length === 2")?;
    let shown =
        "[...document.querySelectorAll('.chosen tbody tr')].filter((row) => row.checkVisibility()).length";
    page.wait_for(&format!("{shown} === 9"))?;
    page.nothing_in("not filled", UNFILLED)?;
    page.fits_into(400)?;
    page.fits_into(1280)?;
    // By keyboard alone: the box of the third run, and with it the second table.
    page.value("document.querySelector('input[name=run][value=\"3\"]').focus()")?;
    page.press(" ", "Space")?;
    page.wait_for(&format!("{shown} === 6"))?;
    page.wait_for("document.querySelector('#side-2').hidden && location.hash.includes('run=3')")?;
    page.value("document.querySelector('input[name=store][value=\"sqlite\"]').focus()")?;
    page.press(" ", "Space")?;
    page.wait_for(&format!("{shown} === 4"))?;
    // Of each column the best of what is left is 1.
    page.wait_for("[2, 3, 4].every((column) => [...document.querySelectorAll('#side-1 tbody tr')]
        .some((row) => row.checkVisibility() && ['1', 'alone'].includes(row.cells[column].querySelector('.ratio').textContent)))")?;
    page.value("document.querySelector('[data-of=phase] button[data-every=\"\"]').click()")?;
    page.wait_for("[...document.querySelectorAll('#side-1 thead th')].filter((head) => head.checkVisibility()).length === 2")?;
    page.was_quiet()
}

/// The page of `doctor`: of this machine, with a disk that is full and a name that is long and hostile.
fn doctor(browser: &Path) -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let saved = directory.path().join("saved");
    let doctor = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blobwise"));
        command.current_dir(directory.path()).arg("doctor").args(words).output()
    };
    doctor(&["--for", "1s", "--save", "saved"])?;
    let mut facts: Value = serde_json::from_str(&std::fs::read_to_string(saved.join("facts.json"))?)?;
    let disk = &mut facts["facts"][0]["later"]["told"]["disks"]["rows"][0];
    disk["free_bytes"] = json!(1);
    disk["dir"] = json!("/srv/<img src=x onerror=alert(1)>/".to_owned() + &"long".repeat(60));
    std::fs::write(saved.join("facts.json"), facts.to_string())?;
    let said = doctor(&["--from", "saved", "--html", "page.html"])?;
    if said.status.code() != Some(1) {
        return Err(format!("a full disk is bad: {said:?}").into());
    }
    let mut page = Page::open(browser, directory.path(), &directory.path().join("page.html"))?;
    page.wait_for("document.querySelector('.check').textContent.includes('disk-full')")?;
    page.wait_for("document.querySelectorAll('.check').length > 12 && document.images.length === 0")?;
    page.nothing_in("not filled", UNFILLED)?;
    page.fits_into(400)?;
    page.fits_into(1280)?;
    if page.nothing_in("folded up", NOT_SEEN).is_ok() {
        return Err("nothing is folded up, so that paper shows nothing new".into());
    }
    page.media("print")?;
    page.nothing_in("not on paper", NOT_SEEN)?;
    page.media("")?;
    page.was_quiet()
}

// ---- the browser -------------------------------------------------------------------------------------------------

/// A report in a browser, and everything the browser said of it.
struct Page {
    tools: DevTools,
    url: String,
    /// Kept: the browser ends with it.
    _browser: Browser,
}

impl Page {
    fn open(path: &Path, directory: &Path, report: &Path) -> Result<Page, Failed> {
        let shown: Vec<&Path> = report.parent().into_iter().collect();
        let browser = Browser::start(path, directory, &[], &shown)?;
        let tools = browser.connect(Duration::from_secs(120))?;
        let url = format!("file://{}", report.display());
        let mut page = Page { tools, url, _browser: browser };
        page.tools.open_context(1200, 800)?;
        for domain in ["Page.enable", "Network.enable", "Runtime.enable", "Log.enable"] {
            page.call(domain, json!({}))?;
        }
        let offline = json!({"offline": true, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0});
        page.call("Network.emulateNetworkConditions", offline)?;
        page.call("Page.navigate", json!({"url": page.url.clone()}))?;
        page.wait_for("document.readyState === 'complete' && location.protocol === 'file:'")?;
        Ok(page)
    }

    fn call(&mut self, method: &str, params: Value) -> Result<Value, Failed> {
        Ok(self.tools.call(method, params)?)
    }

    /// Presses a key where the focus is.
    fn press(&mut self, key: &str, code: &str) -> Result<(), Failed> {
        for kind in ["keyDown", "keyUp"] {
            let pressed =
                json!({"type": kind, "key": key, "code": code, "text": key, "windowsVirtualKeyCode": 32});
            self.call("Input.dispatchKeyEvent", pressed)?;
        }
        Ok(())
    }

    /// The value of an expression.
    fn value(&mut self, expression: &str) -> Result<Value, Failed> {
        Ok(self.tools.value(expression)?)
    }

    /// Waits until an expression is true.
    fn wait_for(&mut self, expression: &str) -> Result<(), Failed> {
        for _ in 0..1200 {
            if self.value(expression)? == true {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(format!("waited two minutes in vain for: {expression}").into())
    }

    /// Fails with what an expression lists, if it lists anything.
    fn nothing_in(&mut self, what: &str, expression: &str) -> Result<(), Failed> {
        let found = self.value(expression)?;
        match found.as_array() {
            Some(found) if found.is_empty() => Ok(()),
            _ => Err(format!("{what}: {found}").into()),
        }
    }

    // ---- the checks ----------------------------------------------------------------------------------------------

    fn every_plot_is_drawn(&mut self) -> Result<(), Failed> {
        self.value("document.querySelectorAll('details').forEach((section) => { section.open = true; })")?;
        let plots = self.value("document.querySelectorAll('.canvas').length")?;
        if plots.as_u64().unwrap_or(0) < 8 {
            return Err(format!("only {plots} plots").into());
        }
        self.wait_for("[...document.querySelectorAll('.canvas')].every((canvas) => canvas.clientWidth > 0)")?;
        self.nothing_in("plots without marks", UNDRAWN)
    }

    fn every_table_is_filled(&mut self) -> Result<(), Failed> {
        let tables = self.value("document.querySelectorAll('table').length")?;
        if tables.as_u64().unwrap_or(0) < 20 {
            return Err(format!("only {tables} tables").into());
        }
        self.nothing_in("tables that are not filled", UNFILLED)
    }

    fn hovering_shows_numbers(&mut self) -> Result<(), Failed> {
        let plots = self.value("document.querySelectorAll('.canvas').length")?.as_u64().unwrap_or(0);
        for index in 0..plots.min(4) {
            let place = self.value(&PLACE_OF_A_MARK.replace("INDEX", &index.to_string()))?;
            let (Some(x), Some(y)) = (place[0].as_f64(), place[1].as_f64()) else {
                return Err(format!("plot {index} has no mark to point at: {place}").into());
            };
            for x in [x - 3.0, x] {
                let moved = json!({"type": "mouseMoved", "x": x, "y": y});
                self.call("Input.dispatchMouseEvent", moved)?;
            }
            self.wait_for(
                "[document.querySelector('.tip')].every((tip) => !tip.hidden && /\\d/.test(tip.textContent))",
            )?;
        }
        Ok(())
    }

    fn fits_into(&mut self, width: u32) -> Result<(), Failed> {
        let metrics = json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", metrics)?;
        // A scroll bar may take some of it.
        self.wait_for(&format!("Math.abs({width} - document.documentElement.clientWidth) <= 20"))?;
        self.nothing_in(&format!("wider than {width} pixels"), TOO_WIDE)?;
        self.nothing_in("plots without marks", UNDRAWN)
    }

    fn prints(&mut self) -> Result<(), Failed> {
        // As it is opened: what its reader opened, and what it opens by itself.
        self.call("Page.reload", json!({}))?;
        self.wait_for("document.readyState === 'complete' && document.querySelector('.tip') !== null")?;
        let opened = "[...document.querySelectorAll('details')].filter((section) => section.open).length";
        let before = self.value(opened)?;
        self.media("print")?;
        self.nothing_in("plots without marks", UNDRAWN)?;
        self.nothing_in("headings that may end a page", ORPHANS)?;
        let printed =
            self.call("Page.printToPDF", json!({"printBackground": true, "preferCSSPageSize": true}))?;
        let paper = BASE64.decode(printed["data"].as_str().unwrap_or_default())?;
        if !paper.starts_with(b"%PDF") || paper.len() < 50_000 {
            return Err(format!("{} bytes of PDF", paper.len()).into());
        }
        let pages =
            paper.windows(12).filter(|bytes| bytes.starts_with(b"/Type /Page") && bytes[11] != b's').count();
        if !(2..=PAGES_MAX).contains(&pages) {
            return Err(format!("{pages} pages, and at most {PAGES_MAX} are wanted").into());
        }
        self.media("")?;
        self.wait_for(&format!("{opened} === {before}"))
    }

    fn media(&mut self, media: &str) -> Result<(), Failed> {
        self.call("Emulation.setEmulatedMedia", json!({"media": media}))?;
        Ok(())
    }

    fn was_quiet(&mut self) -> Result<(), Failed> {
        let mut requests = Vec::new();
        let mut complaints = Vec::new();
        let events = self.tools.events();
        for event in &events {
            let params = &event["params"];
            let is_bad = |level: &Value| level == "error" || level == "warning";
            match event["method"].as_str().unwrap_or_default() {
                "Network.requestWillBeSent" => requests.extend(params["request"]["url"].as_str()),
                "Runtime.exceptionThrown" => complaints.push(params.to_string()),
                "Runtime.consoleAPICalled" if is_bad(&params["type"]) => complaints.push(params.to_string()),
                "Log.entryAdded" if is_bad(&params["entry"]["level"]) => complaints.push(params.to_string()),
                _ => {}
            }
        }
        // What is inside a data URL is inside the file.
        if !requests.contains(&self.url.as_str())
            || requests.iter().any(|url| *url != self.url && !url.starts_with("data:"))
        {
            return Err(format!("requests: {requests:?}").into());
        }
        if complaints.is_empty() { Ok(()) } else { Err(format!("complaints: {complaints:?}").into()) }
    }
}

// ---- what is asked of the page -----------------------------------------------------------------------------------

/// Titles of plots that can be seen in which a mark or a line has no extent, or which do not have the width of the page's column.
const UNDRAWN: &str = "[...document.querySelectorAll('.canvas')].filter((canvas) => {
    if (canvas.clientWidth === 0) return false;
    const series = [...canvas.querySelectorAll('.series')];
    const seen = (mark) => {
        const box = mark.getBoundingClientRect();
        return box.width + box.height > 0;
    };
    const drawn = (one) => {
        const marks = [...one.querySelectorAll('.mark, .ghost, .line')];
        return marks.length > 0 && marks.every(seen);
    };
    const inside = [...canvas.querySelectorAll('.value')].every((text) => {
        const box = text.getBoundingClientRect();
        return box.left >= canvas.getBoundingClientRect().left - 1 && box.right <= canvas.getBoundingClientRect().right + 1;
    });
    return series.length === 0 || !series.every(drawn) || !inside;
}).map((canvas) => canvas.getAttribute('aria-label'))";

/// Captions of tables without rows, or with a row that does not fill its columns, or with an empty entry. What stands above several
/// columns at once may be empty above one.
const UNFILLED: &str = "[...document.querySelectorAll('table')].filter((table) => {
    const heads = [...table.tHead.rows];
    const columns = heads.pop().cells.length;
    const across = (row) => [...row.cells].reduce((sum, cell) => sum + cell.colSpan, 0);
    const rows = [...table.tBodies[0].rows];
    const filled = (row) => row.cells.length === columns && [...row.cells].every((cell) => cell.textContent.trim());
    return rows.length === 0 || !rows.every(filled) || heads.some((row) => across(row) !== columns);
}).map((table) => table.caption.textContent)";

/// Parts of checks that are folded up.
const NOT_SEEN: &str = "[...document.querySelectorAll('.check summary, .check dd')]
    .filter((part) => !part.checkVisibility({ contentVisibilityAuto: true }) || part.getBoundingClientRect().height === 0)
    .map((part) => part.textContent)";

/// What axe-core finds: its rule, and the first places.
const BARRIERS: &str = "axe.run(document, { resultTypes: ['violations'], ...RULES }).then((told) => told.violations.map((rule) =>
    `${rule.id} (${rule.impact}, ${rule.nodes.length}): ${rule.help}: ${rule.nodes.slice(0, 3).map((node) => node.html.slice(0, 150)
        + ' ' + node.any.concat(node.all, node.none).map((check) => check.message).join('; ').slice(0, 200)).join(' | ')}`))";

/// Pages of a printed report at the most.
const PAGES_MAX: usize = 6;

/// Headings and rows of tables that paper may part from what they belong to, and headings that nothing visible follows.
const ORPHANS: &str = "(() => {
    const visible = (element) => element.checkVisibility() && element.getBoundingClientRect().height > 0;
    const heads = [...document.querySelectorAll('h2, h3, summary, caption')].filter(visible);
    const parted = heads.filter((head) => !getComputedStyle(head).breakAfter.startsWith('avoid'));
    const cut = [...document.querySelectorAll('tr')].filter((row) => getComputedStyle(row).breakInside !== 'avoid');
    const alone = [...document.querySelectorAll('h2')].filter(visible).filter((head) => {
        let next = head.nextElementSibling;
        while (next && !visible(next)) next = next.nextElementSibling;
        return !next;
    });
    return [...parted, ...cut, ...alone].map((element) => element.outerHTML.slice(0, 120));
})()";

/// Where the pointer finds a mark of a plot.
const PLACE_OF_A_MARK: &str = "(() => {
    const canvas = document.querySelectorAll('.canvas')[INDEX];
    canvas.scrollIntoView({ behavior: 'instant', block: 'center' });
    const mark = canvas.querySelector('.drawn .mark, .drawn .ghost');
    if (!mark) return [];
    const box = mark.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
})()";

/// What reaches beyond the page's right edge, other than inside a box that scrolls.
const TOO_WIDE: &str =
    "[document.documentElement, ...document.body.querySelectorAll('*')].filter((element) => {
    const width = document.documentElement.clientWidth;
    if (element === document.documentElement) return element.scrollWidth > width;
    return !element.closest('.scroll *, pre *, svg *') && element.getBoundingClientRect().right > width + 0.5;
}).map((element) => element.outerHTML.slice(0, 120))";
