//! The stores. Each only speaks to a transaction; none knows what lies beneath it.

pub(crate) mod figures;
pub mod key_part;
pub mod key_value;
pub mod session;
pub mod timestamped;
pub mod versioned;
pub mod window;
pub mod windowed;

/// What a store is, and what must be known to open it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSpec {
    /// Name, unique within a database: letters, digits and `_ - .` only, since families and files
    /// carry it.
    pub name: String,
    /// Kind and its settings.
    pub kind: StoreKind,
    /// Kept in files. A store in memory is empty after each open, and its changelog brings it back.
    pub persistent: bool,
    /// Writes wait for the commit. Else each write call goes straight through (KIP-892 calls such a
    /// store non-transactional).
    pub transactional: bool,
}

impl StoreSpec {
    /// A store that is kept in files and takes part in transactions.
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
        /// How far back versions can be asked for, and the grace of late writes; not negative.
        history_retention: i64,
        /// The unit of expiry; positive. Its only effect is speed.
        segment_interval: i64,
    },
    /// (key, window start[, duplicate number]) → value, with a timestamp or without.
    Window {
        /// How far behind stream time a window's start can be asked for and written; not negative.
        retention: i64,
        /// From a window's start to its end; not negative, not above the retention.
        window_size: i64,
        /// Every put is kept, also those of one key and start. Fixed when the store is made.
        retain_duplicates: bool,
        /// Values carry a timestamp of their own.
        timestamped: bool,
    },
    /// (key, [start, end]) → value.
    Session {
        /// How far behind stream time a session's end can be asked for and written; not negative.
        retention: i64,
    },
}

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;

/// The segment interval that is the default for a history retention, both in microseconds
/// (`stores.md` section 5): a fraction of it, with a floor.
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
    /// A versioned store of a history retention in microseconds, with the default segment interval.
    pub fn versioned(history_retention: i64) -> Self {
        Self::Versioned {
            history_retention,
            segment_interval: default_segment_interval(history_retention),
        }
    }

    /// The kind's name in the metadata.
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

    /// How far behind stream time the store can be asked for; 0 for kinds whose rows do not grow
    /// old.
    pub(crate) fn retention(&self) -> i64 {
        match *self {
            Self::Window { retention, .. } | Self::Session { retention } => retention,
            Self::Versioned {
                history_retention, ..
            } => history_retention,
            Self::KeyValue | Self::TimestampedKeyValue => 0,
        }
    }

    /// The first moment that a store of this kind can be asked for at a stream time, with some
    /// retention.
    pub(crate) fn first_kept(&self, stream_time: i64, retention: i64) -> i64 {
        match self {
            Self::Versioned { .. } => versioned::first_kept(stream_time, retention),
            _ => windowed::first_kept(stream_time, retention),
        }
    }

    /// Whether a restore needs a time with every record; see [`crate::Database::restore`] for what
    /// it means.
    pub fn restores_with_times(&self) -> bool {
        match self {
            Self::KeyValue | Self::Session { .. } => false,
            Self::TimestampedKeyValue | Self::Versioned { .. } | Self::Window { .. } => true,
        }
    }
}
