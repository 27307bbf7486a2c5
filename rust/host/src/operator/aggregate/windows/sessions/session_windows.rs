//! Windows separated by pauses. In a session, each row of a key is at most the gap later than the
//! row before it.
//!
//! A session is stored under the times of its first and its last row. It ends one gap after the
//! last row; as in Spark, a row at this very moment is in the session. All rows of an epoch and all
//! open sessions that they touch are merged at once. If a session consists of new rows only and its
//! end was closed before the epoch, all its rows are late. A closed session is never opened again.
//! New rows may begin at the same time as a closed session and end late enough to be a new, open
//! session. This session then replaces the closed one.

use holdfast_core::{Result, SessionStore, Timestamp, Transaction, WindowedKey};

use super::row_runs::{RowRun, RowRuns};
use super::session_parts::{PartSource, SessionPart, TouchedSessions, count_joined, in_order};
use super::session_store;
use crate::codec::row::EncodedRows;
use crate::operator::aggregate::groups::{Assigned, GroupMerge, Groups};
use crate::operator::aggregate::window_spec::Emit;
use crate::operator::aggregate::windows::clock::WindowClock;
use crate::operator::aggregate::windows::results::ResultRows;
use crate::operator::aggregate::windows::window_store::timed;
use crate::operator::aggregate::windows::windowing::{OfGroups, Windows};
use crate::operator::input::{InputRows, RowPlace};
use crate::protocol::Counts;

/// The sessions of one epoch, each a group under its start.
pub struct SessionWindows {
    store: SessionStore,
    gap: i64,
    clock: WindowClock,
    emit: Emit,
    /// The rows.
    runs: RowRuns,
    /// By group.
    sessions: Vec<SessionGroup>,
    merges: Vec<GroupMerge>,
    /// Stored groups that no row touches and that this epoch closes.
    closing: Vec<usize>,
    /// The new groups that replace a closed session, with the time of its last row.
    replaced: Vec<(usize, i64)>,
}

/// A group: a session.
struct SessionGroup {
    /// The last row's time.
    last: i64,
    /// As it is in the store; none for a new group.
    stored: Option<StoredSession>,
}

/// A session in the store.
struct StoredSession {
    /// The last row's time.
    last: i64,
    /// The group's state, until it is read.
    state: Vec<u8>,
}

impl SessionGroup {
    /// The time of the last row of the stored session.
    fn stored_last(&self) -> Option<i64> {
        self.stored.as_ref().map(|stored| stored.last)
    }
}

impl SessionWindows {
    /// Sessions whose states are in this store.
    pub fn new(store: SessionStore, gap: i64, clock: WindowClock, emit: Emit) -> Self {
        Self {
            store,
            gap,
            clock,
            emit,
            runs: RowRuns::default(),
            sessions: Vec::new(),
            merges: Vec::new(),
            closing: Vec::new(),
            replaced: Vec::new(),
        }
    }

    /// A session's end: the last moment at which a row is in it.
    fn end(&self, last: i64) -> i64 {
        last.saturating_add(self.gap)
    }

    /// The time of the last row of a group.
    fn last(&self, group: usize) -> i64 {
        self.sessions[group].last
    }

    /// The first moment after a session.
    fn after(&self, last: i64) -> i64 {
        self.end(last).saturating_add(1)
    }

