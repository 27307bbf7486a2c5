//! The open transaction: the state that it reads from, and its staged records.

use super::record_size::{check_row, check_size};
use super::spill::memory_limit::MemoryLimit;
use super::spill::spiller::Spiller;
use super::staged::layer::Layer;
use super::staged::table_buffer::TableBuffer;
use super::store_state::StoreState;
use super::stored::base::Base;
use super::stored::cursor::TableCursor;
use super::table::Table;
use crate::error::{Error, ErrorKind, Result};
use crate::offset::{Offset, TopicPartition};
use crate::position::Position;
use crate::rocks::Batch;
use std::borrow::Cow;
use std::sync::Arc;

/// An open transaction, or (without writes) a reader's view of one.
///
/// It belongs to one thread at a time. It reads its writes over the state at its beginning.
pub struct Transaction {
    pub(super) base: Arc<Base>,
    pub(super) tables: Arc<[Table]>,
    pub(super) buffers: Vec<TableBuffer>,
    pub(crate) stores: Vec<StoreState>,
    /// Two cursors for each table; empty before the first seek. Seeks reuse them: a seek with a new
    /// cursor costs twice as much.
    pub(super) seekers: Vec<[Option<TableCursor>; 2]>,
    /// A buffer for the sort order of a batch read.
    pub(super) read_order: Vec<(u64, u32)>,
    /// Input offsets whose writes are among the staged records.
    observed: Position,
    /// Why the transaction can only be rolled back: only a part of a write is staged.
    poison: Option<Cow<'static, str>>,
    pub(super) memory_limit: MemoryLimit,
    /// Bytes of the keys and values staged since the transaction began, plus `Layer::RECORD_BYTES`
    /// for each record. The deletes that a range delete stages over staged rows are not counted.
    pub(super) staged_bytes: u64,
}

impl Transaction {
    pub(crate) fn new(
        base: Arc<Base>,
        tables: Arc<[Table]>,
        stores: Vec<StoreState>,
        spiller: Option<Arc<Spiller>>,
    ) -> Self {
        let buffers = tables
            .iter()
            .map(|table| TableBuffer::new(table.family_id(), table.suffix()))
            .collect();
        Self {
            buffers,
            stores,
            seekers: Vec::new(),
            read_order: Vec::new(),
            observed: Position::default(),
            poison: None,
            memory_limit: MemoryLimit::new(spiller),
            staged_bytes: 0,
            base,
            tables,
        }
    }

    /// The state below this transaction's staged records.
    pub(crate) fn base(&self) -> &Arc<Base> {
        &self.base
    }

    /// Continues from a newer state of the tables that are written through; all other tables must
    /// be unchanged in it.
    pub(crate) fn rebase(&mut self, base: Arc<Base>) {
        let base = match self.base.spilled() {
            Some(rows) => Base::with_spilled(&base, rows.clone()),
            None => base,
        };
        self.set_base(base);
    }

    /// Replaces the base and closes the cursors over the old one.
    pub(super) fn set_base(&mut self, base: Arc<Base>) {
        self.base = base;
        self.seekers.clear();
    }

    /// Records that a write failed half-way: the transaction can only be rolled back.
    pub(crate) fn poison(&mut self, error: &Error) {
        self.poison = Some(Cow::Owned(error.to_string()));
    }

    /// Fails if the transaction is poisoned.
    pub(crate) fn check_not_poisoned(&self) -> Result<()> {
        match &self.poison {
            None => Ok(()),
            Some(why) => Err(Error::new(
                ErrorKind::InvalidState,
                format!(
                    "a write failed half-way ({why}), so the open transaction cannot be used any \
                     more, and nothing of it was committed; call rollback() and repeat the work, \
                     or open the database again"
                ),
            )),
        }
    }

