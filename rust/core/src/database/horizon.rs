//! How far back history must be kept: for every view that is alive, and for every state that a
//! crash can fall back to. A crash forgets a store in memory whole, so only views hold that one's
//! back.

use super::store::Expiry;
use super::{Committed, Database, Durability};
use crate::error::Result;
use crate::failpoint::Failpoint;
use crate::store::windowed::ordered;
use crate::transaction::{Base, Place, StoreState};
use std::sync::Weak;

/// A flush is asked for when a segment's worth of time has passed, but not for less than this many
/// bytes.
const FLUSH_BYTES: u64 = 8 << 20;

/// Commits that somebody still reads, and stream times that are safe from a crash.
#[derive(Default)]
pub(super) struct Views {
    alive: Vec<(Weak<Base>, Vec<StoreState>)>,
    durable: Vec<StoreState>,
    /// The commit that a flush was asked for at, by its number, and the states then.
    flushing: Option<(u64, Vec<StoreState>)>,
    bytes_since_flush: u64,
}

impl Views {
    /// The commit found at open is read by every view that begins before the next one.
    pub(super) fn new(found: &Committed) -> Self {
        let alive = vec![(std::sync::Arc::downgrade(&found.base), found.states.clone())];
        Self {
            alive,
            durable: found.states.clone(),
            ..Self::default()
        }
    }

    pub(super) fn flushed(&mut self, states: Vec<StoreState>) {
        self.durable = states;
        self.flushing = None;
        self.bytes_since_flush = 0;
    }
}

impl Database {
    /// Notes a commit and raises the stores' horizons as far as they may go.
    ///
    /// An error here says nothing of the commit, which is done: expiry and the flush come later.
    pub(super) fn advance_horizons(&self, committed: &Committed, bytes: usize) -> Result<()> {
        Failpoint::BeforeExpiry.reached()?;
        let mut views = self.views.lock();
        views.alive.retain(|(base, _)| base.strong_count() > 0);
        views.alive.push((
            std::sync::Arc::downgrade(&committed.base),
            committed.states.clone(),
        ));
        views.bytes_since_flush += bytes as u64;
        if self.options.durability == Durability::Sync {
            views.durable.clone_from(&committed.states);
        } else {
            if let Some((number, _)) = &views.flushing
                && self.rocks.flushed_commit()? >= *number
                && let Some((_, states)) = views.flushing.take()
            {
                views.durable = states;
            }
            let idle = views.flushing.is_none();
            if idle
                && views.bytes_since_flush > FLUSH_BYTES
                && self.a_segment_has_passed(&views.durable, &committed.states)
            {
                views.flushing = Some((self.rocks.last_write(), committed.states.clone()));
                views.bytes_since_flush = 0;
                self.rocks.flush(false)?;
            }
        }
        self.raise_horizons(&views);
        Ok(())
    }

    fn a_segment_has_passed(&self, durable: &[StoreState], now: &[StoreState]) -> bool {
        let mut in_files = self
            .stores
            .iter()
            .zip(durable.iter().zip(now))
            .filter(|(entry, _)| entry.spec.persistent);
        in_files.any(|(entry, (durable, now))| {
            entry.store.expiry().is_some_and(|expiry| {
                match (durable.stream_time, now.stream_time) {
                    (Some(then), Some(now)) => expiry.segment(then) != expiry.segment(now),
                    (then, now) => then != now,
                }
            })
        })
    }

    pub(super) fn raise_horizons(&self, views: &Views) {
        for (n, entry) in self.stores.iter().enumerate() {
            let Some(Expiry {
                horizon,
                keep,
                unit,
                by_time,
            }) = entry.store.expiry()
            else {
                continue;
            };
            let alive = views
                .alive
                .iter()
                .filter(|(base, _)| base.strong_count() > 0)
                .map(|(_, states)| states);
            let durable = entry.spec.persistent.then_some(&views.durable);
            let oldest = alive
                .chain(durable)
                .map(|states| states[n].stream_time)
                .min()
                .flatten();
            if let Some(time) = oldest {
                let before = horizon.get();
                horizon.raise(time.saturating_sub(keep));
                let now = horizon.get();
                if before.div_euclid(unit) == now.div_euclid(unit) {
                    continue;
                }
                self.reclaimer.ring();
                entry
                    .counts
                    .expired_segments
                    .add(segments_between(before, now, unit));
                if let Some(Place::Files(family)) = by_time.map(|table| table.place)
                    && let Err(error) = self.rocks.drop_files_below(family, &ordered(now))
                {
                    // It is only space, and the next time may do better: no reason to fail a commit
                    // that was written.
                    log::warn!("store {}: {error}", entry.spec.name);
                }
            }
        }
    }

    /// Writes the memtables of all stores to files, at one commit; with `wait` they are there on
    /// return.
    pub fn flush(&self, wait: bool) -> Result<()> {
        let states = self.committed.read().states.clone();
        self.rocks.check_owner()?;
        self.rocks.flush(wait)?;
        let mut views = self.views.lock();
        if wait {
            views.flushed(states);
            self.raise_horizons(&views);
        }
        Ok(())
    }
}

/// How many segments lie between two horizons; the first one that there is has none behind it.
fn segments_between(before: i64, now: i64, unit: i64) -> u64 {
    if before == i64::MIN {
        0
    } else {
        now.div_euclid(unit).abs_diff(before.div_euclid(unit))
    }
}
