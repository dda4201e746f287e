//! The web servers: configuration, start and stop.

use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use rustix::process::Signal;
use serde_json::json;

use super::client::{WebClient, WebEndpoint, WebRequest};
use super::{APACHE, BUSYBOX, CADDY, LIGHTTPD, LIGHTTPD_TLS, NGINX, PHP_FPM, WORKERS};
use crate::host::server::{Launch, Server, SocketDir};
use crate::store::*;
use crate::stores::common::certificate::Certificate;
use crate::stores::common::servers::{START_PATIENCE, STOP_PATIENCE, on_free_port};
use crate::wire::buffer::Address;
use crate::wire::http1::{Endpoint, HttpVersion};

/// The web server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::stores) enum Front {
    Apache,
    Nginx,
    Lighttpd,
    /// One process, with as many threads as its runtime uses.
    Caddy,
    /// One process per connection, which serves one request.
    Busybox,
}

/// What a web server serves.
pub(in crate::stores) struct Site<'a> {
    pub(in crate::stores) front: Front,
    /// The document root: it contains only one directory, with blobs or scripts, under a secret name.
    pub(in crate::stores) root: &'a Path,
    /// The directory of blobs, which scripts may have the server send.
    pub(in crate::stores) blobs: &'a Path,
    /// The same as a descriptor, if it is only reachable by a server that inherits it.
    pub(in crate::stores) inherited: Option<BorrowedFd<'a>>,
    pub(in crate::stores) has_scripts: bool,
    /// Settings of PHP that are fixed at its start.
    pub(in crate::stores) php_settings: &'a str,
}

/// The longest request line: the keys of [`super::visitor::MANY_MAX`] blobs fill half of it.
const LINE_BYTES: usize = 65_536;

pub(in crate::stores) struct WebServers {
    servers: Vec<Server>,
    /// How it is reached; each session has a client of its own.
    pub(in crate::stores) target: WebEndpoint,
    /// Name and version, as the server reports them.
    pub(in crate::stores) version: String,
    /// Directory of the servers' sockets, if this process started them.
    sockets: Option<SocketDir>,
    /// True if all of its serving processes are started in advance.
    has_fixed_processes: bool,
}

/// Concurrent requests beyond those of the workers: one that verifies, and some that are being closed.
const SPARE_CONNECTIONS: usize = 16;

impl WebServers {
    pub(in crate::stores) fn start(setup: &Setup, site: &Site) -> Result<WebServers> {
        check_path(setup)?;
        let certificate =
            setup.options.flag("tls").then(|| Certificate::make(setup.dir, setup.common)).transpose()?;
        on_free_port(|port| WebServers::start_on(port, setup, site, certificate.as_ref()))
    }

    fn start_on(
        port: u16,
        setup: &Setup,
        site: &Site,
        certificate: Option<&Certificate>,
    ) -> Result<WebServers> {
        let sockets = SocketDir::make("fpm")?;
        let connections = setup.workers + SPARE_CONNECTIONS;
        let plan = ConfigurationInput { setup, site, port, certificate, run: sockets.path(), connections };
        let mut servers = Vec::new();
        if site.has_scripts && site.front == Front::Nginx {
            servers.push(plan.start_fpm()?);
        }
        servers.push(match site.front {
            Front::Apache => plan.start_apache()?,
            Front::Nginx => plan.start_nginx()?,
            Front::Lighttpd => plan.start_lighttpd()?,
            Front::Caddy => plan.start_caddy()?,
            Front::Busybox => plan.start_busybox()?,
        });
        let address = Address::Host(Ipv4Addr::LOCALHOST.to_string(), port);
        let tls = certificate.map(Certificate::trust).transpose()?;
        let target = target(setup, Endpoint { address, tls });
        let mut version = String::new();
        let last = servers.last_mut().ok_or_else(|| anyhow!("no server was started"))?;
        last.wait_until_ready(START_PATIENCE, || {
            // The blob does not exist; any response shows that the server is up.
            let mut client = WebClient::new(&target);
            version = client.exchange(&WebRequest::new("HEAD", "/ready"), &[404], &mut |_| {})?.server;
            Ok(())
        })?;
        match site.front {
            // It does not name itself.
            Front::Busybox => version = BUSYBOX.find()?.version,
            // It reports its name without a version.
            Front::Caddy => version = format!("Caddy {}", CADDY.find()?.version),
            Front::Apache | Front::Nginx | Front::Lighttpd => {}
        }
        let processes = plan.processes();
        if let Some(wanted) = processes {
            last.wait_for_processes(wanted, START_PATIENCE)?;
        }
        Ok(WebServers {
            servers,
            target,
            version,
            sockets: Some(sockets),
            has_fixed_processes: processes.is_some(),
        })
    }

