//! The longest durations, and the earliest and the latest times: no arithmetic overflows.

use serde_json::{Value, json};

use crate::support::{Job, right, row};

/// Runs an epoch for each time, from the earliest to the latest one, and then two epochs with rows
/// that are behind. Returns how many rows each epoch emits.
fn emitted(request: &Value, sides: usize) -> Vec<usize> {
    let job = Job::new(request, sides, 1);
    let times = [
        i64::MIN,
        i64::MIN + 1,
        0,
        i64::MAX - 1,
        i64::MAX,
        0,
        i64::MIN,
    ];
    let rows = times.map(|time| {
        let mut rows = vec![row(1, time, 1)];
        rows.extend((1..sides).map(|_| right(1, time, 2)));
        job.epoch(&rows, time == 0).rows.len()
    });
    job.beat(i64::MAX);
    rows.to_vec()
}

fn aggregate(window: &Value, emit: &str, grace: Option<i64>) -> Value {
    json!({
        "kind": "aggregate", "keys": ["k"], "left": ["x"], "window": window, "timed": true,
        "aggregates": [
            {"name": "rows", "function": "count"},
            {"name": "all", "function": "collect_list", "column": 0},
        ],
        "emit": emit, "grace": grace,
    })
}

fn windows() -> [Value; 3] {
    [
        json!({"kind": "hopping", "length": i64::MAX, "slide": i64::MAX}),
        json!({"kind": "sliding", "length": i64::MAX}),
        json!({"kind": "session", "gap": i64::MAX}),
    ]
}

#[test]
fn rows_of_any_two_times_are_duplicates_within_the_longest_span() {
    let request = json!({
        "kind": "drop_duplicates", "keys": ["k"], "left": ["x"], "within": i64::MAX,
        "output": [{"name": "k", "from": "key", "index": 0}, {"name": "t", "from": "time"}],
    });
    assert_eq!(emitted(&request, 1), [1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn the_longest_windows_without_grace_accept_all_times() {
    for window in windows() {
        let rows = emitted(&aggregate(&window, "update", None), 1);
        // A fixed window that would start before the earliest time does not exist.
        assert!(
            rows[1..6].iter().all(|rows| *rows > 0),
            "{window}: {rows:?}"
        );
    }
}

#[test]
fn the_longest_windows_and_the_longest_grace_do_not_overflow() {
    for window in windows() {
        for emit in ["update", "close"] {
            emitted(&aggregate(&window, emit, Some(i64::MAX)), 1);
        }
    }
}

#[test]
fn the_longest_window_of_a_join_matches_all_times() {
    let request = json!({
        "kind": "join_window", "keys": ["k"], "left": ["x"], "right": ["v"], "how": "outer",
        "before": i64::MAX, "after": i64::MAX, "grace": i64::MAX, "last": false,
        "output": [{"name": "x", "from": "left", "index": 0},
            {"name": "v", "from": "right", "index": 0}],
    });
    let rows = emitted(&request, 2);
    // The last epoch's rows are late.
    assert!(rows[..6].iter().all(|rows| *rows > 0), "{rows:?}");
    assert_eq!(rows[6], 0);
}
