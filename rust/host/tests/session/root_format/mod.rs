//! A root of the current formats (`tests/data/root-v1`): each kind of object is read from it, and
//! the query continues.
//!
//! `scripts/fixtures root` writes it anew. A change that makes this test fail needs a new format
//! number, or must read the older format, too.

mod kinds;
mod write;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use arrow_ipc::reader::FileReader;
use arrow_schema::{DataType, Field, Schema};
use holdfast_core::Result;
use holdfast_host::protocol::{Epoch, Generation, OperatorName, PartitionId, RunNumber, Term};
use holdfast_host::root::FollowerName;
use serde_json::json;

use crate::process::{calling, done, get, operator as processor, put};
use crate::support::{
    HEARTBEAT, Host, Joined, QUERY, Row, Spark, TaskRequest, batch, deleted, heartbeat, joined,
    left, matched, right, unmatched,
};
use kinds::{KINDS, kinds};
use write::write;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/root-v1");
/// The time of the far-future rows.
const FAR: i64 = 1_000_000_000_000;
/// No operator ran in this epoch.
const SKIPPED: i64 = 2;
/// The first epoch of the run after the rewind.
const REWOUND: i64 = 4;
/// The heartbeat is the only row of this epoch.
const IDLE: i64 = 5;
/// The last epoch of the fixture. The records of its join are in a chunk.
const LAST: i64 = 6;

fn name(operator: &str) -> OperatorName {
    OperatorName::new(operator).unwrap()
}

/// A task of the fixture's queries; `application` is Spark's.
fn task(spark: &Spark, (application, run): (&str, &str), epoch: i64) -> TaskRequest {
    let mut task = TaskRequest::new(spark, run, epoch);
    task.request["application"] = application.into();
    task.request["settings"]["retain_epochs"] = 1_000.into();
    // A snapshot is due in the epochs 1 and 3: of the epochs 0 and 2.
    let is_due = epoch == 1 || epoch == SKIPPED + 1;
    task.request["settings"]["snapshot_interval"] =
        (if is_due { 0_u64 } else { 3_600_000_000 }).into();
    task
}

