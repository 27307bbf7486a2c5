//! The root, in a folder or (under `scripts/s3`) on an S3 server: who owns it, claims, staging in
//! the protocol's order, decisions, Spark's logs beside it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, SystemTime};

use arrow_schema::{DataType, Field, TimeUnit};
use holdfast_core::ProcessingGuarantee::{AtLeastOnce, ExactlyOnce};
use holdfast_core::{Error, ErrorKind};
use holdfast_host::log::{HeadHeader, RecordsWriter};
use holdfast_host::protocol::{
    Attempt, Digest, Epoch, HostId, ObjectId, OperatorName, Owner, PartitionId, RunNumber, Term,
};
use holdfast_host::root::{
    Asking, ChunkName, Column, Known, OperatorMeta, Ownership, Payload, Root, SnapshotId, Staged,
    StorageOptions,
};
use tempfile::TempDir;

const E: Epoch = Epoch(5);

/// A root whose objects are files, also on the server of `scripts/s3`, so that tests can put and
/// damage them.
struct Kept {
    root: Root,
    folder: TempDir,
    opened: (String, StorageOptions),
}

impl Kept {
    fn files(&self) -> &Path {
        self.folder.path()
    }
}

impl Deref for Kept {
    type Target = Root;

    fn deref(&self) -> &Root {
        &self.root
    }
}

fn root() -> Kept {
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
    Kept {
        root: Root::open(&opened.0, &opened.1).expect("opens"),
        folder,
        opened,
    }
}

fn name(text: &str) -> OperatorName {
    OperatorName::new(text).expect("a name")
}

fn header(operator: &str, partition: i32, run: RunNumber, content: &str) -> HeadHeader {
    HeadHeader {
        operator: name(operator),
        epoch: E,
        partition: PartitionId(partition),
        run,
        attempt: Attempt(1),
        base: Digest::ZERO,
        digest: Digest::of(content.as_bytes()),
        input: Digest::of(b"input"),
        input_rows: 1,
        output_rows: 1,
        stream_times: BTreeMap::new(),
        records: 0,
        chunks: Vec::new(),
    }
}

fn stage(root: &Root, partition: i32, run: RunNumber, content: &str) -> Result<Staged, Error> {
    root.stage(
        &header("join", partition, run, content),
        &[],
        2,
        ExactlyOnce,
    )
}

fn claim(root: &Root, run_id: &str) -> RunNumber {
    root.claim("q", run_id, E).expect("claims")
}

fn spark(root: &Kept, file: &str, content: &str) {
    let path = root.files().join("query").join(file);
    fs::create_dir_all(path.parent().expect("a folder")).expect("makes");
    fs::write(path, content).expect("writes");
}

#[track_caller]
fn refused<T>(result: Result<T, Error>, kind: ErrorKind, parts: &[&str]) {
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

#[test]
fn a_root_belongs_to_one_query_with_one_partition_count() {
    let root = root();
    root.meta("q", 4, Epoch(0)).expect("taken");
    root.meta("q", 4, Epoch(9)).expect("still its own");
    refused(
        root.meta("other", 4, Epoch(0)),
        ErrorKind::StateMismatch,
        &["query q", "query other", "a root of its own"],
    );
    refused(
        root.meta("q", 8, Epoch(9)),
        ErrorKind::StateMismatch,
        &["has 4 partitions", "asks for 8", "another root"],
    );
    fs::write(root.files().join("meta.json"), r#"{"format":9,"new":true}"#).expect("writes");
    refused(
        root.meta("q", 4, Epoch(9)),
        ErrorKind::FormatVersion,
        &["format 9"],
    );
    fs::write(root.files().join("meta.json"), "{").expect("writes");
    refused(
        root.meta("q", 4, Epoch(9)),
        ErrorKind::Restore,
        &["meta.json", "backup"],
    );
}

#[test]
fn state_that_is_missing_in_a_later_epoch_is_not_begun_anew() {
    let root = root();
    refused(
        root.meta("q", 4, Epoch(7)),
        ErrorKind::StateMismatch,
        &["meta.json is missing", "epoch 7"],
    );
    assert!(!root.files().join("meta.json").exists());
}

#[test]
fn a_root_that_cannot_be_made_names_its_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "x").expect("writes");
    let inside = file.join("root").display().to_string();
    refused(
        Root::open(&inside, &StorageOptions::default()).map(|_| ()),
        ErrorKind::Io,
        &[&inside, "a file where a folder"],
    );
    refused(
        Root::open("hdfs://name/x", &StorageOptions::default()).map(|_| ()),
        ErrorKind::UnsupportedOperation,
        &["hdfs://name/x"],
    );
}

