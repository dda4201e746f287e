//! Buckets of the user's: what a bucket with versions keeps, uploads that were broken off, and servers that turn requests away. What is
//! there before and after is the server's own list.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use blobwise::result::RunResult;
use rustix::process::Signal;
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};

use crate::objects::{KEY, SECRET, Theirs, no_versitygw, objects, say, with_keys};
use crate::program::{Outcome, Work, needing, start};
use crate::signals::{kill_amid, send, until, wait};
use crate::trials::Trial;

const MINUTE: Duration = Duration::from_secs(60);

pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for state in ["Enabled", "Suspended"] {
        trials.push(needing(
            &format!("a run leaves no version in a bucket whose versioning is {state}"),
            no_versitygw(),
            move || versions_go(state),
        ));
        for (how, signal) in [("killed", Signal::KILL), ("stopped by Ctrl-C", Signal::INT)] {
            trials.push(needing(
                &format!("no version of a run that was {how} stays where versioning is {state}"),
                no_versitygw(),
                move || versions_of_a_broken_run_go(state, signal),
            ));
        }
    }
    trials.push(needing("uploads that a killed run broke off are aborted", no_versitygw(), uploads_go));
    trials.push(needing("a bucket that locks what is put is refused", no_versitygw(), locked));
    trials.push(needing(
        "a bucket whose versions may not be listed or deleted is refused",
        no_versitygw(),
        versions_denied,
    ));
    trials.push(needing(
        "parts are refused where broken uploads are not listed",
        no_versitygw(),
        no_list_of_uploads,
    ));
    for asks in [None, Some(1)] {
        let how = if asks.is_some() { "and asks for a pause" } else { "now and then" };
        trials.push(needing(
            &format!("a server that turns requests away {how} is asked again"),
            no_versitygw(),
            move || slow_down(asks),
        ));
    }
    trials.push(needing(
        "a server that turns everything away fails its candidate",
        no_versitygw(),
        always_slow,
    ));
    trials.push(needing(
        "what cannot be removed is told, and nothing else stays",
        no_versitygw(),
        undeletable,
    ));
    trials
}

// ---- a server that keeps versions ------------------------------------------------------------------------------------

/// An object store that keeps versions, with the bucket `theirs`, in which the user has two versions of an object and a deleted one.
struct Versioned {
    server: Theirs,
    bucket: Bucket,
    credentials: Credentials,
}

impl Versioned {
    fn start(work: &Work, state: &str) -> Versioned {
        let versioned = Versioned::start_empty(work, false);
        versioned.put_setting(
            "versioning",
            &format!("<VersioningConfiguration><Status>{state}</Status></VersioningConfiguration>"),
        );
        for (name, content) in [("precious", "old"), ("precious", "new"), ("gone", "old")] {
            let action = versioned.bucket.put_object(Some(&versioned.credentials), name);
            ureq::put(action.sign(MINUTE).as_str()).send(content).unwrap();
        }
        let action = versioned.bucket.delete_object(Some(&versioned.credentials), "gone");
        ureq::delete(action.sign(MINUTE).as_str()).call().unwrap();
        versioned
    }

    fn start_empty(work: &Work, locks: bool) -> Versioned {
        let versions = work.path("theirs/versions");
        std::fs::create_dir_all(&versions).unwrap();
        let server = Theirs::start_with(work, &["--versioning-dir".as_ref(), versions.as_ref()]);
        let endpoint = format!("http://127.0.0.1:{}/", server.port).parse().unwrap();
        let bucket = Bucket::new(endpoint, UrlStyle::Path, "theirs", "us-east-1").unwrap();
        let credentials = Credentials::new(KEY, SECRET);
        const LOCKS: &str = "x-amz-bucket-object-lock-enabled";
        let mut action = bucket.create_bucket(&credentials);
        if locks {
            action.headers_mut().insert(LOCKS, "true");
        }
        let request = ureq::put(action.sign(MINUTE).as_str());
        let request = if locks { request.header(LOCKS, "true") } else { request };
        request.send_empty().unwrap();
        Versioned { server, bucket, credentials }
    }