/// Adds a column that the stored rows of the first run do not have.
fn extended(rows: &RecordBatch) -> RecordBatch {
    let mut fields = rows.schema().fields().to_vec();
    fields.push(Arc::new(Field::new("r2", DataType::Int64, true)));
    let mut columns = rows.columns().to_vec();
    columns.push(Arc::new(Int64Array::from(vec![Some(7); rows.num_rows()])));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// Runs the tasks of an epoch's two operators: the join, and a processor that counts the epoch.
/// Returns the results of the join, and the processor's earlier count.
fn compute(
    (spark, host): (&Spark, &Host),
    of: (&str, &str),
    epoch: i64,
    rows: &[Row],
) -> (Vec<Joined>, Option<String>) {
    spark.begin_with_heartbeat(epoch, epoch, epoch);
    let mut join = task(spark, of, epoch);
    join.request["operator"]["max_ahead"] = (FAR / 2).into();
    let mut input = vec![batch(0, rows), heartbeat(0, HEARTBEAT)];
    if epoch >= REWOUND {
        join.request["operator"]["right"] = json!(["rate", "note", "extra"]);
        input = input.iter().map(extended).collect();
    }
    let mut client = host.connect();
    client.open(&join.request.to_string()).unwrap();
    input.iter().for_each(|batch| client.push(batch).unwrap());
    let output = client
        .finish()
        .unwrap()
        .collect::<Result<Vec<_>>>()
        .unwrap();

    let stores = json!([{"name": "hits", "kind": "key_value", "value_serde": "626f6f6c"}]);
    let visits = task(spark, of, epoch)
        .with("/operator", processor(&stores))
        .with("/operator/name", "visits");
    let mut client = calling(&visits, host.connect(), rows);
    let before = get(&mut client, &["epoch"]).remove(0);
    put(&mut client, &["epoch"], &[&epoch.to_string()]);
    done(client);
    (output.iter().flat_map(joined).collect(), before)
}

/// The rows of an epoch: a rate and a row that joins it; a key that epoch 1 deletes; a far-future
/// row.
fn rows(epoch: i64, rate: i64) -> Vec<Row> {
    let usd = match epoch {
        1 => deleted("USD", 1),
        _ => right("USD", 0, 8),
    };
    let mut rows = vec![
        right("EUR", epoch * 10, rate),
        left("EUR", epoch * 10 + 5, epoch),
    ];
    rows.extend((epoch <= 1).then_some(usd));
    rows.push(left("EUR", FAR, 100 + epoch));
    rows
}

/// A copy of the fixture, as the root of a query.
fn fixture() -> Spark {
    let spark = Spark::new();
    Spark::replace_root(Path::new(FIXTURE), spark.path());
    spark
}

#[test]
fn fixture_has_all_kinds_of_objects_that_are_written_today() {
    let written = Spark::new();
    write(&written);
    let kinds_of_fixture = kinds(Path::new(FIXTURE));
    assert_eq!(kinds(written.path()), kinds_of_fixture);
    assert_eq!(kinds_of_fixture, KINDS.map(str::to_owned).into());
}

#[test]
fn objects_of_the_current_formats_are_read() {
    let spark = fixture();
    let root = spark.open_root();
    let report = root.verify(&mut |_| Ok(())).unwrap();
    assert_eq!(report.damage, []);
    assert!(report.objects > 40, "{report:?}");

    assert_eq!(root.identity.query().unwrap(), (QUERY.to_owned(), 1));
    assert_eq!(root.identity.id().unwrap().len(), 32);
    let run = root.runs.newest().unwrap().unwrap();
    assert_eq!((run.number, run.run_id.as_str()), (RunNumber(3), "c"));
    assert_eq!(run.first_epoch, Epoch(REWOUND));
    let newest = Term {
        run: RunNumber(3),
        generation: Generation(1),
    };
    for operator in ["join", "visits"].map(name) {
        let owner = root.owners.newest(&operator, PartitionId(0)).unwrap();
        let owner = owner.unwrap();
        assert_eq!((owner.term, owner.endpoint.is_some()), (newest, true));
        assert_eq!(owner.application.as_deref(), Some("writer"));
        let address = root.readers.newest(&operator, PartitionId(0)).unwrap();
        assert_eq!(address.unwrap().token, "token");
    }

    let join = root.operators.recorded(&name("join")).unwrap();
    let columns = |version: usize| join.payloads[version].right.len();
    assert_eq!((join.payloads.len(), columns(0), columns(1)), (2, 2, 3));
    let visits = root.operators.recorded(&name("visits")).unwrap();
    assert_eq!(visits.meta.kind, "process");
    assert_eq!(visits.payloads[0].serdes.len(), 1);

    let decided = |epoch| root.decisions.recorded(Epoch(epoch)).unwrap().unwrap();
    let runs: Vec<_> = (0..LAST).map(|epoch| decided(epoch).run).collect();
    let [first, second] = [Some(RunNumber(1)), Some(RunNumber(3))];
    assert_eq!(runs, [first, first, None, first, second, second]);
    assert_eq!(decided(REWOUND).rewind, RunNumber(2));
    assert_eq!(root.decisions.recorded(Epoch(LAST)).unwrap(), None);
    let counts = decided(0).of(&name("join"), PartitionId(0)).unwrap().counts;
    assert_eq!((counts.input_rows, counts.ahead), (3, 1));

    let heads = root.log.list(Some(&name("join")), Epoch(LAST)).unwrap();
    let head = root.log.head(Epoch(LAST), &heads[0]).unwrap().unwrap();
    assert_eq!((head.header.chunks.len(), head.records.len()), (1, 0));
    let records = root
        .log
        .chunk(&head.header, &head.header.chunks[0])
        .unwrap();
    assert_eq!(records.len() as u64, head.header.records);
    let idle = decided(IDLE);
    let idle = idle.of(&name("join"), PartitionId(0)).unwrap();
    assert_eq!(idle.idle_since, Some(IDLE * 1_000_000));

    let trims = root.log.trims().unwrap();
    let mark = Some((Epoch(1), RunNumber(1)));
    assert_eq!(trims.find(Epoch(0), RunNumber(0)), mark);
    let followers = root.followers.list().unwrap();
    assert_eq!(followers[&FollowerName::new("billing").unwrap()], Epoch(1));
    assert_eq!(root.log.newest_rewind().unwrap(), RunNumber(2));
    for epoch in [0, 1, 3, REWOUND, LAST] {
        assert_eq!(far_future(&spark, epoch), [100 + epoch]);
    }
    let snapshots = root.snapshots.list(&name("join"), PartitionId(0)).unwrap();
    let epochs: Vec<Epoch> = snapshots.iter().map(|id| id.epoch).collect();
    assert_eq!(epochs, [Epoch(SKIPPED), Epoch(0)]);
    let place = spark.path().join("fetched");
    root.snapshots
        .fetch(&snapshots[0], &place, &|_| ())
        .unwrap();
    assert!(place.join("CURRENT").exists());
}

/// The ids of the far-future rows of an epoch.
fn far_future(spark: &Spark, epoch: i64) -> Vec<i64> {
    let file = spark.path().join(format!("ahead/join/{epoch:020}.0.arrow"));
    let batches = FileReader::try_new(File::open(file).unwrap(), None).unwrap();
    let ids = batches.flat_map(|batch| {
        let batch = batch.unwrap();
        batch["id"].as_primitive::<Int64Type>().values().to_vec()
    });
    ids.collect()
}

#[test]
fn query_of_the_current_formats_continues() {
    let (spark, host) = (fixture(), Host::start());
    let mut asked: Vec<Row> = (0..=LAST)
        .map(|epoch| left("EUR", epoch * 10 + 5, epoch))
        .collect();
    asked.extend([left("USD", 0, 80), left("USD", 99, 81)]);
    let next = LAST + 1;
    let (mut found, count) = compute((&spark, &host), ("reader", "d"), next, &asked);
    found.sort();
    let expected = [
        matched(0, 0, 0),
        matched(1, 1, 10),
        matched(SKIPPED, 1, 10),
        matched(3, 3, 30),
        matched(REWOUND, 104, 40),
        matched(IDLE, 104, 40),
        matched(LAST, 106, 60),
        matched(80, 8, 0),
        unmatched(81),
    ];
    assert_eq!(found, expected);
    assert_eq!(count, Some(LAST.to_string()));
    spark.commit(next);
    // The next epoch is based on the decision of an epoch of the fixture and on the new one.
    let (found, count) = compute((&spark, &host), ("reader", "d"), next + 1, &[]);
    assert_eq!((found, count), (vec![], Some(next.to_string())));
}
