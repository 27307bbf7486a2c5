//! Finds the final epochs of a root, and their decisions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::protocol::{Epoch, EpochDecision, RunNumber};
use crate::root::Root;

/// How many decisions are held in memory.
const CACHED: usize = 256;
/// How long cached decisions are used before a read checks the root's id and the rewinds again.
const BELIEVED: Duration = Duration::from_millis(500);
/// How long the newest commit of Spark's log is used.
const COMMIT_BELIEVED: Duration = Duration::from_secs(1);
/// How long a read that waits for an epoch pauses between two reads of Spark's commit log.
const POLL: Duration = Duration::from_millis(20);
/// The same pause for an object store, where each check is a request.
const REMOTE_POLL: Duration = Duration::from_millis(500);

/// The final epochs of a root.
pub struct FinalEpochs {
    root: Arc<Root>,
    /// The root's id when the reader connected.
    root_id: String,
    partitions: u32,
    known: Mutex<KnownDecisions>,
    newest_run: AtomicU64,
    /// The newest commit of Spark's log, and when it was read.
    commit: Mutex<Option<(Instant, Option<Epoch>)>>,
    is_outdated: AtomicBool,
}

/// The cached decisions. A new rewind clears them.
struct KnownDecisions {
    decisions: BTreeMap<Epoch, Arc<EpochDecision>>,
    rewind: RunNumber,
    checked: Option<Instant>,
}

impl FinalEpochs {
    /// Makes the reader of a root's epochs; the root has this id and this many partitions.
    pub fn new(root: Arc<Root>, root_id: String, partitions: u32) -> Self {
        let known = KnownDecisions {
            decisions: BTreeMap::new(),
            rewind: RunNumber(0),
            checked: None,
        };
        Self {
            root,
            root_id,
            partitions,
            known: Mutex::new(known),
            newest_run: AtomicU64::new(0),
            commit: Mutex::default(),
            is_outdated: AtomicBool::new(false),
        }
    }

    /// Whether another root was found under the path.
    pub fn is_outdated(&self) -> bool {
        self.is_outdated.load(Ordering::Relaxed)
    }

    /// The root's id when the reader connected.
    pub fn root_id(&self) -> &str {
        &self.root_id
    }

    /// The newest run of which an epoch was found since the last rewind; 0 before the first.
    /// Another start of the query has another run, and may have other columns and settings.
    pub fn newest_run(&self) -> RunNumber {
        RunNumber(self.newest_run.load(Ordering::Relaxed))
    }

    /// Makes the next call check for rewinds.
    pub fn look_again(&self) {
        self.known.lock().checked = None;
    }

