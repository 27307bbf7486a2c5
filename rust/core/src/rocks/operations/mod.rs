//! Operations on an open database.

pub(super) mod maintenance;
pub(super) mod properties;
pub(super) mod read;
pub(super) mod rewrite;
pub(super) mod sorted_files;
pub(super) mod write;
