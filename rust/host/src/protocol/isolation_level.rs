//! What a reader sees of an epoch that is not final.

use serde::{Deserialize, Serialize};

/// What a reader sees of an epoch that is not final.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationLevel {
    /// Nothing: all rows are of one final epoch.
    #[default]
    ReadCommitted,
    /// Also the changes that the newest run has staged so far for the next epoch. A later attempt
    /// may compute other rows.
    ReadUncommitted,
}

impl IsolationLevel {
    /// Whether it is [`IsolationLevel::ReadCommitted`].
    // Serde passes a reference.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub fn is_committed(&self) -> bool {
        *self == Self::ReadCommitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_read_committed_is_committed() {
        assert!(IsolationLevel::ReadCommitted.is_committed());
        assert!(!IsolationLevel::ReadUncommitted.is_committed());
    }
}
