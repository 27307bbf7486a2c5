//! Windows separated by pauses. In a session, each row of a key is at most the gap later than the
//! row before it.
//!
//! A session is stored under the times of its first and its last row. It ends one gap after the
//! last row; as in Spark, a row at this very moment is in the session. All rows of an epoch and all
//! open sessions that they touch are merged at once. If a session consists of new rows only and its
//! end was closed before the epoch, all its rows are late. A closed session is never opened again.
//! New rows may begin at the same time as a closed session and end late enough to be a new, open
//! session. This session then replaces the closed one.

use std::collections::HashMap;

use holdfast_core::{Result, SessionStore, Timestamp, Transaction, WindowedKey};

use super::clock::WindowClock;
use super::results::ResultRows;
use super::row_runs::{RowRun, row_runs};
use super::session_store;
use super::window_store::timed;
use super::windowing::{OfGroups, Windows};
use crate::codec::row::EncodedRows;
use crate::operator::aggregate::groups::{Assigned, GroupMerge, Groups};
use crate::operator::aggregate::window_spec::Emit;
use crate::operator::input::{InputRows, RowPlace};
use crate::operator::numbering::KeyNumbers;
use crate::protocol::Counts;

/// The sessions of one epoch, each a group under its start.
pub struct SessionWindows {
    store: SessionStore,
    gap: i64,
    clock: WindowClock,
    emit: Emit,
    /// The last row's time, by group.
    lasts: Vec<i64>,
    /// The stored groups: the last row's time, and the state.
    stored: HashMap<usize, (i64, Vec<u8>)>,
    merges: Vec<GroupMerge>,
    /// Stored groups that no row touches and that this epoch closes.
    closing: Vec<usize>,
    /// The last time of each closed session that rows overlap, by the number of its key and by its
    /// start.
    closed: HashMap<(u32, i64), i64>,
    /// The last time of the closed session that a new group replaces.
    replaced: HashMap<usize, i64>,
}

/// A part of a session.
enum SessionPart {
    /// Rows of this epoch, by the number of their run.
    Rows(usize),
    /// A stored session's state.
    Stored(Vec<u8>),
}

/// A part with its key, its first and its last time.
type PlacedPart = (u32, i64, i64, SessionPart);

impl SessionWindows {
    /// Sessions whose states are in this store.
    pub fn new(store: SessionStore, gap: i64, clock: WindowClock, emit: Emit) -> Self {
        Self {
            store,
            gap,
            clock,
            emit,
            lasts: Vec::new(),
            stored: HashMap::new(),
            merges: Vec::new(),
            closing: Vec::new(),
            closed: HashMap::new(),
            replaced: HashMap::new(),
        }
    }

    /// A session's end: the last moment at which a row is in it.
    fn end(&self, last: i64) -> i64 {
        last.saturating_add(self.gap)
    }

    /// The first moment after a session.
    fn after(&self, last: i64) -> i64 {
        self.end(last).saturating_add(1)
    }

    /// Returns the open sessions that row runs touch, each once. Sets `closed` to the closed ones.
    ///
    /// No stored session ends after the store's stream time. Runs that begin more than a gap later
    /// touch none and are not looked up.
    fn touched(
        &mut self,
        tx: &mut Transaction,
        runs: &[RowRun],
        keys: &KeyNumbers,
    ) -> Result<Vec<PlacedPart>> {
        let newest = self.store.stream_time(tx);
        let end = |run: &RowRun| Timestamp(run.first.saturating_sub(self.gap));
        let runs: Vec<&RowRun> = runs.iter().filter(|run| Some(end(run)) <= newest).collect();
        let names: Vec<&[u8]> = runs.iter().map(|run| keys.key(run.key)).collect();
        let ends: Vec<Timestamp> = runs.iter().map(|run| end(run)).collect();
        let start = |run: &&RowRun| Timestamp(self.end(run.last));
        let starts: Vec<Timestamp> = runs.iter().map(start).collect();
        let (mut found, mut closed) = (Vec::<PlacedPart>::new(), HashMap::new());
        self.store
            .find_batch(tx, &names, &ends, &starts, &mut |n, session, state| {
                let (key, first, last) = (runs[n].key, session.start.0, session.end.0);
                if self.clock.was_closed(self.after(last)) {
                    // An earlier one may be in this copy of the state only. Its items are deleted
                    // already, and the items under its start are those of a new session.
                    if last >= self.clock.swept_from() {
                        closed.insert((key, first), last);
                    }
                } else {
                    found.push((key, first, last, SessionPart::Stored(state.to_vec())));
                }
            })?;
        self.closed = closed;
        found.sort_by_key(|(key, first, last, _)| (*key, *first, *last));
        found.dedup_by_key(|(key, first, last, _)| (*key, *first, *last));
        Ok(found)
    }

