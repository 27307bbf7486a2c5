//! Picked values of a fixed width: numbers, times, booleans. They are compared as numbers, and
//! are bytes only in the state.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{
    Array, ArrayRef, ArrowNativeTypeOp, BooleanArray, LargeBinaryArray, PrimitiveArray, UInt8Array,
};
use arrow_schema::{DataType, Field};
use holdfast_core::Result;
use xxhash_rust::xxh3::Xxh3Default;

use super::pick::Pick;
use super::picked_state::PickedState;
use crate::codec::float;
use crate::codec::row::RowCodec;
use crate::operator::aggregate::functions::accumulator::{Access, Accumulator, column, unreadable};
use crate::operator::aggregate::functions::decimal::typed;
use crate::operator::aggregate::groups::{Assigned, GroupMerge};
use crate::operator::input::InputRows;

/// One number for each group. Booleans are 0 and 1.
pub struct PickedNumbers<T: ArrowPrimitiveType> {
    pick: Pick,
    /// The type of the column.
    data_type: DataType,
    codec: RowCodec,
    picked: Vec<Option<PickedNumber<T::Native>>>,
}

/// A number, or null, with the time of its row.
#[derive(Clone, Copy)]
struct PickedNumber<N> {
    time: i64,
    value: Option<N>,
}

