//! The key-value store against RocksDB used by hand.
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench")]

mod measure;
mod raw;
mod turns;

use holdfast_core::StoreKind;
use measure::{
    Data, FILES, KEY, Settings, TRANSACTION, VALUE, bytes, commit, figure, open, timed,
    transactional_puts,
};

fn main() {
    let settings = Settings::from_env(FILES);
    puts(&settings);
    read_modify_write(&settings);
    reads(&settings);
    settings.finish();
}

fn puts(settings: &Settings) {
    let data = Data::new(settings.rows);
    let rows = data.rows();
    let ours = || {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), StoreKind::KeyValue);
        let store = db.key_value("s").unwrap();
        timed(|| transactional_puts(&db, &store, &rows))
    };
    figure(
        settings,
        (
            "transaction of 10,000 random puts, staged and committed with offsets",
            "the same puts to RocksDB one by one, WAL off",
            ">= 2.2",
            "throughput",
        ),
        ours,
        || {
            let dir = tempfile::tempdir().unwrap();
            let rocks = raw::open(dir.path(), false);
            timed(|| raw::put_loop(&rocks, rows.iter().copied()))
        },
    );
    figure(
        settings,
        (
            "transaction of 10,000 random puts, staged and committed with offsets",
            "one sorted, hinted raw WriteBatch (the floor)",
            "<= 1.15",
            "time",
        ),
        ours,
        || {
            let dir = tempfile::tempdir().unwrap();
            let rocks = raw::open(dir.path(), true);
            timed(|| raw::sorted_batches(&rocks, &rows, TRANSACTION))
        },
    );
}

fn read_modify_write(settings: &Settings) {
    let keys = settings.rows / 10;
    let data = Data::new(keys);
    let order = bytes(3, settings.rows * 8);
    let pick =
        |n: usize| u64::from_le_bytes(order[n * 8..][..8].try_into().unwrap()) as usize % keys;
    let rows = data.rows();
    let changed = |value: Option<&[u8]>, into: &mut Vec<u8>| {
        into.clear();
        into.extend_from_slice(value.unwrap_or(&[0; VALUE]));
        into[0] = into[0].wrapping_add(1);
    };
    figure(
        settings,
        (
            "read-modify-write over 100,000 keys, reads in batches of 1,000",
            "RocksDB get + put one by one",
            ">= 1.3",
            "throughput",
        ),
        || {
            let dir = tempfile::tempdir().unwrap();
            let db = open(dir.path(), StoreKind::KeyValue);
            let store = db.key_value("s").unwrap();
            transactional_puts(&db, &store, &rows);
            timed(|| {
                for first in (0..settings.rows).step_by(TRANSACTION) {
                    let mut tx = db.begin().unwrap();
                    for batch in (first..first + TRANSACTION).step_by(1000) {
                        let wanted: Vec<&[u8]> =
                            (batch..batch + 1000).map(|n| data.key(pick(n))).collect();
                        let mut values = vec![Vec::new(); wanted.len()];
                        store
                            .get_batch(&mut tx, &wanted, |n, value| changed(value, &mut values[n]))
                            .unwrap();
                        for (key, value) in wanted.iter().zip(&values) {
                            store.put(&mut tx, key, Some(value)).unwrap();
                        }
                    }
                    commit(&db, tx, first);
                }
            })
        },
        || {
            let dir = tempfile::tempdir().unwrap();
            let rocks = raw::open(dir.path(), false);
            raw::put_loop(&rocks, rows.iter().copied());
            let options = raw::no_wal();
            let mut value = Vec::new();
            timed(|| {
                for n in 0..settings.rows {
                    let key = data.key(pick(n));
                    changed(rocks.get_pinned(key).unwrap().as_deref(), &mut value);
                    rocks.put_opt(key, &value, &options).unwrap();
                }
            })
        },
    );
}

fn reads(settings: &Settings) {
    let data = Data::new(settings.rows);
    let staged = bytes(9, TRANSACTION * KEY);
    let order = bytes(4, settings.rows * 8);
    let pick = |n: usize| {
        u64::from_le_bytes(order[n * 8..][..8].try_into().unwrap()) as usize % settings.rows
    };
    let rows = data.rows();
    let (dir, raw_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let db = open(dir.path(), StoreKind::KeyValue);
    let store = db.key_value("s").unwrap();
    transactional_puts(&db, &store, &rows);
    db.flush(true).unwrap();
    db.compact("s").unwrap();
    let rocks = raw::open(raw_dir.path(), false);
    raw::put_loop(&rocks, rows.iter().copied());
    rocks.flush().unwrap();
    rocks.compact_range(None::<&[u8]>, None::<&[u8]>);
    let lookups = settings.rows / 5;
    figure(
        settings,
        (
            "read of keys not in the transaction (10,000 others staged)",
            "plain RocksDB get",
            "<= 1.05",
            "time",
        ),
        || {
            let mut tx = db.begin().unwrap();
            for key in staged.chunks(KEY) {
                store.put(&mut tx, key, Some(&[1; VALUE])).unwrap();
            }
            let mut found = 0usize;
            let took = timed(|| {
                for n in 0..lookups {
                    found += store
                        .get(&mut tx, data.key(pick(n)), |value| {
                            value.map_or(0, |v| v.len())
                        })
                        .unwrap();
                }
            });
            assert_eq!(found, lookups * VALUE);
            took
        },
        || {
            let mut found = 0usize;
            let took = timed(|| {
                for n in 0..lookups {
                    found += rocks
                        .get_pinned(data.key(pick(n)))
                        .unwrap()
                        .map_or(0, |v| v.len());
                }
            });
            assert_eq!(found, lookups * VALUE);
            took
        },
    );
}
