//! The first stage: stores the left table by its own key, and sends each change to the partitions
//! of the foreign keys.

use std::sync::Arc;

use arrow_schema::{Field, Schema};
use holdfast_core::{
    Database, Error, ErrorKind, Result, StoreKind, StoreSpec, Timestamp, Transaction,
    VersionedStore,
};
use serde::Deserialize;
use serde_json::Value;

use super::action::Action;
use super::forwarded_rows::ForwardedRows;
use super::stored_left_row::StoredLeftRow;
use crate::codec::key::{KeyCodec, Keys};
use crate::operator::execution::Operator;
use crate::operator::input::{
    InputBatch, InputLayout, InputRows, RowOrder, RowPlace, RowsSpec, StoredSides,
};
use crate::operator::join_table::JoinTableKind;
use crate::operator::outcome::Outcome;
use crate::operator::output::{JoinedRowWriter, OutputColumn, OutputColumns};
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
    /// The foreign keys of the current part, batch by batch.
    foreign: Vec<Keys>,
    counts: Counts,
}

/// A row of the input that changes the table.
struct LeftChange {
    key: Vec<u8>,
    time: i64,
    /// The encoded [`StoredLeftRow`]; none if the row is a delete.
    value: Option<Vec<u8>>,
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
        if !spec.rows.order_left.is_empty() {
            return wrong(
                "it has order_by columns, but rows of one key and time must follow each other"
                    .to_owned(),
            );
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

    /// Returns the change of a row; none if the row has no key or no time.
    fn change(&self, place: RowPlace) -> Result<Option<LeftChange>> {
        let (Some(key), Some(time)) = (self.rows.key(place), self.rows.time(place)) else {
            return Ok(None);
        };
        let first = self.rows.layout.left.start;
        let deletes = self.rows.all_null(place, first, &self.spec.values);
        let row = (!deletes).then(|| StoredLeftRow {
            foreign: self.foreign[place.input()].get(place.row()),
            payload: self.rows.payload(place),
        });
        Ok(Some(LeftChange {
            key: key.to_vec(),
            time,
            value: row.map(|row| row.encode()).transpose()?,
        }))
    }

    /// Puts a row into the table, and forwards its actions to the second stage. Returns whether the
    /// row is late.
    fn apply(
        &self,
        tx: &mut Transaction,
        table: &VersionedStore,
        LeftChange { key, time, value }: &LeftChange,
        forwarded: &mut ForwardedRows<'_>,
    ) -> Result<bool> {
        let time = *time;
        let stored = |version: Option<holdfast_core::Version<'_>>| {
            version.map(|version| version.value.to_vec())
        };
        let before = table.get_as_of(tx, key, Timestamp(time), stored)?;
        let before = decode(table, key, before.as_deref())?;
        let ours = decode(table, key, value.as_deref())?;
        let put = table.put(tx, key, value.as_deref(), Timestamp(time))?;
        // A row older than the newest of its key does not change the result: the second stage does
        // not need it.
        if !put.accepted || put.valid_to.is_some() {
            return Ok(true);
        }
        let mut forward = |action: Action, row: &StoredLeftRow<'_>| -> Result<()> {
            // The second stage does not store a row without a foreign key. Such a row is in the
            // result with `left` only.
            if row.foreign.is_some()
                || (self.spec.how != JoinTableKind::Inner && action != Action::Drop)
            {
                forwarded.push(action, key, time, row.payload)?;
            }
            Ok(())
        };
        let left_behind = before.filter(|before| {
            ours.as_ref()
                .is_none_or(|ours| ours.foreign != before.foreign)
        });
        match (&left_behind, &ours) {
            (None, None) => {}
            (Some(before), None) => forward(Action::Withdraw, before)?,
            (None, Some(ours)) => forward(Action::Join, ours)?,
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
                forward(action, before)?;
                forward(Action::Moved, ours)?;
            }
        }
        Ok(false)
    }
}

/// Decodes a row of the table, if there is one.
fn decode<'a>(
    table: &VersionedStore,
    key: &[u8],
    row: Option<&'a [u8]>,
) -> Result<Option<StoredLeftRow<'a>>> {
    row.map(|row| StoredLeftRow::decode(row).ok_or_else(|| unreadable_row(table.name(), key)))
        .transpose()
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
        let mut counts = self.counts;
        let layout = Arc::clone(&self.rows.layout);
        let writer = JoinedRowWriter::new(&self.output, &layout, worker);
        let mut forwarded = ForwardedRows::new(writer, &layout);
        // Of several rows with the same key and time, only the last one changes the table. They
        // follow each other, also across parts: the key is what first orders rows of equal times.
        let mut last: Option<LeftChange> = None;
        while let Some(part) = self.rows.next_part(RowOrder::All, &mut counts)? {
            self.foreign = self.encode_foreign_keys()?;
            for place in part {
                let Some(change) = self.change(place)? else {
                    counts.dropped += 1;
                    continue;
                };
                let is_replaced = last
                    .as_ref()
                    .is_some_and(|before| (before.time, &before.key) == (change.time, &change.key));
                if let Some(before) = last.replace(change)
                    && !is_replaced
                {
                    counts.late += u64::from(self.apply(tx, &table, &before, &mut forwarded)?);
                }
            }
        }
        if let Some(change) = last {
            counts.late += u64::from(self.apply(tx, &table, &change, &mut forwarded)?);
        }
        forwarded.finish(&self.rows, counts)
    }
}
