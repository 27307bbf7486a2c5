//! `ahead/<operator>/<epoch>.<partition>.arrow`: rows beyond `max_ahead`, written for inspection.
//!
//! The rows of an attempt are first put into the log, as an object beside the attempt's chunks. The
//! attempt's head names this object. The rows are published in `ahead/` once the head is valid.

use std::fs::File;
use std::io::Seek;
use std::sync::Arc;

use holdfast_core::{Error, ErrorKind, Result};

use super::epoch_log::EpochLog;
use super::names::{self, ChunkName};
use super::objects::{Objects, os};
use crate::log::HeadHeader;
use crate::protocol::{Epoch, ObjectId};

/// The far-future rows of a root.
#[derive(Debug)]
pub struct FarFutureRows {
    objects: Arc<Objects>,
    log: Arc<EpochLog>,
}

/// The far-future rows of one attempt, in the log and on this machine.
#[derive(Debug)]
pub struct StagedRows {
    /// The object's full name, for the attempt's head.
    pub name: String,
    file: File,
}

/// The published far-future rows of one partition and epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedRows {
    /// The path of their file.
    pub path: String,
    /// How many there are.
    pub rows: u64,
}

impl FarFutureRows {
    /// The far-future rows of a root.
    pub(super) fn new(objects: Arc<Objects>, log: Arc<EpochLog>) -> Self {
        Self { objects, log }
    }

