//! Event time.

use std::fmt;

/// A moment in epoch microseconds: Spark's and Python's own resolution. Negative before 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The earliest moment that can be written down.
    pub const MIN: Self = Self(i64::MIN);
    /// The latest moment that can be written down.
    pub const MAX: Self = Self(i64::MAX);
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
