//! The check-list before a new server is bought: ten questions, answered by measurement, on the machine and on servers by URL.
//!
//! Each subject is looked at twice. What it says is kept as facts, and the checks, which are pure, make findings of them: facts that
//! were saved are judged in the same way. It only reads: nothing is set, reset or installed, and nothing is sent but queries to the
//! URLs that were given.

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

use self::facts::{Facts, Kind, Looks, Sample, Told};
use crate::host::machine as host;

/// What is to be looked at.
pub struct Asked {
    /// Directories whose file systems are looked at.
    pub dirs: Vec<PathBuf>,
    /// Servers.
    pub targets: Vec<Target>,
    /// How long there is between the two looks.
    pub between: Duration,
}

/// A server that can be asked.
pub struct Target {
    kind: Kind,
    /// Its URL, without its password.
    shown: String,
    connect: Connect,
}

impl Target {
    /// From a URL, before anything is done. An error says what it lacks.
    pub fn parse(url: &str) -> Result<Target> {
        crate::shown::remember(url);
        let shown = crate::shown::without_passwords(url);
        let Some((scheme, _)) = url.split_once("://") else {
            bail!("`{shown}` is not a URL such as postgres://USER:PASSWORD@HOST/DATABASE");
        };
        let (kind, connect) = server(scheme, url).with_context(|| format!("`{shown}` cannot be asked"))?;
        Ok(Target { kind, shown, connect })
    }
}

type Connect = Box<dyn Fn() -> Result<Box<dyn Looks>>>;

/// How a server is reached whose URL has this scheme.
fn server(scheme: &str, url: &str) -> Result<(Kind, Connect)> {
    match scheme {
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => {
            let config = postgres::parse(url)?;
            let connect = move || Ok(Box::new(postgres::connect(&config)?) as Box<dyn Looks>);
            Ok((Kind::PostgreSql, Box::new(connect)))
        }
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => {
            let opts = mysql::parse(url)?;
            let connect = move || Ok(Box::new(mysql::connect(&opts)?) as Box<dyn Looks>);
            Ok((Kind::MySql, Box::new(connect)))
        }
        #[cfg(feature = "redis")]
        "redis" | "redis+unix" | "valkey" | "valkey+unix" | "rediss" | "valkeys" => {
            let place = redis::parse(url)?;
            let connect = move || Ok(Box::new(redis::connect(&place)?) as Box<dyn Looks>);
            Ok((Kind::Redis, Box::new(connect)))
        }
        #[cfg(feature = "mongodb")]
        "mongodb" | "mongodb+srv" => {
            let options = mongodb::parse(url)?;
            let connect = move || Ok(Box::new(mongodb::connect(&options)?) as Box<dyn Looks>);
            Ok((Kind::MongoDb, Box::new(connect)))
        }
        #[cfg(not(feature = "mongodb"))]
        "mongodb" | "mongodb+srv" => bail!("this program was built without the feature mongodb"),
        #[cfg(feature = "mssql")]
        "mssql" | "sqlserver" => {
            let address = mssql::parse(url)?;
            let connect = move || Ok(Box::new(mssql::connect(&address)?) as Box<dyn Looks>);
            Ok((Kind::MsSql, Box::new(connect)))
        }
        #[cfg(not(feature = "mssql"))]
        "mssql" | "sqlserver" => bail!("this program was built without the feature mssql"),
        "memcached" => {
            bail!("memcached has no indexes, queries or statistics: its command `stats` shows what it counts")
        }
        _ => bail!("`{scheme}` is none of the schemes that are known here: {}", SCHEMES.join(", ")),
    }
}

/// The schemes of URLs that this program was built for.
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

/// A server while it is looked at.
struct Patient {
    facts: Facts,
    server: Option<Box<dyn Looks>>,
}

impl Patient {
    fn of(target: &Target) -> Patient {
        let mut facts = Facts::of(target.kind, target.shown.clone());
        let mut server = match (target.connect)() {
            Ok(server) => Some(server),
            Err(error) => {
                facts.unreachable = Some(crate::shown::of_error(&format!("{error:#}")));
                None
            }
        };
        facts.version = server.as_mut().and_then(|server| server.version());
        Patient { facts, server }
    }

    fn look(&mut self, is_last: bool) {
        let Some(server) = &mut self.server else { return };
        let mut sample = Sample { told: server.look(is_last), seconds: host::uptime().as_secs_f64() };
        if is_last {
            // Behind all counters, which have these, too.
            sample.told.insert(answers::SOURCE.to_owned(), answers::told(server.as_mut()));
        }
        // One that ended, or that lets this user see nothing at all.
        let refusals = sample.told.values().map(|told| match told {
            Told::Refused(why) => Some(why),
            Told::Rows(_) => None,
        });
        let refused: Option<Vec<&String>> = refusals.collect();
        if let Some(why) = refused.and_then(|refusals| refusals.first().copied().cloned()) {
            let when = if is_last { "at the second look" } else { "at the first look" };
            self.facts.unreachable = Some(crate::shown::of_error(&format!("{when}: {why}")));
            self.server = None;
        }
        *(if is_last { &mut self.facts.later } else { &mut self.facts.earlier }) = sample;
    }
}

/// Looks at everything twice: the machine first, then each server.
pub fn examine(asked: &Asked) -> Vec<Facts> {
    let system = host::facts(std::path::Path::new("/"));
    let mut machine = Facts::of(Kind::Machine, "this machine".to_owned());
    machine.version = Some(format!("{}, Linux {}", system.system, system.kernel));
    let mut patients: Vec<Patient> = asked.targets.iter().map(Patient::of).collect();
    machine.earlier = machine::look(&asked.dirs);
    patients.iter_mut().for_each(|patient| patient.look(false));
    std::thread::sleep(asked.between);
    machine.later = machine::look(&asked.dirs);
    patients.iter_mut().for_each(|patient| patient.look(true));
    std::iter::once(machine).chain(patients.into_iter().map(|patient| patient.facts)).collect()
}
