//! Connections between machines are encrypted, and hosts prove their keys.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use holdfast_host::protocol::KeyFingerprint;
use parking_lot::Mutex;

use super::claims::only_claim;
use super::{endpoint, first_epoch, stream, terms};
use crate::support::{Host, SECRET, Spark, TOKEN, TaskRequest, left, matched};

/// A network between hosts that records all bytes; returns its address and the bytes.
fn recorder(endpoint: String) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&recorded);
    thread::spawn(move || {
        while let Ok((near, _)) = listener.accept() {
            let far = TcpStream::connect(&endpoint).unwrap();
            for (mut from, mut to) in [
                (near.try_clone().unwrap(), far.try_clone().unwrap()),
                (far, near),
            ] {
                let record = Arc::clone(&record);
                thread::spawn(move || {
                    let mut bytes = [0; 4096];
                    while let Ok(count @ 1..) = from.read(&mut bytes) {
                        record.lock().extend_from_slice(&bytes[..count]);
                        to.write_all(&bytes[..count])?;
                    }
                    to.shutdown(Shutdown::Both)
                });
            }
        }
    });
    (address, recorded)
}

#[test]
fn secret_and_rows_are_not_readable_on_the_network() {
    let spark = Spark::new();
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    first_epoch(&spark, a.connect());
    let (claim, address) = (only_claim(&spark), endpoint(&spark, "owners").address);
    let (between, recorded) = recorder(address.clone());
    let text = fs::read_to_string(&claim).unwrap();
    fs::write(&claim, text.replace(&address, &between)).unwrap();
    spark.begin(1);
    let done = TaskRequest::new(&spark, "a", 1)
        .run(b.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    assert_eq!(terms(&spark), ["1.1"], "the session was over the network");
    let recorded = recorded.lock();
    assert!(recorded.len() > 2_000, "{} bytes", recorded.len());
    for secret in [SECRET, "EUR", "partition", "ARROW"] {
        let is_visible = recorded
            .windows(secret.len())
            .any(|bytes| bytes == secret.as_bytes());
        assert!(!is_visible, "{secret}");
    }
}

#[test]
fn host_with_another_key_is_not_the_owner() {
    let spark = Spark::new();
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    first_epoch(&spark, a.connect());
    // Any process may listen at the owner's port by now.
    let (claim, owner) = (only_claim(&spark), endpoint(&spark, "owners"));
    let other = KeyFingerprint([7; 32]);
    let text = fs::read_to_string(&claim)
        .unwrap()
        .replace(&owner.key.to_string(), &other.to_string());
    fs::write(&claim, text.replace(r#""host":""#, r#""host":"before-"#)).unwrap();
    let refused = stream(&endpoint(&spark, "owners")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    spark.begin(1);
    let done = TaskRequest::new(&spark, "a", 1)
        .run(b.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    assert_eq!(terms(&spark), ["1.1", "1.2"]);
}

#[test]
fn peers_that_do_not_speak_tls_harm_no_session() {
    let spark = Spark::new();
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    first_epoch(&spark, a.connect());
    let owner = endpoint(&spark, "owners");
    let connect = || TcpStream::connect(&owner.address).unwrap();
    // One peer sends nothing, one stops within the head of its first message.
    let silent = connect();
    let mut half = connect();
    half.write_all(&[0x16, 3, 1, 2]).unwrap();
    let hello = [&b"\x01\x07\0\0\0"[..], TOKEN.as_bytes()].concat();
    for greeting in [
        &hello,
        &b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        &vec![0xff; 70_000],
    ] {
        let mut peer = connect();
        // The host may close the connection before it has everything.
        peer.write_all(greeting).ok();
        let mut answer = Vec::new();
        peer.read_to_end(&mut answer).ok();
        // At most a TLS alert.
        assert!(answer.len() <= 7, "{answer:?}");
    }
    spark.begin(1);
    let done = TaskRequest::new(&spark, "a", 1)
        .run(b.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    assert_eq!(terms(&spark), ["1.1"], "a serves it, over the network");
    // The host ends although they are connected.
    drop((a, b));
    let end = |mut peer: TcpStream| -> io::Result<usize> { peer.read(&mut [0; 8]) };
    assert!(matches!(end(silent), Ok(0) | Err(_)));
    assert!(matches!(end(half), Ok(0) | Err(_)));
}
