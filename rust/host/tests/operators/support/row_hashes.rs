//! A worker with a user function that depends on the order of its rows and on its batches.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, Fields};
use holdfast_core::{Error, Result};
use holdfast_host::net::call::CallMessage;
use holdfast_host::operator::Worker;
use holdfast_host::operator::process::OutputDigest;

/// A worker whose user function `a` hashes the first column of its rows, and where its batches end.
#[derive(Default)]
pub struct RowHashes {
    /// The states of the next task.
    states: Vec<i64>,
    answer: Option<CallMessage>,
    output: OutputDigest,
}

fn mix(hash: i64, value: i64) -> i64 {
    hash.wrapping_mul(1_000_003).wrapping_add(value)
}

fn numbers(column: &ArrayRef) -> Vec<i64> {
    let column = column.as_primitive::<Int64Type>();
    column.iter().map(|value| value.unwrap_or(0)).collect()
}

impl RowHashes {
    /// The states with the rows of an update.
    fn updated(&self, batch: &RecordBatch) -> Vec<i64> {
        let mut states = self.states.clone();
        let values = numbers(batch.column(1).as_struct().column(0));
        for (group, value) in numbers(batch.column(0)).into_iter().zip(values) {
            let state = &mut states[group as usize];
            *state = mix(*state, value);
        }
        states.into_iter().map(|state| mix(state, 7)).collect()
    }
}

impl Worker for RowHashes {
    fn emit(&mut self, _: RecordBatch) -> Result<()> {
        Ok(())
    }

    fn call(&mut self) -> Result<CallMessage> {
        Ok(self.answer.take().unwrap_or_else(|| {
            let state = Fields::from(vec![Field::new("hash", DataType::Int64, true)]);
            let types: ArrayRef = Arc::new(StructArray::new_null(state, 0));
            CallMessage::of(RecordBatch::try_from_iter([("a", types)]).unwrap())
        }))
    }

    fn answer(&mut self, asked: &CallMessage) -> Result<()> {
        let batch = &asked.batch;
        let column = |name: &str, values: Vec<i64>| {
            let values: ArrayRef = Arc::new(Int64Array::from(values));
            CallMessage::of(RecordBatch::try_from_iter([(name, values)]).unwrap())
        };
        let mut answer = CallMessage::empty();
        match asked.attribute("task").unwrap() {
            "states" => self.states = numbers(batch.column(0)),
            "update" => answer = column("hash", self.updated(batch)),
            "merge" => {
                let pairs = self.states.iter().zip(numbers(batch.column(0)));
                answer = column(
                    "hash",
                    pairs.map(|(state, other)| mix(*state, other)).collect(),
                );
            }
            "result" => answer = column("a", numbers(batch.column(0))),
            "emit" => self.output.add(batch)?,
            _ => answer = answer.with("digest", self.output.digest()),
        }
        self.answer = Some(answer);
        Ok(())
    }

    fn refuse(&mut self, error: &Error) -> Result<()> {
        panic!("{error}")
    }

    fn check_alive(&mut self) -> Result<()> {
        Ok(())
    }
}
