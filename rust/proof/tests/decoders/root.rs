//! The files of a root: each in turn is replaced by bytes that Holdfast did not write, beside valid
//! files.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use holdfast_core::ProcessingGuarantee::ExactlyOnce;
use holdfast_core::Result;
use holdfast_host::executor::Executor;
use holdfast_host::log::HeadHeader;
use holdfast_host::protocol::{
    Attempt, Counts, Digest, Epoch, HostId, KeyFingerprint, ObjectId, OperatorName, Owner,
    PartitionId, RunNumber, TcpEndpoint, Term,
};
use holdfast_host::root::{
    Column, KnownDigests, OperatorMeta, OwnershipRequest, PayloadSchema, PreviousEpoch, Root,
    SnapshotId, SnapshotTransfer, StorageOptions, StoreSerdes,
};
use holdfast_proof::directory;

use crate::columns;
use crate::feed::{feed_made, rng, times};

const RUN: RunNumber = RunNumber::FIRST;
const PARTITION: PartitionId = PartitionId(0);

fn open(folder: &Path) -> Result<Root> {
    Root::open(
        folder.to_str().expect("a path of ASCII"),
        &StorageOptions::default(),
    )
}

fn name() -> OperatorName {
    OperatorName::new("join").expect("a name")
}

/// The operator with its first columns, or with all columns.
fn operator(first_epoch: Epoch) -> OperatorMeta {
    let batch = columns::batch(&mut rng(9));
    let mut left: Vec<Column> = batch
        .schema_ref()
        .fields()
        .iter()
        .map(|field| Column::from(&**field))
        .collect();
    if first_epoch == Epoch(0) {
        left.truncate(4);
    }
    // The hexadecimal bytes of `bool`, the description of a serde of booleans.
    let serdes = StoreSerdes {
        key: None,
        value: Some("626f6f6c".to_owned()),
    };
    OperatorMeta {
        kind: "join_asof".to_owned(),
        key: left[..1].to_vec(),
        time: None,
        value: Vec::new(),
        payload: PayloadSchema {
            left,
            right: Vec::new(),
            serdes: BTreeMap::from([("hits".to_owned(), serdes)]),
            ..PayloadSchema::default()
        },
        settings: BTreeMap::new(),
        first_epoch,
    }
}

/// Acquires the partition for one host: writes its claim, or reads the claim that exists.
fn own(root: &Root) -> Result<()> {
    let endpoint = Some(TcpEndpoint {
        address: "one:1".to_owned(),
        key: KeyFingerprint([0; 32]),
    });
    let host = Owner {
        term: Term::first(RUN),
        host: HostId("one".to_owned()),
        endpoint,
        application: None,
    };
    root.owners
        .acquire(&OwnershipRequest {
            operator: &name(),
            partition: PARTITION,
            run: RUN,
            host: &host,
            unreachable: &HashMap::new(),
            restored: None,
        })
        .map(drop)
}

/// Spark's offsets of epoch 0.
const OFFSETS: &str = "v1\n{\"batchWatermarkMs\":0,\"batchTimestampMs\":7}\n{}";

