//! A host's memory, shared by its partitions and sessions.

pub mod budget;
pub mod split;
