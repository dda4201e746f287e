//! Object stores of the user's, named by URL: keys, buckets, clocks and certificates that are wrong, and what is left behind.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use blobwise::host::server::{Launch, Server, run_to_end};
use blobwise::result::{RunResult, Status};
use blobwise::stores::{self, Entry};

use crate::program::{Outcome, Said, Work, finish, missing, needing, start};
use crate::servers::{hanging_up, quick};
use crate::signals::{kill_amid, until};
use crate::theirs::{CLOSED, on_free_port};
use crate::trials::Trial;

const PATIENCE: Duration = Duration::from_secs(60);
pub const KEY: &str = "key-of-theirs";
pub const SECRET: &str = "secret-of-theirs";

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("a URL that leads to no object store is an error before the run", nowhere),
        Trial::test("an object store that finds the clocks apart says so", clock_skew),
        Trial::test("a proxy that answers for an object store is told in its words", bad_gateway),
        needing(
            "an object store takes hosts of buckets, and checksums of parts",
            no_versitygw().or_else(|| missing("s3")),
            hosts_and_checksums,
        ),
        needing("a bucket given by URL is used and left as it was", no_versitygw(), used_and_left),
        needing("keys that are wrong or missing are an error before the run", no_versitygw(), wrong_keys),
        needing("a bucket that is not there is an error before the run", no_versitygw(), no_bucket),
        needing("what a killed run left in a bucket goes with the next run", no_versitygw(), killed),
        needing(
            "an object store is reached with TLS, if its certificate is right",
            no_versitygw().or_else(no_tls),
            tls,
        ),
    ]
}

/// An object store that keeps each object as a file, and has users and versions.
pub fn versitygw() -> anyhow::Result<PathBuf> {
    let Some(Entry::Ready(adapter)) = stores::find("s3") else { anyhow::bail!("s3 is not compiled in") };
    let program = adapter.programs.iter().find(|program| program.name == "versitygw");
    Ok(program.ok_or_else(|| anyhow::anyhow!("no versitygw among the programs"))?.find()?.path)
}

pub fn no_versitygw() -> Option<String> {
    versitygw().err().map(|why| format!("{why:#}"))
}

/// An object store that is not blobwise's.
pub struct Theirs {
    // Stops the server when dropped.
    _server: Server,
    pub port: u16,
}

impl Theirs {
    /// Starts it with an empty bucket `theirs`, which it keeps as a directory. Its access log is `theirs/log`.
    pub fn start(work: &Work) -> Theirs {
        std::fs::create_dir_all(work.path("theirs/data/theirs")).unwrap();
        Theirs::start_with(work, &[])
    }

    /// Starts it with these options of its files.
    pub fn start_with(work: &Work, options: &[&OsStr]) -> Theirs {
        let (program, dir) = (versitygw().unwrap(), work.path("theirs"));
        ["data", "users"].iter().for_each(|name| std::fs::create_dir_all(dir.join(name)).unwrap());
        on_free_port(|port| {
            let launch = Launch::new(&program, &dir)
                .env("ROOT_ACCESS_KEY_ID", KEY)
                .env("ROOT_SECRET_ACCESS_KEY", SECRET)
                .args(["--port", &format!("127.0.0.1:{port}"), "--quiet", "--keep-alive"])
                .arg("--access-log")
                .arg(dir.join("log"))
                // Without it, it answers 404 to a key that is nobody's.
                .arg("--iam-dir")
                .arg(dir.join("users"))
                .arg("posix")
                .args(options)
                .arg(dir.join("data"));
            let mut server = Server::start(&launch)?;
            server.wait_until_ready(PATIENCE, || connects(port))?;
            Ok(Theirs { _server: server, port })
        })
    }

    pub fn url(&self) -> String {
        format!("--set s3.url=http://127.0.0.1:{}/theirs", self.port)
    }
}

pub fn connects(port: u16) -> anyhow::Result<()> {
    Ok(TcpStream::connect(("127.0.0.1", port)).map(drop)?)
}

pub fn with_keys(work: &Work, line: &str) -> std::process::Command {
    let mut command = work.blobwise(line);
    command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
    command.env_remove("AWS_SESSION_TOKEN");
    command
}

pub fn say(work: &Work, line: &str) -> Said {
    finish(&mut with_keys(work, line))
}

