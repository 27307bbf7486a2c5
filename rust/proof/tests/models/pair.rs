//! A store beside its model through all that befalls a store of any kind.

use holdfast_core::{OffsetChange, Task, Transaction};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// What befalls a store of any kind.
#[derive(Clone, Debug)]
pub enum Event {
    Commit,
    Rollback,
    Reopen,
    Compact,
    Views,
}

/// Drawn beside the operations of a kind of store; with a weight of 9 it is as often as each of them has reason to be.
pub fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Commit),
        1 => Just(Event::Rollback),
        1 => Just(Event::Reopen),
        1 => Just(Event::Compact),
        3 => Just(Event::Views),
    ]
}

/// How a store is opened, and what it must hold.
pub trait Subject {
    type Model: Clone;

    /// A task with the store, by the name of "s".
    fn open(&self, dir: &Path) -> Arc<Task>;

    /// What a reopen leaves of what was committed.
    fn kept(&self, committed: &Self::Model) -> Self::Model {
        committed.clone()
    }

    /// Whether a reader sees what the model holds.
    fn check(&self, task: &Task, view: &mut Transaction, model: &Self::Model) -> Result<(), TestCaseError>;
}

pub struct Pair<S: Subject> {
    pub subject: S,
    pub task: Arc<Task>,
    pub open: S::Model,
    pub committed: S::Model,
    /// Readers' views, and what each must show for as long as it lives.
    views: Vec<(Transaction, S::Model)>,
    /// Behind the task: RocksDB waits a second when it finds its files gone.
    dir: TempDir,
}

impl<S: Subject> Pair<S> {
    /// A store in a folder that has what the model has.
    pub fn new(subject: S, dir: TempDir, model: S::Model) -> Self {
        let task = subject.open(dir.path());
        Self { subject, task, open: model.clone(), committed: model, views: Vec::new(), dir }
    }

    pub fn befall(&mut self, event: Event) {
        match event {
            Event::Commit => {
                self.task.commit(OffsetChange::Keep).unwrap();
                self.committed = self.open.clone();
            }
            Event::Rollback => {
                self.task.rollback().unwrap();
                self.open = self.committed.clone();
            }
            Event::Reopen => {
                self.views.clear();
                self.task.close().unwrap();
                self.task = self.subject.open(self.dir.path());
                self.committed = self.subject.kept(&self.committed);
                self.open = self.committed.clone();
            }
            Event::Compact => {
                self.task.flush(true).unwrap();
                self.task.compact("s").unwrap();
            }
            Event::Views => {
                let uncommitted = self.task.read_uncommitted().unwrap();
                self.views.push((uncommitted, self.open.clone()));
                self.views.push((self.task.begin().unwrap(), self.committed.clone()));
            }
        }
    }

    pub fn check_views(&mut self) -> Result<(), TestCaseError> {
        for (view, model) in &mut self.views {
            self.subject.check(&self.task, view, model)?;
        }
        Ok(())
    }
}

/// Every spill syncs files; memory makes that cheap.
pub fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// One of six keys: prefixes of one another, and zero bytes, which a careless layout mixes up.
pub fn key(n: u8) -> Vec<u8> {
    [&b""[..], b"a", b"a\0", b"a\0\x01", b"ab", b"a\xff"][n as usize].to_vec()
}
