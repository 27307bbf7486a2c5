//! The user's own functions: they run in Spark's Python worker, and what they keep is kept here.
//!
//! Once its input has ended, a worker with such functions only answers. Its first call says what
//! they keep (a column each, of the type of the state, a struct); each call after that is what the
//! last task came to, and its answer is the next task:
//!
//! ```text
//! task     batch                               what it comes to
//! states   states, for the task that follows   nothing
//! update   the number of a state, then a row   the states with those rows
//! merge    other states, as many               the states, each with the other one
//! result   states                              a column
//! emit     rows of the result                  nothing: they are Spark's
//! end      nothing                             the digest of the result
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::interleave::interleave;
use holdfast_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::Xxh3Default;

use super::accumulator::{Access, Accumulator, Assigned, Merge, unreadable};
use crate::net::call::CallMessage;
use crate::operator::batch::{Filling, ranges};
use crate::operator::output::{Output, Right};
use crate::operator::rows::{Layout, Place, Rows};
use crate::operator::{OutputColumn, Worker};
use crate::protocol::Digest;

/// What the worker's functions keep: a column each, by their names in the result.
///
/// # Errors
/// The worker's.
pub fn begin(worker: &mut dyn Worker) -> Result<RecordBatch> {
    worker.call().map(|call| call.batch)
}

/// Hands rows of the result to a worker that only answers.
///
/// # Errors
/// The worker's.
pub fn emit(worker: &mut dyn Worker, batch: RecordBatch) -> Result<()> {
    ask(worker, "emit", None, batch).map(|_| ())
}

/// Ends the work; returns the digest of the result, which the worker has taken.
///
/// # Errors
/// The worker's; `InvalidState` for one that says something else.
pub fn end(worker: &mut dyn Worker) -> Result<Digest> {
    worker.answer(&CallMessage::empty().with("task", "end"))?;
    let digest: String = worker.call()?.parsed("digest")?;
    Digest::try_from(digest)
        .map_err(|error| Error::new(ErrorKind::InvalidState, format!("the last call: {error}")))
}

/// Refuses what is kept of an epoch's groups if it is more bytes than the offsets of an Arrow
/// column say: reading it would panic.
///
/// # Errors
/// `Serialization`.
pub fn check_size(bytes: usize) -> Result<()> {
    if i32::try_from(bytes).is_ok() {
        return Ok(());
    }
    let text = format!(
        "aggregate: what is kept of the groups that a partition has rows of in one micro-batch is \
         {bytes} bytes together, and beside an aggregator of your own it may be 2 GiB: take \
         smaller micro-batches (maxFilesPerTrigger, maxOffsetsPerTrigger), or keep smaller states"
    );
    Err(Error::new(ErrorKind::Serialization, text))
}

fn ask(
    worker: &mut dyn Worker,
    task: &str,
    aggregate: Option<usize>,
    batch: RecordBatch,
) -> Result<RecordBatch> {
    let message = CallMessage::of(batch).with("task", task);
    worker.answer(&match aggregate {
        Some(number) => message.with("aggregate", number),
        None => message,
    })?;
    worker.call().map(|call| call.batch)
}

/// One function: the states of all groups, and where they are.
pub struct Own {
    number: usize,
    name: String,
    /// The columns of a row, as the function gets it.
    columns: Output,
    /// Those of a state; none until the worker has said them.
    state: Vec<Field>,
    /// States as they came, from the store first and then from the worker.
    batches: Vec<Vec<ArrayRef>>,
    /// By group: the batch and the row of its state now.
    places: Vec<(usize, usize)>,
}

impl Own {
    /// The function of a column of the result, over rows of these columns.
    ///
    /// # Errors
    /// `InvalidValue` names a column that comes from nowhere.
    pub fn new(
        number: usize,
        name: &str,
        columns: &[OutputColumn],
        layout: &Layout,
    ) -> Result<Self> {
        let columns = Output::new("aggregate", columns, layout)?;
        Ok(Self {
            number,
            name: name.to_owned(),
            columns,
            state: Vec::new(),
            batches: Vec::new(),
            places: Vec::new(),
        })
    }

