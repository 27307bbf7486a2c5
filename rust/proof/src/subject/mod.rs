//! The kinds of store under proof: each with its model.

mod history;
mod key_value;
mod session;
mod timestamped;
mod versioned;
mod window;

use crate::world::{Fault, Outcome};
use fastrand::Rng;
pub use history::{History, VersionRow};
use holdfast_core::{Database, StoreKind, StoreSpec, Transaction};
use key_value::KeyValue;
use session::Session;
use std::collections::BTreeMap;
use timestamped::TimestampedKeyValue;
use versioned::Versioned;
use window::Window;

/// A database and a transaction of it.
pub struct Open<'a> {
    /// The database.
    pub db: &'a Database,
    /// One of its transactions.
    pub tx: &'a mut Transaction,
}

/// Where a store's rows are, and so what a stop leaves of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// In files, with transactions: those of some commit, whatever happens.
    Transactional,
    /// In files, written without transactions: all after a clean close, nothing after any other
    /// stop.
    Direct,
    /// In memory: nothing.
    Memory,
}

/// A store under proof.
pub struct Store {
    /// What a stop leaves of it.
    pub keeping: Keeping,
    /// Its kind and its model.
    pub subject: Box<dyn Subject>,
}

impl Store {
    fn new(keeping: Keeping, subject: impl Subject + 'static) -> Self {
        Self {
            keeping,
            subject: Box::new(subject),
        }
    }

    /// The store.
    pub fn spec(&self) -> StoreSpec {
        let (persistent, transactional) = (
            self.keeping != Keeping::Memory,
            self.keeping != Keeping::Direct,
        );
        StoreSpec {
            persistent,
            transactional,
            ..self.subject.spec()
        }
    }

    /// The same store again.
    pub fn copy(&self) -> Self {
        Self {
            keeping: self.keeping,
            subject: self.subject.copy(),
        }
    }
}

/// A kind of store and what it must hold.
pub trait Subject: Send {
    /// Name and kind.
    fn spec(&self) -> StoreSpec;

    /// Draws one write of transaction `n`, does it to the model, and where there is a transaction
    /// to that too; what the store answers must be what the model does. The same draws are made
    /// with and without.
    fn write(&mut self, rng: &mut Rng, n: u64, open: Option<&mut Open<'_>>) -> Outcome;

    /// Draws one read and compares the answer.
    fn read(&self, rng: &mut Rng, open: &mut Open<'_>) -> Outcome;

    /// Compares everything that the store holds.
    fn check(&self, open: &mut Open<'_>) -> Outcome;

    /// A copy of the model.
    fn copy(&self) -> Box<dyn Subject>;
}

/// Every kind in files, and of those in memory and without transactions some of each sort.
pub fn all() -> Vec<Store> {
    vec![
        Store::new(Keeping::Transactional, KeyValue::new("plain")),
        Store::new(Keeping::Transactional, Versioned::new("versions")),
        Store::new(Keeping::Transactional, TimestampedKeyValue::new("stamped")),
        Store::new(Keeping::Transactional, Window::new("windows", false)),
        Store::new(Keeping::Transactional, Window::new("duplicates", true)),
        Store::new(Keeping::Transactional, Session::new("sessions")),
        Store::new(Keeping::Memory, KeyValue::new("plain-in-memory")),
        Store::new(Keeping::Memory, Versioned::new("versions-in-memory")),
        Store::new(Keeping::Memory, Window::new("duplicates-in-memory", true)),
        Store::new(Keeping::Direct, KeyValue::new("plain-direct")),
        Store::new(Keeping::Direct, Versioned::new("versions-direct")),
        Store::new(Keeping::Direct, Session::new("sessions-direct")),
    ]
}

/// A store of a kind with everything else as usual.
pub fn spec(name: &str, kind: StoreKind) -> StoreSpec {
    StoreSpec::new(name, kind)
}

/// Compares an answer with the model's.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(
    what: impl FnOnce() -> String,
    store: &T,
    model: &T,
) -> Outcome {
    if store == model {
        Ok(())
    } else {
        Err(Fault::wrong(what(), store, model))
    }
}

/// A key of a family of keys that are prefixes of one another and hold zeros: those that a careless
/// layout mixes up.
fn key(number: u64) -> Vec<u8> {
    let mut key = format!("{:03}", number % 89).into_bytes();
    match number % 7 {
        0 => key.push(0),
        1 => key.extend_from_slice(&[0, 0xff, 0]),
        2 => key.extend_from_slice(&number.to_be_bytes()),
        3 => key.truncate((number % 3) as usize),
        _ => {}
    }
    key
}

/// Two ends of a range of neighbouring keys, now and then open ones.
fn range(rng: &mut Rng, key: &[u8]) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let to = [key, &[rng.u8(..)]].concat();
    match rng.u8(..16) {
        0 => (None, Some(key[..key.len().min(1)].to_vec())),
        1 if key > b"08".as_slice() => (Some(key.to_vec()), None),
        _ => (Some(key[..key.len().min(2)].to_vec()), Some(to)),
    }
}

/// Removes the keys between two ends, both included.
fn remove_range<V>(rows: &mut BTreeMap<Vec<u8>, V>, from: &Option<Vec<u8>>, to: &Option<Vec<u8>>) {
    rows.retain(|key, _| {
        from.as_ref().is_some_and(|from| key < from) || to.as_ref().is_some_and(|to| key > to)
    });
}

/// A value that names its transaction; now and then empty, now and then large.
fn value(rng: &mut Rng, n: u64) -> Vec<u8> {
    let mut value = n.to_be_bytes().to_vec();
    let length = match rng.u8(..16) {
        0 => 0,
        1 => rng.usize(500..4_000),
        _ => rng.usize(8..120),
    };
    value.resize(length, rng.u8(..));
    value
}
