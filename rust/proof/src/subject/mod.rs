//! The kinds of store under proof: each with its model.

mod contract;
mod draw;
mod history;
mod key_value;
mod session;
mod timestamped;
mod versioned;
mod window;

pub(crate) use contract::same;
pub use contract::{OpenTransaction, Subject};
pub use history::{History, VersionRow};
use holdfast_core::StoreSpec;
use key_value::KeyValue;
use session::Session;
use timestamped::TimestampedKeyValue;
use versioned::Versioned;
use window::Window;

/// How a store is written, which decides what a stop leaves of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// To files, with transactions: a stop leaves the rows of a commit.
    Transactional,
    /// To files, without transactions: a clean close leaves all rows. Under exactly-once, any other
    /// stop leaves none.
    Direct,
    /// To memory: a stop leaves nothing.
    Memory,
}

/// A store under proof.
pub struct Store {
    /// How the store is written.
    pub mode: WriteMode,
    /// The store's kind and its model.
    pub subject: Box<dyn Subject>,
}

impl Store {
    fn new(mode: WriteMode, subject: impl Subject + 'static) -> Self {
        Self {
            mode,
            subject: Box::new(subject),
        }
    }

    /// Returns the specification of the store.
    pub fn spec(&self) -> StoreSpec {
        let (persistent, transactional) = (
            self.mode != WriteMode::Memory,
            self.mode != WriteMode::Direct,
        );
        StoreSpec {
            persistent,
            transactional,
            ..self.subject.spec()
        }
    }

    /// Returns a copy of the store's model.
    pub fn copy(&self) -> Self {
        Self {
            mode: self.mode,
            subject: self.subject.copy(),
        }
    }
}

/// Returns the stores under proof: every kind in files, and some kinds in memory and without
/// transactions.
pub fn all() -> Vec<Store> {
    vec![
        Store::new(WriteMode::Transactional, KeyValue::new("plain")),
        Store::new(WriteMode::Transactional, Versioned::new("versions")),
        Store::new(
            WriteMode::Transactional,
            TimestampedKeyValue::new("stamped"),
        ),
        Store::new(WriteMode::Transactional, Window::new("windows", false)),
        Store::new(WriteMode::Transactional, Window::new("duplicates", true)),
        Store::new(WriteMode::Transactional, Session::new("sessions")),
        Store::new(WriteMode::Memory, KeyValue::new("plain-in-memory")),
        Store::new(WriteMode::Memory, Versioned::new("versions-in-memory")),
        Store::new(WriteMode::Memory, Window::new("duplicates-in-memory", true)),
        Store::new(WriteMode::Direct, KeyValue::new("plain-direct")),
        Store::new(WriteMode::Direct, Versioned::new("versions-direct")),
        Store::new(WriteMode::Direct, Session::new("sessions-direct")),
    ]
}
