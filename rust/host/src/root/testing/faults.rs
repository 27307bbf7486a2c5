//! The root on a store where one call in ten fails, loses its answer or is slow.
//!
//! Every result is correct or a clear error, and a retried task succeeds.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use holdfast_core::ProcessingGuarantee::ExactlyOnce;
use holdfast_core::{Error, ErrorKind, Result};
use object_store::path::Path as Name;
use object_store::{ObjectStore, ObjectStoreExt};

use super::faulty_store::{Fault, FaultyStore};
use crate::log::{HeadHeader, RecordsWriter};
use crate::protocol::{
    Attempt, Counts, Digest, Epoch, IdleTimes, ObjectId, OperatorName, PartitionId, RunNumber,
};
use crate::root::objects::block_on;
use crate::root::{ChunkName, DecisionAsker, Root, StageOutcome};

pub(super) const PARTITIONS: u32 = 2;
const EPOCHS: i64 = 4;
/// Spark's offsets of every epoch.
const OFFSETS: &str = "v1";
/// The epoch that a second run replays.
const REPLAYED: i64 = 2;

/// A root on a faulty store, and the errors of its tasks.
pub(super) struct Trial {
    pub(super) store: Arc<FaultyStore>,
    pub(super) root: Root,
    errors: Vec<String>,
    attempt: i64,
}

impl Trial {
    pub(super) fn new(fault: Fault) -> Self {
        let store = Arc::new(FaultyStore::new(fault));
        let root = store.root();
        Self {
            store,
            root,
            errors: Vec::new(),
            attempt: 0,
        }
    }

    /// Another host with the same root.
    pub(super) fn other_host(&self) -> Self {
        let store = Arc::clone(&self.store);
        let root = store.root();
        Self {
            store,
            root,
            errors: Vec::new(),
            attempt: 0,
        }
    }

    /// Runs a task, and runs it again after each `Io` error.
    ///
    /// The error must name the place and say that nothing committed is lost.
    fn task<T>(&mut self, work: impl Fn(&Root, Attempt) -> Result<T>) -> Result<T> {
        loop {
            self.attempt += 1;
            match work(&self.root, Attempt(self.attempt)) {
                Err(error) if error.kind() == ErrorKind::Io => {
                    let text = error.to_string();
                    assert!(
                        text.contains("memory/")
                            && text.contains("nothing that was committed is lost"),
                        "{text}"
                    );
                    self.errors.push(text);
                    assert!(self.errors.len() < 1_000, "a task never succeeds");
                }
                result => return result,
            }
        }
    }

    /// Writes a file as Spark does, without Holdfast's client.
    fn spark(&self, name: &str, content: &str) {
        let name = Name::from(name);
        let put = || self.store.put(&name, content.to_owned().into());
        while !matches!(block_on(put()), Ok(Ok(_))) {}
    }
}

fn object(partition: i32, run: RunNumber) -> ObjectId {
    ObjectId {
        operator: OperatorName::new("join").expect("a name"),
        partition: PartitionId(partition),
        run,
    }
}

/// Stages a chunk with one record, and the head that names it.
fn stage(
    root: &Root,
    run: RunNumber,
    epoch: Epoch,
    partition: i32,
    attempt: Attempt,
) -> Result<StageOutcome> {
    let content = format!("{epoch} {partition}");
    let mut writer = RecordsWriter::new()?;
    writer.push("s", b"k", Some(content.as_bytes()), None)?;
    let payload = writer
        .finish(&BTreeMap::new(), IdleTimes::default(), Digest::ZERO)?
        .payload;
    let chunk = ChunkName {
        epoch,
        object: object(partition, run),
        attempt,
        nonce: format!("n{attempt}"),
        index: 0,
    };
    root.log.put_chunk(&chunk, &payload)?;
    let header = HeadHeader {
        operator: object(partition, run).operator,
        epoch,
        partition: PartitionId(partition),
        run,
        attempt,
        base: Digest::ZERO,
        digest: Digest::of(content.as_bytes()),
        input: Digest::of(b"input"),
        offsets: Digest::of(OFFSETS.as_bytes()),
        planned_at: None,
        idle_since: None,
        sources_idle_since: None,
        counts: Counts::default(),
        stream_time: None,
        stream_times: BTreeMap::new(),
        records: 1,
        chunks: vec![chunk.to_string()],
        far_future: None,
    };
    root.stage(&header, &[], PARTITIONS, ExactlyOnce)
}

/// Reads the value in the decided object of a partition.
pub(super) fn decided(root: &Root, epoch: Epoch, partition: i32) -> Result<(RunNumber, String)> {
    let missing = || Error::new(ErrorKind::Restore, "no object");
    let decision = root
        .decisions
        .read_or_decide(DecisionAsker::default(), epoch, PARTITIONS)?;
    let run = decision.run.ok_or_else(missing)?;
    let id = object(partition, run);
    let head = root.log.head(epoch, &id)?.ok_or_else(missing)?;
    let records = root.log.chunk(&head.header, &head.header.chunks[0])?;
    let value = records
        .iter()
        .next()
        .and_then(|record| record.value)
        .ok_or_else(missing)?;
    Ok((run, String::from_utf8_lossy(value).into_owned()))
}

