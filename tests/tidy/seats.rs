//! What has to be touched for something new, counted: a store is its file or folder and its line in the table of its family, a
//! section of the reports is its file and two lines. What else names one is listed, with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use blobwise::stores::{self, Entry};
use proc_macro2::TokenTree;

use super::modules::is_sign;
use super::prose::compiled;
use super::{ROOT, document, files, folders, read, short, sources};

/// Sources that name a store that is not theirs, and why. A new store adds none.
const NAMES_STORES: &[(&str, &str)] = &[
    ("src/cli/selftest/trials.rs", "two stores that every machine has stand for all in the trials"),
    (
        "crates/doctor/src/doctor",
        "a machine's databases are told from their neighbours, and servers are asked each in its own way",
    ),
    (
        "crates/plan/src/plan/text/mod.rs",
        "what a run measures where nothing is named: a choice, not a list of all",
    ),
    ("crates/plan/src/plan/text/resolve.rs", "what the others are compared with where nothing is named"),
    ("crates/stores/src/store/every.rs", "where uploads may be registered"),
    (
        "crates/stores/src/stores/baseline/mod.rs",
        "a baseline without anything but the calls, made of files in directories",
    ),
    ("crates/stores/src/stores/cache/mod.rs", "a cache that is files in a directory in memory"),
    ("crates/stores/src/stores/delivery/mod.rs", "web servers that send what another store keeps"),
    ("crates/stores/src/stores/delivery/web", "the same"),
    (
        "crates/stores/src/stores/own",
        "a server of the user's that speaks the protocol of Redis is asked for its room",
    ),
    ("crates/stores/src/stores/common/removal.rs", "servers that start say so, each by an error of its own"),
    ("crates/stores/src/stores/page", "pages are served by a web server"),
    ("crates/stores/src/wire", "protocols have the names of who speaks them"),
];

/// A store's module: its file or folder, and the names that its lines give it.
struct Seat {
    family: String,
    module: String,
    own: PathBuf,
    names: BTreeSet<String>,
}

/// The text between the first pair of quotes.
fn quoted(text: &str) -> Option<&str> {
    text.split('"').nth(1)
}

/// Every module of every family, from the tables.
fn seats() -> Vec<Seat> {
    let mut seats = Vec::new();
    for family in folders(&Path::new(ROOT).join("crates/stores/src/stores")) {
        let table = family.join("mod.rs");
        if !table.exists() || !read(&table).contains("const TABLE") {
            continue;
        }
        let text = read(&table);
        let (_, lines) = text.split_once("const TABLE").unwrap();
        for module in text.lines().filter_map(|line| line.trim().split_once("mod ")?.1.strip_suffix(';')) {
            // Plain words, and the scheme of a URL.
            let is_word = |name: &String| ["http", "memory", "null"].contains(&name.as_str());
            let in_table = lines
                .lines()
                .filter(|line| line.contains(&format!(" {module}::")))
                .filter_map(|line| Some(quoted(line.split(" as ").nth(1)?)?.to_owned()));
            let file = family.join(format!("{module}.rs"));
            let own = if file.exists() { file } else { family.join(module) };
            // Those that are always there are named by themselves.
            let of_table: BTreeSet<&str> = stores::table().map(Entry::name).collect();
            let texts = sources("crates/stores/src/stores").into_iter().filter(|path| path.starts_with(&own));
            let by_themselves: Vec<String> = texts
                .flat_map(|path| {
                    let text = read(&path);
                    let named = text.lines().filter_map(|line| line.trim().strip_prefix("name: "));
                    named.filter_map(|rest| Some(quoted(rest)?.to_owned())).collect::<Vec<String>>()
                })
                .filter(|name| of_table.contains(name.as_str()))
                .collect();
            let names = in_table.chain(by_themselves).filter(|name| !is_word(name)).collect();
            let family = family.file_name().unwrap().to_string_lossy().into_owned();
            seats.push(Seat { family, module: module.to_owned(), own, names });
        }
    }
    seats
}

/// Whether these tokens of a source name a store: one of its names as a whole text, or its module.
fn names(tokens: &[TokenTree], seat: &Seat) -> bool {
    let is = |at: usize, word: &str| matches!(tokens.get(at), Some(TokenTree::Ident(found)) if found == word);
    let sign = |at: usize| tokens.get(at).is_some_and(|token| is_sign(token, ':'));
    tokens.iter().enumerate().any(|(at, token)| match token {
        TokenTree::Literal(literal) => {
            let text = literal.to_string();
            let text = text.trim_matches('"');
            seat.names.contains(text) || text == seat.module && at > 1 && is(at - 2, "feature")
        }
        TokenTree::Ident(found) => {
            *found == seat.family && sign(at + 1) && sign(at + 2) && is(at + 3, &seat.module)
        }
        _ => false,
    })
}