    /// A server that another process has started and will stop; without TLS.
    pub(super) fn of_others(setup: &Setup, address: Address) -> Result<WebServers> {
        Ok(WebServers {
            servers: Vec::new(),
            target: target(setup, Endpoint { address, tls: None }),
            version: String::new(),
            sockets: None,
            has_fixed_processes: false,
        })
    }

    /// The numbers of serving processes, as counted: of the web server, and of PHP beside it. A server without child processes
    /// counts as one. Empty for servers that start processes on demand.
    pub(in crate::stores) fn processes(&self) -> impl Iterator<Item = (String, String)> {
        let names = ["processes that serve", "processes of PHP"];
        let counted = self.servers.iter().rev().zip(names).filter(|_| self.has_fixed_processes);
        counted.map(|(server, name)| (name.to_owned(), server.started_processes().max(1).to_string()))
    }

    pub(in crate::stores) fn servers(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter()
    }

    pub(in crate::stores) fn stop(self) -> Result<()> {
        let WebServers { mut servers, sockets, .. } = self;
        // The web server first: it would report the loss of its backend.
        for server in servers.iter_mut().rev() {
            server.stop(Signal::TERM, STOP_PATIENCE)?;
        }
        drop(sockets);
        Ok(())
    }
}

/// How the candidate's visitors connect.
fn target(setup: &Setup, endpoint: Endpoint) -> WebEndpoint {
    let keep_alive = setup.options.flag("keepalive");
    WebEndpoint { endpoint, version: version(setup.options), keep_alive, timeout: setup.op_timeout }
}

fn version(options: &Options) -> HttpVersion {
    if options.text("http") == "2" { HttpVersion::Two } else { HttpVersion::One }
}

/// Refuses a directory whose path cannot be written in the configurations.
pub(in crate::stores) fn check_path(setup: &Setup) -> Result<()> {
    let dir = setup.dir.to_string_lossy();
    if let Some(sign) = dir.chars().find(|sign| "\"$\\\n".contains(*sign)) {
        // Configurations have quotes, but no common escape for these characters.
        bail!("web servers cannot be given a path with {sign:?} in it: `{dir}`");
    }
    Ok(())
}

/// Threads per Apache process, unless its connections need more.
const APACHE_THREADS: usize = 64;

struct ConfigurationInput<'a> {
    setup: &'a Setup<'a>,
    site: &'a Site<'a>,
    port: u16,
    /// Set if TLS is used.
    certificate: Option<&'a Certificate>,
    /// A short private directory for sockets and runtime files.
    run: &'a Path,
    connections: usize,
}

