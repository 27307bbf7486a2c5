//! Where a reader's copies are, and how much of the disk they may take.

use std::path::PathBuf;

/// Where a reader's copies are, and how much of the disk they may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSettings {
    /// The reader makes a folder for its copies below this one; none: the temporary folder.
    pub directory: Option<PathBuf>,
    /// The most bytes of all copies that are not being read.
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
