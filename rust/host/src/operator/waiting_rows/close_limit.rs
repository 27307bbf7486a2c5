//! The time up to which waiting rows are closed.

/// The time up to which rows are closed.
#[derive(Debug, Clone, Copy)]
pub enum CloseLimit {
    /// Rows before this time are closed.
    Before(i64),
    /// All rows are closed: no epoch follows this one.
    End,
}

impl CloseLimit {
    /// Whether rows of a time are closed.
    pub fn is_closed(self, time: i64) -> bool {
        match self {
            Self::Before(limit) => time < limit,
            Self::End => true,
        }
    }

    /// The last time that is closed.
    pub(super) fn last(self) -> Option<i64> {
        match self {
            Self::Before(limit) => limit.checked_sub(1),
            Self::End => Some(i64::MAX),
        }
    }
}
