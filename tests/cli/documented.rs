//! Every command of README, docs/first-steps.md and the how-to pages for users that can run here, typed as a normal user, at the
//! smallest size, and as root where nobody else may. All else here is tried as root where the tests run as root.
//!
//! The table has each of them as it is printed and as it is typed here: with the same flags, on directories and servers that are there,
//! and with more flags that keep it short. A command that the table lacks, or that no page has any more, fails the test.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, LazyLock};

use crate::places::{NOBODY, nobody_else};
use crate::program::{BLOBWISE, Outcome, Said, Work, copied, finish, missing, needing};
use crate::theirs::{Theirs, postgres};
use crate::trials::Trial;

const PAGES: [&str; 23] = [
    "README.md",
    "docs/first-steps.md",
    "docs/how-to/age.md",
    "docs/how-to/bring-your-own-store.md",
    "docs/how-to/container.md",
    "docs/how-to/describe-your-log.md",
    "docs/how-to/doctor.md",
    "docs/how-to/growth.md",
    "docs/how-to/guard-a-release.md",
    "docs/how-to/limit-memory.md",
    "docs/how-to/many-clients.md",
    "docs/how-to/power-cuts.md",
    "docs/how-to/price-a-month.md",
    "docs/how-to/read-a-report.md",
    "docs/how-to/repeat-a-published-experiment.md",
    "docs/how-to/replay-your-log.md",
    "docs/how-to/test-a-disk.md",
    "docs/how-to/the-size-where-it-turns.md",
    "docs/how-to/under-load.md",
    "docs/how-to/uploads.md",
    "docs/how-to/web-delivery.md",
    "docs/how-to/without-root.md",
    "docs/how-to/your-own-server.md",
];

/// What becomes of a command.
#[derive(Clone, Copy)]
enum Ends {
    /// Exit code 0.
    Well,
    /// It says what it found: any exit code but that of wrong input.
    Answers,
    /// It is wrong input, told with these words, and nothing is left.
    Refused(&'static str),
}

use Ends::{Answers, Refused, Well};

/// A command of the documents.
struct Row {
    /// As it is printed, without `sudo` and comments.
    printed: &'static str,
    /// As it is typed here, one command after the other where it needs an earlier one; or, behind `not: `, why it is not.
    typed: &'static str,
    ends: Ends,
    /// Why it is refused to anybody but root, if it is.
    root_only: Option<&'static str>,
    /// What it needs of the machine: stores whose programs are there.
    stores: &'static [&'static str],
}

/// What keeps a run short.
macro_rules! short {
    ($words:literal) => {
        concat!($words, " --blobs 12 --rounds 1 --quiet --no-drop-caches")
    };
}

/// What keeps a run short that is typed for its stores or sizes: which phases it has by default is seen by the first row.
macro_rules! short_phases {
    ($words:literal) => {
        concat!($words, " --blobs 12 --rounds 1 --quiet --no-drop-caches --phases fill,read-warm")
    };
}

/// What keeps a growth short.
macro_rules! short_growth {
    ($words:literal) => {
        concat!($words, " --rounds 1 --quiet --phases fill,read-warm")
    };
}

/// What keeps tests of a disk short.
macro_rules! short_disk {
    ($words:literal) => {
        concat!($words, " --size 1MB --files 10 --rounds 1 --seconds 0.01 --threads 1")
    };
}

const fn row(printed: &'static str, typed: &'static str) -> Row {
    Row { printed, typed, ends: Well, root_only: None, stores: &[] }
}

/// One that needs the programs of these stores.
const fn for_stores(stores: &'static [&'static str], row: Row) -> Row {
    Row { stores, ..row }
}

/// One that says what it found.
const fn answers(row: Row) -> Row {
    Row { ends: Answers, ..row }
}

/// One for root alone.
const fn by_root(words: &'static str, row: Row) -> Row {
    Row { root_only: Some(words), ..row }
}

const MOUNT: &str = "needs the right to mount: run as root";
const LIMIT: &str = "memory cannot be limited here";

const POSTGRES: &[&str] = &["postgres/bytea"];
const OWN: &[&str] = &[concat!("own:", env!("CARGO_MANIFEST_DIR"), "/examples/own-store/mystore.toml")];

