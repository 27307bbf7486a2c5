//! Stores in memory against an ordered map behind a lock.
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench")]

mod measure;
mod turns;

use holdfast_core::{Database, DatabaseOptions, KeyValueStore, StoreKind, StoreSpec};
use measure::{Data, Settings, TRANSACTION, VALUE, bytes, figure, offsets, timed};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

fn main() {
    let settings = Settings::from_env("in memory");
    for keys in [settings.rows, settings.rows / 10] {
        let data = Data::new(keys);
        let random = bytes(4, settings.rows * 8);
        let order: Vec<usize> = random
            .chunks(8)
            .map(|n| u64::from_le_bytes(n.try_into().unwrap()) as usize % keys)
            .collect();
        puts(&settings, &data, &order, keys);
        gets(&settings, &data, &order, keys);
    }
    settings.finish();
}

type Map = RwLock<BTreeMap<Vec<u8>, Vec<u8>>>;

fn open() -> (Arc<Database>, KeyValueStore) {
    let db = Database::open_in_memory(
        &[StoreSpec::new("s", StoreKind::KeyValue)],
        DatabaseOptions::default(),
    )
    .unwrap();
    let store = db.key_value("s").unwrap();
    (db, store)
}

/// Puts, with a commit and a view of it after each 10,000.
fn put_all(db: &Database, store: &KeyValueStore, data: &Data, order: &[usize]) {
    let mut views = Vec::new();
    for (n, chunk) in order.chunks(TRANSACTION).enumerate() {
        for key in chunk {
            store
                .put(
                    &mut db.transaction().unwrap(),
                    data.key(*key),
                    Some(data.value(*key)),
                )
                .unwrap();
        }
        db.commit(offsets(n as i64)).unwrap();
        views.clear();
        views.push(db.begin().unwrap());
    }
}

fn insert_all(map: &Map, data: &Data, order: &[usize]) {
    for key in order {
        map.write()
            .insert(data.key(*key).to_vec(), data.value(*key).to_vec());
    }
}

fn puts(settings: &Settings, data: &Data, order: &[usize], keys: usize) {
    figure(
        settings,
        (
            &format!(
                "in memory: {} puts over {keys} keys, a commit and a snapshot for each 10,000",
                order.len()
            ),
            "BTreeMap behind a lock, without snapshots",
            "<= 1.5",
            "time",
        ),
        || {
            let (db, store) = open();
            timed(|| put_all(&db, &store, data, order))
        },
        || {
            let map = Map::default();
            timed(|| insert_all(&map, data, order))
        },
    );
}

fn gets(settings: &Settings, data: &Data, order: &[usize], keys: usize) {
    let name = format!("in memory: {} gets over {keys} keys", order.len());
    if !settings.wants(&name) {
        return;
    }
    let (db, store) = open();
    let map = Map::default();
    put_all(&db, &store, data, order);
    insert_all(&map, data, order);
    // In another order than that of the puts.
    let reads = || order.iter().rev();
    figure(
        settings,
        (&name, "BTreeMap behind a lock", "<= 1.5", "time"),
        || {
            timed(|| {
                for key in reads() {
                    let mut tx = db.transaction().unwrap();
                    let found = store
                        .get(&mut tx, data.key(*key), |value| {
                            value.map_or(0, <[u8]>::len)
                        })
                        .unwrap();
                    assert_eq!(found, VALUE);
                }
            })
        },
        || {
            timed(|| {
                for key in reads() {
                    let found = map.read().get(data.key(*key)).map_or(0, Vec::len);
                    assert_eq!(found, VALUE);
                }
            })
        },
    );
}
