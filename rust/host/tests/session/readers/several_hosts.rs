//! Several hosts answer a reader at the same time.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use holdfast_host::net::frame::MAX_PAYLOAD;
use holdfast_host::net::message::{self, MessageKind};
use holdfast_host::reader::{CacheSettings, Offline, ReadFrom, StateReader};
use holdfast_host::root::StorageOptions;
use holdfast_host::tables::{ReadCall, ReadRows};
use serde_json::{Value, json};

use crate::support::{Host, Spark, TaskRequest, right};

/// Passes a reader's requests on to a host, each when the other proxy has one, too.
struct Proxy {
    /// The address that the host has put for the partition.
    address: Value,
    /// To the other proxy, and from it.
    other: (Sender<()>, Receiver<()>),
}

impl Proxy {
    fn serve(self, listener: &UnixListener) {
        let (mut reader, _) = listener.accept().unwrap();
        let mut host = UnixStream::connect(self.address["socket"].as_str().unwrap()).unwrap();
        let (mut from_host, mut to_reader) =
            (host.try_clone().unwrap(), reader.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut from_host, &mut to_reader));
        while let Some((kind, payload)) = message::receive(&mut reader, MAX_PAYLOAD).unwrap() {
            if kind == MessageKind::Hello {
                let token = self.address["token"].as_str().unwrap();
                message::send(&mut host, kind, token.as_bytes()).unwrap();
                continue;
            }
            self.other.0.send(()).unwrap_or_default();
            // A reader that asks one host after the other waits here, and then for this host.
            if self.other.1.recv_timeout(Duration::from_secs(5)).is_err() {
                return;
            }
            message::send(&mut host, kind, &payload).unwrap();
            host.flush().unwrap();
        }
    }
}

/// Puts a proxy between readers and the host of a partition.
fn put_proxy(spark: &Spark, partition: i32, folder: &Path, other: (Sender<()>, Receiver<()>)) {
    let published = spark.path().join(format!("readers/join/{partition}"));
    let files = std::fs::read_dir(published).unwrap();
    let file: PathBuf = files.map(|file| file.unwrap().path()).max().unwrap();
    let address: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let socket = folder.join(partition.to_string());
    let listener = UnixListener::bind(&socket).unwrap();
    let mut proxied = address.clone();
    proxied["socket"] = json!(socket);
    proxied["endpoint"] = Value::Null;
    // Readers know a host by its token.
    proxied["token"] = json!(format!("proxy {partition}"));
    std::fs::write(&file, serde_json::to_vec(&proxied).unwrap()).unwrap();
    let proxy = Proxy { address, other };
    thread::spawn(move || proxy.serve(&listener));
}

#[test]
fn read_of_keys_asks_all_hosts_at_the_same_time() {
    let (spark, host) = (Spark::new(), Host::start());
    let names = ["AUD", "CHF", "CZK", "EUR", "GBP", "JPY", "NOK", "SEK"];
    spark.epoch(0, || {
        for partition in [0, 1] {
            let rows = names.iter().zip(0_i64..);
            let rows: Vec<_> = rows.map(|(name, rate)| right(name, 1, rate)).collect();
            let task = TaskRequest::new(&spark, "a", 0).partition(partition, 2);
            task.run(host.connect(), &rows).unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let ((to_one, of_one), (to_two, of_two)) = (channel(), channel());
    put_proxy(&spark, 0, folder.path(), (to_two, of_one));
    put_proxy(&spark, 1, folder.path(), (to_one, of_two));
    let root = spark.path().to_str().unwrap();
    let options = StorageOptions::default();
    let reader = StateReader::connect(root, &options, CacheSettings::default()).unwrap();
    let keys: ArrayRef = Arc::new(StringArray::from(names.to_vec()));
    let keys = RecordBatch::try_from_iter([("currency", keys)]).unwrap();
    let table = ("join", "table");
    let places = reader.places(table, &keys).unwrap().unwrap();
    assert!(places.iter().any(|place| *place != places[0]), "one host");
    let call = ReadCall {
        rows: ReadRows::Get,
        ..ReadCall::default()
    };
    let from = ReadFrom {
        exactly: None,
        at_least: None,
        timeout: Duration::from_secs(1),
        offline: Offline::Never,
        isolation_level: None,
        stale_ok: false,
    };
    let found = reader.get(table, &call, &keys, from).unwrap();
    let rates = found.batches.iter().flat_map(|rows| {
        let rates = rows["rate"].as_primitive::<Int64Type>();
        rates.values().to_vec()
    });
    assert_eq!(rates.collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
}
