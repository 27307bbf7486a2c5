//! Joins two tables. Each input is the change stream of a table, and so is the result.
//!
//! If a row is the newest of its key in its own table, it changes the result from its time on. The
//! operator sends one result row with the other side as of that time, and one for each later change
//! of the other side. It sends none where the sides neither join nor joined before. If rows arrive
//! in the order of time, the other side has no later change, so each input row gives at most one
//! result row. A row that is older than the newest of its key in its own table gives no result row.

use std::sync::Arc;

use arrow_schema::Schema;
use holdfast_core::{Database, Result, StoreSpec, Timestamp, Transaction, VersionedStore};

use super::spec::{JoinTableSpec, LEFT, RIGHT, table_stores};
use crate::operator::execution::Operator;
use crate::operator::input::{InputLayout, InputRows, RowOrder, RowPlace, RowsSpec, StoredSides};
use crate::operator::outcome::Outcome;
use crate::operator::output::{JoinedRowWriter, JoinedSide, OutputColumns};
use crate::operator::spec::OperatorSpec;
use crate::operator::table_timeline::{TimelineInterval, for_each_interval};
use crate::operator::worker::Worker;
use crate::protocol::Counts;
use crate::protocol::Epoch;
use crate::root::OperatorMeta;

/// One session of a join of tables.
pub struct JoinTable {
    spec: JoinTableSpec,
    output: OutputColumns,
    rows: InputRows,
    counts: Counts,
}

/// A change of one of the two tables, from one input row.
struct TableChange<'a> {
    is_left: bool,
    key: &'a [u8],
    time: i64,
    /// The row's value; none if the change is a delete.
    value: Option<&'a [u8]>,
}

/// Where a change is in the history of its key.
enum AppliedChange {
    /// It is older than the newest row of its key, or than the history.
    Late,
    /// It is the newest row of its key.
    Newest {
        /// The number of result rows that have both sides.
        matched: u64,
    },
}

impl OperatorSpec for JoinTableSpec {
    fn start(&self, schema: &Schema) -> Result<Box<dyn Operator>> {
        Ok(Box::new(JoinTable::new(self, schema)?))
    }

    fn rows(&self) -> &RowsSpec {
        &self.rows
    }

    fn stores(&self) -> Vec<StoreSpec> {
        table_stores(self.history_retention)
    }
}

impl JoinTable {
    fn new(spec: &JoinTableSpec, schema: &Schema) -> Result<Self> {
        spec.check()?;
        let layout = InputLayout::new("join_table", &spec.rows, schema)?;
        let output = OutputColumns::new("join_table", &spec.output, &layout)?;
        Ok(Self {
            spec: spec.clone(),
            output,
            rows: InputRows::with_payloads(layout, true, true),
            counts: Counts::default(),
        })
    }

    /// Returns a row's change; none if the row has no key or no time.
    fn change(&self, place: RowPlace) -> Option<TableChange<'_>> {
        let layout = &self.rows.layout;
        let (values, first) = match place.is_left() {
            true => (&self.spec.left_values, layout.left.start),
            false => (&self.spec.right_values, layout.right.start),
        };
        let deletes = self.rows.all_null(place, first, values);
        Some(TableChange {
            is_left: place.is_left(),
            key: self.rows.key(place)?,
            time: self.rows.time(place)?,
            value: (!deletes).then(|| self.rows.payload(place)),
        })
    }

    /// Puts a change into its table, and sends the rows of the result that it changes.
    fn apply(
        &self,
        tx: &mut Transaction,
        own: &VersionedStore,
        other: &VersionedStore,
        change: &TableChange<'_>,
        writer: &mut JoinedRowWriter<'_>,
    ) -> Result<AppliedChange> {
        let TableChange {
            is_left,
            key,
            time,
            value,
        } = *change;
        let was_there = own.get_as_of(tx, key, Timestamp(time), |version| version.is_some())?;
        let put = own.put(tx, key, value, Timestamp(time))?;
        if !put.accepted || put.valid_to.is_some() {
            return Ok(AppliedChange::Late);
        }
        if !was_there && value.is_none() {
            return Ok(AppliedChange::Newest { matched: 0 });
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
        for_each_interval(other, tx, key, time, &mut |interval| {
            let TimelineInterval {
                since,
                value: theirs,
            } = interval;
            let joined_before = is_joined || joins(was_there, theirs.is_some());
            is_joined = joins(value.is_some(), theirs.is_some());
            if !is_joined && !joined_before {
                return Ok(());
            }
            matched += u64::from(value.is_some() && theirs.is_some());
            // If the sides no longer join, a delete goes out: all values are null.
            let ours = JoinedSide::new(Some(time), value.filter(|_| is_joined));
            let theirs = JoinedSide::new(since, theirs.as_deref().filter(|_| is_joined));
            let (left, right) = if is_left {
                (ours, theirs)
            } else {
                (theirs, ours)
            };
            writer.push(key, left, right)
        })?;
        Ok(AppliedChange::Newest { matched })
    }
}

impl Operator for JoinTable {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        let settings = self.spec.how.settings(self.spec.history_retention);
        let layout = &self.rows.layout;
        layout.meta("join_table", StoredSides::BOTH, settings, first_epoch)
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
        let (left, right) = (db.versioned(LEFT)?, db.versioned(RIGHT)?);
        let mut counts = self.counts;
        let layout = Arc::clone(&self.rows.layout);
        let mut writer = JoinedRowWriter::new(&self.output, &layout, worker);
        while let Some(part) = self.rows.next_part(RowOrder::All, &mut counts)? {
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
                match self.apply(tx, own, other, &change, &mut writer)? {
                    AppliedChange::Late => counts.late += 1,
                    AppliedChange::Newest { matched } => counts.matched += matched,
                }
            }
        }
        writer.finish(&self.rows, counts)
    }
}
