//! The join of two tables: change streams of one key, each kept as a versioned table; its result is
//! one, too.
//!
//! A row that is the newest of its key changes the result from its time on: a row goes out with the
//! other side as of that time, and one for each later change of the other side. In the order of
//! time there is none, so each row gives one. A row older than the newest of its key takes its
//! place in the table, and gives none. `spec.rs` settings · `timeline.rs` the other side from a
//! time on.

mod spec;
pub mod timeline;

pub use spec::{How, Spec};

use std::sync::Arc;

use arrow_array::Array;
use arrow_schema::Schema;
use holdfast_core::{Database, Result, Timestamp, Transaction, VersionedStore};

use super::pairs::Emitter;
use super::rows::{Layout, Order, Place, Rows, Sides};
use super::{Counts, Operator, Outcome, Output, Worker};
use crate::protocol::Epoch;
use crate::root::OperatorMeta;
use timeline::Stretch;

/// The store of the left table.
pub const LEFT: &str = "left";
/// The store of the right table.
pub const RIGHT: &str = "right";

/// One session of a join of tables.
pub struct JoinTable {
    spec: Spec,
    output: Output,
    rows: Rows,
    counts: Counts,
}

/// A row, as its table takes it.
struct Change<'a> {
    is_left: bool,
    key: &'a [u8],
    time: i64,
    /// None deletes.
    value: Option<&'a [u8]>,
}

impl JoinTable {
    /// A join over input of these columns.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` names the column or setting that does not fit.
    pub fn new(spec: &Spec, schema: &Schema) -> Result<Self> {
        spec.check()?;
        let layout = Layout::new("join_table", &spec.rows, schema)?;
        let output = Output::new("join_table", &spec.output, &layout)?;
        Ok(Self {
            spec: spec.clone(),
            output,
            rows: Rows::with_payloads(layout, true, true),
            counts: Counts::default(),
        })
    }

    /// A row as a change; none without a key or a time.
    fn change(&self, place: Place) -> Option<Change<'_>> {
        let (input, row, is_left) = (
            &self.rows.inputs[place.input()],
            place.row(),
            place.is_left(),
        );
        let layout = &self.rows.layout;
        let (values, first) = match is_left {
            true => (&self.spec.left_values, layout.left.start),
            false => (&self.spec.right_values, layout.right.start),
        };
        let deletes = !values.is_empty()
            && values
                .iter()
                .all(|value| input.batch.column(first + value).is_null(row));
        let value = (!deletes).then(|| self.rows.payload(place));
        Some(Change {
            is_left,
            key: input.keys.get(row)?,
            time: input.time(row)?,
            value,
        })
    }

    /// Puts a change into its table, and emits what it changes.
    fn apply(
        &self,
        tx: &mut Transaction,
        own: &VersionedStore,
        other: &VersionedStore,
        change: &Change<'_>,
        emitter: &mut Emitter<'_>,
    ) -> Result<Applied> {
        let Change {
            is_left,
            key,
            time,
            value,
        } = *change;
        let was_there = own.get_as_of(tx, key, Timestamp(time), |version| version.is_some())?;
        let put = own.put(tx, key, value, Timestamp(time))?;
        if !put.accepted || put.valid_to.is_some() {
            return Ok(Applied::Late);
        }
        if !was_there && value.is_none() {
            return Ok(Applied::Newest { matched: 0 });
        }
        let joins = |own: bool, other: bool| {
            if is_left {
                self.spec.how.joins(own, other)
            } else {
                self.spec.how.joins(other, own)
            }
        };
        let mut is_joined = false;
        let mut matched = 0;
        for Stretch {
            since,
            value: theirs,
        } in timeline::from(other, tx, key, time)?
        {
            let joined_before = is_joined || joins(was_there, theirs.is_some());
            is_joined = joins(value.is_some(), theirs.is_some());
            if !is_joined && !joined_before {
                continue;
            }
            matched += u64::from(value.is_some() && theirs.is_some());
            // What is no row of the result is a delete: all values are null.
            let ours = (Some(time), value.filter(|_| is_joined));
            let theirs = (since, theirs.as_deref().filter(|_| is_joined));
            let (left, right) = if is_left {
                (ours, theirs)
            } else {
                (theirs, ours)
            };
            emitter.push_halves(key, left, right)?;
        }
        Ok(Applied::Newest { matched })
    }
}

/// What became of a change.
enum Applied {
    /// It is older than the newest row of its key, or than the history.
    Late,
    /// It is the newest row of its key.
    Newest {
        /// Rows of the result with both sides.
        matched: u64,
    },
}

impl Operator for JoinTable {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        let settings = self.spec.how.settings(self.spec.history_retention);
        self.rows.layout.meta(
            "join_table",
            Sides {
                left: true,
                right: true,
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
        let (left, right) = (db.versioned(LEFT)?, db.versioned(RIGHT)?);
        let mut counts = self.counts;
        let layout = Arc::clone(&self.rows.layout);
        let mut emitter = Emitter::new(&self.output, &layout, worker);
        while let Some(part) = self.rows.next_part(Order::All, &mut counts)? {
            for place in part {
                let Some(change) = self.change(place) else {
                    counts.dropped += 1;
                    continue;
                };
                let (own, other) = if change.is_left {
                    (&left, &right)
                } else {
                    (&right, &left)
                };
                match self.apply(tx, own, other, &change, &mut emitter)? {
                    Applied::Late => counts.late += 1,
                    Applied::Newest { matched } => counts.matched += matched,
                }
            }
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
