//! Single values of a group, kept in a store of their own: distinct values, lists, sets.
//!
//! ```text
//! key part of the group's key | start, 8 bytes, sign flipped | number of the column, 2 bytes
//!         | order | value  →  how often
//! order   of a list the row's time (or, without times, a running number), 8 bytes, sign
//!         flipped; else nothing
//! how often   8 bytes, big-endian; 1 but in a list
//! ```

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, ListArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use holdfast_core::store::key_part::{push_key, push_key_part};
use holdfast_core::store::windowed::{ordered, split_row};
use holdfast_core::{Error, ErrorKind, KeyValueStore, Result, Step, Transaction};
use xxhash_rust::xxh3::Xxh3Default;

use super::accumulator::{Access, Accumulator, Assigned, Merge, column, unreadable};
use super::windows::Windows;
use crate::codec::float;
use crate::codec::row::RowCodec;
use crate::net::frame::MAX_PAYLOAD;
use crate::operator::batch::{BATCH_BYTES, BATCH_ROWS};
use crate::operator::rows::Rows;

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
    /// What was read of groups for the next results; a group may be part of many.
    read: HashMap<usize, Vec<Item>>,
}

impl Items {
    /// The values of a column of the input, for the result's column `number`.
    ///
    /// # Errors
    /// `InvalidType` for a column whose values cannot be kept, `InvalidValue` for too many columns.
    pub fn new(
        kind: Kind,
        number: usize,
        column: usize,
        field: &Field,
        timed: bool,
    ) -> Result<Self> {
        let number = u16::try_from(number).map_err(|_| {
            Error::new(
                ErrorKind::InvalidValue,
                "an aggregation has more than 65,535 columns",
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
            read: HashMap::new(),
        })
    }

    fn prefix(&self, group: usize, access: &Access<'_>) -> Vec<u8> {
        let mut prefix = Vec::with_capacity(access.groups.key(group).len() + 32);
        push_key_part(access.groups.key(group), &mut prefix);
        prefix.extend_from_slice(&ordered(access.groups.start(group)));
        prefix.extend_from_slice(&self.number.to_be_bytes());
        prefix
    }

    /// What is kept of a group, in the order of the keys: each without the group's part of the key.
    fn items(&self, group: usize, access: &mut Access<'_>) -> Result<Vec<Item>> {
        let prefix = self.prefix(group, access);
        let mut items = Vec::new();
        access
            .items
            .prefix_scan(access.tx, &prefix, None, false)?
            .for_each(&mut |key, count| {
                items.push(Item {
                    rest: key.get(prefix.len()..).unwrap_or_default().to_vec(),
                    count: number(count),
                });
                Step::Next
            })?;
        Ok(items)
    }

    /// The bytes of a value in an item.
    fn value<'a>(&self, item: &'a Item) -> &'a [u8] {
        let before = if self.kind == Kind::List { 8 } else { 0 };
        item.rest.get(before..).unwrap_or_default()
    }

    /// Refuses a row of the result that no frame takes, and whose offsets Arrow may not be able to
    /// say.
    fn check_size(&self, bytes: usize, key: &[u8]) -> Result<()> {
        if self.kind == Kind::CountDistinct || bytes <= MAX_PAYLOAD as usize {
            return Ok(());
        }
        let function = if self.kind == Kind::List {
            "collect_list"
        } else {
            "collect_set"
        };
        let text = format!(
            "aggregate: what {function} gathers in one row of the result is {bytes} bytes, and a \
             row has at most {MAX_PAYLOAD}: gather it over a shorter window or by more columns, \
             or keep the rows themselves (materialize)"
        );
        Err(Error::new(ErrorKind::Serialization, text).key(key))
    }

    /// How many bytes a result of items takes while it is put together. A count that is damaged may
    /// be any number.
    fn size<'a>(&self, items: impl Iterator<Item = &'a Item>) -> usize {
        let size = |item: &Item| {
            let value = self.value(item).len().max(size_of::<&[u8]>());
            value.saturating_mul(usize::try_from(item.count).unwrap_or(usize::MAX))
        };
        items.fold(0, |bytes: usize, item| bytes.saturating_add(size(item)))
    }

    /// Adds to what is kept: items of groups, each with how often.
    fn add(
        &mut self,
        mut added: Vec<(Vec<u8>, usize, u64)>,
        access: &mut Access<'_>,
    ) -> Result<()> {
        added.sort_unstable();
        let distinct: Vec<&[(Vec<u8>, usize, u64)]> = added.chunk_by(|a, b| a.0 == b.0).collect();
        let keys: Vec<&[u8]> = distinct.iter().map(|same| same[0].0.as_slice()).collect();
        // One read of what is there, in the order of the keys.
        let mut found = vec![0; keys.len()];
        access.items.get_batch(access.tx, &keys, |n, count| {
            found[n] = count.map_or(0, number)
        })?;
        for (same, found) in distinct.iter().zip(found) {
            let (key, group, _) = &same[0];
            // No count is lost that way, not even beside a damaged one.
            let all = same
                .iter()
                .fold(found, |all, (_, _, count)| all.saturating_add(*count));
            let count = if self.kind == Kind::List { all } else { 1 };
            if self.kind != Kind::List && found == 0 {
                self.counts[*group] += 1;
            }
            if count != found {
                access
                    .items
                    .put(access.tx, key, Some(&count.to_be_bytes()))?;
            }
        }
        Ok(())
    }

    /// The values as they are told apart, or (of a list) put in order.
    fn values(&self, values: &ArrayRef) -> ArrayRef {
        if self.kind == Kind::List {
            float::for_ordering(values)
        } else {
            float::for_equality(values)
        }
    }
}

