//! What the sources and the documents must keep to, beyond what the compiler and the lints see.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "tidy/modules.rs"]
mod modules;
#[path = "tidy/pictures.rs"]
mod pictures;
#[path = "tidy/prose.rs"]
mod prose;
#[path = "tidy/rules.rs"]
mod rules;
#[path = "tidy/seats.rs"]
mod seats;

use blobwise::engine::work::ResolvePlan;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use blobwise::engine::work::standard;
use blobwise::plan::{ALL_PHASES, COMMON, DEFAULT_PHASES, DEFAULT_PHASES_TIGHT, PlanText, SHIPPED, defaults};
use blobwise::store::{Adapter, Backup, Kind, OptionSpec, Values};
use blobwise::stores::rights::{Right, RightFallback, TABLE};
use blobwise::stores::{self, Entry};
use blobwise::units;
use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The files with an extension below a folder of the project; below `src`, those of every crate.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = below(&Path::new(ROOT).join(folder), extension);
    if folder == "src" {
        found.extend(crates().iter().flat_map(|home| below(&home.join("src"), extension)));
    }
    assert!(!found.is_empty(), "no .{extension} files below {folder}");
    found
}

fn below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The folders in a folder.
fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

/// The folders of the crates below the program.
fn crates() -> Vec<PathBuf> {
    folders(&Path::new(ROOT).join("crates"))
}