    /// Returns the newest epoch that Spark has committed and that is decided; none before the
    /// first.
    ///
    /// A newer committed epoch may have no decision yet: no operator ran in it, or its runs have
    /// different results and the next session decides.
    ///
    /// # Errors
    /// `StateMismatch` if the root was deleted, or deleted and made again; `Restore` for an object
    /// that is damaged, `Io` if the disk fails.
    pub fn newest(&self) -> Result<Option<Epoch>> {
        let mut next = self.root.spark.latest_commit()?;
        if next.is_none() {
            self.check_same_root()?;
        }
        while let Some(epoch) = next {
            if self.find(epoch)?.is_some() {
                return Ok(Some(epoch));
            }
            next = epoch.previous();
            if let Some(next) = next
                && self.is_before_log(next)?
            {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// As [`FinalEpochs::newest`], but an error before the first epoch.
    ///
    /// # Errors
    /// `NotUpToBound` if no epoch is final; as [`FinalEpochs::newest`].
    pub fn newest_final(&self) -> Result<Epoch> {
        self.newest()?.ok_or_else(|| {
            let text = "no epoch is final yet: the query has not committed its first micro-batch";
            Error::new(ErrorKind::NotUpToBound, text).path(self.root.path())
        })
    }

    /// Reads Spark's commit log at most once a second, and returns an epoch that every current host
    /// must have, unless the epoch has no decision. None if the log was not read by this call.
    ///
    /// Hosts of a root in an object store find a commit up to half a second late. If the log of
    /// such a root was last read less than two seconds ago, that read gives the epoch.
    ///
    /// # Errors
    /// `Io` if the log cannot be read.
    pub fn earlier_commit(&self) -> Result<Option<Epoch>> {
        // Another call is reading the log.
        let Some(mut known) = self.commit.try_lock() else {
            return Ok(None);
        };
        let age = known.map(|(read, _)| read.elapsed());
        if age.is_some_and(|age| age < COMMIT_BELIEVED) {
            return Ok(None);
        }
        let newest = self.root.spark.latest_commit()?;
        let before = known.replace((Instant::now(), newest));
        let is_recent = age.is_some_and(|age| age < 2 * COMMIT_BELIEVED);
        match before {
            Some((_, before)) if is_recent && !self.root.is_local() => Ok(before),
            _ => Ok(newest),
        }
    }

    /// Returns the newest final epoch. Waits until it is at least `bound`.
    ///
    /// # Errors
    /// `NotUpToBound` if it is still older than `bound` after `timeout`.
    pub fn newest_at_least(&self, bound: Epoch, timeout: Duration) -> Result<Epoch> {
        let started = Instant::now();
        loop {
            let newest = self.newest()?;
            if let Some(newest) = newest.filter(|newest| *newest >= bound) {
                return Ok(newest);
            }
            if started.elapsed() >= timeout {
                let there = newest.map_or_else(
                    || "no epoch is final".to_owned(),
                    |newest| format!("epoch {newest} is the newest"),
                );
                let text = if timeout.is_zero() {
                    format!(
                        "the state has not reached epoch {bound}: {there}; read an older epoch, \
                         or wait for this one (at_least with a timeout)"
                    )
                } else {
                    format!(
                        "the state has not reached epoch {bound} within {} s: {there}; give a \
                         longer timeout, or read an older epoch",
                        timeout.as_secs_f64()
                    )
                };
                return Err(Error::new(ErrorKind::NotUpToBound, text).path(self.root.path()));
            }
            let poll = if self.root.is_local() {
                POLL
            } else {
                REMOTE_POLL
            };
            thread::sleep(poll.min(timeout));
        }
    }

    /// Returns the decision of a committed epoch.
    ///
    /// # Errors
    /// `Restore` if the epoch has no decision, usually because the log no longer has the epoch; the
    /// error names the oldest epoch of the log; as [`FinalEpochs::newest`].
    pub fn decision(&self, epoch: Epoch) -> Result<Arc<EpochDecision>> {
        if let Some(decision) = self.find(epoch)? {
            return Ok(decision);
        }
        let oldest = self.root.log.epochs()?.into_iter().min();
        let oldest = oldest.map_or_else(
            || "the log is empty".to_owned(),
            |oldest| format!("the oldest epoch of the log is {oldest}"),
        );
        let text = format!("epoch {epoch} cannot be read any more: {oldest}");
        Err(Error::new(ErrorKind::Restore, text).path(self.root.path()))
    }

    /// Checks that an epoch is final.
    ///
    /// # Errors
    /// `NotUpToBound` if it is not.
    pub fn check_final(&self, epoch: Epoch) -> Result<()> {
        self.newest_at_least(epoch, Duration::ZERO).map(|_| ())
    }

    /// Returns the decision of a committed epoch; none if the epoch has no decision, or if a rewind
    /// has taken its commit back.
    ///
    /// # Errors
    /// As [`FinalEpochs::newest`].
    pub fn find(&self, epoch: Epoch) -> Result<Option<Arc<EpochDecision>>> {
        let mut known = self.known.lock();
        let is_old = known
            .checked
            .is_none_or(|checked| checked.elapsed() > BELIEVED);
        if is_old {
            self.check_same_root()?;
            let rewind = self.root.log.newest_rewind()?;
            if rewind != known.rewind {
                known.decisions.clear();
                known.rewind = rewind;
                // After a restored backup, runs have numbers that were used before.
                self.newest_run.store(0, Ordering::Relaxed);
            }
            known.checked = Some(Instant::now());
        }
        if let Some(decision) = known.decisions.get(&epoch) {
            return Ok(Some(Arc::clone(decision)));
        }
        let Some(decision) = self.root.decisions.seen(epoch, self.partitions)? else {
            return Ok(None);
        };
        // A rewind may have taken the commit back, and a new run may have staged the epoch since.
        if !self.is_committed(epoch)? {
            return Ok(None);
        }
        if let Some(run) = decision.run {
            self.newest_run.fetch_max(run.0, Ordering::Relaxed);
        }
        let decision = Arc::new(decision);
        known.decisions.insert(epoch, Arc::clone(&decision));
        while known.decisions.len() > CACHED {
            known.decisions.pop_first();
        }
        Ok(Some(decision))
    }

    /// As [`FinalEpochs::find`], but without the cache. None for an epoch that a rewind has just
    /// taken back, even if a new run has staged it again.
    ///
    /// # Errors
    /// As [`FinalEpochs::newest`].
    pub fn find_now(&self, epoch: Epoch) -> Result<Option<EpochDecision>> {
        // In the other order, objects of an uncommitted epoch could count.
        if !self.is_committed(epoch)? {
            return Ok(None);
        }
        let found = self.root.decisions.seen(epoch, self.partitions)?;
        // A rewind between the two reads takes the commit back, and a new run may stage the epoch.
        if !self.is_committed(epoch)? {
            return Ok(None);
        }
        Ok(found)
    }

    /// Whether Spark's log has the commit of the epoch or of a later one.
    fn is_committed(&self, epoch: Epoch) -> Result<bool> {
        let newest = self.root.spark.latest_commit()?;
        Ok(newest.is_some_and(|newest| newest >= epoch))
    }

    /// Checks that the root is the one to which the reader connected: what was read of a root does
    /// not fit the next root under its path.
    ///
    /// # Errors
    /// `StateMismatch` if it was deleted, or deleted and made again; `Io` if it cannot be read.
    pub fn check_same_root(&self) -> Result<()> {
        if self.root.identity.id()? == self.root_id {
            return Ok(());
        }
        self.is_outdated.store(true, Ordering::Relaxed);
        let text = "this root was deleted and made again since the reader connected: connect again";
        Err(Error::new(ErrorKind::StateMismatch, text).path(self.root.path()))
    }

    fn is_before_log(&self, epoch: Epoch) -> Result<bool> {
        let epochs = self.root.log.epochs()?;
        Ok(epochs.iter().min().is_none_or(|oldest| epoch < *oldest))
    }
}
