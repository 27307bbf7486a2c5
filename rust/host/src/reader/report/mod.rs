//! Reports what the partitions of a root do, and what is wrong with them (`condition.rs`).

mod condition;
mod state_report;

pub use condition::{ConditionName, PartitionCondition, Severity};
pub use state_report::{PartitionReport, StateReport};
