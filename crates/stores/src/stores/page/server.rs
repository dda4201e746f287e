//! nginx with TLS, for browsers.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;

use rustix::process::Signal;

use crate::host::server::{Launch, Server, SocketDir};
use crate::store::*;
use crate::stores::common::certificate::Certificate;
use crate::stores::common::servers::{START_PATIENCE, STOP_PATIENCE, on_free_port};
use crate::stores::delivery::web::{NGINX, check_path};

pub(super) struct Nginx {
    pub(super) server: Server,
    pub(super) address: SocketAddr,
    pub(super) version: String,
    sockets: SocketDir,
}

impl Nginx {
    pub(super) fn start(setup: &Setup, site: &Path, certificate: &Certificate, http2: bool) -> Result<Nginx> {
        check_path(setup)?;
        on_free_port(|port| Nginx::start_on(port, setup, site, certificate, http2))
    }

    fn start_on(
        port: u16,
        setup: &Setup,
        site: &Path,
        certificate: &Certificate,
        http2: bool,
    ) -> Result<Nginx> {
        let program = NGINX.find()?;
        let sockets = SocketDir::make("")?;
        let text = configuration(sockets.path(), site, certificate, port, http2);
        let file = setup.dir.join("nginx.conf");
        std::fs::write(&file, text)?;
        let launch = Launch::new(&program.path, setup.dir);
        let launch = launch.arg("-p").arg(setup.dir).args(["-e", "stderr"]).arg("-c").arg(&file);
        let mut server = Server::start(&launch)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        server.wait_until_ready(START_PATIENCE, || Ok(TcpStream::connect(address).map(drop)?))?;
        Ok(Nginx { server, address, version: program.version, sockets })
    }

    pub(super) fn stop(self) -> Result<()> {
        let Nginx { mut server, sockets, .. } = self;
        server.stop(Signal::TERM, STOP_PATIENCE)?;
        drop(sockets);
        Ok(())
    }
}

fn configuration(run: &Path, site: &Path, certificate: &Certificate, port: u16, http2: bool) -> String {
    let (run, site) = (run.display(), site.display());
    let (file, key) = (certificate.file.display(), certificate.key.display());
    let http2 = if http2 { " http2" } else { "" };
    format!(
        "daemon off;\nworker_processes 1;\npid \"{run}/pid\";\nerror_log stderr error;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\naccess_log off;\nsendfile on;\ntcp_nopush on;\nkeepalive_timeout 1h;\n\
         types {{ text/html html; text/css css; image/png png; application/json json; }}\n\
         client_body_temp_path \"{run}/body\";\nproxy_temp_path \"{run}/proxy\";\nfastcgi_temp_path \"{run}/fastcgi\";\n\
         uwsgi_temp_path \"{run}/uwsgi\";\nscgi_temp_path \"{run}/scgi\";\n\
         server {{\nlisten 127.0.0.1:{port} ssl{http2};\nroot \"{site}\";\n\
         ssl_certificate \"{file}\";\nssl_certificate_key \"{key}\";\nssl_protocols TLSv1.3;\n\
         error_page 403 404 500 502 503 504 /refused.html;\n}}\n}}\n"
    )
}
