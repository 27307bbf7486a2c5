//! The rows of one key of a versioned table from a time on.

use holdfast_core::{Result, Timestamp, Transaction, VersionedStore};

/// A time interval in which a key of the table does not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineInterval {
    /// When the interval begins: the time of its row or, if the key has no row in it, the end of
    /// the previous row. None in a first interval without a row.
    pub since: Option<i64>,
    /// The row in this interval, if the key has one.
    pub value: Option<Vec<u8>>,
}

impl TimelineInterval {
    /// No row of the key is known, nor when the interval began.
    const UNKNOWN: Self = Self {
        since: None,
        value: None,
    };
}

/// Calls `visit` with a key's intervals from a time on, the one at that time first.
///
/// Rows that end before the horizon are ignored, whether they have been dropped or not. The row
/// that is current at the horizon is always in the store. So the key's value is known from the time
/// of that row on, which may be before the horizon.
///
/// # Errors
/// Those of the store and of `visit`.
pub fn for_each_interval(
    table: &VersionedStore,
    tx: &mut Transaction,
    key: &[u8],
    time: i64,
    visit: &mut dyn FnMut(TimelineInterval) -> Result<()>,
) -> Result<()> {
    let mut at = Timestamp(time.max(table.horizon(tx)));
    let first = table.get_as_of(tx, key, at, |version| {
        version.map(|version| TimelineInterval {
            since: Some(version.timestamp.0),
            value: Some(version.value.to_vec()),
        })
    })?;
    let first = first.unwrap_or(TimelineInterval::UNKNOWN);
    let began = if at.0 > time {
        table
            .last_change(tx, key, at)?
            .filter(|began| began.0 > time)
    } else {
        None
    };
    match began {
        Some(began) => {
            visit(TimelineInterval::UNKNOWN)?;
            visit(TimelineInterval {
                since: Some(began.0),
                ..first
            })?;
        }
        None => visit(first)?,
    }
    while let Some(next) = table.next_change(tx, key, at)? {
        let value = table.get_as_of(tx, key, next, |version| {
            version.map(|version| version.value.to_vec())
        })?;
        visit(TimelineInterval {
            since: Some(next.0),
            value,
        })?;
        at = next;
    }
    Ok(())
}
