//! Sends the rows of the result to the worker.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{Field, Schema};
use holdfast_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::Xxh3Default;

use super::functions::{Access, Accumulators, user_worker};
use super::spec::AggregateSpec;
use super::windows::{ResultRow, ResultRows};
use crate::codec::row::EncodedRows;
use crate::operator::batch_size::BatchSize;
use crate::operator::input::InputLayout;
use crate::operator::output::times_of;
use crate::operator::worker::Worker;
use crate::protocol::Digest;

/// Results of groups, before they are sent.
pub struct GroupResults<'a> {
    /// The functions.
    pub accumulators: &'a mut Accumulators,
    /// The rows, in order.
    pub results: &'a ResultRows,
    /// The states of the groups.
    pub state: &'a EncodedRows,
}

impl GroupResults<'_> {
    /// Returns how many of these rows fit into one batch; the first row always fits.
    fn fitting(&mut self, rows: &[ResultRow], access: &mut Access<'_>) -> Result<usize> {
        let (mut count, mut size) = (0, BatchSize::default());
        for row in rows {
            let mut bytes: usize = 0;
            for group in self.results.groups(row) {
                let group_bytes = access.groups.key(*group).len() + self.state.get(*group).len();
                bytes = bytes.saturating_add(group_bytes);
                for accumulator in self.accumulators.iter_mut() {
                    bytes = bytes.saturating_add(accumulator.item_bytes(*group, access)?);
                }
            }
            if !size.try_add(bytes) {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    /// Adds a row to the digest: its window, and the key and the state of its groups. The digest is
    /// stored, so the format of these bytes must never change.
    fn digest(&self, row: &ResultRow, access: &Access<'_>, digest: &mut Xxh3Default) {
        let groups = self.results.groups(row);
        digest.update(&row.start.to_be_bytes());
        digest.update(&row.end.to_be_bytes());
        digest.update(&(groups.len() as u64).to_be_bytes());
        for group in groups {
            for bytes in [access.groups.key(*group), self.state.get(*group)] {
                digest.update(&(bytes.len() as u64).to_be_bytes());
                digest.update(bytes);
            }
        }
    }
}

/// Sends the result of an epoch to the worker.
pub struct ResultOutput<'a> {
    spec: &'a AggregateSpec,
    layout: &'a InputLayout,
    digest: Xxh3Default,
    rows: u64,
}

impl<'a> ResultOutput<'a> {
    /// Starts a result without rows.
    pub fn new(spec: &'a AggregateSpec, layout: &'a InputLayout) -> Self {
        Self {
            spec,
            layout,
            digest: Xxh3Default::new(),
            rows: 0,
        }
    }

    /// Sends all rows, in order.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_all(&mut self, of: &mut GroupResults<'_>, access: &mut Access<'_>) -> Result<()> {
        let results = of.results;
        let mut rest = &results.rows[..];
        while !rest.is_empty() {
            let sent = self.send(rest, of, access)?;
            rest = &rest[sent..];
        }
        Ok(())
    }

    /// Sends the first of these rows, as many as fit into one batch; returns how many.
    ///
    /// # Errors
    /// Those of the store and of the worker.
    pub fn send(
        &mut self,
        rows: &[ResultRow],
        of: &mut GroupResults<'_>,
        access: &mut Access<'_>,
    ) -> Result<usize> {
        let rows = &rows[..of.fitting(rows, access)?];
        for row in rows {
            of.digest(row, access, &mut self.digest);
        }
        let batch = self.batch(rows, of, access)?;
        self.rows += batch.num_rows() as u64;
        if self.spec.has_user_functions() {
            user_worker::emit(access.worker, batch)?;
        } else {
            access.worker.emit(batch)?;
        }
        Ok(rows.len())
    }

    /// Ends the result; returns its digest and the number of its rows.
    ///
    /// # Errors
    /// Those of the worker.
    pub fn finish(self, worker: &mut dyn Worker) -> Result<(Digest, u64)> {
        let digest = if self.spec.has_user_functions() {
            user_worker::end(worker)?
        } else {
            Digest::from_hasher(&self.digest)
        };
        Ok((digest, self.rows))
    }

    /// Builds a batch of some rows.
    fn batch(
        &mut self,
        rows: &[ResultRow],
        of: &mut GroupResults<'_>,
        access: &mut Access<'_>,
    ) -> Result<RecordBatch> {
        let (layout, results) = (self.layout, of.results);
        let unions: Vec<&[usize]> = rows.iter().map(|row| results.groups(row)).collect();
        let mut fields: Vec<Field> = layout
            .keys
            .clone()
            .map(|key| layout.field(key).clone().with_nullable(true))
            .collect();
        let mut columns = layout.key_codec.decode(
            unions
                .iter()
                .filter_map(|groups| Some(access.groups.key(*groups.first()?))),
        )?;
        if self.spec.window.is_some() {
            let times = |time: fn(&ResultRow) -> i64| -> ArrayRef {
                times_of(
                    layout.time_type(),
                    rows.iter()
                        .map(|row| Some(time(row)))
                        .collect::<TimestampMicrosecondArray>(),
                )
            };
            columns.extend([times(|row| row.start), times(|row| row.end)]);
            fields.extend(
                ["window_start", "window_end"]
                    .map(|name| Field::new(name, layout.time_type().clone(), true)),
            );
        }
        let accumulators = of.accumulators.iter_mut();
        for (aggregate, accumulator) in self.spec.aggregates.iter().zip(accumulators) {
            let column = accumulator.result(&unions, access, &mut self.digest)?;
            fields.push(Field::new(
                &aggregate.name,
                column.data_type().clone(),
                true,
            ));
            columns.push(column);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|error| {
            Error::new(
                ErrorKind::Serialization,
                format!("aggregate: its output cannot be assembled: {error}"),
            )
        })
    }
}
