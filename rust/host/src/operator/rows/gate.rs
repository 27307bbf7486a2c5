//! What comes in before an operator sees it: heartbeats, and rows dated too far ahead.
//!
//! A heartbeat is a row of no side that has a time and nothing else: the stream time of its
//! partition is at least that, once the epoch's rows are worked on. A row dated more than
//! `max_ahead` past its micro-batch is set aside, lest it make the stream time run away and all
//! history expire.

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use holdfast_core::{Error, ErrorKind, Result};

use super::aside::Aside;
use super::layout::{SIDE, TIME};
use crate::protocol::Digest;

/// What a session's rows pass first.
#[derive(Default)]
pub struct Gate {
    limit: Option<(i64, Aside)>,
    heartbeat: Option<i64>,
}

impl Gate {
    /// A gate for rows no later than a limit (microseconds), if there is one, and where later ones
    /// go.
    #[must_use]
    pub fn new(limit: Option<(i64, Aside)>) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// The rows of a batch that the operator takes. The batch's columns have been checked
    /// (`layout.rs`).
    ///
    /// # Errors
    /// `Serialization` if Arrow cannot filter a column; `Io` if rows cannot be set aside.
    pub fn admit(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let (sides, times) = (
            batch.column(SIDE).as_boolean(),
            batch
                .column(TIME)
                .as_primitive::<TimestampMicrosecondType>(),
        );
        let latest = self.limit.as_ref().map(|(latest, _)| *latest);
        if latest.is_none() && sides.null_count() == 0 {
            return Ok(batch);
        }
        let time = |row: usize| times.is_valid(row).then(|| times.value(row));
        let is_ahead = |row: usize| {
            sides.is_valid(row)
                && latest.is_some_and(|latest| time(row).is_some_and(|time| time > latest))
        };
        let ahead: BooleanArray = (0..batch.num_rows())
            .map(|row| Some(is_ahead(row)))
            .collect();
        if sides.null_count() == 0 && ahead.true_count() == 0 {
            return Ok(batch);
        }
        let beats = (0..batch.num_rows())
            .filter(|row| sides.is_null(*row))
            .filter_map(time);
        self.heartbeat = self.heartbeat.max(beats.max());
        let taken: BooleanArray = (0..batch.num_rows())
            .map(|row| Some(sides.is_valid(row) && !ahead.value(row)))
            .collect();
        if let Some((_, aside)) = self.limit.as_mut().filter(|_| ahead.true_count() > 0) {
            aside.push(&filtered(&batch, &ahead)?)?;
        }
        filtered(&batch, &taken)
    }

    /// The greatest time of a heartbeat.
    #[must_use]
    pub fn heartbeat(&self) -> Option<i64> {
        self.heartbeat
    }

    /// How many rows were set aside.
    #[must_use]
    pub fn ahead(&self) -> u64 {
        self.limit.as_ref().map_or(0, |(_, aside)| aside.rows())
    }

    /// The rows that were set aside; no more can be.
    #[must_use]
    pub fn take_aside(&mut self) -> Option<Aside> {
        self.limit.take().map(|(_, aside)| aside)
    }

    /// The input's digest, from that of the rows that were taken: heartbeats change the state, too.
    #[must_use]
    pub fn digest(&self, rows: Digest) -> Digest {
        match self.heartbeat {
            None => rows,
            Some(time) => Digest::of(&[&rows.0[..], &time.to_be_bytes()].concat()),
        }
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
    fn rows_too_far_ahead_are_set_aside_and_heartbeats_are_no_rows() {
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
        let aside = Aside::new(names.clone(), folder.path().join("made"));
        let mut gate = Gate::new(Some((10, aside)));
        let admitted = gate.admit(batch(&[
            (Some(true), Some(10)),
            (Some(false), Some(11)),
            (None, Some(99)),
            (Some(true), None),
        ]));
        assert_eq!(
            admitted.expect("filtered"),
            batch(&[(Some(true), Some(10)), (Some(true), None)])
        );
        assert_eq!((gate.heartbeat(), gate.ahead()), (Some(99), 1));
        gate.admit(batch(&[
            (None, Some(98)),
            (None, None),
            (Some(true), Some(12)),
            (Some(true), Some(13)),
        ]))
        .expect("filtered");
        assert_eq!((gate.heartbeat(), gate.ahead()), (Some(99), 3));
        assert_ne!(gate.digest(Digest::ZERO), Digest::ZERO);
        let file = gate
            .take_aside()
            .expect("a limit")
            .finish()
            .expect("written")
            .expect("rows");
        let kept = FileReader::try_new(file, None)
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
        assert_eq!(kept.collect::<Vec<_>>(), [one, two]);
    }

    #[test]
    fn without_a_limit_all_rows_are_taken() {
        let (mut gate, all) = (
            Gate::new(None),
            batch(&[(Some(true), Some(i64::MAX)), (Some(false), None)]),
        );
        assert_eq!(gate.admit(all.clone()).expect("as it is"), all);
        assert_eq!(
            (gate.heartbeat(), gate.ahead(), gate.digest(Digest::ZERO)),
            (None, 0, Digest::ZERO)
        );
    }
}
