//! A change stream stored as a table.
//!
//! A row whose value columns are all null deletes its key. The output is the rows that the table
//! accepts.

use std::collections::BTreeMap;

use arrow_schema::Schema;
use holdfast_core::{
    Applied, Database, KeyValueStore, Op, Result, StoreSpec, Timestamp, TimestampedKeyValueStore,
    Transaction, VersionedStore,
};
use serde_json::Value;

use super::spec::{MaterializeSpec, TABLE, TableKind};
use crate::operator::batch_size::batches;
use crate::operator::execution::Operator;
use crate::operator::input::{InputLayout, InputRows, RowOrder, RowPlace, RowsSpec, StoredSides};
use crate::operator::outcome::Outcome;
use crate::operator::output::{OutputColumns, OutputWriter};
use crate::operator::spec::OperatorSpec;
use crate::operator::worker::Worker;
use crate::protocol::Counts;
use crate::protocol::Epoch;
use crate::root::OperatorMeta;

impl OperatorSpec for MaterializeSpec {
    fn start(&self, schema: &Schema) -> Result<Box<dyn Operator>> {
        Ok(Box::new(Materialize::new(self, schema)?))
    }

    fn rows(&self) -> &RowsSpec {
        &self.rows
    }

    fn stores(&self) -> Vec<StoreSpec> {
        vec![StoreSpec::new(TABLE, self.store_kind())]
    }
}

/// One session of a table.
pub struct Materialize {
    table: TableKind,
    values: Vec<usize>,
    output: OutputColumns,
    rows: InputRows,
    counts: Counts,
}

impl Materialize {
    fn new(spec: &MaterializeSpec, schema: &Schema) -> Result<Self> {
        spec.check()?;
        let layout = InputLayout::new("materialize", &spec.rows, schema)?;
        let output = OutputColumns::new("materialize", &spec.output, &layout)?;
        Ok(Self {
            table: spec.table,
            values: spec.values.clone(),
            output,
            rows: InputRows::with_payloads(layout, true, false),
            counts: Counts::default(),
        })
    }

    /// Returns the rows of a part that have a key and, in a table with times, a time. Counts the
    /// others as dropped.
    ///
    /// The rows are in order, each with its time (0 if it has none).
    fn usable(&mut self, part: Vec<RowPlace>) -> Vec<(RowPlace, i64)> {
        let timed = self.table != TableKind::KeyValue;
        let usable = part.into_iter().filter_map(|place| {
            let time = self.rows.time(place);
            if self.rows.key(place).is_none() || (timed && time.is_none()) {
                self.counts.dropped += 1;
                return None;
            }
            Some((place, time.unwrap_or(0)))
        });
        usable.collect()
    }

    /// Returns a row's value; none if the row deletes its key.
    fn value(&self, place: RowPlace) -> Option<&[u8]> {
        let first = self.rows.layout.left.start;
        let deletes = self.rows.all_null(place, first, &self.values);
        (!deletes).then(|| self.rows.payload(place))
    }

    /// Puts rows into the table, and adds the accepted ones to `accepted`.
    fn put(
        &self,
        table: &TableStore,
        tx: &mut Transaction,
        rows: &[(RowPlace, i64)],
        accepted: &mut Vec<RowPlace>,
    ) -> Result<()> {
        match table {
            TableStore::KeyValue(store) => {
                for (place, _) in rows {
                    store.put(tx, self.rows.key_with_nulls(*place), self.value(*place))?;
                    accepted.push(*place);
                }
            }
            TableStore::Timestamped(store) => {
                for (place, time) in rows {
                    let is_old = store.get(tx, self.rows.key_with_nulls(*place), |found| {
                        found.is_some_and(|found| found.timestamp.0 > *time)
                    })?;
                    if !is_old {
                        store.put(
                            tx,
                            self.rows.key_with_nulls(*place),
                            self.value(*place),
                            Timestamp(*time),
                        )?;
                        accepted.push(*place);
                    }
                }
            }
            TableStore::Versioned(store) => {
                let put = |(place, time): &(RowPlace, i64)| Op::Put {
                    key: self.rows.key_with_nulls(*place),
                    value: self.value(*place),
                    timestamp: Timestamp(*time),
                };
                let ops: Vec<Op<'_>> = rows.iter().map(put).collect();
                let mut is_accepted = vec![false; rows.len()];
                store.apply_batch(tx, &ops, false, &mut |n, applied| {
                    if let Applied::Put(put) = applied {
                        is_accepted[n] = put.accepted;
                    }
                })?;
                let accepted_rows = rows.iter().zip(is_accepted).filter(|(_, is)| *is);
                accepted.extend(accepted_rows.map(|((place, _), _)| *place));
            }
        }
        Ok(())
    }
}

/// A table's store.
enum TableStore {
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
        let layout = &self.rows.layout;
        layout.meta("materialize", StoredSides::LEFT, settings, first_epoch)
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
        let table = match self.table {
            TableKind::KeyValue => TableStore::KeyValue(db.key_value(TABLE)?),
            TableKind::Timestamped => TableStore::Timestamped(db.timestamped_key_value(TABLE)?),
            TableKind::Versioned { .. } => TableStore::Versioned(db.versioned(TABLE)?),
        };
        let mut writer = OutputWriter::new(worker);
        let mut accepted = Vec::new();
        while let Some(part) = self.rows.next_part(RowOrder::Matchable, &mut self.counts)? {
            let usable = self.usable(part);
            for rows in batches(&usable, |(place, _)| self.rows.row_bytes(*place)) {
                accepted.clear();
                self.put(&table, tx, rows, &mut accepted)?;
                self.counts.late += (rows.len() - accepted.len()) as u64;
                if !accepted.is_empty() {
                    writer.emit_input_rows(&self.output, &self.rows, &accepted)?;
                }
            }
        }
        Ok(writer.finish(&self.rows, self.counts))
    }
}
