//! Functions that need each value of a group. The values are in a store of their own.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, ListArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use holdfast_core::store::windowed::ordered;
use holdfast_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::Xxh3Default;

use super::counted_items::CountedItems;
use super::stored_items::{StoredItem, decode_count, push_prefix, read};
use crate::codec::float;
use crate::codec::row::RowCodec;
use crate::operator::aggregate::functions::accumulator::{
    Access, Accumulator, check_row_size, column, unreadable,
};
use crate::operator::aggregate::groups::{Assigned, GroupMerge};
use crate::operator::input::InputRows;

/// Which result is computed from the values. All functions ignore nulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemsFunction {
    /// The number of distinct values.
    CountDistinct,
    /// All values, by time and then by value; if rows have no time, in the order of the rows.
    List,
    /// The distinct values, in the order of their bytes.
    Set,
}

/// The values of one column.
pub struct Items {
    kind: ItemsFunction,
    number: u16,
    column: usize,
    field: Arc<Field>,
    codec: RowCodec,
    timed: bool,
    /// By group: the number of distinct values; for a list, the number of added values.
    counts: Vec<i64>,
    /// By group: whether it has no items, because it was not stored and no value has been added.
    is_empty: Vec<bool>,
    /// By group: the items that have been read for the next results. A group may be part of many
    /// results.
    read: HashMap<usize, Vec<StoredItem>>,
}

impl Items {
    /// The values of a column of the input, for the result's column `number`.
    ///
    /// # Errors
    /// `InvalidType` for a column whose values cannot be stored, `InvalidValue` for too many
    /// columns.
    pub fn new(
        kind: ItemsFunction,
        number: usize,
        column: usize,
        field: &Field,
        timed: bool,
    ) -> Result<Self> {
        let number = u16::try_from(number).map_err(|_| {
            Error::new(
                ErrorKind::InvalidValue,
                "an aggregation has more than 65,536 columns",
            )
        })?;
        let element = Arc::new(Field::new("element", field.data_type().clone(), false));
        Ok(Self {
            kind,
            number,
            column,
            field: element,
            codec: RowCodec::new([field])?,
            timed,
            counts: Vec::new(),
            is_empty: Vec::new(),
            read: HashMap::new(),
        })
    }

    fn prefix(&self, group: usize, access: &Access<'_>) -> Vec<u8> {
        let mut prefix = Vec::with_capacity(access.groups.key(group).len() + 32);
        push_prefix(self.number, group, access.groups, &mut prefix);
        prefix
    }

    fn items(&self, group: usize, access: &mut Access<'_>) -> Result<Vec<StoredItem>> {
        read(&self.prefix(group, access), access)
    }

    /// The value of an item.
    fn value<'a>(&self, item: &'a StoredItem) -> &'a [u8] {
        let before = if self.kind == ItemsFunction::List {
            8
        } else {
            0
        };
        item.rest.get(before..).unwrap_or_default()
    }

    /// Checks that a row of the result fits into a frame and into the offsets of an Arrow column.
    fn check_size(&self, bytes: usize, key: &[u8]) -> Result<()> {
        let function = match self.kind {
            ItemsFunction::CountDistinct => return Ok(()),
            ItemsFunction::List => "collect_list",
            ItemsFunction::Set => "collect_set",
        };
        let advice = "collect them over a shorter window or by more columns, or store the rows \
                      themselves (materialize)";
        check_row_size(bytes, function, advice, key)
    }

    /// Returns how many bytes a result takes while it is built; it saturates for a corrupt count.
    fn size<'a>(&self, items: impl Iterator<Item = &'a StoredItem>) -> usize {
        let size = |item: &StoredItem| {
            let value = self.value(item).len().max(size_of::<&[u8]>());
            value.saturating_mul(usize::try_from(item.count).unwrap_or(usize::MAX))
        };
        items.fold(0, |bytes: usize, item| bytes.saturating_add(size(item)))
    }

    /// Adds items to the store.
    fn add(&mut self, added: &CountedItems, access: &mut Access<'_>) -> Result<()> {
        let order = added.in_order(access.groups);
        let keys = added.keys(self.number, &order, access.groups);
        // One read of the stored counts, in the order of the keys; none for a group without items.
        let is_read = |n: &usize| !self.is_empty[added.group(order[*n])];
        let read: Vec<usize> = (0..order.len()).filter(is_read).collect();
        let wanted: Vec<&[u8]> = read.iter().map(|n| keys.get(*n)).collect();
        let mut found = vec![0; order.len()];
        access.items.get_batch(access.tx, &wanted, |n, count| {
            found[read[n]] = count.map_or(0, decode_count)
        })?;
        let mut changed = Vec::with_capacity(order.len());
        for (n, (item, found)) in order.iter().zip(found).enumerate() {
            let group = added.group(*item);
            self.is_empty[group] = false;
            let count = if self.kind == ItemsFunction::List {
                found.saturating_add(added.count(*item))
            } else {
                self.counts[group] += i64::from(found == 0);
                1
            };
            if count != found {
                changed.push((n, count.to_be_bytes()));
            }
        }
        let rows = changed
            .iter()
            .map(|(n, count)| (keys.get(*n), Some(count.as_slice())));
        access.items.put_batch(access.tx, rows)
    }

    /// Normalizes floats among the values. In a list, their bytes then sort as the values;
    /// otherwise, equal values then have equal bytes.
    fn values(&self, values: &ArrayRef) -> ArrayRef {
        if self.kind == ItemsFunction::List {
            float::for_ordering(values)
        } else {
            float::for_equality(values)
        }
    }
}

