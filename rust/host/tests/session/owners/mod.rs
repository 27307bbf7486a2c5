//! Several hosts on one root, as on a cluster.

mod claims;
mod copies;
mod encryption;
mod false_claims;
mod rebalancing;
mod secrets;
mod stopped_hosts;

use std::fs::{self, TryLockError};
use std::time::Duration;

use holdfast_host::client::Client;
use holdfast_host::net::frame::MAX_PAYLOAD;
use holdfast_host::net::message::{self, MessageKind};
use holdfast_host::net::socket::{Endpoint, Stream};
use holdfast_host::net::tls::Channel;
use holdfast_host::net::writer_key::{ProvingEnd, WriterKey, WriterSecret};
use holdfast_host::protocol::TcpEndpoint;
use serde_json::Value;

use crate::support::{HostProcess, PATIENCE, Spark, TOKEN, TaskRequest, right};

/// How long workers wait for a stopped host.
pub const IMPATIENT: Duration = Duration::from_millis(1_500);

/// Connects to a host; the client waits only briefly for other hosts.
pub fn connect(host: &HostProcess) -> Client {
    Client::connect(&host.socket, TOKEN, IMPATIENT).unwrap()
}

/// Runs epoch 0 with one rate.
pub fn first_epoch(spark: &Spark, client: Client) {
    spark.begin(0);
    TaskRequest::new(spark, "a", 0)
        .run(client, &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
}

/// Whether no host holds the lock of partition 0's first local directory.
pub fn first_directory_is_free(spark: &Spark) -> bool {
    let files = fs::read_dir(spark.local(0))
        .unwrap()
        .map(|file| file.unwrap().path());
    let lock = files
        .into_iter()
        .find(|path| path.to_string_lossy().ends_with(".0.lock"))
        .expect("a lock");
    match fs::File::open(lock).unwrap().try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(error)) => panic!("{error}"),
    }
}

/// Where the host that owns partition 0 listens, by one of the folders with addresses.
pub fn endpoint(spark: &Spark, folder: &str) -> TcpEndpoint {
    serde_json::from_value(published(spark, folder)["endpoint"].take()).unwrap()
}

/// What a host has put below `owners/` or `readers/` for partition 0.
pub fn published(spark: &Spark, folder: &str) -> Value {
    let files = fs::read_dir(spark.path().join(folder).join("join/0")).unwrap();
    let newest = files.map(|file| file.unwrap().path()).max().unwrap();
    serde_json::from_slice(&fs::read(newest).unwrap()).unwrap()
}

/// Connects to a host as another executor does.
pub fn stream(endpoint: &TcpEndpoint) -> std::io::Result<Stream> {
    Endpoint::Tcp(endpoint.clone()).connect(PATIENCE)
}

/// Greets a host as a peer on another machine; returns the stream and the kind of the answer.
pub fn greeted(
    endpoint: &TcpEndpoint,
    greeting: impl FnOnce(&Channel) -> Vec<u8>,
) -> (Stream, MessageKind) {
    let mut stream = stream(endpoint).unwrap();
    let greeting = greeting(&stream.channel().unwrap().expect("it is encrypted"));
    message::send(&mut stream, MessageKind::Hello, &greeting).unwrap();
    let (answer, _) = message::receive(&mut stream, MAX_PAYLOAD).unwrap().unwrap();
    (stream, answer)
}

/// Sends a session's request; returns the kind of the answer.
pub fn opened(mut stream: Stream, task: &TaskRequest) -> MessageKind {
    let open = task.request.to_string();
    message::send(&mut stream, MessageKind::Open, open.as_bytes()).unwrap();
    message::receive(&mut stream, MAX_PAYLOAD)
        .unwrap()
        .unwrap()
        .0
}

/// Returns the proof of a worker that has this secret.
pub fn proof(spark: &Spark, secret: &str) -> impl Fn(&Channel) -> Vec<u8> {
    let meta = fs::read(spark.path().join("meta.json")).unwrap();
    let meta: Value = serde_json::from_slice(&meta).unwrap();
    let secret = WriterSecret(secret.to_owned());
    let location = spark.location();
    let root = location["root"].as_str().unwrap();
    let key = WriterKey::of(&secret, meta["id"].as_str().unwrap(), root);
    move |channel| key.proof(ProvingEnd::Worker, channel).to_vec()
}

pub fn terms(spark: &Spark) -> Vec<String> {
    spark.owners(0).into_iter().map(|(term, _)| term).collect()
}