impl ConfigurationInput<'_> {
    /// The number of serving processes that the candidate's options set, if any.
    fn asked(&self) -> Option<usize> {
        Some(self.setup.options.number(WORKERS.name) as usize).filter(|asked| *asked > 0)
    }

    /// The number of processes that the web server starts; `None` if it starts them on demand.
    fn processes(&self) -> Option<usize> {
        match self.site.front {
            Front::Nginx => Some(self.nginx_processes()),
            // Plus one process that distributes connections.
            Front::Apache if !self.site.has_scripts => Some(self.apache_processes()),
            // With one worker the first process serves and starts no other.
            Front::Lighttpd => Some(self.asked().filter(|asked| *asked > 1).unwrap_or(0)),
            Front::Apache | Front::Caddy | Front::Busybox => None,
        }
    }

    fn nginx_processes(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.asked().unwrap_or_else(processors)
    }

    fn apache_processes(&self) -> usize {
        self.asked().unwrap_or(self.connections.div_ceil(APACHE_THREADS) + 1)
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.setup.dir.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(path)
    }

    /// A launch of a program that may serve the blobs, wherever they are.
    fn launch<'l>(&'l self, program: &'l Path) -> Launch<'l> {
        Launch::new(program, self.setup.dir).inherits(self.site.inherited)
    }

    fn start_apache(&self) -> Result<Server> {
        let program = APACHE.find()?;
        let launch = self.launch(&program.path);
        let text = self.apache_text(&program.path, &launch.log)?;
        let config = self.write("apache.conf", &text)?;
        Ok(Server::start(&launch.arg("-f").arg(config).arg("-DFOREGROUND"))?)
    }

    /// Threads serve files (Debian's default); processes serve scripts, because PHP as a module requires it.
    fn apache_text(&self, program: &Path, log: &Path) -> Result<String> {
        let (run, port, root) = (self.run.display(), self.port, self.site.root.display());
        let modules = apache_modules(program)?;
        let load = |name: &str, file: &Path| format!("LoadModule {name}_module {}\n", file.display());
        let mut text = format!(
            "ServerRoot \"{run}\"\nServerName 127.0.0.1\nListen 127.0.0.1:{port}\nPidFile \"{run}/pid\"\n\
             DefaultRuntimeDir \"{run}\"\nMutex \"file:{run}\" default\nErrorLog \"{}\"\nLogLevel warn\n\
             # As many requests of one connection as there are, and no end while a run thinks.\n\
             KeepAlive On\nMaxKeepAliveRequests 0\nKeepAliveTimeout 3600\nTimeout 600\nEnableSendfile On\n\
             LimitRequestLine {LINE_BYTES}\n",
            log.display()
        );
        text += &load("authz_core", &modules.join("mod_authz_core.so"));
        if version(self.setup.options) == HttpVersion::Two {
            text += &load("http2", &modules.join("mod_http2.so"));
            text += if self.certificate.is_some() { "Protocols h2\n" } else { "Protocols h2c\n" };
        }
        if let Some(Certificate { file, key, .. }) = self.certificate {
            text += &load("ssl", &modules.join("mod_ssl.so"));
            text += &format!(
                "SSLEngine On\nSSLCertificateFile \"{}\"\nSSLCertificateKeyFile \"{}\"\nSSLProtocol TLSv1.3\n\
                 SSLSessionCache none\nSSLSessionTickets Off\n",
                file.display(),
                key.display()
            );
        }
        let connections = self.connections;
        match self.site.has_scripts {
            false => {
                let processes = self.apache_processes();
                // Every connection has a thread, even with few processes.
                let threads = APACHE_THREADS.max(connections.div_ceil(processes));
                text += &load("mpm_event", &modules.join("mod_mpm_event.so"));
                text += &format!(
                    "ThreadsPerChild {threads}\nThreadLimit {threads}\nServerLimit {processes}\nStartServers {processes}\n\
                     MaxRequestWorkers {}\nMinSpareThreads {threads}\nMaxSpareThreads {}\n\
                     DocumentRoot \"{root}\"\n<Directory \"{root}\">\nRequire all granted\nAllowOverride None\nOptions FollowSymLinks\n\
                     ForceType application/octet-stream\n</Directory>\n",
                    processes * threads,
                    processes * threads,
                );
            }
            true => {
                text += &load("mpm_prefork", &modules.join("mod_mpm_prefork.so"));
                text += &load("php", &super::PHP_MODULE.find()?.path);
                text += &format!(
                    "ServerLimit {connections}\nMaxRequestWorkers {connections}\nStartServers {0}\nMinSpareServers {0}\n\
                     MaxSpareServers {connections}\n\
                     PHPINIDir \"{1}\"\nDocumentRoot \"{root}\"\n<Directory \"{root}\">\nRequire all granted\nAllowOverride None\n\
                     Options FollowSymLinks\n</Directory>\n<FilesMatch \"\\.php$\">\nSetHandler application/x-httpd-php\n</FilesMatch>\n",
                    self.setup.workers.min(connections),
                    self.php_ini()?.display(),
                );
                if self.setup.options.text("send") == "handover" {
                    text += &load("xsendfile", &super::XSENDFILE.find()?.path);
                    text += &format!("XSendFile On\nXSendFilePath \"{}\"\n", self.site.blobs.display());
                }
            }
        }
        Ok(text)
    }

    fn start_nginx(&self) -> Result<Server> {
        let program = NGINX.find()?;
        let config = self.write("nginx.conf", &self.nginx_text())?;
        let launch = self.launch(&program.path);
        let launch = launch.arg("-p").arg(self.setup.dir).args(["-e", "stderr"]).arg("-c").arg(config);
        Ok(Server::start(&launch)?)
    }

    fn nginx_text(&self) -> String {
        let (run, port, root) = (self.run.display(), self.port, self.site.root.display());
        let http2 = if version(self.setup.options) == HttpVersion::Two { " http2" } else { "" };
        let (ssl, tls) = match self.certificate {
            None => ("", String::new()),
            Some(Certificate { file, key, .. }) => (
                " ssl",
                format!(
                    "ssl_certificate \"{}\";\nssl_certificate_key \"{}\";\nssl_protocols TLSv1.3;\n\
                     ssl_session_cache off;\nssl_session_tickets off;\n",
                    file.display(),
                    key.display()
                ),
            ),
        };
        let processes = self.nginx_processes();
        let served = match self.site.has_scripts {
            false => format!("root \"{root}\";"),
            true => format!(
                "root \"{root}\";\n\
                 location ~ \\.php$ {{\n\
                 fastcgi_param SCRIPT_FILENAME \"{root}$fastcgi_script_name\";\nfastcgi_param QUERY_STRING $query_string;\n\
                 fastcgi_param REQUEST_METHOD $request_method;\nfastcgi_param CONTENT_LENGTH $content_length;\n\
                 fastcgi_param CONTENT_TYPE $content_type;\nfastcgi_max_temp_file_size 0;\n\
                 fastcgi_pass \"unix:{run}/fpm\";\n}}\n\
                 location /handover/ {{ internal; alias \"{}/\"; }}",
                self.site.blobs.display()
            ),
        };
        format!(
            "daemon off;\nworker_processes {processes};\npid \"{run}/pid\";\nerror_log stderr warn;\n\
             events {{ worker_connections {connections}; }}\n\
             http {{\ndefault_type application/octet-stream;\naccess_log off;\nsendfile {sendfile};\ntcp_nopush on;\n\
             # As many requests of one connection as there are, and no end while a run thinks.\n\
             keepalive_timeout 1h;\nkeepalive_requests 1000000000;\nclient_max_body_size 0;\nserver_tokens on;\n\
             large_client_header_buffers 4 {LINE_BYTES};\n\
             client_body_temp_path \"{dir}/body\";\nclient_body_buffer_size {body};\nproxy_temp_path \"{run}/proxy\";\nfastcgi_temp_path \"{run}/fastcgi\";\n\
             uwsgi_temp_path \"{run}/uwsgi\";\nscgi_temp_path \"{run}/scgi\";\n\
             server {{\nlisten 127.0.0.1:{port}{ssl}{http2};\n{tls}{served}\n}}\n}}\n",
            dir = self.setup.dir.display(),
            // Over HTTP/2 without TLS, nginx 1.22 leaves Nagle's algorithm on after sendfile, even without `tcp_nopush`: the last
            // bytes of each response wait 40 ms for an acknowledgement. With TLS it does not use sendfile.
            sendfile = if version(self.setup.options) == HttpVersion::Two { "off" } else { "on" },
            // Bodies of puts stay in memory.
            body = self.setup.blob_bytes_max.clamp(16 << 10, 64 << 20),
            // Each connection needs a second descriptor, for a file or for PHP.
            connections = self.connections * 2 + 64,
        )
    }

    fn start_fpm(&self) -> Result<Server> {
        let program = PHP_FPM.find()?;
        // A process serves one request at a time; more processes than visitors would idle.
        let children = self.asked().unwrap_or_else(|| self.setup.workers.clamp(2, 32));
        let run = self.run.display();
        let text = format!(
            "[global]\ndaemonize = no\nerror_log = /proc/self/fd/2\n[www]\nlisten = {run}/fpm\nlisten.backlog = 1024\n\
             pm = static\npm.max_children = {children}\ncatch_workers_output = yes\n",
        );
        let config = self.write("fpm.conf", &text)?;
        let ini = self.php_ini()?.join("php.ini");
        let launch = self.launch(&program.path);
        let mut server = Server::start(&launch.arg("-F").arg("-c").arg(ini).arg("-y").arg(config))?;
        let socket = self.run.join("fpm");
        server.wait_until_ready(START_PATIENCE, || {
            Ok(std::os::unix::net::UnixStream::connect(&socket).map(drop)?)
        })?;
        server.wait_for_processes(children, START_PATIENCE)?;
        Ok(server)
    }

    /// The directory of our own `php.ini`; the system's list of extensions is read as well.
    fn php_ini(&self) -> Result<PathBuf> {
        let directory = self.setup.dir.join("php");
        std::fs::create_dir_all(&directory)?;
        let memory = (self.setup.blob_bytes_max * 4).max(256 << 20);
        // Scripts are new when the server starts. By default opcache skips files modified in the last two seconds: each request
        // of the first phases would compile its script, which took twice as long as everything else.
        let text = format!(
            "memory_limit = {memory}\noutput_buffering = Off\ndisplay_errors = Off\nlog_errors = On\n\
             error_log = /proc/self/fd/2\nenable_post_data_reading = On\npost_max_size = 0\n\
             zlib.output_compression = Off\nopcache.lockfile_path = \"{0}\"\nopcache.file_update_protection = 0\n\
             upload_tmp_dir = \"{0}\"\nsys_temp_dir = \"{0}\"\n{1}",
            directory.display(),
            self.site.php_settings
        );
        std::fs::write(directory.join("php.ini"), text)?;
        Ok(directory)
    }

    fn start_lighttpd(&self) -> Result<Server> {
        let program = LIGHTTPD.find()?;
        let (port, root, run) = (self.port, self.site.root.display(), self.run.display());
        let text = format!(
            "server.document-root = \"{root}\"\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n\
             server.upload-dirs = (\"{run}\")\nserver.max-connections = {connections}\nserver.max-fds = {files}\n\
             # As many requests of one connection as it can count, and no end while a run thinks.\n\
             server.max-keep-alive-requests = 65535\nserver.max-keep-alive-idle = 3600\n\
             # A file that was replaced less than two seconds ago would be sent as it was.\n\
             server.stat-cache-engine = \"disable\"\n\
             mimetype.assign = (\"\" => \"application/octet-stream\")\n{workers}",
            workers = self.asked().map(|asked| format!("server.max-worker = {asked}\n")).unwrap_or_default(),
            connections = self.connections,
            files = self.lighttpd_files(),
        );
        let tls = self.certificate.map(|certificate| self.lighttpd_tls(certificate)).transpose()?;
        let config = self.write("lighttpd.conf", &(text + &tls.unwrap_or_default()))?;
        let launch = self.launch(&program.path);
        Ok(Server::start(&launch.arg("-D").arg("-f").arg(config))?)
    }

    fn lighttpd_tls(&self, certificate: &Certificate) -> Result<String> {
        LIGHTTPD_TLS.find()?;
        Ok(format!(
            "server.modules += (\"mod_openssl\")\nssl.engine = \"enable\"\nssl.pemfile = \"{}\"\nssl.privkey = \"{}\"\n\
             ssl.openssl.ssl-conf-cmd = (\"MinProtocol\" => \"TLSv1.3\", \"Options\" => \"-SessionTicket\")\n",
            certificate.file.display(),
            certificate.key.display()
        ))
    }

    /// Number of descriptors: each requested file stays open for seconds, even without the stat cache; if no more can be opened,
    /// the response is 403.
    fn lighttpd_files(&self) -> u64 {
        let wanted = self.setup.keys_max + self.connections as u64 * 2 + 64;
        let allowed = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        wanted.min(allowed.unwrap_or(u64::MAX))
    }

    /// It stores its own data, such as an instance id, in our directory.
    fn start_caddy(&self) -> Result<Server> {
        let program = CADDY.find()?;
        let config = self.write("caddy.json", &self.caddy_config().to_string())?;
        let home = self.setup.dir.join("caddy");
        let launch = self.launch(&program.path).args(["run", "--config"]).arg(config);
        let launch = ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"]
            .iter()
            .fold(launch, |launch, variable| launch.env(variable, &home));
        Ok(Server::start(&launch)?)
    }

    fn caddy_config(&self) -> serde_json::Value {
        let is_two = version(self.setup.options) == HttpVersion::Two;
        let protocols: &[&str] = match (is_two, self.certificate.is_some()) {
            (false, _) => &["h1"],
            // Without TLS, both sides must know in advance that a connection starts with version 2.
            (true, false) => &["h1", "h2c"],
            (true, true) => &["h1", "h2"],
        };
        let mut site = json!({
            "listen": [format!("127.0.0.1:{}", self.port)],
            "protocols": protocols,
            "automatic_https": {"disable": true},
            // No timeout while a run computes.
            "idle_timeout": "1h",
            "routes": [{"handle": [
                // For files without an extension it would inspect the first bytes.
                {"handler": "headers", "response": {"set": {"Content-Type": ["application/octet-stream"]}}},
                {"handler": "file_server", "root": self.site.root},
            ]}],
        });
        let mut apps = json!({});
        if let Some(Certificate { file, key, .. }) = self.certificate {
            site["tls_connection_policies"] = json!([{"protocol_min": "tls1.3"}]);
            apps["tls"] = json!({
                "certificates": {"load_files": [{"certificate": file, "key": key}]},
                "session_tickets": {"disabled": true},
            });
        }
        apps["http"] = json!({"servers": {"blobwise": site}});
        json!({
            "admin": {"disabled": true, "config": {"persist": false}},
            "logging": {"logs": {"default": {"level": "WARN"}}},
            "apps": apps,
        })
    }

    fn start_busybox(&self) -> Result<Server> {
        let program = BUSYBOX.find()?;
        let launch = self.launch(&program.path).args(["httpd", "-f", "-p"]);
        Ok(Server::start(&launch.arg(format!("127.0.0.1:{}", self.port)).arg("-h").arg(self.site.root))?)
    }
}

/// Directory of Apache's own modules.
fn apache_modules(program: &Path) -> Result<PathBuf> {
    let places = ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/libexec/apache2"];
    let found = places.iter().map(PathBuf::from).find(|place| place.join("mod_authz_core.so").is_file());
    found.ok_or_else(|| {
        let places = places.join("`, `");
        Error::Failed(anyhow!("the modules of `{}` are in none of `{places}`", program.display()))
    })
}
