//! What the other user does: every act is tried, and whatever comes back is said in a line.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What there is to be tried.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Targets {
    pub ports: Vec<u16>,
    /// Sockets that have a path.
    pub sockets: Vec<PathBuf>,
    /// Sockets that have a name only.
    pub names: Vec<String>,
    pub files: Vec<PathBuf>,
    pub processes: Vec<i32>,
    /// The key of a blob, which is no secret: it may be the digest of something public.
    pub key: String,
    /// What every blob has in it.
    pub canary: String,
}

/// The user that is nobody's, in no group.
const OTHER: u32 = 65534;
const PATIENCE: Duration = Duration::from_millis(1000);

#[expect(unsafe_code, reason = "groups and users are changed by system calls")]
pub fn become_another_user() {
    // SAFETY: system calls on numbers, in a process with one thread.
    let changed = unsafe {
        libc::setgroups(0, std::ptr::null()) == 0 && libc::setgid(OTHER) == 0 && libc::setuid(OTHER) == 0
    };
    assert!(changed, "cannot become another user");
}

/// Every way in that was found.
pub fn intrude(targets: &Targets) -> Vec<String> {
    // Side by side: whoever tries a port waits most of the time for an answer that does not come.
    let mut found: Vec<String> = std::thread::scope(|scope| {
        let ports = targets.ports.iter().map(|port| scope.spawn(move || over_port(*port, targets)));
        let ports: Vec<_> = ports.collect();
        ports.into_iter().flat_map(|port| port.join().unwrap()).collect()
    });
    for path in &targets.sockets {
        if UnixStream::connect(path).is_ok() {
            found.push(format!("the socket `{}` takes connections", path.display()));
        }
    }
    for name in &targets.names {
        let address = SocketAddr::from_abstract_name(name).unwrap();
        if UnixStream::connect_addr(&address).is_ok() {
            found.push(format!("the socket `@{name}` takes connections"));
        }
    }
    found.extend(
        targets
            .files
            .iter()
            .filter(|path| can_read(path))
            .map(|path| format!("`{}` can be read", path.display())),
    );
    for pid in &targets.processes {
        found.extend(of_process(*pid));
    }
    found
}

fn can_read(path: &Path) -> bool {
    if path.is_dir() { std::fs::read_dir(path).is_ok() } else { std::fs::read(path).is_ok() }
}

/// Command lines can be read by everybody; nothing else of a process may.
fn of_process(pid: i32) -> Vec<String> {
    let mut found = Vec::new();
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    if has_a_secret(&command) {
        found.push(format!("a command line has what looks like a secret: {command}"));
    }
    for what in ["environ", "mem", "maps"] {
        let mut byte = [0];
        let file = std::fs::File::open(format!("/proc/{pid}/{what}"));
        if file.and_then(|mut file| file.read(&mut byte)).is_ok_and(|read| read > 0) {
            found.push(format!("`{what}` of `{command}` can be read"));
        }
    }
    if std::fs::read_dir(format!("/proc/{pid}/fd")).is_ok() {
        found.push(format!("the open files of `{command}` can be read"));
    }
    found
}

/// Our secrets are 32 hexadecimal digits.
pub fn has_a_secret(text: &str) -> bool {
    text.split(|sign| !matches!(sign, '0'..='9' | 'a'..='f')).any(|word| word.len() >= 32)
}

// ---- ports -------------------------------------------------------------------------------------------------------

