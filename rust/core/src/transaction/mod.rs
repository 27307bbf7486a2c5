//! A transaction: a snapshot of the last commit, and what has been staged since (KIP-892,
//! `layout.md` section 2).
//!
//! Staged records live in an arena log with a hash index (`layer.rs`); order is made when a scan or
//! the commit asks for it. Readers of the open transaction share frozen layers, so their view is
//! repeatable and the writer goes on undisturbed.

mod arena;
mod base;
mod cleared;
mod latest;
mod layer;
mod memory;
mod merged;
mod scan;
mod spill;
mod table;

pub(crate) use base::{Base, SpilledRows};
pub(crate) use latest::{LatestRows, TOMBSTONE};
pub(crate) use memory::MemoryTable;
pub use scan::{Scan, Step};
pub(crate) use spill::{Spiller, Target};
pub(crate) use table::Staged;

use crate::error::{Error, ErrorKind, Result};
use crate::offset::{Offset, TopicPartition};
use crate::position::Position;
pub use crate::rocks::Batch;
use crate::rocks::Family;
use crate::table::{Bounds, FamilyKind, TIME_BYTES};
use base::{Cursor, Rows};
use layer::Layer;
use std::borrow::Cow;
use std::sync::Arc;
use table::TableBuffer;

/// A table of a database: ordered rows that stores read and stage.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Position among the database's tables.
    pub(crate) number: usize,
    pub(crate) place: Place,
    pub(crate) kind: FamilyKind,
}

/// Where a table's committed rows are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// In a column family.
    Files(Family),
    /// In memory, as so many-th of the database's tables there.
    Memory(usize),
}

impl Place {
    /// The column family, of a table in files.
    pub(crate) fn family(self) -> Option<Family> {
        match self {
            Self::Files(family) => Some(family),
            Self::Memory(_) => None,
        }
    }
}

impl Table {
    /// RocksDB's number of the family; tables in memory have none, and nobody asks.
    pub(crate) fn family_id(self) -> u32 {
        match self.place {
            Place::Files(family) => family.id,
            Place::Memory(_) => 0,
        }
    }

    /// Bytes at a key's end that an index by key leaves out.
    fn suffix(self) -> usize {
        if self.kind == FamilyKind::Versions {
            TIME_BYTES
        } else {
            0
        }
    }
}

/// Bytes of the largest key or value: lengths are 32 bits wide in write batches and in Arrow's
/// binary columns.
pub const LARGEST: usize = 1 << 30;

/// Fails for the size of a key or value that no store takes.
///
/// # Errors
/// `InvalidValue`.
#[inline]
pub fn check_size(bytes: usize) -> Result<()> {
    if bytes <= LARGEST {
        return Ok(());
    }
    let words = format!(
        "a key or value has {bytes} bytes, and {LARGEST} is the most that a store takes; keep \
         large objects elsewhere"
    );
    Err(Error::new(ErrorKind::InvalidValue, words))
}

/// What a store keeps beside its rows; committed and rolled back with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreState {
    /// Greatest timestamp of an accepted write, all keys together.
    pub(crate) stream_time: Option<i64>,
    /// The first moment that a store keeps whatever its retention: what had expired under a shorter
    /// one.
    pub(crate) first_kept: Option<i64>,
    /// How many duplicates were numbered.
    pub(crate) sequence: u64,
    /// One of them was raised since the last commit.
    pub(crate) changed: bool,
}

/// An open transaction, or (without writes) a reader's view of one.
///
/// It belongs to one thread at a time. What it reads besides its own writes is the state at its
/// beginning.
pub struct Transaction {
    base: Arc<Base>,
    tables: Arc<[Table]>,
    buffers: Vec<TableBuffer>,
    pub(crate) stores: Vec<StoreState>,
    /// One cursor a versioned table, kept for the next seek: a new one for each costs twice a seek
    /// (`layout.md` section 3).
    seekers: Vec<[Option<Cursor>; 2]>,
    scratch: Scratch,
    /// Input offsets whose writes are among what was staged.
    observed: Position,
    /// Why it can only be rolled back: a write of which a part is staged.
    torn: Option<Cow<'static, str>>,
    /// Where it spills; a reader does not.
    spiller: Option<Arc<Spiller>>,
    /// Memory at which it spills instead of where the database says.
    limit: Option<usize>,
    /// Keys and values staged since it began, in bytes, one more a record, and the number at which
    /// its memory is to be looked at again.
    staged_bytes: u64,
    measure_at: u64,
    /// The most memory that it held before a spill.
    peak: usize,
}