const TABLE: &[Row] = &[
    row("cargo run --release -- run", "not: it builds the program; `blobwise run` is below"),
    row("./test.sh", "not: it is what runs this test"),
    row("podman build -t blobwise .", "not: it builds the program, on images of a registry"),
    row(
        "podman run --rm -v /var/www/uploads:/data:ro -v \"$PWD:/results\" blobwise run --files /data --budget 4m --out /results/uploads",
        "not: it needs the image of the command above",
    ),
    // ---- runs
    row("blobwise run --files /var/www/uploads", short!("run --files uploads")),
    for_stores(
        POSTGRES,
        row(
            "blobwise run --stores files/hashed,sqlite,postgres/bytea",
            short_phases!("run --stores files/hashed,sqlite,postgres/bytea"),
        ),
    ),
    row(
        "blobwise run --stores files/hashed,sqlite --baselines",
        short!("run --stores files/hashed,sqlite --baselines --phases fill,read-warm,read-cold"),
    ),
    row(
        "blobwise run --sweep 1kB..10MB --stores files/hashed,sqlite --budget 6m",
        short!("run --sweep 1kB..10kB --stores files/hashed,sqlite --budget 6m"),
    ),
    row(
        "blobwise run --sweep 1kB..1MB --stores files/hashed,sqlite",
        short!("run --sweep 1kB..10kB --stores files/hashed,sqlite"),
    ),
    row(
        "blobwise run --grow 1k..1M --stores files/hashed,sqlite,lmdb",
        short_growth!("run --grow 10,20 --stores files/hashed,sqlite,lmdb"),
    ),
    row(
        "blobwise run --grow 1k..100k --expect 10M --stores files/hashed,sqlite,lmdb,postgres/bytea",
        short_growth!("run --grow 10,12,14,17,20 --expect 50 --stores files/hashed,sqlite,lmdb"),
    ),
    row(
        "blobwise run --age 0..8 --stores files/hashed,sqlite,redb",
        short!("run --age 0,0.5 --stores files/hashed,sqlite,redb --phases fill,read-warm"),
    ),
    row(
        "blobwise run --age 0..8 --age-by turnover,zipfian:0.99 --stores files/hashed,sqlite,redb",
        short!(
            "run --age 0,0.5 --age-by turnover,zipfian:0.99 --stores files/hashed,sqlite,redb --phases fill,read-warm"
        ),
    ),
    row(
        "blobwise run --age 0..8 --phases fill,read-cold,rejuvenate --stores files/hashed,sqlite,lmdb,redb",
        short!("run --age 0,0.5 --phases fill,read-warm,rejuvenate --stores files/hashed,sqlite,lmdb,redb"),
    ),
    by_root(
        MOUNT,
        row(
            "blobwise run --age 0..8 --on ext4@50%,ext4@90% --stores files/hashed,sqlite,redb",
            short!("run --age 0,0.5 --on ext4@50% --stores files/hashed --phases fill,read-warm"),
        ),
    ),
    row(
        "blobwise run --stores files/hashed,sqlite --set sqlite.page_size=1024,4096,65536 --sweep 10kB,100kB,1MB --reference files/hashed",
        short!(
            "run --stores files/hashed,sqlite --set sqlite.page_size=1024,4096 --sweep 1kB,10kB --reference files/hashed"
        ),
    ),
    by_root(
        LIMIT,
        row(
            "blobwise run --memory 25% --stores files/hashed,sqlite,lmdb",
            "run --memory 25% --stores files/hashed,sqlite,lmdb --corpus fixed:1MB --blobs 20 --rounds 1 --phases fill,read-warm --quiet",
        ),
    ),
    for_stores(
        POSTGRES,
        by_root(
            MOUNT,
            row(
                "blobwise run --on ext4,xfs,btrfs --stores sqlite,postgres/bytea",
                // For a server an image has 2.5 GB, which is written for each candidate.
                short!("run --on xfs --stores postgres/bytea --phases fill,read-warm"),
            ),
        ),
    ),
    row(
        "blobwise run --rate 500 --workers 8",
        short!("run --rate 500 --workers 8 --stores files/hashed --phases fill,read-warm,overwrite"),
    ),
    for_stores(
        &["nginx"],
        row(
            "blobwise run --stores nginx --set nginx.http=1.1,2 --set nginx.tls=false,true",
            short_phases!("run --stores nginx --set nginx.http=1.1,2 --set nginx.tls=false,true"),
        ),
    ),
    row(
        "blobwise run --durability each-write --workers 4",
        // The fill is in a weaker class, and reads are in none.
        short!(
            "run --durability each-write --workers 4 --stores files/hashed,sqlite --phases fill,overwrite"
        ),
    ),
    for_stores(
        &["nginx", "apache-php/readfile"],
        row(
            "blobwise run --stores nginx,apache-php/readfile --workers 4 --limit p99=50ms",
            // A rung has ops enough for its percentile.
            short!("run --stores nginx --workers 4 --limit p50=50ms --scale 0.02 --preview"),
        ),
    ),
    for_stores(
        POSTGRES,
        row(
            "blobwise run --stores files/hashed --set files/hashed.catalogue=sqlite,postgres --phases fill,register,release",
            short!(
                "run --stores files/hashed --set files/hashed.catalogue=sqlite,postgres --phases fill,register,release"
            ),
        ),
    ),
    for_stores(
        OWN,
        row(
            "blobwise run --stores files/hashed,own:examples/own-store/mystore.toml,own:examples/own-store/null.toml",
            short_phases!(
                "run --stores files/hashed,own:examples/own-store/mystore.toml,own:examples/own-store/null.toml"
            ),
        ),
    ),
    row(
        "blobwise check-store own:examples/own-store/mystore.toml",
        "not: the conformance suite runs these checks on it",
    ),
    row("blobwise run plan.toml --fail-on-refuted", "run plan.toml --fail-on-refuted --quiet"),
    row("blobwise run plan.toml --out old", "run plan.toml --out old --quiet"),
    row("blobwise run plan.toml --out new", "not: it is the same, but for the name"),
    row("blobwise run DIR/plan.toml", "run RUN/plan.toml --dir . --quiet"),
    row(
        "blobwise run --stores files/hashed,sqlite --phases fill,operate",
        short!("run --stores files/hashed,sqlite --phases fill,operate"),
    ),
    for_stores(
        POSTGRES,
        row(
            "blobwise run --stores postgres/bytea,postgres/large-object --set postgres.url=URL",
            short_phases!("run --stores postgres/bytea,postgres/large-object --set postgres.url=URL"),
        ),
    ),
    for_stores(
        &["postgres/bytea", "s3"],
        row(
            "blobwise run --files /var/www/uploads --stores files/hashed,sqlite,postgres/bytea,s3",
            short_phases!("run --files uploads --stores files/hashed,sqlite,postgres/bytea,s3"),
        ),
    ),
    row(
        "blobwise run --files /var/www/uploads --stores files/hashed,sqlite,postgres/bytea,s3 --prices prices.toml --load \
         reads=2e7,writes=1e6,stored=500GB,growth=3%",
        short!(
            "run --files uploads --stores files/hashed,sqlite --prices prices.toml --load reads=2e7,writes=1e6,stored=500GB,growth=3%"
        ),
    ),
    // ---- plans that ship
    row("blobwise run horak-2010 --scale 0.1", "not: tests/cli/results.rs runs each plan at its smallest"),
    row(
        "blobwise run horak-2010 --scale 0.02 --preview",
        "not: tests/cli/results.rs runs each plan at its smallest",
    ),
    row(
        "blobwise run vondra-2009 --corpora tiny",
        "not: tests/cli/results.rs runs each plan at its smallest",
    ),
    row("blobwise run all --scale 0.01 --preview", "not: tests/cli/collections.rs runs a plan of plans"),
    row("blobwise page", "not: tests/page.rs loads pages"),
    row("blobwise run page --set page.rtt=20", "not: tests/page.rs loads pages at distances of its own"),
    // ---- results
    answers(row("blobwise compare LAST~1 LAST", "compare RUN RUN")),
    answers(row("blobwise compare old new --fall 10% --strict", "compare RUN RUN --fall 10% --strict")),
    row(
        "blobwise compare --plan plan.toml --old ./a --new ./b",
        "not: tests/cli/guards.rs has two programs measure in turn",
    ),
    row("blobwise explain RUN sqlite read-cold", "explain RUN sqlite read-cold"),
    row("blobwise report LAST --tables", "report RUN --tables"),
    row("blobwise report LAST", "report RUN"),
    row("blobwise report --csv RUN", "report --csv RUN"),
    row("blobwise report --prices-template", "report --prices-template"),
    row(
        "blobwise report blobwise-runs/NEW --prices prices.toml --load reads=2e7,writes=1e6,stored=500GB",
        "report RUN --prices prices.toml --load reads=2e7,writes=1e6,stored=500GB",
    ),
    row(
        "blobwise report RUN --mix read=0.95,overwrite=0.05 --need ranges",
        "report RUN --mix read=0.95,overwrite=0.05 --need ranges",
    ),
    row("blobwise report BEFORE AFTER OTHER-MACHINE --out site", "report RUN AGAIN --out site"),
    row("blobwise report TINY SMALL MEDIUM LARGE --out VONDRA", "report RUN AGAIN --out VONDRA"),
    // ---- lists
    row("blobwise list", "list"),
    row("blobwise list stores", "list stores"),
    row("blobwise list plans", "list plans"),
    row("blobwise list plans horak-2010", "list plans horak-2010"),
    row("blobwise corpus --files DIR", "corpus --files uploads"),
    // ---- logs
    row("blobwise trace access.log", "trace access.log"),
    row("blobwise trace access.log --json", "trace access.log --json"),
    row(
        "blobwise trace requests.csv --columns time,op,key,-,bytes",
        "trace requests.csv --columns time,op,key,-,bytes",
    ),
    row("xz -dc access.log.xz | blobwise trace -", "not: it needs a shell; tests/cli/trace.rs has a pipe"),
    row("blobwise run --trace access.log", short!("run --trace access.log")),
    row("blobwise run --trace access.log --files /srv/www", short!("run --trace access.log --files uploads")),
    row(
        "blobwise run --trace access.log --limit p99=50ms",
        short!("run --trace access.log --limit p50=50ms"),
    ),
    row(
        "blobwise run --trace access.log --speed 10 --workers 4 --sample 5% --budget 20m",
        "run --trace access.log --speed 10 --workers 4 --sample 100% --budget 20m --rounds 1 --quiet --no-drop-caches",
    ),
    // ---- power cuts and disks
    by_root(
        MOUNT,
        row("blobwise crash", "crash --stores files/hashed,sqlite --durability on-sync --cuts 2 --kills 0"),
    ),
    row("blobwise crash --stores files/hashed,sqlite", "not: `blobwise crash` is typed with these stores"),
    for_stores(
        &["postgres/bytea", "mariadb/blob"],
        by_root(
            MOUNT,
            row(
                "blobwise crash --stores postgres/bytea,mariadb/blob --durability each-write --cuts 60",
                "crash --stores postgres/bytea,mariadb/blob --durability each-write --cuts 1 --kills 0",
            ),
        ),
    ),
    by_root(
        MOUNT,
        row(
            "blobwise crash --stores files/hashed,sqlite --fs ext4,xfs,btrfs --html cuts.html",
            "crash --stores files/hashed --fs xfs --html cuts.html --durability on-sync --cuts 1 --kills 0",
        ),
    ),
    for_stores(
        POSTGRES,
        by_root(
            MOUNT,
            row(
                "blobwise crash --uploads --set files/hashed.catalogue=sqlite,postgres --stores files/hashed",
                "crash --uploads --set files/hashed.catalogue=sqlite,postgres --stores files/hashed --durability each-write --cuts 1 --kills 0",
            ),
        ),
    ),
    row("blobwise disk", short_disk!("disk")),
    row("blobwise disk --dir /var/lib/postgresql", short_disk!("disk --dir other")),
    by_root(MOUNT, row("blobwise disk --on ext4,xfs,btrfs", short_disk!("disk --on ext4,xfs,btrfs"))),
    by_root(
        MOUNT,
        row(
            "blobwise disk --on ext4,xfs,btrfs-raid0:4 --device-limit 50MB/s",
            short_disk!("disk --on ext4,xfs,btrfs-raid0:4 --device-limit 50MB/s"),
        ),
    ),
    // ---- the doctor
    answers(row("blobwise doctor --for 60s", "doctor --for 1s")),
    answers(row("blobwise doctor --for 60s --html doctor.html", "doctor --for 1s --html doctor.html")),
    answers(row("blobwise doctor --for 60s --save before", "doctor --for 1s --save before")),
    answers(row(
        "blobwise doctor --for 60s --against before",
        "doctor --for 1s --save before; doctor --for 1s --against before",
    )),
    for_stores(
        POSTGRES,
        answers(row(
            "blobwise doctor --url postgres://USER:PASSWORD@HOST/DATABASE --for 60s",
            "doctor --url URL --for 1s",
        )),
    ),
];

