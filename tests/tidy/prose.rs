//! What the program says is for people: no code finds out by it what happened. For that there are types.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};

use super::modules::{ends_an_item, is_for_tests, is_sign};
use super::{code, document, documents, read, short, sources};

/// What texts are searched by.
const SEARCHES: &[&str] = &[
    "contains",
    "ends_with",
    "eq",
    "find",
    "matches",
    "rfind",
    "rsplit_once",
    "split",
    "split_once",
    "starts_with",
    "strip_prefix",
    "strip_suffix",
    "trim_end_matches",
    "trim_start_matches",
];

/// Words of others that are searched for, and why that cannot be done otherwise.
const FOREIGN: &[(&str, &str)] = &[
    (" (os error", "the standard library, which has no other text of an error's number"),
    ("Unknown error", "the C library, of a number that is no error"),
    ("ddress already in use", "a server's log, which has no other sign of it"),
    ("CLIENT_ERROR unauthenticated", "memcached, whose errors have no codes"),
    ("out of memory", "the same"),
    ("open connections", "the same"),
    ("too large", "the same"),
    (
        "[FATAL] Unable to read page [page id: space=0, page number=5]",
        "the log of a MySQL that did not start",
    ),
    ("page [page id: space=", "the same"),
    ("page [page id: space=0, page number=5]", "the same"),
    ("Purge done for trx's", "InnoDB's monitor, which is a text"),
    ("write back", "the kernel, of a device that has a cache"),
    ("log starts ", "versitygw's log, which begins with a line that is no request"),
    ("permissions to access", "Redis and Valkey, which refuse keys and commands with one code"),
    ("max number of clients", "the same, which have one code for most errors"),
    ("err unknown command", "the same"),
    ("state: running", "InnoDB's monitor, which is a text"),
    (" is not in ", "clap, which has no other sign of a value's range"),
    ("path string", "serde, which names the type of a path so"),
    ("unknown field `", "the TOML parser, whose errors have no codes"),
    ("unsupported startup parameter", "PgBouncer, which has one code for all that it refuses"),
];

/// The tokens of a source that are compiled into the program, groups before what follows them, one after the other.
pub(super) fn compiled(stream: TokenStream, into: &mut Vec<TokenTree>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        if is_for_tests(&tokens[at..]) {
            let end = tokens[at + 2..].iter().position(ends_an_item);
            at = end.map_or(tokens.len(), |end| at + 2 + end) + 1;
            continue;
        }
        into.push(tokens[at].clone());
        if let TokenTree::Group(group) = &tokens[at] {
            compiled(group.stream(), into);
        }
        at += 1;
    }
}

/// The text of a literal with more than one word, as a sentence has it.
fn prose(token: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = token else { return None };
    let text = literal.to_string();
    let text = text.trim_start_matches(['b', 'r', '#', '"']).trim_end_matches(['#', '"']);
    let words =
        text.split(' ').filter(|word| word.chars().filter(|letter| letter.is_alphabetic()).count() > 1);
    (words.count() > 1).then(|| text.to_owned())
}

/// What a source finds out by words: literals of more than one word, and names in `constants`, that texts are searched for or
/// compared with.
fn read_back(tokens: &[TokenTree], constants: &BTreeSet<String>) -> Vec<String> {
    let said = |token: &TokenTree| match token {
        TokenTree::Ident(name) => constants.contains(&name.to_string()).then(|| name.to_string()),
        other => prose(other),
    };
    let sign = |at: usize, wanted: char| tokens.get(at).is_some_and(|token| is_sign(token, wanted));
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if let (TokenTree::Ident(method), Some(TokenTree::Group(arguments))) = (token, tokens.get(at + 1))
            && at > 0
            && sign(at - 1, '.')
            && SEARCHES.contains(&method.to_string().as_str())
        {
            let mut within = Vec::new();
            compiled(arguments.stream(), &mut within);
            found.extend(within.iter().filter_map(said));
        }
        let is_compared = at > 1 && sign(at - 1, '=') && (sign(at - 2, '=') || sign(at - 2, '!'));
        let is_pattern = sign(at + 1, '=') && sign(at + 2, '>');
        let comes_first = sign(at + 2, '=') && (sign(at + 1, '=') || sign(at + 1, '!'));
        if is_compared || is_pattern || comes_first {
            found.extend(said(token));
        }
    }
    found
}

