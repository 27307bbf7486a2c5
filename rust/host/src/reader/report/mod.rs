//! What the partitions of a root do, and what ails them: `condition.rs` decides it for one.

mod condition;
mod state_report;

pub use condition::{ConditionName, PartitionCondition, Severity};
pub use state_report::{PartitionReport, StateReport};
