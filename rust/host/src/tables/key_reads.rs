//! Reads of keys: one row for each, in batches of bounded size.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use holdfast_core::{Database, Error, ErrorKind, Result, StoreKind, Transaction};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::key_form::EncodedKeys;
use super::read_call::ReadCall;
use super::state_table::{EmitRows, StateTable, not_assembled};
use super::store_handle::{Moments, StoreHandle, without_versions};
use super::stored_rows::{BATCH_ROWS, FoundRow, StoredRows, batch_bytes};
use super::time_column::{key_times, micros, moments_of};
use crate::memory::budget::Share;

/// How many keys are read at first, before the size of their values is known.
const FIRST_KEYS: usize = 256;

/// The most keys whose rows are sent as they are stored.
pub const FEW_KEYS: usize = FIRST_KEYS;

/// Keys as they are stored, and the times beside them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredKeys {
    /// The keys. For an entry that is `None`, nothing is found.
    pub keys: Vec<Option<ByteBuf>>,
    /// Their times.
    pub moments: Moments,
}

/// How many keys to read at once, so that their values are about one batch.
struct KeyCount(usize);

impl KeyCount {
    /// The most bytes of values that a read may find, for batches of this many bytes. If it finds
    /// more, it is repeated with fewer keys.
    fn most_bytes(batch: usize) -> usize {
        2 * batch
    }

    /// Adjusts the count after a read of `keys` keys that found `bytes` bytes of values.
    fn learn(&mut self, keys: usize, bytes: usize, batch: usize) {
        // Keys without values do not show how large values are.
        if bytes == 0 {
            return;
        }
        let fitting = keys.saturating_mul(batch) / bytes;
        let most = if bytes > Self::most_bytes(batch) {
            keys - 1
        } else {
            BATCH_ROWS.min(self.0.saturating_mul(4))
        };
        self.0 = fitting.min(most).max(1);
    }
}

impl StateTable {
    /// Reads one row for each key of a batch, in their order. A batch of the result has about
    /// [`batch_bytes`], or one larger row.
    pub(super) fn read_keys(
        &self,
        (db, tx): (&Database, &mut Transaction),
        store: &StoreHandle,
        call: &ReadCall,
        (batch, memory): (&RecordBatch, &mut Share),
        emit: &mut EmitRows<'_>,
    ) -> Result<()> {
        // If a key lacks a time that it needs, the read fails before its first row. The check omits
        // the call's moment, because a batch without columns may claim any number of rows.
        self.moments(&ReadCall::default(), batch)?;
        let schema = self.schema_of_get(call)?;
        let first = self.first_retained(db, tx)?;
        let (mut count, mut done) = (KeyCount(FIRST_KEYS), 0);
        while done < batch.num_rows() {
            let part = batch.slice(done, count.0.min(batch.num_rows() - done));
            let encoded = self.key().encode(&part)?;
            let mut keys = self.asked_keys(&encoded, &part)?;
            let moments = self.moments(call, &part)?;
            for (n, time) in moments.stored_times().iter().enumerate() {
                keys[n] = keys[n].take().filter(|_| Some(*time) >= first);
            }
            let bytes = batch_bytes(memory);
            let found = store.get(tx, &keys, &moments, KeyCount::most_bytes(bytes))?;
            count.learn(keys.len(), found.bytes(), bytes);
            if found.is_exceeded() {
                continue;
            }
            done += keys.len();
            let most = found.most();
            let rows = StoredRows::of_keys(&keys, found.rows(), most);
            self.emit_found(Some((db, tx)), &schema, &part, &rows, emit)?;
        }
        Ok(())
    }

    /// Whether rows can be decoded without a database. The results of groups cannot, because they
    /// may be in several stores.
    pub fn decodes_alone(&self) -> bool {
        self.value().as_groups().is_none()
    }

    /// Encodes the keys of a batch and their times.
    ///
    /// # Errors
    /// As [`StateTable::read`].
    pub fn stored_keys(&self, call: &ReadCall, batch: &RecordBatch) -> Result<StoredKeys> {
        if call.as_of.is_some() && !matches!(self.kind(), StoreKind::Versioned { .. }) {
            return Err(without_versions());
        }
        let encoded = self.key().encode(batch)?;
        let keys = self.asked_keys(&encoded, batch)?.into_iter();
        Ok(StoredKeys {
            keys: keys.map(|key| key.map(ByteBuf::from)).collect(),
            moments: self.moments(call, batch)?,
        })
    }

    /// Reads the rows of keys as they are stored; none if the values of several keys exceed two
    /// batches.
    ///
    /// # Errors
    /// Those of the store.
    pub fn read_stored(
        &self,
        (db, tx): (&Database, &mut Transaction),
        keys: &StoredKeys,
        memory: &mut Share,
    ) -> Result<Option<Vec<Option<FoundRow>>>> {
        let store = StoreHandle::open(db, self.store(), self.kind())?;
        let most = KeyCount::most_bytes(batch_bytes(memory));
        let found = store.get(tx, &keys.keys, &keys.moments, most)?;
        Ok((!found.is_exceeded()).then(|| found.to_rows()))
    }

