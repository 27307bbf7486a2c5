//! A transaction: a snapshot of the last commit, and what has been staged since (KIP-892, `layout.md` section 2).
//!
//! Staged records live in an arena log with a hash index (`layer.rs`); order is made when a scan or the commit asks for it.
//! Readers of the open transaction share frozen layers, so their view is repeatable and the writer goes on undisturbed.

mod arena;
mod layer;
mod scan;
mod table;
mod wire;

pub use scan::{Scan, Step};
pub(crate) use table::Staged;
pub use wire::Batch;

use crate::error::Result;
use crate::rocks::{Bounds, Cursor, Family, FamilyKind, Snapshot};
use std::sync::Arc;
use table::TableBuffer;

/// A table of a task: a column family that stores read and stage.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Position among the task's tables.
    pub(crate) number: usize,
    pub(crate) family: Family,
    pub(crate) kind: FamilyKind,
}

/// Bytes at the end of a versioned row's key that hold its time.
pub(crate) const TIME_BYTES: usize = 8;

/// What a store keeps beside its rows; committed and rolled back with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreState {
    /// Greatest timestamp of an accepted write, all keys together.
    pub(crate) stream_time: Option<i64>,
    /// How many duplicates were numbered.
    pub(crate) sequence: u64,
    /// One of them was raised since the last commit.
    pub(crate) changed: bool,
}

/// An open transaction, or (without writes) a reader's view of one.
///
/// It belongs to one thread at a time. What it reads besides its own writes is the state at its beginning.
pub struct Transaction {
    snapshot: Arc<Snapshot>,
    tables: Arc<[Table]>,
    buffers: Vec<TableBuffer>,
    pub(crate) stores: Vec<StoreState>,
    /// One cursor a versioned table, kept for the next seek: a new one for each costs twice a seek (`layout.md` section 3).
    seekers: Vec<[Option<Cursor>; 2]>,
    scratch: Scratch,
}

/// Buffers that a batch call reuses.
#[derive(Default)]
struct Scratch {
    order: Vec<(u64, u32)>,
}

impl Transaction {
    pub(crate) fn new(snapshot: Arc<Snapshot>, tables: Arc<[Table]>, stores: Vec<StoreState>) -> Self {
        let suffix = |table: &Table| if table.kind == FamilyKind::Versions { TIME_BYTES } else { 0 };
        let buffers = tables.iter().map(|table| TableBuffer::new(table.family.id, suffix(table))).collect();
        let seekers = tables.iter().map(|_| [None, None]).collect();
        Self { snapshot, tables, buffers, stores, seekers, scratch: Scratch::default() }
    }

    /// The state that this transaction stands on.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The same view for another reader: repeatable, unchanged by anything that this transaction does later.
    pub fn reader(&mut self) -> Self {
        Self {
            snapshot: Arc::clone(&self.snapshot),
            tables: Arc::clone(&self.tables),
            buffers: self.buffers.iter_mut().map(TableBuffer::reader).collect(),
            stores: self.stores.clone(),
            seekers: self.tables.iter().map(|_| [None, None]).collect(),
            scratch: Scratch::default(),
        }
    }

    /// Whether nothing was staged.
    pub fn is_empty(&self) -> bool {
        self.buffers.iter().all(TableBuffer::is_empty) && !self.stores.iter().any(|store| store.changed)
    }

    /// Memory that a commit would free, overwritten values included, in bytes.
    pub fn uncommitted_bytes(&self) -> usize {
        self.buffers.iter().map(TableBuffer::bytes).sum()
    }

    /// The same for one table.
    pub(crate) fn table_bytes(&self, table: Table) -> usize {
        self.buffers[table.number].bytes()
    }

    /// How many records are staged for a table, overwritten ones included.
    pub(crate) fn staged_records(&self, table: Table) -> usize {
        self.buffers[table.number].len()
    }

    /// Stages a put or (for `None`) a delete; key and value come in parts, so that nobody has to join them first.
    #[inline]
    pub(crate) fn stage(&mut self, table: Table, key: &[&[u8]], value: Option<&[&[u8]]>, newest: bool) {
        self.buffers[table.number].push(key, value, newest);
    }

    /// Reads one key; `f` sees the value where it lies.
    pub(crate) fn get<R>(&mut self, table: Table, key: &[u8], f: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        let buffer = &mut self.buffers[table.number];
        buffer.catch_up();
        match buffer.find(key) {
            Some(staged) => Ok(f(staged.value)),
            None => self.snapshot.database().get(table.family, key, &self.snapshot, f),
        }
    }

    /// Reads a stored key, past what is staged.
    pub(crate) fn get_stored<R>(&self, table: Table, key: &[u8], f: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        self.snapshot.database().get(table.family, key, &self.snapshot, f)
    }

