//! Checks the privileges of the role on the user's PostgreSQL before anything is made.

use super::{PostgresError, PostgresLayout};
use crate::store::*;
use crate::wire::postgres::{ConnectionParameters, PostgresClient, StatementParameter};

/// `insufficient_privilege`.
const DENIED: &str = "42501";

/// The functions for locks, and for a sync. Everybody may call them, unless that privilege was revoked.
const OF_EVERY_RUN: &str =
    "pg_advisory_lock_shared,pg_advisory_unlock,pg_logical_emit_message,pg_try_advisory_lock";

/// The same for large objects.
const OF_LARGE_OBJECTS: &str = "lo_create,lo_from_bytea,lo_get,lo_lseek64,lo_open,lo_unlink,loread,lowrite";

/// The tablespace that is set for new tables of the role, if that lacks a privilege on it. None is needed on the database's own.
const TABLESPACE: &str = "SELECT quote_ident(spcname) FROM pg_tablespace
    WHERE spcname = current_setting('default_tablespace') AND NOT has_tablespace_privilege(oid, 'CREATE')
        AND oid <> (SELECT dattablespace FROM pg_database WHERE datname = current_database())";

/// The functions of those named that the role may not call.
const FUNCTIONS: &str = "SELECT oid::regprocedure::text FROM pg_proc
    WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = ANY (string_to_array($1, ','))
        AND NOT has_function_privilege(oid, 'EXECUTE') ORDER BY 1";

/// Refuses a user who lacks privileges that a run needs.
pub(super) fn check(admin: &mut PostgresClient, shape: &PostgresLayout) -> Result<()> {
    const NAMES: &str =
        "SELECT quote_ident(name) FROM unnest(ARRAY[current_user, current_database()]::text[]) AS name";
    let names = admin.texts(NAMES, &[])?;
    let [user, database] = names.as_slice() else {
        return Err(Error::Failed(anyhow::anyhow!("the server does not say who we are")));
    };
    let may_create = admin.number("SELECT has_database_privilege(current_database(), 'CREATE')", &[])?;
    let on_database = if may_create == Some(1) { &[][..] } else { &["CREATE"] };
    let mut grants = vec![Grant::on_object(&format!("DATABASE {database}"), owned(on_database), user)];
    for name in admin.texts(TABLESPACE, &[])? {
        grants.push(Grant::on_object(&format!("TABLESPACE {name}"), owned(&["CREATE"]), user));
    }
    let has_objects = matches!(shape, PostgresLayout::LargeObject { .. });
    let called =
        if has_objects { format!("{OF_EVERY_RUN},{OF_LARGE_OBJECTS}") } else { OF_EVERY_RUN.to_owned() };
    let functions = admin.texts(FUNCTIONS, &[StatementParameter::Bytes(called.as_bytes())])?;
    let (before, after) = ("GRANT EXECUTE ON FUNCTION ".to_owned(), format!(" TO {user}"));
    grants.push(Grant { before, rights: functions, between: ", ", after });
    if has_objects {
        let may_write = admin.number("SELECT has_language_privilege('plpgsql', 'USAGE')", &[])?;
        let on_language = if may_write == Some(1) { &[][..] } else { &["USAGE"] };
        grants.push(Grant::on_object("LANGUAGE plpgsql", owned(on_language), user));
    }
    MissingRights::sql(user, grants).refuse()
}

/// The error of a refused connection. If the database is closed to the user, it lists all privileges that a run needs there.
pub(super) fn of_connection(trouble: PostgresError, config: &ConnectionParameters) -> Error {
    if trouble.code() != Some(DENIED) {
        return trouble.into();
    }
    let database = config.settings.iter().find(|(name, _)| name == "database").map(|(_, value)| value);
    let on = format!("DATABASE {}", quoted(database.unwrap_or(&config.user)));
    let user = quoted(&config.user);
    let grants = vec![Grant::on_object(&on, owned(&["CONNECT", "CREATE"]), &user)];
    Error::failed(MissingRights::sql(&user, grants))
}

/// The result; `None` if the user lacks the privilege.
pub(super) fn unless_denied<T>(answer: std::result::Result<T, PostgresError>) -> Result<Option<T>> {
    match answer {
        Err(trouble) if trouble.code() == Some(DENIED) => Ok(None),
        answer => Ok(Some(answer?)),
    }
}

fn owned(rights: &[&str]) -> Vec<String> {
    rights.iter().map(|right| (*right).to_owned()).collect()
}

/// Quotes an SQL identifier, for when no server can be asked which words need no quotes.
fn quoted(name: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '_';
    if name.starts_with(|sign: char| sign.is_ascii_lowercase()) && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}
