//! The subject of checks: a store with its options in one durability class.

use crate::plan::{Candidate, defaults};
use crate::store::{
    Adapter, Capabilities, ClientSupport, ConnectionUse, Durability, Losses, Options, Setup, Store, Traits,
};
use crate::{store, stores};

/// Opens a subject's store.
pub type OpenSubject = fn(&Subject, &Setup) -> store::Result<Box<dyn Store>>;

/// A store with its options in one durability class.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Name, such as `sqlite/each-write` or `sqlite[page_size=512]/on-sync`.
    pub name: String,
    /// Adapter of the store.
    pub adapter: &'static Adapter,
    /// Every option of the adapter.
    pub options: Options,
    /// Durability class.
    pub durability: Durability,
    /// True if it gets every check. Tests leave some out for stores that differ from another subject in one option.
    pub plain: bool,
    /// True if the same is checked in a stronger class, too.
    pub is_weaker: bool,
    /// True if its server is not the adapter's own, so that no process of it can be seen.
    pub is_outside: bool,
    /// True if an op takes some 10 ms of processor time.
    pub is_slow: bool,
    /// How its store is opened: by its adapter, unless a test has to prepare a server.
    pub open: OpenSubject,
}

impl Subject {
    /// A candidate in one of its classes, for every check.
    pub fn new(candidate: &Candidate, durability: Durability) -> Subject {
        Subject {
            name: format!("{}/{}", candidate.label, durability.name()),
            adapter: candidate.adapter,
            options: candidate.options.clone(),
            durability,
            plain: true,
            is_weaker: false,
            is_outside: candidate.traits().is_external,
            is_slow: false,
            open: |subject, setup| (subject.adapter.open)(setup),
        }
    }

    /// Its capabilities.
    pub fn caps(&self) -> Capabilities {
        (self.adapter.caps)(&self.options)
    }

    /// What it declares to lose in its class.
    pub fn loss(&self) -> Losses {
        (self.adapter.loss)(&self.options, self.durability)
    }

    /// Its traits.
    pub fn traits(&self) -> Traits {
        (self.adapter.traits)(&self.options)
    }

    /// True if the store is served by a process.
    pub fn is_server(&self) -> bool {
        is_server(self.adapter)
    }

    /// True if other processes may open sessions with it. `None` if each would have a store of its own, or if its options do not
    /// affect this.
    pub fn invites(&self) -> Option<bool> {
        let clients = self.caps().clients;
        if !self.plain && clients == (self.adapter.caps)(&defaults(self.adapter)).clients {
            return None;
        }
        match clients {
            ClientSupport::Each => None,
            ClientSupport::One(_) => Some(false),
            ClientSupport::ServerBut(durability, _) => {
                Some(durability != self.durability).filter(|invites| *invites)
            }
            ClientSupport::Server | ClientSupport::Directory => Some(true),
        }
    }

    /// True if checks make fewer ops with it, because each takes milliseconds of processor time, as does a new connection to
    /// PostgreSQL.
    pub fn gets_few_ops(&self) -> bool {
        self.is_slow || self.connects_each_op()
    }

    /// True if it differs from a plain server in an option. Each op takes one or more round trips, and the plain one gets more.
    pub fn is_a_server_with_an_option(&self) -> bool {
        self.is_server() && !self.plain
    }

    /// True if every op makes a new connection, which is up to the caller.
    pub fn connects_each_op(&self) -> bool {
        self.traits().connects == ConnectionUse::EachOp
    }

    /// True if its adapter has an option of this name.
    pub fn has_option(&self, name: &str) -> bool {
        self.adapter.options.iter().any(|spec| spec.name == name)
    }

    /// Family of stores that share a server program.
    pub fn family(&self) -> &'static str {
        stores::family(self.adapter.name)
    }
}

/// True if a store is served by a process.
pub fn is_server(adapter: &Adapter) -> bool {
    (adapter.traits)(&defaults(adapter)).has_process
}