    /// Decodes the rows of keys that [`StateTable::read_stored`] has found. `batch`: the keys.
    ///
    /// # Errors
    /// As [`StateTable::schema_of_get`]; `Serialization` if a row cannot be decoded with the
    /// columns.
    pub fn decode_stored(
        &self,
        call: &ReadCall,
        (batch, keys): (&RecordBatch, &StoredKeys),
        found: &[Option<FoundRow>],
    ) -> Result<Vec<RecordBatch>> {
        let found = found.iter().map(|row| row.as_ref().map(FoundRow::parts));
        let rows = StoredRows::of_keys(&keys.keys, found, usize::MAX);
        let mut batches = Vec::new();
        let schema = self.schema_of_get(call)?;
        self.emit_found(None, &schema, batch, &rows, &mut |rows| {
            batches.push(rows);
            Ok(())
        })?;
        Ok(batches)
    }

    /// Passes the rows of keys to `emit`. The results of groups may need several batches. `schema`:
    /// the columns of [`StateTable::schema_of_get`].
    fn emit_found(
        &self,
        mut database: Option<(&Database, &mut Transaction)>,
        schema: &SchemaRef,
        keys: &RecordBatch,
        rows: &StoredRows,
        emit: &mut EmitRows<'_>,
    ) -> Result<()> {
        let keys = &keys.columns()[..self.key().fields().len()];
        let is_found: Vec<bool> = rows.values().map(|value| value.is_some()).collect();
        let asked = &schema.fields()[..schema.fields().len() - 1];
        let mut start = 0;
        while start < rows.len() {
            let database = database.as_mut().map(|(db, tx)| (*db, &mut **tx));
            let (mut columns, count) = self.columns(database, asked, (rows, start), Some(keys))?;
            let end = start + count;
            columns.push(Arc::new(BooleanArray::from(is_found[start..end].to_vec())));
            let part = RecordBatch::try_new(Arc::clone(schema), columns)
                .map_err(|error| not_assembled(&error))?;
            emit(part)?;
            start = end;
        }
        Ok(())
    }

