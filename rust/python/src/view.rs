//! Who looks at a database: its writer, or a reader at an isolation level.

use crate::run::{Owner, let_go};
use holdfast_core::{
    Database, Error, ErrorKind, Offset, OffsetChange, Position, Result, TopicPartition, Transaction,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An open database, and what its writer must know between two calls.
pub struct OpenDatabase {
    db: Arc<Database>,
    owner: Owner,
    closed: AtomicBool,
    asked: Mutex<Asked>,
}

/// What a program has written between two questions whether to commit: one record, or one batch,
/// with all the writes that it makes.
#[derive(Default)]
struct Asked {
    /// Bytes that the transaction had when the question was last put.
    bytes: usize,
    /// By how much it had grown since the one before.
    growth: usize,
}

impl OpenDatabase {
    /// A database that this process has opened.
    pub fn new(db: Arc<Database>) -> Self {
        Self {
            db,
            owner: Owner::current(),
            closed: AtomicBool::new(false),
            asked: Mutex::default(),
        }
    }

    /// The engine's database.
    pub fn db(&self) -> &Arc<Database> {
        &self.db
    }

    /// The process that opened it.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Whether `close` has not been called.
    pub fn is_open(&self) -> bool {
        !self.closed.load(Ordering::SeqCst)
    }

    /// Drops the open transaction, writes the last commit to files and closes.
    pub fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::SeqCst);
        self.db.close()
    }

    /// Staging needs no database, so a closed database would take writes that nobody will ever
    /// commit.
    pub fn check_open(&self) -> Result<()> {
        if self.is_open() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::StoreClosed,
            "the store is closed; open the database again",
        )
        .path(self.db.path()))
    }

    /// Notes the input record that the following writes come from.
    pub fn observe(&self, tp: TopicPartition, offset: Offset) -> Result<()> {
        self.check_open()?;
        self.db.transaction()?.observe(tp, offset)
    }

    /// Fails where a commit would before it begins.
    pub fn check_commit(&self, offsets: &OffsetChange) -> Result<()> {
        self.check_open()?;
        self.db.check_commit(offsets)
    }

    /// Commits the open transaction.
    pub fn commit(&self, offsets: OffsetChange) -> Result<()> {
        self.check_open()?;
        self.db.commit(offsets)?;
        self.begins_anew();
        Ok(())
    }

    /// Drops the open transaction.
    pub fn rollback(&self) -> Result<()> {
        self.db.rollback()?;
        self.begins_anew();
        Ok(())
    }

    /// Drops the open transaction, ends a commit that was interrupted, and returns the offsets that
    /// the state stands at.
    pub fn recover(&self) -> Result<Vec<(TopicPartition, Offset)>> {
        let offsets = self.db.recover()?;
        self.begins_anew();
        Ok(offsets)
    }

    fn begins_anew(&self) {
        *self.asked.lock() = Asked::default();
    }

    /// Whether the limit was reached since the last commit, or as much again as came since the last
    /// call would reach it.
    pub fn commit_requested(&self) -> bool {
        let bytes = self.db.peak_bytes();
        let Ok(limit) = usize::try_from(self.db.uncommitted_max_bytes()) else {
            return false;
        };
        let mut asked = self.asked.lock();
        if bytes > asked.bytes {
            *asked = Asked {
                bytes,
                growth: bytes - asked.bytes,
            };
        }
        bytes > 0 && bytes.saturating_add(asked.growth) >= limit
    }
}

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        // Nobody has closed it, and this is Python's last reference.
        if self.is_open() {
            let_go(|| self.db.stop());
        }
    }
}

/// Whose eyes a store is read with.
#[derive(Clone)]
pub struct View {
    db: Arc<OpenDatabase>,
    level: Level,
    /// Queries of the named store are answered only from here on.
    bound: Option<Arc<(String, Position)>>,
}

/// Input offsets by topic and partition.
pub type Offsets = Vec<(String, i32, i64)>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Writer,
    Committed,
    Uncommitted,
}

