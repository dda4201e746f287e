//! TLS to servers of the user's, named by URL: as strict as the URL says, and told in the result. To private ones: an option.

use std::any::Any;
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use blobwise::host::server::{Launch, Server, free_port, run_to_end};
use blobwise::result::RunResult;
use blobwise::stores;
use mysql::prelude::Queryable;

use crate::caches::{PASSWORD, lines};
use crate::program::{Outcome, Work, missing, needing};
use crate::servers::quick;
use crate::theirs::{self, CLOSED, PATIENCE, Theirs, on_free_port, program, psql};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    const SERVERS: [(&str, StartSecured); 5] = [
        ("postgres/bytea", postgres),
        ("mariadb/blob", mariadb),
        ("mysql/blob", mysql),
        ("redis", redis),
        ("memcached", memcached),
    ];
    let trial = |(store, start): (&'static str, StartSecured)| {
        let name = format!("TLS to {store} is as strict as its URL");
        needing(&name, missing(store).or_else(no_openssl), move || strict(store, start))
    };
    let private = needing(
        "a private redis is compared with TLS and without",
        missing("redis").or_else(no_openssl),
        with_and_without,
    );
    SERVERS.into_iter().map(trial).chain([private]).collect()
}

const OPENSSL: &str = "/usr/bin/openssl";

fn no_openssl() -> Option<String> {
    (!Path::new(OPENSSL).exists()).then(|| "apt-get install openssl".to_owned())
}

/// The certificate and key that a server shows, and two authorities, of which the first signs it.
struct Files(PathBuf);

