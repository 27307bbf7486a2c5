//! The user's functions: they run in Spark's Python worker, and their states are stored here.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::interleave::interleave;
use holdfast_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::Xxh3Default;

use super::pending_rows::PendingRows;
use super::user_worker::ask;
use crate::net::OTHER_VERSION;
use crate::operator::aggregate::functions::accumulator::{Access, Accumulator, unreadable};
use crate::operator::aggregate::groups::{Assigned, GroupMerge, Groups};
use crate::operator::batch_size::{ranges, value_bytes};
use crate::operator::input::{InputLayout, InputRows};
use crate::operator::output::{OutputColumn, OutputColumns};

/// Checks that the states that are loaded together fit into the offsets of an Arrow column. They
/// are those of a part's groups, or of all groups of the epoch. Reading more bytes would panic.
///
/// # Errors
/// `Serialization` for too many bytes.
pub fn check_state_size(bytes: usize) -> Result<()> {
    if i32::try_from(bytes).is_ok() {
        return Ok(());
    }
    let text = format!(
        "aggregate: the groups that one partition reads together have {bytes} bytes of state. With \
         an hfs.Aggregator, the limit is 2 GiB: take smaller micro-batches (maxFilesPerTrigger, \
         maxOffsetsPerTrigger), or use smaller states"
    );
    Err(Error::new(ErrorKind::Serialization, text))
}

/// One function with the states of all groups.
pub struct UserFunction {
    number: usize,
    name: String,
    /// The columns of a row, as the function receives it.
    columns: OutputColumns,
    /// The columns of a state; none until the worker has sent them.
    state: Vec<Field>,
    /// The states in batches: first those from the store, then those from the worker, in the order
    /// of their arrival.
    batches: Vec<Vec<ArrayRef>>,
    /// By group: the batch and the row of its current state.
    places: Vec<(usize, usize)>,
    pending: PendingRows,
}

impl UserFunction {
    /// The function that computes the result column `name` from rows of `columns`.
    ///
    /// # Errors
    /// `InvalidValue` names a column whose source does not exist.
    pub fn new(
        number: usize,
        name: &str,
        columns: &[OutputColumn],
        layout: &InputLayout,
    ) -> Result<Self> {
        let columns = OutputColumns::new("aggregate", columns, layout)?;
        Ok(Self {
            number,
            name: name.to_owned(),
            columns,
            state: Vec::new(),
            batches: Vec::new(),
            places: Vec::new(),
            pending: PendingRows::default(),
        })
    }

    /// Returns the states at these places, as columns.
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

    /// Returns about how many bytes a state has.
    fn state_bytes(&self, (batch, row): (usize, usize)) -> usize {
        let columns = self.batches[batch].iter();
        columns.map(|column| value_bytes(column, row)).sum()
    }

    fn batch(&self, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
        RecordBatch::try_new(Arc::new(Schema::new(self.state.clone())), columns)
            .map_err(|error| self.failed(&error))
    }

    fn ask(&self, task: &str, batch: RecordBatch, access: &mut Access<'_>) -> Result<RecordBatch> {
        ask(access.worker, task, Some(self.number), batch)
    }

    /// Sends states and a task for them to the worker, and adds the new states as a batch. Returns
    /// the number of the batch.
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

    /// Passes the pending rows to the function.
    fn send_pending(&mut self, access: &mut Access<'_>) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(());
        }
        let rows = pending.batch(&self.columns);
        let rows = rows.map_err(|error| self.failed(&error))?;
        let groups = pending.groups().iter();
        let states: Vec<(usize, usize)> = groups.map(|group| self.places[*group]).collect();
        let batch = self.change(&states, "update", rows, access)?;
        let groups = pending.groups().iter().enumerate();
        groups.for_each(|(row, group)| self.places[*group] = (batch, row));
        self.drop_old_states()
    }

    /// Drops the states that newer ones have replaced, once they are as many as the groups.
    fn drop_old_states(&mut self) -> Result<()> {
        let states = self.batches.iter().filter_map(|batch| batch.first());
        if states.map(|column| column.len()).sum::<usize>() <= 2 * self.places.len() {
            return Ok(());
        }
        self.batches = vec![self.states(&self.places)?];
        self.places = (0..self.places.len()).map(|row| (0, row)).collect();
        Ok(())
    }

    /// Merges the states of each list in pairs until one state is left, and returns the place of
    /// that state for each list. No list is empty, and each list is in the order of time.
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
            // The last state of a list of odd length follows its merged pairs.
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
            "the worker sent {what} of {:?} that do not fit its task: {OTHER_VERSION}",
            self.name
        );
        Error::new(ErrorKind::InvalidState, text)
    }
}

impl Accumulator for UserFunction {
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

    fn update(
        &mut self,
        input: &InputRows,
        rows: &[Assigned],
        access: &mut Access<'_>,
    ) -> Result<()> {
        let mut rest = rows;
        while !rest.is_empty() {
            let mut pending = std::mem::take(&mut self.pending);
            let bytes = |group: usize| self.state_bytes(self.places[group]);
            let count = pending.add(&self.columns, input, rest, bytes)?;
            self.pending = pending;
            rest = &rest[count..];
            if !rest.is_empty() {
                self.send_pending(access)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, access: &mut Access<'_>) -> Result<()> {
        self.send_pending(access)
    }

    fn carry_pending(&mut self, groups: &Groups, next: &mut Groups) {
        self.pending.carry(groups, next);
    }

    fn merge(&mut self, merges: &[GroupMerge], access: &mut Access<'_>) -> Result<()> {
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
        let (batches, lists) = (
            self.batches.len(),
            unions
                .iter()
                .map(|groups| groups.iter().map(|group| self.places[*group]).collect()),
        );
        let places = self.union(lists.collect(), access)?;
        let states = self.batch(self.states(&places)?)?;
        self.batches.truncate(batches);
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
    fn states_larger_than_an_arrow_column_are_refused() {
        check_state_size(i32::MAX as usize).expect("they just fit");
        let error = check_state_size(i32::MAX as usize + 1).expect_err("too many");
        assert!(
            error.to_string().contains("2147483648 bytes") && error.to_string().contains("smaller"),
            "{error}"
        );
    }
}