pub fn trials() -> Vec<Trial> {
    let made: Made = Arc::new(LazyLock::new(made));
    let mut trials = vec![Trial::test(
        "every command of the documents is in the table of those that are typed",
        every_one,
    )];
    for row in TABLE.iter().filter(|row| !row.typed.starts_with("not: ")) {
        let lacks = || row.stores.iter().find_map(|store| missing(store));
        let is_root = rustix::process::geteuid().is_root();
        let (ours, theirs) = (Arc::clone(&made), Arc::clone(&made));
        if row.root_only.is_some() {
            let no_root = (!is_root).then(|| "needs root".to_owned());
            trials.push(needing(
                &format!("`{}` typed by root", row.printed),
                no_root.or_else(lacks),
                move || typed(row, &ours, false),
            ));
        }
        let unreached = if is_root { nobody_else() } else { None };
        trials.push(needing(
            &format!("`{}` typed by a user", row.printed),
            unreached.or_else(lacks),
            move || typed(row, &theirs, true),
        ));
    }
    trials
}

/// The commands of a page: those of its blocks for a shell, and what begins with the program's name elsewhere.
fn commands(page: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
    let mut found = BTreeSet::new();
    let mut add = |line: &str| {
        let line = line.split(" #").next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "sudo").collect();
        if !words.is_empty() && !words[0].starts_with('#') {
            found.insert(words.join(" "));
        }
    };
    for (part, block) in text.split("```").enumerate() {
        match block.strip_prefix("sh\n") {
            Some(script) if part % 2 == 1 => script.replace("\\\n", " ").lines().for_each(&mut add),
            _ if part % 2 == 1 => {}
            _ => {
                let spans = block.split('`').skip(1).step_by(2);
                let is_command = |span: &&str| span.trim_start_matches("sudo ").starts_with("blobwise ");
                spans.filter(is_command).for_each(&mut add);
            }
        }
    }
    found
}

