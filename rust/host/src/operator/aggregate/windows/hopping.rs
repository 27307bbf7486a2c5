//! Windows of one length at fixed places: tumbling where they do not overlap, else hopping.

use holdfast_core::{Result, Transaction, WindowStore};
use serde::Deserialize;

use super::{Answers, Clock, Windows, timed};
use crate::codec::row::EncodedRows;
use crate::operator::Counts;
use crate::operator::aggregate::accumulator::Assigned;
use crate::operator::aggregate::groups::Groups;
use crate::operator::aggregate::spec::Emit;
use crate::operator::rows::{Place, Rows};

/// Windows that start at multiples of `slide`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct HoppingWindow {
    /// From a window's start to its end, which is not in it: microseconds.
    pub length: i64,
    /// From one window's start to the next one's: microseconds, at most the length.
    pub slide: i64,
}

impl HoppingWindow {
    /// The starts of the windows that hold `time`, the earliest first. None at the far ends of
    /// time, where a window would start before it.
    pub fn starts(self, time: i64) -> impl Iterator<Item = i64> {
        let into = time.rem_euclid(self.slide);
        let count = (self.length - into - 1) / self.slide + 1;
        (0..count)
            .rev()
            .filter_map(move |n| time.checked_sub(into + n * self.slide))
    }
}

/// One group a window of a key.
pub struct Hopping {
    store: WindowStore,
    window: HoppingWindow,
    clock: Clock,
    emit: Emit,
    /// Groups that are in the store.
    stored: Vec<usize>,
}

impl Hopping {
    /// Windows whose states are in a store, by start.
    pub fn new(store: WindowStore, window: HoppingWindow, clock: Clock, emit: Emit) -> Self {
        Self {
            store,
            window,
            clock,
            emit,
            stored: Vec::new(),
        }
    }

    fn end(&self, groups: &Groups, group: usize) -> i64 {
        groups.start(group).saturating_add(self.window.length)
    }
}

impl Windows for Hopping {
    fn assign(
        &mut self,
        input: &Rows,
        places: &[Place],
        _: &mut Transaction,
        groups: &mut Groups,
        counts: &mut Counts,
    ) -> Result<Vec<Assigned>> {
        let mut assigned = Vec::with_capacity(places.len());
        for (place, key, time) in timed(input, places, &mut counts.dropped) {
            let before = assigned.len();
            for start in self.window.starts(time) {
                if !self
                    .clock
                    .was_closed(start.saturating_add(self.window.length))
                {
                    let group = groups.enter(key, start);
                    assigned.push(Assigned { group, place, time });
                }
            }
            counts.late += u64::from(assigned.len() == before);
        }
        Ok(assigned)
    }

    fn was_over(&self, _: &[u8], start: i64, _: &mut Transaction) -> Result<bool> {
        Ok(self
            .clock
            .was_closed(start.saturating_add(self.window.length)))
    }

    fn sweep(&self, tx: &mut Transaction) -> Result<()> {
        super::sweep(
            &self.store,
            tx,
            self.clock
                .closed_before()
                .saturating_sub(self.window.length),
        )
    }

    fn enter_stored(
        &mut self,
        items: bool,
        tx: &mut Transaction,
        groups: &mut Groups,
    ) -> Result<()> {
        let Some((from, to)) = self
            .clock
            .closing()
            .filter(|_| items || self.emit == Emit::Close)
        else {
            return Ok(());
        };
        let start = |end: i64| end.saturating_sub(self.window.length);
        super::stored(&self.store, tx, (start(from), start(to)), |key, start| {
            groups.enter(key, start);
        })
    }

    fn read(&mut self, tx: &mut Transaction, groups: &Groups) -> Result<Vec<Option<Vec<u8>>>> {
        let kept = super::read(&self.store, tx, groups)?;
        self.stored = (0..groups.count())
            .filter(|group| kept[*group].is_some())
            .collect();
        Ok(kept)
    }

    fn write(
        &self,
        tx: &mut Transaction,
        groups: &Groups,
        touched: &[usize],
        state: &EncodedRows,
    ) -> Result<()> {
        let is_over =
            |group| self.emit == Emit::Close && self.clock.is_gone(self.end(groups, group));
        super::write(
            &self.store,
            tx,
            groups,
            touched,
            state,
            &self.stored,
            is_over,
        )
    }

    fn answers(&self, groups: &Groups, touched: &[usize]) -> Answers {
        let mut answers = Answers::default();
        let mut push = |group| answers.push(groups.start(group), self.end(groups, group), group);
        match self.emit {
            Emit::Update => touched.iter().copied().for_each(push),
            Emit::Close => (0..groups.count())
                .filter(|group| self.clock.is_closed(self.end(groups, *group)))
                .for_each(&mut push),
        }
        answers
    }

    fn gone(&self, groups: &Groups) -> Vec<usize> {
        (0..groups.count())
            .filter(|group| self.clock.is_gone(self.end(groups, *group)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tumbling_and_hopping() {
        let starts = |length, slide, time| {
            HoppingWindow { length, slide }
                .starts(time)
                .collect::<Vec<_>>()
        };
        assert_eq!(starts(10, 10, 0), [0]);
        assert_eq!(starts(10, 10, 9), [0]);
        assert_eq!(starts(10, 10, -1), [-10]);
        assert_eq!(starts(10, 5, 7), [0, 5]);
        // A length that is no multiple of the slide.
        assert_eq!(starts(10, 4, 9), [0, 4, 8]);
        assert_eq!(starts(10, 4, 10), [4, 8]);
    }

    proptest! {
        #[test]
        fn exactly_the_windows_around_a_moment(length in 1i64..50, part in 1i64..50,
            time in -200i64..200) {
            let slide = part.min(length);
            let found: Vec<i64> = HoppingWindow { length, slide }.starts(time).collect();
            let all: Vec<i64> = (-300..300).map(|n| n * slide)
                .filter(|start| (*start..start + length).contains(&time)).collect();
            prop_assert_eq!(found, all);
        }
    }
}
