//! The second stage: joins left rows, partitioned by their foreign key, with the right table.

use std::sync::Arc;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_schema::Schema;
use holdfast_core::{
    Database, Error, ErrorKind, Result, StoreSpec, Timestamp, Transaction, VersionRow,
    VersionedStore,
};
use serde::Deserialize;

use super::action::Action;
use crate::codec::key::{KeyCodec, Keys};
use crate::operator::execution::Operator;
use crate::operator::input::{
    InputBatch, InputLayout, InputRows, RowOrder, RowPlace, RowsSpec, StoredSides,
};
use crate::operator::join_table::{JoinTableKind, LEFT, RIGHT, table_stores};
use crate::operator::outcome::Outcome;
use crate::operator::output::{JoinedRowWriter, JoinedSide, OutputColumn, OutputColumns};
use crate::operator::spec::OperatorSpec;
use crate::operator::table_timeline::{TimelineInterval, for_each_interval};
use crate::operator::worker::Worker;
use crate::protocol::Counts;
use crate::protocol::Epoch;
use crate::root::OperatorMeta;

/// The settings of the second stage.
#[derive(Debug, Clone, Deserialize)]
pub struct ForeignJoinSpec {
    /// The input's columns. The key is the foreign key (the right table's), followed by the left
    /// table's own key (null on right rows).
    #[serde(flatten)]
    pub rows: RowsSpec,
    /// Which sides a row of the result must have.
    pub how: JoinTableKind,
    /// How many key columns are the foreign key.
    pub foreign: usize,
    /// How far back the tables reach, in microseconds.
    pub history_retention: i64,
    /// The left payload column with the action.
    pub action: usize,
    /// The right payload columns that are values: a row in which all of them are null is a delete.
    /// If there are none, no row is a delete.
    pub right_values: Vec<usize>,
    /// The result's columns.
    pub output: Vec<OutputColumn>,
}

impl OperatorSpec for ForeignJoinSpec {
    fn start(&self, schema: &Schema) -> Result<Box<dyn Operator>> {
        Ok(Box::new(ForeignJoin::new(self, schema)?))
    }

    fn rows(&self) -> &RowsSpec {
        &self.rows
    }

    /// Returns the stores of the left rows by (foreign key, left key), and of the right table.
    fn stores(&self) -> Vec<StoreSpec> {
        table_stores(self.history_retention)
    }
}

/// One session of the second stage.
pub struct ForeignJoin {
    spec: ForeignJoinSpec,
    output: OutputColumns,
    rows: InputRows,
    foreign_codec: KeyCodec,
    /// The foreign keys of the current part, batch by batch.
    foreign: Vec<Keys>,
    counts: Counts,
}

/// The stores of a session.
struct ForeignTables {
    left: VersionedStore,
    right: VersionedStore,
}

impl ForeignJoin {
    fn new(spec: &ForeignJoinSpec, schema: &Schema) -> Result<Self> {
        let wrong = |what: String| {
            Err(Error::new(
                ErrorKind::InvalidValue,
                format!("foreign_join: {what}"),
            ))
        };
        if spec.how == JoinTableKind::Outer {
            return wrong(
                "outer: a right row that no left row refers to has no key in the result".to_owned(),
            );
        }
        if spec.foreign == 0 || spec.foreign >= spec.rows.keys.len() {
            return wrong(format!(
                "{} of {} key columns are the foreign key; at least one must be, and not all",
                spec.foreign,
                spec.rows.keys.len()
            ));
        }
        let layout = InputLayout::new("foreign_join", &spec.rows, schema)?;
        let output = OutputColumns::new("foreign_join", &spec.output, &layout)?;
        let foreign = layout.keys.start..layout.keys.start + spec.foreign;
        Ok(Self {
            foreign_codec: KeyCodec::new(foreign.map(|column| layout.field(column)))?,
            spec: spec.clone(),
            output,
            rows: InputRows::with_payloads(layout, true, true),
            foreign: Vec::new(),
            counts: Counts::default(),
        })
    }

    /// Encodes the foreign keys of the input.
    fn encode_foreign_keys(&self) -> Result<Vec<Keys>> {
        let first = self.rows.layout.keys.start;
        let encode = |input: &InputBatch| {
            let columns = &input.batch.columns()[first..first + self.spec.foreign];
            self.foreign_codec.encode(columns)
        };
        self.rows.inputs.iter().map(encode).collect()
    }

