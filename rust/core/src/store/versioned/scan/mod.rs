//! The scans of a versioned store, one type for each order of reads.

pub(super) mod as_of;
pub(super) mod backward;
pub(super) mod between;
pub(super) mod latest;
