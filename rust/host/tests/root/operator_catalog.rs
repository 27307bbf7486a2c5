//! `operators/`: what may change between starts, and what may not.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};
use holdfast_core::ErrorKind;
use holdfast_host::protocol::{Epoch, RunNumber};
use holdfast_host::root::{Column, OperatorMeta, PayloadSchema, Root};
use serde_json::{Value, json};

use crate::support::{TestRoot, name, refused, root};

fn column(name: &str, data_type: DataType) -> Column {
    Column::from(&Field::new(name, data_type, true))
}

/// The description of an operator that begins in epoch 3.
pub(crate) fn operator() -> OperatorMeta {
    OperatorMeta {
        kind: "join_asof".into(),
        key: vec![column("currency", DataType::Utf8)],
        time: Some(column(
            "t",
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        )),
        value: vec![column("n", DataType::Int64)],
        payload: PayloadSchema {
            right: vec![
                column("rate", DataType::Float64),
                column("source", DataType::Utf8),
            ],
            ..PayloadSchema::default()
        },
        settings: BTreeMap::from([("history_retention".to_owned(), 7.into())]),
        first_epoch: Epoch(3),
    }
}

/// Writes an object of the operator's first epoch: without one, the stored operator is replaced.
fn has_taken_part(root: &TestRoot) {
    let folder = root
        .files()
        .join(format!("log/{:020}", operator().first_epoch.0));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("join.0.1"), "an object").expect("writes");
}

#[test]
fn a_changed_operator_is_refused_and_the_change_named() {
    let root = root();
    has_taken_part(&root);
    let (join, meta) = (name("join"), operator());
    let stored = root
        .operators
        .register(&join, &meta, RunNumber(1), 1)
        .expect("new");
    assert_eq!((stored.first_epoch, stored.version), (Epoch(3), 0));
    assert_eq!(stored.versions.len(), 1);
    assert_eq!(stored.versions[0].payload, meta.payload);
    for run in [1, 2] {
        let later = OperatorMeta {
            first_epoch: Epoch(9),
            ..meta.clone()
        };
        assert_eq!(
            root.operators
                .register(&join, &later, RunNumber(run), 1)
                .expect("the same"),
            stored
        );
    }
    let value = |columns: Vec<Column>| OperatorMeta {
        value: columns,
        ..meta.clone()
    };
    let right = |columns: Vec<Column>| OperatorMeta {
        payload: PayloadSchema {
            right: columns,
            ..PayloadSchema::default()
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
            "value column \"n\" was Int64 and is now Int8",
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
            "right column \"source\" was Utf8 and is now Int64",
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
            "setting history_retention was 7 and is now not set",
        ),
    ];
    for (changed, text) in cases {
        refused(
            root.operators.register(&join, &changed, RunNumber(2), 1),
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
        payload: PayloadSchema {
            right,
            ..PayloadSchema::default()
        },
        ..operator()
    };
    let (rate, source) = (
        column("rate", DataType::Float64),
        column("source", DataType::Utf8),
    );
    let version = |run: u64, right: &[&Column]| {
        let meta = with(right.iter().map(|column| (*column).clone()).collect());
        // Another host, whose cache is empty.
        let root = Root::open(&root.opened.0, &root.opened.1).expect("opens");
        let stored = root
            .operators
            .register(&join, &meta, RunNumber(run), 1)
            .expect("may change");
        let used = &stored.versions[usize::from(stored.version)];
        assert_eq!(used.payload, meta.payload);
        (stored.version, stored.versions.len())
    };
    assert_eq!(version(1, &[&rate]), (0, 1));
    assert_eq!(version(2, &[&rate, &source]), (1, 2));
    assert_eq!(version(3, &[&source]), (2, 3));
    // The columns of run 1 again, then those of run 2 in another order. The newest file describes
    // the query. Rows get the first version that has these columns in this order. So an epoch that
    // is computed again has the digests of the run that wrote that version.
    assert_eq!(version(4, &[&rate]), (0, 4));
    assert_eq!(version(4, &[&rate]), (0, 4));
    assert_eq!(version(5, &[&source, &rate]), (4, 5));
    let file = root.files().join("operators/join.1.json");
    let file: Value = serde_json::from_slice(&fs::read(file).expect("reads")).expect("JSON");
    assert_eq!(file["since"], json!({"run": 2, "epoch": 3}));
    // A dropped column may return only with the type that stored rows have.
    let changed = with(vec![column("rate", DataType::Utf8)]);
    refused(
        root.operators.register(&join, &changed, RunNumber(6), 1),
        ErrorKind::StateMismatch,
        &["right column \"rate\" was Float64 and is now Utf8"],
    );
}

#[test]
fn a_host_of_an_older_run_puts_no_version() {
    let root = root();
    root.identity
        .check("q", 1, (Epoch(0), false))
        .expect("is new");
    let runs: Vec<RunNumber> = ["a", "b"]
        .map(|run_id| root.runs.claim("q", run_id, Epoch(0)).expect("claims"))
        .to_vec();
    let mut meta = operator();
    root.operators
        .register(&name("join"), &meta, runs[1], 1)
        .expect("is new");
    has_taken_part(&root);
    meta.payload.right.push(column("more", DataType::Int64));
    // Another host, whose cache is empty.
    let other = Root::open(&root.opened.0, &root.opened.1).expect("opens");
    let late = other
        .operators
        .register(&name("join"), &meta, runs[0], 1)
        .expect_err("a newer run has claimed");
    assert_eq!(late.kind(), ErrorKind::Fenced, "{late}");
    assert!(!root.files().join("operators/join.1.json").exists());
}

/// The root stores types as Arrow prints them, and must be able to parse them.
#[test]
fn every_type_of_spark_is_read_back() {
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
        let stored = column("c", data_type.clone());
        assert_eq!(
            stored.field().expect("read back").data_type(),
            &data_type,
            "{}",
            stored.data_type
        );
    }
}
