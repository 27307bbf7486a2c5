//! What a store is: its name, kind and settings.

use crate::expiry::retention::{first_retained_version, first_retained_window};

/// The name, kind and settings with which a store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSpec {
    /// Name, unique within a database. It has only letters, digits and `_ - .`, since it is part of
    /// family and file names.
    pub name: String,
    /// Kind and its settings.
    pub kind: StoreKind,
    /// If true, rows are in files. If false, they are in memory: the store is empty after an open
    /// and is restored from its changelog.
    pub persistent: bool,
    /// If true, writes take effect at the commit. If false, each write call is committed at once
    /// (KIP-892 calls such a store non-transactional).
    pub transactional: bool,
}

impl StoreSpec {
    /// Returns a store in files that takes part in transactions.
    pub fn new(name: impl Into<String>, kind: StoreKind) -> Self {
        Self {
            name: name.into(),
            kind,
            persistent: true,
            transactional: true,
        }
    }
}

/// The kinds of store. Durations are microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// key → value.
    KeyValue,
    /// key → value and timestamp.
    TimestampedKeyValue,
    /// (key, timestamp) → value or tombstone.
    Versioned {
        /// How far back versions can be read, and how late a write may be; not negative.
        history_retention: i64,
        /// The unit of expiry; positive. It decides how often the space of expired rows is freed,
        /// and never what can be read.
        segment_interval: i64,
    },
    /// (key, window start[, duplicate number]) → value, with a timestamp or without.
    Window {
        /// A window expires when its start is this far behind stream time; not negative.
        retention: i64,
        /// The length of a window; not negative, not above the retention.
        window_size: i64,
        /// If true, puts of the same key and start are separate rows. Fixed when the store is
        /// created.
        retain_duplicates: bool,
        /// If true, values have a timestamp of their own.
        timestamped: bool,
    },
    /// (key, [start, end]) → value.
    Session {
        /// A session expires when its end is this far behind stream time; not negative.
        retention: i64,
    },
}

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;

/// Returns the default segment interval for a history retention, both in microseconds: a fraction
/// of the retention, with a minimum (`docs/design/stores.md`).
pub fn default_segment_interval(history_retention: i64) -> i64 {
    if history_retention <= MINUTE {
        (history_retention / 3).max(2 * SECOND)
    } else if history_retention <= 5 * MINUTE {
        (history_retention / 5).max(20 * SECOND)
    } else if history_retention <= 60 * MINUTE {
        (history_retention / 12).max(MINUTE)
    } else {
        (history_retention / 24).max(5 * MINUTE)
    }
}

impl StoreKind {
    /// Returns a versioned store with a history retention in microseconds and the default segment
    /// interval.
    pub fn versioned(history_retention: i64) -> Self {
        Self::Versioned {
            history_retention,
            segment_interval: default_segment_interval(history_retention),
        }
    }

    /// Returns the kind's name in the metadata.
    pub fn name(&self) -> &'static str {
        match self {
            Self::KeyValue => "key_value",
            Self::TimestampedKeyValue => "timestamped_key_value",
            Self::Versioned { .. } => "versioned",
            Self::Window {
                timestamped: false, ..
            } => "window",
            Self::Window {
                timestamped: true, ..
            } => "timestamped_window",
            Self::Session { .. } => "session",
        }
    }

    /// Returns how far behind stream time the store can be read, in microseconds; 0 for kinds whose
    /// rows do not expire.
    pub fn retention(&self) -> i64 {
        match *self {
            Self::Window { retention, .. } | Self::Session { retention } => retention,
            Self::Versioned {
                history_retention, ..
            } => history_retention,
            Self::KeyValue | Self::TimestampedKeyValue => 0,
        }
    }

    /// The earliest time that can be read in a store with this stream time and retention.
    pub(crate) fn first_retained(&self, stream_time: i64, retention: i64) -> i64 {
        match self {
            Self::Versioned { .. } => first_retained_version(stream_time, retention),
            _ => first_retained_window(stream_time, retention),
        }
    }

    /// Returns whether a restore needs a time with every record. The table in `database/change.rs`
    /// says what the time means.
    pub fn restores_with_times(&self) -> bool {
        match self {
            Self::KeyValue | Self::Session { .. } => false,
            Self::TimestampedKeyValue | Self::Versioned { .. } | Self::Window { .. } => true,
        }
    }
}
