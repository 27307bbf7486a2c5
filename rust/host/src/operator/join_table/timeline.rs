//! What a key of the other table was from a time on.

use holdfast_core::{Result, Timestamp, Transaction, VersionedStore};

/// A stretch of time in which the other table's key does not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// When it began, if that is known: with the row in force, or with the end of the one before.
    pub since: Option<i64>,
    /// The row in force, if there is one.
    pub value: Option<Vec<u8>>,
}

/// A key's stretches from a time on, the one at that time first.
pub fn from(table: &VersionedStore, tx: &mut Transaction, key: &[u8], time: i64) -> Result<Vec<Stretch>> {
    let first = table.get_as_of(tx, key, Timestamp(time), |version| {
        version.map(|version| Stretch { since: Some(version.timestamp.0), value: Some(version.value.to_vec()) })
    })?;
    let mut stretches = vec![first.unwrap_or(Stretch { since: None, value: None })];
    let mut at = Timestamp(time);
    while let Some(next) = table.next_change(tx, key, at)? {
        let value = table.get_as_of(tx, key, next, |version| version.map(|version| version.value.to_vec()))?;
        stretches.push(Stretch { since: Some(next.0), value });
        at = next;
    }
    Ok(stretches)
}
