//! Where the time of an epoch goes in the host: one partition, one thread, no socket and no Spark.
//!
//! `cargo bench --profile release --locked --workspace --bench epoch`; `HOLDFAST_BENCH_SIZES=50000`
//! sets the rows of an epoch. Criterion's report has the time of each phase.
#![expect(clippy::unwrap_used, reason = "a failed step ends the benchmark")]

mod support;
#[path = "../../../benches/rust/turns.rs"]
mod turns;

use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use holdfast_host::host::Host;
use holdfast_host::session::{Routed, Session};
use support::{BenchRoot, batch, request};

/// Epochs before the first turn: they create the database.
const WARM_UP: usize = 2;
const ARROW_ROWS: usize = 10_000;
const PHASES: [&str; 5] = [
    "open: claim, meta",
    "apply the epoch before",
    "encode input",
    "order, join, output",
    "stage, fsync",
];

fn main() {
    let root = BenchRoot::new();
    let host = Arc::new(Host::new(None, None));
    let mut criterion = turns::criterion();
    let mut number = 0;
    for rows in turns::sizes(&[50_000]) {
        let mut next = || {
            let seconds = epoch(&root, &host, number, rows);
            number += 1;
            seconds
        };
        let turns = turns::take(
            &mut criterion,
            &format!("an epoch of {rows} rows in the host"),
            &PHASES,
            |turn| {
                if turn == 0 {
                    (0..WARM_UP).for_each(|_| drop(next()));
                }
                next()
            },
        );
        let all: Vec<f64> = turns.iter().map(|turn| turn.iter().sum()).collect();
        println!("all phases: {:.2} ms", turns::median(&all) * 1e3);
    }
    criterion.final_summary();
}

/// Runs an epoch and returns the seconds of each phase.
fn epoch(root: &BenchRoot, host: &Arc<Host>, number: usize, rows: usize) -> Vec<f64> {
    root.begin(number);
    let batches: Vec<RecordBatch> = (0..rows)
        .step_by(ARROW_ROWS)
        .map(|start| batch(number, start, ARROW_ROWS.min(rows - start)))
        .collect();
    let schema = batches[0].schema();
    let request = request(root, number);
    let mut ends = vec![Instant::now()];
    let Routed::Local(mut session, _) = Session::open(host, request.as_bytes()).unwrap() else {
        panic!("no other host")
    };
    ends.push(Instant::now());
    session.push(batches[0].slice(0, 0)).unwrap();
    ends.push(Instant::now());
    batches
        .into_iter()
        .for_each(|batch| session.push(batch).unwrap());
    ends.push(Instant::now());
    // The last result ends the phase.
    let mut output = Instant::now();
    session
        .finish(Some(&schema), &mut |_| {
            output = Instant::now();
            Ok(())
        })
        .unwrap();
    ends.extend([output, Instant::now()]);
    root.commit(number);
    ends.windows(2)
        .map(|ends| (ends[1] - ends[0]).as_secs_f64())
        .collect()
}
