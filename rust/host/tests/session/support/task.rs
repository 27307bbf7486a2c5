//! A Spark task: its request, and its results.

use crate::support::endpoint::SECRET;
use crate::support::rows::{Joined, Row, batch, joined};
use crate::support::spark::{QUERY, Spark};
use arrow_array::RecordBatch;
use holdfast_core::{Error, Result};
use holdfast_host::client::Client;
use holdfast_host::host::request::StageReport;
use serde_json::{Value, json};

/// The request of a Spark task's session.
#[derive(Debug, Clone)]
pub struct TaskRequest {
    pub request: Value,
}

impl TaskRequest {
    /// A task of the run `run`, on a state with one partition.
    pub fn new(spark: &Spark, run: &str, epoch: i64) -> Self {
        let mut request = json!({
                "local_dir": null, "scratch": false, "query_id": QUERY, "run_id": run,
                "epoch": epoch,
                "partition": 0, "partitions": 1, "attempt": 1, "instance": "call-1",
                "writer_secret": SECRET,
                "settings": {"uncommitted_max_bytes": -1, "memory": 1 << 28},
                "operator": operator("left", 1_000_000),
        });
        let Value::Object(location) = spark.location() else {
            unreachable!("it is an object")
        };
        request.as_object_mut().unwrap().extend(location);
        Self { request }
    }

    pub fn scratch() -> Self {
        let request = json!({
            "root": null, "local_dir": null, "scratch": true, "query_id": null, "run_id": null,
            "epoch": null,
            "partition": 0, "partitions": 1, "attempt": 1, "instance": "call-1", "settings": {},
            "operator": operator("left", 1_000_000),
        });
        Self { request }
    }

    pub fn with(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        *self.request.pointer_mut(pointer).unwrap() = value.into();
        self
    }

    pub fn partition(self, partition: i32, partitions: u32) -> Self {
        self.with("/partition", partition)
            .with("/partitions", partitions)
    }

    pub fn attempt(self, attempt: i64) -> Self {
        self.with("/attempt", attempt)
    }

    fn pid(&self) -> i32 {
        self.request["partition"]
            .as_i64()
            .unwrap()
            .try_into()
            .unwrap()
    }

    /// Opens the session and sends all rows in one batch; the input stays open.
    pub fn pushed(&self, mut client: Client, rows: &[Row]) -> Result<Client> {
        client.open(&self.request.to_string())?;
        client.push(&batch(self.pid(), &[]))?;
        client.push(&batch(self.pid(), rows))?;
        Ok(client)
    }

    /// Runs the task to its end.
    pub fn run(&self, client: Client, rows: &[Row]) -> Result<TaskResult> {
        self.run_batches(client, &[rows])
    }

    /// Runs the task to its end, with the rows in these batches.
    pub fn run_batches(&self, client: Client, batches: &[&[Row]]) -> Result<TaskResult> {
        let batches: Vec<RecordBatch> =
            batches.iter().map(|rows| batch(self.pid(), rows)).collect();
        self.run_records(client, &batches)
    }

    /// Runs the task to its end, with these batches.
    pub fn run_records(&self, client: Client, batches: &[RecordBatch]) -> Result<TaskResult> {
        let (batches, staged) = self.output(client, batches)?;
        Ok(TaskResult {
            rows: batches.iter().flat_map(joined).collect(),
            batches,
            staged,
        })
    }

    /// Runs the task of any operator to its end, with these batches; returns its output.
    pub fn output(
        &self,
        mut client: Client,
        batches: &[RecordBatch],
    ) -> Result<(Vec<RecordBatch>, StageReport)> {
        client.open(&self.request.to_string())?;
        client.push(&batch(self.pid(), &[]))?;
        for rows in batches {
            client.push(rows)?;
        }
        let mut output = client.finish()?;
        let batches = output.by_ref().collect::<Result<Vec<RecordBatch>>>()?;
        let staged =
            serde_json::from_str(output.staged().expect("acknowledged")).expect("valid JSON");
        Ok((batches, staged))
    }
}

/// The results of a task.
#[derive(Debug)]
pub struct TaskResult {
    pub rows: Vec<Joined>,
    pub batches: Vec<RecordBatch>,
    pub staged: StageReport,
}

pub fn operator(how: &str, retention: i64) -> Value {
    json!({
        "name": "join", "kind": "join_asof", "keys": ["currency"], "left": ["id"],
        "right": ["rate", "note"], "how": how,
        "history_retention": retention, "order_left": [], "order_right": [],
        "output": [
            {"name": "currency", "from": "key", "index": 0},
            {"name": "at", "from": "time", "index": 0},
            {"name": "id", "from": "left", "index": 0},
            {"name": "rate", "from": "right", "index": 0},
            {"name": "valid_from", "from": "right_time", "index": 0},
            {"name": "note", "from": "right", "index": 1},
        ],
    })
}

/// An operator that counts rows in windows of ten.
pub fn count_windows(emit: &str, grace: i64) -> Value {
    json!({
        "name": "join", "kind": "aggregate", "keys": ["currency"], "left": ["id"],
        "right": ["rate", "note"], "aggregates": [{"name": "rows", "function": "count"}],
        "window": {"kind": "hopping", "length": 10, "slide": 10},
        "timed": true, "grace": grace, "emit": emit,
    })
}

/// The error of a call that must fail.
pub fn refused<T: std::fmt::Debug>(result: Result<T>) -> Error {
    result.expect_err("it must be refused")
}
