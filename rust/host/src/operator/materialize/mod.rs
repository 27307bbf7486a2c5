//! A change stream kept as a table: of each key the last row, or all its versions by time. Rows
//! whose value columns are all null delete. What the table has taken goes out again.

use std::collections::BTreeMap;

use arrow_array::Array;
use arrow_schema::Schema;
use holdfast_core::{
    Applied, Database, Error, ErrorKind, KeyValueStore, Op, Result, StoreKind, StoreSpec,
    Timestamp, TimestampedKeyValueStore, Transaction, VersionedStore,
};
use serde::Deserialize;
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3Default;

use super::batch::batches;
use super::output::{Right, digest_places};
use super::rows::{Layout, Order, Place, Rows, RowsSpec, Sides};
use super::{Counts, Operator, Outcome, Output, OutputColumn, Worker};
use crate::protocol::{Digest, Epoch};
use crate::root::OperatorMeta;

/// The table's store.
const TABLE: &str = "table";

/// What the driver says about the table.
#[derive(Debug, Clone, Deserialize)]
pub struct Spec {
    /// The input's columns; all rows are left ones.
    #[serde(flatten)]
    pub rows: RowsSpec,
    /// Of which form the table is.
    pub table: TableKind,
    /// The left payload columns that are values: those whose nulls make a row a delete. None of
    /// them: no row is.
    pub values: Vec<usize>,
    /// The result's columns.
    pub output: Vec<OutputColumn>,
}

/// The form of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "form", rename_all = "snake_case")]
pub enum TableKind {
    /// Of each key the row that came last.
    KeyValue,
    /// Of each key the row with the greatest time.
    Timestamped,
    /// Of each key all rows by time.
    Versioned {
        /// How far back: microseconds.
        history_retention: i64,
    },
}

impl Spec {
    /// The one store.
    pub fn stores(&self) -> Vec<StoreSpec> {
        let kind = match self.table {
            TableKind::KeyValue => StoreKind::KeyValue,
            TableKind::Timestamped => StoreKind::TimestampedKeyValue,
            TableKind::Versioned { history_retention } => StoreKind::versioned(history_retention),
        };
        vec![StoreSpec::new(TABLE, kind)]
    }
}

/// One session of a table.
pub struct Materialize {
    table: TableKind,
    values: Vec<usize>,
    output: Output,
    rows: Rows,
    counts: Counts,
}

impl Materialize {
    /// A table of rows of these columns.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` names the column or setting that does not fit.
    pub fn new(spec: &Spec, schema: &Schema) -> Result<Self> {
        let wrong = |what: String| {
            Err(Error::new(
                ErrorKind::InvalidValue,
                format!("materialize: {what}"),
            ))
        };
        if let TableKind::Versioned { history_retention } = spec.table
            && history_retention < 0
        {
            return wrong(format!(
                "history_retention is negative ({history_retention})"
            ));
        }
        if let Some(value) = spec
            .values
            .iter()
            .find(|value| **value >= spec.rows.left.len())
        {
            return wrong(format!("value column {value} is not there"));
        }
        let layout = Layout::new("materialize", &spec.rows, schema)?;
        let output = Output::new("materialize", &spec.output, &layout)?;
        let values = spec
            .values
            .iter()
            .map(|value| layout.left.start + value)
            .collect();
        Ok(Self {
            table: spec.table,
            values,
            output,
            rows: Rows::with_payloads(layout, true, false),
            counts: Counts::default(),
        })
    }

    /// Those rows of a part that can be kept, in order, each with its time (0 where the table has
    /// none).
    fn kept(&mut self, part: Vec<Place>) -> Vec<(Place, i64)> {
        let timed = self.table != TableKind::KeyValue;
        let kept = part.into_iter().filter_map(|place| {
            let input = &self.rows.inputs[place.input()];
            let time = input.time(place.row());
            if input.keys.get(place.row()).is_none() || (timed && time.is_none()) {
                self.counts.dropped += 1;
                return None;
            }
            Some((place, time.unwrap_or(0)))
        });
        kept.collect()
    }

