//! Pages in a real browser: every variant against the contract, what must not pass for a load, and a whole run with its
//! pictures. Ignored, with the reason, where a program is missing; failed then where `BLOBWISE_REQUIRE_ALL=1`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "common/loads.rs"]
mod loads;
#[path = "common/opening.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod opening;
#[path = "common/trials.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod trials;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode, Output};
use std::time::Duration;

use blobwise::host::place::Place;
use blobwise::result::{RunResult, Status};
use blobwise::store::{Adapter, Common, Durability, Key, OpReport, Options, Session, Setup, Span, Store};
use blobwise::stores::{self, Entry};
use libtest_mimic::{Arguments, Failed};

use crate::trials::Trial;

const BLOBWISE: &str = env!("CARGO_BIN_EXE_blobwise");

/// Each variant, and the requests of a load: the page, and what it has beside itself.
const VARIANTS: &[(&str, u64)] = &[
    ("page/separate", 1 + 64),
    ("page/sprite", 1 + 2),
    ("page/inlined", 1),
    ("page/after-load", 1 + 2),
    ("page/preload", 1 + 2),
    ("page/pipelined", 1 + 1),
];
/// Those of a whole run: what is the same of all of them need not be measured of all of them.
const IN_A_RUN: [usize; 4] = [0, 2, 3, 5];

fn main() -> ExitCode {
    blobwise::host::machine::make_private();
    trials::name_the_supervisor();
    let missing =
        adapter("page/separate").missing_program(&blobwise::plan::defaults(adapter("page/separate")));
    let needing = |name: String, check: Box<dyn FnOnce() -> Result<(), Failed> + Send>| match &missing {
        None => Trial::test(name, check),
        Some(error) => Trial::impossible(name, format!("{error:#}")),
    };
    let mut trials =
        vec![Trial::test("a missing program is an error before anything is made", missing_program)];
    for (variant, requests) in VARIANTS {
        let check = move || keeps_the_contract(variant, *requests);
        trials.push(needing(format!("{variant} keeps the contract"), Box::new(check)));
    }
    trials.push(needing("icons are as many and as large as is asked for".to_owned(), Box::new(other_icons)));
    trials.push(needing("distance is felt".to_owned(), Box::new(distance)));
    trials.push(needing("a run has its figures and its pictures".to_owned(), Box::new(whole_run)));
    trials::run(&Arguments::from_args(), trials, |_| true)
}

fn adapter(name: &str) -> &'static Adapter {
    match stores::find(name) {
        Some(Entry::Ready(adapter)) => adapter,
        other => panic!("{name} is {other:?}"),
    }
}

fn key(id: u64) -> Key {
    Key::of_digest(id, 0x1234_5678_9abc_def0_u128 << 8 | u128::from(id))
}