/// Objects in the bucket, as the files that the server keeps them in.
pub fn objects(work: &Work) -> Vec<String> {
    let bucket = work.path("theirs/data/theirs");
    let files =
        walkdir::WalkDir::new(&bucket).into_iter().flatten().filter(|entry| entry.file_type().is_file());
    let mut names: Vec<String> = files
        .map(|file| file.path().strip_prefix(&bucket).unwrap().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names
}

fn nowhere() -> Outcome {
    let work = Work::new();
    let (closed, other) = (CLOSED, hanging_up()?);
    for (url, words) in [
        (format!("http://127.0.0.1:{closed}/bucket"), ["s3", "refused"]),
        (format!("http://127.0.0.1:{other}/bucket"), ["s3", "the answer is not HTTP: `220 hello`"]),
        ("http://127.0.0.1/".to_owned(), ["s3", "does not name one bucket"]),
        ("http://127.0.0.1/a/b".to_owned(), ["s3", "does not name one bucket"]),
        ("ftp://127.0.0.1/bucket".to_owned(), ["s3", "neither `https://` nor `http://`"]),
        ("https://me:hidden@127.0.0.1/bucket".to_owned(), ["s3", "AWS_ACCESS_KEY_ID"]),
        ("nonsense".to_owned(), ["s3", "it is not a URL such as"]),
    ] {
        let said = say(&work, &quick("s3", &format!("--op-timeout 5s --set s3.url={url}"))).refused(&words);
        assert!(!said.stderr.contains("hidden") && !said.stderr.contains(SECRET), "{}", said.stderr);
    }
    let line = quick("s3", "--set s3.url=http://127.0.0.1/bucket --set s3.region=up/down");
    say(&work, &line).refused(&["s3.region", "not one word"]);
    assert!(work.names(".").is_empty());
    Ok(())
}

/// The port of something that answers every request alike.
fn answering(answer: &'static str) -> std::io::Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut room = [0; 8192];
            if stream.read(&mut room).is_ok() {
                drop(stream.write_all(answer.as_bytes()));
            }
        }
    });
    Ok(port)
}

fn clock_skew() -> Outcome {
    let work = Work::new();
    let port = answering(
        "HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n<?xml version=\"1.0\"?><Error><Code>RequestTimeTooSkewed</Code>\
         <Message>The difference between the request time and the server's time is too large.</Message></Error>",
    )?;
    let line = quick("s3", &format!("--set s3.url=http://127.0.0.1:{port}/bucket"));
    say(&work, &line).refused(&["RequestTimeTooSkewed", "request time and the server's time"]);
    Ok(())
}

fn bad_gateway() -> Outcome {
    let work = Work::new();
    let port = answering("HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\n\r\n<html>no</html>")?;
    let line = quick("s3", &format!("--op-timeout 10s --set s3.url=http://127.0.0.1:{port}/bucket"));
    say(&work, &line).refused(&["502 Bad Gateway", "after 3 attempts"]);
    // The bucket is somewhere else.
    let port = answering(
        "HTTP/1.1 301 Moved Permanently\r\nx-amz-bucket-region: eu-west-1\r\nConnection: close\r\n\r\n<?xml version=\"1.0\"?>\
         <Error><Code>PermanentRedirect</Code><Message>Use the endpoint.</Message><Endpoint>bucket.s3.example</Endpoint></Error>",
    )?;
    let line = quick("s3", &format!("--set s3.url=http://127.0.0.1:{port}/bucket"));
    say(&work, &line).refused(&["PermanentRedirect", "--set s3.region=eu-west-1", "`bucket.s3.example`"]);
    let line = quick("s3", "--set s3.url=http://127.0.0.1/bucket --set s3.style=virtual-host");
    say(&work, &line).refused(&["is an address", "leave out s3.style=virtual-host"]);
    Ok(())
}

/// Each checksum is a part of what is signed: a server that does not find it in the request refuses that.
fn hosts_and_checksums() -> Outcome {
    for (server, checksum) in [("versitygw", "crc32"), ("seaweedfs", "sha256")] {
        let work = Work::new();
        let line = format!(
            "run --stores s3 --corpus fixed:11MB --blobs 2 --rounds 1 --phases fill,read-warm,overwrite --quiet --out out \
             --set s3.server={server} --set s3.checksum={checksum} --set s3.style=virtual-host --set s3.multipart=5MiB"
        );
        let result = work.result(&line);
        let told = result.candidates[0].facts.get("checksum").map(|name| name.to_lowercase());
        assert_eq!(told.as_deref(), Some(checksum), "{server}");
    }
    Ok(())
}

/// Ours goes, and nothing else: not even what has a name like ours without the mark.
fn used_and_left() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::start(&work);
    let stranger = work.path("theirs/data/theirs/blobwise-0000000000000000");
    std::fs::create_dir(&stranger)?;
    std::fs::write(stranger.join("x"), "theirs")?;
    std::fs::write(work.path("theirs/data/theirs/precious"), "theirs")?;
    let line = "run --stores s3 --blobs 12 --rounds 1 --phases fill,read-warm,read-cold,range-random,delete-half \
                --durability none --quiet --out out";
    say(&work, &format!("{line} {}", theirs.url())).ended(0);
    assert_eq!(objects(&work), ["blobwise-0000000000000000/x", "precious"]);
    let result = RunResult::load(&work.path("out"))?;
    let cold = result.results.iter().find(|cell| cell.phase == "read-cold").ok_or("no cell")?;
    assert_eq!(cold.status, Status::NotPossible);
    for file in ["result.json", "plan.toml", "report.html"] {
        let text = std::fs::read_to_string(work.path("out").join(file))?;
        assert!(!text.contains(SECRET) && !text.contains(KEY), "a key is in {file}");
    }
    Ok(())
}

