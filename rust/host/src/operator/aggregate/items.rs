//! Single values of a group, kept in a store of their own: distinct values, lists, sets.
//!
//! ```text
//! key part of the group's key | start, 8 bytes, sign flipped | number of the column, 2 bytes | order | value  →  how often
//! order   of a list the row's time (or, without times, a running number), 8 bytes, sign flipped; else nothing
//! how often   8 bytes, big-endian; 1 but in a list
//! ```

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, ListArray, RecordBatch};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use holdfast_core::{Error, ErrorKind, Result, Step};
use xxhash_rust::xxh3::Xxh3Default;

use super::accumulator::{Access, Accumulator, Assigned, unreadable};
use crate::row::RowCodec;

/// What is made of the values. Nulls are left out of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// How many different ones.
    CountDistinct,
    /// All, by time and then by value.
    List,
    /// The different ones, in their order.
    Set,
}

/// The values of one column.
pub struct Items {
    kind: Kind,
    number: u16,
    column: usize,
    field: Arc<Field>,
    codec: RowCodec,
    timed: bool,
    /// How many different values, or (lists without times) how many were added.
    counts: Vec<i64>,
}

impl Items {
    /// The values of a column of the input, for the result's column `number`.
    ///
    /// # Errors
    /// `InvalidType` for a column whose values cannot be kept, `InvalidValue` for too many columns.
    pub fn new(kind: Kind, number: usize, column: usize, field: &Field, timed: bool) -> Result<Self> {
        let number =
            u16::try_from(number).map_err(|_| Error::new(ErrorKind::InvalidValue, "an aggregation has more than 65,535 columns"))?;
        let element = Arc::new(Field::new("element", field.data_type().clone(), false));
        Ok(Self { kind, number, column, field: element, codec: RowCodec::new([field])?, timed, counts: Vec::new() })
    }

    fn prefix(&self, group: usize, access: &Access<'_>) -> Vec<u8> {
        let mut prefix = Vec::with_capacity(access.groups.key(group).len() + 32);
        for byte in access.groups.key(group) {
            prefix.push(*byte);
            if *byte == 0 {
                prefix.push(0xff);
            }
        }
        prefix.extend_from_slice(&[0, 1]);
        prefix.extend_from_slice(&ordered(access.groups.start(group)));
        prefix.extend_from_slice(&self.number.to_be_bytes());
        prefix
    }

    /// The values of a group with how often each is there, in the order of their keys.
    fn values(&self, group: usize, access: &mut Access<'_>) -> Result<Vec<(Vec<u8>, u64)>> {
        let prefix = self.prefix(group, access);
        let before = prefix.len() + if self.kind == Kind::List { 8 } else { 0 };
        let mut values = Vec::new();
        access.items.prefix_scan(access.tx, &prefix, false)?.for_each(&mut |key, count| {
            let count = count.first_chunk().map_or(1, |count| u64::from_be_bytes(*count));
            values.push((key.get(before..).unwrap_or_default().to_vec(), count));
            Step::Next
        })?;
        Ok(values)
    }
}

fn ordered(number: i64) -> [u8; 8] {
    (number as u64 ^ (1 << 63)).to_be_bytes()
}

impl Accumulator for Items {
    fn state_types(&self) -> Vec<DataType> {
        vec![DataType::Int64]
    }

    fn load(&mut self, state: &[ArrayRef]) -> Result<()> {
        let kept = state[0].as_primitive_opt::<Int64Type>().ok_or_else(|| unreadable("count_distinct, collect_list, collect_set"))?;
        self.counts = kept.iter().map(|count| count.unwrap_or(0)).collect();
        Ok(())
    }

    fn update(&mut self, batches: &[&RecordBatch], rows: &[Assigned], access: &mut Access<'_>) -> Result<()> {
        let column = |batch: &&RecordBatch| Arc::clone(batch.column(self.column));
        let encoded = batches.iter().map(|batch| self.codec.encode(&[column(batch)])).collect::<Result<Vec<_>>>()?;
        let nulls: Vec<_> = batches.iter().map(|batch| column(batch).logical_nulls()).collect();
        // All new values first, then one read of what is there, in the order of the keys.
        let mut items: Vec<(Vec<u8>, usize)> = Vec::with_capacity(rows.len());
        for row in rows {
            let (input, n, group) = (row.place.input(), row.place.row(), row.group as usize);
            if nulls[input].as_ref().is_some_and(|nulls| nulls.is_null(n)) {
                continue;
            }
            let mut key = self.prefix(group, access);
            if self.kind == Kind::List {
                let order = if self.timed { row.time } else { self.counts[group] };
                key.extend_from_slice(&ordered(order));
                self.counts[group] += 1;
            }
            key.extend_from_slice(encoded[input].get(n));
            items.push((key, group));
        }
        items.sort_unstable();
        let distinct: Vec<&[(Vec<u8>, usize)]> = items.chunk_by(|a, b| a.0 == b.0).collect();
        let keys: Vec<&[u8]> = distinct.iter().map(|same| same[0].0.as_slice()).collect();
        let mut found = vec![0; keys.len()];
        access.items.get_batch(access.tx, &keys, |n, count| {
            found[n] = count.and_then(|count| count.first_chunk()).map_or(0, |count| u64::from_be_bytes(*count));
        })?;
        for (same, found) in distinct.iter().zip(found) {
            let (key, group) = &same[0];
            let count = if self.kind == Kind::List { found + same.len() as u64 } else { 1 };
            if self.kind != Kind::List && found == 0 {
                self.counts[*group] += 1;
            }
            if count != found {
                access.items.put(access.tx, key, Some(&count.to_be_bytes()))?;
            }
        }
        Ok(())
    }

    fn state(&self) -> Vec<ArrayRef> {
        vec![Arc::new(Int64Array::from(self.counts.clone()))]
    }

    fn result(&self, groups: &[usize], access: &mut Access<'_>, digest: &mut Xxh3Default) -> Result<ArrayRef> {
        if self.kind == Kind::CountDistinct {
            return Ok(Arc::new(groups.iter().map(|group| Some(self.counts[*group])).collect::<Int64Array>()));
        }
        let (mut lengths, mut values) = (Vec::with_capacity(groups.len()), Vec::new());
        for group in groups {
            let before = values.len();
            for (value, count) in self.values(*group, access)? {
                digest.update(&(value.len() as u64).to_be_bytes());
                digest.update(&value);
                values.extend(std::iter::repeat_n(value, usize::try_from(count).unwrap_or(usize::MAX)));
            }
            lengths.push(values.len() - before);
        }
        let elements = self.codec.decode(values.iter().map(|value| Some(value.as_slice())))?.swap_remove(0);
        Ok(Arc::new(ListArray::new(Arc::clone(&self.field), OffsetBuffer::from_lengths(lengths), elements, None)))
    }

    fn keeps_items(&self) -> bool {
        true
    }

    fn forget(&self, group: usize, access: &mut Access<'_>) -> Result<()> {
        let prefix = self.prefix(group, access);
        let mut keys = Vec::new();
        access.items.prefix_scan(access.tx, &prefix, false)?.for_each(&mut |key, _| {
            keys.push(key.to_vec());
            Step::Next
        })?;
        keys.iter().try_for_each(|key| access.items.put(access.tx, key, None))
    }

    fn needs_order(&self) -> bool {
        self.kind == Kind::List && !self.timed
    }
}
