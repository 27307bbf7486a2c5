//! The number of rows, of values, or of rows for which a condition is true.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;
use holdfast_core::Result;
use xxhash_rust::xxh3::Xxh3Default;

use super::accumulator::{Access, Accumulator, column, unreadable};
use crate::operator::aggregate::groups::{Assigned, GroupMerge};
use crate::operator::input::InputRows;

/// Which rows are counted.
#[derive(Clone, Copy)]
pub enum Counted {
    /// All rows.
    Rows,
    /// The rows with a value in this column.
    Values(usize),
    /// The rows with true in this column of booleans.
    True(usize),
}

impl Counted {
    /// Returns which rows of each batch are counted; none: all.
    fn of(self, input: &InputRows) -> Vec<Option<BooleanBuffer>> {
        match self {
            Self::Rows => vec![None; input.inputs.len()],
            Self::Values(number) => column(input, number)
                .map(|values| Some(values.logical_nulls()?.into_inner()))
                .collect(),
            Self::True(number) => column(input, number)
                .map(|values| {
                    let values = values.as_boolean();
                    Some(match values.nulls() {
                        Some(nulls) => values.values() & nulls.inner(),
                        None => values.values().clone(),
                    })
                })
                .collect(),
        }
    }
}

/// The number of rows that are counted.
pub struct Count {
    counted: Counted,
    counts: Vec<i64>,
}

impl Count {
    /// Counts these rows.
    pub fn new(counted: Counted) -> Self {
        Self {
            counted,
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
        let counted = self.counted.of(input);
        for row in rows {
            let counted = counted[row.place.input()].as_ref();
            self.counts[row.group as usize] +=
                i64::from(counted.is_none_or(|counted| counted.value(row.place.row())));
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
