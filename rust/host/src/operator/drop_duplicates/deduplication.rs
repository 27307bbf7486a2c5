//! Deduplication: of the rows that are not late, a row is emitted if and only if no row of its key
//! that was processed before it is within a time span of its own time.
//!
//! One time for each key is enough. With `T` the stream time, rows older than `T - within` are
//! late. A row that is not late is therefore at most `within` older than the newest row of its key.
//! If it is also at most `within` later than that row, it is a duplicate. If it is later by more,
//! it is even further from all other rows of its key. The store therefore has the newest time of
//! each key, as a window that starts there. The store drops that window once `T` is more than `2 *
//! within` past its start: by then, every row that is at most `within` from it is late.

use std::collections::BTreeMap;

use arrow_schema::Schema;
use holdfast_core::{Database, Error, ErrorKind, Result, StoreSpec, Transaction, WindowStore};
use serde::Deserialize;
use serde_json::Value;

use super::epoch_keys::EpochKeys;
use crate::operator::batch_size::batches;
use crate::operator::execution::Operator;
use crate::operator::input::{InputLayout, InputRows, RowOrder, RowPlace, RowsSpec, StoredSides};
use crate::operator::outcome::Outcome;
use crate::operator::output::{OutputColumn, OutputColumns, OutputWriter};
use crate::operator::spec::{OperatorSpec, by_time};
use crate::operator::worker::Worker;
use crate::protocol::Counts;
use crate::protocol::Epoch;
use crate::root::OperatorMeta;

/// The store of each key's newest time.
const SEEN: &str = "seen";

/// The settings of a deduplication.
#[derive(Debug, Clone, Deserialize)]
pub struct DropDuplicatesSpec {
    /// The input's columns; all rows are left ones.
    #[serde(flatten)]
    pub rows: RowsSpec,
    /// Two rows of a key are duplicates if their times are at most this far apart, in microseconds.
    pub within: i64,
    /// The result's columns.
    pub output: Vec<OutputColumn>,
}

impl OperatorSpec for DropDuplicatesSpec {
    fn start(&self, schema: &Schema) -> Result<Box<dyn Operator>> {
        Ok(Box::new(DropDuplicates::new(self, schema)?))
    }

    fn rows(&self) -> &RowsSpec {
        &self.rows
    }

    fn stores(&self) -> Vec<StoreSpec> {
        let retention = self.within.saturating_mul(2).saturating_add(1);
        vec![StoreSpec::new(SEEN, by_time(retention, 0))]
    }
}

/// One session of a deduplication.
pub struct DropDuplicates {
    within: i64,
    output: OutputColumns,
    rows: InputRows,
    counts: Counts,
}

impl DropDuplicates {
    fn new(spec: &DropDuplicatesSpec, schema: &Schema) -> Result<Self> {
        if spec.within < 0 {
            return Err(Error::new(
                ErrorKind::InvalidValue,
                format!("drop_duplicates: within is negative ({})", spec.within),
            ));
        }
        let layout = InputLayout::new("drop_duplicates", &spec.rows, schema)?;
        let output = OutputColumns::new("drop_duplicates", &spec.output, &layout)?;
        Ok(Self {
            within: spec.within,
            output,
            rows: InputRows::new(layout),
            counts: Counts::default(),
        })
    }

    /// Returns the rows of a part with a time that is not older than `oldest`, in order, each with
    /// its time. Counts the others.
    fn in_time(&mut self, part: Vec<RowPlace>, oldest: i64) -> Vec<(RowPlace, i64)> {
        let timed = part
            .into_iter()
            .filter_map(|place| match self.rows.time(place) {
                None => {
                    self.counts.dropped += 1;
                    None
                }
                Some(time) if time < oldest => {
                    self.counts.late += 1;
                    None
                }
                Some(time) => Some((place, time)),
            });
        timed.collect()
    }

    /// Returns the rows of a part that are not duplicates.
    fn distinct(
        &self,
        seen: &WindowStore,
        tx: &mut Transaction,
        keys: &mut EpochKeys,
        rows: &[(RowPlace, i64)],
    ) -> Result<Vec<RowPlace>> {
        let numbers: Vec<usize> = rows
            .iter()
            .map(|(place, _)| keys.number(self.rows.key_with_nulls(*place)))
            .collect();
        keys.load(seen, tx)?;
        let distinct = rows
            .iter()
            .zip(numbers)
            .filter_map(|((place, time), number)| {
                let before = keys.raise(number, *time);
                let is_near = before.is_some_and(|now| time.saturating_sub(now) <= self.within);
                (!is_near).then_some(*place)
            });
        Ok(distinct.collect())
    }
}

impl Operator for DropDuplicates {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        let settings = BTreeMap::from([("within".to_owned(), Value::from(self.within))]);
        let layout = &self.rows.layout;
        layout.meta("drop_duplicates", StoredSides::NONE, settings, first_epoch)
    }

    fn input(&mut self) -> (&mut InputRows, &mut Counts) {
        (&mut self.rows, &mut self.counts)
    }

    fn run(
        &mut self,
        db: &Database,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<Outcome> {
        let seen = db.window(SEEN)?;
        let oldest = seen
            .stream_time(tx)
            .map_or(i64::MIN, |time| time.0.saturating_sub(self.within));
        let mut writer = OutputWriter::new(worker);
        let mut keys = EpochKeys::default();
        while let Some(part) = self.rows.next_part(RowOrder::Matchable, &mut self.counts)? {
            if keys.make_room(&seen, tx, self.rows.spare_memory())? {
                self.rows.count_spill();
            }
            let rows = self.in_time(part, oldest);
            let distinct = self.distinct(&seen, tx, &mut keys, &rows)?;
            for places in batches(&distinct, |place| self.rows.row_bytes(*place)) {
                writer.emit_input_rows(&self.output, &self.rows, places)?;
            }
        }
        keys.store(db, &seen, tx, self.rows.heartbeat)?;
        let stream_time = seen.stream_time(tx).map(|time| time.0);
        Ok(writer.finish(&self.rows, self.counts).at(stream_time))
    }
}
