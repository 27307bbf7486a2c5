//! Where the time of an epoch goes in the host: one partition, one thread, no socket and no Spark.
//!
//! `cargo bench -p holdfast-host --bench epoch --profile release`; an argument sets the rows of an epoch. Prints the
//! median of each phase over the epochs: time on the clock, and time on the processor (which other load does not change).
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on stops")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use holdfast_host::host::Host;
use holdfast_host::session::Session;
use serde_json::json;

const EPOCHS: usize = 20;
const KEYS: u64 = 100_000;
const ARROW_ROWS: usize = 10_000;

fn main() {
    let rows: usize = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(50_000);
    let root = tempfile::tempdir().unwrap();
    for folder in ["query/offsets", "query/commits"] {
        std::fs::create_dir_all(root.path().join(folder)).unwrap();
    }
    std::fs::write(root.path().join("query/metadata"), r#"{"id":"bench"}"#).unwrap();
    let host = Arc::new(Host::new(None));
    let mut phases: [Vec<Lap>; 5] = Default::default();
    for epoch in 0..EPOCHS {
        std::fs::write(root.path().join(format!("query/offsets/{epoch}")), "v1").unwrap();
        let batches: Vec<RecordBatch> =
            (0..rows).step_by(ARROW_ROWS).map(|start| batch(epoch, start, ARROW_ROWS.min(rows - start))).collect();
        let request = request(root.path().to_str().unwrap(), epoch);
        let mut clock = Clock::start();
        let (mut session, _) = Session::open(&host, request.as_bytes()).unwrap();
        let opened = clock.lap();
        session.push(batches[0].slice(0, 0)).unwrap();
        let applied = clock.lap();
        let schema = batches[0].schema();
        batches.into_iter().for_each(|batch| session.push(batch).unwrap());
        let encoded = clock.lap();
        let mut ran = Lap::default();
        session
            .finish(Some(&schema), &mut |_| {
                let lap = clock.lap();
                ran = Lap { clock: ran.clock + lap.clock, busy: ran.busy + lap.busy };
                Ok(())
            })
            .unwrap();
        let staged = clock.lap();
        phases.iter_mut().zip([opened, applied, encoded, ran, staged]).for_each(|(phase, time)| phase.push(time));
        std::fs::write(root.path().join(format!("query/commits/{epoch}")), "v1").unwrap();
    }
    let names = ["open: claim, meta", "apply the epoch before", "encode input", "order, join, output", "stage, fsync"];
    let (mut all, mut all_busy) = (0.0, 0.0);
    println!("{:<24} {:>11} {:>11}", "", "clock", "processor");
    for (name, laps) in names.iter().zip(&phases) {
        let (clock, busy) = (median(laps, |lap| lap.clock), median(laps, |lap| lap.busy));
        (all, all_busy) = (all + clock, all_busy + busy);
        println!("{name:<24} {clock:>8.2} ms {busy:>8.2} ms");
    }
    println!("{:<24} {all:>8.2} ms {all_busy:>8.2} ms for {rows} rows", "all");
}

fn median(laps: &[Lap], of: impl Fn(&Lap) -> Duration) -> f64 {
    let mut times: Vec<Duration> = laps.iter().map(of).collect();
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

/// One phase: time on the clock, and this thread's time on a processor.
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
        Self { last: Instant::now(), busy: busy() }
    }

    fn lap(&mut self) -> Lap {
        let (now, busy) = (Instant::now(), busy());
        let lap = Lap { clock: now - self.last, busy: busy.saturating_sub(self.busy) };
        (self.last, self.busy) = (now, busy);
        lap
    }
}

/// Nanoseconds that this thread has run, as Linux counts them.
fn busy() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

fn request(root: &str, epoch: usize) -> String {
    json!({
        "root": root, "local_dir": null, "scratch": false, "query_id": "bench", "run_id": "run", "epoch": epoch, "partition": 0,
        "partitions": 1, "attempt": epoch, "instance": "call", "settings": {},
        "operator": {
            "name": "join", "kind": "join_asof", "keys": ["currency"], "left": ["id", "amount"], "right": ["rate"], "how": "left",
            "history_retention": 86_400_000_000_i64, "order_left": [], "order_right": [],
            "output": [
                {"name": "customer", "from": "key", "index": 0}, {"name": "at", "from": "time", "index": 0},
                {"name": "id", "from": "left", "index": 0}, {"name": "amount", "from": "left", "index": 1},
                {"name": "rate", "from": "right", "index": 0}, {"name": "valid_from", "from": "right_time", "index": 0},
            ],
        },
    })
    .to_string()
}

/// Half of the rows are rates, half are orders; keys at random, times in a shuffled second of the epoch.
fn batch(epoch: usize, start: usize, rows: usize) -> RecordBatch {
    let random = |row: usize, salt: u64| {
        let mut x = ((epoch as u64) << 32 | (start + row) as u64).wrapping_add(salt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        x = (x ^ (x >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x ^ (x >> 29)
    };
    let left = |row: usize| row.is_multiple_of(2);
    let columns: [(&str, ArrayRef); 8] = [
        ("pid", Arc::new(Int32Array::from(vec![0; rows]))),
        ("side", Arc::new((0..rows).map(|row| Some(left(row))).collect::<BooleanArray>())),
        ("deleted", Arc::new(BooleanArray::from(vec![false; rows]))),
        (
            "t",
            Arc::new(
                (0..rows)
                    .map(|row| Some((epoch as i64) * 1_000_000 + (random(row, 1) % 1_000_000) as i64))
                    .collect::<TimestampMicrosecondArray>()
                    .with_timezone("UTC"),
            ),
        ),
        ("k0", Arc::new((0..rows).map(|row| Some(format!("customer-{:06}", random(row, 2) % KEYS))).collect::<StringArray>())),
        ("l0", Arc::new((0..rows).map(|row| left(row).then_some(row as i64)).collect::<Int64Array>())),
        ("l1", Arc::new((0..rows).map(|row| left(row).then_some(row as f64)).collect::<Float64Array>())),
        ("r0", Arc::new((0..rows).map(|row| (!left(row)).then_some(row as f64)).collect::<Float64Array>())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}
