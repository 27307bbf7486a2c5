//! Copies of partitions at epochs that are older than the shared copies.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::replica::Replica;
use crate::protocol::{Epoch, OperatorName, PartitionId};

/// How often a read looks for a copy that is no longer read.
const POLL: Duration = Duration::from_millis(20);

/// A replica that calls share.
pub type SharedReplica = Arc<Mutex<Replica>>;

/// What an old copy is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldCopyKey {
    /// The operator.
    pub operator: OperatorName,
    /// The partition.
    pub partition: PartitionId,
    /// The epoch at which it stays.
    pub epoch: Epoch,
}

/// A bounded number of copies at old epochs. Reads of the same epoch share one.
pub struct OldCopies {
    most: usize,
    /// The one that was used last is the last.
    copies: Mutex<Vec<(OldCopyKey, SharedReplica)>>,
}

/// Where a read finds its copy.
enum Place {
    Found(SharedReplica),
    /// The copy is new; another one has made room for it, if there was none.
    Made(SharedReplica, Option<SharedReplica>),
    /// All copies are being read.
    None,
}

impl OldCopies {
    /// No copies yet, and later at most `most`.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            copies: Mutex::default(),
        }
    }

    /// Returns the copy of a partition at an epoch; `make` returns a new one.
    ///
    /// If there are too many, the one that was not used for the longest time is deleted. If all of
    /// them are being read, the call waits for up to `timeout`.
    ///
    /// # Errors
    /// `InvalidState` if no copy became free; those of `make`.
    pub fn get_or_make(
        &self,
        key: &OldCopyKey,
        timeout: Duration,
        make: &dyn Fn() -> Result<SharedReplica>,
    ) -> Result<SharedReplica> {
        let started = Instant::now();
        loop {
            match self.place(key, make)? {
                Place::Found(replica) => return Ok(replica),
                Place::Made(replica, removed) => {
                    // Its folder is gone before the next one grows.
                    drop(removed);
                    return Ok(replica);
                }
                Place::None if started.elapsed() < timeout => thread::sleep(POLL),
                Place::None => return Err(self.full(key, timeout)),
            }
        }
    }

    fn place(&self, key: &OldCopyKey, make: &dyn Fn() -> Result<SharedReplica>) -> Result<Place> {
        let mut copies = self.copies.lock();
        if let Some(known) = copies.iter().position(|(of, _)| of == key) {
            let known = copies.remove(known);
            let replica = Arc::clone(&known.1);
            copies.push(known);
            return Ok(Place::Found(replica));
        }
        let mut removed = None;
        if copies.len() >= self.most {
            let unused = copies
                .iter()
                .position(|(_, replica)| Arc::strong_count(replica) == 1);
            let Some(unused) = unused else {
                return Ok(Place::None);
            };
            removed = Some(copies.remove(unused).1);
        }
        let replica = make()?;
        copies.push((key.clone(), Arc::clone(&replica)));
        Ok(Place::Made(replica, removed))
    }

    fn full(&self, key: &OldCopyKey, timeout: Duration) -> Error {
        let text = format!(
            "operator {}, partition {}: epoch {} needs a copy, and all {} copies of old epochs are \
             being read, also after {} s: close their scans, read fewer epochs at a time, or give \
             a longer timeout",
            key.operator,
            key.partition,
            key.epoch,
            self.most,
            timeout.as_secs_f64()
        );
        Error::new(ErrorKind::InvalidState, text)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;

    use super::*;
    use crate::reader::copies::replica::ReplicaSource;
    use crate::root::Root;

    fn key(epoch: i64) -> OldCopyKey {
        OldCopyKey {
            operator: OperatorName::new("join").expect("a name"),
            partition: PartitionId(0),
            epoch: Epoch(epoch),
        }
    }

    #[test]
    fn copies_are_shared_and_the_longest_unused_one_makes_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::over(
            Arc::new(object_store::memory::InMemory::new()),
            folder.path(),
        );
        let (root, made) = (Arc::new(root), Cell::new(0));
        let make = || {
            made.set(made.get() + 1);
            let source = ReplicaSource {
                root: Arc::clone(&root),
                query_id: "q".to_owned(),
                operator: key(0).operator,
                partition: PartitionId(0),
                first_epoch: Epoch(0),
                stores: Vec::new(),
            };
            let directory = Path::new(folder.path()).join(made.get().to_string());
            Ok(Arc::new(Mutex::new(Replica::new(source, directory))))
        };
        let copies = OldCopies::new(2);
        let get = |epoch: i64| copies.get_or_make(&key(epoch), Duration::ZERO, &make);
        let (one, two) = (get(1).expect("room"), get(2).expect("room"));
        assert!(Arc::ptr_eq(&one, &get(1).expect("shared")));
        assert_eq!(made.get(), 2);
        let error = get(3).err().expect("both are being read").to_string();
        assert!(error.contains("all 2 copies"), "{error}");
        drop((one, two));
        // 1 was used after 2.
        drop(get(3).expect("the place of 2"));
        assert_eq!(made.get(), 3);
        drop(get(1).expect("still there"));
        assert_eq!(made.get(), 3);
        drop(get(2).expect("the place of 3"));
        assert_eq!(made.get(), 4);
    }
}
