//! Scans that merge staged and stored rows against scans of stored rows alone, and ranges between
//! puts against ranges without the puts.
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench")]

mod measure;
mod raw;
mod turns;

use holdfast_core::{Database, KeyValueStore, Step, StoreKind, Transaction};
use measure::{Data, FILES, KEY, Settings, VALUE, bytes, figure, open, timed, transactional_puts};

fn main() {
    let settings = Settings::from_env(FILES);
    let data = Data::new(settings.rows);
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), StoreKind::KeyValue);
    let store = db.key_value("s").unwrap();
    transactional_puts(&db, &store, &data.rows());
    db.flush(true).unwrap();
    db.compact("s").unwrap();
    whole(&settings, &data, &db, &store);
    for staged in [5_000, 100_000] {
        ranges(&settings, staged, &db, &store);
    }
    ranges_between_puts(&settings, &db, &store);
    settings.finish();
}

/// Returns a transaction with staged rows; half of their keys are stored already.
fn staged(db: &Database, store: &KeyValueStore, rows: usize) -> Transaction {
    let mut tx = db.begin().unwrap();
    let (old, new) = (bytes(1, rows / 2 * KEY), bytes(7, rows / 2 * KEY));
    for key in old.chunks(KEY).chain(new.chunks(KEY)) {
        store.put(&mut tx, key, Some(&[1; VALUE])).unwrap();
    }
    tx
}

/// A copy of the rows, such as users of a scan make. A loop that copies nothing would not wait for
/// the memory of the rows, and would seem too fast.
#[derive(Default)]
struct Page {
    bytes: Vec<u8>,
    total: usize,
}

impl Page {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        if self.bytes.len() > 1 << 18 {
            self.bytes.clear();
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.total += key.len() + value.len();
    }
}

fn whole(settings: &Settings, data: &Data, db: &Database, store: &KeyValueStore) {
    let dir = tempfile::tempdir().unwrap();
    let rocks = raw::open(dir.path(), false);
    raw::put_loop(&rocks, data.rows().into_iter());
    rocks.flush().unwrap();
    rocks.compact_range(None::<&[u8]>, None::<&[u8]>);
    let rows = settings.rows;
    let by_hand = || {
        let mut page = Page::default();
        let took = timed(|| {
            let mut cursor = rocks.raw_iterator();
            cursor.seek_to_first();
            while let Some((key, value)) = cursor.item() {
                page.push(key, value);
                cursor.next();
            }
        });
        assert_eq!(page.total, rows * (KEY + VALUE));
        took
    };
    for (count, reach) in [(rows / 10, "<= 1.3"), (0, "")] {
        let ours = || {
            let mut tx = staged(db, store, count);
            let mut page = Page::default();
            let took = timed(|| {
                let mut scan = store.range(&mut tx, None, None, false).unwrap();
                scan.for_each(&mut |key, value| {
                    page.push(key, value);
                    Step::Next
                })
                .unwrap();
            });
            assert_eq!(page.total, (rows + count / 2) * (KEY + VALUE));
            took
        };
        let name = format!("scan of {rows} rows merged with {count} staged ones");
        figure(
            settings,
            (
                &name,
                "a plain RocksDB scan of the stored ones, both copied out",
                reach,
                "time",
            ),
            ours,
            by_hand,
        );
    }
}

/// Reads a range of 100 rows from a key on, with an open upper end.
fn range(tx: &mut Transaction, store: &KeyValueStore, from: &[u8]) {
    let mut rows = 0;
    let mut scan = store.range(tx, Some(from), None, false).unwrap();
    scan.for_each(&mut |_, _| {
        rows += 1;
        if rows < 100 { Step::Next } else { Step::Pause }
    })
    .unwrap();
}

fn ranges(settings: &Settings, count: usize, db: &Database, store: &KeyValueStore) {
    let from = bytes(8, settings.rows / 50 * KEY);
    let run = |count: usize| {
        let mut tx = staged(db, store, count);
        timed(|| {
            from.chunks(KEY)
                .for_each(|from| range(&mut tx, store, from))
        })
    };
    let name = format!("range of 100 with an open upper end, {count} entries staged");
    figure(
        settings,
        (&name, "the same with nothing staged", "<= 1.25", "time"),
        || run(count),
        || run(0),
    );
}

/// Measures ranges with a put before each. Each range sees that put, so it needs a new view.
fn ranges_between_puts(settings: &Settings, db: &Database, store: &KeyValueStore) {
    let from = bytes(8, settings.rows / 50 * KEY);
    let run = |puts: bool| {
        let mut tx = staged(db, store, 5_000);
        timed(|| {
            for from in from.chunks(KEY) {
                if puts {
                    store.put(&mut tx, from, Some(&[1; VALUE])).unwrap();
                }
                range(&mut tx, store, from);
            }
        })
    };
    figure(
        settings,
        (
            "range of 100 behind each put, 5,000 entries staged before",
            "the same ranges without the puts",
            "",
            "time",
        ),
        || run(true),
        || run(false),
    );
}