#[test]
fn a_write_that_the_disk_refuses_names_the_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Root::open(
        &folder.path().display().to_string(),
        &StorageOptions::default(),
    )
    .expect("opens");
    fs::write(root.path().join("runs"), "a file in the folder's place").expect("writes");
    let place = root.path().join("runs").display().to_string();
    refused(root.claim("q", "a", E), ErrorKind::Io, &[&place]);
}

fn column(name: &str, data_type: DataType) -> Column {
    Column::from(&Field::new(name, data_type, true))
}

fn operator() -> OperatorMeta {
    OperatorMeta {
        kind: "join_asof".into(),
        key: vec![column("currency", DataType::Utf8)],
        time: Some(column(
            "t",
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        )),
        value: vec![column("n", DataType::Int64)],
        payload: Payload {
            right: vec![
                column("rate", DataType::Float64),
                column("source", DataType::Utf8),
            ],
            ..Payload::default()
        },
        settings: BTreeMap::from([("history_retention".to_owned(), 7.into())]),
        first_epoch: Epoch(3),
    }
}

/// An operator's part of the epoch in which it began: without one, what was written down of it is
/// written anew.
fn has_taken_part(root: &Kept) {
    let folder = root
        .files()
        .join(format!("log/{:020}", operator().first_epoch.0));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("join.0.1"), "an object").expect("writes");
}

#[test]
fn what_an_operator_keeps_is_checked_by_name() {
    let root = root();
    has_taken_part(&root);
    let (join, meta) = (name("join"), operator());
    let kept = root.operator(&join, &meta, RunNumber(1), 1).expect("new");
    assert_eq!(
        (kept.first_epoch, kept.version, &kept.payloads),
        (Epoch(3), 0, &vec![meta.payload.clone()])
    );
    for run in [1, 2] {
        let later = OperatorMeta {
            first_epoch: Epoch(9),
            ..meta.clone()
        };
        assert_eq!(
            root.operator(&join, &later, RunNumber(run), 1)
                .expect("the same"),
            kept
        );
    }
    let value = |columns: Vec<Column>| OperatorMeta {
        value: columns,
        ..meta.clone()
    };
    let right = |columns: Vec<Column>| OperatorMeta {
        payload: Payload {
            right: columns,
            ..Payload::default()
        },
        ..meta.clone()
    };
    let cases = [
        (value(vec![]), "value column \"n\" is gone"),
        (
            value(vec![
                column("n", DataType::Int64),
                column("x", DataType::Int8),
            ]),
            "value column \"x\" is new",
        ),
        (
            value(vec![column("n", DataType::Int8)]),
            "value column \"n\" was Int64, is Int8",
        ),
        (
            OperatorMeta {
                key: vec![column("country", DataType::Utf8)],
                ..meta.clone()
            },
            "key column \"currency\" is gone",
        ),
        (
            right(vec![column("source", DataType::Int64)]),
            "right column \"source\" was Utf8, is Int64",
        ),
        (
            OperatorMeta {
                kind: "aggregate".into(),
                ..meta.clone()
            },
            "the state is of join_asof",
        ),
        (
            OperatorMeta {
                settings: BTreeMap::new(),
                ..meta.clone()
            },
            "setting history_retention was 7, is not set",
        ),
    ];
    for (changed, text) in cases {
        refused(
            root.operator(&join, &changed, RunNumber(2), 1),
            ErrorKind::StateMismatch,
            &["operator join", text, "name=..."],
        );
    }
}

