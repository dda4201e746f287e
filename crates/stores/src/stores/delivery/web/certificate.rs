//! The temporary certificate of web servers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
#[cfg(feature = "seaweedfs")]
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use crate::host::server::{Launch, Program, from_cache, run_to_end};
use crate::store::*;
use crate::stores::common::servers::START_PATIENCE;
#[cfg(feature = "seaweedfs")]
use crate::wire::tls::trust_and_show;
use crate::wire::tls::trust_in;

/// Makes the certificate: a library for it would add a second cryptography implementation to every build.
pub(in crate::stores) const OPENSSL: Program = Program {
    variable: Some("BLOBWISE_OPENSSL"),
    ..Program::plain("openssl", &["version"], "OpenSSL", "apt-get install openssl")
};

/// A self-signed end-entity certificate: clients accept a self-signed one only if it is not an authority.
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
pub(in crate::stores) struct Certificate {
    pub(in crate::stores) file: PathBuf,
    pub(in crate::stores) key: PathBuf,
}

impl Certificate {
    pub(in crate::stores) fn make(setup: &Setup) -> Result<Certificate> {
        let directory = setup.dir.join("certificate");
        if setup.mode == Mode::Create {
            from_cache(&setup.common.cache_dir, "certificate", &directory, make)?;
        }
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

    /// The same, and the client also presents this certificate, for servers that trust nothing else.
    #[cfg(feature = "seaweedfs")]
    pub(in crate::stores) fn mutual(&self) -> Result<Arc<ClientConfig>> {
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .with_context(|| format!("`{}` is no key", self.key.display()))?;
        Ok(trust_and_show(vec![self.read()?], key)?)
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
