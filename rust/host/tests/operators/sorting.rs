//! An operator gives the same result if an epoch has more rows than fit in memory.
//!
//! Such rows are written to disk and read back in parts of at most 10,000 rows. With `replay`,
//! [`Job::epoch`] runs an epoch twice: with unlimited memory for its rows, and with none. The tests
//! against models use small epochs; the tests here use epochs of several parts.

use serde_json::{Value, json};

use crate::support::{Job, Row, right, row};

/// Rows for two and a half parts, in an order unrelated to that of their times; many rows have the
/// same time.
fn rows(sides: usize, epoch: i64) -> Vec<Row> {
    let random = |n: i64, salt: i64| {
        ((n + salt).wrapping_mul(6_364_136_223_846_793_005) >> 33).rem_euclid(1_000_003)
    };
    let row = |n: i64| {
        let (key, time, number) = (
            (random(n, 1) % 50) as u8,
            epoch * 500 + random(n, 2) % 1_000,
            random(n, 3) % 100,
        );
        let made = if sides == 2 && n % 3 == 0 {
            right(key, time, number)
        } else {
            row(key, time, number)
        };
        match n % 97 {
            0 => Row { key: None, ..made },
            1 => Row { time: None, ..made },
            2 => Row {
                number: None,
                ..made
            },
            _ => made,
        }
    };
    (0..25_000).map(row).collect()
}

fn check(request: &Value, sides: usize) {
    let job = Job::new(request, sides, 1);
    let done = [0, 1].map(|epoch| job.epoch(&rows(sides, epoch), true));
    assert!(
        done.iter().all(|done| !done.rows.is_empty()),
        "it gives rows"
    );
}

fn two_sided(kind: &str, settings: &Value) -> Value {
    let mut request = json!({
        "kind": kind, "keys": ["k"], "left": ["x"], "right": ["v"],
        "output": [
            {"name": "k", "from": "key", "index": 0}, {"name": "t", "from": "time"},
            {"name": "x", "from": "left", "index": 0},
            {"name": "since", "from": "right_time"}, {"name": "v", "from": "right", "index": 0},
        ],
    });
    request
        .as_object_mut()
        .unwrap()
        .extend(settings.as_object().unwrap().clone());
    request
}

fn one_sided(kind: &str, settings: &Value) -> Value {
    let mut request = json!({
        "kind": kind, "keys": ["k"], "left": ["x"],
        "output": [{"name": "k", "from": "key", "index": 0}, {"name": "t", "from": "time"},
            {"name": "x", "from": "left", "index": 0}],
    });
    request
        .as_object_mut()
        .unwrap()
        .extend(settings.as_object().unwrap().clone());
    request
}

#[test]
fn as_of_joins_sort_spilled_rows() {
    check(
        &two_sided(
            "join_asof",
            &json!({"how": "left", "history_retention": 300}),
        ),
        2,
    );
    check(
        &two_sided(
            "join_asof",
            &json!({"how": "inner", "history_retention": 300, "grace": 100}),
        ),
        2,
    );
}

#[test]
fn joins_of_tables_and_windows_sort_spilled_rows() {
    check(
        &two_sided(
            "join_table",
            &json!({"how": "left", "history_retention": 300, "left_values": [0],
                "right_values": [0]}),
        ),
        2,
    );
    check(
        &two_sided(
            "join_window",
            &json!({"how": "outer", "before": 1, "after": 1, "grace": 100}),
        ),
        2,
    );
}

#[test]
fn deduplication_sorts_spilled_rows() {
    check(&one_sided("drop_duplicates", &json!({"within": 20})), 1);
}

#[test]
fn tables_sort_spilled_rows() {
    for table in [
        json!({"form": "key_value"}),
        json!({"form": "timestamped"}),
        json!({"form": "versioned", "history_retention": 300}),
    ] {
        check(
            &one_sided("materialize", &json!({"values": [0], "table": table})),
            1,
        );
    }
}

/// These functions, and those that also read an order.
fn aggregates(functions: &[&str]) -> Vec<Value> {
    let of_a_column = functions
        .iter()
        .map(|name| json!({"name": name, "function": name, "column": 0}));
    let ranked = ["max_by", "min_by"]
        .map(|name| json!({"name": name, "function": name, "column": 0, "order": 0}));
    let top = json!({"name": "top", "function": "max_by", "column": 0, "order": 0, "limit": 100});
    of_a_column.chain(ranked).chain([top]).collect()
}

#[test]
fn aggregations_sort_spilled_rows() {
    let functions = [
        "count",
        "sum",
        "avg",
        "min",
        "max",
        "first",
        "last",
        "count_distinct",
        "collect_list",
        "collect_set",
        "variance",
        "stddev",
        "var_pop",
        "stddev_pop",
    ];
    let aggregates = aggregates(&functions);
    for settings in [
        json!({"timed": true, "grace": 400}),
        json!({"timed": false}),
        json!({"timed": true, "grace": 300,
            "window": {"kind": "hopping", "length": 200, "slide": 100}, "emit": "close"}),
        json!({"timed": true, "grace": 300, "window": {"kind": "session", "gap": 2},
            "emit": "close"}),
        json!({"timed": true, "grace": 100, "window": {"kind": "sliding", "length": 2},
            "emit": "update"}),
    ] {
        let mut request =
            json!({"kind": "aggregate", "keys": ["k"], "left": ["x"], "aggregates": aggregates});
        request
            .as_object_mut()
            .unwrap()
            .extend(settings.as_object().unwrap().clone());
        check(&request, 1);
    }
}

/// Functions that do not depend on the order: rows in memory are not sorted for them, except for
/// sessions, and no rows are compared by their content.
#[test]
fn unordered_aggregations_read_spilled_rows() {
    let functions = [
        "count",
        "sum",
        "min",
        "max",
        "count_distinct",
        "collect_set",
        "first",
        "last",
        "collect_list",
    ];
    // Without times, the last three depend on the order.
    let request = |functions: &[&str], settings: &Value| {
        let aggregates = aggregates(functions);
        let mut request =
            json!({"kind": "aggregate", "keys": ["k"], "left": ["x"], "aggregates": aggregates});
        let settings = settings.as_object().unwrap().clone();
        request.as_object_mut().unwrap().extend(settings);
        request
    };
    check(&request(&functions[..6], &json!({"timed": false})), 1);
    for settings in [
        json!({"timed": true, "grace": 400}),
        json!({"timed": true, "grace": 300,
            "window": {"kind": "hopping", "length": 200, "slide": 70}, "emit": "close"}),
        json!({"timed": true, "grace": 300,
            "window": {"kind": "hopping", "length": 200, "slide": 200}}),
        json!({"timed": true, "grace": 300, "window": {"kind": "session", "gap": 2},
            "emit": "close"}),
        json!({"timed": true, "grace": 100, "window": {"kind": "sliding", "length": 2}}),
    ] {
        check(&request(&functions, &settings), 1);
    }
}