/// Runs the query over these epochs.
pub(super) fn run(trial: &mut Trial, id: &str, epochs: std::ops::Range<i64>) -> RunNumber {
    let first = Epoch(epochs.start);
    let mut number = RunNumber(0);
    for epoch in epochs.map(Epoch) {
        trial.spark(&format!("query/offsets/{epoch}"), OFFSETS);
        for partition in 0..PARTITIONS as i32 {
            number = trial
                .task(|root, attempt| {
                    root.identity.check("q", PARTITIONS, (epoch, false))?;
                    let run = root.runs.claim("q", id, first)?;
                    if let Some(previous) = epoch.previous() {
                        assert!(
                            root.spark.is_committed(previous)?,
                            "a failed request must be an error, not a missing commit"
                        );
                        decided(root, previous, partition)?;
                    }
                    stage(root, run, epoch, partition, attempt).map(|_| run)
                })
                .expect("succeeds at last");
        }
        // The last epoch of the run "a" is not committed: the run "b" replays it.
        if id != "a" || epoch < Epoch(REPLAYED) {
            trial.spark(&format!("query/commits/{epoch}"), "v1");
        }
    }
    number
}

#[test]
fn a_root_whose_calls_fail_one_time_in_ten_stays_correct() {
    let (mut errors, mut injected) = (0, 0);
    for seed in 0..100 {
        let mut trial = Trial::new(Fault::OneInTen(seed));
        let first = run(&mut trial, "a", 0..REPLAYED + 1);
        let second = run(&mut trial, "b", REPLAYED..EPOCHS);
        assert_eq!(
            (first, second),
            (RunNumber(1), RunNumber(2)),
            "seed {seed}: a run recognizes its own claim if the answer to the put was lost"
        );
        let stale = trial.task(|root, attempt| stage(root, first, Epoch(EPOCHS - 1), 0, attempt));
        assert_eq!(
            stale.expect_err("fenced").kind(),
            ErrorKind::Fenced,
            "seed {seed}"
        );
        injected += block_on(trial.store.repair()).expect("runs");
        errors += trial.errors.len();
        for epoch in (0..EPOCHS).map(Epoch) {
            let run = if epoch < Epoch(REPLAYED) {
                first
            } else {
                second
            };
            for partition in 0..PARTITIONS as i32 {
                let found = decided(&trial.root, epoch, partition).expect("decided");
                assert_eq!(found, (run, format!("{epoch} {partition}")), "seed {seed}");
            }
        }
    }
    assert!(
        errors > 100 && injected > errors,
        "{errors} errors of {injected} faults: the test proves nothing"
    );
}

#[test]
fn a_rewind_removes_nothing_if_the_log_is_removed_during_its_claim() {
    let mut trial = Trial::new(Fault::LosesLogWithClaim);
    run(&mut trial, "a", 0..REPLAYED + 1);
    let error = trial.root.rewind(Epoch(1)).expect_err("epoch 0 is gone");
    let newest = trial
        .root
        .runs
        .newest()
        .expect("reads")
        .map(|claim| claim.number);
    assert_eq!(
        (error.kind(), newest),
        (ErrorKind::Restore, Some(RunNumber(2))),
        "{error}"
    );
    for (folder, objects) in [
        ("removed", 0),
        ("rewinds", 0),
        ("query/commits", REPLAYED as usize),
    ] {
        let listed = trial.store.list(Some(&Name::from(folder)));
        assert_eq!(
            block_on(listed.count()).expect("lists"),
            objects,
            "{folder}"
        );
    }
}

#[test]
fn a_cut_transfer_never_passes_as_a_complete_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let content: Vec<u8> = (0..20_000_000_u32)
        .map(|at| (at ^ (at >> 9)) as u8)
        .collect();
    std::fs::write(&from, &content).expect("writes");
    let mut errors = 0;
    for seed in 0..20 {
        let store = Trial::new(Fault::OneInTen(seed)).root.objects;
        while let Err(error) = store.put_file("files/a", &from) {
            assert!(error.to_string().contains("memory/files/a"), "{error}");
            errors += 1;
        }
        let got = loop {
            match store.get_file("files/a", &to, |_| ()) {
                Ok(got) => break got,
                Err(_) => errors += 1,
            }
        };
        assert_eq!(got, Some(content.len() as u64));
        assert!(std::fs::read(&to).expect("reads") == content, "seed {seed}");
    }
    assert!(errors > 0, "the test proves nothing");
}
