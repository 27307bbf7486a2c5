//! The payloads of frames: batches, columns, calls of a worker's code. A call that can be decoded
//! is also run.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, BooleanArray, Int64Array, RecordBatch};
use fastrand::Rng;
use holdfast_core::{Database, DatabaseOptions, Error, ErrorKind, Result};
use holdfast_host::net::batch_stream::{self, BatchReceiver, BatchSender};
use holdfast_host::net::call::CallMessage;
use holdfast_host::net::frame;
use holdfast_host::net::message::{self, MessageKind};
use holdfast_host::operator::{OperatorKind, Worker};

use crate::feed::{bytes, feed_made, rng, times};
use crate::{columns, state};

/// The payloads of the frames, end to end.
fn payloads(mut frames: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some((_, payload)) =
        message::receive(&mut frames, frame::MAX_PAYLOAD).expect("whole frames")
    {
        all.extend(payload);
    }
    all
}

#[test]
fn decoding_batches_never_panics() {
    let batch = columns::batch(&mut rng(4));
    let (mut frames, mut sender) = (Vec::new(), BatchSender::default());
    let sent = [batch.clone(), batch.slice(3, 5)];
    for batch in &sent {
        sender
            .send(&mut frames, MessageKind::Batch, batch)
            .expect("sent");
    }
    sender.finish(&mut frames, MessageKind::End).expect("sent");
    let made = payloads(&frames);
    assert_eq!(
        BatchReceiver::default()
            .receive(made.clone())
            .expect("readable"),
        sent
    );
    feed_made("batches", vec![made], times(2_000), |bytes| {
        drop(BatchReceiver::default().receive(bytes.to_vec()))
    });
}

#[test]
fn decoding_columns_never_panics() {
    let (batch, mut frames) = (columns::batch(&mut rng(5)), Vec::new());
    batch_stream::send_columns(&mut frames, batch.schema_ref()).expect("sent");
    let made = payloads(&frames);
    assert_eq!(
        batch_stream::decode_columns(made.clone()).expect("readable"),
        batch.schema()
    );
    feed_made("columns", vec![made], times(5_000), |bytes| {
        let Ok(schema) = batch_stream::decode_columns(bytes.to_vec()) else {
            return;
        };
        let again = |schema| {
            let mut frames = Vec::new();
            batch_stream::send_columns(&mut frames, schema).expect("sent again");
            batch_stream::decode_columns(payloads(&frames)).expect("readable again")
        };
        // The decoded schema itself may differ: Arrow reads an empty time zone and writes none.
        let sent = again(&schema);
        assert_eq!(again(&sent), sent);
    });
}

const PROCESS: &str = r#"{
    "kind": "process", "keys": ["k"], "left": ["x"],
    "output": [{"name": "k", "from": "key", "index": 0}], "deterministic": true,
    "stores": [
        {"name": "plain", "kind": "key_value"},
        {"name": "stamped", "kind": "timestamped_key_value"},
        {"name": "versions", "kind": "versioned", "history_retention": 100, "segment_interval": 10},
        {"name": "windows", "kind": "timestamped_window", "retention": 100, "window_size": 10,
            "retain_duplicates": false},
        {"name": "sessions", "kind": "session", "retention": 100}
    ]
}"#;

const METHODS: [&str; 17] = [
    "put",
    "delete",
    "delete_range",
    "get",
    "get_ahead",
    "range",
    "prefix",
    "entries",
    "apply",
    "versions",
    "scan",
    "find",
    "time",
    "next",
    "rows",
    "repeated",
    "done",
];

const ARGUMENTS: [&str; 15] = [
    "keys",
    "values",
    "timestamps",
    "starts",
    "ends",
    "as_of",
    "is_put",
    "key",
    "timestamp",
    "start",
    "end",
    "start_key",
    "end_key",
    "reverse",
    "descending",
];

/// An argument, mostly of the right type.
fn argument(name: &str, rng: &mut Rng, rows: usize) -> ArrayRef {
    match (name, rng.u8(..8)) {
        (_, 0) => Arc::new(
            (0..rows)
                .map(|_| rng.bool().then(|| bytes(rng, 3)))
                .collect::<BinaryArray>(),
        ),
        ("is_put" | "reverse" | "descending", _) => Arc::new(
            (0..rows)
                .map(|_| Some(rng.bool()))
                .collect::<BooleanArray>(),
        ),
        ("keys" | "values" | "key" | "start_key" | "end_key", _) | ("start" | "end", 1..4) => {
            Arc::new(
                (0..rows)
                    .map(|_| Some(bytes(rng, 3)))
                    .collect::<BinaryArray>(),
            )
        }
        _ => Arc::new(
            (0..rows)
                .map(|_| Some(rng.i64(0..100)))
                .collect::<Int64Array>(),
        ),
    }
}

fn call(rng: &mut Rng, store: &str) -> CallMessage {
    let rows = rng.usize(..4);
    let arguments = ARGUMENTS.map(|name| (name, argument(name, rng, rows), true));
    CallMessage::of(
        RecordBatch::try_from_iter_with_nullable(arguments).expect("columns of one length"),
    )
    .with("method", METHODS[rng.usize(..METHODS.len())])
    .with("store", store)
    .with("rows", rng.usize(..5))
    .with("cursor", rng.usize(..3))
    .with("close", "7,x")
}

fn sent(message: &CallMessage) -> Vec<u8> {
    let mut frames = Vec::new();
    message.send(&mut frames, MessageKind::Call).expect("sent");
    payloads(&frames)
}

/// A worker that makes one call.
struct Calls(Option<CallMessage>);

impl Worker for Calls {
    fn emit(&mut self, _: RecordBatch) -> Result<()> {
        Ok(())
    }

    fn call(&mut self) -> Result<CallMessage> {
        self.0
            .take()
            .ok_or_else(|| Error::new(ErrorKind::InvalidState, "there are no more calls"))
    }

    fn answer(&mut self, _: &CallMessage) -> Result<()> {
        Ok(())
    }

    fn refuse(&mut self, _: &Error) -> Result<()> {
        Ok(())
    }

    fn check_alive(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn decoding_and_running_calls_never_panics() {
    let mut rng = rng(6);
    let kind: OperatorKind = serde_json::from_str(PROCESS).expect("a request");
    let (stores, input) = (kind.spec().stores(), state::input("tn", 1, &mut rng, 0));
    let db = Database::open_in_memory(&stores, DatabaseOptions::default()).expect("opens");
    let made = (0..200).map(|n| {
        let message = call(&mut rng, &stores[n % stores.len()].name);
        let bytes = sent(&message);
        let read = CallMessage::decode(bytes.clone()).expect("readable");
        assert_eq!(
            (&read.attributes, read.batch.columns()),
            (&message.attributes, message.batch.columns())
        );
        bytes
    });
    feed_made("message", made.collect(), times(3_000), |bytes| {
        let Ok(message) = CallMessage::decode(bytes.to_vec()) else {
            return;
        };
        // Columns without bytes may claim any number of rows. Encoding them again would need bytes
        // for each row.
        if message.batch.num_rows() <= 8 * bytes.len() {
            assert_eq!(
                CallMessage::decode(sent(&message)).expect("readable again"),
                message
            );
        }
        let mut tx = db.begin().expect("begins");
        let mut operator = kind.spec().start(&input.schema()).expect("starts");
        let _ = operator.run(&db, &mut tx, &mut Calls(Some(message)));
    });
}