    fn url(&self) -> String {
        self.server.url()
    }

    fn put_setting(&self, name: &'static str, text: &str) {
        let mut action = self.bucket.create_bucket(&self.credentials);
        action.query_mut().insert(name, "");
        let request = ureq::put(action.sign(MINUTE).as_str());
        // The server wants it for this setting only.
        let request = if text == LOCK { request.header("Content-MD5", LOCK_MD5) } else { request };
        request.send(text).unwrap();
    }

    /// What the server lists: versions and marks of deletions, or uploads, each with its id.
    fn listed(&self, what: &'static str) -> BTreeSet<String> {
        let mut action = self.bucket.list_objects_v2(Some(&self.credentials));
        action.query_mut().remove("list-type");
        action.query_mut().insert(what, "");
        let mut answer = ureq::get(action.sign(MINUTE).as_str()).call().unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        assert!(text.contains("<IsTruncated>false<"), "{text}");
        let entries = ["<Version>", "<DeleteMarker>", "<Upload>"].map(|begin| text.split(begin).skip(1));
        let inner = |entry: &str, tag: &str| {
            let rest = entry.split_once(&format!("<{tag}>")).map(|(_, rest)| rest);
            rest.and_then(|rest| rest.split_once('<')).map_or(String::new(), |(inner, _)| inner.to_owned())
        };
        let words = |entry: &str| ["Key", "VersionId", "UploadId"].map(|tag| inner(entry, tag)).join(" ");
        entries.into_iter().flatten().map(words).collect()
    }

    /// Begins an upload that nobody goes on with.
    fn begin_upload(&self, name: &str) {
        let action = self.bucket.create_multipart_upload(Some(&self.credentials), name);
        ureq::post(action.sign(MINUTE).as_str()).send_empty().unwrap();
    }
}

const PHASES: &str = "--phases fill,overwrite,delete-half --durability none";

fn versions_go(state: &str) -> Outcome {
    let work = Work::new();
    let theirs = Versioned::start(&work, state);
    let before = theirs.listed("versions");
    let line = format!("run --stores s3 --blobs 40 --rounds 1 {PHASES} --quiet --out out {}", theirs.url());
    say(&work, &line).ended(0);
    assert_eq!(theirs.listed("versions"), before);
    assert!(theirs.listed("uploads").is_empty());
    let result = RunResult::load(&work.path("out"))?;
    assert_eq!(result.candidates[0].facts.get("versioning").map(String::as_str), Some(state));
    Ok(())
}

fn versions_of_a_broken_run_go(state: &str, signal: Signal) -> Outcome {
    let work = Work::new();
    let theirs = Versioned::start(&work, state);
    let before = theirs.listed("versions");
    let run = format!("run --stores s3 --blobs 40 --rounds 9 {PHASES} --dir place {}", theirs.url());
    let child = start(&mut with_keys(&work, &format!("{run} --verbose --out out")));
    let child = until(child, "delete-half", 1);
    if signal == Signal::KILL {
        kill_amid(child, "delete-half", || theirs.listed("versions").len() > before.len());
        let again = "--rounds 1 --phases fill";
        let line =
            format!("run --stores s3 --blobs 2 {again} --durability none --dir place --quiet --out again");
        say(&work, &format!("{line} {}", theirs.url())).ended(0);
    } else {
        send(&child, signal);
        wait(child).ended(130);
    }
    assert_eq!(theirs.listed("versions"), before);
    Ok(())
}

/// The prefix of the one store that is there, if there is one.
fn prefix(listed: &BTreeSet<String>) -> Option<String> {
    let ours = listed.iter().find(|entry| entry.starts_with("blobwise-"))?;
    Some(format!("{}/", ours.split('/').next()?))
}

