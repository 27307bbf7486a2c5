//! The cast: rows, an operator over partitions of its own, epochs.

use std::cell::RefCell;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt32Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use holdfast_core::{Commit, Database, DatabaseOptions, Timestamp, Transaction, VersionRow};
use holdfast_host::memory::budget::Budget;
use holdfast_host::operator::rows::Intake;
use holdfast_host::operator::{Counts, OperatorKind, Outcome};
use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

/// A row of either side: a key, a time, a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    pub time: Option<i64>,
    /// The right side's rows come first at equal times.
    pub left: bool,
    pub key: Option<u8>,
    pub number: Option<i64>,
}

pub fn right(key: u8, time: i64, number: i64) -> Row {
    Row {
        left: false,
        ..row(key, time, number)
    }
}

/// A left row.
pub fn row(key: u8, time: i64, number: i64) -> Row {
    Row {
        left: true,
        key: Some(key),
        time: Some(time),
        number: Some(number),
    }
}

/// A row of the result: its columns as numbers.
pub type Out = Vec<Option<i64>>;

/// An operator over stores in memory.
pub struct Job {
    kind: OperatorKind,
    schema: SchemaRef,
    pub databases: Vec<Arc<Database>>,
    /// What the epochs have changed, a partition each.
    log: RefCell<Vec<Vec<Changes>>>,
    /// For rows that outgrow their memory.
    folder: TempDir,
}

/// What an epoch gave.
#[derive(Debug, Default, PartialEq)]
pub struct Done {
    pub rows: Vec<Out>,
    pub counts: Counts,
}

impl Job {
    /// An operator of this request, of one side or of two.
    pub fn new(request: &Value, sides: usize, partitions: usize) -> Self {
        Self::over(request, schema(sides), partitions)
    }

