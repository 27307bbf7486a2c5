//! Frees the space of expired rows: a thread rewrites the files that hold them, segment by segment,
//! in the background.
//!
//! Compactions drop expired rows too, but they rewrite a file when its neighbours grow, not when
//! its rows expire (`docs/design/expiry.md`).
//!
//! The thread does not log. A logger may wait for a lock (Python's logger waits for the GIL), and
//! the holder of that lock may wait for this thread to end. The next commit or close logs its
//! messages.

use crate::database::stores::{StoreEntry, StoreExpiry};
use crate::error::{Error, ErrorKind, Result};
use crate::expiry::Horizon;
use crate::rocks::{Family, Rewritten, RocksDb};
use crate::transaction::Place;
use log::Level;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A table's files are rewritten when one in this many of its rows has ended.
const ROWS_PER_ENDED: u64 = 64;

/// The delay before another attempt if a compaction is rewriting the files. That compaction may
/// have begun before their rows ended, and then retains them.
const RETRY: Duration = Duration::from_secs(1);

/// The maximum number of messages that wait for a commit or a close.
const MESSAGES: usize = 64;

/// The thread and its signal.
pub(in crate::database) struct Reclaimer {
    signal: Arc<Signal>,
    thread: Mutex<Option<JoinHandle<()>>>,
    rocks: Arc<RocksDb>,
}

#[derive(Default)]
struct Signal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Default)]
struct SignalState {
    due: bool,
    stopped: bool,
    /// Messages of the thread that are not yet logged.
    messages: VecDeque<(Level, String)>,
}

/// The size of the thread's stack. It is small because of forked children: in a child, the C
/// library keeps at most 40 MiB of the stacks of the parent's threads, and frees the others. A
/// normal exit of the child joins RocksDB's threads, and crashes if the stack of one was freed. A
/// rewrite runs on this stack and needs little.
const STACK_BYTES: usize = 256 << 10;

/// A table whose rows expire.
struct ExpiringTable {
    store: String,
    family: Family,
    horizon: Horizon,
    /// Microseconds of a segment.
    segment: i64,
    /// The segment in which the next rewrite is due; `None` until the horizon is known.
    next: Option<i64>,
    /// The most segments between two rewrites. A rewrite does not find all ends: newer rows that
    /// end older ones may be in other files.
    longest: i64,
}

impl Reclaimer {
    /// Starts the thread if a store has files whose rows expire.
    pub(in crate::database) fn new(rocks: &Arc<RocksDb>, stores: &[StoreEntry]) -> Result<Self> {
        let tables: Vec<ExpiringTable> = stores.iter().filter_map(ExpiringTable::of).collect();
        let signal = Arc::new(Signal::default());
        let mut thread = None;
        if !tables.is_empty() {
            let (signal, rocks) = (Arc::clone(&signal), Arc::clone(rocks));
            let run = move || rewrite_when_woken(&signal, &rocks, tables);
            thread = Some(
                std::thread::Builder::new()
                    .name("holdfast-expiry".to_owned())
                    .stack_size(STACK_BYTES)
                    .spawn(run)
                    .map_err(|e| {
                        Error::new(
                            ErrorKind::Io,
                            format!(
                                "no thread can be started for expiry: {e}; raise the limit of \
                                 threads or processes"
                            ),
                        )
                    })?,
            );
        }
        Ok(Self {
            signal,
            thread: Mutex::new(thread),
            rocks: Arc::clone(rocks),
        })
    }

    /// Wakes the thread after a horizon has entered another segment.
    pub(super) fn wake(&self) {
        self.signal.wake();
    }

    /// Stops the thread, even during a rewrite, and all compactions. Does nothing if there is no
    /// thread.
    pub(in crate::database) fn stop(&self) {
        // A forked child has no such thread, and another thread may have held the locks at the
        // fork.
        if !self.rocks.in_owner_process() {
            return;
        }
        let Some(thread) = self.thread.lock().take() else {
            return;
        };
        self.signal.state.lock().stopped = true;
        self.signal.changed.notify_one();
        self.rocks.stop_background_work();
        if thread.join().is_err() {
            let words = format!(
                "{}: the thread that frees expired space had panicked",
                self.rocks.path().display()
            );
            self.signal.report(Level::Warn, words);
        }
    }

    /// Logs the thread's messages; the caller holds no lock.
    pub(in crate::database) fn log(&self) {
        let messages = std::mem::take(&mut self.signal.state.lock().messages);
        for (level, words) in messages {
            log::log!(level, "{words}");
        }
    }
}

impl Drop for Reclaimer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Signal {
    fn wake(&self) {
        self.state.lock().due = true;
        self.changed.notify_one();
    }