fn uploads_go() -> Outcome {
    let work = Work::new();
    let theirs = Versioned::start(&work, "Enabled");
    theirs.begin_upload("theirs/b/1");
    let before = (theirs.listed("versions"), theirs.listed("uploads"));
    let run =
        format!("run --stores s3 --durability none --dir place --set s3.multipart=5MiB {}", theirs.url());
    let large = "--corpus fixed:11MB --blobs 3 --rounds 9 --phases fill,read-warm --verbose --out out";
    let child = until(start(&mut with_keys(&work, &format!("{run} {large}"))), "read-warm", 1);
    // What the kill breaks off may be no upload: this one is.
    kill_amid(child, "read-warm", || {
        let prefix = prefix(&theirs.listed("versions"));
        prefix.map(|prefix| theirs.begin_upload(&format!("{prefix}b/1"))).is_some()
    });
    assert_eq!(theirs.listed("uploads").len(), 2);
    say(&work, &format!("{run} --blobs 2 --rounds 1 --phases fill --quiet --out again")).ended(0);
    assert_eq!((theirs.listed("versions"), theirs.listed("uploads")), before);
    Ok(())
}

const QUICK: &str =
    "run --stores s3 --blobs 12 --rounds 1 --phases fill,read-warm --durability none --quiet --out out";

/// A bucket's own rule that what is put there is kept for a day.
const LOCK: &str = "<ObjectLockConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><ObjectLockEnabled>Enabled\
                    </ObjectLockEnabled><Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Days>1</Days></DefaultRetention></Rule>\
                    </ObjectLockConfiguration>";
const LOCK_MD5: &str = "Ms0qM6MDXP5BYyCiloSlng==";

fn locked() -> Outcome {
    let work = Work::new();
    let theirs = Versioned::start_empty(&work, true);
    theirs.put_setting("object-lock", LOCK);
    say(&work, &format!("{QUICK} {}", theirs.url())).refused(&[
        "Object Lock: COMPLIANCE, 1 days",
        "nothing is put there",
        "name a bucket without a default retention",
    ]);
    assert!(theirs.listed("versions").is_empty());
    Ok(())
}

/// The rights of a user who may put and list objects, and no more: what his requests are answered with.
fn versions_denied() -> Outcome {
    const LACKS: &str = "lacks rights that the run needs";
    const CASES: [(&[&str], [&str; 2]); 3] = [
        (&["versioning="], ["s3:GetBucketVersioning", LACKS]),
        (&["object-lock="], ["s3:GetBucketObjectLockConfiguration", LACKS]),
        // All of them in one line.
        (&["versions=", "versionId="], ["s3:ListBucketVersions", "s3:DeleteObjectVersion"]),
    ];
    for (denied, rights) in CASES {
        let work = Work::new();
        let theirs = Versioned::start(&work, "Enabled");
        let before = theirs.listed("versions");
        let (port, _) = between(theirs.server.port, move |asked, _| {
            let is_denied = denied.iter().any(|query| asked.contains(query));
            is_denied.then(|| error(403, "Forbidden", "AccessDenied", "Access Denied.", None))
        })?;
        say(&work, &format!("{QUICK} --set s3.url=http://127.0.0.1:{port}/theirs")).refused(&rights);
        assert_eq!(theirs.listed("versions"), before);
    }
    Ok(())
}

fn no_list_of_uploads() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::start(&work);
    let (port, _) = between(theirs.port, |asked, _| {
        let lists = asked.starts_with("GET ") && asked.contains("uploads=");
        lists.then(|| error(501, "Not Implemented", "NotImplemented", "There is no list of them.", None))
    })?;
    let line = format!("{QUICK} --corpus fixed:6MB --blobs 2 --set s3.url=http://127.0.0.1:{port}/theirs");
    let line = line.replace("--blobs 12", "");
    say(&work, &format!("{line} --set s3.multipart=5MiB")).refused(&[
        "ListMultipartUploads",
        "501",
        "--set s3.multipart=6MiB",
    ]);
    assert!(objects(&work).is_empty());
    say(&work, &format!("{line} --set s3.multipart=6MiB")).ended(0);
    assert!(objects(&work).is_empty());
    Ok(())
}

// ---- a server that turns requests away -------------------------------------------------------------------------------

