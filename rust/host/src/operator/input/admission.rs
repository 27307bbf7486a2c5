//! Removes heartbeats and far-future rows from the input before an operator processes it.
//!
//! A heartbeat is a row whose `side` is null, with a time and nothing else. It can advance the
//! stream time of its partition (`session/idle_times.rs`). A far-future row is dated more than
//! `max_ahead` past its micro-batch. It is written to a file instead: otherwise it would raise the
//! stream time so far that all history expires.

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use holdfast_core::{Error, ErrorKind, Result};

use super::columns::{SIDE, TIME};
use super::far_future_file::FarFutureFile;
use crate::protocol::Digest;

/// Admits rows to the operator of a session.
#[derive(Default)]
pub struct Admission {
    limit: Option<(i64, FarFutureFile)>,
    heartbeat: Option<i64>,
    /// How many rows the operator takes, and how many of them are left ones.
    rows: u64,
    left_rows: u64,
}

impl Admission {
    /// Admits rows no later than a limit (microseconds), if there is one; later rows go to the
    /// file.
    #[must_use]
    pub fn new(limit: Option<(i64, FarFutureFile)>) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Returns the rows of a batch that the operator takes. The batch's columns have been checked
    /// (`layout.rs`).
    ///
    /// # Errors
    /// `Serialization` if Arrow cannot filter a column; those of [`FarFutureFile::push`].
    pub fn admit(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let (sides, times) = (
            batch.column(SIDE).as_boolean(),
            batch
                .column(TIME)
                .as_primitive::<TimestampMicrosecondType>(),
        );
        let latest = self.limit.as_ref().map(|(latest, _)| *latest);
        if latest.is_none() && sides.null_count() == 0 {
            return Ok(self.counted(batch));
        }
        let time = |row: usize| times.is_valid(row).then(|| times.value(row));
        let is_far_future = |row: usize| {
            sides.is_valid(row)
                && latest.is_some_and(|latest| time(row).is_some_and(|time| time > latest))
        };
        let far_future: BooleanArray = (0..batch.num_rows())
            .map(|row| Some(is_far_future(row)))
            .collect();
        if sides.null_count() == 0 && far_future.true_count() == 0 {
            return Ok(self.counted(batch));
        }
        let beats = (0..batch.num_rows())
            .filter(|row| sides.is_null(*row))
            .filter_map(time);
        self.heartbeat = self.heartbeat.max(beats.max());
        let taken: BooleanArray = (0..batch.num_rows())
            .map(|row| Some(sides.is_valid(row) && !far_future.value(row)))
            .collect();
        if let Some((_, file)) = self.limit.as_mut().filter(|_| far_future.true_count() > 0) {
            file.push(&filtered(&batch, &far_future)?)?;
        }
        filtered(&batch, &taken).map(|batch| self.counted(batch))
    }

    /// Counts the rows of a batch that the operator takes.
    fn counted(&mut self, batch: RecordBatch) -> RecordBatch {
        self.rows += batch.num_rows() as u64;
        self.left_rows += batch.column(SIDE).as_boolean().true_count() as u64;
        batch
    }

    /// How many rows the operator takes.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How many left rows the operator takes.
    #[must_use]
    pub fn left_rows(&self) -> u64 {
        self.left_rows
    }

    /// The greatest time of the heartbeats.
    #[must_use]
    pub fn heartbeat(&self) -> Option<i64> {
        self.heartbeat
    }

    /// The number of far-future rows.
    #[must_use]
    pub fn far_future_rows(&self) -> u64 {
        self.limit.as_ref().map_or(0, |(_, file)| file.rows())
    }

    /// Takes the file of far-future rows. The limit ends with it: later rows are all admitted.
    #[must_use]
    pub fn take_file(&mut self) -> Option<FarFutureFile> {
        self.limit.take().map(|(_, file)| file)
    }

    /// Returns the input's digest, from that of the admitted rows. It includes the heartbeats,
    /// which change the state, and the far-future rows.
    #[must_use]
    pub fn digest(&self, rows: Digest) -> Digest {
        let rows = self.with_far_future_rows(rows);
        match self.heartbeat {
            None => rows,
            Some(time) => Digest::of(&[&rows.0[..], &time.to_be_bytes()].concat()),
        }
    }

