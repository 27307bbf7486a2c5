//! The interface of all kinds of windows.

use holdfast_core::{Result, Transaction};

use super::results::ResultRows;
use crate::codec::byte_list::ByteList;
use crate::codec::row::EncodedRows;
use crate::operator::aggregate::groups::{Assigned, GroupMerge, Groups};
use crate::operator::input::{InputRows, RowPlace};
use crate::protocol::Counts;

/// A function that takes a batch of groups.
pub type OfGroups<'a> = dyn FnMut(&Groups, &mut Transaction) -> Result<()> + 'a;

/// A function that takes a batch of groups with their states.
pub type OfStates<'a> = dyn FnMut(&Groups, &ByteList) -> Result<()> + 'a;

/// The windows of one epoch.
pub trait Windows {
    /// Assigns rows to groups, in the order of the rows. Late rows are only counted, and so are
    /// rows without a time if they need one.
    ///
    /// The rows may come in parts. In a second pass the same rows may come again, and are assigned
    /// to the same groups.
    fn assign(
        &mut self,
        input: &InputRows,
        places: &[RowPlace],
        groups: &mut Groups,
        counts: &mut Counts,
    ) -> Vec<Assigned>;

    /// Ends the first pass over the rows.
    ///
    /// # Errors
    /// Those of the store.
    fn end_pass(&mut self, _tx: &mut Transaction, _groups: &mut Groups) -> Result<()> {
        Ok(())
    }

    /// Replaces provisional groups by final ones after the first pass, and removes late rows.
    /// Sessions first assign the number of a run as the group, because a row of a later part may
    /// extend the run.
    fn settle(&self, _assigned: &mut Vec<Assigned>, _counts: &mut Counts) {}

    /// Whether a key's window with this start was over before the epoch, so that its items can be
    /// deleted. If windows are emitted when they close, a closed window is over; otherwise an
    /// expired one. A pane of sliding windows is over once all its windows are closed.
    ///
    /// # Errors
    /// Those of the store.
    fn was_over(&self, _key: &[u8], _start: i64, _tx: &mut Transaction) -> Result<bool> {
        Ok(false)
    }

    /// The new groups that replace a closed group with the same key and start.
    fn replacing(&self) -> Vec<usize> {
        Vec::new()
    }

    /// Deletes the stored windows that were closed before the epoch.
    ///
    /// # Errors
    /// Those of the store.
    fn sweep(&self, _tx: &mut Transaction) -> Result<()> {
        Ok(())
    }

    /// Passes the stored groups that expire in the epoch, and that have no new rows, to `f`, a
    /// batch at a time. `time` is the stream time of the groups' store before the epoch, and
    /// `touched` are the groups of the rows.
    ///
    /// # Errors
    /// Those of the store, and those of `f`.
    fn expire(
        &self,
        _time: Option<i64>,
        _touched: &Groups,
        _tx: &mut Transaction,
        _f: &mut OfGroups<'_>,
    ) -> Result<()> {
        Ok(())
    }

    /// Finds the stored groups that are emitted because their windows close, for
    /// [`Self::add_stored`]. Only for windows of which each group makes its rows of the result by
    /// itself. `hold` gets the bytes of memory that each group takes, and returns whether all
    /// groups so far fit. If they do not, none is found, and the result is false.
    ///
    /// # Errors
    /// Those of the store.
    fn find_closing(
        &mut self,
        _tx: &mut Transaction,
        _hold: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool> {
        Ok(true)
    }

    /// Adds the stored groups that the results need, after the groups of the rows. If groups have
    /// items, sliding windows also add the groups that the epoch closes, so that their items are
    /// deleted. Other windows emit the closing groups, or pass the expiring ones in
    /// [`Self::expire`].
    ///
    /// # Errors
    /// Those of the store.
    fn add_stored(
        &mut self,
        _has_items: bool,
        _tx: &mut Transaction,
        _groups: &mut Groups,
    ) -> Result<()> {
        Ok(())
    }

    /// Passes to `f`, a batch at a time, the stored groups that are emitted because their windows
    /// close. Called if the epoch works in parts, in place of [`Self::add_stored`].
    ///
    /// # Errors
    /// Those of the store, and those of `f`.
    fn closing_states(&self, _tx: &mut Transaction, _f: &mut OfStates<'_>) -> Result<()> {
        Ok(())
    }

    /// Reads the groups' states; none for a new group.
    ///
    /// # Errors
    /// Those of the store.
    fn read(&mut self, tx: &mut Transaction, groups: &Groups) -> Result<Vec<Option<Vec<u8>>>>;

    /// The groups that are merged into others.
    fn merges(&self) -> &[GroupMerge] {
        &[]
    }

    /// Writes the states of the groups that have new rows, and deletes the windows that are emitted
    /// because they close. A retention of the store cannot delete them: the grace may have been
    /// different when their rows came.
    ///
    /// # Errors
    /// Those of the store.
    fn write(
        &self,
        tx: &mut Transaction,
        groups: &Groups,
        touched: &[usize],
        state: &EncodedRows,
    ) -> Result<()>;

    /// Whether a group makes a row of the result, if each group does so by itself.
    fn has_result(&self, _start: i64, is_touched: bool) -> bool {
        is_touched
    }

    /// The rows of the result, in no particular order.
    fn results(&self, groups: &Groups, touched: &[usize]) -> ResultRows;

    /// The groups whose items neither a later epoch nor a reader needs. `retained` is the earliest
    /// time of a group that the store has after the epoch.
    fn finished(&self, groups: &Groups, retained: i64) -> Vec<usize>;
}
