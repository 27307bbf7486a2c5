//! Windows that begin and end at rows (KIP-450): each holds both its bounds, which are one length
//! apart.
//!
//! Slid along a key's rows, a window changes what it holds where a row comes in, so that it ends
//! with the row's time, and where a row falls out, so that it begins one microsecond behind it.
//! Each of these that holds a row is a window of the result. What is kept is one group for each
//! time of a key; a window is the union of those that it holds.

use holdfast_core::{Result, Timestamp, Transaction, WindowStore};

use super::{Answer, Answers, Clock, Windows, timed};
use crate::codec::row::EncodedRows;
use crate::operator::Counts;
use crate::operator::aggregate::accumulator::Assigned;
use crate::operator::aggregate::groups::Groups;
use crate::operator::aggregate::spec::Emit;
use crate::operator::rows::{Place, Rows};

/// The windows of one epoch.
pub struct Sliding {
    store: WindowStore,
    length: i64,
    clock: Clock,
    emit: Emit,
    /// How many groups have new rows: the first ones.
    touched: usize,
    /// Groups that were not stored.
    is_new: Vec<bool>,
}

impl Sliding {
    /// Windows over groups whose states are in a store.
    pub fn new(store: WindowStore, length: i64, clock: Clock, emit: Emit) -> Self {
        Self {
            store,
            length,
            clock,
            emit,
            touched: 0,
            is_new: Vec::new(),
        }
    }

    /// The last moments of the two windows that a row makes: of the one that it is the last of, and
    /// of the one that begins behind it.
    fn ends(&self, time: i64) -> [i64; 2] {
        [time, time.saturating_add(self.length).saturating_add(1)]
    }

    /// The first moment behind the windows that a row is in, and those that it makes.
    fn behind(&self, time: i64) -> i64 {
        after(self.ends(time)[1])
    }

    /// Whether this epoch closes the window that ends with this moment.
    fn closes(&self, end: i64) -> bool {
        self.clock.is_closed(after(end)) && !self.clock.was_closed(after(end))
    }

    /// The times that must be known of a key for the answers that a row has a part in.
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

    /// Whether rows of this epoch are in a window, or made it.
    fn is_changed(&self, panes: &[usize], before: Option<usize>) -> bool {
        let is_touched = |group: usize| group < self.touched;
        panes.iter().any(|group| is_touched(*group))
            || before.is_some_and(|group| is_touched(group) && self.is_new[group])
    }
}

/// The first moment behind one.
fn after(moment: i64) -> i64 {
    moment.saturating_add(1)
}

impl Windows for Sliding {
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
            // Every window that holds the row is closed.
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
                time,
            });
        }
        self.touched = groups.count();
        Ok(assigned)
    }

    fn was_over(&self, _: &[u8], time: i64, _: &mut Transaction) -> Result<bool> {
        Ok(self.clock.was_closed(self.behind(time)))
    }

    fn sweep(&self, tx: &mut Transaction) -> Result<()> {
        super::sweep(
            &self.store,
            tx,
            self.clock
                .closed_before()
                .saturating_sub(self.length)
                .saturating_sub(2),
        )
    }

    fn enter_stored(
        &mut self,
        items: bool,
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
            // Rows that close a window are where it ends, or fell out right before it began.
            let fallen = (from.saturating_sub(reach), to.saturating_sub(reach));
            if self.emit == Emit::Close {
                for times in [fallen, (from, to)] {
                    super::stored(&self.store, tx, times, |key, time| {
                        wanted.extend(
                            self.wanted(time)
                                .into_iter()
                                .map(|(from, to)| (key.to_vec(), from, to)),
                        );
                    })?;
                }
            }
            if items || self.emit == Emit::Close {
                super::stored(&self.store, tx, fallen, |key, time| {
                    groups.enter(key, time);
                })?;
            }
        }
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
        let kept = super::read(&self.store, tx, groups)?;
        self.is_new = kept.iter().map(Option::is_none).collect();
        Ok(kept)
    }

    fn write(
        &self,
        tx: &mut Transaction,
        groups: &Groups,
        touched: &[usize],
        state: &EncodedRows,
    ) -> Result<()> {
        let is_over = |group| {
            self.emit == Emit::Close && self.clock.is_gone(self.behind(groups.start(group)))
        };
        let stored: Vec<usize> = (0..groups.count())
            .filter(|group| !self.is_new[*group])
            .collect();
        super::write(&self.store, tx, groups, touched, state, &stored, is_over)
    }

    fn answers(&self, groups: &Groups, _: &[usize]) -> Answers {
        let mut panes: Vec<usize> = (0..groups.count()).collect();
        panes.sort_unstable_by_key(|group| (groups.key(*group), groups.start(*group)));
        // A key may have as many windows as panes, each of most of them: they are ranges of the one
        // list.
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
                let fallen = panes[..from]
                    .last()
                    .copied()
                    .filter(|group| after(time(group)) == start);
                // A window that ends with a row that was there before was there, too.
                let was_there = held
                    .last()
                    .is_some_and(|group| time(group) == end && !self.is_new[*group]);
                let is_out = match self.emit {
                    Emit::Update => {
                        !self.clock.was_closed(after(end))
                            && self.is_changed(held, fallen.filter(|_| !was_there))
                    }
                    Emit::Close => self.closes(end),
                };
                if is_out {
                    rows.push(Answer {
                        start,
                        end,
                        parts: first + from..first + to,
                    });
                }
            }
            first += panes.len();
        }
        Answers { rows, parts: panes }
    }

    fn gone(&self, groups: &Groups) -> Vec<usize> {
        (0..groups.count())
            .filter(|group| self.clock.is_gone(self.behind(groups.start(*group))))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::{Database, DatabaseOptions, StoreKind, StoreSpec};

    use super::*;
    use crate::operator::aggregate::windows::GROUPS;

    #[test]
    fn windows_that_overlap_share_their_panes() {
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
        let clock = Clock::new(&serde_json::from_value(spec).expect("settings"), None, None);
        let mut windows = Sliding::new(
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
        let mut answers = windows.answers(&groups, &[]);
        answers.sort(&groups);
        assert_eq!(
            answers.parts.len(),
            groups.count(),
            "not one for each window that holds it"
        );
        // The last row's window holds all of its key, in the order of time.
        for key in [b"a", b"b"] {
            let of_key = |group: &usize| groups.key(*group) == key;
            let mut own = answers
                .rows
                .iter()
                .map(|answer| (answer, answers.groups(answer)))
                .filter(|(_, held)| of_key(&held[0]));
            let (_, last) = own
                .find(|(answer, _)| answer.end == TIMES - 1)
                .expect("a window");
            let times: Vec<i64> = last.iter().map(|group| groups.start(*group)).collect();
            assert_eq!(times, (0..TIMES).collect::<Vec<_>>());
            assert!(last.iter().all(of_key));
        }
    }
}