impl View {
    /// The writer's: reads see the open transaction, and writes are allowed.
    pub fn writer(db: Arc<OpenDatabase>) -> Self {
        Self {
            db,
            level: Level::Writer,
            bound: None,
        }
    }

    /// A reader's, of a store, at an isolation level by its name, answering once the store's input
    /// position has reached the bound.
    pub fn reader(&self, level: &str, store: &str, bound: Option<Offsets>) -> Result<Self> {
        let offset =
            |(topic, partition, offset)| (TopicPartition { topic, partition }, Offset(offset));
        let bound = bound
            .map(|offsets| Arc::new((store.to_owned(), offsets.into_iter().map(offset).collect())));
        Ok(Self {
            bound,
            ..self.at_level(level)?
        })
    }

    /// A reader's of the whole database, at an isolation level by its name.
    pub fn at_level(&self, level: &str) -> Result<Self> {
        self.db.check_open()?;
        let level = match level {
            "read_committed" => Level::Committed,
            "read_uncommitted" => Level::Uncommitted,
            other => {
                return Err(Error::new(
                    ErrorKind::InvalidValue,
                    format!("there is no isolation level {other:?}"),
                ));
            }
        };
        if level == Level::Uncommitted {
            self.db.db.expect_uncommitted_readers();
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
        let Some((tp, reached, wanted)) = tx.position().behind(bound) else {
            if bound.is_empty() || !self.db.db.is_lost(store, tx)? {
                return Ok(());
            }
            let words = "the store has lost what it had, was added later, or was left out while \
                         others went on, so it is not what the state was at that position; \
                         restore it from its changelog, with no rows if it is to begin empty";
            return Err(Error::new(ErrorKind::NotUpToBound, words)
                .store(store)
                .path(self.db.db.path()));
        };
        let reached = reached.map_or_else(|| "nothing".to_owned(), |offset| offset.0.to_string());
        let words = format!(
            "the state has read {reached} of {} partition {}, and the query asks for {} at least; \
             ask again later, or with a lower bound",
            tp.topic, tp.partition, wanted.0
        );
        Err(Error::new(ErrorKind::NotUpToBound, words).path(self.db.db.path()))
    }

    /// The process that opened the database.
    pub fn owner(&self) -> Owner {
        self.db.owner
    }

    /// What it is a view of.
    pub fn db(&self) -> Arc<OpenDatabase> {
        Arc::clone(&self.db)
    }

    /// Reads one record, or opens a scan. A reader of its own takes a view in the time that copying
    /// a few pointers takes, then goes its own way.
    pub fn read<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        self.db.check_open()?;
        match self.level {
            Level::Writer => work(&mut *self.db.db.transaction()?),
            Level::Committed | Level::Uncommitted => work(&mut self.reader_view()?),
        }
    }

    /// Reads many records.
    pub fn read_batch<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        self.db.check_open()?;
        match self.level {
            Level::Writer => work(&mut *self.db.db.long_call()?),
            Level::Committed | Level::Uncommitted => work(&mut self.reader_view()?),
        }
    }

    fn reader_view(&self) -> Result<Transaction> {
        let db = &self.db.db;
        let view = if self.level == Level::Uncommitted {
            db.read_uncommitted()?
        } else {
            db.begin()?
        };
        self.check_bound(&view)?;
        Ok(view)
    }

    /// Writes one record, which only the writer's view can; `work` is one unit.
    pub fn write<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        self.check_writer()?;
        self.db.db.write(work)
    }

    /// Writes many records; `work` is one unit.
    pub fn write_batch<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        self.check_writer()?;
        self.db.db.write_batch(work)
    }

    fn check_writer(&self) -> Result<()> {
        match self.level {
            Level::Writer => self.db.check_open(),
            Level::Committed | Level::Uncommitted => Err(Error::new(
                ErrorKind::UnsupportedOperation,
                "this is a read-only view; write through the database's own store",
            )),
        }
    }
}
