//! Our own schema in a database of the user's, and what the server says of itself.

use std::path::Path;

use anyhow::{Context, anyhow};

use super::connection::Connection;
use super::statements::Statements;
use crate::store::*;
use crate::stores::common::servers::{OURS, Owner, own_name};

/// The table that marks a schema as ours and says whose it is.
const MARK: &str = "made_by_blobwise";
/// Where the name of our schema is kept between closing and opening.
const SCHEMA_FILE: &str = "schema";

/// What is read back: a name, and a query for one text. A server that does not know or tell one of them has one fact less.
pub(super) const FACTS: &[(&str, &str)] = &[
    ("version", "SELECT CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128))"),
    ("edition", "SELECT CAST(SERVERPROPERTY('Edition') AS nvarchar(128))"),
    (
        "recovery_model",
        "SELECT CAST(recovery_model_desc AS nvarchar(60)) FROM sys.databases WHERE database_id = DB_ID()",
    ),
    ("delayed_durability", DELAYED_DURABILITY),
    (
        "page_verify",
        "SELECT CAST(page_verify_option_desc AS nvarchar(60)) FROM sys.databases WHERE database_id = DB_ID()",
    ),
    (
        "read_committed_snapshot",
        "SELECT CAST(is_read_committed_snapshot_on AS nvarchar(5)) FROM sys.databases WHERE database_id = DB_ID()",
    ),
    (
        "compatibility_level",
        "SELECT CAST(compatibility_level AS nvarchar(5)) FROM sys.databases WHERE database_id = DB_ID()",
    ),
    (
        "max_server_memory_mb",
        "SELECT CAST(CAST(value_in_use AS bigint) AS nvarchar(20)) FROM sys.configurations WHERE name = 'max server memory (MB)'",
    ),
];

const DELAYED_DURABILITY: &str =
    "SELECT CAST(delayed_durability_desc AS nvarchar(60)) FROM sys.databases WHERE database_id = DB_ID()";

/// The database's setting; `None` where the server does not know it.
pub(super) fn delayed_durability(keeper: &mut Connection) -> Result<Option<String>> {
    Ok(keeper.text(DELAYED_DURABILITY)?.map(|setting| setting.trim().to_uppercase()))
}

/// Delayed durability came with SQL Server 2014.
pub(super) fn check_version(keeper: &mut Connection) -> Result<()> {
    const LEAST: u32 = 12;
    let version = keeper.text(FACTS[0].1)?.unwrap_or_default();
    match major(&version) {
        Some(major) if major < LEAST => {
            Err(Error::Failed(anyhow!("the server is older than SQL Server 2014 (it says {version})")))
        }
        _ => Ok(()),
    }
}

fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

/// Whether blobs can be appended to, tried on a row that is not kept.
pub(super) fn writes_pieces(keeper: &mut Connection, statements: &Statements) -> Result<bool> {
    let tried =
        Statements { schema: statements.schema.clone(), key_form: super::KeyForm::Integer, ..*statements };
    let append = tried.append_within();
    // No row has this number: the server says whether it understands, and changes nothing.
    let declared = format!("DECLARE @P1 bigint = -1, @P2 varbinary(max) = NULL; {append}");
    keeper.batch_if_allowed(&declared)
}

/// Makes the schema of a store, with our mark.
pub(super) fn create_schema(keeper: &mut Connection, dir: &Path) -> Result<String> {
    remove_stale(keeper)?;
    let schema = own_name();
    keeper.batch(&format!("CREATE SCHEMA {schema}"))?;
    keeper.batch(&format!(
        "CREATE TABLE {schema}.{MARK}(machine nvarchar(200) NOT NULL, dir nvarchar(4000) NOT NULL)"
    ))?;
    let Owner { machine, dir: used_by } = Owner::of(dir);
    keeper.execute(
        &format!("INSERT INTO {schema}.{MARK}(machine, dir) VALUES (@P1, @P2)"),
        &[&machine.as_str(), &used_by.as_str()],
    )?;
    std::fs::write(dir.join(SCHEMA_FILE), &schema)?;
    Ok(schema)
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

/// Whether a name is one that we make: it is put into statements as it is.
fn is_our_name(name: &str) -> bool {
    name.strip_prefix(OURS).is_some_and(|number| {
        number.len() == 16
            && number.bytes().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit))
    })
}

