//! Records of an object of the log.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int64Type};
use arrow_array::{Array, BinaryArray, DictionaryArray, Int64Array, RecordBatch, StringArray};
use holdfast_core::{Result, Timestamp};

use super::envelope::damaged;

/// One change of one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The store's name.
    pub store: &'a str,
    /// The key.
    pub key: &'a [u8],
    /// The value; none for a deletion.
    pub value: Option<&'a [u8]>,
    /// The time of the change (`rust/core/src/database/change.rs`); none in a key-value or session
    /// store.
    pub timestamp: Option<Timestamp>,
}

/// The records of one object.
#[derive(Clone, Debug, Default)]
pub struct Records {
    batches: Vec<RecordBatch>,
}

impl Records {
    /// Checks the columns of the batches.
    pub(super) fn new(name: &str, batches: Vec<RecordBatch>) -> Result<Self> {
        if batches
            .iter()
            .all(|batch| RecordColumns::of(batch).is_some())
        {
            return Ok(Self { batches });
        }
        Err(damaged(
            name,
            "its records have other columns, or nulls where there must be none",
        ))
    }

    /// Returns how many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the records, in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = Record<'_>> {
        self.batches
            .iter()
            .filter_map(RecordColumns::of)
            .flat_map(|columns| (0..columns.keys.len()).map(move |i| columns.record(i)))
    }
}

/// The typed columns of one batch.
#[derive(Clone, Copy)]
struct RecordColumns<'a> {
    stores: &'a DictionaryArray<Int16Type>,
    names: &'a StringArray,
    keys: &'a BinaryArray,
    values: &'a BinaryArray,
    timestamps: &'a Int64Array,
}

impl<'a> RecordColumns<'a> {
    fn of(batch: &'a RecordBatch) -> Option<Self> {
        let [stores, keys, values, timestamps] = batch.columns() else {
            return None;
        };
        let stores = stores.as_dictionary_opt::<Int16Type>()?;
        let columns = Self {
            stores,
            names: stores.values().as_string_opt::<i32>()?,
            keys: keys.as_binary_opt::<i32>()?,
            values: values.as_binary_opt::<i32>()?,
            timestamps: timestamps.as_primitive_opt::<Int64Type>()?,
        };
        let whole = stores.null_count() == 0
            && columns.names.null_count() == 0
            && columns.keys.null_count() == 0;
        let within =
            |index: &i16| usize::try_from(*index).is_ok_and(|index| index < columns.names.len());
        (whole && stores.keys().values().iter().all(within)).then_some(columns)
    }

    fn record(self, i: usize) -> Record<'a> {
        // `of` has checked every index, so none is negative.
        let store = self
            .names
            .value(self.stores.keys().value(i).unsigned_abs().into());
        Record {
            store,
            key: self.keys.value(i),
            value: self.values.is_valid(i).then(|| self.values.value(i)),
            timestamp: self
                .timestamps
                .is_valid(i)
                .then(|| Timestamp(self.timestamps.value(i))),
        }
    }
}