    /// Finds the stored sessions that row runs touch, and adds the open ones to `parts`. A session
    /// that several runs touch is added for each of them.
    ///
    /// No stored session ends after the store's stream time. Runs that begin more than a gap later
    /// touch none and are not looked up.
    fn touched(
        &self,
        tx: &mut Transaction,
        runs: &[RowRun],
        groups: &Groups,
        parts: &mut Vec<SessionPart>,
    ) -> Result<TouchedSessions> {
        let newest = self.store.stream_time(tx);
        let end = |run: &RowRun| Timestamp(run.first.saturating_sub(self.gap));
        let runs: Vec<&RowRun> = runs.iter().filter(|run| Some(end(run)) <= newest).collect();
        let names: Vec<&[u8]> = runs.iter().map(|run| groups.key_bytes(run.key)).collect();
        let ends: Vec<Timestamp> = runs.iter().map(|run| end(run)).collect();
        let start = |run: &&RowRun| Timestamp(self.end(run.last));
        let starts: Vec<Timestamp> = runs.iter().map(start).collect();
        let mut touched = TouchedSessions::default();
        self.store
            .find_batch(tx, &names, &ends, &starts, &mut |n, session, state| {
                let (key, first, last) = (runs[n].key, session.start.0, session.end.0);
                if self.clock.was_closed(self.after(last)) {
                    // An earlier one may be in this copy of the state only. Its items are deleted
                    // already, and the items under its start are those of a new session.
                    if last >= self.clock.swept_from() {
                        touched.closed.push((key, first, last));
                    }
                } else {
                    let source = PartSource::Stored(touched.states.len() as u32);
                    touched.states.push(state.to_vec());
                    parts.push(SessionPart {
                        key,
                        first,
                        last,
                        source,
                    });
                }
            })?;
        touched.closed.sort_unstable();
        Ok(touched)
    }

    /// Adds the session that consists of these parts. The runs of a late one get no group.
    fn add(
        &mut self,
        parts: &[SessionPart],
        touched: &mut TouchedSessions,
        runs: &mut [RowRun],
        groups: &mut Groups,
    ) {
        let (Some(&SessionPart { key, first, .. }), Some(last)) =
            (parts.first(), parts.iter().map(|part| part.last).max())
        else {
            return;
        };
        let is_new = !parts.iter().any(SessionPart::is_stored);
        if is_new && self.clock.was_closed(self.after(last)) {
            return;
        }
        let group = self.group(groups, (key, first), last);
        // Items are stored by key and start, so those of the closed session must be deleted.
        if let Some(closed) = touched.closed_at(key, first) {
            self.replaced.push((group as usize, closed));
        }
        for part in parts {
            match part.source {
                PartSource::Rows(run) => runs[run as usize].group = Some(group),
                PartSource::Stored(number) => {
                    let stored = if part.first == first {
                        group
                    } else {
                        self.group(groups, (key, part.first), part.last)
                    };
                    self.sessions[stored as usize].stored = Some(StoredSession {
                        last: part.last,
                        state: std::mem::take(&mut touched.states[number as usize]),
                    });
                }
            }
        }
        let stored = || parts.iter().filter(|part| part.is_stored());
        if stored().any(|part| part.first != first) {
            let of_part = |part: &SessionPart| groups.enter_start(key, part.first) as usize;
            self.merges.push(GroupMerge {
                into: group as usize,
                parts: stored().map(of_part).collect(),
            });
        }
    }

    /// The stream time of the store after the epoch, if it is `before` now. A heartbeat does not
    /// raise it.
    fn store_time(&self, before: Option<i64>) -> Option<i64> {
        before.max(self.sessions.iter().map(|session| session.last).max())
    }

    /// Returns the group of the session with this key number and first time, and sets its last
    /// time.
    fn group(&mut self, groups: &mut Groups, (key, first): (u32, i64), last: i64) -> u32 {
        let group = groups.enter_start(key, first);
        let new = || SessionGroup { last, stored: None };
        self.sessions.resize_with(groups.count(), new);
        self.sessions[group as usize].last = last;
        group
    }
}

impl Windows for SessionWindows {
    fn assign(
        &mut self,
        input: &InputRows,
        places: &[RowPlace],
        groups: &mut Groups,
        counts: &mut Counts,
    ) -> Vec<Assigned> {
        let rows = timed(input, places, &mut counts.dropped);
        self.runs.add(rows, self.gap, groups)
    }

