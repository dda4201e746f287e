//! Which module of the crate names which: only what is below it, never in a circle, and no setting of a store outside stores.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

use super::{ROOT, holds, read, short, sources};

/// A folder that is a module by itself beside the one it lies in.
const INNER: &[&str] = &["plan::text"];

/// Modules that work on results alone, on a machine that has none of the stores, and what they therefore never name.
const PURE: &[&str] = &["judge", "report"];
const IMPURE: &[&str] = &["host", "store", "stores", "plan", "engine"];

/// Which modules name which others, and the files in which they do.
type Graph = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The module that a file is, from the root of its crate: `["store", "caps"]` for `crates/stores/src/store/caps.rs`.
fn module_of(path: &Path) -> Vec<String> {
    let below = path.strip_prefix(ROOT).unwrap().with_extension("");
    let parts = below.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let mut parts: Vec<String> = parts.skip_while(|part| part != "src").skip(1).collect();
    parts.pop_if(|last| last == "mod");
    parts
}

/// What a source that is compiled into the program names of the crate: whole paths from its root, whether in a `use` or in code.
#[derive(Debug, Default)]
struct Names {
    paths: BTreeSet<Vec<String>>,
    /// Modules that are there for tests only, in files of their own.
    for_tests: BTreeSet<Vec<String>>,
}

impl Names {
    /// Those in the text of a module. Comments and texts are none, and what is compiled for tests only is left out.
    fn parse(text: &str, module: &[String]) -> Names {
        let mut names = Names::default();
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{module:?}: {error}"));
        names.read(&tokens.into_iter().collect::<Vec<_>>(), module);
        names
    }

