//! Damaged and hostile messages of a peer that has a reader's token.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use fastrand::Rng;
use holdfast_host::net::message::{self, MessageKind};
use holdfast_host::net::socket::Stream;
use holdfast_host::net::stored_read::{self, StoredRead};
use holdfast_host::tables::{Moments, ReadCall, ReadRows};

use super::{Request, address, payload, read_of, reader, target};
use crate::support::{HostProcess, Spark, TaskRequest, left, matched, right};

const MESSAGES: usize = 10_000;
/// What the host may take more than before, for messages of less than 64 KB each.
const MEMORY: u64 = 96 << 20;

type Message = (MessageKind, Vec<u8>);

/// Whole requests of every kind.
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
    let stored = StoredRead {
        moments: Moments {
            as_of: Some(vec![20, 10]),
            ..Moments::default()
        },
        ..read_of(spark, &["EUR", "USD"])
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
    // A third of them has the kind without checks by Arrow.
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

/// Sends a damaged message and then a request that is refused by its text; returns false if the
/// host has closed the connection.
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

#[test]
fn damaged_messages_neither_crash_a_host_nor_take_memory() {
    let (spark, host) = (Spark::new(), HostProcess::on_a_cluster());
    spark.begin(0);
    TaskRequest::new(&spark, "a", 0)
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
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
    many.keys = vec![None; 8 << 20];
    let many = stored_read::encode(&many).unwrap();
    for keys in [&many[..], &many[..stored_read::MAX_REQUEST]] {
        exchange(
            &mut stream,
            &(MessageKind::ReadStored, keys.to_vec()),
            &last,
        );
    }
    let more = host.peak_memory().saturating_sub(before);
    println!("{more} bytes more");
    assert!(more <= MEMORY, "{more} bytes more");
    assert!(!host.log().contains("this is a bug"), "{}", host.log());
    spark.begin(1);
    let done = TaskRequest::new(&spark, "a", 1)
        .run(host.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
}
