//! SQL Server: a value in a `varbinary(max)` column, in a server of the user's.

mod connection;
mod place;
mod session;
mod statements;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::anyhow;

use self::connection::Connection;
use self::session::MsSession;
use self::statements::{Commit, Statements};
use crate::store::*;
use crate::stores::common::keys::KeyForm;
use crate::stores::common::servers::{self, CONNECTION, DELETE, URL};
use crate::wire::mssql::Address;

const KEY: OptionSpec = OptionSpec {
    name: "key",
    values: Values::OneOf(&["digest", "integer"]),
    default: "digest",
    about: "digest: a unique index over char(32); integer: a bigint primary key",
};
/// Microsoft's documentation of `.WRITE`: best in multiples of 8,040 bytes, which are what a page holds.
const WRITE: OptionSpec = OptionSpec {
    name: "write",
    values: Values::OneOf(&["whole", "8040", "80400", "1045200", "8040000"]),
    default: "whole",
    about: "whole: one parameter for a blob; a number: pieces of so many bytes, appended by .WRITE in one transaction",
};
const ROWS: OptionSpec = OptionSpec {
    name: "rows",
    values: Values::OneOf(&["inline", "out-of-row"]),
    default: "inline",
    about: "inline: blobs of up to 8000 B in the row (the vendor's default); out-of-row: never",
};
const ISOLATION: OptionSpec = OptionSpec {
    name: "isolation",
    values: Values::OneOf(&["read-committed", "repeatable-read", "serializable"]),
    default: "read-committed",
    about: "isolation of every transaction",
};

pub(in crate::stores) const VARBINARY: Adapter = Adapter {
    name: "mssql/varbinary",
    about: "SQL Server: the blob in a varbinary(max) column",
    kind: Kind::Server,
    programs: &[],
    options: &[WRITE, ROWS, KEY, CONNECTION, DELETE, ISOLATION, URL],
    caps: |options| Caps {
        list: KeyForm::of(options) == KeyForm::Digest,
        streams: false,
        catalogue: false,
        one_transaction: None,
        blob_bytes_max: Some(BLOB_LIMIT),
        totals: false,
        backup: Backup::None("a server given by URL is not ours to back up, and this one is never another"),
        ..Caps::ALL
    },
    loss,
    integrity: |_, _| INTEGRITY,
    traits: servers::traits,
    memory: |_| Split::NO_CACHE,
    needs: Needs::NOTHING,
    open,
};

const BLOB_LIMIT: Limit = Limit { bytes: (1 << 31) - 1, source: "varbinary(max) is at most 2^31-1 bytes" };

/// Microsoft's documentation of PAGE_VERIFY: with CHECKSUM, its default, a page whose checksum is wrong when it is read is error
/// 824.
const INTEGRITY: Integrity = Integrity::AsSet {
    fact: "page_verify",
    checked: &["CHECKSUM"],
    unchecked: &["NONE", "TORN_PAGE_DETECTION"],
};

/// Microsoft's documentation of delayed durability: a commit returns before its log is on disk, and "if a catastrophic event,
/// like a server crash, occurs, you will lose the data for all committed transactions that haven't been saved to disk". It is
/// read back whether the database allows that; where it does not, less is lost than is said here.
fn loss(_: &Options, durability: Durability) -> Losses {
    let loss = match durability {
        Durability::None | Durability::OnSync => Loss::RecentWrites,
        Durability::EachWrite => Loss::Nothing,
    };
    Losses { after_kill: loss, after_power_cut: loss }
}

struct MsSql {
    address: Address,
    op_timeout: Duration,
    isolation: String,
    statements: Statements,
    /// Bytes of a piece, where blobs are written in pieces and the server lets us.
    piece: Option<usize>,
    write: &'static str,
    key_form: KeyForm,
    durability: Durability,
    schema: String,
    /// Connected for as long as the store is open: sets up, settles, reads facts.
    keeper: Mutex<Connection>,
}

/// How long the keeper's statements may take.
const KEEPER_PATIENCE: Duration = Duration::from_secs(600);

fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let url = setup.options.text("url");
    if url.is_empty() {
        return Err(Error::Failed(anyhow!("there is no server to start: give the URL of one of yours")));
    }
    let address = Address::of(url)?;
    let isolation = setup.options.text("isolation").replace('-', " ").to_uppercase();
    let mut keeper = Connection::open(&address, &isolation, KEEPER_PATIENCE)?;
    place::check_version(&mut keeper)?;
    let commit = Commit::of(setup.durability, place::delayed_durability(&mut keeper)?.as_deref())?;
    let schema = match setup.mode {
        Mode::Create => place::create_schema(&mut keeper, setup.dir)?,
        Mode::Open => place::find_schema(&mut keeper, setup.dir)?,
    };
    let key_form = KeyForm::of(setup.options);
    let lazy_delete = setup.options.text("delete") == "lazy";
    let statements = Statements { schema: schema.clone(), key_form, lazy_delete, commit };
    if setup.mode == Mode::Create {
        let out_of_row = setup.options.text("rows") == "out-of-row";
        for statement in statements.tables(out_of_row) {
            keeper.batch(&statement)?;
        }
    }
    let wanted = setup.options.text("write").parse::<usize>().ok();
    let (piece, write) = match wanted {
        None => (None, "whole values"),
        Some(piece) if place::writes_pieces(&mut keeper, &statements)? => (Some(piece), "pieces by .WRITE"),
        Some(_) => (None, "whole values, because the server refuses .WRITE"),
    };
    Ok(Box::new(MsSql {
        address,
        op_timeout: setup.op_timeout,
        isolation,
        statements,
        piece,
        write,
        key_form,
        durability: setup.durability,
        schema,
        keeper: Mutex::new(keeper),
    }))
}

impl MsSql {
    fn keeper(&self) -> MutexGuard<'_, Connection> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MsSql {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(MsSession::open(self)?))
    }

    fn facts(&self) -> Result<Facts> {
        let mut keeper = self.keeper();
        let mut facts = Facts::new();
        for (name, sql) in statements::FACTS {
            let value = keeper.text(sql)?;
            facts.extend(value.filter(|value| !value.is_empty()).map(|value| ((*name).to_owned(), value)));
        }
        facts.insert("server".into(), "given by URL".into());
        facts.insert("write".into(), self.write.to_owned());
        facts.insert("commit".into(), self.statements.commit.name().to_owned());
        Ok(facts)
    }

    fn purge(&self) -> Result<()> {
        self.keeper().execute(&self.statements.purge(), &[]).map(drop)
    }

    fn footprint_bytes(&self) -> Result<Option<u64>> {
        place::size_bytes(&mut self.keeper(), &self.schema).map(Some)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }

    fn remove(self: Box<Self>) -> Result<()> {
        let schema = self.schema.clone();
        place::remove_schemas(vec![schema], |schema| place::drop_schema(&mut self.keeper(), schema))
    }
}
