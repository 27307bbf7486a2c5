//! Windows between pauses: rows of a key of which each is no more than the gap behind the one
//! before it.
//!
//! A session is kept under the times of its first and its last row, and ends the gap behind the
//! last one; as in Spark a row at this very moment is still of it. All rows of an epoch and all
//! open sessions that they touch are put together at once; what they come to is late as a whole if
//! its end was closed before the epoch. A closed session is never opened again.

use std::collections::HashMap;

use holdfast_core::{Result, SessionQuery, SessionStore, Timestamp, Transaction, WindowedKey};

use super::{Answers, Clock, Windows, timed};
use crate::codec::row::EncodedRows;
use crate::operator::Counts;
use crate::operator::aggregate::accumulator::{Assigned, Merge};
use crate::operator::aggregate::groups::Groups;
use crate::operator::aggregate::spec::Emit;
use crate::operator::batch::BATCH_ROWS;
use crate::operator::rows::{Place, Rows};

/// The sessions of one epoch: a group each, named by its start.
pub struct Sessions {
    store: SessionStore,
    gap: i64,
    clock: Clock,
    emit: Emit,
    /// The last row's time, by group.
    lasts: Vec<i64>,
    /// What is stored of groups: the last row's time there, and the state.
    stored: HashMap<usize, (i64, Vec<u8>)>,
    merges: Vec<Merge>,
    /// Stored groups that no row touches and that close now.
    closing: Vec<usize>,
}

/// Rows of one key and one epoch that are of one session.
struct Run {
    key: u32,
    first: i64,
    last: i64,
    rows: u64,
    /// The session's group; none if it is late.
    group: Option<u32>,
}

/// A part of a session: a run of rows, or what is stored.
enum Part {
    Run(usize),
    Stored(Vec<u8>),
}

/// A part with its place: of one key by first and last time.
type Placed = (u32, i64, i64, Part);

impl Sessions {
    /// Sessions whose states are in a store.
    pub fn new(store: SessionStore, gap: i64, clock: Clock, emit: Emit) -> Self {
        Self {
            store,
            gap,
            clock,
            emit,
            lasts: Vec::new(),
            stored: HashMap::new(),
            merges: Vec::new(),
            closing: Vec::new(),
        }
    }

    /// A session's end: the last moment at which a row is of it.
    fn end(&self, last: i64) -> i64 {
        last.saturating_add(self.gap)
    }

    /// The first moment behind a session.
    fn behind(&self, last: i64) -> i64 {
        self.end(last).saturating_add(1)
    }

    /// The open sessions that runs touch, each once.
    fn touched(&self, tx: &mut Transaction, runs: &[Run], keys: &Groups) -> Result<Vec<Placed>> {
        let names: Vec<&[u8]> = runs.iter().map(|run| keys.key(run.key as usize)).collect();
        let ends: Vec<Timestamp> = runs
            .iter()
            .map(|run| Timestamp(run.first.saturating_sub(self.gap)))
            .collect();
        let starts: Vec<Timestamp> = runs
            .iter()
            .map(|run| Timestamp(self.end(run.last)))
            .collect();
        let mut found: Vec<Placed> = Vec::new();
        self.store
            .find_batch(tx, &names, &ends, &starts, &mut |n, session, state| {
                if !self.clock.was_closed(self.behind(session.end.0)) {
                    found.push((
                        runs[n].key,
                        session.start.0,
                        session.end.0,
                        Part::Stored(state.to_vec()),
                    ));
                }
            })?;
        found.sort_by_key(|(key, first, last, _)| (*key, *first, *last));
        found.dedup_by_key(|(key, first, last, _)| (*key, *first, *last));
        Ok(found)
    }