    /// Waits until the thread is woken; returns false if it is stopped.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.due && !state.stopped {
            self.changed.wait(&mut state);
        }
        state.due = false;
        !state.stopped
    }

    /// Stores a message until it is logged. A database that neither commits nor closes logs none,
    /// so only the last [`MESSAGES`] are stored.
    fn report(&self, level: Level, words: String) {
        let mut state = self.state.lock();
        if state.messages.len() == MESSAGES {
            state.messages.pop_front();
        }
        state.messages.push_back((level, words));
    }

    /// Does work, then rests for as long as it took: the thread uses at most half of a processor
    /// and of the disk's time.
    fn work_and_rest<R>(&self, work: impl FnOnce() -> R) -> R {
        let began = Instant::now();
        let done = work();
        self.rest(began.elapsed());
        done
    }

    /// Sleeps for a time, so that other threads can use the processor and the disk; returns early
    /// if the thread is stopped.
    fn rest(&self, time: Duration) {
        let end = Instant::now() + time;
        let mut state = self.state.lock();
        while !state.stopped && !self.changed.wait_until(&mut state, end).timed_out() {}
    }
}

fn rewrite_when_woken(signal: &Signal, rocks: &RocksDb, mut tables: Vec<ExpiringTable>) {
    while signal.wait() {
        let mut skipped = false;
        for table in &mut tables {
            match table.rewrite(rocks, signal) {
                Err(error) if error.kind() == ErrorKind::StoreClosed => return,
                // Only space is lost, and the next segment tries again.
                Err(error) => signal.report(Level::Warn, format!("store {}: {error}", table.store)),
                Ok(rewritten) => skipped |= !rewritten,
            }
        }
        if skipped {
            signal.rest(RETRY);
            signal.wake();
        }
    }
}

impl ExpiringTable {
    fn of(entry: &StoreEntry) -> Option<Self> {
        let StoreExpiry {
            horizon,
            unit,
            keep,
            ..
        } = entry.store.expiry()?;
        // The first table holds the rows. A second one is small, or its files are dropped whole.
        let Place::Files(family) = entry.store.tables().first()?.place else {
            return None;
        };
        let longest = (keep / 2 / unit).max(1);
        Some(Self {
            store: entry.spec.name.clone(),
            family,
            horizon: horizon.clone(),
            segment: unit,
            next: None,
            longest,
        })
    }

    /// Rewrites the table's files if enough of their rows have ended. Returns false if compactions
    /// were rewriting all of them.
    fn rewrite(&mut self, rocks: &RocksDb, signal: &Signal) -> Result<bool> {
        let segment = self.horizon.get().div_euclid(self.segment);
        // Files that were found at open may be old or new, so the first rewrite waits for one
        // segment.
        if segment < *self.next.get_or_insert(segment.saturating_add(1)) {
            return Ok(true);
        }
        self.horizon.ask_ends(self.segment);
        let (mut all, mut skipped) = (Rewritten::default(), false);
        for files in rocks.file_sets(self.family)? {
            match signal.work_and_rest(|| rocks.rewrite(self.family, &files))? {
                Some(done) => {
                    all.read += done.read;
                    all.written += done.written;
                }
                None => skipped = true,
            }
        }
        let enough = self
            .horizon
            .take_ends()
            .and_then(|ends| ends.ended((all.written / ROWS_PER_ENDED).max(1)));
        if skipped && all == Rewritten::default() {
            return Ok(false);
        }
        let next = if skipped {
            segment
        } else {
            enough
                .unwrap_or(i64::MAX)
                .min(segment.saturating_add(self.longest))
        };
        let next = next.max(segment.saturating_add(1));
        signal.report(
            Level::Debug,
            format!(
                "store {}: {all:?} in segment {segment}, again in {next}",
                self.store
            ),
        );
        self.next = Some(next);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_rests_as_long_as_it_works() {
        let signal = Signal::default();
        let began = Instant::now();
        let work = signal.work_and_rest(|| {
            std::thread::sleep(Duration::from_millis(20));
            began.elapsed()
        });
        assert!(began.elapsed() >= work * 2);
        // A wake does not end the rest.
        signal.wake();
        let began = Instant::now();
        signal.rest(work);
        assert!(began.elapsed() >= work);
        // A stop does: the test would not end.
        signal.state.lock().stopped = true;
        signal.rest(Duration::from_secs(1 << 30));
    }

    #[test]
    fn only_the_last_messages_wait_for_a_commit() {
        let signal = Signal::default();
        for n in 0..1_000 {
            signal.report(Level::Debug, n.to_string());
        }
        let state = signal.state.lock();
        assert_eq!(state.messages.len(), MESSAGES);
        assert_eq!(
            state.messages.back(),
            Some(&(Level::Debug, "999".to_owned()))
        );
    }
}
