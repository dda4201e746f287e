//! The SQL for SQL Server: texts without values, which are sent as parameters `@P1`, `@P2` ...

use anyhow::anyhow;

use crate::store::*;
use crate::stores::common::keys::KeyForm;
use crate::wire::mssql::VERSION;

/// The table that marks a schema as ours and names its owner.
pub(super) const MARK: &str = "made_by_blobwise";

/// The facts: a name, and a query for one text. A fact that the server does not know or reveal is omitted.
pub(super) const FACTS: &[(&str, &str)] = &[
    ("version", VERSION),
    ("edition", "SELECT CAST(SERVERPROPERTY('Edition') AS nvarchar(128))"),
    ("recovery_model", RECOVERY_MODEL),
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

pub(super) const DELAYED_DURABILITY: &str =
    "SELECT CAST(delayed_durability_desc AS nvarchar(60)) FROM sys.databases WHERE database_id = DB_ID()";

pub(super) const DATABASE: &str = "SELECT DB_NAME()";

/// The number of the database: at most 4 for the server's own (master, tempdb, model, msdb).
pub(super) const DATABASE_ID: &str = "SELECT CAST(DB_ID() AS nvarchar(10))";

/// The rights on the database that every run needs.
pub(super) const RIGHTS: [&str; 2] = ["CREATE SCHEMA", "CREATE TABLE"];

/// Whether the user has a right on the database: `1` or `0`.
pub(super) fn has_right(right: &str) -> String {
    format!("SELECT CAST(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', '{right}') AS nvarchar(1))")
}

/// The user, quoted for statements.
pub(super) const USER: &str = "SELECT QUOTENAME(USER_NAME())";

/// The log retention: with `FULL` the log grows until it is backed up.
pub(super) const RECOVERY_MODEL: &str =
    "SELECT CAST(recovery_model_desc AS nvarchar(60)) FROM sys.databases WHERE database_id = DB_ID()";

/// Free bytes on the fullest disk of the database; requires VIEW SERVER STATE.
pub(super) const FREE: &str = "SELECT CAST(MIN(v.available_bytes) AS nvarchar(20)) FROM sys.database_files f CROSS APPLY sys.dm_os_volume_stats(DB_ID(), f.file_id) v";

/// Bytes that the database's data files (type 0) or those of its log (type 1) have left of the size to which they may grow: 2 TB
/// for one without a limit, 10 GB for data in the Express editions (4).
pub(super) fn left_in_files(of_log: bool) -> String {
    format!(
        "SELECT CAST(SUM(CAST(CASE WHEN f.growth = 0 OR f.max_size = 0 THEN f.size \
             WHEN f.type = 0 AND CAST(SERVERPROPERTY('EngineEdition') AS int) = 4 THEN 1310720 \
             WHEN f.max_size = -1 THEN 268435456 ELSE f.max_size END AS bigint) \
             - FILEPROPERTY(f.name, 'SpaceUsed')) * 8192 AS nvarchar(20)) \
         FROM sys.database_files f WHERE f.type = {}",
        u8::from(of_log)
    )
}

/// The first statements of a session. Otherwise a failed statement would leave its transaction open; and depending on the
/// server's setting (`user options`), rows would not be counted, statements not committed, or quoted names taken as strings.
pub(super) fn session(isolation: &str) -> String {
    format!(
        "SET XACT_ABORT ON; SET NOCOUNT OFF; SET IMPLICIT_TRANSACTIONS OFF; SET QUOTED_IDENTIFIER ON; SET TRANSACTION ISOLATION LEVEL {isolation}"
    )
}

pub(super) const BEGIN: &str = "BEGIN TRANSACTION";

pub(super) const ROLLBACK: &str = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION";

/// Flushes the log of all delayed commits.
pub(super) const FLUSH_LOG: &str = "EXEC sys.sp_flush_log";

pub(super) const SCHEMAS: &str = "SELECT CAST(name AS nvarchar(128)) FROM sys.schemas";

/// Returns a row if the schema has the table.
pub(super) const HAS_TABLE: &str = "SELECT 1 FROM sys.tables t JOIN sys.schemas s ON s.schema_id = t.schema_id WHERE s.name = @P1 AND t.name = @P2";

pub(super) fn create_schema(schema: &str) -> String {
    format!("CREATE SCHEMA {schema}")
}

pub(super) fn create_mark(schema: &str) -> String {
    format!(
        "CREATE TABLE {schema}.{MARK}(machine nvarchar(200) NOT NULL PRIMARY KEY, dir nvarchar(4000) NOT NULL)"
    )
}

pub(super) fn set_owner(schema: &str) -> String {
    format!("INSERT INTO {schema}.{MARK}(machine, dir) VALUES (@P1, @P2)")
}

pub(super) fn owner(schema: &str) -> String {
    format!("SELECT machine, dir FROM {schema}.{MARK}")
}

pub(super) fn drop_table(schema: &str, table: &str) -> String {
    format!("DROP TABLE {schema}.{table}")
}

fn drop_schema(schema: &str) -> String {
    format!("DROP SCHEMA {schema}")
}

/// Drops the mark and the schema, which is empty then, or neither.
pub(super) fn drop_marked(schema: &str) -> String {
    let (mark, commit) = (drop_table(schema, MARK), Commit::Plain.statement());
    format!("{BEGIN}; {mark}; {}; {commit}", drop_schema(schema))
}

/// For a person to run, whatever is left of the schema.
pub(super) fn drop_by_hand(schema: &str) -> String {
    let tables = ["blobs", MARK].map(|table| format!("DROP TABLE IF EXISTS {schema}.{table}; "));
    tables.concat() + &drop_schema(schema)
}

/// Size of the table with its index and large values.
pub(super) fn pages(schema: &str) -> String {
    format!(
        "SELECT CAST(SUM(reserved_page_count) * 8 AS nvarchar(20)) + N' KB' FROM sys.dm_db_partition_stats
         WHERE object_id = OBJECT_ID(N'{schema}.blobs')"
    )
}

/// Like [`pages`], without the permission that its view requires.
pub(super) fn space_used(schema: &str) -> String {
    format!("EXEC sp_spaceused N'{schema}.blobs'")
}

/// How a write's transaction is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commit {
    /// By the database's default: each statement is a transaction that is on disk when it returns, unless the database delays all
    /// commits.
    Plain,
    /// The database delays all commits.
    Forced,
    /// The database lets each commit choose, and ours are delayed.
    Delayed,
}