impl Accumulator for Items {
    fn state_types(&self) -> Vec<DataType> {
        vec![DataType::Int64]
    }

    fn load(&mut self, state: &[ArrayRef]) -> Result<()> {
        let counts = state[0]
            .as_primitive_opt::<Int64Type>()
            .ok_or_else(|| unreadable("count_distinct, collect_list, collect_set"))?;
        self.counts = counts.iter().map(|count| count.unwrap_or(0)).collect();
        // The items of a window that was over, or that a new one replaces, have been deleted.
        self.is_empty = (0..counts.len())
            .map(|group| counts.is_null(group))
            .collect();
        // The cached items belong to the groups that were loaded before.
        self.read.clear();
        Ok(())
    }

    fn update(
        &mut self,
        input: &InputRows,
        rows: &[Assigned],
        access: &mut Access<'_>,
    ) -> Result<()> {
        let encoded = column(input, self.column)
            .map(|values| self.codec.encode(&[self.values(values)]))
            .collect::<Result<Vec<_>>>()?;
        let nulls: Vec<_> = column(input, self.column)
            .map(|values| values.logical_nulls())
            .collect();
        let mut added = CountedItems::default();
        for row in rows {
            let (batch, n, group) = (row.place.input(), row.place.row(), row.group as usize);
            if nulls[batch].as_ref().is_some_and(|nulls| nulls.is_null(n)) {
                continue;
            }
            let value = encoded[batch].get(n);
            if self.kind != ItemsFunction::List {
                added.add(row.group, [value, &[]], 1);
                continue;
            }
            let order = if self.timed {
                input.time(row.place).unwrap_or(i64::MIN)
            } else {
                self.counts[group]
            };
            self.counts[group] += 1;
            added.add(row.group, [&ordered(order), value], 1);
        }
        self.add(&added, access)
    }