/// Nothing that is printed is untried without a reason, and nothing is typed with other flags than are printed.
fn every_one() -> Outcome {
    let printed: BTreeSet<String> = PAGES.iter().flat_map(|page| commands(page)).collect();
    assert!(printed.len() > 50, "{printed:#?}");
    let known: BTreeSet<String> = TABLE.iter().map(|row| row.printed.to_owned()).collect();
    assert_eq!(known.len(), TABLE.len(), "one is there twice");
    let (new, gone): (Vec<_>, Vec<_>) =
        (printed.difference(&known).collect(), known.difference(&printed).collect());
    assert!(new.is_empty() && gone.is_empty(), "not in the table: {new:#?}\nin no document: {gone:#?}");
    for row in TABLE.iter().filter(|row| !row.typed.starts_with("not: ")) {
        let words: Vec<&str> = row.typed.split_whitespace().collect();
        let of_printed = row.printed.split_whitespace().skip(1);
        let mut lost = of_printed.enumerate().filter(|(at, word)| *at == 0 || word.starts_with("--"));
        let first = lost.find(|(_, word)| !words.contains(word));
        assert_eq!(first, None, "{} is typed as {}", row.printed, row.typed);
    }
    Ok(())
}

/// Directories that every command has a copy of, and programs that another user reaches.
struct Names {
    work: Work,
    programs: Work,
}

