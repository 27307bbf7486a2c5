//! The second stage: left rows by their foreign key, beside the right table.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_schema::Schema;
use holdfast_core::{
    Database, Error, ErrorKind, Result, StoreKind, StoreSpec, Timestamp, Transaction, VersionRow,
    VersionedStore,
};
use serde::Deserialize;

use super::action::Action;
use crate::codec::key::{KeyCodec, Keys};
use crate::operator::join_table::timeline::{self, Stretch};
use crate::operator::join_table::{How, LEFT, RIGHT};
use crate::operator::pairs::Emitter;
use crate::operator::rows::{Input, Layout, Order, Place, Rows, RowsSpec, Sides};
use crate::operator::{Counts, Operator, Outcome, Output, OutputColumn, Worker};
use crate::protocol::Epoch;
use crate::root::OperatorMeta;

/// What the driver says about the join.
#[derive(Debug, Clone, Deserialize)]
pub struct Spec {
    /// The input's columns. The key is the foreign key (the right table's), then the left table's
    /// own key (null on right rows).
    #[serde(flatten)]
    pub rows: RowsSpec,
    /// Which sides must be there.
    pub how: How,
    /// How many key columns are the foreign key.
    pub foreign: usize,
    /// How far back the tables reach: microseconds.
    pub history_retention: i64,
    /// The left payload column with what to do.
    pub action: usize,
    /// The right payload columns that are values: a row in which all are null deletes. None of
    /// them: no row does.
    pub right_values: Vec<usize>,
    /// The result's columns.
    pub output: Vec<OutputColumn>,
}

impl Spec {
    /// The stores: the left rows by (foreign key, own key), and the right table's versions.
    pub fn stores(&self) -> Vec<StoreSpec> {
        [LEFT, RIGHT]
            .map(|name| StoreSpec::new(name, StoreKind::versioned(self.history_retention)))
            .to_vec()
    }
}

/// One session of the second stage.
pub struct ForeignJoin {
    spec: Spec,
    output: Output,
    rows: Rows,
    foreign_codec: KeyCodec,
    /// The foreign keys, batch by batch.
    foreign: Vec<Keys>,
    counts: Counts,
}

impl ForeignJoin {
    /// The second stage over input of these columns.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` names the column or setting that does not fit.
    pub fn new(spec: &Spec, schema: &Schema) -> Result<Self> {
        let wrong = |what: String| {
            Err(Error::new(
                ErrorKind::InvalidValue,
                format!("foreign_join: {what}"),
            ))
        };
        if spec.how == How::Outer {
            return wrong(
                "outer: a right row that no left row names has no key in the result".to_owned(),
            );
        }
        if spec.foreign == 0 || spec.foreign >= spec.rows.keys.len() {
            return wrong(format!(
                "{} of {} key columns are the foreign key",
                spec.foreign,
                spec.rows.keys.len()
            ));
        }
        let layout = Layout::new("foreign_join", &spec.rows, schema)?;
        let output = Output::new("foreign_join", &spec.output, &layout)?;
        let foreign = layout.keys.start..layout.keys.start + spec.foreign;
        Ok(Self {
            foreign_codec: KeyCodec::new(foreign.map(|column| layout.field(column)))?,
            spec: spec.clone(),
            output,
            rows: Rows::with_payloads(layout, true, true),
            foreign: Vec::new(),
            counts: Counts::default(),
        })
    }