fn over_port(port: u16, targets: &Targets) -> Vec<String> {
    let mut found = Vec::new();
    let banner = exchange(port, b"");
    let mut report = |way: &str, answer: &[u8], in_it: bool| {
        let text = String::from_utf8_lossy(answer);
        if in_it || text.contains(&targets.canary) || text.contains("root:") {
            let begin: String = text.chars().take(80).collect();
            found.push(format!("port {port} answers {way}: {begin:?}"));
        }
    };
    if banner.starts_with(b"220") {
        for password in ["", "x@example.org", "blobwise"] {
            let (answer, logged_in) = ftp(port, password, &["//etc/passwd", "//etc/shadow"]);
            report("an anonymous FTP user", &answer, logged_in);
        }
        return found;
    }
    if banner.len() > 5 && banner[4] == 10 {
        let login =
            [&b"\x26\x00\x00\x01\x00\x82\x00\x00\x00\x00\x00\x01\x21"[..], &[0; 23], b"root\0\0"].concat();
        let answer = exchange(port, &login);
        let greeted = 4 + usize::from(banner[0]);
        report("MySQL's root without a password", &answer, answer.get(greeted + 4) == Some(&0));
        #[cfg(feature = "mysql")]
        report("MySQL's root over TLS, without a certificate", b"", mysql_over_tls(port));
        return found;
    }
    let begins = |answer: &[u8], begin: &[u8]| answer.starts_with(begin);
    let answer = exchange(port, b"version\r\n");
    report("memcached's `version`", &answer, begins(&answer, b"VERSION"));
    let answer = exchange(port, format!("mg {} v\r\n", targets.key).as_bytes());
    report("memcached's `mg`", &answer, begins(&answer, b"VA") || begins(&answer, b"EN"));
    let answer = exchange(port, format!("PING\r\nGET b:{}\r\n", targets.key).as_bytes());
    report("Redis's PING", &answer, begins(&answer, b"+PONG"));
    // Who ends no handshake says nothing over TLS, whatever is asked.
    let tls = speaks_tls(port);
    let answer = if tls { over_tls(port, "version\r\nPING\r\n") } else { Vec::new() };
    let is_answered = [&b"VERSION"[..], b"+PONG", b"-"].iter().any(|begin| begins(&answer, begin));
    report("a cache's commands over TLS", &answer, is_answered);
    let answer = exchange(port, b"\0\0\0\x1a\0\x03\0\0user\0blobwise\0\0\0\0\0");
    report("PostgreSQL's login", &answer, begins(&answer, b"R\0\0\0\x08\0\0\0\0"));
    #[cfg(feature = "postgres")]
    report("PostgreSQL's login over TLS, without a certificate", b"", postgres_over_tls(port));
    let answer = exchange(port, &mongo_hello());
    report("MongoDB's hello", &answer, answer.windows(7).any(|part| part == b"maxWire"));
    for path in paths(&targets.key) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
        let mut answers = vec![("HTTP", exchange(port, request.as_bytes()))];
        answers.extend(tls.then(|| ("HTTPS", over_tls(port, &request))));
        for (way, answer) in answers {
            let success = [&b"HTTP/1.1 2"[..], b"HTTP/1.0 2"].iter().any(|begin| begins(&answer, begin));
            report(&format!("{way} for `{path}`"), &answer, success);
        }
    }
    found
}

/// Where candidates keep blobs and scripts, as everybody can read in the sources.
fn paths(key: &str) -> Vec<String> {
    let mut paths: Vec<String> =
        ["/", "/facts.php", "/settings.php", "/icons/0.png", "/json/version", "/..%2f..%2fvsftpd.conf"]
            .map(str::to_owned)
            .to_vec();
    let begin = &key[..2];
    paths.extend([
        format!("/{begin}/{key}"),
        format!("/{key}"),
        format!("/{key}/"),
        format!("/{key}/content.json"),
    ]);
    // The file id of the key in the volume that has it.
    paths.push(format!("/2,{}", &key[..24]));
    paths.extend([format!("/store/{key}"), format!("/store/b/{key}"), format!("/handover/{begin}/{key}")]);
    for script in ["readfile", "cached", "mysql", "postgres", "handover", "keep"] {
        paths.push(format!("/{script}.php?key={key}"));
    }
    paths
}

/// Sends, and reads until nothing more comes.
fn exchange(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return answer };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // A server may close at once: what it said is read all the same.
    stream.write_all(bytes).ok();
    stream.take(1 << 20).read_to_end(&mut answer).ok();
    answer
}

/// True unless a server refuses to shake hands: no TLS would have an answer then. One that does not say is taken for one that may.
fn speaks_tls(port: u16) -> bool {
    let said = openssl(port, &[], "");
    !String::from_utf8_lossy(&said).contains("no peer certificate available")
}

