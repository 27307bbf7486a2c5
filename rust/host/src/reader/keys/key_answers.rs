//! The answers to a read of keys, in the order of the keys.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::interleave::interleave_record_batch;
use holdfast_core::{Error, ErrorKind, Result};

use crate::reader::read_from::{AnswerState, RowsAtEpoch};
use crate::tables::{FOUND, not_assembled};

/// The most bytes of an assembled batch, estimated from the average size of the rows.
const BATCH_BYTES: usize = 64 << 20;

/// The answers to keys, from one partition or several.
pub struct KeyAnswers {
    batches: Vec<RecordBatch>,
    /// The place of each key's answer: the number of the batch, and of the row in it. Empty if the
    /// answers are in the order of the keys.
    places: Vec<(usize, usize)>,
}

impl KeyAnswers {
    /// Makes a collection for the answers to this many keys.
    pub fn of(keys: usize) -> Self {
        Self {
            batches: Vec::new(),
            places: vec![NOWHERE; keys],
        }
    }

    /// Answers that are in the order of the keys.
    ///
    /// # Errors
    /// `InvalidState` if there is not one row for each key.
    pub fn in_order(batches: Vec<RecordBatch>, keys: usize) -> Result<Self> {
        check_count(&batches, keys)?;
        Ok(Self {
            batches,
            places: Vec::new(),
        })
    }

    /// Adds the answers of a partition to the keys of these numbers.
    ///
    /// # Errors
    /// As [`KeyAnswers::in_order`].
    pub fn add(&mut self, keys: &[u64], batches: Vec<RecordBatch>) -> Result<()> {
        check_count(&batches, keys.len())?;
        let mut keys = keys.iter();
        for batch in batches {
            for (row, key) in (0..batch.num_rows()).zip(&mut keys) {
                let place = &mut self.places[usize::try_from(*key).unwrap_or(usize::MAX)];
                // If the keys of a table do not choose the partition, another partition may have
                // the row.
                if *place == NOWHERE || is_found(&batch, row) {
                    *place = (self.batches.len(), row);
                }
            }
            self.batches.push(batch);
        }
        Ok(())
    }

    /// Puts the rows into the order of the keys. `schema`: the columns of the result.
    ///
    /// # Errors
    /// `Serialization` if the answers have other columns.
    pub fn assembled(self, schema: SchemaRef, state: AnswerState) -> Result<RowsAtEpoch> {
        // The rows of a host come with the metadata of its message.
        let batches = self.batches.into_iter().map(|batch| {
            RecordBatch::try_new(SchemaRef::clone(&schema), batch.columns().to_vec())
                .map_err(|error| not_assembled(&error))
        });
        let mut batches: Vec<RecordBatch> = batches.collect::<Result<_>>()?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let is_in_order = self.places.len() == rows && self.places.is_sorted();
        if !self.places.is_empty() && !is_in_order {
            let sources: Vec<&RecordBatch> = batches.iter().collect();
            let mut ordered = Vec::new();
            for part in parts(&sources, &self.places) {
                interleave(&sources, &self.places[part], &mut ordered)?;
            }
            batches = ordered;
        }
        if batches.is_empty() {
            batches.push(RecordBatch::new_empty(SchemaRef::clone(&schema)));
        }
        Ok(RowsAtEpoch {
            schema,
            batches,
            state,
        })
    }
}

/// The place of a key that has no answer yet.
const NOWHERE: (usize, usize) = (usize::MAX, usize::MAX);

/// Cuts rows into parts of at most about [`BATCH_BYTES`].
fn parts(batches: &[&RecordBatch], places: &[(usize, usize)]) -> Vec<Range<usize>> {
    let average = |batch: &&RecordBatch| {
        let columns = batch.columns().iter();
        let bytes: usize = columns
            .map(|column| column.to_data().get_slice_memory_size().unwrap_or(0))
            .sum();
        bytes / batch.num_rows().max(1)
    };
    let averages: Vec<usize> = batches.iter().map(average).collect();
    let (mut parts, mut start, mut bytes) = (Vec::new(), 0, 0_usize);
    for (n, (batch, _)) in places.iter().enumerate() {
        let row = averages.get(*batch).copied().unwrap_or(0);
        if n > start && bytes.saturating_add(row) > BATCH_BYTES {
            parts.push(start..n);
            (start, bytes) = (n, 0);
        }
        bytes = bytes.saturating_add(row);
    }
    parts.push(start..places.len());
    parts
}