    /// Adds the session that consists of these parts.
    fn add(
        &mut self,
        parts: Vec<PlacedPart>,
        runs: &mut [RowRun],
        keys: &KeyNumbers,
        groups: &mut Groups,
        counts: &mut Counts,
    ) {
        let (Some((key, first, ..)), Some(last)) = (
            parts.first(),
            parts.iter().map(|(_, _, last, _)| *last).max(),
        ) else {
            return;
        };
        let is_new = parts
            .iter()
            .all(|(.., part)| matches!(part, SessionPart::Rows(_)));
        let is_late = is_new && self.clock.was_closed(self.after(last));
        let closed = self.closed.remove(&(*key, *first));
        let key = keys.key(*key);
        let group = (!is_late).then(|| self.group(groups, key, *first, last));
        // Items are stored by key and start, so those of the closed session must be deleted.
        if let (Some(group), Some(closed)) = (group, closed) {
            self.replaced.insert(group as usize, closed);
        }
        let mut merge = GroupMerge {
            into: group.unwrap_or_default() as usize,
            parts: Vec::new(),
        };
        for (_, first, last, part) in parts {
            match part {
                SessionPart::Rows(run) => {
                    runs[run].group = group;
                    counts.late += if is_late { runs[run].rows } else { 0 };
                }
                SessionPart::Stored(state) => {
                    let stored = groups.enter(key, first) as usize;
                    if stored != merge.into {
                        self.group(groups, key, first, last);
                    }
                    merge.parts.push(stored);
                    self.stored.insert(stored, (last, state));
                }
            }
        }
        if merge.parts.iter().any(|group| *group != merge.into) {
            self.merges.push(merge);
        }
    }

    /// The stream time of the store after the epoch, if it is `before` now. A heartbeat does not
    /// raise it.
    fn store_time(&self, before: Option<i64>) -> Option<i64> {
        before.max(self.lasts.iter().copied().max())
    }

    fn group(&mut self, groups: &mut Groups, key: &[u8], first: i64, last: i64) -> u32 {
        let group = groups.enter(key, first);
        self.lasts.resize(groups.count(), i64::MIN);
        self.lasts[group as usize] = last;
        group
    }
}

impl Windows for SessionWindows {
    fn assign(
        &mut self,
        input: &InputRows,
        places: &[RowPlace],
        tx: &mut Transaction,
        groups: &mut Groups,
        counts: &mut Counts,
    ) -> Result<Vec<Assigned>> {
        let mut keys = KeyNumbers::default();
        let rows = timed(input, places, &mut counts.dropped);
        let (mut runs, rows) = row_runs(rows, self.gap, &mut keys);
        let mut parts = self.touched(tx, &runs, &keys)?;
        parts.extend(
            runs.iter()
                .enumerate()
                .map(|(n, run)| (run.key, run.first, run.last, SessionPart::Rows(n))),
        );
        parts.sort_by_key(|(key, first, ..)| (*key, *first));
        let mut session: Vec<PlacedPart> = Vec::new();
        let mut end = (0, i64::MIN);
        for part in parts {
            let (key, first, last) = (part.0, part.1, part.2);
            if session.is_empty() || key != end.0 || first > end.1 {
                let session = std::mem::take(&mut session);
                self.add(session, &mut runs, &keys, groups, counts);
                end = (key, i64::MIN);
            }
            end.1 = end.1.max(self.end(last));
            session.push(part);
        }
        self.add(session, &mut runs, &keys, groups, counts);
        let assigned = rows.into_iter().filter_map(|(place, run)| {
            let group = runs[run].group?;
            Some(Assigned { group, place })
        });
        Ok(assigned.collect())
    }

    fn was_over(&self, key: &[u8], start: i64, tx: &mut Transaction) -> Result<bool> {
        let is_closed_with_it = self.emit == Emit::Close;
        if is_closed_with_it && !self.clock.was_closed(self.after(start)) {
            return Ok(false);
        }
        // The last row may be much later than the first one.
        let (mut is_needed, start) = (false, Timestamp(start));
        self.store
            .find_batch(tx, &[key], &[start], &[start], &mut |_, session, _| {
                let is_closed =
                    is_closed_with_it && self.clock.was_closed(self.after(session.end.0));
                is_needed |= session.start == start && !is_closed;
            })?;
        Ok(!is_needed)
    }

    fn sweep(&self, tx: &mut Transaction) -> Result<()> {
        let is_closed = |last| self.clock.was_closed(self.after(last));
        session_store::sweep(&self.store, tx, self.clock.swept_from(), is_closed)
    }