    fn read(&mut self, tokens: &[TokenTree], module: &[String]) {
        let mut at = 0;
        while at < tokens.len() {
            if is_for_tests(&tokens[at..]) {
                let end =
                    tokens[at + 2..].iter().position(ends_an_item).map_or(tokens.len(), |end| at + 2 + end);
                if let (Some(name), Some(TokenTree::Punct(_))) =
                    (module_at(&tokens[at + 2..end]), tokens.get(end))
                {
                    self.for_tests.insert([module, &[name]].concat());
                }
                at = end + 1;
                continue;
            }
            match &tokens[at] {
                TokenTree::Ident(word) if ["crate", "self", "super"].contains(&word.to_string().as_str()) => {
                    let begins = at == 0 || !is_sign(&tokens[at - 1], ':');
                    if begins && is_path_sign(&tokens[at + 1..]) {
                        self.path(&tokens[at..], Vec::new(), module);
                    }
                }
                // Who may see an item is no path to it: `pub(in crate::plan)`.
                TokenTree::Group(_) if at > 0 && is_word(&tokens[at - 1], "pub") => {}
                TokenTree::Group(group) => {
                    let within: Vec<TokenTree> = group.stream().into_iter().collect();
                    match module_at(&tokens[at.saturating_sub(2)..at]) {
                        Some(name) if group.delimiter() == Delimiter::Brace => {
                            self.read(&within, &[module, &[name]].concat());
                        }
                        _ => self.read(&within, module),
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// A path, or the tree of paths that a `use` has in braces, which begins at the first token.
    fn path(&mut self, tokens: &[TokenTree], mut so_far: Vec<String>, module: &[String]) {
        match tokens.first() {
            Some(TokenTree::Ident(word)) => {
                match word.to_string().as_str() {
                    "crate" => so_far.clear(),
                    "self" if so_far.is_empty() => so_far.extend_from_slice(module),
                    "self" => {}
                    // The first of them leaves the module, each further one what that is in.
                    "super" if so_far.is_empty() => so_far.extend_from_slice(&module[..module.len() - 1]),
                    "super" => drop(so_far.pop()),
                    word => so_far.push(word.to_owned()),
                }
                if is_path_sign(&tokens[1..]) {
                    self.path(&tokens[3..], so_far, module);
                } else {
                    self.paths.insert(so_far);
                }
            }
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let within: Vec<TokenTree> = group.stream().into_iter().collect();
                for branch in within.split(|token| is_sign(token, ',')).filter(|branch| !branch.is_empty()) {
                    self.path(branch, so_far.clone(), module);
                }
            }
            _ => drop(self.paths.insert(so_far)),
        }
    }
}

pub(super) fn is_sign(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == sign)
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(found) if found == word)
}

/// Whether tokens begin with `::`.
fn is_path_sign(tokens: &[TokenTree]) -> bool {
    tokens.len() > 2 && tokens[..2].iter().all(|token| is_sign(token, ':'))
}

/// Whether an item begins here that has `#[cfg(test)]` before it, or that and more.
pub(super) fn is_for_tests(tokens: &[TokenTree]) -> bool {
    let [sign, TokenTree::Group(condition), ..] = tokens else { return false };
    let condition = condition.stream().to_string().replace(' ', "");
    is_sign(sign, '#')
        && (condition.starts_with("cfg(test)")
            || condition.starts_with("cfg(all(test,")
            || condition.starts_with("cfg(any(test,"))
}

pub(super) fn ends_an_item(token: &TokenTree) -> bool {
    is_sign(token, ';') || matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// The name of the module that tokens end with the beginning of: `mod name`.
fn module_at(tokens: &[TokenTree]) -> Option<String> {
    match tokens {
        [.., TokenTree::Ident(word), TokenTree::Ident(name)] if word == "mod" => Some(name.to_string()),
        _ => None,
    }
}

/// What every source that is compiled into the program names.
fn named() -> Vec<(PathBuf, Vec<String>, BTreeSet<Vec<String>>)> {
    let mut found = Vec::new();
    let mut for_tests = BTreeSet::new();
    for path in sources("src") {
        let module = module_of(&path);
        let names = Names::parse(&read(&path), &module);
        for_tests.extend(names.for_tests);
        found.push((path, module, names.paths));
    }
    found.retain(|(_, module, _)| !for_tests.iter().any(|tests| module.starts_with(tests)));
    found
}

/// The module with a line of its own that a path leads into, or else that at the root of its crate.
fn module_with_a_line(path: &[String]) -> Option<String> {
    let pair = path.get(..2).map(|pair| pair.join("::"));
    pair.filter(|pair| INNER.contains(&pair.as_str())).or_else(|| path.first().cloned())
}

/// The graph of the modules at the root of the crate, and of those that have a line of their own. What is named beside them is
/// macros.
fn graph() -> Graph {
    let mut graph = Graph::new();
    let found = named();
    let modules: BTreeSet<String> =
        found.iter().filter_map(|(_, module, _)| module_with_a_line(module)).collect();
    for (path, module, names) in found {
        let Some(from) = module_with_a_line(&module) else { continue };
        for to in names.iter().filter_map(|path| module_with_a_line(path)) {
            if to != from && modules.contains(&to) {
                let edges = graph.entry(from.clone()).or_default();
                edges.entry(to).or_default().insert(short(&path));
            }
        }
        graph.entry(from).or_default();
    }
    graph
}

/// Modules of which each names the next, and the last one the first; none where there is no circle.
fn circle(graph: &Graph) -> Option<Vec<&str>> {
    let mut left: BTreeSet<&str> = graph.keys().map(String::as_str).collect();
    let next = |module: &str, left: &BTreeSet<&str>| {
        graph[module].keys().map(String::as_str).find(|to| left.contains(to))
    };
    // Whoever names nothing that is left is in no circle.
    while let Some(module) = left.iter().copied().find(|module| next(module, &left).is_none()) {
        left.remove(module);
    }
    let mut way = vec![*left.first()?];
    loop {
        let to = next(way[way.len() - 1], &left)?;
        if let Some(place) = way.iter().position(|module| *module == to) {
            return Some(way.split_off(place));
        }
        way.push(to);
    }
}

/// A circle as text: who names whom, and where.
fn shown(graph: &Graph, circle: &[&str]) -> String {
    let ends = circle.iter().zip(circle.iter().cycle().skip(1));
    let lines = ends.map(|(from, to)| format!("{from} names {to} in {:?}", graph[*from][*to]));
    lines.collect::<Vec<_>>().join("\n")
}

/// The map has the layers, as the sources have them: each module names only those above which it stands, so that there is no
/// circle. Between crates the compiler keeps it; inside one, this does.
#[test]
fn the_layers_in_the_map_are_those_of_the_modules() {
    let mut open = graph();
    open.retain(|module, _| !["cli", "main", "lib"].contains(&module.as_str()));
    for pure in PURE {
        let named = open[*pure].keys().find(|name| IMPURE.contains(&name.as_str()));
        assert!(named.is_none(), "{pure} names {named:?}");
    }
    let mut text = String::new();
    let mut number = 0;
    while !open.is_empty() {
        let is_next = |names: &BTreeMap<String, _>| names.keys().all(|name| !open.contains_key(name));
        let layer: Vec<String> =
            open.iter().filter(|(_, names)| is_next(names)).map(|(module, _)| module.clone()).collect();
        assert!(
            !layer.is_empty(),
            "a circle:\n{}",
            circle(&open).map(|way| shown(&open, &way)).unwrap_or_default()
        );
        let mut lines = String::new();
        for module in layer {
            let names = open.remove(&module).unwrap_or_default();
            let names: Vec<String> = names.keys().map(|name| format!("`{name}`")).collect();
            lines += &format!("| {number} | `{module}` | {} |\n", names.join(", "));
        }
        text.insert_str(0, &lines);
        number += 1;
    }
    let head = "| layer | module | names |\n| --- | --- | --- |\n| top | `cli` | all |\n";
    holds("ARCHITECTURE.md", "layers", &format!("{head}{text}"));
}

#[test]
fn files_and_folders_of_a_module_name_each_other_in_no_circle() {
    let found = named();
    let part = |path: &[String]| path.get(..2).map(|pair| pair.join("::"));
    let parts: BTreeSet<String> = found.iter().filter_map(|(_, module, _)| part(module)).collect();
    let mut graph: Graph = parts.iter().map(|part| (part.clone(), BTreeMap::new())).collect();
    for (path, module, names) in found.iter() {
        let Some(from) = part(module) else { continue };
        let inside = names.iter().filter(|name| name.first() == module.first());
        for to in inside.filter_map(|name| part(name)).filter(|to| *to != from && parts.contains(to)) {
            graph.entry(from.clone()).or_default().entry(to).or_default().insert(short(path));
        }
    }
    let circle = circle(&graph).map(|circle| shown(&graph, &circle));
    assert!(circle.is_none(), "a circle:\n{}", circle.unwrap_or_default());
}

#[test]
fn circles_are_found() {
    let graph = |edges: &[(&str, &str)]| -> Graph {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry((*to).to_owned()).or_default();
            let file = BTreeSet::from([format!("src/{from}.rs")]);
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned(), file);
        }
        graph
    };
    assert_eq!(circle(&graph(&[("a", "b"), ("a", "c"), ("b", "c")])), None);
    let round = graph(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "b"), ("c", "e")]);
    let found = circle(&round).unwrap();
    assert_eq!(found, ["b", "c", "d"]);
    assert!(shown(&round, &found).ends_with("d names b in {\"src/d.rs\"}"), "{}", shown(&round, &found));
}

