//! Rows so large that ten thousand of them do not fit into a batch: output, and rows that are read
//! back from disk, are also cut by bytes.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use holdfast_core::{Commit, Database, DatabaseOptions, Error, Result};
use holdfast_host::cancellation::Cancellation;
use holdfast_host::memory::budget::Budget;
use holdfast_host::net::call::CallMessage;
use holdfast_host::operator::input::{InputLayout, InputRows, Intake, RowOrder, RowsSpec};
use holdfast_host::operator::process::OutputDigest;
use holdfast_host::operator::{OperatorKind, Worker};
use holdfast_host::protocol::Counts;
use serde_json::{Value, json};

use crate::support::{self, Job};

/// The left rows of an epoch.
pub const ROWS: usize = 10;
/// The bytes of a document.
pub const LARGE: usize = 2 << 20;
/// The maximum bytes of a batch (`operator/batch_size.rs`), plus an allowance for small columns.
pub const MOST: usize = (16 << 20) + (64 << 10);

pub fn schema(sides: usize) -> SchemaRef {
    let fields = support::schema(sides);
    let text = |field: &Arc<Field>| match field.name().as_str() {
        "l0" | "r0" => Field::new(field.name(), DataType::Utf8, true),
        _ => field.as_ref().clone(),
    };
    Arc::new(Schema::new(
        fields.fields().iter().map(text).collect::<Vec<Field>>(),
    ))
}

/// Ten left rows, each with a document of `left` bytes. If there are two sides, a right row with a
/// document of [`LARGE`] bytes precedes them. The keys are distinct, or all the same.
pub fn rows(sides: usize, distinct_keys: bool, left: usize) -> RecordBatch {
    let (first, count) = (sides - 1, ROWS + sides - 1);
    let document = |size: usize| Some("x".repeat(size));
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![0; count])),
        Arc::new(
            (0..count)
                .map(|row| Some(row >= first))
                .collect::<BooleanArray>(),
        ),
        Arc::new(BooleanArray::from(vec![false; count])),
        Arc::new(
            (0..count as i64)
                .map(Some)
                .collect::<TimestampMicrosecondArray>()
                .with_timezone("UTC"),
        ),
        Arc::new(
            (0..count)
                .map(|row| {
                    Some(if distinct_keys {
                        row.to_string()
                    } else {
                        "k".to_owned()
                    })
                })
                .collect::<StringArray>(),
        ),
        Arc::new(
            (0..count)
                .map(|row| if row >= first { document(left) } else { None })
                .collect::<StringArray>(),
        ),
    ];
    if sides == 2 {
        columns.push(Arc::new(
            (0..count)
                .map(|row| if row < first { document(LARGE) } else { None })
                .collect::<StringArray>(),
        ));
    }
    RecordBatch::try_new(schema(sides), columns).unwrap()
}

pub fn bytes(batch: &RecordBatch) -> usize {
    batch
        .columns()
        .iter()
        .map(|column| column.to_data().get_slice_memory_size().unwrap())
        .sum()
}

/// Runs the rows; returns how many rows went out in how many batches.
fn check(request: &Value, sides: usize, rows: &RecordBatch) -> (usize, usize) {
    let job = Job::over(request, schema(sides), 1);
    let (out, _) = job.partition_epoch(0, rows, None, true);
    let sizes: Vec<usize> = out.iter().map(bytes).collect();
    assert!(
        sizes.iter().all(|size| *size <= MOST),
        "{request}: batches of {sizes:?} bytes"
    );
    (out.iter().map(RecordBatch::num_rows).sum(), out.len())
}

pub fn request(kind: &str, sides: usize, settings: &Value) -> Value {
    let mut output = vec![
        json!({"name": "k", "from": "key", "index": 0}),
        json!({"name": "x", "from": "left", "index": 0}),
    ];
    output.extend((1..sides).map(|_| json!({"name": "v", "from": "right", "index": 0})));
    let mut request = json!({"kind": kind, "keys": ["k"], "left": ["x"], "output": output});
    let map = request.as_object_mut().unwrap();
    if sides == 2 {
        map.insert("right".to_owned(), json!(["v"]));
    }
    map.extend(settings.as_object().unwrap().clone());
    request
}

#[test]
fn a_large_row_matched_by_many_rows_is_cut_into_batches() {
    let rows = rows(2, false, 1);
    for (kind, settings) in [
        (
            "join_asof",
            json!({"how": "left", "history_retention": 1_000}),
        ),
        (
            "join_asof",
            json!({"how": "left", "history_retention": 1_000, "grace": 0}),
        ),
        (
            "join_window",
            json!({"how": "inner", "before": 1_000, "after": 1, "grace": 0}),
        ),
        (
            "join_table",
            json!({"how": "inner", "history_retention": 1_000, "left_values": [],
                "right_values": []}),
        ),
    ] {
        assert_eq!(
            check(&request(kind, 2, &settings), 2, &rows),
            (ROWS, 2),
            "{kind}: seven rows of 2 MiB a batch"
        );
    }
}

#[test]
fn input_rows_that_go_out_are_cut_by_bytes() {
    let rows = rows(1, true, LARGE);
    for (kind, settings) in [
        ("drop_duplicates", json!({"within": 20})),
        (
            "materialize",
            json!({"values": [0], "table": {"form": "key_value"}}),
        ),
        (
            "materialize",
            json!({"values": [0], "table": {"form": "versioned", "history_retention": 300}}),
        ),
    ] {
        assert_eq!(
            check(&request(kind, 1, &settings), 1, &rows),
            (ROWS, 2),
            "{kind}: seven rows of 2 MiB a batch"
        );
    }
}

