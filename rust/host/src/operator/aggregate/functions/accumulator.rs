//! The interface of the functions of an aggregation. Each column of the result has one accumulator.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use holdfast_core::{Error, ErrorKind, KeyValueStore, Result, Transaction};
use xxhash_rust::xxh3::Xxh3Default;

use crate::net::frame::MAX_PAYLOAD;
use crate::operator::aggregate::groups::{Assigned, GroupMerge, Groups};
use crate::operator::input::InputRows;
use crate::operator::worker::Worker;

/// What an accumulator uses besides its own state.
pub struct Access<'a> {
    /// The groups.
    pub groups: &'a Groups,
    /// The store of single values.
    pub items: &'a KeyValueStore,
    /// The epoch's transaction.
    pub tx: &'a mut Transaction,
    /// The worker, in which the user's functions run.
    pub worker: &'a mut dyn Worker,
}

/// One function over all groups of an epoch.
pub trait Accumulator: Send {
    /// Takes the state types of the user's functions, which the worker has sent: a column for each
    /// function.
    ///
    /// # Errors
    /// `InvalidState` if the worker does not know this function.
    fn begin(&mut self, _states: &RecordBatch) -> Result<()> {
        Ok(())
    }

    /// The types of the columns of a group's state.
    fn state_types(&self) -> Vec<DataType>;

    /// Takes the stored states: a row for each group, nulls for a new group.
    ///
    /// # Errors
    /// `Serialization` for columns of other types.
    fn load(&mut self, state: &[ArrayRef]) -> Result<()>;

    /// Adds rows, in order.
    ///
    /// # Errors
    /// `InvalidValue` for a result that does not fit its type; those of the store and the worker.
    fn update(
        &mut self,
        input: &InputRows,
        rows: &[Assigned],
        access: &mut Access<'_>,
    ) -> Result<()>;

    /// Adds the rows that are still pending, after the last [`Self::update`].
    ///
    /// # Errors
    /// As [`Self::update`].
    fn finish(&mut self, _access: &mut Access<'_>) -> Result<()> {
        Ok(())
    }

    /// Moves the groups of pending rows from `groups` to `next`, the groups of the next part. Their
    /// states are loaded again with that part.
    fn carry_pending(&mut self, _groups: &Groups, _next: &mut Groups) {}

    /// Merges groups permanently.
    ///
    /// # Errors
    /// As [`Self::update`].
    fn merge(&mut self, merges: &[GroupMerge], access: &mut Access<'_>) -> Result<()>;

    /// Returns the states to store, a row for each group.
    ///
    /// # Errors
    /// `Serialization` for columns that cannot be assembled.
    fn state(&self) -> Result<Vec<ArrayRef>>;

    /// Returns the result of each union of groups. The groups of a union are in the order of time.
    /// Adds to the digest what a result depends on besides the groups' states.
    ///
    /// # Errors
    /// As [`Self::update`]; `Serialization` for a result that is too large or cannot be assembled.
    fn result(
        &mut self,
        unions: &[&[usize]],
        access: &mut Access<'_>,
        digest: &mut Xxh3Default,
    ) -> Result<ArrayRef>;

    /// Returns about how many bytes of a result come from a group's items, which are stored beside
    /// its state. The items stay in memory for [`Self::result`], which does not read them again.
    ///
    /// # Errors
    /// Those of the store.
    fn item_bytes(&mut self, _group: usize, _access: &mut Access<'_>) -> Result<usize> {
        Ok(0)
    }

    /// Whether a group has items beside its state.
    fn has_items(&self) -> bool {
        false
    }

    /// Deletes a group's items.
    ///
    /// # Errors
    /// Those of the store.
    fn delete_items(&self, _group: usize, _access: &mut Access<'_>) -> Result<()> {
        Ok(())
    }

    /// Whether the result depends on the order of the rows of a group.
    fn needs_order(&self) -> bool {
        false
    }
}

/// Returns a column of the input, batch by batch.
pub fn column(input: &InputRows, column: usize) -> impl Iterator<Item = &ArrayRef> {
    input
        .inputs
        .iter()
        .map(move |input| input.batch.column(column))
}

/// The error of a stored state that cannot be read.
pub fn unreadable(function: &str) -> Error {
    Error::new(
        ErrorKind::Serialization,
        format!("{function}: a stored group cannot be read: restore the state from a backup"),
    )
}

/// Checks that a row of the result fits into a frame and into the offsets of an Arrow column.
/// `advice` is what the user can do if it does not.
///
/// # Errors
/// `Serialization` names the key.
pub fn check_row_size(bytes: usize, function: &str, advice: &str, key: &[u8]) -> Result<()> {
    if bytes <= MAX_PAYLOAD as usize {
        return Ok(());
    }
    let text = format!(
        "aggregate: the values of {function} in one row of the result are {bytes} bytes, and a \
         row has at most {MAX_PAYLOAD}: {advice}"
    );
    Err(Error::new(ErrorKind::Serialization, text).key(key))
}

/// The error of a result that does not fit its type.
pub fn overflow(field: &str, function: &str, wanted: &str) -> Error {
    let text =
        format!("{function}({field}) does not fit {wanted}: cast the column to a wider type");
    Error::new(ErrorKind::InvalidValue, text)
}
