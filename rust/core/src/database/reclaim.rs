//! The space of what has expired: a thread rewrites the files in which it lies, segment by segment,
//! behind the writer's back.
//!
//! Compactions drop expired rows anyway, but they come to a file when its neighbours grow, not when
//! its rows grow old (`docs/design/expiry.md`).
//!
//! The thread does not log: a logger may wait for a lock (Python's waits for the interpreter) that
//! is held by whoever waits for the end of the thread. What it has to say is logged by the next
//! commit or close.

use super::Entry;
use super::store::Expiry;
use crate::error::{Error, ErrorKind, Result};
use crate::expiry::Horizon;
use crate::rocks::{Family, Rewritten, RocksDb};
use crate::transaction::Place;
use log::Level;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Files are rewritten when one row in so many has ended.
const WORTH: u64 = 64;

/// How long to wait where a compaction has the files: it may have begun before their rows ended,
/// and leaves them then.
const AGAIN: Duration = Duration::from_secs(1);

/// The thread and its bell.
pub(super) struct Reclaimer {
    bell: Arc<Bell>,
    thread: Mutex<Option<JoinHandle<()>>>,
    rocks: Arc<RocksDb>,
}

#[derive(Default)]
struct Bell {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Default)]
struct State {
    due: bool,
    stopped: bool,
    /// What the thread has to say.
    said: Vec<(Level, String)>,
}

/// Small, for the sake of forked children. The C library keeps the stacks of their parent's
/// threads, up to 40 MiB of them, and an ordinary end of the child joins RocksDB's: one whose stack
/// was given up is a crash. A rewrite runs in here and needs little.
const STACK_BYTES: usize = 256 << 10;

/// A table whose rows grow old.
struct Aging {
    store: String,
    family: Family,
    horizon: Horizon,
    /// Microseconds of a segment.
    segment: i64,
    /// The segment in which the next rewrite is due; none before the horizon is known.
    next: Option<i64>,
    /// Segments within which a rewrite cannot foresee all ends: newer rows that end older ones may
    /// have lain in other files.
    longest: i64,
}

impl Reclaimer {
    /// Starts the thread if a store has files whose rows grow old.
    pub(super) fn new(rocks: &Arc<RocksDb>, stores: &[Entry]) -> Result<Self> {
        let aging: Vec<Aging> = stores.iter().filter_map(Aging::of).collect();
        let bell = Arc::new(Bell::default());
        let mut thread = None;
        if !aging.is_empty() {
            let (bell, rocks) = (Arc::clone(&bell), Arc::clone(rocks));
            let run = move || rewrite_when_rung(&bell, &rocks, aging);
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
            bell,
            thread: Mutex::new(thread),
            rocks: Arc::clone(rocks),
        })
    }

    /// Says that a horizon has entered another segment.
    pub(super) fn ring(&self) {
        self.bell.ring();
    }

    /// Stops the thread, in the middle of a rewrite if need be, and all compactions with it: what
    /// follows is a close.
    pub(super) fn stop(&self) {
        // After a fork there is no such thread here, and the locks may be as they were in the midst
        // of something.
        if !self.rocks.in_owner_process() {
            return;
        }
        let Some(thread) = self.thread.lock().take() else {
            return;
        };
        self.bell.state.lock().stopped = true;
        self.bell.rung.notify_one();
        self.rocks.stop_background_work();
        if thread.join().is_err() {
            let words = format!(
                "{}: the thread that frees expired space had panicked",
                self.rocks.path().display()
            );
            self.bell.say(Level::Warn, words);
        }
    }

    /// Logs what the thread has said; to be called without a lock.
    pub(super) fn log(&self) {
        let said = std::mem::take(&mut self.bell.state.lock().said);
        for (level, words) in said {
            log::log!(level, "{words}");
        }
    }
}

impl Drop for Reclaimer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Bell {
    fn ring(&self) {
        self.state.lock().due = true;
        self.rung.notify_one();
    }

    /// Waits until it is rung; false when there is no more to do.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.due && !state.stopped {
            self.rung.wait(&mut state);
        }
        state.due = false;
        !state.stopped
    }

    fn say(&self, level: Level, words: String) {
        self.state.lock().said.push((level, words));
    }

    /// Leaves the processor and the disk to others for a while.
    fn rest(&self, time: Duration) {
        let end = Instant::now() + time;
        let mut state = self.state.lock();
        while !state.stopped && !self.rung.wait_until(&mut state, end).timed_out() {}
    }
}

fn rewrite_when_rung(bell: &Bell, rocks: &RocksDb, mut tables: Vec<Aging>) {
    while bell.wait() {
        let mut passed_over = false;
        for table in &mut tables {
            match table.rewrite(rocks, bell) {
                Err(error) if error.kind() == ErrorKind::StoreClosed => return,
                // It is only space, and the next segment may do better.
                Err(error) => bell.say(Level::Warn, format!("store {}: {error}", table.store)),
                Ok(rewritten) => passed_over |= !rewritten,
            }
        }
        if passed_over {
            bell.rest(AGAIN);
            bell.ring();
        }
    }
}

impl Aging {
    fn of(entry: &Entry) -> Option<Self> {
        let Expiry {
            horizon,
            unit,
            keep,
            ..
        } = entry.store.expiry()?;
        // The rows are in the first table; a second one is small, or its files are dropped whole.
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

    /// Rewrites the table's files if enough of their rows have ended; false if compactions had them
    /// all.
    fn rewrite(&mut self, rocks: &RocksDb, bell: &Bell) -> Result<bool> {
        let segment = self.horizon.get().div_euclid(self.segment);
        // What was found at open may be old or new, and is given a segment's time.
        if segment < *self.next.get_or_insert(segment.saturating_add(1)) {
            return Ok(true);
        }
        self.horizon.ask_ends(self.segment);
        let (mut all, mut passed_over) = (Rewritten::default(), false);
        for files in rocks.file_sets(self.family)? {
            let began = Instant::now();
            match rocks.rewrite(self.family, &files)? {
                Some(done) => {
                    all.read += done.read;
                    all.written += done.written;
                }
                None => passed_over = true,
            }
            bell.rest(began.elapsed());
        }
        let enough = self
            .horizon
            .take_ends()
            .and_then(|ends| ends.ended((all.written / WORTH).max(1)));
        if passed_over && all == Rewritten::default() {
            return Ok(false);
        }
        let next = if passed_over {
            segment
        } else {
            enough
                .unwrap_or(i64::MAX)
                .min(segment.saturating_add(self.longest))
        };
        let next = next.max(segment.saturating_add(1));
        bell.say(
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
