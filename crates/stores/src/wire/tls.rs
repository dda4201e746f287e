//! TLS to servers: whom a client trusts, what a URL asks for, and what was negotiated.

use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, bail, ensure};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WantsClientCert, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, ConfigBuilder, DigitallySignedStruct,
    RootCertStore, SignatureScheme, StreamOwned,
};

use super::stream::Stream;

/// How strictly a connection is encrypted, in the words of libpq.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub enum TlsMode {
    /// Never.
    Disable,
    /// If the server refuses a plain connection.
    Allow,
    /// If the server can.
    #[default]
    Prefer,
    /// Always; no certificate is checked.
    Require,
    /// Always; a trusted authority must have signed the server's certificate.
    VerifyCa,
    /// The same, and the certificate must be for the host that the URL names.
    VerifyFull,
}

impl TlsMode {
    /// True if the server decides.
    pub fn is_optional(self) -> bool {
        matches!(self, TlsMode::Allow | TlsMode::Prefer)
    }

    /// What is checked of an encrypted connection.
    pub fn checked(self) -> &'static str {
        match self {
            TlsMode::VerifyFull => "certificate and name checked",
            TlsMode::VerifyCa => "certificate checked, name not checked",
            _ => "nothing checked",
        }
    }
}

/// Where the settings come from, and so how they are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum TlsSettings {
    /// A URL of PostgreSQL, as libpq has them.
    #[default]
    Libpq,
    /// A URL of a cache, as redis-py has them.
    RedisPy,
    /// A URL of MySQL or MariaDB, as MySQL's clients have them.
    MySql,
    /// The environment.
    Environment,
}

impl TlsSettings {
    fn authorities(self) -> &'static str {
        match self {
            TlsSettings::Libpq => "sslrootcert",
            TlsSettings::RedisPy => "ssl_ca_certs",
            TlsSettings::MySql => "ssl-ca",
            TlsSettings::Environment => "SSL_CERT_FILE",
        }
    }

    /// The setting that checks no name, and the one that checks no certificate.
    fn lenient(self) -> Option<[&'static str; 2]> {
        match self {
            TlsSettings::Libpq => Some(["sslmode=verify-ca", "sslmode=require"]),
            TlsSettings::RedisPy => Some(["ssl_check_hostname=false", "ssl_cert_reqs=none"]),
            TlsSettings::MySql => Some(["ssl-mode=REQUIRED"; 2]),
            TlsSettings::Environment => None,
        }
    }
}

/// What the URL of a server asks for.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct TlsRequest {
    /// What of the server's certificate is checked, if there is TLS at all.
    pub mode: TlsMode,
    settings: TlsSettings,
    /// File of the trusted authorities; without it, those that this machine trusts.
    pub(super) authorities: Option<PathBuf>,
    /// Files of the client's own certificate and its key.
    pub(super) identity: Option<(PathBuf, PathBuf)>,
    /// Shared by all connections; made by the first.
    #[serde(skip)]
    config: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl TlsRequest {
    /// A request of these files: of authorities, and of the client's own certificate and its key.
    pub fn new(
        mode: TlsMode,
        settings: TlsSettings,
        authorities: Option<PathBuf>,
        identity: (Option<PathBuf>, Option<PathBuf>),
    ) -> Result<TlsRequest> {
        ensure!(
            authorities.is_none() || mode > TlsMode::Require,
            "`{}` names an authority, and no certificate is checked",
            settings.authorities()
        );
        let identity = match identity {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => bail!("a certificate of the client and its key are named together or not at all"),
        };
        Ok(TlsRequest { mode, settings, authorities, identity, config: Arc::default() })
    }

    /// The request of a cache's URL, with the parameters of redis-py. Certificate and name are checked unless it says otherwise.
    #[cfg(feature = "wire")]
    pub fn from_query(url: &url::Url) -> Result<TlsRequest> {
        let mut mode = TlsMode::VerifyFull;
        let [mut authorities, mut certificate, mut key] = [None, None, None];
        for (name, value) in url.query_pairs() {
            let file = || Some(PathBuf::from(&*value));
            match (&*name, &*value) {
                ("ssl_ca_certs", _) => authorities = file(),
                ("ssl_certfile", _) => certificate = file(),
                ("ssl_keyfile", _) => key = file(),
                ("ssl_cert_reqs", "required") | ("ssl_check_hostname", "true") => {}
                ("ssl_cert_reqs", "none") => mode = TlsMode::Require,
                ("ssl_check_hostname", "false") => mode = mode.min(TlsMode::VerifyCa),
                _ => bail!(
                    "the parameter `{name}` is none of ssl_ca_certs=FILE, ssl_certfile=FILE, ssl_keyfile=FILE, \
                     ssl_cert_reqs=required|none, ssl_check_hostname=true|false"
                ),
            }
        }
        TlsRequest::new(mode, TlsSettings::RedisPy, authorities, (certificate, key))
    }

    /// Starts TLS over a new connection to `host`.
    pub fn secure(&self, stream: TcpStream, host: &str) -> io::Result<Stream> {
        let config = self.config().map_err(|error| io::Error::other(format!("{error:#}")))?;
        secured(stream, host, &config, None, self.settings)
    }

    /// The configuration of a client, which reads its files once.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let made = self.make()?;
        Ok(Arc::clone(self.config.get_or_init(|| made)))
    }

    fn make(&self) -> Result<Arc<ClientConfig>> {
        let roots = || match &self.authorities {
            Some(file) => roots_of(certificates_in(file)?),
            None => roots_of(native_certificates()?),
        };
        let trusting = match self.mode {
            TlsMode::VerifyFull => trusting(roots()?)?,
            TlsMode::VerifyCa => lenient(Some(roots()?))?,
            _ => lenient(None)?,
        };
        let config = match &self.identity {
            Some((certificate, key)) => {
                let unread = || format!("`{}` has no private key, or an encrypted one", key.display());
                let key = PrivateKeyDer::from_pem_file(key).with_context(unread)?;
                let shown = trusting.with_client_auth_cert(certificates_in(certificate)?, key);
                shown.context("the client's own certificate cannot be shown")?
            }
            None => trusting.with_no_client_auth(),
        };
        Ok(without_resumption(config))
    }
}

