//! Windows of one length (KIP-450). Each row makes two: one that ends at the row, and one that
//! begins one microsecond after it. Both bounds are in the window; they are one length apart.
//!
//! The reason is that a window that slides along the rows of a key changes when a row enters and
//! when it leaves. Each such window that holds a row is in the result. The store has one group (a
//! pane) for each time of a key; a window is the union of the panes in it.

use holdfast_core::{Result, Timestamp, Transaction, WindowStore};

use super::clock::WindowClock;
use super::results::{ResultRow, ResultRows};
use super::window_store;
use super::window_store::timed;
use super::windowing::Windows;
use crate::codec::row::EncodedRows;
use crate::operator::aggregate::groups::{Assigned, Groups};
use crate::operator::aggregate::window_spec::Emit;
use crate::operator::input::{InputRows, RowPlace};
use crate::protocol::Counts;

/// The sliding windows of one epoch.
pub struct SlidingWindows {
    store: WindowStore,
    length: i64,
    clock: WindowClock,
    emit: Emit,
    /// The number of groups that have new rows. They are the first groups.
    touched: usize,
    /// By group: whether it was not stored before this epoch.
    is_new: Vec<bool>,
}

impl SlidingWindows {
    /// Windows over groups whose states are in this store.
    pub fn new(store: WindowStore, length: i64, clock: WindowClock, emit: Emit) -> Self {
        Self {
            store,
            length,
            clock,
            emit,
            touched: 0,
            is_new: Vec::new(),
        }
    }

    /// Returns the last moments of the two windows that a row makes: the window that ends with it,
    /// and the window that begins after it.
    fn ends(&self, time: i64) -> [i64; 2] {
        [time, time.saturating_add(self.length).saturating_add(1)]
    }

    /// The first moment after all windows that a row is in or makes.
    fn after_all(&self, time: i64) -> i64 {
        after(self.ends(time)[1])
    }

    /// Whether this epoch closes the window with this last moment.
    fn closes(&self, end: i64) -> bool {
        self.clock.is_closed(after(end)) && !self.clock.was_closed(after(end))
    }

    /// Returns the ranges of time whose panes are needed for the results of a row's windows: with
    /// `Update`, of all that the row changes; with `Close`, of those that it makes and that this
    /// epoch closes.
    fn wanted(&self, time: i64) -> Vec<(i64, i64)> {
        let ends = self.ends(time);
        match self.emit {
            Emit::Update => vec![(time.saturating_sub(self.length).saturating_sub(1), ends[1])],
            Emit::Close => ends
                .into_iter()
                .filter(|end| self.closes(*end))
                .map(|end| (end.saturating_sub(self.length), end))
                .collect(),
        }
    }

    /// Whether rows of this epoch are in a window, or have made it.
    fn is_changed(&self, panes: &[usize], before: Option<usize>) -> bool {
        let is_touched = |group: usize| group < self.touched;
        panes.iter().any(|group| is_touched(*group))
            || before.is_some_and(|group| is_touched(group) && self.is_new[group])
    }
}

/// The next moment.
fn after(moment: i64) -> i64 {
    moment.saturating_add(1)
}

impl Windows for SlidingWindows {
    fn assign(
        &mut self,
        input: &InputRows,
        places: &[RowPlace],
        groups: &mut Groups,
        counts: &mut Counts,
    ) -> Vec<Assigned> {
        let mut assigned = Vec::with_capacity(places.len());
        for (place, key, time) in timed(input, places, &mut counts.dropped) {
            // The row is late if every window that holds it is closed.
            if self
                .clock
                .was_closed(after(time.saturating_add(self.length)))
            {
                counts.late += 1;
                continue;
            }
            assigned.push(Assigned {
                group: groups.enter(key, time),
                place,
            });
        }
        assigned
    }

    fn end_pass(&mut self, _: &mut Transaction, groups: &mut Groups) -> Result<()> {
        self.touched = groups.count();
        Ok(())
    }

    fn was_over(&self, _: &[u8], time: i64, _: &mut Transaction) -> Result<bool> {
        Ok(self.clock.was_closed(self.after_all(time)))
    }

    fn sweep(&self, tx: &mut Transaction) -> Result<()> {
        let closed = self.clock.closed_before();
        let last = closed.saturating_sub(self.length).saturating_sub(2);
        window_store::sweep(&self.store, tx, (self.clock.swept_from(), last))
    }

    fn add_stored(
        &mut self,
        has_items: bool,
        tx: &mut Transaction,
        groups: &mut Groups,
    ) -> Result<()> {
        let mut wanted: Vec<(Vec<u8>, i64, i64)> = Vec::new();
        for group in 0..self.touched {
            wanted.extend(
                self.wanted(groups.start(group))
                    .into_iter()
                    .map(|(from, to)| (groups.key(group).to_vec(), from, to)),
            );
        }
        if let Some((from, to)) = self.clock.closing() {
            let reach = self.length.saturating_add(1);
            let (from, to) = (from.saturating_sub(1), to.saturating_sub(1));
            // The rows that make a closing window are at its end, or right before its start.
            let before_start = (from.saturating_sub(reach), to.saturating_sub(reach));
            if self.emit == Emit::Close {
                for times in [before_start, (from, to)] {
                    window_store::stored(&self.store, tx, times, |key, time| {
                        wanted.extend(
                            self.wanted(time)
                                .into_iter()
                                .map(|(from, to)| (key.to_vec(), from, to)),
                        );
                    })?;
                }
            }
            if has_items || self.emit == Emit::Close {
                window_store::stored(&self.store, tx, before_start, |key, time| {
                    groups.enter(key, time);
                })?;
            }
        }
        // No stored pane is later than the store's stream time.
        let newest = self.store.stream_time(tx);
        wanted.retain(|(_, from, _)| Some(Timestamp(*from)) <= newest);
        wanted.sort_unstable();
        wanted.dedup_by(|next, last| {
            let is_one = next.0 == last.0 && next.1 <= after(last.2);
            if is_one {
                last.2 = last.2.max(next.2);
            }
            is_one
        });
        let keys: Vec<&[u8]> = wanted.iter().map(|(key, ..)| key.as_slice()).collect();
        let times = |of: fn(&(Vec<u8>, i64, i64)) -> i64| {
            wanted
                .iter()
                .map(|wanted| Timestamp(of(wanted)))
                .collect::<Vec<_>>()
        };
        self.store.fetch_ranges(
            tx,
            &keys,
            &times(|wanted| wanted.1),
            &times(|wanted| wanted.2),
            &mut |_, pane, _| {
                groups.enter(pane.key, pane.start.0);
            },
        )
    }

