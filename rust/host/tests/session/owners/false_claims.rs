//! Claims below `owners/` that a process without the driver's secret has written.

use std::fs;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use holdfast_host::net::frame::MAX_PAYLOAD;
use holdfast_host::net::message::{self, MessageKind};
use holdfast_host::net::socket::Stream;
use holdfast_host::net::tls::HostKey;
use holdfast_host::protocol::TcpEndpoint;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::claims::only_claim;
use super::{first_epoch, terms};
use crate::support::{Host, PATIENCE, Spark, TaskRequest, left, matched};

type Message = (MessageKind, Vec<u8>);
type Welcome = fn(&[u8]) -> Vec<u8>;

/// A process that answers each greeting with a `Welcome`, whose content it makes from the greeting.
/// Returns where it listens, and the messages that it gets after the greeting.
fn impostor(welcome: Welcome) -> (TcpEndpoint, Arc<Mutex<Vec<Message>>>) {
    let key = HostKey::generate().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = TcpEndpoint {
        address: listener.local_addr().unwrap().to_string(),
        key: key.fingerprint(),
    };
    let messages = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&messages);
    thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            let mut stream = Stream::accepted(socket, &key).unwrap();
            stream.handshake(Instant::now() + PATIENCE).unwrap();
            let greeting = message::receive(&mut stream, MAX_PAYLOAD).unwrap();
            let (_, greeting) = greeting.unwrap();
            message::send(&mut stream, MessageKind::Welcome, &welcome(&greeting)).unwrap();
            if let Ok(Some(message)) = message::receive(&mut stream, MAX_PAYLOAD) {
                received.lock().push(message);
            }
        }
    });
    (endpoint, messages)
}

#[test]
fn request_is_not_sent_to_a_process_without_the_writers_key() {
    // Nothing, the worker's own proof, and a guess.
    let welcomes: [Welcome; 3] = [
        |_| Vec::new(),
        |greeting| greeting.to_vec(),
        |_| vec![7; 32],
    ];
    for welcome in welcomes {
        let spark = Spark::new();
        let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
        first_epoch(&spark, a.connect());
        let (endpoint, messages) = impostor(welcome);
        let claim = only_claim(&spark);
        let mut content: Value = serde_json::from_slice(&fs::read(&claim).unwrap()).unwrap();
        content["endpoint"] = json!(endpoint);
        content["host"] = json!("an impostor");
        fs::write(&claim, content.to_string()).unwrap();
        spark.begin(1);
        let started = Instant::now();
        let done = TaskRequest::new(&spark, "a", 1)
            .run(b.connect(), &[left("EUR", 10, 1)])
            .unwrap();
        assert_eq!(done.rows, [matched(1, 100, 10)]);
        assert!(messages.lock().is_empty(), "{:?}", messages.lock());
        assert_eq!(terms(&spark), ["1.1", "1.2"], "b serves it");
        assert!(started.elapsed() < PATIENCE / 4, "nothing waits for it");
    }
}
