//! Damaged and hostile messages of a peer that has a reader's token.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, Field, FieldArgs, MessageArgs, MessageHeader, MetadataVersion};
use arrow_schema::Schema;
use fastrand::Rng;
use flatbuffers::FlatBufferBuilder;
use holdfast_core::ErrorKind;
use holdfast_host::net::message::{self, MessageKind};
use holdfast_host::net::read::{self, READ};
use holdfast_host::net::request::{MAX_REQUEST, USUAL_REQUEST};
use holdfast_host::net::socket::Stream;
use holdfast_host::net::stored_read;
use holdfast_host::tables::{Moments, ReadCall, ReadRows};

use super::{Request, address, payload, read_of, reader, receive, target};
use crate::support::{HostProcess, Spark, TaskRequest, left, matched, right};

const MESSAGES: usize = 10_000;
/// How much more memory the host may take for all damaged messages.
const MEMORY: u64 = 96 << 20;

/// How much more memory the host may take for one message of at most 64 KiB.
const CLAIM: u64 = 8 << 20;

type Message = (MessageKind, Vec<u8>);

/// Whole requests: all reads of a table, a pin, an unpin, and a read of stored rows.
fn requests(spark: &Spark) -> Vec<Message> {
    let keys = |keys: &[&str]| {
        let keys: ArrayRef = Arc::new(StringArray::from(keys.to_vec()));
        RecordBatch::try_from_iter([("key", keys)]).unwrap()
    };
    let rows = [
        (ReadRows::Get, Some(keys(&["EUR", "USD"]))),
        (ReadRows::All, None),
        (ReadRows::Prefix, Some(keys(&["E"]))),
        (ReadRows::From, Some(keys(&["E"]))),
        (ReadRows::To, Some(keys(&["F"]))),
        (ReadRows::Between, Some(keys(&["A", "Z"]))),
        (ReadRows::VersionsOfKey, Some(keys(&["EUR"]))),
        (ReadRows::Versions, None),
    ];
    let newest = rows.into_iter().map(|(rows, keys)| {
        let request = Request::Newest {
            target: target(spark),
            store: "table".to_owned(),
            call: ReadCall {
                rows,
                as_of: Some(20),
                limit: Some(10),
                columns: Some(vec!["rate".to_owned()]),
                ..ReadCall::default()
            },
        };
        payload(&request, keys)
    });
    let pin = Request::Pin {
        target: target(spark),
    };
    let unpin = Request::Unpin { view: 1 };
    let mut stored = read_of(spark, &["EUR", "USD"]);
    stored.keys.moments = Moments {
        as_of: Some(vec![20, 10]),
        ..Moments::default()
    };
    newest
        .chain([payload(&pin, None), payload(&unpin, None)])
        .map(|payload| (MessageKind::Read, payload))
        .chain([(
            MessageKind::ReadStored,
            stored_read::encode(&stored).unwrap(),
        )])
        .collect()
}

/// One of the requests with a few changes, or random bytes.
fn damaged(requests: &[Message], rng: &mut Rng) -> Message {
    if rng.u8(..16) == 0 {
        let kind = *rng
            .choice(&[MessageKind::Read, MessageKind::ReadStored])
            .unwrap();
        return (kind, (0..rng.usize(..500)).map(|_| rng.u8(..)).collect());
    }
    // At least a third of the messages are of the kind that Arrow does not check.
    let (kind, mut bytes) = match rng.u8(..3) {
        0 => requests.last().unwrap().clone(),
        _ => rng.choice(requests).unwrap().clone(),
    };
    for _ in 0..rng.usize(1..4) {
        let at = rng.usize(..bytes.len().max(1)).min(bytes.len());
        match rng.u8(..5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, rng.u8(..)),
            2 if at < bytes.len() => bytes[at] ^= 1 << rng.u8(..8),
            // Extreme values of lengths and counts.
            3 if at < bytes.len() => bytes[at] = *rng.choice(&[0, 1, 0x7f, 0x80, 0xff]).unwrap(),
            _ => {
                let (_, other) = rng.choice(requests).unwrap();
                bytes.truncate(at);
                bytes.extend_from_slice(&other[at.min(other.len())..]);
            }
        }
    }
    (kind, bytes)
}

