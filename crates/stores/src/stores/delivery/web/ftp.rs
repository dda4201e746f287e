//! Files read over FTP: the underlying store keeps them, vsftpd serves them, and each read opens a data connection, as the
//! protocol (RFC 959, RFC 2428) requires.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use rustix::process::Signal;

use super::front::check_path;
use super::{FILES, facts_of, part, spell_file};
use crate::host::server::{
    AllowedPaths, Launch, Program, Server, SocketDir, cannot_confine, password, write_secret,
};
use crate::store::*;
use crate::stores::common::servers::{self, CONNECTION, START_PATIENCE, STOP_PATIENCE, on_free_port};
use crate::wire::buffer::{Address, Wire};

/// It prints its version on its standard input, and in its greeting.
const VSFTPD: Program = part("vsftpd", &["/usr/sbin", "/usr/local/sbin"], "apt-get install vsftpd");

pub(in crate::stores) const ADAPTER: Adapter = Adapter {
    name: "ftp",
    about: "vsftpd serving the files of `files/hashed` over FTP",
    kind: Kind::Web,
    programs: &[VSFTPD],
    options: &[CONNECTION],
    // A transfer can start anywhere but ends at the end of the file, so there are no ranges.
    caps: |options| Capabilities {
        range: false,
        batch: false,
        get_many: false,
        catalogue: false,
        one_transaction: None,
        totals: false,
        backup: super::HANDS_OUT,
        ..(FILES.adapter.caps)(&FILES.options(options))
    },
    loss: |options, durability| super::loss(&FILES, options, durability),
    integrity: |options, durability| super::integrity(&FILES, options, durability),
    traits: servers::traits,
    memory: |_| CacheRecommendation::NO_CACHE,
    needs: Needs { of_machine: |_| cannot_confine(), ..Needs::NOTHING },
    open,
};

struct Ftp {
    behind: Box<dyn Store>,
    greeting: String,
    address: Address,
    password: String,
    timeout: Duration,
    /// The server and its empty chroot directory; `None` if another process has started it.
    server: Option<(Server, SocketDir)>,
}

/// Joins a server that another process has started.
fn join(setup: &Setup, join_token: &JoinToken) -> Result<Box<dyn Store>> {
    let (address, password): (Address, String) = join_token.read()?;
    let behind = FILES.open(setup, &setup.dir.join("blobs"))?;
    let greeting = FtpClient::connect(&address, &password, setup.op_timeout)?.greeting;
    Ok(Box::new(Ftp { behind, greeting, address, password, timeout: setup.op_timeout, server: None }))
}

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    if let Some(join_token) = setup.join_token {
        return join(setup, join_token);
    }
    check_path(setup)?;
    let blobs = setup.dir.join("blobs");
    let behind = FILES.open(setup, &blobs)?;
    let empty = SocketDir::make("")?;
    let password = password()?;
    let [file, passwords] = ["vsftpd.conf", "passwords"].map(|name| setup.dir.join(name));
    write_secret(&passwords, &format!("{password}\n"))?;
    let (server, greeting, address) = on_free_port(|port| {
        let text = configuration(port, &blobs, &passwords, empty.path());
        std::fs::write(&file, text).with_context(|| format!("cannot write `{}`", file.display()))?;
        // Its own chroot requires root; the kernel's confinement works for every user.
        let files = AllowedPaths::of_the_system().and_reads(&[&file, &passwords, &blobs, empty.path()]);
        let program = VSFTPD.find()?.path;
        let mut server = Server::start(&Launch::new(&program, setup.dir).arg(&file).confined_to(files))?;
        let address = Address::Host(Ipv4Addr::LOCALHOST.to_string(), port);
        let mut greeting = String::new();
        server.wait_until_ready(START_PATIENCE, || {
            greeting = FtpClient::connect(&address, &password, setup.op_timeout)?.greeting;
            Ok(())
        })?;
        Ok((server, greeting, address))
    })?;
    let server = Some((server, empty));
    Ok(Box::new(Ftp { behind, greeting, address, password, timeout: setup.op_timeout, server }))
}

