//! The earliest event time at which a store can be read and written.

/// The retention, in microseconds, with which nothing expires.
const FOREVER: i64 = i64::MAX;

/// Returns the earliest time that a versioned store with this stream time retains. Both ends of the
/// retention are inclusive. A retention of `i64::MAX` retains all times.
pub(crate) fn first_retained_version(stream_time: i64, history_retention: i64) -> i64 {
    match history_retention {
        FOREVER => i64::MIN,
        _ => stream_time.saturating_sub(history_retention),
    }
}

/// Returns the earliest time that a window or session store with this stream time retains. All
/// times and the retention are in microseconds; a retention of `i64::MAX` retains all times.
pub fn first_retained_window(stream_time: i64, retention: i64) -> i64 {
    match retention {
        FOREVER => i64::MIN,
        // Not `stream_time - retention + 1`: if the subtraction saturates, the addition would move
        // the result.
        _ => stream_time.saturating_sub(retention.saturating_sub(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_retention_retains_all_times() {
        let newest = 1_767_225_600_000_000;
        assert_eq!(first_retained_window(newest, i64::MAX), i64::MIN);
        assert_eq!(first_retained_version(newest, i64::MAX), i64::MIN);
        assert_eq!(first_retained_window(newest, 10), newest - 9);
        assert_eq!(first_retained_version(newest, 10), newest - 10);
        assert_eq!(first_retained_window(i64::MIN + 1, 10), i64::MIN);
        assert_eq!(first_retained_version(i64::MIN + 1, 10), i64::MIN);
    }
}
