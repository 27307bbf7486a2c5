//! Picked values of any type. They are compared and stored as bytes (`codec/row.rs`), whose order
//! is SQL's.

use arrow_array::{Array, ArrayRef, LargeBinaryArray};
use arrow_schema::{DataType, Field};
use holdfast_core::Result;
use xxhash_rust::xxh3::Xxh3Default;

use super::pick::Pick;
use super::picked_state::PickedState;
use crate::codec::float;
use crate::codec::row::{EncodedRows, RowCodec};
use crate::operator::aggregate::functions::accumulator::{Access, Accumulator, column};
use crate::operator::aggregate::groups::{Assigned, GroupMerge};
use crate::operator::batch_size::ranges;
use crate::operator::input::{InputRows, RowPlace};

/// One value for each group.
pub struct PickedBytes {
    pick: Pick,
    codec: RowCodec,
    /// Whether values have floats inside them.
    has_inner_floats: bool,
    picked: Vec<Option<Picked>>,
}

/// A value and what it is compared by, in this order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Picked {
    time: i64,
    bytes: PickedValue<Box<[u8]>>,
}

/// The bytes of a value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PickedValue<B> {
    /// If the value has floats inside it: its bytes with positive zeros. Otherwise the sign of an
    /// inner zero would decide before the fields after it.
    unsigned: Option<B>,
    value: Option<B>,
}

impl<B: AsRef<[u8]>> PickedValue<B> {
    fn borrowed(&self) -> PickedValue<&[u8]> {
        PickedValue {
            unsigned: self.unsigned.as_ref().map(AsRef::as_ref),
            value: self.value.as_ref().map(AsRef::as_ref),
        }
    }

    fn owned(&self) -> PickedValue<Box<[u8]>> {
        PickedValue {
            unsigned: self.unsigned.as_ref().map(|bytes| bytes.as_ref().into()),
            value: self.value.as_ref().map(|bytes| bytes.as_ref().into()),
        }
    }
}

impl PickedBytes {
    /// Picks values of a column of this field.
    ///
    /// # Errors
    /// `InvalidType` for a column whose values cannot be stored.
    pub fn new(pick: Pick, field: &Field) -> Result<Self> {
        Ok(Self {
            pick,
            codec: RowCodec::new([field])?,
            has_inner_floats: float::are_inside(field.data_type()),
            picked: Vec::new(),
        })
    }

    /// Encodes values with positive zeros, if they have floats inside them.
    fn encode_unsigned(&self, values: &ArrayRef) -> Result<Option<EncodedRows>> {
        self.has_inner_floats
            .then(|| self.codec.encode(&[float::for_equality(values)]))
            .transpose()
    }

    /// Encodes stored values with positive zeros; None for null.
    ///
    /// In parts: the offsets of a column of all values may be larger than 32 bits.
    fn unsigned_of(&self, values: &LargeBinaryArray) -> Result<Vec<Option<Box<[u8]>>>> {
        let mut unsigned = Vec::with_capacity(values.len());
        let bytes = |row| usize::try_from(values.value_length(row)).unwrap_or(usize::MAX);
        for rows in ranges(values.len(), bytes) {
            let part = values.slice(rows.start, rows.len());
            let decoded = self.codec.decode(part.iter())?.swap_remove(0);
            let encoded = self.encode_unsigned(&decoded)?;
            unsigned.extend((0..part.len()).map(|row| {
                let rows = encoded.as_ref().filter(|_| part.is_valid(row))?;
                Some(rows.get(row).into())
            }));
        }
        Ok(unsigned)
    }

    fn union(&self, groups: &[usize]) -> Option<&Picked> {
        self.pick.union(&self.picked, groups, Ord::cmp)
    }
}

impl Accumulator for PickedBytes {
    fn state_types(&self) -> Vec<DataType> {
        PickedState::types()
    }