    /// States as a batch.
    fn states(&self, places: &[(usize, usize)]) -> Result<Vec<ArrayRef>> {
        let column = |column: usize| {
            let arrays: Vec<&dyn Array> = self
                .batches
                .iter()
                .map(|batch| batch[column].as_ref())
                .collect();
            interleave(&arrays, places).map_err(|error| self.failed(&error))
        };
        (0..self.state.len()).map(column).collect()
    }

    /// About how many bytes a state is.
    fn state_bytes(&self, (batch, row): (usize, usize)) -> usize {
        let sliced = |column: &ArrayRef| {
            column
                .slice(row, 1)
                .to_data()
                .get_slice_memory_size()
                .unwrap_or(0)
        };
        let bytes = |column: &ArrayRef| {
            column
                .data_type()
                .primitive_width()
                .unwrap_or_else(|| sliced(column))
        };
        self.batches[batch].iter().map(bytes).sum()
    }

    fn batch(&self, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
        RecordBatch::try_new(Arc::new(Schema::new(self.state.clone())), columns)
            .map_err(|error| self.failed(&error))
    }

    fn ask(&self, task: &str, batch: RecordBatch, access: &mut Access<'_>) -> Result<RecordBatch> {
        ask(access.worker, task, Some(self.number), batch)
    }

    /// Gives states to the function, and something to do with them; the new states are a batch
    /// more.
    fn change(
        &mut self,
        places: &[(usize, usize)],
        task: &str,
        with: RecordBatch,
        access: &mut Access<'_>,
    ) -> Result<usize> {
        let states = self.batch(self.states(places)?)?;
        self.ask("states", states, access)?;
        let changed = self.ask(task, with, access)?;
        let types = changed.columns().iter().map(|column| column.data_type());
        if changed.num_rows() != places.len() || !types.eq(self.state.iter().map(Field::data_type))
        {
            return Err(self.broken("states"));
        }
        self.batches.push(changed.columns().to_vec());
        Ok(self.batches.len() - 1)
    }

    /// Merges lists of states, none empty, each in the order of time, pair by pair until one is
    /// left of each; returns where.
    fn union(
        &mut self,
        mut lists: Vec<Vec<(usize, usize)>>,
        access: &mut Access<'_>,
    ) -> Result<Vec<(usize, usize)>> {
        loop {
            let pairs = lists
                .iter()
                .enumerate()
                .flat_map(|(n, list)| list.chunks_exact(2).map(move |pair| (n, pair[0], pair[1])));
            let pairs: Vec<_> = pairs.collect();
            if pairs.is_empty() {
                return Ok(lists
                    .into_iter()
                    .filter_map(|list| list.first().copied())
                    .collect());
            }
            // The odd ones out go on as they are, behind the pairs.
            let mut next: Vec<Vec<(usize, usize)>> = vec![Vec::new(); lists.len()];
            let bytes = |n: usize| {
                self.state_bytes(pairs[n].1)
                    .saturating_add(self.state_bytes(pairs[n].2))
            };
            for pairs in ranges(pairs.len(), bytes)
                .collect::<Vec<_>>()
                .into_iter()
                .map(|range| &pairs[range])
            {
                let (left, right): (Vec<_>, Vec<_>) =
                    pairs.iter().map(|(_, left, right)| (*left, *right)).unzip();
                let others = self.batch(self.states(&right)?)?;
                let batch = self.change(&left, "merge", others, access)?;
                for (row, (list, ..)) in pairs.iter().enumerate() {
                    next[*list].push((batch, row));
                }
            }
            for (list, next) in lists.iter().zip(&mut next) {
                next.extend(list.chunks_exact(2).remainder());
            }
            lists = next;
        }
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> Error {
        Error::new(
            ErrorKind::Serialization,
            format!(
                "aggregate: the states of {:?} cannot be assembled: {error}",
                self.name
            ),
        )
    }

    fn broken(&self, what: &str) -> Error {
        let text = format!(
            "the worker says other {what} of {:?} than it was asked for: worker and host are of \
             different versions",
            self.name
        );
        Error::new(ErrorKind::InvalidState, text)
    }
}

impl Accumulator for Own {
    fn begin(&mut self, states: &RecordBatch) -> Result<()> {
        match states
            .column_by_name(&self.name)
            .map(|column| column.data_type())
        {
            Some(DataType::Struct(fields)) => {
                self.state = fields
                    .iter()
                    .map(|field| Field::clone(field).with_nullable(true))
                    .collect()
            }
            _ => return Err(self.broken("types of states")),
        }
        Ok(())
    }

