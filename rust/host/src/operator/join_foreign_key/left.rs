//! The first stage: the left table by its own key, and what a change of it means for the foreign
//! keys.

use std::collections::HashMap;
use std::ops::Range;

use arrow_array::{Array, Int8Array, Int64Array};
use arrow_schema::{Field, Schema};
use holdfast_core::{
    Database, Error, ErrorKind, Result, StoreKind, StoreSpec, Timestamp, Transaction,
    VersionedStore,
};
use serde::Deserialize;
use serde_json::Value;

use super::action::Action;
use crate::codec::key::{KeyCodec, Keys};
use crate::operator::join_table::How;
use crate::operator::pairs::Emitter;
use crate::operator::rows::{Input, Layout, Order, Place, Rows, RowsSpec, Sides};
use crate::operator::{Counts, Operator, Outcome, Output, OutputColumn, Worker};
use crate::protocol::Epoch;
use crate::root::OperatorMeta;

/// The store of the left table.
const TABLE: &str = "table";

/// What the driver says about the left table.
#[derive(Debug, Clone, Deserialize)]
pub struct Spec {
    /// The input's columns: all rows are left ones. The right columns are what this stage makes:
    /// the action, and its number.
    #[serde(flatten)]
    pub rows: RowsSpec,
    /// Which sides must be there: with `left`, rows without a foreign key go on, too.
    pub how: How,
    /// How far back the table reaches: microseconds.
    pub history_retention: i64,
    /// The left payload columns that are values: a row in which all are null deletes. None of them:
    /// no row does.
    pub values: Vec<usize>,
    /// The left payload columns that are the foreign key.
    pub foreign: Vec<usize>,
    /// The result's columns.
    pub output: Vec<OutputColumn>,
}

impl Spec {
    /// The one store: the left table's versions.
    pub fn stores(&self) -> Vec<StoreSpec> {
        vec![StoreSpec::new(
            TABLE,
            StoreKind::versioned(self.history_retention),
        )]
    }
}

/// One session of the first stage.
pub struct ForeignLeft {
    spec: Spec,
    output: Output,
    rows: Rows,
    foreign_codec: KeyCodec,
    /// The foreign keys, batch by batch.
    foreign: Vec<Keys>,
    counts: Counts,
}

/// A row that goes on: what to do with it, its key, its time, its payload.
struct Told<'a> {
    action: Action,
    key: &'a [u8],
    time: i64,
    payload: Range<usize>,
}

/// The rows that go on, with their payloads.
#[derive(Default)]
struct Story<'a> {
    told: Vec<Told<'a>>,
    bytes: Vec<u8>,
}

/// A row of the input that holds.
struct Change<'a> {
    place: Place,
    key: &'a [u8],
    time: i64,
}

/// What is kept of a row.
///
/// ```text
/// 0: no foreign key | payload
/// 1 | length of the foreign key, 4 bytes big-endian | foreign key | payload
/// ```
struct Kept<'a> {
    foreign: Option<&'a [u8]>,
    payload: &'a [u8],
}

impl<'a> Kept<'a> {
    fn encode(&self) -> Result<Vec<u8>> {
        let Some(foreign) = self.foreign else {
            return Ok([&[0], self.payload].concat());
        };
        let length = u32::try_from(foreign.len()).map_err(|_| {
            Error::new(ErrorKind::InvalidValue, "a foreign key has more than 4 GiB")
        })?;
        Ok([&[1], &length.to_be_bytes()[..], foreign, self.payload].concat())
    }

    fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        if *tag == 0 {
            return Some(Self {
                foreign: None,
                payload: rest,
            });
        }
        let (length, rest) = rest.split_first_chunk()?;
        let (foreign, payload) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        Some(Self {
            foreign: Some(foreign),
            payload,
        })
    }
}

