//! Where the time of an epoch goes in the host: one partition, one thread, no socket and no Spark.
//!
//! `cargo bench -p holdfast-host --bench epoch --profile release`; an argument sets the rows of an
//! epoch. Prints the median of each phase over the epochs: wall-clock time, and processor time,
//! which other load does not change.
#![expect(clippy::unwrap_used, reason = "a failed step ends the benchmark")]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use holdfast_host::host::Host;
use holdfast_host::session::{Routed, Session};
use support::{BenchRoot, batch, request};

const EPOCHS: usize = 20;
const ARROW_ROWS: usize = 10_000;

fn main() {
    let rows: usize = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .next()
        .unwrap_or(50_000);
    let root = BenchRoot::new();
    let host = Arc::new(Host::new(None, None));
    let mut phases: [Vec<Lap>; 5] = Default::default();
    for epoch in 0..EPOCHS {
        root.begin(epoch);
        let batches: Vec<RecordBatch> = (0..rows)
            .step_by(ARROW_ROWS)
            .map(|start| batch(epoch, start, ARROW_ROWS.min(rows - start)))
            .collect();
        let request = request(&root, epoch);
        let mut clock = Clock::start();
        let Routed::Local(mut session, _) = Session::open(&host, request.as_bytes()).unwrap()
        else {
            panic!("no other host")
        };
        let opened = clock.lap();
        session.push(batches[0].slice(0, 0)).unwrap();
        let applied = clock.lap();
        let schema = batches[0].schema();
        batches
            .into_iter()
            .for_each(|batch| session.push(batch).unwrap());
        let encoded = clock.lap();
        let mut ran = Lap::default();
        session
            .finish(Some(&schema), &mut |_| {
                let lap = clock.lap();
                ran = Lap {
                    clock: ran.clock + lap.clock,
                    busy: ran.busy + lap.busy,
                };
                Ok(())
            })
            .unwrap();
        let staged = clock.lap();
        phases
            .iter_mut()
            .zip([opened, applied, encoded, ran, staged])
            .for_each(|(phase, time)| phase.push(time));
        root.commit(epoch);
    }
    let names = [
        "open: claim, meta",
        "apply the epoch before",
        "encode input",
        "order, join, output",
        "stage, fsync",
    ];
    let (mut all, mut all_busy) = (0.0, 0.0);
    println!("{:<24} {:>11} {:>11}", "", "clock", "processor");
    for (name, laps) in names.iter().zip(&phases) {
        let (clock, busy) = (median(laps, |lap| lap.clock), median(laps, |lap| lap.busy));
        (all, all_busy) = (all + clock, all_busy + busy);
        println!("{name:<24} {clock:>8.2} ms {busy:>8.2} ms");
    }
    println!(
        "{:<24} {all:>8.2} ms {all_busy:>8.2} ms for {rows} rows",
        "all"
    );
}

fn median(laps: &[Lap], of: impl Fn(&Lap) -> Duration) -> f64 {
    let mut times: Vec<Duration> = laps.iter().map(of).collect();
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

/// One phase: wall-clock time, and this thread's processor time.
#[derive(Default, Clone, Copy)]
struct Lap {
    clock: Duration,
    busy: Duration,
}

struct Clock {
    last: Instant,
    busy: Duration,
}

impl Clock {
    fn start() -> Self {
        Self {
            last: Instant::now(),
            busy: busy(),
        }
    }

    fn lap(&mut self) -> Lap {
        let (now, busy) = (Instant::now(), busy());
        let lap = Lap {
            clock: now - self.last,
            busy: busy.saturating_sub(self.busy),
        };
        (self.last, self.busy) = (now, busy);
        lap
    }
}

/// The processor time of this thread, as Linux counts it.
fn busy() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(
        text.split_whitespace()
            .next()
            .and_then(|nanos| nanos.parse().ok())
            .unwrap_or(0),
    )
}
