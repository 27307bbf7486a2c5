//! What the benches of the engine share: settings, figures, data, an open database.
#![allow(dead_code, reason = "each bench uses a part")]

use crate::turns;
use criterion::Criterion;
use holdfast_core::{
    Commit, Database, DatabaseOptions, Durability, KeyValueStore, Offset, OffsetChange, StoreKind,
    StoreSpec, TopicPartition,
};
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

pub const KEY: usize = 16;
pub const VALUE: usize = 100;
pub const TRANSACTION: usize = 10_000;
/// The settings of both sides, unless they keep no files.
pub const FILES: &str = "no WAL, no fsync; cache 128 MiB, write buffers 128 MiB, by hand 192; LZ4";
pub const HOUR: i64 = 3_600_000_000;

pub struct Settings {
    pub rows: usize,
    /// The log, fsyncs, caches and compression of both sides.
    pub of_stores: &'static str,
    only: Option<String>,
    /// In a cell, because the closures that are measured borrow the settings.
    criterion: RefCell<Criterion>,
}

impl Settings {
    pub fn from_env(of_stores: &'static str) -> Self {
        Self {
            rows: if turns::is_quick() {
                100_000
            } else {
                1_000_000
            },
            of_stores,
            // Cargo passes `--bench`. The first other word selects the figures that have it in
            // their names, as in criterion.
            only: std::env::args().skip(1).find(|arg| !arg.starts_with("--")),
            criterion: RefCell::new(turns::criterion()),
        }
    }

    /// Whether this figure is selected.
    pub fn wants(&self, measured: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|word| measured.contains(word.as_str()))
    }

    /// Writes the index of criterion's report.
    pub fn finish(self) {
        self.criterion.into_inner().final_summary();
    }
}

/// Runs `ours` and `theirs` in turns and publishes their ratios. Both return seconds.
///
/// The ratio is ours / theirs, or theirs / ours if `unit` is `"throughput"`.
pub fn figure(
    settings: &Settings,
    (measured, against, reach, unit): (&str, &str, &str, &str),
    mut ours: impl FnMut() -> f64,
    mut theirs: impl FnMut() -> f64,
) {
    let turns = turns::take(
        &mut settings.criterion.borrow_mut(),
        &format!("{measured}, against {against}"),
        &["Holdfast", against],
        |turn| {
            // The files of the first measurement keep the disk busy during the second one, so the
            // order alternates.
            if turn % 2 == 0 {
                let seconds = ours();
                vec![seconds, theirs()]
            } else {
                let seconds = theirs();
                vec![ours(), seconds]
            }
        },
    );
    let ratios = if unit == "throughput" {
        turns::ratios(&turns, 1, 0)
    } else {
        turns::ratios(&turns, 0, 1)
    };
    let note = format!(
        "{:.3} s against {:.3} s",
        turns::median(&turns::side(&turns, 0)),
        turns::median(&turns::side(&turns, 1))
    );
    let figure = (measured, against, reach, unit);
    turns::publish(figure, &ratios, &note, settings.of_stores);
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
