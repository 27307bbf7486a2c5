//! Raises the horizons before which history may be dropped.
//!
//! A horizon never passes the history that a view in use needs. It also never passes the history of
//! an older state that an open may find after a crash. A crash empties a store in memory, so only
//! views limit its horizon.

use super::views::Views;
use crate::database::database::Database;
use crate::database::options::Durability;
use crate::database::stores::StoreExpiry;
use crate::database::transactions::committed::Committed;
use crate::error::Result;
use crate::failpoint::Failpoint;
use crate::store::windowed::ordered;
use crate::transaction::{Place, StoreState};
use std::sync::Arc;

/// A flush is requested when stream time has entered another segment, if more than this many bytes
/// were committed since the last flush.
const FLUSH_BYTES: u64 = 8 << 20;

impl Database {
    /// Records a commit and raises the stores' horizons as far as views and crash safety allow.
    ///
    /// The commit is already done: an error only delays expiry and the flush.
    pub(in crate::database) fn advance_horizons(
        &self,
        committed: &Committed,
        bytes: usize,
    ) -> Result<()> {
        Failpoint::BeforeExpiry.pass()?;
        let mut views = self.views.lock();
        views.alive.retain(|(base, _)| base.strong_count() > 0);
        let base = Arc::downgrade(&committed.base);
        views.alive.push((base, committed.states.clone()));
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
                && self.has_passed_segment(&views.durable, &committed.states)
            {
                views.flushing = Some((self.rocks.last_write(), committed.states.clone()));
                views.bytes_since_flush = 0;
                self.rocks.flush(false)?;
            }
        }
        self.raise_horizons(&views);
        Ok(())
    }

    fn has_passed_segment(&self, durable: &[StoreState], now: &[StoreState]) -> bool {
        let mut in_files = self
            .stores
            .entries
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

    pub(in crate::database) fn raise_horizons(&self, views: &Views) {
        for (n, entry) in self.stores.entries.iter().enumerate() {
            let Some(StoreExpiry {
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
                self.reclaimer.wake();
                entry
                    .counts
                    .expired_segments
                    .add(segments_between(before, now, unit));
                if let Some(Place::Files(family)) = by_time.map(|table| table.place)
                    && let Err(error) = self.rocks.drop_files_below(family, &ordered(now))
                {
                    // Only space is lost, and a later commit tries again. The commit itself is
                    // written and must not fail.
                    log::warn!("store {}: {error}", entry.spec.name);
                }
            }
        }
    }

    /// Writes the memtables of all stores to files, at one commit; with `wait` they are in files on
    /// return.
    pub fn flush(&self, wait: bool) -> Result<()> {
        self.rocks.check_owner()?;
        let states = self.last_commit().states;
        self.rocks.flush(wait)?;
        let mut views = self.views.lock();
        if wait {
            views.flushed(states);
            self.raise_horizons(&views);
        }
        Ok(())
    }
}

/// The number of segments between two horizons; 0 if there was no horizon before.
fn segments_between(before: i64, now: i64, unit: i64) -> u64 {
    if before == i64::MIN {
        0
    } else {
        now.div_euclid(unit).abs_diff(before.div_euclid(unit))
    }
}