/// Opens a variant in a place of its own, and lets `check` have it and its directory.
fn with_store(name: &str, options: &[(&str, &str)], check: impl FnOnce(&dyn Store, &Path)) {
    let adapter = adapter(name);
    let place = Place::make(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let (dir, common) = (place.path().join("store"), Common::new(place.path().join("cache")));
    std::fs::create_dir(&dir).unwrap();
    let mut values: BTreeMap<String, String> =
        adapter.options.iter().map(|spec| (spec.name.to_owned(), spec.default.to_owned())).collect();
    values.insert("rtt".to_owned(), "0".to_owned());
    values.extend(options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let options = Options::new(values);
    let setup = Setup {
        durability: Durability::None,
        cache_bytes: 0,
        store_bytes_max: 1 << 24,
        op_timeout: Duration::from_secs(120),
        ..opening::small(&dir, &common, &options)
    };
    let store = (adapter.open)(&setup).unwrap();
    check(store.as_ref(), &dir);
    store.close().unwrap();
}

fn get(session: &mut dyn Session, key: &Key) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let found = session.get(key, Span::Whole, &mut |piece| bytes.extend_from_slice(piece)).unwrap();
    found.then_some(bytes)
}

fn reported(session: &mut dyn Session) -> (BTreeMap<&'static str, u64>, BTreeMap<&'static str, u64>) {
    let (mut times, mut counts) = (BTreeMap::new(), BTreeMap::new());
    session
        .report_op(&mut |told| match told {
            OpReport::Time(name, ns) => drop(times.insert(name, ns)),
            OpReport::Count(name, number) => drop(counts.insert(name, number)),
        })
        .unwrap();
    (times, counts)
}

/// What is asked of a page with other icons than those of the published comparison, in the browser and in a run.
fn other_icons() -> Result<(), Failed> {
    let requests_and_bytes = |name: &str, options: &[(&str, &str)]| {
        let mut found = (0, 0);
        with_store(name, options, |store, _| {
            let mut session = store.session().unwrap();
            session.put(&key(1), b"content").unwrap();
            session.prepare().unwrap();
            get(session.as_mut(), &key(1)).unwrap();
            let (_, counts) = reported(session.as_mut());
            found = (counts["requests"], counts["bytes"]);
        });
        found
    };
    let (requests, light) = requests_and_bytes("page/separate", &[("icons", "5")]);
    assert_eq!(requests, 1 + 5);
    let heavy = [("icons", "5"), ("icon_bytes", "20000")];
    for name in ["page/separate", "page/sprite", "page/inlined"] {
        let (_, bytes) = requests_and_bytes(name, &heavy);
        assert!(bytes > light + 5 * 18_000, "{name}: {bytes} and {light}");
    }
    // Beyond the eight lines of the published page.
    assert_eq!(requests_and_bytes("page/sprite", &[("icons", "100")]).0, 1 + 2);
    let directory = tempfile::tempdir()?;
    let run = "run page --stores page/inlined --set page/inlined.http=2 --set page/inlined.rtt=0 --set page/inlined.icons=8,64 --rounds 2 \
               --quiet --out out";
    let output = blobwise(&run.split_whitespace().collect::<Vec<&str>>(), directory.path()).output()?;
    let told = said(&output);
    assert!(output.status.success() && told.contains("\n  8 icons; 0 ms a round trip"), "{told}");
    assert!(told.contains("\n  icons; 0 ms a round trip"), "pages of other icons rank apart: {told}");
    let small = "run page --stores page/sprite --set page/sprite.icon_bytes=500 --out small";
    let output = blobwise(&small.split_whitespace().collect::<Vec<&str>>(), directory.path()).output()?;
    let told = said(&output);
    assert!(!output.status.success() && told.contains("`icon_bytes=500` is too small"), "{told}");
    Ok(())
}

fn keeps_the_contract(variant: &str, requests: u64) -> Result<(), Failed> {
    let http = if variant == "page/separate" { "1.1" } else { "2" };
    with_store(variant, &[("http", http)], |store, dir| {
        let mut session = store.session().unwrap();
        let session = session.as_mut();
        let every_byte: Vec<u8> = (0..=255).cycle().take(2000).collect();
        assert_eq!(get(session, &key(1)), None);
        session.put(&key(1), &every_byte).unwrap();
        session.put(&key(2), b"</script> & \"a neighbour\"").unwrap();
        session.prepare().unwrap();
        assert_eq!(get(session, &key(1)).unwrap(), every_byte);
        let (times, counts) = reported(session);
        let shown = times.get("icons").or(times.get("content")).unwrap();
        assert!(*shown > 1_000_000 && times["first paint"] > 1_000_000, "{times:?}");
        assert_eq!(counts["requests"], requests);
        assert!(counts["bytes"] > 2000 * 4 / 3, "{counts:?}");
        // Only the older protocol needs several for one page.
        assert_eq!(counts["connections"] > 1, http == "1.1", "{counts:?}");
        session.put(&key(1), b"").unwrap();
        assert_eq!(get(session, &key(1)).unwrap(), b"");
        assert_eq!(get(session, &key(2)).unwrap(), b"</script> & \"a neighbour\"");
        for _ in 0..2 {
            session.delete(&key(1)).unwrap();
            assert_eq!(get(session, &key(1)), None);
        }
        assert!(get(session, &key(2)).is_some());
        assert!(store.picture(&key(2)).unwrap().unwrap().starts_with(b"\x89PNG"));
        // Beside it there is what is sent where there is no page.
        let in_site = std::fs::read_dir(dir.join("site")).unwrap().map(|entry| entry.unwrap().path());
        let site = in_site.filter(|path| path.is_dir()).last().unwrap();
        match variant {
            "page/separate" => half_a_page(session, &key(2), &site.join("icons/17.png"), ""),
            "page/sprite" => half_a_page(session, &key(2), &site.join("sprite.png"), ""),
            "page/after-load" | "page/preload" => {
                let content = site.join(key(2).as_str()).join("content.json");
                half_a_page(session, &key(2), &content, "HTTP status 404 for the content");
            }
            _ => {}
        }
    });
    Ok(())
}

/// What a visitor would not take for the page is an error, and never a fast success: `file` is missing in the page of a blob.
fn half_a_page(session: &mut dyn Session, key: &Key, file: &Path, why: &str) {
    std::fs::remove_file(file).unwrap();
    let error = session.get(key, Span::Whole, &mut |_| {}).unwrap_err().to_string();
    assert!(error.starts_with("the page is not complete") && error.contains(why), "{error}");
}

/// A page takes a connection, a handshake and a request: three round trips, however long one is.
fn distance() -> Result<(), Failed> {
    for (rtt, at_least_ns) in [("100", 300_000_000), ("150.5", 451_500_000)] {
        with_store("page/pipelined", &[("rtt", rtt)], |store, _| {
            let mut session = store.session().unwrap();
            session.put(&key(1), b"far away").unwrap();
            assert_eq!(get(session.as_mut(), &key(1)).unwrap(), b"far away");
            let (times, _) = reported(session.as_mut());
            assert!(times["content"] >= at_least_ns, "{rtt}: {times:?}");
        });
    }
    Ok(())
}

fn blobwise(arguments: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(BLOBWISE);
    command.args(arguments).current_dir(directory);
    command
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn missing_program() -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let output = blobwise(&["page", "--out", "out"], directory.path()).env("PATH", "").output()?;
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no `chromium-headless-shell` was found; install it with `apt-get install chromium-headless-shell`"), "{said}");
    assert_eq!(std::fs::read_dir(directory.path())?.count(), 0);
    Ok(())
}

fn whole_run() -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let (variants, requests): (Vec<&str>, Vec<u64>) = IN_A_RUN.iter().map(|place| VARIANTS[*place]).unzip();
    std::fs::write(directory.path().join("small.toml"), loads::small_plan(3, 120))?;
    let stores = variants.join(",");
    let arguments = ["run", "small.toml", "--stores", &stores, "--quiet", "--out", "out"];
    let output = blobwise(&arguments, directory.path()).output()?;
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    let out = directory.path().join("out");
    let result = RunResult::load(&out)?;
    assert_eq!(result.results.len(), variants.len(), "{said}");
    for group in ["icons; 120 ms a round trip", "content; 120 ms a round trip"] {
        assert!(said.contains(&format!("\n  {group}\n  page/")), "{said}");
    }
    for (cell, (variant, requests)) in result.results.iter().zip(variants.iter().zip(requests)) {
        assert_eq!((cell.store.as_str(), cell.status, cell.ops), (*variant, Status::Measured, 6));
        assert_eq!(cell.counts["requests"], requests as f64);
        // A long name has a line of its own.
        let mut rows = said.lines().map(|line| line.split_whitespace().next().unwrap_or_default());
        assert!(cell.not_ranked.is_none() && rows.any(|name| name == *variant), "{said}");
    }
    let report = std::fs::read_to_string(out.join("report.html"))?;
    let pictured: Vec<&str> = result.pictures.iter().map(|picture| picture.store.as_str()).collect();
    assert_eq!(pictured, variants);
    for picture in &result.pictures {
        assert_eq!(std::fs::read(out.join(picture.file()))?, picture.bytes()?);
        assert!(report.contains(&format!("<img src=\"data:image/png;base64,{}\"", picture.png)));
    }
    Ok(())
}
