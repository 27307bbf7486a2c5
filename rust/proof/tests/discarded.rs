//! Disk errors while an open discards a store after an unclean stop.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::{
    Database, DatabaseOptions, Durability, ErrorKind, FigureValue, ProcessingGuarantee, StoreKind,
    StoreSpec, Timestamp,
};
use holdfast_proof::faults::{Faults, Operation};
use std::path::Path;
use std::sync::Arc;

fn open(path: &Path, faults: &Faults) -> holdfast_core::Result<Arc<Database>> {
    let kind = StoreKind::Versioned {
        history_retention: 100,
        segment_interval: 10,
    };
    let stores = [StoreSpec {
        transactional: false,
        ..StoreSpec::new("rates", kind)
    }];
    let options = DatabaseOptions {
        durability: Durability::Sync,
        guarantee: ProcessingGuarantee::ExactlyOnce,
        environment: Some(faults.environment()),
        ..DatabaseOptions::default()
    };
    Database::open(path, &stores, options)
}

/// Rows in files, and no close.
fn write_without_close(path: &Path, faults: &Faults) {
    let db = open(path, faults).unwrap();
    let rates = db.versioned("rates").unwrap();
    for part in 0..3u8 {
        for n in 0..100u8 {
            db.write(|tx| rates.put(tx, &[n], Some(&[part]), Timestamp(i64::from(part))))
                .unwrap();
        }
        db.flush(true).unwrap();
    }
}

/// Bytes of a store's files.
fn file_bytes(db: &Database) -> u64 {
    match db
        .metrics()
        .unwrap()
        .of_store("rates", "live-sst-files-size")
    {
        Some(FigureValue::Whole(bytes)) => bytes,
        other => panic!("live-sst-files-size is {other:?}"),
    }
}

/// Once, an open ignored a failed compaction, so the filter of expired versions still read the rows
/// of the discarded store. Below a tombstone, such rows seem to supersede later ones.
#[test]
fn discarded_store_has_no_files_after_an_open_that_succeeds() {
    for operation in [Operation::Write, Operation::Sync] {
        let mut refused = 0;
        for after in 0.. {
            let (faults, dir) = (Faults::default(), tempfile::tempdir().unwrap());
            write_without_close(dir.path(), &faults);
            let failed = faults.failed();
            faults.fail(operation, after, true);
            let opened = open(dir.path(), &faults);
            faults.heal();
            let context = format!("{operation:?} {after}");
            match opened {
                Ok(db) => assert_eq!(file_bytes(&db), 0, "{context}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Io, "{context}: {error}");
                    refused += 1;
                    let db = open(dir.path(), &faults)
                        .unwrap_or_else(|error| panic!("{context}, opened again: {error}"));
                    assert_eq!(file_bytes(&db), 0, "{context}, opened again");
                }
            }
            if faults.failed() == failed {
                break;
            }
        }
        assert!(refused > 3, "{operation:?}: {refused} opens were refused");
    }
}
