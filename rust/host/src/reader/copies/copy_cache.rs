//! The copies of a reader, and which of them is deleted to make room for another.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use holdfast_core::{Error, ErrorKind, Result, StoreSpec};
use parking_lot::Mutex;

use super::replica::Replica;
use crate::protocol::{Epoch, OperatorName, PartitionId};

/// How long a read that needs a free copy waits before it checks again.
const POLL: Duration = Duration::from_millis(20);

/// A replica that calls share.
type SharedReplica = Arc<Mutex<Replica>>;

/// Identifies a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyKey {
    /// The operator.
    pub operator: OperatorName,
    /// The partition.
    pub partition: PartitionId,
    /// The epoch at which the copy stays; none: the copy moves on to newer epochs.
    pub epoch: Option<Epoch>,
    /// The epoch in which the operator first took part.
    pub first_epoch: Epoch,
    /// The stores with their settings, which another start of the query may change.
    pub stores: Vec<StoreSpec>,
}

/// The limits of a reader's copies.
#[derive(Debug, Clone, Copy)]
pub struct CopyBounds {
    /// The most copies that stay at an epoch.
    pub old: usize,
    /// The most bytes on the disk of all copies. Only copies that are not being read are deleted.
    pub bytes: u64,
}

/// The copies of a reader. Reads of the same partition and epoch share one.
pub struct CopyCache {
    bounds: CopyBounds,
    /// The least recently used copy is the first.
    copies: Mutex<Vec<CachedCopy>>,
}

struct CachedCopy {
    key: CopyKey,
    replica: SharedReplica,
    /// Its bytes on the disk after its last change.
    bytes: u64,
}

/// A copy that is being read: it is not removed.
pub struct HeldCopy {
    replica: SharedReplica,
    /// Dropped after the copy is free.
    freed: FreedCopy,
}

struct FreedCopy(Arc<CopyCache>);

/// Where a read finds its copy.
enum Place {
    Found(SharedReplica),
    /// A new copy, and the copy that was removed to make room for it.
    Made(SharedReplica, Option<CachedCopy>),
    /// All copies of old epochs are being read.
    None,
}

impl CachedCopy {
    /// The caller holds the lock of the cache, so no other call can take this copy meanwhile.
    fn is_read(&self) -> bool {
        Arc::strong_count(&self.replica) > 1
    }
}

