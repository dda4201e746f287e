//! The checklist before buying a new server: ten questions, answered by measurements on this machine and on servers given by URL.
//!
//! Each subject is examined twice. Its statistics are kept as facts, and pure checks derive findings from them; saved facts are
//! judged in the same way. Everything is read-only: nothing is set, reset or installed, and only queries to the given URLs are
//! sent.

pub mod against;
mod answers;
mod blobs;
pub mod checks;
pub mod facts;
pub mod finding;
mod machine;
mod mongodb;
mod mssql;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
pub mod report;
pub mod saved;
mod sessions;
mod statements;
mod wrapped;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use self::facts::{Inspector, Sample, SourceAnswer, SubjectFacts, SubjectKind};
use crate::host::machine as host;

/// What to examine.
pub struct ExaminationOptions {
    /// Directories whose file systems are examined.
    pub dirs: Vec<PathBuf>,
    /// Servers to examine.
    pub targets: Vec<Target>,
    /// Time between the two looks.
    pub between: Duration,
}

/// A server to examine.
pub struct Target {
    kind: SubjectKind,
    /// URL without its password.
    shown: String,
    connect: Connect,
}

impl Target {
    /// Parses a URL without connecting. An error says what is wrong with it.
    pub fn parse(url: &str) -> Result<Target> {
        crate::redact::remember(url);
        let shown = crate::redact::without_passwords(url);
        let Some((scheme, _)) = url.split_once("://") else {
            bail!("`{shown}` is not a URL such as postgres://USER:PASSWORD@HOST/DATABASE");
        };
        let (kind, connect) = server(scheme, url).with_context(|| format!("`{shown}` cannot be asked"))?;
        Ok(Target { kind, shown, connect })
    }
}

type Connect = Box<dyn Fn() -> Result<Box<dyn Inspector>>>;

/// Returns the kind of server for a URL with this scheme, and how to connect to it.
fn server(scheme: &str, url: &str) -> Result<(SubjectKind, Connect)> {
    match scheme {
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => {
            Ok((SubjectKind::PostgreSql, connector(postgres::parse(url)?, postgres::connect)))
        }
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => Ok((SubjectKind::MySql, connector(mysql::parse(url)?, mysql::connect))),
        #[cfg(feature = "redis")]
        "redis" | "redis+unix" | "valkey" | "valkey+unix" | "rediss" | "valkeys" => {
            Ok((SubjectKind::Redis, connector(redis::parse(url)?, redis::connect)))
        }
        #[cfg(feature = "mongodb")]
        "mongodb" | "mongodb+srv" => {
            Ok((SubjectKind::MongoDb, connector(mongodb::parse(url)?, mongodb::connect)))
        }
        #[cfg(not(feature = "mongodb"))]
        "mongodb" | "mongodb+srv" => bail!("this program was built without the feature mongodb"),
        #[cfg(feature = "mssql")]
        "mssql" | "sqlserver" => Ok((SubjectKind::MsSql, connector(mssql::parse(url)?, mssql::connect))),
        #[cfg(not(feature = "mssql"))]
        "mssql" | "sqlserver" => bail!("this program was built without the feature mssql"),
        "memcached" => {
            bail!("memcached has no indexes, queries or statistics: its command `stats` shows what it counts")
        }
        _ => bail!("`{scheme}` is none of the schemes that are known here: {}", SCHEMES.join(", ")),
    }
}

#[cfg(any(
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "mongodb",
    feature = "mssql"
))]
fn connector<A: 'static, I: Inspector + 'static>(address: A, connect: fn(&A) -> Result<I>) -> Connect {
    Box::new(move || Ok(Box::new(connect(&address)?) as Box<dyn Inspector>))
}

/// URL schemes that this build supports.
pub const SCHEMES: &[&str] = &[
    #[cfg(feature = "postgres")]
    "postgres",
    #[cfg(feature = "mysql")]
    "mysql",
    #[cfg(feature = "mysql")]
    "mariadb",
    #[cfg(feature = "mongodb")]
    "mongodb",
    #[cfg(feature = "redis")]
    "redis",
    #[cfg(feature = "redis")]
    "valkey",
    #[cfg(feature = "mssql")]
    "mssql",
    #[cfg(feature = "mssql")]
    "sqlserver",
];

struct ExaminedServer {
    facts: SubjectFacts,
    server: Option<Box<dyn Inspector>>,
}

impl ExaminedServer {
    fn connect(target: &Target) -> ExaminedServer {
        let mut facts = SubjectFacts::new(target.kind, target.shown.clone());
        let mut server = match (target.connect)() {
            Ok(server) => Some(server),
            Err(error) => {
                facts.unreachable = Some(crate::redact::of_error(&format!("{error:#}")));
                None
            }
        };
        facts.version = server.as_mut().and_then(|server| server.version());
        ExaminedServer { facts, server }
    }

    fn look(&mut self, is_last: bool) {
        let Some(server) = &mut self.server else { return };
        let mut sample = Sample { told: server.look(is_last), seconds: host::uptime().as_secs_f64() };
        if is_last {
            // After all counters, so that they do not include the pings of their own look.
            sample.told.insert(answers::SOURCE.to_owned(), answers::time_pings(server.as_mut()));
        }
        // The connection ended, or this user may see nothing at all.
        let refusals = sample.told.values().map(|told| match told {
            SourceAnswer::Refused(why) => Some(why),
            SourceAnswer::Rows(_) => None,
        });
        let refused: Option<Vec<&String>> = refusals.collect();
        if let Some(why) = refused.and_then(|refusals| refusals.first().copied().cloned()) {
            let when = if is_last { "at the second look" } else { "at the first look" };
            self.facts.unreachable = Some(crate::redact::of_error(&format!("{when}: {why}")));
            self.server = None;
        }
        *(if is_last { &mut self.facts.later } else { &mut self.facts.earlier }) = sample;
    }
}

/// Examines the machine and then each server, twice.
pub fn examine(asked: &ExaminationOptions) -> Vec<SubjectFacts> {
    let system = host::facts(std::path::Path::new("/"));
    let mut machine = SubjectFacts::new(SubjectKind::Machine, "this machine".to_owned());
    machine.version = Some(format!("{}, Linux {}", system.system, system.kernel));
    let mut patients: Vec<ExaminedServer> = asked.targets.iter().map(ExaminedServer::connect).collect();
    machine.earlier = machine::look(&asked.dirs);
    patients.iter_mut().for_each(|patient| patient.look(false));
    std::thread::sleep(asked.between);
    machine.later = machine::look(&asked.dirs);
    patients.iter_mut().for_each(|patient| patient.look(true));
    std::iter::once(machine).chain(patients.into_iter().map(|patient| patient.facts)).collect()
}
