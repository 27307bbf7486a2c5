//! Transactions that exceed their memory: spilled, read, committed, rolled back, interrupted.
//!
//! `support.rs` the stores · `map.rs` random steps compared with a map · `interrupted.rs`
//! interrupted commits and spills · `second_opener.rs` an open while a commit runs.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(missing_docs, reason = "an executable, not a library")]

mod interrupted;
mod map;
mod second_opener;
mod support;

use holdfast_core::{
    Commit, Database, DatabaseOptions, Durability, ErrorKind, Op, Timestamp, Transaction,
    TransactionMechanism, VersionRow,
};
use support::{
    Rows, at, committed, directory, expected, folder_is_empty, open, options, put, rows, specs,
    transaction, turn,
};

#[test]
fn scans_and_views_do_not_change_with_spills_commits_and_rollbacks() {
    let _turn = turn();
    let dir = directory();
    let db = open(dir.path(), 0);
    let store = db.key_value("kv").unwrap();
    for i in 0..50u8 {
        put(&db, &[i], Some(b"old"));
    }
    db.commit(at(1)).unwrap();
    for i in 0..50u8 {
        put(&db, &[i], (i % 2 == 0).then_some(b"new"));
    }
    let mut reader = db.transaction().unwrap().reader();
    let seen = rows(&db, &mut reader);
    assert_eq!(seen.len(), 25);
    let mut scan = store
        .range(&mut db.transaction().unwrap(), None, None, true)
        .unwrap();
    let mut found = Rows::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        found.insert(key.to_vec(), value.to_vec());
        if key[0] > 30 {
            holdfast_core::Step::Next
        } else {
            holdfast_core::Step::Pause
        }
    };
    assert!(scan.for_each(&mut visit).unwrap());
    for i in 0..60u8 {
        put(&db, &[i], Some(b"newer"));
    }
    db.rollback().unwrap();
    assert_eq!(rows(&db, &mut reader), seen);
    for i in 0..60u8 {
        put(&db, &[i], None);
    }
    db.commit(at(2)).unwrap();
    assert_eq!(rows(&db, &mut reader), seen);
    while scan.for_each(&mut visit).unwrap() {}
    assert_eq!(found, seen);
    assert!(rows(&db, &mut db.begin().unwrap()).is_empty());

    // The rows of the reader and of the scan are in files, which the last reference deletes.
    let uncommitted = dir.path().join("+uncommitted");
    assert!(!folder_is_empty(&uncommitted));
    drop((reader, scan));
    assert!(folder_is_empty(&uncommitted));
}

#[test]
fn another_transaction_on_the_same_commit_reads_only_the_commit_and_its_own_rows() {
    let _turn = turn();
    let dir = directory();
    let db = open(dir.path(), 1 << 20);
    let store = db.key_value("kv").unwrap();
    put(&db, b"a", Some(b"committed"));
    db.commit(at(1)).unwrap();
    let mut first = db.begin().unwrap();
    store.put(&mut first, b"b", Some(b"spilled")).unwrap();
    first.spill().unwrap();
    store.put(&mut first, b"c", Some(b"staged")).unwrap();
    // A later commit is not in the second transaction: it is on the commit of the first one.
    put(&db, b"d", Some(b"later"));
    db.commit(at(2)).unwrap();
    let mut second = first.begin_another();
    store.put(&mut second, b"e", Some(b"second")).unwrap();
    second.spill().unwrap();
    let expected = |keys: [(&str, &str); 2]| -> Rows {
        let owned = |(key, value): (&str, &str)| (key.into(), value.into());
        keys.map(owned).into_iter().collect()
    };
    let committed = ("a", "committed");
    assert_eq!(
        rows(&db, &mut second),
        expected([committed, ("e", "second")])
    );
    drop(second);
    assert_eq!(rows(&db, &mut first).len(), 3, "the first one is unchanged");
}

#[test]
fn large_batch_spills_and_memory_stays_small() {
    let _turn = turn();
    let dir = directory();
    let limit = 256 << 10;
    let db = open(dir.path(), limit);
    let rates = db.versioned("rates").unwrap();
    let keys: Vec<_> = (0..50_000u32).map(u32::to_be_bytes).collect();
    let ops: Vec<_> = keys
        .iter()
        .map(|key| Op::Put {
            key,
            value: Some(key),
            timestamp: Timestamp(5),
        })
        .collect();
    let mut tx = db.transaction().unwrap();
    let (mut seen, mut most) = (0, 0);
    rates
        .apply_batch(&mut tx, &ops, true, &mut |n, _| {
            seen += usize::from(n == seen)
        })
        .unwrap();
    assert_eq!(seen, ops.len(), "rows are numbered across spills");
    assert!(tx.has_spilled());
    let store = db.key_value("kv").unwrap();
    for key in &keys {
        store.put(&mut tx, key, Some(&[7; 100])).unwrap();
        most = most.max(tx.uncommitted_bytes());
    }
    assert!(most < limit as usize + (64 << 10), "{most} bytes at most");
    drop(tx);
    db.commit(at(1)).unwrap();
    let mut view = db.begin().unwrap();
    assert_eq!(rows(&db, &mut view).len(), keys.len());
    let mut versions = 0;
    let mut scan = rates.scan(&mut view, Some(Timestamp(5))).unwrap();
    scan.for_each(&mut |_, _| {
        versions += 1;
        true
    })
    .unwrap();
    assert_eq!(versions, keys.len());
}

