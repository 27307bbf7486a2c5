//! Epochs many times larger than their memory: an operator holds one part of such an epoch, and
//! gives the same results and the same changes as with all rows in memory.
//!
//! The stores are in files, so that transactions spill.

mod aggregate;
mod drop_duplicates;
mod join_asof;
mod join_foreign_key;
mod join_window;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int32Array, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::SchemaRef;
use holdfast_core::{Commit, Database, DatabaseOptions, Durability, Result, Timestamp};
use holdfast_host::cancellation::Cancellation;
use holdfast_host::memory::budget::Budget;
use holdfast_host::operator::input::Intake;
use holdfast_host::operator::{Operator, OperatorKind};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{RowHashes, most_held};

/// The rows of an epoch: twenty parts of 10,000 rows.
const ROWS: usize = 200_000;
/// The rows of a batch of input.
const BATCH: usize = 1_000;
/// The memory for sorting, in bytes.
const SORTING: usize = 8 << 20;
/// The memory of the transaction, in bytes.
const UNCOMMITTED: usize = 1 << 20;

/// Returns the batch of an epoch's rows with these numbers.
type MakeBatch<'a> = &'a dyn Fn(i64, &[i64]) -> RecordBatch;

/// An operator, and how the rows of its epochs are made.
struct Epochs<'a> {
    request: &'a Value,
    schema: SchemaRef,
    batch: MakeBatch<'a>,
}