#[test]
fn payload_columns_are_added_and_dropped_by_new_versions() {
    let root = root();
    has_taken_part(&root);
    let join = name("join");
    let with = |right: Vec<Column>| OperatorMeta {
        payload: Payload {
            right,
            ..Payload::default()
        },
        ..operator()
    };
    let (rate, source) = (
        column("rate", DataType::Float64),
        column("source", DataType::Utf8),
    );
    let version = |run: u64, right: &[&Column]| {
        let meta = with(right.iter().map(|column| (*column).clone()).collect());
        // As another host, which has read nothing of it yet.
        let root = Root::open(&root.opened.0, &root.opened.1).expect("opens");
        let kept = root
            .operator(&join, &meta, RunNumber(run), 1)
            .expect("may change");
        assert_eq!(kept.payloads[usize::from(kept.version)], meta.payload);
        (kept.version, kept.payloads.len())
    };
    assert_eq!(version(1, &[&rate]), (0, 1));
    assert_eq!(version(2, &[&rate, &source]), (1, 2));
    assert_eq!(version(3, &[&source]), (2, 3));
    // The old code again, and the order alone.
    assert_eq!(version(4, &[&rate]), (0, 3));
    assert_eq!(version(5, &[&source, &rate]), (3, 4));
    // What was dropped comes back with the type that stored rows have, or not at all.
    let changed = with(vec![column("rate", DataType::Utf8)]);
    refused(
        root.operator(&join, &changed, RunNumber(6), 1),
        ErrorKind::StateMismatch,
        &["right column \"rate\" was Float64, is Utf8"],
    );
}

/// The root keeps types as Arrow writes them, and must be able to read them.
#[test]
fn every_type_of_sparks_is_read_back() {
    use std::sync::Arc;

    use arrow_schema::{Fields, TimeUnit};
    let item = |data_type| Arc::new(Field::new("element", data_type, true));
    let pair = |key| {
        Fields::from(vec![
            key,
            Field::new("value x", DataType::Decimal128(38, 18), true),
        ])
    };
    let entries = DataType::Struct(pair(Field::new("key", DataType::Utf8, false)));
    let pair = pair(Field::new("key", DataType::Utf8, true));
    let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    for data_type in [
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(12, 2),
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Binary,
        DataType::Date32,
        zoned.clone(),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Duration(TimeUnit::Microsecond),
        DataType::Interval(arrow_schema::IntervalUnit::YearMonth),
        DataType::List(item(zoned)),
        DataType::Struct(pair.clone()),
        DataType::List(item(DataType::Struct(pair))),
        DataType::Map(Arc::new(Field::new("entries", entries, false)), false),
    ] {
        let kept = column("c", data_type.clone());
        assert_eq!(
            kept.field().expect("read back").data_type(),
            &data_type,
            "{}",
            kept.data_type
        );
    }
}

#[test]
fn runs_claim_numbers_and_the_newest_fences_the_others() {
    let root = root();
    let first = claim(&root, "a");
    assert_eq!((first, claim(&root, "a")), (RunNumber(1), RunNumber(1)));
    root.fence(first).expect("the newest");
    assert_eq!(claim(&root, "b"), RunNumber(2));
    refused(
        root.fence(first),
        ErrorKind::Fenced,
        &["run 1", "run 2", "run id b"],
    );
    refused(root.claim("q", "a", E), ErrorKind::Fenced, &["run 2"]);
    // Another host, which has seen none of this.
    let other = Root::open(&root.opened.0, &root.opened.1).expect("opens");
    refused(other.claim("q", "a", E), ErrorKind::Fenced, &["run 2"]);
    assert_eq!(other.claim("q", "b", E).expect("known"), RunNumber(2));
    spark(&root, "commits/5", "v1");
    refused(
        other.claim("q", "c", E),
        ErrorKind::Fenced,
        &["epoch 5", "already committed"],
    );
}