/// A small record's places in the list of records, the index and the order take ten times as much
/// memory as its data.
#[test]
fn small_records_stay_within_the_memory_limit() {
    let _turn = turn();
    for (limit, puts) in [(256 << 10, 50_000u32), (16 << 20, 600_000)] {
        let dir = directory();
        let db = open(dir.path(), limit);
        let store = db.key_value("kv").unwrap();
        let mut tx = db.transaction().unwrap();
        let mut most = 0;
        for key in 0..puts {
            store.put(&mut tx, &key.to_be_bytes(), Some(&[7])).unwrap();
            most = most.max(tx.uncommitted_bytes());
        }
        assert!(tx.has_spilled());
        assert!(most < limit as usize + (64 << 10), "{most} bytes at most");
        // The transaction spills only when its memory is full.
        assert!(most > limit as usize * 9 / 10, "{most} bytes at most");
    }
}

/// A versioned store checks the memory between parts of 16,384 rows, other stores after each row.
#[test]
fn batch_exceeds_the_memory_limit_by_at_most_one_part() {
    let _turn = turn();
    let limit = 1 << 20;
    let keys: Vec<_> = (0..100_000u32).map(u32::to_be_bytes).collect();
    let versions = |tx: &mut Transaction, db: &Database, rows: usize| {
        let rows: Vec<VersionRow<'_>> = keys[..rows]
            .iter()
            .map(|key| VersionRow {
                key,
                value: Some(key),
                timestamp: Timestamp(5),
            })
            .collect();
        let rates = db.versioned("rates").unwrap();
        rates.put_batch(tx, &rows, &mut |_| {}).unwrap();
        tx.peak_bytes()
    };
    let dir = directory();
    let db = open(dir.path(), -1);
    let part = versions(&mut db.begin().unwrap(), &db, 16_384);
    db.close().unwrap();
    let db = open(dir.path(), limit);
    let bound = limit as usize + (64 << 10);
    let mut tx = db.begin().unwrap();
    let most = versions(&mut tx, &db, keys.len());
    assert!(tx.has_spilled());
    assert!(most < bound + part, "{most} bytes, {part} in a part");

    let mut tx = db.begin().unwrap();
    let rows = keys.iter().map(|key| (&key[..], Some(&key[..])));
    let store = db.key_value("kv").unwrap();
    store.put_batch(&mut tx, rows).unwrap();
    assert!(tx.has_spilled());
    assert!(tx.peak_bytes() < bound, "{} bytes", tx.peak_bytes());
}

#[test]
fn deletes_of_a_range_count_for_the_memory_limit() {
    let _turn = turn();
    let dir = directory();
    let limit = 1 << 20;
    let db = open(dir.path(), limit);
    let store = db.key_value("kv").unwrap();
    let mut tx = db.transaction().unwrap();
    for key in 0..12_000u32 {
        store.put(&mut tx, &key.to_be_bytes(), Some(&[7])).unwrap();
    }
    assert!(!tx.has_spilled());
    // Stages a delete for each of these rows.
    store.delete_range(&mut tx, None, None).unwrap();
    store.put(&mut tx, b"next", Some(&[7])).unwrap();
    assert!(tx.has_spilled());
    assert!(tx.uncommitted_bytes() < 1_000);
}

#[test]
fn spill_does_not_change_the_estimate_of_entries() {
    let _turn = turn();
    let dir = directory();
    let db = open(dir.path(), 1 << 30);
    let store = db.key_value("kv").unwrap();
    for i in 0..20u8 {
        put(&db, &[i], Some(b"1"));
    }
    db.commit(at(1)).unwrap();
    let mut tx = db.begin().unwrap();
    for left in [19, 18] {
        store.put(&mut tx, &[left], None).unwrap();
        let left = u64::from(left);
        assert_eq!(store.approximate_num_entries(&tx).unwrap(), left);
        tx.spill().unwrap();
        assert!(tx.has_spilled());
        assert_eq!(store.approximate_num_entries(&tx).unwrap(), left);
    }
}

/// Once, such a view listed the spilled changes only.
#[test]
fn view_of_a_spilled_transaction_lists_all_changes_or_none() {
    let _turn = turn();
    let dir = directory();
    let db = open(dir.path(), 1 << 30);
    let changes = |tx: &mut Transaction| {
        let mut keys = Vec::new();
        let listed = db.for_each_change("kv", tx, &mut |row| {
            keys.push(row.key.to_vec());
            Ok(())
        });
        listed.map(|()| keys)
    };
    put(&db, b"a", Some(b"1"));
    let mut tx = db.transaction().unwrap();
    tx.spill().unwrap();
    assert_eq!(changes(&mut tx.reader()).unwrap(), [b"a"]);
    let store = db.key_value("kv").unwrap();
    store.put(&mut tx, b"b", Some(b"2")).unwrap();
    let error = changes(&mut tx.reader()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedOperation, "{error}");
    assert_eq!(changes(&mut tx).unwrap(), [b"a", b"b"]);
}