    /// Returns what to do with a left row.
    fn action(&self, place: RowPlace) -> Result<Action> {
        let column = self.rows.inputs[place.input()]
            .batch
            .column(self.rows.layout.left.start + self.spec.action);
        let actions = column
            .as_primitive_opt::<Int8Type>()
            .filter(|actions| actions.is_valid(place.row()));
        actions
            .and_then(|actions| Action::of(actions.value(place.row())))
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidState,
                    "foreign_join: a left row has an unknown action: the stages are of different \
                     versions; install the same version of Holdfast on all executors",
                )
            })
    }

    /// Removes the left rows of a part that now have another foreign key, each from its time on.
    /// Returns the greatest time.
    fn drop_moved(
        &self,
        tx: &mut Transaction,
        left: &VersionedStore,
        part: &[RowPlace],
    ) -> Result<Option<i64>> {
        let mut last = None;
        for place in part.iter().copied().filter(|place| place.is_left()) {
            if let Some(time) = self.rows.time(place)
                && self.action(place)? == Action::Drop
            {
                left.restore_ahead(tx, &[self.subscription(place, time, None)])?;
                last = last.max(Some(time));
            }
        }
        Ok(last)
    }

    /// Applies the other rows of a part, in order. Rows without a time, and right rows without a
    /// key, are counted as dropped.
    fn apply(
        &self,
        tx: &mut Transaction,
        tables: &ForeignTables,
        part: Vec<RowPlace>,
        writer: &mut JoinedRowWriter<'_>,
        counts: &mut Counts,
    ) -> Result<()> {
        for place in part {
            let Some(time) = self.rows.time(place) else {
                counts.dropped += 1;
                continue;
            };
            if place.is_left() {
                let action = self.action(place)?;
                if action != Action::Drop {
                    counts.matched += self.apply_left(tx, tables, (place, action, time), writer)?;
                }
                continue;
            }
            let Some(foreign) = self.foreign[place.input()].get(place.row()) else {
                counts.dropped += 1;
                continue;
            };
            match self.apply_right(tx, tables, place, (foreign, time), writer)? {
                Some(matched) => counts.matched += matched,
                None => counts.late += 1,
            }
        }
        Ok(())
    }

    /// The version of a left row under its foreign key; without a value, its end.
    ///
    /// It is restored, not put: the first stage has already checked the row against the stream time
    /// of its own partition, so here it is never late.
    fn subscription<'a>(
        &'a self,
        place: RowPlace,
        time: i64,
        value: Option<&'a [u8]>,
    ) -> VersionRow<'a> {
        VersionRow {
            key: self.rows.key_with_nulls(place),
            value,
            timestamp: Timestamp(time),
        }
    }

    /// Applies a left row and emits the rows of the result that it changes. Returns how many of
    /// them have both sides.
    fn apply_left(
        &self,
        tx: &mut Transaction,
        tables: &ForeignTables,
        (place, action, time): (RowPlace, Action, i64),
        writer: &mut JoinedRowWriter<'_>,
    ) -> Result<u64> {
        let key = self.rows.key_with_nulls(place);
        let value = action.subscribes().then(|| self.rows.payload(place));
        // A row without a foreign key is not stored. The first stage forwards it only because this
        // stage emits its result.
        let foreign = self.foreign[place.input()].get(place.row());
        if foreign.is_some() {
            let version = self.subscription(place, time, value);
            tables.left.restore(tx, &[version], Some(Timestamp(time)))?;
        }
        // For a row without a foreign key, this stage emits a row without a right side; for a
        // delete, it emits a row whose values are all null.
        let Some((foreign, value)) = foreign.zip(value) else {
            let ours = JoinedSide::new(Some(time), value);
            writer.push(key, ours, JoinedSide::MISSING)?;
            return Ok(0);
        };
        let (mut replaces, mut matched) = (action == Action::Moved, 0);
        for_each_interval(&tables.right, tx, foreign, time, &mut |interval| {
            let TimelineInterval {
                since,
                value: theirs,
            } = interval;
            let joins = self.spec.how.joins(true, theirs.is_some());
            if joins || replaces {
                matched += u64::from(theirs.is_some());
                let ours = JoinedSide::new(Some(time), joins.then_some(value));
                let theirs = JoinedSide::new(since, theirs.as_deref());
                writer.push(key, ours, theirs)?;
            }
            replaces = joins;
            Ok(())
        })?;
        Ok(matched)
    }

    /// Applies a right row. If the result changes, emits one row for each version of a left row
    /// that refers to it and is valid at the row's time or later.
    ///
    /// Returns `None` if the row is late: older than the retention, or than the newest right row of
    /// its key. In the second case it is stored.
    fn apply_right(
        &self,
        tx: &mut Transaction,
        tables: &ForeignTables,
        place: RowPlace,
        (foreign, time): (&[u8], i64),
        writer: &mut JoinedRowWriter<'_>,
    ) -> Result<Option<u64>> {
        let first = self.rows.layout.right.start;
        let deletes = self.rows.all_null(place, first, &self.spec.right_values);
        let value = (!deletes).then(|| self.rows.payload(place));
        let right = &tables.right;
        let was_there =
            right.get_as_of(tx, foreign, Timestamp(time), |version| version.is_some())?;
        let put = right.put(tx, foreign, value, Timestamp(time))?;
        if !put.accepted || put.valid_to.is_some() {
            return Ok(None);
        }
        let (is_joined, joined_before) = (
            self.spec.how.joins(true, value.is_some()),
            self.spec.how.joins(true, was_there),
        );
        if (!is_joined && !joined_before) || (!was_there && value.is_none()) {
            return Ok(Some(0));
        }
        let (mut matched, mut emitted) = (0, Ok(()));
        // No encoded key begins with this byte, so the bound is after all left keys of the foreign
        // key.
        let end = [foreign, &[u8::MAX]].concat();
        let mut scan = tables.left.versions_range(
            tx,
            Some(foreign),
            Some(&end),
            Timestamp(time),
            Timestamp::MAX,
        )?;
        scan.for_each(&mut |key, version| {
            matched += u64::from(is_joined && value.is_some());
            let ours = JoinedSide::new(
                Some(version.timestamp.0),
                Some(version.value).filter(|_| is_joined),
            );
            let theirs = JoinedSide::new(Some(time), value.filter(|_| is_joined));
            emitted = writer.push(key, ours, theirs);
            emitted.is_ok()
        })?;
        emitted.map(|()| Some(matched))
    }
}

