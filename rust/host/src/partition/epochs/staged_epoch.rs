//! The staged changes of the epoch after the newest final one. Readers share them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use holdfast_core::{Database, Result, Transaction};
use parking_lot::Mutex;

use super::decided_epoch::apply_object;
use crate::log::HeadHeader;
use crate::memory::budget::{Budget, MIN_TRANSACTION_BYTES, Share};
use crate::protocol::{
    Digest, Epoch, ObjectId, OperatorName, PartitionDecision, PartitionId, RunNumber,
};
use crate::root::{Head, Root};

/// Where readers find the staged changes of the next epoch.
pub struct StagedSource<'a> {
    /// The root.
    pub root: &'a Root,
    /// The operator.
    pub operator: &'a OperatorName,
    /// The partition.
    pub partition: PartitionId,
    /// The newest final epoch.
    pub epoch: Epoch,
    /// The partition's chain after it.
    pub chain: Digest,
    /// The reader's budget, for the staged changes.
    pub memory: &'a Arc<Budget>,
}

/// The staged changes of the epoch after the newest final one, in the database of one partition.
#[derive(Default)]
pub struct StagedEpochs {
    /// The object that was read last.
    newest: Mutex<Option<Arc<StagedEpoch>>>,
    /// Whether a thread waits until no reader uses the changes. The thread sets this to false while
    /// it holds the lock of `newest`.
    watched: AtomicBool,
}

/// An object of the log whose changes are staged in a transaction that is never committed.
pub struct StagedEpoch {
    object: StagedObject,
    /// None until the object is read from the log; other readers of the object wait meanwhile.
    changes: Mutex<Option<StagedChanges>>,
    used: Mutex<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
struct StagedObject {
    epoch: Epoch,
    run: RunNumber,
    result: PartitionDecision,
}

impl StagedObject {
    fn of(epoch: Epoch, header: &HeadHeader) -> Self {
        Self {
            epoch,
            run: header.run,
            result: header.decision(),
        }
    }
}

struct StagedChanges {
    transaction: Transaction,
    _memory: Share,
}

impl StagedEpochs {
    /// Adds to a reader's view the changes of the next epoch, from the newest run that has staged
    /// it. Returns the view, and a value that holds the memory of the changes until the reader
    /// drops it.
    ///
    /// `transaction`: a view of `db` at the final epoch. It is returned unchanged if the next epoch
    /// has no object, or one that was computed from another state.
    ///
    /// # Errors
    /// `Restore` for an object that cannot be read.
    pub fn view(
        &self,
        source: &StagedSource<'_>,
        db: &Database,
        transaction: Transaction,
    ) -> Result<(Transaction, Option<Arc<StagedEpoch>>)> {
        let epoch = source.epoch.next();
        let Some((id, object)) = newest_object(source, epoch)? else {
            return Ok((transaction, None));
        };
        let staged = self.of(object);
        let mut changes = staged.changes.lock();
        let shared = match &mut *changes {
            Some(shared) => shared,
            none => {
                // A rewind may have removed the object since, and the next run may have written
                // another one.
                let head = source.root.log.head(epoch, &id)?;
                let is_same = |head: &Head| StagedObject::of(epoch, &head.header) == staged.object;
                let Some(head) = head.filter(is_same) else {
                    return Ok((transaction, None));
                };
                none.insert(StagedChanges::read(source, db, transaction, &head)?)
            }
        };
        let view = shared.transaction.reader();
        drop(changes);
        *staged.used.lock() = Instant::now();
        Ok((view, Some(staged)))
    }

    /// Takes the changes if they are of this epoch or an older one. The caller deletes them;
    /// readers may still use them.
    #[must_use]
    pub fn take_through(&self, epoch: Epoch) -> Option<Arc<StagedEpoch>> {
        let mut newest = self.newest.lock();
        newest.take_if(|staged| staged.object.epoch <= epoch)
    }

    /// Takes the changes if no reader has used them for longer than `idle`.
    #[must_use]
    pub fn take_unused(&self, idle: Duration) -> Option<Arc<StagedEpoch>> {
        let mut newest = self.newest.lock();
        newest
            .take_if(|staged| Arc::strong_count(staged) == 1 && staged.used.lock().elapsed() > idle)
    }

    /// Starts a thread that drops the changes once no reader has used them for longer than `idle`,
    /// and then ends. For processes without background work; called after each view.
    pub fn drop_when_unused(self: &Arc<Self>, idle: Duration) {
        if self.watched.swap(true, Ordering::SeqCst) {
            return;
        }
        let weak = Arc::downgrade(self);
        let watch = move || {
            loop {
                thread::sleep(idle);
                let Some(staged) = weak.upgrade() else {
                    return;
                };
                drop(staged.take_unused(idle));
                let newest = staged.newest.lock();
                if newest.is_none() {
                    staged.watched.store(false, Ordering::SeqCst);
                    return;
                }
            }
        };
        let started = thread::Builder::new()
            .name("staged".to_owned())
            .spawn(watch);
        if let Err(error) = started {
            log::debug!("staged changes stay in memory until the next read: {error}");
            self.watched.store(false, Ordering::SeqCst);
        }
    }

    fn of(&self, object: StagedObject) -> Arc<StagedEpoch> {
        let mut newest = self.newest.lock();
        if let Some(staged) = newest.as_ref().filter(|staged| staged.object == object) {
            return Arc::clone(staged);
        }
        let staged = Arc::new(StagedEpoch {
            object,
            changes: Mutex::default(),
            used: Mutex::new(Instant::now()),
        });
        let replaced = newest.replace(Arc::clone(&staged));
        drop(newest);
        drop(replaced);
        staged
    }
}

impl StagedChanges {
    /// Stages an object of the log. Changes that exceed the memory are spilled to files.
    fn read(
        source: &StagedSource<'_>,
        db: &Database,
        mut transaction: Transaction,
        head: &Head,
    ) -> Result<Self> {
        let mut memory = source.memory.share();
        let room = memory.room().max(MIN_TRANSACTION_BYTES);
        transaction.limit_memory(room);
        // Reads that begin meanwhile have the rest.
        memory.set(room.min(memory.limit()));
        apply_object(source.root, db, &mut transaction, head)?;
        memory.set(transaction.uncommitted_bytes());
        Ok(Self {
            transaction,
            _memory: memory,
        })
    }
}

/// Returns the newest run's object of the next epoch, if it was computed from the final epoch. Only
/// the header is read, because a head also has most of an epoch's changes.
fn newest_object(
    source: &StagedSource<'_>,
    next: Epoch,
) -> Result<Option<(ObjectId, StagedObject)>> {
    let heads = source.root.log.files_in_force(next)?.heads.into_iter();
    let newest = heads
        .filter(|object| {
            object.operator == *source.operator && object.partition == source.partition
        })
        .max_by_key(|object| object.run);
    let Some(id) = newest else {
        return Ok(None);
    };
    // A rewind may have removed the object since.
    let header = source.root.log.head_header(next, &id)?;
    let object = header.map(|header| StagedObject::of(next, &header));
    let is_next = |object: &StagedObject| object.result.base == source.chain;
    Ok(object.filter(is_next).map(|object| (id, object)))
}
