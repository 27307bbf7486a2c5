//! Sessions on a root in an object store.

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::*;
use crate::net::read::ReadTarget;
use crate::protocol::{Epoch, IsolationLevel, OperatorName, PartitionId};
use crate::root::Root;
use crate::root::testing::{Fault, FaultyStore};

/// The time of far-future rows.
const FAR: i64 = 1_000_000;
/// How long a session may take if it is not blocked.
const PATIENCE: Duration = Duration::from_secs(30);

fn rate(time: i64, partition: i32) -> RecordBatch {
    let columns: [(&str, ArrayRef); 7] = [
        ("pid", Arc::new(Int32Array::from(vec![partition]))),
        ("side", Arc::new(BooleanArray::from(vec![false]))),
        ("deleted", Arc::new(BooleanArray::from(vec![false]))),
        (
            "t",
            Arc::new(TimestampMicrosecondArray::from(vec![time]).with_timezone("UTC")),
        ),
        ("k0", Arc::new(StringArray::from(vec!["EUR"]))),
        ("l0", Arc::new(Int64Array::from(vec![None]))),
        ("r0", Arc::new(Float64Array::from(vec![1.0]))),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

/// A query of two partitions whose root is in an object store in memory.
struct Query {
    objects: Arc<FaultyStore>,
    host: Arc<Host>,
    local: TempDir,
    runtime: Runtime,
}

impl Query {
    fn new() -> Self {
        let objects = Arc::new(FaultyStore::new(Fault::None));
        let host = Arc::new(Host::new(None, None));
        host.set_root(
            "memory",
            Root::over(
                Arc::clone(&objects) as Arc<dyn ObjectStore>,
                Path::new("memory"),
            ),
        );
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let query = Self {
            objects,
            host,
            local: tempfile::tempdir().expect("a folder"),
            runtime,
        };
        query.put("query/metadata", r#"{"id":"q"}"#);
        query
    }

    fn put(&self, name: &str, text: &'static str) {
        let name = name.into();
        let put = self.objects.put(&name, text.into());
        self.runtime.block_on(put).expect("puts");
    }

    fn begin(&self, epoch: i64) {
        let offsets = "v1\n{\"batchTimestampMs\":0}";
        self.put(&format!("query/offsets/{epoch}"), offsets);
    }

    fn commit(&self, epoch: i64) {
        self.put(&format!("query/commits/{epoch}"), "v1");
    }

    /// Runs a session with one row.
    fn run(host: &Arc<Host>, local: &Path, (epoch, partition, time): (i64, i32, i64)) {
        let request = json!({
            "root": "memory", "local_dir": local, "scratch": false, "query_id": "q",
            "run_id": "run", "epoch": epoch,
            "partition": partition, "partitions": 2,
            "attempt": 2 * epoch + i64::from(partition), "instance": "call",
            "settings": {},
            "operator": {
                "name": "join", "kind": "join_asof", "keys": ["currency"], "left": ["id"],
                "right": ["rate"], "how": "left",
                "history_retention": 1_000, "order_left": [], "order_right": [],
                "max_ahead": FAR - 1,
                "output": [{"name": "currency", "from": "key", "index": 0}],
            },
        });
        let Ok(Routed::Local(mut session, _)) = Session::open(host, request.to_string().as_bytes())
        else {
            panic!("it opens here")
        };
        let rows = rate(time, partition);
        let schema = rows.schema();
        session.push(rows).expect("takes rows");
        session
            .finish(Some(&schema), &mut |_| Ok(()))
            .expect("stages");
    }

    /// The first partition, for readers.
    fn target(&self) -> ReadTarget {
        let meta = self.runtime.block_on(async {
            let found = self.objects.get(&"meta.json".into()).await.expect("a root");
            found.bytes().await.expect("whole")
        });
        let meta: serde_json::Value = serde_json::from_slice(&meta).expect("JSON");
        ReadTarget {
            root: meta["id"].as_str().expect("an id").to_owned(),
            operator: OperatorName::new("join").expect("a name"),
            partition: PartitionId(0),
            isolation_level: IsolationLevel::ReadCommitted,
        }
    }
}

#[test]
fn micro_batch_sends_few_requests_to_an_object_store() {
    let query = Query::new();
    let requests = |epoch: i64, partition: i32| {
        let before = query.objects.requests();
        let time = if epoch < 4 { epoch } else { FAR };
        Query::run(&query.host, query.local.path(), (epoch, partition, time));
        query.objects.requests() - before
    };
    let mut counts = Vec::new();
    for epoch in 0..6 {
        query.begin(epoch);
        counts.push([requests(epoch, 0), requests(epoch, 1)]);
        query.commit(epoch);
    }
    // Each request takes milliseconds. Each partition of a micro-batch causes 9: newer runs; the
    // next owner; Spark's offsets and two commits, at once; the commit; the object; newer runs and
    // the commit again. The first partition on a host causes 9 more: the rewinds; the decision of
    // the epoch before, its objects, a header for each of the two, Spark's offsets of it; the
    // record; the rewinds and the offsets again.
    assert_eq!(counts[2..4], [[18, 9], [18, 9]], "{counts:?}");
    // Far-future rows cause 7 more: their object in the log; the rewinds and what is staged; the
    // header; their file; the rewinds and what is staged again.
    assert_eq!(counts[4..], [[25, 16], [25, 16]], "{counts:?}");
}

#[test]
fn reader_that_waits_for_the_object_store_stops_no_session() {
    let query = Query::new();
    query.begin(0);
    for partition in [0, 1] {
        Query::run(&query.host, query.local.path(), (0, partition, 0));
    }
    query.commit(0);
    query.begin(1);
    let target = query.target();
    let stall = query.objects.stall_request("query/commits/0");
    let view = thread::scope(|scope| {
        let host = &query.host;
        let reader = scope.spawn(|| {
            host.read_view(&target)
                .map(|open| open.map(|o| o.view.epoch))
        });
        stall.wait();
        let (done, ended) = mpsc::channel();
        let local = query.local.path();
        scope.spawn(move || {
            Query::run(host, local, (1, 0, 1));
            done.send(())
        });
        let ended = ended.recv_timeout(PATIENCE);
        stall.resume();
        assert!(ended.is_ok(), "the session waits for the reader");
        reader.join().expect("no panic")
    });
    // The session has applied epoch 0. Its own epoch, 1, is not committed.
    assert_eq!(view.expect("readable"), Some(Epoch(0)));
}
