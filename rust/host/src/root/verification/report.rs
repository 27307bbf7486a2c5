//! The report of a verification, and its progress.

use serde::Serialize;

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerificationReport {
    /// How many objects were read.
    pub objects: u64,
    /// What is damaged, in the order in which it was found.
    pub damage: Vec<Damage>,
}

/// One object that is damaged or missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The object's name below the root.
    pub object: String,
    /// What is wrong with it, and what to do.
    pub problem: String,
}

/// The progress of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerificationProgress {
    /// How many epochs of the log and partitions with snapshots were read.
    pub done: u64,
    /// How many epochs and partitions there are.
    pub total: u64,
    /// How many objects were read.
    pub objects: u64,
}