/// An answer that refuses a request, in the words of the protocol.
fn error(status: u16, reason: &str, code: &str, message: &str, retry_after: Option<u64>) -> String {
    let body =
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>");
    let asks = retry_after.map_or(String::new(), |seconds| format!("Retry-After: {seconds}\r\n"));
    format!(
        "HTTP/1.1 {status} {reason}\r\n{asks}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn slow(retry_after: Option<u64>) -> String {
    error(503, "Slow Down", "SlowDown", "Please reduce your request rate.", retry_after)
}

/// When each request came, its first line, and whether it was turned away.
type Seen = Arc<Mutex<Vec<(Instant, String, bool)>>>;

/// Stands before a server, and answers some of the requests itself: `refuse` has the first line and the number of each.
fn between(
    port: u16,
    refuse: impl Fn(&str, usize) -> Option<String> + Send + Sync + 'static,
) -> std::io::Result<(u16, Seen)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let here = listener.local_addr()?.port();
    let seen = Seen::default();
    let (refuse, all) = (Arc::new(refuse), Arc::clone(&seen));
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (refuse, seen) = (Arc::clone(&refuse), Arc::clone(&all));
            // A client that hangs up is its own affair.
            std::thread::spawn(move || pass_on(client, port, refuse.as_ref(), &seen).ok());
        }
    });
    Ok((here, seen))
}

/// One request of a connection, which ends with its answer.
fn pass_on(
    mut client: TcpStream,
    port: u16,
    refuse: &dyn Fn(&str, usize) -> Option<String>,
    seen: &Seen,
) -> std::io::Result<()> {
    let (mut asked, mut room) = (Vec::new(), vec![0; 1 << 16]);
    let head = loop {
        if let Some(end) = asked.windows(4).position(|end| end == b"\r\n\r\n") {
            break end + 2;
        }
        let read = client.read(&mut room)?;
        if read == 0 {
            return Ok(());
        }
        asked.extend_from_slice(&room[..read]);
    };
    let lines = String::from_utf8_lossy(&asked[..head]).into_owned();
    let length = lines.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse::<usize>().ok());
    let whole = head + 2 + length.unwrap_or(0);
    while asked.len() < whole {
        let read = client.read(&mut room)?;
        asked.extend_from_slice(&room[..read]);
    }
    let first = lines.lines().next().unwrap_or_default();
    let answer = {
        let mut seen = seen.lock().unwrap();
        let answer = refuse(first, seen.len() + 1);
        #[expect(clippy::disallowed_methods, reason = "pauses between requests are what is tried")]
        seen.push((Instant::now(), first.to_owned(), answer.is_some()));
        answer
    };
    if let Some(answer) = answer {
        let is_head = first.starts_with("HEAD ");
        let end = answer.find("\r\n\r\n").map_or(answer.len(), |end| end + 4);
        return client.write_all(if is_head { &answer.as_bytes()[..end] } else { answer.as_bytes() });
    }
    let mut server = TcpStream::connect(("127.0.0.1", port))?;
    server.write_all(&asked[..head])?;
    server.write_all(b"Connection: close\r\n")?;
    server.write_all(&asked[head..])?;
    std::io::copy(&mut server, &mut client).map(drop)
}

