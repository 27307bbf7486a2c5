//! The kinds of store under proof: each with its model.

mod key_value;
mod session;
mod timestamped;
mod versioned;
mod window;

use crate::world::{Fault, Outcome};
use fastrand::Rng;
use holdfast_core::{StoreKind, StoreSpec, Task, Transaction};

/// A task and a transaction of it.
pub struct Open<'a> {
    /// The task.
    pub task: &'a Task,
    /// One of its transactions.
    pub tx: &'a mut Transaction,
}

/// A store and what it must hold.
pub trait Subject: Send {
    /// The store.
    fn spec(&self) -> StoreSpec;

    /// Draws one write of transaction `n`, does it to the model, and where there is a transaction to that too; what the store
    /// answers must be what the model does. The same draws are made with and without.
    fn write(&mut self, rng: &mut Rng, n: u64, open: Option<&mut Open<'_>>) -> Outcome;

    /// Draws one read and compares the answer.
    fn read(&self, rng: &mut Rng, open: &mut Open<'_>) -> Outcome;

    /// Compares everything that the store holds.
    fn check(&self, open: &mut Open<'_>) -> Outcome;

    /// A copy of the model.
    fn copy(&self) -> Box<dyn Subject>;
}

/// Every kind.
pub fn all() -> Vec<Box<dyn Subject>> {
    vec![
        Box::new(key_value::KeyValue::default()),
        Box::new(versioned::Versioned::default()),
        Box::new(timestamped::TimestampedKeyValue::default()),
        Box::new(window::Window::new(false)),
        Box::new(window::Window::new(true)),
        Box::new(session::Session::default()),
    ]
}

/// A store of a kind with everything else as usual.
pub fn spec(name: &str, kind: StoreKind) -> StoreSpec {
    StoreSpec::new(name, kind)
}

/// Compares an answer with the model's.
fn same<T: PartialEq + std::fmt::Debug>(what: impl FnOnce() -> String, store: &T, model: &T) -> Outcome {
    if store == model { Ok(()) } else { Err(Fault::wrong(what(), store, model)) }
}

/// A key of a family of keys that are prefixes of one another and hold zeros: those that a careless layout mixes up.
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
