//! No windows: one group a key, for ever.

use holdfast_core::{KeyValueStore, Result, Transaction};

use super::{Answers, Clock, Windows};
use crate::codec::row::EncodedRows;
use crate::operator::Counts;
use crate::operator::aggregate::accumulator::Assigned;
use crate::operator::aggregate::groups::Groups;
use crate::operator::rows::{Place, Rows};

/// One group a key.
pub struct ByKey {
    store: KeyValueStore,
    clock: Clock,
}

impl ByKey {
    /// Groups whose states are in a store.
    pub fn new(store: KeyValueStore, clock: Clock) -> Self {
        Self { store, clock }
    }
}

impl Windows for ByKey {
    fn assign(
        &mut self,
        input: &Rows,
        places: &[Place],
        _: &mut Transaction,
        groups: &mut Groups,
        counts: &mut Counts,
    ) -> Result<Vec<Assigned>> {
        let mut assigned = Vec::with_capacity(places.len());
        for place in places.iter().copied() {
            let (batch, row) = (&input.inputs[place.input()], place.row());
            let time = batch.time(row);
            if time.is_some_and(|time| self.clock.was_late(time)) {
                counts.late += 1;
                continue;
            }
            let group = groups.enter(batch.keys.with_nulls(row), 0);
            assigned.push(Assigned {
                group,
                place,
                time: time.unwrap_or(i64::MIN),
            });
        }
        Ok(assigned)
    }

    fn read(&mut self, tx: &mut Transaction, groups: &Groups) -> Result<Vec<Option<Vec<u8>>>> {
        let mut kept = vec![None; groups.count()];
        let keys: Vec<&[u8]> = (0..groups.count()).map(|group| groups.key(group)).collect();
        self.store
            .get_batch(tx, &keys, |n, state| kept[n] = state.map(<[u8]>::to_vec))?;
        Ok(kept)
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

    fn answers(&self, _: &Groups, touched: &[usize]) -> Answers {
        let mut answers = Answers::default();
        touched.iter().for_each(|group| answers.push(0, 0, *group));
        answers
    }

    fn gone(&self, _: &Groups) -> Vec<usize> {
        Vec::new()
    }
}