fn wrong_keys() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::start(&work);
    let line = quick("s3", &theirs.url());
    let mut wrong = with_keys(&work, &line);
    let said = finish(wrong.env("AWS_SECRET_ACCESS_KEY", "a-wrong-one")).refused(&["s3", "403", "Signature"]);
    assert!(!said.stderr.contains("a-wrong-one"), "{}", said.stderr);
    let mut unknown = with_keys(&work, &line);
    finish(unknown.env("AWS_ACCESS_KEY_ID", "nobody")).refused(&["s3", "403"]);
    let mut none = with_keys(&work, &line);
    finish(none.env_remove("AWS_SECRET_ACCESS_KEY")).refused(&[
        "s3",
        "AWS_SECRET_ACCESS_KEY",
        "not both set",
    ]);
    assert_eq!(work.names("."), ["theirs"]);
    Ok(())
}

fn no_bucket() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::start(&work);
    let line = quick("s3", &format!("--set s3.url=http://127.0.0.1:{}/nosuch", theirs.port));
    say(&work, &line).refused(&["s3", "404", "NoSuchBucket"]);
    Ok(())
}

fn killed() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::start(&work);
    let run = format!(
        "run --stores s3 --blobs 40 --phases fill,read-warm --durability none --dir place {}",
        theirs.url()
    );
    let child = start(&mut with_keys(&work, &format!("{run} --rounds 20 --verbose --out out")));
    let child = until(child, "read-warm", 1);
    kill_amid(child, "read-warm", || !objects(&work).is_empty());
    say(&work, &format!("{run} --rounds 2 --quiet --out again")).ended(0);
    assert!(objects(&work).is_empty(), "{:?}", objects(&work));
    Ok(())
}

// ---- TLS -------------------------------------------------------------------------------------------------------------

fn no_tls() -> Option<String> {
    let is_there = |name: &str| Path::new("/usr/bin").join(name).exists();
    (!is_there("openssl") || !is_there("socat")).then(|| "apt-get install openssl socat".to_owned())
}

/// A throwaway certificate for this machine's own address; its file is the authority that vouches for it too.
fn certificate(work: &Work) -> (String, String) {
    let (key, certificate) = (work.path("theirs/key.pem"), work.path("theirs/certificate.pem"));
    let dir = work.path("theirs");
    let options =
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=theirs";
    let launch = Launch::new(Path::new("/usr/bin/openssl"), &dir)
        .args(options.split_whitespace())
        .args(["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate);
    run_to_end(&launch, PATIENCE).unwrap();
    (key.display().to_string(), certificate.display().to_string())
}

fn tls() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::start(&work);
    let (key, certificate) = certificate(&work);
    let dir = work.path("theirs");
    let (_proxy, port) = on_free_port(|port| {
        let listen = format!(
            "OPENSSL-LISTEN:{port},bind=127.0.0.1,cert={certificate},key={key},verify=0,fork,reuseaddr"
        );
        let launch = Launch::new(Path::new("/usr/bin/socat"), &dir);
        let launch = launch.args([listen, format!("TCP:127.0.0.1:{}", theirs.port)]);
        let mut proxy = Server::start(&launch)?;
        proxy.wait_until_ready(PATIENCE, || connects(port))?;
        Ok((proxy, port))
    });
    let line = format!(
        "run --stores s3 --corpus fixed:200kB --blobs 12 --rounds 1 --phases fill,read-warm --durability none \
         --quiet --out out --set s3.url=https://127.0.0.1:{port}/theirs"
    );
    let mut unknown = with_keys(&work, &line);
    finish(unknown.env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR")).refused(&[
        "s3",
        "no TLS with `127.0.0.1`",
        "SSL_CERT_FILE",
    ]);
    let mut other_name = with_keys(&work, &line.replace("127.0.0.1", "localhost"));
    finish(other_name.env("SSL_CERT_FILE", &certificate)).refused(&[
        "s3",
        "no TLS with `localhost`",
        "127.0.0.1 and not for this name",
    ]);
    let mut trusted = with_keys(&work, &line);
    finish(trusted.env("SSL_CERT_FILE", &certificate)).ended(0);
    let result = RunResult::load(&work.path("out"))?;
    let told = &result.candidates[0].facts["tls"];
    assert!(told.starts_with("TLSv1.") && told.ends_with("certificate and name checked"), "{told}");
    assert!(objects(&work).is_empty(), "{:?}", objects(&work));
    Ok(())
}
