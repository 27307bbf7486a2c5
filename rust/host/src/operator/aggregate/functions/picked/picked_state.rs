//! The state of a picked value: whether there is one, the time of its row, and its bytes.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, LargeBinaryArray};
use arrow_schema::DataType;
use holdfast_core::Result;

use crate::operator::aggregate::functions::accumulator::unreadable;

/// The stored columns of the picked values, a row for each group.
pub struct PickedState<'a> {
    there: &'a BooleanArray,
    times: &'a Int64Array,
    /// The values as bytes (`codec/row.rs`); null for no value, and for a null that was picked.
    pub values: &'a LargeBinaryArray,
}

impl<'a> PickedState<'a> {
    /// The types of the columns.
    pub fn types() -> Vec<DataType> {
        // Large binary, because the values of all groups of an epoch are in one column. The stored
        // bytes of a row are the same as with binary.
        vec![DataType::Boolean, DataType::Int64, DataType::LargeBinary]
    }

    /// Takes stored columns.
    ///
    /// # Errors
    /// `Serialization` for columns of other types.
    pub fn of(state: &'a [ArrayRef]) -> Result<Self> {
        let columns = (
            state[0].as_boolean_opt(),
            state[1].as_primitive_opt::<Int64Type>(),
            state[2].as_binary_opt::<i64>(),
        );
        let (Some(there), Some(times), Some(values)) = columns else {
            return Err(unreadable("min, max, first, last"));
        };
        Ok(Self {
            there,
            times,
            values,
        })
    }

    /// The number of groups.
    pub fn groups(&self) -> usize {
        self.there.len()
    }

    /// The time of a group's picked value; `None` if there is no such value.
    pub fn time(&self, group: usize) -> Option<i64> {
        let is_there = self.there.is_valid(group) && self.there.value(group);
        is_there.then(|| self.times.value(group))
    }

    /// Returns the columns to store: the time of each group's picked value, if there is one, and
    /// the values' bytes.
    pub fn columns(
        times: impl Iterator<Item = Option<i64>> + Clone,
        values: LargeBinaryArray,
    ) -> Vec<ArrayRef> {
        let there = times.clone().map(|time| Some(time.is_some()));
        let times = times.map(|time| time.unwrap_or(0));
        vec![
            Arc::new(there.collect::<BooleanArray>()),
            Arc::new(Int64Array::from_iter_values(times)),
            Arc::new(values),
        ]
    }
}