impl CopyCache {
    /// Makes a cache without copies.
    pub fn new(bounds: CopyBounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            copies: Mutex::default(),
        })
    }

    /// Returns the copy with a key. If there is none, adds the one that `make` returns.
    ///
    /// If there are too many copies of old epochs, the least recently used one that is not being
    /// read is deleted. If all of them are being read, the call waits for up to `timeout`.
    ///
    /// # Errors
    /// `InvalidState` if no copy became free; those of `make`.
    pub fn get_or_make(
        self: &Arc<Self>,
        key: &CopyKey,
        timeout: Duration,
        make: &dyn Fn() -> Result<Replica>,
    ) -> Result<HeldCopy> {
        let started = Instant::now();
        let replica = loop {
            match self.place(key, make)? {
                Place::Found(replica) => break replica,
                Place::Made(replica, removed) => {
                    // The removed copy's folder is deleted before the new copy grows.
                    drop(removed);
                    break replica;
                }
                Place::None if started.elapsed() < timeout => thread::sleep(POLL),
                Place::None => return Err(self.full(key, timeout)),
            }
        };
        Ok(HeldCopy {
            replica,
            freed: FreedCopy(Arc::clone(self)),
        })
    }

    /// Returns the copy of a partition that moves on to newer epochs, if there is one.
    pub fn newest(
        self: &Arc<Self>,
        operator: &OperatorName,
        partition: PartitionId,
    ) -> Option<HeldCopy> {
        let copies = self.copies.lock();
        let is_newest = |copy: &&CachedCopy| {
            let CopyKey {
                operator: of,
                partition: number,
                epoch,
                ..
            } = &copy.key;
            (of, *number, *epoch) == (operator, partition, None)
        };
        let found = copies.iter().rev().find(is_newest)?;
        Some(HeldCopy {
            replica: Arc::clone(&found.replica),
            freed: FreedCopy(Arc::clone(self)),
        })
    }

    fn place(&self, key: &CopyKey, make: &dyn Fn() -> Result<Replica>) -> Result<Place> {
        let mut copies = self.copies.lock();
        if let Some(known) = copies.iter().position(|copy| copy.key == *key) {
            let known = copies.remove(known);
            let replica = Arc::clone(&known.replica);
            copies.push(known);
            return Ok(Place::Found(replica));
        }
        let mut removed = None;
        let is_old = |copy: &CachedCopy| copy.key.epoch.is_some();
        if key.epoch.is_some()
            && copies.iter().filter(|copy| is_old(copy)).count() >= self.bounds.old
        {
            let unused = copies
                .iter()
                .position(|copy| is_old(copy) && !copy.is_read());
            let Some(unused) = unused else {
                return Ok(Place::None);
            };
            removed = Some(copies.remove(unused));
        }
        let replica = Arc::new(Mutex::new(make()?));
        copies.push(CachedCopy {
            key: key.clone(),
            replica: Arc::clone(&replica),
            bytes: 0,
        });
        Ok(Place::Made(replica, removed))
    }

    /// Deletes copies that are not being read, the least recently used ones first, until the rest
    /// is within the bound.
    fn make_room(&self) {
        let mut removed = Vec::new();
        {
            let mut copies = self.copies.lock();
            let mut bytes: u64 = copies.iter().map(|copy| copy.bytes).sum();
            while bytes > self.bounds.bytes {
                let unused = copies
                    .iter()
                    .position(|copy| copy.bytes > 0 && !copy.is_read());
                let Some(unused) = unused else {
                    break;
                };
                let copy = copies.remove(unused);
                bytes -= copy.bytes;
                removed.push(copy);
            }
        }
        for CachedCopy { key, bytes, .. } in &removed {
            let CopyKey {
                operator,
                partition,
                ..
            } = key;
            let most = self.bounds.bytes;
            if *bytes > most {
                log::info!(
                    "operator {operator}, partition {partition}: a copy of {bytes} bytes is \
                     deleted after each read, since cache_bytes is {most}"
                );
            } else {
                log::debug!("operator {operator}, partition {partition}: a copy is deleted");
            }
        }
    }

    fn full(&self, key: &CopyKey, timeout: Duration) -> Error {
        let epoch = key.epoch.map(|epoch| epoch.to_string()).unwrap_or_default();
        let text = format!(
            "operator {}, partition {}: epoch {epoch} needs a copy, and all {} copies of old \
             epochs are still being read after {} s: close their scans, read fewer epochs at a \
             time, or give a longer timeout",
            key.operator,
            key.partition,
            self.bounds.old,
            timeout.as_secs_f64()
        );
        Error::new(ErrorKind::InvalidState, text)
    }
}

impl HeldCopy {
    /// The copy.
    pub fn replica(&self) -> &Mutex<Replica> {
        &self.replica
    }

    /// Records how many bytes the copy takes on the disk, or will take soon. Then deletes other
    /// copies if all together exceed the bound.
    pub fn set_bytes(&self, bytes: u64) {
        let cache = &self.freed.0;
        let mut copies = cache.copies.lock();
        let own = copies
            .iter_mut()
            .find(|copy| Arc::ptr_eq(&copy.replica, &self.replica));
        if let Some(own) = own {
            own.bytes = bytes;
        }
        drop(copies);
        cache.make_room();
    }
}

