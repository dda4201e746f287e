//! Makes text safe to show: masks passwords, escapes control characters for terminals, and keeps spreadsheets from taking cells
//! for formulas.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Replacement for a password.
pub const MASK: &str = "***";

// ---- passwords ---------------------------------------------------------------------------------------------------

/// Placeholder for a password in our own examples of URLs, which is not masked.
const EXAMPLE: &str = "PASSWORD";
/// Names of query parameters whose values may be shown. All others are masked, because a driver may know more names than we do.
const OPEN_NAMES: &[&str] = &[
    "application_name",
    "appname",
    "authmechanism",
    "authsource",
    "charset",
    "collation",
    "compress",
    "compressors",
    "connect_timeout",
    "connecttimeoutms",
    "database",
    "db",
    "dbname",
    "directconnection",
    "encrypt",
    "heartbeatfrequencyms",
    "host",
    "hostaddr",
    "journal",
    "loadbalanced",
    "localthresholdms",
    "maxidletimems",
    "maxpoolsize",
    "maxstalenessseconds",
    "minpoolsize",
    "options",
    "pool_max",
    "pool_min",
    "port",
    "prefer_socket",
    "protocol",
    "readconcernlevel",
    "readpreference",
    "region",
    "replicaset",
    "retryreads",
    "retrywrites",
    "server",
    "serverselectiontimeoutms",
    "socket",
    "sockettimeoutms",
    "ssl",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "ssl_ca_certs",
    "ssl_cert_reqs",
    "ssl_certfile",
    "ssl_check_hostname",
    "ssl_keyfile",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "stmt_cache_size",
    "tcp_connect_timeout_ms",
    "tcp_keepalive_time_ms",
    "tcp_nodelay",
    "timeout",
    "timeoutms",
    "tls",
    "tlscafile",
    "tlsinsecure",
    "trustservercertificate",
    "uid",
    "user",
    "username",
    "w",
    "wtimeoutms",
];
/// Name parts that mark a value as secret, in any parameter or setting.
const SECRET_PARTS: &[&str] = &[
    "accesskey",
    "accountkey",
    "apikey",
    "authmechanismproperties",
    "credential",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "pwd",
    "secret",
    "sharedkey",
    "signature",
    "token",
];
/// Whole names that mark a value as secret.
const SECRET_NAMES: &[&str] = &["auth", "pass", "pw", "sig"];
/// Characters after a URL or value that do not belong to it.
const CLOSERS: [char; 11] = ['`', '\'', '"', ')', ']', '}', '>', ',', '.', ';', ':'];
/// From this length on, a secret is masked within words, too; a shorter one would occur in unrelated words.
const DISTINCT_BYTES: usize = 8;

/// URLs that were given, with their masked forms, and the secrets in them.
#[derive(Default)]
struct MaskedUrls {
    urls: BTreeMap<String, String>,
    secrets: BTreeSet<String>,
}

static KNOWN: LazyLock<Mutex<MaskedUrls>> = LazyLock::new(Mutex::default);