    /// Runs a write that is one unit. If it panics, or fails with a part of it staged, the
    /// transaction is poisoned.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn as_one<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let staged = self.staged_bytes;
        // This poison remains if `work` panics.
        self.poison = Some(Cow::Borrowed("a bug in Holdfast"));
        let done = work(self);
        match &done {
            Err(error) if self.staged_bytes != staged => self.poison(error),
            // A failed write-through has poisoned the transaction, even if `staged_bytes` is
            // unchanged: a range delete does not change it.
            Err(_) if matches!(self.poison, Some(Cow::Owned(_))) => {}
            _ => self.poison = None,
        }
        done
    }

    /// Returns the same view for another reader. It is repeatable: later writes of this transaction
    /// do not change it.
    pub fn reader(&mut self) -> Self {
        Self {
            base: Arc::clone(&self.base),
            tables: Arc::clone(&self.tables),
            buffers: self.buffers.iter_mut().map(TableBuffer::reader).collect(),
            stores: self.stores.clone(),
            seekers: Vec::new(),
            read_order: Vec::new(),
            observed: self.observed.clone(),
            poison: None,
            memory_limit: MemoryLimit::new(None),
            staged_bytes: 0,
        }
    }

    /// Begins another transaction on the commit on which this one began, with its own memory. It
    /// reads no record of this one, but it begins with the stream times of this one.
    #[must_use]
    pub fn begin_another(&self) -> Self {
        Self::new(
            Arc::clone(self.base.committed()),
            Arc::clone(&self.tables),
            self.stores.clone(),
            self.memory_limit.spiller.clone(),
        )
    }

    /// Records the input offset that writes come from. It is committed and rolled back with them.
    ///
    /// # Errors
    /// `InvalidValue` for a topic with a NUL character in it.
    pub fn observe(&mut self, tp: TopicPartition, offset: Offset) -> Result<()> {
        tp.check()?;
        self.observed.observe(tp, offset);
        Ok(())
    }

    /// The input offsets observed since the last commit.
    pub(crate) fn observed(&self) -> &Position {
        &self.observed
    }

    /// Returns the input position of this view: that of the last commit, and the offsets observed
    /// since.
    pub fn position(&self) -> Position {
        let mut position = self.base.position().clone();
        position.merge(&self.observed);
        position
    }

    /// Returns whether nothing was staged: no record, no input offset and no state of a store.
    pub fn is_empty(&self) -> bool {
        let nothing_staged = self.buffers.iter().all(TableBuffer::is_empty) && !self.has_spilled();
        nothing_staged && self.observed.is_empty() && !self.stores.iter().any(|store| store.changed)
    }

    /// Whether records of a table are staged.
    pub(crate) fn is_staged(&self, table: Table) -> bool {
        !self.buffers[table.number].is_empty()
    }

    /// An upper bound, in bytes, of the memory of all records staged since the transaction began,
    /// without the deletes that range deletes stage over staged rows. It never falls.
    pub(crate) fn staged_bytes(&self) -> u64 {
        self.staged_bytes
    }

    /// Memory that a commit would free, overwritten values included, in bytes.
    pub fn uncommitted_bytes(&self) -> usize {
        self.buffers.iter().map(TableBuffer::bytes).sum()
    }

    /// Memory that a commit would free for one table, in bytes.
    pub(crate) fn table_bytes(&self, table: Table) -> usize {
        self.buffers[table.number].bytes()
    }

    /// Stages a put or (for `None`) a delete. Key and value come in parts, so that callers need not
    /// join them.
    ///
    /// # Errors
    /// `InvalidValue` for a key or value of more than 1 GiB.
    #[inline]
    pub(crate) fn stage(
        &mut self,
        table: Table,
        key: &[&[u8]],
        value: Option<&[&[u8]]>,
        newest: bool,
    ) -> Result<()> {
        let bytes = |parts: &[&[u8]]| parts.iter().map(|part| part.len()).sum::<usize>();
        let (key_bytes, value_bytes) = (bytes(key), value.map_or(0, bytes));
        check_size(key_bytes.max(value_bytes))?;
        self.staged_bytes += (key_bytes + value_bytes + Layer::RECORD_BYTES) as u64;
        self.buffers[table.number].push(key, value, newest);
        Ok(())
    }

    /// Stages puts and (for `None`) deletes, in order, and spills between them if necessary.
    ///
    /// # Errors
    /// As `stage` and `make_room`; the error names the key of the first row that is not staged.
    pub(crate) fn stage_rows<'a>(
        &mut self,
        table: Table,
        rows: impl IntoIterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<()> {
        let mut rows = rows.into_iter();
        let mut next = rows.next();
        while let Some((key, _)) = next {
            self.make_room().map_err(|e| e.key(key))?;
            // The buffer is looked up once for all rows before the next measurement.
            let buffer = &mut self.buffers[table.number];
            while let Some((key, value)) = next {
                check_row(key, value).map_err(|e| e.key(key))?;
                self.staged_bytes += Self::record_bytes(key, value) as u64;
                buffer.push(&[key], value.as_ref().map(std::slice::from_ref), false);
                next = rows.next();
                if self.staged_bytes >= self.memory_limit.measure_at {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns an upper bound, in bytes, of the memory of a staged record.
    #[inline]
    pub(crate) fn record_bytes(key: &[u8], value: Option<&[u8]>) -> usize {
        key.len() + value.map_or(0, <[u8]>::len) + Layer::RECORD_BYTES
    }

    /// Adds an encoded record to a batch.
    pub(crate) fn push_encoded(batch: &mut Batch, record: &[u8]) {
        batch.push_encoded(record);
    }
}