#[test]
fn a_store_is_its_file_or_folder_and_its_line() {
    let seats = seats();
    assert!(seats.len() > 15, "{} stores", seats.len());
    let sources: Vec<(PathBuf, Vec<TokenTree>)> = sources("src")
        .into_iter()
        .map(|path| {
            let mut tokens = Vec::new();
            compiled(read(&path).parse().unwrap(), &mut tokens);
            (path, tokens)
        })
        .collect();
    let mut wrong = Vec::new();
    let mut needed: BTreeSet<&str> = BTreeSet::new();
    for seat in &seats {
        let table = seat.own.parent().unwrap().join("mod.rs");
        let others = sources.iter().filter(|(path, _)| !path.starts_with(&seat.own) && *path != table);
        for (path, _) in others.filter(|(_, tokens)| names(tokens, seat)) {
            let path = short(path);
            match NAMES_STORES.iter().find(|(known, _)| path.starts_with(known)) {
                Some((known, _)) => drop(needed.insert(known)),
                None => wrong.push(format!("{path} names `{}`", seat.module)),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let idle: Vec<&str> =
        NAMES_STORES.iter().map(|(known, _)| *known).filter(|known| !needed.contains(known)).collect();
    assert!(idle.is_empty(), "{idle:?} name no store any more");
}

/// What a private server needs is installed by `test.sh`, or fetched by it, or cannot be had for tests.
#[test]
fn a_server_of_a_store_is_a_line_in_the_script_of_tests() {
    /// Not in Debian 12, or not by that name there: tests have them from elsewhere, or do without.
    const ELSEWHERE: &[&str] =
        &["mongodb-org", "mysql-server", "valkey-server", "postgresql-15", "postgresql-17", "postgresql-18"];
    let script = document("test.sh");
    let packages: BTreeMap<String, String> = sources("crates/stores/src/stores")
        .into_iter()
        .flat_map(|path| {
            let text = read(&path);
            let found = text.split("apt-get install ").skip(1).map(|rest| {
                let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
                (rest[..end.unwrap_or(rest.len())].to_owned(), short(&path))
            });
            found.collect::<Vec<_>>()
        })
        .collect();
    assert!(packages.len() > 10, "{packages:?}");
    for (package, path) in packages.iter().filter(|(package, _)| !ELSEWHERE.contains(&package.as_str())) {
        let is_installed = script.split([' ', '\n']).any(|word| word == package);
        assert!(is_installed, "`{package}` of {path} is not in test.sh");
    }
}

/// What is fetched stands in one table of the script of tests, whole, and whoever else names a version of it names the same.
#[test]
fn what_is_fetched_for_tests_has_one_version() {
    let script = document("test.sh");
    let table = script.split_once("\nfetched='\n").unwrap().1.split_once("\n'").unwrap().0;
    let texts: Vec<(String, String)> = sources("src")
        .into_iter()
        .chain(
            files("tests", "rs")
                .into_iter()
                .filter(|path| !path.starts_with(Path::new(ROOT).join("tests/tidy"))),
        )
        .chain(["docs/servers.md", "README.md", "CONTRIBUTING.md"].map(|name| Path::new(ROOT).join(name)))
        .map(|path| (short(&path), read(&path)))
        .collect();
    let (mut named, mut wrong) = (0, Vec::new());
    for row in table.lines() {
        let columns: Vec<&str> = row.split_whitespace().collect();
        let [name, version, how, from, megabytes, seconds, when, _licence, sum] = columns[..] else {
            panic!("not all columns: {row}")
        };
        assert!(megabytes.parse::<u32>().is_ok() && seconds.parse::<u32>().is_ok(), "{row}");
        assert!(["always", "ci"].contains(&when) && script.contains(&format!("\nby_{how}() {{")), "{row}");
        // Who checks by the registry's own sums, or a sum.
        let is_hex = sum.len() == 64 && sum.chars().all(|sign| sign.is_ascii_hexdigit());
        assert!(["apt", "cargo", "maven"].contains(&sum) || sum.starts_with("h1:") || is_hex, "{row}");
        let forms = [
            format!("{from}=="),
            format!("cargo install {from} --version "),
            format!("{from}/cmd/{name}@"),
            // Servers are found in any version; this is asked for by its directory.
            if how == "peer" { format!("blobwise/{name}-") } else { format!("{name}-{version} of ") },
        ];
        let release = format!(" of https://{from}/releases");
        for (path, text) in &texts {
            let behind = forms.iter().flat_map(|form| text.split(form.as_str()).skip(1));
            let mut is_same: Vec<bool> = behind.map(|found| found.starts_with(version)).collect();
            let before = text.split(release.as_str()).collect::<Vec<_>>();
            is_same.extend(
                before.iter().rev().skip(1).map(|found| found.ends_with(&format!("version {version}"))),
            );
            named += is_same.len();
            if is_same.contains(&false) {
                wrong.push(format!("{path}: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "the table in test.sh has other versions: {wrong:#?}");
    assert!(named >= 6, "{named}");
}

/// A section is its file and its two lines: nothing else has its constant.
#[test]
fn a_section_of_the_reports_is_one_file_and_two_lines() {
    let own: Vec<PathBuf> = sources("crates/report/src/report")
        .into_iter()
        .filter(|path| read(path).contains("const SECTION:"))
        .collect();
    assert!(!own.is_empty());
    for path in own {
        let module = path.file_stem().unwrap().to_string_lossy().into_owned();
        let lines = |text: &str| {
            let names = |line: &&str| {
                line.contains(&format!("{module}::")) || line.trim() == format!("mod {module};")
            };
            text.lines().filter(names).count()
        };
        let touched: Vec<(String, usize)> = sources("src")
            .iter()
            .filter(|other| **other != path && !other.ends_with("tests.rs"))
            .map(|other| (short(other), lines(&read(other))))
            .filter(|(other, lines)| *lines > 0 && other.starts_with("crates/report/src/report"))
            .collect();
        let wanted = [
            ("crates/report/src/report/mod.rs".to_owned(), 1),
            ("crates/report/src/report/sections.rs".to_owned(), 1),
        ];
        assert_eq!(touched, wanted, "{module}");
    }
}
