//! An operator over partitions in memory.

use std::cell::RefCell;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use holdfast_core::{Commit, Database, DatabaseOptions, Timestamp, Transaction, VersionRow};
use holdfast_host::cancellation::Cancellation;
use holdfast_host::memory::budget::Budget;
use holdfast_host::operator::input::Intake;
use holdfast_host::operator::{OperatorKind, Outcome};
use holdfast_host::protocol::Counts;
use serde_json::Value;
use tempfile::TempDir;

use super::batches::{Out, batch_of, numbers, schema};
use super::rows::Row;

/// An operator over stores in memory.
pub struct Job {
    kind: OperatorKind,
    schema: SchemaRef,
    pub databases: Vec<Arc<Database>>,
    /// The changes of the epochs, for each partition.
    log: RefCell<Vec<Vec<Changes>>>,
    /// The folder for rows that outgrow their memory.
    folder: TempDir,
}

/// The result of an epoch.
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
        let db = |_| {
            Database::open_in_memory(&kind.spec().stores(), DatabaseOptions::default()).unwrap()
        };
        let log = RefCell::new(vec![Vec::new(); partitions]);
        Self {
            databases: (0..partitions).map(db).collect(),
            log,
            kind,
            schema,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Continues with other settings, and with stores that are restored from the log.
    pub fn restart(&mut self, request: &Value) {
        self.set(request);
        for (db, log) in self.databases.iter_mut().zip(self.log.borrow().iter()) {
            *db = Database::open_in_memory(&self.kind.spec().stores(), DatabaseOptions::default())
                .unwrap();
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

    /// Runs an epoch in all partitions. With `replay`, applies its changes from the log's records.
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

    /// Runs an epoch in one partition, twice: the second time as a retry, with its rows in reverse
    /// order and cut differently. If the epoch is replayed, the retry has no memory for its rows,
    /// so each batch goes to disk. Both must do the same.
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
        // The output may be cut into batches differently.
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
        // A property beside the changes, as in a host.
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
            cancellation: Cancellation::default(),
        };
        let mut operator = self.kind.spec().start(&self.schema).unwrap();
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
                "rows that have outgrown their memory are on disk"
            );
        }
        operator.rows().heartbeat = beat;
        assert_eq!(
            std::fs::read_dir(self.folder.path()).unwrap().count(),
            0,
            "files of spilled rows have no name, so they disappear with the process"
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
            .spec()
            .stores()
            .iter()
            .map(|store| of_store(&store.name, tx))
            .collect()
    }
}

/// A record of the log: key, value, time.
type Change = (Vec<u8>, Option<Vec<u8>>, Timestamp);
/// The changes of an epoch: the records and the stream time of each store.
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
        expired: a.expired + b.expired,
        ahead: a.ahead + b.ahead,
    }
}