/// Constants whose text has more than one word.
fn constants(tokens: &[TokenTree]) -> BTreeSet<String> {
    let is_constant = |window: &&[TokenTree]| matches!(&window[0], TokenTree::Ident(word) if word == "const");
    let named = |window: &[TokenTree]| {
        let text = window.iter().take(8).find_map(prose)?;
        (!text.is_empty()).then(|| window[1].to_string())
    };
    tokens.windows(8).filter(is_constant).filter_map(named).collect()
}

/// What no colleague would write, in the program's texts and in documents.
const ODD: &[&str] = &[
    " anew",
    " be had",
    "handed out",
    "hands out",
    "is said of",
    " of ours",
    "So many ",
    "so many ",
    "hoever ",
];

#[test]
fn texts_are_what_a_colleague_would_write() {
    let sources = sources("src").into_iter().map(|path| {
        let text = read(&path);
        (short(&path), code(&text).collect::<Vec<_>>().join("\n"))
    });
    let documents = documents().into_iter().map(|name| {
        let text = document(&name);
        (name, text)
    });
    let mut wrong = Vec::new();
    for (name, text) in sources.chain(documents) {
        for line in text.lines() {
            let odd = ODD.iter().filter(|odd| line.contains(**odd));
            wrong.extend(odd.map(|odd| format!("{name}: `{odd}` in {}", line.trim())));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// An error about a flag names it, then its value, and says what is allowed.
#[test]
fn errors_about_a_flag_have_one_form() {
    let text = document("tests/commands/bad.trycmd");
    let is_other = |line: &&str| line.starts_with("error: `--") || line.starts_with("error: invalid value");
    let wrong: Vec<&str> = text.lines().filter(is_other).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(text.contains("\nerror: --workers: `0` is not between 1 and 1024\n"));
}

#[test]
fn nobody_finds_out_by_words_what_happened() {
    let sources: Vec<(String, Vec<TokenTree>)> = sources("src")
        .iter()
        .map(|path| {
            let mut tokens = Vec::new();
            compiled(read(path).parse().unwrap(), &mut tokens);
            (short(path), tokens)
        })
        .collect();
    let constants: BTreeSet<String> = sources.iter().flat_map(|(_, tokens)| constants(tokens)).collect();
    let mut wrong = Vec::new();
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for (path, tokens) in &sources {
        for text in read_back(tokens, &constants) {
            match FOREIGN.iter().find(|(foreign, _)| *foreign == text) {
                Some((foreign, _)) => drop(known.insert(foreign)),
                None => wrong.push(format!("{path}: `{text}`")),
            }
        }
    }
    assert!(wrong.is_empty(), "say it by a type, not by words: {wrong:#?}");
    for (foreign, why) in FOREIGN {
        assert!(known.contains(foreign), "nobody searches for `{foreign}` ({why})");
    }
}

#[test]
fn words_that_are_read_back_are_found() {
    let found = |text: &str| {
        let mut tokens = Vec::new();
        compiled(text.parse().unwrap(), &mut tokens);
        read_back(&tokens, &constants(&tokens))
    };
    for wrong in [
        "if why.starts_with(\"too short: 3 ops\") {}",
        "why.split_once(\"is not ranked: \")",
        "let x = error.to_string() == \"hung up early\";",
        "if \"hung up early\" != text {}",
        "match text { \"hung up early\" => 1, _ => 2 }",
        "const WHY: &str = \"hung up early\"; fn f() { text.contains(WHY) }",
        "texts.any(|text| text.contains([\"hung up\", \"gone away\"]))",
    ] {
        assert!(!found(wrong).is_empty(), "{wrong}");
    }
    for fine in [
        "text.starts_with(\"Content-Length: \")",
        "text.split(' ')",
        "bail!(\"too short a text\")",
        "#[cfg(test)] mod tests { fn f() { text.contains(\"too short\") } }",
        "// text.contains(\"too short\")",
    ] {
        assert_eq!(found(fine), Vec::<String>::new(), "{fine}");
    }
}
