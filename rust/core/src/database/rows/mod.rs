//! The rows of the database's own families: metadata and changelog offsets.

pub(super) mod keys;
pub(super) mod offset_rows;
pub(super) mod open_marker;
pub(super) mod store_descriptor;

use crate::rocks::Family;

/// The families that belong to the database and not to a store.
#[derive(Clone, Copy)]
pub(super) struct OwnFamilies {
    pub(super) metadata: Family,
    pub(super) offsets: Family,
}
