//! One value of many: the least, the greatest, the first, the last. Values are compared and stored
//! as bytes (`codec/row.rs`), whose order is SQL's.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, LargeBinaryArray};
use arrow_schema::{DataType, Field};
use holdfast_core::Result;
use xxhash_rust::xxh3::Xxh3Default;

use super::accumulator::{Access, Accumulator, column, unreadable};
use crate::codec::float;
use crate::codec::row::{EncodedRows, RowCodec};
use crate::operator::aggregate::groups::{Assigned, GroupMerge};
use crate::operator::batch_size::ranges;
use crate::operator::input::InputRows;

/// Which value is picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PickFunction {
    /// The least value; nulls are ignored.
    Min,
    /// The greatest value; nulls are ignored.
    Max,
    /// The value at the least time; it may be null. If several rows have that time, it is the least
    /// of their values. Without times, it is the first row's value. If the input has times, a row
    /// without one is ignored, as in `min_by`.
    First,
    /// The value at the greatest time; it may be null. If several rows have that time, it is the
    /// greatest of their values. Without times, it is the last row's value. If the input has times,
    /// a row without one is ignored.
    Last,
}

/// One value for each group.
pub struct Pick {
    which: PickFunction,
    column: usize,
    codec: RowCodec,
    /// Whether values have floats inside them.
    has_inner_floats: bool,
    timed: bool,
    picked: Vec<Option<Picked>>,
}

/// A value and what it is compared by, in this order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Picked {
    time: i64,
    /// If the value has floats inside it: its bytes with positive zeros. Otherwise the sign of an
    /// inner zero would decide before the fields after it.
    unsigned: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
}

impl Pick {
    /// Picks values of a column. `timed` is whether the rows have times.
    ///
    /// # Errors
    /// `InvalidType` for a column whose values cannot be stored.
    pub fn new(which: PickFunction, column: usize, field: &Field, timed: bool) -> Result<Self> {
        Ok(Self {
            which,
            column,
            codec: RowCodec::new([field])?,
            has_inner_floats: float::are_inside(field.data_type()),
            timed,
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
    fn unsigned_of(&self, values: &LargeBinaryArray) -> Result<Vec<Option<Vec<u8>>>> {
        let mut unsigned = Vec::with_capacity(values.len());
        let bytes = |row| usize::try_from(values.value_length(row)).unwrap_or(usize::MAX);
        for rows in ranges(values.len(), bytes) {
            let part = values.slice(rows.start, rows.len());
            let decoded = self.codec.decode(part.iter())?.swap_remove(0);
            let encoded = self.encode_unsigned(&decoded)?;
            unsigned.extend((0..part.len()).map(|row| {
                let rows = encoded.as_ref().filter(|_| part.is_valid(row))?;
                Some(rows.get(row).to_vec())
            }));
        }
        Ok(unsigned)
    }

    fn is_by_time(&self) -> bool {
        matches!(self.which, PickFunction::First | PickFunction::Last)
    }

    /// Picks one of two values. Groups are merged only if rows have times.
    fn better<T: Ord>(&self, a: T, b: T) -> T {
        match self.which {
            PickFunction::Min | PickFunction::First => a.min(b),
            PickFunction::Max | PickFunction::Last => a.max(b),
        }
    }

    fn union(&self, groups: &[usize]) -> Option<&Picked> {
        groups
            .iter()
            .filter_map(|group| self.picked[*group].as_ref())
            .reduce(|a, b| self.better(a, b))
    }
}

impl Accumulator for Pick {
    fn state_types(&self) -> Vec<DataType> {
        // Large binary, because the values of all groups of an epoch are in one column. The stored
        // bytes of a row are the same as with binary.
        vec![DataType::Boolean, DataType::Int64, DataType::LargeBinary]
    }

    fn load(&mut self, state: &[ArrayRef]) -> Result<()> {
        let columns = (
            state[0].as_boolean_opt(),
            state[1].as_primitive_opt::<Int64Type>(),
            state[2].as_binary_opt::<i64>(),
        );
        let (Some(there), Some(times), Some(values)) = columns else {
            return Err(unreadable("min, max, first, last"));
        };
        let mut unsigned = if self.has_inner_floats {
            self.unsigned_of(values)?
        } else {
            vec![None; values.len()]
        };
        let mut picked = |n: usize| Picked {
            time: times.value(n),
            unsigned: unsigned[n].take(),
            value: values.is_valid(n).then(|| values.value(n).to_vec()),
        };
        self.picked = (0..there.len())
            .map(|n| (there.is_valid(n) && there.value(n)).then(|| picked(n)))
            .collect();
        Ok(())
    }

    fn update(&mut self, input: &InputRows, rows: &[Assigned], _: &mut Access<'_>) -> Result<()> {
        let inputs = &input.inputs;
        let values = || column(input, self.column);
        let encoded = values()
            .map(|values| self.codec.encode(&[float::for_ordering(values)]))
            .collect::<Result<Vec<_>>>()?;
        let unsigned = values()
            .map(|values| self.encode_unsigned(values))
            .collect::<Result<Vec<_>>>()?;
        let nulls: Vec<_> = values().map(|values| values.logical_nulls()).collect();
        let by_time = self.is_by_time();
        for row in rows {
            let (input, n) = (row.place.input(), row.place.row());
            let is_null = nulls[input].as_ref().is_some_and(|nulls| nulls.is_null(n));
            let is_left_out = if by_time {
                self.timed && inputs[input].time(n).is_none()
            } else {
                is_null
            };
            if is_left_out {
                continue;
            }
            let time = if by_time {
                inputs[input].time(n).unwrap_or(i64::MIN)
            } else {
                0
            };
            let value = (!is_null).then(|| encoded[input].get(n));
            let unsigned = unsigned[input].as_ref().filter(|_| !is_null);
            let unsigned = unsigned.map(|rows| rows.get(n));
            let slot = &mut self.picked[row.group as usize];
            let better = match slot {
                None => true,
                Some(old) => {
                    let (new, old) = (
                        (time, unsigned, value),
                        (old.time, old.unsigned.as_deref(), old.value.as_deref()),
                    );
                    match self.which {
                        // Without times, the order in which rows are processed decides.
                        PickFunction::First if !self.timed => false,
                        PickFunction::Last if !self.timed => true,
                        PickFunction::Min | PickFunction::First => new < old,
                        PickFunction::Max | PickFunction::Last => new > old,
                    }
                }
            };
            if better {
                *slot = Some(Picked {
                    time,
                    unsigned: unsigned.map(<[u8]>::to_vec),
                    value: value.map(<[u8]>::to_vec),
                });
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
        let there: BooleanArray = self
            .picked
            .iter()
            .map(|picked| Some(picked.is_some()))
            .collect();
        let times: Int64Array = self
            .picked
            .iter()
            .map(|picked| Some(picked.as_ref().map_or(0, |picked| picked.time)))
            .collect();
        let values: LargeBinaryArray = self
            .picked
            .iter()
            .map(|picked| picked.as_ref().and_then(|picked| picked.value.as_deref()))
            .collect();
        Ok(vec![Arc::new(there), Arc::new(times), Arc::new(values)])
    }

    fn result(
        &mut self,
        unions: &[&[usize]],
        _: &mut Access<'_>,
        _: &mut Xxh3Default,
    ) -> Result<ArrayRef> {
        let values = unions.iter().map(|groups| {
            self.union(groups)
                .and_then(|picked| picked.value.as_deref())
        });
        Ok(self.codec.decode(values)?.swap_remove(0))
    }

    fn needs_order(&self) -> bool {
        self.is_by_time() && !self.timed
    }
}
