//! Checks the privileges of the account on the user's MySQL or MariaDB before anything is made, by statements on a database that
//! does not exist. The server checks privileges first, so a denied statement differs from one that merely fails.

use mysql::Conn;
use mysql::prelude::Queryable;

use super::{MySqlLayout, MySqlProduct, StatementProtocol};
use crate::store::*;
use crate::stores::common::servers::{OURS, own_name};
use crate::wire::mysql::account;

/// Privileges on the run's database, each with a statement that needs it. `D` is a placeholder for the database.
const ALWAYS: &[(&str, &str)] = &[
    ("CREATE", "CREATE TABLE D.t(id INT)"),
    ("DROP", "DROP TABLE D.t"),
    ("SELECT", "SELECT id FROM D.t"),
    ("INSERT", "INSERT INTO D.t VALUES (1)"),
    ("UPDATE", "UPDATE D.t SET id = 1"),
    ("DELETE", "DELETE FROM D.t"),
];
/// The privilege for foreign keys.
const REFERENCES: (&str, &str) =
    ("REFERENCES", "CREATE TABLE D.t(id INT, FOREIGN KEY (id) REFERENCES D.u(id))");
/// The privileges for procedures. The creator may call and drop a procedure, unless the server is configured otherwise.
const CREATE_ROUTINE: (&str, &str) = ("CREATE ROUTINE", "CREATE PROCEDURE D.p() SELECT 1");
const OF_ROUTINES: [(&str, &str); 2] = [("EXECUTE", "CALL D.p()"), ("ALTER ROUTINE", "DROP PROCEDURE D.p")];
/// A server-wide privilege: a sync in class on-sync flushes the log of all databases.
const RELOAD: (&str, &str) = ("RELOAD", "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS");

/// Refuses a user who lacks privileges that a run needs.
pub(super) fn check(
    admin: &mut Conn,
    flavour: MySqlProduct,
    shape: MySqlLayout,
    protocol: StatementProtocol,
    durability: Durability,
) -> Result<()> {
    let database = own_name();
    let mut on_database = ALWAYS.to_vec();
    if matches!(shape, MySqlLayout::Chunked { .. }) {
        on_database.push(REFERENCES);
    }
    if protocol == StatementProtocol::Procedure {
        on_database.push(CREATE_ROUTINE);
        if admin.query_first("SELECT @@automatic_sp_privileges")? == Some(0) {
            on_database.extend(OF_ROUTINES);
        }
    }
    let mut lacks = |needed: &[(&str, &str)]| -> Result<Vec<String>> {
        let mut rights = Vec::new();
        for (right, statement) in needed {
            if is_denied(admin, &statement.replace("D.", &format!("{database}.")))? {
                rights.push((*right).to_owned());
            }
        }
        Ok(rights)
    };
    let of_database = lacks(&on_database)?;
    let flushes = flavour == MySqlProduct::MySql && durability == Durability::OnSync;
    let of_server = if flushes { lacks(&[RELOAD])? } else { Vec::new() };
    if of_database.is_empty() && of_server.is_empty() {
        return Ok(());
    }
    let user: Option<String> = admin.query_first("SELECT CURRENT_USER()")?;
    let user = account(&user.unwrap_or_default());
    let databases = databases(admin)?;
    let grants =
        vec![Grant::on_object(&databases, of_database, &user), Grant::on_object("*.*", of_server, &user)];
    MissingRights::sql(&user, grants).refuse()
}

/// The pattern of a run's databases for GRANT. With `partial_revokes` MySQL accepts no patterns.
fn databases(admin: &mut Conn) -> Result<String> {
    let setting: Option<(String, String)> =
        admin.query_first("SHOW GLOBAL VARIABLES LIKE 'partial_revokes'")?;
    let takes_patterns = setting.is_none_or(|(_, value)| value != "ON");
    Ok(if takes_patterns { format!("`{}%`.*", OURS.replace('_', "\\_")) } else { "*.*".to_owned() })
}

/// True if the statement fails because of a missing privilege.
fn is_denied(admin: &mut Conn, statement: &str) -> Result<bool> {
    /// Access denied: to a database, a table, a column, for lack of a server-wide privilege, to a routine.
    const DENIED: [u16; 5] = [1044, 1142, 1143, 1227, 1370];
    match admin.query_drop(statement) {
        Err(mysql::Error::MySqlError(error)) => Ok(DENIED.contains(&error.code)),
        outcome => Ok(outcome.map(|()| false)?),
    }
}