/// The same over TLS, whoever the server says it is.
fn over_tls(port: u16, request: &str) -> Vec<u8> {
    openssl(port, &["-quiet"], request)
}

/// What a client of TLS prints: what it is told, and without `-quiet` who told it.
fn openssl(port: u16, flags: &[&str], request: &str) -> Vec<u8> {
    let address = format!("127.0.0.1:{port}");
    #[expect(clippy::disallowed_methods, reason = "it is waited for")]
    let client = Command::new("timeout")
        .args(["2", "openssl", "s_client", "-alpn", "http/1.1", "-connect", &address])
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut client) = client else { return Vec::new() };
    let mut input = client.stdin.take().unwrap();
    input.write_all(request.as_bytes()).ok();
    // At the end of its input it goes on to read only if it is quiet.
    let held = flags.contains(&"-quiet").then_some(input);
    let mut answer = Vec::new();
    client.stdout.as_mut().unwrap().read_to_end(&mut answer).ok();
    drop(held);
    client.wait().unwrap();
    answer
}

/// True if the administrator of a MySQL or MariaDB is let in over TLS by who shows no certificate.
#[cfg(feature = "mysql")]
fn mysql_over_tls(port: u16) -> bool {
    let anybody = mysql::SslOpts::default().with_danger_accept_invalid_certs(true);
    let server = mysql::OptsBuilder::new().ip_or_hostname(Some("127.0.0.1")).tcp_port(port);
    let root = server.user(Some("root")).read_timeout(Some(Duration::from_secs(5)));
    mysql::Conn::new(root.prefer_socket(false).ssl_opts(anybody)).is_ok()
}

/// True if the owner of a PostgreSQL is let in over TLS by who shows no certificate.
#[cfg(feature = "postgres")]
fn postgres_over_tls(port: u16) -> bool {
    use blobwise::wire::postgres::{ConnectionParameters, PostgresClient};

    let url = format!("postgres://blobwise@127.0.0.1:{port}/postgres?sslmode=require");
    let patience = Duration::from_secs(2);
    PostgresClient::connect(&ConnectionParameters::parse(&url, patience).unwrap()).is_ok()
}

/// Logs in and fetches files: all that was said and sent, and whether the login was accepted.
pub fn ftp(port: u16, password: &str, files: &[&str]) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    let mut control = TcpStream::connect(("127.0.0.1", port)).unwrap();
    control.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut ask = |command: String, all: &mut Vec<u8>| -> String {
        control.write_all(command.as_bytes()).ok();
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\n") && control.read(&mut byte).is_ok_and(|read| read > 0) {
            line.push(byte[0]);
        }
        all.extend_from_slice(&line);
        String::from_utf8_lossy(&line).into_owned()
    };
    ask(String::new(), &mut all);
    ask("USER anonymous\r\n".to_owned(), &mut all);
    if !ask(format!("PASS {password}\r\n"), &mut all).starts_with("230") {
        return (all, false);
    }
    for file in files {
        let passive = ask("EPSV\r\n".to_owned(), &mut all);
        let port = passive.split('|').nth(3).and_then(|port| port.parse::<u16>().ok());
        let data = port.and_then(|port| TcpStream::connect(("127.0.0.1", port)).ok());
        if ask(format!("RETR {file}\r\n"), &mut all).starts_with("150") {
            data.unwrap().read_to_end(&mut all).ok();
            ask(String::new(), &mut all);
        }
    }
    (all, true)
}

/// `{hello: 1}` for the database `admin`, as an OP_QUERY, which every version answers.
fn mongo_hello() -> Vec<u8> {
    let document = b"\x13\0\0\0\x10isMaster\0\x01\0\0\0\0";
    let document = [&(document.len() as u32).to_le_bytes()[..], &document[4..]].concat();
    let body = [&[0; 4][..], b"admin.$cmd\0", &[0; 4], &1_u32.to_le_bytes(), &document].concat();
    let length = (16 + body.len()) as u32;
    [&length.to_le_bytes()[..], &1_u32.to_le_bytes(), &[0; 4], &2004_u32.to_le_bytes(), &body].concat()
}