    /// Adds the digest of the far-future rows to a digest. These rows are a result of the epoch:
    /// two attempts that differ in them are different.
    #[must_use]
    pub fn with_far_future_rows(&self, digest: Digest) -> Digest {
        let file = self.limit.as_ref().map(|(_, file)| file);
        file.and_then(FarFutureFile::digest)
            .map_or(digest, |rows| digest.chain(rows))
    }
}

fn filtered(batch: &RecordBatch, rows: &BooleanArray) -> Result<RecordBatch> {
    filter_record_batch(batch, rows).map_err(|error| {
        Error::new(
            ErrorKind::Serialization,
            format!("input rows cannot be filtered: {error}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int32Array, TimestampMicrosecondArray};
    use arrow_ipc::reader::FileReader;
    use arrow_schema::{Field, Schema};

    use super::*;

    fn batch(rows: &[(Option<bool>, Option<i64>)]) -> RecordBatch {
        let sides: BooleanArray = rows.iter().map(|(side, _)| *side).collect();
        let times: TimestampMicrosecondArray = rows.iter().map(|(_, time)| *time).collect();
        let columns: [(&str, ArrayRef); 4] = [
            ("pid", Arc::new(Int32Array::from(vec![0; rows.len()]))),
            ("side", Arc::new(sides)),
            (
                "deleted",
                Arc::new(BooleanArray::from(vec![None; rows.len()])),
            ),
            ("t", Arc::new(times)),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
            .expect("four columns")
    }

    #[test]
    fn operator_takes_neither_far_future_rows_nor_heartbeats() {
        let folder = tempfile::tempdir().expect("a folder");
        let renamed = |field: &Arc<Field>| {
            Field::clone(field).with_name(format!("{} of the user's", field.name()))
        };
        let names = Schema::new(
            batch(&[])
                .schema()
                .fields()
                .iter()
                .map(renamed)
                .collect::<Vec<_>>(),
        );
        let file = FarFutureFile::new(names.clone(), folder.path().join("made"));
        let mut admission = Admission::new(Some((10, file)));
        let admitted = admission.admit(batch(&[
            (Some(true), Some(10)),
            (Some(false), Some(11)),
            (None, Some(99)),
            (Some(true), None),
        ]));
        assert_eq!(
            admitted.expect("filtered"),
            batch(&[(Some(true), Some(10)), (Some(true), None)])
        );
        assert_eq!(
            (admission.heartbeat(), admission.far_future_rows()),
            (Some(99), 1)
        );
        admission
            .admit(batch(&[
                (None, Some(98)),
                (None, None),
                (Some(true), Some(12)),
                (Some(true), Some(13)),
            ]))
            .expect("filtered");
        assert_eq!(
            (admission.heartbeat(), admission.far_future_rows()),
            (Some(99), 3)
        );
        assert_ne!(admission.digest(Digest::ZERO), Digest::ZERO);
        let file = admission
            .take_file()
            .expect("a limit")
            .finish()
            .expect("written")
            .expect("rows");
        let stored = FileReader::try_new(file, None)
            .expect("a file")
            .map(|batch| batch.expect("rows"));
        let [one, two] = [
            &[(Some(false), Some(11))][..],
            &[(Some(true), Some(12)), (Some(true), Some(13))],
        ]
        .map(|rows| {
            RecordBatch::try_new(Arc::new(names.clone()), batch(rows).columns().to_vec())
                .expect("the same columns")
        });
        assert_eq!(stored.collect::<Vec<_>>(), [one, two]);
    }

    #[test]
    fn without_a_limit_all_rows_are_taken() {
        let (mut admission, all) = (
            Admission::new(None),
            batch(&[(Some(true), Some(i64::MAX)), (Some(false), None)]),
        );
        assert_eq!(admission.admit(all.clone()).expect("as it is"), all);
        assert_eq!(
            (
                admission.heartbeat(),
                admission.far_future_rows(),
                admission.digest(Digest::ZERO)
            ),
            (None, 0, Digest::ZERO)
        );
    }
}
