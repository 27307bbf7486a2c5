//! Where a reader's copies are, and how much of the disk they may take.

use std::path::PathBuf;

/// Where a reader's copies are, and how much of the disk they may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSettings {
    /// The folder in which the reader makes a folder for its copies; none: the temporary folder.
    pub directory: Option<PathBuf>,
    /// The most bytes of all copies. A copy that is being read is not deleted, so they may exceed
    /// this.
    pub bytes: u64,
}

impl Default for CacheSettings {
    /// The temporary folder, and 16 GiB.
    fn default() -> Self {
        Self {
            directory: None,
            bytes: 16 << 30,
        }
    }
}
