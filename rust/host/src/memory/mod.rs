//! A host's memory, shared by its partitions.

pub mod budget;
