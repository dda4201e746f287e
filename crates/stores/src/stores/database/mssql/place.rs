//! Our schema in the user's database, and what the server reports of itself.

use std::path::Path;

use anyhow::{Context, anyhow};

use super::connection::MsSqlConnection;
use super::statements::{self, Commit, DELAYED_DURABILITY, MARK, MsSqlStatements};
use crate::store::*;
use crate::stores::common::removal::{PATIENCE, remove_all};
use crate::stores::common::servers::{OURS, Owner, PlaceKind, is_our_name};
use crate::wire::mssql::{MsSqlAddress, VERSION, is_too_old};

const SCHEMA: PlaceKind = PlaceKind("schema");

/// Returns what a run makes in the user's server, and the disk space that this server reports.
pub(super) fn intent(setup: &Setup) -> Result<Intent> {
    let mut admin = MsSqlConnection::open(
        &MsSqlAddress::from_url(setup.options.text("url"))?,
        "READ COMMITTED",
        setup.op_timeout,
    )?;
    let database = admin.text(statements::DATABASE)?.unwrap_or_default();
    let recovery = admin.text(statements::RECOVERY_MODEL)?.unwrap_or_default();
    let free = admin.text(statements::FREE)?.and_then(|free| free.trim().parse().ok());
    let disk = format!("the fullest disk of the database `{database}`");
    let room = free.map(|left| ServerLimit::disk(disk, left, WHEN_FULL, |demand| 2 * taken(demand)));
    let why = "SQL Server says what its disks have free only to users with the right VIEW SERVER STATE";
    let unknown = room.is_none().then(|| why.to_owned());
    let mut limits: Vec<ServerLimit> = room.into_iter().collect();
    limits.extend(room_in_files(&mut admin, "data files", false)?);
    // With SIMPLE, the log is reused.
    if recovery != "SIMPLE" {
        limits.extend(room_in_files(&mut admin, "log files", true)?);
    }
    Ok(Intent {
        makes: format!(
            "makes a schema `{OURS}...` in the database `{database}` (whose files keep the size that they grow to)"
        ),
        pronoun: "it",
        unknown,
        limits,
        carriers: if recovery.is_empty() {
            Vec::new()
        } else {
            vec![format!("its transaction log (recovery model {recovery})")]
        },
    })
}

/// What the server does when a disk or a file is full.
const WHEN_FULL: &str = "refuses every write";

/// What the files of the database have left of the size to which they may grow; `None` if the server does not say it.
fn room_in_files(admin: &mut MsSqlConnection, what: &str, of_log: bool) -> Result<Option<ServerLimit>> {
    let left = admin.text(&statements::left_in_files(of_log))?;
    let left = left.and_then(|left| left.trim().parse::<i64>().ok());
    Ok(left.map(|left| ServerLimit {
        way_out: "let them grow further (MAXSIZE)".to_owned(),
        ..ServerLimit::disk(
            format!("the size to which its {what} may grow"),
            left.max(0).unsigned_abs(),
            WHEN_FULL,
            taken,
        )
    }))
}

/// Bytes of pages, or of a log that is not backed up meanwhile.
fn taken(demand: &Demand<'_>) -> u64 {
    demand.written(|bytes| bytes + bytes / 5 + (16 << 10))
}

/// The database's setting of delayed durability; `None` if the server does not know it.
pub(super) fn delayed_durability(admin: &mut MsSqlConnection) -> Result<Option<String>> {
    Ok(admin.text(DELAYED_DURABILITY)?.map(|setting| setting.trim().to_uppercase()))
}

/// Refuses a server that is too old.
pub(super) fn check_version(admin: &mut MsSqlConnection) -> Result<()> {
    let version = admin.text(VERSION)?.unwrap_or_default();
    is_too_old(&version).map_or(Ok(()), |why| Err(Error::Failed(anyhow!(why))))
}

/// Refuses a database of the server's own, such as the default one of most logins. Its files would keep the size that a run makes
/// them grow to, and every new database copies `model`.
pub(super) fn check_database(admin: &mut MsSqlConnection) -> Result<()> {
    const OF_SERVER_MAX: u32 = 4;
    let id = admin.text(statements::DATABASE_ID)?.and_then(|id| id.trim().parse::<u32>().ok());
    ensure!(
        id.is_none_or(|id| id > OF_SERVER_MAX),
        "the database is one of the server's own; name another one behind the host, as in mssql://USER:PASSWORD@HOST/DATABASE"
    );
    Ok(())
}

/// Refuses a user who lacks a right that every run needs.
pub(super) fn check_rights(admin: &mut MsSqlConnection) -> Result<()> {
    let mut lacking = Vec::new();
    for right in statements::RIGHTS {
        if admin.text(&statements::has_right(right))?.as_deref() == Some("0") {
            lacking.push(right.to_owned());
        }
    }
    let user = admin.text(statements::USER)?.unwrap_or_default();
    let (before, after) = ("GRANT ".to_owned(), format!(" TO {user}"));
    MissingRights::sql(&user, vec![Grant { before, rights: lacking, between: ", ", after }]).refuse()
}

