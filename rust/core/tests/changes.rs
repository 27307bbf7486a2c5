//! A transaction's changes, applied to another database, give it the same contents, for every kind
//! of store.

use holdfast_core::{
    Commit, Database, DatabaseOptions, SessionQuery, Stamped, Step, StoreKind, StoreSpec,
    Timestamp, VersionRow, WindowPut, WindowedKey,
};
use std::sync::Arc;

fn db() -> Arc<Database> {
    let window = |timestamped, retain_duplicates| StoreKind::Window {
        retention: 100,
        window_size: 10,
        retain_duplicates,
        timestamped,
    };
    let stores = [
        StoreSpec::new("kv", StoreKind::KeyValue),
        StoreSpec::new("stamped", StoreKind::TimestampedKeyValue),
        StoreSpec::new(
            "versions",
            StoreKind::Versioned {
                history_retention: 100,
                segment_interval: 10,
            },
        ),
        StoreSpec::new("window", window(false, false)),
        StoreSpec::new("stamped_window", window(true, false)),
        StoreSpec::new("duplicates", window(false, true)),
        StoreSpec::new("session", StoreKind::Session { retention: 100 }),
    ];
    Database::open_in_memory(&stores, DatabaseOptions::default()).expect("opens")
}

type Row = (Vec<u8>, i64, i64, Vec<u8>);

/// Returns the contents of all stores, and their stream times.
fn contents(db: &Database) -> Vec<(&'static str, Vec<Row>, Option<Timestamp>)> {
    let mut tx = db.begin().expect("begins");
    let mut all = Vec::new();
    let mut rows = Vec::new();
    let row = |key: &[u8], a: i64, b: i64, value: &[u8]| (key.to_vec(), a, b, value.to_vec());
    let mut scan = db
        .key_value("kv")
        .expect("there")
        .range(&mut tx, None, None, false)
        .expect("scans");
    scan.for_each(&mut |key, value| {
        rows.push(row(key, 0, 0, value));
        Step::Next
    })
    .expect("reads");
    all.push(("kv", std::mem::take(&mut rows), None));
    let mut scan = db
        .timestamped_key_value("stamped")
        .expect("there")
        .range(&mut tx, None, None, false)
        .expect("scans");
    scan.for_each(&mut |key, Stamped { value, timestamp }| {
        rows.push(row(key, timestamp.0, 0, value));
        true
    })
    .expect("reads");
    all.push(("stamped", std::mem::take(&mut rows), None));
    let versions = db.versioned("versions").expect("there");
    let mut scan = versions
        .versions_range(&mut tx, None, None, Timestamp(0), Timestamp(1_000))
        .expect("scans");
    scan.for_each(&mut |key, version| {
        rows.push(row(
            key,
            version.timestamp.0,
            version.valid_to.map_or(0, |t| t.0),
            version.value,
        ));
        true
    })
    .expect("reads");
    all.push((
        "versions",
        std::mem::take(&mut rows),
        versions.stream_time(&tx),
    ));
    for name in ["window", "stamped_window", "duplicates"] {
        let store = db.window(name).expect("there");
        let mut scan = store
            .fetch_range(
                &mut tx,
                None,
                None,
                Timestamp(i64::MIN),
                Timestamp(i64::MAX),
                false,
            )
            .expect("scans");
        scan.for_each(&mut |window, Stamped { value, timestamp }| {
            rows.push(row(window.key, window.start.0, timestamp.0, value));
            true
        })
        .expect("reads");
        all.push((name, std::mem::take(&mut rows), store.stream_time(&tx)));
    }
    let store = db.session("session").expect("there");
    let query = SessionQuery {
        key_from: None,
        key_to: None,
        earliest_end: Timestamp(0),
        latest_start: Timestamp(1_000),
        reverse: false,
    };
    let mut scan = store.find_sessions(&mut tx, query).expect("scans");
    scan.for_each(&mut |session, value| {
        rows.push(row(session.key, session.start.0, session.end.0, value));
        true
    })
    .expect("reads");
    all.push(("session", rows, store.stream_time(&tx)));
    all
}