impl Epochs<'_> {
    /// Runs two epochs with limits and without. Checks that they do the same, and that less than a
    /// `part`th of the memory is enough with limits. With 1, the latter only checks that limits
    /// save memory.
    fn check(&self, part: usize) {
        let held = self.compare();
        let [most, unlimited] = held.map(|[first, second]| first.max(second));
        assert_less(most * part, unlimited);
    }

    /// As [`Self::check`], for the memory of the second epoch.
    fn check_second(&self, part: usize) {
        let [[_, most], [_, unlimited]] = self.compare();
        assert_less(most * part, unlimited);
    }

    /// Runs two epochs with limits and without. Checks that they do the same. Returns the most
    /// memory that each epoch took, with limits and without.
    fn compare(&self) -> [[usize; 2]; 2] {
        let (results, most) = self.run(SORTING, UNCOMMITTED);
        let (expected, unlimited) = self.run(usize::MAX, usize::MAX);
        assert_eq!(results, expected);
        [most, unlimited]
    }

    /// Runs two epochs. Returns what each of them did, and the most memory that each of them took.
    fn run(&self, sorting: usize, uncommitted: usize) -> (Vec<String>, [usize; 2]) {
        let stores = self.kind().spec().stores();
        let (home, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let db = self.open(&home);
        let (mut results, mut most, mut output_rows) = (Vec::new(), [0; 2], 0);
        for (epoch, most) in (0..).zip(&mut most) {
            let mut tx = db.begin().unwrap();
            tx.limit_memory(uncommitted);
            *most = most_held(|| {
                let intake = intake(sorting, &folder);
                let mut operator = self.start(epoch, &intake);
                let mut worker = RowHashes::default();
                let outcome = operator.run(&db, &mut tx, &mut worker).unwrap();
                output_rows += outcome.counts.output_rows;
                results.push(format!("{outcome:?}"));
                let spills = intake.memory.spills();
                assert_eq!(spills > 0, sorting < usize::MAX, "{spills} spills");
            });
            for store in &stores {
                let mut changes = DefaultHasher::new();
                db.for_each_change(&store.name, &mut tx, &mut |change| {
                    (change.key, change.value, change.timestamp.0).hash(&mut changes);
                    Ok(())
                })
                .unwrap();
                let time = db.stream_time(&store.name, &tx).unwrap();
                results.push(changes_of(&store.name, changes.finish(), time));
            }
            db.commit_transaction(tx, Commit::default()).unwrap();
        }
        assert!(output_rows > 0, "it gives rows");
        (results, most)
    }

    /// Runs an epoch with limits. Returns how many spills are counted once all rows have arrived.
    fn spills_of_run(&self) -> u64 {
        let (home, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (db, intake) = (self.open(&home), intake(SORTING, &folder));
        let mut operator = self.start(0, &intake);
        let before = intake.memory.spills();
        let mut tx = db.begin().unwrap();
        operator
            .run(&db, &mut tx, &mut RowHashes::default())
            .unwrap();
        intake.memory.spills() - before
    }

    /// Runs two epochs with limits. Returns how many bytes of the memory for sorting are in use
    /// when the second one gives its last rows.
    fn held_at_output(&self) -> usize {
        let (home, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (db, intake) = (self.open(&home), intake(SORTING, &folder));
        let mut held = 0;
        for epoch in 0..2 {
            let mut operator = self.start(epoch, &intake);
            let mut tx = db.begin().unwrap();
            let mut worker = |_: RecordBatch| -> Result<()> {
                held = intake.memory.held();
                Ok(())
            };
            operator.run(&db, &mut tx, &mut worker).unwrap();
            db.commit_transaction(tx, Commit::default()).unwrap();
        }
        assert_eq!(intake.memory.spills(), 0);
        held
    }

    fn kind(&self) -> OperatorKind {
        serde_json::from_value(self.request.clone()).unwrap()
    }

    /// Opens the operator's stores in a folder.
    fn open(&self, home: &TempDir) -> Arc<Database> {
        let options = DatabaseOptions {
            durability: Durability::Changelog,
            ..DatabaseOptions::default()
        };
        Database::open(home.path(), &self.kind().spec().stores(), options).unwrap()
    }

    /// Starts an operator, and sends it the rows of an epoch.
    fn start(&self, epoch: i64, intake: &Intake) -> Box<dyn Operator> {
        let mut operator = self.kind().spec().start(&self.schema).unwrap();
        let numbers: Vec<i64> = (0..ROWS as i64).map(scattered).collect();
        for numbers in numbers.chunks(BATCH) {
            operator.push((self.batch)(epoch, numbers), intake).unwrap();
        }
        operator
    }
}

/// How an operator takes rows: with this memory, in bytes, and with files in this folder.
fn intake(sorting: usize, folder: &TempDir) -> Intake {
    Intake {
        partition: Some(0),
        memory: Budget::new(sorting),
        folder: folder.path().to_owned(),
        cancellation: Cancellation::default(),
    }
}

fn assert_less(bytes: usize, unlimited: usize) {
    assert!(
        bytes < unlimited,
        "{bytes} bytes with limits (times the parts), {unlimited} without"
    );
}

/// Checks two epochs of an operator, as [`Epochs::check`].
fn check(request: &Value, schema: &SchemaRef, batch: MakeBatch<'_>, part: usize) {
    let epochs = Epochs {
        request,
        schema: Arc::clone(schema),
        batch,
    };
    epochs.check(part);
}

/// Counts the spills of an epoch, as [`Epochs::spills_of_run`].
fn spills_of_run(request: &Value, schema: &SchemaRef, batch: MakeBatch<'_>) -> u64 {
    let epochs = Epochs {
        request,
        schema: Arc::clone(schema),
        batch,
    };
    epochs.spills_of_run()
}

fn changes_of(store: &str, changes: u64, stream_time: Option<Timestamp>) -> String {
    format!("changes of {store}: {changes:x}, stream time {stream_time:?}")
}

/// Numbers below [`ROWS`] in another order: each once.
fn scattered(number: i64) -> i64 {
    number * 7_919 % ROWS as i64
}

/// Rows of this side: the columns before the user's.
fn fixed(is_left: &[bool], times: impl Iterator<Item = i64>) -> Vec<ArrayRef> {
    let rows = is_left.len();
    vec![
        Arc::new(Int32Array::from(vec![0; rows])),
        Arc::new(BooleanArray::from(is_left.to_vec())),
        Arc::new(BooleanArray::from(vec![None; rows])),
        Arc::new(TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC")),
    ]
}

/// A number as a text of `length` bytes.
fn text(number: i64, length: usize) -> String {
    format!("{number:0>length$}")
}
