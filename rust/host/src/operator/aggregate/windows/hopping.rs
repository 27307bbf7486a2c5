//! Windows of one length at fixed places: tumbling if they do not overlap, else hopping.

use holdfast_core::{Result, Timestamp, Transaction, WindowStore};

use super::clock::WindowClock;
use super::results::ResultRows;
use super::window_store;
use super::window_store::timed;
use super::windowing::{OfGroups, OfStates, Windows};
use crate::codec::row::EncodedRows;
use crate::operator::aggregate::groups::{Assigned, Groups};
use crate::operator::aggregate::window_spec::{Emit, HoppingWindow};
use crate::operator::input::{InputRows, RowPlace};
use crate::operator::numbering::PairNumbers;
use crate::protocol::Counts;

/// One group for each window of a key.
pub struct HoppingWindows {
    store: WindowStore,
    window: HoppingWindow,
    clock: WindowClock,
    emit: Emit,
    /// The stored groups that are emitted because their windows close.
    closing: Groups,
    /// By group: whether it is in the store.
    is_stored: Vec<bool>,
}

impl HoppingWindows {
    /// Windows whose states are in this store, by start.
    pub fn new(store: WindowStore, window: HoppingWindow, clock: WindowClock, emit: Emit) -> Self {
        Self {
            store,
            window,
            clock,
            emit,
            closing: Groups::default(),
            is_stored: Vec::new(),
        }
    }

    fn end(&self, groups: &Groups, group: usize) -> i64 {
        groups.start(group).saturating_add(self.window.length)
    }

    /// The first and the last start of the stored windows that are emitted because they close.
    fn closing_starts(&self) -> Option<(i64, i64)> {
        let start = |end: i64| end.saturating_sub(self.window.length);
        let (from, to) = self.clock.closing_groups()?;
        Some((start(from), start(to)))
    }

    /// The starts of the windows that hold `time` and that were not closed before the epoch.
    fn open_starts(&self, time: i64) -> impl Iterator<Item = i64> {
        let (clock, length) = (self.clock, self.window.length);
        let starts = self.window.starts(time);
        starts.filter(move |start| !clock.was_closed(start.saturating_add(length)))
    }
}

/// The groups of overlapping windows, by key and pane. All rows of a key in a pane are in the same
/// windows, so the groups are found once.
#[derive(Default)]
struct PaneGroups {
    panes: PairNumbers,
    /// By pane: where its groups end.
    ends: Vec<usize>,
    /// The groups of all panes, end to end.
    groups: Vec<u32>,
}

impl PaneGroups {
    /// Returns the groups of a key and pane. `find` adds those of a new pane.
    fn get(&mut self, key: u32, pane: i64, find: impl FnOnce(&mut Vec<u32>)) -> &[u32] {
        let pane = self.panes.enter(key, pane) as usize;
        if pane == self.ends.len() {
            find(&mut self.groups);
            self.ends.push(self.groups.len());
        }
        let start = pane.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.groups[start..self.ends[pane]]
    }
}

impl Windows for HoppingWindows {
    fn assign(
        &mut self,
        input: &InputRows,
        places: &[RowPlace],
        groups: &mut Groups,
        counts: &mut Counts,
    ) -> Vec<Assigned> {
        let mut assigned = Vec::with_capacity(places.len());
        let mut panes = PaneGroups::default();
        for (place, key, time) in timed(input, places, &mut counts.dropped) {
            let before = assigned.len();
            let key = groups.enter_key(key);
            let open = self.open_starts(time);
            if self.window.is_tumbling() {
                assigned.extend(open.map(|start| {
                    let group = groups.enter_start(key, start);
                    Assigned { group, place }
                }));
            } else {
                let of_pane = panes.get(key, self.window.pane(time), |found| {
                    found.extend(open.map(|start| groups.enter_start(key, start)));
                });
                assigned.extend(of_pane.iter().map(|group| Assigned {
                    group: *group,
                    place,
                }));
            }
            counts.late += u64::from(assigned.len() == before);
        }
        assigned
    }