    /// Returns the keys of a batch. A key whose moment is null becomes none, and is not found.
    fn asked_keys<'a>(
        &self,
        encoded: &'a EncodedKeys,
        batch: &RecordBatch,
    ) -> Result<Vec<Option<&'a [u8]>>> {
        let mut keys = encoded.all()?;
        if matches!(self.kind(), StoreKind::Versioned { .. })
            && let Some(as_of) = self.times_beside(batch)?.first()
        {
            let asked = keys.iter_mut().enumerate();
            asked
                .filter(|(row, _)| as_of.is_null(*row))
                .for_each(|(_, key)| *key = None);
        }
        Ok(keys)
    }

    fn times_beside<'b>(&self, batch: &'b RecordBatch) -> Result<&'b [ArrayRef]> {
        self.key().times_beside(batch, key_times(self.kind()))
    }

    /// Returns the times that a batch has beside its keys. If it has no moments, all keys are read
    /// as of the call's moment. If the call has none, either, their newest versions are read. For a
    /// null moment nothing is found.
    fn moments(&self, call: &ReadCall, batch: &RecordBatch) -> Result<Moments> {
        let (rows, times) = (batch.num_rows(), self.times_beside(batch)?);
        let column = |n: usize, what: &str| -> Result<Vec<i64>> {
            let times = times
                .get(n)
                .map(|column| micros(column, what))
                .transpose()?;
            times.ok_or_else(|| {
                let text = format!("each key of this table needs {what}");
                Error::new(ErrorKind::InvalidValue, text)
            })
        };
        Ok(match self.kind() {
            StoreKind::KeyValue | StoreKind::TimestampedKeyValue => Moments::default(),
            StoreKind::Versioned { .. } => Moments {
                as_of: match times.first() {
                    Some(column) => Some(moments_of(column)?),
                    None => call.as_of.map(|at| vec![at; rows]),
                },
                ..Moments::default()
            },
            StoreKind::Window { .. } => Moments {
                starts: column(0, "a window's start")?,
                ..Moments::default()
            },
            StoreKind::Session { .. } => Moments {
                starts: column(0, "a session's start")?,
                ends: column(1, "a session's end")?
                    .into_iter()
                    .map(|end| end.saturating_sub(self.end_offset()))
                    .collect(),
                as_of: None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::{BinaryArray, Int64Array};
    use arrow_schema::{DataType, Field};
    use holdfast_core::{DatabaseOptions, StoreSpec, Timestamp, WindowPut};

    use super::*;
    use crate::memory::budget::Budget;
    use crate::tables::key_form::KeyForm;
    use crate::tables::stored_rows::BATCH_BYTES;
    use crate::tables::value_form::ValueForm;
    use crate::tables::{FOUND, ReadRows};

    /// A key's value; every third key has none.
    fn value(n: usize) -> Option<Vec<u8>> {
        (!n.is_multiple_of(3)).then(|| vec![b'v'; 1 << 20])
    }

    /// Reads 30 keys, 20 of which have a value of 1 MiB; returns how many rows each batch has.
    fn read_large(kind: StoreKind, times: &[i64]) -> Vec<usize> {
        let store = StoreSpec::new("t", kind.clone());
        let db = Database::open_in_memory(&[store], DatabaseOptions::default()).expect("open");
        let mut tx = db.begin().expect("open");
        let names: Vec<String> = (0..30).map(|n| format!("{n:02}")).collect();
        for (n, name) in names.iter().enumerate() {
            let (key, value) = (name.as_bytes(), value(n));
            let value = value.as_deref();
            match kind {
                StoreKind::KeyValue => db
                    .key_value("t")
                    .and_then(|store| store.put(&mut tx, key, value)),
                StoreKind::Versioned { .. } => db
                    .versioned("t")
                    .and_then(|store| store.put(&mut tx, key, value, Timestamp(5)))
                    .map(|_| ()),
                _ => db.window("t").and_then(|store| {
                    let put = WindowPut {
                        key,
                        value,
                        start: Timestamp(5),
                        timestamp: None,
                    };
                    store.put(&mut tx, put)
                }),
            }
            .expect("staged");
        }
        let bytes = |name| Field::new(name, DataType::Binary, true);
        let names_of_times = key_times(&kind);
        let table = StateTable::new(
            "t",
            kind,
            KeyForm::serde(bytes("key"), None),
            ValueForm::serde(bytes("value"), None),
            None,
        );
        let keys: ArrayRef = Arc::new(BinaryArray::from_iter_values(&names));
        let mut asked = vec![("key", keys)];
        for (time, name) in times.iter().zip(names_of_times) {
            let column: ArrayRef = Arc::new(Int64Array::from(vec![*time; names.len()]));
            asked.push((*name, column));
        }
        let call = ReadCall {
            rows: ReadRows::Get,
            ..ReadCall::default()
        };
        let (mut rows, mut lengths) = (0, Vec::new());
        let asked = RecordBatch::try_from_iter(asked).expect("columns of one length");
        let mut memory = Budget::new(usize::MAX).share();
        let read = table.read((&db, &mut tx), &call, &asked, &mut memory, &mut |batch| {
            let keys = batch["key"].as_binary::<i32>();
            let values = batch["value"].as_binary::<i32>();
            let found = batch[FOUND].as_boolean();
            for row in 0..batch.num_rows() {
                assert_eq!(keys.value(row), names[rows].as_bytes());
                let is_there = value(rows).is_some();
                assert_eq!(
                    (found.value(row), values.is_valid(row)),
                    (is_there, is_there)
                );
                rows += 1;
            }
            assert!(values.value_data().len() <= KeyCount::most_bytes(BATCH_BYTES));
            lengths.push(batch.num_rows());
            Ok(())
        });
        read.expect("read");
        assert_eq!(rows, names.len());
        lengths
    }

    #[test]
    fn large_values_come_in_several_batches() {
        let versioned = StoreKind::Versioned {
            history_retention: 100,
            segment_interval: 100,
        };
        let window = StoreKind::Window {
            retention: 100,
            window_size: 10,
            retain_duplicates: false,
            timestamped: false,
        };
        for (kind, times) in [
            (StoreKind::KeyValue, vec![]),
            (versioned.clone(), vec![]),
            (versioned, vec![7]),
            (window, vec![5]),
        ] {
            let lengths = read_large(kind.clone(), &times);
            assert!(lengths.len() >= 3, "{kind:?}: {lengths:?}");
        }
    }

    #[test]
    fn count_of_keys_follows_the_size_of_values_and_is_at_least_one() {
        let mut count = KeyCount(FIRST_KEYS);
        count.learn(FIRST_KEYS, 0, BATCH_BYTES);
        assert_eq!(count.0, FIRST_KEYS, "nothing was found");
        count.learn(FIRST_KEYS, FIRST_KEYS * 10, BATCH_BYTES);
        assert_eq!(count.0, 4 * FIRST_KEYS, "small values: more and more");
        count.learn(1_024, 1_024 * BATCH_BYTES, BATCH_BYTES);
        assert_eq!(count.0, 1, "each value fills a batch");
        count.learn(1, usize::MAX, BATCH_BYTES);
        assert_eq!(count.0, 1);
        // The read was too large for two batches, so the next one is of one key.
        count.learn(3, KeyCount::most_bytes(BATCH_BYTES) + 1, BATCH_BYTES);
        assert_eq!(count.0, 1);
    }
}