    fn merge(&mut self, merges: &[GroupMerge], access: &mut Access<'_>) -> Result<()> {
        let mut added = CountedItems::default();
        for merge in merges {
            for group in merge.parts.iter().filter(|group| **group != merge.into) {
                for item in self.items(*group, access)? {
                    added.add(merge.into as u32, [&item.rest, &[]], item.count);
                }
                if self.kind == ItemsFunction::List {
                    self.counts[merge.into] += self.counts[*group];
                }
                self.delete_items(*group, access)?;
            }
        }
        self.add(&added, access)
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(Int64Array::from(self.counts.clone()))])
    }

    fn result(
        &mut self,
        unions: &[&[usize]],
        access: &mut Access<'_>,
        digest: &mut Xxh3Default,
    ) -> Result<ArrayRef> {
        let is_single = unions.iter().all(|groups| groups.len() == 1);
        if self.kind == ItemsFunction::CountDistinct && is_single {
            return Ok(Arc::new(
                unions
                    .iter()
                    .map(|groups| groups.first().map(|group| self.counts[*group]))
                    .collect::<Int64Array>(),
            ));
        }
        let mut items = std::mem::take(&mut self.read);
        for group in unions.iter().copied().flatten() {
            if !items.contains_key(group) {
                items.insert(*group, self.items(*group, access)?);
            }
        }
        let (mut lengths, mut values) = (Vec::with_capacity(unions.len()), Vec::new());
        for groups in unions {
            let before = values.len();
            if let Some(first) = groups.first() {
                let items = groups.iter().filter_map(|group| items.get(group)).flatten();
                self.check_size(self.size(items), access.groups.key(*first))?;
            }
            let found = groups.iter().filter_map(|group| items.get(group)).flatten();
            if self.kind == ItemsFunction::List {
                values.extend(found.flat_map(|item| {
                    std::iter::repeat_n(
                        self.value(item),
                        usize::try_from(item.count).unwrap_or(usize::MAX),
                    )
                }));
            } else {
                values.extend(found.map(|item| self.value(item)).collect::<BTreeSet<_>>());
            }
            lengths.push(values.len() - before);
        }
        for value in &values {
            digest.update(&(value.len() as u64).to_be_bytes());
            digest.update(value);
        }
        if self.kind == ItemsFunction::CountDistinct {
            return Ok(Arc::new(
                lengths
                    .into_iter()
                    .map(|length| Some(length as i64))
                    .collect::<Int64Array>(),
            ));
        }
        let elements = self
            .codec
            .decode(values.into_iter().map(Some))?
            .swap_remove(0);
        // A corrupt value may decode to null, but the elements of these lists must not be null.
        let lists = ListArray::try_new(
            Arc::clone(&self.field),
            OffsetBuffer::from_lengths(lengths),
            elements,
            None,
        );
        Ok(Arc::new(
            lists.map_err(|_| unreadable("collect_list, collect_set"))?,
        ))
    }

    fn item_bytes(&mut self, group: usize, access: &mut Access<'_>) -> Result<usize> {
        if self.kind == ItemsFunction::CountDistinct {
            return Ok(0);
        }
        if !self.read.contains_key(&group) {
            let items = self.items(group, access)?;
            self.read.insert(group, items);
        }
        Ok(self.size(self.read.get(&group).into_iter().flatten()))
    }

    fn has_items(&self) -> bool {
        true
    }

    fn delete_items(&self, group: usize, access: &mut Access<'_>) -> Result<()> {
        let prefix = self.prefix(group, access);
        let items = self.items(group, access)?;
        items.iter().try_for_each(|item| {
            access
                .items
                .put(access.tx, &[prefix.as_slice(), &item.rest].concat(), None)
        })
    }

    fn needs_order(&self) -> bool {
        self.kind == ItemsFunction::List && !self.timed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::frame::MAX_PAYLOAD;

    #[test]
    fn a_row_larger_than_a_frame_names_the_function_and_the_key() {
        let items = Items::new(
            ItemsFunction::List,
            0,
            6,
            &Field::new("l0", DataType::Utf8, true),
            true,
        )
        .expect("supported");
        items
            .check_size(MAX_PAYLOAD as usize, b"EUR")
            .expect("it just fits");
        let error = items
            .check_size(MAX_PAYLOAD as usize + 1, b"EUR")
            .expect_err("too large");
        assert_eq!(error.kind(), ErrorKind::Serialization);
        assert!(
            error.to_string().contains("collect_list") && error.to_string().contains("[key: EUR]"),
            "{error}"
        );
    }

    #[test]
    fn corrupt_counts_exceed_every_size_limit() {
        let items = Items::new(
            ItemsFunction::List,
            0,
            6,
            &Field::new("l0", DataType::Utf8, true),
            true,
        )
        .expect("supported");
        // Eight bytes of order, then the value.
        let item = |rest: &[u8], count| StoredItem {
            rest: rest.to_vec(),
            count,
        };
        let longer_than_a_pointer = item(b"01234567abcdefghijklmnopqrst", 2);
        assert_eq!(
            items.size([item(b"01234567ab", 3), longer_than_a_pointer].iter()),
            3 * 16 + 2 * 20
        );
        for corrupt in [item(b"01234567ab", u64::MAX), item(b"", u64::MAX)] {
            assert_eq!(
                items.size([corrupt, item(b"01234567ab", 3)].iter()),
                usize::MAX
            );
        }
    }
}
