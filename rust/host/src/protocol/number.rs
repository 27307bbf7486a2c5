//! The numbers of the protocol, each with its own type so that they cannot be confused.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A micro-batch: Spark's batch id, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub i64);

impl Epoch {
    /// Returns the epoch before; none for the first one.
    #[must_use]
    pub fn previous(self) -> Option<Self> {
        (self.0 > 0).then(|| Self(self.0 - 1))
    }

    /// Returns the epoch after.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// One start of a query, numbered from 1 by put-if-absent claims; a higher number is a newer run.
///
/// A command that fences the query (`holdfast rewind`, `holdfast epoch drop`) takes a number, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunNumber(pub u64);

impl RunNumber {
    /// The first run of a root.
    pub const FIRST: Self = Self(1);

    /// Returns the next number. Claims leave no gap, so a newer run exists if and only if the next
    /// number is claimed.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// A partition of the state, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartitionId(pub i32);

/// One attempt at a task: Spark's `taskAttemptId`, unique within an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempt(pub i64);

/// Counts the claims of a partition by hosts within a run, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

macro_rules! display_number {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}
display_number!(Epoch, RunNumber, PartitionId, Attempt, Generation);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_epoch_has_no_previous_epoch() {
        assert_eq!(Epoch(0).previous(), None);
        assert_eq!(Epoch(7).previous(), Some(Epoch(6)));
        assert_eq!(Epoch(7).next(), Epoch(8));
    }
}
