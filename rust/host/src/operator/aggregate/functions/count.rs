//! The number of rows or values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_schema::DataType;
use holdfast_core::Result;
use xxhash_rust::xxh3::Xxh3Default;

use super::accumulator::{Access, Accumulator, column, unreadable};
use crate::operator::aggregate::groups::{Assigned, GroupMerge};
use crate::operator::input::InputRows;

/// The number of rows, or of rows with a value.
pub struct Count {
    column: Option<usize>,
    counts: Vec<i64>,
}

impl Count {
    /// Counts the non-null values of a column, or all rows if there is no column.
    pub fn new(column: Option<usize>) -> Self {
        Self {
            column,
            counts: Vec::new(),
        }
    }

    fn union(&self, groups: &[usize]) -> i64 {
        groups.iter().map(|group| self.counts[*group]).sum()
    }
}

impl Accumulator for Count {
    fn state_types(&self) -> Vec<DataType> {
        vec![DataType::Int64]
    }

    fn load(&mut self, state: &[ArrayRef]) -> Result<()> {
        let counts = state[0]
            .as_primitive_opt::<Int64Type>()
            .ok_or_else(|| unreadable("count"))?;
        self.counts = counts.iter().map(|count| count.unwrap_or(0)).collect();
        Ok(())
    }

    fn update(&mut self, input: &InputRows, rows: &[Assigned], _: &mut Access<'_>) -> Result<()> {
        let of = |of: usize| {
            column(input, of)
                .map(|values| values.logical_nulls())
                .collect()
        };
        let nulls: Vec<_> = self.column.map_or_else(Vec::new, of);
        for row in rows {
            let nulls = nulls.get(row.place.input()).and_then(Option::as_ref);
            self.counts[row.group as usize] +=
                i64::from(nulls.is_none_or(|nulls| nulls.is_valid(row.place.row())));
        }
        Ok(())
    }

    fn merge(&mut self, merges: &[GroupMerge], _: &mut Access<'_>) -> Result<()> {
        for merge in merges {
            self.counts[merge.into] = self.union(&merge.parts);
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(Int64Array::from(self.counts.clone()))])
    }

    fn result(
        &mut self,
        unions: &[&[usize]],
        _: &mut Access<'_>,
        _: &mut Xxh3Default,
    ) -> Result<ArrayRef> {
        Ok(Arc::new(
            unions
                .iter()
                .map(|groups| Some(self.union(groups)))
                .collect::<Int64Array>(),
        ))
    }
}