/// Writes a root with most kinds of files. Chunks, far-future rows, followers, addresses for
/// readers and marks of log removals are missing.
fn write(folder: &Path) -> Result<()> {
    let root = open(folder)?;
    root.identity.check("q", 1, (Epoch(0), false))?;
    assert_eq!(root.runs.claim("q", "a run", Epoch(0))?, RUN);
    root.operators
        .register(&name(), &operator(Epoch(0)), RUN, 1)?;
    let header = HeadHeader {
        operator: name(),
        epoch: Epoch(0),
        partition: PARTITION,
        run: RUN,
        attempt: Attempt(1),
        base: Digest::ZERO,
        digest: Digest::of(b"changes"),
        input: Digest::ZERO,
        offsets: Digest::of(OFFSETS.as_bytes()),
        planned_at: Some(7),
        idle_since: None,
        sources_idle_since: None,
        counts: Counts::default(),
        stream_time: None,
        stream_times: BTreeMap::new(),
        records: 0,
        chunks: Vec::new(),
        far_future: None,
    };
    root.stage(&header, &[], 1, ExactlyOnce)?;
    root.decisions.of(RUN, Epoch(0), 1)?;
    // The operator has state, so a change of its columns adds a version of them.
    root.operators
        .register(&name(), &operator(Epoch(1)), RUN, 1)?;
    own(&root)?;
    let database = directory().expect("a temporary directory");
    fs::write(database.path().join("CURRENT"), "a database").expect("writes");
    let id = SnapshotId {
        operator: name(),
        partition: PARTITION,
        epoch: Epoch(0),
        chain: Digest::of(b"chain"),
        term: Term::first(RUN),
    };
    root.snapshots
        .put(&id, database.path(), &mut KnownDigests::new())?;
    // Files of Spark and of `holdfast rewind`.
    for (name, content) in [
        ("query/metadata", r#"{"id":"q"}"#),
        ("query/offsets/0", OFFSETS),
        ("rewinds/00000000000000000009", r#"{"epoch":3}"#),
    ] {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("makes");
        fs::write(path, content).expect("writes");
    }
    Ok(())
}

/// Reads all that [`write`] writes.
fn read(folder: &Path) -> Result<()> {
    let root = open(folder)?;
    root.identity.query()?;
    root.identity.check("q", 1, (Epoch(1), false))?;
    root.spark.check("q", Epoch(0))?;
    let offsets = root.spark.offsets(Epoch(0))?;
    offsets.map_or(Ok(0), |offsets| root.spark.batch_time(Epoch(0), offsets))?;
    root.log.was_taken_back(Epoch(0))?;
    root.lookahead(&name(), PARTITION, RUN, Epoch(1))?;
    root.decisions
        .before_session(RUN, Epoch(0), 1, PreviousEpoch::default())?;
    root.log.head(
        Epoch(0),
        &ObjectId {
            operator: name(),
            partition: PARTITION,
            run: RUN,
        },
    )?;
    for id in root.snapshots.list(&name(), PARTITION)? {
        root.snapshots
            .fetch(&id, &folder.join("copy"), &|_: SnapshotTransfer| ())?;
    }
    root.runs.claim("q", "a run", Epoch(0))?;
    let kept = root
        .operators
        .register(&name(), &operator(Epoch(1)), RUN, 1)?;
    for version in &kept.versions {
        let payload = &version.payload;
        payload
            .left
            .iter()
            .chain(&payload.right)
            .try_for_each(|column| column.field().map(drop))?;
    }
    own(&root)
}

/// The files below a folder, each with its content.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let content = fs::read(&path).expect("a file");
                files.push((
                    path.strip_prefix(folder)
                        .expect("below the folder")
                        .to_owned(),
                    content,
                ));
            }
        }
    }
    files
}

#[test]
fn reading_a_damaged_root_never_panics() {
    let whole = directory().expect("a temporary directory");
    write(whole.path()).expect("a root");
    let files = files(whole.path());
    read(whole.path()).expect("what was written is read");
    feed_made(
        "root",
        files.iter().map(|(_, content)| content.clone()).collect(),
        times(40),
        |bytes| {
            for (damaged, _) in &files {
                let folder = directory().expect("a temporary directory");
                for (name, content) in &files {
                    let path = folder.path().join(name);
                    fs::create_dir_all(path.parent().expect("a folder")).expect("makes");
                    fs::write(
                        path,
                        if name == damaged {
                            bytes
                        } else {
                            content.as_slice()
                        },
                    )
                    .expect("writes");
                }
                let _ = read(folder.path());
            }
        },
    );
}

#[test]
fn parsing_lock_files_never_panics() {
    let own = Executor::of(std::process::id().cast_signed()).expect("this process");
    feed_made(
        "lock",
        vec![own.to_string().into_bytes()],
        times(5_000),
        |bytes| {
            let text = String::from_utf8_lossy(bytes);
            // Does what a host does when it finds another host's lock.
            if let Ok(executor) = text.lines().next().unwrap_or_default().parse::<Executor>() {
                assert_eq!(executor.to_string().parse(), Ok(executor));
                let _ = executor.is_alive();
            }
        },
    );
}