/// Whose the schema is; `None` for one that does not carry our mark.
fn owner(keeper: &mut Connection, schema: &str) -> Result<Option<Owner>> {
    if !is_our_name(schema) || !has_table(keeper, schema, MARK)? {
        return Ok(None);
    }
    let mut owner = None;
    keeper.query(&format!("SELECT machine, dir FROM {schema}.{MARK}"), &[], &mut |row| {
        let text = |column| -> anyhow::Result<String> {
            Ok(row.try_get::<&str, usize>(column)?.unwrap_or_default().to_owned())
        };
        owner = Some(Owner { machine: text(0)?, dir: text(1)? });
        Ok(())
    })?;
    Ok(owner)
}

fn has_table(keeper: &mut Connection, schema: &str, table: &str) -> Result<bool> {
    let sql = "SELECT 1 FROM sys.tables t JOIN sys.schemas s ON s.schema_id = t.schema_id
        WHERE s.name = @P1 AND t.name = @P2";
    Ok(keeper.query(sql, &[&schema, &table], &mut |_| Ok(()))? > 0)
}

/// Removes what we made; a schema must be empty before it goes.
pub(super) fn drop_schema(keeper: &mut Connection, schema: &str) -> Result<()> {
    // The mark goes last, so that what is left half way is still known as ours.
    for table in ["blobs", MARK] {
        if has_table(keeper, schema, table)? {
            keeper.batch(&format!("DROP TABLE {schema}.{table}"))?;
        }
    }
    keeper.batch(&format!("DROP SCHEMA {schema}"))
}

/// Removes schemas that runs left behind when they were killed: marked, and their owner is surely gone. What we may not look
/// into or remove, such as another user's, is left alone.
fn remove_stale(keeper: &mut Connection) -> Result<()> {
    let mut schemas = Vec::new();
    keeper.query("SELECT CAST(name AS nvarchar(128)) FROM sys.schemas", &[], &mut |row| {
        schemas.extend(row.try_get::<&str, usize>(0)?.map(str::to_owned));
        Ok(())
    })?;
    for schema in schemas {
        if owner(keeper, &schema).is_ok_and(|owner| owner.is_some_and(|owner| owner.is_gone())) {
            drop_schema(keeper, &schema).ok();
        }
    }
    Ok(())
}

/// What the table takes with its index and the pages of its large values, by the server's own account.
pub(super) fn size_bytes(keeper: &mut Connection, schema: &str) -> Result<u64> {
    let pages = format!(
        "SELECT CAST(SUM(reserved_page_count) * 8 AS nvarchar(20)) + N' KB' FROM sys.dm_db_partition_stats
         WHERE object_id = OBJECT_ID(N'{schema}.blobs')"
    );
    if let Some(size) = keeper.text(&pages)? {
        return kilobytes(&size);
    }
    // The view needs a right that not every user has.
    let mut reserved = None;
    keeper.query(&format!("EXEC sp_spaceused N'{schema}.blobs'"), &[], &mut |row| {
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
    fn only_names_that_we_make_are_ours() {
        assert!(is_our_name(&own_name()));
        for other in
            ["dbo", "blobwise_", "blobwise_1", "blobwise_0123456789abcdeg", "blobwise_x]; DROP TABLE y--"]
        {
            assert!(!is_our_name(other), "{other}");
        }
    }

    #[test]
    fn sizes_and_versions_are_read() {
        assert_eq!(kilobytes("1024 KB").unwrap(), 1 << 20);
        assert_eq!(kilobytes(" 0 KB").unwrap(), 0);
        assert!(kilobytes("many").is_err());
        assert_eq!(major("16.0.4135.4"), Some(16));
        assert_eq!(major(""), None);
    }
}