/// Read-only, protected by the password, and without processes of other users. Named users would depend on the system's PAM
/// settings, so every user is `anonymous`, and the password sent must be in the list.
fn configuration(port: u16, blobs: &Path, passwords: &Path, empty: &Path) -> String {
    let (blobs, passwords, empty) = (blobs.display(), passwords.display(), empty.display());
    format!(
        "listen=YES\nlisten_address=127.0.0.1\nlisten_port={port}\nbackground=NO\nrun_as_launching_user=YES\n\
         anonymous_enable=YES\nsecure_email_list_enable=YES\nemail_password_file={passwords}\nanon_root={blobs}\nanon_world_readable_only=NO\nlocal_enable=NO\n\
         write_enable=NO\nsecure_chroot_dir={empty}\nseccomp_sandbox=NO\nxferlog_enable=NO\ndirmessage_enable=NO\n\
         max_clients=0\nmax_per_ip=0\nidle_session_timeout=86400\ndata_connection_timeout=600\n"
    )
}

impl Store for Ftp {
    forward! { behind:
        fn settle(&self) -> Result<()>;
        fn catch_up(&self) -> Result<()>;
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let client = FtpClient::connect(&self.address, &self.password, self.timeout)?;
        Ok(Box::new(FtpSession { store: self, behind: self.behind.session()?, client, path: String::new() }))
    }

    fn facts(&self) -> Result<Facts> {
        let mut facts = Facts::from([("server".into(), self.greeting.clone())]);
        facts.extend(facts_of("behind", self.behind.as_ref())?);
        Ok(facts)
    }

    fn join_token(&self) -> Result<JoinToken> {
        JoinToken::encode(&(&self.address, &self.password))
    }

    fn servers(&self) -> Vec<&Server> {
        self.server.iter().map(|(server, _)| server).chain(self.behind.servers()).collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Ftp { behind, server, .. } = *self;
        if let Some((mut server, _empty)) = server {
            server.stop(Signal::TERM, STOP_PATIENCE)?;
        }
        behind.close()
    }
}

struct FtpSession<'s> {
    store: &'s Ftp,
    behind: Box<dyn Session + 's>,
    client: FtpClient,
    path: String,
}

impl Session for FtpSession<'_> {
    forward! { behind:
        fn put(&mut self, key: &Key, blob: &[u8]) -> Result<()>;
        fn delete(&mut self, key: &Key) -> Result<()>;
        fn sync(&mut self) -> Result<()>;
        fn list(&mut self, each: &mut dyn FnMut(&str)) -> Result<()>;
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> Result<bool> {
        span.check_whole()?;
        self.path.clear();
        self.path.push_str("RETR ");
        spell_file(&mut self.path, key);
        self.path.push_str("\r\n");
        self.client.retrieve(&self.path, sink)
    }

    fn connect(&mut self) -> Result<()> {
        self.client = FtpClient::connect(&self.store.address, &self.store.password, self.store.timeout)?;
        Ok(())
    }
}

// ---- the protocol ------------------------------------------------------------------------------------------------

/// A control connection after login.
struct FtpClient {
    control: Wire,
    host: String,
    timeout: Duration,
    /// The server's first line: name and version.
    greeting: String,
    /// Buffer of the last data connection, for reuse.
    spare: Box<[u8]>,
}

impl FtpClient {
    fn connect(address: &Address, password: &str, timeout: Duration) -> Result<FtpClient> {
        let Address::Host(host, _) = address else {
            return Err(Error::Unsupported("FTP over such a socket"));
        };
        let control = Wire::connect(address, timeout)?;
        let host = host.clone();
        let mut client = FtpClient { control, host, timeout, greeting: String::new(), spare: Box::default() };
        client.greeting = client.reply()?.expect_code(220)?;
        client.ask("USER anonymous\r\n")?.expect_code(331)?;
        client.ask(&format!("PASS {password}\r\n"))?.expect_code(230)?;
        client.ask("TYPE I\r\n")?.expect_code(200)?;
        Ok(client)
    }

    fn ask(&mut self, command: &str) -> Result<FtpReply> {
        self.control.send(&mut [std::io::IoSlice::new(command.as_bytes())])?;
        self.reply()
    }