/// A client configuration that trusts these authorities or certificates.
pub fn trust_in(certificates: Vec<CertificateDer<'_>>) -> Result<Arc<ClientConfig>> {
    Ok(without_resumption(trusting(roots_of(certificates)?)?.with_no_client_auth()))
}

/// The authorities that this machine trusts, or those in the file that `SSL_CERT_FILE` names.
pub fn native_certificates() -> Result<Vec<CertificateDer<'static>>> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        bail!(
            "no authority for certificates is trusted here ({}); SSL_CERT_FILE names a file of them",
            errors.join("; ")
        );
    }
    Ok(found.certs)
}

pub(super) fn certificates_in(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let unread = || format!("`{}` has no certificates in PEM", file.display());
    let found = CertificateDer::pem_file_iter(file).with_context(unread)?;
    let found: Result<Vec<CertificateDer<'static>>, _> = found.collect();
    let found = found.with_context(unread)?;
    ensure!(!found.is_empty(), unread());
    Ok(found)
}

fn roots_of(certificates: Vec<CertificateDer<'_>>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    ensure!(!roots.is_empty(), "there is no certificate to trust");
    Ok(roots)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A configuration that checks certificates and names.
fn trusting(roots: RootCertStore) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    Ok(builder.context("TLS cannot be set up")?.with_root_certificates(roots))
}

/// A configuration that checks certificates and no names, or nothing.
fn lenient(roots: Option<RootCertStore>) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>> {
    let provider = provider();
    let schemes = provider.signature_verification_algorithms.supported_schemes();
    let verifier =
        |roots| WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
    let authorities = roots.map(verifier).transpose().context("the authorities cannot be used")?;
    let verifier = LenientVerifier { authorities, schemes };
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.context("TLS cannot be set up")?.dangerous();
    Ok(builder.with_custom_certificate_verifier(Arc::new(verifier)))
}