impl<N: ArrowNativeTypeOp> PickedNumber<N> {
    /// Compares the times, then the values. The order is that of their bytes (`codec/row.rs`):
    /// null comes first, and -0.0 directly before 0.0.
    #[inline]
    fn compare(self, other: Self) -> Ordering {
        let values = || match (self.value, other.value) {
            (Some(a), Some(b)) => a.compare(b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        self.time.cmp(&other.time).then_with(values)
    }
}

impl<T: ArrowPrimitiveType> PickedNumbers<T> {
    /// Picks values of a column of this field.
    ///
    /// # Errors
    /// `InvalidType` for a column whose values cannot be stored.
    pub fn new(pick: Pick, field: &Field) -> Result<Self> {
        Ok(Self {
            pick,
            data_type: field.data_type().clone(),
            codec: RowCodec::new([field])?,
            picked: Vec::new(),
        })
    }

    /// Returns the values of a column as numbers.
    fn numbers(values: &ArrayRef) -> Result<PrimitiveArray<T>> {
        let of_booleans = values.as_boolean_opt().map(|values| -> ArrayRef {
            let numbers = values.iter().map(|value| value.map(u8::from));
            Arc::new(numbers.collect::<UInt8Array>())
        });
        let numbers = of_booleans.as_ref().unwrap_or(values);
        numbers
            .as_primitive_opt::<T>()
            .cloned()
            .ok_or_else(|| unreadable("min, max, first, last"))
    }

    /// Returns numbers as a column of the values' type.
    fn values(&self, numbers: impl Iterator<Item = Option<T::Native>>) -> ArrayRef {
        if self.data_type == DataType::Boolean {
            let values = numbers.map(|number| number.map(|number| !number.is_zero()));
            Arc::new(values.collect::<BooleanArray>())
        } else {
            typed::<T>(numbers, &self.data_type)
        }
    }

    fn union(&self, groups: &[usize]) -> Option<PickedNumber<T::Native>> {
        let compare = |a: &PickedNumber<T::Native>, b: &PickedNumber<T::Native>| a.compare(*b);
        self.pick.union(&self.picked, groups, compare).copied()
    }
}

impl<T: ArrowPrimitiveType> Accumulator for PickedNumbers<T> {
    fn state_types(&self) -> Vec<DataType> {
        PickedState::types()
    }

    fn load(&mut self, state: &[ArrayRef]) -> Result<()> {
        let state = PickedState::of(state)?;
        let values = self.codec.decode(state.values.iter())?.swap_remove(0);
        let numbers = Self::numbers(&values)?;
        let picked = (0..state.groups()).map(|group| {
            Some(PickedNumber {
                time: state.time(group)?,
                value: numbers.is_valid(group).then(|| numbers.value(group)),
            })
        });
        self.picked = picked.collect();
        Ok(())
    }

    fn update(&mut self, input: &InputRows, rows: &[Assigned], _: &mut Access<'_>) -> Result<()> {
        let pick = self.pick;
        let columns = column(input, pick.column)
            .map(|values| Self::numbers(&float::for_ordering(values)))
            .collect::<Result<Vec<_>>>()?;
        for row in rows {
            let (batch, n) = (row.place.input(), row.place.row());
            let numbers = &columns[batch];
            let value = numbers.is_valid(n).then(|| numbers.value(n));
            let Some(time) = pick.time(&input.inputs[batch], n, value.is_none()) else {
                continue;
            };
            let (new, slot) = (
                PickedNumber { time, value },
                &mut self.picked[row.group as usize],
            );
            if slot.is_none_or(|old| pick.replaces(|| new.compare(old))) {
                *slot = Some(new);
            }
        }
        Ok(())
    }

    fn merge(&mut self, merges: &[GroupMerge], _: &mut Access<'_>) -> Result<()> {
        for merge in merges {
            self.picked[merge.into] = self.union(&merge.parts);
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        let picked = self.picked.iter();
        let values = self.values(
            picked
                .clone()
                .map(|picked| picked.and_then(|one| one.value)),
        );
        let encoded = self.codec.encode(std::slice::from_ref(&values))?;
        let bytes = (0..values.len()).map(|n| values.is_valid(n).then(|| encoded.get(n)));
        let bytes: LargeBinaryArray = bytes.collect();
        let times = picked.map(|picked| picked.map(|one| one.time));
        Ok(PickedState::columns(times, bytes))
    }

    fn result(
        &mut self,
        unions: &[&[usize]],
        _: &mut Access<'_>,
        _: &mut Xxh3Default,
    ) -> Result<ArrayRef> {
        let picked = unions.iter().map(|groups| self.union(groups));
        Ok(self.values(picked.map(|picked| picked.and_then(|one| one.value))))
    }

    fn needs_order(&self) -> bool {
        self.pick.needs_order()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::types::{Decimal128Type, Float64Type, Int64Type, UInt8Type};

    use super::*;
    use crate::operator::aggregate::functions::picked::PickFunction;
    use crate::operator::aggregate::functions::picked::picked_bytes::PickedBytes;

    /// Three groups that have picked values of this column, and one that has none.
    fn state(field: &Field, values: &ArrayRef) -> Vec<ArrayRef> {
        let codec = RowCodec::new([field]).expect("a supported type");
        let encoded = codec.encode(std::slice::from_ref(values)).expect("encoded");
        let bytes = (0..values.len()).map(|n| values.is_valid(n).then(|| encoded.get(n)));
        let times = [Some(7), Some(i64::MIN), Some(0), None];
        PickedState::columns(times.into_iter(), bytes.chain([None]).collect())
    }

    fn check<T: ArrowPrimitiveType>(values: &ArrayRef) {
        let field = Field::new("x", values.data_type().clone(), true);
        let pick = Pick {
            function: PickFunction::Last,
            column: 0,
            timed: true,
        };
        let stored = state(&field, values);
        let mut numbers = PickedNumbers::<T>::new(pick, &field).expect("a supported type");
        let mut bytes = PickedBytes::new(pick, &field).expect("a supported type");
        for accumulator in [&mut numbers as &mut dyn Accumulator, &mut bytes] {
            accumulator.load(&stored).expect("readable");
            let state = accumulator.state().expect("encoded");
            assert_eq!(state, stored, "{field}");
        }
    }

    #[test]
    fn stored_values_are_the_same_bytes_as_other_values() {
        let booleans = BooleanArray::from(vec![Some(true), None, Some(false)]);
        let booleans: ArrayRef = Arc::new(booleans);
        check::<UInt8Type>(&booleans);
        let whole = [Some(i64::MIN), None, Some(5)];
        check::<Int64Type>(&typed::<Int64Type>(whole, &DataType::Int64));
        let decimal = DataType::Decimal128(12, 2);
        let decimals = [Some(-12_345), None, Some(1)];
        check::<Decimal128Type>(&typed::<Decimal128Type>(decimals, &decimal));
        // Older versions may have stored other NaNs.
        let nan = f64::from_bits(0xfff8_0000_0000_0001);
        let floats = [Some(nan), None, Some(-0.0)];
        check::<Float64Type>(&typed::<Float64Type>(floats, &DataType::Float64));
    }

    #[test]
    fn numbers_are_compared_by_time_then_with_nulls_and_negative_zeros_first() {
        let ascending = [None, Some(-1.0), Some(-0.0), Some(0.0), Some(f64::NAN)];
        let ascending = ascending.map(|value| PickedNumber { time: 3, value });
        for (n, a) in ascending.iter().enumerate() {
            for (m, b) in ascending.iter().enumerate() {
                assert_eq!(a.compare(*b), n.cmp(&m), "{:?}, {:?}", a.value, b.value);
            }
            let earlier = PickedNumber {
                time: 2,
                value: Some(f64::NAN),
            };
            assert_eq!(earlier.compare(*a), Ordering::Less);
        }
    }
}