    fn key(&self, place: Place) -> &[u8] {
        self.rows.inputs[place.input()].keys.with_nulls(place.row())
    }

    /// A row's value; none if it deletes.
    fn value(&self, place: Place) -> Option<&[u8]> {
        let batch = &self.rows.inputs[place.input()].batch;
        let deletes = !self.values.is_empty()
            && self
                .values
                .iter()
                .all(|column| batch.column(*column).is_null(place.row()));
        (!deletes).then(|| self.rows.payload(place))
    }

    fn put(
        &self,
        table: &Table,
        tx: &mut Transaction,
        rows: &[(Place, i64)],
        taken: &mut Vec<Place>,
    ) -> Result<()> {
        match table {
            Table::KeyValue(store) => {
                for (place, _) in rows {
                    store.put(tx, self.key(*place), self.value(*place))?;
                    taken.push(*place);
                }
            }
            Table::Timestamped(store) => {
                for (place, time) in rows {
                    let is_old = store.get(tx, self.key(*place), |found| {
                        found.is_some_and(|found| found.timestamp.0 > *time)
                    })?;
                    if !is_old {
                        store.put(tx, self.key(*place), self.value(*place), Timestamp(*time))?;
                        taken.push(*place);
                    }
                }
            }
            Table::Versioned(store) => {
                let put = |(place, time): &(Place, i64)| Op::Put {
                    key: self.key(*place),
                    value: self.value(*place),
                    timestamp: Timestamp(*time),
                };
                let ops: Vec<Op<'_>> = rows.iter().map(put).collect();
                let mut accepted = vec![false; rows.len()];
                store.apply_batch(tx, &ops, false, &mut |n, applied| {
                    if let Applied::Put(put) = applied {
                        accepted[n] = put.accepted;
                    }
                })?;
                taken.extend(
                    rows.iter()
                        .zip(accepted)
                        .filter(|(_, accepted)| *accepted)
                        .map(|((place, _), _)| *place),
                );
            }
        }
        Ok(())
    }
}

/// A table's store.
enum Table {
    KeyValue(KeyValueStore),
    Timestamped(TimestampedKeyValueStore),
    Versioned(VersionedStore),
}

impl Operator for Materialize {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        let mut settings = BTreeMap::new();
        let form = match self.table {
            TableKind::KeyValue => "key_value",
            TableKind::Timestamped => "timestamped",
            TableKind::Versioned { history_retention } => {
                settings.insert(
                    "history_retention".to_owned(),
                    Value::from(history_retention),
                );
                "versioned"
            }
        };
        settings.insert("table".to_owned(), Value::from(form));
        self.rows.layout.meta(
            "materialize",
            Sides {
                left: true,
                right: false,
            },
            settings,
            first_epoch,
        )
    }

    fn input(&mut self) -> (&mut Rows, &mut Counts) {
        (&mut self.rows, &mut self.counts)
    }

    fn run(
        &mut self,
        db: &Database,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<Outcome> {
        let table = match self.table {
            TableKind::KeyValue => Table::KeyValue(db.key_value(TABLE)?),
            TableKind::Timestamped => Table::Timestamped(db.timestamped_key_value(TABLE)?),
            TableKind::Versioned { .. } => Table::Versioned(db.versioned(TABLE)?),
        };
        let mut digest = Xxh3Default::new();
        let mut taken = Vec::new();
        while let Some(part) = self.rows.next_part(Order::Matchable, &mut self.counts)? {
            let kept = self.kept(part);
            for rows in batches(&kept, |(place, _)| self.rows.row_bytes(*place)) {
                taken.clear();
                self.put(&table, tx, rows, &mut taken)?;
                self.counts.late += (rows.len() - taken.len()) as u64;
                if !taken.is_empty() {
                    digest_places(&self.rows.inputs, &taken, &mut digest);
                    self.counts.output_rows += taken.len() as u64;
                    worker.emit(self.output.of_places(&self.rows, &taken, &Right::none())?)?;
                }
            }
        }
        Ok(Outcome {
            input: self.rows.digest(),
            output: Digest::from_hasher(&digest),
            counts: self.counts,
        })
    }
}
