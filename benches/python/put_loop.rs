//! The loop that `put_batch` from Python is measured against: the same puts, staged and committed
//! from Rust.
//!
//! `put_loop DIRECTORY ROWS BATCH` prints the seconds that it took; keys and values are made before
//! the clock starts.

use holdfast_core::{Commit, Database, DatabaseOptions, Durability, StoreKind, StoreSpec};
use std::path::PathBuf;
use std::time::Instant;

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut next = |what: &str| {
        args.next()
            .ok_or_else(|| format!("{what} is missing: put_loop DIRECTORY ROWS BATCH"))
    };
    let directory = PathBuf::from(next("DIRECTORY")?);
    let rows: usize = next("ROWS")?.parse()?;
    let batch: usize = next("BATCH")?.parse()?;

    let mut random = SplitMix(1);
    let keys: Vec<u8> = (0..rows * KEY_BYTES / 8)
        .flat_map(|_| random.next().to_le_bytes())
        .collect();
    let values: Vec<u8> = (0..(rows * VALUE_BYTES).div_ceil(8))
        .flat_map(|_| random.next().to_le_bytes())
        .collect();

    let options = DatabaseOptions {
        durability: Durability::Changelog,
        ..DatabaseOptions::default()
    };
    let db = Database::open(
        &directory,
        &[StoreSpec::new("kv", StoreKind::KeyValue)],
        options,
    )?;
    let store = db.key_value("kv")?;
    let began = Instant::now();
    for first in (0..rows).step_by(batch) {
        let mut tx = db.begin()?;
        for row in first..(first + batch).min(rows) {
            let key = &keys[row * KEY_BYTES..][..KEY_BYTES];
            let value = &values[row * VALUE_BYTES..][..VALUE_BYTES];
            store.put(&mut tx, key, Some(value))?;
        }
        db.commit_transaction(tx, Commit::default())?;
    }
    println!("{}", began.elapsed().as_secs_f64());
    db.close()?;
    Ok(())
}

/// A seeded source of bytes that do not compress.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
