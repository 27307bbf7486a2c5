//! No windows: one group for each key, which never ends.

use holdfast_core::{KeyValueStore, Result, Transaction};

use super::clock::WindowClock;
use super::results::ResultRows;
use super::windowing::Windows;
use crate::codec::row::EncodedRows;
use crate::operator::aggregate::groups::{Assigned, Groups};
use crate::operator::input::{InputRows, RowPlace};
use crate::protocol::Counts;

/// One group for each key.
pub struct ByKey {
    store: KeyValueStore,
    clock: WindowClock,
}

impl ByKey {
    /// Groups whose states are in this store.
    pub fn new(store: KeyValueStore, clock: WindowClock) -> Self {
        Self { store, clock }
    }
}

impl Windows for ByKey {
    fn assign(
        &mut self,
        input: &InputRows,
        places: &[RowPlace],
        groups: &mut Groups,
        counts: &mut Counts,
    ) -> Vec<Assigned> {
        let mut assigned = Vec::with_capacity(places.len());
        for place in places.iter().copied() {
            let time = input.time(place);
            if time.is_some_and(|time| self.clock.was_late(time)) {
                counts.late += 1;
                continue;
            }
            let group = groups.enter(input.key_with_nulls(place), 0);
            assigned.push(Assigned { group, place });
        }
        assigned
    }

    fn read(&mut self, tx: &mut Transaction, groups: &Groups) -> Result<Vec<Option<Vec<u8>>>> {
        let mut states = vec![None; groups.count()];
        let keys: Vec<&[u8]> = (0..groups.count()).map(|group| groups.key(group)).collect();
        self.store
            .get_batch(tx, &keys, |n, state| states[n] = state.map(<[u8]>::to_vec))?;
        Ok(states)
    }

    fn write(
        &self,
        tx: &mut Transaction,
        groups: &Groups,
        touched: &[usize],
        state: &EncodedRows,
    ) -> Result<()> {
        touched.iter().try_for_each(|group| {
            self.store
                .put(tx, groups.key(*group), Some(state.get(*group)))
        })
    }

    fn results(&self, _: &Groups, touched: &[usize]) -> ResultRows {
        let mut results = ResultRows::default();
        touched.iter().for_each(|group| results.push(0, 0, *group));
        results
    }

    fn finished(&self, _: &Groups, _: i64) -> Vec<usize> {
        Vec::new()
    }
}