/// Calls that read a setting of a store: `options.text(CLASS)`, `candidate.options.get("key")`, `candidate.options["key"]`.
fn settings_read(text: &str) -> Vec<String> {
    let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{error}"));
    let mut found = Vec::new();
    let mut open = vec![tokens.into_iter().collect::<Vec<_>>()];
    while let Some(tokens) = open.pop() {
        for at in 0..tokens.len() {
            if is_for_tests(&tokens[at..]) {
                break;
            }
            if let TokenTree::Group(group) = &tokens[at] {
                open.push(group.stream().into_iter().collect());
            }
            found.extend(setting_read(&tokens[at..]));
        }
    }
    found.sort();
    found
}

/// The same at the beginning of tokens.
fn setting_read(tokens: &[TokenTree]) -> Option<String> {
    /// How [`blobwise::store::Options`] is asked for a value.
    const ASKED_BY: &[&str] = &["text", "flag", "number", "decimal"];
    let of = |word: &Ident| word.to_string().contains("options");
    match tokens {
        [TokenTree::Punct(dot), TokenTree::Ident(call), TokenTree::Group(asked), ..]
            if dot.as_char() == '.' && asked.delimiter() == Delimiter::Parenthesis && has_a_name(asked) =>
        {
            ASKED_BY.contains(&call.to_string().as_str()).then(|| format!(".{call}{asked}"))
        }
        [
            TokenTree::Ident(options),
            TokenTree::Punct(dot),
            TokenTree::Ident(call),
            TokenTree::Group(asked),
            ..,
        ] if of(options) && dot.as_char() == '.' && call == "get" && has_a_name(asked) => {
            Some(format!("{options}.get{asked}"))
        }
        [TokenTree::Ident(options), TokenTree::Group(asked), ..]
            if of(options) && asked.delimiter() == Delimiter::Bracket && has_a_name(asked) =>
        {
            Some(format!("{options}{asked}"))
        }
        _ => None,
    }
}

