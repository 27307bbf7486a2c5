//! The state of a store apart from its rows.

/// The state of a store apart from its rows; committed and rolled back with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreState {
    /// Greatest timestamp of an accepted write, over all keys.
    pub(crate) stream_time: Option<i64>,
    /// The earliest time that can be read, if it is later than the retention allows: earlier rows
    /// may have expired under a shorter retention.
    pub(crate) first_retained: Option<i64>,
    /// How many duplicates were numbered.
    pub(crate) sequence: u64,
    /// A field changed since the last commit.
    pub(crate) changed: bool,
}
