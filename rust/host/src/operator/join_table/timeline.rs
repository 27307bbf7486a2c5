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
///
/// What ended before the horizon says nothing, dropped or not. What is in force at the horizon is
/// always kept, and from its begin on it says what the key was.
pub fn from(
    table: &VersionedStore,
    tx: &mut Transaction,
    key: &[u8],
    time: i64,
) -> Result<Vec<Stretch>> {
    let mut at = Timestamp(time.max(table.horizon(tx)));
    let first = table.get_as_of(tx, key, at, |version| {
        version.map(|version| Stretch {
            since: Some(version.timestamp.0),
            value: Some(version.value.to_vec()),
        })
    })?;
    let first = first.unwrap_or(Stretch {
        since: None,
        value: None,
    });
    let began = if at.0 > time {
        table
            .last_change(tx, key, at)?
            .filter(|began| began.0 > time)
    } else {
        None
    };
    let mut stretches = match began {
        Some(began) => vec![
            Stretch {
                since: None,
                value: None,
            },
            Stretch {
                since: Some(began.0),
                ..first
            },
        ],
        None => vec![first],
    };
    while let Some(next) = table.next_change(tx, key, at)? {
        let value = table.get_as_of(tx, key, next, |version| {
            version.map(|version| version.value.to_vec())
        })?;
        stretches.push(Stretch {
            since: Some(next.0),
            value,
        });
        at = next;
    }
    Ok(stretches)
}