/// Deletes what is kept of windows that were closed before the epoch, a batch of keys at a time: of
/// those that no epoch has closed nothing else would.
pub fn sweep(items: &KeyValueStore, windows: &dyn Windows, tx: &mut Transaction) -> Result<()> {
    let mut scan = items.range(tx, None, None, false)?;
    // The window of the last key, and whether it is over.
    let (mut window, mut is_over) = (None, false);
    loop {
        let (mut keys, mut bytes) = (Vec::<Vec<u8>>::new(), 0);
        scan.for_each(&mut |key, _| {
            keys.push(key.to_vec());
            bytes += key.len();
            if keys.len() == BATCH_ROWS || bytes >= BATCH_BYTES {
                Step::Pause
            } else {
                Step::Next
            }
        })?;
        if keys.is_empty() {
            return Ok(());
        }
        for item in &keys {
            let Some((part, start, _)) = split_row(item) else {
                continue;
            };
            let mut key = Vec::with_capacity(part.len());
            push_key(part, &mut key);
            let of_item = Some((key, start));
            if of_item != window {
                is_over = match &of_item {
                    Some((key, start)) => windows.was_over(key, *start, tx)?,
                    None => false,
                };
                window = of_item;
            }
            if is_over {
                items.put(tx, item, None)?;
            }
        }
    }
}

/// A value that is kept: the end of its key, and how often it is there.
struct Item {
    rest: Vec<u8>,
    count: u64,
}

fn number(count: &[u8]) -> u64 {
    count
        .first_chunk()
        .map_or(1, |count| u64::from_be_bytes(*count))
}

impl Accumulator for Items {
    fn state_types(&self) -> Vec<DataType> {
        vec![DataType::Int64]
    }

    fn load(&mut self, state: &[ArrayRef]) -> Result<()> {
        let kept = state[0]
            .as_primitive_opt::<Int64Type>()
            .ok_or_else(|| unreadable("count_distinct, collect_list, collect_set"))?;
        self.counts = kept.iter().map(|count| count.unwrap_or(0)).collect();
        Ok(())
    }

    fn update(&mut self, input: &Rows, rows: &[Assigned], access: &mut Access<'_>) -> Result<()> {
        let encoded = column(input, self.column)
            .map(|values| self.codec.encode(&[self.values(values)]))
            .collect::<Result<Vec<_>>>()?;
        let nulls: Vec<_> = column(input, self.column)
            .map(|values| values.logical_nulls())
            .collect();
        let mut added = Vec::with_capacity(rows.len());
        for row in rows {
            let (input, n, group) = (row.place.input(), row.place.row(), row.group as usize);
            if nulls[input].as_ref().is_some_and(|nulls| nulls.is_null(n)) {
                continue;
            }
            let mut key = self.prefix(group, access);
            if self.kind == Kind::List {
                let order = if self.timed {
                    row.time
                } else {
                    self.counts[group]
                };
                key.extend_from_slice(&ordered(order));
                self.counts[group] += 1;
            }
            key.extend_from_slice(encoded[input].get(n));
            added.push((key, group, 1));
        }
        self.add(added, access)
    }

    fn merge(&mut self, merges: &[Merge], access: &mut Access<'_>) -> Result<()> {
        let mut added = Vec::new();
        for merge in merges {
            let into = self.prefix(merge.into, access);
            for group in merge.parts.iter().filter(|group| **group != merge.into) {
                for item in self.items(*group, access)? {
                    added.push((
                        [into.as_slice(), &item.rest].concat(),
                        merge.into,
                        item.count,
                    ));
                }
                if self.kind == Kind::List {
                    self.counts[merge.into] += self.counts[*group];
                }
                self.forget(*group, access)?;
            }
        }
        self.add(added, access)
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
        if self.kind == Kind::CountDistinct && is_single {
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
            if self.kind == Kind::List {
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
        if self.kind == Kind::CountDistinct {
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
        // A value that is damaged may be null, and no element is.
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
        if self.kind == Kind::CountDistinct {
            return Ok(0);
        }
        if !self.read.contains_key(&group) {
            let items = self.items(group, access)?;
            self.read.insert(group, items);
        }
        Ok(self.size(self.read.get(&group).into_iter().flatten()))
    }

    fn keeps_items(&self) -> bool {
        true
    }

    fn forget(&self, group: usize, access: &mut Access<'_>) -> Result<()> {
        let prefix = self.prefix(group, access);
        let items = self.items(group, access)?;
        items.iter().try_for_each(|item| {
            access
                .items
                .put(access.tx, &[prefix.as_slice(), &item.rest].concat(), None)
        })
    }

    fn needs_order(&self) -> bool {
        self.kind == Kind::List && !self.timed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_gathers_more_than_goes_out_names_the_function_and_the_key() {
        let items = Items::new(
            Kind::List,
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
    fn counts_that_are_damaged_come_to_more_than_goes_out() {
        let items = Items::new(
            Kind::List,
            0,
            6,
            &Field::new("l0", DataType::Utf8, true),
            true,
        )
        .expect("supported");
        // Eight bytes of order, then the value.
        let item = |rest: &[u8], count| Item {
            rest: rest.to_vec(),
            count,
        };
        let longer_than_a_pointer = item(b"01234567abcdefghijklmnopqrst", 2);
        assert_eq!(
            items.size([item(b"01234567ab", 3), longer_than_a_pointer].iter()),
            3 * 16 + 2 * 20
        );
        for damaged in [item(b"01234567ab", u64::MAX), item(b"", u64::MAX)] {
            assert_eq!(
                items.size([damaged, item(b"01234567ab", 3)].iter()),
                usize::MAX
            );
        }
    }
}