type Made = Arc<LazyLock<Names>>;

/// A plan whose claim holds on every machine.
const PLAN: &str = "
stores = ['files/hashed', 'sqlite']
phases = ['fill', 'read-warm', 'read-cold', 'overwrite']
rounds = 2
drop_caches = false
[corpus]
source = 'fixed:4kB'
blobs = 12
[[claim]]
id = 'READS'
statement = 'Warm reads take less than a minute'
phase = 'fill'
quantity = 'value'
metric = 'memory'
candidates = ['files/hashed']
expect = { low = '1B' }
";

const PRICES: &str =
    "date = 2026-11-01\ngb_month = 0.1\n[machine]\nmonth = 50.0\nprocessors = 2\nmemory_gb = 8.0\n";

/// The names that commands find: files of the user's, another directory, a plan, prices, results. Programs below root's home are
/// copied once.
fn made() -> Names {
    let work = Work::new();
    for dir in ["uploads", "other"] {
        std::fs::create_dir(work.path(dir)).unwrap();
    }
    for file in 0..40 {
        std::fs::write(work.path(&format!("uploads/{file}")), vec![file; 500 + 40 * usize::from(file)])
            .unwrap();
    }
    std::fs::create_dir(work.path("examples")).unwrap();
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/own-store"));
    copied(examples, &work.path("examples/own-store")).unwrap();
    std::fs::write(work.path("plan.toml"), PLAN).unwrap();
    std::fs::write(work.path("prices.toml"), PRICES).unwrap();
    let requests = "192.0.2.1 - - [30/Nov/2026:09:00:02 +0000] \"GET /7 HTTP/1.1\" 200 780\n";
    std::fs::write(work.path("access.log"), requests.repeat(9)).unwrap();
    std::fs::write(work.path("requests.csv"), "1,get,a,x,500\n2,put,a,x,500\n").unwrap();
    // A run with claims has no advice, and so no month and no mix.
    let without_claims = PLAN.split("[[claim]]").next().unwrap();
    std::fs::write(work.path("without-claims.toml"), without_claims).unwrap();
    for run in ["RUN", "AGAIN"] {
        work.say(&format!("run without-claims.toml --quiet --out {run}")).ended(0);
    }
    let programs = Work::new();
    copied(Path::new(BLOBWISE), &programs.path("program")).unwrap();
    if missing("s3").is_none() {
        copied(&crate::theirs::program("s3"), &programs.path("weed")).unwrap();
    }
    Names { work, programs }
}