    /// What to do with a left row.
    fn action(&self, place: Place) -> Result<Action> {
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
                    "foreign_join: a left row says nothing known: the stages are of different \
                     versions",
                )
            })
    }

    /// Puts a left row under its foreign key, or takes it away. The first stage has accepted it, by
    /// the stream time of another partition: it is not refused here.
    fn subscribe(
        &self,
        tx: &mut Transaction,
        left: &VersionedStore,
        place: Place,
        time: i64,
        value: Option<&[u8]>,
    ) -> Result<()> {
        let key = self.rows.inputs[place.input()].keys.with_nulls(place.row());
        left.restore(
            tx,
            &[VersionRow {
                key,
                value,
                timestamp: Timestamp(time),
            }],
            Some(Timestamp(time)),
        )
    }

    /// Takes a left row in, and emits what it changes; returns how many rows of the result have
    /// both sides.
    fn left_row(
        &self,
        tx: &mut Transaction,
        (left, right): (&VersionedStore, &VersionedStore),
        (place, action, time): (Place, Action, i64),
        emitter: &mut Emitter<'_>,
    ) -> Result<u64> {
        let key = self.rows.inputs[place.input()].keys.with_nulls(place.row());
        let value = action.subscribes().then(|| self.rows.payload(place));
        // What has no foreign key is kept nowhere: the first stage sends it only if something is to
        // be seen of it.
        let foreign = self.foreign[place.input()].get(place.row());
        if foreign.is_some() {
            self.subscribe(tx, left, place, time, value)?;
        }
        // A delete goes out as a row whose values are all null.
        let Some((foreign, value)) = foreign.zip(value) else {
            emitter.push_halves(key, (Some(time), value), (None, None))?;
            return Ok(0);
        };
        let (mut replaces, mut matched) = (action == Action::Moved, 0);
        for Stretch {
            since,
            value: theirs,
        } in timeline::from(right, tx, foreign, time)?
        {
            let joins = self.spec.how.joins(true, theirs.is_some());
            if joins || replaces {
                matched += u64::from(theirs.is_some());
                emitter.push_halves(
                    key,
                    (Some(time), joins.then_some(value)),
                    (since, theirs.as_deref()),
                )?;
            }
            replaces = joins;
        }
        Ok(matched)
    }

    /// Takes a right row in, and emits what it changes: a row for each left row that names it, from
    /// its time on. None if it is late.
    fn right_row(
        &self,
        tx: &mut Transaction,
        (left, right): (&VersionedStore, &VersionedStore),
        place: Place,
        (foreign, time): (&[u8], i64),
        emitter: &mut Emitter<'_>,
    ) -> Result<Option<u64>> {
        let (batch, first) = (
            &self.rows.inputs[place.input()].batch,
            self.rows.layout.right.start,
        );
        let values = &self.spec.right_values;
        let deletes = !values.is_empty()
            && values
                .iter()
                .all(|value| batch.column(first + value).is_null(place.row()));
        let value = (!deletes).then(|| self.rows.payload(place));
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
        // No encoded key begins with this byte, so it is behind all left keys of the foreign key.
        let end = [foreign, &[u8::MAX]].concat();
        let mut scan = left.versions_range(
            tx,
            Some(foreign),
            Some(&end),
            Timestamp(time),
            Timestamp::MAX,
        )?;
        scan.for_each(&mut |key, version| {
            matched += u64::from(is_joined && value.is_some());
            let ours = (
                Some(version.timestamp.0),
                Some(version.value).filter(|_| is_joined),
            );
            emitted = emitter.push_halves(key, ours, (Some(time), value.filter(|_| is_joined)));
            emitted.is_ok()
        })?;
        emitted.map(|()| Some(matched))
    }
}

impl Operator for ForeignJoin {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        let settings = self.spec.how.settings(self.spec.history_retention);
        self.rows.layout.meta(
            "foreign_join",
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
        let tables = (&left, &right);
        let mut counts = self.counts;
        let places = self.rows.all(Order::All, &mut counts)?;
        let first = self.rows.layout.keys.start;
        let foreign = |input: &Input| {
            self.foreign_codec
                .encode(&input.batch.columns()[first..first + self.spec.foreign])
        };
        self.foreign = self
            .rows
            .inputs
            .iter()
            .map(foreign)
            .collect::<Result<_>>()?;
        let mut emitter = Emitter::new(&self.output, &self.rows.layout, worker);
        let (mut dropped, mut others) = (Vec::new(), Vec::new());
        for place in places {
            let time = self.rows.inputs[place.input()].time(place.row());
            match time {
                None => counts.dropped += 1,
                Some(time) if place.is_left() => match self.action(place)? {
                    Action::Drop => dropped.push((place, time)),
                    action => others.push((place, time, Some(action))),
                },
                Some(time) => others.push((place, time, None)),
            }
        }
        // Rows that have moved first: nothing more may be said of them here, what their new foreign
        // key says holds.
        for (place, time) in dropped {
            self.subscribe(tx, &left, place, time, None)?;
        }
        for (place, time, action) in others {
            match (action, self.foreign[place.input()].get(place.row())) {
                (Some(action), _) => {
                    counts.matched +=
                        self.left_row(tx, tables, (place, action, time), &mut emitter)?
                }
                (None, Some(foreign)) => {
                    match self.right_row(tx, tables, place, (foreign, time), &mut emitter)? {
                        Some(matched) => counts.matched += matched,
                        None => counts.late += 1,
                    }
                }
                (None, None) => counts.dropped += 1,
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