impl Commit {
    /// The commit for a class, given the database's DELAYED_DURABILITY: a setting of the whole database, which we do not change.
    /// `None` if the server does not know the setting; its commits are then durable, as documented.
    pub(super) fn for_class(durability: Durability, setting: Option<&str>) -> Result<Commit> {
        match (durability, setting) {
            (Durability::EachWrite, Some("FORCED")) => Err(Error::Failed(anyhow!(
                "the database's DELAYED_DURABILITY is FORCED, so that no write is durable when it returns; use --durability on-sync \
                 or none"
            ))),
            (Durability::None | Durability::OnSync, Some("FORCED")) => Ok(Commit::Forced),
            (Durability::None | Durability::OnSync, Some("ALLOWED")) => Ok(Commit::Delayed),
            _ => Ok(Commit::Plain),
        }
    }

    /// The name in the store's facts.
    pub(super) fn name(self) -> &'static str {
        match self {
            Commit::Plain => "flushed",
            Commit::Forced => "delayed by the database",
            Commit::Delayed => "delayed by each commit",
        }
    }

    /// True if a commit may return before its log is on disk.
    pub(super) fn is_delayed(self) -> bool {
        self != Commit::Plain
    }

    /// The statement that commits an explicit transaction.
    pub(super) fn statement(self) -> &'static str {
        match self {
            Commit::Plain | Commit::Forced => "COMMIT TRANSACTION",
            Commit::Delayed => "COMMIT TRANSACTION WITH (DELAYED_DURABILITY = ON)",
        }
    }

    /// The statements with a commit of this kind, as one request.
    pub(super) fn around(self, statements: &str) -> String {
        match self {
            Commit::Plain | Commit::Forced => statements.to_owned(),
            Commit::Delayed => format!("BEGIN TRANSACTION; {statements}; {}", self.statement()),
        }
    }
}

#[derive(Clone)]
pub(super) struct MsSqlStatements {
    /// A name that this program generated, so it needs no escaping.
    pub(super) schema: String,
    pub(super) key_form: KeyForm,
    pub(super) lazy_delete: bool,
    pub(super) commit: Commit,
}

