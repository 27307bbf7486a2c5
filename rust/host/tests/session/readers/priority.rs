//! Long reads give way to sessions.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use holdfast_host::tables::{ReadCall, ReadRows};

use super::{Request, address, all_versions, answers, payload, reader, target};
use crate::support::{HostProcess, Spark, TaskRequest, right};

/// A read of so many keys.
fn get(spark: &Spark, keys: usize) -> Vec<u8> {
    let request = Request::Newest {
        target: target(spark),
        store: "table".to_owned(),
        call: ReadCall {
            rows: ReadRows::Get,
            ..ReadCall::default()
        },
    };
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["EUR"; keys]));
    payload(
        &request,
        RecordBatch::try_from_iter([("currency", keys)]).ok(),
    )
}

/// How many threads of the host have a lower priority than the host.
fn slow_threads(host: &HostProcess) -> usize {
    let (own, threads) = host.nice_values();
    threads.into_iter().filter(|nice| *nice > own).count()
}

#[test]
fn long_reads_have_a_low_priority_and_a_read_of_a_key_has_not() {
    let (spark, host) = (Spark::new(), HostProcess::on_a_cluster());
    spark.epoch(0, || {
        let task = TaskRequest::new(&spark, "a", 0);
        task.run(host.connect(), &[right("EUR", 10, 100)]).unwrap()
    });
    let address = address(&spark);
    let (mut short, mut many, mut scan) = (reader(&address), reader(&address), reader(&address));
    answers(&mut short, &get(&spark, 1));
    assert_eq!(slow_threads(&host), 0);
    answers(&mut many, &get(&spark, 1_000));
    assert_eq!(slow_threads(&host), 1);
    answers(&mut scan, &payload(&all_versions(&spark), None));
    assert_eq!(slow_threads(&host), 2);
    // A further read does not lower it further.
    answers(&mut scan, &payload(&all_versions(&spark), None));
    let (own, threads) = host.nice_values();
    assert_eq!(threads.into_iter().max(), Some((own + 5).min(19)));
}