#[test]
fn mechanism_and_limit_decide_what_spills() {
    let _turn = turn();
    for (mechanism, limit, spills) in [
        (TransactionMechanism::Auto, 64 << 20, false),
        (TransactionMechanism::Auto, 100_000, true),
        (TransactionMechanism::Auto, -1, false),
        (TransactionMechanism::IndexedBatch, 100_000, false),
        (TransactionMechanism::SecondaryStore, 64 << 20, true),
        (TransactionMechanism::SecondaryStore, -1, true),
    ] {
        let dir = directory();
        let options = DatabaseOptions {
            mechanism,
            ..options(Durability::Changelog, limit)
        };
        let db = Database::open(dir.path(), &specs(), options).unwrap();
        for store in ["kv", "direct", "memory"] {
            let mut tx = db.transaction().unwrap();
            for i in 0..4_000u32 {
                db.key_value(store)
                    .unwrap()
                    .put(&mut tx, &i.to_be_bytes(), Some(&[1; 1000]))
                    .unwrap();
            }
            assert_eq!(
                tx.has_spilled(),
                spills && store == "kv",
                "{mechanism:?} {limit} {store}"
            );
            drop(tx);
            db.rollback().unwrap();
        }
    }
}

#[test]
fn checkpoint_excludes_the_open_transaction() {
    let _turn = turn();
    let dir = directory();
    let db = open(&dir.path().join("database"), 0);
    transaction(&db, 1);
    db.commit(at(1)).unwrap();
    transaction(&db, 2);
    assert!(db.transaction().unwrap().has_spilled());
    let copy = dir.path().join("copy");
    db.checkpoint(&copy).unwrap();
    assert!(!copy.join("+uncommitted").exists());
    let copied = open(&copy, 0);
    assert_eq!(committed(&copied), committed(&db));
    db.commit(at(2)).unwrap();
    assert_eq!(committed(&db), expected(Durability::Sync, 2));
}

#[test]
fn close_and_open_remove_spilled_files() {
    let _turn = turn();
    let dir = directory();
    let uncommitted = dir.path().join("+uncommitted");
    let db = open(dir.path(), 0);
    transaction(&db, 1);
    let mut reader = db.transaction().unwrap().reader();
    let mut scan = db
        .key_value("kv")
        .unwrap()
        .range(&mut reader, None, None, false)
        .unwrap();
    db.close().unwrap();
    let closed = db
        .key_value("kv")
        .unwrap()
        .get(&mut reader, b"k", |_| ())
        .unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::StoreClosed);
    assert_eq!(
        scan.for_each(&mut |_, _| holdfast_core::Step::Next)
            .unwrap_err()
            .kind(),
        ErrorKind::StoreClosed
    );
    drop((scan, reader));
    assert!(folder_is_empty(&uncommitted));

    // Files that a crash leaves.
    std::fs::create_dir_all(uncommitted.join("7")).unwrap();
    std::fs::write(uncommitted.join("7/000012.sst"), b"rows").unwrap();
    std::fs::create_dir_all(dir.path().join("+commit")).unwrap();
    std::fs::write(dir.path().join("+commit/0-0.sst"), b"rows").unwrap();
    std::fs::write(dir.path().join("+commit/COMMIT.draft"), b"half of it").unwrap();
    let db = open(dir.path(), 0);
    assert!(folder_is_empty(&uncommitted));
    assert!(!dir.path().join("+commit").exists());
    assert!(rows(&db, &mut db.transaction().unwrap()).is_empty());
}

/// Once, the commit of a spilled private transaction dropped the writes of the open transaction
/// without an error.
#[test]
fn spilled_private_commit_does_not_drop_the_open_transaction() {
    let _turn = turn();
    let dir = directory();
    let db = open(dir.path(), 1 << 30);
    let store = db.key_value("kv").unwrap();
    put(&db, b"open", Some(b"1"));
    let mut private = db.begin().unwrap();
    store.put(&mut private, b"private", Some(b"1")).unwrap();
    private.spill().unwrap();
    db.commit_transaction(private, Commit::default()).unwrap();
    // As after any commit of a private transaction, the open transaction can only be rolled back.
    let mut open = db.transaction().unwrap();
    assert_eq!(
        rows(&db, &mut open).into_keys().collect::<Vec<_>>(),
        [b"open"]
    );
    drop(open);
    let error = db.commit(at(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    db.rollback().unwrap();
    let committed = rows(&db, &mut db.begin().unwrap());
    assert_eq!(committed.into_keys().collect::<Vec<_>>(), [b"private"]);
}