/// True if the server accepts appending to blobs; tried on a row that is not kept.
pub(super) fn writes_pieces(admin: &mut MsSqlConnection, statements: &MsSqlStatements) -> Result<bool> {
    let tried = MsSqlStatements {
        schema: statements.schema.clone(),
        key_form: super::KeyForm::Integer,
        ..*statements
    };
    admin.batch_if_allowed(&tried.append_to_no_row())
}

/// Creates a store's schema with our mark and its tables, in one transaction.
pub(super) fn create_schema(
    admin: &mut MsSqlConnection,
    dir: &Path,
    schema: &str,
    tables: &[String],
) -> Result<()> {
    remove_stale(admin)?;
    SCHEMA.keep_name(dir, schema)?;
    admin.batch(statements::BEGIN)?;
    let made = make(admin, dir, schema, tables);
    if made.is_err() {
        // The first error is the one to report; the server may have rolled back already.
        admin.batch(statements::ROLLBACK).ok();
    }
    made
}

fn make(admin: &mut MsSqlConnection, dir: &Path, schema: &str, tables: &[String]) -> Result<()> {
    // CREATE SCHEMA must be a batch of its own.
    admin.batch(&statements::create_schema(schema))?;
    admin.batch(&statements::create_mark(schema))?;
    let Owner { machine, dir: used_by } = Owner::for_dir(dir);
    admin.execute(&statements::set_owner(schema), &[&machine.as_str(), &used_by.as_str()])?;
    tables.iter().try_for_each(|statement| admin.batch(statement))?;
    admin.batch(Commit::Plain.statement())
}

/// Finds the schema again after the store was closed.
pub(super) fn find_schema(admin: &mut MsSqlConnection, dir: &Path) -> Result<String> {
    let schema = SCHEMA.kept_name(dir)?;
    SCHEMA.check_mark(&schema, owner(admin, &schema)?.is_some())?;
    Ok(schema)
}

/// The owner of the schema; `None` if it does not carry our mark.
fn owner(admin: &mut MsSqlConnection, schema: &str) -> Result<Option<Owner>> {
    if !is_our_name(schema) || !has_table(admin, schema, MARK)? {
        return Ok(None);
    }
    let mut owner = None;
    admin.query(&statements::owner(schema), &[], &mut |row| {
        let text = |column| -> anyhow::Result<String> {
            Ok(row.try_get::<&str, usize>(column)?.unwrap_or_default().to_owned())
        };
        owner = Some(Owner { machine: text(0)?, dir: text(1)? });
        Ok(())
    })?;
    Ok(owner)
}

fn has_table(admin: &mut MsSqlConnection, schema: &str, table: &str) -> Result<bool> {
    Ok(admin.query(statements::HAS_TABLE, &[&schema, &table], &mut |_| Ok(()))? > 0)
}

/// Drops our tables and then the schema, which must be empty; what is dropped already is no error.
pub(super) fn drop_schema(admin: &mut MsSqlConnection, schema: &str) -> Result<()> {
    if has_table(admin, schema, "blobs")? {
        admin.batch(&statements::drop_table(schema, "blobs"))?;
    }
    // The mark goes with the schema, so that a partial removal is still recognized as ours.
    if has_table(admin, schema, MARK)? {
        admin.batch(&statements::drop_marked(schema))?;
    }
    Ok(())
}

/// Removes schemas of killed runs: those with our mark whose owner is certainly gone. Skips schemas that cannot be read.
fn remove_stale(admin: &mut MsSqlConnection) -> Result<()> {
    let mut schemas = Vec::new();
    admin.query(statements::SCHEMAS, &[], &mut |row| {
        schemas.extend(row.try_get::<&str, usize>(0)?.map(str::to_owned));
        Ok(())
    })?;
    schemas
        .retain(|schema| owner(admin, schema).is_ok_and(|owner| owner.is_some_and(|owner| owner.is_gone())));
    remove_schemas(schemas, |schema| drop_schema(admin, schema))
}

/// Removes each schema, independently of the others.
pub(super) fn remove_schemas(schemas: Vec<String>, remove: impl FnMut(&str) -> Result<()>) -> Result<()> {
    remove_all(schemas, PATIENCE, remove, statements::drop_by_hand)
}

/// Size of the table with its index and large-object pages, as the server reports it.
pub(super) fn size_bytes(admin: &mut MsSqlConnection, schema: &str) -> Result<u64> {
    if let Some(size) = admin.text(&statements::pages(schema))? {
        return kilobytes(&size);
    }
    // The view requires a permission that not every user has.
    let mut reserved = None;
    admin.query(&statements::space_used(schema), &[], &mut |row| {
        reserved = row.try_get::<&str, &str>("reserved")?.map(str::to_owned);
        Ok(())
    })?;
    kilobytes(&reserved.context("the server does not say how large the table is")?)
}

/// Parses a size such as `1024 KB` into bytes.
fn kilobytes(size: &str) -> Result<u64> {
    let number = size.trim().strip_suffix("KB").and_then(|number| number.trim().parse::<u64>().ok());
    Ok(number.map(|number| number << 10).with_context(|| format!("the server says a size of `{size}`"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(kilobytes("1024 KB").unwrap(), 1 << 20);
        assert_eq!(kilobytes(" 0 KB").unwrap(), 0);
        assert!(kilobytes("many").is_err());
    }
}
