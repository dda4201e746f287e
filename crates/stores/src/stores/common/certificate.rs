//! TLS of private servers: a throwaway certificate, the option, and the port on which it is spoken.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::servers::{START_PATIENCE, on_free_port};
use crate::host::server::{Launch, Program, from_cache, run_to_end};
use crate::store::*;
#[cfg(feature = "wire")]
use crate::wire::buffer::Address;
use crate::wire::tls::{TlsMode, TlsRequest, TlsSettings, trust_in};

/// Makes the certificate: a library for it would add a second cryptography implementation to every build.
pub(in crate::stores) const OPENSSL: Program = Program {
    variable: Some("BLOBWISE_OPENSSL"),
    ..Program::plain("openssl", &["version"], "OpenSSL", "apt-get install openssl")
};

/// A self-signed end-entity certificate: clients accept a self-signed one only if it is not an authority. A private PostgreSQL takes
/// who presents it for the user of its common name.
const REQUEST: &str = "\
[req]
prompt = no
distinguished_name = name
x509_extensions = extensions
[name]
CN = blobwise
[extensions]
basicConstraints = critical, CA:FALSE
keyUsage = digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = IP:127.0.0.1
";

/// A certificate that is made once per run and trusted by its clients only.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(in crate::stores) struct Certificate {
    pub(in crate::stores) file: PathBuf,
    pub(in crate::stores) key: PathBuf,
}

impl Certificate {
    /// Puts the run's certificate into a server's directory. Also when a store is opened again: nothing of it was flushed, and a
    /// restored backup has none.
    pub(in crate::stores) fn make(dir: &Path, common: &Common) -> Result<Certificate> {
        let directory = dir.join("certificate");
        crate::host::place::remove_tree(&directory)?;
        from_cache(&common.cache_dir, "certificate", &directory, make)?;
        Ok(Certificate { file: directory.join("certificate.pem"), key: directory.join("key.pem") })
    }

    /// SHA-256 of its public key in base64, by which a browser is told to accept it.
    #[cfg(feature = "page")]
    pub(in crate::stores) fn public_key_hash(&self) -> Result<String> {
        use base64::Engine;
        use base64::engine::general_purpose::STANDARD as BASE64;
        use sha2::{Digest, Sha256};

        let public_key = std::fs::read(self.file.with_file_name("public.der"))?;
        Ok(BASE64.encode(Sha256::digest(public_key)))
    }

    /// A client configuration that trusts only this certificate.
    pub(in crate::stores) fn trust(&self) -> Result<Arc<ClientConfig>> {
        Ok(trust_in(vec![self.read()?])?)
    }

    /// What a client asks for that trusts only this certificate, checks the name in it, and presents it as its own, for servers
    /// that trust nothing else.
    pub(in crate::stores) fn request(&self) -> Result<TlsRequest> {
        let file = || Some(self.file.clone());
        let identity = (file(), Some(self.key.clone()));
        Ok(TlsRequest::new(TlsMode::VerifyFull, TlsSettings::Environment, file(), identity)?)
    }

    fn read(&self) -> Result<CertificateDer<'static>> {
        let file = self.file.display();
        Ok(CertificateDer::from_pem_file(&self.file)
            .with_context(|| format!("`{file}` is no certificate"))?)
    }
}

fn make(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)?;
    std::fs::write(directory.join("request.conf"), REQUEST)?;
    let openssl = OPENSSL.find()?.path;
    let run = |arguments: &str| {
        let launch = Launch::new(&openssl, directory).args(arguments.split_whitespace().map(OsString::from));
        run_to_end(&launch, START_PATIENCE).context("cannot make a certificate")
    };
    run("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -config request.conf \
         -keyout key.pem -out certificate.pem")?;
    run("pkey -in key.pem -pubout -outform DER -out public.der")
}

pub(in crate::stores) const TLS: OptionSpec = OptionSpec::flag("tls").about(
    "true: TLS over loopback, certificate and name checked on both sides; false: in plain text over a Unix socket",
);

/// Why a private server cannot have TLS here, if these options ask for it; `None` if it can or need not.
pub(in crate::stores) fn refusal(options: &Options, program: &Program) -> Option<anyhow::Error> {
    options.flag(TLS.name).then(|| can(program).err()).flatten()
}

fn can(program: &Program) -> anyhow::Result<()> {
    OPENSSL.find()?;
    let server = program.find()?.path;
    ensure!(
        has_tls(&server),
        "`tls=true` is not possible: `{}` was built without TLS; {} names another build",
        server.display(),
        program.variable.unwrap_or_default()
    );
    Ok(())
}

/// True if a server was built with TLS: its file then has the name of a function of OpenSSL. What cannot be read or is a script
/// says itself at its start what it lacks.
fn has_tls(server: &Path) -> bool {
    const NAME: &str = "SSL_CTX_new";
    const PIECE_BYTES: usize = 1 << 20;
    const PROGRAM: [u8; 4] = *b"\x7fELF";
    let Ok(mut file) = File::open(server) else { return true };
    let mut start = [0; PROGRAM.len()];
    if file.read_exact(&mut start).is_err() || start != PROGRAM {
        return true;
    }
    // Piece by piece, because some have hundreds of megabytes. The end of each is kept for a name that goes on in the next.
    let (mut piece, mut kept) = (vec![0; PIECE_BYTES], 0);
    loop {
        let all = match file.read(&mut piece[kept..]) {
            Ok(0) => return false,
            Ok(read) => kept + read,
            Err(_unreadable) => return true,
        };
        if String::from_utf8_lossy(&piece[..all]).contains(NAME) {
            return true;
        }
        kept = all.min(NAME.len());
        piece.copy_within(all - kept..all, 0);
    }
}

/// Refuses the option for the user's server, whose URL has its own.
pub(in crate::stores) fn check_theirs(options: &Options) -> Result<()> {
    ensure!(
        !options.flag(TLS.name),
        "`tls=true` is of private servers, and this one is given by URL, which says itself how strict its TLS is: leave `tls` out"
    );
    Ok(())
}

/// Where a private server speaks TLS on loopback. Clients without its certificate are refused, because any user of the machine can
/// connect to a port.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(in crate::stores) struct TlsPort {
    pub(in crate::stores) port: u16,
    pub(in crate::stores) certificate: Certificate,
}

impl TlsPort {
    /// Starts a server in `dir`, with a free port if the options ask for TLS.
    pub(in crate::stores) fn start<T>(
        dir: &Path,
        setup: &Setup,
        start: impl Fn(Option<&TlsPort>) -> Result<T>,
    ) -> Result<T> {
        if !setup.options.flag(TLS.name) {
            return start(None);
        }
        let certificate = Certificate::make(dir, setup.common)?;
        on_free_port(|port| start(Some(&TlsPort { port, certificate: certificate.clone() })))
    }

    #[cfg(feature = "wire")]
    pub(in crate::stores) fn address(&self) -> Result<Address> {
        Ok(Address::Secure("127.0.0.1".to_owned(), self.port, self.certificate.request()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_tls_is_told_by_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let of = |text: &[u8]| {
            let file = dir.path().join("server");
            std::fs::write(&file, text).unwrap();
            has_tls(&file)
        };
        // The name lies across the end of a piece.
        let server = [b"\x7fELF".as_slice(), &[0xff; (1 << 20) - 5], b"SSL_CTX_new\0", &[0; 100]].concat();
        assert!(of(&server) && !of(&server[..server.len() - 110]) && !of(b"\x7fELF"));
        assert!(of(b"#!/bin/sh\n") && has_tls(&dir.path().join("nowhere")));
    }
}