/// Buffers that a batch call reuses.
#[derive(Default)]
struct Scratch {
    order: Vec<(u64, u32)>,
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
        let seekers = tables.iter().map(|_| [None, None]).collect();
        let (scratch, observed) = (Scratch::default(), Position::default());
        Self {
            base,
            tables,
            buffers,
            stores,
            seekers,
            scratch,
            observed,
            torn: None,
            spiller,
            limit: None,
            staged_bytes: 0,
            measure_at: 0,
            peak: 0,
        }
    }

    /// The state that this transaction stands on.
    pub(crate) fn base(&self) -> &Arc<Base> {
        &self.base
    }

    /// Goes on from a newer state of the tables that are written straight through; all others are
    /// as they were.
    pub(crate) fn rebase(&mut self, base: Arc<Base>) {
        self.base = match self.base.spilled() {
            Some(rows) => Base::with_spilled(&base, rows.clone()),
            None => base,
        };
        self.seekers.fill_with(|| [None, None]);
    }

    /// Notes that a batch failed with a part of it staged: the transaction can only be rolled back.
    pub(crate) fn tear(&mut self, error: &Error) {
        self.torn = Some(Cow::Owned(error.to_string()));
    }

    /// Fails if a part of a write is staged.
    pub(crate) fn check_whole(&self) -> Result<()> {
        match &self.torn {
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

    /// Does a write that is one unit: after an error or a panic with a part of it staged the
    /// transaction can only be rolled back.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn as_one<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let staged = self.staged_bytes;
        // What stands after a panic.
        self.torn = Some(Cow::Borrowed("a bug in Holdfast"));
        let done = work(self);
        match &done {
            Err(error) if self.staged_bytes != staged => self.tear(error),
            // A write-through that failed has torn it, also where no record was staged: a deleted
            // range is none.
            Err(_) if matches!(self.torn, Some(Cow::Owned(_))) => {}
            _ => self.torn = None,
        }
        done
    }

    /// The same view for another reader: repeatable, unchanged by anything that this transaction
    /// does later.
    pub fn reader(&mut self) -> Self {
        Self {
            base: Arc::clone(&self.base),
            tables: Arc::clone(&self.tables),
            buffers: self.buffers.iter_mut().map(TableBuffer::reader).collect(),
            stores: self.stores.clone(),
            seekers: self.tables.iter().map(|_| [None, None]).collect(),
            scratch: Scratch::default(),
            observed: self.observed.clone(),
            torn: None,
            spiller: None,
            limit: None,
            staged_bytes: 0,
            measure_at: 0,
            peak: 0,
        }
    }

    /// Notes the input record that writes come from; kept and dropped with them.
    ///
    /// # Errors
    /// `InvalidValue` for a topic with a NUL character in it.
    pub fn observe(&mut self, tp: TopicPartition, offset: Offset) -> Result<()> {
        tp.check()?;
        self.observed.observe(tp, offset);
        Ok(())
    }

    /// What was observed since the last commit.
    pub(crate) fn observed(&self) -> &Position {
        &self.observed
    }

    /// The input position that this view has reached: the last commit's, and what the transaction
    /// has observed since.
    pub fn position(&self) -> Position {
        let mut position = self.base.position().clone();
        position.merge(&self.observed);
        position
    }

    /// Whether nothing was staged.
    pub fn is_empty(&self) -> bool {
        let nothing_staged = self.buffers.iter().all(TableBuffer::is_empty) && !self.has_spilled();
        nothing_staged && self.observed.is_empty() && !self.stores.iter().any(|store| store.changed)
    }

    /// Whether something is staged for a table.
    pub(crate) fn is_staged(&self, table: Table) -> bool {
        !self.buffers[table.number].is_empty()
    }

    /// Keys and values staged since it began, in bytes, and one more a record: it grows with each,
    /// and never falls.
    pub(crate) fn staged_bytes(&self) -> u64 {
        self.staged_bytes
    }

    /// Memory that a commit would free, overwritten values included, in bytes.
    pub fn uncommitted_bytes(&self) -> usize {
        self.buffers.iter().map(TableBuffer::bytes).sum()
    }

    /// The same for one table.
    pub(crate) fn table_bytes(&self, table: Table) -> usize {
        self.buffers[table.number].bytes()
    }

    /// Stages a put or (for `None`) a delete; key and value come in parts, so that nobody has to
    /// join them first.
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
        self.staged_bytes += (key_bytes + value_bytes) as u64 + 1;
        self.buffers[table.number].push(key, value, newest);
        Ok(())
    }

    /// Reads one key; `f` sees the value where it lies.
    pub(crate) fn get<R>(
        &mut self,
        table: Table,
        key: &[u8],
        f: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        let buffer = &mut self.buffers[table.number];
        buffer.catch_up();
        match buffer.find(key) {
            Some(staged) => Ok(f(staged.value)),
            None if buffer.hides_stored(key) => Ok(f(None)),
            None => self.base.get(table, key, f),
        }
    }

    /// Reads a stored key, past what is staged.
    pub(crate) fn get_stored<R>(
        &self,
        table: Table,
        key: &[u8],
        f: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        self.base.get(table, key, f)
    }

    /// About how many rows a table has: staged puts are counted as if all were new, staged deletes
    /// as if all met a row. The stored rows of a range that is deleted count until a compaction has
    /// removed them, which may be long after the commit.
    pub(crate) fn approximate_rows(&self, table: Table) -> Result<u64> {
        Ok(self
            .base
            .approximate_rows(table)?
            .saturating_add_signed(self.buffers[table.number].added_rows()))
    }

    /// Reads many keys; `f` is called once for each, in no particular order.
    pub(crate) fn get_batch(
        &mut self,
        table: Table,
        keys: &[&[u8]],
        mut f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let buffer = &mut self.buffers[table.number];
        buffer.catch_up();
        let order = &mut self.scratch.order;
        order.clear();
        for (n, key) in keys.iter().enumerate() {
            match buffer.find(key) {
                Some(staged) => f(n, staged.value),
                None if buffer.hides_stored(key) => f(n, None),
                None => order.push((sort_prefix(key), n as u32)),
            }
        }
        order.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0)
                .then_with(|| keys[a.1 as usize].cmp(keys[b.1 as usize]))
        });
        let sorted: Vec<&[u8]> = order.iter().map(|(_, n)| keys[*n as usize]).collect();
        self.base
            .get_sorted(table, &sorted, |n, value| f(order[n].1 as usize, value))
    }

    /// Reads many stored keys in ascending order, past what is staged; `f` is called for each, in
    /// order.
    pub(crate) fn get_stored_sorted(
        &self,
        table: Table,
        keys: &[&[u8]],
        f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.base.get_sorted(table, keys, f)
    }

    /// The newest staged version of a key (versioned tables).
    pub(crate) fn newest_staged(&mut self, table: Table, part: &[u8]) -> Option<Staged<'_>> {
        let buffer = &mut self.buffers[table.number];
        buffer.catch_up();
        buffer.newest(part)
    }

    /// The first staged record at or behind a key, and the last one before it, within the same key
    /// part (versioned tables).
    pub(crate) fn staged_neighbours(
        &mut self,
        table: Table,
        key: &[u8],
    ) -> (Option<Staged<'_>>, Option<Staged<'_>>) {
        let buffer = &mut self.buffers[table.number];
        buffer.order();
        let part = &key[..key.len() - TIME_BYTES];
        let same =
            |staged: &Staged<'_>| staged.key.len() == key.len() && staged.key.starts_with(part);
        (
            buffer.at_or_after(key).filter(same),
            buffer.before(key).filter(same),
        )
    }

    /// Works on a cursor over stored rows, which is reused. With `within_key` (versioned tables) a
    /// seek stays within the key that it names and the files' filters are asked first; such a
    /// cursor cannot go backward.
    pub(crate) fn with_seeker<R>(
        &mut self,
        table: Table,
        within_key: bool,
        f: impl FnOnce(&mut Rows<'_>) -> R,
    ) -> Result<R> {
        let slot = &mut self.seekers[table.number][usize::from(within_key)];
        let cursor = match slot {
            Some(cursor) => cursor,
            None => {
                let bounds = Bounds {
                    within_key,
                    ..Bounds::default()
                };
                slot.insert(self.base.cursor(table, &bounds)?)
            }
        };
        let result = cursor.with(f);
        if result.is_err() {
            // RocksDB's may go on to tell of an error of the disk that is long mended.
            *slot = None;
        }
        result
    }

    /// A scan of staged and stored rows as they are now.
    pub(crate) fn scan(&mut self, table: Table, bounds: Bounds, reverse: bool) -> Result<Scan> {
        let staged = self.buffers[table.number].freeze().to_vec();
        self.open_scan(table, staged, bounds, reverse)
    }

    fn open_scan(
        &self,
        table: Table,
        staged: Vec<Arc<Layer>>,
        bounds: Bounds,
        reverse: bool,
    ) -> Result<Scan> {
        match table.place {
            Place::Files(_) => {
                let cleared = self.buffers[table.number].cleared().clone();
                Ok(Scan::new(
                    staged,
                    self.base.cursor(table, &bounds)?,
                    cleared,
                    bounds,
                    reverse,
                ))
            }
            // Committed rows in memory are layers as the staged ones are, only older.
            Place::Memory(number) => {
                let layers = self
                    .base
                    .table(number)?
                    .layers()
                    .iter()
                    .cloned()
                    .chain(staged)
                    .collect();
                Ok(Scan::in_memory(
                    layers,
                    Arc::clone(self.base.files()),
                    bounds,
                    reverse,
                ))
            }
        }
    }

    /// A scan of the newest versions: stored `latest` rows, and rows made of the staged versions
    /// that are newer.
    pub(crate) fn scan_latest(&mut self, versions: Table, latest: Table) -> Result<Scan> {
        let layer = self.latest_layer(versions, latest);
        self.open_scan(latest, vec![Arc::new(layer)], Bounds::default(), false)
    }

    /// The `latest` rows that the staged versions make.
    fn latest_layer(&mut self, versions: Table, latest: Table) -> Layer {
        let (mut layer, mut rows) = (Layer::new(latest.family_id(), 0), LatestRows::default());
        for staged in self.buffers[versions.number].newest_first() {
            if let Some((key, value)) = rows.of(staged) {
                layer.push(&[key], Some(&value), true);
            }
        }
        layer.pushed_in_order();
        layer
    }

    /// Gives the staged rows of a table in memory up to its committed rows; `expired` as for
    /// [`MemoryTable::push`].
    pub(crate) fn move_to_memory(
        &mut self,
        table: Table,
        rows: &mut MemoryTable,
        expired: &mut dyn FnMut(&[u8]) -> bool,
    ) {
        rows.push(
            self.buffers[table.number].take(),
            table.family_id(),
            table.suffix(),
            expired,
        );
    }

    /// The same for the `latest` rows that the staged versions make; before the versions
    /// themselves.
    pub(crate) fn move_latest_to_memory(
        &mut self,
        versions: Table,
        latest: Table,
        rows: &mut MemoryTable,
    ) {
        let mut layer = self.latest_layer(versions, latest);
        layer.freeze();
        rows.push(vec![Arc::new(layer)], latest.family_id(), 0, &mut |_| false);
    }

    /// Hands every staged record to `f` in key order, of each key the last, encoded as it goes into
    /// a write batch; gives the table's buffer up.
    pub(crate) fn drain(&mut self, table: Table, f: impl FnMut(Staged<'_>, &[u8])) {
        self.buffers[table.number].drain_in_order(f);
    }

    /// Hands every staged record to `f` in key order, spilled ones too, without giving them up.
    pub(crate) fn for_each_staged(
        &mut self,
        table: Table,
        mut f: impl FnMut(&[u8], Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        if self.has_spilled() {
            self.spill()?;
        } else {
            self.expand_cleared(table)?;
        }
        match self.base.spilled() {
            Some(rows) if rows.has(table) => rows.for_each(table, f),
            _ => self.buffers[table.number]
                .newest_first()
                .try_for_each(|staged| f(staged.key, staged.value)),
        }
    }

    /// Adds an encoded record to a batch.
    pub(crate) fn push_encoded(batch: &mut Batch, record: &[u8]) {
        batch.push_encoded(record);
    }
}

/// The first 8 bytes of a key, for sorting many keys by number first.
pub(crate) fn sort_prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}