fn without_resumption(mut config: ClientConfig) -> Arc<ClientConfig> {
    // Every connection makes a full handshake, which is what a connection costs a new visitor.
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// Checks no names, and without authorities nothing.
#[derive(Debug)]
struct LenientVerifier {
    authorities: Option<Arc<WebPkiServerVerifier>>,
    schemes: Vec<SignatureScheme>,
}

impl ServerCertVerifier for LenientVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(authorities) = &self.authorities else { return Ok(ServerCertVerified::assertion()) };
        // The name is checked last.
        match authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match &self.authorities {
            Some(authorities) => authorities.verify_tls12_signature(message, cert, dss),
            // Of a certificate that may be anybody's: it would prove nothing.
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match &self.authorities {
            Some(authorities) => authorities.verify_tls13_signature(message, cert, dss),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}

/// Starts TLS over a new connection to `host`. `protocol` is negotiated by ALPN, if given. The error names the host, the reason,
/// and the setting to change.
pub fn secured(
    stream: TcpStream,
    host: &str,
    config: &Arc<ClientConfig>,
    protocol: Option<&[u8]>,
    settings: TlsSettings,
) -> io::Result<Stream> {
    handshake(stream, host, Arc::clone(config), protocol).map_err(|error| {
        io::Error::new(error.kind(), format!("no TLS with `{host}`: {}", reason(&error, settings)))
    })
}

fn handshake(
    mut stream: TcpStream,
    host: &str,
    config: Arc<ClientConfig>,
    protocol: Option<&[u8]>,
) -> io::Result<Stream> {
    let server = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let protocols = protocol.iter().map(|name| name.to_vec()).collect();
    let mut session = ClientConnection::new_with_alpn(config, server, protocols).map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    Ok(Stream::Tls(Box::new(StreamOwned::new(session, stream))))
}

/// The error of TLS in one of a stream, if that is the reason.
pub(super) fn of_tls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// A name without its kind: of `DnsName("a.example")` only `a.example`.
fn plain(name: &str) -> &str {
    let name = name.split_once('(').map_or(name, |(_, name)| name.trim_end_matches(')'));
    name.trim_matches('"')
}

/// Why a handshake failed, and the setting to change.
pub(super) fn reason(error: &io::Error, settings: TlsSettings) -> String {
    use CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet, NotValidYetContext,
        Other, UnknownIssuer,
    };
    let or = |index: usize, what: &str| {
        let setting = settings.lenient().map(|settings| settings[index]);
        setting.map_or_else(String::new, |setting| format!("; `{setting}` checks no {what}"))
    };
    let wrong = match of_tls(error) {
        None if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            return "it does not answer in time; is this its port for TLS?".to_owned();
        }
        None => return error.to_string(),
        Some(rustls::Error::InvalidMessage(_)) => return "it does not answer in TLS on this port".to_owned(),
        Some(rustls::Error::InvalidCertificate(wrong)) => wrong,
        Some(other) => return other.to_string(),
    };
    match wrong {
        UnknownIssuer => format!(
            "no authority that is trusted here signed its certificate; `{}` names the file of the right one",
            settings.authorities()
        ),
        Expired | ExpiredContext { .. } => {
            format!("its certificate has expired and must be renewed{}", or(1, "certificate"))
        }
        NotValidYet | NotValidYetContext { .. } => {
            "its certificate is not valid yet, by the clock of this machine".to_owned()
        }
        NotValidForNameContext { presented, .. } if !presented.is_empty() => format!(
            "its certificate is for {} and not for this name{}",
            presented.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", "),
            or(0, "name")
        ),
        NotValidForName | NotValidForNameContext { .. } => {
            format!("its certificate is not for this name{}", or(0, "name"))
        }
        Other(why) if why.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is that of an authority; sign one for the server with it (basicConstraints CA:FALSE)"
                .to_owned()
        }
        other => other.to_string(),
    }
}

/// The error of a secured connection. With TLS 1.3 a server asks for the client's certificate after the handshake.
pub fn explained(error: io::Error) -> io::Error {
    match of_tls(&error) {
        Some(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)) => io::Error::new(
            error.kind(),
            "the server asks for a certificate of the client; in the URL of a cache, `ssl_certfile` and `ssl_keyfile` \
             name one and its key",
        ),
        _ => error,
    }
}

/// What was negotiated, as a fact of a result.
pub fn negotiated(stream: &Stream, mode: TlsMode) -> String {
    let Stream::Tls(stream) = stream else { return "none".to_owned() };
    let version = stream.conn.protocol_version().and_then(|version| version.as_str());
    let cipher = stream.conn.negotiated_cipher_suite().and_then(|cipher| cipher.suite().as_str());
    let (version, cipher) = (version.unwrap_or("TLS"), cipher.unwrap_or("unknown cipher"));
    let (version, cipher) = (version.replace('_', "."), cipher.replacen("TLS13_", "TLS_", 1));
    format!("{version}, {cipher}, {}", mode.checked())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As of a server that waits for a line in plain text.
    #[test]
    fn a_server_that_is_silent_may_have_another_port_for_tls() {
        let said = reason(&io::Error::from(io::ErrorKind::WouldBlock), TlsSettings::RedisPy);
        assert!(said.contains("does not answer in time"), "{said}");
    }
}
