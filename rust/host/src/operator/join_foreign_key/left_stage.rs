//! The first stage: stores the left table by its own key, and sends each change to the partitions
//! of the foreign keys.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Int8Array, Int64Array};
use arrow_schema::{Field, Schema};
use holdfast_core::{
    Database, Error, ErrorKind, Result, StoreKind, StoreSpec, Timestamp, Transaction,
    VersionedStore,
};
use serde::Deserialize;
use serde_json::Value;

use super::action::Action;
use super::stored_left_row::StoredLeftRow;
use crate::codec::key::{KeyCodec, Keys};
use crate::operator::execution::Operator;
use crate::operator::input::{
    InputBatch, InputLayout, InputRows, RowOrder, RowPlace, RowsSpec, StoredSides,
};
use crate::operator::join_table::JoinTableKind;
use crate::operator::outcome::Outcome;
use crate::operator::output::{JoinedRowWriter, JoinedSide, OutputColumn, OutputColumns};
use crate::operator::spec::OperatorSpec;
use crate::operator::waiting_rows::unreadable_row;
use crate::operator::worker::Worker;
use crate::protocol::Counts;
use crate::protocol::Epoch;
use crate::root::OperatorMeta;

/// The store of the left table.
const TABLE: &str = "table";

/// The settings of the first stage.
#[derive(Debug, Clone, Deserialize)]
pub struct ForeignLeftSpec {
    /// The input's columns; all rows are left ones. This stage makes the right columns: the action,
    /// and its number.
    #[serde(flatten)]
    pub rows: RowsSpec,
    /// Which sides a row of the result must have. With `left`, rows without a foreign key are
    /// forwarded, too.
    pub how: JoinTableKind,
    /// How far back the table reaches, in microseconds.
    pub history_retention: i64,
    /// The left payload columns that are values: a row in which all of them are null is a delete.
    /// If there are none, no row is a delete.
    pub values: Vec<usize>,
    /// The left payload columns that are the foreign key.
    pub foreign: Vec<usize>,
    /// The result's columns.
    pub output: Vec<OutputColumn>,
}

impl OperatorSpec for ForeignLeftSpec {
    fn start(&self, schema: &Schema) -> Result<Box<dyn Operator>> {
        Ok(Box::new(ForeignLeft::new(self, schema)?))
    }

    fn rows(&self) -> &RowsSpec {
        &self.rows
    }

    fn stores(&self) -> Vec<StoreSpec> {
        let kind = StoreKind::versioned(self.history_retention);
        vec![StoreSpec::new(TABLE, kind)]
    }
}

/// One session of the first stage.
pub struct ForeignLeft {
    spec: ForeignLeftSpec,
    output: OutputColumns,
    rows: InputRows,
    foreign_codec: KeyCodec,
    /// The foreign keys, batch by batch.
    foreign: Vec<Keys>,
    counts: Counts,
}

/// A row for the second stage.
struct ForwardedRow<'a> {
    action: Action,
    key: &'a [u8],
    time: i64,
    payload: Range<usize>,
}

/// The rows for the second stage. All their payloads are in one buffer.
#[derive(Default)]
struct ForwardedRows<'a> {
    rows: Vec<ForwardedRow<'a>>,
    bytes: Vec<u8>,
}

/// A row of the input that changes the table.
struct LeftChange<'a> {
    place: RowPlace,
    key: &'a [u8],
    time: i64,
}

impl ForeignLeft {
    fn new(spec: &ForeignLeftSpec, schema: &Schema) -> Result<Self> {
        let wrong = |what: String| {
            Err(Error::new(
                ErrorKind::InvalidValue,
                format!("foreign_left: {what}"),
            ))
        };
        if spec.history_retention < 0 {
            return wrong(format!(
                "history_retention is negative ({})",
                spec.history_retention
            ));
        }
        if let Some(column) = spec
            .values
            .iter()
            .chain(&spec.foreign)
            .find(|column| **column >= spec.rows.left.len())
        {
            return wrong(format!("column {column} does not exist"));
        }
        let layout = InputLayout::new("foreign_left", &spec.rows, schema)?;
        let output = OutputColumns::new("foreign_left", &spec.output, &layout)?;
        let fields: Vec<Field> = spec
            .foreign
            .iter()
            .map(|column| layout.field(layout.left.start + column).clone())
            .collect();
        Ok(Self {
            foreign_codec: KeyCodec::new(&fields)?,
            spec: spec.clone(),
            output,
            rows: InputRows::with_payloads(layout, true, false),
            foreign: Vec::new(),
            counts: Counts::default(),
        })
    }

    /// Encodes the foreign keys of the input.
    fn encode_foreign_keys(&self) -> Result<Vec<Keys>> {
        let first = self.rows.layout.left.start;
        let encode = |input: &InputBatch| {
            let foreign = self.spec.foreign.iter();
            let columns: Vec<_> = foreign
                .map(|column| input.batch.column(first + column).clone())
                .collect();
            self.foreign_codec.encode(&columns)
        };
        self.rows.inputs.iter().map(encode).collect()
    }

