//! Removes what no restore can need: old snapshots, their files, and the log before them.
//!
//! A host may stall after its last check, while another host takes the partition over or the query
//! is rewound. So a host first marks what it is going to remove, then checks, then removes. Neither
//! a rewind nor a new owner's snapshot uses what is marked. The name of a snapshot contains the
//! owner's term, and the name of a log object contains the run. So no later object has the name of
//! a removed one.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_core::Result;
use parking_lot::Mutex;

use super::epoch_log::EpochLog;
use super::followers::Followers;
use super::names::{self, SnapshotId};
use super::objects::Objects;
use super::owners::OwnerClaims;
use super::run_claims::RunClaims;
use super::snapshot_repository::SnapshotRepository;
use crate::protocol::{Epoch, EpochDecision, OperatorName, PartitionId, RunNumber};

/// How much of the log remains.
#[derive(Clone, Copy, Debug)]
pub struct LogRetention {
    /// The minimum number of newest epochs.
    pub epochs: i64,
    /// For each partition, the log after the oldest of this many newest snapshots remains, too.
    pub snapshots: usize,
    /// How many epochs a named follower may be behind the newest epoch. Older epochs are removed
    /// even if the follower needs them.
    pub follower_lag: i64,
}

/// Removes what a root no longer needs.
#[derive(Debug)]
pub struct GarbageCollection {
    objects: Arc<Objects>,
    runs: Arc<RunClaims>,
    owners: Arc<OwnerClaims>,
    log: Arc<EpochLog>,
    followers: Arc<Followers>,
    snapshots: Arc<SnapshotRepository>,
    /// When the log was last searched for epochs to remove.
    trimmed: Mutex<Option<Instant>>,
}

impl GarbageCollection {
    /// The garbage collection of a root.
    pub(super) fn new(
        objects: Arc<Objects>,
        (runs, owners): (Arc<RunClaims>, Arc<OwnerClaims>),
        (log, followers): (Arc<EpochLog>, Arc<Followers>),
        snapshots: Arc<SnapshotRepository>,
    ) -> Self {
        Self {
            objects,
            runs,
            owners,
            log,
            followers,
            snapshots,
            trimmed: Mutex::default(),
        }
    }

    /// Removes all of a partition's snapshots but its newest `retained`, and the files that no
    /// remaining snapshot needs.
    ///
    /// The caller has just taken the snapshot `newest`, and still owns the partition in its term.
    /// Otherwise another owner or a rewind may still need the files. Snapshots after `newest` are
    /// from before a rewind: they are neither removed nor counted.
    ///
    /// # Errors
    /// `Fenced` if the term's run is not the newest; `StoreClosed` if the term has ended; `Restore`
    /// if a remaining snapshot cannot be read, and then nothing is removed; `Io` if the disk fails.
    pub fn retain_newest(&self, newest: &SnapshotId, retained: usize) -> Result<()> {
        let (operator, partition) = (&newest.operator, newest.partition);
        // Listed before the manifests: files added after this listing are never deleted.
        let files = self.partition_files(operator, partition)?;
        let found = self.snapshots.of_partition(operator, partition)?;
        let Some(oldest) = found.oldest_retained(retained, newest.epoch) else {
            return Ok(());
        };
        let is_old =
            |id: &&SnapshotId| id.epoch < oldest || id.epoch <= newest.epoch && found.is_marked(id);
        let (old, remaining): (Vec<_>, Vec<_>) = found.all().iter().partition(is_old);
        if old.is_empty() {
            return Ok(());
        }
        let unneeded = self.unneeded(files, &remaining)?;
        for id in old.iter().filter(|id| !found.is_marked(id)) {
            self.snapshots.mark_removal(id)?;
        }
        // Checked after the marks and as late as possible: if this host stalled, another host may
        // have owned the partition and need these files, or a rewind may need the snapshots.
        self.owners.check(operator, partition, newest.term)?;
        old.iter()
            .try_for_each(|id| self.objects.remove(&names::snapshot(id)))?;
        unneeded
            .iter()
            .try_for_each(|file| self.objects.remove(file))?;
        self.objects
            .remove_parts(&names::snapshot_files(operator, partition))?;
        // Also the marks of hosts that ended before they removed them.
        let marked = found.marked().iter();
        let left = marked.filter(|id| !remaining.contains(id) && !old.contains(id));
        old.iter()
            .copied()
            .chain(left)
            .try_for_each(|id| self.snapshots.unmark_removal(id))
    }

