//! The part of a table that a scan may enter.

/// A range of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// First key, inclusive; `None` is open.
    pub lower: Option<Vec<u8>>,
    /// End, exclusive; `None` is open.
    pub upper: Option<Vec<u8>>,
    /// Every seek stays within the key part in which it starts, and the prefix filters of the files
    /// are checked first (`versions` families only).
    pub within_key: bool,
}
