use std::sync::mpsc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array};
use futures::future::join_all;
use holdfast_host::protocol::Epoch;
use holdfast_host::reader::Offline;
use tokio::runtime::{Builder, Runtime};

use super::*;

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime")
}

fn kind() -> ReadKind {
    ReadKind {
        operator: "prices".to_owned(),
        store: "table".to_owned(),
        partition: None,
        call: ReadCall::default(),
        from: ReadFrom {
            exactly: None,
            at_least: None,
            timeout: Duration::ZERO,
            offline: Offline::Never,
            isolation_level: None,
            stale_ok: false,
        },
        columns: key(0).schema().fields().clone(),
    }
}

fn key(number: i64) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![number]));
    RecordBatch::try_from_iter([("n", column)]).expect("a column")
}

fn number(rows: &RecordBatch) -> i64 {
    rows.column(0).as_primitive::<Int64Type>().value(0)
}

/// Answers keys with themselves.
fn same(keys: &RecordBatch) -> Result<RowsAtEpoch> {
    // A batch for each row: a large answer has several.
    let batches = (0..keys.num_rows()).map(|row| keys.slice(row, 1));
    Ok(RowsAtEpoch {
        schema: keys.schema(),
        batches: batches.collect(),
        state: AnswerState::of_final(Epoch(7)),
    })
}

async fn all(reads: &Arc<KeyReads>, numbers: std::ops::Range<i64>) -> Vec<KeyAnswer> {
    join_all(numbers.map(|number| reads.read(kind(), key(number)))).await
}

#[test]
fn keys_that_arrive_together_are_read_together() {
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sizes);
    let get: Arc<GetRows> = Arc::new(move |_, keys| {
        seen.lock().push(keys.num_rows());
        same(keys)
    });
    let reads = Arc::new(KeyReads::new(get, Work::new(1)));
    let found = runtime().block_on(all(&reads, 0..100));
    let found = found
        .into_iter()
        .map(|row| number(&row.expect("a row").row));
    assert_eq!(found.collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    let sizes = sizes.lock();
    assert_eq!(sizes.iter().sum::<usize>(), 100);
    assert!(sizes.len() < 100, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size <= MOST), "{sizes:?}");
}

#[test]
fn read_that_does_not_end_does_not_delay_others() {
    let (end, ended) = mpsc::channel::<()>();
    let ended = Mutex::new(ended);
    let get: Arc<GetRows> = Arc::new(move |_, keys| {
        if number(keys) == -1 {
            ended.lock().recv().ok();
        }
        same(keys)
    });
    let reads = Arc::new(KeyReads::new(get, Work::new(4)));
    let (runtime, slow) = (runtime(), Arc::clone(&reads));
    let slow = runtime.spawn(async move { slow.read(kind(), key(-1)).await });
    while reads.queues.lock().values().all(|queue| queue.reading == 0) {
        std::thread::yield_now();
    }
    // The first of them may still be read together with the slow one.
    std::thread::sleep(PATIENCE);
    assert!(
        runtime
            .block_on(all(&reads, 0..3))
            .iter()
            .all(KeyAnswer::is_ok)
    );
    end.send(()).expect("the slow read waits");
    runtime.block_on(slow).expect("no panic").expect("a row");
}

#[test]
fn reads_that_wait_for_one_copy_leave_permits_for_other_partitions() {
    let (end, ended) = mpsc::channel::<()>();
    let ended = Mutex::new(ended);
    let get: Arc<GetRows> = Arc::new(move |kind, keys| {
        if kind.partition == Some(PartitionId(0)) {
            ended.lock().recv().ok();
        }
        same(keys)
    });
    let work = Work::new(MOST_READS + 1);
    let reads = Arc::new(KeyReads::new(get, work.clone()));
    let of = |partition| ReadKind {
        partition: Some(PartitionId(partition)),
        ..kind()
    };
    let runtime = runtime();
    let slow: Vec<_> = (0..10)
        .map(|number| {
            let (reads, kind) = (Arc::clone(&reads), of(0));
            std::thread::sleep(2 * PATIENCE);
            runtime.spawn(async move { reads.read(kind, key(number)).await })
        })
        .collect();
    while work.running() < MOST_READS {}
    let other = runtime.block_on(reads.read(of(1), key(7)));
    other.expect("another partition answers");
    drop(end);
    for row in slow {
        runtime.block_on(row).expect("no panic").expect("a row");
    }
}

#[test]
fn row_that_cannot_be_read_fails_alone() {
    for kind in [ErrorKind::Serialization, ErrorKind::UnsupportedOperation] {
        let get: Arc<GetRows> = Arc::new(move |_, keys| {
            let numbers = keys.column(0).as_primitive::<Int64Type>().values();
            let error = numbers.contains(&3).then(|| Error::new(kind, "of one key"));
            error.map_or_else(|| same(keys), Err)
        });
        let reads = Arc::new(KeyReads::new(get, Work::new(1)));
        let found = runtime().block_on(all(&reads, 0..10));
        for (number, row) in found.iter().enumerate() {
            assert_eq!(row.is_err(), number == 3, "{row:?}");
        }
    }
}

/// A new version of the query has swapped two columns of the key.
#[test]
fn keys_with_other_columns_are_not_read_together() {
    let joined = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&joined);
    let get: Arc<GetRows> = Arc::new(move |kind, keys| {
        seen.lock().push(&kind.columns == keys.schema().fields());
        same(keys)
    });
    let key = |names: [&str; 2], values: [i64; 2]| {
        let column = |value| -> ArrayRef { Arc::new(Int64Array::from(vec![value])) };
        RecordBatch::try_from_iter(names.into_iter().zip(values.map(column))).expect("columns")
    };
    let keys = (0..100).map(|number| {
        let names = if number % 2 == 0 {
            ["a", "b"]
        } else {
            ["b", "a"]
        };
        key(names, [number, -number])
    });
    let keys: Vec<_> = keys.collect();
    let reads = Arc::new(KeyReads::new(get, Work::new(4)));
    let found = runtime().block_on(join_all(keys.iter().map(|key| {
        let columns = key.schema().fields().clone();
        reads.read(ReadKind { columns, ..kind() }, key.clone())
    })));
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(&found.expect("a row").row, key);
    }
    let joined = joined.lock();
    assert!(
        joined.len() < 100 && joined.iter().all(|same| *same),
        "{joined:?}"
    );
}