impl MsSqlStatements {
    fn column(&self) -> &'static str {
        match self.key_form {
            KeyForm::Digest => "hash",
            KeyForm::Integer => "id",
        }
    }

    /// A key's parameter. Text arrives as nvarchar; comparing it uncast would convert a char column row by row and bypass its
    /// index.
    fn key(&self, number: usize) -> String {
        match self.key_form {
            KeyForm::Digest => format!("CAST(@P{number} AS char(32))"),
            KeyForm::Integer => format!("@P{number}"),
        }
    }

    fn here(&self) -> &'static str {
        if self.lazy_delete { " AND gone = 0" } else { "" }
    }

    /// The statements that create the table, each a batch of its own.
    pub(super) fn tables(&self, out_of_row: bool) -> Vec<String> {
        let schema = &self.schema;
        let keys = match self.key_form {
            KeyForm::Digest => "id bigint IDENTITY NOT NULL PRIMARY KEY, hash char(32) NOT NULL UNIQUE",
            KeyForm::Integer => "id bigint NOT NULL PRIMARY KEY",
        };
        let mut statements = vec![format!(
            "CREATE TABLE {schema}.blobs({keys}, content varbinary(max) NOT NULL, gone bit NOT NULL DEFAULT 0)"
        )];
        if out_of_row {
            statements
                .push(format!("EXEC sp_tableoption '{schema}.blobs', 'large value types out of row', 1"));
        }
        statements
    }

    /// Creates or replaces a blob within a transaction. Two sessions creating the same blob collide in the unique index.
    pub(super) fn put_within(&self) -> String {
        let (schema, column, key) = (&self.schema, self.column(), self.key(1));
        format!(
            "UPDATE {schema}.blobs SET content = @P2, gone = 0 WHERE {column} = {key}; \
             IF @@ROWCOUNT = 0 INSERT INTO {schema}.blobs({column}, content) VALUES ({key}, @P2)"
        )
    }

    /// Creates or replaces a blob and commits.
    pub(super) fn put(&self) -> String {
        // Two statements, of which only one has an effect; each is a transaction.
        self.commit.around(&self.put_within())
    }

    /// Appends bytes to a blob within a transaction.
    pub(super) fn append_within(&self) -> String {
        let (schema, column, key) = (&self.schema, self.column(), self.key(1));
        format!("UPDATE {schema}.blobs SET content.WRITE(@P2, NULL, 0) WHERE {column} = {key}")
    }

    /// The same on a row that does not exist: tests whether the server accepts it, without any change. Keys are integers.
    pub(super) fn append_to_no_row(&self) -> String {
        format!("DECLARE @P1 bigint = -1, @P2 varbinary(max) = NULL; {}", self.append_within())
    }

    pub(super) fn get(&self, span: Span) -> String {
        let (schema, column, key, here) = (&self.schema, self.column(), self.key(1), self.here());
        let content = match span {
            Span::Whole => "content",
            Span::Part { .. } => "SUBSTRING(content, @P2, @P3)",
        };
        format!("SELECT {content} FROM {schema}.blobs WHERE {column} = {key}{here}")
    }

    /// Gets several blobs, each row with the key before the bytes.
    pub(super) fn get_many(&self, count: usize) -> String {
        let (schema, column, here) = (&self.schema, self.column(), self.here());
        let keys: Vec<String> = (1..=count).map(|number| self.key(number)).collect();
        let keys = keys.join(", ");
        format!("SELECT {column}, content FROM {schema}.blobs WHERE {column} IN ({keys}){here}")
    }

    /// Deletes or marks a blob within a transaction.
    pub(super) fn delete_within(&self) -> String {
        let (schema, column, key) = (&self.schema, self.column(), self.key(1));
        if self.lazy_delete {
            return format!("UPDATE {schema}.blobs SET gone = 1 WHERE {column} = {key}");
        }
        format!("DELETE FROM {schema}.blobs WHERE {column} = {key}")
    }

    /// Deletes or marks a blob and commits.
    pub(super) fn delete(&self) -> String {
        self.commit.around(&self.delete_within())
    }

    pub(super) fn list(&self) -> String {
        format!("SELECT hash FROM {}.blobs WHERE 1 = 1{}", self.schema, self.here())
    }

    pub(super) fn purge(&self) -> String {
        format!("DELETE FROM {}.blobs WHERE gone = 1", self.schema)
    }
}