    fn load(&mut self, state: &[ArrayRef]) -> Result<()> {
        let state = PickedState::of(state)?;
        let values = state.values;
        let mut unsigned = if self.has_inner_floats {
            self.unsigned_of(values)?
        } else {
            vec![None; values.len()]
        };
        let picked = (0..state.groups()).map(|group| {
            let bytes = PickedValue {
                unsigned: unsigned[group].take(),
                value: values.is_valid(group).then(|| values.value(group).into()),
            };
            Some(Picked {
                time: state.time(group)?,
                bytes,
            })
        });
        self.picked = picked.collect();
        Ok(())
    }

    fn update(&mut self, input: &InputRows, rows: &[Assigned], _: &mut Access<'_>) -> Result<()> {
        let pick = self.pick;
        let values = || column(input, pick.column);
        let encoded = values()
            .map(|values| self.codec.encode(&[float::for_ordering(values)]))
            .collect::<Result<Vec<_>>>()?;
        let unsigned = values()
            .map(|values| self.encode_unsigned(values))
            .collect::<Result<Vec<_>>>()?;
        let nulls: Vec<_> = values().map(|values| values.logical_nulls()).collect();
        let is_null = |place: RowPlace| {
            let nulls = nulls[place.input()].as_ref();
            nulls.is_some_and(|nulls| nulls.is_null(place.row()))
        };
        let bytes = |place: RowPlace| {
            let (batch, n, is_value) = (place.input(), place.row(), !is_null(place));
            let unsigned = unsigned[batch].as_ref().filter(|_| is_value);
            PickedValue {
                unsigned: unsigned.map(|rows| rows.get(n)),
                value: is_value.then(|| encoded[batch].get(n)),
            }
        };
        // By group: the place of the best new row, if it is better than the value that was picked
        // before. Only its bytes are copied, when all rows have been compared.
        let mut best: Vec<Option<(i64, RowPlace)>> = vec![None; self.picked.len()];
        for row in rows {
            let (place, group) = (row.place, row.group as usize);
            let inputs = &input.inputs[place.input()];
            let Some(time) = pick.time(inputs, place.row(), is_null(place)) else {
                continue;
            };
            let is_better = match (best[group], &self.picked[group]) {
                (Some((old_time, old)), _) => pick.replaces(|| {
                    let values = || bytes(place).cmp(&bytes(old));
                    time.cmp(&old_time).then_with(values)
                }),
                (None, Some(old)) => pick.replaces(|| {
                    let values = || bytes(place).cmp(&old.bytes.borrowed());
                    time.cmp(&old.time).then_with(values)
                }),
                (None, None) => true,
            };
            if is_better {
                best[group] = Some((time, place));
            }
        }
        for (picked, best) in self.picked.iter_mut().zip(best) {
            if let Some((time, place)) = best {
                let bytes = bytes(place).owned();
                *picked = Some(Picked { time, bytes });
            }
        }
        Ok(())
    }

    fn merge(&mut self, merges: &[GroupMerge], _: &mut Access<'_>) -> Result<()> {
        for merge in merges {
            self.picked[merge.into] = self.union(&merge.parts).cloned();
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        let picked = self.picked.iter();
        let values = picked.clone().map(|picked| value(picked.as_ref()));
        let values: LargeBinaryArray = values.collect();
        let times = picked.map(|picked| picked.as_ref().map(|picked| picked.time));
        Ok(PickedState::columns(times, values))
    }

    fn result(
        &mut self,
        unions: &[&[usize]],
        _: &mut Access<'_>,
        _: &mut Xxh3Default,
    ) -> Result<ArrayRef> {
        let values = unions.iter().map(|groups| value(self.union(groups)));
        Ok(self.codec.decode(values)?.swap_remove(0))
    }

    fn needs_order(&self) -> bool {
        self.pick.needs_order()
    }
}

/// The bytes of a picked value; `None` for null, and for no value.
fn value(picked: Option<&Picked>) -> Option<&[u8]> {
    picked.and_then(|picked| picked.bytes.value.as_deref())
}