    /// Returns the rows that change the table, in order. Of several rows with the same key and
    /// time, only the last one changes it.
    fn changes(&self, places: Vec<RowPlace>, counts: &mut Counts) -> Vec<LeftChange<'_>> {
        let mut held: HashMap<&[u8], i64> = HashMap::new();
        let mut changes = Vec::new();
        for place in places.into_iter().rev() {
            let (Some(key), Some(time)) = (self.rows.key(place), self.rows.time(place)) else {
                counts.dropped += 1;
                continue;
            };
            if held.insert(key, time) != Some(time) {
                changes.push(LeftChange { place, key, time });
            }
        }
        changes.reverse();
        changes
    }

    /// Returns the row to store; none if the row of the input is a delete.
    fn value(&self, place: RowPlace) -> Option<StoredLeftRow<'_>> {
        let first = self.rows.layout.left.start;
        let deletes = self.rows.all_null(place, first, &self.spec.values);
        (!deletes).then(|| StoredLeftRow {
            foreign: self.foreign[place.input()].get(place.row()),
            payload: self.rows.payload(place),
        })
    }

    /// Puts a row into the table, and forwards its actions to the second stage.
    fn apply<'a>(
        &'a self,
        tx: &mut Transaction,
        table: &VersionedStore,
        change: &LeftChange<'a>,
        forwarded: &mut ForwardedRows<'a>,
        counts: &mut Counts,
    ) -> Result<()> {
        let LeftChange { place, key, time } = *change;
        let stored = |version: Option<holdfast_core::Version<'_>>| {
            version.map(|version| version.value.to_vec())
        };
        let before = table.get_as_of(tx, key, Timestamp(time), stored)?;
        let before = before
            .as_deref()
            .map(|bytes| {
                StoredLeftRow::decode(bytes).ok_or_else(|| unreadable_row(table.name(), key))
            })
            .transpose()?;
        let ours = self.value(place);
        let value = ours.as_ref().map(StoredLeftRow::encode).transpose()?;
        let put = table.put(tx, key, value.as_deref(), Timestamp(time))?;
        // A row older than the newest of its key does not change the result: the second stage does
        // not need it.
        if !put.accepted || put.valid_to.is_some() {
            counts.late += 1;
            return Ok(());
        }
        let mut forward = |action: Action, row: &StoredLeftRow<'_>| {
            // The second stage does not store a row without a foreign key. Such a row is in the
            // result with `left` only.
            if row.foreign.is_some()
                || (self.spec.how != JoinTableKind::Inner && action != Action::Drop)
            {
                forwarded.push(action, key, time, row.payload);
            }
        };
        let left_behind = before.filter(|before| {
            ours.as_ref()
                .is_none_or(|ours| ours.foreign != before.foreign)
        });
        match (&left_behind, &ours) {
            (None, None) => {}
            (Some(before), None) => forward(Action::Withdraw, before),
            (None, Some(ours)) => forward(Action::Join, ours),
            (Some(before), Some(ours)) => {
                // The row with the new foreign key replaces the old result. In an inner join, a row
                // without a foreign key has no result, so the old result is withdrawn under the
                // old foreign key.
                let withdraws = ours.foreign.is_none() && self.spec.how == JoinTableKind::Inner;
                let action = if withdraws {
                    Action::Withdraw
                } else {
                    Action::Drop
                };
                forward(action, before);
                forward(Action::Moved, ours);
            }
        }
        Ok(())
    }
}

impl<'a> ForwardedRows<'a> {
    fn push(&mut self, action: Action, key: &'a [u8], time: i64, payload: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        self.rows.push(ForwardedRow {
            action,
            key,
            time,
            payload: start..self.bytes.len(),
        });
    }
}

impl Operator for ForeignLeft {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        let foreign: Vec<&str> = self
            .spec
            .foreign
            .iter()
            .map(|column| self.spec.rows.left[*column].as_str())
            .collect();
        let mut settings = self.spec.how.settings(self.spec.history_retention);
        settings.insert("foreign_key".to_owned(), Value::from(foreign));
        let layout = &self.rows.layout;
        layout.meta("foreign_left", StoredSides::LEFT, settings, first_epoch)
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
        let table = db.versioned(TABLE)?;
        let (mut counts, mut forwarded) = (self.counts, ForwardedRows::default());
        let places = self.rows.all(RowOrder::All, &mut counts)?;
        self.foreign = self.encode_foreign_keys()?;
        for change in self.changes(places, &mut counts) {
            self.apply(tx, &table, &change, &mut forwarded, &mut counts)?;
        }
        let actions: Int8Array = forwarded
            .rows
            .iter()
            .map(|row| Some(row.action as i8))
            .collect();
        let numbers: Int64Array = (0..forwarded.rows.len() as i64).map(Some).collect();
        let marks = self.rows.layout.right_codec.encode(
            &[Arc::new(actions), Arc::new(numbers)],
            forwarded.rows.len(),
        )?;
        let mut writer = JoinedRowWriter::new(&self.output, &self.rows.layout, worker);
        for (number, row) in forwarded.rows.iter().enumerate() {
            writer.push(
                row.key,
                JoinedSide::row(Some(row.time), &forwarded.bytes[row.payload.clone()]),
                JoinedSide::row(None, marks.get(number)),
            )?;
        }
        writer.finish(&self.rows, counts)
    }
}