    /// Enters one session, made of all these parts.
    fn enter(
        &mut self,
        parts: Vec<Placed>,
        runs: &mut [Run],
        keys: &Groups,
        groups: &mut Groups,
        counts: &mut Counts,
    ) {
        let (Some((key, first, ..)), Some(last)) = (
            parts.first(),
            parts.iter().map(|(_, _, last, _)| *last).max(),
        ) else {
            return;
        };
        let is_new = parts.iter().all(|(.., part)| matches!(part, Part::Run(_)));
        let is_late = is_new && self.clock.was_closed(self.behind(last));
        let key = keys.key(*key as usize);
        let group = (!is_late).then(|| self.group(groups, key, *first, last));
        let mut merge = Merge {
            into: group.unwrap_or_default() as usize,
            parts: Vec::new(),
        };
        for (_, first, last, part) in parts {
            match part {
                Part::Run(run) => {
                    runs[run].group = group;
                    counts.late += if is_late { runs[run].rows } else { 0 };
                }
                Part::Stored(state) => {
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

    fn group(&mut self, groups: &mut Groups, key: &[u8], first: i64, last: i64) -> u32 {
        let group = groups.enter(key, first);
        self.lasts.resize(groups.count(), i64::MIN);
        self.lasts[group as usize] = last;
        group
    }
}

impl Windows for Sessions {
    fn assign(
        &mut self,
        input: &Rows,
        places: &[Place],
        tx: &mut Transaction,
        groups: &mut Groups,
        counts: &mut Counts,
    ) -> Result<Vec<Assigned>> {
        let (mut keys, mut runs) = (Groups::default(), Vec::<Run>::new());
        // By key: its last run so far. Rows come in the order of their times.
        let mut open: Vec<usize> = Vec::new();
        let mut rows: Vec<(Place, i64, usize)> = Vec::with_capacity(places.len());
        for (place, key, time) in timed(input, places, &mut counts.dropped) {
            let key = keys.enter(key, 0);
            let is_new_key = key as usize == open.len();
            let run = match open.get(key as usize) {
                Some(run) if time <= self.end(runs[*run].last) => *run,
                _ => {
                    runs.push(Run {
                        key,
                        first: time,
                        last: time,
                        rows: 0,
                        group: None,
                    });
                    runs.len() - 1
                }
            };
            runs[run].last = time;
            runs[run].rows += 1;
            if is_new_key {
                open.push(run)
            } else {
                open[key as usize] = run
            }
            rows.push((place, time, run));
        }
        let mut parts = self.touched(tx, &runs, &keys)?;
        parts.extend(
            runs.iter()
                .enumerate()
                .map(|(n, run)| (run.key, run.first, run.last, Part::Run(n))),
        );
        parts.sort_by_key(|(key, first, ..)| (*key, *first));
        let mut session: Vec<Placed> = Vec::new();
        let mut end = (0, i64::MIN);
        for part in parts {
            let (key, first, last) = (part.0, part.1, part.2);
            if session.is_empty() || key != end.0 || first > end.1 {
                self.enter(
                    std::mem::take(&mut session),
                    &mut runs,
                    &keys,
                    groups,
                    counts,
                );
                end = (key, i64::MIN);
            }
            end.1 = end.1.max(self.end(last));
            session.push(part);
        }
        self.enter(session, &mut runs, &keys, groups, counts);
        let assigned = rows.into_iter().filter_map(|(place, time, run)| {
            Some(Assigned {
                group: runs[run].group?,
                place,
                time,
            })
        });
        Ok(assigned.collect())
    }

    fn was_over(&self, key: &[u8], start: i64, tx: &mut Transaction) -> Result<bool> {
        if !self.clock.was_closed(self.behind(start)) {
            return Ok(false);
        }
        // Its last row may be much later than its first one.
        let (mut is_open, start) = (false, Timestamp(start));
        self.store
            .find_batch(tx, &[key], &[start], &[start], &mut |_, session, _| {
                is_open |=
                    session.start == start && !self.clock.was_closed(self.behind(session.end.0));
            })?;
        Ok(!is_open)
    }

    fn sweep(&self, tx: &mut Transaction) -> Result<()> {
        let all = SessionQuery {
            key_from: None,
            key_to: None,
            earliest_end: Timestamp::MIN,
            latest_start: Timestamp::MAX,
            reverse: false,
        };
        let mut scan = self.store.find_sessions(tx, all)?;
        let mut is_over = true;
        while is_over {
            let mut found: Vec<(Vec<u8>, Timestamp, Timestamp)> = Vec::new();
            // By their ends: what follows one that is open is open.
            let has_more = scan.for_each(&mut |session, _| {
                is_over = self.clock.was_closed(self.behind(session.end.0));
                if is_over {
                    found.push((session.key.to_vec(), session.start, session.end));
                }
                is_over && found.len() < BATCH_ROWS
            })?;
            is_over &= has_more;
            let deletes: Vec<_> = found
                .iter()
                .map(|(key, start, end)| {
                    (
                        WindowedKey {
                            key,
                            start: *start,
                            end: *end,
                        },
                        None,
                    )
                })
                .collect();
            self.store.put_batch(tx, &deletes)?;
        }
        Ok(())
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
        let last = |behind: i64| behind.saturating_sub(self.gap).saturating_sub(1);
        let (from, to) = (last(from), last(to));
        let all = SessionQuery {
            key_from: None,
            key_to: None,
            earliest_end: Timestamp(from),
            latest_start: Timestamp::MAX,
            reverse: false,
        };
        let mut scan = self.store.find_sessions(tx, all)?;
        scan.for_each(&mut |session, state| {
            let (first, last, known) = (session.start.0, session.end.0, groups.count());
            if last > to {
                return false;
            }
            let group = groups.enter(session.key, first) as usize;
            // One that rows have touched is part of another session, or has gone on.
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

    fn merges(&self) -> &[Merge] {
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
        // Deletes first, since a put may bring the store's time past what it deletes.
        let mut puts: Vec<(WindowedKey<'_>, Option<&[u8]>)> = merged
            .chain(grown)
            .filter_map(|group| Some((session(group, self.stored.get(&group)?.0), None)))
            .collect();
        let is_over = |group: usize| {
            self.emit == Emit::Close && self.clock.is_gone(self.behind(self.lasts[group]))
        };
        // One that has grown is deleted above.
        let over = self
            .stored
            .iter()
            .filter(|(group, (last, _))| *last == self.lasts[**group] && is_over(**group));
        puts.extend(over.map(|(group, (last, _))| (session(*group, *last), None)));
        let oldest = self.clock.now().map_or(i64::MIN, |now| {
            now.saturating_sub(self.store.retention() - 1)
        });
        let kept = touched
            .iter()
            .copied()
            .filter(|group| self.lasts[*group] >= oldest && !is_over(*group));
        puts.extend(kept.map(|group| (session(group, self.lasts[group]), Some(state.get(group)))));
        self.store.put_batch(tx, &puts)
    }

    fn answers(&self, groups: &Groups, touched: &[usize]) -> Answers {
        let mut answers = Answers::default();
        let is_out = |group: &usize| {
            self.emit == Emit::Update || self.clock.is_closed(self.behind(self.lasts[*group]))
        };
        let closing = self.closing.iter().filter(|_| self.emit == Emit::Close);
        for group in touched.iter().chain(closing).copied().filter(is_out) {
            answers.push(groups.start(group), self.end(self.lasts[group]), group);
        }
        answers
    }

    fn gone(&self, groups: &Groups) -> Vec<usize> {
        (0..groups.count())
            .filter(|group| self.clock.is_gone(self.behind(self.lasts[*group])))
            .collect()
    }
}