fn known<T>(with: impl FnOnce(&mut MaskedUrls) -> T) -> T {
    with(&mut KNOWN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Remembers a URL that was given. It is then masked as a whole wherever it occurs, whatever its password contains, and its
/// secrets are removed from errors ([`of_error`]).
pub fn remember(url: &str) {
    let masked = masked_url(url, false);
    if masked == url {
        return;
    }
    known(|known| {
        let open = open_words(&masked);
        known.secrets.extend(secrets_of(url).filter(|secret| !open.contains(secret.as_str())));
        known.urls.insert(url.to_owned(), masked);
    });
}

/// Remembers a secret that is not part of a URL.
pub fn remember_secret(secret: &str) {
    known(|known| known.secrets.extend(forms(secret)));
}

/// Masks the passwords of all URLs in a text, including those without a scheme, in a query or fragment, and in settings such as
/// `Password=...;`. The end of a password is not always clear; in doubt too much is masked.
pub fn without_passwords(text: &str) -> String {
    let mut text = text.to_owned();
    known(|known| {
        // The longest first, because one URL may be a prefix of another.
        let mut urls: Vec<(&String, &String)> = known.urls.iter().collect();
        urls.sort_by_key(|(url, _)| std::cmp::Reverse(url.len()));
        for (url, masked) in urls {
            text = text.replace(url.as_str(), masked);
        }
    });
    without_settings(&without_logins(&without_urls(&text)))
}

/// Makes an error message safe to show. Drivers repeat what they were given, in full or in part, so every remembered secret is
/// masked wherever it occurs.
pub fn of_error(text: &str) -> String {
    let mut text = without_passwords(text);
    known(|known| {
        let mut secrets: Vec<&String> = known.secrets.iter().collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        for secret in secrets {
            text = without(&text, secret);
        }
    });
    shortened(text)
}

/// Shortens a long error to its beginning and end.
fn shortened(text: String) -> String {
    const BYTES_MAX: usize = 8192;
    if text.len() <= BYTES_MAX {
        return text;
    }
    let boundary =
        |from: usize| (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let (beginning, end) = (boundary(BYTES_MAX / 2), boundary(text.len() - BYTES_MAX / 4));
    let left_out = end - beginning;
    format!("{} [{left_out} bytes left out] {}", &text[..beginning], &text[end..])
}

/// Masks a secret in a text; a short one only where it is a separate word.
fn without(text: &str, secret: &str) -> String {
    let is_part = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(secret) {
        let (before, after) = (&rest[..at], &rest[at + secret.len()..]);
        let before_it = before.chars().next_back().or_else(|| shown.chars().next_back());
        let is_word = !is_part(before_it) && !is_part(after.chars().next());
        shown += before;
        shown += if is_word || secret.len() >= DISTINCT_BYTES { MASK } else { secret };
        rest = after;
    }
    shown + rest
}

/// Returns the secrets of a URL in every form in which they may be repeated.
fn secrets_of(url: &str) -> impl Iterator<Item = String> {
    let (_, body) = url.split_once("://").unwrap_or(("", url));
    let (main, query) = body.split_at(body.find(['?', '#']).unwrap_or(body.len()));
    let mut secrets: Vec<&str> = Vec::new();
    for whole in [main, body] {
        let login = whole.rsplit_once('@').map_or(whole, |(login, _)| login);
        secrets.extend(login.split_once(':').map(|(_, password)| password).filter(|it| !are_ports(it)));
    }
    for param in query.split(['?', '#', '&', ';']) {
        match param.split_once('=') {
            Some((name, value)) if is_name(name) => secrets.extend((!is_open(name)).then_some(value)),
            Some((name, value)) => secrets.extend([param, name, value]),
            None => secrets.push(param),
        }
    }
    secrets.into_iter().flat_map(forms).collect::<Vec<String>>().into_iter()
}

/// Returns a secret as written, percent-decoded, and in debug format.
fn forms(secret: &str) -> impl Iterator<Item = String> {
    let meant = decoded(secret);
    let forms = [secret.to_owned(), meant.escape_debug().to_string(), meant];
    forms.into_iter().filter(|form| !form.is_empty() && form != MASK && form != EXAMPLE)
}

/// Splits a masked URL into words. A password that equals one of them is not masked on its own.
fn open_words(masked: &str) -> BTreeSet<&str> {
    masked.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').collect()
}

/// Decodes the valid `%` escapes of a text.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%');
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_open(name: &str) -> bool {
    OPEN_NAMES.contains(&decoded(name).to_ascii_lowercase().as_str())
}

/// True if this can be the name of a parameter, as opposed to text after a `&` in a password.
fn is_name(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '-';
    !name.is_empty() && decoded(name).chars().all(letters)
}

fn is_secret(name: &str) -> bool {
    let name: String = decoded(name).chars().filter(char::is_ascii_alphanumeric).collect();
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.contains(&name.as_str()) || SECRET_PARTS.iter().any(|part| name.contains(part))
}

/// True if the text after the first colon of a list of hosts consists of ports, and further hosts with theirs.
fn are_ports(text: &str) -> bool {
    let authority = text.split('/').next().unwrap_or_default();
    authority.split(',').enumerate().all(|(index, part)| {
        let port = part.rsplit_once(':').map_or(if index == 0 { part } else { "" }, |(_, port)| port);
        port.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Splits off the punctuation that closes the sentence or quotation around a text.
fn closed(text: &str) -> (&str, &str) {
    text.split_at(text.trim_end_matches(CLOSERS).len())
}

fn without_urls(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let scheme = scheme_at(rest, at);
        let end = end_of_url(&rest[at + 3..]);
        let (url, after) = rest[scheme..].split_at(at + 3 + end - scheme);
        let (url, closers) = closed(url);
        shown += &rest[..scheme];
        shown += &masked_url(url, is_of_web(url));
        shown += closers;
        rest = after;
    }
    shown + rest
}

/// Returns where the scheme that ends at `end` begins.
fn scheme_at(text: &str, end: usize) -> usize {
    let letters = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    text[..end].trim_end_matches(letters).len()
}

/// Returns where a URL (without its scheme) ends: at white space, unless a password continues after it, or where another URL
/// begins.
fn end_of_url(text: &str) -> usize {
    let line = text.find('\n').map_or(text, |end| &text[..end]);
    let mut end = line.find(char::is_whitespace).unwrap_or(line.len());
    // `//user:two words@host` is not a URL, but its password must be masked.
    let login = line[..end]
        .split_once(':')
        .filter(|(user, rest)| !user.contains(['/', '?', '#']) && !are_ports(rest));
    if login.is_some() && !line[..end].contains('@') {
        let quoted = line.find(['`', '\'', '"']).unwrap_or(line.len());
        if let Some(host) = line[..quoted].rfind('@') {
            end = line[host..].find(char::is_whitespace).map_or(line.len(), |space| host + space);
        }
    }
    let next = line[..end].match_indices("://").map(|(at, _)| scheme_at(line, at));
    let apart = |at: &usize| *at > 0 && line[..*at].ends_with([',', '"', '\'', '`', '=', '[', '(', '|']);
    next.filter(apart).min().unwrap_or(end)
}

/// True if a URL may be that of a web page, whose parameters and fragment may be shown.
fn is_of_web(url: &str) -> bool {
    let scheme = url.split("://").next().unwrap_or_default();
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// Masks one URL. For a page only parameters with telling names are secret, for a server all that we do not know.
fn masked_url(url: &str, is_page: bool) -> String {
    let (scheme, body) = url.split_at(url.find("://").map_or(0, |at| at + 3));
    let query_at = body.find(['?', '#']).unwrap_or(body.len());
    if body[query_at..].contains('@') {
        // It is impossible to tell whether a password contains a `?` or a query contains an `@`.
        let colon = body.find(':').unwrap_or(body.len());
        return format!("{scheme}{}{MASK}", &body[..=colon.min(query_at)]);
    }
    let (main, query) = body.split_at(query_at);
    format!("{scheme}{}{}", masked_main(main, is_of_web(url)), masked_query(query, is_page))
}

/// Masks the login, host and path of a URL.
fn masked_main(main: &str, is_web: bool) -> String {
    match main.rsplit_once('@') {
        Some((login, rest)) => match login.split_once(':') {
            Some((_, EXAMPLE)) => main.to_owned(),
            Some((user, _)) => format!("{user}:{MASK}@{rest}"),
            // A key or token is given as a user without a password.
            None if is_web && !login.contains('/') => format!("{MASK}@{rest}"),
            None => main.to_owned(),
        },
        None => match main.split_once(':') {
            Some((host, rest)) if !host.starts_with('[') && !host.contains('/') && !are_ports(rest) => {
                format!("{host}:{MASK}")
            }
            _ => main.to_owned(),
        },
    }
}

/// Masks the query or fragment, which begins with `?` or `#`.
fn masked_query(query: &str, is_page: bool) -> String {
    let hides = |name: &str| if is_page { is_secret(name) } else { !is_open(name) };
    let param = |param: &str| match param.split_once('=') {
        Some((name, _)) if !is_page && !is_name(name) => MASK.to_owned(),
        Some((name, _)) if hides(name) => format!("{name}={MASK}"),
        None if !is_page && !param.is_empty() => MASK.to_owned(),
        _ => param.to_owned(),
    };
    let mut shown = String::new();
    let mut rest = query;
    while let Some(sign) = rest.chars().next() {
        let end = rest[1..].find(['?', '#', '&', ';']).map_or(rest.len(), |end| end + 1);
        shown.push(sign);
        shown += &param(&rest[1..end]);
        rest = &rest[end..];
    }
    shown
}

/// Masks `user:password@host` without a scheme.
fn without_logins(text: &str) -> String {
    let word = |word: &str| -> String {
        let masked = || {
            let at = word.rfind('@')?;
            let colon = word[..at].find(':')?;
            let host = word[at + 1..].chars().next()?;
            let is_login = !word.contains("://") && !word[..colon].contains('/');
            let is_host = host.is_ascii_alphanumeric() || host == '[';
            let is_masked = [MASK, EXAMPLE].contains(&&word[colon + 1..at]);
            (is_login && is_host && !is_masked).then(|| format!("{}:{MASK}{}", &word[..colon], &word[at..]))
        };
        masked().unwrap_or_else(|| word.to_owned())
    };
    text.split_inclusive(char::is_whitespace).map(word).collect()
}

/// Masks the values of settings with telling names: `password=...`, `"token": "..."`, `;Password=...;`.
fn without_settings(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['=', ':']) {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        let quote = before.trim_end().chars().next_back().filter(|c| ['"', '\''].contains(c));
        let named = before.trim_end().trim_end_matches(['"', '\'']);
        let letters = |c: char| c.is_ascii_alphanumeric() || "_-.%".contains(c);
        let name_at = named.trim_end_matches(letters).len();
        shown += &rest[..=at];
        rest = after;
        // A colon belongs to a sentence unless the name is quoted.
        let is_setting = rest_of_sign(text, after) == Some('=') || quote.is_some();
        if !is_setting || !is_secret(&named[name_at..]) {
            continue;
        }
        let in_list = named[..name_at].trim_end().ends_with(';');
        let spaces = after.len() - after.trim_start_matches([' ', '\t']).len();
        let end = spaces + end_of_value(&after[spaces..], in_list);
        let (value, closers) = closed(&after[spaces..end]);
        shown += &after[..spaces];
        let opening = value.chars().next().filter(|c| ['"', '\'', '{'].contains(c));
        shown.extend(opening);
        if !value.is_empty() {
            shown += MASK;
        }
        shown += closers;
        rest = &after[end..];
    }
    shown + rest
}

/// Returns the character before `rest`, the end of `text`.
fn rest_of_sign(text: &str, rest: &str) -> Option<char> {
    text[..text.len() - rest.len()].chars().next_back()
}

/// Returns where a setting's value ends: at its closing quote, or at the separator of the next setting.
fn end_of_value(text: &str, in_list: bool) -> usize {
    let closing = match text.chars().next() {
        Some('{') => Some('}'),
        Some(quote @ ('"' | '\'')) => Some(quote),
        _ => None,
    };
    if let Some(closing) = closing {
        return text[1..].find(closing).map_or(text.len(), |end| end + 2);
    }
    let ends = |c: char| if in_list { "\n;`\"'".contains(c) } else { c.is_whitespace() || c == '&' };
    text.find(ends).unwrap_or(text.len())
}

// ---- terminals and spreadsheets ----------------------------------------------------------------------------------

/// Escapes text for a terminal: control characters and those that change the direction of writing become `\u001b`, which JSON
/// reads as the same character. Line ends and tabs stay.
pub fn on_terminal(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let spelled =
        text.chars().map(|c| if is_obeyed(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() });
    Cow::Owned(spelled.collect())
}

/// True for characters that act on a terminal instead of being displayed.
fn is_obeyed(c: char) -> bool {
    let turns =
        matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Escapes a table cell for spreadsheets: text that begins like a formula gets an apostrophe in front, as OWASP advises; numbers
/// stay numbers.
pub fn in_cell(text: &str) -> Cow<'_, str> {
    const FORMULA: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'];
    let is_number = || {
        text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
            && text.parse::<f64>().is_ok()
    };
    if text.starts_with(FORMULA) && !is_number() {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Quotes a path for a shell.
pub fn pasted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+=:,@%".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_can_be_pasted_into_a_shell() {
        let of = |path: &str| pasted(Path::new(path));
        assert_eq!(of("blobwise-runs/20261126-215201"), "blobwise-runs/20261126-215201");
        assert_eq!(of("my run"), "'my run'");
        assert_eq!(of("it's"), "'it'\\''s'");
        assert_eq!(of("$(reboot)"), "'$(reboot)'");
    }

    #[test]
    fn passwords_are_not_shown() {
        for (text, shown) in [
            (
                "run --set a.url=postgres://me:s3cret:x@host:5432/db?sslmode=disable b://c/d",
                "run --set a.url=postgres://me:***@host:5432/db?sslmode=disable b://c/d",
            ),
            ("postgres://me@host/db and files", "postgres://me@host/db and files"),
            ("postgres://me:half/half@host/db", "postgres://me:***@host/db"),
            ("redis://:s3cret@host/1", "redis://:***@host/1"),
            ("`postgres://h/db?password=s3cret` is no URL", "`postgres://h/db?password=***` is no URL"),
            ("'mysql://h/db?user=me&passw%6Frd=s3cret'.", "'mysql://h/db?user=me&passw%6Frd=***'."),
            ("mysql://h/db?unheard_of=s3cret;w=1", "mysql://h/db?unheard_of=***;w=1"),
            ("redis://h/0?s3cret#s3cret", "redis://h/0?***#***"),
            ("redis://h/0?password=a&s3cret=&w=1", "redis://h/0?password=***&***&w=1"),
            ("postgres://h:5432/db?password=s3@cret", "postgres://h:***"),
            ("postgres://me:s3?c@ret@h/db", "postgres://me:***"),
            ("redis://me:s3cret", "redis://me:***"),
            ("redis://me:my s3cret@h/0 is no URL", "redis://me:***@h/0 is no URL"),
            ("mongodb://me:s3cret@h1:1,h2:2/db?w=1", "mongodb://me:***@h1:1,h2:2/db?w=1"),
            (
                "mongodb://h1:1,h2:2/db?authMechanismProperties=A:s3cret",
                "mongodb://h1:1,h2:2/db?authMechanismProperties=***",
            ),
            ("a=redis://:s3cret@h,b=redis://:s3cret@i", "a=redis://:***@h,b=redis://:***@i"),
            ("me:s3cret@host/db is no URL", "me:***@host/db is no URL"),
            ("mssql://h:1433;user=sa;password=s3cret", "mssql://h:***"),
            (
                "Server=h,1;User Id=sa;Password=my s3cret;Encrypt=no",
                "Server=h,1;User Id=sa;Password=***;Encrypt=no",
            ),
            ("Server=h;Pwd={my; s3cret};Encrypt=no", "Server=h;Pwd={***};Encrypt=no"),
            ("{\"password\": \"s3cret\", \"w\": 1}", "{\"password\": \"***\", \"w\": 1}"),
            ("ssl_password = 's3cret'", "ssl_password = '***'"),
            (
                "https://s3cret@host/bucket?X-Amz-Signature=s3cret&page=2#top",
                "https://***@host/bucket?X-Amz-Signature=***&page=2#top",
            ),
        ] {
            assert_eq!(without_passwords(text), shown);
            assert_eq!(without_passwords(shown), shown, "a second time");
        }
    }

    #[test]
    fn what_is_no_password_stays() {
        for text in [
            "cannot connect to `http://127.0.0.1:80`: refused",
            "redis://[::1]:7/0",
            "redis+unix:///run/s:1",
            "--set mssql.url=mssql://USER:PASSWORD@HOST/DATABASE",
            "password authentication failed: no password: is one needed?",
            "put of 12:30@: no space",
            "mail me@host or see https://host/a?b=c#d",
        ] {
            assert_eq!(without_passwords(text), text);
        }
    }

    #[test]
    fn a_remembered_url_is_masked_whatever_a_driver_makes_of_it() {
        remember("mysql://root:quite%20s3cret@db.example/x?key=k3y");
        let told = "mysql://root:quite%20s3cret@db.example/x?key=k3y: bad quite s3cret, not `k3y` of k3yboard at db.example";
        let shown = "mysql://root:***@db.example/x?key=***: bad ***, not `***` of k3yboard at db.example";
        assert_eq!(of_error(told), shown);
        remember("http://s3.example/bucket?unheard_of=k3y");
        assert_eq!(
            without_passwords("`http://s3.example/bucket?unheard_of=k3y`"),
            "`http://s3.example/bucket?unheard_of=***`"
        );
        remember("mysql://same:same@db.example/same");
        assert_eq!(of_error("no user `same`"), "no user `same`");
        assert_eq!(without_passwords("a k3y of a label"), "a k3y of a label");
    }

    #[test]
    fn errors_are_no_longer_than_people_read() {
        let long = of_error(&format!("begin {} end", "é".repeat(100_000)));
        assert!(long.len() < 8192 && long.starts_with("begin é") && long.ends_with("é end"), "{long}");
        assert!(long.contains("bytes left out]"));
    }

    #[test]
    fn terminals_obey_no_name() {
        assert_eq!(on_terminal("a\tb\nc"), "a\tb\nc");
        assert_eq!(
            on_terminal("\u{1b}[2J\u{9b}31m\r\u{7}\u{202e}gpj.exe\u{2066}\0é"),
            "\\u001b[2J\\u009b31m\\u000d\\u0007\\u202egpj.exe\\u2066\\u0000é"
        );
    }

    #[test]
    fn cells_are_no_formulas() {
        for (text, cell) in [
            ("=1+2", "'=1+2"),
            ("+cmd|x", "'+cmd|x"),
            ("-1+1", "'-1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("-0.5", "-0.5"),
            ("-1e-7", "-1e-7"),
            ("files/flat", "files/flat"),
            ("", ""),
        ] {
            assert_eq!(in_cell(text), cell);
        }
    }
}