#[test]
fn runs_that_claim_at_once_get_different_numbers() {
    let root = root();
    let (root, barrier) = (Arc::new(root), Arc::new(Barrier::new(8)));
    let threads: Vec<_> = (0..8)
        .map(|i| {
            let (root, barrier) = (Arc::clone(&root), Arc::clone(&barrier));
            thread::spawn(move || {
                barrier.wait();
                // Fenced at once by a faster one is an answer too; its claim stands all the same.
                root.claim("q", &format!("run{i}"), E)
                    .map_err(|error| assert_eq!(error.kind(), ErrorKind::Fenced, "{error}"))
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| assert!(thread.join().is_ok()));
    // Each has one number, and numbers leave no gap.
    assert_eq!(claim(&root, "behind them"), RunNumber(9));
}

#[test]
fn a_retry_adopts_an_equal_object_and_says_why_another_is_wrong() {
    let root = root();
    let run = claim(&root, "a");
    assert_eq!(stage(&root, 0, run, "x").expect("stages"), Staged::Written);
    let retry = HeadHeader {
        attempt: Attempt(2),
        ..header("join", 0, run, "x")
    };
    assert_eq!(
        root.stage(&retry, &[], 2, ExactlyOnce).expect("adopts"),
        Staged::Adopted
    );
    refused(
        stage(&root, 0, run, "y"),
        ErrorKind::InvalidState,
        &["operator join, partition 0", "own code is not repeatable"],
    );
    let input = HeadHeader {
        input: Digest::of(b"other"),
        ..header("join", 0, run, "y")
    };
    refused(
        root.stage(&input, &[], 2, ExactlyOnce),
        ErrorKind::InvalidState,
        &["persist()"],
    );
}

#[test]
fn a_twins_chunks_do_not_mix_and_the_second_ones_are_removed() {
    let root = root();
    let run = claim(&root, "a");
    let chunk = |attempt: i64, value: &[u8]| {
        let mut writer = RecordsWriter::new().expect("a writer");
        writer.push("s", b"k", Some(value), None).expect("pushes");
        let payload = writer
            .finish(&BTreeMap::new(), Digest::ZERO)
            .expect("finishes")
            .payload;
        let object = header("join", 0, run, "x").id();
        let name = ChunkName {
            epoch: E,
            object,
            attempt: Attempt(attempt),
            nonce: format!("n{attempt}"),
            index: 0,
        };
        root.put_chunk(&name, &payload).expect("puts");
        name.to_string()
    };
    let (first, second) = (chunk(1, b"first"), chunk(2, b"second"));
    let head = |attempt: i64, chunk: &str| HeadHeader {
        attempt: Attempt(attempt),
        records: 1,
        chunks: vec![chunk.to_owned()],
        ..header("join", 0, run, "x")
    };
    assert_eq!(
        root.stage(&head(2, &second), &[], 2, ExactlyOnce)
            .expect("stages"),
        Staged::Written
    );
    assert_eq!(
        root.stage(&head(1, &first), &[], 2, ExactlyOnce)
            .expect("adopts"),
        Staged::Adopted
    );
    let kept = root
        .head(&name("join"), E, PartitionId(0), run)
        .expect("reads")
        .expect("is there")
        .header;
    let records = root.chunk(&kept, &kept.chunks[0]).expect("reads");
    assert_eq!(
        records
            .iter()
            .map(|record| record.value)
            .collect::<Vec<_>>(),
        [Some(&b"second"[..])]
    );
    assert!(!root.files().join(&first).exists(), "nobody names it");
    refused(
        root.chunk(&kept, &first),
        ErrorKind::Restore,
        &["is missing"],
    );
    refused(
        root.chunk(&kept, "meta.json"),
        ErrorKind::Restore,
        &["another object"],
    );
    fs::copy(root.files().join(&second), root.files().join(&first)).expect("copies");
    refused(
        root.chunk(&kept, &first),
        ErrorKind::Restore,
        &["under another name"],
    );
}

#[test]
fn a_task_of_an_older_run_is_not_acknowledged() {
    let root = root();
    let first = claim(&root, "a");
    let second = claim(&root, "b");
    refused(
        stage(&root, 0, first, "x"),
        ErrorKind::Fenced,
        &["run 1", "run 2"],
    );
    assert_eq!(
        stage(&root, 0, second, "y").expect("the newer one is free"),
        Staged::Written
    );
}

#[test]
fn an_older_whole_run_must_be_reproduced() {
    let root = root();
    let first = claim(&root, "a");
    (0..2).for_each(|p| {
        assert_eq!(
            stage(&root, p, first, "x").expect("stages"),
            Staged::Written
        )
    });
    let second = claim(&root, "b");
    refused(
        stage(&root, 0, second, "y"),
        ErrorKind::StateMismatch,
        &["earlier run (1)", "old code", "holdfast epoch drop "],
    );
    assert_eq!(
        root.objects(None, E).expect("lists").len(),
        2,
        "nothing was put"
    );
    assert_eq!(
        stage(&root, 0, second, "x").expect("the same"),
        Staged::Written
    );
    assert_eq!(root.decided(E, 2).expect("decides"), Some(first));
    stage(&root, 1, second, "x").expect("the same");
    assert_eq!(root.decided(E, 2).expect("decides"), Some(second));
}

#[test]
fn under_at_least_once_what_was_staged_first_counts() {
    let root = root();
    let stage = |partition, run, attempt, content| {
        let head = HeadHeader {
            attempt: Attempt(attempt),
            ..header("join", partition, run, content)
        };
        root.stage(&head, &[], 2, AtLeastOnce).expect("stages")
    };
    let digest = |run| {
        root.head(&name("join"), E, PartitionId(0), run)
            .expect("reads")
            .expect("is there")
            .header
            .digest
    };
    let x = Digest::of(b"x");
    let first = claim(&root, "a");
    (0..2).for_each(|p| assert_eq!(stage(p, first, 1, "x"), Staged::Written));
    assert_eq!(
        (stage(0, first, 2, "x"), stage(0, first, 3, "y")),
        (Staged::Adopted, Staged::Differing(x))
    );
    let second = claim(&root, "b");
    (0..2).for_each(|p| assert_eq!(stage(p, second, 4, "y"), Staged::Differing(x), "a copy"));
    assert_eq!(
        (stage(0, second, 5, "x"), stage(0, second, 6, "z")),
        (Staged::Adopted, Staged::Differing(x))
    );
    assert_eq!(root.decided(E, 2).expect("decides"), Some(second));
    assert_eq!((digest(first), digest(second)), (x, x));
    // Another state before the epoch is a fault under either guarantee.
    let base = HeadHeader {
        base: Digest::of(b"other"),
        ..header("join", 0, second, "y")
    };
    refused(
        root.stage(&base, &[], 2, AtLeastOnce),
        ErrorKind::StateMismatch,
        &["earlier run (1)"],
    );
}

#[test]
fn a_copy_of_an_older_runs_head_names_that_runs_chunks() {
    let root = root();
    let staged = |run: RunNumber, value: &[u8]| {
        let mut writer = RecordsWriter::new().expect("a writer");
        writer.push("s", b"k", Some(value), None).expect("pushes");
        let payload = writer
            .finish(&BTreeMap::new(), Digest::ZERO)
            .expect("finishes")
            .payload;
        let object = header("join", 0, run, "x").id();
        let chunk = ChunkName {
            epoch: E,
            object,
            attempt: Attempt(1),
            nonce: format!("n{run}"),
            index: 0,
        };
        root.put_chunk(&chunk, &payload).expect("puts");
        let content = str::from_utf8(value).expect("text");
        let head = HeadHeader {
            records: 2,
            chunks: vec![chunk.to_string()],
            ..header("join", 0, run, content)
        };
        (
            root.stage(&head, &payload, 1, AtLeastOnce).expect("stages"),
            head.chunks,
        )
    };
    let ((first, _), (second, unnamed)) = (
        staged(claim(&root, "a"), b"first"),
        staged(claim(&root, "b"), b"second"),
    );
    assert_eq!(
        (first, second),
        (Staged::Written, Staged::Differing(Digest::of(b"first")))
    );
    let copy = root
        .head(&name("join"), E, PartitionId(0), RunNumber(2))
        .expect("reads")
        .expect("is there");
    let chunk = root
        .chunk(&copy.header, &copy.header.chunks[0])
        .expect("reads");
    let values = copy
        .records
        .iter()
        .chain(chunk.iter())
        .map(|record| record.value)
        .collect::<Vec<_>>();
    assert_eq!(values, [Some(&b"first"[..]); 2]);
    assert!(!root.files().join(&unnamed[0]).exists(), "nobody names it");
    refused(
        root.chunk(
            &HeadHeader {
                partition: PartitionId(1),
                ..copy.header.clone()
            },
            &copy.header.chunks[0],
        ),
        ErrorKind::Restore,
        &["another object"],
    );
}

#[test]
fn an_epoch_evaluated_in_part_or_not_at_all_is_an_error() {
    let root = root();
    let run = claim(&root, "a");
    assert_eq!(root.decided(E, 2).expect("nothing there"), None);
    refused(
        root.decided_for(&name("join"), E, 2),
        ErrorKind::StateMismatch,
        &["epoch 5", "operator join was not evaluated"],
    );
    stage(&root, 1, run, "x").expect("stages");
    refused(
        root.decided(E, 2),
        ErrorKind::StateMismatch,
        &[
            "epoch 5",
            "lacks operator join, partition 0",
            "holdfast rewind",
        ],
    );
    stage(&root, 0, run, "x").expect("stages");
    assert_eq!(root.decided_for(&name("join"), E, 2).expect("decides"), run);
    refused(
        root.decided_for(&name("other"), E, 2),
        ErrorKind::StateMismatch,
        &["operator other was not evaluated"],
    );
}

#[test]
fn a_whole_run_that_a_newer_partial_one_contradicts_does_not_decide() {
    let root = root();
    let first = claim(&root, "a");
    stage(&root, 0, first, "x").expect("stages");
    let second = claim(&root, "b");
    stage(&root, 0, second, "y").expect("the older one is not whole");
    // The stale run's last task puts its object, but is not acknowledged.
    refused(stage(&root, 1, first, "x"), ErrorKind::Fenced, &["run 2"]);
    refused(
        root.decided(E, 2),
        ErrorKind::StateMismatch,
        &["evaluated only in part", "run 2"],
    );
}

#[test]
fn a_damaged_head_is_named_and_nothing_is_decided_by_it() {
    let root = root();
    let run = claim(&root, "a");
    (0..2).for_each(|p| assert_eq!(stage(&root, p, run, "x").expect("stages"), Staged::Written));
    let file = |partition: i32| {
        root.files()
            .join(format!("log/00000000000000000005/join.{partition}.1"))
    };
    let bytes = fs::read(file(0)).expect("reads");
    let read = || root.head(&name("join"), E, PartitionId(0), run).map(|_| ());
    fs::write(file(0), &bytes[..bytes.len() / 2]).expect("cuts");
    refused(read(), ErrorKind::Restore, &["join.0.1", "cut or changed"]);
    refused(
        stage(&root, 0, run, "x"),
        ErrorKind::Restore,
        &["cut or changed"],
    );
    fs::copy(file(1), file(0)).expect("copies");
    refused(
        read(),
        ErrorKind::Restore,
        &["under a wrong name", "partition 1"],
    );
    let object = ObjectId {
        operator: name("join"),
        partition: PartitionId(7),
        run,
    };
    assert!(root.head_header(E, &object).expect("reads").is_none());
}

#[test]
fn files_of_others_in_the_log_are_not_objects() {
    let root = root();
    let run = claim(&root, "a");
    stage(&root, 0, run, "x").expect("stages");
    let folder = root.files().join("log/00000000000000000005");
    for file in ["join.1.1#1", ".DS_Store", "join.1.1.7-ab.0", "notes"] {
        fs::write(folder.join(file), "x").expect("writes");
    }
    assert_eq!(
        root.objects(None, E).expect("lists"),
        [header("join", 0, run, "x").id()]
    );
    assert_eq!(root.objects(Some(&name("other")), E).expect("lists"), []);
    // They go with their epoch: a host that was killed in mid-put leaves the first one.
    assert_eq!(root.forget_epochs(Epoch(6)).expect("removes"), 1);
    assert_eq!(root.objects(None, E).expect("lists"), []);
    assert!(root.path() != root.files() || !folder.exists());
}

#[test]
fn sparks_logs_are_read_beside_the_state() {
    let root = root();
    refused(
        root.check_spark("q", E),
        ErrorKind::StateMismatch,
        &["epoch 5", "state.checkpoint_location"],
    );
    assert_eq!(root.latest_spark_commit().expect("reads"), None);
    spark(&root, "metadata", r#"{"id":"q"}"#);
    spark(&root, "offsets/5", "v1\n{}");
    for file in [
        "commits/3",
        "commits/4",
        "commits/.4.crc",
        "commits/.5.uuid.tmp",
    ] {
        spark(&root, file, "v1\n{}");
    }
    root.check_spark("q", E).expect("its own");
    refused(
        root.check_spark("other", E),
        ErrorKind::StateMismatch,
        &["query other", "query q"],
    );
    assert_eq!(root.latest_spark_commit().expect("reads"), Some(Epoch(4)));
    assert!(
        root.spark_committed(Epoch(4)).expect("reads") && !root.spark_committed(E).expect("reads")
    );
    assert_eq!(
        root.spark_offsets(E).expect("reads").as_deref(),
        Some(&b"v1\n{}"[..])
    );
    root.fsync_spark(RunNumber(1), E).expect("syncs");
    // An object store's objects are durable; who reads them finds them missing.
    if root.path() == root.files() {
        refused(
            root.fsync_spark(RunNumber(1), Epoch(6)),
            ErrorKind::Io,
            &["offsets/6"],
        );
    }
    fs::write(root.files().join("query/metadata"), "{").expect("writes");
    refused(
        root.check_spark("q", E),
        ErrorKind::Restore,
        &["query/metadata"],
    );
}

/// Not a test of speed: prints what a micro-batch pays here.
/// `cargo test --release -- --ignored --nocapture`
#[test]
#[ignore = "prints times"]
fn what_a_micro_batch_pays() {
    let root = root();
    spark(&root, "offsets/5", "v1");
    spark(&root, "commits/4", "v1");
    let run = claim(&root, "a");
    for partition in 0..16 {
        root.stage(&header("join", partition, run, "x"), &[], 16, ExactlyOnce)
            .expect("stages");
    }
    filler(root.files());
    let time = |what: &str, f: &dyn Fn()| {
        let start = std::time::Instant::now();
        (0..100).for_each(|_| f());
        println!("{what}: {} us", start.elapsed().as_micros() / 100);
    };
    time("claim, known", &|| assert_eq!(claim(&root, "a"), run));
    time("commits, offsets", &|| {
        assert!(root.spark_committed(Epoch(4)).is_ok() && root.spark_offsets(E).is_ok())
    });
    time("decided, 16 objects", &|| {
        assert!(root.decided(E, 16).is_ok())
    });
    time("fsync of Spark's files", &|| {
        root.fsync_spark(RunNumber(2), E).expect("syncs");
        root.fsync_spark(RunNumber(1), E).expect("syncs");
    });
    let next = std::cell::Cell::new(16);
    time("stage", &|| {
        next.set(next.get() + 1);
        root.stage(&header("join", next.get(), run, "x"), &[], 200, ExactlyOnce)
            .expect("stages");
    });
}

fn filler(root: &Path) {
    for epoch in 100..2_100 {
        fs::create_dir_all(root.join(format!("log/{epoch:020}"))).expect("makes");
    }
}

#[test]
fn a_snapshot_copies_only_the_files_that_are_not_there() {
    let (root, folder) = (root(), tempfile::tempdir().expect("a folder"));
    let database = folder.path();
    let file =
        |name: &str, content: &[u8]| fs::write(database.join(name), content).expect("writes");
    let mut known = Known::new();
    let mut put = |epoch| {
        let id = SnapshotId {
            operator: name("join"),
            partition: PartitionId(0),
            epoch: Epoch(epoch),
            chain: Digest::of(b"chain"),
        };
        let moved = root
            .put_snapshot(&id, RunNumber(1), database, &mut known)
            .expect("puts");
        (moved.files, moved.bytes, moved.copied)
    };
    file("1.sst", &[1; 1_000]);
    file("MANIFEST", &[2; 10]);
    assert_eq!(put(1), (2, 1_010, 1_010));
    assert_eq!(put(2), (2, 1_010, 0), "nothing has changed");
    file("2.sst", &[3; 500]);
    file("MANIFEST", &[2; 20]);
    assert_eq!(
        put(3),
        (3, 1_520, 520),
        "the new file, and the one that has grown"
    );
}

#[test]
fn a_file_of_a_snapshot_that_was_cut_is_put_again_with_the_next_one() {
    let (root, folder) = (root(), tempfile::tempdir().expect("a folder"));
    let id = |epoch| SnapshotId {
        operator: name("join"),
        partition: PartitionId(0),
        epoch: Epoch(epoch),
        chain: Digest::of(b"chain"),
    };
    fs::write(folder.path().join("1.sst"), [7; 1_000]).expect("writes");
    root.put_snapshot(&id(1), RunNumber(1), folder.path(), &mut Known::new())
        .expect("puts");
    let files = fs::read_dir(root.files().join("snapshots/join/0/files")).expect("lists");
    for file in files {
        fs::write(file.expect("a file").path(), [7; 500]).expect("cuts");
    }
    assert_eq!(
        root.put_snapshot(&id(2), RunNumber(1), folder.path(), &mut Known::new())
            .expect("puts")
            .copied,
        1_000
    );
    let fetched = folder.path().join("fetched");
    root.fetch_snapshot(&id(2), &fetched, &|_| ())
        .expect("is whole");
    assert_eq!(fs::read(fetched.join("1.sst")).expect("reads"), [7; 1_000]);
}

/// A host becomes the owner of partition 0, for a task that has found the others gone.
fn own(root: &Root, run: RunNumber, host: &str, others: &[&str]) {
    let gone: HashMap<HostId, String> = others
        .iter()
        .map(|host| (HostId((*host).to_owned()), "killed".to_owned()))
        .collect();
    let endpoint = Some(format!("{host}:1"));
    let host = Owner {
        term: Term::first(run),
        host: HostId(host.to_owned()),
        endpoint,
        token: String::new(),
        application: None,
    };
    let asking = Asking {
        operator: &name("join"),
        partition: PartitionId(0),
        run,
        host: &host,
        gone: &gone,
    };
    assert!(matches!(
        root.own(&asking).expect("asks"),
        Ownership::Held(_)
    ));
}

#[test]
fn only_the_owner_in_the_newest_run_removes_snapshots() {
    let (root, folder) = (root(), tempfile::tempdir().expect("a folder"));
    let (join, partition) = (name("join"), PartitionId(0));
    let newest = SnapshotId {
        operator: join.clone(),
        partition,
        epoch: Epoch(3),
        chain: Digest::of(b"chain"),
    };
    let other = Root::open(&root.opened.0, &root.opened.1).expect("opens");
    for epoch in 1..4 {
        fs::write(folder.path().join("CURRENT"), epoch.to_string()).expect("writes");
        let id = SnapshotId {
            operator: join.clone(),
            partition,
            epoch: Epoch(epoch),
            chain: Digest::of(b"chain"),
        };
        root.put_snapshot(&id, RunNumber(1), folder.path(), &mut Known::new())
            .expect("puts");
    }
    let kept = || {
        other
            .snapshots(&join, partition)
            .expect("lists")
            .iter()
            .map(|id| id.epoch.0)
            .collect::<Vec<_>>()
    };
    let run = claim(&root, "a");
    own(&root, run, "one", &[]);
    own(&other, run, "two", &["one"]);
    refused(
        root.keep_snapshots(&newest, run, 2),
        ErrorKind::StoreClosed,
        &["another host owns the partition"],
    );
    let newer = claim(&other, "b");
    refused(
        other.keep_snapshots(&newest, run, 2),
        ErrorKind::Fenced,
        &["run 2"],
    );
    assert_eq!(kept(), [3, 2, 1]);
    own(&other, newer, "two", &[]);
    other.keep_snapshots(&newest, newer, 2).expect("its own");
    assert_eq!(kept(), [3, 2]);
}

#[test]
fn what_a_killed_host_left_of_a_snapshots_files_is_removed_with_an_old_one() {
    let (root, folder) = (root(), tempfile::tempdir().expect("a folder"));
    if root.path() != root.files() {
        return;
    }
    let (join, partition) = (name("join"), PartitionId(0));
    fs::write(folder.path().join("CURRENT"), "x").expect("writes");
    let id = |epoch| SnapshotId {
        operator: join.clone(),
        partition,
        epoch: Epoch(epoch),
        chain: Digest::of(b"chain"),
    };
    for epoch in 1..3 {
        root.put_snapshot(&id(epoch), RunNumber(1), folder.path(), &mut Known::new())
            .expect("puts");
    }
    let part = |name: &str, age: u64| {
        let path = root.files().join("snapshots/join/0/files").join(name);
        let file = fs::File::create(&path).expect("makes");
        file.set_modified(SystemTime::now() - Duration::from_secs(age))
            .expect("dates");
        path
    };
    let (left, under_way) = (part("0123-1#1", 86_400), part("4567-1#1", 60));
    let run = claim(&root, "a");
    own(&root, run, "one", &[]);
    root.keep_snapshots(&id(2), run, 1).expect("its own");
    assert!(!left.exists() && under_way.exists());
    assert_eq!(
        fs::read_dir(under_way.parent().expect("a folder"))
            .expect("lists")
            .count(),
        2,
        "and the one that is needed"
    );
}
