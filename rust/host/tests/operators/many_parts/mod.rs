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
use holdfast_core::{Commit, Database, DatabaseOptions, Durability, Timestamp};
use holdfast_host::cancellation::Cancellation;
use holdfast_host::memory::budget::Budget;
use holdfast_host::operator::OperatorKind;
use holdfast_host::operator::input::Intake;
use serde_json::Value;

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
        let (results, most) = self.run(SORTING, UNCOMMITTED);
        let (expected, unlimited) = self.run(usize::MAX, usize::MAX);
        assert_eq!(results, expected);
        assert!(
            most * part < unlimited,
            "{most} bytes with limits, {unlimited} without"
        );
    }

    /// Runs two epochs. Returns what each of them did, and the most memory that one of them took.
    fn run(&self, sorting: usize, uncommitted: usize) -> (Vec<String>, usize) {
        let kind: OperatorKind = serde_json::from_value(self.request.clone()).unwrap();
        let stores = kind.spec().stores();
        let (home, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let options = DatabaseOptions {
            durability: Durability::Changelog,
            ..DatabaseOptions::default()
        };
        let db = Database::open(home.path(), &stores, options).unwrap();
        let (mut results, mut most) = (Vec::new(), 0);
        for epoch in 0..2 {
            let mut tx = db.begin().unwrap();
            tx.limit_memory(uncommitted);
            let held = most_held(|| {
                let intake = Intake {
                    partition: Some(0),
                    memory: Budget::new(sorting),
                    folder: folder.path().to_owned(),
                    cancellation: Cancellation::default(),
                };
                let mut operator = kind.spec().start(&self.schema).unwrap();
                let numbers: Vec<i64> = (0..ROWS as i64).map(scattered).collect();
                for numbers in numbers.chunks(BATCH) {
                    operator
                        .push((self.batch)(epoch, numbers), &intake)
                        .unwrap();
                }
                let mut worker = RowHashes::default();
                let outcome = operator.run(&db, &mut tx, &mut worker).unwrap();
                // All rows of a second epoch may be duplicates.
                assert!(outcome.counts.output_rows > 0 || epoch > 0, "it gives rows");
                results.push(format!("{outcome:?}"));
                let spills = intake.memory.spills();
                assert_eq!(spills > 0, sorting < usize::MAX, "{spills} spills");
            });
            most = most.max(held);
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
        (results, most)
    }
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