#[test]
fn aggregation_results_are_cut_by_bytes() {
    let rows = rows(1, true, LARGE);
    for function in ["last", "max", "collect_list", "collect_set", "max_by"] {
        // A group of `max_by` has a value and an order of 2 MiB each.
        let batches = if function == "max_by" { 4 } else { 2 };
        let mut aggregates = json!([{"name": "a", "function": function, "column": 0}]);
        if function == "max_by" {
            aggregates[0]["order"] = json!(0);
        }
        let request = json!({"kind": "aggregate", "keys": ["k"], "left": ["x"],
            "aggregates": aggregates, "timed": true, "grace": 400});
        assert_eq!(
            check(&request, 1, &rows),
            (ROWS, batches),
            "{function}: groups of 16 MiB a batch"
        );
    }
}

#[test]
fn parts_of_spilled_rows_are_cut_by_bytes() {
    let spec: RowsSpec = serde_json::from_value(json!({"keys": ["k"], "left": ["x"]})).unwrap();
    let layout = || InputLayout::new("test", &spec, &schema(1)).unwrap();
    for layout in [layout(), layout().without_content()] {
        let mut rows_of = InputRows::new(layout);
        let folder = tempfile::tempdir().unwrap();
        let intake = Intake {
            partition: None,
            memory: Budget::new(0),
            folder: folder.path().to_owned(),
            cancellation: Cancellation::default(),
        };
        let (all, mut counts) = (rows(1, true, LARGE), Counts::default());
        for first in (0..ROWS).step_by(2) {
            rows_of
                .push(all.slice(first, 2), &intake, &mut counts)
                .unwrap();
        }
        let mut parts = Vec::new();
        while let Some(places) = rows_of.next_part(RowOrder::All, &mut counts).unwrap() {
            assert!(
                bytes(&rows_of.inputs[0].batch) <= MOST,
                "{}",
                bytes(&rows_of.inputs[0].batch)
            );
            parts.push(places.len());
        }
        assert_eq!(parts, [7, 3]);
    }
}

/// A worker whose user function has a document as the state of each group.
#[derive(Default)]
struct Documents {
    /// How many states its next task has.
    states: usize,
    answer: Option<CallMessage>,
    /// The tasks that it was given, with their bytes.
    asked: Vec<(String, usize)>,
}

impl Worker for Documents {
    fn emit(&mut self, _: RecordBatch) -> Result<()> {
        Ok(())
    }

    fn call(&mut self) -> Result<CallMessage> {
        let states = || -> ArrayRef {
            Arc::new(StructArray::new_null(
                Fields::from(vec![Field::new("document", DataType::Utf8, true)]),
                0,
            ))
        };
        Ok(self.answer.take().unwrap_or_else(|| {
            CallMessage::of(RecordBatch::try_from_iter([("a", states())]).unwrap())
        }))
    }

    fn answer(&mut self, asked: &CallMessage) -> Result<()> {
        let (task, rows) = (asked.attribute("task").unwrap(), asked.batch.num_rows());
        self.asked.push((task.to_owned(), bytes(&asked.batch)));
        let column = |name: &str, column: ArrayRef| {
            CallMessage::of(RecordBatch::try_from_iter([(name, column)]).unwrap())
        };
        self.answer = Some(match task {
            "update" | "merge" => column(
                "document",
                Arc::new(StringArray::from(vec!["x".repeat(LARGE); self.states])),
            ),
            "result" => column("a", Arc::new(Int64Array::from(vec![0; rows]))),
            "end" => CallMessage::empty().with("digest", OutputDigest::default().digest()),
            _ => CallMessage::empty(),
        });
        if task == "states" {
            self.states = rows;
        }
        Ok(())
    }

    fn refuse(&mut self, error: &Error) -> Result<()> {
        panic!("{error}")
    }

    fn check_alive(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn states_of_user_functions_are_cut_by_bytes() {
    let request = json!({
        "kind": "aggregate", "keys": ["k"], "left": ["x"],
        "aggregates": [{"name": "a", "function": "own"}], "timed": true, "grace": 1_000,
        "window": {"kind": "session", "gap": 60},
        "output": [{"name": "x", "from": "left", "index": 0}],
    });
    let kind: OperatorKind = serde_json::from_value(request).unwrap();
    let db = Database::open_in_memory(&kind.spec().stores(), DatabaseOptions::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut worker = Documents::default();
    // Two sessions for each key, and rows between them that merge the sessions.
    for time in [0, 100, 50] {
        let mut columns = rows(1, true, 1).columns().to_vec();
        columns[3] =
            Arc::new(TimestampMicrosecondArray::from(vec![time; ROWS]).with_timezone("UTC"));
        let mut operator = kind.spec().start(&schema(1)).unwrap();
        let intake = Intake {
            partition: None,
            memory: Budget::new(usize::MAX),
            folder: folder.path().to_owned(),
            cancellation: Cancellation::default(),
        };
        operator
            .push(RecordBatch::try_new(schema(1), columns).unwrap(), &intake)
            .unwrap();
        let mut tx = db.begin().unwrap();
        operator.run(&db, &mut tx, &mut worker).unwrap();
        db.commit_transaction(tx, Commit::default()).unwrap();
    }
    let sizes = |task: &str| {
        worker
            .asked
            .iter()
            .filter(|(asked, _)| asked == task)
            .map(|(_, bytes)| *bytes)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        sizes("merge").len(),
        4,
        "three pairs of a little more than 4 MiB a batch"
    );
    for task in ["states", "merge", "update", "result"] {
        assert!(
            sizes(task).iter().all(|size| *size <= MOST),
            "{task}: batches of {:?} bytes",
            sizes(task)
        );
    }
    assert!(
        sizes("states").iter().any(|size| *size > 7 * LARGE),
        "seven states of 2 MiB a batch"
    );
}
