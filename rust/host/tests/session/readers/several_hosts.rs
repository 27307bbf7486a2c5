//! Several hosts answer a reader at the same time.

use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use holdfast_host::reader::{CacheSettings, Offline, ReadFrom, StateReader};
use holdfast_host::root::StorageOptions;
use holdfast_host::tables::{ReadCall, ReadRows};
use serde_json::Value;

use super::{pass_on, put_proxy};
use crate::support::{Host, Spark, TaskRequest, right};

/// Passes requests on to a host, each when the other proxy has one, too: `other` is to it, and from
/// it.
fn serve(proxied: &(UnixListener, Value), (to_other, of_other): &(Sender<()>, Receiver<()>)) {
    pass_on(proxied, |_, _| {
        to_other.send(()).unwrap_or_default();
        // A reader that asks one host after the other waits here, and then for this host.
        of_other.recv_timeout(Duration::from_secs(5)).is_ok()
    });
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
    for (partition, other) in [(0, (to_two, of_one)), (1, (to_one, of_two))] {
        let proxied = put_proxy(&spark, partition, folder.path());
        thread::spawn(move || serve(&proxied, &other));
    }
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
