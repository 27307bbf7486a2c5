//! How long a host waits for the next micro-batch.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use holdfast_host::host::Host as HostState;
use holdfast_host::session::{Routed, Session};

use crate::support::{Spark, TaskRequest, batch, right, schema};

const MINIMUM: Duration = Duration::from_secs(600);

/// Runs an epoch whose batch timestamp is this many minutes after the start.
fn epoch(spark: &Spark, host: &Arc<HostState>, epoch: i64, minutes: i64) {
    let offsets = format!("v1\n{{\"batchTimestampMs\":{}}}\n0", minutes * 60_000);
    fs::write(spark.path().join(format!("query/offsets/{epoch}")), offsets).unwrap();
    let request = TaskRequest::new(spark, "a", epoch).request.to_string();
    let Ok(Routed::Local(mut session, _)) = Session::open(host, request.as_bytes()) else {
        panic!("it opens here")
    };
    session
        .push(batch(0, &[right("EUR", epoch, epoch)]))
        .unwrap();
    session.finish(Some(&*schema()), &mut |_| Ok(())).unwrap();
    spark.commit(epoch);
}

#[test]
fn host_waits_three_times_the_longest_of_the_last_pauses() {
    let limit = |minutes: &[i64]| {
        // A new host each time: a host reads the pauses again only after ten minutes.
        let (spark, host) = (Spark::new(), Arc::new(HostState::new(None, None)));
        for (number, minutes) in (0..).zip(minutes) {
            epoch(&spark, &host, number, *minutes);
        }
        host.idle_limit(MINIMUM)
    };
    assert_eq!(limit(&[0]), MINIMUM, "one epoch has no pause");
    assert_eq!(limit(&[0, 3, 5]), MINIMUM);
    assert_eq!(limit(&[0, 60, 80]), Duration::from_secs(3 * 3_600));
    assert_eq!(
        limit(&[0, 60, 61, 62, 63, 64]),
        MINIMUM,
        "only the last five are compared"
    );
    assert_eq!(HostState::new(None, None).idle_limit(MINIMUM), MINIMUM);
}
