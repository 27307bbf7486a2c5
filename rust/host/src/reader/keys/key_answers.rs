//! The answers to a read of keys, in the order of the keys.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::interleave::interleave_record_batch;
use holdfast_core::{Error, ErrorKind, Result};

use crate::reader::read_from::{AnswerState, RowsAtEpoch};
use crate::tables::not_assembled;

/// The most bytes of an assembled batch, estimated from the average size of the rows.
const BATCH_BYTES: usize = 64 << 20;

/// A row of the answers: the number of its batch, and its number in the batch.
type Place = (usize, usize);

/// What a read does if several partitions have a row of the same key, as they may if the keys of a
/// table do not choose the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SameKey {
    /// It fails: its result has one row for each key.
    Refused,
    /// Its result has all of these rows, one after the other.
    EveryRow,
}

/// The answers to keys, from one partition or several.
pub struct KeyAnswers {
    batches: Vec<RecordBatch>,
    /// The place of each key's answer. Empty if the answers are in the order of the keys.
    places: Vec<Place>,
    same_key: SameKey,
    /// The places of a key's further rows, with the key's number.
    further: Vec<(usize, Place)>,
}

impl KeyAnswers {
    /// Makes a collection for the answers to this many keys.
    pub fn of(keys: usize, same_key: SameKey) -> Self {
        Self {
            batches: Vec::new(),
            places: vec![NOWHERE; keys],
            same_key,
            further: Vec::new(),
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
            same_key: SameKey::Refused,
            further: Vec::new(),
        })
    }

    /// Adds the answers of a partition to the keys of these numbers.
    ///
    /// # Errors
    /// As [`KeyAnswers::in_order`]; `UnsupportedOperation` if another partition has a row of one of
    /// the keys, too, and this is refused.
    pub fn add(&mut self, keys: &[u64], batches: Vec<RecordBatch>) -> Result<()> {
        check_count(&batches, keys.len())?;
        let mut keys = keys.iter();
        for batch in batches {
            let number = self.batches.len();
            self.batches.push(batch);
            for (row, key) in (0..self.batches[number].num_rows()).zip(&mut keys) {
                self.put(usize::try_from(*key).unwrap_or(usize::MAX), (number, row))?;
            }
        }
        Ok(())
    }

    /// Puts an answer to the key of this number.
    fn put(&mut self, key: usize, place: Place) -> Result<()> {
        let is_found = |(batch, row): Place| is_found(&self.batches[batch], row);
        let before = self.places[key];
        if before == NOWHERE || !is_found(before) {
            self.places[key] = place;
        } else if is_found(place) {
            if self.same_key == SameKey::Refused {
                let text = "several partitions have a row of the key: the keys of a processor's \
                            store do not choose the partition. Read all its rows with a scan, or \
                            from dataset()";
                return Err(Error::new(ErrorKind::UnsupportedOperation, text));
            }
            self.further.push((key, place));
        }
        Ok(())
    }

    /// Puts the rows into the order of the keys. `schema`: the columns of the result.
    ///
    /// # Errors
    /// `Serialization` if the answers have other columns.
    pub fn assembled(mut self, schema: SchemaRef, state: AnswerState) -> Result<RowsAtEpoch> {
        self.insert_further();
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

    /// Puts the further rows of each key behind its first one.
    fn insert_further(&mut self) {
        if self.further.is_empty() {
            return;
        }
        let mut places: Vec<(usize, Place)> = self.places.drain(..).enumerate().collect();
        places.append(&mut self.further);
        // The order of equal keys stays.
        places.sort_by_key(|(key, _)| *key);
        self.places = places.into_iter().map(|(_, place)| place).collect();
    }
}

/// The place of a key that has no answer yet.
const NOWHERE: Place = (usize::MAX, usize::MAX);

/// Cuts rows into parts of at most about [`BATCH_BYTES`].
fn parts(batches: &[&RecordBatch], places: &[Place]) -> Vec<Range<usize>> {
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
    places: &[Place],
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
    let found = batch.columns().last();
    found.is_some_and(|found| found.as_boolean().value(row))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, BooleanArray, Int64Array};

    use super::*;
    use crate::protocol::Epoch;
    use crate::tables::FOUND;

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
        let mut answers = KeyAnswers::of(5, SameKey::Refused);
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
        let mut answers = KeyAnswers::of(2, SameKey::Refused);
        answers
            .add(&[0, 1], vec![batch(&[None]), batch(&[Some(1)])])
            .expect("two rows");
        answers
            .add(&[0, 1], vec![batch(&[Some(0), None])])
            .expect("two rows");
        assert_eq!(assembled(answers), [Some(0), Some(1)]);
        let mut answers = KeyAnswers::of(1, SameKey::Refused);
        for value in [Some(1), None] {
            answers.add(&[0], vec![batch(&[value])]).expect("one row");
        }
        assert_eq!(assembled(answers), [Some(1)]);
    }

    #[test]
    fn key_of_several_partitions_is_refused_or_gives_all_its_rows() {
        let partitions = [
            batch(&[None, Some(1), Some(2)]),
            batch(&[None, None, Some(12)]),
            batch(&[Some(20), Some(21), Some(22)]),
        ];
        let mut answers = KeyAnswers::of(3, SameKey::EveryRow);
        for rows in &partitions {
            answers
                .add(&[0, 1, 2], vec![rows.clone()])
                .expect("three rows");
        }
        let all = [20, 1, 21, 2, 12, 22].map(Some);
        assert_eq!(assembled(answers), all);
        let mut answers = KeyAnswers::of(3, SameKey::Refused);
        answers
            .add(&[0, 1, 2], vec![partitions[0].clone()])
            .expect("the only partition yet");
        let error = answers
            .add(&[0, 1, 2], vec![partitions[1].clone()])
            .expect_err("two rows of a key");
        assert_eq!(error.kind(), ErrorKind::UnsupportedOperation);
    }

    #[test]
    fn missing_rows_are_an_error_and_zero_keys_are_allowed() {
        assert!(KeyAnswers::in_order(vec![batch(&[None])], 2).is_err());
        assert!(
            KeyAnswers::of(2, SameKey::Refused)
                .add(&[0, 1], vec![batch(&[None])])
                .is_err()
        );
        assert_eq!(assembled(KeyAnswers::of(0, SameKey::Refused)), [None; 0]);
    }
}