impl Drop for FreedCopy {
    fn drop(&mut self) {
        self.0.make_room();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;

    use super::*;
    use crate::reader::copies::replica::ReplicaSource;
    use crate::root::Root;

    fn key(epoch: Option<i64>) -> CopyKey {
        CopyKey {
            operator: OperatorName::new("join").expect("a name"),
            partition: PartitionId(0),
            epoch: epoch.map(Epoch),
            first_epoch: Epoch(0),
            stores: Vec::new(),
        }
    }

    /// A cache, and how many copies were made.
    struct Copies {
        folder: tempfile::TempDir,
        root: Arc<Root>,
        cache: Arc<CopyCache>,
        made: Cell<usize>,
    }

    impl Copies {
        fn new(old: usize, bytes: u64) -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let objects = Arc::new(object_store::memory::InMemory::new());
            Self {
                root: Arc::new(Root::over(objects, folder.path())),
                folder,
                cache: CopyCache::new(CopyBounds { old, bytes }),
                made: Cell::new(0),
            }
        }

        fn get(&self, epoch: impl Into<Option<i64>>) -> Result<HeldCopy> {
            let make = || {
                self.made.set(self.made.get() + 1);
                let source = ReplicaSource {
                    root: Arc::clone(&self.root),
                    query_id: "q".to_owned(),
                    operator: key(None).operator,
                    partition: PartitionId(0),
                    first_epoch: Epoch(0),
                    stores: Vec::new(),
                };
                let directory = Path::new(self.folder.path()).join(self.made.get().to_string());
                Ok(Replica::new(source, directory))
            };
            let key = key(epoch.into());
            self.cache.get_or_make(&key, Duration::ZERO, &make)
        }

        /// The epochs of the copies, the least recently used one first.
        fn epochs(&self) -> Vec<Option<i64>> {
            let copies = self.cache.copies.lock();
            copies
                .iter()
                .map(|copy| copy.key.epoch.map(|epoch| epoch.0))
                .collect()
        }
    }

    #[test]
    fn copies_are_shared_and_the_longest_unused_old_one_makes_room() {
        let copies = Copies::new(2, u64::MAX);
        drop(copies.get(None).expect("the newest one does not count"));
        let (one, two) = (copies.get(1).expect("room"), copies.get(2).expect("room"));
        assert!(Arc::ptr_eq(
            &one.replica,
            &copies.get(1).expect("shared").replica
        ));
        assert_eq!(copies.made.get(), 3);
        let error = copies
            .get(3)
            .err()
            .expect("both are being read")
            .to_string();
        assert!(error.contains("all 2 copies"), "{error}");
        drop((one, two));
        // 1 was used after 2.
        drop(copies.get(3).expect("the place of 2"));
        assert_eq!(copies.epochs(), [None, Some(1), Some(3)]);
        drop(copies.get(1).expect("still there"));
        assert_eq!(copies.made.get(), 4);
        drop(copies.get(2).expect("the place of 3"));
        assert_eq!(copies.epochs(), [None, Some(1), Some(2)]);
    }

    #[test]
    fn bytes_beyond_the_bound_delete_the_longest_unused_copies() {
        let copies = Copies::new(16, 100);
        for epoch in [1, 2, 3] {
            copies.get(epoch).expect("room").set_bytes(30);
        }
        let newest = copies.get(None).expect("room");
        drop(copies.get(1).expect("it is there"));
        assert_eq!(copies.made.get(), 4);
        newest.set_bytes(40);
        assert_eq!(copies.epochs(), [Some(3), None, Some(1)][..]);
    }

    #[test]
    fn copy_that_is_read_is_deleted_afterwards() {
        let copies = Copies::new(16, 100);
        copies.get(1).expect("room").set_bytes(60);
        let large = copies.get(2).expect("room");
        let shared = copies.get(2).expect("shared");
        large.set_bytes(101);
        assert_eq!(copies.epochs(), [Some(2)]);
        drop(large);
        assert_eq!(copies.epochs(), [Some(2)], "it is still being read");
        drop(shared);
        assert_eq!(copies.epochs(), []);
    }
}