impl Files {
    fn make(dir: PathBuf) -> Files {
        const CONFIG: &str = "[ca]\ndefault_ca = theirs\n[theirs]\ndatabase = index.txt\nrand_serial = yes\nnew_certs_dir = .\n\
                              default_md = sha256\npolicy = named\ncopy_extensions = copy\nunique_subject = no\n\
                              [named]\ncommonName = supplied\n";
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("ca.conf"), CONFIG).unwrap();
        std::fs::write(dir.join("index.txt"), "").unwrap();
        let files = Files(dir);
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        for name in ["ours", "other"] {
            files.openssl(&format!(
                "req -x509 {key} -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"
            ));
        }
        files.openssl(&format!(
            "req {key} -subj /CN=theirs -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out theirs.csr"
        ));
        files
    }

    /// Signs the server's certificate for a time.
    fn sign(&self, time: &str) {
        self.openssl(&format!(
            "ca -batch -notext -config ca.conf -cert ours.pem -keyfile ours.key -in theirs.csr -out certificate.pem {time}"
        ));
    }

    fn openssl(&self, line: &str) {
        let launch = Launch::new(Path::new(OPENSSL), &self.0).args(line.split_whitespace());
        run_to_end(&launch, PATIENCE).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

/// Starts a server with TLS.
type StartSecured = fn(&Files) -> Secured;

/// A server with TLS.
struct Secured {
    /// Its URL without parameters.
    url: String,
    /// The parameters of a URL that checks certificate and name, before the file of the authority.
    strict: &'static str,
    /// Those of one that checks nothing.
    lenient: &'static str,
    /// Makes the server read its certificate again.
    renew: Box<dyn Fn()>,
    /// Parameters that name a certificate of the client and its key.
    identity: [&'static str; 2],
    /// Makes the server ask for one. `None` if it cannot while it runs.
    ask: Option<Box<dyn Fn()>>,
    _server: Box<dyn Any>,
}

/// Refused: an expired certificate, another authority, another name. Used: what is right, and whatever a URL without checks meets. A
/// server that asks for the client's certificate gets the one that the URL names.
fn strict(store: &'static str, start: StartSecured) -> Outcome {
    let work = Work::new();
    let files = Files::make(work.path("certificates"));
    files.sign("-startdate 20200101000000Z -enddate 20200102000000Z");
    let theirs = start(&files);
    let option = stores::family(store);
    let run = |url: &str| work.say(&quick(store, &format!("--durability none --set {option}.url={url}")));
    let by = |authority: &str| format!("{}?{}{}", theirs.url, theirs.strict, files.path(authority));
    run(&by("ours.pem")).refused(&[store, "no TLS with `127.0.0.1`", "has expired"]);
    files.sign("-days 2");
    (theirs.renew)();
    let setting = theirs.strict.trim_end_matches('=').rsplit('&').next().unwrap();
    run(&by("other.pem")).refused(&[
        store,
        "no TLS with `127.0.0.1`",
        "no authority that is trusted",
        setting,
    ]);
    let elsewhere = by("ours.pem").replace("127.0.0.1:", "localhost:");
    run(&elsewhere).refused(&[
        store,
        "no TLS with `localhost`",
        "127.0.0.1 and not for this name",
        "checks no name",
    ]);
    run(&by("nowhere.pem")).refused(&[store, "nowhere.pem", "No such file"]);
    for (url, checked) in [
        (by("ours.pem"), "certificate and name checked"),
        (format!("{}?{}", theirs.url, theirs.lenient).replace("127.0.0.1:", "localhost:"), "nothing checked"),
    ] {
        run(&url).ended(0);
        let result = RunResult::load(&work.path("out"))?;
        let told = &result.candidates[0].facts["tls"];
        assert!(told.starts_with("TLSv1.3, TLS_") && told.ends_with(checked), "{told}");
        std::fs::remove_dir_all(work.path("out"))?;
    }
    if let Some(ask) = &theirs.ask {
        ask();
        run(&by("ours.pem")).refused(&[store]);
        let [certificate, key] = theirs.identity;
        let (shown, by_key) = (files.path("certificate.pem"), files.path("key.pem"));
        run(&format!("{}&{certificate}={shown}&{key}={by_key}", by("ours.pem"))).ended(0);
    }
    Ok(())
}

/// Only what speaks TLS says what was negotiated. A server of the user's has it in its URL, and is not connected to.
fn with_and_without() -> Outcome {
    let work = Work::new();
    let result = work.result(&quick("redis", "--durability none --set redis.tls=false,true"));
    let told: Vec<_> = result.candidates.iter().map(|candidate| candidate.facts.get("tls")).collect();
    let [None, Some(told)] = told.as_slice() else { return Err(format!("{told:?}").into()) };
    assert!(told.starts_with("TLSv1.3, TLS_") && told.ends_with("certificate and name checked"), "{told}");
    let theirs = format!("--set redis.tls=true --set redis.url=redis://127.0.0.1:{CLOSED}");
    Work::new().say(&quick("redis", &theirs)).refused(&["redis", "`tls=true` is of private servers"]);
    Ok(())
}

fn postgres(files: &Files) -> Secured {
    let [certificate, key] = ["certificate", "key"].map(|name| files.path(&format!("{name}.pem")));
    let theirs = theirs::postgres(&[
        "ssl=on",
        &format!("ssl_cert_file={certificate}"),
        &format!("ssl_key_file={key}"),
        &format!("ssl_ca_file={}", files.path("ours.pem")),
    ]);
    let url = theirs.url.clone();
    let (owner, entries) = (url.clone(), theirs._work.path("theirs/data/pg_hba.conf"));
    let ask = move || {
        std::fs::write(&entries, "hostssl all all 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n")
            .unwrap();
        psql(&owner, "SELECT pg_reload_conf()").unwrap();
    };
    Secured {
        url: url.clone(),
        strict: "sslmode=verify-full&sslrootcert=",
        lenient: "application_name=no-sslmode",
        renew: Box::new(move || drop(psql(&url, "SELECT pg_reload_conf()").unwrap())),
        identity: ["sslcert", "sslkey"],
        ask: Some(Box::new(ask)),
        _server: Box::new(theirs),
    }
}

fn mariadb(files: &Files) -> Secured {
    of_mysql(files, theirs::mariadb, "FLUSH SSL")
}

fn mysql(files: &Files) -> Secured {
    of_mysql(files, theirs::mysql, "ALTER INSTANCE RELOAD TLS")
}

fn of_mysql(files: &Files, start: fn(&[&str]) -> Theirs, renew: &'static str) -> Secured {
    let flags = [("ssl-cert", "certificate"), ("ssl-key", "key"), ("ssl-ca", "ours")]
        .map(|(flag, name)| format!("--{flag}={}", files.path(&format!("{name}.pem"))));
    let theirs = start(&flags.each_ref().map(String::as_str));
    let url = theirs.url.clone();
    let by_owner =
        move |statement: &str| ::mysql::Conn::new(url.as_str()).unwrap().query_drop(statement).unwrap();
    let ask = by_owner.clone();
    Secured {
        url: theirs.url.clone(),
        strict: "ssl-mode=VERIFY_IDENTITY&ssl-ca=",
        lenient: "prefer_socket=false",
        renew: Box::new(move || by_owner(renew)),
        identity: ["ssl-cert", "ssl-key"],
        ask: Some(Box::new(move || ask("ALTER USER owner@'127.0.0.1' REQUIRE X509"))),
        _server: Box::new(theirs),
    }
}

/// Also without TLS, on another port, to be told to read its certificate again.
fn redis(files: &Files) -> Secured {
    let program = program("redis");
    let certificate = files.path("certificate.pem");
    let (server, port, plain) = on_free_port(|port| {
        let plain = free_port()?;
        let launch = Launch::new(&program, &files.0)
            .args([
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--requirepass",
                PASSWORD,
                "--tls-auth-clients",
                "no",
            ])
            .args(["--tls-port", &port.to_string(), "--port", &plain.to_string()])
            .args(["--tls-cert-file", &certificate, "--tls-key-file", &files.path("key.pem")])
            .args(["--tls-ca-cert-file", &files.path("ours.pem")]);
        let mut server = Server::start(&launch)?;
        server.wait_until_ready(PATIENCE, || Ok(TcpStream::connect(("127.0.0.1", plain)).map(drop)?))?;
        Ok((server, port, plain))
    });
    let set = move |setting: &str| assert_eq!(lines(plain, &format!("CONFIG SET {setting}"), 1), ["+OK"]);
    Secured {
        url: format!("rediss://:{PASSWORD}@127.0.0.1:{port}/0"),
        strict: "ssl_ca_certs=",
        lenient: "ssl_cert_reqs=none",
        renew: Box::new(move || set(&format!("tls-cert-file {certificate}"))),
        identity: ["ssl_certfile", "ssl_keyfile"],
        ask: Some(Box::new(move || set("tls-auth-clients yes"))),
        _server: Box::new(server),
    }
}

/// The same.
fn memcached(files: &Files) -> Secured {
    let program = program("memcached");
    let (server, port, plain) = on_free_port(|port| {
        let plain = free_port()?;
        let shown =
            format!("ssl_chain_cert={},ssl_key={}", files.path("certificate.pem"), files.path("key.pem"));
        let launch = Launch::new(&program, &files.0)
            .args(["-l", &format!("notls:127.0.0.1:{plain},127.0.0.1:{port}"), "-U", "0"])
            .args(["-Z", "-o", &shown]);
        let mut server = Server::start(&launch)?;
        server.wait_until_ready(PATIENCE, || Ok(TcpStream::connect(("127.0.0.1", plain)).map(drop)?))?;
        Ok((server, port, plain))
    });
    Secured {
        url: format!("memcacheds://127.0.0.1:{port}"),
        strict: "ssl_ca_certs=",
        lenient: "ssl_cert_reqs=none",
        renew: Box::new(move || assert_eq!(lines(plain, "refresh_certs", 1), ["OK"])),
        identity: ["ssl_certfile", "ssl_keyfile"],
        ask: None,
        _server: Box::new(server),
    }
}