/// Types a command in a directory of its own that has all these names.
fn typed(row: &Row, made: &Made, by_a_user: bool) -> Outcome {
    let work = Work::new();
    let here = work.path(".");
    copied(&made.work.path("."), &here)?;
    // Another user may do here as the owner may, and has the programs from here.
    let other = by_a_user && rustix::process::geteuid().is_root();
    let weed = work.path("weed");
    if other {
        std::fs::hard_link(made.programs.path("program"), work.path("program"))?;
        if row.stores.contains(&"s3") {
            std::fs::hard_link(made.programs.path("weed"), &weed)?;
        }
        let owned = Command::new("chown").args(["-R", "65534:65534"]).arg(&here).status()?;
        assert!(owned.success());
    }
    std::fs::set_permissions(&here, PermissionsExt::from_mode(0o755))?;
    let before = left(&work);
    let expected = row.root_only.filter(|_| by_a_user).map_or(row.ends, Refused);
    let server: Option<Theirs> = row.typed.contains("URL").then(|| postgres(&[]));
    let url = server.as_ref().map_or(String::new(), |server| server.url.clone());
    for line in row.typed.split("; ") {
        let line = line.replace("URL", &url);
        let mut command = work.command(if other { "setpriv" } else { BLOBWISE });
        if other {
            command.args(NOBODY).arg(work.path("program")).env("HOME", &here);
        }
        if weed.exists() {
            command.env("BLOBWISE_WEED", &weed);
        }
        let said = finish(command.args(line.split_whitespace()));
        check(row, &line, &said, expected);
    }
    if let Refused(_) = expected {
        assert_eq!(left(&work), before, "a refused command leaves nothing");
    }
    // What a run made beside its results is gone.
    let ours: Vec<String> = left(&work)
        .into_iter()
        .filter(|name| name.starts_with("blobwise-") && name != "blobwise-runs")
        .collect();
    assert!(ours.is_empty(), "{ours:?}");
    Ok(())
}

fn left(work: &Work) -> BTreeSet<String> {
    work.names(".").into_iter().collect()
}

#[track_caller]
fn check(row: &Row, line: &str, said: &Said, expected: Ends) {
    let is = match expected {
        Well => said.code == Some(0),
        Answers => said.code.is_some_and(|code| code != 2) && !said.stdout.is_empty(),
        Refused(words) => said.code == Some(2) && said.stderr.contains(words),
    };
    assert!(is, "`{}`, typed as `{line}`: {:?}\n{}\n{}", row.printed, said.code, said.stdout, said.stderr);
}