impl Operator for ForeignJoin {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        let settings = self.spec.how.settings(self.spec.history_retention);
        let layout = &self.rows.layout;
        layout.meta("foreign_join", StoredSides::BOTH, settings, first_epoch)
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
        let tables = ForeignTables {
            left: db.versioned(LEFT)?,
            right: db.versioned(RIGHT)?,
        };
        let mut counts = self.counts;
        let layout = Arc::clone(&self.rows.layout);
        let mut writer = JoinedRowWriter::new(&self.output, &layout, worker);
        // Left rows that now have another foreign key are removed before the other rows are
        // applied: from its time on, right rows of this epoch emit nothing for such a row under the
        // old key. Its results are emitted under the new foreign key. These removals raise the
        // stream time only after the other rows are applied: until then, the history that older
        // rows need must not expire.
        let mut last_dropped = None;
        let mut next = self.rows.next_part(RowOrder::All, &mut counts)?;
        while let Some(part) = &next {
            last_dropped = last_dropped.max(self.drop_moved(tx, &tables.left, part)?);
            if self.rows.are_in_memory() {
                // It is the only part, and also the first one of the second pass.
                break;
            }
            next = self.rows.next_part(RowOrder::All, &mut counts)?;
        }
        if next.is_none() {
            self.rows.restart();
            next = self.rows.next_part(RowOrder::All, &mut counts)?;
        }
        while let Some(part) = next {
            self.foreign = self.encode_foreign_keys()?;
            self.apply(tx, &tables, part, &mut writer, &mut counts)?;
            next = self.rows.next_part(RowOrder::All, &mut counts)?;
        }
        if let Some(time) = last_dropped {
            tables.left.restore(tx, &[], Some(Timestamp(time)))?;
        }
        writer.finish(&self.rows, counts)
    }
}
