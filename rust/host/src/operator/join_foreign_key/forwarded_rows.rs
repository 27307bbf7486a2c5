//! The rows that the first stage sends to the second one.

use std::mem;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int8Array, Int64Array};
use holdfast_core::Result;

use super::action::Action;
use crate::codec::byte_list::ByteList;
use crate::operator::batch_size::BatchSize;
use crate::operator::input::{InputLayout, InputRows};
use crate::operator::outcome::Outcome;
use crate::operator::output::{JoinedRowWriter, JoinedSide};
use crate::protocol::Counts;

/// Sends rows to the second stage, each with its action and its number in the epoch.
///
/// Actions and numbers are encoded as columns, so rows are collected into batches first.
pub struct ForwardedRows<'a> {
    writer: JoinedRowWriter<'a>,
    layout: &'a InputLayout,
    keys: ByteList,
    payloads: ByteList,
    times: Vec<i64>,
    actions: Vec<i8>,
    size: BatchSize,
    /// How many rows came before those that are collected.
    sent: i64,
}

impl<'a> ForwardedRows<'a> {
    /// Starts without rows; `layout` describes the keys and payloads of the input.
    pub fn new(writer: JoinedRowWriter<'a>, layout: &'a InputLayout) -> Self {
        Self {
            writer,
            layout,
            keys: ByteList::default(),
            payloads: ByteList::default(),
            times: Vec::new(),
            actions: Vec::new(),
            size: BatchSize::default(),
            sent: 0,
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// As [`JoinedRowWriter::push`].
    pub fn push(&mut self, action: Action, key: &[u8], time: i64, payload: &[u8]) -> Result<()> {
        let bytes = key.len() + payload.len();
        if !self.size.try_add(bytes) {
            self.send()?;
            self.size.try_add(bytes);
        }
        self.keys.push(key);
        self.payloads.push(payload);
        self.times.push(time);
        self.actions.push(action as i8);
        Ok(())
    }

    /// Sends the remaining rows. `counts` has all counts except that of the output rows.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(mut self, input: &InputRows, counts: Counts) -> Result<Outcome> {
        self.send()?;
        self.writer.finish(input, counts)
    }

    fn send(&mut self) -> Result<()> {
        let (times, actions) = (mem::take(&mut self.times), mem::take(&mut self.actions));
        let first = self.sent;
        self.sent += times.len() as i64;
        let marks: [ArrayRef; 2] = [
            Arc::new(Int8Array::from(actions)),
            Arc::new(Int64Array::from_iter_values(first..self.sent)),
        ];
        let marks = self.layout.right_codec.encode(&marks, times.len())?;
        for (row, time) in times.into_iter().enumerate() {
            self.writer.push(
                self.keys.get(row),
                JoinedSide::row(Some(time), self.payloads.get(row)),
                JoinedSide::row(None, marks.get(row)),
            )?;
        }
        self.keys.clear();
        self.payloads.clear();
        self.size = BatchSize::default();
        Ok(())
    }
}