/// Whether arguments have a text in them, or a constant.
fn has_a_name(arguments: &Group) -> bool {
    let is_constant = |word: &Ident| word.to_string().chars().all(|c| c.is_ascii_uppercase() || c == '_');
    arguments.stream().into_iter().any(|token| match token {
        TokenTree::Literal(_) => true,
        TokenTree::Ident(word) => is_constant(&word),
        _ => false,
    })
}

/// A typo in the name of a setting would read nothing. What others must know of a setting is a trait of the adapter.
#[test]
fn settings_of_stores_are_read_in_stores_only() {
    const NOT_IN: &[&str] = &["cli", "engine", "host", "judge", "plan", "records", "report", "result"];
    let mut wrong = Vec::new();
    for path in sources("src").into_iter().filter(|path| NOT_IN.contains(&module_of(path)[0].as_str())) {
        let found = settings_read(&read(&path));
        wrong.extend(found.into_iter().map(|call| format!("{}: {call}", short(&path))));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn settings_that_are_read_are_found() {
    assert_eq!(
        settings_read("fn f(candidate: &Candidate) -> bool { candidate.options.text(\"url\").is_empty() }"),
        [".text(\"url\")"]
    );
    assert_eq!(settings_read("f(|| options.flag(TIMED))"), [".flag(TIMED)"]);
    assert_eq!(settings_read("candidate.options.get(\"key\").is_some()"), ["options.get(\"key\")"]);
    assert_eq!(settings_read("if candidate.options[\"key\"] == x {}"), ["options[\"key\"]"]);
    for other in [
        "verdict.text()",
        "growth.text(flat)",
        "x.text { 1 }",
        "options.get(name)",
        "seconds.get(\"key\")",
        "// options.text(\"url\")",
    ] {
        assert_eq!(settings_read(other), Vec::<String>::new(), "{other}");
    }
}

#[test]
fn what_a_source_names_is_found_in_whatever_form() {
    let names = |text: &str| -> Vec<String> {
        let module = ["plan".to_owned(), "candidates".to_owned()];
        Names::parse(text, &module).paths.into_iter().map(|path| path.join("::")).collect()
    };
    assert_eq!(
        names("use crate::{store, units::{self, parse::{a as b, c}}};"),
        ["store", "units", "units::parse::a", "units::parse::c"]
    );
    assert_eq!(
        names("pub(crate) use crate::{\n    host::x, // in braces\n    judge,\n};"),
        ["host::x", "judge"]
    );
    assert_eq!(names("use crate::host::*; use crate::stores as s;"), ["host", "stores"]);
    assert_eq!(
        names("fn f() -> crate::a::B { g(crate::c::d(1), &[crate::e::F { x: 1 }]) }"),
        ["a::B", "c::d", "e::F"]
    );
    // A macro's own words are words of the program, too.
    assert_eq!(names("html! { p { (crate::units::bytes(x)) } }"), ["units::bytes"]);
    assert_eq!(
        names("use super::phases; use super::super::host; use self::own;"),
        ["host", "plan::candidates::own", "plan::phases"]
    );
    assert_eq!(names("mod inner { use super::super::x; use super::super::super::y; }"), ["plan::x", "y"]);
    for nothing in [
        "// crate::a::b\n/// [`crate::a`]\nconst A: &str = \"crate::a::b\";",
        "#[cfg(test)]\npub use crate::a;\n#[cfg(test)]\nmod tests { use crate::b; }",
        "pub(crate) fn f(self) {}",
        "pub(in crate::plan) fn f() {}",
        "use std::fmt;",
    ] {
        assert_eq!(names(nothing), Vec::<String>::new(), "{nothing}");
    }
    assert_eq!(names("#[cfg(test)]\nmod tests { use crate::b; }\nuse crate::c;"), ["c"]);
}

#[test]
fn modules_for_tests_are_known_by_who_declares_them() {
    let names = Names::parse(
        "mod real;\n#[cfg(test)]\nmod shipped;\n#[cfg(test)]\nmod tests {}",
        &["plan".to_owned()],
    );
    assert_eq!(names.for_tests, BTreeSet::from([vec!["plan".to_owned(), "shipped".to_owned()]]));
}
