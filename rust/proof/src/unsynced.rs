//! What a loss of power leaves of unsynced bytes.

/// Which unsynced bytes are on the disk after a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsyncedBytes {
    /// Nothing.
    Nothing = 0,
    /// A part of each file: half of a commit file, a random length of any other file.
    Part = 1,
    /// Everything, as after a kill.
    All = 2,
}