    /// Puts an attempt's Arrow IPC file into the log, before the head that names it.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn stage(&self, chunk: &ChunkName, file: File) -> Result<StagedRows> {
        let name = format!("{chunk}.arrow");
        self.put(&name, &file)?;
        Ok(StagedRows { name, file })
    }

    /// Publishes the far-future rows of the newest run's head as the file of a partition and epoch.
    /// Returns the file; none if that head has no such rows, or if the epoch was rewound or its log
    /// was trimmed.
    ///
    /// Call it once the caller's head `object` is valid. `staged`: the caller's own rows. A newer
    /// run or a rewind may come between the read of the head and the write of the file. So the
    /// heads are listed again after the write, and all of this is repeated until the newest head
    /// has not changed.
    ///
    /// # Errors
    /// `Restore` for a damaged head or if the log has lost its rows; `Io` if the disk fails.
    pub fn publish(
        &self,
        (epoch, object): (Epoch, &ObjectId),
        staged: Option<&StagedRows>,
    ) -> Result<Option<PublishedRows>> {
        let public = names::far_future(&object.operator, epoch, object.partition);
        let mut head = self.newest_head(epoch, object)?;
        loop {
            let header = match &head {
                Some(head) => self.log.head_header(epoch, head)?,
                None => None,
            };
            let published = match header {
                Some(HeadHeader {
                    far_future: Some(name),
                    counts,
                    ..
                }) => {
                    match staged.filter(|staged| staged.name == name) {
                        Some(staged) => self.put(&public, &staged.file)?,
                        None => self.copy((epoch, object), &name, &public)?,
                    }
                    Some(PublishedRows {
                        path: self.objects.place(&public).display().to_string(),
                        rows: counts.ahead,
                    })
                }
                Some(_) => {
                    self.objects.remove_durably(&public)?;
                    None
                }
                None if self.log.marks().read()?.include(object.run, epoch) => {
                    self.objects.remove_durably(&public)?;
                    None
                }
                // The log of the epoch was trimmed: the epoch is final, and so is its file.
                None => None,
            };
            let now = self.newest_head(epoch, object)?;
            if now == head {
                return Ok(published);
            }
            head = now;
        }
    }

    /// Lists the files of all operators in the epochs that `wanted` accepts.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn list(&self, wanted: impl Fn(Epoch) -> bool) -> Result<Vec<String>> {
        let mut objects = Vec::new();
        for operator in self.objects.folders(names::AHEAD)? {
            let folder = format!("{}/{operator}", names::AHEAD);
            let files = self
                .objects
                .list(&folder)?
                .into_iter()
                .filter(|file| names::parse_far_future(file).is_some_and(&wanted));
            objects.extend(files.map(|file| format!("{folder}/{file}")));
        }
        Ok(objects)
    }

    /// Returns the newest run's head of the operator and partition of `object`. Heads that a rewind
    /// took back do not count.
    fn newest_head(&self, epoch: Epoch, object: &ObjectId) -> Result<Option<ObjectId>> {
        let mut heads = self.log.files_in_force(epoch)?.heads;
        heads.retain(|head| {
            (&head.operator, head.partition) == (&object.operator, object.partition)
        });
        Ok(heads.into_iter().max_by_key(|head| head.run))
    }

    fn put(&self, name: &str, file: &File) -> Result<()> {
        let place = self.objects.place(name);
        let mut file = file
            .try_clone()
            .map_err(|error| os("read", &place, &error))?;
        file.rewind().map_err(|error| os("read", &place, &error))?;
        self.objects.put_open(name, file, &place)
    }

    /// Copies another attempt's rows.
    fn copy(&self, (epoch, object): (Epoch, &ObjectId), name: &str, to: &str) -> Result<()> {
        let lost = |what: &str| {
            let text = format!(
                "a head of the log names {} as its far-future rows, but this object {what}. \
                 Restore it from a backup of the root",
                self.objects.place(name).display()
            );
            Error::new(ErrorKind::Restore, text)
        };
        // The run is not compared: a copy of an older run's head names that run's rows.
        if !name.starts_with(&names::chunks_of(epoch, &object.operator, object.partition)) {
            return Err(lost("belongs to another operator, partition or epoch"));
        }
        if self.objects.copy(name, to)? {
            Ok(())
        } else {
            Err(lost("is missing"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Write;

    use super::*;
    use crate::log::encode_head;
    use crate::protocol::{Attempt, Counts, Digest, OperatorName, PartitionId, RunNumber};
    use crate::root::rewind_marks::RewindMark;
    use crate::root::testing::{ConcurrentChange, Fault, FaultyStore};

    const EPOCH: Epoch = Epoch(6);
    const PARTITION: PartitionId = PartitionId(0);

    fn head(run: u64, far_future: Option<String>) -> HeadHeader {
        HeadHeader {
            operator: OperatorName::new("join").expect("a name"),
            epoch: EPOCH,
            partition: PARTITION,
            run: RunNumber(run),
            attempt: Attempt(0),
            base: Digest::ZERO,
            digest: Digest::ZERO,
            input: Digest::ZERO,
            offsets: Digest::ZERO,
            planned_at: None,
            idle_since: None,
            sources_idle_since: None,
            counts: Counts::default(),
            stream_time: None,
            stream_times: BTreeMap::new(),
            records: 0,
            chunks: Vec::new(),
            far_future,
        }
    }

    fn chunk(run: u64) -> ChunkName {
        ChunkName {
            epoch: EPOCH,
            object: head(run, None).id(),
            attempt: Attempt(0),
            nonce: "ab".to_owned(),
            index: 0,
        }
    }

    /// Publishes the rows of the first run while other processes make these changes. Returns the
    /// content of the published file.
    fn published(changes: Vec<ConcurrentChange>) -> Option<Vec<u8>> {
        let store = Arc::new(FaultyStore::new(Fault::None));
        let root = store.root();
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"first").expect("writes");
        let staged = root.far_future.stage(&chunk(1), file).expect("puts");
        let header = head(1, Some(staged.name.clone()));
        root.log.put_head(&header, &[]).expect("puts");
        let public = names::far_future(&header.operator, EPOCH, PARTITION);
        store.before(&public, changes);
        root.far_future
            .publish((EPOCH, &header.id()), Some(&staged))
            .expect("publishes");
        let found = root.objects.get(&public).expect("reads");
        found.map(|bytes| bytes.to_vec())
    }

    #[test]
    fn rows_of_a_run_that_is_superseded_meanwhile_do_not_stay() {
        assert_eq!(published(Vec::new()).as_deref(), Some(&b"first"[..]));
        let newer = |far_future| {
            let head = head(2, far_future);
            let bytes = encode_head(&head, &[]).expect("encodes");
            ConcurrentChange::Puts(names::head(EPOCH, &head.id()), bytes)
        };
        let rows = format!("{}.arrow", chunk(2));
        let with_rows = vec![
            ConcurrentChange::Puts(rows.clone(), b"second".to_vec()),
            newer(Some(rows)),
        ];
        assert_eq!(published(with_rows).as_deref(), Some(&b"second"[..]));
        assert_eq!(published(vec![newer(None)]), None);
    }

    #[test]
    fn rows_of_an_epoch_that_is_taken_back_meanwhile_do_not_stay() {
        let json = serde_json::to_vec(&RewindMark { epoch: EPOCH }).expect("is JSON");
        let mark = || ConcurrentChange::Puts(names::rewind(RunNumber(2)), json.clone());
        assert_eq!(published(vec![mark()]), None);
        let moved = ConcurrentChange::Removes(names::head(EPOCH, &head(1, None).id()));
        assert_eq!(published(vec![mark(), moved]), None);
    }

    /// A session may stall until its epoch is final and older than the log.
    #[test]
    fn rows_stay_if_the_log_is_trimmed_meanwhile() {
        let trimmed = ConcurrentChange::Removes(names::head(EPOCH, &head(1, None).id()));
        assert_eq!(published(vec![trimmed]).as_deref(), Some(&b"first"[..]));
    }

    #[test]
    fn rows_of_another_object_are_not_published() {
        let root = Arc::new(FaultyStore::new(Fault::None)).root();
        root.objects.put_absent(names::META, b"{}").expect("puts");
        let header = head(1, Some(names::META.to_owned()));
        root.log.put_head(&header, &[]).expect("puts");
        let error = root
            .far_future
            .publish((EPOCH, &header.id()), None)
            .expect_err("a wrong name");
        assert_eq!(error.kind(), ErrorKind::Restore, "{error}");
        assert!(error.to_string().contains("memory/meta.json"), "{error}");
    }
}