    fn read(&mut self, tx: &mut Transaction, groups: &Groups) -> Result<Vec<Option<Vec<u8>>>> {
        let states = window_store::read(&self.store, tx, groups)?;
        self.is_new = states.iter().map(Option::is_none).collect();
        Ok(states)
    }

    fn write(
        &self,
        tx: &mut Transaction,
        groups: &Groups,
        touched: &[usize],
        state: &EncodedRows,
    ) -> Result<()> {
        let is_finished = |group| {
            self.emit == Emit::Close && self.clock.is_finished(self.after_all(groups.start(group)))
        };
        window_store::write(
            &self.store,
            tx,
            groups,
            touched,
            state,
            |group| !self.is_new[group],
            is_finished,
        )
    }

    fn results(&self, groups: &Groups, _: &[usize]) -> ResultRows {
        let mut panes: Vec<usize> = (0..groups.count()).collect();
        panes.sort_unstable_by_key(|group| (groups.key(*group), groups.start(*group)));
        // A key may have two windows for each pane, and each window may hold most of the panes. So
        // windows are ranges of one list.
        let (mut rows, mut first) = (Vec::new(), 0);
        for panes in panes.chunk_by(|a, b| groups.key(*a) == groups.key(*b)) {
            let time = |group: &usize| groups.start(*group);
            let mut ends: Vec<i64> = panes
                .iter()
                .flat_map(|group| self.ends(time(group)))
                .collect();
            ends.sort_unstable();
            ends.dedup();
            for end in ends {
                let start = end.saturating_sub(self.length);
                let from = panes.partition_point(|group| time(group) < start);
                let to = panes.partition_point(|group| time(group) <= end);
                let held = &panes[from..to];
                if held.is_empty() {
                    continue;
                }
                let before_start = panes[..from]
                    .last()
                    .copied()
                    .filter(|group| after(time(group)) == start);
                // A window that ends with a stored row existed before.
                let has_existed = held
                    .last()
                    .is_some_and(|group| time(group) == end && !self.is_new[*group]);
                let is_out = match self.emit {
                    Emit::Update => {
                        !self.clock.was_closed(after(end))
                            && self.is_changed(held, before_start.filter(|_| !has_existed))
                    }
                    Emit::Close => self.closes(end),
                };
                if is_out {
                    rows.push(ResultRow {
                        start,
                        end,
                        parts: first + from..first + to,
                    });
                }
            }
            first += panes.len();
        }
        ResultRows { rows, parts: panes }
    }

    fn finished(&self, groups: &Groups, _: i64) -> Vec<usize> {
        (0..groups.count())
            .filter(|group| self.clock.is_finished(self.after_all(groups.start(*group))))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::{Database, DatabaseOptions, StoreKind, StoreSpec};

    use super::*;
    use crate::operator::aggregate::spec::GROUPS;

    #[test]
    fn overlapping_windows_share_their_panes() {
        const TIMES: i64 = 1_000;
        let folder = tempfile::tempdir().expect("a folder");
        let kind = StoreKind::Window {
            retention: TIMES,
            window_size: 0,
            retain_duplicates: false,
            timestamped: false,
        };
        let db = Database::open(
            folder.path(),
            &[StoreSpec::new(GROUPS, kind)],
            DatabaseOptions::default(),
        )
        .expect("opens");
        let spec = serde_json::json!({"keys": [], "left": [], "aggregates": []});
        let clock = WindowClock::new(&serde_json::from_value(spec).expect("settings"), None, None);
        let mut windows = SlidingWindows::new(
            db.window(GROUPS).expect("a store"),
            TIMES,
            clock,
            Emit::Update,
        );
        let mut groups = Groups::default();
        for time in (0..TIMES).rev() {
            groups.enter(b"a", time);
            groups.enter(b"b", time);
        }
        (windows.touched, windows.is_new) = (groups.count(), vec![true; groups.count()]);
        let mut results = windows.results(&groups, &[]);
        results.sort(&groups);
        assert_eq!(
            results.parts.len(),
            groups.count(),
            "each pane is in the list once"
        );
        // The window that ends with the last row holds all panes of its key, in the order of time.
        for key in [b"a", b"b"] {
            let of_key = |group: &usize| groups.key(*group) == key;
            let mut of_this_key = results
                .rows
                .iter()
                .map(|row| (row, results.groups(row)))
                .filter(|(_, held)| of_key(&held[0]));
            let (_, last) = of_this_key
                .find(|(row, _)| row.end == TIMES - 1)
                .expect("a window");
            let times: Vec<i64> = last.iter().map(|group| groups.start(*group)).collect();
            assert_eq!(times, (0..TIMES).collect::<Vec<_>>());
            assert!(last.iter().all(of_key));
        }
    }
}
