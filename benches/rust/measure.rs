//! What the benches share: measurements in turns, clocks, data, an open database.
//!
//! A figure is the median over rounds of the ratio of two measurements that follow one another in a
//! round. The machines are shared, and their speed drifts by a factor of two within minutes.
//! Criterion is not used, because it takes all samples of one side before those of the other.
#![allow(dead_code, reason = "each bench uses a part")]

use holdfast_core::{
    Commit, Database, DatabaseOptions, Durability, KeyValueStore, Offset, OffsetChange, StoreKind,
    StoreSpec, TopicPartition,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

pub const KEY: usize = 16;
pub const VALUE: usize = 100;
pub const TRANSACTION: usize = 10_000;
pub const HOUR: i64 = 3_600_000_000;

pub struct Settings {
    pub rows: usize,
    pub rounds: usize,
    pub only: Option<String>,
}

impl Settings {
    pub fn from_env() -> Self {
        // Cargo passes `--bench`. The first other word selects the figures that have it in their
        // names.
        let only = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
        let quick = std::env::var_os("HOLDFAST_BENCH_QUICK").is_some();
        if quick {
            Self {
                rows: 100_000,
                rounds: 1,
                only,
            }
        } else {
            Self {
                rows: 1_000_000,
                rounds: 5,
                only,
            }
        }
    }

    /// Whether this figure is selected.
    pub fn wants(&self, measured: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|word| measured.contains(word.as_str()))
    }
}

/// Runs `ours` and `theirs` in turns and prints the median of their ratios. Both return seconds.
///
/// The ratio is ours / theirs, or theirs / ours if `unit` is `"throughput"`.
pub fn figure(
    settings: &Settings,
    (measured, against, reach, unit): (&str, &str, &str, &str),
    mut ours: impl FnMut() -> f64,
    mut theirs: impl FnMut() -> f64,
) {
    if !settings.wants(measured) {
        return;
    }
    let mut rounds: Vec<(f64, f64, f64)> = Vec::new();
    for round in 0..settings.rounds {
        // The files of the first measurement keep the disk busy during the second one, so the
        // order alternates.
        let (a, b) = if round % 2 == 0 {
            let a = ours();
            (a, theirs())
        } else {
            let b = theirs();
            (ours(), b)
        };
        rounds.push((if unit == "throughput" { b / a } else { a / b }, a, b));
    }
    rounds.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (ratio, a, b) = rounds[rounds.len() / 2];
    let note = format!(
        "{a:.3} s against {b:.3} s; {} rounds: {:.2} to {:.2}",
        rounds.len(),
        rounds[0].0,
        rounds[rounds.len() - 1].0
    );
    print(measured, against, ratio, reach, unit, &note);
}

/// Prints a figure for `benches/report.py`.
pub fn print(measured: &str, against: &str, ratio: f64, reach: &str, unit: &str, note: &str) {
    let figure = serde_json::json!({
        "measured": measured, "against": against, "ratio": ratio, "reach": reach, "unit": unit,
        "note": note,
    });
    println!("FIGURE {figure}");
}

/// Returns the elapsed seconds of `f`, or with `HOLDFAST_BENCH_CPU` the processor seconds of this
/// thread, which depend less on other load.
pub fn timed(f: impl FnOnce()) -> f64 {
    if std::env::var_os("HOLDFAST_BENCH_CPU").is_none() {
        let start = Instant::now();
        f();
        return start.elapsed().as_secs_f64();
    }
    let busy = || {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
    };
    let start = busy();
    f();
    busy() - start
}

/// Returns incompressible bytes, the same for the same seed.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (0..len.div_ceil(8))
        .flat_map(|_| next().to_le_bytes())
        .take(len)
        .collect()
}

pub struct Data {
    keys: Vec<u8>,
    values: Vec<u8>,
}

impl Data {
    pub fn new(rows: usize) -> Self {
        Self {
            keys: bytes(1, rows * KEY),
            values: bytes(2, rows * VALUE),
        }
    }

    pub fn key(&self, n: usize) -> &[u8] {
        &self.keys[n * KEY..][..KEY]
    }

    pub fn value(&self, n: usize) -> &[u8] {
        &self.values[n * VALUE..][..VALUE]
    }

    pub fn rows(&self) -> Vec<(&[u8], &[u8])> {
        self.keys
            .chunks(KEY)
            .zip(self.values.chunks(VALUE))
            .collect()
    }
}

pub fn open(path: &Path, kind: StoreKind) -> Arc<Database> {
    // `HOLDFAST_BENCH_OPTIONS=name=value;…` tries out RocksDB options without a new build.
    let tried = std::env::var("HOLDFAST_BENCH_OPTIONS").unwrap_or_default();
    let rocksdb_options = tried
        .split(';')
        .filter_map(|pair| pair.split_once('='))
        .map(|(n, v)| (n.into(), v.into()))
        .collect();
    let options = DatabaseOptions {
        durability: Durability::Changelog,
        rocksdb_options,
        ..DatabaseOptions::default()
    };
    Database::open(path, &[StoreSpec::new("s", kind)], options).unwrap()
}

pub fn offsets(n: i64) -> OffsetChange {
    OffsetChange::Set(vec![(
        TopicPartition {
            topic: "log".into(),
            partition: 0,
        },
        Some(Offset(n)),
    )])
}

pub fn commit(db: &Database, tx: holdfast_core::Transaction, n: usize) {
    db.commit_transaction(
        tx,
        Commit {
            offsets: offsets(n as i64),
            properties: Vec::new(),
        },
    )
    .unwrap();
}

pub fn transactional_puts(db: &Database, store: &KeyValueStore, rows: &[(&[u8], &[u8])]) {
    for (n, chunk) in rows.chunks(TRANSACTION).enumerate() {
        let mut tx = db.begin().unwrap();
        for (key, value) in chunk {
            store.put(&mut tx, key, Some(value)).unwrap();
        }
        commit(db, tx, n);
    }
}
