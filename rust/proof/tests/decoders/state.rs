//! The state that operators store between epochs: waiting rows, tables, the states of groups,
//! stream times.
//!
//! An input is the rows of an operator's stores, as the log would restore them. The operator then
//! runs on them.
//!
//! ```text
//! row         number of the store, 1 byte | time, 1 byte, signed | 0: deleted | key
//!             number of the store | time | 1 | key | value
//! key, value  length, 2 bytes big-endian | bytes
//! ```
//!
//! `collect_list` is left out: it stores how often a value occurs, so a few bytes may stand for
//! millions of values.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use fastrand::Rng;
use holdfast_core::{Database, DatabaseOptions, Result, Timestamp, Transaction, VersionRow};
use holdfast_host::cancellation::Cancellation;
use holdfast_host::memory::budget::Budget;
use holdfast_host::operator::OperatorKind;
use holdfast_host::operator::input::Intake;
use holdfast_host::protocol::Digest;

use crate::feed::{feed_made, rng, times};

const ROWS: usize = 12;

/// Input rows of an operator with one or two sides, at times from `from` on. Each letter of
/// `columns` is the type of a key or payload: `t` text, `n` numbers, `i` small numbers.
pub fn input(columns: &str, sides: usize, rng: &mut Rng, from: i64) -> RecordBatch {
    let times: TimestampMicrosecondArray = (0..ROWS).map(|_| Some(from + rng.i64(0..20))).collect();
    let fixed: [(String, ArrayRef); 4] = [
        ("pid".to_owned(), Arc::new(Int32Array::from(vec![0; ROWS]))),
        (
            "side".to_owned(),
            Arc::new(
                (0..ROWS)
                    .map(|_| Some(sides == 1 || rng.bool()))
                    .collect::<BooleanArray>(),
            ),
        ),
        (
            "deleted".to_owned(),
            Arc::new((0..ROWS).map(|_| Some(false)).collect::<BooleanArray>()),
        ),
        ("t".to_owned(), Arc::new(times.with_timezone("UTC"))),
    ];
    let column = |letter: char| -> ArrayRef {
        match letter {
            't' => Arc::new(
                (0..ROWS)
                    .map(|_| Some(rng.usize(..3).to_string()))
                    .collect::<StringArray>(),
            ),
            'i' => Arc::new((0..ROWS).map(|_| Some(rng.i8(0..4))).collect::<Int8Array>()),
            _ => Arc::new(
                (0..ROWS)
                    .map(|_| (rng.u8(..5) > 0).then(|| rng.i64(0..10)))
                    .collect::<Int64Array>(),
            ),
        }
    };
    let others: Vec<ArrayRef> = columns.chars().map(column).collect();
    let others = others
        .into_iter()
        .enumerate()
        .map(|(n, column)| (format!("c{n}"), column));
    let columns = fixed
        .into_iter()
        .chain(others)
        .map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

/// An operator over stores in memory.
struct Job {
    kind: OperatorKind,
    db: Arc<Database>,
}

impl Job {
    fn new(request: &str) -> Self {
        let kind: OperatorKind = serde_json::from_str(request).expect("a request");
        let db = Database::open_in_memory(&kind.spec().stores(), DatabaseOptions::default())
            .expect("opens");
        Self { kind, db }
    }

    fn begin(&self) -> Transaction {
        self.db.begin().expect("begins")
    }

    /// Runs an epoch; returns the digest of its output.
    fn run(&self, tx: &mut Transaction, rows: &RecordBatch) -> Result<Digest> {
        let intake = Intake {
            partition: Some(0),
            memory: Budget::new(usize::MAX),
            folder: PathBuf::new(),
            cancellation: Cancellation::default(),
        };
        let mut operator = self.kind.spec().start(&rows.schema())?;
        operator.push(rows.clone(), &intake)?;
        let outcome = operator.run(&self.db, tx, &mut |_: RecordBatch| Ok(()))?;
        Ok(outcome.output)
    }

    /// The changes that a transaction has staged in the operator's stores, as an input.
    fn kept(&self, tx: &mut Transaction) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, store) in self.kind.spec().stores().iter().enumerate() {
            let mut put = |row: VersionRow<'_>| -> Result<()> {
                bytes.extend([
                    number as u8,
                    row.timestamp.0 as u8,
                    u8::from(row.value.is_some()),
                ]);
                for part in [Some(row.key), row.value].into_iter().flatten() {
                    bytes.extend((part.len() as u16).to_be_bytes());
                    bytes.extend_from_slice(part);
                }
                Ok(())
            };
            self.db
                .for_each_change(&store.name, tx, &mut put)
                .expect("lists");
        }
        bytes
    }

    /// Restores rows that the stores accept.
    fn restore(&self, tx: &mut Transaction, mut bytes: &[u8]) {
        let stores = self.kind.spec().stores();
        while let Some((store, row)) = row(&mut bytes) {
            let _ = self
                .db
                .apply_changes(&stores[store % stores.len()].name, tx, &[row], None);
        }
    }

    /// Copies the stream time of each store from one transaction to another.
    fn restore_times(&self, from: &Transaction, to: &mut Transaction) {
        for store in self.kind.spec().stores() {
            let time = self.db.stream_time(&store.name, from).expect("a store");
            self.db
                .apply_changes(&store.name, to, &[], time)
                .expect("a time");
        }
    }
}

fn row<'a>(bytes: &mut &'a [u8]) -> Option<(usize, VersionRow<'a>)> {
    let ([store, time, has_value], rest) = bytes.split_first_chunk::<3>()?;
    *bytes = rest;
    let key = part(bytes)?;
    let value = if *has_value == 0 {
        None
    } else {
        Some(part(bytes)?)
    };
    Some((
        usize::from(*store),
        VersionRow {
            key,
            value,
            timestamp: Timestamp(i64::from(time.cast_signed())),
        },
    ))
}

