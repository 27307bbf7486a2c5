//! A few rows in two stores, committed by transactions that spill. They are few enough to stop such
//! a commit at each of its steps in turn.

use crate::step_error::StepError;
use holdfast_core::{
    Database, Error, Offset, OffsetChange, StoreKind, StoreSpec, Timestamp, TopicPartition,
};

const ROWS: u8 = 20;

/// Returns the database's stores.
pub fn specs() -> Vec<StoreSpec> {
    let versioned = StoreKind::Versioned {
        history_retention: 1_000_000,
        segment_interval: 1_000,
    };
    vec![
        StoreSpec::new("kv", StoreKind::KeyValue),
        StoreSpec::new("rates", versioned),
    ]
}

fn counter() -> TopicPartition {
    TopicPartition {
        topic: "log".into(),
        partition: 0,
    }
}

/// Stages transaction `n`, and spills it.
pub fn spill(db: &Database, n: i64) -> Result<(), Error> {
    let mut tx = db.transaction()?;
    for row in 0..ROWS {
        db.key_value("kv")?
            .put(&mut tx, &[row], Some(&n.to_be_bytes()))?;
        db.versioned("rates")?
            .put(&mut tx, &[row], Some(&n.to_be_bytes()), Timestamp(n))?;
    }
    tx.spill()
}

/// Commits transaction `n`.
pub fn commit(db: &Database, n: i64) -> Result<(), Error> {
    db.commit(OffsetChange::Set(vec![(counter(), Some(Offset(n)))]))
}

/// Returns the number of the last transaction in the database; all rows up to it must be present.
pub fn last_commit(db: &Database) -> Result<i64, StepError> {
    let n = db
        .committed_offset(&counter())?
        .map_or(0, |offset| offset.0);
    let same = |what: String, found: Option<Vec<u8>>, written: i64| {
        let expected = Some(written.to_be_bytes().to_vec());
        if found == expected {
            Ok(())
        } else {
            Err(StepError::wrong(
                format!("{what} of commit {n}"),
                &found,
                &expected,
            ))
        }
    };
    let mut tx = db.begin()?;
    for row in 0..ROWS {
        let found = db
            .key_value("kv")?
            .get(&mut tx, &[row], |value| value.map(<[u8]>::to_vec))?;
        same(format!("row {row}"), found, n)?;
        for at in 1..=n {
            let found = db
                .versioned("rates")?
                .get_as_of(&mut tx, &[row], Timestamp(at), |v| {
                    v.map(|v| v.value.to_vec())
                })?;
            same(format!("version {row} as of {at}"), found, at)?;
        }
        let found = db
            .versioned("rates")?
            .get(&mut tx, &[row], |v| v.map(|v| v.value.to_vec()))?;
        same(format!("newest version {row}"), found, n)?;
    }
    Ok(n)
}
