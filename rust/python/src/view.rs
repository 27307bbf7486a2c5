//! The views of a database that the writer and its readers use.

use crate::open_database::OpenDatabase;
use holdfast_core::{
    Error, ErrorKind, Offset, Position, Process, Result, TopicPartition, Transaction,
};
use std::sync::Arc;

/// How a store is read and written: by the writer, or by a reader at an isolation level.
#[derive(Clone)]
pub struct View {
    db: Arc<OpenDatabase>,
    level: ViewLevel,
    /// A store, and the input position of the database below which the store's queries fail.
    bound: Option<Arc<(String, Position)>>,
}

/// Input offsets: topic, partition, offset.
pub type InputOffsets = Vec<(String, i32, i64)>;

/// Converts offsets from Python.
pub fn from_python(offsets: InputOffsets) -> impl Iterator<Item = (TopicPartition, Offset)> {
    offsets
        .into_iter()
        .map(|(topic, partition, offset)| (TopicPartition { topic, partition }, Offset(offset)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ViewLevel {
    Writer,
    Committed,
    Uncommitted,
}

impl View {
    /// Returns the writer's view: reads see the open transaction, and writes are allowed.
    pub fn writer(db: Arc<OpenDatabase>) -> Self {
        Self {
            db,
            level: ViewLevel::Writer,
            bound: None,
        }
    }

    /// Returns a reader's view of a store at a named isolation level. With a bound, reads fail
    /// while the database's input position is behind it, or if the store has lost its data.
    pub fn reader(&self, level: &str, store: &str, bound: Option<InputOffsets>) -> Result<Self> {
        let bound =
            bound.map(|offsets| Arc::new((store.to_owned(), from_python(offsets).collect())));
        Ok(Self {
            bound,
            ..self.at_level(level)?
        })
    }

    /// Returns a reader's view of the whole database at a named isolation level.
    pub fn at_level(&self, level: &str) -> Result<Self> {
        self.db.check_open()?;
        let level = match level {
            "read_committed" => ViewLevel::Committed,
            "read_uncommitted" => ViewLevel::Uncommitted,
            other => {
                return Err(Error::new(
                    ErrorKind::InvalidValue,
                    format!("there is no isolation level {other:?}"),
                ));
            }
        };
        if level == ViewLevel::Uncommitted {
            self.db.db().expect_uncommitted_readers();
        }
        Ok(Self {
            db: Arc::clone(&self.db),
            level,
            bound: None,
        })
    }

    fn check_bound(&self, tx: &Transaction) -> Result<()> {
        let Some((store, bound)) = self.bound.as_deref() else {
            return Ok(());
        };
        let Some((tp, position, wanted)) = tx.position().behind(bound) else {
            if bound.is_empty() || !self.db.db().is_lost(store, tx)? {
                return Ok(());
            }
            let message = "the store has lost its data, was added later, or was not opened while \
                         the database read more input, so it lacks input that the query asks for; \
                         restore it from its changelog, or with no rows if it is to begin empty";
            return Err(Error::new(ErrorKind::NotUpToBound, message)
                .store(store)
                .path(self.db.db().path()));
        };
        let position = position.map_or_else(|| "nothing".to_owned(), |offset| offset.0.to_string());
        let message = format!(
            "the state has read {position} of {} partition {}, and the query asks for {} at least; \
             ask again later, or with a lower bound",
            tp.topic, tp.partition, wanted.0
        );
        Err(Error::new(ErrorKind::NotUpToBound, message).path(self.db.db().path()))
    }

    /// Returns the process that opened the database.
    pub fn process(&self) -> Process {
        self.db.process()
    }

    /// Returns the database.
    pub fn db(&self) -> Arc<OpenDatabase> {
        Arc::clone(&self.db)
    }

    /// Reads one record, or opens a scan.
    ///
    /// The writer's view locks the open transaction meanwhile. A reader's view copies a few
    /// pointers and holds no lock.
    pub fn read<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        self.db.check_open()?;
        match self.level {
            ViewLevel::Writer => work(&mut *self.db.db().transaction()?),
            ViewLevel::Committed | ViewLevel::Uncommitted => work(&mut self.reader_view()?),
        }
    }

    /// Reads many records.
    pub fn read_batch<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        self.db.check_open()?;
        match self.level {
            ViewLevel::Writer => work(&mut *self.db.db().long_call()?),
            ViewLevel::Committed | ViewLevel::Uncommitted => work(&mut self.reader_view()?),
        }
    }

    fn reader_view(&self) -> Result<Transaction> {
        let db = self.db.db();
        let view = if self.level == ViewLevel::Uncommitted {
            db.read_uncommitted()?
        } else {
            db.begin()?
        };
        self.check_bound(&view)?;
        Ok(view)
    }

    /// Writes one record as one unit; fails unless this is the writer's view.
    pub fn write<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        self.check_writer()?;
        self.db.db().write(work)
    }

    /// Writes many records as one unit; fails unless this is the writer's view.
    pub fn write_batch<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        self.check_writer()?;
        self.db.db().write_batch(work)
    }

    fn check_writer(&self) -> Result<()> {
        match self.level {
            ViewLevel::Writer => self.db.check_open(),
            ViewLevel::Committed | ViewLevel::Uncommitted => Err(Error::new(
                ErrorKind::UnsupportedOperation,
                "this is a read-only view; write through the database's own store",
            )),
        }
    }
}
