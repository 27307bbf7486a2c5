//! Skeleton.
pub mod log;
pub mod protocol;
pub mod root;