    /// Removes a snapshot that a restore found damaged, or whose database may have been damaged,
    /// and the files that no other snapshot needs.
    ///
    /// If the snapshot stayed, [`GarbageCollection::retain_newest`] would count it, and the next
    /// snapshot would use its files, which are recognized by digest and length.
    ///
    /// # Errors
    /// As [`GarbageCollection::retain_newest`], for the term of this process in `run`. The snapshot
    /// itself may be removed already.
    pub fn discard(&self, id: &SnapshotId, run: RunNumber) -> Result<()> {
        let term = self.owners.held(&id.operator, id.partition, run)?;
        let files = self.partition_files(&id.operator, id.partition)?;
        let found = self.snapshots.list(&id.operator, id.partition)?;
        let others: Vec<_> = found.iter().filter(|other| *other != id).collect();
        self.snapshots.mark_removal(id)?;
        self.owners.check(&id.operator, id.partition, term)?;
        self.objects.remove(&names::snapshot(id))?;
        self.unneeded(files, &others)?
            .iter()
            .try_for_each(|file| self.objects.remove(file))?;
        self.snapshots.unmark_removal(id)
    }

    /// Returns whether to trim the log after a snapshot that began at `now`. If so, the next
    /// interval begins.
    ///
    /// True at most once per interval for all partitions together.
    pub fn is_trim_due(&self, now: Instant, interval: Duration) -> bool {
        let mut trimmed = self.trimmed.lock();
        let due = trimmed.is_none_or(|last| now.saturating_duration_since(last) >= interval);
        if due {
            *trimmed = Some(now);
        }
        due
    }

    /// Removes the log that no restore can need after a snapshot. `decision` is that of the
    /// snapshot's epoch. Returns the number of removed epochs.
    ///
    /// An epoch remains if [`LogRetention`] requires it, or if a named follower needs it. If a
    /// partition of an operator has too few snapshots, nothing is removed. The operators are those
    /// of the decision, because a skipped epoch has no heads.
    ///
    /// # Errors
    /// `Fenced` if `run` is not the newest, `Io` if the disk fails.
    pub fn trim_log(
        &self,
        decision: &EpochDecision,
        run: RunNumber,
        retention: LogRetention,
    ) -> Result<usize> {
        let newest = decision.epoch;
        let mut before = Epoch(newest.0.saturating_sub(retention.epochs));
        // Usually nothing can be removed, and one request shows it.
        let Some(oldest) = self.log.epochs()?.into_iter().min() else {
            return Ok(0);
        };
        if oldest >= before {
            return Ok(0);
        }
        if decision.operators.is_empty() {
            return Ok(0);
        }
        let mut newest_snapshots = Vec::new();
        for (operator, partitions) in &decision.operators {
            for (number, _) in (0..).zip(partitions) {
                let found = self.snapshots.of_partition(operator, PartitionId(number))?;
                match found.oldest_retained(retention.snapshots, newest) {
                    Some(oldest) => before = before.min(oldest),
                    None => return Ok(0),
                }
                newest_snapshots.extend(found.into_all().into_iter().next());
            }
        }
        if oldest >= before {
            return Ok(0);
        }
        // Another host may have put a snapshot, and been killed before it synced the name.
        newest_snapshots
            .iter()
            .try_for_each(|id| self.objects.sync_names(&names::snapshot(id)))?;
        // Read as late as possible: a follower that begins after this read may lose its epoch.
        before = before.min(self.needed_by_followers(newest, retention.follower_lag)?);
        if oldest >= before {
            return Ok(0);
        }
        self.log.mark_trim(before, run)?;
        self.runs.fence(run)?;
        self.log.remove_before(before, run)
    }

    /// Returns the first epoch that any follower needs, but at most `lag` epochs before `newest`.
    /// If there is no follower, or `lag` is 0, returns the greatest epoch.
    fn needed_by_followers(&self, newest: Epoch, lag: i64) -> Result<Epoch> {
        let oldest = Epoch(newest.0.saturating_sub(lag));
        let mut needed = Epoch(i64::MAX);
        if lag == 0 {
            return Ok(needed);
        }
        for (name, first) in self.followers.list()? {
            if first < oldest {
                log::warn!(
                    "{}: the follower {name} needs epoch {first}, which is more than {lag} \
                     epochs behind epoch {newest} (State(max_follower_lag=)). Its epochs before \
                     {oldest} are removed when no restore needs them. If it is no longer in use, \
                     remove it with `holdfast followers remove`",
                    self.objects.path().display(),
                );
            }
            needed = needed.min(first.max(oldest));
        }
        Ok(needed)
    }

    fn partition_files(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
    ) -> Result<Vec<String>> {
        let folder = names::snapshot_files(operator, partition);
        Ok(self
            .objects
            .list(&folder)?
            .iter()
            .map(|file| format!("{folder}/{file}"))
            .collect())
    }

    /// Returns the files that none of these snapshots needs.
    fn unneeded(&self, files: Vec<String>, snapshots: &[&SnapshotId]) -> Result<Vec<String>> {
        let mut needed = HashSet::new();
        for id in snapshots {
            needed.extend(self.snapshots.files(id)?);
        }
        Ok(files
            .into_iter()
            .filter(|file| !needed.contains(file))
            .collect())
    }
}

#[cfg(test)]
mod tests;