/// Sends a damaged message and then a request that the host refuses with [`NO_VIEW`]. Returns false
/// if the host has closed the connection.
fn exchange(stream: &mut Stream, (kind, bytes): &Message, last: &[u8]) -> bool {
    let sent = message::send(stream, *kind, bytes)
        .and_then(|()| message::send(stream, MessageKind::Read, last));
    if sent.is_err() {
        return false;
    }
    loop {
        match message::receive(stream, 1 << 26) {
            Ok(Some((MessageKind::Refused, payload)))
                if message::decode_error(&payload)
                    .to_string()
                    .contains(NO_VIEW) =>
            {
                return true;
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return false,
        }
    }
}

const NO_VIEW: &str = "no view 18446744073709551615";

/// A host with one rate in epoch 0.
fn started() -> (Spark, HostProcess) {
    let (spark, host) = (Spark::new(), HostProcess::on_a_cluster());
    spark.begin(0);
    TaskRequest::new(&spark, "a", 0)
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
    (spark, host)
}

/// Checks that the host runs the next epoch.
fn check_serves(spark: &Spark, host: &HostProcess) {
    assert!(!host.log().contains("this is a bug"), "{}", host.log());
    spark.begin(1);
    let done = TaskRequest::new(spark, "a", 1)
        .run(host.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
}

#[test]
fn damaged_messages_neither_crash_a_host_nor_take_memory() {
    let (spark, host) = started();
    let (requests, address) = (requests(&spark), address(&spark));
    let last = Request::Rows {
        view: u64::MAX,
        store: String::new(),
        call: ReadCall::default(),
    };
    let last = payload(&last, None);
    let mut stream = reader(&address);
    for request in &requests {
        assert!(exchange(&mut stream, request, &last), "a whole request");
    }
    let before = host.peak_memory();
    let mut rng = Rng::with_seed(23);
    for n in 0..MESSAGES {
        let is_open = if n % 100 == 0 {
            // A length that no payload follows, an unknown kind, a message of a session.
            let frame = [
                &[7, 0xff, 0xff, 0xff, 0x3f, 1][..],
                &[200, 1, 0, 0, 0, 0][..],
                &[2, 2, 0, 0, 0, b'{', b'}'][..],
            ][n / 100 % 3];
            drop(stream.write_all(frame).and_then(|()| stream.flush()));
            false
        } else {
            exchange(&mut stream, &damaged(&requests, &mut rng), &last)
        };
        if !is_open {
            stream = reader(&address);
        }
    }
    // As many keys as fit: each takes a byte of the message and 32 of memory.
    let mut many = read_of(&spark, &[]);
    many.keys.keys = vec![None; 1 << 20];
    let many = stored_read::encode(&many).unwrap();
    for keys in [&many[..], &many[..USUAL_REQUEST]] {
        let keys = (MessageKind::ReadStored, keys.to_vec());
        assert!(exchange(&mut stream, &keys, &last));
    }
    let more = host.peak_memory().saturating_sub(before);
    println!("{more} bytes more");
    assert!(more <= MEMORY, "{more} bytes more");
    check_serves(&spark, &host);
}

#[test]
fn request_above_the_limit_is_refused_before_it_arrives() {
    let (spark, host) = started();
    let address = address(&spark);
    let too_large = u32::try_from(MAX_REQUEST).unwrap() + 1;
    for kind in [
        MessageKind::Read,
        MessageKind::ReadStored,
        MessageKind::Echo,
    ] {
        for length in [too_large, 1 << 30, u32::MAX] {
            let mut stream = reader(&address);
            let header = [&[kind as u8][..], &length.to_le_bytes()].concat();
            stream.write_all(&header).unwrap();
            stream.flush().unwrap();
            let (answer, payload) = receive(&mut stream);
            assert_eq!(answer, MessageKind::Error);
            let error = message::decode_error(&payload);
            assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
            assert!(error.to_string().contains(&length.to_string()), "{error}");
        }
    }
    check_serves(&spark, &host);
}

/// A request whose compressed column claims 64 TiB.
fn compressed(json: &str) -> Vec<u8> {
    let zeros: ArrayRef = Arc::new(Int64Array::from(vec![0; 1_000]));
    let batch = RecordBatch::try_from_iter([("n", zeros)]).unwrap();
    let schema = batch.schema().as_ref().clone();
    let schema = schema.with_metadata(HashMap::from([(READ.to_owned(), json.to_owned())]));
    let options = IpcWriteOptions::default()
        .try_with_compression(Some(CompressionType::LZ4_FRAME))
        .unwrap();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
    writer.write(&batch).unwrap();
    let mut bytes = writer.into_inner().unwrap();
    let claim = bytes
        .windows(8)
        .position(|bytes| bytes == 8_000_i64.to_le_bytes())
        .unwrap();
    bytes[claim..claim + 8].copy_from_slice(&(1_i64 << 46).to_le_bytes());
    bytes
}

/// A schema of a few kilobytes that describes 450,000 columns, because all of them refer to the
/// bytes of one column.
fn repeated_columns() -> Vec<u8> {
    let mut message = FlatBufferBuilder::new();
    let name = message.create_string("n");
    let null = arrow_ipc::Null::create(&mut message, &arrow_ipc::NullArgs {});
    let column = FieldArgs {
        name: Some(name),
        type_type: arrow_ipc::Type::Null,
        type_: Some(null.as_union_value()),
        ..FieldArgs::default()
    };
    let column = Field::create(&mut message, &column);
    let children = message.create_vector(&vec![column; 1_000]);
    let group = arrow_ipc::Struct_::create(&mut message, &arrow_ipc::Struct_Args {});
    let group = FieldArgs {
        name: Some(name),
        type_type: arrow_ipc::Type::Struct_,
        type_: Some(group.as_union_value()),
        children: Some(children),
        ..FieldArgs::default()
    };
    let group = Field::create(&mut message, &group);
    let fields = message.create_vector(&vec![group; 450]);
    let schema = arrow_ipc::SchemaArgs {
        fields: Some(fields),
        ..arrow_ipc::SchemaArgs::default()
    };
    let schema = arrow_ipc::Schema::create(&mut message, &schema);
    let whole = MessageArgs {
        version: MetadataVersion::V5,
        header_type: MessageHeader::Schema,
        header: Some(schema.as_union_value()),
        ..MessageArgs::default()
    };
    let whole = arrow_ipc::Message::create(&mut message, &whole);
    message.finish(whole, None);
    let mut metadata = message.finished_data().to_vec();
    metadata.resize(metadata.len().next_multiple_of(8), 0);
    let length = u32::try_from(metadata.len()).unwrap().to_le_bytes();
    let end = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    [&[0xff; 4][..], &length, &metadata, &end].concat()
}

/// Requests that are small, and whose answer or whose decoding could take much memory.
fn claims(spark: &Spark) -> Vec<(&'static str, Vec<u8>)> {
    let request = |call| Request::Newest {
        target: target(spark),
        store: "table".to_owned(),
        call,
    };
    let all = request(ReadCall::default());
    let rows = RecordBatchOptions::new().with_row_count(Some(1 << 46));
    let rows = RecordBatch::try_new_with_options(Schema::empty().into(), Vec::new(), &rows);
    let as_of = request(ReadCall {
        rows: ReadRows::Get,
        as_of: Some(20),
        ..ReadCall::default()
    });
    let columns = request(ReadCall {
        columns: Some(vec!["rate".to_owned(); 5_000]),
        ..ReadCall::default()
    });
    vec![
        ("compressed", compressed(&read::json(&all).unwrap())),
        ("rows without columns", payload(&as_of, rows.ok())),
        ("a column many times", payload(&columns, None)),
        ("columns that are the same", repeated_columns()),
    ]
}

#[test]
fn small_messages_that_claim_much_memory_are_refused() {
    let (spark, host) = started();
    let address = address(&spark);
    for (name, claim) in claims(&spark) {
        assert!(claim.len() <= USUAL_REQUEST, "{name}: {}", claim.len());
        let mut stream = reader(&address);
        let before = host.peak_memory();
        message::send(&mut stream, MessageKind::Read, &claim).unwrap();
        let (kind, payload) = receive(&mut stream);
        let more = host.peak_memory().saturating_sub(before);
        println!(
            "{name}: {more} bytes more: {}",
            message::decode_error(&payload)
        );
        assert_eq!(kind, MessageKind::Refused, "{name}");
        assert!(more <= CLAIM, "{name}: {more} bytes more");
    }
    check_serves(&spark, &host);
}