    /// An operator of this request over these columns.
    pub fn over(request: &Value, schema: SchemaRef, partitions: usize) -> Self {
        let kind: OperatorKind = serde_json::from_value(request.clone()).unwrap();
        let db = |_| Database::open_in_memory(&kind.stores(), DatabaseOptions::default()).unwrap();
        let log = RefCell::new(vec![Vec::new(); partitions]);
        Self {
            databases: (0..partitions).map(db).collect(),
            log,
            kind,
            schema,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Goes on with other settings, and with stores that are made anew from the log.
    pub fn restart(&mut self, request: &Value) {
        self.set(request);
        for (db, log) in self.databases.iter_mut().zip(self.log.borrow().iter()) {
            *db =
                Database::open_in_memory(&self.kind.stores(), DatabaseOptions::default()).unwrap();
            for changes in log {
                let mut tx = db.begin().unwrap();
                apply(db, &mut tx, changes);
                db.commit_transaction(tx, Commit::default()).unwrap();
            }
        }
    }

    /// Changes the operator's settings from the next epoch on.
    pub fn set(&mut self, request: &Value) {
        self.kind = serde_json::from_value(request.clone()).unwrap();
    }

    /// The partition of a key.
    pub fn partition(&self, key: Option<u8>) -> usize {
        key.map_or(0, |key| 1 + usize::from(key)) % self.databases.len()
    }

    /// Runs an epoch in all partitions. `replay`: what it changed comes back from the log's
    /// records.
    pub fn epoch(&self, rows: &[Row], replay: bool) -> Done {
        let mut done = Done::default();
        for partition in 0..self.databases.len() {
            let ours: Vec<Row> = rows
                .iter()
                .filter(|row| self.partition(row.key) == partition)
                .copied()
                .collect();
            let (out, counts) =
                self.partition_epoch(partition, &batch_of(&self.schema, &ours), None, replay);
            done.rows.extend(out.iter().flat_map(numbers));
            done.counts = sum(done.counts, counts);
        }
        done
    }

    /// As [`Self::epoch`], without rows: a heartbeat reaches all partitions.
    pub fn beat(&self, time: i64) -> Done {
        let mut done = Done::default();
        for partition in 0..self.databases.len() {
            let (out, counts) = self.partition_epoch(
                partition,
                &RecordBatch::new_empty(Arc::clone(&self.schema)),
                Some(time),
                false,
            );
            done.rows.extend(out.iter().flat_map(numbers));
            done.counts = sum(done.counts, counts);
        }
        done
    }

    /// Runs an epoch in one partition, twice: with its rows the other way round and otherwise cut,
    /// as a retry would, and (if it is replayed) without memory for them, so that each batch goes
    /// to disk, it must do the same.
    pub fn partition_epoch(
        &self,
        partition: usize,
        rows: &RecordBatch,
        beat: Option<i64>,
        replay: bool,
    ) -> (Vec<RecordBatch>, Counts) {
        let db = &self.databases[partition];
        let mut tx = db.begin().unwrap();
        let (out, outcome) = self.run(db, &mut tx, rows, beat, (1_000, usize::MAX));
        let backwards: UInt32Array = (0..rows.num_rows() as u32).rev().collect();
        let (mut other, memory) = (db.begin().unwrap(), if replay { 0 } else { usize::MAX });
        let (again, retried) = self.run(
            db,
            &mut other,
            &take_record_batch(rows, &backwards).unwrap(),
            beat,
            (2 + rows.num_rows() / 3, memory),
        );
        // How rows that go out are cut into batches says nothing.
        let whole = |out: &[RecordBatch]| {
            out.first()
                .map(|first| concat_batches(&first.schema(), out).unwrap())
        };
        let all = |outcome: &Outcome| (outcome.output, outcome.input, outcome.counts);
        assert!(
            whole(&out) == whole(&again) && all(&outcome) == all(&retried),
            "a retry does the same: {outcome:?}, {retried:?}"
        );
        let (changes, same) = (self.changes(db, &mut tx), self.changes(db, &mut other));
        assert!(changes == same, "a retry changes the same");
        if replay {
            tx = db.begin().unwrap();
            apply(db, &mut tx, &changes);
        }
        self.log.borrow_mut()[partition].push(changes);
        // A property beside the changes, as a host has it.
        db.commit_transaction(
            tx,
            Commit {
                properties: vec![("chain".to_owned(), Vec::new())],
                ..Commit::default()
            },
        )
        .unwrap();
        (out, outcome.counts)
    }

    fn run(
        &self,
        db: &Database,
        tx: &mut Transaction,
        rows: &RecordBatch,
        beat: Option<i64>,
        (size, memory): (usize, usize),
    ) -> (Vec<RecordBatch>, Outcome) {
        let intake = Intake {
            partition: Some(0),
            memory: Budget::new(memory),
            folder: self.folder.path().to_owned(),
        };
        let mut operator = self.kind.start(&self.schema).unwrap();
        operator
            .push(RecordBatch::new_empty(Arc::clone(&self.schema)), &intake)
            .unwrap();
        for first in (0..rows.num_rows()).step_by(size) {
            operator
                .push(
                    rows.slice(first, size.min(rows.num_rows() - first)),
                    &intake,
                )
                .unwrap();
            assert!(
                intake.memory.held() <= memory,
                "what has outgrown its memory is on disk"
            );
        }
        operator.rows().heartbeat = beat;
        assert_eq!(
            std::fs::read_dir(self.folder.path()).unwrap().count(),
            0,
            "what is on disk has no name, and is gone with the process"
        );
        let mut out = Vec::new();
        let outcome = operator.run(db, tx, &mut |batch: RecordBatch| {
            out.push(batch);
            Ok(())
        });
        (out, outcome.unwrap())
    }

    fn changes(&self, db: &Database, tx: &mut Transaction) -> Changes {
        let of_store = |name: &str, tx: &mut Transaction| {
            let mut rows = Vec::new();
            db.for_each_change(name, tx, &mut |row| {
                rows.push((
                    row.key.to_vec(),
                    row.value.map(<[u8]>::to_vec),
                    row.timestamp,
                ));
                Ok(())
            })
            .unwrap();
            (name.to_owned(), rows, db.stream_time(name, tx).unwrap())
        };
        self.kind
            .stores()
            .iter()
            .map(|store| of_store(&store.name, tx))
            .collect()
    }
}

/// A record of the log: key, value, time.
type Change = (Vec<u8>, Option<Vec<u8>>, Timestamp);
/// What an epoch changed: of each store the records and the stream time.
type Changes = Vec<(String, Vec<Change>, Option<Timestamp>)>;

fn apply(db: &Database, tx: &mut Transaction, changes: &Changes) {
    for (store, rows, time) in changes {
        let rows: Vec<VersionRow<'_>> = rows.iter().map(borrowed).collect();
        db.apply_changes(store, tx, &rows, *time).unwrap();
    }
}

fn borrowed((key, value, timestamp): &Change) -> VersionRow<'_> {
    VersionRow {
        key,
        value: value.as_deref(),
        timestamp: *timestamp,
    }
}

fn sum(a: Counts, b: Counts) -> Counts {
    Counts {
        input_rows: a.input_rows + b.input_rows,
        output_rows: a.output_rows + b.output_rows,
        matched: a.matched + b.matched,
        dropped: a.dropped + b.dropped,
        late: a.late + b.late,
        ahead: a.ahead + b.ahead,
    }
}

/// The input's columns.
pub fn schema(sides: usize) -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let mut fields = vec![
        field("pid", DataType::Int32),
        field("side", DataType::Boolean),
        field("deleted", DataType::Boolean),
        field(
            "t",
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ),
        field("k0", DataType::Utf8),
        field("l0", DataType::Int64),
    ];
    fields.extend((1..sides).map(|_| field("r0", DataType::Int64)));
    Arc::new(Schema::new(fields))
}