    /// Reads many keys; `f` is called once for each, in no particular order.
    pub(crate) fn get_batch(&mut self, table: Table, keys: &[&[u8]], mut f: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let buffer = &mut self.buffers[table.number];
        buffer.catch_up();
        let order = &mut self.scratch.order;
        order.clear();
        for (n, key) in keys.iter().enumerate() {
            match buffer.find(key) {
                Some(staged) => f(n, staged.value),
                None => order.push((sort_prefix(key), n as u32)),
            }
        }
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| keys[a.1 as usize].cmp(keys[b.1 as usize])));
        let sorted: Vec<&[u8]> = order.iter().map(|(_, n)| keys[*n as usize]).collect();
        self.snapshot.database().multi_get_sorted(table.family, &sorted, &self.snapshot, |n, value| f(order[n].1 as usize, value))
    }

    /// Reads many stored keys in ascending order, past what is staged; `f` is called for each, in order.
    pub(crate) fn get_stored_sorted(&self, table: Table, keys: &[&[u8]], f: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.snapshot.database().multi_get_sorted(table.family, keys, &self.snapshot, f)
    }

    /// The newest staged version of a key (versioned tables).
    pub(crate) fn newest_staged(&mut self, table: Table, part: &[u8]) -> Option<Staged<'_>> {
        let buffer = &mut self.buffers[table.number];
        buffer.catch_up();
        buffer.newest(part)
    }

    /// The first staged record at or behind a key, and the last one before it, within the same key part (versioned tables).
    pub(crate) fn staged_neighbours(&mut self, table: Table, key: &[u8]) -> (Option<Staged<'_>>, Option<Staged<'_>>) {
        let buffer = &mut self.buffers[table.number];
        buffer.order();
        let part = &key[..key.len() - TIME_BYTES];
        let same = |staged: &Staged<'_>| staged.key.len() == key.len() && staged.key.starts_with(part);
        (buffer.at_or_after(key).filter(same), buffer.before(key).filter(same))
    }

    /// A cursor over stored rows; it is reused. With `within_key` (versioned tables) a seek stays within the key that it names
    /// and the files' filters are asked first; such a cursor cannot go backward.
    pub(crate) fn seeker(&mut self, table: Table, within_key: bool) -> Result<&Cursor> {
        let slot = &mut self.seekers[table.number][usize::from(within_key)];
        match slot {
            Some(cursor) => Ok(cursor),
            None => {
                let bounds = Bounds { within_key, ..Bounds::default() };
                Ok(slot.insert(Cursor::new(&self.snapshot, table.family, table.kind, &bounds)?))
            }
        }
    }

    /// A scan of staged and stored rows as they are now.
    pub(crate) fn scan(&mut self, table: Table, bounds: Bounds, reverse: bool) -> Result<Scan> {
        let cursor = Cursor::new(&self.snapshot, table.family, table.kind, &bounds)?;
        Ok(Scan::new(self.buffers[table.number].freeze().to_vec(), cursor, bounds, reverse))
    }

    /// A scan of the newest versions: stored `latest` rows, and rows made of the staged versions that are newer.
    pub(crate) fn scan_latest(&mut self, versions: Table, latest: Table) -> Result<Scan> {
        let mut layer = layer::Layer::new(latest.family.id, 0);
        let mut last: Vec<u8> = Vec::new();
        for staged in self.buffers[versions.number].newest_first() {
            let (part, begin) = staged.key.split_at(staged.key.len() - TIME_BYTES);
            if part != last {
                last.clear();
                last.extend_from_slice(part);
                if staged.newest {
                    layer.push(&[part], Some(&[begin, staged.value.unwrap_or(&[0])]), true);
                }
            }
        }
        layer.order_fully();
        let bounds = Bounds::default();
        let cursor = Cursor::new(&self.snapshot, latest.family, latest.kind, &bounds)?;
        Ok(Scan::new(vec![Arc::new(layer)], cursor, bounds, false))
    }

    /// Hands every staged record to `f` in key order, of each key the last, encoded as it goes into a write batch;
    /// gives the table's buffer up.
    pub(crate) fn drain(&mut self, table: Table, f: impl FnMut(Staged<'_>, &[u8])) {
        self.buffers[table.number].drain_in_order(f);
    }

    /// Hands every staged record to `f` in key order without giving the buffer up.
    pub(crate) fn for_each_staged(&mut self, table: Table, mut f: impl FnMut(&[u8], Option<&[u8]>) -> Result<()>) -> Result<()> {
        self.buffers[table.number].newest_first().try_for_each(|staged| f(staged.key, staged.value))
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