    fn end_pass(&mut self, tx: &mut Transaction, groups: &mut Groups) -> Result<()> {
        let mut runs = std::mem::take(&mut self.runs.runs);
        let mut parts: Vec<SessionPart> = (0..)
            .zip(&runs)
            .map(|(number, run)| SessionPart {
                key: run.key,
                first: run.first,
                last: run.last,
                source: PartSource::Rows(number),
            })
            .collect();
        let mut touched = self.touched(tx, &runs, groups, &mut parts)?;
        let parts = in_order(parts);
        let mut rest = &parts[..];
        while !rest.is_empty() {
            let session;
            (session, rest) = rest.split_at(count_joined(rest, self.gap));
            self.add(session, &mut touched, &mut runs, groups);
        }
        self.runs.runs = runs;
        self.runs.restart();
        Ok(())
    }

    fn settle(&self, assigned: &mut Vec<Assigned>, counts: &mut Counts) {
        counts.late += self.runs.settle(assigned);
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
                let state = state.to_vec();
                self.sessions.push(SessionGroup {
                    last,
                    stored: Some(StoredSession { last, state }),
                });
                self.closing.push(group);
            }
            true
        })?;
        Ok(())
    }

    fn read(&mut self, _: &mut Transaction, _: &Groups) -> Result<Vec<Option<Vec<u8>>>> {
        let stored = self.sessions.iter_mut().map(|group| group.stored.as_mut());
        Ok(stored
            .map(|stored| stored.map(|stored| std::mem::take(&mut stored.state)))
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
        let grown = touched
            .iter()
            .copied()
            .filter(|group| self.sessions[*group].stored_last() != Some(self.last(*group)));
        // Deletes come first: a put may raise the store's stream time beyond them.
        let mut puts: Vec<(WindowedKey<'_>, Option<&[u8]>)> = merged
            .chain(grown)
            .filter_map(|group| Some((session(group, self.sessions[group].stored_last()?), None)))
            .collect();
        let replaced = self.replaced.iter();
        puts.extend(replaced.map(|(group, last)| (session(*group, *last), None)));
        let is_finished = |group: usize| {
            self.emit == Emit::Close && self.clock.is_finished(self.after(self.last(group)))
        };
        // Sessions that have grown are deleted above.
        let over = (0..self.sessions.len()).filter(|group| {
            self.sessions[*group].stored_last() == Some(self.last(*group)) && is_finished(*group)
        });
        puts.extend(over.map(|group| (session(group, self.last(group)), None)));
        // For sessions that expire in this epoch, the order of the puts would decide whether the
        // store accepts them.
        let before = self.store.stream_time(tx).map(|time| time.0);
        let oldest = self
            .store_time(before)
            .map_or(i64::MIN, |time| self.clock.retained_at(time));
        let open = touched
            .iter()
            .copied()
            .filter(|group| self.last(*group) >= oldest && !is_finished(*group));
        puts.extend(open.map(|group| (session(group, self.last(group)), Some(state.get(group)))));
        self.store.put_batch(tx, &puts)
    }

    fn results(&self, groups: &Groups, touched: &[usize]) -> ResultRows {
        let mut results = ResultRows::default();
        let is_out = |group: &usize| {
            self.emit == Emit::Update || self.clock.is_closed(self.after(self.last(*group)))
        };
        let closing = self.closing.iter().filter(|_| self.emit == Emit::Close);
        for group in touched.iter().chain(closing).copied().filter(is_out) {
            results.push(groups.start(group), self.end(self.last(group)), group);
        }
        results
    }

    fn finished(&self, groups: &Groups, retained: i64) -> Vec<usize> {
        let is_over = |group: &usize| {
            let last = self.last(*group);
            self.clock.is_over((self.after(last), last), retained)
        };
        (0..groups.count()).filter(is_over).collect()
    }

    fn replacing(&self) -> Vec<usize> {
        self.replaced.iter().map(|(group, _)| *group).collect()
    }
}
