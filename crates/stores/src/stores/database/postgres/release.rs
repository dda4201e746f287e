//! Selects the PostgreSQL: the installed one, or a given release, so that releases can be compared side by side.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use super::POSTGRES;
use crate::host::server::{InstalledProgram, Program};
use crate::store::{OptionSpec, Options};
use crate::stores::common::certificate;
use crate::wire::postgres::PostgresClient;

pub(super) const VERSION: OptionSpec = OptionSpec::choice("version", &[INSTALLED, "15", "17", "18"])
    .about("a number: that release, where this machine has it; installed: the one that is found first");
pub(super) const IO_METHOD: OptionSpec = OptionSpec::choice(
    "io_method",
    &[SHIPPED, "sync", "worker", "io_uring"],
)
.about(
    "who reads ahead in release 18: nobody, processes, or the kernel's ring; shipped: as the vendor sets it",
);
const INSTALLED: &str = "installed";
const SHIPPED: &str = "shipped";

macro_rules! release {
    ($number:literal, $install:literal) => {
        (
            $number,
            Program {
                places: &[
                    concat!("/usr/lib/postgresql/", $number, "/bin"),
                    concat!("/usr/pgsql-", $number, "/bin"),
                    concat!("~cache/blobwise/postgres-", $number, "*/*/pginstall/bin"),
                ],
                variable: Some(concat!("BLOBWISE_POSTGRES_", $number)),
                says: concat!("(PostgreSQL) ", $number, "."),
                install: $install,
                ..POSTGRES
            },
        )
    };
}

/// Programs by the values of [`VERSION`].
const RELEASES: [(&str, Program); 3] = [
    release!("15", "apt-get install postgresql-15"),
    release!("17", "apt-get install postgresql-17"),
    release!("18", "apt-get install postgresql-18"),
];

/// The program selected by the options.
fn asked(options: &Options) -> Program {
    let version = options.text(VERSION.name);
    RELEASES.iter().find(|(release, _)| *release == version).map_or(POSTGRES, |(_, program)| *program)
}

/// Finds the program selected by the options.
pub(super) fn find(options: &Options) -> Result<InstalledProgram> {
    asked(options).find()
}

/// The I/O method selected by the options; `None` for the vendor's default.
pub(super) fn io_method(options: &Options) -> Option<&str> {
    Some(options.text(IO_METHOD.name)).filter(|method| ![SHIPPED, ""].contains(method))
}

/// Why the installed program does not support these options; `None` if it does.
pub(super) fn refusal(options: &Options) -> Option<anyhow::Error> {
    can(options).err().or_else(|| certificate::refusal(options, &asked(options)))
}

fn can(options: &Options) -> Result<()> {
    let (program, found) = (asked(options), find(options)?);
    let shown = found.path.display();
    let method = io_method(options);
    let release = major(&found.version);
    ensure!(
        method.is_none() || release >= 18,
        "`io_method` came with PostgreSQL 18, and `{shown}` is release {release}: ask for `version=18`"
    );
    let is_lz4 = options.text("compression") == "lz4";
    for (is_asked, setting, part) in
        [(is_lz4, "compression=lz4", "lz4"), (method == Some("io_uring"), "io_method=io_uring", "liburing")]
    {
        ensure!(
            !is_asked || is_built_with(&found.path, part),
            "`{setting}` is not possible: `{shown}` was built without {part}; {} names another build",
            program.variable.unwrap_or_default()
        );
    }
    Ok(())
}

/// True if a server was built with a library, by its `pg_config`. Without that program the server itself will refuse.
fn is_built_with(server: &Path, part: &str) -> bool {
    let mut asked = Command::new(server.with_file_name("pg_config"));
    let answer = asked.arg("--configure").stdin(Stdio::null()).output();
    answer.map_or(true, |said| String::from_utf8_lossy(&said.stdout).contains(&format!("--with-{part}")))
}

/// Refuses a user's server that differs from the options: the label would name something that was not measured.
pub(super) fn check_theirs(admin: &mut PostgresClient, options: &Options) -> Result<()> {
    let says = |admin: &mut PostgresClient, setting: &str| -> Result<String> {
        Ok(admin
            .texts(&format!("SELECT coalesce(current_setting('{setting}', true), 'nothing')"), &[])?
            .concat())
    };
    let version = options.text(VERSION.name);
    let release = major(&says(admin, "server_version")?).to_string();
    ensure!(
        [INSTALLED, "", &release].contains(&version),
        "the server is PostgreSQL {release}, and `version={version}` was asked for: leave it out, or name another server"
    );
    if let Some(method) = io_method(options) {
        let has = says(admin, IO_METHOD.name)?;
        ensure!(
            has == method,
            "the server's io_method is {has}, and `io_method={method}` was asked for, which is not ours to set: leave it out"
        );
    }
    Ok(())
}

/// The major version in a version text such as `postgres (PostgreSQL) 18.6`; 0 if there is none.
pub(super) fn major(version: &str) -> u32 {
    let number = version.split(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty());
    number.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Values;

    #[test]
    fn each_version_is_a_release() {
        let Values::OneOf(values) = VERSION.values else { panic!("not a list") };
        assert_eq!(values[1..], RELEASES.map(|(release, _)| release));
    }
}
