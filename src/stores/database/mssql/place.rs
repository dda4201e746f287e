//! Our own schema in a database of the user's, and what the server says of itself.

use std::path::Path;

use anyhow::{Context, anyhow};

use super::connection::Connection;
use super::statements::{self, Commit, DELAYED_DURABILITY, MARK, Statements};
use crate::store::*;
use crate::stores::common::removal::{self, remove_all};
use crate::stores::common::servers::{OURS, Owner, is_our_name};
use crate::wire::mssql::{Address, VERSION, is_too_old};

/// Where the name of our schema is kept between closing and opening.
const SCHEMA_FILE: &str = "schema";

/// What a run does in a server of the user's, and what that says of its disks.
pub(super) fn intent(setup: &Setup) -> Result<Intent> {
    let mut keeper =
        Connection::open(&Address::of(setup.options.text("url"))?, "READ COMMITTED", setup.op_timeout)?;
    let database = keeper.text(statements::DATABASE)?.unwrap_or_default();
    let recovery = keeper.text(statements::RECOVERY_MODEL)?.unwrap_or_default();
    let room = keeper.text(statements::FREE)?.and_then(|free| free.trim().parse().ok()).map(|left| Room {
        limit: format!("the fullest disk of the database `{database}`"),
        unit: Unit::Bytes,
        left,
        when_full: "refuses every write".to_owned(),
        way_out: "make room there".to_owned(),
        takes: Box::new(taken),
    });
    let why = "SQL Server says what its disks have free only to users with the right VIEW SERVER STATE";
    Ok(Intent {
        makes: format!("makes a schema `{OURS}...` in the database `{database}`"),
        pronoun: "it",
        unknown: room.is_none().then(|| why.to_owned()),
        limits: room.into_iter().collect(),
        carriers: if recovery.is_empty() {
            Vec::new()
        } else {
            vec![format!("its transaction log (recovery model {recovery})")]
        },
    })
}

/// Bytes of pages, and of a log that nobody backs up meanwhile.
fn taken(demand: &Demand<'_>) -> u64 {
    2 * demand.written(|bytes| bytes + bytes / 5 + (16 << 10))
}

/// The database's setting; `None` where the server does not know it.
pub(super) fn delayed_durability(keeper: &mut Connection) -> Result<Option<String>> {
    Ok(keeper.text(DELAYED_DURABILITY)?.map(|setting| setting.trim().to_uppercase()))
}

/// Refuses a server that lacks what is needed here.
pub(super) fn check_version(keeper: &mut Connection) -> Result<()> {
    let version = keeper.text(VERSION)?.unwrap_or_default();
    is_too_old(&version).map_or(Ok(()), |why| Err(Error::Failed(anyhow!(why))))
}

/// Whether blobs can be appended to, tried on a row that is not kept.
pub(super) fn writes_pieces(keeper: &mut Connection, statements: &Statements) -> Result<bool> {
    let tried =
        Statements { schema: statements.schema.clone(), key_form: super::KeyForm::Integer, ..*statements };
    keeper.batch_if_allowed(&tried.append_to_no_row())
}

/// Makes the schema of a store, with our mark and its tables: all of it or nothing.
pub(super) fn create_schema(
    keeper: &mut Connection,
    dir: &Path,
    schema: &str,
    tables: &[String],
) -> Result<()> {
    remove_stale(keeper)?;
    std::fs::write(dir.join(SCHEMA_FILE), schema)?;
    keeper.batch(statements::BEGIN)?;
    let made = make(keeper, dir, schema, tables);
    if made.is_err() {
        // The first error is the one to report; the server may have rolled back already.
        keeper.batch(statements::ROLLBACK).ok();
    }
    made
}

fn make(keeper: &mut Connection, dir: &Path, schema: &str, tables: &[String]) -> Result<()> {
    // The schema's statement wants a batch of its own.
    keeper.batch(&statements::create_schema(schema))?;
    keeper.batch(&statements::create_mark(schema))?;
    let Owner { machine, dir: used_by } = Owner::of(dir);
    keeper.execute(&statements::set_owner(schema), &[&machine.as_str(), &used_by.as_str()])?;
    tables.iter().try_for_each(|statement| keeper.batch(statement))?;
    keeper.batch(Commit::Plain.statement())
}

/// Finds the schema again after the store was closed.
pub(super) fn find_schema(keeper: &mut Connection, dir: &Path) -> Result<String> {
    let schema = std::fs::read_to_string(dir.join(SCHEMA_FILE)).context("the name of our schema is lost")?;
    match owner(keeper, &schema)? {
        Some(_) => Ok(schema),
        None => {
            Err(Error::Failed(anyhow!("the schema `{schema}` does not carry our mark; it is left alone")))
        }
    }
}

/// Whose the schema is; `None` for one that does not carry our mark.
fn owner(keeper: &mut Connection, schema: &str) -> Result<Option<Owner>> {
    if !is_our_name(schema) || !has_table(keeper, schema, MARK)? {
        return Ok(None);
    }
    let mut owner = None;
    keeper.query(&statements::owner(schema), &[], &mut |row| {
        let text = |column| -> anyhow::Result<String> {
            Ok(row.try_get::<&str, usize>(column)?.unwrap_or_default().to_owned())
        };
        owner = Some(Owner { machine: text(0)?, dir: text(1)? });
        Ok(())
    })?;
    Ok(owner)
}

fn has_table(keeper: &mut Connection, schema: &str, table: &str) -> Result<bool> {
    Ok(keeper.query(statements::HAS_TABLE, &[&schema, &table], &mut |_| Ok(()))? > 0)
}

/// Removes what we made; a schema must be empty before it goes.
pub(super) fn drop_schema(keeper: &mut Connection, schema: &str) -> Result<()> {
    // The mark goes last, so that what is left half way is still known as ours.
    for table in ["blobs", MARK] {
        if has_table(keeper, schema, table)? {
            keeper.batch(&statements::drop_table(schema, table))?;
        }
    }
    keeper.batch(&statements::drop_schema(schema))
}

/// Removes schemas that runs left behind when they were killed: marked, and their owner is surely gone. What we may not look
/// into is left alone.
fn remove_stale(keeper: &mut Connection) -> Result<()> {
    let mut schemas = Vec::new();
    keeper.query(statements::SCHEMAS, &[], &mut |row| {
        schemas.extend(row.try_get::<&str, usize>(0)?.map(str::to_owned));
        Ok(())
    })?;
    schemas
        .retain(|schema| owner(keeper, schema).is_ok_and(|owner| owner.is_some_and(|owner| owner.is_gone())));
    remove_schemas(schemas, |schema| drop_schema(keeper, schema))
}

/// Removes schemas, each whatever becomes of the others.
pub(super) fn remove_schemas(schemas: Vec<String>, mut remove: impl FnMut(&str) -> Result<()>) -> Result<()> {
    remove_all(schemas, removal::PATIENCE, |schema| remove(schema), statements::drop_by_hand)
}

/// What the table takes with its index and the pages of its large values, by the server's own account.
pub(super) fn size_bytes(keeper: &mut Connection, schema: &str) -> Result<u64> {
    if let Some(size) = keeper.text(&statements::pages(schema))? {
        return kilobytes(&size);
    }
    // The view needs a right that not every user has.
    let mut reserved = None;
    keeper.query(&statements::space_used(schema), &[], &mut |row| {
        reserved = row.try_get::<&str, &str>("reserved")?.map(str::to_owned);
        Ok(())
    })?;
    kilobytes(&reserved.context("the server does not say how large the table is")?)
}

/// Bytes of a size such as `1024 KB`.
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