/// The sources below a folder that are compiled into the program.
fn sources(below: &str) -> Vec<PathBuf> {
    let is_test = |path: &PathBuf| path.ends_with("tests.rs") || path.ends_with("fixture.rs");
    files(below, "rs").into_iter().filter(|path| !is_test(path)).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn document(name: &str) -> String {
    read(&Path::new(ROOT).join(name))
}

fn short(path: &Path) -> String {
    path.strip_prefix(ROOT).unwrap().display().to_string()
}

/// The lines of a source that are compiled into the program: no comments, no tests (which stand at the end of a file).
fn code(text: &str) -> impl Iterator<Item = &str> {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

#[test]
fn engine_statistics_and_reports_name_no_store() {
    let mut stores: BTreeSet<String> = stores::table().map(|entry| entry.name().to_owned()).collect();
    // A family's name is a store's name as well.
    stores.extend(
        stores::table().filter_map(|entry| entry.name().split_once('/')).map(|(family, _)| family.to_owned()),
    );
    // Two baselines, plain words, and a method of iterators.
    for word in ["null", "memory", "files", "page", "http", "zip"] {
        stores.remove(word);
    }
    let mut wrong = Vec::new();
    for below in ["crates/engine/src/engine", "crates/judge/src/judge", "crates/report/src/report"] {
        for path in sources(below) {
            for line in code(&read(&path)) {
                let words: BTreeSet<&str> =
                    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '/').collect();
                wrong.extend(
                    words
                        .iter()
                        .filter(|word| stores.contains(**word))
                        .map(|word| format!("{}: {word}", short(&path))),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Adapters neither read a clock nor print; statistics and reports do no input or output. JSON is read as text.
#[test]
fn modules_keep_to_what_they_are_for() {
    const RULES: &[(&str, &[&str])] = &[
        (
            "crates/stores/src/stores",
            &["Instant::", "SystemTime::", "uptime(", "println!", "eprintln!", "print!(", "clock::"],
        ),
        ("crates/judge/src/judge", &["std::fs", "std::io", "std::env", "std::process", "File::"]),
        ("crates/report/src/report", &["std::fs", "std::io", "std::env", "std::process", "File::"]),
        ("crates/engine/src/engine", &["println!", "eprintln!", "print!("]),
        // Every type would have its reader in the program once more, for each thing that it is read from.
        ("src", &["serde_json::from_slice", "serde_json::from_reader"]),
    ];
    let mut wrong = Vec::new();
    for (below, never) in RULES {
        for path in files(below, "rs") {
            for line in code(&read(&path)) {
                wrong.extend(
                    never
                        .iter()
                        .filter(|word| line.contains(**word))
                        .map(|_| format!("{}: {}", short(&path), line.trim())),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A crate that nothing names is built, checked and updated for nothing.
#[test]
fn declared_crates_are_used() {
    let mut unused = Vec::new();
    for home in crates().into_iter().chain([PathBuf::from(ROOT)]) {
        let manifest: toml::Table = read(&home.join("Cargo.toml")).parse().unwrap();
        let named = ["src", "tests", "bench", "examples"].map(|folder| home.join(folder));
        let named = named.iter().filter(|folder| folder.is_dir()).flat_map(|folder| below(folder, "rs"));
        let text = named.map(|path| read(&path)).collect::<Vec<_>>().join("\n");
        let tables = ["dependencies", "dev-dependencies"].map(|part| manifest.get(part));
        for name in tables.into_iter().flatten().flat_map(|table| table.as_table().unwrap().keys()) {
            let path = name.replace('-', "_");
            let is_named = text.match_indices(&path).any(|(at, _)| {
                let word = |c: char| c.is_alphanumeric() || c == '_';
                let (before, behind) = (&text[..at], &text[at + path.len()..]);
                !before.ends_with(word)
                    && (behind.starts_with("::") || before.ends_with("use ") && behind.starts_with(';'))
            });
            if !is_named {
                unused.push(format!("{name} of {}", home.display()));
            }
        }
    }
    assert!(unused.is_empty(), "no source names {unused:?}");
}

#[test]
fn every_source_says_what_it_is_for() {
    for below in ["src", "tests"] {
        for path in files(below, "rs") {
            assert!(read(&path).starts_with("//! "), "{} does not begin with what it is for", short(&path));
        }
    }
}

/// Every file and folder of a family is in the table of its family, and every family in the table of all.
#[test]
fn every_store_is_in_the_table() {
    let families = Path::new(ROOT).join("crates/stores/src/stores");
    for family in folders(&families).into_iter().chain([families]) {
        let table = read(&family.join("mod.rs"));
        for entry in std::fs::read_dir(&family).unwrap() {
            let name = entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
            let listed = name == "mod" || table.contains(&format!("mod {name};"));
            assert!(listed, "{name} is not in {}", short(&family.join("mod.rs")));
        }
    }
    let names: Vec<&str> = stores::table().map(Entry::name).collect();
    let unique: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(names.len(), unique.len(), "{names:?}");
}

/// Files that go by the name of a standard phase, and why they may. A new kind of work adds none.
const NAMES_PHASES: &[(&str, &str)] = &[
    ("src/cli/groups.rs", "names commands, of which one is called as a phase is"),
    ("src/cli/judging.rs", "`--load` is what a month is priced by"),
    ("src/cli/run.rs", "`--loads` is of pages"),
    ("src/cli/selftest/trials.rs", "the plan of a trial"),
    ("crates/stores/src/store/upload_catalog.rs", "a step of an upload is called like a phase"),
    ("crates/judge/src/judge/answer/mod.rs", "the questions that every run is asked"),
    ("crates/judge/src/judge/answer/sizes.rs", "the same, by size"),
    ("crates/judge/src/judge/cells.rs", "the steps of an upload"),
    ("crates/report/src/report/html/phases.rs", "the phases of these questions are open when the report is"),
    (
        "crates/report/src/report/view/describe.rs",
        "a check that would only lengthen the table, and the name of a column of pages",
    ),
];

/// The words in quotes behind the beginning of a line.
fn quoted_after<'t>(text: &'t str, begin: &'t str) -> impl Iterator<Item = String> + 't {
    let rest = text.lines().filter_map(move |line| line.trim().strip_prefix(begin));
    rest.filter_map(|rest| Some(format!("\"{}\"", rest.strip_prefix('"')?.split_once('"')?.0)))
}

/// A kind of work is its file and its line: no other source has the name that its phases give it, or theirs. Plans may: they say
/// what phases are called, and which there are by default.
#[test]
fn a_kind_of_work_is_one_file_and_one_line() {
    let table = document("crates/engine/src/engine/work/mod.rs");
    let (_, lines) = table.split_once("static TABLE").unwrap();
    let (lines, _) = lines.split_once("];").unwrap();
    let kinds = sources("crates/engine/src/engine/work");
    let kinds: Vec<&PathBuf> = kinds.iter().filter(|path| !path.ends_with("mod.rs")).collect();
    assert!(kinds.len() > 7, "{kinds:?}");
    let may = |path: &Path| {
        let path = short(path);
        ["crates/plan/src/plan/", "crates/stores/src/stores/", "crates/stores/src/wire/"]
            .iter()
            .any(|below| path.starts_with(below))
            || NAMES_PHASES.iter().any(|(known, _)| *known == path)
    };
    let others: Vec<(PathBuf, String)> = sources("src")
        .into_iter()
        .filter(|path| !may(path))
        .map(|path| {
            let text = read(&path);
            let code = code(&text).collect::<Vec<_>>().join("\n");
            (path, code)
        })
        .collect();
    let mut wrong = Vec::new();
    for file in kinds {
        let name = file.file_stem().unwrap().to_string_lossy();
        let own = lines.lines().filter(|line| line.trim().starts_with(&format!("&{name}::"))).count();
        if own != 1 || !table.contains(&format!("mod {name};")) {
            wrong.push(format!("{name} has {own} lines in the table"));
        }
        let text = read(file);
        let words: BTreeSet<String> =
            quoted_after(&text, "id: ").chain(quoted_after(&text, "const NAME: &str = ")).collect();
        assert!(!words.is_empty(), "{name} has no phase");
        for (other, code) in others.iter().filter(|(other, _)| other != file) {
            let found = words.iter().filter(|word| code.contains(*word));
            wrong.extend(found.map(|word| format!("{} names {word} of {name}", short(other))));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

// ---- documents ------------------------------------------------------------------------------------------------------

/// Every document, with its path from the root.
fn documents() -> Vec<String> {
    let root = std::fs::read_dir(ROOT).unwrap().map(|entry| entry.unwrap().path());
    let root = root.filter(|path| path.extension().is_some_and(|found| found == "md"));
    let all = root.chain(files("docs", "md")).chain(files("bench", "md"));
    all.map(|path| short(&path)).collect()
}

/// What stands in a document between `<!-- name -->` and `<!-- /name -->` is what was made. `BLOBWISE_BLESS=1` writes it again.
fn holds(name: &str, section: &str, made: &str) {
    let (begin, end) = (format!("<!-- {section} -->\n"), format!("<!-- /{section} -->"));
    let text = document(name);
    let (before, rest) = text.split_once(&begin).unwrap();
    let (shown, after) = rest.split_once(&end).unwrap();
    if std::env::var_os("BLOBWISE_BLESS").is_some() {
        std::fs::write(Path::new(ROOT).join(name), format!("{before}{begin}{made}{end}{after}")).unwrap();
        return;
    }
    assert!(shown == made, "{name} has other {section} than there are: run with BLOBWISE_BLESS=1");
}

/// The page of stores is what the program has.
#[test]
fn the_page_of_stores_lists_what_there_is() {
    let mut text = String::from(
        "| store | kind | what it is | what detects a changed byte |\n| --- | --- | --- | --- |\n",
    );
    for entry in stores::table() {
        text += &match (entry, entry.adapter()) {
            (_, Some(adapter)) => {
                let (kind, noticed_by) = (adapter.kind.name(), noticed_by(adapter));
                format!("| `{}` | {kind} | {} | {noticed_by} |\n", adapter.name, adapter.about)
            }
            (Entry::Impossible { name, why }, _) => format!("| `{name}` | | not possible: {why} | |\n"),
            (Entry::NotCompiled { name, feature, .. }, _) => {
                format!("| `{name}` | | with the cargo feature `{feature}` | |\n")
            }
            (Entry::Ready(_), None) => continue,
        };
    }
    holds("docs/stores.md", "stores", &text);
    holds("docs/stores.md", "common", &options_of(COMMON));
}

/// What stores of some kinds lose, and their options.
fn stores_of(kinds: &[Kind]) -> String {
    let of = described().filter(|adapter| kinds.contains(&adapter.kind));
    let part = |adapter: &Adapter| {
        format!("## {}\n\n{}{}\n", adapter.name, losses(adapter), options_of(adapter.options))
    };
    of.map(part).collect()
}

/// Where parts of the book are made that the repository does not have.
const MADE: &str = "target/reference";

/// The parts of the book that are made from the program's own tables when it is built: name and text.
fn made() -> &'static [(&'static str, String)] {
    static PARTS: OnceLock<Vec<(&'static str, String)>> = OnceLock::new();
    PARTS.get_or_init(|| {
        vec![
            ("stores-files", stores_of(&[Kind::Baseline, Kind::Files, Kind::Technique])),
            ("stores-embedded", stores_of(&[Kind::Embedded])),
            ("stores-servers", stores_of(&[Kind::Server])),
            ("stores-caches", stores_of(&[Kind::Cache])),
            ("stores-web", stores_of(&[Kind::Web])),
            ("stores-pages", stores_of(&[Kind::Page])),
            ("backups", backups()),
            ("checks", blobwise::doctor::checks::markdown()),
            ("keys", keys_of_a_plan()),
            ("thresholds", rules::table()),
        ]
    })
}

/// A page as the book has it: with the parts that it includes.
fn in_the_book(page: &Path) -> String {
    let mut text = read(page);
    for (name, part) in made() {
        while let Some(at) = text.find(&format!("{MADE}/{name}.md}}}}")) {
            let begin = text[..at].rfind("{{#include ").unwrap();
            let end = at + text[at..].find("}}").unwrap() + 2;
            text.replace_range(begin..end, part);
        }
    }
    assert!(!text.contains("{{#include"), "{} includes what nothing makes", short(page));
    text
}

/// Writes the parts that are made to where the book includes them. Each is on one page.
#[test]
fn the_reference_is_made_for_the_book() {
    let folder = Path::new(ROOT).join(MADE);
    std::fs::create_dir_all(&folder).unwrap();
    let pages: String = files("docs", "md").iter().map(|page| read(page)).collect();
    for (name, part) in made() {
        let times = pages.matches(&format!("{MADE}/{name}.md}}}}")).count();
        assert_eq!(times, 1, "pages that include {name}");
        std::fs::write(folder.join(format!("{name}.md")), part).unwrap();
    }
    let kinds = described()
        .filter(|adapter| made().iter().any(|(_, part)| part.contains(&format!("## {}\n", adapter.name))));
    assert_eq!(kinds.count(), described().count(), "a kind of stores is on no page");
}

/// The adapters that pages list: the same in every build, but for stores whose library says what they can do.
fn described() -> impl Iterator<Item = &'static Adapter> {
    stores::table().filter_map(Entry::adapter)
}

/// The page of servers has the rights that trials take away one by one.
#[test]
fn the_page_of_servers_lists_the_rights_that_a_user_needs() {
    let mut text = String::from(
        "| server | right | to | needed for | without it the run |\n| --- | --- | --- | --- | --- |\n",
    );
    for of in TABLE {
        for right in of.rights {
            let names: Vec<String> =
                right.names.iter().map(|name| format!("`{}`", name.replace('|', "\\|"))).collect();
            let without = match right.without {
                RightFallback::Refused => "is refused",
                RightFallback::Lacks(what) => what,
            };
            let Right { to, needed_for, .. } = right;
            text += &format!("| {} | {} | {to} | {needed_for} | {without} |\n", of.server, names.join(", "));
        }
    }
    for of in TABLE {
        text += &format!("\n{}:\n\n```text\n{}\n```\n", of.server, of.statements);
    }
    holds("docs/servers.md", "rights", &text);
}

/// A candidate that no answer recommends is told apart from those that one may.
#[test]
fn the_glossary_names_every_baseline() {
    let text = document("docs/glossary.md");
    let (_, line) = text.split_once("\n| baseline |").unwrap();
    let line = line.lines().next().unwrap();
    let baselines = described().filter(|adapter| adapter.kind == Kind::Baseline);
    let missing: Vec<&str> =
        baselines.map(|of| of.name).filter(|name| !line.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// How many rounds there were is known when a run has ended: a plan's text that tells how often it was repeated is shown beside
/// runs of any number of them.
#[test]
fn no_text_of_a_plan_says_how_many_rounds_there_were() {
    for (name, text) in SHIPPED {
        for open in PlanText::parse(text).unwrap().unspecified {
            let words: Vec<&str> = open.here.split([' ', ',', ';']).collect();
            let counted = words.windows(2).find(|pair| pair[1] == "rounds" && pair[0] != "the");
            assert_eq!(counted, None, "{name}: {}", open.here);
        }
    }
}

/// How each store is backed up with its default settings, those that are backed up alike in one line.
fn backups() -> String {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for adapter in described() {
        let backup = (adapter.caps)(&defaults(adapter)).backup;
        let meanwhile = match backup {
            Backup::Image(_) | Backup::Dump(_) => "open",
            Backup::Closed(_) => "closed",
            Backup::None(_) => "",
        };
        let line = match (backup.means(), backup.refusal()) {
            (Some(means), _) => {
                format!("{} | {meanwhile} | {} ([source]({})) |", means.by, means.words, means.link)
            }
            (None, why) => format!("none: {} | | |", why.unwrap_or_default()),
        };
        let name = format!("`{}`", adapter.name);
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, names)) => names.push(name),
            None => lines.push((line, vec![name])),
        }
    }
    let rows = lines.iter().map(|(line, names)| format!("| {} | {line}\n", names.join(", ")));
    let head = "| store | how | meanwhile it is | in its vendor's words, in substance |\n| --- | --- | --- | --- |\n";
    head.to_owned() + &rows.collect::<String>()
}

/// Every place that keeps blobs beyond its end says how it is backed up, or why not; nothing else can be.
#[test]
fn every_place_says_how_it_is_backed_up_or_why_not() {
    for adapter in stores::adapters() {
        let caps = (adapter.caps)(&defaults(adapter));
        assert_ne!(caps.backup, Backup::UNSAID, "{}", adapter.name);
        assert!(caps.persistent || caps.backup.means().is_none(), "{}", adapter.name);
    }
}

/// What a store loses in each of its classes, with the default settings.
fn losses(adapter: &Adapter) -> String {
    let options = defaults(adapter);
    let mut text =
        String::from("| class | when the process is killed | when the power goes |\n| --- | --- | --- |\n");
    for class in (adapter.caps)(&options).durability {
        let loss = (adapter.loss)(&options, *class);
        let (kill, cut) = (loss.after_kill.name(), loss.after_power_cut.name());
        text += &format!("| {} | {kill} | {cut} |\n", class.name());
    }
    text
}

/// A table of options; nothing where there are none.
fn options_of(specs: &[OptionSpec]) -> String {
    if specs.is_empty() {
        return String::new();
    }
    let mut text =
        String::from("\n| option | default | other values | what it is |\n| --- | --- | --- | --- |\n");
    for spec in specs {
        let default = match spec.values {
            Values::Url => "not set".to_owned(),
            _ => format!("`{}`", spec.default),
        };
        let about = spec.about.replace('|', "\\|");
        text += &format!("| `{}` | {default} | {} | {about} |\n", spec.name, other_values(spec));
    }
    text
}

/// What an option may be beside its default.
fn other_values(spec: &OptionSpec) -> String {
    let others = |words: &[&str]| -> String {
        let others = words.iter().filter(|word| **word != spec.default).map(|word| format!("`{word}`"));
        others.collect::<Vec<_>>().join(", ")
    };
    match &spec.values {
        Values::OneOf(words) | Values::Server(words) => others(words),
        Values::Flag => others(&["true", "false"]),
        Values::Integer { min, max } => format!("{min} to {max}"),
        Values::Bytes { min, max } => {
            format!("{} to {}", units::typed_bytes(*min), units::typed_bytes(*max))
        }
        Values::Decimal { max } => format!("0 to {max}"),
        Values::Word => "a word that the store understands".to_owned(),
        Values::FileSystem => "one of the [file systems](#file-systems)".to_owned(),
        Values::Url => "a URL".to_owned(),
    }
}

/// The programs that stores start, each once, with the variable that chooses another file.
#[test]
fn the_page_of_servers_lists_the_programs_that_are_started() {
    let mut rows = BTreeSet::new();
    for program in described().flat_map(|adapter| adapter.programs) {
        let variable = program.variable.map(|name| format!("`{name}`")).unwrap_or_default();
        rows.insert(format!("| `{}` | {variable} | `{}` |\n", program.name, program.install));
    }
    let head = "| program | variable | what installs it |\n| --- | --- | --- |\n".to_owned();
    holds("docs/servers.md", "programs", &(head + &rows.into_iter().collect::<String>()));
}

/// Who notices a changed byte, with the default settings: in every class, or in which.
fn noticed_by(adapter: &Adapter) -> String {
    let options = defaults(adapter);
    let classes = (adapter.caps)(&options).durability;
    let mut words: Vec<(String, Vec<&str>)> = Vec::new();
    for class in classes {
        let of_class = (adapter.integrity)(&options, *class).description();
        match words.iter_mut().find(|(known, _)| *known == of_class) {
            Some((_, classes)) => classes.push(class.name()),
            None => words.push((of_class, vec![class.name()])),
        }
    }
    match words.as_slice() {
        [(words, _)] => words.clone(),
        several => {
            let several = several.iter().map(|(words, classes)| format!("{}: {words}", classes.join(", ")));
            several.collect::<Vec<_>>().join("; ")
        }
    }
}

/// Continuous integration begins with the second of README's two commands, as it is printed there, and without variables of ours.
#[test]
fn continuous_integration_runs_what_readme_prints() {
    let readme = document("README.md");
    let block = readme.split("## Two commands\n\n```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let printed: Vec<&str> = block.lines().map(|line| line.split('#').next().unwrap().trim_end()).collect();
    assert_eq!(printed.first(), Some(&"cargo run --release -- run"));
    let script = document(".ci/run");
    let lines: Vec<&str> = script.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    let before = ["set -euo pipefail", r#"cd "$(dirname "$0")/..""#, "unset $(compgen -v BLOBWISE_)"];
    assert_eq!(lines[..3], before);
    assert_eq!(lines[3], printed[1]);
}

/// The phases that plans name are those of the kinds of work.
#[test]
fn the_standard_phases_of_plans_are_those_of_the_kinds_of_work() {
    let mut text = String::from("| phase | default | what it does |\n| --- | --- | --- |\n");
    for phase in standard() {
        let default = match phase.id {
            id if DEFAULT_PHASES.contains(&id) => "x",
            id if DEFAULT_PHASES_TIGHT.contains(&id) => "limit",
            id if ALL_PHASES.contains(&id) => "all",
            _ => "",
        };
        text += &format!("| `{}` | {default} | {} |\n", phase.id, phase.about);
    }
    holds("docs/plans.md", "phases", &text);
}

/// The examples in the document are plans that can be run.
#[test]
fn examples_of_plans_are_plans() {
    let text = document("docs/plans.md");
    let examples: Vec<&str> =
        text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 2);
    for example in examples {
        PlanText::parse(example)
            .and_then(|plan| plan.resolve(true))
            .unwrap_or_else(|error| panic!("{error:#}\n{example}"));
    }
}

/// A table for each part of a plan.
fn keys_of_a_plan() -> String {
    let plan = serde_json::to_value(schemars::schema_for!(PlanText)).unwrap();
    let part = |name: &str| plan["$defs"][name].clone();
    let parts = [
        ("The plan itself", plan.clone()),
        ("`[corpus]` and each `[[corpora]]`", part("CorpusText")),
        ("Each `[[phase]]`", part("PhaseText")),
        ("Each `[[claim]]`", part("ClaimText")),
        ("`expect` of a claim", part("ExpectedRange")),
        ("A candidate of a claim, where its label is not enough", part("DetailedOperand")),
        ("`[document]`", part("Document")),
        ("Each `[[unspecified]]`", part("Unspecified")),
        ("Each `[[successor]]`", part("Successor")),
        ("Each `[[published]]`", part("PublishedText")),
        ("Each of `series`", part("PublishedSeries")),
        ("Each `[[derived]]`", part("Derived")),
    ];
    let mut text = String::new();
    for (title, schema) in parts {
        text += &format!("\n### {title}\n\n| key | value | what it says |\n| --- | --- | --- |\n");
        for (key, value) in schema["properties"].as_object().unwrap() {
            text += &format!("| `{key}` | {} | {} |\n", form(value), about(value));
        }
    }
    for (title, name) in [("`metric`", "Metric"), ("`quantity`", "Quantity"), ("`by`", "Derivation")] {
        text += &format!("\n### Values of {title}\n\n| value | meaning |\n| --- | --- |\n");
        for choice in part(name)["oneOf"].as_array().unwrap() {
            text += &format!("| `{}` | {} |\n", choice["const"].as_str().unwrap(), about(choice));
        }
    }
    text
}

/// The type of a value in a word; that of a choice is its own table or told where it is described.
fn form(schema: &Value) -> &'static str {
    let named = |kind: &str| match kind {
        "integer" => "whole number",
        "number" => "number",
        "boolean" => "true or false",
        "array" => "list",
        "object" => "table",
        _ => "text",
    };
    match &schema["type"] {
        Value::String(kind) => named(kind),
        Value::Array(kinds) => kinds.first().and_then(Value::as_str).map_or("text", named),
        _ => match schema["anyOf"][0]["$ref"].as_str().or(schema["$ref"].as_str()) {
            Some(name)
                if ["CorpusText", "Document", "ExpectedRange"].iter().any(|table| name.ends_with(table)) =>
            {
                "table"
            }
            Some(name) if name.ends_with("Bound") => "number or text",
            _ => "text",
        },
    }
}

fn about(schema: &Value) -> String {
    let words = schema["description"].as_str().unwrap_or_default().split_whitespace();
    words.collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Pages of published experiments, by the names of their plans.
fn published() -> BTreeMap<String, String> {
    let pages = std::fs::read_dir(Path::new(ROOT).join("docs/published")).unwrap();
    let names = pages.map(|page| page.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name != "README.md" && name.ends_with(".md"))
        .map(|name| (name.strip_suffix(".md").unwrap().to_owned(), format!("docs/published/{name}")))
        .collect()
}

/// Claims of a page: all, confirmed, refuted, open, not testable. The sentence above its table counts them too.
fn verdicts(page: &str) -> [u32; 5] {
    let text = document(page);
    let table = text.lines().skip_while(|line| !line.starts_with("| claim | then | now "));
    let mut counts = [0; 5];
    for row in table.skip(2).take_while(|line| line.starts_with("| ")) {
        let verdict = row.split('|').nth(4).unwrap().split([',', ';']).next().unwrap().trim();
        let known = ["confirmed", "refuted", "cannot tell apart", "not testable"];
        let column = known.iter().position(|known| *known == verdict);
        counts[0] += 1;
        counts[1 + column.unwrap_or_else(|| panic!("{page}: no verdict in {row}"))] += 1;
    }
    assert!(counts[0] > 0, "{page} has no claims");
    let words = ["confirmed", "refuted", "undecided", "not testable"];
    let counted = counts[1..].iter().zip(words).filter(|(count, _)| **count > 0);
    let counted: Vec<String> = counted.map(|(count, word)| format!("{count} {word}")).collect();
    let total = format!("{} of {} claim", counted.join(", "), counts[0]);
    assert!(text.contains(&total), "{page} does not say: {total}");
    counts
}

/// Each can be repeated by the command that it shows, and found from the README.
#[test]
fn pages_of_published_experiments_are_found_and_can_be_repeated() {
    let readme = document("README.md");
    for (plan, page) in published() {
        assert!(SHIPPED.iter().any(|(name, _)| *name == plan), "{page}: no plan is called `{plan}`");
        assert!(document(&page).contains(&format!("```sh\nblobwise run {plan}")), "{page} lacks its command");
        assert!(readme.contains(&format!("]({page})")), "README.md does not lead to {page}");
    }
}

/// Counts of verdicts in the README and in the index are those of the pages; the index has date and machine too.
#[test]
fn the_readme_counts_the_verdicts_of_published_experiments() {
    const COUNTS: &str = "claims | confirmed | refuted | open | not testable |";
    let mut readme = "| experiment | confirmed | refuted | open | not testable |\n".to_owned();
    readme += &("| --- ".repeat(5) + "|\n");
    let summary = document("docs/SUMMARY.md");
    let mut index = format!(
        "| experiment | article | {COUNTS} run on | rounds | processor |\n{}\n",
        "| --- ".repeat(10) + "|"
    );
    let mut sums = [0; 5];
    let row = |counts: &[u32]| counts.iter().map(u32::to_string).collect::<Vec<_>>().join(" | ");
    for (plan, page) in published() {
        let about = PlanText::load(&plan).unwrap().about.unwrap();
        let counts = verdicts(&page);
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        let topic = about.split([':', '(']).next().unwrap().trim().to_owned();
        let source = about.rsplit_once('(').map(|(_, source)| source.trim_end_matches([')', '.'])).unwrap();
        let text = document(&page);
        let run = text.lines().find_map(|line| line.strip_prefix("Run on ")).unwrap();
        let (date, rest) = run.split_once(": ").unwrap();
        let rounds = rest.split(' ').next().unwrap();
        let processor = run.split_once("blobwise 0.1.0. ").unwrap().1.split(',').next().unwrap();
        let line = summary.lines().find(|line| line.ends_with(&format!("](published/{plan}.md)"))).unwrap();
        let title = line.split(['[', ']']).nth(1).unwrap();
        readme += &format!("| [{title}]({page}) | {} |\n", row(&counts[1..]));
        index += &format!(
            "| [{topic}]({plan}.md) | {source} | {} | {date} | {rounds} | {processor} |\n",
            row(&counts)
        );
    }
    readme += &format!("| all | {} |\n", row(&sums[1..]));
    index += &format!("| all |  | {} |  |  |  |\n", row(&sums));
    holds("README.md", "claims", &readme);
    holds("docs/published/README.md", "claims", &index);
}

/// How long a part of a plan takes is told by the run of its page.
#[test]
fn a_round_of_a_published_plan_took_what_its_page_says() {
    for (plan, page) in published() {
        let text = PlanText::load(&plan).unwrap();
        let page = document(&page);
        let head = page.lines().find_map(|line| line.strip_prefix("Run on ")).unwrap();
        let words: Vec<&str> = head.split([' ', ',', ':']).filter(|word| !word.is_empty()).collect();
        let before = |unit: &str| {
            let at = words.iter().position(|word| *word == unit);
            at.map_or(0.0, |at| words[at - 1].parse::<f64>().unwrap())
        };
        let seconds = before("h") * 3600.0 + before("min") * 60.0 + before("s");
        let round = seconds / before("rounds");
        let said = text.round_seconds.unwrap();
        assert!((said / round - 1.0).abs() < 0.01, "{plan}: {said}, and its page has {round}");
    }
}

/// The anchors of a page: its headings in lower case, without signs, words joined by hyphens.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut in_code = false;
    let mut found = BTreeSet::new();
    for line in page.lines() {
        in_code ^= line.starts_with("```");
        if !in_code && line.starts_with('#') {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|sign| sign.is_alphanumeric() || " -_".contains(*sign));
            found.insert(kept.collect::<String>().replace(' ', "-"));
        }
    }
    found
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut wrong = Vec::new();
    for name in documents() {
        let here = Path::new(ROOT).join(&name);
        let text = in_the_book(&here);
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split(')').next().unwrap_or_default();
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { here.clone() } else { here.parent().unwrap().join(file) };
            let leads =
                || path.exists() && (anchor.is_empty() || anchors(&in_the_book(&path)).contains(anchor));
            if !target.starts_with("http") && !leads() {
                wrong.push(format!("{name}: {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The book has every page once, and each begins with whom it is for. The index of decisions says it for all of these.
#[test]
fn every_page_is_in_the_book_and_says_for_whom_it_is() {
    let summary = document("docs/SUMMARY.md");
    let mut wrong = Vec::new();
    for path in files("docs", "md").into_iter().filter(|path| !path.ends_with("SUMMARY.md")) {
        let name = short(&path);
        let link = format!("]({})", name.strip_prefix("docs/").unwrap());
        let times = summary.matches(&link).count();
        if times != 1 {
            wrong.push(format!("docs/SUMMARY.md has {name} {times} times"));
        }
        let text = read(&path);
        let first = text.split("\n\n").nth(1).unwrap_or_default().replace('\n', " ");
        let is_decision = name.starts_with("docs/decisions/") && !path.ends_with("README.md");
        if !is_decision && !first.contains("This page is for ") {
            wrong.push(format!("{name} does not begin with whom it is for"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Paths in backticks that look like ours exist: `src/...`, `tests/...`, `docs/...`, `plans/...`, `bench/...`.
#[test]
fn paths_in_documents_exist() {
    let mut wrong = Vec::new();
    for name in documents() {
        let text = document(&name);
        for quoted in text.split('`').skip(1).step_by(2) {
            let ours =
                ["src/", "tests/", "docs/", "plans/", "bench/"].iter().any(|start| quoted.starts_with(start));
            let plain = quoted.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            if ours && plain && !Path::new(ROOT).join(quoted).exists() {
                wrong.push(format!("{name}: {quoted}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Flags of cargo, systemd-run, containers, and of what starts several clients.
const OF_OTHERS: [&str; 18] = [
    "--release",
    "--features",
    "--bench",
    "--test",
    "--locked",
    "--user",
    "--scope",
    "--allow-run-as-root",
    "--bind-to",
    "--cpu-bind",
    "--host",
    "--mca",
    "--mpi",
    "--oversubscribe",
    "--privileged",
    "--rm",
    "--security-opt",
    "--workspace",
];

#[test]
fn flags_in_documents_exist() {
    let help = document("tests/commands/help.trycmd");
    let mut wrong = BTreeSet::new();
    for name in documents() {
        let text = document(&name);
        for line in text
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|quoted| quoted.contains("blobwise ") || quoted.starts_with("--"))
        {
            for flag in line.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2) {
                let flag = flag.split('=').next().unwrap_or_default().trim_end_matches(['.', ',']);
                if !OF_OTHERS.contains(&flag) && !help.contains(flag) {
                    wrong.insert(format!("{name}: {flag}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Words that only the code has, and former ones: no document for users says them. Rows are of tables.
#[test]
fn documents_for_users_say_the_words_of_the_field() {
    const WORDS: &[&str] = &[
        "cell",
        "cells",
        "league",
        "leagues",
        "visit",
        "visits",
        "yardstick",
        "yardsticks",
        "rail",
        "rails",
        "doubt",
        "doubts",
        "damage",
    ];
    let folders = ["docs/explanation", "docs/how-to", "docs/published", "docs/reference", "docs/stores"];
    let of_folders = folders.iter().flat_map(|folder| files(folder, "md")).map(|path| short(&path));
    let pages =
        ["README.md", "docs/disk.md", "docs/doctor.md", "docs/plans.md", "docs/servers.md", "docs/stores.md"];
    let pages = pages
        .map(str::to_owned)
        .into_iter()
        .chain(["docs/glossary.md".to_owned()])
        .chain(files("docs/decisions", "md").into_iter().map(|path| short(&path)));
    let mut wrong = Vec::new();
    for page in pages.chain(of_folders) {
        let mut in_code = false;
        for line in in_the_book(&Path::new(ROOT).join(&page)).lines() {
            in_code ^= line.starts_with("```");
            let prose = line.split('`').step_by(2).collect::<Vec<&str>>().join(" ");
            let mut words = prose.split(|letter: char| !letter.is_alphanumeric() && letter != '-');
            if let Some(word) = words.find(|word| !in_code && WORDS.contains(&word.to_lowercase().as_str())) {
                wrong.push(format!("{page}: `{word}` in {line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The rules of measuring are numbered, and the tests that hold them are there.
#[test]
fn tests_that_hold_the_rules_exist() {
    let text = document("docs/reference/rules.md");
    let (_, table) = text.split_once("| | rule | file and test |\n| --- | --- | --- |\n").unwrap();
    let rows: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 40);
    for (index, row) in rows.iter().enumerate() {
        assert!(row.starts_with(&format!("| M{} |", index + 1)), "{row}");
        let quoted: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        let [file, test] = quoted.as_slice() else { panic!("{row}") };
        assert!(document(file).contains(&format!("fn {test}()")), "{file} has no test {test}");
    }
}

/// The first page is short, and so is the wait for its picture.
#[test]
fn the_readme_is_short() {
    let lines = document("README.md").lines().count();
    assert!(lines <= 150, "README.md has {lines} lines, 150 at the most");
    let picture = std::fs::metadata(Path::new(ROOT).join("docs/report.png")).unwrap().len();
    assert!(picture < 200_000, "docs/report.png has {picture} bytes");
}

#[test]
fn the_changelog_has_this_version() {
    assert!(document("CHANGELOG.md").contains(concat!("## ", env!("CARGO_PKG_VERSION"))));
}
