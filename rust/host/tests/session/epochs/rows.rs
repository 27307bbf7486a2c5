//! The results of the as-of join.

use arrow_schema::DataType;

use crate::support::{Host, Row, Spark, TaskRequest, deleted, left, matched, right, unmatched};

#[test]
fn nulls_match_nothing_and_right_rows_with_nulls_are_dropped() {
    let host = Host::start();
    let rows = [
        Row::Right {
            key: None,
            time: Some(1),
            rate: 1,
            deleted: false,
        },
        Row::Right {
            key: Some("EUR".into()),
            time: None,
            rate: 2,
            deleted: false,
        },
        right("EUR", 10, 3),
        Row::Left {
            key: None,
            time: Some(20),
            id: 1,
        },
        Row::Left {
            key: Some("EUR".into()),
            time: None,
            id: 2,
        },
        left("EUR", 20, 3),
    ];
    let mut done = TaskRequest::scratch().run(host.connect(), &rows).unwrap();
    done.rows.sort();
    assert_eq!(done.rows, [unmatched(1), unmatched(2), matched(3, 3, 10)]);
    assert_eq!(
        (done.staged.counts.dropped, done.staged.counts.matched),
        (2, 1)
    );
    let inner = TaskRequest::scratch()
        .with("/operator/how", "inner")
        .run(host.connect(), &rows)
        .unwrap();
    assert_eq!(
        (inner.rows.as_slice(), inner.staged.counts.output_rows),
        ([matched(3, 3, 10)].as_slice(), 1)
    );
    assert_eq!(
        inner.staged.counts.dropped, 4,
        "left rows that nothing can match are counted, too"
    );
}

#[test]
fn deletion_ends_a_value_and_a_later_value_begins() {
    let rows = [
        right("EUR", 10, 1),
        deleted("EUR", 20),
        right("EUR", 30, 2),
        left("EUR", 19, 1),
        left("EUR", 20, 2),
        left("EUR", 30, 3),
    ];
    let done = TaskRequest::scratch()
        .run(Host::start().connect(), &rows)
        .unwrap();
    assert_eq!(
        done.rows,
        [matched(1, 1, 10), unmatched(2), matched(3, 2, 30)]
    );
}

#[test]
fn at_equal_times_table_rows_precede_stream_rows_in_their_order() {
    let host = Host::start();
    let rows = [
        left("EUR", 10, 1),
        right("EUR", 10, 7),
        right("EUR", 10, 9),
        right("EUR", 10, 8),
    ];
    let done = TaskRequest::scratch().run(host.connect(), &rows).unwrap();
    assert_eq!(done.rows, [matched(1, 9, 10)], "content decides");
    // Ordered by the note, nulls first: only the rate 8 has a note, so it is the last one.
    let ordered = TaskRequest::scratch().with("/operator/order_right", serde_json::json!([1]));
    assert_eq!(
        ordered.run(host.connect(), &rows).unwrap().rows,
        [matched(1, 8, 10)]
    );
}

#[test]
fn late_rows_join_as_of_their_time() {
    let (spark, host) = (Spark::new(), Host::start());
    let retention =
        |epoch| TaskRequest::new(&spark, "a", epoch).with("/operator/history_retention", 100);
    spark.begin(0);
    retention(0)
        .run(host.connect(), &[right("EUR", 10, 1), right("EUR", 200, 2)])
        .unwrap();
    spark.commit(0);
    spark.begin(1);
    let rows = [
        right("EUR", 150, 3),
        right("EUR", 99, 4),
        left("EUR", 149, 1),
        left("EUR", 160, 2),
        left("EUR", 250, 3),
        left("EUR", 50, 4),
        right("USD", 100, 5),
        left("USD", 120, 5),
    ];
    let mut done = retention(1).run(host.connect(), &rows).unwrap();
    done.rows.sort();
    // A right row older than the retention is refused, a left one older than it finds nothing.
    assert_eq!(
        done.rows,
        [
            matched(1, 1, 10),
            matched(2, 3, 150),
            matched(3, 2, 200),
            unmatched(4),
            matched(5, 5, 100)
        ]
    );
    assert_eq!(done.staged.counts.late, 1);
}

#[test]
fn output_has_the_inputs_types_and_the_users_names() {
    let rows: Vec<_> = (0..25_000).map(|id| left("EUR", id, id)).collect();
    let halves: Vec<&[Row]> = rows.chunks(7_000).collect();
    let done = TaskRequest::scratch()
        .run_batches(Host::start().connect(), &halves)
        .unwrap();
    let sizes: Vec<_> = done
        .batches
        .iter()
        .map(arrow_array::RecordBatch::num_rows)
        .collect();
    // The first batches are small, because the size of the matched rows is not known yet.
    assert!(
        sizes.iter().all(|size| *size <= 10_000) && sizes.iter().sum::<usize>() == 25_000,
        "{sizes:?}"
    );
    let schema = done.batches[0].schema();
    let names: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    assert_eq!(
        names,
        ["currency", "at", "id", "rate", "valid_from", "note"]
    );
    let types: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| field.data_type().clone())
        .collect();
    let time = DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, Some("UTC".into()));
    assert_eq!(
        types,
        [
            DataType::Utf8,
            time.clone(),
            DataType::Int64,
            DataType::Int64,
            time,
            DataType::Utf8
        ]
    );
    assert!(
        done.rows
            .iter()
            .enumerate()
            .all(|(n, row)| row.id == n as i64),
        "in event time"
    );
}