fn write(
    db: &Database,
    tx: &mut holdfast_core::Transaction,
    round: i64,
) -> holdfast_core::Result<()> {
    let at = |n: i64| Timestamp(round * 20 + n);
    // Keys with zeros and of different lengths: a change has the user's key, not the row's.
    for (n, key) in [b"a".as_slice(), b"a\0", b"\0\xff", b"longer"]
        .into_iter()
        .enumerate()
    {
        let value = [round as u8, n as u8];
        let value = (n as i64 != round).then_some(value.as_slice());
        db.key_value("kv")?.put(tx, key, value)?;
        db.timestamped_key_value("stamped")?
            .put(tx, key, value, at(n as i64))?;
        db.versioned("versions")?
            .put(tx, key, value, at(n as i64))?;
        db.window("window")?.put(
            tx,
            WindowPut {
                key,
                value,
                start: at(n as i64),
                timestamp: None,
            },
        )?;
        db.window("window")?.put(
            tx,
            WindowPut {
                key,
                value,
                start: at(0),
                timestamp: None,
            },
        )?;
        db.window("stamped_window")?.put(
            tx,
            WindowPut {
                key,
                value,
                start: at(n as i64),
                timestamp: Some(Timestamp(round)),
            },
        )?;
        db.window("duplicates")?.put(
            tx,
            WindowPut {
                key,
                value: Some(b"first"),
                start: at(0),
                timestamp: None,
            },
        )?;
        db.window("duplicates")?.put(
            tx,
            WindowPut {
                key,
                value: Some(b"second"),
                start: at(0),
                timestamp: None,
            },
        )?;
        db.session("session")?.put(
            tx,
            WindowedKey {
                key,
                start: at(0),
                end: at(n as i64),
            },
            Some(b"s"),
        )?;
        db.session("session")?.put(
            tx,
            WindowedKey {
                key,
                start: at(0),
                end: at(1),
            },
            value,
        )?;
    }
    // Delete a row of this round and one of the previous round.
    db.key_value("kv")?.put(tx, b"a", None)?;
    db.window("window")?.put(
        tx,
        WindowPut {
            key: b"a\0",
            value: None,
            start: Timestamp(round * 20 - 19),
            timestamp: None,
        },
    )
}

/// A change: key, value, time.
type Change = (Vec<u8>, Option<Vec<u8>>, Timestamp);

fn changes(db: &Database, store: &str, tx: &mut holdfast_core::Transaction) -> Vec<Change> {
    let mut rows = Vec::new();
    db.for_each_change(store, tx, &mut |row| {
        rows.push((
            row.key.to_vec(),
            row.value.map(<[u8]>::to_vec),
            row.timestamp,
        ));
        Ok(())
    })
    .expect("reads");
    rows
}

fn borrowed(changes: &[Change]) -> Vec<VersionRow<'_>> {
    changes
        .iter()
        .map(|(key, value, at)| VersionRow {
            key,
            value: value.as_deref(),
            timestamp: *at,
        })
        .collect()
}

#[test]
fn applied_changes_give_the_same_contents() {
    let (original, replica) = (db(), db());
    for round in 0..8 {
        let mut tx = original.begin().expect("begins");
        write(&original, &mut tx, round).expect("writes");
        let mut copy = replica.begin().expect("begins");
        for store in original.stores() {
            let changes = changes(&original, &store.name, &mut tx);
            let rows = borrowed(&changes);
            let time = original.stream_time(&store.name, &tx).expect("there");
            // In two batches: the borders of batches must not matter.
            let (a, b) = rows.split_at(rows.len() / 2);
            replica
                .apply_changes(&store.name, &mut copy, a, None)
                .expect("applies");
            replica
                .apply_changes(&store.name, &mut copy, b, time)
                .expect("applies");
        }
        original
            .commit_transaction(tx, Commit::default())
            .expect("commits");
        replica
            .commit_transaction(copy, Commit::default())
            .expect("commits");
        assert_eq!(contents(&original), contents(&replica), "round {round}");
        assert!(
            contents(&original)
                .iter()
                .all(|(_, rows, _)| !rows.is_empty()),
            "round {round}"
        );
    }
}

/// Rows that expire within their transaction are changes, too: their puts were accepted. The order
/// of the changes is that of the keys, so a later row comes before an earlier one.
#[test]
fn applied_changes_are_the_same_changes() {
    let db = db();
    let mut tx = db.begin().expect("begins");
    for (key, at) in [(b"b", 0), (b"a", 5_000)] {
        let (key, value, start) = (key.as_slice(), Some(b"v".as_slice()), Timestamp(at));
        for store in ["window", "stamped_window", "duplicates"] {
            let put = WindowPut {
                key,
                value,
                start,
                timestamp: (store == "stamped_window").then_some(start),
            };
            let store = db.window(store).expect("there");
            store.put(&mut tx, put).expect("puts");
        }
        let versions = db.versioned("versions").expect("there");
        versions.put(&mut tx, key, value, start).expect("puts");
        let session = WindowedKey {
            key,
            start,
            end: start,
        };
        let sessions = db.session("session").expect("there");
        sessions.put(&mut tx, session, value).expect("puts");
    }
    for store in [
        "versions",
        "window",
        "stamped_window",
        "duplicates",
        "session",
    ] {
        let given = changes(&db, store, &mut tx);
        assert_eq!(given.len(), 2, "{store}");
        let mut copy = db.begin().expect("begins");
        let time = db.stream_time(store, &tx).expect("there");
        db.apply_changes(store, &mut copy, &borrowed(&given), time)
            .expect("applies");
        assert_eq!(changes(&db, store, &mut copy), given, "{store}");
    }
}
