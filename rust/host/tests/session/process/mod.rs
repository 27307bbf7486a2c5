//! Operators whose code runs in the worker and calls its session.

mod calls;
mod heartbeats;
mod repeated;
mod stores;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use holdfast_core::Result;
use holdfast_host::client::Client;
use holdfast_host::host::request::StageReport;
use holdfast_host::net::call::CallMessage;
use holdfast_host::operator::process::OutputDigest;
use serde_json::{Value, json};

use crate::support::{Row, Spark, TaskRequest};

/// A task of a processor with one key-value store.
pub fn task(spark: &Spark, epoch: i64) -> TaskRequest {
    TaskRequest::new(spark, "a", epoch).with(
        "/operator",
        operator(&json!([{"name": "hits", "kind": "key_value"}])),
    )
}

pub fn operator(stores: &Value) -> Value {
    json!({
        "name": "join", "kind": "process", "keys": ["currency"], "left": ["id"],
        "right": ["rate", "note"],
        "stores": stores, "deterministic": true,
        "output": [
            {"name": "currency", "from": "key", "index": 0}, {"name": "at", "from": "time"},
            {"name": "id", "from": "left", "index": 0},
        ],
    })
}

/// Opens the task's session and ends its input; the client's calls follow.
pub fn calling(task: &TaskRequest, client: Client, rows: &[Row]) -> Client {
    let mut client = task.pushed(client, rows).unwrap();
    client.end_input().unwrap();
    client
}

pub fn ask(
    client: &mut Client,
    store: &str,
    method: &str,
    columns: &[(&str, ArrayRef)],
) -> Result<CallMessage> {
    let batch = match columns {
        [] => CallMessage::empty().batch,
        columns => RecordBatch::try_from_iter(columns.iter().cloned()).unwrap(),
    };
    client.call(
        &CallMessage::of(batch)
            .with("store", store)
            .with("method", method)
            .with("rows", 2),
    )
}

pub fn bytes(values: &[&str]) -> ArrayRef {
    Arc::new(BinaryArray::from_iter_values(values))
}

pub fn times(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

pub fn put(client: &mut Client, keys: &[&str], values: &[&str]) {
    let answer = ask(
        client,
        "hits",
        "put",
        &[("keys", bytes(keys)), ("values", bytes(values))],
    )
    .unwrap();
    assert_eq!(answer.batch.num_columns(), 0);
}

pub fn get(client: &mut Client, keys: &[&str]) -> Vec<Option<String>> {
    let answer = ask(client, "hits", "get", &[("keys", bytes(keys))]).unwrap();
    column_text(&answer, "value")
}

pub fn column_text(message: &CallMessage, column: &str) -> Vec<Option<String>> {
    let found = message.batch[column].as_binary::<i32>();
    found
        .iter()
        .map(|value| value.map(|value| String::from_utf8(value.to_vec()).unwrap()))
        .collect()
}

pub fn ids(client: &mut Client) -> (Vec<i64>, Option<i64>) {
    let rows = client
        .call(&CallMessage::empty().with("method", "rows"))
        .unwrap();
    (
        rows.batch["id"]
            .as_primitive::<Int64Type>()
            .values()
            .to_vec(),
        rows.attribute("time").map(|time| time.parse().unwrap()),
    )
}

/// Ends the session of a processor without output.
pub fn done_empty(client: Client) -> Result<String> {
    let output = OutputDigest::default();
    client.done(output.rows(), &output.digest())
}

pub fn done(client: Client) -> StageReport {
    serde_json::from_str(&done_empty(client).unwrap()).unwrap()
}