    /// Reads the next reply; of a multi-line reply, the last line.
    fn reply(&mut self) -> Result<FtpReply> {
        loop {
            let line = String::from_utf8_lossy(self.control.line()?).into_owned();
            let (code, text) = line.split_at_checked(3).unwrap_or_default();
            match (code.parse(), text.chars().next()) {
                (Ok(code), Some(' ') | None) => return Ok(FtpReply { code, text: text.trim().to_owned() }),
                (Ok(_), Some('-')) => {}
                // Lines within a multi-line reply may contain anything.
                _ if line.starts_with(' ') => {}
                _ => bail!("`{line}` is no reply of an FTP server"),
            }
        }
    }

    /// Reads a file; `false` if it does not exist.
    fn retrieve(&mut self, command: &str, sink: Sink) -> Result<bool> {
        let port = port_of(&self.ask("EPSV\r\n")?.expect_code(229)?)?;
        let data = Wire::connect(&Address::Host(self.host.clone(), port), self.timeout)?;
        let mut data = data.with_buffer(std::mem::take(&mut self.spare));
        let reply = self.ask(command)?;
        match reply.code {
            125 | 150 => {}
            550 => return Ok(false),
            _ => return Err(reply.unexpected()),
        }
        data.lend_rest(sink)?;
        self.spare = data.into_buffer();
        // Only this reply distinguishes a complete file from a truncated one.
        self.reply()?.expect_code(226)?;
        Ok(true)
    }
}

struct FtpReply {
    code: u16,
    text: String,
}

impl FtpReply {
    /// The text, if the code is the expected one.
    fn expect_code(self, code: u16) -> Result<String> {
        if self.code == code { Ok(self.text) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> Error {
        Error::Failed(anyhow!("the server says `{} {}`", self.code, self.text))
    }
}

/// Parses the port in `Entering Extended Passive Mode (|||PORT|)`.
fn port_of(text: &str) -> Result<u16> {
    let port = text.split_once("(|||").and_then(|(_, rest)| rest.split_once('|')?.0.parse().ok());
    port.ok_or_else(|| Error::Failed(anyhow!("no port in `{text}`")))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A server that sends these lines on its control connection, one per command.
    fn server(replies: Vec<&'static str>, data: &'static [u8]) -> Address {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = Address::Host("127.0.0.1".to_owned(), listener.local_addr().unwrap().port());
        let passive = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        std::thread::spawn(move || {
            let (mut control, _) = listener.accept().unwrap();
            let mut room = [0; 1024];
            for (number, reply) in replies.into_iter().enumerate() {
                if number > 0 && control.read(&mut room).unwrap() == 0 {
                    return;
                }
                let port = passive.local_addr().unwrap().port().to_string();
                control.write_all(reply.replace("PORT", &port).as_bytes()).unwrap();
                if reply.starts_with("150") {
                    let (mut connection, _) = passive.accept().unwrap();
                    connection.write_all(data).unwrap();
                }
            }
        });
        address
    }

    const LOGIN: [&str; 4] =
        ["220-hello\r\n and more\r\n220 (x)\r\n", "331 who\r\n", "230 in\r\n", "200 ok\r\n"];
    const PASSIVE: &str = "229 Entering Extended Passive Mode (|||PORT|).\r\n";

    fn retrieved(last: &[&'static str]) -> Result<(bool, Vec<u8>)> {
        let replies = LOGIN.iter().chain(last).copied().collect();
        let mut client =
            FtpClient::connect(&server(replies, b"0123456789"), "secret", Duration::from_secs(60))?;
        assert_eq!(client.greeting, "(x)");
        let mut found = Vec::new();
        let there = client.retrieve("RETR x\r\n", &mut |piece| found.extend_from_slice(piece))?;
        Ok((there, found))
    }

    #[test]
    fn a_file_comes_whole_or_not_at_all() {
        let (there, found) = retrieved(&[PASSIVE, "150 here\r\n226 done\r\n"]).unwrap();
        assert!(there && found == b"0123456789");
        assert!(!retrieved(&[PASSIVE, "550 none\r\n"]).unwrap().0);
        let cut = retrieved(&[PASSIVE, "150 here\r\n426 cut off\r\n"]).unwrap_err().to_string();
        assert_eq!(cut, "the server says `426 cut off`");
        let none = retrieved(&["500 what\r\n"]).unwrap_err().to_string();
        assert_eq!(none, "the server says `500 what`");
        assert!(port_of("(|||x|)").is_err() && port_of("").is_err());
    }
}
