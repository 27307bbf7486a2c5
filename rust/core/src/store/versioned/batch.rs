//! Mixed batches of puts and reads as of a time: the inner loop of the as-of join.
//!
//! Stored rows do not change while a part of a batch runs, so most reads of them are done first,
//! sorted by key: newest rows by MultiGet, history by one cursor. Then the rows are processed in
//! order; a read also checks the versions that the transaction has staged so far.

use super::history_read::HistoryRead;
use super::layout;
use super::read::{FoundVersion, VersionPlace};
use super::store::VersionedStore;
use super::version::{PutResult, Version, VersionRow};
use crate::error::Result;
use crate::metrics::Operation;
use crate::time::Timestamp;
use crate::transaction::{Transaction, sort_by_prefix, sort_prefix};

/// How many rows are processed at once. The transaction may spill between the parts of a batch.
const ROWS: usize = 16_384;

/// A batch with more bytes of stored rows is split. Equal reads (key and time) share a row.
const STORED_BYTES: usize = 64 << 20;

/// One row of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Put a version; `None` is a tombstone.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: Option<&'a [u8]>,
        /// Begin of validity.
        timestamp: Timestamp,
    },
    /// Read the version valid at a moment.
    Get {
        /// The key.
        key: &'a [u8],
        /// The moment.
        as_of: Timestamp,
    },
}

/// The result of a row of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied<'a> {
    /// A put.
    Put(PutResult),
    /// A read; `None` for a tombstone or no version.
    Get(Option<Version<'a>>),
    /// An expired read: `as_of` is before the history and before the key's newest version.
    Expired,
}

/// What a row must read from the database.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StoredRead {
    Nothing,
    Latest,
    History,
}

/// What each row reads, and what was found for it.
type StoredReads = (Vec<StoredRead>, Vec<FoundVersion>);

