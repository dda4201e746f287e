//! An open store of SQL Server: its schema and facts.

use std::sync::Mutex;
use std::time::Duration;

use super::connection::MsSqlConnection;
use super::place;
use super::session::MsSqlSession;
use super::statements::{self, Commit, MsSqlStatements};
use crate::store::*;
use crate::stores::common::keys::KeyForm;
use crate::stores::common::lock;
use crate::stores::common::servers::{self, own_name};
use crate::wire::mssql::MsSqlAddress;

pub(super) struct MsSql {
    pub(super) address: MsSqlAddress,
    pub(super) op_timeout: Duration,
    pub(super) isolation: String,
    pub(super) statements: MsSqlStatements,
    /// Piece size in bytes; `None` if blobs are written whole or the server refuses appends.
    pub(super) piece: Option<usize>,
    pub(super) write: &'static str,
    pub(super) key_form: KeyForm,
    pub(super) durability: Durability,
    pub(super) schema: String,
    /// Admin connection, open as long as the store: sets up, settles, reads facts.
    pub(super) admin: Mutex<MsSqlConnection>,
}

/// Timeout of admin statements.
const KEEPER_PATIENCE: Duration = Duration::from_secs(600);

pub(super) fn open(setup: &Setup) -> Result<Box<dyn Store>> {
    let url = setup.options.text("url");
    ensure!(!url.is_empty(), "there is no server to start: give the URL of one of yours");
    let address = MsSqlAddress::from_url(url)?;
    let isolation = setup.options.text("isolation").replace('-', " ").to_uppercase();
    let mut admin = MsSqlConnection::open(&address, &isolation, KEEPER_PATIENCE)?;
    place::check_version(&mut admin)?;
    place::check_database(&mut admin)?;
    if setup.mode == Mode::Create {
        place::check_rights(&mut admin)?;
    }
    let commit = Commit::for_class(setup.durability, place::delayed_durability(&mut admin)?.as_deref())?;
    let schema = match setup.mode {
        Mode::Create => own_name(),
        Mode::Open => place::find_schema(&mut admin, setup.dir)?,
    };
    let key_form = KeyForm::from_options(setup.options);
    let lazy_delete = setup.options.text("delete") == "lazy";
    let statements = MsSqlStatements { schema: schema.clone(), key_form, lazy_delete, commit };
    if setup.mode == Mode::Create {
        let out_of_row = setup.options.text("rows") == "out-of-row";
        place::create_schema(&mut admin, setup.dir, &schema, &statements.tables(out_of_row))?;
    }
    let mut store = Box::new(MsSql {
        address,
        op_timeout: setup.op_timeout,
        isolation,
        statements,
        piece: None,
        write: "whole values",
        key_form,
        durability: setup.durability,
        schema,
        admin: Mutex::new(admin),
    });
    let Some(piece) = setup.options.text("write").parse::<usize>().ok() else { return Ok(store) };
    let outcome = store.writes_pieces().map(|writes_pieces| match writes_pieces {
        true => (store.piece, store.write) = (Some(piece), "pieces by .WRITE"),
        false => store.write = "whole values, because the server refuses .WRITE",
    });
    let made = (setup.mode == Mode::Create).then(|| format!("the schema {}", store.schema));
    servers::set_up(store, outcome, made)
}

impl MsSql {
    fn writes_pieces(&self) -> Result<bool> {
        place::writes_pieces(&mut lock(&self.admin), &self.statements)
    }
}

impl Store for MsSql {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(MsSqlSession::open(self)?))
    }

    fn facts(&self) -> Result<Facts> {
        let mut admin = lock(&self.admin);
        let mut facts = Facts::new();
        for (name, sql) in statements::FACTS {
            let value = admin.text(sql)?;
            facts.extend(value.filter(|value| !value.is_empty()).map(|value| ((*name).to_owned(), value)));
        }
        facts.insert("server".into(), servers::whose(false).into());
        facts.insert("write".into(), self.write.to_owned());
        facts.insert("commit".into(), self.statements.commit.name().to_owned());
        Ok(facts)
    }

    fn purge(&self) -> Result<()> {
        lock(&self.admin).execute(&self.statements.purge(), &[]).map(drop)
    }

    fn footprint_bytes(&self) -> Result<Option<u64>> {
        place::size_bytes(&mut lock(&self.admin), &self.schema).map(Some)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }

    fn remove(self: Box<Self>) -> Result<()> {
        let schema = self.schema.clone();
        place::remove_schemas(vec![schema], |schema| {
            let mut admin = lock(&self.admin);
            let dropped = place::drop_schema(&mut admin, schema);
            if dropped.is_ok() || admin.text(statements::DATABASE).is_ok() {
                return dropped;
            }
            // The server has ended the connection, as it does when it restarts.
            *admin = MsSqlConnection::open(&self.address, &self.isolation, KEEPER_PATIENCE)?;
            place::drop_schema(&mut admin, schema)
        })
    }
}
