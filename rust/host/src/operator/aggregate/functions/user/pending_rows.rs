//! Rows that the user's function has not received yet.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StructArray};
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;
use holdfast_core::Result;

use crate::operator::aggregate::groups::{Assigned, Groups};
use crate::operator::batch_size::BatchSize;
use crate::operator::input::{InputRows, RowPlace};
use crate::operator::output::{MatchedRight, OutputColumns};

/// The next batch of a user's function.
///
/// A batch may have rows of several parts of the input, so the function receives the same batches
/// whether the rows have spilled or not.
#[derive(Default)]
pub struct PendingRows {
    /// The groups of the rows, each once.
    groups: Vec<usize>,
    /// The place of each group in that list.
    numbers: HashMap<u32, i64>,
    /// By row: the place of its group.
    of_rows: Vec<i64>,
    size: BatchSize,
    /// The rows as the function receives them, one batch for each part of the input.
    rows: Vec<RecordBatch>,
}

impl PendingRows {
    /// Adds the first of these rows, as many as fit into the batch; returns how many.
    /// `state_bytes` is the size of a group's state, which the batch has, too.
    ///
    /// # Errors
    /// `Serialization` for columns of other types.
    pub fn add(
        &mut self,
        columns: &OutputColumns,
        input: &InputRows,
        rows: &[Assigned],
        state_bytes: impl Fn(usize) -> usize,
    ) -> Result<usize> {
        let mut places: Vec<RowPlace> = Vec::new();
        for row in rows {
            let next = self.groups.len() as i64;
            let number = *self.numbers.entry(row.group).or_insert(next);
            let is_new = number == next;
            let state = if is_new {
                state_bytes(row.group as usize)
            } else {
                0
            };
            let bytes = input.row_bytes(row.place).saturating_add(state);
            if !self.size.try_add(bytes) {
                break;
            }
            if is_new {
                self.groups.push(row.group as usize);
            }
            self.of_rows.push(number);
            places.push(row.place);
        }
        if !places.is_empty() {
            let rows = columns.batch_of_rows(input, &places, &MatchedRight::none())?;
            self.rows.push(rows);
        }
        Ok(places.len())
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.of_rows.is_empty()
    }

    /// The groups of the rows, each once.
    pub fn groups(&self) -> &[usize] {
        &self.groups
    }

    /// Moves the groups of the rows from `groups` to `next`, which numbers them differently.
    pub fn carry(&mut self, groups: &Groups, next: &mut Groups) {
        for group in &mut self.groups {
            *group = next.enter(groups.key(*group), groups.start(*group)) as usize;
        }
        let numbers = self.groups.iter().map(|group| *group as u32).zip(0..);
        self.numbers = numbers.collect();
    }

    /// Returns the rows for the function: the number of a group's state, then the row.
    ///
    /// # Errors
    /// Those of Arrow.
    pub fn batch(&self, columns: &OutputColumns) -> std::result::Result<RecordBatch, ArrowError> {
        let rows = match &self.rows[..] {
            [rows] => rows.clone(),
            several => concat_batches(&columns.schema(), several)?,
        };
        let of_rows: ArrayRef = Arc::new(Int64Array::from(self.of_rows.clone()));
        let rows: ArrayRef = Arc::new(StructArray::from(rows));
        RecordBatch::try_from_iter([("group", of_rows), ("rows", rows)])
    }
}