/// Adds rows in this order, as one batch, or as several if a column cannot hold all of them.
fn interleave(
    batches: &[&RecordBatch],
    places: &[(usize, usize)],
    ordered: &mut Vec<RecordBatch>,
) -> Result<()> {
    match interleave_record_batch(batches, places) {
        Ok(batch) => ordered.push(batch),
        Err(ArrowError::OffsetOverflowError(_)) if places.len() > 1 => {
            let (first, second) = places.split_at(places.len() / 2);
            interleave(batches, first, ordered)?;
            interleave(batches, second, ordered)?;
        }
        Err(error) => return Err(not_assembled(&error)),
    }
    Ok(())
}

fn check_count(batches: &[RecordBatch], keys: usize) -> Result<()> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if rows == keys {
        return Ok(());
    }
    let text = format!(
        "a state host answers {keys} keys with {rows} rows: reader and host are of different \
         versions"
    );
    Err(Error::new(ErrorKind::InvalidState, text))
}

/// Whether the key of a row was found.
fn is_found(batch: &RecordBatch, row: usize) -> bool {
    let found = batch.column_by_name(FOUND);
    found.is_some_and(|found| found.as_boolean().value(row))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, BooleanArray, Int64Array};

    use super::*;
    use crate::protocol::Epoch;

    fn batch(values: &[Option<i64>]) -> RecordBatch {
        let found: BooleanArray = values.iter().map(|value| Some(value.is_some())).collect();
        RecordBatch::try_from_iter([
            ("n", Arc::new(Int64Array::from(values.to_vec())) as ArrayRef),
            (FOUND, Arc::new(found)),
        ])
        .expect("columns of one length")
    }

    fn assembled(answers: KeyAnswers) -> Vec<Option<i64>> {
        let state = AnswerState::of_final(Epoch(0));
        let found = answers.assembled(batch(&[None]).schema(), state);
        let batches = found.expect("the same columns").batches;
        let values = batches
            .iter()
            .map(|batch| batch["n"].as_primitive::<Int64Type>());
        values.flat_map(|values| values.iter()).collect()
    }

    #[test]
    fn answers_of_several_batches_and_partitions_come_in_the_order_of_the_keys() {
        let mut answers = KeyAnswers::of(5);
        answers
            .add(
                &[0, 3, 4],
                vec![batch(&[Some(10)]), batch(&[Some(13), None])],
            )
            .expect("three rows");
        answers
            .add(&[1, 2], vec![batch(&[Some(11), Some(12)])])
            .expect("two rows");
        let all = [Some(10), Some(11), Some(12), Some(13), None];
        assert_eq!(assembled(answers), all);
    }

    #[test]
    fn key_that_another_partition_has_is_found_there() {
        let mut answers = KeyAnswers::of(2);
        answers
            .add(&[0, 1], vec![batch(&[None]), batch(&[Some(1)])])
            .expect("two rows");
        answers
            .add(&[0, 1], vec![batch(&[Some(0), None])])
            .expect("two rows");
        assert_eq!(assembled(answers), [Some(0), Some(1)]);
        let mut answers = KeyAnswers::of(1);
        for value in [Some(1), None] {
            answers.add(&[0], vec![batch(&[value])]).expect("one row");
        }
        assert_eq!(assembled(answers), [Some(1)]);
    }

    #[test]
    fn missing_rows_are_an_error_and_zero_keys_are_allowed() {
        assert!(KeyAnswers::in_order(vec![batch(&[None])], 2).is_err());
        assert!(
            KeyAnswers::of(2)
                .add(&[0, 1], vec![batch(&[None])])
                .is_err()
        );
        assert_eq!(assembled(KeyAnswers::of(0)), [None; 0]);
    }
}
