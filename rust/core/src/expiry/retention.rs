//! The earliest event time at which a store can be read and written.

/// Returns the earliest time that a versioned store with this stream time retains. Both ends of the
/// retention are inclusive.
pub(crate) fn first_retained_version(stream_time: i64, history_retention: i64) -> i64 {
    stream_time.saturating_sub(history_retention)
}

/// Returns the earliest time that a window or session store with this stream time retains.
pub(crate) fn first_retained_window(stream_time: i64, retention: i64) -> i64 {
    // Not `stream_time - retention + 1`: if the subtraction saturates, the addition would move the
    // result.
    stream_time.saturating_sub(retention - 1)
}