/// Position and length for SUBSTRING, whose positions start at 1.
pub(super) fn substring(span: Span) -> (i64, i64) {
    let (offset, len) = span.below(super::BLOB_LIMIT.bytes);
    (offset as i64 + 1, len as i64)
}

/// The first piece of a blob, which is put, and the others, which are appended. An empty blob is one empty piece.
pub(super) fn pieces(blob: &[u8], piece: usize) -> (&[u8], impl Iterator<Item = &[u8]>) {
    let (first, rest) = blob.split_at(blob.len().min(piece));
    (first, rest.chunks(piece))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::wire::mssql::grammar::{UnsupportedSyntax, all_are_met, parse, reads_what_is_documented};

    fn statements(key_form: KeyForm, lazy_delete: bool, commit: Commit) -> MsSqlStatements {
        MsSqlStatements { schema: "s".into(), key_form, lazy_delete, commit }
    }

    /// Exceptions for documented syntax that the parser does not support.
    const UNKNOWN: &[UnsupportedSyntax] = &[
        UnsupportedSyntax {
            words: " WITH (DELAYED_DURABILITY = ON)",
            instead: "",
            documented: "COMMIT TRANSACTION (Transact-SQL), from SQL Server 2014 on",
        },
        UnsupportedSyntax {
            words: "SET content.WRITE(",
            instead: "SET content = WRITE(",
            documented: "UPDATE (Transact-SQL), updating large value data types",
        },
    ];

    /// Every statement, for all combinations of options.
    fn all() -> BTreeSet<String> {
        let schema = "blobwise_0123456789abcdef";
        let mut all: BTreeSet<String> =
            ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"].map(session).into();
        all.extend(
            [BEGIN, ROLLBACK, FLUSH_LOG, SCHEMAS, HAS_TABLE, DATABASE, DATABASE_ID, USER, FREE]
                .map(str::to_owned),
        );
        all.extend(FACTS.iter().map(|(_, sql)| (*sql).to_owned()));
        all.extend([false, true].map(left_in_files));
        all.extend(RIGHTS.map(has_right));
        all.extend(
            [create_schema, create_mark, set_owner, owner, drop_marked, drop_by_hand, pages, space_used]
                .map(|of| of(schema)),
        );
        all.extend(["blobs", MARK].map(|table| drop_table(schema, table)));
        for key_form in [KeyForm::Digest, KeyForm::Integer] {
            for commit in [Commit::Plain, Commit::Forced, Commit::Delayed] {
                for lazy_delete in [false, true] {
                    let of = statements(key_form, lazy_delete, commit);
                    all.extend(of.tables(true));
                    all.extend([Span::Whole, Span::Part { offset: 1, len: 2 }].map(|span| of.get(span)));
                    all.extend([of.put_within(), of.put(), of.append_within(), of.append_to_no_row()]);
                    all.extend([
                        of.get_many(1),
                        of.get_many(3),
                        of.delete_within(),
                        of.delete(),
                        of.list(),
                        of.purge(),
                    ]);
                    all.insert(commit.statement().to_owned());
                }
            }
        }
        all
    }

    #[test]
    fn the_server_would_understand() {
        let all = all();
        all_are_met(all.iter().map(String::as_str), UNKNOWN);
        for sql in &all {
            reads_what_is_documented(&parse(sql, UNKNOWN));
        }
        // No other file contains SQL.
        for source in [
            include_str!("place.rs"),
            include_str!("session.rs"),
            include_str!("connection.rs"),
            include_str!("mod.rs"),
        ] {
            for word in ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "EXEC ", "CREATE ", "DROP ", "SET "] {
                let used = source.split("#[cfg(test)]").next().unwrap().contains(&format!("\"{word}"));
                assert!(!used, "{word} is made elsewhere");
            }
        }
    }

    #[test]
    fn the_class_and_the_database_decide_how_a_write_ends() {
        use Durability::{EachWrite, None as Never, OnSync};
        for class in [Never, OnSync] {
            assert_eq!(Commit::for_class(class, Some("FORCED")).unwrap(), Commit::Forced);
            assert_eq!(Commit::for_class(class, Some("ALLOWED")).unwrap(), Commit::Delayed);
            assert_eq!(Commit::for_class(class, Some("DISABLED")).unwrap(), Commit::Plain);
            assert_eq!(Commit::for_class(class, None).unwrap(), Commit::Plain);
        }
        assert_eq!(Commit::for_class(EachWrite, Some("DISABLED")).unwrap(), Commit::Plain);
        assert_eq!(Commit::for_class(EachWrite, Some("ALLOWED")).unwrap(), Commit::Plain);
        assert_eq!(Commit::for_class(EachWrite, None).unwrap(), Commit::Plain);
        let refused = Commit::for_class(EachWrite, Some("FORCED")).unwrap_err().to_string();
        assert!(refused.contains("FORCED"), "{refused}");
    }

    #[test]
    fn only_a_delayed_commit_is_asked_for() {
        let put = |commit| statements(KeyForm::Digest, false, commit).put();
        let bare = "UPDATE s.blobs SET content = @P2, gone = 0 WHERE hash = CAST(@P1 AS char(32)); \
                    IF @@ROWCOUNT = 0 INSERT INTO s.blobs(hash, content) VALUES (CAST(@P1 AS char(32)), @P2)";
        assert_eq!(put(Commit::Plain), bare);
        assert_eq!(put(Commit::Forced), bare);
        assert_eq!(
            put(Commit::Delayed),
            format!("BEGIN TRANSACTION; {bare}; COMMIT TRANSACTION WITH (DELAYED_DURABILITY = ON)")
        );
        assert_eq!(
            statements(KeyForm::Integer, false, Commit::Delayed).delete(),
            "BEGIN TRANSACTION; DELETE FROM s.blobs WHERE id = @P1; COMMIT TRANSACTION WITH (DELAYED_DURABILITY = ON)"
        );
    }

    #[test]
    fn keys_and_bytes_are_parameters() {
        for key_form in [KeyForm::Digest, KeyForm::Integer] {
            for lazy_delete in [false, true] {
                let of = statements(key_form, lazy_delete, Commit::Delayed);
                let part = Span::Part { offset: 1, len: 2 };
                let texts = [
                    of.put(),
                    of.append_within(),
                    of.get(Span::Whole),
                    of.get(part),
                    of.get_many(3),
                    of.delete(),
                    of.list(),
                    of.purge(),
                ];
                for text in texts {
                    assert!(!text.contains('\'') && !text.contains("0x"), "{text}");
                }
                assert!(of.get(part).contains("SUBSTRING(content, @P2, @P3)"));
                assert!(of.get_many(3).contains("@P3") && !of.get_many(3).contains("@P4"));
                assert_eq!(of.get(Span::Whole).contains("gone = 0"), lazy_delete);
                assert_eq!(of.delete().contains("SET gone = 1"), lazy_delete);
                assert_eq!(of.list().contains("gone = 0"), lazy_delete);
            }
        }
    }

    #[test]
    fn positions_count_from_1_and_stay_within_the_type() {
        const LAST: i64 = (1 << 31) - 1;
        let of = |offset, len| substring(Span::Part { offset, len });
        assert_eq!(of(0, 1), (1, 1));
        assert_eq!(of(4095, 70_000), (4096, 70_000));
        assert_eq!(of(0, 0), (1, 0));
        assert_eq!(of(0, u64::MAX), (1, LAST));
        assert_eq!(of(7, u64::MAX), (8, LAST - 7));
        assert_eq!(of(u64::MAX, u64::MAX), (LAST + 1, 0));
        assert_eq!(of(1 << 40, 1), (LAST + 1, 0));
        assert_eq!(substring(Span::Whole), (1, LAST));
    }

    #[test]
    fn a_blob_is_its_pieces() {
        let split = |len: usize, piece: usize| {
            let blob: Vec<u8> = (0..len).map(|byte| byte as u8).collect();
            let (first, rest) = pieces(&blob, piece);
            let all: Vec<&[u8]> = std::iter::once(first).chain(rest).collect();
            assert_eq!(all.concat(), blob);
            all.iter().map(|piece| piece.len()).collect::<Vec<usize>>()
        };
        assert_eq!(split(0, 10), [0]);
        assert_eq!(split(9, 10), [9]);
        assert_eq!(split(10, 10), [10]);
        assert_eq!(split(11, 10), [10, 1]);
        assert_eq!(split(30, 10), [10, 10, 10]);
    }
}
