//! A root in a folder, or on the S3 server of `scripts/s3`, and what tests do with it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Deref;
use std::path::Path;

use holdfast_core::ProcessingGuarantee::ExactlyOnce;
use holdfast_core::{Error, ErrorKind};
use holdfast_host::log::HeadHeader;
use holdfast_host::protocol::{
    Attempt, Counts, Digest, Epoch, EpochDecision, HostId, KeyFingerprint, OperatorName, Owner,
    PartitionId, RunNumber, TcpEndpoint, Term,
};
use holdfast_host::root::{
    DecisionAsker, Ownership, OwnershipRequest, Root, StageOutcome, StorageOptions,
};
use tempfile::TempDir;

/// What Spark planned for the epoch of most tests.
pub(crate) const OFFSETS: &[u8] = b"v1\n{\"batchTimestampMs\":7}\n0";

/// The epoch of most tests.
pub(crate) const EPOCH: Epoch = Epoch(5);

/// A root whose objects are files, also on the server of `scripts/s3`: tests can put and damage
/// them.
pub(crate) struct TestRoot {
    pub(crate) root: Root,
    folder: TempDir,
    pub(crate) opened: (String, StorageOptions),
}

impl TestRoot {
    pub(crate) fn files(&self) -> &Path {
        self.folder.path()
    }
}

impl Deref for TestRoot {
    type Target = Root;

    fn deref(&self) -> &Root {
        &self.root
    }
}

pub(crate) fn root() -> TestRoot {
    let mut folder = tempfile::Builder::new();
    folder.prefix("root-");
    let (folder, opened) = match (
        std::env::var("HOLDFAST_TEST_S3"),
        std::env::var("HOLDFAST_TEST_S3_FOLDER"),
    ) {
        (Ok(endpoint), Ok(bucket)) => {
            let folder = folder.tempdir_in(bucket).expect("a folder");
            let prefix = folder
                .path()
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            let options = [
                ("endpoint", &*endpoint),
                ("access_key_id", "test"),
                ("secret_access_key", "testtest"),
                ("allow_http", "true"),
            ];
            let options = options
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into_iter()
                .collect();
            (
                folder,
                (format!("s3://test/{prefix}"), StorageOptions(options)),
            )
        }
        _ => {
            let folder = folder.tempdir().expect("a folder");
            let path = folder.path().display().to_string();
            (folder, (path, StorageOptions::default()))
        }
    };
    TestRoot {
        root: Root::open(&opened.0, &opened.1).expect("opens"),
        folder,
        opened,
    }
}

pub(crate) fn name(text: &str) -> OperatorName {
    OperatorName::new(text).expect("a name")
}

pub(crate) fn header(operator: &str, partition: i32, run: RunNumber, content: &str) -> HeadHeader {
    HeadHeader {
        operator: name(operator),
        epoch: EPOCH,
        partition: PartitionId(partition),
        run,
        attempt: Attempt(1),
        base: Digest::ZERO,
        digest: Digest::of(content.as_bytes()),
        input: Digest::of(b"input"),
        offsets: Digest::of(OFFSETS),
        planned_at: None,
        idle_since: None,
        sources_idle_since: None,
        counts: Counts {
            input_rows: 1,
            output_rows: 1,
            ..Counts::default()
        },
        stream_time: None,
        stream_times: BTreeMap::new(),
        records: 0,
        chunks: Vec::new(),
        far_future: None,
    }
}

pub(crate) fn stage(
    root: &Root,
    partition: i32,
    run: RunNumber,
    content: &str,
) -> Result<StageOutcome, Error> {
    root.stage(
        &header("join", partition, run, content),
        &[],
        2,
        ExactlyOnce,
    )
}

/// Stages both partitions.
pub(crate) fn stage_both(root: &Root, run: RunNumber, content: &str) {
    for partition in 0..2 {
        stage(root, partition, run, content).expect("stages");
    }
}

/// The decision of the epoch of most tests, for two partitions.
pub(crate) fn decided(root: &Root) -> EpochDecision {
    root.decisions
        .read_or_decide(DecisionAsker::default(), EPOCH, 2)
        .expect("decides")
}

pub(crate) fn claim(root: &Root, run_id: &str) -> RunNumber {
    root.runs.claim("q", run_id, EPOCH).expect("claims")
}

pub(crate) fn spark(root: &TestRoot, file: &str, content: &str) {
    let path = root.files().join("query").join(file);
    fs::create_dir_all(path.parent().expect("a folder")).expect("makes");
    fs::write(path, content).expect("writes");
}

#[track_caller]
pub(crate) fn refused<T>(result: Result<T, Error>, kind: ErrorKind, parts: &[&str]) {
    let Err(error) = result else {
        panic!("must be refused")
    };
    assert_eq!(error.kind(), kind, "{error}");
    for part in parts {
        assert!(
            error.to_string().contains(part),
            "{part:?} is not in: {error}"
        );
    }
}

/// Makes a host the owner of partition 0, for a task that found the others unreachable.
pub(crate) fn own(root: &Root, run: RunNumber, host: &str, others: &[&str]) {
    let unreachable: HashMap<HostId, String> = others
        .iter()
        .map(|host| (HostId((*host).to_owned()), "killed".to_owned()))
        .collect();
    let endpoint = Some(TcpEndpoint {
        address: format!("{host}:1"),
        key: KeyFingerprint([0; 32]),
    });
    let host = Owner {
        term: Term::first(run),
        host: HostId(host.to_owned()),
        endpoint,
        application: None,
    };
    let request = OwnershipRequest {
        operator: &name("join"),
        partition: PartitionId(0),
        run,
        host: &host,
        unreachable: &unreachable,
        restored: None,
    };
    assert!(matches!(
        root.owners.acquire(&request).expect("asks"),
        Ownership::Held(_)
    ));
}