impl ForeignLeft {
    /// The first stage over input of these columns.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` names the column or setting that does not fit.
    pub fn new(spec: &Spec, schema: &Schema) -> Result<Self> {
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
            return wrong(format!("column {column} is not there"));
        }
        let layout = Layout::new("foreign_left", &spec.rows, schema)?;
        let output = Output::new("foreign_left", &spec.output, &layout)?;
        let fields: Vec<Field> = spec
            .foreign
            .iter()
            .map(|column| layout.field(layout.left.start + column).clone())
            .collect();
        Ok(Self {
            foreign_codec: KeyCodec::new(&fields)?,
            spec: spec.clone(),
            output,
            rows: Rows::with_payloads(layout, true, false),
            foreign: Vec::new(),
            counts: Counts::default(),
        })
    }

    /// The rows that hold, in order: of those of one key and time the last one.
    fn changes(&self, places: Vec<Place>, counts: &mut Counts) -> Vec<Change<'_>> {
        let mut held: HashMap<&[u8], i64> = HashMap::new();
        let mut changes = Vec::new();
        for place in places.into_iter().rev() {
            let input = &self.rows.inputs[place.input()];
            let (Some(key), Some(time)) = (input.keys.get(place.row()), input.time(place.row()))
            else {
                counts.dropped += 1;
                continue;
            };
            if held.insert(key, time) != Some(time) {
                changes.push(Change { place, key, time });
            }
        }
        changes.reverse();
        changes
    }

    /// What a row says; none if it deletes.
    fn value(&self, place: Place) -> Option<Kept<'_>> {
        let (batch, row) = (&self.rows.inputs[place.input()].batch, place.row());
        let first = self.rows.layout.left.start;
        let deletes = !self.spec.values.is_empty()
            && self
                .spec
                .values
                .iter()
                .all(|value| batch.column(first + value).is_null(row));
        (!deletes).then(|| Kept {
            foreign: self.foreign[place.input()].get(row),
            payload: self.rows.payload(place),
        })
    }

    /// Puts a row into the table, and tells what it changes.
    fn apply<'a>(
        &'a self,
        tx: &mut Transaction,
        table: &VersionedStore,
        change: &Change<'a>,
        story: &mut Story<'a>,
        counts: &mut Counts,
    ) -> Result<()> {
        let Change { place, key, time } = *change;
        let stored = |version: Option<holdfast_core::Version<'_>>| {
            version.map(|version| version.value.to_vec())
        };
        let before = table.get_as_of(tx, key, Timestamp(time), stored)?;
        let before = before
            .as_deref()
            .map(|bytes| self.read(table, key, bytes))
            .transpose()?;
        let ours = self.value(place);
        let value = ours.as_ref().map(Kept::encode).transpose()?;
        let put = table.put(tx, key, value.as_deref(), Timestamp(time))?;
        // A row older than the newest of its key changes nothing of the result: the second stage
        // need not know it.
        if !put.accepted || put.valid_to.is_some() {
            counts.late += 1;
            return Ok(());
        }
        let mut tell = |action: Action, row: &Kept<'_>| {
            // Without a foreign key there is nothing to be kept, and something to be seen with
            // `left` only.
            if row.foreign.is_some() || (self.spec.how != How::Inner && action != Action::Drop) {
                let start = story.bytes.len();
                story.bytes.extend_from_slice(row.payload);
                story.told.push(Told {
                    action,
                    key,
                    time,
                    payload: start..story.bytes.len(),
                });
            }
        };
        let left_behind = before.filter(|before| {
            ours.as_ref()
                .is_none_or(|ours| ours.foreign != before.foreign)
        });
        match (&left_behind, &ours) {
            (None, None) => {}
            (Some(before), None) => tell(Action::Withdraw, before),
            (None, Some(ours)) => tell(Action::Join, ours),
            (Some(before), Some(ours)) => {
                // Who replaces the old result: the new foreign key, or, where there is none, the
                // old one.
                let nobody = ours.foreign.is_none() && self.spec.how == How::Inner;
                tell(
                    if nobody {
                        Action::Withdraw
                    } else {
                        Action::Drop
                    },
                    before,
                );
                tell(Action::Moved, ours);
            }
        }
        Ok(())
    }

    fn read<'b>(&self, table: &VersionedStore, key: &[u8], bytes: &'b [u8]) -> Result<Kept<'b>> {
        Kept::decode(bytes).ok_or_else(|| {
            let text = "a stored row cannot be read: restore the state from a backup";
            Error::new(ErrorKind::Serialization, text)
                .store(table.name())
                .key(key)
        })
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
        self.rows.layout.meta(
            "foreign_left",
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
        let table = db.versioned(TABLE)?;
        let (mut counts, mut story) = (self.counts, Story::default());
        let places = self.rows.all(Order::All, &mut counts)?;
        let first = self.rows.layout.left.start;
        let foreign = |input: &Input| {
            let columns: Vec<_> = self
                .spec
                .foreign
                .iter()
                .map(|column| input.batch.column(first + column).clone())
                .collect();
            self.foreign_codec.encode(&columns)
        };
        self.foreign = self
            .rows
            .inputs
            .iter()
            .map(foreign)
            .collect::<Result<_>>()?;
        for change in self.changes(places, &mut counts) {
            self.apply(tx, &table, &change, &mut story, &mut counts)?;
        }
        let actions: Int8Array = story
            .told
            .iter()
            .map(|told| Some(told.action as i8))
            .collect();
        let numbers: Int64Array = (0..story.told.len() as i64).map(Some).collect();
        let marks = self.rows.layout.right_codec.encode(
            &[std::sync::Arc::new(actions), std::sync::Arc::new(numbers)],
            story.told.len(),
        )?;
        let mut emitter = Emitter::new(&self.output, &self.rows.layout, worker);
        for (
            number,
            Told {
                key, time, payload, ..
            },
        ) in story.told.iter().enumerate()
        {
            emitter.push(
                key,
                Some((Some(*time), &story.bytes[payload.clone()])),
                Some((None, marks.get(number))),
            )?;
        }
        let (output, rows) = emitter.finish()?;
        counts.output_rows = rows;
        Ok(Outcome {
            input: self.rows.digest(),
            output,
            counts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stored format.
    #[test]
    fn golden_bytes() {
        let (with, without) = (
            Kept {
                foreign: Some(b"ab"),
                payload: b"row",
            },
            Kept {
                foreign: None,
                payload: b"row",
            },
        );
        let bytes = with.encode().expect("short");
        assert_eq!(bytes, b"\x01\x00\x00\x00\x02abrow");
        assert_eq!(without.encode().expect("short"), b"\x00row");
        let back = Kept::decode(&bytes).expect("readable");
        assert_eq!(
            (back.foreign, back.payload),
            (Some(&b"ab"[..]), &b"row"[..])
        );
        assert!(Kept::decode(&bytes[..6]).is_none() && Kept::decode(b"").is_none());
    }
}