/// Rows as a batch of these columns.
pub fn batch_of(schema: &SchemaRef, rows: &[Row]) -> RecordBatch {
    let number = |left: bool| -> ArrayRef {
        Arc::new(
            rows.iter()
                .map(|row| row.number.filter(|_| row.left == left))
                .collect::<Int64Array>(),
        )
    };
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![0; rows.len()])),
        Arc::new(
            rows.iter()
                .map(|row| Some(row.left))
                .collect::<BooleanArray>(),
        ),
        Arc::new(
            rows.iter()
                .map(|row| (!row.left).then_some(false))
                .collect::<BooleanArray>(),
        ),
        Arc::new(
            rows.iter()
                .map(|row| row.time)
                .collect::<TimestampMicrosecondArray>()
                .with_timezone("UTC"),
        ),
        Arc::new(
            rows.iter()
                .map(|row| row.key.map(|key| key.to_string()))
                .collect::<StringArray>(),
        ),
        number(true),
    ];
    if schema.fields().len() > columns.len() {
        columns.push(number(false));
    }
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}

pub fn numbers(batch: &RecordBatch) -> Vec<Out> {
    let cell = |column: &ArrayRef, row: usize| match column.data_type() {
        _ if column.is_null(row) => None,
        DataType::Utf8 => Some(column.as_string::<i32>().value(row).parse().unwrap()),
        DataType::Int64 => Some(column.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => Some(float(column.as_primitive::<Float64Type>().value(row))),
        DataType::List(_) => Some(list(
            column
                .as_list::<i32>()
                .value(row)
                .as_primitive::<Int64Type>()
                .values()
                .iter()
                .copied(),
        )),
        _ => Some(column.as_primitive::<TimestampMicrosecondType>().value(row)),
    };
    (0..batch.num_rows())
        .map(|row| {
            batch
                .columns()
                .iter()
                .map(|column| cell(column, row))
                .collect()
        })
        .collect()
}

/// A float as a number of its own.
pub fn float(value: f64) -> i64 {
    value.to_bits().cast_signed()
}

/// A list as one number.
pub fn list(values: impl IntoIterator<Item = i64>) -> i64 {
    values.into_iter().fold(1, |hash: i64, value| {
        hash.wrapping_mul(1_000_003).wrapping_add(value)
    })
}

/// Rows of a side at times from `from` on, with a null now and then.
pub fn rows(
    left: impl Strategy<Value = bool> + Clone,
    nulls: u32,
    count: usize,
) -> impl Strategy<Value = Vec<Row>> {
    let key = prop_oneof![nulls => Just(None), 30 => (0..3_u8).prop_map(Some)];
    let time = prop_oneof![nulls => Just(None), 30 => (0..60_i64).prop_map(Some)];
    let number = prop_oneof![1 => Just(None), 5 => (0..100_i64).prop_map(Some)];
    let row = (key, time, left, number).prop_map(|(key, time, left, number)| Row {
        time,
        left,
        key,
        number,
    });
    prop::collection::vec(row, 0..count)
}

/// The rows as they arrive, each later than its time by up to `delay`, cut into epochs; each with
/// whether it is replayed.
pub fn cut(rows: Vec<Row>, delay: i64) -> impl Strategy<Value = Vec<(Vec<Row>, bool)>> {
    let count = rows.len();
    let delays = prop::collection::vec(0..=delay, count);
    let cuts = prop::collection::vec(prop::bool::weighted(0.2), count);
    (
        Just(rows),
        delays,
        cuts,
        prop::collection::vec(any::<bool>(), count + 1),
    )
        .prop_map(|(rows, delays, cuts, replays)| {
            let mut arriving: Vec<(Option<i64>, Row)> = rows
                .into_iter()
                .zip(delays)
                .map(|(row, delay)| (row.time.map(|time| time + delay), row))
                .collect();
            arriving.sort_by_key(|(at, row)| (*at, *row));
            let mut epochs = vec![Vec::new()];
            for ((_, row), cut) in arriving.into_iter().zip(cuts) {
                epochs.last_mut().unwrap().push(row);
                if cut {
                    epochs.push(Vec::new());
                }
            }
            epochs.into_iter().zip(replays).collect()
        })
}

/// Rows in one order, to be compared.
pub fn sorted<T: Ord>(rows: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut rows: Vec<T> = rows.into_iter().collect();
    rows.sort();
    rows
}