    fn state_types(&self) -> Vec<DataType> {
        self.state
            .iter()
            .map(|field| field.data_type().clone())
            .collect()
    }

    fn load(&mut self, state: &[ArrayRef]) -> Result<()> {
        let rows = state.first().ok_or_else(|| unreadable("aggregator"))?.len();
        self.batches = vec![state.to_vec()];
        self.places = (0..rows).map(|row| (0, row)).collect();
        Ok(())
    }

    fn update(&mut self, input: &Rows, rows: &[Assigned], access: &mut Access<'_>) -> Result<()> {
        let mut rest = rows;
        while !rest.is_empty() {
            let (mut numbers, mut groups): (HashMap<u32, i64>, Vec<usize>) = Default::default();
            let (mut of_rows, mut filling) = (Vec::new(), Filling::default());
            for row in rest {
                let next = groups.len() as i64;
                let number = *numbers.entry(row.group).or_insert(next);
                let state = if number == next {
                    self.state_bytes(self.places[row.group as usize])
                } else {
                    0
                };
                if !filling.takes(input.row_bytes(row.place).saturating_add(state)) {
                    break;
                }
                if number == next {
                    groups.push(row.group as usize);
                }
                of_rows.push(number);
            }
            let rows;
            (rows, rest) = rest.split_at(of_rows.len());
            let of_rows = Int64Array::from(of_rows);
            let places: Vec<Place> = rows.iter().map(|row| row.place).collect();
            let given = self.columns.of_places(input, &places, &Right::none())?;
            let given: StructArray = given.into();
            let with = RecordBatch::try_from_iter([
                ("group", Arc::new(of_rows) as ArrayRef),
                ("rows", Arc::new(given)),
            ]);
            let states: Vec<(usize, usize)> =
                groups.iter().map(|group| self.places[*group]).collect();
            let batch = self.change(
                &states,
                "update",
                with.map_err(|error| self.failed(&error))?,
                access,
            )?;
            groups
                .iter()
                .enumerate()
                .for_each(|(row, group)| self.places[*group] = (batch, row));
        }
        Ok(())
    }

    fn merge(&mut self, merges: &[Merge], access: &mut Access<'_>) -> Result<()> {
        let lists = merges.iter().map(|merge| {
            merge
                .parts
                .iter()
                .map(|group| self.places[*group])
                .collect()
        });
        let places = self.union(lists.collect(), access)?;
        merges
            .iter()
            .zip(places)
            .for_each(|(merge, place)| self.places[merge.into] = place);
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        self.states(&self.places)
    }

    fn result(
        &mut self,
        unions: &[&[usize]],
        access: &mut Access<'_>,
        _: &mut Xxh3Default,
    ) -> Result<ArrayRef> {
        let (kept, lists) = (
            self.batches.len(),
            unions
                .iter()
                .map(|groups| groups.iter().map(|group| self.places[*group]).collect()),
        );
        let places = self.union(lists.collect(), access)?;
        let states = self.batch(self.states(&places)?)?;
        self.batches.truncate(kept);
        let given = self.ask("result", states, access)?;
        match given.columns() {
            [column] if column.len() == unions.len() => Ok(Arc::clone(column)),
            _ => Err(self.broken("results")),
        }
    }

    fn needs_order(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_that_no_column_holds_are_refused() {
        check_size(i32::MAX as usize).expect("they just fit");
        let error = check_size(i32::MAX as usize + 1).expect_err("too many");
        assert!(
            error.to_string().contains("2147483648 bytes") && error.to_string().contains("smaller"),
            "{error}"
        );
    }
}
