//! Readers at a host: what they may read, and what they cannot disturb.

mod copies;
mod hostile;
mod large_answers;
mod many;
mod many_keys;
mod memory;
mod priority;
mod rights;
mod several_hosts;
mod uncommitted;
mod unevaluated;

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;

use arrow_array::RecordBatch;
use holdfast_host::net::call::CallMessage;
use holdfast_host::net::frame::MAX_PAYLOAD;
use holdfast_host::net::message::{self, MessageKind};
use holdfast_host::net::metrics::HostMetrics;
use holdfast_host::net::read::{self, READ, ReadAnswer, ReadRequest, ReadTarget};
use holdfast_host::net::socket::{Endpoint, Stream};
use holdfast_host::net::stored_read::StoredRead;
use holdfast_host::protocol::{IsolationLevel, OperatorName, PartitionId, TcpEndpoint};
use holdfast_host::tables::{Moments, ReadCall, ReadRows, StoredKeys};
use serde_bytes::ByteBuf;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Spark};

type Request = ReadRequest<ReadCall>;

/// The address in the last file below `readers/` for partition 0.
pub fn address(spark: &Spark) -> Value {
    let folder = std::fs::read_dir(spark.path().join("readers/join/0")).unwrap();
    let newest = folder.map(|file| file.unwrap().path()).max().unwrap();
    serde_json::from_slice(&std::fs::read(newest).unwrap()).unwrap()
}

/// Partition 0 of a root's operator.
fn target(spark: &Spark) -> ReadTarget {
    let meta = std::fs::read(spark.path().join("meta.json")).unwrap();
    let meta: Value = serde_json::from_slice(&meta).unwrap();
    ReadTarget {
        root: meta["id"].as_str().unwrap().to_owned(),
        operator: OperatorName::try_from("join".to_owned()).unwrap(),
        partition: PartitionId(0),
        isolation_level: IsolationLevel::ReadCommitted,
    }
}

/// Puts a proxy between readers and the host of a partition; returns where it listens, and the
/// address that the host has put.
fn put_proxy(spark: &Spark, partition: i32, folder: &Path) -> (UnixListener, Value) {
    let published = spark.path().join(format!("readers/join/{partition}"));
    let files = std::fs::read_dir(published).unwrap();
    let file: PathBuf = files.map(|file| file.unwrap().path()).max().unwrap();
    let address: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let socket = folder.join(partition.to_string());
    let listener = UnixListener::bind(&socket).unwrap();
    let mut proxied = address.clone();
    proxied["socket"] = json!(socket);
    proxied["endpoint"] = Value::Null;
    // Readers identify a host by its token.
    proxied["token"] = json!(format!("proxy {partition}"));
    std::fs::write(&file, serde_json::to_vec(&proxied).unwrap()).unwrap();
    (listener, address)
}

/// Passes the requests of a reader on to a host until `before` returns false.
fn pass_on(
    (listener, address): &(UnixListener, Value),
    mut before: impl FnMut(MessageKind, &[u8]) -> bool,
) {
    let (mut reader, _) = listener.accept().unwrap();
    let mut host = UnixStream::connect(address["socket"].as_str().unwrap()).unwrap();
    let (mut from_host, mut to_reader) = (host.try_clone().unwrap(), reader.try_clone().unwrap());
    thread::spawn(move || std::io::copy(&mut from_host, &mut to_reader));
    while let Some((kind, payload)) = message::receive(&mut reader, MAX_PAYLOAD).unwrap() {
        if kind == MessageKind::Hello {
            let token = address["token"].as_str().unwrap();
            message::send(&mut host, kind, token.as_bytes()).unwrap();
            continue;
        }
        if !before(kind, &payload) {
            return;
        }
        message::send(&mut host, kind, &payload).unwrap();
    }
}

/// All versions of the operator's table.
fn all_versions(spark: &Spark) -> Request {
    Request::Newest {
        target: target(spark),
        store: "table".to_owned(),
        call: ReadCall {
            rows: ReadRows::Versions,
            ..ReadCall::default()
        },
    }
}

/// A read of keys as they are stored.
fn read_of(spark: &Spark, keys: &[&str]) -> StoredRead<StoredKeys> {
    StoredRead {
        target: target(spark),
        store: "table".to_owned(),
        keys: StoredKeys {
            keys: keys.iter().map(|key| Some(ByteBuf::from(*key))).collect(),
            moments: Moments::default(),
        },
    }
}

/// Connects to a host as a reader of another machine, and returns the answer to the greeting.
fn greeted(address: &Value) -> (Stream, MessageKind) {
    let endpoint: TcpEndpoint = serde_json::from_value(address["endpoint"].clone()).unwrap();
    let mut stream = Endpoint::Tcp(endpoint).connect(PATIENCE).unwrap();
    let token = address["token"].as_str().unwrap();
    message::send(&mut stream, MessageKind::Hello, token.as_bytes()).unwrap();
    let (kind, _) = message::receive(&mut stream, MAX_PAYLOAD).unwrap().unwrap();
    (stream, kind)
}

/// Connects to a host as a reader of another machine.
pub fn reader(address: &Value) -> Stream {
    let (stream, kind) = greeted(address);
    assert_eq!(kind, MessageKind::Welcome);
    stream
}

/// The payload of a request.
fn payload(request: &Request, keys: Option<RecordBatch>) -> Vec<u8> {
    let message = keys.map_or_else(CallMessage::empty, CallMessage::of);
    let message = message.with(READ, read::json(request).unwrap());
    let mut frame = Vec::new();
    message.send(&mut frame, MessageKind::Read).unwrap();
    let (_, payload) = message::receive(&mut &frame[..], MAX_PAYLOAD)
        .unwrap()
        .unwrap();
    payload
}

fn send(stream: &mut Stream, request: &Request) {
    message::send(stream, MessageKind::Read, &payload(request, None)).unwrap();
    stream.flush().unwrap();
}

fn receive(stream: &mut Stream) -> (MessageKind, Vec<u8>) {
    message::receive(stream, MAX_PAYLOAD).unwrap().unwrap()
}

/// Sends a request and returns its answer, which has no rows.
fn answer(stream: &mut Stream, request: &Request) -> ReadAnswer {
    send(stream, request);
    let (_, payload) = receive(stream);
    read::parse(CallMessage::decode(payload).unwrap().attribute(READ)).unwrap()
}

/// The figures of the host.
pub fn figures(stream: &mut Stream, spark: &Spark) -> HostMetrics {
    let root = target(spark).root;
    match answer(stream, &Request::Metrics { root }) {
        ReadAnswer::Metrics { metrics } => metrics,
        other => panic!("{other:?}"),
    }
}

/// Sends a request and returns the batches of its answer.
fn answers(stream: &mut Stream, request: &[u8]) -> Vec<RecordBatch> {
    message::send(stream, MessageKind::Read, request).unwrap();
    stream.flush().unwrap();
    let mut batches = Vec::new();
    loop {
        let (kind, payload) = receive(stream);
        if kind != MessageKind::Answer {
            panic!("{:?}", message::decode_error(&payload));
        }
        let answer = CallMessage::decode(payload).unwrap();
        batches.push(answer.batch.clone());
        match read::parse(answer.attribute(READ)).unwrap() {
            ReadAnswer::Rows { more: true, .. } => {}
            ReadAnswer::Rows { more: false, .. } => return batches,
            other => panic!("{other:?}"),
        }
    }
}