    fn was_over(&self, key: &[u8], start: i64, tx: &mut Transaction) -> Result<bool> {
        if self.emit == Emit::Close {
            let end = start.saturating_add(self.window.length);
            return Ok(self.clock.was_closed(end));
        }
        let mut is_stored = false;
        let start = Timestamp(start);
        self.store
            .fetch_batch(tx, &[key], &[start], |_, state| is_stored = state.is_some())?;
        Ok(!is_stored)
    }

    fn sweep(&self, tx: &mut Transaction) -> Result<()> {
        let last = self
            .clock
            .closed_before()
            .saturating_sub(self.window.length);
        window_store::sweep(&self.store, tx, (self.clock.swept_from(), last))
    }

    fn expire(
        &self,
        time: Option<i64>,
        touched: &Groups,
        tx: &mut Transaction,
        f: &mut OfGroups<'_>,
    ) -> Result<()> {
        let newest = (0..touched.count()).map(|group| touched.start(group)).max();
        let Some(starts) = self.clock.expiring_groups(time.max(newest)) else {
            return Ok(());
        };
        window_store::in_batches(&self.store, tx, starts, touched, f)
    }

    fn find_closing(
        &mut self,
        tx: &mut Transaction,
        hold: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool> {
        let Some(starts) = self.closing_starts() else {
            return Ok(true);
        };
        let found = window_store::stored_that_fit(&self.store, tx, starts, hold)?;
        let fit = found.is_some();
        self.closing = found.unwrap_or_default();
        Ok(fit)
    }

    fn add_stored(&mut self, _: bool, _: &mut Transaction, groups: &mut Groups) -> Result<()> {
        let closing = std::mem::take(&mut self.closing);
        for group in 0..closing.count() {
            groups.enter(closing.key(group), closing.start(group));
        }
        Ok(())
    }

    fn closing_states(&self, tx: &mut Transaction, f: &mut OfStates<'_>) -> Result<()> {
        let Some(starts) = self.closing_starts() else {
            return Ok(());
        };
        window_store::stored_states(&self.store, tx, starts, f)
    }

    fn read(&mut self, tx: &mut Transaction, groups: &Groups) -> Result<Vec<Option<Vec<u8>>>> {
        let states = window_store::read(&self.store, tx, groups)?;
        self.is_stored = states.iter().map(Option::is_some).collect();
        Ok(states)
    }

    fn write(
        &self,
        tx: &mut Transaction,
        groups: &Groups,
        touched: &[usize],
        state: &EncodedRows,
    ) -> Result<()> {
        let is_finished =
            |group| self.emit == Emit::Close && self.clock.is_finished(self.end(groups, group));
        window_store::write(
            &self.store,
            tx,
            groups,
            touched,
            state,
            |group| self.is_stored[group],
            is_finished,
        )
    }

    fn results(&self, groups: &Groups, touched: &[usize]) -> ResultRows {
        let mut is_touched = vec![false; groups.count()];
        touched.iter().for_each(|group| is_touched[*group] = true);
        let mut results = ResultRows::default();
        for (group, is_touched) in is_touched.into_iter().enumerate() {
            let start = groups.start(group);
            if self.has_result(start, is_touched) {
                results.push(start, self.end(groups, group), group);
            }
        }
        results
    }

    fn has_result(&self, start: i64, is_touched: bool) -> bool {
        match self.emit {
            Emit::Update => is_touched,
            Emit::Close => {
                let end = start.saturating_add(self.window.length);
                self.clock.is_closed(end)
            }
        }
    }

    fn finished(&self, groups: &Groups, retained: i64) -> Vec<usize> {
        let is_over = |group: &usize| {
            let times = (self.end(groups, *group), groups.start(*group));
            self.clock.is_over(times, retained)
        };
        (0..groups.count()).filter(is_over).collect()
    }
}
