//! What is wrong with a partition.

use serde::Serialize;

use crate::net::metrics::{DatabaseAccess, PartitionMetrics};
use crate::protocol::Epoch;

/// What is wrong with a partition, if anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartitionCondition {
    /// For programs.
    pub name: ConditionName,
    /// How bad it is.
    pub severity: Severity,
    /// For people, in a few words.
    pub text: String,
    /// How many epochs the partition is behind the newest final one. One is normal: a host applies
    /// an epoch when the next one begins.
    pub epochs_behind: u64,
}

/// The kind of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConditionName {
    /// Nothing is wrong.
    InOrder,
    /// Its host uploads a snapshot, as it does regularly.
    Uploading,
    /// It is more than one epoch behind.
    Behind,
    /// A session opens or restores it.
    Opening,
    /// Its database is not open: the host answers no reads of the partition until the next session.
    Closed,
    /// Its host fails to take snapshots, so the log grows.
    NoSnapshots,
    /// Its database was damaged or deleted since its host began to serve it, and rebuilt.
    Rebuilt,
    /// No host answers for it.
    Unserved,
    /// The reader cannot read the addresses of the hosts.
    Unknown,
}

/// How bad a condition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing is to be done.
    Good,
    /// It may end by itself, or get worse.
    Warn,
    /// A person has to act.
    Bad,
}

impl PartitionCondition {
    /// Returns the condition of a partition. `newest` is the newest final epoch; `figures` are the
    /// host's, none if no host answers.
    pub fn of(newest: Option<Epoch>, figures: Option<&PartitionMetrics>) -> Self {
        let Some(figures) = figures else {
            return Self::new(ConditionName::Unserved, "no host answers", 0);
        };
        let behind = match (newest, figures.epoch) {
            (Some(newest), Some(epoch)) if epoch < newest => newest.0.abs_diff(epoch.0),
            _ => 0,
        };
        if figures.access == DatabaseAccess::Busy {
            return Self::new(ConditionName::Opening, "opens or restores", behind);
        }
        match figures.snapshots.rebuilds {
            0 => {}
            1 => {
                let text = "rebuilt once: look at the disk";
                return Self::new(ConditionName::Rebuilt, text, behind);
            }
            rebuilds => {
                let text = format!("rebuilt {rebuilds} times: look at the disk");
                return Self::new(ConditionName::Rebuilt, text, behind);
            }
        }
        if figures.access == DatabaseAccess::Closed {
            return Self::new(ConditionName::Closed, "its database is not open", behind);
        }
        if figures.snapshots.failures > 0 {
            let text = match figures.snapshots.failures {
                1 => "a snapshot failed: see the host's log".to_owned(),
                failures => format!("{failures} snapshots failed: see the host's log"),
            };
            return Self::new(ConditionName::NoSnapshots, text, behind);
        }
        if behind > 1 {
            let text = format!("{behind} epochs behind");
            return Self::new(ConditionName::Behind, text, behind);
        }
        if figures.snapshots.is_uploading {
            return Self::new(ConditionName::Uploading, "uploads a snapshot", behind);
        }
        Self::new(ConditionName::InOrder, "in order", behind)
    }

    /// Returns the condition of each partition if the addresses of the hosts cannot be read.
    pub fn unknown() -> Self {
        let text = "no host is asked: readers/ cannot be read";
        Self::new(ConditionName::Unknown, text, 0)
    }

    fn new(name: ConditionName, text: impl Into<String>, epochs_behind: u64) -> Self {
        Self {
            name,
            severity: name.severity(),
            text: text.into(),
            epochs_behind,
        }
    }
}

impl ConditionName {
    /// How bad it is.
    fn severity(self) -> Severity {
        match self {
            Self::InOrder | Self::Uploading => Severity::Good,
            Self::Behind | Self::Opening | Self::Closed | Self::NoSnapshots | Self::Unknown => {
                Severity::Warn
            }
            Self::Rebuilt | Self::Unserved => Severity::Bad,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{OperatorName, PartitionId};

    fn figures(epoch: i64) -> PartitionMetrics {
        let operator = OperatorName::new("prices").expect("a name");
        let mut figures = PartitionMetrics::new(operator, PartitionId(0));
        figures.access = DatabaseAccess::Open;
        figures.epoch = Some(Epoch(epoch));
        figures
    }

    fn text_of(newest: i64, figures: &PartitionMetrics) -> (Severity, String) {
        let condition = PartitionCondition::of(Some(Epoch(newest)), Some(figures));
        (condition.severity, condition.text)
    }

    #[test]
    fn first_condition_that_applies_is_named() {
        let mut figures = figures(7);
        assert_eq!(
            text_of(7, &figures),
            (Severity::Good, "in order".to_owned())
        );
        assert_eq!(
            text_of(8, &figures),
            (Severity::Good, "in order".to_owned())
        );
        // The final epoch was read before the figures.
        assert_eq!(
            text_of(6, &figures),
            (Severity::Good, "in order".to_owned())
        );
        figures.snapshots.is_uploading = true;
        assert_eq!(text_of(7, &figures).1, "uploads a snapshot");
        let behind = text_of(10, &figures);
        assert_eq!(behind, (Severity::Warn, "3 epochs behind".to_owned()));
        figures.snapshots.failures = 1;
        let failed = (
            Severity::Warn,
            "a snapshot failed: see the host's log".to_owned(),
        );
        assert_eq!(text_of(10, &figures), failed);
        figures.snapshots.failures = 2;
        assert_eq!(
            text_of(7, &figures).1,
            "2 snapshots failed: see the host's log"
        );
        figures.snapshots.rebuilds = 1;
        assert_eq!(text_of(10, &figures).1, "rebuilt once: look at the disk");
        figures.snapshots.rebuilds = 2;
        let rebuilt = text_of(10, &figures);
        assert_eq!(rebuilt.0, Severity::Bad);
        assert_eq!(rebuilt.1, "rebuilt 2 times: look at the disk");
        figures.access = DatabaseAccess::Busy;
        assert_eq!(text_of(7, &figures).1, "opens or restores");
    }

    #[test]
    fn partition_whose_database_is_not_open_is_not_in_order() {
        let mut figures = figures(7);
        (figures.access, figures.epoch) = (DatabaseAccess::Closed, None);
        let closed = (Severity::Warn, "its database is not open".to_owned());
        assert_eq!(text_of(7, &figures), closed);
        // Before its first epoch, an open database has no epoch, either.
        figures.access = DatabaseAccess::Open;
        assert_eq!(text_of(0, &figures).1, "in order");
    }

    #[test]
    fn partition_without_a_host_is_bad() {
        let condition = PartitionCondition::of(Some(Epoch(7)), None);
        assert_eq!(condition.name, ConditionName::Unserved);
        assert_eq!(condition.severity, Severity::Bad);
    }
}