/// The batch's key parts, concatenated.
struct KeyParts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyParts {
    fn of(ops: &[Op<'_>]) -> Self {
        let mut parts = Self {
            bytes: Vec::with_capacity(ops.len() * 20),
            ends: Vec::with_capacity(ops.len() + 1),
        };
        parts.ends.push(0);
        for op in ops {
            let (Op::Put { key, .. } | Op::Get { key, .. }) = op;
            layout::push_key_part(key, &mut parts.bytes);
            parts.ends.push(parts.bytes.len());
        }
        parts
    }

    fn get(&self, n: usize) -> &[u8] {
        &self.bytes[self.ends[n]..self.ends[n + 1]]
    }
}

impl VersionedStore {
    /// Runs a batch and calls `sink` for every row, in order, with its number and result.
    ///
    /// With `want_valid_to`, results include the ends of versions. For a version that is not the
    /// newest, this also reads newer versions of its key.
    ///
    /// # Errors
    /// Those of `put`. If part of the batch was staged, the transaction is poisoned: roll it back.
    pub fn apply_batch(
        &self,
        tx: &mut Transaction,
        ops: &[Op<'_>],
        want_valid_to: bool,
        sink: &mut dyn FnMut(usize, Applied<'_>),
    ) -> Result<()> {
        self.apply(Operation::ApplyBatch, tx, ops, want_valid_to, sink)
    }

    fn apply(
        &self,
        operation: Operation,
        tx: &mut Transaction,
        ops: &[Op<'_>],
        want_valid_to: bool,
        sink: &mut dyn FnMut(usize, Applied<'_>),
    ) -> Result<()> {
        let mut call = self.inner.counts.call(operation);
        call.records(ops.len());
        let staged = tx.staged_bytes();
        let mut apply = || {
            for (n, ops) in ops.chunks(ROWS).enumerate() {
                tx.make_room().map_err(|e| e.store(self.name()))?;
                self.apply_rows(tx, ops, want_valid_to, &mut |row, applied| {
                    sink(n * ROWS + row, applied)
                })?;
            }
            Ok(())
        };
        apply().inspect_err(|error| {
            if tx.staged_bytes() != staged {
                tx.poison(error);
            }
        })
    }

    fn apply_rows(
        &self,
        tx: &mut Transaction,
        ops: &[Op<'_>],
        want_valid_to: bool,
        sink: &mut dyn FnMut(usize, Applied<'_>),
    ) -> Result<()> {
        let parts = KeyParts::of(ops);
        let mut rows = Vec::new();
        let read = self
            .read_stored(tx, ops, &parts, want_valid_to, &mut rows)
            .map_err(|e| e.store(self.name()))?;
        let Some((needs, stored)) = read else {
            drop((parts, rows));
            let (first, second) = ops.split_at(ops.len() / 2);
            self.apply_rows(tx, first, want_valid_to, sink)?;
            return self.apply_rows(tx, second, want_valid_to, &mut |n, applied| {
                sink(first.len() + n, applied)
            });
        };
        let stored_bytes = rows.len();
        for (n, op) in ops.iter().enumerate() {
            let part = parts.get(n);
            match op {
                Op::Put {
                    key,
                    value,
                    timestamp,
                } => {
                    let latest = (needs[n] == StoredRead::Latest)
                        .then(|| stored[n].version.map(|found| found.begin));
                    let result = self
                        .put_part(tx, part, *value, timestamp.0, want_valid_to, latest)
                        .map_err(|e| e.store(self.name()).key(key))?;
                    sink(n, Applied::Put(result));
                }
                Op::Get { key, as_of } => {
                    rows.truncate(stored_bytes);
                    self.get_in_batch(tx, part, as_of.0, stored[n], &mut rows, &mut |applied| {
                        let applied = match applied {
                            Applied::Get(Some(version)) if !want_valid_to => {
                                Applied::Get(Some(Version {
                                    valid_to: None,
                                    ..version
                                }))
                            }
                            applied => applied,
                        };
                        sink(n, applied);
                    })
                    .map_err(|e| e.store(self.name()).key(key))?;
                }
            }
        }
        Ok(())
    }

    /// Reads each key as of its own moment, or its newest version if `as_of` is `None`. Calls
    /// `sink` for every row, in order; an expired read gives `None`.
    pub fn get_batch(
        &self,
        tx: &mut Transaction,
        keys: &[&[u8]],
        as_of: Option<&[Timestamp]>,
        sink: &mut dyn FnMut(usize, Option<Version<'_>>),
    ) -> Result<()> {
        let moment = |n: usize| {
            as_of
                .and_then(|times| times.get(n).copied())
                .unwrap_or(Timestamp::MAX)
        };
        let ops: Vec<Op<'_>> = keys
            .iter()
            .enumerate()
            .map(|(n, key)| Op::Get {
                key,
                as_of: moment(n),
            })
            .collect();
        self.apply(
            Operation::GetBatch,
            tx,
            &ops,
            true,
            &mut |n, applied| match applied {
                Applied::Get(found) => sink(n, found),
                Applied::Expired => sink(n, None),
                Applied::Put(_) => {}
            },
        )
    }

    /// Puts many versions and calls `sink` for every row, in order, with its result.
    ///
    /// # Errors
    /// Those of `apply_batch`.
    pub fn put_batch(
        &self,
        tx: &mut Transaction,
        rows: &[VersionRow<'_>],
        sink: &mut dyn FnMut(PutResult),
    ) -> Result<()> {
        let ops: Vec<Op<'_>> = rows
            .iter()
            .map(|row| Op::Put {
                key: row.key,
                value: row.value,
                timestamp: row.timestamp,
            })
            .collect();
        self.apply(Operation::PutBatch, tx, &ops, true, &mut |_, applied| {
            if let Applied::Put(result) = applied {
                sink(result);
            }
        })
    }

    /// Reads the stored rows that a batch needs; `None` if they are too large: the batch is split.
    fn read_stored(
        &self,
        tx: &mut Transaction,
        ops: &[Op<'_>],
        parts: &KeyParts,
        want_valid_to: bool,
        rows: &mut Vec<u8>,
    ) -> Result<Option<StoredReads>> {
        let horizon = self.horizon(tx);
        let mut needs = Vec::with_capacity(ops.len());
        let mut order: Vec<(u64, u32)> = Vec::with_capacity(ops.len());
        for (n, op) in ops.iter().enumerate() {
            let part = parts.get(n);
            let staged = tx
                .newest_staged(self.inner.versions, part)
                .filter(|staged| staged.newest);
            let need = match op {
                Op::Put { timestamp, .. }
                    if staged.is_some() || self.inner.marks.covers(part, timestamp.0) =>
                {
                    StoredRead::Nothing
                }
                Op::Put { .. } => StoredRead::Latest,
                Op::Get { as_of, .. }
                    if staged.is_some_and(|staged| layout::split(staged.key).1 <= as_of.0) =>
                {
                    StoredRead::Nothing
                }
                Op::Get { as_of, .. }
                    if self.inner.marks.covers(part, as_of.0) || as_of.0 < horizon =>
                {
                    StoredRead::Latest
                }
                Op::Get { .. } => StoredRead::History,
            };
            needs.push(need);
            if need != StoredRead::Nothing {
                order.push((sort_prefix(part), n as u32));
            }
        }
        let time = |n: usize| match ops[n] {
            Op::Put { timestamp, .. } => timestamp,
            Op::Get { as_of, .. } => as_of,
        };
        let by_key_and_time = |a: &(u64, u32), b: &(u64, u32)| {
            let (m, n) = (a.1 as usize, b.1 as usize);
            let by_key = a.0.cmp(&b.0).then_with(|| parts.get(m).cmp(parts.get(n)));
            by_key.then_with(|| time(n).cmp(&time(m)))
        };
        sort_by_prefix(&mut order, |entry| entry.0, by_key_and_time);
        let mut stored = vec![FoundVersion::default(); ops.len()];
        self.read_latest(tx, &order, &needs, parts, rows, &mut stored)?;
        let limit = if ops.len() > 1 {
            STORED_BYTES
        } else {
            usize::MAX
        };
        let of_history = |n: &usize| needs[*n] == StoredRead::History;
        let order = order.iter().map(|(_, n)| *n as usize);
        let reads = order.filter(of_history).map(|n| HistoryRead {
            row: n,
            part: parts.get(n),
            at: time(n).0,
        });
        let fits = self.stored_at_each(tx, reads, want_valid_to, limit, rows, &mut stored)?;
        Ok((fits && rows.len() <= limit).then_some((needs, stored)))
    }

    /// Looks up each distinct key once, even if several rows of the batch need it. Copies no more
    /// rows after [`STORED_BYTES`].
    fn read_latest(
        &self,
        tx: &Transaction,
        order: &[(u64, u32)],
        needs: &[StoredRead],
        parts: &KeyParts,
        rows: &mut Vec<u8>,
        stored: &mut [FoundVersion],
    ) -> Result<()> {
        let mut keys: Vec<&[u8]> = Vec::new();
        let mut askers: Vec<(u32, u32)> = Vec::new();
        for (_, n) in order
            .iter()
            .filter(|(_, n)| needs[*n as usize] == StoredRead::Latest)
        {
            let part = parts.get(*n as usize);
            if keys.last() != Some(&part) {
                keys.push(part);
            }
            askers.push((*n, keys.len() as u32 - 1));
        }
        let (mut found, mut damaged) = (vec![FoundVersion::default(); keys.len()], Ok(()));
        tx.get_stored_sorted(self.inner.latest, &keys, |k, row| {
            match row.map(|row| layout::stored_latest(keys[k], row)) {
                Some(Ok(_)) if rows.len() > STORED_BYTES => {}
                Some(Ok((begin, row))) => {
                    found[k].version = Some(VersionPlace::keep(rows, begin, row));
                }
                Some(Err(error)) => damaged = Err(error),
                None => {}
            }
        })?;
        damaged?;
        for (n, k) in askers {
            stored[n as usize] = found[k as usize];
        }
        Ok(())
    }

    fn get_in_batch(
        &self,
        tx: &mut Transaction,
        part: &[u8],
        at: i64,
        stored: FoundVersion,
        rows: &mut Vec<u8>,
        emit: &mut dyn FnMut(Applied<'_>),
    ) -> Result<()> {
        let horizon = self.horizon(tx);
        let staged = tx.newest_staged(self.inner.versions, part);
        if let Some(newest) = staged.filter(|staged| staged.newest)
            && let (_, begin) = layout::split(newest.key)
            && begin <= at
        {
            let value = newest.value.and_then(layout::value);
            emit(Applied::Get(value.map(|value| Version {
                value,
                timestamp: Timestamp(begin),
                valid_to: None,
            })));
        } else if at < horizon {
            match self.newest_by(tx, part, at, rows)? {
                Some(found) => emit(Applied::Get(found.version(rows))),
                None => emit(Applied::Expired),
            }
        } else if staged.is_none() {
            emit(Applied::Get(stored.version(rows)));
        } else {
            let found = stored.merge(self.staged_at(tx, part, at, rows));
            emit(Applied::Get(found.version(rows)));
        }
        Ok(())
    }
}
