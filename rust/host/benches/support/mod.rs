//! A root, and rows of an as-of join for it.
#![allow(dead_code, reason = "each bench uses some of it")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use serde_json::{Value, json};
use tempfile::TempDir;

const KEYS: u64 = 100_000;

/// A root with Spark's checkpoint in it.
pub struct BenchRoot {
    path: PathBuf,
    /// The temporary folder of a root made by `new`.
    _folder: Option<TempDir>,
}

impl BenchRoot {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = Self::at(folder.path()).path;
        Self {
            path,
            _folder: Some(folder),
        }
    }

    /// A root in this folder, which another process may have created.
    pub fn at(path: &Path) -> Self {
        for folder in ["query/offsets", "query/commits"].map(|name| path.join(name)) {
            std::fs::create_dir_all(folder).unwrap();
        }
        let metadata = path.join("query/metadata");
        if !metadata.exists() {
            std::fs::write(metadata, r#"{"id":"bench"}"#).unwrap();
        }
        Self {
            path: path.to_owned(),
            _folder: None,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn begin(&self, epoch: usize) {
        std::fs::write(self.path().join(format!("query/offsets/{epoch}")), "v1").unwrap();
    }

    pub fn commit(&self, epoch: usize) {
        std::fs::write(self.path().join(format!("query/commits/{epoch}")), "v1").unwrap();
    }
}

/// The request of the join's session in an epoch.
pub fn request(root: &BenchRoot, epoch: usize) -> String {
    request_of(root, epoch, (0, 1), &json!({}))
}

/// The request of one of several partitions.
pub fn request_of(
    root: &BenchRoot,
    epoch: usize,
    (partition, partitions): (usize, usize),
    settings: &Value,
) -> String {
    json!({
        "root": root.path(), "local_dir": null, "scratch": false, "query_id": "bench",
        "run_id": "run", "epoch": epoch,
        "partition": partition, "partitions": partitions, "attempt": epoch, "instance": "call",
        "writer_secret": "bench", "settings": settings,
        "operator": {
            "name": "join", "kind": "join_asof", "keys": ["currency"], "left": ["id", "amount"],
            "right": ["rate"], "how": "left",
            "history_retention": 86_400_000_000_i64, "order_left": [], "order_right": [],
            "output": [
                {"name": "customer", "from": "key", "index": 0},
                {"name": "at", "from": "time", "index": 0},
                {"name": "id", "from": "left", "index": 0},
                {"name": "amount", "from": "left", "index": 1},
                {"name": "rate", "from": "right", "index": 0},
                {"name": "valid_from", "from": "right_time", "index": 0},
            ],
        },
    })
    .to_string()
}

/// Rows of an epoch: half rates, half orders, with random keys and random times within the epoch's
/// second.
pub fn batch(epoch: usize, start: usize, rows: usize) -> RecordBatch {
    batch_of(0, epoch, start, rows, true)
}

/// Rows of a partition as in [`batch`]; only rates unless `orders`.
pub fn batch_of(
    partition: usize,
    epoch: usize,
    start: usize,
    rows: usize,
    orders: bool,
) -> RecordBatch {
    let random = |row: usize, salt: u64| {
        let mut x = ((epoch as u64) << 32 | (start + row) as u64)
            .wrapping_add(salt)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        x = (x ^ (x >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x ^ (x >> 29)
    };
    let left = |row: usize| orders && row.is_multiple_of(2);
    let columns: [(&str, ArrayRef); 8] = [
        (
            "pid",
            Arc::new(Int32Array::from(vec![
                i32::try_from(partition).unwrap();
                rows
            ])),
        ),
        (
            "side",
            Arc::new(
                (0..rows)
                    .map(|row| Some(left(row)))
                    .collect::<BooleanArray>(),
            ),
        ),
        ("deleted", Arc::new(BooleanArray::from(vec![false; rows]))),
        (
            "t",
            Arc::new(
                (0..rows)
                    .map(|row| {
                        Some((epoch as i64) * 1_000_000 + (random(row, 1) % 1_000_000) as i64)
                    })
                    .collect::<TimestampMicrosecondArray>()
                    .with_timezone("UTC"),
            ),
        ),
        (
            "k0",
            Arc::new(
                (0..rows)
                    .map(|row| Some(format!("customer-{:06}", random(row, 2) % KEYS)))
                    .collect::<StringArray>(),
            ),
        ),
        (
            "l0",
            Arc::new(
                (0..rows)
                    .map(|row| left(row).then_some(row as i64))
                    .collect::<Int64Array>(),
            ),
        ),
        (
            "l1",
            Arc::new(
                (0..rows)
                    .map(|row| left(row).then_some(row as f64))
                    .collect::<Float64Array>(),
            ),
        ),
        (
            "r0",
            Arc::new(
                (0..rows)
                    .map(|row| (!left(row)).then_some(row as f64))
                    .collect::<Float64Array>(),
            ),
        ),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}