    fn expire(
        &self,
        time: Option<i64>,
        touched: &Groups,
        tx: &mut Transaction,
        f: &mut OfGroups<'_>,
    ) -> Result<()> {
        let Some(lasts) = self.clock.expiring_groups(self.store_time(time)) else {
            return Ok(());
        };
        session_store::in_batches(&self.store, tx, lasts, touched, f)
    }

    fn add_stored(&mut self, _: bool, tx: &mut Transaction, groups: &mut Groups) -> Result<()> {
        let Some((from, to)) = self.clock.closing_groups() else {
            return Ok(());
        };
        let last = |after: i64| after.saturating_sub(self.gap).saturating_sub(1);
        let (from, to) = (last(from), last(to));
        let mut scan = self
            .store
            .find_sessions(tx, session_store::ending_from(from))?;
        scan.for_each(&mut |session, state| {
            let (first, last, known) = (session.start.0, session.end.0, groups.count());
            if last > to {
                return false;
            }
            let group = groups.enter(session.key, first) as usize;
            // A session that rows have touched is in `groups` already.
            if group == known {
                self.lasts.push(last);
                self.stored.insert(group, (last, state.to_vec()));
                self.closing.push(group);
            }
            true
        })?;
        Ok(())
    }

    fn read(&mut self, _: &mut Transaction, groups: &Groups) -> Result<Vec<Option<Vec<u8>>>> {
        Ok((0..groups.count())
            .map(|group| self.stored.get(&group).map(|(_, state)| state.clone()))
            .collect())
    }

    fn merges(&self) -> &[GroupMerge] {
        &self.merges
    }

    fn write(
        &self,
        tx: &mut Transaction,
        groups: &Groups,
        touched: &[usize],
        state: &EncodedRows,
    ) -> Result<()> {
        let session = |group: usize, last: i64| WindowedKey {
            key: groups.key(group),
            start: Timestamp(groups.start(group)),
            end: Timestamp(last),
        };
        let merged = self.merges.iter().flat_map(|merge| {
            merge
                .parts
                .iter()
                .copied()
                .filter(|group| *group != merge.into)
        });
        let grown = touched.iter().copied().filter(|group| {
            self.stored
                .get(group)
                .is_some_and(|(last, _)| *last != self.lasts[*group])
        });
        // Deletes come first: a put may raise the store's stream time beyond them.
        let mut puts: Vec<(WindowedKey<'_>, Option<&[u8]>)> = merged
            .chain(grown)
            .filter_map(|group| Some((session(group, self.stored.get(&group)?.0), None)))
            .collect();
        let replaced = self.replaced.iter();
        puts.extend(replaced.map(|(group, last)| (session(*group, *last), None)));
        let is_finished = |group: usize| {
            self.emit == Emit::Close && self.clock.is_finished(self.after(self.lasts[group]))
        };
        // Sessions that have grown are deleted above.
        let over = self
            .stored
            .iter()
            .filter(|(group, (last, _))| *last == self.lasts[**group] && is_finished(**group));
        puts.extend(over.map(|(group, (last, _))| (session(*group, *last), None)));
        // For sessions that expire in this epoch, the order of the puts would decide whether the
        // store accepts them.
        let before = self.store.stream_time(tx).map(|time| time.0);
        let oldest = self
            .store_time(before)
            .map_or(i64::MIN, |time| self.clock.retained_at(time));
        let open = touched
            .iter()
            .copied()
            .filter(|group| self.lasts[*group] >= oldest && !is_finished(*group));
        puts.extend(open.map(|group| (session(group, self.lasts[group]), Some(state.get(group)))));
        self.store.put_batch(tx, &puts)
    }

    fn results(&self, groups: &Groups, touched: &[usize]) -> ResultRows {
        let mut results = ResultRows::default();
        let is_out = |group: &usize| {
            self.emit == Emit::Update || self.clock.is_closed(self.after(self.lasts[*group]))
        };
        let closing = self.closing.iter().filter(|_| self.emit == Emit::Close);
        for group in touched.iter().chain(closing).copied().filter(is_out) {
            results.push(groups.start(group), self.end(self.lasts[group]), group);
        }
        results
    }

    fn finished(&self, groups: &Groups, retained: i64) -> Vec<usize> {
        let is_over = |group: &usize| {
            let last = self.lasts[*group];
            self.clock.is_over((self.after(last), last), retained)
        };
        (0..groups.count()).filter(is_over).collect()
    }

    fn replacing(&self) -> Vec<usize> {
        self.replaced.keys().copied().collect()
    }
}
