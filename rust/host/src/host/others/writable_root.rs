//! Which root a worker of another executor may write.

use std::path::PathBuf;

use crate::root::Root;

/// An open root, by its path and its id. A copy of a root has the same id under another path. A
/// root that was deleted and created again under its path has another id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WritableRoot {
    /// The path or address.
    pub path: PathBuf,
    /// The id.
    pub id: String,
}

impl WritableRoot {
    /// The path and the id of a root; none before its first check.
    pub fn of(root: &Root) -> Option<Self> {
        Some(Self {
            path: root.path().to_owned(),
            id: root.identity.first_id()?,
        })
    }
}
