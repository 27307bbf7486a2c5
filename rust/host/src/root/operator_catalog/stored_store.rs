//! The stores of an operator, as the root records them. A reader opens its copy of a database with
//! them.

use holdfast_core::{StoreKind, StoreSpec};
use serde::{Deserialize, Serialize};

/// A store of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredStore {
    /// Its name.
    pub name: String,
    /// Its kind, with its settings.
    #[serde(flatten)]
    pub kind: StoredKind,
}

impl From<&StoreSpec> for StoredStore {
    fn from(store: &StoreSpec) -> Self {
        Self {
            name: store.name.clone(),
            kind: StoredKind::from(&store.kind),
        }
    }
}

impl From<&StoredStore> for StoreSpec {
    fn from(store: &StoredStore) -> Self {
        Self::new(&store.name, store.kind.into())
    }
}

/// The kind of a store as requests and the root have it. Durations are microseconds.
///
/// See [`StoreKind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are those of StoreKind")]
pub enum StoredKind {
    /// A key-value store.
    KeyValue,
    /// A timestamped key-value store.
    TimestampedKeyValue,
    /// A versioned store.
    Versioned {
        history_retention: i64,
        segment_interval: i64,
    },
    /// A window store.
    Window {
        retention: i64,
        window_size: i64,
        retain_duplicates: bool,
    },
    /// A timestamped window store.
    TimestampedWindow {
        retention: i64,
        window_size: i64,
        retain_duplicates: bool,
    },
    /// A session store.
    Session { retention: i64 },
}

impl StoredKind {
    /// Returns this kind of store with the longer retention of two stores of windows or sessions.
    #[must_use]
    pub fn or_longer(mut self, mut other: Self) -> Self {
        let retentions = (self.windows_retention(), other.windows_retention());
        if let (Some(retention), Some(of_other)) = retentions {
            *retention = (*retention).max(*of_other);
        }
        self
    }

    fn windows_retention(&mut self) -> Option<&mut i64> {
        match self {
            Self::Window { retention, .. }
            | Self::TimestampedWindow { retention, .. }
            | Self::Session { retention } => Some(retention),
            Self::KeyValue | Self::TimestampedKeyValue | Self::Versioned { .. } => None,
        }
    }
}

impl From<StoredKind> for StoreKind {
    fn from(kind: StoredKind) -> Self {
        let window = |retention, window_size, retain_duplicates, timestamped| Self::Window {
            retention,
            window_size,
            retain_duplicates,
            timestamped,
        };
        match kind {
            StoredKind::KeyValue => Self::KeyValue,
            StoredKind::TimestampedKeyValue => Self::TimestampedKeyValue,
            StoredKind::Versioned {
                history_retention,
                segment_interval,
            } => Self::Versioned {
                history_retention,
                segment_interval,
            },
            StoredKind::Window {
                retention,
                window_size,
                retain_duplicates,
            } => window(retention, window_size, retain_duplicates, false),
            StoredKind::TimestampedWindow {
                retention,
                window_size,
                retain_duplicates,
            } => window(retention, window_size, retain_duplicates, true),
            StoredKind::Session { retention } => Self::Session { retention },
        }
    }
}

impl From<&StoreKind> for StoredKind {
    fn from(kind: &StoreKind) -> Self {
        match *kind {
            StoreKind::KeyValue => Self::KeyValue,
            StoreKind::TimestampedKeyValue => Self::TimestampedKeyValue,
            StoreKind::Versioned {
                history_retention,
                segment_interval,
            } => Self::Versioned {
                history_retention,
                segment_interval,
            },
            StoreKind::Window {
                retention,
                window_size,
                retain_duplicates,
                timestamped: false,
            } => Self::Window {
                retention,
                window_size,
                retain_duplicates,
            },
            StoreKind::Window {
                retention,
                window_size,
                retain_duplicates,
                timestamped: true,
            } => Self::TimestampedWindow {
                retention,
                window_size,
                retain_duplicates,
            },
            StoreKind::Session { retention } => Self::Session { retention },
        }
    }
}
