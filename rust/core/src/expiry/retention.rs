//! The first moment that a store can be read and written.

/// The first moment of a versioned store at a stream time; both ends of the retention are
/// inclusive.
pub(crate) fn first_retained_version(stream_time: i64, history_retention: i64) -> i64 {
    stream_time.saturating_sub(history_retention)
}

/// The first moment of a window or session store at a stream time.
pub(crate) fn first_retained_window(stream_time: i64, retention: i64) -> i64 {
    // Not `stream_time - retention + 1`: if the subtraction saturates, the addition would move the
    // result.
    stream_time.saturating_sub(retention - 1)
}
