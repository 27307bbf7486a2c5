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
/// The settings of both sides, unless they keep no files.
pub const FILES: &str = "no WAL, no fsync; cache 128 MiB, write buffers 128 MiB; LZ4";
pub const HOUR: i64 = 3_600_000_000;

pub struct Settings {
    pub rows: usize,
    pub rounds: usize,
    pub only: Option<String>,
    /// The log, fsyncs, caches and compression of both sides.
    pub of_stores: &'static str,
}

impl Settings {
    pub fn from_env(of_stores: &'static str) -> Self {
        // Cargo passes `--bench`. The first other word selects the figures that have it in their
        // names.
        let only = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
        let quick = std::env::var_os("HOLDFAST_BENCH_QUICK").is_some();
        if quick {
            Self {
                rows: 100_000,
                rounds: 1,
                only,
                of_stores,
            }
        } else {
            Self {
                rows: 1_000_000,
                rounds: 5,
                only,
                of_stores,
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
    let (mut turns, mut seconds) = (Vec::new(), [Vec::new(), Vec::new()]);
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
        turns.push(if unit == "throughput" { b / a } else { a / b });
        seconds[0].push(a);
        seconds[1].push(b);
    }
    let note = format!(
        "{:.3} s against {:.3} s",
        median(&seconds[0]),
        median(&seconds[1])
    );
    let figure = (measured, against, reach, unit);
    print(figure, &turns, &note, settings.of_stores);
}

/// Returns the middle value.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Prints a figure for `benches/report.py`.
pub fn print(
    (measured, against, reach, unit): (&str, &str, &str, &str),
    turns: &[f64],
    note: &str,
    settings: &str,
) {
    let figure = serde_json::json!({
        "measured": measured, "against": against, "turns": turns, "reach": reach, "unit": unit,
        "note": note, "settings": settings,
    });
    println!("FIGURE {figure}");
}

/// Returns the elapsed seconds of `f`.
pub fn timed(f: impl FnOnce()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_secs_f64()
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
