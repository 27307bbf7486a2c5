//! An epoch whose rows have spilled, or which closes many windows, if each group makes its rows of
//! the result by itself.
//!
//! The rows come in parts. The groups of a part have their states from the parts before, which have
//! moved to disk, or from the store. In the end the states are written and the results are emitted,
//! a batch of groups at a time. So the memory does not depend on the number of rows and groups.

use std::sync::Arc;

use holdfast_core::{Database, KeyValueStore, Result, Transaction};

use super::functions::{Access, Accumulators};
use super::group_batch::GroupBatch;
use super::groups::Groups;
use super::moved_groups::{MovedGroup, MovedGroups};
use super::result_output::{GroupResults, ResultOutput};
use super::spec::AggregateSpec;
use super::windows::Windows;
use crate::operator::input::{InputRows, RowOrder, RowPlace};
use crate::operator::worker::Worker;
use crate::protocol::{Counts, Digest};

/// An epoch that is processed in parts.
pub struct EpochInParts<'a> {
    /// The settings.
    pub spec: &'a AggregateSpec,
    /// The rows.
    pub rows: &'a mut InputRows,
    /// The counts of the rows.
    pub counts: &'a mut Counts,
    /// The functions.
    pub accumulators: &'a mut Accumulators,
    /// The windows.
    pub windows: &'a mut dyn Windows,
    /// The store of single values.
    pub items: &'a KeyValueStore,
}

