//! Several hosts answer a reader at the same time.

use std::fs;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use holdfast_host::protocol::Epoch;
use holdfast_host::reader::{CacheSettings, Offline, ReadFrom, RowsAtEpoch, StateReader};
use holdfast_host::root::StorageOptions;
use holdfast_host::tables::{ReadCall, ReadRows};
use serde_json::Value;

use super::{pass_on, put_proxy};
use crate::owners::{connect, first_epoch};
use crate::support::{Host, HostProcess, Spark, TaskRequest, right};

/// Passes a request on to a host once the other proxy has a request, too. The channels lead to the
/// other proxy and from it.
fn serve(proxied: &(UnixListener, Value), (to_other, of_other): &(Sender<()>, Receiver<()>)) {
    pass_on(proxied, |_, _| {
        to_other.send(()).unwrap_or_default();
        // If a reader asks one host after the other, the other request never comes. This waits
        // until its time is over, and passes nothing on.
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
    let found = reader
        .get(table, &call, &keys, from(Offline::Never))
        .unwrap();
    assert_eq!(rates(&found), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn former_host_of_a_partition_does_not_answer_with_an_old_epoch() {
    let spark = Spark::new();
    let (former, other) = (HostProcess::on_a_cluster(), HostProcess::on_a_cluster());
    first_epoch(&spark, connect(&former));
    let addresses = || {
        let files = fs::read_dir(spark.path().join("readers/join/0")).unwrap();
        files.map(|file| file.unwrap().path()).collect::<Vec<_>>()
    };
    let [of_former] = &addresses()[..] else {
        panic!("one address")
    };
    let address = fs::read(of_former).unwrap();
    former.stop();
    spark.epoch(1, || {
        TaskRequest::new(&spark, "a", 1)
            .run(connect(&other), &[right("EUR", 20, 200)])
            .unwrap()
    });
    former.wake();
    // As if the other host could not put its address.
    addresses()
        .iter()
        .for_each(|file| fs::remove_file(file).unwrap());
    fs::write(of_former, address).unwrap();
    let root = spark.path().to_str().unwrap();
    let options = StorageOptions::default();
    let reader = StateReader::connect(root, &options, CacheSettings::default()).unwrap();
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["EUR"]));
    let keys = RecordBatch::try_from_iter([("currency", keys)]).unwrap();
    let call = ReadCall {
        rows: ReadRows::Get,
        ..ReadCall::default()
    };
    let found = reader.get(("join", "table"), &call, &keys, from(Offline::Auto));
    let found = found.unwrap();
    assert_eq!((found.state.epoch, rates(&found)), (Epoch(1), vec![200]));
}

fn from(offline: Offline) -> ReadFrom {
    ReadFrom {
        exactly: None,
        at_least: None,
        timeout: Duration::from_secs(1),
        offline,
        isolation_level: None,
        stale_ok: false,
    }
}

fn rates(found: &RowsAtEpoch) -> Vec<i64> {
    let rates = found.batches.iter().flat_map(|rows| {
        let rates = rows["rate"].as_primitive::<Int64Type>();
        rates.values().to_vec()
    });
    rates.collect()
}