fn part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *bytes = rest;
    Some(part)
}

/// Feeds an operator its state after an epoch, and mutations of it, before it runs the next epoch.
fn feed_operator(name: &str, columns: &str, sides: usize, request: &str) {
    let (job, mut rng) = (Job::new(request), rng(8));
    let next = input(columns, sides, &mut rng, 15);
    let made = (0..5).map(|_| {
        let (mut tx, mut restored) = (job.begin(), job.begin());
        job.run(&mut tx, &input(columns, sides, &mut rng, 0))
            .expect("runs");
        let bytes = job.kept(&mut tx);
        job.restore(&mut restored, &bytes);
        job.restore_times(&tx, &mut restored);
        let (goes_on, begins_anew) = (
            job.run(&mut tx, &next).expect("goes on"),
            job.run(&mut restored, &next)
                .expect("reads the restored state"),
        );
        assert_eq!(
            begins_anew, goes_on,
            "{name} gives the same output on the restored state"
        );
        bytes
    });
    feed_made(
        &format!("state/{name}"),
        made.collect(),
        times(300),
        |bytes| {
            let mut tx = job.begin();
            job.restore(&mut tx, bytes);
            let _ = job.run(&mut tx, &next);
        },
    );
}

/// The columns of a result with two sides.
const PAIR: &str = r#"[{"name": "k", "from": "key", "index": 0},
    {"name": "t", "from": "time"}, {"name": "x", "from": "left", "index": 0},
    {"name": "since", "from": "right_time"}, {"name": "v", "from": "right", "index": 0}]"#;

fn feed_join(kind: &str, settings: &str) {
    let columns = r#""keys": ["k"], "left": ["x"], "right": ["v"]"#;
    feed_operator(
        kind,
        "tnn",
        2,
        &format!(r#"{{"kind": "{kind}", {columns}, {settings}, "output": {PAIR}}}"#),
    );
}

#[test]
fn joins_on_damaged_state_never_panic() {
    feed_join(
        "join_asof",
        r#""how": "left", "history_retention": 100, "grace": 5"#,
    );
    feed_join(
        "join_table",
        r#""how": "outer", "history_retention": 100, "left_values": [0], "right_values": [0]"#,
    );
    feed_join(
        "join_window",
        r#""how": "outer", "before": 3, "after": 5, "grace": 4"#,
    );
}

#[test]
fn foreign_key_joins_on_damaged_state_never_panic() {
    let first = r#"{
        "kind": "foreign_left", "keys": ["k"], "left": ["f", "x"], "right": ["action", "number"],
        "how": "left", "history_retention": 100,
        "values": [0, 1], "foreign": [0],
        "output": [
            {"name": "k", "from": "key", "index": 0}, {"name": "t", "from": "time"},
            {"name": "f", "from": "left", "index": 0},
            {"name": "x", "from": "left", "index": 1},
            {"name": "action", "from": "right", "index": 0},
            {"name": "number", "from": "right", "index": 1}
        ]
    }"#;
    feed_operator("foreign_left", "tnnin", 1, first);
    let second = r#"{
        "kind": "foreign_join", "keys": ["f", "k"], "left": ["f", "x", "action", "number"],
        "right": ["v"], "order_left": [3],
        "how": "left", "foreign": 1, "history_retention": 100, "action": 2, "right_values": [0],
        "output": [
            {"name": "k", "from": "key", "index": 1}, {"name": "t", "from": "time"},
            {"name": "x", "from": "left", "index": 1},
            {"name": "since", "from": "right_time"}, {"name": "v", "from": "right", "index": 0}
        ]
    }"#;
    feed_operator("foreign_join", "ntnninn", 2, second);
}

#[test]
fn deduplications_on_damaged_state_never_panic() {
    let request = r#"{
        "kind": "drop_duplicates", "keys": ["k"], "left": ["x"], "within": 8,
        "output": [{"name": "k", "from": "key", "index": 0}, {"name": "t", "from": "time"},
            {"name": "x", "from": "left", "index": 0}]
    }"#;
    feed_operator("drop_duplicates", "tn", 1, request);
}

#[test]
fn aggregations_on_damaged_state_never_panic() {
    let functions = [
        "count",
        "sum",
        "min",
        "max",
        "avg",
        "first",
        "last",
        "count_distinct",
        "collect_set",
        "stddev",
    ];
    let of_a_column =
        functions.map(|name| format!(r#"{{"name": "{name}", "function": "{name}", "column": 0}}"#));
    let ranked = r#"{"name": "max_by", "function": "max_by", "column": 0, "order": 0},
        {"name": "top", "function": "max_by", "column": 0, "order": 0, "limit": 3}"#;
    let aggregates = format!("{}, {ranked}", of_a_column.join(", "));
    for (name, settings) in [
        ("by_key", r#""emit": "update""#),
        (
            "hopping",
            r#""emit": "close", "grace": 2,
                "window": {"kind": "hopping", "length": 8, "slide": 3}"#,
        ),
        (
            "sliding",
            r#""emit": "close", "grace": 2, "window": {"kind": "sliding", "length": 8}"#,
        ),
        (
            "session",
            r#""emit": "update", "grace": 2, "window": {"kind": "session", "gap": 3}"#,
        ),
    ] {
        let columns = r#""keys": ["k"], "left": ["x"], "timed": true"#;
        feed_operator(
            name,
            "tn",
            1,
            &format!(
                r#"{{"kind": "aggregate", {columns}, "aggregates": [{aggregates}], {settings}}}"#
            ),
        );
    }
}