fn slow_down(asks: Option<u64>) -> Outcome {
    const EVERY: usize = 20;
    let work = Work::new();
    let theirs = Theirs::start(&work);
    let (port, seen) = between(theirs.port, move |_, number| (number % EVERY == 0).then(|| slow(asks)))?;
    let blobs = if asks.is_some() { 20 } else { 40 };
    let line = format!(
        "run --stores s3 --blobs {blobs} --rounds 1 --phases fill,read-warm,delete-half --workers 1 --durability none --quiet --out out"
    );
    say(&work, &format!("{line} --set s3.url=http://127.0.0.1:{port}/theirs")).ended(0);
    assert!(objects(&work).is_empty(), "{:?}", objects(&work));
    let result = RunResult::load(&work.path("out"))?;
    let mut retries = 0;
    for cell in &result.results {
        let counters = cell.rounds.iter().map(|round| &round.counters);
        counters.for_each(|counters| {
            assert_eq!(counters.errors, 0, "{counters:?}");
            retries += counters.retries;
        });
    }
    let seen = seen.lock().unwrap();
    let refused = seen.iter().filter(|(.., refused)| *refused).count();
    assert!(retries > 0 && retries as usize <= refused, "{retries} of {refused}");
    let least = Duration::from_secs(asks.unwrap_or(0)).max(Duration::from_millis(25));
    for pair in seen.windows(2).filter(|pair| pair[0].2) {
        // The same again, by whoever was turned away: there is one worker.
        let path = |line: &str| line.split('?').next().unwrap_or_default().to_owned();
        assert_eq!(path(&pair[0].1), path(&pair[1].1));
        assert!(pair[1].0 - pair[0].0 >= least, "{:?}", pair[1].0 - pair[0].0);
    }
    if let Some(asked) = asks {
        let longest = result.results.iter().filter_map(|cell| cell.service_ns?.max).max();
        assert!(longest.unwrap_or(0) >= asked * 1_000_000_000, "the pause is no part of its op: {longest:?}");
    }
    Ok(())
}

/// For a while it says so, and then the run ends: with its words, and with what stays.
fn always_slow() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::start(&work);
    let (port, _) = between(theirs.port, |asked, number| {
        (number > 60 && !asked.starts_with("GET /theirs/?")).then(|| slow(None))
    })?;
    let line = format!(
        "run --stores s3 --blobs 80 --rounds 1 --phases fill,read-warm --workers 1 --op-timeout 8s --durability none --dir place \
         --set s3.url=http://127.0.0.1:{port}/theirs"
    );
    say(&work, &format!("{line} --quiet --out out")).ended(1);
    let result = RunResult::load(&work.path("out"))?;
    let told = result.candidates[0].reason.clone().ok_or("the candidate has not failed")?;
    for words in [
        "503 Slow Down: SlowDown: Please reduce your request rate.",
        "could not remove `blobwise-",
        "they stay on the server until you run",
        &format!("aws --endpoint-url http://127.0.0.1:{port}/ s3 rm --recursive s3://theirs/blobwise-"),
    ] {
        assert!(told.contains(words), "`{words}` is not in: {told}");
    }
    assert!(!objects(&work).is_empty());
    // The next run removes it.
    let line = format!(
        "run --stores s3 --blobs 2 --rounds 1 --phases fill --durability none --dir place {}",
        theirs.url()
    );
    say(&work, &format!("{line} --quiet --out again")).ended(0);
    assert!(objects(&work).is_empty(), "{:?}", objects(&work));
    Ok(())
}

/// One object that may not be deleted: it stays with the mark, and is named.
fn undeletable() -> Outcome {
    let work = Work::new();
    let theirs = Theirs::start(&work);
    let kept: Arc<Mutex<Option<String>>> = Arc::default();
    let chosen = Arc::clone(&kept);
    let (port, _) = between(theirs.port, move |asked, _| {
        let path = asked.strip_prefix("DELETE /theirs/")?.split('?').next()?.to_owned();
        let mut chosen = chosen.lock().unwrap();
        if chosen.is_none() && path.contains("/b/") {
            *chosen = Some(path.clone());
        }
        (chosen.as_ref() == Some(&path))
            .then(|| error(403, "Forbidden", "AccessDenied", "Not this one", None))
    })?;
    let said = say(&work, &format!("{QUICK} --set s3.url=http://127.0.0.1:{port}/theirs")).ended(1);
    let kept = kept.lock().unwrap().clone().ok_or("nothing was deleted")?;
    let left = objects(&work);
    let mark = format!("{}/made-by-blobwise", kept.split('/').next().unwrap());
    assert_eq!(left.iter().collect::<BTreeSet<_>>(), BTreeSet::from([&kept, &mark]));
    let told = format!("{}{}", said.stdout, said.stderr);
    for words in [kept.as_str(), "403 Forbidden: AccessDenied: Not this one", "aws --endpoint-url"] {
        assert!(told.contains(words), "`{words}` is not in: {told}");
    }
    Ok(())
}
