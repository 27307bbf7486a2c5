//! A change stream stored as a table.
//!
//! A row whose value columns are all null deletes its key. The output is the rows that the table
//! accepts.

use std::collections::BTreeMap;

use arrow_schema::Schema;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
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
                let keys = BatchKeys::of(rows, |place| self.rows.key_with_nulls(place));
                let mut last = vec![0; keys.distinct.len()];
                for (row, key) in keys.of_rows.iter().enumerate() {
                    last[*key] = row;
                }
                let last = keys.distinct.iter().zip(last);
                store.put_batch(tx, last.map(|(key, row)| (*key, self.value(rows[row].0))))?;
                accepted.extend(rows.iter().map(|(place, _)| *place));
            }
            TableStore::Timestamped(store) => {
                let keys = BatchKeys::of(rows, |place| self.rows.key_with_nulls(place));
                let mut newest = vec![None; keys.distinct.len()];
                store.get_batch(tx, &keys.distinct, |key, found| {
                    newest[key] = found.map(|found| found.timestamp.0);
                })?;
                let mut last = vec![None; keys.distinct.len()];
                for ((place, time), key) in rows.iter().zip(&keys.of_rows) {
                    if newest[*key].is_some_and(|newest| newest > *time) {
                        continue;
                    }
                    let value = self.value(*place);
                    // The time of a delete is not stored.
                    newest[*key] = value.map(|_| *time);
                    last[*key] = Some((value, Timestamp(*time)));
                    accepted.push(*place);
                }
                let last = keys.distinct.iter().zip(last);
                let puts =
                    last.filter_map(|(key, row)| row.map(|(value, time)| (*key, value, time)));
                store.put_batch(tx, puts)?;
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

/// The keys of a batch of rows, each once.
struct BatchKeys<'a> {
    /// In the order in which the rows have them.
    distinct: Vec<&'a [u8]>,
    /// The number of each row's key in `distinct`.
    of_rows: Vec<usize>,
}

impl<'a> BatchKeys<'a> {
    fn of(rows: &[(RowPlace, i64)], key: impl Fn(RowPlace) -> &'a [u8]) -> Self {
        let mut numbers: HashMap<&[u8], usize, RandomState> = HashMap::default();
        let mut distinct = Vec::new();
        let number = |(place, _): &(RowPlace, i64)| {
            *numbers.entry(key(*place)).or_insert_with_key(|key| {
                distinct.push(*key);
                distinct.len() - 1
            })
        };
        let of_rows = rows.iter().map(number).collect();
        Self { distinct, of_rows }
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
