//! The state of a store apart from its rows.

/// The state of a store apart from its rows; committed and rolled back with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreState {
    /// Greatest timestamp of an accepted write, over all keys.
    pub(crate) stream_time: Option<i64>,
    /// Times before this one cannot be read or written, even if the retention includes them: their
    /// rows may have expired while the retention was shorter.
    pub(crate) first_retained: Option<i64>,
    /// The number of the last put of a store that retains duplicates; 0 before the first.
    pub(crate) sequence: u64,
    /// A field changed since the last commit.
    pub(crate) changed: bool,
}
