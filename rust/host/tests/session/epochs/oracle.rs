//! The as-of join against a model, with random rows, epochs, batches, retries and host failures.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use crate::support::{Host, Joined, Row, Spark, TaskRequest};

const RETENTION: i64 = 20;

/// The model: every version of every key. Rows are applied in the order of time, table before
/// stream. Table rows older than the retention are dropped; older stream rows match the newest
/// version of their key at most.
#[derive(Default)]
struct Model {
    versions: HashMap<String, BTreeMap<i64, Option<i64>>>,
    stream_time: Option<i64>,
}

impl Model {
    fn epoch(&mut self, rows: &[Row]) -> Vec<Joined> {
        let mut rows: Vec<&Row> = rows.iter().collect();
        rows.sort_by_key(|row| match row {
            Row::Right {
                key,
                time,
                rate,
                deleted,
            } => (*time, 0, *deleted, key.clone(), *rate),
            Row::Left { key, time, id } => (*time, 1, false, key.clone(), *id),
        });
        let mut out: Vec<Joined> = rows.into_iter().filter_map(|row| self.row(row)).collect();
        out.sort();
        out
    }

    fn row(&mut self, row: &Row) -> Option<Joined> {
        let horizon = self.stream_time.map_or(i64::MIN, |time| time - RETENTION);
        match row {
            Row::Right {
                key: Some(key),
                time: Some(time),
                rate,
                deleted,
            } if *time >= horizon => {
                self.versions
                    .entry(key.clone())
                    .or_default()
                    .insert(*time, (!deleted).then_some(*rate));
                self.stream_time = self.stream_time.max(Some(*time));
                None
            }
            Row::Right { .. } => None,
            Row::Left {
                key: Some(key),
                time: Some(time),
                id,
            } => {
                let versions = self.versions.get(key);
                let newest = versions.and_then(BTreeMap::last_key_value);
                let found = match newest {
                    Some((begin, value)) if begin <= time => Some((*begin, *value)),
                    _ if *time < horizon => None,
                    _ => versions
                        .and_then(|versions| versions.range(..=time).next_back())
                        .map(|(begin, value)| (*begin, *value)),
                };
                let found = found.and_then(|(begin, value)| value.map(|value| (begin, value)));
                Some(Joined {
                    id: *id,
                    rate: found.map(|(_, rate)| rate),
                    valid_from: found.map(|(begin, _)| begin),
                })
            }
            Row::Left { id, .. } => Some(Joined {
                id: *id,
                rate: None,
                valid_from: None,
            }),
        }
    }
}

/// What happens in an epoch (`Retry`, `NewRun`) or after it.
#[derive(Debug, Clone, Copy)]
enum Disturbance {
    None,
    Retry,
    NewRun,
    NewHost,
    DeleteLocal,
}

#[derive(Debug, Clone)]
struct Step {
    rows: Vec<Row>,
    batch: usize,
    disturbance: Disturbance,
}

fn row(base: i64) -> impl Strategy<Value = Row> {
    let key = prop_oneof![1 => Just(None), 15 => (0..3_u8).prop_map(|key| Some(format!("k{key}")))];
    let time = prop_oneof![1 => Just(None), 15 => (base - 25..base + 10).prop_map(Some)];
    (
        key,
        time,
        any::<bool>(),
        0..1_000_i64,
        prop::bool::weighted(0.2),
    )
        .prop_map(|(key, time, is_left, number, deleted)| {
            if is_left {
                Row::Left {
                    key,
                    time,
                    id: number,
                }
            } else {
                Row::Right {
                    key,
                    time,
                    rate: number,
                    deleted,
                }
            }
        })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let disturbance = prop_oneof![
        6 => Just(Disturbance::None),
        2 => Just(Disturbance::Retry),
        1 => Just(Disturbance::NewRun),
        1 => Just(Disturbance::NewHost),
        1 => Just(Disturbance::DeleteLocal)
    ];
    let step = |epoch: i64| {
        (prop::collection::vec(row(epoch * 8), 0..40), 1..20_usize).prop_map(|(rows, batch)| Step {
            rows,
            batch,
            disturbance: Disturbance::None,
        })
    };
    let epochs = (0..6).map(step).collect::<Vec<_>>();
    (epochs, prop::collection::vec(disturbance, 6)).prop_map(|(mut steps, disturbances)| {
        steps
            .iter_mut()
            .zip(disturbances)
            .for_each(|(step, disturbance)| step.disturbance = disturbance);
        steps
    })
}

fn run(steps: &[Step]) {
    let spark = Spark::new();
    let (mut host, mut model) = (Host::start(), Model::default());
    let (mut run, mut attempt) = (0, 0);
    for (epoch, step) in (0..).zip(steps) {
        spark.begin(epoch);
        let expected = model.epoch(&step.rows);
        let attempts = if matches!(step.disturbance, Disturbance::Retry | Disturbance::NewRun) {
            2
        } else {
            1
        };
        for n in 0..attempts {
            attempt += 1;
            let task = TaskRequest::new(&spark, &format!("run-{run}"), epoch)
                .attempt(attempt)
                .with("/operator/history_retention", RETENTION);
            // A retry has its rows in another order and in other batches.
            let mut rows = step.rows.clone();
            if n > 0 {
                rows.reverse();
            }
            let batches: Vec<&[Row]> = rows.chunks(step.batch + n).collect();
            let mut done = task.run_batches(host.connect(), &batches).unwrap();
            done.rows.sort();
            assert_eq!(done.rows, expected, "epoch {epoch}, attempt {n}");
            assert_eq!(
                done.staged.adopted,
                n > 0 && matches!(step.disturbance, Disturbance::Retry)
            );
            if matches!(step.disturbance, Disturbance::NewRun) && n == 0 {
                run += 1;
            }
        }
        spark.commit(epoch);
        match step.disturbance {
            Disturbance::NewHost => {
                host.stop();
                host = Host::start();
            }
            // The host is stopped first. In a running host (tested in `failures/hosts.rs`) RocksDB
            // would sleep for a second when it finds its files missing.
            Disturbance::DeleteLocal => {
                host.stop();
                spark.delete_local();
                host = Host::start();
            }
            Disturbance::None | Disturbance::Retry | Disturbance::NewRun => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200,
        ..ProptestConfig::default() })]

    #[test]
    fn every_epoch_matches_the_model(steps in steps()) {
        run(&steps);
    }
}
