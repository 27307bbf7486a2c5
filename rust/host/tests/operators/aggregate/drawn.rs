//! Random rows, cut into epochs in any way, against the definition.

use std::collections::BTreeMap;

use holdfast_core::Timestamp;
use proptest::prelude::*;

use super::model::{AVERAGE, Kind, Model, Settings, of_static};
use crate::support::{Job, Out, Row, cut, row, rows, sorted};

fn kinds() -> impl Strategy<Value = Kind> + Clone {
    prop_oneof![
        Just(Kind::Hopping),
        Just(Kind::Sliding),
        Just(Kind::Session)
    ]
}

/// The stored windows, in the order of time: start, key and state.
fn stored(job: &Job) -> Vec<(i64, Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    for db in &job.databases {
        let (mut tx, store) = (db.begin().unwrap(), db.window("groups").unwrap());
        let mut scan = store
            .fetch_range(&mut tx, None, None, Timestamp::MIN, Timestamp::MAX, false)
            .unwrap();
        scan.for_each(&mut |window, state| {
            found.push((window.start.0, window.key.to_vec(), state.value.to_vec()));
            true
        })
        .unwrap();
    }
    found
}

fn check(found: Vec<Out>, expected: Vec<Out>) -> Result<(), TestCaseError> {
    prop_assert_eq!(sorted(found), sorted(expected));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn results_equal_the_definition_for_any_lateness_and_any_epochs(
        epochs in rows(Just(true), 1, 50).prop_flat_map(|rows| cut(rows, 40)),
        partitions in 1..4_usize, kind in kinds(),
        emit in prop::sample::select(vec!["update", "close"]), grace in prop::option::of(0..12_i64),
    ) {
        let settings = Settings { kind, emit, grace, last: false };
        let job = settings.job(partitions);
        let mut models: Vec<Model> = (0..partitions).map(|_| Model::default()).collect();
        for (rows, replay) in &epochs {
            let ours = |partition: usize| rows.iter()
                .filter(|row| job.partition(row.key) == partition).copied().collect::<Vec<_>>();
            let expected = models.iter_mut().enumerate()
                .flat_map(|(partition, model)| model.epoch(settings, &ours(partition)));
            check(job.epoch(rows, *replay).rows, expected.collect())?;
        }
    }

    /// Without averages, no function needs an order: rows are not sorted for hopping and sliding
    /// windows, and rows of equal times are not compared. Each epoch also runs with its rows in
    /// reverse order ([`Job::partition_epoch`]).
    #[test]
    fn results_of_unsorted_rows_are_those_of_sorted_rows(
        epochs in rows(Just(true), 1, 50).prop_flat_map(|rows| cut(rows, 40)),
        kind in kinds(), emit in prop::sample::select(vec!["update", "close"]),
        grace in prop::option::of(0..12_i64),
    ) {
        let settings = Settings { kind, emit, grace, last: false };
        let mut exact = settings.request();
        exact["aggregates"].as_array_mut().unwrap().retain(|column| column["name"] != "avg");
        let (sorted, unsorted) = (settings.job(1), Job::new(&exact, 1, 1));
        for (rows, replay) in &epochs {
            let [mut expected, found] =
                [&sorted, &unsorted].map(|job| job.epoch(rows, *replay));
            for row in &mut expected.rows {
                row.remove(AVERAGE);
            }
            prop_assert_eq!(found, expected);
        }
    }

    /// An epoch writes only the values of the windows that it has read. The log's records are
    /// applied without reads.
    #[test]
    fn windows_in_the_order_of_time_are_those_of_a_replay(
        epochs in rows(Just(true), 1, 50).prop_flat_map(|rows| cut(rows, 40)),
        kind in prop::sample::select(vec![Kind::Hopping, Kind::Sliding]),
        emit in prop::sample::select(vec!["update", "close"]), grace in prop::option::of(0..12_i64),
    ) {
        let settings = Settings { kind, emit, grace, last: false };
        let mut job = settings.job(1);
        for (rows, _) in &epochs {
            job.epoch(rows, false);
        }
        let found = stored(&job);
        job.restart(&settings.request());
        prop_assert_eq!(found, stored(&job));
    }

    #[test]
    fn a_changed_grace_closes_open_windows_once_and_reopens_none(
        epochs in rows(Just(true), 1, 50).prop_flat_map(|rows| cut(rows, 40)),
        partitions in 1..3_usize, kind in kinds(),
        changes in prop::collection::vec(prop::option::weighted(0.3,
            (any::<bool>(), prop::option::of(0..30_i64))), 50),
    ) {
        let mut settings = Settings::new(kind, "close", 12);
        let mut job = settings.job(partitions);
        let mut models: Vec<Model> = (0..partitions).map(|_| Model::default()).collect();
        for ((rows, replay), change) in epochs.iter().zip(changes) {
            if let Some((closes, grace)) = change {
                settings = Settings { emit: if closes { "close" } else { "update" }, grace,
                    ..settings };
                job.restart(&settings.request());
            }
            let ours = |partition: usize| rows.iter()
                .filter(|row| job.partition(row.key) == partition).copied().collect::<Vec<_>>();
            let expected = models.iter_mut().enumerate()
                .flat_map(|(partition, model)| model.epoch(settings, &ours(partition)));
            check(job.epoch(rows, *replay).rows, expected.collect())?;
        }
    }

    #[test]
    fn rows_within_their_grace_give_the_result_of_a_static_frame(
        (all, epochs) in rows(Just(true), 1, 50)
            .prop_flat_map(|rows| (Just(rows.clone()), cut(rows, 10))),
        partitions in 1..4_usize, kind in kinds(),
    ) {
        let of_static = of_static(kind, &all);
        let whole = Settings { kind, emit: "close", grace: None, last: true }.job(1);
        check(whole.epoch(&all, false).rows, of_static.clone())?;
        let job = Settings::new(kind, "close", 10).job(partitions);
        let mut found: Vec<Out> = epochs.iter()
            .flat_map(|(rows, replay)| job.epoch(rows, *replay).rows).collect();
        let ends: Vec<Row> = (100..100 + partitions as u8).map(|key| row(key, 10_000, 0)).collect();
        found.extend(job.epoch(&ends, false).rows);
        check(found, of_static.clone())?;
        let job = Settings::new(kind, "update", 10).job(partitions);
        let mut latest: BTreeMap<(Option<i64>, Option<i64>), Out> = BTreeMap::new();
        for (rows, replay) in &epochs {
            for row in job.epoch(rows, *replay).rows {
                if kind == Kind::Session {
                    latest.retain(|(key, start),
                        _| *key != row[0] || *start < row[1] || *start >= row[2]);
                }
                latest.insert((row[0], row[1]), row);
            }
        }
        check(latest.into_values().collect(), of_static)?;
    }
}