impl EpochInParts<'_> {
    /// Writes the groups to the epoch's transaction. Returns them, with those that only close.
    /// `group_time` is the stream time of the groups' store before the epoch.
    ///
    /// # Errors
    /// Those of the rows, the functions, the stores and the worker.
    pub fn write(
        &mut self,
        order: RowOrder,
        group_time: Option<i64>,
        db: &Database,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<MovedGroups> {
        let mut moved = MovedGroups::new(db, tx)?;
        let mut pending = Groups::default();
        while let Some(part) = self.rows.next_part(order, self.counts)? {
            moved.limit_memory(self.memory());
            pending = self.add(&part, pending, &mut moved, tx, worker)?;
        }
        if pending.count() > 0 {
            self.finish(&pending, &mut moved, tx, worker)?;
        }
        self.windows
            .closing_states(tx, &mut |groups, states| moved.put_stored(groups, states))?;
        if moved.have_spilled() {
            self.rows.count_spill();
        }
        if self.accumulators.have_items() {
            self.expire(group_time, &mut moved, tx, worker)?;
        }
        self.write_states(db, &mut moved, tx)?;
        Ok(moved)
    }

    /// Returns how many bytes of states may be in memory.
    fn memory(&mut self) -> usize {
        if self.rows.have_spilled() {
            self.rows.spare_memory()
        } else {
            // The rows are one part.
            self.rows.take_free_memory()
        }
    }

    /// Adds the rows of a part to their groups. `groups` are those of pending rows, with which a
    /// user's function continues. Returns those of the rows that are pending after the part.
    fn add(
        &mut self,
        part: &[RowPlace],
        mut groups: Groups,
        moved: &mut MovedGroups,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<Groups> {
        let assigned = self
            .windows
            .assign(self.rows, part, &mut groups, self.counts);
        let states = self.states(&groups, moved, tx)?;
        self.accumulators.load_owned(states)?;
        let mut access = Access {
            groups: &groups,
            items: self.items,
            tx,
            worker,
        };
        self.accumulators
            .update(self.rows, &assigned, &mut access)?;
        moved.put(&groups, &self.accumulators.states()?)?;
        Ok(self.accumulators.carry_pending(&groups))
    }

    /// Adds the rows that are pending after the last part to their groups.
    fn finish(
        &mut self,
        groups: &Groups,
        moved: &mut MovedGroups,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<()> {
        self.accumulators.load_owned(moved.states(groups)?)?;
        let mut access = Access {
            groups,
            items: self.items,
            tx,
            worker,
        };
        self.accumulators.finish(&mut access)?;
        moved.put(groups, &self.accumulators.states()?)
    }

    /// Returns the states of groups; none for a new group.
    fn states(
        &mut self,
        groups: &Groups,
        moved: &mut MovedGroups,
        tx: &mut Transaction,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let mut states = moved.states(groups)?;
        let others: Vec<usize> = (0..groups.count())
            .filter(|group| states[*group].is_none())
            .collect();
        let mut stored = Groups::default();
        for group in &others {
            stored.enter(groups.key(*group), groups.start(*group));
        }
        let stored = self.windows.read(tx, &stored)?;
        for (group, state) in others.into_iter().zip(stored) {
            states[group] = state;
        }
        Ok(states)
    }

    /// Deletes the items of the stored groups that expire in the epoch and have no new rows. The
    /// store has these groups until the states are written.
    fn expire(
        &self,
        group_time: Option<i64>,
        moved: &mut MovedGroups,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<()> {
        let (accumulators, items) = (&*self.accumulators, self.items);
        let time = group_time.max(moved.newest());
        let none = Groups::default();
        self.windows.expire(time, &none, tx, &mut |expired, tx| {
            let states = moved.states(expired)?;
            let mut access = Access {
                groups: expired,
                items,
                tx,
                worker: &mut *worker,
            };
            (0..expired.count())
                .filter(|group| states[*group].is_none())
                .try_for_each(|group| accumulators.delete_items(group, &mut access))
        })
    }

    /// Writes the states. The groups come by start, so no group raises the stream time of the store
    /// above a later one.
    fn write_states(
        &mut self,
        db: &Database,
        moved: &mut MovedGroups,
        tx: &mut Transaction,
    ) -> Result<()> {
        self.for_each_batch(
            (db, moved),
            |_, _| true,
            |epoch, batch| {
                epoch.write_batch(batch, tx)?;
                Ok(GroupBatch::default())
            },
        )
    }

    fn write_batch(&mut self, batch: &GroupBatch, tx: &mut Transaction) -> Result<()> {
        if self.spec.window.is_some() {
            // The windows must know which groups are in the store.
            self.windows.read(tx, batch.groups())?;
        }
        self.accumulators.load(&batch.states())?;
        let states = self.accumulators.states()?;
        self.windows
            .write(tx, batch.groups(), batch.touched(), &states)
    }

    /// Emits the result, and deletes the items that neither a later epoch nor a reader needs.
    /// Returns the digest and the number of the result's rows. `retained` is the earliest time of a
    /// group that the store has.
    ///
    /// # Errors
    /// Those of the functions, the stores and the worker.
    pub fn emit(
        &mut self,
        db: &Database,
        moved: &mut MovedGroups,
        retained: i64,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<(Digest, u64)> {
        let layout = Arc::clone(&self.rows.layout);
        let mut output = ResultOutput::new(self.spec, &layout);
        self.for_each_batch(
            (db, moved),
            |epoch, group| epoch.windows.has_result(group.start, group.is_touched),
            |epoch, batch| epoch.emit_batch(batch, retained, &mut output, tx, worker),
        )?;
        output.finish(worker)
    }

    /// Passes the groups that are wanted to `take`, a batch at a time. `take` returns those of the
    /// batch that it has not taken; it takes at least one.
    fn for_each_batch(
        &mut self,
        (db, moved): (&Database, &mut MovedGroups),
        is_wanted: impl Fn(&Self, &MovedGroup<'_>) -> bool,
        mut take: impl FnMut(&mut Self, &GroupBatch) -> Result<GroupBatch>,
    ) -> Result<()> {
        let mut batch = GroupBatch::default();
        moved.for_each(db, &mut |group| {
            if is_wanted(self, group) {
                while !batch.try_add(group) {
                    batch = take(self, &batch)?;
                }
            }
            Ok(())
        })?;
        while !batch.is_empty() {
            batch = take(self, &batch)?;
        }
        Ok(())
    }

    /// Emits a batch of the result. Returns the groups whose rows do not fit into it: the values of
    /// some functions are not in the states.
    ///
    /// The items of the emitted groups are deleted if the groups are over. Each group that is over
    /// has a row of the result: it has new rows, or it closes.
    fn emit_batch(
        &mut self,
        batch: &GroupBatch,
        retained: i64,
        output: &mut ResultOutput<'_>,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<GroupBatch> {
        self.accumulators.load(&batch.states())?;
        let state = self.accumulators.states()?;
        let mut results = self.windows.results(batch.groups(), batch.touched());
        results.sort(batch.groups());
        let mut access = Access {
            groups: batch.groups(),
            items: self.items,
            tx,
            worker,
        };
        let mut of_groups = GroupResults {
            accumulators: &mut *self.accumulators,
            results: &results,
            state: &state,
        };
        let sent = output.send(&results.rows, &mut of_groups, &mut access)?;
        if self.accumulators.have_items() {
            let finished = self.windows.finished(batch.groups(), retained);
            for group in finished.into_iter().filter(|group| *group < sent) {
                self.accumulators.delete_items(group, &mut access)?;
            }
        }
        Ok(batch.without_first(sent))
    }
}
